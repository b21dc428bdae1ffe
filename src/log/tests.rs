use super::*;
use crate::base::{ErrorCode, Instant};
use crate::wire::batch::{Codec, HEADER_LEN};
use crate::wire::records::{BatchBuilder, BatchHeader};

const MIB: usize = 1 << 20;

/// A batch as a producer sends it; only its header counts here.
#[derive(Clone, Copy)]
pub(super) struct Draft {
    pub count: i32,
    pub size: usize,
    pub timestamp_ms: i64,
    pub producer: (i64, i16, i32),
    pub attributes: i16,
}

impl Default for Draft {
    fn default() -> Self {
        Draft { count: 1, size: 100, timestamp_ms: 1_000, producer: (-1, -1, -1), attributes: 0 }
    }
}

impl Draft {
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0xAB; self.size.max(HEADER_LEN)];
        let length = bytes.len() as i32 - 12;
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &0_i64.to_be_bytes());
        put(8, &length.to_be_bytes());
        put(12, &(-1_i32).to_be_bytes());
        put(16, &[2]);
        put(21, &self.attributes.to_be_bytes());
        put(23, &(self.count - 1).to_be_bytes());
        put(27, &self.timestamp_ms.to_be_bytes());
        put(35, &self.timestamp_ms.to_be_bytes());
        put(43, &self.producer.0.to_be_bytes());
        put(51, &self.producer.1.to_be_bytes());
        put(53, &self.producer.2.to_be_bytes());
        put(57, &self.count.to_be_bytes());
        let crc = crc32c::crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
        bytes
    }
}

/// A batch of real records with these timestamps, the first with so large a value.
pub(super) fn records(timestamps_ms: &[i64], value_bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    for (index, timestamp_ms) in timestamps_ms.iter().enumerate() {
        let value = vec![7; if index == 0 { value_bytes } else { 0 }];
        builder.push(*timestamp_ms, None, Some(&value), []);
    }
    builder.build().expect("a batch").to_vec()
}

fn draft() -> Draft {
    Draft::default()
}

fn sized(size: usize) -> Draft {
    Draft { size, ..draft() }
}

fn timed(timestamp_ms: i64) -> Draft {
    Draft { timestamp_ms, ..draft() }
}

fn from_producer(id: i64, epoch: i16, sequence: i32, count: i32) -> Draft {
    Draft { producer: (id, epoch, sequence), count, ..draft() }
}

/// A log with its pool.
struct Bench {
    log: Log,
    pool: ChunkPool,
    now: Now,
    leader_epoch: i32,
}

fn bench(config: LogConfig) -> Bench {
    let now = Now { wall: WallTime(10_000), ..Now::default() };
    Bench { log: Log::new(config), pool: ChunkPool::new(1 << 30), now, leader_epoch: 0 }
}

fn with_segments(segment_bytes: u32) -> Bench {
    bench(LogConfig { segment_bytes, ..LogConfig::default() })
}

impl Bench {
    fn try_append(&mut self, draft: Draft) -> Result<Appended, AppendError> {
        self.append_bytes(&draft.bytes())
    }

    fn append_bytes(&mut self, batch: &[u8]) -> Result<Appended, AppendError> {
        let append = LeaderAppend {
            now: self.now,
            leader_epoch: self.leader_epoch,
            append_time_ms: None,
            origin: AppendOrigin::Client,
        };
        self.log.append(&mut self.pool, batch, &append)
    }

    /// Appends real records with these timestamps, the first with so large a value.
    fn put_records(&mut self, timestamps_ms: &[i64], value_bytes: usize) {
        self.append_bytes(&records(timestamps_ms, value_bytes)).expect("an append that fits");
    }

    fn append(&mut self, draft: Draft) -> Appended {
        self.try_append(draft).expect("an append that fits")
    }

    fn put(&mut self, draft: Draft) {
        self.append(draft);
    }

    fn read(
        &self,
        offset: i64,
        upper_bound: i64,
        max_bytes: usize,
        min_one_batch: bool,
    ) -> (Vec<i64>, usize) {
        let read =
            self.log.read(offset, &ReadLimits { upper_bound, max_bytes, min_one_batch }).expect("in range");
        let bytes = read.parts.concat();
        assert_eq!(bytes.len(), read.bytes);
        (walk(&bytes).map(|found| found.view.base_offset()).collect(), read.bytes)
    }

    fn read_all(&self, offset: i64) -> Vec<i64> {
        self.read(offset, i64::MAX, usize::MAX, false).0
    }

    fn offsets(&self) -> (i64, i64) {
        (self.log.log_start_offset(), self.log.log_end_offset())
    }
}

#[test]
fn a_fresh_log_is_small_and_allocates_nothing() {
    assert!(size_of::<Log>() <= 400, "{}", size_of::<Log>());
    let bench = bench(LogConfig::default());
    assert_eq!((bench.log.bytes_held(), bench.log.index_bytes(), bench.log.segment_count()), (0, 0, 0));
    assert_eq!(bench.offsets(), (0, 0));
}

