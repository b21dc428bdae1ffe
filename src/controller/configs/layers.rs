//! Who has set what: overrides of one resource, and the layers that a broker's effective configs are made of.

use std::collections::BTreeMap;
use std::fmt;

use super::key::Key;
use super::tables::Resource;
use super::value::{ConfigError, Value, parse};
use crate::base::NodeId;

/// Values that were set for one resource, each checked, in the order of their keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Overrides {
    entries: BTreeMap<Box<str>, Override>,
}

/// One value that was set.
#[derive(Clone, PartialEq)]
pub struct Override {
    /// As it was written: Kafka shows it so in synonyms and in CreateTopics' answer.
    pub text: Box<str>,
    /// What it means.
    pub value: Value,
}

impl fmt::Debug for Override {
    /// Without the text, which may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.value, f)
    }
}

impl Overrides {
    /// Nothing.
    pub const NONE: &'static Overrides = &Overrides { entries: BTreeMap::new() };

    /// Checks each pair by itself; of a key that comes twice the last one counts.
    ///
    /// # Errors
    /// The first [`ConfigError::UnknownKey`] or [`ConfigError::InvalidValue`]. What must hold between keys is
    /// another check: [`super::TopicConfig::check`].
    pub fn parse<'a>(
        resource: Resource,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ConfigError> {
        let mut overrides = Overrides::default();
        for (name, text) in pairs {
            overrides.set(resource, name, text)?;
        }
        Ok(overrides)
    }

    /// Sets one value.
    ///
    /// # Errors
    /// [`ConfigError::UnknownKey`] or [`ConfigError::InvalidValue`]; nothing has changed then.
    pub fn set(&mut self, resource: Resource, name: &str, text: &str) -> Result<(), ConfigError> {
        let unknown = || ConfigError::UnknownKey { key: name.to_owned(), resource: resource.name() };
        let key = resource.key(name).ok_or_else(unknown)?;
        let value = parse(key, text)?;
        self.entries.insert(name.into(), Override { text: text.into(), value });
        Ok(())
    }

    /// Sets all that `others` have, over what there was.
    pub fn extend(&mut self, others: &Overrides) {
        self.entries.extend(others.entries.clone());
    }

    /// Takes a value away; whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.entries.remove(name).is_some()
    }

    /// What was set for this key.
    pub fn get(&self, name: &str) -> Option<&Override> {
        self.entries.get(name)
    }

    /// All that was set, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Override)> {
        self.entries.iter().map(|(name, entry)| (&**name, entry))
    }

    /// Whether nothing was set.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

/// Where a value comes from: Kafka's `DescribeConfigsResponse.ConfigSource`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum ConfigSource {
    /// Set for the topic.
    DynamicTopic = 1,
    /// Set for this broker while it ran.
    DynamicBroker = 2,
    /// Set for all brokers while they ran.
    DynamicDefaultBroker = 3,
    /// Set when the broker started: file, environment, command line.
    StaticBroker = 4,
    /// Kafka's default.
    Default = 5,
    /// A logger's level.
    DynamicBrokerLogger = 6,
    /// Set for a client-metrics subscription.
    ClientMetrics = 7,
    /// Set for a group.
    Group = 8,
}

impl ConfigSource {
    /// The number on the wire.
    pub const fn code(self) -> i8 {
        self as i8
    }

    /// The name in Kafka's spelling.
    pub const fn name(self) -> &'static str {
        match self {
            ConfigSource::DynamicTopic => "DYNAMIC_TOPIC_CONFIG",
            ConfigSource::DynamicBroker => "DYNAMIC_BROKER_CONFIG",
            ConfigSource::DynamicDefaultBroker => "DYNAMIC_DEFAULT_BROKER_CONFIG",
            ConfigSource::StaticBroker => "STATIC_BROKER_CONFIG",
            ConfigSource::Default => "DEFAULT_CONFIG",
            ConfigSource::DynamicBrokerLogger => "DYNAMIC_BROKER_LOGGER_CONFIG",
            ConfigSource::ClientMetrics => "DYNAMIC_CLIENT_METRICS_CONFIG",
            ConfigSource::Group => "DYNAMIC_GROUP_CONFIG",
        }
    }
}

/// The layers of one broker's configs, weakest last: its own dynamic ones, those of all brokers, and what it was
/// started with. Below them lie the defaults of the tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BrokerConfigs {
    /// Set for this broker while it runs.
    pub dynamic: Overrides,
    /// Set for all brokers while they run.
    pub dynamic_default: Overrides,
    /// What the broker was started with.
    pub fixed: Overrides,
}

impl BrokerConfigs {
    /// The configs of a broker that was started with these and on which nothing was changed since. Its id is there
    /// under both of its names, as Kafka has it; broker 1 where neither is set.
    pub fn started_with(fixed: Overrides) -> Self {
        let mut configs = BrokerConfigs { fixed, ..BrokerConfigs::default() };
        let id = |name: &str| configs.fixed.get(name).filter(|set| set.value != Value::Integer(-1)).cloned();
        let one = Override { text: "1".into(), value: Value::Integer(1) };
        let (id, older) = (id("node.id"), id("broker.id"));
        let default = id.clone().or_else(|| older.clone()).unwrap_or(one);
        configs.fixed.entries.insert("node.id".into(), id.unwrap_or_else(|| default.clone()));
        configs.fixed.entries.insert("broker.id".into(), older.unwrap_or(default));
        configs
    }

