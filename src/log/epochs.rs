//! Which leader epoch wrote from which offset on (KIP-101; Kafka's `LeaderEpochFileCache`).

/// An epoch and the offset of the first record that its leader could write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochStart {
    /// The leader epoch.
    pub epoch: i32,
    /// Its first offset.
    pub start_offset: i64,
}

/// Where an epoch ends: the answer to OffsetForLeaderEpoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest known epoch not above the one asked for; −1 if undefined.
    pub epoch: i32,
    /// The offset behind its last record; −1 if undefined.
    pub end_offset: i64,
}

impl EpochEnd {
    /// The answer where there is none.
    pub const UNDEFINED: EpochEnd = EpochEnd { epoch: -1, end_offset: -1 };
}

/// The epochs of one log; both epochs and start offsets increase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeaderEpochs {
    entries: Vec<EpochStart>,
}

impl LeaderEpochs {
    /// Notes that `epoch` writes from `start_offset` on, unless it is the latest epoch and known to start as early.
    /// Entries that contradict it (as high an epoch, or as high a start) go. Negative values are ignored.
    pub fn assign(&mut self, epoch: i32, start_offset: i64) {
        if epoch < 0 || start_offset < 0 {
            return;
        }
        if self.entries.last().is_some_and(|last| last.epoch == epoch && last.start_offset <= start_offset) {
            return;
        }
        while self.entries.last().is_some_and(|e| e.epoch >= epoch || e.start_offset >= start_offset) {
            self.entries.pop();
        }
        self.entries.push(EpochStart { epoch, start_offset });
    }

    /// The entries, oldest first.
    pub fn entries(&self) -> &[EpochStart] {
        &self.entries
    }

    /// The newest epoch.
    pub fn latest(&self) -> Option<EpochStart> {
        self.entries.last().copied()
    }

    /// The epoch that wrote `offset`.
    pub fn epoch_for_offset(&self, offset: i64) -> Option<i32> {
        let above = self.entries.partition_point(|entry| entry.start_offset <= offset);
        self.entries[..above].last().map(|entry| entry.epoch)
    }

    /// Where `epoch` ends in a log that ends at `log_end_offset`. An epoch before all that are known, be it negative,
    /// ends where the first of them starts; −1 alone stands for none.
    pub fn end_offset(&self, epoch: i32, log_end_offset: i64) -> EpochEnd {
        let Some(latest) = self.latest() else { return EpochEnd::UNDEFINED };
        if epoch == EpochEnd::UNDEFINED.epoch || epoch > latest.epoch {
            return EpochEnd::UNDEFINED;
        }
        if epoch == latest.epoch {
            return EpochEnd { epoch, end_offset: log_end_offset };
        }
        let above = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let end_offset = self.entries[above].start_offset;
        let epoch = self.entries[..above].last().map_or(epoch, |entry| entry.epoch);
        EpochEnd { epoch, end_offset }
    }

    /// Drops the epochs that start at or above `end_offset`.
    pub fn truncate_from_end(&mut self, end_offset: i64) {
        let kept = self.entries.partition_point(|entry| entry.start_offset < end_offset);
        self.entries.truncate(kept);
    }

    /// Drops the epochs that end at or below `start_offset`; the one that spans it starts there from now on.
    pub fn truncate_from_start(&mut self, start_offset: i64) {
        let above = self.entries.partition_point(|entry| entry.start_offset <= start_offset);
        if above > 0 {
            self.entries.drain(..above - 1);
            self.entries[0].start_offset = start_offset;
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(entries: &[(i32, i64)]) -> LeaderEpochs {
        let mut epochs = LeaderEpochs::default();
        entries.iter().for_each(|&(epoch, start)| epochs.assign(epoch, start));
        epochs
    }

    fn pairs(epochs: &LeaderEpochs) -> Vec<(i32, i64)> {
        epochs.entries().iter().map(|entry| (entry.epoch, entry.start_offset)).collect()
    }

    fn end(epoch: i32, end_offset: i64) -> EpochEnd {
        EpochEnd { epoch, end_offset }
    }

    #[test]
    fn assign_keeps_epochs_and_starts_increasing() {
        let mut cache = epochs(&[(0, 0), (0, 5), (2, 10), (4, 20)]);
        assert_eq!(pairs(&cache), [(0, 0), (2, 10), (4, 20)]);
        cache.assign(4, 25);
        assert_eq!(pairs(&cache), [(0, 0), (2, 10), (4, 20)], "the latest epoch can't start later");
        cache.assign(3, 15);
        assert_eq!(pairs(&cache), [(0, 0), (2, 10), (3, 15)], "a lower epoch removes the higher ones");
        cache.assign(5, 10);
        assert_eq!(pairs(&cache), [(0, 0), (5, 10)], "an epoch that wrote nothing goes");
        cache.assign(-1, 30);
        assert_eq!(pairs(&cache), [(0, 0), (5, 10)]);
    }

    #[test]
    fn end_offsets() {
        let cache = epochs(&[(1, 5), (3, 10), (4, 20)]);
        assert_eq!(cache.end_offset(-1, 30), EpochEnd::UNDEFINED);
        assert_eq!(cache.end_offset(5, 30), EpochEnd::UNDEFINED);
        assert_eq!(cache.end_offset(4, 30), end(4, 30));
        assert_eq!(cache.end_offset(3, 30), end(3, 20));
        assert_eq!(cache.end_offset(2, 30), end(1, 10));
        assert_eq!(cache.end_offset(1, 30), end(1, 10));
        assert_eq!(cache.end_offset(0, 30), end(0, 5), "below all: the start of the first larger epoch");
        assert_eq!(LeaderEpochs::default().end_offset(0, 30), EpochEnd::UNDEFINED);
    }

    #[test]
    fn epoch_for_offset() {
        let cache = epochs(&[(1, 5), (3, 10)]);
        assert_eq!(
            [4, 5, 9, 10, 99].map(|at| cache.epoch_for_offset(at)),
            [None, Some(1), Some(1), Some(3), Some(3)]
        );
    }

    #[test]
    fn truncation_from_both_ends() {
        let mut cache = epochs(&[(1, 5), (3, 10), (4, 20)]);
        cache.truncate_from_end(20);
        assert_eq!(pairs(&cache), [(1, 5), (3, 10)]);
        cache.truncate_from_start(4);
        assert_eq!(pairs(&cache), [(1, 5), (3, 10)]);
        cache.truncate_from_start(7);
        assert_eq!(pairs(&cache), [(1, 7), (3, 10)]);
        cache.truncate_from_start(12);
        assert_eq!(pairs(&cache), [(3, 12)]);
        cache.truncate_from_end(12);
        assert_eq!(pairs(&cache), []);
    }
}
