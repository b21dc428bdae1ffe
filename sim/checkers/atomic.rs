//! A transaction is seen whole or not at all, each of its records once, by who reads to the end; and whole if its producer
//! was told that it is committed.

use std::collections::BTreeMap;

use super::{Checker, End, Event, RecordName};

/// How transactions ended, and where their records were read.
#[derive(Debug, Default)]
pub struct Atomic {
    ended: BTreeMap<RecordName, (End, i32)>,
    read: BTreeMap<RecordName, BTreeMap<i32, i64>>,
}

impl Checker for Atomic {
    fn name(&self) -> &'static str {
        "transactions are seen whole or not at all"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Ended { name, end, partitions } => {
                self.ended.insert(*name, (*end, *partitions));
            }
            Event::ReadCommitted { partition, offset, name } => {
                let first = self.read.entry(*name).or_default().entry(*partition).or_insert(*offset);
                if first != offset {
                    return Err(format!(
                        "{name} was read at offsets {first} and {offset} of partition {partition}"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        let none = BTreeMap::new();
        for (name, (end, partitions)) in &self.ended {
            let read = self.read.get(name).unwrap_or(&none);
            let is_whole = read.len() == *partitions as usize;
            if !is_whole && (*end == End::Committed || !read.is_empty()) {
                return Err(format!(
                    "{name} ended {end:?} in {partitions} partitions, and was read in {read:?}"
                ));
            }
        }
        Ok(())
    }
}
