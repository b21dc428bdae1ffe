//! What compaction keeps, and in how many steps.

use super::*;
use crate::log::{AppendOrigin, LeaderAppend, LogConfig, ReadLimits};
use crate::wire::marker::Marker;

/// A log of small segments, of which every batch fills one.
struct Bench {
    log: Log,
    pool: ChunkPool,
    now_ms: u64,
}

type Entry = (i64, String, Option<String>);

impl Bench {
    fn new() -> Self {
        Self::with(|_| {})
    }

    fn with(change: impl Fn(&mut LogConfig)) -> Self {
        let mut config = LogConfig {
            segment_bytes: 160,
            compact: true,
            delete: false,
            delete_retention_ms: 1_000,
            ..LogConfig::default()
        };
        change(&mut config);
        Bench { log: Log::new(config), pool: ChunkPool::new(1 << 20), now_ms: 1_000_000 }
    }

    fn now(&self) -> Now {
        Now::at_millis(self.now_ms)
    }

    fn append(&mut self, records: &[(&str, Option<&str>)]) {
        self.append_as(BatchHeader::default(), records);
    }

    fn append_as(&mut self, header: BatchHeader, records: &[(&str, Option<&str>)]) {
        let mut builder = BatchBuilder::new(header);
        for (key, value) in records {
            let value = value.map(str::as_bytes);
            let padding = [(&b"padding"[..], Some(&[b'x'; 60][..]))];
            builder.push(self.now().wall.as_millis(), Some(key.as_bytes()), value, padding);
        }
        let append = LeaderAppend {
            now: self.now(),
            leader_epoch: 3,
            append_time_ms: None,
            origin: AppendOrigin::Client,
        };
        self.log.append(&mut self.pool, &builder.build().unwrap(), &append).unwrap();
    }

    fn compact(&mut self) -> Compacted {
        self.step(usize::MAX).expect("that is enough to do all")
    }

    fn step(&mut self, mut work: usize) -> Option<Compacted> {
        let end = self.log.log_end_offset();
        self.log.compact(self.now().wall, end, &mut work, &mut self.pool).unwrap()
    }

    fn entries(&self) -> Vec<Entry> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let mut entries = Vec::new();
        for batch in self.log.batches() {
            assert_eq!(batch.view.crc(), crc32c::crc32c(&batch.bytes[21..]));
            let body = body_of(&batch.view, batch.bytes).unwrap();
            for record in RecordIter::new(&body, batch.view.count()) {
                let record = record.unwrap();
                let offset = batch.view.base_offset() + i64::from(record.offset_delta);
                entries.push((offset, text(record.key.unwrap()), record.value.map(text)));
            }
        }
        entries
    }

    fn offsets(&self) -> Vec<i64> {
        self.entries().into_iter().map(|(offset, ..)| offset).collect()
    }
}

#[test]
fn the_last_record_of_each_key_stays_at_its_offset() {
    let mut bench = Bench::new();
    for (key, value) in [("a", "1"), ("b", "1"), ("a", "2"), ("c", "1"), ("a", "3"), ("b", "2")] {
        bench.append(&[(key, Some(value))]);
    }
    let compacted = bench.compact();
    assert!(compacted.bytes_after < compacted.bytes_before, "{compacted:?}");
    // The last segment is not looked at, so that the first b stays.
    assert_eq!(bench.offsets(), [1, 3, 4, 5]);
    assert_eq!((bench.log.log_start_offset(), bench.log.log_end_offset()), (0, 6));
    assert_eq!(bench.log.size_bytes(), bench.log.batches().map(|b| b.bytes.len() as u64).sum::<u64>());
    assert_eq!(bench.compact(), Compacted::default(), "nothing is left to do");
}

#[test]
fn superseded_records_hold_no_memory() {
    let mut bench = Bench::new();
    // Four times the budget.
    for round in 0..100 {
        for key in ["a", "b", "c"] {
            (0..100).for_each(|_| bench.append(&[(key, Some("1"))]));
        }
        bench.compact();
        assert!(bench.entries().len() <= 4, "round {round}");
    }
    bench.log.truncate_fully_and_start_at(0, &mut bench.pool);
    assert_eq!(bench.pool.bytes_held(), 0, "each byte is counted once");
}

