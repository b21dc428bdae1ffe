//! What replication costs: three brokers, one partition on three replicas, acks=1 and acks=all in turn.
//!
//! `cargo bench --bench replication` starts huld with three brokers; `-- HOST:PORT` measures another cluster instead, such
//! as three brokers of Apache Kafka, where figures of processor and memory are left out. Plain numbers, over loopback.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use huld::wire::records::{BatchBuilder, BatchHeader};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    CreateTopicsRequest, MetadataRequest, ProduceRequest, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(700);
const PARTITIONS: i32 = 4;
const IN_FLIGHT: usize = 5;

fn main() {
    let address = std::env::args().skip(1).find(|argument| argument.contains(':'));
    let started = address.is_none().then(Huld::start);
    let address = address.or_else(|| started.as_ref().map(|huld| huld.address.clone())).expect("an address");
    let mut admin = Client::connect(&address);
    for (name, partitions, replicas) in [("one", 1, 3), ("single", PARTITIONS, 1), ("triple", PARTITIONS, 3)]
    {
        admin.create_topic(name, partitions, replicas);
    }
    one_in_flight(&mut admin, started.as_ref());
    throughput(&mut admin);
    if let Some(huld) = &started {
        memory(&mut admin, huld);
    }
}

/// 200 bytes, one request in flight.
fn one_in_flight(admin: &mut Client, huld: Option<&Huld>) {
    let batch = batch(200);
    let mut leader = Client::connect(&admin.leader("one", 0));
    let mut times = [Vec::new(), Vec::new()];
    let mut processor = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (at, acks) in [(0, 1), (1, -1)] {
            let frame = produce("one", 0, &batch, acks);
            let (began, used) = (Instant::now(), huld.map(Huld::processor_time));
            let mut count = 0;
            while began.elapsed() < ROUND {
                leader.exchange(&frame);
                count += 1;
            }
            times[at].push(began.elapsed().as_secs_f64() * 1e6 / f64::from(count));
            if let (Some(huld), Some(used)) = (huld, used) {
                let used = huld.processor_time() - used;
                processor[at].push(used.as_secs_f64() * 1e6 / f64::from(count));
            }
        }
    }
    let [one, all] = times.map(median);
    println!(
        "200 B, 1 in flight, 3 replicas: acks=1 {one:.1} us, acks=all {all:.1} us, {:.1} us more",
        all - one
    );
    let [one, all] = processor.map(median);
    if huld.is_some() {
        println!(
            "  processor time of the brokers: acks=1 {one:.1} us, acks=all {all:.1} us, {:.2} times",
            all / one
        );
    }
}

/// 16 KiB, 4 connections with 5 in flight each, acks=all.
fn throughput(admin: &mut Client) {
    let batch = batch(16 << 10);
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (at, topic) in ["single", "triple"].into_iter().enumerate() {
            let leaders: Vec<String> = (0..PARTITIONS).map(|index| admin.leader(topic, index)).collect();
            let began = Instant::now();
            let threads = (0..PARTITIONS).map(|index| {
                let frame = produce(topic, index, &batch, -1);
                let leader = leaders[index as usize].clone();
                std::thread::spawn(move || Client::connect(&leader).stream(&frame, ROUND))
            });
            let threads: Vec<_> = threads.collect();
            let count: usize = threads.into_iter().map(|thread| thread.join().expect("a client")).sum();
            rates[at].push((count * batch.len()) as f64 / 1e6 / began.elapsed().as_secs_f64());
        }
    }
    let [single, triple] = rates.map(median);
    println!(
        "16 KiB, {PARTITIONS} x {IN_FLIGHT} in flight, acks=all: 1 replica {single:.0} MB/s, 3 replicas {triple:.0} MB/s, \
         {:.0} %",
        100.0 * triple / single
    );
}

/// What records take that three replicas hold.
fn memory(admin: &mut Client, huld: &Huld) {
    const BYTES: usize = 512 << 20;
    admin.create_topic_keeping_all("kept");
    let batch = batch(64 << 10);
    let frame = produce("kept", 0, &batch, -1);
    let mut leader = Client::connect(&admin.leader("kept", 0));
    let before = huld.resident_bytes();
    let mut written = 0;
    while written < BYTES {
        leader.exchange(&frame);
        written += batch.len();
    }
    let grown = huld.resident_bytes() - before;
    println!("3 replicas of {} MiB: {:.3} bytes a byte", written >> 20, grown as f64 / written as f64);
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

fn batch(bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    builder.push(1_700_000_000_000, None, Some(&vec![7; bytes]), std::iter::empty());
    builder.build().expect("a batch")
}

fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

fn produce(topic: &str, index: i32, batch: &Bytes, acks: i16) -> Vec<u8> {
    let data = PartitionProduceData::default().with_index(index).with_records(Some(batch.clone()));
    let request = ProduceRequest::default().with_acks(acks).with_timeout_ms(30_000).with_topic_data(vec![
        TopicProduceData::default().with_name(name(topic)).with_partition_data(vec![data]),
    ]);
    framed(9, &request)
}

fn framed<R: Request>(version: i16, request: &R) -> Vec<u8> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_client_id(None);
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    header.encode(&mut frame, R::header_version(version)).expect("a header");
    request.encode(&mut frame, version).expect("a request");
    let length = frame.len() as i32 - 4;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame.to_vec()
}

