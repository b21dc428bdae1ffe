//! SyncGroup (14), versions 0–5: the leader hands in the assignment, everybody gets their part.
//!
//! Versions: 3 has static members (KIP-345); 5 says the protocol, which must be the group's (KIP-559).

use std::sync::Arc;

use kafka_protocol::messages::{ApiKey, SyncGroupRequest, SyncGroupResponse};

use super::group_waits::{GroupResponse, answer_or_park};
use super::subjects::NamesGroup;
use super::{Answer, AnyResponse, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::{ErrorCode, Instant};
use crate::coordinator::groups::{GroupReply, Outcome, Sync};

pub(crate) struct SyncGroup;

impl Api for SyncGroup {
    const KEY: ApiKey = ApiKey::SyncGroup;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;
    type Wire = SyncGroupRequest;
    type Request = SyncGroupRequest;
    type Response = SyncGroupResponse;
    const NAMES_GROUP: Option<NamesGroup<Self::Request>> = Some(|request, group| *request.group_id == *group);

    fn prepare(wire: SyncGroupRequest, _: &Preparation) -> Result<SyncGroupRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: SyncGroupRequest) -> Answer<SyncGroupResponse> {
        if context.caller.version >= 5 && (request.protocol_type.is_none() || request.protocol_name.is_none())
        {
            return Answer::Ready(response(Some(Err(ErrorCode::InconsistentGroupProtocol))));
        }
        if request.group_id.is_empty() {
            return Answer::Ready(response(Some(Err(ErrorCode::InvalidGroupId))));
        }
        let group: Arc<str> = request.group_id.as_str().into();
        let assignments = request.assignments.iter().map(|given| {
            (Arc::from(given.member_id.as_str()), bytes::Bytes::copy_from_slice(&given.assignment))
        });
        let sync = Sync {
            member_id: request.member_id.as_str().into(),
            instance_id: request.group_instance_id.as_ref().map(|id| id.as_str().into()),
            generation: request.generation_id,
            protocol_type: request.protocol_type.as_ref().map(|kind| kind.as_str().into()),
            protocol: request.protocol_name.as_ref().map(|name| name.as_str().into()),
            assignments: assignments.collect(),
        };
        let (coordinators, mut storage) = context.parts.coordinators();
        match coordinators.sync(&mut storage, &group, sync) {
            Err(error) => Answer::Ready(response(Some(Err(error)))),
            Ok(Outcome::Ready(reply)) => Answer::Ready(response(Some(Ok(GroupReply::Sync(reply))))),
            Ok(Outcome::Waits(ticket)) => {
                let response = GroupResponse::Sync { reply: None };
                // The group's own timers end every wait of its members.
                answer_or_park(context, group, vec![(ticket, 0)], response, Instant::NEVER, |any| match any {
                    AnyResponse::SyncGroup(response) => Some(response),
                    _ => None,
                })
            }
        }
    }
}

/// The answer to a sync that got this reply.
pub(super) fn response(reply: Option<Result<GroupReply, ErrorCode>>) -> SyncGroupResponse {
    let response = SyncGroupResponse::default().with_protocol_type(None).with_protocol_name(None);
    match reply {
        Some(Ok(GroupReply::Sync(reply))) => response
            .with_protocol_type(reply.protocol_type.as_deref().map(names::text))
            .with_protocol_name(reply.protocol.as_deref().map(names::text))
            .with_assignment(reply.assignment),
        Some(Err(error)) => response.with_error_code(error.code()),
        _ => response.with_error_code(ErrorCode::UnknownServerError.code()),
    }
}
