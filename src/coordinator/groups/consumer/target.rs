//! Computes who is to have what (Kafka's `TargetAssignmentBuilder`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::assignors::uniform::Quotas;
use super::assignors::{Assignor, MemberSpec, Spec};
use super::{ConsumerGroup, ConsumerMember, SubscribedTopics, preferred};
use crate::base::TopicId;
use crate::controller::Controller;
use crate::coordinator::records::consumer_groups::{Content, Partitions};

/// A new target.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewTarget {
    /// What it changes.
    pub(super) changes: Vec<Content>,
    /// What the member is to have whose request led to it.
    pub(super) of_member: Partitions,
    /// What is to be known of it when the next is computed.
    pub(super) uniform: Option<UniformTarget>,
}

/// A target that shares out all partitions of these topics among all members as the uniform assignor does. The next one for
/// the same topics follows from how many partitions each member has, without a look at what they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UniformTarget {
    /// The epoch that it was computed in: where the group's target is of another, it never came to be.
    epoch: i32,
    /// How many partitions each subscribed topic has.
    topics: BTreeMap<TopicId, i32>,
}

/// Up to how many members targets that are computed by the short way are compared with what the assignor says, in builds
/// with assertions.
const COMPARED_UP_TO: usize = 64;

impl ConsumerGroup {
    /// Computes the target of an epoch in which a member is to be as given.
    pub(super) fn new_target(
        &self,
        epoch: i32,
        member: &ConsumerMember,
        is_homogeneous: bool,
        controller: &Controller,
    ) -> NewTarget {
        let assignor = self.assignor(member, controller);
        if is_homogeneous && assignor == Assignor::Uniform {
            let mut topics = BTreeMap::new();
            self.topic_ids(member, controller, &mut topics);
            let known = UniformTarget { epoch: self.target_epoch, topics };
            if self.uniform_target.as_ref() == Some(&known) {
                let target = self.next_uniform_target(epoch, member, known.topics);
                debug_assert!(
                    self.members.len() > COMPARED_UP_TO
                        || target == self.computed_target(epoch, member, assignor, true, controller),
                    "the short way leads to another target: {target:?}"
                );
                return target;
            }
        }
        self.computed_target(epoch, member, assignor, is_homogeneous, controller)
    }

    /// As the assignor says, who looks at everything.
    fn computed_target(
        &self,
        epoch: i32,
        member: &ConsumerMember,
        assignor: Assignor,
        is_homogeneous: bool,
        controller: &Controller,
    ) -> NewTarget {
        let none = Partitions::new();
        let replaced = self.replaced_by(member);
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
        let assignment = assignor.assign(&spec);

        let mut target = NewTarget { changes: Vec::new(), of_member: Partitions::new(), uniform: None };
        for (spec, partitions) in spec.members.iter().zip(assignment) {
            if *spec.id == member.id {
                target.of_member = partitions.clone();
            }
            if self.targets.get(spec.id) != Some(&partitions) {
                target.changes.push(Content::Target(spec.id.clone(), Some(partitions)));
            }
        }
        target.changes.push(Content::TargetEpoch(Some(epoch)));
        if is_homogeneous && assignor == Assignor::Uniform {
            target.uniform = Some(UniformTarget { epoch, topics: spec.topics });
        }
        target
    }

    /// Who goes when a member comes that takes their place, and gets what they were to have.
    fn replaced_by(&self, member: &ConsumerMember) -> Option<&Arc<str>> {
        let holder = member.metadata.instance_id.as_deref().and_then(|id| self.static_member(id));
        holder.map(|holder| &holder.id).filter(|id| **id != member.id)
    }

    /// The target after one for the same topics, all of them being subscribed to by all members. What is looked at of most
    /// members is how many partitions they have.
    fn next_uniform_target(
        &self,
        epoch: i32,
        member: &ConsumerMember,
        topics: BTreeMap<TopicId, i32>,
    ) -> NewTarget {
        let replaced = self.replaced_by(member);
        let current = |id: &Arc<str>| {
            let holder = if *id == member.id { replaced.unwrap_or(id) } else { id };
            self.targets.get(holder)
        };
        let total = topics.values().map(|count| usize::try_from(*count).unwrap_or(0)).sum();
        let members = self.shares.with(&member.id, replaced, current(&member.id).map(count));
        let mut quotas = Quotas::new(total, members.len());
        let mut assigned = 0;
        let mut changed = Vec::new();
        for (id, has) in members.iter() {
            assigned += has.unwrap_or(0);
            let keeps = has.unwrap_or(0).min(quotas.most());
            let room = quotas.room(keeps);
            if has != Some(keeps) || room > 0 || std::ptr::eq(id, &member.id) {
                changed.push((id, keeps, room, Partitions::new()));
            }
        }
        let mut free = Vec::new();
        for (id, keeps, _, kept) in &mut changed {
            *kept = current(id).cloned().unwrap_or_default();
            free.extend(cut(kept, *keeps));
        }
        if assigned < total {
            let all = members.iter().filter_map(|(id, _)| current(id));
            free.extend(unassigned(&topics, all));
        }
        free.sort_unstable();
        let mut free = free.into_iter();
        let mut target = NewTarget {
            changes: Vec::new(),
            of_member: Partitions::new(),
            uniform: Some(UniformTarget { epoch, topics }),
        };
        for (id, _, room, mut partitions) in changed {
            for (topic, partition) in free.by_ref().take(room) {
                partitions.entry(topic).or_default().insert(partition);
            }
            if *id == member.id {
                target.of_member = partitions.clone();
            }
            if self.targets.get(id) != Some(&partitions) {
                target.changes.push(Content::Target(id.clone(), Some(partitions)));
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

/// How many these are.
pub(super) fn count(partitions: &Partitions) -> usize {
    partitions.values().map(BTreeSet::len).sum()
}

/// Takes away all but the first, and gives what was taken.
fn cut(partitions: &mut Partitions, keeps: usize) -> Vec<(TopicId, i32)> {
    let mut left = keeps;
    let mut taken = Vec::new();
    partitions.retain(|topic, of_topic| {
        of_topic.retain(|partition| {
            let stays = left > 0;
            left -= usize::from(stays);
            if !stays {
                taken.push((*topic, *partition));
            }
            stays
        });
        !of_topic.is_empty()
    });
    taken
}

/// The partitions of these topics that nobody has.
fn unassigned<'a>(
    topics: &BTreeMap<TopicId, i32>,
    all: impl Iterator<Item = &'a Partitions>,
) -> Vec<(TopicId, i32)> {
    let flags =
        topics.iter().map(|(topic, count)| (*topic, vec![false; usize::try_from(*count).unwrap_or(0)]));
    let mut has_owner: BTreeMap<TopicId, Vec<bool>> = flags.collect();
    for (topic, partitions) in all.flatten() {
        let Some(has_owner) = has_owner.get_mut(topic) else { continue };
        for partition in partitions {
            if let Some(flag) = usize::try_from(*partition).ok().and_then(|at| has_owner.get_mut(at)) {
                *flag = true;
            }
        }
    }
    let free = has_owner.into_iter().flat_map(|(topic, has_owner)| {
        let of_topic = (0..).zip(has_owner).filter(|(_, has_owner)| !has_owner);
        of_topic.map(move |(partition, _)| (topic, partition))
    });
    free.collect()
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
