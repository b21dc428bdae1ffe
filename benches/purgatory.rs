//! What the purgatory costs: parking, completing, expiring, memory, and a stream of requests at a set rate. One JSON
//! object a line.
//!
//! `cargo bench --bench purgatory -- [park] [cycle] [poll] [expire] [stream]` runs some of it; nothing named, all of
//! it. One thread; times are of the wall clock, `cpu_ns` of the thread. Kafka's own purgatory can be driven through
//! its published class with the same numbers of keys, waits and timeouts; `benches/beside COMMAND` puts both side by side.

use std::hint::black_box;
use std::time::{Duration, Instant as Clock};

use huld::base::entropy::Entropy;
use huld::base::{ConnectionId, Instant, PartitionKey, TopicId};
use huld::purgatory::{Description, Exit, Purgatory, Wait, WaitId, WaitKind, Waiter, Waiting};

const KEYS: usize = 10_000;
const TRIALS: usize = 7;
/// The first trials are not counted.
const WARM_UP_TRIALS: usize = 2;
const HOUR_MS: i32 = 3_600_000;

#[derive(Clone, Copy)]
struct OneKind;

impl WaitKind for OneKind {
    const ALL: &'static [OneKind] = &[OneKind];

    fn index(self) -> usize {
        0
    }

    fn delayed_operation(self) -> &'static str {
        "bench"
    }
}

/// Waits until the context reaches an offset; carries `SIZE` bytes more, as a request would.
#[derive(Clone)]
struct OffsetWait<const SIZE: usize> {
    offset: u64,
    carried: [u8; SIZE],
}

impl<const SIZE: usize> OffsetWait<SIZE> {
    fn new(offset: u64) -> Self {
        OffsetWait { offset, carried: [0; SIZE] }
    }
}

impl<const SIZE: usize> Waiting for OffsetWait<SIZE> {
    type Kind = OneKind;

    fn kind(&self) -> OneKind {
        OneKind
    }
}

impl<const SIZE: usize> Wait<u64> for OffsetWait<SIZE> {
    type Reply = u64;

    fn try_complete(&mut self, reached: &mut u64) -> Option<u64> {
        (self.offset <= *reached).then_some(self.offset)
    }

    fn expire(self, reached: &mut u64) -> u64 {
        black_box(self.carried);
        *reached
    }

    fn describe(&self, reached: &u64) -> Description {
        Description { waits_for: format!("offset {}", self.offset), progress: format!("offset {reached}") }
    }
}

type BenchPurgatory<const SIZE: usize> = Purgatory<PartitionKey, OffsetWait<SIZE>, ConnectionId>;

fn keys(count: usize) -> Vec<PartitionKey> {
    let mut entropy = Entropy::new(1).stream("topics");
    let topics: Vec<TopicId> = (0..count.div_ceil(10)).map(|_| TopicId(entropy.next_u128())).collect();
    (0..count).map(|i| PartitionKey { topic: topics[i / 10], index: (i % 10) as i32 }).collect()
}

fn waiter(since: Instant, timeout_ms: i32) -> Waiter<ConnectionId> {
    Waiter { owner: ConnectionId(1), since, deadline: since.after_timeout_ms(timeout_ms) }
}

/// The figures of the counted trials of one measure.
#[derive(Default)]
struct Figures(Vec<f64>);

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let (median, min, max) = (sorted[sorted.len() / 2], sorted[0], sorted[sorted.len() - 1]);
        write!(f, "{{\"median\": {median:.1}, \"min\": {min:.1}, \"max\": {max:.1}}}")
    }
}

fn nanos_each(start: Clock, count: usize) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

fn discard(reply: u64) {
    black_box(reply);
}

/// The processor time of this thread, in nanoseconds.
fn cpu_nanos() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedstat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0)
}

/// Time spent in several pieces of work.
#[derive(Default)]
struct Spent {
    wall_ns: f64,
    cpu_ns: f64,
}

impl Spent {
    /// To ask for the processor time costs microseconds, so that it is only for long work.
    fn add(&mut self, long: bool, work: impl FnOnce()) {
        let (cpu, start) = (if long { cpu_nanos() } else { 0 }, Clock::now());
        work();
        self.wall_ns += start.elapsed().as_nanos() as f64;
        self.cpu_ns += if long { (cpu_nanos() - cpu) as f64 } else { 0.0 };
    }
}

fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<f64>().ok()).unwrap_or(0.0) * 4096.0
}

