//! Fetch (1), versions 4–18: records from an offset on, at once or when there are enough.
//!
//! A first read of all partitions is always done. Its answer goes out at once if there is no time to wait, nothing that
//! could be read, enough bytes, an error of a read, or a log that parts from the fetcher's; else the request waits in
//! the purgatory until one of these comes true, or `max_wait_ms` has passed. (Kafka's `ReplicaManager.fetchMessages`,
//! `DelayedFetch`; sessions: KIP-227.) An unknown partition beside a readable one does not end the wait.
//!
//! Versions: 5 log start offset; 7 sessions (KIP-227); 9 leader epochs (KIP-320); 11 racks (KIP-392); 12 epochs of
//! fetched records (KIP-595); 13 topic ids (KIP-516); 15 the follower's state (KIP-903); 16 new leaders (KIP-951).
//!
//! A consumer may read from a follower up to the high watermark that this knows, and is sent to one in its rack by the
//! leader, if `replica.selector.class` says so (v11+).

mod delayed;
mod read;
mod read_replica;
mod reply;
mod session;

use std::sync::Arc;

use indexmap::IndexMap;
use kafka_protocol::messages::fetch_request::FetchRequest;
use kafka_protocol::messages::{ApiKey, TopicName};
use rustc_hash::FxBuildHasher;

use super::subjects::NamesTopic;
use super::waits::{Key, Operation, Wait};
use super::{Answer, Api, Context, Refusal, prepare::Preparation};
use crate::base::{ErrorCode, TopicId};
use crate::replica::Isolation;

pub(crate) use delayed::FetchWait;
use read::{FetchLimits, Reader, Target, note_follower};
pub(crate) use reply::FetchReply;
use reply::{PartitionReply, TopicReply};
pub(crate) use session::FetchSessions;
use session::{FetchKey, FetchSpec, SessionContext, SessionRequest, TopicKey};

/// The replica id of those who aren't replicas.
const CONSUMER: i32 = -1;

pub(crate) struct Fetch;

/// A Fetch request. Topic names are copied, so that what waits doesn't keep the request's frame.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// −1 for a consumer.
    replica_id: i32,
    /// A follower's broker epoch; −1 if it doesn't say (v15+).
    replica_epoch: i64,
    /// Where the consumer is (v11+). A consumer that is asked so may read from a follower.
    rack: Option<Arc<str>>,
    max_wait_ms: i32,
    min_bytes: i32,
    max_bytes: i32,
    isolation_level: i8,
    session_id: i32,
    session_epoch: i32,
    /// Each partition once: of a partition that comes twice, the last word counts.
    wanted: Vec<(FetchKey, FetchSpec)>,
    forgotten: Vec<FetchKey>,
}

impl Api for Fetch {
    const KEY: ApiKey = ApiKey::Fetch;
    const VERSIONS: std::ops::RangeInclusive<i16> = 4..=18;
    type Wire = FetchRequest;
    type Request = Request;
    type Response = FetchReply;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> = Some(|request, topic, broker| {
        let continued = Some(request.session_id).filter(|_| request.session_epoch > 0);
        let session =
            continued.into_iter().flat_map(|id| broker.fetch_sessions.wanted(id)).map(|(key, ..)| key);
        request.wanted.iter().map(|(key, _)| key).chain(session).any(|key| key.topic.is(topic))
    });

    fn prepare(wire: FetchRequest, preparation: &Preparation) -> Result<Request, Refusal> {
        let version = preparation.version;
        let mut wanted: IndexMap<FetchKey, FetchSpec, FxBuildHasher> = IndexMap::default();
        for topic in &wire.topics {
            let key = topic_key(version, &topic.topic, topic.topic_id);
            wanted.extend(topic.partitions.iter().map(|partition| {
                let spec = FetchSpec {
                    fetch_offset: partition.fetch_offset,
                    max_bytes: partition.partition_max_bytes,
                    // Here, unlike in other APIs, any negative epoch is none.
                    current_leader_epoch: partition.current_leader_epoch.max(-1),
                    last_fetched_epoch: partition.last_fetched_epoch.max(-1),
                    log_start_offset: partition.log_start_offset,
                };
                (FetchKey { topic: key.clone(), index: partition.partition }, spec)
            }));
        }
        let mut forgotten = Vec::new();
        for topic in &wire.forgotten_topics_data {
            let key = topic_key(version, &topic.topic, topic.topic_id);
            forgotten
                .extend(topic.partitions.iter().map(|index| FetchKey { topic: key.clone(), index: *index }));
        }
        Ok(Request {
            replica_id: if version >= 15 { wire.replica_state.replica_id.0 } else { wire.replica_id.0 },
            replica_epoch: if version >= 15 { wire.replica_state.replica_epoch } else { -1 },
            rack: (version >= 11).then(|| Arc::from(wire.rack_id.as_str())),
            max_wait_ms: wire.max_wait_ms,
            min_bytes: wire.min_bytes,
            max_bytes: wire.max_bytes,
            isolation_level: wire.isolation_level,
            session_id: if version >= 7 { wire.session_id } else { 0 },
            session_epoch: if version >= 7 { wire.session_epoch } else { -1 },
            wanted: wanted.into_iter().collect(),
            forgotten,
        })
    }

