//! JoinGroup (11), versions 0–9: a member joins a classic group, and waits until the others have.
//!
//! Versions: 1 has a rebalance timeout of its own (KIP-62; before, the session timeout stands for it); 4 tells a new
//! member its id first (KIP-394); 5 has static members (KIP-345); 7 tells the protocol type (KIP-559); 8 a reason
//! (KIP-800); 9 lets a leader skip the assignment (KIP-814). Of a protocol that is named twice the first counts; Kafka
//! never answers some of these.

use std::collections::BTreeSet;
use std::sync::Arc;

use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::{ApiKey, JoinGroupRequest, JoinGroupResponse};
use kafka_protocol::protocol::StrBytes;

use super::group_waits::{GroupResponse, answer_or_park};
use super::subjects::NamesGroup;
use super::{Answer, AnyResponse, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::{ErrorCode, Instant};
use crate::coordinator::groups::{GroupReply, Join, JoinReply, Outcome, Protocol};

pub(crate) struct JoinGroup;

impl Api for JoinGroup {
    const KEY: ApiKey = ApiKey::JoinGroup;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=9;
    type Wire = JoinGroupRequest;
    type Request = JoinGroupRequest;
    type Response = JoinGroupResponse;
    const NAMES_GROUP: Option<NamesGroup<Self::Request>> = Some(|request, group| *request.group_id == *group);

    fn prepare(mut wire: JoinGroupRequest, _: &Preparation) -> Result<JoinGroupRequest, Refusal> {
        let mut names = BTreeSet::new();
        wire.protocols.retain(|protocol| names.insert(protocol.name.clone()));
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: JoinGroupRequest) -> Answer<JoinGroupResponse> {
        let version = context.caller.version;
        let member_id: Arc<str> = request.member_id.as_str().into();
        let outcome = check(context, &request).and_then(|()| {
            let group: Arc<str> = request.group_id.as_str().into();
            let join = join(context, &request, member_id.clone());
            let (coordinators, mut storage) = context.parts.coordinators();
            coordinators.join(&mut storage, &group, join).map(|outcome| (group, outcome))
        });
        match outcome {
            Err(error) => Answer::Ready(response(version, &member_id, Some(Err(error)))),
            Ok((_, Outcome::Ready(reply))) => {
                Answer::Ready(response(version, &member_id, Some(Ok(GroupReply::Join(reply)))))
            }
            Ok((group, Outcome::Waits(ticket))) => {
                let response = GroupResponse::Join { version, member_id, reply: None };
                // The group's own timers end every wait of its members.
                answer_or_park(context, group, vec![(ticket, 0)], response, Instant::NEVER, |any| match any {
                    AnyResponse::JoinGroup(response) => Some(response),
                    _ => None,
                })
            }
        }
    }
}

fn check(context: &Context<'_>, request: &JoinGroupRequest) -> Result<(), ErrorCode> {
    let settings = context.parts.broker.coordinators.settings();
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let allowed = settings.min_session_timeout_ms..=settings.max_session_timeout_ms;
    if !allowed.contains(&request.session_timeout_ms) {
        return Err(ErrorCode::InvalidSessionTimeout);
    }
    if request.member_id.is_empty() && !context.has_room_for_member() {
        return Err(ErrorCode::GroupMaxSizeReached);
    }
    Ok(())
}

fn join(context: &Context<'_>, request: &JoinGroupRequest, member_id: Arc<str>) -> Join {
    let version = context.caller.version;
    let protocols = request.protocols.iter().map(|protocol| Protocol {
        name: protocol.name.as_str().into(),
        metadata: bytes::Bytes::copy_from_slice(&protocol.metadata),
    });
    Join {
        member_id,
        instance_id: request.group_instance_id.as_ref().map(|id| id.as_str().into()),
        client_id: context.caller.client_id.clone().unwrap_or_default(),
        client_host: context.client_host(),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: if version == 0 {
            request.session_timeout_ms
        } else {
            request.rebalance_timeout_ms
        },
        protocol_type: request.protocol_type.as_str().into(),
        protocols: protocols.collect(),
        requires_known_id: version >= 4,
        can_skip_assignment: version >= 9,
    }
}

/// The answer to a join that got this reply; an error names the member by the id that it gave.
pub(super) fn response(
    version: i16,
    member_id: &Arc<str>,
    reply: Option<Result<GroupReply, ErrorCode>>,
) -> JoinGroupResponse {
    let reply = match reply {
        Some(Ok(GroupReply::Join(reply))) => reply,
        Some(Err(error)) => JoinReply::failed(member_id.clone(), error),
        _ => JoinReply::failed(member_id.clone(), ErrorCode::UnknownServerError),
    };
    let members = reply.members.into_iter().map(|member| {
        let row = JoinGroupResponseMember::default()
            .with_member_id(names::text(&*member.member_id))
            .with_metadata(member.metadata);
        if version >= 5 {
            row.with_group_instance_id(member.instance_id.as_deref().map(names::text))
        } else {
            row
        }
    });
    let protocol = reply.protocol.as_deref().map(names::text);
    let response = JoinGroupResponse::default()
        .with_error_code(reply.error.code())
        .with_generation_id(reply.generation)
        // Null is for v7 and newer.
        .with_protocol_name(if version >= 7 {
            protocol
        } else {
            Some(protocol.unwrap_or_else(StrBytes::new))
        })
        .with_leader(names::text(&*reply.leader))
        .with_member_id(names::text(&*reply.member_id))
        .with_members(members.collect());
    let response = if version >= 7 {
        response.with_protocol_type(reply.protocol_type.as_deref().map(names::text))
    } else {
        response
    };
    if version >= 9 { response.with_skip_assignment(reply.skip_assignment) } else { response }
}
