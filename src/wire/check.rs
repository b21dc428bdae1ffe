//! The checks of a produced batch, in the two stages that huld has for them, with the outcome that Kafka's one
//! stage has (`ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`, `LogValidator`).
//!
//! [`check_context_free`] looks at the bytes alone: CRC, header, every record. It is pure and runs on the
//! connection's task. [`CheckedBatch::validate`] adds what a topic's configuration and the clock say, and picks the
//! first complaint in Kafka's order: a batch too large *and* with a wrong CRC is too large. It is cheap unless it
//! rejects records one by one, for it works with what the first stage found: the smallest and largest timestamp and
//! the first record without a key.

use std::fmt;
use std::ops::ControlFlow;

use bytes::Bytes;

use super::batch::{BatchView, Codec, HEADER_LEN, LOG_OVERHEAD};
use super::compression::{CompressError, DecompressError, decompress};
use super::records::{BatchBuilder, BatchHeader, RecordError, RecordIter, RecordOutline, walk};
use crate::base::ErrorCode;

/// Records that a [`Rejection`] lists at most. Kafka lists all; a batch of 10^7 bad records would make an answer of
/// a gigabyte.
pub const RECORD_ERRORS_MAX: usize = 10_000;

/// Bytes that the length field of the oldest format counts at least.
const LENGTH_MIN: i32 = 14;

/// A timestamp that stands for none.
const NO_TIMESTAMP: i64 = -1;

/// Why a produced batch is refused, whatever the topic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    // The shape of the bytes.
    /// No whole batch: null or empty records, or fewer bytes than the length field says.
    #[error("there is no whole batch")]
    NoBatch,
    /// The length field is too small for a batch of any format.
    #[error("Record size {length} is less than the minimum record overhead ({LENGTH_MIN})")]
    LengthTooSmall {
        /// The length field.
        length: i32,
    },
    /// The length field plus the bytes before it overflows 31 bits.
    #[error("the length field of the batch is too large")]
    LengthOverflows,
    /// Magic 0 or 1, which Kafka no longer takes.
    #[error("the batch has an old format")]
    OldMagic,
    /// A magic that was never given out.
    #[error("Invalid magic found in record: {magic}")]
    UnknownMagic {
        /// The magic.
        magic: i8,
    },
    /// Zstd in a Produce request below version 7.
    #[error("zstd needs Produce version 7")]
    ZstdTooEarly,
    /// The attributes name no codec, in a Produce request below version 7.
    #[error("the codec is unknown")]
    UnknownCodecTooEarly,
    /// More than one batch.
    #[error("there is more than one batch")]
    SeveralBatches,
    /// After the batch come bytes that begin no batch.
    #[error("there are bytes after the batch")]
    TrailingBytes,

    // The header.
    /// The base offset is not 0.
    #[error("the base offset is not 0")]
    BaseOffset,
    /// The batch is shorter than a header.
    #[error("the batch is shorter than its header")]
    HeaderCut,
    /// The CRC does not match.
    #[error("the CRC does not match")]
    Crc,
    /// The attributes name no codec.
    #[error("the codec is unknown")]
    UnknownCodec,
    /// The last offset lies before the first.
    #[error("the last offset delta is negative")]
    OffsetRange,
    /// The count of records is not positive.
    #[error("the count of records is not positive")]
    Count,
    /// The count of records does not go with the last offset.
    #[error("the count of records does not go with the last offset delta")]
    CountMismatch,
    /// A control batch, which only brokers may write.
    #[error("clients must not write control batches")]
    Control,
    /// A producer id without a sequence.
    #[error("a batch with a producer id has a negative sequence")]
    NegativeSequence,

    // The records.
    /// Compressed records do not count their offsets up from 0.
    #[error("the offsets of the compressed records do not count up from 0")]
    RecordOffsets,
    /// A record is malformed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A record of a batch that must be rebuilt has a negative timestamp that is not −1.
    #[error("a batch with a negative timestamp cannot be rebuilt")]
    NegativeTimestamp,
    /// The records could not be compressed for a topic that has its own codec.
    #[error(transparent)]
    Compress(#[from] CompressError),
}

