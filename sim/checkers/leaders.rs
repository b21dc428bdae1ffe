//! A leader epoch has one leader.

use std::collections::BTreeMap;

use super::Checker;
use crate::base::{NodeId, PartitionKey};
use crate::cluster::ReplicaState;
use crate::sim::world::World;

/// Who led in which epoch.
#[derive(Debug, Default)]
pub struct Leaders {
    of_epoch: BTreeMap<(PartitionKey, i32), NodeId>,
}

impl Checker for Leaders {
    fn name(&self) -> &'static str {
        "a leader epoch has one leader"
    }

    fn inspect(&mut self, _: &mut World, replicas: &[ReplicaState]) -> Result<(), String> {
        for replica in replicas.iter().filter(|replica| replica.leads) {
            let leader = *self.of_epoch.entry((replica.key, replica.leader_epoch)).or_insert(replica.broker);
            if leader != replica.broker {
                return Err(format!(
                    "brokers {} and {} both led {}-{} in epoch {}",
                    leader.0, replica.broker.0, replica.topic, replica.key.index, replica.leader_epoch
                ));
            }
        }
        Ok(())
    }
}
