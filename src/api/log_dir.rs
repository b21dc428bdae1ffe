//! The directory that stands for the memory in which the logs are.

use super::context::Parts;
use crate::controller::configs::Value;

/// Its path: the first of `log.dirs`, else `log.dir`.
pub(crate) fn of(parts: &Parts<'_>) -> String {
    use crate::controller::configs::Resource;
    let configs = parts.controller.configs_of(parts.broker.id);
    let path = |name: &str| match Resource::Broker.key(name).and_then(|key| configs.value(key)) {
        Some(Value::List(paths)) => paths.into_iter().next(),
        Some(Value::Text(text)) => text.split(',').next().map(|path| path.trim().to_owned()),
        _ => None,
    };
    path("log.dirs").filter(|path| !path.is_empty()).or_else(|| path("log.dir")).unwrap_or_default()
}
