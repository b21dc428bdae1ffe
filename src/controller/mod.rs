//! The controller: topics, partitions, leaders, broker registrations, configs. KRaft's job, as one value that is
//! always available. It decides and records [`Change`]s; brokers learn of them through the cluster's links. It knows
//! no logs and no clients.

pub mod configs;
pub mod names;

mod alter_configs;
mod alter_partition;
mod broker_configs;
mod client_metrics;
mod client_quotas;
mod elections;
mod error;
mod features;
mod loggers;
mod partition;
mod partition_change;
mod placement;
mod reassignment;
mod registration;
mod scram_credentials;
/// The configs that `__consumer_offsets` is made with.
fn offsets_topic_configs(settings: &BrokerSettings) -> Vec<(String, Option<String>)> {
    let segment_bytes = settings.offsets.topic_segment_bytes.to_string();
    let configs =
        [("cleanup.policy", "compact"), ("compression.type", "producer"), ("segment.bytes", &segment_bytes)];
    configs.map(|(name, value)| (name.to_owned(), Some(value.to_owned()))).to_vec()
}

/// The configs that `__transaction_state` is made with.
fn transaction_topic_configs(settings: &BrokerSettings) -> Vec<(String, Option<String>)> {
    let settings = &settings.transactions;
    let configs = [
        ("cleanup.policy", "compact".to_owned()),
        ("compression.type", "uncompressed".to_owned()),
        ("min.insync.replicas", settings.state_log_min_isr.to_string()),
        ("segment.bytes", settings.state_log_segment_bytes.to_string()),
        ("unclean.leader.election.enable", "false".to_owned()),
    ];
    configs.map(|(name, value)| (name.to_owned(), Some(value))).to_vec()
}

#[cfg(test)]
mod tests;
mod topics;

use std::sync::Arc;
use std::time::Duration;

use alter_configs::DynamicConfigs;
use broker_configs::OwnConfigs;
use configs::{
    BrokerConfigs, BrokerSettings, ConfigError, DescribedConfig, Overrides, Resource, TopicConfig,
};

use elections::PeriodicElections;
use registration::Brokers;

use crate::base::entropy::Entropy;
use crate::base::{Instant, NodeId};

pub use alter_configs::{
    ConfigAlteration, ConfigOperation, ConfigTarget, MAX_CONFIGS_A_RESOURCE, MAX_CONFIGURED_GROUPS,
};
pub use alter_partition::AlterPartition;
pub use broker_configs::BrokersSettings;
pub use client_metrics::{ClientAttributes, MAX_CLIENT_METRICS_SUBSCRIPTIONS, WantedMetrics};
pub use client_quotas::{
    ClientQuotas, MAX_QUOTA_ENTITIES, QuotaEntity, QuotaError, QuotaMatch, QuotaOperation,
    is_entity_kind as is_quota_entity_kind,
};
pub use elections::Election;
pub use error::ControllerError;
pub use features::{Feature, FeatureChange, FeatureError, FeatureRefusal, FeatureUpdate, Features};
pub use loggers::{LogLevel, LoggerError, Loggers, ROOT_LOGGER};
pub use partition::{LeaderRecovery, Partition};
pub use registration::{BrokerRegistration, Heartbeat, HeartbeatReply, ListenerEndpoint, Registration};
pub use scram_credentials::{
    MAX_SCRAM_CREDENTIALS, ScramCredential, ScramCredentials, ScramError, ScramMechanism,
};
pub use topics::{MAX_PARTITIONS_A_REQUEST, NewPartitions, NewTopic, Topic, Topics};

/// The config that a cluster starts with as one of its own.
const MIN_INSYNC_REPLICAS: &str = "min.insync.replicas";

/// Something that the controller has decided and that brokers must hear of, in this order.
#[derive(Clone, Debug)]
pub enum Change {
    /// A partition was created, or its leader, ISR or replicas changed.
    Partition {
        /// The topic as it is after the change.
        topic: Arc<Topic>,
        /// Which of its partitions.
        index: i32,
    },
    /// A topic is gone.
    TopicDeleted(Arc<Topic>),
    /// A topic's configs changed.
    TopicConfig(Arc<Topic>),
    /// Brokers' settings changed.
    Settings(BrokersSettings),
    /// A broker was registered, fenced, unfenced, asked to be shut down or was unregistered: all there are now, by id.
    Brokers(Arc<[BrokerRegistration]>),
}

