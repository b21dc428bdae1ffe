//! How subcommands speak to running brokers: one HTTP request to their control interface, and its answer.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use hyper::client::conn::http1;
use hyper::{Method, Request, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

use super::Failure;
use crate::server::{Server, parse_control};

/// Tells subcommands where the control interface is, if no option does.
pub(super) const CONTROL_VARIABLE: &str = "HULD_CONTROL";
/// The most that an answer may take.
const MAX_ANSWER_BYTES: usize = 256 << 20;
/// How long a connection may take to be there.
const CONNECT_PATIENCE: Duration = Duration::from_secs(5);

// Where the brokers are that a command is for. (clap would say so instead of what the command does, if it were a `///`.)
#[derive(Debug, Args)]
pub(super) struct ControlArgs {
    /// Where the brokers' control interface is, as `huld --control` printed it [default: the variable HULD_CONTROL]
    #[arg(long, global = true, value_name = "ADDRESS:PORT")]
    control: Option<String>,
    /// Print the answer as JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

impl ControlArgs {
    /// Asks, and prints the answer: as JSON if that is wanted, else what `lines` makes of it.
    pub(super) fn ask_and_print(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        lines: impl FnOnce(&Value) -> Vec<String>,
    ) -> Result<(), Failure> {
        let answer = self.ask(method, path, body)?;
        let lines = if self.json { vec![answer.to_string()] } else { lines(&answer) };
        let mut out = std::io::stdout().lock();
        for line in lines {
            // Whoever reads this may have had enough.
            let _ = writeln!(out, "{line}");
        }
        Ok(())
    }

    /// Asks, and returns the answer.
    fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, Failure> {
        let address = self.address()?;
        let runtime = Server::runtime().map_err(Failure::start)?;
        runtime.block_on(async {
            let unreachable = |error: &dyn std::fmt::Display| {
                let advice = "is a broker running with --control at this address?";
                Failure::start(format_args!("can't reach http://{address}: {error}; {advice}"))
            };
            let connecting = tokio::time::timeout(CONNECT_PATIENCE, TcpStream::connect(address)).await;
            let stream =
                connecting.map_err(|late| unreachable(&late))?.map_err(|error| unreachable(&error))?;
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error))?;
            // It ends when the answer is there.
            tokio::spawn(connection);
            let request = Request::builder()
                .method(method)
                .uri(path)
                .header(header::HOST, address.to_string())
                .header(header::CONTENT_TYPE, "application/json")
                .body(body.map(|body| body.to_string()).unwrap_or_default())
                .map_err(Failure::usage)?;
            let response = sender.send_request(request).await.map_err(|error| unreachable(&error))?;
            let is_success = response.status().is_success();
            let body = axum::body::Body::new(response.into_body());
            let bytes = axum::body::to_bytes(body, MAX_ANSWER_BYTES).await;
            let bytes = bytes.map_err(|error| unreachable(&error))?;
            let answer: Value =
                serde_json::from_slice(&bytes).map_err(|_| unreachable(&"what answers there is no huld"))?;
            if is_success { Ok(answer) } else { Err(refused(&answer)) }
        })
    }

    fn address(&self) -> Result<SocketAddr, Failure> {
        let (from, text) = match (&self.control, std::env::var(CONTROL_VARIABLE)) {
            (Some(text), _) => ("--control", text.clone()),
            (None, Ok(text)) => (CONTROL_VARIABLE, text),
            (None, Err(_)) => {
                let advice = "start the broker with --control 127.0.0.1:PORT, and give the same here";
                return Err(Failure::usage(format_args!(
                    "no broker is named: {advice}, or set {CONTROL_VARIABLE}"
                )));
            }
        };
        let address = text.trim_start_matches("http://").trim_end_matches('/');
        parse_control(address).map_err(|error| Failure::usage(format_args!("{from}: {error}")))
    }
}

fn refused(answer: &Value) -> Failure {
    let error = &answer["error"];
    Failure::start(format_args!(
        "{}: {}; {}",
        text(&error["where"]),
        text(&error["what"]),
        text(&error["do"])
    ))
}

/// A value as a person reads it: nothing for null.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A part of a path: what is no letter, digit, `.`, `_` or `-` is escaped.
pub(super) fn path_part(text: &str) -> String {
    let mut part = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => part.push(char::from(byte)),
            _ => part.push_str(&format!("%{byte:02X}")),
        }
    }
    part
}

/// Rows of equal columns, under their headings; the last column is as wide as it is.
pub(super) fn table<const N: usize>(headings: [&str; N], rows: Vec<[String; N]>) -> Vec<String> {
    let headings = headings.map(str::to_owned);
    let widths: [usize; N] = std::array::from_fn(|column| {
        std::iter::once(&headings).chain(&rows).map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    std::iter::once(&headings).chain(&rows).map(line).collect()
}

/// The rows of an answer's list.
pub(super) fn rows<const N: usize>(list: &Value, row: impl Fn(&Value) -> [String; N]) -> Vec<[String; N]> {
    list.as_array().into_iter().flatten().map(row).collect()
}

/// Milliseconds as a person reads them: `12 ms`, `3.4 s`, `5 min 6 s`.
pub(super) fn span(value: &Value) -> String {
    match value.as_u64() {
        None => "-".to_owned(),
        Some(millis @ ..1_000) => format!("{millis} ms"),
        Some(millis @ ..60_000) => format!("{}.{} s", millis / 1000, millis % 1000 / 100),
        Some(millis @ ..3_600_000) => format!("{} min {} s", millis / 60_000, millis % 60_000 / 1000),
        Some(millis) => format!("{} h {} min", millis / 3_600_000, millis % 3_600_000 / 60_000),
    }
}

/// Reads a span of time such as `500ms`, `30s`, `5m`, `2h` or `7d`: in milliseconds.
pub(super) fn parse_span(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let millis = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err("write a number and a unit: ms, s, m, h or d, such as 30s".to_owned()),
    };
    let span = number.parse::<u64>().ok().and_then(|number| number.checked_mul(millis));
    span.ok_or_else(|| "the number is missing or too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_read_and_written() {
        for (text, millis) in [
            ("0ms", 0),
            ("1500ms", 1500),
            ("30s", 30_000),
            ("5m", 300_000),
            ("2 h", 7_200_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse_span(text), Ok(millis), "{text}");
        }
        for text in ["", "30", "s", "-1s", "1.5s", "1w", "99999999999999999d"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
        for (millis, written) in
            [(999, "999 ms"), (3_450, "3.4 s"), (61_000, "1 min 1 s"), (7_260_000, "2 h 1 min")]
        {
            assert_eq!(span(&Value::from(millis)), written);
        }
        assert_eq!(span(&Value::Null), "-");
    }

    #[test]
    fn parts_of_a_path_are_escaped() {
        assert_eq!(path_part("1-42"), "1-42");
        assert_eq!(path_part("a b/../ü"), "a%20b%2F..%2F%C3%BC");
    }

    #[test]
    fn tables_have_columns() {
        let lines = table(["ID", "KIND"], vec![["1-10".into(), "Fetch".into()], ["1".into(), "é".into()]]);
        assert_eq!(lines, ["ID    KIND", "1-10  Fetch", "1     é"]);
    }
}
