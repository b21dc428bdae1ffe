//! What waits on a leader of several replicas: for all of them, for some of them, and when it ceases to lead (Kafka's
//! `DelayedProduceTest`, `DelayedFetchTest`, `ReplicaManagerTest`).

use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::{BrokerId, DeleteRecordsRequest, IncrementalAlterConfigsRequest};

use super::*;

const TIMED_OUT: i16 = 7;
const NOT_LEADER: i16 = 6;
const FENCED: i16 = 74;

/// Topic t is on all of three brokers, and broker 1 leads. One record is committed.
fn world() -> World {
    let mut world = World::of_brokers(3, &[]);
    world.create_replicated("t", &[1, 2, 3], &[]);
    let producer = world.connect();
    world.send(producer, PRODUCE, &produce("t", 0, batch(&["a"], 0), -1));
    assert_eq!(error_of(&world.received::<ProduceRequest>(producer, PRODUCE).unwrap()), 0);
    world.advance(Duration::from_millis(600));
    world
}

/// Keeps the leader from hearing what its followers have, or lets it.
fn hold_back(world: &mut World, cut: bool) {
    for follower in [2, 3] {
        let (from, to) = (Party::Broker(NodeId(follower)), Party::Broker(NodeId(1)));
        world.command(Command::SetLink { from, to, link: Link { delay: Duration::ZERO, cut } }).unwrap();
    }
}

fn move_leader(world: &mut World, to: i32) {
    world.command(Command::MoveLeader { topic: "t".into(), index: 0, to: NodeId(to) }).unwrap();
}

#[test]
fn a_produce_that_waits_is_sent_to_the_next_leader() {
    let mut world = world();
    hold_back(&mut world, true);
    let producer = world.connect();
    let request = produce("t", 0, batch(&["b"], 0), -1).with_timeout_ms(60_000);
    world.send(producer, 10, &request);
    assert!(world.received::<ProduceRequest>(producer, 10).is_none());
    move_leader(&mut world, 2);
    let response = world.received::<ProduceRequest>(producer, 10).expect("at once");
    let row = &response.responses[0].partition_responses[0];
    assert_eq!((row.error_code, row.base_offset), (NOT_LEADER, -1));
    assert_eq!((row.current_leader.leader_id.0, row.current_leader.leader_epoch), (2, 1));
    assert_eq!(response.node_endpoints[0].node_id, BrokerId(2));
}

