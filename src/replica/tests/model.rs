//! Three brokers under random trouble: appends, links cut, leaders changed, brokers started again with or without the
//! tail of their logs. What was committed stays, and in the end all logs are the same.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::*;

const IDS: [i32; 3] = [1, 2, 3];

#[derive(Clone, Debug)]
enum Step {
    /// At whoever takes itself for a leader.
    Append {
        broker: i32,
        count: usize,
    },
    /// So many messages arrive.
    Deliver {
        count: usize,
    },
    /// Fetches that wait are answered.
    Expire,
    /// A broker hears of the partition as it is now.
    Tell {
        broker: i32,
    },
    Cut {
        broker: i32,
    },
    Heal,
    /// One of the in-sync replicas becomes the leader.
    Elect {
        pick: usize,
    },
    Restart {
        broker: i32,
        loses_tail: bool,
    },
    DeleteRecords {
        part: f64,
    },
    Pass {
        ms: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let broker = || 1..=3_i32;
    prop_oneof![
        12 => (broker(), 1..4_usize).prop_map(|(broker, count)| Step::Append { broker, count }),
        20 => (1..12_usize).prop_map(|count| Step::Deliver { count }),
        4 => Just(Step::Expire),
        8 => broker().prop_map(|broker| Step::Tell { broker }),
        2 => broker().prop_map(|broker| Step::Cut { broker }),
        2 => Just(Step::Heal),
        3 => (0..3_usize).prop_map(|pick| Step::Elect { pick }),
        2 => (broker(), any::<bool>()).prop_map(|(broker, loses_tail)| Step::Restart { broker, loses_tail }),
        2 => (0.0..=1.0).prop_map(|part| Step::DeleteRecords { part }),
        3 => prop_oneof![1..2_000_u64, 10_000..50_000_u64].prop_map(|ms| Step::Pass { ms }),
    ]
}

/// What must hold whatever happens.
struct Trial {
    world: World,
    /// What some leader's high watermark has passed, batch by batch.
    committed: BTreeMap<i64, Vec<u8>>,
    committed_end: i64,
    /// High watermark of each broker in the epoch in which it leads.
    marks: BTreeMap<i32, (i32, i64)>,
    appended: u64,
}

impl Trial {
    fn new() -> Self {
        Trial {
            world: World::new(3),
            committed: BTreeMap::new(),
            committed_end: 0,
            marks: BTreeMap::new(),
            appended: 0,
        }
    }

    fn take(&mut self, step: &Step) {
        let world = &mut self.world;
        let now = world.now();
        match *step {
            Step::Append { broker, count } => {
                if world.holds(broker) && *world.replica(broker).role() == Role::Leader {
                    self.appended += 1;
                    let bytes = batch(count, self.appended);
                    let at = world.at(broker);
                    let appended =
                        world.brokers[at].append(KEY, &mut world.pool, &bytes, AppendOrigin::Client, now);
                    appended.expect("a replica").expect("appended");
                }
            }
            Step::Deliver { count } => {
                for _ in 0..count {
                    self.world.step();
                    self.check();
                }
            }
            Step::Expire => world.answer_parked(),
            Step::Tell { broker } if !world.cut_off.contains(&node(broker)) => drop(world.tell(broker)),
            Step::Tell { .. } => {}
            Step::Cut { broker } => world.cut_off.push(node(broker)),
            Step::Heal => world.reconnect(),
            Step::Elect { pick } => {
                let isr = world.partition.isr.clone();
                world.decide_leader(isr[pick % isr.len()]);
            }
            Step::Restart { broker, loses_tail } => world.restart(broker, loses_tail),
            Step::DeleteRecords { part } => {
                let leader = world.leader();
                if world.holds(leader) && *world.replica(leader).role() == Role::Leader {
                    let (start, end) = (
                        world.replica(leader).log().log_start_offset(),
                        world.replica(leader).high_watermark(),
                    );
                    let offset = start + ((end - start) as f64 * part) as i64;
                    let at = world.at(leader);
                    let deleted = world.brokers[at].delete_records(KEY, offset, now, &mut world.pool);
                    deleted.expect("a replica").expect("within the log");
                }
            }
            Step::Pass { ms } => {
                world.now_ms += ms;
                let now = world.now();
                for at in 0..world.brokers.len() {
                    world.brokers[at].handle_timeout(now, &mut world.pool);
                }
            }
        }
        self.check();
    }

