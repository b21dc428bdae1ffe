//! What a purgatory counts, by kind of wait.

/// A kind of wait: a small enum that the owner of the purgatory supplies.
pub trait WaitKind: Copy + 'static {
    /// Every kind, in the order of [`index`](Self::index).
    const ALL: &'static [Self];

    /// The place of this kind in [`ALL`](Self::ALL).
    fn index(self) -> usize;

    /// The name of the purgatory in which Kafka keeps such waits: the tag `delayedOperation` of its metrics, such as
    /// `Fetch` or `Produce`. Several kinds may share one.
    fn delayed_operation(self) -> &'static str;
}

/// How a wait left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// What it waited for came.
    Completed,
    /// Its deadline came first.
    Expired,
    /// A user let it go.
    Released,
    /// Nobody waits for its reply any more: its connection is gone, say.
    Removed,
}

/// The state of one kind of wait: gauges, and counters since the purgatory was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Kafka's `PurgatorySize`: the waits in the queues of all keys, so that a wait counts once for each of its keys.
    pub purgatory_size: u64,
    /// Kafka's `NumDelayedOperations`: the waits.
    pub num_delayed_operations: u64,
    /// The count of Kafka's meter `ExpiresPerSec`: waits that expired.
    pub expired: u64,
    /// Waits that completed after they were parked. (What completes at the first try is never parked.)
    pub completed: u64,
    /// Waits that a user let go.
    pub released: u64,
    /// Waits that were removed unanswered.
    pub removed: u64,
}

impl Metrics {
    /// How many waits were ever parked.
    pub fn parked(&self) -> u64 {
        self.num_delayed_operations + self.expired + self.completed + self.released + self.removed
    }

    pub(super) fn enter(&mut self, links: u32) {
        self.purgatory_size += u64::from(links);
        self.num_delayed_operations += 1;
    }

    pub(super) fn leave(&mut self, links: u32, exit: Exit) {
        self.purgatory_size -= u64::from(links);
        self.num_delayed_operations -= 1;
        match exit {
            Exit::Completed => self.completed += 1,
            Exit::Expired => self.expired += 1,
            Exit::Released => self.released += 1,
            Exit::Removed => self.removed += 1,
        }
    }
}

/// The sum of two kinds, for those that share a purgatory of Kafka's.
impl std::ops::AddAssign for Metrics {
    fn add_assign(&mut self, other: Metrics) {
        self.purgatory_size += other.purgatory_size;
        self.num_delayed_operations += other.num_delayed_operations;
        self.expired += other.expired;
        self.completed += other.completed;
        self.released += other.released;
        self.removed += other.removed;
    }
}
