//! The header before every request's body, and which header a response has.
//!
//! Version 1 is API key, API version, correlation id and client id; version 2 adds tagged fields, and belongs to the
//! flexible versions of an API (KIP-482). The client id has a 16-bit length in both. (Kafka's `RequestHeader`.)

use std::borrow::Cow;

use super::preflight;

/// The API that is answered at any version, so that a client can learn which ones there are.
pub const API_VERSIONS: i16 = 18;

/// A request's header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// Which API; a key that [`preflight::request`] knows.
    pub api_key: i16,
    /// Which version of it, whether it is known or not.
    pub api_version: i16,
    /// Given back in the response.
    pub correlation_id: i32,
    /// None if null (any negative length), which Kafka takes for "". Bytes that aren't UTF-8 are replaced, as Kafka does.
    pub client_id: Option<Cow<'a, str>>,
}

/// A header that can't be read. The connection is closed without a reply, as Kafka does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Not an API key of Kafka's, or one that no message is known for.
    #[error("unknown API key {api_key} (version {api_version}): not a Kafka client, or a newer one")]
    #[expect(missing_docs, reason = "the names say it")]
    UnknownApiKey { api_key: i16, api_version: i16 },
    /// The frame ends inside the header.
    #[error("the frame ends inside the request header")]
    Truncated,
    /// A count, tag or size in the tagged fields takes more than five bytes.
    #[error("a varint of more than five bytes in the request header")]
    LongVarint,
}

impl<'a> RequestHeader<'a> {
    /// Reads the header that `frame` starts with; returns it and where the body starts. The version needn't be one
    /// that is served: that is for the caller to see, who can answer an ApiVersions request all the same. Whatever
    /// comes after the last known version is taken to be flexible, and so Apache Kafka 4.1.0 does: it answers
    /// ApiVersions 99 if tagged fields follow the client id, and closes the connection if they don't.
    pub fn parse(frame: &'a [u8]) -> Result<(Self, usize), HeaderError> {
        let mut rest = frame;
        let api_key = i16::from_be_bytes(take(&mut rest)?);
        let api_version = i16::from_be_bytes(take(&mut rest)?);
        let shapes =
            preflight::request(api_key).ok_or(HeaderError::UnknownApiKey { api_key, api_version })?;
        let correlation_id = i32::from_be_bytes(take(&mut rest)?);
        let client_id = match usize::try_from(i16::from_be_bytes(take(&mut rest)?)) {
            Ok(len) => Some(String::from_utf8_lossy(split(&mut rest, len)?)),
            Err(_) => None,
        };
        if api_version >= shapes.first_flexible_version {
            skip_tagged_fields(&mut rest)?;
        }
        Ok((Self { api_key, api_version, correlation_id, client_id }, frame.len() - rest.len()))
    }
}

/// The version of the header that a response carries: 1 (tagged fields) for flexible versions, 0 for others and for
/// all of ApiVersions, whose client can't know yet what the broker speaks (KIP-511).
pub fn response_header_version(api_key: i16, api_version: i16) -> i16 {
    let flexible = preflight::request(api_key).is_some_and(|it| api_version >= it.first_flexible_version);
    i16::from(flexible && api_key != API_VERSIONS)
}

/// No tag is defined for a request's header; Kafka reads over whatever is there.
fn skip_tagged_fields(rest: &mut &[u8]) -> Result<(), HeaderError> {
    let count = varint(rest)? as usize;
    if count > rest.len() / 2 {
        return Err(HeaderError::Truncated);
    }
    for _ in 0..count {
        varint(rest)?;
        let size = varint(rest)? as usize;
        split(rest, size)?;
    }
    Ok(())
}

