//! A partition as the controller knows it (Kafka's `PartitionRegistration`).

use std::sync::Arc;

use super::BrokerRegistration;
use crate::base::NodeId;

/// A partition as the controller knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The brokers that hold it, the preferred leader first. While it is moved: those that it moves to, and then those
    /// that it moves away from.
    pub replicas: Arc<[NodeId]>,
    /// The in-sync replicas. Empty once the last of them is gone: see `elr`.
    pub isr: Arc<[NodeId]>,
    /// The eligible leader replicas (KIP-966): out of the ISR since it is smaller than `min.insync.replicas`, and yet
    /// with every record that a consumer may have seen, since the high watermark rests as long.
    pub elr: Arc<[NodeId]>,
    /// The last leader, if ISR and ELR are empty: the best guess of who lost least.
    pub last_known_elr: Arc<[NodeId]>,
    /// Replicas that a reassignment adds.
    pub adding_replicas: Arc<[NodeId]>,
    /// Replicas that a reassignment takes away.
    pub removing_replicas: Arc<[NodeId]>,
    /// The leader, if there is one.
    pub leader: Option<NodeId>,
    /// Counts leaders.
    pub leader_epoch: i32,
    /// Counts changes of any kind.
    pub partition_epoch: i32,
    /// Whether the leader was elected uncleanly and hasn't said yet that it is done with that.
    pub recovery: LeaderRecovery,
}

/// Whether a leader has recovered from an unclean election (KIP-704, Kafka's `LeaderRecoveryState`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LeaderRecovery {
    /// It has, or there was none.
    #[default]
    Recovered,
    /// It has not: nobody else may be in sync yet.
    Recovering,
}

impl Partition {
    /// A new partition: the first active replica leads, all active replicas are in sync. None if no replica is active.
    pub(super) fn new(replicas: &[NodeId], brokers: &[BrokerRegistration]) -> Option<Partition> {
        let is_active = |id: &NodeId| brokers.iter().any(|broker| broker.id == *id && broker.is_active());
        let isr: Arc<[NodeId]> = replicas.iter().copied().filter(is_active).collect();
        let leader = *isr.first()?;
        Some(Partition {
            replicas: replicas.into(),
            isr,
            elr: Arc::default(),
            last_known_elr: Arc::default(),
            adding_replicas: Arc::default(),
            removing_replicas: Arc::default(),
            leader: Some(leader),
            leader_epoch: 0,
            partition_epoch: 0,
            recovery: LeaderRecovery::Recovered,
        })
    }

    /// Whether the preferred leader, the first replica, leads.
    pub fn has_preferred_leader(&self) -> bool {
        self.leader.is_some() && self.leader.as_ref() == self.replicas.first()
    }

    /// Whether the partition is being moved to other brokers.
    pub fn is_being_reassigned(&self) -> bool {
        !self.adding_replicas.is_empty() || !self.removing_replicas.is_empty()
    }
}
