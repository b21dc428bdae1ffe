//! The whole cluster as one value: things go in through `handle_*`, come out through `poll_*`, and nothing inside
//! reads a clock, draws from the system's randomness, spawns, locks or touches a socket.
//!
//! - [`Cluster::handle_opened`], [`Cluster::handle_request`], [`Cluster::handle_sending_ended`], [`Cluster::handle_closed`]:
//!   what clients do.
//! - [`Cluster::handle_command`]: what the process or its user asks.
//! - [`Cluster::handle_timeout`]: to be called when [`Cluster::poll_timeout`] says so.
//! - [`Cluster::poll_output`]: to be called until it has nothing more, after each of the above.
//!
//! Each call ends in `Cluster::run_to_rest`: messages that have arrived are taken, and then those who wait for what
//! has changed are tried. A wait is never completed from inside another's handler.

mod backlog;
mod command;
mod delivery;
mod inspect;
mod lifecycle;
mod links;
mod node;
mod replies;
mod resting;
mod steering;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::api::{
    self, Answer, Broker, Caller, Connection, Context, Ending, Key, NOBODY, Parts, Peer, PeerMessage,
    Prepared,
};
use crate::base::entropy::Entropy;
use crate::base::planted::{Bug, is_planted};
use crate::base::{ConnectionId, Instant, NodeId, Now};
use crate::controller::configs::{BrokerConfigs, BrokerSettings, ConfigError, Overrides, Resource};
use crate::controller::{BrokerRegistration, Controller, ListenerEndpoint, Loggers};
use crate::coordinator::{Shard, Storage, TimerChange, TimerKey};
use crate::faults::{FaultLimits, Faults, HoldId};
use crate::log::ChunkPool;
use crate::purgatory::{Description, Exit, Purgatory, WaitId, WaitKind, Waiter};
use links::Links;
use node::{Event, Identity, Life, Node};
use replies::Replies;

pub use crate::api::{Kind, Party, Reply, TelemetryCounts};
pub use crate::purgatory::Metrics;
pub use crate::replica::Kept;
pub use command::{Command, CommandError, Done};
pub use inspect::{PartitionState, ReplicaState};
pub use links::Link;
pub use node::BrokerState;

/// Nobody who develops wants to wait for members that don't come: where this isn't set, it is 0 instead of Kafka's 3 s,
/// as in the settings that Kafka's own quick start comes with.
const INITIAL_REBALANCE_DELAY: &str = "group.initial.rebalance.delay.ms";

/// How many waits of a broker expire in one call (ours): some milliseconds if each is a member's session.
const EXPIRED_AT_ONCE: usize = 256;

/// What a cluster is made of.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// The virtual brokers; at least one.
    pub nodes: Vec<NodeConfig>,
    /// The configs that all brokers share.
    pub configs: BrokerConfigs,
    /// Decides every random draw.
    pub seed: u64,
    /// The most memory that all logs together may hold, bytes.
    pub log_memory_bytes: usize,
    /// How long a message takes from one part of the cluster to another.
    pub link_delay: Duration,
    /// Bounds of what users may have go wrong.
    pub fault_limits: FaultLimits,
    /// The process's loggers.
    pub loggers: Loggers,
}

impl Default for ClusterConfig {
    /// One broker with id 1, whose clients are told to come to 127.0.0.1:9092; 1 GiB for logs; no delay.
    fn default() -> Self {
        let endpoint = ListenerEndpoint { listener: "PLAINTEXT".into(), host: None, port: 9092 };
        ClusterConfig {
            nodes: vec![NodeConfig {
                id: NodeId(1),
                rack: None,
                endpoints: vec![endpoint],
                configs: Overrides::default(),
            }],
            configs: BrokerConfigs::default(),
            seed: 0,
            log_memory_bytes: 1 << 30,
            link_delay: Duration::ZERO,
            fault_limits: FaultLimits::default(),
            loggers: Loggers::default(),
        }
    }
}

/// One virtual broker.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// Kafka's `node.id`.
    pub id: NodeId,
    /// Kafka's `broker.rack`.
    pub rack: Option<Arc<str>>,
    /// Where clients of each listener are told to come.
    pub endpoints: Vec<ListenerEndpoint>,
    /// What it is started with beside what all are, such as its own `replica.selector.class`; how it shows its rack and
    /// listeners too, if that differs.
    pub configs: Overrides,
}

