//! Which kind of group a member's request reaches, and how a group's kind changes by it.
//!
//! | request | no group | empty group of the other kind | classic group | consumer group |
//! |---|---|---|---|---|
//! | ConsumerGroupHeartbeat, joining | made | becomes a consumer group | goes over, if it may | joins |
//! | the same, otherwise | GROUP_ID_NOT_FOUND | GROUP_ID_NOT_FOUND | GROUP_ID_NOT_FOUND | stays, leaves |
//! | JoinGroup | made | becomes a classic group | joins | joins as a classic member |
//!
//! A consumer group goes over to a classic one when its last member of the new protocol has gone.

use std::sync::Arc;

use super::classic::ClassicState;
use super::consumer::{
    ClassicJoin, ConsumerGroup, ConsumerMember, GroupError, Heartbeat, HeartbeatReply, LEAVE_EPOCH,
    LEAVE_FOR_A_WHILE_EPOCH,
};
use super::{
    Effects, FollowUp, GroupReply, Groups, Join, JoinReply, Leaver, OnCommit, Outcome, TimerKind, Write,
};
use crate::base::ErrorCode;
use crate::coordinator::Ticket;
use crate::coordinator::records::Record;

impl Groups {
    /// ConsumerGroupHeartbeat.
    ///
    /// # Errors
    /// As the group's state has them; GROUP_ID_NOT_FOUND.
    pub(in crate::coordinator) fn consumer_heartbeat(
        &mut self,
        id: &Arc<str>,
        heartbeat: &Heartbeat,
        effects: &mut Effects<'_>,
    ) -> Result<Outcome<HeartbeatReply>, GroupError> {
        if matches!(heartbeat.epoch, LEAVE_EPOCH | LEAVE_FOR_A_WHILE_EPOCH) {
            return self.leave_consumer(id, heartbeat, effects);
        }
        let joins = heartbeat.epoch == 0;
        let mut records = Vec::new();
        let mut waiting = Vec::new();
        let mut new;
        let group = match (self.consumer.get_mut(id), self.classic.get(id)) {
            (Some(group), _) => group,
            (None, None) if joins => {
                new = ConsumerGroup::new(id.clone());
                &mut new
            }
            (None, Some(classic)) if joins && classic.state() == ClassicState::Empty => {
                records.push(Record::ClassicGroup { group: id.clone(), value: None });
                new = ConsumerGroup::new(id.clone());
                &mut new
            }
            (None, Some(classic)) if joins => {
                (new, records) = ConsumerGroup::from_classic(classic, effects.controller)?;
                waiting.extend(
                    classic.members().flat_map(|member| [member.awaiting_join, member.awaiting_sync]),
                );
                for member in classic.members() {
                    let timeout_ms = member.session_timeout_ms.into();
                    effects.schedule(TimerKind::Session(member.id.clone()), timeout_ms);
                }
                &mut new
            }
            _ => return Err(not_found(id)),
        };
        let reply = group.heartbeat(heartbeat, effects, &mut records)?;
        for ticket in waiting.into_iter().flatten() {
            effects.fail(ticket, ErrorCode::RebalanceInProgress);
        }
        Ok(when_written(records, reply, GroupReply::Heartbeat, effects))
    }

    fn leave_consumer(
        &mut self,
        id: &Arc<str>,
        heartbeat: &Heartbeat,
        effects: &mut Effects<'_>,
    ) -> Result<Outcome<HeartbeatReply>, GroupError> {
        let group = self.consumer.get(id).ok_or_else(|| not_found(id))?;
        let (member_id, epoch) = (heartbeat.member_id.clone(), heartbeat.epoch);
        let reply = HeartbeatReply { member_id, epoch, interval_ms: 0, assignment: None };
        let mut records = Vec::new();
        let Some(gone) = group.leave(heartbeat, &mut records)? else {
            return Ok(when_written(records, reply, GroupReply::Heartbeat, effects));
        };
        let ticket = effects.ticket();
        self.remove_members(id, &[gone], Some((ticket, GroupReply::Heartbeat(reply))), effects);
        Ok(Outcome::Waits(ticket))
    }

    /// Takes members out of a consumer group, and says so once that is committed.
    fn remove_members(
        &mut self,
        id: &Arc<str>,
        gone: &[ConsumerMember],
        answer: Option<(Ticket, GroupReply)>,
        effects: &mut Effects<'_>,
    ) {
        let Some(group) = self.consumer.get_mut(id).filter(|_| !gone.is_empty()) else { return };
        let (controller, now) = (effects.controller, effects.now.wall);
        if !group.is_classic_without(gone, controller) {
            let records = group.remove_members(gone, effects);
            let then = match answer {
                Some((ticket, reply)) => OnCommit::Answer(ticket, reply),
                None => OnCommit::Nothing,
            };
            effects.write(Write { records, then });
            return;
        }
        group.cancel_all_timers(effects);
        let (mut classic, records) = group.to_classic(gone, None, controller, now);
        for member in classic.members() {
            effects.schedule(TimerKind::Session(member.id.clone()), member.session_timeout_ms.into());
        }
        let then = OnCommit::FollowUp(id.clone(), FollowUp::Downgraded { answer });
        effects.write(Write { records, then });
        classic.prepare_rebalance(effects);
        self.classic.insert(id.clone(), classic);
    }

