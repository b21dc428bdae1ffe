//! Classic groups as their members see them.

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest,
    OffsetDeleteRequest, OffsetFetchRequest, SyncGroupRequest,
};

use super::*;
use crate::base::ErrorCode;

pub(super) const JOIN: i16 = 9;
pub(super) const SESSION_MS: i32 = 6_000;

pub(super) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(super) fn group() -> GroupId {
    GroupId(StrBytes::from_static_str("g"))
}

pub(super) fn world() -> World {
    world_with(&[])
}

pub(super) fn world_with(configs: &[(&str, &str)]) -> World {
    let mut world = World::with(configs);
    let client = world.connect();
    let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
    let response = world.ask(client, 4, &find);
    assert_eq!((response.coordinators[0].error_code, response.coordinators[0].node_id.0), (0, 1));
    world
}

pub(super) fn join(member: &str, instance: Option<&str>) -> JoinGroupRequest {
    JoinGroupRequest::default()
        .with_group_id(group())
        .with_session_timeout_ms(SESSION_MS)
        .with_rebalance_timeout_ms(3_000)
        .with_member_id(text(member))
        .with_group_instance_id(instance.map(text))
        .with_protocol_type(text("consumer"))
        .with_protocols(vec![
            JoinGroupRequestProtocol::default()
                .with_name(text("range"))
                .with_metadata(Bytes::from_static(b"sub")),
        ])
}

