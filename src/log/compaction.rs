//! Compaction: of each key the last record stays (Kafka's `LogCleaner`, `LogCleanerManager` and `MemoryRecords.filterTo`;
//! KIP-58 for the least lag, KIP-354 for the most, KIP-534 for the horizon of tombstones).
//!
//! Segments before the last one are read, those that are new since the last time (the *dirty* ones) for which key was
//! written last, and then written again without what is superseded. Offsets stay, so that gaps appear. A tombstone stays
//! for `delete.retention.ms` after it was first seen here; its batch notes until when. A batch that loses all its
//! records stays as an empty one if it is the last of an active producer, whose sequence it holds, or the last that was
//! looked at.
//!
//! It goes in steps, since a log may be large and others must not wait for it: [`Log::compact`] does so much work, and
//! goes on the next time. What is appended meanwhile is not touched, what retention or DeleteRecords take meanwhile is
//! gone, and what cuts the log off ends it; the segments that are done then stay so. Segments that are written into one
//! are replaced once that one is whole, so that no more than it is in memory twice.
//!
//! Records of aborted transactions are dropped, and supersede nothing. A marker stays for `delete.retention.ms` after it was
//! written, so that whoever is reading the transaction learns of its end, and while its producer goes on in that epoch.
//! (Kafka counts from when the transaction's last record was dropped.)

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::chunk::Piece;
use super::segment::{AppendedBatch, BLOCK_BYTES, Segment};
use super::{ChunkPool, Log};
use crate::base::{Instant, Now, WallTime};
use crate::wire::batch::{BatchView, Codec, HEADER_LEN};
use crate::wire::compression::{DECOMPRESSED_BYTES_MAX, decompress};
use crate::wire::records::{BatchBuilder, BatchHeader, RebuildError, RecordError, RecordIter, RecordView};

/// What compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compacted {
    /// Bytes of the segments that were read.
    pub bytes_before: u64,
    /// Bytes that are left of them.
    pub bytes_after: u64,
}

/// The most keys that are looked at in one go; what is left is for the next time. (Kafka's bound is the memory of
/// `log.cleaner.dedupe.buffer.size`.)
const MAX_KEYS: usize = 1 << 20;

/// Written records are gathered in pieces of this size, bytes: so much is given back at a time.
const PIECE_BYTES: usize = 1 << 20;

/// What a key costs to remember or to forget, in bytes that could be read meanwhile.
const KEY_COST_BYTES: usize = 64;
/// How many bytes' memory is given back while one byte is read.
const RELEASED_PER_BYTE: u64 = 16;

/// The segments that could be compacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cleanable {
    /// The first dirty segment.
    first_dirty: usize,
    /// Behind the last segment that may be touched.
    end: usize,
    clean_bytes: u64,
    dirty_bytes: u64,
}

impl Log {
    /// When to call [`Log::compact`] next: at once if there is enough to do, else when a segment becomes old enough. None
    /// if nothing will be to do before something is appended; ask again then. Nothing at or above
    /// `last_stable_offset` is touched.
    pub fn next_compaction(&self, now: Now, last_stable_offset: i64) -> Option<Instant> {
        let config = *self.config();
        if !config.compact {
            return None;
        }
        if self.compaction.is_some() || self.is_filthy(now.wall, last_stable_offset) {
            return Some(now.instant);
        }
        let first_dirty = self.first_dirty_segment();
        let closed = self.segments.len().saturating_sub(1);
        let dirty = self.segments.get(first_dirty).filter(|_| first_dirty < closed)?;
        let too_late = match config.max_compaction_lag_ms {
            i64::MAX => None,
            lag_ms => dirty.first_timestamp_ms().checked_add(lag_ms)?.checked_add(1),
        };
        let waiting = (first_dirty..closed).filter_map(|at| self.segments.get(at));
        let old_enough = waiting
            .map(|segment| segment.largest_timestamp_ms().saturating_add(config.min_compaction_lag_ms))
            .find(|&due| due > now.wall.as_millis() && config.min_compaction_lag_ms > 0);
        let due = [too_late, old_enough].into_iter().flatten().min()?;
        let left_ms = u64::try_from(due.saturating_sub(now.wall.as_millis())).unwrap_or(0);
        Some(now.instant + Duration::from_millis(left_ms.max(1)))
    }

