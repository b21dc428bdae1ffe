//! Who leads when nobody is in sync, and which records are left (Kafka's `UncleanLeaderElectionTest`,
//! `EligibleLeaderReplicasIntegrationTest`).

use super::*;

/// After so long followers that don't fetch are out of sync.
const LAG: Duration = Duration::from_secs(60);
/// After so long a broker that was killed is fenced.
const SESSION: Duration = Duration::from_secs(10);

fn world(configs: &[(&str, &str)]) -> World {
    let mut world = World::of_brokers(3, &[]);
    world.create_replicated("t", &[1, 2, 3], configs);
    world
}

fn send(world: &mut World, broker: i32, value: &str, acks: i16) -> i16 {
    let client = world.connect_to(broker);
    error_of(&world.ask(client, PRODUCE, &produce("t", 0, batch(&[value], 0), acks)))
}

fn read(world: &mut World, broker: i32) -> Vec<String> {
    let client = world.connect_to(broker);
    let response: FetchResponse = world.ask(client, FETCH, &fetch("t", 0, 0).with_max_wait_ms(0));
    values(records_of(&response)).into_iter().map(|(_, value)| value).collect()
}

fn ids(ids: &[NodeId]) -> Vec<i32> {
    ids.iter().map(|id| id.0).collect()
}

/// Broker 1 alone has the record "b", acknowledged with acks=all by an ISR of one, and dies.
fn die_with_the_last(world: &mut World) {
    assert_eq!(send(world, 1, "a", -1), 0);
    for follower in [2, 3] {
        let (broker, topic) = (NodeId(follower), "t".to_owned());
        world.command(Command::FreezeFetcher { broker, topic, index: 0, frozen: true }).unwrap();
    }
    world.advance(Duration::from_secs(1));
    let client = world.connect_to(1);
    let request = produce("t", 0, batch(&["b"], 0), -1).with_timeout_ms(120_000);
    world.send(client, PRODUCE, &request);
    world.advance(LAG);
    assert_eq!(error_of(&world.received::<ProduceRequest>(client, PRODUCE).unwrap()), 0);
    assert_eq!(ids(&world.partition("t").isr), [1]);
    world.command(Command::KillBroker(NodeId(1))).unwrap();
    world.advance(SESSION);
}

fn start(world: &mut World, broker: i32) {
    world.command(Command::StartBroker { broker: NodeId(broker), kept: Kept::Everything }).unwrap();
    world.advance(Duration::from_secs(3));
}

#[test]
fn nobody_leads_who_was_not_in_sync_unless_the_topic_allows_it() {
    let mut world = world(&[]);
    die_with_the_last(&mut world);
    assert_eq!(world.partition("t").leader, None);
    assert_eq!(send(&mut world, 2, "c", 1), 6, "NOT_LEADER_OR_FOLLOWER");
    start(&mut world, 1);
    assert_eq!(world.partition("t").leader, Some(NodeId(1)));
    assert_eq!(read(&mut world, 1), ["a", "b"], "nothing that was acknowledged is lost");
}

#[test]
fn an_unclean_leader_has_the_others_drop_what_it_does_not_have() {
    let mut world = world(&[("unclean.leader.election.enable", "true")]);
    die_with_the_last(&mut world);
    let partition = world.partition("t");
    assert_eq!((partition.leader, ids(&partition.isr)), (Some(NodeId(2)), vec![2]));
    assert_eq!(read(&mut world, 2), ["a"]);
    assert_eq!(send(&mut world, 2, "c", -1), 0);
    start(&mut world, 1);
    assert_eq!(world.offsets("t", 1), (2, 2));
    let leader = Command::MoveLeader { topic: "t".into(), index: 0, to: NodeId(1) };
    world.command(leader).unwrap();
    world.advance(Duration::from_secs(1));
    assert_eq!(read(&mut world, 1), ["a", "c"]);
}

#[test]
fn an_eligible_replica_that_comes_back_leads_and_has_all_that_was_committed() {
    let mut world = world(&[("min.insync.replicas", "2")]);
    assert_eq!(send(&mut world, 1, "a", -1), 0);
    world.command(Command::StopBroker(NodeId(3))).unwrap();
    assert_eq!(send(&mut world, 1, "b", -1), 0);
    world.command(Command::StopBroker(NodeId(2))).unwrap();
    world.advance(Duration::from_secs(1));
    let partition = world.partition("t");
    assert_eq!((ids(&partition.isr), ids(&partition.elr)), (vec![1], vec![2]));
    // Below the minimum nothing is committed any more, so that whoever was eligible stays so.
    assert_eq!(send(&mut world, 1, "c", 1), 0);
    world.command(Command::KillBroker(NodeId(1))).unwrap();
    world.advance(SESSION);
    let partition = world.partition("t");
    assert_eq!((partition.leader, ids(&partition.isr)), (None, vec![]));
    start(&mut world, 3);
    assert_eq!(world.partition("t").leader, None, "it was out of sync when \"b\" was committed");
    start(&mut world, 2);
    assert_eq!(world.partition("t").leader, Some(NodeId(2)));
    assert_eq!(ids(&world.partition("t").isr), [2, 3]);
    assert_eq!(read(&mut world, 2), ["a", "b"]);
    assert_eq!(send(&mut world, 2, "d", -1), 0);
    start(&mut world, 1);
    assert_eq!(world.offsets("t", 1), (3, 3), "what it alone had is cut off");
}

#[test]
fn a_replica_that_died_is_eligible_no_more_and_leads_only_as_the_last_known() {
    let mut world = world(&[("min.insync.replicas", "2")]);
    assert_eq!(send(&mut world, 1, "a", -1), 0);
    for broker in [3, 2, 1] {
        world.command(Command::KillBroker(NodeId(broker))).unwrap();
        world.advance(SESSION);
    }
    let partition = world.partition("t");
    assert_eq!((partition.leader, ids(&partition.isr)), (None, vec![]));
    assert!(partition.elr.contains(&NodeId(1)), "{partition:?}");
    // It may have lost what it had: nobody takes its word for being complete.
    start(&mut world, 2);
    let partition = world.partition("t");
    assert_eq!(partition.leader, None);
    assert!(!partition.elr.contains(&NodeId(2)), "{partition:?}");
    start(&mut world, 3);
    assert_eq!(world.partition("t").leader, None);
    start(&mut world, 1);
    let partition = world.partition("t");
    assert_eq!(partition.leader, Some(NodeId(1)), "the last leader, since nobody is eligible");
    assert_eq!(read(&mut world, 1), ["a"]);
    world.advance(Duration::from_secs(3));
    assert_eq!(world.partition("t").isr.len(), 3);
}