#[test]
fn offsets_are_contiguous_and_batches_are_stamped() {
    let mut bench = bench(LogConfig::default());
    bench.leader_epoch = 7;
    let first = bench.append(Draft { count: 3, ..draft() });
    assert_eq!((first.base_offset, first.last_offset, first.log_append_time_ms), (0, 2, -1));
    assert_eq!(bench.append(draft()).base_offset, 3);
    assert_eq!(bench.log.log_end_offset(), 4);
    let read = bench.log.read(3, &ReadLimits { upper_bound: 4, max_bytes: 1000, min_one_batch: true });
    let bytes = read.expect("in range").parts.concat();
    let view = BatchView::new(&bytes).expect("a batch");
    assert_eq!((view.base_offset(), view.leader_epoch(), view.magic()), (3, 7, 2));
    assert_eq!(view.crc(), crc32c::crc32c(&bytes[21..]));
    assert_eq!(bytes[HEADER_LEN..], draft().bytes()[HEADER_LEN..]);
    assert_eq!(bench.log.epochs().latest(), Some(EpochStart { epoch: 7, start_offset: 0 }));
}

#[test]
fn log_append_time_replaces_the_timestamp_and_keeps_the_crc_right() {
    let mut bench = bench(LogConfig::default());
    let append = LeaderAppend {
        now: bench.now,
        leader_epoch: 0,
        append_time_ms: Some(10_000),
        origin: AppendOrigin::Client,
    };
    let appended = bench.log.append(&mut bench.pool, &timed(1).bytes(), &append).expect("appended");
    assert_eq!(appended.log_append_time_ms, 10_000);
    let batch = bench.log.batches().next().expect("a batch");
    assert!(batch.view.is_log_append_time());
    assert_eq!(batch.view.max_timestamp(), 10_000);
    assert_eq!(batch.view.crc(), crc32c::crc32c(&batch.bytes[21..]));
    let found = |timestamp| bench.log.search(timestamp, |batch, _| Some(batch.view.base_offset()));
    assert_eq!((found(10_000), found(10_001)), (Some(0), None));
}

#[test]
fn what_is_not_one_batch_is_refused() {
    let mut bench = bench(LogConfig::default());
    let append =
        LeaderAppend { now: bench.now, leader_epoch: 0, append_time_ms: None, origin: AppendOrigin::Client };
    let mut long = draft().bytes();
    long.push(0);
    let mut empty_range = draft().bytes();
    empty_range[23..27].copy_from_slice(&(-1_i32).to_be_bytes());
    for bytes in [&[][..], &draft().bytes()[..60], &draft().bytes()[..99], &long, &empty_range] {
        assert_eq!(bench.log.append(&mut bench.pool, bytes, &append), Err(AppendError::Malformed));
    }
    assert_eq!((bench.offsets(), bench.pool.bytes_held()), ((0, 0), 0));
}

#[test]
fn a_batch_larger_than_a_segment_is_refused() {
    let mut bench = with_segments(200);
    bench.append(sized(200));
    let error = bench.try_append(sized(201)).expect_err("too large");
    assert_eq!(error, AppendError::RecordListTooLarge { batch_bytes: 201, segment_bytes: 200 });
    assert_eq!(error.code(), ErrorCode::RecordListTooLarge);
}

#[test]
fn a_used_up_budget_refuses_until_something_is_deleted() {
    let mut bench = with_segments(MIB as u32);
    // And some for the index.
    bench.pool = ChunkPool::new(3 * MIB + (4 << 10));
    bench.append(sized(MIB));
    bench.append(sized(MIB));
    bench.append(sized(MIB));
    let error = bench.try_append(sized(8 << 10)).expect_err("over budget");
    assert_eq!(error.code(), ErrorCode::KafkaStorageError);
    assert_eq!((bench.offsets(), bench.log.segment_count()), ((0, 3), 3));
    bench.log.advance_log_start(1, &mut bench.pool).expect("in range");
    assert_eq!(bench.append(draft()).base_offset, 3);
    bench.log.delete(&mut bench.pool);
    assert_eq!(bench.pool.bytes_held(), 0);
}

