//! The coordinators of one broker: a shard for each partition of `__consumer_offsets` and `__transaction_state` that it
//! leads.
//!
//! What they have in common is written once, in `runtime.rs`; what a shard keeps is in [`groups`] and [`transactions`].
//! Requests that wait hold a [`Ticket`]; timers are a list of changes that the owner carries out. Knows no wire format and no
//! purgatory.

pub mod groups;
mod limits;
pub mod records;
pub mod transactions;

#[cfg(test)]
mod from_kafka;
mod runtime;
pub(crate) mod subscription;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::base::entropy::Entropy;
use crate::base::{ErrorCode, Instant, Now, PartitionKey};
use crate::controller::Controller;
use crate::controller::configs::BrokerSettings;
use crate::controller::names::{CONSUMER_OFFSETS, TRANSACTION_STATE};
use crate::log::ChunkPool;
use crate::replica::Replicas;
use groups::{
    Commit, CommittedGroups, Effects, GroupError, GroupReply, Groups, Heartbeat, HeartbeatReply, Join,
    JoinReply, Leaver, Outcome, Sync, SyncReply, TimerKind,
};
pub use limits::Limits;
pub use runtime::InTransaction;
use runtime::{Call, Runtime, ShardTimer};
use transactions::{
    AddPartitions, End, Ended, Init, Markers, MarkersWritten, Producer, TransactionSettings,
    TransactionTimer, TransactionValue, Transactions,
};

/// The names of the assignors that members of consumer groups may ask for, the default first.
pub fn assignor_names(controller: &Controller) -> Vec<&'static str> {
    groups::consumer::assignor_names(controller)
}

/// The kinds of coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CoordinatorKind {
    /// Of groups, in `__consumer_offsets`.
    Group,
    /// Of transactions, in `__transaction_state`.
    Transaction,
}

impl CoordinatorKind {
    /// The coordinator that keeps its state in this topic.
    pub fn of_topic(topic: &str) -> Option<Self> {
        match topic {
            CONSUMER_OFFSETS => Some(CoordinatorKind::Group),
            TRANSACTION_STATE => Some(CoordinatorKind::Transaction),
            _ => None,
        }
    }
}

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket {
    /// Who will answer.
    kind: CoordinatorKind,
    serial: u64,
}

/// The broker's settings that groups and transactions need.
#[derive(Clone, Debug)]
pub struct CoordinatorSettings {
    /// `offsets.topic.num.partitions`.
    pub partitions: i32,
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: i64,
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout_ms: i32,
    /// `group.max.size`.
    pub max_size: usize,
    /// `offsets.commit.timeout.ms`: how long a request waits for what it has written to be committed.
    pub write_timeout_ms: i64,
    /// `offset.metadata.max.bytes`.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in ms.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub retention_check_interval_ms: i64,
    /// Those of transactions.
    pub transactions: TransactionSettings,
    /// How much is remembered at most.
    pub limits: Limits,
}

impl CoordinatorSettings {
    /// What these settings say of groups.
    pub fn new(settings: &BrokerSettings) -> Self {
        let millis = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        CoordinatorSettings {
            partitions: settings.offsets.topic_num_partitions,
            initial_rebalance_delay_ms: millis(settings.groups.group_initial_rebalance_delay_ms),
            min_session_timeout_ms: settings.groups.group_min_session_timeout_ms,
            max_session_timeout_ms: settings.groups.group_max_session_timeout_ms,
            max_size: settings.groups.group_max_size,
            write_timeout_ms: millis(settings.offsets.commit_timeout_ms),
            offset_metadata_max_bytes: settings.offsets.metadata_max_bytes,
            offsets_retention_ms: millis(settings.offsets.retention_minutes.saturating_mul(60_000)),
            retention_check_interval_ms: millis(settings.offsets.retention_check_interval_ms),
            transactions: TransactionSettings {
                partitions: settings.transactions.state_log_num_partitions,
                max_timeout_ms: settings.transactions.max_timeout_ms,
                id_expiration_ms: millis(settings.transactions.id_expiration_ms),
                remove_expired_interval_ms: millis(settings.transactions.remove_expired_interval_ms),
                two_phase_commit: settings.transactions.two_phase_commit_enable,
            },
            limits: Limits {
                groups: settings.huld.max_groups,
                transactional_ids: settings.huld.max_transactional_ids,
            },
        }
    }
}

