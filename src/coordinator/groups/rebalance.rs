//! How a classic group moves from state to state (Kafka's `GroupMetadataManager`, the parts with `ClassicGroup` in
//! their names).

use bytes::Bytes;

use super::classic::{ClassicGroup, ClassicMember, ClassicState};
use super::{
    Assignments, Effects, GroupReply, JoinReply, JoinedMember, OnCommit, SyncReply, TimerKind, Write,
};
use crate::base::ErrorCode;
use crate::base::planted::{Bug, is_planted};
use crate::coordinator::records::Record;

/// How long a member that is new may take to join, since it can't send heartbeats before it knows its id, ms.
pub(super) const NEW_MEMBER_TIMEOUT_MS: i64 = 300_000;

impl ClassicGroup {
    /// Begins a rebalance if the state allows it; else looks whether the one under way can end.
    pub(super) fn rebalance_or_complete(&mut self, effects: &mut Effects<'_>) {
        match self.state {
            ClassicState::Stable | ClassicState::CompletingRebalance | ClassicState::Empty => {
                self.prepare_rebalance(effects);
            }
            ClassicState::PreparingRebalance | ClassicState::Dead => {
                self.complete_join_if_all_are_there(effects)
            }
        }
    }

    pub(super) fn prepare_rebalance(&mut self, effects: &mut Effects<'_>) {
        if self.state == ClassicState::CompletingRebalance {
            self.fail_syncs(ErrorCode::RebalanceInProgress, effects);
        }
        effects.cancel(TimerKind::Sync);
        let initial = self.state == ClassicState::Empty;
        self.transition(ClassicState::PreparingRebalance, effects.now.wall);
        if initial {
            let delay_ms = effects.settings.initial_rebalance_delay_ms;
            self.new_member_added = false;
            self.initial_budget_ms = Some((i64::from(self.rebalance_timeout_ms()) - delay_ms).max(0));
            effects.schedule(TimerKind::Join, delay_ms);
        } else if self.all_joined() {
            self.complete_join(effects);
        } else {
            effects.schedule(TimerKind::Join, self.rebalance_timeout_ms().into());
        }
    }

    /// Ends the join phase early, once nobody is missing. An initial rebalance never ends early.
    pub(super) fn complete_join_if_all_are_there(&mut self, effects: &mut Effects<'_>) {
        let may =
            self.state == ClassicState::PreparingRebalance && self.previous_state != ClassicState::Empty;
        if may && self.all_joined() {
            self.complete_join(effects);
        }
    }

    /// The time for joining is over; or, in an initial rebalance, it is drawn out if somebody new has come.
    pub(super) fn join_timer(&mut self, effects: &mut Effects<'_>) {
        if self.state != ClassicState::PreparingRebalance {
            return;
        }
        if let Some(budget_ms) = self.initial_budget_ms
            && self.new_member_added
            && budget_ms != 0
        {
            let delay_ms = effects.settings.initial_rebalance_delay_ms.min(budget_ms);
            self.new_member_added = false;
            self.initial_budget_ms = Some((budget_ms - delay_ms).max(0));
            effects.schedule(TimerKind::Join, delay_ms);
            return;
        }
        self.complete_join(effects);
    }

    fn complete_join(&mut self, effects: &mut Effects<'_>) {
        effects.cancel(TimerKind::Join);
        self.initial_budget_ms = None;
        if !self.all_joined() {
            let stays =
                |member: &ClassicMember| member.awaiting_join.is_some() || member.instance_id.is_some();
            for gone in self.take_unless(stays) {
                effects.cancel(TimerKind::Session(gone.id));
            }
        }
        if !self.members.is_empty() && !self.elect_joined_leader() {
            // Static members alone, of whom none has joined: they may still.
            effects.schedule(TimerKind::Join, self.rebalance_timeout_ms().into());
            return;
        }
        self.generation += 1;
        self.pending_sync.clear();
        if self.members.is_empty() {
            self.protocol = None;
            self.note_subscribed_topics();
            self.transition(ClassicState::Empty, effects.now.wall);
            let value = self.to_value(|_| Bytes::new());
            let record = Record::ClassicGroup { group: self.id.clone(), value: Some(value) };
            effects.write(Write { records: vec![record], then: OnCommit::Nothing });
            return;
        }
        self.protocol = self.select_protocol();
        self.note_subscribed_topics();
        self.transition(ClassicState::CompletingRebalance, effects.now.wall);
        self.answer_joins(effects);
        effects.schedule(TimerKind::Sync, self.rebalance_timeout_ms().into());
    }

    /// Makes a member that has joined the leader, if the one there is has not. Whether there is one now.
    fn elect_joined_leader(&mut self) -> bool {
        let leader = self.leader.as_ref().and_then(|leader| self.members.get(leader));
        if leader.is_some_and(|leader| leader.awaiting_join.is_some()) {
            return true;
        }
        let joined = self.members.values().find(|member| member.awaiting_join.is_some());
        let Some(joined) = joined.map(|member| member.id.clone()) else { return false };
        self.leader = Some(joined);
        true
    }

