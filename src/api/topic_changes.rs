//! The end of every request that changes topics: its answer waits until all brokers have heard of the change, so
//! that whatever is asked next, on any connection to any broker, finds it done.

use super::context::{Context, Parts};
use super::waits::{Key, Operation, Wait};
use super::{Answer, AnyResponse};
use crate::base::Instant;
use crate::purgatory::Description;

/// Longest wait for a topic that Metadata creates, which has no timeout of its own: the clients' default for a
/// request, ms.
pub(crate) const AUTO_CREATE_TIMEOUT_MS: i32 = 30_000;

/// A finished answer that waits for the brokers to hear of what it says.
#[derive(Clone, Debug)]
pub(crate) struct MetadataWait {
    /// The change that must have arrived, and all before it.
    change: u64,
    /// Emptied when the wait ends.
    response: Option<AnyResponse>,
    timed_out: Option<AnyResponse>,
    /// What was changed, for people to read.
    topics: String,
}

/// Answers with `response` once the brokers know what the controller has decided so far, or with `timed_out` if that
/// takes longer than the request's timeout.
pub(crate) fn answer_once_applied<R>(
    context: &mut Context<'_>,
    timeout_ms: i32,
    topics: String,
    response: AnyResponse,
    timed_out: AnyResponse,
) -> Answer<R> {
    let wait = MetadataWait {
        change: context.parts.controller.last_change(),
        response: Some(response),
        timed_out: Some(timed_out),
        topics,
    };
    let deadline: Instant = context.parts.now.instant.after_timeout_ms(timeout_ms);
    let wait = Wait::new(context.caller, Operation::Metadata(Box::new(wait)));
    context.park([Key::MetadataApplied], deadline, wait);
    Answer::Parked
}

impl MetadataWait {
    pub(crate) fn try_complete(&mut self, parts: &mut Parts<'_>) -> Option<AnyResponse> {
        if parts.controller.applied_everywhere() < self.change {
            return None;
        }
        self.response.take()
    }

    pub(crate) fn expire(&mut self) -> AnyResponse {
        self.timed_out.take().expect("a wait ends once")
    }

    pub(crate) fn describe(&self, parts: &Parts<'_>) -> Description {
        Description {
            waits_for: self.topics.clone(),
            progress: format!("change {} of {}", parts.controller.applied_everywhere(), self.change),
        }
    }
}
