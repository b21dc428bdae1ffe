//! What a leader knows of its followers: how far they are, who is in sync, and what it proposes to the controller.
//!
//! A follower's fetch at an offset says that it holds everything below. From these the high watermark follows, and who
//! joins or leaves the in-sync replicas. (Kafka's `Replica`, `Partition`; KIP-497 for proposals, KIP-903 for broker
//! epochs.)

use std::time::Duration;

use super::brokers::{Brokers, Living};
use super::follower::{FollowerFetch, FollowerFetched, FollowerRecords};
use super::partition::Replica;
use super::{Moved, Outgoing, Replicas};
use crate::base::{ErrorCode, Instant, NodeId, Now, PartitionKey};
use crate::controller::{AlterPartition, LeaderRecovery, Partition};
use crate::log::ReadLimits;

/// A proposal that has failed for a reason that passes is sent again after this (as Kafka's `AlterPartitionManager`).
const PROPOSAL_BACKOFF: Duration = Duration::from_millis(50);
/// A proposal without an answer is sent again after this (Kafka's `controller.socket.timeout.ms`), at the next check.
const PROPOSAL_TIMEOUT: Duration = Duration::from_secs(30);

/// The other replicas of a partition, as its leader sees them.
#[derive(Clone, Debug, Default)]
pub(super) struct Followers {
    followers: Vec<Follower>,
    proposal: Option<Proposal>,
    lag_time_max: Duration,
}

/// One follower (Kafka's `ReplicaState`). Offsets are −1 while they are not known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Follower {
    pub(super) id: NodeId,
    pub(super) log_end_offset: i64,
    pub(super) log_start_offset: i64,
    last_fetch: Option<Instant>,
    leader_end_at_last_fetch: i64,
    /// When it last had all that there was; none: not for as long as counts.
    pub(super) caught_up: Option<Instant>,
    /// Since when its fetch rests here, as if it came again each time that this long has passed.
    rest: Option<(Instant, Duration)>,
    /// The broker epoch that it fetches with; −1 if it doesn't say.
    broker_epoch: Option<i64>,
    /// The broker as the controller knows it, if it lives.
    broker: Option<Living>,
}

impl Follower {
    fn new(id: NodeId) -> Self {
        Follower {
            id,
            log_end_offset: -1,
            log_start_offset: -1,
            last_fetch: None,
            leader_end_at_last_fetch: -1,
            caught_up: None,
            rest: None,
            broker_epoch: None,
            broker: None,
        }
    }

    fn is_caught_up(&self, leader_end: i64, lag_time_max: Duration, now: Instant) -> bool {
        let lately = |caught_up| now.saturating_since(caught_up) <= lag_time_max;
        self.log_end_offset == leader_end || self.caught_up_by(now).is_some_and(lately)
    }

    /// When it last had all that there was, of a fetch that rests too.
    fn caught_up_by(&self, now: Instant) -> Option<Instant> {
        let rested = self.rest.map(|(since, period)| last_round(since, period, now));
        self.caught_up.max(rested)
    }

    /// Whether it may be in sync at all: it lives and stays, and is the process that the controller knows.
    fn is_eligible(&self) -> bool {
        let known = |living: Living| {
            living.stays && self.broker_epoch.is_some_and(|epoch| epoch == -1 || epoch == living.epoch)
        };
        self.broker.is_some_and(known)
    }

    fn note_fetch(&mut self, fetch: &FollowerFetch, leader_end: i64, now: Instant) {
        let caught_up = if fetch.offset >= leader_end {
            Some(now)
        } else if fetch.offset >= self.leader_end_at_last_fetch {
            self.last_fetch
        } else {
            None
        };
        self.caught_up = self.caught_up.max(caught_up);
        self.rest = None;
        self.log_end_offset = fetch.offset;
        self.log_start_offset = fetch.log_start_offset;
        self.leader_end_at_last_fetch = self.leader_end_at_last_fetch.max(leader_end);
        self.last_fetch = Some(now);
        self.broker_epoch = Some(fetch.broker_epoch);
    }
}

/// An ISR that the controller hasn't answered yet.
#[derive(Clone, Debug)]
struct Proposal {
    request: AlterPartition,
    /// Since when it waits for an answer; none once it is refused for good. What the controller says of the partition next
    /// ends it.
    sent: Option<Instant>,
}

/// What comes of an answer to a proposal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Settled {
    /// There is no proposal any more.
    Done,
    /// It stays until the controller says what the partition is like.
    Stays,
    /// It is to be sent again.
    Again,
}

