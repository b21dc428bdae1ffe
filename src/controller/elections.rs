//! Elections: after brokers come and go, when a client asks, and now and then by itself.

use std::time::Duration;

use super::partition::Partition;
use super::partition_change::{Candidates, PartitionChange};
use super::topics::Topic;
use super::{Change, Controller, ControllerError};
use crate::base::{Instant, NodeId, TopicId};

/// Who is to be elected (Kafka's `ElectionType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Election {
    /// The first replica.
    Preferred,
    /// Any living replica, for a partition without a leader; records may be lost.
    Unclean,
}

/// When the controller looks at all partitions by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeriodicElections {
    /// `leader.imbalance.check.interval.seconds`: partitions go back to their preferred leaders.
    rebalance_due: Instant,
    /// `unclean.leader.election.interval.ms`: partitions without a leader get one where the topic allows it.
    unclean_due: Instant,
}

impl PeriodicElections {
    pub(super) fn begun() -> Self {
        PeriodicElections { rebalance_due: Instant::NEVER, unclean_due: Instant::NEVER }
    }
}

impl Controller {
    /// When [`Controller::handle_timeout`] must be called next; none while there is one broker, or none.
    pub fn next_timeout(&self) -> Option<Instant> {
        if self.brokers().len() <= 1 {
            return None;
        }
        let PeriodicElections { rebalance_due, unclean_due } = self.periodic;
        let periodic = rebalance_due.min(unclean_due);
        [self.brokers.next_end(), Some(periodic)].into_iter().flatten().min()
    }

