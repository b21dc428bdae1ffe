//! DescribeProducers (61), version 0: the idempotent and transactional producers that partitions remember (KIP-664). Any
//! replica is asked, not the leader alone (`kafka-transactions find-hanging --broker-id`).

use kafka_protocol::messages::describe_producers_response::{
    PartitionResponse, ProducerState, TopicResponse,
};
use kafka_protocol::messages::{ApiKey, DescribeProducersRequest, DescribeProducersResponse, ProducerId};

use super::context::Parts;
use super::subjects::NamesTopic;
use super::{Answer, Api, Context, Refusal, names, partitions, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::names as topic_names;

pub(crate) struct DescribeProducers;

impl Api for DescribeProducers {
    const KEY: ApiKey = ApiKey::DescribeProducers;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;
    type Wire = DescribeProducersRequest;
    type Request = DescribeProducersRequest;
    type Response = DescribeProducersResponse;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> =
        Some(|request, topic, _| request.topics.iter().any(|one| topic.is_named(&one.name)));

    fn prepare(wire: DescribeProducersRequest, _: &Preparation) -> Result<DescribeProducersRequest, Refusal> {
        Ok(wire)
    }

    fn handle(
        context: &mut Context<'_>,
        request: DescribeProducersRequest,
    ) -> Answer<DescribeProducersResponse> {
        let topics = request.topics.iter().map(|topic| {
            let rows = topic.partition_indexes.iter().map(|&index| {
                let response = PartitionResponse::default().with_partition_index(index);
                if let Err(why) = topic_names::check(&topic.name) {
                    return response
                        .with_error_code(ErrorCode::InvalidTopicException.code())
                        .with_error_message(Some(names::text(why.to_string())));
                }
                if context.parts.controller.topics().by_name(&topic.name).is_none() {
                    return response
                        .with_error_code(ErrorCode::UnknownTopicOrPartition.code())
                        .with_error_message(Some(names::text("There is no such topic.")));
                }
                match producers(&context.parts, &topic.name, index) {
                    Ok(producers) => response.with_active_producers(producers),
                    Err(error) => response.with_error_code(error.code()),
                }
            });
            TopicResponse::default().with_name(topic.name.clone()).with_partitions(rows.collect())
        });
        Answer::Ready(DescribeProducersResponse::default().with_topics(topics.collect()))
    }
}

fn producers(parts: &Parts<'_>, topic: &str, index: i32) -> Result<Vec<ProducerState>, ErrorCode> {
    let replica = partitions::by_name(parts, topic, index)?;
    let rows = replica.log().producers().iter().map(|(id, state)| {
        ProducerState::default()
            .with_producer_id(ProducerId(id))
            .with_producer_epoch(i32::from(state.epoch))
            .with_last_sequence(state.last_sequence())
            .with_last_timestamp(state.last_timestamp_ms)
            .with_coordinator_epoch(state.coordinator_epoch)
            .with_current_txn_start_offset(state.current_txn_first_offset.unwrap_or(-1))
    });
    Ok(rows.collect())
}
