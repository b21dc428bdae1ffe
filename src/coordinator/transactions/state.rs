//! How the transaction of one transactional id stands (Kafka's `TransactionMetadata` and `TransactionState`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use super::AddPartitions;
use crate::coordinator::Ticket;

/// Partitions by topic's name, in the order in which they were added.
pub type Partitions = IndexSet<(Arc<str>, i32), FxBuildHasher>;

/// The highest epoch that a producer is given. The one above is for fencing and for the markers of its last transaction.
pub(super) const LAST_EPOCH: i16 = i16::MAX - 1;

/// What a transaction waits for. Numbers and names are Kafka's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TransactionState {
    /// For its first partition. From a new id, or from the end of a transaction by InitProducerId.
    Empty = 0,
    /// For its end: by EndTxn, by a newer producer, or by its timeout.
    Ongoing = 1,
    /// For its markers to be written.
    PrepareCommit = 2,
    /// For its markers to be written.
    PrepareAbort = 3,
    /// For the first partition of the next transaction.
    CompleteCommit = 4,
    /// For the first partition of the next transaction.
    CompleteAbort = 5,
    /// The id is about to be forgotten. Never written.
    Dead = 6,
    /// A fenced producer's transaction is about to be aborted. Never written.
    PrepareEpochFence = 7,
}

impl TransactionState {
    /// All of them.
    pub const ALL: [TransactionState; 8] = [
        TransactionState::Empty,
        TransactionState::Ongoing,
        TransactionState::PrepareCommit,
        TransactionState::PrepareAbort,
        TransactionState::CompleteCommit,
        TransactionState::CompleteAbort,
        TransactionState::Dead,
        TransactionState::PrepareEpochFence,
    ];

    /// The state with this number.
    pub fn from_id(id: u8) -> Option<Self> {
        Self::ALL.get(usize::from(id)).copied()
    }

    /// Kafka's name for it.
    pub fn name(self) -> &'static str {
        match self {
            TransactionState::Empty => "Empty",
            TransactionState::Ongoing => "Ongoing",
            TransactionState::PrepareCommit => "PrepareCommit",
            TransactionState::PrepareAbort => "PrepareAbort",
            TransactionState::CompleteCommit => "CompleteCommit",
            TransactionState::CompleteAbort => "CompleteAbort",
            TransactionState::Dead => "Dead",
            TransactionState::PrepareEpochFence => "PrepareEpochFence",
        }
    }

    /// Whether the end is decided and the markers are not all written.
    pub fn is_preparing(self) -> bool {
        matches!(self, TransactionState::PrepareCommit | TransactionState::PrepareAbort)
    }

    /// Whether the id may be forgotten once it has been idle for long enough.
    pub fn may_expire(self) -> bool {
        use TransactionState::{CompleteAbort, CompleteCommit, Empty};
        matches!(self, Empty | CompleteCommit | CompleteAbort)
    }
}

/// What is written of a transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionValue {
    /// The producer's id.
    pub producer_id: i64,
    /// Its id in the state before this one: another one right after the epochs of that were used up; −1 where there was none,
    /// or it isn't known.
    pub previous_producer_id: i64,
    /// Its id once this transaction is complete, if that changes; else −1.
    pub next_producer_id: i64,
    /// The producer's epoch; −1 until it is given one.
    pub epoch: i16,
    /// The epoch before that, by which a repeated request is known; −1 if there is none. It is not written, so that a
    /// coordinator that has loaded its partition doesn't know it.
    pub last_epoch: i16,
    /// How long a transaction may take, ms.
    pub timeout_ms: i32,
    /// What it waits for.
    pub state: TransactionState,
    /// The partitions of the transaction.
    pub partitions: Partitions,
    /// When this was written, ms.
    pub last_update_ms: i64,
    /// When the transaction began, ms; −1 if none has.
    pub start_ms: i64,
    /// The version of transactions that the client speaks: 0, or 2 (KIP-890's second part) where its epoch rises with
    /// each transaction.
    pub client_version: i16,
}

impl TransactionValue {
    /// Whether the producer needs a new id instead of a higher epoch.
    pub(super) fn is_epoch_exhausted(&self) -> bool {
        self.epoch >= LAST_EPOCH
    }
}

/// How far the marker of one partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marking {
    /// It is to be sent (again).
    Due,
    /// It was sent and not answered.
    Sent,
}

/// One transactional id.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// What is written of it.
    pub value: TransactionValue,
    /// The state that it is to have once that is written: everybody else has to wait meanwhile.
    pub(super) pending: Option<TransactionState>,
    /// A fence could not be written. Its epoch was told to nobody and can be used again (before KIP-890's second part).
    pub(super) failed_fence: bool,
    /// The partitions whose markers are not known to be written.
    pub(super) unmarked: BTreeMap<(Arc<str>, i32), Marking>,
    /// A partition's leader has said that there is a newer coordinator or producer: it is for others to go on.
    pub(super) given_up: bool,
    /// Who waits until nothing else happens to the transaction, to add partitions.
    pub(super) queue: VecDeque<(Ticket, AddPartitions)>,
}

impl Transaction {
    pub(super) fn new(value: TransactionValue) -> Self {
        Transaction {
            value,
            pending: None,
            failed_fence: false,
            unmarked: BTreeMap::new(),
            given_up: false,
            queue: VecDeque::new(),
        }
    }

    /// When the present transaction times out, ms, if one is ongoing.
    pub(super) fn times_out_ms(&self) -> Option<i64> {
        let is_ongoing = self.value.state == TransactionState::Ongoing;
        is_ongoing.then(|| self.value.start_ms.saturating_add(self.value.timeout_ms.into()))
    }
}
