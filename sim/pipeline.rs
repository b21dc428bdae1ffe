//! A pipeline: reads as a member of a group, makes one record of each that it reads, and commits these together with the
//! offsets up to which it has read, in one transaction (KIP-447).
//!
//! Whatever happens to it, each record of the input is to come out once. So that this is put to the test, processes crash,
//! pause for longer than their sessions or transactions last, and are followed by others with the same transactional id
//! while they still work.

use std::collections::BTreeMap;

use super::checkers::{End, Origin};
use super::contacts::OUTPUT;
use super::counts::Count;
use super::member::Member;
use super::share::Taken;
use super::transactional::{Offsets, Outcome, Plan, Transactional, Way};
use super::world::{ClientId, Incident, Notice, World};
use crate::base::NodeId;

/// Up to so many records of each partition are in one transaction.
const MAX_RECORDS: u64 = 6;

/// A model pipeline.
#[derive(Debug)]
pub struct Pipeline {
    id: ClientId,
    input: Member,
    producer: Transactional,
    transactional_id: String,
    /// What the transaction that is under way has taken.
    taken: Option<Taken>,
    /// Whether another has begun in its place, of which it doesn't know.
    is_followed: bool,
    /// Whether it has found out.
    is_over: bool,
}

impl Pipeline {
    /// A pipeline that reads as this member.
    pub fn new(
        id: ClientId,
        bootstrap: Vec<NodeId>,
        input: Member,
        transactional_id: String,
        way: Way,
    ) -> Self {
        let producer = Transactional::new(id, bootstrap, OUTPUT, transactional_id.clone(), way);
        Pipeline { id, input, producer, transactional_id, taken: None, is_followed: false, is_over: false }
    }

    /// What it reads as.
    pub fn input(&self) -> &Member {
        &self.input
    }

    /// Its transactional id.
    pub fn transactional_id(&self) -> &str {
        &self.transactional_id
    }

    /// Whether it has ended for good.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether another has begun in its place.
    pub fn is_followed(&self) -> bool {
        self.is_followed
    }

    /// Another begins in its place, of which it doesn't hear.
    pub fn follow(&mut self) {
        self.is_followed = true;
    }

    /// The process ends without a word, and begins anew unless another has done so in its place.
    pub fn crash(&mut self, world: &mut World) {
        self.producer.crash(world);
        self.taken = None;
        self.input.crash(world);
        if self.is_followed {
            self.is_over = true;
            self.input.leave_for_good(world);
        }
    }

    /// Something has come about.
    pub fn notice(&mut self, world: &mut World, notice: Notice) {
        if self.is_over {
            return;
        }
        let is_awake = matches!(notice, Notice::Wake);
        if is_awake {
            let after_ms = 50 + world.entropy.below(300);
            world.schedule(after_ms, Incident::Wake(self.id));
        }
        if let Some(outcome) = self.producer.notice(world, notice.clone()) {
            self.ended(world, outcome);
        }
        if self.is_over {
            return;
        }
        self.input.go_on(world, notice);
        if is_awake {
            self.begin(world);
        }
    }

    /// Begins the next transaction, once that can be, if there is something new.
    fn begin(&mut self, world: &mut World) {
        let Some(member) = self.input.identity().filter(|_| self.producer.is_ready()) else { return };
        let partitions = self.producer.partitions() as u64;
        let count = 1 + world.entropy.below(MAX_RECORDS);
        let Some(taken) = self.input.hand_over(count as usize) else { return };
        let mut records: BTreeMap<i32, Vec<String>> = BTreeMap::new();
        for (partition, name) in &taken.records {
            let value = Origin { partition: *partition, name: *name }.to_string();
            let into = (*partition as u64 + name.number) % partitions;
            records.entry(into as i32).or_default().push(value);
        }
        let topic = self.input.group().topic;
        let offsets = Some(Offsets { member, topic, offsets: taken.offsets.clone() });
        let end = if world.entropy.below(5) == 0 { End::Aborted } else { End::Committed };
        self.taken = Some(taken);
        self.producer.begin(world, Plan { records, offsets, end });
    }

    fn ended(&mut self, world: &mut World, outcome: Outcome) {
        let Some(taken) = self.taken.take() else { return };
        match outcome.end {
            End::Committed => {
                world.counts.add(Count::Transformed, taken.records.len() as u64);
                self.input.committed_to(world, &taken);
            }
            End::Aborted | End::Unknown => self.input.rewind(),
        }
        if outcome.is_fenced {
            self.crash(world);
        }
    }
}
