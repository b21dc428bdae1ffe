//! Settings from everywhere a user can put them: a `server.properties`, `KAFKA_*` variables, `--set key=value`; each
//! stronger than the one before. Texts come in; reading files and the environment is the caller's.

use std::collections::BTreeMap;
use std::fmt;

use super::properties;
use crate::controller::configs::{
    BrokerConfigs, BrokerSettings, ConfigError, ForeignKey, Overrides, Resource, foreign_key,
};

/// Where settings are looked for, in rising strength.
#[derive(Clone, Debug, Default)]
pub struct Sources<'a> {
    /// A properties file.
    pub file: Option<SourceFile<'a>>,
    /// The environment; what doesn't begin with `KAFKA_` is passed over.
    pub environment: &'a [(String, String)],
    /// `key=value`, in the order of the command line.
    pub sets: &'a [String],
}

/// A file's name, for messages, and what is in it.
#[derive(Clone, Copy, Debug)]
pub struct SourceFile<'a> {
    /// As the user wrote it.
    pub name: &'a str,
    /// The text in Java's properties syntax.
    pub text: &'a str,
}

/// What the sources amount to.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The settings, typed.
    pub broker: BrokerSettings,
    /// The same as Kafka's configs: what DescribeConfigs shows, and what topics inherit.
    pub configs: BrokerConfigs,
    /// What the user should know, one line each.
    pub warnings: Vec<String>,
}

/// Everything that is wrong with the settings; at least one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", lines(.0))]
pub struct SettingsErrors(pub Vec<SettingsError>);

/// One thing that is wrong, and where. Its text is one line such as
/// `server.properties:7: num.partitions=many: the value must be a whole number between 1 and 2147483647`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// A value that can't be, or that doesn't go with another one.
    #[error("{origin}: {error}")]
    Config {
        /// Where the value was set.
        origin: Origin,
        /// What is wrong with it.
        error: ConfigError,
    },
    /// A file that isn't in properties syntax.
    #[error("{origin}: {error}")]
    Syntax {
        /// The line.
        origin: Origin,
        /// What is wrong with it.
        error: properties::MalformedEscape,
    },
    /// A `--set` without `=` or without a key.
    #[error("--set {text}: must be key=value")]
    NotAPair {
        /// What was given.
        text: String,
    },
}

/// Where a setting stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In a file.
    File {
        /// The file as the user wrote it.
        name: String,
        /// The line, from 1.
        line: usize,
    },
    /// In an environment variable of this name.
    Variable(String),
    /// After `--set`.
    CommandLine,
    /// Nowhere: the default.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { name, line } => write!(f, "{name}:{line}"),
            Origin::Variable(name) => f.write_str(name),
            Origin::CommandLine => f.write_str("--set"),
            Origin::Default => f.write_str("default"),
        }
    }
}

/// Reads all sources.
///
/// Keys that Kafka has or had are accepted even where they concern nothing that huld does; others give a warning. Of
/// a key that is set more than once the strongest counts; the weaker ones aren't even parsed, as in Kafka.
///
/// # Errors
/// All that is wrong, each with its place.
pub fn load(sources: &Sources<'_>) -> Result<Settings, SettingsErrors> {
    let mut errors = Vec::new();
    let entries = gather(sources, &mut errors);
    let mut warnings = Vec::new();
    let fixed = check(&entries, errors, &mut warnings)?;
    let configs = BrokerConfigs::started_with(fixed);
    match BrokerSettings::resolve(&configs) {
        Ok(broker) => Ok(Settings { broker, configs, warnings }),
        Err(error) => {
            let origin = |key: &str| entries.get(key).map(|entry| entry.origin.clone());
            let origin = error.keys().into_iter().find_map(origin).unwrap_or(Origin::Default);
            Err(SettingsErrors(vec![SettingsError::Config { origin, error }]))
        }
    }
}

/// Reads a file of settings that one broker has of its own.
///
/// # Errors
/// All that is wrong, each with its place.
pub fn load_file(file: SourceFile<'_>, warnings: &mut Vec<String>) -> Result<Overrides, SettingsErrors> {
    let mut errors = Vec::new();
    let entries = gather(&Sources { file: Some(file), ..Sources::default() }, &mut errors);
    check(&entries, errors, warnings)
}

