//! TxnOffsetCommit (28), versions 0–5: offsets become part of a transaction, and count once that is committed (KIP-98).
//!
//! As with a transactional Produce, the coordinator of the transaction is asked first whether the group's partition of
//! `__consumer_offsets` is part of it; clients whose epoch rises with each transaction (v5+) have it added (KIP-890).
//! Versions: 2 has leader epochs; 3 the group's generation and member (KIP-447); 4 TRANSACTION_ABORTABLE.

use std::sync::Arc;

use kafka_protocol::messages::txn_offset_commit_response::{
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};
use kafka_protocol::messages::{ApiKey, TxnOffsetCommitRequest, TxnOffsetCommitResponse};

use super::commit_answers::CommitAnswer;
use super::context::Parts;
use super::waits::{Key, Operation, Wait};
use super::{Answer, Api, Context, Refusal, inquiries, partitions, prepare::Preparation};
use crate::base::{ErrorCode, PartitionKey};
use crate::controller::names::CONSUMER_OFFSETS;
use crate::coordinator::groups::{Commit, CommitPartition};
use crate::coordinator::transactions::Producer;
use crate::coordinator::{InTransaction, Ticket, partition_for};
use crate::log::{VerificationGuard, Verifying};
use crate::purgatory::Description;

/// First version that makes the group's partition part of the transaction.
const ADDS_PARTITION: i16 = 5;

pub(crate) struct TxnOffsetCommit;

impl Api for TxnOffsetCommit {
    const KEY: ApiKey = ApiKey::TxnOffsetCommit;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;
    type Wire = TxnOffsetCommitRequest;
    type Request = TxnOffsetCommitRequest;
    type Response = TxnOffsetCommitResponse;

    fn prepare(wire: TxnOffsetCommitRequest, _: &Preparation) -> Result<TxnOffsetCommitRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: TxnOffsetCommitRequest) -> Answer<TxnOffsetCommitResponse> {
        let version = context.caller.version;
        let group: Arc<str> = request.group_id.as_str().into();
        let (commit, answer) = commit(context, &request);
        let mut wait = TxnOffsetsWait { version, group, answer, step: Step::Done };
        if commit.partitions.is_empty() {
            return Answer::Ready(wait.response());
        }
        let (key, step) = match begin(context, &wait.group, &request, commit) {
            Ok(begun) => begun,
            Err(error) => {
                wait.settle(error);
                return Answer::Ready(wait.response());
            }
        };
        wait.step = step;
        if let Some(response) = wait.try_complete(&mut context.parts) {
            return Answer::Ready(response);
        }
        let mut keys = vec![Key::HighWatermark(key)];
        if let Step::Asking { inquiry, .. } = &wait.step {
            keys.push(Key::Inquiry(*inquiry));
        }
        let timeout_ms = context.parts.settings().offsets.commit_timeout_ms;
        let timeout_ms = i32::try_from(timeout_ms).unwrap_or(i32::MAX);
        let deadline = context.parts.now.instant.after_timeout_ms(timeout_ms);
        let wait = Wait::new(context.caller, Operation::TxnOffsets(Box::new(wait)));
        context.park(keys, deadline, wait);
        Answer::Parked
    }
}

/// What is to be committed, and the answer as far as it is known.
fn commit(context: &Context<'_>, request: &TxnOffsetCommitRequest) -> (Commit, CommitAnswer) {
    let version = context.caller.version;
    let producer = Producer { id: request.producer_id.0, epoch: request.producer_epoch };
    let mut commit = Commit {
        member_id: request.member_id.as_str().into(),
        instance_id: request.group_instance_id.as_ref().map(|id| id.as_str().into()),
        generation: if version >= 3 { request.generation_id } else { -1 },
        transaction: Some(InTransaction { producer, guard: None }),
        ..Commit::default()
    };
    let mut answer = CommitAnswer::default();
    for topic in &request.topics {
        let name: Arc<str> = topic.name.as_str().into();
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let are_part = answer.add(&context.parts, &topic.name, indexes);
        for (partition, is_part) in topic.partitions.iter().zip(are_part) {
            if is_part {
                let metadata = partition.committed_metadata.as_ref().map(|text| text.as_str());
                commit.partitions.push(CommitPartition {
                    topic: name.clone(),
                    index: partition.partition_index,
                    offset: partition.committed_offset,
                    leader_epoch: if version >= 2 { partition.committed_leader_epoch } else { -1 },
                    metadata: metadata.unwrap_or("").into(),
                });
            }
        }
    }
    (commit, answer)
}

/// The partition that is written to, and what comes first: the question, unless the transaction is open there already.
fn begin(
    context: &mut Context<'_>,
    group: &Arc<str>,
    request: &TxnOffsetCommitRequest,
    commit: Commit,
) -> Result<(PartitionKey, Step), ErrorCode> {
    if group.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let adds = context.caller.version >= ADDS_PARTITION;
    let parts = &mut context.parts;
    parts.broker.coordinators.groups_for(group)?;
    let index = partition_for(group, parts.broker.coordinators.settings().partitions);
    let key = partitions::key_by_name(parts, CONSUMER_OFFSETS, index)?;
    let producer = Producer { id: request.producer_id.0, epoch: request.producer_epoch };
    let verifies = parts.settings().transactions.partition_verification_enable;
    let verifying =
        Verifying { producer_id: producer.id, epoch: producer.epoch, sequence: -1, bumps_epoch: false };
    let guard = parts.broker.replicas.begin_verification(key, verifying);
    let Some(guard) = guard.filter(|_| adds || verifies) else {
        return Ok((key, Step::Verified { commit, guard }));
    };
    let id: Arc<str> = request.transactional_id.as_str().into();
    let inquiry = inquiries::ask(parts, id, producer, vec![(CONSUMER_OFFSETS.into(), index)], adds);
    Ok((key, Step::Asking { inquiry, commit, guard }))
}

