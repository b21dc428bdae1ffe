//! Several brokers as administrators see them: topics on them, elections, moves, configs of each.

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_topic_partitions_request::TopicRequest;
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ApiVersionsRequest, BrokerId,
    DescribeClusterRequest, DescribeConfigsRequest, DescribeTopicPartitionsRequest, ElectLeadersRequest,
    FindCoordinatorRequest, IncrementalAlterConfigsRequest, ListPartitionReassignmentsRequest,
    MetadataRequest, UnregisterBrokerRequest,
};

use super::*;
use crate::base::ErrorCode;

const SESSION: Duration = Duration::from_secs(9);

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn numbers(ids: &[BrokerId]) -> Vec<i32> {
    ids.iter().map(|id| id.0).collect()
}

fn metadata(world: &mut World, broker: i32, name: &'static str, version: i16) -> MetadataResponsePartition {
    let client = world.connect_to(broker);
    let asked = MetadataRequestTopic::default().with_name(Some(topic(name)));
    let request = MetadataRequest::default().with_topics(Some(vec![asked]));
    world.ask(client, version, &request).topics[0].partitions[0].clone()
}

fn kill(world: &mut World, broker: i32) {
    world.command(Command::KillBroker(NodeId(broker))).unwrap();
    world.advance(SESSION);
}

#[test]
fn a_topics_replicas_are_on_different_brokers_and_not_more_than_there_are() {
    let mut world = World::of_brokers(3, &[]);
    let client = world.connect();
    let mut request = create_topics("t", 6, &[]);
    request.topics[0].replication_factor = 3;
    let created = &world.ask(client, 7, &request).topics[0];
    assert_eq!((created.error_code, created.num_partitions, created.replication_factor), (0, 6, 3));
    let partitions = world.cluster.controller().topics().by_name("t").unwrap().partitions.clone();
    for broker in [1, 2, 3].map(NodeId) {
        assert_eq!(partitions.iter().filter(|partition| partition.leader == Some(broker)).count(), 2);
    }
    let mut request = create_topics("u", 1, &[]);
    request.topics[0].replication_factor = 4;
    let refused = &world.ask(client, 7, &request).topics[0];
    assert_eq!(refused.error_code, ErrorCode::InvalidReplicationFactor.code());
}

#[test]
fn the_brokers_own_topics_have_as_many_replicas_as_there_are_brokers_for() {
    for (brokers, replicas) in [(1, 1), (2, 2), (4, 3)] {
        let mut world = World::of_brokers(brokers, &[]);
        let client = world.connect();
        world.ask(client, 4, &FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]));
        assert_eq!(world.partition("__consumer_offsets").replicas.len(), replicas, "{brokers} brokers");
    }
}

#[test]
fn a_partition_whose_leader_is_gone_is_shown_so() {
    let mut world = World::of_brokers(3, &[]);
    world.create_replicated("alone", &[3], &[]);
    world.create_replicated("t", &[3, 1], &[("min.insync.replicas", "2")]);
    kill(&mut world, 3);
    let alone = metadata(&mut world, 1, "alone", 12);
    assert_eq!((alone.error_code, alone.leader_id.0), (ErrorCode::LeaderNotAvailable.code(), -1));
    assert_eq!((numbers(&alone.isr_nodes), numbers(&alone.offline_replicas)), (vec![], vec![3]));
    let partition = metadata(&mut world, 2, "t", 12);
    assert_eq!((partition.error_code, partition.leader_id.0, partition.leader_epoch), (0, 1, 1));
    assert_eq!(
        (numbers(&partition.replica_nodes), numbers(&partition.offline_replicas)),
        (vec![3, 1], vec![3])
    );
    let client = world.connect();
    let topics = ["alone", "t"].map(|name| TopicRequest::default().with_name(topic(name)));
    let request = DescribeTopicPartitionsRequest::default()
        .with_topics(topics.to_vec())
        .with_response_partition_limit(10);
    let response = world.ask(client, 0, &request);
    let row = &response.topics[0].partitions[0];
    assert_eq!((row.error_code, row.leader_id.0), (0, -1), "no error here, unlike in Metadata");
    let eligible = |row: &Option<Vec<BrokerId>>| numbers(row.as_deref().unwrap());
    assert_eq!((eligible(&row.eligible_leader_replicas), eligible(&row.last_known_elr)), (vec![3], vec![3]));
    assert_eq!(numbers(&row.offline_replicas), [3]);
    let row = &response.topics[1].partitions[0];
    assert_eq!(eligible(&row.eligible_leader_replicas), [3]);

    let shown = |world: &mut World, fenced: bool| {
        let request =
            DescribeClusterRequest::default().with_endpoint_type(1).with_include_fenced_brokers(fenced);
        let brokers = world.ask(client, 2, &request).brokers;
        brokers.iter().map(|broker| (broker.broker_id.0, broker.is_fenced)).collect::<Vec<_>>()
    };
    assert_eq!(shown(&mut world, false), [(1, false), (2, false)]);
    assert_eq!(shown(&mut world, true), [(1, false), (2, false), (3, true)]);
}

