//! Messages between the controller and the brokers: who is to get what, and when.
//!
//! Everything that one part of the cluster tells another goes over a link, one for each direction, so that a link can be
//! slow or cut. With a delay of 0 (the default) a message arrives within the call that sent it. What a cut link is
//! given is kept and arrives once it is whole again, as TCP sends again; messages of one link never overtake each other.
//!
//! Nothing grows with the time for which a link is cut or slow: what is kept has its bounds (`backlog.rs`), and on its way
//! over one link are [`WINDOW`] messages at most. What comes then is kept until others have arrived.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::backlog::{Backlog, Next};
use crate::api::{Party, Peer, PeerMessage};
use crate::base::Instant;

/// The most messages that are on their way over one link: enough for a fetch of each of so many partitions.
pub(super) const WINDOW: usize = 10_000;

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
    /// What was sent while it was cut or its window was full.
    kept: Backlog<Envelope>,
    /// How many messages are on their way.
    on_their_way: usize,
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

    /// Sends a message. Returns one that is given up for it, of which nobody has heard.
    pub(super) fn send(&mut self, now: Instant, envelope: Envelope) -> Option<Envelope> {
        let ends = (envelope.from.party, envelope.to);
        if self.delay.is_zero() && (self.special.is_empty() || !self.special.contains_key(&ends)) {
            self.arrived.push_back(envelope);
            return None;
        }
        let delay = self.delay;
        let special = self.special.entry(ends).or_insert_with(|| Special::new(delay, now));
        if special.link.cut || !special.kept.is_empty() || special.on_their_way >= WINDOW {
            return special.kept.push(envelope);
        }
        self.send_over(now, ends, envelope);
        None
    }

    /// Sends a message over a link that lets it through.
    fn send_over(&mut self, now: Instant, ends: (Party, Party), envelope: Envelope) {
        let Some(special) = self.special.get_mut(&ends) else { return };
        let arrival = (now + special.link.delay).max(special.last_arrival);
        special.last_arrival = arrival;
        if arrival == now {
            self.arrived.push_back(envelope);
        } else {
            special.on_their_way += 1;
            self.on_their_way.insert((arrival, self.sent), envelope);
            self.sent += 1;
        }
    }

    /// Sends what was kept, over every link that lets it through. `snapshot` is all that the controller knows.
    pub(super) fn send_kept(&mut self, now: Instant, snapshot: impl Fn() -> PeerMessage) {
        if self.special.is_empty() {
            return;
        }
        let waiting = self.special.iter().filter(|(_, special)| special.may_send_kept());
        let waiting: Vec<(Party, Party)> = waiting.map(|(ends, _)| *ends).collect();
        for ends in waiting {
            while let Some(special) = self.special.get_mut(&ends).filter(|special| special.may_send_kept()) {
                let envelope = match special.kept.pop() {
                    Some(Next::Entry(envelope)) => envelope,
                    Some(Next::Snapshot { incarnation }) => {
                        let from = Peer { party: Party::Controller, incarnation: 0 };
                        Envelope { from, to: ends.1, incarnation, message: snapshot() }
                    }
                    None => break,
                };
                self.send_over(now, ends, envelope);
            }
        }
    }

    /// The next message that has arrived.
    pub(super) fn receive(&mut self, now: Instant) -> Option<Envelope> {
        if let Some(first) = self.on_their_way.first_entry()
            && first.key().0 <= now
        {
            let envelope = first.remove();
            if let Some(special) = self.special.get_mut(&(envelope.from.party, envelope.to)) {
                special.on_their_way = special.on_their_way.saturating_sub(1);
            }
            return Some(envelope);
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
            (special.kept, special.on_their_way) = (Backlog::default(), 0);
        }
    }

    /// How many messages are kept or on their way, over all links.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.special.values().map(|special| special.kept.len()).sum::<usize>() + self.on_their_way.len()
    }

    /// Whether what one sends to the other arrives at once.
    pub(super) fn is_plain(&self, from: Party, to: Party) -> bool {
        match self.special.get(&(from, to)) {
            None => self.delay.is_zero(),
            Some(special) => {
                let Special { link, kept, on_their_way, .. } = special;
                *link == Link { delay: Duration::ZERO, cut: false } && kept.is_empty() && *on_their_way == 0
            }
        }
    }

    /// How a link is now.
    pub(super) fn link(&self, from: Party, to: Party) -> Link {
        let special = self.special.get(&(from, to)).map(|special| special.link);
        special.unwrap_or(Link { delay: self.delay, cut: false })
    }

    /// Makes a link slow, cut, or whole again. What is on its way already arrives as it would have; what was kept is sent
    /// with the next [`Links::send_kept`].
    pub(super) fn set(&mut self, now: Instant, from: Party, to: Party, link: Link) {
        let delay = self.delay;
        self.special.entry((from, to)).or_insert_with(|| Special::new(delay, now)).link = link;
    }
}

impl Special {
    /// A link that is as all were before.
    fn new(delay: Duration, now: Instant) -> Self {
        Special {
            link: Link { delay, cut: false },
            kept: Backlog::default(),
            on_their_way: 0,
            // What was sent before over the link as it was.
            last_arrival: now,
        }
    }

    fn may_send_kept(&self) -> bool {
        !self.link.cut && !self.kept.is_empty() && self.on_their_way < WINDOW
    }
}
