//! `huld release ID…`: lets waits of running brokers go.

use std::process::ExitCode;

use clap::Args;
use hyper::Method;

use super::Failure;
use super::control_client::{ControlArgs, path_part, text};

#[derive(Debug, Args)]
pub(super) struct ReleaseArgs {
    #[command(flatten)]
    control: ControlArgs,
    /// What `huld waits` shows as ID, such as 1-42
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

pub(super) fn run(args: &ReleaseArgs) -> Result<ExitCode, Failure> {
    for id in &args.ids {
        let path = format!("/waits/{}/release", path_part(id));
        args.control.ask_and_print(Method::POST, &path, None, |answer| {
            vec![format!("released: {}", text(&answer["released"]))]
        })?;
    }
    Ok(ExitCode::SUCCESS)
}
