//! What administrators ask beside configs: sizes, producers, elections, moves, quotas, credentials.

use kafka_protocol::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic};
use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_producers_request::TopicRequest;
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::*;

use super::*;
use crate::base::ErrorCode;

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

#[test]
fn sizes_are_those_of_the_batches() {
    let mut world = World::new();
    world.create_topic("t", 2, &[]);
    let client = world.connect();
    let records = batch(&["a", "b"], 5);
    let size = records.len() as i64;
    for _ in 0..2 {
        let _: ProduceResponse = world.ask(client, PRODUCE, &produce("t", 1, records.clone(), -1));
    }
    let request = DescribeLogDirsRequest::default().with_topics(None);
    let response: DescribeLogDirsResponse = world.ask(client, 4, &request);
    let [dir] = response.results.as_slice() else { panic!("one directory") };
    assert_eq!(dir.log_dir.as_str(), "/tmp/kafka-logs");
    assert_eq!(dir.total_bytes, 1 << 30);
    assert!(dir.usable_bytes < dir.total_bytes);
    let sizes: Vec<i64> = dir.topics[0].partitions.iter().map(|row| row.partition_size).collect();
    assert_eq!(sizes, [0, 2 * size]);

    let none = DescribeLogDirsRequest::default().with_topics(Some(Vec::new()));
    let response: DescribeLogDirsResponse = world.ask(client, 1, &none);
    assert!(response.results[0].topics.is_empty());
}

#[test]
fn replicas_stay_in_the_one_directory() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let mut moved = |path: &str, name: &'static str| {
        let topics = vec![AlterReplicaLogDirTopic::default().with_name(topic(name)).with_partitions(vec![0])];
        let dirs = vec![AlterReplicaLogDir::default().with_path(text(path)).with_topics(topics)];
        let request = AlterReplicaLogDirsRequest::default().with_dirs(dirs);
        let response: AlterReplicaLogDirsResponse = world.ask(client, 2, &request);
        response.results[0].partitions[0].error_code
    };
    assert_eq!(moved("/elsewhere", "t"), ErrorCode::LogDirNotFound.code());
    assert_eq!(moved("/tmp/kafka-logs", "t"), 0);
    assert_eq!(moved("/tmp/kafka-logs", "u"), ErrorCode::UnknownTopicOrPartition.code());
}

#[test]
fn producers_are_described() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let header =
        BatchHeader { producer_id: 9, producer_epoch: 2, base_sequence: 0, ..BatchHeader::default() };
    let records = batch_of(header, &["a", "b"], 77);
    let response: ProduceResponse = world.ask(client, PRODUCE, &produce("t", 0, records, -1));
    assert_eq!(error_of(&response), 0);
    let request = DescribeProducersRequest::default().with_topics(vec![
        TopicRequest::default().with_name(topic("t")).with_partition_indexes(vec![0, 1]),
        TopicRequest::default().with_name(topic("a b")).with_partition_indexes(vec![0]),
    ]);
    let response: DescribeProducersResponse = world.ask(client, 0, &request);
    let producer = &response.topics[0].partitions[0].active_producers[0];
    assert_eq!((producer.producer_id.0, producer.producer_epoch), (9, 2));
    assert_eq!((producer.last_sequence, producer.last_timestamp), (1, 77));
    assert_eq!((producer.coordinator_epoch, producer.current_txn_start_offset), (-1, -1));
    let unknown = &response.topics[0].partitions[1];
    assert_eq!(unknown.error_code, ErrorCode::UnknownTopicOrPartition.code());
    let invalid = &response.topics[1].partitions[0];
    assert_eq!(invalid.error_code, ErrorCode::InvalidTopicException.code());
}

#[test]
fn no_election_is_needed() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let mut elect = |kind, partitions: Option<Vec<i32>>, timeout_ms| {
        let topics = partitions.map(|partitions| {
            vec![TopicPartitions::default().with_topic(topic("t")).with_partitions(partitions)]
        });
        let request = ElectLeadersRequest::default()
            .with_election_type(kind)
            .with_topic_partitions(topics)
            .with_timeout_ms(timeout_ms);
        let response: ElectLeadersResponse = world.ask(client, 2, &request);
        let rows = &response.replica_election_results[0].partition_result;
        (response.error_code, rows.iter().map(|row| row.error_code).collect::<Vec<_>>())
    };
    let not_needed = ErrorCode::ElectionNotNeeded.code();
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(elect(0, Some(vec![0, 9]), 1000), (0, vec![not_needed, unknown]));
    assert_eq!(elect(1, Some(vec![0]), 1000), (0, vec![not_needed]));
    assert_eq!(elect(0, None, 1000), (0, vec![]));
    assert_eq!(elect(2, Some(vec![0]), 1000), (42, vec![42]));
    assert_eq!(elect(0, Some(vec![0]), 0), (7, vec![7]));
}

