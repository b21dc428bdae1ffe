//! Messages between the controller and the brokers: who is to get what, and when.
//!
//! Everything that one part of the cluster tells another goes over a link, so that a link can be slow or cut. With a
//! delay of 0 (the default) a message arrives within the call that sent it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::base::{Instant, NodeId};
use crate::controller::Change;

/// What travels.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// From the controller to a broker: what was decided, up to the change with this number.
    Changes { to: NodeId, last: u64, changes: Arc<[Change]> },
    /// From a broker to the controller: it has applied all changes up to this one.
    Applied { from: NodeId, last: u64 },
}

/// All links, and what is on its way.
#[derive(Clone, Debug, Default)]
pub(super) struct Links {
    delay: Duration,
    /// By arrival, and then in the order of sending.
    on_their_way: BTreeMap<(Instant, u64), Message>,
    sent: u64,
}

impl Links {
    pub(super) fn new(delay: Duration) -> Self {
        Links { delay, ..Links::default() }
    }

    pub(super) fn send(&mut self, now: Instant, message: Message) {
        self.on_their_way.insert((now + self.delay, self.sent), message);
        self.sent += 1;
    }

    /// The next message that has arrived.
    pub(super) fn receive(&mut self, now: Instant) -> Option<Message> {
        let first = self.on_their_way.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    /// When the next message arrives.
    pub(super) fn next_arrival(&self) -> Option<Instant> {
        self.on_their_way.first_key_value().map(|((arrival, _), _)| *arrival)
    }
}
