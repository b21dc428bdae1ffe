//! Cuts a byte stream into frames: a 32-bit big-endian length and as many bytes (Kafka's `NetworkReceive`).
//!
//! What the frames hold is not this module's business; only where a length is impossible does it look at the bytes
//! once more, to tell what probably knocked at the door.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes of the length before each frame.
pub const LENGTH_BYTES: usize = 4;
/// Fewest bytes in a frame: the API key and version that every request starts with.
pub const MIN_FRAME_BYTES: usize = 4;
/// How much room may always be made for a frame, in bytes.
const FIRST_ROOM_BYTES: usize = 64 * 1024;
/// How many times what has arrived of a frame may be reserved for the rest of it.
const ROOM_FACTOR: usize = 16;

/// A length that can't be one. The connection is closed without a reply, as Kafka does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A TLS handshake record: a client that speaks TLS on a port that doesn't.
    #[error("looks like a TLS hello: the client speaks TLS, this listener doesn't")]
    Tls,
    /// An HTTP request line or answer.
    #[error("looks like HTTP, not Kafka's protocol")]
    Http,
    /// A length below zero.
    #[error("negative frame length {0}")]
    Negative(i32),
    /// Too short for a request header.
    #[error("frame length {0} is too small for a request")]
    TooSmall(usize),
    /// More than the listener takes.
    #[error("frame length {len} is more than the limit of {max} bytes")]
    #[expect(missing_docs, reason = "the names say it")]
    TooLarge { len: usize, max: usize },
}

/// The cutter of one connection. It keeps no bytes itself: those stay in the reader's buffer.
#[derive(Clone, Debug, Default)]
pub struct FrameCutter {
    missing: usize,
    arrived: usize,
}

impl FrameCutter {
    /// Cuts the next frame, without its length, off the front of `buffer`; none if it isn't there as a whole yet.
    /// The frame shares the buffer's memory. After an error the connection can't be read any further.
    pub fn next(
        &mut self,
        buffer: &mut BytesMut,
        max_frame_bytes: usize,
    ) -> Result<Option<Bytes>, FrameError> {
        let Some(prefix) = buffer.first_chunk() else {
            self.wait(buffer, LENGTH_BYTES);
            return Ok(None);
        };
        let whole = LENGTH_BYTES + frame_len(*prefix, max_frame_bytes)?;
        if buffer.len() < whole {
            self.wait(buffer, whole);
            return Ok(None);
        }
        *self = Self::default();
        let mut frame = buffer.split_to(whole).freeze();
        frame.advance(LENGTH_BYTES);
        Ok(Some(frame))
    }

    /// Bytes that the frame (or its length) lacked when [`next`](Self::next) last found none.
    pub fn missing(&self) -> usize {
        self.missing
    }

    /// Bytes to reserve before the next read: what is missing, but not much more than what the peer has already sent.
    /// A length alone reserves 64 KiB; a peer that wants a megabyte reserved must have sent a sixteenth of it.
    pub fn room(&self) -> usize {
        self.missing.min(FIRST_ROOM_BYTES.max(self.arrived.saturating_mul(ROOM_FACTOR)))
    }

    fn wait(&mut self, buffer: &BytesMut, whole: usize) {
        self.arrived = buffer.len();
        self.missing = whole.saturating_sub(buffer.len());
    }
}

/// The length that these bytes say, if a frame may have it.
fn frame_len(prefix: [u8; LENGTH_BYTES], max: usize) -> Result<usize, FrameError> {
    let said = i32::from_be_bytes(prefix);
    match usize::try_from(said) {
        Ok(len) if (MIN_FRAME_BYTES..=max).contains(&len) => Ok(len),
        _ if likely_tls(prefix) => Err(FrameError::Tls),
        _ if likely_http(prefix) => Err(FrameError::Http),
        Ok(len) if len > max => Err(FrameError::TooLarge { len, max }),
        Ok(len) => Err(FrameError::TooSmall(len)),
        Err(_) => Err(FrameError::Negative(said)),
    }
}

/// A record of type handshake (22), version 3.x (RFC 8446, 5.1).
fn likely_tls(prefix: [u8; LENGTH_BYTES]) -> bool {
    matches!(prefix, [0x16, 0x03, 0..=4, _])
}

