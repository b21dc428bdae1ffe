//! A classic group: the state machine of Kafka's `ClassicGroup`, with its members.
//!
//! | state | waits for | leaves to |
//! |---|---|---|
//! | Empty | a first member | PreparingRebalance |
//! | PreparingRebalance | every member to join, or the rebalance timeout | CompletingRebalance, Empty |
//! | CompletingRebalance | the leader's assignment, and everybody's sync | Stable, PreparingRebalance |
//! | Stable | a change of members or subscriptions | PreparingRebalance |
//! | Dead | nothing: the group is gone | |
//!
//! This file has the group and its members as data, and counts what would else be looked for among all members at
//! each request; `rebalance.rs` moves it from state to state, `membership.rs` takes the requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::base::{ErrorCode, WallTime};
use crate::coordinator::records::{ClassicGroupValue, ClassicMemberValue, Record};
use crate::coordinator::{Ticket, java_hash, subscription};

/// What a classic group waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Kafka's own; the module's table says what they mean")]
pub enum ClassicState {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
    Dead,
}

impl ClassicState {
    /// Kafka's name for the state.
    pub const fn name(self) -> &'static str {
        match self {
            ClassicState::Empty => "Empty",
            ClassicState::PreparingRebalance => "PreparingRebalance",
            ClassicState::CompletingRebalance => "CompletingRebalance",
            ClassicState::Stable => "Stable",
            ClassicState::Dead => "Dead",
        }
    }
}

/// A protocol (assignor) that a member knows, and what it says under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol {
    /// Its name.
    pub name: Arc<str>,
    /// The member's subscription, in its own encoding.
    pub metadata: Bytes,
}

/// A member of a classic group.
#[derive(Clone, Debug)]
pub struct ClassicMember {
    /// Given by the coordinator.
    pub id: Arc<str>,
    /// `group.instance.id`: the member is static (KIP-345).
    pub instance_id: Option<Arc<str>>,
    /// The client's name for itself.
    pub client_id: Arc<str>,
    /// The client's address, with a slash before it.
    pub client_host: Arc<str>,
    /// How long a rebalance waits for it, ms.
    pub rebalance_timeout_ms: i32,
    /// How long it may be silent, ms.
    pub session_timeout_ms: i32,
    /// In the order in which it prefers them.
    pub protocols: Vec<Protocol>,
    /// What the leader has given it, in its own encoding.
    pub assignment: Bytes,
    /// Its JoinGroup that waits.
    pub(super) awaiting_join: Option<Ticket>,
    /// Its SyncGroup that waits.
    pub(super) awaiting_sync: Option<Ticket>,
    /// Its first join has not been answered yet, so that it can't know its id.
    pub(super) is_new: bool,
}

impl ClassicMember {
    /// What the member says under a protocol; nothing if it doesn't know it.
    pub fn metadata(&self, protocol: &str) -> Bytes {
        let known = self.protocols.iter().find(|known| &*known.name == protocol);
        known.map(|known| known.metadata.clone()).unwrap_or_default()
    }
}

/// A classic group.
#[derive(Clone, Debug)]
pub struct ClassicGroup {
    /// Its name.
    pub id: Arc<str>,
    pub(super) state: ClassicState,
    /// The state before, which tells an initial rebalance from others.
    pub(super) previous_state: ClassicState,
    pub(super) state_since: WallTime,
    pub(super) protocol_type: Option<Arc<str>>,
    pub(super) protocol: Option<Arc<str>>,
    pub(super) generation: i32,
    pub(super) leader: Option<Arc<str>>,
    /// Changed through [`ClassicGroup::change`] wherever it is about what is counted: joins that wait, and protocols.
    pub(super) members: IndexMap<Arc<str>, ClassicMember, FxBuildHasher>,
    /// How many members have a JoinGroup that waits.
    joins_waiting: usize,
    /// How many members know each protocol.
    supported: BTreeMap<Arc<str>, usize>,
    /// Topics that the members of this generation subscribe to; none where that can't be known.
    pub(super) subscribed_topics: Option<BTreeSet<Box<str>>>,
    /// Member ids by instance id.
    pub(super) static_members: BTreeMap<Arc<str>, Arc<str>>,
    /// Ids that were given out with MEMBER_ID_REQUIRED and have not come back (KIP-394).
    pub(super) pending_members: BTreeSet<Arc<str>>,
    /// Members whose sync this generation still waits for.
    pub(super) pending_sync: BTreeSet<Arc<str>>,
    /// During an initial rebalance: somebody came since the delay began.
    pub(super) new_member_added: bool,
    /// During an initial rebalance: how much longer it may be drawn out, ms.
    pub(super) initial_budget_ms: Option<i64>,
}

impl ClassicGroup {
    /// An empty group.
    pub(super) fn new(id: Arc<str>, now: WallTime) -> Self {
        ClassicGroup {
            id,
            state: ClassicState::Empty,
            previous_state: ClassicState::Dead,
            state_since: now,
            protocol_type: None,
            protocol: None,
            generation: 0,
            leader: None,
            members: IndexMap::default(),
            joins_waiting: 0,
            supported: BTreeMap::new(),
            subscribed_topics: None,
            static_members: BTreeMap::new(),
            pending_members: BTreeSet::new(),
            pending_sync: BTreeSet::new(),
            new_member_added: false,
            initial_budget_ms: None,
        }
    }

