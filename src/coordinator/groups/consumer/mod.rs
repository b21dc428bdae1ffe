//! A group of the consumer protocol (KIP-848): Kafka's `ConsumerGroup`.
//!
//! The coordinator itself assigns. Three epochs say how far that is:
//!
//! | epoch | moves when |
//! |---|---|
//! | of the group | a member comes or goes, a subscription changes, a subscribed topic changes |
//! | of the target | an assignor has computed who is to have what in this epoch of the group |
//! | of a member | the member has given up what the target takes from it |
//!
//! A heartbeat moves all three as far as it can. It changes nothing itself: it leads to records, and
//! `ConsumerGroup::apply` alone changes the group. What few fields are not in the log say so.
//!
//! This file has the group as data; `heartbeat.rs` decides what members of the protocol ask, `classic_members.rs` what those
//! of the classic protocol do, `reconciliation.rs` moves a member towards its target, `target.rs` and `assignors/` compute
//! targets, `topics.rs` and `regexes.rs` look at the topics, `migration.rs` turns a classic group into one of these and back.

mod assignors;
mod classic_members;
mod heartbeat;
mod migration;
mod reconciliation;
mod regexes;
mod shares;
mod target;
#[cfg(test)]
mod tests;
mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::base::{ErrorCode, TopicId};
use crate::controller::{Controller, Feature};
use crate::coordinator::records::Record;
use crate::coordinator::records::consumer_groups::{
    ConsumerRecord, Content, CurrentAssignment, MemberMetadata, MemberState, Partitions, ResolvedRegex,
};
use regexes::Resolving;
use shares::Shares;
use target::UniformTarget;
use topics::TopicHashes;

pub(super) use classic_members::ClassicJoin;
pub use heartbeat::{Heartbeat, HeartbeatReply};
pub(in crate::coordinator) use target::assignor_names;

/// The epoch of a member that leaves.
pub const LEAVE_EPOCH: i32 = -1;
/// The epoch of a static member that leaves and will be back.
pub const LEAVE_FOR_A_WHILE_EPOCH: i32 = -2;

/// Why a request of a member is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct GroupError {
    /// Kafka's code.
    pub code: ErrorCode,
    /// For people.
    pub message: String,
}

impl GroupError {
    /// A refusal with a reason.
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        GroupError { code, message: message.into() }
    }
}

/// Whether members may speak the consumer protocol: `group.version` and `group.coordinator.rebalance.protocols` say so.
pub fn is_protocol_enabled(controller: &Controller) -> bool {
    let protocols = &controller.settings().groups.group_coordinator_rebalance_protocols;
    controller.features().level(Feature::Group) >= 1
        && protocols.iter().any(|protocol| protocol == "consumer")
}

impl From<ErrorCode> for GroupError {
    fn from(code: ErrorCode) -> Self {
        GroupError { code, message: code.name().to_owned() }
    }
}

impl From<GroupError> for ErrorCode {
    fn from(error: GroupError) -> Self {
        error.code
    }
}

/// What a group is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumerGroupState {
    /// Nobody is in it.
    Empty,
    /// The target is older than the group's epoch.
    Assigning,
    /// A member has not reached its target.
    Reconciling,
    /// Everybody has.
    Stable,
}

impl ConsumerGroupState {
    /// Kafka's name for the state.
    pub const fn name(self) -> &'static str {
        match self {
            ConsumerGroupState::Empty => "Empty",
            ConsumerGroupState::Assigning => "Assigning",
            ConsumerGroupState::Reconciling => "Reconciling",
            ConsumerGroupState::Stable => "Stable",
        }
    }
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerMember {
    /// Made by the member itself, or (of old clients) by the coordinator.
    pub id: Arc<str>,
    /// What it says of itself.
    pub metadata: MemberMetadata,
    /// What it has.
    pub current: CurrentAssignment,
}

impl ConsumerMember {
    fn new(id: Arc<str>) -> Self {
        let current = CurrentAssignment {
            epoch: 0,
            previous_epoch: -1,
            state: MemberState::Stable,
            assigned: Partitions::new(),
            pending_revocation: Partitions::new(),
        };
        let metadata = MemberMetadata { rebalance_timeout_ms: -1, ..MemberMetadata::default() };
        ConsumerMember { id, metadata, current }
    }

    /// Whether it speaks the classic protocol.
    pub fn is_classic(&self) -> bool {
        self.metadata.classic.is_some()
    }

    /// The regular expression that it subscribes by.
    fn regex(&self) -> Option<&Arc<str>> {
        Some(&self.metadata.subscribed_regex).filter(|regex| !regex.is_empty())
    }

    fn has_reached(&self, target_epoch: i32) -> bool {
        self.current.state == MemberState::Stable && self.current.epoch == target_epoch
    }
}