impl BatchError {
    /// Kafka's code for this reason.
    pub fn code(&self) -> ErrorCode {
        use BatchError as E;
        match self {
            E::LengthTooSmall { .. } | E::UnknownMagic { .. } | E::TrailingBytes => ErrorCode::CorruptMessage,
            E::HeaderCut | E::Crc => ErrorCode::CorruptMessage,
            E::ZstdTooEarly => ErrorCode::UnsupportedCompressionType,
            E::LengthOverflows | E::UnknownCodecTooEarly | E::UnknownCodec => ErrorCode::UnknownServerError,
            E::RecordOffsets | E::NegativeTimestamp | E::Record(RecordError::EndlessLength) => {
                ErrorCode::UnknownServerError
            }
            E::Record(RecordError::Decompress(DecompressError::TooLarge { .. })) => ErrorCode::InvalidRecord,
            E::Record(RecordError::Decompress(_)) | E::Compress(_) => ErrorCode::UnknownServerError,
            E::NoBatch | E::OldMagic | E::SeveralBatches => ErrorCode::InvalidRecord,
            E::BaseOffset | E::OffsetRange | E::Count | E::CountMismatch => ErrorCode::InvalidRecord,
            E::Control | E::NegativeSequence | E::Record(_) => ErrorCode::InvalidRecord,
        }
    }

    /// Whether Kafka refuses the whole request for this, every partition with the same code and
    /// [`request_message`](Self::request_message): it looks through all batches for transactional ones before it
    /// treats partitions one by one, and fails there.
    pub fn fails_request(&self) -> bool {
        use BatchError as E;
        matches!(
            self,
            E::LengthTooSmall { .. } | E::UnknownMagic { .. } | E::LengthOverflows | E::UnknownCodecTooEarly
        )
    }

    /// The `error_message` of every partition if the whole request is refused.
    pub fn request_message(&self) -> Option<String> {
        let has_message = matches!(self, BatchError::LengthTooSmall { .. } | BatchError::UnknownMagic { .. });
        has_message.then(|| self.to_string())
    }

    /// Whether the answer carries the partition's log start offset beside the error, as Kafka does for what it
    /// finds only while it appends, but for a corrupt message.
    pub fn reports_log_start(&self) -> bool {
        use BatchError as E;
        let is_shape = matches!(self, E::NoBatch | E::OldMagic | E::ZstdTooEarly | E::SeveralBatches)
            || self.fails_request();
        !is_shape && self.code() != ErrorCode::CorruptMessage
    }
}

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

/// The answer to a batch that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Kafka's code.
    pub code: ErrorCode,
    /// `error_message` of Produce 8 and later; Kafka gives one only with `record_errors`.
    pub message: Option<String>,
    /// Index and message of each bad record, at most [`RECORD_ERRORS_MAX`].
    pub record_errors: Vec<(i32, Option<String>)>,
    /// Whether the answer carries the partition's log start offset, else −1.
    pub reports_log_start: bool,
}