    /// Fences brokers whose heartbeats have stopped; moves leadership back to preferred leaders and elects leaders
    /// uncleanly where that is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if self.brokers().len() <= 1 {
            return;
        }
        self.end_sessions(now);
        if self.periodic.rebalance_due <= now {
            if self.settings().replication.auto_leader_rebalance_enable {
                self.elect_where(|_, partition| !partition.has_preferred_leader(), Candidates::Preferred);
            }
            self.periodic.rebalance_due = now + self.rebalance_interval();
        }
        if self.periodic.unclean_due <= now {
            self.elect_where(
                |topic, partition| partition.leader.is_none() && topic.config.unclean_leader_election_enable,
                Candidates::Unclean,
            );
            self.periodic.unclean_due = now + self.unclean_interval();
        }
    }

    /// Starts the intervals of the elections that come by themselves.
    pub(super) fn schedule_elections(&mut self, now: Instant) {
        self.periodic = PeriodicElections {
            rebalance_due: now + self.rebalance_interval(),
            unclean_due: now + self.unclean_interval(),
        };
    }

    fn rebalance_interval(&self) -> Duration {
        Duration::from_secs(self.settings().replication.leader_imbalance_check_interval_seconds.max(1))
    }

    fn unclean_interval(&self) -> Duration {
        Duration::from_millis(self.settings().replication.unclean_leader_election_interval_ms.max(1))
    }

    /// Elects a leader of one partition because a client asks for it.
    ///
    /// # Errors
    /// If there is no such partition, no election is needed, or nobody can be elected.
    pub fn elect(&mut self, topic: &str, index: i32, election: Election) -> Result<(), ControllerError> {
        let (topic, partition) = self.partition(topic, index)?;
        let (is_needed, candidates, impossible) = match election {
            Election::Preferred => (
                !partition.has_preferred_leader(),
                Candidates::Preferred,
                ControllerError::PreferredLeaderNotAvailable,
            ),
            Election::Unclean => {
                (partition.leader.is_none(), Candidates::Unclean, ControllerError::NoEligibleLeader)
            }
        };
        if !is_needed {
            return Err(ControllerError::ElectionNotNeeded);
        }
        let mut change = self.change_of(topic, partition);
        change.candidates = candidates;
        let changed = change.build().ok_or(impossible)?;
        self.put_partitions(topic.id, vec![(index, changed)]);
        Ok(())
    }

    /// Makes a broker the leader of a partition (huld's own: to bring about what an election might).
    ///
    /// # Errors
    /// If there is no such partition, the broker leads it already, or it can't: it is no active member of the ISR (or of
    /// the ELR, if the ISR is empty).
    pub fn move_leader(&mut self, topic: &str, index: i32, to: NodeId) -> Result<(), ControllerError> {
        let (topic, partition) = self.partition(topic, index)?;
        if partition.leader == Some(to) {
            return Err(ControllerError::ElectionNotNeeded);
        }
        let mut change = self.change_of(topic, partition);
        change.candidates = Candidates::This(to);
        let changed = change.build().filter(|changed| changed.leader == Some(to));
        let changed = changed.ok_or(ControllerError::CantLead { id: to })?;
        self.put_partitions(topic.id, vec![(index, changed)]);
        Ok(())
    }

    /// Elections that a change of brokers brings, in all partitions that `concerns` says. `leaving` goes out of the ISRs;
    /// a broker that was `uncleanly_shut_down` out of the ELRs too (`generateLeaderAndIsrUpdates`).
    pub(super) fn update_leaders_and_isrs(
        &mut self,
        leaving: Option<NodeId>,
        uncleanly_shut_down: Option<NodeId>,
        concerns: impl Fn(&Partition) -> bool,
    ) {
        let gone = |id: &NodeId| leaving == Some(*id) || uncleanly_shut_down == Some(*id);
        let change = |controller: &Controller, topic: &Topic, partition: &Partition| {
            let mut change = controller.change_of(topic, partition);
            change.isr.retain(|id| !gone(id));
            change.uncleanly_shut_down = uncleanly_shut_down;
            change.build()
        };
        self.change_where(|_, partition| concerns(partition), change);
    }

    /// Forgets who is eligible to lead in these topics, since `min.insync.replicas`, by which that was found, has changed
    /// (Kafka's `ClearElrRecord`).
    pub(super) fn clear_elrs(&mut self, concerns: impl Fn(&Topic) -> bool) {
        let is_known =
            |partition: &Partition| !partition.elr.is_empty() || !partition.last_known_elr.is_empty();
        let cleared = |_: &Controller, _: &Topic, partition: &Partition| {
            Some(Partition {
                elr: Default::default(),
                last_known_elr: Default::default(),
                partition_epoch: partition.partition_epoch + 1,
                ..partition.clone()
            })
        };
        self.change_where(|topic, partition| concerns(topic) && is_known(partition), cleared);
    }

    fn elect_where(&mut self, concerns: impl Fn(&Topic, &Partition) -> bool, candidates: Candidates) {
        self.change_where(concerns, |controller, topic, partition| {
            let mut change = controller.change_of(topic, partition);
            change.candidates = candidates;
            change.build()
        });
    }

    fn change_where(
        &mut self,
        concerns: impl Fn(&Topic, &Partition) -> bool,
        change: impl Fn(&Controller, &Topic, &Partition) -> Option<Partition>,
    ) {
        let mut changed: Vec<(TopicId, Vec<(i32, Partition)>)> = Vec::new();
        for topic in self.topics.iter() {
            let concerned =
                topic.partitions.iter().zip(0..).filter(|(partition, _)| concerns(topic, partition));
            let partitions: Vec<_> = concerned
                .filter_map(|(partition, index)| Some((index, change(self, topic, partition)?)))
                .collect();
            if !partitions.is_empty() {
                changed.push((topic.id, partitions));
            }
        }
        for (topic, partitions) in changed {
            self.put_partitions(topic, partitions);
        }
    }

    /// A change of this partition by the rules of its topic, in which nothing is wanted as yet.
    pub(super) fn change_of<'a>(
        &self,
        topic: &Topic,
        partition: &'a Partition,
    ) -> PartitionChange<'a, impl Fn(NodeId) -> bool + use<'a, '_>> {
        let brokers = &self.brokers;
        let mut change =
            PartitionChange::new(partition, |id| brokers.is_active(id), topic.effective_min_isr());
        if topic.config.unclean_leader_election_enable {
            change.candidates = Candidates::Unclean;
        }
        change
    }

    /// Takes on what has become of partitions of one topic.
    pub(super) fn put_partitions(&mut self, topic: TopicId, changed: Vec<(i32, Partition)>) {
        let Some(mut topic) = self.topics.by_id(topic).map(|topic| Topic::clone(topic)) else { return };
        let mut indexes = Vec::with_capacity(changed.len());
        for (index, partition) in changed {
            let Some(place) = usize::try_from(index).ok().and_then(|at| topic.partitions.get_mut(at)) else {
                continue;
            };
            *place = partition;
            indexes.push(index);
        }
        let topic = self.topics.replace(topic);
        for index in indexes {
            self.decide(Change::Partition { topic: topic.clone(), index });
        }
    }

    pub(super) fn partition(&self, topic: &str, index: i32) -> Result<(&Topic, &Partition), ControllerError> {
        let unknown_topic = || ControllerError::UnknownTopic { name: topic.to_owned() };
        let unknown = || ControllerError::UnknownPartition { topic: topic.to_owned(), index };
        let topic = self.topics.by_name(topic).ok_or_else(unknown_topic)?;
        Ok((topic, topic.partition(index).ok_or_else(unknown)?))
    }
}
