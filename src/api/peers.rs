//! What brokers and the controller tell each other. A broker notes what it wants to say ([`Broker::send`]); the
//! cluster's links carry it, and hand it to [`handle`] where it arrives.

use std::sync::Arc;

use super::context::{Broker, Parts};
use super::follower_fetch;
use super::inquiries::{self, Inquiry, Outcomes};
use super::transaction_markers;
use super::waits::{Key, Wait};
use crate::base::{ConnectionId, ErrorCode, NodeId, PartitionKey};
use crate::controller::configs::BrokerSettings;
use crate::controller::{AlterPartition, Change, Heartbeat, HeartbeatReply, Partition, Registration};
use crate::coordinator::transactions::{Markers, MarkersWritten};
use crate::purgatory::Purgatory;
use crate::replica::{FollowerFetch, FollowerFetched};

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Party {
    /// The controller.
    Controller,
    /// A broker.
    Broker(NodeId),
}

/// Who has sent a message: to be answered only as long as it is the same process, as it were. A broker that was
/// stopped and started again gets no answers to what it asked before, as over a connection that broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) party: Party,
    /// How often it was started before.
    pub(crate) incarnation: u32,
}

/// What travels over a link.
#[derive(Clone, Debug)]
pub(crate) enum PeerMessage {
    /// From the controller: what was decided, up to the change with this number.
    Changes { last: u64, changes: Arc<[Change]> },
    /// From the controller, to a broker that has missed too much to hear it one by one: all that there is to know, up to the
    /// change with this number.
    Snapshot { last: u64, changes: Arc<[Change]> },
    /// To the controller: all changes up to this one are applied.
    Applied { last: u64 },
    /// To the controller: a broker has started.
    Register(Registration),
    /// From the controller: the epoch of the registration, and all that there is to know, up to the change with this
    /// number.
    Registered { epoch: i64, last: u64, changes: Arc<[Change]> },
    /// To the controller: a broker lives.
    Heartbeat(Heartbeat),
    /// From the controller: how it sees the broker.
    HeartbeatAnswered(Result<HeartbeatReply, ErrorCode>),
    /// To the controller: a leader proposes another ISR.
    AlterPartition(Box<AlterPartition>),
    /// From the controller: what became of the proposal.
    PartitionAltered(Box<AlterPartition>, Result<Partition, ErrorCode>),
    /// To a leader: a follower wants records, and says what it has.
    FollowerFetch(Box<FollowerFetch>),
    /// To a follower: what it asked for.
    FollowerFetched(Box<FollowerFetched>),
    /// From the coordinator of a transaction to the leader of partitions: end it there.
    WriteMarkers(Markers),
    /// From there to the coordinator: what has become of that.
    MarkersWritten(MarkersWritten),
    /// From the leader of partitions to the coordinator of a transaction, before it may begin there.
    Inquiry(Inquiry),
    /// From there to the leader.
    Inquired { number: u64, outcomes: Outcomes },
}

/// What one party says to another again and again, so that only the last of it counts: whoever says it again has given up
/// what it said before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Slot {
    /// How far a broker is with the controller's changes.
    Applied,
    /// That a broker has started.
    Register,
    /// What the controller says to that.
    Registered,
    /// That a broker lives.
    Heartbeat,
    /// What the controller says to that; apart if it says that the broker may go, which holds from then on.
    HeartbeatAnswered { may_go: bool },
    /// The ISR that a leader proposes.
    AlterPartition(PartitionKey),
    /// What becomes of it.
    PartitionAltered(PartitionKey),
    /// A follower's fetch.
    FollowerFetch(PartitionKey),
    /// What it gets.
    FollowerFetched(PartitionKey),
}

impl PeerMessage {
    /// What this is said again and again of, if it is such a message.
    pub(crate) fn slot(&self) -> Option<Slot> {
        match self {
            PeerMessage::Applied { .. } => Some(Slot::Applied),
            PeerMessage::Register(_) => Some(Slot::Register),
            PeerMessage::Registered { .. } => Some(Slot::Registered),
            PeerMessage::Heartbeat(_) => Some(Slot::Heartbeat),
            PeerMessage::HeartbeatAnswered(answer) => {
                let may_go = answer.as_ref().is_ok_and(|reply| reply.should_shut_down);
                Some(Slot::HeartbeatAnswered { may_go })
            }
            PeerMessage::AlterPartition(proposal) => Some(Slot::AlterPartition(proposal.key)),
            PeerMessage::PartitionAltered(proposal, _) => Some(Slot::PartitionAltered(proposal.key)),
            PeerMessage::FollowerFetch(fetch) => Some(Slot::FollowerFetch(fetch.key)),
            PeerMessage::FollowerFetched(fetched) => Some(Slot::FollowerFetched(fetched.key)),
            PeerMessage::Changes { .. }
            | PeerMessage::Snapshot { .. }
            | PeerMessage::WriteMarkers(_)
            | PeerMessage::MarkersWritten(_)
            | PeerMessage::Inquiry(_)
            | PeerMessage::Inquired { .. } => None,
        }
    }

    /// Whether a client's request waits for this, and no longer than the client does. (Markers are as many as there are
    /// transactions that end.)
    pub(crate) fn is_question(&self) -> bool {
        matches!(self, PeerMessage::Inquiry(_) | PeerMessage::Inquired { .. })
    }

