//! Records of `__transaction_state`, encoded as Kafka does (`TransactionLogKey` and `TransactionLogValue` of its
//! transaction coordinator).
//!
//! ```text
//! key 0:   transactional id string
//! value 0: producer id 8 | epoch 2 | timeout 4 | state 1 | partitions? | last update 8 | start 8
//! value 1: the same with compact arrays and strings, and tags: 0 previous producer id 8, 1 next producer id 8,
//!          2 version of the client's transactions 2
//! partitions: count, { topic, count, { partition 4 } }; null while the state is Empty
//! ```
//! Key and value begin with their 16-bit version; times are ms. A null value forgets the transactional id. Value 1 is
//! written from `transaction.version` 1 on. Kafka 4.1 writes neither the previous nor the next producer id, so that its next
//! coordinator doesn't know them; here they are written where they are others than the present one.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::state::{Partitions, TransactionState, TransactionValue};
use crate::coordinator::records::{put_string, put_varint, take_string, take_text, take_varint};
use crate::coordinator::runtime::StateRecord;

/// A record of `__transaction_state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionRecord {
    /// The transactional id.
    pub id: Arc<str>,
    /// How its transaction stands; none if the id is forgotten.
    pub value: Option<TransactionValue>,
    /// Whether the value is written in version 1, else 0.
    pub flexible: bool,
}

const PREVIOUS_PRODUCER_ID: u32 = 0;
const NEXT_PRODUCER_ID: u32 = 1;
const CLIENT_VERSION: u32 = 2;

impl StateRecord for TransactionRecord {
    fn encode(&self) -> (Bytes, Option<Bytes>) {
        let mut key = BytesMut::new();
        key.put_i16(0);
        put_string(&mut key, &self.id);
        let value = self.value.as_ref().map(|value| encode(value, self.flexible));
        (key.freeze(), value)
    }

    fn decode(mut key: &[u8], value: Option<&[u8]>) -> Option<Self> {
        if key.try_get_i16().ok()? != 0 {
            return None;
        }
        let id = take_string(&mut key)?;
        let Some(mut value) = value else {
            return Some(TransactionRecord { id, value: None, flexible: true });
        };
        let flexible = match value.try_get_i16().ok()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let value = decode(&mut value, flexible)?;
        Some(TransactionRecord { id, value: Some(value), flexible })
    }

    fn key_bytes(&self) -> usize {
        /// Of the record around it.
        const OVERHEAD: usize = 32;
        OVERHEAD + self.id.len()
    }
}

fn encode(value: &TransactionValue, flexible: bool) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_i16(i16::from(flexible));
    bytes.put_i64(value.producer_id);
    bytes.put_i16(value.epoch);
    bytes.put_i32(value.timeout_ms);
    bytes.put_u8(value.state as u8);
    put_partitions(&mut bytes, value, flexible);
    bytes.put_i64(value.last_update_ms);
    bytes.put_i64(value.start_ms);
    if flexible {
        let mut tags = Vec::new();
        let mut tag = |number, content: &[u8]| tags.push((number, content.to_vec()));
        if ![-1, value.producer_id].contains(&value.previous_producer_id) {
            tag(PREVIOUS_PRODUCER_ID, &value.previous_producer_id.to_be_bytes());
        }
        if value.next_producer_id != -1 {
            tag(NEXT_PRODUCER_ID, &value.next_producer_id.to_be_bytes());
        }
        if value.client_version != 0 {
            tag(CLIENT_VERSION, &value.client_version.to_be_bytes());
        }
        put_varint(&mut bytes, tags.len() as u32);
        for (number, content) in tags {
            put_varint(&mut bytes, number);
            put_varint(&mut bytes, content.len() as u32);
            bytes.put_slice(&content);
        }
    }
    bytes.freeze()
}

fn put_partitions(bytes: &mut BytesMut, value: &TransactionValue, flexible: bool) {
    let put_count = |bytes: &mut BytesMut, count: Option<usize>| match (flexible, count) {
        (true, count) => put_varint(bytes, count.map_or(0, |count| count as u32 + 1)),
        (false, count) => bytes.put_i32(count.map_or(-1, |count| count as i32)),
    };
    if value.state == TransactionState::Empty {
        put_count(bytes, None);
        return;
    }
    let mut topics: IndexMap<&Arc<str>, Vec<i32>, FxBuildHasher> = IndexMap::default();
    for (topic, index) in &value.partitions {
        topics.entry(topic).or_default().push(*index);
    }
    put_count(bytes, Some(topics.len()));
    for (topic, indexes) in topics {
        if flexible {
            put_varint(bytes, topic.len() as u32 + 1);
            bytes.put_slice(topic.as_bytes());
        } else {
            put_string(bytes, topic);
        }
        put_count(bytes, Some(indexes.len()));
        indexes.iter().for_each(|index| bytes.put_i32(*index));
        if flexible {
            put_varint(bytes, 0);
        }
    }
}