/// Parses every value by itself.
fn check(
    entries: &BTreeMap<String, Entry>,
    mut errors: Vec<SettingsError>,
    warnings: &mut Vec<String>,
) -> Result<Overrides, SettingsErrors> {
    let mut fixed = Overrides::default();
    for (key, Entry { origin, text }) in entries {
        match fixed.set(Resource::Broker, key, text) {
            Ok(()) => {}
            Err(ConfigError::UnknownKey { .. }) => warnings.extend(unknown(key, origin)),
            Err(error) => errors.push(SettingsError::Config { origin: origin.clone(), error }),
        }
    }
    if errors.is_empty() { Ok(fixed) } else { Err(SettingsErrors(errors)) }
}

/// The key that a variable sets, by the rules of Kafka's Docker image (`KafkaDockerWrapper`): in small letters and
/// without `KAFKA_`; three underscores stand for `-`, two for `_`, one for `.`. None for variables that are meant for
/// the image's scripts.
pub fn variable_key(name: &str) -> Option<String> {
    let rest = name.strip_prefix("KAFKA_").filter(|_| !NOT_SETTINGS.contains(&name))?;
    Some(rest.to_lowercase().replace('_', ".").replace("...", "-").replace("..", "_"))
}

/// `KAFKA_*` variables that set nothing of the broker: those that Kafka's image excludes, and some that other images
/// and shells have.
const NOT_SETTINGS: &[&str] = &[
    "KAFKA_BOOTSTRAP_SERVERS",
    "KAFKA_GC_LOG_OPTS",
    "KAFKA_HEAP_OPTS",
    "KAFKA_HOME",
    "KAFKA_JMX_HOSTNAME",
    "KAFKA_JMX_OPTS",
    "KAFKA_JMX_PORT",
    "KAFKA_JVM_PERFORMANCE_OPTS",
    "KAFKA_LOG4J_LOGGERS",
    "KAFKA_LOG4J_OPTS",
    "KAFKA_LOG4J_ROOT_LOGLEVEL",
    "KAFKA_OPTS",
    "KAFKA_TOOLS_LOG4J_LOGLEVEL",
    "KAFKA_VERSION",
];

struct Entry {
    origin: Origin,
    text: String,
}

/// The strongest text for each key.
fn gather(sources: &Sources<'_>, errors: &mut Vec<SettingsError>) -> BTreeMap<String, Entry> {
    let mut entries = BTreeMap::new();
    if let Some(file) = sources.file {
        let at = |line| Origin::File { name: file.name.to_owned(), line };
        match properties::parse(file.text) {
            Ok(found) => {
                entries.extend(found.into_iter().map(|property| {
                    (property.key, Entry { origin: at(property.line), text: property.value })
                }))
            }
            Err(error) => errors.push(SettingsError::Syntax { origin: at(error.line), error }),
        }
    }
    let mut variables: Vec<_> = sources.environment.iter().collect();
    variables.sort();
    for (name, text) in variables {
        if let Some(key) = variable_key(name).filter(|key| !key.is_empty()) {
            entries.insert(key, Entry { origin: Origin::Variable(name.clone()), text: text.clone() });
        }
    }
    for set in sources.sets {
        match set.split_once('=').map(|(key, text)| (key.trim(), text)) {
            Some((key, text)) if !key.is_empty() => {
                entries.insert(key.to_owned(), Entry { origin: Origin::CommandLine, text: text.to_owned() });
            }
            _ => errors.push(SettingsError::NotAPair { text: set.clone() }),
        }
    }
    entries
}

