//! Clients that push their metrics (KIP-714): who they are, what is wanted of them, and how often they may come. What
//! GetTelemetrySubscriptions and PushTelemetry share: Kafka's `ClientMetricsManager`, one for each broker.
//!
//! A client instance is forgotten when the connection that it came by first closes, when it is silent for three of its
//! intervals (at least a minute), and when more recent ones need its place. Nothing is exported: pushes are checked and
//! counted.

mod instance;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;
use uuid::Uuid;

use super::context::{Caller, Context};
use crate::base::entropy::Entropy;
use crate::base::{ConnectionId, ErrorCode, Instant};
use crate::controller::{Controller, uuid_base64};
pub(super) use instance::Push;
use instance::{Identity, Instance, Subscription};

/// The most client instances that a broker knows at a time (`ClientMetricsManager.CACHE_MAX_SIZE`).
const MAX_INSTANCES: usize = 16_384;

/// How long a silent instance is remembered at least.
const MIN_SILENCE: Duration = Duration::from_secs(60);

/// A client's software by name or version that is longer than this is taken for unknown, bytes (ours).
const MAX_SOFTWARE_BYTES: usize = 255;

/// How many different pieces of software are kept so that clients share them (ours).
const MAX_SHARED_SOFTWARE: usize = 16;

/// What a client has said of its software in ApiVersions (KIP-511).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Software {
    pub(crate) name: Box<str>,
    pub(crate) version: Box<str>,
}

/// What has come of clients' pushes since the broker started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TelemetryCounts {
    /// Pushes that were taken.
    pub pushes: u64,
    /// Bytes of metrics in them, decompressed.
    pub bytes: u64,
    /// Requests that came before their time.
    pub throttled: u64,
    /// Pushes for another subscription than the client's.
    pub unknown_subscription: u64,
    /// Pushes whose metrics could not be read.
    pub unreadable: u64,
}

impl std::ops::AddAssign for TelemetryCounts {
    fn add_assign(&mut self, other: Self) {
        self.pushes += other.pushes;
        self.bytes += other.bytes;
        self.throttled += other.throttled;
        self.unknown_subscription += other.unknown_subscription;
        self.unreadable += other.unreadable;
    }
}

/// One broker's clients that push metrics.
#[derive(Clone, Debug)]
pub(crate) struct ClientTelemetry {
    instances: FxHashMap<Uuid, Instance>,
    /// Instances by the number of their last use, the longest unused first.
    by_use: BTreeMap<u64, Uuid>,
    uses: u64,
    /// The last instance that was made for each connection.
    by_connection: FxHashMap<ConnectionId, Uuid>,
    software: FxHashMap<ConnectionId, Arc<Software>>,
    /// What was seen last, to be shared.
    shared: Vec<Arc<Software>>,
    ids: Entropy,
    pub(crate) counts: TelemetryCounts,
}

impl ClientTelemetry {
    /// Without clients. `ids` is where instance ids are drawn from.
    pub(crate) fn new(ids: Entropy) -> Self {
        ClientTelemetry {
            instances: FxHashMap::default(),
            by_use: BTreeMap::new(),
            uses: 0,
            by_connection: FxHashMap::default(),
            software: FxHashMap::default(),
            shared: Vec::new(),
            ids,
            counts: TelemetryCounts::default(),
        }
    }

    /// A client has said what it is.
    pub(crate) fn note_software(&mut self, connection: ConnectionId, name: &str, version: &str) {
        if name.len() > MAX_SOFTWARE_BYTES || version.len() > MAX_SOFTWARE_BYTES {
            return;
        }
        let known = self.shared.iter().find(|known| &*known.name == name && &*known.version == version);
        let software = known.cloned().unwrap_or_else(|| {
            let software = Arc::new(Software { name: name.into(), version: version.into() });
            if self.shared.len() == MAX_SHARED_SOFTWARE {
                self.shared.remove(0);
            }
            self.shared.push(software.clone());
            software
        });
        self.software.insert(connection, software);
    }

