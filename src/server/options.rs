//! What a broker is started with, and why a start can fail.

use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use super::clock::Pace;
use crate::api::PrepareLimits;
use crate::base::NodeId;
use crate::cluster::CommandError;
use crate::controller::configs::{
    BrokerConfigs, BrokerSettings, ConfigError, Endpoint, ListenHost, Listener, Overrides, Resource,
};
use crate::controller::{Loggers, NewTopic};
use crate::session::SessionLimits;

/// Kafka's port.
pub const DEFAULT_PORT: u16 = 9092;
/// Kafka's name for a listener that has no other.
pub const DEFAULT_LISTENER: &str = "PLAINTEXT";

/// What a broker is started with.
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Kafka's settings. Default: none are set.
    pub configs: BrokerConfigs,
    /// Where it listens, if not where the settings say. Default: a free port of localhost, IPv4 and IPv6.
    pub listeners: Option<Vec<Listener>>,
    /// How many brokers there are: their ids count up from `node.id`, and their ports, but for 0, from the first one's.
    /// At most 64. Default: 1.
    pub brokers: u32,
    /// Settings that single brokers have of their own, such as `broker.rack`. Default: none.
    pub broker_configs: BTreeMap<NodeId, Overrides>,
    /// Topics to begin with.
    pub topics: Vec<NewTopic>,
    /// Decides every random draw. Default: another one each time.
    pub seed: u64,
    /// How the cluster's time goes. Default: as the machine's.
    pub pace: Pace,
    /// Where the steering interface listens: a loopback address. Default: nowhere.
    pub control: Option<SocketAddr>,
    /// Has the allocator give free memory back to the system; called after many connections have closed. Default:
    /// nothing, since that is the whole process's business.
    pub give_back_memory: fn(),
    /// The process's loggers, whose levels clients may then change (Kafka's BROKER_LOGGER resources). Default: none, since
    /// they are the whole process's business too.
    pub log_control: Option<LogControl>,
}

/// The process's loggers, and how their levels are changed.
#[derive(Clone)]
pub struct LogControl {
    /// As they are at the start.
    pub loggers: Loggers,
    /// Has them be so from now on.
    pub apply: Arc<dyn Fn(&Loggers) + Send + Sync>,
}

impl fmt::Debug for LogControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogControl").field("loggers", &self.loggers).finish_non_exhaustive()
    }
}

impl Default for BrokerOptions {
    fn default() -> Self {
        BrokerOptions {
            configs: BrokerConfigs::started_with(Default::default()),
            listeners: Some(vec![localhost(0)]),
            brokers: 1,
            broker_configs: BTreeMap::new(),
            topics: Vec::new(),
            seed: random_seed(),
            pace: Pace::default(),
            control: None,
            give_back_memory: || {},
            log_control: None,
        }
    }
}

impl BrokerOptions {
    /// The same, with one of Kafka's settings.
    ///
    /// # Errors
    /// If there is no such setting, or it can't have this value.
    pub fn with_setting(mut self, key: &str, value: &str) -> Result<Self, ConfigError> {
        self.configs.fixed.set(Resource::Broker, key, value)?;
        Ok(self)
    }

    /// The same, with so many brokers.
    pub fn with_brokers(mut self, brokers: u32) -> Self {
        self.brokers = brokers;
        self
    }

    /// The same, with a setting that one broker alone has.
    ///
    /// # Errors
    /// If there is no such setting, or it can't have this value.
    pub fn with_broker_setting(mut self, broker: i32, key: &str, value: &str) -> Result<Self, ConfigError> {
        self.broker_configs.entry(NodeId(broker)).or_default().set(Resource::Broker, key, value)?;
        Ok(self)
    }

    /// The same, with the cluster's time at this pace.
    pub fn with_pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    /// The same, with the steering interface on this loopback address.
    pub fn with_control(mut self, address: SocketAddr) -> Self {
        self.control = Some(address);
        self
    }

    /// The same, with a topic of this name and number of partitions.
    pub fn with_topic(mut self, name: &str, partitions: i32) -> Self {
        self.topics.push(new_topic(name, partitions));
        self
    }
}

/// A topic with default configs; -1 partitions stand for the default number.
pub(crate) fn new_topic(name: &str, partitions: i32) -> NewTopic {
    NewTopic { name: name.to_owned(), partitions, replication_factor: -1, ..NewTopic::default() }
}

