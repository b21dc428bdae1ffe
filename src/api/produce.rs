//! Produce (0), versions 3–13: appends records.
//!
//! Each partition succeeds or fails alone. acks=1 is answered after the append; acks=−1 waits in the purgatory until the
//! high watermark has passed the records (at once where the leader is the only replica); acks=0 is never answered, and
//! an error then closes the connection. Order of checks: `produce.md`, Kafka's `KafkaApis.handleProduceRequest`,
//! `ReplicaManager.appendRecords`.
//!
//! Versions: 7 allows zstd (KIP-110); 8 tells which records were bad (KIP-467); 10 tells the new leader (KIP-951); 11
//! TRANSACTION_ABORTABLE; 12 makes partitions part of the producer's transaction (KIP-890); 13 names topics by id
//! (KIP-516). Advertised from 0, since librdkafka up to 2.0 drops compression otherwise; 0 to 2
//! close the connection, as in Kafka 4.
//!
//! Not as in Kafka: a request with null records, which Kafka never answers, is INVALID_RECORD. With acks=0, the first batch
//! of a transaction closes the connection.

use std::sync::Arc;

use bytes::Bytes;
use indexmap::IndexMap;
use kafka_protocol::messages::produce_response::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{ApiKey, BrokerId, ProduceRequest, ProduceResponse, TopicName};
use rustc_hash::FxBuildHasher;
use uuid::Uuid;

use super::by_topic::by_topic;
use super::context::Parts;
use super::produce_transactions::{self, Asking, Begin};
use super::subjects::NamesTopic;
use super::waits::{Key, Operation, Wait};
use super::{Answer, Api, Context, Refusal, names, partitions, prepare::Preparation};
use crate::base::planted::{Bug, is_planted};
use crate::base::{ConnectionId, ErrorCode, PartitionKey, TopicId};
use crate::controller::names as topic_names;
use crate::log::{AppendError, AppendOrigin};
use crate::purgatory::Description;
use crate::replica::Replica;
use crate::wire::batch::{BatchView, Codec};
use crate::wire::check::{CheckedBatch, Rejection, check_context_free};
use crate::wire::decode::decode;

/// The client id that may write to the brokers' own topics.
const ADMIN_CLIENT: &str = "__admin_client";

/// All batches of a request together may hold so many times what one of them may, once decompressed: without a bound,
/// one frame of a thousand bombs would keep everybody else waiting for minutes.
const FULL_BATCHES_A_REQUEST: usize = 8;

pub(crate) struct Produce;

/// A Produce request whose batches have been looked at.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(super) transactional_id: Option<Arc<str>>,
    acks: i16,
    timeout_ms: i32,
    partitions: Vec<RequestPartition>,
}

#[derive(Clone, Debug)]
struct RequestPartition {
    topic: TopicName,
    topic_id: TopicId,
    index: i32,
    batch: Result<CheckedBatch, Rejection>,
}

impl Api for Produce {
    const KEY: ApiKey = ApiKey::Produce;
    const VERSIONS: std::ops::RangeInclusive<i16> = 3..=13;
    const ADVERTISED_FROM: i16 = 0;
    type Wire = ProduceRequest;
    type Request = Request;
    type Response = ProduceResponse;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> =
        Some(|request, topic, _| request.partitions.iter().any(|one| topic.is(&one.topic, one.topic_id)));

    fn prepare(wire: ProduceRequest, preparation: &Preparation) -> Result<Request, Refusal> {
        let limit = preparation.limits.max_decompressed_bytes;
        // Of a partition that comes twice, the last records count.
        let mut records: IndexMap<(TopicName, Uuid, i32), Bytes, FxBuildHasher> =
            IndexMap::with_capacity_and_hasher(wire.topic_data.len(), FxBuildHasher);
        for topic in wire.topic_data {
            for data in topic.partition_data {
                let key = (topic.name.clone(), topic.topic_id, data.index);
                records.insert(key, data.records.unwrap_or_default());
            }
        }
        let mut left = limit.saturating_mul(FULL_BATCHES_A_REQUEST);
        let partitions = records.into_iter().map(|((topic, topic_id, index), records)| {
            let checked = check_context_free(records, preparation.version, limit.min(left));
            left = left.saturating_sub(checked.as_ref().map_or(0, CheckedBatch::decompressed_bytes));
            let batch = checked.map_err(|error| Rejection::from(&error));
            RequestPartition { topic, topic_id: topic_id.into(), index, batch }
        });
        let partitions = partitions.collect();
        let transactional_id = wire.transactional_id.map(|id| id.as_str().into());
        Ok(Request { transactional_id, acks: wire.acks, timeout_ms: wire.timeout_ms, partitions })
    }

