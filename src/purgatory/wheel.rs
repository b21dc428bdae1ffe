//! A hierarchical timing wheel: deadlines for dense `u32` keys, each of which costs O(1) to set, cancel and expire.
//!
//! The shape is that of Kafka's `TimingWheel` (tick 1 ms, 20 slots a level, a level's tick is the span of the level
//! below, overflow levels on demand), with three differences. Levels are aligned: a deadline sits in the lowest level
//! whose current revolution contains it, so that all deadlines of one tick are always in one bucket and keep their
//! order when they move down. There are 64 slots a level, so that no place has to be divided for. And a deadline is
//! rounded up to a tick, where Kafka rounds down: it never fires early and at most one tick late.
//!
//! The wheel knows nothing of what its keys stand for; they are meant to be the keys of a slab, which keeps the deadline
//! of each beside whatever else is known of it, so that both come from memory together: see [`Timed`].

use crate::base::Instant;

use super::lists::{Chunk, List, Lists, NONE};

/// The length of a tick of the lowest level, in nanoseconds.
const TICK_NANOS: u64 = 1_000_000;
/// Buckets in a level: a power of two, so that the level and the bucket of a tick are bits of it.
const SLOTS: usize = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 6;
/// A level has buckets for its current revolution and for the next one, into which entries are moved down early.
const RING: usize = 2 * SLOTS;
/// With more entries than this, coarse buckets are moved down bit by bit before the clock enters them, as that may take
/// long.
const LARGE: usize = 4096;
/// How many entries are moved down early in one tick.
const MOVED_PER_TICK: usize = 5_000;

/// What has a deadline, by key.
pub(super) trait Timed {
    /// The deadline of `key`.
    fn deadline(&self, key: u32) -> Instant;

    /// Sets where the wheel has `key` now, of which [`TimingWheel::schedule`] told.
    fn set_place(&mut self, key: u32, place: u32);

    /// Has what is known of `key` come from memory.
    fn fetch(&self, key: u32);
}

/// The place of a key that the wheel doesn't have.
pub(super) const NOWHERE: u32 = NONE;

/// Keys in the order of the ticks of their deadlines, and first come first served within a tick.
#[derive(Clone, Debug, Default)]
pub(super) struct TimingWheel {
    /// `RING` for each level that was needed so far, lowest level first.
    buckets: Vec<Bucket>,
    /// Of the buckets, by their number.
    lists: Lists,
    /// For each level, a bit for each bucket that has entries.
    occupied: Vec<u128>,
    /// The current tick. No linked entry belongs to an earlier one, and no occupied bucket above the lowest level
    /// contains it.
    clock: u64,
    /// The tick in which entries were last moved down early.
    moved_early: u64,
    len: usize,
    /// The chunk for which [`chunks_ahead`](Self::chunks_ahead) was asked last.
    shown: u32,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    list: List,
    /// No entry belongs to an earlier tick; the entry that did may have been cancelled, or moved down early.
    earliest: u64,
}

impl Bucket {
    const EMPTY: Bucket = Bucket { list: List::EMPTY, earliest: u64::MAX };
}

impl TimingWheel {
    /// A wheel without entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether no key has a deadline that can come.
    fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes up `key`, which the wheel doesn't have, with its deadline, and returns its place. A deadline that has passed
    /// is handed out by the next [`first_expired`](Self::first_expired).
    #[inline]
    pub fn schedule(&mut self, now: Instant, key: u32, deadline: Instant) -> u32 {
        if deadline == Instant::NEVER {
            return NOWHERE;
        }
        if self.len == 0 {
            self.clock = self.clock.max(now.as_millis());
        }
        self.len += 1;
        self.link(key, tick_of(deadline))
    }

    /// Takes out the key at a place.
    pub fn cancel(&mut self, place: u32) {
        if place != NOWHERE {
            self.unlink(place);
            self.len -= 1;
        }
    }

    /// The first key whose deadline, rounded up to a tick, is not after `now`. It stays, and is the first again until it
    /// is cancelled. Jumps over any span of time in O(levels); an entry moves down once a level at most.
    pub fn first_expired(&mut self, entries: &mut impl Timed, now: Instant) -> Option<u32> {
        let now_tick = now.as_millis();
        while let Some((level, start)) = self.first_occupied() {
            if start > now_tick {
                break;
            }
            self.clock = start;
            let number = bucket_number(level, start);
            if level == 0 {
                return self.lists.first(&self.buckets[number].list);
            }
            self.move_down(entries, level, start, usize::MAX);
        }
        if self.moved_early < now_tick {
            self.clock = self.clock.max(now_tick);
            self.moved_early = now_tick;
            self.move_early(entries);
        }
        None
    }

