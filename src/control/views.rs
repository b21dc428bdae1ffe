//! What there is, as JSON.

use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::requests::wait_name;
use crate::api;
use crate::base::{Instant, NodeId, Now};
use crate::cluster::{Cluster, Done, PartitionState, Party, WaitDescription};
use crate::faults::Hold;
use crate::purgatory::WaitKind;

/// What a command has done.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum DoneView {
    /// What was asked.
    AsAsked {
        /// Always true.
        done: bool,
    },
    /// Something was made.
    Made {
        /// Its name.
        id: u64,
    },
    /// Waits were let go.
    Released {
        /// How many.
        released: usize,
    },
}

/// What a command has done.
pub fn done(done: Done) -> DoneView {
    match done {
        Done::AsAsked => DoneView::AsAsked { done: true },
        Done::HoldAdded(id) => DoneView::Made { id: id.0 },
        Done::Released(released) => DoneView::Released { released },
    }
}

/// What waits.
#[derive(Debug, Serialize)]
pub struct WaitsView {
    waits: Vec<WaitView>,
}

#[derive(Debug, Serialize)]
struct WaitView {
    id: String,
    kind: String,
    delayed_operation: &'static str,
    broker: i32,
    waits_for: String,
    progress: String,
    waited_ms: u64,
    /// None if it waits for ever.
    left_ms: Option<u64>,
    hold: Option<u64>,
    client_id: Option<Arc<str>>,
    connection: Option<u64>,
    peer: Option<Arc<str>>,
}

/// All that waits and is to be shown.
pub fn waits(cluster: &mut Cluster, now: Now, shown: impl Fn(&WaitDescription) -> bool) -> WaitsView {
    let waits = cluster.waits(now).into_iter().filter(shown);
    WaitsView { waits: waits.map(|wait| wait_view(wait, now.instant)).collect() }
}

fn wait_view(wait: WaitDescription, now: Instant) -> WaitView {
    let deadline = wait.waiter.deadline;
    WaitView {
        id: wait_name(wait.node, wait.id.serial()),
        kind: format!("{:?}", wait.kind),
        delayed_operation: wait.kind.delayed_operation(),
        broker: wait.node.0,
        waits_for: wait.description.waits_for,
        progress: wait.description.progress,
        waited_ms: millis(now - wait.waiter.since),
        left_ms: (deadline != Instant::NEVER).then(|| millis(deadline - now)),
        hold: wait.hold.map(|hold| hold.0),
        client_id: wait.client_id,
        connection: wait.connection.map(|connection| connection.0),
        peer: wait.peer,
    }
}

/// The rules that hold requests.
#[derive(Debug, Serialize)]
pub struct HoldsView {
    holds: Vec<HoldView>,
}

#[derive(Debug, Serialize)]
struct HoldView {
    id: u64,
    point: &'static str,
    api: Option<&'static str>,
    client_id: Option<Arc<str>>,
    topic: Option<Arc<str>>,
    group: Option<Arc<str>>,
    broker: Option<i32>,
    count: Option<u64>,
    time_limit_ms: Option<u64>,
    held: u64,
    passed: u64,
    /// None if there is no end to it.
    left: Option<u64>,
}

/// The rules that hold requests.
pub fn holds(cluster: &Cluster) -> HoldsView {
    let view = |hold: &Hold| HoldView {
        id: hold.id.0,
        point: hold.rule.point.name(),
        api: hold.rule.api.and_then(api::entry).map(|entry| entry.name),
        client_id: hold.rule.client_id.clone(),
        topic: hold.rule.topic.clone(),
        group: hold.rule.group.clone(),
        broker: hold.rule.broker.map(|broker| broker.0),
        count: hold.rule.count,
        time_limit_ms: hold.rule.time_limit.map(millis),
        held: hold.held,
        passed: hold.passed,
        left: hold.left(),
    };
    HoldsView { holds: cluster.holds().iter().map(view).collect() }
}

/// The brokers.
#[derive(Debug, Serialize)]
pub struct BrokersView {
    brokers: Vec<BrokerView>,
}

#[derive(Debug, Serialize)]
struct BrokerView {
    id: i32,
    state: String,
    /// Whether the controller takes it for one that can lead; false once its heartbeats are missing.
    unfenced: bool,
    rack: Option<Arc<str>>,
    addresses: Vec<String>,
}

/// The brokers.
pub fn brokers(cluster: &Cluster) -> BrokersView {
    let registrations = cluster.controller().brokers();
    let view = |(id, state): (NodeId, crate::cluster::BrokerState)| {
        let registration = registrations.iter().find(|registration| registration.id == id);
        let endpoints = registration.into_iter().flat_map(|registration| &registration.endpoints);
        let address = |endpoint: &crate::controller::ListenerEndpoint| {
            let host = endpoint.host.as_deref().unwrap_or("localhost");
            format!("{}://{host}:{}", endpoint.listener, endpoint.port)
        };
        BrokerView {
            id: id.0,
            state: state.to_string(),
            unfenced: registration.is_some_and(|registration| !registration.fenced),
            rack: registration.and_then(|registration| registration.rack.clone()),
            addresses: endpoints.map(address).collect(),
        }
    };
    BrokersView { brokers: cluster.brokers().into_iter().map(view).collect() }
}

