//! How fast a produced batch is checked: CRC alone, the header, the walk through the records, and all of it, in
//! GB/s of batch bytes. `cargo bench --bench batch`; a number after `--` sets the seconds for each line.

use std::hint::black_box;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use bytes::Bytes;
use huld::wire::batch::{BatchView, Codec};
use huld::wire::check::{TopicRules, check_context_free};
use huld::wire::compression::DECOMPRESSED_BYTES_MAX;
use huld::wire::records::{BatchBuilder, BatchHeader};
use huld::wire::walk::walk;

const NOW_MS: i64 = 1_700_000_000_000;

fn main() {
    let seconds = std::env::args().filter_map(|argument| argument.parse().ok()).next().unwrap_or(0.5);
    let span = Duration::from_secs_f64(seconds);
    for (records, value_bytes) in [(1, 100), (160, 100), (16, 1000), (8_000, 100)] {
        let bytes = batch(Codec::None, records, value_bytes);
        println!("\n{records} records of {value_bytes} bytes: {} bytes", bytes.len());
        report("crc", &bytes, span, |bytes| {
            black_box(crc32c::crc32c(&bytes[21..]));
        });
        report("header", &bytes, span, |bytes| {
            let view = BatchView::new(bytes).expect("a header");
            black_box((
                view.size(),
                view.count(),
                view.last_offset_delta(),
                view.codec(),
                view.producer_id(),
            ));
        });
        report("walk", &bytes, span, |bytes| {
            let mut largest = 0;
            walk(bytes, DECOMPRESSED_BYTES_MAX, |record| {
                largest = largest.max(record.timestamp_delta);
                ControlFlow::Continue(())
            })
            .expect("sound records");
            black_box(largest);
        });
        report("check and validate", &bytes, span, check);
    }
    println!();
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let bytes = batch(codec, 1000, 100);
        report(&format!("check and validate, {codec:?} ({} bytes)", bytes.len()), &bytes, span, check);
    }
}

fn check(bytes: &Bytes) {
    let checked = check_context_free(bytes.clone(), 13, DECOMPRESSED_BYTES_MAX).expect("a batch");
    black_box(checked.validate(&TopicRules::default(), NOW_MS, &"t-0")).expect("a sound batch");
}

fn batch(codec: Codec, records: i64, value_bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(BatchHeader { codec, ..BatchHeader::default() });
    for index in 0..records {
        let value: Vec<u8> = (0..value_bytes).map(|at| ((at * 31) ^ (index as usize * at)) as u8).collect();
        builder.push(NOW_MS + index / 10, Some(&index.to_be_bytes()), Some(&value), []);
    }
    builder.build().expect("compresses")
}

/// Prints the fastest of many short rounds: what else the machine does slows the others.
fn report(name: &str, bytes: &Bytes, span: Duration, work: impl Fn(&Bytes)) {
    const ROUND_NANOS: u128 = 200_000;
    let started = Instant::now();
    let (mut best, mut calls) = (f64::INFINITY, 1);
    while started.elapsed() < span {
        let round = Instant::now();
        for _ in 0..calls {
            work(black_box(bytes));
        }
        let nanos = round.elapsed().as_nanos();
        best = best.min(nanos as f64 / f64::from(calls));
        if nanos < ROUND_NANOS {
            calls *= 2;
        }
    }
    println!("{name:45} {best:12.0} ns {:8.2} GB/s", bytes.len() as f64 / best);
}
