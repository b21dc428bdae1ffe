//! Groups of the consumer protocol whose coordinator goes while their members are on their way to a target.

use kafka_protocol::messages::{
    ConsumerGroupDescribeRequest, DescribeGroupsRequest, FindCoordinatorRequest, JoinGroupRequest,
    JoinGroupResponse, SyncGroupRequest,
};

use super::consumer_groups::{Member, error, group, names};
use super::groups::{JOIN, join, new_member, sync, text};
use super::*;
use crate::base::ErrorCode;

/// The coordinator of the group by now.
fn coordinator(world: &mut World, asked: i32) -> i32 {
    let client = world.connect_to(asked);
    let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text("g")]);
    let found = world.ask(client, 4, &request);
    assert_eq!(found.coordinators[0].error_code, 0);
    found.coordinators[0].node_id.0
}

fn member_at(world: &mut World, broker: i32, id: &'static str) -> Member {
    Member { client: world.connect_to(broker), id, epoch: 0, assigned: Vec::new() }
}

/// State, group epoch and target epoch, by the word of a broker.
fn state_at(world: &mut World, broker: i32) -> (String, i32, i32) {
    let client = world.connect_to(broker);
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group()]);
    let row = world.ask(client, 1, &request).groups.remove(0);
    assert_eq!(row.error_code, 0, "{:?}", row.error_message);
    (row.group_state.to_string(), row.group_epoch, row.assignment_epoch)
}

/// Three brokers and a group of two whose topic has four partitions: `a` has all of them and has not heard yet that it
/// must give up two for `b`. Its coordinator dies; the world, the members and the next coordinator.
fn in_the_middle(a_has_heard: bool) -> (World, Member, Member, i32) {
    let mut world = World::of_brokers(3, &[]);
    world.create_topic("t", 4, &[]);
    let first = coordinator(&mut world, 1);
    let mut a = member_at(&mut world, first, "a");
    assert_eq!(error(&a.join(&mut world, &["t"])), ErrorCode::None);
    let mut b = member_at(&mut world, first, "b");
    assert_eq!(error(&b.join(&mut world, &["t"])), ErrorCode::None);
    assert_eq!((a.count(), b.count(), b.epoch), (4, 0, 2));
    if a_has_heard {
        assert_eq!(error(&a.beat(&mut world)), ErrorCode::None);
        assert_eq!((a.count(), a.epoch), (2, 1), "it is to give up two, at its old epoch");
    }
    world.command(Command::KillBroker(NodeId(first))).unwrap();
    world.advance(Duration::from_secs(10));
    let next = coordinator(&mut world, first % 3 + 1);
    assert_ne!(next, first);
    a.client = world.connect_to(next);
    b.client = world.connect_to(next);
    (world, a, b, next)
}

#[test]
fn the_next_coordinator_goes_on_with_what_members_give_up() {
    for a_has_heard in [false, true] {
        let (mut world, mut a, mut b, next) = in_the_middle(a_has_heard);
        assert_eq!(state_at(&mut world, next), ("Reconciling".to_owned(), 2, 2));
        assert_eq!(
            (error(&b.beat(&mut world)), b.count(), b.epoch),
            (ErrorCode::None, 0, 2),
            "a has them still"
        );
        if !a_has_heard {
            assert_eq!(error(&a.beat(&mut world)), ErrorCode::None);
            assert_eq!((a.count(), a.epoch), (2, 1));
        }
        assert_eq!((error(&a.beat(&mut world)), a.epoch), (ErrorCode::None, 2), "it has given up two");
        b.beat(&mut world);
        assert_eq!((a.count(), b.count()), (2, 2));
        let mut all = a.partitions();
        all.extend(b.partitions());
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
        assert_eq!(state_at(&mut world, next), ("Stable".to_owned(), 2, 2));
    }
}

#[test]
fn the_next_coordinator_knows_who_has_to_give_up_and_by_when() {
    let (mut world, mut a, mut b, next) = in_the_middle(true);
    // Its rebalance timeout, 20 s, begins anew; it lives, and clings to what it had.
    let clung = a.request().with_topic_partitions(None);
    for _ in 0..2 {
        world.advance(Duration::from_secs(5));
        a.client = world.connect_to(next);
        assert_eq!(error(&a.ask(&mut world, &clung)), ErrorCode::None);
        assert_eq!(error(&b.beat(&mut world)), ErrorCode::None);
    }
    assert_eq!(b.count(), 0);
    world.advance(Duration::from_secs(11));
    assert_eq!(error(&a.ask(&mut world, &clung)), ErrorCode::UnknownMemberId, "its time is over");
    b.beat(&mut world);
    assert_eq!((b.count(), b.epoch), (4, 3));
}

