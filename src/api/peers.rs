//! What brokers and the controller tell each other. A broker notes what it wants to say ([`Broker::send`]); the
//! cluster's links carry it, and hand it to [`handle`] where it arrives.

use std::sync::Arc;

use super::context::{Broker, Parts};
use super::waits::{Key, Wait};
use crate::base::{ConnectionId, NodeId};
use crate::controller::Change;
use crate::purgatory::Purgatory;

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
    /// To the controller: all changes up to this one are applied.
    Applied { last: u64 },
}

impl PeerMessage {
    /// What whoever sent this gets back if nobody is there to receive it, as when a connection is refused or breaks;
    /// none if nobody waits for an answer.
    pub(crate) fn undelivered(&self) -> Option<PeerMessage> {
        match self {
            PeerMessage::Changes { .. } | PeerMessage::Applied { .. } => None,
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
    #[expect(dead_code, reason = "for what brokers ask each other, which comes next")]
    pub(crate) fn answer(&mut self, peer: Peer, message: PeerMessage) {
        self.outbox.push(Outgoing { to: peer.party, incarnation: Some(peer.incarnation), message });
    }
}

/// A message has arrived at a broker. What can't be answered yet is parked in its purgatory.
pub(crate) fn handle(
    parts: &mut Parts<'_>,
    _purgatory: &mut Purgatory<Key, Wait, ConnectionId>,
    _from: Peer,
    message: PeerMessage,
) {
    match message {
        PeerMessage::Changes { last, changes } => {
            for change in changes.iter() {
                super::changes::apply(parts, change);
            }
            parts.broker.send(Party::Controller, PeerMessage::Applied { last });
        }
        PeerMessage::Applied { .. } => {}
    }
}
