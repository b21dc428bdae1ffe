//! Configs that are changed while the cluster runs: topics', brokers', groups' and client-metrics subscriptions'.
//!
//! As in Kafka, a resource's changes are taken together or not at all, and what is checked is all that the resource
//! has set afterwards (`ConfigurationControlManager`, `DynamicBrokerConfig.validate`).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::client_metrics::{MAX_CLIENT_METRICS_SUBSCRIPTIONS, Subscription, SubscriptionError};
use super::configs::{
    BrokerSettings, Change as Changeable, ConfigError, Kind, Overrides, Resource, TopicConfig, check_group,
};
use super::topics::Topic;
use super::{BrokersSettings, Change, Controller, ControllerError, MIN_INSYNC_REPLICAS, names};
use crate::base::{NodeId, TopicId};

/// The most groups that may have configs of their own (ours).
pub const MAX_CONFIGURED_GROUPS: usize = 100_000;

/// The most configs that one resource may have set (ours: only `listener.name.` keys could be without number).
pub const MAX_CONFIGS_A_RESOURCE: usize = 1_000;

/// Keys that Kafka changes at run time, and that huld reads at its start alone.
const FIXED_AT_START: [&str; 3] = ["advertised.listeners", "listener.security.protocol.map", "listeners"];

/// Whose configs are changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigTarget {
    /// The topic of this name.
    Topic(String),
    /// One broker.
    Broker(NodeId),
    /// All brokers.
    AllBrokers,
    /// The group of this id, which need not exist.
    Group(String),
    /// The client-metrics subscription of this name.
    ClientMetrics(String),
}

/// What becomes of one key: Kafka's `AlterConfigOp.OpType`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigOperation {
    /// It gets this value.
    Set(String),
    /// It goes back to its default.
    Delete,
    /// Its list gets these items too, where it has them not.
    Append(String),
    /// Its list loses these items.
    Subtract(String),
}

/// Changes to one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigAlteration {
    /// Whether all that was set before goes first.
    pub replaces: bool,
    /// Keys, and what becomes of them.
    pub operations: Vec<(String, ConfigOperation)>,
}

/// Configs that were set while the cluster ran, but for those of topics and brokers.
#[derive(Clone, Debug, Default)]
pub(super) struct DynamicConfigs {
    groups: BTreeMap<Arc<str>, Overrides>,
    client_metrics: BTreeMap<Arc<str>, (Overrides, Subscription)>,
    /// How often the subscriptions have changed.
    client_metrics_version: u64,
}

impl DynamicConfigs {
    pub(super) fn subscriptions(&self) -> impl Iterator<Item = &Subscription> {
        self.client_metrics.values().map(|(_, subscription)| subscription)
    }
}

impl Controller {
    /// Changes configs of one resource, or with `validate_only` just says whether it could.
    ///
    /// # Errors
    /// If a key or value is wrong by itself or beside the others, or there is no such resource; nothing has changed
    /// then.
    pub fn alter_configs(
        &mut self,
        target: &ConfigTarget,
        alteration: &ConfigAlteration,
        validate_only: bool,
    ) -> Result<(), ControllerError> {
        match target {
            ConfigTarget::Topic(name) => self.alter_topic(name, alteration, validate_only),
            ConfigTarget::Broker(id) => self.alter_broker(Some(*id), alteration, validate_only),
            ConfigTarget::AllBrokers => self.alter_broker(None, alteration, validate_only),
            ConfigTarget::Group(id) => {
                if id.is_empty() {
                    return Err(ControllerError::NamelessResource { resource: Resource::Group.name() });
                }
                let altered = altered(Resource::Group, self.group_configs(id), alteration)?;
                check_group(&altered, self.settings())?;
                let entry = (!altered.is_empty()).then_some(altered);
                store(&mut self.dynamic.groups, MAX_CONFIGURED_GROUPS, id, entry, validate_only)
            }
            ConfigTarget::ClientMetrics(name) => {
                if name.is_empty() {
                    return Err(ControllerError::NamelessResource {
                        resource: Resource::ClientMetrics.name(),
                    });
                }
                let current = self.client_metrics_configs(name);
                let altered = altered(Resource::ClientMetrics, current, alteration)?;
                let subscription = Subscription::parse(&altered).map_err(|error| match error {
                    SubscriptionError::Interval(_) => invalid_request(error.into()),
                    SubscriptionError::Match(_) => ConfigError::from(error).into(),
                })?;
                let entry = (!altered.is_empty()).then_some((altered, subscription));
                let dynamic = &mut self.dynamic;
                let most = MAX_CLIENT_METRICS_SUBSCRIPTIONS;
                store(&mut dynamic.client_metrics, most, name, entry, validate_only)?;
                dynamic.client_metrics_version += u64::from(!validate_only);
                Ok(())
            }
        }
    }

