//! What Apache Kafka's own tests ask of classic groups (its `GroupMetadataManagerTest` and `ClassicGroupTest`), beside what
//! `groups.rs` shows: every request in every state, full groups, static members that come back at every step, and leavers.

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DeleteGroupsRequest, DescribeGroupsRequest, DescribeGroupsResponse, GroupId, HeartbeatRequest,
    JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, OffsetCommitRequest,
    SyncGroupRequest, SyncGroupResponse,
};

use super::groups::{
    JOIN, SESSION_MS, commit, group, heartbeat, join, new_member, pair, state, sync, text, world, world_with,
};
use super::*;
use crate::base::ErrorCode;

const SYNC: i16 = 5;

fn error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap()
}

fn synced(world: &mut World, client: ConnectionId, member: &str, generation: i32) -> ErrorCode {
    error(world.ask(client, SYNC, &sync(member, generation, &[])).error_code)
}

fn committed(world: &mut World, client: ConnectionId, member: &str, generation: i32) -> ErrorCode {
    let response = world.ask::<OffsetCommitRequest>(client, 8, &commit(member, generation, 5));
    error(response.topics[0].partitions[0].error_code)
}

/// What a join that waited has come to.
fn joined(world: &mut World, client: ConnectionId) -> JoinGroupResponse {
    world.received::<JoinGroupRequest>(client, JOIN).expect("the join is answered")
}

fn joins_with(request: JoinGroupRequest, protocol: &str) -> JoinGroupRequest {
    let named = JoinGroupRequestProtocol::default().with_name(text(protocol));
    request.with_protocols(vec![named.with_metadata(Bytes::from_static(b"sub"))])
}

fn leave(world: &mut World, client: ConnectionId, leavers: &[(&str, Option<&str>)]) -> Vec<ErrorCode> {
    let members = leavers.iter().map(|(member, instance)| {
        MemberIdentity::default().with_member_id(text(member)).with_group_instance_id(instance.map(text))
    });
    let request = LeaveGroupRequest::default().with_group_id(group()).with_members(members.collect());
    let response = world.ask(client, 5, &request);
    assert_eq!(response.error_code, 0);
    response.members.iter().map(|member| error(member.error_code)).collect()
}

/// Static members of a stable group, the leader first, each with its connection and id. Their generation is 1.
fn static_group<const N: usize>(world: &mut World, instances: [&str; N]) -> [(ConnectionId, String); N] {
    let clients = instances.map(|instance| {
        let client = world.connect();
        world.send(client, JOIN, &join("", Some(instance)));
        client
    });
    world.advance(Duration::from_millis(1));
    let members = clients.map(|client| (client, joined(world, client)));
    let leader = members.iter().position(|(_, member)| member.leader == member.member_id).unwrap();
    assert_eq!(leader, 0, "the first who came leads");
    let ids = members.map(|(client, member)| {
        assert_eq!((member.error_code, member.generation_id), (0, 1));
        (client, member.member_id.to_string())
    });
    for (client, id) in ids.iter().skip(1) {
        world.send(*client, SYNC, &static_sync(id, 1));
    }
    let (client, id) = &ids[0];
    assert_eq!(world.ask(*client, SYNC, &static_sync(id, 1)).error_code, 0);
    for (client, _) in ids.iter().skip(1) {
        assert_eq!(world.received::<SyncGroupRequest>(*client, SYNC).unwrap().error_code, 0);
    }
    ids
}

fn static_sync(member: &str, generation: i32) -> SyncGroupRequest {
    sync(member, generation, &[])
}

