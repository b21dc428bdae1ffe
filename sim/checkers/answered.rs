//! Every request is answered, or waits with a deadline; no wait outlives its connection.

use std::collections::BTreeSet;

use super::Checker;
use crate::base::{ConnectionId, Instant};
use crate::cluster::{BrokerState, Kind, ReplicaState};
use crate::sim::world::World;

/// How many steps lie between two looks, each of which goes through all waits.
const STEPS: u32 = 32;

/// Counts steps.
#[derive(Debug, Default)]
pub struct Answered {
    steps: u32,
}

impl Checker for Answered {
    fn name(&self) -> &'static str {
        "requests are answered"
    }

    fn inspect(&mut self, world: &mut World, _: &[ReplicaState]) -> Result<(), String> {
        self.steps += 1;
        if !self.steps.is_multiple_of(STEPS) {
            return Ok(());
        }
        let now = world.now();
        let waits = world.cluster.waits(now);
        let mut waiting: BTreeSet<ConnectionId> = BTreeSet::new();
        let brokers = world.cluster.brokers();
        let frozen = brokers.into_iter().filter(|(_, state)| *state == BrokerState::Frozen);
        let frozen: BTreeSet<_> = frozen.map(|(id, _)| id).collect();
        for wait in waits.iter().filter(|wait| !frozen.contains(&wait.node)) {
            // Who joins or syncs waits for others, until a timer of the group's own says otherwise.
            let is_timed = match wait.kind {
                Kind::Join | Kind::Sync => waits.iter().any(|other| {
                    other.node == wait.node
                        && other.connection.is_none()
                        && other.description.waits_for == wait.description.waits_for
                        && other.waiter.deadline != Instant::NEVER
                }),
                _ => wait.waiter.deadline != Instant::NEVER,
            };
            if !is_timed {
                return Err(format!("a wait has no end: {wait:?}"));
            }
            waiting.extend(wait.connection);
        }
        let mut open = BTreeSet::new();
        for (connection, broker, is_asked) in world.connections() {
            open.insert(connection);
            if is_asked && !waiting.contains(&connection) && !frozen.contains(&broker) {
                return Err(format!("a request on {connection:?} to broker {} waits for nothing", broker.0));
            }
        }
        match waiting.iter().find(|connection| !open.contains(connection)) {
            Some(connection) => Err(format!("a wait has outlived its {connection:?}")),
            None => Ok(()),
        }
    }
}
