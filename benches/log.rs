//! What a log costs: appends of three sizes into fresh and into used memory, a read of 1 MiB, a look-up of a position.
//!
//! `cargo bench --bench log`. Each figure is the best of five rounds, on one core.

use std::hint::black_box;
use std::time::{Duration, Instant};

use huld::base::Now;
use huld::log::{AppendOrigin, ChunkPool, LeaderAppend, Log, LogConfig, ReadLimits};
use huld::wire::records::{BatchBuilder, BatchHeader};

const MIB: usize = 1 << 20;
const ROUNDS: usize = 5;

fn main() {
    for size in [200, 16 << 10, MIB] {
        append(size);
    }
    read();
    position();
}

fn batch(size: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    builder.push(1_000, None, Some(&vec![7; size - 75]), []);
    builder.build().expect("a batch").to_vec()
}

/// Takes about 32 MiB in, deleted again and again, so that all rounds but the first find memory used before.
fn append(size: usize) {
    let batch = batch(size);
    let config =
        LogConfig { segment_bytes: 8 * MIB as u32, retention_bytes: 16 * MIB as i64, ..LogConfig::default() };
    let (mut log, mut pool) = (Log::new(config), ChunkPool::new(1 << 30));
    let count = (256 * MIB / size).min(1_000_000);
    let mut fresh = (Log::new(LogConfig::default()), ChunkPool::new(1 << 30));
    let first = time(|| (0..count).for_each(|_| put(&mut fresh.0, &mut fresh.1, &batch)));
    report(&format!("append {size} B, memory not used before"), first, count, batch.len());
    let held = fresh.1.bytes_held() + fresh.0.index_bytes();
    println!("{:>60} {:.4} bytes a byte", "held", held as f64 / (count * batch.len()) as f64);
    drop(fresh);
    let best = (0..ROUNDS).map(|_| {
        time(|| {
            for _ in 0..count {
                put(&mut log, &mut pool, &batch);
                if log.segment_count() > 3 {
                    let end = log.log_end_offset();
                    log.apply_retention(Now::at_millis(0).wall, end, &mut pool);
                }
            }
        })
    });
    report(
        &format!("append {size} B, memory used before"),
        best.min().unwrap_or_default(),
        count,
        batch.len(),
    );
}

fn read() {
    for size in [200, 16 << 10, MIB] {
        let (mut log, mut pool) = (Log::new(LogConfig::default()), ChunkPool::new(1 << 30));
        let batch = batch(size);
        (0..64 * MIB / size).for_each(|_| put(&mut log, &mut pool, &batch));
        let offsets: Vec<i64> = (0..48).map(|i| log.log_end_offset() * i / 64).collect();
        let limits = ReadLimits { upper_bound: log.log_end_offset(), max_bytes: MIB, min_one_batch: true };
        let best = (0..ROUNDS).map(|_| {
            time(|| {
                for offset in offsets.iter().cycle().take(10_000) {
                    black_box(log.read(*offset, &limits).expect("in range"));
                }
            })
        });
        report(&format!("read 1 MiB of {size} B batches"), best.min().unwrap_or_default(), 10_000, MIB);
    }
}

fn position() {
    let (mut log, mut pool) = (Log::new(LogConfig::default()), ChunkPool::new(1 << 30));
    let batch = batch(200);
    (0..500_000).for_each(|_| put(&mut log, &mut pool, &batch));
    let best = (0..ROUNDS).map(|_| {
        time(|| {
            for offset in (0..500_000).step_by(7) {
                black_box(log.position(offset).expect("in range"));
            }
        })
    });
    report("position in 100 MB of 200 B batches", best.min().unwrap_or_default(), 500_000 / 7, 1);
}

fn put(log: &mut Log, pool: &mut ChunkPool, batch: &[u8]) {
    let append = LeaderAppend {
        now: Now::at_millis(0),
        leader_epoch: 0,
        append_time_ms: None,
        origin: AppendOrigin::Client,
    };
    log.append(pool, batch, &append).expect("within budget");
}

fn time(work: impl FnOnce()) -> Duration {
    let begin = Instant::now();
    work();
    begin.elapsed()
}

fn report(name: &str, took: Duration, count: usize, bytes: usize) {
    let each_ns = took.as_nanos() as f64 / count as f64;
    println!("{name:>60} {each_ns:>10.0} ns {:>10.2} GB/s", bytes as f64 / each_ns);
}
