//! ListOffsets (2), versions 1–10: offsets by time, and the ends of a log.
//!
//! | timestamp | from | means |
//! |---|---|---|
//! | ≥ 0 | v1 | the first record at least so new |
//! | −1 | v1 | the end: high watermark, or last stable offset for read_committed |
//! | −2 | v1 | the start |
//! | −3 | v7 | the first record with the largest timestamp (KIP-734) |
//! | −4 | v8 | the start of what is local: the start (KIP-405) |
//! | −5 | v9 | the last offset in tiered storage: none (KIP-1005) |
//!
//! A leader whose high watermark is still below the start of its epoch doesn't know yet what consumers may read: it answers
//! OFFSET_NOT_AVAILABLE (LEADER_NOT_AVAILABLE before v5) to what lies above.
//!
//! Any other negative timestamp, or one above the version, is UNSUPPORTED_VERSION for its partition. No such record is
//! offset −1 without an error. Versions: 4 has leader epochs (KIP-320); 10 a timeout for tiered storage.

use indexmap::IndexMap;
use indexmap::map::Entry;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ApiKey, ListOffsetsRequest, ListOffsetsResponse, TopicName};
use rustc_hash::FxBuildHasher;

use super::by_topic::by_topic;
use super::subjects::NamesTopic;
use super::{Answer, Api, Context, Refusal, partitions, prepare::Preparation};
use crate::base::ErrorCode;
use crate::replica::{Isolation, Replica};

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

/// The replica id of those who aren't replicas.
const CONSUMER: i32 = -1;
/// The replica id of a tool that may ask a follower too, and is told the end of the log.
const DEBUGGING: i32 = -2;

pub(crate) struct ListOffsets;

/// The request, with the bound on what is decompressed for it.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    request: ListOffsetsRequest,
    max_decompressed_bytes: usize,
}

impl Api for ListOffsets {
    const KEY: ApiKey = ApiKey::ListOffsets;
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=10;
    type Wire = ListOffsetsRequest;
    type Request = Asked;
    type Response = ListOffsetsResponse;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> =
        Some(|asked, topic, _| asked.request.topics.iter().any(|one| topic.is_named(&one.name)));

    fn prepare(request: ListOffsetsRequest, preparation: &Preparation) -> Result<Asked, Refusal> {
        Ok(Asked { request, max_decompressed_bytes: preparation.limits.max_decompressed_bytes })
    }

    fn handle(context: &mut Context<'_>, asked: Asked) -> Answer<ListOffsetsResponse> {
        let Asked { request, max_decompressed_bytes } = asked;
        if !matches!(request.isolation_level, 0 | 1) {
            return Answer::Ready(failed(&request, ErrorCode::UnknownServerError));
        }
        let query = Query {
            version: context.caller.version,
            replica_id: request.replica_id.0,
            isolation: match (request.replica_id.0, request.isolation_level) {
                (CONSUMER, 1) => Isolation::LastStableOffset,
                (CONSUMER, _) => Isolation::HighWatermark,
                _ => Isolation::LogEnd,
            },
            max_decompressed_bytes,
        };
        let mut rows: IndexMap<(&TopicName, i32), ListOffsetsPartitionResponse, FxBuildHasher> =
            IndexMap::default();
        for topic in &request.topics {
            for partition in &topic.partitions {
                let index = partition.partition_index;
                match rows.entry((&topic.name, index)) {
                    // Once said, not answered twice.
                    Entry::Occupied(mut row) => {
                        drop(row.insert(query.row(index, Err(ErrorCode::InvalidRequest))))
                    }
                    Entry::Vacant(row) => {
                        let found = query.answer(context, &topic.name, partition);
                        row.insert(query.row(index, found));
                    }
                }
            }
        }
        let topics = by_topic(rows.into_iter().map(|((topic, _), row)| (topic, row))).map(|(topic, rows)| {
            ListOffsetsTopicResponse::default().with_name(topic.clone()).with_partitions(rows)
        });
        Answer::Ready(ListOffsetsResponse::default().with_topics(topics.collect()))
    }
}

