//! `huld sim`: simulated clusters, with faults drawn from seeds. Only in builds with the feature `sim`.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Args;

use super::Failure;
use crate::sim::{self, Counts};

#[derive(Debug, Args)]
pub(super) struct SimArgs {
    /// How many seeds to run
    #[arg(long, value_name = "N", default_value_t = 100)]
    seeds: u64,
    /// The first of them
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,
    /// How many to run at once [default: one for each processor]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Tell what is commanded and how partitions change; best with one seed
    #[arg(long)]
    trace: bool,
}

pub(super) fn run(args: &SimArgs) -> Result<ExitCode, Failure> {
    let threads = args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let began = Instant::now();
    let next = AtomicU64::new(0);
    let results: Mutex<(Counts, Vec<sim::Failure>)> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    if at >= args.seeds {
                        return;
                    }
                    let outcome = match args.trace {
                        true => sim::run_traced(args.from + at, &mut trace),
                        false => sim::run(args.from + at),
                    };
                    let mut results = results.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                    results.0 += outcome.counts;
                    results.1.extend(outcome.failure);
                    drop(results);
                    progress(at + 1, args.seeds);
                }
            });
        }
    });
    let (counts, mut failures) = results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    failures.sort_by_key(|failure| failure.seed);
    let out = &mut std::io::stdout();
    // If nobody listens any more, the exit code still tells.
    let _ = writeln!(
        out,
        "{} seeds from {} on, {} failed, in {:.1} s\n{counts}",
        args.seeds,
        args.from,
        failures.len(),
        began.elapsed().as_secs_f64()
    );
    for failure in &failures {
        let _ = writeln!(out, "{failure}");
    }
    if let Some(first) = failures.first() {
        let _ = writeln!(out, "again: huld sim --from {} --seeds 1 --trace", first.seed);
    }
    Ok(ExitCode::from(if failures.is_empty() { 0 } else { super::FAILED }))
}

fn trace(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Long work shows how far it is, to people.
fn progress(done: u64, all: u64) {
    let mut err = std::io::stderr();
    if err.is_terminal() && (done.is_multiple_of(10) || done == all) {
        let end = if done == all { "\n" } else { "" };
        let _ = write!(err, "\r{done} of {all} seeds{end}");
    }
}
