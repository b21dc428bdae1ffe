//! A hierarchical timing wheel: deadlines for dense `u32` keys, each of which costs O(1) to set, cancel and expire.
//!
//! The shape is that of Kafka's `TimingWheel` (tick 1 ms, 20 slots a level, a level's tick is the span of the level
//! below, overflow levels on demand), with two differences. Levels are aligned: a deadline sits in the lowest level
//! whose current revolution contains it, so that all deadlines of one tick are always in one bucket and keep their
//! order when they move down. And a deadline is rounded up to a tick, where Kafka rounds down: it never fires early
//! and at most one tick late.
//!
//! The wheel knows nothing of what its keys stand for; they are meant to be the keys of a slab.

use crate::base::Instant;

/// The length of a tick of the lowest level, in nanoseconds.
const TICK_NANOS: u64 = 1_000_000;
/// Buckets in a level.
const SLOTS: usize = 20;
/// The span of a bucket by level, in ticks. Sixty-four bits of nanoseconds reach into no higher level.
const WIDTHS: [u64; 11] = {
    let mut widths = [1; 11];
    let mut level = 1;
    while level < widths.len() {
        widths[level] = widths[level - 1] * SLOTS as u64;
        level += 1;
    }
    widths
};
/// Marks an entry that is in no bucket.
const UNLINKED: u32 = u32::MAX;
/// In `prev` and `next`: the neighbour is the end of the bucket whose number is in the other bits.
const END: u32 = 1 << 31;
/// With more entries than this, a coarse bucket is to be moved down somewhat before its first deadline, as that may
/// take time.
const LARGE: usize = 4096;
/// How many entries are reckoned to move down a level in one tick, at the least.
const MOVED_PER_TICK: usize = 20_000;

/// Deadlines by key, handed out in the order of their ticks, and first come first served within a tick.
#[derive(Clone, Debug, Default)]
pub struct TimingWheel {
    /// By key.
    entries: Vec<Entry>,
    /// `SLOTS` for each level that was needed so far, lowest level first.
    buckets: Vec<Bucket>,
    /// For each level, a bit for each bucket that has entries.
    occupied: Vec<u32>,
    /// The current tick. No linked entry belongs to an earlier one, and no occupied bucket above the lowest level
    /// contains it.
    clock: u64,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    deadline: Instant,
    prev: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    head: u32,
    tail: u32,
    /// No entry belongs to an earlier tick; the entry that did may have been cancelled.
    earliest: u64,
}

impl Entry {
    const VACANT: Entry = Entry { deadline: Instant::NEVER, prev: UNLINKED, next: UNLINKED };
}

impl Bucket {
    const EMPTY: Bucket = Bucket { head: UNLINKED, tail: UNLINKED, earliest: u64::MAX };
}

impl TimingWheel {
    /// A wheel without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many keys have a deadline that can come (any but [`Instant::NEVER`]).
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no key has a deadline that can come.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The deadline of `key`; [`Instant::NEVER`] if it has none.
    pub fn deadline(&self, key: u32) -> Instant {
        self.entries.get(key as usize).map_or(Instant::NEVER, |entry| entry.deadline)
    }

    /// Sets the deadline of `key` in place of the one it had. A deadline that has passed is handed out by the next
    /// [`pop_expired`](Self::pop_expired). Memory is in proportion to the largest key, which is below 2^31.
    pub fn schedule(&mut self, now: Instant, key: u32, deadline: Instant) {
        debug_assert!(key < END, "keys are dense and below 2^31");
        self.cancel(key);
        if self.entries.len() <= key as usize {
            self.entries.resize(key as usize + 1, Entry::VACANT);
        }
        self.entries[key as usize].deadline = deadline;
        if deadline == Instant::NEVER {
            return;
        }
        if self.len == 0 {
            self.clock = self.clock.max(now.as_millis());
        }
        self.len += 1;
        self.link(key, tick_of(deadline));
    }

