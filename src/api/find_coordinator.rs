//! FindCoordinator (10), versions 0–6: the broker that looks after a group or a transactional id.
//!
//! librdkafka takes this API for the mark of a broker that can do lz4: without it, its producers send what should be
//! lz4 uncompressed and say nothing. The topic that a coordinator keeps its state in is made at the first request; unlike Kafka, which answers
//! COORDINATOR_NOT_AVAILABLE until it is there, huld answers once it is.
//!
//! Versions: 1 has kinds of key; 4 several keys at once (KIP-699); 6 share groups (KIP-932), whose keys are
//! `group:topic id:partition`.
//!
//! Not done: share groups, which are COORDINATOR_NOT_AVAILABLE.

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{ApiKey, BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

use super::topic_changes::{AUTO_CREATE_TIMEOUT_MS, answer_once_applied};
use super::{Answer, AnyResponse, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::{ErrorCode, NodeId};
use crate::controller::names as topic_names;
use crate::coordinator::partition_for;

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;
const SHARE: i8 = 2;
/// First version that knows share coordinators.
const SHARE_FROM: i16 = 6;

pub(crate) struct FindCoordinator;

impl Api for FindCoordinator {
    const KEY: ApiKey = ApiKey::FindCoordinator;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=6;
    type Wire = FindCoordinatorRequest;
    type Request = FindCoordinatorRequest;
    type Response = FindCoordinatorResponse;

    fn prepare(wire: FindCoordinatorRequest, _: &Preparation) -> Result<FindCoordinatorRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: FindCoordinatorRequest) -> Answer<FindCoordinatorResponse> {
        let version = context.caller.version;
        let before = context.parts.controller.last_change();
        let response = if version >= 4 {
            let rows = request.coordinator_keys.iter().map(|key| {
                let found = find(context, request.key_type, key);
                row(context, key.clone(), found)
            });
            FindCoordinatorResponse::default().with_coordinators(rows.collect())
        } else {
            let found = find(context, request.key_type, &request.key);
            let row = row(context, StrBytes::new(), found);
            let response = FindCoordinatorResponse::default()
                .with_error_code(row.error_code)
                .with_node_id(row.node_id)
                .with_host(row.host)
                .with_port(row.port);
            if version >= 1 { response.with_error_message(row.error_message) } else { response }
        };
        if context.parts.controller.last_change() == before {
            return Answer::Ready(response);
        }
        let timed_out = unavailable(&response);
        answer_once_applied(
            context,
            AUTO_CREATE_TIMEOUT_MS,
            "coordinator's topic".to_owned(),
            AnyResponse::FindCoordinator(response),
            AnyResponse::FindCoordinator(timed_out),
        )
    }
}

fn find(context: &mut Context<'_>, kind: i8, key: &str) -> Result<NodeId, ErrorCode> {
    let name = match kind {
        GROUP => topic_names::CONSUMER_OFFSETS,
        TRANSACTION => topic_names::TRANSACTION_STATE,
        SHARE if context.caller.version >= SHARE_FROM && is_share_key(key) => {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        _ => return Err(ErrorCode::InvalidRequest),
    };
    let controller = &mut context.parts.controller;
    if controller.topics().by_name(name).is_none() {
        let topic = controller.automatic_topic(name, context.parts.broker.id);
        controller.create_topic(topic, false).map_err(|_| ErrorCode::CoordinatorNotAvailable)?;
    }
    let topic = controller.topics().by_name(name);
    let topic = topic.ok_or(ErrorCode::CoordinatorNotAvailable)?;
    // As many as the coordinators were set up for, as in Kafka: groups stay where they are if the topic gets more.
    let settings = context.parts.broker.coordinators.settings();
    let index = match kind {
        GROUP => partition_for(key, settings.partitions),
        _ => partition_for(key, settings.transactions.partitions),
    };
    topic.partition(index).and_then(|partition| partition.leader).ok_or(ErrorCode::CoordinatorNotAvailable)
}

fn row(context: &Context<'_>, key: StrBytes, found: Result<NodeId, ErrorCode>) -> Coordinator {
    let endpoint = found.and_then(|node| {
        let endpoint = context.parts.endpoint(node, context.caller.connection);
        endpoint.map(|endpoint| (node, endpoint)).ok_or(ErrorCode::CoordinatorNotAvailable)
    });
    let row = Coordinator::default().with_key(key);
    match endpoint {
        Ok((node, endpoint)) => row
            .with_node_id(BrokerId(node.0))
            .with_host(names::text(&*endpoint.host))
            .with_port(endpoint.port.into())
            .with_error_message(Some(names::text(ErrorCode::None.name()))),
        Err(error) => failed(row, error),
    }
}

fn failed(row: Coordinator, error: ErrorCode) -> Coordinator {
    row.with_node_id(BrokerId(-1))
        .with_port(-1)
        .with_host(StrBytes::new())
        .with_error_code(error.code())
        .with_error_message(Some(names::text(error.name())))
}

fn unavailable(response: &FindCoordinatorResponse) -> FindCoordinatorResponse {
    let error = ErrorCode::CoordinatorNotAvailable;
    let rows = response.coordinators.iter().map(|row| failed(row.clone(), error));
    FindCoordinatorResponse::default()
        .with_coordinators(rows.collect())
        .with_error_code(error.code())
        .with_node_id(BrokerId(-1))
        .with_port(-1)
}

/// Whether a key has the parts of Kafka's `SharePartitionKey`: a group, a topic id in base64, a partition. The group
/// may hold colons itself.
fn is_share_key(key: &str) -> bool {
    let mut parts = key.rsplitn(3, ':');
    let (Some(partition), Some(topic_id), Some(group)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let is_id = topic_id.len() == 22
        && topic_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    !group.trim().is_empty() && is_id && partition.parse::<i32>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_keys_have_three_parts() {
        for right in ["g:AAAAAAAAAAAAAAAAAAAAAQ:0", "a:b:AAAAAAAAAAAAAAAAAAAAAQ:12"] {
            assert!(is_share_key(right), "{right}");
        }
        for wrong in ["", "g", "g:0", ":AAAAAAAAAAAAAAAAAAAAAQ:0", "g:AAAA:0", "g:AAAAAAAAAAAAAAAAAAAAAQ:x"] {
            assert!(!is_share_key(wrong), "{wrong}");
        }
    }
}
