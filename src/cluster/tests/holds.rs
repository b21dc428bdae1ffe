//! Requests that a user's rules hold, waits that are let go, high watermarks that stay put.

use super::groups::{heartbeat, pair};
use super::idempotence::sequenced;
use super::*;
use crate::base::ErrorCode;
use crate::faults::{FaultLimits, HoldError, HoldPoint, HoldRule};

const PRODUCE_KEY: i16 = 0;
const FETCH_KEY: i16 = 1;

fn world() -> (World, ConnectionId, ConnectionId) {
    let mut world = World::new();
    world.create_topic("t", 2, &[]);
    let (writer, reader) = (world.connect(), world.connect());
    (world, writer, reader)
}

fn rule(point: HoldPoint, api: i16) -> HoldRule {
    HoldRule { api: Some(api), ..HoldRule::new(point) }
}

fn before(api: i16) -> HoldRule {
    rule(HoldPoint::BeforeApply, api)
}

fn hold(world: &mut World, rule: HoldRule) -> HoldId {
    match world.command(Command::AddHold(rule)) {
        Ok(Done::HoldAdded(id)) => id,
        other => panic!("{other:?}"),
    }
}

/// The one wait there is.
fn only_wait(world: &mut World) -> WaitDescription {
    let mut waits = world.cluster.waits(world.now());
    assert_eq!(waits.len(), 1, "{waits:?}");
    waits.remove(0)
}

fn release(world: &mut World, wait: &WaitDescription) -> Result<Done, CommandError> {
    world.command(Command::Release { node: wait.node, serial: wait.id.serial() })
}

/// What a consumer finds in partition 0 now.
fn there(world: &mut World) -> Vec<(i64, String)> {
    let reader = world.connect();
    let response: FetchResponse = world.ask(reader, FETCH, &fetch("t", 0, 0).with_max_wait_ms(0));
    values(records_of(&response))
}

fn offset(response: &ProduceResponse) -> (i16, i64) {
    let row = &response.responses[0].partition_responses[0];
    (row.error_code, row.base_offset)
}

