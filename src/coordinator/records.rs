//! Records of `__consumer_offsets`, encoded as Kafka does (the `coordinator-key` and `coordinator-value` messages of its
//! group coordinator): each key and each value starts with a 16-bit version, which for a key is the type of the record.
//!
//! ```text
//! offset commit  key 1: group string | topic string | partition 4
//!                value 4: offset 8 | leader epoch 4 | metadata compact string | commit timestamp 8 | tags
//!                value 3: offset 8 | leader epoch 4 | metadata string | commit timestamp 8
//!                value 1: offset 8 | metadata string | commit timestamp 8 | expire timestamp 8
//! classic group  key 2: group string
//!                value 3: protocol type string | generation 4 | protocol string? | leader string?
//!                         | state timestamp 8 | member count 4 | members…
//!                member: id string | instance string? | client id string | host string | rebalance timeout 4
//!                        | session timeout 4 | subscription bytes | assignment bytes
//! ```
//! Strings have 16-bit lengths, bytes 32-bit ones, −1 for null; a compact string has its length plus 1 as a varint, and
//! tags are a varint count of (number, length, bytes). A null value deletes what the key names. Written are value 4, value 1
//! where an old client says how long an offset is kept, and a group's value 3, as Apache Kafka 4.1 does.

pub mod consumer_groups;

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::runtime::StateRecord;
use consumer_groups::ConsumerRecord;

/// A record of `__consumer_offsets`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// An offset was committed, or (without a value) deleted.
    Offset {
        /// The group.
        group: Arc<str>,
        /// The topic's name.
        topic: Arc<str>,
        /// The partition.
        index: i32,
        /// The offset.
        value: Option<CommittedOffset>,
    },
    /// A classic group has a new generation, or (without a value) is gone.
    ClassicGroup {
        /// The group.
        group: Arc<str>,
        /// The generation.
        value: Option<ClassicGroupValue>,
    },
    /// Something of a group of the consumer protocol (KIP-848).
    Consumer(ConsumerRecord),
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next offset to read.
    pub offset: i64,
    /// The epoch of the last record that was read, −1 for none.
    pub leader_epoch: i32,
    /// The client's own words.
    pub metadata: Arc<str>,
    /// When it was committed, ms.
    pub commit_timestamp_ms: i64,
    /// When it expires by the word of an old client, ms.
    pub expire_timestamp_ms: Option<i64>,
}

/// A generation of a classic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicGroupValue {
    /// `consumer`, `connect` or whatever the members say.
    pub protocol_type: Arc<str>,
    /// Counts rebalances.
    pub generation: i32,
    /// The protocol (assignor) that was chosen.
    pub protocol: Option<Arc<str>>,
    /// The leader's member id.
    pub leader: Option<Arc<str>>,
    /// When the state last changed, ms.
    pub state_timestamp_ms: i64,
    /// The members.
    pub members: Vec<ClassicMemberValue>,
}

/// A member of a generation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassicMemberValue {
    /// Given by the coordinator.
    pub member_id: Arc<str>,
    /// `group.instance.id` (KIP-345).
    pub instance_id: Option<Arc<str>>,
    /// The client's name for itself.
    pub client_id: Arc<str>,
    /// The client's address, with a slash before it.
    pub client_host: Arc<str>,
    /// How long a rebalance waits for the member, ms.
    pub rebalance_timeout_ms: i32,
    /// How long the member may be silent, ms.
    pub session_timeout_ms: i32,
    /// What it subscribes to, in its own encoding.
    pub subscription: Bytes,
    /// What the leader has given it, in its own encoding.
    pub assignment: Bytes,
}

const OFFSET_COMMIT: i16 = 1;
const CLASSIC_GROUP: i16 = 2;
/// The first version of an offset's value with tags.
const FLEXIBLE_OFFSET: i16 = 4;

impl StateRecord for Record {
    fn encode(&self) -> (Bytes, Option<Bytes>) {
        let mut key = BytesMut::new();
        match self {
            Record::Offset { group, topic, index, value } => {
                key.put_i16(OFFSET_COMMIT);
                put_string(&mut key, group);
                put_string(&mut key, topic);
                key.put_i32(*index);
                (key.freeze(), value.as_ref().map(CommittedOffset::encode))
            }
            Record::ClassicGroup { group, value } => {
                key.put_i16(CLASSIC_GROUP);
                put_string(&mut key, group);
                (key.freeze(), value.as_ref().map(ClassicGroupValue::encode))
            }
            Record::Consumer(record) => record.encode(),
        }
    }

    fn key_bytes(&self) -> usize {
        /// Of the record around it.
        const OVERHEAD: usize = 32;
        match self {
            Record::Offset { group, topic, .. } => OVERHEAD + group.len() + topic.len(),
            Record::ClassicGroup { group, .. } => OVERHEAD + group.len(),
            Record::Consumer(record) => OVERHEAD + record.key_bytes(),
        }
    }

