//! What may never happen, one a file. A checker hears what clients were told ([`Event`]) and looks at the cluster's state;
//! it knows nothing of how either comes about.
//!
//! | What may never happen | Checker | Found when planted ([`Bug`](crate::base::planted::Bug)) |
//! |---|---|---|
//! | an acknowledged record is lost | `acknowledged.rs` | `AcknowledgesTooEarly` |
//! | a record is there twice | `once.rs` | `ForgetsSequences` |
//! | a producer's records are out of order | `order.rs` | `SkipsSequences` |
//! | an offset is left out | `holes.rs` | `LeavesHoles` |
//! | a consumer reads above the high watermark | `reads.rs` | `ReadsTooFar` |
//! | what was read vanishes, or changes | `stays.rs` | `ElectsUncleanly` |
//! | a high watermark falls | `high_watermark.rs` | `HighWatermarkFalls` |
//! | a committed offset falls | `committed.rs` | `ForgetsCommits` |
//! | two leaders have one epoch | `leaders.rs` | `KeepsLeaderEpoch` |
//! | two members own a partition in one generation, or epoch | `ownership.rs` | `AssignsTwice`, `AssignsUnreleased` |
//! | a request is not answered, nor waits with a deadline | `answered.rs` | `LosesAnswers` |
//! | a wait outlives its connection | `outlived.rs` | `KeepsWaits` |
//! | a client is told an error that doesn't pass | `refusals.rs` | `RefusesRepeats` |
//! | read_committed shows what is aborted, or open | `isolation.rs` | `ForgetsAborts`, `ReadsOpenTransactions` |
//! | a part of a transaction is seen | `atomic.rs` | `SplitsTransactions` |
//! | a pipeline's input comes out twice, or is lost | `exactly_once.rs` | `AdmitsZombies`, `CommitsAbortedOffsets` |
//! | a last stable offset falls, or is above the high watermark | `stable_offset.rs` | `StableOffsetFalls`, `StableOffsetTooHigh` |
//! | once faults have stopped, members don't come to share what there is | `convergence.rs` | `KeepsMembersBack` |
//! | nor does everything reach its end | `scenario.rs` | `LosesMarkers` |
//! | a seed is another run the next time | the digest, in `tests.rs` | `DrawsFromOutside` |

mod acknowledged;
mod answered;
mod atomic;
mod committed;
mod convergence;
mod exactly_once;
mod high_watermark;
mod holes;
mod isolation;
mod leaders;
mod once;
mod order;
mod outlived;
mod ownership;
mod reads;
mod refusals;
mod stable_offset;
mod stays;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::contacts::TOPIC;
use super::world::{ClientId, World};
use crate::cluster::ReplicaState;

/// Of each partition of the topic that is produced to, who leads it in the last epoch, unless they haven't heard of it yet when
/// others have.
fn last_leaders(replicas: &[ReplicaState]) -> impl Iterator<Item = (i32, &ReplicaState)> {
    let mut last: BTreeMap<i32, &ReplicaState> = BTreeMap::new();
    for replica in replicas.iter().filter(|replica| &*replica.topic == TOPIC) {
        let last = last.entry(replica.key.index).or_insert(replica);
        if (replica.leader_epoch, replica.leads) > (last.leader_epoch, last.leads) {
            *last = replica;
        }
    }
    last.into_iter().filter(|(_, replica)| replica.leads)
}

/// Names a record, in its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordName {
    /// Who produced it.
    pub producer: ClientId,
    /// Its number among those of its producer in its partition.
    pub number: u64,
}

impl fmt::Display for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.producer, self.number)
    }
}

impl RecordName {
    /// Reads a record's value.
    pub fn read(value: &[u8]) -> Option<Self> {
        let (producer, number) = std::str::from_utf8(value).ok()?.split_once(':')?;
        Some(RecordName { producer: producer.parse().ok()?, number: number.parse().ok()? })
    }
}

/// Of which record another was made, in its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The record's partition.
    pub partition: i32,
    /// Its name.
    pub name: RecordName,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.partition, self.name)
    }
}

impl Origin {
    /// Reads a record's value.
    pub fn read(value: &[u8]) -> Option<Self> {
        let slash = value.iter().position(|byte| *byte == b'/')?;
        let partition = std::str::from_utf8(&value[..slash]).ok()?.parse().ok()?;
        Some(Origin { partition, name: RecordName::read(&value[slash + 1..])? })
    }
}

