//! What all coordinators have in common: shards that are event-sourced into the partitions of an internal topic.
//!
//! A command runs against its shard's state and leaves [`Effects`]; what it wants written is appended to the shard's
//! partition as one batch and applied to the state; who waits for it is answered once the high watermark has passed it.
//! Loading a partition applies the same records. A timer that fires is a command like any other. The runtime knows no
//! group and no transaction: what a shard keeps is a [`ShardState`].

mod batches;
mod loading;
mod shard;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashMap;

use super::transactions::Producer;
use super::{CoordinatorKind, CoordinatorSettings, Storage, Ticket, partition_for};
use crate::base::entropy::Entropy;
use crate::base::{ErrorCode, Instant, Now, PartitionKey, WallTime};
use crate::controller::Controller;
use crate::log::VerificationGuard;
use crate::replica::Replica;
use crate::wire::records::BatchHeader;

use batches::append;
use loading::Loading;
use shard::{Shard, Uncommitted};

#[cfg(test)]
pub(super) use batches::{batch, in_transaction, read};

/// How long after a failed write a timer fires again (Kafka's `CoordinatorTimer` has the same pause).
const TIMER_BACKOFF: Duration = Duration::from_millis(500);

/// A record of a coordinator's topic, in Kafka's own encoding.
pub(super) trait StateRecord: Clone + Debug {
    /// Key and value as they go into the log.
    fn encode(&self) -> (Bytes, Option<Bytes>);

    /// Reads a record of the log; none for kinds that aren't known, or that are malformed.
    fn decode(key: &[u8], value: Option<&[u8]>) -> Option<Self>;

    /// About how much the record's key takes in the log, bytes.
    fn key_bytes(&self) -> usize;
}

/// What one shard keeps, and how it changes.
pub(super) trait ShardState: Clone + Debug + Default {
    /// What is written.
    type Record: StateRecord;
    /// What a ticket is answered with.
    type Reply: Clone + Debug;
    /// Which of the timers of a group or transactional id.
    type TimerKind: Clone + Debug + PartialEq + Eq + Hash;
    /// What the shard itself does once a write is committed, or has failed.
    type FollowUp: Clone + Debug;
    /// What the shard tells other brokers.
    type Message: Clone + Debug;
    /// What readers are told instead of what the state has, where that isn't committed yet. (Kafka's state is made of
    /// `TimelineHashMap`s, which can be read as of the last committed offset.)
    type Kept: Clone + Debug + Default;

    /// Whose tickets these are.
    const KIND: CoordinatorKind;

    /// Whether the shard is told of writes that aren't committed in time that they have failed, though they may be
    /// committed later. If not, it is told nothing until they are.
    const WRITES_EXPIRE: bool = true;

    /// Whether a partition counts as loaded only once all is committed that was read of it. What isn't committed yet may
    /// be lost with this broker's leadership, and nothing may have been said or done on its strength then.
    const LOADS_COMMITTED: bool;

    /// By how much a batch must stay below `max.message.bytes`.
    const BATCH_MARGIN: usize;

    /// How many partitions the topic has.
    fn partitions(settings: &CoordinatorSettings) -> i32;

    /// How often [`ShardState::clean_up`] is called, ms.
    fn clean_up_interval_ms(settings: &CoordinatorSettings) -> i64;

    /// The header of the batches that are written for nobody's transaction.
    fn batch_header() -> BatchHeader;

    /// Takes on what a record says, be it loaded or just written. `producer_id` is that of the transaction that the
    /// record is part of.
    fn replay(&mut self, record: &Self::Record, producer_id: Option<i64>, now: Now);

    /// A producer's transaction, in which records were written, has ended.
    fn end_transaction(&mut self, _producer_id: i64, _committed: bool, _now: Now) {}

    /// The records that the end of a producer's transaction amounts to, before it is taken on.
    fn ended_by(&self, _producer_id: i64, _committed: bool) -> Vec<Self::Record> {
        Vec::new()
    }

