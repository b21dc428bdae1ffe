//! Configs that are changed while the cluster runs, as a client sees it.

use kafka_protocol::messages::alter_configs_request::{
    AlterConfigsResource as ReplacedResource, AlterableConfig as ReplacedConfig,
};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::{
    AlterConfigsRequest, AlterConfigsResponse, DescribeConfigsRequest, DescribeConfigsResponse,
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse, ListConfigResourcesRequest,
    ListConfigResourcesResponse,
};

use super::*;
use crate::base::ErrorCode;
use crate::controller::{LogLevel, Loggers};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const CLIENT_METRICS: i8 = 16;
const GROUP: i8 = 32;

const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const SUBTRACT: i8 = 3;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn change(kind: i8, name: &str, changes: &[(i8, &str, Option<&str>)]) -> IncrementalAlterConfigsRequest {
    let configs = changes.iter().map(|(operation, key, value)| {
        AlterableConfig::default()
            .with_config_operation(*operation)
            .with_name(text(key))
            .with_value(value.map(text))
    });
    IncrementalAlterConfigsRequest::default().with_resources(vec![
        AlterConfigsResource::default()
            .with_resource_type(kind)
            .with_resource_name(text(name))
            .with_configs(configs.collect()),
    ])
}

/// A cluster, and somebody who changes its configs.
struct Admin {
    world: World,
    client: ConnectionId,
}

impl Admin {
    fn new() -> Self {
        Self::of(World::new())
    }

    fn of(mut world: World) -> Self {
        let client = world.connect();
        Admin { world, client }
    }

    fn alter(&mut self, kind: i8, name: &str, changes: &[(i8, &str, Option<&str>)]) -> ErrorCode {
        self.send(&change(kind, name, changes))
    }

    fn send(&mut self, request: &IncrementalAlterConfigsRequest) -> ErrorCode {
        let response: IncrementalAlterConfigsResponse = self.world.ask(self.client, 1, request);
        let row = &response.responses[0];
        assert_eq!(
            row.error_message.is_some(),
            !matches!(row.error_code, 0 | -1),
            "an error says why, as far as Kafka's does"
        );
        ErrorCode::from_code(row.error_code).unwrap()
    }

    /// The value of one config, and its source.
    fn config(&mut self, kind: i8, name: &str, key: &str) -> (Option<String>, i8) {
        let request = DescribeConfigsRequest::default().with_resources(vec![
            DescribeConfigsResource::default()
                .with_resource_type(kind)
                .with_resource_name(text(name))
                .with_configuration_keys(Some(vec![text(key)])),
        ]);
        let response: DescribeConfigsResponse = self.world.ask(self.client, 4, &request);
        let config = &response.results[0].configs[0];
        (config.value.as_ref().map(ToString::to_string), config.config_source)
    }

    fn value(&mut self, kind: i8, name: &str, key: &str) -> String {
        self.config(kind, name, key).0.unwrap()
    }
}

#[test]
fn a_topics_configs_are_set_and_deleted_and_act_at_once() {
    let mut admin = Admin::new();
    admin.world.create_topic("t", 1, &[]);
    let set = [(SET, "max.message.bytes", Some("100")), (SET, "retention.ms", Some("1000"))];
    let dry_run = change(TOPIC, "t", &set).with_validate_only(true);
    assert_eq!(admin.send(&dry_run), ErrorCode::None);
    assert_eq!(admin.value(TOPIC, "t", "max.message.bytes"), "1048588");

    assert_eq!(admin.alter(TOPIC, "t", &set), ErrorCode::None);
    assert_eq!(admin.config(TOPIC, "t", "max.message.bytes"), (Some("100".to_owned()), 1));
    let client = admin.client;
    let large = batch(&["a value that makes the batch larger than a hundred bytes, all in all"], 0);
    let response: ProduceResponse = admin.world.ask(client, PRODUCE, &produce("t", 0, large.clone(), -1));
    assert_eq!(error_of(&response), ErrorCode::MessageTooLarge.code());

    assert_eq!(admin.alter(TOPIC, "t", &[(DELETE, "max.message.bytes", None)]), ErrorCode::None);
    let response: ProduceResponse = admin.world.ask(client, PRODUCE, &produce("t", 0, large, -1));
    assert_eq!(error_of(&response), 0);
    assert_eq!(admin.value(TOPIC, "t", "retention.ms"), "1000");
    admin.world.advance(Duration::from_secs(600));
    let response: FetchResponse = admin.world.ask(client, FETCH, &fetch("t", 0, 1).with_max_wait_ms(0));
    assert_eq!(response.responses[0].partitions[0].log_start_offset, 1, "retention took what was there");
}

