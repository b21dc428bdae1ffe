//! From a topic and a partition as a request names them to this broker's replica.

use super::context::Parts;
use crate::base::{ErrorCode, NodeId, PartitionKey, TopicId};
use crate::controller::Topic;
use crate::replica::Replica;

/// The partition of this name.
///
/// # Errors
/// UNKNOWN_TOPIC_OR_PARTITION if the cluster has no such partition.
pub(crate) fn key_by_name(parts: &Parts<'_>, topic: &str, index: i32) -> Result<PartitionKey, ErrorCode> {
    let topic = parts.controller.topics().by_name(topic).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    key(topic, index)
}

/// The partition of the topic with this id.
///
/// # Errors
/// UNKNOWN_TOPIC_ID or UNKNOWN_TOPIC_OR_PARTITION if the cluster has no such partition.
pub(crate) fn key_by_id(parts: &Parts<'_>, topic: TopicId, index: i32) -> Result<PartitionKey, ErrorCode> {
    let topic = parts.controller.topics().by_id(topic).ok_or(ErrorCode::UnknownTopicId)?;
    key(topic, index)
}

fn key(topic: &Topic, index: i32) -> Result<PartitionKey, ErrorCode> {
    topic.partition(index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
    Ok(PartitionKey { topic: topic.id, index })
}

/// This broker's replica of a partition that the cluster has.
///
/// # Errors
/// NOT_LEADER_OR_FOLLOWER if another broker has it.
pub(crate) fn replica<'a>(parts: &'a Parts<'_>, key: PartitionKey) -> Result<&'a Replica, ErrorCode> {
    parts.broker.replicas.replica(key).ok_or(ErrorCode::NotLeaderOrFollower)
}

/// This broker's replica of the partition of this name.
///
/// # Errors
/// UNKNOWN_TOPIC_OR_PARTITION or NOT_LEADER_OR_FOLLOWER.
pub(crate) fn by_name<'a>(parts: &'a Parts<'_>, topic: &str, index: i32) -> Result<&'a Replica, ErrorCode> {
    replica(parts, key_by_name(parts, topic, index)?)
}

/// Who leads a partition, by the controller's word, and in which epoch.
pub(crate) fn leader(parts: &Parts<'_>, key: PartitionKey) -> Option<(NodeId, i32)> {
    let partition = parts.controller.topics().by_id(key.topic)?.partition(key.index)?;
    Some((partition.leader?, partition.leader_epoch))
}
