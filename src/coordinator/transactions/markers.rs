//! How the end of a transaction gets to its partitions: their leaders are told to write markers, until all have.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::state::{Marking, TransactionState};
use super::{
    Effects, FollowUp, Producer, Transaction, TransactionTimer, TransactionValue, Transactions, WriteKind,
};
use crate::base::ErrorCode;

/// After how long a marker that could not be written is sent again, ms. (As long as Kafka's brokers pause between tries,
/// `ServerConfigs.REQUEST_RETRY...`: 100 ms.)
pub(super) const RETRY_MS: i64 = 100;

/// After how long a marker that nobody answers is sent again, ms: `request.timeout.ms` of Kafka's brokers.
const UNANSWERED_MS: i64 = 30_000;

/// Markers to be written into partitions, wherever they are led.
#[derive(Clone, Debug)]
pub struct Markers {
    /// Whose transaction ends.
    pub id: Arc<str>,
    /// The producer, and the epoch that its markers have.
    pub producer: Producer,
    /// Whether it is committed, else aborted.
    pub commit: bool,
    /// The leader epoch of the coordinator's partition.
    pub coordinator_epoch: i32,
    /// By topic's name.
    pub partitions: Vec<(Arc<str>, i32)>,
}

/// What has become of markers.
#[derive(Clone, Debug)]
pub struct MarkersWritten {
    /// Whose transaction ends.
    pub id: Arc<str>,
    /// The producer, and the epoch that its markers have.
    pub producer: Producer,
    /// An outcome for each partition.
    pub outcomes: Vec<((Arc<str>, i32), ErrorCode)>,
}

impl Transactions {
    /// Leaders have answered.
    pub(in crate::coordinator) fn markers_written(
        &mut self,
        written: &MarkersWritten,
        effects: &mut Effects<'_>,
    ) {
        let Some(transaction) = self.by_id.get_mut(&written.id) else { return };
        let value = &transaction.value;
        let is_of_this = value.producer_id == written.producer.id && value.epoch == written.producer.epoch;
        if value.state.is_preparing() && is_of_this && transaction.pending.is_none() {
            transaction.note_written(written, effects);
        }
    }
}

impl Transaction {
    /// The end is decided: every partition gets a marker.
    pub(super) fn mark_all(&mut self, id: &Arc<str>, effects: &mut Effects<'_>) {
        self.given_up = false;
        let partitions = self.value.partitions.iter().cloned();
        self.unmarked = partitions.map(|partition| (partition, Marking::Due)).collect();
        self.send_markers(id, effects);
    }

    /// The timer for markers has fired.
    pub(super) fn send_markers_again(&mut self, id: &Arc<str>, effects: &mut Effects<'_>) {
        if !self.value.state.is_preparing() || self.given_up {
            return;
        }
        if self.unmarked.values().all(|marking| *marking == Marking::Sent) {
            self.unmarked.values_mut().for_each(|marking| *marking = Marking::Due);
        }
        self.send_markers(id, effects);
    }

    fn send_markers(&mut self, id: &Arc<str>, effects: &mut Effects<'_>) {
        if self.unmarked.is_empty() {
            self.complete(id, effects);
            return;
        }
        let mut partitions = Vec::new();
        for (partition, marking) in &mut self.unmarked {
            if *marking == Marking::Due {
                *marking = Marking::Sent;
                partitions.push(partition.clone());
            }
        }
        effects.schedule(TransactionTimer::Markers, UNANSWERED_MS);
        effects.send(Markers {
            id: id.clone(),
            producer: Producer { id: self.value.producer_id, epoch: self.value.epoch },
            commit: self.value.state == TransactionState::PrepareCommit,
            coordinator_epoch: effects.leader_epoch,
            partitions,
        });
    }

    fn note_written(&mut self, written: &MarkersWritten, effects: &mut Effects<'_>) {
        for (partition, outcome) in &written.outcomes {
            match outcome {
                ErrorCode::None | ErrorCode::UnsupportedVersion | ErrorCode::UnsupportedForMessageFormat => {
                    self.unmarked.remove(partition);
                }
                ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced => {
                    tracing::warn!(
                        transactional_id = &*written.id,
                        topic = &*partition.0,
                        partition = partition.1,
                        error = outcome.name(),
                        "markers are left to a newer coordinator or producer"
                    );
                    self.given_up = true;
                }
                _ => {
                    if let Some(marking) = self.unmarked.get_mut(partition) {
                        *marking = Marking::Due;
                    }
                }
            }
        }
        if self.given_up {
            effects.cancel(TransactionTimer::Markers);
        } else if self.unmarked.is_empty() {
            self.complete(&written.id, effects);
        } else if self.unmarked.values().any(|marking| *marking == Marking::Due) {
            effects.schedule(TransactionTimer::Markers, RETRY_MS);
        }
    }

    /// All markers are written.
    fn complete(&mut self, id: &Arc<str>, effects: &mut Effects<'_>) {
        effects.cancel(TransactionTimer::Markers);
        self.unmarked = BTreeMap::new();
        self.failed_fence = false;
        let old = &self.value;
        let mut value = TransactionValue {
            state: match old.state {
                TransactionState::PrepareCommit => TransactionState::CompleteCommit,
                _ => TransactionState::CompleteAbort,
            },
            partitions: super::Partitions::default(),
            last_update_ms: effects.now.wall.as_millis(),
            next_producer_id: -1,
            ..old.clone()
        };
        if old.next_producer_id != -1 {
            value.producer_id = old.next_producer_id;
            value.epoch = 0;
        }
        self.transition(id, value, FollowUp { answer: None, kind: WriteKind::Complete }, effects);
    }
}
