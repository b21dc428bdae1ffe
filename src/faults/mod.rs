//! What a user wants to go wrong: rules by which requests are held, and partitions whose high watermark stays put.
//!
//! This is data and matching alone. A rule knows requests by what a [`Subject`] tells of them; it must not know what a
//! request or a reply is, nor how something is kept waiting: whoever handles requests asks [`Faults::hold`] before and
//! after it applies one, and parks it in the purgatory, among all the others that wait.
//!
//! A producer whose request isn't answered can't know which of three things has happened: it was not applied, it was
//! applied and the answer is late, or it was applied and the answer is lost. Each is a [`HoldPoint`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{NodeId, PartitionKey};

/// The name of a rule that holds requests, never used again: 1 for the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HoldId(pub u64);

impl std::fmt::Display for HoldId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Where on its way a request is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldPoint {
    /// Before it is applied: nothing has happened yet.
    BeforeApply,
    /// Once its answer is known, which is kept back: what it asked for is done.
    AfterApply,
    /// Once its answer is known, which is thrown away and the connection closed. Nothing is left to be released.
    AfterApplyThenDisconnect,
}

impl HoldPoint {
    /// Every point.
    pub const ALL: [HoldPoint; 3] =
        [HoldPoint::BeforeApply, HoldPoint::AfterApply, HoldPoint::AfterApplyThenDisconnect];

    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            HoldPoint::BeforeApply => "before-apply",
            HoldPoint::AfterApply => "after-apply",
            HoldPoint::AfterApplyThenDisconnect => "after-apply-then-disconnect",
        }
    }
}

/// A user's rule: which requests are held, where, and for how long. A condition that is not set holds for every request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldRule {
    /// Where they are held.
    pub point: HoldPoint,
    /// Kafka's number of an API.
    pub api: Option<i16>,
    /// The client's name for itself.
    pub client_id: Option<Arc<str>>,
    /// A topic that the request is about, maybe among others.
    pub topic: Option<Arc<str>>,
    /// A group that the request is about, maybe among others.
    pub group: Option<Arc<str>>,
    /// The broker that the request came to.
    pub broker: Option<NodeId>,
    /// How many requests are held, and no more; all if not set.
    pub count: Option<u64>,
    /// How long each is held at most, on the cluster's clock; until it is released if not set.
    pub time_limit: Option<Duration>,
}

impl HoldRule {
    /// A rule that holds every request.
    pub fn new(point: HoldPoint) -> Self {
        HoldRule {
            point,
            api: None,
            client_id: None,
            topic: None,
            group: None,
            broker: None,
            count: None,
            time_limit: None,
        }
    }

    fn matches(&self, subject: &impl Subject) -> bool {
        self.api.is_none_or(|api| api == subject.api())
            && self.broker.is_none_or(|broker| broker == subject.broker())
            && self.client_id.as_deref().is_none_or(|client_id| Some(client_id) == subject.client_id())
            && self.topic.as_deref().is_none_or(|topic| subject.names_topic(topic))
            && self.group.as_deref().is_none_or(|group| subject.names_group(group))
    }
}

/// What a rule may know of a request.
pub trait Subject {
    /// Kafka's number of its API.
    fn api(&self) -> i16;
    /// The broker that it came to.
    fn broker(&self) -> NodeId;
    /// The client's name for itself, if it gave one.
    fn client_id(&self) -> Option<&str>;
    /// Whether it is about this topic.
    fn names_topic(&self, topic: &str) -> bool;
    /// Whether it is about this group.
    fn names_group(&self, group: &str) -> bool;
}

/// A rule, and what it has done so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// Its name.
    pub id: HoldId,
    /// What it says.
    pub rule: HoldRule,
    /// How many requests it has held.
    pub held: u64,
    /// How many requests it would have held, but for [`FaultLimits::max_held`].
    pub passed: u64,
}

impl Hold {
    /// How many more requests it will hold; none if there is no end to it.
    pub fn left(&self) -> Option<u64> {
        self.rule.count.map(|count| count.saturating_sub(self.held))
    }
}

