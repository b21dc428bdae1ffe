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
        let read = stream.read(out.get_mut(filled..).unwrap_or_default())?;
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

/// How many bytes `bytes` are once decompressed, if that is at most `limit`; nothing of them is kept.
pub fn decompressed_size(codec: Codec, bytes: &[u8], limit: usize) -> Result<usize, DecompressError> {
    let mut stream = Decompressor::new(codec, bytes, limit)?;
    let mut out = vec![0; GROWTH_BYTES_MIN];
    while stream.read(&mut out)? > 0 {}
    Ok(stream.produced())
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

    /// How many bytes have come out.
    pub fn produced(&self) -> usize {
        self.produced
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
    const MIB: usize = 1 << 20;

    fn decompressed(codec: Codec, bytes: Vec<u8>, limit: usize) -> Result<Bytes, DecompressError> {
        decompress(codec, &Bytes::from(bytes), limit)
    }

    #[test]
    fn limit_is_exact() {
        for codec in CODECS {
            for len in [0, 1, 100_000] {
                let packed = compress(codec, &vec![7; len]).unwrap();
                assert_eq!(decompressed(codec, packed.clone(), len).unwrap().len(), len, "{codec:?}");
                if len > 0 {
                    let error = DecompressError::TooLarge { limit: len - 1 };
                    assert_eq!(decompressed(codec, packed, len - 1), Err(error), "{codec:?}");
                }
            }
        }
    }

    #[test]
    fn bytes_of_another_kind_are_corrupt() {
        for codec in &CODECS[1..] {
            let error = decompressed(*codec, b"plain bytes, no codec wrote them".to_vec(), MIB).unwrap_err();
            assert!(matches!(&error, DecompressError::Corrupt { codec: by, .. } if by == codec), "{error:?}");
        }
    }

    #[test]
    fn a_cut_stream_is_an_error_at_every_length() {
        // Snappy's framing has no end, and its blocks are long; the others notice each missing byte.
        let content: Vec<u8> = (0..2000u32).flat_map(|number| (number * number).to_be_bytes()).collect();
        for codec in [Codec::Gzip, Codec::Lz4, Codec::Zstd] {
            let packed = compress(codec, &content).unwrap();
            for cut in 1..packed.len() {
                assert!(decompressed(codec, packed[..cut].to_vec(), MIB).is_err(), "{codec:?} cut to {cut}");
            }
        }
    }

    #[test]
    fn gzip_members_follow_one_another_and_rubbish_ends_them() {
        let member = |content: &[u8]| compress(Codec::Gzip, content).unwrap();
        let two = [member(b"one "), member(b"two")].concat();
        assert_eq!(decompressed(Codec::Gzip, two.clone(), MIB).unwrap(), "one two");
        assert_eq!(decompressed(Codec::Gzip, [&two[..], &[0; 40]].concat(), MIB).unwrap(), "one two");
    }

    #[test]
    fn bombs_are_refused_at_the_limit() {
        let zeros = vec![0; MIB];
        let gzip = compress(Codec::Gzip, &zeros).unwrap().repeat(1024);
        let framed = compress(Codec::Snappy, &zeros).unwrap();
        let snappy = [&framed[..16], &framed[16..].repeat(1024)].concat();
        let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        for _ in 0..1024 {
            zstd.write_all(&zeros).unwrap();
        }
        let lz4 = compress(Codec::Lz4, &vec![0; 4 * MIB]).unwrap();
        let lz4 = [&lz4[..7], &lz4[7..lz4.len() - 4].repeat(256)].concat();
        let bombs = [
            (Codec::Gzip, gzip),
            (Codec::Snappy, snappy),
            (Codec::Zstd, zstd.finish().unwrap()),
            (Codec::Lz4, lz4),
        ];
        for (codec, bomb) in bombs {
            let limit = 3 * MIB;
            assert_eq!(
                decompressed(codec, bomb, limit),
                Err(DecompressError::TooLarge { limit }),
                "{codec:?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn compressed_bytes_come_back(
            content in prop::collection::vec(prop::sample::select(&[0u8, 1, 2, 250][..]), 0..20_000),
            codec in prop::sample::select(&CODECS[..]),
        ) {
            let packed = compress(codec, &content).unwrap();
            prop_assert_eq!(decompressed(codec, packed, content.len()).unwrap(), content);
        }

        #[test]
        fn any_bytes_are_read_without_danger(
            bytes in prop::collection::vec(any::<u8>(), 0..300),
            codec in prop::sample::select(&CODECS[..]),
            with_header in any::<bool>(),
        ) {
            let header = if with_header { compress(codec, b"0123456789").unwrap() } else { Vec::new() };
            let packed = [&header[..header.len() / 2], &bytes].concat();
            if let Ok(content) = decompressed(codec, packed, MIB) {
                prop_assert!(content.len() <= MIB);
            }
        }
    }
}
