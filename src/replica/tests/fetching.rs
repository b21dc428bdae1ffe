//! What followers do with answers (Kafka's `AbstractFetcherThreadTest`, `ReplicaFetcherThreadTest`).

use super::*;

#[test]
fn an_epoch_that_wrote_nothing_is_given_up() {
    let mut world = World::new(2);
    world.append(1);
    world.run();
    world.elect(2, &[1, 2]);
    world.run();
    world.elect(1, &[1, 2]);
    world.run();
    world.append(1);
    world.run();
    assert_eq!(world.contents(2), world.contents(1));
    assert_eq!(world.ends(1), (2, 2));
}

/// Broker 2 follows broker 1. Its log has two records of each of these leader epochs, and a fetch of it in epoch 7 is
/// what broker 1 is to answer.
fn following(epochs: &[i32]) -> (World, FollowerFetch) {
    let mut world = World::idle(&[1, 2]);
    for (at, epoch) in epochs.iter().chain(&[7]).enumerate() {
        (world.partition.leader_epoch, world.partition.partition_epoch) = (*epoch, at as i32);
        world.tell_everyone();
        world.run();
        if *epoch != 7 {
            world.append(1);
            world.append(1);
            world.run();
            world.expire_fetches();
        }
    }
    let fetch = world.waiting();
    let end = 2 * epochs.len() as i64;
    assert_eq!((fetch.offset, fetch.leader_epoch), (end, 7));
    assert_eq!(fetch.last_fetched_epoch, epochs.last().copied().unwrap_or(-1));
    assert_eq!(world.ends(2), (end, end));
    (world, fetch)
}

impl World {
    /// The fetch of broker 2 that waits on broker 1, to be answered by the test.
    fn waiting(&mut self) -> FollowerFetch {
        assert_eq!(self.parked.len(), 1);
        self.parked.remove(0).1
    }

    /// Broker 2 is answered. `leader` has the start and the end of the leader's log, and its high watermark.
    fn answered(
        &mut self,
        fetch: &FollowerFetch,
        result: Result<FollowerRecords, ErrorCode>,
        leader: (i64, i64, i64),
    ) -> Moved {
        let fetched = FollowerFetched {
            key: KEY,
            leader: node(1),
            leader_epoch: fetch.leader_epoch,
            offset: fetch.offset,
            sequence: fetch.sequence,
            result,
            log_start_offset: leader.0,
            log_end_offset: leader.1,
            high_watermark: leader.2,
        };
        let now = self.now();
        self.brokers[1].apply_fetched(fetched, now, &mut self.pool)
    }

    /// What broker 2 asks next, without waiting: offset and last epoch.
    fn asks_next(&mut self) -> Option<(i64, i32)> {
        match &self.brokers[1].take_outgoing()[..] {
            [] => None,
            [Outgoing::Fetch { to, fetch }] => {
                assert_eq!(*to, node(1));
                Some((fetch.offset, fetch.last_fetched_epoch))
            }
            more => panic!("{more:?}"),
        }
    }

    /// As [`asks_next`](Self::asks_next), once so much time has passed.
    fn asks_after(&mut self, ms: u64) -> Option<(i64, i32)> {
        self.now_ms += ms;
        let now = self.now();
        self.brokers[1].handle_timeout(now, &mut self.pool);
        self.asks_next()
    }
}

fn diverging(epoch: i32, end_offset: i64) -> Result<FollowerRecords, ErrorCode> {
    Ok(FollowerRecords::Diverging { epoch, end_offset })
}

/// Batches of one record each at these offsets and leader epochs, as a leader sends them.
fn records(batches: &[(i64, i32)]) -> FollowerRecords {
    let mut bytes = Vec::new();
    for (offset, epoch) in batches {
        let mut one = batch(1, *offset as u64);
        one[..8].copy_from_slice(&offset.to_be_bytes());
        one[12..16].copy_from_slice(&epoch.to_be_bytes());
        bytes.extend(one);
    }
    let (parts, size) = (vec![bytes::Bytes::from(bytes.clone())], bytes.len());
    FollowerRecords::Batches(crate::log::SharedSlices { parts, bytes: size, known: 0, last_is_copied: false })
}

#[test]
fn a_follower_goes_back_to_where_the_answer_says_that_the_logs_part() {
    // What the leader has of epochs, where the log ends then, and what is asked next.
    let cases = [
        ("its end of the same epoch", (5, 5), 5, Some((5, 5))),
        ("its end of an older epoch that both have", (3, 3), 3, Some((3, 3))),
        ("the follower's end, if that comes first", (3, 5), 4, Some((4, 3))),
        ("an epoch that the follower lacks: the end of the one before", (4, 5), 4, Some((4, 3))),
        ("no epoch at all", (-1, 5), 5, Some((5, 5))),
        ("nothing in common", (0, 0), 0, Some((0, -1))),
    ];
    for (case, (epoch, end), expected, next) in cases {
        let (mut world, fetch) = following(&[0, 3, 5]);
        let moved = world.answered(&fetch, diverging(epoch, end), (0, 9, 9));
        assert!(moved.log_end, "{case}");
        assert_eq!(world.ends(2), (expected, expected), "{case}: the answer's high watermark isn't used");
        assert_eq!(world.asks_next(), next, "{case}");
    }
}

