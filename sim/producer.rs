//! A producer: idempotent, acks=all, with several batches under way, each sent again until it is acknowledged.
//!
//! As Kafka's own producer it sends a batch again only once it is the first that isn't acknowledged, and nothing new while
//! others wait for that (its `RecordAccumulator.shouldStopDrainBatchesForPartition`).

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse,
};

use super::checkers::{Event, RecordName};
use super::contacts::{Contacts, Fate, MAX_IN_FLIGHT, TOPIC, topic};
use super::passing;
use super::world::{self, ClientId, Incident, Notice, World};
use crate::base::{ErrorCode, NodeId};
use crate::wire::batch::Codec;
use crate::wire::records::{BatchBuilder, BatchHeader};

const PRODUCE: i16 = 9;
const INIT_PRODUCER_ID: i16 = 4;

/// A model producer.
#[derive(Debug)]
pub struct Producer {
    id: ClientId,
    contacts: Contacts<Asked>,
    producer: Option<(i64, i16)>,
    partitions: BTreeMap<i32, Progress>,
    /// How many records each partition gets.
    records: u64,
}

/// How far it has come in one partition.
#[derive(Debug, Default)]
struct Progress {
    /// All records below this number are acknowledged.
    acknowledged: u64,
    /// What is next, from the first on that isn't acknowledged.
    batches: VecDeque<Batch>,
}

#[derive(Debug)]
struct Batch {
    /// The number of its first record.
    first: u64,
    count: u64,
    bytes: Bytes,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    /// It is to be sent again.
    Refused,
    Acknowledged,
}

#[derive(Debug)]
enum Asked {
    ProducerId,
    Produce {
        partition: i32,
        /// The batch's first record.
        first: u64,
    },
}

impl Producer {
    /// A producer that sends so many records to each partition.
    pub fn new(id: ClientId, bootstrap: Vec<NodeId>, records: u64) -> Self {
        Producer {
            id,
            contacts: Contacts::new(id, bootstrap, TOPIC),
            producer: None,
            partitions: BTreeMap::new(),
            records,
        }
    }

    /// Whether everything is acknowledged.
    pub fn is_done(&self) -> bool {
        !self.partitions.is_empty()
            && self.partitions.values().all(|progress| progress.acknowledged == self.records)
    }

    /// Something has come about.
    pub fn notice(&mut self, world: &mut World, notice: Notice) {
        let is_awake = matches!(notice, Notice::Wake);
        let is_lost = matches!(notice, Notice::Lost(_));
        for Fate { asked, answer, .. } in self.contacts.take(world, notice) {
            match (asked, answer) {
                (asked, None) => self.failed(&asked),
                (Asked::ProducerId, Some(frame)) => self.take_producer_id(frame),
                (Asked::Produce { partition, first }, Some(frame)) => {
                    self.take_answer(world, partition, first, frame);
                }
            }
        }
        if !is_lost {
            self.go_on(world);
        }
        if is_awake && !self.is_done() {
            let after_ms = 20 + world.entropy.below(200);
            world.schedule(after_ms, Incident::Wake(self.id));
        }
    }

    fn failed(&mut self, asked: &Asked) {
        if let Asked::Produce { partition, first } = asked {
            self.contacts.forget_leader(*partition);
            if let Some(batch) = self.partitions.get_mut(partition).and_then(|of| of.batch(*first)) {
                batch.state = State::Refused;
            }
        }
    }

    fn go_on(&mut self, world: &mut World) {
        for partition in 0..self.contacts.partitions {
            self.partitions.entry(partition).or_default();
        }
        self.contacts.look_up_leaders(world);
        if self.producer.is_none() {
            if !self.contacts.is_asked(|asked| matches!(asked, Asked::ProducerId)) {
                let broker = self.contacts.any(world);
                let request = InitProducerIdRequest::default()
                    .with_transactional_id(None)
                    .with_transaction_timeout_ms(60_000);
                self.contacts.ask(world, broker, INIT_PRODUCER_ID, &request, Asked::ProducerId);
            }
            return;
        }
        for partition in 0..self.contacts.partitions {
            self.send_on(world, partition);
        }
    }

