//! The whole cluster as one value: things go in through `handle_*`, come out through `poll_*`, and nothing inside
//! reads a clock, draws from the system's randomness, spawns, locks or touches a socket.
//!
//! - [`Cluster::handle_opened`], [`Cluster::handle_request`], [`Cluster::handle_closed`]: what clients do.
//! - [`Cluster::handle_command`]: what the process or its user asks.
//! - [`Cluster::handle_timeout`]: to be called when [`Cluster::poll_timeout`] says so.
//! - [`Cluster::poll_output`]: to be called until it has nothing more, after each of the above.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::api::{self, Answer, Caller, Connection, Context, Node, Prepared};
use crate::base::{ConnectionId, Instant, NodeId, Now};

pub use crate::api::Reply;

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Ids of the virtual brokers.
    pub nodes: Vec<NodeId>,
    /// Decides every random draw.
    pub seed: u64,
}

/// What comes out of the cluster.
#[derive(Debug)]
pub enum Output {
    /// A response, or the end of a request that has none.
    Reply(Reply),
    /// The connection must be closed.
    Close {
        /// Which.
        connection: ConnectionId,
        /// Why, for the log.
        reason: &'static str,
    },
}

/// What the process or its user may ask of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// The process ends: whatever waits is answered now with what there is.
    Shutdown,
}

/// A cluster of virtual brokers.
#[derive(Debug)]
pub struct Cluster {
    nodes: Vec<Node>,
    connections: FxHashMap<ConnectionId, Connection>,
    outputs: VecDeque<Output>,
}

impl Cluster {
    /// A cluster with its brokers registered and no topics.
    pub fn new(config: ClusterConfig, _now: Now) -> Self {
        Cluster {
            nodes: config.nodes.into_iter().map(|id| Node { id }).collect(),
            connections: FxHashMap::default(),
            outputs: VecDeque::new(),
        }
    }

    /// A client has connected.
    pub fn handle_opened(&mut self, _now: Now, id: ConnectionId, connection: Connection) {
        self.connections.insert(id, connection);
    }

    /// A client asks something. A connection has one request at a time: the next may come once this one is
    /// answered (or [`Output::Reply`] has said that it has no response).
    pub fn handle_request(&mut self, now: Now, id: ConnectionId, prepared: Prepared) {
        let Some(connection) = self.connections.get(&id) else { return };
        let Some(node) = self.nodes.iter_mut().find(|node| node.id == connection.node) else { return };
        let caller = Caller {
            connection: id,
            correlation_id: prepared.correlation_id,
            version: prepared.version,
            client_id: prepared.client_id,
        };
        let mut context = Context { now, caller: &caller, connection, node };
        let reply = |response| {
            let Caller { connection, correlation_id, version, .. } = caller;
            Output::Reply(Reply { connection, correlation_id, version, response })
        };
        match api::handle(&mut context, prepared.request) {
            Answer::Ready(response) => self.outputs.push_back(reply(Some(response))),
            Answer::Silent => self.outputs.push_back(reply(None)),
            Answer::Parked => {}
            Answer::Close(reason) => self.outputs.push_back(Output::Close { connection: id, reason }),
        }
    }

    /// A client has gone, and whatever it waited for with it.
    pub fn handle_closed(&mut self, _now: Now, id: ConnectionId) {
        self.connections.remove(&id);
    }

    /// The process or its user asks something.
    pub fn handle_command(&mut self, _now: Now, command: Command) {
        match command {
            Command::Shutdown => {}
        }
    }

    /// The time that [`Cluster::poll_timeout`] named has come (or has not quite: early calls do nothing).
    pub fn handle_timeout(&mut self, _now: Now) {}

    /// When [`Cluster::handle_timeout`] must be called next; none if nothing has a deadline.
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The next thing to come out.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}
