//! Memory for record bytes: chunks that batches are copied into, and the pool that all logs of a process share.
//!
//! A chunk is one allocation that batches are copied into, one behind the other, and handed out from as [`Bytes`].
//! Whoever holds such a slice keeps the whole chunk alive; the chunk's *keeper* (what is left of the `BytesMut`)
//! gets the allocation back once nobody else does. So memory that retention gives back is used again, which matters:
//! a page that the kernel has to clear first costs several times what the copy into it does.
//!
//! Knows nothing of batches, segments or the clock.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};

use super::pages;

/// A log's first chunk, bytes. Each further one is twice as large.
const SMALLEST_CHUNK_BYTES: usize = 4 << 10;
/// The largest chunk that several batches share, bytes.
const LARGEST_SHARED_CHUNK_BYTES: usize = 1 << 20;
/// A batch of this size or larger has a chunk of its own: in a shared one, what is left free at the end would be
/// too large a part of it.
const OWN_CHUNK_BYTES: usize = 32 << 10;
/// Smaller chunks are left to the allocator, which is as good at keeping them.
const SMALLEST_POOLED_BYTES: usize = 32 << 10;
/// A chunk that is at least so large gets its pages from the kernel in advance, so many bytes of them at a time.
const POPULATED_BYTES: usize = 128 << 10;
/// How many chunks that were in use when they came back are looked at again with each chunk taken.
const SETTLED_AT_ONCE: usize = 8;

/// The memory budget is used up: held, lent and wanted bytes together exceed it. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("log memory is used up: {held_bytes} of {budget_bytes} bytes held, {wanted_bytes} more wanted")]
pub struct BudgetExceeded {
    /// The budget, bytes.
    pub budget_bytes: usize,
    /// Held when more was asked for, bytes.
    pub held_bytes: usize,
    /// What was asked for, bytes.
    pub wanted_bytes: usize,
}

/// The memory of all logs: a budget, and chunks that wait to be used again.
///
/// No chunk is taken that would make `bytes_held + bytes_lent + bytes_idle + bytes_indexed` exceed the budget. What comes
/// without a chunk may, by a little: what compaction has written while the old records are still being read, and what
/// followers add to what their leader has taken in, which is an index (1.4 % of records that come in small batches) and
/// a copy of the block that the leader still writes to (below 4 KiB a partition).
#[derive(Debug)]
pub struct ChunkPool {
    budget_bytes: usize,
    idle_limit_bytes: usize,
    held_bytes: usize,
    lent_bytes: usize,
    idle_bytes: usize,
    indexed_bytes: usize,
    /// Given back, but someone still holds slices: an answer on its way, a follower, a clone.
    lent: VecDeque<(BytesMut, usize)>,
    /// Free chunks by their capacity.
    idle: BTreeMap<usize, Vec<BytesMut>>,
}

impl ChunkPool {
    /// A pool with a budget in bytes, of which at most half may lie idle.
    pub fn new(budget_bytes: usize) -> Self {
        ChunkPool {
            budget_bytes,
            idle_limit_bytes: budget_bytes / 2,
            held_bytes: 0,
            lent_bytes: 0,
            idle_bytes: 0,
            indexed_bytes: 0,
            lent: VecDeque::new(),
            idle: BTreeMap::new(),
        }
    }

    /// The budget, bytes.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    /// Bytes in chunks of logs.
    pub fn bytes_held(&self) -> usize {
        self.held_bytes
    }

    /// Bytes in chunks that logs have given up, but of which someone still holds slices (as known when last looked).
    pub fn bytes_lent(&self) -> usize {
        self.lent_bytes
    }

    /// Bytes in free chunks that wait to be used again.
    pub fn bytes_idle(&self) -> usize {
        self.idle_bytes
    }

    /// Bytes of the logs' indexes, and of copies that followers have of blocks that their leader still writes to.
    pub fn bytes_indexed(&self) -> usize {
        self.indexed_bytes
    }

