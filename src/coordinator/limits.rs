//! How much coordinators remember at most (ours): a client that makes up names must not eat the machine. Kafka has no such
//! bounds but those of a single group.

use std::sync::Arc;

use super::Coordinators;
use super::groups::{Commit, Heartbeat, Join};
use crate::base::ErrorCode;

/// The bounds of one broker.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `huld.max.groups`.
    pub groups: usize,
    /// `huld.max.transactional.ids`.
    pub transactional_ids: usize,
}

impl Coordinators {
    /// Whether a join leads to no group more than there may be.
    ///
    /// # Errors
    /// GROUP_MAX_SIZE_REACHED, which ends the client with a reason; and as [`groups_for`](Self::groups_for).
    pub(super) fn check_room_for_join(&self, group: &str, join: &Join) -> Result<(), ErrorCode> {
        self.check_room(group, join.member_id.is_empty(), ErrorCode::GroupMaxSizeReached)
    }

    /// As [`check_room_for_join`](Self::check_room_for_join), of a heartbeat.
    ///
    /// # Errors
    /// The same.
    pub(super) fn check_room_for_heartbeat(
        &self,
        group: &str,
        heartbeat: &Heartbeat,
    ) -> Result<(), ErrorCode> {
        self.check_room(group, heartbeat.epoch == 0, ErrorCode::GroupMaxSizeReached)
    }

    /// As [`check_room_for_join`](Self::check_room_for_join), of offsets for a group that nobody is a member of.
    ///
    /// # Errors
    /// POLICY_VIOLATION, and as [`groups_for`](Self::groups_for).
    pub(super) fn check_room_for_commit(&self, group: &str, commit: &Commit) -> Result<(), ErrorCode> {
        self.check_room(group, commit.generation < 0, ErrorCode::PolicyViolation)
    }

    /// Whether there may be a group of this name, if the request would make it where it isn't there.
    fn check_room(&self, group: &str, makes_group: bool, error: ErrorCode) -> Result<(), ErrorCode> {
        if !makes_group || self.groups_for(group)?.group(group).is_some() {
            return Ok(());
        }
        let groups: usize = self.groups.states().map(|groups| groups.len()).sum();
        if groups < self.settings.limits.groups { Ok(()) } else { Err(error) }
    }

    /// Whether there may be a transactional id, if it isn't there.
    ///
    /// # Errors
    /// POLICY_VIOLATION, which ends the client with a reason; and as [`groups_for`](Self::groups_for).
    pub(super) fn check_room_for_id(&self, id: &Arc<str>) -> Result<(), ErrorCode> {
        if self.transactions_for(id)?.transaction(id).is_some() {
            return Ok(());
        }
        let ids: usize = self.transactions.states().map(|transactions| transactions.len()).sum();
        if ids < self.settings.limits.transactional_ids { Ok(()) } else { Err(ErrorCode::PolicyViolation) }
    }
}
