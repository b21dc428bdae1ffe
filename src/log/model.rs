//! A log against a naive model of it: lists of batches, searched from the front.

use proptest::prelude::*;

use super::tests::records;
use super::*;

/// Small limits, so that a run meets them often.
const CONFIG: LogConfig = LogConfig {
    min_compaction_lag_ms: 0,
    min_cleanable_dirty_ppm: 500_000,
    delete_retention_ms: 0,
    segment_bytes: 20_000,
    segment_ms: 500,
    retention_ms: 2_000,
    retention_bytes: 60_000,
    delete: true,
    compact: false,
    max_compaction_lag_ms: i64::MAX,
    producer_id_expiration_ms: 1_000,
    max_producer_ids: 4,
};

#[derive(Clone, Debug)]
enum Step {
    Append { count: usize, size: usize, timestamp_ms: i64, bump_epoch: bool },
    Read { at: f64, upper: f64, max_bytes: usize, min_one_batch: bool },
    Search { timestamp_ms: i64 },
    DeleteRecords { at: f64 },
    Truncate { at: f64 },
    Retain { at: f64, after_ms: i64 },
    Replicate { max_bytes: usize },
    GoOnWithClone,
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![6 => 0..300_usize, 3 => 300..6_000_usize, 1 => 6_000..19_900_usize];
    let append = (1..5_usize, size, -1..3_000_i64, prop::bool::weighted(0.05));
    let read = (0.0..=1.0, 0.0..=1.2, prop_oneof![0..500_usize, 500..40_000_usize], any::<bool>());
    prop_oneof![
        20 => append.prop_map(|(count, size, timestamp_ms, bump_epoch)| {
            Step::Append { count, size, timestamp_ms, bump_epoch }
        }),
        10 => read.prop_map(|(at, upper, max_bytes, min_one_batch)| {
            Step::Read { at, upper, max_bytes, min_one_batch }
        }),
        3 => (-1..3_500_i64).prop_map(|timestamp_ms| Step::Search { timestamp_ms }),
        1 => (0.0..=1.0).prop_map(|at| Step::DeleteRecords { at }),
        1 => (0.0..=1.0).prop_map(|at| Step::Truncate { at }),
        1 => (0.5..=1.0, 0..500_i64).prop_map(|(at, after_ms)| Step::Retain { at, after_ms }),
        3 => (1..50_000_usize).prop_map(|max_bytes| Step::Replicate { max_bytes }),
        1 => Just(Step::GoOnWithClone),
    ]
}

struct ModelSegment {
    base_offset: i64,
    created: WallTime,
    modified: WallTime,
    batches: Vec<Vec<u8>>,
}

impl ModelSegment {
    fn views(&self) -> impl DoubleEndedIterator<Item = BatchView<'_>> {
        self.batches.iter().map(|batch| BatchView::new(batch).expect("a batch"))
    }

    fn size(&self) -> usize {
        self.batches.iter().map(Vec::len).sum()
    }

    fn largest_ms(&self) -> i64 {
        self.views().map(|view| view.max_timestamp()).max().unwrap_or(-1)
    }

    fn age_timestamp_ms(&self) -> i64 {
        if self.largest_ms() >= 0 { self.largest_ms() } else { self.modified.as_millis() }
    }

    /// Position and index of the first batch that ends at or above `offset`.
    fn locate(&self, offset: i64) -> Option<(usize, usize)> {
        let index = self.views().position(|view| view.last_offset() >= offset)?;
        Some((self.batches[..index].iter().map(Vec::len).sum(), index))
    }
}

#[derive(Default)]
struct Model {
    segments: Vec<ModelSegment>,
    start: i64,
    end: i64,
}

impl Model {
    fn append(&mut self, mut bytes: Vec<u8>, leader_epoch: i32, now: WallTime) {
        let stamp = Stamp { base_offset: self.end, leader_epoch, append_time_ms: None };
        let header = batch::stamped(&bytes, stamp).expect("a batch");
        bytes[..header.len()].copy_from_slice(&header);
        let view = BatchView::new(&bytes).expect("a batch");
        let rolls = self.segments.last().is_none_or(|last| {
            let first_ms = last.views().next().map_or(-1, |first| first.max_timestamp());
            let waited_ms = if first_ms >= 0 {
                view.max_timestamp() - first_ms
            } else {
                now.as_millis() - last.created.as_millis()
            };
            last.size() + bytes.len() > CONFIG.segment_bytes as usize || waited_ms > CONFIG.segment_ms
        });
        let next = view.last_offset() + 1;
        if rolls {
            self.segments.push(ModelSegment {
                base_offset: self.end,
                created: now,
                modified: now,
                batches: vec![],
            });
        }
        let last = self.segments.last_mut().expect("there is a segment");
        last.batches.push(bytes);
        last.modified = now;
        self.end = next;
    }

