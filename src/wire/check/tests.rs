use super::*;
use kafka_protocol::messages::{ProduceRequest, RequestHeader};
use kafka_protocol::protocol::Decodable;
use proptest::prelude::*;

use crate::wire::batch::{HEADER_LEN, Stamp, stamped};
use crate::wire::compression::{DECOMPRESSED_BYTES_MAX, decompress};
use crate::wire::records::{BatchBuilder, BatchHeader, RecordIter};
use crate::wire::walk::{first_record_at_or_after, record_with_max_timestamp};

const NOW_MS: i64 = 1_700_000_000_000;
const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

fn batch(codec: Codec, records: &[(i64, Option<&str>)]) -> Bytes {
    let mut builder = BatchBuilder::new(BatchHeader { codec, ..BatchHeader::default() });
    for (timestamp, key) in records {
        builder.push(*timestamp, key.map(str::as_bytes), Some(b"value"), []);
    }
    builder.build().unwrap()
}

fn check(bytes: &Bytes) -> Result<CheckedBatch, BatchError> {
    check_context_free(bytes.clone(), 13, DECOMPRESSED_BYTES_MAX)
}

fn accept(bytes: &Bytes, rules: &TopicRules) -> Result<Bytes, Rejection> {
    check(bytes).unwrap().accept(rules, NOW_MS, &"t-0")
}

#[test]
fn sound_batch_of_every_codec_is_accepted_as_it_is() {
    for codec in CODECS {
        let bytes = batch(codec, &[(NOW_MS, Some("a")), (NOW_MS - 5, None), (-1, Some(""))]);
        assert_eq!(accept(&bytes, &TopicRules::default()).unwrap(), bytes, "{codec:?}");
    }
}

#[test]
fn rebuilding_keeps_records_for_every_pair_of_codecs() {
    for from in CODECS {
        let bytes = batch(from, &[(NOW_MS, Some("a")), (NOW_MS + 5, None)]);
        for to in CODECS {
            let rules = TopicRules { compression: Some(to), ..TopicRules::default() };
            let rebuilt = accept(&bytes, &rules).unwrap();
            assert_eq!(BatchView::new(&rebuilt).unwrap().codec(), Some(to));
            let back = rebuild(&rebuilt, from, DECOMPRESSED_BYTES_MAX).unwrap();
            assert_eq!(back, bytes, "{from:?} {to:?}");
        }
    }
}

#[test]
fn complaints_come_in_kafkas_order() {
    let sound = batch(Codec::None, &[(NOW_MS, None)]);
    let small = TopicRules { max_message_bytes: sound.len() - 1, ..TopicRules::default() };
    let rejected = |bytes: &Bytes, rules: &TopicRules| accept(bytes, rules).unwrap_err().code;

    let mut bytes = sound.to_vec();
    bytes[60] ^= 1;
    let wrong_crc = Bytes::from(bytes.clone());
    assert_eq!(rejected(&wrong_crc, &TopicRules::default()), ErrorCode::CorruptMessage);
    assert_eq!(rejected(&wrong_crc, &small), ErrorCode::MessageTooLarge);
    bytes[7] = 1;
    assert_eq!(rejected(&Bytes::from(bytes), &small), ErrorCode::InvalidRecord);
    assert_eq!(rejected(&sound, &small), ErrorCode::MessageTooLarge);
}

#[test]
fn size_counts_again_after_a_rebuild() {
    let mut builder = BatchBuilder::new(BatchHeader { codec: Codec::Zstd, ..BatchHeader::default() });
    builder.push(NOW_MS, None, Some(&[0; 2000]), []);
    let bytes = builder.build().unwrap();
    let rules =
        TopicRules { max_message_bytes: 1000, compression: Some(Codec::None), ..TopicRules::default() };
    assert!(bytes.len() < 1000);
    assert_eq!(accept(&bytes, &rules).unwrap_err().code, ErrorCode::MessageTooLarge);
}

