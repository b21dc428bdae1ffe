//! What Apache Kafka's own tests ask of the coordinator of transactions (its `TransactionCoordinatorTest`,
//! `TransactionStateManagerTest` and `TransactionMarkerChannelManagerTest`), beside what `transactions.rs` shows: requests
//! while an end is under way, coordinators that can't write, markers that are refused, epochs that are used up.

use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest, InitProducerIdRequest, ProducerId,
    WriteTxnMarkersRequest,
};

use super::features::set;
use super::transactions::{COMMITTED, Txn, find_coordinator, read, state_of, transactional_id};
use super::*;
use crate::base::ErrorCode;

fn error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap()
}

/// InitProducerId of a producer that says what it has: error, id and epoch.
fn init_as(world: &mut World, txn: &Txn, id: i64, epoch: i16) -> (ErrorCode, i64, i16) {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(transactional_id(txn.id)))
        .with_transaction_timeout_ms(60_000)
        .with_producer_id(ProducerId(id))
        .with_producer_epoch(epoch);
    let response = world.ask(txn.client, 5, &request);
    (error(response.error_code), response.producer_id.0, response.producer_epoch)
}

/// EndTxn v5 with this id and epoch: error, and the id and epoch to go on with.
fn end_as(world: &mut World, txn: &Txn, (id, epoch): (i64, i16), commit: bool) -> (ErrorCode, i64, i16) {
    let request = EndTxnRequest::default()
        .with_transactional_id(transactional_id(txn.id))
        .with_producer_id(ProducerId(id))
        .with_producer_epoch(epoch)
        .with_committed(commit);
    let response = world.ask(txn.client, 5, &request);
    (error(response.error_code), response.producer_id.0, response.producer_epoch)
}

/// A marker as an administrator sends it, into partition 0.
fn mark(
    world: &mut World,
    topic_name: &'static str,
    producer: (i64, i16),
    coordinator_epoch: i32,
) -> ErrorCode {
    let topic =
        WritableTxnMarkerTopic::default().with_name(topic(topic_name)).with_partition_indexes(vec![0]);
    let marker = WritableTxnMarker::default()
        .with_producer_id(ProducerId(producer.0))
        .with_producer_epoch(producer.1)
        .with_transaction_result(false)
        .with_coordinator_epoch(coordinator_epoch)
        .with_topics(vec![topic]);
    let client = world.connect();
    let response = world.ask(client, 1, &WriteTxnMarkersRequest::default().with_markers(vec![marker]));
    error(response.markers[0].topics[0].partitions[0].error_code)
}

#[test]
fn a_coordinator_whose_marker_is_fenced_gives_up_and_nobody_goes_on() {
    for bumps in [false, true] {
        let mut world = World::new();
        world.create_topic("t", 1, &[]);
        let mut txn = Txn::begin(&mut world, "id", bumps);
        assert_eq!(txn.write(&mut world, "t", "a"), 0);
        let had = txn.clone();
        // A later coordinator has been at the partition.
        assert_eq!(mark(&mut world, "t", (txn.producer_id, txn.epoch), 100), ErrorCode::None);
        assert_eq!(txn.end(&mut world, true), 0, "the decision is the coordinator's alone");
        let decided = |world: &mut World| assert_eq!(state_of(world, "id"), "PrepareCommit");
        decided(&mut world);
        world.advance(Duration::from_secs(120));
        decided(&mut world);
        let concurrent = ErrorCode::ConcurrentTransactions;
        assert_eq!(error(txn.clone().init(&mut world, 60_000)), concurrent);
        assert_eq!(txn.add(&mut world, "t", &[0]), [concurrent.code()]);
        if bumps {
            // Who asks again may not have heard of it; who knows the new epoch is somebody else.
            assert_eq!(error(had.clone().end(&mut world, true)), concurrent);
            assert_eq!(error(had.clone().end(&mut world, false)), ErrorCode::InvalidTxnState);
            assert_eq!(error(txn.end(&mut world, true)), ErrorCode::ProducerFenced);
        } else {
            assert_eq!(error(txn.end(&mut world, true)), concurrent);
            assert_eq!(error(txn.end(&mut world, false)), ErrorCode::InvalidTxnState);
        }
        assert!(read(&mut world, "t", COMMITTED).is_empty(), "the marker that was there first counts");
    }
}