    /// Counts that a log has so many bytes of [`ChunkPool::bytes_indexed`] which had `before`.
    pub(super) fn count_indexed(&mut self, before: usize, after: usize) {
        self.indexed_bytes = (self.indexed_bytes + after).saturating_sub(before);
    }

    /// Gives free chunks back to the allocator until at most `keep_bytes` of them are left.
    pub fn trim_idle(&mut self, keep_bytes: usize) {
        while self.idle_bytes > keep_bytes {
            let Some(mut chunks) = self.idle.last_entry() else { return };
            self.idle_bytes -= chunks.key();
            chunks.get_mut().pop();
            if chunks.get().is_empty() {
                chunks.remove();
            }
        }
    }

    /// An empty chunk of about `wanted` bytes, at least `least`.
    fn take(&mut self, least: usize, wanted: usize) -> Result<Room, BudgetExceeded> {
        self.settle(SETTLED_AT_ONCE);
        if let Some(memory) = self.take_idle(least, wanted) {
            return Ok(Room { memory, fresh_bytes: 0 });
        }
        let size = self.make_room(wanted).or_else(|_| self.make_room(least))?;
        self.held_bytes += size;
        let fresh_bytes = if size >= POPULATED_BYTES { size } else { 0 };
        Ok(Room { memory: BytesMut::with_capacity(size), fresh_bytes })
    }

    /// A free chunk that fits: a little larger than wanted, else the largest that is not much smaller.
    fn take_idle(&mut self, least: usize, wanted: usize) -> Option<BytesMut> {
        let above = self.idle.range(wanted..=wanted + wanted / 8).next();
        let below = || self.idle.range(least.max(wanted / 2)..wanted.max(least)).next_back();
        let size = *above.or_else(below)?.0;
        let chunks = self.idle.get_mut(&size)?;
        let chunk = chunks.pop();
        if chunks.is_empty() {
            self.idle.remove(&size);
        }
        self.idle_bytes -= size;
        self.held_bytes += size;
        chunk
    }

    fn make_room(&mut self, wanted: usize) -> Result<usize, BudgetExceeded> {
        if self.total() + wanted > self.budget_bytes {
            self.settle(usize::MAX);
            let used = self.held_bytes + self.lent_bytes + self.indexed_bytes;
            self.trim_idle(self.budget_bytes.saturating_sub(used + wanted));
        }
        if self.total() + wanted <= self.budget_bytes {
            return Ok(wanted);
        }
        let held_bytes = self.total();
        Err(BudgetExceeded { budget_bytes: self.budget_bytes, held_bytes, wanted_bytes: wanted })
    }

    fn total(&self) -> usize {
        self.held_bytes + self.lent_bytes + self.idle_bytes + self.indexed_bytes
    }

    fn give_back(&mut self, chunk: Chunk) {
        self.held_bytes -= chunk.size;
        if let Some(keeper) = chunk.keeper {
            self.reclaim(keeper, chunk.size);
        }
    }

    /// Looks at up to `most` chunks again that were in use when they came back.
    fn settle(&mut self, most: usize) {
        for _ in 0..most.min(self.lent.len()) {
            let Some((keeper, size)) = self.lent.pop_front() else { return };
            self.lent_bytes -= size;
            self.reclaim(keeper, size);
        }
    }

    fn reclaim(&mut self, mut keeper: BytesMut, size: usize) {
        keeper.clear();
        if !keeper.try_reclaim(size) {
            self.lent_bytes += size;
            self.lent.push_back((keeper, size));
        } else if size >= SMALLEST_POOLED_BYTES && self.idle_bytes + size <= self.idle_limit_bytes {
            self.idle_bytes += size;
            self.idle.entry(size).or_default().push(keeper);
        }
    }
}

/// A clone counts what the cloned logs hold; it shares no free memory with the original.
impl Clone for ChunkPool {
    fn clone(&self) -> Self {
        ChunkPool {
            held_bytes: self.held_bytes,
            idle_limit_bytes: self.idle_limit_bytes,
            indexed_bytes: self.indexed_bytes,
            ..ChunkPool::new(self.budget_bytes)
        }
    }
}

