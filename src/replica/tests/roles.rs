//! Who leads and who follows, epoch by epoch (Kafka's `PartitionTest`), and what is left of it after a restart
//! (`HighwatermarkPersistenceTest`, `LogRecoveryTest`).

use super::*;
use crate::log::EpochStart;

fn epochs(world: &World, id: i32) -> Vec<(i32, i64)> {
    let entries = world.replica(id).log().epochs().entries();
    entries.iter().map(|EpochStart { epoch, start_offset }| (*epoch, *start_offset)).collect()
}

/// What the leader takes a follower's log end to be.
fn known_end(world: &World, leader: i32, follower: i32) -> i64 {
    let followers = world.replica(leader).followers.as_ref().expect("it leads");
    followers.follower(node(follower)).expect("a follower").log_end_offset
}

#[test]
fn a_new_leader_notes_its_epoch_before_it_writes() {
    let mut world = World::new(2);
    world.append(3);
    world.run();
    assert_eq!(epochs(&world, 1), [(0, 0)]);
    world.elect(2, &[1, 2]);
    assert_eq!(epochs(&world, 2), [(0, 0), (1, 3)]);
    assert_eq!(world.replica(2).epoch_start_offset(), Some(3));
    assert_eq!(epochs(&world, 1), [(0, 0)], "a follower learns it with the first record");
    world.append(1);
    world.run();
    assert_eq!(epochs(&world, 1), [(0, 0), (1, 3)]);
}

#[test]
fn an_isr_alone_begins_no_epoch() {
    let mut world = World::new(3);
    world.append(3);
    world.run();
    let before = known_end(&world, 1, 2);
    assert_eq!((before, epochs(&world, 1)), (3, vec![(0, 0)]));
    world.append(1);
    world.set_isr(&[1, 2]);
    assert_eq!(epochs(&world, 1), [(0, 0)]);
    assert_eq!(world.replica(1).epoch_start_offset(), Some(0));
    assert_eq!(known_end(&world, 1, 2), before, "what is known of followers is kept");
}

#[test]
fn a_leader_that_stays_keeps_what_it_knows_of_followers_and_a_new_one_knows_nothing() {
    let mut world = World::new(3);
    world.append(2);
    world.run();
    world.cut_off.extend([node(2), node(3)]);
    world.partition.leader_epoch += 1;
    world.partition.partition_epoch += 1;
    world.tell(1);
    assert_eq!(known_end(&world, 1, 2), 2);
    world.cut_off.clear();
    world.elect(2, &[1, 2, 3]);
    assert_eq!((known_end(&world, 2, 1), known_end(&world, 2, 3)), (-1, -1));
    world.run();
    assert_eq!((known_end(&world, 2, 1), known_end(&world, 2, 3)), (2, 2));
}

#[test]
fn a_leader_that_missed_an_epoch_of_another_knows_nothing_of_followers() {
    // Broker 2 led in between, and the others may have followed it: what they had is not what they have.
    let mut world = World::new(3);
    world.append(2);
    world.run();
    world.cut_off.extend([node(2), node(3)]);
    world.partition.leader_epoch += 2;
    world.partition.partition_epoch += 2;
    world.tell(1);
    assert_eq!((known_end(&world, 1, 2), known_end(&world, 1, 3)), (-1, -1));
    assert_eq!(world.ends(1), (2, 2), "the high watermark doesn't fall");
}

#[test]
fn old_news_change_nothing() {
    let mut world = World::new(3);
    let old = world.partition.clone();
    world.set_isr(&[1, 2]);
    world.elect(2, &[1, 2]);
    let new = std::mem::replace(&mut world.partition, old);
    for id in [1, 2, 3] {
        assert_eq!(world.tell(id), Moved::default());
        let replica = world.replica(id);
        let role = if id == 2 { Role::Leader } else { Role::Follower { leader: Some(node(2)) } };
        assert_eq!((replica.role(), replica.leader_epoch(), replica.partition_epoch), (&role, 1, 2));
    }
    world.partition = new;
    assert_eq!(world.tell(2), Moved::default(), "nor does what is known already");
}

