//! The process's clock: one monotonic origin, from which every [`Now`] is told.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::{Instant, Now, WallTime};

/// Tells the time. Copies share their origin.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: tokio::time::Instant,
}

impl Clock {
    /// A clock whose origin is now.
    pub fn start() -> Self {
        Clock { origin: tokio::time::Instant::now() }
    }

    /// The present moment on both clocks.
    pub fn now(&self) -> Now {
        Now { instant: self.instant(), wall: self.wall() }
    }

    /// The present moment on the monotonic clock.
    pub fn instant(&self) -> Instant {
        Instant::ZERO + self.origin.elapsed()
    }

    /// The present moment on the wall clock.
    pub fn wall(&self) -> WallTime {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        WallTime(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// When `instant` is, for the runtime's timer.
    pub(crate) fn at(&self, instant: Instant) -> tokio::time::Instant {
        // A deadline beyond what the runtime can express is as good as never.
        self.origin + Duration::from_nanos(instant.as_nanos().min(u64::MAX / 4))
    }
}
