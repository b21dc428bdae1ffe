//! Bytes that have come and aren't requests yet, and how much memory they may take.

use bytes::buf::Limit;
use bytes::{BufMut, Bytes, BytesMut};

use crate::wire::frame::{FrameCutter, FrameError};

/// The first read of a quiet connection.
const SMALL_READ_BYTES: usize = 4 << 10;
/// The most that a read takes where nothing says that more belongs together.
const LARGE_READ_BYTES: usize = 64 << 10;

/// The reading half of a session.
///
/// Memory is used again from request to request: once a frame's last holder has dropped it, the buffer starts over
/// at its front. A read for a large frame stops at that frame's end, so the next one starts at the front as well and
/// nothing has to be moved.
#[derive(Debug)]
pub(super) struct Input {
    buffer: BytesMut,
    cutter: FrameCutter,
    max_frame_bytes: usize,
    /// What the next read takes if no frame has begun: grows when reads come back full.
    read_bytes: usize,
    /// Bytes that the buffer will hold if the read that was prepared last is a full one.
    full: usize,
}

impl Input {
    pub(super) fn new(max_frame_bytes: usize) -> Self {
        Input {
            buffer: BytesMut::new(),
            cutter: FrameCutter::default(),
            max_frame_bytes,
            read_bytes: SMALL_READ_BYTES,
            full: 0,
        }
    }

    /// The buffer, with room for one read.
    pub(super) fn read_buffer(&mut self) -> Limit<&mut BytesMut> {
        let missing = if self.buffer.is_empty() { 0 } else { self.cutter.missing() };
        let room = if missing > self.read_bytes { self.cutter.room() } else { self.read_bytes };
        self.buffer.reserve(room);
        self.full = self.buffer.len() + room;
        (&mut self.buffer).limit(room)
    }

    /// The next frame, without its length.
    pub(super) fn next_frame(&mut self) -> Result<Option<Bytes>, FrameError> {
        if self.buffer.is_empty() {
            return Ok(None);
        }
        if self.buffer.len() == self.full {
            self.read_bytes = LARGE_READ_BYTES;
        }
        self.full = 0;
        self.cutter.next(&mut self.buffer, self.max_frame_bytes)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// Drops the buffer if nothing is in it.
    pub(super) fn release(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.read_bytes = SMALL_READ_BYTES;
        }
    }

    /// Drops a small buffer if nothing is in it. Returns whether an empty one is kept.
    pub(super) fn release_small(&mut self) -> bool {
        if self.read_bytes == SMALL_READ_BYTES {
            self.release();
        }
        self.buffer.is_empty() && self.read_bytes != SMALL_READ_BYTES
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }
}
