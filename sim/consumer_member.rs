//! A member of a group by KIP-848: heartbeats, takes on what the coordinator assigns it, reads that, and commits.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, FetchRequest, FindCoordinatorRequest,
    GroupId, OffsetCommitRequest, OffsetFetchRequest,
};
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::checkers::Event;
use super::consumer::{Position, fetch, is_passing, read_fetched};
use super::contacts::{Contacts, TOPIC, topic};
use super::world::{self, ClientId, Incident, Notice, World};
use crate::base::{ErrorCode, NodeId};

const FIND_COORDINATOR: i16 = 4;
const HEARTBEAT: i16 = 1;
const OFFSET_FETCH: i16 = 9;
const OFFSET_COMMIT: i16 = 9;
const FETCH: i16 = 12;
const GROUP: &str = "k";
const REBALANCE_TIMEOUT_MS: i32 = 9_000;

/// A model member of the consumer protocol.
#[derive(Debug)]
pub struct ConsumerMember {
    id: ClientId,
    contacts: Contacts<Asked>,
    coordinator: Option<NodeId>,
    member_id: StrBytes,
    /// 0 to join.
    epoch: i32,
    topic_id: Option<Uuid>,
    /// What it owns, each with the next offset to read once that is known.
    owned: BTreeMap<i32, Option<i64>>,
    committed: BTreeMap<i32, i64>,
    /// When the next heartbeat is due.
    heartbeat_ms: u64,
    /// Whether it has said what it owns since that changed.
    is_told: bool,
    /// Whether the next heartbeat says all there is to say, since an answer may have been lost: what it would have
    /// assigned is then answered again.
    says_all: bool,
}

#[derive(Debug)]
enum Asked {
    Metadata,
    Coordinator,
    Heartbeat,
    Offsets,
    Commit(BTreeMap<i32, i64>),
    Fetch,
}

impl ConsumerMember {
    /// A member that hasn't joined.
    pub fn new(id: ClientId, bootstrap: Vec<NodeId>, world: &mut World) -> Self {
        ConsumerMember {
            id,
            contacts: Contacts::new(id, bootstrap, TOPIC),
            coordinator: None,
            member_id: StrBytes::from_string(world.entropy.next_uuid().to_string()),
            epoch: 0,
            topic_id: None,
            owned: BTreeMap::new(),
            committed: BTreeMap::new(),
            heartbeat_ms: 0,
            is_told: true,
            says_all: true,
        }
    }

    /// What it has committed of what it owns, once it is in the group and has told what it owns.
    pub fn committed(&self) -> Option<BTreeMap<i32, i64>> {
        let is_settled = self.epoch > 0 && self.is_told;
        let owned = self.owned.keys();
        let committed = owned.map(|partition| Some((*partition, *self.committed.get(partition)?)));
        is_settled.then(|| committed.flatten().collect())
    }

    /// The process ends without a word, and another begins.
    pub fn crash(&mut self, world: &mut World) {
        self.contacts.close_all(world);
        self.coordinator = None;
        self.member_id = StrBytes::from_string(world.entropy.next_uuid().to_string());
        self.leave();
    }

    /// It is in the group no more.
    fn leave(&mut self) {
        self.epoch = 0;
        self.owned.clear();
        self.committed.clear();
        self.is_told = true;
        self.heartbeat_ms = 0;
    }

    /// Something has come about.
    pub fn notice(&mut self, world: &mut World, notice: Notice) {
        match notice {
            Notice::Wake => {
                let failed = self.contacts.give_up_slow(world);
                failed.iter().for_each(|(broker, asked)| self.failed(*broker, asked));
                self.go_on(world);
                let after_ms = 50 + world.entropy.below(300);
                world.schedule(after_ms, Incident::Wake(self.id));
            }
            Notice::Lost(connection) => {
                if let Some((broker, asked)) = self.contacts.lost(connection) {
                    if self.coordinator == Some(broker) {
                        self.coordinator = None;
                    }
                    if let Some(asked) = asked {
                        self.failed(broker, &asked);
                    }
                }
            }
            Notice::Answered(connection, frame) => {
                if let Some((_, asked)) = self.contacts.answered(connection, &frame) {
                    self.take(world, asked, frame);
                }
            }
        }
    }

    fn failed(&mut self, broker: NodeId, asked: &Asked) {
        match asked {
            Asked::Metadata | Asked::Coordinator => {}
            Asked::Fetch => {
                for partition in 0..self.contacts.partitions {
                    if self.contacts.leader(partition) == Some(broker) {
                        self.contacts.forget_leader(partition);
                    }
                }
            }
            Asked::Heartbeat | Asked::Offsets | Asked::Commit(_) => {
                self.coordinator = None;
                self.heartbeat_ms = 0;
                self.says_all = true;
            }
        }
    }

