//! Work that would take long is done in steps, between which others are served: counted, since a test's time says little.

use super::consumer_groups::Member;
use super::*;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_producers_request::TopicRequest as DescribeProducersTopic;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::{
    DeleteTopicsRequest, DeleteTopicsResponse, DescribeProducersRequest, DescribeProducersResponse,
    FindCoordinatorRequest, GroupId, OffsetCommitRequest, OffsetFetchRequest, ProduceRequest, TopicName,
};

/// Calls [`Cluster::handle_timeout`] for as long as it is due now. Returns how often.
fn steps(world: &mut World) -> usize {
    let mut calls = 0;
    while world.cluster.poll_timeout().is_some_and(|due| due <= world.now().instant) {
        let now = world.now();
        world.cluster.handle_timeout(now);
        world.collect();
        calls += 1;
    }
    calls
}

fn keyed(keys: impl Iterator<Item = usize>, value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    for key in keys {
        builder.push(0, Some(format!("{key}").as_bytes()), Some(value), std::iter::empty());
    }
    builder.build().unwrap()
}

#[test]
fn a_large_log_is_compacted_in_steps_between_which_others_are_served() {
    const ROUNDS: usize = 6;
    const BATCHES: usize = 16;
    const RECORDS: usize = 400;
    let mut world = World::new();
    world.create_topic("t", 1, &[("cleanup.policy", "compact"), ("segment.bytes", "1048576")]);
    world.create_topic("other", 1, &[]);
    let client = world.connect();
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        for first in 0..BATCHES {
            let batch = keyed((0..RECORDS).map(|key| first * RECORDS + key), &[b'v'; 100]);
            bytes += batch.len();
            assert_eq!(
                error_of(&world.ask::<ProduceRequest>(client, PRODUCE, &produce("t", 0, batch, -1))),
                0
            );
        }
    }
    let held = world.cluster.log_bytes_held();
    // The cleaner's next round comes, and half of what it does.
    world.now_ms = 15_000;
    let mut calls = 0;
    while calls < 12 {
        let now = world.now();
        world.cluster.handle_timeout(now);
        calls += 1;
    }
    let other: ProduceResponse = world.ask(client, PRODUCE, &produce("other", 0, batch(&["x"], 0), -1));
    assert_eq!(error_of(&other), 0);
    let before: FetchResponse = world.ask(client, FETCH, &fetch("t", 0, 0));
    assert_eq!(before.responses[0].partitions[0].error_code, 0);

    calls += steps(&mut world);
    assert!(calls > bytes / (128 << 10), "{calls} calls for {bytes} bytes");
    assert!(calls < 4 * bytes / (128 << 10), "{calls} calls for {bytes} bytes");
    assert!(world.cluster.log_bytes_held() < held / 2, "superseded records are gone");
    let first: FetchResponse = world.ask(client, FETCH, &fetch("t", 0, 0));
    let partition = &first.responses[0].partitions[0];
    assert_eq!(partition.high_watermark as usize, ROUNDS * BATCHES * RECORDS);
    let (offset, _) = values(partition.records.clone().unwrap())[0];
    assert!(
        offset as usize >= (ROUNDS - 2) * BATCHES * RECORDS,
        "{offset}: the first that nothing superseded"
    );
}

#[test]
fn ten_thousand_logs_lose_their_records_in_steps() {
    const PARTITIONS: i32 = 10_000;
    let mut world = World::new();
    world.create_topic("t", PARTITIONS, &[("retention.ms", "1000")]);
    let client = world.connect();
    for index in 0..PARTITIONS {
        let response = world.ask(client, PRODUCE, &produce("t", index, batch(&["x"], 0), -1));
        assert_eq!(error_of(&response), 0);
    }
    assert!(world.cluster.log_bytes_held() > 0);
    world.advance(Duration::from_secs(29));
    world.now_ms = 30_000;
    let calls = steps(&mut world);
    assert_eq!(calls, (PARTITIONS as usize).div_ceil(256), "so many logs a call");
    assert_eq!(world.cluster.log_bytes_held(), 0);
}

#[test]
fn a_thousand_long_polls_expire_in_steps() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let clients: Vec<ConnectionId> = (0..1_000).map(|_| world.connect()).collect();
    for &client in &clients {
        world.send(client, FETCH, &fetch("t", 0, 0));
    }
    world.now_ms += 500;
    assert_eq!(steps(&mut world), 1_000usize.div_ceil(256));
    for &client in &clients {
        assert!(world.received::<FetchRequest>(client, FETCH).is_some());
    }
}

