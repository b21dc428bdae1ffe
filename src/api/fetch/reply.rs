//! The Fetch response, encoded by hand for one reason: record bytes leave as they lie in the log, without a copy.
//! A test holds it equal to the codec's encoding, version by version.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::api::Endpoint;
use crate::api::encode::{EncodeError, Frame, Response};
use crate::base::{ErrorCode, NodeId, TopicId};

/// First version with compact lengths and tagged fields.
const FLEXIBLE: i16 = 12;
/// First version that names topics by id.
const TOPIC_IDS: i16 = 13;

/// A Fetch response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FetchReply {
    /// Of the whole request: about its session (v7+).
    pub(crate) error: ErrorCode,
    /// 0 if there is none (v7+).
    pub(crate) session_id: i32,
    pub(crate) topics: Vec<TopicReply>,
    /// Where to reach leaders that partitions name (v16+).
    pub(crate) endpoints: Vec<(NodeId, Endpoint)>,
}

/// One topic of a Fetch response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TopicReply {
    /// v12 and older.
    pub(crate) name: Arc<str>,
    /// v13 and newer.
    pub(crate) id: TopicId,
    pub(crate) partitions: Vec<PartitionReply>,
}

/// One partition of a Fetch response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionReply {
    pub(crate) index: i32,
    pub(crate) error: ErrorCode,
    pub(crate) high_watermark: i64,
    pub(crate) last_stable_offset: i64,
    pub(crate) log_start_offset: i64,
    /// Where the fetcher's log and ours part: the epoch and its end (v12+).
    pub(crate) diverging_epoch: Option<(i32, i64)>,
    /// Who leads, if not this broker: id and epoch (v12+).
    pub(crate) current_leader: Option<(NodeId, i32)>,
    /// Producer ids and first offsets; none unless read_committed was asked for.
    pub(crate) aborted: Option<Vec<(i64, i64)>>,
    /// Where to fetch from instead (v11+).
    pub(crate) preferred_read_replica: Option<NodeId>,
    pub(crate) records: Vec<Bytes>,
}

impl PartitionReply {
    /// A partition that could not be read.
    pub(crate) fn failed(index: i32, error: ErrorCode) -> Self {
        PartitionReply {
            index,
            error,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            current_leader: None,
            aborted: None,
            preferred_read_replica: None,
            records: Vec::new(),
        }
    }

    /// A partition that was not even tried. Its list of aborted transactions is empty rather than null, whatever the
    /// isolation.
    pub(crate) fn refused(index: i32, error: ErrorCode) -> Self {
        PartitionReply { aborted: Some(Vec::new()), ..PartitionReply::failed(index, error) }
    }

    /// Bytes of records.
    pub(crate) fn record_bytes(&self) -> usize {
        self.records.iter().map(Bytes::len).sum()
    }
}

impl Response for FetchReply {
    fn header_version(&self, version: i16) -> i16 {
        i16::from(version >= FLEXIBLE)
    }

    fn encode(&self, version: i16, frame: &mut Frame<'_>) -> Result<(), EncodeError> {
        frame.buffer.put_i32(0); // throttle time: nothing is throttled
        if version >= 7 {
            frame.buffer.put_i16(self.error.code());
            frame.buffer.put_i32(self.session_id);
        }
        put_count(frame.buffer, version, self.topics.len());
        for topic in &self.topics {
            if version >= TOPIC_IDS {
                frame.buffer.put_u128(topic.id.0);
            } else {
                put_string(frame.buffer, version, &topic.name);
            }
            put_count(frame.buffer, version, topic.partitions.len());
            for partition in &topic.partitions {
                partition.encode(version, frame)?;
            }
            put_no_tags(frame.buffer, version);
        }
        self.encode_tags(version, frame);
        Ok(())
    }
}

impl FetchReply {
    fn encode_tags(&self, version: i16, frame: &mut Frame<'_>) {
        if version < 16 || self.endpoints.is_empty() {
            return put_no_tags(frame.buffer, version);
        }
        let mut endpoints = BytesMut::new();
        put_count(&mut endpoints, version, self.endpoints.len());
        for (node, endpoint) in &self.endpoints {
            endpoints.put_i32(node.0);
            put_string(&mut endpoints, version, &endpoint.host);
            endpoints.put_i32(i32::from(endpoint.port));
            put_unsigned_varint(&mut endpoints, 0); // rack: null
            put_unsigned_varint(&mut endpoints, 0);
        }
        put_unsigned_varint(frame.buffer, 1);
        put_tag(frame.buffer, 0, &endpoints);
    }
}

