//! The groups of one partition of `__consumer_offsets`: who is in them, and what they have committed.
//!
//! A command is decided against the state and leads to `Effects`: records to write, requests to answer, timers to set.
//! Offsets change when their record is applied and in no other way; of a classic group, the generations are in the
//! log, while what happens within a rebalance is state of this process alone, as in Kafka.

mod classic;
mod committed;
pub mod consumer;
mod membership;
mod offset_table;
mod offsets;
mod pending_offsets;
mod protocols;
mod rebalance;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::records::consumer_groups::ConsumerRecord;
use super::records::{CommittedOffset, Record};
use super::runtime::{self, ShardState};
use super::{CoordinatorKind, CoordinatorSettings, Ticket};
use crate::base::{ErrorCode, Now, WallTime};
use crate::controller::uuid_base64;
use crate::wire::batch::HEADER_LEN;
use crate::wire::records::BatchHeader;

pub use classic::{ClassicGroup, ClassicMember, ClassicState, Protocol};
pub use committed::{CommittedGroups, KeptGroups};
pub use consumer::{ConsumerGroup, GroupError, Heartbeat, HeartbeatReply};
pub use membership::{Assignments, Join, Leaver, Sync};
use offset_table::OffsetTable;
pub use offsets::{Commit, CommitPartition, GroupOffsets};
use pending_offsets::{PendingOffset, PendingOffsets};
use protocols::{once_committed, when_written};

/// What a request gets: at once, or once its ticket is answered.
#[derive(Clone, Debug)]
pub enum Outcome<R> {
    /// At once.
    Ready(R),
    /// Later, under this ticket.
    Waits(Ticket),
}

/// What a ticket is answered with.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "one variant for each kind of request that may wait")]
pub enum GroupReply {
    Join(JoinReply),
    Sync(SyncReply),
    Heartbeat(HeartbeatReply),
    /// What was written is committed.
    Written,
}

/// The answer to a JoinGroup.
#[derive(Clone, Debug)]
pub struct JoinReply {
    /// Whether it went wrong.
    pub error: ErrorCode,
    /// −1 after an error.
    pub generation: i32,
    /// The group's.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol (assignor) of this generation.
    pub protocol: Option<Arc<str>>,
    /// The leader's member id.
    pub leader: Arc<str>,
    /// The member's own id.
    pub member_id: Arc<str>,
    /// For the leader alone: everybody.
    pub members: Vec<JoinedMember>,
    /// For a leader that came back while nothing had changed: it need not assign.
    pub skip_assignment: bool,
}

impl JoinReply {
    /// The answer to a join that failed.
    pub fn failed(member_id: Arc<str>, error: ErrorCode) -> Self {
        JoinReply {
            error,
            generation: -1,
            protocol_type: None,
            protocol: None,
            leader: Arc::from(""),
            member_id,
            members: Vec::new(),
            skip_assignment: false,
        }
    }
}

/// A member, as the leader is told of it.
#[derive(Clone, Debug)]
pub struct JoinedMember {
    /// Its id.
    pub member_id: Arc<str>,
    /// `group.instance.id`.
    pub instance_id: Option<Arc<str>>,
    /// Its subscription, in its own encoding.
    pub metadata: Bytes,
}

/// The answer to a SyncGroup.
#[derive(Clone, Debug)]
pub struct SyncReply {
    /// The group's.
    pub protocol_type: Option<Arc<str>>,
    /// The protocol (assignor) of this generation.
    pub protocol: Option<Arc<str>>,
    /// What the member gets, as the leader wrote it.
    pub assignment: Bytes,
}

/// A timer of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TimerKind {
    /// A member has been silent for its session timeout.
    Session(Arc<str>),
    /// The join phase is over.
    Join,
    /// The sync phase is over.
    Sync,
    /// A member of a consumer group has not given up what it had to.
    Rebalance(Arc<str>),
    /// A classic member of a consumer group has not joined again.
    MemberJoin(Arc<str>),
    /// A classic member of a consumer group has joined and not asked what it gets.
    MemberSync(Arc<str>),
    /// The regular expressions of a consumer group are to be resolved.
    Regexes,
}

