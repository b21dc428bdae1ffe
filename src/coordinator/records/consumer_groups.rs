//! The records of `__consumer_offsets` about groups of the consumer protocol (KIP-848).
//!
//! ```text
//! group epoch        key 3: group                value 0: epoch 4 | tags (0: metadata hash 8, unless 0)
//! topics, as they
//! were before 4.1    key 4: group                deleted alone is written, as Apache Kafka 4.1 does
//! member             key 5: group | member       value 0: instance string? | rack string? | client id string
//!                                                  | host string | topics [string] | regex string?
//!                                                  | rebalance timeout 4 | assignor string?
//!                                                  | tags (0: classic member)
//!                    classic member: 0, or 1 | session timeout 4 | protocols [name string | metadata bytes | tags] | tags
//! target epoch       key 6: group                value 0: epoch 4 | tags
//! member's target    key 7: group | member       value 0: [topic id 16 | partitions [4] | tags] | tags
//! member's present   key 8: group | member       value 0: epoch 4 | previous epoch 4 | state 1
//!                                                  | assigned [topics] | to be revoked [topics] | tags
//! regex              key 16: group | regex       value 0: topics [string] | version 8 | timestamp 8 | tags
//! ```
//! In keys, strings have 16-bit lengths; in values, strings, bytes and arrays are compact: their length plus 1 as a varint,
//! 0 for null.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::{put_string, put_varint, skip_tags, take_string, take_text, take_varint};
use crate::base::TopicId;

/// Partitions by their topic. No topic is without partitions.
pub type Partitions = BTreeMap<TopicId, BTreeSet<i32>>;

/// A record about a group of the consumer protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerRecord {
    /// The group.
    pub group: Arc<str>,
    /// What of it.
    pub content: Content,
}

/// What a record says; without a value, that this is no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The group's epoch.
    Group(Option<GroupEpoch>),
    /// The subscribed topics as brokers before 4.1 wrote them; they are deleted along with a group.
    NoSubscribedTopics,
    /// What a member says of itself.
    Member(Arc<str>, Option<MemberMetadata>),
    /// The epoch of the target assignment.
    TargetEpoch(Option<i32>),
    /// What a member is to have.
    Target(Arc<str>, Option<Partitions>),
    /// What a member has.
    Current(Arc<str>, Option<CurrentAssignment>),
    /// The topics that a regular expression matches.
    Regex(Arc<str>, Option<ResolvedRegex>),
}

/// The epoch of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupEpoch {
    /// Counts changes of members, subscriptions and topics.
    pub epoch: i32,
    /// Stands for all that is known of the subscribed topics; 0 for none.
    pub metadata_hash: i64,
}

/// What a member says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemberMetadata {
    /// `group.instance.id`.
    pub instance_id: Option<Arc<str>>,
    /// `client.rack`.
    pub rack_id: Option<Arc<str>>,
    /// The client's name for itself.
    pub client_id: Arc<str>,
    /// The client's address, with a slash before it.
    pub client_host: Arc<str>,
    /// The topics that it subscribes to by name.
    pub subscribed_topics: BTreeSet<Arc<str>>,
    /// The regular expression that it subscribes by; empty for none.
    pub subscribed_regex: Arc<str>,
    /// How long it may take to give up partitions, ms.
    pub rebalance_timeout_ms: i32,
    /// The assignor that it prefers.
    pub server_assignor: Option<Arc<str>>,
    /// What it said when it joined by the classic protocol, if it did.
    pub classic: Option<ClassicMetadata>,
}

/// What a member of the classic protocol has said in its JoinGroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicMetadata {
    /// How long it may be silent, ms.
    pub session_timeout_ms: i32,
    /// Its protocols, in the order of preference: name and subscription.
    pub protocols: Vec<(Arc<str>, Bytes)>,
}

/// How far a member is towards its target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemberState {
    /// It has what it is to have.
    #[default]
    Stable,
    /// It has yet to give up partitions.
    UnrevokedPartitions,
    /// It waits for partitions that others have yet to give up.
    UnreleasedPartitions,
    /// A state of a later version.
    Unknown,
}

impl MemberState {
    const fn number(self) -> i8 {
        match self {
            MemberState::Stable => 0,
            MemberState::UnrevokedPartitions => 1,
            MemberState::UnreleasedPartitions => 2,
            MemberState::Unknown => 127,
        }
    }

