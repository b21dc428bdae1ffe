//! A transactional producer (KIP-98, KIP-890): each transaction is one record into every partition of a topic of its own,
//! committed, or aborted for a whim; after an error that ends a transaction, or a crash, it begins anew.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    EndTxnRequest, FindCoordinatorRequest, InitProducerIdRequest, ProduceRequest, ProducerId, TransactionalId,
};
use kafka_protocol::protocol::StrBytes;

use super::checkers::{End, Event, RecordName};
use super::contacts::{Contacts, TRANSACTIONS, topic};
use super::world::{self, ClientId, Incident, Notice, World};
use crate::base::{ErrorCode, NodeId};
use crate::wire::records::{BatchBuilder, BatchHeader};

const PRODUCE: i16 = 12;
const INIT_PRODUCER_ID: i16 = 5;
const FIND_COORDINATOR: i16 = 4;
const END_TXN: i16 = 5;
const TIMEOUT_MS: i32 = 20_000;

/// A model transactional producer.
#[derive(Debug)]
pub struct Transactor {
    id: ClientId,
    contacts: Contacts<Asked>,
    coordinator: Option<NodeId>,
    /// Id and epoch; none before it has them.
    producer: Option<(i64, i16)>,
    /// Sequence numbers of the present epoch.
    sequences: BTreeMap<i32, i32>,
    stage: Stage,
    /// The transaction that comes next.
    number: u64,
    /// How many there are to be.
    transactions: u64,
    /// How many were committed.
    committed: u64,
}

#[derive(Debug)]
enum Stage {
    /// No transaction is open.
    Idle,
    /// These partitions' records are to be written yet; whether they are in flight.
    Writing { open: BTreeMap<i32, (Bytes, bool)>, end: End },
    /// All is written, or need not be.
    Ending { end: End },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Metadata,
    Coordinator,
    Init,
    Produce { partition: i32, number: u64 },
    End { number: u64 },
}

impl Transactor {
    /// A producer of so many transactions.
    pub fn new(id: ClientId, bootstrap: Vec<NodeId>, transactions: u64) -> Self {
        Transactor {
            id,
            contacts: Contacts::new(id, bootstrap, TRANSACTIONS),
            coordinator: None,
            producer: None,
            sequences: BTreeMap::new(),
            stage: Stage::Idle,
            number: 0,
            transactions,
            committed: 0,
        }
    }

    /// Whether all its transactions have ended.
    pub fn is_done(&self) -> bool {
        self.number >= self.transactions
    }

    /// How many are committed.
    pub fn committed(&self) -> u64 {
        self.committed
    }

    /// The process ends without a word, and begins anew: what becomes of the open transaction is the coordinator's to
    /// say.
    pub fn crash(&mut self, world: &mut World) {
        self.contacts.close_all(world);
        self.coordinator = None;
        self.begin_anew(world);
    }

    /// What was open is in doubt; the next is begun with a new epoch.
    fn begin_anew(&mut self, world: &mut World) {
        match self.stage {
            Stage::Idle => {}
            // It was never to be committed, and nobody else does that.
            Stage::Writing { .. } | Stage::Ending { end: End::Aborted } => self.ended(world, End::Aborted),
            Stage::Ending { .. } => self.ended(world, End::Unknown),
        }
        self.producer = None;
        self.sequences.clear();
    }

    fn ended(&mut self, world: &mut World, end: End) {
        let name = RecordName { producer: self.id, number: self.number };
        world.note(Event::Ended { name, end, partitions: self.contacts.partitions });
        self.committed += u64::from(end == End::Committed);
        self.number += 1;
        self.stage = Stage::Idle;
    }

    /// Something has come about.
    pub fn notice(&mut self, world: &mut World, notice: Notice) {
        match notice {
            Notice::Wake => {
                for (_, asked) in self.contacts.give_up_slow(world) {
                    self.failed(asked);
                }
                self.go_on(world);
                if !self.is_done() {
                    let after_ms = 20 + world.entropy.below(300);
                    world.schedule(after_ms, Incident::Wake(self.id));
                }
            }
            Notice::Lost(connection) => {
                if let Some((broker, asked)) = self.contacts.lost(connection) {
                    if self.coordinator == Some(broker) {
                        self.coordinator = None;
                    }
                    asked.into_iter().for_each(|asked| self.failed(asked));
                }
            }
            Notice::Answered(connection, frame) => {
                if let Some((_, asked)) = self.contacts.answered(connection, &frame) {
                    self.take(world, asked, frame);
                }
            }
        }
    }