/// What a group does once a write is committed, or has failed.
#[derive(Clone, Debug)]
pub(super) enum FollowUp {
    /// The members get what the leader assigned.
    Assign { generation: i32, assignments: Assignments },
    /// A consumer group has become a classic one; whoever asked for what led to it is answered.
    Downgraded { answer: Option<(Ticket, GroupReply)> },
}

/// Records to write together, and what follows once they are committed.
pub(super) type Write = runtime::Write<Groups>;
/// What follows a write.
pub(super) type OnCommit = runtime::OnCommit<Groups>;
/// What a command leads to, and what it may know beside the group.
pub(super) type Effects<'a> = runtime::Effects<'a, Groups>;

impl Effects<'_> {
    pub(super) fn new_member_id(&mut self, prefix: &str) -> String {
        format!("{prefix}-{}", self.entropy.next_uuid())
    }

    /// An id as Kafka's `Uuid` prints it.
    pub(super) fn new_kafka_uuid(&mut self) -> Arc<str> {
        uuid_base64(self.entropy.next_uuid()).into()
    }
}

/// A group of any kind.
#[derive(Clone, Copy, Debug)]
pub enum Group<'a> {
    /// Its members assign among themselves.
    Classic(&'a ClassicGroup),
    /// The coordinator assigns (KIP-848).
    Consumer(&'a ConsumerGroup),
}

impl Group<'_> {
    /// Its name.
    pub fn id(&self) -> &Arc<str> {
        match self {
            Group::Classic(group) => &group.id,
            Group::Consumer(group) => &group.id,
        }
    }

    /// Whether a member subscribes to a topic; where that should be known but isn't, it is assumed.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        match self {
            Group::Classic(group) => group.is_subscribed_to(topic),
            Group::Consumer(group) => group.is_subscribed_to(topic),
        }
    }

    /// Kafka's name for the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Group::Classic(_) => "classic",
            Group::Consumer(_) => "consumer",
        }
    }

    /// Kafka's name for the state.
    pub fn state_name(&self) -> &'static str {
        match self {
            Group::Classic(group) => group.state().name(),
            Group::Consumer(group) => group.state().name(),
        }
    }

    /// What kind of client its members are; empty if it never had any.
    pub fn protocol_type(&self) -> &str {
        match self {
            Group::Classic(group) => group.protocol_type().map(|kind| &**kind).unwrap_or_default(),
            Group::Consumer(_) => "consumer",
        }
    }
}

/// The groups of one shard.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    classic: FxHashMap<Arc<str>, ClassicGroup>,
    consumer: FxHashMap<Arc<str>, ConsumerGroup>,
    /// Names in order, for whoever lists them.
    names: BTreeMap<Arc<str>, ()>,
    offsets: OffsetTable,
    /// What open transactions have committed.
    pending: PendingOffsets,
}

impl Groups {
    /// The classic group of this name.
    pub fn classic(&self, id: &str) -> Option<&ClassicGroup> {
        self.classic.get(id)
    }

    /// The consumer group of this name.
    pub fn consumer(&self, id: &str) -> Option<&ConsumerGroup> {
        self.consumer.get(id)
    }

