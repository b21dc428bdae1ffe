//! `huld exec -- CMD`: a command with a broker of its own.

use std::ffi::OsString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::process::{Child, Command};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::oneshot;

use super::broker_args::{BrokerArgs, DefaultPort};
use super::control_client::CONTROL_VARIABLE;
use super::{Failure, logging, serve};
use crate::server::{BrokerOptions, Server};

/// What a shell answers for a command that it can't run, and for one that it can't find.
const CANNOT_RUN: u8 = 126;
const NOT_FOUND: u8 = 127;
/// What a shell adds to the number of the signal that ended a command.
const SIGNALLED: i32 = 128;

pub(super) fn run(
    args: &BrokerArgs,
    command: &[OsString],
    give_back_memory: fn(),
) -> Result<ExitCode, Failure> {
    let (options, warnings) = args.options(DefaultPort::Free)?;
    let options = BrokerOptions { give_back_memory, ..options };
    let options = BrokerOptions { log_control: Some(logging::start(args.log_format, &warnings)), ..options };
    serve::raise_open_files();
    let runtime = Server::runtime().map_err(Failure::start)?;
    runtime.block_on(async {
        // From here on signals are for the command.
        let mut signals = Forwarded::new().map_err(Failure::start)?;
        let server = serve::bind(options)?;
        let addresses: Vec<String> = server.addresses().iter().map(ToString::to_string).collect();
        let bootstrap = addresses.join(",");
        let control = server.control().map(|address| address.to_string());
        let (ended, stop) = oneshot::channel::<()>();
        let broker = tokio::spawn(server.run(async { drop(stop.await) }));
        let mut child = spawn(command, &bootstrap, control.as_deref())?;
        let status = signals.pass_on(&mut child).await.map_err(Failure::start)?;
        drop(ended);
        broker.await.map_err(Failure::start)?;
        Ok(ExitCode::from(exit_code(status)))
    })
}

fn spawn(command: &[OsString], bootstrap: &str, control: Option<&str>) -> Result<Child, Failure> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Failure::usage("exec needs a command after --"));
    };
    Command::new(program)
        .args(arguments)
        .env("KAFKA_BOOTSTRAP_SERVERS", bootstrap)
        .env("BOOTSTRAP_SERVERS", bootstrap)
        .envs(control.map(|address| (CONTROL_VARIABLE, address)))
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Failure {
            code: if error.kind() == io::ErrorKind::NotFound { NOT_FOUND } else { CANNOT_RUN },
            message: format!("can't run '{}': {error}", program.display()),
        })
}

/// The command's exit code; 128 and the signal's number if one ended it.
fn exit_code(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| SIGNALLED + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(super::FAILED)
}

/// Signals that ask a process to end, and are passed on.
struct Forwarded {
    interrupt: Signals,
    terminate: Signals,
    hangup: Signals,
}

impl Forwarded {
    fn new() -> io::Result<Self> {
        Ok(Forwarded {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the command to end, giving it the signals that come meanwhile.
    async fn pass_on(&mut self, child: &mut Child) -> io::Result<ExitStatus> {
        loop {
            let received = tokio::select! {
                status = child.wait() => return status,
                _ = self.interrupt.recv() => {
                    if is_in_foreground() {
                        continue;
                    }
                    Signal::INT
                }
                _ = self.terminate.recv() => Signal::TERM,
                _ = self.hangup.recv() => Signal::HUP,
            };
            let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            // The command has not been waited for yet, so its number is still its own.
            if let Some(pid) = pid {
                let _ = kill_process(pid, received);
            }
        }
    }
}

/// Whether we belong to the foreground of a terminal. A Ctrl-C there reaches the command by itself, and many take a
/// second one for the wish to end without cleaning up.
fn is_in_foreground() -> bool {
    let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
    let group = getpgrp();
    [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()]
        .into_iter()
        .any(|stream| tcgetpgrp(stream).is_ok_and(|foreground| foreground == group))
}
