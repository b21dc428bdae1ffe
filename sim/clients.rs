//! Who takes part in a run: drawn from its seed, and whoever comes later.

use std::collections::BTreeMap;

use super::admin::Admin;
use super::checkers::Event;
use super::consumer::{Consumer, READ_COMMITTED, READ_UNCOMMITTED};
use super::contacts::{OUTPUT, TOPIC, TRANSACTIONS};
use super::counts::Count;
use super::group::Group;
use super::member::Member;
use super::pipeline::Pipeline;
use super::producer::Producer;
use super::transactional::Way;
use super::transactor::Transactor;
use super::world::{ClientId, Incident, Notice, World};
use crate::base::NodeId;
use crate::base::entropy::Entropy;

/// The most pipelines that a run has, with those that follow others.
const MAX_PIPELINES: usize = 6;

/// A model of any kind.
#[derive(Debug)]
enum Client {
    Producer(Producer),
    Consumer(Consumer),
    Member(Member),
    Transactor(Transactor),
    Pipeline(Box<Pipeline>),
    Admin(Admin),
}

/// All clients of a run.
#[derive(Debug)]
pub struct Clients {
    all: Vec<Client>,
    brokers: Vec<NodeId>,
    pipelines: Pipelines,
}

/// What a run's pipelines have in common.
#[derive(Clone, Copy, Debug)]
struct Pipelines {
    group: Group,
    /// Whether they are members by the classic protocol.
    is_classic: bool,
}

/// Where each partition of each topic ends.
pub type Ends = BTreeMap<&'static str, BTreeMap<i32, i64>>;

impl Clients {
    /// Those of a seed, for a topic of so many partitions, each with so many replicas.
    pub fn draw(
        draw: &mut Entropy,
        world: &mut World,
        brokers: Vec<NodeId>,
        partitions: i32,
        replicas: usize,
    ) -> Self {
        let isolation_level = if draw.below(2) == 0 { READ_UNCOMMITTED } else { READ_COMMITTED };
        let input = if draw.below(2) == 0 { TOPIC } else { TRANSACTIONS };
        let group = Group { id: "p", topic: input, isolation_level, commits: false, requires_stable: true };
        let pipelines = Pipelines { group, is_classic: draw.below(2) == 0 };
        let mut clients = Clients { all: Vec::new(), brokers: brokers.clone(), pipelines };
        for _ in 0..1 + draw.below(3) {
            let records = 10 + draw.below(60);
            clients.add(|id| Client::Producer(Producer::new(id, brokers.clone(), records)));
        }
        for _ in 0..1 + draw.below(2) {
            clients.add(|id| Client::Consumer(Consumer::new(id, brokers.clone(), TOPIC)));
        }
        let requires_stable = draw.below(2) == 0;
        let group = |id| {
            let isolation_level = READ_UNCOMMITTED;
            Group { id, topic: TOPIC, isolation_level, commits: true, requires_stable }
        };
        for _ in 0..draw.below(4) {
            clients.add(|id| Client::Member(Member::classic(id, brokers.clone(), group("g"))));
        }
        for _ in 0..draw.below(4) {
            clients.add(|id| Client::Member(Member::consumer(id, brokers.clone(), group("k"))));
        }
        let count = draw.below(3);
        let reads_transactions = count > 0 && input == TRANSACTIONS;
        let transactors = draw.below(3).max(u64::from(reads_transactions));
        for _ in 0..transactors {
            let transactions = 5 + draw.below(20);
            let way = Way::draw(world);
            clients.add(|id| Client::Transactor(Transactor::new(id, brokers.clone(), way, transactions)));
        }
        if transactors > 0 {
            clients.add(|id| Client::Consumer(Consumer::new(id, brokers.clone(), TRANSACTIONS)));
        }
        if count > 0 {
            clients.add(|id| Client::Consumer(Consumer::new(id, brokers.clone(), OUTPUT)));
            let is_committed = isolation_level == READ_COMMITTED;
            world.note(Event::Transforming { topic: input, is_committed });
        }
        for at in 0..count {
            clients.add_pipeline(world, format!("p{at}"));
        }
        if draw.below(2) == 0 {
            clients.add(|id| Client::Admin(Admin::new(id, brokers.clone(), partitions, replicas)));
        }
        for client in 0..clients.all.len() {
            let after_ms = draw.below(2_000);
            world.schedule(after_ms, Incident::Wake(client));
        }
        clients
    }

    fn add(&mut self, client: impl FnOnce(ClientId) -> Client) -> ClientId {
        let id = self.all.len();
        self.all.push(client(id));
        id
    }

    fn add_pipeline(&mut self, world: &mut World, transactional_id: String) -> ClientId {
        let (brokers, Pipelines { group, is_classic }) = (self.brokers.clone(), self.pipelines);
        let way = Way::draw(world);
        self.add(|id| {
            let input = match is_classic {
                true => Member::classic(id, brokers.clone(), group),
                false => Member::consumer(id, brokers.clone(), group),
            };
            Client::Pipeline(Box::new(Pipeline::new(id, brokers, input, transactional_id, way)))
        })
    }

