//! AlterClientQuotas (49), versions 0–1: sets and takes away clients' quotas (KIP-546).
//!
//! Not done: quotas are checked, kept and listed, but hold nobody back.

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_client_quotas_request::EntryData as Asked;
use kafka_protocol::messages::alter_client_quotas_response::{EntityData, EntryData};
use kafka_protocol::messages::{AlterClientQuotasRequest, AlterClientQuotasResponse, ApiKey};

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::{QuotaEntity, QuotaOperation};

pub(crate) struct AlterClientQuotas;

impl Api for AlterClientQuotas {
    const KEY: ApiKey = ApiKey::AlterClientQuotas;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;
    type Wire = AlterClientQuotasRequest;
    type Request = AlterClientQuotasRequest;
    type Response = AlterClientQuotasResponse;

    fn prepare(wire: AlterClientQuotasRequest, _: &Preparation) -> Result<AlterClientQuotasRequest, Refusal> {
        Ok(wire)
    }

    fn handle(
        context: &mut Context<'_>,
        request: AlterClientQuotasRequest,
    ) -> Answer<AlterClientQuotasResponse> {
        // An entity that comes twice is refused, and answered once.
        let mut entries: BTreeMap<QuotaEntity, Vec<&Asked>> = BTreeMap::new();
        for asked in &request.entries {
            entries.entry(entity(asked)).or_default().push(asked);
        }
        let rows = entries.into_iter().map(|(entity, asked)| {
            let outcome = match asked.as_slice() {
                [asked] => {
                    let quotas = context.parts.controller.client_quotas_mut();
                    let altered = quotas.alter(entity.clone(), &operations(asked), request.validate_only);
                    altered.map_err(|error| error.to_string())
                }
                _ => Err("the entity is named twice".to_owned()),
            };
            row(entity, outcome.err())
        });
        Answer::Ready(AlterClientQuotasResponse::default().with_entries(rows.collect()))
    }
}

/// Whose quotas are meant. Of a kind of entity that comes twice the last word counts.
fn entity(asked: &Asked) -> QuotaEntity {
    let parts = asked.entity.iter();
    parts
        .map(|part| (part.entity_type.to_string(), part.entity_name.as_ref().map(ToString::to_string)))
        .collect()
}

fn operations(asked: &Asked) -> Vec<QuotaOperation> {
    let operation = |op: &kafka_protocol::messages::alter_client_quotas_request::OpData| QuotaOperation {
        key: op.key.to_string(),
        value: (!op.remove).then_some(op.value),
    };
    asked.ops.iter().map(operation).collect()
}

fn row(entity: QuotaEntity, why: Option<String>) -> EntryData {
    let entity = entity.into_iter().map(|(kind, name)| {
        EntityData::default().with_entity_type(names::text(kind)).with_entity_name(name.map(names::text))
    });
    let error = if why.is_some() { ErrorCode::InvalidRequest } else { ErrorCode::None };
    EntryData::default()
        .with_entity(entity.collect())
        .with_error_code(error.code())
        .with_error_message(why.map(names::text))
}
