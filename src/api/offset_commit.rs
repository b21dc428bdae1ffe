//! OffsetCommit (8), versions 2–9: a group notes how far it has read.
//!
//! The answer waits until the offsets are committed, `offsets.commit.timeout.ms` at most. Versions: 2 to 4 say how long
//! the offsets are kept; 6 has leader epochs (KIP-320); 7 static members (KIP-345); 9 member epochs (KIP-848).

use std::sync::Arc;

use kafka_protocol::messages::offset_commit_response::{
    OffsetCommitResponsePartition, OffsetCommitResponseTopic,
};
use kafka_protocol::messages::{ApiKey, OffsetCommitRequest, OffsetCommitResponse};

use super::commit_answers::CommitAnswer;
use super::group_waits::{GroupResponse, answer_once_committed};
use super::subjects::{NamesGroup, NamesTopic};
use super::{Answer, AnyResponse, Api, Context, Refusal, prepare::Preparation};
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
        let (commit, mut answer) = commit(context, &request);
        let (coordinators, mut storage) = context.parts.coordinators();
        let ticket = match coordinators.commit(&mut storage, &group, commit) {
            Ok((ticket, outcomes)) => {
                answer.take(outcomes);
                ticket
            }
            Err(error) => {
                answer.fail(error);
                None
            }
        };
        let response = response(&answer);
        let response = GroupResponse::Commit(response);
        answer_once_committed(context, group, ticket, response, |any| match any {
            AnyResponse::OffsetCommit(response) => Some(response),
            _ => None,
        })
    }
}

/// What is to be committed, and the answer as far as it is known.
fn commit(context: &Context<'_>, request: &OffsetCommitRequest) -> (Commit, CommitAnswer) {
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
    let mut answer = CommitAnswer::default();
    for topic in &request.topics {
        let name: Arc<str> = topic.name.as_str().into();
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let are_part = answer.add(&context.parts, &topic.name, indexes);
        for (partition, is_part) in topic.partitions.iter().zip(are_part) {
            if is_part {
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
    (commit, answer)
}

fn response(answer: &CommitAnswer) -> OffsetCommitResponse {
    let topics = answer.topics().into_iter().map(|(name, rows)| {
        let rows = rows.into_iter().map(|(index, error)| {
            OffsetCommitResponsePartition::default().with_partition_index(index).with_error_code(error.code())
        });
        OffsetCommitResponseTopic::default().with_name(name).with_partitions(rows.collect())
    });
    OffsetCommitResponse::default().with_topics(topics.collect())
}
