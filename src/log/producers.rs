//! What a log knows of its idempotent producers: epoch, the last five batches, an open transaction (KIP-98; Kafka's
//! `ProducerStateManager`, `ProducerAppendInfo`).
//!
//! [`ProducerStates::check`] decides about a batch before it is appended, [`ProducerStates::update`] notes it
//! afterwards; a log that is read again is replayed through `update` alone. Knows batch headers, never records.

use std::collections::BTreeMap;

use crate::base::{ErrorCode, WallTime};
use crate::wire::batch::BatchView;

/// Batches remembered per producer, so that a client with five requests in flight can repeat any of them.
pub const BATCHES_REMEMBERED: usize = 5;

/// Who appends a batch, which decides what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A client's Produce: epoch and sequence.
    Client,
    /// A coordinator's own records: the epoch.
    Coordinator,
    /// Copied from the leader: nothing.
    Replication,
}

/// One appended batch of a producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerBatch {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset of the last record.
    pub last_offset: i64,
    /// Sequence of the first record.
    pub base_sequence: i32,
    /// Sequence of the last record.
    pub last_sequence: i32,
    /// The batch's largest timestamp as stored, ms.
    pub timestamp_ms: i64,
}

/// Why a producer's batch is refused. All of these are the client's to handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    /// The sequence does not follow the last one, or a new epoch does not start at 0.
    #[error(
        "out of order sequence {found} of producer {producer_id} with epoch {epoch}, expected {expected}"
    )]
    OutOfOrderSequence {
        /// The producer.
        producer_id: i64,
        /// The batch's epoch.
        epoch: i16,
        /// The sequence that would have followed.
        expected: i32,
        /// The batch's first sequence.
        found: i32,
    },
    /// A newer epoch of this producer has written already.
    #[error("epoch {found} of producer {producer_id} is older than the last seen epoch {current}")]
    InvalidProducerEpoch {
        /// The producer.
        producer_id: i64,
        /// The newest epoch seen.
        current: i16,
        /// The batch's epoch.
        found: i16,
    },
    /// A batch outside any transaction from a producer whose transaction is open here.
    #[error("non-transactional write of producer {producer_id} while its transaction is open")]
    InvalidTransactionState {
        /// The producer.
        producer_id: i64,
    },
}

impl ProducerError {
    /// The code that a Produce answer carries.
    pub fn code(&self) -> ErrorCode {
        match self {
            ProducerError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
            ProducerError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            ProducerError::InvalidTransactionState { .. } => ErrorCode::InvalidTxnState,
        }
    }
}

/// What is to be done with a producer's batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is new.
    Append,
    /// It was appended before, as this batch: answer with that, append nothing.
    Duplicate(ProducerBatch),
}

/// The state of one producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// The newest epoch seen.
    pub epoch: i16,
    /// Timestamp of the last batch, ms: what expiry counts from.
    pub last_timestamp_ms: i64,
    /// The last offset that changed this state.
    pub last_offset: i64,
    /// First offset of the open transaction, if one is open.
    pub current_txn_first_offset: Option<i64>,
    batches: [ProducerBatch; BATCHES_REMEMBERED],
    batch_count: u8,
}

impl ProducerState {
    fn new(epoch: i16) -> Self {
        ProducerState {
            epoch,
            last_timestamp_ms: -1,
            last_offset: -1,
            current_txn_first_offset: None,
            batches: Default::default(),
            batch_count: 0,
        }
    }

    /// The remembered batches of the current epoch, oldest first.
    pub fn batches(&self) -> &[ProducerBatch] {
        &self.batches[..usize::from(self.batch_count)]
    }

    /// The last sequence of the current epoch; −1 if none.
    pub fn last_sequence(&self) -> i32 {
        self.batches().last().map_or(-1, |batch| batch.last_sequence)
    }

    fn remember(&mut self, batch: ProducerBatch) {
        if usize::from(self.batch_count) == BATCHES_REMEMBERED {
            self.batches.rotate_left(1);
            self.batch_count -= 1;
        }
        self.batches[usize::from(self.batch_count)] = batch;
        self.batch_count += 1;
    }

    fn take_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batch_count = 0;
        }
    }
}

/// The producers of one log. Costs nothing while there are none.
///
/// Above the limit on producers, those whose last batch is oldest are forgotten (a sixteenth of them at a time),
/// except where a transaction is open. A forgotten producer may go on with any sequence, as after expiry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProducerStates {
    producers: BTreeMap<i64, ProducerState>,
    /// Open transactions: first offset to producer id.
    open_transactions: BTreeMap<i64, i64>,
}

