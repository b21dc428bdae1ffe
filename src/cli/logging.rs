//! Log lines on standard error: warnings and worse, what RUST_LOG asks for, or what a client has set since (Kafka's
//! BROKER_LOGGER resources).

use std::io;
use std::sync::Arc;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;
use tracing_subscriber::reload;

use super::broker_args::LogFormat;
use crate::controller::{LogLevel, Loggers};
use crate::server::LogControl;

/// The modules that log, which are the loggers that a client is shown; the sources are held to this list.
pub(super) const LOGGERS: &[&str] = &[
    "huld::api::context",
    "huld::api::membership",
    "huld::api::telemetry",
    "huld::cli::logging",
    "huld::cli::serve",
    "huld::controller::registration",
    "huld::coordinator::groups::protocols",
    "huld::coordinator::transactions::markers",
    "huld::faults",
    "huld::replica::compaction",
    "huld::replica::follower",
    "huld::replica::leader",
    "huld::replica::partition",
    "huld::server::control",
    "huld::server::doors",
    "huld::server::listener",
    "huld::server",
    "huld::server::refusals",
];

/// Starts logging, and logs what came up before. Returns what changes the levels later.
pub(super) fn start(format: LogFormat, warnings: &[String]) -> LogControl {
    let (targets, misread) = match std::env::var("RUST_LOG") {
        Err(_) => (default_targets(), None),
        Ok(text) => match text.parse() {
            Ok(targets) => (targets, None),
            Err(error) => {
                (default_targets(), Some(format!("RUST_LOG={text}: {error}; only warnings are logged")))
            }
        },
    };
    let loggers = loggers(&targets);
    let (filter, handle) = reload::Layer::new(targets);
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(io::stderr)
        .with_ansi(false)
        // A closed standard error must not end the process.
        .log_internal_errors(false);
    let subscriber = tracing_subscriber::registry().with(filter);
    match format {
        LogFormat::Text => subscriber.with(lines).init(),
        LogFormat::Json => subscriber.with(lines.json()).init(),
    }
    warnings.iter().chain(&misread).for_each(|warning| tracing::warn!("{warning}"));
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!("a defect of huld: panic at {place}: {message}");
    }));
    let apply = move |loggers: &Loggers| {
        // It fails only once there is no subscriber any more.
        if handle.reload(targets_of(loggers)).is_ok() {
            let levels: Vec<String> = loggers.iter().map(|(name, level)| format!("{name}={level}")).collect();
            tracing::warn!("a client has changed levels of loggers: {}", levels.join(", "));
        }
    };
    LogControl { loggers, apply: Arc::new(apply) }
}

fn default_targets() -> Targets {
    Targets::new().with_default(LevelFilter::WARN)
}

/// The loggers as a client sees them: `huld.server.listener`, as Kafka's tools take no `::` in a name.
fn loggers(targets: &Targets) -> Loggers {
    let shown = |module: &str| module.replace("::", ".");
    let root = targets.default_level().map_or(LogLevel::Off, level);
    let loggers = Loggers::new(root, LOGGERS.iter().map(|module| shown(module)));
    targets.iter().fold(loggers, |loggers, (module, own)| loggers.with_level(&shown(module), level(own)))
}

fn targets_of(loggers: &Loggers) -> Targets {
    let targets = Targets::new().with_default(loggers.root().map_or(LevelFilter::OFF, filter));
    targets.with_targets(loggers.own_levels().map(|(name, own)| (name.replace('.', "::"), filter(own))))
}

fn level(filter: LevelFilter) -> LogLevel {
    match filter {
        LevelFilter::OFF => LogLevel::Off,
        LevelFilter::ERROR => LogLevel::Error,
        LevelFilter::WARN => LogLevel::Warn,
        LevelFilter::INFO => LogLevel::Info,
        LevelFilter::DEBUG => LogLevel::Debug,
        LevelFilter::TRACE => LogLevel::Trace,
    }
}

/// huld logs nothing that is worse than an error.
fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off | LogLevel::Fatal => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_for_at_the_start_is_shown_and_kept() {
        let targets: Targets = "info,huld::server=debug,hyper=off".parse().unwrap();
        let mut loggers = loggers(&targets);
        let level = |loggers: &Loggers, name: &str| loggers.iter().find(|(one, _)| *one == name).unwrap().1;
        assert_eq!(level(&loggers, "root"), LogLevel::Info);
        assert_eq!(level(&loggers, "huld.server.listener"), LogLevel::Debug);
        assert_eq!(level(&loggers, "hyper"), LogLevel::Off);
        assert_eq!(targets_of(&loggers), targets);
        loggers.alter(&[("huld.replica.leader".to_owned(), Some("TRACE".to_owned()))], false).unwrap();
        let changed = targets_of(&loggers);
        assert!(changed.would_enable("huld::replica::leader", &tracing::Level::TRACE));
        assert!(!changed.would_enable("huld::replica::follower", &tracing::Level::TRACE));
    }

    #[test]
    fn without_a_word_warnings_are_logged() {
        let loggers = loggers(&default_targets());
        assert!(loggers.iter().all(|(_, level)| level == LogLevel::Warn));
        assert_eq!(loggers.iter().count(), LOGGERS.len() + 1);
    }
}
