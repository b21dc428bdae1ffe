//! The levels of features, by which clients and brokers go (KIP-584, Kafka's `FeatureControlManager`).
//!
//! A level is the whole cluster's. Whoever depends on one asks the controller whenever they need it, so that a change acts at
//! once, everywhere.

use std::ops::RangeInclusive;

/// A feature of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Leaders from outside the ISR that have lost nothing (KIP-966).
    EligibleLeaderReplicas,
    /// 1: the consumer protocol (KIP-848).
    Group,
    /// 1: records of `__transaction_state` that newer brokers can add to. 2: producers whose epoch rises with each
    /// transaction (KIP-890).
    Transaction,
}

impl Feature {
    /// Those of Kafka's features that clients may go by, by name.
    pub const ALL: [Feature; 3] = [Feature::EligibleLeaderReplicas, Feature::Group, Feature::Transaction];

    /// Kafka's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Feature::EligibleLeaderReplicas => "eligible.leader.replicas.version",
            Feature::Group => "group.version",
            Feature::Transaction => "transaction.version",
        }
    }

    /// The levels that there are. A new cluster is at the highest; at 0, it is as if there were no such feature.
    pub const fn levels(self) -> RangeInclusive<i16> {
        match self {
            Feature::EligibleLeaderReplicas | Feature::Group => 0..=1,
            Feature::Transaction => 0..=2,
        }
    }

    /// Whether its level can be changed.
    const fn is_changeable(self) -> bool {
        !matches!(self, Feature::EligibleLeaderReplicas)
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|feature| feature.name() == name)
    }
}

/// How a level may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeatureChange {
    /// Upwards alone.
    Upgrade,
    /// Downwards alone, if nothing is lost by it.
    SafeDowngrade,
    /// Downwards alone, whatever is lost by it. There is nothing here that would be.
    UnsafeDowngrade,
}

impl FeatureChange {
    /// The one with Kafka's number (`FeatureUpdate.UpgradeType`).
    pub fn from_code(code: i8) -> Option<Self> {
        match code {
            1 => Some(FeatureChange::Upgrade),
            2 => Some(FeatureChange::SafeDowngrade),
            3 => Some(FeatureChange::UnsafeDowngrade),
            _ => None,
        }
    }
}

/// What is to become of one feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeatureUpdate {
    /// Its name.
    pub feature: String,
    /// The level that it is to be at.
    pub level: i16,
    /// How it may get there; none if that was a number without a meaning.
    pub change: Option<FeatureChange>,
}

/// Why levels stay as they are.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("No level is changed, since feature '{feature}' can't be at level {level}: {reason}.")]
pub struct FeatureError {
    /// The first feature that can't be as asked.
    pub feature: String,
    /// The level asked for.
    pub level: i16,
    /// Why.
    pub reason: FeatureRefusal,
}

/// Why a feature can't be at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message is its description")]
pub enum FeatureRefusal {
    #[error("the change must be an upgrade, a safe downgrade or an unsafe downgrade")]
    UnknownChange,
    #[error("no level is below 0")]
    Negative,
    #[error("there is no such feature here")]
    UnknownFeature,
    #[error("its levels are {lowest} to {highest}")]
    NoSuchLevel { lowest: i16, highest: i16 },
    #[error("it is at {present}, and going down takes a safe or an unsafe downgrade")]
    UpgradeDown { present: i16 },
    #[error("it is at {present}, and no downgrade goes up")]
    DowngradeUp { present: i16 },
    #[error("it stays at {present} here")]
    Fixed { present: i16 },
}

/// The levels at which the cluster is.
#[derive(Clone, Debug)]
pub struct Features {
    /// In the order of [`Feature::ALL`].
    levels: [i16; Feature::ALL.len()],
    epoch: i64,
}

impl Default for Features {
    fn default() -> Self {
        Features { levels: Feature::ALL.map(|feature| *feature.levels().end()), epoch: 0 }
    }
}

impl Features {
    /// The level of a feature.
    pub fn level(&self, feature: Feature) -> i16 {
        self.levels[feature as usize]
    }

    /// Rises with every change.
    pub fn epoch(&self) -> i64 {
        self.epoch
    }

    /// Changes levels, or with `validate_only` just says whether it could. Of a feature that comes twice the last word
    /// counts.
    ///
    /// # Errors
    /// If a feature can't be as asked; nothing has changed then.
    pub fn update(&mut self, updates: &[FeatureUpdate], validate_only: bool) -> Result<(), FeatureError> {
        let mut new = self.levels;
        for (at, update) in updates.iter().enumerate() {
            if updates[at + 1..].iter().any(|later| later.feature == update.feature) {
                continue;
            }
            let feature = self.check(update).map_err(|reason| FeatureError {
                feature: update.feature.clone(),
                level: update.level,
                reason,
            })?;
            new[feature as usize] = update.level;
        }
        if !validate_only && !updates.is_empty() {
            self.levels = new;
            self.epoch += 1;
        }
        Ok(())
    }

