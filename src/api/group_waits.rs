//! Requests to the group coordinator that wait: for other members, or for what they have written to be committed.

use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::offset_fetch_response::OffsetFetchResponseGroup;
use kafka_protocol::messages::{
    DeleteGroupsResponse, HeartbeatResponse, LeaveGroupResponse, OffsetCommitResponse, OffsetDeleteResponse,
};

use super::context::{Context, Parts};
use super::waits::{Key, Kind, Operation, Wait};
use super::{Answer, AnyResponse, consumer_group_heartbeat, join_group, offset_fetch, sync_group};
use crate::base::{ErrorCode, Instant};
use crate::coordinator::Ticket;
use crate::coordinator::groups::GroupReply;
use crate::purgatory::Description;

/// A request to the group coordinator that waits for its tickets to be answered.
#[derive(Clone, Debug)]
pub(crate) struct GroupWait {
    group: Arc<str>,
    /// Each with its place in the response.
    tickets: Vec<(Ticket, usize)>,
    response: GroupResponse,
}

/// The response, as far as it is known while the request waits.
#[derive(Clone, Debug)]
pub(crate) enum GroupResponse {
    Join {
        version: i16,
        member_id: Arc<str>,
        reply: Option<Result<GroupReply, ErrorCode>>,
    },
    Sync {
        reply: Option<Result<GroupReply, ErrorCode>>,
    },
    ConsumerHeartbeat {
        reply: Option<Result<GroupReply, ErrorCode>>,
    },
    /// Complete, but for the partitions that are written, should that fail.
    Commit(OffsetCommitResponse),
    DeleteOffsets(OffsetDeleteResponse),
    DeleteGroups(DeleteGroupsResponse),
    Heartbeat(HeartbeatResponse),
    Leave(LeaveGroupResponse),
    /// Complete, but for groups of which what is told isn't committed.
    OffsetFetch {
        version: i16,
        groups: Vec<OffsetFetchResponseGroup>,
    },
}

/// Answers at once if all tickets are answered; else parks the request until they are, or until `deadline`.
pub(crate) fn answer_or_park<R>(
    context: &mut Context<'_>,
    group: Arc<str>,
    tickets: Vec<(Ticket, usize)>,
    response: GroupResponse,
    deadline: Instant,
    ready: impl FnOnce(AnyResponse) -> Option<R>,
) -> Answer<R> {
    let mut wait = GroupWait { group, tickets, response };
    if let Some(response) = wait.try_complete(&mut context.parts) {
        return ready(response).map_or(Answer::Close("the response has the wrong kind"), Answer::Ready);
    }
    let keys: Vec<Key> = wait.tickets.iter().map(|(ticket, _)| Key::Ticket(*ticket)).collect();
    let wait = Wait::new(context.caller, Operation::Group(Box::new(wait)));
    context.park(keys, deadline, wait);
    Answer::Parked
}

/// Answers once a ticket is answered, at once if there is none, in an error after `offsets.commit.timeout.ms`.
pub(crate) fn answer_once_committed<R>(
    context: &mut Context<'_>,
    group: Arc<str>,
    ticket: Option<Ticket>,
    response: GroupResponse,
    ready: impl FnOnce(AnyResponse) -> Option<R>,
) -> Answer<R> {
    let timeout = Duration::from_millis(context.parts.settings().offsets.commit_timeout_ms);
    let deadline = context.parts.now.instant + timeout;
    let tickets = ticket.map(|ticket| (ticket, 0)).into_iter().collect();
    answer_or_park(context, group, tickets, response, deadline, ready)
}

impl GroupWait {
    pub(crate) fn kind(&self) -> Kind {
        match self.response {
            GroupResponse::Join { .. } => Kind::Join,
            GroupResponse::Sync { .. } => Kind::Sync,
            _ => Kind::Commit,
        }
    }

