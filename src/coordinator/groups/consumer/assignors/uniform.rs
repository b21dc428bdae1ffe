//! The uniform assignor where all members subscribe to the same topics. Balance goes before keeping what one has.

use std::collections::BTreeSet;

use super::{MemberSpec, Spec};
use crate::base::TopicId;
use crate::coordinator::records::consumer_groups::Partitions;

pub(super) fn assign(spec: &Spec<'_>) -> Vec<Partitions> {
    let Some(first) = spec.members.first() else { return Vec::new() };
    let topics = &first.topics;
    let total: usize = topics.iter().map(|topic| count(spec, *topic) as usize).sum();
    let quota = total / spec.members.len();
    let mut odd = total % spec.members.len();
    let mut assignment = Vec::with_capacity(spec.members.len());
    let mut room = Vec::with_capacity(spec.members.len());
    for (at, member) in spec.members.iter().enumerate() {
        let most = quota + usize::from(odd > 0);
        let kept = keep(spec, member, most);
        let has: usize = kept.values().map(BTreeSet::len).sum();
        let members_left = spec.members.len() - at;
        // An odd one is not for a member that would have to be given it while enough others are to come that may have
        // one already.
        let spared = odd > 0 && has < most && members_left > odd;
        let most = most - usize::from(spared);
        odd -= usize::from(odd > 0 && !spared);
        room.push(most.saturating_sub(has));
        assignment.push(kept);
    }
    hand_out(spec, topics, &mut assignment, room);
    assignment
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
