//! What a topic's configuration asks of a batch.

use std::fmt;

use super::super::batch::{BatchView, Codec};
use super::super::walk::RecordOutline;
use crate::base::ErrorCode;

/// A timestamp that stands for none.
pub(super) const NO_TIMESTAMP: i64 = -1;

/// What the records' timestamps count as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// The times that the producer gave.
    #[default]
    CreateTime,
    /// The time of the append.
    LogAppendTime,
}

/// What a topic's configuration asks of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TopicRules {
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `max.message.bytes`: of the whole batch, its 12 bytes of offset and length included.
    pub max_message_bytes: usize,
    /// `message.timestamp.before.max.ms`: how far a record's timestamp may lie in the past.
    pub before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far a record's timestamp may lie in the future.
    pub after_max_ms: i64,
    /// Whether `cleanup.policy` contains `compact`: every record needs a key.
    pub compacted: bool,
    /// `compression.type`; none is `producer`, which keeps the codec of the batch.
    pub compression: Option<Codec>,
}

impl Default for TopicRules {
    /// Kafka's defaults.
    fn default() -> Self {
        TopicRules {
            timestamp_type: TimestampType::CreateTime,
            max_message_bytes: 1_048_588,
            before_max_ms: i64::MAX,
            after_max_ms: 3_600_000,
            compacted: false,
            compression: None,
        }
    }
}

impl TopicRules {
    /// Whether a batch of this codec is decompressed and compressed anew.
    pub(super) fn rebuilds(&self, codec: Codec) -> bool {
        self.compression.is_some_and(|target| target != codec)
    }

    /// Whether a record may have this timestamp.
    pub(super) fn allows(&self, timestamp: i64, now_ms: i64) -> bool {
        let age = now_ms.wrapping_sub(timestamp);
        timestamp == NO_TIMESTAMP || (age <= self.before_max_ms && age.wrapping_neg() <= self.after_max_ms)
    }

    /// What these rules have against a record of the batch that `view` shows.
    pub(super) fn complaint(
        &self,
        view: &BatchView<'_>,
        record: &RecordOutline,
        now_ms: i64,
    ) -> Option<Complaint> {
        if self.compacted && record.key_len < 0 {
            return Some(Complaint::NullKey);
        }
        let timestamp = record.timestamp(view);
        if self.timestamp_type == TimestampType::CreateTime && timestamp != NO_TIMESTAMP {
            return (!self.allows(timestamp, now_ms)).then_some(Complaint::TimestampOutOfRange);
        }
        view.is_log_append_time().then_some(Complaint::MarkedLogAppendTime)
    }

    /// The complaint in Kafka's words. `partition` is what they call the partition: `topic-index`.
    pub(super) fn describe(
        &self,
        complaint: Complaint,
        view: &BatchView<'_>,
        record: &RecordOutline,
        now_ms: i64,
        partition: &dyn fmt::Display,
    ) -> String {
        let (offset, timestamp) = (record.offset(view), record.timestamp(view));
        match complaint {
            Complaint::NullKey => {
                format!("Compacted topic cannot accept message without key in topic partition {partition}")
            }
            Complaint::TimestampOutOfRange => {
                let from = now_ms.wrapping_sub(self.before_max_ms);
                let to = now_ms.wrapping_add(self.after_max_ms);
                format!(
                    "Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp should be \
                     within [{from}, {to}]"
                )
            }
            Complaint::MarkedLogAppendTime => {
                // The words name the class that Kafka read the record with; one of them knows null from empty.
                let codec = view.codec().unwrap_or(Codec::None);
                let (class, length_min) = match codec == Codec::None || self.rebuilds(codec) {
                    true => ("DefaultRecord", 0),
                    false => ("PartialDefaultRecord", i32::MIN),
                };
                let (key, value) = (record.key_len.max(length_min), record.value_len.max(length_min));
                format!(
                    "Invalid timestamp type in message {class}(offset={offset}, timestamp={timestamp}, key={key} \
                     bytes, value={value} bytes). Producer should not set timestamp type to LogAppendTime."
                )
            }
        }
    }
}

/// What can be wrong with a record of a sound batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Complaint {
    NullKey,
    TimestampOutOfRange,
    MarkedLogAppendTime,
}

impl Complaint {
    pub(super) fn code(self) -> ErrorCode {
        match self {
            Complaint::NullKey => ErrorCode::InvalidRecord,
            Complaint::TimestampOutOfRange | Complaint::MarkedLogAppendTime => ErrorCode::InvalidTimestamp,
        }
    }
}