#[test]
fn a_leader_without_the_clients_listener_is_none_to_this_client() {
    let mut world = World::of_brokers(2, &[]);
    world.create_replicated("t", &[2, 1], &[]);
    let mut config = ClusterConfig::default().nodes.remove(0);
    config.id = NodeId(3);
    config.endpoints[0].listener = "INTERNAL".into();
    world.command(Command::AddBroker(config)).unwrap();
    world.create_replicated("hidden", &[3, 1], &[]);
    for (version, error) in [
        (12, ErrorCode::ListenerNotFound),
        (6, ErrorCode::ListenerNotFound),
        (5, ErrorCode::LeaderNotAvailable),
    ] {
        let partition = metadata(&mut world, 1, "hidden", version);
        assert_eq!((partition.error_code, partition.leader_id.0), (error.code(), -1), "v{version}");
        assert_eq!(numbers(&partition.offline_replicas), [3]);
        assert_eq!(numbers(&partition.replica_nodes), [3, 1]);
    }
    let partition = metadata(&mut world, 1, "hidden", 0);
    assert_eq!(numbers(&partition.replica_nodes), [1], "v0 leaves out whom the client can't reach");
    world.command(Command::MoveLeader { topic: "hidden".into(), index: 0, to: NodeId(1) }).unwrap();
    let partition = metadata(&mut world, 1, "hidden", 0);
    assert_eq!(partition.error_code, ErrorCode::ReplicaNotAvailable.code());
}

#[test]
fn leaders_are_elected_on_request() {
    let mut world = World::of_brokers(3, &[]);
    world.create_replicated("t", &[1, 2, 3], &[]);
    let client = world.connect_to(3);
    let request = ElectLeadersRequest::default().with_topic_partitions(None).with_timeout_ms(1000);
    let all = |world: &mut World| {
        let response = world.ask(client, 2, &request);
        assert_eq!(response.error_code, 0);
        let rows = response.replica_election_results.iter().flat_map(|topic| &topic.partition_result);
        rows.map(|row| row.error_code).collect::<Vec<_>>()
    };
    assert_eq!(all(&mut world), Vec::<i16>::new(), "what needs no election is left out");
    world.command(Command::MoveLeader { topic: "t".into(), index: 0, to: NodeId(2) }).unwrap();
    assert_eq!(all(&mut world), [0]);
    assert_eq!(world.partition("t").leader, Some(NodeId(1)));
    kill(&mut world, 1);
    assert_eq!(all(&mut world), [ErrorCode::PreferredLeaderNotAvailable.code()]);
}

fn reassign(
    world: &mut World,
    client: ConnectionId,
    replicas: Option<&[i32]>,
    may_change_factor: bool,
) -> AlterPartitionReassignmentsResponse {
    let replicas = replicas.map(|ids| ids.iter().copied().map(BrokerId).collect());
    let partition = ReassignablePartition::default().with_replicas(replicas);
    let moved = ReassignableTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let request = AlterPartitionReassignmentsRequest::default()
        .with_timeout_ms(1000)
        .with_allow_replication_factor_change(may_change_factor)
        .with_topics(vec![moved]);
    world.ask(client, 1, &request)
}

