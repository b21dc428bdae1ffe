//! DescribeQuorum (55), versions 0–2: who keeps the cluster's metadata, and how far each broker has followed
//! (KIP-595).
//!
//! The controller's changes stand for the records of `__cluster_metadata`: an offset is the number of changes before
//! it. The one voter is the broker that stands in for the controller, the other brokers observe. As in Kafka, anything
//! but partition 0 of that topic, once, is UNKNOWN_TOPIC_OR_PARTITION for all that was named. Versions: 1 adds times
//! (KIP-836); 2 messages, directories and where the voters are reached (KIP-853).
//!
//! Not as in Kafka: the controller has no listener of its own, so the voter's endpoint is that by which the client came.

use kafka_protocol::messages::describe_quorum_response::{
    Listener, Node, PartitionData, ReplicaState, TopicData,
};
use kafka_protocol::messages::{ApiKey, DescribeQuorumRequest, DescribeQuorumResponse, TopicName};

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::{ErrorCode, NodeId};
use crate::controller::names::CLUSTER_METADATA;

/// The epoch of the first leader that a quorum elects: the controller here is never elected again.
const FIRST_EPOCH: i32 = 1;

pub(crate) struct DescribeQuorum;

impl Api for DescribeQuorum {
    const KEY: ApiKey = ApiKey::DescribeQuorum;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;
    type Wire = DescribeQuorumRequest;
    type Request = DescribeQuorumRequest;
    type Response = DescribeQuorumResponse;

    fn prepare(wire: DescribeQuorumRequest, _: &Preparation) -> Result<DescribeQuorumRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: DescribeQuorumRequest) -> Answer<DescribeQuorumResponse> {
        let version = context.caller.version;
        let response = with_message(version, DescribeQuorumResponse::default(), |response, text| {
            response.with_error_message(Some(text))
        });
        let voter = context.parts.controller.controller_id().filter(|_| is_of_metadata(&request));
        let Some(voter) = voter else {
            return Answer::Ready(response.with_topics(unknown(version, request)));
        };
        let topic = TopicName(names::text(CLUSTER_METADATA));
        let topic = TopicData::default().with_topic_name(topic).with_partitions(vec![quorum(context, voter)]);
        let response = response.with_topics(vec![topic]);
        Answer::Ready(if version >= 2 { response.with_nodes(nodes(context, voter)) } else { response })
    }
}

fn is_of_metadata(request: &DescribeQuorumRequest) -> bool {
    let [topic] = request.topics.as_slice() else { return false };
    let [partition] = topic.partitions.as_slice() else { return false };
    topic.topic_name.as_str() == CLUSTER_METADATA && partition.partition_index == 0
}

fn unknown(version: i16, request: DescribeQuorumRequest) -> Vec<TopicData> {
    let topics = request.topics.into_iter().map(|topic| {
        let rows = topic.partitions.iter().map(|partition| {
            let row = PartitionData::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(ErrorCode::UnknownTopicOrPartition.code());
            match version {
                2.. => {
                    row.with_error_message(Some(names::text("Only the metadata's partition has a quorum.")))
                }
                _ => row,
            }
        });
        TopicData::default().with_topic_name(topic.topic_name).with_partitions(rows.collect())
    });
    topics.collect()
}

fn quorum(context: &Context<'_>, voter: NodeId) -> PartitionData {
    let controller = &context.parts.controller;
    let observers = controller.brokers().iter().map(|broker| broker.id).filter(|id| *id != voter);
    let row = PartitionData::default()
        .with_leader_id(names::broker_id(Some(voter)))
        .with_leader_epoch(FIRST_EPOCH)
        .with_high_watermark(controller.last_change() as i64)
        .with_current_voters(vec![replica(context, voter, Some(controller.last_change()))])
        .with_observers(observers.map(|id| replica(context, id, controller.applied_by(id))).collect());
    with_message(context.caller.version, row, |row, text| row.with_error_message(Some(text)))
}

/// Messages come without an error too: Kafka's text for "no error" is its name.
fn with_message<T>(version: i16, row: T, add: impl FnOnce(T, kafka_protocol::protocol::StrBytes) -> T) -> T {
    if version >= 2 { add(row, names::text("NONE")) } else { row }
}

/// `applied` is none for a broker that doesn't run.
fn replica(context: &Context<'_>, id: NodeId, applied: Option<u64>) -> ReplicaState {
    let end = applied.map_or(-1, |applied| applied as i64);
    let row = ReplicaState::default().with_replica_id(names::broker_id(Some(id))).with_log_end_offset(end);
    if context.caller.version == 0 {
        return row;
    }
    // Changes are pushed, not fetched: a broker that has them all is up to date now; of another it isn't known when it
    // last was.
    let is_caught_up = applied == Some(context.parts.controller.last_change());
    let at = if is_caught_up { context.parts.now.wall.as_millis() } else { -1 };
    row.with_last_fetch_timestamp(at).with_last_caught_up_timestamp(at)
}

fn nodes(context: &Context<'_>, voter: NodeId) -> Vec<Node> {
    let connection = context.caller.connection;
    let name = context.parts.connections.get(&connection).map(|connection| connection.listener.clone());
    let endpoint = context.parts.endpoint(voter, connection);
    let listeners = name.zip(endpoint).map(|(name, endpoint)| {
        Listener::default()
            .with_name(names::text(&*name))
            .with_host(names::text(&*endpoint.host))
            .with_port(endpoint.port)
    });
    vec![
        Node::default()
            .with_node_id(names::broker_id(Some(voter)))
            .with_listeners(listeners.into_iter().collect()),
    ]
}
