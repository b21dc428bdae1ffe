//! AlterConfigs (33), versions 0–2: replaces all configs of topics, brokers, groups and client-metrics subscriptions.
//!
//! What is not named goes back to its default, which is why clients use IncrementalAlterConfigs where they can
//! (KIP-339). Otherwise as there.
//!
//! Not as in Kafka: as IncrementalAlterConfigs.

use kafka_protocol::messages::alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{AlterConfigsRequest, AlterConfigsResponse, ApiKey};

use super::config_alterations::{self as alterations, AlterRequest, AlterResource, Outcome, WireOperation};
use super::topic_changes::{AUTO_CREATE_TIMEOUT_MS, answer_once_applied};
use super::{Answer, AnyResponse, Api, Context, Refusal, names, prepare::Preparation};
use crate::controller::ConfigOperation;

pub(crate) struct AlterConfigs;

impl Api for AlterConfigs {
    const KEY: ApiKey = ApiKey::AlterConfigs;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;
    type Wire = AlterConfigsRequest;
    type Request = AlterRequest;
    type Response = AlterConfigsResponse;

    fn prepare(wire: AlterConfigsRequest, _: &Preparation) -> Result<AlterRequest, Refusal> {
        let resources = wire.resources.into_iter().map(|resource| AlterResource {
            kind: resource.resource_type,
            name: resource.resource_name.to_string(),
            configs: resource
                .configs
                .into_iter()
                .map(|config| {
                    let value = config.value.map(|value| value.to_string());
                    (
                        config.name.to_string(),
                        value.map_or(WireOperation::NullValue, |value| {
                            WireOperation::Good(ConfigOperation::Set(value))
                        }),
                    )
                })
                .collect(),
        });
        Ok(AlterRequest { resources: resources.collect(), validate_only: wire.validate_only, replaces: true })
    }

    fn handle(context: &mut Context<'_>, request: AlterRequest) -> Answer<AlterConfigsResponse> {
        let validate_only = request.validate_only;
        let outcomes = alterations::alter(context, request);
        let Some(pending) = alterations::pending(context, &outcomes).filter(|_| !validate_only) else {
            return Answer::Ready(response(outcomes));
        };
        let timed_out = response(alterations::timed_out(&outcomes));
        answer_once_applied(
            context,
            AUTO_CREATE_TIMEOUT_MS,
            pending,
            AnyResponse::AlterConfigs(response(outcomes)),
            AnyResponse::AlterConfigs(timed_out),
        )
    }
}

fn response(outcomes: Vec<Outcome>) -> AlterConfigsResponse {
    let rows = outcomes.into_iter().map(|outcome| {
        AlterConfigsResourceResponse::default()
            .with_resource_type(outcome.kind)
            .with_resource_name(names::text(outcome.name))
            .with_error_code(outcome.error.code())
            .with_error_message(outcome.why.map(names::text))
    });
    AlterConfigsResponse::default().with_responses(rows.collect())
}