    fn decode(key: &[u8], value: Option<&[u8]>) -> Option<Record> {
        let mut key = key;
        match key.try_get_i16().ok()? {
            // Version 0 of an offset's key is the same as version 1.
            0 | OFFSET_COMMIT => Some(Record::Offset {
                group: take_string(&mut key)?,
                topic: take_string(&mut key)?,
                index: key.try_get_i32().ok()?,
                value: value.map(CommittedOffset::decode).map_or(Some(None), |value| value.map(Some))?,
            }),
            CLASSIC_GROUP => Some(Record::ClassicGroup {
                group: take_string(&mut key)?,
                value: value.map(ClassicGroupValue::decode).map_or(Some(None), |value| value.map(Some))?,
            }),
            kind => ConsumerRecord::decode(kind, &mut key, value).map(Record::Consumer),
        }
    }
}

impl CommittedOffset {
    fn encode(&self) -> Bytes {
        let mut value = BytesMut::new();
        if let Some(expire_timestamp_ms) = self.expire_timestamp_ms {
            value.put_i16(1);
            value.put_i64(self.offset);
            put_string(&mut value, &self.metadata);
            value.put_i64(self.commit_timestamp_ms);
            value.put_i64(expire_timestamp_ms);
        } else {
            value.put_i16(FLEXIBLE_OFFSET);
            value.put_i64(self.offset);
            value.put_i32(self.leader_epoch);
            put_varint(&mut value, self.metadata.len() as u32 + 1);
            value.put_slice(self.metadata.as_bytes());
            value.put_i64(self.commit_timestamp_ms);
            put_varint(&mut value, 0);
        }
        value.freeze()
    }

    fn decode(mut value: &[u8]) -> Option<Self> {
        let version = value.try_get_i16().ok()?;
        let offset = value.try_get_i64().ok()?;
        let leader_epoch = if version >= 3 { value.try_get_i32().ok()? } else { -1 };
        let metadata = if version >= FLEXIBLE_OFFSET {
            let length = take_varint(&mut value)?.checked_sub(1)?;
            take_text(&mut value, length as usize)?
        } else {
            take_string(&mut value)?
        };
        let commit_timestamp_ms = value.try_get_i64().ok()?;
        let expire = if version == 1 { value.try_get_i64().ok()? } else { -1 };
        if version >= FLEXIBLE_OFFSET {
            skip_tags(&mut value)?;
        }
        Some(CommittedOffset {
            offset,
            leader_epoch,
            metadata,
            commit_timestamp_ms,
            expire_timestamp_ms: (expire >= 0).then_some(expire),
        })
    }
}

impl ClassicGroupValue {
    fn encode(&self) -> Bytes {
        let mut value = BytesMut::new();
        value.put_i16(3);
        put_string(&mut value, &self.protocol_type);
        value.put_i32(self.generation);
        put_nullable(&mut value, self.protocol.as_deref());
        put_nullable(&mut value, self.leader.as_deref());
        value.put_i64(self.state_timestamp_ms);
        value.put_i32(self.members.len() as i32);
        for member in &self.members {
            put_string(&mut value, &member.member_id);
            put_nullable(&mut value, member.instance_id.as_deref());
            put_string(&mut value, &member.client_id);
            put_string(&mut value, &member.client_host);
            value.put_i32(member.rebalance_timeout_ms);
            value.put_i32(member.session_timeout_ms);
            put_bytes(&mut value, &member.subscription);
            put_bytes(&mut value, &member.assignment);
        }
        value.freeze()
    }

    fn decode(mut value: &[u8]) -> Option<Self> {
        let value = &mut value;
        let version = value.try_get_i16().ok()?;
        let protocol_type = take_string(value)?;
        let generation = value.try_get_i32().ok()?;
        let protocol = take_nullable(value)?;
        let leader = take_nullable(value)?;
        let state_timestamp_ms = if version >= 2 { value.try_get_i64().ok()? } else { -1 };
        let count = value.try_get_i32().ok()?;
        let mut members = Vec::new();
        for _ in 0..count {
            let member_id = take_string(value)?;
            let instance_id = if version >= 3 { take_nullable(value)? } else { None };
            let client_id = take_string(value)?;
            let client_host = take_string(value)?;
            let rebalance_timeout_ms = if version >= 1 { value.try_get_i32().ok()? } else { -1 };
            let session_timeout_ms = value.try_get_i32().ok()?;
            members.push(ClassicMemberValue {
                member_id,
                instance_id,
                client_id,
                client_host,
                rebalance_timeout_ms: if version >= 1 { rebalance_timeout_ms } else { session_timeout_ms },
                session_timeout_ms,
                subscription: take_bytes(value)?,
                assignment: take_bytes(value)?,
            });
        }
        Some(ClassicGroupValue { protocol_type, generation, protocol, leader, state_timestamp_ms, members })
    }
}