fn adding(transactions: &[(&'static str, &Txn, bool, &[i32])]) -> AddPartitionsToTxnRequest {
    let transactions = transactions.iter().map(|(id, txn, verify_only, partitions)| {
        AddPartitionsToTxnTransaction::default()
            .with_transactional_id(transactional_id(id))
            .with_producer_id(ProducerId(txn.producer_id))
            .with_producer_epoch(txn.epoch)
            .with_verify_only(*verify_only)
            .with_topics(vec![
                AddPartitionsToTxnTopic::default().with_name(topic("t")).with_partitions(partitions.to_vec()),
            ])
    });
    AddPartitionsToTxnRequest::default().with_transactions(transactions.collect())
}

#[test]
fn brokers_ask_for_several_transactions_and_may_just_ask() {
    let mut world = World::new();
    world.create_topic("t", 3, &[]);
    let mut txn = Txn::begin(&mut world, "id", false);
    assert_eq!(txn.add(&mut world, "t", &[0, 1]), [0, 0]);
    let wrong_epoch = Txn { epoch: txn.epoch + 1, ..txn.clone() };
    let wrong_id = Txn { producer_id: txn.producer_id + 1, ..txn.clone() };
    let ask = |world: &mut World, request: &AddPartitionsToTxnRequest| {
        let response = world.ask(txn.client, 5, request);
        assert_eq!(response.error_code, 0);
        let of_each = response.results_by_transaction.iter().map(|result| {
            let rows = result.topic_results.iter().flat_map(|topic| &topic.results_by_partition);
            rows.map(|row| error(row.partition_error_code)).collect::<Vec<_>>()
        });
        of_each.collect::<Vec<_>>()
    };
    let (fine, abortable) = (ErrorCode::None, ErrorCode::TransactionAbortable);
    let verified = ask(
        &mut world,
        &adding(&[
            ("id", &txn, true, &[0, 1, 2]),
            ("id", &wrong_epoch, true, &[0]),
            ("id", &wrong_id, true, &[0]),
            ("nobody", &txn, true, &[0]),
            ("", &txn, true, &[0]),
        ]),
    );
    let expected = [
        vec![fine, fine, abortable],
        vec![ErrorCode::ProducerFenced],
        vec![ErrorCode::InvalidProducerIdMapping],
        vec![ErrorCode::InvalidProducerIdMapping],
        vec![ErrorCode::InvalidRequest],
    ];
    assert_eq!(verified, expected);
    assert_eq!(ask(&mut world, &adding(&[("id", &txn, true, &[2])])), [[abortable]], "asking adds nothing");
    assert_eq!(ask(&mut world, &adding(&[("id", &txn, false, &[2])])), [[fine]]);
    assert_eq!(ask(&mut world, &adding(&[("id", &txn, true, &[2])])), [[fine]]);
    assert_eq!(txn.end(&mut world, true), 0);
    let ended = world.ask(txn.client, 5, &adding(&[("id", &txn, true, &[0])]));
    let row = &ended.results_by_transaction[0].topic_results[0].results_by_partition[0];
    assert_eq!(error(row.partition_error_code), abortable, "its partitions are gone with it");
}

#[test]
fn transactions_are_told_of_or_why_not() {
    let mut world = World::new();
    world.create_topic("t", 2, &[]);
    let txn = Txn::begin(&mut world, "id", false);
    assert_eq!(txn.add(&mut world, "t", &[1, 0]), [0, 0]);
    let ids = ["id", "nobody", ""].map(transactional_id).to_vec();
    let request = DescribeTransactionsRequest::default().with_transactional_ids(ids);
    let response = world.ask(txn.client, 0, &request);
    let codes: Vec<ErrorCode> = response.transaction_states.iter().map(|row| error(row.error_code)).collect();
    assert_eq!(codes, [ErrorCode::None, ErrorCode::TransactionalIdNotFound, ErrorCode::InvalidRequest]);
    let row = &response.transaction_states[0];
    assert_eq!((&*row.transaction_state, row.transaction_timeout_ms), ("Ongoing", 60_000));
    assert_eq!((row.producer_id.0, row.producer_epoch), (txn.producer_id, txn.epoch));
    let mut partitions = row.topics[0].partitions.clone();
    partitions.sort_unstable();
    assert_eq!((row.topics.len(), partitions), (1, vec![0, 1]));
}

#[test]
fn ids_are_forgotten_once_they_are_idle_and_nothing_is_open() {
    let mut world = World::with(&[
        ("transactional.id.expiration.ms", "60000"),
        ("transaction.remove.expired.transaction.cleanup.interval.ms", "10000"),
        ("transaction.max.timeout.ms", "900000"),
    ]);
    world.create_topic("t", 1, &[]);
    let empty = Txn::begin(&mut world, "empty", true);
    let mut committed = Txn::begin(&mut world, "committed", true);
    let mut aborted = Txn::begin(&mut world, "aborted", true);
    let mut ongoing = Txn::begin(&mut world, "ongoing", false);
    assert_eq!(ongoing.init(&mut world, 900_000), 0);
    for (txn, commit) in [(&mut committed, true), (&mut aborted, false)] {
        assert_eq!(txn.write(&mut world, "t", "a"), 0);
        assert_eq!(txn.end(&mut world, commit), 0);
    }
    assert_eq!(ongoing.write(&mut world, "t", "b"), 0);
    world.advance(Duration::from_secs(50));
    assert_eq!(committed.init(&mut world, 60_000), 0, "whoever uses it keeps it");
    world.advance(Duration::from_secs(30));
    assert_eq!(state_of(&mut world, "ongoing"), "Ongoing");
    assert_eq!(state_of(&mut world, "committed"), "Empty");
    let unknown = ErrorCode::InvalidProducerIdMapping;
    assert_eq!(error(aborted.end(&mut world, false)), unknown);
    assert_eq!(empty.add(&mut world, "t", &[0]), [unknown.code()]);
    let old = aborted.producer_id;
    assert_eq!(aborted.init(&mut world, 60_000), 0);
    assert_eq!(aborted.epoch, 0, "it begins anew");
    assert_ne!(aborted.producer_id, old);
}

/// Three brokers, the coordinator of "id" among them, which is alone in sync and so can't write, or gets company again.
fn isolate(world: &mut World, coordinator: i32, alone: bool) {
    for other in (1..=3).filter(|broker| *broker != coordinator) {
        let broker = NodeId(other);
        let start = Command::StartBroker { broker, kept: Kept::Everything };
        world.command(if alone { Command::StopBroker(broker) } else { start }).unwrap();
    }
    world.advance(Duration::from_secs(15));
}

#[test]
fn a_coordinator_that_cannot_write_changes_nothing() {
    for level in [1, 2] {
        let mut world = World::of_brokers(3, &[("transaction.state.log.num.partitions", "3")]);
        set(&mut world, "transaction.version", level);
        let client = world.connect();
        let coordinator = find_coordinator(&mut world, client, "id");
        world.create_replicated("t", &[coordinator], &[]);
        let mut txn = Txn::begin(&mut world, "id", false);
        txn.client = world.connect_to(coordinator);
        txn.leader = txn.client;
        assert_eq!(txn.init(&mut world, 60_000), 0);
        assert_eq!(txn.add(&mut world, "t", &[0]), [0]);
        let before = txn.clone();
        isolate(&mut world, coordinator, true);
        txn.client = world.connect_to(coordinator);
        let unavailable = ErrorCode::CoordinatorNotAvailable;
        for _ in 0..3 {
            // Each would fence the producer by a higher epoch.
            assert_eq!(error(txn.init(&mut world, 60_000)), unavailable);
        }
        let mut zombie = Txn { client: txn.client, ..before.clone() };
        let ended = error(zombie.end(&mut world, true));
        // Before KIP-890's second part, an epoch that could not be written down is not taken back.
        let expected = if level < 2 { ErrorCode::ProducerFenced } else { unavailable };
        assert_eq!(ended, expected, "level {level}");
        isolate(&mut world, coordinator, false);
        let client = world.connect_to(coordinator);
        let coordinator = find_coordinator(&mut world, client, "id");
        txn.client = world.connect_to(coordinator);
        assert_eq!(error(txn.init(&mut world, 60_000)), ErrorCode::ConcurrentTransactions);
        world.advance(Duration::from_secs(2));
        assert_eq!(error(txn.init(&mut world, 60_000)), ErrorCode::None);
        assert_eq!(
            txn.epoch,
            before.epoch + 2,
            "one for the fence, whatever was tried, and one for the producer"
        );
    }
}

#[test]
fn another_broker_is_not_the_coordinator() {
    let mut world = World::of_brokers(3, &[("transaction.state.log.num.partitions", "3")]);
    let client = world.connect();
    let coordinator = find_coordinator(&mut world, client, "id");
    world.create_replicated("t", &[coordinator], &[]);
    let mut txn = Txn::begin(&mut world, "id", true);
    assert_eq!(txn.write(&mut world, "t", "a"), if coordinator == 1 { 0 } else { 6 });
    txn.client = world.connect_to(coordinator % 3 + 1);
    let elsewhere = ErrorCode::NotCoordinator;
    assert_eq!(error(txn.clone().init(&mut world, 60_000)), elsewhere);
    assert_eq!(txn.add(&mut world, "t", &[0]), [elsewhere.code()]);
    assert_eq!(error(txn.end(&mut world, true)), elsewhere);
    let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![transactional_id("id")]);
    assert_eq!(error(world.ask(txn.client, 0, &request).transaction_states[0].error_code), elsewhere);
}

/// The highest epoch that a producer is given.
const LAST: i16 = i16::MAX - 1;

/// A producer whose epoch is this, without a transaction.
fn worn(epoch: i16) -> (World, Txn) {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let mut txn = Txn::begin(&mut world, "id", true);
    for at in 1..=epoch {
        let (error, id, next) = init_as(&mut world, &txn, txn.producer_id, txn.epoch);
        assert_eq!((error, id, next), (ErrorCode::None, txn.producer_id, at));
        txn.epoch = next;
    }
    (world, txn)
}

#[test]
fn a_producer_whose_epochs_are_used_up_goes_on_under_another_id() {
    let (begun, at_last) = worn(LAST);
    let old = (at_last.producer_id, LAST);

    // By the end of its transaction.
    let (mut world, mut txn) = (begun.clone(), at_last.clone());
    assert_eq!(txn.write(&mut world, "t", "a"), 0);
    assert_eq!(txn.end(&mut world, true), 0);
    assert_ne!(txn.producer_id, old.0);
    assert_eq!(txn.epoch, 0);
    assert_eq!(state_of(&mut world, "id"), "CompleteCommit");
    let new = (ErrorCode::None, txn.producer_id, 0);
    assert_eq!(end_as(&mut world, &txn, old, true), new, "its answer may have been lost");
    assert_eq!(end_as(&mut world, &txn, old, false).0, ErrorCode::InvalidTxnState);
    assert_eq!(end_as(&mut world, &txn, (old.0, LAST - 1), true).0, ErrorCode::InvalidProducerIdMapping);
    let mut zombie = Txn { sequence: 1, ..at_last.clone() };
    assert_eq!(error(zombie.produce(&mut world, "t", "z")), ErrorCode::InvalidProducerIdMapping);
    assert_eq!(txn.write(&mut world, "t", "b"), 0);
    assert_eq!(txn.end(&mut world, false), 0);
    assert_eq!((txn.producer_id, txn.epoch), (new.1, 1));
    assert_eq!(txn.write(&mut world, "t", "c"), 0);
    assert_eq!(txn.end(&mut world, true), 0);
    assert_eq!(read(&mut world, "t", COMMITTED), ["a", "c"]);

    // By an abort of nothing.
    let (mut world, mut txn) = (begun.clone(), at_last.clone());
    assert_eq!(txn.end(&mut world, false), 0);
    assert_ne!(txn.producer_id, old.0);
    assert_eq!((txn.epoch, &*state_of(&mut world, "id")), (0, "CompleteAbort"));

    // By beginning again, be it that its answer is lost.
    let (mut world, txn) = (begun.clone(), at_last.clone());
    let (error, id, epoch) = init_as(&mut world, &txn, old.0, old.1);
    assert_eq!((error, epoch), (ErrorCode::None, 0));
    assert_ne!(id, old.0);
    assert_eq!(init_as(&mut world, &txn, old.0, old.1), (ErrorCode::None, id, 0));
    assert_eq!(init_as(&mut world, &txn, old.0, LAST - 1).0, ErrorCode::ProducerFenced);
    // The old id is known for one change only.
    assert_eq!(init_as(&mut world, &txn, old.0, old.1).0, ErrorCode::ProducerFenced);
    assert_eq!(end_as(&mut world, &txn, old, true).0, ErrorCode::InvalidProducerIdMapping);

    // By a producer whose epoch doesn't rise with each transaction: that of the transaction is the last, too.
    let (mut world, txn) = (begun.clone(), at_last.clone());
    let mut txn = Txn { bumps: false, ..txn };
    assert_eq!(txn.write(&mut world, "t", "a"), 0);
    assert_eq!(txn.end(&mut world, true), 0);
    assert_eq!((txn.producer_id, txn.epoch), old);
    assert_eq!(read(&mut world, "t", COMMITTED), ["a"]);

    // Fenced by a newer one, or by its timeout, with the epoch that nobody is given.
    for by_timeout in [false, true] {
        let (mut world, mut txn) = (begun.clone(), at_last.clone());
        assert_eq!(txn.write(&mut world, "t", "a"), 0);
        let mut newer = Txn { client: world.connect(), ..txn.clone() };
        if by_timeout {
            world.advance(Duration::from_secs(61));
        } else {
            assert_eq!(newer.init(&mut world, 60_000), ErrorCode::ConcurrentTransactions.code());
        }
        assert_eq!(state_of(&mut world, "id"), "CompleteAbort");
        assert_eq!(txn.produce(&mut world, "t", "b"), ErrorCode::InvalidProducerEpoch.code());
        assert_eq!(newer.init(&mut world, 60_000), 0);
        assert_ne!(newer.producer_id, old.0);
        assert_eq!(newer.epoch, 0);
        assert_eq!(newer.write(&mut world, "t", "c"), 0);
        assert_eq!(newer.end(&mut world, true), 0);
        assert_eq!(read(&mut world, "t", COMMITTED), ["c"]);
    }
}
