//! Who leads after brokers have come and gone, and when somebody asks.

use super::*;

#[test]
fn whoever_leaves_an_isr_that_is_too_small_stays_eligible() {
    let mut quorum = Quorum::of(3, &[]);
    let key = quorum.topic("t", &[&[1, 2, 3]], &[("min.insync.replicas", "2")]);
    quorum.fence(3);
    assert_eq!(quorum.state(key), (1, vec![1, 2], vec![]));
    quorum.fence(2);
    assert_eq!(quorum.state(key), (1, vec![1], vec![2]));
    quorum.fence(1);
    assert_eq!(quorum.state(key), (-1, vec![], vec![1, 2]));
    assert_eq!(*quorum.partition(key).last_known_elr, *ids(&[1]));
    // Broker 3 was behind: it waits for one that wasn't.
    quorum.unfence(3);
    assert_eq!(quorum.state(key), (-1, vec![], vec![1, 2]));
    quorum.unfence(2);
    assert_eq!(quorum.state(key), (2, vec![2], vec![1]));
    assert!(quorum.partition(key).last_known_elr.is_empty());
    assert_eq!(quorum.partition(key).recovery, LeaderRecovery::Recovered);
    quorum.alter(key, &[2, 3]).unwrap();
    assert_eq!(quorum.state(key), (2, vec![2, 3], vec![]), "the ISR is large enough again");
}

#[test]
fn the_last_leader_leads_again_if_nobody_is_eligible() {
    let mut quorum = Quorum::of(2, &[]);
    let key = quorum.topic("t", &[&[1, 2]], &[]);
    quorum.alter(key, &[1]).unwrap();
    quorum.register(1, false);
    assert_eq!(quorum.state(key), (-1, vec![], vec![]));
    assert_eq!(*quorum.partition(key).last_known_elr, *ids(&[1]));
    quorum.unfence(1);
    assert_eq!(quorum.state(key), (1, vec![1], vec![]));
    assert_eq!(quorum.partition(key).recovery, LeaderRecovery::Recovering);
    let mut proposal = quorum.proposal(key, &[1, 2]);
    proposal.recovery = LeaderRecovery::Recovering;
    assert_eq!(quorum.controller.alter_partition(&proposal), Err(ErrorCode::InvalidRequest));
    quorum.alter(key, &[1, 2]).unwrap();
    assert_eq!(quorum.partition(key).recovery, LeaderRecovery::Recovered);
}

#[test]
fn an_unclean_leader_is_elected_where_the_topic_allows_it() {
    let unclean = [("unclean.leader.election.enable", "true")];
    let mut quorum = Quorum::of(3, &[]);
    let allowed = quorum.topic("allowed", &[&[1, 2]], &unclean);
    let forbidden = quorum.topic("forbidden", &[&[1, 2]], &[]);
    for key in [allowed, forbidden] {
        quorum.alter(key, &[1]).unwrap();
    }
    quorum.fence(1);
    assert_eq!(quorum.state(allowed), (2, vec![2], vec![]));
    assert_eq!(quorum.partition(allowed).recovery, LeaderRecovery::Recovering);
    assert_eq!(quorum.state(forbidden), (-1, vec![], vec![1]));
    // A client may ask for it.
    let elect = |quorum: &mut Quorum, election| quorum.controller.elect("forbidden", 0, election);
    assert_eq!(elect(&mut quorum, Election::Preferred), Err(ControllerError::PreferredLeaderNotAvailable));
    elect(&mut quorum, Election::Unclean).unwrap();
    assert_eq!(quorum.state(forbidden), (2, vec![2], vec![]));
    assert_eq!(elect(&mut quorum, Election::Unclean), Err(ControllerError::ElectionNotNeeded));
}

