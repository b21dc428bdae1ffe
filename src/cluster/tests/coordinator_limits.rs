//! How much coordinators remember at most: who comes beyond it is refused with a reason, and whoever is there goes on.

use kafka_protocol::messages::{
    DeleteGroupsRequest, GroupId, InitProducerIdRequest, OffsetCommitRequest, TransactionalId,
};

use super::consumer_groups::{Member, error};
use super::groups::{JOIN, join, text, world_with};
use super::transactions::find_coordinator;
use super::*;
use crate::base::ErrorCode;

const FULL: i16 = ErrorCode::GroupMaxSizeReached.code();

#[test]
fn the_groups_of_a_broker_have_so_many_members_and_no_more() {
    let mut world = world_with(&[("huld.max.group.members", "3")]);
    world.create_topic("t", 2, &[]);
    let mut a = Member::joined(&mut world, "a", &["t"]);
    Member::joined(&mut world, "b", &["t"]);
    // Whose id was given out counts, be it that they never come.
    let client = world.connect();
    let other = |id: &str| join(id, None).with_group_id(GroupId(text("other")));
    let pending = world.ask(client, JOIN, &other(""));
    assert_eq!(pending.error_code, ErrorCode::MemberIdRequired.code());

    assert_eq!(world.ask(client, JOIN, &other("")).error_code, FULL);
    let mut c = Member::new(&mut world, "c");
    let refused = c.join(&mut world, &["t"]);
    assert_eq!(error(&refused), ErrorCode::GroupMaxSizeReached);
    assert!(refused.error_message.unwrap().contains("huld.max.group.members"));
    // Those who are there live on, begin anew and come with their ids.
    assert_eq!(error(&a.beat(&mut world)), ErrorCode::None);
    assert_eq!(error(&a.join(&mut world, &["t"])), ErrorCode::None);
    world.send(client, JOIN, &other(&pending.member_id));
    world.advance(Duration::from_millis(1));
    assert_eq!(
        world.received::<kafka_protocol::messages::JoinGroupRequest>(client, JOIN).unwrap().error_code,
        0
    );

    assert_eq!(error(&a.leave(&mut world)), ErrorCode::None);
    assert_eq!(error(&c.join(&mut world, &["t"])), ErrorCode::None, "there is room again");
}

#[test]
fn a_broker_coordinates_so_many_groups_and_no_more() {
    let mut world = world_with(&[("huld.max.groups", "2")]);
    world.create_topic("t", 1, &[]);
    let mut member = Member::joined(&mut world, "a", &["t"]);
    let client = world.connect();
    let commit = |world: &mut World, group: &str| {
        let request = super::consumer_groups::commit("", -1).with_group_id(GroupId(text(group)));
        let response = world.ask::<OffsetCommitRequest>(client, 9, &request);
        ErrorCode::from_code(response.topics[0].partitions[0].error_code).unwrap()
    };
    assert_eq!(commit(&mut world, "second"), ErrorCode::None);
    assert_eq!(commit(&mut world, "third"), ErrorCode::PolicyViolation);
    let third = join("", None).with_group_id(GroupId(text("third")));
    assert_eq!(world.ask(client, JOIN, &third).error_code, FULL);
    let mut other = Member::new(&mut world, "b");
    let request = other.joining().with_group_id(GroupId(text("third")));
    let request = request.with_subscribed_topic_names(Some(super::consumer_groups::names(&["t"])));
    assert_eq!(error(&other.ask(&mut world, &request)), ErrorCode::GroupMaxSizeReached);

    assert_eq!(commit(&mut world, "second"), ErrorCode::None);
    assert_eq!(error(&member.beat(&mut world)), ErrorCode::None);
    assert_eq!(error(&other.join(&mut world, &["t"])), ErrorCode::None, "it joins a group that is there");
    let delete = DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text("second"))]);
    assert_eq!(world.ask(client, 2, &delete).results[0].error_code, 0);
    assert_eq!(commit(&mut world, "third"), ErrorCode::None, "there is room again");
}

#[test]
fn a_broker_coordinates_so_many_transactional_ids_and_no_more() {
    let mut world = World::with(&[
        ("huld.max.transactional.ids", "2"),
        ("transactional.id.expiration.ms", "60000"),
        ("transaction.remove.expired.transaction.cleanup.interval.ms", "10000"),
    ]);
    let client = world.connect();
    find_coordinator(&mut world, client, "a");
    let init = |world: &mut World, id: &'static str, timeout_ms: i32| {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(TransactionalId(StrBytes::from_static_str(id))))
            .with_transaction_timeout_ms(timeout_ms);
        ErrorCode::from_code(world.ask(client, 4, &request).error_code).unwrap()
    };
    for id in ["a", "b"] {
        assert_eq!(init(&mut world, id, 1_000), ErrorCode::None);
    }
    assert_eq!(init(&mut world, "c", 1_000), ErrorCode::PolicyViolation);
    assert_eq!(
        init(&mut world, "c", -1),
        ErrorCode::InvalidTransactionTimeout,
        "what is wrong in itself comes first"
    );
    assert_eq!(init(&mut world, "a", 1_000), ErrorCode::None);
    world.advance(Duration::from_secs(71));
    assert_eq!(init(&mut world, "c", 1_000), ErrorCode::None, "the others have been forgotten");
}
