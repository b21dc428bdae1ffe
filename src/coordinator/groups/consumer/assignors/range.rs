//! The range assignor: each topic is cut into ranges for its subscribers, in the order of their instance ids and then of
//! their ids, so that topics that are partitioned alike go to the same members.

use std::collections::BTreeMap;

use super::{MemberSpec, Spec};
use crate::base::TopicId;
use crate::coordinator::records::consumer_groups::Partitions;

/// What is left of a topic.
struct Rest {
    partitions: i32,
    subscribers: i32,
    next: i32,
}

pub(super) fn assign(spec: &Spec<'_>) -> Vec<Partitions> {
    let mut rests: BTreeMap<TopicId, Rest> = BTreeMap::new();
    for topic in spec.members.iter().flat_map(|member| member.topics.iter()) {
        let partitions = spec.topics.get(topic).copied().unwrap_or(0);
        rests.entry(*topic).or_insert(Rest { partitions, subscribers: 0, next: 0 }).subscribers += 1;
    }
    let mut order: Vec<usize> = (0..spec.members.len()).collect();
    order.sort_by_key(|at| {
        let MemberSpec { id, instance_id, .. } = &spec.members[*at];
        // Static members come first.
        (instance_id.is_none(), *instance_id, *id)
    });
    let mut assignment = vec![Partitions::new(); spec.members.len()];
    for at in order {
        for topic in spec.members[at].topics.iter() {
            let Some(rest) = rests.get_mut(topic) else { continue };
            // As many as an even share of what is left, rounded up: the first members get the odd ones.
            let left = rest.partitions - rest.next;
            let share = (left + rest.subscribers - 1) / rest.subscribers;
            if share > 0 {
                assignment[at].insert(*topic, (rest.next..rest.next + share).collect());
            }
            rest.next += share;
            rest.subscribers -= 1;
        }
    }
    assignment
}