/// A client that has asked for a coordinator, so that there is one.
fn with_coordinator(world: &mut World) -> ConnectionId {
    let client = world.connect();
    let find = FindCoordinatorRequest::default().with_coordinator_keys(vec![StrBytes::from_static_str("g")]);
    assert_eq!(world.ask(client, 4, &find).coordinators[0].error_code, 0);
    client
}

/// Commits an offset of partition 0 of each topic for a group that nobody is a member of.
fn commit(world: &mut World, client: ConnectionId, group: &str, topics: &[String]) {
    let topics = topics.iter().map(|topic| {
        let partition = OffsetCommitRequestPartition::default().with_committed_offset(7);
        let name = TopicName(StrBytes::from_string(topic.clone()));
        OffsetCommitRequestTopic::default().with_name(name).with_partitions(vec![partition])
    });
    let group = GroupId(StrBytes::from_string(group.to_owned()));
    let request = OffsetCommitRequest::default()
        .with_group_id(group)
        .with_generation_id_or_member_epoch(-1)
        .with_topics(topics.collect());
    let response = world.ask(client, 7, &request);
    assert!(response.topics.iter().all(|topic| topic.partitions[0].error_code == 0));
}

/// How many offsets the groups have committed.
fn committed(world: &mut World, client: ConnectionId, groups: &[String]) -> usize {
    let groups = groups.iter().map(|group| {
        let group = GroupId(StrBytes::from_string(group.clone()));
        OffsetFetchRequestGroup::default().with_group_id(group).with_topics(None)
    });
    let response = world.ask(client, 8, &OffsetFetchRequest::default().with_groups(groups.collect()));
    response.groups.iter().map(|group| group.topics.len()).sum()
}

#[test]
fn what_was_committed_for_a_thousand_topics_goes_with_them_in_steps() {
    const TOPICS: usize = 1_000;
    let mut world = World::new();
    let client = with_coordinator(&mut world);
    let topics: Vec<String> = (0..TOPICS).map(|at| format!("t{at}")).collect();
    for name in topics.clone() {
        let topic = NewTopic { name, partitions: 1, replication_factor: 1, ..NewTopic::default() };
        world.command(Command::CreateTopic(topic)).unwrap();
    }
    let groups: Vec<String> = (0..20).map(|at| format!("g{at}")).collect();
    groups.iter().for_each(|group| commit(&mut world, client, group, &topics));
    assert_eq!(committed(&mut world, client, &groups), groups.len() * TOPICS);

    let deleted = topics.iter().map(|topic| {
        DeleteTopicState::default().with_name(Some(TopicName(StrBytes::from_string(topic.clone()))))
    });
    let request = DeleteTopicsRequest::default().with_topics(deleted.collect()).with_timeout_ms(1_000);
    let response: DeleteTopicsResponse = world.ask(client, 6, &request);
    assert!(response.responses.iter().all(|topic| topic.error_code == 0));
    let left = committed(&mut world, client, &groups);
    assert_eq!(left, groups.len() * (TOPICS - 256), "so many topics a call");
    // One that is made again has no offsets of the earlier one, whatever is left to do; and that call takes a step too.
    world.create_topic("t999", 1, &[]);
    assert_eq!(committed(&mut world, client, &groups), left - groups.len() * (1 + 256));
    commit(&mut world, client, &groups[0], &topics[999..]);
    assert_eq!(steps(&mut world), 2);
    assert_eq!(committed(&mut world, client, &groups), 1);
}

#[test]
fn groups_are_cleaned_up_in_steps_of_one_partition() {
    let mut world = World::with(&[("offsets.retention.minutes", "1"), ("offsets.topic.num.partitions", "5")]);
    let client = with_coordinator(&mut world);
    let topics = ["t".to_owned()];
    world.create_topic("t", 1, &[]);
    let groups: Vec<String> = (0..20).map(|at| format!("g{at}")).collect();
    groups.iter().for_each(|group| commit(&mut world, client, group, &topics));
    // Before the round of 10 minutes, and in it.
    world.advance(Duration::from_millis(599_999));
    assert_eq!(committed(&mut world, client, &groups), groups.len());
    world.now_ms = 601_000;
    assert!(steps(&mut world) >= 5);
    assert_eq!(committed(&mut world, client, &groups), 0);
}