/// What comes out of the cluster.
#[derive(Clone, Debug)]
pub enum Output {
    /// A response, or the end of a request that has none.
    Reply(Reply),
    /// The connection must be closed.
    Close {
        /// Which.
        connection: ConnectionId,
        /// Why, for the log.
        reason: &'static str,
    },
    /// A broker is down: its listeners must refuse connections.
    BrokerDown(NodeId),
    /// A broker was removed: it needs no listeners any more.
    BrokerRemoved(NodeId),
    /// A broker that was down runs again: its listeners must take connections.
    BrokerUp(NodeId),
    /// A broker has taken on settings, which may be new.
    Configured(NodeId, Arc<BrokerSettings>),
    /// A client has changed the levels of the process's loggers.
    LogLevels(Loggers),
}

/// Why connections to a broker that is down are closed: nothing that anybody must hear of.
pub const BROKER_DOWN: &str = "its broker is down";

/// Why connections to a broker are closed that is frozen and for which too much waits already.
pub const BROKER_FROZEN: &str = "its broker is frozen, and what waits for it has no end";

/// So much may wait for a broker that is frozen, requests and ends of connections, before no more connections are taken
/// (ours; a process that is stopped takes as many as its listener's backlog holds).
const MAX_EVENTS: usize = 10_000;

/// Why connections are closed whose client sends no more while a rule holds its request: nothing to hear of either.
pub const CLIENT_GONE: &str = "its client is gone";

/// The most brokers that one cluster has.
pub const MAX_BROKERS: u32 = 64;

/// The controller as the sender of messages; it never stops.
const CONTROLLER: Peer = Peer { party: Party::Controller, incarnation: 0 };

/// A wait, described for a person.
#[derive(Clone, Debug)]
pub struct WaitDescription {
    /// The broker that it waits on.
    pub node: NodeId,
    /// Its name on that broker.
    pub id: WaitId,
    /// What kind of wait it is.
    pub kind: Kind,
    /// Who waits, since when and until when.
    pub waiter: Waiter<ConnectionId>,
    /// The client's connection; none for a timer of the broker's own.
    pub connection: Option<ConnectionId>,
    /// The client's address.
    pub peer: Option<Arc<str>>,
    /// The client's name for itself.
    pub client_id: Option<Arc<str>>,
    /// The rule that holds it, if one does.
    pub hold: Option<HoldId>,
    /// What it waits for, and how far it is.
    pub description: Description,
}

/// A cluster of virtual brokers.
#[derive(Clone, Debug)]
pub struct Cluster {
    controller: Controller,
    nodes: Vec<Node>,
    links: Links,
    pool: ChunkPool,
    connections: FxHashMap<ConnectionId, Connection>,
    /// Those of them whose clients send no more.
    sending_ended: FxHashSet<ConnectionId>,
    /// The wait of each connection that has one: a connection has one request at a time.
    waits: FxHashMap<ConnectionId, WaitId>,
    replies: Replies,
    faults: Faults,
    /// How many brokers were added.
    added: u32,
    /// What brokers that start again draw from.
    entropy: Entropy,
    panic_at: Option<ConnectionId>,
}

impl Cluster {
    /// A cluster with its brokers registered and no topics.
    ///
    /// # Errors
    /// If the configs contradict each other.
    pub fn new(mut config: ClusterConfig, now: Now) -> Result<Self, ConfigError> {
        if config.configs.set(INITIAL_REBALANCE_DELAY).is_none() {
            config.configs.fixed.set(Resource::Broker, INITIAL_REBALANCE_DELAY, "0")?;
        }
        let entropy = Entropy::new(config.seed);
        let registrations = config.nodes.iter().map(|node| BrokerRegistration {
            id: node.id,
            rack: node.rack.clone(),
            epoch: 0,
            fenced: false,
            in_controlled_shutdown: false,
            endpoints: node.endpoints.clone(),
        });
        let mut controller = Controller::new(config.configs, registrations.collect(), &entropy, now.instant)?;
        *controller.loggers_mut() = config.loggers;
        for node in &config.nodes {
            controller.start_with(node.id, &node.configs)?;
        }
        let node = |config: &NodeConfig| {
            let epoch = controller.broker(config.id).map(|broker| broker.epoch);
            Node::new(
                config,
                controller.settings_of(config.id),
                &entropy,
                Identity { epoch, incarnation: 0 },
                controller.brokers(),
                now,
            )
        };
        let nodes = config.nodes.iter().map(node).collect();
        Ok(Cluster {
            nodes,
            controller,
            links: Links::new(config.link_delay),
            pool: ChunkPool::new(config.log_memory_bytes),
            connections: FxHashMap::default(),
            sending_ended: FxHashSet::default(),
            waits: FxHashMap::default(),
            replies: Replies::default(),
            faults: Faults::new(config.fault_limits),
            added: 0,
            entropy,
            panic_at: None,
        })
    }

