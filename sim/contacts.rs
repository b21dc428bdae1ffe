//! What every client has: connections to brokers, each with one request at a time or a few if the client wants that, who
//! leads what, and who coordinates what.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::{FindCoordinatorRequest, MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::{Request, StrBytes};

use super::world::{self, ClientId, Notice, World};
use crate::base::{ConnectionId, NodeId};

/// The versions in which models ask who leads and who coordinates.
const METADATA: i16 = 12;
const FIND_COORDINATOR: i16 = 4;
/// The most requests that a broker may owe answers to on one connection (`max.in.flight.requests.per.connection`).
pub const MAX_IN_FLIGHT: usize = 5;
/// After so long without an answer a client closes the connection (`request.timeout.ms`).
const REQUEST_TIMEOUT_MS: u64 = 8_000;

/// The topic of the models without transactions.
pub const TOPIC: &str = "t";

/// The topic of those with.
pub const TRANSACTIONS: &str = "x";

/// The topic of what pipelines make of their input.
pub const OUTPUT: &str = "o";

/// A client's connections, and what it knows of the cluster. `A` says what it has asked on one.
#[derive(Debug)]
pub struct Contacts<A> {
    client: ClientId,
    topic: &'static str,
    bootstrap: Vec<NodeId>,
    by_broker: BTreeMap<NodeId, Contact<A>>,
    leaders: BTreeMap<i32, (NodeId, i32)>,
    coordinators: BTreeMap<Coordinated, NodeId>,
    /// How many partitions the topic has; 0 while that isn't known.
    pub partitions: i32,
    next_correlation_id: i32,
}

/// What has a coordinator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Coordinated {
    /// A group.
    Group(&'static str),
    /// A transactional id.
    Transactions(StrBytes),
}

#[derive(Debug)]
struct Contact<A> {
    connection: ConnectionId,
    /// What is answered next comes first.
    asked: VecDeque<Asked<A>>,
}

#[derive(Debug)]
struct Asked<A> {
    what: What<A>,
    correlation_id: i32,
    since_ms: u64,
}

/// What the contacts ask for themselves, and what their client does.
#[derive(Debug)]
enum What<A> {
    Metadata,
    Coordinator(Coordinated),
    Own(A),
}

/// What has become of something that was asked.
#[derive(Debug)]
pub struct Fate<A> {
    /// What was asked.
    pub asked: A,
    /// Of whom.
    pub broker: NodeId,
    /// The answer; none if there won't be one.
    pub answer: Option<Bytes>,
}

/// A topic's name as the codec has it.
pub fn topic(name: &'static str) -> TopicName {
    TopicName(StrBytes::from_static_str(name))
}

impl<A> Contacts<A> {
    /// Of a client that knows where the brokers are.
    pub fn new(client: ClientId, bootstrap: Vec<NodeId>, topic: &'static str) -> Self {
        Contacts {
            client,
            topic,
            bootstrap,
            by_broker: BTreeMap::new(),
            leaders: BTreeMap::new(),
            coordinators: BTreeMap::new(),
            partitions: 0,
            next_correlation_id: 0,
        }
    }

