//! The uniform assignor where all members subscribe to the same topics. Balance goes before keeping what one has.

use std::collections::BTreeSet;

use super::{MemberSpec, Spec};
use crate::base::TopicId;
use crate::coordinator::records::consumer_groups::Partitions;

pub(super) fn assign(spec: &Spec<'_>) -> Vec<Partitions> {
    let Some(first) = spec.members.first() else { return Vec::new() };
    let topics = &first.topics;
    let total: usize = topics.iter().map(|topic| count(spec, *topic) as usize).sum();
    let mut quotas = Quotas::new(total, spec.members.len());
    let mut assignment = Vec::with_capacity(spec.members.len());
    let mut room = Vec::with_capacity(spec.members.len());
    for member in &spec.members {
        let kept = keep(spec, member, quotas.most());
        let has: usize = kept.values().map(BTreeSet::len).sum();
        room.push(quotas.room(has));
        assignment.push(kept);
    }
    hand_out(spec, topics, &mut assignment, room);
    assignment
}

/// How many partitions each member may keep, and how many it is to be given, one member after the other.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Quotas {
    quota: usize,
    /// How many members may have one more.
    odd: usize,
    members_left: usize,
}

impl Quotas {
    /// For this many partitions and members.
    pub(in super::super) fn new(partitions: usize, members: usize) -> Self {
        let divisor = members.max(1);
        Quotas { quota: partitions / divisor, odd: partitions % divisor, members_left: members }
    }

    /// How many the next member may keep.
    pub(in super::super) fn most(&self) -> usize {
        self.quota + usize::from(self.odd > 0)
    }

    /// How many the next member is to be given, who keeps this many; then it is the turn of the one after it.
    pub(in super::super) fn room(&mut self, keeps: usize) -> usize {
        let most = self.most();
        // An odd one is not for a member that would have to be given it while enough others are to come that may have
        // one already.
        let spared = self.odd > 0 && keeps < most && self.members_left > self.odd;
        self.odd -= usize::from(self.odd > 0 && !spared);
        self.members_left -= 1;
        (most - usize::from(spared)).saturating_sub(keeps)
    }
}

/// What a member keeps of what it had.
fn keep(spec: &Spec<'_>, member: &MemberSpec<'_>, most: usize) -> Partitions {
    let mut left = most;
    let mut kept = Partitions::new();
    for (topic, partitions) in member.current.iter().filter(|(topic, _)| member.topics.contains(topic)) {
        let exist = partitions.range(0..count(spec, *topic)).copied();
        let of_topic: BTreeSet<i32> = exist.take(left).collect();
        left -= of_topic.len();
        if !of_topic.is_empty() {
            kept.insert(*topic, of_topic);
        }
    }
    kept
}

/// Gives what nobody has to those with room.
fn hand_out(spec: &Spec<'_>, topics: &BTreeSet<TopicId>, assignment: &mut [Partitions], room: Vec<usize>) {
    let mut taken: BTreeSet<(TopicId, i32)> = BTreeSet::new();
    for (topic, partitions) in assignment.iter().flatten() {
        taken.extend(partitions.iter().map(|partition| (*topic, *partition)));
    }
    let all = topics.iter().flat_map(|topic| (0..count(spec, *topic)).map(|partition| (*topic, partition)));
    let mut free = all.filter(|partition| !taken.contains(partition));
    for (of_member, room) in assignment.iter_mut().zip(room) {
        for (topic, partition) in free.by_ref().take(room) {
            of_member.entry(topic).or_default().insert(partition);
        }
    }
}

fn count(spec: &Spec<'_>, topic: TopicId) -> i32 {
    spec.topics.get(&topic).copied().unwrap_or(0)
}
