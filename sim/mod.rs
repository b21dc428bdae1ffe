//! The deterministic simulator: a cluster, its clients and their bad luck, all drawn from one seed.
//!
//! The code that is tested is huld's own: clients' bytes go through real sessions into a real [`Cluster`]; only the time,
//! the network and the clients are models. One seed decides the cluster, what the clients do, when a message arrives, and
//! which brokers die, freeze, lose their tails or are cut off. First there are faults, under which nothing may go wrong
//! ([`checkers`]); then the faults stop, and everything must reach its end.
//!
//! A seed is a run, bit for bit: [`run`] says so with a digest of all that was sent and decided.
//!
//! - `world.rs`: the cluster, the network between it and the clients, the clock.
//! - `contacts.rs`: what every client has: connections to brokers, and who leads what.
//! - `producer.rs`, `consumer.rs`, `member.rs`, `consumer_member.rs`, `transactor.rs`,
//!   `admin.rs`: the clients.
//! - `faults.rs`: what goes wrong, and how it is made whole.
//! - `checkers/`: what may never happen, one a file, each with a bug that can be planted
//!   ([`Bug`](crate::base::planted::Bug)) and that it finds.

mod admin;
pub mod checkers;
mod consumer;
mod consumer_member;
mod contacts;
mod faults;
mod member;
mod producer;
mod scenario;
#[cfg(test)]
mod tests;
mod transactor;
mod world;

pub use scenario::{Counts, Failure, Outcome, run, run_traced, run_with_bug};
