//! One client's connection without its socket: bytes in, requests out; replies in, bytes out.
//!
//! A session cuts frames, prepares the requests in them one at a time, and queues encoded replies. As Kafka mutes a
//! channel, it gives out no request while an earlier one waits for its reply, so replies are in order and a client
//! can't make us hold more than what one read brought. It never sees a socket, a clock or the cluster: its driver
//! reads into [`Session::read_buffer`], hands [`Session::next_request`] to the cluster, gives the reply to
//! [`Session::answer`], and writes [`Session::output`].
//!
//! A session that waits holds no buffer (see [`Session::release`]): ten thousand long polls cost what their few
//! fields cost.
//!
//! What peers send must not make it panic, hence the lints.

#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod input;
mod output;

use bytes::buf::Limit;
use bytes::{Bytes, BytesMut};

use crate::api::{EncodeError, PrepareLimits, Prepared, Preparer, Refusal, Reply, encode};
use crate::wire::frame::FrameError;

use input::Input;
pub use output::{MAX_SLICES, Output};

/// Bounds of one connection.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// The most bytes in a request's frame: Kafka's `socket.request.max.bytes`, default 100 MiB.
    pub max_frame_bytes: usize,
    /// Bounds of what is in a frame.
    pub prepare: PrepareLimits,
}

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits { max_frame_bytes: 100 << 20, prepare: PrepareLimits::default() }
    }
}

/// Why a client's bytes can't be read any further. Its connection is closed without a reply, as Kafka does.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// The stream can't be cut into frames.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame isn't a request that can be answered.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// What [`Session::next_request`] has found.
#[derive(Debug)]
pub enum Next {
    /// A request, ready for the cluster.
    Ready(Prepared),
    /// A request that takes so long to prepare that other connections should not have to wait for it.
    Heavy(Preparing),
}

/// A request that is still to be prepared, on a thread of its own.
#[derive(Debug)]
pub struct Preparing {
    preparer: Preparer,
    frame: Bytes,
}

impl Preparing {
    /// Prepares it.
    ///
    /// # Errors
    /// If what the client sent can't be a request; the connection must then be closed.
    pub fn prepare(mut self) -> Result<Prepared, Violation> {
        Ok(self.preparer.prepare(self.frame)?)
    }
}

/// One connection's state between its bytes and its requests.
#[derive(Debug)]
pub struct Session {
    preparer: Preparer,
    input: Input,
    output: Output,
    /// Whether a request is with the cluster.
    waiting: bool,
}

impl Session {
    /// A session that has read nothing.
    pub fn new(limits: SessionLimits) -> Self {
        Session {
            preparer: Preparer::new(limits.prepare),
            input: Input::new(limits.max_frame_bytes),
            output: Output::default(),
            waiting: false,
        }
    }

    /// Where the next read goes, with as much room as one read may fill. To be asked for once there is something to
    /// read, since it allocates.
    pub fn read_buffer(&mut self) -> Limit<&mut BytesMut> {
        self.input.read_buffer()
    }

    /// The next request, if one is there as a whole and none waits for its reply.
    ///
    /// # Errors
    /// If what the client sent can't be a request; the connection must then be closed once [`Session::output`] is
    /// written.
    pub fn next_request(&mut self) -> Result<Option<Next>, Violation> {
        if self.waiting {
            return Ok(None);
        }
        let Some(frame) = self.input.next_frame()? else { return Ok(None) };
        self.waiting = true;
        if self.preparer.is_heavy(&frame) {
            return Ok(Some(Next::Heavy(Preparing { preparer: self.preparer.clone(), frame })));
        }
        Ok(Some(Next::Ready(self.preparer.prepare(frame)?)))
    }

    /// Takes the reply to the request that waits and queues its bytes; the next request may then come. `scratch` is
    /// memory to encode into, which any number of sessions may share.
    ///
    /// # Errors
    /// If the response can't be encoded; nothing is queued then.
    pub fn answer(&mut self, reply: &Reply, scratch: &mut BytesMut) -> Result<(), EncodeError> {
        self.waiting = false;
        encode(reply, scratch, self.output.parts())
    }

    /// Bytes to be written.
    pub fn output(&mut self) -> &mut Output {
        &mut self.output
    }