    /// Compacts what can be, if there is enough to do, or goes on where it stopped. `work` is how many bytes may be read,
    /// and is lessened by what was (a batch is read as a whole, so that somewhat more may be). None if it isn't done yet.
    ///
    /// # Errors
    /// If a batch can't be read or written again. A batch that is new since the last time is read before anything is
    /// changed; what was replaced already stays so.
    pub fn compact(
        &mut self,
        now: WallTime,
        last_stable_offset: i64,
        work: &mut usize,
        pool: &mut ChunkPool,
    ) -> Result<Option<Compacted>, RebuildError> {
        let unfinished = self.compaction.take().filter(|_| self.config().compact);
        let begun = unfinished.or_else(|| self.begin_compaction(now, last_stable_offset));
        let Some(mut compaction) = begun else { return Ok(Some(Compacted::default())) };
        while *work > 0 {
            match compaction.phase {
                Phase::Reading => self.read_keys(&mut compaction, work)?,
                Phase::Writing { from } => match self.begin_group(&compaction, from) {
                    Some(group) => compaction.phase = Phase::WritingGroup(Box::new(group)),
                    None => {
                        self.clean_until = compaction.end_offset;
                        compaction.phase = Phase::Forgetting;
                    }
                },
                Phase::WritingGroup(_) => self.write_group(&mut compaction, work, pool)?,
                Phase::Forgetting if compaction.keys.forget_some(work) => {}
                Phase::Forgetting => return Ok(Some(compaction.compacted)),
            }
        }
        self.compaction = Some(compaction);
        Ok(None)
    }

    fn begin_compaction(&self, now: WallTime, last_stable_offset: i64) -> Option<Box<Compaction>> {
        if !self.config().compact || !self.is_filthy(now, last_stable_offset) {
            return None;
        }
        let Cleanable { first_dirty, end, .. } = self.cleanable(now, last_stable_offset);
        Some(Box::new(Compaction {
            phase: Phase::Reading,
            cursor: self.segments.get(first_dirty)?.base_offset.max(self.log_start_offset),
            clean_from: self.clean_until.max(self.log_start_offset),
            end_offset: self.segments.get(end)?.base_offset,
            now_ms: now.as_millis(),
            delete_retention_ms: self.config().delete_retention_ms,
            keys: LastOffsets::default(),
            compacted: Compacted::default(),
        }))
    }

    /// Whether there is enough to do (`LogCleanerManager.grabFilthiestCompactedLog`).
    fn is_filthy(&self, now: WallTime, last_stable_offset: i64) -> bool {
        let Cleanable { first_dirty, clean_bytes, dirty_bytes, .. } = self.cleanable(now, last_stable_offset);
        if dirty_bytes == 0 {
            return false;
        }
        let config = self.config();
        let oldest_ms = self.segments.get(first_dirty).map_or(-1, Segment::first_timestamp_ms);
        let is_overdue =
            oldest_ms > 0 && now.as_millis().saturating_sub(oldest_ms) > config.max_compaction_lag_ms;
        let dirty_ppm = dirty_bytes.saturating_mul(1_000_000) / (clean_bytes + dirty_bytes).max(1);
        is_overdue || dirty_ppm > u64::from(config.min_cleanable_dirty_ppm)
    }

    fn first_dirty_segment(&self) -> usize {
        self.segments.partition_point(|segment| segment.base_offset < self.clean_until)
    }

    fn cleanable(&self, now: WallTime, last_stable_offset: i64) -> Cleanable {
        let first_dirty = self.first_dirty_segment();
        let closed = self.segments.len().saturating_sub(1);
        let lag_ms = self.config().min_compaction_lag_ms;
        let may_go = |at: usize| {
            let end = self.segments.get(at + 1).map_or(i64::MAX, |next| next.base_offset);
            let largest_ms = self.segments.get(at).map_or(-1, Segment::largest_timestamp_ms);
            let is_old = lag_ms <= 0 || largest_ms <= now.as_millis().saturating_sub(lag_ms);
            end <= last_stable_offset && is_old
        };
        let end = (first_dirty..closed).find(|&at| !may_go(at)).unwrap_or(closed.max(first_dirty));
        let bytes = |from: usize, to: usize| -> u64 {
            self.segments.range(from..to.max(from)).map(|segment| u64::from(segment.size)).sum()
        };
        let clean_bytes = bytes(0, first_dirty.min(self.segments.len()));
        let dirty_bytes = if end > first_dirty { bytes(first_dirty, end) } else { 0 };
        Cleanable { first_dirty, end, clean_bytes, dirty_bytes }
    }

