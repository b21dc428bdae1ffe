//! ISRs, as leaders propose them and as users set them.

use super::partition::{LeaderRecovery, Partition};
use super::{Controller, ControllerError};
use crate::base::{ErrorCode, NodeId, PartitionKey};

/// What a leader proposes for a partition (Kafka's AlterPartition request, KIP-497).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlterPartition {
    /// Who proposes it.
    pub broker: NodeId,
    /// Its epoch.
    pub broker_epoch: i64,
    /// Of which partition.
    pub key: PartitionKey,
    /// The leader epoch that the leader believes in.
    pub leader_epoch: i32,
    /// The partition epoch that the proposal starts from.
    pub partition_epoch: i32,
    /// The in-sync replicas from now on, each with the epoch that the leader knows it by, −1 for any.
    pub isr: Vec<(NodeId, i64)>,
    /// Whether the leader has recovered from an unclean election.
    pub recovery: LeaderRecovery,
}

impl Controller {
    /// Takes on a leader's proposal, and says what the partition is like then.
    ///
    /// # Errors
    /// Nothing has changed then, but for NEW_LEADER_ELECTED: the new ISR completes a reassignment that leaves the leader
    /// out. STALE_BROKER_EPOCH, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION; NOT_CONTROLLER for an epoch from the
    /// future, FENCED_LEADER_EPOCH and INVALID_UPDATE_VERSION for one from the past; INVALID_REQUEST if another leads or
    /// there can't be such an ISR; INELIGIBLE_REPLICA for members that are fenced, on their way out or not who the leader
    /// takes them for.
    pub fn alter_partition(&mut self, request: &AlterPartition) -> Result<Partition, ErrorCode> {
        let epoch = self.check_broker_epoch(request.broker, request.broker_epoch);
        epoch.map_err(|error| error.code())?;
        let PartitionKey { topic: id, index } = request.key;
        let topic = self.topics.by_id(id).ok_or(ErrorCode::UnknownTopicId)?;
        let partition = topic.partition(index).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        self.check_proposal(request, partition)?;
        let mut change = self.change_of(topic, partition);
        change.isr = request.isr.iter().map(|(id, _)| *id).collect();
        change.recovery = request.recovery;
        let Some(changed) = change.build() else { return Ok(partition.clone()) };
        let leader = changed.leader;
        self.put_partitions(id, vec![(index, changed.clone())]);
        if leader != Some(request.broker) {
            return Err(ErrorCode::NewLeaderElected);
        }
        Ok(changed)
    }

    fn check_proposal(&self, request: &AlterPartition, partition: &Partition) -> Result<(), ErrorCode> {
        let isr: Vec<NodeId> = request.isr.iter().map(|(id, _)| *id).collect();
        let is_recovering = request.recovery == LeaderRecovery::Recovering;
        if request.leader_epoch > partition.leader_epoch
            || request.partition_epoch > partition.partition_epoch
        {
            Err(ErrorCode::NotController)
        } else if request.leader_epoch < partition.leader_epoch {
            Err(ErrorCode::FencedLeaderEpoch)
        } else if partition.leader != Some(request.broker) {
            Err(ErrorCode::InvalidRequest)
        } else if request.partition_epoch < partition.partition_epoch {
            Err(ErrorCode::InvalidUpdateVersion)
        } else if !is_isr_of(partition, &isr)
            || (is_recovering && isr.len() > 1)
            || (is_recovering && partition.recovery == LeaderRecovery::Recovered)
        {
            Err(ErrorCode::InvalidRequest)
        } else if !request.isr.iter().all(|(id, epoch)| self.is_eligible(*id, *epoch)) {
            Err(ErrorCode::IneligibleReplica)
        } else {
            Ok(())
        }
    }

    fn is_eligible(&self, id: NodeId, epoch: i64) -> bool {
        let broker = self.brokers.of(id).filter(|broker| broker.is_active());
        broker.is_some_and(|broker| epoch == -1 || epoch == broker.epoch)
    }

    /// Sets a partition's in-sync replicas by hand (huld's own: to bring about what lagging followers would). A replica
    /// that is put in counts for the high watermark from its log end on.
    ///
    /// # Errors
    /// If there is no such partition, it has no leader, or there can't be such an ISR: without the leader, with a broker
    /// twice, or with one that doesn't hold the partition or isn't active.
    pub fn set_isr(&mut self, topic: &str, index: i32, isr: &[NodeId]) -> Result<(), ControllerError> {
        let (topic, partition) = self.partition(topic, index)?;
        let refused = |reason: &str| Err(ControllerError::InvalidIsr { reason: reason.to_owned() });
        if partition.leader.is_none() {
            return refused("the partition has no leader.");
        }
        if !is_isr_of(partition, isr) {
            return refused("it must have the leader, and replicas of the partition alone, each once.");
        }
        if let Some(id) = isr.iter().find(|id| !self.brokers.is_active(**id)) {
            return refused(&format!("broker {} is fenced, shutting down or not registered.", id.0));
        }
        let mut change = self.change_of(topic, partition);
        change.isr = isr.to_vec();
        change.recovery = LeaderRecovery::Recovered;
        if let Some(changed) = change.build() {
            self.put_partitions(topic.id, vec![(index, changed)]);
        }
        Ok(())
    }
}

/// Whether a partition can have this ISR: replicas of it, each once, the leader among them.
fn is_isr_of(partition: &Partition, isr: &[NodeId]) -> bool {
    let is_distinct = isr.iter().enumerate().all(|(at, id)| !isr[..at].contains(id));
    let has_leader = partition.leader.is_some_and(|leader| isr.contains(&leader));
    is_distinct && has_leader && isr.iter().all(|id| partition.replicas.contains(id))
}
