//! Members that vanish: at every step of a rebalance, whoever they are, whether or not they come back. Those who stay are
//! stock clients as far as the protocol goes, and must be a stable group again in bounded time, with nothing left behind.

use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    DescribeGroupsRequest, GroupId, HeartbeatRequest, JoinGroupRequest, SyncGroupRequest,
};

use super::groups::{JOIN, join, text, world};
use super::*;
use crate::base::ErrorCode;

const SYNC: i16 = 5;
/// As `join` has them.
const SESSION_MS: u64 = 6_000;
const REBALANCE_MS: u64 = 3_000;
/// How often a member does something.
const TICK_MS: u64 = 500;

/// The step after which a member is not heard of any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It was given a member id, and has not joined with it.
    Pending,
    /// Its JoinGroup was sent.
    Joining,
    /// It has joined, and not sent its SyncGroup.
    Joined,
    /// Its SyncGroup was sent.
    Syncing,
    /// It has its assignment.
    Stable,
    /// It was told to join again.
    ToldToRejoin,
}

const STEPS: [Step; 6] =
    [Step::Pending, Step::Joining, Step::Joined, Step::Syncing, Step::Stable, Step::ToldToRejoin];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Out,
    Joining,
    Syncing,
    In,
    Gone,
}

/// A client of the group "g".
struct Member {
    connection: ConnectionId,
    id: String,
    instance: Option<String>,
    generation: i32,
    phase: Phase,
    /// Whether it has its assignment of this generation: its own name.
    assigned: bool,
    /// The step at which it vanishes, and the how manieth time of it.
    vanishes: Option<(Step, usize)>,
}

impl Member {
    fn new(world: &mut World, instance: Option<String>) -> Self {
        let connection = world.connect();
        let (id, phase) = (String::new(), Phase::Out);
        Member { connection, id, instance, generation: -1, phase, assigned: false, vanishes: None }
    }

    /// Notes that a step was reached. Returns whether this was the last of it.
    fn reaches(&mut self, world: &mut World, step: Step) -> bool {
        let Some((last, times)) = &mut self.vanishes else { return false };
        if *last != step {
            return false;
        }
        *times -= 1;
        if *times > 0 {
            return false;
        }
        world.disconnect(self.connection);
        self.phase = Phase::Gone;
        true
    }

    /// Does what a client does now, until it has to wait.
    fn run(&mut self, world: &mut World) {
        loop {
            let goes_on = match self.phase {
                Phase::Gone => false,
                Phase::Out => {
                    world.send(self.connection, JOIN, &join(&self.id, self.instance.as_deref()));
                    self.phase = Phase::Joining;
                    self.assigned = false;
                    self.id.is_empty() && self.instance.is_none() || !self.reaches(world, Step::Joining)
                }
                Phase::Joining => self.take_join(world),
                Phase::Syncing => self.take_sync(world),
                Phase::In => false,
            };
            if !goes_on {
                return;
            }
        }
    }

    fn take_join(&mut self, world: &mut World) -> bool {
        let Some(joined) = world.received::<JoinGroupRequest>(self.connection, JOIN) else { return false };
        match ErrorCode::from_code(joined.error_code).unwrap() {
            ErrorCode::MemberIdRequired => {
                self.id = joined.member_id.to_string();
                self.phase = Phase::Out;
                return !self.reaches(world, Step::Pending);
            }
            error @ ErrorCode::UnknownMemberId => return self.start_again(error),
            error => assert_eq!(error, ErrorCode::None),
        }
        self.id = joined.member_id.to_string();
        self.generation = joined.generation_id;
        if self.reaches(world, Step::Joined) {
            return false;
        }
        let assignments = joined.members.iter().map(|member| {
            let name = member.group_instance_id.as_ref().unwrap_or(&member.member_id);
            SyncGroupRequestAssignment::default()
                .with_member_id(member.member_id.clone())
                .with_assignment(Bytes::copy_from_slice(name.as_bytes()))
        });
        let request = SyncGroupRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(text))
            .with_protocol_type(Some(text("consumer")))
            .with_protocol_name(Some(text("range")))
            .with_assignments(assignments.collect());
        world.send(self.connection, SYNC, &request);
        self.phase = Phase::Syncing;
        !self.reaches(world, Step::Syncing)
    }

    fn take_sync(&mut self, world: &mut World) -> bool {
        let Some(synced) = world.received::<SyncGroupRequest>(self.connection, SYNC) else { return false };
        match ErrorCode::from_code(synced.error_code).unwrap() {
            ErrorCode::None => {
                let name = self.instance.as_ref().unwrap_or(&self.id);
                assert_eq!(&synced.assignment[..], name.as_bytes(), "as the leader assigned it");
                self.assigned = true;
                self.phase = Phase::In;
                !self.reaches(world, Step::Stable)
            }
            error => self.start_again(error),
        }
    }

    /// What the Java client does about an error of the group.
    fn start_again(&mut self, error: ErrorCode) -> bool {
        match error {
            ErrorCode::RebalanceInProgress | ErrorCode::IllegalGeneration => {}
            ErrorCode::UnknownMemberId => self.id.clear(),
            error => panic!("{error:?} is not for a member that is alive"),
        }
        self.phase = Phase::Out;
        true
    }

    fn beat(&mut self, world: &mut World) {
        if self.phase != Phase::In {
            return;
        }
        let request = HeartbeatRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_generation_id(self.generation)
            .with_member_id(text(&self.id))
            .with_group_instance_id(self.instance.as_deref().map(text));
        let error = ErrorCode::from_code(world.ask(self.connection, 4, &request).error_code).unwrap();
        if error == ErrorCode::None {
            return;
        }
        if error == ErrorCode::RebalanceInProgress && self.reaches(world, Step::ToldToRejoin) {
            return;
        }
        self.start_again(error);
    }
}

