//! Coordinators whose partitions have several replicas: what readers are told of what isn't committed, and what happens
//! while a shard goes from one broker to another.

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest, DeleteGroupsRequest, DescribeGroupsRequest,
    FindCoordinatorRequest, GroupId, HeartbeatRequest, JoinGroupRequest, ListGroupsRequest,
    ListTransactionsRequest, OffsetCommitRequest, OffsetDeleteRequest, OffsetFetchRequest,
};

use super::groups::text;
use super::transactions::{Txn, find_coordinator, state_of};
use super::*;
use crate::base::ErrorCode;

const OFFSETS: &str = "__consumer_offsets";

fn group(id: &str) -> GroupId {
    GroupId(text(id))
}

/// Three brokers with one shard of groups, and the broker that has it. Topic t has 100 partitions.
fn world() -> (World, i32) {
    let shards = [("offsets.topic.num.partitions", "1"), ("transaction.state.log.num.partitions", "1")];
    let mut world = World::of_brokers(3, &shards);
    let topic =
        NewTopic { name: "t".to_owned(), partitions: 100, replication_factor: 1, ..NewTopic::default() };
    world.command(Command::CreateTopic(topic)).unwrap();
    let client = world.connect();
    let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
    let coordinator = world.ask(client, 4, &find).coordinators[0].node_id.0;
    world.advance(Duration::from_millis(600));
    (world, coordinator)
}

/// Keeps what `leader` writes from being committed, or lets it be.
fn hold_back(world: &mut World, leader: i32, cut: bool) {
    for follower in (1..=3).filter(|broker| *broker != leader) {
        let (from, to) = (Party::Broker(NodeId(follower)), Party::Broker(NodeId(leader)));
        world.command(Command::SetLink { from, to, link: Link { delay: Duration::ZERO, cut } }).unwrap();
    }
    if !cut {
        world.advance(Duration::from_secs(1));
    }
}

/// Commits `offset` for so many partitions of topic t.
fn commit(id: &str, partitions: i32, offset: i64) -> OffsetCommitRequest {
    let partition = |index| {
        OffsetCommitRequestPartition::default().with_partition_index(index).with_committed_offset(offset)
    };
    let topic = OffsetCommitRequestTopic::default()
        .with_name(topic("t"))
        .with_partitions((0..partitions).map(partition).collect());
    OffsetCommitRequest::default()
        .with_group_id(group(id))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic])
}

fn offset_fetch(id: &str, stable: bool) -> OffsetFetchRequest {
    let topic = OffsetFetchRequestTopics::default().with_name(topic("t")).with_partition_indexes(vec![0]);
    let group = OffsetFetchRequestGroup::default().with_group_id(group(id)).with_topics(Some(vec![topic]));
    OffsetFetchRequest::default().with_groups(vec![group]).with_require_stable(stable)
}

/// What is told of a group's offset: the error of the group, and the offset of partition 0.
fn told(response: &kafka_protocol::messages::OffsetFetchResponse) -> (i16, Option<i64>) {
    let group = &response.groups[0];
    (group.error_code, group.topics.first().map(|topic| topic.partitions[0].committed_offset))
}

fn committed(world: &mut World, broker: i32, id: &str) -> (i16, Option<i64>) {
    let client = world.connect_to(broker);
    let one = world.ask(client, 8, &offset_fetch(id, false));
    let mut all = offset_fetch(id, false);
    all.groups[0].topics = None;
    let all = world.ask(client, 8, &all);
    let (error, offset) = told(&one);
    assert_eq!(told(&all), (error, offset.filter(|offset| *offset >= 0)), "alone and among all");
    (error, offset)
}

fn listed(world: &mut World, broker: i32) -> (i16, Vec<String>) {
    let client = world.connect_to(broker);
    let response = world.ask(client, 5, &ListGroupsRequest::default());
    let row = |row: &kafka_protocol::messages::list_groups_response::ListedGroup| {
        format!("{} {}", row.group_id.as_str(), row.group_state)
    };
    (response.error_code, response.groups.iter().map(row).collect())
}

fn join(id: &str) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
    JoinGroupRequest::default()
        .with_group_id(group(id))
        .with_session_timeout_ms(6_000)
        .with_rebalance_timeout_ms(3_000)
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![protocol])
}