/// What a timer belongs to, and which of its timers it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TimerKey {
    /// A group's.
    Group(Arc<str>, TimerKind),
    /// A transactional id's.
    Transaction(Arc<str>, TransactionTimer),
}

/// What becomes of timers.
#[derive(Clone, Debug)]
pub enum TimerChange {
    /// One is to be set, set anew, or (without a deadline) cancelled.
    One {
        /// Which.
        key: TimerKey,
        /// When it fires.
        deadline: Option<Instant>,
    },
    /// All of a shard are to be cancelled: this broker doesn't have it any more.
    AllOf(Shard),
}

/// Names a shard: one of a kind, by its partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard {
    /// Of groups or of transactions.
    pub kind: CoordinatorKind,
    /// The partition of the kind's topic.
    pub index: i32,
}

/// What the runtime needs of the broker for a call.
#[derive(Debug)]
pub struct Storage<'a> {
    /// The moment of the call.
    pub now: Now,
    /// The broker's logs.
    pub replicas: &'a mut Replicas,
    /// Their memory.
    pub pool: &'a mut ChunkPool,
    /// Topics and configs.
    pub controller: &'a Controller,
}

/// The coordinators of one broker.
#[derive(Clone, Debug)]
pub struct Coordinators {
    settings: CoordinatorSettings,
    groups: Runtime<Groups>,
    transactions: Runtime<Transactions>,
    /// Topics that are gone, and for which what was committed is still to be dropped; since when.
    deleted_topics: BTreeSet<Arc<str>>,
    deleted_since: Instant,
}

/// For how many deleted topics what was committed is dropped in one go (ours): some milliseconds if there is something for
/// each.
const FORGOTTEN_AT_ONCE: usize = 256;

/// Java's `String.hashCode`.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The partition of `__consumer_offsets` that a group belongs to: Java's hash of its name.
pub fn partition_for(group: &str, partitions: i32) -> i32 {
    let hash = java_hash(group);
    let positive = if hash == i32::MIN { 0 } else { hash.abs() };
    positive % partitions.max(1)
}

impl Coordinators {
    /// None yet.
    pub fn new(settings: CoordinatorSettings, entropy: Entropy) -> Self {
        let transactions = Runtime::new(entropy.clone());
        Coordinators {
            settings,
            groups: Runtime::new(entropy),
            transactions,
            deleted_topics: BTreeSet::new(),
            deleted_since: Instant::ZERO,
        }
    }

    /// The settings.
    pub fn settings(&self) -> &CoordinatorSettings {
        &self.settings
    }

    /// This broker leads a partition of a coordinator's topic from now on: its state is loaded from the log.
    pub fn load(&mut self, kind: CoordinatorKind, key: PartitionKey, storage: &mut Storage<'_>) {
        let mut call = Call { settings: &self.settings, storage };
        match kind {
            CoordinatorKind::Group => self.groups.load(&mut call, key),
            CoordinatorKind::Transaction => self.transactions.load(&mut call, key),
        }
    }

    /// This broker doesn't lead the partition any more: whoever waits has to look for the new coordinator.
    pub fn unload(&mut self, kind: CoordinatorKind, key: PartitionKey, now: Instant) {
        match kind {
            CoordinatorKind::Group => self.groups.unload(key, now),
            CoordinatorKind::Transaction => self.transactions.unload(key, now),
        }
    }

    /// The process is gone whose coordinators these were: what they have is freed in steps.
    pub fn inherit(&mut self, gone: Coordinators, now: Instant) {
        self.groups.inherit(gone.groups, now);
        self.transactions.inherit(gone.transactions, now);
    }

    /// Frees some of what is of no use any more.
    pub fn free_some(&mut self) {
        self.groups.free_one();
        self.transactions.free_one();
    }

