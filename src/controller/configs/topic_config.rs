//! What a topic's configs amount to, typed.

use std::sync::Arc;

use super::key::Key;
use super::layers::{BrokerConfigs, Overrides};
use super::tables::Resource;
use super::typed::{CleanupPolicy, CompressionType, FromValue};
use super::value::{ConfigError, Value};
use crate::wire::check::TimestampType;

macro_rules! topic_config {
    ($($(#[$attribute:meta])* $field:ident: $type:ty = $key:literal;)*) => {
        /// The effective configs of a topic that the broker acts on, by precedence: topic, this broker's dynamic
        /// configs, those of all brokers, what the broker was started with, default. Times are milliseconds,
        /// sizes bytes. Made once for a topic and shared.
        #[derive(Clone, Debug, PartialEq)]
        pub struct TopicConfig {
            $(#[doc = concat!("`", $key, "`.")] $(#[$attribute])* pub $field: $type,)*
        }

        impl TopicConfig {
            /// The keys behind it.
            #[cfg(test)]
            pub(super) const KEYS: &[&str] = &[$($key),*];

            fn resolve(value: impl Fn(&'static Key) -> Option<Value>) -> Self {
                TopicConfig { $($field: read($key, &value),)* }
            }

            fn apply(&mut self, name: &str, value: &Value) {
                match name {
                    $($key => if let Some(value) = FromValue::from_value(Some(value.clone())) {
                        self.$field = value;
                    },)*
                    _ => {}
                }
            }
        }
    };
}

topic_config! {
    cleanup_policy: CleanupPolicy = "cleanup.policy";
    compression_type: CompressionType = "compression.type";
    delete_retention_ms: u64 = "delete.retention.ms";
    max_compaction_lag_ms: u64 = "max.compaction.lag.ms";
    max_message_bytes: u32 = "max.message.bytes";
    /// `i64::MAX` where there is no bound.
    message_timestamp_after_max_ms: i64 = "message.timestamp.after.max.ms";
    /// `i64::MAX` where there is no bound.
    message_timestamp_before_max_ms: i64 = "message.timestamp.before.max.ms";
    message_timestamp_type: TimestampType = "message.timestamp.type";
    min_cleanable_dirty_ratio: f64 = "min.cleanable.dirty.ratio";
    min_compaction_lag_ms: u64 = "min.compaction.lag.ms";
    /// The number itself: what counts is the smaller of it and the partition's number of replicas.
    min_insync_replicas: u32 = "min.insync.replicas";
    /// Nothing but a check: there is no tiered storage.
    remote_storage_enable: bool = "remote.storage.enable";
    /// None: no limit.
    retention_bytes: Option<u64> = "retention.bytes";
    /// None: no limit.
    retention_ms: Option<u64> = "retention.ms";
    /// Or `internal.segment.bytes` where a topic sets that, which may be smaller.
    segment_bytes: u32 = "segment.bytes";
    segment_ms: u64 = "segment.ms";
    unclean_leader_election_enable: bool = "unclean.leader.election.enable";
}

impl TopicConfig {
    /// What topics without configs of their own get from a broker. To be made anew when the broker's configs
    /// change.
    pub fn defaults(brokers: &BrokerConfigs) -> Arc<TopicConfig> {
        Arc::new(TopicConfig::resolve(|key| brokers.topic_default(key)))
    }

    /// What a topic with these configs of its own gets, where `defaults` are [`TopicConfig::defaults`]. Costs a
    /// reference count where it has none.
    pub fn with_overrides(defaults: &Arc<TopicConfig>, overrides: &Overrides) -> Arc<TopicConfig> {
        if overrides.is_empty() {
            return Arc::clone(defaults);
        }
        let mut config = TopicConfig::clone(defaults);
        for (name, set) in overrides.iter() {
            config.apply(name, &set.value);
        }
        if let Some(Value::Integer(bytes)) = overrides.get("internal.segment.bytes").map(|set| &set.value) {
            config.segment_bytes = u32::try_from(*bytes).unwrap_or(0).max(1);
        }
        Arc::new(config)
    }

    /// What must hold between a topic's configs (`LogConfig.validateTopicLogConfigValues`).
    ///
    /// # Errors
    /// [`ConfigError::Conflict`].
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms {
            return Err(ConfigError::Conflict {
                key: "min.compaction.lag.ms",
                value: self.min_compaction_lag_ms.to_string(),
                other: "max.compaction.lag.ms",
                other_value: self.max_compaction_lag_ms.to_string(),
                rule: "the first may not be larger than the second",
            });
        }
        if self.remote_storage_enable {
            return Err(ConfigError::Conflict {
                key: "remote.storage.enable",
                value: "true".to_owned(),
                other: "remote.log.storage.system.enable",
                other_value: "false".to_owned(),
                rule: "there is no tiered storage here",
            });
        }
        Ok(())
    }
}

impl Default for TopicConfig {
    /// Kafka's defaults.
    fn default() -> Self {
        TopicConfig::resolve(super::layers::default_value)
    }
}

/// The typed value of a topic key.
///
/// # Panics
/// If the tables have no such key or give it no value of this type. That is a mistake in this file, and every
/// `TopicConfig` that is ever made runs into it.
fn read<T: FromValue>(name: &str, value: impl Fn(&'static Key) -> Option<Value>) -> T {
    Resource::Topic
        .key(name)
        .and_then(|key| T::from_value(value(key)))
        .unwrap_or_else(|| panic!("the tables have no value of the right type for {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::batch::Codec;

    fn topic(pairs: &[(&str, &str)]) -> Overrides {
        Overrides::parse(Resource::Topic, pairs.iter().copied()).unwrap()
    }

    #[test]
    fn defaults_are_kafkas() {
        let config = TopicConfig::default();
        assert_eq!(config.retention_ms, Some(604_800_000));
        assert_eq!(config.retention_bytes, None);
        assert_eq!(config.segment_bytes, 1 << 30);
        assert_eq!(config.max_message_bytes, 1_048_588);
        assert_eq!(config.cleanup_policy, CleanupPolicy { delete: true, compact: false });
        assert_eq!(config.compression_type, CompressionType::Producer);
        assert_eq!(config.message_timestamp_type, TimestampType::CreateTime);
        assert_eq!(*TopicConfig::defaults(&BrokerConfigs::default()), config);
    }

    #[test]
    fn a_topics_own_configs_win() {
        let brokers = BrokerConfigs {
            fixed: Overrides::parse(
                Resource::Broker,
                [("log.roll.hours", "2"), ("compression.type", "zstd"), ("log.retention.hours", "-1")],
            )
            .unwrap(),
            ..BrokerConfigs::default()
        };
        let defaults = TopicConfig::defaults(&brokers);
        assert_eq!((defaults.segment_ms, defaults.retention_ms), (7_200_000, None));
        assert_eq!(defaults.compression_type, CompressionType::Fixed(Codec::Zstd));
        assert!(Arc::ptr_eq(&defaults, &TopicConfig::with_overrides(&defaults, &Overrides::default())));

        let own = topic(&[
            ("segment.ms", " 5 "),
            ("compression.type", "uncompressed"),
            ("cleanup.policy", "compact"),
            ("message.timestamp.type", "LogAppendTime"),
            ("retention.ms", "0"),
        ]);
        let config = TopicConfig::with_overrides(&defaults, &own);
        assert_eq!((config.segment_ms, config.retention_ms), (5, Some(0)));
        assert_eq!(config.compression_type, CompressionType::Fixed(Codec::None));
        assert_eq!(config.cleanup_policy, CleanupPolicy { delete: false, compact: true });
        assert_eq!(config.message_timestamp_type, TimestampType::LogAppendTime);
        let none = TopicConfig::with_overrides(&defaults, &topic(&[("cleanup.policy", "")]));
        assert_eq!(none.cleanup_policy, CleanupPolicy { delete: false, compact: false });
    }

    #[test]
    fn internal_segment_bytes_win_and_may_be_small() {
        let defaults = Arc::new(TopicConfig::default());
        let bytes =
            |pairs: &[(&str, &str)]| TopicConfig::with_overrides(&defaults, &topic(pairs)).segment_bytes;
        assert_eq!(bytes(&[("segment.bytes", "1048576"), ("internal.segment.bytes", "100")]), 100);
        assert_eq!(bytes(&[("internal.segment.bytes", "-100")]), 1);
    }

    #[test]
    fn configs_that_contradict_each_other_are_refused() {
        let defaults = Arc::new(TopicConfig::default());
        let check = |pairs: &[(&str, &str)]| TopicConfig::with_overrides(&defaults, &topic(pairs)).check();
        assert_eq!(check(&[("min.compaction.lag.ms", "5"), ("max.compaction.lag.ms", "5")]), Ok(()));
        let error = check(&[("min.compaction.lag.ms", "6"), ("max.compaction.lag.ms", "5")]).unwrap_err();
        assert!(error.to_string().starts_with("min.compaction.lag.ms=6 does not go with"), "{error}");
        assert!(check(&[("remote.storage.enable", "true")]).is_err());
    }
}