    fn check(&mut self) {
        for id in IDS {
            if !self.world.holds(id) {
                continue;
            }
            let replica = self.world.replica(id);
            let (start, end) = (replica.log().log_start_offset(), replica.log().log_end_offset());
            let high_watermark = replica.high_watermark();
            assert!((start..=end).contains(&high_watermark), "{id}: {start} {high_watermark} {end}");
            if *replica.role() != Role::Leader {
                self.marks.remove(&id);
                continue;
            }
            let epoch = replica.leader_epoch();
            if let Some((before, mark)) = self.marks.insert(id, (epoch, high_watermark)) {
                assert!(before != epoch || mark <= high_watermark, "the high watermark of a leader fell");
            }
            for found in replica.log().batches() {
                if found.view.last_offset() >= high_watermark {
                    break;
                }
                if found.view.base_offset() < self.committed_end {
                    let same = self.committed.get(&found.view.base_offset());
                    assert!(same.is_none_or(|same| same == found.bytes), "another record was committed");
                    continue;
                }
                self.committed.insert(found.view.base_offset(), found.bytes.to_vec());
                self.committed_end = found.view.last_offset() + 1;
            }
        }
    }

    /// All trouble ends, and all brokers have time to become the same.
    fn settle(mut self) {
        let world = &mut self.world;
        world.reconnect();
        for id in IDS {
            world.tell(id);
        }
        world.run();
        world.pass(100_000);
        world.append(1);
        world.pass(2_000);
        self.check();
        let world = &self.world;
        let leader = world.leader();
        assert_eq!(world.partition.isr.len(), 3, "all are in sync again");
        let end = world.ends(leader).0;
        // A leader may not have heard how far the one before it had deleted.
        let start = IDS.iter().map(|id| world.replica(*id).log().log_start_offset()).max().unwrap_or(0);
        for id in IDS {
            assert_eq!(world.ends(id), (end, end), "broker {id}");
            let readable = |id: i32| {
                let batches = world.replica(id).log().batches();
                let batches = batches.filter(|batch| batch.view.last_offset() >= start);
                batches.map(|batch| batch.bytes.to_vec()).collect::<Vec<_>>()
            };
            assert_eq!(readable(id), readable(leader), "broker {id}");
            let epochs = |id: i32| world.replica(id).log().epochs().entries().to_vec();
            let from = |entries: Vec<crate::log::EpochStart>| -> Vec<_> {
                entries.into_iter().filter(|entry| entry.start_offset > start).collect()
            };
            assert_eq!(from(epochs(id)), from(epochs(leader)), "broker {id}");
        }
        let mut logged = BTreeMap::new();
        for batch in world.replica(leader).log().batches() {
            logged.insert(batch.view.base_offset(), batch.bytes.to_vec());
        }
        for (offset, bytes) in &self.committed {
            if *offset >= start {
                assert_eq!(logged.get(offset), Some(bytes), "what was committed at {offset} is there");
            }
        }
        let mut world = self.world;
        for broker in &mut world.brokers {
            broker.remove(KEY, &mut world.pool);
        }
        assert_eq!(world.pool.bytes_held(), 0);
    }
}

impl World {
    fn at(&self, id: i32) -> usize {
        self.brokers
            .iter()
            .position(|broker| broker.brokers.this == node(id))
            .expect("there is such a broker")
    }

    fn holds(&self, id: i32) -> bool {
        self.brokers[self.at(id)].replica(KEY).is_some()
    }

    fn answer_parked(&mut self) {
        for (leader, fetch) in std::mem::take(&mut self.parked) {
            let fetched = self.broker(leader.0).read_for_follower(&fetch);
            self.on_their_way.push_back(Message::Fetched { to: fetch.replica, fetched });
        }
    }

    fn decide_leader(&mut self, leader: NodeId) {
        if self.partition.leader != Some(leader) {
            self.partition.leader = Some(leader);
            self.partition.leader_epoch += 1;
        }
        self.partition.partition_epoch += 1;
    }

