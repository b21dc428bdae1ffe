//! What a follower does: it fetches from the leader, one fetch at a time for each partition, and makes its log the same.
//!
//! Kafka's `AbstractFetcherThread` and `ReplicaFetcherThread`, without threads: every partition has its own fetch, which
//! waits on the leader where there is nothing to read, and the answer brings about the next one. Where the logs part is
//! told by the answer (KIP-595); a fetch is never sent before the log is as the last answer has made it.

use std::time::Duration;

use super::partition::Replica;
use super::{Moved, Outgoing, Replicas};
use crate::base::{ErrorCode, Instant, NodeId, Now, PartitionKey};
use crate::controller::configs::ReplicationSettings;
use crate::log::{ChunkPool, EpochEnd, ReplicateError, SharedSlices};

/// A follower's fetch of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerFetch {
    /// The partition.
    pub key: PartitionKey,
    /// Who fetches.
    pub replica: NodeId,
    /// Its broker epoch; −1 if it doesn't say.
    pub broker_epoch: i64,
    /// The leader epoch that it knows; −1 if it doesn't say.
    pub leader_epoch: i32,
    /// The offset to read from: it holds everything below.
    pub offset: i64,
    /// The epoch of its last record; −1 for none.
    pub last_fetched_epoch: i32,
    /// Where its log starts.
    pub log_start_offset: i64,
    /// The leader's high watermark as it last heard it (KIP-1166); −1 if it hasn't.
    pub high_watermark: i64,
    /// The most bytes to answer, but for a first batch that is larger (`replica.fetch.max.bytes`).
    pub max_bytes: usize,
    /// How long to wait for something to read (`replica.fetch.wait.max.ms`).
    pub max_wait: Duration,
    /// Tells the answer to this fetch from answers to older ones.
    pub sequence: u64,
}

/// The answer to a [`FollowerFetch`].
#[derive(Clone, Debug)]
pub struct FollowerFetched {
    /// The partition.
    pub key: PartitionKey,
    /// Who answers.
    pub leader: NodeId,
    /// As asked.
    pub leader_epoch: i32,
    /// As asked.
    pub offset: i64,
    /// As asked.
    pub sequence: u64,
    /// What was read, or why nothing was. A connection that breaks is NETWORK_EXCEPTION.
    pub result: Result<FollowerRecords, ErrorCode>,
    /// Where the leader's log starts; −1 if that isn't known.
    pub log_start_offset: i64,
    /// Where the leader's log ends; −1 if that isn't known.
    pub log_end_offset: i64,
    /// The leader's high watermark; −1 if that isn't known.
    pub high_watermark: i64,
}

/// What a follower gets.
#[derive(Clone, Debug)]
pub enum FollowerRecords {
    /// Batches, one behind the other, shared with the leader's log. Empty if there are none.
    Batches(SharedSlices),
    /// The logs part: the follower's last epoch, or the largest below it that the leader has, ends here.
    Diverging {
        /// That epoch.
        epoch: i32,
        /// The offset behind its last record.
        end_offset: i64,
    },
}

impl FollowerFetch {
    /// The answer if the leader can't be reached.
    pub fn undelivered(&self, leader: NodeId) -> FollowerFetched {
        FollowerFetched {
            key: self.key,
            leader,
            leader_epoch: self.leader_epoch,
            offset: self.offset,
            sequence: self.sequence,
            result: Err(ErrorCode::NetworkException),
            log_start_offset: -1,
            log_end_offset: -1,
            high_watermark: -1,
        }
    }
}

impl FollowerFetched {
    /// Whether there is nothing in it for which the follower must not wait: no records, nor a reason why there can't be
    /// any.
    pub fn is_empty(&self) -> bool {
        matches!(&self.result, Ok(FollowerRecords::Batches(slices)) if slices.bytes == 0)
    }
}

/// What brings a leader's records to one partition.
#[derive(Clone, Debug)]
pub(super) struct Fetcher {
    leader: NodeId,
    state: FetchState,
    /// The user doesn't want it to fetch.
    frozen: bool,
    /// The leader's high watermark as last heard; −1 before that.
    leader_high_watermark: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FetchState {
    /// The next fetch is to be sent.
    Due,
    /// A fetch is under way. One that rests at the leader has its answer when there is something to say.
    InFlight { sequence: u64, offset: i64, since: Instant, rests: bool },
    /// After something went wrong.
    BackingOff { until: Instant },
    /// Nothing more can be done before there is a new leader epoch.
    Parked,
}

/// What comes after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Fetch,
    BackOff,
    Park,
}

