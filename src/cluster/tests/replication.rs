//! Records on several brokers: what acks=all promises, and who leads when brokers go.

use super::*;

const BROKERS: [i32; 3] = [1, 2, 3];
const SESSION: Duration = Duration::from_secs(9);
const LAG: Duration = Duration::from_secs(45);

fn world(configs: &[(&str, &str)]) -> World {
    let mut world = World::of_brokers(3, &[]);
    world.create_replicated("t", &BROKERS, configs);
    world
}

fn ids(brokers: &[NodeId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}

fn send(world: &mut World, connection: ConnectionId, value: &str, acks: i16) {
    let timestamp = world.now_ms as i64;
    world.send(connection, PRODUCE, &produce("t", 0, batch(&[value], timestamp), acks));
}

fn error(world: &mut World, connection: ConnectionId) -> Option<i16> {
    world.received::<ProduceRequest>(connection, PRODUCE).map(|response| error_of(&response))
}

fn read(world: &mut World, broker: i32) -> Vec<(i64, String)> {
    let connection = world.connect_to(broker);
    let response: FetchResponse = world.ask(connection, FETCH, &fetch("t", 0, 0));
    assert_eq!(response.responses[0].partitions[0].error_code, 0);
    values(records_of(&response))
}

#[test]
fn an_acknowledged_record_is_on_every_replica_within_the_call() {
    let mut world = world(&[]);
    let producer = world.connect();
    send(&mut world, producer, "a", -1);
    assert_eq!(error(&mut world, producer), Some(0));
    assert_eq!(world.offsets("t", 1), (1, 1));
    for follower in [2, 3] {
        assert_eq!(world.offsets("t", follower).0, 1);
    }
    world.advance(Duration::from_millis(500));
    for follower in [2, 3] {
        assert_eq!(
            world.offsets("t", follower),
            (1, 1),
            "they hear of the high watermark with the next answer"
        );
    }
    assert_eq!(read(&mut world, 1), [(0, "a".to_owned())]);
}

#[test]
fn a_frozen_follower_is_waited_for_until_it_is_out_of_sync() {
    let mut world = world(&[]);
    let producer = world.connect();
    world.command(Command::FreezeBroker(NodeId(3))).unwrap();
    let request = produce("t", 0, batch(&["a"], 0), -1).with_timeout_ms(60_000);
    world.send(producer, PRODUCE, &request);
    assert_eq!(error(&mut world, producer), None);
    assert_eq!((world.offsets("t", 1), world.offsets("t", 2).0), ((1, 0), 1));
    // Its session ends first, which takes it out of the ISR.
    world.advance(SESSION);
    assert_eq!(error(&mut world, producer), Some(0));
    assert_eq!(ids(&world.partition("t").isr), [1, 2]);
    world.command(Command::ThawBroker(NodeId(3))).unwrap();
    world.advance(Duration::from_secs(3));
    assert_eq!(ids(&world.partition("t").isr), [1, 2, 3]);
    assert_eq!(world.offsets("t", 3).0, 1);
}

#[test]
fn a_follower_whose_fetches_do_not_arrive_leaves_the_isr_for_its_lag() {
    let mut world = world(&[]);
    let producer = world.connect();
    let (from, to) = (Party::Broker(NodeId(2)), Party::Broker(NodeId(1)));
    let link = Link { delay: Duration::ZERO, cut: true };
    world.command(Command::SetLink { from, to, link }).unwrap();
    let request = produce("t", 0, batch(&["a"], 0), -1).with_timeout_ms(600_000);
    world.send(producer, PRODUCE, &request);
    world.advance(Duration::from_secs(29));
    assert_eq!(error(&mut world, producer), None, "not before replica.lag.time.max.ms");
    world.advance(LAG - Duration::from_secs(29));
    assert_eq!(error(&mut world, producer), Some(0));
    assert_eq!(ids(&world.partition("t").isr), [1, 3]);
    let link = Link { delay: Duration::ZERO, cut: false };
    world.command(Command::SetLink { from, to, link }).unwrap();
    world.advance(Duration::from_secs(1));
    assert_eq!(ids(&world.partition("t").isr), [1, 3, 2]);
}

#[test]
fn too_few_in_sync_is_refused_and_acknowledges_nothing() {
    let mut world = world(&[("min.insync.replicas", "2")]);
    let producer = world.connect();
    world.command(Command::KillBroker(NodeId(2))).unwrap();
    world.command(Command::KillBroker(NodeId(3))).unwrap();
    let request = produce("t", 0, batch(&["a"], 0), -1).with_timeout_ms(60_000);
    world.send(producer, PRODUCE, &request);
    assert_eq!(error(&mut world, producer), None, "nobody knows yet that they are gone");
    world.advance(SESSION + Duration::from_secs(1));
    assert_eq!(ids(&world.partition("t").isr), [1]);
    assert_eq!(error(&mut world, producer), None, "below the minimum the high watermark stays (KIP-966)");
    world.advance(Duration::from_secs(50));
    assert_eq!(error(&mut world, producer), Some(7), "REQUEST_TIMED_OUT");
    send(&mut world, producer, "b", -1);
    assert_eq!(error(&mut world, producer), Some(19), "NOT_ENOUGH_REPLICAS");
    send(&mut world, producer, "c", 1);
    assert_eq!(error(&mut world, producer), Some(0));
    assert_eq!(world.offsets("t", 1), (2, 0), "the high watermark stays");
    for broker in [2, 3] {
        world.command(Command::StartBroker { broker: NodeId(broker), kept: Kept::Everything }).unwrap();
    }
    world.advance(Duration::from_secs(3));
    assert_eq!(world.offsets("t", 1), (2, 2));
    send(&mut world, producer, "d", -1);
    assert_eq!(error(&mut world, producer), Some(0));
}

#[test]
fn a_produce_that_is_not_replicated_in_time_has_its_records_in_the_log() {
    let mut world = world(&[]);
    let producer = world.connect();
    world.command(Command::FreezeBroker(NodeId(2))).unwrap();
    send(&mut world, producer, "a", -1);
    world.advance(Duration::from_millis(999));
    assert_eq!(error(&mut world, producer), None);
    world.advance(Duration::from_millis(2));
    assert_eq!(error(&mut world, producer), Some(7), "REQUEST_TIMED_OUT");
    assert_eq!(world.offsets("t", 1), (1, 0));
    world.command(Command::ThawBroker(NodeId(2))).unwrap();
    assert_eq!(read(&mut world, 1), [(0, "a".to_owned())]);
}

#[test]
fn what_a_killed_leader_acknowledged_is_read_from_the_next() {
    let mut world = world(&[]);
    let producer = world.connect();
    for value in ["a", "b"] {
        send(&mut world, producer, value, -1);
        assert_eq!(error(&mut world, producer), Some(0));
    }
    world.command(Command::KillBroker(NodeId(1))).unwrap();
    let second = world.connect_to(2);
    send(&mut world, second, "c", -1);
    assert_eq!(error(&mut world, second), Some(6), "it doesn't lead yet");
    world.advance(SESSION);
    let partition = world.partition("t");
    assert_eq!((partition.leader, ids(&partition.isr)), (Some(NodeId(2)), vec![2, 3]));
    send(&mut world, second, "c", -1);
    assert_eq!(error(&mut world, second), Some(0));
    let all = [(0, "a".to_owned()), (1, "b".to_owned()), (2, "c".to_owned())];
    assert_eq!(read(&mut world, 2), all);
    world.command(Command::StartBroker { broker: NodeId(1), kept: Kept::Everything }).unwrap();
    world.advance(Duration::from_secs(1));
    assert_eq!(world.offsets("t", 1), (3, 3));
    assert_eq!(ids(&world.partition("t").isr), [2, 3, 1]);
}

/// Cuts the followers' links to broker 1, or makes them whole.
fn set_links_to_first(world: &mut World, cut: bool) {
    for follower in [2, 3] {
        let (from, to) = (Party::Broker(NodeId(follower)), Party::Broker(NodeId(1)));
        let link = Link { delay: Duration::ZERO, cut };
        world.command(Command::SetLink { from, to, link }).unwrap();
    }
}

#[test]
fn an_unreplicated_tail_is_truncated_when_its_leader_comes_back() {
    let mut world = world(&[]);
    let producer = world.connect();
    send(&mut world, producer, "a", -1);
    assert_eq!(error(&mut world, producer), Some(0));
    set_links_to_first(&mut world, true);
    // The fetches that are parked already still bring the first of these.
    for value in ["b", "lost"] {
        send(&mut world, producer, value, 1);
        assert_eq!(error(&mut world, producer), Some(0));
    }
    assert_eq!(world.offsets("t", 1), (3, 1));
    world.command(Command::KillBroker(NodeId(1))).unwrap();
    world.advance(SESSION);
    set_links_to_first(&mut world, false);
    let leader = world.partition("t").leader.unwrap().0;
    let successor = world.connect_to(leader);
    send(&mut world, successor, "c", -1);
    assert_eq!(error(&mut world, successor), Some(0));
    world.command(Command::StartBroker { broker: NodeId(1), kept: Kept::Everything }).unwrap();
    world.advance(Duration::from_secs(2));
    let all = [(0, "a".to_owned()), (1, "b".to_owned()), (2, "c".to_owned())];
    assert_eq!(read(&mut world, leader), all);
    assert_eq!(world.offsets("t", 1), (3, 3));
}

#[test]
fn a_stopped_broker_hands_over_and_is_down_within_the_call() {
    let mut world = world(&[]);
    let connection = world.connect();
    world.command(Command::StopBroker(NodeId(1))).unwrap();
    assert_eq!(world.closed, [connection]);
    assert_eq!(world.cluster.brokers()[0], (NodeId(1), BrokerState::Down));
    let partition = world.partition("t");
    assert_eq!((partition.leader, ids(&partition.isr)), (Some(NodeId(2)), vec![2, 3]));
    let producer = world.connect_to(2);
    send(&mut world, producer, "a", -1);
    assert_eq!(error(&mut world, producer), Some(0));
    world.command(Command::StartBroker { broker: NodeId(1), kept: Kept::Everything }).unwrap();
    assert_eq!(world.cluster.brokers()[0], (NodeId(1), BrokerState::Running));
    world.advance(Duration::from_secs(1));
    assert_eq!(ids(&world.partition("t").isr), [2, 3, 1]);
    // Leadership goes back to the preferred leader by itself.
    world.advance(Duration::from_secs(300));
    assert_eq!(world.partition("t").leader, Some(NodeId(1)));
}

#[test]
fn a_lost_tail_that_nobody_knew_of_is_fetched_again() {
    let mut world = world(&[]);
    let producer = world.connect();
    for value in ["a", "b"] {
        send(&mut world, producer, value, -1);
        assert_eq!(error(&mut world, producer), Some(0));
    }
    // It has not heard of the last high watermark.
    assert_eq!(world.offsets("t", 2).0, 2);
    world.command(Command::KillBroker(NodeId(2))).unwrap();
    world.command(Command::StartBroker { broker: NodeId(2), kept: Kept::Replicated }).unwrap();
    world.advance(Duration::from_secs(2));
    assert_eq!(world.offsets("t", 2), (2, 2));
    assert_eq!(ids(&world.partition("t").isr), [1, 3, 2]);
}

#[test]
fn a_cluster_of_several_brokers_that_nobody_uses_beats_and_no_more() {
    let mut world = World::of_brokers(3, &[]);
    world.advance(Duration::from_secs(60));
    let registrations = world.cluster.controller().brokers().clone();
    assert!(registrations.iter().all(|broker| !broker.fenced));
}

/// Moves the clock on, and counts how often something happened by itself.
fn steps(world: &mut World, span: Duration) -> usize {
    let end = Instant::from_millis(world.now_ms) + span;
    let mut steps = 0;
    while let Some(due) = world.cluster.poll_timeout().filter(|due| *due <= end) {
        world.now_ms = world.now_ms.max(due.as_nanos().div_ceil(1_000_000));
        world.cluster.handle_timeout(world.now());
        world.collect();
        steps += 1;
    }
    world.now_ms = end.as_millis();
    steps
}

#[test]
fn a_day_in_which_nothing_happens_passes_in_heartbeats_and_checks() {
    const DAY_S: usize = 24 * 60 * 60;
    let mut world = world(&[]);
    let producer = world.connect();
    // The group coordinator's topic, with its 50 partitions.
    let key = vec![StrBytes::from_static_str("g")];
    let find = kafka_protocol::messages::FindCoordinatorRequest::default().with_coordinator_keys(key);
    world.ask(producer, 4, &find);
    send(&mut world, producer, "a", -1);
    world.advance(Duration::from_secs(2));
    let fetches = |world: &World| world.cluster.metrics(Kind::FollowerFetch);
    let before = fetches(&world);
    assert_eq!(before.num_delayed_operations, 102, "two of each partition");
    let steps = steps(&mut world, Duration::from_secs(DAY_S as u64));
    // A heartbeat every 2 s, a look for followers that lag every 15 s, and five other rounds every few minutes.
    let most = DAY_S / 2 + DAY_S / 15 + 5 * DAY_S / 300;
    assert!((DAY_S / 2..=most).contains(&steps), "{steps} of {most}");
    let after = fetches(&world);
    assert_eq!(after.num_delayed_operations, 102);
    assert!(after.expired - before.expired < 2_000, "{}", after.expired - before.expired);
    // Then everything is as if they had been there all the while.
    let now = world.now().instant;
    let waits = world.cluster.waits(world.now());
    let mut fetches = waits.iter().filter(|wait| wait.kind == Kind::FollowerFetch);
    let half_a_second = Duration::from_millis(500);
    assert!(fetches.all(|wait| {
        wait.waiter.since + half_a_second == wait.waiter.deadline
            && wait.waiter.since <= now
            && wait.waiter.deadline >= now
    }));
    send(&mut world, producer, "b", -1);
    assert_eq!(error(&mut world, producer), Some(0));
    world.advance(half_a_second);
    assert_eq!([1, 2, 3].map(|broker| world.offsets("t", broker)), [(2, 2); 3]);
}

#[test]
fn fetches_that_rest_count_as_if_they_came_all_the_while() {
    // In the second world somebody looks at the waits all the time, which lets none rest.
    let mut worlds = [false, true].map(|looks| (looks, world(&[("min.insync.replicas", "2")])));
    let mut producers = worlds.each_mut().map(|(_, world)| world.connect());
    let link = |cut| Link { delay: Duration::ZERO, cut };
    for ms in (0..90_000).step_by(100) {
        for ((looks, world), producer) in worlds.iter_mut().zip(&mut producers) {
            let producer = *producer;
            let mut set_link = |from: i32, to: i32, cut| {
                let (from, to) = (Party::Broker(NodeId(from)), Party::Broker(NodeId(to)));
                world.command(Command::SetLink { from, to, link: link(cut) }).unwrap();
            };
            match ms {
                20_300 => set_link(3, 1, true),
                50_300 => set_link(1, 2, true),
                70_000 => set_link(3, 1, false),
                80_000 => set_link(1, 2, false),
                _ => {}
            }
            if matches!(ms, 5_100 | 7_000 | 20_200 | 20_400 | 40_000 | 61_700) {
                send(world, producer, "x", 1);
                assert_eq!(error(world, producer), Some(0));
            }
            world.advance(Duration::from_millis(100));
            if *looks {
                world.cluster.waits(world.now());
            }
        }
        let [(_, rested), (_, looked_at)] = &worlds;
        assert_eq!(rested.cluster.replica_states(), looked_at.cluster.replica_states(), "at {ms} ms");
        assert_eq!(rested.partition("t"), looked_at.partition("t"), "at {ms} ms");
    }
    let rested = worlds.each_ref().map(|(_, world)| world.cluster.metrics(Kind::FollowerFetch).parked());
    assert!(rested[0] * 2 < rested[1], "{rested:?}");
}