#[test]
fn lists_grow_and_shrink() {
    let mut admin = Admin::new();
    admin.world.create_topic("t", 1, &[]);
    for (operation, value, expected) in [
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "nonsense", "compact"),
        (SUBTRACT, "compact", ""),
    ] {
        assert_eq!(admin.alter(TOPIC, "t", &[(operation, "cleanup.policy", Some(value))]), ErrorCode::None);
        assert_eq!(admin.value(TOPIC, "t", "cleanup.policy"), expected);
    }
    let refused = admin.alter(TOPIC, "t", &[(APPEND, "retention.ms", Some("1"))]);
    assert_eq!(refused, ErrorCode::InvalidConfig);
}

#[test]
fn changes_are_refused_with_kafkas_codes_and_all_together() {
    let mut admin = Admin::new();
    admin.world.create_topic("t", 1, &[]);
    let good = (SET, "flush.ms", Some("1"));
    for (kind, name, changes, error) in [
        (TOPIC, "t", vec![good, (SET, "flush.messages", Some("x"))], ErrorCode::InvalidConfig),
        (TOPIC, "t", vec![(SET, "no.such.key", Some("1"))], ErrorCode::InvalidConfig),
        (TOPIC, "t", vec![(DELETE, "no.such.key", None)], ErrorCode::None),
        (TOPIC, "t", vec![(SET, "flush.ms", None)], ErrorCode::InvalidRequest),
        (TOPIC, "t", vec![good, (DELETE, "flush.ms", None)], ErrorCode::InvalidRequest),
        (TOPIC, "t", vec![(4, "flush.ms", Some("1"))], ErrorCode::UnknownServerError),
        (TOPIC, "u", vec![good], ErrorCode::UnknownTopicOrPartition),
        (TOPIC, "u", vec![(SET, "flush.ms", Some("x"))], ErrorCode::InvalidConfig),
        (TOPIC, "a b", vec![good], ErrorCode::InvalidTopicException),
        (BROKER, "99", vec![(SET, "log.retention.ms", Some("1"))], ErrorCode::InvalidRequest),
        (BROKER, "1", vec![(SET, "process.roles", Some("broker"))], ErrorCode::InvalidRequest),
        (BROKER, "1", vec![(SET, "log.retention.ms", Some("soon"))], ErrorCode::InvalidRequest),
        (BROKER, "", vec![(SET, "sasl.jaas.config", Some("x"))], ErrorCode::InvalidRequest),
        (BROKER, "1", vec![(SET, "listeners", Some("PLAINTEXT://:1"))], ErrorCode::InvalidRequest),
        (GROUP, "g", vec![(SET, "consumer.session.timeout.ms", Some("1"))], ErrorCode::InvalidConfig),
        (GROUP, "", vec![(SET, "consumer.session.timeout.ms", Some("46000"))], ErrorCode::InvalidRequest),
        (CLIENT_METRICS, "m", vec![(SET, "interval.ms", Some("1"))], ErrorCode::InvalidRequest),
        (64, "t", vec![good], ErrorCode::InvalidRequest),
    ] {
        assert_eq!(admin.alter(kind, name, &changes), error, "{kind} {name} {changes:?}");
    }
    assert_eq!(admin.config(TOPIC, "t", "flush.ms").1, 5, "nothing was set");

    let mut twice = change(TOPIC, "t", &[good]);
    twice.resources.push(twice.resources[0].clone());
    let client = admin.client;
    let response: IncrementalAlterConfigsResponse = admin.world.ask(client, 1, &twice);
    let errors: Vec<i16> = response.responses.iter().map(|row| row.error_code).collect();
    assert_eq!(errors, [ErrorCode::InvalidRequest.code(); 2]);
}

