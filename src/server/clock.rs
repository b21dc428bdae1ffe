//! Time: the machine's, and the cluster's, which a user may steer.
//!
//! The cluster has a clock of its own ([`ClusterClock`]), since a test of a timeout should not have to wait for it. The
//! shell stays with the machine's ([`Clock`]): when a connection is idle is between us and a client who lives in the
//! machine's time.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::base::{Instant, Now, WallTime};

/// The machine's clock: one monotonic origin, from which every [`Now`] is told. Copies share their origin.
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

/// How the cluster's time goes. Text: `machine`, `manual`, or `x` and a number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    /// As the machine's.
    #[default]
    Machine,
    /// Only when it is told to.
    Manual,
    /// So many times as fast as the machine's: 1 to [`Pace::MAX_TIMES`].
    Times(u32),
}

impl Pace {
    /// The fastest that time can go.
    pub const MAX_TIMES: u32 = 10_000;
}

/// A text that is no [`Pace`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no pace of a clock: it must be machine, manual, or x1 to x{max}, such as x10", max = Pace::MAX_TIMES)]
pub struct PaceError(pub String);

impl FromStr for Pace {
    type Err = PaceError;

    fn from_str(text: &str) -> Result<Self, PaceError> {
        let wrong = || PaceError(text.to_owned());
        match text {
            "machine" => Ok(Pace::Machine),
            "manual" => Ok(Pace::Manual),
            _ => {
                let times = text.strip_prefix(['x', '×']).ok_or_else(wrong)?;
                let times = times.parse().ok().filter(|times| (1..=Pace::MAX_TIMES).contains(times));
                Ok(Pace::Times(times.ok_or_else(wrong)?))
            }
        }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pace::Machine => f.write_str("machine"),
            Pace::Manual => f.write_str("manual"),
            Pace::Times(times) => write!(f, "x{times}"),
        }
    }
}

/// The cluster's clock, told from the machine's, which comes in as a value. It never goes back: a change of pace, and a
/// step forward, go on from where it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClusterClock {
    pace: Pace,
    /// At this instant of the machine's clock…
    machine_anchor: Instant,
    /// …it was this one here.
    anchor: Instant,
    /// What the wall clock shows at [`Instant::ZERO`]: of use unless the machine's pace is kept.
    wall_at_zero_ms: i64,
    /// How far the wall clock is ahead of the machine's: of use if the machine's pace is kept, whose wall clock may be
    /// set.
    wall_ahead_ms: i64,
}

impl ClusterClock {
    pub(crate) fn new(machine: Now, pace: Pace) -> Self {
        let Now { instant, wall } = machine;
        let mut clock = ClusterClock {
            pace: Pace::Machine,
            machine_anchor: instant,
            anchor: instant,
            wall_at_zero_ms: wall.as_millis(),
            wall_ahead_ms: 0,
        };
        if pace != Pace::Machine {
            clock.set_pace(machine, pace);
        }
        clock
    }

    pub(crate) fn pace(&self) -> Pace {
        self.pace
    }

    pub(crate) fn now(&self, machine: Now) -> Now {
        let passed = machine.instant - self.machine_anchor;
        let instant = match self.pace {
            Pace::Machine => self.anchor + passed,
            Pace::Manual => self.anchor,
            Pace::Times(times) => self.anchor + passed.saturating_mul(times),
        };
        let wall = match self.pace {
            Pace::Machine => machine.wall.as_millis().saturating_add(self.wall_ahead_ms),
            Pace::Manual | Pace::Times(_) => self.wall_at_zero_ms.saturating_add(millis(instant)),
        };
        Now { instant, wall: WallTime(wall) }
    }

