//! Who gets what: the assignors that Apache Kafka comes with. They know nothing of groups but what [`Spec`] tells, and give
//! every partition of a subscribed topic to one subscriber. As in Kafka 4.1, none of them looks at racks.

mod range;
pub(super) mod uniform;
mod uniform_mixed;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::base::TopicId;
use crate::coordinator::records::consumer_groups::Partitions;

/// What an assignor is to know.
#[derive(Clone, Debug)]
pub(super) struct Spec<'a> {
    /// By id.
    pub(super) members: Vec<MemberSpec<'a>>,
    /// How many partitions each subscribed topic has.
    pub(super) topics: BTreeMap<TopicId, i32>,
    /// Whether all members subscribe to the same topics.
    pub(super) is_homogeneous: bool,
}

/// What an assignor is to know of a member.
#[derive(Clone, Debug)]
pub(super) struct MemberSpec<'a> {
    pub(super) id: &'a Arc<str>,
    pub(super) instance_id: Option<&'a Arc<str>>,
    /// The topics that it subscribes to, as far as there are such.
    pub(super) topics: Arc<BTreeSet<TopicId>>,
    /// What it was to have by the target before.
    pub(super) current: &'a Partitions,
}

/// An assignor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assignor {
    /// As even as can be over all topics, and moving as little as can be.
    Uniform,
    /// Neighbouring partitions of each topic, the same numbers of each topic for the same member.
    Range,
}

impl Assignor {
    /// The assignor of this name, or with this class of Kafka's.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "uniform" | "org.apache.kafka.coordinator.group.assignor.UniformAssignor" => {
                Some(Assignor::Uniform)
            }
            "range" | "org.apache.kafka.coordinator.group.assignor.RangeAssignor" => Some(Assignor::Range),
            _ => None,
        }
    }

    pub(super) const fn name(self) -> &'static str {
        match self {
            Assignor::Uniform => "uniform",
            Assignor::Range => "range",
        }
    }

    /// What each member is to have, in the order of the spec.
    pub(super) fn assign(self, spec: &Spec<'_>) -> Vec<Partitions> {
        match self {
            Assignor::Uniform if spec.is_homogeneous => uniform::assign(spec),
            Assignor::Uniform => uniform_mixed::assign(spec),
            Assignor::Range => range::assign(spec),
        }
    }
}

#[cfg(test)]
mod tests;
