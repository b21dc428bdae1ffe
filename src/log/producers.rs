//! What a log knows of its idempotent producers: epoch, the last five batches, an open transaction (KIP-98; Kafka's
//! `ProducerStateManager`, `ProducerAppendInfo`).
//!
//! [`ProducerStates::check`] decides about a batch before it is appended, [`ProducerStates::update`] notes it
//! afterwards; a log that is read again is replayed through `update` alone. Knows batch headers, never records.

use std::collections::BTreeMap;

use super::transactions::EndedTransaction;
use crate::base::planted::{Bug, is_planted};
use crate::base::{ErrorCode, WallTime};
use crate::wire::batch::BatchView;
use crate::wire::marker::Marker;

/// Batches remembered per producer, so that a client with five requests in flight can repeat any of them.
pub const BATCHES_REMEMBERED: usize = 5;

/// The most producers of one log for which coordinators are asked at a time (ours): each has a request that waits, so that
/// it takes many connections to get there. The question of whoever is left out is to be asked again.
const MOST_VERIFICATIONS: usize = 10_000;

/// What a batch has for an epoch where it has none. A producer id may come with it all the same.
const NO_PRODUCER_EPOCH: i16 = -1;

/// The epoch of the coordinator where there was no marker yet.
const NO_COORDINATOR_EPOCH: i32 = -1;

/// Who appends a batch, which decides what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A client's Produce: epoch and sequence.
    Client,
    /// The same, where a batch that begins a transaction here must show that the coordinator was asked (KIP-890).
    VerifiedClient(Option<VerificationGuard>),
    /// A coordinator's records in somebody's transaction: the epoch, and as [`AppendOrigin::VerifiedClient`].
    VerifiedCoordinator(Option<VerificationGuard>),
    /// A coordinator's own records, and the markers that end transactions: the epoch.
    Coordinator,
    /// Copied from the leader: nothing.
    Replication,
}

impl AppendOrigin {
    fn is_client(self) -> bool {
        matches!(self, AppendOrigin::Client | AppendOrigin::VerifiedClient(_))
    }
}

/// Stands for one question to the coordinator whether a producer's transaction is open: what was asked before a marker
/// came says nothing of the time after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerificationGuard(u64);

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
    /// A batch outside any transaction from a producer whose transaction is open here, or the first of a transaction
    /// for which the coordinator wasn't asked.
    #[error("write of producer {producer_id} that doesn't fit its transaction's state")]
    InvalidTransactionState {
        /// The producer.
        producer_id: i64,
    },
    /// A marker of a coordinator that isn't the coordinator any more.
    #[error(
        "marker of coordinator epoch {found} for producer {producer_id}, whose coordinator has epoch {current}"
    )]
    CoordinatorFenced {
        /// The producer.
        producer_id: i64,
        /// The newest coordinator epoch seen.
        current: i32,
        /// The marker's.
        found: i32,
    },
}

impl ProducerError {
    /// The code that a Produce answer carries.
    pub fn code(&self) -> ErrorCode {
        match self {
            ProducerError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
            ProducerError::InvalidProducerEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            ProducerError::InvalidTransactionState { .. } => ErrorCode::InvalidTxnState,
            ProducerError::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
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
    /// The coordinator's epoch of the last marker; −1 if there was none.
    pub coordinator_epoch: i32,
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
            coordinator_epoch: NO_COORDINATOR_EPOCH,
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

    /// The batch of the current epoch that this one repeats.
    fn duplicate(&self, batch: &BatchView<'_>) -> Option<ProducerBatch> {
        if batch.is_control() || batch.producer_epoch() != self.epoch {
            return None;
        }
        let (first, last) = (batch.base_sequence(), last_sequence(batch));
        let same = |known: &&ProducerBatch| known.base_sequence == first && known.last_sequence == last;
        self.batches().iter().find(same).copied()
    }

    fn take_epoch(&mut self, epoch: i16) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batch_count = 0;
        }
    }
}

