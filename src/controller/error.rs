//! Why the controller refuses something: one variant a reason, one mapping to Kafka's codes.

use super::names::NameError;
use crate::base::ErrorCode;

/// Why the controller refuses a change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message is its description")]
pub enum ControllerError {
    #[error("Topic '{name}' already exists.")]
    TopicExists { name: String },
    #[error("Topic name is invalid: {0}.")]
    InvalidName(#[from] NameError),
    #[error("Topic '{name}' collides with existing topic: {existing}")]
    NameCollision { name: String, existing: String },
    #[error("Topic name '{name}' is reserved for the metadata log.")]
    ReservedName { name: String },
    #[error("Number of partitions was set to an invalid non-positive value: {0}.")]
    InvalidPartitionCount(i32),
    #[error("Unable to create {requested} partitions in one request: the most is {max}.")]
    TooManyPartitions { requested: u64, max: u64 },
    #[error("Replication factor must be larger than 0, or -1 to use the default value, not {0}.")]
    InvalidReplicationFactor(i16),
    #[error("Unable to replicate the partition {factor} time(s): only {brokers} broker(s) are registered.")]
    TooFewBrokers { factor: i16, brokers: usize },
    #[error("Unable to replicate the partition {factor} time(s): all brokers are fenced or shutting down.")]
    NoActiveBroker { factor: i16 },
    #[error("A manual partition assignment was specified, but {what} was not set to -1.")]
    AssignmentAndCount { what: &'static str },
    #[error("The manual partition assignment is invalid: {reason}")]
    InvalidAssignment { reason: String },
    #[error("{message}")]
    InvalidConfig { message: String },
    #[error("{message}")]
    InvalidBrokerConfig { message: String },
    #[error("A {resource} has a name: it has no defaults that could be changed.")]
    NamelessResource { resource: &'static str },
    #[error("A resource may have at most {max} configs.")]
    TooManyConfigs { max: usize },
    #[error("At most {max} resources of this kind may have configs.")]
    TooManyConfiguredResources { max: usize },
    #[error("Broker {} is not registered.", .id.0)]
    UnknownBroker { id: crate::base::NodeId },
    #[error("Broker {}'s epoch is not {epoch} but {}.", .id.0, .current.unwrap_or(-1))]
    StaleBrokerEpoch { id: crate::base::NodeId, epoch: i64, current: Option<i64> },
    #[error("Topic '{name}' does not exist.")]
    UnknownTopic { name: String },
    #[error("Topic '{topic}' has no partition {index}.")]
    UnknownPartition { topic: String, index: i32 },
    #[error("The partition is led as it should be.")]
    ElectionNotNeeded,
    #[error("The preferred leader can't lead now.")]
    PreferredLeaderNotAvailable,
    #[error("No broker could lead now.")]
    NoEligibleLeader,
    #[error("Broker {} can't lead: it must be unfenced and in the ISR, or in the ELR of an empty ISR.", .id.0)]
    CantLead { id: crate::base::NodeId },
    #[error("The partition can't have this ISR: {reason}")]
    InvalidIsr { reason: String },
    #[error("The replication factor can't be changed from {current} to {requested}.")]
    ReplicationFactorChanged { current: usize, requested: usize },
    #[error("The partition is not being moved.")]
    NoReassignmentInProgress,
    #[error("No topic has the id {id}.")]
    UnknownTopicId { id: crate::base::TopicId },
    #[error("Topic currently has {current} partitions, which is higher than the requested {requested}.")]
    FewerPartitions { current: usize, requested: i32 },
    #[error("Topic already has {current} partition(s).")]
    SamePartitions { current: usize },
    #[error("Attempted to add {added} partition(s), but {given} assignment(s) were specified.")]
    AssignmentCount { added: usize, given: usize },
}

impl ControllerError {
    /// What to tell the client in words: nothing where Kafka says nothing.
    pub fn message(&self) -> Option<String> {
        match self {
            Self::UnknownTopic { .. } => None,
            _ => Some(self.to_string()),
        }
    }

    /// Kafka's code for the reason.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::TopicExists { .. } => ErrorCode::TopicAlreadyExists,
            Self::InvalidName(_) | Self::NameCollision { .. } => ErrorCode::InvalidTopicException,
            Self::ReservedName { .. }
            | Self::AssignmentAndCount { .. }
            | Self::InvalidBrokerConfig { .. }
            | Self::NamelessResource { .. } => ErrorCode::InvalidRequest,
            Self::UnknownBroker { .. } => ErrorCode::BrokerIdNotRegistered,
            Self::StaleBrokerEpoch { .. } => ErrorCode::StaleBrokerEpoch,
            Self::CantLead { .. } | Self::InvalidIsr { .. } => ErrorCode::InvalidRequest,
            Self::InvalidPartitionCount(_) | Self::FewerPartitions { .. } | Self::SamePartitions { .. } => {
                ErrorCode::InvalidPartitions
            }
            Self::TooManyPartitions { .. } | Self::TooManyConfiguredResources { .. } => {
                ErrorCode::PolicyViolation
            }
            Self::InvalidReplicationFactor(_)
            | Self::TooFewBrokers { .. }
            | Self::NoActiveBroker { .. }
            | Self::ReplicationFactorChanged { .. } => ErrorCode::InvalidReplicationFactor,
            Self::InvalidAssignment { .. } | Self::AssignmentCount { .. } => {
                ErrorCode::InvalidReplicaAssignment
            }
            Self::InvalidConfig { .. } | Self::TooManyConfigs { .. } => ErrorCode::InvalidConfig,
            Self::UnknownTopic { .. } | Self::UnknownPartition { .. } => ErrorCode::UnknownTopicOrPartition,
            Self::ElectionNotNeeded => ErrorCode::ElectionNotNeeded,
            Self::PreferredLeaderNotAvailable => ErrorCode::PreferredLeaderNotAvailable,
            Self::NoEligibleLeader => ErrorCode::EligibleLeadersNotAvailable,
            Self::NoReassignmentInProgress => ErrorCode::NoReassignmentInProgress,
            Self::UnknownTopicId { .. } => ErrorCode::UnknownTopicId,
        }
    }
}