#[test]
fn of_several_partitions_those_that_are_not_replicated_in_time_have_timed_out() {
    let mut world = world();
    world.create_replicated("alone", &[1], &[]);
    hold_back(&mut world, true);
    let producer = world.connect();
    let mut request = produce("t", 0, batch(&["b"], 0), -1);
    request.topic_data.extend(produce("alone", 0, batch(&["c"], 0), -1).topic_data);
    request.topic_data.extend(produce("missing", 0, batch(&["d"], 0), -1).topic_data);
    world.send(producer, PRODUCE, &request);
    assert!(world.received::<ProduceRequest>(producer, PRODUCE).is_none(), "all are answered together");
    world.advance(Duration::from_secs(1));
    let response = world.received::<ProduceRequest>(producer, PRODUCE).expect("its time is up");
    let rows = response.responses.iter().map(|topic| {
        (
            topic.name.to_string(),
            topic.partition_responses[0].error_code,
            topic.partition_responses[0].base_offset,
        )
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    let expected = [("alone", 0, 0), ("missing", 3, -1), ("t", TIMED_OUT, -1)];
    assert_eq!(rows, expected.map(|(name, error, offset)| (name.to_owned(), error, offset)));
    assert_eq!(world.offsets("t", 1), (2, 1), "what has timed out is in the log");
}

#[test]
fn a_consumer_that_waits_where_nobody_leads_any_more_is_told_as_far_as_it_needs_to_know() {
    let waiting = |epoch: i32| {
        let mut request = fetch("t", 0, 1).with_max_wait_ms(10_000);
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        request
    };
    // A client that reads from leaders alone; one that may read from followers and names the epoch; one that doesn't.
    for (version, epoch, error) in
        [(10, -1, Some(NOT_LEADER)), (10, 0, Some(FENCED)), (12, 0, Some(FENCED)), (12, -1, None)]
    {
        let mut world = world();
        let consumer = world.connect();
        world.send(consumer, version, &waiting(epoch));
        assert!(world.received::<FetchRequest>(consumer, version).is_none());
        move_leader(&mut world, 2);
        let response = world.received::<FetchRequest>(consumer, version);
        let found = response.map(|response| response.responses[0].partitions[0].error_code);
        assert_eq!(found, error, "v{version}, epoch {epoch}");
        if error.is_some() {
            continue;
        }
        // It goes on at the follower, and has the next record once that knows it to be committed.
        let producer = world.connect_to(2);
        world.send(producer, PRODUCE, &produce("t", 0, batch(&["b"], 0), -1));
        world.advance(Duration::from_millis(600));
        let response = world.received::<FetchRequest>(consumer, version).expect("there is something to read");
        assert_eq!(values(records_of(&response)), [(1, "b".to_owned())]);
    }
}

#[test]
fn a_fetch_that_waits_tells_the_next_leader_where_the_version_has_it() {
    let mut world = world();
    let topic_id = world.cluster.controller().topics().by_name("t").unwrap().id;
    let mut request = fetch("t", 0, 1).with_max_wait_ms(10_000);
    request.topics[0].partitions[0].current_leader_epoch = 0;
    request.topics[0].topic_id = topic_id.into();
    let consumer = world.connect();
    world.send(consumer, 16, &request);
    move_leader(&mut world, 3);
    let response = world.received::<FetchRequest>(consumer, 16).expect("at once");
    let row = &response.responses[0].partitions[0];
    assert_eq!(
        (row.error_code, row.current_leader.leader_id.0, row.current_leader.leader_epoch),
        (FENCED, 3, 1)
    );
    assert_eq!(response.node_endpoints[0].node_id, BrokerId(3));
}

#[test]
fn records_that_are_not_committed_end_no_consumers_wait() {
    let mut world = world();
    hold_back(&mut world, true);
    let (consumer, producer) = (world.connect(), world.connect());
    world.send(consumer, FETCH, &fetch("t", 0, 1).with_max_wait_ms(10_000));
    // The followers' fetches that are there already bring the first, and say nothing of it.
    for value in ["b", "c"] {
        world.send(producer, PRODUCE, &produce("t", 0, batch(&[value], 0), 1));
    }
    assert_eq!(world.offsets("t", 1), (3, 1));
    assert!(world.received::<FetchRequest>(consumer, FETCH).is_none());
    for (offset, error) in [(2, 0), (3, 0), (4, 1)] {
        let client = world.connect();
        let response = world.ask(client, FETCH, &fetch("t", 0, offset).with_max_wait_ms(10_000));
        let row = &response.responses[0].partitions[0];
        assert_eq!(
            (row.error_code, row.records.as_ref().map_or(0, Bytes::len)),
            (error, 0),
            "at {offset}, at once"
        );
        assert_eq!(row.high_watermark, if error == 0 { 1 } else { -1 });
    }
    hold_back(&mut world, false);
    world.advance(Duration::from_secs(1));
    let response = world.received::<FetchRequest>(consumer, FETCH).expect("they are committed");
    assert_eq!(values(records_of(&response)).first(), Some(&(1, "b".to_owned())));
}

#[test]
fn records_that_are_to_be_deleted_are_the_next_leaders() {
    let mut world = world();
    hold_back(&mut world, true);
    let admin = world.connect();
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(1);
    let topics = vec![DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![partition])];
    let request = DeleteRecordsRequest::default().with_timeout_ms(60_000).with_topics(topics);
    world.send(admin, 2, &request);
    assert!(world.received::<DeleteRecordsRequest>(admin, 2).is_none());
    move_leader(&mut world, 2);
    let response = world.received::<DeleteRecordsRequest>(admin, 2).expect("at once");
    let row = &response.topics[0].partitions[0];
    assert_eq!((row.error_code, row.low_watermark), (NOT_LEADER, -1));
    let waits = world.cluster.waits(world.now());
    assert!(waits.iter().all(|wait| wait.connection.is_none()), "no client waits any more");
}

#[test]
fn records_that_are_not_deleted_everywhere_in_time_have_timed_out() {
    let mut world = world();
    hold_back(&mut world, true);
    let admin = world.connect();
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(1);
    let topics = vec![DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![partition])];
    let request = DeleteRecordsRequest::default().with_timeout_ms(2_000).with_topics(topics);
    world.send(admin, 2, &request);
    world.advance(Duration::from_millis(1_999));
    assert!(world.received::<DeleteRecordsRequest>(admin, 2).is_none());
    world.advance(Duration::from_millis(1));
    let response = world.received::<DeleteRecordsRequest>(admin, 2).expect("its time is up");
    assert_eq!(response.topics[0].partitions[0].error_code, TIMED_OUT);
}

