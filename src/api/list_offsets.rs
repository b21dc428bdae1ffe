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
//! offset −1 without an error. Batches are looked into outside of the cluster, and large ones aside.
//!
//! Versions: 4 has leader epochs (KIP-320); 10 a timeout for tiered storage.

use indexmap::IndexMap;
use indexmap::map::Entry;
use kafka_protocol::messages::list_offsets_request::ListOffsetsPartition;
use kafka_protocol::messages::list_offsets_response::{
    ListOffsetsPartitionResponse, ListOffsetsTopicResponse,
};
use kafka_protocol::messages::{ApiKey, ListOffsetsRequest, ListOffsetsResponse, TopicName};
use kafka_protocol::protocol::HeaderVersion;
use rustc_hash::FxBuildHasher;

use super::by_topic::by_topic;
use super::prepare::HEAVY_COMPRESSED_BYTES;
use super::subjects::NamesTopic;
use super::{Answer, Api, Context, Refusal, encode, partitions, prepare::Preparation};
use crate::base::ErrorCode;
use crate::log::TimestampLookup;
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
    type Response = ListOffsetsReply;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> =
        Some(|asked, topic, _| asked.request.topics.iter().any(|one| topic.is_named(&one.name)));

    fn prepare(request: ListOffsetsRequest, preparation: &Preparation) -> Result<Asked, Refusal> {
        Ok(Asked { request, max_decompressed_bytes: preparation.limits.max_decompressed_bytes })
    }

    fn handle(context: &mut Context<'_>, asked: Asked) -> Answer<ListOffsetsReply> {
        let Asked { request, max_decompressed_bytes } = asked;
        let has_leader_epochs = context.caller.version >= 4;
        if !matches!(request.isolation_level, 0 | 1) {
            let response = failed(&request, ErrorCode::UnknownServerError);
            return Answer::Ready(ListOffsetsReply {
                response,
                lookups: Vec::new(),
                has_leader_epochs,
                max_decompressed_bytes,
            });
        }
        let query = Query {
            version: context.caller.version,
            replica_id: request.replica_id.0,
            isolation: match (request.replica_id.0, request.isolation_level) {
                (CONSUMER, 1) => Isolation::LastStableOffset,
                (CONSUMER, _) => Isolation::HighWatermark,
                _ => Isolation::LogEnd,
            },
        };
        let mut rows: IndexMap<(&TopicName, i32), Row, FxBuildHasher> = IndexMap::default();
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
        let (mut topics, mut lookups) = (Vec::new(), Vec::new());
        for (topic, rows) in by_topic(rows.into_iter().map(|((topic, _), row)| (topic, row))) {
            let place = topics.len();
            let of_topic = rows.iter().enumerate().filter_map(|(row, Row { pending, .. })| {
                pending.clone().map(|pending| ((place, row), pending))
            });
            lookups.extend(of_topic);
            let rows = rows.into_iter().map(|row| row.response).collect();
            topics.push(ListOffsetsTopicResponse::default().with_name(topic.clone()).with_partitions(rows));
        }
        let response = ListOffsetsResponse::default().with_topics(topics);
        Answer::Ready(ListOffsetsReply { response, lookups, has_leader_epochs, max_decompressed_bytes })
    }
}

/// The answer, and what is still to be looked for: that may mean to decompress many batches, for which the cluster has no
/// time.
#[derive(Clone, Debug)]
pub(crate) struct ListOffsetsReply {
    response: ListOffsetsResponse,
    lookups: Vec<(Place, Pending)>,
    has_leader_epochs: bool,
    max_decompressed_bytes: usize,
}

/// A look-up that isn't done.
#[derive(Clone, Debug)]
struct Pending {
    lookup: TimestampLookup,
    /// A record counts only below this offset, if a consumer could read it.
    end: i64,
    /// What is answered where there is no such record.
    if_missing: ErrorCode,
}

/// Where a look-up's answer belongs: which topic, and which of its rows.
type Place = (usize, usize);