#[test]
fn held_before_it_is_applied_a_request_has_done_nothing() {
    let (mut world, writer, _) = world();
    let id = hold(&mut world, before(PRODUCE_KEY));
    world.now_ms = 5;
    world.send(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    assert!(there(&mut world).is_empty());
    let wait = only_wait(&mut world);
    assert_eq!((wait.kind, wait.hold, wait.connection), (Kind::Held, Some(id), Some(writer)));
    assert_eq!((wait.client_id.as_deref(), wait.peer.as_deref()), (Some("tester"), Some("127.0.0.1:50000")));
    assert_eq!((wait.waiter.since, wait.waiter.deadline), (Instant::from_millis(5), Instant::NEVER));
    assert_eq!(wait.description.waits_for, "hold 1");
    assert_eq!(wait.description.progress, "Produce, not applied yet");
    assert_eq!(world.cluster.metrics(Kind::Held).num_delayed_operations, 1);

    assert_eq!(release(&mut world, &wait), Ok(Done::Released(1)));
    assert_eq!(offset(&world.received::<ProduceRequest>(writer, PRODUCE).unwrap()), (0, 0));
    assert_eq!(there(&mut world), [(0, "a".to_owned())]);
    let gone = CommandError::NoSuchWait { node: NodeId(1), serial: wait.id.serial() };
    assert_eq!(release(&mut world, &wait), Err(gone), "a wait ends once");
    assert_eq!(world.cluster.metrics(Kind::Held).released, 1);
}

#[test]
fn held_after_it_is_applied_a_request_has_done_its_work() {
    let (mut world, writer, _) = world();
    let id = hold(&mut world, rule(HoldPoint::AfterApply, PRODUCE_KEY));
    world.send(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    assert_eq!(there(&mut world), [(0, "a".to_owned())]);
    assert!(world.received::<ProduceRequest>(writer, PRODUCE).is_none());
    assert_eq!(only_wait(&mut world).description.progress, "Produce, applied, the answer is kept back");
    assert_eq!(world.command(Command::ReleaseHold(id)), Ok(Done::Released(1)));
    assert_eq!(offset(&world.received::<ProduceRequest>(writer, PRODUCE).unwrap()), (0, 0));
    assert_eq!(there(&mut world).len(), 1, "once");
}

#[test]
fn an_answer_that_is_thrown_away_takes_the_connection_along() {
    let (mut world, writer, _) = world();
    hold(&mut world, HoldRule { count: Some(1), ..rule(HoldPoint::AfterApplyThenDisconnect, PRODUCE_KEY) });
    world.send(writer, PRODUCE, &produce("t", 0, sequenced(7, 0, 0, &["a"]), -1));
    assert_eq!((world.closed.as_slice(), world.frames.len()), ([writer].as_slice(), 0));
    world.disconnect(writer);
    assert!(world.cluster.waits(world.now()).is_empty());
    // An idempotent producer sends it again, and hears of the first time.
    let again = world.connect();
    let response = world.ask(again, PRODUCE, &produce("t", 0, sequenced(7, 0, 0, &["a"]), -1));
    assert_eq!((offset(&response), there(&mut world).len()), ((0, 0), 1));
}

#[test]
fn a_client_that_goes_takes_what_is_held_along() {
    for point in [HoldPoint::BeforeApply, HoldPoint::AfterApply] {
        let (mut world, writer, _) = world();
        let id = hold(&mut world, rule(point, PRODUCE_KEY));
        world.send(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
        world.disconnect(writer);
        assert!(world.cluster.waits(world.now()).is_empty());
        assert_eq!(world.command(Command::RemoveHold(id)), Ok(Done::Released(0)));
        let applied = usize::from(point == HoldPoint::AfterApply);
        assert_eq!((there(&mut world).len(), world.frames.len()), (applied, 0), "{point:?}");
    }
}

#[test]
fn a_request_that_waits_by_itself_is_held_once_it_is_answered() {
    let (mut world, writer, reader) = world();
    let after = |point| HoldRule { count: Some(1), ..rule(point, FETCH_KEY) };
    hold(&mut world, after(HoldPoint::AfterApply));
    hold(&mut world, after(HoldPoint::AfterApplyThenDisconnect));
    world.send(reader, FETCH, &fetch("t", 0, 0));
    assert_eq!(only_wait(&mut world).kind, Kind::Fetch);
    world.advance(Duration::from_millis(499));
    world.ask(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    let wait = only_wait(&mut world);
    assert_eq!((wait.kind, wait.waiter.since), (Kind::Held, Instant::from_millis(499)));
    world.advance(Duration::from_secs(60));
    assert!(world.received::<FetchRequest>(reader, FETCH).is_none(), "its own time doesn't count now");
    release(&mut world, &wait).unwrap();
    let response = world.received::<FetchRequest>(reader, FETCH).unwrap();
    assert_eq!(values(records_of(&response)), [(0, "a".to_owned())]);

    world.send(reader, FETCH, &fetch("t", 0, 1));
    assert!(world.closed.is_empty(), "it is closed when the answer is there");
    world.advance(Duration::from_millis(500));
    assert_eq!(world.closed, [reader]);
}

#[test]
fn a_request_may_be_held_before_and_after() {
    let (mut world, writer, _) = world();
    hold(&mut world, before(PRODUCE_KEY));
    hold(&mut world, before(PRODUCE_KEY));
    hold(&mut world, rule(HoldPoint::AfterApply, PRODUCE_KEY));
    world.send(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    for (hold, applied) in [(HoldId(1), 0), (HoldId(3), 1)] {
        let wait = only_wait(&mut world);
        assert_eq!((wait.hold, there(&mut world).len()), (Some(hold), applied));
        release(&mut world, &wait).unwrap();
    }
    assert!(world.received::<ProduceRequest>(writer, PRODUCE).is_some());
}

#[test]
fn what_has_no_answer_is_held_too() {
    for point in [HoldPoint::BeforeApply, HoldPoint::AfterApply] {
        let (mut world, writer, _) = world();
        let id = hold(&mut world, HoldRule { count: Some(1), ..rule(point, PRODUCE_KEY) });
        world.send(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 0));
        assert_eq!(only_wait(&mut world).hold, Some(id));
        world.command(Command::RemoveHold(id)).unwrap();
        assert_eq!((there(&mut world).len(), world.frames.len()), (1, 0), "{point:?}");
        let next = world.ask(writer, PRODUCE, &produce("t", 0, batch(&["b"], 1), 1));
        assert_eq!(offset(&next), (0, 1));
    }
}

#[test]
fn a_time_limit_lets_go_by_itself() {
    let (mut world, writer, _) = world();
    let time_limit = Some(Duration::from_secs(2));
    hold(&mut world, HoldRule { time_limit, ..before(PRODUCE_KEY) });
    hold(&mut world, HoldRule { time_limit, ..rule(HoldPoint::AfterApply, PRODUCE_KEY) });
    world.send(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    assert_eq!(only_wait(&mut world).waiter.deadline, Instant::from_millis(2_000));
    world.advance(Duration::from_millis(1_999));
    assert!(there(&mut world).is_empty());
    world.advance(Duration::from_millis(1));
    assert_eq!(there(&mut world).len(), 1);
    world.advance(Duration::from_millis(1_999));
    assert!(world.received::<ProduceRequest>(writer, PRODUCE).is_none());
    world.advance(Duration::from_millis(1));
    assert!(world.received::<ProduceRequest>(writer, PRODUCE).is_some());
    assert_eq!(world.cluster.metrics(Kind::Held).expired, 2);
}

#[test]
fn topics_are_known_by_name_by_id_and_in_fetch_sessions() {
    let (mut world, writer, reader) = world();
    world.create_topic("other", 1, &[]);
    let of = |api, topic: &str| HoldRule { topic: Some(topic.into()), ..before(api) };
    hold(&mut world, of(PRODUCE_KEY, "t"));
    assert_eq!(error_of(&world.ask(writer, PRODUCE, &produce("other", 0, batch(&["a"], 1), 1))), 0);
    let mut by_id = produce("other", 0, batch(&["a"], 1), 1);
    let id = |world: &World, name: &str| world.cluster.controller().topics().by_name(name).unwrap().id;
    by_id.topic_data[0].name = topic("");
    by_id.topic_data[0].topic_id = id(&world, "other").into();
    assert_eq!(error_of(&world.ask(writer, 13, &by_id)), 0);
    by_id.topic_data[0].topic_id = id(&world, "t").into();
    world.send(writer, 13, &by_id);
    assert_eq!(only_wait(&mut world).connection, Some(writer));
    world.disconnect(writer);

    // A session's later requests name nothing, but are about its partitions.
    let request = fetch("t", 0, 0).with_session_epoch(0).with_max_wait_ms(0);
    let full: FetchResponse = world.ask(reader, FETCH, &request);
    hold(&mut world, of(FETCH_KEY, "other"));
    let next = |epoch| {
        let next = fetch("t", 0, 0).with_topics(Vec::new()).with_max_wait_ms(0);
        next.with_session_id(full.session_id).with_session_epoch(epoch)
    };
    world.ask(reader, FETCH, &next(1));
    hold(&mut world, of(FETCH_KEY, "t"));
    world.send(reader, FETCH, &next(2));
    assert_eq!(only_wait(&mut world).connection, Some(reader));
}

#[test]
fn groups_and_clients_are_known() {
    let mut world = super::groups::world();
    let [(leader, member), (..)] = pair(&mut world);
    let of = |group: &str, client_id: &str| HoldRule {
        group: Some(group.into()),
        client_id: Some(client_id.into()),
        ..HoldRule::new(HoldPoint::BeforeApply)
    };
    hold(&mut world, of("h", "tester"));
    hold(&mut world, of("g", "another"));
    assert_eq!(heartbeat(&mut world, leader, &member, 2), ErrorCode::None);
    let id = hold(&mut world, of("g", "tester"));
    let request = kafka_protocol::messages::HeartbeatRequest::default()
        .with_group_id(kafka_protocol::messages::GroupId(StrBytes::from_static_str("g")))
        .with_generation_id(2)
        .with_member_id(super::groups::text(&member));
    world.send(leader, 4, &request);
    assert!(world.cluster.waits(world.now()).iter().any(|wait| wait.hold == Some(id)));
    // Its session runs on meanwhile, and is over when the heartbeat is let through.
    world.advance(Duration::from_secs(7));
    world.command(Command::RemoveHold(id)).unwrap();
    let response = world.received::<kafka_protocol::messages::HeartbeatRequest>(leader, 4).unwrap();
    assert_eq!(response.error_code, ErrorCode::UnknownMemberId.code());
}

#[test]
fn so_many_requests_are_held_and_no_more() {
    let limits = FaultLimits { max_rules: 1, max_held: 2, ..FaultLimits::default() };
    let mut world = World::of(ClusterConfig { fault_limits: limits, ..ClusterConfig::default() });
    world.create_topic("t", 1, &[]);
    hold(&mut world, before(PRODUCE_KEY));
    let refused = world.command(Command::AddHold(before(PRODUCE_KEY)));
    assert_eq!(refused, Err(CommandError::Hold(HoldError::TooManyRules { max: 1 })));
    let clients: Vec<ConnectionId> = (0..3).map(|_| world.connect()).collect();
    for client in &clients {
        world.send(*client, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    }
    assert_eq!(world.cluster.waits(world.now()).len(), 2);
    assert!(world.received::<ProduceRequest>(clients[2], PRODUCE).is_some(), "the third passes");
    assert_eq!((world.cluster.holds()[0].held, world.cluster.holds()[0].passed), (2, 1));
}

#[test]
fn rules_that_could_hold_nothing_are_refused() {
    let (mut world, ..) = world();
    let mut refused = |rule| world.command(Command::AddHold(rule)).unwrap_err();
    let heartbeat = 12;
    assert_eq!(
        refused(HoldRule { topic: Some("t".into()), ..before(heartbeat) }),
        HoldError::NamesNoTopics { api: "Heartbeat" }.into()
    );
    assert_eq!(
        refused(HoldRule { group: Some("g".into()), ..before(PRODUCE_KEY) }),
        HoldError::NamesNoGroups { api: "Produce" }.into()
    );
    assert_eq!(refused(before(999)), HoldError::UnknownApi(999).into());
    let elsewhere = HoldRule { broker: Some(NodeId(9)), ..before(PRODUCE_KEY) };
    assert!(matches!(refused(elsewhere), CommandError::UnknownBroker(9, _)));
    let id = HoldId(1);
    for missing in [Command::RemoveHold(id), Command::ReleaseHold(id)] {
        assert_eq!(world.command(missing), Err(HoldError::NoSuchHold(id).into()));
    }
}

#[test]
fn a_clone_holds_on_its_own() {
    let (mut world, writer, _) = world();
    let id = hold(&mut world, before(PRODUCE_KEY));
    world.send(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    let mut fork = world.clone();
    fork.command(Command::RemoveHold(id)).unwrap();
    assert!(fork.received::<ProduceRequest>(writer, PRODUCE).is_some());
    assert!(there(&mut world).is_empty());
    assert_eq!(only_wait(&mut world).hold, Some(id));
}

#[test]
fn what_is_held_is_not_answered_at_the_end() {
    let (mut world, writer, reader) = world();
    hold(&mut world, before(PRODUCE_KEY));
    world.send(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    world.send(reader, FETCH, &fetch("t", 0, 0));
    world.command(Command::Shutdown).unwrap();
    assert!(world.received::<FetchRequest>(reader, FETCH).is_some());
    assert!(world.received::<ProduceRequest>(writer, PRODUCE).is_none());
}

#[test]
fn any_wait_can_be_released() {
    let (mut world, _, reader) = world();
    world.send(reader, FETCH, &fetch("t", 0, 0));
    let wait = only_wait(&mut world);
    assert_eq!((wait.description.waits_for.as_str(), wait.hold), ("t-0", None));
    release(&mut world, &wait).unwrap();
    let response = world.received::<FetchRequest>(reader, FETCH).unwrap();
    assert!(values(records_of(&response)).is_empty());
    let nobody = world.command(Command::Release { node: NodeId(3), serial: 1 });
    assert!(matches!(nobody, Err(CommandError::UnknownBroker(3, _))));

    // A session's end is a wait too: released, it has come.
    let mut world = super::groups::world();
    let [(leader, member), (other, _)] = pair(&mut world);
    let sessions = world.cluster.waits(world.now());
    let session = sessions.iter().find(|wait| wait.description.progress.contains(&member)).unwrap();
    assert_eq!((session.kind, session.connection), (Kind::Heartbeat, None));
    release(&mut world, session).unwrap();
    assert_eq!(heartbeat(&mut world, leader, &member, 2), ErrorCode::UnknownMemberId);
    assert_eq!(
        world.cluster.waits(world.now()).iter().filter(|wait| wait.kind == Kind::Heartbeat).count(),
        1
    );
    world.disconnect(other);
}

#[test]
fn a_pinned_high_watermark_stays_and_goes_on() {
    let (mut world, writer, reader) = world();
    let pin = |world: &mut World, pinned| {
        world.command(Command::PinHighWatermark { topic: "t".to_owned(), index: 0, pinned })
    };
    world.ask(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), -1));
    assert_eq!(pin(&mut world, true), Ok(Done::AsAsked));
    assert_eq!(world.cluster.pinned().count(), 1);
    let response = world.ask(writer, PRODUCE, &produce("t", 0, batch(&["b"], 1), 1));
    assert_eq!(offset(&response), (0, 1), "acks=1 asks for no high watermark");
    world.send(writer, PRODUCE, &produce("t", 0, batch(&["c"], 1), -1));
    world.send(reader, FETCH, &fetch("t", 0, 1));
    let kinds: Vec<Kind> = world.cluster.waits(world.now()).iter().map(|wait| wait.kind).collect();
    assert_eq!((kinds, there(&mut world).len()), (vec![Kind::Produce, Kind::Fetch], 1));
    let third = world.connect();
    let other = world.ask(third, PRODUCE, &produce("t", 1, batch(&["x"], 1), -1));
    assert_eq!(offset(&other), (0, 0), "another partition is not concerned");

    pin(&mut world, false).unwrap();
    assert_eq!(offset(&world.received::<ProduceRequest>(writer, PRODUCE).unwrap()), (0, 2));
    let response = world.received::<FetchRequest>(reader, FETCH).unwrap();
    assert_eq!(values(records_of(&response)).len(), 2);

    // In time or not, the records stay.
    pin(&mut world, true).unwrap();
    world.send(writer, PRODUCE, &produce("t", 0, batch(&["d"], 1), -1));
    world.advance(Duration::from_secs(1));
    let late = world.received::<ProduceRequest>(writer, PRODUCE).unwrap();
    assert_eq!(error_of(&late), ErrorCode::RequestTimedOut.code());
    pin(&mut world, false).unwrap();
    assert_eq!(there(&mut world).len(), 4);
    let missing = Command::PinHighWatermark { topic: "t".to_owned(), index: 2, pinned: true };
    assert!(matches!(world.command(missing), Err(CommandError::Controller(_))));
}

#[test]
fn what_is_let_go_on_a_frozen_broker_goes_on_once_it_is_thawed() {
    let (mut world, writer, reader) = world();
    let id = hold(&mut world, before(PRODUCE_KEY));
    world.send(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    world.send(reader, FETCH, &fetch("t", 0, 0).with_max_wait_ms(60_000).with_min_bytes(1 << 20));
    let fetching = world.cluster.waits(world.now()).remove(1);
    world.command(Command::FreezeBroker(NodeId(1))).unwrap();
    assert_eq!(world.command(Command::RemoveHold(id)), Ok(Done::Released(1)));
    assert_eq!(release(&mut world, &fetching), Ok(Done::Released(1)));
    world.advance(Duration::from_secs(1));
    assert!(world.frames.is_empty());
    world.command(Command::ThawBroker(NodeId(1))).unwrap();
    assert!(world.received::<ProduceRequest>(writer, PRODUCE).is_some());
    assert!(world.received::<FetchRequest>(reader, FETCH).is_some());
}

#[test]
fn who_waits_for_replicas_says_which_are_behind() {
    let mut world = World::of_brokers(3, &[]);
    world.create_replicated("t", &[1, 2, 3], &[]);
    let writer = world.connect();
    for broker in [2, 3] {
        world.command(Command::FreezeBroker(NodeId(broker))).unwrap();
    }
    world.send(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), -1));
    let waits = world.cluster.waits(world.now());
    let wait = waits.iter().find(|wait| wait.kind == Kind::Produce).unwrap();
    assert_eq!(wait.description.waits_for, "t-0");
    assert_eq!(wait.description.progress, "high watermark 0 of 1 (in sync but behind: 2 3)");
}

#[test]
fn a_pinned_high_watermark_stays_when_the_leader_changes() {
    let mut world = World::of_brokers(3, &[]);
    world.create_replicated("t", &[1, 2, 3], &[]);
    let pin = |pinned| Command::PinHighWatermark { topic: "t".to_owned(), index: 0, pinned };
    world.command(pin(true)).unwrap();
    let writer = world.connect();
    world.send(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    world.command(Command::StopBroker(NodeId(1))).unwrap();
    let leader = world.partition("t").leader.unwrap().0;
    assert_ne!(leader, 1);
    world.advance(Duration::from_secs(2));
    assert_eq!(world.offsets("t", leader), (1, 0), "the new leader has the record, and may not show it");
    world.command(pin(false)).unwrap();
    world.advance(Duration::from_secs(1));
    assert_eq!(world.offsets("t", leader), (1, 1));
}

/// A commit of group `g` for topic `t`.
fn commit() -> kafka_protocol::messages::OffsetCommitRequest {
    use kafka_protocol::messages::offset_commit_request::{
        OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    };
    let partition = OffsetCommitRequestPartition::default().with_partition_index(0).with_committed_offset(1);
    let topics =
        vec![OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition])];
    kafka_protocol::messages::OffsetCommitRequest::default()
        .with_group_id(kafka_protocol::messages::GroupId(StrBytes::from_static_str("g")))
        .with_topics(topics)
}

#[test]
fn each_condition_holds_at_each_point_what_it_says_and_nothing_else() {
    use kafka_protocol::messages::OffsetCommitRequest;
    const COMMIT: i16 = 8;
    let mut world = World::of_brokers(2, &[]);
    world.create_replicated("t", &[1, 2], &[]);
    // A rule that matches a commit of this client at broker 2, and one that differs in that one condition.
    fn any(point: HoldPoint) -> HoldRule {
        HoldRule::new(point)
    }
    let pairs: [fn(HoldPoint, bool) -> HoldRule; 6] = [
        |point, same| HoldRule { api: Some(if same { COMMIT } else { FETCH_KEY }), ..any(point) },
        |point, same| HoldRule {
            client_id: Some(if same { "tester" } else { "other" }.into()),
            ..any(point)
        },
        |point, same| HoldRule { topic: Some(if same { "t" } else { "u" }.into()), ..any(point) },
        |point, same| HoldRule { group: Some(if same { "g" } else { "h" }.into()), ..any(point) },
        |point, same| HoldRule { broker: Some(NodeId(if same { 2 } else { 1 })), ..any(point) },
        |point, same| HoldRule {
            api: Some(COMMIT),
            client_id: Some("tester".into()),
            topic: Some("t".into()),
            group: Some(if same { "g" } else { "h" }.into()),
            broker: Some(NodeId(2)),
            ..any(point)
        },
    ];
    for point in HoldPoint::ALL {
        for pair in pairs {
            let other = hold(&mut world, pair(point, false));
            let id = hold(&mut world, HoldRule { count: Some(1), ..pair(point, true) });
            let (first, second) = (world.connect_to(2), world.connect_to(2));
            world.send(first, COMMIT, &commit());
            assert!(
                world.received::<OffsetCommitRequest>(first, COMMIT).is_none(),
                "{:?}",
                pair(point, true)
            );
            let waits = world.cluster.waits(world.now());
            let held: Vec<_> = waits.iter().filter(|wait| wait.kind == Kind::Held).collect();
            if point == HoldPoint::AfterApplyThenDisconnect {
                assert_eq!((held.len(), std::mem::take(&mut world.closed)), (0, vec![first]));
                world.disconnect(first);
            } else {
                let [wait] = held[..] else { panic!("{held:?}") };
                let so_far = match point {
                    HoldPoint::BeforeApply => "not applied yet",
                    _ => "applied, the answer is kept back",
                };
                assert_eq!(
                    (wait.hold, wait.node, wait.connection, wait.client_id.as_deref()),
                    (Some(id), NodeId(2), Some(first), Some("tester"))
                );
                assert_eq!(wait.description.waits_for, format!("hold {id}"));
                assert_eq!(wait.description.progress, format!("OffsetCommit, {so_far}"));
                let wait = wait.clone().clone();
                release(&mut world, &wait).unwrap();
                assert!(world.received::<OffsetCommitRequest>(first, COMMIT).is_some());
            }
            world.ask(second, COMMIT, &commit());
            let counts: Vec<_> = world.cluster.holds().iter().map(|hold| (hold.held, hold.left())).collect();
            assert_eq!(counts, [(0, None), (1, Some(0))]);
            for id in [other, id] {
                world.command(Command::RemoveHold(id)).unwrap();
            }
        }
    }
}
