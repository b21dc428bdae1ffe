//! Consumers read nothing above the high watermark, and nothing that another reads otherwise: what was read once is there
//! for good, unless unclean elections are allowed.

use std::collections::BTreeMap;

use super::{Checker, Event, RecordName};
use crate::base::NodeId;
use crate::cluster::ReplicaState;
use crate::sim::contacts::TOPIC;
use crate::sim::world::World;

/// What has been read.
#[derive(Debug, Default)]
pub struct Reads {
    read: BTreeMap<(i32, i64), RecordName>,
    /// The highest high watermark that there was: followers have theirs from leaders.
    replicated: BTreeMap<i32, i64>,
    /// Who led at the last look, and where their logs ended.
    led: BTreeMap<(NodeId, i32), i64>,
}

impl Checker for Reads {
    fn name(&self) -> &'static str {
        "consumers read what is replicated, and it stays"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Read { reader, partition, offset, name } => {
                let replicated = self.replicated.get(partition).copied().unwrap_or(0);
                if *offset >= replicated {
                    return Err(format!(
                        "client {reader} read offset {offset} of partition {partition}, of which only what is \
                         below {replicated} was ever replicated"
                    ));
                }
                let first = self.read.entry((*partition, *offset)).or_insert(*name);
                if first != name {
                    return Err(format!(
                        "offset {offset} of partition {partition} was {first} and is now {name}"
                    ));
                }
                Ok(())
            }
            Event::Broken(what) => Err(what.clone()),
            _ => Ok(()),
        }
    }

    fn inspect(&mut self, _: &mut World, replicas: &[ReplicaState]) -> Result<(), String> {
        for replica in replicas.iter().filter(|replica| &*replica.topic == TOPIC) {
            let highest = self.replicated.entry(replica.key.index).or_default();
            *highest = (*highest).max(replica.high_watermark);
        }
        let leaders = replicas.iter().filter(|replica| replica.leads && &*replica.topic == TOPIC);
        let leading = |replica: &ReplicaState| ((replica.broker, replica.key.index), replica.log_end_offset);
        let led = std::mem::replace(&mut self.led, leaders.map(leading).collect());
        // Between two looks a leader may have raised its high watermark, answered, and lost its replica.
        for ((broker, partition), log_end) in led {
            if !self.led.contains_key(&(broker, partition)) {
                let highest = self.replicated.entry(partition).or_default();
                *highest = (*highest).max(log_end);
            }
        }
        Ok(())
    }
}