#[test]
fn a_follower_that_knows_nothing_of_the_epoch_goes_back_to_the_leaders_end() {
    // Below all epochs that it knows, above all, and where it knows none.
    let cases = [
        (&[3, 5][..], (1, 3), 0, Some((0, -1))),
        (&[3, 5], (6, 3), 3, Some((3, 5))),
        (&[3, 5], (6, 100), 4, None),
    ];
    for (epochs, (epoch, end), expected, next) in cases {
        let (mut world, fetch) = following(epochs);
        world.answered(&fetch, diverging(epoch, end), (0, 9, 9));
        assert_eq!((world.ends(2), world.asks_next()), ((expected, expected), next), "{epoch}, {end}");
        if next.is_none() {
            assert_eq!(world.asks_after(1_000), Some((4, 5)), "the same is not asked again at once");
        }
    }
}

#[test]
fn a_leader_that_knows_no_offset_has_its_follower_stay_where_it_is() {
    let (mut world, fetch) = following(&[0, 3]);
    let moved = world.answered(&fetch, diverging(3, -1), (0, 9, 9));
    assert_eq!((moved, world.ends(2)), (Moved::default(), (4, 4)));
    assert_eq!((world.asks_next(), world.asks_after(1_000)), (None, Some((4, 3))));
}

#[test]
fn a_follower_ahead_of_its_leader_goes_back_to_the_leaders_end() {
    let (mut world, fetch) = following(&[0, 3]);
    let moved = world.answered(&fetch, Err(ErrorCode::OffsetOutOfRange), (0, 3, 3));
    assert!(moved.log_end && moved.high_watermark);
    assert_eq!((world.ends(2), world.asks_next()), ((3, 3), Some((3, 3))));
}

#[test]
fn a_follower_behind_the_leaders_start_begins_there_anew() {
    let (mut world, fetch) = following(&[0, 3]);
    world.answered(&fetch, Err(ErrorCode::OffsetOutOfRange), (10, 12, 11));
    assert_eq!((world.ends(2), world.asks_next()), ((10, 10), Some((10, -1))));
    assert_eq!(world.replica(2).log().log_start_offset(), 10);
    assert!(world.contents(2).is_empty());
}

#[test]
fn a_follower_that_is_in_range_after_all_keeps_its_log_and_asks_later() {
    for leader in [(0, 4, 4), (2, 6, 6), (-1, -1, -1)] {
        let (mut world, fetch) = following(&[0, 3]);
        let moved = world.answered(&fetch, Err(ErrorCode::OffsetOutOfRange), leader);
        assert_eq!((moved, world.ends(2)), (Moved::default(), (4, 4)), "{leader:?}");
        assert_eq!(
            (world.asks_next(), world.asks_after(999), world.asks_after(1)),
            (None, None, Some((4, 3)))
        );
    }
}

#[test]
fn a_fenced_follower_waits_for_the_next_epoch() {
    let (mut world, fetch) = following(&[0]);
    world.answered(&fetch, Err(ErrorCode::FencedLeaderEpoch), (-1, -1, -1));
    assert_eq!(world.asks_after(100_000), None);
    world.partition.partition_epoch += 1;
    world.tell(2);
    assert_eq!(world.asks_after(1_000), None, "another ISR is no reason to try again");
    world.elect(1, &[1, 2]);
    assert_eq!(world.asks_next(), Some((2, 0)));
}

#[test]
fn after_any_other_error_the_follower_asks_again_in_a_second() {
    for error in [
        ErrorCode::UnknownLeaderEpoch,
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::UnknownTopicId,
        ErrorCode::InconsistentTopicId,
        ErrorCode::KafkaStorageError,
        ErrorCode::CorruptMessage,
        ErrorCode::NetworkException,
        ErrorCode::UnknownServerError,
    ] {
        let (mut world, fetch) = following(&[0]);
        let moved = world.answered(&fetch, Err(error), (-1, -1, -1));
        assert_eq!((moved, world.ends(2)), (Moved::default(), (2, 2)), "{error:?}");
        assert_eq!(world.asks_after(999), None, "{error:?}");
        assert_eq!(world.asks_after(1), Some((2, 0)), "{error:?}");
    }
}

#[test]
fn only_the_answer_that_is_waited_for_is_taken() {
    let (mut world, fetch) = following(&[0]);
    let others = [
        FollowerFetch { offset: 1, ..fetch.clone() },
        FollowerFetch { sequence: fetch.sequence + 1, ..fetch.clone() },
        FollowerFetch { leader_epoch: 6, ..fetch.clone() },
    ];
    for other in others {
        let moved = world.answered(&other, Ok(records(&[(2, 7)])), (0, 3, 3));
        assert_eq!((moved, world.ends(2), world.asks_next()), (Moved::default(), (2, 2), None));
    }
    world.answered(&fetch, Ok(records(&[(2, 7)])), (0, 3, 3));
    assert_eq!((world.ends(2), world.asks_next()), ((3, 3), Some((3, 7))));
    world.answered(&fetch, Ok(records(&[(3, 7)])), (0, 4, 4));
    assert_eq!(world.ends(2), (3, 3), "nor is one taken twice");
}

