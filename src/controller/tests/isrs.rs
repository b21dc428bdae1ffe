//! What leaders propose, and what users set by hand.

use super::*;

#[test]
fn an_isr_shrinks_and_grows_without_a_new_leader_epoch() {
    let mut quorum = Quorum::of(3, &[]);
    let key = quorum.topic("t", &[&[1, 2, 3]], &[]);
    let shrunk = quorum.alter(key, &[1, 2]).unwrap();
    assert_eq!((&*shrunk.isr, shrunk.leader_epoch, shrunk.partition_epoch), (&*ids(&[1, 2]), 0, 1));
    let grown = quorum.alter(key, &[1, 2, 3]).unwrap();
    assert_eq!((&*grown.isr, grown.leader_epoch, grown.partition_epoch), (&*ids(&[1, 2, 3]), 0, 2));
    assert_eq!(quorum.alter(key, &[1, 2, 3]).unwrap(), grown, "nothing changes");
}

/// One edit of a proposal that would be taken, and how it is refused then.
type Refusal = (fn(&mut AlterPartition), ErrorCode);

#[test]
fn proposals_are_refused_as_kafka_does() {
    let refusals: [Refusal; 16] = [
        (|p| p.broker_epoch = 9, ErrorCode::StaleBrokerEpoch),
        (|p| p.broker = NodeId(9), ErrorCode::StaleBrokerEpoch),
        (|p| p.key.topic = crate::base::TopicId(5), ErrorCode::UnknownTopicId),
        (|p| p.key.index = 1, ErrorCode::UnknownTopicOrPartition),
        (|p| p.leader_epoch += 1, ErrorCode::NotController),
        (|p| p.partition_epoch += 1, ErrorCode::NotController),
        (|p| p.leader_epoch -= 1, ErrorCode::FencedLeaderEpoch),
        (|p| p.partition_epoch -= 1, ErrorCode::InvalidUpdateVersion),
        (|p| (p.broker, p.broker_epoch) = (NodeId(2), 2), ErrorCode::InvalidRequest),
        (|p| p.isr = Vec::new(), ErrorCode::InvalidRequest),
        (|p| p.isr = vec![(NodeId(2), 2)], ErrorCode::InvalidRequest),
        (|p| p.isr.push((NodeId(4), 4)), ErrorCode::InvalidRequest),
        (|p| p.isr.push((NodeId(1), 1)), ErrorCode::InvalidRequest),
        (|p| p.recovery = LeaderRecovery::Recovering, ErrorCode::InvalidRequest),
        (|p| p.isr[1].1 = 7, ErrorCode::IneligibleReplica),
        (|p| p.isr.push((NodeId(3), 3)), ErrorCode::IneligibleReplica),
    ];
    let mut quorum = Quorum::of(4, &[]);
    let key = quorum.topic("t", &[&[1, 2, 3]], &[]);
    quorum.fence(3);
    let before = quorum.partition(key).clone();
    for (at, (edit, error)) in refusals.iter().enumerate() {
        let mut proposal = quorum.proposal(key, &[1, 2]);
        edit(&mut proposal);
        assert_eq!(quorum.controller.alter_partition(&proposal), Err(*error), "refusal {at}");
        assert_eq!(*quorum.partition(key), before, "refusal {at}");
    }
    let mut proposal = quorum.proposal(key, &[1, 2]);
    proposal.isr[1].1 = -1;
    assert!(quorum.controller.alter_partition(&proposal).is_ok(), "any epoch will do");
}

#[test]
fn a_broker_on_its_way_out_is_not_taken_into_an_isr() {
    let mut quorum = Quorum::of(3, &[]);
    let key = quorum.topic("t", &[&[1, 2]], &[]);
    quorum.topic("u", &[&[2]], &[]);
    assert!(!quorum.beat(2, false, true).should_shut_down);
    assert_eq!(quorum.state(key), (1, vec![1], vec![]));
    assert_eq!(quorum.alter(key, &[1, 2]), Err(ErrorCode::IneligibleReplica));
}

#[test]
fn users_set_isrs_and_leaders_within_reason() {
    let mut quorum = Quorum::of(4, &[]);
    let key = quorum.topic("t", &[&[1, 2, 3]], &[]);
    let controller = &mut quorum.controller;
    controller.set_isr("t", 0, &ids(&[1, 3])).unwrap();
    assert_eq!(controller.move_leader("t", 0, NodeId(2)), Err(ControllerError::CantLead { id: NodeId(2) }));
    assert_eq!(controller.move_leader("t", 0, NodeId(1)), Err(ControllerError::ElectionNotNeeded));
    controller.move_leader("t", 0, NodeId(3)).unwrap();
    for isr in [vec![], ids(&[1]), ids(&[3, 3]), ids(&[3, 4])] {
        let error = controller.set_isr("t", 0, &isr).unwrap_err();
        assert!(matches!(error, ControllerError::InvalidIsr { .. }), "{isr:?}");
    }
    assert_eq!(controller.set_isr("u", 0, &[]).unwrap_err().code(), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(
        controller.move_leader("t", 7, NodeId(1)).unwrap_err().code(),
        ErrorCode::UnknownTopicOrPartition
    );
    quorum.fence(2);
    assert!(quorum.controller.set_isr("t", 0, &ids(&[3, 2])).is_err());
    assert_eq!(quorum.state(key), (3, vec![1, 3], vec![]));
    assert_eq!((quorum.partition(key).leader_epoch, quorum.partition(key).partition_epoch), (1, 2));
}
