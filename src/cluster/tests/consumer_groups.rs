//! Groups of the consumer protocol (KIP-848) as their members see them.

use kafka_protocol::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};
use kafka_protocol::messages::consumer_group_describe_response::DescribedGroup;
use kafka_protocol::messages::consumer_group_heartbeat_request::TopicPartitions;
use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_delete_request::{
    OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::{
    AlterConfigsRequest, ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse, CreatePartitionsRequest, DeleteGroupsRequest, DeleteTopicsRequest,
    DescribeGroupsRequest, GroupId, ListGroupsRequest, OffsetCommitRequest, OffsetDeleteRequest,
    OffsetFetchRequest,
};

use super::groups::{text, world, world_with};
use super::*;
use crate::base::{ErrorCode, TopicId};

pub(super) const SESSION: Duration = Duration::from_millis(45_000);
const REBALANCE: Duration = Duration::from_millis(20_000);

pub(super) fn group() -> GroupId {
    GroupId(text("g"))
}

/// A member as a client has it: what it was given last is what it says that it has.
pub(super) struct Member {
    pub(super) client: ConnectionId,
    pub(super) id: &'static str,
    pub(super) epoch: i32,
    pub(super) assigned: Vec<(TopicId, Vec<i32>)>,
}

impl Member {
    pub(super) fn new(world: &mut World, id: &'static str) -> Self {
        Member { client: world.connect(), id, epoch: 0, assigned: Vec::new() }
    }

    /// Joins with a subscription to topics.
    pub(super) fn joined(world: &mut World, id: &'static str, topics: &[&str]) -> Self {
        let mut member = Member::new(world, id);
        let joined = member.join(world, topics);
        assert_eq!(joined.error_code, 0, "{:?}", joined.error_message);
        member
    }

    pub(super) fn request(&self) -> ConsumerGroupHeartbeatRequest {
        ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group())
            .with_member_id(text(self.id))
            .with_member_epoch(self.epoch)
            .with_rebalance_timeout_ms(-1)
    }

    pub(super) fn joining(&self) -> ConsumerGroupHeartbeatRequest {
        self.request()
            .with_rebalance_timeout_ms(REBALANCE.as_millis() as i32)
            .with_topic_partitions(Some(Vec::new()))
    }

    pub(super) fn join(&mut self, world: &mut World, topics: &[&str]) -> ConsumerGroupHeartbeatResponse {
        let request = self.joining().with_subscribed_topic_names(Some(names(topics)));
        self.ask(world, &request)
    }

    /// Lives, and has what it was given last.
    pub(super) fn beat(&mut self, world: &mut World) -> ConsumerGroupHeartbeatResponse {
        let request = self.request().with_topic_partitions(Some(self.owned()));
        self.ask(world, &request)
    }

    /// Lives, and says nothing else.
    fn lives(&mut self, world: &mut World) -> ConsumerGroupHeartbeatResponse {
        let request = self.request();
        self.ask(world, &request)
    }

    pub(super) fn leave(&mut self, world: &mut World) -> ConsumerGroupHeartbeatResponse {
        let request = self.request().with_member_epoch(-1);
        self.ask(world, &request)
    }

    fn owned(&self) -> Vec<TopicPartitions> {
        let rows = self.assigned.iter().map(|(topic, partitions)| {
            TopicPartitions::default().with_topic_id((*topic).into()).with_partitions(partitions.clone())
        });
        rows.collect()
    }

    pub(super) fn ask(
        &mut self,
        world: &mut World,
        request: &ConsumerGroupHeartbeatRequest,
    ) -> ConsumerGroupHeartbeatResponse {
        let response = world.ask(self.client, 1, request);
        if response.error_code == 0 {
            self.epoch = response.member_epoch;
            if let Some(assignment) = &response.assignment {
                let rows = assignment.topic_partitions.iter();
                self.assigned = rows.map(|row| (row.topic_id.into(), row.partitions.clone())).collect();
            }
        }
        response
    }

    /// How many partitions it has.
    pub(super) fn count(&self) -> usize {
        self.assigned.iter().map(|(_, partitions)| partitions.len()).sum()
    }

    /// The partitions that it has, of all topics.
    pub(super) fn partitions(&self) -> Vec<i32> {
        self.assigned.iter().flat_map(|(_, partitions)| partitions.iter().copied()).collect()
    }
}

