//! Answers of groups' coordinators that come once what they tell of is committed, and not before.

use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    HeartbeatRequest, LeaveGroupRequest, LeaveGroupResponse, OffsetCommitRequest,
};

use super::consumer_groups::{Member, describe, error, group, names};
use super::groups::{pair, text, world};
use super::*;
use crate::base::ErrorCode;
use crate::coordinator::partition_for;

const LEAVE: i16 = 5;

/// Keeps what the group's coordinator writes from being committed, or lets it be.
fn pin(world: &mut World, pinned: bool) {
    let (topic, index) = ("__consumer_offsets".to_owned(), partition_for("g", 50));
    world.command(Command::PinHighWatermark { topic, index, pinned }).unwrap();
}

/// Member id and instance id.
type Leaver<'a> = (&'a str, Option<&'a str>);

fn leaving(leavers: &[Leaver<'_>]) -> LeaveGroupRequest {
    let members = leavers.iter().map(|(member, instance)| {
        MemberIdentity::default().with_member_id(text(member)).with_group_instance_id(instance.map(text))
    });
    LeaveGroupRequest::default().with_group_id(group()).with_members(members.collect())
}

fn outcomes(response: &LeaveGroupResponse) -> (i16, Vec<i16>) {
    (response.error_code, response.members.iter().map(|member| member.error_code).collect())
}

/// A consumer group of a static member (instance `i`) and a dynamic one.
fn consumer_group() -> World {
    let mut world = world();
    world.create_topic("t", 2, &[]);
    let mut fixed = Member::new(&mut world, "a");
    let joining =
        fixed.joining().with_instance_id(Some(text("i"))).with_subscribed_topic_names(Some(names(&["t"])));
    assert_eq!(error(&fixed.ask(&mut world, &joining)), ErrorCode::None);
    Member::joined(&mut world, "b", &["t"]);
    world
}

#[test]
fn who_leaves_a_consumer_group_by_leave_group_hears_it_once_it_is_committed() {
    for leaver in [("", Some("i")), ("a", Some("i")), ("b", None)] {
        let mut world = consumer_group();
        let client = world.connect();
        pin(&mut world, true);
        world.send(client, LEAVE, &leaving(&[leaver]));
        assert!(world.received::<LeaveGroupRequest>(client, LEAVE).is_none(), "{leaver:?}");
        pin(&mut world, false);
        let left = world.received::<LeaveGroupRequest>(client, LEAVE).expect("it is committed");
        assert_eq!(outcomes(&left), (0, vec![0]), "{leaver:?}");
        assert_eq!(describe(&mut world).members.len(), 1);
    }
}

#[test]
fn leavers_of_a_consumer_group_have_an_outcome_each() {
    let mut world = consumer_group();
    let client = world.connect();
    // As Apache Kafka 4.1.0 answers.
    let cases: [(&[Leaver<'_>], &[i16]); 5] = [
        (&[("x", None)], &[25]),
        (&[("", None)], &[25]),
        (&[("a", Some("j")), ("b", Some("i"))], &[25, 82]),
        (&[], &[]),
        (&[("", Some("i")), ("", Some("i")), ("x", None), ("b", None)], &[0, 0, 25, 0]),
    ];
    for (leavers, expected) in cases {
        assert_eq!(
            outcomes(&world.ask(client, LEAVE, &leaving(leavers))),
            (0, expected.to_vec()),
            "{leavers:?}"
        );
    }
    assert_eq!((&*describe(&mut world).group_state, describe(&mut world).members.len()), ("Empty", 0));
}

#[test]
fn leaving_that_is_not_committed_in_time_is_not_confirmed() {
    let mut world = consumer_group();
    let client = world.connect();
    pin(&mut world, true);
    world.send(client, LEAVE, &leaving(&[("b", None)]));
    world.advance(Duration::from_millis(4_999));
    assert!(world.received::<LeaveGroupRequest>(client, LEAVE).is_none());
    world.advance(Duration::from_millis(1));
    let late = world.received::<LeaveGroupRequest>(client, LEAVE).expect("5 s are over");
    assert_eq!(outcomes(&late), (ErrorCode::CoordinatorNotAvailable.code(), Vec::new()));
    // Who is told that others have gone by then waits too.
    world.send(client, LEAVE, &leaving(&[("b", None)]));
    assert!(world.received::<LeaveGroupRequest>(client, LEAVE).is_none());
    pin(&mut world, false);
    let again = world.received::<LeaveGroupRequest>(client, LEAVE).unwrap();
    assert_eq!(outcomes(&again), (0, vec![ErrorCode::UnknownMemberId.code()]));
}

#[test]
fn the_last_who_leaves_a_classic_group_hears_it_once_it_is_committed() {
    let mut world = world();
    let [(a, first), (_, second)] = pair(&mut world);
    pin(&mut world, true);
    let one = world.ask(a, LEAVE, &leaving(&[(&first, None)]));
    assert_eq!(outcomes(&one), (0, vec![0]), "nothing is written while somebody is left");
    world.send(a, LEAVE, &leaving(&[(&second, None)]));
    assert!(world.received::<LeaveGroupRequest>(a, LEAVE).is_none());
    pin(&mut world, false);
    assert_eq!(outcomes(&world.received::<LeaveGroupRequest>(a, LEAVE).unwrap()), (0, vec![0]));
}

#[test]
fn a_classic_heartbeat_waits_for_what_was_written_before_it() {
    let mut world = world();
    world.create_topic("t", 1, &[]);
    let [(a, first), (b, second)] = pair(&mut world);
    pin(&mut world, true);
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(5);
    let topic = OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let commit = OffsetCommitRequest::default()
        .with_group_id(group())
        .with_generation_id_or_member_epoch(2)
        .with_member_id(text(&first))
        .with_topics(vec![topic]);
    world.send(a, 8, &commit);
    let beat = |member: &str| {
        HeartbeatRequest::default().with_group_id(group()).with_generation_id(2).with_member_id(text(member))
    };
    world.send(b, 4, &beat(&second));
    assert!(world.received::<HeartbeatRequest>(b, 4).is_none());
    let stranger = world.connect();
    let refused = world.ask(stranger, 4, &beat("x"));
    assert_eq!(refused.error_code, ErrorCode::UnknownMemberId.code(), "errors come at once");
    pin(&mut world, false);
    assert_eq!(world.received::<OffsetCommitRequest>(a, 8).unwrap().topics[0].partitions[0].error_code, 0);
    assert_eq!(world.received::<HeartbeatRequest>(b, 4).unwrap().error_code, 0);
}
