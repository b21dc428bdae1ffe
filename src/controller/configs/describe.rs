//! Configs as DescribeConfigs and CreateTopics show them.

use std::borrow::Cow;

use super::key::Key;
use super::layers::{BrokerConfigs, ConfigSource, Overrides};
use super::tables::Resource;

/// One config of a resource, as it is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedConfig {
    /// The key's name.
    pub name: Cow<'static, str>,
    /// The key, with type and documentation.
    pub key: &'static Key,
    /// The value as text; none if there is none, or if it is sensitive.
    pub value: Option<Cow<'static, str>>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether it can't be changed while the broker runs.
    pub read_only: bool,
    /// Whether the value is kept back.
    pub is_sensitive: bool,
    /// Everything that says something about the value, strongest first.
    pub synonyms: Vec<DescribedSynonym>,
}

/// One of the places that a value could come from.
#[derive(Clone, Debug, PartialEq)]
pub struct DescribedSynonym {
    /// The key in that place.
    pub name: Cow<'static, str>,
    /// The value in that place; none if it is sensitive.
    pub value: Option<Cow<'static, str>>,
    /// The place.
    pub source: ConfigSource,
}

impl DescribedConfig {
    /// Whether it is the default: DescribeConfigs v0 says so instead of naming the source.
    pub fn is_default(&self) -> bool {
        self.source == ConfigSource::Default
    }
}

/// The configs of a topic for DescribeConfigs (`ConfigHelper.createTopicConfigEntry`), by name. `names` picks some;
/// none or an empty list means all; unknown names are left out.
pub fn describe_topic(
    overrides: &Overrides,
    brokers: &BrokerConfigs,
    names: Option<&[&str]>,
) -> Vec<DescribedConfig> {
    selected(Resource::Topic, |name| overrides.get(name).is_some(), names)
        .map(|key| {
            let own = overrides.get(key.name).map(|set| DescribedSynonym {
                name: key.name.into(),
                value: Some(set.value.to_string().into()),
                source: ConfigSource::DynamicTopic,
            });
            let value = match overrides.get(key.name) {
                Some(set) => Some(set.value.to_string().into()),
                None => topic_default_text(key, brokers),
            };
            // Only the first synonym is looked for, and what comes before it is left out: Kafka then shows a value
            // that log.retention.hours has set as a default.
            let inherited =
                key.broker_synonyms.first().and_then(|synonym| Resource::Broker.key(synonym.name));
            let inherited = inherited.map(|first| broker_synonyms(first, brokers)).unwrap_or_default();
            let synonyms: Vec<_> = own.into_iter().chain(inherited).collect();
            let source = synonyms.first().map_or(ConfigSource::Default, |synonym| synonym.source);
            DescribedConfig {
                name: key.name.into(),
                key,
                value,
                source,
                read_only: false,
                is_sensitive: false,
                synonyms,
            }
        })
        .collect()
}

/// The configs of a topic for CreateTopics' answer (`KafkaConfigSchema.resolveEffectiveTopicConfigs`), by name.
/// Unlike DescribeConfigs it shows values as they were written, and names the layer in which any synonym was set.
pub fn describe_created_topic(overrides: &Overrides, brokers: &BrokerConfigs) -> Vec<DescribedConfig> {
    selected(Resource::Topic, |name| overrides.get(name).is_some(), None)
        .map(|key| {
            let own =
                overrides.get(key.name).map(|set| (set.text.to_string().into(), ConfigSource::DynamicTopic));
            let in_layer = |layer: &Overrides| -> Option<Cow<'static, str>> {
                key.broker_synonyms.iter().find_map(|synonym| {
                    let set = layer.get(synonym.name)?;
                    Some(match (&set.value, synonym.factor) {
                        (super::value::Value::Integer(number), factor) if factor != 1 => {
                            number.saturating_mul(factor).to_string().into()
                        }
                        _ => set.text.to_string().into(),
                    })
                })
            };
            let inherited = || {
                let layers = brokers.layers();
                layers.into_iter().find_map(|(source, layer)| in_layer(layer).map(|text| (text, source)))
            };
            let default = || (key.default.unwrap_or_default().into(), ConfigSource::Default);
            let (text, source) = own.or_else(inherited).unwrap_or_else(default);
            DescribedConfig {
                name: key.name.into(),
                key,
                value: Some(text),
                source,
                read_only: false,
                is_sensitive: false,
                synonyms: Vec::new(),
            }
        })
        .collect()
}

/// The configs of one broker for DescribeConfigs (`ConfigHelper.createBrokerConfigEntry`), by name. `names` picks
/// some; none or an empty list means all; unknown names are left out.
pub fn describe_broker(brokers: &BrokerConfigs, names: Option<&[&str]>) -> Vec<DescribedConfig> {
    selected(Resource::Broker, |name| brokers.set(name).is_some(), names)
        .map(|key| {
            let synonyms = broker_synonyms(key, brokers);
            let value = match brokers.set(key.name).filter(|_| !is_overridden(key.name, brokers)) {
                Some(set) => Some(set.value.to_string().into()),
                None => key.default.map(Cow::Borrowed),
            };
            let source = synonyms.first().map_or(ConfigSource::Default, |synonym| synonym.source);
            DescribedConfig {
                name: key.name.into(),
                key,
                value: value.filter(|_| !key.is_sensitive()),
                source,
                read_only: key.is_read_only(),
                is_sensitive: key.is_sensitive(),
                synonyms,
            }
        })
        .collect()
}

