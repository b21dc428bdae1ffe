//! OffsetCommit (8), versions 2–9: a group notes how far it has read.
//!
//! The answer waits until the offsets are committed, `offsets.commit.timeout.ms` at most. Versions: 2 to 4 say how long
//! the offsets are kept; 6 has leader epochs (KIP-320); 7 static members (KIP-345); 9 member epochs (KIP-848).

use std::sync::Arc;

use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{ApiKey, OffsetCommitRequest, OffsetCommitResponse};

use super::group_waits::{GroupResponse, answer_once_committed};
use super::subjects::{NamesGroup, NamesTopic};
use super::{Answer, AnyResponse, Api, Context, Refusal, partitions, prepare::Preparation};
use crate::base::ErrorCode;
use crate::coordinator::groups::{Commit, CommitPartition};

pub(crate) struct OffsetCommit;

impl Api for OffsetCommit {
    const KEY: ApiKey = ApiKey::OffsetCommit;
    const VERSIONS: std::ops::RangeInclusive<i16> = 2..=9;
    type Wire = OffsetCommitRequest;
    type Request = OffsetCommitRequest;
    type Response = OffsetCommitResponse;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> =
        Some(|request, topic, _| request.topics.iter().any(|one| topic.is_named(&one.name)));
    const NAMES_GROUP: Option<NamesGroup<Self::Request>> = Some(|request, group| *request.group_id == *group);

    fn prepare(wire: OffsetCommitRequest, _: &Preparation) -> Result<OffsetCommitRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: OffsetCommitRequest) -> Answer<OffsetCommitResponse> {
        let group: Arc<str> = request.group_id.as_str().into();
        let (commit, mut errors) = commit(context, &request);
        let (coordinators, mut storage) = context.parts.coordinators();
        let ticket = match coordinators.commit(&mut storage, &group, commit) {
            Ok((ticket, outcomes)) => {
                let mut outcomes = outcomes.into_iter();
                for error in errors.iter_mut().filter(|error| !error.is_error()) {
                    *error = outcomes.next().unwrap_or_default();
                }
                ticket
            }
            Err(error) => {
                errors.iter_mut().filter(|known| !known.is_error()).for_each(|known| *known = error);
                None
            }
        };
        let response = response(&request, errors);
        let response = GroupResponse::Commit(response);
        answer_once_committed(context, group, ticket, response, |any| match any {
            AnyResponse::OffsetCommit(response) => Some(response),
            _ => None,
        })
    }
}

/// What is to be committed, and for each partition of the request whether it is part of that.
fn commit(context: &Context<'_>, request: &OffsetCommitRequest) -> (Commit, Vec<ErrorCode>) {
    let version = context.caller.version;
    let mut commit = Commit {
        member_id: request.member_id.as_str().into(),
        instance_id: request.group_instance_id.as_ref().map(|id| id.as_str().into()),
        generation: request.generation_id_or_member_epoch,
        knows_member_epochs: version >= 9,
        retention_ms: (version <= 4 && request.retention_time_ms >= 0).then_some(request.retention_time_ms),
        partitions: Vec::new(),
        transaction: None,
    };
    let mut errors = Vec::new();
    for topic in &request.topics {
        let name: Arc<str> = topic.name.as_str().into();
        for partition in &topic.partitions {
            let known = partitions::key_by_name(&context.parts, &name, partition.partition_index);
            errors.push(known.err().unwrap_or(ErrorCode::None));
            if known.is_ok() {
                commit.partitions.push(CommitPartition {
                    topic: name.clone(),
                    index: partition.partition_index,
                    offset: partition.committed_offset,
                    leader_epoch: if version >= 6 { partition.committed_leader_epoch } else { -1 },
                    metadata: partition
                        .committed_metadata
                        .as_ref()
                        .map(|text| text.as_str())
                        .unwrap_or("")
                        .into(),
                });
            }
        }
    }
    (commit, errors)
}

fn response(request: &OffsetCommitRequest, errors: Vec<ErrorCode>) -> OffsetCommitResponse {
    let mut errors = errors.into_iter();
    // As in Kafka, a topic of which nothing is committed isn't answered.
    let topics = request.topics.iter().filter(|topic| !topic.partitions.is_empty()).map(|topic| {
        let rows = topic.partitions.iter().map(|partition| {
            OffsetCommitResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(errors.next().unwrap_or_default().code())
        });
        OffsetCommitResponseTopic::default().with_name(topic.name.clone()).with_partitions(rows.collect())
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}
