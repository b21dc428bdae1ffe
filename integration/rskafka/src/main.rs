//! rskafka against the broker at HULD_BOOTSTRAP: the list of README.md, as far as this client goes. It knows no
//! groups. With an argument, only the tests whose name contains it. Exits with 1 if a test failed.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Utc};
use rskafka::client::error::{Error, ProtocolError};
use rskafka::client::partition::{Compression, OffsetAt, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::{Record, RecordAndOffset};

type Outcome = Result<(), String>;
type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;

const TEST_LIMIT: Duration = Duration::from_secs(20);
const START_MS: i64 = 1_700_000_000_000;
const MAX_MESSAGE_BYTES: usize = 1_048_588; // The broker's default.
const MAX_WAIT_MS: i32 = 5_000;

#[tokio::main]
async fn main() -> ExitCode {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let mut failures = 0;
    for (name, test) in tests() {
        if !name.contains(&filter) {
            continue;
        }
        let outcome = tokio::spawn(tokio::time::timeout(TEST_LIMIT, test)).await;
        let reason = match outcome {
            Ok(Ok(Ok(()))) => {
                println!("ok {name}");
                continue;
            }
            Ok(Ok(Err(reason))) => reason,
            Ok(Err(_)) => format!("not done after {TEST_LIMIT:?}"),
            Err(panicked) => panicked.to_string(),
        };
        failures += 1;
        println!("not ok {name}: {}", reason.replace('\n', " "));
    }
    ExitCode::from(u8::from(failures > 0))
}

fn tests() -> Vec<(&'static str, Running)> {
    vec![
        ("create_and_delete_topic", Box::pin(create_and_delete_topic())),
        ("usable_after_creation", Box::pin(usable_after_creation())),
        ("round_trip_none", Box::pin(round_trip(Compression::NoCompression))),
        ("round_trip_gzip", Box::pin(round_trip(Compression::Gzip))),
        ("round_trip_snappy", Box::pin(round_trip(Compression::Snappy))),
        ("round_trip_lz4", Box::pin(round_trip(Compression::Lz4))),
        ("round_trip_zstd", Box::pin(round_trip(Compression::Zstd))),
        ("offsets_for_times", Box::pin(offsets_for_times())),
        ("seek", Box::pin(seek())),
        ("delete_records", Box::pin(delete_records())),
        ("long_poll_idle", Box::pin(long_poll_idle())),
        ("long_poll_wakes", Box::pin(long_poll_wakes())),
        ("large_message", Box::pin(large_message())),
        ("message_too_large", Box::pin(message_too_large())),
    ]
}

fn topic_name() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("it-{:x}-{:x}", std::process::id(), since.as_nanos())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, actual: T) -> Outcome {
    if expected == actual {
        return Ok(());
    }
    let shorten = |value| format!("{value:?}").chars().take(200).collect::<String>();
    Err(format!("{what}: expected {}, got {}", shorten(expected), shorten(actual)))
}

/// Whether it failed with this code of the protocol.
fn fails<T>(what: &str, expected: ProtocolError, result: Result<T, Error>) -> Outcome {
    match result {
        Err(Error::ServerError { protocol_error, .. }) => equal(what, expected, protocol_error),
        Err(other) => Err(format!("{what}: {other}")),
        Ok(_) => Err(format!("{what} succeeded")),
    }
}

async fn client() -> Result<Client, String> {
    let bootstrap = std::env::var("HULD_BOOTSTRAP").map_err(text)?;
    ClientBuilder::new(vec![bootstrap]).build().await.map_err(text)
}

/// A topic of one partition, and a client for that.
async fn created() -> Result<(String, Arc<PartitionClient>), String> {
    let topic = topic_name();
    let client = client().await?;
    let controller = client.controller_client().map_err(text)?;
    controller.create_topic(&topic, 1, 1, MAX_WAIT_MS).await.map_err(text)?;
    Ok((topic.clone(), partition(&client, &topic, 0).await?))
}

async fn partition(client: &Client, topic: &str, index: i32) -> Result<Arc<PartitionClient>, String> {
    client.partition_client(topic, index, UnknownTopicHandling::Retry).await.map(Arc::new).map_err(text)
}

fn at(milliseconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(START_MS + milliseconds).unwrap_or_default()
}

/// One record a second; each has its number as value.
fn numbered(count: i64) -> Vec<Record> {
    let record = |number: i64| Record {
        key: None,
        value: Some(number.to_string().into_bytes()),
        headers: BTreeMap::new(),
        timestamp: at(1000 * number),
    };
    (0..count).map(record).collect()
}

fn of_size(bytes: usize) -> Vec<Record> {
    vec![Record { key: None, value: Some(vec![0; bytes]), headers: BTreeMap::new(), timestamp: at(0) }]
}

async fn filled(count: i64) -> Result<Arc<PartitionClient>, String> {
    let (_, partition) = created().await?;
    let offsets = partition.produce(numbered(count), Compression::Zstd).await.map_err(text)?;
    equal("offsets produced", (0..count).collect(), offsets)?;
    Ok(partition)
}

async fn read(
    partition: &PartitionClient,
    mut offset: i64,
    count: usize,
) -> Result<Vec<RecordAndOffset>, String> {
    let mut records = Vec::new();
    while records.len() < count {
        let (more, _) = partition.fetch_records(offset, 1..2_000_000, MAX_WAIT_MS).await.map_err(text)?;
        offset = more.last().map_or(offset, |last| last.offset + 1);
        records.extend(more);
    }
    equal("records", count, records.len())?;
    Ok(records)
}

