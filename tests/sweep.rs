//! Every API at every version of the table, over a real socket: each answer decodes with the codec at the version that
//! was asked for, with nothing left over. ApiVersions tells just what is served.

mod messages;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use huld::api::{Advertised, ApiEntry, TABLE};
use huld::server::{Broker, BrokerOptions};
use huld::wire::batch::Codec;
use huld::wire::records::{BatchBuilder, BatchHeader};
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ApiKey, ApiVersionsRequest, ApiVersionsResponse, CreatePartitionsRequest, CreateTopicsRequest,
    DeleteRecordsRequest, DeleteTopicsRequest, DescribeClusterRequest, DescribeTopicPartitionsRequest,
    FetchRequest, InitProducerIdRequest, ListOffsetsRequest, MetadataRequest, OffsetForLeaderEpochRequest,
    ProduceRequest, RequestHeader, RequestKind, ResponseHeader, ResponseKind, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use uuid::Uuid;

/// Longer than any answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

struct Client {
    stream: TcpStream,
}

impl Client {
    fn new(broker: &Broker) -> Self {
        let stream = TcpStream::connect(broker.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client { stream }
    }

    fn send(&mut self, api: i16, version: i16, header_version: i16, body: &[u8]) {
        let header = RequestHeader::default()
            .with_request_api_key(api)
            .with_request_api_version(version)
            .with_correlation_id(7)
            .with_client_id(Some(StrBytes::from_static_str("sweep")));
        let mut frame = BytesMut::new();
        header.encode(&mut frame, header_version).unwrap();
        frame.extend_from_slice(body);
        self.send_frame(&frame);
    }

    fn send_frame(&mut self, frame: &[u8]) {
        self.stream.write_all(&[&(frame.len() as u32).to_be_bytes(), frame].concat()).unwrap();
    }

    /// The next frame, without its length; none if the broker has closed the connection.
    fn receive(&mut self) -> Option<Bytes> {
        let mut length = [0; 4];
        match self.stream.read_exact(&mut length) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                panic!("no answer in {PATIENCE:?}")
            }
            Err(_) => return None,
        }
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame).unwrap();
        Some(frame.into())
    }

    /// Sends what has an answer, and decodes that to its last byte.
    fn ask(&mut self, api: ApiKey, version: i16, body: &[u8]) -> ResponseKind {
        self.send(api as i16, version, api.request_header_version(version), body);
        self.answer(api, version)
    }

    fn answer(&mut self, api: ApiKey, version: i16) -> ResponseKind {
        let case = format!("{api:?} v{version}");
        let mut frame = self.receive().unwrap_or_else(|| panic!("{case}: the connection was closed"));
        let header = ResponseHeader::decode(&mut frame, api.response_header_version(version))
            .unwrap_or_else(|error| panic!("{case}: header: {error:#}"));
        assert_eq!(header.correlation_id, 7, "{case}");
        let response = ResponseKind::decode(api, &mut frame, version)
            .unwrap_or_else(|error| panic!("{case}: {error:#}"));
        assert!(frame.is_empty(), "{case}: {} bytes are left over", frame.len());
        response
    }
}

fn broker() -> Broker {
    let options = BrokerOptions::default().with_setting("group.initial.rebalance.delay.ms", "0").unwrap();
    Broker::start(options.with_topic("t", 1)).unwrap()
}

fn key(entry: &ApiEntry) -> ApiKey {
    ApiKey::try_from(entry.key).unwrap()
}

fn versions() -> impl Iterator<Item = (ApiKey, i16)> {
    TABLE
        .iter()
        .flat_map(|entry| (entry.min_version..=entry.max_version).map(move |version| (key(entry), version)))
}

#[test]
fn the_least_request_is_answered_at_every_version() {
    let broker = broker();
    for (api, version) in versions() {
        let mut client = Client::new(&broker);
        let body = messages::flood(api, version, 0, 0).bytes;
        if api == ApiKey::Produce {
            // All zeros are acks=0, which has no answer: the next request has.
            client.send(api as i16, version, api.request_header_version(version), &body);
            let next = client.ask(ApiKey::ApiVersions, 0, &[]);
            assert!(matches!(next, ResponseKind::ApiVersions(_)));
        } else if api == ApiKey::DescribeAcls {
            // All zeros are kinds that nobody knows, which Kafka takes for malformed.
            client.send(api as i16, version, api.request_header_version(version), &body);
            assert!(client.receive().is_none());
        } else {
            client.ask(api, version, &body);
        }
    }
    assert_eq!(broker.panics(), 0);
}