/// Whether the batch is of the producer's epoch or a newer one, and a marker of the coordinator's or a newer one. As in Kafka, a
/// producer that isn't known has those that say "none", below which there are some that no client should send.
fn check_epochs(
    batch: &BatchView<'_>,
    marker: Option<Marker>,
    known: Option<&ProducerState>,
) -> Result<(), ProducerError> {
    let (producer_id, found) = (batch.producer_id(), batch.producer_epoch());
    let current = known.map_or(NO_PRODUCER_EPOCH, |known| known.epoch);
    if found < current {
        return Err(ProducerError::InvalidProducerEpoch { producer_id, current, found });
    }
    let current = known.map_or(NO_COORDINATOR_EPOCH, |known| known.coordinator_epoch);
    match marker {
        Some(Marker { coordinator_epoch: found, .. }) if found < current => {
            Err(ProducerError::CoordinatorFenced { producer_id, current, found })
        }
        _ => Ok(()),
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
    /// Producers for which the coordinator is asked whether their transaction is open, with the epoch they write in.
    verifications: BTreeMap<i64, Verification>,
    last_guard: u64,
}

/// A producer whose transaction is to begin in a log, once its coordinator was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verifying {
    /// Its id.
    pub producer_id: i64,
    /// Its epoch.
    pub epoch: i16,
    /// First sequence of the batch that it has sent; −1 for offsets that it commits, which have none.
    pub sequence: i32,
    /// Whether its epoch rises with each transaction (KIP-890's second part), so that all epochs begin at sequence 0.
    pub bumps_epoch: bool,
}

/// Kafka's `VerificationStateEntry`. It lasts until something transactional of the producer is appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Verification {
    guard: VerificationGuard,
    /// The newest epoch that was asked for.
    epoch: i16,
    /// The lowest sequence that was asked for in that epoch.
    lowest_sequence: i32,
    bumps_epoch: bool,
}

impl ProducerStates {
    /// The guard to show when a transactional batch of this producer is appended, after its coordinator was asked; none
    /// if its transaction is open here already.
    ///
    /// Of the batches for which the coordinator is asked at a time, the one with the lowest sequence must be appended
    /// first: if its question fails and that of a later one doesn't, the producer would lose records otherwise.
    pub fn begin_verification(&mut self, verifying: Verifying) -> Option<VerificationGuard> {
        let Verifying { producer_id, epoch, sequence, bumps_epoch } = verifying;
        let known = self.producers.get(&producer_id);
        if known.is_some_and(|known| known.epoch == epoch && known.current_txn_first_offset.is_some()) {
            return None;
        }
        if let Some(asked) = self.verifications.get_mut(&producer_id) {
            if epoch > asked.epoch {
                (asked.epoch, asked.lowest_sequence) = (epoch, sequence);
            } else if epoch == asked.epoch {
                asked.lowest_sequence = asked.lowest_sequence.min(sequence);
            }
            return Some(asked.guard);
        }
        self.last_guard += 1;
        let guard = VerificationGuard(self.last_guard);
        while self.verifications.len() >= MOST_VERIFICATIONS {
            self.verifications.pop_first();
        }
        let verification = Verification { guard, epoch, lowest_sequence: sequence, bumps_epoch };
        self.verifications.insert(producer_id, verification);
        Some(guard)
    }

