//! Reading a log: slices for Fetch, positions for a delayed fetch, look-ups by time for ListOffsets.

use bytes::{Bytes, BytesMut};

use super::lookup::{TimestampLookup, Wanted};
use super::segment::{Located, Segment, Slice, Walked, walk as walk_batches};
use super::{AbortedTransaction, Log, OffsetOutOfRange};
use crate::wire::batch::BatchView;
use crate::wire::records::RecordError;
use crate::wire::walk;

/// A slice below this size is copied together with its neighbours where one read yields many, bytes: an answer of
/// thousands of slices costs more in writing than the copy does.
const COALESCED_BELOW_BYTES: usize = 1 << 10;

/// How far a read may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// The offset to stop before: high watermark, last stable offset or log end, by who reads.
    pub upper_bound: i64,
    /// The most bytes to return. The last batch may be cut by it.
    pub max_bytes: usize,
    /// Return the first batch whole even if it is larger than `max_bytes` (KIP-74).
    pub min_one_batch: bool,
}

/// Where an offset lies: Kafka's `LogOffsetMetadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetPosition {
    /// The offset.
    pub offset: i64,
    /// Base offset of its segment.
    pub segment_base_offset: i64,
    /// Where in the segment its batch starts, bytes; for the log's end, the segment's size.
    pub position: u32,
}

impl OffsetPosition {
    /// Whether this is in an older segment than `other`.
    pub fn is_on_older_segment_than(&self, other: &OffsetPosition) -> bool {
        self.segment_base_offset < other.segment_base_offset
    }

    /// Whether both are in the same batch, or at the same end.
    pub fn is_in_batch_of(&self, other: &OffsetPosition) -> bool {
        (self.segment_base_offset, self.position) == (other.segment_base_offset, other.position)
    }

    /// Bytes from here to `later` in the same segment; none if that is in another segment, zero if it is before this.
    pub fn bytes_until(&self, later: &OffsetPosition) -> Option<usize> {
        (self.segment_base_offset == later.segment_base_offset)
            .then(|| later.position.saturating_sub(self.position) as usize)
    }
}

/// What a read returns.
#[derive(Clone, Debug)]
pub struct FetchSlices {
    /// The batches, shared with the log; to be sent one behind the other. The last may be cut off.
    pub parts: Vec<Bytes>,
    /// Their size, bytes.
    pub bytes: usize,
    /// Where the read began.
    pub start: OffsetPosition,
    /// Nothing is returned because the limit, though not zero, is smaller than the first batch.
    pub first_too_large: bool,
}

/// What a follower gets.
#[derive(Clone, Debug, Default)]
pub struct SharedSlices {
    /// The batches, from the start of the log's block that holds the offset on; to be read one behind the other. All but
    /// the last part are shared with the log, and so is that unless the log still writes behind it. The last batch may be
    /// cut off.
    pub parts: Vec<Bytes>,
    /// Their size from the batch that holds the offset on, bytes.
    pub bytes: usize,
    /// How many bytes of the first part come before that batch: what the follower has already, though in memory of its own
    /// perhaps.
    pub known: usize,
    /// Whether the last part is a copy.
    pub last_is_copied: bool,
}

/// A batch in the log.
#[derive(Clone, Copy, Debug)]
pub struct StoredBatch<'a> {
    /// Its header.
    pub view: BatchView<'a>,
    /// All of it.
    pub bytes: &'a [u8],
}

impl<'a> From<Walked<'a>> for StoredBatch<'a> {
    fn from(batch: Walked<'a>) -> Self {
        StoredBatch { view: batch.view, bytes: batch.bytes }
    }
}

/// A record found by its timestamp: what ListOffsets answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampOffset {
    /// The record's offset.
    pub offset: i64,
    /// Its timestamp, ms.
    pub timestamp_ms: i64,
    /// The epoch of the leader that appended it.
    pub leader_epoch: i32,
}

impl TimestampOffset {
    pub(super) fn new(batch: &BatchView<'_>, (offset, timestamp_ms): (i64, i64)) -> Self {
        TimestampOffset { offset, timestamp_ms, leader_epoch: batch.leader_epoch() }
    }

    /// The first record of a batch that has the batch's largest timestamp.
    pub(super) fn largest_of(
        batch: &BatchView<'_>,
        bytes: &[u8],
        limit: usize,
    ) -> Result<Option<Self>, RecordError> {
        let found = walk::record_with_max_timestamp(bytes, limit)?;
        Ok(found.map(|found| TimestampOffset::new(batch, found)))
    }
}

