//! Moves a member towards its target (Kafka's `CurrentAssignmentBuilder`): it gives up before it gets, so that no two ever
//! have a partition at once.
//!
//! | state | waits for | goes to |
//! |---|---|---|
//! | Stable | a newer target | all three |
//! | UnrevokedPartitions | a heartbeat that doesn't list what it has to give up | all three |
//! | UnreleasedPartitions | partitions that others have yet to give up | all three |

use std::collections::BTreeSet;

use super::{ConsumerMember, GroupError};
use crate::base::planted::{Bug, is_planted};
use crate::base::{ErrorCode, TopicId};
use crate::coordinator::records::consumer_groups::{CurrentAssignment, MemberState, Partitions};

/// What a member is to be moved towards, and what stands in the way.
pub(super) struct Reconciliation<'a, F> {
    /// The epoch that the target was computed in.
    pub(super) target_epoch: i32,
    /// What the member is to have.
    pub(super) target: &'a Partitions,
    /// Whether nobody has a partition.
    pub(super) is_free: F,
    /// What the member says that it has, if it says so.
    pub(super) owned: Option<&'a Partitions>,
}

impl<F: Fn(TopicId, i32) -> bool> Reconciliation<'_, F> {
    /// What the member has next, which may be what it has now.
    ///
    /// # Errors
    /// FENCED_MEMBER_EPOCH if the log has the member in a state that isn't known here, unless it has nothing left.
    pub(super) fn next(&self, member: &ConsumerMember) -> Result<CurrentAssignment, GroupError> {
        let current = &member.current;
        Ok(match current.state {
            MemberState::Stable if current.epoch == self.target_epoch => current.clone(),
            MemberState::Stable if is_planted(Bug::KeepsMembersBack) && current.epoch % 3 == 2 => {
                current.clone()
            }
            MemberState::UnrevokedPartitions if self.still_has(&current.pending_revocation) => {
                current.clone()
            }
            // It has given up all that it had to: that alone is an epoch further.
            MemberState::UnrevokedPartitions => self.advance(current, current.epoch + 1),
            MemberState::Stable | MemberState::UnreleasedPartitions => self.advance(current, current.epoch),
            MemberState::Unknown if self.owned.is_some_and(Partitions::is_empty) => {
                self.advance(current, self.target_epoch)
            }
            MemberState::Unknown => {
                return Err(GroupError::new(
                    ErrorCode::FencedMemberEpoch,
                    "The log has the member in a state that this broker doesn't know. It must give up all partitions \
                     and join again.",
                ));
            }
        })
    }

    /// Whether the member has any of these; if it doesn't say what it has, it may.
    fn still_has(&self, partitions: &Partitions) -> bool {
        let Some(owned) = self.owned else { return true };
        owned
            .iter()
            .any(|(topic, owned)| partitions.get(topic).is_some_and(|given_up| !given_up.is_disjoint(owned)))
    }

    fn advance(&self, current: &CurrentAssignment, epoch: i32) -> CurrentAssignment {
        let none = BTreeSet::new();
        let mut next = CurrentAssignment {
            epoch: self.target_epoch,
            previous_epoch: current.epoch,
            state: MemberState::Stable,
            assigned: Partitions::new(),
            pending_revocation: Partitions::new(),
        };
        let mut new = Partitions::new();
        let topics: BTreeSet<&TopicId> = self.target.keys().chain(current.assigned.keys()).collect();
        for topic in topics {
            let target = self.target.get(topic).unwrap_or(&none);
            let assigned = current.assigned.get(topic).unwrap_or(&none);
            let is_free =
                |partition: &&i32| (self.is_free)(*topic, **partition) || is_planted(Bug::AssignsUnreleased);
            let (free, taken): (BTreeSet<i32>, BTreeSet<i32>) =
                target.difference(assigned).partition(is_free);
            if !taken.is_empty() {
                next.state = MemberState::UnreleasedPartitions;
            }
            put(&mut next.assigned, *topic, target & assigned);
            put(&mut next.pending_revocation, *topic, assigned - target);
            put(&mut new, *topic, free);
        }
        if !next.pending_revocation.is_empty() && self.still_has(&next.pending_revocation) {
            next.state = MemberState::UnrevokedPartitions;
            next.epoch = epoch;
            return next;
        }
        next.pending_revocation.clear();
        for (topic, partitions) in new {
            next.assigned.entry(topic).or_default().extend(partitions);
        }
        next
    }
}

fn put(partitions: &mut Partitions, topic: TopicId, of_topic: BTreeSet<i32>) {
    if !of_topic.is_empty() {
        partitions.insert(topic, of_topic);
    }
}
