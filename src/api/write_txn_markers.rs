//! WriteTxnMarkers (27), version 1: ends transactions in the partitions that this broker leads (KIP-98).
//!
//! For coordinators and administrators (`kafka-transactions abort`). Answered once the markers are replicated. For a partition
//! of `__consumer_offsets` the group coordinator takes the outcome on, too.

use std::sync::Arc;

use kafka_protocol::messages::write_txn_markers_request::WritableTxnMarker;
use kafka_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kafka_protocol::messages::{ApiKey, ProducerId, WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use super::by_topic::by_topic;
use super::transaction_markers::{MarkersWait, Row, Target, Told};
use super::transaction_waits::LOG_TIMEOUT_MS;
use super::waits::{Key, Operation, Wait};
use super::{Answer, Api, Context, Refusal, names, partitions, prepare::Preparation};
use crate::base::ErrorCode;
use crate::coordinator::transactions::Producer;
use crate::wire::marker::Marker;

const NO_PRODUCER_ID: i64 = -1;
const NO_PRODUCER_EPOCH: i16 = -1;

pub(crate) struct WriteTxnMarkers;

impl Api for WriteTxnMarkers {
    const KEY: ApiKey = ApiKey::WriteTxnMarkers;
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=1;
    type Wire = WriteTxnMarkersRequest;
    type Request = WriteTxnMarkersRequest;
    type Response = WriteTxnMarkersResponse;

    fn prepare(wire: WriteTxnMarkersRequest, _: &Preparation) -> Result<WriteTxnMarkersRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: WriteTxnMarkersRequest) -> Answer<WriteTxnMarkersResponse> {
        let mut rows = Vec::new();
        for asked in &request.markers {
            let producer = Producer { id: asked.producer_id.0, epoch: asked.producer_epoch };
            let marker =
                Marker { commit: asked.transaction_result, coordinator_epoch: asked.coordinator_epoch };
            if is_nobody(producer) && partitions_of(asked).any(|partition| is_here(context, &partition)) {
                return Answer::Ready(failure(&request));
            }
            for partition in partitions_of(asked) {
                rows.push(Row::write(&mut context.parts, partition, producer, marker));
            }
        }
        let mut wait = MarkersWait { rows, target: Target::Client };
        match wait.try_complete(&mut context.parts) {
            Some(Told::Client(response)) => Answer::Ready(response),
            Some(Told::Coordinator) => Answer::Close("markers of a client were answered to a coordinator"),
            None => {
                let keys: Vec<Key> = wait.keys().collect();
                let deadline = context.parts.now.instant.after_timeout_ms(LOG_TIMEOUT_MS);
                let wait = Wait::new(context.caller, Operation::Markers(Box::new(wait)));
                context.park(keys, deadline, wait);
                Answer::Parked
            }
        }
    }
}

/// Whether this stands for no producer, so that there is no marker of it.
fn is_nobody(producer: Producer) -> bool {
    producer.id == NO_PRODUCER_ID || producer.epoch == NO_PRODUCER_EPOCH
}

fn partitions_of(marker: &WritableTxnMarker) -> impl Iterator<Item = (Arc<str>, i32)> {
    marker.topics.iter().flat_map(|topic| {
        let name: Arc<str> = topic.name.as_str().into();
        topic.partition_indexes.iter().map(move |index| (name.clone(), *index))
    })
}

fn is_here(context: &Context<'_>, (topic, index): &(Arc<str>, i32)) -> bool {
    let key = partitions::key_by_name(&context.parts, topic, *index);
    key.is_ok_and(|key| partitions::replica(&context.parts, key).is_ok())
}

/// Kafka fails on a marker that can't be made, after those before it are written, and says so of all.
fn failure(request: &WriteTxnMarkersRequest) -> WriteTxnMarkersResponse {
    let rows = request.markers.iter().flat_map(|marker| {
        let producer_id = marker.producer_id.0;
        let state = Err(ErrorCode::UnknownServerError);
        partitions_of(marker).map(move |partition| Row { producer_id, partition, state })
    });
    response(&Vec::from_iter(rows))
}

/// As in Kafka, a producer is answered for once, and not at all if it names no partition; of a partition that comes twice the
/// last outcome counts.
pub(super) fn response(rows: &[Row]) -> WriteTxnMarkersResponse {
    let results = by_topic(rows.iter().map(|row| (row.producer_id, row))).map(|(producer_id, rows)| {
        let partitions = by_topic(rows.into_iter().map(|row| (&row.partition, row.state)));
        let results = partitions.map(|((topic, index), states)| {
            let outcome = states.last().and_then(|state| state.err()).unwrap_or_default();
            let result = WritableTxnMarkerPartitionResult::default()
                .with_partition_index(*index)
                .with_error_code(outcome.code());
            (topic, result)
        });
        let topics = by_topic(results).map(|(topic, results)| {
            WritableTxnMarkerTopicResult::default()
                .with_name(names::topic_name(topic))
                .with_partitions(results)
        });
        WritableTxnMarkerResult::default()
            .with_producer_id(ProducerId(producer_id))
            .with_topics(topics.collect())
    });
    WriteTxnMarkersResponse::default().with_markers(results.collect())
}
