//! AddOffsetsToTxn (25), versions 0–4: offsets of a group are going to be part of a transaction (KIP-98).
//!
//! The partition of `__consumer_offsets` that the group belongs to becomes part of the transaction. Clients whose epoch
//! rises with each transaction don't ask (KIP-890). Versions: 2 PRODUCER_FENCED, INVALID_PRODUCER_EPOCH before; 4
//! TRANSACTION_ABORTABLE.

use std::sync::Arc;

use kafka_protocol::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, ApiKey};

use super::transaction_waits::{TransactionResponse, answer_or_park};
use super::{Answer, AnyResponse, Api, Context, Refusal, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::names::CONSUMER_OFFSETS;
use crate::coordinator::partition_for;
use crate::coordinator::transactions::{AddPartitions, Producer};

pub(crate) struct AddOffsetsToTxn;

impl Api for AddOffsetsToTxn {
    const KEY: ApiKey = ApiKey::AddOffsetsToTxn;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=4;
    type Wire = AddOffsetsToTxnRequest;
    type Request = AddOffsetsToTxnRequest;
    type Response = AddOffsetsToTxnResponse;

    fn prepare(wire: AddOffsetsToTxnRequest, _: &Preparation) -> Result<AddOffsetsToTxnRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: AddOffsetsToTxnRequest) -> Answer<AddOffsetsToTxnResponse> {
        let id: Arc<str> = request.transactional_id.as_str().into();
        let partitions = context.parts.broker.coordinators.settings().partitions;
        let add = AddPartitions {
            producer: Producer { id: request.producer_id.0, epoch: request.producer_epoch },
            partitions: vec![(CONSUMER_OFFSETS.into(), partition_for(&request.group_id, partitions))],
            client_version: 0,
            waits: false,
        };
        let (coordinators, mut storage) = context.parts.coordinators();
        let (tickets, error) = match coordinators.add_partitions(&mut storage, &id, add) {
            Ok(ticket) => (ticket.map(|ticket| (ticket, 0)).into_iter().collect(), ErrorCode::None),
            Err(error) => (Vec::new(), error),
        };
        answer_or_park(context, id, tickets, TransactionResponse::AddOffsets(error), |any| match any {
            AnyResponse::AddOffsetsToTxn(response) => Some(response),
            _ => None,
        })
    }
}
