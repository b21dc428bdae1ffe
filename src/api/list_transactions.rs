//! ListTransactions (66), versions 0–2: the transactional ids that this broker coordinates (KIP-664).
//!
//! Filters that are there must all match; states that don't exist are sent back, but not beside an error. Versions: 1 filters
//! by how long a transaction has been running (KIP-994); 2 by a regular expression for whole ids (KIP-1152), where one that
//! is invalid is INVALID_REGULAR_EXPRESSION and an empty one none.

use std::collections::BTreeSet;

use kafka_protocol::messages::list_transactions_response::TransactionState as Row;
use kafka_protocol::messages::{
    ApiKey, ListTransactionsRequest, ListTransactionsResponse, ProducerId, TransactionalId,
};

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::{ErrorCode, InvalidPattern, Pattern};
use crate::coordinator::transactions::{TransactionState, TransactionValue};

/// The most memory that a compiled regular expression may take, bytes: enough for the 1,000 repetitions that Kafka's engine
/// allows. It bounds the time for each id.
const PATTERN_BYTES_MAX: usize = 256 << 10;

pub(crate) struct ListTransactions;

/// What is asked for, its regular expression compiled.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    filters: ListTransactionsRequest,
    pattern: Result<Option<Pattern>, InvalidPattern>,
}

impl Api for ListTransactions {
    const KEY: ApiKey = ApiKey::ListTransactions;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;
    type Wire = ListTransactionsRequest;
    type Request = Request;
    type Response = ListTransactionsResponse;

    fn prepare(wire: ListTransactionsRequest, _: &Preparation) -> Result<Request, Refusal> {
        let pattern = wire.transactional_id_pattern.as_deref().filter(|pattern| !pattern.is_empty());
        let pattern = pattern.map(|pattern| Pattern::compile(pattern, PATTERN_BYTES_MAX)).transpose();
        Ok(Request { filters: wire, pattern })
    }

    fn handle(context: &mut Context<'_>, request: Request) -> Answer<ListTransactionsResponse> {
        let Request { filters: request, pattern } = request;
        let Ok(pattern) = pattern else {
            let code = ErrorCode::InvalidRegularExpression.code();
            return Answer::Ready(ListTransactionsResponse::default().with_error_code(code));
        };
        let state_of = |name: &str| TransactionState::ALL.into_iter().find(|state| state.name() == name);
        let unknown = request.state_filters.iter().filter(|name| state_of(name).is_none());
        let filter = Filter {
            states: request.state_filters.iter().filter_map(|name| state_of(name)).collect(),
            any_state: request.state_filters.is_empty(),
            producer_ids: request.producer_id_filters.iter().map(|id| id.0).collect(),
            duration_ms: if context.caller.version >= 1 { request.duration_filter } else { -1 },
            now_ms: context.parts.now.wall.as_millis(),
            pattern,
        };
        let transactions = match context.parts.broker.coordinators.all_committed_transactions() {
            Ok(transactions) => transactions,
            Err(error) => {
                return Answer::Ready(ListTransactionsResponse::default().with_error_code(error.code()));
            }
        };
        let rows = transactions.filter(|(id, value)| filter.matches(id, value));
        let rows = rows.map(|(id, value)| {
            Row::default()
                .with_transactional_id(TransactionalId(names::text(&**id)))
                .with_producer_id(ProducerId(value.producer_id))
                .with_transaction_state(names::text(value.state.name()))
        });
        Answer::Ready(
            ListTransactionsResponse::default()
                .with_unknown_state_filters(unknown.cloned().collect())
                .with_transaction_states(rows.collect()),
        )
    }
}

struct Filter {
    states: BTreeSet<TransactionState>,
    /// No filter by states was given. (One of unknown states alone matches nothing.)
    any_state: bool,
    producer_ids: BTreeSet<i64>,
    /// Negative for none.
    duration_ms: i64,
    now_ms: i64,
    pattern: Option<Pattern>,
}

impl Filter {
    fn matches(&self, id: &str, value: &TransactionValue) -> bool {
        let runs_ms = self.now_ms.saturating_sub(value.start_ms);
        (self.any_state || self.states.contains(&value.state))
            && (self.producer_ids.is_empty() || self.producer_ids.contains(&value.producer_id))
            // One that never began counts from -1 on, and so as older than any.
            && (self.duration_ms < 0 || runs_ms > self.duration_ms)
            && self.pattern.as_ref().is_none_or(|pattern| pattern.matches(id))
    }
}