#[test]
fn topics_inherit_what_is_changed_for_a_broker() {
    let mut admin = Admin::new();
    admin.world.create_topic("plain", 1, &[]);
    admin.world.create_topic("own", 1, &[("retention.ms", "7")]);
    let retention = |admin: &mut Admin| {
        let topics = admin.world.cluster.controller().topics();
        ["plain", "own"].map(|name| topics.by_name(name).unwrap().config.retention_ms)
    };
    assert_eq!(admin.alter(BROKER, "", &[(SET, "log.retention.ms", Some("2000"))]), ErrorCode::None);
    assert_eq!(retention(&mut admin), [Some(2000), Some(7)]);
    assert_eq!(admin.config(BROKER, "1", "log.retention.ms"), (Some("2000".to_owned()), 3));
    assert_eq!(admin.alter(BROKER, "1", &[(SET, "log.retention.ms", Some("1000"))]), ErrorCode::None);
    assert_eq!(retention(&mut admin), [Some(1000), Some(7)]);
    assert_eq!(admin.config(BROKER, "1", "log.retention.ms"), (Some("1000".to_owned()), 2));
    assert_eq!(admin.config(TOPIC, "plain", "retention.ms"), (Some("1000".to_owned()), 2));
    for broker in ["1", ""] {
        assert_eq!(admin.alter(BROKER, broker, &[(DELETE, "log.retention.ms", None)]), ErrorCode::None);
    }
    assert_eq!(retention(&mut admin), [Some(604_800_000), Some(7)]);
}

#[test]
fn groups_and_subscriptions_keep_their_configs_and_are_listed() {
    let mut admin = Admin::new();
    admin.world.create_topic("t", 1, &[]);
    let session = [(SET, "consumer.session.timeout.ms", Some("46000"))];
    assert_eq!(admin.alter(GROUP, "g", &session), ErrorCode::None);
    assert_eq!(admin.alter(CLIENT_METRICS, "m", &[(SET, "interval.ms", Some("60000"))]), ErrorCode::None);
    assert_eq!(admin.config(GROUP, "g", "consumer.session.timeout.ms"), (Some("46000".to_owned()), 8));
    assert_eq!(admin.config(CLIENT_METRICS, "m", "interval.ms"), (Some("60000".to_owned()), 7));

    let mut listed = |version, kinds: &[i8]| {
        let request = ListConfigResourcesRequest::default().with_resource_types(kinds.to_vec());
        let client = admin.client;
        let response: ListConfigResourcesResponse = admin.world.ask(client, version, &request);
        let rows = response.config_resources.iter();
        let rows: Vec<(i8, String)> =
            rows.map(|row| (row.resource_type, row.resource_name.to_string())).collect();
        (response.error_code, rows)
    };
    let all = [(2, "t"), (4, "1"), (8, "1"), (16, "m"), (32, "g")];
    let all: Vec<(i8, String)> = all.iter().map(|(kind, name)| (*kind, (*name).to_owned())).collect();
    assert_eq!(listed(1, &[]), (0, all.clone()));
    assert_eq!(listed(1, &[GROUP]), (0, all[4..].to_vec()));
    assert_eq!(listed(1, &[-1]).0, ErrorCode::UnsupportedVersion.code());
    let (_, oldest) = listed(0, &[]);
    assert_eq!(oldest.len(), 1);

    assert_eq!(admin.alter(GROUP, "g", &[(DELETE, "consumer.session.timeout.ms", None)]), ErrorCode::None);
    assert_eq!(admin.world.cluster.controller().configured_groups().count(), 0);
}

