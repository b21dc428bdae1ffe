//! What the driver leaves for a connection's task while it waits: a reply, or the wish that it end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use super::lock;
use crate::api::Reply;
use crate::base::Instant;

/// Why a connection is ended from our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The process or the embedded broker stops: what is answered is still written.
    Shutdown,
    /// Nothing came for longer than `connections.max.idle.ms`.
    Idle,
    /// Its broker has more connections than `max.connections` allows by now.
    Excess,
    /// Its broker is down.
    BrokerDown,
    /// The client sends no more, and what it asked is held.
    ClientGone,
    /// The cluster wants it, for this reason.
    Refused(&'static str),
    /// A handler panicked.
    Panicked,
}

/// What a waiting connection is woken with.
#[derive(Debug)]
pub(crate) enum Delivery {
    Reply(Reply),
    End(Ending),
}

/// One connection's slot. A connection has one request at a time, so one place for a reply is enough.
#[derive(Debug)]
pub(crate) struct Mailbox {
    slot: Mutex<Slot>,
    /// When the connection last did something, in nanoseconds on the driver's clock; `u64::MAX` while a request
    /// of its is being answered, which is never idle.
    active: AtomicU64,
    /// Whether it keeps a large buffer for the next request.
    keeps_buffer: AtomicBool,
    /// Whether it is asked to give that up.
    trim: AtomicBool,
}

#[derive(Debug, Default)]
struct Slot {
    reply: Option<Reply>,
    ending: Option<Ending>,
    waker: Option<Waker>,
}

impl Mailbox {
    pub(crate) fn new(now: Instant) -> Self {
        Mailbox {
            slot: Mutex::default(),
            active: AtomicU64::new(now.as_nanos()),
            keeps_buffer: AtomicBool::new(false),
            trim: AtomicBool::new(false),
        }
    }

    /// Leaves something; returns whom to wake, once no lock is held.
    pub(crate) fn deliver(&self, delivery: Delivery) -> Option<Waker> {
        let mut slot = lock(&self.slot);
        match delivery {
            Delivery::Reply(reply) => slot.reply = Some(reply),
            Delivery::End(ending) => slot.ending = slot.ending.or(Some(ending)),
        }
        slot.waker.take()
    }

    /// Waits for the reply to the request in flight, or an ending if no reply is there.
    pub(crate) fn poll_delivery(&self, context: &mut Context<'_>) -> Poll<Delivery> {
        let mut slot = lock(&self.slot);
        if let Some(reply) = slot.reply.take() {
            return Poll::Ready(Delivery::Reply(reply));
        }
        slot.poll_ending(context).map(Delivery::End)
    }

    /// Waits for an ending alone: between requests.
    pub(crate) fn poll_ending(&self, context: &mut Context<'_>) -> Poll<Ending> {
        lock(&self.slot).poll_ending(context)
    }

    /// The connection did something, and waits for its client.
    pub(crate) fn note_active(&self, now: Instant) {
        self.active.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// The connection waits for us.
    pub(crate) fn note_waiting(&self) {
        self.active.store(u64::MAX, Ordering::Relaxed);
    }

    /// The connection waits for its client's next request, with or without a large buffer.
    pub(crate) fn note_buffer(&self, keeps: bool) {
        self.keeps_buffer.store(keeps, Ordering::Relaxed);
    }

    /// Asks for the buffer back, if one is kept; returns whom to wake.
    pub(crate) fn ask_to_trim(&self) -> Option<Waker> {
        if !self.keeps_buffer.load(Ordering::Relaxed) {
            return None;
        }
        self.trim.store(true, Ordering::Relaxed);
        lock(&self.slot).waker.take()
    }

    /// Whether the buffer is asked for; then it is no longer.
    pub(crate) fn takes_trim(&self) -> bool {
        self.trim.load(Ordering::Relaxed) && self.trim.swap(false, Ordering::Relaxed)
    }

    /// When the connection last did something; [`Instant::NEVER`] while it waits for us.
    pub(crate) fn active(&self) -> Instant {
        Instant::from_nanos(self.active.load(Ordering::Relaxed))
    }
}

impl Slot {
    fn poll_ending(&mut self, context: &mut Context<'_>) -> Poll<Ending> {
        if let Some(ending) = self.ending {
            return Poll::Ready(ending);
        }
        match &mut self.waker {
            Some(waker) => waker.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_keeps_a_buffer_is_asked_for_it() {
        let mailbox = Mailbox::new(Instant::ZERO);
        let mut context = Context::from_waker(Waker::noop());
        assert!(mailbox.poll_ending(&mut context).is_pending());
        assert!(mailbox.ask_to_trim().is_none());
        assert!(!mailbox.takes_trim());
        mailbox.note_buffer(true);
        assert!(mailbox.ask_to_trim().is_some(), "it must be woken");
        assert!(mailbox.takes_trim());
        assert!(!mailbox.takes_trim(), "once is enough");
    }

    #[test]
    fn a_reply_comes_before_an_ending_and_the_first_ending_counts() {
        let mailbox = Mailbox::new(Instant::ZERO);
        let mut context = Context::from_waker(Waker::noop());
        assert!(mailbox.poll_delivery(&mut context).is_pending());
        let reply =
            Reply { connection: crate::base::ConnectionId(1), correlation_id: 5, version: 0, response: None };
        assert!(mailbox.deliver(Delivery::End(Ending::Shutdown)).is_some());
        assert!(mailbox.deliver(Delivery::End(Ending::Idle)).is_none(), "nobody waits any more");
        assert!(mailbox.deliver(Delivery::Reply(reply)).is_none());
        let mut delivered = || match mailbox.poll_delivery(&mut context) {
            Poll::Ready(Delivery::Reply(reply)) => Ok(reply.correlation_id),
            Poll::Ready(Delivery::End(ending)) => Err(ending),
            Poll::Pending => panic!("nothing there"),
        };
        assert_eq!(delivered(), Ok(5));
        assert_eq!(delivered(), Err(Ending::Shutdown));
    }
}
