//! Who reads committed transactions sees no record of one that is open or was aborted.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checker, End, Event, RecordName};

/// Which transactions may be committed, and which are known not to be.
#[derive(Debug, Default)]
pub struct Isolation {
    committing: BTreeSet<RecordName>,
    aborted: BTreeSet<RecordName>,
    read: BTreeMap<RecordName, (i32, i64)>,
}

impl Checker for Isolation {
    fn name(&self) -> &'static str {
        "read_committed shows what is committed"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Committing { name } => {
                self.committing.insert(*name);
            }
            Event::Ended { name, end: End::Aborted, .. } => {
                self.aborted.insert(*name);
                if let Some((partition, offset)) = self.read.get(name) {
                    return Err(format!(
                        "{name} was read at offset {offset} of partition {partition}, and then aborted"
                    ));
                }
            }
            Event::ReadCommitted { partition, offset, name } => {
                let is_aborted = self.aborted.contains(name);
                if is_aborted || !self.committing.contains(name) {
                    let what = if is_aborted { "aborted" } else { "open" };
                    return Err(format!(
                        "{name} was {what}, and read at offset {offset} of partition {partition}"
                    ));
                }
                self.read.insert(*name, (*partition, *offset));
            }
            _ => {}
        }
        Ok(())
    }
}
