//! ConsumerGroupHeartbeat: what members of the consumer protocol ask, and what follows when they fall silent (Kafka's
//! `GroupMetadataManager`, the parts with `ConsumerGroup` in their names).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::reconciliation::Reconciliation;
use super::regexes::compile;
use super::target::is_homogeneous;
use super::{
    ConsumerGroup, ConsumerMember, GroupError, LEAVE_FOR_A_WHILE_EPOCH, Partitions, SubscribedTopics,
    Subscribers, count_down, forget_subscribers,
};
use crate::base::ErrorCode;
use crate::controller::Controller;
use crate::controller::configs::Value;
use crate::coordinator::groups::{Effects, TimerKind};
use crate::coordinator::records::Record;
use crate::coordinator::records::consumer_groups::{Content, CurrentAssignment, GroupEpoch, MemberState};

/// A ConsumerGroupHeartbeat request. What is not there has not changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heartbeat {
    /// Empty where the coordinator has to make one (v0).
    pub member_id: Arc<str>,
    /// The member's epoch as it knows it; 0 to join, [`LEAVE_EPOCH`](super::LEAVE_EPOCH) to leave,
    /// [`LEAVE_FOR_A_WHILE_EPOCH`] to leave and be back.
    pub epoch: i32,
    /// `group.instance.id`.
    pub instance_id: Option<Arc<str>>,
    /// `client.rack`.
    pub rack_id: Option<Arc<str>>,
    /// How long the member may take to give up partitions, ms.
    pub rebalance_timeout_ms: Option<i32>,
    /// The topics that it subscribes to by name.
    pub subscribed_topics: Option<BTreeSet<Arc<str>>>,
    /// The regular expression that it subscribes by; empty for none.
    pub subscribed_regex: Option<Arc<str>>,
    /// The assignor that it prefers.
    pub server_assignor: Option<Arc<str>>,
    /// What it has. Here a topic may be without partitions.
    pub owned: Option<Partitions>,
    /// The client's name for itself.
    pub client_id: Arc<str>,
    /// The client's address, with a slash before it.
    pub client_host: Arc<str>,
}

/// The answer to a ConsumerGroupHeartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// The member's id.
    pub member_id: Arc<str>,
    /// The member's epoch from now on.
    pub epoch: i32,
    /// How often it is to send heartbeats, ms; 0 for one that leaves.
    pub interval_ms: i32,
    /// What it may use from now on, where that has changed or the member needs to hear it again.
    pub assignment: Option<Partitions>,
}

impl ConsumerGroup {
    /// A member joins, or lives.
    ///
    /// # Errors
    /// GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID, UNRELEASED_INSTANCE_ID,
    /// INVALID_REGULAR_EXPRESSION.
    pub(in crate::coordinator::groups) fn heartbeat(
        &mut self,
        heartbeat: &Heartbeat,
        effects: &mut Effects<'_>,
        records: &mut Vec<Record>,
    ) -> Result<HeartbeatReply, GroupError> {
        self.check_room(&heartbeat.member_id, effects.controller)?;
        let member = self.subscribing_member(heartbeat, effects, records)?;
        let mut updated = member.clone();
        update(&mut updated, heartbeat);
        // A group that is new has an epoch, whatever its first member subscribes to.
        let mut is_news = self.epoch == 0;
        is_news |= self.note_subscription(&member, &updated, records);
        is_news |= self.note_regex(&member, &updated, effects, records)?;
        let updated = self.catch_up(&member, updated, is_news, heartbeat.owned.as_ref(), effects, records)?;

        let session_timeout_ms = session_timeout_ms(&self.id, effects.controller);
        effects.schedule(TimerKind::Session(updated.id.clone()), session_timeout_ms);
        let tells_all = heartbeat.rebalance_timeout_ms.is_some()
            && (heartbeat.subscribed_topics.is_some() || heartbeat.subscribed_regex.is_some())
            && heartbeat.owned.is_some();
        let is_due = heartbeat.epoch == 0 || tells_all || updated.current.assigned != member.current.assigned;
        Ok(HeartbeatReply {
            epoch: updated.current.epoch,
            interval_ms: heartbeat_interval_ms(&self.id, effects.controller),
            assignment: is_due.then_some(updated.current.assigned),
            member_id: updated.id,
        })
    }

