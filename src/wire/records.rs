//! Records inside a batch (magic 2), after any decompression:
//!
//! ```text
//! length varint | attributes 1 | timestamp delta varlong | offset delta varint
//! key length varint, key | value length varint, value | count varint, { key, value }…
//! ```
//! Numbers are zig-zag; a length of −1 means null. Read as views on their bytes ([`RecordIter`]), walked without
//! looking at keys and values ([`walk`]) and written ([`BatchBuilder`]). Nothing here knows a topic's rules.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::batch::{BatchView, Codec, HEADER_LEN};
use super::compression::{CompressError, DecompressError, Decompressor, compress};

/// What is wrong with a record, or with the records as a whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The bytes end before all records that the batch counts.
    #[error("the records end before the count of the batch is reached")]
    Ended,
    /// Bytes are left after all records that the batch counts.
    #[error("bytes are left after the last record")]
    Remaining,
    /// A record's length is no varint of at most five bytes, in a batch that is not compressed.
    #[error("a record's length is an endless varint")]
    EndlessLength,
    /// A record's length says more than there is, or less than its fields take.
    #[error("a record's length does not fit its fields")]
    Length,
    /// A number within a record is an endless varint.
    #[error("a number within a record is an endless varint")]
    Endless,
    /// A header's key has a negative length, or the headers' count is negative or more than the bytes can hold.
    #[error("a record's headers have an impossible count or key length")]
    Headers,
    /// The records could not be decompressed.
    #[error(transparent)]
    Decompress(#[from] DecompressError),
}

/// A record as a view on the bytes it was read from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordView<'a> {
    /// Unused so far; clients write 0.
    pub attributes: i8,
    /// Milliseconds after the base timestamp of the batch; may be negative.
    pub timestamp_delta: i64,
    /// Offsets after the base offset of the batch.
    pub offset_delta: i32,
    /// The key, or none if null.
    pub key: Option<&'a [u8]>,
    /// The value, or none if null (a tombstone on a compacted topic).
    pub value: Option<&'a [u8]>,
    /// The headers, in the order of the bytes.
    pub headers: Headers<'a>,
}

/// The headers of a record: keys may repeat, the order counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    /// Number of headers.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Keys and values, in the order of the bytes.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let mut rest = self.bytes;
        std::iter::from_fn(move || header(&mut rest).ok()).take(self.count)
    }
}

/// Iterates the records of an uncompressed body. The first error ends it.
#[derive(Clone, Debug)]
pub struct RecordIter<'a> {
    rest: &'a [u8],
    left: usize,
}

impl<'a> RecordIter<'a> {
    /// The `count` records that `body` should have, and nothing after them. A negative count is none.
    pub fn new(body: &'a [u8], count: i32) -> Self {
        RecordIter { rest: body, left: usize::try_from(count).unwrap_or(0) }
    }
}

impl<'a> Iterator for RecordIter<'a> {
    type Item = Result<RecordView<'a>, RecordError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let read = match record(&mut self.rest) {
            Ok(_) if self.left == 0 && !self.rest.is_empty() => Err(RecordError::Remaining),
            read => read,
        };
        if read.is_err() {
            self.left = 0;
        }
        Some(read)
    }
}

/// What a walk tells of a record: all but the content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordOutline {
    /// Milliseconds after the base timestamp of the batch; may be negative.
    pub timestamp_delta: i64,
    /// Offsets after the base offset of the batch.
    pub offset_delta: i32,
    /// Bytes of the key, −1 (or less) if null.
    pub key_len: i32,
    /// Bytes of the value, −1 (or less) if null.
    pub value_len: i32,
}

/// Walks the records of the whole batch in `bytes`, in order, until all were seen, `visit` breaks or an error ends
/// it. Compressed records are decompressed as the walk goes, at most `limit` bytes, and never held.
///
/// As in Kafka, a walk through a compressed batch does not compare a record's length with its fields.
pub fn walk(
    bytes: &[u8],
    limit: usize,
    mut visit: impl FnMut(&RecordOutline) -> ControlFlow<()>,
) -> Result<(), RecordError> {
    let (Some(view), Some(body)) = (BatchView::new(bytes), bytes.get(HEADER_LEN..)) else {
        return Err(RecordError::Ended);
    };
    let codec = view.codec().unwrap_or(Codec::None);
    if codec == Codec::None {
        return walk_slice(body, view.count(), visit);
    }
    let mut stream = RecordStream::new(Decompressor::new(codec, body, limit)?);
    for _ in 0..view.count() {
        if visit(&stream.record()?).is_break() {
            return Ok(());
        }
    }
    if view.count() > 0 && !stream.at_end()? {
        return Err(RecordError::Remaining);
    }
    Ok(())
}