#[test]
fn recorded_requests_are_answered() {
    let broker = broker();
    let served = |exchange: &messages::Exchange| {
        let row = TABLE.iter().find(|entry| entry.key == exchange.api_key);
        row.is_some_and(|row| (row.min_version..=row.max_version).contains(&exchange.version))
    };
    for mut exchange in messages::recorded().into_iter().filter(served) {
        exchange.request[4..8].copy_from_slice(&7_i32.to_be_bytes());
        let mut client = Client::new(&broker);
        client.send_frame(&exchange.request);
        client.answer(ApiKey::try_from(exchange.api_key).unwrap(), exchange.version);
    }
    assert_eq!(broker.panics(), 0);
}

#[test]
fn right_requests_succeed_at_every_version() {
    let broker = broker();
    let mut client = Client::new(&broker);
    let id = topic_id(&mut client, "t");
    for (api, version) in versions() {
        let name = format!("{api:?}-{version}");
        let Some(request) = right(api, version, id, &name) else { continue };
        let mut body = BytesMut::new();
        request.encode(&mut body, version).unwrap();
        if matches!(api, ApiKey::DeleteTopics | ApiKey::CreatePartitions) {
            // What is to be deleted, or to grow, must be there.
            topic_id(&mut client, &name);
        }
        let response = client.ask(api, version, &body);
        assert_eq!(error(&response), None, "{api:?} v{version}: {response:?}");
    }
}

/// The first error anywhere in a response, whatever its API.
fn error(response: &ResponseKind) -> Option<String> {
    let text = format!("{response:?}");
    let codes = text.split("error_code: ").skip(1).filter_map(|rest| rest.split([',', ' ']).next());
    codes.map(str::to_owned).find(|code| code != "0")
}

/// The id of a topic, which is made if it isn't there.
fn topic_id(client: &mut Client, name: &str) -> Uuid {
    let topic = MetadataRequestTopic::default().with_name(Some(topic(name)));
    let request =
        MetadataRequest::default().with_topics(Some(vec![topic])).with_allow_auto_topic_creation(true);
    let mut body = BytesMut::new();
    request.encode(&mut body, 12).unwrap();
    let ResponseKind::Metadata(response) = client.ask(ApiKey::Metadata, 12, &body) else { unreachable!() };
    assert_eq!(response.topics[0].error_code, 0);
    response.topics[0].topic_id
}

fn topic(name: &str) -> TopicName {
    TopicName(StrBytes::from_string(name.to_owned()))
}

fn records() -> Bytes {
    let mut builder = BatchBuilder::new(BatchHeader { codec: Codec::None, ..BatchHeader::default() });
    builder.push(1, Some(b"key"), Some(b"value"), std::iter::empty());
    builder.build().unwrap()
}

/// A request that must succeed, for the APIs of topics and their records. `own` is a topic for it alone.
fn right(api: ApiKey, version: i16, id: Uuid, own: &str) -> Option<RequestKind> {
    Some(match api {
        ApiKey::Produce => RequestKind::Produce(produce(version, id)),
        ApiKey::Fetch => RequestKind::Fetch(fetch(version, id)),
        ApiKey::ListOffsets => {
            let partition = ListOffsetsPartition::default().with_timestamp(1);
            let topic = ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
            let request = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(vec![topic]);
            RequestKind::ListOffsets(request)
        }
        ApiKey::Metadata => {
            let topic = MetadataRequestTopic::default().with_name(Some(topic("t")));
            RequestKind::Metadata(MetadataRequest::default().with_topics(Some(vec![topic])))
        }
        ApiKey::CreateTopics => {
            let topic = CreatableTopic::default()
                .with_name(topic(own))
                .with_num_partitions(2)
                .with_replication_factor(1);
            RequestKind::CreateTopics(
                CreateTopicsRequest::default().with_timeout_ms(1000).with_topics(vec![topic]),
            )
        }
        ApiKey::DeleteTopics => {
            let request = DeleteTopicsRequest::default().with_timeout_ms(1000);
            RequestKind::DeleteTopics(if version >= 6 {
                request.with_topics(vec![DeleteTopicState::default().with_name(Some(topic(own)))])
            } else {
                request.with_topic_names(vec![topic(own)])
            })
        }
        ApiKey::CreatePartitions => {
            let topic =
                CreatePartitionsTopic::default().with_name(topic(own)).with_count(2).with_assignments(None);
            let request = CreatePartitionsRequest::default().with_timeout_ms(1000);
            RequestKind::CreatePartitions(request.with_topics(vec![topic]))
        }
        ApiKey::DeleteRecords => {
            let partition = DeleteRecordsPartition::default().with_offset(0);
            let topic = DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
            let request = DeleteRecordsRequest::default().with_timeout_ms(1000);
            RequestKind::DeleteRecords(request.with_topics(vec![topic]))
        }
        ApiKey::InitProducerId => RequestKind::InitProducerId(
            InitProducerIdRequest::default().with_transactional_id(None).with_transaction_timeout_ms(1000),
        ),
        ApiKey::OffsetForLeaderEpoch => {
            let partition = OffsetForLeaderPartition::default().with_current_leader_epoch(-1);
            let topic =
                OffsetForLeaderTopic::default().with_topic(topic("t")).with_partitions(vec![partition]);
            RequestKind::OffsetForLeaderEpoch(OffsetForLeaderEpochRequest::default().with_topics(vec![topic]))
        }
        ApiKey::DescribeCluster => {
            let request = DescribeClusterRequest::default();
            RequestKind::DescribeCluster(request)
        }
        ApiKey::DescribeTopicPartitions => RequestKind::DescribeTopicPartitions(
            DescribeTopicPartitionsRequest::default().with_response_partition_limit(10),
        ),
        ApiKey::ApiVersions => RequestKind::ApiVersions(software()),
        _ => return None,
    })
}