    /// When `instant` comes, on the machine's clock; none if that is for the user to say.
    pub(crate) fn on_machine(&self, instant: Instant) -> Option<Instant> {
        let left = instant - self.anchor;
        match self.pace {
            Pace::Machine => Some(self.machine_anchor + left),
            // Rounded up: a deadline never comes early.
            Pace::Times(times) => {
                let nanos = left.as_nanos().div_ceil(u128::from(times));
                Some(self.machine_anchor + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
            }
            // What is due already needs no time.
            Pace::Manual => left.is_zero().then_some(self.machine_anchor),
        }
    }

    pub(crate) fn set_pace(&mut self, machine: Now, pace: Pace) {
        let mut now = self.now(machine);
        if pace == Pace::Manual {
            // Deadlines come at whole milliseconds; a clock that stands must not stand just before those that are due.
            let whole = Instant::from_millis(now.instant.as_nanos().div_ceil(1_000_000));
            now.wall = WallTime(now.wall.as_millis() + i64::from(whole != now.instant));
            now.instant = whole;
        }
        self.pace = pace;
        self.set(machine, now);
    }

    /// Moves on to an instant; nothing happens if it has passed.
    pub(crate) fn move_to(&mut self, machine: Now, instant: Instant) {
        let now = self.now(machine);
        if instant > now.instant {
            let wall = now.wall.as_millis().saturating_add(millis(instant) - millis(now.instant));
            self.set(machine, Now { instant, wall: WallTime(wall) });
        }
    }

    fn set(&mut self, machine: Now, now: Now) {
        self.machine_anchor = machine.instant;
        self.anchor = now.instant;
        self.wall_at_zero_ms = now.wall.as_millis().saturating_sub(millis(now.instant));
        self.wall_ahead_ms = now.wall.as_millis().saturating_sub(machine.wall.as_millis());
    }
}

fn millis(instant: Instant) -> i64 {
    i64::try_from(instant.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paces_are_read_and_written() {
        for (text, pace) in [
            ("machine", Pace::Machine),
            ("manual", Pace::Manual),
            ("x1", Pace::Times(1)),
            ("x10000", Pace::Times(10_000)),
        ] {
            assert_eq!(text.parse(), Ok(pace));
            assert_eq!(pace.to_string(), text);
        }
        assert_eq!("×7".parse(), Ok(Pace::Times(7)));
        for text in ["", "x", "x0", "x10001", "x-1", "x1.5", "10", "Manual"] {
            assert_eq!(text.parse::<Pace>(), Err(PaceError(text.to_owned())), "{text}");
        }
    }

    const fn at(millis: u64) -> Now {
        Now::at_millis(millis)
    }

    #[test]
    fn a_manual_clock_moves_only_when_told() {
        let mut clock = ClusterClock::new(at(5), Pace::Manual);
        assert_eq!(clock.now(at(5)), at(5));
        assert_eq!(clock.now(at(1000)), at(5));
        clock.move_to(at(1000), at(255).instant);
        assert_eq!(clock.now(at(2000)), at(255), "both clocks");
        clock.move_to(at(2000), at(5).instant);
        assert_eq!(clock.now(at(2000)), at(255), "it never goes back");
        assert_eq!(clock.on_machine(at(256).instant), None);
        assert!(clock.on_machine(at(255).instant).is_some(), "what is due needs no time");
    }

    #[test]
    fn a_multiple_runs_so_many_times_as_fast() {
        let clock = ClusterClock::new(at(100), Pace::Times(10));
        assert_eq!(clock.now(at(107)), at(170));
        let due = at(100).instant + Duration::from_nanos(101);
        let on_machine = clock.on_machine(due).unwrap();
        assert_eq!(on_machine - at(100).instant, Duration::from_nanos(11), "not early");
        assert!(clock.now(Now { instant: on_machine, ..at(100) }).instant >= due);
    }

    #[test]
    fn a_change_of_pace_goes_on_from_where_it_is() {
        let mut clock = ClusterClock::new(at(0), Pace::Machine);
        assert_eq!(clock.now(at(5)), at(5));
        clock.move_to(at(5), at(1000).instant);
        assert_eq!(clock.now(at(10)), at(1005));
        assert_eq!(clock.on_machine(at(1006).instant), Some(at(11).instant));
        clock.set_pace(at(10), Pace::Manual);
        assert_eq!(clock.now(at(100_000)), at(1005));
        clock.set_pace(at(100_000), Pace::Machine);
        assert_eq!(clock.now(at(100_002)), at(1007), "behind the machine's now");
        clock.set_pace(at(100_002), Pace::Times(100));
        assert_eq!(clock.now(at(100_012)), at(2007));
    }

    #[test]
    fn at_the_machines_pace_the_wall_clock_may_be_set() {
        let mut clock = ClusterClock::new(at(0), Pace::Machine);
        clock.move_to(at(0), at(50).instant);
        let set_back = Now { wall: at(3).wall, ..at(10) };
        assert_eq!(clock.now(set_back), Now { wall: at(53).wall, ..at(60) });
    }

    #[test]
    fn a_manual_clock_stands_at_whole_milliseconds() {
        let machine = Now { instant: Instant::from_nanos(1_500_001), ..at(1) };
        assert_eq!(ClusterClock::new(machine, Pace::Manual).now(machine), at(2));
    }
}
