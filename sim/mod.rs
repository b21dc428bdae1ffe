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
//! - `contacts.rs`: what every client has: connections to brokers, who leads and who coordinates what. `passing.rs`: which
//!   errors a client gets over.
//! - `producer.rs`, `consumer.rs`, `admin.rs`: the simpler clients.
//! - `member.rs`: a member of a group, over `group.rs` and `share.rs`, which both protocols share: `classic.rs` and
//!   `reconciling.rs`.
//! - `transactor.rs`: a producer of transactions, and `pipeline.rs`: a member whose offsets are committed in transactions,
//!   both over `transactional.rs`.
//! - `clients.rs`: which of them there are. `counts.rs`: how much they did.
//! - `faults.rs`: what goes wrong, and how it is made whole.
//! - `checkers/`: what may never happen, one a file, each with a bug that can be planted
//!   ([`Bug`](crate::base::planted::Bug)) and that it finds.

mod admin;
pub mod checkers;
mod classic;
mod clients;
mod consumer;
mod contacts;
mod counts;
mod faults;
mod group;
mod member;
mod passing;
mod pipeline;
mod producer;
mod reconciling;
mod scenario;
mod share;
#[cfg(test)]
mod tests;
mod transactional;
mod transactor;
mod world;

pub use counts::{Count, Counts};
pub use scenario::{Failure, Outcome, run, run_traced, run_with_bug};
