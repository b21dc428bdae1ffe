//! Members of the classic protocol in a group of the consumer protocol: how a group goes over from one to the other while it
//! works. Such a member's generation is its epoch, and its session timeout its own; nobody leads, for the coordinator
//! assigns.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ConsumerGroup, ConsumerMember, GroupError, Partitions};
use crate::base::ErrorCode;
use crate::controller::Controller;
use crate::coordinator::groups::{Effects, Join, JoinReply, Leaver, Sync, SyncReply, TimerKind};
use crate::coordinator::records::Record;
use crate::coordinator::records::consumer_groups::{ClassicMetadata, MemberState};
use crate::coordinator::subscription::{Assignment, Subscription};

/// The protocol type of consumers.
const CONSUMER: &str = "consumer";

/// What comes of a JoinGroup.
pub(in crate::coordinator::groups) enum ClassicJoin {
    /// The member has to come again under the id that it is told here (KIP-394).
    ToComeAgain(JoinReply),
    /// The member as it is in the group once the records are applied, and what it is told then.
    Joined(Box<ConsumerMember>, JoinReply),
}

impl ConsumerGroup {
    /// A member joins by the classic protocol.
    ///
    /// # Errors
    /// GROUP_MAX_SIZE_REACHED; INCONSISTENT_GROUP_PROTOCOL from a member that is no consumer, that shares no protocol with the
    /// classic members that there are, or whose subscription can't be read; UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    pub(in crate::coordinator::groups) fn join_classic(
        &mut self,
        join: &Join,
        effects: &mut Effects<'_>,
        records: &mut Vec<Record>,
    ) -> Result<ClassicJoin, GroupError> {
        let is_new = join.member_id.is_empty();
        let id = if is_new { effects.new_kafka_uuid() } else { join.member_id.clone() };
        self.check_room(&id, effects.controller)?;
        let Some(first) = join.protocols.first().filter(|_| self.supports(join)) else {
            return Err(ErrorCode::InconsistentGroupProtocol.into());
        };
        if is_new && join.instance_id.is_none() && join.requires_known_id {
            return Ok(ClassicJoin::ToComeAgain(JoinReply::failed(id, ErrorCode::MemberIdRequired)));
        }
        let subscription = Subscription::decode(&first.metadata).ok_or_else(|| {
            let message = format!("The subscription of member {id} can't be read.");
            GroupError::new(ErrorCode::InconsistentGroupProtocol, message)
        })?;
        let member = match join.instance_id.as_deref() {
            Some(instance_id) if !is_new => self.known_static_member(instance_id, &id)?.clone(),
            Some(instance_id) => match self.static_member(instance_id) {
                Some(holder) => self.replace(holder, id, records),
                None => ConsumerMember::new(id),
            },
            None => self.members.get(&id).cloned().unwrap_or_else(|| ConsumerMember::new(id)),
        };
        let mut updated = member.clone();
        update(&mut updated, join, &subscription);
        let is_news = self.note_subscription(&member, &updated, records);
        let owned = by_id(&subscription.owned, effects.controller);
        let updated = self.catch_up(&member, updated, is_news, Some(&owned), effects, records)?;

        self.told_to_join.remove(&updated.id);
        effects.cancel(TimerKind::MemberJoin(updated.id.clone()));
        effects.schedule(TimerKind::Session(updated.id.clone()), join.session_timeout_ms.into());
        effects.schedule(TimerKind::MemberSync(updated.id.clone()), join.rebalance_timeout_ms.into());
        let reply = JoinReply {
            error: ErrorCode::None,
            generation: updated.current.epoch,
            protocol_type: Some(Arc::from(CONSUMER)),
            protocol: Some(first.name.clone()),
            leader: Arc::from(""),
            member_id: updated.id.clone(),
            members: Vec::new(),
            skip_assignment: false,
        };
        Ok(ClassicJoin::Joined(Box::new(updated), reply))
    }

    /// Whether all members of the classic protocol know one of a member's protocols.
    fn supports(&self, join: &Join) -> bool {
        let knowing = |protocol: &str| self.classic_protocols.get(protocol).copied().unwrap_or(0);
        *join.protocol_type == *CONSUMER
            && join.protocols.iter().any(|protocol| knowing(&protocol.name) == self.classic_members)
    }

    /// A member of the classic protocol asks what it has.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL; REBALANCE_IN_PROGRESS if it
    /// has to join again first.
    pub(in crate::coordinator::groups) fn sync_classic(
        &mut self,
        sync: &Sync,
        effects: &mut Effects<'_>,
    ) -> Result<SyncReply, ErrorCode> {
        let (member, classic) =
            self.classic_member(&sync.member_id, sync.instance_id.as_deref(), sync.generation)?;
        let first = classic.protocols.first();
        let differs = |said: &Option<Arc<str>>, is: Option<&str>| said.is_some() && said.as_deref() != is;
        let protocol = first.map(|(name, _)| &**name);
        if differs(&sync.protocol_type, Some(CONSUMER)) || differs(&sync.protocol, protocol) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        if self.epoch > member.current.epoch && member.current.state != MemberState::UnrevokedPartitions {
            let (id, timeout_ms) = (member.id.clone(), member.metadata.rebalance_timeout_ms);
            self.tell_to_join(id, timeout_ms, effects);
            return Err(ErrorCode::RebalanceInProgress);
        }
        effects.cancel(TimerKind::MemberSync(member.id.clone()));
        effects.schedule(TimerKind::Session(member.id.clone()), classic.session_timeout_ms.into());
        let version = first.and_then(|(_, metadata)| Subscription::decode(metadata));
        let version = version.map_or(0, |subscription| subscription.version);
        let assignment = by_name(&member.current.assigned, effects.controller).encode(version);
        Ok(SyncReply {
            protocol_type: sync.protocol_type.clone(),
            protocol: sync.protocol.clone(),
            assignment,
        })
    }

    /// A member of the classic protocol lives.
    ///
    /// # Errors
    /// UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION; REBALANCE_IN_PROGRESS if it has to join again, for which it
    /// then has its rebalance timeout.
    pub(in crate::coordinator::groups) fn heartbeat_classic(
        &mut self,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
        effects: &mut Effects<'_>,
    ) -> Result<(), ErrorCode> {
        let (member, classic) = self.classic_member(member_id, instance_id, generation)?;
        effects.schedule(TimerKind::Session(member.id.clone()), classic.session_timeout_ms.into());
        let must_join = member.current.epoch < self.epoch
            || match member.current.state {
                MemberState::UnrevokedPartitions => true,
                MemberState::UnreleasedPartitions => !self.waits_for_others(member),
                MemberState::Stable | MemberState::Unknown => false,
            };
        if !must_join {
            return Ok(());
        }
        let (id, timeout_ms) = (member.id.clone(), member.metadata.rebalance_timeout_ms);
        self.tell_to_join(id, timeout_ms, effects);
        Err(ErrorCode::RebalanceInProgress)
    }

    /// Sets a member's time to join, unless it runs already.
    fn tell_to_join(&mut self, id: Arc<str>, timeout_ms: i32, effects: &mut Effects<'_>) {
        if self.told_to_join.insert(id.clone()) {
            effects.schedule(TimerKind::MemberJoin(id), timeout_ms.into());
        }
    }

    /// Whether others still have what a member is to have.
    fn waits_for_others(&self, member: &ConsumerMember) -> bool {
        let assigned = &member.current.assigned;
        let target = self.targets.get(&member.id).into_iter().flatten();
        target.into_iter().any(|(topic, partitions)| {
            partitions.iter().any(|partition| {
                let has = assigned.get(topic).is_some_and(|assigned| assigned.contains(partition));
                !has && self.owners.contains_key(&(*topic, *partition))
            })
        })
    }

    fn classic_member(
        &self,
        id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(&ConsumerMember, &ClassicMetadata), ErrorCode> {
        let member = match instance_id {
            None => self.known_member(id)?,
            Some(instance_id) => self.known_static_member(instance_id, id)?,
        };
        let classic = member.metadata.classic.as_ref().ok_or(ErrorCode::UnknownMemberId)?;
        if member.current.epoch != generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        Ok((member, classic))
    }

    /// Who leaves by a LeaveGroup, and an outcome for each that wants to.
    pub(in crate::coordinator::groups) fn leavers(
        &self,
        leavers: &[Leaver],
    ) -> (Vec<ErrorCode>, Vec<ConsumerMember>) {
        let mut gone = BTreeSet::new();
        let outcomes = leavers.iter().map(|leaver| {
            let member = match leaver.instance_id.as_deref() {
                None => self.known_member(&leaver.member_id),
                Some(instance_id) if leaver.member_id.is_empty() => {
                    self.static_member(instance_id).ok_or_else(|| ErrorCode::UnknownMemberId.into())
                }
                Some(instance_id) => self.known_static_member(instance_id, &leaver.member_id),
            };
            match member {
                Ok(member) => {
                    gone.insert(&member.id);
                    ErrorCode::None
                }
                Err(error) => error.code,
            }
        });
        let outcomes = outcomes.collect();
        (outcomes, gone.into_iter().filter_map(|id| self.members.get(id).cloned()).collect())
    }
}