pub(super) fn names(topics: &[&str]) -> Vec<TopicName> {
    topics.iter().map(|topic| TopicName(text(topic))).collect()
}

pub(super) fn error(response: &ConsumerGroupHeartbeatResponse) -> ErrorCode {
    ErrorCode::from_code(response.error_code).unwrap()
}

pub(super) fn describe(world: &mut World) -> DescribedGroup {
    let client = world.connect();
    let request = ConsumerGroupDescribeRequest::default().with_group_ids(vec![group()]);
    let mut groups = world.ask(client, 1, &request).groups;
    assert_eq!(groups.len(), 1);
    groups.remove(0)
}

/// State, group epoch and target epoch.
pub(super) fn state(world: &mut World) -> (String, i32, i32) {
    let described = describe(world);
    assert_eq!(described.error_code, 0, "{:?}", described.error_message);
    (described.group_state.to_string(), described.group_epoch, described.assignment_epoch)
}

fn is(state: &str, epoch: i32, target_epoch: i32) -> (String, i32, i32) {
    (state.to_owned(), epoch, target_epoch)
}

fn world_with_topic(partitions: i32) -> World {
    let mut world = world();
    world.create_topic("t", partitions, &[]);
    world
}

#[test]
fn two_members_share_and_never_have_a_partition_at_once() {
    let mut world = world_with_topic(4);
    let mut a = Member::joined(&mut world, "a", &["t"]);
    assert_eq!((a.epoch, a.partitions()), (1, vec![0, 1, 2, 3]));
    assert_eq!(state(&mut world), is("Stable", 1, 1));
    let mut b = Member::joined(&mut world, "b", &["t"]);
    assert_eq!((b.epoch, b.count()), (2, 0), "a has everything");
    assert_eq!(state(&mut world), is("Reconciling", 2, 2));

    let told = a.request().with_topic_partitions(Some(a.owned()));
    let told = a.ask(&mut world, &told);
    assert_eq!((a.epoch, a.partitions()), (1, vec![0, 1]), "a must give up two, at its old epoch");
    assert!(told.assignment.is_some());
    assert_eq!((b.lives(&mut world).assignment, b.epoch), (None, 2), "b waits");
    let gave_up = a.beat(&mut world);
    assert_eq!((gave_up.assignment, a.epoch), (None, 2), "what a has is no news");
    assert_eq!((b.lives(&mut world).error_code, b.partitions()), (0, vec![2, 3]));
    assert_eq!(state(&mut world), is("Stable", 2, 2));

    let described = describe(&mut world);
    assert_eq!((&*described.assignor_name, described.members.len()), ("uniform", 2));
    let row = &described.members[1];
    assert_eq!((&*row.member_id, row.member_epoch, row.member_type), ("b", 2, 1));
    assert_eq!((&*row.client_id, &*row.client_host), ("tester", "/127.0.0.1"));
    assert_eq!(row.assignment, row.target_assignment);
    assert_eq!(&*row.assignment.topic_partitions[0].topic_name.0, "t");

    assert_eq!(error(&b.leave(&mut world)), ErrorCode::None);
    assert_eq!(state(&mut world), is("Assigning", 3, 2));
    a.beat(&mut world);
    assert_eq!((a.epoch, a.count()), (3, 4));
    assert_eq!(state(&mut world), is("Stable", 3, 3));
}

