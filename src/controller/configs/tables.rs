//! How keys are declared and looked up.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::key::Key;
use super::{
    broker_cluster, broker_coordinators, broker_log, broker_network, broker_operations, broker_security,
    dynamic_keys, group_keys, huld_keys, topic_keys,
};

/// Milliseconds in a minute.
pub(super) const MINUTE_MS: i64 = 60_000;
/// Milliseconds in an hour.
pub(super) const HOUR_MS: i64 = 60 * MINUTE_MS;
/// What `compression.type` may be.
pub(super) const COMPRESSION_TYPES: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
/// What `cleanup.policy` is made of.
pub(super) const CLEANUP_POLICIES: &[&str] = &["compact", "delete"];
/// What `message.timestamp.type` may be.
pub(super) const TIMESTAMP_TYPES: &[&str] = &["CreateTime", "LogAppendTime"];

/// Declares a table. An entry is
///
/// `"name": Kind = default, allowed, Importance, Change, Effect[, internal] => "documentation"[, from [("broker
/// key", factor), …]];`
macro_rules! keys {
    ($table:ident; $(
        $name:literal: $kind:ident = $default:expr, $allowed:expr, $importance:ident, $change:ident, $effect:ident
        $(, $internal:ident)? => $documentation:literal $(, from [$(($synonym:literal, $factor:expr)),*])?;
    )*) => {
        pub(super) const $table: &[$crate::controller::configs::Key] = &[$($crate::controller::configs::Key {
            name: $name,
            kind: $crate::controller::configs::Kind::$kind,
            default: $default,
            allowed: $allowed,
            importance: $crate::controller::configs::Importance::$importance,
            change: $crate::controller::configs::Change::$change,
            effect: $crate::controller::configs::Effect::$effect,
            internal: keys!(@internal $($internal)?),
            documentation: $documentation,
            broker_synonyms: &[$($($crate::controller::configs::Synonym { name: $synonym, factor: $factor }),*)?],
        },)*];
    };
    (@internal) => { false };
    (@internal internal) => { true };
}
pub(super) use keys;

/// What can be configured: Kafka's `ConfigResource.Type`, without loggers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// A topic.
    Topic,
    /// A broker, or all brokers.
    Broker,
    /// A group.
    Group,
    /// A subscription to clients' metrics (KIP-714).
    ClientMetrics,
}

impl Resource {
    /// The key of this name, or `None`. A broker key may stand behind `listener.name.<listener>.` and, for SASL,
    /// `<mechanism>.` as well.
    pub fn key(self, name: &str) -> Option<&'static Key> {
        let index = &BY_NAME[self.position()];
        index.get(name).copied().or_else(|| match self {
            Resource::Broker => {
                let (_, key) = name.strip_prefix("listener.name.")?.split_once('.')?;
                index.get(key).or_else(|| index.get(key.split_once('.')?.1)).copied()
            }
            _ => None,
        })
    }

    /// All keys, in the order of their names.
    pub fn keys(self) -> impl Iterator<Item = &'static Key> {
        IN_ORDER[self.position()].iter().copied()
    }

    /// What it is called in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Topic => "topic",
            Resource::Broker => "broker",
            Resource::Group => "group",
            Resource::ClientMetrics => "client-metrics subscription",
        }
    }

    const fn position(self) -> usize {
        match self {
            Resource::Topic => 0,
            Resource::Broker => 1,
            Resource::Group => 2,
            Resource::ClientMetrics => 3,
        }
    }

    const fn tables(self) -> &'static [&'static [Key]] {
        match self {
            Resource::Topic => &[topic_keys::TOPIC_KEYS],
            Resource::Broker => BROKER_TABLES,
            Resource::Group => &[group_keys::GROUP_KEYS],
            Resource::ClientMetrics => &[group_keys::CLIENT_METRICS_KEYS],
        }
    }
}

const BROKER_TABLES: &[&[Key]] = &[
    broker_network::NETWORK_KEYS,
    broker_log::LOG_KEYS,
    broker_cluster::CLUSTER_KEYS,
    broker_coordinators::COORDINATOR_KEYS,
    broker_operations::OPERATION_KEYS,
    broker_security::SECURITY_KEYS,
    huld_keys::HULD_KEYS,
    dynamic_keys::DYNAMIC_KEYS,
];

/// Every start looks up hundreds of keys, and has no use for the order of most.
static BY_NAME: [LazyLock<FxHashMap<&'static str, &'static Key>>; 4] = [
    LazyLock::new(|| by_name(Resource::Topic)),
    LazyLock::new(|| by_name(Resource::Broker)),
    LazyLock::new(|| by_name(Resource::Group)),
    LazyLock::new(|| by_name(Resource::ClientMetrics)),
];

static IN_ORDER: [LazyLock<Vec<&'static Key>>; 4] = [
    LazyLock::new(|| in_order(Resource::Topic)),
    LazyLock::new(|| in_order(Resource::Broker)),
    LazyLock::new(|| in_order(Resource::Group)),
    LazyLock::new(|| in_order(Resource::ClientMetrics)),
];

fn by_name(resource: Resource) -> FxHashMap<&'static str, &'static Key> {
    resource.tables().iter().copied().flatten().map(|key| (key.name, key)).collect()
}

fn in_order(resource: Resource) -> Vec<&'static Key> {
    let mut keys: Vec<_> = resource.tables().iter().copied().flatten().collect();
    keys.sort_unstable_by_key(|key| key.name);
    keys
}
