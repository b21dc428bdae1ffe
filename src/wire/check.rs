//! The checks of a produced batch, in the two stages that huld has for them, with the outcome that Kafka's one
//! stage has (`ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`, `LogValidator`).
//!
//! [`check_context_free`] looks at the bytes alone: CRC, header, every record. It is pure and runs on the
//! connection's task. [`CheckedBatch::validate`] adds what a topic's configuration and the clock say, and picks the
//! first complaint in Kafka's order: a batch too large *and* with a wrong CRC is too large. It is cheap unless it
//! rejects records one by one, for it works with what the first stage found: the smallest and largest timestamp,
//! and whether there is a record without a key.

use std::fmt;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::batch::{BatchView, Codec, LOG_OVERHEAD};
use super::builder::rebuild;
use super::walk::walk;
use crate::base::ErrorCode;
use error::{LENGTH_MIN, RecordErrors};
use rules::NO_TIMESTAMP;

mod error;
mod rules;

pub use error::{BatchError, RECORD_ERRORS_MAX, Rejection};
pub use rules::{TimestampType, TopicRules};

/// What the records of a batch showed when they were walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RecordFacts {
    /// The largest timestamp, −1 if no record has one.
    max_timestamp: i64,
    /// The smallest timestamp, −1 left aside; [`i64::MAX`] if there is no other.
    min_timestamp: i64,
    has_timestamp: bool,
    has_null_key: bool,
    /// Whether the records' offsets count up from 0.
    are_offsets_in_order: bool,
    /// How much was decompressed to see this.
    decompressed_bytes: usize,
}

/// A batch whose bytes have been looked at as far as that goes without its topic's configuration.
#[derive(Clone, Debug)]
pub struct CheckedBatch {
    bytes: Bytes,
    limit: usize,
    facts: Result<RecordFacts, BatchError>,
}

/// Checks the `records` of one partition in a Produce request of version `produce_version`, which must be one batch.
/// At most `limit` bytes are decompressed.
///
/// An error here is one of shape, which Kafka reports before it looks at the partition. What is wrong with the
/// content is kept, for [`CheckedBatch::validate`] to report in its turn.
pub fn check_context_free(
    bytes: Bytes,
    produce_version: i16,
    limit: usize,
) -> Result<CheckedBatch, BatchError> {
    let size = batch_size(&bytes)?.ok_or(BatchError::NoBatch)?;
    let rest = bytes.get(size..).unwrap_or_default();
    let Some(view) = BatchView::new(bytes.get(..size).unwrap_or_default()) else {
        return Err(match bytes.get(16) {
            Some(0 | 1) => BatchError::OldMagic,
            _ => BatchError::HeaderCut,
        });
    };
    if view.magic() < 2 {
        return Err(BatchError::OldMagic);
    }
    if produce_version < 7 {
        match view.codec() {
            Some(Codec::Zstd) => return Err(BatchError::ZstdTooEarly),
            None => return Err(BatchError::UnknownCodecTooEarly),
            Some(_) => {}
        }
    }
    match batch_size(rest) {
        Ok(None) => {}
        Ok(Some(_)) => return Err(BatchError::SeveralBatches),
        Err(BatchError::LengthOverflows) => return Err(BatchError::LengthOverflows),
        Err(_) => return Err(BatchError::TrailingBytes),
    }
    let bytes = bytes.slice(..size);
    let facts = facts(&bytes, limit);
    Ok(CheckedBatch { bytes, limit, facts })
}

/// Bytes of the batch that `bytes` start with; none if there is no whole batch. (Kafka's
/// `ByteBufferLogInputStream`.)
fn batch_size(bytes: &[u8]) -> Result<Option<usize>, BatchError> {
    let Some(length) = bytes.get(8..LOG_OVERHEAD).and_then(<[u8]>::first_chunk) else { return Ok(None) };
    let length = i32::from_be_bytes(*length);
    if length < LENGTH_MIN {
        return Err(BatchError::LengthTooSmall { length });
    }
    let Some(magic) = bytes.get(16) else { return Ok(None) };
    if *magic > 2 {
        return Err(BatchError::UnknownMagic { magic: magic.cast_signed() });
    }
    let size = length.checked_add(12).ok_or(BatchError::LengthOverflows)?;
    Ok(usize::try_from(size).ok().filter(|size| *size <= bytes.len()))
}

