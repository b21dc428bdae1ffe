//! One segment of a log: batches in memory, with an index by offset and by time.
//!
//! A segment is a row of *blocks* of at least 4 KiB (Kafka's `index.interval.bytes`) of whole batches. The blocks are
//! the index: a look-up finds the block by binary search and walks the few batch headers in it. The last block of the
//! last segment may still be *open*: its bytes lie in the log's chunk and come in as `open` with each call.
//!
//! This is the boundary behind which a durable form can come. Knows nothing of chunks, epochs or producers.

use std::collections::VecDeque;

use bytes::Bytes;

use super::read::TimestampOffset;
use crate::base::WallTime;
use crate::wire::batch::BatchView;
use crate::wire::compression::DECOMPRESSED_BYTES_MAX;

/// A block that has reached this size takes no more batches, bytes.
pub(super) const BLOCK_BYTES: usize = 4 << 10;

/// Whole batches, one behind the other.
#[derive(Clone, Debug)]
pub(super) struct Block {
    /// Empty while the block is open.
    bytes: Bytes,
    base_offset: i64,
    /// The largest timestamp of the segment up to the end of this block, ms; −1 if there is none.
    largest_timestamp_so_far_ms: i64,
    /// Where in the segment the block starts, bytes.
    position: u32,
    /// Whether the bytes are a copy: of a block that was open on the leader when a follower fetched it.
    copied: bool,
}

/// A segment. Its offsets are `base_offset` up to the next segment's base, its positions `0..size`.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub base_offset: i64,
    /// Bytes appended, whether or not their memory has been given back since.
    pub size: u32,
    /// When it was rolled.
    created: WallTime,
    /// When it was last appended to: stands in for the largest timestamp where there is none.
    modified: WallTime,
    /// The largest timestamp of the first batch, ms; −1 if it has none.
    first_timestamp_ms: i64,
    largest_timestamp_ms: i64,
    /// The largest timestamp of the blocks that are gone from its front, ms; −1 if there is none.
    released_timestamp_ms: i64,
    /// The first record that has it.
    released_largest: Option<TimestampOffset>,
    blocks: VecDeque<Block>,
    open: bool,
    /// Bytes of the blocks that are copies.
    copied_bytes: usize,
}

/// What is known of a batch when it is appended.
#[derive(Clone, Copy, Debug)]
pub(super) struct AppendedBatch {
    pub base_offset: i64,
    pub last_offset: i64,
    pub max_timestamp_ms: i64,
    pub size: usize,
}

impl AppendedBatch {
    pub fn of(batch: &BatchView<'_>, size: usize) -> Self {
        AppendedBatch {
            base_offset: batch.base_offset(),
            last_offset: batch.last_offset(),
            max_timestamp_ms: batch.max_timestamp(),
            size,
        }
    }
}

/// The limits that decide when the next segment begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct RollRules {
    pub segment_bytes: u32,
    pub segment_ms: i64,
}

/// Where a batch lies in its segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Located {
    /// Position of its first byte in the segment.
    pub position: u32,
    pub size: usize,
    block: usize,
    in_block: usize,
}

impl Located {
    /// Where the block starts that holds the batch, and how many bytes further on the batch is.
    pub fn block_start(self) -> (Located, usize) {
        let before = self.in_block;
        let start =
            Located { position: self.position - before as u32, size: 0, block: self.block, in_block: 0 };
        (start, before)
    }
}

/// A batch, with the offset of its first byte in what was walked.
pub(super) struct Walked<'a> {
    pub at: usize,
    pub view: BatchView<'a>,
    pub bytes: &'a [u8],
}

/// Walks whole batches, one behind the other; ends at the first that is cut off or says an impossible size.
pub(super) fn walk(bytes: &[u8]) -> impl Iterator<Item = Walked<'_>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..)?;
        let view = BatchView::new(rest)?;
        let batch = rest.get(..view.size()?)?;
        let walked = Walked { at, view, bytes: batch };
        at += batch.len();
        Some(walked)
    })
}

impl Segment {
    pub fn new(base_offset: i64, now: WallTime) -> Self {
        Segment {
            base_offset,
            size: 0,
            created: now,
            modified: now,
            first_timestamp_ms: -1,
            largest_timestamp_ms: -1,
            released_timestamp_ms: -1,
            released_largest: None,
            blocks: VecDeque::new(),
            open: false,
            copied_bytes: 0,
        }
    }

    /// Whether `batch` must go into a segment of its own behind this one (Kafka's `LogSegment.shouldRoll`).
    pub fn should_roll(&self, batch: &AppendedBatch, rules: &RollRules, now: WallTime) -> bool {
        let reference = if self.first_timestamp_ms >= 0 {
            batch.max_timestamp_ms.saturating_sub(self.first_timestamp_ms)
        } else {
            now.as_millis().saturating_sub(self.created.as_millis())
        };
        u64::from(self.size) + batch.size as u64 > u64::from(rules.segment_bytes)
            || (self.size > 0 && reference > rules.segment_ms)
            || batch.last_offset - self.base_offset > i64::from(i32::MAX)
    }

