//! Clients of the broker under test, and topics for them.

use std::time::{Duration, SystemTime};

use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{Consumer, StreamConsumer};
use rdkafka::message::OwnedMessage;
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::{Offset, TopicPartitionList};

use crate::{Outcome, equal, text};

/// One call of a client.
pub const CALL_LIMIT: Duration = Duration::from_secs(15);
/// Record N of a filled topic is N seconds later than this.
pub const START_MS: i64 = 1_700_000_000_000;
/// The broker's default.
pub const MAX_MESSAGE_BYTES: usize = 1_048_588;

pub type Settings<'a> = &'a [(&'a str, &'a str)];

pub fn configured(settings: Settings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", std::env::var("HULD_BOOTSTRAP").unwrap_or_default());
    for (key, value) in settings {
        config.set(*key, *value);
    }
    config
}

pub fn unique_name() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("it-{:x}-{:x}", std::process::id(), since.as_nanos())
}

pub fn admin() -> Outcome<AdminClient<DefaultClientContext>> {
    configured(&[]).create().map_err(text)
}

/// The change must have arrived when it is answered, or the client would go on with what it knew before.
pub fn options() -> AdminOptions {
    AdminOptions::new().operation_timeout(Some(CALL_LIMIT)).request_timeout(Some(CALL_LIMIT))
}

pub async fn create(topic: &str, partitions: i32) -> Outcome {
    let new = NewTopic::new(topic, partitions, TopicReplication::Fixed(1));
    for result in admin()?.create_topics(&[new], &options()).await.map_err(text)? {
        result.map_err(|(topic, code)| format!("creation of {topic}: {code}"))?;
    }
    Ok(())
}

pub async fn created(partitions: i32) -> Outcome<String> {
    let topic = unique_name();
    create(&topic, partitions).await?;
    Ok(topic)
}

pub fn producer(settings: Settings) -> Outcome<FutureProducer> {
    configured(&[("message.timeout.ms", "15000"), ("linger.ms", "0")])
        .set("message.max.bytes", "2000000")
        .extend_with(settings)
        .create()
        .map_err(text)
}

trait Extend {
    fn extend_with(&mut self, settings: Settings) -> &Self;
}

impl Extend for ClientConfig {
    fn extend_with(&mut self, settings: Settings) -> &Self {
        for (key, value) in settings {
            self.set(*key, *value);
        }
        self
    }
}

/// Sends a value without key, and gives its offset.
pub async fn send(producer: &FutureProducer, topic: &str, partition: i32, value: &[u8]) -> Outcome<i64> {
    let record = FutureRecord::<[u8], [u8]>::to(topic).partition(partition).payload(value);
    producer.send(record, CALL_LIMIT).await.map(|delivery| delivery.offset).map_err(|(error, _)| text(error))
}

/// Sends the values "0", "1", … to one partition, one a second by their timestamps.
pub async fn fill(topic: &str, partition: i32, count: i64) -> Outcome {
    let producer = producer(&[])?;
    for number in 0..count {
        let value = number.to_string();
        let record = FutureRecord::<[u8], str>::to(topic).partition(partition).payload(&value);
        let record = record.timestamp(START_MS + 1000 * number);
        producer.send(record, CALL_LIMIT).await.map_err(|(error, _)| text(error))?;
    }
    Ok(())
}

pub async fn filled(count: i64) -> Outcome<String> {
    let topic = created(1).await?;
    fill(&topic, 0, count).await?;
    Ok(topic)
}

pub fn place(topic: &str, partition: i32, offset: Offset) -> Outcome<TopicPartitionList> {
    let mut places = TopicPartitionList::new();
    places.add_partition_offset(topic, partition, offset).map_err(text)?;
    Ok(places)
}

/// A consumer of one partition, outside of any group's membership.
pub fn assigned(topic: &str, partition: i32, offset: Offset, settings: Settings) -> Outcome<StreamConsumer> {
    let group = unique_name();
    let consumer: StreamConsumer = configured(&[("group.id", &group), ("enable.auto.commit", "false")])
        .extend_with(settings)
        .create()
        .map_err(text)?;
    consumer.assign(&place(topic, partition, offset)?).map_err(text)?;
    Ok(consumer)
}

pub async fn take(consumer: &StreamConsumer, count: usize) -> Outcome<Vec<OwnedMessage>> {
    let mut messages = Vec::new();
    while messages.len() < count {
        let next = tokio::time::timeout(CALL_LIMIT, consumer.recv()).await;
        let message = next.map_err(|_| format!("{} of {count} records came", messages.len()))?;
        messages.push(message.map_err(text)?.detach());
    }
    Ok(messages)
}

pub async fn read(topic: &str, partition: i32, count: usize) -> Outcome<Vec<OwnedMessage>> {
    let messages = take(&assigned(topic, partition, Offset::Beginning, &[])?, count).await?;
    equal("records", count, messages.len())?;
    Ok(messages)
}
