//! Every request is answered, or waits with a deadline.

use std::collections::{BTreeMap, BTreeSet};

use super::Checker;
use crate::base::{ConnectionId, Instant, NodeId};
use crate::cluster::{BrokerState, Kind, ReplicaState};
use crate::purgatory::WaitId;
use crate::sim::world::World;

/// How many steps lie between two looks, each of which goes through all waits.
const STEPS: u32 = 32;

/// How long a group's coordinator waits for what it has written (`offsets.commit.timeout.ms`).
const WRITE_TIMEOUT_MS: u64 = 5_000;

/// Since when waits have no deadline of their own, nor their group a timer, ms.
#[derive(Debug, Default)]
pub struct Answered {
    steps: u32,
    untimed_since_ms: BTreeMap<(NodeId, WaitId), u64>,
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
        let untimed_since_ms = std::mem::take(&mut self.untimed_since_ms);
        for wait in waits.iter().filter(|wait| !frozen.contains(&wait.node)) {
            // Who joins or syncs waits for others, until a timer of the group's own says otherwise; and once all are
            // there, for the coordinator's log.
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
                let name = (wait.node, wait.id);
                let since_ms = untimed_since_ms.get(&name).copied().unwrap_or(world.now_ms);
                let may_wait = matches!(wait.kind, Kind::Join | Kind::Sync);
                if !may_wait || world.now_ms > since_ms + WRITE_TIMEOUT_MS {
                    return Err(format!("a wait has no end: {wait:?}"));
                }
                self.untimed_since_ms.insert(name, since_ms);
            }
            waiting.extend(wait.connection);
        }
        for (connection, broker, is_asked) in world.connections() {
            if is_asked && !waiting.contains(&connection) && !frozen.contains(&broker) {
                return Err(format!("a request on {connection:?} to broker {} waits for nothing", broker.0));
            }
        }
        Ok(())
    }
}
