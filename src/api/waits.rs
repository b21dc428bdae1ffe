//! What clients wait for: the kinds of wait that a broker's purgatory holds, and the keys that wake them.

use super::context::{Caller, Parts, Reply};
use super::delete_records::DeleteRecordsWait;
use super::fetch::FetchWait;
use super::follower_fetch::FollowerFetchWait;
use super::group_waits::GroupWait;
use super::held::HeldWait;
use super::inquiries::InquiryWait;
use super::peers::{Peer, PeerMessage};
use super::produce::ProduceWait;
use super::topic_changes::MetadataWait;
use super::transaction_markers::MarkersWait;
use super::transaction_waits::TransactionWait;
use super::txn_offset_commit::TxnOffsetsWait;
use super::{AnyResponse, Request, Response};
use crate::base::{ConnectionId, NodeId, PartitionKey};
use crate::coordinator::groups::TimerKind;
use crate::coordinator::transactions::TransactionTimer;
use crate::coordinator::{Ticket, TimerKey};
use crate::faults::HoldId;
use crate::purgatory::{self, Description, WaitKind, Waiting};

/// The owner of waits that no client waits for.
pub(crate) const NOBODY: ConnectionId = ConnectionId(u64::MAX);

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
    /// A coordinator has answered a ticket.
    Ticket(Ticket),
    /// The coordinator of a transaction has answered this broker's question with this number.
    Inquiry(u64),
}

impl Key {
    /// The partition that it is about, if it is about one.
    pub(crate) fn partition(&self) -> Option<PartitionKey> {
        match self {
            Key::HighWatermark(key) | Key::LogEnd(key) | Key::LowWatermark(key) => Some(*key),
            Key::MetadataApplied | Key::Ticket(_) | Key::Inquiry(_) => None,
        }
    }
}

/// Kinds of wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of Kafka's purgatories")]
pub enum Kind {
    Fetch,
    Produce,
    DeleteRecords,
    Topic,
    Join,
    Sync,
    Commit,
    Rebalance,
    Heartbeat,
    Held,
    FollowerFetch,
    Transaction,
    TransactionTimeout,
}

impl WaitKind for Kind {
    const ALL: &'static [Kind] = &[
        Kind::Fetch,
        Kind::Produce,
        Kind::DeleteRecords,
        Kind::Topic,
        Kind::Join,
        Kind::Sync,
        Kind::Commit,
        Kind::Rebalance,
        Kind::Heartbeat,
        Kind::Held,
        Kind::FollowerFetch,
        Kind::Transaction,
        Kind::TransactionTimeout,
    ];

    fn index(self) -> usize {
        self as usize
    }

    fn delayed_operation(self) -> &'static str {
        match self {
            // Kafka counts what followers and consumers wait for in one purgatory, and their expiry apart.
            Kind::Fetch | Kind::FollowerFetch => "Fetch",
            Kind::Produce => "Produce",
            Kind::DeleteRecords => "DeleteRecords",
            Kind::Topic => "topic",
            // Kafka keeps a group's joins and syncs, and the timers that end them, in one purgatory.
            Kind::Join | Kind::Sync | Kind::Rebalance => "Rebalance",
            Kind::Commit => "Produce",
            Kind::Heartbeat => "Heartbeat",
            // Kafka has no such thing.
            Kind::Held => "Held",
            Kind::Transaction | Kind::TransactionTimeout => "Transaction",
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
    Group(Box<GroupWait>),
    Timer(Box<TimerKey>),
    Held(Box<HeldWait>),
    FollowerFetch(FollowerFetchWait),
    Transaction(Box<TransactionWait>),
    Markers(Box<MarkersWait>),
    TxnOffsets(Box<TxnOffsetsWait>),
    Inquiry(Box<InquiryWait>),
}

/// What comes of a wait that has ended.
#[derive(Debug)]
pub(crate) enum Ending {
    /// Nobody waits for an answer.
    Nothing,
    /// Its answer is ready, unless a rule holds that.
    Answer(Reply),
    /// An answer that no rule holds any more.
    Deliver(Reply),
    /// A request that was held before it was applied is to be applied now.
    Apply(Caller, Request),
    /// The time of a follower's fetch is up, and there is nothing to answer that it doesn't know. (Of waits that expire or
    /// are let go.)
    NoNews(Box<FollowerFetchWait>),
}