impl Followers {
    /// Takes on who the followers are.
    pub(super) fn assign(&mut self, replicas: &[NodeId], brokers: &Brokers) {
        self.lag_time_max = brokers.lag_time_max;
        self.followers.retain(|follower| replicas.contains(&follower.id));
        for &id in replicas.iter().filter(|id| **id != brokers.this) {
            if self.follower(id).is_none() {
                self.followers.push(Follower::new(id));
            }
        }
        self.note_brokers(brokers);
    }

    /// Takes on who lives. Returns whether that is news.
    pub(super) fn note_brokers(&mut self, brokers: &Brokers) -> bool {
        let mut news = false;
        for follower in &mut self.followers {
            let living = brokers.living(follower.id);
            news |= std::mem::replace(&mut follower.broker, living) != living;
        }
        news
    }

    /// A new leader epoch begins where the log ends. A leader that led before keeps what it knows of offsets.
    pub(super) fn reset(&mut self, isr: &[NodeId], led_before: bool, log_end: i64, now: Instant) {
        for follower in &mut self.followers {
            let caught_up = isr.contains(&follower.id).then_some(now);
            *follower = if led_before {
                Follower {
                    caught_up,
                    rest: None,
                    last_fetch: caught_up,
                    leader_end_at_last_fetch: log_end,
                    ..*follower
                }
            } else {
                Follower { caught_up, broker: follower.broker, ..Follower::new(follower.id) }
            };
        }
    }

    /// Forgets what the followers have.
    pub(super) fn forget_offsets(&mut self) {
        for follower in &mut self.followers {
            *follower = Follower { broker: follower.broker, ..Follower::new(follower.id) };
        }
    }

    /// Drops what was proposed: the controller has decided otherwise.
    pub(super) fn clear_proposal(&mut self) {
        self.proposal = None;
    }

    pub(super) fn follower(&self, id: NodeId) -> Option<&Follower> {
        self.followers.iter().find(|follower| follower.id == id)
    }

    /// Whether a replica counts as in sync until the controller has answered: it was, or is to be.
    fn is_in_maximal(&self, in_sync: &[NodeId], id: NodeId) -> bool {
        let proposed = |proposal: &Proposal| proposal.request.isr.iter().any(|(member, _)| *member == id);
        in_sync.contains(&id) || self.proposal.as_ref().is_some_and(proposed)
    }

    /// How many replicas count as in sync until the controller has answered.
    pub(super) fn maximal_in_sync(&self, in_sync: &[NodeId]) -> usize {
        let proposed = self.proposal.iter().flat_map(|proposal| &proposal.request.isr);
        in_sync.len() + proposed.filter(|(member, _)| !in_sync.contains(member)).count()
    }

    /// Up to where all replicas have the log that count: those in sync, and those that are about to be.
    pub(super) fn replicated(&self, log_end: i64, in_sync: &[NodeId], now: Instant) -> i64 {
        let counts = |follower: &&Follower| {
            self.is_in_maximal(in_sync, follower.id)
                || follower.is_eligible() && follower.is_caught_up(log_end, self.lag_time_max, now)
        };
        let behind = self.followers.iter().filter(|follower| follower.log_end_offset < log_end);
        behind.filter(counts).map(|follower| follower.log_end_offset).min().unwrap_or(log_end)
    }

    /// The least log start of this leader, whose own is `own`, and of its living followers.
    pub(super) fn low_watermark(&self, own: i64) -> i64 {
        let living = self.followers.iter().filter(|follower| follower.broker.is_some());
        living.map(|follower| follower.log_start_offset).min().unwrap_or(own).min(own)
    }

    fn out_of_sync(&self, in_sync: &[NodeId], this: NodeId, log_end: i64, now: Instant) -> Vec<NodeId> {
        let lags = |id: NodeId| {
            self.follower(id).is_none_or(|follower| !follower.is_caught_up(log_end, self.lag_time_max, now))
        };
        in_sync.iter().copied().filter(|id| *id != this && lags(*id)).collect()
    }
}

