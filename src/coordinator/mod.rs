//! The coordinators of one broker: a shard for each partition of `__consumer_offsets` that it leads.
//!
//! The runtime is written once, here. A command runs against its shard's state and leaves effects; what it wants
//! written is appended to the shard's partition as one batch and applied to the state; who waits for it is answered
//! once the high watermark has passed it. Loading a partition applies the same records. Requests that wait hold a
//! [`Ticket`]; timers are a list of changes that the owner carries out. It knows no wire format and no purgatory.

pub mod groups;
pub mod records;

mod subscription;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::base::entropy::Entropy;
use crate::base::{ErrorCode, Instant, Now, PartitionKey, WallTime};
use crate::controller::configs::BrokerSettings;
use crate::log::ChunkPool;
use crate::replica::Replicas;
use crate::wire::batch::{BatchView, Codec, HEADER_LEN};
use crate::wire::compression::{CompressError, decompress};
use crate::wire::records::{BatchBuilder, BatchHeader, RecordIter};
use groups::{
    Commit, Effects, GroupReply, Groups, Join, JoinReply, Leaver, OnCommit, Outcome, Sync, SyncReply,
    TimerKind, Write,
};
use records::Record;

/// A request that waits for its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// The broker's settings that groups need.
#[derive(Clone, Debug)]
pub struct CoordinatorSettings {
    /// `offsets.topic.num.partitions`.
    pub partitions: i32,
    /// `group.initial.rebalance.delay.ms`.
    pub initial_rebalance_delay_ms: i64,
    /// `group.min.session.timeout.ms`.
    pub min_session_timeout_ms: i32,
    /// `group.max.session.timeout.ms`.
    pub max_session_timeout_ms: i32,
    /// `group.max.size`.
    pub max_size: usize,
    /// `offset.metadata.max.bytes`.
    pub offset_metadata_max_bytes: usize,
    /// `offsets.retention.minutes`, in ms.
    pub offsets_retention_ms: i64,
    /// `offsets.retention.check.interval.ms`.
    pub retention_check_interval_ms: i64,
}

impl CoordinatorSettings {
    /// What these settings say of groups.
    pub fn new(settings: &BrokerSettings) -> Self {
        let millis = |ms: u64| i64::try_from(ms).unwrap_or(i64::MAX);
        CoordinatorSettings {
            partitions: settings.offsets.topic_num_partitions,
            initial_rebalance_delay_ms: millis(settings.groups.group_initial_rebalance_delay_ms),
            min_session_timeout_ms: settings.groups.group_min_session_timeout_ms,
            max_session_timeout_ms: settings.groups.group_max_session_timeout_ms,
            max_size: settings.groups.group_max_size,
            offset_metadata_max_bytes: settings.offsets.metadata_max_bytes,
            offsets_retention_ms: millis(settings.offsets.retention_minutes.saturating_mul(60_000)),
            retention_check_interval_ms: millis(settings.offsets.retention_check_interval_ms),
        }
    }
}

/// What a timer belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TimerKey {
    /// The group.
    pub group: Arc<str>,
    /// Which of its timers.
    pub kind: TimerKind,
}

/// A timer to be set, set anew, or (without a deadline) cancelled.
#[derive(Clone, Debug)]
pub struct TimerChange {
    /// Which.
    pub key: TimerKey,
    /// When it fires.
    pub deadline: Option<Instant>,
}

/// What the runtime needs of the broker for a call.
#[derive(Debug)]
pub struct Storage<'a> {
    /// The moment of the call.
    pub now: Now,
    /// The broker's logs.
    pub replicas: &'a mut Replicas,
    /// Their memory.
    pub pool: &'a mut ChunkPool,
}

#[derive(Clone, Debug)]
struct Shard {
    key: PartitionKey,
    groups: Groups,
    /// What follows writes that aren't committed yet, by the high watermark that commits them.
    uncommitted: VecDeque<(i64, OnCommit)>,
}

