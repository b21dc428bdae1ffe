//! What a member of a group owns, how far it has read it, and how far that is committed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::checkers::RecordName;

/// A member's share of a topic.
#[derive(Debug, Default)]
pub struct Share {
    /// The group's generation, or the member's epoch (KIP-848); none outside of the group.
    pub generation: Option<i32>,
    held: BTreeMap<i32, Held>,
    /// Grows whenever something has to be read from its committed offset on: what was asked before doesn't count.
    pub version: u64,
}

#[derive(Debug, Default)]
struct Held {
    /// The next offset to read, once it is known.
    position: Option<i64>,
    /// What is committed, as far as this member has seen to it.
    committed: Option<i64>,
    /// What has been read and is to be made something of, with its offsets.
    records: VecDeque<(i64, RecordName)>,
}

impl Share {
    /// These partitions are owned, and no others.
    pub fn own(&mut self, partitions: &BTreeSet<i32>) {
        if self.held.keys().eq(partitions) {
            return;
        }
        self.version += 1;
        self.held.retain(|partition, _| partitions.contains(partition));
        for partition in partitions {
            self.held.entry(*partition).or_default();
        }
    }

    /// The member is in no generation, and owns nothing.
    pub fn leave(&mut self) {
        self.generation = None;
        self.own(&BTreeSet::new());
    }

    /// What is owned.
    pub fn owned(&self) -> BTreeSet<i32> {
        self.held.keys().copied().collect()
    }

    /// What is owned, and is to be read from an offset that isn't known.
    pub fn unknown(&self) -> Vec<i32> {
        let unknown = self.held.iter().filter(|(_, held)| held.position.is_none());
        unknown.map(|(partition, _)| *partition).collect()
    }

    /// Where the group has come to is known.
    pub fn found(&mut self, partition: i32, offset: i64) {
        if let Some(held) = self.held.get_mut(&partition) {
            held.position.get_or_insert(offset);
        }
    }

    /// The next offsets to read.
    pub fn positions(&self) -> BTreeMap<i32, i64> {
        self.held.iter().filter_map(|(partition, held)| Some((*partition, held.position?))).collect()
    }

    /// What this member has committed.
    pub fn committed(&self) -> BTreeMap<i32, i64> {
        self.held.iter().filter_map(|(partition, held)| Some((*partition, held.committed?))).collect()
    }

    /// Records were read from an offset on: they count if that is where to read.
    pub fn read(&mut self, partition: i32, from: i64, next_offset: i64, records: Vec<(i64, RecordName)>) {
        let Some(held) = self.held.get_mut(&partition).filter(|held| held.position == Some(from)) else {
            return;
        };
        held.position = Some(from.max(next_offset));
        held.records.extend(records.into_iter().filter(|(offset, _)| *offset >= from));
    }

    /// Offsets are committed.
    pub fn committed_to(&mut self, offsets: &BTreeMap<i32, i64>) {
        for (partition, offset) in offsets {
            if let Some(held) = self.held.get_mut(partition) {
                held.committed = Some(*offset);
            }
        }
    }

    /// Takes up to so many records of each partition, and says from which offsets to go on after them; none if that is
    /// where the group has come to already.
    pub fn take(&mut self, count: usize) -> Option<Taken> {
        let mut taken = Taken { version: self.version, ..Taken::default() };
        for (partition, held) in &mut self.held {
            let Some(position) = held.position else { continue };
            let records = held.records.drain(..count.min(held.records.len()));
            taken.records.extend(records.map(|(_, name)| (*partition, name)));
            let next = held.records.front().map_or(position, |(offset, _)| *offset);
            if held.committed != Some(next) {
                taken.offsets.insert(*partition, next);
            }
        }
        (!taken.offsets.is_empty()).then_some(taken)
    }

    /// What was taken came to nothing, or may have: all is read again from where the group has come to.
    pub fn rewind(&mut self) {
        self.version += 1;
        self.held.values_mut().for_each(|held| *held = Held::default());
    }
}

/// What was taken of a share.
#[derive(Clone, Debug, Default)]
pub struct Taken {
    /// Records, each with its partition.
    pub records: Vec<(i32, RecordName)>,
    /// From which offsets to go on.
    pub offsets: BTreeMap<i32, i64>,
    /// The version of the share that it was taken of.
    pub version: u64,
}
