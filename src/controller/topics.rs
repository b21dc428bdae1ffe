//! Topics and their partitions: made, grown, changed, deleted.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::configs::{Overrides, TopicConfig};
use super::{Change, Controller, ControllerError, Partition, names, placement};
use crate::base::{NodeId, TopicId};

/// Most partitions that one CreateTopics or CreatePartitions request may make (Kafka's `MAX_PARTITIONS_PER_BATCH`).
pub const MAX_PARTITIONS_A_REQUEST: u64 = 10_000;

/// A topic.
#[derive(Clone, Debug)]
pub struct Topic {
    /// Stays the same for the topic's life.
    pub id: TopicId,
    /// Its name.
    pub name: Arc<str>,
    /// Whether it belongs to the brokers themselves.
    pub is_internal: bool,
    /// By their number.
    pub partitions: Vec<Partition>,
    /// The configs that the topic has of its own.
    pub overrides: Arc<Overrides>,
    /// What its configs amount to, with what the brokers share. A broker that has other defaults goes by those.
    pub config: Arc<TopicConfig>,
}

impl Topic {
    /// The partition with this number.
    pub fn partition(&self, index: i32) -> Option<&Partition> {
        self.partitions.get(usize::try_from(index).ok()?)
    }

    /// `min.insync.replicas`, which can't ask for more replicas than there are.
    pub(super) fn effective_min_isr(&self) -> usize {
        let replicas = self.partitions.first().map_or(0, |partition| partition.replicas.len());
        (self.config.min_insync_replicas as usize).min(replicas)
    }
}

/// A topic that somebody wants.
#[derive(Clone, Debug, Default)]
pub struct NewTopic {
    /// Its name.
    pub name: String,
    /// How many partitions, −1 for the default.
    pub partitions: i32,
    /// How many replicas each, −1 for the default.
    pub replication_factor: i16,
    /// Partition numbers and their replicas, instead of the two above (which must then be −1).
    pub assignments: Vec<(i32, Vec<NodeId>)>,
    /// Configs of its own.
    pub configs: Vec<(String, Option<String>)>,
}

/// More partitions for a topic.
#[derive(Clone, Debug)]
pub struct NewPartitions {
    /// How many it is to have in all.
    pub count: i32,
    /// Replicas of each added partition, if they aren't to be chosen.
    pub assignments: Option<Vec<Vec<NodeId>>>,
}

/// All topics.
#[derive(Clone, Debug, Default)]
pub struct Topics {
    by_id: FxHashMap<TopicId, Arc<Topic>>,
    ids: FxHashMap<Arc<str>, TopicId>,
    /// The same, in the order of names, for whoever lists them.
    sorted: BTreeMap<Arc<str>, TopicId>,
    /// Names by what they must not share with another. One request may still make several that do.
    collisions: FxHashMap<String, Vec<Arc<str>>>,
    partitions: usize,
    /// Counts changes of any topic.
    version: u64,
    /// The version that the last new topic came with.
    version_of_last_new: u64,
}

impl Topics {
    /// The topic with this id.
    pub fn by_id(&self, id: TopicId) -> Option<&Arc<Topic>> {
        self.by_id.get(&id)
    }

    /// The topic of this name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Topic>> {
        self.by_id.get(self.ids.get(name)?)
    }

    /// All topics, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Topic>> {
        self.sorted.values().filter_map(|id| self.by_id.get(id))
    }

    /// All topics from this name on, by name.
    pub fn from_name(&self, name: &str) -> impl Iterator<Item = &Arc<Topic>> {
        let from = (std::ops::Bound::Included(name), std::ops::Bound::Unbounded);
        self.sorted.range::<str, _>(from).filter_map(|(_, id)| self.by_id.get(id))
    }

    /// How many topics there are.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// How many partitions there are in all.
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// Counts changes of any topic: whoever has seen this version has seen all there is to see.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The version that the last new topic came with; 0 for none.
    pub fn version_of_last_new(&self) -> u64 {
        self.version_of_last_new
    }

    fn insert(&mut self, topic: Topic) -> Arc<Topic> {
        self.version += 1;
        self.version_of_last_new = self.version;
        let topic = Arc::new(topic);
        self.partitions += topic.partitions.len();
        self.ids.insert(topic.name.clone(), topic.id);
        self.sorted.insert(topic.name.clone(), topic.id);
        if let Some(key) = names::collision_key(&topic.name) {
            self.collisions.entry(key).or_default().push(topic.name.clone());
        }
        self.by_id.insert(topic.id, topic.clone());
        topic
    }

    fn remove(&mut self, id: TopicId) -> Option<Arc<Topic>> {
        let topic = self.by_id.remove(&id)?;
        self.version += 1;
        self.partitions -= topic.partitions.len();
        self.ids.remove(&topic.name);
        self.sorted.remove(&topic.name);
        if let Some(key) = names::collision_key(&topic.name)
            && let Some(names) = self.collisions.get_mut(&key)
        {
            names.retain(|name| *name != topic.name);
            if names.is_empty() {
                self.collisions.remove(&key);
            }
        }
        Some(topic)
    }

    pub(super) fn replace(&mut self, topic: Topic) -> Arc<Topic> {
        self.version += 1;
        let old = self.by_id.get(&topic.id).map_or(0, |old| old.partitions.len());
        self.partitions = self.partitions - old + topic.partitions.len();
        let topic = Arc::new(topic);
        self.by_id.insert(topic.id, topic.clone());
        topic
    }
}

