//! Topics as a client sees them.

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    CreatePartitionsRequest, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse,
    MetadataRequest, MetadataResponse,
};

use super::*;
use crate::base::ErrorCode;

fn named(names: &[&'static str]) -> MetadataRequest {
    let topics = names.iter().map(|name| MetadataRequestTopic::default().with_name(Some(topic(name))));
    MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(true)
}

#[test]
fn all_topics_and_no_topics_are_told_apart() {
    let mut world = World::new();
    world.create_topic("a", 1, &[]);
    world.create_topic("b", 1, &[]);
    let client = world.connect();
    let mut count = |version, topics: Option<Vec<MetadataRequestTopic>>| {
        let request = MetadataRequest::default().with_topics(topics);
        let response: MetadataResponse = world.ask(client, version, &request);
        assert_eq!(response.brokers.len(), 1);
        response.topics.len()
    };
    assert_eq!(count(0, Some(Vec::new())), 2);
    for version in [1, 9, 12] {
        assert_eq!(count(version, None), 2, "v{version} null");
        assert_eq!(count(version, Some(Vec::new())), 0, "v{version} empty");
    }
}

#[test]
fn a_missing_topic_is_made_and_can_be_used_at_once() {
    let mut world = World::with(&[("num.partitions", "3")]);
    let client = world.connect();
    let response: MetadataResponse = world.ask(client, 12, &named(&["made"]));
    assert_eq!(response.topics[0].error_code, 0);
    assert_eq!(response.topics[0].partitions.len(), 3);
    assert_eq!(response.topics[0].partitions[2].leader_id.0, 1);
    let other = world.connect();
    let response: ProduceResponse = world.ask(other, PRODUCE, &produce("made", 2, batch(&["a"], 1), -1));
    assert_eq!(error_of(&response), 0);
}

#[test]
fn a_missing_topic_is_not_made_against_the_will_of_broker_or_client() {
    let mut world = World::with(&[("auto.create.topics.enable", "false")]);
    let client = world.connect();
    let response: MetadataResponse = world.ask(client, 12, &named(&["missing"]));
    assert_eq!(response.topics[0].error_code, ErrorCode::UnknownTopicOrPartition.code());

    let mut world = World::new();
    let client = world.connect();
    let request = named(&["missing"]).with_allow_auto_topic_creation(false);
    let response: MetadataResponse = world.ask(client, 12, &request);
    assert_eq!(response.topics[0].error_code, ErrorCode::UnknownTopicOrPartition.code());
    let response: MetadataResponse = world.ask(client, 12, &named(&["no/good"]));
    assert_eq!(response.topics[0].error_code, ErrorCode::InvalidTopicException.code());
}

#[test]
fn metadata_makes_no_more_partitions_than_one_creation_may() {
    let mut world = World::with(&[("num.partitions", "5000")]);
    let client = world.connect();
    let mut ask = |names: &[&'static str]| -> Vec<i16> {
        let response: MetadataResponse = world.ask(client, 12, &named(names));
        response.topics.iter().map(|topic| topic.error_code).collect()
    };
    let missing = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(ask(&["a", "b", "c"]), [missing; 3], "15,000 are too many for all of them");
    assert_eq!(ask(&["a", "b"]), [0; 2]);
    assert_eq!(ask(&["a", "b", "c"]), [0; 3], "what is there already doesn't count");
}

#[test]
fn creation_is_refused_with_kafkas_codes() {
    let mut world = World::new();
    world.create_topic("a.b", 1, &[]);
    let client = world.connect();
    let mut error = |request: CreateTopicsRequest| {
        let response: CreateTopicsResponse = world.ask(client, 7, &request);
        response.topics[0].error_code
    };
    assert_eq!(error(create_topics("a.b", 1, &[])), ErrorCode::TopicAlreadyExists.code());
    assert_eq!(error(create_topics("a_b", 1, &[])), ErrorCode::InvalidTopicException.code());
    assert_eq!(error(create_topics("..", 1, &[])), ErrorCode::InvalidTopicException.code());
    assert_eq!(error(create_topics("x", 0, &[])), ErrorCode::InvalidPartitions.code());
    assert_eq!(error(create_topics("x", 1, &[("prefix", "1")])), ErrorCode::InvalidConfig.code());
    assert_eq!(error(create_topics("x", 1, &[("retention.ms", "soon")])), ErrorCode::InvalidConfig.code());
    assert_eq!(error(create_topics("x", 10_001, &[])), ErrorCode::PolicyViolation.code());
    assert_eq!(error(create_topics("x", 1, &[]).with_timeout_ms(0)), ErrorCode::RequestTimedOut.code());
    let mut replicated = create_topics("x", 1, &[]);
    replicated.topics[0].replication_factor = 2;
    assert_eq!(error(replicated), ErrorCode::InvalidReplicationFactor.code());
    let mut twice = create_topics("x", 1, &[]);
    twice.topics.push(twice.topics[0].clone());
    assert_eq!(error(twice), ErrorCode::InvalidRequest.code());
}

#[test]
fn validate_only_answers_as_if_and_makes_nothing() {
    let mut world = World::new();
    let client = world.connect();
    let request = create_topics("x", -1, &[("retention.ms", "5")]).with_validate_only(true);
    let response: CreateTopicsResponse = world.ask(client, 7, &request);
    let result = &response.topics[0];
    assert_eq!((result.error_code, result.num_partitions, result.replication_factor), (0, 1, 1));
    assert_eq!(result.error_message, None);
    assert!(!result.topic_id.is_nil());
    let configs = result.configs.as_ref().unwrap();
    let retention = configs.iter().find(|config| config.name.as_str() == "retention.ms").unwrap();
    assert_eq!(retention.value.as_deref(), Some("5"));
    assert!(world.cluster.controller().topics().is_empty());
}

#[test]
fn a_topic_grows_and_its_new_partitions_can_be_used_at_once() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let grow = |count| {
        CreatePartitionsRequest::default().with_timeout_ms(1000).with_topics(vec![
            kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic::default()
                .with_name(topic("t"))
                .with_count(count)
                .with_assignments(None),
        ])
    };
    assert_eq!(world.ask(client, 3, &grow(3)).results[0].error_code, 0);
    assert_eq!(world.ask(client, 3, &grow(3)).results[0].error_code, ErrorCode::InvalidPartitions.code());
    let response: ProduceResponse = world.ask(client, PRODUCE, &produce("t", 2, batch(&["a"], 1), 1));
    assert_eq!(error_of(&response), 0);
}

