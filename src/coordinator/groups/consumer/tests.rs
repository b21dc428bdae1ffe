//! A group of the consumer protocol without its surroundings: records in, state out, and the reconciliation of one member.

use std::collections::BTreeSet;

use super::reconciliation::Reconciliation;
use super::*;
use crate::coordinator::from_kafka;
use crate::coordinator::records::consumer_groups::{ClassicMetadata, GroupEpoch};

type Topics<'a> = &'a [(u128, &'a [i32])];

fn partitions(of: Topics<'_>) -> Partitions {
    of.iter().map(|(topic, partitions)| (TopicId(*topic), partitions.iter().copied().collect())).collect()
}

fn current(
    epochs: (i32, i32),
    state: MemberState,
    assigned: Topics<'_>,
    revoked: Topics<'_>,
) -> CurrentAssignment {
    CurrentAssignment {
        epoch: epochs.0,
        previous_epoch: epochs.1,
        state,
        assigned: partitions(assigned),
        pending_revocation: partitions(revoked),
    }
}

/// One step of a member: from, towards (epoch and partitions), what it says that it has, what others have, to.
struct Step<'a> {
    what: &'a str,
    from: CurrentAssignment,
    target: (i32, Topics<'a>),
    owned: Option<Topics<'a>>,
    taken: Topics<'a>,
    to: CurrentAssignment,
}

// The scenarios of Kafka's `CurrentAssignmentBuilderTest`.

const BOTH: Topics<'static> = &[(1, &[1, 2, 3]), (2, &[4, 5, 6])];
const LESS: Topics<'static> = &[(1, &[2, 3]), (2, &[5, 6])];
const LOST: Topics<'static> = &[(1, &[1]), (2, &[4])];
const MORE: Topics<'static> = &[(1, &[1, 2, 3, 4]), (2, &[4, 5, 6, 7])];
const SHIFTED: Topics<'static> = &[(1, &[2, 3, 4]), (2, &[5, 6, 7])];
const GAINED: Topics<'static> = &[(1, &[4]), (2, &[7])];
const NONE: Topics<'static> = &[];

fn stable(epochs: (i32, i32), assigned: Topics<'_>) -> CurrentAssignment {
    current(epochs, MemberState::Stable, assigned, NONE)
}

fn waiting(epochs: (i32, i32), assigned: Topics<'_>) -> CurrentAssignment {
    current(epochs, MemberState::UnreleasedPartitions, assigned, NONE)
}

fn revoking(epochs: (i32, i32), assigned: Topics<'_>, revoked: Topics<'_>) -> CurrentAssignment {
    current(epochs, MemberState::UnrevokedPartitions, assigned, revoked)
}

fn check<'a>(steps: impl IntoIterator<Item = Step<'a>>) {
    for Step { what, from, target: (target_epoch, target), owned, taken, to } in steps {
        let (target, owned, taken) = (partitions(target), owned.map(partitions), partitions(taken));
        let is_free = |topic: TopicId, partition: i32| {
            !taken.get(&topic).is_some_and(|taken| taken.contains(&partition))
        };
        let member = ConsumerMember { current: from, ..ConsumerMember::new("m".into()) };
        let reconciliation = Reconciliation { target_epoch, target: &target, is_free, owned: owned.as_ref() };
        assert_eq!(reconciliation.next(&member), Ok(to), "{what}");
    }
}

#[test]
fn a_member_gives_up_before_it_gets() {
    let step =
        |what, target, owned, taken, to| Step { what, from: stable((10, 9), BOTH), target, owned, taken, to };
    let some = &[(1, &[1, 2, 3][..]), (2, &[4, 5, 6, 7])];
    check([
        step("nothing is new", (10, BOTH), None, NONE, stable((10, 9), BOTH)),
        step("only the epoch is", (11, BOTH), None, NONE, stable((11, 10), BOTH)),
        step("more, and it is free", (11, MORE), None, NONE, stable((11, 10), MORE)),
        step("less", (11, LESS), None, NONE, revoking((10, 10), LESS, LOST)),
        step("less, which it has given up already", (11, LESS), Some(LESS), NONE, stable((11, 10), LESS)),
        step(
            "others, after those that it loses",
            (11, SHIFTED),
            Some(BOTH),
            NONE,
            revoking((10, 10), LESS, LOST),
        ),
        step("more, which others have", (11, MORE), None, GAINED, waiting((11, 10), BOTH)),
        step("more, of which others have some", (11, MORE), None, &[(1, &[4])], waiting((11, 10), some)),
    ]);
}

#[test]
fn a_member_that_has_to_give_up_is_asked_until_it_has() {
    let step = |what, target, owned, taken, to| {
        let from = revoking((10, 10), LESS, LOST);
        Step { what, from, target, owned, taken, to }
    };
    let unchanged = || revoking((10, 10), LESS, LOST);
    let (still_more, still_less): (Topics<'_>, Topics<'_>) =
        (&[(1, &[2]), (2, &[5])], &[(1, &[3]), (2, &[6])]);
    check([
        step("it doesn't say what it has", (12, LESS), None, NONE, unchanged()),
        step("it still has all", (12, LESS), Some(BOTH), NONE, unchanged()),
        step("it still has one", (12, LESS), Some(&[(1, &[1])]), NONE, unchanged()),
        step("it has given all up", (12, LESS), Some(LESS), NONE, stable((12, 10), LESS)),
        step("and gets others", (12, SHIFTED), Some(LESS), NONE, stable((12, 10), SHIFTED)),
        step("and has to wait for others", (12, SHIFTED), Some(LESS), GAINED, waiting((12, 10), LESS)),
        step(
            "and must give up more: an epoch further by the first alone",
            (13, still_less),
            Some(LESS),
            NONE,
            revoking((11, 10), still_less, still_more),
        ),
    ]);
}

#[test]
fn a_member_that_waits_gets_what_comes_free() {
    let step = |what, target, taken, to| {
        let from = waiting((11, 10), LESS);
        Step { what, from, target, owned: None, taken, to }
    };
    check([
        step("nothing has come", (11, SHIFTED), GAINED, waiting((11, 11), LESS)),
        step("all has come", (11, SHIFTED), NONE, stable((11, 11), SHIFTED)),
        step("it must give up meanwhile", (12, GAINED), GAINED, revoking((11, 11), NONE, LESS)),
    ]);
    check([Step {
        what: "a state of a later version, with nothing left",
        from: current((11, 10), MemberState::Unknown, LESS, LOST),
        target: (12, SHIFTED),
        owned: Some(NONE),
        taken: GAINED,
        to: waiting((12, 11), LESS),
    }]);
}

#[test]
fn a_member_in_an_unknown_state_must_begin_again() {
    let owned = partitions(&[(1, &[1])]);
    let target = Partitions::new();
    for owned in [None, Some(&owned)] {
        let member = ConsumerMember {
            current: current((11, 10), MemberState::Unknown, &[(1, &[1])], &[]),
            ..ConsumerMember::new("m".into())
        };
        let reconciliation =
            Reconciliation { target_epoch: 12, target: &target, is_free: |_, _| true, owned };
        assert_eq!(reconciliation.next(&member).unwrap_err().code, ErrorCode::FencedMemberEpoch);
    }
}

fn group_of(contents: impl IntoIterator<Item = Content>) -> ConsumerGroup {
    let mut group = ConsumerGroup::new("g".into());
    for content in contents {
        assert!(group.apply(&content), "the group is there after {content:?}");
    }
    group
}

fn said(topics: &[&str], regex: &str) -> MemberMetadata {
    MemberMetadata {
        subscribed_topics: topics.iter().map(|topic| Arc::from(*topic)).collect(),
        subscribed_regex: regex.into(),
        ..MemberMetadata::default()
    }
}

fn member(id: &str, metadata: MemberMetadata, current: CurrentAssignment) -> [Content; 2] {
    [Content::Member(id.into(), Some(metadata)), Content::Current(id.into(), Some(current))]
}

fn epoch(epoch: i32) -> Content {
    Content::Group(Some(GroupEpoch { epoch, metadata_hash: 7 }))
}

#[test]
fn a_group_is_what_its_records_say() {
    let at = |epoch, state| current((epoch, epoch - 1), state, &[(1, &[epoch])], &[]);
    let mut group = group_of(member("a", said(&["x", "y"], ""), at(1, MemberState::Stable)));
    assert_eq!(group.state(), ConsumerGroupState::Reconciling, "at another epoch than the target's");
    group.apply(&epoch(1));
    assert_eq!(group.state(), ConsumerGroupState::Assigning);
    group.apply(&Content::TargetEpoch(Some(1)));
    assert_eq!(group.state(), ConsumerGroupState::Stable);
    member("b", said(&["x"], "z.*"), at(2, MemberState::UnreleasedPartitions)).iter().for_each(|content| {
        group.apply(content);
    });
    assert_eq!(group.state(), ConsumerGroupState::Reconciling);
    let resolved =
        ResolvedRegex { topics: BTreeSet::from(["x".into(), "z1".into()]), version: 1, timestamp_ms: 2 };
    group.apply(&Content::Regex("z.*".into(), Some(resolved)));
    assert!(["x", "y", "z1"].iter().all(|topic| group.is_subscribed_to(topic)));
    assert!(!group.is_subscribed_to("z2"));

    for content in group.tombstones() {
        let Record::Consumer(record) = content else { panic!("of another kind") };
        let stays = group.apply(&record.content);
        assert_eq!(stays, record.content != Content::Group(None), "{:?}", record.content);
    }
    assert_eq!(group.state(), ConsumerGroupState::Empty);
    assert!(group.subscribed_topics.is_empty() && group.owners.is_empty() && group.targets.is_empty());
    assert!(group.subscribed_regexes.is_empty() && group.resolved_regexes.is_empty());
}

#[test]
fn a_partition_belongs_to_whoever_has_it_or_has_yet_to_give_it_up() {
    let mut group = group_of(
        [
            member(
                "a",
                said(&["x"], ""),
                current((1, 0), MemberState::UnrevokedPartitions, &[(1, &[0])], &[(1, &[1])]),
            ),
            member("b", said(&["x"], ""), current((2, 0), MemberState::UnreleasedPartitions, &[], &[])),
        ]
        .concat(),
    );
    let owner = |group: &ConsumerGroup, partition| group.owners.get(&(TopicId(1), partition)).cloned();
    assert_eq!(
        [0, 1, 2].map(|partition| owner(&group, partition).as_deref() == Some("a")),
        [true, true, false]
    );
    group.apply(&Content::Current("a".into(), Some(current((2, 1), MemberState::Stable, &[(1, &[0])], &[]))));
    assert_eq!(owner(&group, 1), None);
    group.apply(&Content::Current("b".into(), Some(current((2, 2), MemberState::Stable, &[(1, &[1])], &[]))));
    assert_eq!(owner(&group, 1).as_deref(), Some("b"));
    group.apply(&Content::Current("a".into(), None));
    assert_eq!((owner(&group, 0), group.member("a").unwrap().current.epoch), (None, LEAVE_EPOCH));
}

/// `ConsumerGroupTest.testValidateOffsetCommit` and `testValidateOffsetFetch`.
#[test]
fn offsets_are_the_members_alone_whose_epoch_is_right() {
    let mut group = group_of([]);
    assert_eq!(group.check_commit("", -1, true), Ok(()), "nobody is in it");
    assert_eq!(group.check_commit("", 0, true), Err(ErrorCode::UnknownMemberId));
    let at_epoch = || current((5, 4), MemberState::Stable, &[], &[]);
    let classic = MemberMetadata {
        classic: Some(ClassicMetadata { session_timeout_ms: 1, protocols: Vec::new() }),
        ..said(&["x"], "")
    };
    for content in [member("new", said(&["x"], ""), at_epoch()), member("old", classic, at_epoch())].concat()
    {
        group.apply(&content);
    }
    let cases = [
        ("", -1, true, Err(ErrorCode::UnknownMemberId)),
        ("nobody", 5, true, Err(ErrorCode::UnknownMemberId)),
        ("new", 5, true, Ok(())),
        ("new", 5, false, Err(ErrorCode::UnsupportedVersion)),
        ("new", 4, true, Err(ErrorCode::StaleMemberEpoch)),
        ("new", 6, true, Err(ErrorCode::StaleMemberEpoch)),
        ("old", 5, false, Ok(())),
        ("old", 4, false, Err(ErrorCode::IllegalGeneration)),
        ("old", 6, true, Err(ErrorCode::IllegalGeneration)),
    ];
    for (id, epoch, knows_epochs, expected) in cases {
        assert_eq!(group.check_commit(id, epoch, knows_epochs), expected, "{id} at {epoch}");
    }
    assert_eq!(group.check_fetch(None, -1), Ok(()), "nobody has to say who it is");
    assert_eq!(group.check_fetch(Some("new"), 5), Ok(()));
    assert_eq!(group.check_fetch(Some("new"), 4), Err(ErrorCode::StaleMemberEpoch));
    assert_eq!(group.check_fetch(Some("old"), 4), Err(ErrorCode::IllegalGeneration));
    for (id, epoch) in [(Some("nobody"), 5), (Some(""), -1), (None, 5)] {
        assert_eq!(group.check_fetch(id, epoch), Err(ErrorCode::UnknownMemberId), "{id:?} at {epoch}");
    }
}

#[test]
fn what_kafka_wrote_is_read_as_the_group_that_it_had() {
    let group = |name: &str| {
        let mut group = ConsumerGroup::new(name.into());
        let stays = from_kafka::consumer_records(name).iter().all(|content| group.apply(content));
        stays.then_some(group)
    };
    let shared = group("gold-consumer").unwrap();
    let m1 = shared.member("m1").unwrap();
    assert_eq!(shared.members().count(), 1, "m2 has left");
    assert_eq!(
        (&*m1.metadata.rack_id.clone().unwrap(), shared.state()),
        ("rack-m", ConsumerGroupState::Stable)
    );
    assert_eq!(shared.target("m1"), Some(&m1.current.assigned));
    assert_eq!(m1.current.assigned.values().map(BTreeSet::len).sum::<usize>(), 2);
    assert!(shared.is_subscribed_to("gold-missing"));
    assert_eq!(shared.preferred_assignor().map(|name| &**name), Some("range"));

    assert!(group("gold-static").is_none(), "it was deleted");
    let regex = group("gold-regex").unwrap();
    assert!(regex.resolved_regexes.is_empty() && regex.subscribed_regexes.is_empty());
    let mixed = group("gold-mixed").unwrap();
    assert_eq!((mixed.members().count(), mixed.classic_members), (2, 1));
    let upgraded = group("gold-upgraded").unwrap();
    let members = upgraded.members().map(|member| (member.is_classic(), member.current.state));
    assert_eq!(members.filter(|member| member.0).count(), 1);
    assert_eq!(upgraded.classic_protocols.keys().map(|name| &**name).collect::<Vec<_>>(), ["range"]);
}

/// What one join costs in the largest group that there will be: it is in proportion to the group, and what it writes to what
/// changes.
#[test]
fn ten_thousand_members_are_assigned_at_once() {
    use crate::base::entropy::Entropy;
    use crate::controller::configs::BrokerConfigs;
    use crate::controller::{BrokerRegistration, Controller, NewTopic};

    const MEMBERS: usize = 10_000;
    let broker = BrokerRegistration {
        id: crate::base::NodeId(1),
        rack: None,
        epoch: 1,
        fenced: false,
        in_controlled_shutdown: false,
        endpoints: Vec::new(),
    };
    let mut controller =
        Controller::new(BrokerConfigs::default(), vec![broker], &Entropy::new(0), crate::base::Instant::ZERO)
            .unwrap();
    let topic = NewTopic {
        name: "x".to_owned(),
        partitions: MEMBERS as i32,
        replication_factor: 1,
        ..NewTopic::default()
    };
    controller.create_topic(topic, false).unwrap();
    let at = |epoch| current((epoch, epoch), MemberState::Stable, &[], &[]);
    let mut group =
        group_of((1..MEMBERS).flat_map(|number| member(&format!("m{number:05}"), said(&["x"], ""), at(1))));
    let joins = |id: &str| ConsumerMember { metadata: said(&["x"], ""), ..ConsumerMember::new(id.into()) };
    let first = group.new_target(1, &joins("m00001"), true, &controller);
    assert_eq!(first.changes.len(), MEMBERS, "everybody and the epoch");
    first.changes.iter().for_each(|content| {
        group.apply(content);
    });
    let last = group.new_target(2, &joins("m99999"), true, &controller);
    assert_eq!(last.of_member.values().map(BTreeSet::len).sum::<usize>(), 1);
    assert_eq!(last.changes.len(), 3, "who had two, who comes, and the epoch");
}