#[test]
fn a_partition_moves_with_its_records_while_it_is_listed() {
    let mut world = World::of_brokers(4, &[]);
    world.create_replicated("t", &[1, 2], &[]);
    let client = world.connect();
    world.send(client, PRODUCE, &produce("t", 0, batch(&["a", "b"], 0), -1));
    assert_eq!(error_of(&world.received::<ProduceRequest>(client, PRODUCE).unwrap()), 0);
    let error =
        |response: AlterPartitionReassignmentsResponse| response.responses[0].partitions[0].error_code;
    let refused = reassign(&mut world, client, None, true);
    assert_eq!(error(refused), ErrorCode::NoReassignmentInProgress.code());
    let refused = reassign(&mut world, client, Some(&[3]), false);
    assert_eq!(error(refused), ErrorCode::InvalidReplicationFactor.code());
    world
        .command(Command::FreezeFetcher { broker: NodeId(4), topic: "t".into(), index: 0, frozen: true })
        .ok();
    world.command(Command::FreezeBroker(NodeId(4))).unwrap();
    world.send(
        client,
        1,
        &AlterPartitionReassignmentsRequest::default().with_timeout_ms(60_000).with_topics(vec![
            ReassignableTopic::default().with_name(topic("t")).with_partitions(vec![
                ReassignablePartition::default().with_replicas(Some(vec![BrokerId(4), BrokerId(3)])),
            ]),
        ]),
    );
    let listed = |world: &mut World| {
        let client = world.connect();
        let request = ListPartitionReassignmentsRequest::default().with_topics(None).with_timeout_ms(1000);
        let topics = world.ask(client, 0, &request).topics;
        topics
            .iter()
            .flat_map(|topic| &topic.partitions)
            .map(|row| {
                (numbers(&row.replicas), numbers(&row.adding_replicas), numbers(&row.removing_replicas))
            })
            .collect::<Vec<_>>()
    };
    world.advance(Duration::from_millis(100));
    assert_eq!(listed(&mut world), [(vec![4, 3, 1, 2], vec![3, 4], vec![1, 2])]);
    world.command(Command::ThawBroker(NodeId(4))).unwrap();
    world.advance(Duration::from_secs(20));
    assert_eq!(listed(&mut world), []);
    let partition = world.partition("t");
    assert_eq!((&*partition.replicas, partition.leader), (&[4, 3].map(NodeId)[..], Some(NodeId(4))));
    assert_eq!(world.offsets("t", 4).0, 2);
    let consumer = world.connect_to(4);
    let response: FetchResponse = world.ask(consumer, FETCH, &fetch("t", 0, 0));
    assert_eq!(values(records_of(&response)), [(0, "a".to_owned()), (1, "b".to_owned())]);
}

#[test]
fn a_broker_that_is_unregistered_is_nobodys_until_it_starts_again() {
    let mut world = World::of_brokers(2, &[]);
    world.create_replicated("t", &[2, 1], &[]);
    let client = world.connect();
    let unregister = |world: &mut World, id: i32| {
        world.ask(client, 0, &UnregisterBrokerRequest::default().with_broker_id(BrokerId(id))).error_code
    };
    assert_eq!(unregister(&mut world, 2), 0);
    assert_eq!(world.partition("t").leader, Some(NodeId(1)));
    assert_eq!(unregister(&mut world, 2), ErrorCode::BrokerIdNotRegistered.code());
    assert_eq!(unregister(&mut world, 1), ErrorCode::InvalidRequest.code(), "nobody else is left");
    world.advance(Duration::from_secs(20));
    assert_eq!(world.cluster.controller().brokers().len(), 1);
}

fn config(world: &mut World, broker: i32, name: &str, key: &str) -> (i16, Option<(String, i8)>) {
    let client = world.connect_to(broker);
    let resource = DescribeConfigsResource::default()
        .with_resource_type(4)
        .with_resource_name(text(name))
        .with_configuration_keys(Some(vec![text(key)]));
    let result =
        &world.ask(client, 4, &DescribeConfigsRequest::default().with_resources(vec![resource])).results[0];
    let config = result.configs.first();
    (
        result.error_code,
        config.map(|config| (config.value.as_deref().unwrap_or("").to_owned(), config.config_source)),
    )
}