/// Parks `pending` waits, each under two of 10,000 keys, then completes all by key. `fresh` starts with an empty
/// purgatory, whose memory must be had from the system; otherwise with one that has had as many before.
fn park_and_complete(pending: usize, fresh: bool) {
    let keys = keys(KEYS);
    let rounds = (100_000 / pending).max(1);
    let mut entropy = Entropy::new(2);
    let pairs: Vec<[PartitionKey; 2]> =
        (0..pending).map(|_| [(); 2].map(|()| keys[entropy.below(KEYS as u64) as usize])).collect();
    let woken: Vec<PartitionKey> =
        if pending < KEYS { pairs.iter().map(|pair| pair[0]).collect() } else { keys };
    let mut purgatory = BenchPurgatory::<0>::new();
    purgatory.park([], waiter(Instant::ZERO, HOUR_MS), OffsetWait::new(u64::MAX));
    let [mut park, mut park_cpu, mut complete, mut complete_cpu, mut bytes] =
        [(); 5].map(|()| Figures::default());
    for trial in 0..TRIALS {
        let (mut parking, mut completing, mut growth) = (Spent::default(), Spent::default(), 0.0);
        for _ in 0..rounds {
            if fresh {
                purgatory = BenchPurgatory::new();
            }
            let (before, first) = (if rounds == 1 { resident_bytes() } else { 0.0 }, purgatory.len());
            parking.add(rounds == 1, || {
                for (i, &pair) in pairs.iter().enumerate() {
                    let now = Instant::from_nanos(i as u64 * 100);
                    purgatory.park(pair, waiter(now, HOUR_MS), OffsetWait::new(1));
                }
            });
            assert_eq!(purgatory.len() - first, pending);
            growth += if rounds == 1 { resident_bytes() - before } else { 0.0 };
            let mut completed = 0;
            completing.add(rounds == 1, || {
                for key in &woken {
                    completed += purgatory.wake(key, &mut 1, |_, _, reply| discard(reply));
                }
            });
            assert_eq!(completed, pending);
        }
        if trial >= WARM_UP_TRIALS {
            let each = (rounds * pending) as f64;
            park.0.push(parking.wall_ns / each);
            park_cpu.0.push(parking.cpu_ns / each);
            complete.0.push(completing.wall_ns / each);
            complete_cpu.0.push(completing.cpu_ns / each);
            bytes.0.push(growth / each);
        }
    }
    let memory = if fresh { format!(", \"bytes_per_op\": {bytes}") } else { String::new() };
    let large = if rounds == 1 {
        format!(", \"cpu_ns_per_park\": {park_cpu}, \"cpu_ns_per_complete\": {complete_cpu}{memory}")
    } else {
        String::new()
    };
    println!(
        "{{\"test\": \"park-complete\", \"pending\": {pending}, \"fresh\": {fresh}, \"keys\": {KEYS}, \"keys_per_op\": 2, \
         \"ns_per_park\": {park}, \"ns_per_complete\": {complete}{large}}}"
    );
}

/// The life of a long poll beside `background` others: park under two keys, then complete through one of them.
fn cycle(background: usize) {
    const COUNT: usize = 1_000_000;
    let keys = keys(KEYS);
    let (busy, quiet) = keys.split_at(KEYS / 2);
    let mut entropy = Entropy::new(3);
    let mut any = |keys: &[PartitionKey]| [(); 2].map(|()| keys[entropy.below(keys.len() as u64) as usize]);
    let mut purgatory = BenchPurgatory::<0>::new();
    for _ in 0..background {
        purgatory.park(any(busy), waiter(Instant::ZERO, HOUR_MS), OffsetWait::new(u64::MAX));
    }
    let (mut wall, mut cpu) = (Figures::default(), Figures::default());
    for trial in 0..TRIALS {
        let (cpu_start, start) = (cpu_nanos(), Clock::now());
        for i in 0..COUNT {
            let pair = any(quiet);
            let now = Instant::from_nanos(i as u64 * 100);
            purgatory.park(pair, waiter(now, 30_000), OffsetWait::new(1));
            assert_eq!(purgatory.wake(&pair[0], &mut 1, |_, _, reply| discard(reply)), 1);
        }
        if trial >= WARM_UP_TRIALS {
            wall.0.push(nanos_each(start, COUNT));
            cpu.0.push((cpu_nanos() - cpu_start) as f64 / COUNT as f64);
        }
    }
    println!(
        "{{\"test\": \"cycle\", \"background\": {background}, \"ns_per_op\": {wall}, \"cpu_ns_per_op\": {cpu}}}"
    );
}

