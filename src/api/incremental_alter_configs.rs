//! IncrementalAlterConfigs (44), versions 0–1: sets, deletes, appends to and subtracts from single configs of topics,
//! brokers, groups and client-metrics subscriptions (KIP-339), and levels of the process's loggers (KIP-412).
//!
//! A resource's changes are taken together or not at all. Topics act by their new configs at once, and inherit what is
//! changed for a broker (where there are several brokers: what is changed for all of them). So do limits of connections: who
//! waits for a place gets it, and if there are more than `max.connections` by now the quietest are closed. The answer comes
//! once every broker knows.
//!
//! Not as in Kafka: unknown broker keys and changes of listeners are refused with INVALID_REQUEST.

use kafka_protocol::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use kafka_protocol::messages::{ApiKey, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};

use super::config_alterations::{self as alterations, AlterRequest, AlterResource, Outcome, WireOperation};
use super::topic_changes::{AUTO_CREATE_TIMEOUT_MS, answer_once_applied};
use super::{Answer, AnyResponse, Api, Context, Refusal, names, prepare::Preparation};
use crate::controller::ConfigOperation;

pub(crate) struct IncrementalAlterConfigs;

impl Api for IncrementalAlterConfigs {
    const KEY: ApiKey = ApiKey::IncrementalAlterConfigs;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;
    type Wire = IncrementalAlterConfigsRequest;
    type Request = AlterRequest;
    type Response = IncrementalAlterConfigsResponse;

    fn prepare(wire: IncrementalAlterConfigsRequest, _: &Preparation) -> Result<AlterRequest, Refusal> {
        let resources = wire.resources.into_iter().map(|resource| AlterResource {
            kind: resource.resource_type,
            name: resource.resource_name.to_string(),
            configs: resource
                .configs
                .into_iter()
                .map(|config| {
                    let value = config.value.map(|value| value.to_string());
                    (config.name.to_string(), operation(config.config_operation, value))
                })
                .collect(),
        });
        Ok(AlterRequest {
            resources: resources.collect(),
            validate_only: wire.validate_only,
            replaces: false,
        })
    }

    fn handle(context: &mut Context<'_>, request: AlterRequest) -> Answer<IncrementalAlterConfigsResponse> {
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
            AnyResponse::IncrementalAlterConfigs(response(outcomes)),
            AnyResponse::IncrementalAlterConfigs(timed_out),
        )
    }
}

fn response(outcomes: Vec<Outcome>) -> IncrementalAlterConfigsResponse {
    let rows = outcomes.into_iter().map(|outcome| {
        AlterConfigsResourceResponse::default()
            .with_resource_type(outcome.kind)
            .with_resource_name(names::text(outcome.name))
            .with_error_code(outcome.error.code())
            .with_error_message(outcome.why.map(names::text))
    });
    IncrementalAlterConfigsResponse::default().with_responses(rows.collect())
}

/// Kafka's `AlterConfigOp.OpType`.
fn operation(number: i8, value: Option<String>) -> WireOperation {
    const DELETE: i8 = 1;
    let operation: fn(String) -> ConfigOperation = match number {
        0 => ConfigOperation::Set,
        DELETE => return WireOperation::Good(ConfigOperation::Delete),
        2 => ConfigOperation::Append,
        3 => ConfigOperation::Subtract,
        _ if value.is_some() => return WireOperation::Unknown,
        _ => return WireOperation::NullValue,
    };
    value.map_or(WireOperation::NullValue, |value| WireOperation::Good(operation(value)))
}
