//! DescribeConfigs (32), versions 1–4: the configs of topics, brokers, groups and client-metrics subscriptions, and the
//! levels of a broker's loggers.
//!
//! No keys, null or empty, means all; unknown keys are left out. A broker is asked about itself, or (with an empty
//! name) about what holds for all brokers. Versions: 1 has sources and synonyms (KIP-226); 3 types and documentation
//! (KIP-569). Loggers are those of the process, and so the same for all its brokers (KIP-412): huld's modules that log, and
//! `root`.

use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult, DescribeConfigsSynonym,
};
use kafka_protocol::messages::{ApiKey, DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use super::config_resources::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::configs::{
    ConfigSource, DescribedConfig, Resource, describe_broker, describe_broker_defaults, describe_plain,
    describe_topic,
};
use crate::controller::names as topic_names;

pub(crate) struct DescribeConfigs;

impl Api for DescribeConfigs {
    const KEY: ApiKey = ApiKey::DescribeConfigs;
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=4;
    type Wire = DescribeConfigsRequest;
    type Request = DescribeConfigsRequest;
    type Response = DescribeConfigsResponse;

    fn prepare(wire: DescribeConfigsRequest, _: &Preparation) -> Result<DescribeConfigsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: DescribeConfigsRequest) -> Answer<DescribeConfigsResponse> {
        let version = context.caller.version;
        let mut plain = PlainTopics::default();
        let results = request.resources.iter().map(|resource| {
            let result = DescribeConfigsResult::default()
                .with_resource_type(resource.resource_type)
                .with_resource_name(resource.resource_name.clone());
            let is_plain = is_plain_topic(context, resource);
            if let Some(rows) =
                plain.rows.as_ref().filter(|_| is_plain && plain.keys == resource.configuration_keys)
            {
                return result.with_configs(rows.clone());
            }
            let rows = match resource.resource_type {
                BROKER_LOGGER => logger_rows(context, resource),
                _ => described(context, resource)
                    .map(|configs| configs.iter().map(|config| row(config, &request, version)).collect()),
            };
            match rows {
                Ok(rows) => {
                    if is_plain {
                        plain = PlainTopics {
                            keys: resource.configuration_keys.clone(),
                            rows: Some(rows.clone()),
                        };
                    }
                    result.with_configs(rows)
                }
                Err((error, why)) => {
                    result.with_error_code(error.code()).with_error_message(Some(names::text(why)))
                }
            }
        });
        Answer::Ready(DescribeConfigsResponse::default().with_results(results.collect()))
    }
}

/// How topics without configs of their own are described, which is the same for all: others must not wait for as long as it
/// would take to put it together for each of ten thousand.
#[derive(Default)]
struct PlainTopics {
    keys: Option<Vec<StrBytes>>,
    rows: Option<Vec<DescribeConfigsResourceResult>>,
}

fn is_plain_topic(context: &Context<'_>, resource: &DescribeConfigsResource) -> bool {
    let topic = || context.parts.controller.topics().by_name(resource.resource_name.as_str());
    resource.resource_type == TOPIC && topic().is_some_and(|topic| topic.overrides.is_empty())
}

fn described(
    context: &Context<'_>,
    resource: &DescribeConfigsResource,
) -> Result<Vec<DescribedConfig>, (ErrorCode, String)> {
    let name = resource.resource_name.as_str();
    let keys: Option<Vec<&str>> =
        resource.configuration_keys.as_ref().map(|keys| keys.iter().map(|key| key.as_str()).collect());
    let keys = keys.as_deref();
    let controller = &context.parts.controller;
    match resource.resource_type {
        TOPIC => {
            topic_names::check(name)
                .map_err(|error| (ErrorCode::InvalidTopicException, error.to_string()))?;
            let topic = controller.topics().by_name(name);
            let topic = topic
                .ok_or_else(|| (ErrorCode::UnknownTopicOrPartition, format!("there is no topic '{name}'")))?;
            Ok(describe_topic(&topic.overrides, &controller.configs_of(context.parts.broker.id), keys))
        }
        BROKER if name.is_empty() => Ok(describe_broker_defaults(controller.configs(), keys)),
        BROKER if name.parse() == Ok(context.parts.broker.id.0) => {
            Ok(describe_broker(&controller.configs_of(context.parts.broker.id), keys))
        }
        BROKER => {
            let this = context.parts.broker.id.0;
            Err((
                ErrorCode::InvalidRequest,
                format!("this is broker {this}; ask broker '{name}' about itself"),
            ))
        }
        CLIENT_METRICS if name.is_empty() => {
            Err((ErrorCode::InvalidRequest, "a subscription has a name".to_owned()))
        }
        CLIENT_METRICS => {
            Ok(describe_plain(Resource::ClientMetrics, controller.client_metrics_configs(name), keys))
        }
        GROUP if name.is_empty() => Err((ErrorCode::InvalidRequest, "a group has a name".to_owned())),
        GROUP => Ok(describe_plain(Resource::Group, controller.group_configs(name), keys)),
        kind => Err((ErrorCode::InvalidRequest, format!("resources of type {kind} have no configs here"))),
    }
}

fn logger_rows(
    context: &Context<'_>,
    resource: &DescribeConfigsResource,
) -> Result<Vec<DescribeConfigsResourceResult>, (ErrorCode, String)> {
    let name = resource.resource_name.as_str();
    let this = context.parts.broker.id.0;
    if name.parse() != Ok(this) {
        return Err((
            ErrorCode::InvalidRequest,
            format!("this is broker {this}; ask broker '{name}' about its loggers"),
        ));
    }
    let keys = resource.configuration_keys.as_ref().filter(|keys| !keys.is_empty());
    let is_asked = |logger: &str| keys.is_none_or(|keys| keys.iter().any(|key| key.as_str() == logger));
    let loggers = context.parts.controller.loggers().iter().filter(|(logger, _)| is_asked(logger));
    let rows = loggers.map(|(logger, level)| {
        DescribeConfigsResourceResult::default()
            .with_name(names::text(logger))
            .with_value(Some(names::text(level.name())))
            .with_config_source(ConfigSource::DynamicBrokerLogger.code())
    });
    Ok(rows.collect())
}

fn row(
    config: &DescribedConfig,
    request: &DescribeConfigsRequest,
    version: i16,
) -> DescribeConfigsResourceResult {
    let result = DescribeConfigsResourceResult::default()
        .with_name(names::text(&*config.name))
        .with_value(config.value.as_deref().map(names::text))
        .with_read_only(config.read_only)
        .with_config_source(config.source.code())
        .with_is_sensitive(config.is_sensitive);
    let synonyms = config.synonyms.iter().filter(|_| request.include_synonyms).map(|synonym| {
        DescribeConfigsSynonym::default()
            .with_name(names::text(&*synonym.name))
            .with_value(synonym.value.as_deref().map(names::text))
            .with_source(synonym.source.code())
    });
    let result = result.with_synonyms(synonyms.collect());
    if version < 3 {
        return result;
    }
    let documentation = request.include_documentation.then(|| names::text(config.key.documentation));
    result.with_config_type(config.key.kind.code()).with_documentation(documentation)
}
