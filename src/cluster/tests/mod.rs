//! A cluster and clients in one thread, with the clock as a value: requests go through the same steps as over a socket,
//! bytes and all.

mod admin;
mod answers;
mod bad_input;
mod classic_groups;
mod configs;
mod consumer_groups;
mod coordinator_limits;
mod coordinators;
mod coordinators_over_brokers;
mod delayed;
mod elections;
mod features;
mod fetching;
mod followers;
mod group_commits;
mod group_failover;
mod group_load;
mod group_migration;
mod groups;
mod holds;
mod idempotence;
mod lifecycle;
mod offsets;
mod producing;
mod reconciliation;
mod replication;
mod several_brokers;
mod stalls;
mod telemetry;
mod topics;
mod transaction_offsets;
mod transaction_scenarios;
mod transactions;
mod transactions_over_brokers;
mod vanishing;
mod whole;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    CreateTopicsRequest, CreateTopicsResponse, FetchRequest, FetchResponse, ProduceRequest, ProduceResponse,
    RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

use super::*;
use crate::api::{Endpoint, PrepareLimits, Preparer, encode};
use crate::base::PartitionKey;
use crate::controller::{NewTopic, Partition};
use crate::wire::batch::{BatchView, Codec};
use crate::wire::records::{BatchBuilder, BatchHeader, RecordIter};

/// A cluster of one broker, its clients and its clock.
#[derive(Clone)]
pub(super) struct World {
    pub(super) cluster: Cluster,
    pub(super) now_ms: u64,
    next_connection: u64,
    pub(super) limits: PrepareLimits,
    /// Frames that have come out and that nobody has looked at.
    frames: Vec<(ConnectionId, Bytes)>,
    /// Connections that the cluster wanted closed.
    pub(super) closed: Vec<ConnectionId>,
    /// Loggers as they were to be from then on.
    pub(super) log_levels: Vec<Loggers>,
}

impl World {
    pub(super) fn new() -> Self {
        Self::with(&[])
    }

    /// With these configs of the broker.
    pub(super) fn with(configs: &[(&str, &str)]) -> Self {
        use crate::controller::configs::Overrides;
        let fixed = Overrides::parse(Resource::Broker, configs.iter().copied()).unwrap();
        let configs = BrokerConfigs { fixed, ..BrokerConfigs::default() };
        Self::of(ClusterConfig { configs, ..ClusterConfig::default() })
    }

    pub(super) fn of(config: ClusterConfig) -> Self {
        World {
            cluster: Cluster::new(config, Now::at_millis(0)).unwrap(),
            now_ms: 0,
            next_connection: 0,
            limits: PrepareLimits::default(),
            frames: Vec::new(),
            closed: Vec::new(),
            log_levels: Vec::new(),
        }
    }

    pub(super) fn now(&self) -> Now {
        Now::at_millis(self.now_ms)
    }

    /// A cluster of this many brokers, with ids from 1.
    pub(super) fn of_brokers(count: i32, configs: &[(&str, &str)]) -> Self {
        use crate::controller::configs::Overrides;
        let fixed = Overrides::parse(Resource::Broker, configs.iter().copied()).unwrap();
        let node = |id: i32| NodeConfig {
            id: NodeId(id),
            rack: None,
            endpoints: vec![ListenerEndpoint {
                listener: "PLAINTEXT".into(),
                host: None,
                port: 9091 + id as u16,
            }],
            configs: Overrides::default(),
        };
        Self::of(ClusterConfig {
            nodes: (1..=count).map(node).collect(),
            configs: BrokerConfigs { fixed, ..BrokerConfigs::default() },
            ..ClusterConfig::default()
        })
    }

    pub(super) fn command(&mut self, command: Command) -> Result<Done, CommandError> {
        let done = self.cluster.handle_command(self.now(), command);
        self.collect();
        done
    }

    pub(super) fn connect(&mut self) -> ConnectionId {
        self.connect_to(1)
    }

