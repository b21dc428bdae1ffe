//! Brokers that are killed, frozen and thawed, and links that are slow or cut.

use kafka_protocol::messages::MetadataRequest;

use super::*;

#[test]
fn a_killed_brokers_connections_break_and_nothing_of_theirs_waits() {
    let mut world = World::of_brokers(2, &[]);
    world.create_topic("t", 1, &[]);
    let (on_first, on_second) = (world.connect_to(1), world.connect_to(2));
    world.send(on_first, FETCH, &fetch("t", 0, 0));
    world.send(on_second, FETCH, &fetch("t", 0, 0));
    world.command(Command::KillBroker(NodeId(2))).unwrap();
    assert_eq!(world.closed, [on_second]);
    let now = world.now();
    assert!(world.cluster.waits(now).iter().all(|wait| wait.node == NodeId(1)));
    let again = world.command(Command::KillBroker(NodeId(2))).unwrap_err();
    assert_eq!(again.to_string(), "broker 2 is down; it must be running or frozen for that");
    let unknown = world.command(Command::KillBroker(NodeId(5))).unwrap_err();
    assert_eq!(unknown.to_string(), "there is no broker 5; there are 1, 2");
}

#[test]
fn a_frozen_broker_answers_in_order_once_it_is_thawed() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let (producer, gone, consumer) = (world.connect(), world.connect(), world.connect());
    world.command(Command::FreezeBroker(NodeId(1))).unwrap();
    world.send(producer, PRODUCE, &produce("t", 0, batch(&["a"], 0), -1));
    world.send(gone, PRODUCE, &produce("t", 0, batch(&["b"], 0), -1));
    world.disconnect(gone);
    assert!(world.received::<ProduceRequest>(producer, PRODUCE).is_none());
    assert_eq!(world.cluster.poll_timeout(), None, "a frozen broker has no deadlines");
    world.command(Command::ThawBroker(NodeId(1))).unwrap();
    assert_eq!(error_of(&world.received::<ProduceRequest>(producer, PRODUCE).unwrap()), 0);
    let response: FetchResponse = world.ask(consumer, FETCH, &fetch("t", 0, 0));
    assert_eq!(
        values(records_of(&response)),
        [(0, "a".to_owned()), (1, "b".to_owned())],
        "what had come before its client went was still handled"
    );
}

#[test]
fn a_cut_link_keeps_messages_in_order_and_a_slow_one_delays_them() {
    let mut world = World::of_brokers(2, &[]);
    let (from, to) = (Party::Controller, Party::Broker(NodeId(2)));
    let cut = Link { delay: Duration::ZERO, cut: true };
    world.command(Command::SetLink { from, to, link: cut }).unwrap();
    let connection = world.connect();
    world.send(connection, 7, &create_topics("t", 1, &[]));
    assert!(world.received::<CreateTopicsRequest>(connection, 7).is_none(), "broker 2 hasn't heard of it");
    let slow = Link { delay: Duration::from_millis(20), cut: false };
    world.command(Command::SetLink { from, to, link: slow }).unwrap();
    assert_eq!(world.cluster.link(from, to), slow);
    world.advance(Duration::from_millis(19));
    assert!(world.received::<CreateTopicsRequest>(connection, 7).is_none());
    world.advance(Duration::from_millis(1));
    assert_eq!(world.received::<CreateTopicsRequest>(connection, 7).unwrap().topics[0].error_code, 0);
    let metadata: kafka_protocol::messages::MetadataResponse =
        world.ask(connection, 12, &MetadataRequest::default().with_topics(None));
    assert_eq!(metadata.brokers.len(), 2);
    let unknown = Command::SetLink { from, to: Party::Broker(NodeId(9)), link: slow };
    assert!(matches!(world.command(unknown), Err(CommandError::UnknownBroker(9, _))));
}