    pub(crate) fn try_complete(&mut self, parts: &mut Parts<'_>) -> Option<AnyResponse> {
        let GroupWait { tickets, response, .. } = self;
        tickets.retain(|(ticket, place)| match parts.broker.coordinators.take_answer(*ticket) {
            Some(answer) => {
                response.settle(*place, answer);
                false
            }
            None => true,
        });
        self.tickets.is_empty().then(|| self.response.build())
    }

    /// What was not committed in time may yet be; the client can't be told that it is.
    pub(crate) fn expire(&mut self, parts: &mut Parts<'_>) -> AnyResponse {
        for (ticket, place) in std::mem::take(&mut self.tickets) {
            parts.broker.coordinators.forget(ticket);
            self.response.settle(place, Err(ErrorCode::CoordinatorNotAvailable));
        }
        self.response.build()
    }

    /// The client is gone.
    pub(crate) fn abandon(&self, parts: &mut Parts<'_>) {
        self.tickets.iter().for_each(|(ticket, _)| parts.broker.coordinators.forget(*ticket));
    }

    pub(crate) fn describe(&self, parts: &Parts<'_>) -> Description {
        let group = parts.broker.coordinators.groups_for(&self.group).ok();
        let group = group.and_then(|groups| groups.classic(&self.group));
        let progress = group.map(|group| {
            let (there, all) = match self.response {
                GroupResponse::Join { .. } => group.joined_of(),
                GroupResponse::Sync { .. } => group.synced_of(),
                _ => return "not committed yet".to_owned(),
            };
            format!("members {there} of {all}")
        });
        Description { waits_for: format!("group {}", self.group), progress: progress.unwrap_or_default() }
    }
}

impl GroupResponse {
    fn settle(&mut self, place: usize, answer: Result<GroupReply, ErrorCode>) {
        match self {
            GroupResponse::Join { reply, .. }
            | GroupResponse::Sync { reply }
            | GroupResponse::ConsumerHeartbeat { reply } => *reply = Some(answer),
            GroupResponse::Commit(response) => {
                let Err(error) = answer else { return };
                for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
                    if partition.error_code == 0 {
                        partition.error_code = error.code();
                    }
                }
            }
            GroupResponse::OffsetFetch { groups, .. } => {
                if answer.is_err() {
                    offset_fetch::fail(groups, place);
                }
            }
            GroupResponse::DeleteOffsets(response) => {
                if let Err(error) = answer {
                    response.error_code = error.code();
                }
            }
            GroupResponse::DeleteGroups(response) => {
                if let (Err(error), Some(result)) = (answer, response.results.get_mut(place)) {
                    result.error_code = error.code();
                }
            }
            GroupResponse::Heartbeat(response) => {
                if let Err(error) = answer {
                    response.error_code = error.code();
                }
            }
            // Nobody has left, then.
            GroupResponse::Leave(response) => {
                if let Err(error) = answer {
                    *response = LeaveGroupResponse::default().with_error_code(error.code());
                }
            }
        }
    }

    fn build(&mut self) -> AnyResponse {
        match self {
            GroupResponse::Join { version, member_id, reply } => {
                AnyResponse::JoinGroup(join_group::response(*version, member_id, reply.take()))
            }
            GroupResponse::Sync { reply } => AnyResponse::SyncGroup(sync_group::response(reply.take())),
            GroupResponse::ConsumerHeartbeat { reply } => {
                AnyResponse::ConsumerGroupHeartbeat(consumer_group_heartbeat::response(reply.take()))
            }
            GroupResponse::Commit(response) => AnyResponse::OffsetCommit(std::mem::take(response)),
            GroupResponse::DeleteOffsets(response) => AnyResponse::OffsetDelete(std::mem::take(response)),
            GroupResponse::OffsetFetch { version, groups } => {
                AnyResponse::OffsetFetch(offset_fetch::response(*version, std::mem::take(groups)))
            }
            GroupResponse::DeleteGroups(response) => AnyResponse::DeleteGroups(std::mem::take(response)),
            GroupResponse::Heartbeat(response) => AnyResponse::Heartbeat(std::mem::take(response)),
            GroupResponse::Leave(response) => AnyResponse::LeaveGroup(std::mem::take(response)),
        }
    }
}
