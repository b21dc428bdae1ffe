//! What the driver leaves for a connection's task while it waits: a reply, or the wish that it end.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
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
}

#[derive(Debug, Default)]
struct Slot {
    reply: Option<Reply>,
    ending: Option<Ending>,
    waker: Option<Waker>,
}

impl Mailbox {
    pub(crate) fn new(now: Instant) -> Self {
        Mailbox { slot: Mutex::default(), active: AtomicU64::new(now.as_nanos()) }
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
