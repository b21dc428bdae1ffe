//! CreatePartitions (37), versions 0–3: gives topics more partitions (KIP-195).
//!
//! The answer is sent once every broker knows the new partitions. Versions: 3 has quotas (KIP-599, never exceeded
//! here).

use std::collections::BTreeMap;

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::create_partitions_response::CreatePartitionsTopicResult;
use kafka_protocol::messages::{ApiKey, CreatePartitionsRequest, CreatePartitionsResponse, TopicName};

use super::subjects::NamesTopic;
use super::topic_changes::answer_once_applied;
use super::{Answer, AnyResponse, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::{ErrorCode, NodeId};
use crate::controller::NewPartitions;

pub(crate) struct CreatePartitions;

impl Api for CreatePartitions {
    const KEY: ApiKey = ApiKey::CreatePartitions;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=3;
    type Wire = CreatePartitionsRequest;
    type Request = CreatePartitionsRequest;
    type Response = CreatePartitionsResponse;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> =
        Some(|request, topic, _| request.topics.iter().any(|one| topic.is_named(&one.name)));

    fn prepare(wire: CreatePartitionsRequest, _: &Preparation) -> Result<CreatePartitionsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(
        context: &mut Context<'_>,
        request: CreatePartitionsRequest,
    ) -> Answer<CreatePartitionsResponse> {
        let mut times: BTreeMap<&TopicName, usize> = BTreeMap::new();
        for topic in &request.topics {
            *times.entry(&topic.name).or_default() += 1;
        }
        if request.timeout_ms <= 0 && times.values().any(|times| *times == 1) {
            let results =
                request.topics.iter().map(|topic| result(&topic.name, ErrorCode::RequestTimedOut, None));
            return Answer::Ready(CreatePartitionsResponse::default().with_results(results.collect()));
        }
        let mut results = Vec::with_capacity(request.topics.len());
        for topic in &request.topics {
            let Some(times) = times.remove(&topic.name) else { continue };
            results.push(if times > 1 {
                result(&topic.name, ErrorCode::InvalidRequest, Some("The topic is named twice."))
            } else {
                grow(context, topic, request.validate_only)
            });
        }
        let response = CreatePartitionsResponse::default().with_results(results);
        let grown = |result: &&CreatePartitionsTopicResult| result.error_code == 0;
        let grown: Vec<&str> =
            response.results.iter().filter(grown).map(|result| result.name.as_str()).collect();
        if request.validate_only || grown.is_empty() {
            return Answer::Ready(response);
        }
        let grown = grown.join(", ");
        let timed_out = timed_out(&response);
        answer_once_applied(
            context,
            request.timeout_ms,
            grown,
            AnyResponse::CreatePartitions(response),
            AnyResponse::CreatePartitions(timed_out),
        )
    }
}

fn grow(
    context: &mut Context<'_>,
    topic: &CreatePartitionsTopic,
    validate_only: bool,
) -> CreatePartitionsTopicResult {
    let assignments = topic.assignments.as_ref().map(|assignments| {
        let nodes = assignments.iter().map(|one| one.broker_ids.iter().map(|id| NodeId(id.0)).collect());
        nodes.collect()
    });
    let new = NewPartitions { count: topic.count, assignments };
    match context.parts.controller.create_partitions(&topic.name, new, validate_only) {
        Ok(_) => result(&topic.name, ErrorCode::None, None),
        Err(error) => result(&topic.name, error.code(), error.message().as_deref()),
    }
}

fn result(name: &TopicName, error: ErrorCode, why: Option<&str>) -> CreatePartitionsTopicResult {
    CreatePartitionsTopicResult::default()
        .with_name(name.clone())
        .with_error_code(error.code())
        .with_error_message(why.map(names::text))
}

fn timed_out(response: &CreatePartitionsResponse) -> CreatePartitionsResponse {
    let results = response.results.iter().map(|one| match one.error_code {
        0 => result(&one.name, ErrorCode::RequestTimedOut, None),
        _ => one.clone(),
    });
    CreatePartitionsResponse::default().with_results(results.collect())
}
