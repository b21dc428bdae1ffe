//! What comes out of the cluster, past the rules that hold answers back.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::Output;
use crate::api::{Caller, Ending, Reply, Request};
use crate::base::ConnectionId;
use crate::faults::{Held, HoldPoint};

/// Why a connection is closed whose answer a rule throws away.
const THROWN_AWAY: &str = "a hold has thrown the answer away";

/// What is to come out, and the answers that may not.
#[derive(Clone, Debug, Default)]
pub(super) struct Replies {
    outputs: VecDeque<Output>,
    /// Requests that are applied and not answered yet, whose answers a rule holds.
    holding: FxHashMap<ConnectionId, (Caller, Held)>,
    due: VecDeque<Due>,
}

/// What is to be done once the present call's work is, never from inside it.
#[derive(Clone, Debug)]
pub(super) enum Due {
    /// A request is held no more before it is applied.
    Apply(Caller, Request),
    /// An answer is to be held.
    Keep(Caller, Held, Box<Reply>),
}

impl Replies {
    /// The answer to this request, which is about to be applied, is held.
    pub(super) fn hold_answer(&mut self, caller: Caller, held: Held) {
        self.holding.insert(caller.connection, (caller, held));
    }

    /// How many answers are to be held once they are ready.
    pub(super) fn holding(&self) -> usize {
        self.holding.len()
    }

    /// The client is gone, and so is what it would have been answered.
    pub(super) fn forget(&mut self, connection: ConnectionId) {
        self.holding.remove(&connection);
    }

    /// A request has been answered.
    pub(super) fn answer(&mut self, reply: Reply) {
        let held = if self.holding.is_empty() { None } else { self.holding.remove(&reply.connection) };
        match held {
            None => self.push(Output::Reply(reply)),
            Some((_, held)) if held.point == HoldPoint::AfterApplyThenDisconnect => {
                self.push(Output::Close { connection: reply.connection, reason: THROWN_AWAY });
            }
            Some((caller, held)) => self.due.push_back(Due::Keep(caller, held, Box::new(reply))),
        }
    }

    /// A wait has ended.
    pub(super) fn end(&mut self, ending: Ending) {
        match ending {
            // What has no news is for the cluster to let rest or to answer.
            Ending::Nothing | Ending::NoNews(_) => {}
            Ending::Answer(reply) => self.answer(reply),
            Ending::Deliver(reply) => self.push(Output::Reply(reply)),
            Ending::Apply(caller, request) => self.due.push_back(Due::Apply(caller, request)),
        }
    }

    /// Whatever the rules say.
    pub(super) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn pop(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(super) fn take_due(&mut self) -> Option<Due> {
        self.due.pop_front()
    }
}
