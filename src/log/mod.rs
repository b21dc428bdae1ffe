//! The log of one partition, in memory: what was appended, found by offset or by time, until retention takes it.
//!
//! - [`Log`]: append, truncate, delete; offsets. `read.rs` reads and looks up, `retention.rs` expires.
//! - [`ChunkPool`]: the memory of all logs, within a budget. Lent to each call that takes or gives back memory.
//! - [`LeaderEpochs`], [`ProducerStates`]: what else a log knows, trimmed along with it.
//!
//! A log is a plain value: the time comes in, and a clone shares the record bytes. It must not know of high watermarks
//! (its owner says how far a reader may read) nor of topics. Batches come in validated, and are looked into for a
//! record's timestamp alone.

mod chunk;
mod compaction;
mod epochs;
mod error;
mod lookup;
mod pages;
mod producers;
mod read;
mod retention;
mod segment;
mod transactions;

use std::collections::VecDeque;

use bytes::Bytes;

pub use chunk::{BudgetExceeded, ChunkPool};
pub use compaction::Compacted;
pub use epochs::{EpochEnd, EpochStart, LeaderEpochs};
pub use error::{AppendError, OffsetOutOfRange, ReplicateError};
pub use lookup::TimestampLookup;
pub use producers::{
    AppendOrigin, ProducerBatch, ProducerError, ProducerState, ProducerStates, Verdict, VerificationGuard,
    Verifying,
};
pub use read::{FetchSlices, OffsetPosition, ReadLimits, SharedSlices, StoredBatch, TimestampOffset};
pub use retention::Deleted;
pub use transactions::{AbortedTransaction, EndedTransaction};

use crate::base::planted::{Bug, is_planted};
use crate::base::{Now, WallTime};
use crate::wire::batch::{self, BatchView, HEADER_LEN, Stamp};
use crate::wire::marker::Marker;
use chunk::ChunkQueue;
use compaction::Compaction;
use segment::{AppendedBatch, RollRules, Segment, Walked, walk};
use transactions::EndedTransactions;

/// The settings of a topic (and two of the broker) that its logs need. Names and defaults are Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogConfig {
    /// `segment.bytes`: no segment, and no produced batch, is larger. 1 GiB.
    pub segment_bytes: u32,
    /// `segment.ms`: a segment takes no batch that is this much newer than its first. 7 days.
    pub segment_ms: i64,
    /// `retention.ms`: a segment whose newest record is older goes; negative keeps all. 7 days.
    pub retention_ms: i64,
    /// `retention.bytes`: the oldest segments go while the rest still has this size; negative keeps all. −1.
    pub retention_bytes: i64,
    /// Whether `cleanup.policy` contains `delete`. True.
    pub delete: bool,
    /// Whether `cleanup.policy` contains `compact`. False.
    pub compact: bool,
    /// `max.compaction.lag.ms`: with compaction, bounds a segment's age too. Unbounded.
    pub max_compaction_lag_ms: i64,
    /// `min.compaction.lag.ms`: a segment with a newer record is not compacted. 0.
    pub min_compaction_lag_ms: i64,
    /// `min.cleanable.dirty.ratio`, parts per million: the part of a log that must be new for it to be compacted. Half.
    pub min_cleanable_dirty_ppm: u32,
    /// `delete.retention.ms`: how long compaction leaves a tombstone. 1 day.
    pub delete_retention_ms: i64,
    /// `producer.id.expiration.ms`: a producer that is idle for so long is forgotten. 1 day.
    pub producer_id_expiration_ms: i64,
    /// The most producers that a log remembers (ours; see [`ProducerStates`]). 10,000.
    pub max_producer_ids: usize,
}

impl Default for LogConfig {
    fn default() -> Self {
        const DAY_MS: i64 = 24 * 60 * 60 * 1000;
        LogConfig {
            segment_bytes: 1 << 30,
            segment_ms: 7 * DAY_MS,
            retention_ms: 7 * DAY_MS,
            retention_bytes: -1,
            delete: true,
            compact: false,
            max_compaction_lag_ms: i64::MAX,
            min_compaction_lag_ms: 0,
            min_cleanable_dirty_ppm: 500_000,
            delete_retention_ms: DAY_MS,
            producer_id_expiration_ms: DAY_MS,
            max_producer_ids: 10_000,
        }
    }
}

