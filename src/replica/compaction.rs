//! When to compact which log, as deadlines rather than rounds over all logs.
//!
//! Kafka's cleaner looks for something to do every `log.cleaner.backoff.ms`. A log that has enough to do is compacted at
//! the next of those moments, and no log is looked at that has not.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{LogSettings, Replica};
use crate::base::{Instant, Now, PartitionKey};
use crate::log::ChunkPool;

#[derive(Clone, Debug)]
pub(super) struct CompactionSchedule {
    started: Instant,
    backoff: Duration,
    is_enabled: bool,
    due: BTreeSet<(Instant, PartitionKey)>,
    /// The logs that may be compacted some day.
    by_key: BTreeMap<PartitionKey, Scheduled>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Scheduled {
    due: Option<Instant>,
    /// How many segments the log had when it was last looked at.
    segments: usize,
    /// It could not be compacted, and is left alone from now on.
    failed: bool,
}

impl CompactionSchedule {
    pub(super) fn new(settings: LogSettings, started: Instant) -> Self {
        let backoff = Duration::from_millis(settings.cleaner_backoff_ms.max(1));
        let is_enabled = settings.cleaner_enable;
        CompactionSchedule { started, backoff, is_enabled, due: BTreeSet::new(), by_key: BTreeMap::new() }
    }

    /// Takes on the broker's settings; what is scheduled stays so.
    pub(super) fn set_settings(&mut self, settings: LogSettings) {
        self.backoff = Duration::from_millis(settings.cleaner_backoff_ms.max(1));
    }

    fn round_at_or_after(&self, instant: Instant) -> Instant {
        let backoff = self.backoff.as_nanos() as u64;
        let since = instant.saturating_since(self.started).as_nanos() as u64;
        self.started + Duration::from_nanos(since.div_ceil(backoff).saturating_mul(backoff))
    }

    /// The log of `replica`, or its configs, have changed.
    pub(super) fn look_again(&mut self, replica: &Replica, now: Now) {
        if !replica.log.config().compact || !self.is_enabled {
            return self.forget(replica.key);
        }
        let scheduled = self.by_key.get(&replica.key).copied().unwrap_or_default();
        if scheduled.failed {
            return;
        }
        let due = replica.log.next_compaction(now, replica.last_stable_offset());
        let due = due.map(|due| self.round_at_or_after(due));
        if let Some(old) = scheduled.due.filter(|_| scheduled.due != due) {
            self.due.remove(&(old, replica.key));
        }
        self.due.extend(due.map(|due| (due, replica.key)));
        let segments = replica.log.segment_count();
        self.by_key.insert(replica.key, Scheduled { due, segments, failed: false });
    }

    /// Something was appended: there is more to do only where that has closed a segment.
    pub(super) fn after_append(&mut self, replica: &Replica, now: Now) {
        if !replica.log.config().compact {
            return;
        }
        let segments = self.by_key.get(&replica.key).map_or(0, |scheduled| scheduled.segments);
        if segments != replica.log.segment_count() {
            self.look_again(replica, now);
        }
    }

    /// Compacts the log, if there is enough to do.
    pub(super) fn apply(&mut self, replica: &mut Replica, now: Now, pool: &mut ChunkPool) {
        let last_stable_offset = replica.last_stable_offset();
        match replica.log.compact(now.wall, last_stable_offset, pool) {
            Ok(compacted) => {
                tracing::debug!(
                    topic = &*replica.topic,
                    partition = replica.key.index,
                    bytes_before = compacted.bytes_before,
                    bytes_after = compacted.bytes_after,
                    "compacted"
                );
                self.look_again(replica, now);
            }
            Err(error) => {
                tracing::error!(
                    topic = &*replica.topic,
                    partition = replica.key.index,
                    %error,
                    "the log can't be compacted, and is left as it is"
                );
                self.forget(replica.key);
                self.by_key.insert(replica.key, Scheduled { failed: true, ..Scheduled::default() });
            }
        }
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

    /// All partitions that have something to do some day.
    pub(super) fn scheduled(&self) -> Vec<PartitionKey> {
        self.due.iter().map(|(_, key)| *key).collect()
    }
}