    fn handle(context: &mut Context<'_>, request: Request) -> Answer<ProduceResponse> {
        let acks = request.acks;
        let version = context.caller.version;
        let admin = context.caller.client_id.as_deref() == Some(ADMIN_CLIENT);
        let mut wait = ProduceWait {
            version,
            acks,
            connection: context.caller.connection,
            partitions: Vec::with_capacity(request.partitions.len()),
            inquiry: None,
        };
        let refusal = produce_transactions::refusal(&request);
        for partition in request.partitions {
            let outcome = match refusal {
                Some(error) => Outcome::Failed(Box::new(error.into())),
                None => begin(&mut context.parts, version, admin, acks, &partition),
            };
            wait.partitions.push(Partition {
                topic: partition.topic.as_str().into(),
                topic_id: partition.topic_id,
                index: partition.index,
                outcome,
            });
        }
        if acks == 0 {
            let appended = wait.partitions.iter().all(|one| matches!(one.outcome, Outcome::Appended(_)));
            return if appended { Answer::Silent } else { Answer::Close("a Produce with acks=0 failed") };
        }
        wait.ask(&mut context.parts, request.transactional_id.as_ref());
        if let Some(response) = wait.try_complete(&mut context.parts) {
            return Answer::Ready(response);
        }
        let keys: Vec<Key> = wait.keys().collect();
        let deadline = context.parts.now.instant.after_timeout_ms(request.timeout_ms);
        let wait = Wait::new(context.caller, Operation::Produce(Box::new(wait)));
        context.park(keys, deadline, wait);
        Answer::Parked
    }
}

fn begin(
    parts: &mut Parts<'_>,
    version: i16,
    admin: bool,
    acks: i16,
    partition: &RequestPartition,
) -> Outcome {
    let begun = try_begin(parts, version, admin, acks, partition);
    begun.unwrap_or_else(|failure| Outcome::Failed(Box::new(failure)))
}

fn try_begin(
    parts: &mut Parts<'_>,
    version: i16,
    admin: bool,
    acks: i16,
    partition: &RequestPartition,
) -> Result<Outcome, Failure> {
    let key = if version >= 13 {
        partitions::key_by_id(parts, partition.topic_id, partition.index)?
    } else {
        partitions::key_by_name(parts, &partition.topic, partition.index)?
    };
    let batch = partition.batch.as_ref().map_err(|rejection| Failure::from(rejection.clone()))?;
    if !matches!(acks, -1..=1) {
        return Err(ErrorCode::InvalidRequiredAcks.into());
    }
    let not_here = |error: ErrorCode| Failure { leader_of: Some(key), ..error.into() };
    let replica = partitions::replica(parts, key).map_err(not_here)?;
    if topic_names::is_internal(replica.topic()) && !admin {
        return Err(ErrorCode::InvalidTopicException.into());
    }
    replica.check_leader(-1).map_err(not_here)?;
    match produce_transactions::begin(parts, version, key, batch) {
        Begin::Append(origin) => append_to(parts, key, batch, origin, acks).map(Outcome::Appended),
        Begin::Ask(asking) => Ok(Outcome::Asking(asking)),
    }
}