    fn failed(&mut self, asked: Asked) {
        match asked {
            Asked::Metadata | Asked::Coordinator => {}
            Asked::Init | Asked::End { .. } => self.coordinator = None,
            Asked::Produce { partition, number } => {
                self.contacts.forget_leader(partition);
                self.not_in_flight(partition, number);
            }
        }
    }

    fn not_in_flight(&mut self, partition: i32, number: u64) {
        if let Stage::Writing { open, .. } = &mut self.stage
            && number == self.number
            && let Some((_, in_flight)) = open.get_mut(&partition)
        {
            *in_flight = false;
        }
    }

    fn take(&mut self, world: &mut World, asked: Asked, frame: Bytes) {
        match asked {
            Asked::Metadata => self.contacts.take_metadata(frame),
            Asked::Coordinator => {
                let (_, response) = world::read::<FindCoordinatorRequest>(frame, FIND_COORDINATOR);
                let found = response.coordinators.first().filter(|found| found.error_code == 0);
                self.coordinator = found.map(|found| NodeId(found.node_id.0));
            }
            Asked::Init => {
                let (_, response) = world::read::<InitProducerIdRequest>(frame, INIT_PRODUCER_ID);
                match response.error_code {
                    0 => self.producer = Some((response.producer_id.0, response.producer_epoch)),
                    code if code == ErrorCode::ConcurrentTransactions.code() => {}
                    _ => self.coordinator = None,
                }
            }
            Asked::Produce { partition, number } => {
                let (_, response) = world::read::<ProduceRequest>(frame, PRODUCE);
                let code = response.responses[0].partition_responses[0].error_code;
                self.produced(world, partition, number, code);
            }
            Asked::End { number } if number == self.number => {
                let (_, response) = world::read::<EndTxnRequest>(frame, END_TXN);
                self.take_end(world, response.error_code, (response.producer_id.0, response.producer_epoch));
            }
            Asked::End { .. } => {}
        }
    }

    fn produced(&mut self, world: &mut World, partition: i32, number: u64, code: i16) {
        self.not_in_flight(partition, number);
        let Stage::Writing { open, end } = &mut self.stage else { return };
        if number != self.number || !open.contains_key(&partition) {
            return;
        }
        let passing = [
            ErrorCode::UnknownTopicOrPartition,
            ErrorCode::LeaderNotAvailable,
            ErrorCode::NotLeaderOrFollower,
            ErrorCode::RequestTimedOut,
            ErrorCode::NotEnoughReplicas,
            ErrorCode::NotEnoughReplicasAfterAppend,
            ErrorCode::ConcurrentTransactions,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::NotCoordinator,
        ];
        if code == 0 {
            open.remove(&partition);
            *self.sequences.entry(partition).or_default() += 1;
            if open.is_empty() {
                let end = *end;
                self.stage = Stage::Ending { end };
            }
        } else if passing.iter().any(|error| error.code() == code) {
            self.contacts.forget_leader(partition);
        } else {
            // Fenced, timed out or abortable: this transaction can't be committed any more.
            self.begin_anew(world);
        }
    }

    fn take_end(&mut self, world: &mut World, code: i16, next: (i64, i16)) {
        let Stage::Ending { end } = self.stage else { return };
        let again = [
            ErrorCode::ConcurrentTransactions,
            ErrorCode::CoordinatorLoadInProgress,
            ErrorCode::CoordinatorNotAvailable,
            ErrorCode::NotCoordinator,
        ];
        if code == 0 {
            self.ended(world, end);
            self.producer = Some(next);
            self.sequences.clear();
        } else if again.iter().any(|error| error.code() == code) {
            if code != ErrorCode::ConcurrentTransactions.code() {
                self.coordinator = None;
            }
        } else {
            self.begin_anew(world);
        }
    }