#[test]
fn every_request_has_its_answer_in_every_state() {
    let mut world = world();
    world.create_topic("t", 1, &[]);
    let stranger = world.connect();
    // There is no group.
    assert_eq!(heartbeat(&mut world, stranger, "m", 1), ErrorCode::UnknownMemberId);
    assert_eq!(synced(&mut world, stranger, "m", 1), ErrorCode::UnknownMemberId);
    assert_eq!(world.ask(stranger, JOIN, &join("m", None)).error_code, ErrorCode::UnknownMemberId.code());
    assert_eq!(leave(&mut world, stranger, &[("m", None)]), [ErrorCode::UnknownMemberId]);

    let [(a, first), (b, second)] = pair(&mut world);
    assert_eq!(state(&mut world), "Stable");
    assert_eq!(committed(&mut world, a, &first, 2), ErrorCode::None);
    assert_eq!(synced(&mut world, b, &second, 2), ErrorCode::None, "the same once more");
    for generation in [1, 3, -1] {
        assert_eq!(heartbeat(&mut world, a, &first, generation), ErrorCode::IllegalGeneration);
        assert_eq!(synced(&mut world, a, &first, generation), ErrorCode::IllegalGeneration);
        assert_eq!(committed(&mut world, a, &first, generation), ErrorCode::IllegalGeneration);
    }
    let same = world.ask(b, JOIN, &join(&second, None));
    assert_eq!((same.error_code, same.generation_id), (0, 2), "a follower that says nothing new");

    world.send(a, JOIN, &join(&first, None));
    assert_eq!(state(&mut world), "PreparingRebalance", "a leader's join always makes all join again");
    assert_eq!(heartbeat(&mut world, b, &second, 2), ErrorCode::RebalanceInProgress);
    assert_eq!(synced(&mut world, b, &second, 2), ErrorCode::RebalanceInProgress);
    assert_eq!(committed(&mut world, b, &second, 2), ErrorCode::None);

    let follower = world.ask(b, JOIN, &join(&second, None));
    assert_eq!((follower.generation_id, joined(&mut world, a).generation_id), (3, 3));
    assert_eq!(state(&mut world), "CompletingRebalance");
    assert_eq!(heartbeat(&mut world, b, &second, 3), ErrorCode::None);
    assert_eq!(committed(&mut world, b, &second, 3), ErrorCode::RebalanceInProgress);
    let again = world.ask(a, JOIN, &join(&first, None));
    assert_eq!((again.generation_id, again.members.len()), (3, 2), "the leader's answer may have been lost");
    let again = world.ask(b, JOIN, &join(&second, None));
    assert_eq!((again.generation_id, again.members.len()), (3, 0));
    world.send(b, SYNC, &sync(&second, 3, &[]));
    let waiting = world.connect();
    world.send(waiting, JOIN, &joins_with(join(&first, None).with_protocol_type(text("consumer")), "range"));
    assert!(world.received::<JoinGroupRequest>(waiting, JOIN).is_some(), "it said nothing new");
    let other = joins_with(join(&first, None), "range");
    let other = other.with_protocols(vec![
        JoinGroupRequestProtocol::default()
            .with_name(text("range"))
            .with_metadata(Bytes::from_static(b"new")),
    ]);
    world.send(waiting, JOIN, &other);
    let sent_away = world.received::<SyncGroupRequest>(b, SYNC).expect("whoever syncs has to join again");
    assert_eq!(error(sent_away.error_code), ErrorCode::RebalanceInProgress);
    assert_eq!(state(&mut world), "PreparingRebalance");

    assert_eq!(leave(&mut world, a, &[(&first, None), (&second, None)]), [ErrorCode::None; 2]);
    assert_eq!(joined(&mut world, waiting).error_code, ErrorCode::UnknownMemberId.code());
    assert_eq!(state(&mut world), "Empty");
    assert_eq!(heartbeat(&mut world, a, &first, 4), ErrorCode::UnknownMemberId);
    assert_eq!(synced(&mut world, a, &first, 4), ErrorCode::UnknownMemberId);
    assert_eq!(committed(&mut world, a, &first, 4), ErrorCode::UnknownMemberId);
    assert_eq!(committed(&mut world, a, "", -1), ErrorCode::None, "whoever assigns by hand");
}

#[test]
fn joins_that_do_not_fit_are_refused() {
    let mut world =
        world_with(&[("group.min.session.timeout.ms", "100"), ("group.max.session.timeout.ms", "10000")]);
    let [(a, first), _] = pair(&mut world);
    let client = world.connect();
    let mut refused = |request: &JoinGroupRequest| error(world.ask(client, JOIN, request).error_code);
    let bare = join("", None);
    assert_eq!(refused(&bare.clone().with_group_id(GroupId(text("")))), ErrorCode::InvalidGroupId);
    for timeout_ms in [i32::MIN, -1, 0, 99, 10_001, i32::MAX] {
        let request = bare.clone().with_session_timeout_ms(timeout_ms);
        assert_eq!(refused(&request), ErrorCode::InvalidSessionTimeout, "{timeout_ms}");
    }
    for timeout_ms in [100, 10_000] {
        let request = bare.clone().with_session_timeout_ms(timeout_ms);
        assert_eq!(refused(&request), ErrorCode::MemberIdRequired, "{timeout_ms}");
    }
    let inconsistent = ErrorCode::InconsistentGroupProtocol;
    assert_eq!(refused(&bare.clone().with_protocol_type(text("connect"))), inconsistent);
    assert_eq!(refused(&bare.clone().with_protocol_type(text(""))), inconsistent);
    assert_eq!(refused(&bare.clone().with_protocols(Vec::new())), inconsistent);
    assert_eq!(refused(&joins_with(bare.clone(), "nobody's")), inconsistent);
    assert_eq!(refused(&bare.clone().with_member_id(text("x"))), ErrorCode::UnknownMemberId);
    assert_eq!(refused(&join("x", Some("i"))), ErrorCode::UnknownMemberId);
    assert_eq!(state(&mut world), "Stable", "none of them was let in");
    assert_eq!(heartbeat(&mut world, a, &first, 2), ErrorCode::None);
}

