//! Inputs to start from: recorded requests, and batches in every codec.

use huld::wire::batch::HEADER_LEN;
use huld::wire::header::RequestHeader;
use huld::wire::records::{BatchBuilder, BatchHeader};
use kafka_protocol::messages::ApiKey;

use crate::CODECS;

/// The requests of `fixtures/messages`: header and body.
fn requests() -> impl Iterator<Item = Vec<u8>> {
    include_str!("../../fixtures/messages/messages.jsonl").lines().map(|line| {
        let (_, rest) = line.split_once(r#""request":""#).expect("a request");
        let (hex, _) = rest.split_once('"').expect("its end");
        (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..][..2], 16).expect("hex")).collect()
    })
}

fn framed(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

/// For `frame_and_header`: frames behind each other, and what is no frame at all.
pub fn streams() -> Vec<Vec<u8>> {
    let requests: Vec<_> = requests().collect();
    let mut streams: Vec<Vec<u8>> = requests
        .chunks(3)
        .zip([1, 2, 3, 7, 64, 255].into_iter().cycle())
        .map(|(some, segment)| [vec![segment], some.iter().flat_map(|it| framed(it)).collect()].concat())
        .collect();
    streams.push(b"\x01GET / HTTP/1.1\r\n\r\n".to_vec());
    streams.push(b"\x05\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec());
    streams
}

/// For `preflight_and_decode`: bodies behind the two bytes that choose API and version.
pub fn bodies() -> Vec<Vec<u8>> {
    let body = |request: Vec<u8>| {
        let (header, at) = RequestHeader::parse(&request).ok()?;
        let api = ApiKey::iter().position(|it| it as i16 == header.api_key)?;
        let version = header.api_version - ApiKey::iter().nth(api)?.valid_versions().min;
        Some([&[u8::try_from(api).ok()?, u8::try_from(version).ok()?], &request[at..]].concat())
    };
    requests().filter_map(body).collect()
}

/// For `batch_view`: batches in every codec, plain, of a producer with an id, and transactional.
pub fn batches() -> Vec<Vec<u8>> {
    let mut batches = Vec::new();
    for codec in CODECS {
        for (producer_id, is_transactional) in [(-1, false), (7, false), (7, true)] {
            let base_sequence = if producer_id < 0 { -1 } else { 0 };
            let producer_epoch = if producer_id < 0 { -1 } else { 3 };
            let header = BatchHeader {
                codec,
                producer_id,
                producer_epoch,
                base_sequence,
                is_transactional,
                ..BatchHeader::default()
            };
            let mut builder = BatchBuilder::new(header);
            builder.push(1_700_000_000_000, Some(b"key"), Some(b"value"), []);
            builder.push(
                1_700_000_000_001,
                None,
                Some(&[7; 300]),
                [(&b"h"[..], Some(&b"1"[..])), (b"h", None)],
            );
            builder.push(1_699_999_999_999, Some(b""), None, []);
            let batch = builder.build().expect("a batch");
            batches.push([&[7, 9], &batch[..]].concat());
        }
    }
    batches
}

/// For `decompression`: the same bytes in every codec.
pub fn compressed() -> Vec<Vec<u8>> {
    let texts =
        [b"abcabcabcabc".to_vec(), vec![0; 5000], (0..2000u32).map(|at| ((at * at) >> 3) as u8).collect()];
    let mut seeds = Vec::new();
    for (at, codec) in CODECS.into_iter().enumerate() {
        for text in &texts {
            let bytes = huld::wire::compression::compress(codec, text).expect("everything can be compressed");
            seeds.push([&[at as u8, 20], &bytes[..]].concat());
        }
    }
    // What is inside the batches too, which has been through xerial framing and the like.
    seeds.extend(batches().iter().map(|batch| [&[batch[2 + 22] & 7, 20], &batch[2 + HEADER_LEN..]].concat()));
    seeds
}
