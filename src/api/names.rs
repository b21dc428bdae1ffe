//! Between the wire's strings and ours. A string of a request is a slice of its frame: whatever is kept is copied,
//! so that a name in a map never keeps a frame alive.

use std::sync::Arc;

use kafka_protocol::messages::{BrokerId, TopicName};
use kafka_protocol::protocol::StrBytes;

use crate::base::NodeId;

/// A string for the wire.
pub(crate) fn text(text: impl Into<String>) -> StrBytes {
    StrBytes::from_string(text.into())
}

/// A topic's name for the wire.
pub(crate) fn topic_name(name: &Arc<str>) -> TopicName {
    TopicName(text(&**name))
}

/// Brokers' ids for the wire.
pub(crate) fn broker_ids(nodes: &[NodeId]) -> Vec<BrokerId> {
    nodes.iter().map(|node| BrokerId(node.0)).collect()
}

/// A broker's id for the wire, −1 for none.
pub(crate) fn broker_id(node: Option<NodeId>) -> BrokerId {
    BrokerId(node.map_or(-1, |node| node.0))
}
