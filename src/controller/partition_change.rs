//! What becomes of a partition when its ISR or its replicas are to change, or a leader is to be elected: the rules of
//! Kafka's `PartitionChangeBuilder`, with eligible leader replicas (KIP-966) on, as in every new cluster of Kafka 4.1.

use std::collections::BTreeSet;

use super::partition::{LeaderRecovery, Partition};
use crate::base::NodeId;
use crate::base::planted::{Bug, is_planted};

/// Who may be elected, beside members of the ISR (or of the ELR if the ISR is empty), who always may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Candidates {
    /// Nobody. The present leader stays if it can; else the first that can lead, in the order of the replicas.
    Online,
    /// Nobody, and the first replica goes before the present leader.
    Preferred,
    /// Any active replica, if there is nobody else: records may be lost.
    Unclean,
    /// Nobody, and this one goes before all others.
    This(NodeId),
}

/// A change in the making: the partition as it is, and what is wanted of it.
pub(super) struct PartitionChange<'a, F> {
    current: &'a Partition,
    /// Whether a broker may lead: registered, unfenced, not on its way out.
    is_acceptable: F,
    /// `min.insync.replicas`, at most the topic's replication factor.
    min_isr: usize,
    pub(super) candidates: Candidates,
    pub(super) isr: Vec<NodeId>,
    pub(super) replicas: Vec<NodeId>,
    pub(super) adding: Vec<NodeId>,
    pub(super) removing: Vec<NodeId>,
    pub(super) recovery: LeaderRecovery,
    /// A broker that may have lost what it had written last, so that it is eligible for nothing.
    pub(super) uncleanly_shut_down: Option<NodeId>,
    elr: Vec<NodeId>,
}

/// Who leads from now on.
struct Elected {
    leader: Option<NodeId>,
    is_unclean: bool,
}

impl<'a, F: Fn(NodeId) -> bool> PartitionChange<'a, F> {
    /// No change as yet but what an election brings.
    pub(super) fn new(current: &'a Partition, is_acceptable: F, min_isr: usize) -> Self {
        PartitionChange {
            current,
            is_acceptable,
            min_isr,
            candidates: Candidates::Online,
            isr: current.isr.to_vec(),
            replicas: current.replicas.to_vec(),
            adding: current.adding_replicas.to_vec(),
            removing: current.removing_replicas.to_vec(),
            recovery: current.recovery,
            uncleanly_shut_down: None,
            elr: current.elr.to_vec(),
        }
    }

    /// The partition after the change; none if nothing changes.
    pub(super) fn build(mut self) -> Option<Partition> {
        self.complete_reassignment();
        self.populate_elr();
        let elected = self.elect();
        let has_new_leader = elected.leader != self.current.leader;
        let mut recovery = self.current.recovery;
        let is_unclean = has_new_leader && elected.is_unclean;
        if let Some(leader) = elected.leader.filter(|_| has_new_leader) {
            if self.elr.contains(&leader) {
                self.isr = vec![leader];
                self.elr.retain(|id| *id != leader);
            }
            if is_unclean {
                self.isr = vec![leader];
                self.elr.clear();
                recovery = LeaderRecovery::Recovering;
            }
        }
        if self.recovery != self.current.recovery {
            recovery = self.recovery;
        }
        let loses_replicas = !self.current.replicas.iter().all(|id| self.replicas.contains(id));
        let is_new_epoch = (has_new_leader || loses_replicas) && !is_planted(Bug::KeepsLeaderEpoch);
        let changed = Partition {
            last_known_elr: self.last_known_elr(elected.leader),
            replicas: self.replicas.into(),
            isr: self.isr.into(),
            elr: self.elr.into(),
            adding_replicas: self.adding.into(),
            removing_replicas: self.removing.into(),
            leader: elected.leader,
            leader_epoch: self.current.leader_epoch + i32::from(is_new_epoch),
            partition_epoch: self.current.partition_epoch,
            recovery,
        };
        let partition_epoch = self.current.partition_epoch + 1;
        (changed != *self.current).then_some(Partition { partition_epoch, ..changed })
    }

