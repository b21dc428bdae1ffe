//! Groups and offsets as of the last committed record, for whoever asks what there is.
//!
//! A write changes the state at once and is committed later. Until then, what it has changed is kept here as it was, group
//! by group and offset by offset; nothing is kept of what is committed. (Kafka reads its `TimelineHashMap`s at the last
//! committed offset. As there, a classic group is one object: that it exists is told once that is committed, but what
//! happens in it is told at once.)

use std::collections::BTreeMap;
use std::sync::Arc;

use super::classic::ClassicGroup;
use super::consumer::ConsumerGroup;
use super::{Group, Groups};
use crate::base::Now;
use crate::coordinator::records::consumer_groups::ConsumerRecord;
use crate::coordinator::records::{CommittedOffset, Record};

/// The groups of one shard as far as they are committed.
#[derive(Clone, Copy, Debug)]
pub struct CommittedGroups<'a> {
    groups: &'a Groups,
    kept: Option<&'a KeptGroups>,
}

/// What was before changes that aren't committed yet.
#[derive(Clone, Debug, Default)]
pub struct KeptGroups {
    by_id: BTreeMap<Arc<str>, Kept>,
}

/// What was of one group.
#[derive(Clone, Debug, Default)]
struct Kept {
    /// How many records about the group aren't committed.
    ahead: usize,
    /// The group itself, if they are about more than its offsets.
    group: Option<KeptGroup>,
    /// The offsets that they are about; none where there was no offset.
    offsets: BTreeMap<Arc<str>, BTreeMap<i32, Option<CommittedOffset>>>,
}

#[derive(Clone, Debug)]
enum KeptGroup {
    Absent,
    Classic(Box<ClassicGroup>),
    Consumer(Box<ConsumerGroup>),
}

impl<'a> CommittedGroups<'a> {
    pub(in crate::coordinator) fn new(groups: &'a Groups, kept: &'a KeptGroups) -> Self {
        let kept = Some(kept).filter(|kept| !kept.by_id.is_empty());
        CommittedGroups { groups, kept }
    }

    /// All that there is, committed or not.
    pub fn with_uncommitted(groups: &'a Groups) -> Self {
        CommittedGroups { groups, kept: None }
    }

    fn kept(&self, id: &str) -> Option<&'a Kept> {
        self.kept?.by_id.get(id)
    }

    /// The group of this name, of any kind.
    pub fn group(&self, id: &str) -> Option<Group<'a>> {
        match self.kept(id).and_then(|kept| kept.group.as_ref()) {
            None => self.groups.group(id),
            Some(KeptGroup::Absent) => None,
            Some(KeptGroup::Consumer(group)) => Some(Group::Consumer(group)),
            Some(KeptGroup::Classic(group)) => match self.groups.group(id) {
                Some(now @ Group::Classic(_)) => Some(now),
                _ => Some(Group::Classic(group)),
            },
        }
    }

    /// The classic group of this name.
    pub fn classic(&self, id: &str) -> Option<&'a ClassicGroup> {
        match self.group(id)? {
            Group::Classic(group) => Some(group),
            Group::Consumer(_) => None,
        }
    }

    /// The consumer group of this name.
    pub fn consumer(&self, id: &str) -> Option<&'a ConsumerGroup> {
        match self.group(id)? {
            Group::Consumer(group) => Some(group),
            Group::Classic(_) => None,
        }
    }

    /// All groups: by name, but for those whose end isn't committed, which come last.
    pub fn iter(&self) -> impl Iterator<Item = Group<'a>> + use<'a> {
        let (this, groups) = (*self, self.groups);
        let gone = this.kept.into_iter().flat_map(|kept| kept.by_id.keys());
        let gone = gone.filter(move |id| groups.group(id).is_none());
        groups.names.keys().chain(gone).filter_map(move |id| this.group(id))
    }

    /// What a group has committed for a partition.
    pub fn offset(&self, id: &str, topic: &str, index: i32) -> Option<&'a CommittedOffset> {
        match self.kept(id).and_then(|kept| kept.offsets.get(topic)?.get(&index)) {
            Some(kept) => kept.as_ref(),
            None => self.groups.offsets(id)?.offset(topic, index),
        }
    }

    /// All that a group has committed, by topic and partition.
    pub fn offsets(&self, id: &str) -> Vec<(&'a Arc<str>, i32, &'a CommittedOffset)> {
        let now = self.groups.offsets(id).into_iter().flat_map(|offsets| offsets.iter());
        let Some(kept) = self.kept(id).filter(|kept| !kept.offsets.is_empty()) else { return now.collect() };
        let is_kept = |topic: &str, index| kept.offsets.get(topic).is_some_and(|of| of.contains_key(&index));
        let as_it_is = now.filter(|(topic, index, _)| !is_kept(topic, *index));
        let as_it_was = kept.offsets.iter().flat_map(|(topic, offsets)| {
            offsets.iter().filter_map(move |(index, offset)| Some((topic, *index, offset.as_ref()?)))
        });
        let mut offsets: Vec<_> = as_it_is.chain(as_it_was).collect();
        offsets.sort_unstable_by_key(|(topic, index, _)| (*topic, *index));
        offsets
    }

    /// Whether a transaction that is open has committed for the group's partition, be that committed itself or not.
    pub fn is_offset_pending(&self, id: &str, topic: &str, index: i32) -> bool {
        self.groups.is_offset_pending(id, topic, index)
    }
}

