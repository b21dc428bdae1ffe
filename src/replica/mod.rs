//! The replicas that one broker holds: their logs, what this broker is to them, and how far consumers may read.
//!
//! A [`Replica`] knows offsets, epochs and in-sync replicas. It must not know of requests, sessions or waits: what
//! its changes mean for those who wait is for the caller to say, who gets told what has moved ([`Moved`]).

mod compaction;
mod retention;
mod schedule;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::base::{ErrorCode, Instant, NodeId, Now, PartitionKey, TopicId};
use crate::controller::configs::{BrokerSettings, CleanupPolicy, CompressionType, TopicConfig};
use crate::controller::names::CONSUMER_OFFSETS;
use crate::controller::{Partition, Topic};
use crate::log::{AppendError, AppendOrigin, Appended, ChunkPool, FetchSlices, LeaderAppend, Log, LogConfig};
use crate::log::{OffsetOutOfRange, OffsetPosition, ReadLimits};
use crate::wire::check::{TimestampType, TopicRules};

use compaction::CompactionSchedule;
use retention::RetentionSchedule;

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

/// What an append or an acknowledgement has moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// The high watermark rose.
    pub high_watermark: bool,
}

/// One partition's copy on this broker.
#[derive(Clone, Debug)]
pub struct Replica {
    key: PartitionKey,
    topic: Arc<str>,
    config: Arc<TopicConfig>,
    log: Log,
    high_watermark: i64,
    role: Role,
    leader_epoch: i32,
    partition_epoch: i32,
    in_sync: Arc<[NodeId]>,
    replicas: usize,
    /// A user keeps the high watermark where it is.
    pinned: bool,
}

impl Replica {
    fn new(topic: &Topic, index: i32, settings: LogSettings) -> Self {
        Replica {
            key: PartitionKey { topic: topic.id, index },
            topic: topic.name.clone(),
            log: Log::new(log_config(&topic.name, &topic.config, settings)),
            config: topic.config.clone(),
            high_watermark: 0,
            role: Role::Follower { leader: None },
            leader_epoch: -1,
            partition_epoch: -1,
            in_sync: Arc::new([]),
            replicas: 0,
            pinned: false,
        }
    }

    /// The partition.
    pub fn key(&self) -> PartitionKey {
        self.key
    }

    /// The topic's name.
    pub fn topic(&self) -> &Arc<str> {
        &self.topic
    }

    /// The topic's configs.
    pub fn config(&self) -> &Arc<TopicConfig> {
        &self.config
    }

    /// The log, to be read.
    pub fn log(&self) -> &Log {
        &self.log
    }

    /// What this broker is to the partition.
    pub fn role(&self) -> &Role {
        &self.role
    }

    /// The leader's epoch.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// Below this offset every in-sync replica has the records.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// Below this offset there is no open transaction (LSO).
    pub fn last_stable_offset(&self) -> i64 {
        match self.log.first_open_transaction_offset() {
            Some(first) => first.min(self.high_watermark),
            None => self.high_watermark,
        }
    }

    /// The offset that a reader stops before.
    pub fn end_for(&self, isolation: Isolation) -> i64 {
        match isolation {
            Isolation::LogEnd => self.log.log_end_offset(),
            Isolation::HighWatermark => self.high_watermark,
            Isolation::LastStableOffset => self.last_stable_offset(),
        }
    }

    /// The least log start offset of all replicas: what DeleteRecords waits for.
    pub fn low_watermark(&self) -> i64 {
        self.log.log_start_offset()
    }