    /// What was set for a group.
    pub fn group_configs(&self, id: &str) -> &Overrides {
        self.dynamic.groups.get(id).unwrap_or(Overrides::NONE)
    }

    /// What was set for a client-metrics subscription.
    pub fn client_metrics_configs(&self, name: &str) -> &Overrides {
        self.dynamic.client_metrics.get(name).map_or(Overrides::NONE, |(overrides, _)| overrides)
    }

    /// The groups that have configs of their own, by id.
    pub fn configured_groups(&self) -> impl Iterator<Item = &Arc<str>> {
        self.dynamic.groups.keys()
    }

    /// All client-metrics subscriptions, by name.
    pub fn client_metrics_subscriptions(&self) -> impl Iterator<Item = &Arc<str>> {
        self.dynamic.client_metrics.keys()
    }

    /// Grows whenever a client-metrics subscription has changed.
    pub fn client_metrics_version(&self) -> u64 {
        self.dynamic.client_metrics_version
    }

    fn alter_topic(
        &mut self,
        name: &str,
        alteration: &ConfigAlteration,
        validate_only: bool,
    ) -> Result<(), ControllerError> {
        let topic = self.topics.by_name(name).cloned();
        let current = topic.as_ref().map_or(Overrides::NONE, |topic| &*topic.overrides);
        let overrides = altered(Resource::Topic, current, alteration)?;
        if name.is_empty() {
            return Err(ControllerError::NamelessResource { resource: Resource::Topic.name() });
        }
        names::check(name)?;
        let config = TopicConfig::with_overrides(&self.topic_defaults, &overrides);
        config.check()?;
        let topic = topic.ok_or_else(|| ControllerError::UnknownTopic { name: name.to_owned() })?;
        if !validate_only && overrides != *topic.overrides {
            let has_new_min_isr = is_changed(MIN_INSYNC_REPLICAS, &topic.overrides, &overrides);
            let overrides = Arc::new(overrides);
            self.replace_config(Topic { overrides, config, ..Topic::clone(&topic) });
            if has_new_min_isr {
                self.clear_elrs(|changed| changed.id == topic.id);
            }
        }
        Ok(())
    }

    fn replace_config(&mut self, topic: Topic) {
        let topic = self.topics.replace(topic);
        self.decide(Change::TopicConfig(topic));
    }

    /// Of one broker, or of all.
    fn alter_broker(
        &mut self,
        broker: Option<NodeId>,
        alteration: &ConfigAlteration,
        validate_only: bool,
    ) -> Result<(), ControllerError> {
        if let Some(id) = broker.filter(|id| self.brokers.of(*id).is_none()) {
            return Err(ControllerError::UnknownBroker { id });
        }
        for (name, operation) in &alteration.operations {
            if !matches!(operation, ConfigOperation::Delete) {
                check_dynamic(name, broker.is_some())?;
            }
        }
        let mut own = self.own_configs.clone();
        let mut configs = self.configs.clone();
        let layer = match broker {
            Some(id) => own.dynamic.entry(id).or_default(),
            None => &mut configs.dynamic_default,
        };
        let altered = altered(Resource::Broker, layer, alteration)?;
        let has_new_min_isr = is_changed(MIN_INSYNC_REPLICAS, layer, &altered);
        if has_new_min_isr {
            check_min_isr(broker.is_some(), &altered)?;
        }
        *layer = altered;
        // What the controller goes by is what brokers share, and what was set for a broker where that is the only one.
        if let [only] = &**self.brokers() {
            configs.dynamic = own.dynamic.get(&only.id).cloned().unwrap_or_default();
        }
        own.dynamic.retain(|_, overrides| !overrides.is_empty());
        let settings = BrokerSettings::resolve(&configs).map_err(invalid_request)?;
        let settings = own.resolve(&configs, settings).map_err(invalid_request)?;
        if validate_only {
            return Ok(());
        }
        self.own_configs = own;
        self.configs = configs;
        self.take_on(settings);
        if has_new_min_isr {
            self.clear_elrs(|_| true);
        }
        Ok(())
    }

    fn take_on(&mut self, settings: BrokersSettings) {
        let topic_defaults = settings.shared().topic_defaults.config.clone();
        if settings != self.settings {
            self.settings = settings;
            self.decide(Change::Settings(self.settings.clone()));
        }
        if topic_defaults == self.topic_defaults {
            return;
        }
        self.topic_defaults = topic_defaults;
        let ids: Vec<TopicId> = self.topics.iter().map(|topic| topic.id).collect();
        for id in ids {
            let Some(topic) = self.topics.by_id(id) else { continue };
            let config = TopicConfig::with_overrides(&self.topic_defaults, &topic.overrides);
            if config != topic.config {
                self.replace_config(Topic { config, ..Topic::clone(topic) });
            }
        }
    }
}