    /// Sends what may be sent now.
    fn send_on(&mut self, world: &mut World, partition: i32) {
        let Some(progress) = self.partitions.get_mut(&partition) else { return };
        match progress.batches.iter().position(|batch| batch.state == State::Refused) {
            Some(0) => {
                let Batch { first, bytes, .. } = &progress.batches[0];
                let (first, bytes) = (*first, bytes.clone());
                if self.send(world, partition, first, bytes)
                    && let Some(batch) = self.partitions.get_mut(&partition).and_then(|of| of.batch(first))
                {
                    batch.state = State::InFlight;
                }
            }
            Some(_) => {}
            None => self.send_new(world, partition),
        }
    }

    /// Sends a batch that wasn't sent before, if there may be one more under way.
    fn send_new(&mut self, world: &mut World, partition: i32) {
        let (Some(progress), Some(producer)) = (self.partitions.get(&partition), self.producer) else {
            return;
        };
        let first = progress.batches.back().map_or(progress.acknowledged, |last| last.first + last.count);
        // A broker that doesn't know the producer yet would take its second batch for its first.
        let room = if progress.acknowledged == 0 { 1 } else { MAX_IN_FLIGHT };
        if first == self.records || progress.batches.len() >= room {
            return;
        }
        let count = (1 + world.entropy.below(4)).min(self.records - first);
        let bytes = self.batch(world, producer, first, count);
        if self.send(world, partition, first, bytes.clone())
            && let Some(progress) = self.partitions.get_mut(&partition)
        {
            progress.batches.push_back(Batch { first, count, bytes, state: State::InFlight });
        }
    }

    fn batch(&self, world: &mut World, producer: (i64, i16), first: u64, count: u64) -> Bytes {
        let header = BatchHeader {
            codec: if world.entropy.below(4) == 0 { Codec::Snappy } else { Codec::None },
            producer_id: producer.0,
            producer_epoch: producer.1,
            base_sequence: first as i32,
            ..BatchHeader::default()
        };
        let mut builder = BatchBuilder::new(header);
        for number in first..first + count {
            let value = RecordName { producer: self.id, number }.to_string();
            builder.push(world.now().wall.as_millis(), None, Some(value.as_bytes()), std::iter::empty());
        }
        builder.build().expect("a few records make a batch")
    }

    fn send(&mut self, world: &mut World, partition: i32, first: u64, batch: Bytes) -> bool {
        let Some(leader) = self.contacts.leader(partition) else { return false };
        let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch));
        let topic = TopicProduceData::default().with_name(topic(TOPIC)).with_partition_data(vec![data]);
        let request =
            ProduceRequest::default().with_acks(-1).with_timeout_ms(3_000).with_topic_data(vec![topic]);
        self.contacts.ask_on(world, leader, PRODUCE, &request, Asked::Produce { partition, first })
    }

    fn take_producer_id(&mut self, frame: Bytes) {
        let (_, response): (_, InitProducerIdResponse) =
            world::read::<InitProducerIdRequest>(frame, INIT_PRODUCER_ID);
        if response.error_code == 0 {
            self.producer = Some((response.producer_id.0, response.producer_epoch));
        }
    }

    fn take_answer(&mut self, world: &mut World, partition: i32, first: u64, frame: Bytes) {
        let (_, response): (_, ProduceResponse) = world::read::<ProduceRequest>(frame, PRODUCE);
        let Some(progress) = self.partitions.get_mut(&partition) else { return };
        let is_first = progress.acknowledged == first;
        let Some(batch) = progress.batch(first) else { return };
        let answer = &response.responses[0].partition_responses[0];
        batch.state = State::Refused;
        match answer.error_code {
            0 => {
                batch.state = State::Acknowledged;
                for at in 0..batch.count {
                    let name = RecordName { producer: self.id, number: first + at };
                    let offset = answer.base_offset + at as i64;
                    world.note(Event::Acknowledged { partition, name, offset });
                }
                progress.drop_acknowledged();
            }
            code if passing::for_writers(code) => self.contacts.forget_leader(partition),
            // One before it was refused.
            code if !is_first && passing::is(code, &[ErrorCode::OutOfOrderSequenceNumber]) => {}
            code => {
                let what = format!("producer {} was refused with {code} on partition {partition}", self.id);
                world.note(Event::Broken(what));
            }
        }
    }
}

impl Progress {
    fn batch(&mut self, first: u64) -> Option<&mut Batch> {
        self.batches.iter_mut().find(|batch| batch.first == first)
    }

    fn drop_acknowledged(&mut self) {
        while let Some(batch) = self.batches.pop_front_if(|batch| batch.state == State::Acknowledged) {
            self.acknowledged = batch.first + batch.count;
        }
    }
}
