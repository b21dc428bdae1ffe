//! Partitions that move to other brokers (KIP-455): while one moves, its replicas are those that it moves to and those
//! that it leaves; it has moved once all that it moves to are in sync (see `partition_change`).

use std::collections::BTreeSet;

use super::partition::Partition;
use super::{Controller, ControllerError};
use crate::base::NodeId;

impl Controller {
    /// Begins to move a partition to these brokers, the preferred leader first; none cancels a move.
    ///
    /// # Errors
    /// If there is no such partition, there is no move to cancel or cancelling would need an unclean election, the
    /// brokers are wrong, or they are more or fewer than before and `may_change_factor` is not set (KIP-860).
    pub fn reassign(
        &mut self,
        topic: &str,
        index: i32,
        replicas: Option<&[NodeId]>,
        may_change_factor: bool,
    ) -> Result<(), ControllerError> {
        let (topic, partition) = self.partition(topic, index)?;
        let changed = match replicas {
            Some(replicas) => {
                self.check_replicas(replicas, None)?;
                if !may_change_factor {
                    check_factor(partition, replicas)?;
                }
                let current: BTreeSet<NodeId> = partition.replicas.iter().copied().collect();
                let target: BTreeSet<NodeId> = replicas.iter().copied().collect();
                let mut change = self.change_of(topic, partition);
                change.candidates = super::partition_change::Candidates::Online;
                let removing: Vec<NodeId> = current.difference(&target).copied().collect();
                let adding: Vec<NodeId> = target.difference(&current).copied().collect();
                change.replicas = [replicas, &removing].concat();
                // As in Kafka, what an earlier move was to add or take away stands where this one says nothing.
                if !removing.is_empty() {
                    change.removing = removing;
                }
                if !adding.is_empty() {
                    change.adding = adding;
                }
                change.build()
            }
            None if !partition.is_being_reassigned() => {
                return Err(ControllerError::NoReassignmentInProgress);
            }
            None => {
                let stays = |id: &&NodeId| !partition.adding_replicas.contains(id);
                let replicas: Vec<NodeId> = partition.replicas.iter().filter(stays).copied().collect();
                let mut isr: Vec<NodeId> = partition.isr.iter().filter(stays).copied().collect();
                if isr.is_empty() {
                    if !topic.config.unclean_leader_election_enable {
                        return Err(ControllerError::InvalidAssignment {
                            reason: "the move can't be cancelled without an unclean leader election."
                                .to_owned(),
                        });
                    }
                    isr.extend(replicas.first());
                }
                let mut change = self.change_of(topic, partition);
                (change.replicas, change.isr) = (replicas, isr);
                change.adding.clear();
                change.removing.clear();
                change.build()
            }
        };
        if let Some(changed) = changed {
            self.put_partitions(topic.id, vec![(index, changed)]);
        }
        Ok(())
    }
}

/// What a partition that is being moved will have at the end of that is its replication factor.
fn check_factor(partition: &Partition, replicas: &[NodeId]) -> Result<(), ControllerError> {
    let goes = |id: &&NodeId| partition.removing_replicas.contains(id);
    let current = partition.replicas.len() - partition.replicas.iter().filter(goes).count();
    if current != replicas.len() {
        return Err(ControllerError::ReplicationFactorChanged { current, requested: replicas.len() });
    }
    Ok(())
}
