//! Bytes: frames, headers, preflight, record batches, compression. Knows no state.
//!
//! What peers send must not make it panic, hence the lints.

#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

pub mod batch;
mod builder;
pub mod check;
pub mod compression;
pub mod decode;
pub mod frame;
pub mod header;
mod lz4;
pub mod marker;
pub mod preflight;
pub mod records;
pub mod repair;
mod shapes;
mod snappy;
pub mod walk;