/// What is done with a request that a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// Whose rule it is.
    pub hold: HoldId,
    /// Kafka's number of the request's API.
    pub api: i16,
    /// Where the request is held.
    pub point: HoldPoint,
    /// How long at most.
    pub time_limit: Option<Duration>,
}

/// Bounds of what users may have go wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultLimits {
    /// The most rules at a time. Default 1,000.
    pub max_rules: usize,
    /// The most requests that all rules together hold at a time; further ones pass as if there were no rule. Default
    /// 10,000.
    pub max_held: usize,
    /// The longest time for which a rule may hold a request, if it says for how long, and the longest delay of a link.
    /// Default 24 hours.
    pub max_time: Duration,
}

impl Default for FaultLimits {
    fn default() -> Self {
        FaultLimits { max_rules: 1_000, max_held: 10_000, max_time: Duration::from_secs(24 * 60 * 60) }
    }
}

/// Why a rule is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HoldError {
    /// There are too many.
    #[error("there are {max} rules already: remove one first")]
    TooManyRules {
        /// The most there may be.
        max: usize,
    },
    /// It would hold nothing.
    #[error("a rule that holds 0 requests holds none: leave the count out, or let it be 1 or more")]
    NoCount,
    /// It would hold requests for too long.
    #[error("a rule holds a request for {} ms at most; leave the time limit out to hold it until it is released", max.as_millis())]
    TimeLimitTooLong {
        /// The longest there may be.
        max: Duration,
    },
    /// There is no such rule.
    #[error("there is no rule {0}: it was removed, or never made")]
    NoSuchHold(HoldId),
    /// No such API is served.
    #[error("no API with number {0} is served")]
    UnknownApi(i16),
    /// The rule asks for a topic, and the API has none.
    #[error("{api} requests name no topics, so that this rule would never hold any: leave the topic out")]
    NamesNoTopics {
        /// Name of the API.
        api: &'static str,
    },
    /// The rule asks for a group, and the API has none.
    #[error("{api} requests name no groups, so that this rule would never hold any: leave the group out")]
    NamesNoGroups {
        /// Name of the API.
        api: &'static str,
    },
}

/// Everything that a user wants to go wrong.
#[derive(Clone, Debug)]
pub struct Faults {
    limits: FaultLimits,
    /// In the order in which they were made.
    holds: Vec<Hold>,
    last_id: u64,
    pinned: BTreeSet<PartitionKey>,
}

impl Faults {
    /// What bounds what goes wrong.
    pub fn limits(&self) -> &FaultLimits {
        &self.limits
    }

    /// Nothing goes wrong yet.
    pub fn new(limits: FaultLimits) -> Self {
        Faults { limits, holds: Vec::new(), last_id: 0, pinned: BTreeSet::new() }
    }

    /// Makes a rule for the requests that come from now on.
    ///
    /// # Errors
    /// If there are too many rules, or this one can't hold anything.
    pub fn add_hold(&mut self, rule: HoldRule) -> Result<HoldId, HoldError> {
        if self.holds.len() >= self.limits.max_rules {
            return Err(HoldError::TooManyRules { max: self.limits.max_rules });
        }
        if rule.count == Some(0) {
            return Err(HoldError::NoCount);
        }
        if rule.time_limit.is_some_and(|limit| limit > self.limits.max_time) {
            return Err(HoldError::TimeLimitTooLong { max: self.limits.max_time });
        }
        self.last_id += 1;
        let id = HoldId(self.last_id);
        self.holds.push(Hold { id, rule, held: 0, passed: 0 });
        Ok(id)
    }

    /// Takes a rule away. What it holds is the caller's to let go.
    ///
    /// # Errors
    /// If there is no such rule.
    pub fn remove_hold(&mut self, id: HoldId) -> Result<(), HoldError> {
        let at = self.holds.iter().position(|hold| hold.id == id).ok_or(HoldError::NoSuchHold(id))?;
        self.holds.remove(at);
        Ok(())
    }