    fn take(&mut self, world: &mut World, asked: Asked, frame: Bytes) {
        match asked {
            Asked::Metadata => self.contacts.take_metadata(frame),
            Asked::Coordinator => {
                let (_, response) = world::read::<FindCoordinatorRequest>(frame, FIND_COORDINATOR);
                let found = response.coordinators.first().filter(|found| found.error_code == 0);
                self.coordinator = found.map(|found| NodeId(found.node_id.0));
            }
            Asked::Heartbeat => {
                let (_, response) = world::read::<ConsumerGroupHeartbeatRequest>(frame, HEARTBEAT);
                self.take_heartbeat(world, response);
            }
            Asked::Offsets => {
                let (_, response) = world::read::<OffsetFetchRequest>(frame, OFFSET_FETCH);
                let group = &response.groups[0];
                if group.error_code != 0 {
                    self.refused(group.error_code);
                    return;
                }
                for found in group.topics.iter().flat_map(|topic| &topic.partitions) {
                    let (partition, offset) = (found.partition_index, found.committed_offset);
                    world.note(Event::FoundCommitted { group: GROUP, reader: self.id, partition, offset });
                    if let Some(position) = self.owned.get_mut(&partition) {
                        *position = Some(position.unwrap_or(offset.max(0)));
                    }
                }
            }
            Asked::Commit(positions) => {
                let (_, response) = world::read::<OffsetCommitRequest>(frame, OFFSET_COMMIT);
                for result in response.topics.iter().flat_map(|topic| &topic.partitions) {
                    if result.error_code != 0 {
                        self.refused(result.error_code);
                        return;
                    }
                    let (partition, offset) = (result.partition_index, positions[&result.partition_index]);
                    world.note(Event::Committed { group: GROUP, partition, offset });
                    self.committed.insert(partition, offset);
                }
            }
            Asked::Fetch => self.take_records(world, frame),
        }
    }

    fn take_heartbeat(&mut self, world: &mut World, response: ConsumerGroupHeartbeatResponse) {
        if response.error_code != 0 {
            self.refused(response.error_code);
            return;
        }
        self.says_all = false;
        self.epoch = response.member_epoch;
        self.heartbeat_ms = world.now_ms + response.heartbeat_interval_ms.max(1) as u64;
        let Some(assignment) = response.assignment else { return };
        let topics = &assignment.topic_partitions;
        self.topic_id = topics.first().map(|topic| topic.topic_id).or(self.topic_id);
        let assigned: BTreeSet<i32> =
            topics.iter().flat_map(|topic| topic.partitions.iter().copied()).collect();
        for partition in &assigned {
            let (generation, partition, member) = (self.epoch, *partition, self.member_id.to_string());
            world.note(Event::Assigned { group: GROUP, generation, partition, member });
        }
        let before: BTreeSet<i32> = self.owned.keys().copied().collect();
        if assigned != before {
            self.owned.retain(|partition, _| assigned.contains(partition));
            self.committed.retain(|partition, _| assigned.contains(partition));
            for partition in assigned {
                self.owned.entry(partition).or_insert(None);
            }
            // What was revoked is given up at once, and the coordinator told.
            self.is_told = false;
            self.heartbeat_ms = 0;
        }
    }

    /// What the coordinator's errors mean to a member.
    fn refused(&mut self, code: i16) {
        let is = |errors: &[ErrorCode]| errors.iter().any(|error| error.code() == code);
        if is(&[ErrorCode::FencedMemberEpoch, ErrorCode::UnknownMemberId]) {
            self.leave();
        } else if is(&[ErrorCode::StaleMemberEpoch]) {
            self.heartbeat_ms = 0;
        } else {
            // NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE and the like: look for it anew.
            self.coordinator = None;
            self.heartbeat_ms = 0;
            self.says_all = true;
        }
    }

    fn take_records(&mut self, world: &mut World, frame: Bytes) {
        for (partition, outcome) in read_fetched(frame) {
            match outcome {
                Err(code) => {
                    if !is_passing(code) {
                        let what =
                            format!("member {} was refused with {code} on partition {partition}", self.id);
                        world.note(Event::Broken(what));
                    }
                    self.contacts.forget_leader(partition);
                }
                Ok(fetched) => {
                    if let Some(Some(position)) = self.owned.get_mut(&partition) {
                        *position = (*position).max(fetched.next_offset);
                    }
                }
            }
        }
    }