#[test]
fn topics_are_described_in_pages() {
    let mut world = World::new();
    world.create_topic("a", 3, &[]);
    world.create_topic("b", 3, &[]);
    let client = world.connect();
    let mut request = DescribeTopicPartitionsRequest::default().with_response_partition_limit(4);
    let page: DescribeTopicPartitionsResponse = world.ask(client, 0, &request);
    assert_eq!(page.topics.iter().map(|topic| topic.partitions.len()).collect::<Vec<_>>(), [3, 1]);
    let cursor = page.next_cursor.expect("there is more");
    assert_eq!((cursor.topic_name.as_str(), cursor.partition_index), ("b", 1));
    request.cursor = Some(
        kafka_protocol::messages::describe_topic_partitions_request::Cursor::default()
            .with_topic_name(cursor.topic_name)
            .with_partition_index(1),
    );
    let page: DescribeTopicPartitionsResponse = world.ask(client, 0, &request);
    assert_eq!(page.topics.len(), 1);
    assert_eq!(page.topics[0].partitions.len(), 2);
    assert!(page.next_cursor.is_none());
}

#[test]
fn a_slow_link_delays_the_answer_until_the_brokers_have_heard() {
    let config = ClusterConfig { link_delay: Duration::from_millis(10), ..ClusterConfig::default() };
    let mut world = World::of(config);
    let client = world.connect();
    world.send(client, 7, &create_topics("t", 1, &[]));
    assert_eq!(world.cluster.waits(world.now())[0].kind, Kind::Topic);
    world.advance(Duration::from_millis(19));
    assert!(world.received::<CreateTopicsRequest>(client, 7).is_none());
    world.advance(Duration::from_millis(1));
    assert_eq!(world.received::<CreateTopicsRequest>(client, 7).unwrap().topics[0].error_code, 0);

    world.send(client, 7, &create_topics("u", 1, &[]).with_timeout_ms(5));
    world.advance(Duration::from_millis(5));
    let late = world.received::<CreateTopicsRequest>(client, 7).unwrap();
    assert_eq!(late.topics[0].error_code, ErrorCode::RequestTimedOut.code());
}