#[test]
fn partitions_are_moved_to_where_they_are_alone() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let mut moved = |index, replicas: Option<&[i32]>| {
        let replicas = replicas.map(|ids| ids.iter().map(|id| BrokerId(*id)).collect());
        let partition = ReassignablePartition::default().with_partition_index(index).with_replicas(replicas);
        let topics =
            vec![ReassignableTopic::default().with_name(topic("t")).with_partitions(vec![partition])];
        let request = AlterPartitionReassignmentsRequest::default().with_timeout_ms(1000).with_topics(topics);
        let response: AlterPartitionReassignmentsResponse = world.ask(client, 1, &request);
        assert_eq!(response.error_message, None);
        ErrorCode::from_code(response.responses[0].partitions[0].error_code).unwrap()
    };
    assert_eq!(moved(0, Some(&[1])), ErrorCode::None);
    assert_eq!(moved(0, None), ErrorCode::NoReassignmentInProgress);
    assert_eq!(moved(9, Some(&[1])), ErrorCode::UnknownTopicOrPartition);
    for wrong in [&[][..], &[99], &[1, 1], &[-1]] {
        assert_eq!(moved(0, Some(wrong)), ErrorCode::InvalidReplicaAssignment);
    }
    let request = ListPartitionReassignmentsRequest::default().with_topics(None);
    let response: ListPartitionReassignmentsResponse = world.ask(client, 0, &request);
    assert_eq!((response.error_code, response.topics.len()), (0, 0));
}

/// Sets quotas (or takes them away, without a value) of a user.
fn quotas(user: Option<&str>, ops: &[(&str, Option<f64>)]) -> AlterClientQuotasRequest {
    let ops = ops.iter().map(|(key, value)| {
        OpData::default()
            .with_key(text(key))
            .with_value(value.unwrap_or_default())
            .with_remove(value.is_none())
    });
    let entity = EntityData::default().with_entity_type(text("user")).with_entity_name(user.map(text));
    AlterClientQuotasRequest::default()
        .with_entries(vec![EntryData::default().with_entity(vec![entity]).with_ops(ops.collect())])
}

#[test]
fn quotas_are_kept_and_listed() {
    let mut world = World::new();
    let client = world.connect();
    let alter = |world: &mut World, request: AlterClientQuotasRequest| {
        let response: AlterClientQuotasResponse = world.ask(client, 1, &request);
        response.entries[0].error_code
    };
    let listed = |world: &mut World, component: ComponentData| {
        let request = DescribeClientQuotasRequest::default().with_components(vec![component]);
        let response: DescribeClientQuotasResponse = world.ask(client, 1, &request);
        let values = response.entries.unwrap_or_default().into_iter().flat_map(|entry| entry.values);
        (response.error_code, values.map(|value| (value.key.to_string(), value.value)).collect::<Vec<_>>())
    };
    let user = ComponentData::default().with_entity_type(text("user")).with_match(None);
    let any = user.clone().with_match_type(2);
    let set = [("producer_byte_rate", Some(1e6))];
    assert_eq!(alter(&mut world, quotas(Some("u"), &set).with_validate_only(true)), 0);
    assert_eq!(listed(&mut world, any.clone()), (0, vec![]));
    assert_eq!(alter(&mut world, quotas(Some("u"), &set)), 0);
    assert_eq!(alter(&mut world, quotas(None, &[("request_percentage", Some(0.5))])), 0);
    assert_eq!(alter(&mut world, quotas(Some(""), &set)), ErrorCode::InvalidRequest.code());
    assert_eq!(listed(&mut world, any.clone()).1.len(), 2);
    let default = user.clone().with_match_type(1);
    assert_eq!(listed(&mut world, default), (0, vec![("request_percentage".to_owned(), 0.5)]));
    let named = user.clone().with_match(Some(text("u")));
    assert_eq!(listed(&mut world, named), (0, vec![("producer_byte_rate".to_owned(), 1e6)]));
    assert_eq!(listed(&mut world, user.with_match_type(7)).0, ErrorCode::InvalidRequest.code());
    let unknown =
        ComponentData::default().with_entity_type(text("tenant")).with_match_type(2).with_match(None);
    assert_eq!(listed(&mut world, unknown).0, ErrorCode::UnsupportedVersion.code());
    assert_eq!(alter(&mut world, quotas(Some("u"), &[("producer_byte_rate", None)])), 0);
    assert_eq!(listed(&mut world, any).1.len(), 1);
}