fn consumer_heartbeat(id: &str, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(group(id))
        .with_member_id(text("m"))
        .with_member_epoch(epoch)
        .with_rebalance_timeout_ms(20_000)
        .with_subscribed_topic_names(Some(vec![topic("t")]))
        .with_topic_partitions(Some(Vec::new()))
}

#[test]
fn offsets_are_told_once_they_are_committed() {
    let (mut world, coordinator) = world();
    let client = world.connect_to(coordinator);
    world.send(client, 8, &commit("g", 1, 5));
    assert!(world.received::<OffsetCommitRequest>(client, 8).is_some());
    hold_back(&mut world, coordinator, true);
    world.send(client, 8, &commit("g", 1, 7));
    let second = world.connect_to(coordinator);
    world.send(second, 8, &commit("g", 1, 8));
    let delete = world.connect_to(coordinator);
    world.send(delete, 2, &DeleteGroupsRequest::default().with_groups_names(vec![group("g")]));
    let (other, stable) = (world.connect_to(coordinator), world.connect_to(coordinator));
    world.send(other, 8, &commit("new", 1, 1));
    world.send(stable, 8, &offset_fetch("new", true));
    assert_eq!(committed(&mut world, coordinator, "g"), (0, Some(5)), "as it was");
    assert_eq!(committed(&mut world, coordinator, "new"), (0, Some(-1)));
    assert_eq!(listed(&mut world, coordinator), (0, vec!["g Empty".to_owned()]));
    assert!(world.received::<OffsetFetchRequest>(stable, 8).is_none(), "it is told once that is committed");
    hold_back(&mut world, coordinator, false);
    for client in [client, second, other] {
        let response = world.received::<OffsetCommitRequest>(client, 8).expect("committed");
        assert_eq!(response.topics[0].partitions[0].error_code, 0);
    }
    assert_eq!(world.received::<DeleteGroupsRequest>(delete, 2).unwrap().results[0].error_code, 0);
    assert_eq!(told(&world.received::<OffsetFetchRequest>(stable, 8).unwrap()), (0, Some(1)));
    assert_eq!(committed(&mut world, coordinator, "g"), (0, Some(-1)));
    assert_eq!(committed(&mut world, coordinator, "new"), (0, Some(1)));
    assert_eq!(listed(&mut world, coordinator), (0, vec!["new Empty".to_owned()]));
    let answered = world.ask(stable, 8, &offset_fetch("new", true));
    assert_eq!(told(&answered), (0, Some(1)), "at once, as nothing is to be waited for");
}

#[test]
fn stable_offsets_that_are_not_committed_in_time_send_the_consumer_to_look_for_the_coordinator() {
    let (mut world, coordinator) = world();
    hold_back(&mut world, coordinator, true);
    let (client, stable, old) =
        (world.connect_to(coordinator), world.connect_to(coordinator), world.connect_to(coordinator));
    world.send(client, 8, &commit("g", 1, 5));
    world.send(stable, 8, &offset_fetch("g", true));
    let topic = kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic::default()
        .with_name(topic("t"))
        .with_partition_indexes(vec![0]);
    let request = OffsetFetchRequest::default()
        .with_group_id(group("g"))
        .with_topics(Some(vec![topic]))
        .with_require_stable(true);
    world.send(old, 7, &request);
    world.advance(Duration::from_millis(4_999));
    assert!(world.received::<OffsetFetchRequest>(stable, 8).is_none());
    world.advance(Duration::from_millis(1));
    let not_coordinator = ErrorCode::NotCoordinator.code();
    assert_eq!(told(&world.received::<OffsetFetchRequest>(stable, 8).unwrap()), (not_coordinator, None));
    assert_eq!(world.received::<OffsetFetchRequest>(old, 7).unwrap().error_code, not_coordinator);
    let response = world.received::<OffsetCommitRequest>(client, 8).unwrap();
    assert_eq!(response.topics[0].partitions[0].error_code, ErrorCode::CoordinatorNotAvailable.code());
    assert_eq!(committed(&mut world, coordinator, "g"), (0, Some(-1)), "it isn't committed yet");
    hold_back(&mut world, coordinator, false);
    assert_eq!(committed(&mut world, coordinator, "g"), (0, Some(5)), "but will be");
}