/// The group coordinators of one broker.
#[derive(Clone, Debug)]
pub struct Coordinators {
    settings: CoordinatorSettings,
    /// By partition of `__consumer_offsets`.
    shards: BTreeMap<i32, Shard>,
    entropy: Entropy,
    next_ticket: u64,
    /// Tickets that somebody holds, and what they are answered with once they are.
    tickets: FxHashMap<Ticket, Option<Result<GroupReply, ErrorCode>>>,
    /// Tickets that were answered since [`Coordinators::take_answered`].
    answered: Vec<Ticket>,
    timers: Vec<TimerChange>,
    next_clean_up: Option<Instant>,
    /// Partitions of `__consumer_offsets` that were written to since [`Coordinators::take_written`].
    written: Vec<PartitionKey>,
}

/// Java's `String.hashCode`.
fn java_hash(text: &str) -> i32 {
    text.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)))
}

/// The partition of `__consumer_offsets` that a group belongs to: Java's hash of its name.
pub fn partition_for(group: &str, partitions: i32) -> i32 {
    let hash = java_hash(group);
    let positive = if hash == i32::MIN { 0 } else { hash.abs() };
    positive % partitions.max(1)
}

impl Coordinators {
    /// None yet.
    pub fn new(settings: CoordinatorSettings, entropy: Entropy) -> Self {
        Coordinators {
            settings,
            shards: BTreeMap::new(),
            entropy,
            next_ticket: 0,
            tickets: FxHashMap::default(),
            answered: Vec::new(),
            timers: Vec::new(),
            next_clean_up: None,
            written: Vec::new(),
        }
    }

    /// The settings.
    pub fn settings(&self) -> &CoordinatorSettings {
        &self.settings
    }

    /// This broker leads a partition of `__consumer_offsets` from now on: its groups are loaded from the log.
    pub fn load(&mut self, key: PartitionKey, storage: &Storage<'_>) {
        if self.shards.get(&key.index).is_some_and(|shard| shard.key == key) {
            return;
        }
        let mut groups = Groups::default();
        if let Some(replica) = storage.replicas.replica(key) {
            for batch in replica.log().batches() {
                for record in read(batch.view, batch.bytes) {
                    groups.apply(&record, storage.now);
                }
            }
        }
        for (group, kind, after_ms) in groups.start_sessions() {
            self.set_timer(storage.now, group, kind, Some(after_ms));
        }
        self.shards.insert(key.index, Shard { key, groups, uncommitted: VecDeque::new() });
        let interval = self.settings.retention_check_interval_ms;
        self.next_clean_up
            .get_or_insert(storage.now.instant + std::time::Duration::from_millis(interval as u64));
    }

    /// This broker doesn't lead the partition any more: whoever waits has to look for the new coordinator.
    pub fn unload(&mut self, key: PartitionKey) {
        let Some(shard) = self.shards.remove(&key.index) else { return };
        for (_, then) in shard.uncommitted {
            if let OnCommit::Answer(ticket, _) = then {
                self.answer(ticket, Err(ErrorCode::NotCoordinator));
            }
        }
    }

    /// The groups of a shard.
    ///
    /// # Errors
    /// NOT_COORDINATOR if this broker doesn't have it.
    pub fn groups_for(&self, group: &str) -> Result<&Groups, ErrorCode> {
        let index = partition_for(group, self.settings.partitions);
        self.shards.get(&index).map(|shard| &shard.groups).ok_or(ErrorCode::NotCoordinator)
    }

    /// The groups of all shards.
    pub fn all_groups(&self) -> impl Iterator<Item = &Groups> {
        self.shards.values().map(|shard| &shard.groups)
    }

    /// JoinGroup.
    ///
    /// # Errors
    /// NOT_COORDINATOR.
    pub fn join(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        join: Join,
    ) -> Result<Outcome<JoinReply>, ErrorCode> {
        self.run(storage, group, |groups, effects| Ok(groups.join(group, join, effects)))
    }

    /// SyncGroup.
    ///
    /// # Errors
    /// As the group's state has them, or NOT_COORDINATOR.
    pub fn sync(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        sync: Sync,
    ) -> Result<Outcome<SyncReply>, ErrorCode> {
        self.run(storage, group, |groups, effects| groups.sync(group, sync, effects))
    }

    /// Heartbeat.
    ///
    /// # Errors
    /// As the group's state has them, or NOT_COORDINATOR.
    pub fn heartbeat(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        self.run(storage, group, |groups, effects| {
            groups.heartbeat(group, member_id, instance_id, generation, effects)
        })
    }

