//! Partitions that move to other brokers.

use super::*;

/// Replicas, adding and removing ones.
fn moved(quorum: &Quorum, key: PartitionKey) -> (Vec<i32>, Vec<i32>, Vec<i32>) {
    let partition = quorum.partition(key);
    let numbers = |ids: &[NodeId]| ids.iter().map(|id| id.0).collect();
    (numbers(&partition.replicas), numbers(&partition.adding_replicas), numbers(&partition.removing_replicas))
}

fn reassign(quorum: &mut Quorum, to: &[i32]) -> Result<(), ControllerError> {
    quorum.controller.reassign("t", 0, Some(&ids(to)), true)
}

#[test]
fn a_partition_has_moved_once_all_it_moves_to_are_in_sync() {
    let mut quorum = Quorum::of(5, &[]);
    let key = quorum.topic("t", &[&[1, 2, 3]], &[]);
    reassign(&mut quorum, &[4, 3, 5]).unwrap();
    assert_eq!(moved(&quorum, key), (vec![4, 3, 5, 1, 2], vec![4, 5], vec![1, 2]));
    assert_eq!((quorum.state(key), quorum.partition(key).leader_epoch), ((1, vec![1, 2, 3], vec![]), 0));
    quorum.alter(key, &[1, 2, 3, 4]).unwrap();
    assert!(quorum.partition(key).is_being_reassigned());
    // The old leader isn't among the new replicas: it is told so.
    assert_eq!(quorum.alter(key, &[1, 2, 3, 4, 5]), Err(ErrorCode::NewLeaderElected));
    assert_eq!(moved(&quorum, key), (vec![4, 3, 5], vec![], vec![]));
    assert_eq!((quorum.state(key), quorum.partition(key).leader_epoch), ((4, vec![3, 4, 5], vec![]), 1));
}

#[test]
fn a_leader_that_stays_goes_on_with_a_new_epoch_when_replicas_go() {
    let mut quorum = Quorum::of(4, &[]);
    let key = quorum.topic("t", &[&[1, 2]], &[]);
    reassign(&mut quorum, &[1, 3]).unwrap();
    let altered = quorum.alter(key, &[1, 2, 3]).unwrap();
    assert_eq!((altered.leader, altered.leader_epoch), (Some(NodeId(1)), 1));
    assert_eq!(moved(&quorum, key), (vec![1, 3], vec![], vec![]));
}

#[test]
fn fewer_replicas_and_another_order_are_moves_that_end_at_once() {
    let mut quorum = Quorum::of(3, &[]);
    let key = quorum.topic("t", &[&[1, 2, 3]], &[]);
    reassign(&mut quorum, &[3, 2, 1]).unwrap();
    assert_eq!((moved(&quorum, key), quorum.state(key).0), ((vec![3, 2, 1], vec![], vec![]), 1));
    reassign(&mut quorum, &[2]).unwrap();
    assert_eq!(moved(&quorum, key), (vec![2], vec![], vec![]));
    assert_eq!(quorum.state(key), (2, vec![2], vec![]));
    let before = quorum.controller.last_change();
    reassign(&mut quorum, &[2]).unwrap();
    assert_eq!(quorum.controller.last_change(), before, "it is there already");
}

#[test]
fn a_cancelled_move_leaves_what_there_was() {
    let mut quorum = Quorum::of(5, &[]);
    let key = quorum.topic("t", &[&[1, 2, 3]], &[]);
    let cancel = |quorum: &mut Quorum| quorum.controller.reassign("t", 0, None, true);
    assert_eq!(cancel(&mut quorum), Err(ControllerError::NoReassignmentInProgress));
    reassign(&mut quorum, &[4, 5, 1]).unwrap();
    quorum.alter(key, &[1, 2, 4]).unwrap();
    cancel(&mut quorum).unwrap();
    assert_eq!(moved(&quorum, key), (vec![1, 2, 3], vec![], vec![]));
    assert_eq!((quorum.state(key), quorum.partition(key).leader_epoch), ((1, vec![1, 2], vec![]), 1));
}

