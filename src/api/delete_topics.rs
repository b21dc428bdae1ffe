//! DeleteTopics (20), versions 1–6: deletes topics, by name or (v6, KIP-516) by id.
//!
//! Whoever waits for a deleted topic is answered at once. The answer is sent once every broker has dropped the
//! topics. Versions: 3 has TOPIC_DELETION_DISABLED, older ones INVALID_REQUEST for it; 5 messages.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::delete_topics_response::DeletableTopicResult;
use kafka_protocol::messages::{ApiKey, DeleteTopicsRequest, DeleteTopicsResponse, TopicName};

use super::subjects::NamesTopic;
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
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> = Some(|request, topic, _| {
        let ids = request
            .topics
            .iter()
            .any(|one| topic.is(one.name.as_deref().map_or("", |name| name), one.topic_id));
        ids || request.topic_names.iter().any(|name| topic.is_named(name))
    });

    fn prepare(mut wire: DeleteTopicsRequest, _: &Preparation) -> Result<DeleteTopicsRequest, Refusal> {
        let by_name =
            wire.topic_names.drain(..).map(|name| DeleteTopicState::default().with_name(Some(name)));
        wire.topics.extend(by_name);
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: DeleteTopicsRequest) -> Answer<DeleteTopicsResponse> {
        if !context.parts.controller.settings().topics.delete_topic_enable {
            let error = match context.caller.version {
                ..3 => ErrorCode::InvalidRequest,
                _ => ErrorCode::TopicDeletionDisabled,
            };
            return all_failed(&request, error);
        }
        let named = Named::new(&request.topics);
        if request.timeout_ms <= 0 && !(named.names.is_empty() && named.ids.is_empty()) {
            return all_failed(&request, ErrorCode::RequestTimedOut);
        }
        let (deleted, mut responses) = find(context, named);
        responses.extend(deleted.iter().map(|id| topic_result(context, *id)));
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

/// What a request names, sorted as Kafka does (`ControllerApis.deleteTopics`): a name or an id that comes more than
/// once is refused once and for all.
struct Named {
    /// Named once.
    names: BTreeSet<TopicName>,
    /// Named once.
    ids: BTreeSet<TopicId>,
    repeated_ids: BTreeSet<TopicId>,
    refused: Vec<DeletableTopicResult>,
}

impl Named {
    fn new(topics: &[DeleteTopicState]) -> Self {
        let mut names: BTreeMap<&TopicName, usize> = BTreeMap::new();
        let mut ids: BTreeMap<TopicId, usize> = BTreeMap::new();
        let mut refused = Vec::new();
        for topic in topics {
            match (&topic.name, TopicId::from(topic.topic_id)) {
                (None, TopicId::ZERO) => {
                    refused.push(failed(
                        None,
                        TopicId::ZERO,
                        ErrorCode::InvalidRequest,
                        "Neither a name nor an id.",
                    ));
                }
                (None, id) => *ids.entry(id).or_default() += 1,
                (Some(name), TopicId::ZERO) => *names.entry(name).or_default() += 1,
                (Some(name), id) => {
                    refused.push(failed(Some(name), id, ErrorCode::InvalidRequest, "Name or id, not both."));
                }
            }
        }
        let (names, repeated_names): (BTreeMap<_, _>, BTreeMap<_, _>) =
            names.into_iter().partition(|(_, times)| *times == 1);
        let (ids, repeated_ids): (BTreeMap<_, _>, BTreeMap<_, _>) =
            ids.into_iter().partition(|(_, times)| *times == 1);
        let twice = |name, id| failed(name, id, ErrorCode::InvalidRequest, "The topic is named twice.");
        refused.extend(repeated_names.into_keys().map(|name| twice(Some(name), TopicId::ZERO)));
        refused.extend(repeated_ids.keys().map(|id| twice(None, *id)));
        Named {
            names: names.into_keys().cloned().collect(),
            ids: ids.into_keys().collect(),
            repeated_ids: repeated_ids.into_keys().collect(),
            refused,
        }
    }
}

/// The topics to delete, and the answers for what is none. A topic that is named by name and by id is not deleted.
fn find(context: &Context<'_>, named: Named) -> (BTreeSet<TopicId>, Vec<DeletableTopicResult>) {
    let Named { names, ids, mut repeated_ids, refused: mut responses } = named;
    let topics = context.parts.controller.topics();
    let (mut found, unknown): (BTreeSet<TopicId>, BTreeSet<TopicId>) =
        ids.into_iter().partition(|id| topics.by_id(*id).is_some());
    let unknown = unknown.into_iter();
    responses.extend(unknown.map(|id| failed(None, id, ErrorCode::UnknownTopicId, "No topic has this id.")));
    for name in &names {
        let Some(topic) = topics.by_name(name) else {
            let error = ErrorCode::UnknownTopicOrPartition;
            responses.push(failed(Some(name), TopicId::ZERO, error, "There is no such topic."));
            continue;
        };
        if repeated_ids.contains(&topic.id) || !found.insert(topic.id) {
            repeated_ids.insert(topic.id);
            found.remove(&topic.id);
            let why = "The topic is named by its id, too.";
            responses.push(failed(Some(name), topic.id, ErrorCode::InvalidRequest, why));
        }
    }
    (found, responses)
}

fn topic_result(context: &Context<'_>, id: TopicId) -> DeletableTopicResult {
    let name = context.parts.controller.topics().by_id(id).map(|topic| names::topic_name(&topic.name));
    DeletableTopicResult::default().with_name(name).with_topic_id(id.into())
}

fn failed(name: Option<&TopicName>, id: TopicId, error: ErrorCode, why: &str) -> DeletableTopicResult {
    DeletableTopicResult::default()
        .with_name(name.cloned())
        .with_topic_id(id.into())
        .with_error_code(error.code())
        .with_error_message(Some(names::text(why)))
}

/// The request as a whole can't be done: Kafka has no words for each topic then.
fn all_failed(request: &DeleteTopicsRequest, error: ErrorCode) -> Answer<DeleteTopicsResponse> {
    let failed = |topic: &DeleteTopicState| {
        DeletableTopicResult::default()
            .with_name(topic.name.clone())
            .with_topic_id(topic.topic_id)
            .with_error_code(error.code())
    };
    let responses = request.topics.iter().map(failed).collect();
    Answer::Ready(DeleteTopicsResponse::default().with_responses(responses))
}

fn timed_out(response: &DeleteTopicsResponse) -> DeleteTopicsResponse {
    let responses = response.responses.iter().map(|result| match result.error_code {
        0 => result.clone().with_error_code(ErrorCode::RequestTimedOut.code()),
        _ => result.clone(),
    });
    DeleteTopicsResponse::default().with_responses(responses.collect())
}
