//! The options that every command which starts a broker has.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::Failure;
use super::settings::{self, Settings, SourceFile, Sources};
use crate::base::NodeId;
use crate::controller::NewTopic;
use crate::controller::configs::{ConfigError, Listener, Overrides, Resource};
use crate::server::{
    BrokerOptions, DEFAULT_LISTENER, Pace, localhost, new_topic, parse_advertised, parse_control,
    parse_listener,
};

/// The setting that `--memory` stands for.
const LOG_MEMORY_BYTES: &str = "huld.log.memory.bytes";

#[derive(Debug, Args)]
pub(super) struct BrokerArgs {
    /// Listen on this port of localhost, IPv4 and IPv6; 0 takes a free one [default: 9092; exec: a free one]
    #[arg(long, value_name = "PORT", conflicts_with = "listen", allow_negative_numbers = true)]
    pub(super) port: Option<u16>,
    /// Listen on this address, as [NAME://][HOST][:PORT]; without HOST on all (may be repeated)
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Tell clients to connect to this [default: the address that each one has reached us by]
    #[arg(long, value_name = "HOST[:PORT]")]
    advertise: Option<String>,
    /// Read settings from this file, a server.properties of Kafka
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Set one of Kafka's settings; stronger than KAFKA_* variables, which are stronger than the file (may be repeated)
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Create this topic at the start (may be repeated)
    #[arg(long, value_name = "NAME[:PARTITIONS]")]
    topic: Vec<String>,
    /// How much memory all records together may take, such as 512M or 2G [default: half of the machine's]
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory: Option<String>,
    /// Decide every random draw, so that a run can be repeated [default: another one each time]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    pub(super) seed: Option<u64>,
    /// How many brokers to run: their ids count up from node.id, their ports from the first one's
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true)]
    brokers: u32,
    /// Read settings that one broker alone has from a file, such as its broker.rack (may be repeated)
    #[arg(long, value_name = "ID=FILE")]
    broker_config: Vec<String>,
    /// How the brokers' time goes: as the machine's, only when `huld clock` says so, or N times as fast
    #[arg(long, value_name = "machine|manual|xN", default_value_t)]
    clock: Pace,
    /// Let the brokers be steered over HTTP at this address of the machine itself, such as 127.0.0.1:9099; port 0 takes a
    /// free one
    #[arg(long, value_name = "ADDRESS:PORT")]
    control: Option<String>,
    /// How log lines are written
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub(super) log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    Text,
    Json,
}

/// Where a broker listens if neither options nor settings say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DefaultPort {
    /// Where the settings say, by default on Kafka's port.
    Settings,
    /// On a free port of localhost, whatever the settings say.
    Free,
}

impl BrokerArgs {
    /// What to start a broker with, and what to warn of.
    pub(super) fn options(&self, default: DefaultPort) -> Result<(BrokerOptions, Vec<String>), Failure> {
        let Settings { broker, configs, mut warnings } = self.settings()?;
        let mut listeners = self.listeners()?;
        if listeners.is_none() && default == DefaultPort::Free {
            listeners = Some(vec![localhost(0)]);
        }
        if let Some(text) = &self.advertise {
            let advertised = parse_advertised(text)
                .map_err(|error| Failure::usage(format_args!("--advertise {text}: {error}")))?;
            let listeners = listeners.get_or_insert(broker.listeners);
            if listeners.len() > 1 && advertised.port != 0 {
                let message =
                    "one port can't lead to several listeners: leave it out, or set advertised.listeners";
                return Err(Failure::usage(format_args!("--advertise {text}: {message}")));
            }
            listeners.iter_mut().for_each(|listener| listener.advertised = Some(advertised.clone()));
        }
        let topics = self.topic.iter().map(|text| parse_topic(text)).collect::<Result<_, _>>()?;
        let wrong = |error| Failure::usage(format_args!("--control: {error}"));
        let control = self.control.as_deref().map(parse_control).transpose().map_err(wrong)?;
        let defaults = BrokerOptions::default();
        let seed = self.seed.unwrap_or(defaults.seed);
        let broker_configs = self.broker_configs(&mut warnings)?;
        let brokers = self.brokers;
        let options = BrokerOptions {
            configs,
            listeners,
            brokers,
            broker_configs,
            topics,
            seed,
            pace: self.clock,
            control,
            ..defaults
        };
        Ok((options, warnings))
    }