    /// The rules, in the order in which they were made.
    pub fn holds(&self) -> &[Hold] {
        &self.holds
    }

    /// Whether no rule could hold a request before (or after) it is applied, so that there is nothing to look at.
    pub fn hold_nothing(&self, before: bool) -> bool {
        !self.holds.iter().any(|hold| is_before(hold.rule.point) == before && hold.left() != Some(0))
    }

    /// Whether a request is held before (or after) it is applied: by the oldest rule that matches it and has not held
    /// all its requests yet. `held` is how many requests all rules hold now.
    pub fn hold(&mut self, before: bool, subject: &impl Subject, held: usize) -> Option<Held> {
        let max_held = self.limits.max_held;
        let hold = self.holds.iter_mut().find(|hold| {
            is_before(hold.rule.point) == before && hold.left() != Some(0) && hold.rule.matches(subject)
        })?;
        if held >= max_held && hold.rule.point != HoldPoint::AfterApplyThenDisconnect {
            if hold.passed == 0 {
                tracing::warn!(
                    hold = hold.id.0,
                    max_held,
                    "so many requests are held that no more can be: they pass; release some"
                );
            }
            hold.passed += 1;
            return None;
        }
        hold.held += 1;
        Some(Held {
            hold: hold.id,
            api: subject.api(),
            point: hold.rule.point,
            time_limit: hold.rule.time_limit,
        })
    }

    /// Notes that a partition's high watermark stays where it is, or doesn't any more.
    pub fn pin(&mut self, partition: PartitionKey, pinned: bool) {
        if pinned {
            self.pinned.insert(partition);
        } else {
            self.pinned.remove(&partition);
        }
    }

    /// Forgets partitions that are gone, so that there are never more than the cluster has; returns them.
    pub fn forget_pins(&mut self, is_gone: impl Fn(PartitionKey) -> bool) -> Vec<PartitionKey> {
        let (gone, there) =
            std::mem::take(&mut self.pinned).into_iter().partition::<BTreeSet<_>, _>(|key| is_gone(*key));
        self.pinned = there;
        gone.into_iter().collect()
    }

    /// The partitions whose high watermark stays where it is.
    pub fn pinned(&self) -> &BTreeSet<PartitionKey> {
        &self.pinned
    }
}