    /// When to call [`Coordinators::free_some`], if nothing else is done any more.
    pub fn next_freeing(&self) -> Option<Instant> {
        [self.groups.next_freeing(), self.transactions.next_freeing()].into_iter().flatten().min()
    }

    /// The groups of a shard, with what isn't committed yet.
    ///
    /// # Errors
    /// NOT_COORDINATOR if this broker doesn't have it, COORDINATOR_LOAD_IN_PROGRESS if it doesn't have it yet.
    pub fn groups_for(&self, group: &str) -> Result<&Groups, ErrorCode> {
        self.groups.state_for(&self.settings, group)
    }

    /// The groups of a shard as far as they are committed.
    ///
    /// # Errors
    /// As [`groups_for`](Self::groups_for).
    pub fn committed_groups_for(&self, group: &str) -> Result<CommittedGroups<'_>, ErrorCode> {
        let (groups, kept) = self.groups.committed_state_for(&self.settings, group)?;
        Ok(CommittedGroups::new(groups, kept))
    }

    /// The groups of all shards as far as they are committed.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS if one of them isn't there yet.
    pub fn all_committed_groups(&self) -> Result<impl Iterator<Item = CommittedGroups<'_>>, ErrorCode> {
        let states = self.groups.committed_states()?;
        Ok(states.map(|(groups, kept)| CommittedGroups::new(groups, kept)))
    }

    /// A ticket that is answered once all is committed that a group's shard has now; none if all is.
    ///
    /// # Errors
    /// As [`groups_for`](Self::groups_for).
    pub fn once_committed(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
    ) -> Result<Option<Ticket>, ErrorCode> {
        let mut call = Call { settings: &self.settings, storage };
        self.groups.once_committed(&mut call, group, GroupReply::Written)
    }

    /// JoinGroup.
    ///
    /// # Errors
    /// NOT_COORDINATOR.
    pub fn join(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        join: Join,
    ) -> Result<Outcome<JoinReply>, ErrorCode> {
        self.check_room_for_join(group, &join)?;
        self.run(storage, group, |groups, effects| Ok(groups.join(group, join, effects)))
    }

    /// ConsumerGroupHeartbeat.
    ///
    /// # Errors
    /// As the group's state has them, or NOT_COORDINATOR.
    pub fn consumer_heartbeat(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        heartbeat: &Heartbeat,
    ) -> Result<Outcome<HeartbeatReply>, GroupError> {
        self.check_room_for_heartbeat(group, heartbeat)?;
        self.run(storage, group, |groups, effects| Ok(groups.consumer_heartbeat(group, heartbeat, effects)))?
    }

    /// SyncGroup.
    ///
    /// # Errors
    /// As the group's state has them, or NOT_COORDINATOR.
    pub fn sync(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        sync: Sync,
    ) -> Result<Outcome<SyncReply>, ErrorCode> {
        self.run(storage, group, |groups, effects| groups.sync(group, sync, effects))
    }

    /// Heartbeat: the ticket of who waits until all is committed that the group's state has, if it isn't.
    ///
    /// # Errors
    /// As the group's state has them, or NOT_COORDINATOR.
    pub fn heartbeat(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<Option<Ticket>, ErrorCode> {
        self.run(storage, group, |groups, effects| {
            groups.heartbeat(group, member_id, instance_id, generation, effects)
        })
    }

    /// LeaveGroup: the ticket of who waits until it is committed, if it isn't, and an outcome for each who leaves.
    ///
    /// # Errors
    /// COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR, for all.
    pub fn leave(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        leavers: &[Leaver],
    ) -> Result<(Option<Ticket>, Vec<ErrorCode>), ErrorCode> {
        self.run(storage, group, |groups, effects| groups.leave(group, leavers, effects))
    }

    /// OffsetCommit: the ticket of the write, if there is one, and an outcome for each partition.
    ///
    /// # Errors
    /// For all partitions.
    pub fn commit(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        commit: Commit,
    ) -> Result<(Option<Ticket>, Vec<ErrorCode>), ErrorCode> {
        self.check_room_for_commit(group, &commit)?;
        self.run(storage, group, |groups, effects| groups.commit(group, commit, effects))
    }

    /// OffsetDelete: the ticket of the write, if there is one, and an outcome for each partition.
    ///
    /// # Errors
    /// For all partitions.
    pub fn delete_offsets(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        partitions: &[(Arc<str>, i32)],
    ) -> Result<(Option<Ticket>, Vec<ErrorCode>), ErrorCode> {
        self.run(storage, group, |groups, effects| groups.delete_offsets(group, partitions, effects))
    }

    /// DeleteGroups, of one group.
    ///
    /// # Errors
    /// GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP or NOT_COORDINATOR.
    pub fn delete_group(&mut self, storage: &mut Storage<'_>, group: &Arc<str>) -> Result<Ticket, ErrorCode> {
        self.run(storage, group, |groups, effects| groups.delete(group, effects))
    }

    /// The transactions of a shard, with what isn't committed yet.
    ///
    /// # Errors
    /// As [`groups_for`](Self::groups_for).
    pub fn transactions_for(&self, id: &str) -> Result<&Transactions, ErrorCode> {
        self.transactions.state_for(&self.settings, id)
    }

    /// What is committed of a transactional id; none if there is no such id.
    ///
    /// # Errors
    /// As [`groups_for`](Self::groups_for).
    pub fn committed_transaction(&self, id: &str) -> Result<Option<&TransactionValue>, ErrorCode> {
        let (transactions, kept) = self.transactions.committed_state_for(&self.settings, id)?;
        Ok(transactions.committed(kept, id))
    }

    /// What is committed of all transactional ids.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS if one of the shards isn't there yet.
    pub fn all_committed_transactions(
        &self,
    ) -> Result<impl Iterator<Item = (&Arc<str>, &TransactionValue)>, ErrorCode> {
        let states = self.transactions.committed_states()?;
        Ok(states.flat_map(|(transactions, kept)| transactions.all_committed(kept)))
    }

    /// InitProducerId with a transactional id.
    ///
    /// # Errors
    /// As the transaction's state has them, or NOT_COORDINATOR.
    pub fn init_producer(
        &mut self,
        storage: &mut Storage<'_>,
        id: &Arc<str>,
        init: Init,
    ) -> Result<Ticket, ErrorCode> {
        let init = init.checked(id, &self.settings.transactions)?;
        self.check_room_for_id(id)?;
        let mut call = Call { settings: &self.settings, storage };
        self.transactions.run(&mut call, id, |state, effects| state.init(id, init, effects))
    }

    /// AddPartitionsToTxn: the ticket of the write, if there is one.
    ///
    /// # Errors
    /// For all partitions.
    pub fn add_partitions(
        &mut self,
        storage: &mut Storage<'_>,
        id: &Arc<str>,
        add: AddPartitions,
    ) -> Result<Option<Ticket>, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let mut call = Call { settings: &self.settings, storage };
        self.transactions.run(&mut call, id, |state, effects| state.add_partitions(id, add, effects))
    }

    /// An outcome for each partition, whether it is part of the producer's transaction, as far as that is committed:
    /// what may still be lost must not let a transaction begin anywhere.
    ///
    /// # Errors
    /// For all partitions.
    pub fn verify_partitions(
        &self,
        id: &str,
        producer: Producer,
        partitions: &[(Arc<str>, i32)],
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let value = self.committed_transaction(id)?.ok_or(ErrorCode::InvalidProducerIdMapping)?;
        value.verify(producer, partitions)
    }

    /// EndTxn.
    ///
    /// # Errors
    /// As the transaction's state has them, or NOT_COORDINATOR.
    pub fn end_transaction(
        &mut self,
        storage: &mut Storage<'_>,
        id: &Arc<str>,
        end: End,
    ) -> Result<Ended, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        let mut call = Call { settings: &self.settings, storage };
        self.transactions.run(&mut call, id, |state, effects| state.end(id, end, effects))
    }

    /// Whether what was to be added to a transaction waits for it to settle.
    pub fn is_queued(&self, id: &str, ticket: Ticket) -> bool {
        self.transactions_for(id).is_ok_and(|transactions| transactions.is_queued(id, ticket))
    }

    /// Takes out what was to be added to a transaction and waits for it to settle. Returns whether it was there.
    pub fn unqueue(&mut self, id: &str, ticket: Ticket) -> bool {
        self.transactions.states_mut().any(|transactions| transactions.unqueue(id, ticket))
    }

    /// A marker was written into a partition: if it is one of `__consumer_offsets`, what was committed in the
    /// producer's transaction counts, or is dropped.
    pub fn end_offsets_transaction(
        &mut self,
        storage: &mut Storage<'_>,
        key: PartitionKey,
        producer_id: i64,
        committed: bool,
    ) {
        let mut call = Call { settings: &self.settings, storage };
        self.groups.end_transaction(&mut call, key, producer_id, committed);
    }

    /// What has become of a transaction's markers.
    pub fn markers_written(&mut self, storage: &mut Storage<'_>, written: &MarkersWritten) {
        let mut call = Call { settings: &self.settings, storage };
        let noted = self.transactions.run(&mut call, &written.id, |state, effects| {
            state.markers_written(written, effects);
            Ok(())
        });
        // If this broker isn't the coordinator any more, another sends markers of its own.
        let _: Result<(), ErrorCode> = noted;
    }

    /// Markers to be sent, since the last call.
    pub fn take_markers(&mut self) -> Vec<Markers> {
        std::mem::take(&mut self.transactions.messages)
    }

    /// What a producer is told under a ticket, if that has come.
    pub fn take_producer(&mut self, ticket: Ticket) -> Option<Result<Producer, ErrorCode>> {
        self.transactions.take_answer(ticket).map(|answer| answer.and_then(|reply| reply))
    }

    /// A timer has fired.
    pub fn handle_timer(&mut self, storage: &mut Storage<'_>, key: &TimerKey) {
        let mut call = Call { settings: &self.settings, storage };
        match key {
            TimerKey::Group(id, kind) => self.groups.handle_timer(&mut call, id, kind),
            TimerKey::Transaction(id, kind) => self.transactions.handle_timer(&mut call, id, kind),
        }
    }

    /// The high watermark of a partition has risen.
    pub fn committed(&mut self, storage: &mut Storage<'_>, key: PartitionKey) {
        let mut call = Call { settings: &self.settings, storage };
        self.groups.committed(&mut call, key);
        self.transactions.committed(&mut call, key);
    }

    /// The shard that a timer belongs to.
    pub fn shard_of(&self, timer: &TimerKey) -> Shard {
        match timer {
            TimerKey::Group(id, _) => {
                Shard { kind: CoordinatorKind::Group, index: partition_for(id, self.settings.partitions) }
            }
            TimerKey::Transaction(id, _) => Shard {
                kind: CoordinatorKind::Transaction,
                index: partition_for(id, self.settings.transactions.partitions),
            },
        }
    }

    /// When [`Coordinators::handle_timeout`] must be called next.
    pub fn next_timeout(&self) -> Option<Instant> {
        let forgetting = (!self.deleted_topics.is_empty()).then_some(self.deleted_since);
        [forgetting, self.groups.next_timeout(), self.transactions.next_timeout()].into_iter().flatten().min()
    }

    /// Goes on with loading shards and freeing them, and drops what was committed for deleted topics; if it is time to,
    /// gives up waiting for writes, and drops expired offsets, empty groups and idle transactional ids. It does so much at
    /// once as others can wait for; [`Coordinators::next_timeout`] says when to go on.
    pub fn handle_timeout(&mut self, storage: &mut Storage<'_>, is_topic: impl Fn(&str) -> bool) {
        self.forget_deleted(storage);
        let mut call = Call { settings: &self.settings, storage };
        self.groups.handle_timeout(&mut call, &is_topic);
        self.transactions.handle_timeout(&mut call, &is_topic);
    }

    /// A topic is gone, and what was committed for it goes with it: [`Coordinators::forget_deleted`] sees to that.
    pub fn note_deleted(&mut self, topic: &Arc<str>, now: Instant) {
        if self.groups.is_empty() {
            return;
        }
        if self.deleted_topics.is_empty() {
            self.deleted_since = now;
        }
        self.deleted_topics.insert(topic.clone());
    }

    /// Drops what was committed for topics that are gone: for as many as others can wait for, in one write a shard, as
    /// Kafka does it for all of them (`GroupCoordinatorService.onPartitionsDeleted`).
    pub fn forget_deleted(&mut self, storage: &mut Storage<'_>) {
        let count = self.deleted_topics.len().min(FORGOTTEN_AT_ONCE);
        let topics: Vec<_> = (0..count).filter_map(|_| self.deleted_topics.pop_first()).collect();
        self.forget_offsets(storage, &topics);
    }

    /// There is a topic of this name: what was committed for an earlier one must not outlive its creation.
    pub fn note_topic(&mut self, storage: &mut Storage<'_>, topic: &Arc<str>) {
        if self.deleted_topics.remove(topic) {
            self.forget_offsets(storage, std::slice::from_ref(topic));
        }
    }

    fn forget_offsets(&mut self, storage: &mut Storage<'_>, topics: &[Arc<str>]) {
        if topics.is_empty() {
            return;
        }
        let mut call = Call { settings: &self.settings, storage };
        self.groups.write_of_each(&mut call, |groups| {
            topics.iter().flat_map(|topic| groups.offsets_of_topic(topic)).collect()
        });
    }

    /// The answer of a ticket, if it has come.
    pub fn take_answer(&mut self, ticket: Ticket) -> Option<Result<GroupReply, ErrorCode>> {
        self.groups.take_answer(ticket)
    }

    /// Whoever held this ticket is gone.
    pub fn forget(&mut self, ticket: Ticket) {
        match ticket.kind {
            CoordinatorKind::Group => self.groups.forget(ticket),
            CoordinatorKind::Transaction => self.transactions.forget(ticket),
        }
    }

    /// Tickets that were answered since the last call.
    pub fn take_answered(&mut self) -> Vec<Ticket> {
        let mut answered = std::mem::take(&mut self.groups.answered);
        answered.append(&mut self.transactions.answered);
        answered
    }

    /// Whether there is anything to take: timers, what was written or answered, messages. Most requests leave none.
    pub fn has_news(&self) -> bool {
        self.groups.has_news() || self.transactions.has_news()
    }

    /// Timers to be set or cancelled since the last call, in this order.
    pub fn take_timers(&mut self) -> Vec<TimerChange> {
        let all_of = |kind, index| TimerChange::AllOf(Shard { kind, index });
        let of_groups = self.groups.timers.drain(..).map(|timer| match timer {
            ShardTimer::One { id, kind, deadline } => {
                TimerChange::One { key: TimerKey::Group(id, kind), deadline }
            }
            ShardTimer::AllOf { index } => all_of(CoordinatorKind::Group, index),
        });
        let of_transactions = self.transactions.timers.drain(..).map(|timer| match timer {
            ShardTimer::One { id, kind, deadline } => {
                TimerChange::One { key: TimerKey::Transaction(id, kind), deadline }
            }
            ShardTimer::AllOf { index } => all_of(CoordinatorKind::Transaction, index),
        });
        of_groups.chain(of_transactions).collect()
    }

    /// Partitions that were written to since the last call.
    pub fn take_written(&mut self) -> Vec<PartitionKey> {
        let mut written = std::mem::take(&mut self.groups.written);
        written.append(&mut self.transactions.written);
        written
    }

    /// Runs a command on the group's shard.
    fn run<R>(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        command: impl FnOnce(&mut Groups, &mut Effects<'_>) -> Result<R, ErrorCode>,
    ) -> Result<R, ErrorCode> {
        self.groups.run(&mut Call { settings: &self.settings, storage }, group, command)
    }
}