    /// Notes a batch whose bytes follow the open ones. Returns whether the block is large enough to be sealed.
    pub fn append_open(&mut self, batch: &AppendedBatch, now: WallTime) -> bool {
        let position = self.note(batch, now);
        if !self.open {
            self.push_block(Bytes::new(), batch.base_offset, position);
            self.open = true;
        } else if let Some(block) = self.blocks.back_mut() {
            block.largest_timestamp_so_far_ms = self.largest_timestamp_ms;
        }
        self.blocks.back().is_some_and(|block| (self.size - block.position) as usize >= BLOCK_BYTES)
    }

    fn note(&mut self, batch: &AppendedBatch, now: WallTime) -> u32 {
        if self.size == 0 {
            self.first_timestamp_ms = batch.max_timestamp_ms;
        }
        let position = self.size;
        self.size += batch.size as u32;
        self.modified = now;
        self.largest_timestamp_ms = self.largest_timestamp_ms.max(batch.max_timestamp_ms);
        position
    }

    fn push_block(&mut self, bytes: Bytes, base_offset: i64, position: u32) {
        let largest_timestamp_so_far_ms = self.largest_timestamp_ms;
        let copied = false;
        self.blocks.push_back(Block { bytes, base_offset, largest_timestamp_so_far_ms, position, copied });
    }

    /// Whether the last block is open.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Opens the last block again if `bytes` end with what is in it, so that it can be closed with these and more. Returns
    /// where in `bytes` the block starts.
    pub fn reopen(&mut self, bytes: &[u8]) -> Option<usize> {
        let last = self.blocks.back_mut().filter(|_| !self.open)?;
        let start = bytes.len().checked_sub(last.bytes.len())?;
        self.open = bytes.get(start..)? == &last.bytes[..];
        if self.open && std::mem::take(&mut last.copied) {
            self.copied_bytes -= last.bytes.len();
        }
        self.open.then_some(start)
    }

    /// Closes the open block, whose bytes are `bytes`: a copy of what the leader has, or its own and shared.
    pub fn seal(&mut self, bytes: Bytes, copied: bool) {
        if let Some(block) = self.blocks.back_mut().filter(|_| self.open) {
            if copied {
                self.copied_bytes += bytes.len();
            }
            (block.bytes, block.copied) = (bytes, copied);
        }
        self.open = false;
    }

    /// The largest timestamp of its records, else when it was last written: what its age counts from, ms.
    pub fn largest_timestamp_ms(&self) -> i64 {
        if self.largest_timestamp_ms >= 0 { self.largest_timestamp_ms } else { self.modified.as_millis() }
    }

    /// The largest timestamp of its records, ms; −1 if none has one.
    pub fn largest_record_timestamp_ms(&self) -> i64 {
        self.largest_timestamp_ms
    }

    /// The largest timestamp of the first batch, ms; −1 if there is none.
    pub fn first_timestamp_ms(&self) -> i64 {
        self.first_timestamp_ms
    }

    /// When it was rolled.
    pub fn created(&self) -> WallTime {
        self.created
    }

    /// When it was last appended to.
    pub fn modified(&self) -> WallTime {
        self.modified
    }

    /// Whether no batch is left.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The offset that the batches in memory start with.
    pub fn first_offset(&self) -> Option<i64> {
        self.blocks.front().map(|block| block.base_offset)
    }

    /// The first batch that ends at or above `offset`.
    pub fn locate(&self, offset: i64, open: &[u8]) -> Option<Located> {
        let block = self.blocks.partition_point(|block| block.base_offset <= offset).saturating_sub(1);
        // A gap at the end of a block leads into the next one.
        (block..self.blocks.len()).find_map(|block| {
            let found =
                walk(self.block_bytes(block, open)).find(|batch| batch.view.last_offset() >= offset)?;
            Some(self.located(block, &found))
        })
    }

    fn located(&self, block: usize, batch: &Walked<'_>) -> Located {
        let position = self.blocks[block].position + batch.at as u32;
        Located { position, size: batch.bytes.len(), block, in_block: batch.at }
    }

    fn block_bytes<'a>(&'a self, block: usize, open: &'a [u8]) -> &'a [u8] {
        if self.open && block + 1 == self.blocks.len() { open } else { &self.blocks[block].bytes }
    }

    /// Hands `length` bytes from `from` on to `take`, block by block: shared where they are sealed, else to be copied.
    pub fn slices(&self, from: Located, length: usize, open: &[u8], mut take: impl FnMut(Slice<'_>)) {
        let mut left = length;
        let mut start = from.in_block;
        for block in from.block..self.blocks.len() {
            if left == 0 {
                return;
            }
            let bytes = self.block_bytes(block, open);
            let end = bytes.len().min(start + left);
            left -= end - start;
            if self.open && block + 1 == self.blocks.len() {
                take(Slice::Open(&bytes[start..end]));
            } else {
                take(Slice::Sealed(self.blocks[block].bytes.slice(start..end)));
            }
            start = 0;
        }
    }

    /// The batches from `from` on.
    pub fn batches_from<'a>(&'a self, from: Located, open: &'a [u8]) -> impl Iterator<Item = Walked<'a>> {
        self.batches_in_blocks_from(from, open).map(|(_, batch)| batch)
    }

    /// The batches from `from` on, each with its block.
    pub fn batches_in_blocks_from<'a>(
        &'a self,
        from: Located,
        open: &'a [u8],
    ) -> impl Iterator<Item = (usize, Walked<'a>)> {
        (from.block..self.blocks.len()).flat_map(move |block| {
            let skip = if block == from.block { from.in_block } else { 0 };
            let batches = walk(self.block_bytes(block, open)).filter(move |batch| batch.at >= skip);
            batches.map(move |batch| (block, batch))
        })
    }