#[test]
fn a_move_whose_new_replicas_alone_are_in_sync_is_cancelled_uncleanly_or_not_at_all() {
    for unclean in ["false", "true"] {
        let mut quorum = Quorum::of(5, &[]);
        let key = quorum.topic("t", &[&[1, 2]], &[("unclean.leader.election.enable", unclean)]);
        reassign(&mut quorum, &[4, 5]).unwrap();
        quorum.alter(key, &[1, 4]).unwrap();
        quorum.fence(1);
        assert_eq!(quorum.state(key).0, 4);
        let cancelled = quorum.controller.reassign("t", 0, None, true);
        if unclean == "true" {
            cancelled.unwrap();
            // Kafka puts the first replica into the ISR, living or not; another one leads.
            assert_eq!(quorum.state(key), (2, vec![2], vec![]));
        } else {
            assert_eq!(cancelled.unwrap_err().code(), ErrorCode::InvalidReplicaAssignment);
            assert!(quorum.partition(key).is_being_reassigned());
        }
    }
}

#[test]
fn a_fenced_broker_holds_a_move_up_until_it_is_back() {
    let mut quorum = Quorum::of(3, &[]);
    let key = quorum.topic("t", &[&[1]], &[]);
    quorum.fence(3);
    reassign(&mut quorum, &[3]).unwrap();
    assert_eq!(quorum.alter(key, &[1, 3]), Err(ErrorCode::IneligibleReplica));
    quorum.unfence(3);
    assert_eq!(quorum.alter(key, &[1, 3]), Err(ErrorCode::NewLeaderElected));
    assert_eq!((quorum.state(key), moved(&quorum, key).0), ((3, vec![3], vec![]), vec![3]));
}

#[test]
fn wrong_moves_are_refused() {
    let mut quorum = Quorum::of(4, &[]);
    quorum.topic("t", &[&[1, 2]], &[]);
    for (to, error) in [
        (vec![], ErrorCode::InvalidReplicaAssignment),
        (vec![1, 1], ErrorCode::InvalidReplicaAssignment),
        (vec![1, 9], ErrorCode::InvalidReplicaAssignment),
    ] {
        assert_eq!(reassign(&mut quorum, &to).unwrap_err().code(), error, "{to:?}");
    }
    let strictly = |quorum: &mut Quorum, to: &[i32]| {
        quorum.controller.reassign("t", 0, Some(&ids(to)), false).map_err(|error| error.code())
    };
    assert_eq!(strictly(&mut quorum, &[1]), Err(ErrorCode::InvalidReplicationFactor));
    assert_eq!(strictly(&mut quorum, &[1, 3]), Ok(()));
    // What counts is what the partition will have.
    assert_eq!(strictly(&mut quorum, &[1, 2, 3]), Err(ErrorCode::InvalidReplicationFactor));
    assert_eq!(strictly(&mut quorum, &[1, 4]), Ok(()));
    let unknown = quorum.controller.reassign("u", 0, None, true).unwrap_err();
    assert_eq!(unknown.code(), ErrorCode::UnknownTopicOrPartition);
}

#[test]
fn who_becomes_a_replica_again_is_not_eligible_for_what_it_had_before() {
    let mut quorum = Quorum::of(4, &[]);
    let key = quorum.topic("t", &[&[1, 2]], &[("min.insync.replicas", "2")]);
    reassign(&mut quorum, &[1, 3, 4]).unwrap();
    quorum.alter(key, &[1, 3]).unwrap();
    quorum.controller.reassign("t", 0, None, true).unwrap();
    assert_eq!(moved(&quorum, key), (vec![1, 2], vec![], vec![]));
    assert_eq!(quorum.state(key), (1, vec![1], vec![3]), "as in Kafka");
    reassign(&mut quorum, &[1, 2, 3]).unwrap();
    assert_eq!(quorum.state(key), (1, vec![1], vec![]));
}