    /// A client has connected.
    pub fn handle_opened(&mut self, _now: Now, id: ConnectionId, connection: Connection) {
        let node = self.nodes.iter_mut().find(|node| node.id() == connection.node);
        // If it is down, the client came while the listeners were being closed.
        let Some(node) = node.filter(|node| node.state() != BrokerState::Down) else {
            self.replies.push(Output::Close { connection: id, reason: BROKER_DOWN });
            return;
        };
        if node.backlog().is_some_and(|events| events.len() >= MAX_EVENTS) {
            self.replies.push(Output::Close { connection: id, reason: BROKER_FROZEN });
            return;
        }
        self.connections.insert(id, connection);
    }

    /// A client asks something. A connection has one request at a time: the next may come once this one is
    /// answered (or [`Output::Reply`] has said that it has no response).
    pub fn handle_request(&mut self, now: Now, id: ConnectionId, prepared: Prepared) {
        if self.panic_at.take_if(|at| *at == id).is_some() {
            panic!("a panic was asked for");
        }
        let Some(at) = self.node_of(id) else { return };
        if let Some(events) = self.nodes[at].backlog() {
            events.push(Event::Request(id, prepared));
            return;
        }
        self.take_request(now, at, id, prepared);
    }

    /// A broker takes a client's request.
    fn take_request(&mut self, now: Now, at: usize, id: ConnectionId, prepared: Prepared) {
        let caller = Caller {
            connection: id,
            correlation_id: prepared.correlation_id,
            version: prepared.version,
            client_id: prepared.client_id,
        };
        if let Some((caller, request)) = self.hold_request(now, at, caller, prepared.request) {
            self.apply_request(now, at, caller, request);
            self.run_to_rest(now);
        }
    }

    /// Where in `nodes` the broker is that a client is connected to.
    fn node_of(&self, id: ConnectionId) -> Option<usize> {
        let connection = self.connections.get(&id)?;
        self.nodes.iter().position(|node| node.id() == connection.node)
    }

    /// Has a broker handle a request, and takes its answer if there is one already.
    fn apply_request(&mut self, now: Now, at: usize, caller: Caller, request: api::Request) {
        self.hold_answer(at, &caller, &request);
        let id = caller.connection;
        let node = &mut self.nodes[at];
        let parts = Parts {
            now,
            broker: &mut node.broker,
            controller: &mut self.controller,
            pool: &mut self.pool,
            connections: &self.connections,
        };
        let mut context = Context { caller: &caller, parts, purgatory: &mut node.purgatory, parked: None };
        let answer = api::handle(&mut context, request);
        let parked = context.parked;
        let reply = |response| {
            let Caller { connection, correlation_id, version, .. } = caller;
            Reply { connection, correlation_id, version, response }
        };
        match answer {
            Answer::Ready(response) => self.replies.answer(reply(Some(response))),
            Answer::Silent => self.replies.answer(reply(None)),
            Answer::Close(reason) => self.replies.push(Output::Close { connection: id, reason }),
            Answer::Parked => self.waits.extend(parked.map(|wait| (id, wait))),
        }
    }

    /// A client has ended its sending half while its request waits; it may still read. Or it has closed the connection,
    /// which can't be told from it. As in Kafka it is answered in either case, but for a request that a rule holds: that
    /// goes with the client, since the end of a hold may be far and nothing else would end it.
    pub fn handle_sending_ended(&mut self, id: ConnectionId) {
        let Some(at) = self.node_of(id) else { return };
        if let Some(events) = self.nodes[at].backlog() {
            events.push(Event::SendingEnded(id));
            return;
        }
        self.take_sending_ended(at, id);
    }

