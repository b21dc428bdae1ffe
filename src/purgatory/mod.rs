//! Where requests wait that can't be answered yet: for a condition on some keys, or for a deadline.
//!
//! This is Kafka's `DelayedOperationPurgatory` as a plain value with one owner, so that no wait needs a lock or a
//! completed flag, and nothing stale is left to purge: a wait leaves exactly once, at once and wholly, because it is
//! *taken out* by whatever ends it (see [`Exit`]).
//!
//! It is generic over the key `K`, the wait `W` and the owner `O` who waits (a connection, say), and must know nothing
//! of Kafka's messages. What a wait needs to look at, such as a broker's replicas, is lent as a context `C` for each
//! call, made of whatever lies beside the purgatory in the struct that has both.
//!
//! The owner's rules: try first and then park ([`Purgatory::try_or_park`]); [`wake`](Purgatory::wake) a key after the
//! request that changed something was handled, not in the middle of it; call [`expire`](Purgatory::expire) when
//! [`next_deadline`](Purgatory::next_deadline) has come.

mod far;
mod lists;
mod metrics;
mod slots;
#[cfg(test)]
mod tests;
mod watchers;
mod wheel;

use std::fmt;
use std::hash::Hash;
use std::num::NonZeroU64;

use crate::base::Instant;

use lists::Chunk;
pub use metrics::{Exit, Metrics, WaitKind};
use slots::Slots;
use watchers::{Watchers, Watching};
use wheel::{NOWHERE, Timed, TimingWheel};

/// An emptied purgatory that once held more waits than this gives their memory back.
const KEPT_WAITS: usize = 4096;

/// With more waits than this, what is known of each must be fetched from memory far away.
const FAR_WAITS: usize = 4096;

/// So many waits before one is looked at, its places are fetched, and its slot so many more before.
const AHEAD: usize = 8;

/// What can wait, whatever it has to look at.
pub trait Waiting {
    /// The kinds of wait among which this is one.
    type Kind: WaitKind;

    /// The kind of this wait, which never changes.
    fn kind(&self) -> Self::Kind;
}

/// A wait as it is seen with what it has to look at, the context `C`.
pub trait Wait<C>: Waiting {
    /// What the one who waits gets in the end.
    type Reply;

    /// The reply, if what this waits for has come. It may keep in itself what it found out so far. After it returned a
    /// reply it is dropped, so that it may move that out of itself.
    /// If it panics, it stays parked and the purgatory is as before.
    fn try_complete(&mut self, context: &mut C) -> Option<Self::Reply>;

    /// The reply when the deadline came first.
    fn expire(self, context: &mut C) -> Self::Reply;

    /// The reply when a user lets this go before its time: as if the deadline had come, unless it says otherwise.
    fn release(self, context: &mut C) -> Self::Reply
    where
        Self: Sized,
    {
        self.expire(context)
    }

    /// For a person: what this waits for, and how far it is.
    fn describe(&self, context: &C) -> Description;
}

/// What a wait says of itself to a person.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// What it waits for: `orders-0, orders-1`.
    pub waits_for: String,
    /// How far it is: `bytes 120 of 1000`.
    pub progress: String,
}

/// The name of a wait: never used again within its purgatory. Ordered by when the waits were parked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WaitId {
    serial: NonZeroU64,
    slot: u32,
}

impl WaitId {
    /// The number by which a person names the wait: 1 for the first that was parked. See [`Purgatory::find`].
    pub fn serial(self) -> u64 {
        self.serial.get()
    }
}

impl fmt::Debug for WaitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WaitId({})", self.serial)
    }
}

impl fmt::Display for WaitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.serial, f)
    }
}

/// Who waits, since when and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter<O> {
    /// Who gets the reply.
    pub owner: O,
    /// When it began.
    pub since: Instant,
    /// When it ends if nothing else ends it; [`Instant::NEVER`] if it is to wait for ever. It fires in the first
    /// millisecond that does not begin before it: never early, and less than 1 ms late.
    pub deadline: Instant,
}

/// A wait that is parked.
#[derive(Debug)]
pub struct Parked<'a, W, O> {
    /// Its name.
    pub id: WaitId,
    /// Who waits, since when and until when.
    pub waiter: Waiter<O>,
    /// The wait itself.
    pub wait: &'a W,
}

/// What is left to know of a wait that was taken out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<O> {
    /// The name it had.
    pub id: WaitId,
    /// Who waited, since when and until when.
    pub waiter: Waiter<O>,
    /// Why it left.
    pub exit: Exit,
}

/// What [`Purgatory::try_or_park`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried<R> {
    /// The condition held at once; nothing was parked.
    Completed(R),
    /// It waits now.
    Parked(WaitId),
}