/// What the purgatory adds to a request that has nothing to do with it: expire (nothing), ask for the next deadline.
fn poll(pending: usize) {
    const COUNT: usize = 1_000_000;
    let keys = keys(KEYS);
    let mut entropy = Entropy::new(4);
    let mut purgatory = BenchPurgatory::<0>::new();
    for _ in 0..pending {
        let timeout_ms = 30_000 + entropy.below(30_000) as i32;
        let key = keys[entropy.below(KEYS as u64) as usize];
        purgatory.park([key], waiter(Instant::ZERO, timeout_ms), OffsetWait::new(1));
    }
    let mut figures = Figures::default();
    for trial in 0..TRIALS {
        let start = Clock::now();
        for i in 0..COUNT {
            let now = Instant::from_nanos((trial * COUNT + i) as u64 * 1000);
            purgatory.expire(black_box(now), &mut 0, |_, _, _| unreachable!("nothing is due for 30 s"));
            black_box(purgatory.next_deadline());
        }
        if trial >= WARM_UP_TRIALS {
            figures.0.push(nanos_each(start, COUNT));
        }
    }
    println!("{{\"test\": \"poll\", \"pending\": {pending}, \"ns_per_op\": {figures}}}");
}

/// Waits with random timeouts of `base_ms` + 1 to 1000 ms, on the real clock: how late they expire. Between two
/// deadlines the thread sleeps, as the server's does.
fn expire(pending: usize, base_ms: i32) {
    let keys = keys(KEYS);
    for trial in 0..3 {
        let mut purgatory = BenchPurgatory::<0>::new();
        let mut entropy = Entropy::new(trial);
        let mut late: Vec<f64> = Vec::with_capacity(pending);
        let (origin, cpu_start) = (Clock::now(), cpu_nanos());
        let now = || Instant::from_nanos(1_000_000_000 + origin.elapsed().as_nanos() as u64);
        let mut wake_ups = 0;
        let mut run_due = |purgatory: &mut BenchPurgatory<0>, late: &mut Vec<f64>| {
            wake_ups += 1;
            let mut at = now();
            while let Some((departure, wait)) = purgatory.take_expired(at) {
                black_box(wait.expire(&mut 0));
                at = now();
                late.push((at.as_nanos() - departure.waiter.deadline.as_nanos()) as f64 / 1e6);
            }
        };
        for i in 0..pending {
            let pair = [(); 2].map(|()| keys[entropy.below(KEYS as u64) as usize]);
            let timeout_ms = base_ms + 1 + entropy.below(1000) as i32;
            purgatory.park(pair, waiter(now(), timeout_ms), OffsetWait::new(1));
            if i % 16 == 0 {
                run_due(&mut purgatory, &mut late);
            }
        }
        let park_all_ms = origin.elapsed().as_secs_f64() * 1e3;
        while let Some(next) = purgatory.next_deadline() {
            std::thread::sleep(next - now());
            run_due(&mut purgatory, &mut late);
        }
        let cpu = (cpu_nanos() - cpu_start) as f64 / pending as f64;
        assert_eq!(late.len(), pending);
        late.sort_by(f64::total_cmp);
        let at = |part: f64| late[((pending - 1) as f64 * part) as usize];
        println!(
            "{{\"test\": \"expire\", \"pending\": {pending}, \"base_ms\": {base_ms}, \"park_all_ms\": {park_all_ms:.0}, \
             \"cpu_ns_per_op\": {cpu:.0}, \"wake_ups\": {wake_ups}, \"late_ms\": {{\"min\": {:.3}, \"p50\": {:.3}, \
             \"p99\": {:.3}, \"p999\": {:.3}, \"max\": {:.3}}}}}",
            late[0],
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        );
    }
}