#[test]
fn an_added_broker_has_an_id_that_is_free_and_not_negative() {
    let mut world = World::new();
    let endpoint = ListenerEndpoint { listener: "PLAINTEXT".into(), host: None, port: 9093 };
    let config =
        |id| NodeConfig { id, rack: None, endpoints: vec![endpoint.clone()], configs: Overrides::default() };
    // -1 stands for no broker wherever Kafka names one.
    for id in [-1, i32::MIN] {
        let refused = world.command(Command::AddBroker(config(NodeId(id))));
        assert_eq!(refused, Err(CommandError::InvalidBrokerId(id)));
    }
    assert_eq!(world.cluster.next_broker_id(), NodeId(2));
    world.command(Command::AddBroker(config(NodeId(i32::MAX)))).unwrap();
    assert_eq!(world.cluster.next_broker_id(), NodeId(2), "there is none after the highest");
    assert_eq!(world.cluster.check_new_broker(NodeId(1)), Err(CommandError::BrokerExists(NodeId(1))));
    world.command(Command::AddBroker(config(NodeId(0)))).unwrap();
}

#[test]
fn a_link_has_two_ends() {
    let mut world = World::of_brokers(2, &[]);
    let link = Link { delay: Duration::ZERO, cut: true };
    for end in [Party::Controller, Party::Broker(NodeId(2))] {
        let refused = world.command(Command::SetLink { from: end, to: end, link });
        assert_eq!(refused, Err(CommandError::SameEnds));
    }
}

#[test]
fn brokers_come_and_go_while_the_cluster_runs() {
    let mut world = World::new();
    let endpoint = ListenerEndpoint { listener: "PLAINTEXT".into(), host: None, port: 9093 };
    let config =
        NodeConfig { id: NodeId(2), rack: None, endpoints: vec![endpoint], configs: Overrides::default() };
    world.command(Command::AddBroker(config.clone())).unwrap();
    assert_eq!(world.command(Command::AddBroker(config)), Err(CommandError::BrokerExists(NodeId(2))));
    world.create_replicated("t", &[2, 1], &[]);
    let producer = world.connect_to(2);
    world.send(producer, PRODUCE, &produce("t", 0, batch(&["a"], 0), -1));
    assert_eq!(error_of(&world.received::<ProduceRequest>(producer, PRODUCE).unwrap()), 0);
    let running = world.command(Command::RemoveBroker(NodeId(2))).unwrap_err();
    assert_eq!(running.to_string(), "broker 2 is running; it must be down for that");
    world.command(Command::StopBroker(NodeId(2))).unwrap();
    world.command(Command::RemoveBroker(NodeId(2))).unwrap();
    assert_eq!(world.cluster.brokers(), [(NodeId(1), BrokerState::Running)]);
    assert_eq!(world.partition("t").leader, Some(NodeId(1)));
    world.command(Command::KillBroker(NodeId(1))).unwrap();
    assert_eq!(world.command(Command::RemoveBroker(NodeId(1))), Err(CommandError::LastBroker(NodeId(1))));
}

#[test]
fn leaders_isrs_and_fetchers_are_the_users_to_steer() {
    let mut world = World::of_brokers(2, &[]);
    world.create_replicated("t", &[1, 2], &[]);
    let topic = || "t".to_owned();
    let freeze = |broker, frozen| Command::FreezeFetcher { broker, topic: topic(), index: 0, frozen };
    world.command(freeze(NodeId(2), true)).unwrap();
    assert!(matches!(world.command(freeze(NodeId(1), true)), Err(CommandError::NotAFollower { .. })));
    let producer = world.connect_to(1);
    // What it has asked for already still comes.
    for value in ["a", "b"] {
        world.send(producer, PRODUCE, &produce("t", 0, batch(&[value], 0), 1));
        assert_eq!(error_of(&world.received::<ProduceRequest>(producer, PRODUCE).unwrap()), 0);
    }
    assert!(world.offsets("t", 2).0 < 2);
    let shrink = Command::SetIsr { topic: topic(), index: 0, isr: vec![NodeId(1)] };
    world.command(shrink).unwrap();
    assert_eq!(&*world.partition("t").isr, [NodeId(1)]);
    let away = Command::MoveLeader { topic: topic(), index: 0, to: NodeId(2) };
    assert!(world.command(away.clone()).is_err(), "it is not in sync");
    world.command(freeze(NodeId(2), false)).unwrap();
    assert_eq!(&*world.partition("t").isr, [NodeId(1), NodeId(2)], "its next fetch brings it back");
    world.command(away).unwrap();
    assert_eq!(world.partition("t").leader, Some(NodeId(2)));
}

