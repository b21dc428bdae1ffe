//! WriteTxnMarkers (27), version 1: ends transactions in the partitions that this broker leads (KIP-98).
//!
//! For coordinators and administrators (`kafka-transactions abort`). Answered once the markers are replicated. For a partition
//! of `__consumer_offsets` the group coordinator takes the outcome on, too.

use std::sync::Arc;

use kafka_protocol::messages::write_txn_markers_response::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
};
use kafka_protocol::messages::{ApiKey, ProducerId, WriteTxnMarkersRequest, WriteTxnMarkersResponse};

use super::by_topic::by_topic;
use super::transaction_markers::{MarkersWait, Row, Target, Told};
use super::transaction_waits::LOG_TIMEOUT_MS;
use super::waits::{Key, Operation, Wait};
use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::coordinator::transactions::Producer;
use crate::wire::marker::Marker;

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
        for (place, asked) in request.markers.iter().enumerate() {
            let producer = Producer { id: asked.producer_id.0, epoch: asked.producer_epoch };
            let marker =
                Marker { commit: asked.transaction_result, coordinator_epoch: asked.coordinator_epoch };
            for topic in &asked.topics {
                let name: Arc<str> = topic.name.as_str().into();
                for index in &topic.partition_indexes {
                    let partition = (name.clone(), *index);
                    rows.push(Row::write(&mut context.parts, place, partition, producer, marker));
                }
            }
        }
        let producers = request.markers.iter().map(|marker| marker.producer_id.0).collect();
        let mut wait = MarkersWait { rows, target: Target::Client(producers) };
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

pub(super) fn response(producers: &[i64], rows: &[Row]) -> WriteTxnMarkersResponse {
    let results = producers.iter().enumerate().map(|(place, producer)| {
        let rows = rows.iter().filter(|row| row.place == place).map(|row| {
            let result = WritableTxnMarkerPartitionResult::default()
                .with_partition_index(row.partition.1)
                .with_error_code(row.state.err().unwrap_or_default().code());
            (&row.partition.0, result)
        });
        let topics = by_topic(rows).map(|(topic, rows)| {
            WritableTxnMarkerTopicResult::default().with_name(names::topic_name(topic)).with_partitions(rows)
        });
        WritableTxnMarkerResult::default()
            .with_producer_id(ProducerId(*producer))
            .with_topics(topics.collect())
    });
    WriteTxnMarkersResponse::default().with_markers(results.collect())
}