#[test]
fn a_broker_has_configs_of_its_own_and_tells_of_them_alone() {
    let mut world = World::of_brokers(2, &[]);
    let key = "replica.lag.time.max.ms";
    let own = Overrides::parse(Resource::Broker, [(key, "5000"), ("broker.rack", "b")]).unwrap();
    let mut config_of_3 = ClusterConfig::default().nodes.remove(0);
    (config_of_3.id, config_of_3.configs) = (NodeId(3), own);
    world.command(Command::AddBroker(config_of_3)).unwrap();
    assert_eq!(config(&mut world, 3, "3", key), (0, Some(("5000".to_owned(), 4))));
    assert_eq!(config(&mut world, 2, "2", key), (0, Some(("30000".to_owned(), 5))));
    assert_eq!(config(&mut world, 3, "3", "broker.rack").1, Some(("b".to_owned(), 4)));
    assert_eq!(config(&mut world, 3, "3", "node.id").1, Some(("3".to_owned(), 4)));
    assert_eq!(config(&mut world, 1, "3", key), (ErrorCode::InvalidRequest.code(), None));
    assert_eq!(world.cluster.controller().settings_of(NodeId(3)).replication.replica_lag_time_max_ms, 5000);

    let set = |world: &mut World, broker: i32, name: &str, value: &str| {
        let client = world.connect_to(broker);
        let config =
            AlterableConfig::default().with_name(text("log.cleaner.threads")).with_value(Some(text(value)));
        let resource = AlterConfigsResource::default()
            .with_resource_type(4)
            .with_resource_name(text(name))
            .with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        world.ask(client, 1, &request).responses[0].error_code
    };
    assert_eq!(set(&mut world, 2, "2", "2"), 0);
    assert_eq!(set(&mut world, 1, "2", "2"), ErrorCode::InvalidRequest.code());
    assert_eq!(set(&mut world, 1, "", "3"), 0);
    let threads = "log.cleaner.threads";
    assert_eq!(config(&mut world, 2, "2", threads).1, Some(("2".to_owned(), 2)));
    assert_eq!(config(&mut world, 1, "1", threads).1, Some(("3".to_owned(), 3)));
    assert_eq!(config(&mut world, 2, "", threads).1, Some(("3".to_owned(), 3)));
}

/// Adds a broker with configs of its own.
fn add_broker(world: &mut World, id: i32, configs: &[(&str, &str)]) {
    let mut config = ClusterConfig::default().nodes.remove(0);
    config.id = NodeId(id);
    config.configs = Overrides::parse(Resource::Broker, configs.iter().copied()).unwrap();
    world.command(Command::AddBroker(config)).unwrap();
}

#[test]
fn a_broker_makes_topics_by_its_own_settings_and_the_controller_by_those_of_all() {
    let mut world = World::of_brokers(2, &[("num.partitions", "2")]);
    let own = [
        ("num.partitions", "5"),
        ("default.replication.factor", "3"),
        ("offsets.topic.num.partitions", "7"),
        ("offsets.topic.replication.factor", "2"),
        ("offsets.topic.segment.bytes", "1048577"),
    ];
    add_broker(&mut world, 3, &own);
    add_broker(&mut world, 4, &[("auto.create.topics.enable", "false")]);
    let sizes = |world: &World, name: &str| {
        let topics = world.cluster.controller().topics();
        let partitions = topics.by_name(name).map(|topic| topic.partitions.clone());
        partitions.map(|partitions| (partitions.len(), partitions[0].replicas.len()))
    };
    // Metadata makes topics as the broker has it that is asked.
    for (broker, name, expected) in [(1, "by-1", Some((2, 1))), (3, "by-3", Some((5, 3))), (4, "by-4", None)]
    {
        let client = world.connect_to(broker);
        let asked = MetadataRequestTopic::default().with_name(Some(topic(name)));
        let request =
            MetadataRequest::default().with_topics(Some(vec![asked])).with_allow_auto_topic_creation(true);
        world.send(client, 12, &request);
        assert_eq!(sizes(&world, name), expected, "{name}");
    }
    let client = world.connect_to(3);
    world.send(client, 4, &FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]));
    assert_eq!(sizes(&world, "__consumer_offsets"), Some((7, 2)));
    let offsets = world.cluster.controller().topics().by_name("__consumer_offsets").unwrap();
    assert_eq!(offsets.config.segment_bytes, 1_048_577);
    // CreateTopics goes to the controller, whoever is asked.
    let mut request = create_topics("created", -1, &[]);
    request.topics[0].replication_factor = -1;
    world.send(client, 7, &request);
    assert_eq!(sizes(&world, "created"), Some((2, 1)));
}

