//! From a response to the bytes of its frame.

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::protocol::{Encodable, HeaderVersion};

use super::Reply;

/// A response that could not be encoded: a defect of huld, never of the client.
#[derive(Debug, thiserror::Error)]
#[error("the response can't be encoded: {0}")]
pub struct EncodeError(pub(crate) String);

/// A response that knows how to encode itself.
pub(crate) trait Response {
    /// 0, or 1 where the header has tagged fields.
    fn header_version(&self, version: i16) -> i16;

    /// Whether [`Response::finish`] would take so long that others should not have to wait for it.
    fn is_heavy(&self) -> bool {
        false
    }

    /// Does the work that was left to be done outside of the cluster; if it wasn't, `encode` does it.
    fn finish(&mut self) {}

    /// Appends the body to `frame`.
    fn encode(&self, version: i16, frame: &mut Frame<'_>) -> Result<(), EncodeError>;
}

impl<T: Encodable + HeaderVersion> Response for T {
    fn header_version(&self, version: i16) -> i16 {
        T::header_version(version)
    }

    fn encode(&self, version: i16, frame: &mut Frame<'_>) -> Result<(), EncodeError> {
        let size = self.compute_size(version).map_err(|error| EncodeError(error.to_string()))?;
        frame.buffer.reserve(size);
        Encodable::encode(self, frame.buffer, version).map_err(|error| EncodeError(error.to_string()))
    }
}

/// A frame being written: bytes of its own, and shared bytes between them.
///
/// ```text
/// length 4 | correlation id 4 | tagged fields 0 or 1 | body…
/// ```
pub(crate) struct Frame<'a> {
    /// Takes the bytes of the frame's own.
    pub(crate) buffer: &'a mut BytesMut,
    parts: &'a mut Vec<Bytes>,
    /// The frame's start, once shared bytes have followed it; its place in `parts` is kept free.
    head: Option<BytesMut>,
    /// Bytes behind the head that are in `parts` already.
    behind: usize,
}

/// Up to this many bytes are copied rather than shared: below it, a copy costs less than another part to write.
const COPY_UP_TO: usize = 512;

impl<'a> Frame<'a> {
    /// Adds bytes, copied if there are few of them.
    pub(crate) fn share_or_copy(&mut self, bytes: &Bytes) {
        if bytes.len() <= COPY_UP_TO {
            self.buffer.extend_from_slice(bytes);
        } else {
            self.share(bytes.clone());
        }
    }

    /// Adds bytes without copying them.
    pub(crate) fn share(&mut self, bytes: Bytes) {
        let own = self.buffer.split();
        if self.head.is_none() {
            self.parts.push(Bytes::new());
            self.head = Some(own);
        } else {
            self.behind += own.len();
            self.parts.push(own.freeze());
        }
        self.behind += bytes.len();
        self.parts.push(bytes);
    }
}

/// Encodes the response of `reply` into the parts of one frame, its length first, and adds them to `parts`. `buffer`
/// is scratch space whose memory is used again once the parts made from it are gone. A reply without a response adds
/// nothing.
///
/// # Errors
/// If the response has a value that its version can't express, or is larger than a frame can be; `parts` is then
/// as before.
pub fn encode(reply: &Reply, buffer: &mut BytesMut, parts: &mut Vec<Bytes>) -> Result<(), EncodeError> {
    let Some(response) = &reply.response else { return Ok(()) };
    let response = response.0.as_encodable();
    let first = parts.len();
    buffer.clear();
    buffer.put_i32(0);
    buffer.put_i32(reply.correlation_id);
    if response.header_version(reply.version) >= 1 {
        buffer.put_u8(0);
    }
    let mut frame = Frame { buffer, parts, head: None, behind: 0 };
    let encoded = response.encode(reply.version, &mut frame);
    let Frame { buffer, parts, head, behind } = frame;
    let tail = buffer.split();
    let whole = head.as_ref().map_or(0, BytesMut::len) + behind + tail.len();
    let length = encoded.and_then(|()| {
        i32::try_from(whole - 4).map_err(|_| EncodeError("it is larger than 2 GiB".to_owned()))
    });
    let length = match length {
        Ok(length) => length,
        Err(error) => {
            parts.truncate(first);
            return Err(error);
        }
    };
    let (mut head, tail) = match head {
        Some(head) => (head, Some(tail)),
        None => {
            parts.push(Bytes::new());
            (tail, None)
        }
    };
    head[..4].copy_from_slice(&length.to_be_bytes());
    parts[first] = head.freeze();
    parts.extend(tail.filter(|tail| !tail.is_empty()).map(BytesMut::freeze));
    Ok(())
}

impl Reply {
    /// Whether there is work left in it that takes so long that it should be done aside, by [`Reply::finish`]: to look
    /// into large batches.
    pub fn is_heavy(&self) -> bool {
        self.response.as_ref().is_some_and(|response| response.0.as_encodable().is_heavy())
    }

    /// Does the work that is left.
    pub fn finish(mut self) -> Self {
        if let Some(response) = &mut self.response {
            response.0.as_encodable_mut().finish();
        }
        self
    }
}

/// The body alone, in one piece: what tests compare.
#[cfg(test)]
pub(crate) fn body_of(response: &dyn Response, version: i16) -> BytesMut {
    let (mut buffer, mut parts) = (BytesMut::new(), Vec::new());
    let mut frame = Frame { buffer: &mut buffer, parts: &mut parts, head: None, behind: 0 };
    response.encode(version, &mut frame).unwrap();
    let mut body = frame.head.take().unwrap_or_default();
    parts.iter().for_each(|part| body.extend_from_slice(part));
    body.extend_from_slice(&buffer);
    body
}
