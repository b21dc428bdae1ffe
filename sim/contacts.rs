//! What every client has: connections to brokers, each with one request at a time, and who leads what.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::metadata_response::MetadataResponsePartition;
use kafka_protocol::messages::{MetadataRequest, MetadataResponse, TopicName};
use kafka_protocol::protocol::{Request, StrBytes};

use super::world::{self, ClientId, World};
use crate::base::{ConnectionId, NodeId};

/// The version in which models ask for metadata.
const METADATA: i16 = 12;
/// After so long without an answer a client closes the connection (`request.timeout.ms`).
const REQUEST_TIMEOUT_MS: u64 = 8_000;

/// The topic of the models without transactions.
pub const TOPIC: &str = "t";

/// The topic of those with.
pub const TRANSACTIONS: &str = "x";

/// A client's connections, and what it knows of the cluster. `A` says what it has asked on one.
#[derive(Debug)]
pub struct Contacts<A> {
    client: ClientId,
    topic: &'static str,
    bootstrap: Vec<NodeId>,
    by_broker: BTreeMap<NodeId, Contact<A>>,
    leaders: BTreeMap<i32, (NodeId, i32)>,
    /// How many partitions the topic has; 0 while that isn't known.
    pub partitions: i32,
    next_correlation_id: i32,
}

#[derive(Debug)]
struct Contact<A> {
    connection: ConnectionId,
    asked: Option<Asked<A>>,
}

#[derive(Debug)]
struct Asked<A> {
    what: A,
    correlation_id: i32,
    since_ms: u64,
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
            partitions: 0,
            next_correlation_id: 0,
        }
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

    /// Whether something of this kind is asked, of whomever.
    pub fn is_asked(&self, what: impl Fn(&A) -> bool) -> bool {
        self.by_broker.values().any(|contact| contact.asked.as_ref().is_some_and(|asked| what(&asked.what)))
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
        if !self.by_broker.contains_key(&broker) {
            let Some(connection) = world.connect(self.client, broker) else { return false };
            self.by_broker.insert(broker, Contact { connection, asked: None });
        }
        let Some(contact) = self.by_broker.get_mut(&broker).filter(|contact| contact.asked.is_none()) else {
            return false;
        };
        self.next_correlation_id += 1;
        let correlation_id = self.next_correlation_id;
        world.send(contact.connection, version, correlation_id, request);
        contact.asked = Some(Asked { what, correlation_id, since_ms: world.now_ms });
        true
    }

    /// Asks any broker who leads what, unless that is asked already.
    pub fn ask_metadata(&mut self, world: &mut World, what: A) {
        let broker = self.any(world);
        let topics = vec![MetadataRequestTopic::default().with_name(Some(topic(self.topic)))];
        let request = MetadataRequest::default().with_topics(Some(topics));
        self.ask(world, broker, METADATA, &request, what);
    }

    /// Takes up who leads what.
    pub fn take_metadata(&mut self, frame: Bytes) {
        let (_, response): (_, MetadataResponse) = world::read::<MetadataRequest>(frame, METADATA);
        let Some(found) = response.topics.first().filter(|found| found.error_code == 0) else { return };
        self.partitions = found.partitions.len() as i32;
        let led = found.partitions.iter().filter(|partition| partition.leader_id.0 >= 0);
        let leader = |partition: &MetadataResponsePartition| {
            (partition.partition_index, (NodeId(partition.leader_id.0), partition.leader_epoch))
        };
        self.leaders = led.map(leader).collect();
    }

    /// An answer has come: what it answers, and from whom. None if nobody waits for it any more.
    pub fn answered(&mut self, connection: ConnectionId, frame: &Bytes) -> Option<(NodeId, A)> {
        let (broker, contact) =
            self.by_broker.iter_mut().find(|(_, contact)| contact.connection == connection)?;
        let asked = contact.asked.take()?;
        let correlation_id = frame.first_chunk().map(|bytes| i32::from_be_bytes(*bytes));
        assert_eq!(correlation_id, Some(asked.correlation_id), "answers come in the order of requests");
        Some((*broker, asked.what))
    }

    /// A connection is gone: what was asked on it, and of whom.
    pub fn lost(&mut self, connection: ConnectionId) -> Option<(NodeId, Option<A>)> {
        let (broker, _) = self.by_broker.iter().find(|(_, contact)| contact.connection == connection)?;
        let broker = *broker;
        let contact = self.by_broker.remove(&broker)?;
        Some((broker, contact.asked.map(|asked| asked.what)))
    }

    /// Closes connections that owe an answer for too long; returns what was asked on them.
    pub fn give_up_slow(&mut self, world: &mut World) -> Vec<(NodeId, A)> {
        let is_slow = |contact: &Contact<A>| {
            contact.asked.as_ref().is_some_and(|asked| world.now_ms - asked.since_ms > REQUEST_TIMEOUT_MS)
        };
        let slow = self.by_broker.iter().filter(|(_, contact)| is_slow(contact));
        let slow: Vec<NodeId> = slow.map(|(broker, _)| *broker).collect();
        let mut given_up = Vec::new();
        for broker in slow {
            let Some(contact) = self.by_broker.remove(&broker) else { continue };
            world.close(contact.connection);
            given_up.extend(contact.asked.map(|asked| (broker, asked.what)));
        }
        given_up
    }

    /// Closes all connections, as a client that crashes.
    pub fn close_all(&mut self, world: &mut World) {
        for contact in std::mem::take(&mut self.by_broker).into_values() {
            world.close(contact.connection);
        }
    }
}