/// The links between the parts of the cluster.
#[derive(Debug, Serialize)]
pub struct LinksView {
    links: Vec<LinkView>,
}

#[derive(Debug, Serialize)]
struct LinkView {
    from: PartyView,
    to: PartyView,
    delay_ms: u64,
    cut: bool,
}

#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
enum PartyView {
    Controller(&'static str),
    Broker(i32),
}

/// The links between the parts of the cluster, one for each direction.
pub fn links(cluster: &Cluster) -> LinksView {
    let brokers = cluster.brokers().into_iter().map(|(id, _)| Party::Broker(id));
    let parties: Vec<Party> = std::iter::once(Party::Controller).chain(brokers).collect();
    let pairs = parties.iter().flat_map(|from| parties.iter().map(move |to| (*from, *to)));
    let view = |(from, to): (Party, Party)| {
        let link = cluster.link(from, to);
        LinkView { from: party(from), to: party(to), delay_ms: millis(link.delay), cut: link.cut }
    };
    LinksView { links: pairs.filter(|(from, to)| from != to).map(view).collect() }
}

fn party(party: Party) -> PartyView {
    match party {
        Party::Controller => PartyView::Controller("controller"),
        Party::Broker(id) => PartyView::Broker(id.0),
    }
}

/// Partitions and their replicas.
#[derive(Debug, Serialize)]
pub struct PartitionsView {
    partitions: Vec<PartitionView>,
}

#[derive(Debug, Serialize)]
struct PartitionView {
    topic: Arc<str>,
    partition: i32,
    leader: Option<i32>,
    leader_epoch: i32,
    replicas: Vec<i32>,
    isr: Vec<i32>,
    /// Whether its high watermark is kept where it is.
    pinned: bool,
    /// What the brokers that are there have.
    logs: Vec<ReplicaView>,
}

#[derive(Debug, Serialize)]
struct ReplicaView {
    broker: i32,
    /// Whether the broker believes that it leads, and since which epoch.
    leads: bool,
    leader_epoch: i32,
    log_start_offset: i64,
    high_watermark: i64,
    last_stable_offset: i64,
    log_end_offset: i64,
}

/// The partitions of a topic, or of all. None if there is no such topic.
pub fn partitions(cluster: &Cluster, topic: Option<&str>) -> Option<PartitionsView> {
    let ids = |nodes: &[NodeId]| nodes.iter().map(|node| node.0).collect();
    let view = |state: PartitionState| PartitionView {
        topic: state.topic,
        partition: state.index,
        leader: state.partition.leader.map(|leader| leader.0),
        leader_epoch: state.partition.leader_epoch,
        replicas: ids(&state.partition.replicas),
        isr: ids(&state.partition.isr),
        pinned: state.pinned,
        logs: state
            .replicas
            .iter()
            .map(|replica| ReplicaView {
                broker: replica.broker.0,
                leads: replica.leads,
                leader_epoch: replica.leader_epoch,
                log_start_offset: replica.log_start_offset,
                high_watermark: replica.high_watermark,
                last_stable_offset: replica.last_stable_offset,
                log_end_offset: replica.log_end_offset,
            })
            .collect(),
    };
    Some(PartitionsView { partitions: cluster.partitions(topic)?.into_iter().map(view).collect() })
}

/// What the purgatories count, over all brokers.
#[derive(Debug, Serialize)]
pub struct MetricsView {
    purgatories: Vec<PurgatoryView>,
}

#[derive(Debug, Serialize)]
struct PurgatoryView {
    kind: String,
    /// The tag of Kafka's metrics.
    delayed_operation: &'static str,
    /// Kafka's `PurgatorySize`.
    purgatory_size: u64,
    /// Kafka's `NumDelayedOperations`.
    num_delayed_operations: u64,
    /// The count of Kafka's `ExpiresPerSec`.
    expired: u64,
    completed: u64,
    released: u64,
    removed: u64,
}

/// What the purgatories count, by kind of wait.
pub fn metrics(cluster: &Cluster) -> MetricsView {
    let purgatories = Cluster::wait_kinds().iter().map(|kind| {
        let metrics = cluster.metrics(*kind);
        PurgatoryView {
            kind: format!("{kind:?}"),
            delayed_operation: kind.delayed_operation(),
            purgatory_size: metrics.purgatory_size,
            num_delayed_operations: metrics.num_delayed_operations,
            expired: metrics.expired,
            completed: metrics.completed,
            released: metrics.released,
            removed: metrics.removed,
        }
    });
    MetricsView { purgatories: purgatories.collect() }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