    /// A batch of a block by itself: shared where the block is sealed, else copied.
    pub fn share(&self, block: usize, batch: &Walked<'_>, open: &[u8]) -> Bytes {
        let place = batch.at..batch.at + batch.bytes.len();
        match self.open && block + 1 == self.blocks.len() {
            true => Bytes::copy_from_slice(&open[place]),
            false => self.blocks[block].bytes.slice(place),
        }
    }

    /// All batches in memory.
    pub fn batches<'a>(&'a self, open: &'a [u8]) -> impl Iterator<Item = Walked<'a>> {
        (0..self.blocks.len()).flat_map(move |block| walk(self.block_bytes(block, open)))
    }

    /// The first batch whose largest timestamp is at least `timestamp_ms`.
    pub fn locate_timestamp(&self, timestamp_ms: i64, open: &[u8]) -> Option<Located> {
        let block = self.blocks.partition_point(|block| block.largest_timestamp_so_far_ms < timestamp_ms);
        (block..self.blocks.len()).find_map(|block| {
            let late = |batch: &Walked<'_>| batch.view.max_timestamp() >= timestamp_ms;
            let found = walk(self.block_bytes(block, open)).find(late)?;
            Some(self.located(block, &found))
        })
    }

    /// Forgets the blocks that hold nothing at or above `offset`, of a segment that ends at `end_offset`. The open block
    /// must be sealed if that is among them.
    ///
    /// For Kafka, which deletes whole segments only, they are still there: what it answers of them (the segment's size
    /// and age, and the record with the largest timestamp) stays known.
    pub fn release_below(&mut self, offset: i64, end_offset: i64) {
        let ends = self.blocks.iter().skip(1).map(|next| next.base_offset).chain([end_offset]);
        let released = ends.take(self.blocks.len()).take_while(|&end| end <= offset).count();
        let Some(last) = released.checked_sub(1).and_then(|last| self.blocks.get(last)) else { return };
        let largest_ms = last.largest_timestamp_so_far_ms;
        if largest_ms > self.released_timestamp_ms {
            self.released_timestamp_ms = largest_ms;
            self.released_largest = self.locate_timestamp(largest_ms, &[]).and_then(|located| {
                let batch = self.batches_from(located, &[]).next()?;
                TimestampOffset::largest_of(&batch.view, batch.bytes, DECOMPRESSED_BYTES_MAX).ok().flatten()
            });
        }
        self.blocks.drain(..released);
        self.count_copies();
    }

    /// The first record with the segment's largest timestamp, if its block is gone.
    pub fn released_largest(&self) -> Option<TimestampOffset> {
        self.released_largest.filter(|largest| largest.timestamp_ms == self.largest_timestamp_ms)
    }

    /// Cuts off all from the batch on that holds `offset`. No block may be open.
    pub fn truncate(&mut self, offset: i64) {
        debug_assert!(!self.open);
        let Some(cut) = self.locate(offset, &[]) else { return };
        self.size = cut.position;
        self.blocks.truncate(cut.block + 1);
        let before = match cut.block.checked_sub(1) {
            Some(before) => self.blocks[before].largest_timestamp_so_far_ms,
            None => self.released_timestamp_ms,
        };
        self.largest_timestamp_ms = before;
        if cut.in_block == 0 {
            self.blocks.pop_back();
        } else if let Some(block) = self.blocks.back_mut() {
            block.bytes.truncate(cut.in_block);
            let timestamps = walk(&block.bytes).map(|batch| batch.view.max_timestamp());
            self.largest_timestamp_ms = timestamps.fold(before, i64::max);
            block.largest_timestamp_so_far_ms = self.largest_timestamp_ms;
        }
        self.count_copies();
    }

    fn count_copies(&mut self) {
        let copies = self.blocks.iter().filter(|block| block.copied);
        self.copied_bytes = copies.map(|block| block.bytes.len()).sum();
    }

    /// Bytes of blocks that are copies of what the leader has.
    pub fn copied_bytes(&self) -> usize {
        self.copied_bytes
    }

    /// Bytes that the index takes.
    pub fn index_bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>()
    }
}

/// A part of a block.
pub(super) enum Slice<'a> {
    Sealed(Bytes),
    Open(&'a [u8]),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_entry_is_small() {
        assert!(size_of::<Block>() <= 56);
    }
}