impl ProducerStates {
    /// Decides about a batch before it is appended. A batch without a producer id is always new.
    pub fn check(&self, batch: &BatchView<'_>, origin: AppendOrigin) -> Result<Verdict, ProducerError> {
        let producer_id = batch.producer_id();
        if !batch.has_producer_id() || origin == AppendOrigin::Replication {
            return Ok(Verdict::Append);
        }
        // No state at all: any epoch and any sequence.
        let Some(known) = self.producers.get(&producer_id) else { return Ok(Verdict::Append) };
        let (epoch, base_sequence) = (batch.producer_epoch(), batch.base_sequence());
        if origin == AppendOrigin::Client && epoch == known.epoch && !batch.is_control() {
            let last_sequence = last_sequence(batch);
            let same =
                |b: &&ProducerBatch| b.base_sequence == base_sequence && b.last_sequence == last_sequence;
            if let Some(duplicate) = known.batches().iter().find(same) {
                return Ok(Verdict::Duplicate(*duplicate));
            }
        }
        if epoch < known.epoch {
            return Err(ProducerError::InvalidProducerEpoch {
                producer_id,
                current: known.epoch,
                found: epoch,
            });
        }
        if batch.is_control() {
            return Ok(Verdict::Append);
        }
        if origin == AppendOrigin::Client {
            let last = if epoch == known.epoch { known.last_sequence() } else { -1 };
            let expected = increment_sequence(last, 1);
            if base_sequence != expected {
                let found = base_sequence;
                return Err(ProducerError::OutOfOrderSequence { producer_id, epoch, expected, found });
            }
        }
        if known.current_txn_first_offset.is_some() && !batch.is_transactional() {
            return Err(ProducerError::InvalidTransactionState { producer_id });
        }
        Ok(Verdict::Append)
    }

    /// Notes an appended batch, whose header carries its final offsets and timestamp. `most` is the limit on producers.
    pub fn update(&mut self, batch: &BatchView<'_>, most: usize) {
        if !batch.has_producer_id() {
            return;
        }
        let producer_id = batch.producer_id();
        if self.producers.len() >= most && !self.producers.contains_key(&producer_id) {
            self.forget_oldest(most);
        }
        let epoch = batch.producer_epoch();
        let state = self.producers.entry(producer_id).or_insert_with(|| ProducerState::new(epoch));
        state.take_epoch(epoch);
        state.last_timestamp_ms = batch.max_timestamp();
        state.last_offset = batch.last_offset();
        if batch.is_control() {
            if let Some(first_offset) = state.current_txn_first_offset.take() {
                self.open_transactions.remove(&first_offset);
            }
            return;
        }
        state.remember(ProducerBatch {
            base_offset: batch.base_offset(),
            last_offset: batch.last_offset(),
            base_sequence: batch.base_sequence(),
            last_sequence: last_sequence(batch),
            timestamp_ms: batch.max_timestamp(),
        });
        if batch.is_transactional() && state.current_txn_first_offset.is_none() {
            state.current_txn_first_offset = Some(batch.base_offset());
            self.open_transactions.insert(batch.base_offset(), producer_id);
        }
    }

    /// The state of a producer.
    pub fn producer(&self, producer_id: i64) -> Option<&ProducerState> {
        self.producers.get(&producer_id)
    }

    /// All producers, by id.
    pub fn iter(&self) -> impl Iterator<Item = (i64, &ProducerState)> {
        self.producers.iter().map(|(&id, state)| (id, state))
    }

    /// How many producers are known.
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    /// Whether no producer is known.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// First offset of the oldest open transaction: what holds the last stable offset back.
    pub fn first_open_transaction_offset(&self) -> Option<i64> {
        self.open_transactions.keys().next().copied()
    }

    /// Forgets producers whose last batch is `expiration_ms` or more ago, except where a transaction is open.
    /// Returns how many.
    pub fn expire(&mut self, now: WallTime, expiration_ms: i64) -> usize {
        let before = self.producers.len();
        self.producers.retain(|_, state| {
            state.current_txn_first_offset.is_some()
                || now.as_millis().saturating_sub(state.last_timestamp_ms) < expiration_ms
        });
        before - self.producers.len()
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Removes the producers that wrote at or above `end_offset`, whose state before is not known. To be replayed:
    /// all remaining batches of those producers.
    pub(super) fn remove_written_from(&mut self, end_offset: i64) -> Vec<i64> {
        let written = |state: &ProducerState| state.last_offset >= end_offset;
        let removed: Vec<i64> = self.iter().filter(|(_, state)| written(state)).map(|(id, _)| id).collect();
        for id in &removed {
            if let Some(first) = self.producers.remove(id).and_then(|state| state.current_txn_first_offset) {
                self.open_transactions.remove(&first);
            }
        }
        removed
    }

    fn forget_oldest(&mut self, most: usize) {
        let idle = self.iter().filter(|(_, state)| state.current_txn_first_offset.is_none());
        let mut oldest: Vec<(i64, i64, i64)> =
            idle.map(|(id, state)| (state.last_timestamp_ms, state.last_offset, id)).collect();
        oldest.sort_unstable();
        let excess = self.producers.len().saturating_sub(most);
        oldest.truncate(excess + (most / 16).max(1));
        for (_, _, id) in oldest {
            self.producers.remove(&id);
        }
    }
}

/// The sequence of the batch's last record.
fn last_sequence(batch: &BatchView<'_>) -> i32 {
    increment_sequence(batch.base_sequence(), batch.last_offset_delta())
}

/// Sequences wrap from 2^31 − 1 to 0.
fn increment_sequence(sequence: i32, by: i32) -> i32 {
    let sum = i64::from(sequence) + i64::from(by);
    (if sum > i64::from(i32::MAX) { sum - i64::from(i32::MAX) - 1 } else { sum }) as i32
}