#[test]
fn reads_stop_at_the_upper_bound_the_size_and_the_segment() {
    let mut bench = with_segments(1_000);
    (0..15).for_each(|_| bench.put(draft()));
    assert_eq!(bench.log.segment_count(), 2);
    assert_eq!(bench.read_all(0), (0..10).collect::<Vec<_>>(), "one segment a read");
    assert_eq!(bench.read_all(10), (10..15).collect::<Vec<_>>());
    assert_eq!(bench.read(2, 5, usize::MAX, false).0, [2, 3, 4]);
    assert_eq!(bench.read(5, 5, usize::MAX, true), (vec![], 0));
    assert_eq!(bench.read(6, 5, usize::MAX, true), (vec![], 0));
    assert_eq!(bench.read(2, 15, 250, false), (vec![2, 3], 250), "the last batch may be cut");
    assert_eq!(bench.read(2, 15, 99, false), (vec![], 0), "but not the first");
    assert_eq!(bench.read(2, 15, 99, true), (vec![2], 100));
    assert_eq!(bench.read(2, 15, 0, true), (vec![2], 100));
    assert_eq!(bench.read(15, 15, 100, true), (vec![], 0));
    for offset in [-1, 16] {
        let limits = ReadLimits { upper_bound: 15, max_bytes: 1, min_one_batch: true };
        let error = bench.log.read(offset, &limits).expect_err("out of range");
        assert_eq!(error, OffsetOutOfRange { offset, log_start_offset: 0, log_end_offset: 15 });
        assert_eq!(error.code(), ErrorCode::OffsetOutOfRange);
    }
}

#[test]
fn an_offset_inside_a_batch_reads_the_whole_batch() {
    let mut bench = bench(LogConfig::default());
    bench.append(Draft { count: 10, ..draft() });
    bench.append(Draft { count: 10, ..draft() });
    assert_eq!(bench.read_all(9), [0, 10]);
    assert_eq!(bench.read_all(19), [10]);
}

#[test]
fn positions_compare_segments_and_count_bytes() {
    let mut bench = with_segments(1_000);
    (0..10).for_each(|_| bench.put(draft()));
    let position = |bench: &Bench, offset| bench.log.position(offset).expect("in range");
    let full = position(&bench, 10);
    assert_eq!(full, OffsetPosition { offset: 10, segment_base_offset: 0, position: 1_000 });
    assert_eq!(position(&bench, 3).bytes_until(&full), Some(700));
    assert_eq!(full.bytes_until(&position(&bench, 3)), Some(0));
    bench.append(draft());
    let next = position(&bench, 10);
    assert_eq!(next, OffsetPosition { offset: 10, segment_base_offset: 10, position: 0 });
    assert!(full.is_on_older_segment_than(&next) && !next.is_on_older_segment_than(&next));
    assert_eq!(full.bytes_until(&next), None);
    assert_eq!(next.bytes_until(&position(&bench, 11)), Some(100));
    assert!(bench.log.position(12).is_err());
}

#[test]
fn tiny_batches_come_in_few_slices_and_large_ones_are_shared() {
    let mut bench = bench(LogConfig::default());
    (0..10_000).for_each(|_| bench.put(draft()));
    let limits = ReadLimits { upper_bound: i64::MAX, max_bytes: MIB, min_one_batch: true };
    assert!(bench.log.read(0, &limits).expect("in range").parts.len() <= 256);
    assert!(bench.log.index_bytes() < 10_000 * 100 / 20, "{}", bench.log.index_bytes());

    let mut bench = self::bench(LogConfig::default());
    (0..1_000).for_each(|_| {
        bench.append(draft());
        bench.log.seal();
    });
    assert_eq!(bench.log.read_shared(0, &limits).expect("in range").parts.len(), 1_000);
    assert_eq!(bench.log.read(0, &limits).expect("in range").parts.len(), 1);

    bench.append(sized(MIB));
    let read = |bench: &Bench| bench.log.read(1_000, &limits).expect("in range").parts;
    assert_eq!(read(&bench)[0].as_ptr(), read(&bench)[0].as_ptr());
}

#[test]
fn a_clone_shares_bytes_and_goes_its_own_way() {
    let mut bench = bench(LogConfig::default());
    bench.append(sized(8_000));
    bench.append(draft());
    let (log, pool) = (bench.log.clone(), bench.pool.clone());
    let mut other = Bench { log, pool, ..self::bench(LogConfig::default()) };
    let first = |bench: &Bench| bench.log.batches().next().expect("a batch").bytes.as_ptr();
    assert_eq!(first(&bench), first(&other));
    other.append(draft());
    bench.append(Draft { count: 5, ..draft() });
    assert_eq!((bench.read_all(0), bench.offsets()), (vec![0, 1, 2], (0, 7)));
    assert_eq!((other.read_all(0), other.offsets()), (vec![0, 1, 2], (0, 3)));
    other.log.delete(&mut other.pool);
    assert_eq!(other.pool.bytes_held(), 0);
    assert_eq!(bench.read_all(0), [0, 1, 2]);
}

#[test]
fn segments_roll_by_size_and_by_time() {
    let mut bench = bench(LogConfig { segment_bytes: 250, segment_ms: 1_000, ..LogConfig::default() });
    let mut count = |draft| {
        bench.append(draft);
        bench.log.segment_count()
    };
    assert_eq!([count(timed(5_000)), count(timed(5_000))], [1, 1]);
    assert_eq!(count(timed(5_000)), 2, "300 bytes don't fit");
    assert_eq!(
        [count(timed(6_000)), count(timed(6_001))],
        [2, 3],
        "counted from the first batch, 1,000 ms may pass"
    );
    assert_eq!(count(timed(7_002)), 4);
}