/// An empty chunk.
#[derive(Debug)]
pub(super) struct Room {
    memory: BytesMut,
    fresh_bytes: usize,
}

/// One allocation, and the offsets whose batches lie in it.
#[derive(Debug)]
struct Chunk {
    /// None in the clone of a log, where the original takes the memory back, and for what compaction has written.
    keeper: Option<BytesMut>,
    size: usize,
    /// At its end: what has no pages yet.
    fresh_bytes: usize,
    first_offset: i64,
    /// Exclusive.
    end_offset: i64,
}

impl Clone for Chunk {
    fn clone(&self) -> Self {
        Chunk { keeper: None, ..*self }
    }
}

/// Memory that compaction has written records to, and their offsets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub bytes: usize,
    pub first_offset: i64,
    /// Exclusive.
    pub end_offset: i64,
}

/// The chunks of one log, in the order of their offsets. The last one is filled further.
///
/// Its keeper's contents are the *open bytes*: written, but not yet handed out as [`Bytes`]. A clone has none.
#[derive(Clone, Debug, Default)]
pub(super) struct ChunkQueue {
    chunks: VecDeque<Chunk>,
    next_chunk_bytes: usize,
}

impl ChunkQueue {
    /// Whether the last chunk has room for `size` more bytes.
    pub fn fits(&self, size: usize) -> bool {
        self.keeper().is_some_and(|keeper| keeper.capacity() - keeper.len() >= size)
    }

    /// Takes a chunk that has room for a batch of `size` bytes, to be put to use by [`ChunkQueue::push`].
    pub fn take(&self, size: usize, pool: &mut ChunkPool) -> Result<Room, BudgetExceeded> {
        let wanted = if size >= OWN_CHUNK_BYTES {
            round_up(size)
        } else {
            let shared =
                self.next_chunk_bytes.clamp(SMALLEST_CHUNK_BYTES, LARGEST_SHARED_CHUNK_BYTES).max(size);
            // Batches of one size, the usual case, then fill the chunk without a rest.
            round_up(shared / size.max(1) * size)
        };
        pool.take(size, wanted)
    }

    /// Makes `chunk` the last one. The open bytes must have been sealed.
    pub fn push(&mut self, room: Room, first_offset: i64) {
        debug_assert!(self.open_bytes().is_empty());
        let Room { memory, fresh_bytes } = room;
        let size = memory.capacity();
        self.next_chunk_bytes = (size * 2).clamp(SMALLEST_CHUNK_BYTES, LARGEST_SHARED_CHUNK_BYTES);
        let end_offset = first_offset;
        self.chunks.push_back(Chunk { keeper: Some(memory), size, fresh_bytes, first_offset, end_offset });
    }

    /// Copies a batch, in two parts, behind the open bytes. There must be room.
    pub fn write(&mut self, header: &[u8], records: &[u8], end_offset: i64) {
        let Some(chunk) = self.chunks.back_mut() else { return };
        chunk.end_offset = end_offset;
        let Some(keeper) = &mut chunk.keeper else { return };
        let bytes = header.len() + records.len();
        let free_bytes = keeper.capacity() - keeper.len();
        debug_assert!(free_bytes >= bytes);
        if chunk.fresh_bytes > free_bytes.saturating_sub(bytes) {
            let populated = bytes.max(POPULATED_BYTES).min(chunk.fresh_bytes);
            let fresh = free_bytes.saturating_sub(chunk.fresh_bytes);
            pages::populate(
                keeper.spare_capacity_mut().get_mut(fresh..fresh + populated).unwrap_or_default(),
            );
            chunk.fresh_bytes -= populated;
        }
        keeper.extend_from_slice(header);
        keeper.extend_from_slice(records);
    }

    /// What is written, but not yet sealed.
    pub fn open_bytes(&self) -> &[u8] {
        self.keeper().map_or(&[], |keeper| keeper)
    }

