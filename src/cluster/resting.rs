//! Followers' fetches that rest: a partition in which nothing happens costs nothing.
//!
//! A follower asks its leader for more whenever `replica.fetch.wait.max.ms` has passed without any. Where the answer would
//! say nothing that the follower doesn't know, and the next fetch nothing that the leader doesn't, both are spared: the
//! fetch stays where it is, without a deadline. As soon as anything happens that could matter, it is as if it had come
//! again all the while: it counts from the last time that it would have come, and is answered when it would have been.
//! (Kafka spares less: its followers ask for all partitions of a leader with one fetch, of whose session an idle one is no
//! part.)

use std::collections::{BTreeMap, BTreeSet};

use super::Cluster;
use super::node::Life;
use crate::api::{FollowerFetchWait, Key, NOBODY, Party, Peer, Wait};
use crate::base::{Instant, NodeId, Now, PartitionKey};
use crate::purgatory::{Exit, WaitId, Waiter};
use crate::replica::last_round;

/// The fetches that rest at one leader, by partition.
#[derive(Clone, Debug, Default)]
pub(super) struct Resting {
    by_key: BTreeMap<PartitionKey, BTreeSet<WaitId>>,
}

impl Cluster {
    /// Fetches have waited at the leader `at` for as long as they want to, and there is no news for them: they rest, or are
    /// answered where it can't be known that they would come again at once.
    pub(super) fn let_rest(&mut self, at: usize, now: Now, idle: Vec<FollowerFetchWait>) {
        for fetch in idle {
            match self.follower_of(at, &fetch) {
                Some(follower) => {
                    self.nodes[follower].broker.replicas.note_rest(fetch.fetch(), true, now.instant);
                    self.rest(at, now, fetch);
                }
                None => {
                    let (_, mut parts, ..) = self.lend(at, now);
                    fetch.answer(&mut parts);
                }
            }
        }
    }

    /// Where in `nodes` the follower is that would ask again at once, if it would.
    fn follower_of(&self, at: usize, fetch: &FollowerFetchWait) -> Option<usize> {
        let Peer { party: Party::Broker(id), incarnation } = fetch.from() else { return None };
        let (leader, follower) = (Party::Broker(self.nodes[at].id()), Party::Broker(id));
        let are_plain = self.links.is_plain(leader, follower) && self.links.is_plain(follower, leader);
        let follower = self.find_process(id, incarnation)?;
        let node = &self.nodes[follower];
        let asks_again = matches!(node.life, Life::Running) && node.broker.replicas.may_rest(fetch.fetch());
        (are_plain && asks_again).then_some(follower)
    }

    fn find_process(&self, id: NodeId, incarnation: u32) -> Option<usize> {
        self.nodes.iter().position(|node| node.id() == id && node.incarnation == incarnation)
    }

    fn rest(&mut self, at: usize, now: Now, fetch: FollowerFetchWait) {
        let node = &mut self.nodes[at];
        let key = fetch.fetch().key;
        node.broker.replicas.note_resting(fetch.fetch(), true, now.instant);
        let waiter = Waiter { owner: NOBODY, since: now.instant, deadline: Instant::NEVER };
        let id = node.purgatory.park([Key::LogEnd(key)], waiter, Wait::of_follower(fetch));
        node.resting.by_key.entry(key).or_default().insert(id);
    }

    /// Something has happened to a partition on whichever broker.
    pub(super) fn wake_resting(&mut self, now: Now, key: PartitionKey) {
        (0..self.nodes.len()).for_each(|at| self.wake_resting_at(at, now, key));
    }

    /// Something has happened that may matter to any fetch.
    pub(super) fn wake_all_resting(&mut self, now: Now) {
        for at in 0..self.nodes.len() {
            while let Some((&key, _)) = self.nodes[at].resting.by_key.first_key_value() {
                self.wake_resting_at(at, now, key);
            }
        }
    }

    /// Something has happened at the leader `at`, as the keys say that are to be woken there.
    pub(super) fn wake_resting_of_woken(&mut self, at: usize, now: Now) {
        let node = &self.nodes[at];
        if node.resting.by_key.is_empty() {
            return;
        }
        let keys: Vec<PartitionKey> = node.broker.woken.iter().filter_map(Key::partition).collect();
        keys.into_iter().for_each(|key| self.wake_resting_at(at, now, key));
    }

    fn wake_resting_at(&mut self, at: usize, now: Now, key: PartitionKey) {
        for id in self.nodes[at].resting.by_key.remove(&key).unwrap_or_default() {
            let node = &mut self.nodes[at];
            let Some((departure, wait)) = node.purgatory.take(id, Exit::Expired) else { continue };
            let Some(wait) = wait.into_follower_fetch() else { continue };
            let fetch = wait.fetch().clone();
            let since = last_round(departure.waiter.since, fetch.max_wait, now.instant);
            node.broker.replicas.note_resting(&fetch, false, since);
            let waiter = Waiter { owner: NOBODY, since, deadline: since + fetch.max_wait };
            let Peer { party, incarnation } = wait.from();
            node.purgatory.park([Key::LogEnd(key)], waiter, Wait::of_follower(wait));
            let Party::Broker(follower) = party else { continue };
            if let Some(follower) = self.find_process(follower, incarnation) {
                self.nodes[follower].broker.replicas.note_rest(&fetch, false, since);
            }
        }
    }
}
