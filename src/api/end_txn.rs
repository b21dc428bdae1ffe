//! EndTxn (26), versions 0–5: commits or aborts a transaction (KIP-98).
//!
//! Answered once the decision is committed; markers are written to the partitions afterwards, and until they are, the
//! coordinator answers CONCURRENT_TRANSACTIONS. Repeated, it is answered as before.
//!
//! Versions: 2 PRODUCER_FENCED, INVALID_PRODUCER_EPOCH before; 4 TRANSACTION_ABORTABLE; 5 raises the producer's epoch with
//! each transaction and answers id and epoch for the next (KIP-890).

use std::sync::Arc;

use kafka_protocol::messages::{ApiKey, EndTxnRequest, EndTxnResponse, ProducerId};

use super::transaction_waits::{TransactionResponse, answer_or_park, fenced_since};
use super::{Answer, AnyResponse, Api, Context, Refusal, prepare::Preparation};
use crate::base::ErrorCode;
use crate::coordinator::transactions::{End, Ended, Producer};

/// First version of clients whose epoch rises with each transaction.
const BUMPS_EPOCH: i16 = 5;

pub(crate) struct EndTxn;

impl Api for EndTxn {
    const KEY: ApiKey = ApiKey::EndTxn;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;
    type Wire = EndTxnRequest;
    type Request = EndTxnRequest;
    type Response = EndTxnResponse;

    fn prepare(wire: EndTxnRequest, _: &Preparation) -> Result<EndTxnRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: EndTxnRequest) -> Answer<EndTxnResponse> {
        let version = context.caller.version;
        let id: Arc<str> = request.transactional_id.as_str().into();
        let wants_id = context.parts.broker.coordinators.transactions_for(&id).is_ok_and(|transactions| {
            let is_known = transactions.transaction(&id).is_some();
            is_known && version >= BUMPS_EPOCH && transactions.wants_producer_id(&id)
        });
        let end = End {
            producer: Producer { id: request.producer_id.0, epoch: request.producer_epoch },
            commit: request.committed,
            bumps_epoch: version >= BUMPS_EPOCH,
            fresh_id: wants_id.then(|| context.parts.controller.next_producer_id()),
        };
        let (coordinators, mut storage) = context.parts.coordinators();
        match coordinators.end_transaction(&mut storage, &id, end) {
            Err(error) => Answer::Ready(response(version, Some(Err(error)))),
            Ok(Ended::Already(producer)) => Answer::Ready(response(version, Some(Ok(producer)))),
            Ok(Ended::Waits(ticket)) => {
                let response = TransactionResponse::End(None);
                answer_or_park(context, id, vec![(ticket, 0)], response, |any| match any {
                    AnyResponse::EndTxn(response) => Some(response),
                    _ => None,
                })
            }
        }
    }
}

pub(super) fn response(version: i16, reply: Option<Result<Producer, ErrorCode>>) -> EndTxnResponse {
    let response = EndTxnResponse::default();
    let (error, producer) = match reply.unwrap_or(Err(ErrorCode::CoordinatorNotAvailable)) {
        Ok(producer) => (ErrorCode::None, producer),
        Err(error) => (fenced_since(version, 2, error), Producer { id: -1, epoch: -1 }),
    };
    let response = response.with_error_code(error.code());
    if version < BUMPS_EPOCH {
        return response;
    }
    response.with_producer_id(ProducerId(producer.id)).with_producer_epoch(producer.epoch)
}
