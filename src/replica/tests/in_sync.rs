//! Who is in sync, and how far the high watermark goes (Kafka's `PartitionTest`, `IsrExpirationTest`).

use super::*;

#[test]
fn records_are_committed_once_all_in_sync_replicas_have_them() {
    let mut world = World::new(3);
    assert_eq!(world.append(2), Moved { log_end: true, ..Moved::default() });
    assert_eq!(world.ends(1), (2, 0));
    world.run();
    assert_eq!(world.ends(1), (2, 2));
    assert_eq!(world.contents(2), world.contents(1));
    assert_eq!(world.contents(3), world.contents(1));
    assert_eq!(world.ends(2), (2, 0), "a follower learns the high watermark with the next answer");
    world.expire_fetches();
    assert_eq!((world.ends(2), world.ends(3)), ((2, 2), (2, 2)));
}

#[test]
fn a_follower_that_lags_leaves_and_comes_back_once_it_has_caught_up() {
    let mut world = World::new(3);
    world.cut_off.push(node(3));
    world.append(1);
    world.pass(30_000);
    assert_eq!(world.ends(1), (1, 0), "the records wait for it");
    assert_eq!(world.partition.isr, nodes(&[1, 2, 3]));
    world.pass(15_000);
    assert_eq!(world.partition.isr, nodes(&[1, 2]));
    assert_eq!(world.ends(1), (1, 1));
    world.heal();
    world.pass(1_000);
    assert_eq!(world.partition.isr, nodes(&[1, 2, 3]));
    assert_eq!(world.contents(3), world.contents(1));
}

#[test]
fn nothing_is_committed_below_the_minimum_of_in_sync_replicas() {
    let mut world = World::idle(&[1, 2, 3]);
    world.config.min_insync_replicas = 2;
    world.tell_everyone();
    world.run();
    world.cut_off.extend([node(2), node(3)]);
    world.append(1);
    world.set_isr(&[1]);
    world.run();
    assert_eq!(world.ends(1), (1, 0));
    assert!(!world.replica(1).has_enough_in_sync());
    world.heal();
    world.pass(1_500);
    assert_eq!(world.partition.isr.len(), 3);
    assert_eq!(world.ends(1), (1, 1));
}

#[test]
fn a_pinned_high_watermark_stays_until_it_is_let_go() {
    let mut world = World::new(2);
    let now = world.now();
    world.broker(1).pin_high_watermark(KEY, true, now);
    world.append(1);
    world.run();
    assert_eq!(world.ends(1), (1, 0));
    let moved = world.broker(1).pin_high_watermark(KEY, false, now);
    assert!(moved.high_watermark);
    assert_eq!(world.ends(1), (1, 1));
}

#[test]
fn a_frozen_fetcher_holds_records_back_until_it_is_let_go() {
    let mut world = World::new(2);
    let now = world.now();
    world.broker(2).freeze_fetcher(Some(KEY), true, now);
    world.append(1);
    world.run();
    assert_eq!((world.ends(1), world.ends(2)), ((1, 0), (0, 0)));
    world.broker(2).freeze_fetcher(None, false, now);
    world.run();
    assert_eq!((world.ends(1), world.ends(2).0), ((1, 1), 1));
}

/// Three brokers whose followers fetch when the test says so, and a controller that answers nothing.
fn by_hand() -> World {
    let mut world = World::new(3);
    world.accepts = false;
    world.cut_off.extend([node(2), node(3)]);
    world
}

impl World {
    /// A follower fetches.
    fn fetches(&mut self, replica: i32, offset: i64) -> Moved {
        let now = self.now();
        let fetch = FollowerFetch {
            last_fetched_epoch: if offset > 0 { 0 } else { -1 },
            ..fetch_of(replica, offset)
        };
        self.broker(1).record_follower_fetch(&fetch, now).expect("a follower")
    }

    /// The leader looks for those who lag. Returns what it proposes to keep.
    fn checks_in_sync(&mut self) -> Option<Vec<i32>> {
        let now = self.now().instant;
        self.broker(1).check_in_sync(now);
        self.run();
        let proposal = self.proposals.pop()?;
        Some(proposal.isr.iter().map(|(id, _)| id.0).collect())
    }
}

#[test]
fn a_stuck_follower_is_out_of_sync_once_the_time_is_over() {
    let mut world = by_hand();
    world.append(3);
    world.fetches(2, 3);
    world.fetches(3, 2);
    world.now_ms += 30_000;
    assert_eq!(world.checks_in_sync(), None, "it had all at the beginning");
    world.now_ms += 1;
    assert_eq!(world.checks_in_sync(), Some(vec![1, 2]), "broker 2 has all that there is, however long ago");
}

#[test]
fn a_follower_that_never_fetches_is_out_of_sync_once_the_time_is_over() {
    let mut world = by_hand();
    world.append(1);
    world.now_ms += 30_000;
    assert_eq!(world.checks_in_sync(), None);
    world.now_ms += 1;
    assert_eq!(world.checks_in_sync(), Some(vec![1]));
}

#[test]
fn a_slow_follower_is_in_sync_while_it_reaches_what_there_was_at_its_fetch_before() {
    let mut world = by_hand();
    let mut last_end = 0;
    for _ in 0..5 {
        world.append(2);
        world.now_ms += 20_000;
        world.fetches(2, last_end);
        world.fetches(3, last_end);
        last_end += 2;
        assert_eq!(world.checks_in_sync(), None, "each fetch reaches where the one before saw the end");
    }
    // From now on it reaches less.
    world.append(2);
    world.now_ms += 20_000;
    world.fetches(2, last_end - 1);
    world.fetches(3, last_end);
    assert_eq!(world.checks_in_sync(), Some(vec![1, 3]));
}

#[test]
fn a_follower_that_has_everything_stays_though_it_is_silent() {
    let mut world = by_hand();
    world.append(3);
    world.fetches(2, 3);
    world.fetches(3, 3);
    world.now_ms += 10 * 30_000;
    assert_eq!(world.checks_in_sync(), None);
}

#[test]
fn a_replica_that_is_about_to_join_holds_the_high_watermark_back() {
    let mut world = by_hand();
    world.set_isr(&[1, 2]);
    world.append(1);
    world.fetches(2, 1);
    assert_eq!(world.ends(1), (1, 0), "broker 3 had everything lately, and may join");
    let mut later = world.clone();
    later.now_ms += 30_001;
    later.append(1);
    later.fetches(2, 2);
    assert_eq!(later.ends(1), (2, 2), "it is too long ago");
    world.registered[2].fenced = true;
    world.tell_brokers();
    world.append(1);
    world.fetches(2, 2);
    assert_eq!(world.ends(1), (2, 2), "a fenced one can't join");
}

#[test]
fn a_fetch_of_a_process_that_is_gone_says_nothing() {
    let mut world = by_hand();
    world.append(2);
    world.fetches(2, 1);
    world.registered[1].epoch = 5;
    world.tell_brokers();
    let now = world.now();
    let refused = world.broker(1).record_follower_fetch(&fetch_of(2, 2), now);
    assert_eq!(refused.err(), Some(ErrorCode::NotLeaderOrFollower));
    let known = |world: &World| {
        world.replica(1).followers.as_ref().unwrap().follower(node(2)).unwrap().log_end_offset
    };
    assert_eq!(known(&world), 1, "nothing was noted");
    for broker_epoch in [5, -1] {
        let fetch = FollowerFetch { broker_epoch, last_fetched_epoch: 0, ..fetch_of(2, 2) };
        world.broker(1).record_follower_fetch(&fetch, now).unwrap();
        assert_eq!(known(&world), 2);
    }
}
