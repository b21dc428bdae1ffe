//! Snappy as Kafka's clients write it: a raw block, or the framing of the xerial library (snappy-java):
//!
//! ```text
//! 82 'S' 'N' 'A' 'P' 'P' 'Y' 00 | version 4 | compatible version 4 | { length 4 | raw block }…
//! ```
//! Numbers are big-endian. A client that does not know the framing writes one raw block. As in snappy-java, versions
//! are not looked at, and less than a length at the end is ignored.

use std::io::{self, ErrorKind};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const HEADER_LEN: usize = 16;
/// Bytes of input for each block that [`compress`] writes, as snappy-java has it.
const BLOCK_BYTES: usize = 32 << 10;
/// No snappy element turns one byte into more than this many: a copy of 64 bytes takes at least three.
const EXPANSION_MAX: usize = 22;

/// Gives the content of snappy bytes, block by block.
pub(super) struct SnappyReader<'a> {
    input: &'a [u8],
    framed: bool,
    raw_block_taken: bool,
    limit: usize,
    block: Vec<u8>,
    at: usize,
}

impl<'a> SnappyReader<'a> {
    /// Blocks that claim more than `limit` bytes are refused before memory is taken for them.
    pub(super) fn new(bytes: &'a [u8], limit: usize) -> Self {
        let framed = bytes.len() >= HEADER_LEN && bytes.starts_with(&MAGIC);
        let input = if framed { bytes.get(HEADER_LEN..).unwrap_or_default() } else { bytes };
        SnappyReader { input, framed, raw_block_taken: false, limit, block: Vec::new(), at: 0 }
    }

    pub(super) fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.at == self.block.len() {
            if self.is_at_end() {
                return Ok(0);
            }
            self.next_block()?;
        }
        let ready = self.block.get(self.at..).unwrap_or_default();
        let (Some(from), Some(to)) =
            (ready.get(..out.len().min(ready.len())), out.get_mut(..ready.len().min(out.len())))
        else {
            return Ok(0);
        };
        to.copy_from_slice(from);
        self.at += from.len();
        Ok(from.len())
    }

    fn is_at_end(&self) -> bool {
        if self.framed { self.input.len() < 4 } else { self.raw_block_taken }
    }

    fn next_block(&mut self) -> io::Result<()> {
        let block = if self.framed {
            if self.input.starts_with(&MAGIC) && self.input.len() >= HEADER_LEN {
                // Two framed streams, one after the other.
                self.input = self.input.get(HEADER_LEN..).unwrap_or_default();
                return Ok(());
            }
            let (length, rest) = self.input.split_first_chunk().ok_or(ErrorKind::UnexpectedEof)?;
            let length =
                usize::try_from(i32::from_be_bytes(*length)).map_err(|_| invalid("negative block length"))?;
            let (block, rest) = rest.split_at_checked(length).ok_or(ErrorKind::UnexpectedEof)?;
            self.input = rest;
            block
        } else {
            self.raw_block_taken = true;
            std::mem::take(&mut self.input)
        };
        let claimed = snap::raw::decompress_len(block).map_err(io::Error::from)?;
        if claimed > block.len().saturating_mul(EXPANSION_MAX) {
            return Err(invalid("block claims more than it can hold"));
        }
        if claimed > self.limit {
            return Err(ErrorKind::FileTooLarge.into());
        }
        self.block.clear();
        self.block.resize(claimed, 0);
        self.at = 0;
        let written =
            snap::raw::Decoder::new().decompress(block, &mut self.block).map_err(io::Error::from)?;
        self.block.truncate(written);
        Ok(())
    }
}

/// `bytes` with the xerial framing.
pub(super) fn compress(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(HEADER_LEN + bytes.len() / 2);
    out.extend_from_slice(&MAGIC);
    out.extend_from_slice(&1u32.to_be_bytes());
    out.extend_from_slice(&1u32.to_be_bytes());
    let mut encoder = snap::raw::Encoder::new();
    for chunk in bytes.chunks(BLOCK_BYTES) {
        let block = encoder.compress_vec(chunk).map_err(io::Error::from)?;
        let length = u32::try_from(block.len()).map_err(|_| invalid("block too long"))?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&block);
    }
    Ok(out)
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}