    /// Keeps what readers are told until a record is committed. It is not in the state yet, unless it is
    /// [known](ShardState::is_known).
    fn keep(&self, kept: &mut Self::Kept, record: &Self::Record, producer_id: Option<i64>);

    /// A record is committed for which something was kept.
    fn catch_up(kept: &mut Self::Kept, record: &Self::Record, producer_id: Option<i64>, now: Now);

    /// Whether a record that this process writes is in the state before it is written.
    fn is_known(_record: &Self::Record) -> bool {
        false
    }

    /// The partition is loaded: timers are set, and what was under way goes on.
    fn loaded(&mut self, effects: &mut Effects<'_, Self>);

    /// A timer has fired.
    fn timer(&mut self, id: &Arc<str>, kind: &Self::TimerKind, effects: &mut Effects<'_, Self>);

    /// Whether a timer fires again, after a pause, if what it wanted written could not be.
    fn retries_timer(&self, _id: &Arc<str>, _kind: &Self::TimerKind) -> bool {
        true
    }

    /// A write is committed, or has failed.
    fn follow_up(
        &mut self,
        id: &Arc<str>,
        follow_up: Self::FollowUp,
        written: Result<(), ErrorCode>,
        effects: &mut Effects<'_, Self>,
    );

    /// What has expired, to be written.
    fn clean_up(
        &self,
        settings: &CoordinatorSettings,
        is_topic: &dyn Fn(&str) -> bool,
        now: WallTime,
    ) -> Vec<Self::Record>;
}

/// The transaction that a write is part of.
#[derive(Clone, Copy, Debug)]
pub struct InTransaction {
    /// Whose it is.
    pub producer: Producer,
    /// Shows that the transaction's coordinator was asked, if the transaction isn't open in the partition.
    pub guard: Option<VerificationGuard>,
}

/// Records to write together, and what follows once they are committed. With no records, what follows waits for what was
/// written before.
#[derive(Clone, Debug)]
pub(super) struct Write<S: ShardState> {
    pub(super) records: Vec<S::Record>,
    pub(super) then: OnCommit<S>,
}

/// What follows a write.
#[derive(Clone, Debug)]
pub(super) enum OnCommit<S: ShardState> {
    Nothing,
    /// A request is answered.
    Answer(Ticket, S::Reply),
    /// The shard goes on.
    FollowUp(Arc<str>, S::FollowUp),
}

/// What a command leads to, and what it may know beside the state.
#[derive(Debug)]
pub(super) struct Effects<'a, S: ShardState> {
    pub(super) now: Now,
    pub(super) settings: &'a CoordinatorSettings,
    /// What there is in the cluster: topics, configs.
    pub(super) controller: &'a Controller,
    pub(super) entropy: &'a mut Entropy,
    /// The epoch in which this broker leads the shard's partition.
    pub(super) leader_epoch: i32,
    /// The group or transactional id that the command is about, to which timers belong.
    id: Arc<str>,
    has_uncommitted: bool,
    next_ticket: &'a mut u64,
    answers: Vec<(Ticket, Result<S::Reply, ErrorCode>)>,
    /// Milliseconds from now; none to cancel.
    timers: Vec<(Arc<str>, S::TimerKind, Option<i64>)>,
    writes: Vec<(Write<S>, Option<InTransaction>)>,
    messages: Vec<S::Message>,
}

impl<S: ShardState> Effects<'_, S> {
    /// Whether something that the state has, or that this command leads to, isn't committed yet: who is told of it must
    /// wait.
    pub(super) fn has_uncommitted(&self) -> bool {
        self.has_uncommitted || !self.writes.is_empty()
    }

    /// From here on, timers belong to this group or transactional id.
    pub(super) fn turn_to(&mut self, id: &Arc<str>) {
        self.id = id.clone();
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        *self.next_ticket += 1;
        Ticket { kind: S::KIND, serial: *self.next_ticket }
    }

    pub(super) fn answer(&mut self, ticket: Ticket, reply: S::Reply) {
        self.answers.push((ticket, Ok(reply)));
    }

    pub(super) fn fail(&mut self, ticket: Ticket, error: ErrorCode) {
        self.answers.push((ticket, Err(error)));
    }

