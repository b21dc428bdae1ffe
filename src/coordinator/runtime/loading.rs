//! How a shard comes to have the state that its partition's records say: all at once if they are few, and else some at a
//! time, so that nobody else has to wait for it. Requests to a shard that isn't there yet are told
//! COORDINATOR_LOAD_IN_PROGRESS. (Kafka's `CoordinatorLoaderImpl` reads on a thread of its own.) Transactions are there once
//! all is committed that was read ([`ShardState::LOADS_COMMITTED`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::batches::read;
use super::{Call, Runtime, Shard, ShardState};
use crate::base::planted::{Bug, is_planted};
use crate::base::{ErrorCode, Instant, PartitionKey};
use crate::coordinator::Storage;
use crate::replica::Replica;
use crate::wire::marker::Marker;

/// How many records are replayed in one go (ours): a few milliseconds. The batch that reaches this is replayed as a whole.
pub(super) const RECORDS_AT_ONCE: usize = 4_096;

/// Partitions that aren't loaded yet.
#[derive(Clone, Debug)]
pub(super) struct Loading<S: ShardState> {
    by_index: BTreeMap<i32, Part<S>>,
    /// When the first of them came.
    since: Option<Instant>,
    /// How many records were replayed at which moment, beside what [`Runtime::go_on_loading`] did: many small partitions
    /// may come at once too.
    at_once: (Instant, usize),
}

/// A partition of which a part is loaded.
#[derive(Clone, Debug)]
struct Part<S: ShardState> {
    shard: Shard<S>,
    /// All below is loaded.
    next_offset: i64,
    /// Whether all that there is is loaded, and some of it isn't committed.
    waits: bool,
}

impl<S: ShardState> Default for Loading<S> {
    fn default() -> Self {
        Loading { by_index: BTreeMap::new(), since: None, at_once: (Instant::ZERO, 0) }
    }
}

impl<S: ShardState> Loading<S> {
    pub(super) fn is_empty(&self) -> bool {
        self.by_index.is_empty()
    }

    /// When to go on: at once, if there is anything to load.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since
    }

    /// Gives up the shard of a partition, and returns what there was of it.
    pub(super) fn forget(&mut self, index: i32) -> Option<Shard<S>> {
        let part = self.by_index.remove(&index);
        self.rest();
        Some(part?.shard)
    }

    /// Nothing is to be done at any time if nothing but high watermarks is waited for.
    fn rest(&mut self) {
        if self.by_index.values().all(|part| part.waits) {
            self.since = None;
        }
    }

    /// What is said of a partition that has no shard here.
    pub(super) fn instead_of(&self, index: i32) -> ErrorCode {
        if self.by_index.contains_key(&index) {
            ErrorCode::CoordinatorLoadInProgress
        } else {
            ErrorCode::NotCoordinator
        }
    }
}

impl<S: ShardState> Runtime<S> {
    /// This broker leads a partition of the topic from now on: its state is loaded from the log.
    pub(in crate::coordinator) fn load(&mut self, call: &mut Call<'_, '_>, key: PartitionKey) {
        let is_same = |shard: &Shard<S>| shard.key == key;
        let part = self.loading.by_index.get(&key.index).map(|part| &part.shard);
        if self.shards.get(&key.index).or(part).is_some_and(is_same) {
            return;
        }
        // What is there is of a topic that is gone.
        let now = call.storage.now.instant;
        self.unload(key, now);
        let start = call.storage.replicas.replica(key).map_or(0, |replica| replica.log().log_start_offset());
        self.loading
            .by_index
            .insert(key.index, Part { shard: Shard::new(key), next_offset: start, waits: false });
        self.loading.since.get_or_insert(now);
        let (moment, replayed) = self.loading.at_once;
        let before = if moment == now { replayed } else { 0 };
        let left = RECORDS_AT_ONCE.saturating_sub(before);
        let replayed = if left > 0 { self.load_some(call, key.index, left) } else { 0 };
        self.loading.at_once = (now, before + replayed);
    }

