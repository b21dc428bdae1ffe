//! The command line: one file a subcommand. `huld` alone is `huld serve`.
//!
//! Errors are one line on standard error: what was wrong, where, and what to do. Exit codes: 0, 1 if a broker could
//! not be started or refused to be steered, 2 if the command line or the settings are wrong.

mod broker;
mod broker_args;
mod clock;
mod control_client;
mod exec;
mod hold;
mod logging;
pub mod properties;
mod ready;
mod release;
mod serve;
pub mod settings;
#[cfg(feature = "sim")]
mod sim;
mod waits;

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use broker_args::BrokerArgs;

/// A broker could not be started.
const FAILED: u8 = 1;
/// The command line or a setting is wrong.
const USAGE: u8 = 2;

/// A Kafka broker for development and CI, in one small process.
#[derive(Debug, Parser)]
#[command(name = "huld", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: ServeArgs,
}

// Deferred: only the subcommand that is meant is built.
#[derive(Debug, Subcommand)]
#[command(defer = true)]
enum Command {
    /// Run a broker until it is told to stop (what `huld` alone does).
    Serve(ServeArgs),
    /// Simulate clusters and their clients, with faults drawn from seeds, and check what may never happen.
    #[cfg(feature = "sim")]
    Sim(sim::SimArgs),
    /// Run a command with a broker on a free port, which is gone when the command ends.
    Exec(ExecArgs),
    /// List what waits on running brokers.
    Waits(waits::WaitsArgs),
    /// Let something go that waits on running brokers.
    Release(release::ReleaseArgs),
    /// Hold requests of running brokers by rule.
    Hold(hold::HoldArgs),
    /// Show and steer running brokers' time.
    Clock(clock::ClockArgs),
    /// List, stop, kill, start, freeze and thaw running brokers.
    Broker(broker::BrokerCommandArgs),
}

#[derive(Debug, Args)]
struct ServeArgs {
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
struct ExecArgs {
    #[command(flatten)]
    broker: BrokerArgs,
    /// The command; KAFKA_BOOTSTRAP_SERVERS and BOOTSTRAP_SERVERS tell it where the broker is.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<std::ffi::OsString>,
}

/// Why a command ended otherwise than it should.
#[derive(Debug)]
struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    fn usage(message: impl Display) -> Self {
        Failure { code: USAGE, message: message.to_string() }
    }

    fn start(message: impl Display) -> Self {
        Failure { code: FAILED, message: message.to_string() }
    }
}

/// Runs the program with its own arguments. `give_back_memory` has the allocator give free memory back to the
/// system: it belongs to the program, since the library is safe code only.
pub fn main(give_back_memory: fn()) -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { USAGE } else { 0 });
        }
    };
    let outcome = match cli.command {
        None => serve::run(&cli.serve.broker, give_back_memory),
        Some(Command::Serve(args)) => serve::run(&args.broker, give_back_memory),
        #[cfg(feature = "sim")]
        Some(Command::Sim(args)) => sim::run(&args),
        Some(Command::Exec(args)) => exec::run(&args.broker, &args.command, give_back_memory),
        Some(Command::Waits(args)) => waits::run(&args),
        Some(Command::Release(args)) => release::run(&args),
        Some(Command::Hold(args)) => hold::run(&args),
        Some(Command::Clock(args)) => clock::run(&args),
        Some(Command::Broker(args)) => broker::run(&args),
    };
    outcome.unwrap_or_else(|failure| {
        for line in failure.message.lines() {
            let _ = writeln!(std::io::stderr(), "huld: {line}");
        }
        ExitCode::from(failure.code)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn help_of_a_subcommand_says_what_the_list_of_all_says() {
        for subcommand in Cli::command().get_subcommands() {
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            let error = Cli::try_parse_from(["huld", subcommand.get_name(), "--help"]).unwrap_err();
            assert!(!about.is_empty() && error.to_string().starts_with(&about), "{error}");
        }
    }

    #[test]
    fn huld_alone_is_serve() {
        let port = |words: &[&str]| match Cli::try_parse_from(words).unwrap() {
            Cli { command: None, serve } | Cli { command: Some(Command::Serve(serve)), .. } => {
                serve.broker.port
            }
            cli => panic!("{cli:?}"),
        };
        assert_eq!(port(&["huld"]), None);
        assert_eq!(port(&["huld", "--port", "0"]), Some(0));
        assert_eq!(port(&["huld", "serve", "--port", "0"]), Some(0));
    }

    #[test]
    fn exec_takes_everything_after_the_dashes() {
        let cli = Cli::try_parse_from(["huld", "exec", "--seed", "7", "--", "cmd", "--port", "1"]).unwrap();
        let Some(Command::Exec(args)) = cli.command else { panic!("not exec") };
        assert_eq!(args.command, ["cmd", "--port", "1"]);
        assert_eq!(args.broker.seed, Some(7));
        assert!(Cli::try_parse_from(["huld", "exec"]).is_err());
    }
}