fn produce(version: i16, id: Uuid) -> ProduceRequest {
    let data = PartitionProduceData::default().with_records(Some(records()));
    let data = TopicProduceData::default().with_partition_data(vec![data]);
    let data = if version >= 13 { data.with_topic_id(id) } else { data.with_name(topic("t")) };
    ProduceRequest::default().with_acks(-1).with_timeout_ms(1000).with_topic_data(vec![data])
}

fn fetch(version: i16, id: Uuid) -> FetchRequest {
    let partition = FetchPartition::default().with_partition_max_bytes(1 << 20);
    let wanted = FetchTopic::default().with_partitions(vec![partition]);
    let wanted = if version >= 13 { wanted.with_topic_id(id) } else { wanted.with_topic(topic("t")) };
    let request = FetchRequest::default().with_max_wait_ms(1).with_max_bytes(1 << 20);
    request.with_topics(vec![wanted])
}

fn software() -> ApiVersionsRequest {
    ApiVersionsRequest::default()
        .with_client_software_name(StrBytes::from_static_str("sweep"))
        .with_client_software_version(StrBytes::from_static_str("1.0"))
}

#[test]
fn api_versions_tells_the_table() {
    let broker = broker();
    let mut client = Client::new(&broker);
    let shown = TABLE.iter().filter(|entry| entry.advertised == Advertised::Always);
    let expected: Vec<_> = shown.map(|entry| (entry.key, entry.advertised_from, entry.max_version)).collect();
    for version in 0..=4 {
        let mut body = BytesMut::new();
        software().encode(&mut body, version).unwrap();
        let ResponseKind::ApiVersions(response) = client.ask(ApiKey::ApiVersions, version, &body) else {
            unreachable!()
        };
        assert_eq!(response.error_code, 0);
        assert_eq!(ranges(&response), expected, "v{version}");
    }
}

fn ranges(response: &ApiVersionsResponse) -> Vec<(i16, i16, i16)> {
    response.api_keys.iter().map(|row| (row.api_key, row.min_version, row.max_version)).collect()
}

#[test]
fn api_versions_at_an_unknown_version_is_answered_in_version_0() {
    let broker = broker();
    let mut client = Client::new(&broker);
    for version in [5, i16::MAX, -1] {
        client.send(ApiKey::ApiVersions as i16, version, 2, b"a body that nobody can read yet");
        let ResponseKind::ApiVersions(response) = client.answer(ApiKey::ApiVersions, 0) else {
            unreachable!()
        };
        assert_eq!((response.error_code, ranges(&response)), (35, vec![(18, 0, 4)]), "v{version}");
    }
}

#[test]
fn whatever_else_is_not_served_closes_the_connection() {
    let broker = broker();
    let outside = TABLE.iter().filter(|entry| entry.key != ApiKey::ApiVersions as i16);
    let outside =
        outside.flat_map(|entry| [entry.min_version - 1, entry.max_version + 1].map(|v| (entry.key, v)));
    let unknown = [(9999, 0), (-1, 0), (i16::MAX, i16::MAX)];
    for (api, version) in outside.chain(unknown) {
        let mut client = Client::new(&broker);
        client.send(api, version, 1, &[]);
        assert_eq!(client.receive(), None, "API {api} v{version}");
    }
}
