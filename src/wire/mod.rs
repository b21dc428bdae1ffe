//! Bytes: frames, headers, preflight, record batches, compression. Knows no state.

pub mod batch;