#[test]
fn what_cannot_be_a_heartbeat_is_refused() {
    let mut world = world_with_topic(1);
    let mut member = Member::new(&mut world, "m");
    let joining = member.joining().with_subscribed_topic_names(Some(names(&["t"])));
    let owned = TopicPartitions::default().with_partitions(vec![0]);
    let cases = [
        ("no group", joining.clone().with_group_id(GroupId(text(" "))), ErrorCode::InvalidRequest),
        ("no member", joining.clone().with_member_id(text("")), ErrorCode::InvalidRequest),
        ("empty instance", joining.clone().with_instance_id(Some(text(""))), ErrorCode::InvalidRequest),
        ("empty rack", joining.clone().with_rack_id(Some(text(""))), ErrorCode::InvalidRequest),
        ("no timeout", joining.clone().with_rebalance_timeout_ms(-1), ErrorCode::InvalidRequest),
        ("owned null", joining.clone().with_topic_partitions(None), ErrorCode::InvalidRequest),
        ("owned some", joining.clone().with_topic_partitions(Some(vec![owned])), ErrorCode::InvalidRequest),
        ("no topics", joining.clone().with_subscribed_topic_names(None), ErrorCode::InvalidRequest),
        ("−2 without instance", joining.clone().with_member_epoch(-2), ErrorCode::InvalidRequest),
        ("epoch −3", joining.clone().with_member_epoch(-3), ErrorCode::InvalidRequest),
        (
            "an assignor",
            joining.clone().with_server_assignor(Some(text("mine"))),
            ErrorCode::UnsupportedAssignor,
        ),
        (
            "a regular expression",
            joining.clone().with_subscribed_topic_regex(Some(text("("))),
            ErrorCode::InvalidRegularExpression,
        ),
        ("no such group", member.request().with_member_epoch(1), ErrorCode::GroupIdNotFound),
        ("leaves no group", member.request().with_member_epoch(-1), ErrorCode::GroupIdNotFound),
    ];
    for (what, request, expected) in cases {
        let response = member.ask(&mut world, &request);
        assert_eq!(error(&response), expected, "{what}");
        assert!(response.error_message.is_some_and(|message| !message.is_empty()), "{what}");
        assert_eq!(
            (response.member_id, response.member_epoch, response.assignment),
            (None, 0, None),
            "{what}"
        );
    }
    let nothing = describe(&mut world);
    assert_eq!(nothing.error_code, ErrorCode::GroupIdNotFound.code(), "none of them has made the group");

    let mut world = world_with(&[("group.coordinator.rebalance.protocols", "classic")]);
    let mut member = Member::new(&mut world, "m");
    assert_eq!(error(&member.join(&mut world, &["t"])), ErrorCode::UnsupportedVersion);
}

#[test]
fn epochs_of_others_times_are_fenced() {
    let mut world = world_with_topic(2);
    let mut a = Member::joined(&mut world, "a", &["t"]);
    let had = a.owned();
    Member::joined(&mut world, "b", &["t"]);
    a.beat(&mut world);
    a.beat(&mut world);
    assert_eq!(a.epoch, 2);
    let at = |epoch: i32, owned: Option<Vec<TopicPartitions>>| {
        a.request().with_member_epoch(epoch).with_topic_partitions(owned)
    };
    let cases = [
        ("from the future", at(3, None), ErrorCode::FencedMemberEpoch),
        ("the one before, saying nothing", at(1, None), ErrorCode::FencedMemberEpoch),
        ("the one before, with what is lost", at(1, Some(had)), ErrorCode::FencedMemberEpoch),
        ("the one before, its answer being lost", at(1, Some(a.owned())), ErrorCode::None),
        (
            "long past",
            at(0, Some(Vec::new()))
                .with_rebalance_timeout_ms(1)
                .with_subscribed_topic_names(Some(Vec::new())),
            ErrorCode::FencedMemberEpoch,
        ),
        ("nobody", at(2, None).with_member_id(text("c")), ErrorCode::UnknownMemberId),
        ("nobody leaves", at(-1, None).with_member_id(text("c")), ErrorCode::UnknownMemberId),
    ];
    for (what, request, expected) in cases {
        let response = world.ask(a.client, 1, &request);
        assert_eq!(error(&response), expected, "{what}");
    }
}

#[test]
fn the_coordinator_names_a_member_that_has_no_id() {
    let mut world = world_with_topic(1);
    let member = Member::new(&mut world, "");
    let request = member.joining().with_subscribed_topic_names(Some(names(&["t"])));
    let response = world.ask(member.client, 0, &request);
    let id = response.member_id.unwrap();
    assert_eq!((response.error_code, id.len()), (0, 22), "an id as Kafka prints its own");
}

#[test]
fn a_silent_member_is_out_after_its_session() {
    let mut world = world_with_topic(2);
    let mut a = Member::joined(&mut world, "a", &["t"]);
    Member::joined(&mut world, "b", &["t"]);
    for _ in 0..4 {
        world.advance(Duration::from_secs(11));
        a.beat(&mut world);
    }
    assert_eq!(state(&mut world), is("Reconciling", 2, 2));
    assert_eq!(a.count(), 1);
    world.advance(Duration::from_millis(999));
    assert_eq!(describe(&mut world).members.len(), 2, "45 s are not over");
    world.advance(Duration::from_millis(1));
    assert_eq!(state(&mut world), is("Assigning", 3, 2));
    a.beat(&mut world);
    assert_eq!((a.epoch, a.count()), (3, 2));
    world.advance(SESSION);
    assert_eq!(state(&mut world), is("Empty", 4, 3));
    assert_eq!(error(&a.beat(&mut world)), ErrorCode::UnknownMemberId);
}

