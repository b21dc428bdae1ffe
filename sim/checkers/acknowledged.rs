//! No acknowledged record is lost, and it is where its producer was told.

use std::collections::BTreeMap;

use super::{Checker, Event, RecordName, last_leaders};
use crate::cluster::ReplicaState;
use crate::sim::world::World;

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

    /// Whoever leads last has all that was promised before.
    fn inspect(&mut self, _: &mut World, replicas: &[ReplicaState]) -> Result<(), String> {
        for (partition, leader) in last_leaders(replicas) {
            let promised = self.promised.range((partition, 0)..(partition + 1, 0)).next_back();
            if let Some(((_, offset), name)) = promised.filter(|((_, at), _)| *at >= leader.log_end_offset) {
                return Err(format!(
                    "{name} was acknowledged at offset {offset} of partition {partition}; broker {} leads it \
                     with a log that ends at {}",
                    leader.broker.0, leader.log_end_offset
                ));
            }
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
