//! Transactions whose coordinator and partitions are on different brokers, and brokers that go in the middle.

use super::transactions::{COMMITTED, Txn, find_coordinator, read_from, state_of};
use super::*;
use crate::base::ErrorCode;

const SESSION: Duration = Duration::from_secs(9);

/// The coordinator's log is on the coordinator alone, so that a link to another broker carries markers and nothing that
/// a decision needs.
const ALONE: [(&str, &str); 2] =
    [("transaction.state.log.replication.factor", "1"), ("transaction.state.log.min.isr", "1")];

/// Three brokers, a topic that is led by another than the coordinator of "id", a producer with that id, the coordinator
/// and the topic's leader.
fn world(bumps: bool, configs: &[(&str, &str)]) -> (World, Txn, i32, i32) {
    let mut all = vec![("transaction.state.log.num.partitions", "3")];
    all.extend(configs);
    let mut world = World::of_brokers(3, &all);
    let client = world.connect();
    let coordinator = find_coordinator(&mut world, client, "id");
    let mut replicas: Vec<i32> = (1..=3).filter(|broker| *broker != coordinator).collect();
    replicas.push(coordinator);
    world.create_replicated("t", &replicas, &[]);
    let mut txn = Txn::begin(&mut world, "id", bumps);
    txn.leader = world.connect_to(replicas[0]);
    (world, txn, coordinator, replicas[0])
}

fn set_link(world: &mut World, from: i32, to: i32, cut: bool) {
    let link = Link { delay: Duration::ZERO, cut };
    let (from, to) = (Party::Broker(NodeId(from)), Party::Broker(NodeId(to)));
    world.command(Command::SetLink { from, to, link }).unwrap();
}

fn leader(world: &World) -> i32 {
    world.partition("t").leader.map_or(-1, |leader| leader.0)
}

#[test]
fn transactions_span_brokers() {
    for bumps in [false, true] {
        let (mut world, mut txn, _, leader) = world(bumps, &[]);
        for (value, commit) in [("a", true), ("b", false), ("c", true)] {
            assert_eq!(txn.write(&mut world, "t", value), 0);
            assert_eq!(txn.end(&mut world, commit), 0);
            world.advance(Duration::from_millis(600));
        }
        assert_eq!(read_from(&mut world, leader, "t", COMMITTED), ["a", "c"]);
    }
}

#[test]
fn markers_arrive_once_the_link_is_whole_and_nobody_may_go_on_before() {
    let (mut world, mut txn, coordinator, leader) = world(true, &ALONE);
    assert_eq!(txn.write(&mut world, "t", "a"), 0);
    set_link(&mut world, coordinator, leader, true);
    assert_eq!(txn.end(&mut world, true), 0, "answered once the decision is committed");
    assert_eq!(state_of(&mut world, "id"), "PrepareCommit");
    assert_eq!(txn.init(&mut world, 60_000), ErrorCode::ConcurrentTransactions.code());
    set_link(&mut world, coordinator, leader, false);
    world.advance(Duration::from_secs(1));
    assert_eq!(state_of(&mut world, "id"), "CompleteCommit");
    assert_eq!(read_from(&mut world, leader, "t", COMMITTED), ["a"]);
}

#[test]
fn a_leader_that_dies_before_its_marker_has_its_successor_write_it() {
    for bumps in [false, true] {
        let (mut world, mut txn, coordinator, first) = world(bumps, &ALONE);
        assert_eq!(txn.write(&mut world, "t", "a"), 0);
        set_link(&mut world, coordinator, first, true);
        assert_eq!(txn.end(&mut world, true), 0);
        world.command(Command::KillBroker(NodeId(first))).unwrap();
        set_link(&mut world, coordinator, first, false);
        world.advance(SESSION + Duration::from_secs(2));
        let next = leader(&world);
        assert_ne!(next, first);
        assert_eq!(state_of_at(&mut world, coordinator), "CompleteCommit");
        assert_eq!(read_from(&mut world, next, "t", COMMITTED), ["a"]);
    }
}

fn state_of_at(world: &mut World, broker: i32) -> String {
    use kafka_protocol::messages::DescribeTransactionsRequest;
    let client = world.connect_to(broker);
    let ids = vec![super::transactions::transactional_id("id")];
    let request = DescribeTransactionsRequest::default().with_transactional_ids(ids);
    world.ask(client, 0, &request).transaction_states[0].transaction_state.to_string()
}

