//! Committed offsets never fall: who asks for them finds at least what was acknowledged before.

use std::collections::BTreeMap;

use super::{Checker, Event};
use crate::sim::world::ClientId;

/// The highest offsets that were acknowledged, now and when each member asked.
#[derive(Debug, Default)]
pub struct Committed {
    acknowledged: BTreeMap<(&'static str, i32), i64>,
    when_asked: BTreeMap<ClientId, BTreeMap<(&'static str, i32), i64>>,
}

impl Checker for Committed {
    fn name(&self) -> &'static str {
        "committed offsets stay"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Committed { group, partition, offset } => {
                let highest = self.acknowledged.entry((*group, *partition)).or_insert(*offset);
                *highest = (*highest).max(*offset);
            }
            Event::AskedCommitted { reader, .. } => {
                self.when_asked.insert(*reader, self.acknowledged.clone());
            }
            Event::FoundCommitted { group, reader, partition, offset } => {
                let floor = self.when_asked.get(reader).and_then(|floors| floors.get(&(*group, *partition)));
                if let Some(floor) = floor.filter(|floor| offset < floor) {
                    return Err(format!(
                        "offset {floor} of partition {partition} was committed, and later {offset} was found"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