#[test]
fn without_timestamps_segments_roll_by_the_clock() {
    let mut bench = bench(LogConfig { segment_ms: 1_000, ..LogConfig::default() });
    bench.append(timed(-1));
    bench.now.wall = WallTime(11_000);
    bench.append(timed(-1));
    assert_eq!(bench.log.segment_count(), 1);
    bench.now.wall = WallTime(11_001);
    bench.append(timed(-1));
    assert_eq!(bench.log.segment_count(), 2);
}

#[test]
fn compaction_lag_bounds_a_segments_age_on_compacted_topics_only() {
    for (compact, segments) in [(true, 2), (false, 1)] {
        let config = LogConfig { compact, max_compaction_lag_ms: 10, ..LogConfig::default() };
        let mut bench = bench(config);
        bench.append(timed(100));
        bench.append(timed(111));
        assert_eq!(bench.log.segment_count(), segments);
    }
}

#[test]
fn a_segments_offsets_stay_within_32_bits_of_its_base() {
    let mut bench = bench(LogConfig::default());
    bench.append(draft());
    bench.append(Draft { count: i32::MAX, ..draft() });
    assert_eq!(bench.log.segment_count(), 1);
    bench.append(draft());
    assert_eq!(bench.log.segment_count(), 2);
}

#[test]
fn deleting_records_moves_the_start_and_gives_memory_back() {
    let mut bench = bench(LogConfig::default());
    (0..10).for_each(|_| bench.put(sized(MIB / 2)));
    let advance = |bench: &mut Bench, offset| bench.log.advance_log_start(offset, &mut bench.pool);
    assert_eq!(advance(&mut bench, 5), Ok(true));
    assert_eq!(bench.offsets(), (5, 10));
    assert!(bench.pool.bytes_held() <= 5 * MIB / 2 + MIB / 50);
    assert_eq!(advance(&mut bench, 2), Ok(false));
    assert_eq!(advance(&mut bench, 11).map_err(|error| error.offset), Err(11));
    assert_eq!(bench.read_all(5), [5, 6, 7, 8, 9]);
    assert!(bench.log.position(4).is_err());
    assert_eq!(advance(&mut bench, 10), Ok(true));
    assert_eq!((bench.offsets(), bench.pool.bytes_held()), ((10, 10), 0));
    assert_eq!(bench.log.epochs().latest(), Some(EpochStart { epoch: 0, start_offset: 10 }));
    assert_eq!(bench.append(draft()).base_offset, 10);
    assert_eq!(bench.read_all(10), [10]);
}

#[test]
fn truncation_cuts_batches_epochs_and_memory() {
    let mut bench = with_segments(1_000);
    for epoch in 0..25 {
        bench.leader_epoch = epoch;
        bench.append(timed(1_000 + i64::from(epoch)));
    }
    assert!(!bench.log.truncate_to(25, &mut bench.pool));
    assert!(bench.log.truncate_to(13, &mut bench.pool));
    assert_eq!((bench.offsets(), bench.log.segment_count()), ((0, 13), 2));
    assert_eq!(bench.log.epochs().latest().map(|entry| entry.epoch), Some(12));
    assert_eq!(bench.read_all(10), [10, 11, 12]);
    assert_eq!(bench.append(draft()).base_offset, 13);
    bench.log.truncate_to(10, &mut bench.pool);
    assert_eq!((bench.offsets(), bench.log.segment_count()), ((0, 10), 1));
    bench.log.truncate_to(0, &mut bench.pool);
    assert_eq!((bench.offsets(), bench.log.segment_count(), bench.pool.bytes_held()), ((0, 0), 0, 0));
    bench.append(draft());
    bench.log.truncate_fully_and_start_at(40, &mut bench.pool);
    assert_eq!((bench.offsets(), bench.pool.bytes_held()), ((40, 40), 0));
    assert!(bench.log.epochs().entries().is_empty());
    bench.append(draft());
    assert!(bench.log.truncate_to(30, &mut bench.pool), "below the first segment: starts anew there");
    assert_eq!(bench.offsets(), (30, 30));
}

#[test]
fn truncation_inside_a_batch_removes_it_whole() {
    let mut bench = bench(LogConfig::default());
    bench.append(Draft { count: 10, ..draft() });
    bench.append(Draft { count: 10, ..draft() });
    bench.log.truncate_to(15, &mut bench.pool);
    assert_eq!((bench.offsets(), bench.read_all(0)), ((0, 10), vec![0]));
    bench.log.advance_log_start(5, &mut bench.pool).expect("in range");
    bench.log.truncate_to(7, &mut bench.pool);
    assert_eq!((bench.offsets(), bench.pool.bytes_held()), ((0, 0), 0));
}

