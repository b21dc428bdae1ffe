//! Writes record batches: record by record, or a batch again with another codec. Clients' batches are never written
//! again for transport, only where a topic has a codec of its own.

use bytes::Bytes;

use super::batch::{BatchView, Codec, HEADER_LEN, LOG_OVERHEAD};
use super::compression::{CompressError, compress, decompress};
use super::records::{RecordError, RecordIter};

/// Builds a batch record by record. Offsets of the records count up from the base offset, unless
/// [`push_at`](Self::push_at) says otherwise.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    header: BatchHeader,
    body: Vec<u8>,
    count: i32,
    last_offset_delta: i32,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    has_delete_horizon: bool,
}

/// The fields of a batch's header that do not follow from its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: i64,
    /// Epoch of the leader that appended the batch, −1 if unknown.
    pub leader_epoch: i32,
    /// The codec that the records will be compressed with.
    pub codec: Codec,
    /// The append time, if all records carry that.
    pub append_time_ms: Option<i64>,
    /// Whether the batch belongs to a transaction.
    pub is_transactional: bool,
    /// Whether the batch holds control records.
    pub is_control: bool,
    /// −1 if none.
    pub producer_id: i64,
    /// −1 if none.
    pub producer_epoch: i16,
    /// Sequence of the first record, −1 if none.
    pub base_sequence: i32,
}

impl Default for BatchHeader {
    /// What a client without idempotence sends: offset 0, no codec, no producer.
    fn default() -> Self {
        BatchHeader {
            base_offset: 0,
            leader_epoch: -1,
            codec: Codec::None,
            append_time_ms: None,
            is_transactional: false,
            is_control: false,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
        }
    }
}

impl BatchBuilder {
    /// A batch without records so far.
    pub fn new(header: BatchHeader) -> Self {
        BatchBuilder {
            header,
            body: Vec::new(),
            count: 0,
            last_offset_delta: -1,
            base_timestamp: None,
            max_timestamp: -1,
            has_delete_horizon: false,
        }
    }

    /// Notes until when the batch's tombstones stay, ms (KIP-534). To be called before records are added.
    pub fn delete_horizon(mut self, horizon_ms: i64) -> Self {
        self.base_timestamp = Some(horizon_ms);
        self.has_delete_horizon = true;
        self
    }

    /// Gives a batch without records these timestamps, ms.
    pub fn timestamps(mut self, timestamp_ms: i64) -> Self {
        self.base_timestamp = Some(timestamp_ms);
        self.max_timestamp = timestamp_ms;
        self
    }

    /// Ends the batch this much after its base offset, whatever its last record's offset is: compaction leaves gaps. To
    /// be called after records are added.
    pub fn ends_at(mut self, last_offset_delta: i32) -> Self {
        self.last_offset_delta = last_offset_delta;
        self
    }

    /// Number of records so far.
    pub fn len(&self) -> usize {
        usize::try_from(self.count).unwrap_or(0)
    }

    /// Whether there are no records so far.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds a record at the next offset.
    pub fn push<'h>(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl IntoIterator<Item = (&'h [u8], Option<&'h [u8]>)>,
    ) {
        self.push_at(self.last_offset_delta.saturating_add(1), timestamp_ms, key, value, headers);
    }

    /// Adds a record `offset_delta` after the base offset.
    pub fn push_at<'h>(
        &mut self,
        offset_delta: i32,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl IntoIterator<Item = (&'h [u8], Option<&'h [u8]>)>,
    ) {
        let base_timestamp = *self.base_timestamp.get_or_insert(timestamp_ms);
        let mut fields = vec![0];
        put_varlong(&mut fields, timestamp_ms.wrapping_sub(base_timestamp));
        put_varlong(&mut fields, i64::from(offset_delta));
        put_nullable(&mut fields, key);
        put_nullable(&mut fields, value);
        let mut header_count = 0;
        let mut header_bytes = Vec::new();
        for (key, value) in headers {
            header_count += 1;
            put_nullable(&mut header_bytes, Some(key));
            put_nullable(&mut header_bytes, value);
        }
        put_varlong(&mut fields, header_count);
        put_varlong(&mut self.body, len_i64(fields.len() + header_bytes.len()));
        self.body.extend_from_slice(&fields);
        self.body.extend_from_slice(&header_bytes);
        self.count = self.count.saturating_add(1);
        self.last_offset_delta = offset_delta;
        self.max_timestamp = self.max_timestamp.max(timestamp_ms);
    }

    /// The batch, with its CRC. A batch without records is an empty one, as compaction leaves them.
    pub fn build(self) -> Result<Bytes, CompressError> {
        let header = self.header;
        let body = compress(header.codec, &self.body)?;
        let mut attributes = header.codec as i16;
        attributes |= i16::from(header.append_time_ms.is_some()) << 3;
        attributes |= i16::from(header.is_transactional) << 4;
        attributes |= i16::from(header.is_control) << 5;
        attributes |= i16::from(self.has_delete_horizon) << 6;
        let mut bytes = Vec::with_capacity(HEADER_LEN + body.len());
        bytes.extend_from_slice(&header.base_offset.to_be_bytes());
        let length = i32::try_from(HEADER_LEN - LOG_OVERHEAD + body.len()).unwrap_or(i32::MAX);
        bytes.extend_from_slice(&length.to_be_bytes());
        bytes.extend_from_slice(&header.leader_epoch.to_be_bytes());
        bytes.push(2);
        bytes.extend_from_slice(&[0; 4]);
        let covered = bytes.len();
        bytes.extend_from_slice(&attributes.to_be_bytes());
        bytes.extend_from_slice(&self.last_offset_delta.to_be_bytes());
        bytes.extend_from_slice(&self.base_timestamp.unwrap_or(-1).to_be_bytes());
        bytes.extend_from_slice(&header.append_time_ms.unwrap_or(self.max_timestamp).to_be_bytes());
        bytes.extend_from_slice(&header.producer_id.to_be_bytes());
        bytes.extend_from_slice(&header.producer_epoch.to_be_bytes());
        bytes.extend_from_slice(&header.base_sequence.to_be_bytes());
        bytes.extend_from_slice(&self.count.to_be_bytes());
        bytes.extend_from_slice(&body);
        let crc = crc32c::crc32c(bytes.get(covered..).unwrap_or_default());
        if let Some(field) = bytes.get_mut(covered - 4..covered) {
            field.copy_from_slice(&crc.to_be_bytes());
        }
        Ok(Bytes::from(bytes))
    }
}

fn put_nullable(out: &mut Vec<u8>, content: Option<&[u8]>) {
    match content {
        None => put_varlong(out, -1),
        Some(content) => {
            put_varlong(out, len_i64(content.len()));
            out.extend_from_slice(content);
        }
    }
}

fn len_i64(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn put_varlong(out: &mut Vec<u8>, value: i64) {
    let mut raw = (value << 1).cast_unsigned() ^ (value >> 63).cast_unsigned();
    while raw >= 0x80 {
        out.push((raw & 0x7f) as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

/// Why a batch could not be rebuilt.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// A record is malformed.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The codec's encoder gave up.
    #[error(transparent)]
    Compress(#[from] CompressError),
}

/// The whole batch in `bytes` with its records compressed by `target`, numbered from the base offset on without
/// gaps. At most `limit` bytes are decompressed. Header fields and the records' content stay.
pub fn rebuild(bytes: &Bytes, target: Codec, limit: usize) -> Result<Bytes, RebuildError> {
    let view = BatchView::new(bytes).ok_or(RecordError::Ended)?;
    let codec = view.codec().unwrap_or(Codec::None);
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
