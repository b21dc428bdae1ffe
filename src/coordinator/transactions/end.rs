//! The end of a transaction: by its producer (EndTxn), by a newer one, or by its timeout.

use std::sync::Arc;

use super::state::{LAST_EPOCH, TransactionState};
use super::{
    Effects, FollowUp, Producer, Transaction, TransactionValue, Transactions, WriteKind,
    check_client_version, transaction_version,
};
use crate::base::ErrorCode;
use crate::coordinator::Ticket;

/// An EndTxn request.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Who asks.
    pub producer: Producer,
    /// Whether to commit, else to abort.
    pub commit: bool,
    /// Whether the producer's epoch rises with each transaction (v5+, KIP-890's second part).
    pub bumps_epoch: bool,
    /// An id that no other producer has; must be there if [`Transactions::wants_producer_id`].
    pub fresh_id: Option<i64>,
}

/// What an EndTxn request comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was carried out before: the producer that is to go on.
    Already(Producer),
    /// Under this ticket the producer that is to go on comes.
    Waits(Ticket),
}

pub(super) enum Decision {
    /// It was carried out before.
    Already,
    /// The end is written. `is_empty` says that nothing was begun.
    Prepare { is_empty: bool },
}

/// The version of transactions of clients whose epoch rises with each, or doesn't.
fn client_version(bumps_epoch: bool) -> i16 {
    if bumps_epoch { 2 } else { 0 }
}

impl Transactions {
    pub(in crate::coordinator) fn end(
        &mut self,
        id: &Arc<str>,
        end: End,
        effects: &mut Effects<'_>,
    ) -> Result<Ended, ErrorCode> {
        let transaction = self.known(id)?;
        let decision =
            if end.bumps_epoch { transaction.decide_bumping(&end)? } else { transaction.decide(&end)? };
        match decision {
            Decision::Already => {
                let value = &transaction.value;
                Ok(Ended::Already(Producer { id: value.producer_id, epoch: value.epoch }))
            }
            Decision::Prepare { is_empty } => {
                check_client_version(client_version(end.bumps_epoch), effects)?;
                let ticket = effects.ticket();
                transaction.prepare(id, end, is_empty, ticket, effects)?;
                Ok(Ended::Waits(ticket))
            }
        }
    }
}