fn decode(bytes: &mut &[u8], flexible: bool) -> Option<TransactionValue> {
    let producer_id = bytes.try_get_i64().ok()?;
    let epoch = bytes.try_get_i16().ok()?;
    let timeout_ms = bytes.try_get_i32().ok()?;
    let state = TransactionState::from_id(bytes.try_get_u8().ok()?)?;
    let partitions = take_partitions(bytes, flexible)?;
    let mut value = TransactionValue {
        producer_id,
        previous_producer_id: -1,
        next_producer_id: -1,
        epoch,
        last_epoch: -1,
        timeout_ms,
        state,
        partitions,
        last_update_ms: bytes.try_get_i64().ok()?,
        start_ms: bytes.try_get_i64().ok()?,
        client_version: 0,
    };
    let tags = if flexible { take_varint(bytes)? } else { 0 };
    for _ in 0..tags {
        let number = take_varint(bytes)?;
        let length = take_varint(bytes)? as usize;
        let (mut content, rest) = bytes.split_at_checked(length)?;
        *bytes = rest;
        match number {
            PREVIOUS_PRODUCER_ID => value.previous_producer_id = content.try_get_i64().ok()?,
            NEXT_PRODUCER_ID => value.next_producer_id = content.try_get_i64().ok()?,
            CLIENT_VERSION => value.client_version = content.try_get_i16().ok()?,
            _ => {}
        }
    }
    Some(value)
}

fn take_partitions(bytes: &mut &[u8], flexible: bool) -> Option<Partitions> {
    let take_count = |bytes: &mut &[u8]| match flexible {
        true => take_varint(bytes).map(|count| i64::from(count) - 1),
        false => bytes.try_get_i32().ok().map(i64::from),
    };
    let mut partitions = Partitions::default();
    for _ in 0..take_count(bytes)? {
        let topic = if flexible {
            let length = take_varint(bytes)?.checked_sub(1)?;
            take_text(bytes, length as usize)?
        } else {
            take_string(bytes)?
        };
        for _ in 0..take_count(bytes)? {
            partitions.insert((topic.clone(), bytes.try_get_i32().ok()?));
        }
        if flexible {
            for _ in 0..take_varint(bytes)? {
                let _number = take_varint(bytes)?;
                let length = take_varint(bytes)? as usize;
                *bytes = bytes.get(length..)?;
            }
        }
    }
    Some(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::WallTime;
    use crate::coordinator::runtime::{ShardState, batch, read};
    use crate::coordinator::transactions::Transactions;
    use crate::wire::batch::BatchView;

    /// What Apache Kafka wrote, a batch a line: topic, partition, hexadecimal bytes.
    const FROM_KAFKA: &str = include_str!("../../../fixtures/transactions/batches.txt");

    #[test]
    fn batches_are_byte_for_byte_what_kafka_writes() {
        let mut states = std::collections::BTreeMap::new();
        for line in FROM_KAFKA.lines().filter(|line| line.starts_with("__transaction_state ")) {
            let hex = line.rsplit(' ').next().unwrap();
            let theirs: Vec<u8> = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect();
            let view = BatchView::new(&theirs).unwrap();
            let records: Vec<TransactionRecord> = read(view, &theirs);
            assert_eq!(records.len(), view.count() as usize, "every record is understood: {line}");
            for record in &records {
                *states.entry(record.value.as_ref().map(|value| value.state)).or_insert(0) += 1;
            }
            let ours = batch(&records, Transactions::batch_header(), WallTime(view.max_timestamp()));
            let mut ours = ours.unwrap().to_vec();
            // The log stamps offset and epoch when it appends.
            ours[..8].copy_from_slice(&theirs[..8]);
            ours[12..16].copy_from_slice(&theirs[12..16]);
            assert_eq!(ours, theirs, "{line}");
        }
        assert_eq!(states.len(), 7, "all states but the two that are never written, and the end: {states:?}");
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let value = TransactionValue {
            producer_id: 7,
            previous_producer_id: 5,
            next_producer_id: 9,
            epoch: 3,
            last_epoch: -1,
            timeout_ms: 60_000,
            state: TransactionState::PrepareCommit,
            partitions: [("a", 0), ("b", 1), ("a", 2)]
                .map(|(topic, index)| (topic.into(), index))
                .into_iter()
                .collect(),
            last_update_ms: 11,
            start_ms: 10,
            client_version: 2,
        };
        let round_trip = |value: Option<TransactionValue>, flexible| {
            let record = TransactionRecord { id: "id".into(), value, flexible };
            let (key, bytes) = record.encode();
            assert_eq!(TransactionRecord::decode(&key, bytes.as_deref()), Some(record));
            for cut in 0..bytes.as_ref().map_or(0, Bytes::len) {
                let cut = bytes.as_ref().map(|bytes| &bytes[..cut]);
                assert_eq!(TransactionRecord::decode(&key, cut), None);
            }
        };
        round_trip(Some(value.clone()), true);
        let old = TransactionValue {
            previous_producer_id: -1,
            next_producer_id: -1,
            client_version: 0,
            ..value.clone()
        };
        round_trip(Some(old.clone()), false);
        let empty =
            TransactionValue { state: TransactionState::Empty, partitions: Partitions::default(), ..old };
        round_trip(Some(empty.clone()), false);
        round_trip(Some(empty), true);
        round_trip(None, true);
    }
}
