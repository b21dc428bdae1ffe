//! Offsets that were committed in transactions which are open (Kafka's `OffsetMetadataManager`, its pending transactional
//! offsets): nobody is given them until a marker says that they count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::coordinator::records::CommittedOffset;

/// By producer. None if the partition was committed outside of the transaction later: that counts then.
type OfPartition = BTreeMap<i64, Option<CommittedOffset>>;
type OfGroup = BTreeMap<Arc<str>, BTreeMap<i32, OfPartition>>;

/// The pending offsets of one shard.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingOffsets {
    by_group: FxHashMap<Arc<str>, OfGroup>,
    /// The groups for which each producer has committed.
    groups: BTreeMap<i64, BTreeSet<Arc<str>>>,
}

/// An offset that counts once its transaction is committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PendingOffset {
    pub(super) group: Arc<str>,
    pub(super) topic: Arc<str>,
    pub(super) index: i32,
    pub(super) offset: CommittedOffset,
}

impl PendingOffsets {
    pub(super) fn set(&mut self, producer_id: i64, pending: PendingOffset) {
        let PendingOffset { group, topic, index, offset } = pending;
        self.groups.entry(producer_id).or_default().insert(group.clone());
        let of_topic = self.by_group.entry(group).or_default().entry(topic).or_default();
        of_topic.entry(index).or_default().insert(producer_id, Some(offset));
    }

    /// Something was committed outside of transactions, after what is pending.
    pub(super) fn supersede(&mut self, group: &str, topic: &str, index: i32) {
        let Some(of_group) = self.by_group.get_mut(group) else { return };
        let of_partition = of_group.get_mut(topic).and_then(|of_topic| of_topic.get_mut(&index));
        of_partition.into_iter().flatten().for_each(|(_, offset)| *offset = None);
    }

    /// What was committed for the partition is deleted, and what is pending with it.
    pub(super) fn remove(&mut self, group: &str, topic: &str, index: i32) {
        let Some(of_group) = self.by_group.get_mut(group) else { return };
        let Some(of_topic) = of_group.get_mut(topic) else { return };
        of_topic.remove(&index);
        if of_topic.is_empty() {
            of_group.remove(topic);
        }
        if of_group.is_empty() {
            self.by_group.remove(group);
        }
    }

    /// The transaction of a producer has ended: what it has committed isn't pending any more.
    pub(super) fn end(&mut self, producer_id: i64) -> Vec<PendingOffset> {
        let mut ended = Vec::new();
        for group in self.groups.remove(&producer_id).into_iter().flatten() {
            let Some(of_group) = self.by_group.get_mut(&group) else { continue };
            of_group.retain(|topic, of_topic| {
                of_topic.retain(|&index, of_partition| {
                    if let Some(Some(offset)) = of_partition.remove(&producer_id) {
                        let (group, topic) = (group.clone(), topic.clone());
                        ended.push(PendingOffset { group, topic, index, offset });
                    }
                    !of_partition.is_empty()
                });
                !of_topic.is_empty()
            });
            if of_group.is_empty() {
                self.by_group.remove(&group);
            }
        }
        ended
    }

    /// What counts once the transaction of a producer is committed.
    pub(super) fn of_producer(
        &self,
        producer_id: i64,
    ) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, i32, &CommittedOffset)> {
        let groups = self.groups.get(&producer_id).into_iter().flatten();
        let of_groups = groups.filter_map(|group| self.by_group.get_key_value(group));
        let of_topics = of_groups.flat_map(|(group, topics)| topics.iter().map(move |of| (group, of)));
        of_topics.flat_map(move |(group, (topic, partitions))| {
            partitions.iter().filter_map(move |(index, by_producer)| {
                let offset = by_producer.get(&producer_id)?.as_ref()?;
                Some((group, topic, *index, offset))
            })
        })
    }

    /// Whether a transaction that is open has committed for the partition.
    pub(super) fn is_pending(&self, group: &str, topic: &str, index: i32) -> bool {
        let of_topic = self.by_group.get(group).and_then(|of_group| of_group.get(topic));
        of_topic.is_some_and(|of_topic| of_topic.contains_key(&index))
    }

    /// Whether a transaction that is open has committed for the group.
    pub(super) fn has_group(&self, group: &str) -> bool {
        self.by_group.contains_key(group)
    }

    /// The partitions for which something is pending.
    pub(super) fn of_group(&self, group: &str) -> impl Iterator<Item = (&Arc<str>, i32)> {
        let of_group = self.by_group.get(group).into_iter().flatten();
        of_group.flat_map(|(topic, of_topic)| of_topic.keys().map(move |index| (topic, *index)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(group: &str, topic: &str, index: i32, offset: i64) -> PendingOffset {
        let offset = CommittedOffset {
            offset,
            leader_epoch: -1,
            metadata: "".into(),
            commit_timestamp_ms: 0,
            expire_timestamp_ms: None,
        };
        PendingOffset { group: group.into(), topic: topic.into(), index, offset }
    }

    #[test]
    fn what_a_transaction_has_committed_is_pending_until_it_ends() {
        let mut offsets = PendingOffsets::default();
        offsets.set(1, pending("g", "t", 0, 5));
        offsets.set(1, pending("g", "t", 0, 6));
        offsets.set(1, pending("h", "t", 1, 7));
        offsets.set(2, pending("g", "t", 0, 8));
        assert!(offsets.is_pending("g", "t", 0) && offsets.is_pending("h", "t", 1));
        assert!(!offsets.is_pending("g", "t", 1) && !offsets.has_group("t"));
        assert_eq!(offsets.end(1), [pending("g", "t", 0, 6), pending("h", "t", 1, 7)]);
        assert!(offsets.is_pending("g", "t", 0), "the other producer's");
        assert!(!offsets.has_group("h"));
        assert_eq!(offsets.end(1), []);
        assert_eq!(offsets.end(2), [pending("g", "t", 0, 8)]);
        assert!(offsets.by_group.is_empty() && offsets.groups.is_empty(), "nothing is left over");
    }

    #[test]
    fn what_is_committed_or_deleted_meanwhile_counts() {
        let mut offsets = PendingOffsets::default();
        offsets.set(1, pending("g", "t", 0, 5));
        offsets.set(1, pending("g", "t", 1, 6));
        offsets.set(1, pending("g", "t", 2, 7));
        offsets.supersede("g", "t", 0);
        offsets.remove("g", "t", 1);
        assert!(offsets.is_pending("g", "t", 0), "the transaction is still open");
        assert_eq!(offsets.of_group("g").map(|(_, index)| index).collect::<Vec<_>>(), [0, 2]);
        assert_eq!(offsets.end(1), [pending("g", "t", 2, 7)]);
        assert!(offsets.by_group.is_empty());
    }
}
