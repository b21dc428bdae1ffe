//! The replicas that one broker holds: their logs, what this broker is to them, and how far consumers may read.
//!
//! A [`Replica`] knows offsets, epochs and in-sync replicas. It must not know of requests, sessions or waits: what
//! its changes mean for those who wait is for the caller to say, who gets told what has moved ([`Moved`]).

mod brokers;
mod compaction;
mod follower;
mod leader;
mod partition;
mod retention;
mod schedule;
mod settings;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::base::{ErrorCode, Instant, NodeId, Now, PartitionKey, TopicId};
use crate::controller::configs::{BrokerSettings, ReplicationSettings, TopicConfig, TopicDefaults};
use crate::controller::{AlterPartition, BrokerRegistration, Topic};
use crate::log::{AppendError, AppendOrigin, Appended, ChunkPool, VerificationGuard, Verifying};

use brokers::Brokers;
use compaction::CompactionSchedule;
use retention::RetentionSchedule;
use settings::{LogSettings, log_config};

pub use follower::{FollowerFetch, FollowerFetched, FollowerRecords};
pub use leader::last_round;
pub use partition::Replica;

/// How far a reader may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// A follower: all there is.
    LogEnd,
    /// A consumer that reads what isn't committed: what is replicated.
    HighWatermark,
    /// A consumer that reads committed transactions alone.
    LastStableOffset,
}

/// What this broker is to a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// Clients write here.
    Leader,
    /// Another broker leads.
    Follower {
        /// Which, if any.
        leader: Option<NodeId>,
    },
}

/// What has moved in a partition, for those who wait for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// The high watermark. On a follower it may have fallen.
    pub high_watermark: bool,
    /// The log's end.
    pub log_end: bool,
    /// The least log start offset of the replicas.
    pub low_watermark: bool,
    /// This broker led the partition and doesn't any more; what waits for it must look again.
    pub leadership_ended: bool,
}

impl std::ops::BitOrAssign for Moved {
    fn bitor_assign(&mut self, other: Moved) {
        self.high_watermark |= other.high_watermark;
        self.log_end |= other.log_end;
        self.low_watermark |= other.low_watermark;
        self.leadership_ended |= other.leadership_ended;
    }
}

/// What a broker has to say to others.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// To a leader.
    Fetch {
        /// Which.
        to: NodeId,
        /// What is asked for.
        fetch: FollowerFetch,
    },
    /// To the controller.
    AlterPartition(AlterPartition),
}

/// What a broker finds of its logs as it starts again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// All that was appended.
    Everything,
    /// What lies below the high watermark that it knew.
    Replicated,
}

/// How many logs have their retention applied in one go (ours): some milliseconds if all lose a segment.
const CHECKED_AT_ONCE: usize = 256;

/// All replicas of one broker.
#[derive(Clone, Debug)]
pub struct Replicas {
    /// Boxed: many are made at a time, and the map moves what it holds as it grows.
    by_key: FxHashMap<PartitionKey, Box<Replica>>,
    /// Partitions whose high watermark stays where it is.
    pinned: BTreeSet<PartitionKey>,
    settings: LogSettings,
    topic_defaults: TopicDefaults,
    retention: RetentionSchedule,
    compaction: CompactionSchedule,
    /// Partitions whose logs remember producers, and when they are looked at next, if there are any.
    with_producers: BTreeSet<PartitionKey>,
    producer_check: Option<Instant>,
    /// The last of them that was looked at, in the middle of a round.
    producers_checked_to: Option<PartitionKey>,
    brokers: Brokers,
    replication: ReplicationSettings,
    /// Partitions that this broker leads and others follow.
    led_with_followers: BTreeSet<PartitionKey>,
    /// Partitions that this broker follows.
    followed: BTreeSet<PartitionKey>,
    /// When to look next for followers that lag and for fetches that nobody answers, if there are any of the above.
    replication_check: Option<Instant>,
    /// What to try again, and when: fetches and proposals.
    retries: BTreeSet<(Instant, PartitionKey)>,
    next_fetch: u64,
    outgoing: Vec<Outgoing>,
    /// Partitions whose log start has moved to make room for others.
    trimmed: Vec<PartitionKey>,
}