    /// Whether the client has begun a frame that isn't there as a whole.
    pub fn is_within_frame(&self) -> bool {
        !self.input.is_empty()
    }

    /// Gives back memory that isn't needed until the client sends more or is answered: for a connection that waits.
    pub fn release(&mut self) {
        self.input.release();
        self.output.release();
    }

    /// Gives back a small buffer, which is as quickly had again, and keeps a large one for the next request: for a
    /// connection that has been answered and may ask again at once. Returns whether a large one is kept.
    pub fn release_small(&mut self) -> bool {
        self.input.release_small()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::BufMut;
    use std::io::IoSlice;

    fn session() -> Session {
        Session::new(SessionLimits { max_frame_bytes: 1 << 20, ..SessionLimits::default() })
    }

    fn next(session: &mut Session) -> Option<Prepared> {
        session.next_request().unwrap().map(|next| match next {
            Next::Ready(prepared) => prepared,
            Next::Heavy(preparing) => panic!("heavy: {preparing:?}"),
        })
    }

    /// ApiVersions v0 with this correlation id, framed.
    fn api_versions(correlation_id: i32) -> Vec<u8> {
        let mut frame = Vec::new();
        frame.put_i32(10);
        frame.put_i16(18);
        frame.put_i16(0);
        frame.put_i32(correlation_id);
        frame.put_i16(-1);
        frame
    }

    /// Reads as a socket would: as much as there is room for, again and again.
    fn feed(session: &mut Session, mut bytes: &[u8]) -> usize {
        let mut reads = 0;
        while !bytes.is_empty() {
            let mut buffer = session.read_buffer();
            let room = bytes.len().min(buffer.remaining_mut());
            buffer.put_slice(&bytes[..room]);
            bytes = &bytes[room..];
            reads += 1;
            if session.next_request().unwrap().is_some() {
                session.waiting = false;
            }
        }
        reads
    }

    fn silent(correlation_id: i32) -> Reply {
        Reply { connection: crate::base::ConnectionId(1), correlation_id, version: 0, response: None }
    }

    fn read(session: &mut Session, bytes: &[u8]) {
        let mut buffer = session.read_buffer();
        assert!(buffer.remaining_mut() >= bytes.len(), "one read takes it");
        buffer.put_slice(bytes);
    }

    #[test]
    fn one_byte_at_a_time() {
        let mut session = session();
        let frame = api_versions(7);
        for (at, byte) in frame.iter().enumerate() {
            read(&mut session, &[*byte]);
            let request = next(&mut session);
            assert_eq!(request.map(|request| request.correlation_id), (at == frame.len() - 1).then_some(7));
        }
        assert!(!session.is_within_frame());
    }

    #[test]
    fn pipelined_requests_wait_their_turn() {
        let mut session = session();
        read(&mut session, &[api_versions(1), api_versions(2), api_versions(3)].concat());
        let mut scratch = BytesMut::new();
        for correlation_id in 1..=3 {
            let request = next(&mut session).unwrap();
            assert_eq!(request.correlation_id, correlation_id);
            assert_eq!(request.request.api().name, "ApiVersions");
            assert!(session.next_request().unwrap().is_none(), "while one waits there is no other");
            session.answer(&silent(correlation_id), &mut scratch).unwrap();
        }
        assert!(session.next_request().unwrap().is_none());
        assert!(session.output().is_empty(), "a silent reply writes nothing");
    }

    #[test]
    fn oversize_and_tiny_frames_are_violations() {
        for (length, tiny) in [(i32::MAX, false), ((1 << 20) + 1, false), (-1, true), (0, true), (3, true)] {
            let mut session = session();
            read(&mut session, &length.to_be_bytes());
            let violation = session.next_request().unwrap_err();
            let Violation::Frame(error) = violation else { panic!("{violation}") };
            assert_eq!(!matches!(error, FrameError::TooLarge { .. }), tiny, "{length}");
        }
    }

    #[test]
    fn unknown_keys_and_versions_are_violations() {
        for (key, version) in [(9999, 0), (18, -1)] {
            let mut frame = api_versions(1);
            frame[4..6].copy_from_slice(&i16::to_be_bytes(key));
            frame[6..8].copy_from_slice(&i16::to_be_bytes(version));
            let mut session = session();
            read(&mut session, &frame);
            let outcome = session.next_request();
            assert_eq!(matches!(outcome, Err(Violation::Refused(_))), key == 9999, "{key} v{version}");
        }
    }

    #[test]
    fn a_claimed_length_reserves_little() {
        let mut session = Session::new(SessionLimits::default());
        read(&mut session, &(100i32 << 20).to_be_bytes());
        assert!(session.next_request().unwrap().is_none());
        assert!(session.read_buffer().get_ref().capacity() <= 128 << 10);
    }

    #[test]
    fn large_frames_take_few_reads_and_use_their_memory_again() {
        let mut session = session();
        let mut frame = api_versions(1);
        frame.resize(4 + (1 << 20), 0);
        frame[..4].copy_from_slice(&(1i32 << 20).to_be_bytes());
        feed(&mut session, &frame);
        session.release_small();
        let first = session.read_buffer().get_ref().as_ptr();
        for _ in 0..10 {
            assert!(feed(&mut session, &frame) <= 3);
            session.release_small();
            assert_eq!(session.read_buffer().get_ref().as_ptr(), first);
        }
    }

    #[test]
    fn a_session_that_waits_holds_no_buffer() {
        let mut session = session();
        read(&mut session, &api_versions(1));
        let request = next(&mut session);
        assert!(request.is_some());
        session.release();
        assert_eq!(session.input.capacity(), 0);
    }

    #[test]
    fn output_is_given_out_in_slices_and_advances_over_them() {
        let mut session = session();
        session.output().parts().extend([Bytes::from_static(b"abc"), Bytes::from_static(b"defg")]);
        assert_eq!(slices(&mut session), ["abc", "defg"]);
        session.output().advance(4);
        assert_eq!(slices(&mut session), ["efg"]);
        session.output().advance(3);
        assert!(session.output().is_empty());
    }

    fn slices(session: &mut Session) -> Vec<String> {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let count = session.output().slices(&mut slices);
        slices[..count].iter().map(|slice| String::from_utf8(slice.to_vec()).unwrap()).collect()
    }

    #[test]
    fn compressed_records_are_prepared_aside_and_others_at_once() {
        use crate::wire::batch::Codec;
        use crate::wire::records::{BatchBuilder, BatchHeader};
        use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
        use kafka_protocol::messages::{ProduceRequest, RequestHeader};
        use kafka_protocol::protocol::{Encodable, HeaderVersion};
        let frame = |codec, bytes: usize| {
            let mut builder = BatchBuilder::new(BatchHeader { codec, ..BatchHeader::default() });
            builder.push(1, None, Some(&vec![0; bytes]), std::iter::empty());
            let data = PartitionProduceData::default().with_records(Some(builder.build().unwrap()));
            let request = ProduceRequest::default()
                .with_topic_data(vec![TopicProduceData::default().with_partition_data(vec![data])]);
            let mut frame = BytesMut::new();
            frame.put_i32(0);
            let header = RequestHeader::default().with_request_api_version(9);
            header.encode(&mut frame, ProduceRequest::header_version(9)).unwrap();
            request.encode(&mut frame, 9).unwrap();
            let length = frame.len() as i32 - 4;
            frame[..4].copy_from_slice(&length.to_be_bytes());
            frame
        };
        for (codec, bytes, is_heavy) in
            [(Codec::None, 100_000, false), (Codec::Gzip, 1, false), (Codec::Gzip, 1_000_000, true)]
        {
            let mut session = session();
            let mut left = &frame(codec, bytes)[..];
            while !left.is_empty() {
                let mut buffer = session.read_buffer();
                let (now, later) = left.split_at(left.len().min(buffer.remaining_mut()));
                buffer.put_slice(now);
                left = later;
            }
            match session.next_request().unwrap().unwrap() {
                Next::Ready(_) => assert!(!is_heavy, "{codec:?} {bytes}"),
                Next::Heavy(preparing) => {
                    assert!(is_heavy, "{codec:?} {bytes}");
                    assert!(session.next_request().unwrap().is_none(), "one at a time");
                    preparing.prepare().unwrap();
                }
            }
        }
    }
}
