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
