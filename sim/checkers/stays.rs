//! What was read once is there for good, and everybody reads the same: no election is unclean here.

use std::collections::BTreeMap;

use super::{Checker, Event, RecordName, last_leaders};
use crate::cluster::ReplicaState;
use crate::sim::world::World;

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

    /// Whoever leads last has all that was read before.
    fn inspect(&mut self, _: &mut World, replicas: &[ReplicaState]) -> Result<(), String> {
        for (partition, leader) in last_leaders(replicas) {
            let read = self.read.range((partition, 0)..(partition + 1, 0)).next_back();
            if let Some(((_, offset), name)) = read.filter(|((_, at), _)| *at >= leader.log_end_offset) {
                return Err(format!(
                    "{name} was read at offset {offset} of partition {partition}; broker {} leads it with a log that \
                     ends at {}",
                    leader.broker.0, leader.log_end_offset
                ));
            }
        }
        Ok(())
    }
}
