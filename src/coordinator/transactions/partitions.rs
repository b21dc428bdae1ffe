//! Partitions become part of a transaction, or are asked whether they are (KIP-890).

use std::sync::Arc;

use super::{
    Effects, FollowUp, Producer, Transaction, TransactionState, TransactionValue, Transactions, WriteKind,
    check_client_version,
};
use crate::base::ErrorCode;
use crate::coordinator::Ticket;

/// Partitions to add to a transaction.
#[derive(Clone, Debug)]
pub struct AddPartitions {
    /// Who asks.
    pub producer: Producer,
    /// By topic's name.
    pub partitions: Vec<(Arc<str>, i32)>,
    /// The version of transactions that the client speaks.
    pub client_version: i16,
    /// Whether to wait while something else happens to the transaction, instead of CONCURRENT_TRANSACTIONS.
    pub waits: bool,
}

impl Transactions {
    /// Gives the ticket of the write; none if all are part of the transaction already.
    pub(in crate::coordinator) fn add_partitions(
        &mut self,
        id: &Arc<str>,
        add: AddPartitions,
        effects: &mut Effects<'_>,
    ) -> Result<Option<Ticket>, ErrorCode> {
        let transaction = self.known(id)?;
        match transaction.check_add(&add) {
            Ok(true) => Ok(None),
            Ok(false) => {
                check_client_version(add.client_version, effects)?;
                let ticket = effects.ticket();
                transaction.add(id, add, ticket, effects);
                Ok(Some(ticket))
            }
            Err(ErrorCode::ConcurrentTransactions) if add.waits => {
                let ticket = effects.ticket();
                transaction.queue.push_back((ticket, add));
                Ok(Some(ticket))
            }
            Err(error) => Err(error),
        }
    }

    /// Takes out a question that waits for the transaction to settle. Returns whether it was there.
    pub(in crate::coordinator) fn unqueue(&mut self, id: &str, ticket: Ticket) -> bool {
        let Some(transaction) = self.by_id.get_mut(id) else { return false };
        let before = transaction.queue.len();
        transaction.queue.retain(|(queued, _)| *queued != ticket);
        transaction.queue.len() < before
    }

    /// Whether this waits for the transaction to settle.
    pub fn is_queued(&self, id: &str, ticket: Ticket) -> bool {
        self.by_id
            .get(id)
            .is_some_and(|transaction| transaction.queue.iter().any(|(queued, _)| *queued == ticket))
    }
}

impl Transaction {
    /// Whether all partitions are part of the transaction already.
    fn check_add(&self, add: &AddPartitions) -> Result<bool, ErrorCode> {
        // First of all, so that it can settle: the producer may be one whose new id is not in force yet.
        if self.pending.is_some() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        self.value.check_producer(add.producer)?;
        let is_part = |partition| self.value.partitions.contains(partition);
        Ok(self.value.state == TransactionState::Ongoing && add.partitions.iter().all(is_part))
    }

    fn add(&mut self, id: &Arc<str>, add: AddPartitions, ticket: Ticket, effects: &mut Effects<'_>) {
        let value = &self.value;
        let is_ongoing = value.state == TransactionState::Ongoing;
        let now_ms = effects.now.wall.as_millis();
        let mut value = TransactionValue {
            state: TransactionState::Ongoing,
            start_ms: if is_ongoing { value.start_ms } else { now_ms },
            last_update_ms: now_ms,
            client_version: add.client_version,
            ..value.clone()
        };
        value.partitions.extend(add.partitions);
        let answer = Some((ticket, Ok(add.producer)));
        self.transition(id, value, FollowUp { answer, kind: WriteKind::Asked }, effects);
    }

    /// Nothing happens to the transaction any more: whoever waited for that has their turn.
    pub(super) fn serve_queue(&mut self, id: &Arc<str>, effects: &mut Effects<'_>) {
        while self.pending.is_none()
            && !self.value.state.is_preparing()
            && let Some((ticket, add)) = self.queue.pop_front()
        {
            match self.check_add(&add) {
                Ok(true) => effects.answer(ticket, Ok(add.producer)),
                Ok(false) => match check_client_version(add.client_version, effects) {
                    Ok(()) => self.add(id, add, ticket, effects),
                    Err(error) => effects.answer(ticket, Err(error)),
                },
                Err(error) => effects.answer(ticket, Err(error)),
            }
        }
    }
}

impl TransactionValue {
    /// An outcome for each partition, whether it is part of the producer's transaction.
    ///
    /// # Errors
    /// For all of them.
    pub fn verify(
        &self,
        producer: Producer,
        partitions: &[(Arc<str>, i32)],
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        self.check_producer(producer)?;
        let is_part = |partition| match self.partitions.contains(partition) {
            true => ErrorCode::None,
            false => ErrorCode::TransactionAbortable,
        };
        Ok(partitions.iter().map(is_part).collect())
    }

    fn check_producer(&self, producer: Producer) -> Result<(), ErrorCode> {
        if self.producer_id != producer.id {
            return Err(ErrorCode::InvalidProducerIdMapping);
        }
        if self.epoch != producer.epoch {
            return Err(ErrorCode::ProducerFenced);
        }
        if self.state.is_preparing() {
            return Err(ErrorCode::ConcurrentTransactions);
        }
        Ok(())
    }
}
