//! A broker inside another program: for tests in Rust.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::oneshot;

use super::driver::Driver;
use super::{BrokerOptions, NewBroker, Pace, Server, StartError};
use crate::base::{NodeId, Now};
use crate::cluster::{BrokerState, Command, Done, WaitDescription};

/// A broker that runs on a thread of its own until it is dropped.
///
/// ```
/// use huld::server::{Broker, BrokerOptions};
///
/// let broker = Broker::start(BrokerOptions::default())?;
/// let client = std::net::TcpStream::connect(broker.bootstrap())?;
/// assert!(client.peer_addr()?.ip().is_loopback());
/// drop(broker); // closes every connection
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Broker {
    address: SocketAddr,
    addresses: Vec<SocketAddr>,
    control: Option<SocketAddr>,
    driver: Arc<Driver>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Broker {
    /// Starts a broker; clients can connect when this returns. The default options listen on a free port of
    /// localhost.
    ///
    /// # Errors
    /// If an address can't be listened on, or the system refuses a thread.
    pub fn start(options: BrokerOptions) -> io::Result<Broker> {
        let (started, outcome) = mpsc::sync_channel(1);
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new()
            .name("huld".to_owned())
            .spawn(move || run(options, &started, stopped))?;
        let (addresses, control, driver) =
            outcome.recv().map_err(|_| io::Error::other("the broker's thread ended"))??;
        let address = *addresses.first().ok_or_else(|| io::Error::other("there is no listener"))?;
        Ok(Broker { address, addresses, control, driver, stop: Some(stop), thread: Some(thread) })
    }

    /// `HOST:PORT` of the first listener, for a client's `bootstrap.servers`.
    pub fn bootstrap(&self) -> String {
        self.address.to_string()
    }

    /// The first address of the first listener.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `HOST:PORT` of each broker's first listener, in the order of their ids.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Has the cluster carry out a command, and returns when that is done: after [`Command::KillBroker`] its listeners
    /// refuse connections.
    ///
    /// # Errors
    /// If the command can't be carried out, or a broker's port was taken meanwhile.
    ///
    /// # Panics
    /// Within an asynchronous context, since it blocks.
    pub fn command(&self, command: Command) -> io::Result<Done> {
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
        let done = self.driver.command(command).map_err(invalid)?;
        let stopped = |_| io::Error::other("the brokers' thread has ended");
        let failures = self.driver.doors_settled().blocking_recv().map_err(stopped)?;
        if failures.is_empty() { Ok(done) } else { Err(io::Error::other(failures.join("\n"))) }
    }

    /// Starts one more broker, and returns its id; it may be there before all topics are known to it.
    ///
    /// # Errors
    /// If an address can't be listened on, there is a broker with this id, or there are too many.
    ///
    /// # Panics
    /// Within an asynchronous context, since it blocks.
    pub fn add_broker(&self, broker: NewBroker) -> io::Result<NodeId> {
        let added = self.driver.add_broker(broker).blocking_recv();
        let added = added.map_err(|_| io::Error::other("the brokers' thread has ended"))?;
        added.map_err(io::Error::other)
    }

    /// Every broker and how it is, in the order of their ids.
    pub fn brokers(&self) -> Vec<(NodeId, BrokerState)> {
        self.driver.brokers()
    }

    /// All that waits, in the order in which it began to.
    pub fn waits(&self) -> Vec<WaitDescription> {
        self.driver.look(|cluster, now| cluster.waits(now))
    }

    /// Where the steering interface listens, if it does.
    pub fn control(&self) -> Option<SocketAddr> {
        self.control
    }

    /// How the cluster's time goes, and what time it is there.
    pub fn time(&self) -> (Pace, Now) {
        self.driver.time()
    }

    /// Lets the cluster's time go at another pace from now on.
    pub fn set_pace(&self, pace: Pace) {
        self.driver.set_pace(pace);
    }

    /// Moves the cluster's time on: everything that would have happened by itself meanwhile has happened when this
    /// returns, each at its time and in order. Clients' own time goes on as it did.
    pub fn advance(&self, span: Duration) {
        let end = self.driver.begin_advance(span);
        while !self.driver.step_towards(end) {}
    }

    /// How many panics there were: defects of huld, each of which ended the connection that met it.
    pub fn panics(&self) -> u64 {
        self.driver.panics()
    }

    #[cfg(test)]
    pub(super) fn driver(&self) -> &Driver {
        &self.driver
    }
}

impl Drop for Broker {
    /// Answers what waits, closes every connection, and waits until that is done: a second at most.
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // If the thread panicked it has said so itself.
            let _ = thread.join();
        }
    }
}

/// The addresses of the brokers and of the steering interface, and who owns the cluster.
type Started = (Vec<SocketAddr>, Option<SocketAddr>, Arc<Driver>);

fn run(
    options: BrokerOptions,
    started: &mpsc::SyncSender<Result<Started, StartError>>,
    stopped: oneshot::Receiver<()>,
) {
    let serve = || {
        let runtime = Server::runtime()?;
        let server = {
            let _context = runtime.enter();
            Server::bind(options)?
        };
        Ok((runtime, server))
    };
    match serve() {
        Err(error) => drop(started.send(Err(error))),
        Ok((runtime, server)) => {
            let _ = started.send(Ok((server.addresses(), server.control(), server.driver().clone())));
            runtime.block_on(server.run(async { drop(stopped.await) }));
        }
    }
}