    /// JoinGroup, where there is a consumer group with members.
    pub(super) fn join_consumer(
        &mut self,
        id: &Arc<str>,
        join: &Join,
        effects: &mut Effects<'_>,
    ) -> Result<Outcome<JoinReply>, GroupError> {
        let group = self.consumer.get_mut(id).ok_or_else(|| not_found(id))?;
        let (controller, now) = (effects.controller, effects.now.wall);
        let becomes_classic = group.is_classic_with(join.instance_id.as_ref(), controller);
        let mut records = Vec::new();
        let (member, reply) = match group.join_classic(join, effects, &mut records)? {
            ClassicJoin::ToComeAgain(reply) => return Ok(Outcome::Ready(reply)),
            ClassicJoin::Joined(member, reply) => (member, reply),
        };
        if !becomes_classic {
            return Ok(when_written(records, reply, GroupReply::Join, effects));
        }
        group.cancel_all_timers(effects);
        effects.cancel(TimerKind::MemberSync(member.id.clone()));
        let (classic, to_classic) = group.to_classic(&[], Some(&member), controller, now);
        records.extend(to_classic);
        for member in classic.members() {
            effects.schedule(TimerKind::Session(member.id.clone()), member.session_timeout_ms.into());
        }
        self.classic.insert(id.clone(), classic);
        let ticket = effects.ticket();
        let answer = Some((ticket, GroupReply::Join(reply)));
        let then = OnCommit::FollowUp(id.clone(), FollowUp::Downgraded { answer });
        effects.write(Write { records, then });
        Ok(Outcome::Waits(ticket))
    }

    /// LeaveGroup, from a consumer group.
    pub(super) fn leave_by_classic(
        &mut self,
        id: &Arc<str>,
        leavers: &[Leaver],
        effects: &mut Effects<'_>,
    ) -> (Option<Ticket>, Vec<ErrorCode>) {
        let Some(group) = self.consumer.get(id) else {
            return (None, vec![ErrorCode::UnknownMemberId; leavers.len()]);
        };
        let (outcomes, gone) = group.leavers(leavers);
        if gone.is_empty() {
            return (once_committed(Vec::new(), effects), outcomes);
        }
        let ticket = effects.ticket();
        self.remove_members(id, &gone, Some((ticket, GroupReply::Written)), effects);
        (Some(ticket), outcomes)
    }

    /// A timer of a consumer group has fired.
    pub(super) fn consumer_timer(&mut self, id: &Arc<str>, kind: &TimerKind, effects: &mut Effects<'_>) {
        let Some(group) = self.consumer.get_mut(id) else { return };
        if *kind == TimerKind::Regexes {
            for records in group.refresh_regexes(effects) {
                effects.write(Write { records, then: OnCommit::Nothing });
            }
            return;
        }
        if let Some(gone) = group.expired(kind) {
            tracing::info!(group = %id, member = %gone.id, timer = ?kind, "a member is out of its consumer group");
            self.remove_members(id, &[gone], None, effects);
        }
    }
}

/// A reply that waits for what is written, if anything is.
pub(super) fn when_written<R>(
    records: Vec<Record>,
    reply: R,
    of_reply: impl FnOnce(R) -> GroupReply,
    effects: &mut Effects<'_>,
) -> Outcome<R> {
    // What is already in the state may not be committed yet.
    if records.is_empty() && !effects.has_uncommitted() {
        return Outcome::Ready(reply);
    }
    let ticket = effects.ticket();
    effects.write(Write { records, then: OnCommit::Answer(ticket, of_reply(reply)) });
    Outcome::Waits(ticket)
}

fn not_found(id: &str) -> GroupError {
    GroupError::new(ErrorCode::GroupIdNotFound, format!("There is no consumer group '{id}'."))
}

/// Writes records. The ticket of who waits until they are committed, and all that the state has with them; none if all
/// is committed already.
pub(super) fn once_committed(records: Vec<Record>, effects: &mut Effects<'_>) -> Option<Ticket> {
    match when_written(records, (), |()| GroupReply::Written, effects) {
        Outcome::Ready(()) => None,
        Outcome::Waits(ticket) => Some(ticket),
    }
}
