//! Fuzz targets for what huld reads from the network: any bytes in, no panic, no broken promise out.
//!
//! The bodies live here, so that cargo-fuzz (`fuzz_targets/`) and the smoke run (`src/bin/smoke.rs`) share them.

pub mod mutate;
pub mod seeds;

use std::ops::ControlFlow;

use bytes::{Bytes, BytesMut};
use huld::wire::batch::{BatchView, Codec, HEADER_LEN};
use huld::wire::check::{CheckedBatch, TopicRules, check_context_free};
use huld::wire::compression::{compress, decompress};
use huld::wire::frame::FrameCutter;
use huld::wire::header::RequestHeader;
use huld::wire::preflight;
use huld::wire::records::RecordIter;
use huld::wire::repair::repair;
use huld::wire::walk::{first_record_at_or_after, record_with_max_timestamp, walk};
use kafka_protocol::messages::{ApiKey, RequestKind};

/// A fuzz target.
pub struct Target {
    pub name: &'static str,
    pub run: fn(&[u8]),
    pub seeds: fn() -> Vec<Vec<u8>>,
}

pub const TARGETS: &[Target] = &[
    Target { name: "frame_and_header", run: frame_and_header, seeds: seeds::streams },
    Target { name: "preflight_and_decode", run: preflight_and_decode, seeds: seeds::bodies },
    Target { name: "batch_view", run: batch_view, seeds: seeds::batches },
    Target { name: "decompression", run: decompression, seeds: seeds::compressed },
];

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

/// The clock of the batches' checks.
const NOW_MS: i64 = 1_700_000_000_000;

/// Bytes that may come out of a decompressor here.
const LIMIT_BYTES: usize = 1 << 20;

/// The first byte says into how large segments the rest is cut. However it is cut, the same frames come out.
pub fn frame_and_header(data: &[u8]) {
    const MAX_FRAME_BYTES: usize = 4096;
    let Some((&segment, stream)) = data.split_first() else { return };
    let mut whole = BytesMut::from(stream);
    let mut cutter = FrameCutter::default();
    let mut frames = Vec::new();
    let end = loop {
        match cutter.next(&mut whole, MAX_FRAME_BYTES) {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };

    let (mut buffer, mut cutter) = (BytesMut::new(), FrameCutter::default());
    let mut expected = frames.iter();
    'stream: for bytes in stream.chunks(usize::from(segment).max(1)) {
        buffer.extend_from_slice(bytes);
        loop {
            match cutter.next(&mut buffer, MAX_FRAME_BYTES) {
                Ok(Some(frame)) => assert_eq!(Some(&frame), expected.next()),
                Ok(None) => {
                    assert!(cutter.missing() > 0 && cutter.room() > 0 && cutter.room() <= cutter.missing());
                    break;
                }
                Err(error) => {
                    assert_eq!(Some(error), end);
                    break 'stream;
                }
            }
        }
    }
    assert_eq!(expected.next(), None);

    for frame in &frames {
        if let Ok((header, at)) = RequestHeader::parse(frame) {
            assert!(at <= frame.len() && preflight::request(header.api_key).is_some());
        }
    }
}

/// Two bytes choose API and version, the rest is the body. What preflight lets pass may be given to the codec, which
/// reads as far as preflight did; and what was repaired is regular.
pub fn preflight_and_decode(data: &[u8]) {
    let [api, version, body @ ..] = data else { return };
    let apis = ApiKey::iter().count();
    let Some(api) = ApiKey::iter().nth(usize::from(*api) % apis) else { return };
    let versions = api.valid_versions();
    let version = versions.min + i16::from(*version) % (versions.max - versions.min + 1);
    let Ok(allowance) = preflight::check(api as i16, version, body) else { return };
    assert!(allowance.decoded_bytes <= preflight::memory_limit(body.len()));

    let mut rest = Bytes::copy_from_slice(body);
    let decoded = RequestKind::decode(api, &mut rest, version);
    if decoded.is_ok() && !allowance.irregular {
        assert_eq!(rest.len(), allowance.trailing_bytes, "preflight and the codec agree on where it ends");
    }
    if let Some(repaired) = repair(api as i16, version, body) {
        let again = preflight::check(api as i16, version, &repaired).expect("what was repaired passes");
        assert!(!again.irregular);
        _ = RequestKind::decode(api, &mut Bytes::from(repaired), version);
    }
}

