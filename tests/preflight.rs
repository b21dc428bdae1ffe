//! Preflight against the codec: what the codec encodes passes, and what passes is what the codec decodes.

mod messages;

use bytes::{Bytes, BytesMut};
use huld::base::entropy::Entropy;
use huld::wire::header::{RequestHeader, response_header_version};
use huld::wire::preflight;
use huld::wire::repair::repair;
use kafka_protocol::messages::{ApiKey, RequestKind, ResponseHeader, ResponseKind};
use kafka_protocol::protocol::Decodable;
use messages::{Style, hex};

const STYLES: [Style; 3] = [
    Style { most: 3, sparse_percent: 30 },
    Style { most: 2, sparse_percent: 90 },
    Style { most: 14, sparse_percent: 60 },
];

#[test]
fn every_version_that_the_codec_decodes_has_a_shape_and_its_header() {
    for (api, version) in messages::every_version() {
        let key = api as i16;
        assert!(preflight::shape(key, version).is_ok(), "{api:?} v{version}");
        let flexible = version >= preflight::request(key).unwrap().first_flexible_version;
        assert_eq!(1 + i16::from(flexible), api.request_header_version(version), "{api:?} v{version}");
        assert_eq!(
            response_header_version(key, version),
            api.response_header_version(version),
            "{api:?} v{version}"
        );
    }
}

/// What Kafka 4.1.0 has and the codec has not. When a new codec closes a gap, this says so.
#[test]
fn gaps_of_the_codec() {
    let mut gaps = Vec::new();
    for api in ApiKey::iter() {
        let Some(shapes) = preflight::request(api as i16) else {
            gaps.push(format!("{api:?}"));
            continue;
        };
        let versions = shapes.first_version..shapes.first_version + shapes.by_version.len() as i16;
        let lacking = versions.filter(|&version| !messages::decodes(api, version));
        gaps.extend(lacking.map(|version| format!("{api:?} v{version}")));
    }
    assert_eq!(gaps, ["OffsetCommit v10", "OffsetFetch v10", "InitProducerId v6"]);
}

#[test]
fn valid_messages_pass_and_survive_the_codec() {
    for (api, version) in messages::every_version() {
        for seed in 0..60 {
            let mut entropy = Entropy::new(seed).stream(&format!("{api:?} {version}"));
            let style = STYLES[seed as usize % STYLES.len()];
            let body = messages::random(api, version, style, &mut entropy).bytes;
            let case = || format!("{api:?} v{version} seed {seed}: {}", hex(&body));

            let allowance =
                preflight::check(api as i16, version, &body).unwrap_or_else(|e| panic!("{e}: {}", case()));
            assert_eq!((allowance.trailing_bytes, allowance.irregular), (0, false), "{}", case());
            assert_eq!(repair(api as i16, version, &body).as_deref(), Some(&body[..]), "{}", case());
            let mut rest = Bytes::copy_from_slice(&body);
            let decoded =
                RequestKind::decode(api, &mut rest, version).unwrap_or_else(|e| panic!("{e:#}: {}", case()));
            assert!(rest.is_empty(), "{}", case());

            let mut encoded = BytesMut::new();
            decoded.encode(&mut encoded, version).unwrap_or_else(|e| panic!("{e:#}: {}", case()));
            let again =
                preflight::check(api as i16, version, &encoded).unwrap_or_else(|e| panic!("{e}: {}", case()));
            assert_eq!(again.trailing_bytes, 0, "{}", case());
            let decoded_again = RequestKind::decode(api, &mut encoded.freeze(), version).unwrap();
            assert_eq!(decoded_again, decoded, "{}", case());
        }
    }
}

#[test]
fn a_message_cut_short_is_refused() {
    for (api, version) in messages::every_version() {
        let mut entropy = Entropy::new(1).stream(&format!("{api:?} {version}"));
        let body = messages::random(api, version, STYLES[0], &mut entropy).bytes;
        for len in 0..body.len() {
            assert!(preflight::check(api as i16, version, &body[..len]).is_err(), "{api:?} v{version} {len}");
        }
    }
}

#[test]
fn recorded_requests_pass_and_decode() {
    for exchange in messages::recorded() {
        let case = format!("API {} v{}", exchange.api_key, exchange.version);
        let (header, at) = RequestHeader::parse(&exchange.request).unwrap_or_else(|e| panic!("{e}: {case}"));
        assert_eq!((header.api_key, header.api_version), (exchange.api_key, exchange.version));
        let mut body = Bytes::from(exchange.request).slice(at..);
        let allowance = preflight::check(exchange.api_key, exchange.version, &body)
            .unwrap_or_else(|e| panic!("{e}: {case}"));
        assert_eq!(allowance.trailing_bytes, 0, "{case}");
        let api = ApiKey::try_from(exchange.api_key).expect("a key that the codec knows");
        if messages::decodes(api, exchange.version) {
            RequestKind::decode(api, &mut body, exchange.version).unwrap_or_else(|e| panic!("{e:#}: {case}"));
            assert!(body.is_empty(), "{case}");
        }
    }
}

#[test]
fn recorded_responses_decode() {
    let mut count = 0;
    for exchange in messages::recorded() {
        let Some(response) = exchange.response else { continue };
        let api = ApiKey::try_from(exchange.api_key).expect("a key that the codec knows");
        if !messages::decodes(api, exchange.version) {
            continue;
        }
        let case = format!("API {} v{}", exchange.api_key, exchange.version);
        let mut response = Bytes::from(response);
        let header_version = response_header_version(exchange.api_key, exchange.version);
        ResponseHeader::decode(&mut response, header_version).unwrap_or_else(|e| panic!("{e:#}: {case}"));
        ResponseKind::decode(api, &mut response, exchange.version)
            .unwrap_or_else(|e| panic!("{e:#}: {case}"));
        assert!(response.is_empty(), "{case}: {} bytes left", response.len());
        count += 1;
    }
    assert!(count > 100, "{count}");
}