/// The first complaint about a batch's content in Kafka's order, base offset and size left aside.
fn facts(bytes: &[u8], limit: usize) -> Result<RecordFacts, BatchError> {
    let view = BatchView::new(bytes).ok_or(BatchError::HeaderCut)?;
    if crc32c::crc32c(bytes.get(21..).unwrap_or_default()) != view.crc() {
        return Err(BatchError::Crc);
    }
    check_header(&view)?;
    let base_timestamp = view.base_timestamp();
    let (mut max_timestamp, mut min_timestamp) = (NO_TIMESTAMP, i64::MAX);
    let (mut key_len_bits, mut offset_bits, mut next_offset) = (0, 0, 0);
    let decompressed_bytes = walk(bytes, limit, |record| {
        let timestamp = base_timestamp.wrapping_add(record.timestamp_delta);
        max_timestamp = max_timestamp.max(timestamp);
        min_timestamp = min_timestamp.min(if timestamp == NO_TIMESTAMP { i64::MAX } else { timestamp });
        key_len_bits |= record.key_len;
        offset_bits |= record.offset_delta ^ next_offset;
        next_offset += 1;
        ControlFlow::Continue(())
    })?;
    if view.is_log_append_time() {
        max_timestamp = view.max_timestamp().max(NO_TIMESTAMP);
        min_timestamp = if view.max_timestamp() == NO_TIMESTAMP { i64::MAX } else { view.max_timestamp() };
    }
    Ok(RecordFacts {
        max_timestamp,
        min_timestamp,
        has_timestamp: min_timestamp != i64::MAX || max_timestamp == i64::MAX,
        has_null_key: key_len_bits < 0,
        are_offsets_in_order: offset_bits == 0,
        decompressed_bytes,
    })
}

fn check_header(view: &BatchView<'_>) -> Result<(), BatchError> {
    if view.codec().is_none() {
        return Err(BatchError::UnknownCodec);
    }
    let range = i64::from(view.last_offset_delta()) + 1;
    if range <= 0 {
        return Err(BatchError::OffsetRange);
    }
    if view.count() <= 0 {
        return Err(BatchError::Count);
    }
    if range != i64::from(view.count()) {
        return Err(BatchError::CountMismatch);
    }
    if view.is_control() {
        return Err(BatchError::Control);
    }
    if view.has_producer_id() && view.base_sequence() < 0 {
        return Err(BatchError::NegativeSequence);
    }
    Ok(())
}

impl CheckedBatch {
    /// The batch, as it came.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// How many bytes were decompressed to look at the records; the most that may have been, if they are bad.
    pub fn decompressed_bytes(&self) -> usize {
        let is_plain = self.view().is_none_or(|view| view.codec() == Some(Codec::None));
        match &self.facts {
            Ok(facts) => facts.decompressed_bytes,
            Err(BatchError::Record(_)) if !is_plain => self.limit,
            Err(_) => 0,
        }
    }