pub(super) fn put_string(buffer: &mut BytesMut, text: &str) {
    // Every string here came in with a 16-bit length, or is shorter by far.
    buffer.put_u16(text.len() as u16);
    buffer.put_slice(text.as_bytes());
}

fn put_nullable(buffer: &mut BytesMut, text: Option<&str>) {
    match text {
        Some(text) => put_string(buffer, text),
        None => buffer.put_i16(-1),
    }
}

fn put_bytes(buffer: &mut BytesMut, bytes: &[u8]) {
    buffer.put_i32(bytes.len() as i32);
    buffer.put_slice(bytes);
}

pub(super) fn take_string(bytes: &mut &[u8]) -> Option<Arc<str>> {
    take_nullable(bytes)?
}

/// A string that may be null; none if there is none to be read.
#[expect(clippy::option_option, reason = "a null string is not a missing one")]
fn take_nullable(bytes: &mut &[u8]) -> Option<Option<Arc<str>>> {
    let length = bytes.try_get_i16().ok()?;
    if length < 0 {
        return Some(None);
    }
    take_text(bytes, length as usize).map(Some)
}

pub(super) fn take_text(bytes: &mut &[u8], length: usize) -> Option<Arc<str>> {
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(std::str::from_utf8(text).ok()?.into())
}

pub(super) fn put_varint(buffer: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        buffer.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.put_u8(value as u8);
}

pub(super) fn take_varint(bytes: &mut &[u8]) -> Option<u32> {
    let mut value = 0_u32;
    for shift in (0..35).step_by(7) {
        let byte = bytes.try_get_u8().ok()?;
        value |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

/// Passes over tags: none of those that there are (a topic's id) is needed.
fn skip_tags(bytes: &mut &[u8]) -> Option<()> {
    for _ in 0..take_varint(bytes)? {
        let _number = take_varint(bytes)?;
        let length = take_varint(bytes)? as usize;
        *bytes = bytes.get(length..)?;
    }
    Some(())
}

fn take_bytes(bytes: &mut &[u8]) -> Option<Bytes> {
    let length = usize::try_from(bytes.try_get_i32().ok()?).ok()?;
    let (content, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(Bytes::copy_from_slice(content))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(record: &Record) {
        let (key, value) = record.encode();
        assert_eq!(Record::decode(&key, value.as_deref()).as_ref(), Some(record));
        for cut in 0..key.len() {
            assert_eq!(Record::decode(&key[..cut], value.as_deref()), None, "a key cut at {cut}");
        }
        for cut in 0..value.as_ref().map_or(0, Bytes::len) {
            let cut = value.as_ref().map(|value| &value[..cut]);
            assert_eq!(Record::decode(&key, cut), None);
        }
    }

    #[test]
    fn an_offset_may_carry_tags_and_come_in_an_old_version() {
        let offset = |metadata: &str| CommittedOffset {
            offset: 5,
            leader_epoch: -1,
            metadata: metadata.into(),
            commit_timestamp_ms: 7,
            expire_timestamp_ms: None,
        };
        let mut tagged = offset("m").encode().to_vec();
        tagged.pop();
        tagged.extend([1, 0, 3, 1, 2, 3]);
        assert_eq!(CommittedOffset::decode(&tagged), Some(offset("m")));
        tagged.pop();
        assert_eq!(CommittedOffset::decode(&tagged), None, "a tag that is cut");
        let old = [0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 1, b'm', 0, 0, 0, 0, 0, 0, 0, 7];
        assert_eq!(CommittedOffset::decode(&old), Some(offset("m")), "version 0");
        let long = "m".repeat(300);
        assert_eq!(CommittedOffset::decode(&offset(&long).encode()), Some(offset(&long)));
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let offset = CommittedOffset {
            offset: 5,
            leader_epoch: 2,
            metadata: "m".into(),
            commit_timestamp_ms: 7,
            expire_timestamp_ms: None,
        };
        let of = |value| Record::Offset { group: "g".into(), topic: "t".into(), index: 3, value };
        round_trip(&of(Some(offset.clone())));
        round_trip(&of(Some(CommittedOffset { leader_epoch: -1, expire_timestamp_ms: Some(9), ..offset })));
        round_trip(&of(None));
        let member = ClassicMemberValue {
            member_id: "a-1".into(),
            instance_id: Some("i".into()),
            client_id: "a".into(),
            client_host: "/127.0.0.1".into(),
            rebalance_timeout_ms: 6,
            session_timeout_ms: 7,
            subscription: Bytes::from_static(b"sub"),
            assignment: Bytes::new(),
        };
        let value = ClassicGroupValue {
            protocol_type: "consumer".into(),
            generation: 4,
            protocol: Some("range".into()),
            leader: None,
            state_timestamp_ms: 8,
            members: vec![member],
        };
        round_trip(&Record::ClassicGroup { group: "g".into(), value: Some(value) });
        round_trip(&Record::ClassicGroup { group: "g".into(), value: None });
    }
}
