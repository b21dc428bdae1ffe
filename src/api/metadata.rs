//! Metadata (3), versions 0–13: brokers, topics, partitions and their leaders.
//!
//! All topics are asked for by an empty list in v0 and by null from v1 on, where an empty list means none. A missing
//! topic is created if broker (`auto.create.topics.enable`) and request (v4+) allow it, and all missing ones together
//! have no more partitions than one CreateTopics may make.
//!
//! Versions: 4 adds the request's own word on creation (KIP-204); 5 offline replicas; 7 leader epochs; 8 to 10
//! cluster operations (KIP-430); 10 topic ids; 12 look-up by id (KIP-516); 13 an error of the whole.
//!
//! Not as in Kafka: a topic that this request creates is in its answer, ready for use, where Kafka says
//! UNKNOWN_TOPIC_OR_PARTITION until the client asks again.

use std::collections::BTreeMap;
use std::sync::Arc;

use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::{ApiKey, BrokerId, MetadataRequest, MetadataResponse, TopicName};

use uuid::Uuid;

use super::seen_brokers::SeenBrokers;
use super::subjects::NamesTopic;
use super::topic_changes::{AUTO_CREATE_TIMEOUT_MS, answer_once_applied};
use super::{Answer, AnyResponse, Api, Context, Refusal, authorized_operations, names, prepare::Preparation};
use crate::base::{ErrorCode, NodeId, TopicId};
use crate::controller::{MAX_PARTITIONS_A_REQUEST, NewTopic, Partition, Topic, names as topic_names};

pub(crate) struct Metadata;

impl Api for Metadata {
    const KEY: ApiKey = ApiKey::Metadata;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=13;
    type Wire = MetadataRequest;
    type Request = MetadataRequest;
    type Response = MetadataResponse;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> = Some(|request, topic, _| {
        // No list stands for all topics.
        request.topics.as_ref().is_none_or(|topics| {
            topics.iter().any(|one| topic.is(one.name.as_deref().map_or("", |name| name), one.topic_id))
        })
    });

    fn prepare(wire: MetadataRequest, _: &Preparation) -> Result<MetadataRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: MetadataRequest) -> Answer<MetadataResponse> {
        let version = context.caller.version;
        let all = match &request.topics {
            None => true,
            Some(topics) => version == 0 && topics.is_empty(),
        };
        if version < 12 && by_id_or_nameless(&request) {
            return Answer::Ready(refused(&request, ErrorCode::InvalidRequest));
        }
        if nameless_without_id(&request) {
            return Answer::Ready(refused(&request, ErrorCode::UnknownServerError));
        }
        let view = View {
            seen: SeenBrokers::over(&context.parts, context.caller.connection),
            version,
            operations: authorized_operations::on_topic(request.include_topic_authorized_operations),
        };
        let mut created = Vec::new();
        let topics = if all {
            context.parts.controller.topics().iter().map(|topic| view.row(topic)).collect()
        } else {
            let wanted = request.topics.as_deref().unwrap_or_default();
            let may_create = request.allow_auto_topic_creation || version < 4;
            named(context, wanted, may_create, &view, &mut created)
        };
        let cluster_operations =
            authorized_operations::on_cluster(request.include_cluster_authorized_operations);
        let response = MetadataResponse::default()
            .with_brokers(brokers(context))
            .with_cluster_id(Some(names::text(&**context.parts.controller.cluster_id())))
            .with_controller_id(names::broker_id(context.parts.controller.controller_id()))
            .with_topics(topics)
            .with_cluster_authorized_operations(if (8..=10).contains(&version) {
                cluster_operations
            } else {
                authorized_operations::NOT_REQUESTED
            });
        if created.is_empty() {
            return Answer::Ready(response);
        }
        // The answer tells of topics that the brokers have yet to hear of.
        let mut timed_out = response.clone();
        for topic in timed_out.topics.iter_mut().filter(|topic| created.contains(&topic.topic_id)) {
            let name = topic.name.clone().unwrap_or_default();
            *topic = missing(&name, ErrorCode::UnknownTopicOrPartition);
        }
        let named = timed_out.topics.iter().filter_map(|topic| topic.name.as_ref());
        let names = named.map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        answer_once_applied(
            context,
            AUTO_CREATE_TIMEOUT_MS,
            names,
            AnyResponse::Metadata(response),
            AnyResponse::Metadata(timed_out),
        )
    }
}

