//! Committed offsets (Kafka's `OffsetMetadataManager`): who may commit, what is kept, and for how long.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::classic::{ClassicGroup, ClassicState};
use super::protocols::once_committed;
use super::{Effects, Group, GroupReply, Groups, OnCommit, Write};
use crate::base::planted::{Bug, is_planted};
use crate::base::{ErrorCode, WallTime};
use crate::coordinator::records::{CommittedOffset, Record};
use crate::coordinator::{InTransaction, Ticket};

/// An OffsetCommit request.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// Empty if no member commits.
    pub member_id: Arc<str>,
    /// `group.instance.id`.
    pub instance_id: Option<Arc<str>>,
    /// Negative if no member commits.
    pub generation: i32,
    /// Whether the request knows of member epochs (v9+, KIP-848), and so members of the consumer protocol may commit; also,
    /// a group that isn't there is group.id()_NOT_FOUND rather than ILLEGAL_GENERATION.
    pub knows_member_epochs: bool,
    /// How long the offsets are kept by the word of an old client (v2 to v4), ms.
    pub retention_ms: Option<i64>,
    /// What is committed.
    pub partitions: Vec<CommitPartition>,
    /// The transaction that it is part of, if it is (TxnOffsetCommit).
    pub transaction: Option<InTransaction>,
}

/// One offset to commit.
#[derive(Clone, Debug)]
pub struct CommitPartition {
    /// The topic.
    pub topic: Arc<str>,
    /// The partition.
    pub index: i32,
    /// The next offset to read.
    pub offset: i64,
    /// −1 for none.
    pub leader_epoch: i32,
    /// The client's own words.
    pub metadata: Arc<str>,
}

/// What one group has committed, by topic and partition.
#[derive(Clone, Debug, Default)]
pub struct GroupOffsets {
    by_topic: BTreeMap<Arc<str>, BTreeMap<i32, CommittedOffset>>,
}

impl GroupOffsets {
    /// The offset of a partition.
    pub fn offset(&self, topic: &str, index: i32) -> Option<&CommittedOffset> {
        self.by_topic.get(topic)?.get(&index)
    }

    /// All offsets.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, i32, &CommittedOffset)> {
        self.by_topic
            .iter()
            .flat_map(|(topic, offsets)| offsets.iter().map(move |(index, offset)| (topic, *index, offset)))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_topic.is_empty()
    }

    /// The partitions of a topic that have an offset.
    pub(super) fn partitions_of(&self, topic: &str) -> impl Iterator<Item = i32> + use<'_> {
        self.by_topic.get(topic).into_iter().flat_map(|offsets| offsets.keys().copied())
    }

    /// Returns whether it is the first of its topic.
    pub(super) fn set(&mut self, topic: &Arc<str>, index: i32, offset: CommittedOffset) -> bool {
        if let Some(offsets) = self.by_topic.get_mut(topic) {
            offsets.insert(index, offset);
            return false;
        }
        self.by_topic.entry(topic.clone()).or_default().insert(index, offset);
        true
    }

    /// Returns whether it was the last of its topic.
    pub(super) fn remove(&mut self, topic: &str, index: i32) -> bool {
        let Some(offsets) = self.by_topic.get_mut(topic) else { return false };
        offsets.remove(&index);
        let was_last = offsets.is_empty();
        if was_last {
            self.by_topic.remove(topic);
        }
        was_last
    }

    pub(super) fn tombstones(&self, group: &Arc<str>) -> Vec<Record> {
        self.iter().map(|(topic, index, _)| tombstone(group, topic, index)).collect()
    }
}

pub(super) fn tombstone(group: &Arc<str>, topic: &Arc<str>, index: i32) -> Record {
    Record::Offset { group: group.clone(), topic: topic.clone(), index, value: None }
}

impl ClassicGroup {
    /// Whether who asks may commit (Kafka's `ClassicGroup.validateOffsetCommit`).
    fn check_commit(&self, commit: &Commit) -> Result<(), ErrorCode> {
        if self.state == ClassicState::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if commit.generation < 0 && self.state == ClassicState::Empty {
            // Nobody is a member: whoever assigns partitions by hand commits like this.
            return Ok(());
        }
        if commit.generation >= 0 || !commit.member_id.is_empty() || commit.instance_id.is_some() {
            self.check_generation(&commit.member_id, commit.instance_id.as_deref(), commit.generation)?;
        } else if commit.transaction.is_none() && self.state != ClassicState::Empty {
            return Err(ErrorCode::UnknownMemberId);
        }
        if commit.transaction.is_none() && self.state == ClassicState::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }
}

