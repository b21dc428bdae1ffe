//! The listening sockets of every broker: open while it runs or is frozen, closed while it is down, so that clients are
//! refused as by a machine whose broker isn't there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::listener::{Bound, Shared};
use super::options::StartError;
use crate::base::NodeId;
use crate::cluster::{Command, CommandError, NodeConfig};
use crate::controller::configs::{Listener, Overrides};

/// How long after a failure the ports of a broker that has started again are tried anew.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// What is to become of a broker's listening sockets.
#[derive(Debug)]
pub(crate) enum DoorChange {
    /// The broker is down.
    Close(NodeId),
    /// The broker runs again.
    Open(NodeId),
    /// There is to be one more broker; the answer says which it is, or why there can't be.
    Add(NewBroker, oneshot::Sender<Result<NodeId, AddBrokerError>>),
    /// There is no such broker any more.
    Remove(NodeId),
    /// All that was asked for before is to be done, and its failures told: one line for each.
    Settle(oneshot::Sender<Vec<String>>),
}

/// A broker that is to be added.
#[derive(Clone, Debug)]
pub struct NewBroker {
    /// Kafka's `node.id`; none for the next free one.
    pub id: Option<NodeId>,
    /// Kafka's `broker.rack`.
    pub rack: Option<String>,
    /// Where it listens: at least one.
    pub listeners: Vec<Listener>,
}

/// Why a broker can't be added.
#[derive(Debug, thiserror::Error)]
pub enum AddBrokerError {
    /// It can't listen there.
    #[error(transparent)]
    Listen(#[from] StartError),
    /// The cluster can't have it.
    #[error(transparent)]
    Refused(#[from] CommandError),
}

/// The listening sockets of all brokers.
#[derive(Debug)]
pub(crate) struct Doors {
    shared: Arc<Shared>,
    by_broker: BTreeMap<NodeId, Door>,
    changes: mpsc::UnboundedReceiver<DoorChange>,
    failures: Vec<String>,
}

/// The listening sockets of one broker.
#[derive(Debug)]
struct Door {
    /// With the ports that they got at first.
    listeners: Vec<Listener>,
    acceptors: JoinSet<()>,
}

impl Doors {
    pub(crate) fn new(
        shared: Arc<Shared>,
        bound: Vec<(NodeId, Vec<Bound>)>,
        changes: mpsc::UnboundedReceiver<DoorChange>,
    ) -> Self {
        let mut doors = Doors { shared, by_broker: BTreeMap::new(), changes, failures: Vec::new() };
        bound.into_iter().for_each(|(node, bound)| doors.add(node, bound));
        doors
    }

    /// Carries out changes as they come. Dropping this closes all sockets.
    pub(crate) async fn run(mut self) {
        while let Some(change) = self.changes.recv().await {
            match change {
                DoorChange::Close(node) => {
                    if let Some(door) = self.by_broker.get_mut(&node) {
                        door.acceptors.shutdown().await;
                    }
                }
                DoorChange::Open(node) => self.open(node),
                DoorChange::Add(broker, done) => {
                    // Whoever asked may have gone.
                    let _ = done.send(self.add_broker(broker));
                }
                DoorChange::Remove(node) => {
                    if let Some(mut door) = self.by_broker.remove(&node) {
                        door.acceptors.shutdown().await;
                    }
                }
                DoorChange::Settle(settled) => {
                    // Whoever asked may have gone.
                    let _ = settled.send(std::mem::take(&mut self.failures));
                }
            }
        }
    }

    fn add(&mut self, node: NodeId, bound: Vec<Bound>) {
        let listeners = bound.iter().map(|bound| bound.listener().clone()).collect();
        let mut door = Door { listeners, acceptors: JoinSet::new() };
        door.accept(bound, &self.shared, node);
        self.by_broker.insert(node, door);
    }

    fn add_broker(&mut self, broker: NewBroker) -> Result<NodeId, AddBrokerError> {
        let NewBroker { id, rack, listeners } = broker;
        let driver = self.shared.driver.clone();
        let id = driver.look(|cluster, _| {
            let id = id.unwrap_or_else(|| cluster.next_broker_id());
            cluster.check_new_broker(id).map(|()| id)
        })?;
        let bound = listeners.into_iter().map(Bound::bind).collect::<Result<Vec<_>, _>>()?;
        let endpoints: Vec<_> = bound.iter().map(|bound| bound.endpoint().clone()).collect();
        if endpoints.is_empty() {
            return Err(StartError::NoListener.into());
        }
        let configs = Overrides::default();
        let config = NodeConfig { id, rack: rack.map(Arc::from), endpoints, configs };
        driver.command(Command::AddBroker(config))?;
        self.add(id, bound);
        Ok(id)
    }

    fn open(&mut self, node: NodeId) {
        let Some(door) = self.by_broker.get_mut(&node) else { return };
        for listener in door.listeners.clone() {
            match Bound::bind(listener.clone()) {
                Ok(bound) => door.accept(vec![bound], &self.shared, node),
                Err(error) => {
                    self.failures.push(format!(
                        "broker {} runs again, but: {error}; it is tried again every {RETRY_PAUSE:?}",
                        node.0
                    ));
                    door.retry(listener, error, &self.shared, node);
                }
            }
        }
    }
}

impl Door {
    fn accept(&mut self, bound: Vec<Bound>, shared: &Arc<Shared>, node: NodeId) {
        for acceptor in bound.into_iter().flat_map(|bound| bound.into_acceptors(shared, node)) {
            self.acceptors.spawn(acceptor.run());
        }
    }

    /// Another process has taken the port meanwhile: there is no event for when it gives it back.
    fn retry(&mut self, listener: Listener, error: StartError, shared: &Arc<Shared>, node: NodeId) {
        tracing::error!("broker {}: {error}", node.0);
        let shared = shared.clone();
        self.acceptors.spawn(async move {
            let bound = loop {
                tokio::time::sleep(RETRY_PAUSE).await;
                if let Ok(bound) = Bound::bind(listener.clone()) {
                    break bound;
                }
            };
            let mut acceptors = JoinSet::new();
            for acceptor in bound.into_acceptors(&shared, node) {
                acceptors.spawn(acceptor.run());
            }
            while acceptors.join_next().await.is_some() {}
        });
    }
}
