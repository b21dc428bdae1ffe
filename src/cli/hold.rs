//! `huld hold`: rules by which running brokers hold requests.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::json;

use super::Failure;
use super::control_client::{ControlArgs, parse_span, rows, span, table, text};

#[derive(Debug, Args)]
pub(super) struct HoldArgs {
    #[command(flatten)]
    control: ControlArgs,
    #[command(subcommand)]
    what: Option<HoldCommand>,
}

#[derive(Debug, Subcommand)]
enum HoldCommand {
    /// List the rules (what `huld hold` alone does)
    List,
    /// Hold the requests from now on that all these conditions are true of
    Add(AddArgs),
    /// Take a rule away, and let go what it holds
    Remove {
        /// Its number
        id: u64,
    },
    /// Let go what a rule holds, and keep the rule
    Release {
        /// Its number
        id: u64,
    },
}

#[derive(Debug, Args)]
struct AddArgs {
    /// Where they are held: before-apply, after-apply, or after-apply-then-disconnect, which throws the answer away
    #[arg(long, default_value = "before-apply")]
    point: String,
    /// Requests of this API, such as Produce
    #[arg(long)]
    api: Option<String>,
    /// Requests of clients with this id
    #[arg(long)]
    client_id: Option<String>,
    /// Requests that are about this topic
    #[arg(long)]
    topic: Option<String>,
    /// Requests that are about this group
    #[arg(long)]
    group: Option<String>,
    /// Requests that come to this broker
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    broker: Option<i32>,
    /// So many requests and no more
    #[arg(long, allow_negative_numbers = true)]
    count: Option<u64>,
    /// Each for so long at most, such as 30s
    #[arg(long, value_name = "SPAN", value_parser = parse_span, allow_hyphen_values = true)]
    time_limit: Option<u64>,
}

pub(super) fn run(args: &HoldArgs) -> Result<ExitCode, Failure> {
    let control = &args.control;
    let released = |answer: &serde_json::Value| vec![format!("released: {}", text(&answer["released"]))];
    match args.what.as_ref().unwrap_or(&HoldCommand::List) {
        HoldCommand::List => control.ask_and_print(Method::GET, "/holds", None, list),
        HoldCommand::Add(rule) => {
            let body = json!({
                "point": rule.point,
                "api": rule.api,
                "client_id": rule.client_id,
                "topic": rule.topic,
                "group": rule.group,
                "broker": rule.broker,
                "count": rule.count,
                "time_limit_ms": rule.time_limit,
            });
            control.ask_and_print(Method::POST, "/holds", Some(body), |answer| vec![text(&answer["id"])])
        }
        HoldCommand::Remove { id } => {
            control.ask_and_print(Method::DELETE, &format!("/holds/{id}"), None, released)
        }
        HoldCommand::Release { id } => {
            control.ask_and_print(Method::POST, &format!("/holds/{id}/release"), None, released)
        }
    }?;
    Ok(ExitCode::SUCCESS)
}

fn list(answer: &serde_json::Value) -> Vec<String> {
    let rows = rows(&answer["holds"], |hold| {
        [
            text(&hold["id"]),
            text(&hold["point"]),
            text(&hold["api"]),
            text(&hold["client_id"]),
            text(&hold["topic"]),
            text(&hold["group"]),
            text(&hold["broker"]),
            span(&hold["time_limit_ms"]),
            text(&hold["held"]),
            text(&hold["left"]),
        ]
    });
    table(["ID", "POINT", "API", "CLIENT", "TOPIC", "GROUP", "BROKER", "LIMIT", "HELD", "LEFT"], rows)
}
