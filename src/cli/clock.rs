//! `huld clock`: running brokers' time.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use super::Failure;
use super::control_client::{ControlArgs, parse_span, span, text};
use crate::server::Pace;

#[derive(Debug, Args)]
pub(super) struct ClockArgs {
    #[command(flatten)]
    control: ControlArgs,
    #[command(subcommand)]
    what: Option<ClockCommand>,
}

#[derive(Debug, Subcommand)]
enum ClockCommand {
    /// Show it (what `huld clock` alone does)
    Get,
    /// Let it go otherwise from now on
    Set {
        /// machine, manual, or xN for N times as fast
        pace: Pace,
    },
    /// Move it on: everything that would have happened meanwhile has happened when this ends
    Advance {
        /// How far, such as 500ms, 30s, 5m, 2h or 7d
        #[arg(value_parser = parse_span, allow_hyphen_values = true)]
        span: u64,
    },
}

pub(super) fn run(args: &ClockArgs) -> Result<ExitCode, Failure> {
    let control = &args.control;
    match args.what.as_ref().unwrap_or(&ClockCommand::Get) {
        ClockCommand::Get => control.ask_and_print(Method::GET, "/clock", None, lines),
        ClockCommand::Set { pace } => {
            let body = json!({ "pace": pace.to_string() });
            control.ask_and_print(Method::POST, "/clock", Some(body), lines)
        }
        ClockCommand::Advance { span } => {
            let body = json!({ "by_ms": span });
            control.ask_and_print(Method::POST, "/clock/advance", Some(body), lines)
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

fn lines(answer: &Value) -> Vec<String> {
    vec![format!(
        "pace {}, {} since the start, {} ms since 1970",
        text(&answer["pace"]),
        span(&answer["since_start_ms"]),
        text(&answer["wall_ms"])
    )]
}
