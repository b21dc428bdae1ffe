//! Transactional batches in a Produce request: the coordinator is asked before a transaction begins in a partition
//! (KIP-890).
//!
//! Clients up to v11 have told the coordinator which partitions they are going to write to, and it is only asked whether
//! that is so; for newer ones it adds the partition. An open transaction of the same producer and epoch needs no question.

use std::sync::Arc;

use super::context::Parts;
use super::inquiries;
use super::produce::{Failure, Request};
use crate::base::{ErrorCode, PartitionKey};
use crate::coordinator::transactions::Producer;
use crate::log::{AppendOrigin, VerificationGuard, Verifying};
use crate::wire::batch::BatchView;
use crate::wire::check::CheckedBatch;

/// First version that makes its partitions part of the transaction.
const ADDS_PARTITIONS: i16 = 12;

/// A batch whose transaction's coordinator is asked before it is appended.
#[derive(Clone, Debug)]
pub(super) struct Asking {
    pub(super) key: PartitionKey,
    pub(super) batch: CheckedBatch,
    pub(super) producer: Producer,
    pub(super) guard: VerificationGuard,
}

/// What is to be done with a batch.
pub(super) enum Begin {
    /// Append it, as this.
    Append(AppendOrigin),
    /// Ask first.
    Ask(Box<Asking>),
}

/// Why nothing of a request is appended: transactional batches without a transactional id, or of several producers.
pub(super) fn refusal(request: &Request) -> Option<ErrorCode> {
    let mut first: Option<i64> = None;
    for view in request.batches().filter(BatchView::is_transactional) {
        if request.transactional_id.is_none() {
            return Some(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        if *first.get_or_insert(view.producer_id()) != view.producer_id() {
            return Some(ErrorCode::InvalidProducerIdMapping);
        }
    }
    None
}

/// Whether a batch may be appended right away.
pub(super) fn begin(parts: &mut Parts<'_>, version: i16, key: PartitionKey, batch: &CheckedBatch) -> Begin {
    let Some(view) = batch.view().filter(BatchView::is_transactional) else {
        return Begin::Append(AppendOrigin::Client);
    };
    let adds = version >= ADDS_PARTITIONS;
    let verifies = parts.settings().transactions.partition_verification_enable;
    if !adds && !verifies {
        return Begin::Append(AppendOrigin::Client);
    }
    let producer = Producer { id: view.producer_id(), epoch: view.producer_epoch() };
    let verifying = Verifying {
        producer_id: producer.id,
        epoch: producer.epoch,
        sequence: view.base_sequence(),
        bumps_epoch: adds,
    };
    match parts.broker.replicas.begin_verification(key, verifying) {
        None => Begin::Append(AppendOrigin::VerifiedClient(None)),
        Some(guard) => Begin::Ask(Box::new(Asking { key, batch: batch.clone(), producer, guard })),
    }
}

/// Asks the coordinator about these partitions, all of one producer.
pub(super) fn ask(
    parts: &mut Parts<'_>,
    version: i16,
    transactional_id: Option<&Arc<str>>,
    producer: Producer,
    partitions: Vec<(Arc<str>, i32)>,
) -> u64 {
    let id = transactional_id.cloned().unwrap_or_default();
    inquiries::ask(parts, id, producer, partitions, version >= ADDS_PARTITIONS)
}

/// What a client is told of the coordinator's answer, if that isn't good (Kafka's `ReplicaManager.handleProduceAppend`).
pub(super) fn told(version: i16, error: ErrorCode) -> Option<Failure> {
    let told = match error {
        ErrorCode::None => return None,
        ErrorCode::TransactionAbortable if version <= 10 => ErrorCode::InvalidTxnState,
        ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
        ErrorCode::ConcurrentTransactions if version >= ADDS_PARTITIONS => error,
        ErrorCode::ConcurrentTransactions
        | ErrorCode::CoordinatorNotAvailable
        | ErrorCode::CoordinatorLoadInProgress
        | ErrorCode::NotCoordinator => ErrorCode::NotEnoughReplicas,
        error => error,
    };
    let mut failure = Failure::from(told);
    // The others have no message in Kafka.
    if matches!(told, ErrorCode::InvalidTxnState | ErrorCode::NotEnoughReplicas) {
        failure.message = Some(format!(
            "The coordinator of the transaction could not confirm the partition: {}.",
            error.name()
        ));
    }
    Some(failure)
}
