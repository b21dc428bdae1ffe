//! Answers that are not what one would guess. Each is Apache Kafka 4.1.0's, seen on the wire beside huld's.

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_topic_partitions_request::{Cursor, TopicRequest};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{
    CreatePartitionsRequest, DeleteRecordsRequest, DeleteTopicsRequest, DeleteTopicsResponse,
    DescribeTopicPartitionsRequest, ListOffsetsRequest, MetadataRequest, OffsetForLeaderEpochRequest,
};
use uuid::Uuid;

use super::*;
use crate::base::ErrorCode;

#[test]
fn names_that_collide_may_come_into_being_together() {
    let mut world = World::new();
    let client = world.connect();
    let mut request = create_topics("a.b", 1, &[]);
    request.topics.extend(create_topics("a_b", 1, &[]).topics);
    let response = world.ask(client, 7, &request);
    assert_eq!(response.topics.iter().map(|topic| topic.error_code).collect::<Vec<_>>(), [0, 0]);
    let mut refused = |name| world.ask(client, 7, &create_topics(name, 1, &[])).topics[0].error_code;
    assert_eq!(refused("a_b"), ErrorCode::TopicAlreadyExists.code());

    let delete = DeleteTopicsRequest::default().with_timeout_ms(1000).with_topic_names(vec![topic("a.b")]);
    assert_eq!(world.ask(client, 5, &delete).responses[0].error_code, 0);
    let mut refused = |name| world.ask(client, 7, &create_topics(name, 1, &[])).topics[0].error_code;
    assert_eq!(refused("a.b"), ErrorCode::InvalidTopicException.code(), "the other one is still there");
}

#[test]
fn min_insync_replicas_is_a_config_of_the_whole_cluster() {
    let mut world = World::with(&[("min.insync.replicas", "2")]);
    let client = world.connect();
    let response = world.ask(client, 7, &create_topics("t", 1, &[]));
    let configs = response.topics[0].configs.as_ref().unwrap();
    let config = configs.iter().find(|config| config.name.as_str() == "min.insync.replicas").unwrap();
    assert_eq!((config.value.as_deref(), config.config_source), (Some("2"), 3));
}

#[test]
fn a_request_without_time_fails_as_a_whole_and_without_words() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let create = world.ask(client, 7, &create_topics("u", 1, &[]).with_timeout_ms(0));
    let grow = CreatePartitionsTopic::default().with_name(topic("t")).with_count(2).with_assignments(None);
    let grow = world.ask(client, 3, &CreatePartitionsRequest::default().with_topics(vec![grow]));
    let delete = DeleteTopicsRequest::default().with_topic_names(vec![topic("t"), topic("t"), topic("x")]);
    let delete = world.ask(client, 5, &delete);
    let timed_out = ErrorCode::RequestTimedOut.code();
    assert_eq!((create.topics[0].error_code, &create.topics[0].error_message), (timed_out, &None));
    assert_eq!((grow.results[0].error_code, &grow.results[0].error_message), (timed_out, &None));
    assert_eq!(delete.responses.len(), 3);
    for row in &delete.responses {
        assert_eq!((row.error_code, &row.error_message), (timed_out, &None));
    }
}

#[test]
fn growing_a_topic_that_is_not_there_has_no_message() {
    let mut world = World::new();
    let client = world.connect();
    let grow = CreatePartitionsTopic::default().with_name(topic("t")).with_count(2).with_assignments(None);
    let request = CreatePartitionsRequest::default().with_timeout_ms(1000).with_topics(vec![grow]);
    let result = &world.ask(client, 3, &request).results[0];
    assert_eq!(result.error_code, ErrorCode::UnknownTopicOrPartition.code());
    assert_eq!(result.error_message, None);
}

#[test]
fn a_topic_named_by_name_and_by_id_is_not_deleted() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let id: Uuid = world.cluster.controller().topics().by_name("t").unwrap().id.into();
    let by_name = DeleteTopicState::default().with_name(Some(topic("t")));
    let by_id = DeleteTopicState::default().with_name(None).with_topic_id(id);
    let mut delete = |topics: Vec<DeleteTopicState>| -> DeleteTopicsResponse {
        world.ask(client, 6, &DeleteTopicsRequest::default().with_timeout_ms(1000).with_topics(topics))
    };
    let response = delete(vec![by_name, by_id.clone()]);
    assert_eq!(response.responses.len(), 1);
    let row = &response.responses[0];
    assert_eq!((row.error_code, row.topic_id), (ErrorCode::InvalidRequest.code(), id));
    assert_eq!(row.name, Some(topic("t")));
    assert_eq!(
        delete(vec![by_id.clone(), by_id.clone()]).responses[0].error_code,
        ErrorCode::InvalidRequest.code()
    );
    assert_eq!(delete(vec![by_id]).responses[0].error_code, 0);
}