/// What a client has been told, or has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A producer was promised that a record is kept at this offset.
    Acknowledged {
        /// The partition.
        partition: i32,
        /// Which record.
        name: RecordName,
        /// Where it is.
        offset: i64,
    },
    /// A consumer got a record.
    Read {
        /// Who.
        reader: ClientId,
        /// The partition.
        partition: i32,
        /// The record's offset.
        offset: i64,
        /// Which record.
        name: RecordName,
    },
    /// What a member owns has changed.
    Owns {
        /// The group.
        group: &'static str,
        /// Who.
        reader: ClientId,
        /// In which generation of the group, or epoch of the member, and which partitions; none outside of the group.
        share: Option<(i32, BTreeSet<i32>)>,
        /// How many partitions there are.
        of: i32,
    },
    /// A member has heard from the coordinator that it still owns what it thinks.
    Confirmed {
        /// The group.
        group: &'static str,
        /// Who.
        reader: ClientId,
        /// In which generation of the group, or epoch of the member.
        generation: i32,
        /// What it owns.
        partitions: BTreeSet<i32>,
        /// When it asked.
        asked_ms: u64,
    },
    /// A member has left, and won't come again.
    Left {
        /// The group.
        group: &'static str,
        /// Who.
        reader: ClientId,
    },
    /// The group's offset was committed.
    Committed {
        /// The group.
        group: &'static str,
        /// The partition.
        partition: i32,
        /// The offset.
        offset: i64,
    },
    /// A member has asked for the group's offsets.
    AskedCommitted {
        /// The group.
        group: &'static str,
        /// Who.
        reader: ClientId,
        /// Whether for those that stay alone (KIP-447).
        is_stable: bool,
    },
    /// And this is what it was told.
    FoundCommitted {
        /// The group.
        group: &'static str,
        /// Who.
        reader: ClientId,
        /// The partition.
        partition: i32,
        /// The offset; -1 for none.
        offset: i64,
    },
    /// A producer asks for a transaction to be committed.
    Committing {
        /// Its producer and number; its records are named so too.
        name: RecordName,
    },
    /// A transaction has ended, as far as its producer knows.
    Ended {
        /// Its producer and number; its records are named so too.
        name: RecordName,
        /// How.
        end: End,
        /// It wrote one record into each of so many partitions.
        partitions: i32,
    },
    /// A consumer of committed transactions got a record.
    ReadCommitted {
        /// The partition.
        partition: i32,
        /// The record's offset.
        offset: i64,
        /// Which record.
        name: RecordName,
    },
    /// There are pipelines, which make one record of each.
    Transforming {
        /// Of this topic's.
        topic: &'static str,
        /// Whether they read what is committed alone.
        is_committed: bool,
    },
    /// A consumer of committed transactions got what a pipeline has made of a record.
    Transformed {
        /// Of which.
        origin: Origin,
        /// The partition.
        partition: i32,
        /// The offset.
        offset: i64,
    },
    /// A client was told what nobody should be told here.
    Broken(String),
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its producer was told that it is committed.
    Committed,
    /// It was aborted, or never to be committed.
    Aborted,
    /// Its producer asked for it to be committed, and never heard.
    Unknown,
}

/// Looks out for one thing that may never happen.
pub trait Checker: fmt::Debug {
    /// What it looks out for, as it is shown when it has seen it.
    fn name(&self) -> &'static str;

    /// A client was told something.
    ///
    /// # Errors
    /// What should not be.
    fn event(&mut self, _event: &Event) -> Result<(), String> {
        Ok(())
    }

    /// The cluster has done something, and this is how its replicas are now.
    ///
    /// # Errors
    /// What should not be.
    fn inspect(&mut self, _world: &mut World, _replicas: &[ReplicaState]) -> Result<(), String> {
        Ok(())
    }

    /// What has yet to come about before all can be over, now that nothing goes wrong any more; none if nothing has.
    fn unfinished(&self) -> Option<String> {
        None
    }

    /// All is over, and everything that was written has been read.
    ///
    /// # Errors
    /// What should not be.
    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// All checkers.
pub fn all() -> Vec<Box<dyn Checker>> {
    vec![
        Box::new(refusals::Refusals),
        Box::new(reads::Reads::default()),
        Box::new(stays::Stays::default()),
        Box::new(acknowledged::Acknowledged::default()),
        Box::new(once::Once::default()),
        Box::new(order::Order::default()),
        Box::new(holes::Holes::default()),
        Box::new(high_watermark::HighWatermark::default()),
        Box::new(leaders::Leaders::default()),
        Box::new(ownership::Ownership::default()),
        Box::new(committed::Committed::default()),
        Box::new(answered::Answered::default()),
        Box::new(outlived::Outlived::default()),
        Box::new(stable_offset::StableOffset::default()),
        Box::new(isolation::Isolation::default()),
        Box::new(atomic::Atomic::default()),
        Box::new(exactly_once::ExactlyOnce::default()),
        Box::new(convergence::Convergence::default()),
    ]
}