fn append_to(
    parts: &mut Parts<'_>,
    key: PartitionKey,
    batch: &CheckedBatch,
    origin: AppendOrigin,
    acks: i16,
) -> Result<AppendedPartition, Failure> {
    let not_here = |error: ErrorCode| Failure { leader_of: Some(key), ..error.into() };
    let replica = partitions::replica(parts, key).map_err(not_here)?;
    // Once more: while the coordinator of a transaction was asked, another broker may have become the leader.
    replica.check_leader(-1).map_err(not_here)?;
    if acks == -1 && !replica.has_enough_in_sync() {
        return Err(ErrorCode::NotEnoughReplicas.into());
    }
    let log_start_offset = replica.log().log_start_offset();
    let name = format_args!("{}-{}", replica.topic(), key.index);
    let rules = replica.batch_rules();
    let accepted = batch.clone().accept(&rules, parts.now.wall.as_millis(), &name);
    let bytes = accepted.map_err(|rejection| {
        let log_start_offset = if rejection.reports_log_start { log_start_offset } else { -1 };
        Failure { log_start_offset, ..rejection.into() }
    })?;
    let appended = parts.broker.replicas.append(key, parts.pool, &bytes, origin, parts.now);
    let (appended, moved) = appended.ok_or(ErrorCode::NotLeaderOrFollower)?.map_err(|error| {
        if matches!(error, AppendError::Budget(_)) {
            parts.broker.log_memory_full(parts.now.instant, parts.pool);
        }
        let told = !matches!(error.code(), ErrorCode::RecordListTooLarge | ErrorCode::KafkaStorageError);
        Failure { log_start_offset: if told { log_start_offset } else { -1 }, ..error.code().into() }
    })?;
    if !appended.duplicate {
        parts.broker.wake(Key::LogEnd(key));
    }
    if moved.high_watermark {
        parts.broker.wake(Key::HighWatermark(key));
    }
    Ok(AppendedPartition {
        key,
        base_offset: appended.base_offset,
        required_offset: appended.last_offset + 1,
        log_append_time_ms: appended.log_append_time_ms,
        log_start_offset: appended.log_start_offset,
        state: match acks == 1 || is_planted(Bug::AcknowledgesTooEarly) {
            true => State::Acknowledged,
            false => State::Pending,
        },
    })
}

impl Request {
    /// The batches that have passed their checks.
    pub(super) fn batches(&self) -> impl Iterator<Item = BatchView<'_>> {
        self.partitions.iter().filter_map(|partition| partition.batch.as_ref().ok()?.view())
    }
}

/// How many bytes of compressed batches a request brings; 0 if it can't be read.
pub(super) fn compressed_bytes(version: i16, body: Bytes) -> usize {
    let Ok(request) = decode::<ProduceRequest>(ApiKey::Produce as i16, version, body) else { return 0 };
    let records = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    let records = records.filter_map(|data| data.records.as_ref());
    let is_compressed =
        |records: &&Bytes| BatchView::new(records).is_some_and(|view| view.codec() != Some(Codec::None));
    records.filter(is_compressed).map(Bytes::len).sum()
}

/// A Produce request of which some partition isn't acknowledged yet.
#[derive(Clone, Debug)]
pub(crate) struct ProduceWait {
    version: i16,
    acks: i16,
    connection: ConnectionId,
    partitions: Vec<Partition>,
    /// What the coordinator of the transaction is asked.
    inquiry: Option<u64>,
}

#[derive(Clone, Debug)]
struct Partition {
    topic: Arc<str>,
    topic_id: TopicId,
    index: i32,
    outcome: Outcome,
}

#[derive(Clone, Debug)]
enum Outcome {
    Asking(Box<Asking>),
    Appended(AppendedPartition),
    Failed(Box<Failure>),
}

#[derive(Clone, Debug)]
struct AppendedPartition {
    key: PartitionKey,
    base_offset: i64,
    /// The high watermark that acknowledges the records.
    required_offset: i64,
    log_append_time_ms: i64,
    log_start_offset: i64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Pending,
    Acknowledged,
    /// The records are in the log, but can't be promised.
    Lost(ErrorCode),
}

/// How far a partition is on its way to be acknowledged, for people.
fn progress(replica: &Replica, required: i64) -> String {
    let mut progress = format!("high watermark {} of {required}", replica.high_watermark());
    let missing = replica.in_sync_without(required);
    if !missing.is_empty() {
        let ids: Vec<String> = missing.iter().map(|id| id.0.to_string()).collect();
        progress += &format!(" (in sync but behind: {})", ids.join(" "));
    }
    if replica.is_pinned() {
        progress += " (pinned)";
    }
    progress
}

/// Why a partition's records were not appended.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    error: ErrorCode,
    pub(super) message: Option<String>,
    record_errors: Vec<(i32, Option<String>)>,
    log_start_offset: i64,
    /// The partition whose leader the client is to be told, since it came to the wrong broker.
    leader_of: Option<PartitionKey>,
}

impl From<ErrorCode> for Failure {
    fn from(error: ErrorCode) -> Self {
        Failure { error, message: None, record_errors: Vec::new(), log_start_offset: -1, leader_of: None }
    }
}