impl Controller {
    /// Makes topics with different names, each of which succeeds or fails alone, or with `validate_only` just says
    /// what they would be like, with ids that, as Kafka's, are not used.
    ///
    /// # Errors
    /// The first of Kafka's checks that fails (`ReplicationControlManager.createTopics`): name, existence, configs,
    /// then the numbers and the assignment. All names are looked at before the first topic is made, so that two
    /// that collide may come into being together.
    pub fn create_topics(
        &mut self,
        new: Vec<NewTopic>,
        validate_only: bool,
    ) -> Vec<Result<Arc<Topic>, ControllerError>> {
        let checked: Vec<_> = new.iter().map(|topic| self.check_new_name(&topic.name)).collect();
        let topics = new.into_iter().zip(checked);
        topics
            .map(|(topic, checked)| checked.and_then(|()| self.create_checked(topic, validate_only)))
            .collect()
    }

    /// Makes one topic, as [`Controller::create_topics`] does.
    ///
    /// # Errors
    /// See there.
    pub fn create_topic(
        &mut self,
        new: NewTopic,
        validate_only: bool,
    ) -> Result<Arc<Topic>, ControllerError> {
        self.check_new_name(&new.name)?;
        self.create_checked(new, validate_only)
    }

    fn create_checked(&mut self, new: NewTopic, validate_only: bool) -> Result<Arc<Topic>, ControllerError> {
        let (overrides, config) = self.topic_configs(&new.configs)?;
        let replicas = if new.assignments.is_empty() {
            self.place_automatically(&new)?
        } else {
            self.check_assignments(&new)?
        };
        let partitions = self.new_partitions(&replicas)?;
        let topic = Topic {
            id: self.draw_topic_id(),
            is_internal: names::is_internal(&new.name),
            name: new.name.into(),
            partitions,
            overrides: Arc::new(overrides),
            config,
        };
        if validate_only {
            return Ok(Arc::new(topic));
        }
        let topic = self.topics.insert(topic);
        self.record_partitions(&topic, 0);
        Ok(topic)
    }

    /// Deletes a topic.
    ///
    /// # Errors
    /// If there is no such topic.
    pub fn delete_topic(&mut self, id: TopicId) -> Result<Arc<Topic>, ControllerError> {
        let topic = self.topics.remove(id).ok_or(ControllerError::UnknownTopicId { id })?;
        self.decide(Change::TopicDeleted(topic.clone()));
        Ok(topic)
    }

    /// Gives a topic more partitions, or with `validate_only` just says whether it could.
    ///
    /// # Errors
    /// If there is no such topic, it has as many already, or the assignment is wrong.
    pub fn create_partitions(
        &mut self,
        name: &str,
        new: NewPartitions,
        validate_only: bool,
    ) -> Result<Arc<Topic>, ControllerError> {
        let topic = self.topics.by_name(name);
        let topic = topic.ok_or_else(|| ControllerError::UnknownTopic { name: name.to_owned() })?.clone();
        let current = topic.partitions.len();
        let count = usize::try_from(new.count).unwrap_or(0);
        if count < current {
            return Err(ControllerError::FewerPartitions { current, requested: new.count });
        }
        let added = count - current;
        if added == 0 {
            return Err(ControllerError::SamePartitions { current });
        }
        let factor = topic.partitions.first().map_or(1, |partition| partition.replicas.len());
        let replicas = match new.assignments {
            Some(given) if given.len() != added => {
                return Err(ControllerError::AssignmentCount { added, given: given.len() });
            }
            _ if added as u64 > MAX_PARTITIONS_A_REQUEST => {
                return Err(ControllerError::TooManyPartitions {
                    requested: added as u64,
                    max: MAX_PARTITIONS_A_REQUEST,
                });
            }
            Some(given) => {
                given.iter().try_for_each(|replicas| self.check_replicas(replicas, Some(factor)))?;
                given
            }
            None => placement::place(self.brokers.all(), added, factor as i16, &mut self.placement_entropy)?,
        };
        let mut grown = Topic::clone(&topic);
        grown.partitions.extend(self.new_partitions(&replicas)?);
        if validate_only {
            return Ok(Arc::new(grown));
        }
        let topic = self.topics.replace(grown);
        self.record_partitions(&topic, current);
        Ok(topic)
    }

