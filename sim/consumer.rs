//! A consumer without a group: it reads every partition from its first offset on, of one topic all that is replicated, of
//! the others what is committed.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use super::checkers::{Event, Origin, RecordName};
use super::contacts::{Contacts, Fate, OUTPUT, TOPIC, TRANSACTIONS, topic};
use super::passing;
use super::world::{self, ClientId, Incident, Notice, World};
use crate::base::NodeId;
use crate::wire::batch::{BatchView, Codec, HEADER_LEN};
use crate::wire::compression::decompress;
use crate::wire::records::RecordIter;

/// The version in which models fetch.
pub const FETCH: i16 = 12;
/// Isolation levels of Fetch.
pub const READ_UNCOMMITTED: i8 = 0;
/// Only what is committed.
pub const READ_COMMITTED: i8 = 1;

/// A model consumer.
#[derive(Debug)]
pub struct Consumer {
    id: ClientId,
    contacts: Contacts<Asked>,
    topic: &'static str,
    /// The next offset of each partition.
    positions: BTreeMap<i32, i64>,
}

/// It asks for records alone.
#[derive(Debug)]
struct Asked;

impl Consumer {
    /// A consumer that has read nothing.
    pub fn new(id: ClientId, bootstrap: Vec<NodeId>, topic: &'static str) -> Self {
        Consumer { id, contacts: Contacts::new(id, bootstrap, topic), topic, positions: BTreeMap::new() }
    }

    /// Which topic it reads.
    pub fn topic(&self) -> &'static str {
        self.topic
    }

    /// Whether it has read everything below these offsets.
    pub fn has_read(&self, ends: &BTreeMap<i32, i64>) -> bool {
        ends.iter().all(|(partition, end)| self.positions.get(partition).copied().unwrap_or(0) >= *end)
    }

    /// Something has come about.
    pub fn notice(&mut self, world: &mut World, notice: Notice) {
        let is_awake = matches!(notice, Notice::Wake);
        let is_lost = matches!(notice, Notice::Lost(_));
        for Fate { broker, answer, .. } in self.contacts.take(world, notice) {
            match answer {
                Some(frame) => self.take_records(world, broker, frame),
                None => self.contacts.forget_leader_of_all(broker),
            }
        }
        if !is_lost {
            self.go_on(world);
        }
        if is_awake {
            let after_ms = 50 + world.entropy.below(200);
            world.schedule(after_ms, Incident::Wake(self.id));
        }
    }

    fn led_by(&self, broker: NodeId) -> Vec<i32> {
        let partitions = self.positions.keys().copied();
        partitions.filter(|partition| self.contacts.leader(*partition) == Some(broker)).collect()
    }

    fn go_on(&mut self, world: &mut World) {
        for partition in 0..self.contacts.partitions {
            self.positions.entry(partition).or_default();
        }
        self.contacts.look_up_leaders(world);
        let mut leaders: Vec<NodeId> =
            self.positions.keys().filter_map(|partition| self.contacts.leader(*partition)).collect();
        leaders.sort_unstable();
        leaders.dedup();
        for leader in leaders {
            let positions = self.led_by(leader).into_iter().map(|partition| {
                (partition, self.positions[&partition], self.contacts.leader_epoch(partition))
            });
            let isolation = if self.topic == TOPIC { READ_UNCOMMITTED } else { READ_COMMITTED };
            let request = fetch(self.topic, positions).with_isolation_level(isolation);
            self.contacts.ask(world, leader, FETCH, &request, Asked);
        }
    }

    fn take_records(&mut self, world: &mut World, broker: NodeId, frame: Bytes) {
        for (partition, outcome) in read_fetched(frame) {
            match outcome {
                Err(code) if passing::for_readers(code) => self.contacts.forget_leader(partition),
                Err(code) => {
                    let what = format!(
                        "consumer {} at {:?} was refused with {code} on partition {partition} by broker {}",
                        self.id, self.positions, broker.0
                    );
                    world.note(Event::Broken(what));
                    self.contacts.forget_leader(partition);
                }
                Ok(fetched) => {
                    let position = self.positions.get(&partition).copied().unwrap_or_default();
                    for (offset, value) in &fetched.records {
                        if *offset >= position {
                            world.note(self.read(partition, *offset, value));
                        }
                    }
                    let position = self.positions.entry(partition).or_default();
                    *position = (*position).max(fetched.next_offset);
                }
            }
        }
    }
}

