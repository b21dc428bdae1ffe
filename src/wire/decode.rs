//! The way from a request's body to the codec's struct: preflight, decode, and one more try for what Kafka reads and
//! the codec doesn't.

use bytes::Bytes;
use kafka_protocol::protocol::Decodable;

use super::preflight::{self, PreflightError};
use super::repair::repair;

/// Why a body can't be decoded. Kafka closes the connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Preflight refused it.
    #[error(transparent)]
    Preflight(#[from] PreflightError),
    /// The codec couldn't read it; its own words.
    #[error("{0}")]
    Codec(String),
}

/// Decodes a request's body as the codec's `W`, which must be the request of this API, within
/// [`preflight::memory_limit`] of the body's length. Bytes after the request are ignored, as Kafka does. Strings and
/// bytes in the result share the frame's memory.
pub fn decode<W: Decodable>(api_key: i16, version: i16, body: Bytes) -> Result<W, DecodeError> {
    let allowance = preflight::check(api_key, version, &body)?;
    let mut failure = None;
    if !allowance.irregular {
        match W::decode(&mut body.clone(), version) {
            Ok(request) => return Ok(request),
            Err(error) => failure = Some(error),
        }
    }
    let repaired = repair(api_key, version, &body).filter(|repaired| *repaired != body);
    match (repaired, failure) {
        (Some(repaired), _) => {
            preflight::check(api_key, version, &repaired)?;
            W::decode(&mut Bytes::from(repaired), version)
                .map_err(|error| DecodeError::Codec(error.root_cause().to_string()))
        }
        (None, Some(error)) => Err(DecodeError::Codec(error.root_cause().to_string())),
        (None, None) => Err(DecodeError::Codec("a text is too long once it is made UTF-8".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::messages::MetadataRequest;

    fn metadata(version: i16, body: &'static [u8]) -> Result<MetadataRequest, DecodeError> {
        decode(3, version, Bytes::from_static(body))
    }

    // The outcomes of these are Apache Kafka 4.1.0's, seen on the wire.
    #[test]
    fn oddities_that_kafka_reads() {
        assert_eq!(metadata(1, b"\xff\xff\xff\xfe").unwrap().topics, None);
        let not_utf_8 = metadata(1, b"\0\0\0\x01\0\x02\xff\xfe").unwrap().topics.unwrap();
        assert_eq!(not_utf_8[0].name.as_ref().unwrap().as_str(), "\u{fffd}\u{fffd}");
        assert!(metadata(4, b"\0\0\0\0\x07").unwrap().allow_auto_topic_creation);
        assert!(metadata(9, b"\x01\0\0\0\x02\x05\0\x03\0").is_ok(), "tags out of order");
        assert!(metadata(9, b"\x01\0\0\0\x02\x05\0\x05\0").is_ok(), "a tag twice");
        assert!(metadata(9, b"\x01\0\0\0\0and more").is_ok(), "bytes after the request");
    }

    #[test]
    fn oddities_that_kafka_does_not_read() {
        use preflight::Reason;
        let reason = |version, body| match metadata(version, body) {
            Err(DecodeError::Preflight(error)) => error.reason,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            reason(1, b"\x7f\xff\xff\xff"),
            Reason::CountBeyondEnd { count: 0x7fff_ffff, remaining: 0 }
        );
        assert_eq!(reason(0, b"\xff\xff\xff\xff"), Reason::UnexpectedNull);
        assert_eq!(reason(1, b"\0\0\0\x01\xff\xff"), Reason::UnexpectedNull);
        assert_eq!(reason(9, b"\xff\xff\xff\xff\xff\xff"), Reason::LongVarint);
        assert_eq!(
            reason(9, b"\x01\0\0\0\xff\xff\xff\xff\x07"),
            Reason::CountBeyondEnd { count: 0x7fff_ffff, remaining: 0 }
        );
    }
}