fn set_link(world: &mut World, from: Party, link: Link) {
    world.command(Command::SetLink { from, to: Party::Broker(NodeId(1)), link }).unwrap();
}

fn set_min_insync_replicas(world: &mut World, count: &str) {
    let text = |text: &str| StrBytes::from_string(text.to_owned());
    let config =
        AlterableConfig::default().with_name(text("min.insync.replicas")).with_value(Some(text(count)));
    let resource = AlterConfigsResource::default()
        .with_resource_type(2)
        .with_resource_name(text("t"))
        .with_configs(vec![config]);
    let client = world.connect_to(2);
    let request = IncrementalAlterConfigsRequest::default().with_resources(vec![resource]);
    // Answered once all brokers have heard of it.
    world.send(client, 1, &request);
    let topic = world.cluster.controller().topics().by_name("t").unwrap();
    assert_eq!(topic.config.min_insync_replicas.to_string(), count);
}

/// What a producer gets if the controller has decided something, and the leader hears of it at the same time as of the last
/// in-sync follower's having the records: after that, or before.
fn at_the_same_time(hears_after: bool, decides: impl Fn(&mut World)) -> Option<i16> {
    let mut world = world();
    set_min_insync_replicas(&mut world, "2");
    let frozen = Command::FreezeFetcher { broker: NodeId(3), topic: "t".into(), index: 0, frozen: true };
    world.command(frozen).unwrap();
    // So long that it doesn't count as one that is about to be in sync.
    world.advance(Duration::from_secs(60));
    let shrink = Command::SetIsr { topic: "t".into(), index: 0, isr: vec![NodeId(1), NodeId(2)] };
    world.command(shrink).unwrap();
    let (follower, controller) = (Party::Broker(NodeId(2)), Party::Controller);
    let cut = Link { delay: Duration::ZERO, cut: true };
    set_link(&mut world, follower, cut);
    set_link(&mut world, controller, cut);
    let producer = world.connect();
    world.send(producer, PRODUCE, &produce("t", 0, batch(&["b"], 0), -1));
    decides(&mut world);
    assert_eq!((world.offsets("t", 1), world.offsets("t", 2).0), ((2, 1), 2));
    let slow = Link { delay: Duration::from_millis(10), cut: false };
    let order = if hears_after { [follower, controller] } else { [controller, follower] };
    order.into_iter().for_each(|from| set_link(&mut world, from, slow));
    world.advance(Duration::from_millis(9));
    assert!(world.received::<ProduceRequest>(producer, PRODUCE).is_none());
    world.advance(Duration::from_millis(1));
    let at_once = world.received::<ProduceRequest>(producer, PRODUCE).map(|response| error_of(&response));
    world.advance(Duration::from_secs(1));
    assert_eq!(world.offsets("t", 1).0, 2, "the record stays in the log");
    at_once.or_else(|| world.received::<ProduceRequest>(producer, PRODUCE).map(|late| error_of(&late)))
}

#[test]
fn records_that_are_committed_as_too_few_are_left_in_sync_are_not_acknowledged() {
    let more = |world: &mut World| set_min_insync_replicas(world, "3");
    let fewer = |world: &mut World| {
        let shrink = Command::SetIsr { topic: "t".into(), index: 0, isr: vec![NodeId(1)] };
        world.command(shrink).unwrap();
    };
    let not_enough_after_append = Some(20);
    assert_eq!(at_the_same_time(true, |_| ()), Some(0));
    assert_eq!(at_the_same_time(true, more), not_enough_after_append);
    assert_eq!(at_the_same_time(true, fewer), not_enough_after_append);
    // The other way round they are not committed (KIP-966), unless the fetch brings the follower back.
    assert_eq!(at_the_same_time(false, more), Some(TIMED_OUT));
    assert_eq!(at_the_same_time(false, fewer), Some(0));
}
