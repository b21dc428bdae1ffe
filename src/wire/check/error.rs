//! Why a batch is refused, and how Kafka says so.

use std::fmt;

use super::super::builder::RebuildError;
use super::super::compression::{CompressError, DecompressError};
use super::super::records::RecordError;
use crate::base::ErrorCode;

/// Records that a [`Rejection`] lists at most. Kafka lists all; a batch of 10^7 bad records would make an answer of
/// a gigabyte.
pub const RECORD_ERRORS_MAX: usize = 10_000;

/// Bytes that the length field of the oldest format counts at least.
pub(super) const LENGTH_MIN: i32 = 14;

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

impl From<RebuildError> for BatchError {
    fn from(error: RebuildError) -> Self {
        match error {
            RebuildError::Record(error) => error.into(),
            RebuildError::Compress(error) => error.into(),
        }
    }
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
    /// message: it looks through all batches for transactional ones before it
    /// treats partitions one by one, and fails there.
    pub fn fails_request(&self) -> bool {
        use BatchError as E;
        matches!(
            self,
            E::LengthTooSmall { .. } | E::UnknownMagic { .. } | E::LengthOverflows | E::UnknownCodecTooEarly
        )
    }

    /// The `error_message` of every partition if the whole request is refused.
    fn request_message(&self) -> Option<String> {
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

/// The answer to a batch that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// Kafka's code.
    pub code: ErrorCode,
    /// `error_message` of Produce 8 and later; Kafka gives one only with `record_errors`, or if the whole request is
    /// refused.
    pub message: Option<String>,
    /// Index and message of each bad record, at most [`RECORD_ERRORS_MAX`].
    pub record_errors: Vec<(i32, Option<String>)>,
    /// Whether the answer carries the partition's log start offset, else −1.
    pub reports_log_start: bool,
    /// Whether the whole request is refused: every partition gets this code and message, and nothing is appended.
    pub fails_request: bool,
}

impl From<&BatchError> for Rejection {
    fn from(error: &BatchError) -> Self {
        Rejection {
            code: error.code(),
            message: error.request_message(),
            record_errors: Vec::new(),
            reports_log_start: error.reports_log_start(),
            fails_request: error.fails_request(),
        }
    }
}

/// The bad records of a batch, as they are found.
#[derive(Default)]
pub(super) struct RecordErrors {
    listed: Vec<(i32, Option<String>)>,
    total: usize,
    any_timestamp: bool,
}

impl RecordErrors {
    pub(super) fn add(&mut self, index: i32, code: ErrorCode, message: impl FnOnce() -> String) {
        self.total += 1;
        self.any_timestamp |= code == ErrorCode::InvalidTimestamp;
        if self.listed.len() < RECORD_ERRORS_MAX {
            self.listed.push((index, Some(message())));
        }
    }

    pub(super) fn into_result(self) -> Result<(), Rejection> {
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
        Err(Rejection {
            code,
            message: Some(message),
            record_errors: self.listed,
            reports_log_start: true,
            fails_request: false,
        })
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