    /// The open bytes, made shareable; none are open afterwards.
    pub fn seal(&mut self) -> Bytes {
        match self.chunks.back_mut() {
            Some(Chunk { keeper: Some(keeper), .. }) => keeper.split().freeze(),
            _ => Bytes::new(),
        }
    }

    /// Counts memory that compaction has written the records of `first_offset..end_offset` to, in the place of the chunks
    /// that hold nothing else: it is given to the allocator, not to the pool, when it is released. It may exceed the
    /// budget for a moment, where somebody still holds what it replaces.
    pub fn replace(&mut self, first_offset: i64, end_offset: i64, pieces: Vec<Piece>, pool: &mut ChunkPool) {
        let from = self.chunks.partition_point(|chunk| chunk.end_offset <= first_offset);
        let to = self.chunks.partition_point(|chunk| chunk.end_offset <= end_offset);
        let tail = self.chunks.split_off(to.max(from));
        self.chunks.drain(from..).for_each(|chunk| pool.give_back(chunk));
        for Piece { bytes, first_offset, end_offset } in pieces {
            pool.held_bytes += bytes;
            self.chunks.push_back(Chunk {
                keeper: None,
                size: bytes,
                fresh_bytes: 0,
                first_offset,
                end_offset,
            });
        }
        self.chunks.extend(tail);
    }

    /// Gives back the chunks that hold nothing at or above `offset`.
    pub fn release_below(&mut self, offset: i64, pool: &mut ChunkPool) {
        while self.chunks.front().is_some_and(|chunk| chunk.end_offset <= offset) {
            pool.give_back(self.chunks.pop_front().expect("there is a front"));
        }
    }

    /// Gives back the chunks that hold nothing below `offset`. The open bytes must have been sealed.
    pub fn release_from(&mut self, offset: i64, pool: &mut ChunkPool) {
        while self.chunks.back().is_some_and(|chunk| chunk.first_offset >= offset) {
            pool.give_back(self.chunks.pop_back().expect("there is a back"));
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.end_offset = chunk.end_offset.min(offset);
        }
    }

    /// Gives back all chunks.
    pub fn release_all(&mut self, pool: &mut ChunkPool) {
        self.chunks.drain(..).for_each(|chunk| pool.give_back(chunk));
    }

    /// Bytes in this log's chunks.
    pub fn bytes_held(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.size).sum()
    }

    fn keeper(&self) -> Option<&BytesMut> {
        self.chunks.back()?.keeper.as_ref()
    }
}