    pub(super) fn check_room(&self, member_id: &str, controller: &Controller) -> Result<(), GroupError> {
        let most = controller.settings().consumer_groups.max_size;
        if self.members.len() < most || self.members.contains_key(member_id) {
            return Ok(());
        }
        let message = format!("The group has as many members as group.consumer.max.size allows, {most}.");
        Err(GroupError::new(ErrorCode::GroupMaxSizeReached, message))
    }

    /// The member that a heartbeat comes from as it is in the group, or is to be before it says anything.
    fn subscribing_member(
        &self,
        heartbeat: &Heartbeat,
        effects: &mut Effects<'_>,
        records: &mut Vec<Record>,
    ) -> Result<ConsumerMember, GroupError> {
        let id = match &heartbeat.member_id {
            id if id.is_empty() => effects.new_kafka_uuid(),
            id => id.clone(),
        };
        let joins = heartbeat.epoch == 0;
        let Some(instance_id) = heartbeat.instance_id.as_deref() else {
            let member = match self.members.get(&id) {
                None if joins => ConsumerMember::new(id),
                _ => self.known_member(&id)?.clone(),
            };
            check_epoch(&member, heartbeat)?;
            return Ok(member);
        };
        if !joins {
            let member = self.known_static_member(instance_id, &id)?;
            check_epoch(member, heartbeat)?;
            return Ok(member.clone());
        }
        let Some(holder) = self.static_member(instance_id) else {
            return Ok(self.members.get(&id).cloned().unwrap_or_else(|| ConsumerMember::new(id)));
        };
        if !holder.is_classic() && holder.current.epoch != LEAVE_FOR_A_WHILE_EPOCH {
            let message = format!("Instance id {instance_id} is in use by member {}.", holder.id);
            return Err(GroupError::new(ErrorCode::UnreleasedInstanceId, message));
        }
        Ok(self.replace(holder, id, records))
    }

    /// Lets somebody take the place of a static member under another id.
    pub(super) fn replace(
        &self,
        holder: &ConsumerMember,
        id: Arc<str>,
        records: &mut Vec<Record>,
    ) -> ConsumerMember {
        let mut member = ConsumerMember { id: id.clone(), ..holder.clone() };
        member.current.epoch = 0;
        member.current.previous_epoch = 0;
        let target = self.targets.get(&holder.id).cloned().unwrap_or_default();
        self.take_out(&holder.id, records);
        records.extend([
            self.record(Content::Member(id.clone(), Some(member.metadata.clone()))),
            self.record(Content::Target(id.clone(), Some(target))),
            self.record(Content::Current(id, Some(member.current.clone()))),
        ]);
        member
    }

    fn take_out(&self, id: &Arc<str>, records: &mut Vec<Record>) {
        records.extend([
            self.record(Content::Current(id.clone(), None)),
            self.record(Content::Target(id.clone(), None)),
            self.record(Content::Member(id.clone(), None)),
        ]);
    }

    /// Notes what a member says of itself, if that is news. Whether it subscribes to other topics by name.
    pub(super) fn note_subscription(
        &self,
        member: &ConsumerMember,
        updated: &ConsumerMember,
        records: &mut Vec<Record>,
    ) -> bool {
        if updated.metadata != member.metadata {
            records.push(self.record(Content::Member(updated.id.clone(), Some(updated.metadata.clone()))));
        }
        updated.metadata.subscribed_topics != member.metadata.subscribed_topics
    }

    /// Notes that a member subscribes by another regular expression. Whether the group's topics are others at once, since
    /// the expression has been resolved before; else that is for later, and a timer.
    fn note_regex(
        &self,
        member: &ConsumerMember,
        updated: &ConsumerMember,
        effects: &mut Effects<'_>,
        records: &mut Vec<Record>,
    ) -> Result<bool, GroupError> {
        let subscribers = |regex: &Arc<str>| self.subscribed_regexes.get(regex).copied().unwrap_or(0);
        let (old, new) = (member.regex(), updated.regex());
        let mut is_news = false;
        let mut is_new_to_group = false;
        let mut subscribed = self.subscribed_regexes.len();
        if old != new {
            if let Some(old) = old.filter(|old| subscribers(old) == 1) {
                records.push(self.record(Content::Regex(old.clone(), None)));
                subscribed -= 1;
            }
            if let Some(new) = new {
                is_new_to_group = subscribers(new) == 0;
                if is_new_to_group {
                    compile(new)?;
                    subscribed += 1;
                }
                is_news = !is_new_to_group && self.resolved_regexes.contains_key(new);
            }
        }
        if self.needs_regexes(subscribed, is_new_to_group, effects.controller, effects.now.wall) {
            effects.schedule(TimerKind::Regexes, 0);
        }
        Ok(is_news)
    }

