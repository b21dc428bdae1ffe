//! Groups that go over from the classic to the consumer protocol and back while they work (KIP-848).

use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DescribeGroupsRequest, HeartbeatRequest, JoinGroupRequest, JoinGroupResponse, LeaveGroupRequest,
    SyncGroupRequest,
};

use super::consumer_groups::{Member, SESSION, describe, error, group, names, state};
use super::groups::{JOIN, text, world_with};
use super::*;
use crate::base::ErrorCode;
use crate::coordinator::subscription::Assignment;

/// A member of the classic protocol, with its generation.
struct Classic {
    client: ConnectionId,
    id: String,
    instance_id: Option<&'static str>,
    generation: i32,
}

/// A consumer's subscription to topic `t`, with what it has of it.
fn subscription(owned: &[i32]) -> Bytes {
    let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, 1, b't', 255, 255, 255, 255, 0, 0, 0, 1, 0, 1, b't'];
    bytes.extend((owned.len() as i32).to_be_bytes());
    owned.iter().for_each(|partition| bytes.extend(partition.to_be_bytes()));
    bytes.into()
}

impl Classic {
    fn new(world: &mut World, instance_id: Option<&'static str>) -> Self {
        Classic { client: world.connect(), id: String::new(), instance_id, generation: -1 }
    }

    fn joining(&self, owned: &[i32]) -> JoinGroupRequest {
        JoinGroupRequest::default()
            .with_group_id(group())
            .with_session_timeout_ms(30_000)
            .with_rebalance_timeout_ms(20_000)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance_id.map(text))
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![
                JoinGroupRequestProtocol::default()
                    .with_name(text("range"))
                    .with_metadata(subscription(owned)),
            ])
    }

    /// Joins, having these partitions.
    fn join(&mut self, world: &mut World, owned: &[i32]) -> JoinGroupResponse {
        let mut response = world.ask(self.client, JOIN, &self.joining(owned));
        if response.error_code == ErrorCode::MemberIdRequired.code() {
            self.id = response.member_id.to_string();
            world.send(self.client, JOIN, &self.joining(owned));
            world.advance(Duration::from_millis(1));
            response = world.received::<JoinGroupRequest>(self.client, JOIN).expect("an answer");
        }
        assert_eq!(response.error_code, 0);
        self.id = response.member_id.to_string();
        self.generation = response.generation_id;
        response
    }

    fn sync_request(&self, assigned: Option<&[i32]>) -> SyncGroupRequest {
        let assignment = assigned.map(|partitions| {
            let assignment =
                Assignment { partitions: vec![("t".to_owned(), partitions.to_vec())], has_user_data: false };
            SyncGroupRequestAssignment::default()
                .with_member_id(text(&self.id))
                .with_assignment(assignment.encode(1))
        });
        SyncGroupRequest::default()
            .with_group_id(group())
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance_id.map(text))
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text("range")))
            .with_assignments(assignment.into_iter().collect())
    }

    /// Asks what it has; error and partitions of `t`.
    fn sync(&self, world: &mut World) -> (ErrorCode, Vec<i32>) {
        let response = world.ask(self.client, 5, &self.sync_request(None));
        let error = ErrorCode::from_code(response.error_code).unwrap();
        if error.is_error() {
            return (error, Vec::new());
        }
        let assignment = Assignment::decode(&response.assignment).unwrap();
        (error, assignment.partitions.into_iter().flat_map(|(_, partitions)| partitions).collect())
    }

    fn beat(&self, world: &mut World) -> ErrorCode {
        let request = HeartbeatRequest::default()
            .with_group_id(group())
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance_id.map(text));
        ErrorCode::from_code(world.ask(self.client, 4, &request).error_code).unwrap()
    }

    fn leave(&self, world: &mut World) -> ErrorCode {
        let member = MemberIdentity::default()
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance_id.map(text));
        let request = LeaveGroupRequest::default().with_group_id(group()).with_members(vec![member]);
        let response = world.ask(self.client, 5, &request);
        ErrorCode::from_code(response.members[0].error_code).unwrap()
    }
}

fn world_of(policy: &str) -> World {
    let mut world = world_with(&[("group.consumer.migration.policy", policy)]);
    world.create_topic("t", 2, &[]);
    world
}

