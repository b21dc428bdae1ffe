//! What passes preflight is decoded within its allowance, and nothing that a peer sends aborts or panics.
//!
//! The allocator of this test counts the bytes that each thread holds, so that a decoder that believes a count is
//! found out even where the memory would have been there.

mod counting;
mod messages;

use bytes::Bytes;
use counting::measured;
use huld::base::entropy::Entropy;
use huld::wire::preflight::{self, MEMORY_ALLOWANCE_BYTES, MEMORY_FACTOR, memory_limit};
use huld::wire::repair::repair;
use kafka_protocol::messages::{ApiKey, RequestKind};
use messages::{Style, hex};

/// What decoding takes beside the message: the count of the frame's owners, and the words of an error.
const SLACK_BYTES: usize = 4096;

/// Preflight's verdict on a body, and what decoding then takes.
fn examine(api: ApiKey, version: i16, body: &[u8]) -> bool {
    let case = || format!("{api:?} v{version}, {} bytes: {}", body.len(), hex(&body[..body.len().min(200)]));
    let (verdict, taken) = measured(|| preflight::check(api as i16, version, body));
    assert_eq!(taken, 0, "preflight allocates nothing: {}", case());
    let Ok(allowance) = verdict else { return false };
    assert!(allowance.decoded_bytes <= memory_limit(body.len()), "{}", case());

    let mut bytes = Bytes::copy_from_slice(body);
    let (decoded, taken) = measured(|| RequestKind::decode(api, &mut bytes, version));
    assert!(taken <= allowance.decoded_bytes + SLACK_BYTES, "{taken} bytes where {allowance:?}: {}", case());
    assert!(taken <= memory_limit(body.len()), "{taken} bytes: {}", case());
    drop(decoded);

    if body.len() < 4096
        && let Some(repaired) = repair(api as i16, version, body)
    {
        assert!(repaired.len() <= 3 * body.len() + 8, "{}", case());
        assert!(preflight::check(api as i16, version, &repaired).is_ok_and(|it| !it.irregular), "{}", case());
    }
    true
}

#[test]
fn the_limits_are_those_of_the_design() {
    assert_eq!((MEMORY_FACTOR, MEMORY_ALLOWANCE_BYTES), (16, 1024 * 1024));
    assert_eq!(memory_limit(1000), 16_000 + (1 << 20));
}

#[test]
fn every_length_overwritten_in_turn() {
    let styles = [10, 30, 60, 10, 30, 60].map(|sparse_percent| Style { most: 3, sparse_percent });
    let (mut passed, mut refused) = (0, 0);
    for (api, version) in messages::every_version() {
        for (seed, style) in styles.into_iter().enumerate() {
            let mut entropy = Entropy::new(seed as u64).stream(&format!("{api:?} {version}"));
            let body = messages::random(api, version, style, &mut entropy);
            assert!(examine(api, version, &body.bytes));
            for lie in body.lies() {
                if examine(api, version, &lie) { passed += 1 } else { refused += 1 }
            }
        }
    }
    // Some lies are harmless: the count of an empty array made null, the size of a tagged field.
    assert!(refused > 4 * passed && passed > 0, "{passed} lies passed, {refused} did not");
}

#[test]
fn random_bytes_in_valid_messages() {
    for (api, version) in messages::every_version() {
        let mut entropy = Entropy::new(7).stream(&format!("{api:?} {version}"));
        for _ in 0..40 {
            let style = Style { most: 4, sparse_percent: 40 };
            let mut body = messages::random(api, version, style, &mut entropy).bytes;
            for _ in 0..=entropy.below(4) {
                let at = entropy.below(body.len() as u64) as usize;
                if let Some(byte) = body.get_mut(at) {
                    *byte = [0, 1, 0x7f, 0x80, 0xff, entropy.next_u64() as u8][entropy.below(6) as usize];
                }
            }
            examine(api, version, &body);
        }
    }
}

#[test]
fn floods_of_small_elements() {
    let (mut passed, mut refused) = (0, 0);
    let mut last_shape = None;
    for (api, version) in messages::every_version() {
        let shape = preflight::shape(api as i16, version).unwrap();
        if last_shape.replace(shape).is_some_and(|last| std::ptr::eq(last, shape)) {
            continue;
        }
        for (tags, count) in [(0, 100), (0, 16_000), (1, 50), (1, 3_000), (12, 300), (200, 60)] {
            let body = messages::flood(api, version, count, tags).bytes;
            if examine(api, version, &body) { passed += 1 } else { refused += 1 }
        }
    }
    assert!(passed > 50 && refused > 50, "{passed} floods passed, {refused} did not");
}

#[test]
fn four_bytes_that_ask_for_154_gigabytes() {
    for (api, version) in messages::every_version() {
        for count in [[0x7f, 0xff, 0xff, 0xff], [0xff, 0xff, 0xff, 0x7f], [0x80, 0, 0, 0], [0xff; 4]] {
            examine(api, version, &count);
            examine(api, version, &[&count[..], &[0x0f; 60]].concat());
        }
    }
}

#[test]
fn metadata_for_10_000_short_names_is_legitimate() {
    for version in 0..=13 {
        let flexible = version >= 9;
        let mut body = if flexible { vec![0x91, 0x4e] } else { 10_000i32.to_be_bytes().to_vec() };
        for _ in 0..10_000 {
            if version >= 10 {
                body.extend([0; 16]);
            }
            body.extend(if flexible { &b"\x02t\0"[..] } else { b"\0\x01t" });
        }
        body.extend(match version {
            0..=3 => &[][..],
            4..=7 => &[1],
            8 => &[1, 0, 0],
            9..=10 => &[1, 0, 0, 0],
            _ => &[1, 0, 0],
        });
        assert!(examine(ApiKey::Metadata, version, &body), "version {version}");
    }
}
