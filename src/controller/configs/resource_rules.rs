//! What must hold of the configs of a group (`GroupConfig.validate`), beyond what each value must be by itself.

use super::broker_settings::BrokerSettings;
use super::layers::{Overrides, default_value};
use super::tables::Resource;
use super::value::{ConfigError, Value};

/// A group's key, the least and the most that the broker's settings allow for it, and where that is set.
type Bound = (&'static str, i64, i64, &'static str);

/// Checks what is set for a group against the broker's bounds.
///
/// # Errors
/// [`ConfigError::InvalidValue`] outside of the bounds, [`ConfigError::Conflict`] if a session would not outlast the
/// time between two heartbeats.
pub fn check_group(overrides: &Overrides, settings: &BrokerSettings) -> Result<(), ConfigError> {
    for (key, least, most, bounds) in group_bounds(settings) {
        let set = overrides.get(key).map(|set| &set.value);
        if let Some(Value::Integer(number)) = set.filter(|_| !in_range(set, least, most)) {
            return Err(ConfigError::InvalidValue {
                key: key.to_owned(),
                value: number.to_string(),
                allowed: format!("between {least} and {most} ({bounds})"),
            });
        }
    }
    for kind in [
        ("consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"),
        ("share.heartbeat.interval.ms", "share.session.timeout.ms"),
        ("streams.heartbeat.interval.ms", "streams.session.timeout.ms"),
    ] {
        check_session_outlasts_heartbeat(overrides, kind)?;
    }
    Ok(())
}

fn group_bounds(settings: &BrokerSettings) -> [Bound; 8] {
    let (consumer, share) = (&settings.consumer_groups, &settings.share_groups);
    let streams = &settings.streams_groups;
    let between = |key, least: i32, most: i32, set_by| (key, i64::from(least), i64::from(most), set_by);
    [
        between(
            "consumer.heartbeat.interval.ms",
            consumer.min_heartbeat_interval_ms,
            consumer.max_heartbeat_interval_ms,
            "group.consumer.min.heartbeat.interval.ms and .max",
        ),
        between(
            "consumer.session.timeout.ms",
            consumer.min_session_timeout_ms,
            consumer.max_session_timeout_ms,
            "group.consumer.min.session.timeout.ms and .max",
        ),
        between(
            "share.heartbeat.interval.ms",
            share.min_heartbeat_interval_ms,
            share.max_heartbeat_interval_ms,
            "group.share.min.heartbeat.interval.ms and .max",
        ),
        between(
            "share.session.timeout.ms",
            share.min_session_timeout_ms,
            share.max_session_timeout_ms,
            "group.share.min.session.timeout.ms and .max",
        ),
        between(
            "share.record.lock.duration.ms",
            share.min_record_lock_duration_ms,
            share.max_record_lock_duration_ms,
            "group.share.min.record.lock.duration.ms and .max",
        ),
        between(
            "streams.heartbeat.interval.ms",
            streams.min_heartbeat_interval_ms,
            streams.max_heartbeat_interval_ms,
            "group.streams.min.heartbeat.interval.ms and .max",
        ),
        between(
            "streams.session.timeout.ms",
            streams.min_session_timeout_ms,
            streams.max_session_timeout_ms,
            "group.streams.min.session.timeout.ms and .max",
        ),
        between(
            "streams.num.standby.replicas",
            0,
            streams.max_standby_replicas,
            "0 and group.streams.max.standby.replicas",
        ),
    ]
}

fn in_range(value: Option<&Value>, least: i64, most: i64) -> bool {
    matches!(value, Some(Value::Integer(number)) if (least..=most).contains(number))
}

fn check_session_outlasts_heartbeat(
    overrides: &Overrides,
    (heartbeat, session): (&'static str, &'static str),
) -> Result<(), ConfigError> {
    let effective = |name: &str| {
        let set = overrides.get(name).map(|set| set.value.clone());
        set.or_else(|| Resource::Group.key(name).and_then(default_value))
    };
    let is_set = overrides.get(heartbeat).is_some() || overrides.get(session).is_some();
    match (effective(heartbeat), effective(session)) {
        (Some(Value::Integer(every)), Some(Value::Integer(after))) if is_set && after <= every => {
            Err(ConfigError::Conflict {
                key: session,
                value: after.to_string(),
                other: heartbeat,
                other_value: every.to_string(),
                rule: "the first must be larger than the second",
            })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_stays_within_the_brokers_bounds() {
        let settings = BrokerSettings::default();
        let check = |pairs: &[(&str, &str)]| {
            check_group(&Overrides::parse(Resource::Group, pairs.iter().copied()).unwrap(), &settings)
        };
        assert_eq!(check(&[]), Ok(()));
        assert_eq!(check(&[("consumer.session.timeout.ms", "46000")]), Ok(()));
        let error = check(&[("consumer.session.timeout.ms", "1")]).unwrap_err();
        assert!(error.to_string().contains("between 45000 and 60000"), "{error}");
        assert!(check(&[("streams.num.standby.replicas", "3")]).is_err());
        let both = [("share.heartbeat.interval.ms", "15000"), ("share.session.timeout.ms", "45000")];
        assert_eq!(check(&both), Ok(()));
    }
}