    /// A broker notices that a client sends no more.
    fn take_sending_ended(&mut self, at: usize, id: ConnectionId) {
        self.sending_ended.insert(id);
        let wait = self.waits.get(&id).and_then(|wait| self.nodes[at].purgatory.get(*wait));
        if wait.is_some_and(|parked| parked.wait.hold().is_some()) {
            self.replies.push(Output::Close { connection: id, reason: CLIENT_GONE });
        }
    }

    /// A client has gone, and whatever it waited for with it.
    pub fn handle_closed(&mut self, now: Now, id: ConnectionId) {
        let Some(at) = self.node_of(id) else { return };
        if let Some(events) = self.nodes[at].backlog() {
            events.push(Event::Closed(id));
            return;
        }
        self.take_closed(now, at, id);
    }

    /// A broker notices that a client has gone.
    fn take_closed(&mut self, now: Now, at: usize, id: ConnectionId) {
        self.connections.remove(&id);
        self.sending_ended.remove(&id);
        self.replies.forget(id);
        self.nodes[at].broker.telemetry.forget(id);
        if is_planted(Bug::KeepsWaits) {
            return;
        }
        let Some(wait) = self.waits.remove(&id) else { return };
        let (purgatory, mut parts, ..) = self.lend(at, now);
        if let Some((_, wait)) = purgatory.remove(wait) {
            wait.abandon(&mut parts);
        }
    }

    /// The process or its user asks something.
    ///
    /// # Errors
    /// If there is no such broker, it isn't in a state for that, or the controller refuses it.
    pub fn handle_command(&mut self, now: Now, command: Command) -> Result<Done, CommandError> {
        let mut done = Done::AsAsked;
        self.wake_all_resting(now);
        match command {
            Command::CreateTopic(topic) => {
                self.controller.create_topic(topic, false)?;
            }
            Command::StopBroker(id) => self.stop(now, id)?,
            Command::KillBroker(id) => self.kill(now, id)?,
            Command::StartBroker { broker, kept } => self.start(now, broker, kept)?,
            Command::FreezeBroker(id) => self.freeze(id)?,
            Command::ThawBroker(id) => self.thaw(now, id)?,
            Command::SetLink { from, to, link } => {
                self.check_ends(from, to)?;
                let max = self.faults.limits().max_time;
                if link.delay > max {
                    return Err(CommandError::DelayTooLong { max });
                }
                self.links.set(now.instant, from, to, link);
            }
            Command::Shutdown => self.release_all(now),
            Command::AddHold(rule) => done = self.add_hold(rule)?,
            Command::RemoveHold(id) => done = self.remove_hold(now, id)?,
            Command::ReleaseHold(id) => done = self.release_hold(now, id)?,
            Command::Release { node, serial } => done = self.release(now, node, serial)?,
            Command::FreezeFetcher { broker, topic, index, frozen } => {
                self.freeze_fetcher(now, broker, &topic, index, frozen)?;
            }
            Command::MoveLeader { topic, index, to } => self.controller.move_leader(&topic, index, to)?,
            Command::SetIsr { topic, index, isr } => self.controller.set_isr(&topic, index, &isr)?,
            Command::AddBroker(config) => self.add_broker(now, config)?,
            Command::RemoveBroker(id) => self.remove_broker(now, id)?,
            Command::PinHighWatermark { topic, index, pinned } => self.pin(now, &topic, index, pinned)?,
            Command::PanicAtNextRequest(id) => self.panic_at = Some(id),
        }
        self.run_to_rest(now);
        Ok(done)
    }

    /// How the link from one part of the cluster to another is.
    pub fn link(&self, from: Party, to: Party) -> Link {
        self.links.link(from, to)
    }

