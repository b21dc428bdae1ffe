//! The cluster, the network between it and its clients, and the clock.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

use super::checkers::Event;
use super::counts::{Count, Counts};
use crate::api::{Connection, Endpoint};
use crate::base::entropy::Entropy;
use crate::base::{ConnectionId, NodeId, Now};
use crate::cluster::{BrokerState, Cluster, Command, Output};
use crate::session::{MAX_SLICES, Next, Session, SessionLimits};

/// A client, by its place among all.
pub type ClientId = usize;

/// What comes about at a moment of its own.
#[derive(Debug)]
pub enum Incident {
    /// A client's bytes arrive at the broker.
    Sent(ConnectionId, Bytes),
    /// The client's end is closed.
    Closed(ConnectionId),
    /// An answer arrives at its client.
    Answered(ConnectionId, Bytes),
    /// The client hears that its connection is gone.
    Lost(ConnectionId),
    /// A client wanted to be woken.
    Wake(ClientId),
    /// Something goes wrong, or is made whole again.
    Fault,
    /// A fault ends.
    Heal(Command),
    /// A broker that was ended starts again.
    Restart(NodeId),
}

/// What a client is told.
#[derive(Clone, Debug)]
pub enum Notice {
    /// It wanted to be woken.
    Wake,
    /// An answer came, without its frame's length.
    Answered(ConnectionId, Bytes),
    /// A connection is gone.
    Lost(ConnectionId),
}

/// One connection, with both of its ends.
#[derive(Debug)]
struct End {
    session: Session,
    client: ClientId,
    broker: NodeId,
    /// Whether a request is with the cluster.
    asked: bool,
    /// Whether the broker's end is gone.
    gone: bool,
    /// Bytes of an answer that isn't whole.
    partial: BytesMut,
    /// When the last message in each direction arrives: those of one connection don't overtake each other.
    sent_until_ms: u64,
    answered_until_ms: u64,
}

/// The cluster, the network and the clock.
#[derive(Debug)]
pub struct World {
    /// The cluster.
    pub cluster: Cluster,
    /// What the network and the clients draw from.
    pub entropy: Entropy,
    /// What has happened since the checkers last looked.
    pub events: Vec<Event>,
    /// How much was done.
    pub counts: Counts,
    /// Milliseconds since the start.
    pub now_ms: u64,
    incidents: BTreeMap<(u64, u64), Incident>,
    next_incident: u64,
    ends: BTreeMap<ConnectionId, End>,
    next_connection: u64,
    scratch: BytesMut,
    notices: VecDeque<(ClientId, Notice)>,
    digest: u64,
    /// Clients that do nothing until then.
    paused_until_ms: BTreeMap<ClientId, u64>,
    /// Commands since they were last taken, if somebody wants them.
    pub commands: Option<Vec<String>>,
    /// The longest that a message is under way.
    max_latency_ms: u64,
}

impl World {
    /// A world at its beginning.
    pub fn new(cluster: Cluster, entropy: Entropy, max_latency_ms: u64) -> Self {
        World {
            cluster,
            entropy,
            events: Vec::new(),
            counts: Counts::default(),
            now_ms: 0,
            incidents: BTreeMap::new(),
            next_incident: 0,
            ends: BTreeMap::new(),
            next_connection: 0,
            scratch: BytesMut::new(),
            notices: VecDeque::new(),
            digest: 0xCBF2_9CE4_8422_2325,
            paused_until_ms: BTreeMap::new(),
            commands: None,
            max_latency_ms,
        }
    }

    /// The time as the cluster takes it.
    pub fn now(&self) -> Now {
        Now::at_millis(self.now_ms)
    }

    /// A number that stands for all that was sent and answered so far.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Has something come about after so long.
    pub fn schedule(&mut self, after_ms: u64, incident: Incident) {
        self.incidents.insert((self.now_ms + after_ms, self.next_incident), incident);
        self.next_incident += 1;
    }

    /// Counts one more.
    pub fn count(&mut self, count: Count) {
        self.counts.add(count, 1);
    }

    /// Notes what has happened, for the checkers.
    pub fn note(&mut self, event: Event) {
        self.events.push(event);
    }

    /// Connects a client to a broker; none if the broker refuses.
    pub fn connect(&mut self, client: ClientId, broker: NodeId) -> Option<ConnectionId> {
        let state = self.cluster.brokers().into_iter().find(|(id, _)| *id == broker)?.1;
        if state == BrokerState::Down {
            return None;
        }
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        let connection = Connection {
            node: broker,
            listener: "PLAINTEXT".into(),
            local: Endpoint { host: "127.0.0.1".into(), port: 9091 },
            peer: format!("client-{client}").into(),
        };
        self.cluster.handle_opened(self.now(), id, connection);
        let session = Session::new(SessionLimits::default());
        let partial = BytesMut::new();
        let (sent_until_ms, answered_until_ms) = (self.now_ms, self.now_ms);
        let end = End {
            session,
            client,
            broker,
            asked: false,
            gone: false,
            partial,
            sent_until_ms,
            answered_until_ms,
        };
        self.ends.insert(id, end);
        Some(id)
    }

