//! DescribeClientQuotas (48), versions 0–1: the quotas of clients that match a filter (KIP-546).
//!
//! A component of the filter names a kind of entity, and an entity, the default, or any of that kind; a strict filter
//! leaves out entities that have other kinds too.

use std::collections::BTreeMap;

use kafka_protocol::messages::describe_client_quotas_request::ComponentData;
use kafka_protocol::messages::describe_client_quotas_response::{EntityData, EntryData, ValueData};
use kafka_protocol::messages::{ApiKey, DescribeClientQuotasRequest, DescribeClientQuotasResponse};

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::{QuotaEntity, QuotaMatch, is_quota_entity_kind};

pub(crate) struct DescribeClientQuotas;

impl Api for DescribeClientQuotas {
    const KEY: ApiKey = ApiKey::DescribeClientQuotas;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;
    type Wire = DescribeClientQuotasRequest;
    type Request = DescribeClientQuotasRequest;
    type Response = DescribeClientQuotasResponse;

    fn prepare(
        wire: DescribeClientQuotasRequest,
        _: &Preparation,
    ) -> Result<DescribeClientQuotasRequest, Refusal> {
        Ok(wire)
    }

    fn handle(
        context: &mut Context<'_>,
        request: DescribeClientQuotasRequest,
    ) -> Answer<DescribeClientQuotasResponse> {
        let response = DescribeClientQuotasResponse::default();
        let components = match components(&request.components) {
            Ok(components) => components,
            Err((error, why)) => {
                return Answer::Ready(
                    response
                        .with_error_code(error.code())
                        .with_error_message(Some(names::text(why)))
                        .with_entries(None),
                );
            }
        };
        let found = context.parts.controller.client_quotas().matching(&components, request.strict);
        let entries = found.map(|(entity, quotas)| row(entity, quotas));
        // Kafka's message is empty, not null, where there is no error.
        let message = Some(names::text(""));
        Answer::Ready(response.with_error_message(message).with_entries(Some(entries.collect())))
    }
}

fn components(asked: &[ComponentData]) -> Result<BTreeMap<String, QuotaMatch>, (ErrorCode, String)> {
    let invalid = |why: &str| (ErrorCode::InvalidRequest, why.to_owned());
    let mut components = BTreeMap::new();
    for component in asked {
        let name = component._match.as_ref().map(ToString::to_string);
        let wanted = match (component.match_type, name) {
            (0, Some(name)) => QuotaMatch::Name(name),
            (0, None) => return Err(invalid("a match by name has a name")),
            (1, None) => QuotaMatch::Default,
            (2, None) => QuotaMatch::Any,
            (1 | 2, Some(_)) => return Err(invalid("a match of the default, or of any, has no name")),
            (other, _) => return Err(invalid(&format!("there is no match type {other}"))),
        };
        let kind = component.entity_type.to_string();
        if kind.is_empty() {
            return Err(invalid("an entity has a kind"));
        }
        if !is_quota_entity_kind(&kind) {
            let why = format!("there is no entity of the kind '{kind}'");
            return Err((ErrorCode::UnsupportedVersion, why));
        }
        if components.insert(kind, wanted).is_some() {
            return Err(invalid("a kind of entity is named twice"));
        }
    }
    if components.len() > 1 && components.contains_key("ip") {
        return Err(invalid("an ip stands alone, without user and client-id"));
    }
    Ok(components)
}

fn row(entity: &QuotaEntity, quotas: &BTreeMap<String, f64>) -> EntryData {
    let entity = entity.iter().map(|(kind, name)| {
        EntityData::default()
            .with_entity_type(names::text(&**kind))
            .with_entity_name(name.as_deref().map(names::text))
    });
    let values = quotas
        .iter()
        .map(|(key, value)| ValueData::default().with_key(names::text(&**key)).with_value(*value));
    EntryData::default().with_entity(entity.collect()).with_values(values.collect())
}
