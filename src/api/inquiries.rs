//! What a broker asks the coordinator of a transaction before it lets the transaction begin in a partition that it leads
//! (KIP-890; Kafka's `AddPartitionsToTxnManager`): whether the partition is part of it, or to make it so.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::context::Parts;
use super::peers::{Party, Peer, PeerMessage};
use super::transaction_waits::LOG_TIMEOUT_MS;
use super::waits::{Key, Operation, Wait};
use crate::base::{ConnectionId, ErrorCode};
use crate::controller::names::TRANSACTION_STATE;
use crate::coordinator::transactions::{AddPartitions, Producer};
use crate::coordinator::{Ticket, partition_for};
use crate::purgatory::{Description, Purgatory, Waiter};

/// A question to a coordinator.
#[derive(Clone, Debug)]
pub(crate) struct Inquiry {
    /// The asking broker's name for it.
    pub(crate) number: u64,
    /// The transactional id.
    pub(crate) id: Arc<str>,
    pub(crate) producer: Producer,
    /// By topic's name.
    pub(crate) partitions: Vec<(Arc<str>, i32)>,
    /// Whether partitions that aren't part are to become it.
    pub(crate) add: bool,
}

/// An outcome for each partition, or one for all.
pub(crate) type Outcomes = Result<Vec<ErrorCode>, ErrorCode>;

/// What a broker has asked and waits to hear.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inquiries {
    last: u64,
    open: FxHashMap<u64, Option<Outcomes>>,
}

impl Inquiries {
    /// What was answered, if it was.
    pub(crate) fn take(&mut self, number: u64) -> Option<Outcomes> {
        self.open.get(&number)?.as_ref()?;
        self.open.remove(&number).flatten()
    }

    /// Whoever asked is gone.
    pub(crate) fn forget(&mut self, number: u64) {
        self.open.remove(&number);
    }
}

/// Asks whoever coordinates the transaction. The answer comes under [`Key::Inquiry`] of the number.
pub(crate) fn ask(
    parts: &mut Parts<'_>,
    id: Arc<str>,
    producer: Producer,
    partitions: Vec<(Arc<str>, i32)>,
    add: bool,
) -> u64 {
    let inquiries = &mut parts.broker.inquiries;
    inquiries.last += 1;
    let number = inquiries.last;
    let topic = parts.controller.topics().by_name(TRANSACTION_STATE);
    let index = partition_for(&id, parts.broker.coordinators.settings().transactions.partitions);
    let coordinator = topic.and_then(|topic| topic.partition(index)?.leader);
    match coordinator {
        Some(broker) => {
            inquiries.open.insert(number, None);
            let inquiry = Inquiry { number, id, producer, partitions, add };
            parts.broker.send(Party::Broker(broker), PeerMessage::Inquiry(inquiry));
        }
        None => drop(inquiries.open.insert(number, Some(Err(ErrorCode::CoordinatorNotAvailable)))),
    }
    number
}

/// A coordinator has answered.
pub(super) fn answered(parts: &mut Parts<'_>, number: u64, outcomes: Outcomes) {
    if let Some(open) = parts.broker.inquiries.open.get_mut(&number) {
        *open = Some(outcomes);
        parts.broker.wake(Key::Inquiry(number));
    }
}

/// The longest that a question waits for another change of the transaction, ms (Kafka's brokers ask again all 20 ms so
/// long, `add.partitions.to.txn.retry.backoff.max.ms`).
const CONCURRENT_MAX_MS: i32 = 100;

/// A broker asks this one as the coordinator.
pub(super) fn handle(
    parts: &mut Parts<'_>,
    purgatory: &mut Purgatory<Key, Wait, ConnectionId>,
    peer: Peer,
    inquiry: Inquiry,
) {
    let Inquiry { number, id, producer, partitions, add } = inquiry;
    let count = partitions.len();
    let (coordinators, mut storage) = parts.coordinators();
    let outcomes = if add {
        let add = AddPartitions { producer, partitions, client_version: 2, waits: true };
        match coordinators.add_partitions(&mut storage, &id, add) {
            Ok(Some(ticket)) => {
                let is_queued = coordinators.is_queued(&id, ticket);
                let mut wait = InquiryWait { peer, number, id, ticket, count };
                if wait.try_complete(parts).is_none() {
                    let wait_ms = if is_queued { CONCURRENT_MAX_MS } else { LOG_TIMEOUT_MS };
                    let deadline = parts.now.instant.after_timeout_ms(wait_ms);
                    let waiter = Waiter { owner: super::NOBODY, since: parts.now.instant, deadline };
                    let wait = Wait::of_nobody(Operation::Inquiry(Box::new(wait)));
                    purgatory.park([Key::Ticket(ticket)], waiter, wait);
                }
                return;
            }
            Ok(None) => Ok(vec![ErrorCode::None; count]),
            Err(error) => Err(error),
        }
    } else {
        coordinators.verify_partitions(&id, producer, &partitions)
    };
    parts.broker.answer(peer, PeerMessage::Inquired { number, outcomes });
}

/// A question that waits until what was written for it is committed.
#[derive(Clone, Debug)]
pub(crate) struct InquiryWait {
    peer: Peer,
    number: u64,
    id: Arc<str>,
    ticket: Ticket,
    count: usize,
}

impl InquiryWait {
    pub(crate) fn try_complete(&mut self, parts: &mut Parts<'_>) -> Option<()> {
        let answer = parts.broker.coordinators.take_producer(self.ticket)?;
        let outcomes = answer.map(|_| vec![ErrorCode::None; self.count]);
        parts.broker.answer(self.peer, PeerMessage::Inquired { number: self.number, outcomes });
        Some(())
    }

    pub(crate) fn expire(&self, parts: &mut Parts<'_>) {
        let was_queued = parts.broker.coordinators.unqueue(&self.id, self.ticket);
        parts.broker.coordinators.forget(self.ticket);
        let error = match was_queued {
            true => ErrorCode::ConcurrentTransactions,
            false => ErrorCode::CoordinatorNotAvailable,
        };
        parts.broker.answer(self.peer, PeerMessage::Inquired { number: self.number, outcomes: Err(error) });
    }

    /// What the asking broker gets if this one is gone.
    pub(crate) fn undelivered(&self) -> (Peer, PeerMessage) {
        let outcomes = Err(ErrorCode::CoordinatorNotAvailable);
        (self.peer, PeerMessage::Inquired { number: self.number, outcomes })
    }

    pub(crate) fn describe(&self) -> Description {
        let waits_for = format!("transaction of {}", self.id);
        Description { waits_for, progress: "partitions to be added".to_owned() }
    }
}