    /// When to call [`first_expired`](Self::first_expired) next; `None` if there is nothing to wait for. Exact (the
    /// earliest deadline, rounded up to a tick) unless an entry was cancelled that was the first of a coarse bucket
    /// (then maybe earlier) or very many entries are to be moved down (then in time for that, tick by tick); each such
    /// early call makes progress. O(levels).
    pub fn next_deadline(&self) -> Option<Instant> {
        let (level, start) = self.first_occupied()?;
        let first = if level == 0 { start } else { self.buckets[bucket_number(level, start)].earliest };
        let early = if self.len > LARGE { self.next_early_move() } else { None };
        Some(Instant::from_millis(early.map_or(first, |early| first.min(early))))
    }

    /// Gives memory back that only an earlier, larger number of keys needed; no key may have a deadline.
    pub fn shrink(&mut self) {
        debug_assert!(self.is_empty());
        self.lists = Lists::default();
    }

    /// The two chunks behind the one that a place is in, unless they were shown last time.
    pub fn chunks_ahead(&mut self, place: u32) -> Option<[Option<Chunk>; 2]> {
        let number = Lists::chunk_of(place)?;
        if std::mem::replace(&mut self.shown, number) == number {
            return None;
        }
        let behind = |chunk: &Chunk| chunk.next().map(|next| *self.lists.chunk(next));
        let next = behind(self.lists.chunk(number));
        Some([next, next.as_ref().and_then(behind)])
    }

    /// Has what [`cancel`](Self::cancel) will change come from memory.
    pub fn fetch(&self, place: u32) {
        self.lists.fetch(place);
    }

    /// The level and first tick of the bucket that comes first: of those that begin in the same tick the coarsest, whose
    /// entries may belong into the others.
    fn first_occupied(&self) -> Option<(usize, u64)> {
        let mut first: Option<(usize, u64)> = None;
        for level in 0..self.occupied.len() {
            let Some(start) = self.first_of(level) else { continue };
            if first.is_none_or(|(_, earliest)| start <= earliest) {
                first = Some((level, start));
            }
            // The higher levels have nothing in the current revolution of this one.
            if (start ^ self.clock) >> ((level as u32 + 1) * SLOT_BITS) == 0 {
                break;
            }
        }
        first
    }

    /// The first tick of the first bucket of a level that has entries.
    fn first_of(&self, level: usize) -> Option<u64> {
        let bits = level as u32 * SLOT_BITS;
        let position = self.clock >> bits;
        let ahead = self.occupied[level].rotate_right((position % RING as u64) as u32).trailing_zeros();
        (ahead < u128::BITS).then_some((position + u64::from(ahead)) << bits)
    }

    /// Moves some entries down from the coarse buckets that the clock is to enter soon.
    fn move_early(&mut self, entries: &mut impl Timed) {
        let mut budget = if self.len > LARGE { MOVED_PER_TICK } else { 0 };
        for level in 1..self.occupied.len() {
            if budget == 0 {
                break;
            }
            if let Some(start) = self.first_of(level).filter(|&start| self.early(level, start) <= self.clock)
            {
                budget = budget.saturating_sub(self.move_down(entries, level, start, budget));
            }
        }
    }

    /// When [`move_early`](Self::move_early) has something to do.
    fn next_early_move(&self) -> Option<u64> {
        let starts = (1..self.occupied.len()).filter_map(|level| Some((level, self.first_of(level)?)));
        let early = starts.map(|(level, start)| self.early(level, start)).min()?;
        Some(early.max(self.clock + 1))
    }

    /// From which tick on the entries of a bucket can be moved down: half of the time is left to spare, and the level
    /// below has no room for them before its next revolution is theirs.
    fn early(&self, level: usize, start: u64) -> u64 {
        let width = 1 << (level as u32 * SLOT_BITS);
        start.saturating_sub(width.min(2 * (1 + self.len / MOVED_PER_TICK) as u64))
    }

