//! A member of a group (classic protocol): joins, reads what it is assigned, commits what it has read, leaves or crashes.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    FetchRequest, FindCoordinatorRequest, GroupId, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse,
    OffsetCommitRequest, OffsetFetchRequest, SyncGroupRequest,
};
use kafka_protocol::protocol::{Request, StrBytes};

use super::checkers::Event;
use super::consumer::{Position, fetch, is_passing, read_fetched};
use super::contacts::{Contacts, TOPIC, topic};
use super::world::{self, ClientId, Incident, Notice, World};
use crate::base::{ErrorCode, NodeId};

const FIND_COORDINATOR: i16 = 4;
const JOIN_GROUP: i16 = 9;
const SYNC_GROUP: i16 = 5;
const HEARTBEAT: i16 = 4;
const OFFSET_FETCH: i16 = 8;
const OFFSET_COMMIT: i16 = 8;
const FETCH: i16 = 12;
const GROUP: &str = "g";
const PROTOCOL: &str = "sim";
const SESSION_TIMEOUT_MS: i32 = 6_000;
const REBALANCE_TIMEOUT_MS: i32 = 9_000;

/// A model member.
#[derive(Debug)]
pub struct Member {
    id: ClientId,
    contacts: Contacts<Asked>,
    coordinator: Option<NodeId>,
    member_id: StrBytes,
    stage: Stage,
    /// Counts crashes: what was assigned before one is nobody's.
    life: u32,
}

#[derive(Debug)]
enum Stage {
    /// It is in no generation.
    Outside,
    /// It has joined, and wants to know what it is assigned.
    Joined { generation: i32, assignments: Vec<(StrBytes, Bytes)> },
    /// It is assigned these partitions, and wants to know where to go on.
    Assigned { generation: i32, partitions: Vec<i32> },
    /// It reads.
    Reading { generation: i32, positions: BTreeMap<i32, i64>, committed: BTreeMap<i32, i64> },
}

#[derive(Debug)]
enum Asked {
    Metadata,
    Coordinator,
    Join,
    Sync { generation: i32 },
    Offsets { generation: i32 },
    Commit { generation: i32, positions: BTreeMap<i32, i64> },
    Heartbeat,
    Fetch { generation: i32 },
}

impl Member {
    /// A member that hasn't joined.
    pub fn new(id: ClientId, bootstrap: Vec<NodeId>) -> Self {
        Member {
            id,
            contacts: Contacts::new(id, bootstrap, TOPIC),
            coordinator: None,
            member_id: StrBytes::default(),
            stage: Stage::Outside,
            life: 0,
        }
    }

    /// What it has committed, if it reads.
    pub fn committed(&self) -> Option<&BTreeMap<i32, i64>> {
        match &self.stage {
            Stage::Reading { committed, .. } => Some(committed),
            _ => None,
        }
    }

    /// The process ends without a word, and begins anew.
    pub fn crash(&mut self, world: &mut World) {
        self.contacts.close_all(world);
        self.coordinator = None;
        self.member_id = StrBytes::default();
        self.stage = Stage::Outside;
        self.life += 1;
    }

    /// Something has come about.
    pub fn notice(&mut self, world: &mut World, notice: Notice) {
        match notice {
            Notice::Wake => {
                let failed = self.contacts.give_up_slow(world);
                failed.iter().for_each(|(broker, asked)| self.failed(*broker, asked));
                self.go_on(world);
                self.read_on(world);
                let after_ms = 100 + world.entropy.below(400);
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
                if let Some((broker, asked)) = self.contacts.answered(connection, &frame) {
                    self.take(world, broker, asked, frame);
                    self.go_on(world);
                }
            }
        }
    }

    fn failed(&mut self, broker: NodeId, asked: &Asked) {
        match asked {
            Asked::Metadata | Asked::Coordinator => {}
            Asked::Fetch { .. } => {
                for partition in 0..self.contacts.partitions {
                    if self.contacts.leader(partition) == Some(broker) {
                        self.contacts.forget_leader(partition);
                    }
                }
            }
            _ => self.coordinator = None,
        }
    }