    /// Takes the deadline of `key` away and returns it; [`Instant::NEVER`] if it has none.
    pub fn cancel(&mut self, key: u32) -> Instant {
        let Some(entry) = self.entries.get_mut(key as usize) else { return Instant::NEVER };
        let Entry { prev, next, deadline } = std::mem::replace(entry, Entry::VACANT);
        if prev != UNLINKED {
            self.unlink(prev, next);
            self.len -= 1;
        }
        deadline
    }

    /// Takes the first key, with its deadline, whose deadline, rounded up to a tick, is not after `now`. Jumps over any span of time in
    /// O(levels); an entry moves down once a level at most.
    pub fn pop_expired(&mut self, now: Instant) -> Option<(u32, Instant)> {
        let now_tick = now.as_millis();
        while let Some((level, slot)) = self.first_occupied() {
            let start = self.start_of(level, slot);
            if start > now_tick {
                break;
            }
            if level > 0 {
                self.cascade(level, slot, start, now_tick);
                continue;
            }
            self.clock = start;
            let key = self.buckets[slot].head;
            return Some((key, self.cancel(key)));
        }
        self.clock = self.clock.max(now_tick);
        None
    }

    /// When to call [`pop_expired`](Self::pop_expired) next; `None` if there is nothing to wait for. Exact (the
    /// earliest deadline, rounded up to a tick) unless an entry was cancelled that was the first of a coarse bucket
    /// (then maybe earlier) or very many entries will have to be moved down (then a few ticks earlier); each such
    /// early call makes progress. O(levels).
    pub fn next_deadline(&self) -> Option<Instant> {
        let (level, slot) = self.first_occupied()?;
        if level == 0 {
            return Some(Instant::from_millis(self.start_of(level, slot)));
        }
        let bucket = &self.buckets[level * SLOTS + slot];
        let lead = if self.len > LARGE { 1 + self.len / MOVED_PER_TICK } else { 0 };
        let tick = bucket.earliest.saturating_sub(lead as u64).max(self.start_of(level, slot));
        Some(Instant::from_millis(tick))
    }

    /// Gives memory back that only an earlier, larger number of keys needed; no key may have a deadline.
    pub(super) fn shrink(&mut self) {
        debug_assert!(self.is_empty());
        self.entries = Vec::new();
    }

    /// Something to read where [`cancel`](Self::cancel) will have to write.
    pub(super) fn read_ahead(&self, key: u32) -> u32 {
        let read = |key: u32| self.entries.get(key as usize).map_or(0, |entry| entry.prev);
        self.entries.get(key as usize).map_or(0, |entry| read(entry.prev) ^ read(entry.next))
    }

