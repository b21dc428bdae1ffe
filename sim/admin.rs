//! An administrator: moves partitions to other brokers, and leaderships back to where they are preferred; in the end only
//! looks after those that can't be led otherwise.
//!
//! Where a move is cancelled, the broker to which the partition was to go may be the only one that is eligible as its leader
//! (KIP-966), although it is no replica any more: as with Kafka there is then no leader until it is one again.

use kafka_protocol::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use kafka_protocol::messages::elect_leaders_request::TopicPartitions;
use kafka_protocol::messages::{AlterPartitionReassignmentsRequest, BrokerId, ElectLeadersRequest};

use super::contacts::{Contacts, TOPIC, topic};
use super::world::{ClientId, Incident, Notice, World};
use crate::base::NodeId;

const REASSIGN: i16 = 0;
const ELECT_LEADERS: i16 = 2;
const TIMEOUT_MS: i32 = 5_000;

/// A model administrator.
#[derive(Debug)]
pub struct Admin {
    id: ClientId,
    contacts: Contacts<Asked>,
    brokers: Vec<NodeId>,
    partitions: i32,
    replicas: usize,
    /// Whether it moves nothing any more.
    pub is_done: bool,
}

#[derive(Debug)]
struct Asked;

impl Admin {
    /// An administrator of this many partitions, each with so many replicas.
    pub fn new(id: ClientId, brokers: Vec<NodeId>, partitions: i32, replicas: usize) -> Self {
        let contacts = Contacts::new(id, brokers.clone(), TOPIC);
        Admin { id, contacts, brokers, partitions, replicas, is_done: false }
    }

    /// Something has come about.
    pub fn notice(&mut self, world: &mut World, notice: Notice) {
        let is_awake = matches!(notice, Notice::Wake);
        // What was asked may or may not have come about: it is not asked again.
        self.contacts.take(world, notice);
        if is_awake {
            if self.is_done {
                self.mend(world)
            } else {
                self.act(world)
            }
            let after_ms = 500 + world.entropy.below(4_000);
            world.schedule(after_ms, Incident::Wake(self.id));
        }
    }

    fn act(&mut self, world: &mut World) {
        let index = world.entropy.below(self.partitions as u64) as i32;
        let broker = self.contacts.any(world);
        if world.entropy.below(3) == 0 {
            let partitions =
                vec![TopicPartitions::default().with_topic(topic(TOPIC)).with_partitions(vec![index])];
            let request = ElectLeadersRequest::default()
                .with_election_type(0)
                .with_topic_partitions(Some(partitions))
                .with_timeout_ms(TIMEOUT_MS);
            self.contacts.ask(world, broker, ELECT_LEADERS, &request, Asked);
            return;
        }
        // None cancels a move that is under way.
        let replicas = (world.entropy.below(5) > 0).then(|| self.draw_replicas(world));
        self.reassign(world, broker, index, replicas);
    }

    /// Makes eligible leaders replicas again.
    fn mend(&mut self, world: &mut World) {
        let topic = world.cluster.controller().topics().by_name(TOPIC);
        let numbered = topic.iter().flat_map(|topic| topic.partitions.iter().zip(0..));
        let mut stranded = numbered.filter_map(|(partition, index)| {
            let is_stranded = partition.leader.is_none()
                && partition.isr.is_empty()
                && !partition.elr.iter().any(|id| partition.replicas.contains(id));
            let eligible = partition.elr.first().copied().filter(|_| is_stranded)?;
            let replicas = partition.replicas.iter().copied().chain([eligible]);
            Some((index, replicas.collect::<Vec<NodeId>>()))
        });
        if let Some((index, replicas)) = stranded.next() {
            let broker = self.contacts.any(world);
            self.reassign(world, broker, index, Some(replicas));
        }
    }

    fn reassign(&mut self, world: &mut World, broker: NodeId, index: i32, replicas: Option<Vec<NodeId>>) {
        let replicas = replicas.map(|ids| ids.into_iter().map(|id| BrokerId(id.0)).collect());
        let partition = ReassignablePartition::default().with_partition_index(index).with_replicas(replicas);
        let moved = ReassignableTopic::default().with_name(topic(TOPIC)).with_partitions(vec![partition]);
        let request = AlterPartitionReassignmentsRequest::default()
            .with_timeout_ms(TIMEOUT_MS)
            .with_topics(vec![moved]);
        self.contacts.ask(world, broker, REASSIGN, &request, Asked);
    }

    fn draw_replicas(&self, world: &mut World) -> Vec<NodeId> {
        let mut left = self.brokers.clone();
        let mut drawn = Vec::new();
        while drawn.len() < self.replicas && !left.is_empty() {
            let at = world.entropy.below(left.len() as u64) as usize;
            drawn.push(left.swap_remove(at));
        }
        drawn
    }
}