/// A connection that speaks raw frames.
struct Client {
    stream: TcpStream,
}

impl Client {
    fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("a broker");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
        Client { stream }
    }

    /// Sends a Produce and waits for its answer.
    fn exchange(&mut self, frame: &[u8]) {
        self.stream.write_all(frame).expect("a broker that reads");
        self.read_produced();
    }

    /// Keeps some requests in flight for so long; returns how many were answered.
    fn stream(mut self, frame: &[u8], long: Duration) -> usize {
        let end = Instant::now() + long;
        (0..IN_FLIGHT).for_each(|_| self.stream.write_all(frame).expect("a broker that reads"));
        let mut count = 0;
        while Instant::now() < end {
            self.read_produced();
            self.stream.write_all(frame).expect("a broker that reads");
            count += 1;
        }
        (0..IN_FLIGHT).for_each(|_| self.read_produced());
        count + IN_FLIGHT
    }

    fn read_produced(&mut self) {
        let answer = self.read::<ProduceRequest>(9);
        let error_code = answer.responses[0].partition_responses[0].error_code;
        assert_eq!(error_code, 0, "records are taken");
    }

    fn read<R: Request>(&mut self, version: i16) -> R::Response
    where
        R::Response: Decodable + HeaderVersion,
    {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).expect("an answer");
        let mut frame = vec![0; i32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame).expect("an answer");
        let mut frame = Bytes::from(frame);
        ResponseHeader::decode(&mut frame, R::Response::header_version(version)).expect("a header");
        R::Response::decode(&mut frame, version).expect("an answer")
    }

    fn ask<R: Request>(&mut self, version: i16, request: &R) -> R::Response
    where
        R::Response: Decodable + HeaderVersion,
    {
        self.stream.write_all(&framed(version, request)).expect("a broker that reads");
        self.read::<R>(version)
    }

    fn create_topic(&mut self, topic: &str, partitions: i32, replicas: i16) {
        let bounded = [("retention.bytes", "67108864"), ("segment.bytes", "16777216")];
        self.create(topic, partitions, replicas, &bounded);
    }

    fn create_topic_keeping_all(&mut self, topic: &str) {
        self.create(topic, 1, 3, &[("retention.ms", "-1")]);
    }

    fn create(&mut self, topic: &str, partitions: i32, replicas: i16, configs: &[(&str, &str)]) {
        let config = |(name, value): &(&str, &str)| {
            CreatableTopicConfig::default()
                .with_name(StrBytes::from_string((*name).to_owned()))
                .with_value(Some(StrBytes::from_string((*value).to_owned())))
        };
        let request = CreateTopicsRequest::default().with_timeout_ms(30_000).with_topics(vec![
            CreatableTopic::default()
                .with_name(name(topic))
                .with_num_partitions(partitions)
                .with_replication_factor(replicas)
                .with_configs(configs.iter().map(config).collect()),
        ]);
        let created = self.ask(7, &request);
        // 36: an earlier run has made it.
        assert!(matches!(created.topics[0].error_code, 0 | 36), "{:?}", created.topics[0].error_message);
    }

    /// The address of a partition's leader, once there is one.
    fn leader(&mut self, topic: &str, index: i32) -> String {
        let topics = vec![MetadataRequestTopic::default().with_name(Some(name(topic)))];
        let request =
            MetadataRequest::default().with_topics(Some(topics)).with_allow_auto_topic_creation(false);
        for _ in 0..200 {
            let metadata = self.ask(12, &request);
            let partitions = metadata.topics.iter().flat_map(|topic| &topic.partitions);
            let partition = partitions.into_iter().find(|partition| partition.partition_index == index);
            let leader = partition.map(|partition| partition.leader_id);
            let broker = metadata.brokers.iter().find(|broker| Some(broker.node_id) == leader);
            if let Some(broker) = broker {
                return format!("{}:{}", &*broker.host, broker.port);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{topic}-{index} gets no leader");
    }
}

/// huld with three brokers.
struct Huld {
    process: Child,
    address: String,
}

impl Huld {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_huld"))
            .args(["--brokers", "3", "--port", "0"])
            .stdout(Stdio::piped())
            .spawn()
            .expect("huld starts");
        let lines = BufReader::new(process.stdout.take().expect("its output")).lines();
        let address = lines
            .map_while(Result::ok)
            .find_map(|line| Some(line.split_once("PLAINTEXT://")?.1.to_owned()))
            .expect("it says where it listens");
        Huld { process, address }
    }

    /// Processor time that it has used.
    fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("its figures");
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks: u64 = fields[11..13].iter().filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }

    fn resident_bytes(&self) -> usize {
        let statm =
            std::fs::read_to_string(format!("/proc/{}/statm", self.process.id())).expect("its figures");
        statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap_or(0) * 4096
    }
}

impl Drop for Huld {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
