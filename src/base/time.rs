//! Time as a value. Nothing below the shell reads a clock: a [`Now`] comes in with every call.

use std::ops::{Add, Sub};
use std::time::Duration;

/// A point on a monotonic clock, in nanoseconds from an origin that the driver chooses (a simulation starts
/// at zero). Deadlines are instants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The origin of the clock.
    pub const ZERO: Instant = Instant(0);
    /// Later than any instant that a clock reaches: a deadline that never comes.
    pub const NEVER: Instant = Instant(u64::MAX);

    /// The instant `nanos` nanoseconds after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Instant(nanos)
    }

    /// The instant `millis` milliseconds after the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Instant(millis.saturating_mul(1_000_000))
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Whole milliseconds since the origin, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// The time from `earlier` to this instant; zero if `earlier` is later.
    pub const fn saturating_since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// This instant moved by a timeout as Kafka's requests carry it: milliseconds, where a negative value counts
    /// as zero.
    pub fn after_timeout_ms(self, timeout_ms: i32) -> Instant {
        self + Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    /// Saturates at [`Instant::NEVER`].
    fn add(self, span: Duration) -> Instant {
        let nanos = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(nanos))
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Instant) -> Duration {
        self.saturating_since(earlier)
    }
}

/// A point on the wall clock: milliseconds since the Unix epoch, as record timestamps have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WallTime(pub i64);

impl WallTime {
    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }
}

/// The moment at which a call into the core happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    /// For deadlines.
    pub instant: Instant,
    /// For timestamps.
    pub wall: WallTime,
}

impl Now {
    /// `millis` after the origin of both clocks: for tests and simulations, whose wall clock starts at
    /// 2001-09-09T01:46:40Z (10^12 ms).
    pub const fn at_millis(millis: u64) -> Now {
        Now { instant: Instant::from_millis(millis), wall: WallTime(1_000_000_000_000 + millis as i64) }
    }
}
