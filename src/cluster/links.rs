//! Messages between the controller and the brokers: who is to get what, and when.
//!
//! Everything that one part of the cluster tells another goes over a link, one for each direction, so that a link can be
//! slow or cut. With a delay of 0 (the default) a message arrives within the call that sent it. What a cut link is
//! given is kept and arrives once it is whole again, as TCP sends again; messages of one link never overtake each other.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::api::{Party, Peer, PeerMessage};
use crate::base::Instant;

/// A message on its way.
#[derive(Clone, Debug)]
pub(super) struct Envelope {
    pub(super) from: Peer,
    pub(super) to: Party,
    /// The only incarnation that may receive it; none for whichever is there.
    pub(super) incarnation: Option<u32>,
    pub(super) message: PeerMessage,
}

/// How one link differs from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// How long a message takes.
    pub delay: Duration,
    /// Whether nothing gets through for now.
    pub cut: bool,
}

#[derive(Clone, Debug)]
struct Special {
    link: Link,
    /// What was sent while it was cut.
    kept: VecDeque<Envelope>,
    /// When the last message that was let through arrives.
    last_arrival: Instant,
}

/// All links, and what is on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    delay: Duration,
    special: BTreeMap<(Party, Party), Special>,
    /// Sent with no delay.
    arrived: VecDeque<Envelope>,
    /// By arrival, and then in the order of sending.
    on_their_way: BTreeMap<(Instant, u64), Envelope>,
    sent: u64,
}

impl Links {
    pub(super) fn new(delay: Duration) -> Self {
        Links { delay, ..Links::default() }
    }

    pub(super) fn send(&mut self, now: Instant, envelope: Envelope) {
        let mut delay = self.delay;
        if !self.special.is_empty()
            && let Some(special) = self.special.get_mut(&(envelope.from.party, envelope.to))
        {
            if special.link.cut {
                special.kept.push_back(envelope);
                return;
            }
            let arrival = (now + special.link.delay).max(special.last_arrival);
            special.last_arrival = arrival;
            delay = arrival - now;
        }
        if delay.is_zero() {
            self.arrived.push_back(envelope);
        } else {
            self.on_their_way.insert((now + delay, self.sent), envelope);
            self.sent += 1;
        }
    }

    /// The next message that has arrived.
    pub(super) fn receive(&mut self, now: Instant) -> Option<Envelope> {
        if let Some(first) = self.on_their_way.first_entry()
            && first.key().0 <= now
        {
            return Some(first.remove());
        }
        self.arrived.pop_front()
    }

    /// When the next message arrives.
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.on_their_way.first_key_value().map(|((arrival, _), _)| *arrival)
    }

    /// Forgets what is on its way from one to another: its connection is broken.
    pub(super) fn forget(&mut self, from: Party, to: Party) {
        let is_theirs = |envelope: &Envelope| envelope.from.party == from && envelope.to == to;
        self.arrived.retain(|envelope| !is_theirs(envelope));
        self.on_their_way.retain(|_, envelope| !is_theirs(envelope));
        if let Some(special) = self.special.get_mut(&(from, to)) {
            special.kept.clear();
        }
    }

    /// How a link is now.
    pub(super) fn link(&self, from: Party, to: Party) -> Link {
        let special = self.special.get(&(from, to)).map(|special| special.link);
        special.unwrap_or(Link { delay: self.delay, cut: false })
    }

    /// Makes a link slow, cut, or whole again. What is on its way already arrives as it would have.
    pub(super) fn set(&mut self, now: Instant, from: Party, to: Party, link: Link) {
        let delay = self.delay;
        let special = self.special.entry((from, to)).or_insert_with(|| Special {
            link: Link { delay, cut: false },
            kept: VecDeque::new(),
            // What was sent before over the link as it was.
            last_arrival: now + delay,
        });
        special.link = link;
        if !link.cut {
            for envelope in std::mem::take(&mut special.kept) {
                self.send(now, envelope);
            }
        }
    }
}