    /// Moves the first entries of a bucket, about `most`, down a level, in their order. Returns how many. The clock is in
    /// the bucket or in the one before it.
    fn move_down(&mut self, entries: &mut impl Timed, level: usize, start: u64, most: usize) -> usize {
        let number = bucket_number(level, start);
        let mut list = std::mem::replace(&mut self.buckets[number].list, List::EMPTY);
        let mut moved = 0;
        for key in list.take_own() {
            self.link_at(entries, level - 1, key);
            moved += 1;
        }
        while moved < most
            && let Some(chunk) = self.lists.pop_chunk(&mut list)
        {
            if let Some(next) = list.head() {
                self.lists.chunk(next).items().for_each(|key| entries.fetch(key));
            }
            for key in chunk.items() {
                self.link_at(entries, level - 1, key);
                moved += 1;
            }
        }
        if list.is_empty() {
            self.empty(number);
        } else {
            self.buckets[number].list = list;
        }
        moved
    }

    fn link_at(&mut self, entries: &mut impl Timed, level: usize, key: u32) {
        let tick = tick_of(entries.deadline(key)).max(self.clock);
        entries.set_place(key, self.push(level, key, tick));
    }

    /// Puts a key into the lowest level whose current revolution contains its tick. Adds missing levels.
    fn link(&mut self, key: u32, tick: u64) -> u32 {
        let tick = tick.max(self.clock);
        let highest = (tick ^ self.clock).checked_ilog2().unwrap_or(0);
        let level = (highest / SLOT_BITS) as usize;
        while self.occupied.len() <= level {
            self.occupied.push(0);
            self.buckets.extend([Bucket::EMPTY; RING]);
        }
        self.push(level, key, tick)
    }

    fn push(&mut self, level: usize, key: u32, tick: u64) -> u32 {
        let number = bucket_number(level, tick);
        let bucket = &mut self.buckets[number];
        bucket.earliest = bucket.earliest.min(tick);
        self.occupied[level] |= 1 << (number % RING);
        self.lists.push(&mut bucket.list, number as u32, key)
    }

    fn unlink(&mut self, place: u32) {
        let buckets = &mut self.buckets;
        if let Some(number) = self.lists.remove(place, |number| &mut buckets[number as usize].list) {
            self.empty(number as usize);
        }
    }

    /// What is to be done when a bucket has lost its last entry.
    fn empty(&mut self, number: usize) {
        self.buckets[number].earliest = u64::MAX;
        self.occupied[number / RING] &= !(1 << (number % RING));
    }
}

/// Where the bucket is that a tick belongs into at a level.
fn bucket_number(level: usize, tick: u64) -> usize {
    level * RING + (tick >> (level as u32 * SLOT_BITS)) as usize % RING
}