/// A classic group of one that has both partitions.
fn classic_group(world: &mut World) -> Classic {
    let mut old = Classic::new(world, None);
    old.join(world, &[]);
    let request = old.sync_request(Some(&[0, 1]));
    assert_eq!(world.ask(old.client, 5, &request).error_code, 0);
    old
}

fn classic_state(world: &mut World) -> String {
    let client = world.connect();
    let request = DescribeGroupsRequest::default().with_groups(vec![group()]);
    world.ask(client, 5, &request).groups[0].group_state.to_string()
}

#[test]
fn a_working_classic_group_goes_over_and_back() {
    let mut world = world_of("bidirectional");
    let mut old = classic_group(&mut world);
    assert_eq!(classic_state(&mut world), "Stable");

    // The first member of the new protocol takes the group with it.
    let mut new = Member::joined(&mut world, "new", &["t"]);
    assert_eq!((new.epoch, new.count()), (2, 0));
    assert_eq!(state(&mut world), ("Reconciling".to_owned(), 2, 2));
    assert_eq!(classic_state(&mut world), "Dead");
    let kinds = describe(&mut world).members.iter().map(|member| member.member_type).collect::<Vec<_>>();
    assert_eq!(kinds.iter().sum::<i8>(), 1, "one of each kind");

    // The old one is told by its own means.
    assert_eq!(old.beat(&mut world), ErrorCode::RebalanceInProgress);
    assert_eq!(old.sync(&mut world).0, ErrorCode::RebalanceInProgress);
    let rejoined = old.join(&mut world, &[0, 1]);
    assert_eq!((rejoined.generation_id, &*rejoined.leader, rejoined.members.len()), (1, "", 0));
    assert_eq!(old.sync(&mut world), (ErrorCode::None, vec![0]), "it has to give up one");
    assert_eq!(old.beat(&mut world), ErrorCode::RebalanceInProgress, "and to join once it has");
    assert_eq!(old.join(&mut world, &[0]).generation_id, 2);
    assert_eq!(old.sync(&mut world), (ErrorCode::None, vec![0]));
    assert_eq!(old.beat(&mut world), ErrorCode::None);
    new.beat(&mut world);
    assert_eq!(new.partitions(), [1]);
    assert_eq!(state(&mut world), ("Stable".to_owned(), 2, 2));

    // The last member of the new protocol leaves the group to the classic one.
    assert_eq!(error(&new.leave(&mut world)), ErrorCode::None);
    assert_eq!(describe(&mut world).error_code, ErrorCode::GroupIdNotFound.code());
    assert_eq!(classic_state(&mut world), "PreparingRebalance");
    assert_eq!(old.beat(&mut world), ErrorCode::RebalanceInProgress);
    let led = old.join(&mut world, &[0]);
    assert_eq!((led.generation_id, *led.leader == *old.id, led.members.len()), (3, true, 1));
    let request = old.sync_request(Some(&[0, 1]));
    assert_eq!(world.ask(old.client, 5, &request).error_code, 0);
    assert_eq!(classic_state(&mut world), "Stable");
}

/// A group of an old member and a new one, both of which have what they are to have.
fn half_way(world: &mut World) -> (Classic, Member) {
    let mut old = classic_group(world);
    let mut new = Member::joined(world, "new", &["t"]);
    assert_eq!(old.beat(world), ErrorCode::RebalanceInProgress);
    for owned in [&[0, 1][..], &[0]] {
        old.join(world, owned);
        assert_eq!(old.sync(world), (ErrorCode::None, vec![0]));
    }
    new.beat(world);
    assert_eq!(new.partitions(), [1]);
    (old, new)
}

#[test]
fn a_group_goes_back_however_its_last_new_member_goes() {
    let mut world = world_of("bidirectional");
    let (old, new) = half_way(&mut world);

    // Removed by an administrator.
    let mut removed = world.clone();
    let member = MemberIdentity::default().with_member_id(text("new"));
    let request = LeaveGroupRequest::default().with_group_id(group()).with_members(vec![member]);
    assert_eq!(removed.ask(old.client, 5, &request).members[0].error_code, 0);
    assert_eq!(classic_state(&mut removed), "PreparingRebalance");

    // Silent for its session.
    let mut silent = world.clone();
    for _ in 0..5 {
        assert_eq!(old.beat(&mut silent), ErrorCode::None);
        silent.advance(Duration::from_secs(9));
    }
    assert_eq!(classic_state(&mut silent), "PreparingRebalance");

    // Too slow to give up what it has to.
    let mut slow = world;
    let (mut new, mut old) = (new, old);
    let wants_less = new.request().with_subscribed_topic_names(Some(names(&["u"])));
    new.ask(&mut slow, &wants_less);
    for _ in 0..20 {
        assert_eq!(describe(&mut slow).error_code, 0);
        let id = new.request();
        slow.ask(new.client, 1, &id);
        if old.beat(&mut slow) == ErrorCode::RebalanceInProgress {
            old.join(&mut slow, &[0]);
            old.sync(&mut slow);
        }
        slow.advance(Duration::from_secs(1));
    }
    assert_eq!(classic_state(&mut slow), "PreparingRebalance");
    assert_eq!(old.beat(&mut slow), ErrorCode::RebalanceInProgress);
}