    /// The settings that single brokers have of their own.
    fn broker_configs(&self, warnings: &mut Vec<String>) -> Result<BTreeMap<NodeId, Overrides>, Failure> {
        let mut broker_configs = BTreeMap::new();
        for text in &self.broker_config {
            let wrong = |error: &dyn std::fmt::Display| {
                Failure::usage(format_args!("--broker-config {text}: {error}"))
            };
            let (id, path) = text.split_once('=').ok_or_else(|| wrong(&"must be ID=FILE"))?;
            let id = id.trim().parse().map_err(|_| wrong(&format_args!("'{id}' is not a broker's id")))?;
            let properties = read_properties(Path::new(path)).map_err(|error| wrong(&error))?;
            let file = SourceFile { name: path, text: &properties };
            let own = settings::load_file(file, warnings).map_err(Failure::usage)?;
            if broker_configs.insert(NodeId(id), own).is_some() {
                return Err(wrong(&"the broker has another file already"));
            }
        }
        Ok(broker_configs)
    }

    fn settings(&self) -> Result<Settings, Failure> {
        let file = match &self.config {
            None => None,
            Some(path) => {
                let text = read_properties(path)
                    .map_err(|error| Failure::usage(format_args!("--config {}: {error}", path.display())))?;
                Some((path.display().to_string(), text))
            }
        };
        let environment: Vec<(String, String)> = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("KAFKA_"))
            .collect();
        let mut sets = self.set.clone();
        if let Some(text) = &self.memory {
            let bytes = parse_size(text).ok_or_else(|| {
                Failure::usage(format_args!(
                    "--memory {text}: must be a number of bytes, or of K, M, G or T, below 16 EiB"
                ))
            })?;
            check_memory(text, bytes)?;
            sets.push(format!("{LOG_MEMORY_BYTES}={bytes}"));
        }
        let file = file.as_ref().map(|(name, text)| SourceFile { name, text });
        settings::load(&Sources { file, environment: &environment, sets: &sets }).map_err(Failure::usage)
    }

    /// The listeners that options ask for. Those without a name of their own get one each, since clients are told
    /// the address of the listener that they came to.
    fn listeners(&self) -> Result<Option<Vec<Listener>>, Failure> {
        if let Some(port) = self.port {
            return Ok(Some(vec![localhost(port)]));
        }
        let mut listeners: Vec<Listener> = Vec::new();
        for text in &self.listen {
            let wrong =
                |error: &dyn std::fmt::Display| Failure::usage(format_args!("--listen {text}: {error}"));
            let mut listener = parse_listener(text).map_err(|error| wrong(&error))?;
            let is_taken = |name: &str| listeners.iter().any(|other| other.name == name);
            if is_taken(&listener.name) {
                if text.contains("://") {
                    return Err(wrong(&"another listener has the same name"));
                }
                let numbered = (2..).map(|number| format!("{DEFAULT_LISTENER}_{number}"));
                listener.name = numbered.into_iter().find(|name| !is_taken(name)).unwrap_or_default();
            }
            listeners.push(listener);
        }
        Ok((!listeners.is_empty()).then_some(listeners))
    }
}

/// The most bytes of a file of settings (ours).
const MAX_PROPERTIES_BYTES: u64 = 1 << 20;

fn read_properties(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_PROPERTIES_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_PROPERTIES_BYTES {
        let what = format!("is larger than {MAX_PROPERTIES_BYTES} bytes, which no file of settings is");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
    }
    // As Java reads a properties file: each byte is a character of Latin-1, unless the whole is UTF-8.
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| error.as_bytes().iter().copied().map(char::from).collect()))
}