#[test]
fn reads_skip_the_gaps() {
    let mut bench = Bench::new();
    (0..20).for_each(|_| bench.append(&[("a", Some("1"))]));
    bench.append(&[("b", Some("1"))]);
    bench.compact();
    assert_eq!(bench.offsets(), [19, 20]);
    let limits = ReadLimits { upper_bound: 21, max_bytes: 1 << 20, min_one_batch: true };
    for offset in 0..20 {
        let read = bench.log.read(offset, &limits).unwrap();
        assert_eq!(BatchView::new(&read.parts[0]).unwrap().last_offset(), 19, "from {offset}");
    }
    bench.append(&[("a", Some("2"))]);
    bench.append(&[("c", Some("2"))]);
    bench.now_ms += 1;
    assert!(bench.log.advance_log_start(20, &mut bench.pool).unwrap());
    assert_eq!(bench.log.read(20, &limits).unwrap().start.offset, 20);
}

#[test]
fn a_tombstone_stays_until_its_horizon() {
    let mut bench = Bench::with(|config| {
        config.min_cleanable_dirty_ppm = 0;
        config.segment_bytes = 220;
    });
    bench.append(&[("a", Some("1"))]);
    bench.append(&[("a", None), ("b", Some("1"))]);
    bench.append(&[("z", Some("1"))]);
    bench.compact();
    assert_eq!(bench.offsets(), [1, 2, 3]);
    let horizon = bench.log.batches().next().unwrap().view.delete_horizon_ms();
    assert_eq!(horizon, Some(bench.now().wall.as_millis() + 1_000));
    let written_ms = bench.now().wall.as_millis();
    let largest = bench.log.batches().next().unwrap().view.max_timestamp();
    assert_eq!(largest, written_ms, "timestamps stay what they were");

    bench.now_ms += 999;
    bench.append(&[("z", Some("2"))]);
    bench.compact();
    assert_eq!(bench.offsets(), [1, 2, 3, 4]);
    bench.now_ms += 1;
    bench.append(&[("y", Some("2"))]);
    bench.compact();
    assert_eq!(bench.offsets(), [2, 4, 5]);
    assert_eq!(bench.log.batches().next().unwrap().view.max_timestamp(), written_ms);
}

#[test]
fn compressed_batches_are_written_again_with_their_codec() {
    let mut bench = Bench::with(|config| config.segment_bytes = 260);
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let header = BatchHeader { codec, ..BatchHeader::default() };
        let own = format!("{codec:?}");
        bench.append_as(header, &[("shared", Some("1")), (&own, Some("1"))]);
    }
    bench.append(&[("z", Some("1")), ("y", Some("1"))]);
    bench.append(&[("z", Some("1")), ("y", Some("1"))]);
    bench.now_ms += 1;
    bench.compact();
    let codecs: Vec<_> = bench.log.batches().map(|batch| batch.view.codec().unwrap()).collect();
    assert_eq!(codecs[..4], [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd]);
    assert_eq!(bench.offsets()[..5], [1, 3, 5, 6, 7]);
    let first = bench.log.batches().next().unwrap().view;
    assert_eq!((first.base_offset(), first.last_offset(), first.leader_epoch()), (0, 1, 3));
}

#[test]
fn aborted_records_supersede_nothing_and_go_and_markers_go_after_them() {
    let mut bench = Bench::new();
    let header = |producer_epoch| BatchHeader {
        is_transactional: true,
        producer_id: 9,
        producer_epoch,
        base_sequence: 0,
        ..BatchHeader::default()
    };
    let end = |bench: &mut Bench, epoch: i16, commit: bool| {
        let marker = Marker { commit, coordinator_epoch: 0 };
        let batch = marker.batch(9, epoch, bench.now().wall.as_millis()).unwrap();
        let origin = AppendOrigin::Coordinator;
        let append = LeaderAppend { now: bench.now(), leader_epoch: 3, append_time_ms: None, origin };
        bench.log.append(&mut bench.pool, &batch, &append).unwrap();
    };
    bench.append_as(header(0), &[("a", Some("committed"))]);
    end(&mut bench, 0, true);
    bench.append_as(header(1), &[("a", Some("aborted"))]);
    end(&mut bench, 1, false);
    bench.append_as(header(2), &[("b", Some("1"))]);
    end(&mut bench, 2, true);
    bench.append(&[("c", Some("1"))]);
    bench.compact();
    let markers = |bench: &Bench| -> Vec<i64> {
        let markers = bench.log.batches().filter(|batch| batch.view.is_control());
        markers.map(|batch| batch.view.base_offset()).collect()
    };
    let records = |bench: &Bench| -> Vec<i64> {
        let data = bench.log.batches().filter(|batch| !batch.view.is_control() && batch.view.count() > 0);
        data.map(|batch| batch.view.base_offset()).collect()
    };
    assert_eq!((records(&bench), markers(&bench)), (vec![0, 4, 6], vec![1, 3, 5]));
    assert_eq!(bench.log.ended.aborted(0, 100).len(), 1);
    bench.now_ms += 1_000;
    for value in ["2", "3", "4", "5"] {
        bench.append(&[("c", Some(value))]);
    }
    bench.compact();
    assert_eq!(markers(&bench), [5], "the producer goes on in that epoch");
    assert!(bench.log.ended.aborted(0, 100).is_empty(), "nobody is told to skip what is gone");
}

