//! DescribeGroups (15), versions 0–6: classic groups and their members.
//!
//! A group that isn't there is Dead without an error up to v5, and GROUP_ID_NOT_FOUND from v6 on (KIP-1043); the empty
//! name is one as any other. Protocol and subscriptions are told of stable groups alone, while a member's last assignment
//! is told at any time. A group is there once that is committed. Versions: 3 has what the client may do (KIP-430), unless there is an error; 4 static members
//! (KIP-345).

use kafka_protocol::messages::describe_groups_response::{DescribedGroup, DescribedGroupMember};
use kafka_protocol::messages::{ApiKey, DescribeGroupsRequest, DescribeGroupsResponse, GroupId};

use super::subjects::NamesGroup;
use super::{Answer, Api, Context, Refusal, authorized_operations, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::coordinator::groups::{ClassicGroup, ClassicState};

pub(crate) struct DescribeGroups;

impl Api for DescribeGroups {
    const KEY: ApiKey = ApiKey::DescribeGroups;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=6;
    type Wire = DescribeGroupsRequest;
    type Request = DescribeGroupsRequest;
    type Response = DescribeGroupsResponse;
    const NAMES_GROUP: Option<NamesGroup<Self::Request>> =
        Some(|request, group| request.groups.iter().any(|one| **one == *group));

    fn prepare(wire: DescribeGroupsRequest, _: &Preparation) -> Result<DescribeGroupsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: DescribeGroupsRequest) -> Answer<DescribeGroupsResponse> {
        let version = context.caller.version;
        let rows = request.groups.iter().map(|id| {
            let operations =
                authorized_operations::on_group(version >= 3 && request.include_authorized_operations);
            let row = match context.parts.broker.coordinators.committed_groups_for(id) {
                Err(error) => failed(id, error),
                Ok(groups) => match groups.classic(id).filter(|group| group.state() != ClassicState::Dead) {
                    Some(group) => row(group, version),
                    None => missing(id, version),
                },
            };
            if row.error_code == 0 { row.with_authorized_operations(operations) } else { row }
        });
        Answer::Ready(DescribeGroupsResponse::default().with_groups(rows.collect()))
    }
}

fn failed(id: &GroupId, error: ErrorCode) -> DescribedGroup {
    DescribedGroup::default()
        .with_group_id(id.clone())
        .with_error_code(error.code())
        .with_error_message(None)
        .with_authorized_operations(authorized_operations::NOT_REQUESTED)
}

fn missing(id: &GroupId, version: i16) -> DescribedGroup {
    let row = DescribedGroup::default()
        .with_group_id(id.clone())
        .with_group_state(names::text(ClassicState::Dead.name()))
        .with_error_message(None)
        .with_authorized_operations(authorized_operations::NOT_REQUESTED);
    if version < 6 {
        return row;
    }
    row.with_error_code(ErrorCode::GroupIdNotFound.code())
        .with_error_message(Some(names::text(format!("There is no group '{}'.", id.as_str()))))
}

fn row(group: &ClassicGroup, version: i16) -> DescribedGroup {
    let stable = group.state() == ClassicState::Stable;
    let protocol = group.protocol().filter(|_| stable).map(|protocol| &**protocol).unwrap_or_default();
    let members = group.members().map(|member| {
        let row = DescribedGroupMember::default()
            .with_member_id(names::text(&*member.id))
            .with_client_id(names::text(&*member.client_id))
            .with_client_host(names::text(&*member.client_host))
            .with_member_assignment(member.assignment.clone());
        let row = if version >= 4 {
            row.with_group_instance_id(member.instance_id.as_deref().map(names::text))
        } else {
            row
        };
        if stable { row.with_member_metadata(member.metadata(protocol)) } else { row }
    });
    DescribedGroup::default()
        .with_group_id(GroupId(names::text(&*group.id)))
        .with_group_state(names::text(group.state().name()))
        .with_protocol_type(names::text(group.protocol_type().map(|kind| &**kind).unwrap_or_default()))
        .with_protocol_data(names::text(protocol))
        .with_members(members.collect())
        .with_error_message(None)
}