    const fn from_number(number: i8) -> Self {
        match number {
            0 => MemberState::Stable,
            1 => MemberState::UnrevokedPartitions,
            2 => MemberState::UnreleasedPartitions,
            _ => MemberState::Unknown,
        }
    }
}

/// What a member has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentAssignment {
    /// The member's epoch; −2 while a static member is away.
    pub epoch: i32,
    /// The epoch before.
    pub previous_epoch: i32,
    /// How far it is.
    pub state: MemberState,
    /// What it may use.
    pub assigned: Partitions,
    /// What it has yet to give up.
    pub pending_revocation: Partitions,
}

/// The topics that a regular expression matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedRegex {
    /// Their names.
    pub topics: BTreeSet<Arc<str>>,
    /// The version of the topics that were looked through.
    pub version: i64,
    /// When, ms.
    pub timestamp_ms: i64,
}

const GROUP: i16 = 3;
const SUBSCRIBED_TOPICS: i16 = 4;
const MEMBER: i16 = 5;
const TARGET_EPOCH: i16 = 6;
const TARGET: i16 = 7;
const CURRENT: i16 = 8;
const REGEX: i16 = 16;

impl ConsumerRecord {
    /// The record that says this of a group.
    pub fn new(group: &Arc<str>, content: Content) -> Self {
        ConsumerRecord { group: group.clone(), content }
    }

    /// Key and value as they go into the log.
    pub fn encode(&self) -> (Bytes, Option<Bytes>) {
        let mut key = BytesMut::new();
        let (kind, rest) = match &self.content {
            Content::Group(_) => (GROUP, None),
            Content::NoSubscribedTopics => (SUBSCRIBED_TOPICS, None),
            Content::Member(member, _) => (MEMBER, Some(member)),
            Content::TargetEpoch(_) => (TARGET_EPOCH, None),
            Content::Target(member, _) => (TARGET, Some(member)),
            Content::Current(member, _) => (CURRENT, Some(member)),
            Content::Regex(regex, _) => (REGEX, Some(regex)),
        };
        key.put_i16(kind);
        put_string(&mut key, &self.group);
        if let Some(rest) = rest {
            put_string(&mut key, rest);
        }
        (key.freeze(), self.content.encode_value())
    }

    /// About how much the record's key takes in the log, bytes.
    pub fn key_bytes(&self) -> usize {
        self.group.len()
            + match &self.content {
                Content::Member(name, _)
                | Content::Target(name, _)
                | Content::Current(name, _)
                | Content::Regex(name, _) => name.len(),
                Content::Group(_) | Content::NoSubscribedTopics | Content::TargetEpoch(_) => 0,
            }
    }

    /// Reads a record, whose key's kind has been read; none for other kinds and what is malformed.
    pub(super) fn decode(kind: i16, key: &mut &[u8], value: Option<&[u8]>) -> Option<Self> {
        /// A value that is there must be understood.
        #[expect(clippy::option_option, reason = "a record without a value is not one that can't be read")]
        fn read<T>(value: Option<&[u8]>, read: impl Fn(&mut &[u8]) -> Option<T>) -> Option<Option<T>> {
            let Some(mut value) = value else { return Some(None) };
            let value = &mut value;
            value.try_get_i16().ok()?;
            let content = read(value)?;
            Some(Some(content))
        }
        let group = take_string(key)?;
        let content = match kind {
            GROUP => Content::Group(read(value, GroupEpoch::decode)?),
            SUBSCRIBED_TOPICS if value.is_none() => Content::NoSubscribedTopics,
            MEMBER => Content::Member(take_string(key)?, read(value, MemberMetadata::decode)?),
            TARGET_EPOCH => Content::TargetEpoch(read(value, |value| {
                let epoch = value.try_get_i32().ok()?;
                skip_tags(value).map(|()| epoch)
            })?),
            TARGET => Content::Target(
                take_string(key)?,
                read(value, |value| {
                    let partitions = take_partitions(value)?;
                    skip_tags(value).map(|()| partitions)
                })?,
            ),
            CURRENT => Content::Current(take_string(key)?, read(value, CurrentAssignment::decode)?),
            REGEX => Content::Regex(take_string(key)?, read(value, ResolvedRegex::decode)?),
            _ => return None,
        };
        Some(ConsumerRecord { group, content })
    }
}