#[test]
fn a_batch_that_holds_a_sequence_stays_without_records() {
    let mut bench = Bench::new();
    let header = |base_sequence| BatchHeader {
        producer_id: 9,
        producer_epoch: 0,
        base_sequence,
        ..BatchHeader::default()
    };
    bench.append_as(header(0), &[("a", Some("1"))]);
    bench.append_as(header(1), &[("a", Some("2"))]);
    bench.append(&[("a", Some("3"))]);
    bench.append(&[("b", Some("1"))]);
    bench.compact();
    assert_eq!(bench.offsets(), [2, 3]);
    let empty = bench.log.batches().next().unwrap().view;
    assert_eq!((empty.count(), empty.base_offset(), empty.last_offset()), (0, 1, 1));
    assert_eq!((empty.producer_id(), empty.base_sequence()), (9, 1));
    // Once it has written something newer, it is not needed any more.
    bench.append_as(header(2), &[("c", Some("1"))]);
    bench.append(&[("c", Some("1"))]);
    bench.append(&[("c", Some("2"))]);
    bench.append(&[("c", Some("3"))]);
    bench.compact();
    let counts: Vec<_> =
        bench.log.batches().map(|batch| (batch.view.base_offset(), batch.view.count())).collect();
    assert_eq!(counts, [(2, 1), (3, 1), (4, 0), (6, 1), (7, 1)]);
}

/// Keys that come again and again, in segments of a few batches.
fn busy() -> Bench {
    let mut bench = Bench::with(|config| config.segment_bytes = 1_000);
    for i in 0..200 {
        let (key, other) = (format!("{}", i * 7 % 31), format!("{}", i * i % 50));
        bench.append(&[(&key, Some("1")), (&other, (i % 9 > 0).then_some("2"))]);
    }
    bench
}

/// What can be read from the log's start on.
fn readable(bench: &Bench) -> Vec<Entry> {
    let start = bench.log.log_start_offset();
    bench.entries().into_iter().filter(|(offset, ..)| *offset >= start).collect()
}

#[test]
fn steps_do_what_one_go_does_whatever_happens_between_them() {
    type Meanwhile = fn(&mut Bench, usize);
    let happenings: [(&str, Meanwhile); 3] = [
        ("nothing", |_, _| {}),
        ("appends", |bench, step| bench.append(&[(&format!("{}", step % 31), Some("new"))])),
        ("DeleteRecords", |bench, step| {
            let to = (step as i64 * 3).min(250);
            bench.log.advance_log_start(to, &mut bench.pool).unwrap();
        }),
    ];
    for (name, meanwhile) in happenings {
        let (mut once, mut stepped) = (busy(), busy());
        let all_offsets = once.offsets().len();
        once.compact();
        let mut steps = 0;
        loop {
            let step = stepped.step(150);
            steps += 1;
            assert_eq!(stepped.pool.bytes_held(), stepped.log.bytes_held());
            if step.is_some() {
                break;
            }
            assert_eq!(stepped.log.next_compaction(stepped.now(), i64::MAX), Some(stepped.now().instant));
            if steps % 20 == 0 {
                // A clone goes on by itself, and leaves the original alone.
                let (log, pool) = (stepped.log.clone(), stepped.pool.clone());
                let mut clone = Bench { log, pool, ..stepped };
                clone.compact();
                assert!(stepped.log.compaction.is_some() && clone.log.compaction.is_none());
            }
            meanwhile(&mut stepped, steps);
            meanwhile(&mut once, steps);
        }
        assert!(steps > 100, "{name}: {steps}");
        assert!(once.offsets().len() < all_offsets + steps / 2, "{name}: something was to be done");
        assert_eq!(readable(&stepped), readable(&once), "{name}");
        assert_eq!(stepped.log.segment_count(), once.log.segment_count(), "{name}");
        stepped.log.delete(&mut stepped.pool);
        assert_eq!(stepped.pool.bytes_held(), 0, "{name}");
    }
}

