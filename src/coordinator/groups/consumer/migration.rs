//! A classic group of consumers becomes a group of the consumer protocol when the first member of that comes, and a classic
//! one again when the last has gone, while it works (KIP-848, `group.consumer.migration.policy`).

use std::sync::Arc;

use super::classic_members::{by_id, by_name};
use super::{ConsumerGroup, ConsumerMember, GroupError};
use crate::base::{ErrorCode, WallTime};
use crate::controller::Controller;
use crate::controller::configs::BrokerSettings;
use crate::coordinator::groups::classic::{ClassicGroup, ClassicMember, ClassicState, Protocol};
use crate::coordinator::records::Record;
use crate::coordinator::records::consumer_groups::{
    ClassicMetadata, Content, CurrentAssignment, GroupEpoch, MemberMetadata, MemberState, Partitions,
};
use crate::coordinator::subscription::{Assignment, Subscription};

/// Which ways a group may go (`group.consumer.migration.policy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::coordinator) struct MigrationPolicy {
    pub(super) upgrade: bool,
    pub(super) downgrade: bool,
}

impl MigrationPolicy {
    pub(super) fn new(settings: &BrokerSettings) -> Self {
        let policy = settings.consumer_groups.migration_policy.as_deref().unwrap_or("disabled");
        let is =
            |name: &str| policy.eq_ignore_ascii_case(name) || policy.eq_ignore_ascii_case("bidirectional");
        MigrationPolicy { upgrade: is("upgrade"), downgrade: is("downgrade") }
    }
}

impl ConsumerGroup {
    /// The group that a classic one becomes, and the records that make it so.
    ///
    /// # Errors
    /// GROUP_ID_NOT_FOUND if the group can't, or must not, become one.
    pub(in crate::coordinator::groups) fn from_classic(
        classic: &ClassicGroup,
        controller: &Controller,
    ) -> Result<(Self, Vec<Record>), GroupError> {
        let refused = |why: &str| {
            let message = format!("Classic group {} can't become a consumer group: {why}.", classic.id);
            GroupError::new(ErrorCode::GroupIdNotFound, message)
        };
        let settings = controller.settings();
        if !MigrationPolicy::new(settings).upgrade {
            return Err(refused("group.consumer.migration.policy doesn't allow it"));
        }
        if !classic.uses_consumer_protocol() {
            return Err(refused("its members are no consumers"));
        }
        if classic.members.len() > settings.consumer_groups.max_size {
            return Err(refused("it has more members than group.consumer.max.size allows"));
        }
        let mut members = Vec::new();
        for member in classic.members.values() {
            members.push((member.id.clone(), upgraded(classic, member, controller).map_err(refused)?));
        }
        let mut group = ConsumerGroup::new(classic.id.clone());
        let mut contents = Vec::new();
        for (id, (metadata, _)) in &members {
            contents.push(Content::Member(id.clone(), Some(metadata.clone())));
        }
        contents.iter().for_each(|content| {
            group.apply(content);
        });
        let metadata_hash = group.topic_hashes.of_all(&group.subscribed_topics, controller);
        let epoch = GroupEpoch { epoch: classic.generation, metadata_hash };
        contents.push(Content::Group(Some(epoch)));
        for (id, (_, current)) in &members {
            contents.push(Content::Target(id.clone(), Some(current.assigned.clone())));
        }
        contents.push(Content::TargetEpoch(Some(classic.generation)));
        contents.extend(members.into_iter().map(|(id, (_, current))| Content::Current(id, Some(current))));
        let mut records = vec![Record::ClassicGroup { group: classic.id.clone(), value: None }];
        for content in contents {
            group.apply(&content);
            records.push(group.record(content));
        }
        Ok((group, records))
    }

    /// Whether the group becomes a classic one once these members have gone.
    pub(in crate::coordinator::groups) fn is_classic_without(
        &self,
        gone: &[ConsumerMember],
        controller: &Controller,
    ) -> bool {
        let left = self.members.len() - gone.len();
        let classic = self.classic_members - gone.iter().filter(|member| member.is_classic()).count();
        left > 0 && left == classic && may_be_classic(left, controller)
    }

    /// Whether the group becomes a classic one once somebody of the classic protocol has taken the place of a member.
    pub(in crate::coordinator::groups) fn is_classic_with(
        &self,
        instance_id: Option<&Arc<str>>,
        controller: &Controller,
    ) -> bool {
        instance_id.and_then(|id| self.static_member(id)).is_some_and(|replaced| {
            !replaced.is_classic()
                && self.classic_members == self.members.len() - 1
                && may_be_classic(self.members.len(), controller)
        })
    }

