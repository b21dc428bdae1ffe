//! What a handler may touch: the parts of the cluster that the call lends it.

use std::sync::Arc;

use crate::base::{ConnectionId, NodeId, Now};

/// Where a broker can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// A name or address; an IPv6 address without brackets.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
}

/// What is known of a client's connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The broker that it came to.
    pub node: NodeId,
    /// Kafka's name of the listener that it came to, such as `PLAINTEXT`.
    pub listener: Arc<str>,
    /// Our end of it: what is advertised to this client where nothing else is set, since the client has just
    /// shown that it can reach it.
    pub local: Endpoint,
    /// The client's address, for people to read.
    pub peer: Arc<str>,
}

/// Who asked, and how the answer finds its way back.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The connection to answer on.
    pub connection: ConnectionId,
    /// The request's number, to go back with the answer.
    pub correlation_id: i32,
    /// Version of request and answer.
    pub version: i16,
    /// The client's name for itself.
    pub client_id: Option<Arc<str>>,
}

/// One virtual broker, as handlers see it.
#[derive(Clone, Debug)]
pub struct Node {
    /// Kafka's `node.id`.
    pub id: NodeId,
}

/// What one call may read and change.
#[derive(Debug)]
pub struct Context<'a> {
    /// The moment of the call.
    pub now: Now,
    /// Who asks.
    pub caller: &'a Caller,
    /// The caller's connection.
    pub connection: &'a Connection,
    /// The broker that was asked.
    pub node: &'a mut Node,
}

/// What goes back to a client.
#[derive(Debug)]
pub struct Reply {
    /// Where to.
    pub connection: ConnectionId,
    /// The number of the request that is answered.
    pub correlation_id: i32,
    /// Version of the response.
    pub version: i16,
    /// None where the protocol has no response (Produce with acks=0): the connection just goes on.
    pub response: Option<super::Response>,
}
