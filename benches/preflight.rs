//! What preflight costs beside the decoding that it guards.
//!
//! `cargo bench --bench preflight`. Each figure is the best of five rounds, on one core.

use std::hint::black_box;
use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use huld::wire::decode::decode;
use huld::wire::header::RequestHeader;
use huld::wire::preflight;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{FetchRequest, MetadataRequest, ProduceRequest, TopicName};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};

const ROUNDS: usize = 5;

fn main() {
    header();
    measure("Produce v13, 1 partition, 16 KiB", 0, 13, &produce());
    measure("Fetch v4, 1 partition", 1, 4, &fetch(1, 4));
    measure("Fetch v18, 1 partition", 1, 18, &fetch(1, 18));
    measure("Fetch v4, 100 partitions", 1, 4, &fetch(100, 4));
    measure("Fetch v18, 100 partitions", 1, 18, &fetch(100, 18));
    measure("Metadata v1, 10,000 topics", 3, 1, &metadata(1));
    measure("Metadata v12, 10,000 topics", 3, 12, &metadata(12));
}

fn measure<M: Encodable + Decodable>(name: &str, api_key: i16, version: i16, message: &M) {
    let mut encoded = BytesMut::new();
    message.encode(&mut encoded, version).expect("a message of this version");
    let body = encoded.freeze();
    let calls = 200_000_000 / (1_000 + 30 * body.len().min(1 << 18));
    let check = best_ns(calls, || preflight::check(api_key, version, black_box(&body)).expect("it passes"));
    let both =
        best_ns(calls, || decode::<M>(api_key, version, black_box(&body).clone()).expect("it decodes"));
    println!("{name:<34} {check:>10.0} ns preflight {both:>10.0} ns preflight and decode");
}

fn header() {
    let mut frame = BytesMut::new();
    frame.put_slice(&[0, 1, 0, 18, 0, 0, 0, 7, 0, 7]);
    frame.put_slice(b"rdkafka\0");
    let ns = best_ns(1_000_000, || RequestHeader::parse(black_box(&frame)).expect("a header"));
    println!("{:<34} {ns:>10.0} ns", "header v2");
}

/// Nanoseconds a call, in the best of the rounds.
fn best_ns<T>(calls: usize, mut call: impl FnMut() -> T) -> f64 {
    let round = |_| {
        let start = Instant::now();
        for _ in 0..calls {
            black_box(call());
        }
        start.elapsed().as_nanos() as f64 / calls as f64
    };
    (0..ROUNDS).map(round).fold(f64::INFINITY, f64::min)
}

fn produce() -> ProduceRequest {
    let partition = PartitionProduceData::default().with_records(Some(Bytes::from(vec![7; 16 << 10])));
    let topic = TopicProduceData::default()
        .with_topic_id(uuid::Uuid::from_u128(7))
        .with_partition_data(vec![partition]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(30_000).with_topic_data(vec![topic])
}

fn fetch(partitions: i32, version: i16) -> FetchRequest {
    let partitions = (0..partitions).map(|index| {
        FetchPartition::default()
            .with_partition(index)
            .with_fetch_offset(1_000)
            .with_partition_max_bytes(1 << 20)
    });
    let topic = FetchTopic::default().with_partitions(partitions.collect());
    let topic = match version {
        0..=12 => topic.with_topic(TopicName(StrBytes::from_static_str("a-topic"))),
        _ => topic.with_topic_id(uuid::Uuid::from_u128(7)),
    };
    FetchRequest::default().with_max_wait_ms(500).with_min_bytes(1).with_topics(vec![topic])
}

fn metadata(version: i16) -> MetadataRequest {
    let topics = (0..10_000).map(|index| {
        let name = StrBytes::from_string(format!("topic-{index}"));
        MetadataRequestTopic::default().with_name(Some(TopicName(name)))
    });
    MetadataRequest::default().with_topics(Some(topics.collect())).with_allow_auto_topic_creation(version < 4)
}