    fn take(&mut self, world: &mut World, _broker: NodeId, asked: Asked, frame: Bytes) {
        match asked {
            Asked::Metadata => self.contacts.take_metadata(frame),
            Asked::Coordinator => {
                let (_, response) = world::read::<FindCoordinatorRequest>(frame, FIND_COORDINATOR);
                let found = response.coordinators.first().filter(|found| found.error_code == 0);
                self.coordinator = found.map(|found| NodeId(found.node_id.0));
            }
            Asked::Join => {
                let (_, response) = world::read::<JoinGroupRequest>(frame, JOIN_GROUP);
                self.joined(response);
            }
            Asked::Sync { generation } => {
                let (_, response) = world::read::<SyncGroupRequest>(frame, SYNC_GROUP);
                self.synced(world, generation, response.error_code, &response.assignment);
            }
            Asked::Offsets { generation } => {
                let (_, response) = world::read::<OffsetFetchRequest>(frame, OFFSET_FETCH);
                let group = &response.groups[0];
                if group.error_code != 0 {
                    self.refused(group.error_code);
                    return;
                }
                let partitions = group.topics.iter().flat_map(|topic| &topic.partitions);
                let offsets: BTreeMap<i32, i64> =
                    partitions.map(|found| (found.partition_index, found.committed_offset)).collect();
                for (partition, offset) in &offsets {
                    let (reader, partition, offset) = (self.id, *partition, *offset);
                    world.note(Event::FoundCommitted { group: GROUP, reader, partition, offset });
                }
                if matches!(&self.stage, Stage::Assigned { generation: now, .. } if *now == generation) {
                    let positions = offsets.into_iter().map(|(partition, offset)| (partition, offset.max(0)));
                    let (positions, committed) = (positions.collect(), BTreeMap::new());
                    self.stage = Stage::Reading { generation, positions, committed };
                }
            }
            Asked::Commit { generation, positions } => {
                let (_, response) = world::read::<OffsetCommitRequest>(frame, OFFSET_COMMIT);
                let results = response.topics.iter().flat_map(|topic| &topic.partitions);
                for result in results {
                    if result.error_code != 0 {
                        self.refused(result.error_code);
                        return;
                    }
                    let (partition, offset) = (result.partition_index, positions[&result.partition_index]);
                    world.note(Event::Committed { group: GROUP, partition, offset });
                }
                if let Stage::Reading { generation: now, committed, .. } = &mut self.stage
                    && *now == generation
                {
                    *committed = positions;
                }
            }
            Asked::Heartbeat => {
                let (_, response) = world::read::<HeartbeatRequest>(frame, HEARTBEAT);
                self.refused(response.error_code);
            }
            Asked::Fetch { generation } => self.take_records(world, generation, frame),
        }
    }

    /// What the coordinator's errors mean to a member.
    fn refused(&mut self, code: i16) {
        let is = |errors: &[ErrorCode]| errors.iter().any(|error| error.code() == code);
        if code == 0 {
        } else if is(&[ErrorCode::RebalanceInProgress, ErrorCode::IllegalGeneration]) {
            self.stage = Stage::Outside;
        } else if is(&[ErrorCode::UnknownMemberId]) {
            self.member_id = StrBytes::default();
            self.stage = Stage::Outside;
        } else {
            // NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE and the like: look for it anew.
            self.coordinator = None;
        }
    }

    fn joined(&mut self, response: JoinGroupResponse) {
        if response.error_code == ErrorCode::MemberIdRequired.code() {
            self.member_id = response.member_id;
            return;
        }
        if response.error_code != 0 {
            self.refused(response.error_code);
            return;
        }
        self.member_id = response.member_id.clone();
        let mut assignments = Vec::new();
        if response.leader == response.member_id {
            let mut members: Vec<StrBytes> =
                response.members.iter().map(|member| member.member_id.clone()).collect();
            members.sort();
            let mut shares: Vec<Vec<u8>> = vec![Vec::new(); members.len()];
            for partition in 0..self.contacts.partitions {
                let at = partition as usize % members.len();
                shares[at].push(partition as u8);
            }
            assignments = members.into_iter().zip(shares.into_iter().map(Bytes::from)).collect();
        }
        self.stage = Stage::Joined { generation: response.generation_id, assignments };
    }

    fn synced(&mut self, world: &mut World, generation: i32, error_code: i16, assignment: &Bytes) {
        if error_code != 0 {
            self.refused(error_code);
            return;
        }
        if !matches!(&self.stage, Stage::Joined { generation: now, .. } if *now == generation) {
            return;
        }
        let partitions: Vec<i32> = assignment.iter().map(|partition| i32::from(*partition)).collect();
        let member = self.member_id.to_string();
        for partition in &partitions {
            let (partition, member) = (*partition, member.clone());
            world.note(Event::Assigned { group: GROUP, generation, partition, member });
        }
        self.stage = Stage::Assigned { generation, partitions };
    }

