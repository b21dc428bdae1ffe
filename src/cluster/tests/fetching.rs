//! Fetch as a client sees it: when it waits, for how long, and what it gets.

use super::*;
use crate::base::ErrorCode;

fn world() -> (World, ConnectionId, ConnectionId) {
    let mut world = World::new();
    world.create_topic("t", 2, &[]);
    let (reader, writer) = (world.connect(), world.connect());
    (world, reader, writer)
}

#[test]
fn an_idle_fetch_is_answered_at_max_wait_and_not_before() {
    let (mut world, reader, _) = world();
    world.send(reader, FETCH, &fetch("t", 0, 0));
    world.advance(Duration::from_millis(499));
    assert!(world.received::<FetchRequest>(reader, FETCH).is_none());
    world.advance(Duration::from_millis(1));
    let response = world.received::<FetchRequest>(reader, FETCH).expect("answered at max wait");
    let partition = &response.responses[0].partitions[0];
    assert_eq!(partition.records.as_ref().map(Bytes::len), Some(0), "zero bytes, never null");
    assert_eq!((partition.error_code, partition.high_watermark, partition.log_start_offset), (0, 0, 0));
    assert_eq!(world.cluster.metrics(Kind::Fetch).expired, 1);
}

#[test]
fn min_bytes_are_summed_over_partitions() {
    let (mut world, reader, writer) = world();
    let size = batch(&["0123456789"], 1).len() as i32;
    let mut request = fetch("t", 0, 0).with_min_bytes(2 * size);
    let mut other = request.topics[0].partitions[0].clone();
    other.partition = 1;
    request.topics[0].partitions.push(other);
    world.send(reader, FETCH, &request);
    world.ask(writer, PRODUCE, &produce("t", 0, batch(&["0123456789"], 1), 1));
    assert!(world.received::<FetchRequest>(reader, FETCH).is_none(), "half is not enough");
    world.ask(writer, PRODUCE, &produce("t", 1, batch(&["0123456789"], 1), 1));
    let response = world.received::<FetchRequest>(reader, FETCH).expect("enough has come");
    let partitions = &response.responses[0].partitions;
    assert!(partitions.iter().all(|partition| partition.records.as_ref().unwrap().len() == size as usize));
    assert_eq!(world.cluster.metrics(Kind::Fetch).completed, 1);
    assert!(world.cluster.waits(world.now()).is_empty());
}

#[test]
fn a_wait_says_what_it_waits_for() {
    let (mut world, reader, writer) = world();
    world.send(reader, FETCH, &fetch("t", 0, 0).with_min_bytes(1000));
    world.ask(writer, PRODUCE, &produce("t", 0, batch(&["0123456789"], 1), 1));
    let waits = world.cluster.waits(world.now());
    assert_eq!(waits.len(), 1);
    assert_eq!(waits[0].description.waits_for, "t-0");
    assert_eq!(waits[0].description.progress, format!("bytes {} of 1000", batch(&["0123456789"], 1).len()));
    assert_eq!(waits[0].client_id.as_deref(), Some("tester"));
    assert_eq!(waits[0].waiter.deadline, Instant::from_millis(500));
}