async fn create_and_delete_topic() -> Outcome {
    let client = client().await?;
    let controller = client.controller_client().map_err(text)?;
    let topic = topic_name();
    controller.create_topic(&topic, 3, 1, MAX_WAIT_MS).await.map_err(text)?;
    partition(&client, &topic, 2).await?;
    let listed = client.list_topics().await.map_err(text)?;
    let found = listed.into_iter().find(|each| each.name == topic).map(|each| each.partitions.len());
    equal("partitions", Some(3), found)?;
    let again = controller.create_topic(&topic, 3, 1, MAX_WAIT_MS).await;
    fails("second creation", ProtocolError::TopicAlreadyExists, again)?;
    controller.delete_topic(&topic, MAX_WAIT_MS).await.map_err(text)?;
    let again = controller.delete_topic(&topic, MAX_WAIT_MS).await;
    fails("second deletion", ProtocolError::UnknownTopicOrPartition, again)
}

async fn usable_after_creation() -> Outcome {
    for _ in 0..5 {
        read(&*filled(1).await?, 0, 1).await?;
    }
    Ok(())
}

async fn round_trip(compression: Compression) -> Outcome {
    let (_, partition) = created().await?;
    let headers = |pairs: &[(&str, &[u8])]| {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_vec())).collect::<BTreeMap<_, _>>()
    };
    let mut sent = vec![
        (Some(b"key".to_vec()), Some(b"value".to_vec()), headers(&[("h", b"1"), ("e", b"")])),
        (None, Some(b"no key".to_vec()), headers(&[])),
        (Some(Vec::new()), Some(Vec::new()), headers(&[("", b"empty name")])),
        (Some(b"no value".to_vec()), None, headers(&[("h", &[0, 255])])),
        (Some("snö".into()), Some(b"long ".repeat(20_000)), headers(&[("unicode ✓", "✓".as_bytes())])),
    ];
    sent.extend(
        (0..300).map(|n| (Some(format!("k{n}").into_bytes()), Some(b"value ".repeat(n)), headers(&[]))),
    );
    let stamped =
        |(number, (key, value, headers)): (i64, _)| Record { key, value, headers, timestamp: at(7 * number) };
    let sent: Vec<Record> = (0..).zip(sent).map(stamped).collect();
    partition.produce(sent.clone(), compression).await.map_err(text)?;
    let got = read(&partition, 0, sent.len()).await?;
    for ((number, expected), actual) in (0..).zip(sent).zip(got) {
        equal("offset", number, actual.offset)?;
        equal(&format!("record {number}"), expected, actual.record)?;
    }
    Ok(())
}

async fn offsets_for_times() -> Outcome {
    let partition = filled(10).await?;
    for (after, expected) in [(-1000, 0), (0, 0), (1, 1), (4_999, 5), (9_000, 9), (9_001, -1)] {
        let offset = partition.get_offset(OffsetAt::Timestamp(at(after))).await.map_err(text)?;
        equal(&format!("offset {after} ms after the start"), expected, offset)?;
    }
    equal("earliest", 0, partition.get_offset(OffsetAt::Earliest).await.map_err(text)?)?;
    equal("latest", 10, partition.get_offset(OffsetAt::Latest).await.map_err(text)?)
}

async fn seek() -> Outcome {
    let partition = filled(100).await?;
    for offset in [50, 3, 99] {
        equal("first offset", offset, read(&partition, offset, (100 - offset) as usize).await?[0].offset)?;
    }
    fails(
        "fetch beyond the end",
        ProtocolError::OffsetOutOfRange,
        partition.fetch_records(101, 1..1000, 100).await,
    )
}

async fn delete_records() -> Outcome {
    let partition = filled(100).await?;
    partition.delete_records(50, MAX_WAIT_MS).await.map_err(text)?;
    equal("earliest", 50, partition.get_offset(OffsetAt::Earliest).await.map_err(text)?)?;
    fails(
        "fetch of a deleted one",
        ProtocolError::OffsetOutOfRange,
        partition.fetch_records(49, 1..1000, 100).await,
    )
}

async fn long_poll_idle() -> Outcome {
    let (_, partition) = created().await?;
    for _ in 0..3 {
        let began = Instant::now();
        let (records, _) = partition.fetch_records(0, 100_000..1_000_000, 700).await.map_err(text)?;
        let took_ms = began.elapsed().as_millis();
        equal("records", 0, records.len())?;
        equal(&format!("{took_ms} ms are in time"), true, (699..=1100).contains(&took_ms))?;
    }
    Ok(())
}

async fn long_poll_wakes() -> Outcome {
    let (topic, partition) = created().await?;
    let waiting = tokio::spawn(async move {
        let fetched = partition.fetch_records(0, 100_000..1_000_000, 15_000).await;
        fetched.map(|(records, _)| records.len()).map_err(text)
    });
    let other = self::partition(&client().await?, &topic, 0).await?;
    let began = Instant::now();
    for _ in 0..2 {
        other.produce(of_size(60_000), Compression::NoCompression).await.map_err(text)?;
    }
    equal("records", 2, waiting.await.map_err(text)??)?;
    equal("woken in time", true, began.elapsed() < Duration::from_secs(2))
}

async fn large_message() -> Outcome {
    let (_, partition) = created().await?;
    partition.produce(of_size(MAX_MESSAGE_BYTES - 100), Compression::NoCompression).await.map_err(text)?;
    let got = read(&partition, 0, 1).await?;
    equal("bytes", Some(MAX_MESSAGE_BYTES - 100), got[0].record.value.as_ref().map(Vec::len))
}

async fn message_too_large() -> Outcome {
    let (_, partition) = created().await?;
    let produced = partition.produce(of_size(MAX_MESSAGE_BYTES + 1), Compression::NoCompression).await;
    fails("producing it", ProtocolError::MessageTooLarge, produced)?;
    equal("offsets", vec![0], partition.produce(numbered(1), Compression::NoCompression).await.map_err(text)?)
}
