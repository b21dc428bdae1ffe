//! The ends of a log, offsets by time and DeleteRecords as a client sees them.

use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::{DeleteRecordsRequest, ListOffsetsRequest};

use super::*;
use crate::base::ErrorCode;

/// Error, offset and timestamp.
fn list(world: &mut World, version: i16, timestamp: i64) -> (i16, i64, i64) {
    let client = world.connect();
    let partition = ListOffsetsPartition::default().with_timestamp(timestamp);
    let topic = ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(vec![topic]);
    let response = world.ask(client, version, &request);
    let row = &response.topics[0].partitions[0];
    (row.error_code, row.offset, row.timestamp)
}

/// Error and low watermark.
fn delete(world: &mut World, offset: i64) -> (i16, i64) {
    let client = world.connect();
    let partition = DeleteRecordsPartition::default().with_offset(offset);
    let topic = DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let request = DeleteRecordsRequest::default().with_timeout_ms(1000).with_topics(vec![topic]);
    let response = world.ask(client, 2, &request);
    let row = &response.topics[0].partitions[0];
    (row.error_code, row.low_watermark)
}

fn fetch_error(world: &mut World, offset: i64) -> i16 {
    let client = world.connect();
    let response = world.ask(client, FETCH, &fetch("t", 0, offset).with_max_wait_ms(0));
    response.responses[0].partitions[0].error_code
}

fn world_of_100_records() -> World {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    for at in 0..100 {
        world.ask(client, PRODUCE, &produce("t", 0, batch(&["value"], 1_000 + at), 1));
    }
    world
}

#[test]
fn records_are_deleted_below_an_offset_and_never_come_back() {
    let mut world = world_of_100_records();
    let out_of_range = ErrorCode::OffsetOutOfRange.code();
    for (offset, expected, start) in
        [(50, (0, 50), 50), (20, (0, 50), 50), (-1, (0, 100), 100), (101, (out_of_range, -1), 100)]
    {
        assert_eq!(delete(&mut world, offset), expected, "to {offset}");
        assert_eq!(list(&mut world, 10, -2), (0, start, -1));
        assert_eq!(fetch_error(&mut world, start - 1), out_of_range);
    }
    assert_eq!(delete(&mut world, -2), (out_of_range, -1));
    assert_eq!(list(&mut world, 10, -1), (0, 100, -1));
}

#[test]
fn offsets_beyond_either_end_are_out_of_range_and_the_end_itself_is_not() {
    let mut world = world_of_100_records();
    delete(&mut world, 10);
    let out_of_range = ErrorCode::OffsetOutOfRange.code();
    for (offset, error) in
        [(9, out_of_range), (10, 0), (99, 0), (100, 0), (101, out_of_range), (-1, out_of_range)]
    {
        assert_eq!(fetch_error(&mut world, offset), error, "{offset}");
    }
}

#[test]
fn records_lie_without_gaps_from_0_on() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let mut expected = 0;
    for count in [1, 7, 2, 30, 5] {
        let values = vec!["value"; count];
        let response = world.ask(client, PRODUCE, &produce("t", 0, batch(&values, 1), -1));
        assert_eq!(response.responses[0].partition_responses[0].base_offset, expected);
        expected += count as i64;
    }
    assert_eq!(list(&mut world, 10, -1).1, expected);
    let read = values(records_of(&world.ask(client, FETCH, &fetch("t", 0, 0))));
    assert!(read.iter().map(|(offset, _)| *offset).eq(0..expected));
}

#[test]
fn every_special_timestamp_has_its_version_and_nothing_is_no_error() {
    let unsupported = (ErrorCode::UnsupportedVersion.code(), -1, -1);
    let nothing = (0, -1, -1);
    let place = |offset| (0, offset, -1);
    // The timestamp, the version from which it is known, and its answers for 0, 100 and no more records.
    let cases = [
        (-1, 1, [place(0), place(100), place(100)]),
        (-2, 1, [place(0), place(0), place(100)]),
        // The segment with the deleted records is still there, and Kafka looks at no more than that.
        (-3, 7, [nothing, (0, 99, 1_099), (0, 99, 1_099)]),
        (-4, 8, [place(0), place(0), place(100)]),
        (-5, 9, [nothing, nothing, nothing]),
        (-6, 11, [unsupported; 3]),
        (-7, i16::MAX, [unsupported; 3]),
        (1_050, 1, [nothing, (0, 50, 1_050), nothing]),
        (5_000, 1, [nothing, nothing, nothing]),
    ];
    let mut empty = World::new();
    empty.create_topic("t", 1, &[]);
    let full = world_of_100_records();
    let mut deleted = full.clone();
    delete(&mut deleted, -1);
    for (mut world, at) in [(empty, 0), (full, 1), (deleted, 2)] {
        for (timestamp, since, answers) in cases {
            for version in 1..=10 {
                let expected = if version < since { unsupported } else { answers[at] };
                let found = list(&mut world, version, timestamp);
                assert_eq!(found, expected, "timestamp {timestamp}, v{version}, world {at}");
            }
        }
    }
}
