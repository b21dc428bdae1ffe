//! The groups of one partition of `__consumer_offsets`: who is in them, and what they have committed.
//!
//! A command is decided against the state and leads to `Effects`: records to write, requests to answer, timers to set.
//! Offsets change when their record is applied and in no other way; of a classic group, the generations are in the
//! log, while what happens within a rebalance is state of this process alone, as in Kafka.

mod classic;
mod membership;
mod offsets;
mod rebalance;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::records::Record;
use super::runtime::{self, ShardState};
use super::{CoordinatorKind, CoordinatorSettings, Ticket};
use crate::base::{ErrorCode, Now, WallTime};
use crate::wire::records::BatchHeader;

pub use classic::{ClassicGroup, ClassicMember, ClassicState, Protocol};
pub use membership::{Assignments, Join, Leaver, Sync};
pub use offsets::{Commit, CommitPartition, GroupOffsets};

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
}

/// What a group does once a write is committed, or has failed.
#[derive(Clone, Debug)]
pub(super) enum FollowUp {
    /// The members get what the leader assigned.
    Assign { generation: i32, assignments: Assignments },
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
}

/// The groups of one shard.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    classic: FxHashMap<Arc<str>, ClassicGroup>,
    /// Names in order, for whoever lists them.
    names: BTreeMap<Arc<str>, ()>,
    offsets: FxHashMap<Arc<str>, GroupOffsets>,
}

impl Groups {
    /// The classic group of this name.
    pub fn classic(&self, id: &str) -> Option<&ClassicGroup> {
        self.classic.get(id)
    }

    /// All groups, by name.
    pub fn iter(&self) -> impl Iterator<Item = &ClassicGroup> {
        self.names.keys().filter_map(|name| self.classic.get(name))
    }

    /// What a group has committed.
    pub fn offsets(&self, id: &str) -> Option<&GroupOffsets> {
        self.offsets.get(id)
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
                    self.ensure_classic(group, now);
                    self.offsets.entry(group.clone()).or_default().set(topic, *index, value.clone());
                }
                None => {
                    let Some(offsets) = self.offsets.get_mut(group) else { return };
                    offsets.remove(topic, *index);
                    if offsets.is_empty() {
                        self.offsets.remove(group);
                    }
                }
            },
            Record::ClassicGroup { group, value: Some(value) } => {
                self.names.entry(group.clone()).or_default();
                self.classic.insert(group.clone(), ClassicGroup::from_value(group.clone(), value));
            }
            Record::ClassicGroup { group, value: None } => {
                self.names.remove(group);
                self.classic.remove(group);
            }
        }
    }

    pub(super) fn join(
        &mut self,
        group: &Arc<str>,
        join: Join,
        effects: &mut Effects<'_>,
    ) -> Outcome<JoinReply> {
        if !join.member_id.is_empty() && !self.classic.contains_key(group) {
            return Outcome::Ready(JoinReply::failed(join.member_id, ErrorCode::UnknownMemberId));
        }
        let is_new = !self.classic.contains_key(group);
        let state = self.ensure_classic(group, effects.now);
        let outcome = state.join(join, effects);
        if is_new {
            let then = OnCommit::Nothing;
            effects.write(Write { records: vec![state.creation()], then });
        }
        outcome
    }

    pub(super) fn sync(
        &mut self,
        group: &str,
        sync: Sync,
        effects: &mut Effects<'_>,
    ) -> Result<Outcome<SyncReply>, ErrorCode> {
        self.known(group)?.sync(sync, effects)
    }

    pub(super) fn heartbeat(
        &mut self,
        group: &str,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
        effects: &mut Effects<'_>,
    ) -> Result<(), ErrorCode> {
        self.known(group)?.heartbeat(member_id, instance_id, generation, effects)
    }

    pub(super) fn leave(
        &mut self,
        group: &str,
        leavers: &[Leaver],
        effects: &mut Effects<'_>,
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        match self.classic.get_mut(group) {
            Some(group) => group.leave(leavers, effects),
            None => Ok(vec![ErrorCode::UnknownMemberId; leavers.len()]),
        }
    }

    /// Deletes a group and its offsets.
    pub(super) fn delete(
        &mut self,
        group: &Arc<str>,
        effects: &mut Effects<'_>,
    ) -> Result<Ticket, ErrorCode> {
        let state = self.classic.get(group).ok_or(ErrorCode::GroupIdNotFound)?.state();
        match state {
            ClassicState::Empty => {}
            ClassicState::Dead => return Err(ErrorCode::GroupIdNotFound),
            _ => return Err(ErrorCode::NonEmptyGroup),
        }
        let mut records =
            self.offsets.get(group).map(|offsets| offsets.tombstones(group)).unwrap_or_default();
        records.push(Record::ClassicGroup { group: group.clone(), value: None });
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

    const KIND: CoordinatorKind = CoordinatorKind::Group;

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

    fn replay(&mut self, record: &Record, _producer_id: Option<i64>, now: Now) {
        self.apply(record, now);
    }

    /// A classic group is in memory already as its record has it; only its end is news.
    fn is_known(record: &Record) -> bool {
        matches!(record, Record::ClassicGroup { value: Some(_), .. })
    }

    /// Sessions of members that came with a loaded partition begin anew.
    fn loaded(&mut self, effects: &mut Effects<'_>) {
        for group in self.iter() {
            effects.turn_to(&group.id);
            for member in group.members() {
                effects.schedule(TimerKind::Session(member.id.clone()), member.session_timeout_ms.into());
            }
        }
    }

    fn timer(&mut self, group: &Arc<str>, kind: &TimerKind, effects: &mut Effects<'_>) {
        let Some(group) = self.classic.get_mut(group) else { return };
        match kind {
            TimerKind::Session(member) => group.session_timer(member, effects),
            TimerKind::Join => group.join_timer(effects),
            TimerKind::Sync => group.sync_timer(effects),
        }
    }

    fn follow_up(
        &mut self,
        group: &Arc<str>,
        follow_up: FollowUp,
        written: Result<(), ErrorCode>,
        effects: &mut Effects<'_>,
    ) {
        let Some(group) = self.classic.get_mut(group) else { return };
        let FollowUp::Assign { generation, assignments } = follow_up;
        match written {
            Ok(()) => group.assignment_committed(generation, &assignments, effects),
            Err(error) => group.assignment_failed(generation, error, effects),
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