    fn go_on(&mut self, world: &mut World) {
        let knows_leaders = |partition: i32| self.contacts.leader(partition).is_some();
        let needs_metadata =
            self.contacts.partitions == 0 || !(0..self.contacts.partitions).all(knows_leaders);
        if needs_metadata && !self.contacts.is_asked(|asked| matches!(asked, Asked::Metadata)) {
            self.contacts.ask_metadata(world, Asked::Metadata);
        }
        let Some(coordinator) = self.coordinator else {
            if !self.contacts.is_asked(|asked| matches!(asked, Asked::Coordinator)) {
                let broker = self.contacts.any(world);
                let request = FindCoordinatorRequest::default()
                    .with_key_type(0)
                    .with_coordinator_keys(vec![StrBytes::from_static_str(GROUP)]);
                self.contacts.ask(world, broker, FIND_COORDINATOR, &request, Asked::Coordinator);
            }
            return;
        };
        let reads_first = world.entropy.below(3) == 0 && self.heartbeat_ms > world.now_ms;
        if reads_first {
            self.read_on(world);
        }
        self.ask_coordinator(world, coordinator);
        if !reads_first {
            self.read_on(world);
        }
    }

    /// Asks the coordinator what is next: one thing at a time.
    fn ask_coordinator(&mut self, world: &mut World, coordinator: NodeId) {
        let is_busy = self
            .contacts
            .is_asked(|asked| matches!(asked, Asked::Heartbeat | Asked::Offsets | Asked::Commit(_)));
        if is_busy {
            return;
        }
        if self.heartbeat_ms <= world.now_ms {
            let request = self.heartbeat();
            if self.contacts.ask(world, coordinator, HEARTBEAT, &request, Asked::Heartbeat) {
                self.is_told = true;
                self.heartbeat_ms = world.now_ms + 1_000;
            }
            return;
        }
        let unknown: Vec<i32> =
            self.owned.iter().filter(|(_, at)| at.is_none()).map(|(partition, _)| *partition).collect();
        if !unknown.is_empty() {
            let request = self.offset_fetch(unknown);
            if self.contacts.ask(world, coordinator, OFFSET_FETCH, &request, Asked::Offsets) {
                world.note(Event::AskedCommitted { group: GROUP, reader: self.id });
            }
            return;
        }
        let positions: BTreeMap<i32, i64> =
            self.owned.iter().filter_map(|(partition, at)| Some((*partition, (*at)?))).collect();
        if positions != self.committed && world.entropy.below(3) == 0 {
            let request = self.commit(&positions);
            self.contacts.ask(world, coordinator, OFFSET_COMMIT, &request, Asked::Commit(positions));
        }
    }

    fn read_on(&mut self, world: &mut World) {
        let mut by_leader: BTreeMap<NodeId, Vec<Position>> = BTreeMap::new();
        for (partition, position) in &self.owned {
            if let (Some(leader), Some(position)) = (self.contacts.leader(*partition), position) {
                by_leader.entry(leader).or_default().push((
                    *partition,
                    *position,
                    self.contacts.leader_epoch(*partition),
                ));
            }
        }
        for (leader, positions) in by_leader {
            // A fetch must not keep the heartbeats from the coordinator waiting.
            let request: FetchRequest = fetch(TOPIC, positions).with_max_wait_ms(0);
            self.contacts.ask(world, leader, FETCH, &request, Asked::Fetch);
        }
    }

    fn heartbeat(&self) -> ConsumerGroupHeartbeatRequest {
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
            .with_member_id(self.member_id.clone())
            .with_member_epoch(self.epoch);
        let owned: Vec<i32> = self.owned.keys().copied().collect();
        let owned = self
            .topic_id
            .filter(|_| !owned.is_empty())
            .map(|topic_id| TopicPartitions::default().with_topic_id(topic_id).with_partitions(owned));
        let owned: Vec<TopicPartitions> = owned.into_iter().collect();
        if self.epoch == 0 || self.says_all {
            return request
                .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
                .with_subscribed_topic_names(Some(vec![topic(TOPIC)]))
                .with_topic_partitions(Some(owned));
        }
        request.with_topic_partitions(Some(owned))
    }

    fn offset_fetch(&self, partitions: Vec<i32>) -> OffsetFetchRequest {
        let topics =
            OffsetFetchRequestTopics::default().with_name(topic(TOPIC)).with_partition_indexes(partitions);
        let group = OffsetFetchRequestGroup::default()
            .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
            .with_member_id(Some(self.member_id.clone()))
            .with_member_epoch(self.epoch)
            .with_topics(Some(vec![topics]));
        OffsetFetchRequest::default().with_groups(vec![group])
    }

    fn commit(&self, positions: &BTreeMap<i32, i64>) -> OffsetCommitRequest {
        let partitions = positions.iter().map(|(partition, offset)| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(*partition)
                .with_committed_offset(*offset)
        });
        OffsetCommitRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
            .with_generation_id_or_member_epoch(self.epoch)
            .with_member_id(self.member_id.clone())
            .with_topics(vec![
                OffsetCommitRequestTopic::default()
                    .with_name(topic(TOPIC))
                    .with_partitions(partitions.collect()),
            ])
    }
}