    /// LeaveGroup: an outcome for each who leaves.
    ///
    /// # Errors
    /// COORDINATOR_NOT_AVAILABLE or NOT_COORDINATOR, for all.
    pub fn leave(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        leavers: &[Leaver],
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        self.run(storage, group, |groups, effects| groups.leave(group, leavers, effects))
    }

    /// OffsetCommit: the ticket of the write, if there is one, and an outcome for each partition.
    ///
    /// # Errors
    /// For all partitions.
    pub fn commit(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        commit: Commit,
    ) -> Result<(Option<Ticket>, Vec<ErrorCode>), ErrorCode> {
        self.run(storage, group, |groups, effects| groups.commit(group, commit, effects))
    }

    /// OffsetDelete: the ticket of the write, if there is one, and an outcome for each partition.
    ///
    /// # Errors
    /// For all partitions.
    pub fn delete_offsets(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        partitions: &[(Arc<str>, i32)],
    ) -> Result<(Option<Ticket>, Vec<ErrorCode>), ErrorCode> {
        self.run(storage, group, |groups, effects| groups.delete_offsets(group, partitions, effects))
    }

    /// DeleteGroups, of one group.
    ///
    /// # Errors
    /// GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP or NOT_COORDINATOR.
    pub fn delete_group(&mut self, storage: &mut Storage<'_>, group: &Arc<str>) -> Result<Ticket, ErrorCode> {
        self.run(storage, group, |groups, effects| groups.delete(group, effects))
    }

    /// A timer has fired.
    pub fn handle_timer(&mut self, storage: &mut Storage<'_>, key: &TimerKey) {
        let fired = self.run(storage, &key.group, |groups, effects| {
            groups.timer(&key.group, &key.kind, effects);
            Ok(())
        });
        // A shard that was unloaded has no timers to speak of.
        let _: Result<(), ErrorCode> = fired;
    }

    /// The high watermark of a partition of `__consumer_offsets` has risen.
    pub fn committed(&mut self, storage: &mut Storage<'_>, key: PartitionKey) {
        let Some(replica) = storage.replicas.replica(key) else { return };
        let high_watermark = replica.high_watermark();
        while let Some(shard) = self.shards.get_mut(&key.index).filter(|shard| shard.key == key) {
            match shard.uncommitted.front() {
                Some((required, _)) if *required <= high_watermark => {}
                _ => return,
            }
            if let Some((_, then)) = shard.uncommitted.pop_front() {
                self.follow_up(storage, key.index, then, Ok(()));
            }
        }
    }

