//! The requests of a classic group's members: join, sync, heartbeat, leave.

use std::sync::Arc;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::classic::{ClassicGroup, ClassicMember, ClassicState, Protocol};
use super::rebalance::NEW_MEMBER_TIMEOUT_MS;
use super::{Effects, FollowUp, JoinReply, OnCommit, Outcome, SyncReply, TimerKind, Write};
use crate::base::ErrorCode;
use crate::coordinator::records::Record;

/// A JoinGroup request.
#[derive(Clone, Debug)]
pub struct Join {
    /// Empty for a member that is new.
    pub member_id: Arc<str>,
    /// `group.instance.id`.
    pub instance_id: Option<Arc<str>>,
    /// The client's name for itself.
    pub client_id: Arc<str>,
    /// The client's address, with a slash before it.
    pub client_host: Arc<str>,
    /// How long the member may be silent, ms.
    pub session_timeout_ms: i32,
    /// How long a rebalance waits for the member, ms.
    pub rebalance_timeout_ms: i32,
    /// `consumer`, `connect`, …
    pub protocol_type: Arc<str>,
    /// In the order of preference.
    pub protocols: Vec<Protocol>,
    /// Whether a new dynamic member is first told its id and has to come again (v4+, KIP-394).
    pub requires_known_id: bool,
    /// Whether the leader can be told to skip the assignment (v9+, KIP-814).
    pub can_skip_assignment: bool,
}

/// What the leader gives each member, by member id.
pub type Assignments = FxHashMap<Arc<str>, Bytes>;

/// A SyncGroup request.
#[derive(Clone, Debug)]
pub struct Sync {
    /// Who.
    pub member_id: Arc<str>,
    /// `group.instance.id`.
    pub instance_id: Option<Arc<str>>,
    /// The generation that the member knows.
    pub generation: i32,
    /// What it takes the group's protocol type for, if it says so (v5+).
    pub protocol_type: Option<Arc<str>>,
    /// What it takes the group's protocol for, if it says so (v5+).
    pub protocol: Option<Arc<str>>,
    /// From the leader: what each member gets.
    pub assignments: Assignments,
}

/// One member that leaves.
#[derive(Clone, Debug)]
pub struct Leaver {
    /// Empty to name a static member by its instance id alone.
    pub member_id: Arc<str>,
    /// `group.instance.id`.
    pub instance_id: Option<Arc<str>>,
}

impl ClassicGroup {
    /// Whether it has more members than it may have: a coordinator with another `group.max.size` has let them in.
    pub(super) fn is_too_large(&self, effects: &Effects<'_>) -> bool {
        self.members.len() > effects.settings.max_size
    }

    /// Whether there is room for who wants to join.
    fn accepts(&self, member_id: &str, max_size: usize) -> bool {
        let known = self.members.get(member_id);
        match self.state {
            ClassicState::Empty | ClassicState::Dead => true,
            ClassicState::PreparingRebalance => {
                known.is_some_and(|member| member.awaiting_join.is_some()) || self.awaiting_join() < max_size
            }
            ClassicState::CompletingRebalance | ClassicState::Stable => {
                known.is_some() || self.members.len() < max_size
            }
        }
    }

    pub(super) fn join(&mut self, join: Join, effects: &mut Effects<'_>) -> Outcome<JoinReply> {
        let member_id = join.member_id.clone();
        if !self.accepts(&member_id, effects.settings.max_size) {
            self.remove(&member_id, effects);
            return Outcome::Ready(JoinReply::failed(Arc::from(""), ErrorCode::GroupMaxSizeReached));
        }
        if self.state == ClassicState::Dead {
            return Outcome::Ready(JoinReply::failed(member_id, ErrorCode::CoordinatorNotAvailable));
        }
        if !self.supports(&join.protocol_type, &join.protocols) {
            return Outcome::Ready(JoinReply::failed(member_id, ErrorCode::InconsistentGroupProtocol));
        }
        let outcome =
            if member_id.is_empty() { self.join_new(join, effects) } else { self.join_known(join, effects) };
        self.complete_join_if_all_are_there(effects);
        outcome
    }

    fn join_new(&mut self, join: Join, effects: &mut Effects<'_>) -> Outcome<JoinReply> {
        let id: Arc<str> =
            effects.new_member_id(join.instance_id.as_deref().unwrap_or(&join.client_id)).into();
        if let Some(instance_id) = &join.instance_id {
            return match self.static_members.get(instance_id).cloned() {
                Some(holder) => self.rejoin_static(&holder, id, join, effects),
                None => self.add(id, join, effects),
            };
        }
        if !join.requires_known_id {
            return self.add(id, join, effects);
        }
        self.pending_members.insert(id.clone());
        effects.schedule(TimerKind::Session(id.clone()), join.session_timeout_ms.into());
        Outcome::Ready(JoinReply::failed(id, ErrorCode::MemberIdRequired))
    }

