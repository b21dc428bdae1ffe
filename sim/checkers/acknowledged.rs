//! No acknowledged record is lost, and it is where its producer was told.

use std::collections::BTreeMap;

use super::{Checker, Event, RecordName};

/// What producers were promised, and what consumers have read.
#[derive(Debug, Default)]
pub struct Acknowledged {
    promised: BTreeMap<(i32, i64), RecordName>,
    read: BTreeMap<(i32, i64), RecordName>,
}

impl Checker for Acknowledged {
    fn name(&self) -> &'static str {
        "no acknowledged record is lost"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Acknowledged { partition, name, offset } => {
                if let Some(other) = self.promised.insert((*partition, *offset), *name) {
                    return Err(format!(
                        "{name} and {other} were both acknowledged at offset {offset} of partition {partition}"
                    ));
                }
            }
            Event::Read { partition, offset, name, .. } => {
                self.read.insert((*partition, *offset), *name);
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        for ((partition, offset), name) in &self.promised {
            match self.read.get(&(*partition, *offset)) {
                Some(found) if found == name => {}
                found => {
                    let found = found.map_or("nothing".to_owned(), RecordName::to_string);
                    return Err(format!(
                        "{name} was acknowledged at offset {offset} of partition {partition}; {found} is there"
                    ));
                }
            }
        }
        Ok(())
    }
}
