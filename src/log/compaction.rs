//! Compaction: of each key the last record stays (Kafka's `LogCleaner`, `LogCleanerManager` and `MemoryRecords.filterTo`;
//! KIP-58 for the least lag, KIP-354 for the most, KIP-534 for the horizon of tombstones).
//!
//! Segments before the last one are read, those that are new since the last time (the *dirty* ones) for which key was
//! written last, and then written again without what is superseded. Offsets stay, so that gaps appear. A tombstone stays
//! for `delete.retention.ms` after it was first seen here; its batch notes until when. A batch that loses all its
//! records stays as an empty one if it is the last of an active producer, whose sequence it holds, or the last that was
//! looked at.
//!
//! Not done: transactions are taken as committed, since none is aborted here yet.

use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashMap;

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
        if self.is_filthy(now.wall, last_stable_offset) {
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

    /// Compacts what can be, if there is enough to do.
    ///
    /// # Errors
    /// If a batch can't be read or written again; nothing has changed then.
    pub fn compact(
        &mut self,
        now: WallTime,
        last_stable_offset: i64,
        pool: &mut ChunkPool,
    ) -> Result<Compacted, RebuildError> {
        if !self.config().compact || !self.is_filthy(now, last_stable_offset) {
            return Ok(Compacted::default());
        }
        let cleanable = self.cleanable(now, last_stable_offset);
        let (keys, end) = self.last_offsets(cleanable)?;
        let Some(end_offset) = self.segments.get(end).map(|next| next.base_offset) else {
            return Ok(Compacted::default());
        };
        let filter = Filter {
            keys,
            clean_from: self.clean_until.max(self.log_start_offset),
            end_offset,
            now_ms: now.as_millis(),
            delete_retention_ms: self.config().delete_retention_ms,
        };
        let mut written = Vec::new();
        let mut at = 0;
        while at < end {
            let group = self.group(at, end);
            written.push(self.write_group(at, group, &filter)?);
            at = group;
        }
        Ok(self.replace(end, written, end_offset, pool))
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

    /// Which offset was written last for each key, and the segment before which that is known.
    fn last_offsets(&self, cleanable: Cleanable) -> Result<(FxHashMap<Vec<u8>, i64>, usize), RecordError> {
        let mut keys: FxHashMap<Vec<u8>, i64> = FxHashMap::default();
        let Cleanable { first_dirty, end, .. } = cleanable;
        for at in first_dirty..end {
            if at > first_dirty && keys.len() >= MAX_KEYS {
                return Ok((keys, at));
            }
            let batches = self.segments.get(at).into_iter().flat_map(|segment| segment.batches(&[]));
            for batch in batches.filter(|batch| !batch.view.is_control()) {
                let body = body_of(&batch.view, batch.bytes)?;
                for record in RecordIter::new(&body, batch.view.count()) {
                    let record = record?;
                    let offset = batch.view.base_offset() + i64::from(record.offset_delta);
                    let Some(key) = record.key.filter(|_| offset >= self.log_start_offset) else { continue };
                    match keys.get_mut(key) {
                        Some(last) => *last = offset,
                        None => drop(keys.insert(key.to_vec(), offset)),
                    }
                }
            }
        }
        Ok((keys, end))
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

    /// The segments `from..to` as one, without what is superseded.
    fn write_group(&self, from: usize, to: usize, filter: &Filter) -> Result<Written, RebuildError> {
        let segments = || self.segments.range(from..to);
        let base_offset = segments().next().map_or(0, |first| first.base_offset);
        let mut writer = Writer::new(base_offset, segments());
        for batch in segments().flat_map(|segment| segment.batches(&[])) {
            let producer = self.producers.producer(batch.view.producer_id());
            let is_last_of_producer = producer.is_some_and(|state| match state.batches().last() {
                Some(last) => last.last_offset == batch.view.last_offset(),
                None => batch.view.is_control() && state.epoch == batch.view.producer_epoch(),
            });
            if let Some(kept) = filter.keep(&batch.view, batch.bytes, is_last_of_producer)? {
                writer.write(&kept);
            }
        }
        writer.seal();
        Ok(writer.written)
    }

    /// Puts the written segments in the place of the first `count` ones.
    fn replace(
        &mut self,
        count: usize,
        written: Vec<Written>,
        end_offset: i64,
        pool: &mut ChunkPool,
    ) -> Compacted {
        let mut compacted = Compacted::default();
        for segment in self.segments.drain(..count) {
            compacted.bytes_before += u64::from(segment.size);
        }
        self.chunks.release_below(end_offset, pool);
        for Written { segment, pieces } in written.into_iter().rev() {
            compacted.bytes_after += u64::from(segment.size);
            for piece in pieces.into_iter().rev() {
                self.chunks.adopt_front(piece.bytes, piece.first_offset, piece.end_offset, pool);
            }
            self.segments.push_front(segment);
        }
        self.clean_until = end_offset;
        compacted
    }
}

/// What decides about a record.
struct Filter {
    /// The last offset of each key in the dirty segments.
    keys: FxHashMap<Vec<u8>, i64>,
    /// The first dirty offset.
    clean_from: i64,
    /// Behind the last offset that is looked at.
    end_offset: i64,
    now_ms: i64,
    delete_retention_ms: i64,
}

impl Filter {
    /// What is left of a batch; none if nothing is.
    fn keep(
        &self,
        view: &BatchView<'_>,
        bytes: &[u8],
        is_last_of_producer: bool,
    ) -> Result<Option<Bytes>, RebuildError> {
        if view.is_control() {
            return Ok(Some(Bytes::copy_from_slice(bytes)));
        }
        let body = body_of(view, bytes)?;
        let mut kept = Vec::new();
        let mut has_tombstones = false;
        for record in RecordIter::new(&body, view.count()) {
            let record = record.map_err(RebuildError::Record)?;
            if self.is_kept(view, &record) {
                has_tombstones |= record.value.is_none();
                kept.push(record);
            }
        }
        if kept.is_empty() {
            let holds_something = is_last_of_producer || view.last_offset() + 1 == self.end_offset;
            return holds_something.then(|| empty(view)).transpose();
        }
        let is_first_seen = has_tombstones && view.delete_horizon_ms().is_none();
        if kept.len() == usize::try_from(view.count()).unwrap_or(0) && !is_first_seen {
            return Ok(Some(Bytes::copy_from_slice(bytes)));
        }
        let horizon = match is_first_seen {
            true => Some(self.now_ms.saturating_add(self.delete_retention_ms)),
            false => view.delete_horizon_ms(),
        };
        write_again(view, &kept, horizon).map(Some)
    }

    fn is_kept(&self, view: &BatchView<'_>, record: &RecordView<'_>) -> bool {
        let Some(key) = record.key else { return false };
        let offset = view.base_offset() + i64::from(record.offset_delta);
        let is_superseded = self.keys.get(key).is_some_and(|&last| offset < last);
        let is_expired = view.delete_horizon_ms().is_some_and(|horizon| self.now_ms >= horizon);
        debug_assert!(is_superseded || offset < self.clean_from || self.keys.contains_key(key));
        !is_superseded && (record.value.is_some() || !is_expired)
    }
}

fn body_of(view: &BatchView<'_>, bytes: &[u8]) -> Result<Bytes, RecordError> {
    let body = Bytes::copy_from_slice(bytes.get(HEADER_LEN..).unwrap_or_default());
    let codec = view.codec().unwrap_or(Codec::None);
    Ok(decompress(codec, &body, DECOMPRESSED_BYTES_MAX)?)
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
struct Written {
    segment: Segment,
    pieces: Vec<Piece>,
}

/// Memory for records, and their offsets.
struct Piece {
    bytes: usize,
    first_offset: i64,
    /// Exclusive.
    end_offset: i64,
}

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
            written: Written { segment, pieces: Vec::new() },
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
                self.written.segment.seal(bytes.slice(block_start..end));
                block_start = end;
            }
        }
        if self.written.segment.is_open() {
            self.written.segment.seal(bytes.slice(block_start..end));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{AppendOrigin, LeaderAppend, LogConfig, ReadLimits};

    /// A log of small segments, of which every batch fills one.
    struct Bench {
        log: Log,
        pool: ChunkPool,
        now_ms: u64,
    }

    type Entry = (i64, String, Option<String>);

    impl Bench {
        fn new() -> Self {
            Self::with(|_| {})
        }

        fn with(change: impl Fn(&mut LogConfig)) -> Self {
            let mut config = LogConfig {
                segment_bytes: 160,
                compact: true,
                delete: false,
                delete_retention_ms: 1_000,
                ..LogConfig::default()
            };
            change(&mut config);
            Bench { log: Log::new(config), pool: ChunkPool::new(1 << 20), now_ms: 1_000_000 }
        }

        fn now(&self) -> Now {
            Now::at_millis(self.now_ms)
        }

        fn append(&mut self, records: &[(&str, Option<&str>)]) {
            self.append_as(BatchHeader::default(), records);
        }

        fn append_as(&mut self, header: BatchHeader, records: &[(&str, Option<&str>)]) {
            let mut builder = BatchBuilder::new(header);
            for (key, value) in records {
                let value = value.map(str::as_bytes);
                let padding = [(&b"padding"[..], Some(&[b'x'; 60][..]))];
                builder.push(self.now().wall.as_millis(), Some(key.as_bytes()), value, padding);
            }
            let append = LeaderAppend {
                now: self.now(),
                leader_epoch: 3,
                append_time_ms: None,
                origin: AppendOrigin::Client,
            };
            self.log.append(&mut self.pool, &builder.build().unwrap(), &append).unwrap();
        }

        fn compact(&mut self) -> Compacted {
            let end = self.log.log_end_offset();
            self.log.compact(self.now().wall, end, &mut self.pool).unwrap()
        }

        fn entries(&self) -> Vec<Entry> {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let mut entries = Vec::new();
            for batch in self.log.batches() {
                assert_eq!(batch.view.crc(), crc32c::crc32c(&batch.bytes[21..]));
                let body = body_of(&batch.view, batch.bytes).unwrap();
                for record in RecordIter::new(&body, batch.view.count()) {
                    let record = record.unwrap();
                    let offset = batch.view.base_offset() + i64::from(record.offset_delta);
                    entries.push((offset, text(record.key.unwrap()), record.value.map(text)));
                }
            }
            entries
        }

        fn offsets(&self) -> Vec<i64> {
            self.entries().into_iter().map(|(offset, ..)| offset).collect()
        }
    }

    #[test]
    fn the_last_record_of_each_key_stays_at_its_offset() {
        let mut bench = Bench::new();
        for (key, value) in [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("a", "3"), ("b", "2")] {
            bench.append(&[(key, Some(value))]);
        }
        let compacted = bench.compact();
        assert!(compacted.bytes_after < compacted.bytes_before, "{compacted:?}");
        // The last segment is not looked at, so that the first b stays.
        assert_eq!(bench.offsets(), [1, 3, 4, 5]);
        assert_eq!((bench.log.log_start_offset(), bench.log.log_end_offset()), (0, 6));
        assert_eq!(bench.log.size_bytes(), bench.log.batches().map(|b| b.bytes.len() as u64).sum::<u64>());
        assert_eq!(bench.compact(), Compacted::default(), "nothing is left to do");
    }

    #[test]
    fn superseded_records_hold_no_memory() {
        let mut bench = Bench::new();
        // Four times the budget.
        for round in 0..100 {
            for key in ["a", "b", "c"] {
                (0..100).for_each(|_| bench.append(&[(key, Some("1"))]));
            }
            bench.compact();
            assert!(bench.entries().len() <= 4, "round {round}");
        }
        bench.log.truncate_fully_and_start_at(0, &mut bench.pool);
        assert_eq!(bench.pool.bytes_held(), 0, "each byte is counted once");
    }

    #[test]
    fn reads_skip_the_gaps() {
        let mut bench = Bench::new();
        (0..20).for_each(|_| bench.append(&[("a", Some("1"))]));
        bench.append(&[("b", Some("1"))]);
        bench.compact();
        assert_eq!(bench.offsets(), [19, 20]);
        let limits = ReadLimits { upper_bound: 21, max_bytes: 1 << 20, min_one_batch: true };
        for offset in 0..20 {
            let read = bench.log.read(offset, &limits).unwrap();
            assert_eq!(BatchView::new(&read.parts[0]).unwrap().last_offset(), 19, "from {offset}");
        }
        bench.append(&[("a", Some("2"))]);
        bench.append(&[("c", Some("2"))]);
        bench.now_ms += 1;
        assert!(bench.log.advance_log_start(20, &mut bench.pool).unwrap());
        assert_eq!(bench.log.read(20, &limits).unwrap().start.offset, 20);
    }

    #[test]
    fn a_tombstone_stays_until_its_horizon() {
        let mut bench = Bench::with(|config| {
            config.min_cleanable_dirty_ppm = 0;
            config.segment_bytes = 220;
        });
        bench.append(&[("a", Some("1"))]);
        bench.append(&[("a", None), ("b", Some("1"))]);
        bench.append(&[("z", Some("1"))]);
        bench.compact();
        assert_eq!(bench.offsets(), [1, 2, 3]);
        let horizon = bench.log.batches().next().unwrap().view.delete_horizon_ms();
        assert_eq!(horizon, Some(bench.now().wall.as_millis() + 1_000));
        let written_ms = bench.now().wall.as_millis();
        let largest = bench.log.batches().next().unwrap().view.max_timestamp();
        assert_eq!(largest, written_ms, "timestamps stay what they were");

        bench.now_ms += 999;
        bench.append(&[("z", Some("2"))]);
        bench.compact();
        assert_eq!(bench.offsets(), [1, 2, 3, 4]);
        bench.now_ms += 1;
        bench.append(&[("y", Some("2"))]);
        bench.compact();
        assert_eq!(bench.offsets(), [2, 4, 5]);
        assert_eq!(bench.log.batches().next().unwrap().view.max_timestamp(), written_ms);
    }

    #[test]
    fn compressed_batches_are_written_again_with_their_codec() {
        let mut bench = Bench::with(|config| config.segment_bytes = 260);
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let header = BatchHeader { codec, ..BatchHeader::default() };
            let own = format!("{codec:?}");
            bench.append_as(header, &[("shared", Some("1")), (&own, Some("1"))]);
        }
        bench.append(&[("z", Some("1")), ("y", Some("1"))]);
        bench.append(&[("z", Some("1")), ("y", Some("1"))]);
        bench.now_ms += 1;
        bench.compact();
        let codecs: Vec<_> = bench.log.batches().map(|batch| batch.view.codec().unwrap()).collect();
        assert_eq!(codecs[..4], [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd]);
        assert_eq!(bench.offsets()[..5], [1, 3, 5, 6, 7]);
        let first = bench.log.batches().next().unwrap().view;
        assert_eq!((first.base_offset(), first.last_offset(), first.leader_epoch()), (0, 1, 3));
    }

    #[test]
    fn a_batch_that_holds_a_sequence_stays_without_records() {
        let mut bench = Bench::new();
        let header = |base_sequence| BatchHeader {
            producer_id: 9,
            producer_epoch: 0,
            base_sequence,
            ..BatchHeader::default()
        };
        bench.append_as(header(0), &[("a", Some("1"))]);
        bench.append_as(header(1), &[("a", Some("2"))]);
        bench.append(&[("a", Some("3"))]);
        bench.append(&[("b", Some("1"))]);
        bench.compact();
        assert_eq!(bench.offsets(), [2, 3]);
        let empty = bench.log.batches().next().unwrap().view;
        assert_eq!((empty.count(), empty.base_offset(), empty.last_offset()), (0, 1, 1));
        assert_eq!((empty.producer_id(), empty.base_sequence()), (9, 1));
        // Once it has written something newer, it is not needed any more.
        bench.append_as(header(2), &[("c", Some("1"))]);
        bench.append(&[("c", Some("1"))]);
        bench.append(&[("c", Some("2"))]);
        bench.append(&[("c", Some("3"))]);
        bench.compact();
        let counts: Vec<_> =
            bench.log.batches().map(|batch| (batch.view.base_offset(), batch.view.count())).collect();
        assert_eq!(counts, [(2, 1), (3, 1), (4, 0), (6, 1), (7, 1)]);
    }

    #[test]
    fn what_is_dirty_enough_or_overdue_is_compacted() {
        let mut bench = Bench::new();
        assert_eq!(bench.log.next_compaction(bench.now(), 0), None);
        for key in ["a", "b", "c", "d", "e"] {
            bench.append(&[(key, Some("1"))]);
        }
        let now = bench.now();
        assert_eq!(bench.log.next_compaction(now, 5), Some(now.instant));
        assert_eq!(bench.log.next_compaction(now, 0), None, "not above the last stable offset");
        bench.compact();
        bench.append(&[("a", Some("2"))]);
        assert_eq!(bench.log.next_compaction(now, 6), None, "a fifth is not half");

        let config = LogConfig { max_compaction_lag_ms: 500, ..*bench.log.config() };
        bench.log.set_config(config);
        assert_eq!(bench.log.next_compaction(now, 6), Some(now.instant + Duration::from_millis(501)));
        bench.now_ms += 501;
        assert_eq!(bench.log.next_compaction(bench.now(), 6), Some(bench.now().instant));
        bench.compact();
        assert_eq!(bench.offsets(), [0, 1, 2, 3, 4, 5], "the newer record is in the last segment");
        assert_eq!(bench.log.next_compaction(bench.now(), 6), None);
    }

    #[test]
    fn young_records_are_left_alone() {
        let mut bench = Bench::with(|config| config.min_compaction_lag_ms = 100);
        (0..3).for_each(|_| bench.append(&[("a", Some("1"))]));
        let due = bench.now().instant + Duration::from_millis(100);
        assert_eq!(bench.log.next_compaction(bench.now(), 3), Some(due));
        bench.compact();
        assert_eq!(bench.offsets(), [0, 1, 2]);
        bench.now_ms += 100;
        bench.compact();
        assert_eq!(bench.offsets(), [1, 2]);
    }

    #[test]
    fn a_batch_that_cant_be_read_changes_nothing() {
        let mut bench = Bench::new();
        (0..3).for_each(|_| bench.append(&[("a", Some("1"))]));
        let mut broken = BatchBuilder::new(BatchHeader::default()).ends_at(0).build().unwrap().to_vec();
        broken[60] = 7;
        let append = LeaderAppend {
            now: bench.now(),
            leader_epoch: 3,
            append_time_ms: None,
            origin: AppendOrigin::Client,
        };
        bench.log.append(&mut bench.pool, &broken, &append).unwrap();
        (0..3).for_each(|_| bench.append(&[("a", Some("1"))]));
        let (size, now) = (bench.log.size_bytes(), bench.now().wall);
        assert!(bench.log.compact(now, 7, &mut bench.pool).is_err());
        assert_eq!(bench.log.size_bytes(), size);
    }
}
