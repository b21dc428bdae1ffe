//! `huld waits`: what waits on running brokers.

use std::process::ExitCode;

use clap::Args;
use hyper::Method;
use serde_json::Value;

use super::Failure;
use super::control_client::{ControlArgs, path_part, rows, span, table, text};

#[derive(Debug, Args)]
pub(super) struct WaitsArgs {
    #[command(flatten)]
    control: ControlArgs,
    /// Only these kinds, such as Produce,Fetch [default: all, but followers' fetches are only counted]
    #[arg(long, value_name = "KIND,...")]
    kind: Option<String>,
    /// Only what this client waits for
    #[arg(long, value_name = "ID")]
    client_id: Option<String>,
    /// Only what waits on this broker
    #[arg(long, value_name = "ID")]
    broker: Option<i32>,
}

impl WaitsArgs {
    fn path(&self) -> String {
        let broker = self.broker.map(|broker| broker.to_string());
        let conditions = [("kind", &self.kind), ("client_id", &self.client_id), ("broker", &broker)];
        let said = conditions.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let said: Vec<String> = said.map(|(name, value)| format!("{name}={}", path_part(value))).collect();
        if said.is_empty() { "/waits".to_owned() } else { format!("/waits?{}", said.join("&")) }
    }
}

pub(super) fn run(args: &WaitsArgs) -> Result<ExitCode, Failure> {
    args.control.ask_and_print(Method::GET, &args.path(), None, |answer| {
        let (listed, counted) = listed_and_counted(&answer["waits"], args.kind.is_some());
        let rows = rows(&listed, |wait| {
            [
                text(&wait["id"]),
                text(&wait["kind"]),
                span(&wait["waited_ms"]),
                span(&wait["left_ms"]),
                text(&wait["client_id"]),
                text(&wait["peer"]),
                text(&wait["waits_for"]),
                text(&wait["progress"]),
            ]
        });
        let mut lines =
            table(["ID", "KIND", "WAITED", "LEFT", "CLIENT", "FROM", "WAITS FOR", "PROGRESS"], rows);
        if counted > 0 {
            lines.push(format!("and {counted} fetches of followers: --kind FollowerFetch"));
        }
        lines
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The waits that are to be listed, and the number of the others: the fetches that followers nearly always have waiting,
/// which would hide the rest.
fn listed_and_counted(waits: &Value, asked_by_kind: bool) -> (Value, usize) {
    let waits = waits.as_array().cloned().unwrap_or_default();
    let (listed, counted): (Vec<_>, Vec<_>) =
        waits.into_iter().partition(|wait| asked_by_kind || wait["kind"] != "FollowerFetch");
    (Value::Array(listed), counted.len())
}
