#![forbid(unsafe_code)]
#![warn(missing_docs)]
//! huld: the whole of Kafka, seen from a client, in one small process.

pub mod api;
pub mod base;
pub mod cli;
pub mod cluster;
pub mod controller;
pub mod log;
pub mod purgatory;
pub mod replica;
pub mod server;
pub mod session;
pub mod wire;
