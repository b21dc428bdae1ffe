//! A partition has at most one owner in a generation of the group.

use std::collections::BTreeMap;

use super::{Checker, Event};

/// Who was assigned what.
#[derive(Debug, Default)]
pub struct Ownership {
    owners: BTreeMap<(i32, i32), String>,
}

impl Checker for Ownership {
    fn name(&self) -> &'static str {
        "a partition has one owner in a generation"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        let Event::Assigned { generation, partition, member } = event else { return Ok(()) };
        let owner = self.owners.entry((*generation, *partition)).or_insert_with(|| member.clone());
        if owner != member {
            return Err(format!(
                "{owner} and {member} both own partition {partition} in generation {generation}"
            ));
        }
        Ok(())
    }
}
