//! What was read once is there for good, and everybody reads the same: no election is unclean here.

use std::collections::BTreeMap;

use super::{Checker, Event, RecordName};

/// What has been read.
#[derive(Debug, Default)]
pub struct Stays {
    read: BTreeMap<(i32, i64), RecordName>,
}

impl Checker for Stays {
    fn name(&self) -> &'static str {
        "what was read stays"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        let Event::Read { partition, offset, name, .. } = event else { return Ok(()) };
        let first = self.read.entry((*partition, *offset)).or_insert(*name);
        if first != name {
            return Err(format!("offset {offset} of partition {partition} was {first} and is now {name}"));
        }
        Ok(())
    }
}
