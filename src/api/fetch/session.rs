//! Fetch sessions (KIP-227): what a client fetches, remembered, so that it names only what changes and is told only
//! what changed. Kafka's `FetchManager` and `FetchSession`, without their shards.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use super::reply::PartitionReply;
use crate::api::subjects::NamedTopic;
use crate::base::entropy::Entropy;
use crate::base::{ErrorCode, Instant, TopicId};

/// A session that wasn't used for this long may make room for any other; one younger than this is protected.
const EVICTION: Duration = Duration::from_millis(120_000);

/// The most partitions that all sessions of a broker remember together, about 100 bytes each. Kafka bounds the number
/// of sessions alone; a client could then have us remember a thousand times what fits into a request.
const MAX_PARTITIONS: usize = 1_000_000;

/// How a request names a topic, and so how its session remembers it: by name up to v12, by id from v13.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum TopicKey {
    Name(Arc<str>),
    Id(TopicId),
}

impl TopicKey {
    /// Whether this is how a request calls `topic`.
    pub(super) fn is(&self, topic: &NamedTopic<'_>) -> bool {
        match self {
            TopicKey::Name(name) => topic.is_named(name),
            TopicKey::Id(id) => topic.is("", *id),
        }
    }
}

/// A partition as a request names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FetchKey {
    pub(crate) topic: TopicKey,
    pub(crate) index: i32,
}

/// What is to be fetched from a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FetchSpec {
    pub(crate) fetch_offset: i64,
    pub(crate) max_bytes: i32,
    /// The epoch that the fetcher believes in, −1 for any.
    pub(crate) current_leader_epoch: i32,
    /// The epoch of the last record that the fetcher has, −1 if it doesn't say.
    pub(crate) last_fetched_epoch: i32,
    /// Where the fetcher's own log starts, if it is a follower.
    pub(crate) log_start_offset: i64,
}

/// What a session remembers of a partition: the wish, and what was last told of it.
#[derive(Clone, Debug)]
struct Cached {
    spec: FetchSpec,
    /// The topic's name, once its id was known: the session holds on to it even when the topic is gone.
    name: Option<Arc<str>>,
    high_watermark: i64,
    log_start_offset: i64,
}

impl Cached {
    fn new(spec: FetchSpec) -> Self {
        Cached { spec, name: None, high_watermark: -1, log_start_offset: -1 }
    }

    /// Whether the partition belongs into an incremental response; remembers what is told of it.
    fn update(&mut self, name: &Arc<str>, reply: &PartitionReply) -> bool {
        if self.name.is_none() && !name.is_empty() {
            self.name = Some(name.clone());
        }
        let changed = self.high_watermark != reply.high_watermark
            || self.log_start_offset != reply.log_start_offset
            || reply.preferred_read_replica.is_some()
            || reply.diverging_epoch.is_some()
            || reply.record_bytes() > 0;
        self.high_watermark = reply.high_watermark;
        self.log_start_offset = reply.log_start_offset;
        if reply.error.is_error() {
            // So that the partition is told of again once it has recovered.
            self.high_watermark = -1;
            return true;
        }
        changed
    }
}

#[derive(Clone, Debug)]
struct Session {
    /// Followers' sessions are kept rather than consumers'.
    privileged: bool,
    uses_topic_ids: bool,
    created: Instant,
    last_used: Instant,
    /// What the next request must say.
    epoch: i32,
    partitions: IndexMap<FetchKey, Cached, FxBuildHasher>,
}

/// How a request and its response relate to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionContext {
    /// There is none.
    Sessionless,
    /// One is to be made when the response is built.
    New { privileged: bool, uses_topic_ids: bool },
    /// The request continued this one, which now expects this epoch.
    Incremental { id: i32, epoch: i32 },
}

/// What a request says of sessions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SessionRequest {
    pub(crate) id: i32,
    pub(crate) epoch: i32,
    pub(crate) uses_topic_ids: bool,
    /// Whether a follower asks.
    pub(crate) privileged: bool,
}

/// A partition of a response, before the session has had its say.
#[derive(Clone, Debug)]
pub(crate) struct SessionRow<'a> {
    /// Place of the partition among those that were fetched.
    pub(crate) target: usize,
    pub(crate) key: &'a FetchKey,
    /// The topic's name, empty if it isn't known.
    pub(crate) name: &'a Arc<str>,
    pub(crate) spec: FetchSpec,
    pub(crate) reply: PartitionReply,
}

/// The fetch sessions of one broker.
#[derive(Clone, Debug)]
pub(crate) struct FetchSessions {
    slots: usize,
    sessions: BTreeMap<i32, Session>,
    /// How many partitions the sessions remember together, and may.
    partitions: usize,
    max_partitions: usize,
    entropy: Entropy,
}

