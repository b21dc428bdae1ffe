//! Requests to coordinators that a client in its right mind doesn't send: epochs from the past and from the future, ids of
//! others, transactional fields where there is no transaction, times out of bounds, subscriptions and assignments that are
//! garbage. What is expected is what Apache Kafka 4.1.0 answered to the same requests in the same order, where a comment
//! doesn't say otherwise.

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, GroupId, InitProducerIdRequest,
    JoinGroupRequest, ProducerId, SyncGroupRequest, TransactionalId, TxnOffsetCommitRequest,
};

use super::consumer_groups::{Member, error, names};
use super::groups::{JOIN, join, sync, text, world};
use super::transactions::{COMMITTED, Txn, find_coordinator, read, state_of, transactional_id};
use super::*;
use crate::base::{ErrorCode, TopicId};

/// Error code, id and epoch of an InitProducerId.
fn init(
    world: &mut World,
    version: i16,
    id: Option<&str>,
    timeout_ms: i32,
    (producer_id, epoch): (i64, i16),
) -> (ErrorCode, i64, i16) {
    let client = world.connect();
    let request = InitProducerIdRequest::default()
        .with_transactional_id(id.map(|id| TransactionalId(text(id))))
        .with_transaction_timeout_ms(timeout_ms)
        .with_producer_id(ProducerId(producer_id))
        .with_producer_epoch(epoch);
    let response = world.ask(client, version, &request);
    let error = ErrorCode::from_code(response.error_code).unwrap();
    (error, response.producer_id.0, response.producer_epoch)
}

#[test]
fn producers_that_begin_with_nonsense() {
    let mut world = World::new();
    let client = world.connect();
    find_coordinator(&mut world, client, "id");
    let bounds = [
        (i32::MIN, false),
        (-1, false),
        (0, false),
        (1, true),
        (900_000, true),
        (900_001, false),
        (i32::MAX, false),
    ];
    for version in [1, 4, 5] {
        for (timeout_ms, is_allowed) in bounds {
            let id = format!("i{version}{timeout_ms}");
            let expected = if is_allowed { ErrorCode::None } else { ErrorCode::InvalidTransactionTimeout };
            assert_eq!(
                init(&mut world, version, Some(&id), timeout_ms, (-1, -1)).0,
                expected,
                "{timeout_ms}"
            );
            // Without transactions there is no time for them.
            let (error, _, epoch) = init(&mut world, version, None, timeout_ms, (-1, -1));
            assert_eq!((error, epoch), (ErrorCode::None, 0), "{timeout_ms}");
        }
    }
    for had in [(5, -1), (-1, 5)] {
        for id in [Some("half"), None] {
            assert_eq!(init(&mut world, 4, id, 1_000, had).0, ErrorCode::InvalidRequest, "{had:?}");
        }
    }
    let mut given = std::collections::BTreeSet::new();
    for (at, had) in [(5, 5), (-2, -2), (i64::MAX, i16::MAX), (0, 0)].into_iter().enumerate() {
        let id = format!("whole-{at}");
        for id in [Some(&*id), None] {
            let (error, producer_id, epoch) = init(&mut world, 4, id, 1_000, had);
            assert_eq!((error, epoch), (ErrorCode::None, 0), "{had:?}: whoever isn't known begins anew");
            assert!(given.insert(producer_id) && producer_id != i64::MAX);
        }
    }
    assert_eq!(init(&mut world, 4, Some(""), 1_000, (-1, -1)).0, ErrorCode::InvalidRequest);
}

/// A batch of one record, as this producer's.
fn record(producer_id: i64, epoch: i16, sequence: i32, is_transactional: bool) -> Bytes {
    let header = BatchHeader {
        is_transactional,
        producer_id,
        producer_epoch: epoch,
        base_sequence: sequence,
        ..BatchHeader::default()
    };
    batch_of(header, &["x"], 1)
}