#[test]
fn metadata_of_a_topic_without_name_and_id_fails_as_a_whole() {
    let mut world = World::new();
    let client = world.connect();
    let request =
        MetadataRequest::default().with_topics(Some(vec![MetadataRequestTopic::default().with_name(None)]));
    let response = world.ask(client, 13, &request);
    assert_eq!(response.error_code, ErrorCode::UnknownServerError.code());
    assert_eq!(response.topics[0].error_code, ErrorCode::UnknownServerError.code());
    assert_eq!(response.topics[0].name, Some(topic("")));
    assert_eq!((response.brokers.len(), response.controller_id.0), (0, -1));
}

#[test]
fn metadata_does_not_make_a_reserved_name_and_says_so_of_one_that_collides() {
    let mut world = World::new();
    world.create_topic("a.b", 1, &[]);
    let client = world.connect();
    let named = |name| MetadataRequestTopic::default().with_name(Some(topic(name)));
    let request = MetadataRequest::default()
        .with_topics(Some(vec![named("__cluster_metadata"), named("a_b")]))
        .with_allow_auto_topic_creation(true);
    let codes: Vec<i16> =
        world.ask(client, 12, &request).topics.iter().map(|topic| topic.error_code).collect();
    let expected = [ErrorCode::UnknownTopicOrPartition, ErrorCode::InvalidTopicException];
    assert_eq!(codes, expected.map(ErrorCode::code));
}

#[test]
fn of_a_partition_that_is_produced_to_twice_the_last_records_count() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let mut request = produce("t", 0, batch(&["first"], 1), 1);
    request.topic_data.extend(produce("t", 0, batch(&["second"], 1), 1).topic_data);
    let response = world.ask(client, PRODUCE, &request);
    assert_eq!(response.responses.len(), 1);
    assert_eq!(response.responses[0].partition_responses.len(), 1);
    let response = world.ask(client, FETCH, &fetch("t", 0, 0));
    assert_eq!(values(records_of(&response)), [(0, "second".to_owned())]);
}

#[test]
fn a_batch_larger_than_a_segment_is_refused_without_a_log_start() {
    let mut world = World::new();
    world.create_topic("t", 1, &[("segment.bytes", "1048576"), ("max.message.bytes", "4194304")]);
    let client = world.connect();
    let large = "x".repeat(2 << 20);
    let response = world.ask(client, PRODUCE, &produce("t", 0, batch(&[&large], 1), 1));
    let row = &response.responses[0].partition_responses[0];
    assert_eq!((row.error_code, row.log_start_offset), (ErrorCode::RecordListTooLarge.code(), -1));
}

#[test]
fn of_a_partition_that_is_fetched_twice_the_last_word_counts() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    for value in ["a", "b"] {
        world.ask(client, PRODUCE, &produce("t", 0, batch(&[value], 1), 1));
    }
    let mut request = fetch("t", 0, 0);
    request.topics.extend(fetch("t", 0, 1).topics);
    let response = world.ask(client, FETCH, &request);
    assert_eq!((response.responses.len(), response.responses[0].partitions.len()), (1, 1));
    assert_eq!(values(records_of(&response)), [(1, "b".to_owned())]);
}

#[test]
fn a_negative_size_fails_the_first_partition_that_has_something_to_read() {
    let mut world = World::new();
    world.create_topic("t", 3, &[]);
    let client = world.connect();
    for index in [1, 2] {
        world.ask(client, PRODUCE, &produce("t", index, batch(&["a"], 1), 1));
    }
    let mut request = fetch("t", 1, 0).with_max_bytes(-1);
    request.topics.extend(fetch("t", 2, 0).topics);
    let response = world.ask(client, FETCH, &request);
    let rows: Vec<_> = response.responses.iter().flat_map(|topic| &topic.partitions).collect();
    assert_eq!((rows[0].error_code, rows[0].high_watermark), (ErrorCode::UnknownServerError.code(), -1));
    assert_eq!(rows[1].error_code, 0);
    assert!(!rows[1].records.as_ref().unwrap().is_empty(), "what is left then is 0 bytes: one batch");

    let idle = fetch("t", 0, 0).with_max_bytes(-1);
    assert_eq!(world.ask(client, FETCH, &idle).responses[0].partitions[0].error_code, 0);
}