#[test]
fn a_coordinator_that_takes_over_ends_what_was_decided() {
    for commit in [true, false] {
        let (mut world, mut txn, first, leader) = world(true, &[("replica.lag.time.max.ms", "5000")]);
        assert_eq!(txn.write(&mut world, "t", "a"), 0);
        // The decision is committed once the leader of "t" is out of sync with the coordinator; no marker gets to it.
        set_link(&mut world, first, leader, true);
        txn.send_end(&mut world, commit);
        world.advance(Duration::from_secs(15));
        assert_eq!(txn.ended(&mut world), Some(0));
        assert!(read_from(&mut world, leader, "t", COMMITTED).is_empty());
        world.command(Command::KillBroker(NodeId(first))).unwrap();
        world.advance(SESSION + Duration::from_secs(2));
        let asked = world.connect_to(leader);
        let next = find_coordinator(&mut world, asked, "id");
        assert_ne!(next, first);
        let expected = if commit { "CompleteCommit" } else { "CompleteAbort" };
        assert_eq!(state_of_at(&mut world, next), expected);
        let read = read_from(&mut world, leader, "t", COMMITTED);
        assert_eq!(read, if commit { vec!["a"] } else { Vec::new() });
        // The producer goes on with what it was told.
        txn.client = world.connect_to(next);
        assert_eq!(txn.write(&mut world, "t", "b"), 0);
        assert_eq!(txn.end(&mut world, true), 0);
        world.advance(Duration::from_secs(1));
        assert_eq!(read_from(&mut world, leader, "t", COMMITTED).last().map(String::as_str), Some("b"));
    }
}

/// What a coordinator has read and what isn't committed may be lost with its leadership: it is neither told to anybody nor
/// verified, and no marker is sent for it, before it is committed.
#[test]
fn a_successor_goes_on_once_what_it_has_read_is_committed() {
    const STATE: &str = "__transaction_state";
    let configs = [("transaction.state.log.num.partitions", "1"), ("replica.lag.time.max.ms", "600000")];
    let mut world = World::of_brokers(3, &configs);
    world.create_replicated("t", &[1, 2, 3], &[]);
    let mut txn = Txn::begin(&mut world, "id", false);
    let replicas: Vec<i32> = world.partition(STATE).replicas.iter().map(|replica| replica.0).collect();
    let [first, second, third] = replicas[..] else { panic!("three replicas: {replicas:?}") };
    let freeze = |world: &mut World, frozen| {
        let topic = STATE.into();
        world.command(Command::FreezeFetcher { broker: NodeId(third), topic, index: 0, frozen }).unwrap();
    };
    freeze(&mut world, true);
    txn.send_add(&mut world, "t", &[0]);
    world.advance(Duration::from_secs(1));
    world.command(Command::KillBroker(NodeId(first))).unwrap();
    world.advance(SESSION + Duration::from_secs(1));
    assert_eq!(world.partition(STATE).leader, Some(NodeId(second)));
    let (log_end, high_watermark) = world.offsets(STATE, second);
    assert!(high_watermark < log_end, "not all is committed");
    txn.client = world.connect_to(second);
    let loading = ErrorCode::CoordinatorLoadInProgress.code();
    assert_eq!(txn.add(&mut world, "t", &[0]), [loading], "the add that isn't committed is not vouched for");
    assert_eq!(txn.end(&mut world, true), loading);
    freeze(&mut world, false);
    world.advance(Duration::from_secs(1));
    assert_eq!(txn.add(&mut world, "t", &[0]), [0]);
    assert_eq!(txn.end(&mut world, false), 0);
}