#[test]
fn eligible_leaders_are_a_feature_that_clients_see() {
    let mut world = World::new();
    let client = world.connect();
    let request = ApiVersionsRequest::default()
        .with_client_software_name(text("tester"))
        .with_client_software_version(text("1"));
    let name = "eligible.leader.replicas.version";
    // As in Kafka, clients that can't read a level of 0 are told of the level alone.
    for (version, levels) in [(3, None), (4, Some((0, 1)))] {
        let response = world.ask(client, version, &request);
        let supported = response.supported_features.iter().find(|feature| feature.name.as_str() == name);
        let supported = supported.map(|feature| (feature.min_version, feature.max_version));
        assert_eq!(supported, levels, "v{version}");
        let finalized = response.finalized_features.iter().find(|feature| feature.name.as_str() == name);
        assert_eq!(finalized.map(|feature| feature.max_version_level), Some(1));
    }
}

/// The first replica's log start on a broker.
fn log_start(world: &World, name: &str, broker: i32) -> i64 {
    let states = world.cluster.replica_states();
    let state = states.iter().find(|state| state.broker == NodeId(broker) && &*state.topic == name);
    state.unwrap().log_start_offset
}

#[test]
fn what_topics_inherit_is_each_brokers_own() {
    let mut world = World::of_brokers(2, &[("log.message.timestamp.type", "LogAppendTime")]);
    add_broker(&mut world, 3, &[("log.retention.ms", "60000"), ("message.max.bytes", "1000")]);
    world.create_replicated("by-1", &[1, 3], &[]);
    world.create_replicated("by-3", &[3, 1], &[]);
    world.create_replicated("own", &[3, 1], &[("max.message.bytes", "5000"), ("retention.ms", "-1")]);
    let send = |world: &mut World, broker: i32, name: &'static str, size: usize| {
        let client = world.connect_to(broker);
        let value = "x".repeat(size);
        error_of(&world.ask(client, PRODUCE, &produce(name, 0, batch(&[&value], 0), 1)))
    };
    assert_eq!(send(&mut world, 1, "by-1", 2_000), 0);
    assert_eq!(send(&mut world, 3, "by-3", 2_000), ErrorCode::MessageTooLarge.code());
    assert_eq!(send(&mut world, 3, "by-3", 500), 0);
    assert_eq!(send(&mut world, 3, "own", 2_000), 0, "the topic's own win");

    // A broker tells of what it goes by itself.
    let described = |world: &mut World, broker: i32, name: &'static str| {
        let client = world.connect_to(broker);
        let resource = DescribeConfigsResource::default()
            .with_resource_type(2)
            .with_resource_name(text(name))
            .with_configuration_keys(Some(vec![text("max.message.bytes")]));
        let request = DescribeConfigsRequest::default().with_resources(vec![resource]);
        let row = world.ask(client, 4, &request).results[0].configs[0].clone();
        (row.value.unwrap().to_string(), row.config_source)
    };
    assert_eq!(described(&mut world, 1, "by-1"), ("1048588".to_owned(), 5));
    assert_eq!(described(&mut world, 3, "by-1"), ("1000".to_owned(), 4));
    assert_eq!(described(&mut world, 3, "own"), ("5000".to_owned(), 1));

    // Each takes away what is too old for it, whoever leads.
    world.advance(Duration::from_secs(700));
    assert_eq!((log_start(&world, "by-1", 1), log_start(&world, "by-1", 3)), (0, 1));
    assert_eq!((log_start(&world, "by-3", 1), log_start(&world, "by-3", 3)), (1, 1));
    assert_eq!((log_start(&world, "own", 1), log_start(&world, "own", 3)), (0, 0));

    // What is set for one while it runs acts there alone, and at once.
    let alter = |world: &mut World, broker: &str, key: &str, value: &str| {
        let client = world.connect_to(broker.parse().unwrap_or(1));
        let config = AlterableConfig::default().with_name(text(key)).with_value(Some(text(value)));
        let resource = AlterConfigsResource::default()
            .with_resource_type(4)
            .with_resource_name(text(broker))
            .with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        world.ask(client, 1, &request).responses[0].error_code
    };
    assert_eq!(alter(&mut world, "1", "message.max.bytes", "3000"), 0);
    assert_eq!(send(&mut world, 1, "by-1", 4_000), ErrorCode::MessageTooLarge.code());
    assert_eq!(alter(&mut world, "", "message.max.bytes", "9000"), 0);
    assert_eq!(send(&mut world, 1, "by-1", 4_000), ErrorCode::MessageTooLarge.code(), "its own is stronger");
    assert_eq!(send(&mut world, 3, "by-3", 4_000), 0, "what was set for all is stronger than a file");
    world.create_replicated("by-2", &[2], &[]);
    assert_eq!(send(&mut world, 2, "by-2", 4_000), 0);
    assert_eq!(
        alter(&mut world, "3", "log.cleaner.min.compaction.lag.ms", "9223372036854775807"),
        0,
        "what goes together"
    );
    let refused = alter(&mut world, "3", "log.cleaner.max.compaction.lag.ms", "5");
    assert_eq!(refused, ErrorCode::InvalidRequest.code());
}

