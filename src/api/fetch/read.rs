//! One round of reading all partitions of a fetch, within the limits of KIP-74.

use std::sync::Arc;
use std::time::Duration;

use super::read_replica;
use super::reply::PartitionReply;
use super::session::{FetchKey, FetchSpec, TopicKey};
use crate::api::context::Parts;
use crate::api::partitions;
use crate::base::planted::{Bug, is_planted};
use crate::base::{ConnectionId, ErrorCode, NodeId, PartitionKey, TopicId};
use crate::log::{EpochEnd, OffsetPosition};
use crate::replica::{FollowerFetch, Isolation, Replica};

/// Who fetches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reader {
    /// A consumer that knows of leaders alone.
    OfLeaders,
    /// A consumer that may read from followers, and is in this rack if that isn't empty (KIP-392).
    OfReplicas {
        /// Kafka's `client.rack`.
        rack: Arc<str>,
    },
    /// A follower.
    Replica(NodeId),
}

impl Reader {
    pub(super) fn new(replica_id: i32, rack: Option<Arc<str>>) -> Reader {
        match (replica_id, rack) {
            (0.., _) => Reader::Replica(NodeId(replica_id)),
            (_, Some(rack)) => Reader::OfReplicas { rack },
            _ => Reader::OfLeaders,
        }
    }
}

/// What holds for all partitions of a fetch.
#[derive(Clone, Debug)]
pub(super) struct FetchLimits {
    pub(super) isolation: Isolation,
    pub(super) reader: Reader,
    /// Where the answer goes.
    pub(super) connection: ConnectionId,
    /// Negative if the client has sent it so: then the first partition with something to read fails, as in Kafka.
    pub(super) max_bytes: i64,
    pub(super) min_bytes: i32,
}

/// A partition to read.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) key: FetchKey,
    pub(super) spec: FetchSpec,
    pub(super) name: Arc<str>,
    pub(super) id: TopicId,
    /// The partition; or why there is none, in which case it isn't read but answered all the same.
    pub(super) partition: Result<PartitionKey, ErrorCode>,
    /// Where the fetch offset lay when the fetch began to wait.
    pub(super) start: Option<OffsetPosition>,
    /// Why the leader doesn't take this fetch for its follower's.
    refused: Option<ErrorCode>,
}

impl Target {
    /// `known_name` is what a session has learnt of the topic's name.
    pub(super) fn new(
        parts: &Parts<'_>,
        key: FetchKey,
        spec: FetchSpec,
        known_name: Option<&Arc<str>>,
    ) -> Self {
        let topics = parts.controller.topics();
        let topic = match &key.topic {
            TopicKey::Name(name) => topics.by_name(name),
            // By the name, once it is known, as Kafka's sessions do. The id is looked at when it comes to reading.
            TopicKey::Id(id) => topics.by_id(*id).or_else(|| topics.by_name(known_name?)),
        };
        let id = match &key.topic {
            TopicKey::Name(_) => topic.map_or(TopicId::ZERO, |topic| topic.id),
            TopicKey::Id(id) => *id,
        };
        let name = match (topic, &key.topic) {
            (Some(topic), _) => topic.name.clone(),
            (None, TopicKey::Name(name)) => name.clone(),
            (None, TopicKey::Id(_)) => known_name.cloned().unwrap_or_default(),
        };
        let partition = match topic {
            Some(topic) if topic.partition(key.index).is_some() => {
                Ok(PartitionKey { topic: id, index: key.index })
            }
            None if matches!(key.topic, TopicKey::Id(_)) && known_name.is_none() => {
                Err(ErrorCode::UnknownTopicId)
            }
            _ => Err(ErrorCode::UnknownTopicOrPartition),
        };
        Target { key, spec, name, id, partition, start: None, refused: None }
    }
}

/// What was read from the targets that can be read, in their order.
pub(super) struct Read {
    pub(super) rows: Vec<Row>,
    pub(super) bytes: usize,
    /// Something was found that the fetcher must hear of at once.
    urgent: bool,
}

pub(super) struct Row {
    /// Index of the target.
    pub(super) target: usize,
    pub(super) reply: PartitionReply,
    pub(super) start: Option<OffsetPosition>,
}

impl Read {
    /// Whether there is no point in waiting.
    pub(super) fn must_answer(&self, limits: &FetchLimits) -> bool {
        self.rows.is_empty() || self.urgent || self.bytes as i64 >= i64::from(limits.min_bytes)
    }
}

/// Reads all targets, in their order. The first batch is returned whole even if it is too large; after that, the
/// limits are hard.
pub(super) fn read_all(parts: &Parts<'_>, targets: &[Target], limits: &FetchLimits) -> Read {
    let mut read = Read { rows: Vec::with_capacity(targets.len()), bytes: 0, urgent: false };
    let mut left = limits.max_bytes;
    for (at, target) in targets.iter().enumerate() {
        let Ok(key) = target.partition else { continue };
        let most = left.min(target.spec.max_bytes.into());
        let row = read_one(parts, key, target, limits, most, read.bytes == 0);
        let (reply, start) = row.unwrap_or_else(|error| (PartitionReply::failed(key.index, error), None));
        read.urgent |= reply.error.is_error()
            || reply.diverging_epoch.is_some()
            || reply.preferred_read_replica.is_some();
        let bytes = reply.record_bytes();
        read.bytes += bytes;
        left = (left - bytes as i64).max(0);
        read.rows.push(Row { target: at, reply, start });
    }
    read
}

