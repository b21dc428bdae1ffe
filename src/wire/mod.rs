//! Bytes: frames, headers, preflight, record batches, compression. Knows no state.

pub mod batch;
pub mod frame;
pub mod header;
pub mod preflight;
mod shapes;