impl FetchSessions {
    /// At most `slots` sessions (`max.incremental.fetch.session.cache.slots`).
    pub(crate) fn new(slots: usize, entropy: Entropy) -> Self {
        FetchSessions {
            slots,
            sessions: BTreeMap::new(),
            partitions: 0,
            max_partitions: MAX_PARTITIONS,
            entropy,
        }
    }

    /// How many sessions there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Finds the session that a request continues and brings it up to date, or ends the one that it names.
    ///
    /// # Errors
    /// FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR, for the whole
    /// request. A session that would remember too much ends with the first of these: its client then asks for a new
    /// one, and goes on without if it can't have that.
    pub(crate) fn begin(
        &mut self,
        request: SessionRequest,
        wanted: &[(FetchKey, FetchSpec)],
        forgotten: &[FetchKey],
        now: Instant,
    ) -> Result<SessionContext, ErrorCode> {
        match request.epoch {
            0 | -1 => {
                self.remove(request.id);
                if request.epoch == -1 {
                    return Ok(SessionContext::Sessionless);
                }
                let SessionRequest { privileged, uses_topic_ids, .. } = request;
                return Ok(SessionContext::New { privileged, uses_topic_ids });
            }
            _ => {}
        }
        let session = self.sessions.get_mut(&request.id).ok_or(ErrorCode::FetchSessionIdNotFound)?;
        if session.epoch != request.epoch {
            return Err(ErrorCode::InvalidFetchSessionEpoch);
        }
        if session.uses_topic_ids != request.uses_topic_ids {
            return Err(ErrorCode::FetchSessionTopicIdError);
        }
        let before = session.partitions.len();
        let room = self.max_partitions.saturating_sub(self.partitions);
        if wanted.len() > room {
            let added = wanted.iter().filter(|(key, _)| !session.partitions.contains_key(key)).count();
            if added > room {
                self.remove(request.id);
                return Err(ErrorCode::FetchSessionIdNotFound);
            }
        }
        for (key, spec) in wanted {
            match session.partitions.get_mut(key) {
                Some(cached) => cached.spec = *spec,
                None => {
                    session.partitions.insert(key.clone(), Cached::new(*spec));
                }
            }
        }
        for key in forgotten {
            session.partitions.shift_remove(key);
        }
        self.partitions = self.partitions - before + session.partitions.len();
        if session.partitions.is_empty() {
            self.remove(request.id);
            return Ok(SessionContext::Sessionless);
        }
        session.last_used = now;
        session.epoch = if session.epoch == i32::MAX { 1 } else { session.epoch + 1 };
        Ok(SessionContext::Incremental { id: request.id, epoch: session.epoch })
    }

    /// All that a session wants, in its order: those that had records last come last. With the topics' names, as far
    /// as the session has learnt them.
    pub(crate) fn wanted(&self, id: i32) -> impl Iterator<Item = (&FetchKey, FetchSpec, Option<&Arc<str>>)> {
        let partitions = self.sessions.get(&id).map(|session| &session.partitions);
        partitions.into_iter().flatten().map(|(key, cached)| (key, cached.spec, cached.name.as_ref()))
    }

    /// Ends the work on a response: makes the session that was asked for, or leaves in an incremental response only
    /// what has changed. Gives the session's id, 0 for none.
    ///
    /// # Errors
    /// INVALID_FETCH_SESSION_EPOCH if the session went on (or away) while the response was waited for.
    pub(crate) fn finish(
        &mut self,
        context: SessionContext,
        rows: &mut Vec<SessionRow<'_>>,
        now: Instant,
    ) -> Result<i32, ErrorCode> {
        match context {
            SessionContext::Sessionless => Ok(0),
            SessionContext::New { privileged, uses_topic_ids } => {
                Ok(self.create(privileged, uses_topic_ids, rows, now))
            }
            SessionContext::Incremental { id, epoch } => {
                let session = self.sessions.get_mut(&id).filter(|session| session.epoch == epoch);
                let session = session.ok_or(ErrorCode::InvalidFetchSessionEpoch)?;
                rows.retain(|row| session.update(row.key, row.name, &row.reply));
                Ok(id)
            }
        }
    }

    fn remove(&mut self, id: i32) {
        if let Some(session) = self.sessions.remove(&id) {
            self.partitions -= session.partitions.len();
        }
    }