#[test]
fn a_broker_that_is_to_go_without_asking_hands_nothing_over() {
    let mut world = World::of_brokers(3, &[("controlled.shutdown.enable", "false")]);
    world.create_replicated("t", &[1, 2, 3], &[]);
    world.command(Command::StopBroker(NodeId(1))).unwrap();
    assert_eq!(world.cluster.brokers()[0], (NodeId(1), BrokerState::Down));
    let partition = world.partition("t");
    assert_eq!(
        (partition.leader, partition.isr.len()),
        (Some(NodeId(1)), 3),
        "nobody has told the controller"
    );
    world.advance(Duration::from_secs(9));
    let partition = world.partition("t");
    assert_eq!((partition.leader, &*partition.isr), (Some(NodeId(2)), &[2, 3].map(NodeId)[..]));
    world.command(Command::StartBroker { broker: NodeId(1), kept: Kept::Everything }).unwrap();
    world.advance(Duration::from_secs(1));
    assert_eq!(world.partition("t").isr.len(), 3);
}

#[test]
fn a_link_is_slow_for_a_day_at_most() {
    let mut world = World::of_brokers(2, &[]);
    let max = Duration::from_secs(24 * 60 * 60);
    let mut set = |delay| {
        let (from, to) = (Party::Broker(NodeId(1)), Party::Broker(NodeId(2)));
        world.command(Command::SetLink { from, to, link: Link { delay, cut: false } })
    };
    assert_eq!(set(max), Ok(Done::AsAsked));
    assert_eq!(set(max + Duration::from_nanos(1)), Err(CommandError::DelayTooLong { max }));
}

/// Cuts whatever goes to and comes from a broker, or makes it whole.
fn isolate(world: &mut World, broker: i32, cut: bool) {
    let this = Party::Broker(NodeId(broker));
    let others = (1..=3).filter(|id| *id != broker).map(|id| Party::Broker(NodeId(id)));
    for other in others.chain([Party::Controller]) {
        for (from, to) in [(this, other), (other, this)] {
            let link = Link { delay: Duration::ZERO, cut };
            world.command(Command::SetLink { from, to, link }).unwrap();
        }
    }
}

#[test]
fn what_a_cut_link_keeps_does_not_grow_with_time() {
    let mut world = World::of_brokers(3, &[]);
    world.create_replicated("t", &[1, 2, 3], &[]);
    isolate(&mut world, 3, true);
    world.advance(Duration::from_secs(120));
    let held = world.cluster.links.held();
    assert!((1..20).contains(&held), "{held}");
    world.advance(Duration::from_secs(3_600));
    assert_eq!(world.cluster.links.held(), held);
    let producer = world.connect_to(1);
    world.send(producer, PRODUCE, &produce("t", 0, batch(&["a"], 0), -1));
    assert_eq!(error_of(&world.received::<ProduceRequest>(producer, PRODUCE).unwrap()), 0);
    isolate(&mut world, 3, false);
    world.advance(Duration::from_secs(3));
    assert_eq!(world.partition("t").isr.len(), 3);
    assert_eq!((world.offsets("t", 3), world.cluster.links.held()), ((1, 1), 0));
}