    fn handle(context: &mut Context<'_>, request: Request) -> Answer<FetchReply> {
        let version = context.caller.version;
        if !matches!(request.isolation_level, 0 | 1) {
            return Answer::Ready(refused(&request, version, ErrorCode::UnknownServerError));
        }
        let now = context.parts.now.instant;
        let asked = SessionRequest {
            id: request.session_id,
            epoch: request.session_epoch,
            uses_topic_ids: version >= 13,
            privileged: request.replica_id >= 0,
        };
        let sessions = &mut context.parts.broker.fetch_sessions;
        let session = match sessions.begin(asked, &request.wanted, &request.forgotten, now) {
            Ok(session) => session,
            Err(error) => return Answer::Ready(FetchReply { error, ..FetchReply::default() }),
        };
        let targets = match session {
            SessionContext::Incremental { id, .. } => context
                .parts
                .broker
                .fetch_sessions
                .wanted(id)
                .map(|(key, spec, name)| Target::new(&context.parts, key.clone(), spec, name))
                .collect(),
            SessionContext::New { .. } | SessionContext::Sessionless => {
                let wanted = request.wanted.into_iter();
                wanted.map(|(key, spec)| Target::new(&context.parts, key, spec, None)).collect()
            }
        };
        let most = i32::try_from(context.parts.settings().network.fetch_max_bytes);
        let max_bytes = request.max_bytes.min(most.unwrap_or(i32::MAX));
        let mut wait = FetchWait {
            version,
            connection: context.caller.connection,
            session,
            limits: FetchLimits {
                isolation: match (request.replica_id, request.isolation_level) {
                    (CONSUMER, 1) => Isolation::LastStableOffset,
                    (CONSUMER, _) => Isolation::HighWatermark,
                    _ => Isolation::LogEnd,
                },
                reader: Reader::new(
                    request.replica_id,
                    request.rack.map(|rack| known_rack(&context.parts, &rack)),
                ),
                connection: context.caller.connection,
                max_bytes: max_bytes.into(),
                min_bytes: request.min_bytes.min(max_bytes),
            },
            targets,
        };
        if let Reader::Replica(replica) = wait.limits.reader {
            note_follower(&mut context.parts, &mut wait.targets, replica, request.replica_epoch);
        }
        let read = wait.read(&context.parts);
        if request.max_wait_ms <= 0 || read.must_answer(&wait.limits) {
            return Answer::Ready(wait.answer(&mut context.parts, read));
        }
        wait.note_positions(&read);
        drop(read);
        if let Some(reply) = wait.try_complete(&mut context.parts) {
            return Answer::Ready(reply);
        }
        let isolation = wait.limits.isolation;
        let keys: Vec<Key> = wait.partitions().map(|key| wake_key(isolation, key)).collect();
        let wait = Wait::new(context.caller, Operation::Fetch(Box::new(wait)));
        context.park(keys, now.after_timeout_ms(request.max_wait_ms), wait);
        Answer::Parked
    }
}

/// What wakes a fetch: a follower waits for the log to grow, a consumer for the records to be replicated.
fn wake_key(isolation: Isolation, key: crate::base::PartitionKey) -> Key {
    match isolation {
        Isolation::LogEnd => Key::LogEnd(key),
        Isolation::HighWatermark | Isolation::LastStableOffset => Key::HighWatermark(key),
    }
}

fn topic_key(version: i16, name: &TopicName, id: uuid::Uuid) -> TopicKey {
    if version >= 13 { TopicKey::Id(id.into()) } else { TopicKey::Name(Arc::from(name.as_str())) }
}

/// The request's own partitions, each with the error, up to v12; the error alone from v13 on.
fn refused(request: &Request, version: i16, error: ErrorCode) -> FetchReply {
    let partitions = request.wanted.iter().filter(|_| version < 13);
    let rows = partitions.map(|(key, _)| {
        let (name, id) = match &key.topic {
            TopicKey::Name(name) => (name.clone(), TopicId::ZERO),
            TopicKey::Id(id) => (Arc::from(""), *id),
        };
        (name, id, PartitionReply::refused(key.index, error))
    });
    FetchReply { error, session_id: request.session_id, topics: by_topic(rows), endpoints: Vec::new() }
}

/// Rows that follow one another and are of one topic, put together.
fn by_topic(rows: impl Iterator<Item = (Arc<str>, TopicId, PartitionReply)>) -> Vec<TopicReply> {
    let mut topics: Vec<TopicReply> = Vec::new();
    for (name, id, partition) in rows {
        match topics.last_mut().filter(|topic| topic.id == id && topic.name == name) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(TopicReply { name, id, partitions: vec![partition] }),
        }
    }
    topics
}

/// The same rack as some broker's, or none: what a client calls its own may be long, and isn't kept while it waits.
fn known_rack(parts: &super::Parts<'_>, rack: &str) -> Arc<str> {
    let mut racks = parts.controller.brokers().iter().filter_map(|broker| broker.rack.clone());
    racks.find(|known| **known == *rack).unwrap_or_default()
}