/// A seed from the system's randomness.
fn random_seed() -> u64 {
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Bounds of a broker's connections, but for their number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConnectionLimits {
    /// Bounds of each one's requests.
    pub(crate) session: SessionLimits,
    /// Kafka's `connections.max.idle.ms`: how long a connection may be quiet, give or take a sixteenth. One whose
    /// request waits isn't quiet.
    pub(crate) max_idle: Option<Duration>,
}

impl ConnectionLimits {
    pub(crate) fn new(settings: &BrokerSettings) -> Self {
        let network = &settings.network;
        ConnectionLimits {
            session: SessionLimits {
                max_frame_bytes: network.socket_request_max_bytes,
                prepare: PrepareLimits { max_decompressed_bytes: settings.huld.max_decompressed_bytes },
            },
            max_idle: network.connections_max_idle_ms.map(Duration::from_millis),
        }
    }
}

/// A plain listener on localhost.
pub fn localhost(port: u16) -> Listener {
    Listener {
        name: DEFAULT_LISTENER.to_owned(),
        host: ListenHost::Named("localhost".to_owned()),
        port,
        advertised: None,
    }
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
    /// The steering interface needs an address of this machine, and a port.
    #[error(
        "'{0}' is not where the control interface can listen or be: write 127.0.0.1:PORT, [::1]:PORT or localhost:PORT"
    )]
    Control(String),
    /// No client can connect to a wildcard.
    #[error(
        "'{0}' can't be advertised, no client could connect to it: name an address that clients can reach"
    )]
    Wildcard(String),
}

/// Reads `[NAME://][HOST][:PORT]`: with an empty host it listens on all addresses.
///
/// # Errors
/// If the text is none of these.
pub fn parse_listener(text: &str) -> Result<Listener, AddressError> {
    let (name, address) = text.split_once("://").unwrap_or((DEFAULT_LISTENER, text));
    let (host, port) = host_and_port(address)?;
    Ok(Listener {
        name: name.to_ascii_uppercase(),
        host: if host.is_empty() { ListenHost::All } else { ListenHost::Named(host) },
        port: port.unwrap_or(DEFAULT_PORT),
        advertised: None,
    })
}

/// Reads `HOST[:PORT]`, what clients are told to connect to; without a port it is the one that is listened on.
///
/// # Errors
/// If the text is none, or names a wildcard.
pub fn parse_advertised(text: &str) -> Result<Endpoint, AddressError> {
    let (host, port) = host_and_port(text)?;
    let wildcard = host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_unspecified());
    if host.is_empty() || wildcard || port == Some(0) {
        return Err(AddressError::Wildcard(text.to_owned()));
    }
    Ok(Endpoint { host, port: port.unwrap_or(0) })
}

/// Reads `ADDRESS:PORT` of a steering interface; `localhost` stands for 127.0.0.1.
///
/// # Errors
/// If the text is none.
pub fn parse_control(text: &str) -> Result<SocketAddr, AddressError> {
    let wrong = || AddressError::Control(text.to_owned());
    match text.strip_prefix("localhost:") {
        Some(port) => Ok(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port.parse().map_err(|_| wrong())?)),
        None => text.parse().map_err(|_| wrong()),
    }
}