    fn check_new_name(&self, name: &str) -> Result<(), ControllerError> {
        if name == names::CLUSTER_METADATA {
            return Err(ControllerError::ReservedName { name: name.to_owned() });
        }
        names::check(name)?;
        if self.topics.by_name(name).is_some() {
            return Err(ControllerError::TopicExists { name: name.to_owned() });
        }
        let existing = names::collision_key(name).and_then(|key| self.topics.collisions.get(&key));
        match existing.and_then(|names| names.first()) {
            Some(existing) => {
                Err(ControllerError::NameCollision { name: name.to_owned(), existing: existing.to_string() })
            }
            None => Ok(()),
        }
    }

    fn place_automatically(&mut self, new: &NewTopic) -> Result<Vec<Vec<NodeId>>, ControllerError> {
        let factor = match new.replication_factor {
            -1 => self.settings().topics.default_replication_factor,
            factor if factor <= 0 => return Err(ControllerError::InvalidReplicationFactor(factor)),
            factor => factor,
        };
        let count = match new.partitions {
            -1 => self.settings().topics.num_partitions,
            count if count <= 0 => return Err(ControllerError::InvalidPartitionCount(count)),
            count => count,
        };
        if count as u64 > MAX_PARTITIONS_A_REQUEST {
            return Err(ControllerError::TooManyPartitions {
                requested: count as u64,
                max: MAX_PARTITIONS_A_REQUEST,
            });
        }
        placement::place(self.brokers.all(), count as usize, factor, &mut self.placement_entropy)
    }

    fn check_assignments(&self, new: &NewTopic) -> Result<Vec<Vec<NodeId>>, ControllerError> {
        if new.replication_factor != -1 {
            return Err(ControllerError::AssignmentAndCount { what: "replication factor" });
        }
        if new.partitions != -1 {
            return Err(ControllerError::AssignmentAndCount { what: "number of partitions" });
        }
        let mut by_index: BTreeMap<i32, &Vec<NodeId>> = BTreeMap::new();
        for (index, replicas) in &new.assignments {
            if by_index.insert(*index, replicas).is_some() {
                return Err(invalid_assignment(format!("partition {index} is named twice.")));
            }
        }
        let factor = by_index.values().next().map(|replicas| replicas.len());
        let mut assignment = Vec::with_capacity(by_index.len());
        for (expected, (index, replicas)) in by_index.into_iter().enumerate() {
            if i32::try_from(expected) != Ok(index) {
                return Err(invalid_assignment(
                    "partitions must be numbered from 0 without a gap.".to_owned(),
                ));
            }
            self.check_replicas(replicas, factor)?;
            assignment.push(replicas.clone());
        }
        Ok(assignment)
    }

    pub(super) fn check_replicas(
        &self,
        replicas: &[NodeId],
        factor: Option<usize>,
    ) -> Result<(), ControllerError> {
        if replicas.is_empty() {
            return Err(invalid_assignment("a partition has no replicas.".to_owned()));
        }
        for (at, replica) in replicas.iter().enumerate() {
            if self.brokers.of(*replica).is_none() {
                return Err(invalid_assignment(format!("broker {} is not registered.", replica.0)));
            }
            if replicas[..at].contains(replica) {
                return Err(invalid_assignment(format!(
                    "broker {} is named twice for a partition.",
                    replica.0
                )));
            }
        }
        if factor.is_some_and(|factor| factor != replicas.len()) {
            return Err(invalid_assignment(
                "all partitions must have the same number of replicas.".to_owned(),
            ));
        }
        Ok(())
    }

    fn new_partitions(&self, replicas: &[Vec<NodeId>]) -> Result<Vec<Partition>, ControllerError> {
        let partition = |replicas: &Vec<NodeId>| {
            Partition::new(replicas, self.brokers.all())
                .ok_or_else(|| invalid_assignment("all of a partition's brokers are fenced.".to_owned()))
        };
        replicas.iter().map(partition).collect()
    }

    fn draw_topic_id(&mut self) -> TopicId {
        loop {
            let id = TopicId::from(self.topic_id_entropy.next_uuid());
            if self.topics.by_id(id).is_none() {
                return id;
            }
        }
    }

    fn record_partitions(&mut self, topic: &Arc<Topic>, from: usize) {
        for index in from..topic.partitions.len() {
            self.decide(Change::Partition { topic: topic.clone(), index: index as i32 });
        }
    }
}

fn invalid_assignment(reason: String) -> ControllerError {
    ControllerError::InvalidAssignment { reason }
}
