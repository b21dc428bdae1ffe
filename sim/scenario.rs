//! One seed: what there is, how long it goes wrong, and how it has to end.

use std::collections::BTreeMap;
use std::fmt;

use super::admin::Admin;
use super::checkers::{self, Checker, Event};
use super::consumer::Consumer;
use super::consumer_member::ConsumerMember;
use super::contacts::{TOPIC, TRANSACTIONS};
use super::faults::{Faults, Misfortune};
use super::member::Member;
use super::producer::Producer;
use super::transactor::Transactor;
use super::world::{Incident, Notice, Step, World};
use crate::base::NodeId;
use crate::base::entropy::Entropy;
use crate::base::planted::{self, Bug};
use crate::cluster::{Cluster, ClusterConfig, Command, NodeConfig, ReplicaState};
use crate::controller::configs::{BrokerConfigs, Overrides, Resource};
use crate::controller::{ListenerEndpoint, NewTopic};

/// How long everything may take to reach its end once nothing goes wrong any more.
const PATIENCE_MS: u64 = 300_000;

/// How many partitions the topic of transactions has.
const TRANSACTION_PARTITIONS: i32 = 2;

/// How much a run has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times at which something came about.
    pub steps: u64,
    /// Faults.
    pub faults: u64,
    /// Records that were acknowledged.
    pub records: u64,
    /// Transactions that were committed.
    pub transactions: u64,
    /// Milliseconds of simulated time.
    pub simulated_ms: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.steps += other.steps;
        self.faults += other.faults;
        self.records += other.records;
        self.transactions += other.transactions;
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

