//! One virtual broker: what it has, what waits on it, and whether it runs.

use std::fmt;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::NodeConfig;
use crate::api::{Broker, ClientTelemetry, FetchSessions, Key, Membership, Prepared, Wait};
use crate::base::entropy::Entropy;
use crate::base::{ConnectionId, Instant, NodeId, Now};
use crate::controller::configs::BrokerSettings;
use crate::controller::{BrokerRegistration, Registration};
use crate::coordinator::{CoordinatorSettings, Coordinators, TimerKey};
use crate::log::ChunkPool;
use crate::purgatory::{Purgatory, WaitId};
use crate::replica::{Kept, Replicas};

use super::backlog::{Backlog, Carries};
use super::links::Envelope;
use super::resting::Resting;

/// One virtual broker.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) broker: Broker,
    /// What waits on it.
    pub(super) purgatory: Purgatory<Key, Wait, ConnectionId>,
    /// Followers' fetches among them that rest.
    pub(super) resting: Resting,
    /// The waits that stand for the coordinators' timers.
    pub(super) timers: FxHashMap<TimerKey, WaitId>,
    /// What it tells the controller when it starts.
    config: NodeConfig,
    pub(super) life: Life,
    /// How often it was started before.
    pub(super) incarnation: u32,
    /// Whether its last run ended in a shutdown that the controller knew of.
    was_shut_down_cleanly: bool,
}

/// What tells one start of a broker from the others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity {
    /// The epoch of its registration, if it is registered already.
    pub(super) epoch: Option<i64>,
    pub(super) incarnation: u32,
}

/// Whether a broker runs.
#[derive(Clone, Debug)]
pub(super) enum Life {
    /// It runs.
    Running,
    /// It is frozen: what comes is kept until it is thawed, in this order.
    Frozen(Backlog<Event>),
    /// It runs again, and has yet to take what came while it was frozen: what comes meanwhile comes after that.
    Thawing(Backlog<Event>),
    /// It is down; its logs are kept.
    Down,
}

/// What comes to a frozen broker.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Request(ConnectionId, Prepared),
    SendingEnded(ConnectionId),
    Closed(ConnectionId),
    Message(Envelope),
}

impl Carries for Event {
    fn envelope(&self) -> Option<&Envelope> {
        match self {
            Event::Message(envelope) => Some(envelope),
            Event::Request(..) | Event::SendingEnded(_) | Event::Closed(_) => None,
        }
    }
}

/// Whether a broker runs, as it is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BrokerState {
    /// It runs.
    Running,
    /// It runs no code, but its connections stay open, as those of a stopped process do.
    Frozen,
    /// It is stopped: its listeners refuse connections.
    Down,
}

impl fmt::Display for BrokerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BrokerState::Running => "running",
            BrokerState::Frozen => "frozen",
            BrokerState::Down => "down",
        })
    }
}

impl Node {
    /// A broker that runs, and knows nothing yet but who else there is. With an `epoch` it is registered already.
    pub(super) fn new(
        config: &NodeConfig,
        settings: &BrokerSettings,
        entropy: &Entropy,
        identity: Identity,
        brokers: &Arc<[BrokerRegistration]>,
        now: Now,
    ) -> Self {
        let id = config.id;
        let mut replicas = Replicas::new(id, settings, now);
        // Nothing is led yet whose low watermark could move.
        let _ = replicas.apply_brokers(brokers);
        let Identity { epoch, incarnation } = identity;
        let mut broker = broker(id, incarnation, replicas, settings, entropy, epoch);
        broker.membership.note_brokers(brokers, now.instant);
        Node {
            broker,
            config: config.clone(),
            purgatory: Purgatory::new(),
            resting: Resting::default(),
            timers: FxHashMap::default(),
            life: Life::Running,
            incarnation,
            was_shut_down_cleanly: true,
        }
    }

    pub(super) fn id(&self) -> NodeId {
        self.broker.id
    }

    pub(super) fn runs(&self) -> bool {
        matches!(self.life, Life::Running | Life::Thawing(_))
    }

    pub(super) fn state(&self) -> BrokerState {
        match self.life {
            Life::Running | Life::Thawing(_) => BrokerState::Running,
            Life::Frozen(_) => BrokerState::Frozen,
            Life::Down => BrokerState::Down,
        }
    }

    /// What has come and waits for its turn, if what comes has to wait.
    pub(super) fn backlog(&mut self) -> Option<&mut Backlog<Event>> {
        match &mut self.life {
            Life::Frozen(events) | Life::Thawing(events) => Some(events),
            Life::Running | Life::Down => None,
        }
    }

    /// When this broker has something to do; while it doesn't run, but to free what its last run has left, never.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        match self.life {
            Life::Running | Life::Thawing(_) => {}
            Life::Frozen(_) => return None,
            Life::Down => return self.broker.coordinators.next_freeing(),
        }
        let Broker { replicas, coordinators, membership, .. } = &self.broker;
        let deadlines = [
            self.purgatory.next_deadline(),
            replicas.next_timeout(),
            coordinators.next_timeout(),
            membership.next_timeout(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Starts its process again, with its logs and nothing else of what it knew; returns what it tells the controller.
    pub(super) fn start(
        &mut self,
        kept: Kept,
        settings: &BrokerSettings,
        entropy: &Entropy,
        now: Now,
        pool: &mut ChunkPool,
    ) -> Registration {
        self.incarnation += 1;
        self.life = Life::Running;
        let id = self.id();
        let mut replicas = std::mem::replace(&mut self.broker.replicas, Replicas::new(id, settings, now));
        replicas.after_restart(settings, kept, now, pool);
        let started = broker(id, self.incarnation, replicas, settings, entropy, None);
        let gone = std::mem::replace(&mut self.broker, started);
        self.broker.coordinators.inherit(gone.coordinators, now.instant);
        let NodeConfig { id, rack, endpoints, .. } = self.config.clone();
        let was_shut_down_cleanly = self.was_shut_down_cleanly && kept == Kept::Everything;
        Registration { id, rack, endpoints, was_shut_down_cleanly }
    }

    /// Its process is gone: whatever waited on it is forgotten, and its coordinators' timers with it.
    pub(super) fn lose_what_waits(&mut self) {
        self.was_shut_down_cleanly = self.broker.membership.may_go();
        self.purgatory = Purgatory::new();
        self.timers.clear();
        self.resting = Resting::default();
        self.broker.woken.clear();
        self.broker.outbox.clear();
    }
}

/// What a broker has as it starts: beside its logs nothing is left of what it knew before.
fn broker(
    id: NodeId,
    incarnation: u32,
    replicas: Replicas,
    settings: &BrokerSettings,
    entropy: &Entropy,
    epoch: Option<i64>,
) -> Broker {
    let stream = |of: &str| match incarnation {
        0 => entropy.stream(&format!("{of} of broker {}", id.0)),
        again => entropy.stream(&format!("{of} of broker {}, started again {again} times", id.0)),
    };
    let slots = settings.network.max_incremental_fetch_session_cache_slots;
    Broker::new(
        id,
        replicas,
        FetchSessions::new(slots, stream("fetch sessions")),
        Coordinators::new(CoordinatorSettings::new(settings), stream("member ids")),
        Membership::new(epoch, settings.replication.broker_heartbeat_interval_ms),
        ClientTelemetry::new(stream("client instances")),
    )
}
