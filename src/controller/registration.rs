//! Brokers as the controller knows them: registered, fenced and unfenced, on their way out, gone. Kafka's
//! `ClusterControlManager` and `BrokerHeartbeatManager`.
//!
//! | Broker | Event | Then |
//! |---|---|---|
//! | unknown, or of an earlier start | registers | fenced, with a new epoch |
//! | fenced | heartbeat | unfenced, once it has applied what had been decided when it registered |
//! | fenced | heartbeat that wants to shut down | may shut down |
//! | unfenced | heartbeat that wants to be fenced, or none for `broker.session.timeout.ms` | fenced |
//! | unfenced | heartbeat that wants to shut down | leads nothing any more, leaves the ISRs, and may shut down (and is fenced) once the others have heard of it |
//! | any | is unregistered | unknown |
//!
//! With one registered broker nobody's heartbeats are missed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::{Change, Controller, ControllerError};
use crate::base::{Instant, NodeId};

/// A broker as the controller knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BrokerRegistration {
    /// Kafka's `node.id`.
    pub id: NodeId,
    /// Kafka's `broker.rack`.
    pub rack: Option<Arc<str>>,
    /// Which of the broker's starts this is: each registration gets a higher one, from 1 on.
    pub epoch: i64,
    /// Whether the broker may lead nothing for now.
    pub fenced: bool,
    /// Whether the broker has asked to be shut down, and its leaderships go to others.
    pub in_controlled_shutdown: bool,
    /// Where clients reach it, one for each listener.
    pub endpoints: Vec<ListenerEndpoint>,
}

impl BrokerRegistration {
    /// Whether the broker may lead and be in sync.
    pub fn is_active(&self) -> bool {
        !self.fenced && !self.in_controlled_shutdown
    }
}

/// Where clients of one listener reach a broker (`advertised.listeners`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerEndpoint {
    /// Kafka's name of the listener.
    pub listener: Arc<str>,
    /// The host to advertise; none for the address by which each client has reached us.
    pub host: Option<Arc<str>>,
    /// The port to advertise.
    pub port: u16,
}

/// What a broker says of itself when it starts.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Kafka's `node.id`.
    pub id: NodeId,
    /// Kafka's `broker.rack`.
    pub rack: Option<Arc<str>>,
    /// Where clients reach it, one for each listener.
    pub endpoints: Vec<ListenerEndpoint>,
    /// Whether its last run ended in a shutdown, so that it has all that it ever acknowledged. A broker that hasn't is
    /// eligible for nothing until it has caught up (KIP-966).
    pub was_shut_down_cleanly: bool,
}

/// What a broker says every `broker.heartbeat.interval.ms`.
#[derive(Clone, Copy, Debug)]
pub struct Heartbeat {
    /// Who.
    pub broker: NodeId,
    /// The epoch that its registration was given.
    pub epoch: i64,
    /// It asks to be fenced, or to stay so.
    pub want_fence: bool,
    /// It asks whether it may shut down.
    pub want_shut_down: bool,
}

/// What the controller says to a heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatReply {
    /// Whether the broker is fenced from now on.
    pub fenced: bool,
    /// Whether the broker may go: it leads nothing, and the others know that.
    pub should_shut_down: bool,
}

/// What the controller remembers of a broker beside its registration.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    /// How many changes the broker has applied.
    applied: u64,
    /// Whether nobody waits for it to apply changes.
    excused: bool,
    /// The change that tells of its registration.
    registered_by: u64,
    /// The last change of its controlled shutdown, while that goes on.
    leaves_by: Option<u64>,
    /// When it is fenced if no heartbeat comes; none while it is fenced, or the only one.
    ends: Option<Instant>,
}

/// All registered brokers.
#[derive(Clone, Debug, Default)]
pub(super) struct Brokers {
    /// By id.
    registrations: Arc<[BrokerRegistration]>,
    sessions: BTreeMap<NodeId, Session>,
    last_epoch: i64,
}

impl Brokers {
    /// These brokers, registered and unfenced.
    pub(super) fn unfenced(mut brokers: Vec<BrokerRegistration>, sessions_end: Instant) -> Self {
        brokers.sort_by_key(|broker| broker.id);
        let ends = (brokers.len() > 1).then_some(sessions_end);
        let mut last_epoch = 0;
        for broker in &mut brokers {
            last_epoch += 1;
            (broker.epoch, broker.fenced, broker.in_controlled_shutdown) = (last_epoch, false, false);
        }
        let sessions = brokers.iter().map(|broker| (broker.id, Session { ends, ..Session::default() }));
        Brokers { sessions: sessions.collect(), registrations: brokers.into(), last_epoch }
    }

    pub(super) fn all(&self) -> &Arc<[BrokerRegistration]> {
        &self.registrations
    }

