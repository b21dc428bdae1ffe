//! What goes wrong: drawn from the seed, each with its end. What Kafka doesn't promise to survive isn't done: a broker
//! loses the tail of its logs only where `min.insync.replicas` is more than one, and no other does before it is in every
//! ISR again.

use std::time::Duration;

use super::counts::Count;
use super::world::{Incident, World};
use crate::base::NodeId;
use crate::base::entropy::Entropy;
use crate::cluster::{BrokerState, Command, Kept, Link, Party};
use crate::controller::Partition;

/// The longest that a fault lasts.
const MAX_MS: u64 = 15_000;
/// The longest between two faults.
const MAX_PAUSE_MS: u64 = 4_000;

/// Draws faults.
#[derive(Debug)]
pub struct Faults {
    entropy: Entropy,
    brokers: Vec<NodeId>,
    /// Whether brokers may lose tails.
    may_lose_tails: bool,
    /// The broker that has lost one last.
    lossy: Option<NodeId>,
}

/// What the scenario has to do itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfortune {
    /// Nothing more.
    None,
    /// A member of a group or a producer of transactions crashes.
    ClientCrashes,
    /// One of them does nothing for so many milliseconds.
    ClientPauses(u64),
    /// A pipeline is followed by another with the same transactional id, while it works.
    PipelineIsFollowed,
}

impl Faults {
    /// None so far.
    pub fn new(entropy: Entropy, brokers: Vec<NodeId>, may_lose_tails: bool) -> Self {
        Faults { entropy, brokers, may_lose_tails, lossy: None }
    }

    /// Something goes wrong. The next fault is scheduled.
    pub fn strike(&mut self, world: &mut World) -> Misfortune {
        let pause_ms = self.entropy.below(MAX_PAUSE_MS);
        world.schedule(pause_ms, Incident::Fault);
        let broker = self.any_broker();
        let for_ms = self.entropy.below(MAX_MS);
        match self.entropy.below(17) {
            0..=2 => self.end(world, broker, Command::KillBroker(broker), for_ms),
            3 => self.end(world, broker, Command::StopBroker(broker), for_ms),
            4 | 5 => {
                world.count(Count::Freezes);
                world.command(Command::FreezeBroker(broker));
                world.schedule(for_ms, Incident::Heal(Command::ThawBroker(broker)));
            }
            6 | 7 => self.disturb(world, Link { delay: Duration::ZERO, cut: true }, for_ms),
            8 => {
                let delay = Duration::from_millis(1 + self.entropy.below(400));
                self.disturb(world, Link { delay, cut: false }, for_ms);
            }
            9 => self.steer(world, |topic, index, partition, to| {
                partition.isr.contains(&to).then_some(Command::MoveLeader { topic, index, to })
            }),
            10 => self.steer(world, |topic, index, partition, out| {
                let isr: Vec<NodeId> = partition.isr.iter().copied().filter(|id| *id != out).collect();
                (isr.len() < partition.isr.len()).then_some(Command::SetIsr { topic, index, isr })
            }),
            11 => self.freeze_fetcher(world, broker, for_ms),
            12 => {
                let open: Vec<_> = world.connections().map(|(id, ..)| id).collect();
                if let Some(id) = open.get(self.entropy.below(open.len() as u64) as usize) {
                    world.count(Count::Breaks);
                    world.break_connection(*id);
                }
            }
            13 => return Misfortune::PipelineIsFollowed,
            14 => return Misfortune::ClientPauses(2 * for_ms),
            _ => return Misfortune::ClientCrashes,
        }
        Misfortune::None
    }

    /// Everything is made whole.
    pub fn heal(&self, world: &mut World) {
        for from in self.parties() {
            for to in self.parties() {
                if world.cluster.link(from, to) != WHOLE {
                    world.command(Command::SetLink { from, to, link: WHOLE });
                }
            }
        }
        for (broker, state) in world.cluster.brokers() {
            match state {
                BrokerState::Running => {}
                BrokerState::Frozen => world.command(Command::ThawBroker(broker)),
                BrokerState::Down => {
                    world.command(Command::StartBroker { broker, kept: Kept::Everything });
                }
            }
        }
        let replicas = world.cluster.replica_states();
        for replica in replicas.into_iter().filter(|replica| !replica.leads) {
            let (broker, topic, index) = (replica.broker, replica.topic.to_string(), replica.key.index);
            world.command(Command::FreezeFetcher { broker, topic, index, frozen: false });
        }
    }

