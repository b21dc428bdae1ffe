//! Brokers that stop, die, freeze and come back.

use std::collections::BTreeSet;

use super::Kept;
use super::backlog::Next;
use super::command::CommandError;
use super::links::Envelope;
use super::node::{BrokerState, Event, Identity, Life, Node};
use super::{BROKER_DOWN, CONTROLLER, Cluster, MAX_BROKERS, NodeConfig, Output, Party, snapshot};
use crate::api::{Peer, PeerMessage};
use crate::base::{ConnectionId, NodeId, Now};
use crate::controller::{ControllerError, Registration};

impl Cluster {
    /// Every broker and how it is, in the order of their ids.
    pub fn brokers(&self) -> Vec<(NodeId, BrokerState)> {
        let mut brokers: Vec<_> = self.nodes.iter().map(|node| (node.id(), node.state())).collect();
        brokers.sort_by_key(|(id, _)| *id);
        brokers
    }

    /// Stops a broker as its users do: it leaves once others have taken over what it leads, or at once where
    /// `controlled.shutdown.enable` is off.
    pub(super) fn stop(&mut self, now: Now, id: NodeId) -> Result<(), CommandError> {
        let at = self.find(id)?;
        self.check_state(at, "running", |state| state == BrokerState::Running)?;
        let (_, mut parts, ..) = self.lend(at, now);
        parts.leave();
        if parts.broker.membership.may_go() {
            self.go_down(now, at);
        }
        Ok(())
    }

    /// Starts a broker that is down: with its logs, and nothing else of what it knew.
    pub(super) fn start(&mut self, now: Now, id: NodeId, kept: Kept) -> Result<(), CommandError> {
        let at = self.find(id)?;
        self.check_state(at, "down", |state| state == BrokerState::Down)?;
        let settings = self.controller.settings_of(id).clone();
        let registration = self.nodes[at].start(kept, &settings, &self.entropy, now, &mut self.pool);
        let (_, mut parts, ..) = self.lend(at, now);
        parts.register(registration);
        self.replies.push(Output::BrokerUp(id));
        Ok(())
    }

    /// Whether a broker with this id could be added.
    ///
    /// # Errors
    /// If it is negative or taken, or there are as many brokers as there can be.
    pub fn check_new_broker(&self, id: NodeId) -> Result<(), CommandError> {
        if id.0 < 0 {
            return Err(CommandError::InvalidBrokerId(id.0));
        }
        if self.nodes.iter().any(|node| node.id() == id) {
            return Err(CommandError::BrokerExists(id));
        }
        if self.nodes.len() >= MAX_BROKERS as usize {
            return Err(CommandError::TooManyBrokers);
        }
        Ok(())
    }

    /// The id that a broker gets which is added without one: the one after the highest, or the lowest free one if there is
    /// none after it.
    pub fn next_broker_id(&self) -> NodeId {
        let taken: BTreeSet<i32> = self.nodes.iter().map(|node| node.id().0).collect();
        let after = taken.last().and_then(|last| last.checked_add(1));
        NodeId(after.or_else(|| (1..).find(|id| !taken.contains(id))).unwrap_or(1))
    }

    /// Starts a broker that wasn't there before.
    pub(super) fn add_broker(&mut self, now: Now, config: NodeConfig) -> Result<(), CommandError> {
        self.check_new_broker(config.id)?;
        // Nobody must take it for a broker of the same id that was removed.
        self.added += 1;
        let identity = Identity { epoch: None, incarnation: self.added << 16 };
        self.controller.start_with(config.id, &config.configs).map_err(ControllerError::from)?;
        let settings = self.controller.settings_of(config.id);
        let mut node = Node::new(&config, settings, &self.entropy, identity, self.controller.brokers(), now);
        for key in self.faults.pinned() {
            node.broker.replicas.pin_high_watermark(*key, true, now);
        }
        self.nodes.push(node);
        let (_, mut parts, ..) = self.lend(self.nodes.len() - 1, now);
        let NodeConfig { id, rack, endpoints, .. } = config;
        parts.register(Registration { id, rack, endpoints, was_shut_down_cleanly: true });
        Ok(())
    }

    /// Forgets a broker that is down.
    pub(super) fn remove_broker(&mut self, now: Now, id: NodeId) -> Result<(), CommandError> {
        let at = self.find(id)?;
        self.check_state(at, "down", |state| state == BrokerState::Down)?;
        if self.nodes.len() == 1 {
            return Err(CommandError::LastBroker(id));
        }
        let mut node = self.nodes.remove(at);
        for key in node.broker.replicas.keys() {
            node.broker.replicas.remove(key, &mut self.pool);
        }
        if self.controller.broker(id).is_some() {
            self.controller.unregister(now.instant, id)?;
        }
        self.replies.push(Output::BrokerRemoved(id));
        Ok(())
    }

    /// Ends a broker's process, as it were, at once.
    pub(super) fn kill(&mut self, now: Now, id: NodeId) -> Result<(), CommandError> {
        let at = self.find(id)?;
        self.check_state(at, "running or frozen", |state| state != BrokerState::Down)?;
        self.go_down(now, at);
        Ok(())
    }

