//! What a broker's settings and a topic's configs mean for logs.

use crate::controller::configs::{BrokerSettings, CleanupPolicy, TopicConfig};
use crate::controller::names::CONSUMER_OFFSETS;
use crate::log::LogConfig;

/// The broker's settings that all its logs share.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogSettings {
    /// `producer.id.expiration.ms`.
    pub(super) producer_id_expiration_ms: i64,
    /// `producer.id.expiration.check.interval.ms`.
    pub(super) producer_id_expiration_check_interval_ms: i64,
    /// `log.retention.check.interval.ms`.
    pub(super) retention_check_interval_ms: i64,
    /// `log.initial.task.delay.ms`: when the first look at retention comes, after the start.
    pub(super) initial_task_delay_ms: i64,
    /// `log.cleaner.backoff.ms`: how often it is looked whether a log is to be compacted.
    pub(super) cleaner_backoff_ms: u64,
    /// `log.cleaner.enable`.
    pub(super) cleaner_enable: bool,
}

impl LogSettings {
    /// What these settings say of logs.
    pub(super) fn new(settings: &BrokerSettings) -> Self {
        let millis = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        LogSettings {
            producer_id_expiration_ms: millis(settings.producers.producer_id_expiration_ms),
            producer_id_expiration_check_interval_ms: millis(
                settings.producers.producer_id_expiration_check_interval_ms,
            ),
            retention_check_interval_ms: millis(settings.topics.log_retention_check_interval_ms),
            initial_task_delay_ms: millis(settings.topics.log_initial_task_delay_ms),
            cleaner_backoff_ms: settings.topics.log_cleaner_backoff_ms,
            cleaner_enable: settings.topics.log_cleaner_enable,
        }
    }
}

/// The most that a segment of `__consumer_offsets` takes, bytes (ours): only closed segments are compacted, so that this
/// bounds what 50 partitions hold of superseded offsets.
const OFFSETS_SEGMENT_BYTES_MAX: u32 = 4 << 20;

pub(super) fn log_config(topic: &str, config: &TopicConfig, settings: LogSettings) -> LogConfig {
    let limit = |limit: Option<u64>| limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    let millis = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
    let segment_bytes = match topic {
        CONSUMER_OFFSETS => config.segment_bytes.min(OFFSETS_SEGMENT_BYTES_MAX),
        _ => config.segment_bytes,
    };
    let CleanupPolicy { delete, compact } = config.cleanup_policy;
    LogConfig {
        segment_bytes,
        segment_ms: millis(config.segment_ms),
        retention_ms: limit(config.retention_ms),
        retention_bytes: limit(config.retention_bytes),
        delete,
        compact,
        max_compaction_lag_ms: millis(config.max_compaction_lag_ms),
        min_compaction_lag_ms: millis(config.min_compaction_lag_ms),
        min_cleanable_dirty_ppm: (config.min_cleanable_dirty_ratio * 1e6) as u32,
        delete_retention_ms: millis(config.delete_retention_ms),
        producer_id_expiration_ms: settings.producer_id_expiration_ms,
        ..LogConfig::default()
    }
}
