//! No wait outlives its connection.

use std::collections::BTreeSet;

use super::Checker;
use crate::base::ConnectionId;
use crate::cluster::{BrokerState, ReplicaState};
use crate::sim::world::World;

/// How many steps lie between two looks, each of which goes through all waits.
const STEPS: u32 = 32;

/// Counts steps.
#[derive(Debug, Default)]
pub struct Outlived {
    steps: u32,
}

impl Checker for Outlived {
    fn name(&self) -> &'static str {
        "waits end with their connections"
    }

    fn inspect(&mut self, world: &mut World, _: &[ReplicaState]) -> Result<(), String> {
        self.steps += 1;
        if !self.steps.is_multiple_of(STEPS) {
            return Ok(());
        }
        let waits = world.cluster.waits(world.now());
        let open: BTreeSet<ConnectionId> = world.connections().map(|(connection, ..)| connection).collect();
        let brokers = world.cluster.brokers().into_iter();
        // A frozen broker doesn't hear who has gone.
        let frozen = brokers.filter(|(_, state)| *state == BrokerState::Frozen).map(|(id, _)| id);
        let frozen: BTreeSet<_> = frozen.collect();
        let heard = waits.iter().filter(|wait| !frozen.contains(&wait.node));
        let outlived = heard.filter_map(|wait| wait.connection).find(|connection| !open.contains(connection));
        outlived.map_or(Ok(()), |connection| Err(format!("a wait has outlived its {connection:?}")))
    }
}