/// So many bytes of records are walked through in about a millisecond.
const HEAVY_PLAIN_BYTES: usize = 1 << 20;

impl encode::Response for ListOffsetsReply {
    fn header_version(&self, version: i16) -> i16 {
        <ListOffsetsResponse as HeaderVersion>::header_version(version)
    }

    fn is_heavy(&self) -> bool {
        let unread = self.lookups.iter().map(|(_, pending)| pending.lookup.unread_bytes());
        let (compressed, plain) = unread.fold((0, 0), |sum, unread| (sum.0 + unread.0, sum.1 + unread.1));
        compressed >= HEAVY_COMPRESSED_BYTES || plain >= HEAVY_PLAIN_BYTES
    }

    fn finish(&mut self) {
        for ((topic, row), pending) in std::mem::take(&mut self.lookups) {
            let rows = self.response.topics.get_mut(topic).map(|topic| &mut topic.partitions);
            let Some(row) = rows.and_then(|rows| rows.get_mut(row)) else { continue };
            match pending.lookup.finish(self.max_decompressed_bytes) {
                Ok(Some(found)) if found.offset < pending.end => {
                    (row.offset, row.timestamp) = (found.offset, found.timestamp_ms);
                    if self.has_leader_epochs {
                        row.leader_epoch = found.leader_epoch;
                    }
                }
                Ok(_) => row.error_code = pending.if_missing.code(),
                // What was let in can be read again, but for a compressed batch above today's bound.
                Err(_) => row.error_code = ErrorCode::CorruptMessage.code(),
            }
        }
    }

    fn encode(&self, version: i16, frame: &mut encode::Frame<'_>) -> Result<(), encode::EncodeError> {
        if self.lookups.is_empty() {
            return encode::Response::encode(&self.response, version, frame);
        }
        let mut finished = self.clone();
        finished.finish();
        encode::Response::encode(&finished.response, version, frame)
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

/// What is said of a partition.
struct Row {
    response: ListOffsetsPartitionResponse,
    pending: Option<Pending>,
}

/// What holds for every partition of a request.
struct Query {
    version: i16,
    replica_id: i32,
    isolation: Isolation,
}

/// What comes of a look-up.
enum Outcome {
    Found(Found),
    /// The batches must be looked into.
    Pending(Pending),
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
    ) -> Result<Outcome, ErrorCode> {
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

    fn find(&self, replica: &Replica, timestamp: i64) -> Result<Outcome, ErrorCode> {
        let log = replica.log();
        let lookup = match timestamp {
            LATEST => {
                self.check_available(replica)?;
                let end = replica.end_for(self.isolation);
                return Ok(Outcome::Found(Found::place(end, replica.leader_epoch())));
            }
            EARLIEST | EARLIEST_LOCAL => {
                let start = log.log_start_offset();
                let epoch = log.epochs().epoch_for_offset(start).unwrap_or(-1);
                return Ok(Outcome::Found(Found::place(start, epoch)));
            }
            LATEST_TIERED => return Ok(Outcome::Found(Found::NOTHING)),
            MAX_TIMESTAMP => log.look_up_largest_timestamp(),
            _ => log.look_up_timestamp(timestamp),
        };
        let end = replica.end_for(self.isolation);
        let if_missing = self.check_available(replica).err().unwrap_or(ErrorCode::None);
        Ok(Outcome::Pending(Pending { lookup, end, if_missing }))
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

    fn row(&self, index: i32, outcome: Result<Outcome, ErrorCode>) -> Row {
        let (error, found, pending) = match outcome {
            Ok(Outcome::Found(found)) => (ErrorCode::None, found, None),
            Ok(Outcome::Pending(pending)) => (ErrorCode::None, Found::NOTHING, Some(pending)),
            Err(error) => (error, Found::NOTHING, None),
        };
        let row = row(index, error).with_timestamp(found.timestamp).with_offset(found.offset);
        let response = if self.version >= 4 { row.with_leader_epoch(found.leader_epoch) } else { row };
        Row { response, pending }
    }
}
