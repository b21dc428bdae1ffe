//! Why a request of the steering interface fails.

use serde::Serialize;

use crate::cluster::CommandError;
use crate::controller::ControllerError;
use crate::faults::HoldError;

/// Whose the fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// The request can't be understood, or asks for what can't be.
    Request,
    /// What it is about isn't there.
    Missing,
    /// What it is about is not in a state for that.
    State,
    /// The request may not come from there.
    Forbidden,
    /// The request is too large.
    Size,
    /// The request didn't come in time.
    Slow,
    /// What it is about can't be done so.
    Method,
    /// Ours.
    Ours,
}

/// An error, for a person and for a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// Whose the fault is.
    #[serde(skip)]
    pub blame: Blame,
    /// What was wrong.
    pub what: String,
    /// In which request; filled in where requests are known.
    #[serde(rename = "where")]
    pub place: String,
    /// What to do about it.
    #[serde(rename = "do")]
    pub advice: String,
}

impl Problem {
    /// An error of a request that is not known yet.
    pub fn new(blame: Blame, what: impl ToString, advice: impl ToString) -> Self {
        Problem { blame, what: what.to_string(), place: String::new(), advice: advice.to_string() }
    }
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Self {
        let (blame, advice) = match &error {
            CommandError::UnknownBroker(..) => (Blame::Missing, "name one of these; GET /brokers lists them"),
            CommandError::BrokerExists(_) => {
                (Blame::State, "choose another id, or none for the next free one")
            }
            CommandError::InvalidBrokerId(_) => {
                (Blame::Request, "choose another id, or none for the next free one")
            }
            CommandError::DelayTooLong { .. } => {
                (Blame::Request, "let the delay be shorter, or cut the link instead")
            }
            CommandError::SameEnds => (Blame::Request, "GET /links lists the links that there are"),
            CommandError::TooManyBrokers => (Blame::State, "remove a broker first"),
            CommandError::LastBroker(_) => (Blame::State, "add another broker first"),
            CommandError::NotAFollower { .. } => {
                (Blame::State, "name a replica that doesn't lead; GET /partitions lists them")
            }
            CommandError::WrongState { .. } => (Blame::State, "bring the broker into that state first"),
            CommandError::NoSuchWait { .. } => (Blame::Missing, "GET /waits lists what waits now"),
            CommandError::Defect => (Blame::Ours, "report it, with what the log says"),
            CommandError::Hold(hold) => match hold {
                HoldError::NoSuchHold(_) => (Blame::Missing, "GET /holds lists the rules that there are"),
                HoldError::TooManyRules { .. } => (Blame::State, "DELETE a rule that isn't needed any more"),
                HoldError::NoCount
                | HoldError::TimeLimitTooLong { .. }
                | HoldError::UnknownApi(_)
                | HoldError::NamesNoTopics { .. }
                | HoldError::NamesNoGroups { .. } => (Blame::Request, "change the rule"),
            },
            CommandError::Controller(refusal) => match refusal {
                ControllerError::UnknownTopic { .. } | ControllerError::UnknownPartition { .. } => {
                    (Blame::Missing, "GET /partitions lists what there is")
                }
                ControllerError::TopicExists { .. } => (Blame::State, "choose another name"),
                ControllerError::CantLead { .. } | ControllerError::InvalidIsr { .. } => {
                    (Blame::State, "GET /partitions tells who is in sync")
                }
                _ => (Blame::Request, "change the request accordingly"),
            },
        };
        Problem::new(blame, error, advice)
    }
}
