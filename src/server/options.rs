//! What a broker is started with, and why a start can fail.

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use crate::base::NodeId;
use crate::controller::configs::ConfigError;
use crate::session::SessionLimits;

/// Kafka's port.
pub const DEFAULT_PORT: u16 = 9092;
/// Kafka's name for a listener that has no other.
pub const DEFAULT_LISTENER: &str = "PLAINTEXT";

/// What a broker is started with.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Kafka's `node.id`. Default 1.
    pub node: NodeId,
    /// Where it listens. Default: a free port on localhost, IPv4 and IPv6.
    pub listeners: Vec<Listen>,
    /// Bounds of its connections.
    pub limits: ConnectionLimits,
    /// Decides every random draw. Default: another one each time.
    pub seed: u64,
    /// Threads that serve connections. Default 1, which costs the least for each request.
    pub workers: usize,
}

impl Default for BrokerOptions {
    fn default() -> Self {
        BrokerOptions {
            node: NodeId(1),
            listeners: vec![Listen::localhost(0)],
            limits: ConnectionLimits::default(),
            seed: random_seed(),
            workers: 1,
        }
    }
}

/// A seed from the system's randomness.
fn random_seed() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Bounds of a broker's connections.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// Bounds of each one's requests.
    pub session: SessionLimits,
    /// Kafka's `max.connections`: further ones wait to be served until one closes. Default: no limit.
    pub max_connections: usize,
    /// Kafka's `max.connections.per.ip`: further ones are closed at once. Default: no limit.
    pub max_connections_per_address: usize,
    /// Kafka's `connections.max.idle.ms`, default 10 minutes: how long a connection may be quiet, give or take a
    /// sixteenth. One whose request waits isn't quiet.
    pub max_idle: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        ConnectionLimits {
            session: SessionLimits::default(),
            max_connections: usize::MAX,
            max_connections_per_address: usize::MAX,
            max_idle: Duration::from_secs(600),
        }
    }
}

/// One listener: `[NAME://][HOST][:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Kafka's name for it.
    pub name: Arc<str>,
    /// An address, a name, `localhost` (IPv4 and IPv6), or empty for all addresses of the machine. An IPv6 address
    /// has no brackets.
    pub host: String,
    /// 0 for a free one.
    pub port: u16,
    /// What clients are told to connect to. Default: the address that each has reached us by.
    pub advertised: Option<Advertised>,
}

impl Listen {
    /// A plain listener on localhost.
    pub fn localhost(port: u16) -> Self {
        Listen { name: DEFAULT_LISTENER.into(), host: "localhost".to_owned(), port, advertised: None }
    }
}

/// What clients are told to connect to: `HOST[:PORT]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advertised {
    /// A name or address that clients can reach; an IPv6 address without brackets.
    pub host: Arc<str>,
    /// Default: the port that the listener is bound to.
    pub port: Option<u16>,
}

/// An address that can't be understood, or not be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// The port isn't a number from 0 to 65535.
    #[error("'{0}' is not a port: it must be a number from 0 to 65535")]
    Port(String),
    /// An IPv6 address must stand in brackets where a port may follow.
    #[error("'{0}' has several colons: write an IPv6 address in brackets, such as [::1]:9092")]
    Brackets(String),
    /// Not an IPv6 address between the brackets.
    #[error("'{0}' is not an IPv6 address")]
    Ipv6(String),
    /// No client can connect to a wildcard.
    #[error(
        "'{0}' can't be advertised: clients would be told to connect to it; name an address that they can reach"
    )]
    Wildcard(String),
}

impl FromStr for Listen {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (name, address) = text.split_once("://").unwrap_or((DEFAULT_LISTENER, text));
        let (host, port) = host_and_port(address)?;
        Ok(Listen { name: name.into(), host, port: port.unwrap_or(DEFAULT_PORT), advertised: None })
    }
}

