//! A leader's high watermark never falls while it leads, nor does its last stable offset; both lie within its log.

use std::collections::BTreeMap;

use super::Checker;
use crate::base::{NodeId, PartitionKey};
use crate::cluster::ReplicaState;
use crate::sim::world::World;

/// The last high watermark and last stable offset of each term of a leader.
#[derive(Debug, Default)]
pub struct HighWatermark {
    last: BTreeMap<(PartitionKey, i32, NodeId, u32), (i64, i64)>,
}

impl Checker for HighWatermark {
    fn name(&self) -> &'static str {
        "high watermarks rise"
    }

    fn inspect(&mut self, _: &mut World, replicas: &[ReplicaState]) -> Result<(), String> {
        for replica in replicas {
            let ReplicaState { key, leader_epoch, broker, incarnation, high_watermark, .. } = *replica;
            if high_watermark > replica.log_end_offset || replica.last_stable_offset > high_watermark {
                return Err(format!(
                    "broker {} has the high watermark {high_watermark} of {}-{} in a log that ends at {}",
                    broker.0, replica.topic, key.index, replica.log_end_offset
                ));
            }
            if !replica.leads {
                continue;
            }
            let now = (high_watermark, replica.last_stable_offset);
            let last = self.last.entry((key, leader_epoch, broker, incarnation)).or_insert(now);
            if now.0 < last.0 || now.1 < last.1 {
                return Err(format!(
                    "high watermark and last stable offset of {}-{} fell from {last:?} to {now:?} on broker {}",
                    replica.topic, key.index, broker.0
                ));
            }
            *last = now;
        }
        Ok(())
    }
}
