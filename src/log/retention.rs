//! Which segments are too old or too many (Kafka's `UnifiedLog.deleteOldSegments`).

use std::time::Duration;

use super::{ChunkPool, Log};
use crate::base::{Instant, Now, WallTime};

/// What retention deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deleted {
    /// Segments.
    pub segments: usize,
    /// Their bytes.
    pub bytes: u64,
}

impl Log {
    /// Deletes the segments that `retention.ms` and `retention.bytes` don't keep, oldest first, and moves the log's
    /// start up to the first one left. Only segments wholly below the high watermark go; the last one may be among them.
    pub fn apply_retention(&mut self, now: WallTime, high_watermark: i64, pool: &mut ChunkPool) -> Deleted {
        self.delete_while(high_watermark, pool, |log, size| log.is_breached(size, now))
    }

    /// The same by `retention.bytes` alone.
    pub fn apply_retention_bytes(&mut self, high_watermark: i64, pool: &mut ChunkPool) -> Deleted {
        self.delete_while(high_watermark, pool, Self::is_too_large)
    }

    fn delete_while(
        &mut self,
        high_watermark: i64,
        pool: &mut ChunkPool,
        is_breached: impl Fn(&Self, u64) -> bool,
    ) -> Deleted {
        let mut deleted = Deleted::default();
        let mut size = self.size_bytes();
        while self.segment_end(0).is_some_and(|end| end <= high_watermark) && is_breached(self, size) {
            self.seal();
            let Some(segment) = self.segments.pop_front() else { break };
            size -= u64::from(segment.size);
            deleted.segments += 1;
            deleted.bytes += u64::from(segment.size);
        }
        if deleted.segments > 0 {
            let start = self.segments.front().map_or(self.log_end_offset, |segment| segment.base_offset);
            self.move_log_start(start.max(self.log_start_offset), pool);
        }
        deleted
    }

    /// When to call [`Log::apply_retention`] next: at once if a segment can go now, else when the oldest one becomes
    /// too old. None if nothing will go before the high watermark moves or something is appended; ask again then.
    pub fn next_retention(&self, now: Now, high_watermark: i64) -> Option<Instant> {
        let config = self.config();
        self.segment_end(0).filter(|&end| config.delete && end <= high_watermark)?;
        let size = if config.retention_bytes >= 0 { self.size_bytes() } else { 0 };
        if self.is_breached(size, now.wall) {
            return Some(now.instant);
        }
        let oldest = self.segments.front().filter(|_| config.delete && config.retention_ms >= 0)?;
        let due = oldest.largest_timestamp_ms().checked_add(config.retention_ms)?.checked_add(1)?;
        let left_ms = u64::try_from(due.saturating_sub(now.wall.as_millis())).unwrap_or(0);
        Some(now.instant + Duration::from_millis(left_ms))
    }

    /// Whether the oldest segment is to go, of a log of `size` bytes.
    fn is_breached(&self, size: u64, now: WallTime) -> bool {
        self.is_too_large(size) || self.is_too_old(now)
    }

    fn is_too_large(&self, size: u64) -> bool {
        let config = self.config();
        let Some(oldest) = self.segments.front().filter(|_| config.delete) else { return false };
        u64::try_from(config.retention_bytes)
            .is_ok_and(|retained| size.saturating_sub(u64::from(oldest.size)) >= retained)
    }

    fn is_too_old(&self, now: WallTime) -> bool {
        let config = self.config();
        let Some(oldest) = self.segments.front().filter(|_| config.delete) else { return false };
        let age_ms = now.as_millis().saturating_sub(oldest.largest_timestamp_ms());
        config.retention_ms >= 0 && age_ms > config.retention_ms
    }

    /// The offset at which the segment with this index ends.
    fn segment_end(&self, index: usize) -> Option<i64> {
        self.segments.get(index)?;
        Some(self.segments.get(index + 1).map_or(self.log_end_offset, |next| next.base_offset))
    }
}
