//! Records on their way through the broker, and how long fetches wait for them.

use std::time::{Duration, Instant};

use rdkafka::Offset;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, Headers, Message, OwnedHeaders};
use rdkafka::producer::FutureRecord;
use rdkafka::types::RDKafkaErrorCode;

use crate::clients::{
    CALL_LIMIT, MAX_MESSAGE_BYTES, START_MS, assigned, created, producer, read, send, take,
};
use crate::{Outcome, Tests, between, equal, text};

pub fn tests() -> Tests {
    vec![
        ("round_trip_none", Box::pin(round_trip("none"))),
        ("round_trip_gzip", Box::pin(round_trip("gzip"))),
        ("round_trip_snappy", Box::pin(round_trip("snappy"))),
        ("round_trip_lz4", Box::pin(round_trip("lz4"))),
        ("round_trip_zstd", Box::pin(round_trip("zstd"))),
        ("acks_0", Box::pin(acks("0"))),
        ("acks_1", Box::pin(acks("1"))),
        ("acks_all", Box::pin(acks("all"))),
        ("idempotence", Box::pin(idempotence())),
        ("long_poll_idle", Box::pin(long_poll_idle())),
        ("long_poll_wakes", Box::pin(long_poll_wakes())),
        ("large_message", Box::pin(large_message())),
        ("message_too_large", Box::pin(message_too_large())),
    ]
}