    /// Decides about a batch before it is appended. A batch without a producer id is always new.
    ///
    /// # Errors
    /// If the producer may not write it.
    pub fn check(
        &self,
        batch: &BatchView<'_>,
        marker: Option<Marker>,
        origin: AppendOrigin,
    ) -> Result<Verdict, ProducerError> {
        let producer_id = batch.producer_id();
        let is_unchecked = origin == AppendOrigin::Replication || is_planted(Bug::ForgetsSequences);
        if !batch.has_producer_id() || is_unchecked {
            return Ok(Verdict::Append);
        }
        let known = self.producers.get(&producer_id);
        let may_repeat = origin.is_client() && !is_planted(Bug::RefusesRepeats);
        let duplicate = known.and_then(|known| known.duplicate(batch)).filter(|_| may_repeat);
        if let Some(duplicate) = duplicate {
            return Ok(Verdict::Duplicate(duplicate));
        }
        check_epochs(batch, marker, known)?;
        if batch.is_control() {
            return Ok(Verdict::Append);
        }
        if origin.is_client() {
            let checked = self.check_sequence(batch, known);
            if is_planted(Bug::SkipsSequences) { skip_sequence(batch, checked.is_ok()) } else { checked }?;
        }
        let open = known.is_some_and(|known| known.current_txn_first_offset.is_some());
        let unverified = match origin {
            AppendOrigin::VerifiedClient(shown) | AppendOrigin::VerifiedCoordinator(shown)
                if batch.is_transactional() && !open =>
            {
                shown.is_none() || self.verifications.get(&producer_id).map(|asked| asked.guard) != shown
            }
            _ => false,
        };
        if unverified || open && !batch.is_transactional() {
            return Err(ProducerError::InvalidTransactionState { producer_id });
        }
        Ok(Verdict::Append)
    }

    fn check_sequence(
        &self,
        batch: &BatchView<'_>,
        known: Option<&ProducerState>,
    ) -> Result<(), ProducerError> {
        let (producer_id, epoch) = (batch.producer_id(), batch.producer_epoch());
        let found = batch.base_sequence();
        let asked = self.verifications.get(&producer_id);
        // An earlier one is still to come. As in Kafka, of whatever epoch that is.
        if let Some(asked) = asked.filter(|asked| found > asked.lowest_sequence) {
            let expected = asked.lowest_sequence;
            return Err(ProducerError::OutOfOrderSequence { producer_id, epoch, expected, found });
        }
        let expected = match known {
            // No state at all: any epoch and any sequence, unless the producer is known to begin anew.
            None if batch.is_transactional() && asked.is_some_and(|asked| asked.bumps_epoch) => 0,
            None => return Ok(()),
            // A producer that was last seen without an epoch may go on with any sequence.
            Some(known) if known.epoch == NO_PRODUCER_EPOCH => return Ok(()),
            Some(known) if known.epoch == epoch => increment_sequence(known.last_sequence(), 1),
            Some(_) => 0,
        };
        if found == expected {
            return Ok(());
        }
        Err(ProducerError::OutOfOrderSequence { producer_id, epoch, expected, found })
    }

