//! InitProducerId: a producer begins, or begins again, and whoever had its transactional id before is fenced.

use std::sync::Arc;

use super::state::{LAST_EPOCH, Partitions};
use super::{
    Effects, FollowUp, NO_EPOCH, Producer, Transaction, TransactionSettings, TransactionState,
    TransactionValue, Transactions, WriteKind,
};
use crate::base::ErrorCode;
use crate::coordinator::Ticket;

/// An InitProducerId request with a transactional id.
#[derive(Clone, Copy, Debug)]
pub struct Init {
    /// How long transactions may take, ms.
    pub timeout_ms: i32,
    /// What the producer has been, if it says (KIP-360).
    pub expected: Option<Producer>,
    /// Whether an outside coordinator decides over the end (KIP-939).
    pub two_phase_commit: bool,
    /// Whether a prepared transaction is to go on (KIP-939).
    pub keep_prepared: bool,
    /// An id that no other producer has; must be there if [`Transactions::wants_producer_id`].
    pub fresh_id: Option<i64>,
}

impl Transactions {
    /// Whether the next InitProducerId or EndTxn of this transactional id may need an id that no other producer has.
    pub fn wants_producer_id(&self, id: &str) -> bool {
        self.by_id.get(id).is_none_or(|transaction| transaction.value.is_epoch_exhausted())
    }

    /// Gives the ticket under which the producer's id and epoch come.
    pub(in crate::coordinator) fn init(
        &mut self,
        id: &Arc<str>,
        init: Init,
        effects: &mut Effects<'_>,
    ) -> Result<Ticket, ErrorCode> {
        if let Some(transaction) = self.by_id.get_mut(id) {
            return transaction.init(id, init, effects);
        }
        let producer_id = init.fresh_id.ok_or(ErrorCode::CoordinatorNotAvailable)?;
        let blank = blank(producer_id, init.timeout_ms, effects.now.wall.as_millis());
        self.by_id.entry(id.clone()).or_insert(Transaction::new(blank)).init(id, init, effects)
    }
}

impl Init {
    /// The request, if its own fields are right. They are looked at before it is asked whose the transactional id is.
    pub(in crate::coordinator) fn checked(
        self,
        id: &str,
        settings: &TransactionSettings,
    ) -> Result<Init, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        if self.two_phase_commit && !settings.two_phase_commit {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        if self.keep_prepared {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if self.two_phase_commit {
            // Whoever decides over the end takes their time.
            return Ok(Init { timeout_ms: i32::MAX, ..self });
        }
        match (1..=settings.max_timeout_ms).contains(&self.timeout_ms) {
            true => Ok(self),
            false => Err(ErrorCode::InvalidTransactionTimeout),
        }
    }
}

fn blank(producer_id: i64, timeout_ms: i32, now_ms: i64) -> TransactionValue {
    TransactionValue {
        producer_id,
        previous_producer_id: -1,
        next_producer_id: -1,
        epoch: NO_EPOCH,
        last_epoch: NO_EPOCH,
        timeout_ms,
        state: TransactionState::Empty,
        partitions: Partitions::default(),
        last_update_ms: now_ms,
        start_ms: -1,
        client_version: 0,
    }
}

impl Transaction {
    fn init(&mut self, id: &Arc<str>, init: Init, effects: &mut Effects<'_>) -> Result<Ticket, ErrorCode> {
        if self.pending.is_some() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        if init.expected.is_some_and(|expected| !self.may_be(expected)) {
            return Err(ErrorCode::ProducerFenced);
        }
        match self.value.state {
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => {
                Err(ErrorCode::ConcurrentTransactions)
            }
            TransactionState::Ongoing => {
                // The producer asks again, and gets yet another epoch once the abort is complete.
                let ticket = effects.ticket();
                let answer = Some((ticket, Err(ErrorCode::ConcurrentTransactions)));
                self.fence(id, answer, effects);
                Ok(ticket)
            }
            _ => {
                let value = self.begun_anew(init, effects.now.wall.as_millis())?;
                let producer = Producer { id: value.producer_id, epoch: value.epoch };
                let ticket = effects.ticket();
                let answer = Some((ticket, Ok(producer)));
                self.transition(id, value, FollowUp { answer, kind: WriteKind::Asked }, effects);
                Ok(ticket)
            }
        }
    }

    /// Whether the producer may be who it says: the present one, or the one before the present id was given, whose
    /// answer got lost.
    pub(super) fn may_be(&self, expected: Producer) -> bool {
        let value = &self.value;
        value.epoch == NO_EPOCH
            || expected.id == value.producer_id
            || (expected.id == value.previous_producer_id && expected.epoch >= LAST_EPOCH)
    }

    /// The same transactional id with a higher epoch, or with a new producer id where that would be too high.
    pub(super) fn begun_anew(&self, init: Init, now_ms: i64) -> Result<TransactionValue, ErrorCode> {
        let old = &self.value;
        let fresh = TransactionValue {
            timeout_ms: init.timeout_ms,
            state: TransactionState::Empty,
            partitions: Partitions::default(),
            start_ms: -1,
            last_update_ms: now_ms,
            ..old.clone()
        };
        let expected_epoch = init.expected.map(|expected| expected.epoch);
        if old.is_epoch_exhausted() && expected_epoch.is_none_or(|epoch| epoch == old.epoch) {
            return Ok(TransactionValue {
                producer_id: init.fresh_id.ok_or(ErrorCode::CoordinatorNotAvailable)?,
                epoch: 0,
                last_epoch: if expected_epoch.is_some() { old.epoch } else { NO_EPOCH },
                ..fresh
            });
        }
        let (epoch, last_epoch) = match expected_epoch {
            None => (old.epoch.saturating_add(1), NO_EPOCH),
            Some(epoch) if old.epoch == NO_EPOCH || epoch == old.epoch => {
                (old.epoch.saturating_add(1), old.epoch)
            }
            // Its last request was carried out, and the answer got lost.
            Some(epoch) if epoch == old.last_epoch => (old.epoch, old.last_epoch),
            Some(_) => return Err(ErrorCode::ProducerFenced),
        };
        Ok(TransactionValue { epoch, last_epoch, ..fresh })
    }
}
