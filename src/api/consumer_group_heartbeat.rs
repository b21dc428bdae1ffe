//! ConsumerGroupHeartbeat (68), versions 0–1: a member joins a group of the consumer protocol, lives, learns what it may use,
//! or leaves (KIP-848).
//!
//! The answer waits until what it says is committed, `offsets.commit.timeout.ms` at most. What a request leaves out (null)
//! has not changed. The regular expressions that members subscribe by are those of the engine here, which like Kafka's RE2J
//! needs time linear in the length of a topic's name; they are resolved right after the answer, so that a member hears with
//! its next heartbeat which topics that came to. Versions: 1 has regular expressions (KIP-848), and member ids are the
//! client's to make (KIP-1082).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::consumer_group_heartbeat_response::{Assignment, TopicPartitions};
use kafka_protocol::messages::{ApiKey, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::group_waits::{GroupResponse, answer_or_park};
use super::{Answer, AnyResponse, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::{ErrorCode, TopicId};
use crate::coordinator::assignor_names;
use crate::coordinator::groups::consumer::{LEAVE_EPOCH, LEAVE_FOR_A_WHILE_EPOCH, is_protocol_enabled};
use crate::coordinator::groups::{GroupError, GroupReply, Heartbeat, HeartbeatReply, Outcome};
use crate::coordinator::records::consumer_groups::Partitions;

pub(crate) struct ConsumerGroupHeartbeat;

impl Api for ConsumerGroupHeartbeat {
    const KEY: ApiKey = ApiKey::ConsumerGroupHeartbeat;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;
    type Wire = ConsumerGroupHeartbeatRequest;
    type Request = ConsumerGroupHeartbeatRequest;
    type Response = ConsumerGroupHeartbeatResponse;

    fn prepare(
        wire: ConsumerGroupHeartbeatRequest,
        _: &Preparation,
    ) -> Result<ConsumerGroupHeartbeatRequest, Refusal> {
        Ok(wire)
    }

    fn handle(
        context: &mut Context<'_>,
        request: ConsumerGroupHeartbeatRequest,
    ) -> Answer<ConsumerGroupHeartbeatResponse> {
        let group: Arc<str> = request.group_id.as_str().into();
        let outcome = check(context, &request).and_then(|()| {
            let heartbeat = heartbeat(context, &request);
            let (coordinators, mut storage) = context.parts.coordinators();
            coordinators.consumer_heartbeat(&mut storage, &group, &heartbeat)
        });
        match outcome {
            Err(error) => Answer::Ready(refused(error.code, Some(error.message))),
            Ok(Outcome::Ready(reply)) => Answer::Ready(accepted(reply)),
            Ok(Outcome::Waits(ticket)) => {
                let timeout_ms = context.parts.settings().offsets.commit_timeout_ms;
                let deadline = context.parts.now.instant + Duration::from_millis(timeout_ms);
                let response = GroupResponse::ConsumerHeartbeat { reply: None };
                answer_or_park(context, group, vec![(ticket, 0)], response, deadline, |any| match any {
                    AnyResponse::ConsumerGroupHeartbeat(response) => Some(response),
                    _ => None,
                })
            }
        }
    }
}

/// What a request has to be like whatever the group (`GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid`).
fn check(context: &Context<'_>, request: &ConsumerGroupHeartbeatRequest) -> Result<(), GroupError> {
    let controller = &context.parts.controller;
    if !is_protocol_enabled(controller) {
        let message = "The consumer protocol is off: either the feature group.version is at 0, or \
                       group.coordinator.rebalance.protocols doesn't have it.";
        return Err(GroupError::new(ErrorCode::UnsupportedVersion, message));
    }
    let invalid = |message: &str| Err(GroupError::new(ErrorCode::InvalidRequest, message));
    let is_blank = |text: &str| text.trim().is_empty();
    let needs_id =
        context.caller.version >= 1 || request.member_epoch > 0 || request.member_epoch == LEAVE_EPOCH;
    if needs_id && is_blank(&request.member_id) {
        return invalid("The member id must not be empty.");
    }
    if is_blank(&request.group_id) {
        return invalid("The group id must not be empty.");
    }
    if request.instance_id.as_deref().is_some_and(is_blank) {
        return invalid("The instance id must not be empty.");
    }
    if request.rack_id.as_deref().is_some_and(is_blank) {
        return invalid("The rack id must not be empty.");
    }
    match request.member_epoch {
        0 if request.rebalance_timeout_ms == -1 => {
            return invalid("Who joins must give a rebalance timeout.");
        }
        0 if request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) => {
            return invalid("Who joins must say that it has no partitions.");
        }
        0 if request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() => {
            return invalid("Who joins must subscribe to topics or by a regular expression.");
        }
        LEAVE_FOR_A_WHILE_EPOCH if request.instance_id.is_none() => {
            return invalid("Only a static member can leave for a while: the instance id must not be null.");
        }
        epoch if epoch < LEAVE_FOR_A_WHILE_EPOCH => return invalid("There is no such member epoch."),
        _ => {}
    }
    let known = assignor_names(controller);
    if let Some(assignor) = request.server_assignor.as_deref().filter(|assignor| !known.contains(assignor)) {
        let message = format!("There is no assignor '{assignor}'; there are: {}.", known.join(", "));
        return Err(GroupError::new(ErrorCode::UnsupportedAssignor, message));
    }
    check_room(context, request)
}

/// Whether the broker has room for a member that joins and isn't there yet.
fn check_room(context: &Context<'_>, request: &ConsumerGroupHeartbeatRequest) -> Result<(), GroupError> {
    if request.member_epoch != 0 || context.has_room_for_member() {
        return Ok(());
    }
    let groups = context.parts.broker.coordinators.groups_for(&request.group_id)?;
    let group = groups.consumer(&request.group_id);
    if group.is_some_and(|group| group.member(&request.member_id).is_some()) {
        return Ok(());
    }
    let message = "The groups of this broker have as many members as huld.max.group.members allows.";
    Err(GroupError::new(ErrorCode::GroupMaxSizeReached, message))
}

fn heartbeat(context: &Context<'_>, request: &ConsumerGroupHeartbeatRequest) -> Heartbeat {
    let text = |text: &kafka_protocol::protocol::StrBytes| Arc::<str>::from(text.as_str());
    let topics = request.subscribed_topic_names.as_ref();
    let topics = topics.map(|topics| topics.iter().map(|topic| topic.as_str().into()).collect());
    let owned = request.topic_partitions.as_ref().map(|owned| {
        let mut by_topic = Partitions::new();
        for topic in owned {
            by_topic.entry(topic.topic_id.into()).or_default().extend(&topic.partitions);
        }
        by_topic
    });
    Heartbeat {
        member_id: text(&request.member_id),
        epoch: request.member_epoch,
        instance_id: request.instance_id.as_ref().map(text),
        rack_id: request.rack_id.as_ref().map(text),
        rebalance_timeout_ms: Some(request.rebalance_timeout_ms).filter(|timeout_ms| *timeout_ms != -1),
        subscribed_topics: topics,
        subscribed_regex: request.subscribed_topic_regex.as_ref().map(text),
        server_assignor: request.server_assignor.as_ref().map(text),
        owned,
        client_id: context.caller.client_id.clone().unwrap_or_default(),
        client_host: context.client_host(),
    }
}

/// The answer to a heartbeat that has been committed, or could not be.
pub(super) fn response(reply: Option<Result<GroupReply, ErrorCode>>) -> ConsumerGroupHeartbeatResponse {
    match reply {
        Some(Ok(GroupReply::Heartbeat(reply))) => accepted(reply),
        Some(Err(error)) => refused(error, None),
        _ => refused(ErrorCode::UnknownServerError, None),
    }
}

fn refused(error: ErrorCode, message: Option<String>) -> ConsumerGroupHeartbeatResponse {
    ConsumerGroupHeartbeatResponse::default()
        .with_error_code(error.code())
        .with_error_message(message.map(names::text))
}

fn accepted(reply: HeartbeatReply) -> ConsumerGroupHeartbeatResponse {
    let row = |(topic, partitions): (TopicId, BTreeSet<i32>)| {
        TopicPartitions::default()
            .with_topic_id(topic.into())
            .with_partitions(partitions.into_iter().collect())
    };
    let assignment = reply.assignment.map(|assignment| {
        Assignment::default().with_topic_partitions(assignment.into_iter().map(row).collect())
    });
    ConsumerGroupHeartbeatResponse::default()
        .with_member_id(Some(names::text(&*reply.member_id)))
        .with_member_epoch(reply.epoch)
        .with_heartbeat_interval_ms(reply.interval_ms)
        .with_assignment(assignment)
}
