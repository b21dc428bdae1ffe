//! Log lines on standard error: warnings and worse, or what RUST_LOG asks for.

use std::io;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use super::broker_args::LogFormat;

/// Starts logging, and logs what came up before.
pub(super) fn start(format: LogFormat, warnings: &[String]) {
    let (filter, misread) = match std::env::var("RUST_LOG") {
        Err(_) => (default_filter(), None),
        Ok(text) => match text.parse() {
            Ok(filter) => (filter, None),
            Err(error) => {
                (default_filter(), Some(format!("RUST_LOG={text}: {error}; only warnings are logged")))
            }
        },
    };
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
}

fn default_filter() -> Targets {
    Targets::new().with_default(LevelFilter::WARN)
}