impl Transaction {
    /// For producers whose epoch stays the same over transactions.
    pub(super) fn decide(&self, end: &End) -> Result<Decision, ErrorCode> {
        let value = &self.value;
        if value.producer_id != end.producer.id {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if value.epoch != end.producer.epoch {
            return Err(ErrorCode::ProducerFenced);
        }
        if self.pending.is_some() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        match value.state {
            TransactionState::Ongoing => Ok(Decision::Prepare { is_empty: false }),
            TransactionState::CompleteCommit if end.commit => Ok(Decision::Already),
            TransactionState::CompleteAbort if !end.commit => Ok(Decision::Already),
            TransactionState::PrepareCommit if end.commit => Err(ErrorCode::ConcurrentTransactions),
            TransactionState::PrepareAbort if !end.commit => Err(ErrorCode::ConcurrentTransactions),
            _ => Err(ErrorCode::InvalidTxnState),
        }
    }

    /// For producers whose epoch rises with each transaction: an epoch one below ours is that of a request that was
    /// carried out, whose answer got lost.
    pub(super) fn decide_bumping(&self, end: &End) -> Result<Decision, ErrorCode> {
        use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};
        let (value, producer) = (&self.value, end.producer);
        if self.pending.is_some() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        let id_changed =
            value.previous_producer_id == producer.id && producer.epoch == LAST_EPOCH && value.epoch == 0;
        if value.producer_id != producer.id && !id_changed {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        let is_next = Some(value.epoch) == producer.epoch.checked_add(1);
        let is_current = value.producer_id == producer.id && value.epoch == producer.epoch;
        let is_repeated = match value.state {
            PrepareCommit | PrepareAbort if is_next => true,
            CompleteCommit | CompleteAbort if is_next || id_changed => true,
            Ongoing | Empty | CompleteCommit | CompleteAbort if is_current => false,
            _ => return Err(ErrorCode::ProducerFenced),
        };
        match (value.state, end.commit) {
            (Ongoing, _) => Ok(Decision::Prepare { is_empty: false }),
            (CompleteCommit, true) | (CompleteAbort, false) if is_repeated => Ok(Decision::Already),
            (PrepareCommit, true) | (PrepareAbort, false) => Err(ErrorCode::ConcurrentTransactions),
            (Empty | CompleteCommit | CompleteAbort, false) if !is_repeated => {
                Ok(Decision::Prepare { is_empty: true })
            }
            _ => Err(ErrorCode::InvalidTxnState),
        }
    }

    fn prepare(
        &mut self,
        id: &Arc<str>,
        end: End,
        is_empty: bool,
        ticket: Ticket,
        effects: &mut Effects<'_>,
    ) -> Result<(), ErrorCode> {
        let now_ms = effects.now.wall.as_millis();
        let old = &self.value;
        let mut value = TransactionValue {
            state: match end.commit {
                true => TransactionState::PrepareCommit,
                false => TransactionState::PrepareAbort,
            },
            last_update_ms: now_ms,
            start_ms: if is_empty { now_ms } else { old.start_ms },
            next_producer_id: -1,
            client_version: client_version(end.bumps_epoch),
            ..old.clone()
        };
        let mut goes_on = Producer { id: old.producer_id, epoch: old.epoch };
        if end.bumps_epoch {
            value.last_epoch = old.epoch;
            value.epoch = old.epoch.saturating_add(1);
            goes_on.epoch = value.epoch;
            if old.is_epoch_exhausted() {
                // The markers take the very last epoch of the old id, and the producer goes on with the new one.
                value.next_producer_id = end.fresh_id.ok_or(ErrorCode::CoordinatorNotAvailable)?;
                goes_on = Producer { id: value.next_producer_id, epoch: 0 };
            }
        }
        let answer = Some((ticket, Ok(goes_on)));
        self.transition(id, value, FollowUp { answer, kind: WriteKind::Asked }, effects);
        Ok(())
    }

    /// The transaction has taken too long, unless it has ended meanwhile.
    pub(super) fn time_out(&mut self, id: &Arc<str>, effects: &mut Effects<'_>) {
        match self.times_out_ms() {
            // Whatever is being written sets the timer anew.
            Some(_) if self.pending.is_some() => {}
            Some(at_ms) if at_ms <= effects.now.wall.as_millis() => self.fence(id, None, effects),
            Some(_) => self.watch(effects),
            None => {}
        }
    }

    /// Aborts an ongoing transaction with a higher epoch, so that its producer can do no more.
    pub(super) fn fence(
        &mut self,
        id: &Arc<str>,
        answer: Option<(Ticket, Result<Producer, ErrorCode>)>,
        effects: &mut Effects<'_>,
    ) {
        let bumps_epoch = transaction_version(effects) >= 2;
        let old = &self.value;
        let epoch = match self.failed_fence && !bumps_epoch {
            true => old.epoch,
            false => old.epoch.saturating_add(1),
        };
        let value = TransactionValue {
            state: TransactionState::PrepareAbort,
            epoch,
            last_epoch: -1,
            last_update_ms: effects.now.wall.as_millis(),
            client_version: client_version(bumps_epoch),
            ..old.clone()
        };
        self.transition(id, value, FollowUp { answer, kind: WriteKind::Fence }, effects);
    }

    pub(super) fn write_failed(&mut self, kind: WriteKind, effects: &mut Effects<'_>) {
        match kind {
            WriteKind::Asked => self.pending = None,
            WriteKind::Fence => {
                if transaction_version(effects) < 2 && !self.failed_fence {
                    // What was in the record that failed; a second try must not go higher.
                    self.value.epoch = self.value.epoch.saturating_add(1);
                    self.failed_fence = true;
                }
                self.pending = None;
            }
            // The markers are written: there is no way back.
            WriteKind::Complete => {
                effects.schedule(super::TransactionTimer::Markers, super::markers::RETRY_MS);
                return;
            }
        }
        self.watch_again(effects);
    }

    /// A transaction whose time is over is looked at again a little later, if ending it has failed.
    fn watch_again(&self, effects: &mut Effects<'_>) {
        if let Some(at_ms) = self.times_out_ms() {
            let left_ms = at_ms.saturating_sub(effects.now.wall.as_millis());
            effects.schedule(super::TransactionTimer::Timeout, left_ms.max(super::markers::RETRY_MS));
        }
    }
}
