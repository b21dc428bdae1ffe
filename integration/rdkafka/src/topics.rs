//! Topics, offsets and configs, through the admin client.

use rdkafka::Offset;
use rdkafka::admin::{AlterConfig, NewPartitions, ResourceSpecifier};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;
use rdkafka::types::RDKafkaErrorCode;

use crate::clients::{
    CALL_LIMIT, START_MS, admin, assigned, configured, create, created, filled, options, place, producer,
    read, send, take, unique_name,
};
use crate::{Outcome, Tests, equal, text};

pub fn tests() -> Tests {
    vec![
        ("create_topic", Box::pin(create_topic())),
        ("delete_topic", Box::pin(delete_topic())),
        ("create_partitions", Box::pin(create_partitions())),
        ("usable_after_creation", Box::pin(usable_after_creation())),
        ("auto_creation", Box::pin(auto_creation())),
        ("offsets_for_times", Box::pin(offsets_for_times())),
        ("seek", Box::pin(seek())),
        ("delete_records", Box::pin(delete_records())),
        ("describe_and_alter_configs", Box::pin(describe_and_alter_configs())),
    ]
}

fn bare() -> Outcome<BaseConsumer> {
    configured(&[("group.id", "none")]).create().map_err(text)
}

fn partitions(topic: &str) -> Outcome<usize> {
    let metadata = bare()?.fetch_metadata(Some(topic), CALL_LIMIT).map_err(text)?;
    let found = metadata.topics().iter().find(|each| each.name() == topic);
    let led = |each: &&rdkafka::metadata::MetadataPartition| each.leader() >= 0;
    Ok(found.map_or(0, |topic| topic.partitions().iter().filter(led).count()))
}

async fn create_topic() -> Outcome {
    let topic = unique_name();
    create(&topic, 3).await?;
    equal("partitions with a leader", 3, partitions(&topic)?)?;
    let again = create(&topic, 3).await;
    let expected = format!("creation of {topic}: {}", RDKafkaErrorCode::TopicAlreadyExists);
    equal("second creation", Err(expected), again)
}

async fn delete_topic() -> Outcome {
    let topic = created(1).await?;
    let admin = admin()?;
    let deleted = admin.delete_topics(&[&topic], &options()).await.map_err(text)?;
    equal("deletion", vec![Ok(topic.clone())], deleted)?;
    let again = admin.delete_topics(&[&topic], &options()).await.map_err(text)?;
    equal("second deletion", vec![Err((topic, RDKafkaErrorCode::UnknownTopicOrPartition))], again)
}

async fn create_partitions() -> Outcome {
    let topic = created(1).await?;
    let more = NewPartitions::new(&topic, 4);
    let answer = admin()?.create_partitions(&[more], &options()).await.map_err(text)?;
    equal("answer", vec![Ok(topic.clone())], answer)?;
    equal("offset in the newest", 0, send(&producer(&[])?, &topic, 3, b"value").await?)
}

async fn usable_after_creation() -> Outcome {
    for _ in 0..5 {
        read(&filled(1).await?, 0, 1).await?;
    }
    Ok(())
}

async fn auto_creation() -> Outcome {
    let topic = unique_name();
    equal("offset", 0, send(&producer(&[])?, &topic, 0, b"value").await?)?;
    equal("value", Some(&b"value"[..]), read(&topic, 0, 1).await?[0].payload())
}

async fn offsets_for_times() -> Outcome {
    let topic = filled(10).await?;
    let consumer = assigned(&topic, 0, Offset::Beginning, &[])?;
    let end = Offset::End;
    let expected = [(-1000, Offset::Offset(0)), (0, Offset::Offset(0)), (1, Offset::Offset(1)), (9_001, end)];
    for (after, expected) in expected {
        let found = consumer.offsets_for_timestamp(START_MS + after, CALL_LIMIT).map_err(text)?;
        equal(&format!("offset {after} ms after the start"), expected, found.elements()[0].offset())?;
    }
    equal("ends", (0, 10), consumer.fetch_watermarks(&topic, 0, CALL_LIMIT).map_err(text)?)
}

async fn seek() -> Outcome {
    let topic = filled(20).await?;
    let consumer = assigned(&topic, 0, Offset::Beginning, &[])?;
    equal("first", 0, take(&consumer, 1).await?[0].offset())?;
    let places = [
        (Offset::Offset(15), 15),
        (Offset::Offset(3), 3),
        (Offset::OffsetTail(1), 19),
        (Offset::Beginning, 0),
    ];
    for (to, expected) in places {
        consumer.seek(&topic, 0, to, CALL_LIMIT).map_err(text)?;
        equal(&format!("first after seeking to {to:?}"), expected, take(&consumer, 1).await?[0].offset())?;
    }
    Ok(())
}

async fn delete_records() -> Outcome {
    let topic = filled(20).await?;
    let until = place(&topic, 0, Offset::Offset(5))?;
    let answer = admin()?.delete_records(&until, &options()).await.map_err(text)?;
    equal("low watermark answered", Offset::Offset(5), answer.elements()[0].offset())?;
    equal("ends", (5, 20), bare()?.fetch_watermarks(&topic, 0, CALL_LIMIT).map_err(text)?)?;
    equal("first record left", 5, read(&topic, 0, 15).await?[0].offset())
}

async fn describe_and_alter_configs() -> Outcome {
    let topic = created(1).await?;
    let admin = admin()?;
    let of = ResourceSpecifier::Topic(&topic);
    let change = AlterConfig::new(of).set("retention.ms", "100000");
    for result in admin.alter_configs(&[change], &options()).await.map_err(text)? {
        result.map_err(|(_, code)| text(code))?;
    }
    // Kafka's broker hears of it from its controller a moment after the answer.
    let mut found = None;
    for _ in 0..50 {
        let described = admin.describe_configs([&of], &options()).await.map_err(text)?;
        let resource = described.into_iter().next().ok_or("no resource")?.map_err(text)?;
        let entry = |name| resource.get(name).and_then(|entry| entry.value.clone());
        found = Some((entry("retention.ms"), entry("cleanup.policy")));
        let done = found.as_ref().is_some_and(|(retention, _)| retention.as_deref() == Some("100000"));
        if done || std::env::var("HULD_TARGET").as_deref() == Ok("huld") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    equal("retention and policy", Some((Some("100000".into()), Some("delete".into()))), found)
}