#[test]
fn a_group_does_not_go_over_if_it_is_too_large_for_the_other_protocol() {
    // Two classic members would be left, and one is allowed.
    let mut world = world_with(&[("group.max.size", "1")]);
    world.create_topic("t", 2, &[]);
    let mut new = Member::joined(&mut world, "new", &["t"]);
    let mut olds = [Classic::new(&mut world, Some("i")), Classic::new(&mut world, Some("j"))];
    for old in &mut olds {
        old.join(&mut world, &[]);
    }
    assert_eq!(error(&new.leave(&mut world)), ErrorCode::None);
    assert_eq!((describe(&mut world).members.len(), classic_state(&mut world).as_str()), (2, "Dead"));

    let mut world = world_with(&[("group.consumer.max.size", "1")]);
    world.create_topic("t", 2, &[]);
    let old = classic_group(&mut world);
    let mut second = Classic::new(&mut world, Some("i"));
    world.send(second.client, JOIN, &second.joining(&[]));
    assert_eq!(old.beat(&mut world), ErrorCode::RebalanceInProgress);
    world.ask(old.client, JOIN, &old.joining(&[0, 1]));
    second.id = world.received::<JoinGroupRequest>(second.client, JOIN).unwrap().member_id.to_string();
    let mut new = Member::new(&mut world, "new");
    assert_eq!(error(&new.join(&mut world, &["t"])), ErrorCode::GroupIdNotFound);
    assert_ne!(classic_state(&mut world), "Dead");
}

#[test]
fn the_policy_says_which_ways_a_group_may_go() {
    for policy in ["disabled", "DOWNGRADE"] {
        let mut world = world_of(policy);
        let old = classic_group(&mut world);
        let mut new = Member::new(&mut world, "new");
        let refused = new.join(&mut world, &["t"]);
        assert_eq!(error(&refused), ErrorCode::GroupIdNotFound, "{policy}");
        assert_eq!((classic_state(&mut world).as_str(), old.beat(&mut world)), ("Stable", ErrorCode::None));
    }
    let mut world = world_of("upgrade");
    let old = classic_group(&mut world);
    let mut new = Member::joined(&mut world, "new", &["t"]);
    new.leave(&mut world);
    assert_eq!(state(&mut world), ("Assigning".to_owned(), 3, 2), "it stays a consumer group");
    assert_eq!(old.beat(&mut world), ErrorCode::RebalanceInProgress);
}

#[test]
fn a_group_that_consumers_cannot_share_stays_classic() {
    let mut world = world_of("bidirectional");
    let mut connect = Classic::new(&mut world, Some("i"));
    let strange = connect.joining(&[]).with_protocol_type(text("connect"));
    world.send(connect.client, JOIN, &strange);
    world.advance(Duration::from_millis(1));
    let joined = world.received::<JoinGroupRequest>(connect.client, JOIN).unwrap();
    assert_eq!(joined.error_code, 0);
    let mut new = Member::new(&mut world, "new");
    assert_eq!(error(&new.join(&mut world, &["t"])), ErrorCode::GroupIdNotFound, "no consumers");
    connect.id = joined.member_id.to_string();
    connect.leave(&mut world);

    let mut world = world_of("bidirectional");
    let mut garbage = Classic::new(&mut world, Some("i"));
    let mut request = garbage.joining(&[]);
    request.protocols[0].metadata = Bytes::from_static(b"\x00\x01garbage");
    world.send(garbage.client, JOIN, &request);
    world.advance(Duration::from_millis(1));
    let joined = world.received::<JoinGroupRequest>(garbage.client, JOIN).unwrap();
    (garbage.id, garbage.generation) = (joined.member_id.to_string(), joined.generation_id);
    let mut new = Member::new(&mut world, "new");
    assert_eq!(
        error(&new.join(&mut world, &["t"])),
        ErrorCode::GroupIdNotFound,
        "an unreadable subscription"
    );
    let mut assignment = garbage.sync_request(Some(&[]));
    assignment.assignments[0].assignment = Bytes::from_static(b"\x00\x01garbage");
    assert_eq!(world.ask(garbage.client, 5, &assignment).error_code, 0);
    assert_eq!(error(&new.join(&mut world, &["t"])), ErrorCode::GroupIdNotFound, "nor an assignment");
    assert_eq!(garbage.beat(&mut world), ErrorCode::None, "the group works on");
}