    /// The bucket that comes first: levels follow each other in time, and so do the slots within one.
    fn first_occupied(&self) -> Option<(usize, usize)> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        Some((level, self.occupied[level].trailing_zeros() as usize))
    }

    /// The first tick of a bucket that does not lie before the clock.
    fn start_of(&self, level: usize, slot: usize) -> u64 {
        if level == 0 {
            return self.clock - self.clock % SLOTS as u64 + slot as u64;
        }
        let width = WIDTHS[level];
        let revolution = width * SLOTS as u64;
        self.clock - self.clock % revolution + width * slot as u64
    }

    /// Moves a bucket's entries to lower levels, in their order, once the clock can enter it.
    fn cascade(&mut self, level: usize, slot: usize, start: u64, now_tick: u64) {
        let bucket = std::mem::replace(&mut self.buckets[level * SLOTS + slot], Bucket::EMPTY);
        self.occupied[level] &= !(1 << slot);
        // No entry is due before `earliest`, so the clock may enter the bucket as far as that.
        self.clock = start.max(now_tick.min(bucket.earliest));
        let mut key = bucket.head;
        while key & END == 0 {
            let Entry { deadline, next, .. } = self.entries[key as usize];
            self.link(key, tick_of(deadline));
            key = next;
        }
    }

    fn link(&mut self, key: u32, tick: u64) {
        let tick = tick.max(self.clock);
        let (level, slot) = self.place(tick);
        let number = level * SLOTS + slot;
        let end = END | number as u32;
        let bucket = &mut self.buckets[number];
        let tail = std::mem::replace(&mut bucket.tail, key);
        let entry = &mut self.entries[key as usize];
        entry.next = end;
        if tail == UNLINKED {
            bucket.head = key;
            bucket.earliest = tick;
            self.occupied[level] |= 1 << slot;
            entry.prev = end;
        } else {
            bucket.earliest = bucket.earliest.min(tick);
            entry.prev = tail;
            self.entries[tail as usize].next = key;
        }
    }

    /// Closes the gap that an entry with these neighbours leaves.
    fn unlink(&mut self, prev: u32, next: u32) {
        if prev & END == 0 {
            self.entries[prev as usize].next = next;
        }
        if next & END == 0 {
            self.entries[next as usize].prev = prev;
        }
        if prev & next & END != 0 {
            let number = (prev & !END) as usize;
            self.buckets[number] = Bucket::EMPTY;
            self.occupied[number / SLOTS] &= !(1 << (number % SLOTS));
        } else if prev & END != 0 {
            self.buckets[(prev & !END) as usize].head = next;
        } else if next & END != 0 {
            self.buckets[(next & !END) as usize].tail = prev;
        }
    }

    /// The level and slot of a tick: the lowest level whose current revolution contains it. Adds missing levels.
    fn place(&mut self, tick: u64) -> (usize, usize) {
        let slots = SLOTS as u64;
        let (mut level, mut tick, mut clock) = (0, tick, self.clock);
        while tick / slots != clock / slots {
            level += 1;
            tick /= slots;
            clock /= slots;
        }
        while self.occupied.len() <= level {
            self.occupied.push(0);
            self.buckets.extend([Bucket::EMPTY; SLOTS]);
        }
        (level, (tick % slots) as usize)
    }
}