/// The waits of one broker.
#[derive(Clone, Debug)]
pub struct Purgatory<K, W, O> {
    slots: Slots<Slot<W, O>>,
    watchers: Watchers<K>,
    /// Of the slots.
    deadlines: TimingWheel,
    /// The serial number of the next wait.
    next_serial: NonZeroU64,
    /// By [`WaitKind::index`].
    metrics: Vec<Metrics>,
}

/// In this order and so aligned, so that all but a large wait is in one cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Slot<W, O> {
    serial: NonZeroU64,
    since: Instant,
    deadline: Instant,
    /// Of the deadline in the wheel.
    place: u32,
    watching: Watching,
    owner: O,
    wait: W,
}

impl<W, O> Timed for Slots<Slot<W, O>> {
    fn deadline(&self, key: u32) -> Instant {
        self.get(key).map_or(Instant::NEVER, |slot| slot.deadline)
    }

    fn set_place(&mut self, key: u32, place: u32) {
        if let Some(slot) = self.get_mut(key) {
            slot.place = place;
        }
    }

    fn fetch(&self, key: u32) {
        self.fetch(key);
    }
}

impl<K, W: Waiting, O> Default for Purgatory<K, W, O> {
    fn default() -> Self {
        Purgatory {
            slots: Slots::default(),
            watchers: Watchers::default(),
            deadlines: TimingWheel::new(),
            next_serial: NonZeroU64::MIN,
            metrics: vec![Metrics::default(); W::Kind::ALL.len()],
        }
    }
}

impl<K: Clone + Eq + Hash, W: Waiting, O: Copy> Purgatory<K, W, O> {
    /// A purgatory in which nothing waits.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many waits there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Tries the wait, and parks it if it doesn't complete: see [`park`](Self::park).
    pub fn try_or_park<C>(
        &mut self,
        keys: impl IntoIterator<Item = K>,
        waiter: Waiter<O>,
        mut wait: W,
        context: &mut C,
    ) -> Tried<W::Reply>
    where
        W: Wait<C>,
    {
        match wait.try_complete(context) {
            Some(reply) => Tried::Completed(reply),
            None => Tried::Parked(self.park(keys, waiter, wait)),
        }
    }

    /// Parks a wait under all its keys, behind what waits there; without keys only its deadline ends it. A deadline
    /// that has passed already (a timeout of 0) ends it at the next [`expire`](Self::expire).
    ///
    /// There is no limit here but memory (and 2^27 waits): a connection has one request in flight, so that the limit
    /// on connections is one on waits too.
    pub fn park(&mut self, keys: impl IntoIterator<Item = K>, waiter: Waiter<O>, wait: W) -> WaitId {
        let kind = wait.kind().index();
        let serial = self.next_serial;
        self.next_serial = serial.saturating_add(1);
        let Waiter { owner, since, deadline } = waiter;
        let slot = self.slots.next_key();
        assert!(slot < 1 << 27, "fewer than 2^27 waits");
        let watching = Watching::NOTHING;
        let parked =
            self.slots.insert(Slot { serial, since, deadline, place: NOWHERE, watching, owner, wait });
        let links = self.watchers.watch(&mut parked.watching, serial, slot, keys);
        parked.place = self.deadlines.schedule(since, slot, deadline);
        self.metrics[kind].enter(links);
        WaitId { serial, slot }
    }

    /// Tries every wait of a key, first come first served. Those that complete are taken out, and `on_completed` gets
    /// their replies; returns how many. Waits that are parked because of this are not visited, since they can only be
    /// parked afterwards.
    pub fn wake<C>(
        &mut self,
        key: &K,
        context: &mut C,
        mut on_completed: impl FnMut(&mut C, Departure<O>, W::Reply),
    ) -> usize
    where
        W: Wait<C>,
    {
        let Some(queue) = self.watchers.queue(key) else { return 0 };
        // A wait leaves only when it is visited, so that these stay true of the others.
        let (own, head) = (queue.own(), queue.head());
        let mut completed = 0;
        for slot in own {
            completed += usize::from(self.try_one(slot, context, &mut on_completed));
        }
        let far = self.slots.len() > FAR_WAITS;
        let mut next = head.map(|number| *self.watchers.chunk(number));
        let mut later = next.and_then(|chunk| self.chunk_behind(&chunk));
        if far {
            self.fetch_slots(next.iter().flat_map(Chunk::items));
            self.fetch_places(next.iter().flat_map(Chunk::items));
            self.fetch_slots(later.iter().flat_map(Chunk::items));
        }
        while let Some(chunk) = next {
            (next, later) = (later, later.and_then(|chunk| self.chunk_behind(&chunk)));
            if far {
                if let Some(behind) = later.as_ref().and_then(Chunk::next) {
                    far::fetch(self.watchers.chunk(behind));
                }
                self.fetch_slots(later.iter().flat_map(Chunk::items));
                self.fetch_places(next.iter().flat_map(Chunk::items));
            }
            for slot in chunk.items() {
                completed += usize::from(self.try_one(slot, context, &mut on_completed));
            }
        }
        completed
    }

