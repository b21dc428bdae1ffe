//! Who reads committed transactions sees none that was aborted, and all of one or nothing, each record once.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checker, End, Event, RecordName};

/// How transactions ended, and what was read of them.
#[derive(Debug, Default)]
pub struct Transactions {
    ended: BTreeMap<RecordName, (End, i32)>,
    read: BTreeMap<RecordName, BTreeSet<(i32, i64)>>,
}

impl Checker for Transactions {
    fn name(&self) -> &'static str {
        "transactions are seen whole or not at all"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Ended { name, end, partitions } => {
                self.ended.insert(*name, (*end, *partitions));
                if *end == End::Aborted && self.read.contains_key(name) {
                    return Err(format!("{name} was read, and then aborted"));
                }
            }
            Event::ReadCommitted { partition, offset, name } => {
                if matches!(self.ended.get(name), Some((End::Aborted, _))) {
                    return Err(format!("{name} was aborted, and read at offset {offset} of {partition}"));
                }
                self.read.entry(*name).or_default().insert((*partition, *offset));
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        for (name, (end, partitions)) in &self.ended {
            let read = self.read.get(name).map(|read| read.iter().map(|(partition, _)| *partition));
            let read: Vec<i32> = read.into_iter().flatten().collect();
            let all: Vec<i32> = (0..*partitions).collect();
            let is_good = match end {
                End::Committed => read == all,
                End::Aborted => read.is_empty(),
                End::Unknown => read.is_empty() || read == all,
            };
            if !is_good {
                return Err(format!(
                    "{name} ended {end:?}, and was read from partitions {read:?} of {partitions}"
                ));
            }
        }
        Ok(())
    }
}
