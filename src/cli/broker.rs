//! `huld broker`: stops, kills, starts, freezes and thaws single brokers of a running cluster.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use hyper::Method;
use serde_json::{Value, json};

use super::Failure;
use super::control_client::{ControlArgs, rows, table, text};

#[derive(Debug, Args)]
pub(super) struct BrokerCommandArgs {
    #[command(flatten)]
    control: ControlArgs,
    #[command(subcommand)]
    what: Option<BrokerCommand>,
}

#[derive(Debug, Subcommand)]
enum BrokerCommand {
    /// List the brokers (what `huld broker` alone does)
    List,
    /// Stop a broker in good order: others lead before it goes
    Stop(BrokerId),
    /// End a broker without a goodbye
    Kill(BrokerId),
    /// Start a broker that is down
    Start {
        #[command(flatten)]
        broker: BrokerId,
        /// Without the records that weren't replicated when it went down
        #[arg(long)]
        lose_tail: bool,
    },
    /// Stop a broker's process as a signal does: its connections stay open
    Freeze(BrokerId),
    /// Let a frozen broker go on
    Thaw(BrokerId),
}

#[derive(Debug, Args)]
struct BrokerId {
    /// The broker's id
    id: i32,
}

pub(super) fn run(args: &BrokerCommandArgs) -> Result<ExitCode, Failure> {
    let (action, id, body) = match args.what.as_ref().unwrap_or(&BrokerCommand::List) {
        BrokerCommand::List => {
            args.control.ask_and_print(Method::GET, "/brokers", None, list)?;
            return Ok(ExitCode::SUCCESS);
        }
        BrokerCommand::Stop(broker) => ("stop", broker.id, None),
        BrokerCommand::Kill(broker) => ("kill", broker.id, None),
        BrokerCommand::Start { broker, lose_tail } => {
            let kept = if *lose_tail { "replicated" } else { "everything" };
            ("start", broker.id, Some(json!({ "kept": kept })))
        }
        BrokerCommand::Freeze(broker) => ("freeze", broker.id, None),
        BrokerCommand::Thaw(broker) => ("thaw", broker.id, None),
    };
    args.control.ask_and_print(Method::POST, &format!("/brokers/{id}/{action}"), body, |_| Vec::new())?;
    Ok(ExitCode::SUCCESS)
}

fn list(answer: &Value) -> Vec<String> {
    let rows = rows(&answer["brokers"], |broker| {
        let addresses = broker["addresses"].as_array().into_iter().flatten().map(text);
        [
            text(&broker["id"]),
            text(&broker["state"]),
            text(&broker["unfenced"]),
            text(&broker["rack"]),
            addresses.collect::<Vec<_>>().join(", "),
        ]
    });
    table(["ID", "STATE", "UNFENCED", "RACK", "ADDRESSES"], rows)
}
