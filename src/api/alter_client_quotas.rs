//! AlterClientQuotas (49), versions 0–1: sets and takes away clients' quotas (KIP-546).
//!
//! Not done: quotas are checked, kept and listed, but hold nobody back.

use std::collections::BTreeSet;

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
        let entities: Vec<Option<QuotaEntity>> = request.entries.iter().map(entity).collect();
        let (mut seen, mut repeated) = (BTreeSet::new(), BTreeSet::new());
        for entity in entities.iter().flatten() {
            if !seen.insert(entity) {
                repeated.insert(entity.clone());
            }
        }
        let rows = request.entries.iter().zip(entities).map(|(asked, entity)| {
            let outcome = match entity {
                None => Err("a kind of entity is named twice".to_owned()),
                Some(entity) if repeated.contains(&entity) => Err("the entity is named twice".to_owned()),
                Some(entity) => {
                    let quotas = context.parts.controller.client_quotas_mut();
                    let altered = quotas.alter(entity, &operations(asked), request.validate_only);
                    altered.map_err(|error| error.to_string())
                }
            };
            row(asked, outcome.err())
        });
        Answer::Ready(AlterClientQuotasResponse::default().with_entries(rows.collect()))
    }
}

/// Whose quotas are meant; none if a kind of entity comes twice.
fn entity(asked: &Asked) -> Option<QuotaEntity> {
    let parts = asked.entity.iter();
    let entity: QuotaEntity = parts
        .map(|part| (part.entity_type.to_string(), part.entity_name.as_ref().map(ToString::to_string)))
        .collect();
    (entity.len() == asked.entity.len()).then_some(entity)
}

fn operations(asked: &Asked) -> Vec<QuotaOperation> {
    let operation = |op: &kafka_protocol::messages::alter_client_quotas_request::OpData| QuotaOperation {
        key: op.key.to_string(),
        value: (!op.remove).then_some(op.value),
    };
    asked.ops.iter().map(operation).collect()
}

fn row(asked: &Asked, why: Option<String>) -> EntryData {
    let entity = asked.entity.iter().map(|part| {
        EntityData::default()
            .with_entity_type(part.entity_type.clone())
            .with_entity_name(part.entity_name.clone())
    });
    let error = if why.is_some() { ErrorCode::InvalidRequest } else { ErrorCode::None };
    EntryData::default()
        .with_entity(entity.collect())
        .with_error_code(error.code())
        .with_error_message(why.map(names::text))
}