    /// The group as a record of the log has it.
    pub(super) fn from_value(id: Arc<str>, value: &ClassicGroupValue) -> Self {
        let mut group = ClassicGroup::new(id, WallTime(value.state_timestamp_ms));
        group.generation = value.generation;
        group.protocol_type = (!value.protocol_type.is_empty()).then(|| value.protocol_type.clone());
        group.protocol = value.protocol.clone();
        group.state = if value.members.is_empty() { ClassicState::Empty } else { ClassicState::Stable };
        for member in &value.members {
            let name = value.protocol.clone().unwrap_or_default();
            group.insert(ClassicMember {
                id: member.member_id.clone(),
                instance_id: member.instance_id.clone(),
                client_id: member.client_id.clone(),
                client_host: member.client_host.clone(),
                rebalance_timeout_ms: member.rebalance_timeout_ms,
                session_timeout_ms: member.session_timeout_ms,
                protocols: vec![Protocol { name, metadata: member.subscription.clone() }],
                assignment: member.assignment.clone(),
                awaiting_join: None,
                awaiting_sync: None,
                is_new: false,
            });
        }
        // The first to be inserted would lead where the record says that nobody does.
        group.leader = value.leader.clone();
        group.note_subscribed_topics();
        group
    }

    /// The group as it goes into the log, with these assignments.
    pub(super) fn to_value(&self, assignment: impl Fn(&ClassicMember) -> Bytes) -> ClassicGroupValue {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let members = self.members.values().map(|member| ClassicMemberValue {
            member_id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout_ms,
            subscription: member.metadata(protocol),
            assignment: assignment(member),
        });
        ClassicGroupValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_timestamp_ms: self.state_since.as_millis(),
            members: members.collect(),
        }
    }

    /// The record that a new group is there, before anybody is in it (Kafka's `newEmptyGroupMetadataRecord`).
    pub(super) fn creation(&self) -> Record {
        let value = ClassicGroupValue {
            protocol_type: Arc::from(""),
            generation: 0,
            protocol: None,
            leader: None,
            state_timestamp_ms: self.state_since.as_millis(),
            members: Vec::new(),
        };
        Record::ClassicGroup { group: self.id.clone(), value: Some(value) }
    }

    /// What it waits for.
    pub fn state(&self) -> ClassicState {
        self.state
    }

    /// Counts rebalances.
    pub fn generation(&self) -> i32 {
        self.generation
    }

    /// `consumer`, `connect` or whatever its members say; none if it never had any.
    pub fn protocol_type(&self) -> Option<&Arc<str>> {
        self.protocol_type.as_ref()
    }

    /// The protocol (assignor) of this generation.
    pub fn protocol(&self) -> Option<&Arc<str>> {
        self.protocol.as_ref()
    }

    /// The leader's member id.
    pub fn leader(&self) -> Option<&Arc<str>> {
        self.leader.as_ref()
    }

    /// Its members, in the order in which they came.
    pub fn members(&self) -> impl Iterator<Item = &ClassicMember> {
        self.members.values()
    }

    pub(super) fn is_leader(&self, member: &str) -> bool {
        self.leader.as_deref() == Some(member)
    }

    pub(super) fn transition(&mut self, state: ClassicState, now: WallTime) {
        self.previous_state = self.state;
        self.state = state;
        self.state_since = now;
    }

    /// Whether a member with these protocols goes with all others (Kafka's `supportsProtocols`).
    pub(super) fn supports(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.state == ClassicState::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|protocol| self.is_common(&protocol.name))
    }

    fn is_common(&self, protocol: &str) -> bool {
        self.supported.get(protocol).copied().unwrap_or(0) == self.members.len()
    }

    /// The protocol that most members prefer among those that all know. Of several with as many votes, the one that
    /// Java's hash map of votes comes to first, as in Kafka's `selectProtocol`.
    pub(super) fn select_protocol(&self) -> Option<Arc<str>> {
        let mut votes: IndexMap<&Arc<str>, usize, FxBuildHasher> = IndexMap::default();
        for member in self.members.values() {
            let preferred = member.protocols.iter().find(|protocol| self.is_common(&protocol.name));
            if let Some(preferred) = preferred {
                *votes.entry(&preferred.name).or_default() += 1;
            }
        }
        let slots = hash_map_slots(votes.len());
        let winner =
            votes.iter().min_by_key(|(name, count)| (std::cmp::Reverse(**count), hash_map_slot(name, slots)));
        winner.map(|(name, _)| Arc::clone(name))
    }

    /// Reads what the members of a generation subscribe to (Kafka's `computeSubscribedTopics`).
    pub(super) fn note_subscribed_topics(&mut self) {
        self.subscribed_topics = None;
        if !self.uses_consumer_protocol() {
            return;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            let Some(protocol) = self.protocol.as_deref() else { return };
            let Some(subscribed) = subscription::topics(&member.metadata(protocol)) else { return };
            topics.extend(subscribed.into_iter().map(String::into_boxed_str));
        }
        self.subscribed_topics = Some(topics);
    }

    /// Whether its members are consumers, whose subscriptions can be read.
    pub(super) fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type.as_deref() == Some("consumer")
    }

    /// Whether a member subscribes to a topic; if subscriptions should be readable but are not, it is assumed.
    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        let topics = self.subscribed_topics.as_ref();
        topics.map_or(self.uses_consumer_protocol(), |topics| topics.contains(topic))
    }

    pub(super) fn rebalance_timeout_ms(&self) -> i32 {
        self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0)
    }

    pub(super) fn awaiting_join(&self) -> usize {
        self.joins_waiting
    }

    /// How many members have joined, of how many.
    pub fn joined_of(&self) -> (usize, usize) {
        (self.awaiting_join(), self.members.len() + self.pending_members.len())
    }

    /// How many members have synced, of how many.
    pub fn synced_of(&self) -> (usize, usize) {
        (self.members.len() - self.pending_sync.len(), self.members.len())
    }

    pub(super) fn all_joined(&self) -> bool {
        self.pending_members.is_empty() && self.joins_waiting == self.members.len()
    }

    pub(super) fn insert(&mut self, member: ClassicMember) {
        if self.leader.is_none() {
            self.leader = Some(member.id.clone());
        }
        if let Some(instance_id) = &member.instance_id {
            self.static_members.insert(instance_id.clone(), member.id.clone());
        }
        self.pending_members.remove(&member.id);
        self.count(&member);
        self.members.insert(member.id.clone(), member);
    }

    fn count(&mut self, member: &ClassicMember) {
        self.joins_waiting += usize::from(member.awaiting_join.is_some());
        for protocol in &member.protocols {
            *self.supported.entry(protocol.name.clone()).or_default() += 1;
        }
    }

    fn discount(&mut self, member: &ClassicMember) {
        self.joins_waiting -= usize::from(member.awaiting_join.is_some());
        for protocol in &member.protocols {
            if let Some(count) = self.supported.get_mut(&protocol.name) {
                *count -= 1;
                if *count == 0 {
                    self.supported.remove(&protocol.name);
                }
            }
        }
    }

    /// Changes a member, whose place stays though its id may change. None if there is no such member.
    pub(super) fn change(
        &mut self,
        id: &str,
        change: impl FnOnce(&mut ClassicMember),
    ) -> Option<&mut ClassicMember> {
        let (place, _, mut member) = self.members.swap_remove_full(id)?;
        self.discount(&member);
        change(&mut member);
        self.count(&member);
        // The last one has taken the place; this one goes to the end, and both change places.
        let (last, _) = self.members.insert_full(member.id.clone(), member);
        self.members.swap_indices(place, last);
        self.members.get_index_mut(place).map(|(_, member)| member)
    }

    /// Takes out those who fail a test, all at once.
    pub(super) fn take_unless(&mut self, stays: impl Fn(&ClassicMember) -> bool) -> Vec<ClassicMember> {
        let (staying, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.members).into_values().partition(|member| stays(member));
        self.members = staying.into_iter().map(|member| (member.id.clone(), member)).collect();
        gone.iter().for_each(|member| self.note_taken(member));
        gone
    }

    pub(super) fn take(&mut self, id: &str) -> Option<ClassicMember> {
        let member = self.members.shift_remove(id)?;
        self.note_taken(&member);
        Some(member)
    }

    fn note_taken(&mut self, member: &ClassicMember) {
        self.discount(member);
        if let Some(instance_id) = &member.instance_id
            && self.static_members.get(instance_id).is_some_and(|holder| *holder == member.id)
        {
            self.static_members.remove(instance_id);
        }
        self.pending_sync.remove(&member.id);
        if self.is_leader(&member.id) {
            self.leader = self.members.keys().next().cloned();
        }
    }

    /// Whether these are an id, and an instance id, of the group (Kafka's `validateMember`).
    ///
    /// # Errors
    /// FENCED_INSTANCE_ID if the instance has another member id by now; UNKNOWN_MEMBER_ID.
    pub(super) fn check_member(&self, id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(holder) if **holder != *id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    /// As [`check_member`](Self::check_member), and of this generation.
    ///
    /// # Errors
    /// COORDINATOR_NOT_AVAILABLE from a dead group, ILLEGAL_GENERATION from another generation.
    pub(super) fn check_generation(
        &self,
        id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        if self.state == ClassicState::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        self.check_member(id, instance_id)?;
        if generation == self.generation { Ok(()) } else { Err(ErrorCode::IllegalGeneration) }
    }
}

/// How many slots Java's `HashMap` has for this many entries that came one by one.
fn hash_map_slots(entries: usize) -> u32 {
    let mut slots = 16_u32;
    while entries > slots as usize * 3 / 4 {
        slots *= 2;
    }
    slots
}

/// The slot of a string in Java's `HashMap`.
fn hash_map_slot(text: &str, slots: u32) -> u32 {
    let hash = java_hash(text) as u32;
    (hash ^ (hash >> 16)) & (slots - 1)
}