/// Whether a running broker can take a new value for this key (`DynamicBrokerConfig.validateConfigs`).
fn check_dynamic(name: &str, for_one_broker: bool) -> Result<(), ControllerError> {
    let Some(key) = Resource::Broker.key(name) else {
        let message = format!("{name} is not a configuration key of a broker");
        return Err(ControllerError::InvalidBrokerConfig { message });
    };
    let needs_listener = key.name.starts_with("ssl.truststore.")
        || (key.name.starts_with("ssl.key") && key.name != "ssl.keymanager.algorithm");
    let why = if key.is_read_only() {
        "can't be changed while the broker runs"
    } else if FIXED_AT_START.contains(&key.name) {
        "can't be changed while huld runs, which opens its listeners at the start"
    } else if needs_listener && name == key.name {
        "can be changed for a listener alone, as listener.name.<listener>.<key>"
    } else if key.change == Changeable::PerBroker && name == key.name && !for_one_broker {
        "can be changed for one broker at a time; name its id"
    } else {
        return Ok(());
    };
    Err(ControllerError::InvalidBrokerConfig { message: format!("{name} {why}") })
}

fn is_changed(name: &str, before: &Overrides, after: &Overrides) -> bool {
    before.get(name) != after.get(name)
}

/// Eligible leader replicas ask for one `min.insync.replicas` of the whole cluster, which is always set
/// (`ConfigurationControlManager.validateAlterConfig`).
fn check_min_isr(for_one_broker: bool, altered: &Overrides) -> Result<(), ControllerError> {
    let why = if for_one_broker {
        "can't be changed for one broker, only for all or for a topic"
    } else if altered.get(MIN_INSYNC_REPLICAS).is_none() {
        "can be changed for all brokers, but not removed"
    } else {
        return Ok(());
    };
    Err(ControllerError::InvalidConfig { message: format!("{MIN_INSYNC_REPLICAS} {why}") })
}

/// What a resource has set after the changes, each value checked by itself.
fn altered(
    resource: Resource,
    current: &Overrides,
    alteration: &ConfigAlteration,
) -> Result<Overrides, ControllerError> {
    let mut overrides = if alteration.replaces { Overrides::default() } else { current.clone() };
    for (name, operation) in &alteration.operations {
        let text = match operation {
            ConfigOperation::Delete => {
                overrides.remove(name);
                continue;
            }
            ConfigOperation::Set(text) => text.clone(),
            ConfigOperation::Append(text) | ConfigOperation::Subtract(text) => {
                let mut items = list_items(resource, &overrides, name)?;
                let given = text.split(',').filter(|item| !item.is_empty());
                match operation {
                    ConfigOperation::Append(_) => {
                        for item in given {
                            if !items.iter().any(|known| known == item) {
                                items.push(item.to_owned());
                            }
                        }
                    }
                    _ => {
                        let gone: Vec<&str> = given.collect();
                        items.retain(|item| !gone.contains(&item.as_str()));
                    }
                }
                items.join(",")
            }
        };
        overrides.set(resource, name, &text).map_err(|error| match resource {
            Resource::Broker => invalid_request(error),
            Resource::ClientMetrics if resource.key(name).is_none() => invalid_request(error),
            _ => error.into(),
        })?;
    }
    if overrides.iter().count() > MAX_CONFIGS_A_RESOURCE {
        return Err(ControllerError::TooManyConfigs { max: MAX_CONFIGS_A_RESOURCE });
    }
    Ok(overrides)
}

/// The items of a list as they are set, or of its default.
fn list_items(resource: Resource, overrides: &Overrides, name: &str) -> Result<Vec<String>, ControllerError> {
    let is_splittable = matches!(resource, Resource::Topic | Resource::Broker);
    let key = resource.key(name).filter(|key| is_splittable && key.kind == Kind::List);
    let Some(key) = key else {
        return Err(ControllerError::InvalidConfig {
            message: format!("{name} is not a list, so nothing can be added to it or taken from it"),
        });
    };
    let text = overrides.get(name).map(|set| &*set.text).or(key.default).unwrap_or_default();
    Ok(text.split(',').filter(|item| !item.is_empty()).map(str::to_owned).collect())
}

/// Puts what is set for a resource in the place of what was; none takes it away.
fn store<T>(
    stored: &mut BTreeMap<Arc<str>, T>,
    max: usize,
    name: &str,
    entry: Option<T>,
    validate_only: bool,
) -> Result<(), ControllerError> {
    if !stored.contains_key(name) && stored.len() >= max {
        return Err(ControllerError::TooManyConfiguredResources { max });
    }
    match entry {
        _ if validate_only => {}
        Some(entry) => drop(stored.insert(name.into(), entry)),
        None => drop(stored.remove(name)),
    }
    Ok(())
}

fn invalid_request(error: ConfigError) -> ControllerError {
    ControllerError::InvalidBrokerConfig { message: error.to_string() }
}