/// How many subscribe to a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Subscribers {
    /// Members, by its name.
    by_name: usize,
    /// Regular expressions.
    by_regex: usize,
}

/// The topics that are subscribed to.
type SubscribedTopics = BTreeMap<Arc<str>, Subscribers>;

/// A group of the consumer protocol.
#[derive(Clone, Debug)]
pub struct ConsumerGroup {
    /// Its name.
    pub id: Arc<str>,
    epoch: i32,
    metadata_hash: i64,
    target_epoch: i32,
    members: BTreeMap<Arc<str>, ConsumerMember>,
    /// Member ids by instance id.
    static_members: BTreeMap<Arc<str>, Arc<str>>,
    /// What each member is to have.
    targets: BTreeMap<Arc<str>, Partitions>,
    /// Who has a partition, or has yet to give it up.
    owners: FxHashMap<(TopicId, i32), Arc<str>>,
    subscribed_topics: SubscribedTopics,
    /// How many members subscribe by each regular expression.
    subscribed_regexes: BTreeMap<Arc<str>, usize>,
    resolved_regexes: BTreeMap<Arc<str>, ResolvedRegex>,
    /// How many members prefer each assignor.
    server_assignors: BTreeMap<Arc<str>, usize>,
    classic_members: usize,
    /// How many members of the classic protocol know each of its protocols.
    classic_protocols: BTreeMap<Arc<str>, usize>,
    /// Not in the log: classic members that have been told to join again, and until they do may be expelled.
    told_to_join: BTreeSet<Arc<str>>,
    /// Not in the log: the version of the topics that the metadata hash was computed from, and the group's epoch that
    /// this led to. Where that epoch never came to be, the topics must be looked at again.
    topics_seen: Option<(u64, i32)>,
    /// Not in the log: hashes of subscribed topics, which are dear.
    topic_hashes: TopicHashes,
    /// Not in the log: the sizes of the members' targets.
    shares: Shares,
    /// Not in the log: what the last target was computed from, if all shared alike in it.
    uniform_target: Option<UniformTarget>,
    /// Not in the log: regular expressions that are being resolved.
    resolving: Option<Resolving>,
}

impl ConsumerGroup {
    /// A group without members.
    pub(super) fn new(id: Arc<str>) -> Self {
        ConsumerGroup {
            id,
            epoch: 0,
            metadata_hash: 0,
            target_epoch: 0,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            targets: BTreeMap::new(),
            owners: FxHashMap::default(),
            subscribed_topics: BTreeMap::new(),
            subscribed_regexes: BTreeMap::new(),
            resolved_regexes: BTreeMap::new(),
            server_assignors: BTreeMap::new(),
            classic_members: 0,
            classic_protocols: BTreeMap::new(),
            told_to_join: BTreeSet::new(),
            topics_seen: None,
            topic_hashes: TopicHashes::default(),
            shares: Shares::default(),
            uniform_target: None,
            resolving: None,
        }
    }

    /// Counts changes of members, subscriptions and topics.
    pub fn epoch(&self) -> i32 {
        self.epoch
    }

    /// The epoch that the targets were computed in.
    pub fn target_epoch(&self) -> i32 {
        self.target_epoch
    }

    /// What it is at.
    pub fn state(&self) -> ConsumerGroupState {
        if self.members.is_empty() {
            ConsumerGroupState::Empty
        } else if self.epoch > self.target_epoch {
            ConsumerGroupState::Assigning
        } else if self.members.values().all(|member| member.has_reached(self.target_epoch)) {
            ConsumerGroupState::Stable
        } else {
            ConsumerGroupState::Reconciling
        }
    }

    /// Its members, by id.
    pub fn members(&self) -> impl Iterator<Item = &ConsumerMember> {
        self.members.values()
    }

    /// The member of this id.
    pub fn member(&self, id: &str) -> Option<&ConsumerMember> {
        self.members.get(id)
    }

    /// Whether nobody is in it.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// What a member is to have.
    pub fn target(&self, member: &str) -> Option<&Partitions> {
        self.targets.get(member)
    }

    /// The assignor that most members prefer; none if no member says which.
    pub fn preferred_assignor(&self) -> Option<&Arc<str>> {
        preferred(&self.server_assignors)
    }

