//! A producer of transactions: each is one record into every partition of a topic of its own, committed, or aborted for a
//! whim; after an error that ends a transaction, or a crash, it begins anew.

use super::checkers::{End, Event, RecordName};
use super::contacts::TRANSACTIONS;
use super::transactional::{Outcome, Plan, Transactional, Way};
use super::world::{ClientId, Incident, Notice, World};
use crate::base::NodeId;

/// A model producer of transactions.
#[derive(Debug)]
pub struct Transactor {
    id: ClientId,
    producer: Transactional,
    /// The transaction that comes next, or is under way.
    number: u64,
    /// How many there are to be.
    transactions: u64,
    /// Whether the checkers know that this one may be committed.
    is_told: bool,
}

impl Transactor {
    /// A producer of so many transactions.
    pub fn new(id: ClientId, bootstrap: Vec<NodeId>, way: Way, transactions: u64) -> Self {
        let producer = Transactional::new(id, bootstrap, TRANSACTIONS, format!("x{id}"), way);
        Transactor { id, producer, number: 0, transactions, is_told: false }
    }

    /// Whether all its transactions have ended.
    pub fn is_done(&self) -> bool {
        self.number >= self.transactions
    }

    /// The process ends without a word, and begins anew.
    pub fn crash(&mut self, world: &mut World) {
        if let Some(outcome) = self.producer.crash(world) {
            self.ended(world, outcome);
        }
    }

    /// Something has come about.
    pub fn notice(&mut self, world: &mut World, notice: Notice) {
        let is_awake = matches!(notice, Notice::Wake);
        if let Some(outcome) = self.producer.notice(world, notice) {
            self.ended(world, outcome);
        }
        if is_awake && !self.is_done() {
            self.begin(world);
            let after_ms = 20 + world.entropy.below(300);
            world.schedule(after_ms, Incident::Wake(self.id));
        }
        if self.producer.may_be_committed() && !self.is_told {
            world.note(Event::Committing { name: self.name() });
            self.is_told = true;
        }
    }

    /// Begins the next transaction, once that can be.
    fn begin(&mut self, world: &mut World) {
        if !self.producer.is_ready() {
            return;
        }
        let end = if world.entropy.below(4) == 0 { End::Aborted } else { End::Committed };
        let value = self.name().to_string();
        let records = (0..self.producer.partitions()).map(|partition| (partition, vec![value.clone()]));
        self.is_told = false;
        self.producer.begin(world, Plan { records: records.collect(), offsets: None, end });
    }

    fn ended(&mut self, world: &mut World, outcome: Outcome) {
        let partitions = self.producer.partitions();
        world.note(Event::Ended { name: self.name(), end: outcome.end, partitions });
        self.number += 1;
    }

    fn name(&self) -> RecordName {
        RecordName { producer: self.id, number: self.number }
    }
}
