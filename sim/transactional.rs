//! A producer with a transactional id, of either way of transactions: the first tells the coordinator of each partition
//! before it writes there (KIP-98), the second leaves that to the brokers and has a new epoch after each transaction
//! (KIP-890). After an error that ends a transaction, or a crash, it begins anew.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, GroupId, InitProducerIdRequest,
    ProduceRequest, ProducerId, TransactionalId, TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::{Request, StrBytes};

use super::checkers::{End, Event};
use super::contacts::{Contacts, Coordinated, Fate, topic};
use super::counts::Count;
use super::member::Identity;
use super::passing;
use super::world::{self, ClientId, Notice, World};
use crate::base::{ErrorCode, NodeId};
use crate::wire::records::{BatchBuilder, BatchHeader};

const INIT_PRODUCER_ID: i16 = 5;
const ADD_PARTITIONS: i16 = 3;
const ADD_OFFSETS: i16 = 3;
const TIMEOUT_MS: i32 = 20_000;

/// Which way of transactions a producer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It tells of partitions and offsets (KIP-98).
    Told,
    /// Brokers see to that (KIP-890).
    Implied,
}

impl Way {
    /// Either, by chance.
    pub fn draw(world: &mut World) -> Self {
        if world.entropy.below(2) == 0 { Way::Told } else { Way::Implied }
    }

    /// The versions of Produce, TxnOffsetCommit and EndTxn.
    fn versions(self) -> (i16, i16, i16) {
        match self {
            Way::Told => (11, 4, 4),
            Way::Implied => (12, 5, 5),
        }
    }
}

/// A transaction that is to be.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The values that are to be written into each partition.
    pub records: BTreeMap<i32, Vec<String>>,
    /// The offsets that are to be committed.
    pub offsets: Option<Offsets>,
    /// How it is to end.
    pub end: End,
}

/// Offsets that a transaction commits.
#[derive(Clone, Debug)]
pub struct Offsets {
    /// The member that has read up to them.
    pub member: Identity,
    /// The topic that it has read.
    pub topic: &'static str,
    /// By partition.
    pub offsets: BTreeMap<i32, i64>,
}

/// How a transaction has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// As far as its producer knows.
    pub end: End,
    /// Whether the producer was told that it has been followed by another, or timed out.
    pub is_fenced: bool,
}

/// A model producer with a transactional id.
#[derive(Debug)]
pub struct Transactional {
    client: ClientId,
    id: StrBytes,
    way: Way,
    contacts: Contacts<Asked>,
    /// Id and epoch; none before it has them.
    producer: Option<(i64, i16)>,
    /// Sequence numbers of the present epoch.
    sequences: BTreeMap<i32, i32>,
    work: Option<Work>,
    /// Counts transactions: what was asked for another doesn't count.
    number: u64,
}

/// A transaction that is under way.
#[derive(Debug)]
struct Work {
    plan: Plan,
    stage: Stage,
    /// Whether it was asked for it to be committed.
    may_be_committed: bool,
}

#[derive(Debug)]
enum Stage {
    /// The coordinator is to be told of the partitions.
    Adding,
    /// These partitions' records are to be written yet.
    Writing { batches: BTreeMap<i32, Bytes> },
    /// The coordinator is to be told of the group.
    AddingOffsets,
    /// The group's coordinator is to be told the offsets.
    CommittingOffsets,
    /// It is to end.
    Ending,
}

/// What was asked, for which transaction.
#[derive(Clone, Copy, Debug)]
struct Asked {
    what: What,
    number: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Init,
    AddPartitions,
    Produce(i32),
    AddOffsets,
    CommitOffsets,
    End,
}

impl Transactional {
    /// A producer that writes to a topic.
    pub fn new(
        client: ClientId,
        bootstrap: Vec<NodeId>,
        topic: &'static str,
        transactional_id: String,
        way: Way,
    ) -> Self {
        Transactional {
            client,
            id: StrBytes::from_string(transactional_id),
            way,
            contacts: Contacts::new(client, bootstrap, topic),
            producer: None,
            sequences: BTreeMap::new(),
            work: None,
            number: 0,
        }
    }

    /// How many partitions the topic has; 0 while that isn't known.
    pub fn partitions(&self) -> i32 {
        self.contacts.partitions
    }

    /// Whether a transaction can begin.
    pub fn is_ready(&self) -> bool {
        self.producer.is_some() && self.work.is_none()
    }

