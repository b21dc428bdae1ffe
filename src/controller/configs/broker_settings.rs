//! What a broker's configs amount to, typed: the keys that huld's features act on.

use std::sync::Arc;

use super::connection_settings::ConnectionSettings;
use super::key::Key;
use super::layers::BrokerConfigs;
use super::listeners::{Endpoint, ListenHost, Listener, listeners};
use super::tables::Resource;
use super::topic_config::TopicConfig;
use super::typed::FromValue;
use super::value::{ConfigError, Value};
use crate::base::NodeId;

/// The effective settings of a broker. Times are milliseconds and sizes bytes unless a name says otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerSettings {
    /// `node.id`, or the older `broker.id`; 1 if neither is set.
    pub node_id: NodeId,
    /// `broker.rack`.
    pub rack: Option<String>,
    /// Where clients are served; at least one. With nothing set, `localhost:9092`.
    pub listeners: Vec<Listener>,
    /// How many connections there may be.
    pub connections: ConnectionSettings,
    /// Connections and requests otherwise.
    pub network: NetworkSettings,
    /// Creation and deletion of topics.
    pub topics: TopicSettings,
    /// Idempotent producers.
    pub producers: ProducerSettings,
    /// Followers and leaders.
    pub replication: ReplicationSettings,
    /// Classic groups, and what all groups share.
    pub groups: GroupSettings,
    /// Groups of the consumer protocol (KIP-848).
    pub consumer_groups: ConsumerGroupSettings,
    /// Share groups (KIP-932).
    pub share_groups: ShareGroupSettings,
    /// Streams groups (KIP-1071).
    pub streams_groups: StreamsGroupSettings,
    /// Committed offsets.
    pub offsets: OffsetSettings,
    /// Transactions.
    pub transactions: TransactionSettings,
    /// huld's own.
    pub huld: HuldSettings,
    /// What topics inherit on this broker.
    pub topic_defaults: TopicDefaults,
}

/// What topics inherit on one broker.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopicDefaults {
    /// The configs of a topic that has none of its own.
    pub config: Arc<TopicConfig>,
    /// Whether they are other than those that the brokers share, and by which a [`crate::controller::Topic`] shows its
    /// config.
    pub are_own: bool,
}

