//! The tables and what is made of them, against recordings of Apache Kafka 4.1.0 in `fixtures/configs/`. How each
//! recording was made stands at its head.

use super::*;

const DEFINITIONS: &str = include_str!("../../../fixtures/configs/definitions.tsv");
const DESCRIBED: &str = include_str!("../../../fixtures/configs/described.tsv");
const DESCRIBED_PROPERTIES: &str = include_str!("../../../fixtures/configs/described.properties");
const LAYERED: &str = include_str!("../../../fixtures/configs/layered.tsv");
const LAYERED_PROPERTIES: &str = include_str!("../../../fixtures/configs/layered.properties");

fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('\t').collect())
}

fn resource(name: &str) -> Option<Resource> {
    match name {
        "topic" => Some(Resource::Topic),
        "broker" => Some(Resource::Broker),
        "group" => Some(Resource::Group),
        "client_metrics" => Some(Resource::ClientMetrics),
        _ => None,
    }
}

fn properties(text: &str) -> Overrides {
    let mut overrides = Overrides::default();
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        match overrides.set(Resource::Broker, name, value.trim_start()) {
            Err(ConfigError::UnknownKey { key, .. }) => assert_eq!(key, "unknown.key"),
            other => other.unwrap(),
        }
    }
    overrides
}

#[test]
fn the_tables_have_exactly_kafkas_keys() {
    for resource_name in ["topic", "broker", "group", "client_metrics"] {
        let resource = resource(resource_name).unwrap();
        // Those that a broker has only while it runs are not among the definitions.
        let is_dynamic = |name: &str| super::dynamic_keys::DYNAMIC_KEYS.iter().any(|key| key.name == name);
        let own = resource.keys().map(|key| key.name);
        let own = own.filter(|name| !name.starts_with("huld.") && !is_dynamic(name));
        let kafkas = rows(DEFINITIONS).filter(|row| row[0] == resource_name).map(|row| row[1]);
        let (mut own, mut kafkas): (Vec<_>, Vec<_>) = (own.collect(), kafkas.collect());
        own.sort();
        kafkas.sort();
        assert_eq!(own, kafkas, "{resource_name}");
        assert!(!own.is_empty());
    }
}

#[test]
fn every_key_is_defined_as_in_kafka() {
    for row in rows(DEFINITIONS) {
        let Some(key) = resource(row[0]).and_then(|resource| resource.key(row[1])) else { continue };
        let shown = if key.internal { "internal" } else { "shown" };
        let own = [
            key.kind.name().to_owned(),
            format!("{:?}", key.importance).to_uppercase(),
            shown.to_owned(),
            format!("{:?}", key.change),
            key.default.unwrap_or("<null>").to_owned(),
        ];
        assert_eq!(own, row[2..7], "{} {}", row[0], row[1]);
        assert!(key.documentation.ends_with('.') || key.documentation.len() > 10, "{}", key.name);
    }
}

