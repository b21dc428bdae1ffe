//! The crate rdkafka (librdkafka, built from its source) against the broker at HULD_BOOTSTRAP: the list of README.md.
//! With an argument, only the tests whose name contains it. Exits with 1 if a test failed.

mod clients;
mod groups;
mod records;
mod topics;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;
use std::time::Duration;

pub type Outcome<T = ()> = Result<T, String>;
pub type Running = Pin<Box<dyn Future<Output = Outcome> + Send>>;
pub type Tests = Vec<(&'static str, Running)>;

const TEST_LIMIT: Duration = Duration::from_secs(40);

#[tokio::main]
async fn main() -> ExitCode {
    let filter = std::env::args().nth(1).unwrap_or_default();
    let mut failures = 0;
    for (name, test) in topics::tests().into_iter().chain(records::tests()).chain(groups::tests()) {
        if !name.contains(&filter) {
            continue;
        }
        let outcome = tokio::spawn(tokio::time::timeout(TEST_LIMIT, test)).await;
        let reason = match outcome {
            Ok(Ok(Ok(()))) => {
                println!("ok {name}");
                continue;
            }
            Ok(Ok(Err(reason))) => reason,
            Ok(Err(_)) => format!("not done after {TEST_LIMIT:?}"),
            Err(panicked) => panicked.to_string(),
        };
        failures += 1;
        println!("not ok {name}: {}", reason.replace('\n', " "));
    }
    ExitCode::from(u8::from(failures > 0))
}

pub fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

pub fn equal<T: PartialEq + std::fmt::Debug>(what: &str, expected: T, actual: T) -> Outcome {
    if expected == actual {
        return Ok(());
    }
    let shorten = |value| format!("{value:?}").chars().take(200).collect::<String>();
    Err(format!("{what}: expected {}, got {}", shorten(expected), shorten(actual)))
}

pub fn between(what: &str, low_ms: u128, high_ms: u128, took: Duration) -> Outcome {
    let took_ms = took.as_millis();
    if (low_ms..=high_ms).contains(&took_ms) {
        return Ok(());
    }
    Err(format!("{what}: expected {low_ms} to {high_ms} ms, took {took_ms}"))
}
