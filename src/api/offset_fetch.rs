//! OffsetFetch (9), versions 1–9: how far groups have read.
//!
//! A group or an offset that isn't there is offset −1 without an error. No topics, null, means all that the group has
//! committed (v2+). Versions: 5 has leader epochs (KIP-320); 7 asks for stable offsets (KIP-447): a partition for which a
//! transaction that is open has committed is UNSTABLE_OFFSET_COMMIT then; 8 several groups (KIP-709); 9 member epochs
//! (KIP-848).
//!
//! The answer is as of the last write that is committed, as all replicas in sync have it; who asks for stable offsets is
//! told of the last write there is, once that is committed.

use std::time::Duration;

use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use kafka_protocol::messages::{ApiKey, GroupId, OffsetFetchRequest, OffsetFetchResponse, TopicName};

use super::context::Parts;
use super::group_waits::{GroupResponse, answer_or_park};
use super::subjects::NamesGroup;
use super::{Answer, AnyResponse, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::coordinator::Ticket;
use crate::coordinator::groups::CommittedGroups;
use crate::coordinator::records::CommittedOffset;

pub(crate) struct OffsetFetch;

impl Api for OffsetFetch {
    const KEY: ApiKey = ApiKey::OffsetFetch;
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=9;
    type Wire = OffsetFetchRequest;
    type Request = OffsetFetchRequest;
    type Response = OffsetFetchResponse;
    const NAMES_GROUP: Option<NamesGroup<Self::Request>> = Some(|request, group| {
        *request.group_id == *group || request.groups.iter().any(|one| *one.group_id == *group)
    });

    fn prepare(
        mut wire: OffsetFetchRequest,
        preparation: &Preparation,
    ) -> Result<OffsetFetchRequest, Refusal> {
        if preparation.version < 8 {
            let topics = wire.topics.take().map(|topics| {
                let topic =
                    |topic: kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestTopic| {
                        OffsetFetchRequestTopics::default()
                            .with_name(topic.name)
                            .with_partition_indexes(topic.partition_indexes)
                    };
                topics.into_iter().map(topic).collect()
            });
            let group =
                OffsetFetchRequestGroup::default().with_group_id(wire.group_id.clone()).with_topics(topics);
            wire.groups = vec![group];
        }
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: OffsetFetchRequest) -> Answer<OffsetFetchResponse> {
        let version = context.caller.version;
        let stable = request.require_stable;
        let groups = request.groups.iter().map(|group| fetch(&context.parts, group, version, stable));
        let groups: Vec<OffsetFetchResponseGroup> = groups.collect();
        let tickets = if stable { tickets(&mut context.parts, &groups) } else { Vec::new() };
        let Some(first) = request.groups.first().filter(|_| !tickets.is_empty()) else {
            return Answer::Ready(response(version, groups));
        };
        let timeout = Duration::from_millis(context.parts.settings().offsets.commit_timeout_ms);
        let deadline = context.parts.now.instant + timeout;
        let (group, waiting) =
            (first.group_id.as_str().into(), GroupResponse::OffsetFetch { version, groups });
        answer_or_park(context, group, tickets, waiting, deadline, |any| match any {
            AnyResponse::OffsetFetch(response) => Some(response),
            _ => None,
        })
    }
}

/// What the answer waits for: that what it says of each group is committed.
fn tickets(parts: &mut Parts<'_>, groups: &[OffsetFetchResponseGroup]) -> Vec<(Ticket, usize)> {
    let (coordinators, mut storage) = parts.coordinators();
    let right = groups.iter().enumerate().filter(|(_, group)| group.error_code == 0);
    let tickets = right.filter_map(|(place, group)| {
        let ticket = coordinators.once_committed(&mut storage, &group.group_id.as_str().into());
        Some((ticket.ok()??, place))
    });
    tickets.collect()
}

pub(super) fn response(version: i16, mut groups: Vec<OffsetFetchResponseGroup>) -> OffsetFetchResponse {
    if version >= 8 {
        return OffsetFetchResponse::default().with_groups(groups);
    }
    let Some(group) = groups.pop() else { return OffsetFetchResponse::default() };
    let topics = group.topics.into_iter().map(|topic| {
        let rows = topic.partitions.into_iter().map(|row| {
            let old = OffsetFetchResponsePartition::default()
                .with_partition_index(row.partition_index)
                .with_committed_offset(row.committed_offset)
                .with_metadata(row.metadata)
                .with_error_code(row.error_code);
            if version >= 5 { old.with_committed_leader_epoch(row.committed_leader_epoch) } else { old }
        });
        OffsetFetchResponseTopic::default().with_name(topic.name).with_partitions(rows.collect())
    });
    let response = OffsetFetchResponse::default().with_topics(topics.collect());
    if version >= 2 { response.with_error_code(group.error_code) } else { response }
}

/// What a group was to be told is not committed. Consumers of old know NOT_COORDINATOR alone, and look for the coordinator
/// anew then (`GroupCoordinatorService.handleOffsetFetchException`).
pub(super) fn fail(groups: &mut [OffsetFetchResponseGroup], place: usize) {
    if let Some(group) = groups.get_mut(place) {
        group.topics.clear();
        group.error_code = ErrorCode::NotCoordinator.code();
    }
}

fn fetch(
    parts: &Parts<'_>,
    asked: &OffsetFetchRequestGroup,
    version: i16,
    require_stable: bool,
) -> OffsetFetchResponseGroup {
    let response = OffsetFetchResponseGroup::default().with_group_id(GroupId(asked.group_id.0.clone()));
    let coordinators = &parts.broker.coordinators;
    let groups = match require_stable {
        true => coordinators.groups_for(&asked.group_id).map(CommittedGroups::with_uncommitted),
        false => coordinators.committed_groups_for(&asked.group_id),
    };
    let groups = match groups {
        Ok(groups) => groups,
        Err(error) => {
            let topics = asked.topics.iter().flatten().filter(|_| version < 2);
            let failed = topics.map(|topic| {
                let rows = topic
                    .partition_indexes
                    .iter()
                    .map(|index| row(*index, None).with_error_code(error.code()));
                OffsetFetchResponseTopics::default()
                    .with_name(topic.name.clone())
                    .with_partitions(rows.collect())
            });
            return response.with_error_code(error.code()).with_topics(failed.collect());
        }
    };
    if let Some(group) = groups.consumer(&asked.group_id)
        && let Err(error) = group.check_fetch(asked.member_id.as_deref(), asked.member_epoch)
    {
        return response.with_error_code(error.code());
    }
    let mut topics: Vec<OffsetFetchResponseTopics> = match &asked.topics {
        Some(topics) => topics.iter().map(|topic| some_of(groups, &asked.group_id, topic)).collect(),
        None => all_of(groups, &asked.group_id),
    };
    if require_stable {
        for topic in &mut topics {
            let name = &topic.name;
            for partition in &mut topic.partitions {
                let index = partition.partition_index;
                if groups.is_offset_pending(&asked.group_id, name, index) {
                    *partition = row(index, None).with_error_code(ErrorCode::UnstableOffsetCommit.code());
                }
            }
        }
    }
    response.with_topics(topics)
}

fn some_of(
    groups: CommittedGroups<'_>,
    group: &str,
    topic: &OffsetFetchRequestTopics,
) -> OffsetFetchResponseTopics {
    let indexes = topic.partition_indexes.iter();
    let rows = indexes.map(|index| row(*index, groups.offset(group, &topic.name, *index)));
    OffsetFetchResponseTopics::default().with_name(topic.name.clone()).with_partitions(rows.collect())
}

fn all_of(groups: CommittedGroups<'_>, group: &str) -> Vec<OffsetFetchResponseTopics> {
    let mut topics: Vec<OffsetFetchResponseTopics> = Vec::new();
    for (topic, index, offset) in groups.offsets(group) {
        let row = row(index, Some(offset));
        match topics.last_mut().filter(|last| **last.name == **topic) {
            Some(last) => last.partitions.push(row),
            None => topics.push(
                OffsetFetchResponseTopics::default()
                    .with_name(TopicName(names::text(&**topic)))
                    .with_partitions(vec![row]),
            ),
        }
    }
    topics
}

fn row(index: i32, offset: Option<&CommittedOffset>) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions::default()
        .with_partition_index(index)
        .with_committed_offset(offset.map_or(-1, |offset| offset.offset))
        .with_committed_leader_epoch(offset.map_or(-1, |offset| offset.leader_epoch))
        .with_metadata(Some(names::text(offset.map_or("", |offset| &*offset.metadata))))
}
