//! A partition has at most one owner in a generation of a group, or in an epoch of its members (KIP-848); and no member is
//! told that it still owns what another has been given since.
//!
//! What a member is told counts once a heartbeat has confirmed it: as Kafka's, a coordinator answers a sync from what it has
//! loaded, which may be lost yet, and a heartbeat when all of that is committed. And one that hasn't heard yet that another has
//! taken over goes on answering: while there are two, what members are told doesn't count.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checker, Event};
use crate::cluster::{BrokerState, ReplicaState};
use crate::sim::world::{ClientId, World};

/// The topic whose partitions' leaders coordinate groups.
const COORDINATED: &str = "__consumer_offsets";

/// Who owned and owns what.
#[derive(Debug, Default)]
pub struct Ownership {
    owners: BTreeMap<(&'static str, i32, i32), ClientId>,
    /// Who has come to own each partition last.
    holders: BTreeMap<(&'static str, i32), Holder>,
    /// When two brokers were seen last that both took themselves for the coordinator of the same groups.
    divided_ms: Option<u64>,
    now_ms: u64,
}

#[derive(Debug)]
struct Holder {
    reader: ClientId,
    generation: i32,
    since_ms: u64,
}

impl Checker for Ownership {
    fn name(&self) -> &'static str {
        "a partition has one owner in a generation"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Owns { group, reader, share, .. } => {
                self.holders.retain(|(held, partition), holder| {
                    let still_owns = share.as_ref().is_some_and(|(_, owned)| owned.contains(partition));
                    held != group || holder.reader != *reader || still_owns
                });
            }
            Event::Confirmed { asked_ms, .. } if self.divided_ms >= Some(*asked_ms) => {}
            Event::Confirmed { group, reader, generation, partitions, asked_ms } => {
                for partition in partitions {
                    let holder = self.holders.get(&(*group, *partition));
                    let given_away = holder.filter(|holder| {
                        holder.reader != *reader
                            && holder.generation > *generation
                            && holder.since_ms < *asked_ms
                    });
                    if let Some(holder) = given_away {
                        return Err(format!(
                            "client {reader} of group {group} was told after {asked_ms} ms that it still owns \
                             partition {partition} in epoch {generation}, which has been {holder:?}'s before"
                        ));
                    }
                    self.own(group, *reader, *generation, *partition)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn inspect(&mut self, world: &mut World, replicas: &[ReplicaState]) -> Result<(), String> {
        self.now_ms = world.now_ms;
        let leaders = replicas.iter().filter(|replica| replica.leads && &*replica.topic == COORDINATED);
        let running = leaders.filter(|leader| leader.broker_state != BrokerState::Down);
        let mut led = BTreeSet::new();
        if running.map(|leader| leader.key.index).any(|index| !led.insert(index)) {
            self.divided_ms = Some(world.now_ms);
        }
        Ok(())
    }
}

impl Ownership {
    fn own(
        &mut self,
        group: &'static str,
        reader: ClientId,
        generation: i32,
        partition: i32,
    ) -> Result<(), String> {
        let owner = *self.owners.entry((group, generation, partition)).or_insert(reader);
        if owner != reader {
            return Err(format!(
                "clients {owner} and {reader} of group {group} both own partition {partition} in generation \
                 {generation}"
            ));
        }
        let since_ms = self.now_ms;
        let holder =
            self.holders.entry((group, partition)).or_insert(Holder { reader, generation, since_ms });
        if holder.reader == reader {
            holder.generation = generation;
        } else if holder.generation < generation {
            *holder = Holder { reader, generation, since_ms };
        }
        Ok(())
    }
}