impl From<&BatchError> for Rejection {
    fn from(error: &BatchError) -> Self {
        Rejection {
            code: error.code(),
            message: None,
            record_errors: Vec::new(),
            reports_log_start: error.reports_log_start(),
        }
    }
}

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
    walk(bytes, limit, |record| {
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
            if rules.compacted && record.key_len < 0 {
                errors.add(index, ErrorCode::InvalidRecord, || {
                    format!(
                        "Compacted topic cannot accept message without key in topic partition {partition}"
                    )
                });
            } else if let Some(message) = rules.timestamp_complaint(view, record, now_ms) {
                errors.add(index, ErrorCode::InvalidTimestamp, || message);
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
                rebuild(&self.bytes, target, self.limit).map_err(|error| Rejection::from(&error))?;
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

impl TopicRules {
    /// Whether a batch of this codec is decompressed and compressed anew.
    fn rebuilds(&self, codec: Codec) -> bool {
        self.compression.is_some_and(|target| target != codec)
    }
    /// Whether a record may have this timestamp.
    fn allows(&self, timestamp: i64, now_ms: i64) -> bool {
        let age = now_ms.wrapping_sub(timestamp);
        timestamp == NO_TIMESTAMP || (age <= self.before_max_ms && age.wrapping_neg() <= self.after_max_ms)
    }

    fn timestamp_complaint(
        &self,
        view: &BatchView<'_>,
        record: &RecordOutline,
        now_ms: i64,
    ) -> Option<String> {
        let timestamp = match view.is_log_append_time() {
            true => view.max_timestamp(),
            false => view.base_timestamp().wrapping_add(record.timestamp_delta),
        };
        let offset = view.base_offset().wrapping_add(i64::from(record.offset_delta));
        if self.timestamp_type == TimestampType::CreateTime && timestamp != NO_TIMESTAMP {
            let from = now_ms.wrapping_sub(self.before_max_ms);
            let to = now_ms.wrapping_add(self.after_max_ms);
            return (!self.allows(timestamp, now_ms)).then(|| {
                format!(
                    "Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp should be \
                     within [{from}, {to}]"
                )
            });
        }
        // Kafka names the class that it read the record with; one of them knows null from empty.
        let codec = view.codec().unwrap_or(Codec::None);
        let (class, length_min) = match codec == Codec::None || self.rebuilds(codec) {
            true => ("DefaultRecord", 0),
            false => ("PartialDefaultRecord", i32::MIN),
        };
        let (key, value) = (record.key_len.max(length_min), record.value_len.max(length_min));
        view.is_log_append_time().then(|| {
            format!(
                "Invalid timestamp type in message {class}(offset={offset}, timestamp={timestamp}, key={key} bytes, \
                 value={value} bytes). Producer should not set timestamp type to LogAppendTime."
            )
        })
    }
}

/// The bad records of a batch, as they are found.
#[derive(Default)]
struct RecordErrors {
    listed: Vec<(i32, Option<String>)>,
    total: usize,
    any_timestamp: bool,
}

impl RecordErrors {
    fn add(&mut self, index: i32, code: ErrorCode, message: impl FnOnce() -> String) {
        self.total += 1;
        self.any_timestamp |= code == ErrorCode::InvalidTimestamp;
        if self.listed.len() < RECORD_ERRORS_MAX {
            self.listed.push((index, Some(message())));
        }
    }

    fn into_result(self) -> Result<(), Rejection> {
        if self.total == 0 {
            return Ok(());
        }
        let (code, message) = if self.any_timestamp {
            let message = "One or more records have been rejected due to invalid timestamp".to_owned();
            (ErrorCode::InvalidTimestamp, message)
        } else {
            let message = format!(
                "One or more records have been rejected due to {} record errors in total, and only showing the \
                 first three errors at most: [{}]",
                self.total,
                FirstErrors(&self.listed)
            );
            (ErrorCode::InvalidRecord, message)
        };
        Err(Rejection { code, message: Some(message), record_errors: self.listed, reports_log_start: true })
    }
}

struct FirstErrors<'a>(&'a [(i32, Option<String>)]);

impl fmt::Display for FirstErrors<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (index, message)) in self.0.iter().take(3).enumerate() {
            let separator = if place == 0 { "" } else { ", " };
            let message = message.as_deref().unwrap_or_default();
            write!(f, "{separator}RecordError(batchIndex={index}, message='{message}')")?;
        }
        Ok(())
    }
}

/// The whole batch in `bytes` with its records compressed by `target`, numbered from the base offset on without
/// gaps. At most `limit` bytes are decompressed. Header fields and the records' content stay.
pub fn rebuild(bytes: &Bytes, target: Codec, limit: usize) -> Result<Bytes, BatchError> {
    let view = BatchView::new(bytes).ok_or(BatchError::HeaderCut)?;
    let codec = view.codec().ok_or(BatchError::UnknownCodec)?;
    let append_time_ms = view.is_log_append_time().then(|| view.max_timestamp());
    let body = decompress(codec, &bytes.slice(HEADER_LEN..), limit).map_err(RecordError::from)?;
    let mut builder = BatchBuilder::new(BatchHeader {
        base_offset: view.base_offset(),
        leader_epoch: view.leader_epoch(),
        codec: target,
        append_time_ms: None,
        is_transactional: view.is_transactional(),
        is_control: view.is_control(),
        producer_id: view.producer_id(),
        producer_epoch: view.producer_epoch(),
        base_sequence: view.base_sequence(),
    });
    for record in RecordIter::new(&body, view.count()) {
        let record = record.map_err(|error| match error {
            RecordError::EndlessLength if codec != Codec::None => RecordError::Endless,
            error => error,
        })?;
        let timestamp = view.base_timestamp().wrapping_add(record.timestamp_delta);
        builder.push(append_time_ms.unwrap_or(timestamp), record.key, record.value, record.headers.iter());
    }
    Ok(builder.build()?)
}

/// The first record of the whole batch in `bytes` that is not older than `timestamp` and not before
/// `starting_offset`: its offset and timestamp. At most `limit` bytes are decompressed. (Kafka's
/// `FileRecords.searchForTimestamp`.)
pub fn first_record_at_or_after(
    bytes: &[u8],
    timestamp: i64,
    starting_offset: i64,
    limit: usize,
) -> Result<Option<(i64, i64)>, RecordError> {
    find_record(bytes, limit, |offset, record_timestamp| {
        record_timestamp >= timestamp && offset >= starting_offset
    })
}