impl Replica {
    /// What a follower says that it holds. (Kafka's `Partition.fetchRecords` and `updateFollowerFetchState`.)
    fn record_fetch(&mut self, fetch: &FollowerFetch, now: Instant) -> Result<Moved, ErrorCode> {
        self.check_follower(fetch.replica, fetch.leader_epoch)?;
        if self.divergence(fetch.offset, fetch.last_fetched_epoch)?.is_some() {
            return Ok(Moved::default());
        }
        let log_end = self.log.log_end_offset();
        if !(self.log.log_start_offset()..=log_end).contains(&fetch.offset) {
            return Err(ErrorCode::OffsetOutOfRange);
        }
        let low_watermark = self.low_watermark();
        let Some(follower) = self.follower_mut(fetch.replica) else {
            return Err(ErrorCode::NotLeaderOrFollower);
        };
        let is_stale = |living: Living| fetch.broker_epoch != -1 && living.epoch > fetch.broker_epoch;
        if follower.broker.is_some_and(is_stale) {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let before = follower.log_end_offset;
        follower.note_fetch(fetch, log_end, now);
        let high_watermark = before != fetch.offset;
        Ok(Moved { high_watermark, low_watermark: self.low_watermark() > low_watermark, ..Moved::default() })
    }

    /// Checks that a fetch comes from a follower of this leader, in the leader epoch that it knows (−1 for none).
    ///
    /// # Errors
    /// Those of [`Replica::check_leader`]; UNKNOWN_LEADER_EPOCH, or NOT_LEADER_OR_FOLLOWER of a fetch without an epoch, if
    /// there is no such follower.
    pub fn check_follower(&self, replica: NodeId, leader_epoch: i32) -> Result<(), ErrorCode> {
        self.check_leader(leader_epoch)?;
        let known = self.followers.as_ref().and_then(|followers| followers.follower(replica));
        match known {
            Some(_) => Ok(()),
            // It may have learnt before this broker that it is a replica: it is to try again.
            None if leader_epoch != -1 => Err(ErrorCode::UnknownLeaderEpoch),
            None => Err(ErrorCode::NotLeaderOrFollower),
        }
    }

    /// The in-sync followers that a consumer could read from at `offset`, each with its log end and how long ago it last
    /// had all that this leader had.
    pub fn read_replicas(&self, offset: i64, now: Instant) -> impl Iterator<Item = (NodeId, i64, Duration)> {
        let followers = self.followers.iter().flat_map(|followers| &followers.followers);
        let has_it = move |follower: &&Follower| {
            self.in_sync.contains(&follower.id)
                && (follower.log_start_offset..=follower.log_end_offset).contains(&offset)
        };
        followers.filter(has_it).map(move |follower| {
            let caught_up = follower.caught_up_by(now).unwrap_or(Instant::ZERO);
            (follower.id, follower.log_end_offset, now.saturating_since(caught_up))
        })
    }

    /// The in-sync replicas that don't have all records below `offset` yet, as far as this leader knows.
    pub fn in_sync_without(&self, offset: i64) -> Vec<NodeId> {
        let has_it = |id: NodeId| match self.followers.as_ref().and_then(|followers| followers.follower(id)) {
            Some(follower) => follower.log_end_offset >= offset,
            None => self.log.log_end_offset() >= offset,
        };
        self.in_sync.iter().copied().filter(|id| !has_it(*id)).collect()
    }

    fn follower_mut(&mut self, id: NodeId) -> Option<&mut Follower> {
        self.followers.as_mut()?.followers.iter_mut().find(|follower| follower.id == id)
    }

    /// Whether this follower should be in sync, and isn't.
    fn should_join(&self, id: NodeId) -> bool {
        let Some(followers) = &self.followers else { return false };
        let Some(follower) = followers.follower(id) else { return false };
        followers.proposal.is_none()
            && !self.in_sync.contains(&id)
            && follower.log_end_offset >= self.high_watermark
            && self.epoch_start_offset.is_some_and(|start| follower.log_end_offset >= start)
            && follower.is_eligible()
    }

    /// Notes a new ISR to be proposed, and returns it.
    fn propose(&mut self, isr: &[NodeId], brokers: &Brokers, now: Instant) -> Option<AlterPartition> {
        let followers = self.followers.as_mut()?;
        let epoch = |id: NodeId| match followers.follower(id) {
            _ if id == brokers.this => brokers.own_epoch(),
            Some(follower) => follower.broker_epoch.unwrap_or(-1),
            None => -1,
        };
        let request = AlterPartition {
            broker: brokers.this,
            broker_epoch: brokers.own_epoch(),
            key: self.key,
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            isr: isr.iter().map(|&id| (id, epoch(id))).collect(),
            // A leader that was elected uncleanly has nothing to do before it has recovered.
            recovery: LeaderRecovery::Recovered,
        };
        followers.proposal = Some(Proposal { request: request.clone(), sent: Some(now) });
        Some(request)
    }

    /// Proposes to drop those that lag, or says again what nobody has answered.
    fn check_in_sync(&mut self, brokers: &Brokers, now: Instant) -> Option<AlterPartition> {
        let log_end = self.log.log_end_offset();
        let followers = self.followers.as_mut()?;
        if let Some(proposal) = &mut followers.proposal {
            let is_late = |sent: Instant| now.saturating_since(sent) >= PROPOSAL_TIMEOUT;
            return proposal.sent.is_some_and(is_late).then(|| proposal.again(brokers, now));
        }
        let lagging = followers.out_of_sync(&self.in_sync, brokers.this, log_end, now);
        if lagging.is_empty() {
            return None;
        }
        tracing::info!(topic = &*self.topic, partition = self.key.index, ?lagging, "followers lag");
        let isr: Vec<NodeId> = self.in_sync.iter().copied().filter(|id| !lagging.contains(id)).collect();
        self.propose(&isr, brokers, now)
    }

    /// The controller's answer to a proposal. (Kafka's `Partition.handleAlterPartitionUpdate` and
    /// `handleAlterPartitionError`.)
    fn note_answer(&mut self, request: &AlterPartition, answer: Result<Partition, ErrorCode>) -> Settled {
        let (leader_epoch, partition_epoch) = (self.leader_epoch, self.partition_epoch);
        let Some(followers) = &mut self.followers else { return Settled::Stays };
        let Some(proposal) = followers.proposal.as_mut().filter(|proposal| proposal.request == *request)
        else {
            return Settled::Stays;
        };
        let is_old = |partition: &Partition| {
            partition.leader_epoch != leader_epoch || partition.partition_epoch < partition_epoch
        };
        match answer {
            Ok(partition) if !is_old(&partition) => {
                followers.proposal = None;
                self.in_sync = partition.isr;
                self.partition_epoch = partition.partition_epoch;
                Settled::Done
            }
            Err(ErrorCode::OperationNotAttempted | ErrorCode::IneligibleReplica) => {
                followers.proposal = None;
                Settled::Done
            }
            Ok(_)
            | Err(
                ErrorCode::UnknownTopicOrPartition
                | ErrorCode::UnknownTopicId
                | ErrorCode::FencedLeaderEpoch
                | ErrorCode::InvalidUpdateVersion
                | ErrorCode::InvalidRequest
                | ErrorCode::NewLeaderElected,
            ) => {
                proposal.sent = None;
                Settled::Stays
            }
            Err(_) => Settled::Again,
        }
    }
}

impl Proposal {
    /// The same again, from this broker as it is registered now.
    fn again(&mut self, brokers: &Brokers, now: Instant) -> AlterPartition {
        self.sent = Some(now);
        self.request.broker_epoch = brokers.own_epoch();
        self.request.clone()
    }
}

impl Replicas {
    /// Notes what a follower holds, which may raise the high watermark or the low one, and may make this broker propose
    /// another ISR. To be called once a fetch, before it is read; a fetch that waits is read again without this.
    ///
    /// # Errors
    /// Those of [`Replica::check_leader`] and [`Replica::divergence`]; UNKNOWN_LEADER_EPOCH or NOT_LEADER_OR_FOLLOWER if
    /// the fetcher is no replica or was registered anew since; OFFSET_OUT_OF_RANGE.
    pub fn record_follower_fetch(&mut self, fetch: &FollowerFetch, now: Now) -> Result<Moved, ErrorCode> {
        let replica = self.by_key.get_mut(&fetch.key).ok_or(ErrorCode::NotLeaderOrFollower)?;
        let mut moved = replica.record_fetch(fetch, now.instant)?;
        if replica.should_join(fetch.replica) {
            let isr: Vec<NodeId> = replica.in_sync.iter().copied().chain([fetch.replica]).collect();
            let proposal = replica.propose(&isr, &self.brokers, now.instant);
            self.outgoing.extend(proposal.map(Outgoing::AlterPartition));
        }
        moved.high_watermark = moved.high_watermark && replica.advance_high_watermark(now.instant);
        if moved.high_watermark {
            self.note_commit(fetch.key, now);
        }
        Ok(moved)
    }

