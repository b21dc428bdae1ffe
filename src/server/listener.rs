//! Listening sockets: where, with which options, and the loop that accepts.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};

use super::connection::{Connection, End};
use super::driver::Driver;
use super::mailbox::Ending;
use super::options::{ConnectionLimits, StartError};
use super::quotas::{Place, TooManyFromAddress};
use super::refusals::{self, Refusals};
use crate::api::{self, Endpoint};
use crate::base::NodeId;
use crate::controller::ListenerEndpoint;
use crate::controller::configs::{ListenHost, Listener};

/// Connections that may wait to be accepted: a burst of a thousand clients must not lose one.
const BACKLOG: i32 = 4096;
/// How often another port is tried where several addresses are to share a free one.
const PORT_ATTEMPTS: u32 = 16;
/// How long accepting pauses after a failure (such as having no file descriptors left), doubling up to the second.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A listener whose sockets are bound and take connections.
#[derive(Debug)]
pub(crate) struct Bound {
    name: Arc<str>,
    sockets: Vec<TcpListener>,
    addresses: Vec<SocketAddr>,
    endpoint: ListenerEndpoint,
    /// What was asked for, with the port that it got.
    listener: Listener,
}

impl Bound {
    /// Binds every address of `listener`, all to one port. Must be called within a runtime.
    pub(crate) fn bind(mut listener: Listener) -> Result<Bound, StartError> {
        let sockets = bind(&listener.host, listener.port)?;
        let failed = |source| StartError::Runtime { source };
        let addresses = sockets.iter().map(StdListener::local_addr);
        let addresses = addresses.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        let sockets = sockets.into_iter().map(TcpListener::from_std);
        let sockets = sockets.collect::<Result<_, _>>().map_err(failed)?;
        let name: Arc<str> = listener.name.as_str().into();
        let own_port = addresses.first().map_or(listener.port, SocketAddr::port);
        listener.port = own_port;
        let (host, port) = match &listener.advertised {
            Some(advertised) => (Some(advertised.host.as_str().into()), advertised.port),
            None => (None, 0),
        };
        let port = if port == 0 { own_port } else { port };
        let endpoint = ListenerEndpoint { listener: name.clone(), host, port };
        Ok(Bound { name, sockets, addresses, endpoint, listener })
    }

    /// Kafka's name of the listener.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What was asked for, with the port that it got.
    pub(crate) fn listener(&self) -> &Listener {
        &self.listener
    }

    /// What it is bound to; at least one address, and one port for all.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Where clients of this listener are told to come.
    pub(crate) fn endpoint(&self) -> &ListenerEndpoint {
        &self.endpoint
    }

    /// One acceptor for each socket.
    pub(crate) fn into_acceptors(self, shared: &Arc<Shared>, node: NodeId) -> Vec<Acceptor> {
        let Bound { name, sockets, addresses, .. } = self;
        let acceptor = |(socket, address): (TcpListener, SocketAddr)| Acceptor {
            socket,
            name: name.clone(),
            local: (!address.ip().is_unspecified()).then(|| endpoint(address)),
            node,
            shared: shared.clone(),
        };
        sockets.into_iter().zip(addresses).map(acceptor).collect()
    }
}

/// Binds every address of a host to one port.
fn bind(host: &ListenHost, port: u16) -> Result<Vec<StdListener>, StartError> {
    let hosts = addresses(host)?;
    let mut attempts = 0;
    loop {
        attempts += 1;
        match bind_all(&hosts, port) {
            Ok(sockets) => return Ok(sockets),
            // The free port of the first address was taken on another one: try the next free one.
            Err((_, source))
                if port == 0 && source.kind() == io::ErrorKind::AddrInUse && attempts < PORT_ATTEMPTS => {}
            Err((address, source)) => return Err(StartError::Listen { address, source }),
        }
    }
}

/// The addresses that a host stands for.
fn addresses(host: &ListenHost) -> Result<Vec<IpAddr>, StartError> {
    let host = match host {
        ListenHost::All => return Ok(vec![Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]),
        ListenHost::Named(host) if host == "localhost" => {
            return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
        }
        ListenHost::Named(host) => host,
    };
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    let found = (host.as_str(), 0).to_socket_addrs();
    let found = found.map_err(|source| StartError::Resolve { host: host.clone(), source })?;
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found {
        if !addresses.contains(&address.ip()) {
            addresses.push(address.ip());
        }
    }
    Ok(addresses)
}

/// Binds all of `hosts` to `port`, or to one free port if that is 0. An IPv6 address that comes after another one is
/// left out where the machine has no IPv6.
fn bind_all(hosts: &[IpAddr], mut port: u16) -> Result<Vec<StdListener>, (SocketAddr, io::Error)> {
    let mut bound: Vec<StdListener> = Vec::new();
    for host in hosts {
        let address = SocketAddr::new(*host, port);
        // A lone [::] takes IPv4 as well, as elsewhere; beside 0.0.0.0 it must not.
        let only_v6 = hosts.len() > 1 || !host.is_unspecified();
        match bind_one(address, only_v6) {
            Ok(socket) => {
                port = socket.local_addr().map_err(|error| (address, error))?.port();
                bound.push(socket);
            }
            Err(error) if host.is_ipv6() && !bound.is_empty() && is_absent(&error) => {
                tracing::debug!("not listening on {address}: {error}");
            }
            Err(error) => return Err((address, error)),
        }
    }
    Ok(bound)
}