    pub(super) fn connect_to(&mut self, broker: i32) -> ConnectionId {
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        let connection = Connection {
            node: NodeId(broker),
            listener: "PLAINTEXT".into(),
            local: Endpoint { host: "127.0.0.1".into(), port: 9092 },
            peer: "127.0.0.1:50000".into(),
        };
        self.cluster.handle_opened(self.now(), id, connection);
        id
    }

    pub(super) fn disconnect(&mut self, id: ConnectionId) {
        self.cluster.handle_closed(self.now(), id);
    }

    /// Moves the clock on, stopping wherever the cluster has something to do.
    pub(super) fn advance(&mut self, span: Duration) {
        let end = Instant::from_millis(self.now_ms) + span;
        while let Some(due) = self.cluster.poll_timeout().filter(|due| *due <= end) {
            self.now_ms = self.now_ms.max(due.as_nanos().div_ceil(1_000_000));
            self.cluster.handle_timeout(self.now());
            self.collect();
        }
        self.now_ms = end.as_millis();
    }

    /// Sends a request and doesn't wait for the answer.
    pub(super) fn send<R: Request>(&mut self, id: ConnectionId, version: i16, request: &R) {
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(7)
            .with_client_id(Some(StrBytes::from_static_str("tester")));
        let mut frame = BytesMut::new();
        header.encode(&mut frame, R::header_version(version)).unwrap();
        request.encode(&mut frame, version).unwrap();
        let prepared = Preparer::new(self.limits).prepare(frame.freeze()).unwrap();
        self.cluster.handle_request(self.now(), id, prepared);
        self.collect();
    }

    fn collect(&mut self) {
        while let Some(output) = self.cluster.poll_output() {
            match output {
                Output::Reply(reply) => {
                    let (mut buffer, mut parts) = (BytesMut::new(), Vec::new());
                    encode(&reply, &mut buffer, &mut parts).unwrap();
                    if !parts.is_empty() {
                        self.frames.push((reply.connection, parts.concat().into()));
                    }
                }
                Output::Close { connection, .. } => self.closed.push(connection),
                Output::BrokerDown(_)
                | Output::BrokerUp(_)
                | Output::BrokerRemoved(_)
                | Output::Configured(..) => {}
                Output::LogLevels(loggers) => self.log_levels.push(loggers),
            }
        }
    }

    /// The answer that has come for a connection.
    pub(super) fn received<R: Request>(&mut self, id: ConnectionId, version: i16) -> Option<R::Response>
    where
        R::Response: Decodable + HeaderVersion,
    {
        let at = self.frames.iter().position(|(connection, _)| *connection == id)?;
        let mut frame = self.frames.remove(at).1;
        let length = i32::from_be_bytes(*frame.first_chunk().unwrap());
        assert_eq!(length as usize, frame.len() - 4, "the frame's length is right");
        let _ = frame.split_to(4);
        let header = ResponseHeader::decode(&mut frame, R::Response::header_version(version)).unwrap();
        assert_eq!(header.correlation_id, 7);
        let response = R::Response::decode(&mut frame, version).unwrap();
        assert!(frame.is_empty(), "nothing is left over");
        Some(response)
    }

    /// Sends a request whose answer comes at once.
    pub(super) fn ask<R: Request>(&mut self, id: ConnectionId, version: i16, request: &R) -> R::Response
    where
        R::Response: Decodable + HeaderVersion,
    {
        self.send(id, version, request);
        self.received::<R>(id, version).expect("the answer comes at once")
    }

    /// A topic of one partition, on these brokers.
    pub(super) fn create_replicated(&mut self, name: &str, replicas: &[i32], configs: &[(&str, &str)]) {
        let new = NewTopic {
            name: name.to_owned(),
            partitions: -1,
            replication_factor: -1,
            assignments: vec![(0, replicas.iter().copied().map(NodeId).collect())],
            configs: configs
                .iter()
                .map(|(name, value)| ((*name).to_owned(), Some((*value).to_owned())))
                .collect(),
        };
        self.command(Command::CreateTopic(new)).unwrap();
    }

    /// The first partition of a topic, as the controller knows it.
    pub(super) fn partition(&self, name: &str) -> Partition {
        self.cluster.controller().topics().by_name(name).unwrap().partition(0).unwrap().clone()
    }

