//! Bytes of real clients and of Apache Kafka: huld takes every recorded request of an API that it serves, and the codec
//! writes every recorded answer as Kafka wrote it.

mod messages;

use bytes::{BufMut, Bytes, BytesMut};
use huld::api::{Preparer, Refusal, TABLE};
use huld::wire::header::response_header_version;
use kafka_protocol::messages::{ApiKey, ResponseHeader, ResponseKind};
use kafka_protocol::protocol::{Decodable, Encodable};
use messages::Exchange;

fn served(api_key: i16, version: i16) -> bool {
    let row = TABLE.iter().find(|entry| entry.key == api_key);
    // A newer ApiVersions is answered all the same.
    row.is_some_and(|row| {
        (row.min_version..=row.max_version).contains(&version) || api_key == ApiKey::ApiVersions as i16
    })
}

fn exchanges() -> impl Iterator<Item = (String, Exchange)> {
    messages::recorded().into_iter().chain(messages::sessions()).map(|exchange| {
        (
            format!("API {} v{}: {}", exchange.api_key, exchange.version, messages::hex(&exchange.request)),
            exchange,
        )
    })
}

#[test]
fn recorded_requests_are_prepared_where_they_are_served() {
    let mut count = 0;
    let mut preparer = Preparer::default();
    for (case, exchange) in exchanges() {
        match preparer.prepare(Bytes::from(exchange.request)) {
            Ok(prepared) => {
                assert!(served(exchange.api_key, exchange.version), "{case}");
                assert_eq!(prepared.request.api().key, exchange.api_key, "{case}");
                count += 1;
            }
            Err(Refusal::UnknownApi { .. } | Refusal::UnsupportedVersion { .. }) => {
                assert!(!served(exchange.api_key, exchange.version), "{case}");
            }
            Err(refusal) => panic!("{refusal}: {case}"),
        }
    }
    assert!(count > 300, "{count}");
}

#[test]
fn recorded_answers_are_encoded_again_byte_for_byte() {
    let mut count = 0;
    for (case, exchange) in exchanges() {
        let Some(recorded) = exchange.response.map(Bytes::from) else { continue };
        let api = ApiKey::try_from(exchange.api_key).expect("a key that the codec knows");
        // Kafka 4.1 knows versions up to 4, and answers newer requests in version 0.
        let version = if api == ApiKey::ApiVersions && exchange.version > 4 { 0 } else { exchange.version };
        if !served(exchange.api_key, version) || !messages::decodes(api, version) {
            continue;
        }
        let header_version = response_header_version(exchange.api_key, version);
        let mut rest = recorded.clone();
        let header = ResponseHeader::decode(&mut rest, header_version).unwrap();
        let response = ResponseKind::decode(api, &mut rest, version).unwrap();
        assert!(rest.is_empty(), "{case}");
        let mut again = BytesMut::new();
        header.encode(&mut again, header_version).unwrap();
        let mut body = BytesMut::new();
        response.encode(&mut body, version).unwrap();
        again.put(body);
        assert_eq!(messages::hex(&again), messages::hex(&recorded), "{case}");
        count += 1;
    }
    assert!(count > 300, "{count}");
}