    /// Takes a member as far as it gets: to the group's epoch, the target's and its own.
    pub(super) fn catch_up(
        &mut self,
        member: &ConsumerMember,
        mut updated: ConsumerMember,
        is_news: bool,
        owned: Option<&Partitions>,
        effects: &mut Effects<'_>,
        records: &mut Vec<Record>,
    ) -> Result<ConsumerMember, GroupError> {
        let controller = effects.controller;
        let topics_version = controller.topics().version();
        let mut epoch = self.epoch;
        if is_news || !self.knows_topics(controller) {
            let topics = self.subscribed_topics_with(member, &updated);
            let metadata_hash = self.topic_hashes.of_all(&topics, controller);
            if is_news || metadata_hash != self.metadata_hash {
                epoch += 1;
                records.push(self.record(Content::Group(Some(GroupEpoch { epoch, metadata_hash }))));
            }
            self.topics_seen = Some((topics_version, epoch));
        }
        let target_epoch = epoch.max(self.target_epoch);
        let target = if epoch > self.target_epoch {
            let is_homogeneous = self.is_homogeneous_with(member, &updated);
            let target = self.new_target(epoch, &updated, is_homogeneous, controller);
            self.uniform_target = target.uniform;
            records.extend(target.changes.into_iter().map(|content| self.record(content)));
            target.of_member
        } else {
            let holder = match updated.metadata.instance_id.as_deref() {
                Some(instance_id) => self.static_members.get(instance_id),
                None => Some(&updated.id),
            };
            holder.and_then(|holder| self.targets.get(holder)).cloned().unwrap_or_default()
        };
        let is_free = |topic, partition| !self.owners.contains_key(&(topic, partition));
        let next = Reconciliation { target_epoch, target: &target, is_free, owned }.next(&updated)?;
        if next != updated.current {
            updated.current = next;
            let current = updated.current.clone();
            records.push(self.record(Content::Current(updated.id.clone(), Some(current))));
            if !updated.is_classic() {
                set_rebalance_timer(&updated, effects);
            }
        }
        Ok(updated)
    }

    /// The topics that are subscribed to once a member is as given.
    fn subscribed_topics_with(&self, member: &ConsumerMember, updated: &ConsumerMember) -> SubscribedTopics {
        let mut topics = self.subscribed_topics.clone();
        for topic in &member.metadata.subscribed_topics {
            forget_subscribers(&mut topics, topic, |count| count.by_name = count.by_name.saturating_sub(1));
        }
        for topic in &updated.metadata.subscribed_topics {
            topics.entry(topic.clone()).or_default().by_name += 1;
        }
        if let Some(old) = member.regex()
            && updated.regex() != Some(old)
            && self.subscribed_regexes.get(old) == Some(&1)
        {
            self.forget_resolved(old, &mut topics);
        }
        topics
    }

    pub(super) fn forget_resolved(&self, regex: &Arc<str>, topics: &mut SubscribedTopics) {
        for topic in self.resolved_regexes.get(regex).into_iter().flat_map(|resolved| &resolved.topics) {
            forget_subscribers(topics, topic, |count| count.by_regex = count.by_regex.saturating_sub(1));
        }
    }

    fn is_homogeneous_with(&self, member: &ConsumerMember, updated: &ConsumerMember) -> bool {
        let mut regexes = self.subscribed_regexes.clone();
        if member.regex() != updated.regex() {
            if let Some(old) = member.regex() {
                count_down(&mut regexes, old);
            }
            if let Some(new) = updated.regex() {
                *regexes.entry(new.clone()).or_default() += 1;
            }
        }
        let instance_id = updated.metadata.instance_id.as_deref();
        let is_counted = self.members.contains_key(&updated.id)
            || instance_id.is_some_and(|instance_id| self.static_members.contains_key(instance_id));
        let members = self.members.len() + usize::from(!is_counted);
        is_homogeneous(&regexes, &self.subscribed_topics_with(member, updated), members)
    }