    /// Notes which offset was written last for each key, on from the cursor.
    fn read_keys(&self, compaction: &mut Compaction, work: &mut usize) -> Result<(), RecordError> {
        let Compaction { cursor, end_offset, clean_from, keys, .. } = compaction;
        let first = self.segments.partition_point(|segment| segment.base_offset <= *cursor).saturating_sub(1);
        let dirty = self.segments.range(first..).take_while(|segment| segment.base_offset < *end_offset);
        for (segment, at) in dirty.zip(first..) {
            let batches =
                segment.locate(*cursor, &[]).into_iter().flat_map(|from| segment.batches_from(from, &[]));
            for batch in batches {
                if *work == 0 {
                    return Ok(());
                }
                if batch.view.is_control() || self.is_aborted(&batch.view) {
                    *work = work.saturating_sub(HEADER_LEN);
                } else {
                    *work = work.saturating_sub(read_keys_of(&batch.view, batch.bytes, *clean_from, keys)?);
                }
                *cursor = batch.view.last_offset().saturating_add(1);
            }
            if let Some(next) = self.segments.get(at + 1).filter(|_| keys.len() >= MAX_KEYS) {
                *end_offset = next.base_offset;
                break;
            }
        }
        compaction.phase = Phase::Writing { from: i64::MIN };
        Ok(())
    }

    /// The end of the segments from `at` on that are written into one (`Cleaner.groupSegmentsBySize`).
    fn group(&self, at: usize, end: usize) -> usize {
        let mut size = 0;
        let base_offset = self.segments.get(at).map_or(0, |segment| segment.base_offset);
        let fits = |index: usize, size: u64| {
            let next = self.segments.get(index + 1).map_or(self.log_end_offset, |next| next.base_offset);
            size <= u64::from(self.config().segment_bytes) && next - 1 - base_offset <= i64::from(i32::MAX)
        };
        for index in at..end {
            size += self.segments.get(index).map_or(0, |segment| u64::from(segment.size));
            if index > at && !fits(index, size) {
                return index;
            }
        }
        end
    }

    /// The segments that are to be written into one, of those that begin at or above `from`.
    fn begin_group(&self, compaction: &Compaction, from: i64) -> Option<Group> {
        let index_of = |offset: i64| self.segments.partition_point(|segment| segment.base_offset < offset);
        let (at, end) = (index_of(from), index_of(compaction.end_offset));
        let first = self.segments.get(at).filter(|_| at < end)?;
        let group = self.group(at, end);
        Some(Group {
            base_offset: first.base_offset,
            end_offset: self.segments.get(group)?.base_offset,
            cursor: first.base_offset,
            writer: Writer::new(first.base_offset, self.segments.range(at..group)),
        })
    }

    /// Writes more of a group without what is superseded; once it is whole, it is put in the place of its segments.
    fn write_group(
        &mut self,
        compaction: &mut Compaction,
        work: &mut usize,
        pool: &mut ChunkPool,
    ) -> Result<(), RebuildError> {
        let phase = std::mem::replace(&mut compaction.phase, Phase::Forgetting);
        let Phase::WritingGroup(mut group) = phase else { return Ok(()) };
        if !self.write_some(&mut group, compaction, work)? {
            compaction.phase = Phase::WritingGroup(group);
            return Ok(());
        }
        compaction.phase = Phase::Writing { from: group.end_offset };
        group.writer.seal();
        let released_bytes = self.replace(*group, pool, &mut compaction.compacted);
        *work =
            work.saturating_sub(usize::try_from(released_bytes / RELEASED_PER_BYTE).unwrap_or(usize::MAX));
        Ok(())
    }

