//! One partition's copy on this broker: its log, what this broker is to it, and how far consumers may read.

use std::sync::Arc;

use super::brokers::Brokers;
use super::follower::Fetcher;
use super::leader::Followers;
use super::settings::{LogSettings, log_config};
use super::{Isolation, Moved, Role};
use crate::base::planted::{Bug, is_planted};
use crate::base::{ErrorCode, Instant, NodeId, Now, PartitionKey};
use crate::controller::configs::{CompressionType, Overrides, TopicConfig};
use crate::controller::{Partition, Topic};
use crate::log::{AppendError, AppendOrigin, Appended, ChunkPool, EpochEnd, FetchSlices, LeaderAppend, Log};
use crate::log::{OffsetOutOfRange, OffsetPosition, ReadLimits};
use crate::log::{VerificationGuard, Verifying};
use crate::wire::check::{TimestampType, TopicRules};

/// One partition's copy on this broker.
#[derive(Clone, Debug)]
pub struct Replica {
    pub(super) key: PartitionKey,
    pub(super) topic: Arc<str>,
    pub(super) config: Arc<TopicConfig>,
    /// What of these is the topic's own.
    pub(super) overrides: Arc<Overrides>,
    pub(super) log: Log,
    pub(super) high_watermark: i64,
    pub(super) role: Role,
    pub(super) leader_epoch: i32,
    pub(super) partition_epoch: i32,
    /// The in-sync replicas that the controller knows of; empty where this broker doesn't lead, as in Kafka.
    pub(super) in_sync: Arc<[NodeId]>,
    /// How many replicas the partition has.
    pub(super) replicas: usize,
    /// Where the log ended when this leader's epoch began; none where this broker doesn't lead.
    pub(super) epoch_start_offset: Option<i64>,
    /// A user keeps the high watermark where it is.
    pub(super) pinned: bool,
    /// What is known of the other replicas; none where this broker doesn't lead or is the only one.
    pub(super) followers: Option<Box<Followers>>,
    /// What brings the leader's records here; none where there is no other leader.
    pub(super) fetcher: Option<Box<Fetcher>>,
}

