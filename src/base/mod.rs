//! What every other layer may use: time as a value, seeded entropy, ids, Kafka's error codes, regular expressions.

pub mod entropy;
pub mod errors;
pub mod ids;
pub mod pattern;
pub mod planted;
pub mod time;

pub use errors::ErrorCode;
pub use ids::{ConnectionId, NodeId, PartitionKey, TopicId};
pub use pattern::{InvalidPattern, Pattern};
pub use time::{Instant, Now, WallTime};
