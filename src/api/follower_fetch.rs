//! Followers' fetches at their leader: what each says it has is noted, and it is answered once there is more.
//!
//! They wait in the same purgatory as consumers' fetches, but for the log to grow rather than for the high watermark to
//! rise, which they bring about.

use super::context::Parts;
use super::peers::{Peer, PeerMessage};
use super::waits::{Ending, Key, NOBODY, Wait};
use crate::base::ConnectionId;
use crate::purgatory::{Description, Purgatory, Waiter};
use crate::replica::FollowerFetch;

/// A follower's fetch that found nothing to read yet.
#[derive(Clone, Debug)]
pub(crate) struct FollowerFetchWait {
    from: Peer,
    fetch: Box<FollowerFetch>,
}

/// A follower asks for records.
pub(super) fn handle(
    parts: &mut Parts<'_>,
    purgatory: &mut Purgatory<Key, Wait, ConnectionId>,
    from: Peer,
    fetch: Box<FollowerFetch>,
) {
    let key = fetch.key;
    let max_wait = fetch.max_wait;
    let mut wait = FollowerFetchWait { from, fetch };
    match parts.broker.replicas.record_follower_fetch(&wait.fetch, parts.now) {
        Ok(moved) => parts.broker.wake_moved(key, moved),
        Err(error) => {
            let mut fetched = parts.broker.replicas.read_for_follower(&wait.fetch);
            fetched.result = Err(error);
            parts.broker.answer(from, PeerMessage::FollowerFetched(Box::new(fetched)));
            return;
        }
    }
    if !wait.try_complete(parts) {
        let since = parts.now.instant;
        let waiter = Waiter { owner: NOBODY, since, deadline: since + max_wait };
        purgatory.park([Key::LogEnd(key)], waiter, Wait::of_follower(wait));
    }
}

impl FollowerFetchWait {
    /// Answers if there is something to answer.
    pub(crate) fn try_complete(&mut self, parts: &mut Parts<'_>) -> bool {
        let fetched = parts.broker.replicas.read_for_follower(&self.fetch);
        if fetched.is_empty() {
            return false;
        }
        parts.broker.answer(self.from, PeerMessage::FollowerFetched(Box::new(fetched)));
        true
    }

    /// Its time is up: it is answered, but for one that may rest instead.
    pub(crate) fn expire(self, parts: &mut Parts<'_>) -> Ending {
        if parts.broker.replicas.has_no_news_for(&self.fetch) {
            return Ending::NoNews(Box::new(self));
        }
        self.answer(parts);
        Ending::Nothing
    }

    /// What is asked for.
    pub(crate) fn fetch(&self) -> &FollowerFetch {
        &self.fetch
    }

    /// Who asks.
    pub(crate) fn from(&self) -> Peer {
        self.from
    }

    /// Answers with what there is: the leader's high watermark at least.
    pub(crate) fn answer(&self, parts: &mut Parts<'_>) {
        let fetched = parts.broker.replicas.read_for_follower(&self.fetch);
        parts.broker.answer(self.from, PeerMessage::FollowerFetched(Box::new(fetched)));
    }

    /// What the follower gets if this broker is gone, as when a connection breaks.
    pub(crate) fn undelivered(&self, parts_of: crate::base::NodeId) -> (Peer, PeerMessage) {
        (self.from, PeerMessage::FollowerFetched(Box::new(self.fetch.undelivered(parts_of))))
    }

    pub(crate) fn describe(&self, parts: &Parts<'_>) -> Description {
        let replica = parts.broker.replicas.replica(self.fetch.key);
        let topic = replica.map_or("?", |replica| &**replica.topic());
        let end = replica.map_or(-1, |replica| replica.log().log_end_offset());
        Description {
            waits_for: format!("{topic}-{} to grow", self.fetch.key.index),
            progress: format!(
                "follower {} has all below {}, the log ends at {end}",
                self.fetch.replica.0, self.fetch.offset
            ),
        }
    }
}