#[test]
fn syncs_that_do_not_fit_are_refused() {
    let mut world = world();
    let [(a, first), _] = pair(&mut world);
    let mut refused = |request: SyncGroupRequest| error(world.ask(a, SYNC, &request).error_code);
    let inconsistent = ErrorCode::InconsistentGroupProtocol;
    let good = sync(&first, 2, &[]);
    assert_eq!(refused(good.clone().with_protocol_type(Some(text("connect")))), inconsistent);
    assert_eq!(refused(good.clone().with_protocol_name(Some(text("roundrobin")))), inconsistent);
    assert_eq!(refused(good.clone().with_protocol_type(None)), inconsistent);
    assert_eq!(refused(good.clone().with_protocol_name(None)), inconsistent);
    assert_eq!(refused(good.clone().with_group_id(GroupId(text("")))), ErrorCode::InvalidGroupId);
    assert_eq!(refused(good.clone().with_group_instance_id(Some(text("i")))), ErrorCode::UnknownMemberId);
    assert_eq!(refused(sync("x", 2, &[])), ErrorCode::UnknownMemberId);
    assert_eq!(refused(good), ErrorCode::None);
}

#[test]
fn whom_the_leader_forgets_has_nothing() {
    let mut world = world();
    let [(a, first), (b, second)] = pair(&mut world);
    world.send(a, JOIN, &join(&first, None));
    world.ask(b, JOIN, &join(&second, None));
    assert_eq!(joined(&mut world, a).generation_id, 3);
    world.send(b, SYNC, &sync(&second, 3, &[]));
    let given: [(&str, &'static [u8]); 2] = [(&first, b"all"), ("nobody", b"x")];
    assert_eq!(&world.ask(a, SYNC, &sync(&first, 3, &given)).assignment[..], b"all");
    let forgotten = world.received::<SyncGroupRequest>(b, SYNC).unwrap();
    assert_eq!((forgotten.error_code, forgotten.assignment.len()), (0, 0));
}

#[test]
fn a_full_group_takes_nobody_else_and_keeps_whom_it_has() {
    let mut world = world_with(&[("group.max.size", "2")]);
    let [(a, first), (b, second)] = pair(&mut world);
    let client = world.connect();
    let full = ErrorCode::GroupMaxSizeReached;
    let refused = world.ask(client, JOIN, &join("", None));
    assert_eq!((error(refused.error_code), &*refused.member_id), (full, ""));
    assert_eq!(error(world.ask(client, JOIN, &join("", Some("i"))).error_code), full);
    assert_eq!(
        error(world.ask(client, 3, &join("", None)).error_code),
        full,
        "without the way by an id first"
    );

    // In a rebalance it is who comes first.
    world.send(a, JOIN, &join(&first, None));
    let third = new_member(&mut world, client);
    world.send(client, JOIN, &join(&third, None));
    assert!(world.received::<JoinGroupRequest>(client, JOIN).is_none(), "one place is free");
    let late = world.ask(b, JOIN, &join(&second, None));
    assert_eq!(error(late.error_code), full, "the last who joins is out");
    let leader = joined(&mut world, a);
    assert_eq!((leader.generation_id, leader.members.len()), (3, 2));
    assert_eq!(joined(&mut world, client).generation_id, 3);
    assert_eq!(heartbeat(&mut world, b, &second, 3), ErrorCode::UnknownMemberId);
}

#[test]
fn a_new_member_may_wait_for_five_minutes() {
    let mut world = world_with(&[("group.max.session.timeout.ms", "1800000")]);
    let long = |member: &str| {
        let request = join(member, None).with_rebalance_timeout_ms(1_000_000);
        request.with_session_timeout_ms(1_000_000)
    };
    let (a, b) = (world.connect(), world.connect());
    let first = new_member(&mut world, a);
    world.send(a, JOIN, &long(&first));
    world.advance(Duration::from_millis(1));
    assert_eq!(joined(&mut world, a).generation_id, 1);
    assert_eq!(world.ask(a, SYNC, &sync(&first, 1, &[])).error_code, 0);
    let second = new_member(&mut world, b);
    world.send(b, JOIN, &long(&second));
    world.advance(Duration::from_millis(299_999));
    assert!(world.received::<JoinGroupRequest>(b, JOIN).is_none(), "the first has not joined again");
    world.advance(Duration::from_millis(1));
    assert_eq!(error(joined(&mut world, b).error_code), ErrorCode::UnknownMemberId);
    // Nobody who is left is missing, once the one who is has joined again.
    assert_eq!(world.ask(a, JOIN, &long(&first)).generation_id, 2);
}

#[test]
fn who_leads_is_somebody_who_has_joined() {
    let mut world = world();
    let [(_, first), (b, second)] = pair(&mut world);
    let c = world.connect();
    let third = new_member(&mut world, c);
    world.send(c, JOIN, &join(&third, None));
    world.send(b, JOIN, &join(&second, None));
    world.advance(Duration::from_millis(3_000));
    let (of_b, of_c) = (joined(&mut world, b), joined(&mut world, c));
    assert_eq!((of_b.generation_id, of_c.generation_id), (3, 3));
    assert_ne!(&*of_b.leader, first, "the leader has not joined again");
    assert_eq!(of_b.leader, of_c.leader);
    let counts = [of_b.members.len(), of_c.members.len()];
    assert_eq!(counts.iter().max(), Some(&2));
    assert_eq!(counts.iter().min(), Some(&0), "the leader alone hears of all");
}

#[test]
fn a_static_leader_that_comes_back_is_told_what_its_version_can_know() {
    for (version, skips) in [(9, true), (8, false), (5, false)] {
        let mut world = world();
        let [(_, leader), _] = static_group(&mut world, ["i", "j"]);
        let again = world.connect();
        let back = world.ask(again, version, &join("", Some("i")));
        assert_eq!((back.error_code, back.generation_id), (0, 1), "no rebalance: v{version}");
        assert_ne!(&*back.member_id, leader);
        if skips {
            assert_eq!((back.skip_assignment, back.members.len()), (true, 2));
            assert_eq!(back.leader, back.member_id);
        } else {
            assert_eq!(back.members.len(), 0, "an old client that is told it leads would assign anew");
            assert_eq!(&*back.leader, leader);
        }
        assert_eq!(state(&mut world), "Stable");
    }
}

#[test]
fn a_static_follower_that_wants_something_else_makes_all_join_again() {
    let mut world = world();
    let [(a, leader), (_, follower)] = static_group(&mut world, ["i", "j"]);
    let again = world.connect();
    let back = world.ask(again, JOIN, &join("", Some("j")));
    assert_eq!((back.error_code, back.generation_id, &*back.leader), (0, 1, &*leader));
    assert_ne!(&*back.member_id, follower);
    assert_eq!(state(&mut world), "Stable", "it wants the same");

    // What is chosen would be another protocol.
    let both = |request: JoinGroupRequest, names: [&str; 2]| {
        let protocols = names.map(|name| {
            JoinGroupRequestProtocol::default()
                .with_name(text(name))
                .with_metadata(Bytes::from_static(b"sub"))
        });
        request.with_protocols(protocols.to_vec())
    };
    world.send(again, JOIN, &both(join("", Some("j")), ["roundrobin", "range"]));
    let same = joined(&mut world, again);
    assert_eq!((same.error_code, same.generation_id), (0, 1), "range is still what all know");
    let inconsistent = world.ask(again, JOIN, &joins_with(join("", Some("j")), "roundrobin"));
    assert_eq!(error(inconsistent.error_code), ErrorCode::InconsistentGroupProtocol);
    assert_eq!(heartbeat_of(&mut world, a, &leader, "i", 1), ErrorCode::None);
}

fn heartbeat_of(
    world: &mut World,
    client: ConnectionId,
    member: &str,
    instance: &str,
    generation: i32,
) -> ErrorCode {
    let request = HeartbeatRequest::default()
        .with_group_id(group())
        .with_generation_id(generation)
        .with_member_id(text(member))
        .with_group_instance_id(Some(text(instance)));
    error(world.ask(client, 4, &request).error_code)
}

#[test]
fn whoever_holds_an_old_id_of_a_static_member_is_fenced() {
    let mut world = world();
    let [(a, old), (b, other)] = static_group(&mut world, ["i", "j"]);
    let again = world.connect();
    let new = world.ask(again, JOIN, &join("", Some("i"))).member_id.to_string();
    let fenced = ErrorCode::FencedInstanceId;
    assert_eq!(heartbeat_of(&mut world, a, &old, "i", 1), fenced);
    assert_eq!(error(world.ask(a, JOIN, &join(&old, Some("i"))).error_code), fenced);
    let request = sync(&old, 1, &[]).with_group_instance_id(Some(text("i")));
    assert_eq!(error(world.ask(a, SYNC, &request).error_code), fenced);
    assert_eq!(leave(&mut world, a, &[(&old, Some("i"))]), [fenced]);
    assert_eq!(heartbeat(&mut world, a, &old, 1), ErrorCode::UnknownMemberId, "without its instance id");
    assert_eq!(heartbeat_of(&mut world, b, &other, "i", 1), fenced, "another's instance id");
    assert_eq!(heartbeat_of(&mut world, b, &other, "k", 1), ErrorCode::UnknownMemberId);
    assert_eq!(heartbeat_of(&mut world, again, &new, "i", 1), ErrorCode::None);
}

#[test]
fn a_static_member_that_comes_back_takes_the_place_of_one_that_waits() {
    // While it joins.
    let mut world = world();
    let [(a, leader), (b, _)] = static_group(&mut world, ["i", "j"]);
    let leads = join(&leader, Some("i"));
    world.send(a, JOIN, &leads);
    assert_eq!(state(&mut world), "PreparingRebalance");
    let again = world.connect();
    world.send(again, JOIN, &join("", Some("i")));
    assert_eq!(error(joined(&mut world, a).error_code), ErrorCode::FencedInstanceId);
    assert!(world.received::<JoinGroupRequest>(again, JOIN).is_none(), "the other has to come, too");
    let second = world.connect();
    world.send(second, JOIN, &join("", Some("j")));
    let (first, second_joined) = (joined(&mut world, again), joined(&mut world, second));
    assert_eq!((first.generation_id, second_joined.generation_id), (2, 2));
    assert!(world.received::<JoinGroupRequest>(b, JOIN).is_none());

    // While it syncs.
    let follower =
        if first.leader == first.member_id { (second, &second_joined, "j") } else { (again, &first, "i") };
    world.send(follower.0, SYNC, &sync(&follower.1.member_id, 2, &[]));
    let third = world.connect();
    world.send(third, JOIN, &join("", Some(follower.2)));
    let answered = world.received::<SyncGroupRequest>(follower.0, SYNC).expect("it is fenced");
    assert_eq!(error(answered.error_code), ErrorCode::FencedInstanceId);
    assert_eq!(state(&mut world), "PreparingRebalance", "what it was to get is not known yet");
}

#[test]
fn a_static_member_outlives_a_rebalance_but_not_its_session() {
    let mut world = world();
    let [(a, leader), _] = static_group(&mut world, ["i", "j"]);
    world.send(a, JOIN, &join(&leader, Some("i")));
    world.advance(Duration::from_millis(3_000));
    let alone = joined(&mut world, a);
    assert_eq!((alone.generation_id, alone.members.len()), (2, 2), "it may come back");
    assert_eq!(world.ask(a, SYNC, &sync(&leader, 2, &[])).error_code, 0);
    for _ in 0..3 {
        world.advance(Duration::from_millis(1_500));
        heartbeat_of(&mut world, a, &leader, "i", 2);
    }
    assert_eq!(heartbeat_of(&mut world, a, &leader, "i", 2), ErrorCode::RebalanceInProgress);
    let after = world.ask(a, JOIN, &join(&leader, Some("i")));
    assert_eq!((after.generation_id, after.members.len()), (3, 1));
    assert!(u64::from(SESSION_MS as u32) < 3_000 + 3 * 1_500);
}

#[test]
fn leavers_have_an_outcome_each() {
    let mut world = world();
    let [(a, leader), _, (_, third)] = static_group(&mut world, ["i", "j", "k"]);
    let client = world.connect();
    let pending = new_member(&mut world, client);
    let outcomes = leave(
        &mut world,
        client,
        &[
            ("", Some("j")),
            ("", Some("j")),
            (&third, Some("j")),
            (&leader, Some("k")),
            ("", Some("nobody")),
            ("nobody", None),
            ("", None),
            (&pending, None),
            (&pending, None),
            (&third, Some("k")),
        ],
    );
    let (done, unknown, fenced) = (ErrorCode::None, ErrorCode::UnknownMemberId, ErrorCode::FencedInstanceId);
    assert_eq!(outcomes, [done, unknown, unknown, fenced, unknown, unknown, unknown, done, unknown, done]);
    assert_eq!(heartbeat_of(&mut world, a, &leader, "i", 1), ErrorCode::RebalanceInProgress);
    let alone = world.ask(a, JOIN, &join(&leader, Some("i")));
    assert_eq!((alone.generation_id, alone.members.len()), (2, 1));
    let refused = LeaveGroupRequest::default().with_group_id(GroupId(text("")));
    assert_eq!(error(world.ask(client, 5, &refused).error_code), ErrorCode::InvalidGroupId);
}

#[test]
fn a_member_that_leaves_is_not_waited_for() {
    let mut world = world();
    let [(a, first), (b, second)] = pair(&mut world);
    world.send(a, JOIN, &join(&first, None));
    assert!(world.received::<JoinGroupRequest>(a, JOIN).is_none());
    assert_eq!(leave(&mut world, b, &[(&second, None)]), [ErrorCode::None]);
    assert_eq!(joined(&mut world, a).members.len(), 1, "it was the last who was missing");

    // Nor an id that was given out and not used.
    assert_eq!(synced(&mut world, a, &first, 3), ErrorCode::None);
    let client = world.connect();
    let pending = new_member(&mut world, client);
    world.send(a, JOIN, &join(&first, None));
    assert!(world.received::<JoinGroupRequest>(a, JOIN).is_none(), "whoever was told an id is on their way");
    assert_eq!(leave(&mut world, client, &[(&pending, None)]), [ErrorCode::None]);
    assert_eq!(joined(&mut world, a).members.len(), 1);
}

#[test]
fn without_known_ids_a_member_is_in_at_once() {
    let mut world = world();
    let client = world.connect();
    world.send(client, 3, &join("", None));
    world.advance(Duration::from_millis(1));
    let joined = world.received::<JoinGroupRequest>(client, 3).unwrap();
    assert_eq!((joined.error_code, joined.generation_id, joined.members.len()), (0, 1, 1));
    // Before v1, the session's timeout is the rebalance's.
    let other = world.connect();
    world.send(other, 0, &join("", None).with_rebalance_timeout_ms(0));
    assert!(world.received::<JoinGroupRequest>(other, 0).is_none());
    world.advance(Duration::from_millis(SESSION_MS as u64));
    assert_eq!(world.received::<JoinGroupRequest>(other, 0).unwrap().error_code, 0);
}

/// Bytes that mean nothing, and that other bytes would be told from.
fn noise(length: usize, seed: u8) -> Bytes {
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// Has the pair join again, and the leader assign so many bytes to each; gives what both are answered.
fn assigned(world: &mut World, pair: &[(ConnectionId, String); 2], length: usize) -> [SyncGroupResponse; 2] {
    let [(a, first), (b, second)] = pair;
    world.send(*a, JOIN, &join(first, None));
    let follower = world.ask(*b, JOIN, &join(second, None));
    let leader = joined(world, *a);
    assert_eq!((leader.error_code, leader.members.len()), (0, 2));
    let given = [(first, 1), (second, 2)].map(|(member, seed)| {
        let assignment = SyncGroupRequestAssignment::default().with_member_id(text(member));
        assignment.with_assignment(noise(length, seed))
    });
    world.send(*b, SYNC, &sync(second, follower.generation_id, &[]));
    let by_leader = sync(first, leader.generation_id, &[]).with_assignments(given.to_vec());
    let mine = world.ask(*a, SYNC, &by_leader);
    [mine, world.received::<SyncGroupRequest>(*b, SYNC).expect("who syncs hears it with the leader")]
}

#[test]
fn assignments_come_back_byte_for_byte() {
    let mut world = world();
    let pair = pair(&mut world);
    for length in [0, 1, 17, 400_000] {
        let answers = assigned(&mut world, &pair, length);
        assert_eq!(answers.each_ref().map(|answer| answer.error_code), [0, 0]);
        assert_eq!(answers[0].assignment, noise(length, 1));
        assert_eq!(answers[1].assignment, noise(length, 2));
    }
}

/// How many bytes the last batch has that was written for the group "g".
fn last_batch_of_g(world: &mut World) -> usize {
    let client = world.connect();
    let partition = i32::from(b'g') % 50;
    let mut at = |offset: i64| -> FetchResponse {
        world.ask(client, FETCH, &fetch("__consumer_offsets", partition, offset).with_max_wait_ms(0))
    };
    let end = at(0).responses[0].partitions[0].high_watermark;
    at(end - 1).responses[0].partitions[0].records.as_ref().unwrap().len()
}

/// The largest batch that Apache Kafka 4.1.0 was seen to write to `__consumer_offsets`; one byte more failed.
const LARGEST_BATCH: usize = 1_048_527;

#[test]
fn assignments_that_no_batch_takes_fail_the_syncs_and_all_begin_again() {
    let mut world = world();
    let pair = pair(&mut world);
    assigned(&mut world, &pair, 400_000);
    let most = LARGEST_BATCH - (last_batch_of_g(&mut world) - 2 * 400_000);
    for (length, error) in [
        (most / 2 - 1, ErrorCode::None),
        (most / 2 + 1, ErrorCode::UnknownServerError),
        (1 << 20, ErrorCode::UnknownServerError),
    ] {
        let answers = assigned(&mut world, &pair, length);
        assert_eq!(answers.each_ref().map(|answer| answer.error_code), [error.code(); 2], "{length}");
        let given = if error.is_error() { 0 } else { length };
        assert!(answers.iter().all(|answer| answer.assignment.len() == given));
        let expected = if error.is_error() { "PreparingRebalance" } else { "Stable" };
        assert_eq!(state(&mut world), expected);
    }
    let answers = assigned(&mut world, &pair, 17);
    assert_eq!(answers.map(|answer| answer.error_code), [0, 0]);
}

#[test]
fn a_commit_that_no_batch_takes_fails_as_a_whole() {
    let mut world = world();
    world.create_topic("0123456789", 1, &[]);
    let client = world.connect();
    // The same partition over and over, each time with a record of its own.
    for (group, count, expected) in
        [("of-13-letters", 251, ErrorCode::None), ("as-many-again", 252, ErrorCode::UnknownServerError)]
    {
        let rows = (0..count).map(|at| {
            let metadata = "m".repeat(4_096);
            let row = OffsetCommitRequestPartition::default().with_committed_offset(at);
            row.with_committed_metadata(Some(StrBytes::from_string(metadata)))
        });
        let topic = OffsetCommitRequestTopic::default().with_name(topic("0123456789"));
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text(group)))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(vec![topic.with_partitions(rows.collect())]);
        let response = world.ask(client, 8, &request);
        let answers = &response.topics[0].partitions;
        assert!(answers.iter().all(|answer| error(answer.error_code) == expected), "{group}");
        let state = if expected.is_error() { "Dead" } else { "Empty" };
        assert_eq!(told(&mut world, group)[0].1, state);
    }
}

#[test]
fn who_subscribes_to_garbage_disturbs_nobody() {
    let mut world = world();
    let [(a, first), (b, second)] = pair(&mut world);
    let poison = [&[0, 1, 255, 255, 255, 255][..], &[], &[255; 64], &[127, 255, 255, 255, 255, 255, 255]];
    for (at, metadata) in poison.into_iter().enumerate() {
        let name = GroupId(text(&format!("poison{at}")));
        let protocol = JoinGroupRequestProtocol::default().with_name(text("range"));
        let protocol = protocol.with_metadata(Bytes::copy_from_slice(metadata));
        let client = world.connect();
        let request = join("", Some("i")).with_group_id(name.clone()).with_protocols(vec![protocol]);
        world.send(client, JOIN, &request);
        world.advance(Duration::from_millis(1));
        let member = joined(&mut world, client);
        assert_eq!((member.error_code, &member.members[0].metadata[..]), (0, metadata));
        let request = sync(&member.member_id, 1, &[(&member.member_id, &[255])]).with_group_id(name.clone());
        assert_eq!(world.ask(client, SYNC, &request).error_code, 0);
        let described = DescribeGroupsRequest::default().with_groups(vec![name]);
        let described = world.ask(client, 5, &described).groups.remove(0);
        assert_eq!((described.error_code, described.group_state.as_str()), (0, "Stable"));
        assert_eq!(&described.members[0].member_metadata[..], metadata);
        assert_eq!(heartbeat(&mut world, a, &first, 2), ErrorCode::None);
        assert_eq!(heartbeat(&mut world, b, &second, 2), ErrorCode::None);
    }
    assert_eq!(world.ask(a, 5, &ListGroupsRequest::default()).groups.len(), 1 + 4);
}

/// How each version tells of a group: its error and state.
fn told(world: &mut World, name: &str) -> Vec<(ErrorCode, String)> {
    let client = world.connect();
    let request = DescribeGroupsRequest::default().with_groups(vec![GroupId(text(name))]);
    let versions = (0..=6).map(|version| {
        let response: DescribeGroupsResponse = world.ask(client, version, &request);
        (error(response.groups[0].error_code), response.groups[0].group_state.to_string())
    });
    versions.collect()
}

#[test]
fn every_version_tells_of_groups_however_they_came_about() {
    let mut world = world();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let named = |name: &str| GroupId(text(name));
    // "g" has members, of "left" the only one has left, and for "committed" there has never been any.
    pair(&mut world);
    world.send(client, JOIN, &join("", Some("i")).with_group_id(named("left")));
    world.advance(Duration::from_millis(1));
    let member = joined(&mut world, client).member_id;
    let leaver = MemberIdentity::default().with_member_id(member);
    let leaves = LeaveGroupRequest::default().with_group_id(named("left")).with_members(vec![leaver]);
    assert_eq!(world.ask(client, 5, &leaves).members[0].error_code, 0);
    let offset = commit("", -1, 5).with_group_id(named("committed"));
    assert_eq!(world.ask::<OffsetCommitRequest>(client, 8, &offset).topics[0].partitions[0].error_code, 0);

    let all = |state: &str| vec![(ErrorCode::None, state.to_owned()); 7];
    assert_eq!(told(&mut world, "g"), all("Stable"));
    assert_eq!(told(&mut world, "left"), all("Empty"));
    assert_eq!(told(&mut world, "committed"), all("Empty"));
    let mut gone = all("Dead");
    gone[6].0 = ErrorCode::GroupIdNotFound;
    assert_eq!(told(&mut world, "nobody"), gone);

    let list = |world: &mut World, states: &[&str], types: &[&str]| {
        let texts = |words: &[&str]| words.iter().map(|word| text(word)).collect();
        let request = ListGroupsRequest::default();
        let request = request.with_states_filter(texts(states)).with_types_filter(texts(types));
        let mut rows: Vec<(String, String)> = world
            .ask(client, 5, &request)
            .groups
            .into_iter()
            .map(|group| (group.group_id.to_string(), group.protocol_type.to_string()))
            .collect();
        rows.sort();
        rows
    };
    let pairs = |rows: &[(&str, &str)]| -> Vec<(String, String)> {
        rows.iter().map(|(name, kind)| ((*name).to_owned(), (*kind).to_owned())).collect()
    };
    let empty = pairs(&[("committed", ""), ("left", "consumer")]);
    assert_eq!(list(&mut world, &["empty"], &[]), empty);
    assert_eq!(list(&mut world, &["Stable"], &["CLASSIC"]), pairs(&[("g", "consumer")]));
    assert_eq!(list(&mut world, &[], &["classic"]).len(), 3);
    assert_eq!(list(&mut world, &["Empty", "Stable"], &["consumer"]), []);
    assert_eq!(list(&mut world, &["Dead"], &[]), []);

    let names = ["g", "left", "committed", "nobody"].map(named).to_vec();
    let deleted = world.ask(client, 2, &DeleteGroupsRequest::default().with_groups_names(names));
    let deleted: Vec<_> = deleted.results.iter().map(|group| error(group.error_code)).collect();
    let unknown = ErrorCode::GroupIdNotFound;
    assert_eq!(deleted, [ErrorCode::NonEmptyGroup, ErrorCode::None, ErrorCode::None, unknown]);
    assert_eq!(told(&mut world, "left"), gone);
    assert_eq!(list(&mut world, &[], &[]).len(), 1);
}
