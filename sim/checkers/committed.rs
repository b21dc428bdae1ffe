//! Committed offsets never fall: who asks for them finds at least what was acknowledged before.
//!
//! Who doesn't ask for offsets that stay (KIP-447) is told, as by Kafka, those below the high watermark of the coordinator's
//! partition, which a new leader knows late: of what was acknowledged before it led that may not hold until it has caught up.

use std::collections::BTreeMap;

use super::{Checker, Event};
use crate::cluster::ReplicaState;
use crate::sim::world::{ClientId, World};

/// The highest offsets that were acknowledged, by group and partition.
type Floors = BTreeMap<(&'static str, i32), i64>;

/// The highest offsets that were acknowledged, now and when each member asked.
#[derive(Debug, Default)]
pub struct Committed {
    acknowledged: Floors,
    asked: BTreeMap<ClientId, Asked>,
    /// The highest high watermarks of the coordinators' partitions.
    replicated: BTreeMap<i32, i64>,
    /// When a leader was seen last that didn't know of one of them.
    behind_ms: Option<u64>,
    now_ms: u64,
}

#[derive(Debug)]
struct Asked {
    floors: Floors,
    is_stable: bool,
    at_ms: u64,
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
            Event::AskedCommitted { reader, is_stable, .. } => {
                let (floors, is_stable, at_ms) = (self.acknowledged.clone(), *is_stable, self.now_ms);
                self.asked.insert(*reader, Asked { floors, is_stable, at_ms });
            }
            Event::FoundCommitted { group, reader, partition, offset } => {
                let Some(asked) = self.asked.get(reader) else { return Ok(()) };
                let was_behind = self.behind_ms.is_some_and(|behind_ms| behind_ms >= asked.at_ms);
                let floor = asked.floors.get(&(*group, *partition));
                let holds = asked.is_stable || !was_behind;
                if let Some(floor) = floor.filter(|floor| holds && offset < floor) {
                    return Err(format!(
                        "offset {floor} of partition {partition} was committed, and later {offset} was found"
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn inspect(&mut self, world: &mut World, replicas: &[ReplicaState]) -> Result<(), String> {
        self.now_ms = world.now_ms;
        for replica in replicas.iter().filter(|replica| &*replica.topic == "__consumer_offsets") {
            let highest = self.replicated.entry(replica.key.index).or_default();
            *highest = (*highest).max(replica.high_watermark);
            if replica.leads && replica.high_watermark < *highest {
                self.behind_ms = Some(world.now_ms);
            }
        }
        Ok(())
    }
}
