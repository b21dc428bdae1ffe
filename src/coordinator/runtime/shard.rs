//! One shard: its state, what of that isn't committed yet, and who waits for it to be.

use std::collections::VecDeque;

use super::{OnCommit, ShardState};
use crate::base::{Instant, Now, PartitionKey};

#[derive(Clone, Debug)]
pub(super) struct Shard<S: ShardState> {
    pub(super) key: PartitionKey,
    pub(super) state: S,
    /// What the state was where `ahead` has changed it.
    pub(super) kept: S::Kept,
    /// Records that the state has and that aren't committed yet, in the order of what commits them.
    pub(super) ahead: VecDeque<Ahead<S>>,
    /// The high watermark that commits all that the state has.
    pub(super) last_written: i64,
    /// In the order of what commits them.
    pub(super) uncommitted: VecDeque<Uncommitted<S>>,
}

/// Records that the state has already.
#[derive(Clone, Debug)]
pub(super) struct Ahead<S: ShardState> {
    /// The high watermark that commits them.
    pub(super) required: i64,
    records: Vec<S::Record>,
    /// The producer of the transaction that they are part of.
    producer_id: Option<i64>,
}

impl<S: ShardState> Shard<S> {
    /// A shard without records.
    pub(super) fn new(key: PartitionKey) -> Self {
        Shard {
            key,
            state: S::default(),
            kept: S::Kept::default(),
            ahead: VecDeque::new(),
            last_written: 0,
            uncommitted: VecDeque::new(),
        }
    }

    /// Takes on records that the high watermark commits which `required` says, and that is `high_watermark` now.
    pub(super) fn replay(
        &mut self,
        records: Vec<S::Record>,
        producer_id: Option<i64>,
        (required, high_watermark): (i64, i64),
        now: Now,
        is_known: impl Fn(&S::Record) -> bool,
    ) {
        let is_ahead = required > high_watermark;
        for record in &records {
            if is_ahead {
                self.state.keep(&mut self.kept, record, producer_id);
            }
            if !is_known(record) {
                self.state.replay(record, producer_id, now);
            }
        }
        if is_ahead && !records.is_empty() {
            self.ahead.push_back(Ahead { required, records, producer_id });
        }
    }

    /// Takes on the end of a transaction.
    pub(super) fn end_transaction(
        &mut self,
        producer_id: i64,
        committed: bool,
        (required, high_watermark): (i64, i64),
        now: Now,
    ) {
        if required > high_watermark {
            let records = self.state.ended_by(producer_id, committed);
            records.iter().for_each(|record| self.state.keep(&mut self.kept, record, None));
            self.ahead.push_back(Ahead { required, records, producer_id: None });
        }
        self.state.end_transaction(producer_id, committed, now);
    }

    /// The high watermark is this now.
    pub(super) fn catch_up(&mut self, high_watermark: i64, now: Now) {
        while let Some(Ahead { records, producer_id, .. }) =
            self.ahead.pop_front_if(|first| first.required <= high_watermark)
        {
            records.iter().for_each(|record| S::catch_up(&mut self.kept, record, producer_id, now));
        }
        if self.ahead.is_empty() {
            self.kept = S::Kept::default();
        }
    }
}

/// A write that isn't committed yet.
#[derive(Clone, Debug)]
pub(super) struct Uncommitted<S: ShardState> {
    /// The high watermark that commits it.
    pub(super) required: i64,
    /// When a request that waits for it is told that it may not be.
    pub(super) deadline: Instant,
    pub(super) then: OnCommit<S>,
}