#[test]
fn who_does_not_give_up_in_time_is_out() {
    let mut world = world_with_topic(2);
    let mut a = Member::joined(&mut world, "a", &["t"]);
    let mut b = Member::joined(&mut world, "b", &["t"]);
    let clung_to = a.owned();
    a.beat(&mut world);
    assert_eq!(a.count(), 1);
    for _ in 0..3 {
        world.advance(Duration::from_secs(5));
        let request = a.request().with_topic_partitions(Some(clung_to.clone()));
        assert_eq!(error(&a.ask(&mut world, &request)), ErrorCode::None);
        b.lives(&mut world);
    }
    world.advance(Duration::from_millis(4_999));
    assert_eq!((b.lives(&mut world).assignment, b.count()), (None, 0));
    world.advance(Duration::from_millis(1));
    b.lives(&mut world);
    assert_eq!((b.epoch, b.count()), (3, 2), "a was out after 20 s");
    let request = a.request().with_topic_partitions(Some(clung_to));
    assert_eq!(error(&a.ask(&mut world, &request)), ErrorCode::UnknownMemberId);
}

#[test]
fn a_group_has_settings_of_its_own() {
    let mut world = world_with_topic(1);
    let client = world.connect();
    let set = |name: &str, value: &str| {
        AlterableConfig::default().with_name(text(name)).with_value(Some(text(value)))
    };
    let resource =
        AlterConfigsResource::default().with_resource_type(32).with_resource_name(text("g")).with_configs(
            vec![set("consumer.session.timeout.ms", "50000"), set("consumer.heartbeat.interval.ms", "7000")],
        );
    let response = world.ask(client, 2, &AlterConfigsRequest::default().with_resources(vec![resource]));
    assert_eq!(response.responses[0].error_code, 0, "{:?}", response.responses[0].error_message);
    let mut a = Member::new(&mut world, "a");
    assert_eq!(a.join(&mut world, &["t"]).heartbeat_interval_ms, 7_000);
    world.advance(Duration::from_millis(49_999));
    assert_eq!(state(&mut world).0, "Stable");
    world.advance(Duration::from_millis(1));
    assert_eq!(state(&mut world).0, "Empty");
}

#[test]
fn a_group_is_full_at_its_limit() {
    let mut world = world_with(&[("group.consumer.max.size", "2")]);
    world.create_topic("t", 1, &[]);
    let mut a = Member::joined(&mut world, "a", &["t"]);
    let mut b = Member::joined(&mut world, "b", &["t"]);
    let mut c = Member::new(&mut world, "c");
    assert_eq!(error(&c.join(&mut world, &["t"])), ErrorCode::GroupMaxSizeReached);
    assert_eq!(error(&a.beat(&mut world)), ErrorCode::None, "who is in it stays");
    b.leave(&mut world);
    assert_eq!(error(&c.join(&mut world, &["t"])), ErrorCode::None);
}

#[test]
fn a_static_member_may_go_for_a_while() {
    let mut world = world_with_topic(2);
    let mut a = Member::new(&mut world, "a");
    let as_i = |request: ConsumerGroupHeartbeatRequest| request.with_instance_id(Some(text("i")));
    let joining = |member: &Member| as_i(member.joining().with_subscribed_topic_names(Some(names(&["t"]))));
    let request = joining(&a);
    assert_eq!(error(&a.ask(&mut world, &request)), ErrorCode::None);
    let mut b = Member::new(&mut world, "b");
    let request = joining(&b);
    assert_eq!(error(&b.ask(&mut world, &request)), ErrorCode::UnreleasedInstanceId);
    let strange = as_i(b.request().with_member_epoch(1));
    assert_eq!(error(&b.ask(&mut world, &strange)), ErrorCode::FencedInstanceId);
    let unknown = b.request().with_member_epoch(1).with_instance_id(Some(text("j")));
    assert_eq!(error(&b.ask(&mut world, &unknown)), ErrorCode::UnknownMemberId);

    let leaving = as_i(a.request().with_member_epoch(-2));
    let left = a.ask(&mut world, &leaving);
    assert_eq!((error(&left), left.member_epoch), (ErrorCode::None, -2));
    assert_eq!(state(&mut world), is("Reconciling", 1, 1), "what it had is kept for it");
    let mut c = Member::joined(&mut world, "c", &["t"]);
    assert_eq!((c.epoch, c.count()), (2, 0));
    b.epoch = 0;
    assert_eq!(error(&b.ask(&mut world, &request)), ErrorCode::None);
    assert_eq!((b.epoch, b.count()), (2, 1), "another takes its place, and has given up what is c's");
    c.lives(&mut world);
    assert_eq!(c.count(), 1);
    a.epoch = 1;
    let old = as_i(a.request());
    assert_eq!(error(&a.ask(&mut world, &old)), ErrorCode::FencedInstanceId);

    let leaving = as_i(b.request().with_member_epoch(-2));
    b.ask(&mut world, &leaving);
    for _ in 0..5 {
        world.advance(Duration::from_secs(9));
        c.beat(&mut world);
    }
    c.beat(&mut world);
    assert_eq!((c.epoch, c.count()), (3, 2), "it did not come back within its session");
}