    /// A reassignment is complete once all replicas that are to stay are in sync (`PartitionReassignmentReplicas`).
    fn complete_reassignment(&mut self) {
        if self.adding.is_empty() && self.removing.is_empty() {
            return;
        }
        let stays = |id: &&NodeId| !self.removing.contains(id);
        let replicas: Vec<NodeId> = self.replicas.iter().filter(stays).copied().collect();
        let isr: Vec<NodeId> = self.isr.iter().filter(stays).copied().collect();
        if !replicas.is_empty() && !isr.is_empty() && replicas.iter().all(|id| isr.contains(id)) {
            self.replicas = replicas;
            self.isr = isr;
            self.adding.clear();
            self.removing.clear();
        }
    }

    /// Whoever leaves an ISR that is too small stays eligible; once it is large enough nobody else is.
    fn populate_elr(&mut self) {
        if self.isr.len() >= self.min_isr {
            self.elr.clear();
            return;
        }
        let eligible: BTreeSet<NodeId> = self.elr.iter().chain(&*self.current.isr).copied().collect();
        let stays = |id: &NodeId| {
            !self.isr.contains(id) && !self.comes_anew(id) && self.uncleanly_shut_down != Some(*id)
        };
        self.elr = eligible.into_iter().filter(stays).collect();
    }

    fn elect(&self) -> Elected {
        let clean = |leader| Elected { leader: Some(leader), is_unclean: false };
        let unclean = |leader| Elected { leader: Some(leader), is_unclean: true };
        if is_planted(Bug::ElectsUncleanly)
            && let Some(leader) = self.stale_leader()
        {
            return unclean(leader);
        }
        let first = match self.candidates {
            Candidates::Preferred => self.replicas.first().copied(),
            Candidates::This(id) => Some(id),
            Candidates::Online | Candidates::Unclean => None,
        };
        let in_order = first.into_iter().chain(self.current.leader).chain(self.replicas.iter().copied());
        if let Some(leader) = in_order.into_iter().find(|id| self.can_lead(*id)) {
            return clean(leader);
        }
        if let Some(leader) = self.last_known_leader() {
            return unclean(leader);
        }
        let any = self.replicas.iter().copied().find(|id| (self.is_acceptable)(*id));
        match any.filter(|_| self.candidates == Candidates::Unclean) {
            Some(leader) => unclean(leader),
            None => Elected { leader: None, is_unclean: false },
        }
    }

    /// Who is out of sync, and might be elected if the present leader can't stay and records didn't matter.
    fn stale_leader(&self) -> Option<NodeId> {
        let stays = self.current.leader.is_some_and(|id| self.can_lead(id));
        let is_stale = |id: &NodeId| !self.isr.contains(id) && (self.is_acceptable)(*id);
        self.replicas.iter().copied().find(is_stale).filter(|_| !stays)
    }

    fn can_lead(&self, id: NodeId) -> bool {
        let is_eligible = self.isr.contains(&id) || (self.isr.is_empty() && self.elr.contains(&id));
        is_eligible && (self.is_acceptable)(id)
    }

    /// Who is elected if nobody is eligible, unclean as that is: the last leader, which everybody else was behind.
    fn last_known_leader(&self) -> Option<NodeId> {
        let [last] = *self.current.last_known_elr else { return None };
        let may_lead = !self.comes_anew(&last) && (self.is_acceptable)(last);
        (self.isr.is_empty() && self.elr.is_empty() && may_lead).then_some(last)
    }

    /// Remembered from when the ISR becomes empty until there is a leader again.
    fn last_known_elr(&self, leader: Option<NodeId>) -> std::sync::Arc<[NodeId]> {
        let becomes_empty = self.isr.is_empty() && !self.current.isr.is_empty();
        match self.current.leader {
            Some(last) if becomes_empty => [last].into(),
            _ if leader.is_some() => std::sync::Arc::default(),
            _ => {
                let known = self.current.last_known_elr.iter().copied();
                known.filter(|id| !self.comes_anew(id)).collect()
            }
        }
    }

    /// Whether this broker becomes a replica, with an empty log, whatever it had when it was one before: Kafka leaves it
    /// eligible then, and loses what was acknowledged.
    fn comes_anew(&self, id: &NodeId) -> bool {
        self.replicas.contains(id) && !self.current.replicas.contains(id)
    }
}
