//! UnregisterBroker (64), version 0: forgets a broker that is gone for good (KIP-631).
//!
//! One that lives is forgotten too: it runs on, but nobody is sent to it any more, until it starts again.
//!
//! Not as in Kafka: the last broker that lives can't be forgotten and is answered with INVALID_REQUEST.

use kafka_protocol::messages::{ApiKey, UnregisterBrokerRequest, UnregisterBrokerResponse};

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::{ErrorCode, NodeId};

pub(crate) struct UnregisterBroker;

impl Api for UnregisterBroker {
    const KEY: ApiKey = ApiKey::UnregisterBroker;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;
    type Wire = UnregisterBrokerRequest;
    type Request = NodeId;
    type Response = UnregisterBrokerResponse;

    fn prepare(wire: UnregisterBrokerRequest, _: &Preparation) -> Result<NodeId, Refusal> {
        Ok(NodeId(wire.broker_id.0))
    }

    fn handle(context: &mut Context<'_>, id: NodeId) -> Answer<UnregisterBrokerResponse> {
        let now = context.parts.now.instant;
        let controller = &mut context.parts.controller;
        let mut others = controller.brokers().iter().filter(|broker| broker.id != id);
        if controller.broker(id).is_some() && others.all(|broker| broker.fenced) {
            let why = format!("Broker {} is the last that lives.", id.0);
            let response = UnregisterBrokerResponse::default().with_error_message(Some(names::text(why)));
            return Answer::Ready(response.with_error_code(ErrorCode::InvalidRequest.code()));
        }
        let (error, why) = match controller.unregister(now, id) {
            Ok(()) => (ErrorCode::None, None),
            Err(error) => (error.code(), Some(names::text(error.to_string()))),
        };
        Answer::Ready(
            UnregisterBrokerResponse::default().with_error_code(error.code()).with_error_message(why),
        )
    }
}
