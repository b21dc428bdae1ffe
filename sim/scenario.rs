//! One seed: what there is, how long it goes wrong, and how it has to end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::checkers::{self, Checker, Event};
use super::clients::{Clients, Ends};
use super::contacts::{OUTPUT, TOPIC, TRANSACTIONS};
use super::counts::{Count, Counts};
use super::faults::{Faults, Misfortune};
use super::world::{Incident, Step, World};
use crate::base::NodeId;
use crate::base::entropy::Entropy;
use crate::base::planted::{self, Bug};
use crate::cluster::{Cluster, ClusterConfig, Command, NodeConfig, ReplicaState};
use crate::controller::configs::{BrokerConfigs, Overrides, Resource};
use crate::controller::{ListenerEndpoint, NewTopic};

/// How long everything may take to reach its end once nothing goes wrong any more.
const PATIENCE_MS: u64 = 300_000;
/// The same with a planted bug, which may keep everybody from the end for ever.
const PATIENCE_WITH_BUG_MS: u64 = 30_000;

/// What is looked out for besides, as checkers name it: once nothing goes wrong any more, clients do all they have to, and
/// everything that was written is read.
pub const EVERYTHING_ENDS: &str = "everything reaches its end";

/// How many partitions the topics of transactions have.
const TRANSACTION_PARTITIONS: i32 = 2;

/// What was seen that may never happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// When, in simulated milliseconds.
    pub at_ms: u64,
    /// Which checker saw it.
    pub checker: &'static str,
    /// What it saw.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { seed, at_ms, checker, what } = self;
        write!(f, "seed {seed} after {at_ms} ms: {checker}: {what}")
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Stands for all that was sent, answered and commanded: the same seed has the same.
    pub digest: u64,
    /// How much it did.
    pub counts: Counts,
    /// What went wrong that may not; none if all is well.
    pub failure: Option<Failure>,
}

/// Runs one seed.
pub fn run(seed: u64) -> Outcome {
    Run::new(seed, checkers::all()).run()
}

/// Runs one seed, and tells what is commanded and how the topic's partitions change, line by line.
pub fn run_traced(seed: u64, tell: &mut dyn FnMut(&str)) -> Outcome {
    let mut run = Run::new(seed, checkers::all());
    run.world.commands = Some(Vec::new());
    run.run_telling(tell)
}

/// Runs one seed with a bug planted, under the eyes of some checkers alone, by their names.
pub fn run_with_bug(seed: u64, bug: Bug, looks: impl Fn(&str) -> bool) -> Outcome {
    planted::plant(Some(bug));
    let mut some = checkers::all();
    some.retain(|one| looks(one.name()));
    let mut run = Run::new(seed, some);
    run.patience_ms = PATIENCE_WITH_BUG_MS;
    let outcome = run.run();
    planted::plant(None);
    outcome
}

