//! DescribeTransactions (65), version 0: how transactions stand (KIP-664).
//!
//! An unknown id is TRANSACTIONAL_ID_NOT_FOUND, an empty one INVALID_REQUEST. A change is told of once it is committed.

use std::sync::Arc;

use indexmap::IndexMap;
use kafka_protocol::messages::describe_transactions_response::{TopicData, TransactionState};
use kafka_protocol::messages::{
    ApiKey, DescribeTransactionsRequest, DescribeTransactionsResponse, ProducerId,
};
use rustc_hash::FxBuildHasher;

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::coordinator::transactions::TransactionValue;

pub(crate) struct DescribeTransactions;

impl Api for DescribeTransactions {
    const KEY: ApiKey = ApiKey::DescribeTransactions;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;
    type Wire = DescribeTransactionsRequest;
    type Request = DescribeTransactionsRequest;
    type Response = DescribeTransactionsResponse;

    fn prepare(
        wire: DescribeTransactionsRequest,
        _: &Preparation,
    ) -> Result<DescribeTransactionsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(
        context: &mut Context<'_>,
        request: DescribeTransactionsRequest,
    ) -> Answer<DescribeTransactionsResponse> {
        let rows = request.transactional_ids.iter().map(|id| {
            let row = match find(context, id) {
                Ok(value) => row(value),
                Err(error) => TransactionState::default().with_error_code(error.code()),
            };
            row.with_transactional_id(id.clone())
        });
        Answer::Ready(DescribeTransactionsResponse::default().with_transaction_states(rows.collect()))
    }
}

fn find<'a>(context: &'a Context<'_>, id: &str) -> Result<&'a TransactionValue, ErrorCode> {
    if id.is_empty() {
        return Err(ErrorCode::InvalidRequest);
    }
    let transaction = context.parts.broker.coordinators.committed_transaction(id)?;
    transaction.ok_or(ErrorCode::TransactionalIdNotFound)
}

fn row(value: &TransactionValue) -> TransactionState {
    let mut topics: IndexMap<&Arc<str>, Vec<i32>, FxBuildHasher> = IndexMap::default();
    for (topic, index) in &value.partitions {
        topics.entry(topic).or_default().push(*index);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        TopicData::default().with_topic(names::topic_name(topic)).with_partitions(partitions)
    });
    TransactionState::default()
        .with_transaction_state(names::text(value.state.name()))
        .with_transaction_timeout_ms(value.timeout_ms)
        .with_transaction_start_time_ms(value.start_ms)
        .with_producer_id(ProducerId(value.producer_id))
        .with_producer_epoch(value.epoch)
        .with_topics(topics.collect())
}