/// A TxnOffsetCommit request on its way.
#[derive(Clone, Debug)]
pub(crate) struct TxnOffsetsWait {
    version: i16,
    group: Arc<str>,
    answer: CommitAnswer,
    step: Step,
}

#[derive(Clone, Debug)]
enum Step {
    /// The coordinator of the transaction is asked.
    Asking {
        inquiry: u64,
        commit: Commit,
        guard: VerificationGuard,
    },
    /// The offsets may be written.
    Verified {
        commit: Commit,
        guard: Option<VerificationGuard>,
    },
    /// They are written and not committed yet.
    Written(Ticket),
    Done,
}

impl TxnOffsetsWait {
    pub(crate) fn try_complete(&mut self, parts: &mut Parts<'_>) -> Option<TxnOffsetCommitResponse> {
        self.step = match std::mem::replace(&mut self.step, Step::Done) {
            Step::Asking { inquiry, commit, guard } => match parts.broker.inquiries.take(inquiry) {
                None => Step::Asking { inquiry, commit, guard },
                Some(outcomes) => match self.heard(outcomes) {
                    ErrorCode::None => Step::Verified { commit, guard: Some(guard) },
                    error => {
                        self.settle(error);
                        Step::Done
                    }
                },
            },
            step => step,
        };
        if let Step::Verified { .. } = &self.step {
            self.write(parts);
        }
        if let Step::Written(ticket) = self.step
            && let Some(written) = parts.broker.coordinators.take_answer(ticket)
        {
            self.settle(written.err().unwrap_or_default());
            self.step = Step::Done;
        }
        matches!(self.step, Step::Done).then(|| self.response())
    }

    /// What the client is told of the coordinator's answer.
    fn heard(&self, outcomes: inquiries::Outcomes) -> ErrorCode {
        let error = match outcomes {
            Ok(each) => each.first().copied().unwrap_or(ErrorCode::UnknownServerError),
            Err(error) => error,
        };
        match error {
            ErrorCode::TransactionAbortable if self.version < 4 => ErrorCode::InvalidTxnState,
            ErrorCode::ProducerFenced => ErrorCode::InvalidProducerEpoch,
            ErrorCode::ConcurrentTransactions if self.version >= ADDS_PARTITION => error,
            ErrorCode::ConcurrentTransactions
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::NotCoordinator => ErrorCode::CoordinatorNotAvailable,
            error => error,
        }
    }

    fn write(&mut self, parts: &mut Parts<'_>) {
        let Step::Verified { mut commit, guard } = std::mem::replace(&mut self.step, Step::Done) else {
            return;
        };
        if let Some(transaction) = &mut commit.transaction {
            transaction.guard = guard;
        }
        let (coordinators, mut storage) = parts.coordinators();
        match coordinators.commit(&mut storage, &self.group, commit) {
            Err(error) => self.settle(error),
            Ok((ticket, outcomes)) => {
                self.answer.take(outcomes);
                self.step = ticket.map_or(Step::Done, Step::Written);
            }
        }
    }

    /// What becomes of all that was to be committed.
    fn settle(&mut self, error: ErrorCode) {
        let error = match error {
            ErrorCode::CoordinatorLoadInProgress if self.version < 2 => ErrorCode::CoordinatorNotAvailable,
            error => error,
        };
        self.answer.fail(error);
    }

    fn response(&self) -> TxnOffsetCommitResponse {
        let topics = self.answer.topics().into_iter().map(|(name, rows)| {
            let rows = rows.into_iter().map(|(index, error)| {
                TxnOffsetCommitResponsePartition::default()
                    .with_partition_index(index)
                    .with_error_code(error.code())
            });
            TxnOffsetCommitResponseTopic::default().with_name(name).with_partitions(rows.collect())
        });
        TxnOffsetCommitResponse::default().with_topics(topics.collect())
    }

    /// What was not committed in time may yet be; the client can't be told that it is.
    pub(crate) fn expire(&mut self, parts: &mut Parts<'_>) -> TxnOffsetCommitResponse {
        self.abandon(parts);
        self.settle(ErrorCode::CoordinatorNotAvailable);
        self.response()
    }

    /// The client is gone.
    pub(crate) fn abandon(&self, parts: &mut Parts<'_>) {
        match &self.step {
            Step::Asking { inquiry, .. } => parts.broker.inquiries.forget(*inquiry),
            Step::Written(ticket) => parts.broker.coordinators.forget(*ticket),
            _ => {}
        }
    }

    pub(crate) fn describe(&self) -> Description {
        let progress = match self.step {
            Step::Asking { .. } => "the coordinator of its transaction is asked",
            _ => "not committed yet",
        };
        Description { waits_for: format!("group {}", self.group), progress: progress.to_owned() }
    }
}