macro_rules! part {
    ($(#[$attribute:meta])* $name:ident { $($(#[$field_attribute:meta])* $field:ident: $type:ty = $key:literal;)* }) => {
        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $(#[doc = concat!("`", $key, "`.")] $(#[$field_attribute])* pub $field: $type,)*
        }

        impl $name {
            /// The keys behind it.
            #[cfg(test)]
            pub(super) const KEYS: &[&str] = &[$($key),*];

            fn resolve(configs: &BrokerConfigs) -> Self {
                $name { $($field: read(configs, $key),)* }
            }
        }

        impl Default for $name {
            /// Kafka's defaults.
            fn default() -> Self {
                $name::resolve(&BrokerConfigs::default())
            }
        }
    };
}

part! {
    /// Limits of connections and requests.
    NetworkSettings {
        /// None: never closed.
        connections_max_idle_ms: Option<u64> = "connections.max.idle.ms";
        socket_request_max_bytes: usize = "socket.request.max.bytes";
        fetch_max_bytes: u32 = "fetch.max.bytes";
        max_incremental_fetch_session_cache_slots: usize = "max.incremental.fetch.session.cache.slots";
        max_request_partition_size_limit: usize = "max.request.partition.size.limit";
        /// The largest push of a client's metrics, as it is sent.
        telemetry_max_bytes: usize = "telemetry.max.bytes";
    }
}

part! {
    /// Creation, deletion and care of topics. What a topic may set itself is in [`super::TopicConfig`].
    TopicSettings {
        auto_create_topics_enable: bool = "auto.create.topics.enable";
        delete_topic_enable: bool = "delete.topic.enable";
        num_partitions: i32 = "num.partitions";
        default_replication_factor: i16 = "default.replication.factor";
        log_retention_check_interval_ms: u64 = "log.retention.check.interval.ms";
        log_initial_task_delay_ms: u64 = "log.initial.task.delay.ms";
        log_cleaner_backoff_ms: u64 = "log.cleaner.backoff.ms";
        log_cleaner_enable: bool = "log.cleaner.enable";
    }
}

part! {
    /// How long partitions remember idempotent producers.
    ProducerSettings {
        producer_id_expiration_ms: u64 = "producer.id.expiration.ms";
        producer_id_expiration_check_interval_ms: u64 = "producer.id.expiration.check.interval.ms";
    }
}

part! {
    /// Followers, leaders and elections.
    ReplicationSettings {
        replica_lag_time_max_ms: u64 = "replica.lag.time.max.ms";
        replica_fetch_max_bytes: u32 = "replica.fetch.max.bytes";
        replica_fetch_response_max_bytes: u32 = "replica.fetch.response.max.bytes";
        replica_fetch_wait_max_ms: u32 = "replica.fetch.wait.max.ms";
        replica_fetch_backoff_ms: u32 = "replica.fetch.backoff.ms";
        replica_socket_timeout_ms: u64 = "replica.socket.timeout.ms";
        /// None: consumers read from the leader.
        replica_selector_class: Option<String> = "replica.selector.class";
        auto_leader_rebalance_enable: bool = "auto.leader.rebalance.enable";
        leader_imbalance_check_interval_seconds: u64 = "leader.imbalance.check.interval.seconds";
        unclean_leader_election_interval_ms: u64 = "unclean.leader.election.interval.ms";
        broker_heartbeat_interval_ms: u64 = "broker.heartbeat.interval.ms";
        broker_session_timeout_ms: u64 = "broker.session.timeout.ms";
        /// Whether a broker that is stopped hands over what it leads before it goes.
        controlled_shutdown_enable: bool = "controlled.shutdown.enable";
    }
}

part! {
    /// Classic groups, and what all groups share.
    GroupSettings {
        group_initial_rebalance_delay_ms: u64 = "group.initial.rebalance.delay.ms";
        group_min_session_timeout_ms: i32 = "group.min.session.timeout.ms";
        group_max_session_timeout_ms: i32 = "group.max.session.timeout.ms";
        group_max_size: usize = "group.max.size";
        group_coordinator_rebalance_protocols: Vec<String> = "group.coordinator.rebalance.protocols";
    }
}

part! {
    /// Groups of the consumer protocol.
    ConsumerGroupSettings {
        assignors: Vec<String> = "group.consumer.assignors";
        heartbeat_interval_ms: i32 = "group.consumer.heartbeat.interval.ms";
        min_heartbeat_interval_ms: i32 = "group.consumer.min.heartbeat.interval.ms";
        max_heartbeat_interval_ms: i32 = "group.consumer.max.heartbeat.interval.ms";
        session_timeout_ms: i32 = "group.consumer.session.timeout.ms";
        min_session_timeout_ms: i32 = "group.consumer.min.session.timeout.ms";
        max_session_timeout_ms: i32 = "group.consumer.max.session.timeout.ms";
        max_size: usize = "group.consumer.max.size";
        /// `disabled`, `downgrade`, `upgrade` or `bidirectional`, in any case.
        migration_policy: Option<String> = "group.consumer.migration.policy";
        regex_refresh_interval_ms: u64 = "group.consumer.regex.refresh.interval.ms";
    }
}

part! {
    /// Share groups, which aren't there yet: what groups may set for them.
    ShareGroupSettings {
        min_heartbeat_interval_ms: i32 = "group.share.min.heartbeat.interval.ms";
        max_heartbeat_interval_ms: i32 = "group.share.max.heartbeat.interval.ms";
        min_session_timeout_ms: i32 = "group.share.min.session.timeout.ms";
        max_session_timeout_ms: i32 = "group.share.max.session.timeout.ms";
        min_record_lock_duration_ms: i32 = "group.share.min.record.lock.duration.ms";
        max_record_lock_duration_ms: i32 = "group.share.max.record.lock.duration.ms";
    }
}

part! {
    /// Streams groups, which aren't there yet: what groups may set for them.
    StreamsGroupSettings {
        min_heartbeat_interval_ms: i32 = "group.streams.min.heartbeat.interval.ms";
        max_heartbeat_interval_ms: i32 = "group.streams.max.heartbeat.interval.ms";
        min_session_timeout_ms: i32 = "group.streams.min.session.timeout.ms";
        max_session_timeout_ms: i32 = "group.streams.max.session.timeout.ms";
        max_standby_replicas: i32 = "group.streams.max.standby.replicas";
    }
}

part! {
    /// Committed offsets and their topic.
    OffsetSettings {
        metadata_max_bytes: usize = "offset.metadata.max.bytes";
        commit_timeout_ms: u64 = "offsets.commit.timeout.ms";
        retention_minutes: u64 = "offsets.retention.minutes";
        retention_check_interval_ms: u64 = "offsets.retention.check.interval.ms";
        topic_num_partitions: i32 = "offsets.topic.num.partitions";
        topic_replication_factor: i16 = "offsets.topic.replication.factor";
        topic_segment_bytes: u32 = "offsets.topic.segment.bytes";
    }
}

part! {
    /// Transactions and their topic.
    TransactionSettings {
        max_timeout_ms: i32 = "transaction.max.timeout.ms";
        id_expiration_ms: u64 = "transactional.id.expiration.ms";
        remove_expired_interval_ms: u64 = "transaction.remove.expired.transaction.cleanup.interval.ms";
        partition_verification_enable: bool = "transaction.partition.verification.enable";
        two_phase_commit_enable: bool = "transaction.two.phase.commit.enable";
        state_log_num_partitions: i32 = "transaction.state.log.num.partitions";
        state_log_replication_factor: i16 = "transaction.state.log.replication.factor";
        state_log_min_isr: u32 = "transaction.state.log.min.isr";
        state_log_segment_bytes: u32 = "transaction.state.log.segment.bytes";
    }
}

part! {
    /// huld's own settings.
    HuldSettings {
        /// None: half of the machine's memory.
        log_memory_bytes: Option<u64> = "huld.log.memory.bytes";
        max_decompressed_bytes: usize = "huld.max.decompressed.bytes";
        max_groups: usize = "huld.max.groups";
        max_group_members: usize = "huld.max.group.members";
        max_transactional_ids: usize = "huld.max.transactional.ids";
    }
}

impl BrokerSettings {
    /// What these configs amount to.
    ///
    /// # Errors
    /// [`ConfigError::InvalidValue`] for listeners that can't be, [`ConfigError::Conflict`] for values that don't go
    /// together (`KafkaConfig.validateValues`, as far as huld acts on them).
    pub fn resolve(configs: &BrokerConfigs) -> Result<Self, ConfigError> {
        let is_set = |name: &str| configs.set(name).is_some();
        let listeners = match is_set("listeners") || is_set("advertised.listeners") {
            true => listeners(configs)?,
            false => listeners(configs).map(|_| vec![default_listener()])?,
        };
        check_topic_defaults(configs)?;
        let settings = BrokerSettings {
            node_id: node_id(configs)?,
            rack: read(configs, "broker.rack"),
            listeners,
            connections: ConnectionSettings::resolve(configs)?,
            network: NetworkSettings::resolve(configs),
            topics: TopicSettings::resolve(configs),
            producers: ProducerSettings::resolve(configs),
            replication: ReplicationSettings::resolve(configs),
            groups: GroupSettings::resolve(configs),
            consumer_groups: ConsumerGroupSettings::resolve(configs),
            share_groups: ShareGroupSettings::resolve(configs),
            streams_groups: StreamsGroupSettings::resolve(configs),
            offsets: OffsetSettings::resolve(configs),
            transactions: TransactionSettings::resolve(configs),
            huld: HuldSettings::resolve(configs),
            topic_defaults: TopicDefaults { config: TopicConfig::defaults(configs), are_own: false },
        };
        check_order(configs)?;
        settings.topic_defaults.config.check()?;
        Ok(settings)
    }
}

impl Default for BrokerSettings {
    /// Kafka's defaults; broker 1 on `localhost:9092`.
    fn default() -> Self {
        BrokerSettings {
            node_id: NodeId(1),
            rack: None,
            listeners: vec![default_listener()],
            connections: ConnectionSettings::default(),
            network: NetworkSettings::default(),
            topics: TopicSettings::default(),
            producers: ProducerSettings::default(),
            replication: ReplicationSettings::default(),
            groups: GroupSettings::default(),
            consumer_groups: ConsumerGroupSettings::default(),
            share_groups: ShareGroupSettings::default(),
            streams_groups: StreamsGroupSettings::default(),
            offsets: OffsetSettings::default(),
            transactions: TransactionSettings::default(),
            huld: HuldSettings::default(),
            topic_defaults: TopicDefaults::default(),
        }
    }
}

/// Kafka listens on every address by default; huld, a tool for one machine, on its own only.
fn default_listener() -> Listener {
    Listener {
        name: "PLAINTEXT".to_owned(),
        host: ListenHost::Named("localhost".to_owned()),
        port: 9092,
        advertised: None::<Endpoint>,
    }
}

fn node_id(configs: &BrokerConfigs) -> Result<NodeId, ConfigError> {
    let number = |name: &str| match configs.set(name).map(|set| &set.value) {
        Some(Value::Integer(number)) => i32::try_from(*number).ok().filter(|id| *id >= 0),
        _ => None,
    };
    match (number("node.id"), number("broker.id")) {
        (Some(id), Some(older)) if id != older => Err(ConfigError::Conflict {
            key: "node.id",
            value: id.to_string(),
            other: "broker.id",
            other_value: older.to_string(),
            rule: "both name the same thing and must be equal",
        }),
        (id, older) => Ok(NodeId(id.or(older).unwrap_or(1))),
    }
}

/// Pairs of integers of which the first may not be larger than the second.
const ORDERED: &[(&str, &str)] = &[
    ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
    ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
    ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
    ("group.share.min.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"),
    ("group.share.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"),
    ("group.share.min.session.timeout.ms", "group.share.session.timeout.ms"),
    ("group.share.session.timeout.ms", "group.share.max.session.timeout.ms"),
    ("group.share.min.record.lock.duration.ms", "group.share.record.lock.duration.ms"),
    ("group.share.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"),
    ("group.streams.min.heartbeat.interval.ms", "group.streams.heartbeat.interval.ms"),
    ("group.streams.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"),
    ("group.streams.min.session.timeout.ms", "group.streams.session.timeout.ms"),
    ("group.streams.session.timeout.ms", "group.streams.max.session.timeout.ms"),
    ("group.streams.num.standby.replicas", "group.streams.max.standby.replicas"),
    ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
    ("replica.fetch.wait.max.ms", "replica.socket.timeout.ms"),
    ("replica.fetch.wait.max.ms", "replica.lag.time.max.ms"),
];

fn check_order(configs: &BrokerConfigs) -> Result<(), ConfigError> {
    for &(key, other) in ORDERED {
        let (value, other_value): (i64, i64) = (read(configs, key), read(configs, other));
        if value > other_value {
            return Err(ConfigError::Conflict {
                key,
                value: value.to_string(),
                other,
                other_value: other_value.to_string(),
                rule: "the first may not be larger than the second",
            });
        }
    }
    Ok(())
}

/// What topics inherit must be what a topic could set. (The tables let more pass for these keys, as Kafka's do: some
/// are checked only after hours and minutes have become milliseconds.)
fn check_topic_defaults(configs: &BrokerConfigs) -> Result<(), ConfigError> {
    let set_in = |name: &str| configs.set(name).map(|set| set.text.to_string());
    for key in Resource::Topic.keys() {
        let is_zero_retention =
            key.name == "retention.ms" && configs.topic_default(key) == Some(Value::Integer(0));
        let is_bad = configs.topic_default(key).is_some_and(|value| !key.allowed.allows(&value));
        let set = key.broker_synonyms.iter().find_map(|synonym| Some((synonym.name, set_in(synonym.name)?)));
        if let Some((name, value)) = set.filter(|_| is_bad || is_zero_retention) {
            let allowed = match is_zero_retention {
                true => "negative for no limit, or at least 1".to_owned(),
                false => key.allowed.to_string(),
            };
            return Err(ConfigError::InvalidValue { key: name.to_owned(), value, allowed });
        }
    }
    Ok(())
}

/// The typed value of a broker key.
///
/// # Panics
/// If the tables have no such key or no value of this type for it. That is a mistake in this file, and every
/// `BrokerSettings` that is ever made runs into it.
pub(super) fn read<T: FromValue>(configs: &BrokerConfigs, name: &str) -> T {
    Resource::Broker
        .key(name)
        .and_then(|key: &'static Key| T::from_value(configs.value(key)))
        .unwrap_or_else(|| panic!("the tables have no value of the right type for {name}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::key::Effect;
    use super::super::layers::Overrides;
    use super::super::topic_config::TopicConfig;
    use super::*;

    /// Keys that are read by their names, or that one of another name is resolved from.
    const READ_OTHERWISE: &[&str] = &[
        "advertised.listeners",
        "broker.id",
        "broker.rack",
        "controller.listener.names",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "node.id",
    ];

    fn that_act(resource: Resource) -> BTreeSet<&'static str> {
        resource.keys().filter(|key| key.effect == Effect::Acts).map(|key| key.name).collect()
    }

    #[test]
    fn the_keys_that_act_are_those_that_are_read() {
        let checked_only = "remote.storage.enable";
        let mut topic: BTreeSet<&str> =
            TopicConfig::KEYS.iter().copied().filter(|name| *name != checked_only).collect();
        topic.insert("internal.segment.bytes");
        assert_eq!(that_act(Resource::Topic), topic);

        let typed = [
            NetworkSettings::KEYS,
            TopicSettings::KEYS,
            ProducerSettings::KEYS,
            ReplicationSettings::KEYS,
            GroupSettings::KEYS,
            ConsumerGroupSettings::KEYS,
            OffsetSettings::KEYS,
            TransactionSettings::KEYS,
            HuldSettings::KEYS,
            READ_OTHERWISE,
        ];
        let of_topics = Resource::Topic.keys().filter(|key| key.effect == Effect::Acts);
        let inherited = of_topics.flat_map(|key| key.broker_synonyms).map(|synonym| synonym.name);
        let broker: BTreeSet<&str> = typed.concat().into_iter().chain(inherited).collect();
        assert_eq!(that_act(Resource::Broker), broker);
        let bounds = ShareGroupSettings::KEYS.iter().chain(StreamsGroupSettings::KEYS);
        assert!(bounds.clone().all(|name| Resource::Broker.key(name).is_some()));
        assert!(bounds.clone().all(|name| !broker.contains(name)), "there are no such groups");

        let group = ["consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"];
        assert_eq!(that_act(Resource::Group), BTreeSet::from(group));
        assert_eq!(that_act(Resource::ClientMetrics).len(), Resource::ClientMetrics.keys().count());
    }

    fn resolve(pairs: &[(&str, &str)]) -> Result<BrokerSettings, String> {
        let fixed = Overrides::parse(Resource::Broker, pairs.iter().copied()).unwrap();
        let configs = BrokerConfigs { fixed, ..BrokerConfigs::default() };
        BrokerSettings::resolve(&configs).map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_set_means_kafkas_defaults_on_localhost() {
        let settings = resolve(&[]).unwrap();
        assert_eq!(settings, BrokerSettings::default());
        assert_eq!(settings.listeners, [default_listener()]);
        assert_eq!(settings.network.connections_max_idle_ms, Some(600_000));
        assert_eq!(settings.network.socket_request_max_bytes, 104_857_600);
        assert_eq!(settings.topics.num_partitions, 1);
        assert_eq!(settings.huld.log_memory_bytes, None);
    }

    #[test]
    fn node_id_and_its_older_name() {
        assert_eq!(resolve(&[("broker.id", "7")]).unwrap().node_id, NodeId(7));
        assert_eq!(resolve(&[("node.id", "0")]).unwrap().node_id, NodeId(0));
        assert_eq!(resolve(&[("node.id", "3"), ("broker.id", "-1")]).unwrap().node_id, NodeId(3));
        let error = resolve(&[("node.id", "3"), ("broker.id", "4")]).unwrap_err();
        assert!(error.starts_with("node.id=3 does not go with broker.id=4"), "{error}");
    }

    #[test]
    fn bounds_in_the_wrong_order_are_refused() {
        let error = resolve(&[("group.min.session.timeout.ms", "1800001")]).unwrap_err();
        assert!(error.contains("group.max.session.timeout.ms=1800000"), "{error}");
        assert!(resolve(&[("replica.fetch.wait.max.ms", "30001")]).is_err());
    }

    #[test]
    fn what_topics_inherit_is_checked() {
        for (key, value) in [
            ("log.retention.ms", "0"),
            ("log.retention.hours", "0"),
            ("log.roll.ms", "0"),
            ("log.roll.jitter.ms", "-1"),
        ] {
            let error = resolve(&[(key, value)]).unwrap_err();
            assert!(error.starts_with(&format!("{key}={value}: the value must be")), "{error}");
        }
        assert!(resolve(&[("log.retention.ms", "-5")]).is_ok());
    }

    #[test]
    fn values_reach_their_fields() {
        let settings = resolve(&[
            ("connections.max.idle.ms", "-1"),
            ("broker.rack", "a"),
            ("group.consumer.assignors", "range"),
            ("huld.log.memory.bytes", "1048576"),
            ("listeners", "PLAINTEXT://:19092"),
        ])
        .unwrap();
        assert_eq!(settings.network.connections_max_idle_ms, None);
        assert_eq!(settings.rack.as_deref(), Some("a"));
        assert_eq!(settings.consumer_groups.assignors, ["range"]);
        assert_eq!(settings.huld.log_memory_bytes, Some(1_048_576));
        assert_eq!(settings.listeners[0].port, 19092);
    }
}