    /// Loads some more of what is still to be loaded.
    pub(super) fn go_on_loading(&mut self, call: &mut Call<'_, '_>) {
        let mut left = RECORDS_AT_ONCE;
        while left > 0
            && let Some((&index, _)) = self.loading.by_index.iter().find(|(_, part)| !part.waits)
        {
            left = left.saturating_sub(self.load_some(call, index, left).max(1));
        }
    }

    /// The high watermark of a partition has risen: if that was all that its loading waits for, it is loaded.
    pub(super) fn go_on_waiting(&mut self, call: &mut Call<'_, '_>, key: PartitionKey) {
        let part = self.loading.by_index.get(&key.index);
        if part.is_some_and(|part| part.waits && part.shard.key == key) {
            self.load_some(call, key.index, RECORDS_AT_ONCE);
        }
    }

    /// Loads records of a partition until there are no more, or `most` are replayed. Returns how many were.
    fn load_some(&mut self, call: &mut Call<'_, '_>, index: i32, most: usize) -> usize {
        let Some(part) = self.loading.by_index.get_mut(&index) else { return 0 };
        let (replayed, is_done) = part.advance(call.storage, most);
        part.waits = is_done && S::LOADS_COMMITTED && !part.is_committed(call.storage);
        if part.waits {
            self.loading.rest();
        } else if !is_done {
            self.loading.since.get_or_insert(call.storage.now.instant);
        } else if let Some(part) = self.loading.by_index.remove(&index) {
            self.loading.forget(index);
            self.loaded(call, part.shard);
        }
        replayed
    }

    /// All of a partition is loaded.
    fn loaded(&mut self, call: &mut Call<'_, '_>, shard: Shard<S>) {
        let key = shard.key;
        self.shards.insert(key.index, shard);
        let interval = Duration::from_millis(S::clean_up_interval_ms(call.settings).max(1) as u64);
        self.next_clean_up.get_or_insert(call.storage.now.instant + interval);
        let loaded = self.run_on(call, key.index, &Arc::from(""), |state, effects| {
            state.loaded(effects);
            Ok(())
        });
        debug_assert!(loaded.is_ok(), "the shard was just put there");
        // What was loaded first may be committed since.
        self.committed(call, key);
    }
}

impl<S: ShardState> Part<S> {
    fn is_committed(&self, storage: &Storage<'_>) -> bool {
        let high_watermark = storage.replicas.replica(self.shard.key).map(Replica::high_watermark);
        high_watermark.is_none_or(|high_watermark| high_watermark >= self.next_offset)
    }

    /// Replays records from where it stopped. Returns how many, and whether there are no more.
    fn advance(&mut self, storage: &Storage<'_>, most: usize) -> (usize, bool) {
        let Part { shard, next_offset, .. } = self;
        let Some(replica) = storage.replicas.replica(shard.key) else { return (0, true) };
        let high_watermark = Replica::high_watermark(replica);
        let mut replayed = 0;
        for batch in replica.log().batches_from(*next_offset) {
            if replayed >= most {
                return (replayed, false);
            }
            let required = batch.view.last_offset() + 1;
            *next_offset = required;
            replayed += batch.view.count().max(1) as usize;
            let producer_id = batch.view.is_transactional().then(|| batch.view.producer_id());
            let commits = (required, high_watermark);
            if batch.view.is_control() {
                if let (Some(producer_id), Some(marker)) = (producer_id, Marker::read(batch.bytes)) {
                    shard.end_transaction(producer_id, marker.commit, commits, storage.now);
                }
                continue;
            }
            if is_planted(Bug::ForgetsCommits) && batch.view.base_offset() % 3 != 0 {
                continue;
            }
            let records = read(batch.view, batch.bytes);
            shard.replay(records, producer_id, commits, storage.now, |_| false);
        }
        shard.last_written = replica.log().log_end_offset();
        (replayed, true)
    }
}