    fn size(&self) -> usize {
        self.segments.iter().map(ModelSegment::size).sum()
    }

    /// The first batch that ends at or above `offset`: its segment, position there and index there.
    fn find(&self, offset: i64) -> Option<(&ModelSegment, usize, usize)> {
        let first = self.segments.iter().rposition(|segment| segment.base_offset <= offset).unwrap_or(0);
        self.segments.iter().skip(first).find_map(|segment| {
            let (position, index) = segment.locate(offset)?;
            Some((segment, position, index))
        })
    }

    fn batch_start(&self, offset: i64) -> i64 {
        let batch = self.find(offset).and_then(|(segment, _, index)| segment.views().nth(index));
        batch.map_or(self.end, |view| view.base_offset())
    }

    fn read(&self, offset: i64, limits: &ReadLimits) -> Vec<u8> {
        let Some((segment, position, index)) = self.find(offset) else { return vec![] };
        let first = segment.batches[index].len();
        let most = if limits.min_one_batch { limits.max_bytes.max(first) } else { limits.max_bytes };
        if offset >= limits.upper_bound || most < first {
            return vec![];
        }
        let end = segment.locate(limits.upper_bound).map_or(segment.size(), |(end, _)| end);
        let bytes = segment.batches.concat();
        bytes[position..end.max(position).min(position.saturating_add(most))].to_vec()
    }

    fn position(&self, offset: i64) -> (i64, usize) {
        let end = || self.segments.last().map_or((self.end, 0), |last| (last.base_offset, last.size()));
        let found = self.find(offset).filter(|_| offset < self.end);
        found.map_or_else(end, |(segment, position, _)| (segment.base_offset, position))
    }

    fn search(&self, timestamp_ms: i64) -> Option<i64> {
        let segment = self.segments.iter().find(|segment| segment.age_timestamp_ms() >= timestamp_ms)?;
        let holds = |v: &BatchView<'_>| v.max_timestamp() >= timestamp_ms && v.last_offset() >= self.start;
        segment.views().find(holds).map(|view| view.base_offset())
    }

    fn largest(&self) -> Option<i64> {
        let views = || self.segments.iter().flat_map(ModelSegment::views);
        let largest_ms =
            views().map(|view| view.max_timestamp()).max().filter(|&largest_ms| largest_ms >= 0)?;
        views().find(|view| view.max_timestamp() == largest_ms).map(|view| view.base_offset())
    }

    fn delete_records(&mut self, offset: i64) {
        if offset <= self.start {
            return;
        }
        self.start = offset;
        while self.segments.get(1).is_some_and(|next| next.base_offset <= self.start) {
            self.segments.remove(0);
        }
    }

    fn truncate(&mut self, offset: i64) {
        if offset >= self.end {
            return;
        }
        if self.segments.first().is_none_or(|first| first.base_offset > offset) {
            self.start = offset;
        }
        self.segments.retain(|segment| segment.base_offset < offset);
        if offset <= self.start {
            self.segments.clear();
        }
        if let Some(last) = self.segments.last_mut() {
            let kept = last.views().take_while(|view| view.last_offset() < offset).count();
            last.batches.truncate(kept);
        }
        self.segments.retain(|segment| !segment.batches.is_empty());
        (self.start, self.end) = (self.start.min(offset), offset);
    }

    fn retain(&mut self, now: WallTime, high_watermark: i64) {
        while let Some(first) = self.segments.first() {
            let end = self.segments.get(1).map_or(self.end, |next| next.base_offset);
            let rest: usize = self.segments[1..].iter().map(ModelSegment::size).sum();
            let is_old = now.as_millis() - first.age_timestamp_ms() > CONFIG.retention_ms;
            if end > high_watermark || !(is_old || rest >= CONFIG.retention_bytes as usize) {
                return;
            }
            self.segments.remove(0);
            self.start = self.start.max(end);
        }
    }
}

struct World {
    log: Log,
    pool: ChunkPool,
    model: Model,
    follower: Log,
    follower_pool: ChunkPool,
    now: Now,
    leader_epoch: i32,
}