/// Whoever leads a partition is told that it is part of a transaction once that is committed.
#[test]
fn what_is_not_committed_is_not_verified() {
    use kafka_protocol::messages::add_partitions_to_txn_request::{
        AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
    };
    use kafka_protocol::messages::{AddPartitionsToTxnRequest, ProducerId};
    const STATE: &str = "__transaction_state";
    let configs = [("transaction.state.log.num.partitions", "1"), ("replica.lag.time.max.ms", "600000")];
    let mut world = World::of_brokers(3, &configs);
    world.create_replicated("t", &[1, 2, 3], &[]);
    let txn = Txn::begin(&mut world, "id", false);
    let coordinator = world.partition(STATE).leader.unwrap();
    let freeze = |world: &mut World, frozen| {
        for broker in (1..=3).map(NodeId).filter(|broker| *broker != coordinator) {
            let command = Command::FreezeFetcher { broker, topic: STATE.into(), index: 0, frozen };
            world.command(command).unwrap();
        }
    };
    let verified = |world: &mut World| {
        let named = AddPartitionsToTxnTopic::default().with_name(topic("t")).with_partitions(vec![0]);
        let asked = AddPartitionsToTxnTransaction::default()
            .with_transactional_id(super::transactions::transactional_id("id"))
            .with_producer_id(ProducerId(txn.producer_id))
            .with_producer_epoch(txn.epoch)
            .with_verify_only(true)
            .with_topics(vec![named]);
        let client = world.connect_to(coordinator.0);
        let response =
            world.ask(client, 4, &AddPartitionsToTxnRequest::default().with_transactions(vec![asked]));
        response.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code
    };
    freeze(&mut world, true);
    txn.send_add(&mut world, "t", &[0]);
    world.advance(Duration::from_secs(1));
    assert_eq!(verified(&mut world), ErrorCode::TransactionAbortable.code());
    freeze(&mut world, false);
    world.advance(Duration::from_secs(1));
    assert_eq!(verified(&mut world), 0);
}

#[test]
fn an_ongoing_transaction_times_out_under_its_next_coordinator() {
    let (mut world, mut txn, first, leader) = world(true, &[]);
    assert_eq!(txn.init(&mut world, 20_000), 0);
    assert_eq!(txn.write(&mut world, "t", "a"), 0);
    world.command(Command::KillBroker(NodeId(first))).unwrap();
    world.advance(Duration::from_secs(15));
    let asked = world.connect_to(leader);
    let next = find_coordinator(&mut world, asked, "id");
    assert_eq!(state_of_at(&mut world, next), "Ongoing");
    world.advance(Duration::from_secs(6));
    assert_eq!(state_of_at(&mut world, next), "CompleteAbort");
    assert_eq!(txn.produce(&mut world, "t", "b"), ErrorCode::InvalidProducerEpoch.code());
}

/// What becomes of the first record of a transaction if something happens while its coordinator is asked; and where the log
/// of its partition ends then.
fn meanwhile(topic: &'static str, happens: impl Fn(&mut World, [i32; 3])) -> (i16, i64) {
    let (mut world, txn, coordinator, leader) = world(true, &ALONE);
    let other = 6 - coordinator - leader;
    world.create_replicated("u", &[leader, other, coordinator], &[("min.insync.replicas", "2")]);
    set_link(&mut world, coordinator, leader, true);
    let request = txn.request(&world, topic, "a");
    world.send(txn.leader, 12, &request);
    assert!(world.received::<ProduceRequest>(txn.leader, 12).is_none(), "the coordinator is asked");
    happens(&mut world, [leader, other, coordinator]);
    assert!(world.received::<ProduceRequest>(txn.leader, 12).is_none());
    set_link(&mut world, coordinator, leader, false);
    let response = world.received::<ProduceRequest>(txn.leader, 12).expect("at once");
    (error_of(&response), world.offsets(topic, leader).0)
}

#[test]
fn a_transaction_does_not_begin_where_another_broker_leads_meanwhile() {
    let moves = |world: &mut World, [_, other, _]: [i32; 3]| {
        world.command(Command::MoveLeader { topic: "t".into(), index: 0, to: NodeId(other) }).unwrap();
    };
    assert_eq!(meanwhile("t", |_, _| ()), (0, 1));
    assert_eq!(meanwhile("t", moves), (ErrorCode::NotLeaderOrFollower.code(), 0));
}

#[test]
fn a_transaction_does_not_begin_where_too_few_are_in_sync_meanwhile() {
    let shrinks = |world: &mut World, [leader, others @ ..]: [i32; 3]| {
        for broker in others.map(NodeId) {
            let frozen = Command::FreezeFetcher { broker, topic: "u".into(), index: 0, frozen: true };
            world.command(frozen).unwrap();
        }
        let shrink = Command::SetIsr { topic: "u".into(), index: 0, isr: vec![NodeId(leader)] };
        world.command(shrink).unwrap();
    };
    assert_eq!(meanwhile("u", |_, _| ()), (0, 1));
    assert_eq!(meanwhile("u", shrinks), (ErrorCode::NotEnoughReplicas.code(), 0));
}