    /// Whether a member subscribes to a topic, by its name or a regular expression.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscribed_topics.contains_key(topic)
    }

    fn known_member(&self, id: &str) -> Result<&ConsumerMember, GroupError> {
        self.members.get(id).ok_or_else(|| {
            let message = format!("Member {id} is not in group {}.", self.id);
            GroupError::new(ErrorCode::UnknownMemberId, message)
        })
    }

    fn static_member(&self, instance_id: &str) -> Option<&ConsumerMember> {
        self.members.get(self.static_members.get(instance_id)?)
    }

    /// The holder of an instance id, who must have this member id.
    fn known_static_member(&self, instance_id: &str, id: &str) -> Result<&ConsumerMember, GroupError> {
        let Some(holder) = self.static_member(instance_id) else {
            let message = format!("Nobody in group {} has instance id {instance_id}.", self.id);
            return Err(GroupError::new(ErrorCode::UnknownMemberId, message));
        };
        if *holder.id != *id {
            let message = format!("Instance id {instance_id} belongs to member {} by now.", holder.id);
            return Err(GroupError::new(ErrorCode::FencedInstanceId, message));
        }
        Ok(holder)
    }

    /// Whether a member may commit offsets (`ConsumerGroup.validateOffsetCommit`).
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID; UNSUPPORTED_VERSION for a member of the new protocol before v9; STALE_MEMBER_EPOCH, or of a
    /// member of the classic protocol ILLEGAL_GENERATION, if the epoch isn't the member's.
    pub(super) fn check_commit(
        &self,
        member_id: &str,
        epoch: i32,
        tells_member_epochs: bool,
    ) -> Result<(), ErrorCode> {
        if epoch < 0 && self.members.is_empty() {
            // Nobody is a member: whoever assigns partitions by hand commits like this.
            return Ok(());
        }
        let member = self.members.get(member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if !member.is_classic() && !tells_member_epochs {
            return Err(ErrorCode::UnsupportedVersion);
        }
        check_epoch(member, epoch)
    }

    /// Whether somebody may fetch offsets (`ConsumerGroup.validateOffsetFetch`).
    ///
    /// # Errors
    /// As `check_commit` for a member that says who it is; nobody has to.
    pub fn check_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        if member_id.is_none() && epoch < 0 {
            return Ok(());
        }
        let member = member_id.and_then(|id| self.members.get(id)).ok_or(ErrorCode::UnknownMemberId)?;
        check_epoch(member, epoch)
    }

    /// The end of everything that the log has of the group.
    pub(super) fn tombstones(&self) -> Vec<Record> {
        self.tombstones_of(|member| member.clone())
    }

    /// As [`tombstones`](Self::tombstones), where a member may go by another id in the log by then.
    fn tombstones_of(&self, id: impl Fn(&Arc<str>) -> Arc<str>) -> Vec<Record> {
        let mut contents = Vec::new();
        contents.extend(self.members.keys().map(|member| Content::Current(id(member), None)));
        contents.extend(self.members.keys().map(|member| Content::Target(id(member), None)));
        contents.push(Content::TargetEpoch(None));
        contents.extend(self.members.keys().map(|member| Content::Member(id(member), None)));
        contents.extend(self.resolved_regexes.keys().map(|regex| Content::Regex(regex.clone(), None)));
        contents.push(Content::NoSubscribedTopics);
        contents.push(Content::Group(None));
        contents.into_iter().map(|content| self.record(content)).collect()
    }

    fn record(&self, content: Content) -> Record {
        Record::Consumer(ConsumerRecord::new(&self.id, content))
    }

    /// Takes on what a record says. Whether the group is still there.
    pub(super) fn apply(&mut self, content: &Content) -> bool {
        match content {
            Content::Group(Some(value)) => {
                self.epoch = value.epoch;
                self.metadata_hash = value.metadata_hash;
            }
            Content::Group(None) => return false,
            Content::NoSubscribedTopics => {}
            Content::Member(id, Some(metadata)) => {
                let metadata = metadata.clone();
                self.update(id, |member| member.metadata = metadata);
            }
            Content::Member(id, None) => {
                self.shares.remove(id);
                self.remove(id);
            }
            Content::TargetEpoch(epoch) => self.target_epoch = epoch.unwrap_or(-1),
            Content::Target(id, Some(partitions)) => {
                self.shares.resize(id, Some(target::count(partitions)));
                self.targets.insert(id.clone(), partitions.clone());
            }
            Content::Target(id, None) => {
                self.shares.resize(id, None);
                self.targets.remove(id);
            }
            Content::Current(id, Some(current)) => {
                let current = current.clone();
                self.update(id, |member| member.current = current);
            }
            Content::Current(id, None) if self.members.contains_key(id) => self.update(id, |member| {
                member.current = CurrentAssignment {
                    epoch: LEAVE_EPOCH,
                    previous_epoch: LEAVE_EPOCH,
                    state: member.current.state,
                    assigned: Partitions::new(),
                    pending_revocation: Partitions::new(),
                };
            }),
            Content::Current(_, None) => {}
            Content::Regex(regex, value) => self.set_resolved_regex(regex, value.clone()),
        }
        true
    }

    fn update(&mut self, id: &Arc<str>, change: impl FnOnce(&mut ConsumerMember)) {
        let member = self.remove(id);
        if member.is_none() {
            self.shares.set(id, self.targets.get(id).map(target::count));
        }
        let mut member = member.unwrap_or_else(|| ConsumerMember::new(id.clone()));
        change(&mut member);
        self.insert(member);
    }

    fn insert(&mut self, member: ConsumerMember) {
        for topic in &member.metadata.subscribed_topics {
            self.subscribed_topics.entry(topic.clone()).or_default().by_name += 1;
        }
        if let Some(regex) = member.regex() {
            *self.subscribed_regexes.entry(regex.clone()).or_default() += 1;
        }
        if let Some(assignor) = &member.metadata.server_assignor {
            *self.server_assignors.entry(assignor.clone()).or_default() += 1;
        }
        if let Some(classic) = &member.metadata.classic {
            self.classic_members += 1;
            for (protocol, _) in &classic.protocols {
                *self.classic_protocols.entry(protocol.clone()).or_default() += 1;
            }
        }
        if let Some(instance_id) = &member.metadata.instance_id {
            self.static_members.insert(instance_id.clone(), member.id.clone());
        }
        for partition in held(&member) {
            self.owners.insert(partition, member.id.clone());
        }
        self.members.insert(member.id.clone(), member);
    }

    fn remove(&mut self, id: &str) -> Option<ConsumerMember> {
        let member = self.members.remove(id)?;
        for topic in &member.metadata.subscribed_topics {
            forget_subscribers(&mut self.subscribed_topics, topic, |count| count.by_name -= 1);
        }
        if let Some(regex) = member.regex() {
            count_down(&mut self.subscribed_regexes, regex);
        }
        if let Some(assignor) = &member.metadata.server_assignor {
            count_down(&mut self.server_assignors, assignor);
        }
        if let Some(classic) = &member.metadata.classic {
            self.classic_members -= 1;
            for (protocol, _) in &classic.protocols {
                count_down(&mut self.classic_protocols, protocol);
            }
        }
        if let Some(instance_id) = &member.metadata.instance_id
            && self.static_members.get(instance_id) == Some(&member.id)
        {
            self.static_members.remove(instance_id);
        }
        for partition in held(&member) {
            if self.owners.get(&partition) == Some(&member.id) {
                self.owners.remove(&partition);
            }
        }
        Some(member)
    }

    fn set_resolved_regex(&mut self, regex: &Arc<str>, value: Option<ResolvedRegex>) {
        if let Some(old) = self.resolved_regexes.remove(regex) {
            for topic in &old.topics {
                forget_subscribers(&mut self.subscribed_topics, topic, |count| count.by_regex -= 1);
            }
        }
        let Some(value) = value else { return };
        for topic in &value.topics {
            self.subscribed_topics.entry(topic.clone()).or_default().by_regex += 1;
        }
        self.resolved_regexes.insert(regex.clone(), value);
    }
}

