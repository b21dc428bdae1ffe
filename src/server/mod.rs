//! The shell: sockets, tasks, the clock and the driver that owns the cluster. What a request means is not its
//! business; it carries bytes to [`crate::session`], requests to [`crate::cluster`], and their answers back.
//!
//! - [`Broker`] runs a broker on a thread of its own: for tests in Rust.
//! - [`Server`] runs one on the caller's runtime: for the program.

mod broker;
mod clock;
mod connection;
mod control;
mod doors;
mod driver;
mod hangup;
mod listener;
mod machine;
mod mailbox;
mod options;
mod plan;
mod quotas;
mod refusals;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

pub use broker::Broker;
use clock::ClusterClock;
pub use clock::{Clock, Pace, PaceError};
pub use options::{
    AddressError, BrokerOptions, DEFAULT_LISTENER, DEFAULT_PORT, LogControl, StartError, localhost,
    parse_advertised, parse_control, parse_listener,
};

use crate::base::NodeId;
use crate::cluster::{Cluster, ClusterConfig, Command, NodeConfig};
use crate::controller::configs::BrokerSettings;
use control::ControlListener;
pub use doors::{AddBrokerError, NewBroker};
use doors::{DoorChange, Doors};
use driver::Driver;
use listener::{Bound, Shared};
use options::ConnectionLimits;
pub(crate) use options::new_topic;

/// How long the last replies may take once a broker stops.
const STOP_LIMIT: Duration = Duration::from_millis(600);
/// How often quiet connections are looked for, at most and at least.
const SWEEP_FLOOR: Duration = Duration::from_millis(10);
const SWEEP_CEILING: Duration = Duration::from_secs(5);
/// How many connections must have closed for their memory to be given back to the system.
const MANY_CONNECTIONS: usize = if cfg!(test) { 20 } else { 1000 };
/// How long a connection may keep a large buffer that it doesn't use.
const MAX_BUFFER_IDLE: Duration = Duration::from_secs(2);

/// A broker whose listeners are bound: clients can connect, and are served once it [runs](Server::run).
#[derive(Debug)]
pub struct Server {
    /// Every broker's listeners.
    bound: Vec<(NodeId, Vec<Bound>)>,
    shared: Arc<Shared>,
    door_changes: mpsc::UnboundedReceiver<DoorChange>,
    control: Option<ControlListener>,
    give_back_memory: fn(),
}

impl Server {
    /// The runtime that a broker wants: one thread, which costs the least for each request (the module `driver` has the figures).
    ///
    /// # Errors
    /// If the system refuses timers or polling.
    pub fn runtime() -> Result<Runtime, StartError> {
        let mut builder = Builder::new_current_thread();
        // Threads for what is decompressed: more than there are cores would only be in each other's way.
        builder.max_blocking_threads(std::thread::available_parallelism().map_or(1, usize::from));
        builder.enable_all().build().map_err(|source| StartError::Runtime { source })
    }

    /// Binds every listener and makes the topics to begin with. Must be called within a runtime.
    ///
    /// # Errors
    /// If an address can't be had, or settings or topics can't be as they are.
    pub fn bind(options: BrokerOptions) -> Result<Server, StartError> {
        let BrokerOptions {
            configs,
            listeners,
            brokers,
            broker_configs,
            topics,
            seed,
            pace,
            control,
            log_control,
            ..
        } = options;
        let settings = BrokerSettings::resolve(&configs)?;
        let listeners = listeners.as_deref();
        let shared = plan::Shared { configs: &configs, settings: &settings, listeners };
        let mut bound = Vec::new();
        let mut nodes = Vec::new();
        for planned in plan::plan(brokers, &shared, &broker_configs)? {
            let listeners = planned.listeners.into_iter().map(Bound::bind).collect::<Result<Vec<_>, _>>()?;
            if listeners.is_empty() {
                return Err(StartError::NoListener);
            }
            let endpoints = listeners.iter().map(|bound| bound.endpoint().clone()).collect();
            nodes.push(NodeConfig {
                id: planned.id,
                rack: planned.rack.map(Arc::from),
                endpoints,
                configs: planned.configs,
            });
            bound.push((planned.id, listeners));
        }
        let control = control.map(ControlListener::bind).transpose()?;
        let log_memory_bytes =
            settings.huld.log_memory_bytes.unwrap_or_else(machine::default_log_memory_bytes);
        let config = ClusterConfig {
            nodes,
            configs,
            seed,
            log_memory_bytes: usize::try_from(log_memory_bytes).unwrap_or(usize::MAX),
            loggers: log_control.as_ref().map(|control| control.loggers.clone()).unwrap_or_default(),
            ..ClusterConfig::default()
        };
        let clock = Clock::start();
        let steered = ClusterClock::new(clock.now(), pace);
        let started = steered.now(clock.now());
        let mut cluster = Cluster::new(config, started)?;
        for topic in topics {
            let name = topic.name.clone();
            cluster
                .handle_command(started, Command::CreateTopic(topic))
                .map_err(|source| StartError::Topic { name, source })?;
        }
        let (doors, door_changes) = mpsc::unbounded_channel();
        let driver = Arc::new(Driver::new(cluster, clock, steered, doors).with_log_control(log_control));
        let shared = Arc::new(Shared::new(driver, ConnectionLimits::new(&settings)));
        let give_back_memory = options.give_back_memory;
        Ok(Server { bound, shared, door_changes, control, give_back_memory })
    }