    /// The time that [`Cluster::poll_timeout`] named has come (or has not quite: early calls do nothing). Does so much at
    /// once as others can wait for: where more is due, [`Cluster::poll_timeout`] says so, and others may have their turn.
    pub fn handle_timeout(&mut self, now: Now) {
        self.controller.handle_timeout(now.instant);
        for at in 0..self.nodes.len() {
            match self.nodes[at].life {
                Life::Running | Life::Thawing(_) => {}
                Life::Frozen(_) => continue,
                Life::Down => {
                    self.nodes[at].broker.coordinators.free_some();
                    continue;
                }
            }
            let (purgatory, mut parts, replies, waits) = self.lend(at, now);
            let mut idle = Vec::new();
            purgatory.expire_some(EXPIRED_AT_ONCE, now.instant, &mut parts, |_, departure, ending| {
                waits.remove(&departure.waiter.owner);
                match ending {
                    Ending::NoNews(fetch) => idle.push(*fetch),
                    ending => replies.end(ending),
                }
            });
            let moved = parts.broker.replicas.handle_timeout(now, parts.pool);
            self.let_rest(at, now, idle);
            for key in moved {
                self.wake_resting(now, key);
                self.nodes[at].broker.wake(Key::LowWatermark(key));
            }
            let (_, mut parts, ..) = self.lend(at, now);
            parts.heartbeat_if_due();
            let Parts { broker: Broker { replicas, coordinators, .. }, controller, pool, .. } = parts;
            let is_topic = |name: &str| controller.topics().by_name(name).is_some();
            coordinators.handle_timeout(&mut Storage { now, replicas, pool, controller }, is_topic);
        }
        self.run_to_rest(now);
    }

    /// When [`Cluster::handle_timeout`] must be called next; none if nothing has a deadline.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let of_nodes = self.nodes.iter().filter_map(Node::next_deadline).min();
        [of_nodes, self.links.next_arrival(), self.controller.next_timeout()].into_iter().flatten().min()
    }

    /// The next thing to come out.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.replies.pop()
    }

    /// The metrics of one kind of wait, over all brokers.
    pub fn metrics(&self, kind: Kind) -> Metrics {
        let mut sum = Metrics::default();
        self.nodes.iter().for_each(|node| sum += node.purgatory.metrics(kind));
        sum
    }

    /// Every kind of wait, for whoever lists their metrics.
    pub fn wait_kinds() -> &'static [Kind] {
        Kind::ALL
    }

    /// What clients have pushed of their metrics, over all brokers.
    pub fn telemetry(&self) -> TelemetryCounts {
        let mut sum = TelemetryCounts::default();
        self.nodes.iter().for_each(|node| sum += node.broker.telemetry.counts);
        sum
    }

    /// Bytes that the logs hold now.
    pub fn log_bytes_held(&self) -> usize {
        self.pool.bytes_held()
    }

    /// The controller's state, to be read.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Takes messages that have arrived and wakes who waits for what has changed, until nothing is left to do now.
    fn run_to_rest(&mut self, now: Now) {
        if let Some(loggers) = self.controller.loggers_mut().take_news() {
            self.replies.push(Output::LogLevels(loggers));
        }
        loop {
            self.send_changes(now);
            let controller = &self.controller;
            self.links.send_kept(now.instant, || snapshot(controller));
            let mut busy = false;
            for at in 0..self.nodes.len() {
                if self.nodes[at].runs() {
                    busy |= self.wake(at, now);
                    self.send_outgoing(at, now);
                }
            }
            while let Some(envelope) = self.links.receive(now.instant) {
                busy = true;
                self.deliver(now, envelope);
            }
            busy |= self.carry_out_due(now);
            if !busy {
                return;
            }
        }
    }

    /// Wakes those who wait for what has changed on one broker so far. Returns whether anything had.
    fn wake(&mut self, at: usize, now: Now) -> bool {
        let Node { broker, purgatory, timers, .. } = &mut self.nodes[at];
        if broker.coordinators.has_news() {
            carry_out_timers(broker, purgatory, timers, now);
            broker.note_coordinators_work();
            let (_, mut parts, ..) = self.lend(at, now);
            api::send_markers(&mut parts);
        }
        for key in self.nodes[at].broker.replicas.take_trimmed() {
            self.wake_resting(now, key);
            self.nodes[at].broker.wake(Key::LowWatermark(key));
        }
        if self.nodes[at].broker.woken.is_empty() {
            return false;
        }
        self.wake_resting_of_woken(at, now);
        let (purgatory, mut parts, replies, waits) = self.lend(at, now);
        let mut woken = std::mem::take(&mut parts.broker.woken);
        for key in woken.drain(..) {
            if let Key::HighWatermark(partition) = key {
                let (coordinators, mut storage) = parts.coordinators();
                coordinators.committed(&mut storage, partition);
            }
            purgatory.wake(&key, &mut parts, |_, departure, ending| {
                waits.remove(&departure.waiter.owner);
                if !(is_planted(Bug::LosesAnswers) && departure.id.serial() % 9 == 8) {
                    replies.end(ending);
                }
            });
        }
        if parts.broker.woken.is_empty() {
            // Keeps its memory for the next time.
            parts.broker.woken = woken;
        }
        true
    }

    fn release_all(&mut self, now: Now) {
        for at in 0..self.nodes.len() {
            let (purgatory, mut parts, replies, waits) = self.lend(at, now);
            let clients = purgatory
                .iter()
                .filter(|parked| parked.waiter.owner != NOBODY && parked.wait.hold().is_none());
            let mut ids: Vec<WaitId> = clients.map(|parked| parked.id).collect();
            ids.sort();
            for id in ids {
                let Some((departure, ending)) = purgatory.release(id, &mut parts) else { continue };
                waits.remove(&departure.waiter.owner);
                replies.end(ending);
            }
        }
    }

    /// One broker's purgatory, what its waits may touch, and where what comes of them goes.
    fn lend(
        &mut self,
        at: usize,
        now: Now,
    ) -> (
        &mut Purgatory<Key, api::Wait, ConnectionId>,
        Parts<'_>,
        &mut Replies,
        &mut FxHashMap<ConnectionId, WaitId>,
    ) {
        let Node { broker, purgatory, .. } = &mut self.nodes[at];
        let parts = Parts {
            now,
            broker,
            controller: &mut self.controller,
            pool: &mut self.pool,
            connections: &self.connections,
        };
        (purgatory, parts, &mut self.replies, &mut self.waits)
    }
}