#[test]
fn a_follower_shares_the_leaders_bytes() {
    let mut leader = with_segments(10_000);
    (0..50).for_each(|i| leader.put(Draft { size: 100 + i * 10, ..from_producer(4, 0, i as i32, 1) }));
    let mut follower = with_segments(10_000);
    while follower.log.log_end_offset() < 50 {
        let limits = ReadLimits { upper_bound: i64::MAX, max_bytes: 3_000, min_one_batch: true };
        let read = leader.log.read_shared(follower.log.log_end_offset(), &limits).expect("in range");
        let taken = follower.log.append_as_follower(&read, 0, follower.now).expect("in order");
        assert!(taken.batches > 0 && taken.bytes <= read.bytes);
    }
    // The open block comes as a copy, until this closes it.
    leader.put(Draft { size: 5_000, ..from_producer(4, 0, 50, 1) });
    let limits = ReadLimits { upper_bound: i64::MAX, max_bytes: 3_000, min_one_batch: true };
    let read = leader.log.read_shared(50, &limits).expect("in range");
    follower.log.append_as_follower(&read, 0, follower.now).expect("in order");
    let pointers = |bench: &Bench| bench.log.batches().map(|b| b.bytes.as_ptr()).collect::<Vec<_>>();
    let copied = pointers(&leader).into_iter().zip(pointers(&follower)).filter(|(one, other)| one != other);
    assert!(copied.count() <= 3, "what was open as the leader's chunk was full");
    assert_eq!((follower.pool.bytes_held(), follower.log.bytes_held()), (0, 0));
    assert_eq!(follower.log.segment_count(), leader.log.segment_count());
    assert_eq!(follower.log.epochs(), leader.log.epochs());
    assert_eq!(follower.log.producers(), leader.log.producers());
    follower.log.truncate_to(49, &mut follower.pool);
    assert_eq!(follower.append(from_producer(4, 0, 49, 1)).base_offset, 49, "and may lead from here");
}

#[test]
fn batches_that_are_replicated_one_by_one_are_shared_and_cost_little_index() {
    const COUNT: i64 = 2_000;
    let mut leader = bench(LogConfig::default());
    let mut follower = bench(LogConfig::default());
    let mut late = bench(LogConfig::default());
    let limits = ReadLimits { upper_bound: i64::MAX, max_bytes: MIB, min_one_batch: true };
    let follow = |leader: &Bench, follower: &mut Bench| {
        let read = leader.log.read_shared(follower.log.log_end_offset(), &limits).expect("in range");
        follower.log.append_as_follower(&read, 0, follower.now).expect("in order");
        assert_eq!(follower.log.log_end_offset(), leader.log.log_end_offset());
    };
    for offset in 0..COUNT {
        leader.put(Draft { size: 270, ..draft() });
        follow(&leader, &mut follower);
        if offset % 100 == 0 {
            follow(&leader, &mut late);
        }
    }
    follow(&leader, &mut late);
    let bytes = COUNT as usize * 270;
    let pointers = |bench: &Bench| bench.log.batches().map(|b| b.bytes.as_ptr()).collect::<Vec<_>>();
    let shared = pointers(&leader).into_iter().zip(pointers(&follower)).filter(|(one, other)| one == other);
    // The block that is still open is not shared, nor is one that was open as the leader's chunk was full.
    assert!(shared.count() as i64 > COUNT * 9 / 10);
    let index = [&leader, &follower, &late].map(|bench| bench.log.index_bytes());
    assert!(index.iter().sum::<usize>() < bytes / 10, "{index:?}");
    assert_eq!(follower.pool.bytes_held(), 0);
}

#[test]
fn what_logs_take_beside_their_chunks_is_counted_and_given_back() {
    let config = LogConfig { segment_bytes: 64 << 10, ..LogConfig::default() };
    let mut leader = bench(config);
    let mut follower = bench(config);
    let limits = ReadLimits { upper_bound: i64::MAX, max_bytes: 64 << 10, min_one_batch: true };
    let counted = |bench: &mut Bench| {
        bench.log.count_memory(&mut bench.pool);
        let of_segments = bench.log.segments.iter().map(|one| one.index_bytes() + one.copied_bytes());
        let all = of_segments.sum::<usize>() + bench.log.segments.capacity() * size_of::<Segment>();
        assert_eq!(bench.pool.bytes_indexed(), all);
        all
    };
    let mut copied = 0;
    for _ in 0..3_000 {
        leader.put(sized(270));
        let end = follower.log.log_end_offset();
        let read = leader.log.read_shared(end, &limits).expect("in range");
        follower.log.append_as_follower(&read, 0, follower.now).expect("in order");
        counted(&mut leader);
        let of_follower = counted(&mut follower);
        copied = follower.log.segments.iter().map(Segment::copied_bytes).sum();
        assert!(of_follower >= copied);
    }
    assert!((1..100 << 10).contains(&copied), "{copied} bytes of some blocks that were not closed yet");
    let bytes = 3_000 * 270;
    assert!(counted(&mut leader) < bytes / 20 && counted(&mut follower) < bytes / 5);
    for bench in [&mut leader, &mut follower] {
        bench.log.advance_log_start(1_500, &mut bench.pool).expect("in range");
        assert!(counted(bench) > 0);
        bench.log.truncate_to(2_000, &mut bench.pool);
        counted(bench);
        bench.log.truncate_fully_and_start_at(0, &mut bench.pool);
        assert_eq!(bench.pool.bytes_indexed(), 0);
    }
}