fn is_before(point: HoldPoint) -> bool {
    point == HoldPoint::BeforeApply
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Asked {
        api: i16,
        broker: i32,
        client_id: Option<&'static str>,
        topics: &'static [&'static str],
        groups: &'static [&'static str],
    }

    impl Subject for Asked {
        fn api(&self) -> i16 {
            self.api
        }
        fn broker(&self) -> NodeId {
            NodeId(self.broker)
        }
        fn client_id(&self) -> Option<&str> {
            self.client_id
        }
        fn names_topic(&self, topic: &str) -> bool {
            self.topics.contains(&topic)
        }
        fn names_group(&self, group: &str) -> bool {
            self.groups.contains(&group)
        }
    }

    const ASKED: Asked =
        Asked { api: 0, broker: 1, client_id: Some("shop"), topics: &["a", "b"], groups: &["g"] };

    fn faults(rules: impl IntoIterator<Item = HoldRule>) -> Faults {
        let mut faults = Faults::new(FaultLimits::default());
        for rule in rules {
            faults.add_hold(rule).unwrap();
        }
        faults
    }

    fn before() -> HoldRule {
        HoldRule::new(HoldPoint::BeforeApply)
    }

    #[test]
    fn a_rule_holds_for_a_day_at_most() {
        let mut faults = Faults::new(FaultLimits::default());
        let day = Duration::from_secs(24 * 60 * 60);
        let rule = |limit| HoldRule { time_limit: Some(limit), ..HoldRule::new(HoldPoint::BeforeApply) };
        assert!(faults.add_hold(rule(day)).is_ok());
        let refused = faults.add_hold(rule(day + Duration::from_nanos(1)));
        assert_eq!(refused, Err(HoldError::TimeLimitTooLong { max: day }));
    }

    #[test]
    fn every_condition_must_hold() {
        let matching = HoldRule {
            api: Some(0),
            client_id: Some("shop".into()),
            topic: Some("b".into()),
            group: Some("g".into()),
            broker: Some(NodeId(1)),
            ..before()
        };
        assert!(faults([matching.clone()]).hold(true, &ASKED, 0).is_some());
        assert!(faults([before()]).hold(true, &ASKED, 0).is_some(), "no condition holds for everything");
        for other in [
            HoldRule { api: Some(1), ..matching.clone() },
            HoldRule { client_id: Some("shop2".into()), ..matching.clone() },
            HoldRule { topic: Some("c".into()), ..matching.clone() },
            HoldRule { group: Some("h".into()), ..matching.clone() },
            HoldRule { broker: Some(NodeId(2)), ..matching.clone() },
        ] {
            assert_eq!(faults([other.clone()]).hold(true, &ASKED, 0), None, "{other:?}");
        }
        assert!(
            faults([HoldRule { client_id: Some("".into()), ..before() }])
                .hold(true, &Asked { client_id: None, ..ASKED }, 0)
                .is_none(),
            "an empty name is one"
        );
    }

    #[test]
    fn the_oldest_rule_with_requests_left_counts() {
        let mut faults = faults([
            HoldRule { count: Some(1), ..before() },
            HoldRule::new(HoldPoint::AfterApply),
            HoldRule { count: Some(1), time_limit: Some(Duration::from_secs(1)), ..before() },
        ]);
        let mut hold = |before| faults.hold(before, &ASKED, 0).map(|held| (held.hold.0, held.time_limit));
        assert_eq!(hold(true), Some((1, None)));
        assert_eq!(hold(true), Some((3, Some(Duration::from_secs(1)))));
        assert_eq!(hold(true), None);
        assert_eq!(hold(false), Some((2, None)));
        assert_eq!(hold(false), Some((2, None)), "without a count there is no end to it");
        assert!(faults.hold_nothing(true));
        assert!(!faults.hold_nothing(false));
        let left: Vec<_> = faults.holds().iter().map(|hold| (hold.held, hold.left())).collect();
        assert_eq!(left, [(1, Some(0)), (2, None), (1, Some(0))]);
    }

    #[test]
    fn rules_are_limited_and_ids_not_used_again() {
        let mut faults = Faults::new(FaultLimits { max_rules: 2, ..FaultLimits::default() });
        let first = faults.add_hold(before()).unwrap();
        faults.add_hold(before()).unwrap();
        assert_eq!(faults.add_hold(before()), Err(HoldError::TooManyRules { max: 2 }));
        faults.remove_hold(first).unwrap();
        assert_eq!(faults.remove_hold(first), Err(HoldError::NoSuchHold(first)));
        assert_eq!(faults.add_hold(before()), Ok(HoldId(3)));
        faults.remove_hold(HoldId(3)).unwrap();
        assert_eq!(faults.add_hold(HoldRule { count: Some(0), ..before() }), Err(HoldError::NoCount));
    }

    #[test]
    fn when_too_many_are_held_the_others_pass_and_are_counted() {
        let mut faults = Faults::new(FaultLimits { max_held: 2, ..FaultLimits::default() });
        faults.add_hold(HoldRule { count: Some(5), ..before() }).unwrap();
        faults.add_hold(HoldRule::new(HoldPoint::AfterApplyThenDisconnect)).unwrap();
        assert!(faults.hold(true, &ASKED, 1).is_some());
        assert_eq!(faults.hold(true, &ASKED, 2), None);
        assert_eq!(
            (faults.holds()[0].held, faults.holds()[0].passed, faults.holds()[0].left()),
            (1, 1, Some(4))
        );
        assert!(faults.hold(false, &ASKED, 2).is_some(), "what is thrown away takes no room");
    }
}
