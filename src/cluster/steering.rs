//! What a user may do to a cluster while it runs: hold requests by rule, let waits go, pin high watermarks.

use super::command::{CommandError, Done};
use super::replies::Due;
use super::{CLIENT_GONE, Cluster, Output, WaitDescription};
use crate::api::{
    self, Caller, Ending, Held, HeldWait, Kind, NOBODY, Operation, Request, RequestSubject, Wait,
};
use crate::base::{Instant, NodeId, Now, PartitionKey};
use crate::controller::ControllerError;
use crate::faults::{self, Hold, HoldError, HoldId, HoldRule};
use crate::purgatory::{self, WaitId, Waiter, Waiting};
use crate::replica::Role;

impl Cluster {
    /// The rules that hold requests, in the order in which they were made.
    pub fn holds(&self) -> &[Hold] {
        self.faults.holds()
    }

    /// The partitions whose high watermark is pinned.
    pub fn pinned(&self) -> impl Iterator<Item = PartitionKey> {
        // Topics that are gone take theirs along.
        let topics = self.controller.topics();
        self.faults.pinned().iter().copied().filter(|key| topics.by_id(key.topic).is_some())
    }

    /// All that waits, on every broker, in the order in which it began to.
    pub fn waits(&mut self, now: Now) -> Vec<WaitDescription> {
        let mut descriptions = Vec::new();
        self.wake_all_resting(now);
        for at in 0..self.nodes.len() {
            let (purgatory, parts, ..) = self.lend(at, now);
            let described = purgatory.iter().map(|parked| {
                let caller = parked.wait.caller();
                let connection = Some(caller.connection).filter(|connection| *connection != NOBODY);
                let peer =
                    parts.connections.get(&caller.connection).map(|connection| connection.peer.clone());
                WaitDescription {
                    node: parts.broker.id,
                    id: parked.id,
                    kind: parked.wait.kind(),
                    waiter: parked.waiter,
                    connection,
                    peer,
                    client_id: caller.client_id.clone(),
                    hold: parked.wait.hold(),
                    description: purgatory::Wait::describe(parked.wait, &parts),
                }
            });
            descriptions.extend(described);
        }
        descriptions.sort_by_key(|wait| (wait.waiter.since, wait.node, wait.id));
        descriptions
    }

    pub(super) fn add_hold(&mut self, rule: HoldRule) -> Result<Done, CommandError> {
        if let Some(key) = rule.api {
            let api = api::entry(key).ok_or(HoldError::UnknownApi(key))?;
            if rule.topic.is_some() && !api.names_topics {
                return Err(HoldError::NamesNoTopics { api: api.name }.into());
            }
            if rule.group.is_some() && !api.names_groups {
                return Err(HoldError::NamesNoGroups { api: api.name }.into());
            }
        }
        if let Some(broker) = rule.broker {
            self.find(broker)?;
        }
        Ok(Done::HoldAdded(self.faults.add_hold(rule)?))
    }

    /// Takes a rule away, and lets go what it holds.
    pub(super) fn remove_hold(&mut self, now: Now, id: HoldId) -> Result<Done, CommandError> {
        self.faults.remove_hold(id)?;
        Ok(self.release_held(now, id))
    }

    /// Lets go what a rule holds.
    ///
    /// # Errors
    /// If there is no such rule.
    pub(super) fn release_hold(&mut self, now: Now, id: HoldId) -> Result<Done, CommandError> {
        if !self.holds().iter().any(|hold| hold.id == id) {
            return Err(HoldError::NoSuchHold(id).into());
        }
        Ok(self.release_held(now, id))
    }

    fn release_held(&mut self, now: Now, id: HoldId) -> Done {
        let mut released = 0;
        for at in 0..self.nodes.len() {
            let purgatory = &self.nodes[at].purgatory;
            let held = purgatory.iter().filter(|parked| parked.wait.hold() == Some(id));
            let mut waits: Vec<WaitId> = held.map(|parked| parked.id).collect();
            waits.sort();
            released += waits.len();
            waits.into_iter().for_each(|wait| self.let_go(now, at, wait));
        }
        Done::Released(released)
    }

    /// Ends one wait, as if its time had come.
    pub(super) fn release(&mut self, now: Now, node: NodeId, serial: u64) -> Result<Done, CommandError> {
        let at = self.find(node)?;
        let id = self.nodes[at].purgatory.find(serial).ok_or(CommandError::NoSuchWait { node, serial })?;
        self.let_go(now, at, id);
        Ok(Done::Released(1))
    }

    fn let_go(&mut self, now: Now, at: usize, id: WaitId) {
        if !self.nodes[at].runs() {
            // A frozen broker does nothing now; it is over once it goes on.
            self.nodes[at].purgatory.reschedule(now.instant, id, now.instant);
            return;
        }
        let (purgatory, mut parts, replies, waits) = self.lend(at, now);
        if let Some((departure, ending)) = purgatory.release(id, &mut parts) {
            waits.remove(&departure.waiter.owner);
            match ending {
                Ending::NoNews(fetch) => fetch.answer(&mut parts),
                ending => replies.end(ending),
            }
        }
    }

