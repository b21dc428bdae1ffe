//! InitProducerId (22), versions 0–5: a producer id and epoch for an idempotent or transactional producer (KIP-98).
//!
//! A producer without a transactional id gets a fresh id at epoch 0, whatever id and epoch it says it had. One with a
//! transactional id gets its id with a higher epoch, which fences whoever had it before; an ongoing transaction is aborted
//! first, and the producer told CONCURRENT_TRANSACTIONS until that is done. Id and epoch given must be the present ones, or
//! those before, whose answer got lost; else PRODUCER_FENCED.
//!
//! Versions: 3 sends the old id and epoch (KIP-360); 4 PRODUCER_FENCED, INVALID_PRODUCER_EPOCH before; 5
//! TRANSACTION_ABORTABLE (KIP-890).

use std::sync::Arc;

use kafka_protocol::messages::{ApiKey, InitProducerIdRequest, InitProducerIdResponse, ProducerId};

use super::transaction_waits::{TransactionResponse, answer_or_park, fenced_since};
use super::{Answer, AnyResponse, Api, Context, Refusal, prepare::Preparation};
use crate::base::ErrorCode;
use crate::coordinator::transactions::{Init, Producer};

pub(crate) struct InitProducerId;

impl Api for InitProducerId {
    const KEY: ApiKey = ApiKey::InitProducerId;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;
    type Wire = InitProducerIdRequest;
    type Request = InitProducerIdRequest;
    type Response = InitProducerIdResponse;

    fn prepare(wire: InitProducerIdRequest, _: &Preparation) -> Result<InitProducerIdRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: InitProducerIdRequest) -> Answer<InitProducerIdResponse> {
        let version = context.caller.version;
        let (id, epoch) = (request.producer_id.0, request.producer_epoch);
        let answer = |reply| Answer::Ready(response(version, Some(reply)));
        if (id == -1) != (epoch == -1) {
            return answer(Err(ErrorCode::InvalidRequest));
        }
        let Some(transactional_id) = &request.transactional_id else {
            let id = context.parts.controller.next_producer_id();
            return answer(Ok(Producer { id, epoch: 0 }));
        };
        let transactional_id: Arc<str> = transactional_id.as_str().into();
        let wants_id = context.parts.broker.coordinators.transactions_for(&transactional_id);
        let wants_id = wants_id.is_ok_and(|transactions| transactions.wants_producer_id(&transactional_id));
        let fresh_id = wants_id.then(|| context.parts.controller.next_producer_id());
        let init = Init {
            timeout_ms: request.transaction_timeout_ms,
            expected: (id != -1).then_some(Producer { id, epoch }),
            two_phase_commit: request.enable_2_pc,
            keep_prepared: request.keep_prepared_txn,
            fresh_id,
        };
        let (coordinators, mut storage) = context.parts.coordinators();
        match coordinators.init_producer(&mut storage, &transactional_id, init) {
            Err(error) => answer(Err(error)),
            Ok(ticket) => {
                let response = TransactionResponse::Init(None);
                answer_or_park(context, transactional_id, vec![(ticket, 0)], response, |any| match any {
                    AnyResponse::InitProducerId(response) => Some(response),
                    _ => None,
                })
            }
        }
    }
}

pub(super) fn response(version: i16, reply: Option<Result<Producer, ErrorCode>>) -> InitProducerIdResponse {
    let (error, producer) = match reply.unwrap_or(Err(ErrorCode::CoordinatorNotAvailable)) {
        Ok(producer) => (ErrorCode::None, producer),
        Err(error) => (fenced_since(version, 4, error), Producer { id: -1, epoch: -1 }),
    };
    InitProducerIdResponse::default()
        .with_error_code(error.code())
        .with_producer_id(ProducerId(producer.id))
        .with_producer_epoch(producer.epoch)
}
