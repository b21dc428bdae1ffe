//! How much runs have done: what "nothing went wrong" was said of.

use std::fmt;
use std::ops::AddAssign;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Requests that brokers took.
    Requests,
    /// Records that producers without transactions were promised are kept.
    Acknowledged,
    /// Records that consumers read, each as often as it was.
    Read,
    /// Times that a partition got a leader with a new epoch.
    Elections,
    /// Transactions that were committed.
    Committed,
    /// Transactions that were aborted.
    Aborted,
    /// Transactions whose producer never heard how they ended.
    Unheard,
    /// Records that pipelines made in transactions that were committed.
    Transformed,
    /// Generations and epochs of groups in which a member was.
    Rebalances,
    /// Brokers that were killed.
    Kills,
    /// Brokers that were stopped in due form.
    Stops,
    /// Brokers that froze.
    Freezes,
    /// Brokers that started without what they hadn't replicated.
    LostTails,
    /// Links that were cut, one way.
    Cuts,
    /// Links that were slow, one way.
    SlowLinks,
    /// Followers' fetchers that froze.
    FrozenFetchers,
    /// Leaders that were moved and ISRs that were shrunk by order.
    Orders,
    /// Connections that broke.
    Breaks,
    /// Clients that crashed.
    Crashes,
    /// Clients that stood still.
    Pauses,
    /// Pipelines that were followed by another with the same transactional id while they worked.
    Followed,
    /// Times at which something came about, after each of which checkers looked.
    Steps,
    /// Milliseconds of simulated time.
    SimulatedMs,
}

impl Count {
    /// All of them, with their names for people.
    const NAMES: [(Count, &str); 23] = [
        (Count::Requests, "requests"),
        (Count::Acknowledged, "acknowledged records"),
        (Count::Read, "records read"),
        (Count::Committed, "committed transactions"),
        (Count::Aborted, "aborted transactions"),
        (Count::Unheard, "transactions with an unheard end"),
        (Count::Transformed, "records made of others"),
        (Count::Elections, "elections"),
        (Count::Rebalances, "rebalances"),
        (Count::Kills, "kills"),
        (Count::LostTails, "lost tails"),
        (Count::Stops, "stops"),
        (Count::Freezes, "freezes"),
        (Count::Cuts, "cut links"),
        (Count::SlowLinks, "slow links"),
        (Count::FrozenFetchers, "frozen fetchers"),
        (Count::Orders, "moved leaders and shrunk ISRs"),
        (Count::Breaks, "broken connections"),
        (Count::Crashes, "crashed clients"),
        (Count::Pauses, "paused clients"),
        (Count::Followed, "followed pipelines"),
        (Count::Steps, "steps"),
        (Count::SimulatedMs, "ms of simulated time"),
    ];
}

/// How much of each there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Count::NAMES.len()]);

impl Counts {
    /// Adds to one of them.
    pub fn add(&mut self, count: Count, more: u64) {
        self.0[count as usize] += more;
    }

    /// One of them.
    pub fn of(&self, count: Count) -> u64 {
        self.0[count as usize]
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        for (own, more) in self.0.iter_mut().zip(other.0) {
            *own += more;
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (count, name) in Count::NAMES {
            writeln!(f, "{:>14} {name}", self.of(count))?;
        }
        Ok(())
    }
}