    fn answer_joins(&mut self, effects: &mut Effects<'_>) {
        let mut all = Some(self.joined_members());
        for at in 0..self.members.len() {
            let id = self.members[at].id.clone();
            let members = if self.is_leader(&id) { all.take().unwrap_or_default() } else { Vec::new() };
            let reply = self.join_reply(&id, members);
            let mut answered = None;
            let changed = self.change(&id, |member| answered = member.awaiting_join.take());
            if let Some(ticket) = answered {
                effects.answer(ticket, GroupReply::Join(reply));
            }
            if let Some(member) = changed {
                member.is_new = false;
                effects.schedule(TimerKind::Session(id.clone()), member.session_timeout_ms.into());
            }
            self.pending_sync.insert(id);
        }
    }

    /// All members, for the leader.
    pub(super) fn joined_members(&self) -> Vec<JoinedMember> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let members = self.members.values().map(|member| JoinedMember {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            metadata: member.metadata(protocol),
        });
        members.collect()
    }

    pub(super) fn join_reply(&self, id: &std::sync::Arc<str>, members: Vec<JoinedMember>) -> JoinReply {
        JoinReply {
            error: ErrorCode::None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member_id: id.clone(),
            members,
            skip_assignment: false,
        }
    }

    /// The leader's assignment is in the log.
    pub(super) fn assignment_committed(
        &mut self,
        generation: i32,
        assignments: &Assignments,
        effects: &mut Effects<'_>,
    ) {
        if self.state != ClassicState::CompletingRebalance || self.generation != generation {
            return;
        }
        for member in self.members.values_mut() {
            let own = assignments.get(&member.id);
            let given = if is_planted(Bug::AssignsTwice) { assignments.values().max() } else { own };
            member.assignment = given.cloned().unwrap_or_default();
        }
        self.transition(ClassicState::Stable, effects.now.wall);
        for at in 0..self.members.len() {
            if let Some(ticket) = self.members[at].awaiting_sync.take() {
                let reply = self.sync_reply(&self.members[at]);
                effects.answer(ticket, GroupReply::Sync(reply));
                let member = &self.members[at];
                effects.schedule(TimerKind::Session(member.id.clone()), member.session_timeout_ms.into());
            }
        }
    }

    /// The leader's assignment could not be written: everybody is told, and has to begin again.
    pub(super) fn assignment_failed(&mut self, generation: i32, error: ErrorCode, effects: &mut Effects<'_>) {
        if self.state == ClassicState::CompletingRebalance && self.generation == generation {
            self.fail_syncs(error, effects);
            self.rebalance_or_complete(effects);
        }
    }

    pub(super) fn sync_reply(&self, member: &ClassicMember) -> SyncReply {
        SyncReply {
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: member.assignment.clone(),
        }
    }

    fn fail_syncs(&mut self, error: ErrorCode, effects: &mut Effects<'_>) {
        for member in self.members.values_mut() {
            member.assignment = Bytes::new();
            if let Some(ticket) = member.awaiting_sync.take() {
                effects.fail(ticket, error);
                effects.schedule(TimerKind::Session(member.id.clone()), member.session_timeout_ms.into());
            }
        }
    }

    /// The time for syncing is over: who has not is removed.
    pub(super) fn sync_timer(&mut self, effects: &mut Effects<'_>) {
        let waits = matches!(self.state, ClassicState::CompletingRebalance | ClassicState::Stable);
        if !waits || self.pending_sync.is_empty() {
            return;
        }
        let late = std::mem::take(&mut self.pending_sync);
        for gone in self.take_unless(|member| !late.contains(&member.id)) {
            effects.cancel(TimerKind::Session(gone.id));
        }
        self.prepare_rebalance(effects);
    }

    pub(super) fn note_synced(&mut self, id: &str, effects: &mut Effects<'_>) {
        self.pending_sync.remove(id);
        if self.pending_sync.is_empty() {
            effects.cancel(TimerKind::Sync);
        }
    }

    /// Takes a member out; whoever waits as it is told.
    pub(super) fn remove(&mut self, id: &str, effects: &mut Effects<'_>) {
        let Some(member) = self.take(id) else { return };
        effects.cancel(TimerKind::Session(member.id));
        for ticket in [member.awaiting_join, member.awaiting_sync].into_iter().flatten() {
            effects.fail(ticket, ErrorCode::UnknownMemberId);
        }
        match self.state {
            ClassicState::Stable | ClassicState::CompletingRebalance => self.rebalance_or_complete(effects),
            ClassicState::PreparingRebalance => self.complete_join_if_all_are_there(effects),
            ClassicState::Empty | ClassicState::Dead => {}
        }
    }

    /// A member has been silent for too long, or an id that was given out has not come back.
    pub(super) fn session_timer(&mut self, id: &str, effects: &mut Effects<'_>) {
        if self.pending_members.remove(id) {
            effects.cancel(TimerKind::Session(id.into()));
            self.complete_join_if_all_are_there(effects);
            return;
        }
        let Some(member) = self.members.get(id) else { return };
        // Who waits for us is alive; its session begins anew once it is answered.
        let waits = member.awaiting_join.is_some() || member.awaiting_sync.is_some();
        if member.is_new || !waits {
            self.remove(id, effects);
        }
    }
}