#[test]
fn topics_that_allow_it_later_get_an_unclean_leader_at_the_next_round() {
    let mut quorum = Quorum::of(3, &[("unclean.leader.election.interval.ms", "60000")]);
    let key = quorum.topic("t", &[&[1, 2]], &[]);
    quorum.alter(key, &[1]).unwrap();
    quorum.fence(1);
    let operation = ConfigOperation::Set("true".to_owned());
    let alteration = ConfigAlteration {
        replaces: false,
        operations: vec![("unclean.leader.election.enable".to_owned(), operation)],
    };
    quorum.controller.alter_configs(&ConfigTarget::Topic("t".to_owned()), &alteration, false).unwrap();
    quorum.pass(59, &[2, 3]);
    assert_eq!(quorum.state(key).0, -1);
    quorum.pass(1, &[2, 3]);
    assert_eq!(quorum.state(key), (2, vec![2], vec![]));
}

#[test]
fn leadership_goes_back_to_preferred_leaders() {
    let quick = ("leader.imbalance.check.interval.seconds", "10");
    for (enabled, leader) in [("true", 1), ("false", 2)] {
        let mut quorum = Quorum::of(3, &[quick, ("auto.leader.rebalance.enable", enabled)]);
        let key = quorum.topic("t", &[&[1, 2, 3]], &[]);
        quorum.fence(1);
        quorum.unfence(1);
        quorum.pass(10, &[1, 2, 3]);
        assert_eq!(quorum.state(key), (2, vec![2, 3], vec![]), "broker 1 isn't in sync yet");
        quorum.alter(key, &[1, 2, 3]).unwrap();
        quorum.pass(10, &[1, 2, 3]);
        assert_eq!(quorum.state(key).0, leader, "auto.leader.rebalance.enable={enabled}");
    }
}

#[test]
fn preferred_leaders_are_elected_on_request() {
    let mut quorum = Quorum::of(3, &[]);
    let key = quorum.topic("t", &[&[1, 2, 3]], &[]);
    let elect = |quorum: &mut Quorum| quorum.controller.elect("t", 0, Election::Preferred);
    assert_eq!(elect(&mut quorum), Err(ControllerError::ElectionNotNeeded));
    quorum.fence(1);
    assert_eq!(elect(&mut quorum), Err(ControllerError::PreferredLeaderNotAvailable));
    quorum.unfence(1);
    assert_eq!(elect(&mut quorum), Err(ControllerError::PreferredLeaderNotAvailable), "not in sync");
    quorum.alter(key, &[2, 3, 1]).unwrap();
    elect(&mut quorum).unwrap();
    assert_eq!((quorum.state(key).0, quorum.partition(key).leader_epoch), (1, 2));
    let unknown = quorum.controller.elect("t", 1, Election::Preferred).unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn a_new_min_insync_replicas_forgets_who_was_eligible_by_the_old_one() {
    let min_isr = |operation| ConfigAlteration {
        replaces: false,
        operations: vec![("min.insync.replicas".to_owned(), operation)],
    };
    let set = |value: &str| min_isr(ConfigOperation::Set(value.to_owned()));
    let of_topic = ConfigTarget::Topic("t".to_owned());
    for (target, alteration) in [(of_topic, set("1")), (ConfigTarget::AllBrokers, set("2"))] {
        let mut quorum = Quorum::of(3, &[]);
        let key = quorum.topic("t", &[&[1, 2]], &[("min.insync.replicas", "2")]);
        quorum.fence(2);
        assert_eq!(quorum.state(key), (1, vec![1], vec![2]));
        let epoch = quorum.partition(key).partition_epoch;
        quorum.controller.alter_configs(&target, &alteration, false).unwrap();
        assert_eq!(quorum.state(key), (1, vec![1], vec![]), "{target:?}");
        assert_eq!(quorum.partition(key).partition_epoch, epoch + 1);
    }
    let mut quorum = Quorum::of(2, &[]);
    for (target, alteration) in [
        (ConfigTarget::Broker(NodeId(1)), set("2")),
        (ConfigTarget::AllBrokers, min_isr(ConfigOperation::Delete)),
    ] {
        let error = quorum.controller.alter_configs(&target, &alteration, false).unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidConfig, "{target:?}");
    }
}
