//! What replication costs: three brokers, one partition on three replicas, acks=1 and acks=all in turn.
//!
//! `cargo bench --bench replication` starts huld with three brokers; `-- HOST:PORT` measures another cluster instead, such
//! as three brokers of Apache Kafka, where figures of processor and memory are left out. Plain numbers, over loopback.

mod process;

use std::time::{Duration, Instant};

use process::{Client, Huld, batch, median, produce};

const ROUNDS: usize = 7;
const ROUND: Duration = Duration::from_millis(700);
const PARTITIONS: i32 = 4;
const IN_FLIGHT: usize = 5;

fn main() {
    let address = std::env::args().skip(1).find(|argument| argument.contains(':'));
    let started = address.is_none().then(|| Huld::start(&["--brokers", "3"]));
    let address = address.or_else(|| started.as_ref().map(|huld| huld.address.clone())).expect("an address");
    let mut admin = Client::connect(&address);
    for (name, partitions, replicas) in [("one", 1, 3), ("single", PARTITIONS, 1), ("triple", PARTITIONS, 3)]
    {
        admin.create_topic(name, partitions, replicas);
    }
    one_in_flight(&mut admin, started.as_ref());
    throughput(&mut admin);
    if let Some(huld) = &started {
        memory(&mut admin, huld);
    }
}

/// 200 bytes, one request in flight.
fn one_in_flight(admin: &mut Client, huld: Option<&Huld>) {
    let batch = batch(200);
    let mut leader = Client::connect(&admin.leader("one", 0));
    let mut times = [Vec::new(), Vec::new()];
    let mut processor = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (at, acks) in [(0, 1), (1, -1)] {
            let frame = produce("one", 0, &batch, acks);
            let (began, used) = (Instant::now(), huld.map(Huld::processor_time));
            let mut count = 0;
            while began.elapsed() < ROUND {
                leader.exchange(&frame);
                count += 1;
            }
            times[at].push(began.elapsed().as_secs_f64() * 1e6 / f64::from(count));
            if let (Some(huld), Some(used)) = (huld, used) {
                let used = huld.processor_time() - used;
                processor[at].push(used.as_secs_f64() * 1e6 / f64::from(count));
            }
        }
    }
    let [one, all] = times.map(median);
    println!(
        "200 B, 1 in flight, 3 replicas: acks=1 {one:.1} us, acks=all {all:.1} us, {:.1} us more",
        all - one
    );
    let [one, all] = processor.map(median);
    if huld.is_some() {
        println!(
            "  processor time of the brokers: acks=1 {one:.1} us, acks=all {all:.1} us, {:.2} times",
            all / one
        );
    }
}

/// 16 KiB, 4 connections with 5 in flight each, acks=all.
fn throughput(admin: &mut Client) {
    let batch = batch(16 << 10);
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (at, topic) in ["single", "triple"].into_iter().enumerate() {
            let leaders: Vec<String> = (0..PARTITIONS).map(|index| admin.leader(topic, index)).collect();
            let began = Instant::now();
            let threads = (0..PARTITIONS).map(|index| {
                let frame = produce(topic, index, &batch, -1);
                let leader = leaders[index as usize].clone();
                std::thread::spawn(move || stream(Client::connect(&leader), &frame, ROUND))
            });
            let threads: Vec<_> = threads.collect();
            let count: usize = threads.into_iter().map(|thread| thread.join().expect("a client")).sum();
            rates[at].push((count * batch.len()) as f64 / 1e6 / began.elapsed().as_secs_f64());
        }
    }
    let [single, triple] = rates.map(median);
    println!(
        "16 KiB, {PARTITIONS} x {IN_FLIGHT} in flight, acks=all: 1 replica {single:.0} MB/s, 3 replicas {triple:.0} MB/s, \
         {:.0} %",
        100.0 * triple / single
    );
}

/// What records take that three replicas hold.
fn memory(admin: &mut Client, huld: &Huld) {
    const BYTES: usize = 512 << 20;
    admin.create_topic_keeping_all("kept");
    let batch = batch(64 << 10);
    let frame = produce("kept", 0, &batch, -1);
    let mut leader = Client::connect(&admin.leader("kept", 0));
    let before = huld.resident_bytes();
    let mut written = 0;
    while written < BYTES {
        leader.exchange(&frame);
        written += batch.len();
    }
    let grown = huld.resident_bytes() - before;
    println!("3 replicas of {} MiB: {:.3} bytes a byte", written >> 20, grown as f64 / written as f64);
}

/// Keeps some requests in flight for so long; returns how many were answered.
fn stream(mut client: Client, frame: &[u8], long: Duration) -> usize {
    let end = Instant::now() + long;
    (0..IN_FLIGHT).for_each(|_| client.send(frame));
    let mut count = 0;
    while Instant::now() < end {
        client.read_produced();
        client.send(frame);
        count += 1;
    }
    (0..IN_FLIGHT).for_each(|_| client.read_produced());
    count + IN_FLIGHT
}
