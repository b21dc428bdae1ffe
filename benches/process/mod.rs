//! huld as a process of its own, and connections to it that speak raw frames, for what is measured from outside.

// Each benchmark uses a part of it.
#![allow(dead_code, reason = "compiled once for each benchmark")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{BufMut, Bytes, BytesMut};
use huld::wire::records::{BatchBuilder, BatchHeader};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    CreateTopicsRequest, MetadataRequest, ProduceRequest, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

/// The median of some figures.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A batch of one record of so many bytes, which is not too old to be kept.
pub fn batch(bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    builder.push(now.as_millis() as i64, None, Some(&vec![7; bytes]), std::iter::empty());
    builder.build().expect("a batch")
}

/// The name of a topic.
pub fn name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

/// A Produce request of one batch.
pub fn produce(topic: &str, index: i32, batch: &Bytes, acks: i16) -> Vec<u8> {
    let data = PartitionProduceData::default().with_index(index).with_records(Some(batch.clone()));
    let request = ProduceRequest::default().with_acks(acks).with_timeout_ms(30_000).with_topic_data(vec![
        TopicProduceData::default().with_name(name(topic)).with_partition_data(vec![data]),
    ]);
    framed(9, &request)
}

/// A request as it goes over a connection.
pub fn framed<R: Request>(version: i16, request: &R) -> Vec<u8> {
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
pub struct Client {
    stream: TcpStream,
}

impl Client {
    pub fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("a broker");
        stream.set_nodelay(true).expect("an option");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("an option");
        Client { stream }
    }

    /// Sends a request, or several.
    pub fn send(&mut self, frames: &[u8]) {
        self.stream.write_all(frames).expect("a broker that reads");
    }

    /// Sends a Produce and waits for its answer.
    pub fn exchange(&mut self, frame: &[u8]) {
        self.send(frame);
        self.read_produced();
    }

    /// Reads the answer to a Produce.
    pub fn read_produced(&mut self) {
        let answer = self.read::<ProduceRequest>(9);
        let error_code = answer.responses[0].partition_responses[0].error_code;
        assert_eq!(error_code, 0, "records are taken");
    }

    /// Reads an answer.
    pub fn read<R: Request>(&mut self, version: i16) -> R::Response
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

    /// Sends a request and waits for its answer.
    pub fn ask<R: Request>(&mut self, version: i16, request: &R) -> R::Response
    where
        R::Response: Decodable + HeaderVersion,
    {
        self.send(&framed(version, request));
        self.read::<R>(version)
    }

    /// A topic that keeps little.
    pub fn create_topic(&mut self, topic: &str, partitions: i32, replicas: i16) {
        let bounded = [("retention.bytes", "67108864"), ("segment.bytes", "16777216")];
        self.create(topic, partitions, replicas, &bounded);
    }

    /// A topic that keeps everything.
    pub fn create_topic_keeping_all(&mut self, topic: &str) {
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
    pub fn leader(&mut self, topic: &str, index: i32) -> String {
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

/// huld, until it is dropped.
pub struct Huld {
    process: Child,
    /// Where it listens; its first broker, if there are several.
    pub address: String,
}

impl Huld {
    /// Starts it on a free port with these options.
    pub fn start(options: &[&str]) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_huld"))
            .args(["--port", "0"])
            .args(options)
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
    pub fn processor_time(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.process.id())).expect("its figures");
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        let ticks: u64 = fields[11..13].iter().filter_map(|field| field.parse::<u64>().ok()).sum();
        Duration::from_millis(ticks * 10)
    }

    /// Memory that it has.
    pub fn resident_bytes(&self) -> usize {
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