    fn add(&mut self, id: Arc<str>, join: Join, effects: &mut Effects<'_>) -> Outcome<JoinReply> {
        if self.state == ClassicState::Empty {
            self.protocol_type = Some(join.protocol_type.clone());
        }
        if self.state == ClassicState::PreparingRebalance && self.previous_state == ClassicState::Empty {
            self.new_member_added = true;
        }
        let ticket = effects.ticket();
        self.insert(ClassicMember {
            id: id.clone(),
            instance_id: join.instance_id,
            client_id: join.client_id,
            client_host: join.client_host,
            rebalance_timeout_ms: join.rebalance_timeout_ms,
            session_timeout_ms: join.session_timeout_ms,
            protocols: join.protocols,
            assignment: Bytes::new(),
            awaiting_join: Some(ticket),
            awaiting_sync: None,
            is_new: true,
        });
        effects.schedule(TimerKind::Session(id), NEW_MEMBER_TIMEOUT_MS);
        self.rebalance_or_complete(effects);
        Outcome::Waits(ticket)
    }

    fn join_known(&mut self, join: Join, effects: &mut Effects<'_>) -> Outcome<JoinReply> {
        let id = join.member_id.clone();
        if self.pending_members.contains(&id) {
            return self.add(id, join, effects);
        }
        if let Err(error) = self.check_member(&id, join.instance_id.as_deref()) {
            return Outcome::Ready(JoinReply::failed(id, error));
        }
        let same = self.members[&id].protocols == join.protocols;
        match self.state {
            ClassicState::CompletingRebalance if same => {
                let members = if self.is_leader(&id) { self.joined_members() } else { Vec::new() };
                Outcome::Ready(self.join_reply(&id, members))
            }
            ClassicState::Stable if same && !self.is_leader(&id) => {
                Outcome::Ready(self.join_reply(&id, Vec::new()))
            }
            ClassicState::PreparingRebalance | ClassicState::CompletingRebalance | ClassicState::Stable => {
                let ticket = self.update(&id, join, effects);
                self.rebalance_or_complete(effects);
                Outcome::Waits(ticket)
            }
            ClassicState::Empty | ClassicState::Dead => {
                Outcome::Ready(JoinReply::failed(id, ErrorCode::UnknownMemberId))
            }
        }
    }

    /// A member that is there joins again: it waits, with what it says now.
    fn update(&mut self, id: &Arc<str>, join: Join, effects: &mut Effects<'_>) -> super::super::Ticket {
        let ticket = effects.ticket();
        let mut forgotten = None;
        self.change(id, |member| {
            member.protocols = join.protocols;
            member.rebalance_timeout_ms = join.rebalance_timeout_ms;
            member.session_timeout_ms = join.session_timeout_ms;
            forgotten = member.awaiting_join.replace(ticket);
        });
        if let Some(forgotten) = forgotten {
            // Kafka never answers an earlier join of the same member; nothing hangs here.
            effects.fail(forgotten, ErrorCode::RebalanceInProgress);
        }
        ticket
    }

    /// A static member comes back without its id: it gets a new one, and whoever holds the old one is fenced.
    fn rejoin_static(
        &mut self,
        holder: &Arc<str>,
        id: Arc<str>,
        join: Join,
        effects: &mut Effects<'_>,
    ) -> Outcome<JoinReply> {
        let old_leader = self.leader.clone().unwrap_or_default();
        let was_leader = self.is_leader(holder);
        let can_skip_assignment = join.can_skip_assignment;
        self.replace(holder, id.clone(), effects);
        let ticket = self.update(&id, Join { instance_id: None, ..join.clone() }, effects);
        let member = &mut self.members[&id];
        member.client_id = join.client_id;
        member.client_host = join.client_host;
        effects.schedule(TimerKind::Session(id.clone()), member.session_timeout_ms.into());
        if was_leader {
            self.leader = Some(id.clone());
        }
        match self.state {
            ClassicState::Stable if self.select_protocol() == self.protocol => {
                self.change(&id, |member| member.awaiting_join = None);
                let mut reply = self.join_reply(&id, Vec::new());
                if can_skip_assignment && was_leader {
                    reply.members = self.joined_members();
                    reply.skip_assignment = true;
                } else if !can_skip_assignment {
                    // An old client that is told it leads would assign anew.
                    reply.leader = old_leader;
                }
                let value = self.to_value(|member| member.assignment.clone());
                let record = Record::ClassicGroup { group: self.id.clone(), value: Some(value) };
                let then = OnCommit::Answer(ticket, super::GroupReply::Join(reply));
                effects.write(Write { records: vec![record], then });
            }
            ClassicState::Stable => self.rebalance_or_complete(effects),
            ClassicState::CompletingRebalance => self.prepare_rebalance(effects),
            ClassicState::PreparingRebalance => self.complete_join_if_all_are_there(effects),
            ClassicState::Empty | ClassicState::Dead => {}
        }
        Outcome::Waits(ticket)
    }

