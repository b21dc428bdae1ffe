//! What a cluster may hold: the cost of what is there, and that nothing keeps more than itself.

mod counting;

use bytes::{Bytes, BytesMut};
use huld::api::{Connection, Endpoint, Preparer, encode};
use huld::base::{ConnectionId, NodeId, Now};
use huld::cluster::{Cluster, ClusterConfig, Command, NodeConfig, Output};
use huld::controller::NewTopic;
use huld::wire::records::{BatchBuilder, BatchHeader};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, FetchRequest, FindCoordinatorRequest, GroupId, InitProducerIdRequest,
    ProduceRequest, RequestHeader, ResponseHeader, TopicName, TransactionalId,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

fn cluster() -> Cluster {
    Cluster::new(ClusterConfig::default(), Now::at_millis(0)).unwrap()
}

fn create(cluster: &mut Cluster, name: &str, partitions: i32) {
    let topic = NewTopic { name: name.to_owned(), partitions, replication_factor: 1, ..NewTopic::default() };
    cluster.handle_command(Now::at_millis(0), Command::CreateTopic(topic)).unwrap();
}

fn connect(cluster: &mut Cluster, id: u64) -> ConnectionId {
    let connection = Connection {
        node: NodeId(1),
        listener: "PLAINTEXT".into(),
        local: Endpoint { host: "127.0.0.1".into(), port: 9092 },
        peer: "127.0.0.1:1".into(),
    };
    cluster.handle_opened(Now::at_millis(0), ConnectionId(id), connection);
    ConnectionId(id)
}

fn frame<R: Request>(request: &R, version: i16) -> Bytes {
    let header = RequestHeader::default().with_request_api_key(R::KEY).with_request_api_version(version);
    let mut frame = BytesMut::new();
    header.encode(&mut frame, R::header_version(version)).unwrap();
    request.encode(&mut frame, version).unwrap();
    frame.freeze()
}

fn ask(cluster: &mut Cluster, id: ConnectionId, frame: Bytes) {
    let prepared = Preparer::default().prepare(frame).unwrap();
    cluster.handle_request(Now::at_millis(0), id, prepared);
}

fn name(name: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(name))
}

#[test]
fn ten_thousand_empty_partitions_cost_less_than_50_mib() {
    let mut cluster = cluster();
    let (_, held) = counting::measured(|| {
        for topic in 0..1000 {
            create(&mut cluster, &format!("topic-{topic}"), 10);
        }
    });
    assert!(held < 50 << 20, "{} KiB", held >> 10);
    assert!(held > 1 << 20, "the partitions are really there");
}

#[test]
fn three_replicas_with_their_indexes_keep_within_the_budget_of_log_memory() {
    const BUDGET: usize = 16 << 20;
    const PARTITIONS: i32 = 50;
    let mut config = ClusterConfig { log_memory_bytes: BUDGET, ..ClusterConfig::default() };
    let node = config.nodes.remove(0);
    config.nodes.extend((1..=3).map(|id| NodeConfig { id: NodeId(id), ..node.clone() }));
    let mut cluster = Cluster::new(config, Now::at_millis(0)).unwrap();
    let assignments = (0..PARTITIONS).map(|index| (index, [1, 2, 3].map(NodeId).to_vec())).collect();
    let topic = NewTopic { partitions: -1, replication_factor: -1, assignments, ..NewTopic::default() };
    let topic = NewTopic { name: "t".to_owned(), ..topic };
    cluster.handle_command(Now::at_millis(0), Command::CreateTopic(topic)).unwrap();
    let client = connect(&mut cluster, 1);
    let mut builder = BatchBuilder::new(BatchHeader::default());
    (0..5).for_each(|_| builder.push(1_000_000_000_000, None, Some(&[7; 200]), std::iter::empty()));
    let batch = builder.build().unwrap();
    let request = |index: i32| {
        let data = PartitionProduceData::default().with_index(index).with_records(Some(batch.clone()));
        let data = TopicProduceData::default().with_name(name("t")).with_partition_data(vec![data]);
        ProduceRequest::default().with_acks(-1).with_timeout_ms(1000).with_topic_data(vec![data])
    };
    let mut kept = 0;
    let (error, held) = counting::measured(|| {
        (0..).find_map(|at| {
            let response = answer(&mut cluster, client, 9, &request(at % PARTITIONS));
            let error = response.responses[0].partition_responses[0].error_code;
            kept += batch.len() * usize::from(error == 0);
            (error != 0).then_some(error)
        })
    });
    assert_eq!(error, Some(56), "KAFKA_STORAGE_ERROR");
    assert!(held <= BUDGET + BUDGET / 10, "{} KiB", held >> 10);
    // What is not, is room in each log's last chunk.
    assert!(kept >= BUDGET * 6 / 10, "{} KiB of records", kept >> 10);
}

#[test]
fn a_small_batch_does_not_keep_the_frame_that_it_came_in() {
    const FRAME: usize = 1 << 20;
    let mut cluster = cluster();
    create(&mut cluster, "t", 2);
    let client = connect(&mut cluster, 1);
    let batch = |bytes: usize| {
        let mut builder = BatchBuilder::new(BatchHeader::default());
        builder.push(1_000_000_000_000, None, Some(&vec![7; bytes]), std::iter::empty());
        builder.build().unwrap()
    };
    // The small batch is kept, and the large one refused: it is above max.message.bytes.
    let data = |index, records| PartitionProduceData::default().with_index(index).with_records(Some(records));
    let request = ProduceRequest::default().with_acks(1).with_timeout_ms(1000).with_topic_data(vec![
        TopicProduceData::default()
            .with_name(name("t"))
            .with_partition_data(vec![data(0, batch(100)), data(1, batch(FRAME + 1000))]),
    ]);
    let frame = frame(&request, 9);
    drop(request);
    let ((), peak) = counting::measured(|| {
        for _ in 0..20 {
            // A copy of the frame for each request, as if it had come over the wire.
            ask(&mut cluster, client, Bytes::copy_from_slice(&frame));
            while let Some(output) = cluster.poll_output() {
                assert!(matches!(output, Output::Reply(_)));
            }
        }
    });
    assert!(peak < 2 * FRAME, "{} KiB for frames of {} KiB, one at a time", peak >> 10, FRAME >> 10);
    assert!(cluster.log_bytes_held() > 0 && cluster.log_bytes_held() < FRAME / 4);
}