    /// Something has come about for a client.
    pub fn notice(&mut self, world: &mut World, client: ClientId, notice: Notice) {
        match &mut self.all[client] {
            Client::Producer(producer) => producer.notice(world, notice),
            Client::Consumer(consumer) => consumer.notice(world, notice),
            Client::Member(member) => member.notice(world, notice),
            Client::Transactor(transactor) => transactor.notice(world, notice),
            Client::Pipeline(pipeline) => pipeline.notice(world, notice),
            Client::Admin(admin) => admin.notice(world, notice),
        }
    }

    /// One of those that survive that, if there are any.
    fn draw_fragile(&mut self, world: &mut World) -> Option<ClientId> {
        let is_fragile = |client: &Client| match client {
            Client::Member(_) | Client::Transactor(_) => true,
            Client::Pipeline(pipeline) => !pipeline.is_over(),
            Client::Producer(_) | Client::Consumer(_) | Client::Admin(_) => false,
        };
        let fragile: Vec<ClientId> = (0..self.all.len()).filter(|id| is_fragile(&self.all[*id])).collect();
        let chosen = world.entropy.below(fragile.len() as u64) as usize;
        fragile.get(chosen).copied()
    }

    /// A member of a group or a producer of transactions crashes.
    pub fn crash_one(&mut self, world: &mut World) {
        let Some(client) = self.draw_fragile(world) else { return };
        world.count(Count::Crashes);
        match &mut self.all[client] {
            Client::Member(member) => member.crash(world),
            Client::Transactor(transactor) => transactor.crash(world),
            Client::Pipeline(pipeline) => pipeline.crash(world),
            Client::Producer(_) | Client::Consumer(_) | Client::Admin(_) => {}
        }
    }

    /// A member of a group or a producer of transactions does nothing for a while.
    pub fn pause_one(&mut self, world: &mut World, for_ms: u64) {
        if let Some(client) = self.draw_fragile(world) {
            world.count(Count::Pauses);
            world.pause(client, for_ms);
        }
    }

    /// Another pipeline begins in the place of one that works, of which that doesn't hear.
    pub fn follow_one(&mut self, world: &mut World) {
        let pipelines = self.all.iter_mut().filter_map(|client| match client {
            Client::Pipeline(pipeline) => Some(pipeline.as_mut()),
            _ => None,
        });
        let mut pipelines: Vec<&mut Pipeline> = pipelines.collect();
        if pipelines.len() >= MAX_PIPELINES {
            return;
        }
        pipelines.retain(|pipeline| !pipeline.is_followed());
        let chosen = world.entropy.below(pipelines.len() as u64) as usize;
        let Some(pipeline) = pipelines.get_mut(chosen) else { return };
        world.count(Count::Followed);
        pipeline.follow();
        let transactional_id = pipeline.transactional_id().to_owned();
        let client = self.add_pipeline(world, transactional_id);
        world.schedule(0, Incident::Wake(client));
    }

    /// Administrators move nothing any more.
    pub fn end_administration(&mut self) {
        for client in &mut self.all {
            if let Client::Admin(admin) = client {
                admin.is_done = true;
            }
        }
    }

    /// Whether all have done what they have to, and groups have committed all there is.
    pub fn are_done(&self, ends: &Ends) -> bool {
        let is_done = |client: &Client| match client {
            Client::Producer(producer) => producer.is_done(),
            Client::Transactor(transactor) => transactor.is_done(),
            Client::Consumer(consumer) => consumer.has_read(&ends[consumer.topic()]),
            Client::Member(_) | Client::Pipeline(_) | Client::Admin(_) => true,
        };
        if !self.all.iter().all(is_done) {
            return false;
        }
        let mut groups: BTreeMap<&str, Vec<&Member>> = BTreeMap::new();
        for client in &self.all {
            let member = match client {
                Client::Member(member) => member,
                Client::Pipeline(pipeline) if !pipeline.is_over() => pipeline.input(),
                _ => continue,
            };
            groups.entry(member.group().id).or_default().push(member);
        }
        groups.values().all(|members| have_committed(members, ends))
    }

    /// Those that have still to do something, for people.
    pub fn unfinished(&self, ends: &Ends) -> String {
        let unfinished = self.all.iter().filter(|client| match client {
            Client::Producer(producer) => !producer.is_done(),
            Client::Transactor(transactor) => !transactor.is_done(),
            Client::Consumer(consumer) => {
                !ends.get(consumer.topic()).is_some_and(|ends| consumer.has_read(ends))
            }
            Client::Pipeline(pipeline) => !pipeline.is_over(),
            Client::Member(_) => true,
            Client::Admin(_) => false,
        });
        let clients: Vec<String> = unfinished.map(|client| format!("{client:?}")).collect();
        clients.join("\n")
    }
}

/// Whether a group's members together have committed all there is; not if one of them is outside.
fn have_committed(members: &[&Member], ends: &Ends) -> bool {
    let mut committed = BTreeMap::new();
    for member in members {
        let Some(own) = member.committed() else { return false };
        committed.extend(own);
    }
    let ends = members.first().map(|member| &ends[member.group().topic]);
    ends.is_none_or(|ends| ends.iter().all(|(partition, end)| committed.get(partition) == Some(end)))
}
