//! What a leader proposes, and what it does with each of the controller's answers (Kafka's `PartitionTest`,
//! `AlterPartitionManagerTest`).

use super::*;

/// The first of two or more brokers leads, has one record that broker 3 doesn't have, and proposes to go on without it.
/// Nobody has answered.
fn shrinking() -> (World, AlterPartition) {
    let mut world = World::new(3);
    world.accepts = false;
    world.cut_off.push(node(3));
    world.append(1);
    world.pass(45_000);
    let proposal = world.only_proposal();
    assert_eq!(members(&proposal), [1, 2]);
    (world, proposal)
}

/// Broker 3 has been out of sync, has caught up, and is proposed to be taken in again. Nobody has answered.
fn growing() -> (World, AlterPartition) {
    let mut world = World::new(3);
    world.cut_off.push(node(3));
    world.set_isr(&[1, 2]);
    // It had everything too long ago to be waited for.
    world.pass(31_000);
    world.append(1);
    world.run();
    assert_eq!(world.ends(1), (1, 1));
    world.accepts = false;
    world.heal();
    world.expire_fetches();
    let proposal = world.only_proposal();
    assert_eq!(members(&proposal), [1, 2, 3]);
    (world, proposal)
}

/// A name, and an edit.
type Case<T> = (&'static str, fn(&mut T));

fn members(proposal: &AlterPartition) -> Vec<i32> {
    proposal.isr.iter().map(|(id, _)| id.0).collect()
}

impl World {
    /// The one proposal that has been made since this was last asked.
    fn only_proposal(&mut self) -> AlterPartition {
        assert_eq!(self.proposals.len(), 1, "{:?}", self.proposals);
        self.proposals.remove(0)
    }

    /// The leader hears what has become of a proposal.
    fn answer(&mut self, request: &AlterPartition, answer: Result<Partition, ErrorCode>) -> Moved {
        let now = self.now();
        let moved = self.broker(1).isr_answered(request, answer, now);
        self.run();
        moved
    }

    /// As the controller answers if it takes a proposal.
    fn taken(&self, request: &AlterPartition) -> Partition {
        Partition {
            isr: request.isr.iter().map(|(id, _)| *id).collect(),
            partition_epoch: self.partition.partition_epoch + 1,
            ..self.partition.clone()
        }
    }
}

#[test]
fn a_replica_counts_until_the_controller_lets_it_go() {
    let (mut world, proposal) = shrinking();
    assert_eq!((proposal.leader_epoch, proposal.partition_epoch), (0, 0));
    assert_eq!((proposal.broker, proposal.broker_epoch), (node(1), 1));
    assert_eq!(proposal.isr, [(node(1), 1), (node(2), 1)], "each with the epoch that it fetches with");
    assert_eq!(world.ends(1), (1, 0), "the old ISR still counts");
    let taken = world.taken(&proposal);
    assert!(world.answer(&proposal, Ok(taken)).high_watermark);
    assert_eq!((world.ends(1), &*world.replica(1).in_sync), ((1, 1), &*nodes(&[1, 2])));
    assert_eq!(world.replica(1).partition_epoch, 1);
}

#[test]
fn a_replica_counts_from_the_proposal_to_take_it_in() {
    let (mut world, proposal) = growing();
    world.cut_off.push(node(3));
    world.append(1);
    world.run();
    assert_eq!(world.ends(1), (2, 1), "broker 3 doesn't have it");
    assert_eq!(&*world.replica(1).in_sync, &*nodes(&[1, 2]), "what the controller knows is as before");
    let taken = world.taken(&proposal);
    world.answer(&proposal, Ok(taken));
    assert_eq!((world.ends(1), world.replica(1).in_sync.len()), ((2, 1), 3));
}

#[test]
fn acks_count_a_replica_that_is_about_to_be_in_sync() {
    let (mut world, _) = growing();
    world.config.min_insync_replicas = 3;
    let (topic, now) = (world.topic(), world.now());
    world.broker(1).apply_config(&topic, now);
    let replica = world.replica(1);
    assert_eq!((replica.has_enough_in_sync(), replica.has_enough_maximal_in_sync()), (false, true));
}

#[test]
fn one_proposal_is_made_at_a_time() {
    let mut world = World::new(4);
    world.cut_off.extend([node(3), node(4)]);
    world.set_isr(&[1, 2]);
    world.append(1);
    world.run();
    world.accepts = false;
    world.heal();
    world.expire_fetches();
    let first = world.only_proposal();
    world.pass(29_000);
    assert!(world.proposals.is_empty(), "the other one waits, however often it fetches");
    let taken = world.taken(&first);
    world.partition = taken.clone();
    world.answer(&first, Ok(taken));
    world.expire_fetches();
    assert_eq!(world.only_proposal().isr.len(), 4);
}

#[test]
fn after_a_refusal_that_changed_nothing_the_leader_may_propose_again() {
    for error in [ErrorCode::OperationNotAttempted, ErrorCode::IneligibleReplica] {
        let (mut world, proposal) = growing();
        world.answer(&proposal, Err(error));
        let replica = world.replica(1);
        assert_eq!((replica.in_sync.len(), replica.partition_epoch), (2, 1), "{error:?}: as it was");
        assert!(world.proposals.is_empty(), "{error:?}: not by itself");
        world.expire_fetches();
        assert_eq!(members(&world.only_proposal()), [1, 2, 3], "{error:?}: with the next fetch");
        let (mut world, proposal) = shrinking();
        world.answer(&proposal, Err(error));
        world.pass(15_000);
        assert_eq!(members(&world.only_proposal()), [1, 2], "{error:?}: with the next check");
    }
}

#[test]
fn after_a_refusal_that_tells_of_news_the_leader_waits_for_them() {
    for error in [
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::UnknownTopicId,
        ErrorCode::FencedLeaderEpoch,
        ErrorCode::InvalidUpdateVersion,
        ErrorCode::InvalidRequest,
        ErrorCode::NewLeaderElected,
    ] {
        let (mut world, proposal) = growing();
        world.answer(&proposal, Err(error));
        world.pass(100_000);
        assert!(world.proposals.is_empty(), "{error:?}");
        // What was proposed counts all this time.
        world.cut_off.push(node(3));
        world.append(1);
        world.run();
        assert_eq!(world.ends(1), (2, 1), "{error:?}");
        world.set_isr(&[1, 2]);
        world.heal();
        world.expire_fetches();
        assert_eq!(world.only_proposal().partition_epoch, 2, "{error:?}");
    }
}

#[test]
fn after_a_failure_that_passes_the_leader_says_it_again() {
    for error in [
        ErrorCode::NotController,
        ErrorCode::StaleBrokerEpoch,
        ErrorCode::UnknownServerError,
        ErrorCode::NetworkException,
        ErrorCode::RequestTimedOut,
        ErrorCode::ClusterAuthorizationFailed,
    ] {
        let (mut world, proposal) = growing();
        for _ in 0..3 {
            world.answer(&proposal, Err(error));
            assert!(world.proposals.is_empty(), "{error:?}: not at once");
            world.pass(50);
            assert_eq!(world.only_proposal(), proposal, "{error:?}");
        }
        let taken = world.taken(&proposal);
        world.answer(&proposal, Ok(taken));
        assert_eq!(world.replica(1).in_sync.len(), 3, "{error:?}");
    }
}

#[test]
fn what_is_said_again_comes_from_the_broker_as_it_is_registered_then() {
    let (mut world, proposal) = growing();
    world.answer(&proposal, Err(ErrorCode::StaleBrokerEpoch));
    world.registered[0].epoch = 7;
    world.tell_brokers();
    world.pass(50);
    let again = world.only_proposal();
    assert_eq!(again, AlterPartition { broker_epoch: 7, ..proposal });
}

#[test]
fn a_proposal_without_an_answer_is_said_again() {
    let (mut world, proposal) = growing();
    world.pass(29_000);
    assert!(world.proposals.is_empty());
    world.pass(31_000);
    assert_eq!(world.only_proposal(), proposal);
}

#[test]
fn an_answer_from_another_time_changes_nothing() {
    let cases: [Case<Partition>; 2] = [
        ("of another leader epoch", |partition| partition.leader_epoch += 1),
        ("of an older partition epoch", |partition| partition.partition_epoch = 0),
    ];
    for (case, edit) in cases {
        let (mut world, proposal) = growing();
        let mut answer = world.taken(&proposal);
        edit(&mut answer);
        world.answer(&proposal, Ok(answer));
        let replica = world.replica(1);
        assert_eq!((replica.in_sync.len(), replica.partition_epoch), (2, 1), "{case}");
        world.pass(100_000);
        assert!(world.proposals.is_empty(), "{case}: what the controller says next will tell");
    }
}

#[test]
fn an_answer_of_the_same_partition_epoch_says_that_it_was_so_already() {
    let (mut world, proposal) = growing();
    let answer = Partition { partition_epoch: 1, ..world.taken(&proposal) };
    world.answer(&proposal, Ok(answer));
    let replica = world.replica(1);
    assert_eq!((replica.in_sync.len(), replica.partition_epoch), (3, 1));
}

#[test]
fn an_answer_that_the_news_have_overtaken_is_ignored() {
    let (mut world, proposal) = growing();
    // Another leader, and this one again, before the answer is here.
    let taken = world.taken(&proposal);
    world.elect(1, &[1, 2]);
    assert_eq!(world.replica(1).partition_epoch, 2);
    world.answer(&proposal, Ok(taken));
    let replica = world.replica(1);
    assert_eq!((replica.in_sync.len(), replica.partition_epoch), (2, 2));
    world.answer(&proposal, Err(ErrorCode::OperationNotAttempted));
    assert_eq!(world.replica(1).in_sync.len(), 2);
}

#[test]
fn a_replica_is_not_taken_in_before_it_has_what_this_leader_began_with() {
    let mut world = World::new(3);
    world.cut_off.push(node(3));
    world.set_isr(&[1, 2]);
    // The high watermark stays behind the log's end, at which the next epoch begins.
    world.cut_off.push(node(2));
    world.append(2);
    world.run();
    world.accepts = false;
    world.elect(1, &[1, 2]);
    assert_eq!((world.ends(1), world.replica(1).epoch_start_offset()), ((2, 0), Some(2)));
    let fetch = |offset| FollowerFetch {
        leader_epoch: 1,
        last_fetched_epoch: if offset > 0 { 0 } else { -1 },
        ..fetch_of(3, offset)
    };
    let now = world.now();
    for offset in [0, 1] {
        world.broker(1).record_follower_fetch(&fetch(offset), now).unwrap();
        world.run();
        assert!(world.proposals.is_empty(), "at offset {offset}");
    }
    world.broker(1).record_follower_fetch(&fetch(2), now).unwrap();
    world.run();
    assert_eq!(members(&world.only_proposal()), [1, 2, 3]);
}

#[test]
fn a_replica_that_is_not_to_stay_is_not_taken_in() {
    let cases: [Case<BrokerRegistration>; 3] = [
        ("fenced", |broker| broker.fenced = true),
        ("on its way out", |broker| broker.in_controlled_shutdown = true),
        ("registered anew since it fetched", |broker| broker.epoch = 2),
    ];
    for (case, edit) in cases {
        let mut world = World::new(3);
        world.cut_off.push(node(3));
        world.set_isr(&[1, 2]);
        world.accepts = false;
        edit(&mut world.registered[2]);
        // Broker 3 doesn't hear of it, and fetches as before.
        let registered: Arc<[BrokerRegistration]> = world.registered.clone().into();
        world.broker(1).apply_brokers(&registered);
        let fetch = |broker_epoch| FollowerFetch { broker_epoch, ..fetch_of(3, 0) };
        let now = world.now();
        let stale = world.broker(1).record_follower_fetch(&fetch(1), now);
        let expected = if registered[2].epoch == 2 { Err(ErrorCode::NotLeaderOrFollower) } else { Ok(()) };
        assert_eq!(stale.map(drop), expected, "{case}");
        world.run();
        assert!(world.proposals.is_empty(), "{case}");
        world.registered[2] =
            BrokerRegistration { fenced: false, in_controlled_shutdown: false, ..registered[2].clone() };
        world.tell_brokers();
        world.broker(1).record_follower_fetch(&fetch(-1), now).unwrap();
        world.run();
        assert_eq!(
            world.only_proposal().isr[2],
            (node(3), -1),
            "{case}: one that doesn't say its epoch may be"
        );
    }
}
