//! Every configuration key, declared once: the tables of topics, brokers, groups and client-metrics subscriptions,
//! how values are parsed and checked, what they amount to for a topic or a broker, and how they are shown.
//!
//! The names, types, defaults and rules are Apache Kafka 4.1's; recorded answers in `fixtures/configs/` hold the
//! tables to it. This module knows no files, no environment and no wire format: texts come in, values go out.

mod broker_cluster;
mod broker_coordinators;
mod broker_log;
mod broker_network;
mod broker_operations;
mod broker_security;
mod broker_settings;
mod connection_settings;
mod describe;
mod dynamic_keys;
mod group_keys;
mod huld_keys;
mod key;
mod layers;
mod listeners;
mod older_keys;
#[cfg(test)]
mod recorded;
mod resource_rules;
mod tables;
mod topic_config;
mod topic_keys;
mod typed;
mod value;

pub use broker_cluster::RACK_AWARE_SELECTOR;
pub use broker_settings::{
    BrokerSettings, ConsumerGroupSettings, GroupSettings, HuldSettings, NetworkSettings, OffsetSettings,
    ProducerSettings, ReplicationSettings, ShareGroupSettings, StreamsGroupSettings, TopicDefaults,
    TopicSettings, TransactionSettings,
};
pub use connection_settings::ConnectionSettings;
pub use describe::{
    DescribedConfig, DescribedSynonym, describe_broker, describe_broker_defaults, describe_created_topic,
    describe_plain, describe_topic,
};
pub use key::{Allowed, Change, Effect, Importance, Key, Kind, Synonym};
pub use layers::{BrokerConfigs, ConfigSource, Override, Overrides};
pub use listeners::{Endpoint, ListenHost, Listener};
pub use older_keys::{ForeignKey, foreign_key};
pub use resource_rules::check_group;
pub use tables::Resource;
pub use topic_config::TopicConfig;
pub use typed::{CleanupPolicy, CompressionType};
pub use value::{ConfigError, Secret, Value, parse};

pub use crate::wire::check::TimestampType;