impl Replica {
    pub(super) fn new(topic: &Topic, index: i32, config: Arc<TopicConfig>, settings: LogSettings) -> Self {
        Replica {
            key: PartitionKey { topic: topic.id, index },
            topic: topic.name.clone(),
            log: Log::new(log_config(&topic.name, &config, settings)),
            config,
            overrides: topic.overrides.clone(),
            high_watermark: 0,
            role: Role::Follower { leader: None },
            leader_epoch: -1,
            partition_epoch: -1,
            in_sync: Arc::default(),
            replicas: 0,
            epoch_start_offset: None,
            pinned: false,
            followers: None,
            fetcher: None,
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

    /// Whether a user keeps the high watermark where it is.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// The leader's epoch.
    pub fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// Where the log ended when this leader's epoch began; none where this broker doesn't lead.
    pub fn epoch_start_offset(&self) -> Option<i64> {
        self.epoch_start_offset
    }

    /// Below this offset every in-sync replica has the records.
    pub fn high_watermark(&self) -> i64 {
        self.high_watermark
    }

    /// Below this offset there is no open transaction (LSO).
    pub fn last_stable_offset(&self) -> i64 {
        match self.log.first_unstable_offset(self.high_watermark) {
            None if is_planted(Bug::StableOffsetTooHigh) => self.log.log_end_offset(),
            None if is_planted(Bug::StableOffsetFalls) && self.high_watermark % 5 == 4 => {
                self.high_watermark - 4
            }
            Some(first) => first.min(self.high_watermark),
            None => self.high_watermark,
        }
    }

    /// The offset that a reader stops before.
    pub fn end_for(&self, isolation: Isolation) -> i64 {
        match isolation {
            Isolation::LogEnd => self.log.log_end_offset(),
            Isolation::HighWatermark if is_planted(Bug::ReadsTooFar) => self.log.log_end_offset(),
            Isolation::HighWatermark => self.high_watermark,
            Isolation::LastStableOffset if is_planted(Bug::ReadsOpenTransactions) => self.high_watermark,
            Isolation::LastStableOffset => self.last_stable_offset(),
        }
    }

    /// The least log start offset of this and all living replicas: what DeleteRecords waits for. −1 while that of one
    /// isn't known.
    pub fn low_watermark(&self) -> i64 {
        let own = self.log.log_start_offset();
        self.followers.as_ref().map_or(own, |followers| followers.low_watermark(own))
    }

    /// Checks the leader epoch that a client believes in (KIP-320), −1 for none.
    ///
    /// # Errors
    /// FENCED_LEADER_EPOCH if the client's is older, UNKNOWN_LEADER_EPOCH if it is newer.
    pub fn check_epoch(&self, current_leader_epoch: i32) -> Result<(), ErrorCode> {
        if current_leader_epoch != -1 && current_leader_epoch < self.leader_epoch {
            return Err(ErrorCode::FencedLeaderEpoch);
        }
        if current_leader_epoch > self.leader_epoch {
            return Err(ErrorCode::UnknownLeaderEpoch);
        }
        Ok(())
    }

    /// Checks the leader epoch that a client believes in, as [`Replica::check_epoch`], and then leadership itself.
    ///
    /// # Errors
    /// Those of [`Replica::check_epoch`]; NOT_LEADER_OR_FOLLOWER if this broker doesn't lead.
    pub fn check_leader(&self, current_leader_epoch: i32) -> Result<(), ErrorCode> {
        self.check_epoch(current_leader_epoch)?;
        if self.role != Role::Leader {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        Ok(())
    }

    /// Where the log of a fetcher, whose last record has this epoch (−1 for none), and this one part, if they do
    /// (KIP-595).
    ///
    /// # Errors
    /// OFFSET_OUT_OF_RANGE if this log can't tell, or the offset is below its start.
    pub fn divergence(
        &self,
        fetch_offset: i64,
        last_fetched_epoch: i32,
    ) -> Result<Option<EpochEnd>, ErrorCode> {
        if last_fetched_epoch == -1 {
            return Ok(None);
        }
        let end = self.log.end_offset_for_epoch(last_fetched_epoch);
        if end.epoch < 0 || end.end_offset < 0 || fetch_offset < self.log.log_start_offset() {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let parts = end.epoch < last_fetched_epoch || end.end_offset < fetch_offset;
        Ok(parts.then_some(end))
    }

    /// `min.insync.replicas`, which can't ask for more replicas than there are.
    pub fn effective_min_insync_replicas(&self) -> usize {
        (self.config.min_insync_replicas as usize).min(self.replicas.max(1))
    }

    /// Whether so many replicas are in sync, as the controller knows it, that acks=all can be given.
    pub fn has_enough_in_sync(&self) -> bool {
        self.in_sync.len() >= self.effective_min_insync_replicas()
    }

    /// As [`Replica::has_enough_in_sync`], with a replica counted whose return the controller hasn't confirmed yet:
    /// what is asked once records are replicated.
    pub fn has_enough_maximal_in_sync(&self) -> bool {
        let maximal =
            self.followers.as_ref().map_or(self.in_sync.len(), |f| f.maximal_in_sync(&self.in_sync));
        maximal >= self.effective_min_insync_replicas()
    }

    /// `max.message.bytes`.
    pub fn max_message_bytes(&self) -> usize {
        self.config.max_message_bytes as usize
    }

    /// What the topic asks of produced batches.
    pub fn batch_rules(&self) -> TopicRules {
        TopicRules {
            timestamp_type: self.config.message_timestamp_type,
            max_message_bytes: self.max_message_bytes(),
            before_max_ms: self.config.message_timestamp_before_max_ms,
            after_max_ms: self.config.message_timestamp_after_max_ms,
            compacted: self.config.cleanup_policy.compact,
            compression: match self.config.compression_type {
                CompressionType::Producer => None,
                CompressionType::Fixed(codec) => Some(codec),
            },
        }
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

    /// Appends a batch that a client produced and that has passed its checks.
    ///
    /// # Errors
    /// As the log has them; nothing has changed then.
    pub(super) fn append(
        &mut self,
        pool: &mut ChunkPool,
        batch: &[u8],
        origin: AppendOrigin,
        now: Now,
    ) -> Result<(Appended, Moved), AppendError> {
        let append_time_ms = match self.config.message_timestamp_type {
            TimestampType::LogAppendTime => Some(now.wall.as_millis()),
            TimestampType::CreateTime => None,
        };
        let append = LeaderAppend { now, leader_epoch: self.leader_epoch, append_time_ms, origin };
        let appended = self.log.append(pool, batch, &append)?;
        let log_end = !appended.duplicate;
        let high_watermark = self.advance_high_watermark(now.instant);
        Ok((appended, Moved { high_watermark, log_end, ..Moved::default() }))
    }

    /// See [`Log::begin_verification`].
    pub(super) fn begin_verification(&mut self, verifying: Verifying) -> Option<VerificationGuard> {
        self.log.begin_verification(verifying)
    }

    /// Raises the high watermark to what all replicas have that count, unless too few are in sync. It never falls.
    /// Returns whether it rose. (Kafka's `Partition.maybeIncrementLeaderHW`.)
    pub(super) fn advance_high_watermark(&mut self, now: Instant) -> bool {
        let log_end = self.log.log_end_offset();
        let replicated = match &self.followers {
            None => log_end,
            Some(followers) => followers.replicated(log_end, &self.in_sync, now),
        };
        let falls = is_planted(Bug::HighWatermarkFalls) && replicated % 5 == 4;
        let replicated = if falls { (self.high_watermark - 1).max(0) } else { replicated };
        let rises = (replicated > self.high_watermark || falls)
            && self.has_enough_in_sync()
            && !self.pinned
            && self.role == Role::Leader;
        if rises {
            self.high_watermark = replicated;
            self.log.replicated_to(replicated);
        }
        rises
    }

    /// Takes a high watermark that lies within the log. Returns whether it is another one.
    pub(super) fn set_high_watermark(&mut self, high_watermark: i64) -> bool {
        let (start, end) = (self.log.log_start_offset(), self.log.log_end_offset());
        let before = std::mem::replace(&mut self.high_watermark, high_watermark.clamp(start, end));
        self.log.replicated_to(self.high_watermark);
        before != self.high_watermark
    }

    /// Cuts the log off at `offset`, and the high watermark with it.
    pub(super) fn truncate_to(&mut self, offset: i64, pool: &mut ChunkPool) -> Moved {
        if offset < self.high_watermark {
            tracing::warn!(
                topic = &*self.topic,
                partition = self.key.index,
                offset,
                high_watermark = self.high_watermark,
                "cut off below the high watermark"
            );
        }
        let cut = self.log.truncate_to(offset, pool);
        let high_watermark = self.set_high_watermark(self.high_watermark);
        Moved { high_watermark: high_watermark || cut, log_end: cut, ..Moved::default() }
    }

    /// Takes on what the controller says, unless it is old. (Kafka's `Partition.makeLeader` and `makeFollower`.)
    pub(super) fn apply(
        &mut self,
        partition: &Partition,
        brokers: &Brokers,
        now: Instant,
        pool: &mut ChunkPool,
    ) -> Moved {
        if partition.partition_epoch <= self.partition_epoch {
            return Moved::default();
        }
        let new_epoch = partition.leader_epoch > self.leader_epoch;
        let missed_epochs = partition.leader_epoch > self.leader_epoch.saturating_add(1);
        self.partition_epoch = partition.partition_epoch;
        self.leader_epoch = self.leader_epoch.max(partition.leader_epoch);
        self.replicas = partition.replicas.len();
        if partition.leader == Some(brokers.this) {
            if missed_epochs && let Some(followers) = &mut self.followers {
                // Another may have led meanwhile, whom the followers followed: what they had is not what they have. (Kafka
                // keeps what it knows, and may count what isn't there any more.)
                followers.forget_offsets();
            }
            self.lead(partition, new_epoch, brokers, now)
        } else {
            self.follow(partition.leader, new_epoch, pool)
        }
    }

    fn lead(&mut self, partition: &Partition, new_epoch: bool, brokers: &Brokers, now: Instant) -> Moved {
        let led_before = std::mem::replace(&mut self.role, Role::Leader) == Role::Leader;
        self.fetcher = None;
        self.in_sync = partition.isr.clone();
        if new_epoch {
            self.log.assign_leader_epoch(self.leader_epoch);
            self.epoch_start_offset = Some(self.log.log_end_offset());
        }
        if partition.replicas.len() == 1 {
            self.followers = None;
        } else {
            let followers = self.followers.get_or_insert_with(Default::default);
            followers.assign(&partition.replicas, brokers);
            followers.clear_proposal();
            if new_epoch {
                followers.reset(&partition.isr, led_before, self.log.log_end_offset(), now);
            }
        }
        let high_watermark = self.advance_high_watermark(now);
        Moved { high_watermark, low_watermark: self.followers.is_some(), ..Moved::default() }
    }

    fn follow(&mut self, leader: Option<NodeId>, new_epoch: bool, pool: &mut ChunkPool) -> Moved {
        let before = std::mem::replace(&mut self.role, Role::Follower { leader });
        self.in_sync = Arc::default();
        self.epoch_start_offset = None;
        self.followers = None;
        let mut moved = Moved { leadership_ended: before == Role::Leader, ..Moved::default() };
        if !new_epoch && self.fetcher.is_some() {
            return moved;
        }
        let frozen = self.fetcher.take().is_some_and(|fetcher| fetcher.is_frozen());
        if leader.is_some() && self.log.epochs().latest().is_none() {
            // Without epochs there is no telling where the logs part; what was committed is common for sure.
            moved |= self.truncate_to(self.high_watermark, pool);
        }
        self.fetcher = leader.map(|leader| Box::new(Fetcher::new(leader, frozen)));
        moved
    }

    /// Forgets what this broker is to the partition, as a process that starts again does.
    pub(super) fn forget_role(&mut self) {
        self.role = Role::Follower { leader: None };
        (self.leader_epoch, self.partition_epoch) = (-1, -1);
        self.in_sync = Arc::default();
        self.epoch_start_offset = None;
        self.followers = None;
        self.fetcher = None;
    }
}
