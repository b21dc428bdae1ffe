//! Work that would take long is done in steps, between which others are served: counted, since a test's time says little.

use super::*;
use kafka_protocol::messages::ProduceRequest;

/// Calls [`Cluster::handle_timeout`] for as long as it is due now. Returns how often.
fn steps(world: &mut World) -> usize {
    let mut calls = 0;
    while world.cluster.poll_timeout().is_some_and(|due| due <= world.now().instant) {
        let now = world.now();
        world.cluster.handle_timeout(now);
        world.collect();
        calls += 1;
    }
    calls
}

fn keyed(keys: impl Iterator<Item = usize>, value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    for key in keys {
        builder.push(0, Some(format!("{key}").as_bytes()), Some(value), std::iter::empty());
    }
    builder.build().unwrap()
}

#[test]
fn a_large_log_is_compacted_in_steps_between_which_others_are_served() {
    const ROUNDS: usize = 6;
    const BATCHES: usize = 16;
    const RECORDS: usize = 400;
    let mut world = World::new();
    world.create_topic("t", 1, &[("cleanup.policy", "compact"), ("segment.bytes", "1048576")]);
    world.create_topic("other", 1, &[]);
    let client = world.connect();
    let mut bytes = 0;
    for _ in 0..ROUNDS {
        for first in 0..BATCHES {
            let batch = keyed((0..RECORDS).map(|key| first * RECORDS + key), &[b'v'; 100]);
            bytes += batch.len();
            assert_eq!(
                error_of(&world.ask::<ProduceRequest>(client, PRODUCE, &produce("t", 0, batch, -1))),
                0
            );
        }
    }
    let held = world.cluster.log_bytes_held();
    // The cleaner's next round comes, and half of what it does.
    world.now_ms = 15_000;
    let mut calls = 0;
    while calls < 12 {
        let now = world.now();
        world.cluster.handle_timeout(now);
        calls += 1;
    }
    let other: ProduceResponse = world.ask(client, PRODUCE, &produce("other", 0, batch(&["x"], 0), -1));
    assert_eq!(error_of(&other), 0);
    let before: FetchResponse = world.ask(client, FETCH, &fetch("t", 0, 0));
    assert_eq!(before.responses[0].partitions[0].error_code, 0);

    calls += steps(&mut world);
    assert!(calls > bytes / (128 << 10), "{calls} calls for {bytes} bytes");
    assert!(calls < 4 * bytes / (128 << 10), "{calls} calls for {bytes} bytes");
    assert!(world.cluster.log_bytes_held() < held / 2, "superseded records are gone");
    let first: FetchResponse = world.ask(client, FETCH, &fetch("t", 0, 0));
    let partition = &first.responses[0].partitions[0];
    assert_eq!(partition.high_watermark as usize, ROUNDS * BATCHES * RECORDS);
    let (offset, _) = values(partition.records.clone().unwrap())[0];
    assert!(
        offset as usize >= (ROUNDS - 2) * BATCHES * RECORDS,
        "{offset}: the first that nothing superseded"
    );
}

#[test]
fn ten_thousand_logs_lose_their_records_in_steps() {
    const PARTITIONS: i32 = 10_000;
    let mut world = World::new();
    world.create_topic("t", PARTITIONS, &[("retention.ms", "1000")]);
    let client = world.connect();
    for index in 0..PARTITIONS {
        let response = world.ask(client, PRODUCE, &produce("t", index, batch(&["x"], 0), -1));
        assert_eq!(error_of(&response), 0);
    }
    assert!(world.cluster.log_bytes_held() > 0);
    world.advance(Duration::from_secs(29));
    world.now_ms = 30_000;
    let calls = steps(&mut world);
    assert_eq!(calls, (PARTITIONS as usize).div_ceil(256), "so many logs a call");
    assert_eq!(world.cluster.log_bytes_held(), 0);
}

#[test]
fn a_thousand_long_polls_expire_in_steps() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let clients: Vec<ConnectionId> = (0..1_000).map(|_| world.connect()).collect();
    for &client in &clients {
        world.send(client, FETCH, &fetch("t", 0, 0));
    }
    world.now_ms += 500;
    assert_eq!(steps(&mut world), 1_000usize.div_ceil(256));
    for &client in &clients {
        assert!(world.received::<FetchRequest>(client, FETCH).is_some());
    }
}
