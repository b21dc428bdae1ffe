//! Consumers read nothing above the high watermark.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checker, Event};
use crate::base::NodeId;
use crate::cluster::ReplicaState;
use crate::sim::contacts::TOPIC;
use crate::sim::world::World;

/// The longest that an answer is under way.
const ANSWERS_ARRIVE_WITHIN_MS: u64 = 100;

/// What is replicated.
#[derive(Debug, Default)]
pub struct Reads {
    /// The highest high watermark that there was: followers have theirs from leaders.
    replicated: BTreeMap<i32, i64>,
    /// Who led at the last look.
    led: BTreeSet<(NodeId, i32)>,
    /// Partitions of which a leader has lost its replica: until then it may have had more replicated, and answered, than
    /// was seen.
    in_doubt_until_ms: BTreeMap<i32, u64>,
    now_ms: u64,
}

impl Checker for Reads {
    fn name(&self) -> &'static str {
        "consumers read what is replicated"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        let Event::Read { reader, partition, offset, .. } = event else { return Ok(()) };
        let replicated = self.replicated.get(partition).copied().unwrap_or(0);
        let is_in_doubt =
            self.in_doubt_until_ms.get(partition).is_some_and(|until_ms| self.now_ms <= *until_ms);
        if *offset >= replicated && !is_in_doubt {
            return Err(format!(
                "client {reader} read offset {offset} of partition {partition}, of which only what is below \
                 {replicated} was ever replicated"
            ));
        }
        Ok(())
    }

    fn inspect(&mut self, world: &mut World, replicas: &[ReplicaState]) -> Result<(), String> {
        for replica in replicas.iter().filter(|replica| &*replica.topic == TOPIC) {
            let highest = self.replicated.entry(replica.key.index).or_default();
            *highest = (*highest).max(replica.high_watermark);
        }
        let leaders = replicas.iter().filter(|replica| replica.leads && &*replica.topic == TOPIC);
        let leading = leaders.map(|replica| (replica.broker, replica.key.index)).collect();
        let led = std::mem::replace(&mut self.led, leading);
        self.now_ms = world.now_ms;
        for (_, partition) in led.difference(&self.led) {
            self.in_doubt_until_ms.insert(*partition, world.now_ms + ANSWERS_ARRIVE_WITHIN_MS);
        }
        Ok(())
    }
}