#[test]
fn an_index_takes_from_the_budget() {
    let mut pool = ChunkPool::new(MIB);
    pool.count_indexed(0, MIB / 2);
    let mut log = Log::new(LogConfig::default());
    let append = LeaderAppend {
        now: Now::default(),
        leader_epoch: 0,
        append_time_ms: None,
        origin: AppendOrigin::Client,
    };
    let refused = (0..10_000).find_map(|_| log.append(&mut pool, &sized(1_000).bytes(), &append).err());
    let Some(AppendError::Budget(refused)) = refused else { panic!("{refused:?}") };
    assert!(refused.held_bytes >= MIB / 2 && pool.bytes_held() <= MIB / 2, "{refused:?}");
}

#[test]
fn a_follower_takes_leading_batches_of_known_epochs_in_order() {
    let mut leader = bench(LogConfig::default());
    for epoch in [1, 1, 2] {
        leader.leader_epoch = epoch;
        leader.append(draft());
    }
    let limits = ReadLimits { upper_bound: i64::MAX, max_bytes: MIB, min_one_batch: true };
    let slices = leader.log.read_shared(0, &limits).expect("in range");
    let mut follower = bench(LogConfig::default());
    let now = follower.now;
    let taken = follower.log.append_as_follower(&slices, 1, now);
    assert_eq!(taken, Ok(Replicated { batches: 2, bytes: 200 }));
    let again = follower.log.append_as_follower(&slices, 1, now);
    assert_eq!(again, Err(ReplicateError::UnexpectedOffset { log_end_offset: 2, found: 0 }));
    assert_eq!((follower.offsets(), follower.read_all(0)), ((0, 2), vec![0, 1]));
}

#[test]
fn retention_by_time_takes_old_segments_below_the_high_watermark() {
    let mut bench = bench(LogConfig { segment_bytes: 100, retention_ms: 1_000, ..LogConfig::default() });
    [5_000, 6_000, 4_000, 7_000].into_iter().for_each(|at| bench.put(timed(at)));
    let retain = |bench: &mut Bench, wall, high_watermark| {
        bench.now.wall = WallTime(wall);
        bench.log.apply_retention(bench.now.wall, high_watermark, &mut bench.pool)
    };
    assert_eq!(retain(&mut bench, 6_000, 4), Deleted::default(), "just as old as allowed");
    assert_eq!(bench.log.next_retention(bench.now, 4), Some(Instant::from_millis(1)));
    assert_eq!(bench.log.next_retention(bench.now, 0), None);
    assert_eq!(retain(&mut bench, 6_001, 0), Deleted::default(), "not yet replicated");
    assert_eq!(bench.log.next_retention(bench.now, 4), Some(Instant::ZERO));
    assert_eq!(retain(&mut bench, 6_001, 4), Deleted { segments: 1, bytes: 100 });
    assert_eq!(bench.offsets(), (1, 4));
    assert_eq!(bench.log.next_retention(bench.now, 4), Some(Instant::from_millis(1_000)));
    assert_eq!(retain(&mut bench, 7_001, 4).segments, 2, "a younger one in front keeps an older one");
    assert_eq!(retain(&mut bench, 8_001, 4).segments, 1, "the last segment goes too");
    assert_eq!((bench.offsets(), bench.pool.bytes_held()), ((4, 4), 0));
    assert_eq!(bench.log.next_retention(bench.now, 4), None);
    assert_eq!(bench.append(timed(8_000)).base_offset, 4);
}

#[test]
fn retention_by_bytes_keeps_at_least_so_many() {
    let mut bench = bench(LogConfig { segment_bytes: 100, retention_bytes: 250, ..LogConfig::default() });
    (0..3).for_each(|_| bench.put(timed(10_000)));
    assert_eq!(bench.log.next_retention(bench.now, 3).map(|at| at > Instant::ZERO), Some(true));
    assert_eq!(bench.log.apply_retention(bench.now.wall, 3, &mut bench.pool), Deleted::default());
    bench.append(timed(10_000));
    assert_eq!(bench.log.next_retention(bench.now, 4), Some(Instant::ZERO));
    assert_eq!(bench.log.apply_retention_bytes(4, &mut bench.pool).segments, 1);
    assert_eq!(bench.log.size_bytes(), 300);
    bench.now.wall = WallTime(i64::MAX);
    assert_eq!(bench.log.apply_retention_bytes(4, &mut bench.pool), Deleted::default(), "however old");
    bench.log.set_config(LogConfig { retention_bytes: 0, ..*bench.log.config() });
    assert_eq!(bench.log.apply_retention(bench.now.wall, 4, &mut bench.pool).segments, 3);
}