#[test]
fn loggers_levels_are_shown_and_changed() {
    let loggers = Loggers::new(LogLevel::Warn, ["a", "a.b"]);
    let mut admin = Admin::of(World::of(ClusterConfig { loggers, ..ClusterConfig::default() }));
    let level = |admin: &mut Admin, logger: &str| {
        let (level, source) = admin.config(BROKER_LOGGER, "1", logger);
        assert_eq!(source, 6);
        level.unwrap()
    };
    assert_eq!((level(&mut admin, "a.b"), level(&mut admin, "root")), ("WARN".to_owned(), "WARN".to_owned()));
    assert_eq!(admin.alter(BROKER_LOGGER, "1", &[(SET, "a", Some("DEBUG"))]), ErrorCode::None);
    assert_eq!(
        (level(&mut admin, "a.b"), level(&mut admin, "root")),
        ("DEBUG".to_owned(), "WARN".to_owned())
    );
    let told = admin.world.log_levels.pop().unwrap();
    assert_eq!(told.own_levels().collect::<Vec<_>>(), [("a", LogLevel::Debug)]);
    assert_eq!(admin.alter(BROKER_LOGGER, "1", &[(DELETE, "a", None)]), ErrorCode::None);
    assert_eq!(level(&mut admin, "a"), "WARN");
    assert_eq!(admin.world.log_levels.pop().unwrap().own_levels().count(), 0);

    // As in Kafka's RuntimeLoggerManager.
    for (name, change, error) in [
        ("2", (SET, "a", Some("DEBUG")), ErrorCode::InvalidRequest),
        ("", (SET, "a", Some("DEBUG")), ErrorCode::InvalidRequest),
        ("1", (SET, "b", Some("DEBUG")), ErrorCode::InvalidConfig),
        ("1", (SET, "a", Some("debug")), ErrorCode::InvalidConfig),
        ("1", (SET, "a", None), ErrorCode::InvalidRequest),
        ("1", (DELETE, "root", None), ErrorCode::InvalidRequest),
        ("1", (APPEND, "a", Some("DEBUG")), ErrorCode::InvalidRequest),
        ("1", (SUBTRACT, "a", Some("DEBUG")), ErrorCode::InvalidRequest),
        ("1", (9, "a", Some("DEBUG")), ErrorCode::InvalidRequest),
    ] {
        assert_eq!(admin.alter(BROKER_LOGGER, name, &[change]), error, "{name} {change:?}");
    }
    let dry_run = change(BROKER_LOGGER, "1", &[(SET, "a", Some("INFO"))]).with_validate_only(true);
    assert_eq!(admin.send(&dry_run), ErrorCode::None);
    assert!(admin.world.log_levels.is_empty(), "nothing has changed");
}

#[test]
fn the_older_request_replaces_all_that_was_set() {
    let mut admin = Admin::new();
    admin.world.create_topic("t", 1, &[("retention.ms", "12345")]);
    let request = AlterConfigsRequest::default().with_resources(vec![
        ReplacedResource::default().with_resource_type(TOPIC).with_resource_name(text("t")).with_configs(
            vec![
                ReplacedConfig::default().with_name(text("segment.bytes")).with_value(Some(text("2000000"))),
            ],
        ),
    ]);
    let client = admin.client;
    let response: AlterConfigsResponse = admin.world.ask(client, 2, &request);
    assert_eq!(response.responses[0].error_code, 0);
    assert_eq!(admin.value(TOPIC, "t", "segment.bytes"), "2000000");
    assert_eq!(admin.config(TOPIC, "t", "retention.ms"), (Some("604800000".to_owned()), 5));
}

/// A batch with one record of a key.
fn keyed(key: &str, value: Option<&str>) -> Bytes {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    builder.push(0, Some(key.as_bytes()), value.map(str::as_bytes), std::iter::empty());
    builder.build().unwrap()
}

#[test]
fn a_topic_that_becomes_compacted_is_compacted() {
    let mut admin = Admin::new();
    admin.world.create_topic("t", 1, &[("internal.segment.bytes", "80"), ("retention.ms", "-1")]);
    let client = admin.client;
    for value in ["1", "2", "3", "4"] {
        let request = produce("t", 0, keyed("a", Some(value)), -1);
        let response: ProduceResponse = admin.world.ask(client, PRODUCE, &request);
        assert_eq!(error_of(&response), 0);
    }
    let read = |admin: &mut Admin| {
        let client = admin.client;
        let response: FetchResponse = admin.world.ask(client, FETCH, &fetch("t", 0, 0).with_max_wait_ms(0));
        values(records_of(&response)).into_iter().map(|(offset, _)| offset).next()
    };
    admin.world.advance(Duration::from_secs(60));
    assert_eq!(read(&mut admin), Some(0));
    assert_eq!(admin.alter(TOPIC, "t", &[(SET, "cleanup.policy", Some("compact"))]), ErrorCode::None);
    admin.world.advance(Duration::from_secs(15));
    assert_eq!(read(&mut admin), Some(2), "of the closed segments the last value is left");
}
