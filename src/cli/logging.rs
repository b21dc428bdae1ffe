//! Log lines on standard error: warnings and worse, or what RUST_LOG asks for.

use std::io;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::broker_args::LogFormat;

/// Starts logging, and logs what came up before.
pub(super) fn start(format: LogFormat, warnings: &[String]) {
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::WARN.into()).from_env_lossy();
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(false)
        // A closed standard error must not end the process.
        .log_internal_errors(false);
    match format {
        LogFormat::Text => lines.init(),
        LogFormat::Json => lines.json().init(),
    }
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    std::panic::set_hook(Box::new(|panic| {
        let message = panic.payload_as_str().unwrap_or("no message");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!("a defect of huld: panic at {place}: {message}");
    }));
}