fn update(member: &mut ConsumerMember, join: &Join, subscription: &Subscription) {
    let metadata = &mut member.metadata;
    if join.instance_id.is_some() {
        metadata.instance_id = join.instance_id.clone();
    }
    if !subscription.rack_id.is_empty() {
        metadata.rack_id = Some(subscription.rack_id.as_str().into());
    }
    if join.rebalance_timeout_ms != -1 {
        metadata.rebalance_timeout_ms = join.rebalance_timeout_ms;
    }
    metadata.subscribed_topics = subscription.topics.iter().map(|topic| topic.as_str().into()).collect();
    metadata.client_id = join.client_id.clone();
    metadata.client_host = join.client_host.clone();
    let protocols = join.protocols.iter().map(|protocol| (protocol.name.clone(), protocol.metadata.clone()));
    metadata.classic =
        Some(ClassicMetadata { session_timeout_ms: join.session_timeout_ms, protocols: protocols.collect() });
}

/// Partitions by their topics' ids, as far as there are such topics.
pub(super) fn by_id(partitions: &[(String, Vec<i32>)], controller: &Controller) -> Partitions {
    let mut by_id = Partitions::new();
    for (name, partitions) in partitions.iter().filter(|(_, partitions)| !partitions.is_empty()) {
        if let Some(topic) = controller.topics().by_name(name) {
            by_id.entry(topic.id).or_default().extend(partitions);
        }
    }
    by_id
}

/// Partitions by their topics' names, as far as there are such topics.
pub(super) fn by_name(partitions: &Partitions, controller: &Controller) -> Assignment {
    let named = partitions.iter().filter_map(|(topic, partitions)| {
        let topic = controller.topics().by_id(*topic)?;
        Some((topic.name.to_string(), partitions.iter().copied().collect()))
    });
    Assignment { partitions: named.collect(), has_user_data: false }
}
