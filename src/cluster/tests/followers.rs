//! What followers answer clients, and what leaders answer of their followers: reads by rack, low watermarks, and who is
//! told to go elsewhere.

use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::fetch_response::PartitionData;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::list_offsets_response::ListOffsetsPartitionResponse;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::{
    BrokerId, DeleteRecordsRequest, DeleteRecordsResponse, ListOffsetsRequest, ListOffsetsResponse,
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};

use super::*;
use crate::controller::configs::RACK_AWARE_SELECTOR;

const OUT_OF_RANGE: i16 = 1;
const NOT_LEADER: i16 = 6;
const FENCED: i16 = 74;
const UNKNOWN_EPOCH: i16 = 75;

/// Three brokers in racks a, b and b; topic t is on all of them, and the first leads.
fn world(configs: &[(&str, &str)]) -> World {
    use crate::controller::configs::{Overrides, Resource};
    let node = |(id, rack): (i32, &str)| NodeConfig {
        id: NodeId(id),
        rack: Some(rack.into()),
        endpoints: vec![ListenerEndpoint {
            listener: "PLAINTEXT".into(),
            host: None,
            port: 9091 + id as u16,
        }],
        configs: Overrides::default(),
    };
    let fixed = Overrides::parse(Resource::Broker, configs.iter().copied()).unwrap();
    let mut world = World::of(ClusterConfig {
        nodes: [(1, "a"), (2, "b"), (3, "b")].map(node).into(),
        configs: BrokerConfigs { fixed, ..BrokerConfigs::default() },
        ..ClusterConfig::default()
    });
    world.create_replicated("t", &[1, 2, 3], &[]);
    world
}

fn selecting() -> World {
    world(&[("replica.selector.class", RACK_AWARE_SELECTOR)])
}

fn append(world: &mut World, broker: i32, values: &[&str]) {
    let connection = world.connect_to(broker);
    let request = produce("t", 0, batch(values, world.now_ms as i64), -1);
    let response: ProduceResponse = world.ask(connection, PRODUCE, &request);
    assert_eq!(error_of(&response), 0);
}

fn link(world: &mut World, from: i32, to: i32, cut: bool) {
    let link = Link { delay: Duration::ZERO, cut };
    let (from, to) = (Party::Broker(NodeId(from)), Party::Broker(NodeId(to)));
    world.command(Command::SetLink { from, to, link }).unwrap();
}

fn in_rack(rack: &'static str, offset: i64) -> FetchRequest {
    fetch("t", 0, offset).with_rack_id(StrBytes::from_static_str(rack))
}

/// The first partition of what a broker answers.
fn fetched(world: &mut World, broker: i32, version: i16, request: &FetchRequest) -> PartitionData {
    let connection = world.connect_to(broker);
    let response: FetchResponse = world.ask(connection, version, request);
    response.responses[0].partitions[0].clone()
}

#[test]
fn a_consumer_is_sent_to_a_replica_in_its_rack() {
    let mut world = selecting();
    append(&mut world, 1, &["a", "b"]);
    let told = fetched(&mut world, 1, FETCH, &in_rack("b", 0));
    assert_eq!(told.preferred_read_replica, BrokerId(3), "both have all; the higher id wins");
    assert_eq!((told.error_code, told.high_watermark, told.log_start_offset), (0, 2, 0));
    assert_eq!(told.records.map(|records| records.len()), Some(0), "nothing is read then");
    world.advance(Duration::from_millis(500));
    let read = fetched(&mut world, 3, FETCH, &in_rack("b", 0));
    assert_eq!(values(read.records.unwrap()), [(0, "a".to_owned()), (1, "b".to_owned())]);
    assert_eq!(read.preferred_read_replica, BrokerId(-1), "only the leader sends anybody elsewhere");
}

#[test]
fn a_consumer_stays_with_the_leader_where_nothing_is_better() {
    let mut world = selecting();
    append(&mut world, 1, &["a"]);
    for (version, request) in
        [(FETCH, in_rack("a", 0)), (FETCH, in_rack("c", 0)), (FETCH, in_rack("", 0)), (10, fetch("t", 0, 0))]
    {
        let read = fetched(&mut world, 1, version, &request);
        assert_eq!((read.preferred_read_replica, read.records.unwrap().is_empty()), (BrokerId(-1), false));
    }
    let mut world = self::world(&[]);
    append(&mut world, 1, &["a"]);
    let read = fetched(&mut world, 1, FETCH, &in_rack("b", 0));
    assert_eq!(read.preferred_read_replica, BrokerId(-1), "there is no selector by default");
}

