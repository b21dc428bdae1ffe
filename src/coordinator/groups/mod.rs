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
use super::{CoordinatorSettings, Ticket};
use crate::base::entropy::Entropy;
use crate::base::{ErrorCode, Now};

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

/// Records to write together, and what follows once they are committed.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) records: Vec<Record>,
    pub(super) then: OnCommit,
}

/// What follows a write.
#[derive(Clone, Debug)]
pub(super) enum OnCommit {
    Nothing,
    /// A request is answered.
    Answer(Ticket, GroupReply),
    /// The members get what the leader assigned.
    Assign {
        group: Arc<str>,
        generation: i32,
        assignments: Assignments,
    },
}

/// What a command leads to, and what it may know beside the group.
#[derive(Debug)]
pub(super) struct Effects<'a> {
    pub(super) now: Now,
    pub(super) settings: &'a CoordinatorSettings,
    pub(super) entropy: &'a mut Entropy,
    pub(super) next_ticket: &'a mut u64,
    pub(super) answers: Vec<(Ticket, Result<GroupReply, ErrorCode>)>,
    /// Milliseconds from now; none to cancel.
    pub(super) timers: Vec<(TimerKind, Option<i64>)>,
    pub(super) writes: Vec<Write>,
}

impl Effects<'_> {
    pub(super) fn ticket(&mut self) -> Ticket {
        *self.next_ticket += 1;
        Ticket(*self.next_ticket)
    }

    pub(super) fn new_member_id(&mut self, prefix: &str) -> String {
        format!("{prefix}-{}", self.entropy.next_uuid())
    }

    pub(super) fn answer(&mut self, ticket: Ticket, reply: GroupReply) {
        self.answers.push((ticket, Ok(reply)));
    }

    pub(super) fn fail(&mut self, ticket: Ticket, error: ErrorCode) {
        self.answers.push((ticket, Err(error)));
    }

    pub(super) fn schedule(&mut self, kind: TimerKind, after_ms: i64) {
        self.timers.push((kind, Some(after_ms.max(0))));
    }

    pub(super) fn cancel(&mut self, kind: TimerKind) {
        self.timers.push((kind, None));
    }

    pub(super) fn write(&mut self, write: Write) {
        self.writes.push(write);
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

    /// Sessions of members that came with a loaded partition begin anew.
    pub(super) fn start_sessions(&self) -> Vec<(Arc<str>, TimerKind, i64)> {
        let of_group = |group: &ClassicGroup| {
            let timers = group.members().map(|member| {
                let kind = TimerKind::Session(member.id.clone());
                (group.id.clone(), kind, i64::from(member.session_timeout_ms))
            });
            timers.collect::<Vec<_>>()
        };
        self.iter().flat_map(of_group).collect()
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

    pub(super) fn timer(&mut self, group: &str, kind: &TimerKind, effects: &mut Effects<'_>) {
        let Some(group) = self.classic.get_mut(group) else { return };
        match kind {
            TimerKind::Session(member) => group.session_timer(member, effects),
            TimerKind::Join => group.join_timer(effects),
            TimerKind::Sync => group.sync_timer(effects),
        }
    }

    /// The leader's assignment is committed, or can't be.
    pub(super) fn assigned(
        &mut self,
        group: &str,
        generation: i32,
        assignments: Result<&Assignments, ErrorCode>,
        effects: &mut Effects<'_>,
    ) {
        let Some(group) = self.classic.get_mut(group) else { return };
        match assignments {
            Ok(assignments) => group.assignment_committed(generation, assignments, effects),
            Err(error) => group.assignment_failed(generation, error, effects),
        }
    }

    fn known(&mut self, group: &str) -> Result<&mut ClassicGroup, ErrorCode> {
        self.classic.get_mut(group).ok_or(ErrorCode::UnknownMemberId)
    }
}