fn host_and_port(text: &str) -> Result<(String, Option<u16>), AddressError> {
    let (host, port) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((address, _)) if address.parse::<Ipv6Addr>().is_err() => {
            return Err(AddressError::Ipv6(address.to_owned()));
        }
        Some((address, "")) => (address, None),
        Some((address, rest)) => (address, Some(rest.strip_prefix(':').unwrap_or(rest))),
        None => match text.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(AddressError::Brackets(text.to_owned())),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
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
    /// So many brokers can't be run.
    #[error("{count} brokers can't be run: it must be 1 to {}", crate::cluster::MAX_BROKERS)]
    BrokerCount {
        /// How many were asked for.
        count: u32,
    },
    /// The ids that follow the first broker's don't suffice.
    #[error("there is no id {first} + {by} for another broker: choose a lower node.id for the first")]
    IdRange {
        /// The first broker's id.
        first: i32,
        /// How many brokers there are before.
        by: u32,
    },
    /// A broker that has settings of its own isn't among those that are to run.
    #[error("there is no broker {id}: the brokers are {first} to {last}")]
    UnknownBroker {
        /// Which.
        id: i32,
        /// The first one's id.
        first: i32,
        /// The last one's id.
        last: i32,
    },
    /// A broker has a value of its own for what holds for the whole process.
    #[error(
        "broker {id} can't have {key} of its own, which holds for the whole process: set it for all brokers"
    )]
    ProcessWide {
        /// Which broker.
        id: i32,
        /// The setting.
        key: &'static str,
    },
    /// A broker's own settings don't go together with each other, or with those of all.
    #[error("what broker {id} has of its own: {source}")]
    OfBroker {
        /// Which broker.
        id: i32,
        /// What is wrong.
        source: ConfigError,
    },
    /// A broker is to have another id than its place gives it.
    #[error("broker {id} can't be {key}={value}: ids count up from the node.id that all brokers share")]
    OwnId {
        /// Which broker.
        id: i32,
        /// `node.id` or `broker.id`.
        key: &'static str,
        /// What it is to be.
        value: String,
    },
    /// The ports that follow the first broker's don't suffice.
    #[error("there is no port {first} + {by} for another broker: choose a lower one for the first")]
    PortRange {
        /// The first broker's port.
        first: u16,
        /// How many brokers there are before.
        by: u32,
    },
    /// The steering interface would be open to others.
    #[error(
        "the control interface can't listen on {address}: whoever reaches it may do everything, so it must be a loopback \
         address, such as 127.0.0.1:{}", .address.port()
    )]
    ControlNotLoopback {
        /// Where it was to listen.
        address: SocketAddr,
    },
    /// There is no listener to be opened.
    #[error("there is nothing to listen on: name at least one listener")]
    NoListener,
    /// The settings contradict each other.
    #[error(transparent)]
    Settings(#[from] ConfigError),
    /// A topic to begin with can't be made.
    #[error("can't create topic '{name}': {source}")]
    Topic {
        /// The topic's name.
        name: String,
        /// Why not.
        source: CommandError,
    },
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
            StartError::BrokerCount { .. }
            | StartError::IdRange { .. }
            | StartError::UnknownBroker { .. }
            | StartError::ProcessWide { .. }
            | StartError::OfBroker { .. }
            | StartError::OwnId { .. }
            | StartError::PortRange { .. }
            | StartError::ControlNotLoopback { .. }
            | StartError::NoListener
            | StartError::Settings(_)
            | StartError::Topic { .. } => io::ErrorKind::InvalidInput,
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

    fn listener(text: &str) -> (String, ListenHost, u16) {
        let Listener { name, host, port, .. } = parse_listener(text).unwrap();
        (name, host, port)
    }

    #[test]
    fn listeners_are_written_as_in_kafka_or_shorter() {
        let named =
            |name: &str, host: &str, port| (name.to_owned(), ListenHost::Named(host.to_owned()), port);
        let all = |port| (DEFAULT_LISTENER.to_owned(), ListenHost::All, port);
        assert_eq!(listener("127.0.0.1:0"), named(DEFAULT_LISTENER, "127.0.0.1", 0));
        assert_eq!(listener("[::1]:19092"), named(DEFAULT_LISTENER, "::1", 19092));
        assert_eq!(listener("[::]"), named(DEFAULT_LISTENER, "::", DEFAULT_PORT));
        assert_eq!(listener("localhost"), named(DEFAULT_LISTENER, "localhost", DEFAULT_PORT));
        assert_eq!(listener(":9093"), all(9093));
        assert_eq!(listener("PLAINTEXT://:9093"), all(9093));
        assert_eq!(listener("inside://kafka:29092"), named("INSIDE", "kafka", 29092));
    }

    #[test]
    fn listeners_that_make_no_sense_are_refused() {
        let error = |text: &str| parse_listener(text).unwrap_err();
        assert_eq!(error("host:port"), AddressError::Port("port".to_owned()));
        assert_eq!(error("host:70000"), AddressError::Port("70000".to_owned()));
        assert_eq!(error("::1:9092"), AddressError::Brackets("::1:9092".to_owned()));
        assert_eq!(error("[host]:1"), AddressError::Ipv6("host".to_owned()));
        assert_eq!(error("[::1]9092x"), AddressError::Port("9092x".to_owned()));
    }

    #[test]
    fn wildcards_are_not_advertised() {
        for text in ["0.0.0.0", "0.0.0.0:9092", "[::]:9092", "[::ffff:0.0.0.0]", "", ":9092", "host:0"] {
            assert_eq!(parse_advertised(text), Err(AddressError::Wildcard(text.to_owned())));
        }
        let endpoint = |host: &str, port| Ok(Endpoint { host: host.to_owned(), port });
        assert_eq!(parse_advertised("[2001:db8::7]:1234"), endpoint("2001:db8::7", 1234));
        assert_eq!(parse_advertised("kafka"), endpoint("kafka", 0));
    }
}
