//! A fetch that waits (Kafka's `DelayedFetch`).

use super::by_topic;
use super::read::{FetchLimits, Read, Target, divergence, read_all, readable};
use super::reply::{FetchReply, PartitionReply};
use super::session::{SessionContext, SessionRow};
use crate::api::context::{Endpoint, Parts};
use crate::api::partitions;
use crate::base::{ConnectionId, ErrorCode, NodeId, PartitionKey};
use crate::purgatory::Description;

/// A Fetch request, from its first read to its answer.
#[derive(Clone, Debug)]
pub(crate) struct FetchWait {
    pub(super) version: i16,
    pub(super) connection: ConnectionId,
    pub(super) session: SessionContext,
    pub(super) limits: FetchLimits,
    pub(super) targets: Vec<Target>,
}

impl FetchWait {
    /// The partitions that can be read, each once.
    pub(super) fn partitions(&self) -> impl Iterator<Item = PartitionKey> {
        let mut seen = rustc_hash::FxHashSet::default();
        self.targets.iter().filter_map(|target| target.partition.ok()).filter(move |key| seen.insert(*key))
    }

    pub(super) fn read(&self, parts: &Parts<'_>) -> Read {
        read_all(parts, &self.targets, &self.limits)
    }

    /// Remembers where the fetch offsets lie: what is appended from here on is what counts.
    pub(super) fn note_positions(&mut self, read: &Read) {
        for row in &read.rows {
            self.targets[row.target].start = row.start;
        }
    }

    pub(crate) fn try_complete(&mut self, parts: &mut Parts<'_>) -> Option<FetchReply> {
        let done = match self.waiting_bytes(parts) {
            Some(bytes) => bytes as i64 >= i64::from(self.limits.min_bytes),
            None => true,
        };
        done.then(|| self.complete(parts))
    }

    /// The answer as things are now.
    pub(crate) fn complete(&mut self, parts: &mut Parts<'_>) -> FetchReply {
        let read = self.read(parts);
        self.answer(parts, read)
    }

    /// Bytes that have come since the wait began; none if something has happened that ends it at once.
    fn waiting_bytes(&self, parts: &Parts<'_>) -> Option<usize> {
        let mut bytes = 0;
        for target in &self.targets {
            let (Ok(key), Some(start)) = (target.partition, target.start) else { continue };
            bytes += waiting_bytes(parts, key, target, start, &self.limits)?;
        }
        Some(bytes)
    }

    /// Turns what was read into the answer, and brings the session up to date.
    pub(super) fn answer(&mut self, parts: &mut Parts<'_>, read: Read) -> FetchReply {
        let targets = &self.targets;
        let row = |at: usize, reply| SessionRow {
            target: at,
            key: &targets[at].key,
            name: &targets[at].name,
            spec: targets[at].spec,
            reply,
        };
        let mut rows: Vec<SessionRow<'_>> = Vec::with_capacity(targets.len());
        rows.extend(read.rows.into_iter().map(|read| row(read.target, read.reply)));
        // What can't be read comes last: ids that nobody knows, then partitions that aren't there, as a consumer of
        // Kafka's sees them.
        for unknown_id in [true, false] {
            rows.extend(targets.iter().enumerate().filter_map(|(at, target)| {
                let error = target
                    .partition
                    .err()
                    .filter(|error| unknown_id == (*error == ErrorCode::UnknownTopicId))?;
                Some(row(at, PartitionReply::refused(target.key.index, error)))
            }));
        }
        let mut endpoints = Vec::new();
        if self.version >= 16 {
            for row in &mut rows {
                self.name_leader(parts, &targets[row.target], &mut row.reply, &mut endpoints);
            }
        }
        let now = parts.now.instant;
        let session_id = match parts.broker.fetch_sessions.finish(self.session, &mut rows, now) {
            Ok(id) => id,
            Err(error) => {
                let SessionContext::Incremental { id: session_id, .. } = self.session else {
                    return FetchReply { error, ..FetchReply::default() };
                };
                return FetchReply { error, session_id, ..FetchReply::default() };
            }
        };
        let named = rows.into_iter().map(|row| {
            let target = &targets[row.target];
            (target.name.clone(), target.id, row.reply)
        });
        FetchReply { error: ErrorCode::None, session_id, topics: by_topic(named), endpoints }
    }

    /// Tells a fetcher that came to the wrong broker who leads (KIP-951).
    fn name_leader(
        &self,
        parts: &Parts<'_>,
        target: &Target,
        reply: &mut PartitionReply,
        endpoints: &mut Vec<(NodeId, Endpoint)>,
    ) {
        if !matches!(reply.error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch) {
            return;
        }
        let Ok(key) = target.partition else { return };
        let Some((leader, epoch)) = partitions::leader(parts, key) else { return };
        reply.current_leader = Some((leader, epoch));
        if !endpoints.iter().any(|(node, _)| *node == leader)
            && let Some(endpoint) = parts.endpoint(leader, self.connection)
        {
            endpoints.push((leader, endpoint));
        }
    }

    pub(crate) fn describe(&self, parts: &Parts<'_>) -> Description {
        let readable = self.targets.iter().filter(|target| target.partition.is_ok());
        let names: Vec<String> =
            readable.map(|target| format!("{}-{}", target.name, target.key.index)).collect();
        let bytes = self.waiting_bytes(parts).unwrap_or(0);
        Description {
            waits_for: names.join(", "),
            progress: format!("bytes {bytes} of {}", self.limits.min_bytes),
        }
    }
}

/// Bytes that have come to one partition since the wait began; none if something has happened that ends the wait.
fn waiting_bytes(
    parts: &Parts<'_>,
    key: PartitionKey,
    target: &Target,
    start: crate::log::OffsetPosition,
    limits: &FetchLimits,
) -> Option<usize> {
    let replica = readable(parts, key, target, limits).ok()?;
    if divergence(replica, &target.spec).is_ok_and(|end| end.is_some()) {
        return None;
    }
    let end_offset = replica.end_for(limits.isolation);
    if target.spec.fetch_offset == end_offset {
        return Some(0);
    }
    let end = replica.position(end_offset)?;
    if target.spec.fetch_offset > end_offset {
        // Kafka compares the first offset of the fetch offset's batch. That is the end if a transaction begins with this batch.
        return start.is_in_batch_of(&end).then_some(0);
    }
    let bytes = start.bytes_until(&end)?;
    Some(bytes.min(usize::try_from(target.spec.max_bytes).unwrap_or(0)))
}