    /// Returns whether it completed.
    #[inline]
    fn try_one<C>(
        &mut self,
        slot: u32,
        context: &mut C,
        on_completed: &mut impl FnMut(&mut C, Departure<O>, W::Reply),
    ) -> bool
    where
        W: Wait<C>,
    {
        let Some(reply) = self.slots.get_mut(slot).and_then(|slot| slot.wait.try_complete(context)) else {
            return false;
        };
        let Some(gone) = self.slots.remove(slot) else { return false };
        let (departure, _) = self.leave(slot, gone, Exit::Completed);
        on_completed(context, departure, reply);
        true
    }

    fn chunk_behind(&self, chunk: &Chunk) -> Option<Chunk> {
        chunk.next().map(|number| *self.watchers.chunk(number))
    }

    /// Has what is known of some waits come from memory.
    fn fetch_slots(&self, waits: impl Iterator<Item = u32>) {
        waits.for_each(|slot| self.slots.fetch(slot));
    }

    /// Has what some waits will leave come from memory: the places that their slots, which have come, tell.
    fn fetch_places(&self, waits: impl Iterator<Item = u32>) {
        for slot in waits.filter_map(|slot| self.slots.get(slot)) {
            self.watchers.fetch(slot.watching);
            self.deadlines.fetch(slot.place);
        }
    }

    /// Tries one wait; takes it out if it completes.
    pub fn retry<C>(&mut self, id: WaitId, context: &mut C) -> Option<(Departure<O>, W::Reply)>
    where
        W: Wait<C>,
    {
        let reply = self.get_mut(id)?.try_complete(context)?;
        let slot = self.slots.remove(id.slot)?;
        Some((self.leave(id.slot, slot, Exit::Completed).0, reply))
    }

    /// Takes out every wait whose deadline has come, in the order of deadlines (by millisecond; first come first
    /// served within one), and hands the replies to `on_expired`; returns how many.
    pub fn expire<C>(
        &mut self,
        now: Instant,
        context: &mut C,
        on_expired: impl FnMut(&mut C, Departure<O>, W::Reply),
    ) -> usize
    where
        W: Wait<C>,
    {
        self.expire_some(usize::MAX, now, context, on_expired)
    }

    /// As [`expire`](Self::expire), but `most` waits at most: what is left then is still due, so that
    /// [`next_deadline`](Self::next_deadline) says to call again.
    pub fn expire_some<C>(
        &mut self,
        most: usize,
        now: Instant,
        context: &mut C,
        mut on_expired: impl FnMut(&mut C, Departure<O>, W::Reply),
    ) -> usize
    where
        W: Wait<C>,
    {
        let mut expired = 0;
        while expired < most {
            let Some((departure, wait)) = self.take_expired(now) else { break };
            let reply = wait.expire(context);
            on_expired(context, departure, reply);
            expired += 1;
        }
        expired
    }

    /// Takes out the first wait whose deadline has come, for an owner who expires one by one.
    pub fn take_expired(&mut self, now: Instant) -> Option<(Departure<O>, W)> {
        let slot = self.deadlines.first_expired(&mut self.slots, now)?;
        if self.slots.len() > FAR_WAITS
            && let Some([next, later]) = self.deadlines.chunks_ahead(self.slots.get(slot)?.place)
        {
            self.fetch_slots(later.iter().flat_map(Chunk::items));
            self.fetch_places(next.iter().flat_map(Chunk::items));
        }
        let gone = self.slots.remove(slot)?;
        Some(self.leave(slot, gone, Exit::Expired))
    }