    fn go_on(&mut self, world: &mut World) {
        if self.is_done() {
            return;
        }
        let knows_leaders = |partition: i32| self.contacts.leader(partition).is_some();
        let needs_metadata =
            self.contacts.partitions == 0 || !(0..self.contacts.partitions).all(knows_leaders);
        if needs_metadata && !self.contacts.is_asked(|asked| *asked == Asked::Metadata) {
            self.contacts.ask_metadata(world, Asked::Metadata);
        }
        if self.contacts.partitions == 0 {
            return;
        }
        let Some(coordinator) = self.coordinator else {
            if !self.contacts.is_asked(|asked| *asked == Asked::Coordinator) {
                let broker = self.contacts.any(world);
                let request = FindCoordinatorRequest::default()
                    .with_key_type(1)
                    .with_coordinator_keys(vec![self.transactional_id().0]);
                self.contacts.ask(world, broker, FIND_COORDINATOR, &request, Asked::Coordinator);
            }
            return;
        };
        let Some(producer) = self.producer else {
            if !self.contacts.is_asked(|asked| *asked == Asked::Init) {
                let request = InitProducerIdRequest::default()
                    .with_transactional_id(Some(self.transactional_id()))
                    .with_transaction_timeout_ms(TIMEOUT_MS)
                    .with_producer_id(ProducerId(-1))
                    .with_producer_epoch(-1);
                self.contacts.ask(world, coordinator, INIT_PRODUCER_ID, &request, Asked::Init);
            }
            return;
        };
        match self.stage {
            Stage::Idle => self.begin(world, producer),
            Stage::Writing { .. } => {}
            Stage::Ending { end } => self.ask_end(world, coordinator, producer, end),
        }
        self.write_on(world);
    }

    /// Begins the next transaction.
    fn begin(&mut self, world: &mut World, (producer_id, producer_epoch): (i64, i16)) {
        let name = RecordName { producer: self.id, number: self.number };
        let timestamp = world.now().wall.as_millis();
        let batch = |partition: i32| {
            let header = BatchHeader {
                producer_id,
                producer_epoch,
                base_sequence: self.sequences.get(&partition).copied().unwrap_or(0),
                is_transactional: true,
                ..BatchHeader::default()
            };
            let mut builder = BatchBuilder::new(header);
            builder.push(timestamp, None, Some(name.to_string().as_bytes()), std::iter::empty());
            (partition, (builder.build().expect("a record makes a batch"), false))
        };
        let open = (0..self.contacts.partitions).map(batch).collect();
        let end = if world.entropy.below(4) == 0 { End::Aborted } else { End::Committed };
        self.stage = Stage::Writing { open, end };
    }

    fn write_on(&mut self, world: &mut World) {
        let transactional_id = self.transactional_id();
        let Stage::Writing { open, .. } = &mut self.stage else { return };
        for (partition, (batch, in_flight)) in open.iter_mut().filter(|(_, (_, in_flight))| !in_flight) {
            let Some(leader) = self.contacts.leader(*partition) else { continue };
            let data =
                PartitionProduceData::default().with_index(*partition).with_records(Some(batch.clone()));
            let topic = TopicProduceData::default().with_name(topic(TRANSACTIONS));
            let request = ProduceRequest::default()
                .with_transactional_id(Some(transactional_id.clone()))
                .with_acks(-1)
                .with_timeout_ms(3_000)
                .with_topic_data(vec![topic.with_partition_data(vec![data])]);
            let asked = Asked::Produce { partition: *partition, number: self.number };
            *in_flight = self.contacts.ask(world, leader, PRODUCE, &request, asked);
        }
    }

    fn ask_end(&mut self, world: &mut World, coordinator: NodeId, producer: (i64, i16), end: End) {
        if self.contacts.is_asked(|asked| matches!(asked, Asked::End { .. })) {
            return;
        }
        let request = EndTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(ProducerId(producer.0))
            .with_producer_epoch(producer.1)
            .with_committed(end == End::Committed);
        self.contacts.ask(world, coordinator, END_TXN, &request, Asked::End { number: self.number });
    }

    fn transactional_id(&self) -> TransactionalId {
        TransactionalId(StrBytes::from_string(format!("x{}", self.id)))
    }
}