    /// Gives a static member another id, in its place.
    fn replace(&mut self, old: &Arc<str>, new: Arc<str>, effects: &mut Effects<'_>) {
        let mut fenced = [None, None];
        let changed = self.change(old, |member| {
            fenced = [member.awaiting_join.take(), member.awaiting_sync.take()];
            member.id = new.clone();
        });
        let Some(instance_id) = changed.map(|member| member.instance_id.clone()) else { return };
        for ticket in fenced.into_iter().flatten() {
            effects.fail(ticket, ErrorCode::FencedInstanceId);
        }
        effects.cancel(TimerKind::Session(old.clone()));
        if self.pending_sync.remove(old) {
            self.pending_sync.insert(new.clone());
        }
        if let Some(instance_id) = instance_id {
            self.static_members.insert(instance_id, new);
        }
    }

    pub(super) fn sync(
        &mut self,
        sync: Sync,
        effects: &mut Effects<'_>,
    ) -> Result<Outcome<SyncReply>, ErrorCode> {
        self.check_generation(&sync.member_id, sync.instance_id.as_deref(), sync.generation)?;
        let differs = |said: &Option<Arc<str>>, is: &Option<Arc<str>>| said.is_some() && said != is;
        if differs(&sync.protocol_type, &self.protocol_type) || differs(&sync.protocol, &self.protocol) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        match self.state {
            ClassicState::Empty => Err(ErrorCode::UnknownMemberId),
            ClassicState::Dead => Err(ErrorCode::CoordinatorNotAvailable),
            ClassicState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            ClassicState::CompletingRebalance => {
                let ticket = effects.ticket();
                let member = &mut self.members[&sync.member_id];
                if let Some(forgotten) = member.awaiting_sync.replace(ticket) {
                    effects.fail(forgotten, ErrorCode::RebalanceInProgress);
                }
                self.note_synced(&sync.member_id, effects);
                if self.is_leader(&sync.member_id) {
                    self.write_assignment(sync.assignments, effects);
                }
                Ok(Outcome::Waits(ticket))
            }
            ClassicState::Stable => {
                self.note_synced(&sync.member_id, effects);
                let member = &self.members[&sync.member_id];
                effects.schedule(TimerKind::Session(member.id.clone()), member.session_timeout_ms.into());
                Ok(Outcome::Ready(self.sync_reply(member)))
            }
        }
    }

    fn write_assignment(&self, assignments: Assignments, effects: &mut Effects<'_>) {
        let given = |member: &ClassicMember| assignments.get(&member.id).cloned().unwrap_or_default();
        let record = Record::ClassicGroup { group: self.id.clone(), value: Some(self.to_value(given)) };
        let then = OnCommit::FollowUp(
            self.id.clone(),
            FollowUp::Assign { generation: self.generation, assignments },
        );
        effects.write(Write { records: vec![record], then });
    }

    pub(super) fn heartbeat(
        &mut self,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
        effects: &mut Effects<'_>,
    ) -> Result<(), ErrorCode> {
        self.check_generation(member_id, instance_id, generation)?;
        if self.state == ClassicState::Empty {
            return Err(ErrorCode::UnknownMemberId);
        }
        self.note_alive(member_id, effects);
        match self.state {
            ClassicState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    /// A member has shown that it lives.
    pub(super) fn note_alive(&self, member_id: &str, effects: &mut Effects<'_>) {
        if let Some(member) = self.members.get(member_id) {
            effects.schedule(TimerKind::Session(member.id.clone()), member.session_timeout_ms.into());
        }
    }

    /// Lets members leave, each with its own outcome; a rebalance follows once, if any did.
    pub(super) fn leave(
        &mut self,
        leavers: &[Leaver],
        effects: &mut Effects<'_>,
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        if self.state == ClassicState::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        let outcomes: Vec<ErrorCode> = leavers.iter().map(|leaver| self.leave_one(leaver, effects)).collect();
        if outcomes.contains(&ErrorCode::None) {
            match self.state {
                ClassicState::Stable | ClassicState::CompletingRebalance => {
                    self.rebalance_or_complete(effects)
                }
                ClassicState::PreparingRebalance => self.complete_join_if_all_are_there(effects),
                ClassicState::Empty | ClassicState::Dead => {}
            }
        }
        Ok(outcomes)
    }

    fn leave_one(&mut self, leaver: &Leaver, effects: &mut Effects<'_>) -> ErrorCode {
        let instance_id = leaver.instance_id.as_deref();
        let id = if leaver.member_id.is_empty() {
            let holder = instance_id.and_then(|instance_id| self.static_members.get(instance_id));
            match holder {
                Some(holder) => holder.clone(),
                None => return ErrorCode::UnknownMemberId,
            }
        } else if self.pending_members.remove(&leaver.member_id) {
            effects.cancel(TimerKind::Session(leaver.member_id.clone()));
            return ErrorCode::None;
        } else if let Err(error) = self.check_member(&leaver.member_id, instance_id) {
            return error;
        } else {
            leaver.member_id.clone()
        };
        let Some(member) = self.take(&id) else { return ErrorCode::UnknownMemberId };
        effects.cancel(TimerKind::Session(id));
        for ticket in [member.awaiting_join, member.awaiting_sync].into_iter().flatten() {
            effects.fail(ticket, ErrorCode::UnknownMemberId);
        }
        ErrorCode::None
    }
}