fn varint(rest: &mut &[u8]) -> Result<u32, HeaderError> {
    let mut value = 0;
    for at in 0..5 {
        let [byte] = take(rest)?;
        value |= u32::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(HeaderError::LongVarint)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], HeaderError> {
    rest.split_off(..N).and_then(|taken| taken.try_into().ok()).ok_or(HeaderError::Truncated)
}

fn split<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], HeaderError> {
    rest.split_off(..len).ok_or(HeaderError::Truncated)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of Kafka's layout, correlation id 7, then `rest`.
    fn header(api_key: i16, api_version: i16, client_id: &[u8], rest: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(api_key.to_be_bytes());
        bytes.extend(api_version.to_be_bytes());
        bytes.extend(7i32.to_be_bytes());
        bytes.extend((client_id.len() as i16).to_be_bytes());
        bytes.extend(client_id);
        bytes.extend(rest);
        bytes
    }

    fn body(frame: &[u8]) -> &[u8] {
        &frame[RequestHeader::parse(frame).unwrap().1..]
    }

    #[test]
    fn version_1_has_no_tagged_fields() {
        let frame = header(3, 8, b"rdkafka", b"body");
        let (read, at) = RequestHeader::parse(&frame).unwrap();
        let client_id = Some("rdkafka".into());
        assert_eq!(read, RequestHeader { api_key: 3, api_version: 8, correlation_id: 7, client_id });
        assert_eq!(&frame[at..], b"body");
    }

    #[test]
    fn version_2_reads_over_tagged_fields() {
        assert_eq!(body(&header(3, 9, b"c", b"\0body")), b"body");
        assert_eq!(body(&header(3, 9, b"c", b"\x02\x00\x01x\x90\x01\x02yzbody")), b"body");
    }

    #[test]
    fn null_client_id() {
        for low in [0xff, 0xfe] {
            let frame = [0, 3, 0, 0, 0, 0, 0, 7, 0xff, low, 1];
            let (read, at) = RequestHeader::parse(&frame).unwrap();
            assert_eq!((read.client_id, at), (None, 10));
        }
    }

    #[test]
    fn client_id_that_is_not_utf_8() {
        let frame = header(3, 0, b"a\xffb", b"");
        assert_eq!(RequestHeader::parse(&frame).unwrap().0.client_id.as_deref(), Some("a\u{fffd}b"));
    }

    #[test]
    fn every_cut_is_an_error() {
        let frame = header(3, 9, b"client", b"\x01\x05\x02yz");
        for len in 0..frame.len() {
            assert_eq!(RequestHeader::parse(&frame[..len]), Err(HeaderError::Truncated), "{len} bytes");
        }
        assert_eq!(RequestHeader::parse(&frame).unwrap().1, frame.len());
    }

    #[test]
    fn lying_lengths() {
        let parse = |tags: &[u8]| RequestHeader::parse(&header(3, 9, b"c", tags)).map(|_| ()).unwrap_err();
        assert_eq!(parse(b"\xff\xff\xff\xff\x07"), HeaderError::Truncated);
        assert_eq!(parse(b"\x01\x00\xff\xff\xff\xff\x0f"), HeaderError::Truncated);
        assert_eq!(parse(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), HeaderError::LongVarint);
    }

    #[test]
    fn unknown_keys() {
        for api_key in [-1, 4, 93, 9999, i16::MIN, i16::MAX] {
            let error = HeaderError::UnknownApiKey { api_key, api_version: 0 };
            assert_eq!(RequestHeader::parse(&header(api_key, 0, b"", b"")), Err(error));
        }
    }

    #[test]
    fn api_versions_of_an_unknown_version() {
        assert_eq!(body(&header(API_VERSIONS, 999, b"c", b"\0new")), b"new");
        assert_eq!(body(&header(API_VERSIONS, -1, b"c", b"\x7f")), b"\x7f");
        for tags in [&b""[..], b"\x7f"] {
            assert_eq!(
                RequestHeader::parse(&header(API_VERSIONS, 999, b"c", tags)),
                Err(HeaderError::Truncated)
            );
        }
    }

    #[test]
    fn response_headers() {
        assert_eq!(response_header_version(API_VERSIONS, 0), 0);
        assert_eq!(response_header_version(API_VERSIONS, 4), 0);
        assert_eq!(response_header_version(3, 8), 0);
        assert_eq!(response_header_version(3, 9), 1);
        // SaslHandshake and OffsetDelete never became flexible.
        assert_eq!(response_header_version(17, 1), 0);
        assert_eq!(response_header_version(47, 0), 0);
    }
}