fn walk_slice(
    body: &[u8],
    count: i32,
    mut visit: impl FnMut(&RecordOutline) -> ControlFlow<()>,
) -> Result<(), RecordError> {
    let mut rest = body;
    for _ in 0..count {
        let mut at = rest;
        let Some(outline) = outline(&mut at) else {
            return record(&mut rest).map(|_| ()).and(Err(RecordError::Length));
        };
        rest = at;
        if visit(&outline).is_break() {
            return Ok(());
        }
    }
    if count > 0 && !rest.is_empty() { Err(RecordError::Remaining) } else { Ok(()) }
}

/// What [`record`] reads, as little of it as a walk needs; none where `record` has an error to name.
#[inline(always)]
fn outline(rest: &mut &[u8]) -> Option<RecordOutline> {
    let length = usize::try_from(varint(rest).ok()?).ok()?;
    let (mut body, after) = rest.split_at_checked(length)?;
    *rest = after;
    body = body.get(1..)?;
    let timestamp_delta = varlong(&mut body).ok()?;
    let offset_delta = varint(&mut body).ok()?;
    let key_len = varint(&mut body).ok()?;
    body = body.get(usize::try_from(key_len).unwrap_or(0)..)?;
    let value_len = varint(&mut body).ok()?;
    body = body.get(usize::try_from(value_len).unwrap_or(0)..)?;
    if body != [0] {
        let count = varint(&mut body).ok()?;
        headers(&mut body, count).ok()?;
        if !body.is_empty() {
            return None;
        }
    }
    Some(RecordOutline {
        timestamp_delta,
        offset_delta,
        key_len: key_len.max(-1),
        value_len: value_len.max(-1),
    })
}

#[inline]
fn record<'a>(rest: &mut &'a [u8]) -> Result<RecordView<'a>, RecordError> {
    let length = varint(rest).map_err(|error| match error {
        VarintError::Ended => RecordError::Ended,
        VarintError::Endless => RecordError::EndlessLength,
    })?;
    let (mut body, after) = usize::try_from(length)
        .ok()
        .and_then(|length| rest.split_at_checked(length))
        .ok_or(RecordError::Length)?;
    *rest = after;
    let (attributes, fields) = body.split_first().ok_or(RecordError::Length)?;
    body = fields;
    let timestamp_delta = varlong(&mut body)?;
    let offset_delta = varint(&mut body)?;
    let key = nullable(&mut body)?;
    let value = nullable(&mut body)?;
    let count = varint(&mut body)?;
    let headers = if count == 0 { Headers { count: 0, bytes: &[] } } else { headers(&mut body, count)? };
    if !body.is_empty() {
        return Err(RecordError::Length);
    }
    Ok(RecordView {
        attributes: attributes.cast_signed(),
        timestamp_delta,
        offset_delta,
        key,
        value,
        headers,
    })
}

#[cold]
fn headers<'a>(body: &mut &'a [u8], count: i32) -> Result<Headers<'a>, RecordError> {
    let count =
        usize::try_from(count).ok().filter(|count| *count <= body.len()).ok_or(RecordError::Headers)?;
    let start = *body;
    for _ in 0..count {
        header(body)?;
    }
    Ok(Headers { count, bytes: start.get(..start.len() - body.len()).unwrap_or_default() })
}

fn header<'a>(body: &mut &'a [u8]) -> Result<(&'a [u8], Option<&'a [u8]>), RecordError> {
    let key = nullable(body)?.ok_or(RecordError::Headers)?;
    Ok((key, nullable(body)?))
}

/// Bytes after their length; a negative length is null.
#[inline]
fn nullable<'a>(body: &mut &'a [u8]) -> Result<Option<&'a [u8]>, RecordError> {
    let Ok(length) = usize::try_from(varint(body)?) else { return Ok(None) };
    let (content, after) = body.split_at_checked(length).ok_or(RecordError::Length)?;
    *body = after;
    Ok(Some(content))
}

/// Why a number could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VarintError {
    Ended,
    Endless,
}

impl From<VarintError> for RecordError {
    fn from(error: VarintError) -> Self {
        match error {
            VarintError::Ended => RecordError::Length,
            VarintError::Endless => RecordError::Endless,
        }
    }
}

#[inline(always)]
fn varint(rest: &mut &[u8]) -> Result<i32, VarintError> {
    let raw = match short_varint(rest) {
        Some(raw) => raw,
        #[expect(
            clippy::cast_possible_truncation,
            reason = "bits beyond the type are dropped, as Kafka does"
        )]
        None => long_varint::<5>(rest)? as u32,
    };
    Ok((raw >> 1).cast_signed() ^ (raw & 1).cast_signed().wrapping_neg())
}

#[inline(always)]
fn varlong(rest: &mut &[u8]) -> Result<i64, VarintError> {
    let raw = match short_varint(rest) {
        Some(raw) => u64::from(raw),
        None => long_varint::<10>(rest)?,
    };
    Ok((raw >> 1).cast_signed() ^ (raw & 1).cast_signed().wrapping_neg())
}