#[test]
fn bad_records_are_listed_up_to_a_limit() {
    let rules = TopicRules { compacted: true, ..TopicRules::default() };
    let many = RECORD_ERRORS_MAX + 5;
    for codec in [Codec::None, Codec::Lz4] {
        let rejection = accept(&batch(codec, &vec![(NOW_MS, None); many]), &rules).unwrap_err();
        assert_eq!(
            (rejection.code, rejection.record_errors.len()),
            (ErrorCode::InvalidRecord, RECORD_ERRORS_MAX)
        );
        assert!(rejection.message.unwrap().contains(&format!("{many} record errors in total")));
    }
}

#[test]
fn more_than_the_limit_is_not_decompressed() {
    for codec in CODECS {
        let bytes = batch(codec, &vec![(NOW_MS, None); 1000]);
        let checked = check_context_free(bytes.clone(), 13, 1000).unwrap();
        let verdict = checked.accept(&TopicRules::default(), NOW_MS, &"t-0");
        if codec == Codec::None {
            assert_eq!(verdict, Ok(bytes), "the limit is for what is decompressed");
        } else {
            assert_eq!(verdict.unwrap_err().code, ErrorCode::InvalidRecord, "{codec:?}");
        }
    }
}

fn write_stamp(bytes: &mut [u8], stamp: Stamp) {
    let header = stamped(bytes, stamp).expect("a batch");
    bytes[..HEADER_LEN].copy_from_slice(&header);
}

#[test]
fn append_time_replaces_what_the_producer_said() {
    const YEAR_2001_MS: i64 = 1_000_000_000_000;
    let rules = TopicRules { timestamp_type: TimestampType::LogAppendTime, ..TopicRules::default() };
    for codec in CODECS {
        let sent = batch(codec, &[(YEAR_2001_MS, None), (YEAR_2001_MS + 1, None)]);
        let mut bytes = accept(&sent, &rules).unwrap().to_vec();
        write_stamp(&mut bytes, Stamp { base_offset: 40, leader_epoch: 3, append_time_ms: Some(NOW_MS) });
        let view = BatchView::new(&bytes).unwrap();
        assert_eq!((view.base_offset(), view.leader_epoch(), view.max_timestamp()), (40, 3, NOW_MS));
        assert!(view.is_log_append_time());
        assert_eq!(view.crc(), crc32c::crc32c(&bytes[21..]));
        assert_eq!(bytes[HEADER_LEN..], sent[HEADER_LEN..]);
        let found = |timestamp| first_record_at_or_after(&bytes, timestamp, 0, DECOMPRESSED_BYTES_MAX);
        assert_eq!(found(NOW_MS - 1000), Ok(Some((40, NOW_MS))));
        assert_eq!(found(YEAR_2001_MS + 1), Ok(Some((40, NOW_MS))));
        assert_eq!(found(NOW_MS + 1), Ok(None));
        assert_eq!(record_with_max_timestamp(&bytes, DECOMPRESSED_BYTES_MAX), Ok(Some((40, NOW_MS))));
    }
}

#[test]
fn records_are_found_by_time_in_every_codec() {
    for codec in CODECS {
        let bytes = batch(codec, &[(100, None), (300, None), (200, None), (300, None)]);
        let found =
            |timestamp, start| first_record_at_or_after(&bytes, timestamp, start, DECOMPRESSED_BYTES_MAX);
        assert_eq!(found(0, 0), Ok(Some((0, 100))));
        assert_eq!(found(150, 0), Ok(Some((1, 300))));
        assert_eq!(found(150, 2), Ok(Some((2, 200))));
        assert_eq!(found(250, 2), Ok(Some((3, 300))));
        assert_eq!(found(301, 0), Ok(None));
        assert_eq!(record_with_max_timestamp(&bytes, DECOMPRESSED_BYTES_MAX), Ok(Some((1, 300))));
    }
}