    /// The settings of `broker` that this brings, if it brings any.
    pub(crate) fn settings_of(&self, broker: NodeId) -> Option<&Arc<BrokerSettings>> {
        let (PeerMessage::Changes { changes, .. }
        | PeerMessage::Snapshot { changes, .. }
        | PeerMessage::Registered { changes, .. }) = self
        else {
            return None;
        };
        changes.iter().rev().find_map(|change| match change {
            Change::Settings(settings) => Some(settings.of(broker)),
            _ => None,
        })
    }

    /// What whoever sent this to `to` gets back if nobody is there to receive it, as when a connection is refused or
    /// breaks; none if nobody waits for an answer.
    pub(crate) fn undelivered(&self, to: NodeId) -> Option<PeerMessage> {
        match self {
            PeerMessage::WriteMarkers(markers) => {
                Some(PeerMessage::MarkersWritten(transaction_markers::unsent(markers)))
            }
            PeerMessage::Inquiry(inquiry) => Some(PeerMessage::Inquired {
                number: inquiry.number,
                outcomes: Err(ErrorCode::CoordinatorNotAvailable),
            }),
            PeerMessage::FollowerFetch(fetch) => {
                Some(PeerMessage::FollowerFetched(Box::new(fetch.undelivered(to))))
            }
            PeerMessage::Changes { .. }
            | PeerMessage::Snapshot { .. }
            | PeerMessage::Applied { .. }
            | PeerMessage::Register(_)
            | PeerMessage::Registered { .. }
            | PeerMessage::Heartbeat(_)
            | PeerMessage::HeartbeatAnswered(_)
            | PeerMessage::AlterPartition(_)
            | PeerMessage::PartitionAltered(..)
            | PeerMessage::FollowerFetched(_)
            | PeerMessage::MarkersWritten(_)
            | PeerMessage::Inquired { .. } => None,
        }
    }
}

/// A message that a broker wants sent.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    pub(crate) to: Party,
    /// The only incarnation that may receive it; none for whichever is there.
    pub(crate) incarnation: Option<u32>,
    pub(crate) message: PeerMessage,
}

impl Broker {
    /// Sends something to a broker or the controller, once the present call is done.
    pub(crate) fn send(&mut self, to: Party, message: PeerMessage) {
        self.outbox.push(Outgoing { to, incarnation: None, message });
    }

    /// Answers what `peer` has asked.
    pub(crate) fn answer(&mut self, peer: Peer, message: PeerMessage) {
        self.outbox.push(Outgoing { to: peer.party, incarnation: Some(peer.incarnation), message });
    }

    /// Takes up what the replicas have to say.
    pub(crate) fn take_up_replication(&mut self) {
        for outgoing in self.replicas.take_outgoing() {
            match outgoing {
                crate::replica::Outgoing::Fetch { to, fetch } => {
                    self.send(Party::Broker(to), PeerMessage::FollowerFetch(Box::new(fetch)));
                }
                crate::replica::Outgoing::AlterPartition(proposal) => {
                    self.send(Party::Controller, PeerMessage::AlterPartition(Box::new(proposal)));
                }
            }
        }
    }
}

/// A message has arrived at a broker. What can't be answered yet is parked in its purgatory.
pub(crate) fn handle(
    parts: &mut Parts<'_>,
    purgatory: &mut Purgatory<Key, Wait, ConnectionId>,
    from: Peer,
    message: PeerMessage,
) {
    match message {
        PeerMessage::Changes { last, changes } => {
            apply_all(parts, &changes);
            parts.broker.send(Party::Controller, PeerMessage::Applied { last });
        }
        PeerMessage::Snapshot { last, changes } => {
            super::changes::drop_strays(parts, &changes);
            apply_all(parts, &changes);
            parts.broker.send(Party::Controller, PeerMessage::Applied { last });
        }
        PeerMessage::WriteMarkers(markers) => transaction_markers::write(parts, purgatory, from, markers),
        PeerMessage::MarkersWritten(written) => transaction_markers::take_outcomes(parts, &written),
        PeerMessage::Inquiry(inquiry) => inquiries::handle(parts, purgatory, from, inquiry),
        PeerMessage::Inquired { number, outcomes } => inquiries::answered(parts, number, outcomes),
        PeerMessage::Registered { epoch, last, changes } => {
            super::changes::drop_strays(parts, &changes);
            apply_all(parts, &changes);
            parts.broker.send(Party::Controller, PeerMessage::Applied { last });
            parts.registered(epoch);
        }
        PeerMessage::HeartbeatAnswered(answer) => parts.heartbeat_answered(answer),
        PeerMessage::PartitionAltered(proposal, answer) => {
            let key = proposal.key;
            let moved = parts.broker.replicas.isr_answered(&proposal, answer, parts.now);
            parts.broker.wake_moved(key, moved);
        }
        PeerMessage::FollowerFetch(fetch) => follower_fetch::handle(parts, purgatory, from, fetch),
        PeerMessage::FollowerFetched(fetched) => {
            let key = fetched.key;
            let moved = parts.broker.replicas.apply_fetched(*fetched, parts.now, parts.pool);
            parts.broker.wake_moved(key, moved);
        }
        // The controller's; it is not asked here.
        PeerMessage::Applied { .. }
        | PeerMessage::Register(_)
        | PeerMessage::Heartbeat(_)
        | PeerMessage::AlterPartition(_) => {}
    }
}

fn apply_all(parts: &mut Parts<'_>, changes: &[Change]) {
    changes.iter().for_each(|change| super::changes::apply(parts, change));
    let (coordinators, mut storage) = parts.coordinators();
    coordinators.forget_deleted(&mut storage);
}
