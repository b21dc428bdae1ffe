//! A fuzzer that needs nothing but a stable compiler: mutates the seeds of each target for a while. It has no eye for
//! coverage; it is there so that every build runs the targets at all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use huld::base::entropy::Entropy;
use huld_fuzz::mutate::mutate;
use huld_fuzz::{TARGETS, Target};

const USAGE: &str = "smoke [--seconds N] [--count N] [--seed N] [--write-corpus] [--input FILE] [TARGET...]\n\
    --seconds  for each target; default 5\n\
    --count    inputs for each target, instead of a time";

/// An input that takes longer than this is a failure, however slow the machine.
const SLOWEST: Duration = Duration::from_secs(20);

struct Options {
    seconds: u64,
    count: Option<u64>,
    seed: u64,
    write_corpus: bool,
    input: Option<PathBuf>,
    targets: Vec<&'static Target>,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    for target in &options.targets {
        let outcome = match &options.input {
            Some(file) => {
                std::fs::read(file).map_err(|error| error.to_string()).map(|input| (target.run)(&input))
            }
            None if options.write_corpus => write_corpus(target),
            None => fuzz(target, &options),
        };
        if let Err(message) = outcome {
            eprintln!("{}: {message}", target.name);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn options() -> Result<Options, String> {
    let mut options =
        Options { seconds: 5, count: None, seed: 1, write_corpus: false, input: None, targets: Vec::new() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} needs a value"));
        let number = |text: String| text.parse().map_err(|_| format!("{text} is no number"));
        match argument.as_str() {
            "--seconds" => options.seconds = number(value()?)?,
            "--count" => options.count = Some(number(value()?)?),
            "--seed" => options.seed = number(value()?)?,
            "--input" => options.input = Some(value()?.into()),
            "--write-corpus" => options.write_corpus = true,
            name => options.targets.push(
                TARGETS
                    .iter()
                    .find(|target| target.name == name)
                    .ok_or(format!("there is no target {name}"))?,
            ),
        }
    }
    if options.targets.is_empty() {
        options.targets = TARGETS.iter().collect();
    }
    Ok(options)
}

fn fuzz(target: &Target, options: &Options) -> Result<(), String> {
    let seeds = (target.seeds)();
    let mut entropy = Entropy::new(options.seed).stream(target.name);
    let start = Instant::now();
    let mut count = 0;
    let is_over = |count: u64| match options.count {
        Some(most) => count >= most,
        None => start.elapsed() >= Duration::from_secs(options.seconds),
    };
    for seed in &seeds {
        run(target, seed)?;
    }
    let pick = |entropy: &mut Entropy| &seeds[entropy.below(seeds.len() as u64) as usize];
    while !is_over(count) {
        let mut input = pick(&mut entropy).clone();
        mutate(&mut input, pick(&mut entropy), &mut entropy);
        run(target, &input)?;
        count += 1;
    }
    println!("{}: {} seeds, {count} inputs, no failure", target.name, seeds.len());
    Ok(())
}

fn run(target: &Target, input: &[u8]) -> Result<(), String> {
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let complaint = match outcome {
        Err(_) => "panicked",
        Ok(()) if start.elapsed() > SLOWEST => "took too long",
        Ok(()) => return Ok(()),
    };
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("artifacts");
    let file = folder.join(format!("{}-{:08x}", target.name, crc32c::crc32c(input)));
    let kept = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&file, input));
    Err(match kept {
        Ok(()) => format!("{complaint}; the input is in {}", file.display()),
        Err(error) => format!("{complaint}; the input ({input:02x?}) could not be kept: {error}"),
    })
}

fn write_corpus(target: &Target) -> Result<(), String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target.name);
    let seeds = (target.seeds)();
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    for (at, seed) in seeds.iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{at:03}")), seed).map_err(|error| error.to_string())?;
    }
    println!("{}: {} seeds in {}", target.name, seeds.len(), folder.display());
    Ok(())
}