fn unknown(key: &str, origin: &Origin) -> Option<String> {
    match foreign_key(key) {
        Some(ForeignKey::Harmless) => None,
        Some(ForeignKey::Superseded(instead)) => {
            Some(format!("{origin}: {key} is no setting of Kafka any more and has no effect: {instead}"))
        }
        None => Some(match Resource::Topic.key(key).and_then(|key| key.broker_synonyms.first()) {
            Some(synonym) => {
                format!(
                    "{origin}: {key} is a topic's setting and has no effect: for all topics set {}",
                    synonym.name
                )
            }
            None => {
                let guess = similar(key).map(|name| format!("; did you mean {name}?")).unwrap_or_default();
                format!("{origin}: {key} is not a known setting and has no effect{guess}")
            }
        }),
    }
}

/// The setting that a misspelt one was probably meant to be: at most two letters off.
fn similar(key: &str) -> Option<&'static str> {
    let names = Resource::Broker.keys().map(|key| key.name);
    names
        .map(|name| (distance(key, name), name))
        .filter(|(distance, _)| *distance <= 2)
        .min()
        .map(|(_, name)| name)
}

/// How many letters must be put in, taken out or replaced to get from one word to the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, a) in from.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, b) in to.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

fn lines(errors: &[SettingsError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::NodeId;
    use crate::controller::configs::{Endpoint, ListenHost, TopicConfig};

    fn file(text: &str) -> Sources<'_> {
        Sources { file: Some(SourceFile { name: "server.properties", text }), ..Sources::default() }
    }

    fn error(sources: &Sources<'_>) -> String {
        load(sources).unwrap_err().to_string()
    }

    #[test]
    fn nothing_set_is_kafkas_defaults() {
        let settings = load(&Sources::default()).unwrap();
        assert_eq!(settings.broker, BrokerSettings::default());
        assert!(settings.warnings.is_empty());
    }

    #[test]
    fn each_source_is_stronger_than_the_one_before() {
        let environment = [
            ("KAFKA_NUM_PARTITIONS".to_owned(), "2".to_owned()),
            ("KAFKA_NODE_ID".to_owned(), "2".to_owned()),
            ("PATH".to_owned(), "/bin".to_owned()),
        ];
        let sets = ["num.partitions=3".to_owned(), "num.partitions = 4".to_owned()];
        let mut sources = file("num.partitions=1x\nnode.id=1\nbroker.rack=a");
        sources.environment = &environment;
        sources.sets = &sets;
        let broker = load(&sources).unwrap().broker;
        assert_eq!((broker.topics.num_partitions, broker.node_id), (4, NodeId(2)));
        assert_eq!(broker.rack.as_deref(), Some("a"));
    }

    #[test]
    fn variables_are_named_as_in_kafkas_image() {
        for (name, key) in [
            ("KAFKA_LISTENERS", Some("listeners")),
            ("KAFKA_A_B", Some("a.b")),
            ("KAFKA_A__B", Some("a_b")),
            ("KAFKA_A___B", Some("a-b")),
            ("KAFKA_A____B", Some("a-.b")),
            ("KAFKA_A_____B", Some("a-_b")),
            ("KAFKA_A______B", Some("a--b")),
            ("KAFKA_HEAP_OPTS", None),
            ("kafka_z", None),
            ("HOME", None),
        ] {
            assert_eq!(variable_key(name).as_deref(), key, "{name}");
        }
    }

    #[test]
    fn a_bad_value_is_named_with_its_place_and_what_is_allowed() {
        assert_eq!(
            error(&file("# head\nnode.id=1\nnum.partitions=many\nlog.retention.ms=\n")),
            "server.properties:4: log.retention.ms=: the value must be a whole number between \
             -9223372036854775808 and 9223372036854775807\n\
             server.properties:3: num.partitions=many: the value must be a whole number between 1 and 2147483647"
        );
        let environment = [("KAFKA_COMPRESSION_TYPE".to_owned(), "brotli".to_owned())];
        assert_eq!(
            error(&Sources { environment: &environment, ..Sources::default() }),
            "KAFKA_COMPRESSION_TYPE: compression.type=brotli: the value must be one of uncompressed, zstd, lz4, \
             snappy, gzip, producer"
        );
        let sets = ["delete.topic.enable=yes".to_owned(), "oops".to_owned(), "=1".to_owned()];
        assert_eq!(
            error(&Sources { sets: &sets, ..Sources::default() }),
            "--set oops: must be key=value\n--set =1: must be key=value\n\
             --set: delete.topic.enable=yes: the value must be true or false"
        );
        assert_eq!(
            error(&file("\na=\\u12")),
            "server.properties:2: \\u must be followed by four hexadecimal digits"
        );
    }

    #[test]
    fn values_that_do_not_go_together_are_named_with_a_place() {
        let text = "broker.id=4\ngroup.max.session.timeout.ms=5\nnode.id=4";
        assert!(
            error(&file(text)).starts_with("server.properties:2: group.min.session.timeout.ms=6000 does not")
        );
        let text = "listeners=PLAINTEXT://:9092\nadvertised.listeners=PLAINTEXT://0.0.0.0:9092";
        assert_eq!(
            error(&file(text)),
            "server.properties:2: advertised.listeners=PLAINTEXT://0.0.0.0:9092: the value must be an address that \
             clients can connect to: a wildcard is none"
        );
    }

    #[test]
    fn a_password_is_not_repeated() {
        let text = "listener.name.x.ssl.key.password=geheim\nssl.keystore.password=geheim";
        let settings = load(&file(text)).unwrap();
        assert!(!format!("{settings:?}").contains("geheim"));
    }

    #[test]
    fn unknown_keys_warn_once_each() {
        let environment = [("KAFKA_NO_SUCH_KEY".to_owned(), "2".to_owned())];
        let mut sources =
            file("no.such.key=1\nno.such.key=2\nretention.ms=5\nport=9093\nzookeeper.connect=z:2181");
        sources.environment = &environment;
        assert_eq!(
            load(&sources).unwrap().warnings,
            [
                "KAFKA_NO_SUCH_KEY: no.such.key is not a known setting and has no effect",
                "server.properties:4: port is no setting of Kafka any more and has no effect: set listeners",
                "server.properties:3: retention.ms is a topic's setting and has no effect: for all topics set \
                 log.retention.ms",
            ]
        );
    }

    #[test]
    fn a_misspelt_key_is_guessed() {
        let warnings = load(&file("num.partition=2\nlog.retetnion.ms=5\nx=1")).unwrap().warnings;
        let ends: Vec<_> = warnings.iter().map(|line| line.split("has no effect").last()).collect();
        let guesses = ["; did you mean log.retention.ms?", "; did you mean num.partitions?", ""];
        assert_eq!(ends, guesses.map(Some));
    }

    #[test]
    fn files_written_for_kafka_start() {
        let kraft = load(&file(include_str!("../../fixtures/configs/kraft-combined.properties"))).unwrap();
        assert_eq!(kraft.warnings, Vec::<String>::new());
        let [listener] = kraft.broker.listeners.as_slice() else { panic!("{:?}", kraft.broker.listeners) };
        assert_eq!(
            (listener.name.as_str(), &listener.host, listener.port),
            ("PLAINTEXT", &ListenHost::All, 9092)
        );
        assert_eq!(listener.advertised, Some(Endpoint { host: "localhost".to_owned(), port: 9092 }));
        assert_eq!(TopicConfig::defaults(&kraft.configs).retention_ms, Some(168 * 3_600_000));

        let zookeeper = load(&file(include_str!("../../fixtures/configs/zookeeper.properties"))).unwrap();
        assert_eq!(zookeeper.warnings, Vec::<String>::new());
        assert_eq!(zookeeper.broker.node_id, NodeId(0));
        assert_eq!(zookeeper.broker.topics.num_partitions, 3);

        let docker: Vec<(String, String)> = include_str!("../../fixtures/configs/docker.env")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect();
        let docker = load(&Sources { environment: &docker, ..Sources::default() }).unwrap();
        assert_eq!(docker.warnings, Vec::<String>::new());
        let names: Vec<_> = docker.broker.listeners.iter().map(|listener| listener.name.as_str()).collect();
        assert_eq!(names, ["PLAINTEXT_HOST", "PLAINTEXT"]);
        assert_eq!(docker.broker.offsets.topic_replication_factor, 1);
    }
}