pub(super) fn sync(member: &str, generation: i32, assignments: &[(&str, &'static [u8])]) -> SyncGroupRequest {
    let assignments = assignments.iter().map(|(member, bytes)| {
        SyncGroupRequestAssignment::default()
            .with_member_id(text(member))
            .with_assignment(Bytes::from_static(bytes))
    });
    SyncGroupRequest::default()
        .with_group_id(group())
        .with_generation_id(generation)
        .with_member_id(text(member))
        .with_protocol_type(Some(text("consumer")))
        .with_protocol_name(Some(text("range")))
        .with_assignments(assignments.collect())
}

pub(super) fn heartbeat(world: &mut World, client: ConnectionId, member: &str, generation: i32) -> ErrorCode {
    let request = HeartbeatRequest::default()
        .with_group_id(group())
        .with_generation_id(generation)
        .with_member_id(text(member));
    ErrorCode::from_code(world.ask(client, 4, &request).error_code).unwrap()
}

/// A new dynamic member's id, by the way of KIP-394.
pub(super) fn new_member(world: &mut World, client: ConnectionId) -> String {
    let response: JoinGroupResponse = world.ask(client, JOIN, &join("", None));
    assert_eq!(response.error_code, ErrorCode::MemberIdRequired.code());
    assert!(response.member_id.starts_with("tester-"));
    response.member_id.to_string()
}

/// A group of two that is stable in generation 2 at the latest; gives connections and ids, the leader's first.
pub(super) fn pair(world: &mut World) -> [(ConnectionId, String); 2] {
    let (a, b) = (world.connect(), world.connect());
    let first = new_member(world, a);
    world.send(a, JOIN, &join(&first, None));
    world.advance(Duration::from_millis(1));
    let alone = world.received::<JoinGroupRequest>(a, JOIN).unwrap();
    assert_eq!((alone.error_code, alone.generation_id), (0, 1));
    assert_eq!(alone.leader, alone.member_id);
    let second = new_member(world, b);
    world.send(b, JOIN, &join(&second, None));
    assert!(world.received::<JoinGroupRequest>(b, JOIN).is_none(), "the first has to join again");
    assert_eq!(heartbeat(world, a, &first, 1), ErrorCode::RebalanceInProgress);
    let leader = world.ask(a, JOIN, &join(&first, None));
    let follower = world.received::<JoinGroupRequest>(b, JOIN).unwrap();
    assert_eq!((leader.generation_id, follower.generation_id), (2, 2));
    assert_eq!((leader.members.len(), follower.members.len()), (2, 0));
    world.send(b, 5, &sync(&second, 2, &[]));
    let assignments: [(&str, &'static [u8]); 2] = [(&first, b"one"), (&second, b"two")];
    let mine = world.ask(a, 5, &sync(&first, 2, &assignments));
    let yours = world.received::<SyncGroupRequest>(b, 5).unwrap();
    assert_eq!((&mine.assignment[..], &yours.assignment[..]), (&b"one"[..], &b"two"[..]));
    [(a, first), (b, second)]
}

pub(super) fn state(world: &mut World) -> String {
    let client = world.connect();
    let request = DescribeGroupsRequest::default().with_groups(vec![group()]);
    world.ask(client, 5, &request).groups[0].group_state.to_string()
}

#[test]
fn two_members_share_a_group() {
    let mut world = world();
    let [(a, first), (b, second)] = pair(&mut world);
    assert_eq!(state(&mut world), "Stable");
    assert_eq!(heartbeat(&mut world, a, &first, 2), ErrorCode::None);
    assert_eq!(heartbeat(&mut world, b, &second, 1), ErrorCode::IllegalGeneration);
    assert_eq!(heartbeat(&mut world, b, "nobody", 2), ErrorCode::UnknownMemberId);
}

#[test]
fn a_member_that_leaves_makes_the_others_join_again() {
    let mut world = world();
    let [(a, first), (b, second)] = pair(&mut world);
    let leave = LeaveGroupRequest::default()
        .with_group_id(group())
        .with_members(vec![MemberIdentity::default().with_member_id(text(&second))]);
    assert_eq!(world.ask(b, 4, &leave).members[0].error_code, 0);
    assert_eq!(heartbeat(&mut world, a, &first, 2), ErrorCode::RebalanceInProgress);
    let alone = world.ask(a, JOIN, &join(&first, None));
    assert_eq!((alone.generation_id, alone.members.len()), (3, 1));
}

#[test]
fn a_silent_member_is_removed_after_its_session_and_not_before() {
    let mut world = world();
    let [(a, first), _] = pair(&mut world);
    for _ in 0..2 {
        world.advance(Duration::from_millis(2_999));
        assert_eq!(heartbeat(&mut world, a, &first, 2), ErrorCode::None);
    }
    world.advance(Duration::from_millis(2));
    assert_eq!(heartbeat(&mut world, a, &first, 2), ErrorCode::RebalanceInProgress);
    let metrics = world.cluster.metrics(Kind::Heartbeat);
    assert_eq!(metrics.num_delayed_operations, 1, "one session is left");
}

#[test]
fn who_does_not_join_again_in_time_is_left_out() {
    let mut world = world();
    let [(a, first), _] = pair(&mut world);
    let c = world.connect();
    let third = new_member(&mut world, c);
    world.send(c, JOIN, &join(&third, None));
    world.send(a, JOIN, &join(&first, None));
    world.advance(Duration::from_millis(2_999));
    assert!(world.received::<JoinGroupRequest>(a, JOIN).is_none());
    assert_eq!(world.cluster.waits(world.now()).iter().filter(|wait| wait.kind == Kind::Join).count(), 2);
    world.advance(Duration::from_millis(1));
    let leader = world.received::<JoinGroupRequest>(a, JOIN).expect("the rebalance timeout has passed");
    assert_eq!((leader.generation_id, leader.members.len()), (3, 2));
}

#[test]
fn who_does_not_sync_in_time_is_removed() {
    let mut world = world();
    let client = world.connect();
    let member = new_member(&mut world, client);
    world.send(client, JOIN, &join(&member, None));
    world.advance(Duration::from_millis(1));
    assert_eq!(world.received::<JoinGroupRequest>(client, JOIN).unwrap().error_code, 0);
    assert_eq!(state(&mut world), "CompletingRebalance");
    world.advance(Duration::from_millis(3_000));
    assert_eq!(state(&mut world), "Empty");
}

#[test]
fn an_id_that_is_not_used_expires_with_its_session() {
    let mut world = world();
    let client = world.connect();
    let member = new_member(&mut world, client);
    world.advance(Duration::from_millis(SESSION_MS as u64));
    let response: JoinGroupResponse = world.ask(client, JOIN, &join(&member, None));
    assert_eq!(response.error_code, ErrorCode::UnknownMemberId.code());
}

#[test]
fn the_initial_rebalance_waits_for_more_members_but_not_for_ever() {
    let mut world = world_with(&[("group.initial.rebalance.delay.ms", "1000")]);
    let clients: Vec<ConnectionId> = (0..5).map(|_| world.connect()).collect();
    for client in &clients {
        let member = new_member(&mut world, *client);
        world.send(*client, JOIN, &join(&member, None));
        world.advance(Duration::from_millis(900));
    }
    // Begun at 0 with a budget of 3000 - 1000; ends at 3000 though the last has come at 3600, in the next generation.
    let first = world.received::<JoinGroupRequest>(clients[0], JOIN).expect("the budget is used up");
    assert_eq!(first.generation_id, 1);
    assert_eq!(first.members.len(), 4);
    assert!(world.received::<JoinGroupRequest>(clients[4], JOIN).is_none());
}

#[test]
fn a_static_member_comes_back_without_a_rebalance() {
    let mut world = world();
    let client = world.connect();
    world.send(client, JOIN, &join("", Some("i")));
    world.advance(Duration::from_millis(1));
    let old = world.received::<JoinGroupRequest>(client, JOIN).unwrap();
    let given: [(&str, &'static [u8]); 1] = [(&old.member_id, b"all")];
    assert_eq!(world.ask(client, 5, &sync(&old.member_id, 1, &given)).error_code, 0);

    let again = world.connect();
    let new = world.ask(again, JOIN, &join("", Some("i")));
    assert_eq!((new.error_code, new.generation_id, new.skip_assignment), (0, 1, true));
    assert_ne!(new.member_id, old.member_id);
    assert_eq!(&world.ask(again, 5, &sync(&new.member_id, 1, &[])).assignment[..], b"all");
    let fenced = HeartbeatRequest::default()
        .with_group_id(group())
        .with_generation_id(1)
        .with_member_id(old.member_id)
        .with_group_instance_id(Some(text("i")));
    assert_eq!(world.ask(client, 4, &fenced).error_code, ErrorCode::FencedInstanceId.code());
}

pub(super) fn commit(member: &str, generation: i32, offset: i64) -> OffsetCommitRequest {
    OffsetCommitRequest::default()
        .with_group_id(group())
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(text(member))
        .with_topics(vec![OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![
            OffsetCommitRequestPartition::default()
                .with_partition_index(0)
                .with_committed_offset(offset)
                .with_committed_metadata(Some(text("note"))),
        ])])
}

fn committed(world: &mut World) -> i64 {
    let client = world.connect();
    let request = OffsetFetchRequest::default().with_groups(vec![
        OffsetFetchRequestGroup::default().with_group_id(group()).with_topics(Some(vec![
            OffsetFetchRequestTopics::default().with_name(topic("t")).with_partition_indexes(vec![0]),
        ])),
    ]);
    let response = world.ask(client, 8, &request);
    assert_eq!(response.groups[0].error_code, 0);
    response.groups[0].topics[0].partitions[0].committed_offset
}

#[test]
fn offsets_are_committed_fetched_and_deleted_with_their_group() {
    let mut world = world();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    assert_eq!(committed(&mut world), -1);
    let error = |response: kafka_protocol::messages::OffsetCommitResponse| {
        response.topics[0].partitions[0].error_code
    };
    assert_eq!(error(world.ask(client, 8, &commit("", -1, 5))), 0);
    assert_eq!(committed(&mut world), 5);
    assert_eq!(error(world.ask(client, 9, &commit("x", 3, 6))), ErrorCode::UnknownMemberId.code());
    let listed = world.ask(client, 5, &ListGroupsRequest::default().with_states_filter(vec![text("EMPTY")]));
    assert_eq!(listed.groups.len(), 1);
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![group()]);
    assert_eq!(world.ask(client, 2, &delete).results[0].error_code, 0);
    assert_eq!(world.ask(client, 2, &delete).results[0].error_code, ErrorCode::GroupIdNotFound.code());
    assert_eq!(committed(&mut world), -1);
}

#[test]
fn a_member_commits_in_its_generation_alone() {
    let mut world = world();
    world.create_topic("t", 1, &[]);
    let [(a, first), _] = pair(&mut world);
    let error = |response: kafka_protocol::messages::OffsetCommitResponse| {
        response.topics[0].partitions[0].error_code
    };
    assert_eq!(error(world.ask(a, 8, &commit(&first, 2, 5))), 0);
    assert_eq!(error(world.ask(a, 8, &commit(&first, 1, 6))), ErrorCode::IllegalGeneration.code());
    assert_eq!(error(world.ask(a, 8, &commit("", -1, 7))), ErrorCode::UnknownMemberId.code());
    assert_eq!(committed(&mut world), 5);
}

#[test]
fn deleting_a_topic_forgets_its_offsets() {
    let mut world = world();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    world.ask(client, 8, &commit("", -1, 5));
    let delete = kafka_protocol::messages::DeleteTopicsRequest::default()
        .with_topic_names(vec![topic("t")])
        .with_timeout_ms(1000);
    assert_eq!(world.ask(client, 5, &delete).responses[0].error_code, 0);
    assert_eq!(committed(&mut world), -1);
}

#[test]
fn offsets_of_an_empty_group_expire() {
    let mut world =
        world_with(&[("offsets.retention.minutes", "1"), ("offsets.retention.check.interval.ms", "1000")]);
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    world.ask(client, 8, &commit("", -1, 5));
    world.advance(Duration::from_secs(59));
    assert_eq!(committed(&mut world), 5);
    world.advance(Duration::from_secs(2));
    assert_eq!(committed(&mut world), -1);
    world.advance(Duration::from_secs(2));
    assert!(world.ask(client, 5, &ListGroupsRequest::default()).groups.is_empty());
}

#[test]
fn a_client_that_goes_while_it_joins_leaves_no_wait() {
    let mut world = world();
    let _ = pair(&mut world);
    let c = world.connect();
    let third = new_member(&mut world, c);
    world.send(c, JOIN, &join(&third, None));
    world.disconnect(c);
    assert!(world.cluster.waits(world.now()).iter().all(|wait| wait.kind != Kind::Join));
    world.advance(Duration::from_secs(20));
    assert_eq!(state(&mut world), "Empty", "everybody has been silent");
    assert!(world.cluster.waits(world.now()).is_empty(), "no session, no timer is left");
}

fn protocols(names: &[&str]) -> Vec<JoinGroupRequestProtocol> {
    let protocol = |name: &&str| {
        JoinGroupRequestProtocol::default()
            .with_name(text(name))
            .with_metadata(Bytes::from_static(b"\0\0\0\0\0\x01\0\x01t"))
    };
    names.iter().map(protocol).collect()
}

/// Lets static members with these protocols form the group "g", with empty assignments; gives their ids.
fn form(world: &mut World, members: &[&[&str]]) -> Vec<(ConnectionId, String)> {
    let clients: Vec<ConnectionId> = members.iter().map(|_| world.connect()).collect();
    for (at, names) in members.iter().enumerate() {
        let request = join("", Some(&format!("i{at}"))).with_protocols(protocols(names));
        world.send(clients[at], JOIN, &request);
    }
    world.advance(Duration::from_millis(1));
    let ids: Vec<String> = clients
        .iter()
        .map(|client| world.received::<JoinGroupRequest>(*client, JOIN).unwrap().member_id.to_string())
        .collect();
    for (client, id) in clients.iter().zip(&ids).rev() {
        world.send(*client, 3, &sync(id, 1, &[]).with_protocol_type(None).with_protocol_name(None));
    }
    for client in &clients {
        assert_eq!(world.received::<SyncGroupRequest>(*client, 3).unwrap().error_code, 0);
    }
    clients.into_iter().zip(ids).collect()
}

#[test]
fn the_protocol_with_most_votes_wins_and_a_tie_is_decided_as_in_kafka() {
    let cases: [(&[&[&str]], &str); 4] = [
        (&[&["range", "sticky"], &["sticky", "range"]], "sticky"),
        (&[&["sticky", "range"], &["range", "sticky"]], "sticky"),
        (&[&["range", "sticky"], &["sticky", "range"], &["range", "sticky"]], "range"),
        (&[&["range", "sticky"], &["own", "range"]], "range"),
    ];
    for (members, expected) in cases {
        let mut world = world();
        form(&mut world, members);
        let client = world.connect();
        let request = DescribeGroupsRequest::default().with_groups(vec![group()]);
        let described = world.ask(client, 5, &request);
        assert_eq!(described.groups[0].protocol_data.as_str(), expected, "{members:?}");
    }
}

#[test]
fn a_protocol_that_is_named_twice_counts_once() {
    let mut world = world();
    form(&mut world, &[&["range", "range"], &["range"]]);
    assert_eq!(state(&mut world), "Stable");
}

#[test]
fn the_last_assignment_is_described_while_a_group_rebalances() {
    let mut world = world();
    let [(a, first), _] = pair(&mut world);
    world.send(a, JOIN, &join(&first, None));
    let client = world.connect();
    let request = DescribeGroupsRequest::default().with_groups(vec![group()]);
    let described = world.ask(client, 5, &request);
    let described = &described.groups[0];
    assert_eq!(
        (described.group_state.as_str(), described.protocol_data.as_str()),
        ("PreparingRebalance", "")
    );
    let of = |member: usize| {
        (&described.members[member].member_assignment[..], &described.members[member].member_metadata[..])
    };
    assert_eq!((of(0), of(1)), ((&b"one"[..], &b""[..]), (&b"two"[..], &b""[..])));
}

#[test]
fn the_empty_name_is_a_group_for_those_who_ask_and_commit() {
    let mut world = world();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let empty = GroupId(StrBytes::new());
    let describe = DescribeGroupsRequest::default().with_groups(vec![empty.clone()]);
    let row =
        world.ask(client, 5, &describe.clone().with_include_authorized_operations(true)).groups.remove(0);
    assert_eq!((row.error_code, row.group_state.as_str(), row.authorized_operations), (0, "Dead", 3400));
    let row = world.ask(client, 6, &describe.with_include_authorized_operations(true)).groups.remove(0);
    let error = ErrorCode::GroupIdNotFound.code();
    assert_eq!((row.error_code, row.authorized_operations), (error, i32::MIN), "none are told with an error");
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![empty.clone()]);
    assert_eq!(world.ask(client, 2, &delete).results[0].error_code, error);
    let committed = world.ask(client, 8, &commit("", -1, 5).with_group_id(empty.clone()));
    assert_eq!(committed.topics[0].partitions[0].error_code, 0);
    let all = OffsetFetchRequestGroup::default().with_group_id(empty).with_topics(None);
    let fetched = world.ask(client, 8, &OffsetFetchRequest::default().with_groups(vec![all]));
    assert_eq!((fetched.groups[0].error_code, fetched.groups[0].topics.len()), (0, 1));
}

fn delete_offset(world: &mut World, topic_name: &'static str) -> (i16, Option<i16>) {
    let client = world.connect();
    let row = OffsetDeleteRequestTopic::default()
        .with_name(topic(topic_name))
        .with_partitions(vec![OffsetDeleteRequestPartition::default()]);
    let request = OffsetDeleteRequest::default().with_group_id(group()).with_topics(vec![row]);
    let response = world.ask(client, 0, &request);
    (response.error_code, response.topics.first().map(|topic| topic.partitions[0].error_code))
}

#[test]
fn offsets_of_subscribed_topics_are_not_deleted_and_unreadable_subscriptions_are_all_topics() {
    let subscribed = ErrorCode::GroupSubscribedToTopic.code();
    let mut readable = world();
    readable.create_topic("t", 1, &[]);
    readable.create_topic("u", 1, &[]);
    let mut poisoned = readable.clone();
    form(&mut readable, &[&["range"]]);
    assert_eq!(delete_offset(&mut readable, "t"), (0, Some(subscribed)));
    assert_eq!(delete_offset(&mut readable, "u"), (0, Some(0)));
    // Its members say "sub", which is no subscription.
    pair(&mut poisoned);
    assert_eq!(delete_offset(&mut poisoned, "u"), (0, Some(subscribed)));
}

#[test]
fn a_topic_of_which_nothing_is_committed_is_not_answered() {
    let mut world = world();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let mut request = commit("", -1, 5);
    request.topics.insert(0, OffsetCommitRequestTopic::default().with_name(topic("t")));
    let response = world.ask(client, 8, &request);
    assert_eq!((response.topics.len(), response.topics[0].partitions.len()), (1, 1));
}
