//! Records inside a batch (magic 2), after any decompression:
//!
//! ```text
//! length varint | attributes 1 | timestamp delta varlong | offset delta varint
//! key length varint, key | value length varint, value | count varint, { key, value }…
//! ```
//! Numbers are zig-zag; a negative length means null. [`RecordIter`] reads them as views on their bytes,
//! [`walk`](super::walk) without looking at keys and values, compressed ones too, and [`BatchBuilder`] writes them.
//! Nothing here knows a topic's rules. (KIP-98; Kafka's `DefaultRecord`.)

pub use super::builder::{BatchBuilder, BatchHeader, RebuildError};
use super::compression::DecompressError;

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

#[inline]
pub(super) fn record<'a>(rest: &mut &'a [u8]) -> Result<RecordView<'a>, RecordError> {
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

#[inline(never)]
pub(super) fn headers<'a>(body: &mut &'a [u8], count: i32) -> Result<Headers<'a>, RecordError> {
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
pub(super) enum VarintError {
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
pub(super) fn varint(rest: &mut &[u8]) -> Result<i32, VarintError> {
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
pub(super) fn varlong(rest: &mut &[u8]) -> Result<i64, VarintError> {
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