#[test]
fn transactional_fields_where_there_is_no_transaction() {
    let mut world = World::new();
    world.create_topic("t", 3, &[]);
    let mut txn = Txn::begin(&mut world, "id", false);
    assert_eq!(txn.init(&mut world, 60_000), 0);
    let (pid, epoch) = (txn.producer_id, txn.epoch);
    assert_eq!(epoch, 1);
    let send = |world: &mut World, version, index, records, id: Option<&'static str>, acks| {
        let request = produce("t", index, records, acks).with_transactional_id(id.map(transactional_id));
        ErrorCode::from_code(error_of(&world.ask(txn.leader, version, &request))).unwrap()
    };
    let (id, fenced) = (Some("id"), ErrorCode::InvalidProducerEpoch);
    for (at, version) in [9, 11, 12].into_iter().enumerate() {
        for epoch in [0, 2, 32_000] {
            let records = record(pid, epoch, 0, true);
            assert_eq!(send(&mut world, version, 2, records, id, -1), fenced, "v{version}: epoch {epoch}");
        }
        let others = record(pid + 1_000_000, epoch, 0, true);
        assert_eq!(send(&mut world, version, 2, others, id, -1), ErrorCode::InvalidProducerIdMapping);
        let plain = || batch(&["x"], 1);
        assert_eq!(
            send(&mut world, version, 0, plain(), id, -1),
            ErrorCode::None,
            "an id, and no transaction"
        );
        let idempotent = record(pid, epoch, at as i32, false);
        assert_eq!(send(&mut world, version, 0, idempotent, id, -1), ErrorCode::None);
        let records = || record(pid, epoch, 0, true);
        let unauthorized = ErrorCode::TransactionalIdAuthorizationFailed;
        assert_eq!(send(&mut world, version, 1, records(), None, -1), unauthorized);
        assert_eq!(send(&mut world, version, 1, records(), Some(""), -1), ErrorCode::InvalidRequest);
        let expected = match version {
            9 => ErrorCode::InvalidTxnState,
            11 => ErrorCode::TransactionAbortable,
            _ => ErrorCode::None,
        };
        assert_eq!(
            send(&mut world, version, 1, records(), id, 1),
            expected,
            "acks are no matter: v{version}"
        );
    }
    assert_eq!(state_of(&mut world, "id"), "Ongoing");
    assert_eq!(txn.add(&mut world, "t", &[0]), [0]);
    let before = record(pid, epoch, 3, false);
    assert_eq!(send(&mut world, 11, 0, before, id, -1), ErrorCode::None, "it has not begun there yet");
    assert_eq!(send(&mut world, 11, 0, record(pid, epoch, 4, true), id, -1), ErrorCode::None);
    let within = record(pid, epoch, 5, false);
    assert_eq!(
        send(&mut world, 11, 0, within, id, -1),
        ErrorCode::InvalidTxnState,
        "not in the middle of one"
    );
    assert_eq!(read(&mut world, "t", COMMITTED).len(), 7);
}

#[test]
fn epochs_and_ids_of_others_are_refused_by_every_request_of_a_transaction() {
    let mut world = World::new();
    world.create_topic("t", 2, &[]);
    let client = world.connect();
    let find = kafka_protocol::messages::FindCoordinatorRequest::default().with_key(text("g"));
    assert_eq!(world.ask(client, 3, &find).error_code, 0);
    let mut txn = Txn::begin(&mut world, "id", false);
    assert_eq!(txn.init(&mut world, 60_000), 0);
    assert_eq!(txn.add(&mut world, "t", &[1]), [0]);
    let (pid, epoch) = (ProducerId(txn.producer_id), txn.epoch);
    let strangers = [
        (pid, epoch - 1, ErrorCode::ProducerFenced),
        (pid, epoch + 1, ErrorCode::ProducerFenced),
        (ProducerId(pid.0 + 1), epoch, ErrorCode::InvalidProducerIdMapping),
        (ProducerId(-1), -1, ErrorCode::InvalidProducerIdMapping),
    ];
    for (pid, epoch, expected) in strangers {
        // What clients know before PRODUCER_FENCED.
        let old =
            if expected == ErrorCode::ProducerFenced { ErrorCode::InvalidProducerEpoch } else { expected };
        let named = |code: i16| ErrorCode::from_code(code).unwrap();
        for version in 0..=3 {
            let request = AddOffsetsToTxnRequest::default()
                .with_transactional_id(transactional_id("id"))
                .with_producer_id(pid)
                .with_producer_epoch(epoch)
                .with_group_id(GroupId(text("g")));
            let found = named(world.ask(txn.client, version, &request).error_code);
            assert_eq!(found, if version < 2 { old } else { expected }, "AddOffsetsToTxn v{version}");
            let request = AddPartitionsToTxnRequest::default()
                .with_v3_and_below_transactional_id(transactional_id("id"))
                .with_v3_and_below_producer_id(pid)
                .with_v3_and_below_producer_epoch(epoch)
                .with_v3_and_below_topics(vec![
                    AddPartitionsToTxnTopic::default().with_name(topic("t")).with_partitions(vec![0]),
                ]);
            let response = world.ask(txn.client, version, &request);
            let row = &response.results_by_topic_v3_and_below[0].results_by_partition[0];
            let found = named(row.partition_error_code);
            assert_eq!(found, if version < 2 { old } else { expected }, "AddPartitionsToTxn v{version}");
        }
        for version in 0..=5 {
            let request = EndTxnRequest::default()
                .with_transactional_id(transactional_id("id"))
                .with_producer_id(pid)
                .with_producer_epoch(epoch)
                .with_committed(true);
            let found = named(world.ask(txn.client, version, &request).error_code);
            assert_eq!(found, if version < 2 { old } else { expected }, "EndTxn v{version}");
            let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(5);
            let of_topic =
                TxnOffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
            let request = TxnOffsetCommitRequest::default()
                .with_transactional_id(transactional_id("id"))
                .with_group_id(GroupId(text("g")))
                .with_producer_id(pid)
                .with_producer_epoch(epoch)
                .with_generation_id(-1)
                .with_topics(vec![of_topic]);
            let response = world.ask(txn.client, version, &request);
            let found = named(response.topics[0].partitions[0].error_code);
            assert_eq!(found, old, "TxnOffsetCommit v{version}");
            let nameless = request.with_transactional_id(transactional_id(""));
            let response = world.ask(txn.client, version, &nameless);
            let found = named(response.topics[0].partitions[0].error_code);
            assert_eq!(found, ErrorCode::InvalidRequest, "TxnOffsetCommit v{version}, without an id");
        }
    }
    assert_eq!(txn.end(&mut world, true), 0, "none of them has hurt it");
}