#[test]
fn configs_are_described_with_where_they_come_from() {
    use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
    use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
    let mut world = World::with(&[("num.partitions", "3")]);
    world.create_topic("t", 1, &[("retention.ms", "5")]);
    let client = world.connect();
    let mut ask = |kind: i8, name: &'static str, keys: Option<&[&'static str]>| {
        let keys = keys.map(|keys| keys.iter().map(|key| StrBytes::from_static_str(key)).collect());
        let request = DescribeConfigsRequest::default().with_resources(vec![
            DescribeConfigsResource::default()
                .with_resource_type(kind)
                .with_resource_name(StrBytes::from_static_str(name))
                .with_configuration_keys(keys),
        ]);
        let response: DescribeConfigsResponse = world.ask(client, 4, &request);
        response.results[0].clone()
    };
    let topic = ask(2, "t", Some(&["retention.ms", "no.such.key", "segment.ms"]));
    let told: Vec<(&str, Option<&str>, i8)> = topic
        .configs
        .iter()
        .map(|config| (config.name.as_str(), config.value.as_deref(), config.config_source))
        .collect();
    assert_eq!(told, [("retention.ms", Some("5"), 1), ("segment.ms", Some("604800000"), 5)]);
    assert_eq!(ask(2, "t", None).configs.len(), ask(2, "t", Some(&[])).configs.len());
    let broker = ask(4, "1", Some(&["num.partitions"]));
    assert_eq!((broker.configs[0].value.as_deref(), broker.configs[0].config_source), (Some("3"), 4));
    assert_eq!(ask(2, "missing", None).error_code, ErrorCode::UnknownTopicOrPartition.code());
    assert_eq!(ask(4, "2", None).error_code, ErrorCode::InvalidRequest.code());
    assert_eq!(ask(1, "x", None).error_code, ErrorCode::InvalidRequest.code());
}

#[test]
fn topics_that_are_described_together_are_described_as_each_alone() {
    use kafka_protocol::messages::DescribeConfigsRequest;
    use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
    let mut world = World::new();
    world.create_topic("plain", 1, &[]);
    world.create_topic("own", 1, &[("retention.ms", "5")]);
    world.create_topic("other", 1, &[]);
    let client = world.connect();
    let of = |name: &'static str, keys: Option<&[&'static str]>| {
        let keys = keys.map(|keys| keys.iter().map(|key| StrBytes::from_static_str(key)).collect());
        let resource = DescribeConfigsResource::default().with_resource_type(2);
        resource.with_resource_name(StrBytes::from_static_str(name)).with_configuration_keys(keys)
    };
    let some: Option<&[&'static str]> = Some(&["retention.ms", "segment.ms"]);
    let asked = [
        of("plain", None),
        of("own", None),
        of("other", None),
        of("plain", some),
        of("own", some),
        of("other", some),
        of("missing", some),
        of("plain", None),
    ];
    for (version, synonyms) in [(1, false), (4, true)] {
        let request = DescribeConfigsRequest::default().with_include_synonyms(synonyms);
        let request = request.with_include_documentation(version == 4);
        let together = world.ask(client, version, &request.clone().with_resources(asked.to_vec())).results;
        for (result, resource) in together.iter().zip(&asked) {
            let alone = world.ask(client, version, &request.clone().with_resources(vec![resource.clone()]));
            assert_eq!(*result, alone.results[0], "{:?}", resource.resource_name);
        }
        assert_ne!(together[0].configs, together[1].configs);
        assert_eq!(together[0].configs, together[2].configs);
        assert_eq!((together[3].configs.len(), together[6].configs.len()), (2, 0));
    }
}

#[test]
fn topics_that_are_made_together_are_answered_as_each_alone() {
    use kafka_protocol::messages::create_topics_request::CreatableTopicConfig;
    let mut world = World::with(&[("log.segment.bytes", "2097152")]);
    let client = world.connect();
    let mut made = |names: &[(&'static str, Option<&'static str>)]| {
        let topics = names.iter().map(|(name, retention)| {
            let configs = retention.iter().map(|value| {
                CreatableTopicConfig::default()
                    .with_name(StrBytes::from_static_str("retention.ms"))
                    .with_value(Some(StrBytes::from_static_str(value)))
            });
            let named = CreatableTopic::default().with_name(topic(name)).with_configs(configs.collect());
            named.with_num_partitions(1).with_replication_factor(1)
        });
        let request = CreateTopicsRequest::default().with_topics(topics.collect()).with_timeout_ms(1_000);
        let response: CreateTopicsResponse = world.ask(client, 7, &request);
        response.topics.into_iter().map(|topic| topic.configs.unwrap()).collect::<Vec<_>>()
    };
    let together = made(&[("a", None), ("b", Some("5")), ("c", None)]);
    let alone = [made(&[("d", None)]), made(&[("e", Some("5"))]), made(&[("f", None)])].concat();
    assert_eq!(together, alone);
    assert_ne!(together[0], together[1]);
    let segment = together[0].iter().find(|config| config.name.as_str() == "segment.bytes").unwrap();
    assert_eq!(segment.value.as_deref(), Some("2097152"));
}
