//! OffsetForLeaderEpoch (23), versions 2–4: where a leader epoch ends in the log (KIP-101, KIP-320).
//!
//! Answered by the leader alone; −1 and −1 where it doesn't know. Versions: 3 has the replica's id; 4 is flexible.

use kafka_protocol::messages::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use kafka_protocol::messages::offset_for_leader_epoch_response::{
    EpochEndOffset, OffsetForLeaderTopicResult,
};
use kafka_protocol::messages::{ApiKey, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use super::subjects::NamesTopic;
use super::{Answer, Api, Context, Refusal, partitions, prepare::Preparation};
use crate::base::ErrorCode;
use crate::log::EpochEnd;

pub(crate) struct OffsetForLeaderEpoch;

impl Api for OffsetForLeaderEpoch {
    const KEY: ApiKey = ApiKey::OffsetForLeaderEpoch;
    const VERSIONS: std::ops::RangeInclusive<i16> = 2..=4;
    type Wire = OffsetForLeaderEpochRequest;
    type Request = OffsetForLeaderEpochRequest;
    type Response = OffsetForLeaderEpochResponse;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> =
        Some(|request, topic, _| request.topics.iter().any(|one| topic.is_named(&one.topic)));

    fn prepare(wire: Self::Wire, _: &Preparation) -> Result<Self::Request, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: Self::Request) -> Answer<Self::Response> {
        let topics = request.topics.into_iter().map(|topic| {
            let rows = topic.partitions.iter().map(|asked| {
                let (error, end) = match end_offset(context, &topic.topic, asked) {
                    Ok(end) => (ErrorCode::None, end),
                    Err(error) => (error, EpochEnd { epoch: -1, end_offset: -1 }),
                };
                EpochEndOffset::default()
                    .with_partition(asked.partition)
                    .with_error_code(error.code())
                    .with_leader_epoch(end.epoch)
                    .with_end_offset(end.end_offset)
            });
            let rows = rows.collect();
            OffsetForLeaderTopicResult::default().with_topic(topic.topic).with_partitions(rows)
        });
        Answer::Ready(OffsetForLeaderEpochResponse::default().with_topics(topics.collect()))
    }
}

fn end_offset(
    context: &Context<'_>,
    topic: &str,
    asked: &OffsetForLeaderPartition,
) -> Result<EpochEnd, ErrorCode> {
    let replica = partitions::by_name(&context.parts, topic, asked.partition)?;
    replica.check_leader(asked.current_leader_epoch)?;
    Ok(replica.log().end_offset_for_epoch(asked.leader_epoch))
}