/// Key, value and headers of one record.
type Sample = (Option<Vec<u8>>, Option<Vec<u8>>, Vec<(&'static str, Option<Vec<u8>>)>);

fn samples() -> Vec<Sample> {
    let bytes = |text: &str| Some(text.as_bytes().to_vec());
    let mut samples = vec![
        (
            bytes("key"),
            bytes("value"),
            vec![("h", bytes("1")), ("h", bytes("2")), ("e", bytes("")), ("n", None)],
        ),
        (None, bytes("no key"), vec![]),
        (bytes("no value"), None, vec![("h", Some(vec![0, 255]))]),
        (bytes(""), bytes(""), vec![]),
        (bytes("snö"), Some(b"long ".repeat(20_000)), vec![("unicode ✓", bytes("✓"))]),
    ];
    samples.extend(
        (0..300).map(|number| (bytes(&format!("k{number}")), Some(b"value ".repeat(number)), vec![])),
    );
    samples
}

async fn round_trip(codec: &'static str) -> Outcome {
    let topic = created(1).await?;
    // A while to gather the records, so that they come in few batches.
    let producer = producer(&[("compression.type", codec), ("linger.ms", "50")])?;
    let mut sent = Vec::new();
    let samples = samples();
    for (number, (key, value, headers)) in (0..).zip(&samples) {
        let mut record = FutureRecord::<[u8], [u8]>::to(&topic).partition(0).timestamp(START_MS + 7 * number);
        record.key = key.as_deref();
        record.payload = value.as_deref();
        let mut all = OwnedHeaders::new();
        for (key, value) in headers {
            all = all.insert(Header { key, value: value.as_deref() });
        }
        sent.push(producer.send_result(record.headers(all)).map_err(|(error, _)| text(error))?);
    }
    for (number, one) in (0..).zip(sent) {
        let delivery = one.await.map_err(text)?.map_err(|(error, _)| text(error))?;
        equal("offset produced", number, delivery.offset)?;
    }
    for (number, (expected, actual)) in samples.iter().zip(read(&topic, 0, samples.len()).await?).enumerate()
    {
        let headers = actual.headers().map(|all| {
            all.iter().map(|one| (one.key.to_string(), one.value.map(<[u8]>::to_vec))).collect::<Vec<_>>()
        });
        let (key, value, wanted) = expected;
        let wanted: Vec<_> = wanted.iter().map(|(key, value)| (key.to_string(), value.clone())).collect();
        equal(&format!("key of {number}"), key.as_deref(), actual.key())?;
        equal(&format!("value of {number}"), value.as_deref(), actual.payload())?;
        equal(&format!("headers of {number}"), wanted, headers.unwrap_or_default())?;
        let timestamp = actual.timestamp().to_millis();
        equal(&format!("timestamp of {number}"), Some(START_MS + 7 * number as i64), timestamp)?;
    }
    Ok(())
}

async fn acks(setting: &'static str) -> Outcome {
    let topic = created(1).await?;
    let producer = producer(&[("acks", setting)])?;
    for number in 0..3_u8 {
        let offset = send(&producer, &topic, 0, &[number]).await?;
        if setting != "0" {
            equal("offset", i64::from(number), offset)?;
        }
    }
    let read = read(&topic, 0, 3).await?;
    let values: Vec<_> = read.iter().filter_map(Message::payload).collect();
    equal("values", vec![&[0_u8][..], &[1], &[2]], values)
}

async fn idempotence() -> Outcome {
    let topic = created(1).await?;
    let producer = producer(&[("enable.idempotence", "true"), ("batch.num.messages", "7")])?;
    let values: Vec<String> = (0..500).map(|number| number.to_string()).collect();
    let mut sent = Vec::new();
    for value in &values {
        let record = FutureRecord::<[u8], str>::to(&topic).partition(0).payload(value);
        sent.push(producer.send_result(record).map_err(|(error, _)| text(error))?);
    }
    for one in sent {
        one.await.map_err(text)?.map_err(|(error, _)| text(error))?;
    }
    let read = read(&topic, 0, values.len()).await?;
    let got: Vec<_> = read.iter().filter_map(|each| each.payload().map(String::from_utf8_lossy)).collect();
    equal("values", values, got.into_iter().map(String::from).collect())
}

/// There is less than asked for: it comes when the time is up. The time runs from the fetch that the client sends as
/// soon as it has the record before.
async fn long_poll_idle() -> Outcome {
    let topic = created(1).await?;
    let settings = [("fetch.min.bytes", "100000"), ("fetch.wait.max.ms", "700")];
    let consumer = assigned(&topic, 0, Offset::Beginning, &settings)?;
    let producer = producer(&[])?;
    send(&producer, &topic, 0, b"first").await?;
    take(&consumer, 1).await?;
    for _ in 0..3 {
        let began = Instant::now();
        send(&producer, &topic, 0, b"next").await?;
        take(&consumer, 1).await?;
        between("wait", 690, 1100, began.elapsed())?;
    }
    Ok(())
}

async fn long_poll_wakes() -> Outcome {
    let topic = created(1).await?;
    let settings = [("fetch.min.bytes", "100000"), ("fetch.wait.max.ms", "15000")];
    let consumer = assigned(&topic, 0, Offset::Beginning, &settings)?;
    let producer = producer(&[])?;
    send(&producer, &topic, 0, &[0; 120_000]).await?;
    take(&consumer, 1).await?;
    let began = Instant::now();
    for _ in 0..2 {
        send(&producer, &topic, 0, &[0; 60_000]).await?;
    }
    take(&consumer, 2).await?;
    between("wake", 0, 2000, began.elapsed())
}

async fn large_message() -> Outcome {
    let topic = created(1).await?;
    let value = vec![7; MAX_MESSAGE_BYTES - 100];
    send(&producer(&[])?, &topic, 0, &value).await?;
    equal("bytes", Some(value.len()), read(&topic, 0, 1).await?[0].payload().map(<[u8]>::len))?;
    // A record that is larger than what the consumer asks for comes nevertheless.
    let small =
        [("fetch.message.max.bytes", "1000"), ("fetch.max.bytes", "1000"), ("message.max.bytes", "1000")];
    let consumer = assigned(&topic, 0, Offset::Beginning, &small)?;
    equal("bytes", Some(value.len()), take(&consumer, 1).await?[0].payload().map(<[u8]>::len))
}

async fn message_too_large() -> Outcome {
    let topic = created(1).await?;
    let producer = producer(&[])?;
    let value = vec![7; MAX_MESSAGE_BYTES + 1];
    let record = FutureRecord::<[u8], [u8]>::to(&topic).partition(0).payload(&value);
    let outcome =
        producer.send(record, CALL_LIMIT + Duration::from_secs(1)).await.map_err(|(error, _)| error);
    let expected = Err(KafkaError::MessageProduction(RDKafkaErrorCode::MessageSizeTooLarge));
    equal("producing it", expected, outcome.map(|_| ()))?;
    equal("offset of the next", 0, send(&producer, &topic, 0, b"next").await?)
}