    /// The group of this name, of any kind.
    pub fn group(&self, id: &str) -> Option<Group<'_>> {
        let consumer = self.consumer.get(id).map(Group::Consumer);
        consumer.or_else(|| self.classic.get(id).map(Group::Classic))
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// All groups, by name.
    pub fn iter(&self) -> impl Iterator<Item = Group<'_>> {
        self.names.keys().filter_map(|name| self.group(name))
    }

    /// Whether a transaction that is open has committed for the group's partition.
    pub fn is_offset_pending(&self, id: &str, topic: &str, index: i32) -> bool {
        self.pending.is_pending(id, topic, index)
    }

    /// What a group has committed.
    pub fn offsets(&self, id: &str) -> Option<&GroupOffsets> {
        self.offsets.get(id)
    }

    /// Sees to it that there is a group of this name, of whatever kind.
    fn ensure_group(&mut self, id: &Arc<str>, now: Now) {
        if !self.consumer.contains_key(id) {
            self.ensure_classic(id, now);
        }
    }

    fn ensure_classic(&mut self, id: &Arc<str>, now: Now) -> &mut ClassicGroup {
        self.names.entry(id.clone()).or_default();
        self.classic.entry(id.clone()).or_insert_with(|| ClassicGroup::new(id.clone(), now.wall))
    }

    /// Takes on what a record says: how state is loaded, and how offsets change.
    pub(super) fn apply(&mut self, record: &Record, now: Now) {
        match record {
            Record::Offset { group, topic, index, value } => match value {
                Some(value) => {
                    self.ensure_group(group, now);
                    self.pending.supersede(group, topic, *index);
                    self.offsets.set(group, topic, *index, value.clone());
                }
                None => {
                    self.pending.remove(group, topic, *index);
                    self.offsets.remove(group, topic, *index);
                }
            },
            Record::ClassicGroup { group, value: Some(value) } => {
                self.names.entry(group.clone()).or_default();
                self.consumer.remove(group);
                self.classic.insert(group.clone(), ClassicGroup::from_value(group.clone(), value));
            }
            Record::ClassicGroup { group, value: None } => {
                self.classic.remove(group);
                self.forget_name(group);
            }
            Record::Consumer(record) => self.apply_consumer(record),
        }
    }

    fn apply_consumer(&mut self, record: &ConsumerRecord) {
        let ConsumerRecord { group: id, content } = record;
        if !self.consumer.contains_key(id) {
            if content.is_tombstone() {
                return;
            }
            self.classic.remove(id);
            self.names.entry(id.clone()).or_default();
            self.consumer.insert(id.clone(), ConsumerGroup::new(id.clone()));
        }
        let is_there = self.consumer.get_mut(id).is_some_and(|group| group.apply(content));
        if !is_there {
            self.consumer.remove(id);
            self.forget_name(id);
        }
    }

    /// Forgets a name that no group has any more.
    fn forget_name(&mut self, id: &str) {
        if !self.classic.contains_key(id) && !self.consumer.contains_key(id) {
            self.names.remove(id);
        }
    }

    pub(super) fn join(
        &mut self,
        group: &Arc<str>,
        join: Join,
        effects: &mut Effects<'_>,
    ) -> Outcome<JoinReply> {
        let mut records = Vec::new();
        match self.consumer.get(group) {
            Some(consumer) if consumer.is_empty() => records = consumer.tombstones(),
            Some(_) => {
                let outcome = self.join_consumer(group, &join, effects);
                return outcome
                    .unwrap_or_else(|error| Outcome::Ready(JoinReply::failed(join.member_id, error.code)));
            }
            None => {}
        }
        let is_new = !self.classic.contains_key(group);
        if is_new && !join.member_id.is_empty() {
            return Outcome::Ready(JoinReply::failed(join.member_id, ErrorCode::UnknownMemberId));
        }
        let was_consumer = !records.is_empty();
        let state = self.ensure_classic(group, effects.now);
        let outcome = state.join(join, effects);
        if is_new {
            records.push(state.creation());
            let then = match was_consumer {
                true => OnCommit::FollowUp(group.clone(), FollowUp::Downgraded { answer: None }),
                false => OnCommit::Nothing,
            };
            effects.write(Write { records, then });
        }
        outcome
    }

    pub(super) fn sync(
        &mut self,
        group: &str,
        sync: Sync,
        effects: &mut Effects<'_>,
    ) -> Result<Outcome<SyncReply>, ErrorCode> {
        match self.consumer.get_mut(group) {
            Some(group) => {
                let reply = group.sync_classic(&sync, effects)?;
                Ok(when_written(Vec::new(), reply, GroupReply::Sync, effects))
            }
            None => self.known(group)?.sync(sync, effects),
        }
    }

    pub(super) fn heartbeat(
        &mut self,
        group: &str,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
        effects: &mut Effects<'_>,
    ) -> Result<Option<Ticket>, ErrorCode> {
        match self.consumer.get_mut(group) {
            Some(group) => group.heartbeat_classic(member_id, instance_id, generation, effects),
            None => self.known(group)?.heartbeat(member_id, instance_id, generation, effects),
        }?;
        Ok(once_committed(Vec::new(), effects))
    }

    pub(super) fn leave(
        &mut self,
        group: &Arc<str>,
        leavers: &[Leaver],
        effects: &mut Effects<'_>,
    ) -> Result<(Option<Ticket>, Vec<ErrorCode>), ErrorCode> {
        if self.consumer.contains_key(group) {
            return Ok(self.leave_by_classic(group, leavers, effects));
        }
        let Some(group) = self.classic.get_mut(group) else {
            return Ok((None, vec![ErrorCode::UnknownMemberId; leavers.len()]));
        };
        let outcomes = group.leave(leavers, effects)?;
        Ok((once_committed(Vec::new(), effects), outcomes))
    }

    /// Deletes a group and its offsets.
    pub(super) fn delete(
        &mut self,
        group: &Arc<str>,
        effects: &mut Effects<'_>,
    ) -> Result<Ticket, ErrorCode> {
        let end = match (self.consumer.get(group), self.classic.get(group)) {
            (Some(consumer), _) if consumer.is_empty() => consumer.tombstones(),
            (Some(_), _) => return Err(ErrorCode::NonEmptyGroup),
            (None, None) => return Err(ErrorCode::GroupIdNotFound),
            (None, Some(classic)) => match classic.state() {
                ClassicState::Empty => vec![Record::ClassicGroup { group: group.clone(), value: None }],
                ClassicState::Dead => return Err(ErrorCode::GroupIdNotFound),
                _ => return Err(ErrorCode::NonEmptyGroup),
            },
        };
        let mut records =
            self.offsets.get(group).map(|offsets| offsets.tombstones(group)).unwrap_or_default();
        let committed = self.offsets.get(group);
        let is_new = |topic: &str, index| committed.is_none_or(|known| known.offset(topic, index).is_none());
        let pending = self.pending.of_group(group).filter(|(topic, index)| is_new(topic, *index));
        records.extend(pending.map(|(topic, index)| offsets::tombstone(group, topic, index)));
        records.extend(end);
        let ticket = effects.ticket();
        effects.write(Write { records, then: OnCommit::Answer(ticket, GroupReply::Written) });
        Ok(ticket)
    }

    fn known(&mut self, group: &str) -> Result<&mut ClassicGroup, ErrorCode> {
        self.classic.get_mut(group).ok_or(ErrorCode::UnknownMemberId)
    }
}

