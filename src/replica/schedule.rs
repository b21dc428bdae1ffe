//! When to look at which log, as deadlines rather than rounds over all logs.
//!
//! Kafka's background threads look at all logs every so often. People rely on when they do (old timestamps in tests,
//! above all), so what is due here is done at the next of those moments; but no log is looked at that has nothing to do.

use std::collections::BTreeSet;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::base::{Instant, PartitionKey};

/// When each log has something to do, and the rounds in which it is done.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    first_round: Instant,
    interval: Duration,
    due: BTreeSet<(Instant, PartitionKey)>,
    by_key: FxHashMap<PartitionKey, Scheduled>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Scheduled {
    due: Option<Instant>,
    /// How many segments the log had when it was last looked at.
    segments: usize,
}

impl Schedule {
    pub(super) fn new(first_round: Instant, interval: Duration) -> Self {
        let mut schedule = Schedule {
            first_round,
            interval: Duration::ZERO,
            due: BTreeSet::new(),
            by_key: FxHashMap::default(),
        };
        schedule.set_interval(interval);
        schedule
    }

    pub(super) fn set_interval(&mut self, interval: Duration) {
        self.interval = interval.max(Duration::from_millis(1));
    }

    /// A log was looked at: when it has something to do, if ever, and how many segments it has.
    pub(super) fn set(&mut self, key: PartitionKey, due: Option<Instant>, segments: usize) {
        let before = self.by_key.insert(key, Scheduled { due, segments }).and_then(|before| before.due);
        if before != due {
            before.map(|before| self.due.remove(&(before, key)));
            self.due.extend(due.map(|due| (due, key)));
        }
    }

    /// When a log has something to do, as far as is known.
    pub(super) fn due(&self, key: PartitionKey) -> Option<Instant> {
        self.by_key.get(&key)?.due
    }

    /// How many segments a log had when it was last looked at.
    pub(super) fn segments(&self, key: PartitionKey) -> usize {
        self.by_key.get(&key).map_or(0, |scheduled| scheduled.segments)
    }

    pub(super) fn forget(&mut self, key: PartitionKey) {
        if let Some(due) = self.by_key.remove(&key).and_then(|scheduled| scheduled.due) {
            self.due.remove(&(due, key));
        }
    }

    /// The round in which the next log has its turn.
    pub(super) fn next_round(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| self.round_at_or_after(*due))
    }

    /// A log whose round has come.
    pub(super) fn pop_round(&mut self, now: Instant) -> Option<PartitionKey> {
        self.next_round().filter(|round| *round <= now)?;
        self.pop()
    }

    /// A log that has something to do, though its round may not have come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<PartitionKey> {
        self.due.first().filter(|(due, _)| *due <= now)?;
        self.pop()
    }

    fn pop(&mut self) -> Option<PartitionKey> {
        let (_, key) = self.due.pop_first()?;
        if let Some(scheduled) = self.by_key.get_mut(&key) {
            scheduled.due = None;
        }
        Some(key)
    }

    fn round_at_or_after(&self, instant: Instant) -> Instant {
        let interval = self.interval.as_nanos() as u64;
        let since = instant.saturating_since(self.first_round).as_nanos() as u64;
        self.first_round + Duration::from_nanos(since.div_ceil(interval).saturating_mul(interval))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::TopicId;

    fn key(index: i32) -> PartitionKey {
        PartitionKey { topic: TopicId(1), index }
    }

    #[test]
    fn what_is_due_has_its_turn_in_the_next_round_or_at_once_if_asked() {
        let at = Instant::from_millis;
        let mut schedule = Schedule::new(at(100), Duration::from_millis(50));
        schedule.set(key(0), Some(at(20)), 1);
        schedule.set(key(1), Some(at(101)), 1);
        schedule.set(key(2), None, 7);
        assert_eq!((schedule.next_round(), schedule.segments(key(2))), (Some(at(100)), 7));
        assert_eq!((schedule.pop_round(at(99)), schedule.pop_due(at(19))), (None, None));
        let hurried = schedule.clone().pop_due(at(20));
        assert_eq!((hurried, schedule.pop_round(at(100))), (Some(key(0)), Some(key(0))));
        assert_eq!(schedule.next_round(), Some(at(150)));
        schedule.set(key(1), Some(at(151)), 1);
        assert_eq!((schedule.pop_round(at(199)), schedule.next_round()), (None, Some(at(200))));
        schedule.forget(key(1));
        assert_eq!((schedule.next_round(), schedule.due(key(1))), (None, None));
    }
}
