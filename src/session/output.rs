//! Encoded replies on their way to the socket: parts of frames, written by reference and dropped once written.

use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// How many parts one vectored write takes; far below any system's limit (IOV_MAX is 1,024 on Linux).
pub const MAX_SLICES: usize = 128;
/// Room for parts that a waiting session may keep.
const KEPT_PARTS: usize = 4;

/// The writing half of a session.
#[derive(Debug, Default)]
pub struct Output {
    parts: Vec<Bytes>,
    /// How many of `parts` have been written.
    written: usize,
}

impl Output {
    /// Where replies add their parts.
    pub(super) fn parts(&mut self) -> &mut Vec<Bytes> {
        &mut self.parts
    }

    /// Whether everything has been written.
    pub fn is_empty(&self) -> bool {
        self.written == self.parts.len()
    }

    /// How many bytes are yet to be written.
    pub fn byte_count(&self) -> usize {
        self.parts.iter().skip(self.written).map(Bytes::len).sum()
    }

    /// Points `slices` at the next bytes to write and returns how many of them it set.
    pub fn slices<'a>(&'a self, slices: &mut [IoSlice<'a>; MAX_SLICES]) -> usize {
        let left = self.parts.iter().skip(self.written);
        slices.iter_mut().zip(left).map(|(slice, part)| *slice = IoSlice::new(part)).count()
    }

    /// The next bytes to write, if they are in one piece.
    pub fn single(&self) -> Option<&[u8]> {
        match self.parts.get(self.written..) {
            Some([part]) => Some(part),
            _ => None,
        }
    }

    /// `count` bytes have been written.
    pub fn advance(&mut self, mut count: usize) {
        while let Some(part) = self.parts.get_mut(self.written) {
            if count < part.len() {
                part.advance(count);
                return;
            }
            count -= part.len();
            *part = Bytes::new();
            self.written += 1;
        }
        self.parts.clear();
        self.written = 0;
    }

    pub(super) fn release(&mut self) {
        self.parts.shrink_to(KEPT_PARTS);
    }
}