#[test]
fn a_follower_knows_of_no_others() {
    let mut world = World::new(3);
    world.append(1);
    world.run();
    world.elect(2, &[1, 2, 3]);
    let replica = world.replica(1);
    assert!(replica.followers.is_none() && replica.in_sync.is_empty());
    assert_eq!(replica.epoch_start_offset(), None);
    assert_eq!(replica.check_leader(-1), Err(ErrorCode::NotLeaderOrFollower));
    assert_eq!(replica.check_leader(0), Err(ErrorCode::FencedLeaderEpoch), "the epoch is looked at first");
    assert_eq!(replica.check_leader(2), Err(ErrorCode::UnknownLeaderEpoch));
}

#[test]
fn another_leader_among_followers_is_followed_from_the_end_of_the_log() {
    let mut world = World::new(3);
    world.append(2);
    world.run();
    world.elect(2, &[1, 2, 3]);
    world.append(1);
    world.run();
    assert_eq!(world.contents(3), world.contents(2));
    assert_eq!(world.contents(1), world.contents(2));
}

#[test]
fn offsets_of_a_client_stay_below_what_it_has_seen_when_the_leader_changes() {
    // The new leader has heard of a lower high watermark than the old one, and stays there until the others have fetched.
    let mut world = World::new(3);
    world.append(2);
    world.run();
    assert_eq!((world.ends(1), world.ends(2)), ((2, 2), (2, 0)));
    world.cut_off.extend([node(1), node(3)]);
    world.partition.leader = Some(node(2));
    world.partition.leader_epoch += 1;
    world.partition.partition_epoch += 1;
    world.tell(2);
    assert_eq!(world.ends(2), (2, 0));
    assert!(
        world.ends(2).1 < world.replica(2).epoch_start_offset().unwrap(),
        "it doesn't know where it stands"
    );
    world.cut_off.clear();
    world.tell_everyone();
    world.heal();
    assert_eq!(world.ends(2), (2, 2));
}

#[test]
fn a_restarted_broker_has_its_log_and_its_high_watermark() {
    let mut world = World::new(2);
    world.append(3);
    world.run();
    world.expire_fetches();
    world.cut_off.push(node(1));
    world.append(2);
    assert_eq!((world.ends(1), world.ends(2)), ((5, 3), (3, 3)));
    let now = world.now();
    for (kept, expected) in [(Kept::Everything, (5, 3)), (Kept::Replicated, (3, 3))] {
        let mut world = world.clone();
        let pool = &mut world.pool;
        world.brokers[0].after_restart(&BrokerSettings::default(), kept, now, pool);
        assert_eq!(world.ends(1), expected, "{kept:?}");
        let replica = world.replica(1);
        assert_eq!((replica.role(), replica.leader_epoch()), (&Role::Follower { leader: None }, -1));
        assert_eq!(epochs(&world, 1), [(0, 0)]);
        // It goes on from there, as the leader or as a follower.
        world.cut_off.clear();
        world.registered[0].epoch = 2;
        world.tell_brokers();
        let (mut leads, mut follows) = (world.clone(), world);
        leads.elect(1, &[1]);
        assert_eq!(leads.ends(1), (expected.0, expected.0), "{kept:?}: nobody else counts");
        follows.elect(2, &[2]);
        follows.append(1);
        follows.run();
        follows.expire_fetches();
        assert_eq!(follows.contents(1), follows.contents(2), "{kept:?}");
        assert_eq!(follows.ends(1), (4, 4), "{kept:?}");
    }
}

#[test]
fn a_log_that_lost_its_tail_has_forgotten_the_epochs_that_began_there() {
    let mut world = World::new(2);
    world.append(2);
    world.run();
    world.expire_fetches();
    world.elect(1, &[1, 2]);
    world.run();
    world.cut_off.push(node(2));
    world.append(2);
    assert_eq!((world.ends(1), epochs(&world, 1)), ((4, 2), vec![(0, 0), (1, 2)]));
    let now = world.now();
    world.brokers[0].after_restart(&BrokerSettings::default(), Kept::Replicated, now, &mut world.pool);
    assert_eq!((world.ends(1), epochs(&world, 1)), ((2, 2), vec![(0, 0)]));
}
