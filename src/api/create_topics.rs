//! CreateTopics (19), versions 2–7: makes topics.
//!
//! Each topic succeeds or fails alone, in Kafka's order of checks (`ReplicationControlManager`). Numbers of −1 stand
//! for the broker's defaults. `validate_only` answers as if the topics were made. The answer is sent once every
//! broker knows the topics, so that they can be used at once; a timeout of 0 or less is answered with
//! REQUEST_TIMED_OUT and makes nothing.
//!
//! Versions: 5 tells partitions, replication factor and effective configs (KIP-525); 6 quotas (KIP-599, never
//! exceeded here); 7 topic ids (KIP-516).

use std::collections::BTreeMap;
use std::sync::Arc;

use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use kafka_protocol::messages::{ApiKey, CreateTopicsRequest, CreateTopicsResponse, TopicName};

use super::subjects::NamesTopic;
use super::topic_changes::answer_once_applied;
use super::{Answer, AnyResponse, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::{ErrorCode, NodeId};
use crate::controller::configs::DescribedConfig;
use crate::controller::{ControllerError, MAX_PARTITIONS_A_REQUEST, NewTopic, Topic};

pub(crate) struct CreateTopics;

impl Api for CreateTopics {
    const KEY: ApiKey = ApiKey::CreateTopics;
    const VERSIONS: std::ops::RangeInclusive<i16> = 2..=7;
    type Wire = CreateTopicsRequest;
    type Request = CreateTopicsRequest;
    type Response = CreateTopicsResponse;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> =
        Some(|request, topic, _| request.topics.iter().any(|one| topic.is_named(&one.name)));

    fn prepare(wire: CreateTopicsRequest, _: &Preparation) -> Result<CreateTopicsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: CreateTopicsRequest) -> Answer<CreateTopicsResponse> {
        let mut times: BTreeMap<&TopicName, usize> = BTreeMap::new();
        for topic in &request.topics {
            *times.entry(&topic.name).or_default() += 1;
        }
        let twice = times.iter().filter(|(_, times)| **times > 1);
        let mut results: Vec<CreatableTopicResult> = twice
            .map(|(name, _)| failed(name, ErrorCode::InvalidRequest, Some("The topic is named twice.")))
            .collect();
        let topics: Vec<&CreatableTopic> =
            request.topics.iter().filter(|topic| times[&topic.name] == 1).collect();
        if let Some((error, why)) = refused_as_a_whole(context, &topics, request.timeout_ms) {
            let all = request.topics.iter().map(|topic| failed(&topic.name, error, why));
            return Answer::Ready(CreateTopicsResponse::default().with_topics(all.collect()));
        }
        let new = topics.iter().map(|topic| new_topic(topic)).collect();
        let created = context.parts.controller.create_topics(new, request.validate_only);
        let mut plain = None;
        for (topic, created) in topics.into_iter().zip(created) {
            results.push(match created {
                Ok(created) => succeeded(context, topic, &created, &mut plain),
                Err(error) => failed(&topic.name, error.code(), error.message().as_deref()),
            });
        }
        let response = CreateTopicsResponse::default().with_topics(results);
        let made = |result: &&CreatableTopicResult| result.error_code == 0;
        let made: Vec<&str> =
            response.topics.iter().filter(made).map(|result| result.name.as_str()).collect();
        if request.validate_only || made.is_empty() {
            return Answer::Ready(response);
        }
        let made = made.join(", ");
        let timed_out = timed_out(&response);
        answer_once_applied(
            context,
            request.timeout_ms,
            made,
            AnyResponse::CreateTopics(response),
            AnyResponse::CreateTopics(timed_out),
        )
    }
}

fn refused_as_a_whole(
    context: &Context<'_>,
    topics: &[&CreatableTopic],
    timeout_ms: i32,
) -> Option<(ErrorCode, Option<&'static str>)> {
    let default = i64::from(context.parts.controller.settings().topics.num_partitions);
    let partitions: i64 = topics
        .iter()
        .map(|topic| match (topic.assignments.len(), topic.num_partitions) {
            (0, -1) => default,
            (0, count) => i64::from(count.max(0)),
            (assigned, _) => assigned as i64,
        })
        .sum();
    if partitions as u64 > MAX_PARTITIONS_A_REQUEST {
        let why = "Too many partitions for one request: the most is 10000.";
        return Some((ErrorCode::PolicyViolation, Some(why)));
    }
    (timeout_ms <= 0 && !topics.is_empty()).then_some((ErrorCode::RequestTimedOut, None))
}

fn new_topic(topic: &CreatableTopic) -> NewTopic {
    let nodes = |ids: &[kafka_protocol::messages::BrokerId]| ids.iter().map(|id| NodeId(id.0)).collect();
    NewTopic {
        name: topic.name.to_string(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: topic
            .assignments
            .iter()
            .map(|assignment| (assignment.partition_index, nodes(&assignment.broker_ids)))
            .collect(),
        configs: topic
            .configs
            .iter()
            .map(|config| (config.name.to_string(), config.value.as_ref().map(ToString::to_string)))
            .collect(),
    }
}

/// The configs of topics without any of their own are the same for all, and put together once: others must not wait for as
/// long as that would take for each of ten thousand.
fn succeeded(
    context: &Context<'_>,
    asked: &CreatableTopic,
    topic: &Arc<Topic>,
    plain: &mut Option<Vec<CreatableTopicConfigs>>,
) -> CreatableTopicResult {
    // The codec's default message is an empty one, Kafka's is none.
    let result = CreatableTopicResult::default().with_name(asked.name.clone()).with_error_message(None);
    if context.caller.version < 5 {
        return result;
    }
    let factor = topic.partitions.first().map_or(0, |partition| partition.replicas.len());
    let configs = match topic.overrides.is_empty() {
        true => plain.get_or_insert_with(|| effective_configs(context, topic)).clone(),
        false => effective_configs(context, topic),
    };
    result
        .with_topic_id(topic.id.into())
        .with_num_partitions(topic.partitions.len() as i32)
        .with_replication_factor(factor as i16)
        .with_configs(Some(configs))
}

fn effective_configs(context: &Context<'_>, topic: &Topic) -> Vec<CreatableTopicConfigs> {
    let row = |config: DescribedConfig| {
        CreatableTopicConfigs::default()
            .with_name(names::text(config.name))
            .with_value(config.value.map(names::text))
            .with_read_only(config.read_only)
            .with_config_source(config.source.code())
            .with_is_sensitive(config.is_sensitive)
    };
    context.parts.controller.describe_topic_configs(topic).into_iter().map(row).collect()
}

fn failed(name: &TopicName, error: ErrorCode, why: Option<&str>) -> CreatableTopicResult {
    CreatableTopicResult::default()
        .with_name(name.clone())
        .with_error_code(error.code())
        .with_error_message(why.map(names::text))
        .with_num_partitions(-1)
        .with_replication_factor(-1)
        .with_configs(Some(Vec::new()))
}

fn timed_out(response: &CreateTopicsResponse) -> CreateTopicsResponse {
    let topics = response.topics.iter().map(|result| match result.error_code {
        0 => failed(&result.name, ErrorCode::RequestTimedOut, None),
        _ => result.clone(),
    });
    CreateTopicsResponse::default().with_topics(topics.collect())
}

impl From<ControllerError> for ErrorCode {
    fn from(error: ControllerError) -> Self {
        error.code()
    }
}