/// All that the controller knows, for a broker that has missed too much.
fn snapshot(controller: &Controller) -> PeerMessage {
    let (last, changes) = controller.snapshot();
    PeerMessage::Snapshot { last, changes: changes.into() }
}

/// Sets and cancels the coordinators' timers.
fn carry_out_timers(
    broker: &mut Broker,
    purgatory: &mut Purgatory<Key, api::Wait, ConnectionId>,
    timers: &mut FxHashMap<TimerKey, WaitId>,
    now: Now,
) {
    let mut given_up = BTreeSet::new();
    for change in broker.coordinators.take_timers() {
        let (key, deadline) = match change {
            TimerChange::One { key, deadline } => (key, deadline),
            TimerChange::AllOf(shard) => {
                given_up.insert(shard);
                continue;
            }
        };
        cancel_timers(broker, purgatory, timers, &mut given_up);
        let Some(deadline) = deadline else {
            if let Some(id) = timers.remove(&key) {
                purgatory.remove(id);
            }
            continue;
        };
        if timers.get(&key).is_some_and(|id| purgatory.reschedule(now.instant, *id, deadline)) {
            continue;
        }
        let waiter = Waiter { owner: NOBODY, since: now.instant, deadline };
        let id = purgatory.park([], waiter, api::Wait::timer(key.clone()));
        timers.insert(key, id);
    }
    cancel_timers(broker, purgatory, timers, &mut given_up);
}

/// Cancels the timers of shards that this broker doesn't have any more, in one pass over all.
fn cancel_timers(
    broker: &Broker,
    purgatory: &mut Purgatory<Key, api::Wait, ConnectionId>,
    timers: &mut FxHashMap<TimerKey, WaitId>,
    shards: &mut BTreeSet<Shard>,
) {
    if shards.is_empty() {
        return;
    }
    let mut cancelled = Vec::new();
    timers.retain(|key, id| {
        let stays = !shards.contains(&broker.coordinators.shard_of(key));
        if !stays {
            cancelled.push(*id);
        }
        stays
    });
    // Not in the order of a hash map.
    cancelled.sort_unstable();
    purgatory.take_all(&cancelled, Exit::Removed, |_, _| {});
    shards.clear();
}
