//! The codecs of record batches: gzip, snappy (xerial framing and raw block), lz4 frames, zstd.
//!
//! Decompression is a stream with a budget: whatever sizes the bytes claim, no more than the limit comes out, and
//! no more memory is taken than what came out plus a codec's own window. Knows nothing of batches.

use std::io::{self, Read, Write};

use bytes::Bytes;

use super::batch::Codec;
use super::lz4::Lz4Reader;
use super::snappy::SnappyReader;

/// Bytes that a batch's records may have once decompressed, unless set otherwise: 64 MiB.
pub const DECOMPRESSED_BYTES_MAX: usize = 64 << 20;

/// Memory for output is taken in steps of at least this many bytes.
const GROWTH_BYTES_MIN: usize = 16 << 10;

/// Why bytes could not be decompressed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecompressError {
    /// More than `limit` bytes would come out.
    #[error("more than {limit} bytes when decompressed")]
    TooLarge {
        /// The most bytes that were allowed.
        limit: usize,
    },
    /// The bytes end within what the codec calls a stream, after its header.
    #[error("{codec:?} data ends too early")]
    Truncated {
        /// The codec that read them.
        codec: Codec,
    },
    /// The bytes are not what the codec writes.
    #[error("not {codec:?} data: {reason}")]
    Corrupt {
        /// The codec that read them.
        codec: Codec,
        /// For people.
        reason: String,
    },
}

/// Why bytes could not be compressed: a codec's encoder gave up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{codec:?} compression failed: {reason}")]
pub struct CompressError {
    /// The codec that failed.
    pub codec: Codec,
    /// For people.
    pub reason: String,
}

/// All of `bytes` decompressed, if that is at most `limit` bytes. [`Codec::None`] answers the bytes themselves.
pub fn decompress(codec: Codec, bytes: &Bytes, limit: usize) -> Result<Bytes, DecompressError> {
    if codec == Codec::None {
        return if bytes.len() <= limit {
            Ok(bytes.clone())
        } else {
            Err(DecompressError::TooLarge { limit })
        };
    }
    let mut stream = Decompressor::new(codec, bytes, limit)?;
    let mut out = Vec::new();
    let mut filled = 0;
    loop {
        if filled == out.len() {
            let step = filled.max(bytes.len()).max(GROWTH_BYTES_MIN);
            let target = filled.saturating_add(step).min(limit.saturating_add(1));
            out.reserve_exact(target - filled);
            out.resize(target, 0);
        }
        let read = stream.read(&mut out[filled..])?;
        if read == 0 {
            break;
        }
        filled += read;
    }
    out.truncate(filled);
    if out.capacity() > 2 * filled {
        out.shrink_to_fit();
    }
    Ok(Bytes::from(out))
}

/// `bytes` as `codec` writes them at its default level, in the form that Kafka's clients write: snappy with xerial
/// framing, lz4 as a frame of independent blocks.
pub fn compress(codec: Codec, bytes: &[u8]) -> Result<Vec<u8>, CompressError> {
    let failed = |error: io::Error| CompressError { codec, reason: error.to_string() };
    match codec {
        Codec::None => Ok(bytes.to_vec()),
        Codec::Gzip => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            encoder.write_all(bytes).map_err(failed)?;
            encoder.finish().map_err(failed)
        }
        Codec::Snappy => super::snappy::compress(bytes).map_err(failed),
        Codec::Lz4 => {
            let frame = lz4_flex::frame::FrameInfo::new()
                .block_mode(lz4_flex::frame::BlockMode::Independent)
                .block_size(lz4_flex::frame::BlockSize::Max64KB);
            let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(frame, Vec::new());
            encoder.write_all(bytes).map_err(failed)?;
            encoder.finish().map_err(|error| failed(error.into()))
        }
        Codec::Zstd => zstd::stream::encode_all(bytes, zstd::DEFAULT_COMPRESSION_LEVEL).map_err(failed),
    }
}

/// Decompresses a stream piece by piece, up to a limit of bytes in all.
pub struct Decompressor<'a> {
    codec: Codec,
    stream: Stream<'a>,
    limit: usize,
    produced: usize,
}

enum Stream<'a> {
    Plain(&'a [u8]),
    Gzip(GzipMembers<'a>),
    Snappy(SnappyReader<'a>),
    Lz4(Lz4Reader<'a>),
    Zstd(zstd::stream::read::Decoder<'static, &'a [u8]>),
}

impl<'a> Decompressor<'a> {
    /// A stream that gives `bytes` decompressed, and an error once more than `limit` bytes would come.
    pub fn new(codec: Codec, bytes: &'a [u8], limit: usize) -> Result<Self, DecompressError> {
        let stream = match codec {
            Codec::None => Stream::Plain(bytes),
            Codec::Gzip => Stream::Gzip(GzipMembers::new(bytes)),
            Codec::Snappy => Stream::Snappy(SnappyReader::new(bytes, limit)),
            Codec::Lz4 => Stream::Lz4(Lz4Reader::new(bytes)),
            // No bytes are no frame, and nothing comes out; the decoder would ask for one.
            Codec::Zstd if bytes.is_empty() => Stream::Plain(bytes),
            Codec::Zstd => Stream::Zstd(
                zstd::stream::read::Decoder::with_buffer(bytes).map_err(|error| corrupt(codec, &error))?,
            ),
        };
        Ok(Decompressor { codec, stream, limit, produced: 0 })
    }

    /// Fills the start of `out` with what comes next; 0 at the end of the stream (or if `out` is empty).
    pub fn read(&mut self, out: &mut [u8]) -> Result<usize, DecompressError> {
        let read = match &mut self.stream {
            Stream::Plain(bytes) => bytes.read(out),
            Stream::Gzip(members) => members.read(out),
            Stream::Snappy(blocks) => blocks.read(out),
            Stream::Lz4(frame) => frame.read(out),
            Stream::Zstd(decoder) => decoder.read(out),
        }
        .map_err(|error| self.error(&error))?;
        self.produced += read;
        if self.produced > self.limit {
            return Err(DecompressError::TooLarge { limit: self.limit });
        }
        Ok(read)
    }

    fn error(&self, error: &io::Error) -> DecompressError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => DecompressError::Truncated { codec: self.codec },
            io::ErrorKind::FileTooLarge => DecompressError::TooLarge { limit: self.limit },
            _ => corrupt(self.codec, error),
        }
    }
}

fn corrupt(codec: Codec, error: &io::Error) -> DecompressError {
    DecompressError::Corrupt { codec, reason: error.to_string() }
}

/// One gzip member after another. What follows a member and does not begin one is ignored, as by Java's
/// `GZIPInputStream`.
struct GzipMembers<'a> {
    member: flate2::bufread::GzDecoder<&'a [u8]>,
}

impl<'a> GzipMembers<'a> {
    const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
    /// Bytes of a member's header and trailer. Java does not look for a member in less than one byte more.
    const OVERHEAD_BYTES: usize = 10 + 8;

    fn new(bytes: &'a [u8]) -> Self {
        GzipMembers { member: flate2::bufread::GzDecoder::new(bytes) }
    }

    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.member.read(out)?;
            let rest: &'a [u8] = self.member.get_ref();
            let is_member = rest.starts_with(&Self::MAGIC) && rest.len() > Self::OVERHEAD_BYTES;
            if read > 0 || out.is_empty() || !is_member {
                return Ok(read);
            }
            self.member = flate2::bufread::GzDecoder::new(rest);
        }
    }
}