impl Content {
    /// Whether it says that something is no more.
    pub fn is_tombstone(&self) -> bool {
        match self {
            Content::Group(value) => value.is_none(),
            Content::NoSubscribedTopics => true,
            Content::Member(_, value) => value.is_none(),
            Content::TargetEpoch(value) => value.is_none(),
            Content::Target(_, value) => value.is_none(),
            Content::Current(_, value) => value.is_none(),
            Content::Regex(_, value) => value.is_none(),
        }
    }

    fn encode_value(&self) -> Option<Bytes> {
        let mut buffer = BytesMut::new();
        // The version of every one of these values.
        buffer.put_i16(0);
        match self {
            Content::Group(value) => value.as_ref()?.encode(&mut buffer),
            Content::NoSubscribedTopics => return None,
            Content::Member(_, value) => value.as_ref()?.encode(&mut buffer),
            Content::TargetEpoch(value) => {
                buffer.put_i32((*value)?);
                put_varint(&mut buffer, 0);
            }
            Content::Target(_, value) => {
                put_partitions(&mut buffer, value.as_ref()?);
                put_varint(&mut buffer, 0);
            }
            Content::Current(_, value) => value.as_ref()?.encode(&mut buffer),
            Content::Regex(_, value) => value.as_ref()?.encode(&mut buffer),
        }
        Some(buffer.freeze())
    }
}

impl GroupEpoch {
    fn encode(&self, buffer: &mut BytesMut) {
        buffer.put_i32(self.epoch);
        if self.metadata_hash == 0 {
            put_varint(buffer, 0);
        } else {
            // One tag, number 0, of eight bytes.
            buffer.put_slice(&[1, 0, 8]);
            buffer.put_i64(self.metadata_hash);
        }
    }

    fn decode(value: &mut &[u8]) -> Option<Self> {
        let epoch = value.try_get_i32().ok()?;
        let mut metadata_hash = 0;
        take_tags(value, |mut tag| {
            metadata_hash = tag.try_get_i64().ok()?;
            Some(())
        })?;
        Some(GroupEpoch { epoch, metadata_hash })
    }
}

impl MemberMetadata {
    fn encode(&self, buffer: &mut BytesMut) {
        put_compact_nullable(buffer, self.instance_id.as_deref());
        put_compact_nullable(buffer, self.rack_id.as_deref());
        put_compact(buffer, self.client_id.as_bytes());
        put_compact(buffer, self.client_host.as_bytes());
        put_names(buffer, &self.subscribed_topics);
        put_compact(buffer, self.subscribed_regex.as_bytes());
        buffer.put_i32(self.rebalance_timeout_ms);
        put_compact_nullable(buffer, self.server_assignor.as_deref());
        // Null, 0 before it, stands in the tag too, since null is not what a missing tag means.
        let mut tag = BytesMut::new();
        put_varint(&mut tag, u32::from(self.classic.is_some()));
        self.classic.iter().for_each(|classic| classic.encode(&mut tag));
        buffer.put_slice(&[1, 0]);
        put_varint(buffer, tag.len() as u32);
        buffer.put_slice(&tag);
    }

    fn decode(value: &mut &[u8]) -> Option<Self> {
        let mut member = MemberMetadata {
            instance_id: take_compact_nullable(value)?,
            rack_id: take_compact_nullable(value)?,
            client_id: take_compact_string(value)?,
            client_host: take_compact_string(value)?,
            subscribed_topics: take_names(value)?,
            subscribed_regex: take_compact_nullable(value)?.unwrap_or_default(),
            rebalance_timeout_ms: value.try_get_i32().ok()?,
            server_assignor: take_compact_nullable(value)?,
            classic: None,
        };
        take_tags(value, |mut tag| {
            let there_is_one = take_varint(&mut tag)? != 0;
            member.classic = if there_is_one { Some(ClassicMetadata::decode(&mut tag)?) } else { None };
            Some(())
        })?;
        Some(member)
    }
}

impl ClassicMetadata {
    fn encode(&self, buffer: &mut BytesMut) {
        buffer.put_i32(self.session_timeout_ms);
        put_varint(buffer, self.protocols.len() as u32 + 1);
        for (name, metadata) in &self.protocols {
            put_compact(buffer, name.as_bytes());
            put_compact(buffer, metadata);
            put_varint(buffer, 0);
        }
        put_varint(buffer, 0);
    }

