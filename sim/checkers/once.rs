//! No record is there twice, although its batch is sent again until it is acknowledged.

use std::collections::BTreeMap;

use super::{Checker, Event, RecordName};

/// Where records were seen.
#[derive(Debug, Default)]
pub struct Once {
    seen: BTreeMap<(i32, RecordName), i64>,
}

impl Checker for Once {
    fn name(&self) -> &'static str {
        "records are there once"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        let Event::Read { partition, offset, name, .. } = event else { return Ok(()) };
        let before = *self.seen.entry((*partition, *name)).or_insert(*offset);
        if before != *offset {
            return Err(format!("{name} is at offsets {before} and {offset} of partition {partition}"));
        }
        Ok(())
    }
}