#[test]
fn without_delete_in_the_policy_nothing_expires() {
    let config = LogConfig { delete: false, retention_bytes: 0, retention_ms: 0, ..LogConfig::default() };
    let mut bench = bench(config);
    bench.append(timed(0));
    assert_eq!(bench.log.next_retention(bench.now, 1), None);
    assert_eq!(bench.log.apply_retention(bench.now.wall, 1, &mut bench.pool), Deleted::default());
    let config = LogConfig { delete: true, retention_bytes: -1, retention_ms: -1, ..config };
    bench.log.set_config(config);
    assert_eq!(bench.log.next_retention(bench.now, 1), None);
    assert_eq!(bench.log.apply_retention(bench.now.wall, 1, &mut bench.pool), Deleted::default());
}

#[test]
fn look_ups_by_time() {
    let mut bench = with_segments(1_000);
    let timestamps = [50, 40, 90, 90, 10, 60, 70, 20, 30, 80, 120, 100, -1, 120];
    timestamps.into_iter().for_each(|at| bench.put(timed(at)));
    let found = |bench: &Bench, at| bench.log.search(at, |batch, _| Some(batch.view.base_offset()));
    for (at, offset) in [(0, 0), (50, 0), (51, 2), (90, 2), (91, 10), (120, 10)] {
        assert_eq!(found(&bench, at), Some(offset), "{at}");
    }
    assert_eq!(found(&bench, 121), None);
    let passed_on = bench.log.search(60, |b, _| (b.view.base_offset() > 3).then(|| b.view.base_offset()));
    assert_eq!(passed_on, Some(5), "where nothing is found inside, the next batch that may hold it");
    bench.log.advance_log_start(3, &mut bench.pool).expect("in range");
    assert_eq!(found(&bench, 50), Some(3), "nothing below the log's start");
}

#[test]
fn look_ups_by_time_find_the_record_inside_a_batch() {
    let mut bench = bench(LogConfig::default());
    bench.leader_epoch = 3;
    for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut builder = BatchBuilder::new(BatchHeader { codec, ..BatchHeader::default() });
        let base = 100 * i64::from(codec as u8);
        [10, 50, 30, 50].iter().for_each(|at| builder.push(base + at, None, Some(b"value"), []));
        let bytes = builder.build().expect("a batch");
        bench.append_bytes(&bytes).expect("appended");
    }
    let found = |bench: &Bench, at| {
        let found = bench.log.look_up_timestamp(at).finish(MIB).expect("sound batches")?;
        assert_eq!(found.leader_epoch, 3);
        Some((found.offset, found.timestamp_ms))
    };
    assert_eq!(found(&bench, 0), Some((0, 10)));
    assert_eq!(found(&bench, 20), Some((1, 50)));
    assert_eq!(found(&bench, 51), Some((4, 110)));
    assert_eq!(found(&bench, 431), Some((17, 450)));
    assert_eq!(found(&bench, 451), None);
    let largest = bench.log.look_up_largest_timestamp().finish(MIB).expect("sound batches");
    assert_eq!(largest, Some(TimestampOffset { offset: 17, timestamp_ms: 450, leader_epoch: 3 }));
    bench.log.advance_log_start(2, &mut bench.pool).expect("in range");
    assert_eq!(found(&bench, 0), Some((2, 30)), "records below the log's start don't count");
    assert!(bench.log.look_up_timestamp(110).finish(4).is_err(), "no more is decompressed than allowed");
}

#[test]
fn the_largest_timestamp_is_found_even_where_its_memory_is_gone() {
    let mut bench = with_segments(6_000);
    let largest = |bench: &Bench| {
        let found = bench.log.look_up_largest_timestamp().finish(MIB).expect("sound batches");
        found.map(|found| (found.offset, found.timestamp_ms))
    };
    assert_eq!(largest(&bench), None);
    bench.put_records(&[-1, -1], 10);
    assert_eq!(largest(&bench), None, "no record has a timestamp");
    bench.put_records(&[0, 10, 70, 70], 5_000);
    bench.put_records(&[70], 100);
    assert_eq!(largest(&bench), Some((4, 70)), "the first of those");
    bench.log.advance_log_start(7, &mut bench.pool).expect("in range");
    assert_eq!((largest(&bench), bench.pool.bytes_held()), (Some((4, 70)), 0));
    bench.put_records(&[60], 10);
    assert_eq!(largest(&bench), Some((4, 70)));
    bench.put_records(&[71], 10);
    assert_eq!(largest(&bench), Some((8, 71)));
    bench.log.truncate_to(8, &mut bench.pool);
    assert_eq!(largest(&bench), Some((4, 70)));
    assert_eq!(bench.log.segment_count(), 1);
    bench.put_records(&[50], 5_000);
    assert_eq!((largest(&bench), bench.log.segment_count()), (Some((4, 70)), 2));
    bench.log.advance_log_start(8, &mut bench.pool).expect("in range");
    assert_eq!(largest(&bench), Some((8, 50)), "until the segment goes");
}

