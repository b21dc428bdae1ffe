//! Heartbeat (12), versions 0–4: a member of a classic group lives, and hears whether a rebalance is under way.
//!
//! The answer waits until all that the member is told from is committed, `offsets.commit.timeout.ms` at most. While the
//! group's partition loads, there is no error: as in Kafka, this API alone says nothing of that.
//!
//! Versions: 3 has static members (KIP-345).

use std::sync::Arc;

use kafka_protocol::messages::{ApiKey, HeartbeatRequest, HeartbeatResponse};

use super::group_waits::{GroupResponse, answer_once_committed};
use super::subjects::NamesGroup;
use super::{Answer, AnyResponse, Api, Context, Refusal, prepare::Preparation};
use crate::base::ErrorCode;

pub(crate) struct Heartbeat;

impl Api for Heartbeat {
    const KEY: ApiKey = ApiKey::Heartbeat;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=4;
    type Wire = HeartbeatRequest;
    type Request = HeartbeatRequest;
    type Response = HeartbeatResponse;
    const NAMES_GROUP: Option<NamesGroup<Self::Request>> = Some(|request, group| *request.group_id == *group);

    fn prepare(wire: HeartbeatRequest, _: &Preparation) -> Result<HeartbeatRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: HeartbeatRequest) -> Answer<HeartbeatResponse> {
        let group: Arc<str> = request.group_id.as_str().into();
        let outcome = if group.is_empty() {
            Err(ErrorCode::InvalidGroupId)
        } else {
            let instance_id = request.group_instance_id.as_ref().map(|id| id.as_str());
            let (coordinators, mut storage) = context.parts.coordinators();
            coordinators.heartbeat(
                &mut storage,
                &group,
                &request.member_id,
                instance_id,
                request.generation_id,
            )
        };
        let error = match outcome {
            // The member learns with its next one whether it is still one (`GroupCoordinatorService.heartbeat`).
            Ok(_) | Err(ErrorCode::CoordinatorLoadInProgress) => ErrorCode::None,
            Err(error) => error,
        };
        let response = HeartbeatResponse::default().with_error_code(error.code());
        let response = GroupResponse::Heartbeat(response);
        answer_once_committed(context, group, outcome.ok().flatten(), response, |any| match any {
            AnyResponse::Heartbeat(response) => Some(response),
            _ => None,
        })
    }
}
