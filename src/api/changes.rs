//! What a broker does when it hears of one of the controller's decisions.

use rustc_hash::FxHashSet;

use super::context::{Broker, Parts};
use super::waits::Key;
use crate::base::PartitionKey;
use crate::controller::{Change, Topic};
use crate::coordinator::{CoordinatorKind, Storage};
use crate::replica::Role;

/// Takes on one of the controller's decisions.
pub(super) fn apply(parts: &mut Parts<'_>, change: &Change) {
    match change {
        Change::Partition { topic, index } => apply_partition(parts, topic, *index),
        Change::TopicDeleted(topic) => {
            for index in 0..topic.partitions.len() as i32 {
                drop_partition(parts, &topic.name, PartitionKey { topic: topic.id, index });
            }
            parts.broker.coordinators.note_deleted(&topic.name, parts.now.instant);
        }
        Change::TopicConfig(topic) => parts.broker.replicas.apply_config(topic, parts.now),
        Change::Brokers(brokers) => {
            parts.broker.membership.note_brokers(brokers, parts.now.instant);
            for key in parts.broker.replicas.apply_brokers(brokers) {
                parts.broker.wake(Key::LowWatermark(key));
            }
        }
        Change::Settings(settings) => {
            let settings = settings.of(parts.broker.id);
            parts.broker.replicas.apply_settings(settings, parts.now);
        }
    }
}

/// Drops what this broker holds of partitions that don't occur in `changes`, which are all that there is: they were
/// deleted while it was down or heard of nothing. (What groups have committed for them goes with the next look at expired
/// offsets.)
pub(super) fn drop_strays(parts: &mut Parts<'_>, changes: &[Change]) {
    let known: FxHashSet<PartitionKey> = changes.iter().filter_map(partition_of).collect();
    for key in parts.broker.replicas.keys() {
        if !known.contains(&key) {
            let topic = parts.broker.replicas.replica(key).map(|replica| replica.topic().clone());
            drop_partition(parts, &topic.unwrap_or_default(), key);
        }
    }
}

fn partition_of(change: &Change) -> Option<PartitionKey> {
    match change {
        Change::Partition { topic, index } => Some(PartitionKey { topic: topic.id, index: *index }),
        _ => None,
    }
}

fn apply_partition(parts: &mut Parts<'_>, topic: &Topic, index: i32) {
    let (coordinators, mut storage) = parts.coordinators();
    coordinators.note_topic(&mut storage, &topic.name);
    let this = parts.broker.id;
    let key = PartitionKey { topic: topic.id, index };
    if !topic.partition(index).is_some_and(|partition| partition.replicas.contains(&this)) {
        drop_partition(parts, &topic.name, key);
        return;
    }
    let moved = parts.broker.replicas.apply(topic, index, parts.now, parts.pool);
    parts.broker.wake_moved(key, moved);
    if let Some(kind) = CoordinatorKind::of_topic(&topic.name) {
        let leads = parts.broker.replicas.replica(key).is_some_and(|replica| *replica.role() == Role::Leader);
        let Broker { replicas, coordinators, .. } = &mut *parts.broker;
        if leads {
            coordinators.load(
                kind,
                key,
                &mut Storage { now: parts.now, replicas, pool: parts.pool, controller: parts.controller },
            );
        } else {
            coordinators.unload(kind, key, parts.now.instant);
        }
    }
}

/// This broker doesn't hold the partition any more.
fn drop_partition(parts: &mut Parts<'_>, topic: &str, key: PartitionKey) {
    if let Some(kind) = CoordinatorKind::of_topic(topic) {
        parts.broker.coordinators.unload(kind, key, parts.now.instant);
    }
    if parts.broker.replicas.remove(key, parts.pool) {
        parts.broker.wake(Key::HighWatermark(key));
        parts.broker.wake(Key::LogEnd(key));
        parts.broker.wake(Key::LowWatermark(key));
    }
}