#[test]
fn groups_are_told_of_once_they_are_committed() {
    let (mut world, coordinator) = world();
    hold_back(&mut world, coordinator, true);
    let (classic, consumer) = (world.connect_to(coordinator), world.connect_to(coordinator));
    world.send(classic, 9, &join("classic"));
    world.send(consumer, 0, &consumer_heartbeat("consumer", 0));
    let client = world.connect_to(coordinator);
    let described = |world: &mut World| {
        let request = DescribeGroupsRequest::default().with_groups(vec![group("classic")]);
        let classic = world.ask(client, 6, &request).groups[0].clone();
        let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group("consumer")]);
        let consumer = world.ask(client, 0, &request).groups[0].clone();
        (classic.error_code, consumer.error_code, consumer.group_epoch)
    };
    let missing = ErrorCode::GroupIdNotFound.code();
    assert_eq!(described(&mut world), (missing, missing, 0));
    assert_eq!(listed(&mut world, coordinator), (0, vec![]));
    hold_back(&mut world, coordinator, false);
    let joined = world.received::<ConsumerGroupHeartbeatRequest>(consumer, 0).expect("committed");
    assert_eq!((joined.error_code, joined.member_epoch), (0, 1));
    assert_eq!(described(&mut world), (0, 0, 1));
    let names: Vec<String> = listed(&mut world, coordinator).1;
    assert_eq!(names, ["classic Empty", "consumer Stable"]);

    // What is written about a group next is told of next.
    hold_back(&mut world, coordinator, true);
    world.send(consumer, 0, &consumer_heartbeat("consumer", -1));
    assert_eq!(listed(&mut world, coordinator).1, ["classic Empty", "consumer Stable"]);
    hold_back(&mut world, coordinator, false);
    assert_eq!(listed(&mut world, coordinator).1, ["classic Empty", "consumer Empty"]);
}

#[test]
fn transactions_are_told_of_as_they_are_committed() {
    let (mut world, _) = world();
    let client = world.connect();
    let coordinator = find_coordinator(&mut world, client, "id");
    let txn = Txn::begin(&mut world, "id", false);
    world.advance(Duration::from_millis(600));
    let states = |world: &mut World| {
        let client = world.connect_to(coordinator);
        let listed = world.ask(client, 1, &ListTransactionsRequest::default().with_duration_filter(-1));
        assert_eq!(listed.error_code, 0);
        (state_of(world, "id"), listed.transaction_states[0].transaction_state.to_string())
    };
    let both = |state: &str| (state.to_owned(), state.to_owned());
    assert_eq!(states(&mut world), both("Empty"));
    hold_back(&mut world, coordinator, true);
    txn.send_add(&mut world, "t", &[0]);
    assert_eq!(states(&mut world), both("Empty"));
    hold_back(&mut world, coordinator, false);
    assert_eq!(states(&mut world), both("Ongoing"));
}

/// Has the shard of groups go to another broker, and says which.
fn move_shard(world: &mut World) -> i32 {
    let partition = world.partition(OFFSETS);
    let to = *partition.isr.iter().find(|id| Some(**id) != partition.leader).unwrap();
    world.command(Command::MoveLeader { topic: OFFSETS.into(), index: 0, to }).unwrap();
    to.0
}

