//! AlterPartitionReassignments (45), versions 0–1: moves partitions to other brokers, or cancels a move (KIP-455).
//!
//! The answer says that moves have begun, and that every broker knows; ListPartitionReassignments shows which go on.
//! Versions: 1 lets the client forbid a change of the replication factor (KIP-860).

use kafka_protocol::messages::alter_partition_reassignments_request::ReassignablePartition;
use kafka_protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ApiKey,
};

use super::topic_changes::answer_once_applied;
use super::{Answer, AnyResponse, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::{ErrorCode, NodeId};

pub(crate) struct AlterPartitionReassignments;

impl Api for AlterPartitionReassignments {
    const KEY: ApiKey = ApiKey::AlterPartitionReassignments;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;
    type Wire = AlterPartitionReassignmentsRequest;
    type Request = AlterPartitionReassignmentsRequest;
    type Response = AlterPartitionReassignmentsResponse;

    fn prepare(
        wire: AlterPartitionReassignmentsRequest,
        _: &Preparation,
    ) -> Result<AlterPartitionReassignmentsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(
        context: &mut Context<'_>,
        request: AlterPartitionReassignmentsRequest,
    ) -> Answer<AlterPartitionReassignmentsResponse> {
        if request.topics.is_empty() {
            // As Kafka answers where there is nothing to do: with the defaults of the response's fields.
            return Answer::Ready(AlterPartitionReassignmentsResponse::default());
        }
        let is_late = request.timeout_ms <= 0;
        let before = context.parts.controller.last_change();
        let may_change_factor = request.allow_replication_factor_change;
        let topics = request.topics.iter().map(|topic| {
            let rows = topic.partitions.iter().map(|asked| {
                let (error, why) = match is_late {
                    true => (ErrorCode::RequestTimedOut, None),
                    false => reassign(context, &topic.name, asked, may_change_factor),
                };
                ReassignablePartitionResponse::default()
                    .with_partition_index(asked.partition_index)
                    .with_error_code(error.code())
                    .with_error_message(why.map(names::text))
            });
            ReassignableTopicResponse::default().with_name(topic.name.clone()).with_partitions(rows.collect())
        });
        let error = if is_late { ErrorCode::RequestTimedOut } else { ErrorCode::None };
        let response = AlterPartitionReassignmentsResponse::default()
            .with_error_code(error.code())
            .with_error_message(None)
            .with_responses(topics.collect());
        let response = match context.caller.version {
            0 => response,
            _ => response.with_allow_replication_factor_change(may_change_factor),
        };
        if context.parts.controller.last_change() == before {
            return Answer::Ready(response);
        }
        let mut timed_out = response.clone();
        let moved = timed_out.responses.iter_mut().flat_map(|topic| &mut topic.partitions);
        moved.filter(|row| row.error_code == 0).for_each(|row| {
            row.error_code = ErrorCode::RequestTimedOut.code();
        });
        let topics =
            response.responses.iter().map(|topic| topic.name.as_str()).collect::<Vec<_>>().join(", ");
        answer_once_applied(
            context,
            request.timeout_ms,
            topics,
            AnyResponse::AlterPartitionReassignments(response),
            AnyResponse::AlterPartitionReassignments(timed_out),
        )
    }
}

fn reassign(
    context: &mut Context<'_>,
    topic: &str,
    asked: &ReassignablePartition,
    may_change_factor: bool,
) -> (ErrorCode, Option<String>) {
    let replicas = asked.replicas.as_ref();
    let replicas: Option<Vec<NodeId>> =
        replicas.map(|replicas| replicas.iter().map(|id| NodeId(id.0)).collect());
    let controller = &mut context.parts.controller;
    let begun = controller.reassign(topic, asked.partition_index, replicas.as_deref(), may_change_factor);
    match begun.map_err(|error| (error.code(), error.to_string())) {
        Ok(()) => (ErrorCode::None, None),
        // Kafka says nothing more of it.
        Err((error @ ErrorCode::NoReassignmentInProgress, _)) => (error, None),
        Err((error, why)) => (error, Some(why)),
    }
}