/// Runs one seed, and tells what is commanded and how the topic's partitions change, line by line.
pub fn run_traced(seed: u64, tell: &mut dyn FnMut(&str)) -> Outcome {
    let mut run = Run::new(seed, checkers::all());
    run.world.commands = Some(Vec::new());
    run.run_telling(tell)
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
    ConsumerMember(ConsumerMember),
    Transactor(Transactor),
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
        for (name, partitions) in [(TOPIC, partitions), (TRANSACTIONS, TRANSACTION_PARTITIONS)] {
            world.command(Command::CreateTopic(NewTopic {
                name: name.to_owned(),
                partitions,
                replication_factor: replicas as i16,
                ..NewTopic::default()
            }));
        }
        let mut clients = Vec::new();
        for _ in 0..1 + draw.below(3) {
            let records = 10 + draw.below(60);
            clients.push(Client::Producer(Producer::new(clients.len(), ids.clone(), records)));
        }
        for _ in 0..1 + draw.below(2) {
            clients.push(Client::Consumer(Consumer::new(clients.len(), ids.clone(), TOPIC)));
        }
        for _ in 0..draw.below(4) {
            clients.push(Client::Member(Member::new(clients.len(), ids.clone())));
        }
        for _ in 0..draw.below(4) {
            let member = ConsumerMember::new(clients.len(), ids.clone(), &mut world);
            clients.push(Client::ConsumerMember(member));
        }
        let transactors = draw.below(3);
        for _ in 0..transactors {
            let transactions = 5 + draw.below(20);
            clients.push(Client::Transactor(Transactor::new(clients.len(), ids.clone(), transactions)));
        }
        if transactors > 0 {
            clients.push(Client::Consumer(Consumer::new(clients.len(), ids.clone(), TRANSACTIONS)));
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

    fn run(self) -> Outcome {
        self.run_telling(&mut |_| ())
    }

    fn run_telling(mut self, tell: &mut dyn FnMut(&str)) -> Outcome {
        let failure = self.live(tell).err();
        self.counts.faults = self.faults.count;
        self.counts.simulated_ms = self.world.now_ms;
        let producers = self.clients.iter().filter_map(|client| match client {
            Client::Producer(producer) => Some(producer.acknowledged()),
            _ => None,
        });
        self.counts.records = producers.sum();
        let transactors = self.clients.iter().filter_map(|client| match client {
            Client::Transactor(transactor) => Some(transactor.committed()),
            _ => None,
        });
        self.counts.transactions = transactors.sum();
        Outcome { digest: self.world.digest(), counts: self.counts, failure }
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

    fn tell(&mut self, client: usize, notice: Notice) {
        match &mut self.clients[client] {
            Client::Producer(producer) => producer.notice(&mut self.world, notice),
            Client::Consumer(consumer) => consumer.notice(&mut self.world, notice),
            Client::Member(member) => member.notice(&mut self.world, notice),
            Client::ConsumerMember(member) => member.notice(&mut self.world, notice),
            Client::Transactor(transactor) => transactor.notice(&mut self.world, notice),
            Client::Admin(admin) => admin.notice(&mut self.world, notice),
        }
    }

    fn crash_member(&mut self) {
        let is_member = |client: &&mut Client| {
            matches!(client, Client::Member(_) | Client::ConsumerMember(_) | Client::Transactor(_))
        };
        let count = self.clients.iter_mut().filter(is_member).count();
        let chosen = self.world.entropy.below(count as u64) as usize;
        match self.clients.iter_mut().filter(is_member).nth(chosen) {
            Some(Client::Member(member)) => member.crash(&mut self.world),
            Some(Client::ConsumerMember(member)) => member.crash(&mut self.world),
            Some(Client::Transactor(transactor)) => transactor.crash(&mut self.world),
            _ => {}
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
        let states: String = self.world.cluster.replica_states().iter().map(describe).collect();
        Failure { seed: self.seed, at_ms: self.world.now_ms, checker, what: format!("{what}\n{states}") }
    }

    /// Where each partition of a topic ends, if all that was written is replicated and no transaction is open.
    fn ends(&self, topic: &str, partitions: i32) -> Option<BTreeMap<i32, i64>> {
        let replicas = self.world.cluster.replica_states();
        let leaders = replicas.iter().filter(|replica| replica.leads && &*replica.topic == topic);
        let ends: BTreeMap<i32, i64> = leaders
            .filter(|leader| leader.last_stable_offset == leader.log_end_offset)
            .map(|leader| (leader.key.index, leader.log_end_offset))
            .collect();
        (ends.len() == partitions as usize).then_some(ends)
    }

    fn is_done(&self) -> bool {
        let Some(ends) = self.ends(TOPIC, self.partitions) else { return false };
        let Some(ends_of_transactions) = self.ends(TRANSACTIONS, TRANSACTION_PARTITIONS) else {
            return false;
        };
        let is_done = |client: &Client| match client {
            Client::Producer(producer) => producer.is_done(),
            Client::Transactor(transactor) => transactor.is_done(),
            Client::Consumer(consumer) if consumer.topic() == TOPIC => consumer.has_read(&ends),
            Client::Consumer(consumer) => consumer.has_read(&ends_of_transactions),
            Client::Member(_) | Client::ConsumerMember(_) | Client::Admin(_) => true,
        };
        let classic = self.clients.iter().filter_map(|client| match client {
            Client::Member(member) => Some(member.committed().cloned()),
            _ => None,
        });
        let consumer = self.clients.iter().filter_map(|client| match client {
            Client::ConsumerMember(member) => Some(member.committed()),
            _ => None,
        });
        self.clients.iter().all(is_done) && have_committed(classic, &ends) && have_committed(consumer, &ends)
    }

    fn unfinished(&self) -> String {
        let ends = self.ends(TOPIC, self.partitions);
        let ends_of_transactions = self.ends(TRANSACTIONS, TRANSACTION_PARTITIONS);
        let unfinished = self.clients.iter().filter(|client| match client {
            Client::Producer(producer) => !producer.is_done(),
            Client::Transactor(transactor) => !transactor.is_done(),
            Client::Consumer(consumer) => {
                let ends = if consumer.topic() == TOPIC { &ends } else { &ends_of_transactions };
                !ends.as_ref().is_some_and(|ends| consumer.has_read(ends))
            }
            Client::Member(_) | Client::ConsumerMember(_) => true,
            Client::Admin(_) => false,
        });
        let clients: Vec<String> = unfinished.map(|client| format!("{client:?}")).collect();
        format!("ends {ends:?} {ends_of_transactions:?}\n{}", clients.join("\n"))
    }
}

/// Whether a group's members together have committed all there is, if there are members; none of what a member has
/// committed if it isn't settled.
fn have_committed(
    members: impl Iterator<Item = Option<BTreeMap<i32, i64>>>,
    ends: &BTreeMap<i32, i64>,
) -> bool {
    let members: Vec<_> = members.collect();
    let mut committed = BTreeMap::new();
    for member in &members {
        let Some(own) = member else { return false };
        committed.extend(own.clone());
    }
    members.is_empty() || ends.iter().all(|(partition, end)| committed.get(partition) == Some(end))
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