    /// A broker's process ends and begins again. The controller sees that it is gone: it leaves the in-sync replicas, if
    /// others are left, and somebody else leads. It has all its log, or at least what is below its high watermark; the
    /// last in-sync replica loses nothing.
    pub(super) fn restart(&mut self, id: i32, loses_tail: bool) {
        let others: Vec<NodeId> =
            self.partition.isr.iter().copied().filter(|other| *other != node(id)).collect();
        let kept = if loses_tail && !others.is_empty() { Kept::Replicated } else { Kept::Everything };
        if !others.is_empty() && self.partition.isr.contains(&node(id)) {
            self.partition.isr = others.clone().into();
            let leader = self.partition.leader.filter(|leader| *leader != node(id)).unwrap_or(others[0]);
            self.decide_leader(leader);
        } else if self.partition.leader == Some(node(id)) {
            self.partition.leader_epoch += 1;
            self.partition.partition_epoch += 1;
        }
        let now = self.now();
        let at = self.at(id);
        self.brokers[at].after_restart(&BrokerSettings::default(), kept, now, &mut self.pool);
        let (gone, parked) = self.parked.drain(..).partition(|(leader, _)| *leader == node(id));
        self.parked = parked;
        let gone: Vec<(NodeId, FollowerFetch)> = gone;
        self.on_their_way.extend(gone.into_iter().map(|(leader, fetch)| {
            let fetched = fetch.undelivered(leader);
            Message::Fetched { to: fetch.replica, fetched }
        }));
        for broker in self.registered.iter_mut().filter(|broker| broker.id == node(id)) {
            broker.epoch += 1;
        }
        self.tell_brokers();
    }
}

/// The same cases each time: a run of the whole suite must not fail by chance. More of them, with other seeds, are for
/// whoever changes replication: `PROPTEST_CASES=5000 PROPTEST_RNG_SEED=2`.
fn same_each_time() -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    match config.rng_seed {
        RngSeed::Random => ProptestConfig { rng_seed: RngSeed::Fixed(1), ..config },
        RngSeed::Fixed(_) => config,
    }
}

proptest! {
    #![proptest_config(same_each_time())]

    #[test]
    fn what_was_committed_stays_and_all_logs_become_the_same(steps in prop::collection::vec(step(), 1..150)) {
        let mut trial = Trial::new();
        for step in &steps {
            trial.take(step);
        }
        trial.settle();
    }
}

/// Inputs that once failed: a leader that is one again had not heard of the one in between, and took for replicated what
/// its followers had before they followed that one.
#[test]
fn a_leader_may_have_missed_another() {
    use Step::*;
    let first = [
        Elect { pick: 1 },
        Tell { broker: 2 },
        Restart { broker: 3, loses_tail: false },
        Append { broker: 2, count: 1 },
        Tell { broker: 3 },
        Elect { pick: 2 },
        Append { broker: 1, count: 1 },
        Heal,
        Deliver { count: 4 },
        Tell { broker: 1 },
        Tell { broker: 3 },
        Deliver { count: 7 },
        Restart { broker: 1, loses_tail: false },
        Tell { broker: 2 },
        Elect { pick: 1 },
    ];
    let second = [
        Elect { pick: 1 },
        Tell { broker: 2 },
        Append { broker: 1, count: 1 },
        Deliver { count: 3 },
        Cut { broker: 1 },
        Tell { broker: 3 },
        Heal,
        Deliver { count: 2 },
        Restart { broker: 2, loses_tail: false },
        Append { broker: 1, count: 1 },
        Heal,
        Tell { broker: 1 },
        Elect { pick: 1 },
    ];
    for steps in [&first[..], &second] {
        let mut trial = Trial::new();
        steps.iter().for_each(|step| trial.take(step));
        trial.settle();
    }
}

#[test]
fn a_log_that_starts_inside_a_batch_is_followed_by_one_that_ends_there() {
    // Broker 3 has records of an epoch that broker 1 never had, whose log starts inside its first batch: where they part
    // lies in that batch.
    let steps = [
        Step::Append { broker: 1, count: 1 },
        Step::Append { broker: 1, count: 3 },
        Step::Deliver { count: 100 },
        Step::Cut { broker: 3 },
    ];
    let mut trial = Trial::new();
    steps.iter().for_each(|step| trial.take(step));
    let world = &mut trial.world;
    let (at, now) = (world.at(1), world.now());
    // As if these had never been there.
    let replica = world.brokers[at].by_key.get_mut(&KEY).expect("a replica");
    replica.log.truncate_fully_and_start_at(0, &mut world.pool);
    replica.high_watermark = 0;
    let at = world.at(2);
    let replica = world.brokers[at].by_key.get_mut(&KEY).expect("a replica");
    replica.log.truncate_fully_and_start_at(0, &mut world.pool);
    replica.high_watermark = 0;
    (trial.committed, trial.committed_end) = (BTreeMap::new(), 0);
    trial.marks.clear();
    let world = &mut trial.world;
    world.partition.isr = nodes(&[1]);
    world.partition.leader_epoch += 1;
    world.partition.partition_epoch += 1;
    world.tell(1);
    let appended = world.brokers[0].append(KEY, &mut world.pool, &batch(2, 99), AppendOrigin::Client, now);
    appended.expect("a replica").expect("appended");
    world.brokers[0].delete_records(KEY, 1, now, &mut world.pool).expect("a replica").expect("in range");
    trial.settle();
}