    /// The client closes a connection.
    pub fn close(&mut self, id: ConnectionId) {
        let latency = self.latency();
        let Some(end) = self.ends.get_mut(&id) else { return };
        end.sent_until_ms = end.sent_until_ms.max(self.now_ms + latency);
        let after_ms = end.sent_until_ms - self.now_ms;
        self.schedule(after_ms, Incident::Closed(id));
    }

    /// A connection breaks: both ends hear of it.
    pub fn break_connection(&mut self, id: ConnectionId) {
        self.lose(id);
        self.cluster.handle_closed(self.now(), id);
        self.collect();
    }

    /// A client stops for a while, as one whose machine or garbage collector does: its connections stay open, and what
    /// comes for it waits.
    pub fn pause(&mut self, client: ClientId, for_ms: u64) {
        self.paused_until_ms.insert(client, self.now_ms + for_ms);
    }

    /// Nobody is paused any more; what has come for them comes when it was to come.
    pub fn resume_all(&mut self) {
        self.paused_until_ms.clear();
    }

    /// Connections that are open.
    pub fn connections(&self) -> impl Iterator<Item = (ConnectionId, NodeId, bool)> {
        self.ends.iter().map(|(id, end)| (*id, end.broker, end.asked))
    }

    /// Sends a request.
    pub fn send<R: Request>(&mut self, id: ConnectionId, version: i16, correlation_id: i32, request: &R) {
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(correlation_id)
            .with_client_id(Some(StrBytes::from_static_str("sim")));
        let mut frame = BytesMut::new();
        frame.put_i32(0);
        header.encode(&mut frame, R::header_version(version)).expect("a header can be encoded");
        request.encode(&mut frame, version).expect("a model asks what can be encoded");
        let length = frame.len() as i32 - 4;
        frame[..4].copy_from_slice(&length.to_be_bytes());
        let latency = self.latency();
        let Some(end) = self.ends.get_mut(&id) else { return };
        end.sent_until_ms = end.sent_until_ms.max(self.now_ms + latency);
        let after_ms = end.sent_until_ms - self.now_ms;
        self.schedule(after_ms, Incident::Sent(id, frame.freeze()));
    }

    /// Lets the next thing happen, and says which; none if there is nothing to come before `until_ms`.
    pub fn step(&mut self, until_ms: u64) -> Option<Step> {
        if let Some((client, notice)) = self.notices.pop_front() {
            return Some(Step::Notice(client, notice));
        }
        let incident = self.incidents.first_key_value().map(|((at, _), _)| *at);
        let deadline = self.cluster.poll_timeout().map(|at| at.as_nanos().div_ceil(1_000_000));
        let next = [incident, deadline].into_iter().flatten().min()?;
        if next > until_ms {
            return None;
        }
        self.now_ms = self.now_ms.max(next);
        if deadline.is_some_and(|deadline| deadline <= self.now_ms) {
            self.cluster.handle_timeout(self.now());
            self.collect();
            return Some(Step::Passed);
        }
        let (_, incident) = self.incidents.pop_first()?;
        Some(self.take(incident))
    }

    fn take(&mut self, incident: Incident) -> Step {
        if let Some(until_ms) = self.paused_until(&incident) {
            // In the order in which it came, and before what comes later.
            self.schedule(until_ms - self.now_ms, incident);
            return Step::Passed;
        }
        match incident {
            Incident::Sent(id, bytes) => {
                self.feed(id, &bytes);
                Step::Passed
            }
            Incident::Closed(id) => {
                if self.ends.remove(&id).is_some() {
                    self.cluster.handle_closed(self.now(), id);
                    self.collect();
                }
                Step::Passed
            }
            Incident::Answered(id, bytes) => match self.ends.get(&id) {
                Some(end) => Step::Notice(end.client, Notice::Answered(id, bytes)),
                None => Step::Passed,
            },
            Incident::Lost(id) => match self.ends.remove(&id) {
                Some(end) => Step::Notice(end.client, Notice::Lost(id)),
                None => Step::Passed,
            },
            Incident::Wake(client) => Step::Notice(client, Notice::Wake),
            Incident::Fault => Step::Fault,
            Incident::Restart(broker) => Step::Restart(broker),
            Incident::Heal(command) => {
                self.command(command);
                Step::Passed
            }
        }
    }

    /// Until when whoever is to be told of this hears of nothing.
    fn paused_until(&self, incident: &Incident) -> Option<u64> {
        let client = match incident {
            Incident::Wake(client) => *client,
            Incident::Answered(id, _) | Incident::Lost(id) => self.ends.get(id)?.client,
            _ => return None,
        };
        self.paused_until_ms.get(&client).copied().filter(|until_ms| *until_ms > self.now_ms)
    }

