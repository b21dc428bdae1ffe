//! Computes who is to have what (Kafka's `TargetAssignmentBuilder`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::assignors::{Assignor, MemberSpec, Spec};
use super::{ConsumerGroup, ConsumerMember, SubscribedTopics, preferred};
use crate::base::TopicId;
use crate::controller::Controller;
use crate::coordinator::records::consumer_groups::{Content, Partitions};

/// A new target.
pub(super) struct NewTarget {
    /// What it changes.
    pub(super) changes: Vec<Content>,
    /// What the member is to have whose request led to it.
    pub(super) of_member: Partitions,
}

impl ConsumerGroup {
    /// Computes the target of an epoch in which a member is to be as given.
    pub(super) fn new_target(
        &self,
        epoch: i32,
        member: &ConsumerMember,
        is_homogeneous: bool,
        controller: &Controller,
    ) -> NewTarget {
        let none = Partitions::new();
        // One that takes the place of another gets what that was to have.
        let replaced = member.metadata.instance_id.as_deref().and_then(|id| self.static_member(id));
        let replaced = replaced.map(|holder| &holder.id).filter(|id| **id != member.id);
        let mut members: BTreeMap<&Arc<str>, &ConsumerMember> = self.members.iter().collect();
        replaced.map(|id| members.remove(id));
        members.insert(&member.id, member);

        let mut spec = Spec { members: Vec::new(), topics: BTreeMap::new(), is_homogeneous };
        let mut shared: Option<Arc<BTreeSet<TopicId>>> = None;
        for (id, of) in &members {
            let topics = match &shared {
                Some(topics) if is_homogeneous => topics.clone(),
                _ => Arc::new(self.topic_ids(of, controller, &mut spec.topics)),
            };
            shared = Some(topics.clone());
            let holder = if **id == member.id { replaced.unwrap_or(id) } else { id };
            let current = self.targets.get(holder).unwrap_or(&none);
            let instance_id = of.metadata.instance_id.as_ref();
            spec.members.push(MemberSpec { id, instance_id, topics, current });
        }
        let assignment = self.assignor(member, controller).assign(&spec);

        let mut target = NewTarget { changes: Vec::new(), of_member: Partitions::new() };
        for (spec, partitions) in spec.members.iter().zip(assignment) {
            if *spec.id == member.id {
                target.of_member = partitions.clone();
            }
            if self.targets.get(spec.id) != Some(&partitions) {
                target.changes.push(Content::Target(spec.id.clone(), Some(partitions)));
            }
        }
        target.changes.push(Content::TargetEpoch(Some(epoch)));
        target
    }

    /// The assignor that most members will prefer once a member is as given; else the broker's first.
    fn assignor(&self, member: &ConsumerMember, controller: &Controller) -> Assignor {
        let mut counts = self.server_assignors.clone();
        if let Some(old) = self.members.get(&member.id)
            && let Some(assignor) = &old.metadata.server_assignor
        {
            super::count_down(&mut counts, assignor);
        }
        if let Some(assignor) = &member.metadata.server_assignor {
            *counts.entry(assignor.clone()).or_default() += 1;
        }
        preferred(&counts)
            .and_then(|name| Assignor::named(name))
            .unwrap_or_else(|| default_assignor(controller))
    }

    /// The topics that a member subscribes to, as far as there are such, whose partitions are noted.
    fn topic_ids(
        &self,
        member: &ConsumerMember,
        controller: &Controller,
        partitions: &mut BTreeMap<TopicId, i32>,
    ) -> BTreeSet<TopicId> {
        let by_regex = member.regex().and_then(|regex| self.resolved_regexes.get(regex));
        let names = member.metadata.subscribed_topics.iter();
        let names = names.chain(by_regex.into_iter().flat_map(|resolved| &resolved.topics));
        let topics = names.filter_map(|name| controller.topics().by_name(name)).map(|topic| {
            partitions.insert(topic.id, topic.partitions.len() as i32);
            topic.id
        });
        topics.collect()
    }
}

/// The assignors that members may ask for (`group.consumer.assignors`), the default first.
fn assignors(controller: &Controller) -> impl Iterator<Item = Assignor> {
    controller.settings().consumer_groups.assignors.iter().filter_map(|name| Assignor::named(name))
}

fn default_assignor(controller: &Controller) -> Assignor {
    assignors(controller).next().unwrap_or(Assignor::Uniform)
}

/// The names of the assignors that members may ask for, the default first.
pub(in crate::coordinator) fn assignor_names(controller: &Controller) -> Vec<&'static str> {
    assignors(controller).map(Assignor::name).collect()
}

/// Whether all members subscribe to the same topics (`ConsumerGroup.subscriptionType`).
pub(super) fn is_homogeneous(
    regexes: &BTreeMap<Arc<str>, usize>,
    topics: &SubscribedTopics,
    members: usize,
) -> bool {
    match regexes.values().next() {
        None => topics.values().all(|subscribers| subscribers.by_name == members),
        Some(by_regex) if *by_regex == members => {
            topics.values().all(|subscribers| subscribers.by_regex == 1 && subscribers.by_name == 0)
        }
        Some(_) => false,
    }
}
