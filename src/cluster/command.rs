//! What the process or its user may ask of a cluster.

use std::time::Duration;

use super::{BrokerState, Link, MAX_BROKERS, NodeConfig, Party};
use crate::base::{ConnectionId, NodeId};
use crate::controller::{ControllerError, NewTopic};
use crate::faults::{HoldError, HoldId, HoldRule};
use crate::replica::Kept;

/// What the process or its user may ask of a cluster.
#[derive(Clone, Debug)]
pub enum Command {
    /// Make a topic.
    CreateTopic(NewTopic),
    /// Stop a broker as its users do (controlled shutdown): its leaderships move to others, and then its connections and
    /// listeners are closed. With links that take no time it is down when the command is done; otherwise as soon as the
    /// controller has let it go.
    StopBroker(NodeId),
    /// Start a broker that is down, with the logs that it had.
    StartBroker {
        /// Which.
        broker: NodeId,
        /// What is left of its logs: the tail that its high watermarks did not cover is lost where a machine loses power
        /// before the page cache is written.
        kept: Kept,
    },
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
    /// Hold the requests of a rule that come from now on: [`Done::HoldAdded`] tells its name.
    AddHold(HoldRule),
    /// Take a rule away, and let go what it holds.
    RemoveHold(HoldId),
    /// Let go what a rule holds, and keep the rule.
    ReleaseHold(HoldId),
    /// End one wait: as if its time had come, or, if a rule holds it, by going on with it. On a frozen broker that
    /// happens once it is thawed.
    Release {
        /// The broker that it waits on.
        node: NodeId,
        /// Its number there, [`WaitId::serial`](crate::purgatory::WaitId::serial).
        serial: u64,
    },
    /// Keep a broker's replica of a partition from fetching, or let it go on.
    FreezeFetcher {
        /// The follower.
        broker: NodeId,
        /// The topic's name.
        topic: String,
        /// The partition's number.
        index: i32,
        /// Whether it stays.
        frozen: bool,
    },
    /// Give a partition another leader, which must be in its ISR.
    MoveLeader {
        /// The topic's name.
        topic: String,
        /// The partition's number.
        index: i32,
        /// Who is to lead.
        to: NodeId,
    },
    /// Give a partition another ISR. Leaders go on as ever: a follower that has caught up comes in again with its next
    /// fetch.
    SetIsr {
        /// The topic's name.
        topic: String,
        /// The partition's number.
        index: i32,
        /// Who is to be in sync; the leader among them.
        isr: Vec<NodeId>,
    },
    /// Start one more broker. Whoever serves clients for the cluster must have listeners for it.
    AddBroker(NodeConfig),
    /// Forget a broker that is down, and its logs: it stays among the replicas of its partitions until they are moved.
    RemoveBroker(NodeId),
    /// Keep a partition's high watermark where it is whatever is replicated, or let it go on.
    PinHighWatermark {
        /// The topic's name.
        topic: String,
        /// The partition's number.
        index: i32,
        /// Whether it stays.
        pinned: bool,
    },
    /// The process ends: whatever waits is answered now with what there is, but for what a rule holds.
    Shutdown,
    /// Panic at the next request of this client, as a defect in a handler would.
    #[doc(hidden)]
    PanicAtNextRequest(ConnectionId),
}

/// What a command has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// What was asked, and there is no more to say.
    AsAsked,
    /// A rule is made, and this is its name.
    HoldAdded(HoldId),
    /// So many waits were let go.
    Released(usize),
}

/// Why a command can't be carried out.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CommandError {
    /// There is no such broker.
    #[error("there is no broker {0}; there are {1}")]
    UnknownBroker(i32, String),
    /// There is a broker with this id already.
    #[error("there is a broker {} already", .0.0)]
    BrokerExists(NodeId),
    /// Kafka's `node.id` is 0 or more; -1 stands for no broker.
    #[error("{0} can't be a broker's id: it must be 0 or more")]
    InvalidBrokerId(i32),
    /// A link leads from one to another.
    #[error("a link has two different ends, and both are the same here")]
    SameEnds,
    /// A link would be too slow.
    #[error("a link may take {} ms at most", max.as_millis())]
    DelayTooLong {
        /// The longest there may be.
        max: Duration,
    },
    /// There can't be more brokers.
    #[error("there are {MAX_BROKERS} brokers already, the most that one process runs")]
    TooManyBrokers,
    /// A cluster must have a broker.
    #[error("broker {} is the only one", .0.0)]
    LastBroker(NodeId),
    /// The broker holds no replica of the partition that follows another.
    #[error("broker {} doesn't follow a leader of {topic}-{index}", broker.0)]
    NotAFollower {
        /// Which broker.
        broker: NodeId,
        /// The topic's name.
        topic: String,
        /// The partition's number.
        index: i32,
    },
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
    /// It is about a rule that can't be, or isn't there.
    #[error(transparent)]
    Hold(#[from] HoldError),
    /// Nothing waits under this name.
    #[error("nothing waits as {}-{serial}: it was answered, or its client is gone", .node.0)]
    NoSuchWait {
        /// The broker that was named.
        node: NodeId,
        /// The number that was named.
        serial: u64,
    },
    /// Carrying it out has failed.
    #[error("that has failed by a defect of huld, which its log tells of")]
    Defect,
    /// The controller refuses it.
    #[error(transparent)]
    Controller(#[from] ControllerError),
}
