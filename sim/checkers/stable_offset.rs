//! The last stable offset lies at or below the high watermark, and never falls while its leader leads.

use std::collections::BTreeMap;

use super::Checker;
use crate::base::{NodeId, PartitionKey};
use crate::cluster::ReplicaState;
use crate::sim::world::World;

/// The last stable offset of each term of a leader.
#[derive(Debug, Default)]
pub struct StableOffset {
    last: BTreeMap<(PartitionKey, i32, NodeId, u32), i64>,
}

impl Checker for StableOffset {
    fn name(&self) -> &'static str {
        "last stable offsets rise below high watermarks"
    }

    fn inspect(&mut self, _: &mut World, replicas: &[ReplicaState]) -> Result<(), String> {
        for replica in replicas {
            let ReplicaState { key, leader_epoch, broker, incarnation, last_stable_offset, .. } = *replica;
            let name = || format!("{}-{} on broker {}", replica.topic, key.index, broker.0);
            if last_stable_offset > replica.high_watermark {
                return Err(format!(
                    "the last stable offset {last_stable_offset} of {} is above its high watermark {}",
                    name(),
                    replica.high_watermark
                ));
            }
            if !replica.leads {
                continue;
            }
            let term = (key, leader_epoch, broker, incarnation);
            let last = self.last.insert(term, last_stable_offset).unwrap_or(last_stable_offset);
            if last_stable_offset < last {
                return Err(format!(
                    "the last stable offset of {} fell from {last} to {last_stable_offset}",
                    name()
                ));
            }
        }
        Ok(())
    }
}
