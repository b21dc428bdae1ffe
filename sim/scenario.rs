//! One seed: what there is, how long it goes wrong, and how it has to end.

use std::collections::BTreeMap;
use std::fmt;

use super::admin::Admin;
use super::checkers::{self, Checker};
use super::consumer::Consumer;
use super::contacts::TOPIC;
use super::faults::{Faults, Misfortune};
use super::member::Member;
use super::producer::Producer;
use super::world::{Incident, Notice, Step, World};
use crate::base::NodeId;
use crate::base::entropy::Entropy;
use crate::base::planted::{self, Bug};
use crate::cluster::{Cluster, ClusterConfig, Command, NodeConfig, ReplicaState};
use crate::controller::configs::{BrokerConfigs, Overrides, Resource};
use crate::controller::{ListenerEndpoint, NewTopic};

/// How long everything may take to reach its end once nothing goes wrong any more.
const PATIENCE_MS: u64 = 300_000;

/// How much a run has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times at which something came about.
    pub steps: u64,
    /// Faults.
    pub faults: u64,
    /// Records that were acknowledged.
    pub records: u64,
    /// Milliseconds of simulated time.
    pub simulated_ms: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.steps += other.steps;
        self.faults += other.faults;
        self.records += other.records;
        self.simulated_ms += other.simulated_ms;
    }
}

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

/// Runs one seed with a bug planted, under the eyes of one checker alone.
pub fn run_with_bug(seed: u64, bug: Bug, checker: &str) -> Outcome {
    planted::plant(Some(bug));
    let mut only = checkers::all();
    only.retain(|one| one.name() == checker);
    let outcome = Run::new(seed, only).run();
    planted::plant(None);
    outcome
}

struct Run {
    seed: u64,
    world: World,
    clients: Vec<Client>,
    faults: Faults,
    fault_ms: u64,
    partitions: i32,
    checkers: Vec<Box<dyn Checker>>,
    counts: Counts,
}