    /// Notes an appended batch, whose header carries its final offsets and timestamp. `marker` is what it says if it is
    /// a marker, `most` the limit on producers. Gives the transaction that it has ended.
    pub fn update(
        &mut self,
        batch: &BatchView<'_>,
        marker: Option<Marker>,
        most: usize,
    ) -> Option<EndedTransaction> {
        if !batch.has_producer_id() {
            return None;
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
            self.verifications.remove(&producer_id);
            state.coordinator_epoch =
                marker.map_or(state.coordinator_epoch, |marker| marker.coordinator_epoch);
            let first_offset = state.current_txn_first_offset.take()?;
            self.open_transactions.remove(&first_offset);
            return Some(EndedTransaction {
                producer_id,
                first_offset,
                last_offset: batch.last_offset(),
                committed: marker.is_none_or(|marker| marker.commit),
            });
        }
        state.remember(ProducerBatch {
            base_offset: batch.base_offset(),
            last_offset: batch.last_offset(),
            base_sequence: batch.base_sequence(),
            last_sequence: last_sequence(batch),
            timestamp_ms: batch.max_timestamp(),
        });
        if batch.is_transactional() {
            self.verifications.remove(&producer_id);
            if state.current_txn_first_offset.is_none() {
                state.current_txn_first_offset = Some(batch.base_offset());
                self.open_transactions.insert(batch.base_offset(), producer_id);
            }
        }
        None
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

/// What [`Bug::SkipsSequences`] makes of a batch that is next, or not: of the former some are refused, and none of the
/// latter.
fn skip_sequence(batch: &BatchView<'_>, is_next: bool) -> Result<(), ProducerError> {
    let (producer_id, epoch) = (batch.producer_id(), batch.producer_epoch());
    let found = batch.base_sequence();
    if is_next && found % 5 == 1 {
        return Err(ProducerError::OutOfOrderSequence { producer_id, epoch, expected: found, found });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::batch::HEADER_LEN;

    const MOST: usize = 1_000;

    #[derive(Clone, Copy)]
    struct Draft {
        base_offset: i64,
        count: i32,
        id: i64,
        epoch: i16,
        sequence: i32,
        attributes: i16,
        timestamp_ms: i64,
    }

    /// Sequence `sequence..sequence + count` of producer 1, epoch 0, at offset 100.
    fn draft(sequence: i32, count: i32) -> Draft {
        Draft { base_offset: 100, count, id: 1, epoch: 0, sequence, attributes: 0, timestamp_ms: 5_000 }
    }

    impl Draft {
        fn header(&self) -> [u8; HEADER_LEN] {
            let mut bytes = [0; HEADER_LEN];
            let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
            put(0, &self.base_offset.to_be_bytes());
            put(21, &self.attributes.to_be_bytes());
            put(23, &(self.count - 1).to_be_bytes());
            put(35, &self.timestamp_ms.to_be_bytes());
            put(43, &self.id.to_be_bytes());
            put(51, &self.epoch.to_be_bytes());
            put(53, &self.sequence.to_be_bytes());
            bytes
        }
    }

    fn check(states: &ProducerStates, draft: Draft) -> Result<Verdict, ProducerError> {
        states.check(&BatchView::new(&draft.header()).expect("a header"), None, AppendOrigin::Client)
    }

    fn update(states: &mut ProducerStates, draft: Draft) {
        states.update(&BatchView::new(&draft.header()).expect("a header"), None, MOST);
    }

    fn states(drafts: &[Draft]) -> ProducerStates {
        let mut states = ProducerStates::default();
        for draft in drafts {
            assert_eq!(check(&states, *draft), Ok(Verdict::Append));
            update(&mut states, *draft);
        }
        states
    }

    fn out_of_order(expected: i32, found: i32) -> Result<Verdict, ProducerError> {
        Err(ProducerError::OutOfOrderSequence { producer_id: 1, epoch: 0, expected, found })
    }

    #[test]
    fn of_the_batches_whose_coordinator_is_asked_the_first_must_come_first() {
        let transactional = 1 << 4;
        let of = |epoch, sequence| Draft { epoch, attributes: transactional, ..draft(sequence, 2) };
        let ask = |states: &mut ProducerStates, epoch, sequence| {
            let verifying = Verifying { producer_id: 1, epoch, sequence, bumps_epoch: false };
            states.begin_verification(verifying)
        };
        let check = |states: &ProducerStates, draft: Draft, guard| {
            let origin = AppendOrigin::VerifiedClient(guard);
            states.check(&BatchView::new(&draft.header()).expect("a header"), None, origin)
        };
        let mut states = ProducerStates::default();
        let guard = ask(&mut states, 0, 7);
        assert!(guard.is_some());
        assert_eq!(ask(&mut states, 0, 5), guard);
        assert_eq!(ask(&mut states, 0, 9), guard);
        assert_eq!(check(&states, of(0, 7), guard), out_of_order(5, 7));
        assert_eq!(check(&states, of(0, 5), guard), Ok(Verdict::Append));
        update(&mut states, of(0, 5));
        assert_eq!(ask(&mut states, 0, 7), None, "the transaction is open");
        assert_eq!(check(&states, of(0, 7), None), Ok(Verdict::Append));

        // Somebody whose epoch is another asks, in vain: what its producer sends meanwhile is refused, as in Kafka.
        let other = ask(&mut states, 1, 0);
        assert!(other.is_some() && other != guard);
        assert_eq!(check(&states, of(0, 7), None), out_of_order(0, 7));
        assert_eq!(ask(&mut states, 2, 4), other, "the newest epoch's sequence counts");
        assert_eq!(check(&states, of(0, 7), None), out_of_order(4, 7));
        update(&mut states, of(0, 7));
        assert_eq!(check(&states, of(0, 9), None), Ok(Verdict::Append), "something was appended");
    }

    #[test]
    fn an_unknown_producer_may_start_anywhere() {
        let states = ProducerStates::default();
        for sequence in [0, 1, 77, i32::MAX] {
            assert_eq!(check(&states, draft(sequence, 3)), Ok(Verdict::Append));
        }
    }

    #[test]
    fn a_producer_seen_without_an_epoch_may_go_on_anywhere() {
        let states = states(&[Draft { epoch: -1, ..draft(0, 3) }]);
        for epoch in [-1, 0, 5] {
            assert_eq!(check(&states, Draft { epoch, ..draft(77, 1) }), Ok(Verdict::Append));
        }
        assert!(matches!(check(&states, Draft { epoch: -1, ..draft(0, 3) }), Ok(Verdict::Duplicate(_))));
    }

    #[test]
    fn sequences_follow_each_other() {
        let states = states(&[draft(5, 3)]);
        assert_eq!(check(&states, draft(8, 1)), Ok(Verdict::Append));
        assert_eq!(check(&states, draft(9, 1)), out_of_order(8, 9));
        assert_eq!(check(&states, draft(0, 1)), out_of_order(8, 0));
        assert_eq!(check(&states, draft(5, 2)), out_of_order(8, 5));
        assert_eq!(
            out_of_order(8, 5).map_err(|error| error.code()),
            Err(ErrorCode::OutOfOrderSequenceNumber)
        );
    }

    #[test]
    fn the_last_five_batches_are_known_as_duplicates() {
        let drafts: Vec<Draft> =
            (0..6).map(|i| Draft { base_offset: 100 + i64::from(i), ..draft(i, 1) }).collect();
        let states = states(&drafts);
        assert_eq!(check(&states, drafts[0]), out_of_order(6, 0));
        for draft in &drafts[1..] {
            let Ok(Verdict::Duplicate(batch)) = check(&states, *draft) else { panic!("not known") };
            let found = (batch.base_offset, batch.last_offset, batch.timestamp_ms);
            assert_eq!(found, (draft.base_offset, draft.base_offset, 5_000));
        }
        assert_eq!(
            check(&states, Draft { epoch: 1, ..drafts[5] }),
            Err(ProducerError::OutOfOrderSequence { producer_id: 1, epoch: 1, expected: 0, found: 5 })
        );
    }

    #[test]
    fn sequences_wrap_between_and_within_batches() {
        let states_at_end = states(&[draft(i32::MAX - 1, 2)]);
        assert_eq!(check(&states_at_end, draft(0, 1)), Ok(Verdict::Append));
        assert_eq!(check(&states_at_end, draft(1, 1)), out_of_order(0, 1));
        let wrapped = states(&[draft(i32::MAX, 3)]);
        assert_eq!(wrapped.producer(1).map(ProducerState::last_sequence), Some(1));
        assert_eq!(check(&wrapped, draft(2, 1)), Ok(Verdict::Append));
        assert!(matches!(check(&wrapped, draft(i32::MAX, 3)), Ok(Verdict::Duplicate(_))));
    }

    #[test]
    fn a_new_epoch_starts_at_zero_and_fences_the_old_one() {
        let mut states = states(&[draft(0, 10)]);
        let bumped = Draft { epoch: 1, ..draft(0, 10) };
        assert!(check(&states, Draft { sequence: 10, ..bumped }).is_err());
        assert_eq!(check(&states, bumped), Ok(Verdict::Append));
        update(&mut states, bumped);
        let fenced = Err(ProducerError::InvalidProducerEpoch { producer_id: 1, current: 1, found: 0 });
        assert_eq!(check(&states, draft(0, 10)), fenced);
        assert_eq!(check(&states, draft(10, 1)), fenced);
        assert_eq!(fenced.map_err(|error| error.code()), Err(ErrorCode::InvalidProducerEpoch));
        assert_eq!(states.producer(1).map(|state| state.batches().len()), Some(1));
    }

    #[test]
    fn epochs_below_none_are_too_old_for_everybody() {
        let states = states(&[]);
        let below = Draft { epoch: -2, ..draft(0, 1) };
        let refused = Err(ProducerError::InvalidProducerEpoch { producer_id: 1, current: -1, found: -2 });
        assert_eq!(check(&states, below), refused);
        assert_eq!(check(&states, Draft { epoch: -1, ..below }), Ok(Verdict::Append));
    }

    #[test]
    fn the_origin_decides_what_is_checked() {
        let states = states(&[Draft { epoch: 3, ..draft(0, 1) }]);
        let by = |draft: Draft, origin| {
            let header = draft.header();
            states.check(&BatchView::new(&header).expect("a header"), None, origin)
        };
        let gap = Draft { epoch: 3, ..draft(9, 1) };
        let old = draft(1, 1);
        assert_eq!(by(gap, AppendOrigin::Coordinator), Ok(Verdict::Append));
        assert!(by(old, AppendOrigin::Coordinator).is_err());
        assert_eq!(by(old, AppendOrigin::Replication), Ok(Verdict::Append));
    }

    #[test]
    fn batches_without_producer_id_leave_no_trace() {
        let states = states(&[Draft { id: -1, epoch: -1, ..draft(-1, 1) }, Draft { id: -2, ..draft(0, 1) }]);
        assert!(states.is_empty());
    }

    #[test]
    fn a_transaction_is_open_until_its_marker() {
        let mut states = states(&[Draft { attributes: 0x10, ..draft(0, 2) }]);
        update(&mut states, Draft { attributes: 0x10, base_offset: 102, ..draft(2, 2) });
        assert_eq!(states.first_open_transaction_offset(), Some(100));
        let plain = check(&states, draft(4, 1));
        assert_eq!(plain, Err(ProducerError::InvalidTransactionState { producer_id: 1 }));
        assert_eq!(states.expire(WallTime(i64::MAX), 1), 0, "it does not expire meanwhile");
        update(&mut states, Draft { attributes: 0x30, base_offset: 104, ..draft(-1, 1) });
        assert_eq!(states.first_open_transaction_offset(), None);
        assert_eq!(check(&states, draft(4, 1)), Ok(Verdict::Append), "the marker keeps the sequence");
        update(&mut states, Draft { attributes: 0x30, base_offset: 105, epoch: 1, ..draft(-1, 1) });
        assert_eq!(
            states.producer(1).map(ProducerState::last_sequence),
            Some(-1),
            "unless it has a new epoch"
        );
    }

    #[test]
    fn idle_producers_expire() {
        let mut states = states(&[draft(0, 1), Draft { id: 2, timestamp_ms: 6_000, ..draft(0, 1) }]);
        assert_eq!(states.expire(WallTime(5_999), 1_000), 0);
        assert_eq!(states.expire(WallTime(6_000), 1_000), 1);
        assert!(states.producer(1).is_none() && states.producer(2).is_some());
        assert_eq!(check(&states, draft(77, 1)), Ok(Verdict::Append));
    }

    #[test]
    fn above_the_limit_the_oldest_are_forgotten() {
        let mut states = ProducerStates::default();
        for id in 0..10_000 {
            let attributes = if id == 3 { 0x10 } else { 0 };
            update(&mut states, Draft { id, timestamp_ms: id, attributes, ..draft(0, 1) });
            assert!(states.len() <= MOST);
        }
        assert!(states.producer(9_999).is_some() && states.producer(9_100).is_some());
        assert!(states.producer(8_000).is_none());
        assert!(states.producer(3).is_some(), "its transaction is open");
    }
}
