//! However large a batch says it is, or becomes when decompressed, checking it takes little memory: a window for the
//! walk, and a block of the codec. Only what must hold all records (a rebuild) may take as much as the limit.

mod counting;

use bytes::Bytes;
use counting::measured;
use huld::base::ErrorCode;
use huld::wire::batch::{BatchView, Codec, HEADER_LEN};
use huld::wire::check::{Rejection, TimestampType, TopicRules, check_context_free};
use huld::wire::compression::{compress, decompress};
use huld::wire::records::{BatchBuilder, BatchHeader};
use huld::wire::walk::{first_record_at_or_after, walk};

const MIB: usize = 1 << 20;
const NOW_MS: i64 = 1_700_000_000_000;
/// Batches of any size, so that they are refused for what is in them.
const RULES: TopicRules = TopicRules {
    timestamp_type: TimestampType::CreateTime,
    max_message_bytes: usize::MAX,
    before_max_ms: i64::MAX,
    after_max_ms: i64::MAX,
    compacted: false,
    compression: None,
};
const CODECS: [Codec; 4] = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

/// A batch header that claims `count` records, before any `body`.
fn batch(codec: Codec, count: i32, body: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    builder.push(NOW_MS, None, None, []);
    let mut bytes = builder.build().unwrap()[..HEADER_LEN].to_vec();
    bytes.extend_from_slice(body);
    let length = (bytes.len() - 12) as i32;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[22] = codec as u8;
    bytes[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    bytes[57..61].copy_from_slice(&count.to_be_bytes());
    let crc = crc32c::crc32c(&bytes[21..]);
    bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    Bytes::from(bytes)
}

/// `content` many times over, compressed as a stream of `times` parts.
fn repeated(codec: Codec, content: &[u8], times: usize) -> Vec<u8> {
    let part = compress(codec, content).unwrap();
    match codec {
        Codec::Snappy => [&part[..16], &part[16..].repeat(times)].concat(),
        Codec::Lz4 => [&part[..7], &part[7..part.len() - 4].repeat(times), &[0; 4]].concat(),
        Codec::None | Codec::Gzip | Codec::Zstd => part.repeat(times),
    }
}

fn verdict(bytes: &Bytes, limit: usize) -> Result<Bytes, Rejection> {
    check_context_free(bytes.clone(), 13, limit).unwrap().accept(&RULES, NOW_MS, &"t-0")
}

#[test]
fn millions_of_tiny_records_are_walked_in_bounded_memory() {
    // Length 6: attributes, timestamp, offset, null key, null value, no headers.
    let chunk = [12, 0, 0, 0, 1, 1, 0].repeat(10_000);
    for codec in CODECS {
        let bomb = batch(codec, 3_000_000, &repeated(codec, &chunk, 300));
        let (seen, taken) = measured(|| {
            let mut seen = 0;
            walk(&bomb, 100 * MIB, |_| {
                seen += 1;
                std::ops::ControlFlow::Continue(())
            })
            .map(|decompressed| (seen, decompressed))
        });
        assert_eq!(seen, Ok((3_000_000, 300 * chunk.len())), "{codec:?}");
        assert!(taken < MIB, "{codec:?} took {taken} bytes");
        let (refused, taken) = measured(|| verdict(&bomb, 5 * MIB));
        assert_eq!(refused.unwrap_err().code, ErrorCode::InvalidRecord, "{codec:?}");
        assert!(taken < MIB, "{codec:?} took {taken} bytes");
    }
}

#[test]
fn a_gigabyte_of_zeros_in_one_record_is_refused_in_bounded_memory() {
    for codec in CODECS {
        let zeros = repeated(codec, &vec![0; MIB], 1024);
        let bomb = batch(codec, 1, &zeros);
        let (refused, taken) = measured(|| verdict(&bomb, 64 * MIB));
        assert!(refused.is_err(), "{codec:?}");
        assert!(taken < MIB, "{codec:?} took {taken} bytes to check");
        let (found, taken) = measured(|| first_record_at_or_after(&bomb, NOW_MS + 1, 0, 64 * MIB));
        assert!(found.is_err(), "{codec:?}");
        assert!(taken < MIB, "{codec:?} took {taken} bytes to look up");

        let limit = 4 * MIB;
        let (refused, taken) = measured(|| decompress(codec, &Bytes::from(zeros), limit));
        assert!(refused.is_err(), "{codec:?}");
        // Memory grows by copying, so that the old and the new are held at once.
        assert!(taken < 2 * limit, "{codec:?} took {taken} bytes for {limit}");
    }
}

#[test]
fn claims_cost_nothing() {
    let record_counts = [i32::MAX, 1 << 20, 1];
    let lengths: [&[u8]; 3] = [&[0xfe, 0xff, 0xff, 0xff, 0x0f], &[0xff; 9], &[0x80, 0x80, 0x80, 0x80, 0x08]];
    for count in record_counts {
        for length in lengths {
            let header_count = [&[30, 0, 0, 0, 1, 1][..], length, &[0; 9]].concat();
            for body in [length, &header_count] {
                for codec in CODECS {
                    let bytes = batch(codec, count, &compress(codec, body).unwrap());
                    let (refused, taken) = measured(|| verdict(&bytes, 64 * MIB));
                    assert!(refused.is_err());
                    assert!(taken < MIB, "{codec:?} {count} {length:x?} took {taken} bytes");
                }
                let bytes = batch(Codec::None, count, body);
                let (refused, taken) = measured(|| verdict(&bytes, 64 * MIB));
                assert!(refused.is_err());
                assert!(taken < 1024, "{count} {length:x?} took {taken} bytes");
            }
        }
    }
    // A snappy block that claims 2 GiB in five bytes.
    let claim = batch(Codec::Snappy, 1, &[0xff, 0xff, 0xff, 0xff, 0x07, 0, 0]);
    let (refused, taken) = measured(|| verdict(&claim, usize::MAX));
    assert!(refused.is_err());
    assert!(taken < MIB, "took {taken} bytes");
}

#[test]
fn a_plain_batch_is_checked_without_memory() {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    for _ in 0..1000 {
        builder.push(NOW_MS, Some(b"key"), Some(&[7; 100]), [(&b"header"[..], None)]);
    }
    let bytes = builder.build().unwrap();
    let (accepted, taken) = measured(|| verdict(&bytes, 64 * MIB));
    assert_eq!(accepted, Ok(bytes.clone()));
    // The count of owners of the bytes, at most.
    assert!(taken < 100, "took {taken} bytes");
    assert_eq!(BatchView::new(&bytes).unwrap().count(), 1000);
}
