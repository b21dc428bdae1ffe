//! Requests to the transaction coordinator that wait for what they have written to be committed.

use std::sync::Arc;

use kafka_protocol::messages::{AddOffsetsToTxnResponse, AddPartitionsToTxnResponse};

use super::context::{Context, Parts};
use super::waits::{Key, Operation, Wait};
use super::{Answer, AnyResponse, add_partitions_to_txn, end_txn, init_producer_id};
use crate::base::ErrorCode;
use crate::coordinator::Ticket;
use crate::coordinator::transactions::Producer;
use crate::purgatory::Description;

/// The longest that the transaction coordinator waits for its log, ms: `request.timeout.ms` of Kafka's brokers.
pub(crate) const LOG_TIMEOUT_MS: i32 = 30_000;

/// A request to the transaction coordinator that waits for its tickets to be answered.
#[derive(Clone, Debug)]
pub(crate) struct TransactionWait {
    id: Arc<str>,
    version: i16,
    /// Each with its place in the response.
    tickets: Vec<(Ticket, usize)>,
    response: TransactionResponse,
}

/// The response, as far as it is known while the request waits.
#[derive(Clone, Debug)]
pub(crate) enum TransactionResponse {
    Init(Option<Result<Producer, ErrorCode>>),
    /// Complete, but for what is written, should that fail.
    AddPartitions(AddPartitionsToTxnResponse),
    AddOffsets(ErrorCode),
    End(Option<Result<Producer, ErrorCode>>),
}

/// Answers at once if all tickets are answered; else parks the request until they are.
pub(crate) fn answer_or_park<R>(
    context: &mut Context<'_>,
    id: Arc<str>,
    tickets: Vec<(Ticket, usize)>,
    response: TransactionResponse,
    ready: impl FnOnce(AnyResponse) -> Option<R>,
) -> Answer<R> {
    let mut wait = TransactionWait { id, version: context.caller.version, tickets, response };
    if let Some(response) = wait.try_complete(&mut context.parts) {
        return ready(response).map_or(Answer::Close("the response has the wrong kind"), Answer::Ready);
    }
    let keys: Vec<Key> = wait.tickets.iter().map(|(ticket, _)| Key::Ticket(*ticket)).collect();
    let deadline = context.parts.now.instant.after_timeout_ms(LOG_TIMEOUT_MS);
    let wait = Wait::new(context.caller, Operation::Transaction(Box::new(wait)));
    context.park(keys, deadline, wait);
    Answer::Parked
}

/// What a client that doesn't know PRODUCER_FENCED yet is told instead.
pub(crate) fn fenced_since(version: i16, since: i16, error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::ProducerFenced if version < since => ErrorCode::InvalidProducerEpoch,
        error => error,
    }
}

impl TransactionWait {
    pub(crate) fn try_complete(&mut self, parts: &mut Parts<'_>) -> Option<AnyResponse> {
        let TransactionWait { tickets, response, version, .. } = self;
        tickets.retain(|(ticket, place)| match parts.broker.coordinators.take_producer(*ticket) {
            Some(answer) => {
                response.settle(*version, *place, answer);
                false
            }
            None => true,
        });
        self.tickets.is_empty().then(|| self.build())
    }

    /// What was not committed in time may yet be; the client can't be told that it is.
    pub(crate) fn expire(&mut self, parts: &mut Parts<'_>) -> AnyResponse {
        for (ticket, place) in std::mem::take(&mut self.tickets) {
            parts.broker.coordinators.forget(ticket);
            self.response.settle(self.version, place, Err(ErrorCode::CoordinatorNotAvailable));
        }
        self.build()
    }

    /// The client is gone.
    pub(crate) fn abandon(&self, parts: &mut Parts<'_>) {
        self.tickets.iter().for_each(|(ticket, _)| parts.broker.coordinators.forget(*ticket));
    }

    pub(crate) fn describe(&self) -> Description {
        let waits_for = format!("transaction of {}", self.id);
        Description { waits_for, progress: "not committed yet".to_owned() }
    }

    fn build(&mut self) -> AnyResponse {
        let version = self.version;
        match &mut self.response {
            TransactionResponse::Init(reply) => {
                AnyResponse::InitProducerId(init_producer_id::response(version, reply.take()))
            }
            TransactionResponse::AddPartitions(response) => {
                AnyResponse::AddPartitionsToTxn(std::mem::take(response))
            }
            TransactionResponse::AddOffsets(error) => AnyResponse::AddOffsetsToTxn(
                AddOffsetsToTxnResponse::default().with_error_code(fenced_since(version, 2, *error).code()),
            ),
            TransactionResponse::End(reply) => AnyResponse::EndTxn(end_txn::response(version, reply.take())),
        }
    }
}

impl TransactionResponse {
    fn settle(&mut self, version: i16, place: usize, answer: Result<Producer, ErrorCode>) {
        match self {
            TransactionResponse::Init(reply) | TransactionResponse::End(reply) => *reply = Some(answer),
            TransactionResponse::AddPartitions(response) => {
                if let Err(error) = answer {
                    add_partitions_to_txn::fail(response, version, place, error);
                }
            }
            TransactionResponse::AddOffsets(error) => *error = answer.err().unwrap_or_default(),
        }
    }
}
