//! Log lines about connections that were refused: one each, with the likely cause, but never a flood.

use std::sync::Mutex;
use std::time::Duration;

use super::lock;
use crate::api::Refusal;
use crate::base::Instant;
use crate::session::Violation;
use crate::wire::frame::FrameError;
use crate::wire::header::HeaderError;

/// Lines about one cause within one window.
const LINES_PER_WINDOW: u32 = 10;
const WINDOW: Duration = Duration::from_secs(1);

/// Decides which refusals are logged, and counts the rest.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    causes: Mutex<Vec<Cause>>,
}

#[derive(Debug)]
struct Cause {
    name: &'static str,
    since: Instant,
    lines: u32,
    suppressed: u64,
}

impl Refusals {
    /// Logs that `peer` was refused by the listener for a reason, `why`, which is of the kind `cause`.
    pub(crate) fn note(
        &self,
        now: Instant,
        listener: &str,
        peer: &str,
        cause: &'static str,
        why: &dyn std::fmt::Display,
    ) {
        if let Some(suppressed) = self.admit(now, cause) {
            log_suppressed(cause, suppressed);
            tracing::warn!("closed the connection of {peer} on {listener}: {why}");
        }
    }

    /// Logs how many lines were left out, for causes that have gone quiet.
    pub(crate) fn flush(&self, now: Instant) {
        let mut quiet = Vec::new();
        for cause in lock(&self.causes).iter_mut() {
            if now.saturating_since(cause.since) >= WINDOW && cause.suppressed > 0 {
                quiet.push((cause.name, std::mem::take(&mut cause.suppressed)));
            }
        }
        for (name, suppressed) in quiet {
            log_suppressed(name, suppressed);
        }
    }

    /// Whether a line may be written; if so, how many were left out since the last window.
    fn admit(&self, now: Instant, name: &'static str) -> Option<u64> {
        let mut causes = lock(&self.causes);
        let at = causes.iter().position(|cause| cause.name == name).unwrap_or_else(|| {
            causes.push(Cause { name, since: now, lines: 0, suppressed: 0 });
            causes.len() - 1
        });
        let cause = causes.get_mut(at)?;
        if now.saturating_since(cause.since) >= WINDOW {
            (cause.since, cause.lines) = (now, 0);
        }
        if cause.lines == LINES_PER_WINDOW {
            cause.suppressed += 1;
            return None;
        }
        cause.lines += 1;
        Some(std::mem::take(&mut cause.suppressed))
    }
}

fn log_suppressed(cause: &str, suppressed: u64) {
    if suppressed > 0 {
        tracing::warn!("closed {suppressed} more connections for this cause: {cause}");
    }
}

/// The kind of a violation, as the limit on log lines counts them.
pub(crate) fn cause(violation: &Violation) -> &'static str {
    match violation {
        Violation::Frame(FrameError::Tls) => "TLS hello",
        Violation::Frame(FrameError::Http) => "HTTP",
        Violation::Frame(_) => "impossible frame length",
        Violation::Refused(
            Refusal::UnknownApi { .. } | Refusal::Header(HeaderError::UnknownApiKey { .. }),
        ) => "unknown API key",
        Violation::Refused(Refusal::Header(_)) => "malformed header",
        Violation::Refused(Refusal::UnsupportedVersion { .. }) => "unsupported version",
        Violation::Refused(Refusal::Malformed { .. }) => "malformed request",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_a_second_for_each_cause_and_a_count_of_the_rest() {
        let refusals = Refusals::default();
        let admitted = |at, cause| refusals.admit(Instant::from_millis(at), cause);
        for _ in 0..10 {
            assert_eq!(admitted(0, "a"), Some(0));
        }
        for _ in 0..37 {
            assert_eq!(admitted(999, "a"), None);
        }
        assert_eq!(admitted(999, "b"), Some(0), "another cause has lines of its own");
        assert_eq!(admitted(1000, "a"), Some(37));
        assert_eq!(admitted(1000, "a"), Some(0));
    }
}
