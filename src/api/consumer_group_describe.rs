//! ConsumerGroupDescribe (69), versions 0–1: groups of the consumer protocol, their members, what these have and are to have
//! (KIP-848).
//!
//! A group that isn't there, or is a classic one, is GROUP_ID_NOT_FOUND; the empty name is INVALID_GROUP_ID; all are
//! UNSUPPORTED_VERSION where the consumer protocol is off. What is told is committed. Version 1 tells which protocol each
//! member speaks (KIP-1099).

use kafka_protocol::messages::consumer_group_describe_response::{
    Assignment, DescribedGroup, Member, TopicPartitions,
};
use kafka_protocol::messages::{
    ApiKey, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, GroupId, TopicName,
};

use super::{Answer, Api, Context, Refusal, authorized_operations, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::Controller;
use crate::coordinator::assignor_names;
use crate::coordinator::groups::ConsumerGroup;
use crate::coordinator::groups::consumer::{ConsumerMember, is_protocol_enabled};
use crate::coordinator::records::consumer_groups::Partitions;

/// The number of a member of the classic protocol.
const CLASSIC_MEMBER: i8 = 0;
/// The number of a member of the consumer protocol.
const CONSUMER_MEMBER: i8 = 1;

pub(crate) struct ConsumerGroupDescribe;

impl Api for ConsumerGroupDescribe {
    const KEY: ApiKey = ApiKey::ConsumerGroupDescribe;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;
    type Wire = ConsumerGroupDescribeRequest;
    type Request = ConsumerGroupDescribeRequest;
    type Response = ConsumerGroupDescribeResponse;

    fn prepare(
        wire: ConsumerGroupDescribeRequest,
        _: &Preparation,
    ) -> Result<ConsumerGroupDescribeRequest, Refusal> {
        Ok(wire)
    }

    fn handle(
        context: &mut Context<'_>,
        request: ConsumerGroupDescribeRequest,
    ) -> Answer<ConsumerGroupDescribeResponse> {
        let version = context.caller.version;
        let operations = authorized_operations::on_group(request.include_authorized_operations);
        let rows = request.group_ids.iter().map(|id| match find(context, id) {
            Ok(group) => row(group, context.parts.controller, version).with_authorized_operations(operations),
            Err(row) => *row,
        });
        Answer::Ready(ConsumerGroupDescribeResponse::default().with_groups(rows.collect()))
    }
}

/// The group, or the row that says why it can't be told of.
fn find<'a>(context: &'a Context<'_>, id: &GroupId) -> Result<&'a ConsumerGroup, Box<DescribedGroup>> {
    let failed = |error: ErrorCode, message: Option<String>| {
        let row = DescribedGroup::default()
            .with_group_id(id.clone())
            .with_error_code(error.code())
            .with_error_message(message.map(names::text))
            .with_authorized_operations(authorized_operations::NOT_REQUESTED);
        Box::new(row)
    };
    if !is_protocol_enabled(context.parts.controller) {
        return Err(failed(ErrorCode::UnsupportedVersion, None));
    }
    if id.is_empty() {
        return Err(failed(ErrorCode::InvalidGroupId, None));
    }
    let groups = context.parts.broker.coordinators.committed_groups_for(id);
    let groups = groups.map_err(|error| failed(error, None))?;
    groups.consumer(id).ok_or_else(|| {
        let message = format!("There is no consumer group '{}'.", id.as_str());
        failed(ErrorCode::GroupIdNotFound, Some(message))
    })
}

fn row(group: &ConsumerGroup, controller: &Controller, version: i16) -> DescribedGroup {
    let assignor = match group.preferred_assignor() {
        Some(assignor) => assignor,
        None => assignor_names(controller).first().copied().unwrap_or_default(),
    };
    let members = group.members().map(|member| member_row(group, member, controller, version));
    DescribedGroup::default()
        .with_group_id(GroupId(names::text(&*group.id)))
        .with_group_state(names::text(group.state().name()))
        .with_group_epoch(group.epoch())
        .with_assignment_epoch(group.target_epoch())
        .with_assignor_name(names::text(assignor))
        .with_members(members.collect())
}

fn member_row(
    group: &ConsumerGroup,
    member: &ConsumerMember,
    controller: &Controller,
    version: i16,
) -> Member {
    let metadata = &member.metadata;
    let topics = metadata.subscribed_topics.iter().map(|topic| TopicName(names::text(&**topic)));
    let target = group.target(&member.id).map(|target| assignment(target, controller));
    let row = Member::default()
        .with_member_id(names::text(&*member.id))
        .with_instance_id(metadata.instance_id.as_deref().map(names::text))
        .with_rack_id(metadata.rack_id.as_deref().map(names::text))
        .with_member_epoch(member.current.epoch)
        .with_client_id(names::text(&*metadata.client_id))
        .with_client_host(names::text(&*metadata.client_host))
        .with_subscribed_topic_names(topics.collect())
        .with_subscribed_topic_regex(Some(names::text(&*metadata.subscribed_regex)))
        .with_assignment(assignment(&member.current.assigned, controller))
        .with_target_assignment(target.unwrap_or_default());
    let kind = if member.is_classic() { CLASSIC_MEMBER } else { CONSUMER_MEMBER };
    if version >= 1 { row.with_member_type(kind) } else { row }
}

/// Partitions as far as their topics are there.
fn assignment(partitions: &Partitions, controller: &Controller) -> Assignment {
    let rows = partitions.iter().filter_map(|(topic, partitions)| {
        let topic = controller.topics().by_id(*topic)?;
        let row = TopicPartitions::default()
            .with_topic_id(topic.id.into())
            .with_topic_name(TopicName(names::text(&*topic.name)))
            .with_partitions(partitions.iter().copied().collect());
        Some(row)
    });
    Assignment::default().with_topic_partitions(rows.collect())
}