    /// The classic group that this one becomes, and the records that make it so. `joining`, if anybody, takes the place of
    /// the member with its instance id.
    pub(in crate::coordinator::groups) fn to_classic(
        &self,
        gone: &[ConsumerMember],
        joining: Option<&ConsumerMember>,
        controller: &Controller,
        now: WallTime,
    ) -> (ClassicGroup, Vec<Record>) {
        let instance_id = joining.and_then(|joining| joining.metadata.instance_id.as_deref());
        let replaced = instance_id.and_then(|id| self.static_members.get(id));
        let mut classic = ClassicGroup::new(self.id.clone(), now);
        classic.state = ClassicState::Stable;
        classic.generation = joining.map_or(self.epoch, |joining| self.epoch.max(joining.current.epoch));
        classic.protocol_type = Some(Arc::from("consumer"));
        let stays = |member: &&ConsumerMember| {
            Some(&member.id) != replaced && gone.iter().all(|gone| gone.id != member.id)
        };
        for member in self.members.values().filter(stays).chain(joining) {
            classic.insert(downgraded(member));
        }
        classic.protocol = classic.select_protocol();
        classic.note_subscribed_topics();
        let protocol = classic.protocol.clone().unwrap_or_default();
        let none = Partitions::new();
        for member in classic.members.values_mut() {
            let is_joining = joining.is_some_and(|joining| joining.id == member.id);
            let holder = if is_joining { replaced.unwrap_or(&member.id) } else { &member.id };
            let version = Subscription::decode(&member.metadata(&protocol));
            let version = version.map_or(0, |subscription| subscription.version);
            let target = self.targets.get(holder).unwrap_or(&none);
            member.assignment = by_name(target, controller).encode(version);
        }
        let mut records = self.tombstones_of(|id| match (joining, replaced) {
            (Some(joining), Some(replaced)) if replaced == id => joining.id.clone(),
            _ => id.clone(),
        });
        let value = classic.to_value(|member| member.assignment.clone());
        records.push(Record::ClassicGroup { group: self.id.clone(), value: Some(value) });
        (classic, records)
    }
}

fn may_be_classic(members: usize, controller: &Controller) -> bool {
    let settings = controller.settings();
    MigrationPolicy::new(settings).downgrade && members <= settings.groups.group_max_size
}

/// What a member of a classic group says and has, or why that can't be known.
fn upgraded(
    group: &ClassicGroup,
    member: &ClassicMember,
    controller: &Controller,
) -> Result<(MemberMetadata, CurrentAssignment), &'static str> {
    const MALFORMED: &str = "what its members say can't be read";
    let assigned = if member.assignment.is_empty() {
        Partitions::new()
    } else {
        let assignment = Assignment::decode(&member.assignment).ok_or(MALFORMED)?;
        if assignment.has_user_data {
            return Err("it uses an assignor of its own, whose data would be lost");
        }
        by_id(&assignment.partitions, controller)
    };
    // Before the first generation there is no common protocol yet.
    let protocol = group.protocol.as_ref().or_else(|| member.protocols.first().map(|first| &first.name));
    let subscription = member.metadata(protocol.map_or("", |protocol| protocol));
    let subscription = Subscription::decode(&subscription).ok_or(MALFORMED)?;
    let protocols =
        member.protocols.iter().map(|protocol| (protocol.name.clone(), protocol.metadata.clone()));
    let metadata = MemberMetadata {
        instance_id: member.instance_id.clone(),
        rack_id: Some(subscription.rack_id.as_str().into()).filter(|rack: &Arc<str>| !rack.is_empty()),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        subscribed_topics: subscription.topics.iter().map(|topic| topic.as_str().into()).collect(),
        subscribed_regex: Arc::from(""),
        rebalance_timeout_ms: member.rebalance_timeout_ms,
        server_assignor: None,
        classic: Some(ClassicMetadata {
            session_timeout_ms: member.session_timeout_ms,
            protocols: protocols.collect(),
        }),
    };
    let current = CurrentAssignment {
        epoch: group.generation,
        previous_epoch: group.generation,
        state: MemberState::Stable,
        assigned,
        pending_revocation: Partitions::new(),
    };
    Ok((metadata, current))
}

fn downgraded(member: &ConsumerMember) -> ClassicMember {
    let classic = member.metadata.classic.as_ref();
    let protocols = classic.into_iter().flat_map(|classic| &classic.protocols);
    let protocols =
        protocols.map(|(name, metadata)| Protocol { name: name.clone(), metadata: metadata.clone() });
    ClassicMember {
        id: member.id.clone(),
        instance_id: member.metadata.instance_id.clone(),
        client_id: member.metadata.client_id.clone(),
        client_host: member.metadata.client_host.clone(),
        rebalance_timeout_ms: member.metadata.rebalance_timeout_ms,
        session_timeout_ms: classic.map_or(0, |classic| classic.session_timeout_ms),
        protocols: protocols.collect(),
        assignment: bytes::Bytes::new(),
        awaiting_join: None,
        awaiting_sync: None,
        is_new: false,
    }
}