#[test]
fn only_replicas_that_are_in_sync_and_have_the_offset_are_read_from() {
    let mut world = selecting();
    append(&mut world, 1, &["a"]);
    link(&mut world, 3, 1, true);
    let producer = world.connect();
    world.send(producer, PRODUCE, &produce("t", 0, batch(&["b"], 0), 1));
    assert_eq!(fetched(&mut world, 1, FETCH, &in_rack("b", 2)).preferred_read_replica, BrokerId(2));
    assert_eq!(fetched(&mut world, 1, FETCH, &in_rack("b", 0)).preferred_read_replica, BrokerId(2));
    world.command(Command::FreezeBroker(NodeId(2))).unwrap();
    world.advance(Duration::from_secs(50));
    assert_eq!(&*world.partition("t").isr, [NodeId(1)]);
    assert_eq!(fetched(&mut world, 1, FETCH, &in_rack("b", 0)).preferred_read_replica, BrokerId(-1));
}

#[test]
fn a_follower_serves_what_it_knows_to_be_committed() {
    let mut world = world(&[]);
    append(&mut world, 1, &["a"]);
    // The follower has the record, but doesn't know yet that the others have it.
    let read = fetched(&mut world, 2, FETCH, &in_rack("b", 0).with_max_wait_ms(0));
    assert_eq!((read.error_code, read.high_watermark, read.records.unwrap().len()), (0, 0, 0));
    let consumer = world.connect_to(2);
    let waiting = fetch("t", 0, 1).with_max_wait_ms(10_000);
    world.advance(Duration::from_millis(500));
    world.send(consumer, FETCH, &waiting);
    assert!(world.received::<FetchRequest>(consumer, FETCH).is_none());
    append(&mut world, 1, &["b"]);
    assert!(world.received::<FetchRequest>(consumer, FETCH).is_none(), "not committed as it knows");
    world.advance(Duration::from_millis(500));
    let response = world.received::<FetchRequest>(consumer, FETCH).expect("the high watermark has come");
    assert_eq!(values(records_of(&response)), [(1, "b".to_owned())]);
    assert_eq!(fetched(&mut world, 2, FETCH, &fetch("t", 0, 3)).error_code, OUT_OF_RANGE);
}

#[test]
fn consumers_that_know_no_racks_are_sent_from_followers_to_the_leader() {
    let mut world = world(&[]);
    append(&mut world, 1, &["a"]);
    assert_eq!(fetched(&mut world, 2, 10, &fetch("t", 0, 0)).error_code, NOT_LEADER);
}

fn as_follower(replica: i32, epoch: i32, offset: i64) -> FetchRequest {
    let mut request = fetch("t", 0, offset).with_replica_id(BrokerId(replica));
    request.topics[0].partitions[0].current_leader_epoch = epoch;
    request.with_max_wait_ms(0)
}

#[test]
fn fetches_of_others_than_followers_are_refused() {
    let mut world = world(&[]);
    let mut error = |broker, request| fetched(&mut world, broker, FETCH, &request).error_code;
    assert_eq!(error(1, as_follower(2, 0, 0)), 0);
    assert_eq!(error(1, as_follower(2, -1, 0)), 0);
    assert_eq!(error(1, as_follower(4, 0, 0)), UNKNOWN_EPOCH);
    assert_eq!(error(1, as_follower(4, -1, 0)), NOT_LEADER);
    assert_eq!(error(1, as_follower(2, 1, 0)), UNKNOWN_EPOCH);
    assert_eq!(error(1, as_follower(2, 0, 1)), OUT_OF_RANGE);
    assert_eq!(error(3, as_follower(2, 0, 0)), NOT_LEADER);
    world.create_topic("alone", 1, &[]);
    let mut request = as_follower(2, 0, 0);
    request.topics[0].topic = topic("alone");
    let leader = world.partition("alone").leader.unwrap().0;
    assert_eq!(fetched(&mut world, leader, FETCH, &request).error_code, UNKNOWN_EPOCH);
}

