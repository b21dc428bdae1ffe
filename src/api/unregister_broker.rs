//! UnregisterBroker (64), version 0: forgets a broker that is gone for good (KIP-631).
//!
//! Not as in Kafka: brokers live as long as the process, so that a broker that is registered can't be forgotten and is
//! answered with INVALID_REQUEST; one that isn't is BROKER_ID_NOT_REGISTERED.

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
        let is_registered = context.parts.controller.brokers().iter().any(|broker| broker.id == id);
        let (error, why) = match is_registered {
            true => (ErrorCode::InvalidRequest, format!("Broker {} runs as long as its process does.", id.0)),
            false => (ErrorCode::BrokerIdNotRegistered, format!("Broker {} is not registered.", id.0)),
        };
        Answer::Ready(
            UnregisterBrokerResponse::default()
                .with_error_code(error.code())
                .with_error_message(Some(names::text(why))),
        )
    }
}
