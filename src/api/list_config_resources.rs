//! ListConfigResources (74), versions 0–1: the names of what has configs.
//!
//! Versions: 0 lists client-metrics subscriptions alone (it was ListClientMetricsResources, KIP-714); 1 lists the kinds
//! that are asked for, or all (KIP-1142): topics, brokers and their loggers, subscriptions, groups with configs.

use kafka_protocol::messages::list_config_resources_response::ConfigResource;
use kafka_protocol::messages::{ApiKey, ListConfigResourcesRequest, ListConfigResourcesResponse};

use super::config_resources::{ALL, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;

pub(crate) struct ListConfigResources;

impl Api for ListConfigResources {
    const KEY: ApiKey = ApiKey::ListConfigResources;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;
    type Wire = ListConfigResourcesRequest;
    type Request = Vec<i8>;
    type Response = ListConfigResourcesResponse;

    fn prepare(wire: ListConfigResourcesRequest, preparation: &Preparation) -> Result<Vec<i8>, Refusal> {
        let mut kinds = match preparation.version {
            0 => vec![CLIENT_METRICS],
            _ if wire.resource_types.is_empty() => ALL.to_vec(),
            _ => wire.resource_types,
        };
        kinds.sort();
        kinds.dedup();
        Ok(kinds)
    }

    fn handle(context: &mut Context<'_>, kinds: Vec<i8>) -> Answer<ListConfigResourcesResponse> {
        let response = ListConfigResourcesResponse::default();
        if kinds.iter().any(|kind| !ALL.contains(kind)) {
            return Answer::Ready(response.with_error_code(ErrorCode::UnsupportedVersion.code()));
        }
        let resources = kinds.into_iter().flat_map(|kind| {
            let rows = resource_names(context, kind).into_iter();
            rows.map(move |name| {
                ConfigResource::default().with_resource_type(kind).with_resource_name(names::text(name))
            })
        });
        Answer::Ready(response.with_config_resources(resources.collect()))
    }
}

fn resource_names(context: &Context<'_>, kind: i8) -> Vec<String> {
    let controller = &context.parts.controller;
    match kind {
        TOPIC => controller.topics().iter().map(|topic| topic.name.to_string()).collect(),
        BROKER | BROKER_LOGGER => {
            let living = controller.brokers().iter().filter(|broker| !broker.fenced);
            living.map(|broker| broker.id.0.to_string()).collect()
        }
        CLIENT_METRICS => controller.client_metrics_subscriptions().map(ToString::to_string).collect(),
        GROUP => controller.configured_groups().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}
