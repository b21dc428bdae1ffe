//! What has to wait until a link is whole again or a broker is thawed, within bounds.
//!
//! A connection over which nothing gets through doesn't keep everything that is said meanwhile: whoever asks has one
//! request under way, gives it up in time and asks anew. So of what is said again and again only the last is kept; of
//! what the controller decides so much as [`MAX_CHANGES`], and from there on all that there is to know takes its place
//! (Kafka's brokers load a snapshot where they are too far behind); of questions so many as [`MAX_QUESTIONS`].

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;

use super::links::Envelope;
use crate::api::{Party, PeerMessage, Slot};

/// The most messages with the controller's decisions that are kept one by one.
pub(super) const MAX_CHANGES: usize = 1_000;
/// The most questions, and answers to them, that are kept; the oldest go first.
pub(super) const MAX_QUESTIONS: usize = 10_000;

/// What may be, or carry, a message.
pub(super) trait Carries {
    fn envelope(&self) -> Option<&Envelope>;
}

impl Carries for Envelope {
    fn envelope(&self) -> Option<&Envelope> {
        Some(self)
    }
}

/// What waits, in the order in which it came.
#[derive(Clone, Debug)]
pub(super) struct Backlog<T> {
    entries: BTreeMap<u64, T>,
    last: u64,
    /// Where the last message of its kind is.
    slots: FxHashMap<(Party, Slot), u64>,
    /// Where the controller's decisions are.
    changes: BTreeSet<u64>,
    /// In the place of the last of which all that there is to know is to come, and for which incarnation.
    snapshot: Option<(u64, Option<u32>)>,
    /// Where questions are, and answers to them.
    questions: BTreeSet<u64>,
}

impl<T> Default for Backlog<T> {
    fn default() -> Self {
        Backlog {
            entries: BTreeMap::new(),
            last: 0,
            slots: FxHashMap::default(),
            changes: BTreeSet::new(),
            snapshot: None,
            questions: BTreeSet::new(),
        }
    }
}

/// What comes out of a [`Backlog`].
#[derive(Clone, Debug)]
pub(super) enum Next<T> {
    Entry(T),
    /// All that the controller knows: what it has decided one by one is not there any more.
    Snapshot {
        incarnation: Option<u32>,
    },
}

impl<T: Carries> Backlog<T> {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Keeps an entry. Returns one that is given up for it, of which nobody has heard.
    pub(super) fn push(&mut self, entry: T) -> Option<T> {
        let at = self.last + 1;
        let mut dropped = None;
        self.last = at;
        if let Some(Envelope { from, message, incarnation, .. }) = entry.envelope() {
            if let Some(slot) = message.slot() {
                let older = self.slots.insert((from.party, slot), at);
                older.and_then(|older| self.entries.remove(&older));
            } else if matches!(message, PeerMessage::Changes { .. }) {
                if self.snapshot.is_some() || self.changes.len() == MAX_CHANGES {
                    self.changes.iter().for_each(|at| drop(self.entries.remove(at)));
                    self.changes.clear();
                    self.snapshot = Some((at, *incarnation));
                    return None;
                }
                self.changes.insert(at);
            } else if message.is_question() {
                self.questions.insert(at);
            }
        }
        self.entries.insert(at, entry);
        if self.questions.len() > MAX_QUESTIONS {
            dropped = self.questions.pop_first().and_then(|oldest| self.entries.remove(&oldest));
        }
        dropped
    }

    pub(super) fn pop(&mut self) -> Option<Next<T>> {
        let first = self.entries.first_key_value().map(|(at, _)| *at);
        if let Some((_, incarnation)) = self.snapshot.take_if(|(at, _)| first.is_none_or(|first| *at < first))
        {
            return Some(Next::Snapshot { incarnation });
        }
        let (at, entry) = self.entries.pop_first()?;
        self.changes.remove(&at);
        self.questions.remove(&at);
        if let Some(Envelope { from, message, .. }) = entry.envelope()
            && let Some(slot) = message.slot()
        {
            self.slots.remove(&(from.party, slot));
        }
        Some(Next::Entry(entry))
    }