    /// When [`Coordinators::clean_up`] must be called next.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.next_clean_up
    }

    /// Drops expired offsets and empty groups, if it is time to.
    pub fn clean_up(&mut self, storage: &mut Storage<'_>, is_topic: impl Fn(&str) -> bool) {
        let now = storage.now;
        if self.next_clean_up.take_if(|due| *due <= now.instant).is_none() {
            return;
        }
        if !self.shards.is_empty() {
            let interval =
                std::time::Duration::from_millis(self.settings.retention_check_interval_ms.max(1) as u64);
            self.next_clean_up = Some(now.instant + interval);
        }
        let retention_ms = self.settings.offsets_retention_ms;
        let indexes: Vec<i32> = self.shards.keys().copied().collect();
        for index in indexes {
            let Some(shard) = self.shards.get(&index) else { continue };
            let records = shard.groups.clean_up(retention_ms, &is_topic, now.wall);
            self.write_in_parts(storage, index, records);
        }
    }

    /// A topic is gone, and what was committed for it with it.
    pub fn forget_topic(&mut self, storage: &mut Storage<'_>, topic: &str) {
        let indexes: Vec<i32> = self.shards.keys().copied().collect();
        for index in indexes {
            let records =
                self.shards.get(&index).map(|shard| shard.groups.offsets_of_topic(topic)).unwrap_or_default();
            self.write_in_parts(storage, index, records);
        }
    }

    /// Writes records that need not stand or fall together, in batches that the log takes.
    fn write_in_parts(&mut self, storage: &mut Storage<'_>, index: i32, records: Vec<Record>) {
        /// A key is 64 KiB at most, and a part is closed by the key that reaches this.
        const PART_BYTES: usize = 512 << 10;
        let mut part = Vec::new();
        let mut bytes = 0;
        for record in records {
            bytes += record.key_bytes();
            part.push(record);
            if bytes >= PART_BYTES {
                let records = std::mem::take(&mut part);
                self.write(storage, index, Write { records, then: OnCommit::Nothing });
                bytes = 0;
            }
        }
        if !part.is_empty() {
            self.write(storage, index, Write { records: part, then: OnCommit::Nothing });
        }
    }

    /// The answer of a ticket, if it has come.
    pub fn take_answer(&mut self, ticket: Ticket) -> Option<Result<GroupReply, ErrorCode>> {
        self.tickets.get(&ticket)?.as_ref()?;
        self.tickets.remove(&ticket).flatten()
    }

    /// Whoever held this ticket is gone.
    pub fn forget(&mut self, ticket: Ticket) {
        self.tickets.remove(&ticket);
    }

    /// Tickets that were answered since the last call.
    pub fn take_answered(&mut self) -> Vec<Ticket> {
        std::mem::take(&mut self.answered)
    }

    /// Timers to be set or cancelled since the last call, in this order.
    pub fn take_timers(&mut self) -> Vec<TimerChange> {
        std::mem::take(&mut self.timers)
    }

    /// Partitions that were written to since the last call.
    pub fn take_written(&mut self) -> Vec<PartitionKey> {
        std::mem::take(&mut self.written)
    }

    /// Runs a command on its shard and carries out what it leads to.
    fn run<R>(
        &mut self,
        storage: &mut Storage<'_>,
        group: &Arc<str>,
        command: impl FnOnce(&mut Groups, &mut Effects<'_>) -> Result<R, ErrorCode>,
    ) -> Result<R, ErrorCode> {
        let index = partition_for(group, self.settings.partitions);
        let shard = self.shards.get_mut(&index).ok_or(ErrorCode::NotCoordinator)?;
        let first_ticket = self.next_ticket + 1;
        let mut effects = Effects {
            now: storage.now,
            settings: &self.settings,
            entropy: &mut self.entropy,
            next_ticket: &mut self.next_ticket,
            answers: Vec::new(),
            timers: Vec::new(),
            writes: Vec::new(),
        };
        let result = command(&mut shard.groups, &mut effects);
        let Effects { answers, timers, writes, .. } = effects;
        self.tickets.extend((first_ticket..=self.next_ticket).map(|serial| (Ticket(serial), None)));
        for (ticket, answer) in answers {
            self.answer(ticket, answer);
        }
        for (kind, after_ms) in timers {
            self.set_timer(storage.now, group.clone(), kind, after_ms);
        }
        for write in writes {
            self.write(storage, index, write);
        }
        result
    }

    fn write(&mut self, storage: &mut Storage<'_>, index: i32, write: Write) {
        let Some(shard) = self.shards.get_mut(&index) else { return };
        let key = shard.key;
        match append(storage, key, &write.records) {
            Ok(required) => {
                for record in &write.records {
                    // A classic group is in memory already as its record has it; only its end is news.
                    if !matches!(record, Record::ClassicGroup { value: Some(_), .. }) {
                        shard.groups.apply(record, storage.now);
                    }
                }
                shard.uncommitted.push_back((required, write.then));
                self.written.push(key);
                self.committed(storage, key);
            }
            Err(error) => self.follow_up(storage, index, write.then, Err(error)),
        }
    }

    /// What comes after a write, or after it failed.
    fn follow_up(
        &mut self,
        storage: &mut Storage<'_>,
        index: i32,
        then: OnCommit,
        written: Result<(), ErrorCode>,
    ) {
        match then {
            OnCommit::Nothing => {}
            OnCommit::Answer(ticket, reply) => self.answer(ticket, written.map(|()| reply)),
            OnCommit::Assign { group, generation, assignments } => {
                debug_assert_eq!(partition_for(&group, self.settings.partitions), index);
                let followed = self.run(storage, &group, |groups, effects| {
                    let assignments = written.map(|()| &assignments);
                    groups.assigned(&group, generation, assignments, effects);
                    Ok(())
                });
                let _: Result<(), ErrorCode> = followed;
            }
        }
    }

    fn answer(&mut self, ticket: Ticket, answer: Result<GroupReply, ErrorCode>) {
        if let Some(held) = self.tickets.get_mut(&ticket) {
            *held = Some(answer);
            self.answered.push(ticket);
        }
    }

    fn set_timer(&mut self, now: Now, group: Arc<str>, kind: TimerKind, after_ms: Option<i64>) {
        let deadline = after_ms.map(|after_ms| {
            now.instant + std::time::Duration::from_millis(u64::try_from(after_ms).unwrap_or(0))
        });
        self.timers.push(TimerChange { key: TimerKey { group, kind }, deadline });
    }
}

