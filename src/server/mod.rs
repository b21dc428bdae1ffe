//! The shell: sockets, tasks, the clock and the driver that owns the cluster. What a request means is not its
//! business; it carries bytes to [`crate::session`], requests to [`crate::cluster`], and their answers back.
//!
//! - [`Broker`] runs a broker on a thread of its own: for tests in Rust.
//! - [`Server`] runs one on the caller's runtime: for the program.

mod broker;
mod clock;
mod connection;
mod driver;
mod hangup;
mod listener;
mod mailbox;
mod options;
mod refusals;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinSet;

pub use broker::Broker;
pub use clock::Clock;
pub use options::{
    AddressError, Advertised, BrokerOptions, ConnectionLimits, DEFAULT_LISTENER, DEFAULT_PORT, Listen,
    StartError,
};

use crate::base::NodeId;
use crate::cluster::{Cluster, ClusterConfig, NodeConfig};
use driver::Driver;
use listener::{Bound, Shared};

/// How long the last replies may take once a broker stops.
const STOP_LIMIT: Duration = Duration::from_millis(800);
/// How often quiet connections are looked for, at most and at least.
const SWEEP_FLOOR: Duration = Duration::from_millis(10);
const SWEEP_CEILING: Duration = Duration::from_secs(5);

/// A broker whose listeners are bound: clients can connect, and are served once it [runs](Server::run).
#[derive(Debug)]
pub struct Server {
    bound: Vec<Bound>,
    shared: Arc<Shared>,
    node: NodeId,
}

impl Server {
    /// The runtime that a broker with these options wants.
    ///
    /// # Errors
    /// If the system refuses threads or polling.
    pub fn runtime(options: &BrokerOptions) -> Result<Runtime, StartError> {
        let mut builder = match options.workers {
            0 | 1 => Builder::new_current_thread(),
            workers => {
                let mut builder = Builder::new_multi_thread();
                builder.worker_threads(workers);
                builder
            }
        };
        builder.enable_all().build().map_err(|source| StartError::Runtime { source })
    }

    /// Binds every listener. Must be called within a runtime.
    ///
    /// # Errors
    /// If an address can't be had.
    pub fn bind(options: BrokerOptions) -> Result<Server, StartError> {
        let BrokerOptions { node, listeners, limits, seed, .. } = options;
        let bound = listeners.into_iter().map(Bound::bind).collect::<Result<Vec<_>, _>>()?;
        let clock = Clock::start();
        let endpoints = bound.iter().map(Bound::advertised_endpoint).collect();
        let nodes = vec![NodeConfig { id: node, rack: None, endpoints }];
        let config = ClusterConfig { nodes, seed, ..ClusterConfig::default() };
        let cluster = Cluster::new(config, clock.now())?;
        let driver = Arc::new(Driver::new(cluster, clock));
        Ok(Server { bound, shared: Arc::new(Shared::new(driver, limits)), node })
    }

    /// Kafka's `node.id`.
    pub fn node(&self) -> NodeId {
        self.node
    }

    fn driver(&self) -> &Arc<Driver> {
        &self.shared.driver
    }

    /// Name and addresses of each listener, in the order of the options; the first address is IPv4 where there is
    /// one.
    pub fn listeners(&self) -> impl Iterator<Item = (&str, &[SocketAddr])> {
        self.bound.iter().map(|bound| (&**bound.name(), bound.addresses()))
    }

    /// Serves clients until `stop` is there. Requests that wait are then answered, and every connection is closed;
    /// that takes no longer than 800 ms.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Server { bound, shared, node } = self;
        let driver = shared.driver.clone();
        let mut tasks = JoinSet::new();
        for acceptor in bound.into_iter().flat_map(|bound| bound.into_acceptors(&shared, node)) {
            tasks.spawn(acceptor.run());
        }
        let mut timers = JoinSet::new();
        timers.spawn({
            let driver = driver.clone();
            async move { driver.run_timer().await }
        });
        timers.spawn(sweep(shared));
        stop.await;
        // Listening sockets are closed first, so that nobody is let in who would be shown out again.
        tasks.shutdown().await;
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

/// Ends connections that have been quiet for too long.
async fn sweep(shared: Arc<Shared>) {
    let max_idle = shared.limits.max_idle;
    let clock = shared.driver.clock();
    let mut pause = SWEEP_CEILING.min(max_idle).max(SWEEP_FLOOR);
    loop {
        tokio::time::sleep(pause).await;
        let now = clock.instant();
        shared.refusals.flush(now);
        let since = u64::try_from(max_idle.as_nanos()).ok().and_then(|idle| now.as_nanos().checked_sub(idle));
        let oldest = shared.driver.end_idle(crate::base::Instant::from_nanos(since.unwrap_or(0)));
        let next = oldest.map_or(max_idle, |oldest| max_idle.saturating_sub(now - oldest));
        pause = next.max(max_idle / 16).min(SWEEP_CEILING).max(SWEEP_FLOOR);
    }
}

/// Locks; a panic of another holder is no reason to stop, since what the locks of this module guard stays whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
