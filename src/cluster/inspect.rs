//! The cluster's state, to be read by people and checkers.

use std::sync::Arc;

use super::node::Node;
use super::{BrokerState, Cluster};
use crate::base::{NodeId, PartitionKey};
use crate::controller::Partition;
use crate::replica::Role;

/// One broker's copy of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaState {
    /// The broker.
    pub broker: NodeId,
    /// Whether the broker runs.
    pub broker_state: BrokerState,
    /// How often the broker was started before.
    pub incarnation: u32,
    /// The partition.
    pub key: PartitionKey,
    /// The topic's name.
    pub topic: Arc<str>,
    /// Whether the broker believes that it leads.
    pub leads: bool,
    /// The leader epoch that the broker knows.
    pub leader_epoch: i32,
    /// The first offset.
    pub log_start_offset: i64,
    /// The offset of the next record (LEO).
    pub log_end_offset: i64,
    /// Below this every in-sync replica has the records.
    pub high_watermark: i64,
    /// Below this there is no open transaction (LSO).
    pub last_stable_offset: i64,
}

/// A partition, by the controller's word and by that of each broker that holds a copy.
#[derive(Clone, Debug)]
pub struct PartitionState {
    /// The topic's name.
    pub topic: Arc<str>,
    /// The partition's number.
    pub index: i32,
    /// What the controller says.
    pub partition: Partition,
    /// Whether a user keeps its high watermark where it is.
    pub pinned: bool,
    /// What the brokers have of it, in the order of their ids.
    pub replicas: Vec<ReplicaState>,
}

impl Cluster {
    /// Every copy of every partition, by broker, topic id and number.
    pub fn replica_states(&self) -> Vec<ReplicaState> {
        let mut states = Vec::new();
        for node in &self.nodes {
            states.extend(node.broker.replicas.keys().into_iter().filter_map(|key| state(node, key)));
        }
        states.sort_by_key(|state| (state.broker, state.key));
        states
    }

    /// The partitions of a topic, or of all, by the topics' names. None if there is no such topic.
    pub fn partitions(&self, topic: Option<&str>) -> Option<Vec<PartitionState>> {
        let topics = self.controller.topics();
        let topics: Vec<_> = match topic {
            Some(name) => vec![topics.by_name(name)?],
            None => topics.iter().collect(),
        };
        let states = topics.into_iter().flat_map(|topic| {
            (0..).zip(&topic.partitions).map(|(index, partition)| {
                let key = PartitionKey { topic: topic.id, index };
                let mut replicas: Vec<_> = self.nodes.iter().filter_map(|node| state(node, key)).collect();
                replicas.sort_by_key(|replica| replica.broker);
                let (topic, partition) = (topic.name.clone(), partition.clone());
                let pinned = self.faults.pinned().contains(&key);
                PartitionState { topic, index, partition, pinned, replicas }
            })
        });
        Some(states.collect())
    }
}

/// A broker's copy of a partition, if it has one.
fn state(node: &Node, key: PartitionKey) -> Option<ReplicaState> {
    let replica = node.broker.replicas.replica(key)?;
    Some(ReplicaState {
        broker: node.id(),
        broker_state: node.state(),
        incarnation: node.incarnation,
        key,
        topic: replica.topic().clone(),
        leads: *replica.role() == Role::Leader,
        leader_epoch: replica.leader_epoch(),
        log_start_offset: replica.log().log_start_offset(),
        log_end_offset: replica.log().log_end_offset(),
        high_watermark: replica.high_watermark(),
        last_stable_offset: replica.last_stable_offset(),
    })
}