#[test]
fn an_unknown_partition_has_no_aborted_transactions_rather_than_none() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let response = world.ask(client, FETCH, &fetch("t", 9, 0));
    assert_eq!(response.responses[0].partitions[0].aborted_transactions, Some(Vec::new()));
    let response = world.ask(client, FETCH, &fetch("t", 0, 9));
    let row = &response.responses[0].partitions[0];
    assert_eq!((row.error_code, &row.aborted_transactions), (ErrorCode::OffsetOutOfRange.code(), &None));
}

#[test]
fn what_cannot_be_read_comes_last_and_unknown_ids_before_unknown_partitions() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let id: Uuid = world.cluster.controller().topics().by_name("t").unwrap().id.into();
    let wanted = |id, index| {
        let mut topic = fetch("", index, 0).topics.remove(0);
        topic.topic_id = id;
        topic
    };
    let topics = vec![wanted(id, 9), wanted(Uuid::from_u128(5), 0), wanted(id, 0)];
    let response = world.ask(client, 18, &fetch("", 0, 0).with_max_wait_ms(0).with_topics(topics));
    let rows = response.responses.iter().flat_map(|topic| &topic.partitions);
    let codes: Vec<i16> = rows.map(|row| row.error_code).collect();
    let expected = [ErrorCode::None, ErrorCode::UnknownTopicId, ErrorCode::UnknownTopicOrPartition];
    assert_eq!(codes, expected.map(ErrorCode::code));
}

#[test]
fn a_session_by_ids_holds_on_to_the_name_of_a_topic_that_is_gone() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let id: Uuid = world.cluster.controller().topics().by_name("t").unwrap().id.into();
    let mut first = fetch("", 0, 0).with_max_wait_ms(0).with_session_epoch(0);
    first.topics[0].topic_id = id;
    let session = world.ask(client, 18, &first).session_id;
    let next = |world: &mut World, epoch| {
        let request =
            first.clone().with_session_id(session).with_session_epoch(epoch).with_topics(Vec::new());
        let response = world.ask(client, 18, &request);
        let topic = response.responses.first().expect("an error is told");
        assert_eq!(topic.topic_id, id);
        topic.partitions[0].error_code
    };
    let other = world.connect();
    let delete = DeleteTopicsRequest::default().with_timeout_ms(1000).with_topic_names(vec![topic("t")]);
    assert_eq!(world.ask(other, 5, &delete).responses[0].error_code, 0);
    assert_eq!(next(&mut world, 1), ErrorCode::UnknownTopicOrPartition.code());
    world.create_topic("t", 1, &[]);
    assert_eq!(next(&mut world, 2), ErrorCode::InconsistentTopicId.code());
}

#[test]
fn a_negative_leader_epoch_is_none_to_fetch_and_old_to_list_offsets() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let mut request = fetch("t", 0, 0).with_max_wait_ms(0);
    request.topics[0].partitions[0].current_leader_epoch = -2;
    request.topics[0].partitions[0].last_fetched_epoch = -2;
    assert_eq!(world.ask(client, FETCH, &request).responses[0].partitions[0].error_code, 0);
    let latest = ListOffsetsPartition::default().with_timestamp(-1).with_current_leader_epoch(-2);
    let response = world.ask(client, 10, &list_offsets(vec![latest]));
    assert_eq!(response.topics[0].partitions[0].error_code, ErrorCode::FencedLeaderEpoch.code());
}

fn list_offsets(partitions: Vec<ListOffsetsPartition>) -> ListOffsetsRequest {
    let topics = vec![ListOffsetsTopic::default().with_name(topic("t")).with_partitions(partitions)];
    ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(topics)
}

#[test]
fn a_partition_that_is_listed_twice_is_refused_once() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let asked = |timestamp| ListOffsetsPartition::default().with_timestamp(timestamp);
    let response = world.ask(client, 10, &list_offsets(vec![asked(-1), asked(-2)]));
    let rows = &response.topics[0].partitions;
    assert_eq!((rows.len(), rows[0].error_code), (1, ErrorCode::InvalidRequest.code()));
    assert!(world.ask(client, 10, &list_offsets(Vec::new())).topics.is_empty());
}