#[test]
fn cutting_a_log_off_ends_its_compaction_and_the_next_one_is_right() {
    for steps in (1..300).step_by(7) {
        let (mut whole, mut cut) = (busy(), busy());
        let finished = (0..steps).any(|_| cut.step(150).is_some());
        cut.log.truncate_to(301, &mut cut.pool);
        whole.log.truncate_to(301, &mut whole.pool);
        assert_eq!(cut.pool.bytes_held(), cut.log.bytes_held());
        for bench in [&mut cut, &mut whole] {
            (0..200).for_each(|i| bench.append(&[(&format!("{}", i % 50), Some("3"))]));
            bench.compact();
        }
        // What was superseded by a record that was cut off is gone for good, as in Kafka.
        let lost = |entry: &Entry| entry.0 < 301 && !cut.entries().contains(entry);
        let left: Vec<_> = whole.entries().into_iter().filter(|entry| !lost(entry)).collect();
        assert_eq!(cut.entries(), left, "{steps}");
        assert!(finished || cut.log.compaction.is_none());
    }
}

#[test]
fn a_step_reads_no_more_than_its_work_and_one_batch() {
    let mut bench = busy();
    let batch = bench.log.batches().next().unwrap().bytes.len();
    let (mut total, end) = (0, bench.log.log_end_offset());
    loop {
        let (mut work, now) = (1_000, bench.now().wall);
        let done = bench.log.compact(now, end, &mut work, &mut bench.pool).unwrap().is_some();
        total += 1_000 - work;
        if done {
            break;
        }
        assert_eq!(work, 0, "a step that isn't the last uses all its work");
    }
    let bytes = 200 * batch;
    assert!((bytes * 3 / 2..bytes * 3).contains(&total), "{total} of {bytes}: read once, written once");
}

#[test]
fn what_is_dirty_enough_or_overdue_is_compacted() {
    let mut bench = Bench::new();
    assert_eq!(bench.log.next_compaction(bench.now(), 0), None);
    for key in ["a", "b", "c", "d", "e"] {
        bench.append(&[(key, Some("1"))]);
    }
    let now = bench.now();
    assert_eq!(bench.log.next_compaction(now, 5), Some(now.instant));
    assert_eq!(bench.log.next_compaction(now, 0), None, "not above the last stable offset");
    bench.compact();
    bench.append(&[("a", Some("2"))]);
    assert_eq!(bench.log.next_compaction(now, 6), None, "a fifth is not half");

    let config = LogConfig { max_compaction_lag_ms: 500, ..*bench.log.config() };
    bench.log.set_config(config);
    assert_eq!(bench.log.next_compaction(now, 6), Some(now.instant + Duration::from_millis(501)));
    bench.now_ms += 501;
    assert_eq!(bench.log.next_compaction(bench.now(), 6), Some(bench.now().instant));
    bench.compact();
    assert_eq!(bench.offsets(), [0, 1, 2, 3, 4, 5], "the newer record is in the last segment");
    assert_eq!(bench.log.next_compaction(bench.now(), 6), None);
}

#[test]
fn young_records_are_left_alone() {
    let mut bench = Bench::with(|config| config.min_compaction_lag_ms = 100);
    (0..3).for_each(|_| bench.append(&[("a", Some("1"))]));
    let due = bench.now().instant + Duration::from_millis(100);
    assert_eq!(bench.log.next_compaction(bench.now(), 3), Some(due));
    bench.compact();
    assert_eq!(bench.offsets(), [0, 1, 2]);
    bench.now_ms += 100;
    bench.compact();
    assert_eq!(bench.offsets(), [1, 2]);
}

#[test]
fn a_batch_that_cant_be_read_changes_nothing() {
    let mut bench = Bench::new();
    (0..3).for_each(|_| bench.append(&[("a", Some("1"))]));
    let mut broken = BatchBuilder::new(BatchHeader::default()).ends_at(0).build().unwrap().to_vec();
    broken[60] = 7;
    let append = LeaderAppend {
        now: bench.now(),
        leader_epoch: 3,
        append_time_ms: None,
        origin: AppendOrigin::Client,
    };
    bench.log.append(&mut bench.pool, &broken, &append).unwrap();
    (0..3).for_each(|_| bench.append(&[("a", Some("1"))]));
    let (size, now) = (bench.log.size_bytes(), bench.now().wall);
    assert!(bench.log.compact(now, 7, &mut usize::MAX.clone(), &mut bench.pool).is_err());
    assert_eq!(bench.log.size_bytes(), size);
}
