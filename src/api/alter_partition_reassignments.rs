//! AlterPartitionReassignments (45), versions 0–1: moves partitions to other brokers, or cancels a move (KIP-455).
//!
//! To move a partition to where it is succeeds, as in Kafka. Versions: 1 lets the client forbid a change of the
//! replication factor (KIP-860).
//!
//! Not done: a move to another broker, which is INVALID_REPLICA_ASSIGNMENT, since no broker follows another yet.

use kafka_protocol::messages::alter_partition_reassignments_request::ReassignablePartition;
use kafka_protocol::messages::alter_partition_reassignments_response::{
    ReassignablePartitionResponse, ReassignableTopicResponse,
};
use kafka_protocol::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ApiKey,
};

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
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
        let is_late = request.timeout_ms <= 0;
        let topics = request.topics.iter().map(|topic| {
            let rows = topic.partitions.iter().map(|asked| {
                let (error, why) = match is_late {
                    true => (ErrorCode::RequestTimedOut, None),
                    false => reassign(context, &topic.name, asked),
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
        Answer::Ready(match context.caller.version {
            0 => response,
            _ => response.with_allow_replication_factor_change(request.allow_replication_factor_change),
        })
    }
}

fn reassign(
    context: &Context<'_>,
    topic: &str,
    asked: &ReassignablePartition,
) -> (ErrorCode, Option<String>) {
    let replicas = asked.replicas.as_ref();
    let replicas: Option<Vec<NodeId>> =
        replicas.map(|replicas| replicas.iter().map(|id| NodeId(id.0)).collect());
    let checked =
        context.parts.controller.check_reassignment(topic, asked.partition_index, replicas.as_deref());
    match checked.map_err(|error| (error.code(), error.to_string())) {
        Ok(()) => (ErrorCode::None, None),
        // Kafka says nothing more of it.
        Err((error @ ErrorCode::NoReassignmentInProgress, _)) => (error, None),
        Err((error, why)) => (error, Some(why)),
    }
}
