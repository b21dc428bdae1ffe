//! A leader's high watermark never falls while it leads, and lies within its log.

use std::collections::BTreeMap;

use super::Checker;
use crate::base::{NodeId, PartitionKey};
use crate::cluster::ReplicaState;
use crate::sim::world::World;

/// The last high watermark of each term of a leader.
#[derive(Debug, Default)]
pub struct HighWatermark {
    last: BTreeMap<(PartitionKey, i32, NodeId, u32), i64>,
}

impl Checker for HighWatermark {
    fn name(&self) -> &'static str {
        "high watermarks rise"
    }

    fn inspect(&mut self, _: &mut World, replicas: &[ReplicaState]) -> Result<(), String> {
        for replica in replicas {
            let ReplicaState { key, leader_epoch, broker, incarnation, high_watermark, .. } = *replica;
            if high_watermark > replica.log_end_offset {
                return Err(format!(
                    "broker {} has the high watermark {high_watermark} of {}-{} in a log that ends at {}",
                    broker.0, replica.topic, key.index, replica.log_end_offset
                ));
            }
            if !replica.leads {
                continue;
            }
            let term = (key, leader_epoch, broker, incarnation);
            let last = self.last.insert(term, high_watermark).unwrap_or(high_watermark);
            if high_watermark < last {
                return Err(format!(
                    "the high watermark of {}-{} fell from {last} to {high_watermark} on broker {}",
                    replica.topic, key.index, broker.0
                ));
            }
        }
        Ok(())
    }
}