#[test]
fn an_empty_group_is_whatever_the_next_member_is() {
    let mut world = world_of("disabled");
    let old = classic_group(&mut world);
    old.leave(&mut world);
    world.advance(Duration::from_millis(1));
    assert_eq!(classic_state(&mut world), "Empty");
    let mut new = Member::joined(&mut world, "new", &["t"]);
    assert_eq!((new.epoch, new.count()), (1, 2));
    assert_eq!(classic_state(&mut world), "Dead");
    new.leave(&mut world);
    assert_eq!(state(&mut world).0, "Empty");
    classic_group(&mut world);
    assert_eq!(classic_state(&mut world), "Stable");
    assert_eq!(describe(&mut world).error_code, ErrorCode::GroupIdNotFound.code());
}

#[test]
fn whoever_waits_in_a_classic_group_is_told_when_it_goes_over() {
    let mut world = world_of("bidirectional");
    let old = classic_group(&mut world);
    let mut second = Classic::new(&mut world, None);
    second.id = world.ask(second.client, JOIN, &second.joining(&[])).member_id.to_string();
    world.send(second.client, JOIN, &second.joining(&[]));
    assert!(world.received::<JoinGroupRequest>(second.client, JOIN).is_none(), "it waits for the first");
    Member::joined(&mut world, "new", &["t"]);
    let told = world.received::<JoinGroupRequest>(second.client, JOIN).unwrap();
    assert_eq!(told.error_code, ErrorCode::RebalanceInProgress.code());
    assert_eq!(second.join(&mut world, &[]).error_code, 0);
    assert_eq!(old.beat(&mut world), ErrorCode::RebalanceInProgress);
}

#[test]
fn a_classic_member_that_cannot_share_is_refused() {
    let mut world = world_of("bidirectional");
    Member::joined(&mut world, "new", &["t"]);
    let mut old = Classic::new(&mut world, Some("i"));
    let refused = |world: &mut World, request: &JoinGroupRequest| {
        ErrorCode::from_code(world.ask(old.client, JOIN, request).error_code).unwrap()
    };
    let good = old.joining(&[]);
    let inconsistent = ErrorCode::InconsistentGroupProtocol;
    assert_eq!(refused(&mut world, &good.clone().with_protocol_type(text("connect"))), inconsistent);
    assert_eq!(refused(&mut world, &good.clone().with_protocols(Vec::new())), inconsistent);
    let mut garbage = good.clone();
    garbage.protocols[0].metadata = Bytes::from_static(&[0, 1, 127, 255, 255, 255]);
    assert_eq!(refused(&mut world, &garbage), inconsistent);
    old.join(&mut world, &[]);
    let other = Classic::new(&mut world, Some("j"));
    let mut other_protocol = other.joining(&[]);
    other_protocol.protocols[0].name = text("roundrobin");
    assert_eq!(
        world.ask(other.client, JOIN, &other_protocol).error_code,
        inconsistent.code(),
        "none in common"
    );

    old.generation += 1;
    assert_eq!(old.beat(&mut world), ErrorCode::IllegalGeneration);
    assert_eq!(old.sync(&mut world).0, ErrorCode::IllegalGeneration);
    old.generation -= 1;
    let named = old.sync_request(None).with_protocol_name(Some(text("roundrobin")));
    assert_eq!(world.ask(old.client, 5, &named).error_code, inconsistent.code());
    let id = std::mem::replace(&mut old.id, "nobody".to_owned());
    assert_eq!(old.beat(&mut world), ErrorCode::FencedInstanceId);
    old.instance_id = None;
    assert_eq!(
        (old.beat(&mut world), old.leave(&mut world)),
        (ErrorCode::UnknownMemberId, ErrorCode::UnknownMemberId)
    );
    "new".clone_into(&mut old.id);
    old.generation = 1;
    assert_eq!(old.beat(&mut world), ErrorCode::UnknownMemberId, "it doesn't speak the classic protocol");
    (old.id, old.instance_id) = (id, Some("i"));
    assert_eq!(old.leave(&mut world), ErrorCode::None);
}