    /// Returns whether the group is whole.
    fn write_some(
        &self,
        group: &mut Group,
        compaction: &Compaction,
        work: &mut usize,
    ) -> Result<bool, RebuildError> {
        let Group { cursor, end_offset, writer, .. } = group;
        let first = self.segments.partition_point(|segment| segment.base_offset <= *cursor).saturating_sub(1);
        let segments = self.segments.range(first..).take_while(|segment| segment.base_offset < *end_offset);
        let batches = segments.flat_map(|segment| {
            let from = segment.locate(*cursor, &[]);
            from.into_iter().flat_map(|from| segment.batches_from(from, &[]))
        });
        let mut behind = *cursor;
        for batch in batches {
            if *work == 0 {
                *cursor = behind;
                return Ok(false);
            }
            let producer = self.producers.producer(batch.view.producer_id());
            let is_last_of_producer = producer.is_some_and(|state| match state.batches().last() {
                Some(last) => last.last_offset == batch.view.last_offset(),
                None => false,
            });
            behind = batch.view.last_offset().saturating_add(1);
            if batch.view.is_control() {
                let is_needed = producer.is_some_and(|state| state.epoch == batch.view.producer_epoch());
                if is_needed || !compaction.is_expired_marker(&batch.view) {
                    writer.write(batch.bytes);
                } else {
                    writer.written.dropped_markers.push(batch.view.last_offset());
                }
                *work = work.saturating_sub(batch.bytes.len());
                continue;
            }
            let is_aborted = self.is_aborted(&batch.view);
            let (kept, read_bytes) =
                compaction.keep(&batch.view, batch.bytes, is_last_of_producer, is_aborted)?;
            if let Some(kept) = kept {
                writer.write(&kept);
            }
            *work = work.saturating_sub(read_bytes);
        }
        Ok(true)
    }

    /// Whether a batch below the last stable offset belongs to an aborted transaction.
    fn is_aborted(&self, view: &BatchView<'_>) -> bool {
        view.is_transactional() && {
            let overlapping = self.ended.aborted(view.base_offset(), view.last_offset().saturating_add(1));
            overlapping.iter().any(|aborted| aborted.producer_id == view.producer_id())
        }
    }

    /// Puts a written group in the place of its segments, as far as they are still there. Returns their bytes.
    fn replace(&mut self, group: Group, pool: &mut ChunkPool, compacted: &mut Compacted) -> u64 {
        let Group { base_offset, end_offset, writer: Writer { written, .. }, .. } = group;
        let index_of = |offset: i64| self.segments.partition_point(|segment| segment.base_offset < offset);
        let (from, to) = (index_of(base_offset), index_of(end_offset));
        if from == to {
            return 0;
        }
        let Written { segment, pieces, dropped_markers } = written;
        self.ended.forget(&dropped_markers);
        compacted.bytes_after += u64::from(segment.size);
        let released_bytes = self.segments.drain(from..to).map(|segment| u64::from(segment.size)).sum();
        compacted.bytes_before += released_bytes;
        self.segments.insert(from, segment);
        self.chunks.replace(base_offset, end_offset, pieces, pool);
        self.trim_below_log_start(pool);
        released_bytes
    }
}

/// How far a compaction has come that goes on.
#[derive(Clone, Debug)]
pub(super) struct Compaction {
    phase: Phase,
    /// The next offset whose key is to be read.
    cursor: i64,
    /// The first dirty offset.
    clean_from: i64,
    /// Behind the last offset that is looked at.
    end_offset: i64,
    /// When it began.
    now_ms: i64,
    delete_retention_ms: i64,
    /// The last offset of each key in the dirty segments.
    keys: LastOffsets,
    compacted: Compacted,
}

#[derive(Clone, Debug)]
enum Phase {
    /// The keys of the dirty segments are read.
    Reading,
    /// The segments that begin at or above this offset are still to be written.
    Writing { from: i64 },
    /// These are being written.
    WritingGroup(Box<Group>),
    /// All is written; the memory of the keys is given back.
    Forgetting,
}

/// Segments that are being written into one.
#[derive(Clone, Debug)]
struct Group {
    base_offset: i64,
    /// Where the segment behind them begins.
    end_offset: i64,
    /// The next offset to be written.
    cursor: i64,
    writer: Writer,
}

/// The last offset of each key. In many small maps, because a large one takes long to grow and to be given back.
#[derive(Clone, Debug, Default)]
struct LastOffsets {
    parts: Vec<FxHashMap<Box<[u8]>, i64>>,
    len: usize,
}

impl LastOffsets {
    const PARTS: usize = 256;

    fn len(&self) -> usize {
        self.len
    }