impl Consumer {
    /// What the checkers are told of a record.
    fn read(&self, partition: i32, offset: i64, value: &[u8]) -> Event {
        let name = || RecordName::read(value).expect("records have names");
        match self.topic {
            TRANSACTIONS => Event::ReadCommitted { partition, offset, name: name() },
            OUTPUT => {
                let origin = Origin::read(value).expect("what is made of a record tells of which");
                Event::Transformed { origin, partition, offset }
            }
            _ => Event::Read { reader: self.id, partition, offset, name: name() },
        }
    }
}

/// What a partition's part of a Fetch answer holds.
#[derive(Debug)]
pub struct Fetched {
    /// Records' offsets and values.
    pub records: Vec<(i64, Bytes)>,
    /// The offset behind the last batch; 0 if there is none.
    pub next_offset: i64,
}

impl Fetched {
    /// Records' offsets and names.
    pub fn names(&self) -> Vec<(i64, RecordName)> {
        let name = |value: &Bytes| RecordName::read(value).expect("records have names");
        self.records.iter().map(|(offset, value)| (*offset, name(value))).collect()
    }
}

/// Where a reader goes on: a partition, the next offset, and the epoch of the leader that it knows.
pub type Position = (i32, i64, i32);

/// A Fetch request for these positions.
pub fn fetch(name: &'static str, positions: impl IntoIterator<Item = Position>) -> FetchRequest {
    let partition = |(partition, offset, leader_epoch): Position| {
        FetchPartition::default()
            .with_partition(partition)
            .with_fetch_offset(offset)
            .with_current_leader_epoch(leader_epoch)
            .with_partition_max_bytes(64 << 10)
    };
    let partitions = positions.into_iter().map(partition).collect();
    FetchRequest::default()
        .with_max_wait_ms(500)
        .with_min_bytes(1)
        .with_max_bytes(1 << 20)
        .with_session_epoch(-1)
        .with_topics(vec![FetchTopic::default().with_topic(topic(name)).with_partitions(partitions)])
}

/// What a Fetch was answered for each partition: records, or an error's code.
pub fn read_fetched(frame: Bytes) -> Vec<(i32, Result<Fetched, i16>)> {
    let (_, response): (_, FetchResponse) = world::read::<FetchRequest>(frame, FETCH);
    let partitions = response.responses.into_iter().flat_map(|topic| topic.partitions);
    let read = |data: kafka_protocol::messages::fetch_response::PartitionData| {
        let outcome = match data.error_code {
            0 => {
                let aborted = data.aborted_transactions.unwrap_or_default();
                let aborted = aborted.into_iter().map(|one| (one.first_offset, one.producer_id.0)).collect();
                Ok(records_of(data.records.unwrap_or_default(), aborted))
            }
            code => Err(code),
        };
        (data.partition_index, outcome)
    };
    partitions.map(read).collect()
}

/// The records of whole batches, but for those of aborted transactions: each begins at an offset, of a producer.
fn records_of(mut bytes: Bytes, mut aborted: Vec<(i64, i64)>) -> Fetched {
    let mut fetched = Fetched { records: Vec::new(), next_offset: 0 };
    let mut skipped: BTreeSet<i64> = BTreeSet::new();
    while let Some(size) =
        BatchView::new(&bytes).and_then(|view| view.size()).filter(|size| *size <= bytes.len())
    {
        let batch = bytes.split_to(size);
        let Some(view) = BatchView::new(&batch) else { break };
        fetched.next_offset = view.last_offset() + 1;
        aborted.retain(|(first_offset, producer_id)| {
            let begins = *first_offset <= view.last_offset();
            if begins {
                skipped.insert(*producer_id);
            }
            !begins
        });
        let body = batch.slice(HEADER_LEN..);
        let body = match view.codec() {
            Some(Codec::None) | None => body,
            Some(codec) => decompress(codec, &body, 1 << 20).expect("what a model compressed can be read"),
        };
        let records = RecordIter::new(&body, view.count());
        let mut records = records.map(|record| record.expect("what a model wrote can be read"));
        if view.is_control() {
            // A marker's key is a version and a kind: 0 aborts.
            let key = records.next().and_then(|record| record.key);
            if key.is_some_and(|key| key.get(2..4) == Some(&[0, 0])) {
                skipped.remove(&view.producer_id());
            }
            continue;
        }
        if view.is_transactional() && skipped.contains(&view.producer_id()) {
            continue;
        }
        for record in records {
            let offset = view.base_offset() + i64::from(record.offset_delta);
            fetched.records.push((offset, Bytes::copy_from_slice(record.value.unwrap_or_default())));
        }
    }
    fetched
}