#[test]
fn topics_that_come_grow_and_go_are_noticed() {
    let mut world = world();
    let mut a = Member::joined(&mut world, "a", &["t"]);
    assert_eq!((a.epoch, a.count()), (1, 0), "there is no topic yet");
    world.create_topic("other", 1, &[]);
    a.beat(&mut world);
    assert_eq!(a.epoch, 1, "nobody subscribes to it");
    world.create_topic("t", 2, &[]);
    a.beat(&mut world);
    assert_eq!((a.epoch, a.partitions()), (2, vec![0, 1]));

    let client = world.connect();
    let more =
        CreatePartitionsTopic::default().with_name(TopicName(text("t"))).with_count(3).with_assignments(None);
    let more = CreatePartitionsRequest::default().with_topics(vec![more]).with_timeout_ms(1000);
    assert_eq!(world.ask(client, 3, &more).results[0].error_code, 0);
    a.beat(&mut world);
    assert_eq!((a.epoch, a.partitions()), (3, vec![0, 1, 2]));

    let gone = DeleteTopicState::default().with_name(Some(TopicName(text("t"))));
    let gone = DeleteTopicsRequest::default().with_topics(vec![gone]).with_timeout_ms(1000);
    assert_eq!(world.ask(client, 6, &gone).responses[0].error_code, 0);
    a.beat(&mut world);
    assert_eq!((a.epoch, a.count()), (3, 0), "it has to give up what is gone");
    a.beat(&mut world);
    assert_eq!(a.epoch, 4);
    assert_eq!(state(&mut world), is("Stable", 4, 4));

    world.create_topic("t", 1, &[]);
    a.beat(&mut world);
    assert_eq!((a.epoch, a.partitions()), (5, vec![0]), "another topic of the same name");
}

#[test]
fn a_subscription_changes_and_so_does_the_assignor() {
    let mut world = world_with_topic(2);
    world.create_topic("u", 2, &[]);
    let mut a = Member::joined(&mut world, "a", &["t"]);
    let other = a.request().with_subscribed_topic_names(Some(names(&["u"])));
    a.ask(&mut world, &other);
    assert_eq!((a.epoch, a.count()), (1, 0), "what it had is to be given up first");
    a.beat(&mut world);
    assert_eq!((a.epoch, a.partitions()), (2, vec![0, 1]));
    let range = a.request().with_server_assignor(Some(text("range")));
    a.ask(&mut world, &range);
    assert_eq!(
        (a.epoch, &*describe(&mut world).assignor_name),
        (2, "range"),
        "which alone changes nothing yet"
    );
    let full = a
        .request()
        .with_rebalance_timeout_ms(1)
        .with_subscribed_topic_names(Some(names(&["u"])))
        .with_topic_partitions(Some(a.owned()));
    assert!(a.ask(&mut world, &full).assignment.is_some(), "who says everything hears everything");
}