impl LogConfig {
    fn roll_rules(&self) -> RollRules {
        let lag_ms = if self.compact { self.max_compaction_lag_ms } else { i64::MAX };
        RollRules { segment_bytes: self.segment_bytes, segment_ms: self.segment_ms.min(lag_ms) }
    }
}

/// What a leader adds to a batch as it appends it.
#[derive(Clone, Copy, Debug)]
pub struct LeaderAppend {
    /// When.
    pub now: Now,
    /// The leader's epoch.
    pub leader_epoch: i32,
    /// For LogAppendTime: the records' new timestamp, ms. None keeps the producer's timestamps.
    pub append_time_ms: Option<i64>,
    /// Who wrote it.
    pub origin: AppendOrigin,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset of the last record.
    pub last_offset: i64,
    /// What Produce answers as log append time, ms: −1 with CreateTime; of a duplicate the stored timestamp.
    pub log_append_time_ms: i64,
    /// The log's first offset.
    pub log_start_offset: i64,
    /// The batch was there already; these are its offsets. Nothing was appended.
    pub duplicate: bool,
}

/// A part of what a follower gets, the first bytes of which it has already.
struct Part<'a> {
    bytes: &'a Bytes,
    known: usize,
    copied: bool,
}

/// What a follower took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replicated {
    /// Batches appended.
    pub batches: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// The log of one partition.
///
/// Offsets are found in `log_start_offset..log_end_offset`, in order and, but for compaction, without gaps.
#[derive(Debug, Default)]
pub struct Log {
    config: LogConfig,
    log_start_offset: i64,
    log_end_offset: i64,
    /// Below this offset the log has been compacted.
    clean_until: i64,
    /// A compaction that goes on.
    compaction: Option<Box<Compaction>>,
    /// By base offset. Empty until there is something to hold.
    segments: VecDeque<Segment>,
    chunks: ChunkQueue,
    epochs: LeaderEpochs,
    producers: ProducerStates,
    ended: EndedTransactions,
    memory: IndexMemory,
}

/// What a log takes beside its chunks: its index, and copies of what its leader had not closed.
#[derive(Clone, Copy, Debug, Default)]
struct IndexMemory {
    bytes: usize,
    /// Of which the pool knows.
    counted_bytes: usize,
}

/// The part of that which an append changes.
#[derive(Clone, Copy, Debug)]
struct Tail {
    segments: usize,
    capacity: usize,
    last_base_offset: Option<i64>,
    last_bytes: usize,
}

impl Tail {
    fn has_same_segments(&self, other: &Tail) -> bool {
        let Tail { segments, capacity, last_base_offset, .. } = *self;
        (segments, capacity, last_base_offset) == (other.segments, other.capacity, other.last_base_offset)
    }
}

impl Log {
    /// An empty log. Allocates nothing.
    pub fn new(config: LogConfig) -> Self {
        Log { config, ..Log::default() }
    }

    /// The settings.
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Changes the settings, from the next append and the next look at retention on.
    pub fn set_config(&mut self, config: LogConfig) {
        self.config = config;
    }

    /// The first offset that may be read.
    pub fn log_start_offset(&self) -> i64 {
        self.log_start_offset
    }

    /// The offset that the next record gets (LEO).
    pub fn log_end_offset(&self) -> i64 {
        self.log_end_offset
    }