#[test]
fn batches_of_stock_clients_are_accepted_as_they_are() {
    let sessions = [
        include_str!("../../../fixtures/sessions/franz-go.jsonl"),
        include_str!("../../../fixtures/sessions/java.jsonl"),
        include_str!("../../../fixtures/sessions/kcat.jsonl"),
        include_str!("../../../fixtures/sessions/librdkafka.jsonl"),
    ];
    let mut codecs = [0; 5];
    for batch in sessions.iter().flat_map(|session| produced(session)) {
        let accepted = accept(&batch, &TopicRules { after_max_ms: i64::MAX, ..TopicRules::default() });
        assert_eq!(accepted, Ok(batch.clone()));
        let codec = BatchView::new(&batch).unwrap().codec().unwrap();
        codecs[codec as usize] += 1;
        let body = decompress(codec, &batch.slice(HEADER_LEN..), DECOMPRESSED_BYTES_MAX).unwrap();
        let rules =
            TopicRules { after_max_ms: i64::MAX, compression: Some(Codec::None), ..TopicRules::default() };
        let plain = accept(&batch, &rules).unwrap();
        assert_eq!(plain[HEADER_LEN..], body[..], "what we write is what clients write");
    }
    assert!(codecs.iter().all(|batches| *batches >= 2), "{codecs:?}");
}

/// The batches of all Produce requests in a recorded session.
fn produced(session: &str) -> Vec<Bytes> {
    let mut batches = Vec::new();
    for line in session.lines().filter(|line| line.contains("\"key\":0,")) {
        let field = |name: &str| line.split_once(name).unwrap().1;
        let version: i16 = field("\"version\":").split(',').next().unwrap().parse().unwrap();
        let mut frame = Bytes::from(unhex(field("\"request\":\"").split('"').next().unwrap()));
        let header_version = if version >= 9 { 2 } else { 1 };
        RequestHeader::decode(&mut frame, header_version).unwrap();
        for topic in ProduceRequest::decode(&mut frame, version).unwrap().topic_data {
            batches.extend(topic.partition_data.into_iter().map(|partition| partition.records.unwrap()));
        }
    }
    batches
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).unwrap() as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[derive(Clone, Debug)]
struct Record {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

fn records() -> impl Strategy<Value = Vec<Record>> {
    let content = || prop::option::of(prop::collection::vec(any::<u8>(), 0..200));
    let headers = prop::collection::vec((prop::collection::vec(any::<u8>(), 0..9), content()), 0..4);
    let timestamp = prop_oneof![NOW_MS - 20_000..NOW_MS, Just(-1), 0..NOW_MS];
    let record = (timestamp, content(), content(), headers)
        .prop_map(|(timestamp, key, value, headers)| Record { timestamp, key, value, headers });
    prop::collection::vec(record, 1..50)
}

fn built(codec: Codec, records: &[Record]) -> Bytes {
    let mut builder = BatchBuilder::new(BatchHeader { codec, ..BatchHeader::default() });
    for record in records {
        let headers = record.headers.iter().map(|(key, value)| (&key[..], value.as_deref()));
        builder.push(record.timestamp, record.key.as_deref(), record.value.as_deref(), headers);
    }
    builder.build().unwrap()
}

fn with_crc(mut bytes: Vec<u8>) -> Bytes {
    let crc = crc32c::crc32c(bytes.get(21..).unwrap_or_default());
    put(&mut bytes, 17, &crc.to_be_bytes());
    Bytes::from(bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_built_is_accepted_and_read_back(records in records(), codec in prop::sample::select(&CODECS[..])) {
        let bytes = built(codec, &records);
        prop_assert_eq!(accept(&bytes, &TopicRules::default()), Ok(bytes.clone()));
        let body = decompress(codec, &bytes.slice(HEADER_LEN..), DECOMPRESSED_BYTES_MAX).unwrap();
        let view = BatchView::new(&bytes).unwrap();
        let mut seen = 0;
        for (index, (read, record)) in RecordIter::new(&body, view.count()).zip(&records).enumerate() {
            let read = read.unwrap();
            prop_assert_eq!(read.offset_delta as usize, index);
            prop_assert_eq!(view.base_timestamp() + read.timestamp_delta, record.timestamp);
            prop_assert_eq!(read.key, record.key.as_deref());
            prop_assert_eq!(read.value, record.value.as_deref());
            let headers: Vec<_> = read.headers.iter().map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))).collect();
            prop_assert_eq!(&headers, &record.headers);
            seen += 1;
        }
        prop_assert_eq!(seen, records.len());
    }

    #[test]
    fn changed_bytes_are_no_danger(
        records in records(),
        codec in prop::sample::select(&CODECS[..]),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
        version in 3..14i16,
    ) {
        let mut bytes = built(codec, &records).to_vec();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let bytes = with_crc(bytes);
        let rules = [
            TopicRules { compacted: true, ..TopicRules::default() },
            TopicRules { compression: Some(Codec::Snappy), before_max_ms: 1000, ..TopicRules::default() },
            TopicRules { timestamp_type: TimestampType::LogAppendTime, ..TopicRules::default() },
        ];
        for rules in rules {
            let checked = check_context_free(bytes.clone(), version, DECOMPRESSED_BYTES_MAX);
            let accepted = checked.map(|checked| checked.accept(&rules, NOW_MS, &"t-0"));
            if let Ok(Ok(accepted)) = accepted {
                let again = check_context_free(accepted, 13, DECOMPRESSED_BYTES_MAX).unwrap();
                prop_assert!(again.facts.is_ok(), "what was accepted is sound");
            }
        }
        let _ = first_record_at_or_after(&bytes, NOW_MS - 5000, 0, DECOMPRESSED_BYTES_MAX);
        let _ = record_with_max_timestamp(&bytes, DECOMPRESSED_BYTES_MAX);
    }
}