    /// When to call [`expire`](Self::expire) next; `None` if there is nothing to wait for. Exact (the earliest deadline,
    /// rounded up to a millisecond) or, after a removal or with very many waits, earlier: each such call makes progress.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.next_deadline()
    }

    /// Lets a wait go because a user said so. `None` if it has left already.
    pub fn release<C>(&mut self, id: WaitId, context: &mut C) -> Option<(Departure<O>, W::Reply)>
    where
        W: Wait<C>,
    {
        let (departure, wait) = self.take(id, Exit::Released)?;
        Some((departure, wait.release(context)))
    }

    /// Takes a wait out unanswered, because nobody waits for the reply any more. `None` if it has left already.
    pub fn remove(&mut self, id: WaitId) -> Option<(Departure<O>, W)> {
        self.take(id, Exit::Removed)
    }

    /// Takes a wait out for an owner who knows how it ends. `None` if it has left already.
    pub fn take(&mut self, id: WaitId, exit: Exit) -> Option<(Departure<O>, W)> {
        let slot = self.slots.remove_if(id.slot, |slot| slot.serial == id.serial)?;
        Some(self.leave(id.slot, slot, exit))
    }

    /// As [`take`](Self::take) for many, in their order, which costs less than one by one. Returns how many had not left
    /// already.
    pub fn take_all(
        &mut self,
        ids: &[WaitId],
        exit: Exit,
        mut on_taken: impl FnMut(Departure<O>, W),
    ) -> usize {
        let mut taken = 0;
        let far = self.slots.len() > FAR_WAITS;
        let slot_of = |id: &WaitId| id.slot;
        if far {
            self.fetch_slots(ids.iter().take(2 * AHEAD).map(slot_of));
            self.fetch_places(ids.iter().take(AHEAD).map(slot_of));
        }
        for (at, &id) in ids.iter().enumerate() {
            if far {
                self.fetch_slots(ids.get(at + 2 * AHEAD).into_iter().map(slot_of));
                self.fetch_places(ids.get(at + AHEAD).into_iter().map(slot_of));
            }
            if let Some((departure, wait)) = self.take(id, exit) {
                on_taken(departure, wait);
                taken += 1;
            }
        }
        taken
    }

    /// Gives a wait another deadline. Returns whether it still waits.
    pub fn reschedule(&mut self, now: Instant, id: WaitId, deadline: Instant) -> bool {
        let Some(slot) = self.slots.get_mut(id.slot).filter(|slot| slot.serial == id.serial) else {
            return false;
        };
        slot.deadline = deadline;
        self.deadlines.cancel(slot.place);
        slot.place = self.deadlines.schedule(now, id.slot, deadline);
        true
    }

    /// A wait that is parked.
    pub fn get(&self, id: WaitId) -> Option<Parked<'_, W, O>> {
        let slot = self.slots.get(id.slot).filter(|slot| slot.serial == id.serial)?;
        Some(self.parked(id.slot, slot))
    }

    /// A wait that is parked, to be changed. Its kind must stay.
    pub fn get_mut(&mut self, id: WaitId) -> Option<&mut W> {
        let slot = self.slots.get_mut(id.slot).filter(|slot| slot.serial == id.serial)?;
        Some(&mut slot.wait)
    }

    /// The wait that a person names by its number. O(n).
    pub fn find(&self, serial: u64) -> Option<WaitId> {
        self.iter().map(|parked| parked.id).find(|id| id.serial() == serial)
    }

    /// All waits, in an order that depends on nothing but what was done to the purgatory. Sort by id to have them
    /// in the order in which they were parked.
    pub fn iter(&self) -> impl Iterator<Item = Parked<'_, W, O>> {
        self.slots.iter().map(|(index, slot)| self.parked(index, slot))
    }

    /// The waits of a key, first come first.
    pub fn waits_on(&self, key: &K) -> impl Iterator<Item = Parked<'_, W, O>> {
        let queue = self.watchers.queue(key);
        let head = queue.and_then(|queue| queue.head()).map(|head| self.watchers.chunk(head));
        let chunks = std::iter::successors(head, |chunk| chunk.next().map(|next| self.watchers.chunk(next)));
        let own = queue.into_iter().flat_map(|queue| queue.own());
        own.chain(chunks.flat_map(Chunk::items))
            .filter_map(|slot| Some(self.parked(slot, self.slots.get(slot)?)))
    }

    /// Whether anything waits for a key.
    pub fn is_watched(&self, key: &K) -> bool {
        self.watchers.queue(key).is_some()
    }

    /// For how many keys something waits.
    pub fn key_count(&self) -> usize {
        self.watchers.key_count()
    }

    /// The metrics of one kind of wait.
    pub fn metrics(&self, kind: W::Kind) -> Metrics {
        self.metrics[kind.index()]
    }

    fn parked<'a>(&self, index: u32, slot: &'a Slot<W, O>) -> Parked<'a, W, O> {
        Parked {
            id: WaitId { serial: slot.serial, slot: index },
            waiter: Waiter { owner: slot.owner, since: slot.since, deadline: slot.deadline },
            wait: &slot.wait,
        }
    }

    /// The one way out, of what was just taken from the slots.
    #[inline]
    fn leave(&mut self, index: u32, slot: Slot<W, O>, exit: Exit) -> (Departure<O>, W) {
        let Slot { serial, since, deadline, place, watching, owner, wait } = slot;
        let links = self.watchers.unwatch(watching);
        self.deadlines.cancel(place);
        self.metrics[wait.kind().index()].leave(links, exit);
        if self.slots.is_empty() && self.slots.most() > KEPT_WAITS {
            self.slots = Slots::default();
            self.watchers.shrink();
            self.deadlines.shrink();
        }
        let waiter = Waiter { owner, since, deadline };
        (Departure { id: WaitId { serial, slot: index }, waiter, exit }, wait)
    }
}
