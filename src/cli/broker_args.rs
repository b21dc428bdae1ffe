//! The options that every command which starts a broker has.

use clap::{Args, ValueEnum};

use super::Failure;
use crate::server::{Advertised, BrokerOptions, Listen};

#[derive(Debug, Args)]
pub(super) struct BrokerArgs {
    /// Listen on this port of localhost, IPv4 and IPv6; 0 takes a free one [default: 9092].
    #[arg(long, value_name = "PORT", conflicts_with = "listen")]
    pub(super) port: Option<u16>,
    /// Listen on this address, as [NAME://][HOST][:PORT]; without HOST on all (may be repeated).
    #[arg(long, value_name = "ADDRESS")]
    listen: Vec<String>,
    /// Tell clients to connect to this, as HOST[:PORT] [default: the address that each one has reached us by].
    #[arg(long, value_name = "HOST[:PORT]")]
    advertise: Option<String>,
    /// Decide every random draw, so that a run can be repeated [default: another one each time].
    #[arg(long, value_name = "NUMBER")]
    pub(super) seed: Option<u64>,
    /// How many brokers to run; only 1 so far.
    #[arg(long, value_name = "N", default_value_t = 1)]
    brokers: u32,
    /// How log lines are written.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    pub(super) log_format: LogFormat,
    /// Threads that serve connections.
    #[arg(long, value_name = "N", default_value_t = 1, hide = true)]
    workers: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LogFormat {
    Text,
    Json,
}

impl BrokerArgs {
    /// What to start a broker with; it listens on `default_port` if nothing else is asked for.
    pub(super) fn options(&self, default_port: u16) -> Result<BrokerOptions, Failure> {
        if self.brokers != 1 {
            let message = "only one broker can be run so far; leave the option out";
            return Err(Failure::usage(format_args!("--brokers {}: {message}", self.brokers)));
        }
        let listen = |text: &String| {
            let listen = text.parse::<Listen>();
            listen.map_err(|error| Failure::usage(format_args!("--listen {text}: {error}")))
        };
        let mut listeners: Vec<Listen> = self.listen.iter().map(listen).collect::<Result<_, _>>()?;
        if listeners.is_empty() {
            listeners.push(Listen::localhost(self.port.unwrap_or(default_port)));
        }
        if let Some(text) = &self.advertise {
            let advertised = text.parse::<Advertised>();
            let advertised =
                advertised.map_err(|error| Failure::usage(format_args!("--advertise {text}: {error}")))?;
            listeners.iter_mut().for_each(|listen| listen.advertised = Some(advertised.clone()));
        }
        let defaults = BrokerOptions::default();
        let seed = self.seed.unwrap_or(defaults.seed);
        Ok(BrokerOptions { listeners, seed, workers: self.workers, ..defaults })
    }
}