/// v10 and v11 have topic ids in their schema, but no look-up by them.
fn by_id_or_nameless(request: &MetadataRequest) -> bool {
    let mut topics = request.topics.iter().flatten();
    topics.any(|topic| !topic.topic_id.is_nil() || topic.name.is_none())
}

/// Kafka's own handler fails on such a request.
fn nameless_without_id(request: &MetadataRequest) -> bool {
    let topics = || request.topics.iter().flatten();
    topics().any(|topic| topic.name.is_none()) && topics().all(|topic| topic.topic_id.is_nil())
}

fn refused(request: &MetadataRequest, error: ErrorCode) -> MetadataResponse {
    let topics = request.topics.iter().flatten().map(|topic| {
        MetadataResponseTopic::default()
            .with_name(Some(topic.name.clone().unwrap_or_default()))
            .with_topic_id(topic.topic_id)
            .with_error_code(error.code())
    });
    MetadataResponse::default().with_topics(topics.collect()).with_error_code(error.code())
}

fn brokers(context: &Context<'_>) -> Vec<MetadataResponseBroker> {
    let parts = &context.parts;
    let unfenced = parts.controller.brokers().iter().filter(|broker| !broker.fenced);
    let rows = unfenced.filter_map(|broker| {
        let endpoint = parts.endpoint(broker.id, context.caller.connection)?;
        Some(
            MetadataResponseBroker::default()
                .with_node_id(BrokerId(broker.id.0))
                .with_host(names::text(&*endpoint.host))
                .with_port(endpoint.port.into())
                .with_rack(broker.rack.as_deref().map(names::text)),
        )
    });
    rows.collect()
}

fn named(
    context: &mut Context<'_>,
    wanted: &[MetadataRequestTopic],
    may_create: bool,
    view: &View,
    created: &mut Vec<Uuid>,
) -> Vec<MetadataResponseTopic> {
    if wanted.iter().any(|topic| !topic.topic_id.is_nil()) {
        let mut seen = rustc_hash::FxHashSet::default();
        let ids = wanted.iter().map(|topic| TopicId::from(topic.topic_id)).filter(|id| !id.is_zero());
        let ids = ids.filter(|id| seen.insert(*id));
        let rows = ids.map(|id| match context.parts.controller.topics().by_id(id) {
            Some(topic) => view.row(topic),
            None => MetadataResponseTopic::default()
                .with_name(None)
                .with_topic_id(id.into())
                .with_error_code(ErrorCode::UnknownTopicId.code())
                .with_topic_authorized_operations(authorized_operations::NOT_REQUESTED),
        });
        return rows.collect();
    }
    let mut seen = rustc_hash::FxHashSet::default();
    let names: Vec<&TopicName> =
        wanted.iter().filter_map(|topic| topic.name.as_ref()).filter(|name| seen.insert(*name)).collect();
    let absent = |name: &&&TopicName| context.parts.controller.topics().by_name(name).is_none();
    let absent: Vec<&TopicName> = names.iter().filter(absent).copied().collect();
    let mut made = create(context, &absent, may_create);
    let rows = names.into_iter().map(|name| {
        match (made.remove(name), context.parts.controller.topics().by_name(name)) {
            (Some(Err(error)), _) => missing(name, error),
            (Some(Ok(topic)), _) => {
                created.push(topic.id.into());
                view.row(&topic)
            }
            (None, Some(topic)) => view.row(topic),
            (None, None) => missing(name, ErrorCode::UnknownTopicOrPartition),
        }
    });
    rows.collect()
}