    /// Where the log of a topic's first partition ends on a broker, and its high watermark.
    pub(super) fn offsets(&self, name: &str, broker: i32) -> (i64, i64) {
        let topic = self.cluster.controller().topics().by_name(name).unwrap().id;
        let node = self.cluster.nodes.iter().find(|node| node.id() == NodeId(broker)).unwrap();
        let replica = node.broker.replicas.replica(PartitionKey { topic, index: 0 }).unwrap();
        (replica.log().log_end_offset(), replica.high_watermark())
    }

    pub(super) fn create_topic(&mut self, name: &'static str, partitions: i32, configs: &[(&str, &str)]) {
        let connection = self.connect();
        let request = create_topics(name, partitions, configs);
        let response: CreateTopicsResponse = self.ask(connection, 7, &request);
        assert_eq!(response.topics[0].error_code, 0, "{:?}", response.topics[0].error_message);
    }
}

pub(super) fn topic(name: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(name))
}

pub(super) fn create_topics(
    name: &'static str,
    partitions: i32,
    configs: &[(&str, &str)],
) -> CreateTopicsRequest {
    let configs = configs.iter().map(|(name, value)| {
        CreatableTopicConfig::default()
            .with_name(StrBytes::from_string((*name).to_owned()))
            .with_value(Some(StrBytes::from_string((*value).to_owned())))
    });
    CreateTopicsRequest::default().with_timeout_ms(1000).with_topics(vec![
        CreatableTopic::default()
            .with_name(topic(name))
            .with_num_partitions(partitions)
            .with_replication_factor(1)
            .with_configs(configs.collect()),
    ])
}

/// A batch of records with these values and no keys, all at `timestamp_ms`.
pub(super) fn batch(values: &[&str], timestamp_ms: i64) -> Bytes {
    batch_of(BatchHeader { codec: Codec::None, ..BatchHeader::default() }, values, timestamp_ms)
}

pub(super) fn batch_of(header: BatchHeader, values: &[&str], timestamp_ms: i64) -> Bytes {
    let mut builder = BatchBuilder::new(header);
    for value in values {
        builder.push(timestamp_ms, None, Some(value.as_bytes()), std::iter::empty());
    }
    builder.build().unwrap()
}

pub(super) fn produce(name: &'static str, index: i32, records: Bytes, acks: i16) -> ProduceRequest {
    ProduceRequest::default().with_acks(acks).with_timeout_ms(1000).with_topic_data(vec![
        TopicProduceData::default().with_name(topic(name)).with_partition_data(vec![
            PartitionProduceData::default().with_index(index).with_records(Some(records)),
        ]),
    ])
}

pub(super) fn fetch(name: &'static str, index: i32, offset: i64) -> FetchRequest {
    FetchRequest::default()
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(i32::MAX)
        .with_session_epoch(-1)
        .with_topics(vec![FetchTopic::default().with_topic(topic(name)).with_partitions(vec![
                FetchPartition::default()
                    .with_partition(index)
                    .with_fetch_offset(offset)
                    .with_partition_max_bytes(1 << 20),
            ])])
}

/// The values of all records in the whole batches of `bytes`, with their offsets.
pub(super) fn values(mut bytes: Bytes) -> Vec<(i64, String)> {
    let mut values = Vec::new();
    while let Some(size) =
        BatchView::new(&bytes).and_then(|view| view.size()).filter(|size| *size <= bytes.len())
    {
        let whole = bytes.split_to(size);
        let view = BatchView::new(&whole).unwrap();
        for record in RecordIter::new(&whole[crate::wire::batch::HEADER_LEN..], view.count()) {
            let record = record.unwrap();
            let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
            values.push((view.base_offset() + i64::from(record.offset_delta), value));
        }
    }
    values
}

pub(super) fn records_of(response: &FetchResponse) -> Bytes {
    response.responses[0].partitions[0].records.clone().unwrap()
}

pub(super) fn error_of(response: &ProduceResponse) -> i16 {
    response.responses[0].partition_responses[0].error_code
}

pub(super) const PRODUCE: i16 = 9;
pub(super) const FETCH: i16 = 12;