struct Run {
    seed: u64,
    world: World,
    clients: Clients,
    faults: Faults,
    fault_ms: u64,
    patience_ms: u64,
    topics: [(&'static str, i32); 3],
    checkers: Vec<Box<dyn Checker>>,
    /// The generations and epochs of groups in which a member was.
    generations: BTreeSet<(&'static str, i32)>,
}

impl Run {
    fn new(seed: u64, checkers: Vec<Box<dyn Checker>>) -> Self {
        let root = Entropy::new(seed);
        let mut draw = root.stream("scenario");
        let brokers = [3, 3, 3, 2, 4, 5][draw.below(6) as usize];
        let replicas = brokers.min(3);
        let min_isr = if replicas >= 3 { 2 } else { 1 };
        let partitions = 1 + draw.below(3) as i32;
        let ids: Vec<NodeId> = (1..=brokers).map(NodeId).collect();
        let config = config(seed, &ids, replicas, min_isr);
        let now = crate::base::Now::at_millis(0);
        let cluster = Cluster::new(config, now).expect("the simulator's configs are valid");
        let max_latency_ms = 1 + draw.below(20);
        let mut world = World::new(cluster, root.stream("network"), max_latency_ms);
        let topics = topics(partitions);
        for (name, partitions) in topics {
            world.command(Command::CreateTopic(NewTopic {
                name: name.to_owned(),
                partitions,
                replication_factor: replicas as i16,
                ..NewTopic::default()
            }));
        }
        let clients = Clients::draw(&mut draw, &mut world, ids.clone(), partitions, replicas as usize);
        world.schedule(draw.below(2_000), Incident::Fault);
        Run {
            seed,
            world,
            clients,
            faults: Faults::new(root.stream("faults"), ids, min_isr > 1),
            fault_ms: 10_000 + draw.below(50_000),
            patience_ms: PATIENCE_MS,
            topics,
            checkers,
            generations: BTreeSet::new(),
        }
    }

    fn run(self) -> Outcome {
        self.run_telling(&mut |_| ())
    }

    fn run_telling(mut self, tell: &mut dyn FnMut(&str)) -> Outcome {
        let failure = self.live(tell).err();
        let topics = self.world.cluster.controller().topics();
        let partitions = topics.iter().flat_map(|topic| topic.partitions.iter());
        let elections = partitions.map(|partition| partition.leader_epoch as u64).sum();
        let mut counts = self.world.counts;
        counts.add(Count::Elections, elections);
        counts.add(Count::Rebalances, self.generations.len() as u64);
        counts.add(Count::SimulatedMs, self.world.now_ms);
        Outcome { digest: self.world.digest(), counts, failure }
    }

    /// First with faults, then without.
    fn live(&mut self, tell: &mut dyn FnMut(&str)) -> Result<(), Failure> {
        let mut told = String::new();
        while let Some(step) = self.world.step(self.fault_ms) {
            let taken = self.take(step, true);
            self.tell_state(&mut told, tell);
            taken?;
        }
        self.world.now_ms = self.world.now_ms.max(self.fault_ms);
        self.faults.heal(&mut self.world);
        self.world.resume_all();
        self.clients.end_administration();
        let end_ms = self.world.now_ms + self.patience_ms;
        while !self.is_done() {
            let Some(step) = self.world.step(end_ms) else {
                return Err(self.too_late());
            };
            let taken = self.take(step, false);
            self.tell_state(&mut told, tell);
            taken?;
        }
        for at in 0..self.checkers.len() {
            let checker = &mut self.checkers[at];
            let (name, outcome) = (checker.name(), checker.finish());
            outcome.map_err(|what| self.failure(name, what))?;
        }
        Ok(())
    }

    fn take(&mut self, step: Step, faults: bool) -> Result<(), Failure> {
        self.world.count(Count::Steps);
        match step {
            Step::Passed => {}
            Step::Fault if faults => match self.faults.strike(&mut self.world) {
                Misfortune::None => {}
                Misfortune::ClientCrashes => self.clients.crash_one(&mut self.world),
                Misfortune::ClientPauses(for_ms) => self.clients.pause_one(&mut self.world, for_ms),
                Misfortune::PipelineIsFollowed => self.clients.follow_one(&mut self.world),
            },
            Step::Fault => {}
            Step::Restart(broker) => self.faults.restart(&mut self.world, broker),
            Step::Notice(client, notice) => self.clients.notice(&mut self.world, client, notice),
        }
        self.check()
    }

    /// Tells of commands, and of the topic's partitions where they have changed.
    fn tell_state(&mut self, told: &mut String, tell: &mut dyn FnMut(&str)) {
        let Some(commands) = &mut self.world.commands else { return };
        std::mem::take(commands).iter().for_each(|command| tell(command));
        let topic = self.world.cluster.controller().topics().by_name(TOPIC);
        let partitions = topic.iter().flat_map(|topic| topic.partitions.iter().enumerate());
        let mut state: String =
            partitions.map(|(index, partition)| format!("  {index} {partition:?}\n")).collect();
        let replicas = self.world.cluster.replica_states();
        state.extend(replicas.iter().filter(|replica| &*replica.topic == TOPIC).map(describe));
        if state != *told {
            tell(&format!("{} ms\n{state}", self.world.now_ms));
            *told = state;
        }
    }

    /// Has every checker look.
    fn check(&mut self) -> Result<(), Failure> {
        let replicas = self.world.cluster.replica_states();
        let events = std::mem::take(&mut self.world.events);
        if let Some(commands) = &mut self.world.commands {
            let untold = |event: &&Event| !matches!(event, Event::Read { .. } | Event::Acknowledged { .. });
            commands.extend(
                events.iter().filter(untold).map(|event| format!("{} ms: {event:?}", self.world.now_ms)),
            );
        }
        events.iter().for_each(|event| self.count(event));
        for at in 0..self.checkers.len() {
            let checker = &mut self.checkers[at];
            let name = checker.name();
            let mut outcome = checker.inspect(&mut self.world, &replicas);
            for event in &events {
                outcome = outcome.and_then(|()| checker.event(event));
            }
            outcome.map_err(|what| self.failure(name, what))?;
        }
        Ok(())
    }

    fn count(&mut self, event: &Event) {
        let counted = match event {
            Event::Acknowledged { .. } => Count::Acknowledged,
            Event::Read { .. } | Event::ReadCommitted { .. } | Event::Transformed { .. } => Count::Read,
            Event::Owns { group, share: Some((generation, _)), .. } => {
                self.generations.insert((*group, *generation));
                return;
            }
            _ => return,
        };
        self.world.count(counted);
    }

    fn failure(&self, checker: &'static str, what: String) -> Failure {
        let states: String = self.world.cluster.replica_states().iter().map(describe).collect();
        Failure { seed: self.seed, at_ms: self.world.now_ms, checker, what: format!("{what}\n{states}") }
    }

    /// Where each partition of each topic ends, if all that was written is replicated and no transaction is open.
    fn ends(&self) -> Option<Ends> {
        let replicas = self.world.cluster.replica_states();
        let ends_of = |(topic, partitions): (&'static str, i32)| {
            let leaders = replicas.iter().filter(|replica| replica.leads && &*replica.topic == topic);
            let ends: BTreeMap<i32, i64> = leaders
                .filter(|leader| leader.last_stable_offset == leader.log_end_offset)
                .map(|leader| (leader.key.index, leader.log_end_offset))
                .collect();
            (ends.len() == partitions as usize).then_some((topic, ends))
        };
        self.topics.into_iter().map(ends_of).collect()
    }

    fn is_done(&self) -> bool {
        self.ends().is_some_and(|ends| self.clients.are_done(&ends))
            && self.checkers.iter().all(|checker| checker.unfinished().is_none())
    }

    /// Something hasn't reached its end in time.
    fn too_late(&self) -> Failure {
        let ends = self.ends();
        let clients = self.clients.unfinished(ends.as_ref().unwrap_or(&Ends::new()));
        let is_done = ends.as_ref().is_some_and(|ends| self.clients.are_done(ends));
        let unfinished = self.checkers.iter().find_map(|checker| {
            let what = checker.unfinished().filter(|_| is_done)?;
            Some((checker.name(), what))
        });
        let (checker, what) = unfinished.unwrap_or((EVERYTHING_ENDS, String::new()));
        let what = format!("after {} ms without faults: {what}\nends {ends:?}\n{clients}", self.patience_ms);
        self.failure(checker, what)
    }
}

/// The topics and how many partitions they have.
fn topics(partitions: i32) -> [(&'static str, i32); 3] {
    [(TOPIC, partitions), (TRANSACTIONS, TRANSACTION_PARTITIONS), (OUTPUT, TRANSACTION_PARTITIONS)]
}

/// A replica, for people: one line.
fn describe(replica: &ReplicaState) -> String {
    format!(
        "  broker {} ({}, start {}) {}-{}: {} in epoch {}, from {} to {}, high watermark {}\n",
        replica.broker.0,
        replica.broker_state,
        replica.incarnation,
        replica.topic,
        replica.key.index,
        if replica.leads { "leads" } else { "follows" },
        replica.leader_epoch,
        replica.log_start_offset,
        replica.log_end_offset,
        replica.high_watermark
    )
}

fn config(seed: u64, brokers: &[NodeId], replicas: i32, min_isr: i32) -> ClusterConfig {
    let settings = [
        ("min.insync.replicas", min_isr.to_string()),
        ("default.replication.factor", replicas.to_string()),
        ("offsets.topic.num.partitions", "2".to_owned()),
        ("transaction.state.log.num.partitions", "2".to_owned()),
        ("transaction.state.log.replication.factor", replicas.to_string()),
        ("transaction.state.log.min.isr", min_isr.to_string()),
        ("transaction.abort.timed.out.transaction.cleanup.interval.ms", "1000".to_owned()),
        ("offsets.topic.replication.factor", replicas.to_string()),
        ("replica.lag.time.max.ms", "10000".to_owned()),
        ("group.consumer.min.session.timeout.ms", "1000".to_owned()),
        ("group.consumer.session.timeout.ms", "6000".to_owned()),
        ("group.consumer.min.heartbeat.interval.ms", "500".to_owned()),
        ("group.consumer.heartbeat.interval.ms", "1000".to_owned()),
    ];
    let pairs = settings.iter().map(|(key, value)| (*key, value.as_str()));
    let fixed = Overrides::parse(Resource::Broker, pairs).expect("the simulator's settings are valid");
    let endpoint = |id: &NodeId| ListenerEndpoint {
        listener: "PLAINTEXT".into(),
        host: None,
        port: 9_091 + id.0 as u16,
    };
    let node = |id: &NodeId| {
        let (endpoints, configs) = (vec![endpoint(id)], Overrides::default());
        NodeConfig { id: *id, rack: None, endpoints, configs }
    };
    ClusterConfig {
        nodes: brokers.iter().map(node).collect(),
        configs: BrokerConfigs { fixed, ..BrokerConfigs::default() },
        seed,
        ..ClusterConfig::default()
    }
}
