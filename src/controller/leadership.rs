//! Elections and reassignments of partitions, as far as they are asked for by a client.

use super::topics::Partition;
use super::{Controller, ControllerError};
use crate::base::NodeId;

impl Controller {
    /// Whether an election of this partition's leader would be needed and possible: of the preferred one, or with
    /// `unclean` of any.
    ///
    /// # Errors
    /// If there is no such partition, no election is needed, or nobody could be elected.
    pub fn check_election(&self, topic: &str, index: i32, unclean: bool) -> Result<(), ControllerError> {
        let partition = self.partition(topic, index)?;
        let preferred = partition.replicas.first().copied();
        match partition.leader {
            Some(_) if unclean => Err(ControllerError::ElectionNotNeeded),
            leader if leader == preferred => Err(ControllerError::ElectionNotNeeded),
            _ if unclean => Err(ControllerError::NoEligibleLeader),
            _ => Err(ControllerError::PreferredLeaderNotAvailable),
        }
    }

    /// Whether a partition may be moved to these brokers; none cancels a move.
    ///
    /// # Errors
    /// If there is no such partition, no move that could be cancelled, the brokers are wrong, or the partition is
    /// elsewhere.
    pub fn check_reassignment(
        &self,
        topic: &str,
        index: i32,
        replicas: Option<&[NodeId]>,
    ) -> Result<(), ControllerError> {
        let partition = self.partition(topic, index)?;
        let replicas = replicas.ok_or(ControllerError::NoReassignmentInProgress)?;
        self.check_replicas(replicas, None)?;
        if *replicas != *partition.replicas {
            let reason = "partitions can't be moved to other brokers.".to_owned();
            return Err(ControllerError::InvalidAssignment { reason });
        }
        Ok(())
    }

    fn partition(&self, topic: &str, index: i32) -> Result<&Partition, ControllerError> {
        let unknown_topic = || ControllerError::UnknownTopic { name: topic.to_owned() };
        let unknown = || ControllerError::UnknownPartition { topic: topic.to_owned(), index };
        let topic = self.topics.by_name(topic).ok_or_else(unknown_topic)?;
        topic.partition(index).ok_or_else(unknown)
    }
}