#[cfg(test)]
mod tests {
    use super::records::Record;
    use super::runtime::{ShardState, StateRecord, batch, in_transaction, read};
    use super::*;
    use crate::base::WallTime;
    use crate::wire::batch::{BatchView, HEADER_LEN};
    use crate::wire::records::RecordIter;

    #[test]
    fn batches_are_byte_for_byte_what_kafka_writes() {
        let mut kinds = std::collections::BTreeMap::new();
        let mut whole = 0;
        for theirs in from_kafka::batches() {
            let view = BatchView::new(&theirs).unwrap();
            let records: Vec<Record> = read(view, &theirs);
            assert_eq!(records.len(), view.count() as usize, "every record is understood: {records:?}");
            for record in &records {
                let (key, value) = record.encode();
                *kinds
                    .entry((i16::from_be_bytes(*key.first_chunk().unwrap()), value.is_some()))
                    .or_insert(0) += 1;
            }
            let header = &theirs[..HEADER_LEN];
            let base_timestamp = i64::from_be_bytes(*header[27..].first_chunk().unwrap());
            let mut ours =
                batch(&records, Groups::batch_header(), WallTime(view.max_timestamp())).unwrap().to_vec();
            if base_timestamp == view.max_timestamp() {
                // The log stamps offset and epoch when it appends.
                ours[..8].copy_from_slice(&theirs[..8]);
                ours[12..16].copy_from_slice(&theirs[12..16]);
                assert_eq!(ours, theirs, "{records:?}");
                whole += 1;
            }
            // What Kafka has gathered from several moments is the same but for the times.
            let pairs = |batch: &[u8]| {
                let records = RecordIter::new(&batch[HEADER_LEN..], view.count()).map(Result::unwrap);
                records
                    .map(|record| (record.key.map(<[u8]>::to_vec), record.value.map(<[u8]>::to_vec)))
                    .collect::<Vec<_>>()
            };
            assert_eq!(pairs(&ours), pairs(&theirs), "{records:?}");
        }
        assert!(whole > 20, "{whole} batches of one moment");
        let all = [1, 2, 3, 4, 5, 6, 7, 8, 16].into_iter().flat_map(|kind| [(kind, false), (kind, true)]);
        // The topics of a group are never written any more, only deleted.
        let missing: Vec<_> = all.filter(|kind| *kind != (4, true) && !kinds.contains_key(kind)).collect();
        assert!(missing.is_empty(), "not in what was recorded: {missing:?}");
    }