    /// A connection has closed.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.software.remove(&connection);
        if let Some(id) = self.by_connection.remove(&connection) {
            self.remove(id);
        }
    }

    /// An id that no instance has.
    pub(super) fn new_id(&mut self) -> Uuid {
        loop {
            let id = self.ids.next_uuid();
            if !self.instances.contains_key(&id) {
                return id;
            }
        }
    }

    /// What is wanted of an instance, and the id by which to push it.
    ///
    /// # Errors
    /// THROTTLING_QUOTA_EXCEEDED if it has asked or pushed within its interval.
    pub(super) fn subscription(&mut self, id: Uuid, client: &Client<'_>) -> Result<Subscription, ErrorCode> {
        let instance = self.instance(id, client);
        let checked = instance.check_get(client.now).map(|()| instance.subscription.clone());
        self.count(checked.as_ref().err());
        checked
    }

    /// Takes a push.
    ///
    /// # Errors
    /// As [`Instance::check_push`] has them; INVALID_RECORD for metrics that can't be decompressed, TELEMETRY_TOO_LARGE
    /// if they would be larger than a batch of records may be.
    pub(super) fn push(&mut self, id: Uuid, push: &Push, client: &Client<'_>) -> Result<(), ErrorCode> {
        let most = client.controller.settings().network.telemetry_max_bytes;
        let instance = self.instance(id, client);
        let taken = instance.check_push(push, most, client.now).and_then(|()| instance.take(push));
        match taken {
            Ok(bytes) => {
                self.counts.pushes += 1;
                self.counts.bytes += bytes as u64;
                let client_id = client.caller.client_id.as_deref();
                tracing::debug!(client_instance_id = uuid_base64(id), client_id, bytes, "a client's metrics");
            }
            Err(error) => self.count(Some(&error)),
        }
        taken.map(drop)
    }

    fn count(&mut self, error: Option<&ErrorCode>) {
        match error {
            Some(ErrorCode::ThrottlingQuotaExceeded) => self.counts.throttled += 1,
            Some(ErrorCode::UnknownSubscriptionId) => self.counts.unknown_subscription += 1,
            Some(ErrorCode::InvalidRecord) => self.counts.unreadable += 1,
            _ => {}
        }
    }

    /// The instance with this id: the one that is known, anew if the subscriptions have changed since, or else one that
    /// is made for the client that asks.
    fn instance(&mut self, id: Uuid, client: &Client<'_>) -> &mut Instance {
        let Client { caller, peer, controller, now } = *client;
        let known = self.remove(id).filter(|known| now.saturating_since(known.last_use) < known.patience());
        let mut instance = match known {
            Some(known) if known.version == controller.client_metrics_version() => known,
            known => {
                let new = || Identity {
                    client_id: caller.client_id.clone(),
                    software: self.software.get(&caller.connection).cloned(),
                    peer: peer.cloned(),
                };
                let identity = known.map_or_else(new, |known| known.identity);
                self.by_connection.insert(caller.connection, id);
                Instance::new(id, identity, controller, now)
            }
        };
        if self.instances.len() >= MAX_INSTANCES
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.instances.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, id);
        (instance.use_number, instance.last_use) = (self.uses, now);
        self.instances.entry(id).insert_entry(instance).into_mut()
    }

    fn remove(&mut self, id: Uuid) -> Option<Instance> {
        let instance = self.instances.remove(&id)?;
        self.by_use.remove(&instance.use_number);
        Some(instance)
    }
}

/// Who asks, and when.
#[derive(Clone, Copy)]
pub(super) struct Client<'a> {
    caller: &'a Caller,
    /// Its address and port.
    peer: Option<&'a Arc<str>>,
    controller: &'a Controller,
    now: Instant,
}

/// The broker's clients, and the one that asks.
pub(super) fn client_of<'c>(context: &'c mut Context<'_>) -> (&'c mut ClientTelemetry, Client<'c>) {
    let Context { caller, parts, .. } = context;
    let peer = parts.connections.get(&caller.connection).map(|connection| &connection.peer);
    let client = Client { caller, peer, controller: parts.controller, now: parts.now.instant };
    (&mut parts.broker.telemetry, client)
}
