//! When to look at which log's retention, as deadlines rather than rounds over all logs.
//!
//! Kafka looks at all logs every `log.retention.check.interval.ms`; records that are too old stay until then. People
//! rely on that (old timestamps in tests, above all), so a log that has something to lose loses it at the next of
//! those moments, and no log is looked at that has nothing to lose. Size is another matter, since records are in
//! memory here: `retention.bytes` acts as soon as a segment is full.

use std::collections::BTreeSet;
use std::time::Duration;

use rustc_hash::FxHashMap;

use super::{LogSettings, Replica};
use crate::base::{Instant, Now, PartitionKey};
use crate::log::ChunkPool;

#[derive(Clone, Debug)]
pub(super) struct RetentionSchedule {
    first_check: Instant,
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

impl RetentionSchedule {
    pub(super) fn new(settings: LogSettings, started: Instant) -> Self {
        let millis = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        RetentionSchedule {
            first_check: started + millis(settings.initial_task_delay_ms),
            interval: millis(settings.retention_check_interval_ms).max(Duration::from_millis(1)),
            due: BTreeSet::new(),
            by_key: FxHashMap::default(),
        }
    }

    /// The first moment of a check at or after `instant`.
    fn check_at_or_after(&self, instant: Instant) -> Instant {
        let interval = self.interval.as_nanos() as u64;
        let since = instant.saturating_since(self.first_check).as_nanos() as u64;
        self.first_check + Duration::from_nanos(since.div_ceil(interval).saturating_mul(interval))
    }

    /// The log of `replica` has changed in a way that may move its deadline.
    pub(super) fn look_again(&mut self, replica: &Replica, now: Now) {
        let due = replica.log.next_retention(now, replica.high_watermark);
        let due = due.map(|due| self.check_at_or_after(due));
        let scheduled = self.by_key.entry(replica.key).or_default();
        scheduled.segments = replica.log.segment_count();
        if scheduled.due == due {
            return;
        }
        if let Some(old) = scheduled.due.take() {
            self.due.remove(&(old, replica.key));
        }
        if let Some(new) = due {
            self.due.insert((new, replica.key));
        }
        scheduled.due = due;
    }

    /// Something was appended: the deadline of a log that has one can only move back, which is seen when it comes.
    pub(super) fn after_append(&mut self, replica: &mut Replica, now: Now, pool: &mut ChunkPool) {
        let scheduled = self.by_key.get(&replica.key).copied().unwrap_or_default();
        let rolled = replica.log.segment_count() != scheduled.segments;
        if rolled && replica.log.config().retention_bytes >= 0 {
            self.apply(replica, now, pool);
        } else if rolled || scheduled.due.is_none() {
            self.look_again(replica, now);
        }
    }

    /// Deletes what is too old or too much. Returns whether anything was.
    pub(super) fn apply(&mut self, replica: &mut Replica, now: Now, pool: &mut ChunkPool) -> bool {
        let deleted = replica.log.apply_retention(now.wall, replica.high_watermark, pool);
        self.look_again(replica, now);
        deleted.segments > 0
    }

    pub(super) fn forget(&mut self, key: PartitionKey) {
        if let Some(Scheduled { due: Some(due), .. }) = self.by_key.remove(&key) {
            self.due.remove(&(due, key));
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    pub(super) fn pop_due(&mut self, now: Instant) -> Option<PartitionKey> {
        let &(due, key) = self.due.first().filter(|(due, _)| *due <= now)?;
        self.due.remove(&(due, key));
        if let Some(scheduled) = self.by_key.get_mut(&key) {
            scheduled.due = None;
        }
        Some(key)
    }

    /// All partitions that have something to lose some day.
    pub(super) fn scheduled(&self) -> Vec<PartitionKey> {
        self.due.iter().map(|(_, key)| *key).collect()
    }
}
