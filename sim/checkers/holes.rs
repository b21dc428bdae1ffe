//! Offsets have no holes: whoever reads from the first on gets every one.

use std::collections::BTreeMap;

use super::{Checker, Event};
use crate::sim::world::ClientId;

/// The next offset of every reader.
#[derive(Debug, Default)]
pub struct Holes {
    next: BTreeMap<(ClientId, i32), i64>,
}

impl Checker for Holes {
    fn name(&self) -> &'static str {
        "offsets have no holes"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        let Event::Read { reader, partition, offset, .. } = event else { return Ok(()) };
        let next = self.next.entry((*reader, *partition)).or_default();
        if offset != next {
            return Err(format!(
                "client {reader} got offset {offset} of partition {partition} after all below {next}"
            ));
        }
        *next += 1;
        Ok(())
    }
}