#[test]
fn batches_of_later_epochs_than_the_followers_are_left_for_later() {
    let (mut world, fetch) = following(&[0]);
    world.answered(&fetch, Ok(records(&[(2, 5), (3, 7), (4, 8), (5, 7)])), (0, 6, 6));
    assert_eq!((world.ends(2), world.asks_next()), ((4, 4), Some((4, 7))));
}

#[test]
fn the_high_watermark_follows_the_leaders_within_the_log() {
    for (leaders, expected) in [(0, 0), (1, 1), (3, 3), (9, 3)] {
        let (mut world, fetch) = following(&[0]);
        let moved = world.answered(&fetch, Ok(records(&[(2, 7)])), (0, 9, leaders));
        assert_eq!(world.ends(2), (3, expected), "{leaders}");
        assert_eq!(moved.high_watermark, expected != 2);
    }
    let (mut world, fetch) = following(&[0]);
    let moved = world.answered(&fetch, Ok(records(&[])), (0, 2, 1));
    assert_eq!((moved.high_watermark, world.ends(2)), (true, (2, 1)), "without records too");
}

#[test]
fn the_log_start_follows_the_leaders_upwards() {
    let (mut world, fetch) = following(&[0]);
    let moved = world.answered(&fetch, Ok(records(&[(2, 7)])), (1, 3, 2));
    assert!(moved.low_watermark);
    assert_eq!(world.replica(2).log().log_start_offset(), 1);
    let (mut world, fetch) = following(&[0]);
    world.answered(&fetch, Ok(records(&[(2, 7)])), (3, 3, 2));
    assert_eq!(world.replica(2).log().log_start_offset(), 0, "not above the high watermark");
    assert_eq!((world.asks_next(), world.asks_after(100_000)), (None, None), "replication stops there");
}

#[test]
fn an_empty_log_begins_with_the_batch_in_which_the_leaders_log_starts() {
    let (mut world, fetch) = following(&[]);
    world.answered(&fetch, Err(ErrorCode::OffsetOutOfRange), (11, 13, 13));
    assert_eq!(world.ends(2), (11, 11));
    let next = world.brokers[1].take_outgoing();
    let [Outgoing::Fetch { fetch, .. }] = &next[..] else { panic!("{next:?}") };
    assert_eq!(fetch.offset, 11);
    // A batch of three records, of which the leader has deleted the first.
    let mut whole = batch(3, 1);
    whole[..8].copy_from_slice(&10_i64.to_be_bytes());
    whole[12..16].copy_from_slice(&7_i32.to_be_bytes());
    let slices = crate::log::SharedSlices {
        bytes: whole.len(),
        parts: vec![whole.into()],
        known: 0,
        last_is_copied: false,
    };
    world.answered(&fetch.clone(), Ok(FollowerRecords::Batches(slices)), (11, 13, 13));
    assert_eq!(world.ends(2), (13, 13));
    let log = world.replica(2).log();
    assert_eq!(log.batches().next().map(|batch| batch.view.base_offset()), Some(10));
    assert_eq!(log.log_start_offset(), 11);
}

#[test]
fn a_batch_that_can_not_follow_stops_replication() {
    let (mut world, fetch) = following(&[0]);
    // Its last offset comes before its first.
    let mut batch = batch(1, 1);
    batch[..8].copy_from_slice(&2_i64.to_be_bytes());
    batch[23..27].copy_from_slice(&(-5_i32).to_be_bytes());
    let slices = crate::log::SharedSlices {
        bytes: batch.len(),
        parts: vec![batch.into()],
        known: 0,
        last_is_copied: false,
    };
    world.answered(&fetch, Ok(FollowerRecords::Batches(slices)), (0, 3, 3));
    assert_eq!((world.ends(2), world.asks_after(100_000)), ((2, 2), None));
    world.elect(1, &[1, 2]);
    assert_eq!(world.asks_next(), Some((2, 0)), "until there is another epoch");
}

#[test]
fn a_fetch_says_what_the_follower_has_and_how_much_it_takes() {
    let (mut world, fetch) = following(&[0, 3]);
    world.answered(&fetch, Ok(records(&[(4, 7)])), (1, 5, 5));
    let next = world.brokers[1].take_outgoing();
    let [Outgoing::Fetch { fetch, .. }] = &next[..] else { panic!("{next:?}") };
    let expected = FollowerFetch {
        leader_epoch: 7,
        last_fetched_epoch: 7,
        log_start_offset: 1,
        high_watermark: 5,
        sequence: fetch.sequence,
        ..fetch_of(2, 5)
    };
    assert_eq!(*fetch, expected, "replica.fetch.max.bytes and replica.fetch.wait.max.ms have their defaults");
}