fn parse_topic(text: &str) -> Result<NewTopic, Failure> {
    match text.rsplit_once(':') {
        None => Ok(new_topic(text, -1)),
        Some((name, count)) => match count.parse::<i32>() {
            Ok(partitions @ 1..) => Ok(new_topic(name, partitions)),
            _ => Err(Failure::usage(format_args!("--topic {text}: '{count}' is not a number of partitions"))),
        },
    }
}

/// Whether the setting behind `--memory` takes so much; if not, the option that was given is to be named.
fn check_memory(text: &str, bytes: u64) -> Result<(), Failure> {
    let checked = Overrides::parse(Resource::Broker, [(LOG_MEMORY_BYTES, bytes.to_string().as_str())]);
    checked.map(drop).map_err(|error| match error {
        ConfigError::InvalidValue { allowed, .. } => {
            Failure::usage(format_args!("--memory {text}: must be, in bytes, {allowed}"))
        }
        error => Failure::usage(format_args!("--memory {text}: {error}")),
    })
}

/// Bytes, or 1024s of them: `K`, `M`, `G` or `T`, which may be followed by `B` or `iB`.
fn parse_size(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let unit = unit.trim().to_ascii_uppercase();
    let power = match unit.trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 1,
        "M" => 2,
        "G" => 3,
        "T" => 4,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1024u64.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::DEFAULT_PORT;

    #[test]
    fn sizes_are_bytes_or_powers_of_1024() {
        for (text, bytes) in [("0", 0), ("1048576", 1 << 20), ("64K", 64 << 10), ("512m", 512 << 20)] {
            assert_eq!(parse_size(text), Some(bytes), "{text}");
        }
        for text in ["2G", "2GB", "2GiB", "2 g"] {
            assert_eq!(parse_size(text), Some(2 << 30), "{text}");
        }
        for text in ["", "G", "1.5G", "-1", "1X", "99999999999T"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
    }

    #[test]
    fn too_little_memory_is_the_options_fault() {
        let Err(failure) = check_memory("0", 0) else { panic!("0 bytes are too few") };
        assert!(failure.message.starts_with("--memory 0: must be"), "{}", failure.message);
        assert!(check_memory("1M", 1 << 20).is_ok());
    }

    #[test]
    fn topics_have_a_name_and_perhaps_partitions() {
        let topic = |text| parse_topic(text).map(|topic| (topic.name, topic.partitions)).ok();
        assert_eq!(topic("a.b"), Some(("a.b".to_owned(), -1)));
        assert_eq!(topic("a:12"), Some(("a".to_owned(), 12)));
        for text in ["a:", "a:0", "a:-1", "a:many"] {
            assert_eq!(topic(text), None, "{text}");
        }
    }

    #[test]
    fn listeners_get_names_of_their_own() {
        let args = |listen: &[&str]| BrokerArgs {
            port: None,
            listen: listen.iter().map(ToString::to_string).collect(),
            advertise: None,
            config: None,
            set: Vec::new(),
            topic: Vec::new(),
            memory: None,
            seed: None,
            brokers: 1,
            broker_config: Vec::new(),
            clock: Pace::Machine,
            control: None,
            log_format: LogFormat::Text,
        };
        let names = |listen: &[&str]| {
            let listeners = args(listen).listeners().ok()??;
            Some(listeners.into_iter().map(|listener| listener.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&[]), None);
        assert_eq!(names(&["[::]:0", "127.0.0.1:0"]).unwrap(), ["PLAINTEXT", "PLAINTEXT_2"]);
        assert_eq!(names(&["a://:1", "A://:2"]), None);
        assert_eq!(args(&["a://:1"]).listeners().unwrap().unwrap()[0].port, 1);
        assert_eq!(DEFAULT_PORT, args(&["localhost"]).listeners().unwrap().unwrap()[0].port);
    }
}