impl World {
    /// The offset at this part of the log.
    fn offset(&self, at: f64) -> i64 {
        self.model.start + ((self.model.end - self.model.start) as f64 * at).round() as i64
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Append { count, size, timestamp_ms, bump_epoch } => {
                self.leader_epoch += i32::from(bump_epoch);
                let bytes = records(&vec![timestamp_ms; count], size);
                let append = LeaderAppend {
                    now: self.now,
                    leader_epoch: self.leader_epoch,
                    append_time_ms: None,
                    origin: AppendOrigin::Client,
                };
                self.log.append(&mut self.pool, &bytes, &append).expect("appended");
                self.model.append(bytes, self.leader_epoch, self.now.wall);
            }
            Step::Read { at, upper, max_bytes, min_one_batch } => {
                let upper_bound = self.offset(upper);
                self.compare_read(self.offset(at), &ReadLimits { upper_bound, max_bytes, min_one_batch });
            }
            Step::Search { timestamp_ms } => {
                let found = self.log.search(timestamp_ms, |batch, _| Some(batch.view.base_offset()));
                assert_eq!(found, self.model.search(timestamp_ms));
            }
            Step::DeleteRecords { at } => {
                let offset = self.offset(at);
                self.log.advance_log_start(offset, &mut self.pool).expect("in range");
                self.model.delete_records(offset);
            }
            Step::Truncate { at } => {
                let offset = self.model.batch_start(self.offset(at));
                self.log.truncate_to(offset, &mut self.pool);
                self.follower.truncate_to(offset, &mut self.follower_pool);
                self.model.truncate(offset);
            }
            Step::Retain { at, after_ms } => {
                self.now.wall = WallTime(self.now.wall.as_millis() + after_ms);
                let high_watermark = self.offset(at);
                let due = self.log.next_retention(self.now, high_watermark) == Some(self.now.instant);
                let deleted = self.log.apply_retention(self.now.wall, high_watermark, &mut self.pool);
                assert_eq!(due, deleted.segments > 0);
                self.model.retain(self.now.wall, high_watermark);
            }
            Step::Replicate { max_bytes } => self.replicate(max_bytes),
            Step::GoOnWithClone => {
                (self.log, self.pool) = (self.log.clone(), self.pool.clone());
            }
        }
    }

    fn compare_read(&self, offset: i64, limits: &ReadLimits) {
        let read = self.log.read(offset, limits).expect("in range");
        assert_eq!(read.parts.concat(), self.model.read(offset, limits));
        assert_eq!(read.bytes, read.parts.iter().map(Bytes::len).sum::<usize>());
        assert_eq!(Ok(read.start), self.log.position(offset));
    }

    fn replicate(&mut self, max_bytes: usize) {
        if self.follower.log_end_offset() < self.log.log_start_offset() {
            let start = self.log.log_start_offset();
            self.follower.truncate_fully_and_start_at(start, &mut self.follower_pool);
        }
        let from = self.follower.log_end_offset();
        let limits = ReadLimits { upper_bound: i64::MAX, max_bytes, min_one_batch: true };
        let read = self.log.read_shared(from, &limits).expect("in range");
        self.follower.append_as_follower(&read, self.leader_epoch, self.now).expect("in order");
        assert!(self.follower.log_end_offset() > from || from == self.log.log_end_offset());
    }

    fn compare(&self) {
        assert_eq!(self.log.log_start_offset(), self.model.start);
        assert_eq!(self.log.log_end_offset(), self.model.end);
        assert_eq!(self.log.segment_count(), self.model.segments.len());
        assert_eq!(self.log.size_bytes() as usize, self.model.size());
        assert_eq!(self.pool.bytes_held(), self.log.bytes_held());
        assert_eq!(self.follower.bytes_held(), 0);
        for offset in [self.model.start, self.offset(0.7), self.model.end] {
            let position = self.log.position(offset).expect("in range");
            let expected = self.model.position(offset);
            assert_eq!((position.segment_base_offset, position.position as usize), expected);
        }
        let largest = self.log.look_up_largest_timestamp().finish(1 << 20).expect("sound batches");
        assert_eq!(largest.map(|found| found.offset), self.model.largest());
        let newest = self.log.epochs().latest();
        assert!(newest.is_none_or(|newest| newest.start_offset <= self.model.end));
    }

    fn compare_all(&mut self) {
        while self.follower.log_end_offset() < self.log.log_end_offset() {
            self.replicate(usize::MAX);
        }
        let unbounded = ReadLimits { upper_bound: i64::MAX, max_bytes: usize::MAX, min_one_batch: false };
        for offset in self.model.start..=self.model.end {
            self.compare_read(offset, &unbounded);
        }
        let from = self.model.start.max(self.follower.log_start_offset());
        let readable = |log: &Log| {
            let batches = log.batches().filter(|batch| batch.view.last_offset() >= from);
            batches.map(|batch| batch.bytes.to_vec()).collect::<Vec<_>>()
        };
        assert_eq!(readable(&self.log), readable(&self.follower));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_does_what_its_model_does(steps in prop::collection::vec(step(), 1..300)) {
        let mut world = World {
            log: Log::new(CONFIG),
            pool: ChunkPool::new(1 << 24),
            model: Model::default(),
            follower: Log::new(CONFIG),
            follower_pool: ChunkPool::new(0),
            now: Now { wall: WallTime(3_000), ..Now::default() },
            leader_epoch: 0,
        };
        for step in &steps {
            world.take(step);
            world.compare();
        }
        world.compare_all();
        world.log.delete(&mut world.pool);
        prop_assert_eq!(world.pool.bytes_held(), 0);
    }
}
