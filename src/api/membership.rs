//! How a broker keeps its place in the cluster: it registers when it starts, sends heartbeats, and asks the controller
//! before it goes (Kafka's `BrokerLifecycleManager`).
//!
//! A cluster of one broker has no heartbeats: nobody would take over from it, and it is to be idle when nobody asks
//! anything of it.

use std::time::Duration;

use super::context::{Broker, Parts};
use super::peers::{Party, PeerMessage};
use crate::base::{ErrorCode, Instant};
use crate::controller::{BrokerRegistration, Heartbeat, HeartbeatReply, Registration};

/// A broker's place in the cluster.
#[derive(Clone, Debug)]
pub(crate) struct Membership {
    /// The epoch that its registration was given; none until the controller has answered it.
    epoch: Option<i64>,
    /// `broker.heartbeat.interval.ms`.
    interval: Duration,
    next_heartbeat: Option<Instant>,
    /// Whether it is on its way out.
    leaving: bool,
    /// Whether the controller has let it go, or it doesn't wait for that.
    may_go: bool,
}

impl Membership {
    /// Of a broker that is registered already with this epoch, none for one that has yet to.
    pub(crate) fn new(epoch: Option<i64>, interval_ms: u64) -> Self {
        Membership {
            epoch,
            interval: Duration::from_millis(interval_ms.max(1)),
            next_heartbeat: None,
            leaving: false,
            may_go: false,
        }
    }

    /// When the next heartbeat is due.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.next_heartbeat
    }

    /// Whether the broker goes now: the controller has let it, or it doesn't wait for that.
    pub(crate) fn may_go(&self) -> bool {
        self.may_go
    }

    /// The other brokers are as these: only with others are there heartbeats.
    pub(crate) fn note_brokers(&mut self, brokers: &[BrokerRegistration], now: Instant) {
        self.next_heartbeat = match self.next_heartbeat {
            _ if brokers.len() <= 1 => None,
            Some(next) => Some(next),
            None => Some(now + self.interval),
        };
    }
}

impl Broker {
    /// A broker that waits to be let go asks again before its time.
    pub(crate) fn hasten_leave(&mut self) {
        if self.membership.leaving {
            self.send_heartbeat();
        }
    }

    /// Sends a heartbeat whether it is due or not. A broker that isn't registered yet has none to send.
    fn send_heartbeat(&mut self) {
        let Membership { epoch: Some(epoch), leaving, .. } = self.membership else { return };
        let heartbeat = Heartbeat { broker: self.id, epoch, want_fence: false, want_shut_down: leaving };
        self.send(Party::Controller, PeerMessage::Heartbeat(heartbeat));
    }
}

impl Parts<'_> {
    /// The broker has started, and tells the controller.
    pub(crate) fn register(&mut self, registration: Registration) {
        self.broker.send(Party::Controller, PeerMessage::Register(registration));
    }

    /// The controller has registered the broker. From the first heartbeat on, once what the controller said is applied, it
    /// may lead.
    pub(crate) fn registered(&mut self, epoch: i64) {
        self.broker.membership.epoch = Some(epoch);
        self.broker.send_heartbeat();
    }

    /// The broker is to go, as soon as others have taken over what it leads; without `controlled.shutdown.enable` at once.
    pub(crate) fn leave(&mut self) {
        if !self.settings().replication.controlled_shutdown_enable {
            self.broker.membership.may_go = true;
            return;
        }
        self.broker.membership.leaving = true;
        self.broker.send_heartbeat();
    }

    /// Sends a heartbeat if one is due.
    pub(crate) fn heartbeat_if_due(&mut self) {
        let now = self.now.instant;
        if self.broker.membership.next_heartbeat.is_some_and(|due| due <= now) {
            self.broker.membership.next_heartbeat = Some(now + self.broker.membership.interval);
            self.broker.send_heartbeat();
        }
    }

    /// The controller has answered a heartbeat.
    pub(crate) fn heartbeat_answered(&mut self, answer: Result<HeartbeatReply, ErrorCode>) {
        match answer {
            Ok(reply) => self.broker.membership.may_go |= reply.should_shut_down,
            // Nobody takes over from a broker that the controller doesn't know.
            Err(_) if self.broker.membership.leaving => self.broker.membership.may_go = true,
            Err(error) => {
                tracing::warn!(broker = self.broker.id.0, ?error, "the controller refused a heartbeat");
            }
        }
    }
}