#[test]
fn of_a_partition_whose_records_are_deleted_twice_the_last_offset_counts() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    world.ask(client, PRODUCE, &produce("t", 0, batch(&["a", "b", "c"], 1), 1));
    let to = |offset| DeleteRecordsPartition::default().with_offset(offset);
    let topics =
        vec![DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![to(3), to(1)])];
    let response =
        world.ask(client, 2, &DeleteRecordsRequest::default().with_timeout_ms(1000).with_topics(topics));
    let rows = &response.topics[0].partitions;
    assert_eq!((rows.len(), rows[0].error_code, rows[0].low_watermark), (1, 0, 1));
}

#[test]
fn a_bad_cursor_fails_every_topic() {
    let mut world = World::new();
    world.create_topic("a", 1, &[]);
    let client = world.connect();
    for (cursor, index) in [("a", -1), ("b", 0)] {
        let cursor = Cursor::default().with_topic_name(topic(cursor)).with_partition_index(index);
        let request = DescribeTopicPartitionsRequest::default()
            .with_topics(vec![TopicRequest::default().with_name(topic("a"))])
            .with_response_partition_limit(10)
            .with_cursor(Some(cursor));
        let response = world.ask(client, 0, &request);
        assert_eq!(response.topics[0].error_code, ErrorCode::InvalidRequest.code());
        assert!(response.next_cursor.is_none());
    }
}

#[test]
fn a_page_may_end_before_a_topic_that_is_not_there() {
    let mut world = World::new();
    world.create_topic("a", 2, &[]);
    let client = world.connect();
    let named = |name| TopicRequest::default().with_name(topic(name));
    let request = DescribeTopicPartitionsRequest::default()
        .with_topics(vec![named("a"), named("b")])
        .with_response_partition_limit(2);
    let response = world.ask(client, 0, &request);
    assert_eq!(response.topics.len(), 1);
    let cursor = response.next_cursor.expect("there is more");
    assert_eq!((cursor.topic_name.as_str(), cursor.partition_index), ("b", 0));
    let response = world.ask(client, 0, &request.with_response_partition_limit(3));
    assert_eq!(response.topics[1].error_code, ErrorCode::UnknownTopicOrPartition.code());
    assert_eq!(
        response.topics[1].topic_authorized_operations,
        response.topics[0].topic_authorized_operations
    );
}

#[test]
fn an_isolation_level_that_is_none_fails_every_partition() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let asked = ListOffsetsPartition::default().with_timestamp(-1);
    let response = world.ask(client, 10, &list_offsets(vec![asked]).with_isolation_level(2));
    let row = &response.topics[0].partitions[0];
    let expected = (ErrorCode::UnknownServerError.code(), -1, -1);
    assert_eq!((row.error_code, row.offset, row.timestamp), expected);
    let response = world.ask(client, FETCH, &fetch("t", 0, 0).with_isolation_level(2));
    assert_eq!(response.error_code, ErrorCode::UnknownServerError.code());
    assert_eq!(response.responses[0].partitions[0].error_code, ErrorCode::UnknownServerError.code());
}

#[test]
fn an_epoch_before_all_others_ends_where_the_first_starts() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    world.ask(client, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    let mut end = |epoch| {
        let asked = OffsetForLeaderPartition::default().with_current_leader_epoch(0).with_leader_epoch(epoch);
        let asked = OffsetForLeaderTopic::default().with_topic(topic("t")).with_partitions(vec![asked]);
        let request = OffsetForLeaderEpochRequest::default().with_topics(vec![asked]);
        let response = world.ask(client, 4, &request);
        let row = &response.topics[0].partitions[0];
        (row.error_code, row.leader_epoch, row.end_offset)
    };
    assert_eq!(end(0), (0, 0, 1));
    assert_eq!(end(1), (0, -1, -1));
    assert_eq!(end(-1), (0, -1, -1));
    assert_eq!(end(-2), (0, -2, 0));
}

#[test]
fn partitions_and_their_assignments_are_counted_before_they_are_found_too_many() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let mut error = |assignments| {
        let grow = CreatePartitionsTopic::default()
            .with_name(topic("t"))
            .with_count(i32::MAX)
            .with_assignments(assignments);
        let request = CreatePartitionsRequest::default().with_timeout_ms(1000).with_topics(vec![grow]);
        world.ask(client, 3, &request).results[0].error_code
    };
    assert_eq!(error(Some(Vec::new())), ErrorCode::InvalidReplicaAssignment.code());
    assert_eq!(error(None), ErrorCode::PolicyViolation.code());
}
