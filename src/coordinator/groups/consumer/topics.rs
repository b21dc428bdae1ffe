//! What a group of the consumer protocol sees of the topics: a hash that stands for all that is known of those it subscribes
//! to.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use twox_hash::XxHash3_64;

use super::SubscribedTopics;
use crate::base::TopicId;
use crate::controller::{Controller, Topic};

/// The hashes of topics, as long as nothing about them has changed.
#[derive(Clone, Debug, Default)]
pub(super) struct TopicHashes(FxHashMap<TopicId, (Arc<Topic>, i64)>);

impl TopicHashes {
    fn of(&mut self, topic: &Arc<Topic>, controller: &Controller) -> i64 {
        if let Some((seen, hash)) = self.0.get(&topic.id)
            && Arc::ptr_eq(seen, topic)
        {
            return *hash;
        }
        let hash = topic_hash(topic, controller);
        self.0.insert(topic.id, (topic.clone(), hash));
        hash
    }

    /// The hash that stands for these topics (Kafka's `computeGroupHash`); 0 if there are none.
    pub(super) fn of_all(&mut self, topics: &SubscribedTopics, controller: &Controller) -> i64 {
        let mut bytes = Vec::new();
        let mut subscribed = BTreeSet::new();
        for topic in topics.keys().filter_map(|name| controller.topics().by_name(name)) {
            bytes.extend(self.of(topic, controller).to_le_bytes());
            subscribed.insert(topic.id);
        }
        if self.0.len() > subscribed.len() {
            self.0.retain(|id, _| subscribed.contains(id));
        }
        hash_of_hashes(&bytes)
    }
}

fn hash_of_hashes(hashes: &[u8]) -> i64 {
    if hashes.is_empty() { 0 } else { XxHash3_64::oneshot(hashes) as i64 }
}

/// The hash that stands for a topic as it is now.
fn topic_hash(topic: &Topic, controller: &Controller) -> i64 {
    let racks = topic.partitions.iter().map(|partition| {
        let brokers = controller.brokers().iter().filter(|broker| partition.replicas.contains(&broker.id));
        brokers.filter_map(|broker| broker.rack.as_deref()).collect()
    });
    hash(topic.id, &topic.name, racks.collect())
}

/// The hash of a topic's id, its name, and the racks of each of its partitions (Kafka's `computeTopicHash`). Texts go in as
/// UTF-16 with their length behind them.
fn hash(id: TopicId, name: &str, racks: Vec<Vec<&str>>) -> i64 {
    fn put_text(bytes: &mut Vec<u8>, text: &str) {
        let mut units = 0_i32;
        for unit in text.encode_utf16() {
            bytes.extend(unit.to_le_bytes());
            units += 1;
        }
        bytes.extend(units.to_le_bytes());
    }
    // The version of the hash.
    let mut bytes = vec![0_u8];
    bytes.extend(((id.0 >> 64) as u64).to_le_bytes());
    bytes.extend((id.0 as u64).to_le_bytes());
    put_text(&mut bytes, name);
    bytes.extend((racks.len() as i32).to_le_bytes());
    for (index, mut racks) in racks.into_iter().enumerate() {
        bytes.extend((index as i32).to_le_bytes());
        racks.sort_unstable();
        for rack in racks {
            bytes.extend((rack.encode_utf16().count() as i32).to_le_bytes());
            put_text(&mut bytes, rack);
        }
    }
    XxHash3_64::oneshot(&bytes) as i64
}

#[cfg(test)]
mod tests {
    use super::{hash, hash_of_hashes};
    use crate::base::TopicId;
    use crate::coordinator::from_kafka::consumer_records;
    use crate::coordinator::records::consumer_groups::Content;

    #[test]
    fn a_groups_hash_is_what_kafka_computes() {
        let records = consumer_records("gold-consumer");
        let hash_in_log = records.iter().find_map(|content| match content {
            Content::Group(Some(value)) => Some(value.metadata_hash),
            _ => None,
        });
        let topic = records.iter().find_map(|content| match content {
            Content::Target(_, Some(partitions)) => partitions.keys().next().copied(),
            _ => None,
        });
        let of = |racks| hash_of_hashes(&hash(topic.unwrap(), "gold-topic", racks).to_le_bytes());
        assert_eq!(Some(of(vec![vec!["rack-a"], vec!["rack-a"]])), hash_in_log);
        assert_ne!(Some(of(vec![vec!["rack-a"]])), hash_in_log, "fewer partitions");
        assert_ne!(Some(of(vec![vec!["rack-a"], vec![]])), hash_in_log, "other racks");
        assert_ne!(hash(TopicId(1), "a", Vec::new()), hash(TopicId(2), "a", Vec::new()), "another topic");
        assert_eq!(
            hash(TopicId(1), "a", vec![vec!["r", "s"]]),
            hash(TopicId(1), "a", vec![vec!["s", "r"]]),
            "the order of replicas is no matter"
        );
    }
}