    fn decode(value: &mut &[u8]) -> Option<Self> {
        let session_timeout_ms = value.try_get_i32().ok()?;
        let mut protocols = Vec::new();
        for _ in 1..take_varint(value)?.max(1) {
            let name = take_compact_string(value)?;
            let length = take_varint(value)?.checked_sub(1)? as usize;
            let (metadata, rest) = value.split_at_checked(length)?;
            *value = rest;
            protocols.push((name, Bytes::copy_from_slice(metadata)));
            skip_tags(value)?;
        }
        skip_tags(value)?;
        Some(ClassicMetadata { session_timeout_ms, protocols })
    }
}

impl CurrentAssignment {
    fn encode(&self, buffer: &mut BytesMut) {
        buffer.put_i32(self.epoch);
        buffer.put_i32(self.previous_epoch);
        buffer.put_i8(self.state.number());
        put_partitions(buffer, &self.assigned);
        put_partitions(buffer, &self.pending_revocation);
        put_varint(buffer, 0);
    }

    fn decode(value: &mut &[u8]) -> Option<Self> {
        let current = CurrentAssignment {
            epoch: value.try_get_i32().ok()?,
            previous_epoch: value.try_get_i32().ok()?,
            state: MemberState::from_number(value.try_get_i8().ok()?),
            assigned: take_partitions(value)?,
            pending_revocation: take_partitions(value)?,
        };
        skip_tags(value).map(|()| current)
    }
}

impl ResolvedRegex {
    fn encode(&self, buffer: &mut BytesMut) {
        put_names(buffer, &self.topics);
        buffer.put_i64(self.version);
        buffer.put_i64(self.timestamp_ms);
        put_varint(buffer, 0);
    }

    fn decode(value: &mut &[u8]) -> Option<Self> {
        let regex = ResolvedRegex {
            topics: take_names(value)?,
            version: value.try_get_i64().ok()?,
            timestamp_ms: value.try_get_i64().ok()?,
        };
        skip_tags(value).map(|()| regex)
    }
}

fn put_compact(buffer: &mut BytesMut, bytes: &[u8]) {
    put_varint(buffer, bytes.len() as u32 + 1);
    buffer.put_slice(bytes);
}

fn put_compact_nullable(buffer: &mut BytesMut, text: Option<&str>) {
    match text {
        Some(text) => put_compact(buffer, text.as_bytes()),
        None => put_varint(buffer, 0),
    }
}

fn put_names(buffer: &mut BytesMut, names: &BTreeSet<Arc<str>>) {
    put_varint(buffer, names.len() as u32 + 1);
    names.iter().for_each(|name| put_compact(buffer, name.as_bytes()));
}

fn put_partitions(buffer: &mut BytesMut, partitions: &Partitions) {
    put_varint(buffer, partitions.len() as u32 + 1);
    for (topic, partitions) in partitions {
        buffer.put_u128(topic.0);
        put_varint(buffer, partitions.len() as u32 + 1);
        partitions.iter().for_each(|partition| buffer.put_i32(*partition));
        put_varint(buffer, 0);
    }
}

#[expect(clippy::option_option, reason = "a null string is not a missing one")]
fn take_compact_nullable(value: &mut &[u8]) -> Option<Option<Arc<str>>> {
    match take_varint(value)?.checked_sub(1) {
        None => Some(None),
        Some(length) => take_text(value, length as usize).map(Some),
    }
}

fn take_compact_string(value: &mut &[u8]) -> Option<Arc<str>> {
    take_compact_nullable(value)?
}

fn take_names(value: &mut &[u8]) -> Option<BTreeSet<Arc<str>>> {
    (1..take_varint(value)?.max(1)).map(|_| take_compact_string(value)).collect()
}

fn take_partitions(value: &mut &[u8]) -> Option<Partitions> {
    let mut topics = Partitions::new();
    for _ in 1..take_varint(value)?.max(1) {
        let topic = TopicId(value.try_get_u128().ok()?);
        let count = take_varint(value)?.max(1);
        let partitions: Option<BTreeSet<i32>> = (1..count).map(|_| value.try_get_i32().ok()).collect();
        skip_tags(value)?;
        topics.entry(topic).or_default().extend(partitions?);
    }
    topics.retain(|_, partitions| !partitions.is_empty());
    Some(topics)
}

/// Reads tags, of which number 0 is of interest.
fn take_tags(value: &mut &[u8], mut first: impl FnMut(&[u8]) -> Option<()>) -> Option<()> {
    for _ in 0..take_varint(value)? {
        let number = take_varint(value)?;
        let length = take_varint(value)? as usize;
        let (content, rest) = value.split_at_checked(length)?;
        *value = rest;
        if number == 0 {
            first(content)?;
        }
    }
    Some(())
}