    /// The topic.
    pub fn topic(&self) -> &'static str {
        self.topic
    }

    /// The leader of a partition, as far as is known.
    pub fn leader(&self, partition: i32) -> Option<NodeId> {
        self.leaders.get(&partition).map(|(leader, _)| *leader)
    }

    /// The epoch of that leader; −1 if it isn't known.
    pub fn leader_epoch(&self, partition: i32) -> i32 {
        self.leaders.get(&partition).map_or(-1, |(_, epoch)| *epoch)
    }

    /// The leader of a partition is not who it was.
    pub fn forget_leader(&mut self, partition: i32) {
        self.leaders.remove(&partition);
    }

    /// A broker may not lead any more what it led.
    pub fn forget_leader_of_all(&mut self, broker: NodeId) {
        self.leaders.retain(|_, (leader, _)| *leader != broker);
    }

    /// The coordinator is not who it was.
    pub fn forget_coordinator(&mut self, of: &Coordinated) {
        self.coordinators.remove(of);
    }

    /// Whether something of this kind is asked, of whomever.
    pub fn is_asked(&self, what: impl Fn(&A) -> bool) -> bool {
        self.asks().any(|asked| matches!(asked, What::Own(own) if what(own)))
    }

    fn asks(&self) -> impl Iterator<Item = &What<A>> {
        self.by_broker.values().flat_map(|contact| contact.asked.iter().map(|asked| &asked.what))
    }

    /// Any broker.
    pub fn any(&self, world: &mut World) -> NodeId {
        let at = world.entropy.below(self.bootstrap.len() as u64) as usize;
        self.bootstrap[at]
    }

    /// Asks a broker, and connects to it before if need be. Returns whether it could: not if the broker refuses, or
    /// owes another answer.
    pub fn ask<R: Request>(
        &mut self,
        world: &mut World,
        broker: NodeId,
        version: i16,
        request: &R,
        what: A,
    ) -> bool {
        self.ask_behind(world, broker, version, request, 0, What::Own(what))
    }

    /// Asks a broker although it owes other answers, but not more than so many
    /// (`max.in.flight.requests.per.connection`).
    pub fn ask_on<R: Request>(
        &mut self,
        world: &mut World,
        broker: NodeId,
        version: i16,
        request: &R,
        what: A,
    ) -> bool {
        self.ask_behind(world, broker, version, request, MAX_IN_FLIGHT - 1, What::Own(what))
    }

    fn ask_what<R: Request>(
        &mut self,
        world: &mut World,
        broker: NodeId,
        version: i16,
        request: &R,
        what: What<A>,
    ) -> bool {
        self.ask_behind(world, broker, version, request, 0, what)
    }

    fn ask_behind<R: Request>(
        &mut self,
        world: &mut World,
        broker: NodeId,
        version: i16,
        request: &R,
        others: usize,
        what: What<A>,
    ) -> bool {
        if !self.by_broker.contains_key(&broker) {
            let Some(connection) = world.connect(self.client, broker) else { return false };
            self.by_broker.insert(broker, Contact { connection, asked: VecDeque::new() });
        }
        let contact = self.by_broker.get_mut(&broker).filter(|contact| contact.asked.len() <= others);
        let Some(contact) = contact else { return false };
        self.next_correlation_id += 1;
        let correlation_id = self.next_correlation_id;
        world.send(contact.connection, version, correlation_id, request);
        contact.asked.push_back(Asked { what, correlation_id, since_ms: world.now_ms });
        true
    }

    /// Asks any broker who leads what, if that isn't known of every partition nor asked already. Returns whether the
    /// topic is known.
    pub fn look_up_leaders(&mut self, world: &mut World) -> bool {
        let knows_leaders = |partition: i32| self.leaders.contains_key(&partition);
        let lacks = self.partitions == 0 || !(0..self.partitions).all(knows_leaders);
        if lacks && !self.asks().any(|asked| matches!(asked, What::Metadata)) {
            let broker = self.any(world);
            let topics = vec![MetadataRequestTopic::default().with_name(Some(topic(self.topic)))];
            let request = MetadataRequest::default().with_topics(Some(topics));
            self.ask_what(world, broker, METADATA, &request, What::Metadata);
        }
        self.partitions > 0
    }

    /// Who coordinates something; if that isn't known, any broker is asked, unless one is already.
    pub fn coordinator(&mut self, world: &mut World, of: &Coordinated) -> Option<NodeId> {
        if let Some(coordinator) = self.coordinators.get(of) {
            return Some(*coordinator);
        }
        if !self.asks().any(|asked| matches!(asked, What::Coordinator(asked) if asked == of)) {
            let broker = self.any(world);
            let (kind, key) = match of {
                Coordinated::Group(group) => (0, StrBytes::from_static_str(group)),
                Coordinated::Transactions(id) => (1, id.clone()),
            };
            let request =
                FindCoordinatorRequest::default().with_key_type(kind).with_coordinator_keys(vec![key]);
            self.ask_what(world, broker, FIND_COORDINATOR, &request, What::Coordinator(of.clone()));
        }
        None
    }

    /// Takes in what has come about: an answer, the loss of a connection, or that answers are overdue, whose connections
    /// are closed. Returns what has become of what the client asked.
    pub fn take(&mut self, world: &mut World, notice: Notice) -> Vec<Fate<A>> {
        match notice {
            Notice::Wake => self.give_up_slow(world),
            Notice::Lost(connection) => self.lost(connection),
            Notice::Answered(connection, frame) => self.answered(connection, frame).into_iter().collect(),
        }
    }

    fn answered(&mut self, connection: ConnectionId, frame: Bytes) -> Option<Fate<A>> {
        let (broker, contact) =
            self.by_broker.iter_mut().find(|(_, contact)| contact.connection == connection)?;
        let broker = *broker;
        let Asked { what, correlation_id, .. } = contact.asked.pop_front()?;
        let answered = frame.first_chunk().map(|bytes| i32::from_be_bytes(*bytes));
        assert_eq!(answered, Some(correlation_id), "answers come in the order of requests");
        match what {
            What::Metadata => self.take_metadata(frame),
            What::Coordinator(of) => {
                let (_, response) = world::read::<FindCoordinatorRequest>(frame, FIND_COORDINATOR);
                if let Some(found) = response.coordinators.first().filter(|found| found.error_code == 0) {
                    self.coordinators.insert(of, NodeId(found.node_id.0));
                }
            }
            What::Own(asked) => return Some(Fate { asked, broker, answer: Some(frame) }),
        }
        None
    }

    fn take_metadata(&mut self, frame: Bytes) {
        let (_, response): (_, MetadataResponse) = world::read::<MetadataRequest>(frame, METADATA);
        let Some(found) = response.topics.first().filter(|found| found.error_code == 0) else { return };
        self.partitions = found.partitions.len() as i32;
        let led = found.partitions.iter().filter(|partition| partition.leader_id.0 >= 0);
        let leader = |partition: &MetadataResponsePartition| {
            (partition.partition_index, (NodeId(partition.leader_id.0), partition.leader_epoch))
        };
        self.leaders = led.map(leader).collect();
    }

    /// A connection is gone, and with it whatever its broker coordinated.
    fn lost(&mut self, connection: ConnectionId) -> Vec<Fate<A>> {
        let mut contacts = self.by_broker.iter();
        let lost = contacts.find(|(_, contact)| contact.connection == connection).map(|(broker, _)| *broker);
        let Some(broker) = lost else { return Vec::new() };
        self.coordinators.retain(|_, coordinator| *coordinator != broker);
        let contact = self.by_broker.remove(&broker);
        contact.into_iter().flat_map(|contact| Self::failed(broker, contact)).collect()
    }

    /// Closes connections that owe an answer for too long.
    fn give_up_slow(&mut self, world: &mut World) -> Vec<Fate<A>> {
        let is_slow = |contact: &Contact<A>| {
            contact.asked.front().is_some_and(|asked| world.now_ms - asked.since_ms > REQUEST_TIMEOUT_MS)
        };
        let slow = self.by_broker.iter().filter(|(_, contact)| is_slow(contact));
        let slow: Vec<NodeId> = slow.map(|(broker, _)| *broker).collect();
        let mut given_up = Vec::new();
        for broker in slow {
            let Some(contact) = self.by_broker.remove(&broker) else { continue };
            world.close(contact.connection);
            given_up.extend(Self::failed(broker, contact));
        }
        given_up
    }

    fn failed(broker: NodeId, contact: Contact<A>) -> impl Iterator<Item = Fate<A>> {
        contact.asked.into_iter().filter_map(move |asked| match asked.what {
            What::Own(asked) => Some(Fate { asked, broker, answer: None }),
            What::Metadata | What::Coordinator(_) => None,
        })
    }

    /// Closes all connections, as a client that crashes.
    pub fn close_all(&mut self, world: &mut World) {
        self.coordinators.clear();
        for contact in std::mem::take(&mut self.by_broker).into_values() {
            world.close(contact.connection);
        }
    }
}