fn likely_http(prefix: [u8; LENGTH_BYTES]) -> bool {
    const STARTS: [&[u8; LENGTH_BYTES]; 10] =
        [b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"DELE", b"PATC", b"CONN", b"PRI ", b"HTTP"];
    STARTS.contains(&&prefix)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut;

    const MAX: usize = 1000;

    fn framed(bodies: &[&[u8]]) -> BytesMut {
        let mut stream = BytesMut::new();
        for body in bodies {
            stream.put_u32(body.len() as u32);
            stream.put_slice(body);
        }
        stream
    }

    #[test]
    fn many_frames_in_one_segment() {
        let mut buffer = framed(&[b"first", b"second one", b"four"]);
        let mut cutter = FrameCutter::default();
        assert_eq!(cutter.next(&mut buffer, MAX), Ok(Some(Bytes::from_static(b"first"))));
        assert_eq!(cutter.next(&mut buffer, MAX), Ok(Some(Bytes::from_static(b"second one"))));
        assert_eq!(cutter.next(&mut buffer, MAX), Ok(Some(Bytes::from_static(b"four"))));
        assert_eq!(cutter.next(&mut buffer, MAX), Ok(None));
        assert_eq!(cutter.missing(), LENGTH_BYTES);
    }

    #[test]
    fn one_byte_at_a_time() {
        let stream = framed(&[b"first", b"second one"]);
        let (mut buffer, mut cutter, mut frames) = (BytesMut::new(), FrameCutter::default(), Vec::new());
        for (at, byte) in stream.iter().enumerate() {
            buffer.put_u8(*byte);
            frames.extend(cutter.next(&mut buffer, MAX).unwrap());
            let missing = match at {
                0..3 => 3 - at,
                3..8 => 8 - at,
                8 => 0,
                9..12 => 12 - at,
                _ => 22 - at,
            };
            assert_eq!(cutter.missing(), missing, "after byte {at}");
        }
        assert_eq!(frames, [&b"first"[..], b"second one"]);
    }

    #[test]
    fn frame_is_not_copied() {
        let mut buffer = framed(&[b"first"]);
        let at = buffer.as_ptr().wrapping_add(LENGTH_BYTES);
        let frame = FrameCutter::default().next(&mut buffer, MAX).unwrap().unwrap();
        assert_eq!(frame.as_ptr(), at);
    }

    #[test]
    fn impossible_lengths_say_what_they_look_like() {
        let cut = |bytes: &[u8]| FrameCutter::default().next(&mut BytesMut::from(bytes), MAX).unwrap_err();
        assert_eq!(cut(&[0x16, 0x03, 0x01, 0x02, 0x00]), FrameError::Tls);
        assert_eq!(cut(b"GET / HTTP/1.1\r\n"), FrameError::Http);
        assert_eq!(cut(b"HTTP/1.1 200 OK"), FrameError::Http);
        assert_eq!(cut(&(-1i32).to_be_bytes()), FrameError::Negative(-1));
        assert_eq!(cut(&i32::MIN.to_be_bytes()), FrameError::Negative(i32::MIN));
        assert_eq!(cut(&[0, 0, 0, 0]), FrameError::TooSmall(0));
        assert_eq!(cut(&[0, 0, 0, 3]), FrameError::TooSmall(3));
        assert_eq!(cut(&1001i32.to_be_bytes()), FrameError::TooLarge { len: 1001, max: MAX });
        assert_eq!(cut(&i32::MAX.to_be_bytes()), FrameError::TooLarge { len: i32::MAX as usize, max: MAX });
    }

    #[test]
    fn limits_are_inclusive() {
        for body in [&[7u8; 4][..], &[7; MAX]] {
            let mut buffer = framed(&[body]);
            let frame = FrameCutter::default().next(&mut buffer, MAX).unwrap().unwrap();
            assert_eq!(frame, body);
        }
    }

    #[test]
    fn room_follows_what_arrived() {
        const CLAIM: usize = 100 << 20;
        let (mut buffer, mut cutter) = (BytesMut::new(), FrameCutter::default());
        buffer.put_u32(CLAIM as u32);
        assert_eq!(cutter.next(&mut buffer, CLAIM), Ok(None));
        assert_eq!((cutter.missing(), cutter.room()), (CLAIM, FIRST_ROOM_BYTES));
        buffer.put_bytes(0, FIRST_ROOM_BYTES);
        assert_eq!(cutter.next(&mut buffer, CLAIM), Ok(None));
        assert_eq!(cutter.room(), (FIRST_ROOM_BYTES + LENGTH_BYTES) * ROOM_FACTOR);
        buffer.put_bytes(0, CLAIM - FIRST_ROOM_BYTES - 10);
        assert_eq!(cutter.next(&mut buffer, CLAIM), Ok(None));
        assert_eq!((cutter.missing(), cutter.room()), (10, 10));
    }
}