    fn part_of(key: &[u8]) -> usize {
        // Bits that the maps themselves don't use to find a place.
        (FxBuildHasher.hash_one(key) >> 32) as usize % Self::PARTS
    }

    fn get(&self, key: &[u8]) -> Option<i64> {
        self.parts.get(Self::part_of(key))?.get(key).copied()
    }

    fn set(&mut self, key: &[u8], offset: i64) {
        if self.parts.is_empty() {
            self.parts.resize_with(Self::PARTS, FxHashMap::default);
        }
        let part = &mut self.parts[Self::part_of(key)];
        match part.get_mut(key) {
            Some(last) => *last = offset,
            None => {
                part.insert(key.into(), offset);
                self.len += 1;
            }
        }
    }

    /// Gives back the memory of some keys. Returns whether there were any.
    fn forget_some(&mut self, work: &mut usize) -> bool {
        let part = self.parts.pop();
        *work = work.saturating_sub(part.as_ref().map_or(0, |part| part.len() * KEY_COST_BYTES));
        part.is_some()
    }
}

/// Notes the keys of one batch from `clean_from` on. Returns what it cost, in bytes.
fn read_keys_of(
    view: &BatchView<'_>,
    bytes: &[u8],
    clean_from: i64,
    keys: &mut LastOffsets,
) -> Result<usize, RecordError> {
    let body = body_of(view, bytes)?;
    let before = keys.len();
    for record in RecordIter::new(&body, view.count()) {
        let record = record?;
        let offset = view.base_offset() + i64::from(record.offset_delta);
        if let Some(key) = record.key.filter(|_| offset >= clean_from) {
            keys.set(key, offset);
        }
    }
    Ok(HEADER_LEN + body.len() + (keys.len() - before) * KEY_COST_BYTES)
}

/// What is left of a batch.
enum Kept<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// Some of its records, or none.
    Written(Bytes),
}

impl std::ops::Deref for Kept<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Kept::Whole(bytes) => bytes,
            Kept::Written(bytes) => bytes,
        }
    }
}

impl Compaction {
    /// What is left of a batch, none if nothing is; and how many bytes were read for it.
    fn keep<'a>(
        &self,
        view: &BatchView<'_>,
        bytes: &'a [u8],
        is_last_of_producer: bool,
        is_aborted: bool,
    ) -> Result<(Option<Kept<'a>>, usize), RebuildError> {
        let body = body_of(view, bytes)?;
        let read_bytes = HEADER_LEN + body.len();
        let mut kept = Vec::new();
        let mut has_tombstones = false;
        for record in RecordIter::new(&body, view.count()) {
            let record = record.map_err(RebuildError::Record)?;
            if !is_aborted && self.is_kept(view, &record) {
                has_tombstones |= record.value.is_none();
                kept.push(record);
            }
        }
        if kept.is_empty() {
            let holds_something = is_last_of_producer || view.last_offset() + 1 == self.end_offset;
            let empty = holds_something.then(|| empty(view)).transpose()?;
            return Ok((empty.map(Kept::Written), read_bytes));
        }
        let is_first_seen = has_tombstones && view.delete_horizon_ms().is_none();
        if kept.len() == usize::try_from(view.count()).unwrap_or(0) && !is_first_seen {
            return Ok((Some(Kept::Whole(bytes)), read_bytes));
        }
        let horizon = match is_first_seen {
            true => Some(self.now_ms.saturating_add(self.delete_retention_ms)),
            false => view.delete_horizon_ms(),
        };
        Ok((Some(Kept::Written(write_again(view, &kept, horizon)?)), read_bytes))
    }

    fn is_expired_marker(&self, view: &BatchView<'_>) -> bool {
        view.max_timestamp().saturating_add(self.delete_retention_ms) <= self.now_ms
    }

    fn is_kept(&self, view: &BatchView<'_>, record: &RecordView<'_>) -> bool {
        let Some(key) = record.key else { return false };
        let offset = view.base_offset() + i64::from(record.offset_delta);
        let last = self.keys.get(key);
        let is_superseded = last.is_some_and(|last| offset < last);
        let is_expired = view.delete_horizon_ms().is_some_and(|horizon| self.now_ms >= horizon);
        debug_assert!(last.is_some() || offset < self.clean_from);
        !is_superseded && (record.value.is_some() || !is_expired)
    }
}