    pub(super) fn of(&self, id: NodeId) -> Option<&BrokerRegistration> {
        let at = self.registrations.binary_search_by_key(&id, |broker| broker.id).ok()?;
        self.registrations.get(at)
    }

    pub(super) fn is_active(&self, id: NodeId) -> bool {
        self.of(id).is_some_and(BrokerRegistration::is_active)
    }

    pub(super) fn acknowledge(&mut self, id: NodeId, change: u64) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.applied = change.max(session.applied);
        }
    }

    pub(super) fn excuse(&mut self, id: NodeId, excused: bool) {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.excused = excused;
        }
    }

    pub(super) fn applied_by(&self, id: NodeId) -> Option<u64> {
        self.sessions.get(&id).filter(|session| !session.excused).map(|session| session.applied)
    }

    /// The last change that every unfenced broker has applied; of those, that is, from which it is expected.
    pub(super) fn applied_everywhere(&self) -> u64 {
        let unfenced = self.registrations.iter().filter(|broker| !broker.fenced);
        let sessions = unfenced.filter_map(|broker| self.sessions.get(&broker.id));
        let expected = sessions.filter(|session| !session.excused);
        expected.map(|session| session.applied).min().unwrap_or(u64::MAX)
    }

    /// The first deadline of all sessions.
    pub(super) fn next_end(&self) -> Option<Instant> {
        self.sessions.values().filter_map(|session| session.ends).min()
    }

    fn put(&mut self, registration: BrokerRegistration) {
        let others = self.registrations.iter().filter(|broker| broker.id != registration.id);
        let mut all: Vec<BrokerRegistration> = others.cloned().collect();
        all.push(registration);
        all.sort_by_key(|broker| broker.id);
        self.registrations = all.into();
    }

    /// Sets the deadlines of those that have none, or, with one broker, takes its away.
    fn set_missing_ends(&mut self, end: Instant) {
        let is_alone = self.registrations.len() == 1;
        for broker in self.registrations.iter() {
            let Some(session) = self.sessions.get_mut(&broker.id) else { continue };
            session.ends = match session.ends {
                _ if is_alone || broker.fenced => None,
                Some(end) => Some(end),
                None => Some(end),
            };
        }
    }
}

impl Controller {
    /// All registered brokers, by id.
    pub fn brokers(&self) -> &Arc<[BrokerRegistration]> {
        self.brokers.all()
    }

    /// The broker with this id.
    pub fn broker(&self, id: NodeId) -> Option<&BrokerRegistration> {
        self.brokers.of(id)
    }

    /// The broker that stands in for the controller where clients are shown one: the first that lives.
    pub fn controller_id(&self) -> Option<NodeId> {
        self.brokers().iter().find(|broker| !broker.fenced).map(|broker| broker.id)
    }

    /// A broker has started. It gets a new epoch, and is fenced until a heartbeat of it, which has an effect once the
    /// broker has acknowledged all changes up to this one: a broker that starts must be told [`Controller::snapshot`].
    ///
    /// Where Kafka makes a broker wait until the session of its last run has ended, that session is ended here and now.
    pub fn register(&mut self, now: Instant, registration: Registration) -> i64 {
        let Registration { id, rack, endpoints, was_shut_down_cleanly } = registration;
        let is_known = self.brokers.of(id).is_some();
        self.brokers.last_epoch += 1;
        let epoch = self.brokers.last_epoch;
        self.brokers.put(BrokerRegistration {
            id,
            rack,
            epoch,
            fenced: true,
            in_controlled_shutdown: false,
            endpoints,
        });
        self.decide_brokers();
        let session = Session { registered_by: self.last_change(), ..Session::default() };
        self.brokers.sessions.insert(id, session);
        if is_known {
            let uncleanly = (!was_shut_down_cleanly).then_some(id);
            self.update_leaders_and_isrs(Some(id), uncleanly, |partition| {
                partition.isr.contains(&id) || (uncleanly.is_some() && partition.elr.contains(&id))
            });
        }
        self.brokers.set_missing_ends(now + self.session_timeout());
        epoch
    }

    /// A broker says that it lives.
    ///
    /// # Errors
    /// If it is not registered with this epoch.
    pub fn heartbeat(
        &mut self,
        now: Instant,
        heartbeat: Heartbeat,
    ) -> Result<HeartbeatReply, ControllerError> {
        let Heartbeat { broker: id, epoch, want_fence, want_shut_down } = heartbeat;
        self.check_broker_epoch(id, epoch)?;
        let session_end = now + self.session_timeout();
        if let Some(session) = self.brokers.sessions.get_mut(&id) {
            session.ends = session.ends.map(|_| session_end);
        }
        let (is_fenced, is_leaving) = match self.brokers.of(id) {
            Some(broker) => (broker.fenced, broker.in_controlled_shutdown),
            None => (true, false),
        };
        if is_fenced {
            if !want_shut_down && !want_fence && self.has_caught_up(id) {
                self.unfence(id);
                self.brokers.set_missing_ends(session_end);
            }
        } else if is_leaving {
            if self.may_leave(id) {
                self.fence(id);
                return Ok(HeartbeatReply { fenced: true, should_shut_down: true });
            }
        } else if want_fence {
            self.fence(id);
        } else if want_shut_down {
            self.begin_controlled_shutdown(id);
            if self.may_leave(id) {
                self.fence(id);
                return Ok(HeartbeatReply { fenced: true, should_shut_down: true });
            }
        }
        let fenced = self.brokers.of(id).is_none_or(|broker| broker.fenced);
        Ok(HeartbeatReply { fenced, should_shut_down: fenced && want_shut_down })
    }