#[derive(Debug)]
enum Client {
    Producer(Producer),
    Consumer(Consumer),
    Member(Member),
    Admin(Admin),
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
        world.command(Command::CreateTopic(NewTopic {
            name: TOPIC.to_owned(),
            partitions,
            replication_factor: replicas as i16,
            ..NewTopic::default()
        }));
        let mut clients = Vec::new();
        for _ in 0..1 + draw.below(3) {
            let records = 10 + draw.below(60);
            clients.push(Client::Producer(Producer::new(clients.len(), ids.clone(), records)));
        }
        for _ in 0..1 + draw.below(2) {
            clients.push(Client::Consumer(Consumer::new(clients.len(), ids.clone())));
        }
        for _ in 0..draw.below(4) {
            clients.push(Client::Member(Member::new(clients.len(), ids.clone())));
        }
        if draw.below(2) == 0 {
            let admin = Admin::new(clients.len(), ids.clone(), partitions, replicas as usize);
            clients.push(Client::Admin(admin));
        }
        for client in 0..clients.len() {
            let after_ms = draw.below(2_000);
            world.schedule(after_ms, Incident::Wake(client));
        }
        world.schedule(draw.below(2_000), Incident::Fault);
        Run {
            seed,
            world,
            clients,
            faults: Faults::new(root.stream("faults"), ids, min_isr > 1),
            fault_ms: 10_000 + draw.below(50_000),
            partitions,
            checkers,
            counts: Counts::default(),
        }
    }

    fn run(mut self) -> Outcome {
        let failure = self.live().err();
        self.counts.faults = self.faults.count;
        self.counts.simulated_ms = self.world.now_ms;
        let producers = self.clients.iter().filter_map(|client| match client {
            Client::Producer(producer) => Some(producer.acknowledged()),
            _ => None,
        });
        self.counts.records = producers.sum();
        Outcome { digest: self.world.digest(), counts: self.counts, failure }
    }

    /// First with faults, then without.
    fn live(&mut self) -> Result<(), Failure> {
        while let Some(step) = self.world.step(self.fault_ms) {
            self.take(step, true)?;
        }
        self.world.now_ms = self.world.now_ms.max(self.fault_ms);
        self.faults.heal(&mut self.world);
        for client in &mut self.clients {
            if let Client::Admin(admin) = client {
                admin.is_done = true;
            }
        }
        let end_ms = self.world.now_ms + PATIENCE_MS;
        while !self.is_done() {
            let Some(step) = self.world.step(end_ms) else {
                let what = format!("after {PATIENCE_MS} ms without faults: {}", self.unfinished());
                return Err(self.failure("everything reaches its end", what));
            };
            self.take(step, false)?;
        }
        for at in 0..self.checkers.len() {
            let checker = &mut self.checkers[at];
            let (name, outcome) = (checker.name(), checker.finish());
            outcome.map_err(|what| self.failure(name, what))?;
        }
        Ok(())
    }

    fn take(&mut self, step: Step, faults: bool) -> Result<(), Failure> {
        self.counts.steps += 1;
        match step {
            Step::Passed => {}
            Step::Fault if faults => {
                if self.faults.strike(&mut self.world) == Misfortune::MemberCrashes {
                    self.crash_member();
                }
            }
            Step::Fault => {}
            Step::Restart(broker) => self.faults.restart(&mut self.world, broker),
            Step::Notice(client, notice) => self.tell(client, notice),
        }
        self.check()
    }

    fn tell(&mut self, client: usize, notice: Notice) {
        match &mut self.clients[client] {
            Client::Producer(producer) => producer.notice(&mut self.world, notice),
            Client::Consumer(consumer) => consumer.notice(&mut self.world, notice),
            Client::Member(member) => member.notice(&mut self.world, notice),
            Client::Admin(admin) => admin.notice(&mut self.world, notice),
        }
    }

    fn crash_member(&mut self) {
        let count = self.clients.iter().filter(|client| matches!(client, Client::Member(_))).count();
        let chosen = self.world.entropy.below(count as u64) as usize;
        let mut members = self.clients.iter_mut().filter_map(|client| match client {
            Client::Member(member) => Some(member),
            _ => None,
        });
        if let Some(member) = members.nth(chosen) {
            member.crash(&mut self.world);
        }
    }

    /// Has every checker look.
    fn check(&mut self) -> Result<(), Failure> {
        let replicas = self.world.cluster.replica_states();
        let events = std::mem::take(&mut self.world.events);
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

    fn failure(&self, checker: &'static str, what: String) -> Failure {
        let state = |replica: &ReplicaState| {
            let ReplicaState { broker, leads, leader_epoch, log_start_offset, .. } = replica;
            format!(
                "\n  broker {} ({}, start {}) {}-{}: {} in epoch {leader_epoch}, from {log_start_offset} to {}, high \
                 watermark {}",
                broker.0,
                replica.broker_state,
                replica.incarnation,
                replica.topic,
                replica.key.index,
                if *leads { "leads" } else { "follows" },
                replica.log_end_offset,
                replica.high_watermark
            )
        };
        let states: String = self.world.cluster.replica_states().iter().map(state).collect();
        Failure { seed: self.seed, at_ms: self.world.now_ms, checker, what: what + &states }
    }

    /// Where each partition ends, if all that was written is replicated.
    fn ends(&self) -> Option<BTreeMap<i32, i64>> {
        let replicas = self.world.cluster.replica_states();
        let leaders = replicas.iter().filter(|replica| replica.leads && &*replica.topic == TOPIC);
        let ends: BTreeMap<i32, i64> = leaders
            .filter(|leader| leader.high_watermark == leader.log_end_offset)
            .map(|leader| (leader.key.index, leader.log_end_offset))
            .collect();
        (ends.len() == self.partitions as usize).then_some(ends)
    }

    fn is_done(&self) -> bool {
        let Some(ends) = self.ends() else { return false };
        let is_done = |client: &Client| match client {
            Client::Producer(producer) => producer.is_done(),
            Client::Consumer(consumer) => consumer.has_read(&ends),
            Client::Member(_) | Client::Admin(_) => true,
        };
        self.clients.iter().all(is_done) && self.group_is_done(&ends)
    }

    /// Whether the members together have committed all there is, if there are members.
    fn group_is_done(&self, ends: &BTreeMap<i32, i64>) -> bool {
        let mut members = self.clients.iter().filter_map(|client| match client {
            Client::Member(member) => Some(member),
            _ => None,
        });
        if members.clone().next().is_none() {
            return true;
        }
        let mut committed = BTreeMap::new();
        if !members.all(|member| member.committed().map(|own| committed.extend(own.clone())).is_some()) {
            return false;
        }
        ends.iter().all(|(partition, end)| committed.get(partition) == Some(end))
    }

    fn unfinished(&self) -> String {
        let ends = self.ends();
        let unfinished = self.clients.iter().filter(|client| match (client, &ends) {
            (Client::Producer(producer), _) => !producer.is_done(),
            (Client::Consumer(consumer), Some(ends)) => !consumer.has_read(ends),
            (Client::Consumer(_), None) => true,
            (Client::Member(_), _) => true,
            (Client::Admin(_), _) => false,
        });
        let clients: Vec<String> = unfinished.map(|client| format!("{client:?}")).collect();
        format!("ends {ends:?}\n{}", clients.join("\n"))
    }
}

fn config(seed: u64, brokers: &[NodeId], replicas: i32, min_isr: i32) -> ClusterConfig {
    let settings = [
        ("min.insync.replicas", min_isr.to_string()),
        ("default.replication.factor", replicas.to_string()),
        ("offsets.topic.num.partitions", "2".to_owned()),
        ("offsets.topic.replication.factor", replicas.to_string()),
        ("replica.lag.time.max.ms", "10000".to_owned()),
    ];
    let pairs = settings.iter().map(|(key, value)| (*key, value.as_str()));
    let fixed = Overrides::parse(Resource::Broker, pairs).expect("the simulator's settings are valid");
    let endpoint = |id: &NodeId| ListenerEndpoint {
        listener: "PLAINTEXT".into(),
        host: None,
        port: 9_091 + id.0 as u16,
    };
    let node = |id: &NodeId| NodeConfig { id: *id, rack: None, endpoints: vec![endpoint(id)] };
    ClusterConfig {
        nodes: brokers.iter().map(node).collect(),
        configs: BrokerConfigs { fixed, ..BrokerConfigs::default() },
        seed,
        ..ClusterConfig::default()
    }
}
