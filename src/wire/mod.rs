//! Bytes: frames, headers, preflight, record batches, compression. Knows no state.

pub mod batch;
mod builder;
pub mod check;
pub mod compression;
pub mod decode;
pub mod frame;
pub mod header;
mod lz4;
pub mod preflight;
pub mod records;
pub mod repair;
mod shapes;
mod snappy;
pub mod walk;