#[test]
fn a_fetch_that_waits_does_not_keep_its_frame_and_costs_little() {
    const CLIENTS: u64 = 1000;
    let mut cluster = cluster();
    create(&mut cluster, "t", 1);
    let padding = StrBytes::from_string("r".repeat(10_000));
    let request = FetchRequest::default()
        .with_max_wait_ms(60_000)
        .with_min_bytes(1)
        .with_max_bytes(i32::MAX)
        .with_session_epoch(-1)
        .with_rack_id(padding)
        .with_topics(vec![
            FetchTopic::default()
                .with_topic(name("t"))
                .with_partitions(vec![FetchPartition::default().with_partition_max_bytes(1 << 20)]),
        ]);
    let frame = frame(&request, 12);
    let clients: Vec<ConnectionId> = (0..CLIENTS).map(|id| connect(&mut cluster, id)).collect();
    let ((), held) = counting::measured(|| {
        for client in &clients {
            ask(&mut cluster, *client, Bytes::copy_from_slice(&frame));
        }
    });
    assert_eq!(cluster.waits(Now::at_millis(0)).len(), clients.len());
    let each = held as u64 / CLIENTS;
    assert!(each < 2048, "{each} bytes a wait");
}

/// The answer to a request that is answered at once.
fn answer<R: Request>(cluster: &mut Cluster, id: ConnectionId, version: i16, request: &R) -> R::Response
where
    R::Response: Decodable + HeaderVersion,
{
    ask(cluster, id, frame(request, version));
    let mut answer = None;
    while let Some(output) = cluster.poll_output() {
        if let Output::Reply(reply) = output {
            let (mut buffer, mut parts) = (BytesMut::new(), Vec::new());
            encode(&reply, &mut buffer, &mut parts).unwrap();
            answer = Some(Bytes::from(parts.concat()));
        }
    }
    let mut answer = answer.expect("an answer").split_off(4);
    ResponseHeader::decode(&mut answer, R::Response::header_version(version)).unwrap();
    R::Response::decode(&mut answer, version).unwrap()
}

fn find_coordinator(cluster: &mut Cluster, client: ConnectionId, key: &str, kind: i8) {
    let key = StrBytes::from_string(key.to_owned());
    let request = FindCoordinatorRequest::default().with_key(key).with_key_type(kind);
    assert_eq!(answer(cluster, client, 3, &request).error_code, 0);
}

#[test]
fn ten_thousand_members_of_one_group_cost_less_than_64_mib() {
    const MEMBERS: i32 = 10_000;
    let mut cluster = cluster();
    create(&mut cluster, "t", 100);
    let client = connect(&mut cluster, 1);
    find_coordinator(&mut cluster, client, "g", 0);
    let join = |at: i32| {
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str("g")))
            .with_member_id(StrBytes::from_string(format!(
                "{:032x}",
                u128::from(at as u32) * 0x9E37_79B9_7F4A_7C15
            )))
            .with_rebalance_timeout_ms(60_000)
            .with_topic_partitions(Some(Vec::new()))
            .with_subscribed_topic_names(Some(vec![name("t")]))
    };
    let (_, held) = counting::measured(|| {
        for at in 0..MEMBERS {
            let joined = answer(&mut cluster, client, 1, &join(at));
            assert_eq!((joined.error_code, joined.member_epoch), (0, at + 1));
        }
    });
    assert!(held < 64 << 20, "{} KiB", held >> 10);
    assert!(held > 4 << 20, "they are really there: {} KiB", held >> 10);
    // Who lives on and says nothing new leaves nothing behind.
    let beat = join(0).with_member_epoch(1).with_rebalance_timeout_ms(-1).with_topic_partitions(None);
    let beat = beat.with_subscribed_topic_names(None);
    answer(&mut cluster, client, 1, &beat);
    let epoch = answer(&mut cluster, client, 1, &beat).member_epoch;
    let (_, held) = counting::measured(|| {
        for _ in 0..10_000 {
            let answered = answer(&mut cluster, client, 1, &beat.clone().with_member_epoch(epoch));
            assert_eq!((answered.error_code, answered.member_epoch), (0, epoch));
        }
    });
    assert!(held < 1 << 20, "{} KiB", held >> 10);
}

#[test]
fn ten_thousand_transactional_ids_cost_less_than_32_mib() {
    let mut cluster = cluster();
    let client = connect(&mut cluster, 1);
    find_coordinator(&mut cluster, client, "id", 1);
    let begin = |cluster: &mut Cluster, at: i32| {
        let id = TransactionalId(StrBytes::from_string(format!("transactional-id-{at}")));
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id))
            .with_transaction_timeout_ms(60_000);
        assert_eq!(answer(cluster, client, 4, &request).error_code, 0);
    };
    let (_, held) = counting::measured(|| (0..10_000).for_each(|at| begin(&mut cluster, at)));
    assert!(held < 32 << 20, "{} KiB", held >> 10);
    assert!(held > 1 << 20, "they are really there: {} KiB", held >> 10);
}