impl From<Rejection> for Failure {
    fn from(rejection: Rejection) -> Self {
        Failure {
            message: rejection.message,
            record_errors: rejection.record_errors,
            ..rejection.code.into()
        }
    }
}

impl ProduceWait {
    /// Asks the coordinator, if there is something to ask.
    fn ask(&mut self, parts: &mut Parts<'_>, transactional_id: Option<&Arc<str>>) {
        let mut producer = None;
        let mut partitions = Vec::new();
        for partition in &self.partitions {
            let Outcome::Asking(asking) = &partition.outcome else { continue };
            producer = Some(asking.producer);
            let topic = parts.broker.replicas.replica(asking.key).map(|replica| replica.topic().clone());
            partitions.push((topic.unwrap_or_default(), partition.index));
        }
        if let Some(producer) = producer {
            let ask = produce_transactions::ask;
            self.inquiry = Some(ask(parts, self.version, transactional_id, producer, partitions));
        }
    }

    /// Appends what the coordinator has been asked about, once it has answered.
    fn hear(&mut self, parts: &mut Parts<'_>) {
        let Some(number) = self.inquiry else { return };
        let Some(outcomes) = parts.broker.inquiries.take(number) else { return };
        self.inquiry = None;
        let mut at = 0;
        for partition in &mut self.partitions {
            let Outcome::Asking(asking) = &partition.outcome else { continue };
            let error = match &outcomes {
                Ok(each) => each.get(at).copied().unwrap_or(ErrorCode::UnknownServerError),
                Err(error) => *error,
            };
            at += 1;
            let origin = AppendOrigin::VerifiedClient(Some(asking.guard));
            let appended = match produce_transactions::told(self.version, error) {
                Some(failure) => Err(failure),
                None => append_to(parts, asking.key, &asking.batch, origin, self.acks),
            };
            partition.outcome = match appended {
                Ok(appended) => Outcome::Appended(appended),
                Err(failure) => Outcome::Failed(Box::new(failure)),
            };
        }
    }

    /// What lets this be tried again.
    fn keys(&self) -> impl Iterator<Item = Key> {
        let keys = self.partitions.iter().filter_map(|partition| match &partition.outcome {
            Outcome::Asking(asking) => Some(asking.key),
            Outcome::Appended(appended) if appended.state == State::Pending => Some(appended.key),
            _ => None,
        });
        keys.map(Key::HighWatermark).chain(self.inquiry.map(Key::Inquiry))
    }

    fn pending(&self) -> impl Iterator<Item = (PartitionKey, i64)> {
        self.partitions.iter().filter_map(|partition| match &partition.outcome {
            Outcome::Appended(appended) if appended.state == State::Pending => {
                Some((appended.key, appended.required_offset))
            }
            _ => None,
        })
    }

    pub(crate) fn try_complete(&mut self, parts: &mut Parts<'_>) -> Option<ProduceResponse> {
        self.hear(parts);
        if self.inquiry.is_some() {
            return None;
        }
        for partition in &mut self.partitions {
            let Outcome::Appended(appended) = &mut partition.outcome else { continue };
            if appended.state == State::Pending {
                appended.state = state(parts, appended.key, appended.required_offset);
            }
        }
        self.pending().next().is_none().then(|| self.response(parts))
    }

    /// The client is gone.
    pub(crate) fn abandon(&self, parts: &mut Parts<'_>) {
        self.inquiry.iter().for_each(|number| parts.broker.inquiries.forget(*number));
    }

    pub(crate) fn expire(&mut self, parts: &mut Parts<'_>) -> ProduceResponse {
        self.abandon(parts);
        self.response(parts)
    }

    pub(crate) fn describe(&self, parts: &Parts<'_>) -> Description {
        let mut description = Description::default();
        if self.inquiry.is_some() {
            description.waits_for = "the coordinator of its transaction".to_owned();
        }
        for (key, required) in self.pending() {
            let replica = partitions::replica(parts, key);
            let topic = replica.as_ref().map_or("?", |replica| &**replica.topic());
            let separator = if description.waits_for.is_empty() { "" } else { ", " };
            description.waits_for += &format!("{separator}{topic}-{}", key.index);
            let progress = replica.map_or_else(|_| "led elsewhere".to_owned(), |one| progress(one, required));
            description.progress += &format!("{separator}{progress}");
        }
        description
    }