impl Groups {
    /// Keeps what is told of a record's group until the record is committed.
    pub(super) fn keep_before(&self, kept: &mut KeptGroups, record: &Record, is_pending: bool) {
        let id = group_of(record);
        let kept = match kept.by_id.get_mut(id) {
            Some(kept) => kept,
            None => kept.by_id.entry(id.clone()).or_default(),
        };
        kept.ahead += 1;
        let Record::Offset { topic, index, value, .. } = record else {
            kept.group.get_or_insert_with(|| self.group_before(id, record));
            return;
        };
        if value.is_some() && kept.group.is_none() && self.group(id).is_none() {
            kept.group = Some(KeptGroup::Absent);
        }
        if !is_pending || value.is_none() {
            let before = || self.offsets.get(id).and_then(|offsets| offsets.offset(topic, *index)).cloned();
            kept.offsets.entry(topic.clone()).or_default().entry(*index).or_insert_with(before);
        }
    }

    fn group_before(&self, id: &str, record: &Record) -> KeptGroup {
        match (self.group(id), record) {
            (Some(Group::Consumer(group)), _) => KeptGroup::Consumer(Box::new(group.clone())),
            // The group that begins with this record is in memory already.
            (_, Record::ClassicGroup { value: Some(value), .. }) if value.generation == 0 => {
                KeptGroup::Absent
            }
            (Some(Group::Classic(group)), _) => KeptGroup::Classic(Box::new(group.clone())),
            (None, _) => KeptGroup::Absent,
        }
    }
}

impl KeptGroups {
    /// A record is committed.
    pub(super) fn catch_up(&mut self, record: &Record, is_pending: bool, now: Now) {
        let id = group_of(record);
        let Some(kept) = self.by_id.get_mut(id) else { return };
        kept.ahead -= 1;
        if kept.ahead == 0 {
            self.by_id.remove(id);
            return;
        }
        match record {
            Record::Offset { topic, index, value, .. } => {
                if value.is_some() && matches!(kept.group, Some(KeptGroup::Absent)) {
                    kept.group = Some(KeptGroup::Classic(Box::new(ClassicGroup::new(id.clone(), now.wall))));
                }
                let offset = kept.offsets.get_mut(topic).and_then(|offsets| offsets.get_mut(index));
                if let Some(offset) = offset.filter(|_| !is_pending || value.is_none()) {
                    *offset = value.clone();
                }
            }
            Record::ClassicGroup { value: Some(value), .. } => {
                let group = ClassicGroup::from_value(id.clone(), value);
                kept.group = Some(KeptGroup::Classic(Box::new(group)));
            }
            Record::ClassicGroup { value: None, .. } => {
                if !matches!(kept.group, Some(KeptGroup::Consumer(_))) {
                    kept.group = Some(KeptGroup::Absent);
                }
            }
            Record::Consumer(record) => kept.catch_up(record),
        }
    }
}

impl Kept {
    fn catch_up(&mut self, record: &ConsumerRecord) {
        let ConsumerRecord { group: id, content } = record;
        if !matches!(self.group, Some(KeptGroup::Consumer(_))) {
            if content.is_tombstone() {
                return;
            }
            self.group = Some(KeptGroup::Consumer(Box::new(ConsumerGroup::new(id.clone()))));
        }
        if let Some(KeptGroup::Consumer(group)) = &mut self.group
            && !group.apply(content)
        {
            self.group = Some(KeptGroup::Absent);
        }
    }
}

