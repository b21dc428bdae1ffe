//! The uniform assignor where members subscribe to different topics. What members have, they keep; what nobody has goes to
//! the subscriber with the least; then topics are evened out one after the other until nothing moves any more.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::Spec;
use crate::base::TopicId;
use crate::coordinator::records::consumer_groups::Partitions;

/// How often all topics are gone through. What each round can still gain gets less and less.
const MOST_ROUNDS: usize = 16;

pub(super) fn assign(spec: &Spec<'_>) -> Vec<Partitions> {
    let mut builder = Builder::new(spec);
    let order = builder.topics_by_demand();
    for topic in &order {
        builder.hand_out(*topic);
    }
    // A topic with one subscriber can't move.
    let movable: Vec<TopicId> =
        order.into_iter().filter(|topic| builder.topics[topic].subscribers.len() >= 2).collect();
    // How many topics in a row had nothing to move.
    let mut at_rest = 0;
    for topic in movable.iter().cycle().take(movable.len() * MOST_ROUNDS) {
        at_rest = if builder.even_out(*topic) { 0 } else { at_rest + 1 };
        if at_rest == movable.len() {
            break;
        }
    }
    builder.into_assignment()
}

struct Builder {
    topics: BTreeMap<TopicId, Topic>,
    /// How many partitions each member has.
    sizes: Vec<usize>,
}

struct Topic {
    /// The places of those who subscribe to it.
    subscribers: Vec<usize>,
    /// Who has each partition.
    owners: Vec<Option<usize>>,
}

impl Builder {
    fn new(spec: &Spec<'_>) -> Self {
        let mut topics: BTreeMap<TopicId, Topic> = BTreeMap::new();
        for (at, member) in spec.members.iter().enumerate() {
            for topic in member.topics.iter() {
                let partitions = spec.topics.get(topic).copied().unwrap_or(0).max(0) as usize;
                let new = || Topic { subscribers: Vec::new(), owners: vec![None; partitions] };
                topics.entry(*topic).or_insert_with(new).subscribers.push(at);
            }
        }
        let mut sizes = vec![0; spec.members.len()];
        for (at, member) in spec.members.iter().enumerate() {
            for (topic, partitions) in
                member.current.iter().filter(|(topic, _)| member.topics.contains(topic))
            {
                let Some(topic) = topics.get_mut(topic) else { continue };
                for partition in partitions {
                    let owner =
                        usize::try_from(*partition).ok().and_then(|index| topic.owners.get_mut(index));
                    if let Some(owner) = owner.filter(|owner| owner.is_none()) {
                        *owner = Some(at);
                        sizes[at] += 1;
                    }
                }
            }
        }
        Builder { topics, sizes }
    }

    /// The topics with the most partitions for each subscriber first, and of these, those with the fewest subscribers.
    fn topics_by_demand(&self) -> Vec<TopicId> {
        let mut order: Vec<(TopicId, u64, u64)> = self
            .topics
            .iter()
            .map(|(id, topic)| (*id, topic.owners.len() as u64, topic.subscribers.len() as u64))
            .collect();
        order.sort_by(|(a, partitions_a, subscribers_a), (b, partitions_b, subscribers_b)| {
            let (demand_a, demand_b) = (partitions_a * subscribers_b, partitions_b * subscribers_a);
            demand_b.cmp(&demand_a).then(subscribers_a.cmp(subscribers_b)).then(a.cmp(b))
        });
        order.into_iter().map(|(id, ..)| id).collect()
    }

    /// The subscribers of a topic, by how much they have.
    fn by_load(&self, topic: &Topic) -> BTreeSet<(usize, usize)> {
        topic.subscribers.iter().map(|at| (self.sizes[*at], *at)).collect()
    }

    /// Gives those partitions of a topic that nobody has to whoever has the least.
    fn hand_out(&mut self, id: TopicId) {
        let topic = &self.topics[&id];
        let mut by_load = self.by_load(topic);
        let free: Vec<usize> =
            (0..topic.owners.len()).filter(|index| topic.owners[*index].is_none()).collect();
        for index in free {
            let Some((size, least)) = by_load.pop_first() else { return };
            by_load.insert((size + 1, least));
            self.give(id, index, least);
        }
    }

    /// Moves partitions of a topic from those with the most to those with the least. Whether any was moved.
    fn even_out(&mut self, id: TopicId) -> bool {
        let topic = &self.topics[&id];
        let mut by_load = self.by_load(topic);
        let mut owned: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (index, owner) in topic.owners.iter().enumerate() {
            if let Some(owner) = owner {
                owned.entry(*owner).or_default().push(index);
            }
        }
        // Those who have partitions of this topic to give away, the fullest last.
        let mut givers: BTreeSet<(usize, Reverse<usize>)> =
            owned.keys().map(|at| (self.sizes[*at], Reverse(*at))).collect();
        let mut moved = false;
        while let (Some((most, Reverse(giver))), Some((least, taker))) =
            (givers.pop_last(), by_load.first().copied())
        {
            if most <= least + 1 {
                break;
            }
            let Some(index) = owned.get_mut(&giver).and_then(Vec::pop) else { continue };
            by_load.remove(&(most, giver));
            by_load.insert((most - 1, giver));
            by_load.remove(&(least, taker));
            by_load.insert((least + 1, taker));
            givers.insert((most - 1, Reverse(giver)));
            if givers.remove(&(least, Reverse(taker))) {
                givers.insert((least + 1, Reverse(taker)));
            }
            self.give(id, index, taker);
            moved = true;
        }
        moved
    }

    fn give(&mut self, id: TopicId, index: usize, to: usize) {
        let Some(owner) = self.topics.get_mut(&id).and_then(|topic| topic.owners.get_mut(index)) else {
            return;
        };
        if let Some(from) = owner.replace(to) {
            self.sizes[from] -= 1;
        }
        self.sizes[to] += 1;
    }

    fn into_assignment(self) -> Vec<Partitions> {
        let mut assignment = vec![Partitions::new(); self.sizes.len()];
        for (id, topic) in self.topics {
            for (index, owner) in topic.owners.into_iter().enumerate() {
                if let Some(owner) = owner {
                    assignment[owner].entry(id).or_default().insert(index as i32);
                }
            }
        }
        assignment
    }
}