    /// A broker starts again, perhaps without what its high watermarks didn't cover.
    pub fn restart(&mut self, world: &mut World, broker: NodeId) {
        if !world.cluster.brokers().contains(&(broker, BrokerState::Down)) {
            // It has yet to go, since a slow link keeps it from handing over.
            world.schedule(1_000, Incident::Restart(broker));
            return;
        }
        let mut kept = Kept::Everything;
        if self.may_lose_tails && self.entropy.below(2) == 0 && self.may_lose_tail(world, broker) {
            world.count(Count::LostTails);
            kept = Kept::Replicated;
            self.lossy = Some(broker);
        }
        world.command(Command::StartBroker { broker, kept });
    }

    fn end(&mut self, world: &mut World, broker: NodeId, end: Command, for_ms: u64) {
        if world.cluster.brokers().contains(&(broker, BrokerState::Running)) {
            world.count(if matches!(end, Command::KillBroker(_)) { Count::Kills } else { Count::Stops });
            world.command(end);
            world.schedule(for_ms, Incident::Restart(broker));
        }
    }

    /// Whether nothing is lost if this broker loses its tails: the last that did has everything again, and whatever it
    /// was in sync for others have too, who run. To Kafka every broker that was killed may have lost its tails.
    fn may_lose_tail(&self, world: &World, broker: NodeId) -> bool {
        let topics = world.cluster.controller().topics();
        let mut partitions = topics.iter().flat_map(|topic| topic.partitions.iter());
        let brokers = world.cluster.brokers().into_iter();
        let running: Vec<NodeId> =
            brokers.filter(|(_, state)| *state == BrokerState::Running).map(|(id, _)| id).collect();
        let lossy = self.lossy.filter(|lossy| *lossy != broker);
        partitions.all(|partition| {
            let is_up = |holder: &NodeId| running.contains(holder);
            let mut holders = partition.isr.iter().chain(partition.elr.iter());
            let is_whole = lossy
                .is_none_or(|lossy| !partition.replicas.contains(&lossy) || partition.isr.contains(&lossy));
            is_whole && holders.any(|holder| *holder != broker && is_up(holder))
        })
    }

    fn disturb(&mut self, world: &mut World, link: Link, for_ms: u64) {
        let parties = self.parties();
        let from = parties[self.entropy.below(parties.len() as u64) as usize];
        let to = parties[self.entropy.below(parties.len() as u64) as usize];
        if from != to {
            world.count(if link.cut { Count::Cuts } else { Count::SlowLinks });
            world.command(Command::SetLink { from, to, link });
            world.schedule(for_ms, Incident::Heal(Command::SetLink { from, to, link: WHOLE }));
        }
    }

    fn freeze_fetcher(&mut self, world: &mut World, broker: NodeId, for_ms: u64) {
        let replicas = world.cluster.replica_states();
        let followed: Vec<_> =
            replicas.into_iter().filter(|replica| replica.broker == broker && !replica.leads).collect();
        let Some(replica) = followed.get(self.entropy.below(followed.len() as u64) as usize) else { return };
        let (topic, index) = (replica.topic.to_string(), replica.key.index);
        let freeze = |frozen| Command::FreezeFetcher { broker, topic: topic.clone(), index, frozen };
        world.count(Count::FrozenFetchers);
        world.command(freeze(true));
        world.schedule(for_ms, Incident::Heal(freeze(false)));
    }

    /// What a user may do to a partition.
    fn steer(
        &mut self,
        world: &mut World,
        command: impl Fn(String, i32, &Partition, NodeId) -> Option<Command>,
    ) {
        let topics = world.cluster.controller().topics();
        let partitions: Vec<(String, i32, Partition)> = topics
            .iter()
            .flat_map(|topic| {
                let numbered = topic.partitions.iter().enumerate();
                numbered.map(|(index, partition)| (topic.name.to_string(), index as i32, partition.clone()))
            })
            .collect();
        let at = self.entropy.below(partitions.len() as u64) as usize;
        let broker = self.any_broker();
        let Some((topic, index, partition)) = partitions.get(at) else { return };
        if let Some(command) = command(topic.clone(), *index, partition, broker) {
            world.count(Count::Orders);
            world.command(command);
        }
    }

    fn any_broker(&mut self) -> NodeId {
        self.brokers[self.entropy.below(self.brokers.len() as u64) as usize]
    }

    fn parties(&self) -> Vec<Party> {
        let brokers = self.brokers.iter().map(|id| Party::Broker(*id));
        std::iter::once(Party::Controller).chain(brokers).collect()
    }
}

/// A link as it should be.
const WHOLE: Link = Link { delay: Duration::ZERO, cut: false };