#[test]
fn rates_of_throttled_replication_are_kept_and_shown_where_they_are_set() {
    let mut world = World::of_brokers(2, &[]);
    let alter = |world: &mut World, broker: &str, key: &str, value: &str| {
        let client = world.connect_to(broker.parse().unwrap_or(1));
        let config = AlterableConfig::default().with_name(text(key)).with_value(Some(text(value)));
        let resource = AlterConfigsResource::default()
            .with_resource_type(4)
            .with_resource_name(text(broker))
            .with_configs(vec![config]);
        let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
        world.ask(client, 1, &request).responses[0].error_code
    };
    for key in [
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    ] {
        assert_eq!(config(&mut world, 1, "1", key), (0, None));
        for wrong in ["-1", "x"] {
            assert_eq!(alter(&mut world, "1", key, wrong), ErrorCode::InvalidRequest.code());
        }
        assert_eq!(alter(&mut world, "1", key, "1000"), 0);
        assert_eq!(config(&mut world, 1, "1", key), (0, Some(("1000".to_owned(), 2))));
        assert_eq!(config(&mut world, 2, "2", key), (0, None));
        assert_eq!(alter(&mut world, "", key, "5"), 0);
        assert_eq!(config(&mut world, 2, "2", key), (0, Some(("5".to_owned(), 3))));
    }
}

#[test]
fn every_replica_tells_its_producers() {
    use kafka_protocol::messages::describe_producers_request::TopicRequest;
    use kafka_protocol::messages::{DescribeProducersRequest, DescribeProducersResponse};
    let mut world = World::of_brokers(3, &[]);
    world.create_replicated("t", &[1, 2], &[]);
    let leader = world.connect_to(1);
    let header =
        BatchHeader { producer_id: 9, producer_epoch: 2, base_sequence: 0, ..BatchHeader::default() };
    world.send(leader, PRODUCE, &produce("t", 0, batch_of(header, &["a", "b"], 77), -1));
    world.advance(Duration::from_secs(1));
    assert_eq!(error_of(&world.received::<ProduceRequest>(leader, PRODUCE).unwrap()), 0);
    let asked = TopicRequest::default().with_name(topic("t")).with_partition_indexes(vec![0]);
    let request = DescribeProducersRequest::default().with_topics(vec![asked]);
    for (broker, expected) in [(1, None), (2, None), (3, Some(ErrorCode::NotLeaderOrFollower))] {
        let client = world.connect_to(broker);
        let response: DescribeProducersResponse = world.ask(client, 0, &request);
        let row = &response.topics[0].partitions[0];
        assert_eq!(row.error_code, expected.unwrap_or_default().code(), "broker {broker}");
        let producers: Vec<(i64, i32)> = row
            .active_producers
            .iter()
            .map(|producer| (producer.producer_id.0, producer.last_sequence))
            .collect();
        assert_eq!(producers, if expected.is_none() { vec![(9, 1)] } else { Vec::new() }, "broker {broker}");
    }
}