/// Appends records as one batch. Gives the high watermark that commits them.
///
/// # Errors
/// As the coordinator answers what its log refuses.
fn append(storage: &mut Storage<'_>, key: PartitionKey, records: &[Record]) -> Result<i64, ErrorCode> {
    let batch = batch(records, storage.now.wall).map_err(|_| ErrorCode::UnknownServerError)?;
    let appended = storage.replicas.append(key, storage.pool, &batch, storage.now);
    match appended.ok_or(ErrorCode::NotCoordinator)? {
        Ok((appended, _)) => Ok(appended.last_offset + 1),
        Err(error) => Err(match error.code() {
            ErrorCode::RecordListTooLarge | ErrorCode::MessageTooLarge => ErrorCode::UnknownServerError,
            // Log memory is full: the client tries again, which is all that it can do.
            _ => ErrorCode::CoordinatorNotAvailable,
        }),
    }
}

/// A batch as Kafka's coordinator writes it: its producer has no id, but a sequence.
fn batch(records: &[Record], now: WallTime) -> Result<bytes::Bytes, CompressError> {
    let mut builder = BatchBuilder::new(BatchHeader { base_sequence: 0, ..BatchHeader::default() });
    for record in records {
        let (key, value) = record.encode();
        builder.push(now.as_millis(), Some(&key), value.as_deref(), std::iter::empty());
    }
    builder.build()
}

/// The records of a stored batch that are ours.
fn read(view: BatchView<'_>, bytes: &[u8]) -> Vec<Record> {
    const LIMIT: usize = 64 << 20;
    let body = bytes::Bytes::copy_from_slice(bytes.get(HEADER_LEN..).unwrap_or_default());
    let body = match view.codec() {
        Some(Codec::None) => Some(body),
        Some(codec) => decompress(codec, &body, LIMIT).ok(),
        None => None,
    };
    let Some(body) = body else { return Vec::new() };
    let records = RecordIter::new(&body, view.count()).map_while(Result::ok);
    records.filter_map(|record| Record::decode(record.key?, record.value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Apache Kafka wrote, a batch a line: partition, hexadecimal bytes.
    const FROM_KAFKA: &str = include_str!("../../fixtures/consumer_offsets/batches.txt");

    #[test]
    fn batches_are_byte_for_byte_what_kafka_writes() {
        let mut kinds = [0; 4];
        for line in FROM_KAFKA.lines() {
            let hex = line.split_once(' ').unwrap().1;
            let theirs: Vec<u8> = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect();
            let view = BatchView::new(&theirs).unwrap();
            let records = read(view, &theirs);
            assert_eq!(records.len(), view.count() as usize, "every record is understood: {line}");
            for record in &records {
                kinds[match record {
                    Record::Offset { value: Some(_), .. } => 0,
                    Record::Offset { value: None, .. } => 1,
                    Record::ClassicGroup { value: Some(_), .. } => 2,
                    Record::ClassicGroup { value: None, .. } => 3,
                }] += 1;
            }
            let mut ours = batch(&records, WallTime(view.max_timestamp())).unwrap().to_vec();
            // The log stamps offset and epoch when it appends.
            ours[..8].copy_from_slice(&theirs[..8]);
            ours[12..16].copy_from_slice(&theirs[12..16]);
            assert_eq!(ours, theirs, "{line}");
        }
        assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
    }

    #[test]
    fn groups_belong_where_kafka_puts_them() {
        // Values of Java's String.hashCode: "group" 98629247, "" 0, "my-group" 1013626583 and "polygenelubricants"
        // Integer.MIN_VALUE.
        assert_eq!(partition_for("group", 50), 98_629_247 % 50);
        assert_eq!(partition_for("", 50), 0);
        assert_eq!(partition_for("polygenelubricants", 50), 0);
    }
}
