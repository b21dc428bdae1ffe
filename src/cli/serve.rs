//! `huld serve`: a broker until SIGTERM or SIGINT.

use std::mem::ManuallyDrop;
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

use super::broker_args::{BrokerArgs, DefaultPort};
use super::{Failure, logging, ready};
use crate::server::{BrokerOptions, Clock, Server, StartError};

pub(super) fn run(args: &BrokerArgs, give_back_memory: fn()) -> Result<ExitCode, Failure> {
    let (options, warnings) = args.options(DefaultPort::Settings)?;
    let options = BrokerOptions { give_back_memory, ..options };
    let options = BrokerOptions { log_control: Some(logging::start(args.log_format, &warnings)), ..options };
    raise_open_files();
    // Never dropped: what is left when the process ends is the system's to take back, which is quicker at it.
    let runtime = ManuallyDrop::new(Server::runtime().map_err(Failure::start)?);
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::start)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::start)?;
        let server = bind(options)?;
        ready::announce(&server, Clock::start().wall());
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => (),
                _ = interrupt.recv() => (),
            }
        };
        server.run(stop).await;
        Ok(ExitCode::SUCCESS)
    })
}

/// Binds the broker's listeners, or says what to do.
pub(super) fn bind(options: BrokerOptions) -> Result<Server, Failure> {
    Server::bind(options).map_err(|error| match &error {
        StartError::Listen { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
            let advice = "stop what listens there, or choose another with --port, --listen or --control";
            Failure::start(format_args!("{error}; {advice}"))
        }
        StartError::Settings(_)
        | StartError::Topic { .. }
        | StartError::BrokerCount { .. }
        | StartError::IdRange { .. }
        | StartError::UnknownBroker { .. }
        | StartError::ProcessWide { .. }
        | StartError::OfBroker { .. }
        | StartError::OwnId { .. }
        | StartError::ControlNotLoopback { .. }
        | StartError::PortRange { .. } => Failure::usage(error),
        _ => Failure::start(error),
    })
}

/// Lets the process have as many connections as the system allows it.
pub(super) fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }) {
        tracing::debug!("the limit of open files stays as it is: {error}");
    }
}