#[test]
fn an_offset_out_of_range_is_answered_at_once() {
    let (mut world, reader, writer) = world();
    world.ask(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    for offset in [2, -1] {
        let response: FetchResponse = world.ask(reader, FETCH, &fetch("t", 0, offset));
        let partition = &response.responses[0].partitions[0];
        assert_eq!(partition.error_code, ErrorCode::OffsetOutOfRange.code(), "{offset}");
        assert_eq!(partition.high_watermark, -1);
    }
}

#[test]
fn an_unknown_partition_beside_a_readable_one_does_not_end_the_wait() {
    let (mut world, reader, _) = world();
    let mut request = fetch("t", 0, 0);
    let mut missing = request.topics[0].partitions[0].clone();
    missing.partition = 9;
    request.topics[0].partitions.insert(0, missing);
    world.send(reader, FETCH, &request);
    assert!(world.received::<FetchRequest>(reader, FETCH).is_none());
    world.advance(Duration::from_millis(500));
    let response = world.received::<FetchRequest>(reader, FETCH).unwrap();
    let errors: Vec<(i32, i16)> = response.responses[0]
        .partitions
        .iter()
        .map(|partition| (partition.partition_index, partition.error_code))
        .collect();
    assert_eq!(errors, [(0, 0), (9, ErrorCode::UnknownTopicOrPartition.code())]);
    let response: FetchResponse = world.ask(reader, FETCH, &fetch("missing", 0, 0));
    assert_eq!(response.responses[0].partitions[0].error_code, ErrorCode::UnknownTopicOrPartition.code());
}

#[test]
fn deleting_the_topic_wakes_a_fetch() {
    let (mut world, reader, writer) = world();
    world.send(reader, FETCH, &fetch("t", 0, 0));
    let delete = kafka_protocol::messages::DeleteTopicsRequest::default()
        .with_topic_names(vec![topic("t")])
        .with_timeout_ms(1000);
    assert_eq!(world.ask(writer, 5, &delete).responses[0].error_code, 0);
    let response = world.received::<FetchRequest>(reader, FETCH).expect("woken");
    assert_eq!(response.responses[0].partitions[0].error_code, ErrorCode::UnknownTopicOrPartition.code());
}

#[test]
fn a_client_that_goes_takes_its_wait_with_it() {
    let (mut world, reader, writer) = world();
    world.send(reader, FETCH, &fetch("t", 0, 0).with_max_wait_ms(i32::MAX));
    assert_eq!(world.cluster.waits(world.now()).len(), 1);
    world.disconnect(reader);
    assert!(world.cluster.waits(world.now()).is_empty());
    assert_eq!(world.cluster.metrics(Kind::Fetch).removed, 1);
    world.ask(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    assert!(world.received::<FetchRequest>(reader, FETCH).is_none());
}

#[test]
fn shutdown_answers_what_waits() {
    let (mut world, reader, _) = world();
    world.send(reader, FETCH, &fetch("t", 0, 0));
    world.cluster.handle_command(world.now(), Command::Shutdown).unwrap();
    world.collect();
    assert!(world.received::<FetchRequest>(reader, FETCH).is_some());
}

#[test]
fn the_first_batch_comes_whole_and_after_it_limits_are_hard() {
    let (mut world, reader, writer) = world();
    let large = "x".repeat(1000);
    for index in [0, 1] {
        world.ask(writer, PRODUCE, &produce("t", index, batch(&[&large], 1), 1));
    }
    let mut request = fetch("t", 0, 0).with_max_bytes(100);
    let mut other = request.topics[0].partitions[0].clone();
    other.partition = 1;
    request.topics[0].partitions.push(other);
    let response: FetchResponse = world.ask(reader, FETCH, &request);
    let sizes: Vec<usize> = response.responses[0]
        .partitions
        .iter()
        .map(|partition| partition.records.as_ref().unwrap().len())
        .collect();
    assert!(sizes[0] > 1000, "{sizes:?}");
    assert_eq!(sizes[1], 0);
}

#[test]
fn a_session_tells_only_what_changed() {
    let (mut world, reader, writer) = world();
    let mut request = fetch("t", 0, 0).with_session_epoch(0).with_max_wait_ms(0);
    let mut other = request.topics[0].partitions[0].clone();
    other.partition = 1;
    request.topics[0].partitions.push(other);
    let full: FetchResponse = world.ask(reader, FETCH, &request);
    assert_ne!(full.session_id, 0);
    assert_eq!(full.responses[0].partitions.len(), 2);
    world.ask(writer, PRODUCE, &produce("t", 1, batch(&["a"], 1), 1));
    let next = fetch("t", 0, 0)
        .with_topics(Vec::new())
        .with_session_id(full.session_id)
        .with_session_epoch(1)
        .with_max_wait_ms(0);
    let response: FetchResponse = world.ask(reader, FETCH, &next);
    assert_eq!(response.responses[0].partitions.len(), 1);
    assert_eq!(response.responses[0].partitions[0].partition_index, 1);
    let response: FetchResponse = world.ask(reader, FETCH, &next);
    assert_eq!(response.error_code, ErrorCode::InvalidFetchSessionEpoch.code());
}

#[test]
fn large_batches_are_looked_into_outside_of_the_cluster() {
    use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
    use kafka_protocol::messages::{ListOffsetsRequest, ListOffsetsResponse};
    let mut world = World::new();
    world.create_topic("t", 2, &[]);
    let client = world.connect();
    let squeezed = |values: usize| {
        let mut builder = BatchBuilder::new(BatchHeader { codec: Codec::Zstd, ..BatchHeader::default() });
        for at in 0..values {
            let value: Vec<u8> = (0..1000).map(|byte: usize| (at * 31 + byte * byte) as u8).collect();
            builder.push(1_000 + at as i64, None, Some(&value), std::iter::empty());
        }
        builder.build().unwrap()
    };
    for (index, values) in [(0, 1), (1, 500)] {
        let response: ProduceResponse =
            world.ask(client, PRODUCE, &produce("t", index, squeezed(values), -1));
        assert_eq!(error_of(&response), 0);
    }
    let ask = |index, timestamp| {
        let partition = ListOffsetsPartition::default().with_partition_index(index).with_timestamp(timestamp);
        let topic = ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
        ListOffsetsRequest::default().with_topics(vec![topic])
    };
    let mut reply = |index, timestamp, limit| {
        world.limits.max_decompressed_bytes = limit;
        let mut frame = BytesMut::new();
        let header = RequestHeader::default().with_request_api_key(2).with_request_api_version(7);
        header.encode(&mut frame, ListOffsetsRequest::header_version(7)).unwrap();
        ask(index, timestamp).encode(&mut frame, 7).unwrap();
        let prepared = Preparer::new(world.limits).prepare(frame.freeze()).unwrap();
        world.cluster.handle_request(world.now(), client, prepared);
        let Some(Output::Reply(reply)) = world.cluster.poll_output() else { panic!("no reply") };
        reply
    };
    let row = |reply: &Reply| {
        let (mut buffer, mut parts) = (BytesMut::new(), Vec::new());
        encode(reply, &mut buffer, &mut parts).unwrap();
        let mut body = Bytes::from(parts.concat()).slice(9..);
        let response = ListOffsetsResponse::decode(&mut body, 7).unwrap();
        let row = &response.topics[0].partitions[0];
        (row.error_code, row.offset, row.timestamp)
    };
    const LIMIT: usize = 1 << 20;
    assert!(!reply(0, 1_000, LIMIT).is_heavy(), "a small batch is no work");
    assert!(!reply(1, -1, LIMIT).is_heavy(), "an end is no record");
    for timestamp in [1_400, -3] {
        let heavy = reply(1, timestamp, LIMIT);
        assert!(heavy.is_heavy());
        let expected = if timestamp < 0 { (0, 499, 1_499) } else { (0, 400, 1_400) };
        assert_eq!(row(&heavy), expected, "what isn't finished is when it is encoded");
        let finished = heavy.finish();
        assert!(!finished.is_heavy());
        assert_eq!(row(&finished), expected);
    }
    assert_eq!(row(&reply(1, 1_501, LIMIT)), (0, -1, -1));
    assert_eq!(row(&reply(1, 1_400, 1_000)).0, 2, "more than may be decompressed");
}
