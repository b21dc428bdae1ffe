//! What a handler may touch: the parts of the cluster that the call lends it.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::Response;
use super::fetch::FetchSessions;
use super::inquiries::Inquiries;
use super::membership::Membership;
use super::peers::Outgoing;
use super::telemetry::ClientTelemetry;
use super::waits::{Key, Kind, Wait};
use crate::base::{ConnectionId, Instant, NodeId, Now, PartitionKey};
use crate::controller::Controller;
use crate::controller::configs::BrokerSettings;
use crate::coordinator::{Coordinators, Storage};
use crate::log::ChunkPool;
use crate::purgatory::{Purgatory, WaitId, Waiter};
use crate::replica::{Moved, Replicas};

/// Where a broker can be reached.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// A name or address; an IPv6 address without brackets.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
}

/// What is known of a client's connection.
#[derive(Clone, Debug)]
pub struct Connection {
    /// The broker that it came to.
    pub node: NodeId,
    /// Kafka's name of the listener that it came to, such as `PLAINTEXT`.
    pub listener: Arc<str>,
    /// Our end of it: its host is what is advertised to this client where nothing else is set, since the client has
    /// just shown that it can reach it.
    pub local: Endpoint,
    /// The client's address, for people to read.
    pub peer: Arc<str>,
}

/// Who asked, and how the answer finds its way back.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The connection to answer on.
    pub connection: ConnectionId,
    /// The request's number, to go back with the answer.
    pub correlation_id: i32,
    /// Version of request and answer.
    pub version: i16,
    /// The client's name for itself.
    pub client_id: Option<Arc<str>>,
}

/// What a virtual broker has, beside its purgatory.
#[derive(Clone, Debug)]
pub struct Broker {
    /// Kafka's `node.id`.
    pub id: NodeId,
    pub(crate) replicas: Replicas,
    pub(crate) fetch_sessions: FetchSessions,
    pub(crate) coordinators: Coordinators,
    pub(crate) telemetry: ClientTelemetry,
    /// What it has asked coordinators of transactions.
    pub(crate) inquiries: Inquiries,
    /// Keys of what has changed since the purgatory was last woken.
    pub(crate) woken: Vec<Key>,
    pub(crate) membership: Membership,
    /// What is to be sent to others once the present call is done.
    pub(crate) outbox: Vec<Outgoing>,
    /// When a full log memory was last logged.
    memory_logged: Option<Instant>,
}

/// How often a full log memory is logged.
const MEMORY_LOG_INTERVAL: Duration = Duration::from_secs(60);

impl Broker {
    pub(crate) fn new(
        id: NodeId,
        replicas: Replicas,
        fetch_sessions: FetchSessions,
        coordinators: Coordinators,
        membership: Membership,
        telemetry: ClientTelemetry,
    ) -> Self {
        Broker {
            id,
            replicas,
            fetch_sessions,
            coordinators,
            membership,
            woken: Vec::new(),
            outbox: Vec::new(),
            telemetry,
            inquiries: Inquiries::default(),
            memory_logged: None,
        }
    }

    /// Notes what the coordinators have written and answered, for those who wait for it.
    pub(crate) fn note_coordinators_work(&mut self) {
        for key in self.coordinators.take_written() {
            self.wake(Key::LogEnd(key));
            self.wake(Key::HighWatermark(key));
        }
        for ticket in self.coordinators.take_answered() {
            self.wake(Key::Ticket(ticket));
        }
    }

    /// Tells people that records are refused for want of memory: once a minute at most.
    pub(crate) fn log_memory_full(&mut self, now: Instant, pool: &ChunkPool) {
        if self.memory_logged.is_some_and(|last| now.saturating_since(last) < MEMORY_LOG_INTERVAL) {
            return;
        }
        self.memory_logged = Some(now);
        tracing::error!(
            budget_bytes = pool.budget_bytes(),
            held_bytes = pool.bytes_held(),
            "log memory is full: Produce answers KAFKA_STORAGE_ERROR until records are deleted or expire; \
             give more with --memory, or lower retention.bytes or retention.ms"
        );
    }