impl Fetcher {
    pub(super) fn new(leader: NodeId, frozen: bool) -> Self {
        Fetcher { leader, state: FetchState::Due, frozen, leader_high_watermark: -1 }
    }

    pub(super) fn is_frozen(&self) -> bool {
        self.frozen
    }

    fn is_due(&self) -> bool {
        self.state == FetchState::Due && !self.frozen
    }

    fn is_in_flight(&self, number: u64) -> bool {
        matches!(self.state, FetchState::InFlight { sequence, .. } if sequence == number)
    }

    /// Whether this is the answer to the fetch that is under way.
    fn expects(&self, fetched: &FollowerFetched) -> bool {
        matches!(self.state, FetchState::InFlight { sequence, offset, .. }
            if sequence == fetched.sequence && offset == fetched.offset)
    }
}

impl Replica {
    fn take_fetched(&mut self, fetched: FollowerFetched, now: Now, pool: &mut ChunkPool) -> (Moved, Next) {
        match fetched.result {
            Ok(FollowerRecords::Batches(slices)) => {
                let heard = (fetched.high_watermark, fetched.log_start_offset);
                self.take_batches(&slices, heard, now, pool)
            }
            Ok(FollowerRecords::Diverging { epoch, end_offset }) => {
                self.truncate_to_common(EpochEnd { epoch, end_offset }, pool)
            }
            Err(ErrorCode::OffsetOutOfRange) => {
                self.return_to_range(fetched.log_start_offset, fetched.log_end_offset, pool)
            }
            // There is a newer epoch, of which the controller will tell.
            Err(ErrorCode::FencedLeaderEpoch) => (Moved::default(), Next::Park),
            Err(_) => (Moved::default(), Next::BackOff),
        }
    }

    /// Appends what the leader sent, and follows its high watermark and log start.
    fn take_batches(
        &mut self,
        slices: &SharedSlices,
        (high_watermark, leader_start): (i64, i64),
        now: Now,
        pool: &mut ChunkPool,
    ) -> (Moved, Next) {
        let mut moved = Moved::default();
        let before = self.log.log_end_offset();
        let appended = self.log.append_as_follower(slices, self.leader_epoch, now);
        self.log.count_memory(pool);
        if let Err(ReplicateError::UnexpectedOffset { log_end_offset, found }) = appended
            && found < log_end_offset
        {
            // The leader's log starts inside its first batch, where the logs seemed to part, and this one ends in the
            // middle of that batch: it goes back to where it begins. (Kafka's follower gives up here.)
            return self.truncate_and_go_on(found, pool);
        }
        if let Err(error) = appended {
            tracing::error!(topic = &*self.topic, partition = self.key.index, %error, "replication stops");
            return (moved, Next::Park);
        }
        moved.log_end = self.log.log_end_offset() != before;
        if let Some(fetcher) = &mut self.fetcher {
            fetcher.leader_high_watermark = high_watermark;
        }
        if !self.pinned {
            moved.high_watermark = self.set_high_watermark(high_watermark);
        } else {
            moved.high_watermark = self.set_high_watermark(self.high_watermark);
        }
        if leader_start > self.log.log_start_offset() {
            if leader_start > self.high_watermark && !self.pinned {
                tracing::error!(
                    topic = &*self.topic,
                    partition = self.key.index,
                    leader_start,
                    high_watermark = self.high_watermark,
                    "replication stops: the leader's log starts above the high watermark"
                );
                return (moved, Next::Park);
            }
            let start = leader_start.min(self.high_watermark);
            moved.low_watermark = self.log.advance_log_start(start, pool).unwrap_or(false);
        }
        (moved, Next::Fetch)
    }

    /// Cuts off what the leader doesn't have, as far as one answer tells (`AbstractFetcherThread.
    /// getOffsetTruncationState`); the next fetch shows whether it was enough.
    fn truncate_to_common(&mut self, leader: EpochEnd, pool: &mut ChunkPool) -> (Moved, Next) {
        let log_end = self.log.log_end_offset();
        let offset = if leader.end_offset < 0 {
            // Kafka goes back to the fetch offset, at which this log ends.
            log_end
        } else if leader.epoch < 0 {
            leader.end_offset.min(log_end)
        } else {
            let own = self.log.end_offset_for_epoch(leader.epoch);
            match own.epoch {
                -1 => leader.end_offset.min(log_end),
                epoch if epoch == leader.epoch => own.end_offset.min(leader.end_offset).min(log_end),
                // The leader's epoch is unknown here: back to the end of an older one, and ask again.
                _ => own.end_offset.min(log_end),
            }
        };
        self.truncate_and_go_on(offset, pool)
    }

