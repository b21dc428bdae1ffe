//! Records of a producer stay in their order, although several batches are under way at once.

use std::collections::BTreeMap;

use super::{Checker, Event, RecordName};

/// Where records were first seen.
#[derive(Debug, Default)]
pub struct Order {
    seen: BTreeMap<(i32, RecordName), i64>,
}

impl Checker for Order {
    fn name(&self) -> &'static str {
        "records are in order"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        let Event::Read { partition, offset, name, .. } = event else { return Ok(()) };
        self.seen.entry((*partition, *name)).or_insert(*offset);
        let next = RecordName { number: name.number + 1, ..*name };
        let previous = name.number.checked_sub(1).map(|number| RecordName { number, ..*name });
        let previous = previous.and_then(|name| self.seen.get(&(*partition, name)));
        let following = self.seen.get(&(*partition, next));
        if previous.is_some_and(|at| at >= offset) || following.is_some_and(|at| at <= offset) {
            return Err(format!("{name} at offset {offset} of partition {partition} is out of order"));
        }
        Ok(())
    }
}