impl Groups {
    /// Commits offsets. Gives the ticket of the write, and the error of each partition that isn't part of it.
    pub(in crate::coordinator) fn commit(
        &mut self,
        id: &Arc<str>,
        commit: Commit,
        effects: &mut Effects<'_>,
    ) -> Result<(Option<Ticket>, Vec<ErrorCode>), ErrorCode> {
        match self.classic.get(id) {
            _ if commit.transaction.is_some() && is_planted(Bug::AdmitsZombies) => {}
            _ if self.consumer.contains_key(id) => {
                let group = &self.consumer[id];
                let is_nobodys =
                    commit.member_id.is_empty() && commit.generation == -1 && commit.instance_id.is_none();
                let knows_epochs = commit.knows_member_epochs || commit.transaction.is_some();
                let checked = group.check_commit(&commit.member_id, commit.generation, knows_epochs);
                match (checked, commit.transaction) {
                    (_, Some(_)) if is_nobodys => {}
                    // What a client that commits in a transaction knows.
                    (Err(ErrorCode::StaleMemberEpoch), Some(_)) => return Err(ErrorCode::IllegalGeneration),
                    (checked, _) => checked?,
                }
            }
            Some(group) => {
                group.check_commit(&commit)?;
                if matches!(group.state, ClassicState::Stable | ClassicState::PreparingRebalance) {
                    group.note_alive(&commit.member_id, effects);
                }
            }
            None if commit.generation < 0 => {}
            None if commit.knows_member_epochs => return Err(ErrorCode::GroupIdNotFound),
            None => return Err(ErrorCode::IllegalGeneration),
        }
        let now_ms = effects.now.wall.as_millis();
        let mut records = Vec::with_capacity(commit.partitions.len());
        let mut errors = Vec::with_capacity(commit.partitions.len());
        for partition in commit.partitions {
            if partition.metadata.len() > effects.settings.offset_metadata_max_bytes {
                errors.push(ErrorCode::OffsetMetadataTooLarge);
                continue;
            }
            errors.push(ErrorCode::None);
            let value = CommittedOffset {
                offset: partition.offset,
                leader_epoch: partition.leader_epoch,
                metadata: partition.metadata,
                commit_timestamp_ms: now_ms,
                expire_timestamp_ms: commit.retention_ms.map(|kept_ms| now_ms.saturating_add(kept_ms)),
            };
            let (group, topic) = (id.clone(), partition.topic);
            records.push(Record::Offset { group, topic, index: partition.index, value: Some(value) });
        }
        let Some(transaction) = commit.transaction.filter(|_| !records.is_empty()) else {
            return Ok((once_committed(records, effects), errors));
        };
        let ticket = effects.ticket();
        let write = Write { records, then: OnCommit::Answer(ticket, GroupReply::Written) };
        effects.write_in_transaction(write, transaction);
        Ok((Some(ticket), errors))
    }

    /// Deletes committed offsets. Gives the ticket of the write, and the error of each partition.
    pub(in crate::coordinator) fn delete_offsets(
        &mut self,
        id: &Arc<str>,
        partitions: &[(Arc<str>, i32)],
        effects: &mut Effects<'_>,
    ) -> Result<(Option<Ticket>, Vec<ErrorCode>), ErrorCode> {
        let group = self.group(id).ok_or(ErrorCode::GroupIdNotFound)?;
        if let Group::Classic(group) = group {
            match group.state {
                ClassicState::Dead => return Err(ErrorCode::GroupIdNotFound),
                ClassicState::Empty => {}
                _ if group.uses_consumer_protocol() => {}
                _ => return Err(ErrorCode::NonEmptyGroup),
            }
        }
        let mut records = Vec::new();
        let errors = partitions.iter().map(|(topic, index)| {
            if group.is_subscribed_to(topic) {
                return ErrorCode::GroupSubscribedToTopic;
            }
            let is_committed =
                self.offsets.get(id).is_some_and(|offsets| offsets.offset(topic, *index).is_some());
            if is_committed || self.pending.is_pending(id, topic, *index) {
                records.push(tombstone(id, topic, *index));
            }
            ErrorCode::None
        });
        let errors = errors.collect();
        Ok((once_committed(records, effects), errors))
    }

    /// The end of everything that was committed for a topic.
    pub(in crate::coordinator) fn offsets_of_topic(&self, topic: &str) -> Vec<Record> {
        let mut records = Vec::new();
        for (topic, group, partitions) in self.offsets.of_topic(topic) {
            records.extend(partitions.map(|index| tombstone(group, topic, index)));
        }
        records
    }

    /// Drops offsets that have expired, offsets of deleted topics, and groups that have nothing left.
    pub(super) fn expired(
        &self,
        retention_ms: i64,
        is_topic: impl Fn(&str) -> bool,
        now: WallTime,
    ) -> Vec<Record> {
        let mut records = Vec::new();
        for group in self.iter() {
            let mut kept = self.pending.has_group(group.id());
            for (topic, index, offset) in
                self.offsets.get(group.id()).into_iter().flat_map(|offsets| offsets.iter())
            {
                let subscribed = group.is_subscribed_to(topic);
                let expires_ms = if subscribed { None } else { expires_at(group, offset, retention_ms) };
                let has_expired = expires_ms.is_some_and(|at| at <= now.as_millis());
                let gone =
                    !is_topic(topic) || has_expired && !self.pending.is_pending(group.id(), topic, index);
                if gone {
                    records.push(tombstone(group.id(), topic, index));
                }
                kept |= !gone;
            }
            match group {
                _ if kept => {}
                Group::Classic(group) => {
                    if group.state == ClassicState::Empty && group.pending_members.is_empty() {
                        records.push(Record::ClassicGroup { group: group.id.clone(), value: None });
                    }
                }
                Group::Consumer(group) if group.is_empty() => records.extend(group.tombstones()),
                Group::Consumer(_) => {}
            }
        }
        records
    }
}

/// When an offset that nobody subscribes to expires, ms; none while the group keeps it (Kafka's
/// `ClassicGroup.offsetExpirationCondition`).
fn expires_at(group: Group<'_>, offset: &CommittedOffset, retention_ms: i64) -> Option<i64> {
    let kept_since_ms =
        |since_ms: i64| offset.expire_timestamp_ms.unwrap_or(since_ms.saturating_add(retention_ms));
    let Group::Classic(group) = group else { return Some(kept_since_ms(offset.commit_timestamp_ms)) };
    let since_ms = match (group.state, &group.protocol_type) {
        // Whoever assigns partitions by hand.
        (_, None) => offset.commit_timestamp_ms,
        (ClassicState::Empty, Some(_)) => group.state_since.as_millis(),
        (ClassicState::Stable, Some(_)) if group.subscribed_topics.is_some() => offset.commit_timestamp_ms,
        _ => return None,
    };
    Some(kept_since_ms(since_ms))
}