    fn truncate_and_go_on(&mut self, offset: i64, pool: &mut ChunkPool) -> (Moved, Next) {
        let before = (self.log.log_end_offset(), self.log.epochs().latest());
        let moved = self.truncate_to(offset, pool);
        let is_same = before == (self.log.log_end_offset(), self.log.epochs().latest());
        // The same fetch would get the same answer.
        (moved, if is_same { Next::BackOff } else { Next::Fetch })
    }

    /// The leader has no such offset (`AbstractFetcherThread.fetchOffsetAndTruncate`).
    fn return_to_range(&mut self, leader_start: i64, leader_end: i64, pool: &mut ChunkPool) -> (Moved, Next) {
        let log_end = self.log.log_end_offset();
        if leader_start < 0 || leader_end < 0 {
            return (Moved::default(), Next::BackOff);
        }
        if leader_end < log_end {
            return self.truncate_and_go_on(leader_end, pool);
        }
        if leader_start > log_end {
            self.log.truncate_fully_and_start_at(leader_start, pool);
            self.high_watermark = leader_start;
            let moved =
                Moved { high_watermark: true, log_end: true, low_watermark: true, ..Moved::default() };
            return (moved, Next::Fetch);
        }
        // The leader's log has reached this one's end meanwhile.
        (Moved::default(), Next::BackOff)
    }

    /// The fetch to be sent, if one is due.
    fn next_fetch(&mut self, ask: &Asker<'_>) -> Option<Outgoing> {
        let fetcher = self.fetcher.as_mut().filter(|fetcher| fetcher.is_due())?;
        let offset = self.log.log_end_offset();
        fetcher.state = FetchState::InFlight { sequence: ask.sequence, offset, since: ask.now, rests: false };
        let max_bytes =
            ask.settings.replica_fetch_max_bytes.min(ask.settings.replica_fetch_response_max_bytes);
        let fetch = FollowerFetch {
            key: self.key,
            replica: ask.replica,
            broker_epoch: ask.broker_epoch,
            leader_epoch: self.leader_epoch,
            offset,
            last_fetched_epoch: self.log.epochs().latest().map_or(-1, |latest| latest.epoch),
            log_start_offset: self.log.log_start_offset(),
            high_watermark: fetcher.leader_high_watermark,
            max_bytes: max_bytes as usize,
            max_wait: Duration::from_millis(ask.settings.replica_fetch_wait_max_ms.into()),
            sequence: ask.sequence,
        };
        Some(Outgoing::Fetch { to: fetcher.leader, fetch })
    }
}

/// What a fetch says of this broker.
struct Asker<'a> {
    replica: NodeId,
    broker_epoch: i64,
    settings: &'a ReplicationSettings,
    sequence: u64,
    now: Instant,
}

impl Replicas {
    /// Takes in what a leader has answered, and asks for more. An answer that isn't waited for any more is ignored.
    pub fn apply_fetched(&mut self, fetched: FollowerFetched, now: Now, pool: &mut ChunkPool) -> Moved {
        let key = fetched.key;
        let Some(replica) = self.by_key.get_mut(&key) else { return Moved::default() };
        let is_current = fetched.leader_epoch == replica.leader_epoch;
        let fetcher = replica.fetcher.as_mut().filter(|fetcher| is_current && fetcher.expects(&fetched));
        let Some(fetcher) = fetcher else { return Moved::default() };
        if fetcher.frozen {
            fetcher.state = FetchState::Due;
            return Moved::default();
        }
        let (moved, next) = replica.take_fetched(fetched, now, pool);
        let state = match next {
            Next::Fetch => FetchState::Due,
            Next::Park => FetchState::Parked,
            Next::BackOff => {
                let backoff = Duration::from_millis(self.replication.replica_fetch_backoff_ms.into());
                let until = now.instant + backoff;
                self.retries.insert((until, key));
                FetchState::BackingOff { until }
            }
        };
        if let Some(fetcher) = &mut replica.fetcher {
            fetcher.state = state;
        }
        if moved.log_end {
            self.note_growth(key, now, pool);
        }
        if moved.high_watermark {
            self.note_commit(key, now);
        }
        self.send_fetch(key, now.instant);
        moved
    }

