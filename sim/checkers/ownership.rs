//! A partition has at most one owner in a generation of a group, or in an epoch of its members (KIP-848).

use std::collections::BTreeMap;

use super::{Checker, Event};

/// Who was assigned what.
#[derive(Debug, Default)]
pub struct Ownership {
    owners: BTreeMap<(&'static str, i32, i32), String>,
}

impl Checker for Ownership {
    fn name(&self) -> &'static str {
        "a partition has one owner in a generation"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        let Event::Assigned { group, generation, partition, member } = event else { return Ok(()) };
        let owner = self.owners.entry((*group, *generation, *partition)).or_insert_with(|| member.clone());
        if owner != member {
            return Err(format!(
                "{owner} and {member} of group {group} both own partition {partition} in generation {generation}"
            ));
        }
        Ok(())
    }
}
