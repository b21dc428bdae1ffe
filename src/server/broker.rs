//! A broker inside another program: for tests in Rust.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

use super::driver::Driver;
use super::{BrokerOptions, Server, StartError};

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
        let (address, driver) =
            outcome.recv().map_err(|_| io::Error::other("the broker's thread ended"))??;
        Ok(Broker { address, driver, stop: Some(stop), thread: Some(thread) })
    }

    /// `HOST:PORT` of the first listener, for a client's `bootstrap.servers`.
    pub fn bootstrap(&self) -> String {
        self.address.to_string()
    }

    /// The first address of the first listener.
    pub fn address(&self) -> SocketAddr {
        self.address
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

fn run(
    options: BrokerOptions,
    started: &mpsc::SyncSender<Result<(SocketAddr, Arc<Driver>), StartError>>,
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
            let _ = started.send(Ok((server.address(), server.driver().clone())));
            runtime.block_on(server.run(async { drop(stopped.await) }));
        }
    }
}
