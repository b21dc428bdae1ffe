//! Which logs' retention is applied when.
//!
//! Records that are too old stay until the next of Kafka's rounds, every `log.retention.check.interval.ms`. Size is
//! another matter, since records are in memory here: `retention.bytes` acts as soon as a segment is full.

use std::time::Duration;

use super::schedule::Schedule;
use super::{LogSettings, Replica};
use crate::base::{Instant, Now, PartitionKey};
use crate::log::ChunkPool;

#[derive(Clone, Debug)]
pub(super) struct RetentionSchedule(Schedule);

impl RetentionSchedule {
    pub(super) fn new(settings: LogSettings, started: Instant) -> Self {
        let millis = |ms: i64| Duration::from_millis(u64::try_from(ms).unwrap_or(0));
        let first_check = started + millis(settings.initial_task_delay_ms);
        RetentionSchedule(Schedule::new(first_check, millis(settings.retention_check_interval_ms)))
    }

    /// The log of `replica` has changed in a way that may move its deadline.
    pub(super) fn look_again(&mut self, replica: &Replica, now: Now) {
        let due = replica.log.next_retention(now, replica.high_watermark);
        self.0.set(replica.key, due, replica.log.segment_count());
    }

    /// Something was appended: the deadline of a log that has one can only move back, which is seen when it comes.
    pub(super) fn after_append(&mut self, replica: &mut Replica, now: Now, pool: &mut ChunkPool) {
        let rolled = replica.log.segment_count() != self.0.segments(replica.key);
        if rolled && replica.log.config().retention_bytes >= 0 {
            replica.log.apply_retention_bytes(replica.high_watermark, pool);
            self.look_again(replica, now);
        } else if rolled || self.0.due(replica.key).is_none() {
            self.look_again(replica, now);
        }
    }

    /// More of a log is committed: what was too old before may go now.
    pub(super) fn after_commit(&mut self, replica: &Replica, now: Now) {
        if self.0.due(replica.key).is_none() {
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
        self.0.forget(key);
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.0.next_round()
    }

    /// A log whose check has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<PartitionKey> {
        self.0.pop_round(now)
    }

    /// A log that has something to lose now, though its check may not have come.
    pub(super) fn pop_early(&mut self, now: Instant) -> Option<PartitionKey> {
        self.0.pop_due(now)
    }
}
