//! Whatever brokers, leaders and users do, and in whatever order, some things always hold.

use std::collections::BTreeMap;

use super::*;

const BROKERS: i32 = 5;
const TOPICS: [(&str, bool); 2] = [("clean", false), ("unclean", true)];

struct History {
    quorum: Quorum,
    entropy: Entropy,
    keys: Vec<PartitionKey>,
    /// What brokers have been told.
    told: BTreeMap<PartitionKey, Partition>,
    /// Who led in each epoch.
    leaders: BTreeMap<(PartitionKey, i32), NodeId>,
    log: Vec<String>,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut quorum = Quorum::of(BROKERS, &[("leader.imbalance.check.interval.seconds", "20")]);
        let mut keys = Vec::new();
        for (name, unclean) in TOPICS {
            let unclean = unclean.to_string();
            let configs =
                [("unclean.leader.election.enable", unclean.as_str()), ("min.insync.replicas", "2")];
            let first = quorum.topic(name, &[&[1, 2, 3], &[3, 4, 5], &[5, 1, 2]], &configs);
            keys.extend((0..3).map(|index| PartitionKey { index, ..first }));
        }
        let entropy = Entropy::new(seed);
        let (told, leaders) = Default::default();
        History { quorum, entropy, keys, told, leaders, log: Vec::new() }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.entropy.below(bound as u64) as usize
    }

    fn chance(&mut self) -> bool {
        self.below(2) == 0
    }

    fn some_broker(&mut self) -> i32 {
        1 + self.below(BROKERS as usize) as i32
    }

    /// Brokers in any order.
    fn shuffled(&mut self) -> Vec<i32> {
        let mut all: Vec<i32> = (1..=BROKERS).collect();
        for at in (1..all.len()).rev() {
            let other = self.below(at + 1);
            all.swap(at, other);
        }
        all
    }

    fn step(&mut self) {
        let id = self.some_broker();
        let at = self.below(self.keys.len());
        let key = self.keys[at];
        let (name, is_unclean) = TOPICS[at / 3];
        let what = self.below(12);
        self.log.push(format!("{what} broker {id} {name}-{}", key.index));
        let is_known = self.quorum.controller.broker(NodeId(id)).is_some();
        let mut isr = self.shuffled();
        isr.truncate(3);
        let controller = &mut self.quorum.controller;
        // Refusals are part of it.
        match what {
            0 | 1 if is_known => drop(self.quorum.beat(id, what == 1, false)),
            2 if is_known => drop(self.quorum.beat(id, false, true)),
            3 => {
                let was_clean = self.chance();
                self.quorum.register(id, was_clean);
            }
            4 => {
                let alive: Vec<i32> = (1..=BROKERS).filter(|other| *other != id).collect();
                let known = |id: &i32| self.quorum.controller.broker(NodeId(*id)).is_some();
                let alive: Vec<i32> = alive.into_iter().filter(known).collect();
                self.quorum.pass(10, &alive);
            }
            5 | 6 => {
                let partition = self.quorum.partition(key).clone();
                if let Some(leader) = partition.leader {
                    isr.retain(|id| NodeId(*id) != leader);
                    isr.push(leader.0);
                    let stays = |id: &i32| partition.replicas.contains(&NodeId(*id));
                    isr.retain(stays);
                    let _ = self.quorum.alter(key, &isr);
                }
            }
            7 => {
                let kind = if self.chance() { Election::Preferred } else { Election::Unclean };
                let _ = self.quorum.controller.elect(name, key.index, kind);
            }
            8 => {
                let _ = controller.reassign(name, key.index, Some(&ids(&isr)), false);
            }
            // An unclean cancellation may put a broker into the ISR that doesn't live, as in Kafka.
            9 if !is_unclean => {
                let _ = controller.reassign(name, key.index, None, true);
            }
            10 => {
                let _ = controller.move_leader(name, key.index, NodeId(id));
                let _ = controller.set_isr(name, key.index, &ids(&isr));
            }
            11 if controller.brokers().len() > 2 => {
                let now = self.quorum.now;
                let _ = self.quorum.controller.unregister(now, NodeId(id));
            }
            _ => {}
        }
        self.check();
    }

    fn check(&mut self) {
        let changes: Vec<Change> = self.quorum.controller.take_changes().map(|(_, change)| change).collect();
        for change in changes {
            let Change::Partition { topic, index } = change else { continue };
            let key = PartitionKey { topic: topic.id, index };
            let now = topic.partition(index).unwrap().clone();
            if let Some(leader) = now.leader {
                let led = *self.leaders.entry((key, now.leader_epoch)).or_insert(leader);
                assert_eq!(led, leader, "one leader an epoch: {}", self.told_so_far());
            }
            if let Some(before) = self.told.get(&key) {
                assert_eq!(now.partition_epoch, before.partition_epoch + 1, "{}", self.told_so_far());
                let bump = now.leader_epoch - before.leader_epoch;
                assert!(bump == 1 || (bump == 0 && now.leader == before.leader), "{}", self.told_so_far());
            }
            self.told.insert(key, now);
        }
        for key in &self.keys {
            let partition = self.quorum.partition(*key);
            assert_eq!(Some(partition), self.told.get(key), "brokers know: {}", self.told_so_far());
            self.check_partition(partition);
        }
    }

    fn check_partition(&self, partition: &Partition) {
        let Partition { replicas, isr, elr, leader, .. } = partition;
        let holds = |what: bool, name: &str| {
            assert!(
                what,
                "{name}: {partition:?}\n{:?}\n{}",
                self.quorum.controller.brokers(),
                self.told_so_far()
            );
        };
        let is_active =
            |id: &NodeId| self.quorum.controller.broker(*id).is_some_and(BrokerRegistration::is_active);
        let is_distinct = |list: &[NodeId]| list.iter().enumerate().all(|(at, id)| !list[..at].contains(id));
        holds(leader.is_none_or(|leader| isr.contains(&leader)), "the leader is in sync");
        holds(isr.iter().all(is_active), "who is in sync lives");
        holds(leader.is_some() || isr.is_empty(), "who is in sync leads if nobody else does");
        // (After a cancelled move an eligible leader may be none, as in Kafka; only replicas are elected.)
        holds(isr.iter().all(|id| replicas.contains(id)), "who is in sync is a replica");
        holds(!elr.iter().any(|id| isr.contains(id)), "the eligible leaders are out of sync");
        holds([replicas, isr, elr].iter().all(|list| is_distinct(list)), "nobody is named twice");
        holds(isr.len() < 2 || elr.is_empty(), "nobody else is eligible while enough are in sync");
        holds(
            leader.is_none() || partition.last_known_elr.is_empty(),
            "leaders are remembered if none is there",
        );
        let adds = partition.adding_replicas.iter().all(|id| replicas.contains(id));
        holds(
            adds && partition.removing_replicas.iter().all(|id| replicas.contains(id)),
            "moves are of replicas",
        );
        holds(!replicas.is_empty(), "there are replicas");
        let recovers = partition.recovery == LeaderRecovery::Recovering;
        holds(!recovers || isr.len() <= 1, "a leader recovers alone");
    }

    fn told_so_far(&self) -> String {
        self.log.join("\n")
    }
}

#[test]
fn leaders_live_and_are_in_sync_and_epochs_grow() {
    let mut elections = 0;
    for seed in 0..150 {
        let mut history = History::new(seed);
        (0..150).for_each(|_| history.step());
        elections += history.leaders.len();
    }
    assert!(elections > 5_000, "there was something to hold: {elections} leaders");
}