/// The tick at whose start a deadline fires: the first that does not start before it.
fn tick_of(deadline: Instant) -> u64 {
    deadline.as_nanos().div_ceil(TICK_NANOS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes everything that is due at `millis`.
    fn pop_all(wheel: &mut TimingWheel, millis: u64) -> Vec<u32> {
        std::iter::from_fn(|| wheel.pop_expired(Instant::from_millis(millis))).map(|(key, _)| key).collect()
    }

    fn with(deadlines_ms: &[u64]) -> TimingWheel {
        let mut wheel = TimingWheel::new();
        for (key, &millis) in deadlines_ms.iter().enumerate() {
            wheel.schedule(Instant::ZERO, key as u32, Instant::from_millis(millis));
        }
        wheel
    }

    #[test]
    fn levels_are_added_when_they_are_needed() {
        assert_eq!(with(&[19]).occupied.len(), 1);
        assert_eq!(with(&[20]).occupied.len(), 2);
        assert_eq!(with(&[399, 400]).occupied.len(), 3);
        let mut wheel = with(&[1, 25, 400, 8_000, 160_000]);
        assert_eq!(wheel.occupied.len(), 5);
        assert_eq!(pop_all(&mut wheel, 200_000), [0, 1, 2, 3, 4]);
        assert!(wheel.is_empty());
    }

    #[test]
    fn what_is_due_already_is_handed_out_at_once() {
        let mut wheel = with(&[50]);
        assert_eq!(pop_all(&mut wheel, 40), [0u32; 0]);
        wheel.schedule(Instant::from_millis(40), 1, Instant::from_millis(40));
        wheel.schedule(Instant::from_millis(40), 2, Instant::from_millis(3));
        assert_eq!(wheel.next_deadline(), Some(Instant::from_millis(40)));
        assert_eq!(pop_all(&mut wheel, 40), [1, 2]);
        assert_eq!(pop_all(&mut wheel, 50), [0]);
    }

    #[test]
    fn one_tick_keeps_its_order_over_all_levels() {
        // The same millisecond, reached from ever nearer: each is added to a lower level than the one before it.
        let mut wheel = with(&[8_005, 8_004]);
        for (key, now) in [(2, 7_000), (3, 7_990), (4, 7_999), (5, 8_001), (6, 8_004)] {
            assert_eq!(pop_all(&mut wheel, now), if now == 8_004 { vec![1] } else { vec![] });
            wheel.schedule(Instant::from_millis(now), key, Instant::from_millis(8_005));
        }
        assert_eq!(pop_all(&mut wheel, 8_005), [0, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn rounds_up_to_a_tick_and_is_never_early() {
        let mut wheel = TimingWheel::new();
        wheel.schedule(Instant::ZERO, 0, Instant::from_nanos(5_000_001));
        assert_eq!(wheel.pop_expired(Instant::from_nanos(5_999_999)), None);
        assert_eq!(wheel.next_deadline(), Some(Instant::from_millis(6)));
        let expired = wheel.pop_expired(Instant::from_millis(6));
        assert_eq!(expired, Some((0, Instant::from_nanos(5_000_001))), "the exact deadline is kept");
    }

    #[test]
    fn cancelled_and_moved_deadlines_leave_nothing_behind() {
        let mut wheel = with(&[10, 10, 10, 500]);
        assert_eq!(wheel.cancel(1), Instant::from_millis(10));
        assert_eq!(wheel.cancel(1), Instant::NEVER);
        assert_eq!(wheel.cancel(1000), Instant::NEVER);
        wheel.schedule(Instant::ZERO, 0, Instant::from_millis(600));
        assert_eq!((wheel.len(), wheel.deadline(0)), (3, Instant::from_millis(600)));
        assert_eq!(pop_all(&mut wheel, 10), [2]);
        wheel.cancel(3);
        assert_eq!(pop_all(&mut wheel, 1000), [0]);
        assert_eq!(wheel.next_deadline(), None);
    }

    #[test]
    fn the_longest_timeouts_and_never() {
        let mut wheel = TimingWheel::new();
        let now = Instant::from_nanos(1_000_000_000_000_123);
        let longest = now.after_timeout_ms(i32::MAX);
        let end = Instant::from_nanos(u64::MAX - 1);
        wheel.schedule(now, 0, Instant::NEVER);
        wheel.schedule(now, 1, end);
        wheel.schedule(now, 2, longest);
        assert_eq!((wheel.len(), wheel.occupied.len() <= 11), (2, true));
        assert_eq!(wheel.pop_expired(longest), None);
        assert_eq!(wheel.next_deadline(), Some(Instant::from_millis(longest.as_millis() + 1)));
        assert_eq!(wheel.pop_expired(Instant::from_millis(longest.as_millis() + 1)), Some((2, longest)));
        assert_eq!(wheel.pop_expired(Instant::from_nanos(u64::MAX - 2)), None);
        assert_eq!(wheel.cancel(1), end);
    }

    #[test]
    fn a_sleeper_wakes_exactly_then_whatever_the_distance() {
        for distance in [1, 19, 20, 21, 399, 400, 12_345, 3_600_000, i32::MAX as u64] {
            let mut wheel = TimingWheel::new();
            let now = Instant::from_millis(777);
            wheel.schedule(now, 0, now.after_timeout_ms(distance as i32));
            assert_eq!(wheel.next_deadline(), Some(Instant::from_millis(777 + distance)));
            assert_eq!(pop_all(&mut wheel, 777 + distance), [0]);
        }
    }

    #[test]
    fn a_crowd_is_moved_down_before_it_is_due() {
        let mut wheel = with(&vec![9_000; LARGE + 1]);
        let early = wheel.next_deadline().expect("some are due").as_millis();
        assert!((8_990..9_000).contains(&early), "{early}");
        assert_eq!(pop_all(&mut wheel, early), [0u32; 0]);
        assert_eq!(wheel.next_deadline(), Some(Instant::from_millis(9_000)), "progress");
        assert_eq!(pop_all(&mut wheel, 9_000).len(), LARGE + 1);
    }
}
