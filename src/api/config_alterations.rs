//! What AlterConfigs and IncrementalAlterConfigs share: which resources may be changed through this broker, the checks
//! that come before the controller's (`ConfigAdminManager.preprocess`), and the change itself.

use std::collections::BTreeMap;

use super::config_resources::{BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC};
use super::context::Context;
use crate::base::{ErrorCode, NodeId};
use crate::controller::{ConfigAlteration, ConfigOperation, ConfigTarget, LoggerError};

/// A request to change configs.
#[derive(Clone, Debug)]
pub(crate) struct AlterRequest {
    pub(crate) resources: Vec<AlterResource>,
    pub(crate) validate_only: bool,
    /// Whether the changes replace all that was set before.
    pub(crate) replaces: bool,
}

/// Changes to one resource.
#[derive(Clone, Debug)]
pub(crate) struct AlterResource {
    /// As on the wire.
    pub(crate) kind: i8,
    pub(crate) name: String,
    pub(crate) configs: Vec<(String, WireOperation)>,
}

/// What is to become of a key, as it was asked.
#[derive(Clone, Debug)]
pub(crate) enum WireOperation {
    Good(ConfigOperation),
    /// A value is needed, and is null.
    NullValue,
    /// No operation has this number.
    Unknown,
}

/// What became of one resource.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) kind: i8,
    pub(crate) name: String,
    pub(crate) error: ErrorCode,
    pub(crate) why: Option<String>,
}

/// Carries out the request, each resource by itself, in its order.
pub(crate) fn alter(context: &mut Context<'_>, request: AlterRequest) -> Vec<Outcome> {
    let AlterRequest { resources, validate_only, replaces } = request;
    let mut times: BTreeMap<(i8, String), usize> = BTreeMap::new();
    for resource in &resources {
        *times.entry((resource.kind, resource.name.clone())).or_default() += 1;
    }
    let this = context.parts.broker.id;
    let outcomes = resources.into_iter().map(|resource| {
        let AlterResource { kind, name, configs } = resource;
        let is_repeated = times.get(&(kind, name.clone())).is_some_and(|times| *times > 1);
        let checked = match is_repeated {
            true => Err(invalid("a resource may be named once")),
            false => check_keys(&configs),
        };
        let done = checked.and_then(|()| match kind {
            BROKER_LOGGER if !replaces => alter_loggers(context, &name, configs, validate_only),
            _ => {
                let (target, operations) = target(this, kind, &name, configs)?;
                let alteration = ConfigAlteration { replaces, operations };
                let altered = context.parts.controller.alter_configs(&target, &alteration, validate_only);
                altered.map_err(|error| (error.code(), Some(error.to_string())))
            }
        });
        let (error, why) = done.err().unwrap_or((ErrorCode::None, None));
        Outcome { kind, name, error, why }
    });
    outcomes.collect()
}

type Refused = (ErrorCode, Option<String>);

fn invalid(why: impl Into<String>) -> Refused {
    (ErrorCode::InvalidRequest, Some(why.into()))
}

fn check_keys(configs: &[(String, WireOperation)]) -> Result<(), Refused> {
    let mut keys: Vec<&String> = configs.iter().map(|(key, _)| key).collect();
    keys.sort();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(invalid("a key may be named once for a resource"));
    }
    let nulls = configs.iter().filter(|(_, operation)| matches!(operation, WireOperation::NullValue));
    let nulls: Vec<&str> = nulls.map(|(key, _)| key.as_str()).collect();
    if !nulls.is_empty() {
        return Err(invalid(format!("no value (null) is given for {}", nulls.join(", "))));
    }
    Ok(())
}

/// Sets levels of loggers, or lets them have those of the loggers above them (`RuntimeLoggerManager`).
fn alter_loggers(
    context: &mut Context<'_>,
    name: &str,
    configs: Vec<(String, WireOperation)>,
    validate_only: bool,
) -> Result<(), Refused> {
    let this = context.parts.broker.id.0;
    if name.parse() != Ok(this) {
        return Err(invalid(format!("this is broker {this}; loggers of broker '{name}' are changed there")));
    }
    let changes = configs.into_iter().map(|(logger, operation)| match operation {
        WireOperation::Good(ConfigOperation::Set(level)) => Ok((logger, Some(level))),
        WireOperation::Good(ConfigOperation::Delete) => Ok((logger, None)),
        _ => Err(invalid("a logger's level can be set or deleted, nothing else")),
    });
    let changes: Vec<_> = changes.collect::<Result<_, _>>()?;
    context.parts.controller.loggers_mut().alter(&changes, validate_only).map_err(|error| {
        let code = match error {
            LoggerError::Unknown(_) | LoggerError::Level { .. } => ErrorCode::InvalidConfig,
            LoggerError::Root => ErrorCode::InvalidRequest,
        };
        (code, Some(error.to_string()))
    })
}

fn target(
    this: NodeId,
    kind: i8,
    name: &str,
    configs: Vec<(String, WireOperation)>,
) -> Result<(ConfigTarget, Vec<(String, ConfigOperation)>), Refused> {
    let target = match kind {
        TOPIC => ConfigTarget::Topic(name.to_owned()),
        BROKER if name.is_empty() => ConfigTarget::AllBrokers,
        BROKER if name.parse() == Ok(this.0) => ConfigTarget::Broker(this),
        BROKER => {
            let why = format!("this is broker {}; configs of broker '{name}' are changed there", this.0);
            return Err(invalid(why));
        }
        CLIENT_METRICS => ConfigTarget::ClientMetrics(name.to_owned()),
        GROUP => ConfigTarget::Group(name.to_owned()),
        kind => {
            return Err(invalid(format!("resources of type {kind} have no configs that could be changed")));
        }
    };
    let known = configs.into_iter().map(|(key, operation)| match operation {
        WireOperation::Good(operation) => Ok((key, operation)),
        // Kafka fails at it, and can't say why.
        WireOperation::NullValue | WireOperation::Unknown => Err((ErrorCode::UnknownServerError, None)),
    });
    Ok((target, known.collect::<Result<_, _>>()?))
}

/// The names of what was changed and that the brokers don't all know of yet, for people to read; none if there is
/// nothing to wait for.
pub(crate) fn pending(context: &Context<'_>, outcomes: &[Outcome]) -> Option<String> {
    let controller = &context.parts.controller;
    if controller.applied_everywhere() >= controller.last_change() {
        return None;
    }
    let done = outcomes.iter().filter(|outcome| outcome.error == ErrorCode::None);
    let names: Vec<&str> = done.map(|outcome| outcome.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("configs of {}", names.join(", ")))
}

/// The outcomes where the brokers have not heard of the changes in time.
pub(crate) fn timed_out(outcomes: &[Outcome]) -> Vec<Outcome> {
    let late = |outcome: &Outcome| match outcome.error {
        ErrorCode::None => Outcome {
            error: ErrorCode::RequestTimedOut,
            why: Some("the brokers didn't hear of the change in time".to_owned()),
            ..outcome.clone()
        },
        _ => outcome.clone(),
    };
    outcomes.iter().map(late).collect()
}