/// Requests at `rate` a second (Poisson), 3 keys of 100, 100 bytes each, timeout 200 ms, completed after log-normal
/// times with the given 50th and 75th percentile: the shape of Kafka's own purgatory benchmark. A rate of 0 goes as
/// fast as it can.
fn stream(rate: f64, p50_ms: f64, p75_ms: f64) {
    let count = if rate == 0.0 { 4_000_000 } else { ((rate * 4.0) as usize).clamp(200_000, 2_000_000) };
    let keys = keys(100);
    let mut entropy = Entropy::new(7);
    let times = log_normal(&mut entropy, p50_ms, p75_ms);
    let mut purgatory = BenchPurgatory::<100>::new();
    // What completes in each millisecond to come, and until when that was done.
    let mut completions: [Vec<WaitId>; 1024] = [const { Vec::new() }; 1024];
    let (mut left, mut arrival_ns, mut done_ms) = (0, 0.0, 1_000);
    let (origin, cpu_start) = (Clock::now(), cpu_nanos());
    let now = || Instant::from_nanos(1_000_000_000 + origin.elapsed().as_nanos() as u64);
    let mut finish = |purgatory: &mut BenchPurgatory<100>, completions: &mut [Vec<WaitId>; 1024]| {
        let now = now();
        while done_ms < now.as_millis() {
            let due = &mut completions[done_ms as usize % 1024];
            left += purgatory.take_all(due, Exit::Completed, |_, wait| {
                black_box(wait);
            });
            due.clear();
            done_ms += 1;
        }
        left += purgatory.expire(now, &mut 0, |_, _, reply| discard(reply));
        left
    };
    for i in 0..count {
        if rate > 0.0 {
            arrival_ns += -(1.0 - unit(&mut entropy)).ln() / rate * 1e9;
            while arrival_ns - origin.elapsed().as_nanos() as f64 > 1_000_000.0 {
                std::thread::sleep(Duration::from_millis(1));
                finish(&mut purgatory, &mut completions);
            }
        }
        let triple = [(); 3].map(|()| keys[entropy.below(100) as usize]);
        let (since, after_ms) = (now(), times[i % times.len()]);
        let id = purgatory.park(triple, waiter(since, 200), OffsetWait::new(1));
        if after_ms < 200.0 {
            let due_ms = (since.as_nanos() + (after_ms * 1e6) as u64) / 1_000_000;
            completions[due_ms as usize % 1024].push(id);
        }
        if i % 16 == 0 {
            finish(&mut purgatory, &mut completions);
        }
    }
    let took = origin.elapsed().as_secs_f64();
    while finish(&mut purgatory, &mut completions) < count {
        std::thread::sleep(Duration::from_millis(1));
    }
    let cpu = (cpu_nanos() - cpu_start) as f64 / count as f64;
    println!(
        "{{\"test\": \"stream\", \"requests\": {count}, \"target_rate\": {rate:.0}, \"rate\": {:.0}, \"pct50_ms\": {p50_ms:.0}, \
         \"pct75_ms\": {p75_ms:.0}, \"cpu_ns_per_op\": {cpu:.0}}}",
        count as f64 / took
    );
}

/// A number in `0.0..1.0`.
fn unit(entropy: &mut Entropy) -> f64 {
    (entropy.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn log_normal(entropy: &mut Entropy, p50: f64, p75: f64) -> Vec<f64> {
    let mu = p50.ln();
    let sigma = (p75.ln() - mu) / 0.67449;
    let mut normal = || {
        let (radius, angle) = (1.0 - unit(entropy), unit(entropy) * std::f64::consts::TAU);
        (-2.0 * radius.ln()).sqrt() * angle.cos()
    };
    (0..1 << 16).map(|_| (normal() * sigma + mu).exp()).collect()
}

fn main() {
    // `cargo bench` adds arguments that begin with a dash.
    let only: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let wanted = |name: &str| only.is_empty() || only.iter().any(|only| only == name);
    let pending = [10, 10_000, 1_000_000];
    if wanted("park") {
        pending.iter().for_each(|&pending| park_and_complete(pending, true));
        pending.iter().for_each(|&pending| park_and_complete(pending, false));
    }
    if wanted("cycle") {
        [0, 10, 10_000, 1_000_000].into_iter().for_each(cycle);
    }
    if wanted("poll") {
        pending.into_iter().for_each(poll);
    }
    if wanted("expire") {
        for (pending, base_ms) in [(10_000, 0), (100_000, 0), (1_000_000, 0), (1_000_000, 4_000)] {
            expire(pending, base_ms);
        }
    }
    if wanted("stream") {
        for (rate, p50_ms, p75_ms) in [50_000.0, 100_000.0, 200_000.0, 400_000.0, 0.0]
            .map(|rate| (rate, 20.0, 60.0))
            .into_iter()
            .chain([100_000.0, 200_000.0, 0.0].map(|rate| (rate, 200.0, 400.0)))
        {
            stream(rate, p50_ms, p75_ms);
        }
    }
}
