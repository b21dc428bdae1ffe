//! How a member comes into a group and stays there by the consumer protocol (KIP-848): heartbeats tell it what the
//! coordinator wants it to own, and the coordinator what it does.

use std::collections::BTreeSet;

use bytes::Bytes;
use kafka_protocol::messages::ConsumerGroupHeartbeatRequest;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::protocol::StrBytes;
use uuid::Uuid;

use super::checkers::Event;
use super::contacts::topic;
use super::group::{Asked, GroupContacts};
use super::passing;
use super::world::{self, World};
use crate::base::{ErrorCode, NodeId};

const HEARTBEAT: i16 = 1;
const REBALANCE_TIMEOUT_MS: i32 = 9_000;
/// When to ask again if nothing else is said.
const HEARTBEAT_MS: u64 = 1_000;

/// Where a member stands in the consumer protocol.
#[derive(Debug)]
pub struct Reconciling {
    topic_id: Option<Uuid>,
    /// When the next heartbeat is due.
    heartbeat_ms: u64,
    /// Whether the next heartbeat says all there is to say, since an answer may have been lost: what it would have
    /// assigned is then answered again.
    says_all: bool,
}

impl Reconciling {
    /// Of a member that hasn't joined.
    pub fn new() -> Self {
        Reconciling { topic_id: None, heartbeat_ms: 0, says_all: true }
    }

    /// Asks what is due. Returns whether something is.
    pub fn ask(&mut self, at: &mut GroupContacts, world: &mut World, coordinator: NodeId) -> bool {
        if self.heartbeat_ms > world.now_ms {
            return false;
        }
        if at.member_id.is_empty() {
            at.member_id = StrBytes::from_string(world.entropy.next_uuid().to_string());
        }
        let request = self.heartbeat(at);
        let asked = Asked::Heartbeat { asked_ms: world.now_ms, owned: at.share.owned() };
        if at.ask(world, coordinator, HEARTBEAT, &request, asked) {
            self.heartbeat_ms = world.now_ms + HEARTBEAT_MS;
        }
        true
    }

    /// Its heartbeat was heard, or not. Returns the code of an error, or 0.
    pub fn take_heartbeat(
        &mut self,
        at: &mut GroupContacts,
        world: &mut World,
        asked_ms: u64,
        owned: &BTreeSet<i32>,
        frame: Bytes,
    ) -> i16 {
        let (_, response) = world::read::<ConsumerGroupHeartbeatRequest>(frame, HEARTBEAT);
        if response.error_code != 0 {
            return response.error_code;
        }
        let owned_still = at.share.owned();
        if let Some(generation) = at.share.generation {
            let partitions = owned.intersection(&owned_still).copied().collect();
            let (group, reader) = (at.group.id, at.client);
            world.note(Event::Confirmed { group, reader, generation, partitions, asked_ms });
        }
        self.says_all = false;
        at.share.generation = Some(response.member_epoch);
        self.heartbeat_ms = world.now_ms + response.heartbeat_interval_ms.max(1) as u64;
        let Some(assignment) = response.assignment else { return 0 };
        let topics = &assignment.topic_partitions;
        self.topic_id = topics.first().map(|topic| topic.topic_id).or(self.topic_id);
        let assigned: BTreeSet<i32> =
            topics.iter().flat_map(|topic| topic.partitions.iter().copied()).collect();
        if assigned != owned_still {
            // What was revoked is given up at once, and the coordinator told.
            at.share.own(&assigned);
            self.heartbeat_ms = 0;
        }
        0
    }

    /// What the coordinator's errors mean to a member. Returns whether this one means something.
    pub fn refused(&mut self, at: &mut GroupContacts, code: i16) -> bool {
        let is_fenced = passing::is(code, &[ErrorCode::FencedMemberEpoch, ErrorCode::UnknownMemberId]);
        let is_stale = passing::is(code, &[ErrorCode::StaleMemberEpoch]);
        if is_fenced {
            at.share.leave();
        }
        if is_fenced || is_stale {
            self.heartbeat_ms = 0;
        }
        is_fenced || is_stale
    }

    /// What was asked may have been done, and won't be answered.
    pub fn failed(&mut self) {
        self.heartbeat_ms = 0;
        self.says_all = true;
    }

    /// The process ends without a word, and another begins.
    pub fn crash(&mut self, at: &mut GroupContacts) {
        *self = Reconciling::new();
        at.member_id = StrBytes::default();
    }

    fn heartbeat(&self, at: &GroupContacts) -> ConsumerGroupHeartbeatRequest {
        let epoch = at.share.generation.unwrap_or(0);
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(at.group_id())
            .with_member_id(at.member_id.clone())
            .with_member_epoch(epoch);
        let owned: Vec<i32> = at.share.owned().into_iter().collect();
        let owned = self
            .topic_id
            .filter(|_| !owned.is_empty())
            .map(|topic_id| TopicPartitions::default().with_topic_id(topic_id).with_partitions(owned));
        let owned: Vec<TopicPartitions> = owned.into_iter().collect();
        if epoch == 0 || self.says_all {
            return request
                .with_rebalance_timeout_ms(REBALANCE_TIMEOUT_MS)
                .with_subscribed_topic_names(Some(vec![topic(at.group.topic)]))
                .with_topic_partitions(Some(owned));
        }
        request.with_topic_partitions(Some(owned))
    }
}
