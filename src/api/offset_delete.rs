//! OffsetDelete (47), version 0: a group forgets offsets (KIP-496). Not those of topics that it subscribes to.

use std::sync::Arc;

use kafka_protocol::messages::offset_delete_response::{
    OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use kafka_protocol::messages::{ApiKey, OffsetDeleteRequest, OffsetDeleteResponse};

use super::group_waits::{GroupResponse, answer_once_committed};
use super::subjects::{NamesGroup, NamesTopic};
use super::{Answer, AnyResponse, Api, Context, Refusal, partitions, prepare::Preparation};
use crate::base::ErrorCode;

pub(crate) struct OffsetDelete;

impl Api for OffsetDelete {
    const KEY: ApiKey = ApiKey::OffsetDelete;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;
    type Wire = OffsetDeleteRequest;
    type Request = OffsetDeleteRequest;
    type Response = OffsetDeleteResponse;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> =
        Some(|request, topic, _| request.topics.iter().any(|one| topic.is_named(&one.name)));
    const NAMES_GROUP: Option<NamesGroup<Self::Request>> = Some(|request, group| *request.group_id == *group);

    fn prepare(wire: OffsetDeleteRequest, _: &Preparation) -> Result<OffsetDeleteRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: OffsetDeleteRequest) -> Answer<OffsetDeleteResponse> {
        if request.group_id.is_empty() {
            let error = ErrorCode::InvalidGroupId.code();
            return Answer::Ready(OffsetDeleteResponse::default().with_error_code(error));
        }
        let group: Arc<str> = request.group_id.as_str().into();
        let mut known: Vec<(Arc<str>, i32)> = Vec::new();
        let mut errors: Vec<ErrorCode> = Vec::new();
        for topic in &request.topics {
            for partition in &topic.partitions {
                let key = partitions::key_by_name(&context.parts, &topic.name, partition.partition_index);
                errors.push(key.err().unwrap_or(ErrorCode::None));
                if key.is_ok() {
                    known.push((topic.name.as_str().into(), partition.partition_index));
                }
            }
        }
        let (coordinators, mut storage) = context.parts.coordinators();
        let (ticket, outcomes) = match coordinators.delete_offsets(&mut storage, &group, &known) {
            Ok(deleted) => deleted,
            Err(error) => {
                return Answer::Ready(OffsetDeleteResponse::default().with_error_code(error.code()));
            }
        };
        let mut outcomes = outcomes.into_iter();
        for error in errors.iter_mut().filter(|error| !error.is_error()) {
            *error = outcomes.next().unwrap_or_default();
        }
        let response = response(&request, errors);
        let response = GroupResponse::DeleteOffsets(response);
        answer_once_committed(context, group, ticket, response, |any| match any {
            AnyResponse::OffsetDelete(response) => Some(response),
            _ => None,
        })
    }
}

fn response(request: &OffsetDeleteRequest, errors: Vec<ErrorCode>) -> OffsetDeleteResponse {
    let mut errors = errors.into_iter();
    // A topic without partitions is left out.
    let named = request.topics.iter().filter(|topic| !topic.partitions.is_empty());
    let topics = named.map(|topic| {
        let rows = topic.partitions.iter().map(|partition| {
            OffsetDeleteResponsePartition::default()
                .with_partition_index(partition.partition_index)
                .with_error_code(errors.next().unwrap_or_default().code())
        });
        OffsetDeleteResponseTopic::default().with_name(topic.name.clone()).with_partitions(rows.collect())
    });
    OffsetDeleteResponse::default().with_topics(topics.collect())
}