#[test]
fn every_key_accepts_what_kafka_accepts() {
    let candidates: Vec<&str> =
        DEFINITIONS.lines().filter_map(|line| line.strip_prefix("candidate\t")).collect();
    assert!(candidates.len() > 100);
    let mut differences = Vec::new();
    for row in rows(DEFINITIONS).filter(|row| row.len() == 8 && row[7] != "-") {
        let key = resource(row[0]).and_then(|resource| resource.key(row[1])).unwrap();
        assert_eq!(row[7].len(), candidates.len());
        for (candidate, digit) in candidates.iter().zip(row[7].bytes()) {
            let accepted = parse(key, candidate).is_ok();
            if accepted != (digit == b'1') {
                differences.push(format!("{} {}={candidate:?}: here {accepted}", row[0], row[1]));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn defaults_are_in_canonical_form_and_allowed() {
    for resource in [Resource::Topic, Resource::Broker, Resource::Group, Resource::ClientMetrics] {
        for key in resource.keys().filter(|key| !key.is_sensitive()) {
            if let Some(default) = key.default {
                assert_eq!(parse(key, default).map(|value| value.to_string()).as_deref(), Ok(default));
            }
        }
    }
}

#[test]
fn a_topics_default_is_its_synonyms_default() {
    for key in Resource::Topic.keys() {
        let synonyms = key.broker_synonyms.iter();
        let inherited =
            synonyms.filter_map(|synonym| Some((Resource::Broker.key(synonym.name)?, synonym.factor)));
        for (broker_key, factor) in inherited {
            let Some(default) = broker_key.default else { continue };
            match parse(broker_key, default).unwrap() {
                Value::Integer(number) => assert_eq!(key.default, Some(&*(number * factor).to_string())),
                _ => assert_eq!(key.default, Some(default)),
            }
        }
        assert!(key.broker_synonyms.iter().all(|synonym| Resource::Broker.key(synonym.name).is_some()));
    }
}

fn printed(config: &DescribedConfig) -> Vec<String> {
    let text =
        |value: &Option<std::borrow::Cow<'static, str>>| value.as_deref().unwrap_or("<null>").to_owned();
    let synonyms = config.synonyms.iter();
    let synonyms: Vec<String> = synonyms
        .map(|s| format!("{}={}@{}", s.name, s.value.as_deref().unwrap_or("null"), s.source.name()))
        .collect();
    vec![
        config.name.to_string(),
        text(&config.value),
        config.key.kind.name().to_owned(),
        config.source.name().to_owned(),
        config.read_only.to_string(),
        config.is_sensitive.to_string(),
        synonyms.join("|"),
    ]
}

/// CreateTopics has no types and no synonyms.
fn printed_created(config: &DescribedConfig) -> Vec<String> {
    let mut row = printed(config);
    row[2] = "null".to_owned();
    row
}

fn compare(own: Vec<Vec<String>>, recording: &'static str, tag: &str) {
    let expected: Vec<Vec<&str>> =
        rows(recording).filter(|row| row[0] == tag).map(|row| row[1..].to_vec()).collect();
    assert!(!expected.is_empty());
    let expected: Vec<_> = expected.into_iter().filter(|row| row[0] != "unknown.key").collect();
    for (own, expected) in own.iter().zip(&expected) {
        assert_eq!(own, expected, "{tag}");
    }
    assert_eq!(own.len(), expected.len(), "{tag}");
}

/// A new cluster of Kafka 4.1 sets this one itself (eligible leader replicas, KIP-966).
fn with_min_isr(mut configs: BrokerConfigs) -> BrokerConfigs {
    configs.dynamic_default.set(Resource::Broker, "min.insync.replicas", "1").unwrap();
    configs
}

#[test]
fn a_plain_broker_is_described_as_kafka_describes_it() {
    let configs = with_min_isr(BrokerConfigs::started_with(properties(DESCRIBED_PROPERTIES)));
    let none = Overrides::default();
    let all = |described: Vec<DescribedConfig>| described.iter().map(printed).collect::<Vec<_>>();
    compare(all(describe_topic(&none, &configs, None)), DESCRIBED, "topic");
    compare(all(describe_broker(&configs, None)), DESCRIBED, "broker");
    compare(all(describe_plain(Resource::Group, &none, None)), DESCRIBED, "group");
    compare(all(describe_plain(Resource::ClientMetrics, &none, None)), DESCRIBED, "client_metrics");
    let created = describe_created_topic(&none, &configs);
    compare(created.iter().map(printed_created).collect(), DESCRIBED, "create");
}

#[test]
fn every_layer_is_described_as_kafka_describes_it() {
    let mut configs = with_min_isr(BrokerConfigs::started_with(properties(LAYERED_PROPERTIES)));
    for (name, text) in [
        ("log.retention.ms", "420000000"),
        ("log.cleaner.min.cleanable.ratio", "1"),
        ("message.max.bytes", "2000000"),
        ("log.message.timestamp.before.max.ms", "  100000 "),
    ] {
        configs.dynamic_default.set(Resource::Broker, name, text).unwrap();
    }
    for (name, text) in [
        ("message.max.bytes", "2500000"),
        ("log.segment.delete.delay.ms", "5000"),
        ("log.cleanup.policy", "compact , delete"),
    ] {
        configs.dynamic.set(Resource::Broker, name, text).unwrap();
    }
    let overrides = Overrides::parse(
        Resource::Topic,
        [
            ("retention.bytes", " 1000 "),
            ("cleanup.policy", "delete , compact"),
            ("preallocate", "TRUE"),
            ("min.cleanable.dirty.ratio", "0"),
            ("delete.retention.ms", "5"),
        ],
    )
    .unwrap();
    let all = |described: Vec<DescribedConfig>| described.iter().map(printed).collect::<Vec<_>>();
    compare(all(describe_topic(&overrides, &configs, None)), LAYERED, "topic");
    compare(all(describe_broker(&configs, None)), LAYERED, "broker");
    compare(all(describe_broker_defaults(&configs, None)), LAYERED, "broker-default");
    let created = describe_created_topic(&overrides, &configs);
    compare(created.iter().map(printed_created).collect(), LAYERED, "create");

    let config = TopicConfig::with_overrides(&TopicConfig::defaults(&configs), &overrides);
    assert_eq!((config.retention_ms, config.retention_bytes), (Some(420_000_000), Some(1000)));
    assert_eq!((config.max_message_bytes, config.segment_ms), (2_500_000, 18_000_000));
}

#[test]
fn a_set_config_of_a_group_or_a_subscription_is_its_own_source() {
    let set = Overrides::parse(Resource::Group, [("consumer.session.timeout.ms", " 50000 ")]).unwrap();
    let described = describe_plain(Resource::Group, &set, Some(&["consumer.session.timeout.ms"]));
    let synonym = "consumer.session.timeout.ms=50000@DYNAMIC_GROUP_CONFIG";
    let row =
        ["consumer.session.timeout.ms", "50000", "INT", "DYNAMIC_GROUP_CONFIG", "false", "false", synonym];
    assert_eq!(described.iter().map(printed).collect::<Vec<_>>(), [row]);
    let set = Overrides::parse(Resource::ClientMetrics, [("match", "")]).unwrap();
    let described = describe_plain(Resource::ClientMetrics, &set, Some(&["match"]));
    let synonym = "match=@DYNAMIC_CLIENT_METRICS_CONFIG";
    let row = ["match", "", "LIST", "DYNAMIC_CLIENT_METRICS_CONFIG", "false", "false", synonym];
    assert_eq!(described.iter().map(printed).collect::<Vec<_>>(), [row]);
}