#[test]
fn idle_producers_of_a_thousand_logs_are_forgotten_in_steps() {
    const PARTITIONS: i32 = 1_000;
    let mut world = World::with(&[("producer.id.expiration.ms", "1000")]);
    world.create_topic("t", PARTITIONS, &[]);
    let client = world.connect();
    for index in 0..PARTITIONS {
        let header =
            BatchHeader { producer_id: 5, producer_epoch: 0, base_sequence: 0, ..BatchHeader::default() };
        let mut builder = BatchBuilder::new(header);
        builder.push(0, None, Some(b"x"), std::iter::empty());
        let response = world.ask(client, PRODUCE, &produce("t", index, builder.build().unwrap(), -1));
        assert_eq!(error_of(&response), 0);
    }
    let producers = |world: &mut World| {
        let topic = DescribeProducersTopic::default()
            .with_name(TopicName(StrBytes::from_static_str("t")))
            .with_partition_indexes((0..PARTITIONS).collect());
        let request = DescribeProducersRequest::default().with_topics(vec![topic]);
        let response: DescribeProducersResponse = world.ask(client, 0, &request);
        response.topics[0].partitions.iter().map(|partition| partition.active_producers.len()).sum::<usize>()
    };
    assert_eq!(producers(&mut world), PARTITIONS as usize);
    world.advance(Duration::from_millis(599_999));
    assert_eq!(producers(&mut world), PARTITIONS as usize);
    world.now_ms = 600_000;
    let now = world.now();
    world.cluster.handle_timeout(now);
    assert_eq!(producers(&mut world), PARTITIONS as usize - 256);
    assert_eq!(steps(&mut world), 3);
    assert_eq!(producers(&mut world), 0);
}

#[test]
fn many_regular_expressions_are_resolved_in_steps_between_which_others_are_served() {
    const TOPICS: usize = 200;
    let mut world = super::groups::world();
    for at in 0..TOPICS {
        let topic = NewTopic {
            name: format!("topic-{at}"),
            partitions: 1,
            replication_factor: 1,
            ..NewTopic::default()
        };
        world.command(Command::CreateTopic(topic)).unwrap();
    }
    let mut members: Vec<Member> = (0..TOPICS).map(|_| Member::new(&mut world, "")).collect();
    for (at, member) in members.iter_mut().enumerate() {
        member.id = format!("member-{at:03}").leak();
        let regex = StrBytes::from_string(format!("(topic|thing)-{at}"));
        let joining = member.joining().with_subscribed_topic_regex(Some(regex));
        assert_eq!(member.ask(&mut world, &joining).error_code, 0);
    }
    // One is looked for; then others are served, and all the others are resolved.
    let now = world.now();
    world.cluster.handle_timeout(now);
    let client = world.connect();
    let other: ProduceResponse = world.ask(client, PRODUCE, &produce("topic-0", 0, batch(&["x"], 0), -1));
    assert_eq!(error_of(&other), 0);
    assert_eq!(members[0].beat(&mut world).error_code, 0);
    assert_eq!(members[0].count(), 0, "nobody has anything yet");
    let calls = steps(&mut world);
    assert!((50..500).contains(&calls), "{calls} calls");
    // Those that are told of their target have what their expression matches.
    for round in 0..2 {
        for (at, member) in members.iter_mut().enumerate() {
            assert_eq!(member.beat(&mut world).error_code, 0);
            assert!(round == 0 || member.count() == 1, "member {at} has {}", member.count());
        }
    }
}

#[test]
fn what_the_coordinators_of_a_broker_had_is_freed_in_steps_of_one_partition() {
    let mut world = World::with(&[("offsets.topic.num.partitions", "5")]);
    let client = with_coordinator(&mut world);
    let topics = ["t".to_owned()];
    world.create_topic("t", 1, &[]);
    let groups: Vec<String> = (0..20).map(|at| format!("g{at}")).collect();
    groups.iter().for_each(|group| commit(&mut world, client, group, &topics));
    let broker = NodeId(1);
    world.command(Command::StopBroker(broker)).unwrap();
    assert_eq!(steps(&mut world), 5, "though it is down");
    world.command(Command::StartBroker { broker, kept: Kept::Everything }).unwrap();
    world.advance(Duration::from_millis(10));
    let client = world.connect();
    assert_eq!(committed(&mut world, client, &groups), groups.len());
    // A killed one has them until it starts again.
    world.command(Command::KillBroker(broker)).unwrap();
    assert_eq!(steps(&mut world), 0);
    world.command(Command::StartBroker { broker, kept: Kept::Everything }).unwrap();
    assert!(steps(&mut world) >= 5);
    let client = world.connect();
    assert_eq!(committed(&mut world, client, &groups), groups.len());
}