/// Whether those who are alive, and nobody else, are a stable group.
fn is_settled(world: &mut World, observer: ConnectionId, members: &[Member]) -> bool {
    let alive = || members.iter().filter(|member| member.phase != Phase::Gone);
    let request = DescribeGroupsRequest::default().with_groups(vec![GroupId(text("g"))]);
    let described = world.ask(observer, 5, &request).groups.remove(0);
    let generation = alive().map(|member| member.generation).max();
    &*described.group_state == "Stable"
        && described.members.len() == alive().count()
        && alive().all(|member| member.phase == Phase::In && member.assigned)
        && alive().all(|member| Some(member.generation) == generation)
}

#[derive(Clone, Copy, Debug)]
struct Scenario {
    step: Step,
    times: usize,
    /// Who vanishes, in the order in which they came: the first is the leader, the last comes to a stable group.
    victim: usize,
    is_static: bool,
    returns: bool,
}

/// Plays a scenario. Returns whether the victim came so far as to vanish.
fn play(scenario: Scenario) -> bool {
    const MEMBERS: usize = 4;
    const LAST_COMES_MS: u64 = 2_000;
    let mut world = world();
    let observer = world.connect();
    let instance = |at: usize| scenario.is_static.then(|| format!("instance-{at}"));
    let mut members: Vec<Member> = Vec::new();
    let (mut vanished_ms, mut settled_since) = (None, None);
    while world.now_ms < 40_000 {
        let comes =
            members.len() + 1 < MEMBERS || members.len() + 1 == MEMBERS && world.now_ms >= LAST_COMES_MS;
        if comes {
            let at = members.len();
            let mut member = Member::new(&mut world, instance(at));
            member.vanishes = (at == scenario.victim).then_some((scenario.step, scenario.times));
            members.push(member);
        }
        members.iter_mut().for_each(|member| member.beat(&mut world));
        // Twice, since what one does may be an answer for another that ran before.
        for _ in 0..2 {
            members.iter_mut().for_each(|member| member.run(&mut world));
        }
        if vanished_ms.is_none() && members.iter().any(|member| member.phase == Phase::Gone) {
            vanished_ms = Some(world.now_ms);
        }
        if vanished_ms.is_some_and(|at| world.now_ms >= at + 1_000)
            && scenario.returns
            && members.len() == MEMBERS
        {
            let again = Member::new(&mut world, instance(scenario.victim));
            members.push(again);
        }
        let settled = members.len() >= MEMBERS && is_settled(&mut world, observer, &members);
        settled_since = settled.then(|| settled_since.unwrap_or(world.now_ms));
        world.advance(Duration::from_millis(TICK_MS));
    }
    let since = settled_since.unwrap_or_else(|| panic!("{scenario:?} never settles"));
    let from = vanished_ms.unwrap_or(0).max(LAST_COMES_MS) + 1_000;
    let longest = SESSION_MS + REBALANCE_MS + 2 * TICK_MS;
    assert!(since <= from + longest, "{scenario:?}: settled at {since}, {from} is when it began to");
    // Sessions alone are left to wait for, one a member.
    let waits = world.cluster.waits(world.now());
    assert!(waits.iter().all(|wait| wait.kind == Kind::Heartbeat), "{scenario:?}: {waits:?}");
    let alive = members.iter().filter(|member| member.phase != Phase::Gone).count() as u64;
    let waiting = |kind: Kind| world.cluster.metrics(kind).num_delayed_operations;
    assert_eq!(waiting(Kind::Heartbeat), alive, "{scenario:?}: sessions");
    assert_eq!((waiting(Kind::Join), waiting(Kind::Sync)), (0, 0), "{scenario:?}: phases are over");
    vanished_ms.is_some()
}

#[test]
fn a_group_survives_whoever_vanishes_at_whichever_step() {
    let (mut played, mut vanished) = (0, 0);
    for step in STEPS {
        for victim in 0..4 {
            for is_static in [false, true] {
                for times in [1, 2] {
                    for returns in [false, true] {
                        played += 1;
                        vanished += usize::from(play(Scenario { step, times, victim, is_static, returns }));
                    }
                }
            }
        }
    }
    // Static members are not given an id before they join, nobody twice in these scenarios, and who comes last joins once.
    assert_eq!(played, 192);
    assert!(vanished >= 130, "{vanished} of {played} came to the step at which they vanish");
}
