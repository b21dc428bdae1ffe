//! LeaveGroup (13), versions 0–5: members leave a group, of the classic or the consumer protocol.
//!
//! The answer waits until the end of their membership is committed, where that is written, `offsets.commit.timeout.ms` at
//! most.
//!
//! Versions: 3 lets several leave at once, static ones by their instance id alone (KIP-345); 5 has reasons (KIP-800).
//! Before v3 the one member's outcome is the whole answer.

use std::sync::Arc;

use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::leave_group_response::MemberResponse;
use kafka_protocol::messages::{ApiKey, LeaveGroupRequest, LeaveGroupResponse};

use super::group_waits::{GroupResponse, answer_once_committed};
use super::subjects::NamesGroup;
use super::{Answer, AnyResponse, Api, Context, Refusal, prepare::Preparation};
use crate::base::ErrorCode;
use crate::coordinator::groups::Leaver;

pub(crate) struct LeaveGroup;

impl Api for LeaveGroup {
    const KEY: ApiKey = ApiKey::LeaveGroup;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;
    type Wire = LeaveGroupRequest;
    type Request = LeaveGroupRequest;
    type Response = LeaveGroupResponse;
    const NAMES_GROUP: Option<NamesGroup<Self::Request>> = Some(|request, group| *request.group_id == *group);

    fn prepare(mut wire: LeaveGroupRequest, preparation: &Preparation) -> Result<LeaveGroupRequest, Refusal> {
        if preparation.version < 3 {
            wire.members = vec![MemberIdentity::default().with_member_id(wire.member_id.clone())];
        }
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: LeaveGroupRequest) -> Answer<LeaveGroupResponse> {
        let group: Arc<str> = request.group_id.as_str().into();
        let leavers: Vec<Leaver> = request
            .members
            .iter()
            .map(|member| Leaver {
                member_id: member.member_id.as_str().into(),
                instance_id: member.group_instance_id.as_ref().map(|id| id.as_str().into()),
            })
            .collect();
        let outcome = if group.is_empty() {
            Err(ErrorCode::InvalidGroupId)
        } else {
            let (coordinators, mut storage) = context.parts.coordinators();
            coordinators.leave(&mut storage, &group, &leavers)
        };
        let (ticket, outcomes) = match outcome {
            Ok((ticket, outcomes)) => (ticket, Ok(outcomes)),
            Err(error) => (None, Err(error)),
        };
        let response = GroupResponse::Leave(response(request, context.caller.version, outcomes));
        answer_once_committed(context, group, ticket, response, |any| match any {
            AnyResponse::LeaveGroup(response) => Some(response),
            _ => None,
        })
    }
}

fn response(
    request: LeaveGroupRequest,
    version: i16,
    outcomes: Result<Vec<ErrorCode>, ErrorCode>,
) -> LeaveGroupResponse {
    let response = LeaveGroupResponse::default();
    match outcomes {
        Err(error) => response.with_error_code(error.code()),
        Ok(outcomes) if version < 3 => {
            response.with_error_code(outcomes.first().copied().unwrap_or_default().code())
        }
        Ok(outcomes) => {
            let rows = request.members.into_iter().zip(outcomes).map(|(member, outcome)| {
                MemberResponse::default()
                    .with_member_id(member.member_id)
                    .with_group_instance_id(member.group_instance_id)
                    .with_error_code(outcome.code())
            });
            response.with_members(rows.collect())
        }
    }
}