    /// The batch's header.
    pub fn view(&self) -> Option<BatchView<'_>> {
        BatchView::new(&self.bytes)
    }

    /// Checks the batch against the rules of its topic at the wall clock `now_ms`. `partition` is what messages call
    /// the partition: `topic-index`.
    pub fn validate(
        &self,
        rules: &TopicRules,
        now_ms: i64,
        partition: &dyn fmt::Display,
    ) -> Result<(), Rejection> {
        let Some(view) = self.view() else { return Err(Rejection::from(&BatchError::HeaderCut)) };
        if view.base_offset() != 0 {
            return Err(Rejection::from(&BatchError::BaseOffset));
        }
        check_size(&self.bytes, rules)?;
        let facts = self.facts.as_ref().map_err(Rejection::from)?;
        let timestamps_ok = match rules.timestamp_type {
            TimestampType::LogAppendTime => !view.is_log_append_time(),
            TimestampType::CreateTime if !facts.has_timestamp => !view.is_log_append_time(),
            TimestampType::CreateTime => {
                rules.allows(facts.min_timestamp, now_ms)
                    && rules.allows(facts.max_timestamp, now_ms)
                    && (!view.is_log_append_time() || facts.max_timestamp != NO_TIMESTAMP)
                    && is_far_from_overflow(facts.min_timestamp)
                    && is_far_from_overflow(facts.max_timestamp)
            }
        };
        if !timestamps_ok || (rules.compacted && facts.has_null_key) {
            self.check_records(&view, rules, now_ms, partition)?;
        }
        let codec = view.codec().unwrap_or(Codec::None);
        if rules.rebuilds(codec) && facts.min_timestamp < 0 {
            return Err(Rejection::from(&BatchError::NegativeTimestamp));
        }
        if codec != Codec::None && !rules.rebuilds(codec) && !facts.are_offsets_in_order {
            return Err(Rejection::from(&BatchError::RecordOffsets));
        }
        Ok(())
    }

    /// Checks record by record, for the list of those that are bad.
    fn check_records(
        &self,
        view: &BatchView<'_>,
        rules: &TopicRules,
        now_ms: i64,
        partition: &dyn fmt::Display,
    ) -> Result<(), Rejection> {
        let mut errors = RecordErrors::default();
        let mut index = 0;
        let walked = walk(&self.bytes, self.limit, |record| {
            if let Some(complaint) = rules.complaint(view, record, now_ms) {
                errors.add(index, complaint.code(), || {
                    rules.describe(complaint, view, record, now_ms, partition)
                });
            }
            index += 1;
            ControlFlow::Continue(())
        });
        walked.map_err(|error| Rejection::from(&BatchError::from(error)))?;
        errors.into_result()
    }

    /// [`validate`](Self::validate), then the bytes to append: the batch as it came, or rebuilt where the topic has
    /// its own codec, or with its max timestamp set right where the header differs from the records. For a
    /// LogAppendTime topic the append time is still to be stamped.
    pub fn accept(
        self,
        rules: &TopicRules,
        now_ms: i64,
        partition: &dyn fmt::Display,
    ) -> Result<Bytes, Rejection> {
        self.validate(rules, now_ms, partition)?;
        let (Some(view), Ok(facts)) = (self.view(), &self.facts) else {
            return Err(Rejection::from(&BatchError::HeaderCut));
        };
        let codec = view.codec().unwrap_or(Codec::None);
        if let Some(target) = rules.compression.filter(|_| rules.rebuilds(codec)) {
            let rebuilt =
                rebuild(&self.bytes, target, self.limit).map_err(|error| Rejection::from(&error.into()))?;
            check_size(&rebuilt, rules)?;
            return Ok(rebuilt);
        }
        let is_right = view.max_timestamp() == facts.max_timestamp && !view.is_log_append_time();
        if is_right || rules.timestamp_type == TimestampType::LogAppendTime {
            return Ok(self.bytes);
        }
        Ok(with_max_timestamp(&self.bytes, facts.max_timestamp))
    }
}

fn check_size(bytes: &[u8], rules: &TopicRules) -> Result<(), Rejection> {
    if bytes.len() <= rules.max_message_bytes {
        return Ok(());
    }
    Err(Rejection {
        code: ErrorCode::MessageTooLarge,
        message: None,
        record_errors: Vec::new(),
        reports_log_start: false,
        fails_request: false,
    })
}

/// Whether a timestamp is in the range where differences to now cannot wrap around.
fn is_far_from_overflow(timestamp: i64) -> bool {
    timestamp.unsigned_abs() < 1 << 62
}

/// The batch with its records' largest timestamp, of type CreateTime, in the header, and without attribute bits that
/// mean nothing. Kafka does this to every batch whose header says something else.
fn with_max_timestamp(batch: &[u8], max_timestamp: i64) -> Bytes {
    const KNOWN_ATTRIBUTES: i16 = 0x77;
    let mut bytes = batch.to_vec();
    let attributes = BatchView::new(batch).map_or(0, |view| view.attributes()) & KNOWN_ATTRIBUTES;
    put(&mut bytes, 21, &attributes.to_be_bytes());
    put(&mut bytes, 35, &max_timestamp.to_be_bytes());
    let crc = crc32c::crc32c(bytes.get(21..).unwrap_or_default());
    put(&mut bytes, 17, &crc.to_be_bytes());
    Bytes::from(bytes)
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    if let Some(place) = bytes.get_mut(at..at + field.len()) {
        place.copy_from_slice(field);
    }
}

#[cfg(test)]
mod tests;