/// Whether the error says that the address family isn't there.
fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AddrNotAvailable
        || matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT))
}

fn bind_one(address: SocketAddr, only_v6: bool) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(only_v6)?;
    }
    socket.set_reuse_address(true)?;
    // Accepted sockets inherit both, which spares two system calls a connection.
    socket.set_tcp_nodelay(true)?;
    socket.set_keepalive(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// The address in the form that clients are told: IPv4 if it is that, even where it comes as IPv6.
fn endpoint(address: SocketAddr) -> Endpoint {
    Endpoint { host: address.ip().to_canonical().to_string().into(), port: address.port() }
}

/// What all acceptors of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) driver: Arc<Driver>,
    pub(crate) limits: ConnectionLimits,
    pub(crate) refusals: Refusals,
}

impl Shared {
    pub(crate) fn new(driver: Arc<Driver>, limits: ConnectionLimits) -> Self {
        Shared { driver, limits, refusals: Refusals::default() }
    }
}

/// Takes the connections of one listening socket.
#[derive(Debug)]
pub(crate) struct Acceptor {
    socket: TcpListener,
    name: Arc<str>,
    /// Our end of every connection, if it is the same for all.
    local: Option<Endpoint>,
    node: NodeId,
    shared: Arc<Shared>,
}

impl Acceptor {
    /// Accepts until it is aborted.
    pub(crate) async fn run(self) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.socket.accept().await {
                Ok((stream, peer)) => {
                    pause = FIRST_PAUSE;
                    let quotas = self.shared.driver.quotas();
                    let place = quotas.place(self.node, &self.name, peer.ip().to_canonical()).await;
                    self.serve(stream, peer, place);
                }
                Err(error) if is_of_one_client(&error) => {}
                Err(error) => {
                    let now = self.shared.driver.clock().instant();
                    let cause = "accept failed";
                    self.shared.refusals.note(now, &self.name, "a client", cause, &error);
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    fn serve(&self, stream: TcpStream, peer: SocketAddr, place: Result<Place, TooManyFromAddress>) {
        let shared = self.shared.clone();
        let name = self.name.clone();
        let Ok(place) = place else {
            let now = shared.driver.clock().instant();
            let why = "its address has as many connections as max.connections.per.ip or its overrides allow";
            shared.refusals.note(now, &name, &peer.to_string(), "max.connections.per.ip", &why);
            return;
        };
        let local = match &self.local {
            Some(endpoint) => endpoint.clone(),
            None => match stream.local_addr() {
                Ok(address) => endpoint(address),
                // The client is gone already.
                Err(_) => return,
            },
        };
        let peer: Arc<str> = peer.to_string().into();
        let client = api::Connection { node: self.node, listener: name.clone(), local, peer: peer.clone() };
        let handle = shared.driver.open(client);
        tokio::spawn(async move {
            let mut connection = Connection::new(stream, handle, shared.limits.session);
            let end = connection.run().await;
            // The place is free by the time that the driver tells of the end.
            drop(place);
            drop(connection);
            log_end(&shared, &name, &peer, end);
        });
    }
}

fn log_end(shared: &Shared, listener: &str, peer: &str, end: End) {
    let now = shared.driver.clock().instant();
    let note = |cause, why: &dyn std::fmt::Display| shared.refusals.note(now, listener, peer, cause, why);
    match end {
        End::Client { early } => tracing::debug!(peer, early, "the client closed the connection"),
        End::Socket(error) => tracing::debug!(peer, %error, "the connection broke"),
        End::Violation(violation) => note(refusals::cause(&violation), &violation),
        End::Ours(Ending::Refused(reason)) => note("refused by its handler", &reason),
        End::Ours(Ending::Panicked) => note("panic", &"its request made a handler panic, a defect of huld"),
        End::Ours(ending) => tracing::debug!(peer, ?ending, "closed the connection"),
        End::Encode(error) => note("encode", &error),
    }
}

/// Whether accept(2) failed for the connection that was to be accepted, so that the next may work at once.
fn is_of_one_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted, WouldBlock};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted | WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::SockRef;

    #[test]
    fn localhost_is_both_families_on_one_port() {
        let sockets = bind(&ListenHost::Named("localhost".to_owned()), 0).unwrap();
        let ports: Vec<u16> = sockets.iter().map(|socket| socket.local_addr().unwrap().port()).collect();
        assert!(ports.iter().all(|port| *port == ports[0] && *port != 0), "{ports:?}");
        assert!(sockets[0].local_addr().unwrap().is_ipv4());
    }

    #[test]
    fn accepted_sockets_inherit_their_options() {
        let socket = bind_one("127.0.0.1:0".parse().unwrap(), true).unwrap();
        let _client = std::net::TcpStream::connect(socket.local_addr().unwrap()).unwrap();
        socket.set_nonblocking(false).unwrap();
        let (accepted, _) = socket.accept().unwrap();
        assert!(accepted.nodelay().unwrap());
        assert!(SockRef::from(&accepted).keepalive().unwrap());
    }

    #[test]
    fn mapped_addresses_are_told_as_ipv4() {
        let told = endpoint("[::ffff:192.0.2.7]:9092".parse().unwrap());
        assert_eq!((&*told.host, told.port), ("192.0.2.7", 9092));
        assert_eq!(&*endpoint("[2001:db8::1]:1".parse().unwrap()).host, "2001:db8::1");
    }
}