    /// The member that leaves, unless it goes for a while only: that is noted here.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    pub(in crate::coordinator::groups) fn leave(
        &self,
        heartbeat: &Heartbeat,
        records: &mut Vec<Record>,
    ) -> Result<Option<ConsumerMember>, GroupError> {
        let member = match heartbeat.instance_id.as_deref() {
            None => return self.known_member(&heartbeat.member_id).cloned().map(Some),
            Some(instance_id) => self.known_static_member(instance_id, &heartbeat.member_id)?,
        };
        if heartbeat.epoch != LEAVE_FOR_A_WHILE_EPOCH {
            return Ok(Some(member.clone()));
        }
        // What it had is kept for whoever comes back under its instance id, until the session is over.
        let current = CurrentAssignment {
            epoch: LEAVE_FOR_A_WHILE_EPOCH,
            pending_revocation: Partitions::new(),
            ..member.current.clone()
        };
        records.push(self.record(Content::Current(member.id.clone(), Some(current))));
        Ok(None)
    }

    /// Members are out of the group, by their own will or not.
    pub(in crate::coordinator::groups) fn remove_members(
        &mut self,
        gone: &[ConsumerMember],
        effects: &mut Effects<'_>,
    ) -> Vec<Record> {
        let mut records = Vec::new();
        let mut regexes: BTreeMap<&Arc<str>, usize> = BTreeMap::new();
        let mut topics: BTreeMap<Arc<str>, Subscribers> = BTreeMap::new();
        for member in gone {
            self.take_out(&member.id, &mut records);
            for topic in &member.metadata.subscribed_topics {
                topics.entry(topic.clone()).or_default().by_name += 1;
            }
            if let Some(regex) = member.regex() {
                *regexes.entry(regex).or_default() += 1;
            }
        }
        for (regex, _) in
            regexes.iter().filter(|(regex, gone)| self.subscribed_regexes.get(**regex) == Some(*gone))
        {
            records.push(self.record(Content::Regex((*regex).clone(), None)));
            for topic in self.resolved_regexes.get(*regex).into_iter().flat_map(|resolved| &resolved.topics) {
                topics.entry(topic.clone()).or_default().by_regex += 1;
            }
        }
        let metadata_hash = self.metadata_hash_without(&topics, effects.controller);
        gone.iter().for_each(|member| self.cancel_timers(&member.id, effects));
        let epoch = GroupEpoch { epoch: self.epoch + 1, metadata_hash };
        records.push(self.record(Content::Group(Some(epoch))));
        records
    }

    /// The hash of the subscribed topics once they have so many subscribers less. Where all that are there keep some and nothing
    /// else has changed, it is what it was.
    fn metadata_hash_without(
        &mut self,
        gone: &BTreeMap<Arc<str>, Subscribers>,
        controller: &Controller,
    ) -> i64 {
        let loses = gone.iter().any(|(topic, gone)| self.subscribed_topics.get(topic) == Some(gone));
        if !loses && self.knows_topics(controller) {
            return self.metadata_hash;
        }
        let mut topics = self.subscribed_topics.clone();
        for (topic, gone) in gone {
            forget_subscribers(&mut topics, topic, |count| {
                count.by_name = count.by_name.saturating_sub(gone.by_name);
                count.by_regex = count.by_regex.saturating_sub(gone.by_regex);
            });
        }
        self.topic_hashes.of_all(&topics, controller)
    }

    /// Whether the group has seen the topics as they are.
    fn knows_topics(&self, controller: &Controller) -> bool {
        self.topics_seen
            .is_some_and(|(version, epoch)| version == controller.topics().version() && self.epoch >= epoch)
    }

    pub(super) fn cancel_timers(&mut self, member: &Arc<str>, effects: &mut Effects<'_>) {
        self.told_to_join.remove(member);
        effects.cancel(TimerKind::Session(member.clone()));
        effects.cancel(TimerKind::Rebalance(member.clone()));
        effects.cancel(TimerKind::MemberJoin(member.clone()));
        effects.cancel(TimerKind::MemberSync(member.clone()));
    }

    /// A timer of a member has fired. The member, if it is out of the group by that.
    pub(in crate::coordinator::groups) fn expired(&self, kind: &TimerKind) -> Option<ConsumerMember> {
        let member = match kind {
            TimerKind::Session(id) | TimerKind::MemberJoin(id) | TimerKind::MemberSync(id) => {
                self.members.get(id)
            }
            TimerKind::Rebalance(id) => {
                self.members.get(id).filter(|member| member.current.state == MemberState::UnrevokedPartitions)
            }
            TimerKind::Join | TimerKind::Sync | TimerKind::Regexes => None,
        };
        member.cloned()
    }

    /// Sets the timers of the members of a group that comes from the log.
    pub(in crate::coordinator::groups) fn start_timers(&self, effects: &mut Effects<'_>) {
        let session_timeout_ms = session_timeout_ms(&self.id, effects.controller);
        for member in self.members.values() {
            effects.schedule(TimerKind::Session(member.id.clone()), session_timeout_ms);
            if member.current.state == MemberState::UnrevokedPartitions {
                set_rebalance_timer(member, effects);
            }
        }
    }

    /// The group becomes one of another kind.
    pub(in crate::coordinator::groups) fn cancel_all_timers(&mut self, effects: &mut Effects<'_>) {
        let members: Vec<Arc<str>> = self.members.keys().cloned().collect();
        members.iter().for_each(|member| self.cancel_timers(member, effects));
        effects.cancel(TimerKind::Regexes);
    }
}