#[test]
fn duplicates_answer_with_the_first_append_and_gaps_change_nothing() {
    let mut bench = bench(LogConfig::default());
    let first = bench.append(from_producer(9, 0, 0, 5));
    bench.append(draft());
    let again = bench.append(from_producer(9, 0, 0, 5));
    assert_eq!(again, Appended { duplicate: true, log_append_time_ms: 1_000, ..first });
    let gap = bench.try_append(from_producer(9, 0, 6, 1)).expect_err("a gap");
    assert_eq!(gap.code(), ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(bench.offsets(), (0, 6));
    assert_eq!(bench.append(from_producer(9, 0, 5, 1)).base_offset, 6);
}

#[test]
fn a_refused_batch_does_not_use_up_its_sequence() {
    let mut bench = with_segments(1_000);
    bench.append(from_producer(9, 0, 0, 1));
    let too_large = Draft { size: 1_001, ..from_producer(9, 0, 1, 1) };
    assert!(bench.try_append(too_large).is_err());
    assert!(!bench.append(from_producer(9, 0, 1, 1)).duplicate);
}

#[test]
fn truncation_takes_producers_back() {
    let mut bench = with_segments(300);
    (0..8).for_each(|sequence| bench.put(from_producer(1, 0, sequence, 1)));
    bench.append(from_producer(2, 0, 0, 1));
    let before = bench.log.producers().producer(1).cloned();
    bench.append(from_producer(3, 0, 0, 1));
    bench.log.truncate_to(8, &mut bench.pool);
    assert_eq!(bench.log.producers().producer(1).cloned(), before);
    assert_eq!(bench.log.producers().len(), 1);
    bench.log.truncate_to(3, &mut bench.pool);
    assert_eq!(bench.log.producers().producer(1).map(ProducerState::last_sequence), Some(2));
    assert!(bench.append(from_producer(1, 0, 2, 1)).duplicate);
    assert!(!bench.append(from_producer(1, 0, 3, 1)).duplicate);
}

#[test]
fn idle_and_deleted_producers() {
    let mut bench = bench(LogConfig { producer_id_expiration_ms: 1_000, ..LogConfig::default() });
    (0..5).for_each(|sequence| bench.put(from_producer(9, 0, sequence, 1)));
    bench.log.advance_log_start(5, &mut bench.pool).expect("in range");
    assert!(bench.try_append(from_producer(9, 0, 6, 1)).is_err(), "deletion alone forgets nobody");
    assert_eq!(bench.log.expire_producers(WallTime(2_000)), 1);
    assert_eq!(bench.append(from_producer(9, 0, 6, 1)).base_offset, 5);
}

#[test]
fn ten_thousand_small_logs_stay_small() {
    let mut pool = ChunkPool::new(1 << 30);
    let append = LeaderAppend {
        now: Now::default(),
        leader_epoch: 0,
        append_time_ms: None,
        origin: AppendOrigin::Client,
    };
    let logs: Vec<Log> = (0..1_000)
        .map(|_| {
            let mut log = Log::new(LogConfig::default());
            log.append(&mut pool, &sized(200).bytes(), &append).expect("appended");
            log
        })
        .collect();
    let memory = pool.bytes_held() + logs.iter().map(Log::index_bytes).sum::<usize>();
    assert!(memory <= logs.len() * 5_000, "{memory}");
}

#[test]
fn memory_is_used_again_under_retention() {
    let mut bench = bench(LogConfig {
        segment_bytes: 4 * MIB as u32,
        retention_bytes: 8 * MIB as i64,
        ..LogConfig::default()
    });
    let mut most = 0;
    for round in 0..2_000 {
        bench.append(Draft { timestamp_ms: 10_000, ..sized(64 << 10) });
        bench.log.apply_retention(bench.now.wall, bench.log.log_end_offset(), &mut bench.pool);
        let memory = bench.pool.bytes_held() + bench.pool.bytes_idle() + bench.pool.bytes_lent();
        if round == 500 {
            most = memory;
        }
        assert!(round < 500 || memory <= most, "{memory} after {round}, {most} before");
    }
    assert!(most <= 13 * MIB, "{most}");
}