    /// Forgets a broker, whether it lives or not: its partitions get other leaders, and keep it among their replicas.
    ///
    /// # Errors
    /// If it is not registered.
    pub fn unregister(&mut self, now: Instant, id: NodeId) -> Result<(), ControllerError> {
        if self.brokers.of(id).is_none() {
            return Err(ControllerError::UnknownBroker { id });
        }
        let others = self.brokers().iter().filter(|broker| broker.id != id).cloned();
        self.brokers.registrations = others.collect();
        self.brokers.sessions.remove(&id);
        self.decide_brokers();
        self.update_leaders_and_isrs(Some(id), None, |partition| partition.isr.contains(&id));
        self.brokers.set_missing_ends(now + self.session_timeout());
        Ok(())
    }

    /// That this is the epoch of a registered broker.
    ///
    /// # Errors
    /// If it isn't.
    pub(super) fn check_broker_epoch(&self, id: NodeId, epoch: i64) -> Result<(), ControllerError> {
        match self.brokers.of(id) {
            Some(broker) if broker.epoch == epoch => Ok(()),
            known => {
                Err(ControllerError::StaleBrokerEpoch { id, epoch, current: known.map(|known| known.epoch) })
            }
        }
    }

    /// Fences those that have not been heard of for too long.
    pub(super) fn end_sessions(&mut self, now: Instant) {
        let ended =
            self.brokers.sessions.iter().filter(|(_, session)| session.ends.is_some_and(|end| end <= now));
        let ended: Vec<NodeId> = ended.map(|(id, _)| *id).collect();
        for id in ended {
            tracing::info!(broker = id.0, "no heartbeat for broker.session.timeout.ms: the broker is fenced");
            self.fence(id);
        }
    }

    fn fence(&mut self, id: NodeId) {
        self.change_broker(id, |broker| (broker.fenced, broker.in_controlled_shutdown) = (true, false));
        if let Some(session) = self.brokers.sessions.get_mut(&id) {
            (session.ends, session.leaves_by) = (None, None);
        }
        self.update_leaders_and_isrs(Some(id), None, |partition| partition.isr.contains(&id));
    }

    fn unfence(&mut self, id: NodeId) {
        self.change_broker(id, |broker| broker.fenced = false);
        self.update_leaders_and_isrs(None, None, |partition| partition.leader.is_none());
    }

    fn begin_controlled_shutdown(&mut self, id: NodeId) {
        if !self.leads_anything(id) {
            return;
        }
        self.change_broker(id, |broker| broker.in_controlled_shutdown = true);
        self.update_leaders_and_isrs(Some(id), None, |partition| partition.isr.contains(&id));
        let leaves_by = self.last_change();
        if let Some(session) = self.brokers.sessions.get_mut(&id) {
            session.leaves_by = Some(leaves_by);
        }
    }

    /// Whether a broker leads nothing, and the others know that.
    fn may_leave(&self, id: NodeId) -> bool {
        let leaves_by = self.brokers.sessions.get(&id).and_then(|session| session.leaves_by);
        !self.leads_anything(id) && leaves_by.is_none_or(|change| self.brokers.applied_everywhere() >= change)
    }

    fn has_caught_up(&self, id: NodeId) -> bool {
        self.brokers.sessions.get(&id).is_some_and(|session| session.applied >= session.registered_by)
    }

    fn leads_anything(&self, id: NodeId) -> bool {
        let mut partitions = self.topics.iter().flat_map(|topic| topic.partitions.iter());
        partitions.any(|partition| partition.leader == Some(id))
    }

    fn change_broker(&mut self, id: NodeId, change: impl FnOnce(&mut BrokerRegistration)) {
        let Some(mut broker) = self.brokers.of(id).cloned() else { return };
        change(&mut broker);
        self.brokers.put(broker);
        self.decide_brokers();
    }

    fn decide_brokers(&mut self) {
        self.decide(Change::Brokers(self.brokers().clone()));
    }

    fn session_timeout(&self) -> Duration {
        Duration::from_millis(self.settings().replication.broker_session_timeout_ms)
    }
}
