//! What each broker is configured with: what all share, and what it has of its own, from its start or set since.
//!
//! As in Kafka, what a topic inherits is each broker's own for the replicas that it holds: one broker's log may roll and lose
//! segments by other `log.*` settings than another's. Who leads, and who may, is by what they share, since the controller
//! says so.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Controller;
use super::configs::{BrokerConfigs, BrokerSettings, ConfigError, Overrides};
use crate::base::NodeId;

/// The settings of all brokers.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokersSettings {
    shared: Arc<BrokerSettings>,
    /// Of those that have configs of their own.
    own: Arc<BTreeMap<NodeId, Arc<BrokerSettings>>>,
}

impl BrokersSettings {
    pub(super) fn shared_by_all(shared: BrokerSettings) -> Self {
        BrokersSettings { shared: Arc::new(shared), own: Arc::default() }
    }

    /// One broker's. Its id, rack and listeners are the first broker's unless they were set for this one: what holds is its
    /// registration.
    pub fn of(&self, broker: NodeId) -> &Arc<BrokerSettings> {
        self.own.get(&broker).unwrap_or(&self.shared)
    }

    /// What holds where a broker has nothing of its own.
    pub fn shared(&self) -> &Arc<BrokerSettings> {
        &self.shared
    }
}

/// What brokers have of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct OwnConfigs {
    /// What each was started with beside what all were.
    pub(super) fixed: BTreeMap<NodeId, Overrides>,
    /// What was set for each while it ran.
    pub(super) dynamic: BTreeMap<NodeId, Overrides>,
}

impl OwnConfigs {
    /// The layers of one broker's configs, on those that all share.
    pub(super) fn of(&self, broker: NodeId, shared: &BrokerConfigs) -> BrokerConfigs {
        let mut configs = shared.for_node(broker);
        if let Some(own) = self.fixed.get(&broker) {
            configs.fixed.extend(own);
        }
        configs.dynamic = self.dynamic.get(&broker).cloned().unwrap_or_default();
        configs
    }

    /// What all these configs amount to.
    ///
    /// # Errors
    /// The first contradiction.
    pub(super) fn resolve(
        &self,
        shared: &BrokerConfigs,
        settings: BrokerSettings,
    ) -> Result<BrokersSettings, ConfigError> {
        let brokers = self.fixed.keys().chain(self.dynamic.keys());
        let own: BTreeMap<NodeId, Arc<BrokerSettings>> = brokers
            .map(|id| Ok((*id, Arc::new(own_settings(&self.of(*id, shared), &settings)?))))
            .collect::<Result<_, ConfigError>>()?;
        Ok(BrokersSettings { shared: Arc::new(settings), own: Arc::new(own) })
    }
}

/// The settings of a broker with these configs, which shares what is equal.
fn own_settings(configs: &BrokerConfigs, shared: &BrokerSettings) -> Result<BrokerSettings, ConfigError> {
    let mut settings = BrokerSettings::resolve(configs)?;
    if settings.topic_defaults.config == shared.topic_defaults.config {
        settings.topic_defaults = shared.topic_defaults.clone();
    } else {
        settings.topic_defaults.are_own = true;
    }
    Ok(settings)
}

impl Controller {
    /// The configs that all brokers share.
    pub fn configs(&self) -> &BrokerConfigs {
        &self.configs
    }

    /// The settings that all brokers share: the controller's own.
    pub fn settings(&self) -> &Arc<BrokerSettings> {
        self.settings.shared()
    }

    /// One broker's settings.
    pub fn settings_of(&self, broker: NodeId) -> &Arc<BrokerSettings> {
        self.settings.of(broker)
    }

    /// The layers of one broker's configs.
    pub fn configs_of(&self, broker: NodeId) -> BrokerConfigs {
        self.own_configs.of(broker, &self.configs)
    }

    /// Notes what a broker is started with beside what all are, before it is asked for its settings.
    ///
    /// # Errors
    /// If it contradicts itself or what all have; nothing has changed then.
    pub fn start_with(&mut self, broker: NodeId, own: &Overrides) -> Result<(), ConfigError> {
        let mut configs = self.own_configs.clone();
        match own.is_empty() {
            true => configs.fixed.remove(&broker),
            false => configs.fixed.insert(broker, own.clone()),
        };
        let shared = BrokerSettings::clone(self.settings());
        self.settings = configs.resolve(&self.configs, shared)?;
        self.own_configs = configs;
        Ok(())
    }
}
