//! A producer: idempotent, acks=all, one batch of each partition at a time, sent again until it is acknowledged.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse,
};

use super::checkers::{Event, RecordName};
use super::contacts::{Contacts, Fate, TOPIC, topic};
use super::passing;
use super::world::{self, ClientId, Incident, Notice, World};
use crate::base::NodeId;
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

#[derive(Debug, Default)]
struct Progress {
    /// How many were acknowledged.
    acknowledged: u64,
    /// What is to be acknowledged next: it is sent until it is.
    batch: Option<Batch>,
    in_flight: bool,
}

#[derive(Debug)]
struct Batch {
    count: u64,
    bytes: Bytes,
}

#[derive(Debug)]
enum Asked {
    ProducerId,
    Produce(i32),
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

    /// How many records are acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.partitions.values().map(|progress| progress.acknowledged).sum()
    }

    /// Something has come about.
    pub fn notice(&mut self, world: &mut World, notice: Notice) {
        let is_awake = matches!(notice, Notice::Wake);
        let is_lost = matches!(notice, Notice::Lost(_));
        for Fate { asked, answer, .. } in self.contacts.take(world, notice) {
            match (asked, answer) {
                (asked, None) => self.failed(&asked),
                (Asked::ProducerId, Some(frame)) => self.take_producer_id(frame),
                (Asked::Produce(partition), Some(frame)) => self.take_answer(world, partition, frame),
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
        if let Asked::Produce(partition) = asked {
            self.contacts.forget_leader(*partition);
            if let Some(progress) = self.partitions.get_mut(partition) {
                progress.in_flight = false;
            }
        }
    }

    fn go_on(&mut self, world: &mut World) {
        for partition in 0..self.contacts.partitions {
            self.partitions.entry(partition).or_default();
        }
        self.contacts.look_up_leaders(world);
        let Some((producer_id, producer_epoch)) = self.producer else {
            if !self.contacts.is_asked(|asked| matches!(asked, Asked::ProducerId)) {
                let broker = self.contacts.any(world);
                let request = InitProducerIdRequest::default()
                    .with_transactional_id(None)
                    .with_transaction_timeout_ms(60_000);
                self.contacts.ask(world, broker, INIT_PRODUCER_ID, &request, Asked::ProducerId);
            }
            return;
        };
        for (partition, progress) in &mut self.partitions {
            let Some(leader) = self.contacts.leader(*partition) else { continue };
            if progress.in_flight || progress.acknowledged == self.records {
                continue;
            }
            let batch = progress.batch.get_or_insert_with(|| {
                let count = (1 + world.entropy.below(4)).min(self.records - progress.acknowledged);
                let header = BatchHeader {
                    codec: if world.entropy.below(4) == 0 { Codec::Snappy } else { Codec::None },
                    producer_id,
                    producer_epoch,
                    base_sequence: progress.acknowledged as i32,
                    ..BatchHeader::default()
                };
                let mut builder = BatchBuilder::new(header);
                for number in progress.acknowledged..progress.acknowledged + count {
                    let name = RecordName { producer: self.id, number };
                    builder.push(
                        world.now().wall.as_millis(),
                        None,
                        Some(name.to_string().as_bytes()),
                        std::iter::empty(),
                    );
                }
                Batch { count, bytes: builder.build().expect("a few records make a batch") }
            });
            let data = PartitionProduceData::default()
                .with_index(*partition)
                .with_records(Some(batch.bytes.clone()));
            let request =
                ProduceRequest::default().with_acks(-1).with_timeout_ms(3_000).with_topic_data(vec![
                    TopicProduceData::default().with_name(topic(TOPIC)).with_partition_data(vec![data]),
                ]);
            progress.in_flight =
                self.contacts.ask(world, leader, PRODUCE, &request, Asked::Produce(*partition));
        }
    }

    fn take_producer_id(&mut self, frame: Bytes) {
        let (_, response): (_, InitProducerIdResponse) =
            world::read::<InitProducerIdRequest>(frame, INIT_PRODUCER_ID);
        if response.error_code == 0 {
            self.producer = Some((response.producer_id.0, response.producer_epoch));
        }
    }

    fn take_answer(&mut self, world: &mut World, partition: i32, frame: Bytes) {
        let (_, response): (_, ProduceResponse) = world::read::<ProduceRequest>(frame, PRODUCE);
        let Some(progress) = self.partitions.get_mut(&partition) else { return };
        progress.in_flight = false;
        let answer = &response.responses[0].partition_responses[0];
        match answer.error_code {
            0 => {
                let Some(batch) = progress.batch.take() else { return };
                for at in 0..batch.count {
                    let name = RecordName { producer: self.id, number: progress.acknowledged + at };
                    let offset = answer.base_offset + at as i64;
                    world.note(Event::Acknowledged { partition, name, offset });
                }
                progress.acknowledged += batch.count;
            }
            code if passing::for_writers(code) => self.contacts.forget_leader(partition),
            code => {
                let what = format!("producer {} was refused with {code} on partition {partition}", self.id);
                world.note(Event::Broken(what));
            }
        }
    }
}