impl ShardState for Groups {
    type Record = Record;
    type Reply = GroupReply;
    type TimerKind = TimerKind;
    type FollowUp = FollowUp;
    type Message = Infallible;
    type Kept = KeptGroups;

    const KIND: CoordinatorKind = CoordinatorKind::Group;
    /// Whatever is said waits for what was loaded to be committed, or is said of what was before.
    const LOADS_COMMITTED: bool = false;
    /// Kafka's group coordinator compares records with the room behind the header and counts the header among them.
    const BATCH_MARGIN: usize = HEADER_LEN;

    fn partitions(settings: &CoordinatorSettings) -> i32 {
        settings.partitions
    }

    fn clean_up_interval_ms(settings: &CoordinatorSettings) -> i64 {
        settings.retention_check_interval_ms
    }

    /// The producer of Kafka's batches has no id, but a sequence.
    fn batch_header() -> BatchHeader {
        BatchHeader { base_sequence: 0, ..BatchHeader::default() }
    }

    fn replay(&mut self, record: &Record, producer_id: Option<i64>, now: Now) {
        match (producer_id, record) {
            (Some(producer_id), Record::Offset { group, topic, index, value: Some(offset) }) => {
                self.ensure_group(group, now);
                let (group, topic, offset) = (group.clone(), topic.clone(), offset.clone());
                self.pending.set(producer_id, PendingOffset { group, topic, index: *index, offset });
            }
            _ => self.apply(record, now),
        }
    }

