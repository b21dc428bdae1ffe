//! DeleteRecords (21), versions 0–2: deletes all records below an offset (KIP-107).
//!
//! −1 stands for the high watermark. An offset at or below the start changes nothing and succeeds. The answer, the low
//! watermark, is the least log start offset of all replicas; it waits in the purgatory until that has arrived at the
//! offset, or the timeout has.

use indexmap::IndexMap;
use kafka_protocol::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use kafka_protocol::messages::{ApiKey, DeleteRecordsRequest, DeleteRecordsResponse, TopicName};
use rustc_hash::FxBuildHasher;

use super::by_topic::by_topic;
use super::context::Parts;
use super::subjects::NamesTopic;
use super::waits::{Key, Operation, Wait};
use super::{Answer, Api, Context, Refusal, names, partitions, prepare::Preparation};
use crate::base::{ErrorCode, PartitionKey};
use crate::controller::names as topic_names;
use crate::purgatory::Description;

/// Stands for the high watermark.
const HIGH_WATERMARK: i64 = -1;

pub(crate) struct DeleteRecords;

impl Api for DeleteRecords {
    const KEY: ApiKey = ApiKey::DeleteRecords;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;
    type Wire = DeleteRecordsRequest;
    type Request = DeleteRecordsRequest;
    type Response = DeleteRecordsResponse;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> =
        Some(|request, topic, _| request.topics.iter().any(|one| topic.is_named(&one.name)));

    fn prepare(wire: DeleteRecordsRequest, _: &Preparation) -> Result<DeleteRecordsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: DeleteRecordsRequest) -> Answer<DeleteRecordsResponse> {
        // Of a partition that comes twice, the last word counts.
        let mut asked: IndexMap<(&TopicName, i32), i64, FxBuildHasher> = IndexMap::default();
        for topic in &request.topics {
            asked.extend(topic.partitions.iter().map(|one| ((&topic.name, one.partition_index), one.offset)));
        }
        let rows = asked.into_iter().map(|((topic, index), offset)| {
            let outcome = match delete(&mut context.parts, topic, index, offset) {
                Ok((key, offset)) => Outcome::Pending { key, offset },
                Err(error) => Outcome::Failed(error),
            };
            Row { topic: topic.as_str().into(), index, outcome }
        });
        let mut wait = DeleteRecordsWait { rows: rows.collect() };
        if let Some(response) = wait.try_complete(&mut context.parts) {
            return Answer::Ready(response);
        }
        let keys: Vec<Key> = wait.pending().map(|(key, _)| Key::LowWatermark(key)).collect();
        let deadline = context.parts.now.instant.after_timeout_ms(request.timeout_ms);
        let wait = Wait::new(context.caller, Operation::DeleteRecords(Box::new(wait)));
        context.park(keys, deadline, wait);
        Answer::Parked
    }
}

fn delete(
    parts: &mut Parts<'_>,
    topic: &TopicName,
    index: i32,
    offset: i64,
) -> Result<(PartitionKey, i64), ErrorCode> {
    let key = partitions::key_by_name(parts, topic, index)?;
    if topic_names::is_internal(topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    let replica = partitions::replica(parts, key)?;
    replica.check_leader(-1)?;
    if replica.config().cleanup_policy.compact && !replica.config().cleanup_policy.delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let offset = match offset {
        HIGH_WATERMARK => replica.high_watermark(),
        offset if offset < 0 => return Err(ErrorCode::OffsetOutOfRange),
        offset => offset,
    };
    let deleted = parts.broker.replicas.delete_records(key, offset, parts.now, parts.pool);
    deleted.ok_or(ErrorCode::NotLeaderOrFollower)??;
    parts.broker.wake(Key::LowWatermark(key));
    Ok((key, offset))
}

/// A DeleteRecords request whose replicas have not all dropped the records yet.
#[derive(Clone, Debug)]
pub(crate) struct DeleteRecordsWait {
    rows: Vec<Row>,
}

#[derive(Clone, Debug)]
struct Row {
    topic: Box<str>,
    index: i32,
    outcome: Outcome,
}

#[derive(Clone, Copy, Debug)]
enum Outcome {
    Pending { key: PartitionKey, offset: i64 },
    Done { low_watermark: i64 },
    Failed(ErrorCode),
}

impl DeleteRecordsWait {
    pub(crate) fn try_complete(&mut self, parts: &mut Parts<'_>) -> Option<DeleteRecordsResponse> {
        for row in &mut self.rows {
            let Outcome::Pending { key, offset } = row.outcome else { continue };
            match partitions::replica(parts, key)
                .and_then(|replica| replica.check_leader(-1).map(|()| replica))
            {
                Ok(replica) if replica.low_watermark() >= offset => {
                    row.outcome = Outcome::Done { low_watermark: replica.low_watermark() };
                }
                Ok(_) => {}
                Err(error) => row.outcome = Outcome::Failed(error),
            }
        }
        self.pending().next().is_none().then(|| self.response())
    }

    pub(crate) fn expire(&mut self, _: &mut Parts<'_>) -> DeleteRecordsResponse {
        self.response()
    }

    pub(crate) fn describe(&self, parts: &Parts<'_>) -> Description {
        let waits_for: Vec<String> = self
            .rows
            .iter()
            .filter(|row| matches!(row.outcome, Outcome::Pending { .. }))
            .map(|row| format!("{}-{}", row.topic, row.index))
            .collect();
        let progress: Vec<String> = self
            .pending()
            .map(|(key, offset)| {
                let low = partitions::replica(parts, key).map_or(-1, |replica| replica.low_watermark());
                format!("low watermark {low} of {offset}")
            })
            .collect();
        Description { waits_for: waits_for.join(", "), progress: progress.join(", ") }
    }

    fn pending(&self) -> impl Iterator<Item = (PartitionKey, i64)> {
        self.rows.iter().filter_map(|row| match row.outcome {
            Outcome::Pending { key, offset } => Some((key, offset)),
            _ => None,
        })
    }

    /// What is still pending has timed out.
    fn response(&self) -> DeleteRecordsResponse {
        let rows = self.rows.iter().map(|row| {
            let (error, low_watermark) = match row.outcome {
                Outcome::Done { low_watermark } => (ErrorCode::None, low_watermark),
                Outcome::Failed(error) => (error, -1),
                Outcome::Pending { .. } => (ErrorCode::RequestTimedOut, -1),
            };
            let result = DeleteRecordsPartitionResult::default()
                .with_partition_index(row.index)
                .with_error_code(error.code())
                .with_low_watermark(low_watermark);
            (&*row.topic, result)
        });
        let topics = by_topic(rows).map(|(topic, rows)| {
            DeleteRecordsTopicResult::default().with_name(TopicName(names::text(topic))).with_partitions(rows)
        });
        DeleteRecordsResponse::default().with_topics(topics.collect())
    }
}
