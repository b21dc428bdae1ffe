//! `huld waits`: what waits on running brokers.

use std::process::ExitCode;

use clap::Args;
use hyper::Method;

use super::Failure;
use super::control_client::{ControlArgs, rows, span, table, text};

#[derive(Debug, Args)]
pub(super) struct WaitsArgs {
    #[command(flatten)]
    control: ControlArgs,
}

pub(super) fn run(args: &WaitsArgs) -> Result<ExitCode, Failure> {
    args.control.ask_and_print(Method::GET, "/waits", None, |answer| {
        let rows = rows(&answer["waits"], |wait| {
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
        table(["ID", "KIND", "WAITED", "LEFT", "CLIENT", "FROM", "WAITS FOR", "PROGRESS"], rows)
    })?;
    Ok(ExitCode::SUCCESS)
}