impl Log {
    /// Reads from the batch that holds `offset` on, within one segment, up to the limits.
    ///
    /// Nothing is returned at or above the upper bound, and where the first batch does not fit (without
    /// `min_one_batch`). Many small slices come copied together.
    pub fn read(&self, offset: i64, limits: &ReadLimits) -> Result<FetchSlices, OffsetOutOfRange> {
        let (start, found) = self.find(offset)?;
        let mut parts = Parts::default();
        let mut bytes = 0;
        let mut first_too_large = false;
        if let Some((index, located)) = found {
            bytes = self.bytes_to_read(offset, index, located, limits);
            first_too_large = bytes == 0 && limits.max_bytes > 0 && offset < limits.upper_bound;
            self.segments[index].slices(located, bytes, self.open_bytes(index), |slice| parts.push(slice));
        }
        Ok(FetchSlices { parts: parts.finish(), bytes, start, first_too_large })
    }

    /// Reads as [`Log::read`] does, for a follower that keeps the slices. Nothing is copied but the block that this log
    /// still writes to (below 4 KiB): were it closed by each of the follower's reads, both logs' indexes could take more
    /// memory than the records. It comes as a whole each time, and is shared once it is closed.
    pub fn read_shared(&self, offset: i64, limits: &ReadLimits) -> Result<SharedSlices, OffsetOutOfRange> {
        let (_, found) = self.find(offset)?;
        let mut shared = SharedSlices::default();
        let Some((index, located)) = found else { return Ok(shared) };
        shared.bytes = self.bytes_to_read(offset, index, located, limits);
        if shared.bytes > 0 {
            let (start, known) = located.block_start();
            shared.known = known;
            let open = self.open_bytes(index);
            self.segments[index].slices(start, known + shared.bytes, open, |slice| {
                shared.last_is_copied = matches!(slice, Slice::Open(_));
                shared.parts.push(match slice {
                    Slice::Sealed(bytes) => bytes,
                    Slice::Open(bytes) => Bytes::copy_from_slice(bytes),
                });
            });
        }
        Ok(shared)
    }

    /// How many bytes may be read from `located` on, the batch that holds `offset`.
    fn bytes_to_read(&self, offset: i64, index: usize, located: Located, limits: &ReadLimits) -> usize {
        let most = if limits.min_one_batch { limits.max_bytes.max(located.size) } else { limits.max_bytes };
        if offset >= limits.upper_bound || most < located.size {
            return 0;
        }
        let end = self.end_position(index, limits.upper_bound);
        (end.saturating_sub(located.position) as usize).min(most)
    }

    /// Where `offset` lies, which is from the log's start up to and including its end. O(log n).
    pub fn position(&self, offset: i64) -> Result<OffsetPosition, OffsetOutOfRange> {
        self.find(offset).map(|(position, _)| position)
    }

    /// Where `offset` lies, and its batch (none at the log's end).
    fn find(&self, offset: i64) -> Result<(OffsetPosition, Option<(usize, Located)>), OffsetOutOfRange> {
        if offset < self.log_start_offset || offset > self.log_end_offset {
            return Err(self.out_of_range(offset));
        }
        if offset < self.log_end_offset {
            let first = self.segments.partition_point(|s| s.base_offset <= offset).saturating_sub(1);
            for index in first..self.segments.len() {
                let segment = &self.segments[index];
                if let Some(located) = segment.locate(offset, self.open_bytes(index)) {
                    let (segment_base_offset, position) = (segment.base_offset, located.position);
                    let position = OffsetPosition { offset, segment_base_offset, position };
                    return Ok((position, Some((index, located))));
                }
            }
        }
        let (segment_base_offset, position) = self
            .segments
            .back()
            .map_or((self.log_end_offset, 0), |segment| (segment.base_offset, segment.size));
        Ok((OffsetPosition { offset, segment_base_offset, position }, None))
    }

    /// Where the batch starts that holds `offset`; `offset` itself if none does.
    pub(super) fn batch_start(&self, offset: i64) -> i64 {
        let Ok((_, Some((index, located)))) = self.find(offset) else { return offset };
        let batch = self.segments[index].batches_from(located, self.open_bytes(index)).next();
        batch.map_or(offset, |batch| batch.view.base_offset().min(offset))
    }

    /// The position in segment `index` at which a read up to `upper_bound` ends.
    fn end_position(&self, index: usize, upper_bound: i64) -> u32 {
        let segment = &self.segments[index];
        let below_next = self.segments.get(index + 1).is_none_or(|next| upper_bound < next.base_offset);
        let inside = (below_next && upper_bound < self.log_end_offset)
            .then(|| segment.locate(upper_bound, self.open_bytes(index)));
        inside.flatten().map_or(segment.size, |located| located.position)
    }

    /// Begins to look for the first record with at least this timestamp. As in Kafka, only the first segment that is new
    /// enough is searched.
    pub fn look_up_timestamp(&self, timestamp_ms: i64) -> TimestampLookup {
        let from = self.log_start_offset;
        let mut batches = Vec::new();
        // The first batch that lies above the log's start as a whole has the record, since its largest timestamp is one
        // of a record of its own.
        self.search(timestamp_ms, |batch, share| {
            batches.push(share());
            (batch.view.base_offset() >= from).then_some(())
        });
        TimestampLookup { wanted: Wanted::AtLeast { timestamp_ms, from }, known: None, batches }
    }

