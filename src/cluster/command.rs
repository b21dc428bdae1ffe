//! What the process or its user may ask of a cluster.

use super::{BrokerState, Link, Party};
use crate::base::{ConnectionId, NodeId};
use crate::controller::{ControllerError, NewTopic};

/// What the process or its user may ask of a cluster.
#[derive(Clone, Debug)]
pub enum Command {
    /// Make a topic.
    CreateTopic(NewTopic),
    /// End a broker without a goodbye, as `kill -9` does: its connections break, and the controller fences it once its
    /// heartbeats have been missing for `broker.session.timeout.ms`.
    KillBroker(NodeId),
    /// Stop a broker as `kill -STOP` does: connections stay open, nothing is answered.
    FreezeBroker(NodeId),
    /// Let a frozen broker go on.
    ThawBroker(NodeId),
    /// Make the link from one part of the cluster to another slow, cut, or whole again.
    SetLink {
        /// Who sends over it.
        from: Party,
        /// Who receives.
        to: Party,
        /// How it is to be.
        link: Link,
    },
    /// The process ends: whatever waits is answered now with what there is.
    Shutdown,
    /// Panic at the next request of this client, as a defect in a handler would.
    #[doc(hidden)]
    PanicAtNextRequest(ConnectionId),
}

/// Why a command can't be carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CommandError {
    /// There is no such broker.
    #[error("there is no broker {0}; there are {1}")]
    UnknownBroker(i32, String),
    /// The broker is not in a state in which that could be done.
    #[error("broker {} is {is}; it must be {needed} for that", broker.0)]
    WrongState {
        /// Which.
        broker: NodeId,
        /// How it is.
        is: BrokerState,
        /// How it must be.
        needed: &'static str,
    },
    /// The controller refuses it.
    #[error(transparent)]
    Controller(#[from] ControllerError),
}