type Created = Result<Arc<Topic>, ErrorCode>;

/// Makes the topics as far as their names are sound and it is allowed.
fn create<'a>(
    context: &mut Context<'_>,
    names: &[&'a TopicName],
    may_create: bool,
) -> BTreeMap<&'a TopicName, Created> {
    let mut created: BTreeMap<&TopicName, Created> = BTreeMap::new();
    let (sound, bad): (Vec<_>, Vec<_>) = names.iter().partition(|name| topic_names::check(name).is_ok());
    created.extend(bad.into_iter().map(|name: &TopicName| (name, Err(ErrorCode::InvalidTopicException))));
    let controller = &mut context.parts.controller;
    let broker = context.parts.broker.id;
    if !may_create || !controller.settings_of(broker).topics.auto_create_topics_enable {
        return created;
    }
    let topics: Vec<NewTopic> = sound.iter().map(|name| controller.automatic_topic(name, broker)).collect();
    // Above the bound of CreateTopics nothing is made, and what is missing stays so.
    let partitions: u64 = topics.iter().map(|topic| u64::from(topic.partitions.max(0) as u32)).sum();
    if partitions > MAX_PARTITIONS_A_REQUEST {
        return created;
    }
    let topics = controller.create_topics(topics, false);
    created.extend(sound.into_iter().zip(topics.into_iter().map(|topic| {
        topic.map_err(|error| match error.code() {
            // Clients don't expect it here: a name that can't be had is just not there.
            ErrorCode::InvalidRequest => ErrorCode::UnknownTopicOrPartition,
            code => code,
        })
    })));
    created
}

fn missing(name: &TopicName, error: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic::default()
        .with_name(Some(name.clone()))
        .with_is_internal(topic_names::is_internal(name))
        .with_error_code(error.code())
        .with_topic_authorized_operations(authorized_operations::NOT_REQUESTED)
}

/// How topics are shown to this client.
struct View {
    seen: SeenBrokers,
    version: i16,
    operations: i32,
}

impl View {
    fn row(&self, topic: &Topic) -> MetadataResponseTopic {
        let partitions = topic.partitions.iter().zip(0..);
        let rows =
            partitions.map(|(partition, index)| partition_row(&self.seen, partition, index, self.version));
        MetadataResponseTopic::default()
            .with_name(Some(names::topic_name(&topic.name)))
            .with_topic_id(topic.id.into())
            .with_is_internal(topic.is_internal)
            .with_partitions(rows.collect())
            .with_topic_authorized_operations(self.operations)
    }
}

fn partition_row(
    seen: &SeenBrokers,
    partition: &Partition,
    index: i32,
    version: i16,
) -> MetadataResponsePartition {
    // v0 has nothing else to say that a replica is out of reach.
    let shown = |ids: &[NodeId]| if version == 0 { seen.reachable(ids) } else { names::broker_ids(ids) };
    let (replicas, isr) = (shown(&partition.replicas), shown(&partition.isr));
    let leader = seen.leader(partition);
    let error = match leader {
        Err(ErrorCode::ListenerNotFound) if version < 6 => ErrorCode::LeaderNotAvailable,
        Err(error) => error,
        Ok(_) if replicas.len() < partition.replicas.len() || isr.len() < partition.isr.len() => {
            ErrorCode::ReplicaNotAvailable
        }
        Ok(_) => ErrorCode::None,
    };
    MetadataResponsePartition::default()
        .with_error_code(error.code())
        .with_partition_index(index)
        .with_leader_id(names::broker_id(leader.ok()))
        .with_leader_epoch(partition.leader_epoch)
        .with_replica_nodes(replicas)
        .with_isr_nodes(isr)
        .with_offline_replicas(seen.offline_replicas(partition))
}