#[test]
fn sessions_begin_anew_under_the_next_coordinator() {
    let (mut world, _, mut b, next) = in_the_middle(false);
    for _ in 0..6 {
        world.advance(Duration::from_secs(8));
        assert_eq!(error(&b.beat(&mut world)), ErrorCode::None);
    }
    assert_eq!((b.count(), b.epoch), (4, 3), "a has said nothing to it for 45 s");
    // What the log has of epochs holds: from the past and from the future.
    for epoch in [1, 4, 99] {
        let request = b.request().with_member_epoch(epoch);
        assert_eq!(error(&world.ask(b.client, 1, &request)), ErrorCode::FencedMemberEpoch, "{epoch}");
    }
    let mut c = member_at(&mut world, next, "c");
    let request = c.joining().with_subscribed_topic_names(Some(names(&["t"])));
    assert_eq!(error(&c.ask(&mut world, &request)), ErrorCode::None);
    assert_eq!(c.epoch, 4);
}

#[test]
fn topics_that_change_while_nobody_coordinates_are_noticed() {
    use kafka_protocol::messages::CreatePartitionsRequest;
    use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
    let (mut world, mut a, mut b, next) = in_the_middle(true);
    a.beat(&mut world);
    b.beat(&mut world);
    let more = CreatePartitionsTopic::default().with_name(topic("t")).with_count(6).with_assignments(None);
    let more = CreatePartitionsRequest::default().with_topics(vec![more]).with_timeout_ms(1_000);
    let client = world.connect_to(next);
    assert_eq!(world.ask(client, 3, &more).results[0].error_code, 0);
    a.beat(&mut world);
    b.beat(&mut world);
    assert_eq!((a.count(), b.count(), a.epoch, b.epoch), (3, 3, 3, 3));
}

/// Three brokers, of which all but one take one member into a classic group.
fn world_of_small_groups_but_at(broker: i32) -> World {
    use crate::controller::configs::Overrides;
    let node = |id: i32| NodeConfig {
        id: NodeId(id),
        rack: None,
        endpoints: vec![ListenerEndpoint {
            listener: "PLAINTEXT".into(),
            host: None,
            port: 9091 + id as u16,
        }],
        configs: match id == broker {
            true => Overrides::default(),
            false => Overrides::parse(Resource::Broker, [("group.max.size", "1")]).unwrap(),
        },
    };
    World::of(ClusterConfig { nodes: (1..=3).map(node).collect(), ..ClusterConfig::default() })
}

#[test]
fn a_coordinator_that_allows_fewer_members_has_those_join_anew_whom_it_takes_over() {
    let first = coordinator(&mut World::of_brokers(3, &[]), 1);
    let mut world = world_of_small_groups_but_at(first);
    assert_eq!(coordinator(&mut world, 1), first);
    let clients = [world.connect_to(first), world.connect_to(first)];
    let ids = clients.map(|client| new_member(&mut world, client));
    for (client, id) in clients.iter().zip(&ids) {
        world.send(*client, JOIN, &join(id, None));
    }
    world.advance(Duration::from_millis(1));
    let joined = clients.map(|client| world.received::<JoinGroupRequest>(client, JOIN).unwrap());
    let leader = usize::from(joined[1].leader == joined[1].member_id);
    for at in [leader, 1 - leader] {
        let request = sync(&ids[at], 1, &[(&ids[0], b"one"), (&ids[1], b"two")]);
        assert_eq!(world.ask::<SyncGroupRequest>(clients[at], 5, &request).error_code, 0);
    }

    world.command(Command::StopBroker(NodeId(first))).unwrap();
    let next = coordinator(&mut world, first % 3 + 1);
    let clients = [world.connect_to(next), world.connect_to(next)];
    let describe = DescribeGroupsRequest::default().with_groups(vec![group()]);
    let state = |world: &mut World| world.ask(clients[0], 5, &describe).groups[0].group_state.to_string();
    assert_eq!(state(&mut world), "PreparingRebalance");
    world.send(clients[0], JOIN, &join(&ids[0], None));
    let refused: JoinGroupResponse = world.ask(clients[1], JOIN, &join(&ids[1], None));
    assert_eq!(refused.error_code, ErrorCode::GroupMaxSizeReached.code());
    world.advance(Duration::from_secs(3));
    let alone = world.received::<JoinGroupRequest>(clients[0], JOIN).expect("it has joined");
    assert_eq!((alone.error_code, alone.generation_id, alone.members.len()), (0, 2, 1));
}
