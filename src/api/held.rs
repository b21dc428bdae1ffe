//! A request that a user's rule holds: before it is applied, or with its answer ready.

use super::waits::Ending;
use super::{Caller, Reply, Request, Response};
use crate::faults::HoldId;
use crate::purgatory::Description;

/// What is held, and by whom. It is in the purgatory without keys: it is let go by a user or by the rule's time limit.
#[derive(Clone, Debug)]
pub(crate) struct HeldWait {
    pub(crate) hold: HoldId,
    /// Name of the request's API.
    pub(crate) api: &'static str,
    pub(crate) held: Held,
}

/// How far a held request has come.
#[derive(Clone, Debug)]
pub(crate) enum Held {
    /// It is not applied yet.
    Request(Request),
    /// It is applied, and this is its answer; none where the protocol has none.
    Answer(Option<Response>),
}

impl HeldWait {
    /// It goes on where it was held.
    pub(crate) fn let_go(self, caller: Caller) -> Ending {
        match self.held {
            Held::Request(request) => Ending::Apply(caller, request),
            Held::Answer(response) => {
                let Caller { connection, correlation_id, version, .. } = caller;
                Ending::Deliver(Reply { connection, correlation_id, version, response })
            }
        }
    }

    pub(crate) fn describe(&self) -> Description {
        let so_far = match &self.held {
            Held::Request(_) => "not applied yet",
            Held::Answer(_) => "applied, the answer is kept back",
        };
        Description { waits_for: format!("hold {}", self.hold), progress: format!("{}, {so_far}", self.api) }
    }
}