    /// Has the cluster carry out a command; one that can't be carried out by now is passed over.
    pub fn command(&mut self, command: Command) {
        let text = format!("{command:?}");
        self.mix(text.as_bytes());
        if let Some(commands) = &mut self.commands {
            commands.push(format!("{} ms: {text}", self.now_ms));
        }
        let done = self.cluster.handle_command(self.now(), command);
        self.mix(format!("{done:?}").as_bytes());
        self.collect();
    }

    /// The broker reads what a client sent.
    fn feed(&mut self, id: ConnectionId, bytes: &[u8]) {
        self.mix(bytes);
        let Some(end) = self.ends.get_mut(&id).filter(|end| !end.gone) else { return };
        let mut rest = bytes;
        while !rest.is_empty() {
            let mut buffer = end.session.read_buffer();
            let room = rest.len().min(buffer.remaining_mut());
            buffer.put_slice(&rest[..room]);
            rest = &rest[room..];
        }
        self.serve(id);
        self.collect();
    }

    /// The broker takes the next request of a connection, if none of its is being answered.
    fn serve(&mut self, id: ConnectionId) {
        let Some(end) = self.ends.get_mut(&id).filter(|end| !end.gone) else { return };
        let next = end.session.next_request().expect("models send what can be read");
        let prepared = match next {
            None => return,
            Some(Next::Ready(prepared)) => prepared,
            Some(Next::Heavy(preparing)) => preparing.prepare().expect("models send what can be read"),
        };
        end.asked = true;
        self.counts.add(Count::Requests, 1);
        self.cluster.handle_request(Now::at_millis(self.now_ms), id, prepared);
    }

    /// Takes what has come out of the cluster.
    fn collect(&mut self) {
        while let Some(output) = self.cluster.poll_output() {
            match output {
                Output::Reply(reply) => {
                    let id = reply.connection;
                    let Some(end) = self.ends.get_mut(&id) else { continue };
                    end.asked = false;
                    end.session.answer(&reply, &mut self.scratch).expect("an answer can be encoded");
                    let bytes = taken(&mut end.session);
                    end.partial.extend_from_slice(&bytes);
                    let mut frames = Vec::new();
                    frames.extend(std::iter::from_fn(|| next_frame(&mut end.partial)));
                    for frame in frames {
                        self.digest = mixed(self.digest, &frame);
                        self.schedule_answer(id, Incident::Answered(id, frame));
                    }
                    self.serve(id);
                }
                Output::Close { connection, .. } => {
                    self.lose(connection);
                }
                Output::BrokerDown(_)
                | Output::BrokerUp(_)
                | Output::BrokerRemoved(_)
                | Output::Configured(..)
                | Output::LogLevels(_) => {}
            }
        }
    }

    /// The broker's end of a connection is gone, of which the client hears.
    fn lose(&mut self, id: ConnectionId) {
        self.mix(&id.0.to_be_bytes());
        if let Some(end) = self.ends.get_mut(&id) {
            (end.asked, end.gone) = (false, true);
        }
        self.schedule_answer(id, Incident::Lost(id));
    }

    /// What a broker sends arrives at the client.
    fn schedule_answer(&mut self, id: ConnectionId, incident: Incident) {
        let latency = self.latency();
        let Some(end) = self.ends.get_mut(&id) else { return };
        end.answered_until_ms = end.answered_until_ms.max(self.now_ms + latency);
        let after_ms = end.answered_until_ms - self.now_ms;
        self.schedule(after_ms, incident);
    }

    fn latency(&mut self) -> u64 {
        self.entropy.below(self.max_latency_ms + 1)
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.digest = mixed(self.digest ^ self.now_ms, bytes);
    }
}

/// What came about.
#[derive(Debug)]
pub enum Step {
    /// The cluster did something.
    Passed,
    /// A client is to be told something.
    Notice(ClientId, Notice),
    /// It is time for a fault.
    Fault,
    /// It is time for a broker to start again.
    Restart(NodeId),
}

/// FNV-1a.
fn mixed(digest: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(digest, |digest, byte| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

fn taken(session: &mut Session) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !session.output().is_empty() {
        let mut slices = [IoSlice::new(&[]); MAX_SLICES];
        let count = session.output().slices(&mut slices);
        let length: usize = slices[..count].iter().map(|slice| slice.len()).sum();
        slices[..count].iter().for_each(|slice| bytes.extend_from_slice(slice));
        session.output().advance(length);
    }
    bytes
}

fn next_frame(bytes: &mut BytesMut) -> Option<Bytes> {
    let length = u32::from_be_bytes(*bytes.first_chunk()?) as usize;
    if bytes.len() < 4 + length {
        return None;
    }
    bytes.advance(4);
    Some(bytes.split_to(length).freeze())
}

/// Reads an answer.
pub fn read<R: Request>(mut frame: Bytes, version: i16) -> (i32, R::Response)
where
    R::Response: Decodable + HeaderVersion,
{
    let header = ResponseHeader::decode(&mut frame, R::Response::header_version(version));
    let header = header.expect("an answer has a header");
    let response = R::Response::decode(&mut frame, version).expect("an answer can be read");
    assert!(frame.is_empty(), "nothing is left over of an answer");
    (header.correlation_id, response)
}