#[test]
fn credentials_are_kept_and_listed() {
    let mut world = World::new();
    let client = world.connect();
    let upsert = |user: &str, mechanism, iterations| {
        ScramCredentialUpsertion::default()
            .with_name(text(user))
            .with_mechanism(mechanism)
            .with_iterations(iterations)
            .with_salt(Bytes::from_static(b"salt"))
            .with_salted_password(Bytes::from_static(b"password"))
    };
    let alter = |world: &mut World, upsertions, deletions| {
        let request =
            AlterUserScramCredentialsRequest::default().with_upsertions(upsertions).with_deletions(deletions);
        let response: AlterUserScramCredentialsResponse = world.ask(client, 0, &request);
        ErrorCode::from_code(response.results[0].error_code).unwrap()
    };
    let delete = |user: &str| ScramCredentialDeletion::default().with_name(text(user)).with_mechanism(1);
    for (upsertion, error) in [
        (upsert("u", 1, 4096), ErrorCode::None),
        (upsert("u", 2, 16_384), ErrorCode::None),
        (upsert("u", 3, 4096), ErrorCode::UnsupportedSaslMechanism),
        (upsert("u", 1, 4095), ErrorCode::UnacceptableCredential),
        (upsert("u", 1, 16_385), ErrorCode::UnacceptableCredential),
        (upsert("", 1, 4096), ErrorCode::UnacceptableCredential),
    ] {
        assert_eq!(alter(&mut world, vec![upsertion.clone()], vec![]), error, "{upsertion:?}");
    }
    assert_eq!(alter(&mut world, vec![], vec![delete("v")]), ErrorCode::ResourceNotFound);
    let both = alter(&mut world, vec![upsert("u", 1, 4096)], vec![delete("u")]);
    assert_eq!(both, ErrorCode::DuplicateResource);
    assert_eq!(alter(&mut world, vec![], vec![delete("u")]), ErrorCode::None);

    let listed = |world: &mut World, users: &[&str]| {
        let users = users.iter().map(|name| UserName::default().with_name(text(name))).collect();
        let request = DescribeUserScramCredentialsRequest::default().with_users(Some(users));
        let response: DescribeUserScramCredentialsResponse = world.ask(client, 0, &request);
        response.results
    };
    let all = listed(&mut world, &[]);
    let infos: Vec<(i8, i32)> =
        all[0].credential_infos.iter().map(|info| (info.mechanism, info.iterations)).collect();
    assert_eq!((all.len(), infos), (1, vec![(2, 16_384)]));
    assert_eq!(listed(&mut world, &["v"])[0].error_code, ErrorCode::ResourceNotFound.code());
    assert_eq!(listed(&mut world, &["u", "u"])[0].error_code, ErrorCode::DuplicateResource.code());
}

#[test]
fn what_is_not_there_is_said_not_to_be() {
    let mut world = World::new();
    let client = world.connect();
    let filter = DescribeAclsRequest::default()
        .with_resource_type_filter(2)
        .with_pattern_type_filter(3)
        .with_operation(3)
        .with_permission_type(3);
    let response: DescribeAclsResponse = world.ask(client, 3, &filter);
    assert_eq!(response.error_code, ErrorCode::SecurityDisabled.code());
    let creation = AclCreation::default()
        .with_resource_type(2)
        .with_resource_pattern_type(3)
        .with_operation(3)
        .with_permission_type(3);
    let creations = vec![creation.clone(), creation];
    let response: CreateAclsResponse =
        world.ask(client, 3, &CreateAclsRequest::default().with_creations(creations));
    let errors: Vec<i16> = response.results.iter().map(|row| row.error_code).collect();
    assert_eq!(errors, [ErrorCode::SecurityDisabled.code(); 2]);
    let filter = DeleteAclsFilter::default()
        .with_resource_type_filter(2)
        .with_pattern_type_filter(3)
        .with_operation(3)
        .with_permission_type(3);
    let request = DeleteAclsRequest::default().with_filters(vec![filter]);
    let response: DeleteAclsResponse = world.ask(client, 3, &request);
    assert_eq!(response.filter_results[0].error_code, ErrorCode::SecurityDisabled.code());

    let update = FeatureUpdateKey::default().with_feature(text("metadata.version")).with_max_version_level(1);
    let request = UpdateFeaturesRequest::default().with_feature_updates(vec![update]);
    let response: UpdateFeaturesResponse = world.ask(client, 1, &request);
    assert_eq!(response.error_code, ErrorCode::InvalidUpdateVersion.code());

    for (id, error) in [(9, ErrorCode::BrokerIdNotRegistered), (1, ErrorCode::InvalidRequest)] {
        let request = UnregisterBrokerRequest::default().with_broker_id(BrokerId(id));
        let response: UnregisterBrokerResponse = world.ask(client, 0, &request);
        assert_eq!(response.error_code, error.code());
    }
}