    fn response(&self, parts: &Parts<'_>) -> ProduceResponse {
        let mut endpoints = Vec::new();
        let rows = self.partitions.iter().map(|partition| {
            ((&partition.topic, partition.topic_id), self.row(parts, partition, &mut endpoints))
        });
        let topics = by_topic(rows).map(|((topic, id), rows)| {
            let response = TopicProduceResponse::default().with_partition_responses(rows);
            if self.version >= 13 {
                response.with_topic_id(id.into())
            } else {
                response.with_name(names::topic_name(topic))
            }
        });
        let responses = topics.collect();
        ProduceResponse::default().with_responses(responses).with_node_endpoints(endpoints)
    }

    fn row(
        &self,
        parts: &Parts<'_>,
        partition: &Partition,
        endpoints: &mut Vec<NodeEndpoint>,
    ) -> PartitionProduceResponse {
        let row = PartitionProduceResponse::default().with_index(partition.index);
        let failure = match &partition.outcome {
            Outcome::Appended(appended) => match appended.state {
                State::Acknowledged => {
                    let row = row
                        .with_base_offset(appended.base_offset)
                        .with_log_append_time_ms(appended.log_append_time_ms);
                    return if self.version >= 5 {
                        row.with_log_start_offset(appended.log_start_offset)
                    } else {
                        row
                    };
                }
                State::Pending => Failure::from(ErrorCode::RequestTimedOut),
                State::Lost(error) => Failure { leader_of: Some(appended.key), ..error.into() },
            },
            Outcome::Asking(_) => Failure::from(ErrorCode::RequestTimedOut),
            Outcome::Failed(failure) => Failure::clone(failure),
        };
        self.failed_row(parts, row, failure, endpoints)
    }

    fn failed_row(
        &self,
        parts: &Parts<'_>,
        row: PartitionProduceResponse,
        failure: Failure,
        endpoints: &mut Vec<NodeEndpoint>,
    ) -> PartitionProduceResponse {
        let mut row =
            row.with_error_code(failure.error.code()).with_base_offset(-1).with_log_append_time_ms(-1);
        if self.version >= 5 {
            row.log_start_offset = failure.log_start_offset;
        }
        if self.version >= 8 {
            row.error_message = failure.message.map(names::text);
            row.record_errors = failure
                .record_errors
                .into_iter()
                .map(|(index, message)| {
                    BatchIndexAndErrorMessage::default()
                        .with_batch_index(index)
                        .with_batch_index_error_message(message.map(names::text))
                })
                .collect();
        }
        if self.version >= 10
            && failure.error == ErrorCode::NotLeaderOrFollower
            && let Some(key) = failure.leader_of
            && let Some((leader, epoch)) = partitions::leader(parts, key)
        {
            row.current_leader =
                LeaderIdAndEpoch::default().with_leader_id(BrokerId(leader.0)).with_leader_epoch(epoch);
            let known = endpoints.iter().any(|endpoint| endpoint.node_id.0 == leader.0);
            if !known && let Some(endpoint) = parts.endpoint(leader, self.connection) {
                endpoints.push(
                    NodeEndpoint::default()
                        .with_node_id(BrokerId(leader.0))
                        .with_host(names::text(&*endpoint.host))
                        .with_port(endpoint.port.into()),
                );
            }
        }
        row
    }
}

/// How a partition's acknowledgement stands (Kafka's `Partition.checkEnoughReplicasReachOffset`).
fn state(parts: &Parts<'_>, key: PartitionKey, required_offset: i64) -> State {
    let checked = |replica: &Replica| match replica.check_leader(-1) {
        Err(error) => State::Lost(error),
        Ok(()) if replica.high_watermark() < required_offset => State::Pending,
        Ok(()) if replica.has_enough_maximal_in_sync() => State::Acknowledged,
        Ok(()) => State::Lost(ErrorCode::NotEnoughReplicasAfterAppend),
    };
    match partitions::replica(parts, key) {
        Ok(replica) => checked(replica),
        Err(_) if parts.controller.topics().by_id(key.topic).is_none() => {
            State::Lost(ErrorCode::UnknownTopicOrPartition)
        }
        Err(error) => State::Lost(error),
    }
}
