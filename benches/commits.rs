//! What committed offsets cost, and whether others notice: one connection commits as fast as it can, then 10,000 times a
//! second while another produces.
//!
//! `cargo bench --bench commits` starts huld; `-- HOST:PORT` measures another broker instead, such as Apache Kafka. Over
//! loopback. What a second connection at such a rate costs the machine itself is told by one that asks for ApiVersions.

mod process;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kafka_protocol::messages::find_coordinator_request::FindCoordinatorRequest;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::{ApiVersionsRequest, GroupId, OffsetCommitRequest};
use kafka_protocol::protocol::StrBytes;

use process::{Client, Huld, batch, framed, median, name, produce};

const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(1);
const RATE: u64 = 10_000;
const GROUP: &str = "readers";
const TOPIC: &str = "one";
const COMMIT: i16 = 8;
const API_VERSIONS: i16 = 0;

/// What another connection does until it is told that it is done; returns how many answers it got.
type Other = fn(&str, &AtomicBool) -> u64;

fn main() {
    let address = std::env::args().skip(1).find(|argument| argument.contains(':'));
    let started = address.is_none().then(|| Huld::start(&[]));
    let address = address.or_else(|| started.as_ref().map(|huld| huld.address.clone())).expect("an address");
    let mut client = Client::connect(&address);
    client.create_topic(TOPIC, 1, 1);
    client.leader(TOPIC, 0);
    find_coordinator(&mut client);
    for in_flight in [1, 100] {
        let rates = (0..ROUNDS).map(|_| as_fast_as_can_be(&mut client, in_flight)).collect();
        println!("{in_flight:4} in flight: {:.0} commits a second", median(rates));
    }
    beside_others(&address);
}

/// Until the group has a coordinator, for which its topic may have to be made.
fn find_coordinator(client: &mut Client) {
    let request = FindCoordinatorRequest::default().with_key(StrBytes::from_static_str(GROUP));
    for _ in 0..200 {
        client.send(&commit(0));
        let ready = read_committed(client) == 0;
        if client.ask(3, &request).error_code == 0 && ready {
            return;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("{GROUP} gets no coordinator");
}

fn as_fast_as_can_be(client: &mut Client, in_flight: usize) -> f64 {
    let (began, mut count) = (Instant::now(), 0);
    (0..in_flight).for_each(|_| client.send(&commit(count)));
    while began.elapsed() < ROUND {
        assert_eq!(read_committed(client), 0);
        client.send(&commit(count));
        count += 1;
    }
    (0..in_flight).for_each(|_| assert_eq!(read_committed(client), 0));
    count as f64 / began.elapsed().as_secs_f64()
}

/// How long single records take, alone and beside another connection that asks for something 10,000 times a second.
fn beside_others(address: &str) {
    let frame = produce(TOPIC, 0, &batch(200), 1);
    let mut producer = Client::connect(address);
    let cases: [(&str, Option<Other>); 3] = [
        ("alone", None),
        ("beside 10,000 ApiVersions a second", Some(ask_for_versions as Other)),
        ("beside 10,000 commits a second", Some(commit_offsets)),
    ];
    let mut figures = cases.map(|_| [(); 3].map(|()| Vec::new()));
    for _ in 0..ROUNDS {
        for ((_, other), [p50, p99, rates]) in cases.iter().zip(&mut figures) {
            let done = AtomicBool::new(false);
            let began = Instant::now();
            let (mut times, others) = thread::scope(|scope| {
                let done = &done;
                let other = other.map(|other| scope.spawn(move || other(address, done)));
                let times = produce_for(&mut producer, &frame);
                done.store(true, Ordering::Relaxed);
                (times, other.map_or(0, |other| other.join().expect("a client")))
            });
            rates.push(others as f64 / began.elapsed().as_secs_f64());
            times.sort_by(f64::total_cmp);
            p50.push(times[times.len() / 2]);
            p99.push(times[times.len() * 99 / 100]);
        }
    }
    for ((title, _), [p50, p99, rates]) in cases.iter().zip(figures) {
        let [p50, p99, rate] = [p50, p99, rates].map(median);
        println!("a record {title} ({rate:.0} answered): p50 {p50:.0} us, p99 {p99:.0} us");
    }
}

/// The time of each record, in microseconds.
fn produce_for(producer: &mut Client, frame: &[u8]) -> Vec<f64> {
    let began = Instant::now();
    let mut times = Vec::new();
    while began.elapsed() < ROUND {
        let sent = Instant::now();
        producer.exchange(frame);
        times.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    times
}

fn commit_offsets(address: &str, done: &AtomicBool) -> u64 {
    steadily(address, done, commit, |client| assert_eq!(read_committed(client), 0))
}

fn ask_for_versions(address: &str, done: &AtomicBool) -> u64 {
    let request = framed(API_VERSIONS, &ApiVersionsRequest::default());
    let read =
        |client: &mut Client| assert_eq!(client.read::<ApiVersionsRequest>(API_VERSIONS).error_code, 0);
    steadily(address, done, |_| request.clone(), read)
}

/// Sends what is due every millisecond, and then reads the answers. Returns how many there were.
fn steadily(
    address: &str,
    done: &AtomicBool,
    mut request: impl FnMut(u64) -> Vec<u8>,
    read: impl Fn(&mut Client),
) -> u64 {
    let mut client = Client::connect(address);
    let (began, mut count) = (Instant::now(), 0);
    while !done.load(Ordering::Relaxed) {
        let due = began.elapsed().as_micros() as u64 * RATE / 1_000_000;
        let frames: Vec<u8> = (count..due).flat_map(&mut request).collect();
        client.send(&frames);
        (count..due).for_each(|_| read(&mut client));
        count = due;
        thread::sleep(Duration::from_millis(1));
    }
    count
}

fn commit(offset: u64) -> Vec<u8> {
    let partition = OffsetCommitRequestPartition::default()
        .with_committed_offset(offset as i64)
        .with_committed_metadata(Some(StrBytes::default()));
    let topic = OffsetCommitRequestTopic::default().with_name(name(TOPIC)).with_partitions(vec![partition]);
    let group = GroupId(StrBytes::from_static_str(GROUP));
    framed(COMMIT, &OffsetCommitRequest::default().with_group_id(group).with_topics(vec![topic]))
}

/// The error code.
fn read_committed(client: &mut Client) -> i16 {
    client.read::<OffsetCommitRequest>(COMMIT).topics[0].partitions[0].error_code
}