/// The configs that were set for all brokers, for DescribeConfigs of the broker with an empty name.
pub fn describe_broker_defaults(brokers: &BrokerConfigs, names: Option<&[&str]>) -> Vec<DescribedConfig> {
    let wanted = |name: &str| names.is_none_or(|names| names.is_empty() || names.contains(&name));
    let set = brokers.dynamic_default.iter().filter(|(name, _)| wanted(name));
    set.filter_map(|(name, set)| {
        let key = Resource::Broker.key(name)?;
        let shown: Option<Cow<'static, str>> = (!key.is_sensitive()).then(|| set.text.to_string().into());
        let source = ConfigSource::DynamicDefaultBroker;
        Some(DescribedConfig {
            name: name.to_owned().into(),
            key,
            value: shown.clone(),
            source,
            read_only: key.is_read_only(),
            is_sensitive: key.is_sensitive(),
            synonyms: vec![DescribedSynonym { name: name.to_owned().into(), value: shown, source }],
        })
    })
    .collect()
}

/// The configs of a group or of a client-metrics subscription for DescribeConfigs, by name.
pub fn describe_plain(
    resource: Resource,
    overrides: &Overrides,
    names: Option<&[&str]>,
) -> Vec<DescribedConfig> {
    let dynamic = match resource {
        Resource::Group => ConfigSource::Group,
        _ => ConfigSource::ClientMetrics,
    };
    selected(resource, |name| overrides.get(name).is_some(), names)
        .map(|key| {
            let default = || (key.default.map(Cow::Borrowed), ConfigSource::Default);
            let set = overrides.get(key.name).map(|set| (Some(set.value.to_string().into()), dynamic));
            let (value, source): (Option<Cow<'static, str>>, _) = set.unwrap_or_else(default);
            let has_synonym = resource == Resource::Group || source == dynamic;
            let synonym = DescribedSynonym { name: key.name.into(), value: value.clone(), source };
            DescribedConfig {
                name: key.name.into(),
                key,
                value,
                source,
                read_only: false,
                is_sensitive: false,
                synonyms: if has_synonym { vec![synonym] } else { Vec::new() },
            }
        })
        .collect()
}

/// The keys that are asked for. Internal ones are shown only where they are set.
fn selected<'n>(
    resource: Resource,
    is_set: impl Fn(&str) -> bool + 'n,
    names: Option<&'n [&'n str]>,
) -> impl Iterator<Item = &'static Key> + 'n {
    let wanted = move |name: &str| names.is_none_or(|names| names.is_empty() || names.contains(&name));
    resource.keys().filter(move |key| wanted(key.name) && (!key.internal || is_set(key.name)))
}

fn topic_default_text(key: &'static Key, brokers: &BrokerConfigs) -> Option<Cow<'static, str>> {
    let is_set = key.broker_synonyms.iter().any(|synonym| brokers.set(synonym.name).is_some());
    match is_set {
        true => brokers.topic_default(key).map(|value| value.to_string().into()),
        false => key.default.map(Cow::Borrowed),
    }
}

/// What every layer says about a broker key and its weaker namesakes (log.retention.ms has log.retention.minutes and
/// .hours), strongest layer first; what comes before the key itself is left out (`ConfigHelper.configSynonyms`).
fn broker_synonyms(key: &'static Key, brokers: &BrokerConfigs) -> Vec<DescribedSynonym> {
    let names = namesakes(key.name);
    let mut found = Vec::new();
    for (source, layer) in brokers.layers() {
        for &name in names {
            if let Some(set) = layer.get(name) {
                let value = (!key.is_sensitive()).then(|| set.text.to_string().into());
                found.push(DescribedSynonym { name: name.into(), value, source });
            }
        }
    }
    for &name in names {
        if let Some(default) = Resource::Broker.key(name).and_then(|key| key.default) {
            let value = (!key.is_sensitive()).then_some(Cow::Borrowed(default));
            found.push(DescribedSynonym { name: name.into(), value, source: ConfigSource::Default });
        }
    }
    let at = found.iter().position(|synonym| synonym.name == key.name).unwrap_or(found.len());
    found.split_off(at)
}

/// Whether a namesake was set while the broker ran: Kafka then forgets what the key itself was started with
/// (`DynamicBrokerConfig.overrideProps`).
fn is_overridden(name: &'static str, brokers: &BrokerConfigs) -> bool {
    let is_dynamic = |name: &str| brokers.dynamic.get(name).or(brokers.dynamic_default.get(name)).is_some();
    !is_dynamic(name) && namesakes(name).iter().any(|namesake| is_dynamic(namesake))
}

/// The names under which a broker key is looked for, strongest first (`DynamicBrokerConfig.brokerConfigSynonyms`).
fn namesakes(name: &'static str) -> &'static [&'static str] {
    const ROLL: &[&str] = &["log.roll.ms", "log.roll.hours"];
    const JITTER: &[&str] = &["log.roll.jitter.ms", "log.roll.jitter.hours"];
    const RETENTION: &[&str] = &["log.retention.ms", "log.retention.minutes", "log.retention.hours"];
    const FLUSH: &[&str] = &["log.flush.interval.ms", "log.flush.scheduler.interval.ms"];
    [ROLL, JITTER, RETENTION, FLUSH]
        .into_iter()
        .find(|names| names.contains(&name))
        .unwrap_or_else(|| Resource::Broker.key(name).map_or(&[], |key| std::slice::from_ref(&key.name)))
}