fn group_of(record: &Record) -> &Arc<str> {
    match record {
        Record::Offset { group, .. } | Record::ClassicGroup { group, .. } => group,
        Record::Consumer(record) => &record.group,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::coordinator::records::ClassicGroupValue;
    use crate::coordinator::records::consumer_groups::{Content, GroupEpoch, MemberMetadata};
    use crate::coordinator::runtime::ShardState;

    const NOW: fn() -> Now = || Now::at_millis(0);

    fn record() -> impl Strategy<Value = (Record, Option<i64>)> {
        let id = || (0..2_usize).prop_map(|at| Arc::<str>::from(["a", "b"][at]));
        let offset = |offset| CommittedOffset {
            offset,
            leader_epoch: -1,
            metadata: "".into(),
            commit_timestamp_ms: 0,
            expire_timestamp_ms: None,
        };
        let offsets =
            (id(), 0..2_i32, prop::option::weighted(0.7, 0..100_i64), prop::option::weighted(0.3, 1..3_i64));
        let offsets = offsets.prop_map(move |(group, index, value, producer_id)| {
            let record = Record::Offset { group, topic: "t".into(), index, value: value.map(offset) };
            (record, producer_id)
        });
        let classic = (id(), any::<bool>()).prop_map(|(group, is_there)| {
            let value = ClassicGroupValue {
                protocol_type: "consumer".into(),
                generation: 1,
                protocol: None,
                leader: None,
                state_timestamp_ms: 0,
                members: Vec::new(),
            };
            (Record::ClassicGroup { group, value: is_there.then_some(value) }, None)
        });
        let content = prop_oneof![
            (1..100_i32).prop_map(|epoch| Content::Group(Some(GroupEpoch { epoch, metadata_hash: 0 }))),
            Just(Content::Group(None)),
            Just(Content::Member("m".into(), Some(MemberMetadata::default()))),
            Just(Content::Member("m".into(), None)),
        ];
        let consumer = (id(), content)
            .prop_map(|(group, content)| (Record::Consumer(ConsumerRecord::new(&group, content)), None));
        prop_oneof![4 => offsets, 1 => classic, 3 => consumer]
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(Record, Option<i64>),
        EndTransaction(i64, bool),
        Commit,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            5 => record().prop_map(|(record, producer_id)| Step::Write(record, producer_id)),
            1 => (1..3_i64, any::<bool>()).prop_map(|(id, committed)| Step::EndTransaction(id, committed)),
            4 => Just(Step::Commit),
        ]
    }

    /// All that readers can be told.
    fn told(groups: CommittedGroups<'_>) -> Vec<String> {
        let mut told: Vec<String> = groups
            .iter()
            .map(|group| match group {
                Group::Classic(group) => format!("{} classic", group.id),
                Group::Consumer(group) => {
                    format!("{} {} {}", group.id, group.epoch(), group.members().count())
                }
            })
            .collect();
        told.sort_unstable();
        for id in ["a", "b"] {
            let offsets = groups.offsets(id);
            for (topic, index, offset) in &offsets {
                assert_eq!(groups.offset(id, topic, *index), Some(*offset));
                told.push(format!("{id} {topic} {index} {}", offset.offset));
            }
            assert!((0..2).filter(|index| groups.offset(id, "t", *index).is_some()).count() == offsets.len());
        }
        told
    }

    proptest! {
        #[test]
        fn readers_are_told_what_a_state_of_committed_records_would_have(
            steps in prop::collection::vec(step(), 0..80),
        ) {
            let (mut state, mut kept) = (Groups::default(), KeptGroups::default());
            let mut committed = Groups::default();
            let mut ahead = std::collections::VecDeque::new();
            for step in steps {
                match &step {
                    Step::Write(record, producer_id) => {
                        state.keep(&mut kept, record, *producer_id);
                        state.replay(record, *producer_id, NOW());
                        ahead.push_back((step.clone(), vec![(record.clone(), *producer_id)]));
                    }
                    Step::EndTransaction(producer_id, is_committed) => {
                        let records = state.ended_by(*producer_id, *is_committed);
                        records.iter().for_each(|record| state.keep(&mut kept, record, None));
                        state.end_transaction(*producer_id, *is_committed, NOW());
                        ahead.push_back((step.clone(), records.into_iter().map(|record| (record, None)).collect()));
                    }
                    Step::Commit => {
                        let Some((step, records)) = ahead.pop_front() else { continue };
                        for (record, producer_id) in &records {
                            Groups::catch_up(&mut kept, record, *producer_id, NOW());
                        }
                        match step {
                            Step::Write(record, producer_id) => committed.replay(&record, producer_id, NOW()),
                            Step::EndTransaction(producer_id, is_committed) => {
                                committed.end_transaction(producer_id, is_committed, NOW());
                            }
                            Step::Commit => {}
                        }
                    }
                }
                let expected = told(CommittedGroups::with_uncommitted(&committed));
                prop_assert_eq!(told(CommittedGroups::new(&state, &kept)), expected);
                prop_assert!(!ahead.is_empty() || kept.by_id.is_empty(), "nothing is kept that is committed");
            }
        }
    }
}