#[test]
fn a_regular_expression_is_resolved_and_again_when_topics_come() {
    let mut world = world();
    for name in ["log-a", "log-b", "other"] {
        world.create_topic(name, 1, &[]);
    }
    let mut a = Member::new(&mut world, "a");
    let request = a.joining().with_subscribed_topic_regex(Some(text("log-.*")));
    assert_eq!((error(&a.ask(&mut world, &request)), a.count()), (ErrorCode::None, 0), "for now");
    world.advance(Duration::from_millis(1));
    a.lives(&mut world);
    assert_eq!((a.epoch, a.count()), (2, 2));
    let described = describe(&mut world);
    assert_eq!(described.members[0].subscribed_topic_regex.as_deref(), Some("log-.*"));

    world.create_topic("log-c", 1, &[]);
    a.lives(&mut world);
    world.advance(Duration::from_millis(1));
    a.lives(&mut world);
    assert_eq!(a.count(), 2, "within ten seconds they are not looked through again");
    world.advance(Duration::from_secs(10));
    a.lives(&mut world);
    world.advance(Duration::from_millis(1));
    a.lives(&mut world);
    assert_eq!((a.epoch, a.count()), (3, 3));

    let mut b = Member::new(&mut world, "b");
    let request = b.joining().with_subscribed_topic_regex(Some(text("log-.*")));
    b.ask(&mut world, &request);
    assert_eq!(b.epoch, 4, "known already, it counts at once");
    a.beat(&mut world);
    a.beat(&mut world);
    b.lives(&mut world);
    assert_eq!((a.count(), b.count()), (2, 1));
    let bad = b.request().with_subscribed_topic_regex(Some(text("[")));
    assert_eq!(error(&b.ask(&mut world, &bad)), ErrorCode::InvalidRegularExpression);
    b.leave(&mut world);
    let none = a
        .request()
        .with_subscribed_topic_regex(Some(text("")))
        .with_subscribed_topic_names(Some(names(&["other"])));
    a.ask(&mut world, &none);
    a.beat(&mut world);
    assert_eq!((a.count(), describe(&mut world).members.len()), (1, 1));
}

pub(super) fn commit(member: &str, epoch: i32) -> OffsetCommitRequest {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(0)
        .with_committed_offset(5)
        .with_committed_metadata(Some(text("")));
    let topic = OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    OffsetCommitRequest::default()
        .with_group_id(group())
        .with_generation_id_or_member_epoch(epoch)
        .with_member_id(text(member))
        .with_topics(vec![topic])
}

fn committed(
    world: &mut World,
    client: ConnectionId,
    member: Option<&str>,
    epoch: i32,
) -> (i16, Option<i64>) {
    let topic = OffsetFetchRequestTopics::default().with_name(topic("t")).with_partition_indexes(vec![0]);
    let asked = OffsetFetchRequestGroup::default()
        .with_group_id(group())
        .with_member_id(member.map(text))
        .with_member_epoch(epoch)
        .with_topics(Some(vec![topic]));
    let response = world.ask(client, 9, &OffsetFetchRequest::default().with_groups(vec![asked]));
    let row = &response.groups[0];
    (row.error_code, row.topics.first().map(|topic| topic.partitions[0].committed_offset))
}

#[test]
fn offsets_are_committed_and_fetched_with_the_members_epoch() {
    let mut world = world_with_topic(1);
    let a = Member::joined(&mut world, "a", &["t"]);
    let mut outcome = |version: i16, member: &str, epoch: i32| {
        let response = world.ask(a.client, version, &commit(member, epoch));
        ErrorCode::from_code(response.topics[0].partitions[0].error_code).unwrap()
    };
    assert_eq!(outcome(9, "a", 0), ErrorCode::StaleMemberEpoch);
    assert_eq!(outcome(9, "a", 2), ErrorCode::StaleMemberEpoch);
    assert_eq!(outcome(9, "b", 1), ErrorCode::UnknownMemberId);
    assert_eq!(outcome(9, "", -1), ErrorCode::UnknownMemberId);
    assert_eq!(outcome(8, "a", 1), ErrorCode::UnsupportedVersion);
    assert_eq!(outcome(9, "a", 1), ErrorCode::None);
    assert_eq!(committed(&mut world, a.client, None, -1), (0, Some(5)));
    assert_eq!(committed(&mut world, a.client, Some("a"), 1), (0, Some(5)));
    let stale = ErrorCode::StaleMemberEpoch.code();
    assert_eq!(committed(&mut world, a.client, Some("a"), 0), (stale, None));
    assert_eq!(committed(&mut world, a.client, Some("b"), 1), (ErrorCode::UnknownMemberId.code(), None));
}