    fn end_transaction(&mut self, producer_id: i64, committed: bool, now: Now) {
        for pending in self.pending.end(producer_id) {
            if committed {
                let PendingOffset { group, topic, index, offset } = pending;
                self.ensure_group(&group, now);
                self.offsets.set(&group, &topic, index, offset);
            }
        }
    }

    fn ended_by(&self, producer_id: i64, committed: bool) -> Vec<Record> {
        let pending = self.pending.of_producer(producer_id).filter(|_| committed);
        let record = |(group, topic, index, offset): (&Arc<str>, &Arc<str>, i32, &CommittedOffset)| {
            let (group, topic) = (group.clone(), topic.clone());
            Record::Offset { group, topic, index, value: Some(offset.clone()) }
        };
        pending.map(record).collect()
    }

    fn keep(&self, kept: &mut KeptGroups, record: &Record, producer_id: Option<i64>) {
        self.keep_before(kept, record, producer_id.is_some());
    }

    fn catch_up(kept: &mut KeptGroups, record: &Record, producer_id: Option<i64>, now: Now) {
        kept.catch_up(record, producer_id.is_some(), now);
    }

    /// A classic group is in memory already as its record has it; only its end is news.
    fn is_known(record: &Record) -> bool {
        matches!(record, Record::ClassicGroup { value: Some(_), .. })
    }

    /// Sessions of members that came with a loaded partition begin anew.
    fn loaded(&mut self, effects: &mut Effects<'_>) {
        for group in self.iter() {
            effects.turn_to(group.id());
            match group {
                Group::Classic(group) => group.members().for_each(|member| {
                    let timeout_ms = member.session_timeout_ms.into();
                    effects.schedule(TimerKind::Session(member.id.clone()), timeout_ms);
                }),
                Group::Consumer(group) => group.start_timers(effects),
            }
        }
        // The coordinator before may have allowed more members.
        for id in self.names.keys() {
            if let Some(group) = self.classic.get_mut(id).filter(|group| group.is_too_large(effects)) {
                effects.turn_to(id);
                group.prepare_rebalance(effects);
            }
        }
    }

    fn timer(&mut self, group: &Arc<str>, kind: &TimerKind, effects: &mut Effects<'_>) {
        if self.consumer.contains_key(group) {
            return self.consumer_timer(group, kind, effects);
        }
        let Some(group) = self.classic.get_mut(group) else { return };
        match kind {
            TimerKind::Session(member) => group.session_timer(member, effects),
            TimerKind::Join => group.join_timer(effects),
            TimerKind::Sync => group.sync_timer(effects),
            // Set while the group was a consumer group.
            TimerKind::Rebalance(_)
            | TimerKind::MemberJoin(_)
            | TimerKind::MemberSync(_)
            | TimerKind::Regexes => {}
        }
    }

    /// Classic groups are in memory; their timers have done their work.
    fn retries_timer(&self, group: &Arc<str>, _kind: &TimerKind) -> bool {
        self.consumer.contains_key(group)
    }

    fn follow_up(
        &mut self,
        group: &Arc<str>,
        follow_up: FollowUp,
        written: Result<(), ErrorCode>,
        effects: &mut Effects<'_>,
    ) {
        match follow_up {
            FollowUp::Assign { generation, assignments } => {
                let Some(group) = self.classic.get_mut(group) else { return };
                match written {
                    Ok(()) => group.assignment_committed(generation, &assignments, effects),
                    Err(error) => group.assignment_failed(generation, error, effects),
                }
            }
            FollowUp::Downgraded { answer } => {
                // The log still has the group as a consumer group, and so it stays one.
                if written.is_err() && self.consumer.contains_key(group) {
                    self.classic.remove(group);
                }
                match (answer, written) {
                    (Some((ticket, reply)), Ok(())) => effects.answer(ticket, reply),
                    (Some((ticket, _)), Err(error)) => effects.fail(ticket, error),
                    (None, _) => {}
                }
            }
        }
    }

    fn clean_up(
        &self,
        settings: &CoordinatorSettings,
        is_topic: &dyn Fn(&str) -> bool,
        now: WallTime,
    ) -> Vec<Record> {
        self.expired(settings.offsets_retention_ms, is_topic, now)
    }
}
