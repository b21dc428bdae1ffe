//! Many members, many groups, many offsets: the answers stay right, and what is held stays in proportion.

use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DeleteTopicsRequest, GroupId, HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, ListGroupsRequest,
    OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse, SyncGroupRequest,
};

use super::groups::{JOIN, join, text, world, world_with};
use super::*;
use crate::base::ErrorCode;

const SYNC: i16 = 5;
const COMMIT: i16 = 8;

fn named(group: &str) -> GroupId {
    GroupId(text(group))
}

/// A member of the group "g" with the connection that it has to itself.
struct Peer {
    client: ConnectionId,
    id: String,
}

/// Lets all join and sync; each gets its own id as its assignment.
fn rebalance(world: &mut World, peers: &[Peer]) -> i32 {
    for peer in peers {
        world.send(peer.client, JOIN, &join(&peer.id, None));
    }
    world.advance(Duration::from_millis(1));
    let mut generation = None;
    let mut leader = None;
    for peer in peers {
        let joined = world.received::<JoinGroupRequest>(peer.client, JOIN).expect("all have joined");
        assert_eq!(joined.error_code, 0);
        assert_eq!(*generation.get_or_insert(joined.generation_id), joined.generation_id);
        let leads = joined.leader == joined.member_id;
        assert_eq!(joined.members.len(), if leads { peers.len() } else { 0 });
        leader = leader.or(leads.then_some(peer.client));
    }
    let generation = generation.unwrap();
    for peer in peers {
        let given = peers.iter().filter(|_| Some(peer.client) == leader).map(|peer| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(&peer.id))
                .with_assignment(Bytes::from(peer.id.clone()))
        });
        let request = SyncGroupRequest::default()
            .with_group_id(named("g"))
            .with_generation_id(generation)
            .with_member_id(text(&peer.id))
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text("range")))
            .with_assignments(given.collect());
        world.send(peer.client, SYNC, &request);
    }
    for peer in peers {
        let synced = world.received::<SyncGroupRequest>(peer.client, SYNC).expect("all have synced");
        assert_eq!((synced.error_code, &synced.assignment[..]), (0, peer.id.as_bytes()));
    }
    generation
}

fn heartbeat(world: &mut World, peer: &Peer, generation: i32) -> ErrorCode {
    let request = HeartbeatRequest::default()
        .with_group_id(named("g"))
        .with_generation_id(generation)
        .with_member_id(text(&peer.id));
    ErrorCode::from_code(world.ask(peer.client, 4, &request).error_code).unwrap()
}

#[test]
fn five_hundred_members_join_sync_and_go() {
    const MEMBERS: usize = 500;
    let mut world = world();
    let mut peers: Vec<Peer> = Vec::new();
    for _ in 0..MEMBERS {
        let client = world.connect();
        let id = world.ask(client, JOIN, &join("", None)).member_id.to_string();
        peers.push(Peer { client, id });
    }
    assert_eq!(rebalance(&mut world, &peers), 1);
    let gone: Vec<Peer> = peers.drain(..MEMBERS / 2).collect();
    let members = gone.iter().map(|peer| MemberIdentity::default().with_member_id(text(&peer.id)));
    let leave = LeaveGroupRequest::default().with_group_id(named("g")).with_members(members.collect());
    let left = world.ask(gone[0].client, 4, &leave);
    assert!(left.members.len() == gone.len() && left.members.iter().all(|member| member.error_code == 0));
    assert_eq!(heartbeat(&mut world, &peers[0], 1), ErrorCode::RebalanceInProgress);
    assert_eq!(rebalance(&mut world, &peers), 2);
    for peer in &peers {
        assert_eq!(heartbeat(&mut world, peer, 2), ErrorCode::None);
    }
    world.advance(Duration::from_secs(20));
    assert_eq!(heartbeat(&mut world, &peers[0], 2), ErrorCode::UnknownMemberId);
    assert!(world.cluster.waits(world.now()).is_empty(), "neither sessions nor joins are left");
}

fn commit(group: &str, topic_name: &'static str, partitions: i32) -> OffsetCommitRequest {
    let rows = (0..partitions).map(|index| {
        OffsetCommitRequestPartition::default()
            .with_partition_index(index)
            .with_committed_offset(i64::from(index))
            .with_committed_metadata(Some(text("")))
    });
    let topic = OffsetCommitRequestTopic::default().with_name(topic(topic_name));
    OffsetCommitRequest::default()
        .with_group_id(named(group))
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic.with_partitions(rows.collect())])
}

