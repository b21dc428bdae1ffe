//! Walks through the records of a batch without looking at keys and values, and the look-ups that need no more than
//! that. Compressed records are decompressed as the walk goes and never held.

use std::ops::ControlFlow;

use super::batch::{BatchView, Codec, HEADER_LEN};
use super::compression::Decompressor;
use super::records::{RecordError, headers, record, varint, varlong};

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

impl RecordOutline {
    /// The record's timestamp in the batch that `view` shows, ms.
    pub fn timestamp(&self, view: &BatchView<'_>) -> i64 {
        match view.is_log_append_time() {
            true => view.max_timestamp(),
            false => view.base_timestamp().wrapping_add(self.timestamp_delta),
        }
    }

    /// The record's offset in the batch that `view` shows.
    pub fn offset(&self, view: &BatchView<'_>) -> i64 {
        view.base_offset().wrapping_add(i64::from(self.offset_delta))
    }
}

/// Walks the records of the whole batch in `bytes`, in order, until all were seen, `visit` breaks or an error ends
/// it. Compressed records are decompressed as the walk goes, at most `limit` bytes, and never held. Returns how many
/// bytes were decompressed.
///
/// As in Kafka, a walk through a compressed batch does not compare a record's length with its fields.
pub fn walk(
    bytes: &[u8],
    limit: usize,
    mut visit: impl FnMut(&RecordOutline) -> ControlFlow<()>,
) -> Result<usize, RecordError> {
    let (Some(view), Some(body)) = (BatchView::new(bytes), bytes.get(HEADER_LEN..)) else {
        return Err(RecordError::Ended);
    };
    let codec = view.codec().unwrap_or(Codec::None);
    if codec == Codec::None {
        return walk_slice(body, view.count(), visit).map(|()| 0);
    }
    let mut stream = RecordStream::new(Decompressor::new(codec, body, limit)?);
    for _ in 0..view.count() {
        if visit(&stream.record()?).is_break() {
            return Ok(stream.source.produced());
        }
    }
    if view.count() > 0 && !stream.at_end()? {
        return Err(RecordError::Remaining);
    }
    Ok(stream.source.produced())
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
        let (offset, timestamp) = (record.offset(&view), record.timestamp(&view));
        if is_wanted(offset, timestamp) {
            found = Some((offset, timestamp));
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
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