fn read_one(
    parts: &Parts<'_>,
    key: PartitionKey,
    target: &Target,
    limits: &FetchLimits,
    max_bytes: i64,
    min_one_batch: bool,
) -> Result<(PartitionReply, Option<OffsetPosition>), ErrorCode> {
    let replica = readable(parts, key, target, limits)?;
    if let Some(error) = target.refused {
        return Err(error);
    }
    let spec = &target.spec;
    let log = replica.log();
    let mut reply = PartitionReply {
        high_watermark: replica.high_watermark(),
        last_stable_offset: replica.last_stable_offset(),
        log_start_offset: log.log_start_offset(),
        ..PartitionReply::failed(key.index, ErrorCode::None)
    };
    if let Reader::OfReplicas { rack } = &limits.reader
        && let Some(better) =
            read_replica::preferred(parts, replica, spec.fetch_offset, rack, limits.connection)
    {
        reply.preferred_read_replica = Some(better);
        return Ok((reply, None));
    }
    if let Some(end) = divergence(replica, spec)? {
        reply.diverging_epoch = Some((end.epoch, end.end_offset));
        return Ok((reply, None));
    }
    let least = usize::try_from(max_bytes).unwrap_or(0);
    let slices = replica
        .read(spec.fetch_offset, limits.isolation, least, min_one_batch)
        .map_err(|error| error.code())?;
    if max_bytes < 0 && spec.fetch_offset < replica.end_for(limits.isolation) {
        return Err(ErrorCode::UnknownServerError);
    }
    reply.records = slices.parts;
    // As in Kafka, which forgets them beside a batch that it leaves out for its size.
    if limits.isolation == Isolation::LastStableOffset && !slices.first_too_large {
        let aborted = log.aborted_transactions(spec.fetch_offset, &reply.records);
        let told = if is_planted(Bug::ForgetsAborts) { &[] } else { &aborted[..] };
        let aborted = told.iter().map(|aborted| (aborted.producer_id, aborted.first_offset));
        reply.aborted = Some(aborted.collect());
    }
    Ok((reply, Some(slices.start)))
}

/// This broker's replica, if the fetcher may read it.
pub(super) fn readable<'a>(
    parts: &'a Parts<'_>,
    key: PartitionKey,
    target: &Target,
    limits: &FetchLimits,
) -> Result<&'a Replica, ErrorCode> {
    let topics = parts.controller.topics();
    if topics.by_id(key.topic).is_none() {
        // A session by ids is told of a topic that was made again under its name.
        let made_again =
            matches!(target.key.topic, TopicKey::Id(_)) && topics.by_name(&target.name).is_some();
        return Err(if made_again {
            ErrorCode::InconsistentTopicId
        } else {
            ErrorCode::UnknownTopicOrPartition
        });
    }
    let spec = &target.spec;
    let replica = partitions::replica(parts, key)?;
    match limits.reader {
        Reader::OfLeaders => replica.check_leader(spec.current_leader_epoch)?,
        Reader::OfReplicas { .. } => replica.check_epoch(spec.current_leader_epoch)?,
        Reader::Replica(id) => replica.check_follower(id, spec.current_leader_epoch)?,
    }
    Ok(replica)
}

/// Notes what a follower says that it has, where this broker leads.
pub(super) fn note_follower(
    parts: &mut Parts<'_>,
    targets: &mut [Target],
    replica: NodeId,
    broker_epoch: i64,
) {
    for target in targets {
        let Ok(key) = target.partition else { continue };
        let FetchSpec { fetch_offset, max_bytes, current_leader_epoch, last_fetched_epoch, log_start_offset } =
            target.spec;
        let fetch = FollowerFetch {
            key,
            replica,
            broker_epoch,
            leader_epoch: current_leader_epoch,
            offset: fetch_offset,
            last_fetched_epoch,
            log_start_offset,
            high_watermark: -1,
            max_bytes: usize::try_from(max_bytes).unwrap_or(0),
            max_wait: Duration::ZERO,
            sequence: 0,
        };
        match parts.broker.replicas.record_follower_fetch(&fetch, parts.now) {
            Ok(moved) => parts.broker.wake_moved(key, moved),
            Err(error) => target.refused = Some(error),
        }
    }
}

/// Where the fetcher's log and this one part, if they do (KIP-595).
///
/// # Errors
/// OFFSET_OUT_OF_RANGE if this log can't tell, or the offset is below its start.
pub(super) fn divergence(replica: &Replica, spec: &FetchSpec) -> Result<Option<EpochEnd>, ErrorCode> {
    replica.divergence(spec.fetch_offset, spec.last_fetched_epoch)
}
