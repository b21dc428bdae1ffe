//! Names of things, as types, so that a broker's id can't be taken for a partition's.

use std::fmt;

/// The id of a (virtual) broker: Kafka's `node.id`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub i32);

/// A topic's id: a random 128-bit value that a topic keeps for life; a topic created again under the same name has
/// another (KIP-516). Zero stands for "none" on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicId(pub u128);

impl TopicId {
    /// The id that stands for "none".
    pub const ZERO: TopicId = TopicId(0);

    /// Whether this is the id that stands for "none".
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl From<uuid::Uuid> for TopicId {
    fn from(uuid: uuid::Uuid) -> Self {
        TopicId(uuid.as_u128())
    }
}

impl From<TopicId> for uuid::Uuid {
    fn from(id: TopicId) -> Self {
        uuid::Uuid::from_u128(id.0)
    }
}

impl fmt::Display for TopicId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&uuid::Uuid::from_u128(self.0), f)
    }
}

/// One partition of one topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionKey {
    /// The topic.
    pub topic: TopicId,
    /// The partition's number within its topic, from 0.
    pub index: i32,
}

/// A client's connection; never used again within a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);