    fn take_records(&mut self, world: &mut World, generation: i32, frame: Bytes) {
        for (partition, outcome) in read_fetched(frame) {
            match outcome {
                Err(code) => {
                    if !is_passing(code) {
                        let what = format!(
                            "member {} was refused with {code} on partition {partition}: {:?}",
                            self.id, self.stage
                        );
                        world.note(Event::Broken(what));
                    }
                    self.contacts.forget_leader(partition);
                }
                Ok(fetched) => {
                    if let Stage::Reading { generation: now, positions, .. } = &mut self.stage
                        && *now == generation
                        && let Some(position) = positions.get_mut(&partition)
                    {
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
        if self.contacts.partitions == 0 {
            return;
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
        match &self.stage {
            Stage::Outside => {
                let request = self.join();
                self.ask_coordinator(world, coordinator, JOIN_GROUP, &request, Asked::Join);
            }
            Stage::Joined { generation, assignments } => {
                let generation = *generation;
                let request = self.sync(generation, assignments);
                self.ask_coordinator(world, coordinator, SYNC_GROUP, &request, Asked::Sync { generation });
            }
            Stage::Assigned { generation, partitions } => {
                let generation = *generation;
                let request = offset_fetch(partitions);
                let asked = self.contacts.ask(
                    world,
                    coordinator,
                    OFFSET_FETCH,
                    &request,
                    Asked::Offsets { generation },
                );
                if asked {
                    world.note(Event::AskedCommitted { group: GROUP, reader: self.id });
                }
            }
            Stage::Reading { .. } => {}
        }
    }

    /// Reads, and commits or says that it lives.
    fn read_on(&mut self, world: &mut World) {
        let Some(coordinator) = self.coordinator else { return };
        let Stage::Reading { generation, positions, committed } = &self.stage else { return };
        let generation = *generation;
        let mut by_leader: BTreeMap<NodeId, Vec<Position>> = BTreeMap::new();
        for (partition, position) in positions {
            if let Some(leader) = self.contacts.leader(*partition) {
                by_leader.entry(leader).or_default().push((
                    *partition,
                    *position,
                    self.contacts.leader_epoch(*partition),
                ));
            }
        }
        let ahead = positions != committed && world.entropy.below(3) == 0;
        let positions = positions.clone();
        // A leader may be the coordinator too, and a connection has one request at a time.
        let reads_first = world.entropy.below(2) == 0;
        if reads_first {
            self.fetch(world, generation, by_leader.clone());
        }
        if ahead {
            let request = self.commit(generation, &positions);
            let asked = Asked::Commit { generation, positions };
            self.ask_coordinator(world, coordinator, OFFSET_COMMIT, &request, asked);
        } else {
            let request = HeartbeatRequest::default()
                .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
                .with_generation_id(generation)
                .with_member_id(self.member_id.clone());
            self.ask_coordinator(world, coordinator, HEARTBEAT, &request, Asked::Heartbeat);
        }
        if !reads_first {
            self.fetch(world, generation, by_leader);
        }
    }

    fn fetch(&mut self, world: &mut World, generation: i32, by_leader: BTreeMap<NodeId, Vec<Position>>) {
        for (leader, positions) in by_leader {
            // A fetch must not keep the heartbeats from the coordinator waiting.
            let request: FetchRequest = fetch(TOPIC, positions).with_max_wait_ms(0);
            self.contacts.ask(world, leader, FETCH, &request, Asked::Fetch { generation });
        }
    }

    fn ask_coordinator<R: Request>(
        &mut self,
        world: &mut World,
        coordinator: NodeId,
        version: i16,
        request: &R,
        asked: Asked,
    ) {
        let is_busy = self
            .contacts
            .is_asked(|asked| !matches!(asked, Asked::Metadata | Asked::Fetch { .. } | Asked::Coordinator));
        if !is_busy {
            self.contacts.ask(world, coordinator, version, request, asked);
        }
    }

    fn join(&self) -> JoinGroupRequest {
        let protocol = JoinGroupRequestProtocol::default().with_name(StrBytes::from_static_str(PROTOCOL));
        JoinGroupRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
            .with_session_timeout_ms(SESSION_TIMEOUT_MS)
            .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
            .with_member_id(self.member_id.clone())
            .with_protocol_type(StrBytes::from_static_str(PROTOCOL))
            .with_protocols(vec![protocol])
    }

    fn sync(&self, generation: i32, assignments: &[(StrBytes, Bytes)]) -> SyncGroupRequest {
        let assignments = assignments.iter().map(|(member, share)| {
            SyncGroupRequestAssignment::default()
                .with_member_id(member.clone())
                .with_assignment(share.clone())
        });
        SyncGroupRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
            .with_generation_id(generation)
            .with_member_id(self.member_id.clone())
            .with_protocol_type(Some(StrBytes::from_static_str(PROTOCOL)))
            .with_protocol_name(Some(StrBytes::from_static_str(PROTOCOL)))
            .with_assignments(assignments.collect())
    }

    fn commit(&self, generation: i32, positions: &BTreeMap<i32, i64>) -> OffsetCommitRequest {
        let partitions = positions.iter().map(|(partition, offset)| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(*partition)
                .with_committed_offset(*offset)
        });
        OffsetCommitRequest::default()
            .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
            .with_generation_id_or_member_epoch(generation)
            .with_member_id(self.member_id.clone())
            .with_topics(vec![
                OffsetCommitRequestTopic::default()
                    .with_name(topic(TOPIC))
                    .with_partitions(partitions.collect()),
            ])
    }
}

fn offset_fetch(partitions: &[i32]) -> OffsetFetchRequest {
    let topics = OffsetFetchRequestTopics::default()
        .with_name(topic(TOPIC))
        .with_partition_indexes(partitions.to_vec());
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(StrBytes::from_static_str(GROUP)))
        .with_topics(Some(vec![topics]));
    OffsetFetchRequest::default().with_groups(vec![group])
}