/// A varint of one or two bytes, as nearly all are.
#[inline(always)]
fn short_varint(rest: &mut &[u8]) -> Option<u32> {
    match *rest {
        [byte, after @ ..] if *byte < 0x80 => {
            *rest = after;
            Some(u32::from(*byte))
        }
        [low, high, after @ ..] if *high < 0x80 => {
            *rest = after;
            Some(u32::from(*low & 0x7f) | u32::from(*high) << 7)
        }
        _ => None,
    }
}

/// A varint of at most `BYTES` bytes.
#[cold]
#[inline(never)]
fn long_varint<const BYTES: usize>(rest: &mut &[u8]) -> Result<u64, VarintError> {
    let mut raw = 0;
    for (index, byte) in rest.iter().take(BYTES).enumerate() {
        raw |= u64::from(*byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            *rest = rest.get(index + 1..).unwrap_or_default();
            return Ok(raw);
        }
    }
    Err(if rest.len() < BYTES { VarintError::Ended } else { VarintError::Endless })
}

/// Bytes decompressed ahead of the walk.
const WINDOW_BYTES: usize = 16 << 10;
/// The most bytes that a record has before its key: length, attributes, deltas, key length.
const PREFIX_BYTES_MAX: usize = 5 + 1 + 10 + 5 + 5;

/// Reads outlines of records from a stream, through a window that moves over it.
struct RecordStream<'a> {
    source: Decompressor<'a>,
    window: Vec<u8>,
    start: usize,
    end: usize,
    source_ended: bool,
}

impl<'a> RecordStream<'a> {
    fn new(source: Decompressor<'a>) -> Self {
        RecordStream { source, window: vec![0; WINDOW_BYTES], start: 0, end: 0, source_ended: false }
    }

    fn record(&mut self) -> Result<RecordOutline, RecordError> {
        self.fill(PREFIX_BYTES_MAX)?;
        let _length = self.number(|rest| Ok(varint(rest)?))?;
        let _attributes = self.number(|rest| {
            let (byte, after) = rest.split_first().ok_or(RecordError::Ended)?;
            *rest = after;
            Ok(*byte)
        })?;
        let timestamp_delta = self.number(|rest| Ok(varlong(rest)?))?;
        let offset_delta = self.number(|rest| Ok(varint(rest)?))?;
        let key_len = self.number(|rest| Ok(varint(rest)?))?;
        self.skip(key_len)?;
        let value_len = self.varint()?;
        self.skip(value_len)?;
        let count = self.varint()?;
        if count < 0 {
            return Err(RecordError::Headers);
        }
        for _ in 0..count {
            let key_len = self.varint()?;
            if key_len < 0 {
                return Err(RecordError::Headers);
            }
            self.skip(key_len)?;
            let value_len = self.varint()?;
            self.skip(value_len)?;
        }
        Ok(RecordOutline { timestamp_delta, offset_delta, key_len, value_len })
    }

    fn at_end(&mut self) -> Result<bool, RecordError> {
        self.fill(1)?;
        Ok(self.start == self.end)
    }

    fn varint(&mut self) -> Result<i32, RecordError> {
        self.fill(5)?;
        self.number(|rest| Ok(varint(rest)?))
    }

    /// Reads from what the window has. A number that the end of the stream cuts is a premature end.
    #[inline]
    fn number<T>(
        &mut self,
        read: impl FnOnce(&mut &[u8]) -> Result<T, RecordError>,
    ) -> Result<T, RecordError> {
        let mut rest = self.window.get(self.start..self.end).unwrap_or_default();
        let number = read(&mut rest).map_err(|error| match error {
            RecordError::Length => RecordError::Ended,
            error => error,
        })?;
        self.start = self.end - rest.len();
        Ok(number)
    }

    /// Makes `wanted` bytes ready, or all that are left.
    #[inline]
    fn fill(&mut self, wanted: usize) -> Result<(), RecordError> {
        if self.end - self.start < wanted && !self.source_ended { self.read_on(wanted) } else { Ok(()) }
    }

    fn read_on(&mut self, wanted: usize) -> Result<(), RecordError> {
        self.window.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < wanted {
            let read = self.source.read(self.window.get_mut(self.end..).unwrap_or_default())?;
            if read == 0 {
                self.source_ended = true;
                break;
            }
            self.end += read;
        }
        Ok(())
    }

    fn skip(&mut self, length: i32) -> Result<(), RecordError> {
        let mut length = usize::try_from(length).unwrap_or(0);
        loop {
            let ready = self.end - self.start;
            if length <= ready {
                self.start += length;
                return Ok(());
            }
            length -= ready;
            self.start = self.end;
            self.fill(1)?;
            if self.start == self.end {
                return Err(RecordError::Ended);
            }
        }
    }
}

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
        }
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
        let mut bytes = Vec::with_capacity(HEADER_LEN + body.len());
        bytes.extend_from_slice(&header.base_offset.to_be_bytes());
        let length = i32::try_from(HEADER_LEN - super::batch::LOG_OVERHEAD + body.len()).unwrap_or(i32::MAX);
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