#[test]
fn a_classic_member_of_a_consumer_group_has_its_own_times() {
    let mut world = world_of("bidirectional");
    let mut new = Member::joined(&mut world, "new", &["t"]);
    let mut old = Classic::new(&mut world, Some("i"));
    old.join(&mut world, &[]);
    // It never asks what it gets: 20 s, its rebalance timeout.
    world.advance(Duration::from_millis(19_999));
    new.beat(&mut world);
    assert_eq!(describe(&mut world).members.len(), 2);
    world.advance(Duration::from_millis(1));
    assert_eq!(describe(&mut world).members.len(), 1);

    old.id.clear();
    old.join(&mut world, &[]);
    old.sync(&mut world);
    // Silent for its session of 30 s.
    world.advance(Duration::from_secs(15));
    new.beat(&mut world);
    world.advance(Duration::from_millis(14_999));
    assert_eq!(describe(&mut world).members.len(), 2);
    world.advance(Duration::from_millis(1));
    assert_eq!(describe(&mut world).members.len(), 1);

    old.id.clear();
    old.join(&mut world, &[]);
    old.sync(&mut world);
    let wants_other = new.request().with_subscribed_topic_names(Some(names(&[])));
    new.ask(&mut world, &wants_other);
    // Told to join again, it lives but doesn't: 20 s.
    for _ in 0..19 {
        assert_eq!(old.beat(&mut world), ErrorCode::RebalanceInProgress);
        new.beat(&mut world);
        world.advance(Duration::from_secs(1));
    }
    assert_eq!(old.beat(&mut world), ErrorCode::RebalanceInProgress);
    world.advance(Duration::from_secs(1));
    assert_eq!(old.beat(&mut world), ErrorCode::UnknownMemberId);
}

#[test]
fn a_static_member_changes_its_protocol_and_the_group_with_it() {
    let mut world = world_of("bidirectional");
    let mut new = Member::new(&mut world, "new");
    let as_i = |request: kafka_protocol::messages::ConsumerGroupHeartbeatRequest| {
        request.with_instance_id(Some(text("i")))
    };
    let request = as_i(new.joining().with_subscribed_topic_names(Some(names(&["t"]))));
    assert_eq!(error(&new.ask(&mut world, &request)), ErrorCode::None);
    // The only member comes back by the classic protocol: nobody of the new one is left.
    let mut old = Classic::new(&mut world, Some("i"));
    let joined = old.join(&mut world, &[]);
    assert_eq!((joined.generation_id, classic_state(&mut world).as_str()), (1, "Stable"));
    let request = old.sync_request(None);
    let synced = world.ask(old.client, 5, &request);
    let assignment = Assignment::decode(&synced.assignment).unwrap();
    assert_eq!(assignment.partitions, [("t".to_owned(), vec![0, 1])], "it keeps what it had");
    assert_eq!(old.beat(&mut world), ErrorCode::None);
    // And again by the new one, without having left.
    let mut again = Member::new(&mut world, "again");
    let request = as_i(again.joining().with_subscribed_topic_names(Some(names(&["t"]))));
    assert_eq!(error(&again.ask(&mut world, &request)), ErrorCode::None);
    assert_eq!((again.count(), describe(&mut world).members.len()), (2, 1));
    world.advance(SESSION);
    assert_eq!(state(&mut world).0, "Empty");
}

#[test]
fn a_full_consumer_group_takes_no_classic_member() {
    let mut world = world_with(&[("group.consumer.max.size", "1")]);
    world.create_topic("t", 2, &[]);
    let mut member = Member::joined(&mut world, "m", &["t"]);
    let old = Classic::new(&mut world, None);
    let full = ErrorCode::GroupMaxSizeReached.code();
    assert_eq!(world.ask(old.client, JOIN, &old.joining(&[])).error_code, full);
    assert_eq!(error(&member.leave(&mut world)), ErrorCode::None);
    assert_eq!(
        world.ask(old.client, JOIN, &old.joining(&[])).error_code,
        ErrorCode::MemberIdRequired.code(),
        "nobody is in it"
    );
}