#[test]
fn the_quorum_is_the_broker_that_stands_for_the_controller() {
    use kafka_protocol::messages::describe_quorum_request::{PartitionData, TopicData};
    let mut world = World::new();
    world.create_topic("t", 3, &[]);
    let client = world.connect();
    let mut describe = |version, rows: &[(&'static str, i32)]| {
        let topics = rows.iter().map(|&(name, index)| {
            let partition = PartitionData::default().with_partition_index(index);
            TopicData::default().with_topic_name(topic(name)).with_partitions(vec![partition])
        });
        let request = DescribeQuorumRequest::default().with_topics(topics.collect());
        let response: DescribeQuorumResponse = world.ask(client, version, &request);
        response
    };
    let metadata = "__cluster_metadata";
    let response = describe(2, &[(metadata, 0)]);
    let partition = &response.topics[0].partitions[0];
    assert_eq!((partition.error_code, partition.leader_id.0), (0, 1));
    assert!(partition.high_watermark >= 3, "a change for each partition at least");
    let [voter] = partition.current_voters.as_slice() else { panic!("{partition:?}") };
    assert_eq!((voter.replica_id.0, voter.log_end_offset), (1, partition.high_watermark));
    assert!(partition.observers.is_empty());
    let listener = &response.nodes[0].listeners[0];
    assert_eq!((listener.name.as_str(), listener.host.as_str()), ("PLAINTEXT", "127.0.0.1"));
    assert_eq!(describe(0, &[(metadata, 0)]).nodes, []);

    for wrong in [&[(metadata, 1)][..], &[("t", 0)], &[(metadata, 0), (metadata, 0)]] {
        let response = describe(1, wrong);
        assert_eq!(response.topics.len(), wrong.len());
        let codes = response.topics.iter().map(|topic| topic.partitions[0].error_code);
        assert!(codes.into_iter().all(|code| code == ErrorCode::UnknownTopicOrPartition.code()), "{wrong:?}");
    }
    assert_eq!(describe(2, &[]).topics, []);
}

#[test]
fn listeners_without_login_say_so() {
    let mut world = World::new();
    let client = world.connect();
    let illegal = ErrorCode::IllegalSaslState.code();
    let handshake = SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
    let response: SaslHandshakeResponse = world.ask(client, 1, &handshake);
    assert_eq!((response.error_code, response.mechanisms.len()), (illegal, 0));
    let response: SaslAuthenticateResponse = world.ask(client, 2, &SaslAuthenticateRequest::default());
    assert_eq!(response.error_code, illegal);
}

#[test]
fn rights_of_an_unknown_kind_are_no_request() {
    use crate::api::{PrepareLimits, Preparer};
    let refused = |version: i16, change: fn(DescribeAclsRequest) -> DescribeAclsRequest| {
        let filter = DescribeAclsRequest::default()
            .with_resource_type_filter(2)
            .with_pattern_type_filter(3)
            .with_operation(3)
            .with_permission_type(3);
        let mut frame = BytesMut::new();
        let header = RequestHeader::default().with_request_api_key(29).with_request_api_version(version);
        header.encode(&mut frame, DescribeAclsRequest::header_version(version)).unwrap();
        change(filter).encode(&mut frame, version).unwrap();
        Preparer::new(PrepareLimits::default()).prepare(frame.freeze()).is_err()
    };
    assert!(!refused(2, |filter| filter));
    assert!(!refused(2, |filter| filter.with_operation(127)));
    assert!(refused(2, |filter| filter.with_operation(0)));
    assert!(refused(1, |filter| filter.with_resource_type_filter(0)));
    assert!(refused(3, |filter| filter.with_pattern_type_filter(0)));
    assert!(refused(3, |filter| filter.with_permission_type(0)));
}

#[test]
fn an_entity_that_is_named_twice_is_refused_once() {
    let mut world = World::new();
    let client = world.connect();
    let entity =
        || vec![EntityData::default().with_entity_type(text("user")).with_entity_name(Some(text("u")))];
    let quota = |value| OpData::default().with_key(text("producer_byte_rate")).with_value(value);
    let entry = |value| EntryData::default().with_entity(entity()).with_ops(vec![quota(value)]);
    let mut alter = |entries| {
        let request = AlterClientQuotasRequest::default().with_entries(entries);
        let response: AlterClientQuotasResponse = world.ask(client, 1, &request);
        response.entries.iter().map(|row| (row.error_code, row.entity.len())).collect::<Vec<_>>()
    };
    assert_eq!(alter(vec![entry(1.0), entry(2.0)]), [(ErrorCode::InvalidRequest.code(), 1)]);
    let twice = entry(1.0).with_entity([entity(), entity()].concat());
    assert_eq!(alter(vec![twice]), [(0, 1)]);
    assert_eq!(alter(vec![entry(1e300)]), [(ErrorCode::InvalidRequest.code(), 1)]);
}