mod verdicts {
    //! The same batches that Kafka judged, with the same verdict.
    use super::*;

    struct Verdict<'a> {
        line: &'a str,
        rules: TopicRules,
        partition: String,
        produce_version: i16,
        now_ms: i64,
        code: ErrorCode,
        start: &'a str,
        record_errors: Vec<(i32, Option<String>)>,
        message: Option<String>,
        stored: Option<Vec<u8>>,
        produced: Bytes,
    }

    fn rules(topic: &str) -> TopicRules {
        let plain = TopicRules::default();
        let append_time = TopicRules { timestamp_type: TimestampType::LogAppendTime, ..plain };
        match topic {
            "p" => plain,
            "c" => TopicRules { compacted: true, ..plain },
            "l" => append_time,
            "u" => TopicRules { compression: Some(Codec::None), ..plain },
            "z" => TopicRules { compression: Some(Codec::Zstd), ..plain },
            "lu" => TopicRules { compression: Some(Codec::None), ..append_time },
            "lz" => TopicRules { compression: Some(Codec::Zstd), ..append_time },
            "s" => TopicRules { max_message_bytes: 200, ..plain },
            "b" => TopicRules { before_max_ms: 1000, ..plain },
            "cb" => TopicRules { before_max_ms: 1000, compacted: true, ..plain },
            _ => panic!("unknown topic {topic}"),
        }
    }

    fn parse(line: &str) -> Verdict<'_> {
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, topic, version, now, code, start, records, message, stored, produced] = columns[..] else {
            panic!("columns of {line}")
        };
        Verdict {
            line,
            rules: rules(topic),
            partition: format!("{topic}-0"),
            produce_version: version.parse().unwrap(),
            now_ms: now.parse().unwrap(),
            code: ErrorCode::from_code(code.parse().unwrap()).unwrap(),
            start,
            record_errors: records
                .split('|')
                .filter(|record| *record != "-")
                .map(|record| record.split_once('=').unwrap())
                .map(|(index, message)| (index.parse().unwrap(), Some(message.to_owned())))
                .collect(),
            message: (message != "-").then(|| message.to_owned()),
            stored: (stored != "-").then(|| unhex(stored)),
            produced: Bytes::from(unhex(produced)),
        }
    }

    fn ours(verdict: &Verdict<'_>) -> Result<Bytes, (&'static str, Rejection)> {
        let produced = verdict.produced.clone();
        match check_context_free(produced, verdict.produce_version, DECOMPRESSED_BYTES_MAX) {
            Ok(checked) => {
                checked.accept(&verdict.rules, verdict.now_ms, &verdict.partition).map_err(|rejection| {
                    (if rejection.reports_log_start { "start" } else { "no-start" }, rejection)
                })
            }
            Err(error) => {
                let rejection = Rejection::from(&error);
                Err((if error.fails_request() { "request" } else { "no-start" }, rejection))
            }
        }
    }

    /// Header from the attributes on, and the records decompressed.
    fn content(batch: &Bytes) -> (Bytes, Bytes) {
        let codec = BatchView::new(batch).unwrap().codec().unwrap();
        let body = decompress(codec, &batch.slice(HEADER_LEN..), DECOMPRESSED_BYTES_MAX).unwrap();
        (batch.slice(21..HEADER_LEN), body)
    }

    #[test]
    fn every_batch_is_judged_as_kafka_does() {
        // Decoders that are stricter than Java's, about bytes that no encoder writes.
        let stricter = ["gzip reserved flags", "zstd second frame cut"];
        let mut differences = Vec::new();
        let (mut kept, mut refused) = (0, 0);
        for line in include_str!("../../../fixtures/batches/verdicts.tsv").lines() {
            if line.starts_with('#') || stricter.iter().any(|name| line.starts_with(name)) {
                continue;
            }
            let verdict = parse(line);
            let head = verdict.line.split('\t').take(5).collect::<Vec<_>>().join(" ");
            match ours(&verdict) {
                Ok(bytes) if verdict.code == ErrorCode::None => {
                    let stored = verdict.stored.as_ref().expect("what was accepted was fetched again");
                    kept += 1;
                    let append_time_ms = (verdict.rules.timestamp_type == TimestampType::LogAppendTime)
                        .then_some(verdict.now_ms);
                    let mut bytes = bytes.to_vec();
                    write_stamp(&mut bytes, Stamp { base_offset: 0, leader_epoch: 0, append_time_ms });
                    if &bytes[16..] != stored {
                        let whole = Bytes::from([&bytes[..16], stored].concat());
                        let (ours, kafkas) = (content(&Bytes::from(bytes)), content(&whole));
                        if ours != kafkas {
                            differences.push(format!("{head}\n  stored {ours:x?}\n  kafka  {kafkas:x?}"));
                        }
                    }
                }
                Ok(_) => differences.push(format!("{head}: accepted")),
                Err((start, rejection)) => {
                    refused += 1;
                    // Before version 8 no messages and record errors are sent.
                    let (message, record_errors) = if verdict.produce_version < 8 {
                        (None, Vec::new())
                    } else {
                        (rejection.message, rejection.record_errors)
                    };
                    // Before version 5 there is no log start offset.
                    let start = if verdict.produce_version < 5 { verdict.start } else { start };
                    if (rejection.code, start, &message, &record_errors)
                        != (verdict.code, verdict.start, &verdict.message, &verdict.record_errors)
                    {
                        differences.push(format!(
                            "{head}: {:?} {start} {message:?} {record_errors:?} instead of {} {:?} {:?}",
                            rejection.code, verdict.start, verdict.message, verdict.record_errors
                        ));
                    }
                }
            }
        }
        assert!(kept > 400 && refused > 350, "{kept} kept, {refused} refused");
        assert!(differences.is_empty(), "{} differences\n{}", differences.len(), differences.join("\n"));
    }
}