/// The controller's state.
#[derive(Clone, Debug)]
pub struct Controller {
    cluster_id: Arc<str>,
    /// With the dynamic configs of the only broker, where there is just one.
    configs: BrokerConfigs,
    own_configs: OwnConfigs,
    dynamic: DynamicConfigs,
    settings: BrokersSettings,
    topic_defaults: Arc<TopicConfig>,
    brokers: Brokers,
    periodic: PeriodicElections,
    topics: Topics,
    client_quotas: ClientQuotas,
    scram_credentials: ScramCredentials,
    features: Features,
    loggers: Loggers,
    /// Producer ids below this one have been given out.
    next_producer_id: i64,
    topic_id_entropy: Entropy,
    placement_entropy: Entropy,
    changes: Vec<Change>,
    /// How many changes were ever decided.
    last_change: u64,
}

impl Controller {
    /// A controller that knows these brokers and no topics. They are unfenced, whatever they say, and get epochs from 1 on.
    ///
    /// # Errors
    /// If the configs contradict each other.
    pub fn new(
        mut configs: BrokerConfigs,
        brokers: Vec<BrokerRegistration>,
        entropy: &Entropy,
        now: Instant,
    ) -> Result<Self, ConfigError> {
        // A new cluster of Kafka 4.1 makes what it was started with a config of the whole cluster
        // (`ConfigurationControlManager.maybeGenerateElrSafetyRecords`); clients see where it comes from.
        if configs.dynamic_default.get(MIN_INSYNC_REPLICAS).is_none()
            && let Some(value) = Resource::Broker.key(MIN_INSYNC_REPLICAS).and_then(|key| configs.value(key))
        {
            configs.dynamic_default.set(Resource::Broker, MIN_INSYNC_REPLICAS, &value.to_string())?;
        }
        let settings = BrokerSettings::resolve(&configs)?;
        let topic_defaults = settings.topic_defaults.config.clone();
        let cluster_id = uuid_base64(entropy.stream("cluster id").next_uuid());
        let session_timeout = Duration::from_millis(settings.replication.broker_session_timeout_ms);
        let mut controller = Controller {
            cluster_id: cluster_id.into(),
            configs,
            own_configs: OwnConfigs::default(),
            dynamic: DynamicConfigs::default(),
            settings: BrokersSettings::shared_by_all(settings),
            topic_defaults,
            brokers: Brokers::unfenced(brokers, now + session_timeout),
            periodic: PeriodicElections::begun(),
            topics: Topics::default(),
            client_quotas: ClientQuotas::default(),
            scram_credentials: ScramCredentials::default(),
            features: Features::default(),
            loggers: Loggers::default(),
            next_producer_id: 0,
            topic_id_entropy: entropy.stream("topic ids"),
            placement_entropy: entropy.stream("placement"),
            changes: Vec::new(),
            last_change: 0,
        };
        controller.schedule_elections(now);
        Ok(controller)
    }

    /// Kafka's cluster id: 22 characters of URL-safe base64.
    pub fn cluster_id(&self) -> &Arc<str> {
        &self.cluster_id
    }

    /// All topics.
    pub fn topics(&self) -> &Topics {
        &self.topics
    }

    /// Clients' quotas.
    pub fn client_quotas(&self) -> &ClientQuotas {
        &self.client_quotas
    }

    /// Clients' quotas, to be changed.
    pub fn client_quotas_mut(&mut self) -> &mut ClientQuotas {
        &mut self.client_quotas
    }

    /// Users' credentials.
    pub fn scram_credentials(&self) -> &ScramCredentials {
        &self.scram_credentials
    }

    /// Users' credentials, to be changed.
    pub fn scram_credentials_mut(&mut self) -> &mut ScramCredentials {
        &mut self.scram_credentials
    }

    /// The levels of the cluster's features.
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// The levels of the cluster's features, to be changed.
    pub fn features_mut(&mut self) -> &mut Features {
        &mut self.features
    }

    /// The process's loggers.
    pub fn loggers(&self) -> &Loggers {
        &self.loggers
    }

    /// The process's loggers, to be changed.
    pub fn loggers_mut(&mut self) -> &mut Loggers {
        &mut self.loggers
    }

    /// A producer id that nobody has had.
    pub fn next_producer_id(&mut self) -> i64 {
        let id = self.next_producer_id;
        self.next_producer_id += 1;
        id
    }

    /// What was decided since the last call, oldest first, each with its number.
    pub fn take_changes(&mut self) -> impl Iterator<Item = (u64, Change)> + use<> {
        let first = self.last_change - self.changes.len() as u64 + 1;
        (first..).zip(std::mem::take(&mut self.changes))
    }