    /// Checks the leader epoch that a client believes in (KIP-320), −1 for none, before leadership itself.
    ///
    /// # Errors
    /// FENCED_LEADER_EPOCH if the client's is older, UNKNOWN_LEADER_EPOCH if it is newer,
    /// NOT_LEADER_OR_FOLLOWER if this broker doesn't lead.
    pub fn check_leader(&self, current_leader_epoch: i32) -> Result<(), ErrorCode> {
        if current_leader_epoch != -1 && current_leader_epoch < self.leader_epoch {
            return Err(ErrorCode::FencedLeaderEpoch);
        }
        if current_leader_epoch > self.leader_epoch {
            return Err(ErrorCode::UnknownLeaderEpoch);
        }
        if self.role != Role::Leader {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        Ok(())
    }

    /// `min.insync.replicas`, which can't ask for more replicas than there are.
    pub fn effective_min_insync_replicas(&self) -> usize {
        (self.config.min_insync_replicas as usize).min(self.replicas.max(1))
    }

    /// Whether so many replicas are in sync that acks=all can be given.
    pub fn has_enough_in_sync(&self) -> bool {
        self.in_sync.len() >= self.effective_min_insync_replicas()
    }

    /// What the topic asks of produced batches.
    pub fn batch_rules(&self) -> TopicRules {
        TopicRules {
            timestamp_type: self.config.message_timestamp_type,
            max_message_bytes: self.config.max_message_bytes as usize,
            before_max_ms: self.config.message_timestamp_before_max_ms,
            after_max_ms: self.config.message_timestamp_after_max_ms,
            compacted: self.config.cleanup_policy.compact,
            compression: match self.config.compression_type {
                CompressionType::Producer => None,
                CompressionType::Fixed(codec) => Some(codec),
            },
        }
    }

    /// Appends a batch that a client produced and that has passed its checks.
    ///
    /// # Errors
    /// As the log has them; nothing has changed then.
    pub fn append(
        &mut self,
        pool: &mut ChunkPool,
        batch: &[u8],
        now: Now,
    ) -> Result<(Appended, Moved), AppendError> {
        let append_time_ms = match self.config.message_timestamp_type {
            TimestampType::LogAppendTime => Some(now.wall.as_millis()),
            TimestampType::CreateTime => None,
        };
        let append = LeaderAppend {
            now,
            leader_epoch: self.leader_epoch,
            append_time_ms,
            origin: AppendOrigin::Client,
        };
        let appended = self.log.append(pool, batch, &append)?;
        Ok((appended, self.advance_high_watermark()))
    }

    /// Raises the high watermark to what all in-sync replicas have, unless too few are in sync or it is pinned. It never
    /// falls.
    fn advance_high_watermark(&mut self) -> Moved {
        // One broker holds each partition for now, so that its own log end is all that counts.
        let replicated = self.log.log_end_offset();
        let rises = !self.pinned && self.has_enough_in_sync() && replicated > self.high_watermark;
        if rises {
            self.high_watermark = replicated;
        }
        Moved { high_watermark: rises }
    }

    /// Reads for a fetch.
    ///
    /// # Errors
    /// If there is no such offset.
    pub fn read(
        &self,
        offset: i64,
        isolation: Isolation,
        max_bytes: usize,
        min_one_batch: bool,
    ) -> Result<FetchSlices, OffsetOutOfRange> {
        let limits = ReadLimits { upper_bound: self.end_for(isolation), max_bytes, min_one_batch };
        self.log.read(offset, &limits)
    }

    /// Where an offset lies; none if there is no such offset.
    pub fn position(&self, offset: i64) -> Option<OffsetPosition> {
        self.log.position(offset).ok()
    }

    fn apply(&mut self, partition: &Partition, this: NodeId) -> Moved {
        if partition.partition_epoch <= self.partition_epoch {
            return Moved::default();
        }
        self.partition_epoch = partition.partition_epoch;
        self.in_sync = partition.isr.clone();
        self.replicas = partition.replicas.len();
        let leads = partition.leader == Some(this);
        self.role = if leads { Role::Leader } else { Role::Follower { leader: partition.leader } };
        if partition.leader_epoch > self.leader_epoch {
            self.leader_epoch = partition.leader_epoch;
            if leads {
                self.log.assign_leader_epoch(self.leader_epoch);
            }
        }
        if leads { self.advance_high_watermark() } else { Moved::default() }
    }
}

/// The broker's settings that all its logs share.
#[derive(Clone, Copy, Debug)]
pub struct LogSettings {
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
    /// `producer.id.expiration.check.interval.ms`.
    pub producer_id_expiration_check_interval_ms: i64,
    /// `log.retention.check.interval.ms`.
    pub retention_check_interval_ms: i64,
    /// `log.initial.task.delay.ms`: when the first look at retention comes, after the start.
    pub initial_task_delay_ms: i64,
    /// `log.cleaner.backoff.ms`: how often it is looked whether a log is to be compacted.
    pub cleaner_backoff_ms: u64,
    /// `log.cleaner.enable`.
    pub cleaner_enable: bool,
}

impl LogSettings {
    /// What these settings say of logs.
    pub fn new(settings: &BrokerSettings) -> Self {
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

fn log_config(topic: &str, config: &TopicConfig, settings: LogSettings) -> LogConfig {
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

/// How many logs have their retention applied in one go (ours): some milliseconds if all lose a segment.
const CHECKED_AT_ONCE: usize = 256;

/// All replicas of one broker.
#[derive(Clone, Debug)]
pub struct Replicas {
    by_key: FxHashMap<PartitionKey, Replica>,
    /// Partitions whose high watermark stays where it is.
    pinned: BTreeSet<PartitionKey>,
    settings: LogSettings,
    retention: RetentionSchedule,
    compaction: CompactionSchedule,
    /// Partitions whose logs remember producers, and when they are looked at next, if there are any.
    with_producers: BTreeSet<PartitionKey>,
    producer_check: Option<Instant>,
}

impl Replicas {
    /// None yet. `started` is when the broker starts.
    pub fn new(settings: LogSettings, started: Now) -> Self {
        Replicas {
            by_key: FxHashMap::default(),
            pinned: BTreeSet::new(),
            settings,
            retention: RetentionSchedule::new(settings, started.instant),
            compaction: CompactionSchedule::new(settings, started.instant),
            with_producers: BTreeSet::new(),
            producer_check: None,
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
        self.by_key.get(&key)
    }

    /// Takes on what the controller says of a partition. Nothing happens unless this broker is to hold it.
    pub fn apply(&mut self, this: NodeId, topic: &Topic, index: i32) -> Moved {
        let Some(partition) = topic.partition(index) else { return Moved::default() };
        let key = PartitionKey { topic: topic.id, index };
        if !partition.replicas.contains(&this) {
            return Moved::default();
        }
        let settings = self.settings;
        let replica = self.by_key.entry(key).or_insert_with(|| Replica::new(topic, index, settings));
        replica.pinned = self.pinned.contains(&key);
        replica.apply(partition, this)
    }

    /// Keeps a partition's high watermark where it is until it is let go again, whether this broker holds the partition
    /// now or only later.
    pub fn pin_high_watermark(&mut self, key: PartitionKey, pinned: bool) -> Moved {
        if pinned {
            self.pinned.insert(key);
        } else {
            self.pinned.remove(&key);
        }
        let Some(replica) = self.by_key.get_mut(&key) else { return Moved::default() };
        replica.pinned = pinned;
        if replica.role == Role::Leader { replica.advance_high_watermark() } else { Moved::default() }
    }

    /// Takes on a topic's configs.
    pub fn apply_config(&mut self, topic: &Topic, now: Now) {
        for index in 0..topic.partitions.len() as i32 {
            let key = PartitionKey { topic: topic.id, index };
            let Some(replica) = self.by_key.get_mut(&key) else { continue };
            replica.config = topic.config.clone();
            replica.log.set_config(log_config(&topic.name, &topic.config, self.settings));
            self.retention.look_again(replica, now);
            self.compaction.look_again(replica, now);
        }
    }

    /// Takes on the broker's settings. (When the rounds over retention come is not among those that can change.)
    pub fn apply_settings(&mut self, settings: LogSettings, now: Now) {
        self.settings = settings;
        self.by_key.values_mut().for_each(|replica| {
            replica.log.set_config(log_config(&replica.topic, &replica.config, settings));
        });
        self.compaction.set_settings(settings);
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
        self.pinned.remove(&key);
        replica.log.truncate_fully_and_start_at(0, pool);
        true
    }

    /// Appends to a partition that this broker leads; see [`Replica::append`].
    ///
    /// # Errors
    /// As [`Replica::append`]; none if there is no such replica.
    pub fn append(
        &mut self,
        key: PartitionKey,
        pool: &mut ChunkPool,
        batch: &[u8],
        now: Now,
    ) -> Option<Result<(Appended, Moved), AppendError>> {
        let replica = self.by_key.get_mut(&key)?;
        let appended = match replica.append(pool, batch, now) {
            Err(AppendError::Budget(_)) => {
                // Memory that retention or compaction is about to give back anyway is given back now.
                self.expire_early(now, pool);
                self.by_key.get_mut(&key)?.append(pool, batch, now)
            }
            appended => appended,
        };
        if appended.is_ok() {
            let replica = self.by_key.get_mut(&key)?;
            self.retention.after_append(replica, now, pool);
            self.compaction.after_append(replica, now);
            if !replica.log.producers().is_empty() && self.with_producers.insert(key) {
                self.schedule_producer_check(now);
            }
        }
        Some(appended)
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
        [self.retention.next_timeout(), self.compaction.next_timeout(), self.producer_check]
            .into_iter()
            .flatten()
            .min()
    }

    /// Applies retention and compaction where they are due, and forgets idle producers. Returns the partitions whose log
    /// start moved. It does so much at once as others can wait for; [`Replicas::next_timeout`] says when to go on.
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
        moved
    }

    /// Forgets producers that have been idle for `producer.id.expiration.ms`. (Kafka's round of
    /// `ProducerStateManager.removeExpiredProducers`, over those logs alone that have producers.)
    fn expire_producers(&mut self, now: Now) {
        let by_key = &mut self.by_key;
        self.with_producers.retain(|key| {
            let Some(replica) = by_key.get_mut(key) else { return false };
            replica.log.expire_producers(now.wall);
            !replica.log.producers().is_empty()
        });
        self.schedule_producer_check(now);
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
            if let Some(replica) = self.by_key.get_mut(&key) {
                self.retention.apply(replica, now, pool);
            }
        }
        self.compaction.hurry(&mut self.by_key, now, pool);
    }

    /// The partitions of a topic that this broker holds.
    pub fn of_topic(&self, topic: TopicId, partitions: usize) -> impl Iterator<Item = &Replica> {
        (0..partitions as i32).filter_map(move |index| self.by_key.get(&PartitionKey { topic, index }))
    }
}