    pub(super) fn schedule(&mut self, kind: S::TimerKind, after_ms: i64) {
        self.timers.push((self.id.clone(), kind, Some(after_ms.max(0))));
    }

    pub(super) fn cancel(&mut self, kind: S::TimerKind) {
        self.timers.push((self.id.clone(), kind, None));
    }

    pub(super) fn write(&mut self, write: Write<S>) {
        self.writes.push((write, None));
    }

    /// Writes something that counts once a producer's transaction is committed.
    pub(super) fn write_in_transaction(&mut self, write: Write<S>, transaction: InTransaction) {
        self.writes.push((write, Some(transaction)));
    }

    pub(super) fn send(&mut self, message: S::Message) {
        self.messages.push(message);
    }
}

/// What becomes of timers.
#[derive(Clone, Debug)]
pub(super) enum ShardTimer<S: ShardState> {
    /// One is to be set, set anew, or (without a deadline) cancelled.
    One { id: Arc<str>, kind: S::TimerKind, deadline: Option<Instant> },
    /// All of this partition are to be cancelled.
    AllOf { index: i32 },
}

/// A ticket that somebody holds.
#[derive(Clone, Debug)]
struct Held<S: ShardState> {
    /// The partition whose shard will answer.
    index: i32,
    answer: Option<Result<S::Reply, ErrorCode>>,
}

/// The shards of one kind that one broker has: one for each partition of the topic that it leads.
#[derive(Clone, Debug)]
pub(super) struct Runtime<S: ShardState> {
    /// By partition.
    shards: BTreeMap<i32, Shard<S>>,
    loading: Loading<S>,
    /// Shards that are of no use any more, and since when there are some: to free all at once may take long.
    remains: Vec<Shard<S>>,
    remains_since: Instant,
    entropy: Entropy,
    next_ticket: u64,
    /// Tickets that somebody holds, and what they are answered with once they are.
    tickets: FxHashMap<Ticket, Held<S>>,
    next_clean_up: Option<Instant>,
    /// Shards that this round has still to clean up, the next one last, and since when.
    uncleaned: Vec<i32>,
    cleaning_since: Instant,
    /// Tickets that were answered and not taken yet.
    pub(super) answered: Vec<Ticket>,
    /// Timers to be set or cancelled, in this order.
    pub(super) timers: Vec<ShardTimer<S>>,
    /// When the first request that waits for a write is told that it may not be committed, or earlier.
    write_deadline: Option<Instant>,
    /// How many writes the log has refused.
    failed_writes: u64,
    /// Partitions that were written to.
    pub(super) written: Vec<PartitionKey>,
    /// What is to be told to other brokers, in this order.
    pub(super) messages: Vec<S::Message>,
}

/// The settings and storage of a call.
pub(super) struct Call<'a, 'b> {
    pub(super) settings: &'a CoordinatorSettings,
    pub(super) storage: &'a mut Storage<'b>,
}