/// The first record of the whole batch in `bytes` that has the batch's max timestamp: its offset and timestamp. At
/// most `limit` bytes are decompressed. (Kafka's `RecordBatch.offsetOfMaxTimestamp`.)
pub fn record_with_max_timestamp(bytes: &[u8], limit: usize) -> Result<Option<(i64, i64)>, RecordError> {
    let Some(view) = BatchView::new(bytes) else { return Ok(None) };
    find_record(bytes, limit, |_, timestamp| timestamp == view.max_timestamp())
}

fn find_record(
    bytes: &[u8],
    limit: usize,
    is_wanted: impl Fn(i64, i64) -> bool,
) -> Result<Option<(i64, i64)>, RecordError> {
    let Some(view) = BatchView::new(bytes) else { return Ok(None) };
    let mut found = None;
    walk(bytes, limit, |record| {
        let timestamp = match view.is_log_append_time() {
            true => view.max_timestamp(),
            false => view.base_timestamp().wrapping_add(record.timestamp_delta),
        };
        let offset = view.base_offset().wrapping_add(i64::from(record.offset_delta));
        if is_wanted(offset, timestamp) {
            found = Some((offset, timestamp));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::compression::DECOMPRESSED_BYTES_MAX;

    const NOW_MS: i64 = 1_700_000_000_000;
    const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    fn batch(codec: Codec, records: &[(i64, Option<&str>)]) -> Bytes {
        let mut builder = BatchBuilder::new(BatchHeader { codec, ..BatchHeader::default() });
        for (timestamp, key) in records {
            builder.push(*timestamp, key.map(str::as_bytes), Some(b"value"), []);
        }
        builder.build().unwrap()
    }

    fn check(bytes: &Bytes) -> Result<CheckedBatch, BatchError> {
        check_context_free(bytes.clone(), 13, DECOMPRESSED_BYTES_MAX)
    }

    fn accept(bytes: &Bytes, rules: &TopicRules) -> Result<Bytes, Rejection> {
        check(bytes).unwrap().accept(rules, NOW_MS, &"t-0")
    }

    #[test]
    fn sound_batch_of_every_codec_is_accepted_as_it_is() {
        for codec in CODECS {
            let bytes = batch(codec, &[(NOW_MS, Some("a")), (NOW_MS - 5, None), (-1, Some(""))]);
            assert_eq!(accept(&bytes, &TopicRules::default()).unwrap(), bytes, "{codec:?}");
        }
    }

    #[test]
    fn rebuilding_keeps_records_for_every_pair_of_codecs() {
        for from in CODECS {
            let bytes = batch(from, &[(NOW_MS, Some("a")), (NOW_MS + 5, None)]);
            for to in CODECS {
                let rules = TopicRules { compression: Some(to), ..TopicRules::default() };
                let rebuilt = accept(&bytes, &rules).unwrap();
                assert_eq!(BatchView::new(&rebuilt).unwrap().codec(), Some(to));
                let back = rebuild(&rebuilt, from, DECOMPRESSED_BYTES_MAX).unwrap();
                assert_eq!(back, bytes, "{from:?} {to:?}");
            }
        }
    }

    mod verdicts {
        //! The same batches that Kafka judged, with the same verdict.
        use super::*;

        struct Verdict<'a> {
            line: &'a str,
            rules: TopicRules,
            partition: String,
            produce_version: i16,
            now_ms: i64,
            code: ErrorCode,
            start: &'a str,
            record_errors: Vec<(i32, Option<String>)>,
            message: Option<String>,
            stored: Option<Vec<u8>>,
            produced: Bytes,
        }

        fn rules(topic: &str) -> TopicRules {
            let plain = TopicRules::default();
            let append_time = TopicRules { timestamp_type: TimestampType::LogAppendTime, ..plain };
            match topic {
                "p" => plain,
                "c" => TopicRules { compacted: true, ..plain },
                "l" => append_time,
                "u" => TopicRules { compression: Some(Codec::None), ..plain },
                "z" => TopicRules { compression: Some(Codec::Zstd), ..plain },
                "lu" => TopicRules { compression: Some(Codec::None), ..append_time },
                "lz" => TopicRules { compression: Some(Codec::Zstd), ..append_time },
                "s" => TopicRules { max_message_bytes: 200, ..plain },
                "b" => TopicRules { before_max_ms: 1000, ..plain },
                "cb" => TopicRules { before_max_ms: 1000, compacted: true, ..plain },
                _ => panic!("unknown topic {topic}"),
            }
        }

        fn unhex(text: &str) -> Vec<u8> {
            text.as_bytes()
                .chunks(2)
                .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
                .collect()
        }

        fn parse(line: &str) -> Verdict<'_> {
            let columns: Vec<&str> = line.split('\t').collect();
            let [_, topic, version, now, code, start, records, message, stored, produced] = columns[..]
            else {
                panic!("columns of {line}")
            };
            Verdict {
                line,
                rules: rules(topic),
                partition: format!("{topic}-0"),
                produce_version: version.parse().unwrap(),
                now_ms: now.parse().unwrap(),
                code: ErrorCode::from_code(code.parse().unwrap()).unwrap(),
                start,
                record_errors: records
                    .split('|')
                    .filter(|record| *record != "-")
                    .map(|record| record.split_once('=').unwrap())
                    .map(|(index, message)| (index.parse().unwrap(), Some(message.to_owned())))
                    .collect(),
                message: (message != "-").then(|| message.to_owned()),
                stored: (stored != "-").then(|| unhex(stored)),
                produced: Bytes::from(unhex(produced)),
            }
        }

        fn ours(verdict: &Verdict<'_>) -> Result<Bytes, (&'static str, Rejection)> {
            let produced = verdict.produced.clone();
            match check_context_free(produced, verdict.produce_version, DECOMPRESSED_BYTES_MAX) {
                Ok(checked) => {
                    checked.accept(&verdict.rules, verdict.now_ms, &verdict.partition).map_err(|rejection| {
                        (if rejection.reports_log_start { "start" } else { "no-start" }, rejection)
                    })
                }
                Err(error) => {
                    let rejection = Rejection { message: error.request_message(), ..Rejection::from(&error) };
                    Err((if error.fails_request() { "request" } else { "no-start" }, rejection))
                }
            }
        }

        /// Header from the attributes on, and the records decompressed.
        fn content(batch: &Bytes) -> (Bytes, Bytes) {
            let codec = BatchView::new(batch).unwrap().codec().unwrap();
            let body = decompress(codec, &batch.slice(HEADER_LEN..), DECOMPRESSED_BYTES_MAX).unwrap();
            (batch.slice(21..HEADER_LEN), body)
        }

        #[test]
        fn every_batch_is_judged_as_kafka_does() {
            // Decoders that are stricter than Java's, about bytes that no encoder writes.
            let stricter = ["gzip reserved flags", "zstd second cut"];
            let mut differences = Vec::new();
            for line in include_str!("../../fixtures/batches/verdicts.tsv").lines() {
                if line.starts_with('#') || stricter.iter().any(|name| line.starts_with(name)) {
                    continue;
                }
                let verdict = parse(line);
                let head = verdict.line.split('\t').take(5).collect::<Vec<_>>().join(" ");
                match ours(&verdict) {
                    Ok(bytes) if verdict.code == ErrorCode::None => {
                        let Some(stored) = &verdict.stored else { continue };
                        let append_time_ms = (verdict.rules.timestamp_type == TimestampType::LogAppendTime)
                            .then_some(verdict.now_ms);
                        let mut bytes = bytes.to_vec();
                        crate::wire::batch::stamp(
                            &mut bytes,
                            crate::wire::batch::Stamp { base_offset: 0, leader_epoch: 0, append_time_ms },
                        );
                        if &bytes[16..] != stored {
                            let whole = Bytes::from([&bytes[..16], stored].concat());
                            let (ours, kafkas) = (content(&Bytes::from(bytes)), content(&whole));
                            if ours != kafkas {
                                differences.push(format!("{head}\n  stored {ours:x?}\n  kafka  {kafkas:x?}"));
                            }
                        }
                    }
                    Ok(_) => differences.push(format!("{head}: accepted")),
                    Err((start, rejection)) => {
                        // Before version 8 no messages and record errors are sent.
                        let (message, record_errors) = if verdict.produce_version < 8 {
                            (None, Vec::new())
                        } else {
                            (rejection.message, rejection.record_errors)
                        };
                        // Before version 5 there is no log start offset.
                        let start = if verdict.produce_version < 5 { verdict.start } else { start };
                        if (rejection.code, start, &message, &record_errors)
                            != (verdict.code, verdict.start, &verdict.message, &verdict.record_errors)
                        {
                            differences.push(format!(
                                "{head}: {:?} {start} {message:?} {record_errors:?} instead of {} {:?} {:?}",
                                rejection.code, verdict.start, verdict.message, verdict.record_errors
                            ));
                        }
                    }
                }
            }
            assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
        }
    }
}
