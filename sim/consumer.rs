//! A consumer without a group: it reads every partition from its first offset on, of one topic all that is replicated, of
//! the other what is committed.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::{FetchRequest, FetchResponse};

use super::checkers::{Event, RecordName};
use super::contacts::{Contacts, TRANSACTIONS, topic};
use super::world::{self, ClientId, Incident, Notice, World};
use crate::base::{ErrorCode, NodeId};
use crate::wire::batch::{BatchView, Codec, HEADER_LEN};
use crate::wire::compression::decompress;
use crate::wire::records::RecordIter;

const FETCH: i16 = 12;
const READ_UNCOMMITTED: i8 = 0;
const READ_COMMITTED: i8 = 1;

/// A model consumer.
#[derive(Debug)]
pub struct Consumer {
    id: ClientId,
    contacts: Contacts<Asked>,
    topic: &'static str,
    /// The next offset of each partition.
    positions: BTreeMap<i32, i64>,
}

#[derive(Debug)]
enum Asked {
    Metadata,
    Fetch,
}

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
        match notice {
            Notice::Wake => {
                let failed = self.contacts.give_up_slow(world);
                failed.iter().for_each(|(broker, asked)| self.failed(*broker, asked));
                self.go_on(world);
                let after_ms = 50 + world.entropy.below(200);
                world.schedule(after_ms, Incident::Wake(self.id));
            }
            Notice::Lost(connection) => {
                if let Some((broker, Some(asked))) = self.contacts.lost(connection) {
                    self.failed(broker, &asked);
                }
            }
            Notice::Answered(connection, frame) => {
                match self.contacts.answered(connection, &frame) {
                    None => return,
                    Some((_, Asked::Metadata)) => self.contacts.take_metadata(frame),
                    Some((broker, Asked::Fetch)) => self.take_records(world, broker, frame),
                }
                self.go_on(world);
            }
        }
    }

    fn failed(&mut self, broker: NodeId, asked: &Asked) {
        if matches!(asked, Asked::Fetch) {
            for partition in self.led_by(broker) {
                self.contacts.forget_leader(partition);
            }
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
        let lacks_leader = |partition: &i32| self.contacts.leader(*partition).is_none();
        let needs_metadata = self.positions.is_empty() || self.positions.keys().any(lacks_leader);
        if needs_metadata && !self.contacts.is_asked(|asked| matches!(asked, Asked::Metadata)) {
            self.contacts.ask_metadata(world, Asked::Metadata);
        }
        let mut leaders: Vec<NodeId> =
            self.positions.keys().filter_map(|partition| self.contacts.leader(*partition)).collect();
        leaders.sort_unstable();
        leaders.dedup();
        for leader in leaders {
            let positions = self.led_by(leader).into_iter().map(|partition| {
                (partition, self.positions[&partition], self.contacts.leader_epoch(partition))
            });
            let isolation = if self.topic == TRANSACTIONS { READ_COMMITTED } else { READ_UNCOMMITTED };
            let request = fetch(self.topic, positions).with_isolation_level(isolation);
            self.contacts.ask(world, leader, FETCH, &request, Asked::Fetch);
        }
    }

    fn take_records(&mut self, world: &mut World, broker: NodeId, frame: Bytes) {
        for (partition, outcome) in read_fetched(frame) {
            match outcome {
                Err(code) if is_passing(code) => self.contacts.forget_leader(partition),
                Err(code) => {
                    let what = format!(
                        "consumer {} at {:?} was refused with {code} on partition {partition} by broker {}",
                        self.id, self.positions, broker.0
                    );
                    world.note(Event::Broken(what));
                    self.contacts.forget_leader(partition);
                }
                Ok(fetched) => {
                    let position = self.positions.entry(partition).or_default();
                    for (offset, name) in
                        fetched.records.into_iter().filter(|(offset, _)| *offset >= *position)
                    {
                        world.note(match self.topic {
                            TRANSACTIONS => Event::ReadCommitted { partition, offset, name },
                            _ => Event::Read { reader: self.id, partition, offset, name },
                        });
                    }
                    *position = (*position).max(fetched.next_offset);
                }
            }
        }
    }
}

/// What a partition's part of a Fetch answer holds.
#[derive(Debug)]
pub struct Fetched {
    /// Records and their offsets.
    pub records: Vec<(i64, RecordName)>,
    /// The offset behind the last batch; 0 if there is none.
    pub next_offset: i64,
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

/// Whether an error goes by when another leader is asked, or later.
pub fn is_passing(code: i16) -> bool {
    let passing = [
        ErrorCode::UnknownTopicOrPartition,
        ErrorCode::LeaderNotAvailable,
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::OffsetNotAvailable,
        ErrorCode::FencedLeaderEpoch,
        ErrorCode::UnknownLeaderEpoch,
    ];
    passing.iter().any(|error| error.code() == code)
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
            let name = record.value.and_then(RecordName::read);
            fetched.records.push((offset, name.expect("records have names")));
        }
    }
    fetched
}