impl PartitionReply {
    fn encode(&self, version: i16, frame: &mut Frame<'_>) -> Result<(), EncodeError> {
        let buffer = &mut *frame.buffer;
        buffer.put_i32(self.index);
        buffer.put_i16(self.error.code());
        buffer.put_i64(self.high_watermark);
        buffer.put_i64(self.last_stable_offset);
        if version >= 5 {
            buffer.put_i64(self.log_start_offset);
        }
        self.encode_aborted(version, buffer);
        if version >= 11 {
            buffer.put_i32(self.preferred_read_replica.map_or(-1, |node| node.0));
        }
        let length = self.record_bytes();
        let too_long = || EncodeError(format!("{length} bytes of records are more than a field holds"));
        if version >= FLEXIBLE {
            put_unsigned_varint(buffer, u32::try_from(length + 1).map_err(|_| too_long())?);
        } else {
            buffer.put_i32(i32::try_from(length).map_err(|_| too_long())?);
        }
        for records in &self.records {
            frame.share_or_copy(records);
        }
        self.encode_tags(version, frame.buffer);
        Ok(())
    }

    fn encode_aborted(&self, version: i16, buffer: &mut BytesMut) {
        let Some(aborted) = &self.aborted else {
            if version >= FLEXIBLE {
                put_unsigned_varint(buffer, 0)
            } else {
                buffer.put_i32(-1)
            }
            return;
        };
        put_count(buffer, version, aborted.len());
        for (producer_id, first_offset) in aborted {
            buffer.put_i64(*producer_id);
            buffer.put_i64(*first_offset);
            put_no_tags(buffer, version);
        }
    }

    fn encode_tags(&self, version: i16, buffer: &mut BytesMut) {
        if version < FLEXIBLE {
            return;
        }
        let tags = u32::from(self.diverging_epoch.is_some()) + u32::from(self.current_leader.is_some());
        put_unsigned_varint(buffer, tags);
        if let Some((epoch, end_offset)) = self.diverging_epoch {
            let mut field = [0; 13]; // epoch 4 | end offset 8 | no tagged fields
            field[..4].copy_from_slice(&epoch.to_be_bytes());
            field[4..12].copy_from_slice(&end_offset.to_be_bytes());
            put_tag(buffer, 0, &field);
        }
        if let Some((node, epoch)) = self.current_leader {
            let mut field = [0; 9]; // leader 4 | epoch 4 | no tagged fields
            field[..4].copy_from_slice(&node.0.to_be_bytes());
            field[4..8].copy_from_slice(&epoch.to_be_bytes());
            put_tag(buffer, 1, &field);
        }
    }
}