    /// Keeps a partition's high watermark where it is, on every broker, or lets it go on.
    pub(super) fn pin(
        &mut self,
        now: Now,
        topic: &str,
        index: i32,
        pinned: bool,
    ) -> Result<(), CommandError> {
        let key = self.partition_key(topic, index)?;
        let topics = self.controller.topics();
        for gone in self.faults.forget_pins(|key| topics.by_id(key.topic).is_none()) {
            for node in &mut self.nodes {
                node.broker.replicas.pin_high_watermark(gone, false, now);
            }
        }
        self.faults.pin(key, pinned);
        for at in 0..self.nodes.len() {
            let (_, parts, ..) = self.lend(at, now);
            let moved = parts.broker.replicas.pin_high_watermark(key, pinned, now);
            parts.broker.wake_moved(key, moved);
        }
        Ok(())
    }

    /// Keeps a follower from fetching, or lets it go on.
    pub(super) fn freeze_fetcher(
        &mut self,
        now: Now,
        broker: NodeId,
        topic: &str,
        index: i32,
        frozen: bool,
    ) -> Result<(), CommandError> {
        let key = self.partition_key(topic, index)?;
        let at = self.find(broker)?;
        let (_, parts, ..) = self.lend(at, now);
        let replicas = &mut parts.broker.replicas;
        let follows = |role: &Role| matches!(role, Role::Follower { leader: Some(_) });
        if !replicas.replica(key).is_some_and(|replica| follows(replica.role())) {
            return Err(CommandError::NotAFollower { broker, topic: topic.to_owned(), index });
        }
        replicas.freeze_fetcher(Some(key), frozen, now);
        Ok(())
    }

    fn partition_key(&self, topic: &str, index: i32) -> Result<PartitionKey, ControllerError> {
        let found = self.controller.topics().by_name(topic);
        let found = found.ok_or_else(|| ControllerError::UnknownTopic { name: topic.to_owned() })?;
        found
            .partition(index)
            .ok_or_else(|| ControllerError::UnknownPartition { topic: topic.to_owned(), index })?;
        Ok(PartitionKey { topic: found.id, index })
    }

    /// How many requests and answers the rules hold, or are about to.
    fn held(&self) -> usize {
        let waiting = self.nodes.iter().map(|node| node.purgatory.metrics(Kind::Held).num_delayed_operations);
        waiting.sum::<u64>() as usize + self.replies.holding()
    }

    /// Holds a request that has come to the broker `at`, if a rule says so; else gives it back.
    pub(super) fn hold_request(
        &mut self,
        now: Now,
        at: usize,
        caller: Caller,
        request: Request,
    ) -> Option<(Caller, Request)> {
        let Some(held) = self.matching_hold(true, at, &caller, &request) else {
            return Some((caller, request));
        };
        self.park_held(now, at, &caller, held, Held::Request(request));
        None
    }

    /// Notes that the answer to a request is held, if a rule says so.
    pub(super) fn hold_answer(&mut self, at: usize, caller: &Caller, request: &Request) {
        if let Some(held) = self.matching_hold(false, at, caller, request) {
            self.replies.hold_answer(caller.clone(), held);
        }
    }

    fn matching_hold(
        &mut self,
        before: bool,
        at: usize,
        caller: &Caller,
        request: &Request,
    ) -> Option<faults::Held> {
        if self.faults.hold_nothing(before) {
            return None;
        }
        let held = self.held();
        let broker = &self.nodes[at].broker;
        let subject = RequestSubject { caller, request, broker, controller: &self.controller };
        self.faults.hold(before, &subject, held)
    }

    fn park_held(&mut self, now: Now, at: usize, caller: &Caller, rule: faults::Held, held: Held) {
        if self.sending_ended.contains(&caller.connection) {
            self.replies.push(Output::Close { connection: caller.connection, reason: CLIENT_GONE });
        }
        let deadline = rule.time_limit.map_or(Instant::NEVER, |limit| now.instant + limit);
        let waiter = Waiter { owner: caller.connection, since: now.instant, deadline };
        let api = api::entry(rule.api).map_or("", |entry| entry.name);
        let operation = Operation::Held(Box::new(HeldWait { hold: rule.hold, api, held }));
        let id = self.nodes[at].purgatory.park([], waiter, Wait::new(caller, operation));
        self.waits.insert(caller.connection, id);
    }

    /// Applies requests that are held no more, and holds answers that have become ready. Returns whether there were
    /// any.
    pub(super) fn carry_out_due(&mut self, now: Now) -> bool {
        let mut busy = false;
        while let Some(due) = self.replies.take_due() {
            busy = true;
            match due {
                Due::Apply(caller, request) => {
                    if let Some(at) = self.node_of(caller.connection) {
                        self.apply_request(now, at, caller, request);
                    }
                }
                Due::Keep(caller, rule, reply) => {
                    if let Some(at) = self.node_of(caller.connection) {
                        self.park_held(now, at, &caller, rule, Held::Answer(reply.response));
                    }
                }
            }
        }
        busy
    }
}