/// What a member has, and what it has yet to give up.
fn held(member: &ConsumerMember) -> impl Iterator<Item = (TopicId, i32)> {
    let CurrentAssignment { assigned, pending_revocation, .. } = &member.current;
    let of = |(topic, partitions): (&TopicId, &BTreeSet<i32>)| {
        let topic = *topic;
        partitions.iter().map(move |partition| (topic, *partition)).collect::<Vec<_>>()
    };
    assigned.iter().chain(pending_revocation).flat_map(of)
}

/// Members of the classic protocol know their epoch as the generation.
fn check_epoch(member: &ConsumerMember, epoch: i32) -> Result<(), ErrorCode> {
    if epoch == member.current.epoch {
        Ok(())
    } else if member.is_classic() {
        Err(ErrorCode::IllegalGeneration)
    } else {
        Err(ErrorCode::StaleMemberEpoch)
    }
}

fn count_down(counts: &mut BTreeMap<Arc<str>, usize>, of: &str) {
    if let Some(count) = counts.get_mut(of) {
        *count -= 1;
        if *count == 0 {
            counts.remove(of);
        }
    }
}

fn forget_subscribers(topics: &mut SubscribedTopics, topic: &str, forget: impl FnOnce(&mut Subscribers)) {
    let Some(count) = topics.get_mut(topic) else { return };
    forget(count);
    if *count == Subscribers::default() {
        topics.remove(topic);
    }
}

/// The one with the highest count; of several, the first by name.
fn preferred(counts: &BTreeMap<Arc<str>, usize>) -> Option<&Arc<str>> {
    counts.iter().max_by_key(|(name, count)| (**count, std::cmp::Reverse(*name))).map(|(name, _)| name)
}