    fn create(
        &mut self,
        privileged: bool,
        uses_topic_ids: bool,
        rows: &[SessionRow<'_>],
        now: Instant,
    ) -> i32 {
        if self.sessions.len() >= self.slots && !self.evict(privileged, rows.len(), now) {
            return 0;
        }
        if rows.len() > self.max_partitions.saturating_sub(self.partitions) {
            return 0;
        }
        let partitions = rows.iter().map(|row| {
            let mut cached = Cached::new(row.spec);
            cached.update(row.name, &row.reply);
            (row.key.clone(), cached)
        });
        let session = Session {
            privileged,
            uses_topic_ids,
            created: now,
            last_used: now,
            epoch: 1,
            partitions: partitions.collect(),
        };
        self.partitions += session.partitions.len();
        let id = self.draw_id();
        self.sessions.insert(id, session);
        id
    }

    fn draw_id(&mut self) -> i32 {
        loop {
            let id = 1 + self.entropy.below(i32::MAX as u64 - 1) as i32;
            if !self.sessions.contains_key(&id) {
                return id;
            }
        }
    }

    /// Makes room for a newcomer of `size` partitions, if it may have it: the least recently used session goes if it
    /// was idle for long; else the smallest that the newcomer may push out.
    fn evict(&mut self, privileged: bool, size: usize, now: Instant) -> bool {
        let oldest = self.sessions.iter().min_by_key(|(id, session)| (session.last_used, **id));
        let Some((&oldest, session)) = oldest else { return false };
        if now.saturating_since(session.last_used) > EVICTION {
            self.remove(oldest);
            return true;
        }
        let evictable = self.sessions.iter().filter(|(_, session)| {
            let old = now.saturating_since(session.created) > EVICTION;
            old || (privileged && !session.privileged)
        });
        let rank = |(id, session): (&i32, &Session)| (session.privileged, session.partitions.len(), *id);
        match evictable.map(rank).min() {
            Some(least) if (privileged, size, 0) >= least => {
                self.remove(least.2);
                true
            }
            _ => false,
        }
    }
}

impl Session {
    fn update(&mut self, key: &FetchKey, name: &Arc<str>, reply: &PartitionReply) -> bool {
        let Some((at, _, cached)) = self.partitions.get_full_mut(key) else { return false };
        let told = cached.update(name, reply);
        if reply.record_bytes() > 0 {
            let last = self.partitions.len() - 1;
            self.partitions.move_index(at, last);
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn key(index: i32) -> FetchKey {
        FetchKey { topic: TopicKey::Name("t".into()), index }
    }

    fn wanted(indexes: &[i32]) -> Vec<(FetchKey, FetchSpec)> {
        let spec = FetchSpec {
            fetch_offset: 0,
            max_bytes: 100,
            current_leader_epoch: -1,
            last_fetched_epoch: -1,
            log_start_offset: -1,
        };
        indexes.iter().map(|index| (key(*index), spec)).collect()
    }

    fn replies<'a>(wanted: &'a [(FetchKey, FetchSpec)]) -> Vec<SessionRow<'a>> {
        let reply = |index| PartitionReply {
            high_watermark: 0,
            log_start_offset: 0,
            ..PartitionReply::failed(index, ErrorCode::None)
        };
        let rows = wanted.iter().enumerate();
        let row = |(target, (key, spec)): (usize, &'a (FetchKey, FetchSpec))| {
            let TopicKey::Name(name) = &key.topic else { unreachable!() };
            SessionRow { target, key, name, spec: *spec, reply: reply(key.index) }
        };
        rows.map(row).collect()
    }

    fn remembered(sessions: &FetchSessions, id: i32) -> Vec<(FetchKey, FetchSpec)> {
        sessions.wanted(id).map(|(key, spec, _)| (key.clone(), spec)).collect()
    }

    fn request(id: i32, epoch: i32) -> SessionRequest {
        SessionRequest { id, epoch, uses_topic_ids: false, privileged: false }
    }

    fn open(sessions: &mut FetchSessions, indexes: &[i32], now: Instant) -> i32 {
        let wanted = wanted(indexes);
        let context = sessions.begin(request(0, 0), &wanted, &[], now).unwrap();
        sessions.finish(context, &mut replies(&wanted), now).unwrap()
    }

    fn sessions(slots: usize) -> FetchSessions {
        FetchSessions::new(slots, Entropy::new(1))
    }

    #[test]
    fn an_incremental_response_has_only_what_changed() {
        let mut sessions = sessions(10);
        let id = open(&mut sessions, &[0, 1, 2], Instant::ZERO);
        let context = sessions.begin(request(id, 1), &[], &[], Instant::ZERO).unwrap();
        assert_eq!(context, SessionContext::Incremental { id, epoch: 2 });
        let wanted = remembered(&sessions, id);
        let mut answers = replies(&wanted);
        answers[0].reply.records = vec![Bytes::from_static(b"records")];
        answers[1].reply.error = ErrorCode::UnknownTopicOrPartition;
        assert_eq!(sessions.finish(context, &mut answers, Instant::ZERO), Ok(id));
        assert_eq!(answers.iter().map(|answer| answer.key.index).collect::<Vec<_>>(), [0, 1]);
        let order: Vec<i32> = remembered(&sessions, id).iter().map(|(key, _)| key.index).collect();
        assert_eq!(order, [1, 2, 0], "what had records comes last");

        let context = sessions.begin(request(id, 2), &[], &[], Instant::ZERO).unwrap();
        let wanted = remembered(&sessions, id);
        let mut answers = replies(&wanted);
        sessions.finish(context, &mut answers, Instant::ZERO).unwrap();
        let told: Vec<i32> = answers.iter().map(|answer| answer.key.index).collect();
        assert_eq!(told, [1], "a partition that has recovered is told of again");
    }

