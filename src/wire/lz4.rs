//! LZ4 frames as Kafka's `Lz4BlockInputStream` reads them, which differs from the frame specification: blocks must
//! be independent, a content size is skipped, a content checksum is there but not verified, and what follows the end
//! mark is ignored. The header checksum and block checksums are verified.
//!
//! ```text
//! 04 22 4d 18 | flags 1 | block size code 1 | [content size 8] | header checksum 1
//! { size 4, top bit: stored as it is | block | [checksum 4] }… | 0 4 | [content checksum 4]
//! ```
//! Numbers are little-endian.

use std::io::{self, ErrorKind};

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
const STORED: u32 = 1 << 31;

/// Gives the content of an LZ4 frame, block by block.
pub(super) struct Lz4Reader<'a> {
    input: &'a [u8],
    frame: Option<Frame>,
    finished: bool,
    block: Vec<u8>,
    at: usize,
}

#[derive(Clone, Copy)]
struct Frame {
    block_bytes_max: usize,
    block_checksums: bool,
    content_checksum: bool,
}

impl<'a> Lz4Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Lz4Reader { input: bytes, frame: None, finished: false, block: Vec::new(), at: 0 }
    }

    pub(super) fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let frame = match self.frame {
            Some(frame) => frame,
            None => *self.frame.insert(header(&mut self.input)?),
        };
        while self.at == self.block.len() {
            if self.finished {
                return Ok(0);
            }
            self.next_block(frame)?;
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

    fn next_block(&mut self, frame: Frame) -> io::Result<()> {
        let size = u32::from_le_bytes(take(&mut self.input)?);
        let stored = size & STORED != 0;
        let length = (size & !STORED) as usize;
        if length == 0 {
            self.finished = true;
            if frame.content_checksum {
                let _unverified: [u8; 4] = take(&mut self.input)?;
            }
            return Ok(());
        }
        if length > frame.block_bytes_max {
            return Err(invalid("block longer than the frame allows"));
        }
        let (block, rest) = self.input.split_at_checked(length).ok_or_else(cut)?;
        self.input = rest;
        self.at = 0;
        if stored {
            self.block.clear();
            self.block.extend_from_slice(block);
        } else {
            // No byte of a block stands for more than 255.
            let bytes_max = block.len().saturating_mul(255).saturating_add(16).min(frame.block_bytes_max);
            self.block.resize(bytes_max, 0);
            let written = lz4_flex::block::decompress_into(block, &mut self.block)
                .map_err(|error| io::Error::new(ErrorKind::InvalidData, error.to_string()))?;
            self.block.truncate(written);
        }
        if frame.block_checksums && u32::from_le_bytes(take(&mut self.input)?) != xxh32(block) {
            return Err(invalid("block checksum does not match"));
        }
        Ok(())
    }
}

fn header(input: &mut &[u8]) -> io::Result<Frame> {
    if take(input)? != MAGIC {
        return Err(invalid("no frame of a known kind"));
    }
    let described = *input;
    let [flags, block_size] = take(input)?;
    if flags >> 6 != 1 || flags & 0x03 != 0 {
        return Err(invalid("unknown version or reserved flags"));
    }
    if flags & 0x20 == 0 {
        return Err(invalid("blocks depend on each other"));
    }
    let block_bytes_max = match block_size >> 4 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => 4 << 20,
        _ => return Err(invalid("unknown block size")),
    };
    if block_size & 0x0f != 0 {
        return Err(invalid("reserved bits of the block size"));
    }
    if flags & 0x08 != 0 {
        let _content_size: [u8; 8] = take(input)?;
    }
    let descriptor = described.get(..described.len() - input.len()).unwrap_or_default();
    let [checksum] = take(input)?;
    if checksum != xxh32(descriptor).to_le_bytes()[1] {
        return Err(invalid("header checksum does not match"));
    }
    Ok(Frame { block_bytes_max, block_checksums: flags & 0x10 != 0, content_checksum: flags & 0x04 != 0 })
}

fn take<const N: usize>(input: &mut &[u8]) -> io::Result<[u8; N]> {
    let (taken, rest) = input.split_first_chunk().ok_or_else(cut)?;
    *input = rest;
    Ok(*taken)
}

fn invalid(reason: &'static str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, reason)
}

/// A cut frame is no premature end for Kafka, but bad data like any other.
fn cut() -> io::Error {
    invalid("frame ends too early")
}

