//! How a member comes into a group and stays there by the classic protocol: it joins, is told its share by the first of the
//! members, and says that it lives until it hears of the next rebalance.

use std::collections::BTreeSet;

use bytes::Bytes;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{HeartbeatRequest, JoinGroupRequest, SyncGroupRequest};
use kafka_protocol::protocol::StrBytes;

use super::checkers::Event;
use super::group::{Asked, GroupContacts};
use super::passing;
use super::world::{self, World};
use crate::base::{ErrorCode, NodeId};

const JOIN_GROUP: i16 = 9;
const SYNC_GROUP: i16 = 5;
const HEARTBEAT: i16 = 4;
const PROTOCOL: &str = "sim";
const SESSION_TIMEOUT_MS: i32 = 6_000;
const REBALANCE_TIMEOUT_MS: i32 = 9_000;
const HEARTBEAT_MS: u64 = 500;

/// Where a member stands in the classic protocol.
#[derive(Debug, Default)]
pub struct Classic {
    stage: Stage,
    /// When the next heartbeat is due.
    heartbeat_ms: u64,
}

#[derive(Debug, Default)]
enum Stage {
    /// It is in no generation.
    #[default]
    Outside,
    /// It has joined, and wants to know what it is assigned.
    Joined { generation: i32, assignments: Vec<(StrBytes, Bytes)> },
    /// It has its share.
    Inside { generation: i32 },
}

impl Classic {
    /// Asks what is due. Returns whether something is.
    pub fn ask(&mut self, at: &mut GroupContacts, world: &mut World, coordinator: NodeId) -> bool {
        match &self.stage {
            Stage::Outside => {
                let request = join(at);
                at.ask(world, coordinator, JOIN_GROUP, &request, Asked::Join);
            }
            Stage::Joined { generation, assignments } => {
                let generation = *generation;
                let request = sync(at, generation, assignments);
                at.ask(world, coordinator, SYNC_GROUP, &request, Asked::Sync { generation });
            }
            Stage::Inside { generation } => {
                if self.heartbeat_ms > world.now_ms {
                    return false;
                }
                let request = HeartbeatRequest::default()
                    .with_group_id(at.group_id())
                    .with_generation_id(*generation)
                    .with_member_id(at.member_id.clone());
                let asked = Asked::Heartbeat { asked_ms: world.now_ms, owned: at.share.owned() };
                if at.ask(world, coordinator, HEARTBEAT, &request, asked) {
                    self.heartbeat_ms = world.now_ms + HEARTBEAT_MS;
                }
            }
        }
        true
    }

    /// It has joined, or not. Returns the code of an error, or 0.
    pub fn take_join(&mut self, at: &mut GroupContacts, frame: Bytes) -> i16 {
        let (_, response) = world::read::<JoinGroupRequest>(frame, JOIN_GROUP);
        if response.error_code == ErrorCode::MemberIdRequired.code() {
            at.member_id = response.member_id;
            return 0;
        }
        if response.error_code != 0 {
            return response.error_code;
        }
        at.member_id = response.member_id.clone();
        let mut assignments = Vec::new();
        if response.leader == response.member_id {
            let members = response.members.iter().map(|member| member.member_id.clone());
            assignments = shares(members.collect(), at.contacts.partitions);
        }
        self.stage = Stage::Joined { generation: response.generation_id, assignments };
        0
    }

    /// It is told its share, or not. Returns the code of an error, or 0.
    pub fn take_sync(&mut self, at: &mut GroupContacts, generation: i32, frame: Bytes) -> i16 {
        let (_, response) = world::read::<SyncGroupRequest>(frame, SYNC_GROUP);
        if response.error_code != 0 {
            return response.error_code;
        }
        if matches!(&self.stage, Stage::Joined { generation: now, .. } if *now == generation) {
            let owned: BTreeSet<i32> = response.assignment.iter().map(|index| i32::from(*index)).collect();
            at.share.own(&owned);
            at.share.generation = Some(generation);
            self.stage = Stage::Inside { generation };
            self.heartbeat_ms = 0;
        }
        0
    }

    /// Its heartbeat was heard, or not. Returns the code of an error, or 0.
    pub fn take_heartbeat(
        &mut self,
        at: &mut GroupContacts,
        world: &mut World,
        asked_ms: u64,
        owned: BTreeSet<i32>,
        frame: Bytes,
    ) -> i16 {
        let (_, response) = world::read::<HeartbeatRequest>(frame, HEARTBEAT);
        if let (0, Some(generation)) = (response.error_code, at.share.generation) {
            let (group, reader) = (at.group.id, at.client);
            world.note(Event::Confirmed { group, reader, generation, partitions: owned, asked_ms });
        }
        response.error_code
    }

    /// What the coordinator's errors mean to a member. Returns whether this one means something.
    pub fn refused(&mut self, at: &mut GroupContacts, code: i16) -> bool {
        let is_over = passing::is(code, &[ErrorCode::RebalanceInProgress, ErrorCode::IllegalGeneration]);
        let is_unknown = passing::is(code, &[ErrorCode::UnknownMemberId]);
        if is_unknown {
            at.member_id = StrBytes::default();
        }
        if is_over || is_unknown {
            self.stage = Stage::Outside;
            at.share.leave();
        }
        is_over || is_unknown
    }

    /// The process ends without a word, and another begins.
    pub fn crash(&mut self, at: &mut GroupContacts) {
        *self = Classic::default();
        at.member_id = StrBytes::default();
    }
}

/// What the first of the members gives to each.
fn shares(mut members: Vec<StrBytes>, partitions: i32) -> Vec<(StrBytes, Bytes)> {
    members.sort();
    let mut shares: Vec<Vec<u8>> = vec![Vec::new(); members.len()];
    for partition in 0..partitions {
        let at = partition as usize % members.len();
        shares[at].push(partition as u8);
    }
    members.into_iter().zip(shares.into_iter().map(Bytes::from)).collect()
}

fn join(at: &GroupContacts) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default().with_name(StrBytes::from_static_str(PROTOCOL));
    JoinGroupRequest::default()
        .with_group_id(at.group_id())
        .with_session_timeout_ms(SESSION_TIMEOUT_MS)
        .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
        .with_member_id(at.member_id.clone())
        .with_protocol_type(StrBytes::from_static_str(PROTOCOL))
        .with_protocols(vec![protocol])
}

fn sync(at: &GroupContacts, generation: i32, assignments: &[(StrBytes, Bytes)]) -> SyncGroupRequest {
    let assignments = assignments.iter().map(|(member, share)| {
        SyncGroupRequestAssignment::default().with_member_id(member.clone()).with_assignment(share.clone())
    });
    SyncGroupRequest::default()
        .with_group_id(at.group_id())
        .with_generation_id(generation)
        .with_member_id(at.member_id.clone())
        .with_protocol_type(Some(StrBytes::from_static_str(PROTOCOL)))
        .with_protocol_name(Some(StrBytes::from_static_str(PROTOCOL)))
        .with_assignments(assignments.collect())
}
