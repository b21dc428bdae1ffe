//! No client is told what nobody should be told here: an error that doesn't pass.

use super::{Checker, Event};

/// Hears what clients complain of.
#[derive(Debug, Default)]
pub struct Refusals;

impl Checker for Refusals {
    fn name(&self) -> &'static str {
        "errors pass"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Broken(what) => Err(what.clone()),
            _ => Ok(()),
        }
    }
}