impl Wait {
    pub(crate) fn new(caller: &Caller, operation: Operation) -> Self {
        Wait { caller: caller.clone(), operation }
    }

    /// A coordinator's timer, for which no client waits.
    pub(crate) fn timer(key: TimerKey) -> Self {
        Wait::of_nobody(Operation::Timer(Box::new(key)))
    }

    /// Something for which no client waits.
    pub(crate) fn of_nobody(operation: Operation) -> Self {
        let caller = Caller { connection: NOBODY, correlation_id: 0, version: 0, client_id: None };
        Wait { caller, operation }
    }

    /// A follower's fetch, for which another broker waits.
    pub(crate) fn of_follower(wait: FollowerFetchWait) -> Self {
        let caller = Caller { connection: NOBODY, correlation_id: 0, version: 0, client_id: None };
        Wait { caller, operation: Operation::FollowerFetch(wait) }
    }

    /// The client is gone, and the wait has been taken out.
    pub(crate) fn abandon(&self, parts: &mut Parts<'_>) {
        match &self.operation {
            Operation::Group(wait) => wait.abandon(parts),
            Operation::Transaction(wait) => wait.abandon(parts),
            Operation::TxnOffsets(wait) => wait.abandon(parts),
            Operation::Produce(wait) => wait.abandon(parts),
            _ => {}
        }
    }

    /// If another broker waits for this, what it gets when the broker that it asked, `asked`, is gone.
    pub(crate) fn undelivered(&self, asked: NodeId) -> Option<(Peer, PeerMessage)> {
        match &self.operation {
            Operation::FollowerFetch(wait) => Some(wait.undelivered(asked)),
            Operation::Markers(wait) => wait.undelivered(),
            Operation::Inquiry(wait) => Some(wait.undelivered()),
            _ => None,
        }
    }

    /// The follower's fetch that waits, if it is one.
    pub(crate) fn into_follower_fetch(self) -> Option<FollowerFetchWait> {
        match self.operation {
            Operation::FollowerFetch(wait) => Some(wait),
            _ => None,
        }
    }

    /// Who waits.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The user's rule that holds it, if one does.
    pub(crate) fn hold(&self) -> Option<HoldId> {
        match &self.operation {
            Operation::Held(wait) => Some(wait.hold),
            _ => None,
        }
    }
}

fn answer(caller: &Caller, response: AnyResponse) -> Ending {
    let Caller { connection, correlation_id, version, .. } = *caller;
    Ending::Answer(Reply { connection, correlation_id, version, response: Some(Response(response)) })
}

impl Waiting for Wait {
    type Kind = Kind;

    fn kind(&self) -> Kind {
        match &self.operation {
            Operation::Fetch(_) => Kind::Fetch,
            Operation::Produce(_) => Kind::Produce,
            Operation::DeleteRecords(_) => Kind::DeleteRecords,
            Operation::Metadata(_) => Kind::Topic,
            Operation::Group(wait) => wait.kind(),
            Operation::Timer(key) => match **key {
                TimerKey::Group(_, TimerKind::Session(_)) => Kind::Heartbeat,
                TimerKey::Group(..) => Kind::Rebalance,
                TimerKey::Transaction(_, TransactionTimer::Timeout) => Kind::TransactionTimeout,
                TimerKey::Transaction(_, TransactionTimer::Markers) => Kind::Transaction,
            },
            Operation::Held(_) => Kind::Held,
            Operation::FollowerFetch(_) => Kind::FollowerFetch,
            Operation::TxnOffsets(_) => Kind::Commit,
            Operation::Transaction(_) | Operation::Markers(_) | Operation::Inquiry(_) => Kind::Transaction,
        }
    }
}