#[test]
fn a_fetch_in_a_followers_name_acknowledges() {
    let mut world = world(&[]);
    for follower in [2, 3] {
        link(&mut world, follower, 1, true);
    }
    let producer = world.connect();
    world.send(producer, PRODUCE, &produce("t", 0, batch(&["a"], 0), -1));
    assert_eq!(world.offsets("t", 1), (1, 0));
    for follower in [2, 3] {
        let read = fetched(&mut world, 1, FETCH, &as_follower(follower, 0, 0));
        assert!(!read.records.unwrap().is_empty(), "followers read what isn't committed");
        assert_eq!(fetched(&mut world, 1, FETCH, &as_follower(follower, 0, 1)).error_code, 0);
    }
    assert_eq!(world.offsets("t", 1), (1, 1));
    let response = world.received::<ProduceRequest>(producer, PRODUCE).expect("acknowledged");
    assert_eq!(error_of(&response), 0);
}

fn listed(
    world: &mut World,
    broker: i32,
    version: i16,
    asked: (i32, i32, i64),
) -> ListOffsetsPartitionResponse {
    let (replica, epoch, timestamp) = asked;
    let connection = world.connect_to(broker);
    let partition =
        ListOffsetsPartition::default().with_current_leader_epoch(epoch).with_timestamp(timestamp);
    let topics = vec![ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![partition])];
    let request = ListOffsetsRequest::default().with_replica_id(BrokerId(replica)).with_topics(topics);
    let response: ListOffsetsResponse = world.ask(connection, version, &request);
    response.topics[0].partitions[0].clone()
}

#[test]
fn the_leader_alone_lists_offsets_in_its_epoch() {
    let mut world = world(&[]);
    append(&mut world, 1, &["a"]);
    let mut error = |broker, asked| listed(&mut world, broker, 7, asked).error_code;
    assert_eq!(error(1, (-1, 0, -1)), 0);
    assert_eq!(error(1, (-1, 1, -1)), UNKNOWN_EPOCH);
    assert_eq!(error(2, (-1, 0, -1)), NOT_LEADER);
    assert_eq!(error(2, (-2, 0, -1)), 0, "a tool may ask a follower");
    assert_eq!(listed(&mut world, 2, 7, (-2, -1, -1)).offset, 1, "and is told the end of its log");
    world.command(Command::StopBroker(NodeId(1))).unwrap();
    assert_eq!(world.partition("t").leader, Some(NodeId(2)));
    assert_eq!(listed(&mut world, 2, 7, (-1, 0, -1)).error_code, FENCED);
}

#[test]
fn a_new_leader_does_not_say_where_the_log_ends_before_it_knows() {
    let mut world = world(&[]);
    append(&mut world, 1, &["a", "b"]);
    // Nobody has told the followers that this is committed. The next leader must hear from the other replica first.
    link(&mut world, 3, 2, true);
    world.command(Command::KillBroker(NodeId(1))).unwrap();
    world.advance(Duration::from_secs(10));
    assert_eq!((world.partition("t").leader, world.offsets("t", 2)), (Some(NodeId(2)), (2, 0)));
    const NOT_AVAILABLE: i16 = 78;
    const LEADER_NOT_AVAILABLE: i16 = 5;
    assert_eq!(listed(&mut world, 2, 7, (-1, -1, -1)).error_code, NOT_AVAILABLE);
    assert_eq!(listed(&mut world, 2, 4, (-1, -1, -1)).error_code, LEADER_NOT_AVAILABLE);
    assert_eq!(listed(&mut world, 2, 7, (-1, -1, 0)).error_code, NOT_AVAILABLE);
    assert_eq!(listed(&mut world, 2, 7, (-1, -1, -2)).error_code, 0, "the start is known");
    assert_eq!(listed(&mut world, 2, 7, (3, -1, -1)).offset, 2, "followers are told the log's end");
    link(&mut world, 3, 2, false);
    let found = listed(&mut world, 2, 7, (-1, -1, -1));
    assert_eq!((found.error_code, found.offset, found.leader_epoch), (0, 2, 1));
}