    /// Begins to look for the first record with the log's largest timestamp. As in Kafka, that may be a record that
    /// DeleteRecords has deleted, until its segment goes.
    pub fn look_up_largest_timestamp(&self) -> TimestampLookup {
        let Some((index, largest_ms)) = self.newest_segment() else { return TimestampLookup::known(None) };
        let (segment, open) = (&self.segments[index], self.open_bytes(index));
        if let Some(largest) = segment.released_largest() {
            return TimestampLookup::known(Some(largest));
        }
        let located = segment.locate_timestamp(largest_ms, open);
        let batch = located.and_then(|located| segment.batches_in_blocks_from(located, open).next());
        let batches = batch.map(|(block, batch)| segment.share(block, &batch, open)).into_iter().collect();
        TimestampLookup { wanted: Wanted::Newest, known: None, batches }
    }

    /// The first of the segments with the largest timestamp, if that is one.
    fn newest_segment(&self) -> Option<(usize, i64)> {
        let timestamps = || self.segments.iter().map(Segment::largest_record_timestamp_ms);
        let largest_ms = timestamps().max().filter(|&largest_ms| largest_ms >= 0)?;
        timestamps().position(|timestamp_ms| timestamp_ms == largest_ms).map(|index| (index, largest_ms))
    }

    /// Hands each batch that may hold the first record with at least this timestamp to `look`, with a way to have its
    /// bytes by themselves, until that returns something.
    pub(super) fn search<R>(
        &self,
        timestamp_ms: i64,
        mut look: impl FnMut(&Walked<'_>, &dyn Fn() -> Bytes) -> Option<R>,
    ) -> Option<R> {
        let index = self.segments.iter().position(|s| s.largest_timestamp_ms() >= timestamp_ms)?;
        let (segment, open) = (&self.segments[index], self.open_bytes(index));
        let from = segment.locate_timestamp(timestamp_ms, open)?;
        let mut batches = segment.batches_in_blocks_from(from, open).filter(|(_, batch)| {
            batch.view.max_timestamp() >= timestamp_ms && batch.view.last_offset() >= self.log_start_offset
        });
        batches.find_map(|(block, batch)| look(&batch, &|| segment.share(block, &batch, open)))
    }

    /// The aborted transactions that overlap with the batches that a read from `from` on has returned, in the order of
    /// their ends.
    pub fn aborted_transactions(&self, from: i64, read: &[Bytes]) -> Vec<AbortedTransaction> {
        if !self.ended.has_aborted_from(from) {
            return Vec::new();
        }
        let last = read.iter().rev().find_map(|part| walk_batches(part).last());
        last.map(|batch| self.ended.aborted(from, batch.view.last_offset() + 1)).unwrap_or_default()
    }

    /// All batches in memory, oldest first; the first may start below the log's start.
    pub fn batches(&self) -> impl Iterator<Item = StoredBatch<'_>> {
        self.segments
            .iter()
            .enumerate()
            .flat_map(|(index, segment)| segment.batches(self.open_bytes(index)).map(StoredBatch::from))
    }

    /// The batches that end at or above `offset`, oldest first.
    pub fn batches_from(&self, offset: i64) -> impl Iterator<Item = StoredBatch<'_>> {
        let first = self.segments.partition_point(|segment| segment.base_offset <= offset).saturating_sub(1);
        self.segments.iter().enumerate().skip(first).flat_map(move |(index, segment)| {
            let open = self.open_bytes(index);
            let from = segment.locate(offset, open).into_iter();
            from.flat_map(move |from| segment.batches_from(from, open)).map(StoredBatch::from)
        })
    }
}

/// Gathers slices; neighbours that are small are copied into one.
#[derive(Default)]
struct Parts {
    parts: Vec<Bytes>,
    /// A small slice, kept as it is in case it has no small neighbour.
    small: Option<Bytes>,
    copied: BytesMut,
}

impl Parts {
    fn push(&mut self, slice: Slice<'_>) {
        match slice {
            Slice::Sealed(bytes) if bytes.len() < COALESCED_BELOW_BYTES => {
                if self.small.is_none() && self.copied.is_empty() {
                    self.small = Some(bytes);
                } else {
                    self.copy(&bytes);
                }
            }
            Slice::Sealed(bytes) => {
                self.flush();
                self.parts.push(bytes);
            }
            Slice::Open(bytes) => self.copy(bytes),
        }
    }

    fn copy(&mut self, bytes: &[u8]) {
        if let Some(small) = self.small.take() {
            self.copied.extend_from_slice(&small);
        }
        self.copied.extend_from_slice(bytes);
    }

    fn flush(&mut self) {
        self.parts.extend(self.small.take());
        if !self.copied.is_empty() {
            self.parts.push(std::mem::take(&mut self.copied).freeze());
        }
    }

    fn finish(mut self) -> Vec<Bytes> {
        self.flush();
        self.parts
    }
}
