//! InitProducerId (22), versions 0–5: a producer id and epoch for an idempotent producer (KIP-98).
//!
//! A producer without a transactional id gets a fresh id at epoch 0, whatever id and epoch it says it had.
//! Versions: 3 sends the old id and epoch (KIP-360); 4 PRODUCER_FENCED; 5 TRANSACTION_ABORTABLE (KIP-890).
//!
//! Not done: transactional ids. There is no transaction coordinator yet, so that they are answered with
//! COORDINATOR_NOT_AVAILABLE; an empty one is INVALID_REQUEST.

use kafka_protocol::messages::{ApiKey, InitProducerIdRequest, InitProducerIdResponse, ProducerId};

use super::{Answer, Api, Context, Refusal, prepare::Preparation};
use crate::base::ErrorCode;

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
        let InitProducerIdRequest { producer_id, producer_epoch, transactional_id, .. } = request;
        let half_given = (producer_id.0 == -1) != (producer_epoch == -1);
        let refused = match transactional_id.as_deref().map(|id| id.as_str()) {
            _ if half_given => Some(ErrorCode::InvalidRequest),
            None => None,
            Some("") => Some(ErrorCode::InvalidRequest),
            Some(_) => Some(ErrorCode::CoordinatorNotAvailable),
        };
        let response = InitProducerIdResponse::default();
        Answer::Ready(match refused {
            Some(error) => response
                .with_error_code(error.code())
                .with_producer_id(ProducerId(-1))
                .with_producer_epoch(-1),
            None => response
                .with_producer_id(ProducerId(context.parts.controller.next_producer_id()))
                .with_producer_epoch(0),
        })
    }
}