    /// What a follower is answered, as things are now. Nothing is noted.
    pub fn read_for_follower(&self, fetch: &FollowerFetch) -> FollowerFetched {
        let mut fetched = FollowerFetched {
            key: fetch.key,
            leader: self.brokers.this,
            leader_epoch: fetch.leader_epoch,
            offset: fetch.offset,
            sequence: fetch.sequence,
            result: Err(ErrorCode::NotLeaderOrFollower),
            log_start_offset: -1,
            log_end_offset: -1,
            high_watermark: -1,
        };
        if let Some(replica) = self.by_key.get(&fetch.key) {
            fetched.log_start_offset = replica.log.log_start_offset();
            fetched.log_end_offset = replica.log.log_end_offset();
            fetched.high_watermark = replica.high_watermark;
            fetched.result = read(replica, fetch);
        }
        fetched
    }

    /// Whether a follower's fetch, which has waited for as long as it wants to, would be told nothing that it doesn't know,
    /// and would tell nothing new if it came again: there is nothing to read, to commit or to propose.
    pub fn has_no_news_for(&self, fetch: &FollowerFetch) -> bool {
        let Some(replica) = self.by_key.get(&fetch.key) else { return false };
        let Some(followers) = &replica.followers else { return false };
        let knows_all = !fetch.max_wait.is_zero()
            && fetch.high_watermark == replica.high_watermark
            && fetch.log_start_offset >= replica.log.log_start_offset()
            && fetch.offset == replica.log.log_end_offset();
        let is_noted = followers.follower(fetch.replica).is_some_and(|follower| {
            follower.log_end_offset == fetch.offset
                && follower.log_start_offset == fetch.log_start_offset
                && follower.is_eligible()
        });
        knows_all
            && is_noted
            && followers.proposal.is_none()
            && replica.in_sync.contains(&fetch.replica)
            && matches!(read(replica, fetch), Ok(FollowerRecords::Batches(slices)) if slices.bytes == 0)
    }

