//! AddPartitionsToTxn (24), versions 0–5: partitions become part of a transaction, or are asked whether they are (KIP-98).
//!
//! All or nothing: if one partition is unknown, the others are OPERATION_NOT_ATTEMPTED. Versions: 2 PRODUCER_FENCED,
//! INVALID_PRODUCER_EPOCH before; 4 is for brokers, with several transactions and the question alone (`verify_only`),
//! which changes nothing and answers TRANSACTION_ABORTABLE for a partition that isn't part (KIP-890); 5 adds for clients
//! whose epoch rises with each transaction.

use std::sync::Arc;

use kafka_protocol::messages::add_partitions_to_txn_request::{
    AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction,
};
use kafka_protocol::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use kafka_protocol::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, ApiKey};

use super::transaction_waits::{TransactionResponse, answer_or_park, fenced_since};
use super::{Answer, AnyResponse, Api, Context, Refusal, partitions, prepare::Preparation};
use crate::base::ErrorCode;
use crate::coordinator::Ticket;
use crate::coordinator::transactions::{AddPartitions, Producer};

/// First version that brokers use among each other.
const BATCHED: i16 = 4;

pub(crate) struct AddPartitionsToTxn;

impl Api for AddPartitionsToTxn {
    const KEY: ApiKey = ApiKey::AddPartitionsToTxn;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;
    type Wire = AddPartitionsToTxnRequest;
    type Request = Vec<AddPartitionsToTxnTransaction>;
    type Response = AddPartitionsToTxnResponse;

    fn prepare(
        wire: AddPartitionsToTxnRequest,
        preparation: &Preparation,
    ) -> Result<Vec<AddPartitionsToTxnTransaction>, Refusal> {
        if preparation.version >= BATCHED {
            return Ok(wire.transactions);
        }
        let transaction = AddPartitionsToTxnTransaction::default()
            .with_transactional_id(wire.v3_and_below_transactional_id)
            .with_producer_id(wire.v3_and_below_producer_id)
            .with_producer_epoch(wire.v3_and_below_producer_epoch)
            .with_topics(wire.v3_and_below_topics);
        Ok(vec![transaction])
    }

    fn handle(
        context: &mut Context<'_>,
        transactions: Vec<AddPartitionsToTxnTransaction>,
    ) -> Answer<AddPartitionsToTxnResponse> {
        let version = context.caller.version;
        let mut tickets = Vec::new();
        let mut response = AddPartitionsToTxnResponse::default();
        for (place, transaction) in transactions.iter().enumerate() {
            let outcomes = match add(context, transaction) {
                Ok((ticket, outcomes)) => {
                    tickets.extend(ticket.map(|ticket| (ticket, place)));
                    outcomes
                }
                Err(error) => {
                    let count = transaction.topics.iter().map(|topic| topic.partitions.len()).sum();
                    vec![fenced_since(version, 2, error); count]
                }
            };
            let topics = results(&transaction.topics, outcomes);
            if version >= BATCHED {
                let result = AddPartitionsToTxnResult::default()
                    .with_transactional_id(transaction.transactional_id.clone())
                    .with_topic_results(topics);
                response.results_by_transaction.push(result);
            } else {
                response.results_by_topic_v3_and_below = topics;
            }
        }
        let id = transactions.first().map(|first| first.transactional_id.as_str().into()).unwrap_or_default();
        answer_or_park(context, id, tickets, TransactionResponse::AddPartitions(response), |any| match any {
            AnyResponse::AddPartitionsToTxn(response) => Some(response),
            _ => None,
        })
    }
}

/// The ticket of the write, if there is one, and an outcome for each partition.
fn add(
    context: &mut Context<'_>,
    transaction: &AddPartitionsToTxnTransaction,
) -> Result<(Option<Ticket>, Vec<ErrorCode>), ErrorCode> {
    let id: Arc<str> = transaction.transactional_id.as_str().into();
    let producer = Producer { id: transaction.producer_id.0, epoch: transaction.producer_epoch };
    let named: Vec<(Arc<str>, i32)> = transaction
        .topics
        .iter()
        .flat_map(|topic| {
            let name: Arc<str> = topic.name.as_str().into();
            topic.partitions.iter().map(move |index| (name.clone(), *index))
        })
        .collect();
    let is_known = |(topic, index): &(Arc<str>, i32)| {
        partitions::key_by_name(&context.parts, topic, *index).err().unwrap_or_default()
    };
    let mut outcomes: Vec<ErrorCode> = named.iter().map(is_known).collect();
    if outcomes.iter().any(|outcome| outcome.is_error()) {
        for outcome in outcomes.iter_mut().filter(|outcome| !outcome.is_error()) {
            *outcome = ErrorCode::OperationNotAttempted;
        }
        return Ok((None, outcomes));
    }
    if transaction.verify_only {
        let coordinators = &context.parts.broker.coordinators;
        return Ok((None, coordinators.verify_partitions(&id, producer, &named)?));
    }
    let client_version = if context.caller.version >= BATCHED { 2 } else { 0 };
    let add = AddPartitions { producer, partitions: named, client_version, waits: false };
    let (coordinators, mut storage) = context.parts.coordinators();
    Ok((coordinators.add_partitions(&mut storage, &id, add)?, outcomes))
}

fn results(
    topics: &[AddPartitionsToTxnTopic],
    outcomes: Vec<ErrorCode>,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let mut outcomes = outcomes.into_iter();
    let topics = topics.iter().map(|topic| {
        let rows = topic.partitions.iter().map(|index| {
            AddPartitionsToTxnPartitionResult::default()
                .with_partition_index(*index)
                .with_partition_error_code(outcomes.next().unwrap_or_default().code())
        });
        AddPartitionsToTxnTopicResult::default()
            .with_name(topic.name.clone())
            .with_results_by_partition(rows.collect())
    });
    topics.collect()
}

/// What was written for the transaction in this place has failed.
pub(super) fn fail(response: &mut AddPartitionsToTxnResponse, version: i16, place: usize, error: ErrorCode) {
    let topics = match version {
        BATCHED.. => response.results_by_transaction.get_mut(place).map(|result| &mut result.topic_results),
        _ => Some(&mut response.results_by_topic_v3_and_below),
    };
    for row in topics.into_iter().flatten().flat_map(|topic| &mut topic.results_by_partition) {
        row.partition_error_code = fenced_since(version, 2, error).code();
    }
}