fn body_of<'a>(view: &BatchView<'_>, bytes: &'a [u8]) -> Result<Cow<'a, [u8]>, RecordError> {
    let body = bytes.get(HEADER_LEN..).unwrap_or_default();
    match view.codec().unwrap_or(Codec::None) {
        Codec::None => Ok(Cow::Borrowed(body)),
        codec => {
            let body = decompress(codec, &Bytes::copy_from_slice(body), DECOMPRESSED_BYTES_MAX)?;
            Ok(Cow::Owned(body.into()))
        }
    }
}

fn header_of(view: &BatchView<'_>, codec: Codec) -> BatchHeader {
    BatchHeader {
        base_offset: view.base_offset(),
        leader_epoch: view.leader_epoch(),
        codec,
        append_time_ms: view.is_log_append_time().then(|| view.max_timestamp()),
        is_transactional: view.is_transactional(),
        is_control: view.is_control(),
        producer_id: view.producer_id(),
        producer_epoch: view.producer_epoch(),
        base_sequence: view.base_sequence(),
    }
}

/// A batch with its numbers and without records (`DefaultRecordBatch.writeEmptyHeader`).
fn empty(view: &BatchView<'_>) -> Result<Bytes, RebuildError> {
    let builder = BatchBuilder::new(header_of(view, Codec::None));
    Ok(builder.timestamps(view.max_timestamp()).ends_at(view.last_offset_delta()).build()?)
}

fn write_again(
    view: &BatchView<'_>,
    records: &[RecordView<'_>],
    horizon: Option<i64>,
) -> Result<Bytes, RebuildError> {
    let mut builder = BatchBuilder::new(header_of(view, view.codec().unwrap_or(Codec::None)));
    if let Some(horizon) = horizon {
        builder = builder.delete_horizon(horizon);
    }
    for record in records {
        let timestamp_ms = view.base_timestamp().wrapping_add(record.timestamp_delta);
        builder.push_at(record.offset_delta, timestamp_ms, record.key, record.value, record.headers.iter());
    }
    Ok(builder.ends_at(view.last_offset_delta()).build()?)
}

/// A segment that was written, and the memory that its records are in.
#[derive(Clone, Debug)]
struct Written {
    segment: Segment,
    pieces: Vec<Piece>,
    /// Offsets of the markers that were left out.
    dropped_markers: Vec<i64>,
}

#[derive(Clone, Debug)]
struct Writer {
    written: Written,
    piece: Vec<u8>,
    batches: Vec<AppendedBatch>,
    modified: WallTime,
}

impl Writer {
    fn new<'a>(base_offset: i64, originals: impl Iterator<Item = &'a Segment>) -> Self {
        let (mut created, mut modified) = (None, WallTime::default());
        for original in originals {
            created.get_or_insert(original.created());
            modified = original.modified();
        }
        let segment = Segment::new(base_offset, created.unwrap_or(modified));
        Writer {
            written: Written { segment, pieces: Vec::new(), dropped_markers: Vec::new() },
            piece: Vec::new(),
            batches: Vec::new(),
            modified,
        }
    }

    fn write(&mut self, batch: &[u8]) {
        let Some(view) = BatchView::new(batch) else { return };
        if self.piece.len() + batch.len() > PIECE_BYTES {
            self.seal();
        }
        self.piece.extend_from_slice(batch);
        self.batches.push(AppendedBatch::of(&view, batch.len()));
    }

    /// Ends the piece: its batches go into the segment, as blocks that share the piece's memory.
    fn seal(&mut self) {
        let (Some(first), Some(last)) = (self.batches.first(), self.batches.last()) else { return };
        let (first_offset, end_offset) = (first.base_offset, last.last_offset.saturating_add(1));
        let bytes = Bytes::from(std::mem::take(&mut self.piece).into_boxed_slice());
        self.written.pieces.push(Piece { bytes: bytes.len(), first_offset, end_offset });
        let (mut block_start, mut end) = (0, 0);
        for batch in self.batches.drain(..) {
            end += batch.size;
            if self.written.segment.append_open(&batch, self.modified) || end - block_start >= BLOCK_BYTES {
                self.written.segment.seal(bytes.slice(block_start..end), false);
                block_start = end;
            }
        }
        if self.written.segment.is_open() {
            self.written.segment.seal(bytes.slice(block_start..end), false);
        }
    }
}

#[cfg(test)]
mod tests;
