//! What clients wait for: the kinds of wait that a broker's purgatory holds, and the keys that wake them.

use super::context::{Caller, Parts, Reply};
use super::delete_records::DeleteRecordsWait;
use super::fetch::FetchWait;
use super::produce::ProduceWait;
use super::topic_changes::MetadataWait;
use super::{AnyResponse, Response};
use crate::base::PartitionKey;
use crate::purgatory::{self, Description, WaitKind, Waiting};

/// Something whose change lets waits be tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    /// The partition's high watermark or last stable offset rose, or this broker stopped leading it.
    HighWatermark(PartitionKey),
    /// The partition's log has grown.
    LogEnd(PartitionKey),
    /// The least log start offset of the partition's replicas rose.
    LowWatermark(PartitionKey),
    /// A broker has caught up with the controller's changes.
    MetadataApplied,
}

/// Kinds of wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of Kafka's purgatories")]
pub enum Kind {
    Fetch,
    Produce,
    DeleteRecords,
    Topic,
}

impl WaitKind for Kind {
    const ALL: &'static [Kind] = &[Kind::Fetch, Kind::Produce, Kind::DeleteRecords, Kind::Topic];

    fn index(self) -> usize {
        self as usize
    }

    fn delayed_operation(self) -> &'static str {
        match self {
            Kind::Fetch => "Fetch",
            Kind::Produce => "Produce",
            Kind::DeleteRecords => "DeleteRecords",
            Kind::Topic => "topic",
        }
    }
}

/// A request that waits.
#[derive(Clone, Debug)]
pub struct Wait {
    caller: Caller,
    operation: Operation,
}

/// What a request waits for.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Fetch(Box<FetchWait>),
    Produce(Box<ProduceWait>),
    DeleteRecords(Box<DeleteRecordsWait>),
    Metadata(Box<MetadataWait>),
}

impl Wait {
    pub(crate) fn new(caller: &Caller, operation: Operation) -> Self {
        Wait { caller: caller.clone(), operation }
    }

    /// Who waits.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    fn reply(&self, response: AnyResponse) -> Reply {
        let Caller { connection, correlation_id, version, .. } = self.caller;
        Reply { connection, correlation_id, version, response: Some(Response(response)) }
    }
}

impl Waiting for Wait {
    type Kind = Kind;

    fn kind(&self) -> Kind {
        match self.operation {
            Operation::Fetch(_) => Kind::Fetch,
            Operation::Produce(_) => Kind::Produce,
            Operation::DeleteRecords(_) => Kind::DeleteRecords,
            Operation::Metadata(_) => Kind::Topic,
        }
    }
}

impl purgatory::Wait<Parts<'_>> for Wait {
    type Reply = Reply;

    fn try_complete(&mut self, parts: &mut Parts<'_>) -> Option<Reply> {
        let response = match &mut self.operation {
            Operation::Fetch(wait) => wait.try_complete(parts).map(AnyResponse::Fetch),
            Operation::Produce(wait) => wait.try_complete(parts).map(AnyResponse::Produce),
            Operation::DeleteRecords(wait) => wait.try_complete(parts).map(AnyResponse::DeleteRecords),
            Operation::Metadata(wait) => wait.try_complete(parts),
        }?;
        Some(self.reply(response))
    }

    fn expire(mut self, parts: &mut Parts<'_>) -> Reply {
        let response = match &mut self.operation {
            Operation::Fetch(wait) => AnyResponse::Fetch(wait.complete(parts)),
            Operation::Produce(wait) => AnyResponse::Produce(wait.expire(parts)),
            Operation::DeleteRecords(wait) => AnyResponse::DeleteRecords(wait.expire(parts)),
            Operation::Metadata(wait) => wait.expire(),
        };
        self.reply(response)
    }

    fn describe(&self, parts: &Parts<'_>) -> Description {
        match &self.operation {
            Operation::Fetch(wait) => wait.describe(parts),
            Operation::Produce(wait) => wait.describe(parts),
            Operation::DeleteRecords(wait) => wait.describe(parts),
            Operation::Metadata(wait) => wait.describe(parts),
        }
    }
}