/// Rounds up by less than 1/128 (and up to 64 bytes), so that batches of nearly one size can use each other's chunks.
fn round_up(size: usize) -> usize {
    let step = (size.next_power_of_two() / 256).max(64);
    size.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn filled(pool: &mut ChunkPool, batch_bytes: usize, batches: usize) -> (ChunkQueue, Vec<Bytes>) {
        let mut queue = ChunkQueue::default();
        let batch = vec![7; batch_bytes];
        let mut slices = Vec::new();
        for offset in 0..batches as i64 {
            if !queue.fits(batch_bytes) {
                let chunk = queue.take(batch_bytes, pool).expect("within budget");
                queue.push(chunk, offset);
            }
            let (header, records) = batch.split_at(batch_bytes / 3);
            queue.write(header, records, offset + 1);
            slices.push(queue.seal());
            assert_eq!(slices.last(), Some(&Bytes::from(batch.clone())));
        }
        (queue, slices)
    }

    #[test]
    fn rounding_adds_less_than_a_hundredth() {
        for size in (1 << 10..4 * MIB).step_by(997) {
            assert!(round_up(size) >= size && round_up(size) - size <= (size / 100).max(64), "{size}");
        }
    }

    #[test]
    fn waste_is_below_two_percent_for_batches_of_16_kib_and_more() {
        for batch_bytes in
            [16 << 10, 16_500, 20_000, 31_000, 40_000, 64 << 10, 65_700, 100_000, MIB, MIB + 70]
        {
            let mut pool = ChunkPool::new(1 << 30);
            let batches = (128 << 20) / batch_bytes;
            let (queue, _slices) = filled(&mut pool, batch_bytes, batches);
            let ratio = queue.bytes_held() as f64 / (batches * batch_bytes) as f64;
            assert!((1.0..1.02).contains(&ratio), "{batch_bytes}: {ratio}");
            assert_eq!(pool.bytes_held(), queue.bytes_held());
        }
    }

    #[test]
    fn small_logs_have_small_chunks() {
        let mut pool = ChunkPool::new(MIB);
        let (queue, _slices) = filled(&mut pool, 200, 1);
        assert!(queue.bytes_held() <= SMALLEST_CHUNK_BYTES);
        let mut pool = ChunkPool::new(64 * MIB);
        let (queue, _slices) = filled(&mut pool, 200, 100_000);
        assert!(queue.chunks.len() < 40, "{}", queue.chunks.len());
        assert!(queue.chunks.iter().all(|chunk| chunk.size <= LARGEST_SHARED_CHUNK_BYTES));
    }

    #[test]
    fn freed_chunks_are_used_again_once_nobody_holds_slices() {
        let mut pool = ChunkPool::new(16 * MIB);
        let (mut queue, slices) = filled(&mut pool, MIB, 4);
        let address = slices[0].as_ptr();
        queue.release_all(&mut pool);
        assert_eq!((pool.bytes_held(), pool.bytes_lent(), pool.bytes_idle()), (0, 4 * MIB, 0));
        drop(slices);
        pool.settle(usize::MAX);
        assert_eq!((pool.bytes_lent(), pool.bytes_idle()), (0, 4 * MIB));
        let (_queue, slices) = filled(&mut pool, MIB, 4);
        assert_eq!((pool.bytes_held(), pool.bytes_idle()), (4 * MIB, 0));
        assert!(slices.iter().any(|slice| slice.as_ptr() == address));
    }

    #[test]
    fn the_budget_counts_held_and_lent_bytes_and_makes_room_of_idle_ones() {
        let mut pool = ChunkPool::new(4 * MIB);
        let (mut queue, slices) = filled(&mut pool, MIB, 4);
        let refused = queue.take(1, &mut pool).expect_err("over budget");
        assert_eq!((refused.held_bytes, refused.budget_bytes), (4 * MIB, 4 * MIB));
        queue.release_all(&mut pool);
        assert!(queue.take(1, &mut pool).is_err(), "slices are still held");
        drop(slices);
        queue.take(3 * MIB, &mut pool).expect("idle chunks make room");
        assert!(pool.total() <= 4 * MIB);
    }

    #[test]
    fn at_most_half_the_budget_lies_idle_and_trimming_gives_it_back() {
        let mut pool = ChunkPool::new(8 * MIB);
        let (mut queue, slices) = filled(&mut pool, MIB, 8);
        drop(slices);
        queue.release_all(&mut pool);
        assert_eq!(pool.bytes_idle(), 4 * MIB);
        pool.trim_idle(MIB);
        assert_eq!(pool.bytes_idle(), MIB);
        pool.trim_idle(0);
        assert!(pool.idle.is_empty());
    }

    #[test]
    fn a_clone_releases_its_own_count_and_leaves_the_memory_to_the_original() {
        let mut pool = ChunkPool::new(8 * MIB);
        let (mut queue, slices) = filled(&mut pool, MIB, 2);
        let (mut pool_clone, mut queue_clone) = (pool.clone(), queue.clone());
        queue_clone.release_all(&mut pool_clone);
        assert_eq!((pool_clone.bytes_held(), pool_clone.bytes_idle(), pool.bytes_held()), (0, 0, 2 * MIB));
        assert!(!queue_clone.fits(0) && queue_clone.open_bytes().is_empty());
        drop(slices);
        queue.release_all(&mut pool);
        assert_eq!(pool.bytes_idle(), 2 * MIB);
    }
}