    /// Batches that are part of a transaction have its producer in their header, and no sequence.
    #[test]
    fn offsets_in_transactions_are_byte_for_byte_what_kafka_writes() {
        let mut counts = Vec::new();
        for theirs in from_kafka::transactional_offsets() {
            let view = BatchView::new(&theirs).unwrap();
            assert!(view.is_transactional());
            let records: Vec<Record> = read(view, &theirs);
            assert_eq!(records.len(), view.count() as usize, "every record is understood: {records:?}");
            counts.push(records.len());
            let producer = Producer { id: view.producer_id(), epoch: view.producer_epoch() };
            let header = in_transaction(Groups::batch_header(), producer);
            let ours = batch(&records, header, WallTime(view.max_timestamp()));
            let mut ours = ours.unwrap().to_vec();
            // The log stamps offset and epoch when it appends.
            ours[..8].copy_from_slice(&theirs[..8]);
            ours[12..16].copy_from_slice(&theirs[12..16]);
            assert_eq!(ours, theirs, "{records:?}");
        }
        assert_eq!(counts, [1, 1, 2, 2, 2, 2], "by clients of both versions, of one partition and of two");
    }

    #[test]
    fn groups_belong_where_kafka_puts_them() {
        // Values of Java's String.hashCode: "group" 98629247, "" 0, "my-group" 1013626583 and "polygenelubricants"
        // Integer.MIN_VALUE.
        assert_eq!(partition_for("group", 50), 98_629_247 % 50);
        assert_eq!(partition_for("", 50), 0);
        assert_eq!(partition_for("polygenelubricants", 50), 0);
    }
}