    #[test]
    fn wrong_ids_epochs_and_naming_are_refused() {
        let mut sessions = sessions(10);
        let id = open(&mut sessions, &[0], Instant::ZERO);
        let mut begin = |request| sessions.begin(request, &[], &[], Instant::ZERO);
        assert_eq!(begin(request(id.wrapping_add(1), 1)), Err(ErrorCode::FetchSessionIdNotFound));
        assert_eq!(begin(request(id, 2)), Err(ErrorCode::InvalidFetchSessionEpoch));
        assert_eq!(
            begin(SessionRequest { uses_topic_ids: true, ..request(id, 1) }),
            Err(ErrorCode::FetchSessionTopicIdError)
        );
        assert_eq!(begin(request(id, 1)), Ok(SessionContext::Incremental { id, epoch: 2 }));
    }

    #[test]
    fn a_session_without_partitions_ends() {
        let mut sessions = sessions(10);
        let id = open(&mut sessions, &[0], Instant::ZERO);
        let context = sessions.begin(request(id, 1), &[], &[key(0)], Instant::ZERO);
        assert_eq!(context, Ok(SessionContext::Sessionless));
        assert_eq!(sessions.len(), 0);
    }

    #[test]
    fn a_final_epoch_ends_the_session() {
        let mut sessions = sessions(10);
        let id = open(&mut sessions, &[0], Instant::ZERO);
        assert_eq!(sessions.begin(request(id, -1), &[], &[], Instant::ZERO), Ok(SessionContext::Sessionless));
        assert_eq!(sessions.len(), 0);
    }

    #[test]
    fn a_full_cache_keeps_young_sessions_and_gives_up_idle_ones() {
        let mut sessions = sessions(2);
        let late = Instant::ZERO + EVICTION + Duration::from_millis(1);
        let first = open(&mut sessions, &[0], Instant::ZERO);
        let second = open(&mut sessions, &[0, 1], Instant::ZERO);
        assert_eq!(open(&mut sessions, &[0, 1, 2], Instant::ZERO), 0, "nobody is old enough to go");
        sessions.begin(request(first, 1), &[], &[], late).unwrap();
        assert_ne!(open(&mut sessions, &[0], late), 0, "the idle one goes");
        assert!(sessions.wanted(second).next().is_none());
        sessions.begin(request(first, 2), &[], &[], late).unwrap();
        assert_ne!(open(&mut sessions, &[0, 1, 2], late), 0, "an old smaller one goes though it is in use");
        assert!(sessions.wanted(first).next().is_none());
    }

    #[test]
    fn a_follower_pushes_out_a_consumer() {
        let mut sessions = sessions(1);
        let consumer = open(&mut sessions, &[0, 1], Instant::ZERO);
        let wanted = wanted(&[0]);
        let follower = SessionRequest { privileged: true, ..request(0, 0) };
        let context = sessions.begin(follower, &wanted, &[], Instant::ZERO).unwrap();
        assert_ne!(sessions.finish(context, &mut replies(&wanted), Instant::ZERO), Ok(0));
        assert!(sessions.wanted(consumer).next().is_none());
    }

    #[test]
    fn what_all_sessions_remember_has_a_bound() {
        let mut sessions = FetchSessions { max_partitions: 3, ..sessions(10) };
        let first = open(&mut sessions, &[0, 1], Instant::ZERO);
        assert_ne!(first, 0);
        assert_eq!(open(&mut sessions, &[0, 1], Instant::ZERO), 0, "two more are too many");
        let second = open(&mut sessions, &[0], Instant::ZERO);
        assert_ne!(second, 0);

        let same = sessions.begin(request(first, 1), &wanted(&[0, 1]), &[], Instant::ZERO);
        assert!(same.is_ok(), "what is remembered already needs no room");
        let more = sessions.begin(request(first, 2), &wanted(&[2]), &[], Instant::ZERO);
        assert_eq!(more, Err(ErrorCode::FetchSessionIdNotFound));
        assert_ne!(open(&mut sessions, &[0, 1], Instant::ZERO), 0, "its room is free again");

        sessions.begin(request(second, 1), &[], &[key(0)], Instant::ZERO).unwrap();
        assert_ne!(open(&mut sessions, &[0], Instant::ZERO), 0, "so is what was forgotten");
        assert_eq!(sessions.partitions, 3);
    }
}
