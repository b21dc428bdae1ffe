//! What a log knows of transactions that have ended (Kafka's `TransactionIndex`, and the part of
//! `ProducerStateManager` that holds the last stable offset back).

use std::collections::{BTreeMap, VecDeque};

/// A transaction that a marker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedTransaction {
    /// The producer.
    pub producer_id: i64,
    /// Offset of its first record.
    pub first_offset: i64,
    /// Offset of the marker.
    pub last_offset: i64,
    /// Whether it was committed, else aborted.
    pub committed: bool,
}

/// An aborted transaction, whose records a reader of committed ones must skip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The producer.
    pub producer_id: i64,
    /// Offset of its first record.
    pub first_offset: i64,
    /// Offset of the marker.
    pub last_offset: i64,
    /// The last stable offset once the marker was written: no later entry began below it.
    pub last_stable_offset: i64,
}

/// The ended transactions of one log. Costs nothing while there are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct EndedTransactions {
    /// By the marker's offset.
    aborted: VecDeque<AbortedTransaction>,
    /// First offset and marker's offset of those whose marker may not be below the high watermark.
    unreplicated: BTreeMap<i64, i64>,
}

impl EndedTransactions {
    /// Notes the end of one. `first_open` is the first offset of the oldest transaction that is still open.
    pub(super) fn end(&mut self, ended: EndedTransaction, first_open: Option<i64>) {
        self.unreplicated.insert(ended.first_offset, ended.last_offset);
        if !ended.committed {
            self.aborted.push_back(AbortedTransaction {
                producer_id: ended.producer_id,
                first_offset: ended.first_offset,
                last_offset: ended.last_offset,
                last_stable_offset: first_open.unwrap_or(ended.last_offset + 1),
            });
        }
    }

    /// First offset of the oldest transaction whose marker is not below the high watermark.
    pub(super) fn first_unreplicated(&self, high_watermark: i64) -> Option<i64> {
        self.unreplicated.iter().find(|(_, marker)| **marker >= high_watermark).map(|(first, _)| *first)
    }

    /// The high watermark has risen: what is below is settled.
    pub(super) fn replicated_to(&mut self, high_watermark: i64) {
        if !self.unreplicated.is_empty() {
            self.unreplicated.retain(|_, marker| *marker >= high_watermark);
        }
    }

    /// Whether an aborted transaction ends at or above `from`.
    pub(super) fn has_aborted_from(&self, from: i64) -> bool {
        self.aborted.back().is_some_and(|last| last.last_offset >= from)
    }

    /// The aborted transactions that overlap with `from..to`.
    pub(super) fn aborted(&self, from: i64, to: i64) -> Vec<AbortedTransaction> {
        let first = self.aborted.partition_point(|aborted| aborted.last_offset < from);
        let mut found = Vec::new();
        for aborted in self.aborted.range(first..) {
            if aborted.first_offset < to {
                found.push(*aborted);
            }
            if aborted.last_stable_offset >= to {
                break;
            }
        }
        found
    }

    /// What lies at or above `end_offset` is cut off.
    pub(super) fn truncate_from_end(&mut self, end_offset: i64) {
        self.aborted.retain(|aborted| aborted.last_offset < end_offset);
        self.unreplicated.retain(|_, marker| *marker < end_offset);
    }

    /// What lies below `start_offset` is gone.
    pub(super) fn truncate_from_start(&mut self, start_offset: i64) {
        while self.aborted.front().is_some_and(|aborted| aborted.last_offset < start_offset) {
            self.aborted.pop_front();
        }
    }

    /// The markers at these offsets, in their order, are not in the log any more.
    pub(super) fn forget(&mut self, markers: &[i64]) {
        if !markers.is_empty() {
            self.aborted.retain(|aborted| markers.binary_search(&aborted.last_offset).is_err());
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(producer_id: i64, first_offset: i64, last_offset: i64, committed: bool) -> EndedTransaction {
        EndedTransaction { producer_id, first_offset, last_offset, committed }
    }

    #[test]
    fn aborted_transactions_are_found_where_they_overlap() {
        let mut index = EndedTransactions::default();
        // 1 aborts 0 to 5 while 2, which began at 3, is open until 9; 3 commits; 1 aborts 12 to 13.
        index.end(ended(1, 0, 5, false), Some(3));
        index.end(ended(2, 3, 9, false), None);
        index.end(ended(3, 10, 11, true), None);
        index.end(ended(1, 12, 13, false), None);
        let found = |from, to| -> Vec<i64> {
            index.aborted(from, to).iter().map(|aborted| aborted.first_offset).collect()
        };
        assert_eq!(found(0, 100), [0, 3, 12]);
        assert_eq!(found(0, 3), [0]);
        assert_eq!(found(0, 4), [0, 3]);
        assert_eq!(found(6, 10), [3]);
        assert_eq!(found(10, 12), [0_i64; 0]);
        assert_eq!(found(10, 13), [12]);
        assert_eq!(found(14, 20), [0_i64; 0]);
        let mut cut = index.clone();
        cut.truncate_from_end(9);
        assert_eq!(cut.aborted(0, 100).len(), 1);
        let mut cut = index.clone();
        cut.truncate_from_start(10);
        assert_eq!(cut.aborted(0, 100).len(), 1);
    }

    #[test]
    fn a_transaction_holds_readers_back_until_its_marker_is_replicated() {
        let mut index = EndedTransactions::default();
        index.end(ended(1, 0, 5, true), None);
        index.end(ended(2, 3, 9, true), None);
        assert_eq!(index.first_unreplicated(5), Some(0), "the marker itself is not below the high watermark");
        assert_eq!(index.first_unreplicated(6), Some(3));
        assert_eq!(index.first_unreplicated(10), None);
        index.replicated_to(6);
        assert_eq!(index.first_unreplicated(0), Some(3));
        index.truncate_from_end(9);
        assert_eq!(index.first_unreplicated(0), None);
    }
}