    /// Keeps followers here from fetching, of one partition or of all, or lets them go on.
    pub fn freeze_fetcher(&mut self, key: Option<PartitionKey>, frozen: bool, now: Now) {
        let mut keys: Vec<PartitionKey> = match key {
            Some(key) => vec![key],
            None => self.by_key.keys().copied().collect(),
        };
        keys.sort_unstable();
        for key in keys {
            let fetcher = self.by_key.get_mut(&key).and_then(|replica| replica.fetcher.as_mut());
            if let Some(fetcher) = fetcher {
                fetcher.frozen = frozen;
                self.send_fetch(key, now.instant);
            }
        }
    }

    /// Sends the next fetch of a partition, if one is due.
    pub(super) fn send_fetch(&mut self, key: PartitionKey, now: Instant) {
        let Some(replica) = self.by_key.get_mut(&key).filter(|replica| replica.fetcher.is_some()) else {
            return;
        };
        let ask = Asker {
            replica: self.brokers.this,
            broker_epoch: self.brokers.own_epoch(),
            settings: &self.replication,
            sequence: self.next_fetch,
            now,
        };
        if let Some(fetch) = replica.next_fetch(&ask) {
            self.next_fetch += 1;
            self.outgoing.push(fetch);
        }
    }

    /// A back-off is over.
    pub(super) fn fetch_again(&mut self, key: PartitionKey, now: Instant) {
        let fetcher = self.by_key.get_mut(&key).and_then(|replica| replica.fetcher.as_mut());
        if let Some(fetcher) = fetcher
            && matches!(fetcher.state, FetchState::BackingOff { until } if until <= now)
        {
            fetcher.state = FetchState::Due;
            self.send_fetch(key, now);
        }
    }

    /// Gives up fetches that have been without an answer for `replica.socket.timeout.ms`, and sends them again.
    pub(super) fn check_fetches(&mut self, now: Instant) {
        let timeout = Duration::from_millis(self.replication.replica_socket_timeout_ms);
        for key in self.followed.iter().copied().collect::<Vec<_>>() {
            let fetcher = self.by_key.get_mut(&key).and_then(|replica| replica.fetcher.as_mut());
            if let Some(fetcher) = fetcher
                && matches!(fetcher.state, FetchState::InFlight { since, rests: false, .. }
                    if now.saturating_since(since) >= timeout)
            {
                fetcher.state = FetchState::Due;
                self.send_fetch(key, now);
            }
        }
    }

    /// Whether a fetch of this broker is still waited for, and another like it would follow its answer.
    pub fn may_rest(&self, fetch: &FollowerFetch) -> bool {
        let replica = self.by_key.get(&fetch.key).filter(|replica| {
            replica.leader_epoch == fetch.leader_epoch
                && replica.log.log_end_offset() == fetch.offset
                && replica.log.log_start_offset() == fetch.log_start_offset
        });
        let fetcher = replica.and_then(|replica| replica.fetcher.as_ref());
        fetcher.is_some_and(|fetcher| !fetcher.frozen && fetcher.is_in_flight(fetch.sequence))
    }

    /// Notes that a fetch of this broker rests at its leader, or that it doesn't any more and was last sent at `since`.
    pub fn note_rest(&mut self, fetch: &FollowerFetch, rests: bool, since: Instant) {
        let fetcher = self.by_key.get_mut(&fetch.key).and_then(|replica| replica.fetcher.as_mut());
        if let Some(fetcher) = fetcher.filter(|fetcher| fetcher.is_in_flight(fetch.sequence)) {
            let (sequence, offset) = (fetch.sequence, fetch.offset);
            fetcher.state = FetchState::InFlight { sequence, offset, since, rests };
        }
    }

    /// Keeps a partition's high watermark where it is until it is let go again, whether this broker holds the partition
    /// now or only later.
    pub fn pin_high_watermark(&mut self, key: PartitionKey, pinned: bool, now: Now) -> Moved {
        if pinned {
            self.pinned.insert(key);
        } else {
            self.pinned.remove(&key);
        }
        let Some(replica) = self.by_key.get_mut(&key) else { return Moved::default() };
        replica.pinned = pinned;
        let heard = replica.fetcher.as_ref().map_or(-1, |fetcher| fetcher.leader_high_watermark);
        let high_watermark = match heard {
            _ if pinned => false,
            0.. => replica.set_high_watermark(heard),
            _ => replica.advance_high_watermark(now.instant),
        };
        if high_watermark {
            self.note_commit(key, now);
        }
        Moved { high_watermark, ..Moved::default() }
    }
}
