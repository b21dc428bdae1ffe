//! Topics that are made while brokers are away.

use super::*;

fn create(quorum: &mut Quorum, name: &str, factor: i16, replicas: &[i32]) -> Result<PartitionKey, ErrorCode> {
    let assignments = if replicas.is_empty() { Vec::new() } else { vec![(0, ids(replicas))] };
    let partitions = if replicas.is_empty() { 1 } else { -1 };
    let new = NewTopic {
        name: name.to_owned(),
        partitions,
        replication_factor: factor,
        assignments,
        ..NewTopic::default()
    };
    let topic = quorum.controller.create_topic(new, false).map_err(|error| error.code())?;
    Ok(PartitionKey { topic: topic.id, index: 0 })
}

#[test]
fn fenced_brokers_hold_partitions_but_are_not_in_sync() {
    let mut quorum = Quorum::of(3, &[]);
    quorum.fence(3);
    assert_eq!(create(&mut quorum, "a", -1, &[3]), Err(ErrorCode::InvalidReplicaAssignment));
    let manual = create(&mut quorum, "b", -1, &[3, 1]).unwrap();
    assert_eq!(quorum.state(manual), (1, vec![1], vec![]));
    let placed = create(&mut quorum, "c", 3, &[]).unwrap();
    assert_eq!(quorum.partition(placed).replicas.len(), 3);
    assert_eq!((quorum.partition(placed).isr.len(), quorum.partition(placed).elr.len()), (2, 0));
    assert_eq!(create(&mut quorum, "d", 4, &[]), Err(ErrorCode::InvalidReplicationFactor));
    quorum.fence(1);
    quorum.fence(2);
    assert_eq!(create(&mut quorum, "e", 1, &[]), Err(ErrorCode::InvalidReplicationFactor));
}

#[test]
fn new_partitions_have_as_many_replicas_as_the_others() {
    let mut quorum = Quorum::of(3, &[]);
    create(&mut quorum, "t", 2, &[]).unwrap();
    let grow = |quorum: &mut Quorum, count: i32, assignments: Option<Vec<Vec<NodeId>>>| {
        let new = NewPartitions { count, assignments };
        quorum.controller.create_partitions("t", new, false).map_err(|error| error.code())
    };
    assert!(
        grow(&mut quorum, 5, None).unwrap().partitions.iter().all(|partition| partition.replicas.len() == 2)
    );
    for wrong in [ids(&[1]), ids(&[1, 2, 3]), ids(&[1, 1]), ids(&[1, 9]), ids(&[])] {
        let refused = grow(&mut quorum, 6, Some(vec![wrong.clone()])).unwrap_err();
        assert_eq!(refused, ErrorCode::InvalidReplicaAssignment, "{wrong:?}");
    }
    quorum.fence(2);
    quorum.fence(3);
    let refused = grow(&mut quorum, 6, Some(vec![ids(&[2, 3])])).unwrap_err();
    assert_eq!(refused, ErrorCode::InvalidReplicaAssignment, "nobody could lead it");
    let grown = grow(&mut quorum, 6, Some(vec![ids(&[3, 1])])).unwrap();
    assert_eq!(grown.partitions[5].leader, Some(NodeId(1)));
}