    /// The same configs for another broker of the cluster.
    pub fn for_node(&self, id: NodeId) -> Self {
        let mut configs = self.clone();
        for name in ["node.id", "broker.id"] {
            let set = Override { text: id.0.to_string().into(), value: Value::Integer(id.0.into()) };
            configs.fixed.entries.insert(name.into(), set);
        }
        configs
    }

    /// The layers with their sources, strongest first.
    pub fn layers(&self) -> [(ConfigSource, &Overrides); 3] {
        [
            (ConfigSource::DynamicBroker, &self.dynamic),
            (ConfigSource::DynamicDefaultBroker, &self.dynamic_default),
            (ConfigSource::StaticBroker, &self.fixed),
        ]
    }

    /// What the strongest layer says about a broker key, if any does.
    pub fn set(&self, name: &str) -> Option<&Override> {
        self.layers().iter().find_map(|(_, layer)| layer.get(name))
    }

    /// The effective value of a broker key; `None` where it is not set and has no default.
    pub fn value(&self, key: &Key) -> Option<Value> {
        self.set(key.name).map(|set| set.value.clone()).or_else(|| default_value(key))
    }

    /// The effective value of a topic key for topics that don't set it: of its synonyms, the first that any layer
    /// sets, in the topic key's unit; else the default (`KafkaConfig.extractLogConfigMap`).
    pub fn topic_default(&self, key: &Key) -> Option<Value> {
        let set = key.broker_synonyms.iter().find_map(|synonym| {
            self.set(synonym.name).map(|set| in_topic_unit(key, &set.value, synonym.factor))
        });
        set.or_else(|| default_value(key))
    }
}

/// The default of a key as a value.
pub(super) fn default_value(key: &Key) -> Option<Value> {
    key.default.and_then(|text| parse(key, text).ok())
}

/// A broker's value in the unit of the topic key. Any negative retention means "no limit", which is -1
/// (`KafkaConfig.logRetentionTimeMillis`).
fn in_topic_unit(key: &Key, value: &Value, factor: i64) -> Value {
    match value {
        Value::Integer(number) if key.name == "retention.ms" && *number < 0 => Value::Integer(-1),
        Value::Integer(number) => Value::Integer(number.saturating_mul(factor)),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_value_names_key_value_and_what_is_allowed() {
        let error = Overrides::parse(Resource::Topic, [("retention.ms", "-5")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "retention.ms=-5: the value must be a whole number between -1 and 9223372036854775807"
        );
        let error = Overrides::parse(Resource::Topic, [("prefix", "x")]).unwrap_err();
        assert_eq!(error.to_string(), "prefix is not a configuration key of a topic");
        let error = Overrides::parse(Resource::Topic, [("cleanup.policy", "compact,drop")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cleanup.policy=compact,drop: the value must be a list of compact, delete"
        );
    }

    #[test]
    fn a_refused_value_changes_nothing() {
        let mut overrides = Overrides::parse(Resource::Topic, [("retention.ms", "5")]).unwrap();
        let before = overrides.clone();
        assert!(overrides.set(Resource::Topic, "retention.ms", "five").is_err());
        assert_eq!(overrides, before);
        assert!(overrides.remove("retention.ms") && overrides.is_empty());
    }

    #[test]
    fn listener_prefixed_keys_are_checked_as_the_key_behind() {
        let mut overrides = Overrides::default();
        overrides.set(Resource::Broker, "listener.name.internal.max.connections", "5").unwrap();
        overrides.set(Resource::Broker, "listener.name.internal.plain.sasl.jaas.config", "secret").unwrap();
        assert!(overrides.set(Resource::Broker, "listener.name.internal.max.connections", "-5").is_err());
        assert!(overrides.set(Resource::Broker, "listener.name.internal.no.such.key", "5").is_err());
        assert!(!format!("{overrides:?}").contains("secret"));
    }

    #[test]
    fn topic_defaults_follow_the_strongest_layer_and_the_finest_unit() {
        let key = Resource::Topic.key("retention.ms").unwrap();
        let broker =
            |pairs: &[(&str, &str)]| Overrides::parse(Resource::Broker, pairs.iter().copied()).unwrap();
        let mut configs = BrokerConfigs::default();
        assert_eq!(configs.topic_default(key), Some(Value::Integer(604_800_000)));
        configs.fixed = broker(&[("log.retention.hours", "2"), ("log.retention.minutes", "3")]);
        assert_eq!(configs.topic_default(key), Some(Value::Integer(180_000)));
        configs.fixed = broker(&[("log.retention.hours", "-7")]);
        assert_eq!(configs.topic_default(key), Some(Value::Integer(-1)));
        configs.dynamic_default = broker(&[("log.retention.ms", "9")]);
        assert_eq!(configs.topic_default(key), Some(Value::Integer(9)));
        configs.dynamic = broker(&[("log.retention.ms", "8")]);
        assert_eq!(configs.topic_default(key), Some(Value::Integer(8)));
    }
}