#[test]
fn epochs_end_where_the_leader_says_so() {
    let mut world = world(&[]);
    append(&mut world, 1, &["a", "b"]);
    world.command(Command::StopBroker(NodeId(1))).unwrap();
    append(&mut world, 2, &["c"]);
    let mut end = |broker, current: i32, epoch: i32| {
        let connection = world.connect_to(broker);
        let partition =
            OffsetForLeaderPartition::default().with_current_leader_epoch(current).with_leader_epoch(epoch);
        let topics =
            vec![OffsetForLeaderTopic::default().with_topic(topic("t")).with_partitions(vec![partition])];
        let request =
            OffsetForLeaderEpochRequest::default().with_replica_id(BrokerId(-1)).with_topics(topics);
        let response: OffsetForLeaderEpochResponse = world.ask(connection, 4, &request);
        let row = response.topics[0].partitions[0].clone();
        (row.error_code, row.leader_epoch, row.end_offset)
    };
    assert_eq!(end(2, -1, 0), (0, 0, 2));
    assert_eq!(end(2, 1, 1), (0, 1, 3));
    assert_eq!(end(2, 1, 2), (0, -1, -1));
    assert_eq!(end(2, 0, 0), (FENCED, -1, -1));
    assert_eq!(end(2, 2, 0), (UNKNOWN_EPOCH, -1, -1));
    assert_eq!(end(3, 1, 0), (NOT_LEADER, -1, -1));
}

#[test]
fn deleted_records_are_waited_for_on_every_living_replica() {
    let mut world = world(&[]);
    append(&mut world, 1, &["a", "b", "c"]);
    link(&mut world, 3, 1, true);
    let admin = world.connect();
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(2);
    let topics = vec![DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![partition])];
    let request = DeleteRecordsRequest::default().with_timeout_ms(60_000).with_topics(topics);
    world.send(admin, 2, &request);
    world.advance(Duration::from_secs(2));
    assert!(world.received::<DeleteRecordsRequest>(admin, 2).is_none(), "broker 3 can't say that it did");
    link(&mut world, 3, 1, false);
    world.advance(Duration::from_secs(1));
    let response: DeleteRecordsResponse = world.received::<DeleteRecordsRequest>(admin, 2).expect("done");
    let row = &response.topics[0].partitions[0];
    assert_eq!((row.error_code, row.low_watermark), (0, 2));
    let started = |broker| fetched(&mut world, broker, FETCH, &fetch("t", 0, 2)).log_start_offset;
    assert_eq!([1, 2, 3].map(started), [2, 2, 2]);
}

#[test]
fn a_replica_that_is_gone_holds_no_low_watermark_back() {
    let mut world = world(&[]);
    append(&mut world, 1, &["a", "b", "c"]);
    world.command(Command::KillBroker(NodeId(3))).unwrap();
    let admin = world.connect();
    let partition = DeleteRecordsPartition::default().with_partition_index(0).with_offset(-1);
    let topics = vec![DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![partition])];
    let request = DeleteRecordsRequest::default().with_timeout_ms(60_000).with_topics(topics);
    world.send(admin, 2, &request);
    world.advance(Duration::from_secs(8));
    assert!(world.received::<DeleteRecordsRequest>(admin, 2).is_none());
    world.advance(Duration::from_secs(2));
    let response: DeleteRecordsResponse = world.received::<DeleteRecordsRequest>(admin, 2).expect("done");
    assert_eq!(response.topics[0].partitions[0].low_watermark, 3);
}

#[test]
fn who_does_not_lead_tells_who_does() {
    let mut world = world(&[]);
    world.create_replicated("elsewhere", &[2], &[]);
    for (name, asked) in [("t", 3), ("elsewhere", 1)] {
        let connection = world.connect_to(asked);
        let leader = world.partition(name).leader.unwrap();
        let request = produce(if name == "t" { "t" } else { "elsewhere" }, 0, batch(&["a"], 0), 1);
        let response: ProduceResponse = world.ask(connection, 10, &request);
        let row = &response.responses[0].partition_responses[0];
        assert_eq!((row.error_code, row.current_leader.leader_id.0), (NOT_LEADER, leader.0), "{name}");
        assert_eq!(row.current_leader.leader_epoch, 0);
        let endpoint = &response.node_endpoints[0];
        assert_eq!((endpoint.node_id.0, endpoint.port), (leader.0, 9091 + leader.0));
    }
}
