//! Why a log refuses something, and the code that the wire has for it.

use super::chunk::BudgetExceeded;
use super::producers::ProducerError;
use crate::base::ErrorCode;

/// Why a batch is not appended. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AppendError {
    /// The bytes are not exactly one batch with a record range. The sender's fault.
    #[error("not exactly one batch")]
    Malformed,
    /// The batch is larger than `segment.bytes`. The sender's fault.
    #[error("batch of {batch_bytes} bytes is larger than a segment ({segment_bytes} bytes)")]
    RecordListTooLarge {
        /// The batch's size, bytes.
        batch_bytes: usize,
        /// `segment.bytes`.
        segment_bytes: u32,
    },
    /// The producer's epoch or sequence. The sender's fault.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// Log memory is used up. Ours.
    #[error(transparent)]
    Budget(#[from] BudgetExceeded),
    /// The offsets of this log are used up. Nobody's.
    #[error("no offsets left")]
    OffsetsExhausted,
}

impl AppendError {
    /// The code that a Produce answer carries.
    pub fn code(&self) -> ErrorCode {
        match self {
            AppendError::Malformed => ErrorCode::InvalidRecord,
            AppendError::RecordListTooLarge { .. } => ErrorCode::RecordListTooLarge,
            AppendError::Producer(error) => error.code(),
            AppendError::Budget(_) | AppendError::OffsetsExhausted => ErrorCode::KafkaStorageError,
        }
    }
}

/// Why what a leader sent is not appended by its follower. Batches before the one at fault have been appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplicateError {
    /// A batch starts below the end of the log, or ends before it starts (Kafka's `UnexpectedAppendOffsetException`).
    #[error("batch at offset {found} can't follow a log that ends at {log_end_offset}")]
    UnexpectedOffset {
        /// Where the log ends.
        log_end_offset: i64,
        /// Where the batch starts.
        found: i64,
    },
}

/// The offset is below the log's start or above its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset} is out of range {log_start_offset}..={log_end_offset}")]
pub struct OffsetOutOfRange {
    /// What was asked for.
    pub offset: i64,
    /// The first offset.
    pub log_start_offset: i64,
    /// The offset behind the last record.
    pub log_end_offset: i64,
}

impl OffsetOutOfRange {
    /// The code on the wire.
    pub fn code(&self) -> ErrorCode {
        ErrorCode::OffsetOutOfRange
    }
}
