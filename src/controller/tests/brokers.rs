//! Registration, heartbeats, fencing, shutdown.

use super::*;

#[test]
fn a_new_cluster_has_its_brokers_unfenced_with_epochs_from_one_on() {
    let quorum = Quorum::of(3, &[]);
    let seen: Vec<_> = quorum.controller.brokers().iter().map(|broker| (broker.id.0, broker.epoch)).collect();
    assert_eq!(seen, [(1, 1), (2, 2), (3, 3)]);
    assert!(quorum.controller.brokers().iter().all(BrokerRegistration::is_active));
}

#[test]
fn one_broker_has_no_deadlines() {
    let mut quorum = Quorum::of(1, &[]);
    assert_eq!(quorum.controller.next_timeout(), None);
    let key = quorum.topic("t", &[&[1]], &[]);
    quorum.now = quorum.now + Duration::from_secs(3600);
    quorum.controller.handle_timeout(quorum.now);
    assert_eq!(quorum.state(key), (1, vec![1], vec![]));
}

#[test]
fn missed_heartbeats_fence_after_the_session_timeout() {
    let mut quorum = Quorum::of(3, &[("broker.session.timeout.ms", "5000")]);
    let key = quorum.topic("t", &[&[1, 2, 3]], &[]);
    quorum.pass(4, &[2, 3]);
    assert_eq!(quorum.state(key), (1, vec![1, 2, 3], vec![]));
    quorum.pass(1, &[2, 3]);
    assert_eq!(quorum.state(key), (2, vec![2, 3], vec![]));
    assert_eq!((quorum.partition(key).leader_epoch, quorum.partition(key).partition_epoch), (1, 1));
    assert!(quorum.controller.broker(NodeId(1)).unwrap().fenced);
    quorum.unfence(1);
    assert_eq!(quorum.state(key), (2, vec![2, 3], vec![]), "the leader takes it back, not the controller");
}

#[test]
fn a_started_broker_stays_fenced_until_it_knows_what_there_is() {
    let mut quorum = Quorum::of(2, &[]);
    let epoch = quorum.register(2, true);
    assert_eq!(epoch, 3);
    let heartbeat = Heartbeat { broker: NodeId(2), epoch, want_fence: false, want_shut_down: false };
    assert!(quorum.controller.heartbeat(quorum.now, heartbeat).unwrap().fenced);
    let (last, changes) = quorum.controller.snapshot();
    assert!(changes.iter().any(|change| matches!(change, Change::Brokers(_))));
    quorum.controller.acknowledge(NodeId(2), last);
    assert!(!quorum.controller.heartbeat(quorum.now, heartbeat).unwrap().fenced);
    let stale = Heartbeat { epoch: 2, ..heartbeat };
    let error = quorum.controller.heartbeat(quorum.now, stale).unwrap_err();
    assert_eq!(error.code(), ErrorCode::StaleBrokerEpoch);
}

#[test]
fn a_broker_that_wants_to_go_goes_once_it_leads_nothing_and_the_others_know() {
    let mut quorum = Quorum::of(3, &[]);
    let key = quorum.topic("t", &[&[1, 2, 3]], &[]);
    let reply = quorum.beat(1, false, true);
    assert_eq!(reply, HeartbeatReply { fenced: false, should_shut_down: false });
    assert_eq!(quorum.state(key), (2, vec![2, 3], vec![]));
    assert!(quorum.controller.broker(NodeId(1)).unwrap().in_controlled_shutdown);
    assert!(!quorum.beat(1, false, true).should_shut_down, "brokers 2 and 3 don't know yet");
    quorum.unfence(2);
    quorum.unfence(3);
    let reply = quorum.beat(1, false, true);
    assert_eq!(reply, HeartbeatReply { fenced: true, should_shut_down: true });
    let broker = quorum.controller.broker(NodeId(1)).unwrap();
    assert!(broker.fenced && !broker.in_controlled_shutdown);
    // Who leads nothing may go at once, and who is fenced too.
    assert!(quorum.beat(3, false, true).should_shut_down);
    assert!(quorum.beat(3, false, true).should_shut_down);
    assert_eq!(quorum.state(key), (2, vec![2], vec![]));
}

#[test]
fn a_broker_that_was_killed_is_eligible_for_nothing_when_it_starts_again() {
    for (was_clean, elr) in [(true, vec![3]), (false, vec![])] {
        let mut quorum = Quorum::of(3, &[]);
        let key = quorum.topic("t", &[&[1, 2, 3]], &[("min.insync.replicas", "3")]);
        quorum.register(3, was_clean);
        assert_eq!(quorum.state(key), (1, vec![1, 2], elr), "shut down cleanly: {was_clean}");
    }
}

#[test]
fn an_unregistered_broker_is_gone_from_the_isrs_and_stays_a_replica() {
    let mut quorum = Quorum::of(3, &[]);
    let key = quorum.topic("t", &[&[1, 2, 3]], &[]);
    let now = quorum.now;
    quorum.controller.unregister(now, NodeId(1)).unwrap();
    assert_eq!(quorum.state(key), (2, vec![2, 3], vec![]));
    assert_eq!(*quorum.partition(key).replicas, *ids(&[1, 2, 3]));
    let error = quorum.controller.unregister(now, NodeId(1)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::BrokerIdNotRegistered);
    quorum.controller.unregister(now, NodeId(2)).unwrap();
    assert_eq!(quorum.controller.next_timeout(), None, "one broker is left");
}