#[test]
fn a_broker_that_has_missed_too_much_learns_all_that_there_is() {
    for freezes in [false, true] {
        let mut world = World::of_brokers(3, &[]);
        for name in ["stays", "goes"] {
            world.create_replicated(name, &[1, 2, 3], &[]);
        }
        match freezes {
            true => drop(world.command(Command::FreezeBroker(NodeId(3))).unwrap()),
            false => isolate(&mut world, 3, true),
        }
        world.advance(Duration::from_secs(20));
        let client = world.connect();
        let delete = |name: &'static str| {
            kafka_protocol::messages::DeleteTopicsRequest::default()
                .with_timeout_ms(1)
                .with_topic_names(vec![topic(name)])
        };
        world.send(client, 5, &delete("goes"));
        for number in 0..backlog::MAX_CHANGES {
            world.create_replicated(&format!("t-{number}"), &[1, 2], &[]);
        }
        world.create_replicated("new", &[1, 2, 3], &[("retention.ms", "77")]);
        let held = world.cluster.links.held();
        assert!(held < 50, "{held}");
        match freezes {
            true => drop(world.command(Command::ThawBroker(NodeId(3))).unwrap()),
            false => isolate(&mut world, 3, false),
        }
        world.advance(Duration::from_secs(3));
        let states = world.cluster.replica_states();
        let of_third: Vec<&str> =
            states.iter().filter(|state| state.broker == NodeId(3)).map(|state| &*state.topic).collect();
        assert_eq!(of_third.len(), 2, "{of_third:?}");
        assert!(["stays", "new"].iter().all(|name| of_third.contains(name)), "{of_third:?}");
        for name in ["stays", "new"] {
            assert_eq!(world.partition(name).isr.len(), 3, "{name}");
        }
        let id = world.cluster.controller().topics().by_name("new").unwrap().id;
        let third = world.cluster.nodes.iter().find(|node| node.id() == NodeId(3)).unwrap();
        let replica = third.broker.replicas.replica(PartitionKey { topic: id, index: 0 }).unwrap();
        assert_eq!(replica.config().retention_ms, Some(77));
        // From then on it hears of everything again.
        world.create_topic("last", 1, &[]);
    }
}

#[test]
fn so_much_is_on_its_way_over_a_slow_link_and_no_more() {
    let beats = [("broker.session.timeout.ms", "90000000"), ("broker.heartbeat.interval.ms", "100")];
    let mut world = World::of_brokers(2, &beats);
    let (from, to) = (Party::Broker(NodeId(2)), Party::Controller);
    let slow = Link { delay: Duration::from_secs(1_200), cut: false };
    world.command(Command::SetLink { from, to, link: slow }).unwrap();
    // More heartbeats in twenty minutes than the window takes.
    world.advance(Duration::from_secs(1_199));
    assert_eq!(world.cluster.links.held(), links::WINDOW + 1, "the latest of the others is kept");
    world.advance(Duration::from_secs(1_200));
    assert!(world.cluster.links.held() <= links::WINDOW + 1);
    assert!(world.cluster.controller().brokers().iter().all(|broker| !broker.fenced));
}

#[test]
fn for_a_frozen_broker_wait_so_many_and_no_more() {
    let mut world = World::of_brokers(3, &[]);
    world.create_replicated("t", &[1, 2, 3], &[]);
    world.command(Command::FreezeBroker(NodeId(3))).unwrap();
    let waiting = |world: &mut World| world.cluster.nodes[2].backlog().unwrap().len();
    world.advance(Duration::from_secs(120));
    let of_brokers = waiting(&mut world);
    assert!((1..10).contains(&of_brokers), "{of_brokers}");
    world.advance(Duration::from_secs(3_600));
    assert_eq!(waiting(&mut world), of_brokers);
    let mut most = 0;
    while world.closed.is_empty() {
        let client = world.connect_to(3);
        world.collect();
        world.disconnect(client);
        assert!(waiting(&mut world) > most || !world.closed.is_empty());
        most = waiting(&mut world);
    }
    assert_eq!(most, MAX_EVENTS);
    world.command(Command::ThawBroker(NodeId(3))).unwrap();
    let client = world.connect_to(3);
    let metadata: kafka_protocol::messages::MetadataResponse =
        world.ask(client, 12, &MetadataRequest::default().with_topics(None));
    assert_eq!(metadata.brokers.len(), 3);
}