impl<S: ShardState> Runtime<S> {
    pub(super) fn new(entropy: Entropy) -> Self {
        Runtime {
            shards: BTreeMap::new(),
            loading: Loading::default(),
            remains: Vec::new(),
            remains_since: Instant::ZERO,
            entropy,
            next_ticket: 0,
            tickets: FxHashMap::default(),
            next_clean_up: None,
            uncleaned: Vec::new(),
            cleaning_since: Instant::ZERO,
            answered: Vec::new(),
            timers: Vec::new(),
            write_deadline: None,
            failed_writes: 0,
            written: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// This broker doesn't lead the partition any more: whoever waits has to look for the new coordinator.
    pub(super) fn unload(&mut self, key: PartitionKey, now: Instant) {
        let unfinished = self.loading.forget(key.index);
        self.discard(unfinished, now);
        let Some(shard) = self.shards.remove(&key.index) else { return };
        self.discard([shard], now);
        self.timers.push(ShardTimer::AllOf { index: key.index });
        let waiting =
            self.tickets.iter().filter(|(_, held)| held.index == key.index && held.answer.is_none());
        let mut waiting: Vec<Ticket> = waiting.map(|(ticket, _)| *ticket).collect();
        waiting.sort_unstable();
        for ticket in waiting {
            self.answer(ticket, Err(ErrorCode::NotCoordinator));
        }
    }

    /// What the coordinator of a process that is gone still has is to be freed.
    pub(super) fn inherit(&mut self, gone: Self, now: Instant) {
        self.discard(gone.shards.into_values().chain(gone.remains), now);
    }

    fn discard(&mut self, shards: impl IntoIterator<Item = Shard<S>>, now: Instant) {
        if self.remains.is_empty() {
            self.remains_since = now;
        }
        self.remains.extend(shards);
    }

    /// Frees a shard that is of no use any more.
    pub(super) fn free_one(&mut self) {
        self.remains.pop();
    }

    /// When to call [`free_one`](Self::free_one).
    pub(super) fn next_freeing(&self) -> Option<Instant> {
        (!self.remains.is_empty()).then_some(self.remains_since)
    }

    /// The state that this id belongs to, with what isn't committed yet.
    ///
    /// # Errors
    /// NOT_COORDINATOR if this broker doesn't have it, COORDINATOR_LOAD_IN_PROGRESS if it doesn't have it yet.
    pub(super) fn state_for(&self, settings: &CoordinatorSettings, id: &str) -> Result<&S, ErrorCode> {
        self.committed_state_for(settings, id).map(|(state, _)| state)
    }

    /// The state that this id belongs to, and what readers are told instead where that isn't committed yet.
    ///
    /// # Errors
    /// As [`state_for`](Self::state_for).
    pub(super) fn committed_state_for(
        &self,
        settings: &CoordinatorSettings,
        id: &str,
    ) -> Result<(&S, &S::Kept), ErrorCode> {
        let index = partition_for(id, S::partitions(settings));
        let shard = self.shards.get(&index).ok_or_else(|| self.loading.instead_of(index))?;
        Ok((&shard.state, &shard.kept))
    }

    /// As [`committed_state_for`](Self::committed_state_for), of all shards.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS if one of them isn't there yet.
    pub(super) fn committed_states(&self) -> Result<impl Iterator<Item = (&S, &S::Kept)>, ErrorCode> {
        if !self.loading.is_empty() {
            return Err(ErrorCode::CoordinatorLoadInProgress);
        }
        Ok(self.shards.values().map(|shard| (&shard.state, &shard.kept)))
    }

    /// The states of all shards, with what isn't committed yet.
    pub(super) fn states(&self) -> impl Iterator<Item = &S> {
        self.shards.values().map(|shard| &shard.state)
    }

    /// The states of all shards, to be changed in what no record says.
    pub(super) fn states_mut(&mut self) -> impl Iterator<Item = &mut S> {
        self.shards.values_mut().map(|shard| &mut shard.state)
    }

    /// A ticket that is answered once all is committed that this id's shard has now; none if all is.
    ///
    /// # Errors
    /// As [`state_for`](Self::state_for).
    pub(super) fn once_committed(
        &mut self,
        call: &mut Call<'_, '_>,
        id: &Arc<str>,
        reply: S::Reply,
    ) -> Result<Option<Ticket>, ErrorCode> {
        let index = partition_for(id, S::partitions(call.settings));
        let shard = self.shards.get(&index).ok_or_else(|| self.loading.instead_of(index))?;
        if shard.ahead.is_empty() {
            return Ok(None);
        }
        self.run_on(call, index, id, |_, effects| {
            let ticket = effects.ticket();
            effects.write(Write { records: Vec::new(), then: OnCommit::Answer(ticket, reply) });
            Ok(Some(ticket))
        })
    }

    /// A marker was written into one of the topic's partitions.
    pub(super) fn end_transaction(
        &mut self,
        call: &mut Call<'_, '_>,
        key: PartitionKey,
        producer_id: i64,
        committed: bool,
    ) {
        // One that is still loading comes to the marker by itself.
        let Some(shard) = self.shards.get_mut(&key.index).filter(|shard| shard.key == key) else { return };
        let Some(replica) = call.storage.replicas.replica(key) else { return };
        shard.last_written = replica.log().log_end_offset();
        let commits = (shard.last_written, replica.high_watermark());
        shard.end_transaction(producer_id, committed, commits, call.storage.now);
    }

    /// Runs a command on the shard of its group or transactional id, and carries out what it leads to.
    pub(super) fn run<R>(
        &mut self,
        call: &mut Call<'_, '_>,
        id: &Arc<str>,
        command: impl FnOnce(&mut S, &mut Effects<'_, S>) -> Result<R, ErrorCode>,
    ) -> Result<R, ErrorCode> {
        let index = partition_for(id, S::partitions(call.settings));
        self.run_on(call, index, id, command)
    }

    fn run_on<R>(
        &mut self,
        call: &mut Call<'_, '_>,
        index: i32,
        id: &Arc<str>,
        command: impl FnOnce(&mut S, &mut Effects<'_, S>) -> Result<R, ErrorCode>,
    ) -> Result<R, ErrorCode> {
        let Some(shard) = self.shards.get_mut(&index) else { return Err(self.loading.instead_of(index)) };
        let high_watermark = call.storage.replicas.replica(shard.key).map_or(0, Replica::high_watermark);
        let leader_epoch = call.storage.replicas.replica(shard.key).map_or(-1, Replica::leader_epoch);
        let first_ticket = self.next_ticket + 1;
        let now = call.storage.now;
        let mut effects = Effects {
            now,
            settings: call.settings,
            controller: call.storage.controller,
            entropy: &mut self.entropy,
            leader_epoch,
            id: id.clone(),
            has_uncommitted: shard.last_written > high_watermark,
            next_ticket: &mut self.next_ticket,
            answers: Vec::new(),
            timers: Vec::new(),
            writes: Vec::new(),
            messages: Vec::new(),
        };
        let result = command(&mut shard.state, &mut effects);
        let Effects { answers, timers, writes, messages, .. } = effects;
        let new = (first_ticket..=self.next_ticket).map(|serial| Ticket { kind: S::KIND, serial });
        self.tickets.extend(new.map(|ticket| (ticket, Held { index, answer: None })));
        for (ticket, answer) in answers {
            self.answer(ticket, answer);
        }
        self.timers.extend(timers.into_iter().map(|(id, kind, after_ms)| {
            let after = after_ms.map(|after_ms| Duration::from_millis(u64::try_from(after_ms).unwrap_or(0)));
            ShardTimer::One { id, kind, deadline: after.map(|after| now.instant + after) }
        }));
        self.messages.extend(messages);
        let mut failed = None;
        for (write, transaction) in writes {
            // Whoever waits for what is written before has what the command wrote before in mind, too.
            match failed.filter(|_| write.records.is_empty()) {
                Some(error) => self.follow_up(call, index, write.then, Err(error)),
                None => failed = self.write(call, index, write, transaction).err().or(failed),
            }
        }
        result
    }

    /// A timer has fired.
    pub(super) fn handle_timer(&mut self, call: &mut Call<'_, '_>, id: &Arc<str>, kind: &S::TimerKind) {
        let failed = self.failed_writes;
        // It is none any more.
        self.timers.push(ShardTimer::One { id: id.clone(), kind: kind.clone(), deadline: None });
        let fired = self.run(call, id, |state, effects| {
            let retries = state.retries_timer(id, kind);
            state.timer(id, kind, effects);
            Ok(retries)
        });
        // A shard that was unloaded has no timers to speak of.
        if fired == Ok(true) && self.failed_writes != failed {
            let deadline = Some(call.storage.now.instant + TIMER_BACKOFF);
            self.timers.push(ShardTimer::One { id: id.clone(), kind: kind.clone(), deadline });
        }
    }

    /// The high watermark of one of the topic's partitions has risen.
    pub(super) fn committed(&mut self, call: &mut Call<'_, '_>, key: PartitionKey) {
        let Some(replica) = call.storage.replicas.replica(key) else { return };
        let high_watermark = replica.high_watermark();
        self.go_on_waiting(call, key);
        if let Some(shard) = self.shards.get_mut(&key.index).filter(|shard| shard.key == key)
            && !shard.ahead.is_empty()
        {
            shard.catch_up(high_watermark, call.storage.now);
        }
        while let Some(shard) = self.shards.get_mut(&key.index).filter(|shard| shard.key == key) {
            if shard.uncommitted.front().is_none_or(|first| first.required > high_watermark) {
                return;
            }
            if let Some(Uncommitted { then, .. }) = shard.uncommitted.pop_front() {
                self.follow_up(call, key.index, then, Ok(()));
            }
        }
    }

    /// Whether there is anything to take.
    pub(super) fn has_news(&self) -> bool {
        !(self.timers.is_empty()
            && self.written.is_empty()
            && self.answered.is_empty()
            && self.messages.is_empty())
    }

    /// When [`Runtime::handle_timeout`] must be called next.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let cleaning = (!self.uncleaned.is_empty()).then_some(self.cleaning_since);
        let deadlines =
            [cleaning, self.next_clean_up, self.write_deadline, self.loading.since(), self.next_freeing()];
        deadlines.into_iter().flatten().min()
    }

    /// Goes on with loading and freeing, gives up waiting for writes, and writes down what has expired, where it is time
    /// to.
    pub(super) fn handle_timeout(&mut self, call: &mut Call<'_, '_>, is_topic: &dyn Fn(&str) -> bool) {
        self.free_one();
        self.go_on_loading(call);
        self.expire_writes(call);
        self.clean_up(call, is_topic);
    }

    /// Tells those who have waited for their writes for too long that they may not be committed. They may be yet.
    fn expire_writes(&mut self, call: &mut Call<'_, '_>) {
        let now = call.storage.now.instant;
        if self.write_deadline.take_if(|due| *due <= now).is_none() {
            return;
        }
        let mut expired = Vec::new();
        for (index, shard) in &mut self.shards {
            while shard.uncommitted.front().is_some_and(|write| write.deadline <= now) {
                expired.extend(shard.uncommitted.pop_front().map(|write| (*index, write.then)));
            }
        }
        let first = |shard: &Shard<S>| shard.uncommitted.front().map(|write| write.deadline);
        self.write_deadline = self.shards.values().filter_map(first).min();
        for (index, then) in expired {
            self.follow_up(call, index, then, Err(ErrorCode::CoordinatorNotAvailable));
        }
    }

    /// Writes down what has expired, if it is time to: in one shard a call, so that others have their turn between.
    fn clean_up(&mut self, call: &mut Call<'_, '_>, is_topic: &dyn Fn(&str) -> bool) {
        let now = call.storage.now;
        if self.next_clean_up.take_if(|due| *due <= now.instant).is_some() {
            if !self.shards.is_empty() {
                let interval = Duration::from_millis(S::clean_up_interval_ms(call.settings).max(1) as u64);
                self.next_clean_up = Some(now.instant + interval);
            }
            self.uncleaned = self.shards.keys().rev().copied().collect();
            self.cleaning_since = now.instant;
        }
        let Some(index) = self.uncleaned.pop() else { return };
        if let Some(shard) = self.shards.get(&index) {
            let records = shard.state.clean_up(call.settings, is_topic, now.wall);
            self.write_in_parts(call, index, records);
        }
    }

    /// Whether this broker leads no partition of the topic.
    pub(super) fn is_empty(&self) -> bool {
        self.shards.is_empty()
    }

    /// Writes what each shard wants written, in batches that the log takes.
    pub(super) fn write_of_each(&mut self, call: &mut Call<'_, '_>, of: impl Fn(&S) -> Vec<S::Record>) {
        let indexes: Vec<i32> = self.shards.keys().copied().collect();
        for index in indexes {
            let records = self.shards.get(&index).map(|shard| of(&shard.state)).unwrap_or_default();
            self.write_in_parts(call, index, records);
        }
    }

    /// Writes records that need not stand or fall together, in batches that the log takes.
    fn write_in_parts(&mut self, call: &mut Call<'_, '_>, index: i32, records: Vec<S::Record>) {
        /// A key is 64 KiB at most, and a part is closed by the key that reaches this.
        const PART_BYTES: usize = 512 << 10;
        let mut part = Vec::new();
        let mut bytes = 0;
        for record in records {
            bytes += record.key_bytes();
            part.push(record);
            if bytes >= PART_BYTES {
                let records = std::mem::take(&mut part);
                self.write_for_nobody(call, index, records);
                bytes = 0;
            }
        }
        if !part.is_empty() {
            self.write_for_nobody(call, index, part);
        }
    }

    /// Writes what nobody waits for.
    fn write_for_nobody(&mut self, call: &mut Call<'_, '_>, index: i32, records: Vec<S::Record>) {
        let write = Write { records, then: OnCommit::Nothing };
        // What has failed is counted, and tried again when it is due next.
        let _: Result<(), ErrorCode> = self.write(call, index, write, None);
    }

    /// The answer of a ticket, if it has come.
    pub(super) fn take_answer(&mut self, ticket: Ticket) -> Option<Result<S::Reply, ErrorCode>> {
        self.tickets.get(&ticket)?.answer.as_ref()?;
        self.tickets.remove(&ticket)?.answer
    }

    /// Whoever held this ticket is gone.
    pub(super) fn forget(&mut self, ticket: Ticket) {
        self.tickets.remove(&ticket);
    }

    fn write(
        &mut self,
        call: &mut Call<'_, '_>,
        index: i32,
        write: Write<S>,
        transaction: Option<InTransaction>,
    ) -> Result<(), ErrorCode> {
        let Some(shard) = self.shards.get_mut(&index) else { return Err(ErrorCode::NotCoordinator) };
        let key = shard.key;
        let appended = match &write.records[..] {
            [] => Ok(shard.last_written),
            records => append::<S>(call.storage, key, records, transaction),
        };
        match appended {
            Ok(required) => {
                shard.last_written = required;
                let producer_id = transaction.map(|transaction| transaction.producer.id);
                let replica = call.storage.replicas.replica(key);
                let commits = (required, replica.map_or(0, Replica::high_watermark));
                shard.replay(write.records, producer_id, commits, call.storage.now, S::is_known);
                let timeout = Duration::from_millis(call.settings.write_timeout_ms.max(1) as u64);
                let deadline = call.storage.now.instant + timeout;
                shard.uncommitted.push_back(Uncommitted { required, deadline, then: write.then });
                self.written.push(key);
                self.committed(call, key);
                let is_waiting = self.shards.get(&index).is_some_and(|shard| !shard.uncommitted.is_empty());
                if is_waiting && S::WRITES_EXPIRE {
                    self.write_deadline.get_or_insert(deadline);
                }
                Ok(())
            }
            Err(error) => {
                self.failed_writes += 1;
                self.follow_up(call, index, write.then, Err(error));
                Err(error)
            }
        }
    }

    /// What comes after a write, or after it failed.
    fn follow_up(
        &mut self,
        call: &mut Call<'_, '_>,
        index: i32,
        then: OnCommit<S>,
        written: Result<(), ErrorCode>,
    ) {
        match then {
            OnCommit::Nothing => {}
            OnCommit::Answer(ticket, reply) => self.answer(ticket, written.map(|()| reply)),
            OnCommit::FollowUp(id, follow_up) => {
                debug_assert_eq!(partition_for(&id, S::partitions(call.settings)), index);
                let followed = self.run_on(call, index, &id, |state, effects| {
                    state.follow_up(&id, follow_up, written, effects);
                    Ok(())
                });
                // A shard that was unloaded meanwhile has nothing to go on with.
                let _: Result<(), ErrorCode> = followed;
            }
        }
    }

    fn answer(&mut self, ticket: Ticket, answer: Result<S::Reply, ErrorCode>) {
        if let Some(held) = self.tickets.get_mut(&ticket) {
            held.answer = Some(answer);
            self.answered.push(ticket);
        }
    }
}