/// The first byte says what is put right before the batch is looked at (else a CRC would stop most inputs), the
/// second is the version of Produce.
pub fn batch_view(data: &[u8]) {
    let [repairs, version, batch @ ..] = data else { return };
    let mut batch = batch.to_vec();
    put_right(&mut batch, *repairs);
    let bytes = Bytes::from(batch);

    if bytes.len() >= HEADER_LEN {
        _ = walk(&bytes, LIMIT_BYTES, |_| ControlFlow::Continue(()));
        _ = first_record_at_or_after(&bytes, 0, 0, LIMIT_BYTES);
        _ = record_with_max_timestamp(&bytes, LIMIT_BYTES);
    }
    let Ok(checked) = check_context_free(bytes, i16::from(version % 14), LIMIT_BYTES) else { return };
    let compacted = TopicRules { compacted: true, ..TopicRules::default() };
    _ = checked.validate(&compacted, NOW_MS, &"topic-0");
    let Some(kept) = accepted(&checked, None) else { return };
    for target in CODECS {
        if let Some(rebuilt) = accepted(&checked, Some(target)) {
            same_records(&kept, &rebuilt);
        }
    }
}

/// The batch that a topic with this `compression.type` appends.
fn accepted(checked: &CheckedBatch, compression: Option<Codec>) -> Option<Bytes> {
    let rules = TopicRules { compression, ..TopicRules::default() };
    let accepted = checked.clone().accept(&rules, NOW_MS, &"topic-0").ok()?;
    let view = BatchView::new(&accepted).expect("what is accepted has a header");
    assert_eq!(view.size(), Some(accepted.len()));
    assert_eq!(view.crc(), crc32c::crc32c(&accepted[21..]), "what is accepted has a right CRC");
    Some(accepted)
}

fn put_right(batch: &mut [u8], repairs: u8) {
    let Some(length) = batch.len().checked_sub(12) else { return };
    if batch.len() < HEADER_LEN {
        return;
    }
    if repairs & 1 != 0 {
        batch[8..12].copy_from_slice(&(length as u32).to_be_bytes());
    }
    if repairs & 2 != 0 {
        batch[..8].fill(0);
        batch[16] = 2;
    }
    if repairs & 4 != 0 {
        let crc = crc32c::crc32c(&batch[21..]);
        batch[17..21].copy_from_slice(&crc.to_be_bytes());
    }
}

/// Another codec keeps every record. (In a compressed batch Kafka doesn't compare a record's length with its fields:
/// where such a batch was kept, its records can't be read here.)
fn same_records(kept: &Bytes, rebuilt: &Bytes) {
    let body = |batch: &Bytes| {
        let codec = BatchView::new(batch).and_then(|view| view.codec()).expect("a codec");
        decompress(codec, &batch.slice(HEADER_LEN..), 2 * LIMIT_BYTES).expect("what was read before")
    };
    let count = BatchView::new(kept).expect("a header").count();
    let (kept, rebuilt) = (body(kept), body(rebuilt));
    let mut others = RecordIter::new(&rebuilt, count);
    for record in RecordIter::new(&kept, count) {
        let Ok(record) = record else { return };
        let other = others.next().expect("as many records").expect("records that we wrote");
        assert_eq!((record.key, record.value), (other.key, other.value));
        assert!(record.headers.iter().eq(other.headers.iter()));
    }
    assert!(others.next().is_none());
}

/// The first byte chooses the codec, the second the limit. Never does more come out than the limit; what is
/// compressed comes back.
pub fn decompression(data: &[u8]) {
    let [codec, limit, rest @ ..] = data else { return };
    let codec = CODECS[usize::from(*codec) % CODECS.len()];
    let limit = 1 << (limit % 21);
    if let Ok(out) = decompress(codec, &Bytes::copy_from_slice(rest), limit) {
        assert!(out.len() <= limit);
    }
    let compressed = compress(codec, rest).expect("everything can be compressed");
    assert_eq!(decompress(codec, &Bytes::from(compressed), rest.len()).as_deref(), Ok(rest));
}