    /// Notes that a follower's fetch rests here, as if it came again whenever it has waited for as long as it wants to;
    /// with `rests` false that it has done so for the last time at `since`.
    pub fn note_resting(&mut self, fetch: &FollowerFetch, rests: bool, since: Instant) {
        let replica = self.by_key.get_mut(&fetch.key);
        let Some(follower) = replica.and_then(|replica| replica.follower_mut(fetch.replica)) else { return };
        follower.rest = rests.then_some((since, fetch.max_wait));
        follower.caught_up = follower.caught_up.max(Some(since));
        follower.last_fetch = follower.last_fetch.max(Some(since));
    }

    /// The controller has answered a proposal, with the partition as it is now.
    pub fn isr_answered(
        &mut self,
        request: &AlterPartition,
        answer: Result<Partition, ErrorCode>,
        now: Now,
    ) -> Moved {
        let Some(replica) = self.by_key.get_mut(&request.key) else { return Moved::default() };
        let settled = replica.note_answer(request, answer);
        if settled == Settled::Again {
            self.retries.insert((now.instant + PROPOSAL_BACKOFF, request.key));
        }
        let high_watermark = settled == Settled::Done && replica.advance_high_watermark(now.instant);
        if high_watermark {
            self.note_commit(request.key, now);
        }
        Moved { high_watermark, ..Moved::default() }
    }

    /// Looks for followers that have fallen out of sync (`replica.lag.time.max.ms`).
    pub(super) fn check_in_sync(&mut self, now: Instant) {
        for key in &self.led_with_followers {
            let Some(replica) = self.by_key.get_mut(key) else { continue };
            let proposal = replica.check_in_sync(&self.brokers, now);
            self.outgoing.extend(proposal.map(Outgoing::AlterPartition));
        }
    }

    /// Sends a proposal again that has failed for a reason that passes.
    pub(super) fn propose_again(&mut self, key: PartitionKey, now: Instant) {
        let followers = self.by_key.get_mut(&key).and_then(|replica| replica.followers.as_mut());
        let proposal = followers.and_then(|followers| followers.proposal.as_mut());
        let proposal = proposal.filter(|proposal| proposal.sent.is_some());
        let again = proposal.map(|proposal| Outgoing::AlterPartition(proposal.again(&self.brokers, now)));
        self.outgoing.extend(again);
    }
}

/// When something came last, up to `now`, that comes anew whenever `period` has passed since it came first.
pub fn last_round(since: Instant, period: Duration, now: Instant) -> Instant {
    let period = period.max(Duration::from_millis(1));
    let passed = now.saturating_since(since);
    let rounds = passed.as_nanos() / period.as_nanos();
    since + period.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
}

fn read(replica: &Replica, fetch: &FollowerFetch) -> Result<FollowerRecords, ErrorCode> {
    replica.check_follower(fetch.replica, fetch.leader_epoch)?;
    if let Some(end) = replica.divergence(fetch.offset, fetch.last_fetched_epoch)? {
        return Ok(FollowerRecords::Diverging { epoch: end.epoch, end_offset: end.end_offset });
    }
    let limits = ReadLimits { upper_bound: i64::MAX, max_bytes: fetch.max_bytes, min_one_batch: true };
    let slices = replica.log.read_shared(fetch.offset, &limits).map_err(|error| error.code())?;
    Ok(FollowerRecords::Batches(slices))
}