#[test]
fn ten_thousand_groups_are_listed_and_end_by_themselves() {
    const GROUPS: usize = 10_000;
    const WITH_MEMBER: usize = 1_000;
    let mut world =
        world_with(&[("offsets.retention.minutes", "1"), ("offsets.retention.check.interval.ms", "120000")]);
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    for number in 0..GROUPS {
        let name = format!("g{number}");
        if number < WITH_MEMBER {
            let client = world.connect();
            world.send(client, JOIN, &join("", Some("i")).with_group_id(named(&name)));
        } else {
            world.send(client, COMMIT, &commit(&name, "t", 1));
            let committed = world.received::<OffsetCommitRequest>(client, COMMIT).unwrap();
            assert_eq!(committed.topics[0].partitions[0].error_code, 0);
        }
    }
    let list = |world: &mut World, states: &[&str]| {
        let states = states.iter().map(|state| text(state)).collect();
        world.ask(client, 5, &ListGroupsRequest::default().with_states_filter(states)).groups.len()
    };
    assert_eq!(list(&mut world, &[]), GROUPS);
    assert_eq!(list(&mut world, &["empty"]), GROUPS - WITH_MEMBER);
    world.advance(Duration::from_millis(1));
    assert_eq!(list(&mut world, &["CompletingRebalance"]), WITH_MEMBER);
    world.advance(Duration::from_secs(20));
    assert_eq!(list(&mut world, &["Empty"]), GROUPS, "members that don't sync are removed");
    assert!(world.cluster.waits(world.now()).is_empty());
    world.advance(Duration::from_secs(120));
    assert_eq!(list(&mut world, &[]), 0, "offsets have expired, and groups with them");
}

#[test]
fn a_hundred_thousand_offsets_are_kept_and_forgotten() {
    const GROUPS: usize = 100;
    const PARTITIONS: i32 = 1_000;
    let mut world = world();
    world.create_topic("t", PARTITIONS, &[]);
    let client = world.connect();
    let before = world.cluster.log_bytes_held();
    for number in 0..GROUPS {
        let response = world.ask(client, COMMIT, &commit(&format!("g{number}"), "t", PARTITIONS));
        assert!(response.topics[0].partitions.iter().all(|partition| partition.error_code == 0));
    }
    let held = world.cluster.log_bytes_held() - before;
    assert!(held < GROUPS * PARTITIONS as usize * 128, "{held} bytes");
    let fetch = |world: &mut World, group: &str| -> OffsetFetchResponse {
        let all = OffsetFetchRequestGroup::default().with_group_id(named(group)).with_topics(None);
        world.ask(client, 8, &OffsetFetchRequest::default().with_groups(vec![all]))
    };
    let fetched = fetch(&mut world, "g77");
    let rows = &fetched.groups[0].topics[0].partitions;
    assert_eq!(rows.len(), PARTITIONS as usize);
    assert!(rows.iter().all(|row| row.committed_offset == i64::from(row.partition_index)));
    let delete = DeleteTopicsRequest::default().with_topic_names(vec![topic("t")]).with_timeout_ms(1000);
    assert_eq!(world.ask(client, 5, &delete).responses[0].error_code, 0);
    for number in 0..GROUPS {
        let fetched = fetch(&mut world, &format!("g{number}"));
        assert!(fetched.groups[0].topics.is_empty(), "what was committed goes with the topic");
    }
}

#[test]
fn ten_thousand_joins_whose_clients_go_leave_nothing() {
    const JOINS: usize = 10_000;
    let mut world = world_with(&[("group.initial.rebalance.delay.ms", "3000")]);
    let clients: Vec<ConnectionId> = (0..JOINS).map(|_| world.connect()).collect();
    for (at, client) in clients.iter().enumerate() {
        let group = named(&format!("g{}", at % 100));
        let instance = format!("i{at}");
        world.send(*client, JOIN, &join("", Some(&instance)).with_group_id(group));
    }
    // Each group waits by itself for its members, and for each of them.
    let waits = world.cluster.waits(world.now()).len();
    assert!(waits >= JOINS, "{waits} waits");
    clients.iter().for_each(|client| world.disconnect(*client));
    let of_clients = world.cluster.waits(world.now());
    assert!(of_clients.iter().all(|wait| wait.kind != Kind::Join), "a join waits for its client alone");
    // What the groups know of them goes with their sessions.
    world.advance(Duration::from_secs(20));
    assert!(world.cluster.waits(world.now()).is_empty());
    let client = world.connect();
    let empty = ListGroupsRequest::default().with_states_filter(vec![text("Empty")]);
    assert_eq!(world.ask(client, 5, &empty).groups.len(), 100);
}