    pub(super) fn freeze(&mut self, id: NodeId) -> Result<(), CommandError> {
        let at = self.find(id)?;
        self.check_state(at, "running", |state| state == BrokerState::Running)?;
        self.nodes[at].life = Life::Frozen(Default::default());
        self.controller.excuse(id, true);
        self.tell_applied();
        Ok(())
    }

    pub(super) fn thaw(&mut self, now: Now, id: NodeId) -> Result<(), CommandError> {
        let at = self.find(id)?;
        self.check_state(at, "frozen", |state| state == BrokerState::Frozen)?;
        if let Life::Frozen(events) = std::mem::replace(&mut self.nodes[at].life, Life::Running) {
            self.nodes[at].life = Life::Thawing(events);
        }
        self.controller.excuse(id, false);
        // Each of these may bring more for this broker, which comes last. (It is found anew each time, since brokers may
        // come and go by what a client asks.)
        while let Ok(at) = self.find(id)
            && let Life::Thawing(events) = &mut self.nodes[at].life
        {
            match events.pop() {
                None => self.nodes[at].life = Life::Running,
                Some(Next::Entry(event)) => self.take(now, at, event),
                Some(Next::Snapshot { incarnation }) => {
                    let (from, to, message) = (CONTROLLER, Party::Broker(id), snapshot(&self.controller));
                    self.take_message(now, at, Envelope { from, to, incarnation, message });
                }
            }
            // Whoever waits for what one of them changes is tried before the next one changes it again.
            self.run_to_rest(now);
        }
        self.handle_timeout(now);
        Ok(())
    }

    /// A broker that was frozen takes what came.
    fn take(&mut self, now: Now, at: usize, event: Event) {
        match event {
            Event::Request(connection, prepared) => self.take_request(now, at, connection, prepared),
            Event::SendingEnded(connection) => self.take_sending_ended(at, connection),
            Event::Closed(connection) => self.take_closed(now, at, connection),
            Event::Message(envelope) => self.take_message(now, at, envelope),
        }
    }

    /// The broker's process is gone: nothing that it knew is left but its logs, and its connections break.
    pub(super) fn go_down(&mut self, now: Now, at: usize) {
        let node = &mut self.nodes[at];
        let id = node.id();
        let events = match std::mem::replace(&mut node.life, Life::Down) {
            Life::Frozen(events) | Life::Thawing(events) => events,
            _ => Default::default(),
        };
        let from = Peer { party: Party::Broker(id), incarnation: node.incarnation };
        let asked = node.purgatory.iter().filter_map(|parked| parked.wait.undelivered(id));
        let mut answers: Vec<(Peer, PeerMessage)> = asked.collect();
        node.lose_what_waits();
        for event in events.into_entries() {
            if let Event::Message(envelope) = event
                && let Some(answer) = envelope.message.undelivered(id)
            {
                answers.push((envelope.from, answer));
            }
        }
        // What it said last must not be taken for what it says when it runs again: a heartbeat that comes late, say.
        self.links.forget(from.party, Party::Controller);
        for (Peer { party: to, incarnation }, message) in answers {
            let incarnation = Some(incarnation);
            self.post(now, Envelope { from, to, incarnation, message });
        }
        self.replies.push(Output::BrokerDown(id));
        let ours = self.connections.iter().filter(|(_, connection)| connection.node == id);
        let mut ours: Vec<ConnectionId> = ours.map(|(connection, _)| *connection).collect();
        ours.sort();
        for connection in ours {
            self.connections.remove(&connection);
            self.sending_ended.remove(&connection);
            self.waits.remove(&connection);
            self.replies.forget(connection);
            self.replies.push(Output::Close { connection, reason: BROKER_DOWN });
        }
        self.controller.excuse(id, true);
        self.tell_applied();
    }

    pub(super) fn find(&self, id: NodeId) -> Result<usize, CommandError> {
        let at = self.nodes.iter().position(|node| node.id() == id);
        at.ok_or_else(|| {
            let ids: Vec<String> = self.brokers().iter().map(|(id, _)| id.0.to_string()).collect();
            CommandError::UnknownBroker(id.0, ids.join(", "))
        })
    }

    /// Whether there can be a link between these.
    pub(super) fn check_ends(&self, from: Party, to: Party) -> Result<(), CommandError> {
        for party in [from, to] {
            if let Party::Broker(id) = party {
                self.find(id)?;
            }
        }
        if from == to { Err(CommandError::SameEnds) } else { Ok(()) }
    }

    fn check_state(
        &self,
        at: usize,
        needed: &'static str,
        is_good: impl Fn(BrokerState) -> bool,
    ) -> Result<(), CommandError> {
        let node: &Node = &self.nodes[at];
        match node.state() {
            state if is_good(state) => Ok(()),
            is => Err(CommandError::WrongState { broker: node.id(), is, needed }),
        }
    }
}