fn update(member: &mut ConsumerMember, heartbeat: &Heartbeat) {
    fn change<T: Clone>(field: &mut T, value: Option<&T>) {
        if let Some(value) = value {
            *field = value.clone();
        }
    }
    let metadata = &mut member.metadata;
    if heartbeat.instance_id.is_some() {
        metadata.instance_id = heartbeat.instance_id.clone();
    }
    if heartbeat.rack_id.is_some() {
        metadata.rack_id = heartbeat.rack_id.clone();
    }
    if heartbeat.server_assignor.is_some() {
        metadata.server_assignor = heartbeat.server_assignor.clone();
    }
    change(&mut metadata.rebalance_timeout_ms, heartbeat.rebalance_timeout_ms.as_ref());
    change(&mut metadata.subscribed_topics, heartbeat.subscribed_topics.as_ref());
    change(&mut metadata.subscribed_regex, heartbeat.subscribed_regex.as_ref());
    metadata.client_id = heartbeat.client_id.clone();
    metadata.client_host = heartbeat.client_host.clone();
    metadata.classic = None;
}

/// Whether the epoch is the member's, or the one before: its last answer may have been lost, so long as it has nothing
/// that it should not have.
fn check_epoch(member: &ConsumerMember, heartbeat: &Heartbeat) -> Result<(), GroupError> {
    let CurrentAssignment { epoch, previous_epoch, assigned, .. } = &member.current;
    let has_no_more = heartbeat.owned.as_ref().is_some_and(|owned| {
        owned
            .iter()
            .all(|(topic, owned)| assigned.get(topic).is_some_and(|assigned| owned.is_subset(assigned)))
    });
    let is_known = heartbeat.epoch == *epoch || heartbeat.epoch == *previous_epoch && has_no_more;
    if is_known && heartbeat.epoch <= *epoch {
        return Ok(());
    }
    let message = format!(
        "The member says epoch {}, the coordinator {epoch}. It must give up all partitions and join again.",
        heartbeat.epoch
    );
    Err(GroupError::new(ErrorCode::FencedMemberEpoch, message))
}

/// Who has to give up partitions has the rebalance timeout to do it.
fn set_rebalance_timer(member: &ConsumerMember, effects: &mut Effects<'_>) {
    let kind = TimerKind::Rebalance(member.id.clone());
    if member.current.state == MemberState::UnrevokedPartitions {
        effects.schedule(kind, member.metadata.rebalance_timeout_ms.into());
    } else {
        effects.cancel(kind);
    }
}

/// `consumer.session.timeout.ms` of the group, or the broker's.
fn session_timeout_ms(group: &str, controller: &Controller) -> i64 {
    let default = controller.settings().consumer_groups.session_timeout_ms;
    group_setting(group, "consumer.session.timeout.ms", controller).unwrap_or_else(|| default.into())
}

/// `consumer.heartbeat.interval.ms` of the group, or the broker's.
fn heartbeat_interval_ms(group: &str, controller: &Controller) -> i32 {
    let set = group_setting(group, "consumer.heartbeat.interval.ms", controller);
    let set = set.and_then(|interval_ms| i32::try_from(interval_ms).ok());
    set.unwrap_or(controller.settings().consumer_groups.heartbeat_interval_ms)
}

fn group_setting(group: &str, key: &str, controller: &Controller) -> Option<i64> {
    match controller.group_configs(group).get(key)?.value {
        Value::Integer(number) => Some(number),
        _ => None,
    }
}
