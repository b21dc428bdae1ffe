//! The transactions of one partition of `__transaction_state` (Kafka's `TransactionCoordinator`): whose they are, how they
//! stand, and which partitions still lack their markers.
//!
//! - `state.rs`: what is known of a transactional id.
//! - `init.rs`, `partitions.rs`, `end.rs`: what producers ask: an id and epoch, partitions, the end.
//! - `markers.rs`: how an end gets to the partitions.
//! - `records.rs`: how it is written.
//!
//! A change is written first. While that isn't committed, everybody who asks about the transactional id is told
//! CONCURRENT_TRANSACTIONS; once it is, timers are set and markers sent by what was written.

mod end;
mod init;
mod markers;
mod partitions;
mod records;
mod state;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::runtime::{self, ShardState};
use super::{CoordinatorKind, CoordinatorSettings, Ticket};
use crate::base::{ErrorCode, Now, WallTime};
use crate::controller::Feature;
use crate::wire::records::BatchHeader;

pub use end::{End, Ended};
pub use init::Init;
pub use markers::{Markers, MarkersWritten};
pub use partitions::AddPartitions;
pub use records::TransactionRecord;
pub use state::{Partitions, Transaction, TransactionState, TransactionValue};

/// A producer's id and epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Producer {
    /// The id.
    pub id: i64,
    /// The epoch.
    pub epoch: i16,
}

/// What follows a write.
#[derive(Clone, Debug)]
pub(super) struct FollowUp {
    /// Who is answered, and with what if it went well.
    answer: Option<(Ticket, Result<Producer, ErrorCode>)>,
    kind: WriteKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteKind {
    /// As a producer has asked.
    Asked,
    /// The end of a transaction whose producer is fenced.
    Fence,
    /// All markers are written.
    Complete,
}

/// How transactions stood before changes that aren't committed yet, by transactional id.
pub(super) type KeptTransactions = BTreeMap<Arc<str>, KeptTransaction>;

/// How one stood.
#[derive(Clone, Debug)]
pub(super) struct KeptTransaction {
    /// How many records about it aren't committed.
    ahead: usize,
    /// None if there was none.
    value: Option<TransactionValue>,
}

/// A timer of a transactional id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TransactionTimer {
    /// The transaction takes too long.
    Timeout,
    /// Markers are to be sent again, or the end of all markers written again.
    Markers,
}

pub(super) type Effects<'a> = runtime::Effects<'a, Transactions>;
type Write = runtime::Write<Transactions>;
type OnCommit = runtime::OnCommit<Transactions>;

/// The transactions of one shard, by transactional id.
#[derive(Clone, Debug, Default)]
pub struct Transactions {
    by_id: BTreeMap<Arc<str>, Transaction>,
}

impl Transactions {
    /// The transaction of this id.
    pub fn transaction(&self, id: &str) -> Option<&Transaction> {
        self.by_id.get(id)
    }

    /// How many transactional ids there are.
    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// How the transaction of this id stands as far as that is committed.
    pub(super) fn committed<'a>(
        &'a self,
        kept: &'a KeptTransactions,
        id: &str,
    ) -> Option<&'a TransactionValue> {
        match kept.get(id) {
            Some(kept) => kept.value.as_ref(),
            None => self.by_id.get(id).map(|transaction| &transaction.value),
        }
    }

    /// How all transactions stand as far as that is committed, by id, those last whose end isn't committed.
    pub(super) fn all_committed<'a>(
        &'a self,
        kept: &'a KeptTransactions,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a TransactionValue)> {
        let gone = kept.keys().filter(|id| !self.by_id.contains_key(*id));
        let ids = self.by_id.keys().chain(gone);
        ids.filter_map(|id| Some((id, self.committed(kept, id)?)))
    }

    /// The transaction of this id, for a request that must know it.
    fn known(&mut self, id: &str) -> Result<&mut Transaction, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        self.by_id.get_mut(id).ok_or(ErrorCode::InvalidProducerIdMapping)
    }
}

impl Transaction {
    /// Writes what the transaction is to be. Until that is committed, nobody else may change it.
    fn transition(
        &mut self,
        id: &Arc<str>,
        mut value: TransactionValue,
        follow_up: FollowUp,
        effects: &mut Effects<'_>,
    ) {
        // As in Kafka, that of the state before, which is another one only right after the producer got a new id.
        value.previous_producer_id = self.value.producer_id;
        self.pending = Some(value.state);
        let flexible = transaction_version(effects) >= 1;
        let record = TransactionRecord { id: id.clone(), value: Some(value), flexible };
        effects.write(Write { records: vec![record], then: OnCommit::FollowUp(id.clone(), follow_up) });
    }

    /// Sets the timer of an ongoing transaction, or takes it away.
    fn watch(&self, effects: &mut Effects<'_>) {
        match self.times_out_ms() {
            Some(at_ms) => {
                let left_ms = at_ms.saturating_sub(effects.now.wall.as_millis());
                effects.schedule(TransactionTimer::Timeout, left_ms);
            }
            None => effects.cancel(TransactionTimer::Timeout),
        }
    }
}

impl ShardState for Transactions {
    type Record = TransactionRecord;
    type Reply = Result<Producer, ErrorCode>;
    type TimerKind = TransactionTimer;
    type FollowUp = FollowUp;
    type Message = Markers;
    type Kept = KeptTransactions;

    const KIND: CoordinatorKind = CoordinatorKind::Transaction;
    /// What was decided is carried out once it is committed, however late, and nothing else is decided before. Whoever
    /// has asked gives up by themselves.
    const WRITES_EXPIRE: bool = false;
    /// A change that is lost later must not have been verified for a partition, nor be carried out by markers. (Kafka
    /// reads to the log's end, and goes on from what it finds.)
    const LOADS_COMMITTED: bool = true;
    const BATCH_MARGIN: usize = 0;