    /// Kafka's `node.id` of each broker.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> {
        self.bound.iter().map(|(node, _)| *node)
    }

    /// The first address of the first broker's first listener; if it listens on all addresses, the one of this machine
    /// itself.
    pub fn address(&self) -> SocketAddr {
        self.addresses()
            .into_iter()
            .next()
            .unwrap_or_else(|| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), DEFAULT_PORT))
    }

    /// The first address of each broker's first listener, likewise.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let first = |bound: &Vec<Bound>| bound.iter().flat_map(Bound::addresses).next().copied();
        self.bound.iter().filter_map(|(_, bound)| first(bound)).map(reachable).collect()
    }

    /// Where the steering interface listens, if it does.
    pub fn control(&self) -> Option<SocketAddr> {
        self.control.as_ref().map(ControlListener::address)
    }

    fn driver(&self) -> &Arc<Driver> {
        &self.shared.driver
    }

    /// Broker, name and addresses of each listener, in the order of the options; the first address is IPv4 where there
    /// is one.
    pub fn listeners(&self) -> impl Iterator<Item = (NodeId, &str, &[SocketAddr])> {
        self.bound
            .iter()
            .flat_map(|(node, bound)| bound.iter().map(|bound| (*node, bound.name(), bound.addresses())))
    }

    /// Serves clients until `stop` is there. Requests that wait are then answered, and every connection is closed;
    /// that takes no longer than 600 ms.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Server { bound, shared, door_changes, control, give_back_memory } = self;
        let driver = shared.driver.clone();
        let mut doors = JoinSet::new();
        doors.spawn(Doors::new(shared.clone(), bound, door_changes).run());
        let mut timers = JoinSet::new();
        timers.spawn({
            let driver = driver.clone();
            async move { driver.run_timer().await }
        });
        timers.spawn(sweep(shared, give_back_memory));
        if let Some(control) = control {
            timers.spawn(control.run(driver.clone()));
        }
        stop.await;
        // Listening sockets are closed first, so that nobody is let in who would be shown out again.
        doors.shutdown().await;
        driver.shut_down();
        let all_closed = async {
            loop {
                let closed = driver.connection_closed();
                if driver.open_connections() == 0 {
                    return;
                }
                closed.await;
            }
        };
        if tokio::time::timeout(STOP_LIMIT, all_closed).await.is_err() {
            tracing::info!(
                "{} connections did not take their last replies in time",
                driver.open_connections()
            );
        }
    }
}

/// Where a client on this machine reaches what listens there.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
        IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
        _ => {}
    }
    address
}

/// Ends connections that have been quiet for too long, takes large buffers from quiet ones, and says how many log lines were left out.
async fn sweep(shared: Arc<Shared>, give_back_memory: fn()) {
    let clock = shared.driver.clock();
    let mut most_open = 0;
    let mut pause = SWEEP_FLOOR;
    loop {
        tokio::time::sleep(pause).await;
        let now = clock.instant();
        shared.refusals.flush(now);
        let open = shared.driver.open_connections();
        most_open = open.max(most_open);
        if most_open - open >= MANY_CONNECTIONS {
            most_open = open;
            give_back_memory();
        }
        let max_idle = shared.limits.max_idle;
        let oldest = shared.driver.sweep(now, max_idle, MAX_BUFFER_IDLE);
        let next = max_idle.map_or(SWEEP_CEILING, |max_idle| {
            let next = oldest.map_or(max_idle, |oldest| max_idle.saturating_sub(now - oldest));
            next.max(max_idle / 16)
        });
        pause = next.clamp(SWEEP_FLOOR, SWEEP_CEILING);
    }
}

/// Locks; a panic of another holder is no reason to stop, since what the locks of this module guard stays whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