impl FromStr for Advertised {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (host, port) = host_and_port(text)?;
        let wildcard = host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_unspecified());
        if host.is_empty() || wildcard || port == Some(0) {
            return Err(AddressError::Wildcard(text.to_owned()));
        }
        Ok(Advertised { host: host.into(), port })
    }
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>), AddressError> {
    let (host, port) = if let Some((address, rest)) = text.strip_prefix('[').and_then(|t| t.split_once(']')) {
        if address.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(AddressError::Ipv6(address.to_owned()));
        }
        (address, rest.strip_prefix(':').or((!rest.is_empty()).then_some(rest)))
    } else {
        match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(AddressError::Brackets(text.to_owned())),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let number = |port: &str| port.parse().map_err(|_| AddressError::Port(port.to_owned()));
    Ok((host.to_owned(), port.map(number).transpose()?))
}

/// Why a broker could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address can't be listened on.
    #[error("can't listen on {address}: {}", Plain(source))]
    Listen {
        /// Which.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// A listener's host name can't be looked up.
    #[error("can't find the address of '{host}' to listen on: {}", Plain(source))]
    Resolve {
        /// The name.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// The settings contradict each other.
    #[error("can't start: {0}")]
    Settings(#[from] ConfigError),
    /// The system refused a thread, a timer or the like.
    #[error("can't start: {}", Plain(source))]
    Runtime {
        /// What the system says.
        source: io::Error,
    },
}

impl From<StartError> for io::Error {
    fn from(error: StartError) -> Self {
        let kind = match &error {
            StartError::Listen { source, .. }
            | StartError::Resolve { source, .. }
            | StartError::Runtime { source } => source.kind(),
            StartError::Settings(_) => io::ErrorKind::InvalidInput,
        };
        io::Error::new(kind, error)
    }
}

/// An error of the system without its number.
struct Plain<'a>(&'a io::Error);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        f.write_str(text.split(" (os error").next().unwrap_or(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(text: &str) -> (String, String, u16) {
        let Listen { name, host, port, .. } = text.parse().unwrap();
        (name.to_string(), host, port)
    }

    #[test]
    fn listeners_are_written_as_in_kafka_or_shorter() {
        let plain = |host: &str, port| (DEFAULT_LISTENER.to_owned(), host.to_owned(), port);
        assert_eq!(listen("127.0.0.1:0"), plain("127.0.0.1", 0));
        assert_eq!(listen("[::1]:19092"), plain("::1", 19092));
        assert_eq!(listen("[::]"), plain("::", DEFAULT_PORT));
        assert_eq!(listen("localhost"), plain("localhost", DEFAULT_PORT));
        assert_eq!(listen(":9093"), plain("", 9093));
        assert_eq!(listen("PLAINTEXT://:9093"), plain("", 9093));
        assert_eq!(listen("INSIDE://kafka:29092"), ("INSIDE".to_owned(), "kafka".to_owned(), 29092));
    }

    #[test]
    fn listeners_that_make_no_sense_are_refused() {
        let error = |text: &str| text.parse::<Listen>().unwrap_err();
        assert_eq!(error("host:port"), AddressError::Port("port".to_owned()));
        assert_eq!(error("host:70000"), AddressError::Port("70000".to_owned()));
        assert_eq!(error("::1:9092"), AddressError::Brackets("::1:9092".to_owned()));
        assert_eq!(error("[host]:1"), AddressError::Ipv6("host".to_owned()));
        assert_eq!(error("[::1]9092x"), AddressError::Port("9092x".to_owned()));
    }

    #[test]
    fn wildcards_are_not_advertised() {
        for text in ["0.0.0.0", "0.0.0.0:9092", "[::]:9092", "[::ffff:0.0.0.0]", "", ":9092", "host:0"] {
            assert_eq!(text.parse::<Advertised>(), Err(AddressError::Wildcard(text.to_owned())));
        }
        let advertised: Advertised = "[2001:db8::7]:1234".parse().unwrap();
        assert_eq!(advertised, Advertised { host: "2001:db8::7".into(), port: Some(1234) });
        assert_eq!("kafka".parse(), Ok(Advertised { host: "kafka".into(), port: None }));
    }
}
