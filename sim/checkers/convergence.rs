//! Once nothing goes wrong any more, a group's members come to share its partitions: all are in one generation, or epoch,
//! each partition is one member's, and none has two more than another.

use std::collections::{BTreeMap, BTreeSet};

use super::{Checker, Event};
use crate::sim::world::ClientId;

/// What each member of a group has.
#[derive(Debug, Default)]
pub struct Convergence {
    groups: BTreeMap<&'static str, Members>,
}

#[derive(Debug, Default)]
struct Members {
    /// How many partitions there are.
    partitions: i32,
    shares: BTreeMap<ClientId, Option<(i32, BTreeSet<i32>)>>,
}

impl Checker for Convergence {
    fn name(&self) -> &'static str {
        "members come to share a group's partitions"
    }

    fn event(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Owns { group, reader, share, of } => {
                let members = self.groups.entry(group).or_default();
                members.partitions = members.partitions.max(*of);
                members.shares.insert(*reader, share.clone());
            }
            Event::Left { group, reader } => {
                self.groups.entry(group).or_default().shares.remove(reader);
            }
            _ => {}
        }
        Ok(())
    }

    fn unfinished(&self) -> Option<String> {
        self.groups.iter().find_map(|(group, members)| {
            let what = members.unfinished()?;
            Some(format!("group {group}: {what}: {:?}", members.shares))
        })
    }
}

impl Members {
    fn unfinished(&self) -> Option<&'static str> {
        let shares: Option<Vec<_>> = self.shares.values().map(Option::as_ref).collect();
        let Some(shares) = shares else { return Some("a member is outside") };
        let generations: BTreeSet<i32> = shares.iter().map(|(generation, _)| *generation).collect();
        if generations.len() > 1 {
            return Some("members are in several epochs");
        }
        let mut owned: Vec<i32> = shares.iter().flat_map(|(_, owned)| owned.iter().copied()).collect();
        owned.sort_unstable();
        if !shares.is_empty() && !owned.iter().copied().eq(0..self.partitions) {
            return Some("a partition has not one owner");
        }
        let sizes = || shares.iter().map(|(_, owned)| owned.len());
        let is_even = sizes().max().unwrap_or(0) <= sizes().min().unwrap_or(0) + 1;
        (!is_even).then_some("shares are uneven")
    }
}
