//! Idempotent producers as a client sees them (KIP-98).

use kafka_protocol::messages::{InitProducerIdRequest, ProducerId};

use super::*;
use crate::base::ErrorCode;

fn init(world: &mut World, client: ConnectionId, id: i64, epoch: i16) -> (i16, i64, i16) {
    let request = InitProducerIdRequest::default()
        .with_transactional_id(None)
        .with_transaction_timeout_ms(1000)
        .with_producer_id(ProducerId(id))
        .with_producer_epoch(epoch);
    let response = world.ask(client, 5, &request);
    (response.error_code, response.producer_id.0, response.producer_epoch)
}

pub(super) fn sequenced(id: i64, epoch: i16, sequence: i32, values: &[&str]) -> Bytes {
    let header = BatchHeader {
        producer_id: id,
        producer_epoch: epoch,
        base_sequence: sequence,
        ..BatchHeader::default()
    };
    batch_of(header, values, 1)
}

#[test]
fn a_producer_gets_a_fresh_id_whatever_it_had() {
    let mut world = World::new();
    let client = world.connect();
    let mut ids = Vec::new();
    // Some clients say "none" with zeros.
    for (id, epoch) in [(-1, -1), (0, 0), (7, 3)] {
        let (error, id, epoch) = init(&mut world, client, id, epoch);
        assert_eq!((error, epoch), (0, 0));
        assert!(id >= 0 && !ids.contains(&id));
        ids.push(id);
    }
    for (id, epoch) in [(7, -1), (-1, 3)] {
        assert_eq!(init(&mut world, client, id, epoch), (ErrorCode::InvalidRequest.code(), -1, -1));
    }
}

#[test]
fn what_is_sent_again_is_answered_with_its_first_offset() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let (_, id, epoch) = init(&mut world, client, -1, -1);
    let mut send = |sequence, values: &[&str]| {
        let request = produce("t", 0, sequenced(id, epoch, sequence, values), -1);
        let response = world.ask(client, PRODUCE, &request);
        let row = &response.responses[0].partition_responses[0];
        (row.error_code, row.base_offset)
    };
    assert_eq!(send(0, &["a", "b"]), (0, 0));
    assert_eq!(send(2, &["c"]), (0, 2));
    assert_eq!(send(0, &["a", "b"]), (0, 0));
    assert_eq!(send(4, &["e"]), (ErrorCode::OutOfOrderSequenceNumber.code(), -1));
    assert_eq!(send(3, &["d"]), (0, 3));
}

#[test]
fn a_refused_batch_uses_up_no_sequence_and_fails_no_other_partition() {
    for version in [3, 7, 8, 9] {
        let mut world = World::new();
        world.create_topic("compacted", 1, &[("cleanup.policy", "compact")]);
        world.create_topic("t", 1, &[]);
        let client = world.connect();
        let (_, id, epoch) = init(&mut world, client, -1, -1);
        let mut request = produce("compacted", 0, sequenced(id, epoch, 0, &["no key"]), -1);
        request.topic_data.extend(produce("t", 0, sequenced(id, epoch, 0, &["fine"]), -1).topic_data);
        let response = world.ask(client, version, &request);
        let rows: Vec<_> = response.responses.iter().map(|topic| &topic.partition_responses[0]).collect();
        assert_eq!(rows[0].error_code, ErrorCode::InvalidRecord.code(), "v{version}");
        assert_eq!(rows[1].error_code, 0, "v{version}");
        let bad: Vec<i32> = rows[0].record_errors.iter().map(|record| record.batch_index).collect();
        assert_eq!(bad, if version >= 8 { vec![0] } else { Vec::new() });

        let header =
            BatchHeader { producer_id: id, producer_epoch: epoch, base_sequence: 0, ..Default::default() };
        let mut builder = BatchBuilder::new(header);
        builder.push(1, Some(b"key"), Some(b"value"), std::iter::empty());
        let request = produce("compacted", 0, builder.build().unwrap(), -1);
        assert_eq!(error_of(&world.ask(client, version, &request)), 0, "v{version}");
    }
}

#[test]
fn a_producer_that_was_forgotten_goes_on_with_any_sequence() {
    let mut world = World::with(&[
        ("producer.id.expiration.ms", "1000"),
        ("producer.id.expiration.check.interval.ms", "500"),
    ]);
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let (_, id, epoch) = init(&mut world, client, -1, -1);
    let send = |world: &mut World, sequence| {
        let now = world.now().wall.as_millis();
        let header = BatchHeader {
            producer_id: id,
            producer_epoch: epoch,
            base_sequence: sequence,
            ..Default::default()
        };
        error_of(&world.ask(client, PRODUCE, &produce("t", 0, batch_of(header, &["a"], now), 1)))
    };
    assert_eq!(send(&mut world, 0), 0);
    assert_eq!(send(&mut world, 5), ErrorCode::OutOfOrderSequenceNumber.code());
    world.advance(Duration::from_secs(3));
    assert_eq!(send(&mut world, 5), 0);
    assert_eq!(send(&mut world, 6), 0);
}