    /// Whether it was asked for the transaction that is under way to be committed.
    pub fn may_be_committed(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.may_be_committed)
    }

    /// Begins a transaction, if it [can](Self::is_ready).
    pub fn begin(&mut self, world: &mut World, plan: Plan) {
        let stage = match self.way {
            _ if plan.records.is_empty() => self.after_writing(&plan),
            Way::Told => Stage::Adding,
            Way::Implied => self.writing(world, &plan),
        };
        self.number += 1;
        self.work = Some(Work { plan, stage, may_be_committed: false });
        self.go_on(world);
    }

    /// The process ends without a word: what becomes of the open transaction is the coordinator's to say.
    pub fn crash(&mut self, world: &mut World) -> Option<Outcome> {
        self.contacts.close_all(world);
        let outcome = self.begin_anew(false);
        count(world, outcome);
        outcome
    }

    /// Something has come about, by which a transaction may have ended.
    pub fn notice(&mut self, world: &mut World, notice: Notice) -> Option<Outcome> {
        let is_awake = matches!(notice, Notice::Wake);
        let mut outcome = None;
        for fate in self.contacts.take(world, notice) {
            outcome = outcome.or(self.take(world, fate));
        }
        if is_awake {
            self.go_on(world);
        }
        count(world, outcome);
        outcome
    }

    /// What was open is in doubt; the next is begun with a new epoch.
    fn begin_anew(&mut self, is_fenced: bool) -> Option<Outcome> {
        self.producer = None;
        self.sequences.clear();
        let work = self.work.take()?;
        // What was never to be committed nobody else commits.
        let end = if work.may_be_committed { End::Unknown } else { End::Aborted };
        Some(Outcome { end, is_fenced })
    }

    fn take(&mut self, world: &mut World, fate: Fate<Asked>) -> Option<Outcome> {
        let Fate { asked: Asked { what, number }, answer, .. } = fate;
        let Some(frame) = answer else {
            self.look_elsewhere(what);
            return None;
        };
        let (produce, commit_offsets, end_txn) = self.way.versions();
        let mut next = None;
        let code = match what {
            What::Init => {
                let (_, response) = world::read::<InitProducerIdRequest>(frame, INIT_PRODUCER_ID);
                if response.error_code == 0 {
                    self.producer = Some((response.producer_id.0, response.producer_epoch));
                } else if response.error_code != ErrorCode::ConcurrentTransactions.code() {
                    self.look_elsewhere(what);
                }
                return None;
            }
            What::AddPartitions => {
                let (_, response) = world::read::<AddPartitionsToTxnRequest>(frame, ADD_PARTITIONS);
                let results = response.results_by_topic_v3_and_below.iter();
                let results = results.flat_map(|topic| &topic.results_by_partition);
                worst(results.map(|result| result.partition_error_code))
            }
            What::Produce(_) => {
                let (_, response) = world::read::<ProduceRequest>(frame, produce);
                response.responses[0].partition_responses[0].error_code
            }
            What::AddOffsets => world::read::<AddOffsetsToTxnRequest>(frame, ADD_OFFSETS).1.error_code,
            What::CommitOffsets => {
                let (_, response) = world::read::<TxnOffsetCommitRequest>(frame, commit_offsets);
                let results = response.topics.iter().flat_map(|topic| &topic.partitions);
                worst(results.map(|result| result.error_code))
            }
            What::End => {
                let (_, response) = world::read::<EndTxnRequest>(frame, end_txn);
                next = Some((response.producer_id.0, response.producer_epoch));
                response.error_code
            }
        };
        // What is answered for another transaction, or once more, is of no interest.
        let is_awaited = number == self.number
            && self.work.as_ref().is_some_and(|work| match &work.stage {
                Stage::Adding => what == What::AddPartitions,
                Stage::Writing { batches } => {
                    matches!(what, What::Produce(partition) if batches.contains_key(&partition))
                }
                Stage::AddingOffsets => what == What::AddOffsets,
                Stage::CommittingOffsets => what == What::CommitOffsets,
                Stage::Ending => what == What::End,
            });
        match code {
            _ if !is_awaited => None,
            0 => self.done(world, what, next),
            code => self.refused(world, what, code),
        }
    }

    /// A step of the transaction is done.
    fn done(&mut self, world: &mut World, what: What, next: Option<(i64, i16)>) -> Option<Outcome> {
        let mut work = self.work.take()?;
        let mut is_written = false;
        match what {
            What::Init => {}
            What::AddPartitions => work.stage = self.writing(world, &work.plan),
            What::Produce(partition) => {
                if let Stage::Writing { batches } = &mut work.stage {
                    batches.remove(&partition);
                    is_written = batches.is_empty();
                }
                let count = work.plan.records.get(&partition).map_or(0, Vec::len);
                *self.sequences.entry(partition).or_default() += count as i32;
            }
            What::AddOffsets => work.stage = Stage::CommittingOffsets,
            What::CommitOffsets => work.stage = Stage::Ending,
            What::End => {
                if self.way == Way::Implied {
                    self.producer = next;
                    self.sequences.clear();
                }
                return Some(Outcome { end: work.plan.end, is_fenced: false });
            }
        }
        if is_written {
            work.stage = self.after_writing(&work.plan);
        }
        self.work = Some(work);
        self.go_on(world);
        None
    }

    /// A step of the transaction was refused.
    fn refused(&mut self, world: &mut World, what: What, code: i16) -> Option<Outcome> {
        let is_passing = match what {
            What::Produce(_) => passing::for_transactional_writers(code),
            _ => passing::at_coordinators(code),
        };
        if is_passing {
            self.look_elsewhere(what);
            return None;
        }
        if passing::is(code, &[ErrorCode::ConcurrentTransactions]) {
            return None;
        }
        let is_of_the_group = [
            ErrorCode::IllegalGeneration,
            ErrorCode::UnknownMemberId,
            ErrorCode::FencedMemberEpoch,
            ErrorCode::StaleMemberEpoch,
            ErrorCode::RebalanceInProgress,
        ];
        if passing::is(code, &is_of_the_group)
            && let Some(work) = &mut self.work
        {
            // The member has no say in its group any more: the transaction is given up in due form.
            work.plan.end = End::Aborted;
            work.stage = Stage::Ending;
            return None;
        }
        let ends_transaction = [
            ErrorCode::InvalidProducerEpoch,
            ErrorCode::ProducerFenced,
            ErrorCode::InvalidProducerIdMapping,
            ErrorCode::InvalidTxnState,
            ErrorCode::TransactionAbortable,
            ErrorCode::OutOfOrderSequenceNumber,
            ErrorCode::UnknownProducerId,
        ];
        if !passing::is(code, &ends_transaction) {
            let what = format!("client {} was refused with {code} when it asked {what:?}", self.client);
            world.note(Event::Broken(what));
        }
        let is_fenced = passing::is(code, &[ErrorCode::InvalidProducerEpoch, ErrorCode::ProducerFenced]);
        self.begin_anew(is_fenced)
    }

    /// Whoever was asked is not, or may not be, the right one any more.
    fn look_elsewhere(&mut self, what: What) {
        match what {
            What::Produce(partition) => self.contacts.forget_leader(partition),
            What::CommitOffsets => {
                let offsets = self.work.as_ref().and_then(|work| work.plan.offsets.as_ref());
                if let Some(offsets) = offsets {
                    self.contacts.forget_coordinator(&Coordinated::Group(offsets.member.group));
                }
            }
            _ => self.contacts.forget_coordinator(&Coordinated::Transactions(self.id.clone())),
        }
    }

    fn writing(&self, world: &World, plan: &Plan) -> Stage {
        let (producer_id, producer_epoch) = self.producer.unwrap_or((-1, -1));
        let timestamp = world.now().wall.as_millis();
        let batch = |(partition, values): (&i32, &Vec<String>)| {
            let header = BatchHeader {
                producer_id,
                producer_epoch,
                base_sequence: self.sequences.get(partition).copied().unwrap_or(0),
                is_transactional: true,
                ..BatchHeader::default()
            };
            let mut builder = BatchBuilder::new(header);
            for value in values {
                builder.push(timestamp, None, Some(value.as_bytes()), std::iter::empty());
            }
            (*partition, builder.build().expect("a few records make a batch"))
        };
        Stage::Writing { batches: plan.records.iter().map(batch).collect() }
    }

    fn after_writing(&self, plan: &Plan) -> Stage {
        match (&plan.offsets, self.way) {
            (None, _) => Stage::Ending,
            (Some(_), Way::Told) => Stage::AddingOffsets,
            (Some(_), Way::Implied) => Stage::CommittingOffsets,
        }
    }

    /// Asks what is next.
    fn go_on(&mut self, world: &mut World) {
        if !self.contacts.look_up_leaders(world) {
            return;
        }
        let own = Coordinated::Transactions(self.id.clone());
        let Some(coordinator) = self.contacts.coordinator(world, &own) else { return };
        if self.contacts.is_asked(|asked| !matches!(asked.what, What::Produce(_))) {
            return;
        }
        let Some(producer) = self.producer else {
            let request = InitProducerIdRequest::default()
                .with_transactional_id(Some(self.transactional_id()))
                .with_transaction_timeout_ms(TIMEOUT_MS)
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1);
            self.ask(world, coordinator, INIT_PRODUCER_ID, &request, What::Init);
            return;
        };
        let Some(work) = &self.work else { return };
        match &work.stage {
            Stage::Adding => {
                let partitions: Vec<i32> = work.plan.records.keys().copied().collect();
                self.add_partitions(world, coordinator, producer, partitions);
            }
            Stage::Writing { batches } => self.write_on(world, batches.clone()),
            Stage::AddingOffsets => self.add_offsets(world, coordinator, producer),
            Stage::CommittingOffsets => self.commit_offsets(world, producer),
            Stage::Ending => self.end(world, coordinator, producer),
        }
    }

    fn add_partitions(
        &mut self,
        world: &mut World,
        coordinator: NodeId,
        producer: (i64, i16),
        partitions: Vec<i32>,
    ) {
        let added = AddPartitionsToTxnTopic::default()
            .with_name(topic(self.contacts.topic()))
            .with_partitions(partitions);
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.transactional_id())
            .with_v3_and_below_producer_id(ProducerId(producer.0))
            .with_v3_and_below_producer_epoch(producer.1)
            .with_v3_and_below_topics(vec![added]);
        self.ask(world, coordinator, ADD_PARTITIONS, &request, What::AddPartitions);
    }

    fn write_on(&mut self, world: &mut World, batches: BTreeMap<i32, Bytes>) {
        let number = self.number;
        for (partition, batch) in batches {
            let is_this = |asked: &Asked| asked.what == What::Produce(partition) && asked.number == number;
            if self.contacts.is_asked(is_this) {
                continue;
            }
            let Some(leader) = self.contacts.leader(partition) else { continue };
            let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch));
            let topic = TopicProduceData::default().with_name(topic(self.contacts.topic()));
            let request = ProduceRequest::default()
                .with_transactional_id(Some(self.transactional_id()))
                .with_acks(-1)
                .with_timeout_ms(3_000)
                .with_topic_data(vec![topic.with_partition_data(vec![data])]);
            self.ask(world, leader, self.way.versions().0, &request, What::Produce(partition));
        }
    }

    fn add_offsets(&mut self, world: &mut World, coordinator: NodeId, producer: (i64, i16)) {
        let Some(group) = self.offsets().map(|offsets| offsets.member.group) else { return };
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(ProducerId(producer.0))
            .with_producer_epoch(producer.1)
            .with_group_id(GroupId(StrBytes::from_static_str(group)));
        self.ask(world, coordinator, ADD_OFFSETS, &request, What::AddOffsets);
    }

    fn commit_offsets(&mut self, world: &mut World, producer: (i64, i16)) {
        let Some(Offsets { member, topic: read, offsets }) = self.offsets().cloned() else { return };
        let Some(coordinator) = self.contacts.coordinator(world, &Coordinated::Group(member.group)) else {
            return;
        };
        let partitions = offsets.iter().map(|(partition, offset)| {
            TxnOffsetCommitRequestPartition::default()
                .with_partition_index(*partition)
                .with_committed_offset(*offset)
        });
        let topics = TxnOffsetCommitRequestTopic::default()
            .with_name(topic(read))
            .with_partitions(partitions.collect());
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_group_id(GroupId(StrBytes::from_static_str(member.group)))
            .with_producer_id(ProducerId(producer.0))
            .with_producer_epoch(producer.1)
            .with_generation_id(member.generation)
            .with_member_id(member.member_id)
            .with_topics(vec![topics]);
        self.ask(world, coordinator, self.way.versions().1, &request, What::CommitOffsets);
    }

    fn end(&mut self, world: &mut World, coordinator: NodeId, producer: (i64, i16)) {
        let is_commit = self.work.as_ref().is_some_and(|work| work.plan.end == End::Committed);
        let request = EndTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(ProducerId(producer.0))
            .with_producer_epoch(producer.1)
            .with_committed(is_commit);
        let is_asked = self.ask(world, coordinator, self.way.versions().2, &request, What::End);
        if let Some(work) = &mut self.work {
            work.may_be_committed |= is_asked && is_commit;
        }
    }

    fn offsets(&self) -> Option<&Offsets> {
        self.work.as_ref()?.plan.offsets.as_ref()
    }

    fn ask<R: Request>(
        &mut self,
        world: &mut World,
        broker: NodeId,
        version: i16,
        request: &R,
        what: What,
    ) -> bool {
        self.contacts.ask(world, broker, version, request, Asked { what, number: self.number })
    }

    fn transactional_id(&self) -> TransactionalId {
        TransactionalId(self.id.clone())
    }
}

fn count(world: &mut World, outcome: Option<Outcome>) {
    let Some(Outcome { end, .. }) = outcome else { return };
    world.count(match end {
        End::Committed => Count::Committed,
        End::Aborted => Count::Aborted,
        End::Unknown => Count::Unheard,
    });
}

/// The first error of several results; 0 if all are well.
fn worst(codes: impl Iterator<Item = i16>) -> i16 {
    codes.into_iter().find(|code| *code != 0).unwrap_or(0)
}
