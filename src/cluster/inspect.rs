//! The cluster's state, to be read by people and checkers.

use std::sync::Arc;

use super::{BrokerState, Cluster};
use crate::base::{NodeId, PartitionKey};
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

impl Cluster {
    /// Every copy of every partition, by broker, topic id and number.
    pub fn replica_states(&self) -> Vec<ReplicaState> {
        let mut states = Vec::new();
        for node in &self.nodes {
            let replicas = &node.broker.replicas;
            let of_node = replicas.keys().into_iter().filter_map(|key| replicas.replica(key));
            states.extend(of_node.map(|replica| ReplicaState {
                broker: node.id(),
                broker_state: node.state(),
                incarnation: node.incarnation,
                key: replica.key(),
                topic: replica.topic().clone(),
                leads: *replica.role() == Role::Leader,
                leader_epoch: replica.leader_epoch(),
                log_start_offset: replica.log().log_start_offset(),
                log_end_offset: replica.log().log_end_offset(),
                high_watermark: replica.high_watermark(),
                last_stable_offset: replica.last_stable_offset(),
            }));
        }
        states.sort_by_key(|state| (state.broker, state.key));
        states
    }
}