fn put_unsigned_varint(buffer: &mut BytesMut, mut value: u32) {
    while value >= 0x80 {
        buffer.put_u8(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.put_u8(value as u8);
}

fn put_count(buffer: &mut BytesMut, version: i16, count: usize) {
    // Counts come from requests, which a frame's size bounds.
    let count = count as u32;
    if version >= FLEXIBLE { put_unsigned_varint(buffer, count + 1) } else { buffer.put_u32(count) }
}

fn put_string(buffer: &mut BytesMut, version: i16, text: &str) {
    if version >= FLEXIBLE {
        put_unsigned_varint(buffer, text.len() as u32 + 1);
    } else {
        buffer.put_u16(text.len() as u16);
    }
    buffer.put_slice(text.as_bytes());
}

fn put_tag(buffer: &mut BytesMut, tag: u32, field: &[u8]) {
    put_unsigned_varint(buffer, tag);
    put_unsigned_varint(buffer, field.len() as u32);
    buffer.put_slice(field);
}

fn put_no_tags(buffer: &mut BytesMut, version: i16) {
    if version >= FLEXIBLE {
        put_unsigned_varint(buffer, 0);
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::messages::fetch_response::{
        AbortedTransaction, EpochEndOffset, FetchableTopicResponse, LeaderIdAndEpoch, NodeEndpoint,
        PartitionData,
    };
    use kafka_protocol::messages::{BrokerId, FetchResponse, ProducerId, TopicName};
    use kafka_protocol::protocol::{Encodable, StrBytes};

    use super::*;

    fn example(version: i16) -> FetchReply {
        let mut full = PartitionReply::failed(3, ErrorCode::None);
        full.high_watermark = 17;
        full.last_stable_offset = 15;
        full.log_start_offset = if version >= 5 { 2 } else { -1 };
        full.aborted = Some(vec![(7, 9), (8, 10)]);
        full.records = vec![Bytes::from(vec![1; 300]), Bytes::from(vec![2; 70_000])];
        let mut moved = PartitionReply::failed(4, ErrorCode::NotLeaderOrFollower);
        if version >= 11 {
            moved.preferred_read_replica = Some(NodeId(5));
        }
        if version >= FLEXIBLE {
            moved.diverging_epoch = Some((3, 99));
            moved.current_leader = Some((NodeId(2), 6));
        }
        FetchReply {
            error: ErrorCode::None,
            session_id: if version >= 7 { 77 } else { 0 },
            topics: vec![TopicReply { name: "topic".into(), id: TopicId(5), partitions: vec![full, moved] }],
            endpoints: if version >= 16 {
                vec![(NodeId(2), Endpoint { host: "::1".into(), port: 9093 })]
            } else {
                Vec::new()
            },
        }
    }

    fn as_codec(reply: &FetchReply, version: i16) -> FetchResponse {
        let partition = |partition: &PartitionReply| {
            let mut data = PartitionData::default()
                .with_partition_index(partition.index)
                .with_error_code(partition.error.code())
                .with_high_watermark(partition.high_watermark)
                .with_last_stable_offset(partition.last_stable_offset)
                .with_log_start_offset(partition.log_start_offset)
                .with_preferred_read_replica(BrokerId(
                    partition.preferred_read_replica.map_or(-1, |node| node.0),
                ))
                .with_aborted_transactions(partition.aborted.as_ref().map(|aborted| {
                    aborted
                        .iter()
                        .map(|(id, first)| {
                            AbortedTransaction::default()
                                .with_producer_id(ProducerId(*id))
                                .with_first_offset(*first)
                        })
                        .collect()
                }))
                .with_records(Some(partition.records.concat().into()));
            if let Some((epoch, end)) = partition.diverging_epoch {
                data = data
                    .with_diverging_epoch(EpochEndOffset::default().with_epoch(epoch).with_end_offset(end));
            }
            if let Some((node, epoch)) = partition.current_leader {
                data = data.with_current_leader(
                    LeaderIdAndEpoch::default().with_leader_id(BrokerId(node.0)).with_leader_epoch(epoch),
                );
            }
            data
        };
        let topic = |topic: &TopicReply| {
            let response = FetchableTopicResponse::default()
                .with_partitions(topic.partitions.iter().map(partition).collect());
            if version >= TOPIC_IDS {
                response.with_topic_id(topic.id.into())
            } else {
                response.with_topic(TopicName(StrBytes::from_string(topic.name.to_string())))
            }
        };
        let endpoint = |(node, endpoint): &(NodeId, Endpoint)| {
            NodeEndpoint::default()
                .with_node_id(BrokerId(node.0))
                .with_host(StrBytes::from_string(endpoint.host.to_string()))
                .with_port(endpoint.port.into())
        };
        FetchResponse::default()
            .with_session_id(reply.session_id)
            .with_error_code(reply.error.code())
            .with_responses(reply.topics.iter().map(topic).collect())
            .with_node_endpoints(reply.endpoints.iter().map(endpoint).collect())
    }

    #[test]
    fn every_version_is_encoded_as_the_codec_does() {
        for version in 4..=18 {
            let reply = example(version);
            let mut expected = BytesMut::new();
            Encodable::encode(&as_codec(&reply, version), &mut expected, version).unwrap();
            let ours = crate::api::encode::body_of(&reply, version);
            assert_eq!(ours, expected, "version {version}");
        }
    }
}