#[test]
fn a_group_is_listed_told_of_and_deleted_by_its_kind() {
    let mut world = world_with_topic(1);
    let mut a = Member::joined(&mut world, "a", &["t"]);
    world.ask(a.client, 9, &commit("a", 1));
    let mut list = |kinds: &[&str], states: &[&str]| {
        let request = ListGroupsRequest::default()
            .with_types_filter(kinds.iter().map(|kind| text(kind)).collect())
            .with_states_filter(states.iter().map(|state| text(state)).collect());
        let rows = world.ask(a.client, 5, &request).groups;
        rows.into_iter()
            .map(|row| {
                (row.group_type.to_string(), row.group_state.to_string(), row.protocol_type.to_string())
            })
            .collect::<Vec<_>>()
    };
    let stable = vec![("consumer".to_owned(), "Stable".to_owned(), "consumer".to_owned())];
    assert_eq!(list(&[], &[]), stable);
    assert_eq!(list(&["Consumer"], &["stable"]), stable);
    assert_eq!(list(&["classic"], &[]), []);
    assert_eq!(list(&[], &["Empty"]), []);

    let classic = DescribeGroupsRequest::default().with_groups(vec![group()]);
    let old = world.ask(a.client, 5, &classic);
    assert_eq!((old.groups[0].error_code, &*old.groups[0].group_state), (0, "Dead"));
    let new = world.ask(a.client, 6, &classic);
    assert_eq!(new.groups[0].error_code, ErrorCode::GroupIdNotFound.code());

    let delete = DeleteGroupsRequest::default().with_groups_names(vec![group()]);
    assert_eq!(world.ask(a.client, 2, &delete).results[0].error_code, ErrorCode::NonEmptyGroup.code());
    let row = OffsetDeleteRequestTopic::default()
        .with_name(topic("t"))
        .with_partitions(vec![OffsetDeleteRequestPartition::default().with_partition_index(0)]);
    let forget = OffsetDeleteRequest::default().with_group_id(group()).with_topics(vec![row]);
    let forgotten = world.ask(a.client, 0, &forget);
    let subscribed = ErrorCode::GroupSubscribedToTopic.code();
    assert_eq!(forgotten.topics[0].partitions[0].error_code, subscribed);
    a.leave(&mut world);
    assert_eq!(world.ask(a.client, 0, &forget).topics[0].partitions[0].error_code, 0);
    assert_eq!(committed(&mut world, a.client, None, -1), (0, Some(-1)));
    assert_eq!(world.ask(a.client, 2, &delete).results[0].error_code, 0);
    assert_eq!(describe(&mut world).error_code, ErrorCode::GroupIdNotFound.code());
}

#[test]
fn an_empty_group_goes_once_its_offsets_have_expired() {
    let mut world =
        world_with(&[("offsets.retention.minutes", "1"), ("offsets.retention.check.interval.ms", "1000")]);
    world.create_topic("t", 1, &[]);
    let mut a = Member::joined(&mut world, "a", &["t"]);
    world.ask(a.client, 9, &commit("a", 1));
    for _ in 0..8 {
        world.advance(Duration::from_secs(10));
        a.beat(&mut world);
    }
    assert_eq!(committed(&mut world, a.client, None, -1), (0, Some(5)), "kept while it is subscribed to");
    a.leave(&mut world);
    world.advance(Duration::from_secs(2));
    assert_eq!(committed(&mut world, a.client, None, -1), (0, Some(-1)));
    assert_eq!(describe(&mut world).error_code, ErrorCode::GroupIdNotFound.code());
}

#[test]
fn a_thousand_members_come_and_fall_silent() {
    let mut world = world_with_topic(100);
    let client = world.connect();
    for at in 0..1_000 {
        let request = ConsumerGroupHeartbeatRequest::default()
            .with_group_id(group())
            .with_member_id(text(&format!("m{at:05}")))
            .with_rebalance_timeout_ms(1_000)
            .with_topic_partitions(Some(Vec::new()))
            .with_subscribed_topic_names(Some(names(&["t"])));
        let response = world.ask(client, 1, &request);
        assert_eq!((response.error_code, response.member_epoch), (0, at + 1));
    }
    assert_eq!(describe(&mut world).members.len(), 1_000);
    assert!(world.cluster.log_bytes_held() < 16 << 20, "{} bytes", world.cluster.log_bytes_held());
    world.advance(SESSION);
    assert_eq!(state(&mut world).0, "Empty");
}
