//! Markers on their way: from the coordinator of a transaction to the leaders of its partitions, and what comes back.

use std::collections::BTreeMap;
use std::sync::Arc;

use kafka_protocol::messages::WriteTxnMarkersResponse;

use super::context::Parts;
use super::peers::{Party, Peer, PeerMessage};
use super::transaction_waits::LOG_TIMEOUT_MS;
use super::waits::{Ending, Key, Operation, Wait};
use super::{AnyResponse, partitions, write_txn_markers};
use crate::base::planted::{Bug, is_planted};
use crate::base::{ConnectionId, ErrorCode, NodeId, PartitionKey};
use crate::coordinator::transactions::{Markers, MarkersWritten, Producer};
use crate::log::AppendOrigin;
use crate::purgatory::{Description, Purgatory, Waiter};
use crate::wire::marker::Marker;

/// Sends the markers that this broker's coordinators want written to those who lead the partitions.
pub(crate) fn send(parts: &mut Parts<'_>) {
    for markers in parts.broker.coordinators.take_markers() {
        let mut by_leader: BTreeMap<NodeId, Vec<(Arc<str>, i32)>> = BTreeMap::new();
        let mut outcomes = Vec::new();
        for partition in markers.partitions.iter().cloned() {
            let key = partitions::key_by_name(parts, &partition.0, partition.1);
            match key.map(|key| partitions::leader(parts, key)) {
                Ok(Some((leader, _))) => by_leader.entry(leader).or_default().push(partition),
                Ok(None) => outcomes.push((partition, ErrorCode::NotLeaderOrFollower)),
                // The topic is gone, and needs no marker.
                Err(_) => outcomes.push((partition, ErrorCode::None)),
            }
        }
        for (leader, partitions) in by_leader {
            let message = PeerMessage::WriteMarkers(Markers { partitions, ..markers.clone() });
            parts.broker.send(Party::Broker(leader), message);
        }
        if !outcomes.is_empty() {
            let Markers { id, producer, .. } = markers;
            take_outcomes(parts, &MarkersWritten { id, producer, outcomes });
        }
    }
}

/// Leaders have answered the coordinator on this broker.
pub(super) fn take_outcomes(parts: &mut Parts<'_>, written: &MarkersWritten) {
    let (coordinators, mut storage) = parts.coordinators();
    coordinators.markers_written(&mut storage, written);
}

/// What a coordinator gets whose markers did not reach their leader.
pub(super) fn unsent(markers: &Markers) -> MarkersWritten {
    let outcomes = markers.partitions.iter().cloned();
    MarkersWritten {
        id: markers.id.clone(),
        producer: markers.producer,
        outcomes: outcomes.map(|partition| (partition, ErrorCode::NotLeaderOrFollower)).collect(),
    }
}

/// A coordinator wants markers written here.
pub(super) fn write(
    parts: &mut Parts<'_>,
    purgatory: &mut Purgatory<Key, Wait, ConnectionId>,
    peer: Peer,
    markers: Markers,
) {
    let Markers { id, producer, commit, coordinator_epoch, partitions } = markers;
    let write = |partition: (Arc<str>, i32)| {
        let is_split = is_planted(Bug::SplitsTransactions) && partition.1 == 1;
        Row::write(parts, partition, producer, Marker { commit: commit && !is_split, coordinator_epoch })
    };
    let is_lost = |(_, index): &(Arc<str>, i32)| is_planted(Bug::LosesMarkers) && *index == 1;
    let rows = partitions.into_iter().filter(|partition| !is_lost(partition)).map(write).collect();
    let mut wait = MarkersWait { rows, target: Target::Coordinator { peer, id, producer } };
    if wait.try_complete(parts).is_none() {
        let deadline = parts.now.instant.after_timeout_ms(LOG_TIMEOUT_MS);
        let waiter = Waiter { owner: super::NOBODY, since: parts.now.instant, deadline };
        let keys: Vec<Key> = wait.keys().collect();
        purgatory.park(keys, waiter, Wait::of_nobody(Operation::Markers(Box::new(wait))));
    }
}

/// Markers that were written and aren't replicated yet.
#[derive(Clone, Debug)]
pub(crate) struct MarkersWait {
    pub(super) rows: Vec<Row>,
    pub(super) target: Target,
}

/// Who is told.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// The coordinator of a transaction.
    Coordinator { peer: Peer, id: Arc<str>, producer: Producer },
    /// A client that has sent WriteTxnMarkers.
    Client,
}

/// The marker of one partition.
#[derive(Clone, Debug)]
pub(super) struct Row {
    pub(super) producer_id: i64,
    /// Topic's name and partition.
    pub(super) partition: (Arc<str>, i32),
    /// The partition and the high watermark that it waits for; or its outcome.
    pub(super) state: Result<(PartitionKey, i64), ErrorCode>,
}