#[test]
fn members_that_say_nonsense_of_what_they_have() {
    let mut world = world();
    world.create_topic("t", 2, &[]);
    let mut m = Member::joined(&mut world, "m", &["t"]);
    let id = m.assigned[0].0;
    let owns = |topic: TopicId, partitions: &[i32]| {
        TopicPartitions::default().with_topic_id(topic.into()).with_partitions(partitions.to_vec())
    };
    let garbage = [
        vec![owns(TopicId(7), &[0])],
        vec![owns(TopicId(0), &[0])],
        vec![owns(id, &[-1])],
        vec![owns(id, &[0, 0, 0])],
        vec![owns(id, &[0]), owns(id, &[1])],
        vec![owns(id, &[99, i32::MAX])],
        vec![owns(id, &[])],
    ];
    for owned in garbage {
        let request = m.request().with_topic_partitions(Some(owned.clone()));
        assert_eq!(error(&m.ask(&mut world, &request)), ErrorCode::None, "{owned:?}");
        assert_eq!((m.epoch, m.partitions()), (1, vec![0, 1]), "it has what it has");
    }
    for (epoch, expected) in [
        (i32::MIN, ErrorCode::InvalidRequest),
        (-3, ErrorCode::InvalidRequest),
        (-2, ErrorCode::InvalidRequest),
        (i32::MAX, ErrorCode::FencedMemberEpoch),
    ] {
        let request = m.request().with_member_epoch(epoch);
        assert_eq!(error(&m.ask(&mut world, &request)), expected, "{epoch}");
    }
    assert_eq!(error(&m.beat(&mut world)), ErrorCode::None);
}