/// The 32-bit xxHash with seed 0, which LZ4 frames use for their checksums.
fn xxh32(bytes: &[u8]) -> u32 {
    const PRIMES: [u32; 5] = [0x9e37_79b1, 0x85eb_ca77, 0xc2b2_ae3d, 0x27d4_eb2f, 0x1656_67b1];
    let [p1, p2, p3, p4, p5] = PRIMES;
    let word = |chunk: &[u8; 4]| u32::from_le_bytes(*chunk);
    let (stripes, mut tail) = bytes.as_chunks::<16>();
    let mut hash = if stripes.is_empty() {
        p5
    } else {
        let mut lanes = [p1.wrapping_add(p2), p2, 0, 0u32.wrapping_sub(p1)];
        for stripe in stripes {
            for (lane, chunk) in lanes.iter_mut().zip(stripe.as_chunks::<4>().0) {
                *lane = lane.wrapping_add(word(chunk).wrapping_mul(p2)).rotate_left(13).wrapping_mul(p1);
            }
        }
        let [a, b, c, d] = lanes;
        a.rotate_left(1)
            .wrapping_add(b.rotate_left(7))
            .wrapping_add(c.rotate_left(12))
            .wrapping_add(d.rotate_left(18))
    };
    #[expect(clippy::cast_possible_truncation, reason = "the hash takes the length modulo 2^32")]
    let length = bytes.len() as u32;
    hash = hash.wrapping_add(length);
    while let Some((chunk, rest)) = tail.split_first_chunk() {
        hash = hash.wrapping_add(word(chunk).wrapping_mul(p3)).rotate_left(17).wrapping_mul(p4);
        tail = rest;
    }
    for byte in tail {
        hash = hash.wrapping_add(u32::from(*byte).wrapping_mul(p5)).rotate_left(11).wrapping_mul(p1);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(p2);
    hash = (hash ^ (hash >> 13)).wrapping_mul(p3);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use lz4_flex::frame::{BlockMode, BlockSize, FrameEncoder, FrameInfo};
    use std::io::Write;

    use super::*;

    fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
        let mut reader = Lz4Reader::new(bytes);
        let (mut out, mut piece) = (Vec::new(), [0; 1000]);
        loop {
            match reader.read(&mut piece)? {
                0 => return Ok(out),
                read => out.extend_from_slice(&piece[..read]),
            }
        }
    }

    fn packed(info: FrameInfo, content: &[u8]) -> Vec<u8> {
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    fn content() -> Vec<u8> {
        (0..60_000u32).flat_map(|number| (number / 3 * 7919).to_le_bytes()).collect()
    }

    fn independent() -> FrameInfo {
        FrameInfo::new().block_mode(BlockMode::Independent)
    }

    #[test]
    fn frames_of_every_kind_are_read() {
        let content = content();
        let sizes = [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB, BlockSize::Max4MB];
        for size in sizes {
            for checksums in [false, true] {
                for sized in [None, Some(content.len() as u64)] {
                    let info = independent().block_size(size).block_checksums(checksums);
                    let info = info.content_checksum(checksums).content_size(sized);
                    assert_eq!(read(&packed(info, &content)).unwrap(), content);
                }
            }
        }
    }

    #[test]
    fn frame_of_dependent_blocks_is_refused() {
        let bytes = packed(FrameInfo::new().block_mode(BlockMode::Linked), &content());
        assert_eq!(read(&bytes).unwrap_err().to_string(), "blocks depend on each other");
    }

    #[test]
    fn checksums_of_header_and_blocks_count_but_not_that_of_the_content() {
        let info = independent().block_checksums(true).content_checksum(true);
        let bytes = packed(info, b"some content");
        let changed = |at: usize| {
            let mut bytes = bytes.clone();
            bytes[at] ^= 1;
            read(&bytes)
        };
        let end = bytes.len();
        assert_eq!(changed(6).unwrap_err().to_string(), "header checksum does not match");
        assert_eq!(changed(end - 9).unwrap_err().to_string(), "block checksum does not match");
        assert_eq!(changed(end - 1).unwrap(), b"some content");
        assert!(read(&bytes[..end - 1]).is_err(), "it must be there");
    }

    #[test]
    fn hash_is_that_of_the_published_vectors() {
        let vectors: [(&[u8], u32); 4] = [
            (b"", 0x02cc_5d05),
            (b"a", 0x550d_7456),
            (b"abc", 0x32d1_53ff),
            (b"Nobody inspects the spammish repetition", 0xe229_3b2f),
        ];
        for (bytes, hash) in vectors {
            assert_eq!(xxh32(bytes), hash);
        }
    }
}