/// Every partition of the request with this error, as often as it was named.
fn failed(request: &ListOffsetsRequest, error: ErrorCode) -> ListOffsetsResponse {
    let topics = request.topics.iter().map(|topic| {
        let rows = topic.partitions.iter().map(|partition| row(partition.partition_index, error));
        ListOffsetsTopicResponse::default().with_name(topic.name.clone()).with_partitions(rows.collect())
    });
    ListOffsetsResponse::default().with_topics(topics.collect())
}

fn row(index: i32, error: ErrorCode) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse::default().with_partition_index(index).with_error_code(error.code())
}

/// What holds for every partition of a request.
struct Query {
    version: i16,
    replica_id: i32,
    isolation: Isolation,
    max_decompressed_bytes: usize,
}

/// An offset, its timestamp (−1 for none) and its leader epoch (−1 for none).
struct Found {
    offset: i64,
    timestamp: i64,
    leader_epoch: i32,
}

impl Found {
    const NOTHING: Found = Found { offset: -1, timestamp: -1, leader_epoch: -1 };

    /// An offset that stands for a place rather than a record.
    fn place(offset: i64, leader_epoch: i32) -> Found {
        Found { offset, timestamp: -1, leader_epoch }
    }
}

impl Query {
    fn answer(
        &self,
        context: &Context<'_>,
        topic: &str,
        asked: &ListOffsetsPartition,
    ) -> Result<Found, ErrorCode> {
        let since = match asked.timestamp {
            0.. | LATEST | EARLIEST => 1,
            MAX_TIMESTAMP => 7,
            EARLIEST_LOCAL => 8,
            LATEST_TIERED => 9,
            _ => return Err(ErrorCode::UnsupportedVersion),
        };
        if self.version < since {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let replica = partitions::by_name(&context.parts, topic, asked.partition_index)?;
        match replica.check_leader(asked.current_leader_epoch) {
            Err(ErrorCode::NotLeaderOrFollower) if self.replica_id == DEBUGGING => {}
            checked => checked?,
        }
        self.find(replica, asked.timestamp)
    }

    fn find(&self, replica: &Replica, timestamp: i64) -> Result<Found, ErrorCode> {
        let log = replica.log();
        let limit = self.max_decompressed_bytes;
        let found = match timestamp {
            LATEST => {
                self.check_available(replica)?;
                return Ok(Found::place(replica.end_for(self.isolation), replica.leader_epoch()));
            }
            EARLIEST | EARLIEST_LOCAL => {
                let start = log.log_start_offset();
                return Ok(Found::place(start, log.epochs().epoch_for_offset(start).unwrap_or(-1)));
            }
            LATEST_TIERED => return Ok(Found::NOTHING),
            MAX_TIMESTAMP => log.offset_of_largest_timestamp(limit),
            _ => log.offset_for_timestamp(timestamp, limit),
        };
        // What was let in can be read again, but for a compressed batch above today's bound.
        let found = found.map_err(|_| ErrorCode::CorruptMessage)?;
        // A record counts only if a consumer could read it.
        let found = found.filter(|found| found.offset < replica.end_for(self.isolation));
        if found.is_none() {
            self.check_available(replica)?;
        }
        Ok(found.map_or(Found::NOTHING, |found| Found {
            offset: found.offset,
            timestamp: found.timestamp_ms,
            leader_epoch: found.leader_epoch,
        }))
    }

    /// Checks that consumers can be told where the readable part of the log ends (KIP-207).
    fn check_available(&self, replica: &Replica) -> Result<(), ErrorCode> {
        let lags = replica.epoch_start_offset().is_some_and(|start| start > replica.high_watermark());
        match self.replica_id {
            CONSUMER if lags && self.version >= 5 => Err(ErrorCode::OffsetNotAvailable),
            CONSUMER if lags => Err(ErrorCode::LeaderNotAvailable),
            _ => Ok(()),
        }
    }

    fn row(&self, index: i32, found: Result<Found, ErrorCode>) -> ListOffsetsPartitionResponse {
        let (error, found) = match found {
            Ok(found) => (ErrorCode::None, found),
            Err(error) => (error, Found::NOTHING),
        };
        let row = row(index, error).with_timestamp(found.timestamp).with_offset(found.offset);
        if self.version >= 4 { row.with_leader_epoch(found.leader_epoch) } else { row }
    }
}
