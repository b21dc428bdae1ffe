//! Of each record of a pipeline's input one is made: none is lost, and none is there twice, for who reads what is committed.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checker, End, Event, Origin};
use crate::sim::contacts::{TOPIC, TRANSACTIONS};

/// What was to come out, and what did.
#[derive(Debug, Default)]
pub struct ExactlyOnce {
    /// What is read; none without pipelines.
    input: Option<&'static str>,
    /// Whether that is what is committed alone.
    is_committed: bool,
    wanted: BTreeSet<Origin>,
    unwanted: BTreeSet<Origin>,
    made: BTreeMap<Origin, (i32, i64)>,
}

impl Checker for ExactlyOnce {
    fn name(&self) -> &'static str {
        "input comes out once"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Transforming { topic, is_committed } => {
                (self.input, self.is_committed) = (Some(*topic), *is_committed);
            }
            Event::Acknowledged { partition, name, .. } if self.input == Some(TOPIC) => {
                self.wanted.insert(Origin { partition: *partition, name: *name });
            }
            Event::Ended { name, end, partitions } if self.input == Some(TRANSACTIONS) => {
                let origins = (0..*partitions).map(|partition| Origin { partition, name: *name });
                match end {
                    End::Committed => self.wanted.extend(origins),
                    End::Aborted if self.is_committed => self.unwanted.extend(origins),
                    End::Aborted | End::Unknown => {}
                }
            }
            Event::Transformed { origin, partition, offset } => {
                let at = (*partition, *offset);
                let first = self.made.entry(*origin).or_insert(at);
                if *first != at {
                    return Err(format!(
                        "{origin} came out twice: at offset {} of partition {}, and at {offset} of {partition}",
                        first.1, first.0
                    ));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        if let Some(lost) = self.wanted.iter().find(|origin| !self.made.contains_key(origin)) {
            return Err(format!("{lost} never came out"));
        }
        match self.unwanted.iter().find(|origin| self.made.contains_key(origin)) {
            Some(aborted) => Err(format!("{aborted} was aborted, and came out")),
            None => Ok(()),
        }
    }
}