#[test]
fn members_that_subscribe_to_nonsense() {
    let mut world = world();
    world.create_topic("t", 2, &[]);
    let mut m = Member::joined(&mut world, "m", &["t"]);
    let (long, too_long, huge) = ("x".repeat(249), "x".repeat(250), "x".repeat(3_000));
    let subscriptions = ["", " ", ".", "..", "a b", &long, &too_long, &huge, "ä"];
    for (at, subscribed) in subscriptions.into_iter().enumerate() {
        let request = m
            .request()
            .with_topic_partitions(Some(Vec::new()))
            .with_subscribed_topic_names(Some(names(&[subscribed])));
        assert_eq!(error(&m.ask(&mut world, &request)), ErrorCode::None, "{subscribed:?}");
        assert_eq!((m.epoch, m.count()), (at as i32 + 2, 0), "there is no such topic: {subscribed:?}");
    }
    let twice = m.request().with_subscribed_topic_names(Some(names(&["t", "t"])));
    assert_eq!(error(&m.ask(&mut world, &twice)), ErrorCode::None);
    assert_eq!(m.partitions(), [0, 1]);
    for (at, timeout_ms) in [-2, 0, 1, i32::MIN, i32::MAX].into_iter().enumerate() {
        let other = Member::new(&mut world, ["a", "b", "c", "d", "e"][at]);
        let request = other
            .joining()
            .with_group_id(GroupId(text("h")))
            .with_rebalance_timeout_ms(timeout_ms)
            .with_subscribed_topic_names(Some(names(&["t"])));
        let response = world.ask(other.client, 1, &request);
        assert_eq!(
            (error(&response), response.member_epoch),
            (ErrorCode::None, at as i32 + 1),
            "{timeout_ms}"
        );
    }
    // Whoever must give up something and says that it has no time for it is out as soon as it is told.
    world.advance(Duration::from_millis(2));
    for id in [&*"x".repeat(36), &"x".repeat(37), &huge, "a b", "ä"] {
        let member = Member::new(&mut world, "");
        let request = member
            .joining()
            .with_group_id(GroupId(text("k")))
            .with_member_id(text(id))
            .with_subscribed_topic_names(Some(names(&["t"])));
        assert_eq!(error(&world.ask(member.client, 1, &request)), ErrorCode::None, "{} long", id.len());
    }
}

#[test]
fn assignments_that_are_garbage_keep_a_group_classic() {
    let cases: [(&[u8], ErrorCode); 6] = [
        (&[], ErrorCode::None),
        (&[1], ErrorCode::GroupIdNotFound),
        // Kafka's handler fails at these two: UNKNOWN_SERVER_ERROR.
        (&[0, 0, 0, 0, 0, 1], ErrorCode::GroupIdNotFound),
        (&[0, 0, 255, 255, 255, 255, 255, 255, 255, 255], ErrorCode::GroupIdNotFound),
        (&[127, 255, 0, 0, 0, 0, 255, 255, 255, 255], ErrorCode::None),
        (&[0, 1, 0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3], ErrorCode::GroupIdNotFound),
    ];
    for (assignment, expected) in cases {
        let mut world = world();
        world.create_topic("t", 2, &[]);
        let client = world.connect();
        let mut subscribes = join("", Some("i"));
        // A subscription to nothing, in version 0.
        subscribes.protocols[0].metadata = Bytes::from_static(&[0, 0, 0, 0, 0, 0, 255, 255, 255, 255]);
        world.send(client, JOIN, &subscribes);
        world.advance(Duration::from_millis(1));
        let joined = world.received::<JoinGroupRequest>(client, JOIN).unwrap();
        assert_eq!(joined.error_code, 0);
        let leader = joined.member_id.to_string();
        let mut given: SyncGroupRequest = sync(&leader, 1, &[(&leader, b"")]);
        given.assignments[0].assignment = Bytes::copy_from_slice(assignment);
        assert_eq!(world.ask(client, 5, &given).error_code, 0);
        let mut m = Member::new(&mut world, "m");
        assert_eq!(error(&m.join(&mut world, &["t"])), expected, "{assignment:?}");
        let described =
            kafka_protocol::messages::DescribeGroupsRequest::default().with_groups(vec![GroupId(text("g"))]);
        let state = world.ask(client, 5, &described).groups[0].group_state.to_string();
        assert_eq!(state, if expected == ErrorCode::None { "Dead" } else { "Stable" });
    }
}

#[test]
fn subscriptions_that_are_garbage_are_not_let_into_a_consumer_group() {
    let mut world = world();
    world.create_topic("t", 2, &[]);
    let mut m = Member::joined(&mut world, "m", &["t"]);
    for garbage in [&[][..], &[1], &[0, 0, 0, 0, 0, 1], &[0, 0, 127, 255, 255, 255]] {
        let client = world.connect();
        let mut joining = join("", Some("i"));
        joining.protocols[0].metadata = Bytes::copy_from_slice(garbage);
        let response = world.ask(client, 5, &joining);
        // Kafka's handler fails: UNKNOWN_SERVER_ERROR.
        let inconsistent = ErrorCode::InconsistentGroupProtocol.code();
        assert_eq!(response.error_code, inconsistent, "{garbage:?}");
    }
    assert_eq!((error(&m.beat(&mut world)), m.epoch, m.count()), (ErrorCode::None, 1, 2));
}