    /// What is wrong is looked for in Kafka's order.
    fn check(&self, update: &FeatureUpdate) -> Result<Feature, FeatureRefusal> {
        let change = update.change.ok_or(FeatureRefusal::UnknownChange)?;
        if update.level < 0 {
            return Err(FeatureRefusal::Negative);
        }
        let feature = Feature::named(&update.feature).ok_or(FeatureRefusal::UnknownFeature)?;
        let (lowest, highest) = feature.levels().into_inner();
        if update.level < lowest || update.level > highest {
            return Err(FeatureRefusal::NoSuchLevel { lowest, highest });
        }
        let present = self.level(feature);
        if update.level < present && change == FeatureChange::Upgrade {
            return Err(FeatureRefusal::UpgradeDown { present });
        }
        if update.level > present && change != FeatureChange::Upgrade {
            return Err(FeatureRefusal::DowngradeUp { present });
        }
        if update.level != present && !feature.is_changeable() {
            return Err(FeatureRefusal::Fixed { present });
        }
        Ok(feature)
    }
}

#[cfg(test)]
mod tests {
    use super::FeatureChange::{SafeDowngrade, UnsafeDowngrade, Upgrade};
    use super::*;

    fn update(feature: &str, level: i16, change: Option<FeatureChange>) -> FeatureUpdate {
        FeatureUpdate { feature: feature.to_owned(), level, change }
    }

    #[test]
    fn levels_go_up_by_upgrades_and_down_by_downgrades() {
        let mut features = Features::default();
        let mut to = |level, change| {
            let outcome = features.update(&[update("transaction.version", level, Some(change))], false);
            (outcome.map_err(|error| error.reason), features.level(Feature::Transaction))
        };
        assert_eq!(to(1, Upgrade), (Err(FeatureRefusal::UpgradeDown { present: 2 }), 2));
        assert_eq!(to(1, SafeDowngrade), (Ok(()), 1));
        assert_eq!(to(2, SafeDowngrade), (Err(FeatureRefusal::DowngradeUp { present: 1 }), 1));
        assert_eq!(to(2, UnsafeDowngrade), (Err(FeatureRefusal::DowngradeUp { present: 1 }), 1));
        assert_eq!(to(0, UnsafeDowngrade), (Ok(()), 0));
        for same in [Upgrade, SafeDowngrade, UnsafeDowngrade] {
            assert_eq!(to(0, same), (Ok(()), 0), "where it is, it may be by any change");
        }
        assert_eq!(to(2, Upgrade), (Ok(()), 2));
        assert_eq!(features.epoch(), 6);
    }

    #[test]
    fn what_is_wrong_is_found_in_kafkas_order() {
        let mut features = Features::default();
        let up = Some(Upgrade);
        let cases = [
            ("nothing", -1, None, FeatureRefusal::UnknownChange),
            ("nothing", -1, up, FeatureRefusal::Negative),
            ("nothing", 0, up, FeatureRefusal::UnknownFeature),
            ("", 1, up, FeatureRefusal::UnknownFeature),
            ("metadata.version", 27, up, FeatureRefusal::UnknownFeature),
            ("group.version", 2, up, FeatureRefusal::NoSuchLevel { lowest: 0, highest: 1 }),
            ("transaction.version", 3, up, FeatureRefusal::NoSuchLevel { lowest: 0, highest: 2 }),
            ("group.version", 0, up, FeatureRefusal::UpgradeDown { present: 1 }),
            (
                "eligible.leader.replicas.version",
                0,
                Some(SafeDowngrade),
                FeatureRefusal::Fixed { present: 1 },
            ),
        ];
        for (feature, level, change, reason) in cases {
            let error = features.update(&[update(feature, level, change)], false).unwrap_err();
            assert_eq!(error, FeatureError { feature: feature.to_owned(), level, reason });
        }
        assert_eq!(features.epoch(), 0, "nothing has changed");
        assert_eq!(features.update(&[update("eligible.leader.replicas.version", 1, up)], false), Ok(()));
    }

    #[test]
    fn all_change_or_none() {
        let mut features = Features::default();
        let down = |feature, level| update(feature, level, Some(SafeDowngrade));
        let levels = |features: &Features| Feature::ALL.map(|feature| features.level(feature));
        let one_bad = [down("transaction.version", 0), down("nothing", 0)];
        assert!(features.update(&one_bad, false).is_err());
        assert_eq!(levels(&features), [1, 1, 2]);
        let both = [down("transaction.version", 0), down("group.version", 0)];
        assert_eq!(features.update(&both, true), Ok(()));
        assert_eq!((levels(&features), features.epoch()), ([1, 1, 2], 0), "it was only asked for");
        assert_eq!(features.update(&both, false), Ok(()));
        assert_eq!((levels(&features), features.epoch()), ([1, 0, 0], 1));
        let twice = [update("group.version", 9, Some(Upgrade)), update("group.version", 1, Some(Upgrade))];
        assert_eq!(features.update(&twice, false), Ok(()), "the last word counts");
        assert_eq!(levels(&features), [1, 1, 0]);
        assert_eq!(features.update(&[], false), Ok(()));
        assert_eq!(features.epoch(), 2);
    }
}
