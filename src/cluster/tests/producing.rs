//! Produce as a client sees it.

use super::*;

#[test]
fn what_is_produced_is_fetched_byte_for_byte() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let sent = batch(&["a", "b"], 1);
    for acks in [1, -1] {
        let response: ProduceResponse = world.ask(client, PRODUCE, &produce("t", 0, sent.clone(), acks));
        assert_eq!(error_of(&response), 0);
    }
    let response: FetchResponse = world.ask(client, FETCH, &fetch("t", 0, 0));
    let records = records_of(&response);
    assert_eq!(records[..8], 0_i64.to_be_bytes());
    assert_eq!(records[16..sent.len()], sent[16..], "magic and all that the CRC covers is as it was sent");
    let expected = [(0, "a"), (1, "b"), (2, "a"), (3, "b")].map(|(at, value)| (at, value.to_owned()));
    assert_eq!(values(records), expected);
    assert_eq!(response.responses[0].partitions[0].high_watermark, 4);
}

#[test]
fn acks_0_is_never_answered_and_an_error_closes() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    world.send(client, PRODUCE, &produce("t", 0, batch(&["a"], 1), 0));
    assert!(world.received::<ProduceRequest>(client, PRODUCE).is_none());
    assert!(world.closed.is_empty());
    world.send(client, PRODUCE, &produce("missing", 0, batch(&["a"], 1), 0));
    assert_eq!(world.closed, [client]);
}

#[test]
fn acks_other_than_those_three_append_nothing() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    for acks in [2, -2] {
        let response: ProduceResponse = world.ask(client, PRODUCE, &produce("t", 0, batch(&["a"], 1), acks));
        assert_eq!(error_of(&response), crate::base::ErrorCode::InvalidRequiredAcks.code());
    }
    let response: ProduceResponse = world.ask(client, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    assert_eq!(response.responses[0].partition_responses[0].base_offset, 0);
}