    pub(super) fn into_entries(self) -> impl Iterator<Item = T> {
        self.entries.into_values()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.snapshot.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Peer;
    use crate::base::NodeId;
    use crate::controller::Heartbeat;

    fn envelope(message: PeerMessage) -> Envelope {
        let from = Peer { party: Party::Broker(NodeId(1)), incarnation: 0 };
        Envelope { from, to: Party::Controller, incarnation: None, message }
    }

    fn heartbeat(epoch: i64) -> Envelope {
        let (want_fence, want_shut_down) = (false, false);
        let broker = NodeId(1);
        envelope(PeerMessage::Heartbeat(Heartbeat { broker, epoch, want_fence, want_shut_down }))
    }

    fn changes(last: u64) -> Envelope {
        envelope(PeerMessage::Changes { last, changes: [].into() })
    }

    fn inquired(number: u64) -> Envelope {
        envelope(PeerMessage::Inquired { number, outcomes: Ok(Vec::new()) })
    }

    /// What is there, as a text each.
    fn drain(backlog: &mut Backlog<Envelope>) -> Vec<String> {
        let texts = std::iter::from_fn(|| backlog.pop()).map(|next| match next {
            Next::Snapshot { incarnation: None } => "all".to_owned(),
            Next::Snapshot { .. } => "all to one".to_owned(),
            Next::Entry(envelope) => match envelope.message {
                PeerMessage::Heartbeat(heartbeat) => format!("beat {}", heartbeat.epoch),
                PeerMessage::Changes { last, .. } => format!("change {last}"),
                PeerMessage::Inquired { number, .. } => format!("answer {number}"),
                other => panic!("{other:?}"),
            },
        });
        texts.collect()
    }

    #[test]
    fn of_what_is_said_again_the_last_is_kept_in_its_place() {
        let mut backlog = Backlog::default();
        for entry in [heartbeat(1), changes(1), heartbeat(2), changes(2)] {
            assert!(backlog.push(entry).is_none());
        }
        assert_eq!(drain(&mut backlog), ["change 1", "beat 2", "change 2"]);
        backlog.push(heartbeat(3));
        assert_eq!(drain(&mut backlog), ["beat 3"]);
        assert!(backlog.is_empty() && backlog.slots.is_empty() && backlog.changes.is_empty());
    }

    #[test]
    fn too_many_decisions_become_all_that_there_is_to_know() {
        let mut backlog = Backlog::default();
        backlog.push(heartbeat(1));
        (1..=MAX_CHANGES as u64).for_each(|last| drop(backlog.push(changes(last))));
        assert_eq!(backlog.len(), MAX_CHANGES + 1);
        backlog.push(inquired(1));
        (1..=3).for_each(|last| drop(backlog.push(changes(last))));
        assert_eq!(backlog.len(), 2);
        assert_eq!(drain(&mut backlog), ["beat 1", "answer 1", "all"]);
        backlog.push(changes(5));
        assert_eq!(drain(&mut backlog), ["change 5"], "from then on it is one by one again");
    }

    #[test]
    fn the_oldest_questions_are_given_up() {
        let mut backlog = Backlog::default();
        for number in 0..MAX_QUESTIONS as u64 {
            assert!(backlog.push(inquired(number)).is_none());
        }
        let given_up = backlog.push(inquired(u64::MAX)).map(|envelope| envelope.message);
        assert!(matches!(given_up, Some(PeerMessage::Inquired { number: 0, .. })), "{given_up:?}");
        assert_eq!(backlog.len(), MAX_QUESTIONS);
        assert_eq!(drain(&mut backlog).first().map(String::as_str), Some("answer 1"));
    }
}