/// The tick at whose start a deadline fires: the first that does not start before it.
fn tick_of(deadline: Instant) -> u64 {
    deadline.as_nanos().div_ceil(TICK_NANOS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::base::entropy::Entropy;

    use super::*;

    /// A wheel with its keys' deadlines and places.
    #[derive(Default)]
    struct Timer {
        wheel: TimingWheel,
        entries: Entries,
    }

    #[derive(Default)]
    struct Entries(Vec<(Instant, u32)>);

    impl Timed for Entries {
        fn deadline(&self, key: u32) -> Instant {
            self.0[key as usize].0
        }

        fn set_place(&mut self, key: u32, place: u32) {
            self.0[key as usize].1 = place;
        }

        fn fetch(&self, _: u32) {}
    }

    impl Timer {
        fn schedule(&mut self, now: Instant, key: u32, deadline: Instant) {
            self.cancel(key);
            let len = self.entries.0.len().max(key as usize + 1);
            self.entries.0.resize(len, (Instant::NEVER, NOWHERE));
            self.entries.0[key as usize] = (deadline, self.wheel.schedule(now, key, deadline));
        }

        fn cancel(&mut self, key: u32) -> Instant {
            let Some(entry) = self.entries.0.get_mut(key as usize) else { return Instant::NEVER };
            let (deadline, place) = std::mem::replace(entry, (Instant::NEVER, NOWHERE));
            self.wheel.cancel(place);
            deadline
        }

        fn pop_expired(&mut self, now: Instant) -> Option<(u32, Instant)> {
            let key = self.wheel.first_expired(&mut self.entries, now)?;
            Some((key, self.cancel(key)))
        }

        fn next_deadline(&self) -> Option<Instant> {
            self.wheel.next_deadline()
        }
    }

    /// Takes everything that is due at `millis`.
    fn pop_all(timer: &mut Timer, millis: u64) -> Vec<u32> {
        std::iter::from_fn(|| timer.pop_expired(Instant::from_millis(millis))).map(|(key, _)| key).collect()
    }

    fn with(deadlines_ms: &[u64]) -> Timer {
        let mut timer = Timer::default();
        for (key, &millis) in deadlines_ms.iter().enumerate() {
            timer.schedule(Instant::ZERO, key as u32, Instant::from_millis(millis));
        }
        timer
    }

    #[test]
    fn levels_are_added_when_they_are_needed() {
        assert_eq!(with(&[63]).wheel.occupied.len(), 1);
        assert_eq!(with(&[64]).wheel.occupied.len(), 2);
        assert_eq!(with(&[4095, 4096]).wheel.occupied.len(), 3);
        let mut timer = with(&[1, 25, 400, 8_000, 160_000]);
        assert_eq!(timer.wheel.occupied.len(), 3);
        assert_eq!(pop_all(&mut timer, 200_000), [0, 1, 2, 3, 4]);
        assert!(timer.wheel.is_empty());
    }

    #[test]
    fn what_is_due_already_is_handed_out_at_once() {
        let mut timer = with(&[50]);
        assert_eq!(pop_all(&mut timer, 40), [0u32; 0]);
        timer.schedule(Instant::from_millis(40), 1, Instant::from_millis(40));
        timer.schedule(Instant::from_millis(40), 2, Instant::from_millis(3));
        assert_eq!(timer.next_deadline(), Some(Instant::from_millis(40)));
        assert_eq!(pop_all(&mut timer, 40), [1, 2]);
        assert_eq!(pop_all(&mut timer, 50), [0]);
    }

    #[test]
    fn one_tick_keeps_its_order_over_all_levels() {
        // The same millisecond, reached from ever nearer: each is added to a lower level than the one before it.
        let mut timer = with(&[8_005, 8_004]);
        for (key, now) in [(2, 7_000), (3, 7_990), (4, 7_999), (5, 8_001), (6, 8_004)] {
            assert_eq!(pop_all(&mut timer, now), if now == 8_004 { vec![1] } else { vec![] });
            timer.schedule(Instant::from_millis(now), key, Instant::from_millis(8_005));
        }
        assert_eq!(pop_all(&mut timer, 8_005), [0, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn rounds_up_to_a_tick_and_is_never_early() {
        let mut timer = Timer::default();
        timer.schedule(Instant::ZERO, 0, Instant::from_nanos(5_000_001));
        assert_eq!(timer.pop_expired(Instant::from_nanos(5_999_999)), None);
        assert_eq!(timer.next_deadline(), Some(Instant::from_millis(6)));
        let expired = timer.pop_expired(Instant::from_millis(6));
        assert_eq!(expired, Some((0, Instant::from_nanos(5_000_001))), "the exact deadline is kept");
    }

    #[test]
    fn cancelled_and_moved_deadlines_leave_nothing_behind() {
        let mut timer = with(&[10, 10, 10, 500]);
        assert_eq!(timer.cancel(1), Instant::from_millis(10));
        assert_eq!(timer.cancel(1), Instant::NEVER);
        assert_eq!(timer.cancel(1000), Instant::NEVER);
        timer.schedule(Instant::ZERO, 0, Instant::from_millis(600));
        assert_eq!((timer.wheel.len, timer.entries.deadline(0)), (3, Instant::from_millis(600)));
        assert_eq!(pop_all(&mut timer, 10), [2]);
        timer.cancel(3);
        assert_eq!(pop_all(&mut timer, 1000), [0]);
        assert_eq!(timer.next_deadline(), None);
    }

    #[test]
    fn the_longest_timeouts_and_never() {
        let mut timer = Timer::default();
        let now = Instant::from_nanos(1_000_000_000_000_123);
        let longest = now.after_timeout_ms(i32::MAX);
        let end = Instant::from_nanos(u64::MAX - 1);
        timer.schedule(now, 0, Instant::NEVER);
        timer.schedule(now, 1, end);
        timer.schedule(now, 2, longest);
        assert_eq!((timer.wheel.len, timer.wheel.occupied.len() <= 12), (2, true));
        assert_eq!(timer.pop_expired(longest), None);
        assert_eq!(timer.next_deadline(), Some(Instant::from_millis(longest.as_millis() + 1)));
        assert_eq!(timer.pop_expired(Instant::from_millis(longest.as_millis() + 1)), Some((2, longest)));
        assert_eq!(timer.pop_expired(Instant::from_nanos(u64::MAX - 2)), None);
        assert_eq!(timer.cancel(1), end);
    }

    #[test]
    fn a_sleeper_wakes_exactly_then_whatever_the_distance() {
        for distance in [1, 63, 64, 65, 4095, 4096, 12_345, 3_600_000, i32::MAX as u64] {
            let mut timer = Timer::default();
            let now = Instant::from_millis(777);
            timer.schedule(now, 0, now.after_timeout_ms(distance as i32));
            assert_eq!(timer.next_deadline(), Some(Instant::from_millis(777 + distance)));
            assert_eq!(pop_all(&mut timer, 777 + distance), [0]);
        }
    }

    #[test]
    fn a_crowd_is_moved_down_before_it_is_due() {
        let mut timer = with(&vec![9_000; LARGE + 1]);
        let mut ticks = Vec::new();
        loop {
            ticks.push(timer.next_deadline().expect("some are due").as_millis());
            let due = pop_all(&mut timer, ticks[ticks.len() - 1]);
            if due.len() == LARGE + 1 {
                break;
            }
            assert_eq!(due, [0u32; 0]);
        }
        // Two ticks before each of the buckets that 9,000 is in, the coarsest first.
        assert_eq!(ticks, [8_192 - 2, 8_960 - 2, 9_000]);
    }

    #[test]
    fn a_crowd_is_moved_down_early_though_every_tick_has_something_due() {
        let crowd = (0..20_000).map(|number| 128 + number % 64);
        let mut timer = with(&(1..128).chain(crowd).collect::<Vec<_>>());
        for tick in 1..128 {
            assert_eq!(pop_all(&mut timer, tick), [tick as u32 - 1]);
        }
        assert!(timer.wheel.buckets[bucket_number(1, 128)].list.is_empty());
        assert_eq!(pop_all(&mut timer, 191).len(), 20_000);
    }

    /// Who calls at each `next_deadline` gets everything in its tick, and in the order of arrival, while a crowd that takes
    /// many ticks to move down comes, grows, shrinks and is jumped into.
    #[test]
    fn a_crowd_keeps_its_order_on_its_way_down() {
        for (seed, jump) in [(1, 0), (2, 0), (3, 300), (4, 5_000)] {
            let mut entropy = Entropy::new(seed);
            let mut timer = Timer::default();
            // By tick, then by when they came.
            let mut expected = BTreeSet::new();
            let mut now = 100_000;
            let mut count = 0;
            let mut add = |timer: &mut Timer, expected: &mut BTreeSet<_>, now: u64, tick: u64| {
                timer.schedule(Instant::from_millis(now), count, Instant::from_millis(tick));
                expected.insert((tick, count));
                count += 1;
                count
            };
            for _ in 0..40_000 {
                let tick = now + 500 + entropy.below(4_000);
                add(&mut timer, &mut expected, now, tick);
            }
            while let Some(next) = timer.next_deadline() {
                now = next.as_millis() + if entropy.below(50) == 0 { jump } else { 0 };
                while let Some((key, _)) = timer.pop_expired(Instant::from_millis(now)) {
                    let (tick, first) = expected.pop_first().expect("something is expected");
                    assert_eq!(
                        (first, tick <= now, jump > 0 || tick == now),
                        (key, true, true),
                        "seed {seed}"
                    );
                }
                assert!(expected.first().is_none_or(|&(tick, _)| tick > now), "seed {seed}");
                if now < 104_000 {
                    let tick = now + 1 + entropy.below(700);
                    let count = add(&mut timer, &mut expected, now, tick);
                    let gone = entropy.below(u64::from(count)) as u32;
                    let deadline = timer.cancel(gone);
                    assert_eq!(deadline != Instant::NEVER, expected.remove(&(deadline.as_millis(), gone)));
                }
            }
            assert!(expected.is_empty() && timer.wheel.is_empty(), "seed {seed}");
        }
    }
}