impl Replicas {
    /// None yet, on the broker `this`. `started` is when it starts.
    pub fn new(this: NodeId, settings: &BrokerSettings, started: Now) -> Self {
        let logs = LogSettings::new(settings);
        let replication = settings.replication.clone();
        Replicas {
            by_key: FxHashMap::default(),
            pinned: BTreeSet::new(),
            settings: logs,
            topic_defaults: settings.topic_defaults.clone(),
            retention: RetentionSchedule::new(logs, started.instant),
            compaction: CompactionSchedule::new(logs, started.instant),
            with_producers: BTreeSet::new(),
            producer_check: None,
            producers_checked_to: None,
            brokers: Brokers::new(this, Duration::from_millis(replication.replica_lag_time_max_ms)),
            replication,
            led_with_followers: BTreeSet::new(),
            followed: BTreeSet::new(),
            replication_check: None,
            retries: BTreeSet::new(),
            next_fetch: 0,
            outgoing: Vec::new(),
            trimmed: Vec::new(),
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// The replica of a partition.
    pub fn replica(&self, key: PartitionKey) -> Option<&Replica> {
        self.by_key.get(&key).map(Box::as_ref)
    }

    /// The partitions, in order.
    pub fn keys(&self) -> Vec<PartitionKey> {
        let mut keys: Vec<PartitionKey> = self.by_key.keys().copied().collect();
        keys.sort_unstable();
        keys
    }

    /// Takes on what the controller says of a partition. Nothing happens unless this broker is to hold it.
    pub fn apply(&mut self, topic: &Topic, index: i32, now: Now, pool: &mut ChunkPool) -> Moved {
        let Some(partition) = topic.partition(index) else { return Moved::default() };
        let key = PartitionKey { topic: topic.id, index };
        if !partition.replicas.contains(&self.brokers.this) {
            return Moved::default();
        }
        let (settings, defaults) = (self.settings, &self.topic_defaults);
        let new = || Box::new(Replica::new(topic, index, config_of(topic, defaults), settings));
        let replica = self.by_key.entry(key).or_insert_with(new);
        replica.pinned = self.pinned.contains(&key);
        let moved = replica.apply(partition, &self.brokers, now.instant, pool);
        if moved.log_end {
            self.retention.look_again(replica, now);
            self.compaction.look_again(replica, now);
        }
        note(&mut self.led_with_followers, key, replica.followers.is_some());
        if moved.high_watermark && !moved.log_end {
            self.retention.after_commit(replica, now);
            self.compaction.after_commit(replica, now);
        }
        note(&mut self.followed, key, replica.fetcher.is_some());
        self.schedule_replication_check(now.instant);
        self.send_fetch(key, now.instant);
        moved
    }

    /// Takes on who is registered. Returns the partitions whose low watermark may have moved by it.
    pub fn apply_brokers(&mut self, brokers: &Arc<[BrokerRegistration]>) -> Vec<PartitionKey> {
        self.brokers.set(brokers.clone());
        let mut changed = Vec::new();
        for key in &self.led_with_followers {
            let followers = self.by_key.get_mut(key).and_then(|replica| replica.followers.as_mut());
            if followers.is_some_and(|followers| followers.note_brokers(&self.brokers)) {
                changed.push(*key);
            }
        }
        changed
    }

    /// What the process finds that starts again: its logs, as far as they were kept, and nothing else. It is no leader
    /// nor follower before it hears of the controller.
    pub fn after_restart(&mut self, settings: &BrokerSettings, kept: Kept, now: Now, pool: &mut ChunkPool) {
        let mut old = std::mem::replace(self, Replicas::new(self.brokers.this, settings, now));
        self.next_fetch = old.next_fetch;
        self.pinned = std::mem::take(&mut old.pinned);
        for key in old.keys() {
            let Some(mut replica) = old.by_key.remove(&key) else { continue };
            replica.forget_role();
            if kept == Kept::Replicated {
                replica.truncate_to(replica.high_watermark, pool);
            }
            self.retention.look_again(&replica, now);
            self.compaction.look_again(&replica, now);
            if !replica.log.producers().is_empty() {
                self.with_producers.insert(key);
            }
            self.by_key.insert(key, replica);
        }
        if !self.with_producers.is_empty() {
            self.schedule_producer_check(now);
        }
    }

    /// What this broker has to say since the last call, in this order.
    pub fn take_outgoing(&mut self) -> Vec<Outgoing> {
        std::mem::take(&mut self.outgoing)
    }

    /// Partitions whose log start has moved since the last call, since others needed the room.
    pub fn take_trimmed(&mut self) -> Vec<PartitionKey> {
        std::mem::take(&mut self.trimmed)
    }

    /// Takes on a topic's configs.
    pub fn apply_config(&mut self, topic: &Topic, now: Now) {
        let config = config_of(topic, &self.topic_defaults);
        for index in 0..topic.partitions.len() as i32 {
            let key = PartitionKey { topic: topic.id, index };
            let Some(replica) = self.by_key.get_mut(&key) else { continue };
            (replica.config, replica.overrides) = (config.clone(), topic.overrides.clone());
            replica.log.set_config(log_config(&topic.name, &config, self.settings));
            self.retention.look_again(replica, now);
            self.compaction.look_again(replica, now);
        }
    }

    /// Takes on the broker's settings. (When the rounds over retention come is not among those that can change.)
    pub fn apply_settings(&mut self, settings: &BrokerSettings, now: Now) {
        self.replication = settings.replication.clone();
        let defaults = settings.topic_defaults.clone();
        let settings = LogSettings::new(settings);
        self.settings = settings;
        self.compaction.set_settings(settings);
        let has_new_defaults = std::mem::replace(&mut self.topic_defaults, defaults) != self.topic_defaults;
        let defaults = &self.topic_defaults.config;
        for key in self.keys() {
            let Some(replica) = self.by_key.get_mut(&key) else { continue };
            if has_new_defaults {
                replica.config = TopicConfig::with_overrides(defaults, &replica.overrides);
            }
            replica.log.set_config(log_config(&replica.topic, &replica.config, settings));
            if has_new_defaults {
                self.retention.look_again(replica, now);
                self.compaction.look_again(replica, now);
            }
        }
        if !self.with_producers.is_empty() {
            self.schedule_producer_check(now);
        }
    }

    /// Drops a partition that is gone, and gives back its memory. Returns whether there was one.
    pub fn remove(&mut self, key: PartitionKey, pool: &mut ChunkPool) -> bool {
        let Some(mut replica) = self.by_key.remove(&key) else { return false };
        self.retention.forget(key);
        self.compaction.forget(key);
        self.with_producers.remove(&key);
        self.led_with_followers.remove(&key);
        self.followed.remove(&key);
        replica.log.truncate_fully_and_start_at(0, pool);
        true
    }

    /// Appends to a partition that this broker leads; see `Replica::append`.
    ///
    /// # Errors
    /// As `Replica::append`; none if there is no such replica.
    pub fn append(
        &mut self,
        key: PartitionKey,
        pool: &mut ChunkPool,
        batch: &[u8],
        origin: AppendOrigin,
        now: Now,
    ) -> Option<Result<(Appended, Moved), AppendError>> {
        let replica = self.by_key.get_mut(&key)?;
        let appended = match replica.append(pool, batch, origin, now) {
            Err(AppendError::Budget(_)) => {
                // Memory that retention or compaction is about to give back anyway is given back now.
                self.expire_early(now, pool);
                self.by_key.get_mut(&key)?.append(pool, batch, origin, now)
            }
            appended => appended,
        };
        if appended.is_ok() {
            self.note_growth(key, now, pool);
        }
        Some(appended)
    }

    /// The guard for a producer's transaction that is to begin here, once its coordinator was asked; none if there is no
    /// need to, or no such replica.
    pub fn begin_verification(
        &mut self,
        key: PartitionKey,
        verifying: Verifying,
    ) -> Option<VerificationGuard> {
        self.by_key.get_mut(&key)?.begin_verification(verifying)
    }

    /// Something was appended.
    fn note_growth(&mut self, key: PartitionKey, now: Now, pool: &mut ChunkPool) {
        let Some(replica) = self.by_key.get_mut(&key) else { return };
        self.retention.after_append(replica, now, pool);
        self.compaction.after_append(replica, now);
        if !replica.log.producers().is_empty() && self.with_producers.insert(key) {
            self.schedule_producer_check(now);
        }
    }

    /// The high watermark of a partition has moved.
    fn note_commit(&mut self, key: PartitionKey, now: Now) {
        let Some(replica) = self.by_key.get(&key) else { return };
        self.retention.after_commit(replica, now);
        self.compaction.after_commit(replica, now);
    }

    /// Deletes the records below `offset`. Returns the log start offset that this leaves.
    ///
    /// # Errors
    /// If the offset is above the high watermark; none if there is no such replica.
    pub fn delete_records(
        &mut self,
        key: PartitionKey,
        offset: i64,
        now: Now,
        pool: &mut ChunkPool,
    ) -> Option<Result<i64, ErrorCode>> {
        let replica = self.by_key.get_mut(&key)?;
        if offset > replica.high_watermark {
            return Some(Err(ErrorCode::OffsetOutOfRange));
        }
        let advanced = replica.log.advance_log_start(offset, pool);
        self.retention.look_again(replica, now);
        Some(advanced.map(|_| replica.log.log_start_offset()).map_err(|error| error.code()))
    }

    /// When [`Replicas::handle_timeout`] must be called next.
    pub fn next_timeout(&self) -> Option<Instant> {
        let retry = self.retries.first().map(|(due, _)| *due);
        let logs = [self.retention.next_timeout(), self.compaction.next_timeout(), self.producer_check];
        logs.into_iter().chain([self.replication_check, retry]).flatten().min()
    }

    /// Applies retention and compaction where they are due, forgets idle producers, looks for replicas that lag, and tries
    /// again what has failed. Returns the partitions whose log start moved. It does so much at once as others can wait
    /// for; [`Replicas::next_timeout`] says when to go on.
    pub fn handle_timeout(&mut self, now: Now, pool: &mut ChunkPool) -> Vec<PartitionKey> {
        if self.producer_check.take_if(|due| *due <= now.instant).is_some() {
            self.expire_producers(now);
        }
        let mut moved = Vec::new();
        for _ in 0..CHECKED_AT_ONCE {
            let Some(key) = self.retention.pop_due(now.instant) else { break };
            let Some(replica) = self.by_key.get_mut(&key) else { continue };
            if self.retention.apply(replica, now, pool) {
                moved.push(key);
            }
        }
        self.compaction.step(&mut self.by_key, now, pool);
        self.handle_replication_timeout(now.instant);
        moved
    }

    fn handle_replication_timeout(&mut self, now: Instant) {
        while let Some(&(_, key)) = self.retries.first().filter(|(due, _)| *due <= now) {
            self.retries.pop_first();
            self.fetch_again(key, now);
            self.propose_again(key, now);
        }
        if self.replication_check.take_if(|due| *due <= now).is_some() {
            self.check_in_sync(now);
            self.check_fetches(now);
            self.schedule_replication_check(now);
        }
    }

    /// Kafka looks for replicas that lag twice in the time that they may.
    fn schedule_replication_check(&mut self, now: Instant) {
        if self.led_with_followers.is_empty() && self.followed.is_empty() {
            self.replication_check = None;
        } else if self.replication_check.is_none() {
            let half = self.brokers.lag_time_max / 2;
            self.replication_check = Some(now + half.max(Duration::from_millis(1)));
        }
    }

    /// Forgets producers that have been idle for `producer.id.expiration.ms`. (Kafka's round of
    /// `ProducerStateManager.removeExpiredProducers`, over those logs alone that have producers.) A part of them in one go.
    fn expire_producers(&mut self, now: Now) {
        let from = self.producers_checked_to.map_or(Bound::Unbounded, Bound::Excluded);
        let part = self.with_producers.range((from, Bound::Unbounded)).take(CHECKED_AT_ONCE);
        let part: Vec<PartitionKey> = part.copied().collect();
        for key in &part {
            let replica = self.by_key.get_mut(key);
            let remembers = replica.is_some_and(|replica| {
                replica.log.expire_producers(now.wall);
                !replica.log.producers().is_empty()
            });
            if !remembers {
                self.with_producers.remove(key);
            }
        }
        self.producers_checked_to = part.last().copied().filter(|_| part.len() == CHECKED_AT_ONCE);
        if self.producers_checked_to.is_some() {
            self.producer_check = Some(now.instant);
        } else {
            self.schedule_producer_check(now);
        }
    }

    fn schedule_producer_check(&mut self, now: Now) {
        let interval = u64::try_from(self.settings.producer_id_expiration_check_interval_ms).unwrap_or(0);
        let next = now.instant + Duration::from_millis(interval.max(1));
        self.producer_check = match self.producer_check {
            _ if self.with_producers.is_empty() => None,
            Some(earlier) => Some(earlier.min(next)),
            None => Some(next),
        };
    }

    /// Gives back memory that retention or compaction would give back at their next round.
    fn expire_early(&mut self, now: Now, pool: &mut ChunkPool) {
        for _ in 0..CHECKED_AT_ONCE {
            let Some(key) = self.retention.pop_early(now.instant) else { break };
            if let Some(replica) = self.by_key.get_mut(&key)
                && self.retention.apply(replica, now, pool)
            {
                self.trimmed.push(key);
            }
        }
        self.compaction.hurry(&mut self.by_key, now, pool);
    }

    /// The partitions of a topic that this broker holds.
    pub fn of_topic(&self, topic: TopicId, partitions: usize) -> impl Iterator<Item = &Replica> {
        (0..partitions as i32).filter_map(move |index| self.replica(PartitionKey { topic, index }))
    }
}

/// A topic's configs on a broker with these defaults: what the topic shows where they are those that the brokers share.
fn config_of(topic: &Topic, defaults: &TopicDefaults) -> Arc<TopicConfig> {
    match defaults.are_own {
        true => TopicConfig::with_overrides(&defaults.config, &topic.overrides),
        false => topic.config.clone(),
    }
}

/// Keeps a set in step with what holds for one of its possible members.
fn note(set: &mut BTreeSet<PartitionKey>, key: PartitionKey, holds: bool) {
    if holds {
        set.insert(key);
    } else {
        set.remove(&key);
    }
}

#[cfg(test)]
mod tests;