    /// Bytes of all batches in its segments, as DescribeLogDirs tells them.
    pub fn size_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| u64::from(segment.size)).sum()
    }

    /// How many segments there are.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Memory of its own for record bytes. A follower's records, shared with the leader, don't count.
    pub fn bytes_held(&self) -> usize {
        self.chunks.bytes_held()
    }

    /// Memory for the index, bytes.
    pub fn index_bytes(&self) -> usize {
        self.segments.iter().map(Segment::index_bytes).sum()
    }

    /// The leader epochs.
    pub fn epochs(&self) -> &LeaderEpochs {
        &self.epochs
    }

    /// The idempotent producers.
    pub fn producers(&self) -> &ProducerStates {
        &self.producers
    }

    /// Notes that a leader with this epoch begins to write at the log's end.
    pub fn assign_leader_epoch(&mut self, epoch: i32) {
        self.epochs.assign(epoch, self.log_end_offset);
    }

    /// Where `epoch` ends: the answer to OffsetForLeaderEpoch.
    pub fn end_offset_for_epoch(&self, epoch: i32) -> EpochEnd {
        self.epochs.end_offset(epoch, self.log_end_offset)
    }

    /// First offset of the oldest transaction that is open, or whose marker isn't below the high watermark, or the log's
    /// start where that is later: the last stable offset is not above it. (Kafka's
    /// `UnifiedLog.maybeIncrementFirstUnstableOffset`.)
    pub fn first_unstable_offset(&self, high_watermark: i64) -> Option<i64> {
        let open = self.producers.first_open_transaction_offset();
        let first = [open, self.ended.first_unreplicated(high_watermark)].into_iter().flatten().min()?;
        Some(first.max(self.log_start_offset))
    }

    /// The high watermark has risen. What is settled by that needs no memory any more.
    pub fn replicated_to(&mut self, high_watermark: i64) {
        self.ended.replicated_to(high_watermark);
    }

    /// See [`ProducerStates::begin_verification`].
    pub fn begin_verification(&mut self, verifying: Verifying) -> Option<VerificationGuard> {
        self.producers.begin_verification(verifying)
    }

    /// Forgets producers that have been idle for `producer.id.expiration.ms`. Returns how many.
    pub fn expire_producers(&mut self, now: WallTime) -> usize {
        self.producers.expire(now, self.config.producer_id_expiration_ms)
    }

    /// Appends one validated batch as leader: checks its producer, copies it, stamps the copy.
    ///
    /// A repeated batch of an idempotent producer appends nothing and is answered with what the first one was. After an
    /// error nothing has changed.
    pub fn append(
        &mut self,
        pool: &mut ChunkPool,
        batch: &[u8],
        append: &LeaderAppend,
    ) -> Result<Appended, AppendError> {
        let view = BatchView::new(batch).filter(|view| view.size() == Some(batch.len()));
        let view = view.filter(|view| view.last_offset_delta() >= 0).ok_or(AppendError::Malformed)?;
        let segment_bytes = self.config.segment_bytes;
        if batch.len() as u64 > u64::from(segment_bytes) {
            return Err(AppendError::RecordListTooLarge { batch_bytes: batch.len(), segment_bytes });
        }
        if let Verdict::Duplicate(known) = self.producers.check(&view, Marker::read(batch), append.origin)? {
            return Ok(Appended {
                base_offset: known.base_offset,
                last_offset: known.last_offset,
                log_append_time_ms: known.timestamp_ms,
                log_start_offset: self.log_start_offset,
                duplicate: true,
            });
        }
        if is_planted(Bug::LeavesHoles) && self.log_end_offset % 7 == 5 {
            self.log_end_offset += 1;
        }
        let base_offset = self.log_end_offset;
        let end_offset = base_offset.checked_add(i64::from(view.last_offset_delta()) + 1);
        let end_offset = end_offset.ok_or(AppendError::OffsetsExhausted)?;
        if !self.chunks.fits(batch.len()) {
            let chunk = self.chunks.take(batch.len(), pool)?;
            self.seal();
            self.chunks.push(chunk, base_offset);
        }
        let tail = self.tail();
        self.write(batch, end_offset, append);
        self.note_growth(tail);
        self.count_memory(pool);
        Ok(Appended {
            base_offset,
            last_offset: end_offset - 1,
            log_append_time_ms: append.append_time_ms.unwrap_or(-1),
            log_start_offset: self.log_start_offset,
            duplicate: false,
        })
    }

    /// Writes an accepted batch into the last chunk, which has room for it.
    fn write(&mut self, batch: &[u8], end_offset: i64, append: &LeaderAppend) {
        let (now, base_offset) = (append.now.wall, self.log_end_offset);
        let noted = AppendedBatch {
            base_offset,
            last_offset: end_offset - 1,
            max_timestamp_ms: append
                .append_time_ms
                .unwrap_or_else(|| BatchView::new(batch).map_or(-1, |view| view.max_timestamp())),
            size: batch.len(),
        };
        self.roll_for(&noted, now);
        let leader_epoch = append.leader_epoch;
        let stamp = Stamp { base_offset, leader_epoch, append_time_ms: append.append_time_ms };
        // The header is made ready before it is written, and nothing of the copy read, which is far away as yet.
        if let Some(header) = batch::stamped(batch, stamp) {
            self.chunks.write(&header, batch.get(HEADER_LEN..).unwrap_or_default(), end_offset);
            if let Some(view) = BatchView::new(&header) {
                let ended = self.producers.update(&view, Marker::read(batch), self.config.max_producer_ids);
                self.note_ended(ended);
            }
        }
        self.epochs.assign(append.leader_epoch, base_offset);
        self.log_end_offset = end_offset;
        if self.segments.back_mut().is_some_and(|segment| segment.append_open(&noted, now)) {
            self.seal();
        }
    }

    /// Appends what a leader sent ([`Log::read_shared`]), sharing its bytes: whole batches, of which the last may be cut off and is then left
    /// out. Batches from an epoch above `leader_epoch`, and what follows them, are not taken either.
    ///
    /// An empty log that starts inside the first batch, as the leader's may after DeleteRecords, starts with that batch
    /// then. After an error the batches before the one at fault are in the log. What this takes beside the leader's memory is
    /// for [`Log::count_memory`] to count.
    pub fn append_as_follower(
        &mut self,
        slices: &SharedSlices,
        leader_epoch: i32,
        now: Now,
    ) -> Result<Replicated, ReplicateError> {
        self.seal();
        let tail = self.tail();
        let mut replicated = Replicated::default();
        let mut known = slices.known;
        let mut outcome = Ok(());
        for (at, bytes) in slices.parts.iter().enumerate() {
            let before = replicated.bytes;
            let copied = slices.last_is_copied && at + 1 == slices.parts.len();
            outcome =
                self.append_part(Part { bytes, known, copied }, leader_epoch, now.wall, &mut replicated);
            if outcome.is_err() || replicated.bytes - before < bytes.len() - known {
                break;
            }
            known = 0;
        }
        self.note_growth(tail);
        outcome.map(|()| replicated)
    }

    /// Appends what comes behind the `known` bytes of a part. If these are what this log's last block holds, the block
    /// becomes one with what is appended, and is the leader's memory then.
    fn append_part(
        &mut self,
        Part { bytes: part, known, copied }: Part<'_>,
        leader_epoch: i32,
        now: WallTime,
        replicated: &mut Replicated,
    ) -> Result<(), ReplicateError> {
        let is_empty = self.log_start_offset == self.log_end_offset;
        let last = self.segments.back_mut().filter(|_| known > 0 && !is_empty);
        let mut block_start = last.and_then(|last| last.reopen(&part[..known])).unwrap_or(known);
        let mut outcome = Ok(());
        let mut end = known;
        let new = walk(&part[known..]).map(|found| Walked { at: found.at + known, ..found });
        for found in new.take_while(|found| found.view.leader_epoch() <= leader_epoch) {
            let noted = AppendedBatch::of(&found.view, found.bytes.len());
            self.start_with(&noted);
            if noted.base_offset < self.log_end_offset || noted.last_offset < noted.base_offset {
                let log_end_offset = self.log_end_offset;
                outcome = Err(ReplicateError::UnexpectedOffset { log_end_offset, found: noted.base_offset });
                break;
            }
            if self.must_roll_for(&noted, now) {
                self.seal_shared(part.slice(block_start..found.at), copied);
                block_start = found.at;
                self.segments.push_back(Segment::new(noted.base_offset, now));
            }
            end = found.at + found.bytes.len();
            let full = self.segments.back_mut().is_some_and(|segment| segment.append_open(&noted, now));
            if full {
                self.seal_shared(part.slice(block_start..end), copied);
                block_start = end;
            }
            self.epochs.assign(found.view.leader_epoch(), noted.base_offset);
            let marker = Marker::read(found.bytes);
            let ended = self.producers.update(&found.view, marker, self.config.max_producer_ids);
            self.note_ended(ended);
            self.log_end_offset = noted.last_offset.saturating_add(1);
            replicated.batches += 1;
            replicated.bytes += noted.size;
        }
        self.seal_shared(part.slice(block_start..end.max(block_start)), copied);
        outcome
    }

    fn note_ended(&mut self, ended: Option<EndedTransaction>) {
        if let Some(ended) = ended {
            self.ended.end(ended, self.producers.first_open_transaction_offset());
        }
    }

    fn start_with(&mut self, batch: &AppendedBatch) {
        let is_empty = self.log_start_offset == self.log_end_offset;
        if is_empty && (batch.base_offset.max(0)..=batch.last_offset).contains(&self.log_end_offset) {
            self.compaction = None;
            self.segments.clear();
            self.epochs.clear();
            self.producers.clear();
            self.ended.clear();
            self.log_start_offset = batch.base_offset;
            self.log_end_offset = batch.base_offset;
        }
    }

    fn must_roll_for(&self, batch: &AppendedBatch, now: WallTime) -> bool {
        let rules = self.config.roll_rules();
        self.segments.back().is_none_or(|segment| segment.should_roll(batch, &rules, now))
    }

    /// Begins a new segment where the last one can't take `batch`.
    fn roll_for(&mut self, batch: &AppendedBatch, now: WallTime) {
        if self.must_roll_for(batch, now) {
            self.seal();
            self.segments.push_back(Segment::new(batch.base_offset, now));
        }
    }

    /// Makes the open bytes shareable, so that every batch is in a sealed block.
    fn seal(&mut self) {
        if let Some(segment) = self.segments.back_mut().filter(|segment| segment.is_open()) {
            segment.seal(self.chunks.seal(), false);
        }
    }

    fn seal_shared(&mut self, bytes: Bytes, copied: bool) {
        if let Some(segment) = self.segments.back_mut() {
            segment.seal(bytes, copied);
        }
    }

    fn tail(&self) -> Tail {
        let last = self.segments.back();
        Tail {
            segments: self.segments.len(),
            capacity: self.segments.capacity(),
            last_base_offset: last.map(|segment| segment.base_offset),
            last_bytes: last.map_or(0, |segment| segment.index_bytes() + segment.copied_bytes()),
        }
    }

    /// Something was appended since the tail was as this.
    fn note_growth(&mut self, before: Tail) {
        let after = self.tail();
        if after.has_same_segments(&before) {
            self.memory.bytes = self.memory.bytes + after.last_bytes - before.last_bytes;
        } else {
            self.note_all();
        }
    }

    fn note_all(&mut self) {
        let of_segments = self.segments.iter().map(|segment| segment.index_bytes() + segment.copied_bytes());
        self.memory.bytes = self.segments.capacity() * size_of::<Segment>() + of_segments.sum::<usize>();
    }

    /// Has the pool count what this log takes beside its chunks.
    pub fn count_memory(&mut self, pool: &mut ChunkPool) {
        let IndexMemory { bytes, counted_bytes } = &mut self.memory;
        pool.count_indexed(std::mem::replace(counted_bytes, *bytes), *bytes);
    }

    /// The same, where more has changed than an append does.
    fn count_all_memory(&mut self, pool: &mut ChunkPool) {
        self.note_all();
        self.count_memory(pool);
    }

    /// The open bytes of the segment with this index.
    fn open_bytes(&self, segment: usize) -> &[u8] {
        if segment + 1 == self.segments.len() { self.chunks.open_bytes() } else { &[] }
    }

    /// Moves the log's start up to `offset` (DeleteRecords) and gives back the memory of what lies below. Returns
    /// whether it moved: an offset at or below the start changes nothing.
    pub fn advance_log_start(&mut self, offset: i64, pool: &mut ChunkPool) -> Result<bool, OffsetOutOfRange> {
        if offset > self.log_end_offset {
            return Err(self.out_of_range(offset));
        }
        if offset <= self.log_start_offset {
            return Ok(false);
        }
        if offset == self.log_end_offset {
            self.seal();
        }
        self.log_start_offset = offset;
        self.trim_below_log_start(pool);
        Ok(true)
    }

    /// Gives back what lies below the log's start.
    fn trim_below_log_start(&mut self, pool: &mut ChunkPool) {
        let offset = self.log_start_offset;
        while self.segments.get(1).is_some_and(|next| next.base_offset <= offset) {
            self.segments.pop_front();
        }
        let first_end = self.segments.get(1).map_or(self.log_end_offset, |next| next.base_offset);
        if let Some(first) = self.segments.front_mut() {
            first.release_below(offset, first_end);
        }
        self.move_log_start(offset, pool);
    }

    /// Sets the log's start, after the segments below it are gone, and trims what goes with them.
    fn move_log_start(&mut self, offset: i64, pool: &mut ChunkPool) {
        self.log_start_offset = offset;
        self.epochs.truncate_from_start(offset);
        self.ended.truncate_from_start(offset);
        let first = self.segments.iter().find_map(Segment::first_offset);
        self.chunks.release_below(first.unwrap_or(self.log_end_offset), pool);
        self.count_all_memory(pool);
    }

    /// Cuts off all from `offset` on, or from the start of the batch that holds it, and ends there. Returns whether
    /// anything was cut off. A log that starts above `offset` starts there, empty.
    ///
    /// (Kafka's log then ends at `offset` even where that lies inside the batch that went, and as a follower can never
    /// take that batch again.)
    pub fn truncate_to(&mut self, offset: i64, pool: &mut ChunkPool) -> bool {
        if offset >= self.log_end_offset {
            // An epoch whose leader was replaced before it wrote anything may stand at the end.
            self.epochs.truncate_from_end(self.log_end_offset);
            return false;
        }
        let offset = self.batch_start(offset);
        if self.segments.front().is_none_or(|first| first.base_offset > offset) {
            self.truncate_fully_and_start_at(offset, pool);
            return true;
        }
        self.compaction = None;
        self.seal();
        if offset <= self.log_start_offset {
            // What lies below the start is not to be read, and may be gone already.
            self.segments.clear();
        }
        while self.segments.back().is_some_and(|last| last.base_offset >= offset) {
            self.segments.pop_back();
        }
        if let Some(last) = self.segments.back_mut() {
            last.truncate(offset);
            if last.is_empty() {
                self.segments.pop_back();
            }
        }
        self.chunks.release_from(if self.segments.is_empty() { i64::MIN } else { offset }, pool);
        self.log_end_offset = offset;
        self.log_start_offset = self.log_start_offset.min(offset);
        self.clean_until = self.clean_until.min(offset);
        self.epochs.truncate_from_end(offset);
        self.ended.truncate_from_end(offset);
        self.rebuild_producers(offset);
        self.count_all_memory(pool);
        true
    }

    /// Drops all; the log is empty and starts at `offset`.
    pub fn truncate_fully_and_start_at(&mut self, offset: i64, pool: &mut ChunkPool) {
        self.compaction = None;
        self.seal();
        self.segments = VecDeque::new();
        self.chunks.release_all(pool);
        self.count_all_memory(pool);
        self.epochs.clear();
        self.producers.clear();
        self.ended.clear();
        self.log_start_offset = offset;
        self.log_end_offset = offset;
        self.clean_until = offset;
    }

    /// Gives all memory back: the end of a log.
    pub fn delete(mut self, pool: &mut ChunkPool) {
        self.truncate_fully_and_start_at(0, pool);
    }

    /// Brings back the state that producers with batches at or above `end_offset` had before those.
    fn rebuild_producers(&mut self, end_offset: i64) {
        let removed = self.producers.remove_written_from(end_offset);
        if removed.is_empty() {
            return;
        }
        for segment in &self.segments {
            for found in segment.batches(&[]) {
                if removed.binary_search(&found.view.producer_id()).is_ok() {
                    let marker = Marker::read(found.bytes);
                    self.producers.update(&found.view, marker, self.config.max_producer_ids);
                }
            }
        }
    }

    fn out_of_range(&self, offset: i64) -> OffsetOutOfRange {
        let (log_start_offset, log_end_offset) = (self.log_start_offset, self.log_end_offset);
        OffsetOutOfRange { offset, log_start_offset, log_end_offset }
    }
}

/// Shares the record bytes, but for the open block (below 4 KiB), which is copied.
impl Clone for Log {
    fn clone(&self) -> Self {
        let mut segments = self.segments.clone();
        if let Some(segment) = segments.back_mut().filter(|segment| segment.is_open()) {
            segment.seal(Bytes::copy_from_slice(self.chunks.open_bytes()), true);
        }
        Log {
            config: self.config,
            log_start_offset: self.log_start_offset,
            log_end_offset: self.log_end_offset,
            clean_until: self.clean_until,
            compaction: self.compaction.clone(),
            segments,
            chunks: self.chunks.clone(),
            epochs: self.epochs.clone(),
            producers: self.producers.clone(),
            ended: self.ended.clone(),
            memory: self.memory,
        }
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