    fn partitions(settings: &CoordinatorSettings) -> i32 {
        settings.transactions.partitions
    }

    fn clean_up_interval_ms(settings: &CoordinatorSettings) -> i64 {
        settings.transactions.remove_expired_interval_ms
    }

    fn batch_header() -> BatchHeader {
        BatchHeader::default()
    }

    fn replay(&mut self, record: &TransactionRecord, _producer_id: Option<i64>, _now: Now) {
        let Some(value) = &record.value else {
            self.by_id.remove(&record.id);
            return;
        };
        match self.by_id.get_mut(&record.id) {
            Some(transaction) => transaction.value = value.clone(),
            None => drop(self.by_id.insert(record.id.clone(), Transaction::new(value.clone()))),
        }
    }

    fn keep(&self, kept: &mut KeptTransactions, record: &TransactionRecord, _producer_id: Option<i64>) {
        let before = || KeptTransaction {
            ahead: 0,
            value: self.by_id.get(&record.id).map(|transaction| transaction.value.clone()),
        };
        kept.entry(record.id.clone()).or_insert_with(before).ahead += 1;
    }

    fn catch_up(
        kept: &mut KeptTransactions,
        record: &TransactionRecord,
        _producer_id: Option<i64>,
        _now: Now,
    ) {
        let Some(of_id) = kept.get_mut(&record.id) else { return };
        of_id.ahead -= 1;
        of_id.value = record.value.clone();
        if of_id.ahead == 0 {
            kept.remove(&record.id);
        }
    }

    /// Ongoing transactions have what is left of their time; markers of those whose end was decided are sent again.
    fn loaded(&mut self, effects: &mut Effects<'_>) {
        for (id, transaction) in &mut self.by_id {
            effects.turn_to(id);
            if transaction.value.state.is_preparing() {
                transaction.mark_all(id, effects);
            } else if transaction.value.state == TransactionState::Ongoing {
                transaction.watch(effects);
            }
        }
    }

    fn timer(&mut self, id: &Arc<str>, kind: &TransactionTimer, effects: &mut Effects<'_>) {
        let Some(transaction) = self.by_id.get_mut(id) else { return };
        match kind {
            TransactionTimer::Timeout => transaction.time_out(id, effects),
            TransactionTimer::Markers => transaction.send_markers_again(id, effects),
        }
    }

    fn follow_up(
        &mut self,
        id: &Arc<str>,
        follow_up: FollowUp,
        written: Result<(), ErrorCode>,
        effects: &mut Effects<'_>,
    ) {
        let Some(transaction) = self.by_id.get_mut(id) else { return };
        let FollowUp { answer, kind } = follow_up;
        if let Err(error) = written {
            transaction.write_failed(kind, effects);
            if transaction.value.epoch == NO_EPOCH {
                // It was never told to anybody.
                self.by_id.remove(id);
            }
            if let Some((ticket, _)) = answer {
                effects.answer(ticket, Err(error));
            }
            if let Some(transaction) = self.by_id.get_mut(id) {
                transaction.serve_queue(id, effects);
            }
            return;
        }
        transaction.pending = None;
        transaction.watch(effects);
        if transaction.value.state.is_preparing() {
            transaction.mark_all(id, effects);
        }
        if let Some((ticket, reply)) = answer {
            effects.answer(ticket, reply);
        }
        transaction.serve_queue(id, effects);
    }

    /// Ids that nobody has used for `transactional.id.expiration.ms`.
    fn clean_up(
        &self,
        settings: &CoordinatorSettings,
        _is_topic: &dyn Fn(&str) -> bool,
        now: WallTime,
    ) -> Vec<TransactionRecord> {
        let last = now.as_millis().saturating_sub(settings.transactions.id_expiration_ms);
        let idle = self.by_id.iter().filter(|(_, transaction)| {
            transaction.pending.is_none()
                && transaction.value.state.may_expire()
                && transaction.value.last_update_ms <= last
        });
        // A record without a value has no version of it.
        idle.map(|(id, _)| TransactionRecord { id: id.clone(), value: None, flexible: true }).collect()
    }
}

/// The epoch of a producer that was given none yet.
const NO_EPOCH: i16 = -1;

/// What the coordinator of transactions needs to be told of the broker's settings.
#[derive(Clone, Debug)]
pub struct TransactionSettings {
    /// `transaction.state.log.num.partitions`.
    pub partitions: i32,
    /// `transaction.max.timeout.ms`.
    pub max_timeout_ms: i32,
    /// `transactional.id.expiration.ms`.
    pub id_expiration_ms: i64,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`.
    pub remove_expired_interval_ms: i64,
    /// `transaction.two.phase.commit.enable`.
    pub two_phase_commit: bool,
}

/// The level of the feature `transaction.version`: 1 writes records of version 1, 2 raises a fenced producer's epoch as
/// KIP-890's second part does. What producers may do is up to themselves, but for
/// [`check_client_version`].
fn transaction_version(effects: &Effects<'_>) -> i16 {
    effects.controller.features().level(Feature::Transaction)
}

/// Whether what a client of this version of transactions asks for can be written: records of version 0 have no place for
/// a client's version.
///
/// # Errors
/// UNSUPPORTED_VERSION. Kafka leaves the transactional id in CONCURRENT_TRANSACTIONS for good then; here, nothing has
/// happened to it.
fn check_client_version(client_version: i16, effects: &Effects<'_>) -> Result<(), ErrorCode> {
    match client_version > 0 && transaction_version(effects) == 0 {
        true => Err(ErrorCode::UnsupportedVersion),
        false => Ok(()),
    }
}