#[test]
fn a_large_shard_is_loaded_step_by_step() {
    let (mut world, coordinator) = world();
    let client = world.connect_to(coordinator);
    for offset in 0..100 {
        world.ask(client, 8, &commit("g", 100, offset));
    }
    world.advance(Duration::from_millis(600));
    let before = committed(&mut world, coordinator, "g");
    assert_eq!(before, (0, Some(99)));
    let next = move_shard(&mut world);
    let client = world.connect_to(next);
    let loading = ErrorCode::CoordinatorLoadInProgress.code();
    let check_loading = |world: &mut World| {
        assert_eq!(told(&world.ask(client, 8, &offset_fetch("g", false))), (loading, None));
        assert_eq!(told(&world.ask(client, 8, &offset_fetch("g", true))), (loading, None));
        assert_eq!(listed(world, next), (loading, vec![]));
        assert_eq!(world.ask(client, 9, &join("g")).error_code, loading);
        let commit = world.ask(client, 8, &commit("g", 1, 0));
        assert_eq!(commit.topics[0].partitions[0].error_code, loading);
        let describe = DescribeGroupsRequest::default().with_groups(vec![group("g")]);
        assert_eq!(world.ask(client, 6, &describe).groups[0].error_code, loading);
        let describe = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group("g")]);
        assert_eq!(world.ask(client, 0, &describe).groups[0].error_code, loading);
        assert_eq!(world.ask(client, 0, &consumer_heartbeat("g", 0)).error_code, loading);
        let delete = DeleteGroupsRequest::default().with_groups_names(vec![group("g")]);
        assert_eq!(world.ask(client, 2, &delete).results[0].error_code, loading);
        let delete = OffsetDeleteRequest::default().with_group_id(group("g"));
        assert_eq!(world.ask(client, 0, &delete).error_code, loading);
        let heartbeat = HeartbeatRequest::default().with_group_id(group("g")).with_member_id(text("m"));
        assert_eq!(world.ask(client, 4, &heartbeat).error_code, 0, "the member is told with the next one");
    };
    let mut steps = 0;
    while told(&world.ask(client, 8, &offset_fetch("g", false))).0 == loading {
        check_loading(&mut world);
        assert!(
            world.cluster.poll_timeout().is_some_and(|due| due <= world.now().instant),
            "it goes on at once"
        );
        let now = world.now();
        world.cluster.handle_timeout(now);
        steps += 1;
    }
    assert_eq!(steps, 2, "10,000 records, of which 4,096 are loaded at once");
    assert_eq!(committed(&mut world, next, "g"), before);
    assert_eq!(listed(&mut world, next), (0, vec!["g Empty".to_owned()]));
    assert_eq!(committed(&mut world, coordinator, "g").0, ErrorCode::NotCoordinator.code());
}

#[test]
fn what_is_not_committed_yet_is_not_told_by_the_next_coordinator_either() {
    let (mut world, coordinator) = world();
    let client = world.connect_to(coordinator);
    world.ask(client, 8, &commit("g", 1, 5));
    world.advance(Duration::from_millis(600));
    hold_back(&mut world, coordinator, true);
    world.send(client, 8, &commit("g", 1, 7));
    // The others have the record; that it is replicated has nobody said.
    let next = *world.partition(OFFSETS).replicas.iter().find(|id| id.0 != coordinator).unwrap();
    hold_back(&mut world, next.0, true);
    world.command(Command::MoveLeader { topic: OFFSETS.into(), index: 0, to: next }).unwrap();
    assert_eq!(committed(&mut world, next.0, "g"), (0, Some(5)));
    hold_back(&mut world, next.0, false);
    hold_back(&mut world, coordinator, false);
    world.advance(Duration::from_secs(2));
    assert_eq!(committed(&mut world, next.0, "g"), (0, Some(7)));
}

#[test]
fn a_shard_that_goes_takes_its_timers_along() {
    let (mut world, coordinator) = world();
    let client = world.connect_to(coordinator);
    assert_eq!(world.ask(client, 0, &consumer_heartbeat("consumer", 0)).error_code, 0);
    let member = world.ask(client, 9, &join("classic")).member_id;
    world.send(client, 9, &join("classic").with_member_id(member));
    world.advance(Duration::from_millis(600));
    assert_eq!(world.received::<JoinGroupRequest>(client, 9).map(|joined| joined.error_code), Some(0));
    // Those that wait and those that are noted, broker by broker.
    let timers = |world: &mut World| {
        let waits = world.cluster.waits(world.now());
        let timers =
            waits.iter().filter(|wait| wait.connection.is_none() && wait.kind != Kind::FollowerFetch);
        let nodes: Vec<NodeId> = timers.map(|wait| wait.node).collect();
        let of = |node: &Node| (nodes.iter().filter(|id| **id == node.id()).count(), node.timers.len());
        world.cluster.nodes.iter().map(of).collect::<Vec<_>>()
    };
    let there = timers(&mut world)[coordinator as usize - 1];
    assert!(there.0 >= 2 && there.0 == there.1, "{there:?}");
    for _ in 0..2 {
        let next = move_shard(&mut world);
        world.advance(Duration::from_millis(600));
        let found = timers(&mut world);
        for (at, (waiting, noted)) in found.iter().enumerate() {
            let leads = at as i32 + 1 == next;
            assert_eq!((*waiting > 0, waiting), (leads, noted), "{found:?}");
        }
    }
    // All members have been silent for too long, and nothing is left of them.
    world.advance(Duration::from_secs(120));
    assert!(timers(&mut world).iter().all(|of| *of == (0, 0)), "{:?}", timers(&mut world));
}