    /// Notes what has moved in a partition, for those who wait for it.
    pub(crate) fn wake_moved(&mut self, key: PartitionKey, moved: Moved) {
        if moved.high_watermark || moved.leadership_ended {
            self.wake(Key::HighWatermark(key));
        }
        if moved.log_end || moved.leadership_ended {
            self.wake(Key::LogEnd(key));
        }
        if moved.low_watermark || moved.leadership_ended {
            self.wake(Key::LowWatermark(key));
        }
    }

    /// Notes that something has changed for those who wait for `key`: they are tried once the present call is done,
    /// never from inside it.
    pub(crate) fn wake(&mut self, key: Key) {
        if self.woken.last() != Some(&key) {
            self.woken.push(key);
        }
    }
}

/// What handlers and waits alike may read and change.
pub(crate) struct Parts<'a> {
    pub(crate) now: Now,
    pub(crate) broker: &'a mut Broker,
    pub(crate) controller: &'a mut Controller,
    pub(crate) pool: &'a mut ChunkPool,
    pub(crate) connections: &'a FxHashMap<ConnectionId, Connection>,
}

impl Parts<'_> {
    /// This broker's settings.
    pub(crate) fn settings(&self) -> &BrokerSettings {
        self.controller.settings_of(self.broker.id)
    }

    /// The coordinators, and what they need for a call.
    pub(crate) fn coordinators(&mut self) -> (&mut Coordinators, Storage<'_>) {
        let Broker { replicas, coordinators, .. } = &mut *self.broker;
        (coordinators, Storage { now: self.now, replicas, pool: self.pool, controller: self.controller })
    }

    /// Where a client that came over `connection` can reach a broker: its endpoint of the same listener, if it has
    /// one.
    pub(crate) fn endpoint(&self, node: NodeId, connection: ConnectionId) -> Option<Endpoint> {
        let connection = self.connections.get(&connection)?;
        let broker = self.controller.brokers().iter().find(|broker| broker.id == node)?;
        let endpoint = broker.endpoints.iter().find(|endpoint| endpoint.listener == connection.listener)?;
        let host = endpoint.host.clone().unwrap_or_else(|| connection.local.host.clone());
        Some(Endpoint { host, port: endpoint.port })
    }
}

/// What one call may read and change.
pub(crate) struct Context<'a> {
    /// Who asks.
    pub(crate) caller: &'a Caller,
    pub(crate) parts: Parts<'a>,
    pub(crate) purgatory: &'a mut Purgatory<Key, Wait, ConnectionId>,
    /// What this call has parked, if it has.
    pub(crate) parked: Option<WaitId>,
}

impl Context<'_> {
    /// The client's address as coordinators note it: with a slash before it, as Java prints addresses, without its port, an
    /// IPv6 address without its brackets.
    pub(crate) fn client_host(&self) -> Arc<str> {
        let connection = self.parts.connections.get(&self.caller.connection);
        let peer = connection.map(|connection| &*connection.peer).unwrap_or_default();
        let host = peer.rsplit_once(':').map_or(peer, |(host, _)| host);
        format!("/{}", host.trim_start_matches('[').trim_end_matches(']')).into()
    }

    /// Whether the broker's groups may have a member more (ours). Each has a session that is watched, be it that its id was
    /// given out and it has not come yet.
    pub(crate) fn has_room_for_member(&self) -> bool {
        let members = self.purgatory.metrics(Kind::Heartbeat).num_delayed_operations;
        members < self.parts.settings().huld.max_group_members as u64
    }

    /// Parks a wait that has been tried already.
    pub(crate) fn park(&mut self, keys: impl IntoIterator<Item = Key>, deadline: Instant, wait: Wait) {
        let waiter = Waiter { owner: self.caller.connection, since: self.parts.now.instant, deadline };
        self.parked = Some(self.purgatory.park(keys, waiter, wait));
    }
}

/// What goes back to a client.
#[derive(Clone, Debug)]
pub struct Reply {
    /// Where to.
    pub connection: ConnectionId,
    /// The number of the request that is answered.
    pub correlation_id: i32,
    /// Version of the response.
    pub version: i16,
    /// None where the protocol has no response (Produce with acks=0): the connection just goes on.
    pub response: Option<Response>,
}
