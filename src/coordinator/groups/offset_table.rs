//! What all groups of a shard have committed, by group; and by topic, so that a topic's end costs what was committed for
//! it, not what was committed at all.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::GroupOffsets;
use crate::coordinator::records::CommittedOffset;

/// Committed offsets of groups that have any.
#[derive(Clone, Debug, Default)]
pub(super) struct OffsetTable {
    by_group: FxHashMap<Arc<str>, GroupOffsets>,
    /// The groups that have committed something for a topic.
    groups_by_topic: FxHashMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl OffsetTable {
    /// What a group has committed, if anything.
    pub(super) fn get(&self, group: &str) -> Option<&GroupOffsets> {
        self.by_group.get(group)
    }

    /// Who has committed something for a topic, in the order of names, and at which partitions.
    pub(super) fn of_topic(
        &self,
        topic: &str,
    ) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, impl Iterator<Item = i32>)> {
        let groups = self.groups_by_topic.get_key_value(topic).into_iter();
        let pairs = groups.flat_map(|(topic, groups)| groups.iter().map(move |group| (topic, group)));
        pairs
            .filter_map(|(topic, group)| Some((topic, group, self.by_group.get(group)?.partitions_of(topic))))
    }

    pub(super) fn set(&mut self, group: &Arc<str>, topic: &Arc<str>, index: i32, offset: CommittedOffset) {
        let offsets = match self.by_group.get_mut(group) {
            Some(offsets) => offsets,
            None => self.by_group.entry(group.clone()).or_default(),
        };
        if offsets.set(topic, index, offset) {
            self.groups_by_topic.entry(topic.clone()).or_default().insert(group.clone());
        }
    }

    pub(super) fn remove(&mut self, group: &str, topic: &str, index: i32) {
        let Some(offsets) = self.by_group.get_mut(group) else { return };
        let was_last = offsets.remove(topic, index);
        if offsets.is_empty() {
            self.by_group.remove(group);
        }
        if !was_last {
            return;
        }
        let Some(groups) = self.groups_by_topic.get_mut(topic) else { return };
        groups.remove(group);
        if groups.is_empty() {
            self.groups_by_topic.remove(topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn offset(offset: i64) -> CommittedOffset {
        CommittedOffset {
            offset,
            leader_epoch: -1,
            metadata: Arc::from(""),
            commit_timestamp_ms: 0,
            expire_timestamp_ms: None,
        }
    }

    proptest! {
        #[test]
        fn topics_know_exactly_the_groups_that_have_offsets(
            steps in prop::collection::vec((0..4usize, 0..4usize, 0..3i32, any::<bool>()), 0..100),
        ) {
            let names: Vec<Arc<str>> = ["a", "b", "c", "d"].map(Arc::from).into();
            let mut table = OffsetTable::default();
            let mut model = BTreeSet::new();
            for (group, topic, index, is_set) in steps {
                let (group, topic) = (&names[group], &names[topic]);
                if is_set {
                    table.set(group, topic, index, offset(1));
                    model.insert((topic.clone(), group.clone(), index));
                } else {
                    table.remove(group, topic, index);
                    model.remove(&(topic.clone(), group.clone(), index));
                }
                for topic in &names {
                    let found = table.of_topic(topic).flat_map(|(topic, group, partitions)| {
                        partitions.map(move |index| (topic.clone(), group.clone(), index))
                    });
                    let expected = model.iter().filter(|(name, ..)| name == topic).cloned();
                    prop_assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
                }
            }
            for (topic, group, index) in model {
                table.remove(&group, &topic, index);
            }
            prop_assert!(table.by_group.is_empty() && table.groups_by_topic.is_empty(), "nothing is left behind");
        }
    }
}