#[test]
fn log_append_time_is_stamped_and_answered() {
    let mut world = World::new();
    world.create_topic("t", 1, &[("message.timestamp.type", "LogAppendTime")]);
    let client = world.connect();
    world.advance(Duration::from_millis(5));
    let now = world.now().wall.as_millis();
    let response: ProduceResponse = world.ask(client, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    assert_eq!(response.responses[0].partition_responses[0].log_append_time_ms, now);
    let response: FetchResponse = world.ask(client, FETCH, &fetch("t", 0, 0));
    let records = records_of(&response);
    let view = BatchView::new(&records).unwrap();
    assert!(view.is_log_append_time());
    assert_eq!(view.max_timestamp(), now);
    assert_eq!(view.crc(), crc32c::crc32c(&records[21..]));
}

#[test]
fn a_full_log_memory_refuses_until_something_is_deleted() {
    let config = ClusterConfig { log_memory_bytes: 64 << 10, ..ClusterConfig::default() };
    let mut world = World::of(config);
    world.create_topic("t", 1, &[]);
    world.create_topic("u", 1, &[]);
    let client = world.connect();
    let value = "x".repeat(8 << 10);
    let now = world.now().wall.as_millis();
    let mut error = 0;
    for _ in 0..20 {
        error = error_of(&world.ask(client, PRODUCE, &produce("t", 0, batch(&[&value], now), 1)));
        if error != 0 {
            break;
        }
    }
    assert_eq!(error, crate::base::ErrorCode::KafkaStorageError.code());
    let delete = kafka_protocol::messages::DeleteTopicsRequest::default()
        .with_topic_names(vec![topic("t")])
        .with_timeout_ms(1000);
    assert_eq!(world.ask(client, 5, &delete).responses[0].error_code, 0);
    let response: ProduceResponse = world.ask(client, PRODUCE, &produce("u", 0, batch(&[&value], now), 1));
    assert_eq!(error_of(&response), 0, "there is room again");
}

#[test]
fn records_that_are_too_old_make_room_before_anything_is_refused() {
    let config = ClusterConfig { log_memory_bytes: 64 << 10, ..ClusterConfig::default() };
    let mut world = World::of(config);
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let value = "x".repeat(8 << 10);
    for _ in 0..20 {
        assert_eq!(error_of(&world.ask(client, PRODUCE, &produce("t", 0, batch(&[&value], 1), 1))), 0);
    }
}

#[test]
fn records_that_are_too_old_go_at_the_next_check_and_not_before() {
    let mut world = World::with(&[("log.retention.check.interval.ms", "60000")]);
    world.create_topic("t", 1, &[]);
    world.create_topic("bounded", 1, &[("retention.bytes", "1048576")]);
    let client = world.connect();
    for topic in ["t", "bounded"] {
        world.ask(client, PRODUCE, &produce(topic, 0, batch(&["old"], 1), 1));
    }
    let starts = |world: &mut World| {
        ["t", "bounded"].map(|topic| {
            let response: FetchResponse = world.ask(client, FETCH, &fetch(topic, 0, 1).with_max_wait_ms(0));
            response.responses[0].partitions[0].log_start_offset
        })
    };
    world.advance(Duration::from_millis(29_999));
    assert_eq!(starts(&mut world), [0, 0]);
    world.advance(Duration::from_millis(1));
    assert_eq!(starts(&mut world), [1, 1]);
}

#[test]
fn an_idle_producer_is_forgotten_at_the_next_check() {
    let mut world = World::with(&[
        ("producer.id.expiration.ms", "1000"),
        ("producer.id.expiration.check.interval.ms", "600"),
    ]);
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let send = |world: &mut World, sequence| {
        let header = BatchHeader {
            producer_id: 5,
            producer_epoch: 0,
            base_sequence: sequence,
            ..BatchHeader::default()
        };
        let now = world.now().wall.as_millis();
        error_of(&world.ask(client, PRODUCE, &produce("t", 0, batch_of(header, &["a"], now), 1)))
    };
    assert_eq!(send(&mut world, 0), 0);
    world.advance(Duration::from_millis(1100));
    let gap = crate::base::ErrorCode::OutOfOrderSequenceNumber.code();
    assert_eq!(send(&mut world, 5), gap, "remembered until the check after its time");
    world.advance(Duration::from_millis(100));
    assert_eq!(send(&mut world, 5), 0, "any sequence may be the first");
}

#[test]
fn acks_all_with_one_replica_waits_for_nobody() {
    let mut world = World::new();
    world.create_topic("t", 1, &[("min.insync.replicas", "2")]);
    let client = world.connect();
    for offset in 0..3 {
        let request = produce("t", 0, batch(&["a"], 1), -1).with_timeout_ms(i32::MAX);
        let response: ProduceResponse = world.ask(client, PRODUCE, &request);
        let row = &response.responses[0].partition_responses[0];
        assert_eq!(
            (row.error_code, row.base_offset),
            (0, offset),
            "two in sync can't be asked of one replica"
        );
    }
    assert!(world.cluster.waits(world.now()).is_empty(), "nothing is left until the timeout");
}

#[test]
fn one_bad_partition_leaves_the_others_and_its_sequence_alone() {
    let mut world = World::new();
    world.create_topic("t", 2, &[("max.message.bytes", "200")]);
    let client = world.connect();
    let header =
        BatchHeader { producer_id: 5, producer_epoch: 0, base_sequence: 0, ..BatchHeader::default() };
    let large = "x".repeat(1000);
    for version in [3, 7, 8, 9, 12] {
        let index = 1;
        let mut request = produce("t", 0, batch_of(header, &[&large], 1), -1);
        let good = produce("t", index, batch(&["a"], 1), -1).topic_data[0].partition_data[0].clone();
        request.topic_data[0].partition_data.push(good);
        let response: ProduceResponse = world.ask(client, version, &request);
        let errors: Vec<i16> =
            response.responses[0].partition_responses.iter().map(|row| row.error_code).collect();
        assert_eq!(errors, [crate::base::ErrorCode::MessageTooLarge.code(), 0], "v{version}");
    }
    let response: ProduceResponse =
        world.ask(client, PRODUCE, &produce("t", 0, batch_of(header, &["a"], 1), -1));
    let row = &response.responses[0].partition_responses[0];
    assert_eq!((row.error_code, row.base_offset), (0, 0), "the sequence is still to come");
}

#[test]
fn what_a_request_decompresses_to_has_a_bound() {
    let mut world = World::new();
    world.limits = PrepareLimits { max_decompressed_bytes: 10_000 };
    world.create_topic("t", 10, &[]);
    let client = world.connect();
    let header = BatchHeader { codec: Codec::Gzip, ..BatchHeader::default() };
    let records = batch_of(header, &[&"x".repeat(9_000)], 1);
    let mut request = produce("t", 0, records.clone(), 1);
    for index in 1..10 {
        let more = produce("t", index, records.clone(), 1).topic_data[0].partition_data[0].clone();
        request.topic_data[0].partition_data.push(more);
    }
    let response: ProduceResponse = world.ask(client, PRODUCE, &request);
    let rows = &response.responses[0].partition_responses;
    let errors: Vec<i16> = rows.iter().map(|row| row.error_code).collect();
    let refused = crate::base::ErrorCode::InvalidRecord.code();
    assert_eq!(errors, [0, 0, 0, 0, 0, 0, 0, 0, refused, refused]);
    let response: ProduceResponse = world.ask(client, PRODUCE, &produce("t", 9, records, 1));
    assert_eq!(error_of(&response), 0, "by itself it is not too much");
}

/// Counts what is logged as an error on this thread.
#[derive(Clone, Default)]
struct LoggedErrors(std::sync::Arc<std::sync::atomic::AtomicUsize>);

impl tracing::Subscriber for LoggedErrors {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_full_log_memory_is_logged_once_a_minute() {
    let mut world = World::of(ClusterConfig { log_memory_bytes: 1, ..ClusterConfig::default() });
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let logged = LoggedErrors::default();
    let count = || logged.0.load(std::sync::atomic::Ordering::Relaxed);
    tracing::subscriber::with_default(logged.clone(), || {
        let refused = |world: &mut World| {
            let response: ProduceResponse = world.ask(client, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
            assert_eq!(error_of(&response), crate::base::ErrorCode::KafkaStorageError.code());
        };
        refused(&mut world);
        refused(&mut world);
        assert_eq!(count(), 1);
        world.advance(Duration::from_millis(59_999));
        refused(&mut world);
        assert_eq!(count(), 1);
        world.advance(Duration::from_millis(1));
        refused(&mut world);
        assert_eq!(count(), 2);
    });
}