impl purgatory::Wait<Parts<'_>> for Wait {
    type Reply = Ending;

    fn try_complete(&mut self, parts: &mut Parts<'_>) -> Option<Ending> {
        let response = match &mut self.operation {
            Operation::Fetch(wait) => wait.try_complete(parts).map(AnyResponse::Fetch),
            Operation::Produce(wait) => wait.try_complete(parts).map(AnyResponse::Produce),
            Operation::DeleteRecords(wait) => wait.try_complete(parts).map(AnyResponse::DeleteRecords),
            Operation::Metadata(wait) => wait.try_complete(parts),
            Operation::Group(wait) => wait.try_complete(parts),
            Operation::FollowerFetch(wait) => return wait.try_complete(parts).then_some(Ending::Nothing),
            Operation::Transaction(wait) => wait.try_complete(parts),
            Operation::TxnOffsets(wait) => wait.try_complete(parts).map(AnyResponse::TxnOffsetCommit),
            Operation::Markers(wait) => {
                let told = wait.try_complete(parts)?;
                return Some(told.ending(|response| answer(&self.caller, response)));
            }
            Operation::Inquiry(wait) => return wait.try_complete(parts).map(|()| Ending::Nothing),
            Operation::Timer(_) | Operation::Held(_) => None,
        }?;
        Some(answer(&self.caller, response))
    }

    fn expire(self, parts: &mut Parts<'_>) -> Ending {
        let Wait { caller, operation } = self;
        let response = match operation {
            Operation::Fetch(mut wait) => AnyResponse::Fetch(wait.complete(parts)),
            Operation::Produce(mut wait) => AnyResponse::Produce(wait.expire(parts)),
            Operation::DeleteRecords(mut wait) => AnyResponse::DeleteRecords(wait.expire(parts)),
            Operation::Metadata(mut wait) => wait.expire(),
            Operation::Group(mut wait) => wait.expire(parts),
            Operation::Timer(key) => {
                let (coordinators, mut storage) = parts.coordinators();
                coordinators.handle_timer(&mut storage, &key);
                return Ending::Nothing;
            }
            Operation::Held(wait) => return wait.let_go(caller),
            Operation::Transaction(mut wait) => wait.expire(parts),
            Operation::TxnOffsets(mut wait) => AnyResponse::TxnOffsetCommit(wait.expire(parts)),
            Operation::Markers(mut wait) => {
                return wait.expire(parts).ending(|response| answer(&caller, response));
            }
            Operation::Inquiry(wait) => {
                wait.expire(parts);
                return Ending::Nothing;
            }
            Operation::FollowerFetch(wait) => return wait.expire(parts),
        };
        answer(&caller, response)
    }

    fn describe(&self, parts: &Parts<'_>) -> Description {
        match &self.operation {
            Operation::Fetch(wait) => wait.describe(parts),
            Operation::Produce(wait) => wait.describe(parts),
            Operation::DeleteRecords(wait) => wait.describe(parts),
            Operation::Metadata(wait) => wait.describe(parts),
            Operation::Group(wait) => wait.describe(parts),
            Operation::Timer(key) => match &**key {
                TimerKey::Group(group, kind) => Description {
                    waits_for: format!("group {group}"),
                    progress: match kind {
                        TimerKind::Session(member) => format!("session of {member}"),
                        TimerKind::Join => "members to join".to_owned(),
                        TimerKind::Sync => "members to sync".to_owned(),
                        TimerKind::Rebalance(member) => format!("{member} to give up partitions"),
                        TimerKind::MemberJoin(member) => format!("{member} to join again"),
                        TimerKind::MemberSync(member) => format!("{member} to sync"),
                        TimerKind::Regexes => "regular expressions to be resolved".to_owned(),
                    },
                },
                TimerKey::Transaction(id, kind) => Description {
                    waits_for: format!("transaction of {id}"),
                    progress: match kind {
                        TransactionTimer::Timeout => "its timeout".to_owned(),
                        TransactionTimer::Markers => "markers to be written".to_owned(),
                    },
                },
            },
            Operation::Held(wait) => wait.describe(),
            Operation::FollowerFetch(wait) => wait.describe(parts),
            Operation::Transaction(wait) => wait.describe(),
            Operation::TxnOffsets(wait) => wait.describe(),
            Operation::Markers(wait) => wait.describe(parts),
            Operation::Inquiry(wait) => wait.describe(),
        }
    }
}
