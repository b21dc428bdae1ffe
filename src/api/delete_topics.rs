//! DeleteTopics (20), versions 1–6: deletes topics, by name or (v6, KIP-516) by id.
//!
//! Whoever waits for a deleted topic is answered at once. The answer is sent once every broker has dropped the
//! topics. Versions: 3 has TOPIC_DELETION_DISABLED, older ones INVALID_REQUEST for it; 5 messages.

use std::collections::BTreeMap;

use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{ApiKey, DeleteTopicsRequest, DeleteTopicsResponse, TopicName};

use super::topic_changes::answer_once_applied;
use super::{Answer, AnyResponse, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::{ErrorCode, TopicId};

pub(crate) struct DeleteTopics;

impl Api for DeleteTopics {
    const KEY: ApiKey = ApiKey::DeleteTopics;
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=6;
    type Wire = DeleteTopicsRequest;
    type Request = DeleteTopicsRequest;
    type Response = DeleteTopicsResponse;

    fn prepare(mut wire: DeleteTopicsRequest, _: &Preparation) -> Result<DeleteTopicsRequest, Refusal> {
        let by_name =
            wire.topic_names.drain(..).map(|name| DeleteTopicState::default().with_name(Some(name)));
        wire.topics.extend(by_name);
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: DeleteTopicsRequest) -> Answer<DeleteTopicsResponse> {
        let version = context.caller.version;
        if !context.parts.controller.settings().topics.delete_topic_enable {
            let error =
                if version < 3 { ErrorCode::InvalidRequest } else { ErrorCode::TopicDeletionDisabled };
            let why = "Topics can't be deleted: delete.topic.enable is false.";
            return all_failed(&request, error, why);
        }
        if request.timeout_ms <= 0 && !request.topics.is_empty() {
            return all_failed(
                &request,
                ErrorCode::RequestTimedOut,
                "The request's timeout was not positive.",
            );
        }
        let mut times: BTreeMap<(Option<TopicName>, TopicId), usize> = BTreeMap::new();
        let key = |topic: &DeleteTopicState| (topic.name.clone(), TopicId::from(topic.topic_id));
        for topic in &request.topics {
            *times.entry(key(topic)).or_default() += 1;
        }
        let mut responses = Vec::with_capacity(request.topics.len());
        let mut deleted = Vec::new();
        for topic in &request.topics {
            let Some(times) = times.remove(&key(topic)) else { continue };
            let (name, id) = key(topic);
            let result = match (&name, id.is_zero()) {
                (Some(_), false) => Err((ErrorCode::InvalidRequest, "Name or id, not both.")),
                (None, true) => Err((ErrorCode::InvalidRequest, "Neither a name nor an id.")),
                _ if times > 1 => Err((ErrorCode::InvalidRequest, "The topic is named twice.")),
                (Some(name), true) => find_by_name(context, name),
                (None, false) => context
                    .parts
                    .controller
                    .topics()
                    .by_id(id)
                    .map(|topic| topic.id)
                    .ok_or((ErrorCode::UnknownTopicId, "No topic has this id.")),
            };
            responses.push(match result {
                Err((error, why)) => failed(topic, error, why),
                Ok(id) => {
                    deleted.push(id);
                    topic_result(context, id)
                }
            });
        }
        // A topic that is named both by name and by id is deleted once.
        for id in &deleted {
            let _ = context.parts.controller.delete_topic(*id);
        }
        let response = DeleteTopicsResponse::default().with_responses(responses);
        if deleted.is_empty() {
            return Answer::Ready(response);
        }
        let timed_out = timed_out(&response);
        answer_once_applied(
            context,
            request.timeout_ms,
            format!("{} deleted topic(s)", deleted.len()),
            AnyResponse::DeleteTopics(response),
            AnyResponse::DeleteTopics(timed_out),
        )
    }
}

type Found = Result<TopicId, (ErrorCode, &'static str)>;

fn find_by_name(context: &Context<'_>, name: &str) -> Found {
    let topic = context.parts.controller.topics().by_name(name);
    topic.map(|topic| topic.id).ok_or((ErrorCode::UnknownTopicOrPartition, "There is no such topic."))
}

fn topic_result(context: &Context<'_>, id: TopicId) -> DeletableTopicResult {
    let name = context.parts.controller.topics().by_id(id).map(|topic| names::topic_name(&topic.name));
    DeletableTopicResult::default().with_name(name).with_topic_id(id.into())
}

fn failed(topic: &DeleteTopicState, error: ErrorCode, why: &str) -> DeletableTopicResult {
    DeletableTopicResult::default()
        .with_name(topic.name.clone())
        .with_topic_id(topic.topic_id)
        .with_error_code(error.code())
        .with_error_message(Some(names::text(why)))
}

fn all_failed(request: &DeleteTopicsRequest, error: ErrorCode, why: &str) -> Answer<DeleteTopicsResponse> {
    let responses = request.topics.iter().map(|topic| failed(topic, error, why)).collect();
    Answer::Ready(DeleteTopicsResponse::default().with_responses(responses))
}

fn timed_out(response: &DeleteTopicsResponse) -> DeleteTopicsResponse {
    let responses = response.responses.iter().map(|result| match result.error_code {
        0 => result.clone().with_error_code(ErrorCode::RequestTimedOut.code()),
        _ => result.clone(),
    });
    DeleteTopicsResponse::default().with_responses(responses.collect())
}
