//! Which log is compacted when, and how much of it at a time.
//!
//! Kafka's cleaner looks for something to do every `log.cleaner.backoff.ms`, and does one log after the other. A log that
//! has enough to do has its turn at the next of those moments. It is compacted in steps, between which others are served.

use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};

use super::schedule::Schedule;
use super::{LogSettings, Replica};
use crate::base::{Instant, Now, PartitionKey};
use crate::log::ChunkPool;

/// How much is read in one step, bytes (ours): some tenths of a millisecond, and several such batches of Kafka's size.
const STEP_BYTES: usize = 128 << 10;
/// How much is read for an append that finds no memory left, bytes (ours): some milliseconds.
const HURRIED_BYTES: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(super) struct CompactionSchedule {
    is_enabled: bool,
    schedule: Schedule,
    /// The log that is being compacted, and when its turn came.
    running: Option<(PartitionKey, Instant)>,
    /// Logs that could not be compacted, and are left alone from then on.
    failed: FxHashSet<PartitionKey>,
}

impl CompactionSchedule {
    pub(super) fn new(settings: LogSettings, started: Instant) -> Self {
        CompactionSchedule {
            is_enabled: settings.cleaner_enable,
            schedule: Schedule::new(started, Duration::from_millis(settings.cleaner_backoff_ms)),
            running: None,
            failed: FxHashSet::default(),
        }
    }

    /// Takes on the broker's settings. (Whether there is a cleaner is not among those that can change.)
    pub(super) fn set_settings(&mut self, settings: LogSettings) {
        self.schedule.set_interval(Duration::from_millis(settings.cleaner_backoff_ms));
    }

    /// The log of `replica`, or its configs, have changed.
    pub(super) fn look_again(&mut self, replica: &Replica, now: Now) {
        if !replica.log.config().compact || !self.is_enabled || self.failed.contains(&replica.key) {
            return self.schedule.forget(replica.key);
        }
        if self.running.is_none_or(|(key, _)| key != replica.key) {
            let due = replica.log.next_compaction(now, replica.last_stable_offset());
            self.schedule.set(replica.key, due, replica.log.segment_count());
        }
    }

    /// Something was appended: there is more to do only where that has closed a segment.
    pub(super) fn after_append(&mut self, replica: &Replica, now: Now) {
        let is_compacted = replica.log.config().compact;
        if is_compacted && self.schedule.segments(replica.key) != replica.log.segment_count() {
            self.look_again(replica, now);
        }
    }

    /// More of a log is committed: what could not be compacted before may be now.
    pub(super) fn after_commit(&mut self, replica: &Replica, now: Now) {
        let is_compacted = replica.log.config().compact && replica.log.segment_count() > 1;
        if is_compacted && self.schedule.due(replica.key).is_none() {
            self.look_again(replica, now);
        }
    }

    /// Does one step of what is due.
    pub(super) fn step(
        &mut self,
        replicas: &mut FxHashMap<PartitionKey, Box<Replica>>,
        now: Now,
        pool: &mut ChunkPool,
    ) {
        self.work(STEP_BYTES, replicas, now, pool, |schedule| schedule.pop_round(now.instant));
    }

    /// Does a larger step of what there is to do, though it may not be due.
    pub(super) fn hurry(
        &mut self,
        replicas: &mut FxHashMap<PartitionKey, Box<Replica>>,
        now: Now,
        pool: &mut ChunkPool,
    ) {
        self.work(HURRIED_BYTES, replicas, now, pool, |schedule| schedule.pop_due(now.instant));
    }

    fn work(
        &mut self,
        mut work: usize,
        replicas: &mut FxHashMap<PartitionKey, Box<Replica>>,
        now: Now,
        pool: &mut ChunkPool,
        pop: impl Fn(&mut Schedule) -> Option<PartitionKey>,
    ) {
        while work > 0 {
            let next = self.running.take().or_else(|| Some((pop(&mut self.schedule)?, now.instant)));
            let Some((key, since)) = next else { return };
            let Some(replica) = replicas.get_mut(&key) else { continue };
            let last_stable_offset = replica.last_stable_offset();
            match replica.log.compact(now.wall, last_stable_offset, &mut work, pool) {
                Ok(None) => self.running = Some((key, since)),
                Ok(Some(compacted)) => {
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
                    self.failed.insert(key);
                }
            }
        }
    }

    pub(super) fn forget(&mut self, key: PartitionKey) {
        self.schedule.forget(key);
        self.failed.remove(&key);
        self.running.take_if(|(running, _)| *running == key);
    }

    /// When the next step is due; at once while a log is being compacted.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.running.map(|(_, since)| since).or_else(|| self.schedule.next_round())
    }
}
