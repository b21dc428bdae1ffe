//! What the controller and the brokers tell each other: sent over links, and handed over where it arrives.

use std::sync::Arc;

use super::links::Envelope;
use super::node::Event;
use super::{BrokerState, CONTROLLER, Cluster, Output, Party};
use crate::api::{self, Key, Outgoing, Peer, PeerMessage};
use crate::base::{NodeId, Now};
use crate::controller::{Change, Registration};

impl Cluster {
    /// Sends a message. Whoever asked what is given up for it hears that it was not delivered.
    pub(super) fn post(&mut self, now: Now, envelope: Envelope) {
        let given_up = self.links.send(now.instant, envelope);
        if let Some(given_up) = given_up
            && let Party::Broker(to) = given_up.to
        {
            self.bounce(now, to, &given_up);
        }
    }

    /// Sends what the controller has decided to every broker that is there.
    pub(super) fn send_changes(&mut self, now: Now) {
        let mut changes = self.controller.take_changes().peekable();
        if changes.peek().is_none() {
            return;
        }
        let changes: Vec<(u64, Change)> = changes.collect();
        let last = changes.last().map_or(0, |(number, _)| *number);
        let changes: Arc<[Change]> = changes.into_iter().map(|(_, change)| change).collect();
        for at in 0..self.nodes.len() {
            let node = &self.nodes[at];
            if node.state() == BrokerState::Down {
                continue;
            }
            let message = PeerMessage::Changes { last, changes: changes.clone() };
            let (to, incarnation) = (Party::Broker(node.id()), Some(node.incarnation));
            self.post(now, Envelope { from: CONTROLLER, to, incarnation, message });
        }
    }

    /// Sends what a broker wants sent.
    pub(super) fn send_outgoing(&mut self, at: usize, now: Now) {
        let node = &mut self.nodes[at];
        node.broker.take_up_replication();
        let from = Peer { party: Party::Broker(node.id()), incarnation: node.incarnation };
        let mut outbox = std::mem::take(&mut node.broker.outbox);
        for Outgoing { to, incarnation, message } in outbox.drain(..) {
            self.post(now, Envelope { from, to, incarnation, message });
        }
        // Keeps its memory for the next time.
        self.nodes[at].broker.outbox = outbox;
    }

    /// A message has arrived.
    pub(super) fn deliver(&mut self, now: Now, envelope: Envelope) {
        let Party::Broker(id) = envelope.to else {
            self.deliver_to_controller(now, envelope.from, envelope.message);
            return;
        };
        let at = self.nodes.iter().position(|node| node.id() == id);
        let is_meant = |at: &usize| {
            let node = &self.nodes[*at];
            let is_down = node.state() == BrokerState::Down;
            !is_down && envelope.incarnation.is_none_or(|incarnation| incarnation == node.incarnation)
        };
        let Some(at) = at.filter(is_meant) else {
            self.bounce(now, id, &envelope);
            return;
        };
        if let Some(events) = self.nodes[at].backlog() {
            let given_up = events.push(Event::Message(envelope));
            if let Some(Event::Message(given_up)) = given_up {
                self.bounce(now, id, &given_up);
            }
            return;
        }
        self.take_message(now, at, envelope);
    }

    /// A broker takes a message.
    pub(super) fn take_message(&mut self, now: Now, at: usize, envelope: Envelope) {
        let id = self.nodes[at].id();
        if matches!(
            envelope.message,
            PeerMessage::Changes { .. } | PeerMessage::Snapshot { .. } | PeerMessage::Registered { .. }
        ) {
            self.wake_all_resting(now);
        }
        if let Some(settings) = envelope.message.settings_of(id) {
            self.replies.push(Output::Configured(id, settings.clone()));
        }
        let (purgatory, mut parts, ..) = self.lend(at, now);
        api::handle_message(&mut parts, purgatory, envelope.from, envelope.message);
        if self.nodes[at].broker.membership.may_go() {
            self.go_down(now, at);
        }
    }

    /// Tells the sender that nobody was there to receive a message, if it waits for an answer.
    fn bounce(&mut self, now: Now, to: NodeId, envelope: &Envelope) {
        let Some(message) = envelope.message.undelivered(to) else { return };
        let Peer { party, incarnation } = envelope.from;
        let from = Peer { party: envelope.to, incarnation: 0 };
        let answer = Envelope { from, to: party, incarnation: Some(incarnation), message };
        self.post(now, answer);
    }

    fn deliver_to_controller(&mut self, now: Now, from: Peer, message: PeerMessage) {
        let Party::Broker(id) = from.party else { return };
        let answer = match message {
            PeerMessage::Applied { last } => {
                self.controller.acknowledge(id, last);
                self.tell_applied();
                return;
            }
            PeerMessage::Register(registration) => self.register(now, registration),
            PeerMessage::Heartbeat(heartbeat) => {
                let reply = self.controller.heartbeat(now.instant, heartbeat);
                PeerMessage::HeartbeatAnswered(reply.map_err(|error| error.code()))
            }
            PeerMessage::AlterPartition(proposal) => {
                let answer = self.controller.alter_partition(&proposal);
                PeerMessage::PartitionAltered(proposal, answer)
            }
            // Brokers'.
            PeerMessage::Changes { .. }
            | PeerMessage::Snapshot { .. }
            | PeerMessage::Registered { .. }
            | PeerMessage::HeartbeatAnswered(_)
            | PeerMessage::PartitionAltered(..)
            | PeerMessage::FollowerFetch(_)
            | PeerMessage::FollowerFetched(_)
            | PeerMessage::WriteMarkers(_)
            | PeerMessage::MarkersWritten(_)
            | PeerMessage::Inquiry(_)
            | PeerMessage::Inquired { .. } => return,
        };
        // What was decided goes first, as a broker hears of it from the log of decisions.
        self.send_changes(now);
        let (to, incarnation) = (from.party, Some(from.incarnation));
        self.post(now, Envelope { from: CONTROLLER, to, incarnation, message: answer });
    }

    fn register(&mut self, now: Now, registration: Registration) -> PeerMessage {
        let epoch = self.controller.register(now.instant, registration);
        let (last, changes) = self.controller.snapshot();
        PeerMessage::Registered { epoch, last, changes: changes.into() }
    }

    /// Tries those who wait for changes to be applied everywhere. Brokers that wait to be let go ask again: the
    /// controller waits for the others to have heard that they lead nothing more. (Kafka's ask every
    /// `broker.heartbeat.interval.ms`, whatever happens meanwhile.)
    pub(super) fn tell_applied(&mut self) {
        for node in self.nodes.iter_mut().filter(|node| node.runs()) {
            node.broker.wake(Key::MetadataApplied);
            node.broker.hasten_leave();
        }
    }
}