impl Row {
    /// Appends the marker.
    pub(super) fn write(
        parts: &mut Parts<'_>,
        partition: (Arc<str>, i32),
        producer: Producer,
        marker: Marker,
    ) -> Row {
        let state = append(parts, &partition, producer, marker);
        Row { producer_id: producer.id, partition, state }
    }
}

fn append(
    parts: &mut Parts<'_>,
    (topic, index): &(Arc<str>, i32),
    producer: Producer,
    marker: Marker,
) -> Result<(PartitionKey, i64), ErrorCode> {
    let key = partitions::key_by_name(parts, topic, *index)?;
    let replica = partitions::replica(parts, key).map_err(|_| ErrorCode::UnknownTopicOrPartition)?;
    replica.check_leader(-1)?;
    if !replica.has_enough_in_sync() {
        return Err(ErrorCode::NotEnoughReplicas);
    }
    let batch = marker.batch(producer.id, producer.epoch, parts.now.wall.as_millis());
    let batch = batch.map_err(|_| ErrorCode::UnknownServerError)?;
    let origin = AppendOrigin::Coordinator;
    let appended = parts.broker.replicas.append(key, parts.pool, &batch, origin, parts.now);
    let (appended, moved) = appended.ok_or(ErrorCode::NotLeaderOrFollower)?.map_err(|error| error.code())?;
    parts.broker.wake_moved(key, moved);
    let (coordinators, mut storage) = parts.coordinators();
    let counts = marker.commit || is_planted(Bug::CommitsAbortedOffsets);
    coordinators.end_offsets_transaction(&mut storage, key, producer.id, counts);
    Ok((key, appended.last_offset + 1))
}

impl MarkersWait {
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.rows.iter().filter_map(|row| row.state.ok()).map(|(key, _)| Key::HighWatermark(key))
    }

    /// Whether all markers are replicated, or have failed.
    pub(crate) fn try_complete(&mut self, parts: &mut Parts<'_>) -> Option<Told> {
        for row in &mut self.rows {
            let Ok((key, required)) = row.state else { continue };
            match partitions::replica(parts, key) {
                Err(_) => row.state = Err(ErrorCode::NotLeaderOrFollower),
                Ok(replica) => match replica.check_leader(-1) {
                    Err(error) => row.state = Err(error),
                    Ok(()) if replica.high_watermark() < required => {}
                    Ok(()) => row.state = Err(ErrorCode::None),
                },
            }
        }
        self.rows.iter().all(|row| row.state.is_err()).then(|| self.tell(parts))
    }

    pub(crate) fn expire(&mut self, parts: &mut Parts<'_>) -> Told {
        for row in self.rows.iter_mut().filter(|row| row.state.is_ok()) {
            row.state = Err(ErrorCode::RequestTimedOut);
        }
        self.tell(parts)
    }

    /// What the coordinator gets if this broker is gone.
    pub(crate) fn undelivered(&self) -> Option<(Peer, PeerMessage)> {
        let Target::Coordinator { peer, id, producer } = &self.target else { return None };
        let outcomes = self.rows.iter().map(|row| (row.partition.clone(), ErrorCode::NotLeaderOrFollower));
        let written = MarkersWritten { id: id.clone(), producer: *producer, outcomes: outcomes.collect() };
        Some((*peer, PeerMessage::MarkersWritten(written)))
    }

    fn tell(&mut self, parts: &mut Parts<'_>) -> Told {
        match &self.target {
            Target::Coordinator { peer, id, producer } => {
                let outcomes =
                    self.rows.drain(..).map(|row| (row.partition, row.state.err().unwrap_or_default()));
                let written =
                    MarkersWritten { id: id.clone(), producer: *producer, outcomes: outcomes.collect() };
                parts.broker.answer(*peer, PeerMessage::MarkersWritten(written));
                Told::Coordinator
            }
            Target::Client => Told::Client(write_txn_markers::response(&self.rows)),
        }
    }

    pub(crate) fn describe(&self, parts: &Parts<'_>) -> Description {
        let mut description = Description::default();
        for row in &self.rows {
            let Ok((key, required)) = row.state else { continue };
            let replica = partitions::replica(parts, key);
            let high_watermark = replica.map_or(-1, |replica| replica.high_watermark());
            let separator = if description.waits_for.is_empty() { "" } else { ", " };
            description.waits_for += &format!("{separator}marker of {}-{}", row.partition.0, row.partition.1);
            description.progress += &format!("{separator}high watermark {high_watermark} of {required}");
        }
        description
    }
}

/// Who was told of the outcomes.
pub(crate) enum Told {
    /// The coordinator, by a message.
    Coordinator,
    /// A client, that gets this.
    Client(WriteTxnMarkersResponse),
}

impl Told {
    /// How the wait ends.
    pub(super) fn ending(self, answer: impl FnOnce(AnyResponse) -> Ending) -> Ending {
        match self {
            Told::Coordinator => Ending::Nothing,
            Told::Client(response) => answer(AnyResponse::WriteTxnMarkers(response)),
        }
    }
}