    /// The number of the last change; 0 if there was none.
    pub fn last_change(&self) -> u64 {
        self.last_change
    }

    /// A broker has applied the change with this number, and all before it.
    pub fn acknowledge(&mut self, broker: NodeId, change: u64) {
        self.brokers.acknowledge(broker, change);
    }

    /// Nobody waits for this broker to apply changes while it is excused, since it doesn't run.
    pub fn excuse(&mut self, broker: NodeId, excused: bool) {
        self.brokers.excuse(broker, excused);
    }

    /// The last change that this broker has applied: 0 if it has applied none, none if it doesn't run or isn't known.
    pub fn applied_by(&self, broker: NodeId) -> Option<u64> {
        self.brokers.applied_by(broker)
    }

    /// The last change that every living broker has applied.
    pub fn applied_everywhere(&self) -> u64 {
        self.brokers.applied_everywhere()
    }

    /// All that a broker which starts must be told, as changes, and the number that it is to acknowledge then. What it
    /// holds of topics and partitions that don't occur here is gone.
    pub fn snapshot(&self) -> (u64, Vec<Change>) {
        let mut changes =
            vec![Change::Settings(self.settings.clone()), Change::Brokers(self.brokers().clone())];
        for topic in self.topics.iter() {
            changes.push(Change::TopicConfig(topic.clone()));
            let partitions = 0..topic.partitions.len() as i32;
            changes.extend(partitions.map(|index| Change::Partition { topic: topic.clone(), index }));
        }
        (self.last_change, changes)
    }

    /// The configs of a topic as CreateTopics answers them.
    pub fn describe_topic_configs(&self, topic: &Topic) -> Vec<DescribedConfig> {
        configs::describe_created_topic(&topic.overrides, &self.configs)
    }

    /// A topic that a broker has made since a client needs it, as that broker's own settings say (Kafka's
    /// `DefaultAutoTopicCreationManager.creatableTopic`). The brokers' own topics get as many replicas as there are brokers
    /// for at most, so that they work on one broker with Kafka's default of 3.
    pub fn automatic_topic(&self, name: &str, broker: NodeId) -> NewTopic {
        let settings = self.settings_of(broker);
        let BrokerSettings { offsets, transactions, topics, .. } = &**settings;
        let usable = self.brokers().iter().filter(|broker| !broker.in_controlled_shutdown).count();
        let usable = i16::try_from(usable).unwrap_or(i16::MAX).max(1);
        let (partitions, replication_factor, configs) = match name {
            names::CONSUMER_OFFSETS => (
                offsets.topic_num_partitions,
                offsets.topic_replication_factor.min(usable),
                offsets_topic_configs(settings),
            ),
            names::TRANSACTION_STATE => (
                transactions.state_log_num_partitions,
                transactions.state_log_replication_factor.min(usable),
                transaction_topic_configs(settings),
            ),
            _ => (topics.num_partitions, topics.default_replication_factor, Vec::new()),
        };
        NewTopic { name: name.to_owned(), partitions, replication_factor, configs, ..NewTopic::default() }
    }

    fn decide(&mut self, change: Change) {
        self.last_change += 1;
        self.changes.push(change);
    }

    /// The topic's own configs, and what they amount to.
    fn topic_configs(
        &self,
        configs: &[(String, Option<String>)],
    ) -> Result<(Overrides, Arc<TopicConfig>), ControllerError> {
        let mut overrides = Overrides::default();
        for (name, value) in configs {
            let value = value.as_deref().ok_or_else(|| ControllerError::InvalidConfig {
                message: format!("{name} has no value (null)"),
            })?;
            overrides.set(Resource::Topic, name, value)?;
        }
        let config = TopicConfig::with_overrides(&self.topic_defaults, &overrides);
        config.check()?;
        Ok((overrides, config))
    }
}

impl From<ConfigError> for ControllerError {
    fn from(error: ConfigError) -> Self {
        ControllerError::InvalidConfig { message: error.to_string() }
    }
}

/// URL-safe base64 without padding, as Kafka prints its ids.
pub fn uuid_base64(uuid: uuid::Uuid) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits = uuid.as_u128();
    let digit = |at: u32| {
        let shift = 122 - 6 * i64::from(at);
        let value = if shift >= 0 { bits >> shift } else { bits << -shift };
        char::from(ALPHABET[(value & 63) as usize])
    };
    (0..22).map(digit).collect()
}
