//! Who waits for which key: one FIFO queue a key, one link for each key of each wait.
//!
//! Links are intrusive list nodes by number. The links of a wait's first two keys have their numbers from the wait's,
//! so that they are found without reading anything: with many waits the cost of everything here is that of memory far
//! away. Further links, of fetches that wait for many partitions, are chained.

use std::collections::hash_map::Entry;
use std::hash::Hash;
use std::num::NonZeroU64;

use rustc_hash::FxHashMap;
use slab::Slab;

/// Links of a wait that have their numbers from the wait's.
const INLINE: usize = 2;
/// In a link's number: it is one of `further`.
const FURTHER: u32 = 1 << 30;
/// In `prev` and `next`: the neighbour is the end of the queue whose number is in the other bits.
const END: u32 = 1 << 31;
/// No link.
const NONE: u32 = u32::MAX;

/// The queues by key. A queue exists as long as something waits for its key.
#[derive(Clone, Debug)]
pub(super) struct Watchers<K> {
    /// The key of its queue in `queues`.
    numbers: FxHashMap<K, u32>,
    queues: Slab<Queue<K>>,
    /// By wait: link `INLINE * wait + i` is here.
    inline: Vec<[Link; INLINE]>,
    /// Link `FURTHER | i` is here.
    further: Slab<FurtherLink>,
}

#[derive(Clone, Debug)]
struct Queue<K> {
    key: K,
    head: u32,
    tail: u32,
    /// The serial number of the wait that came last, even if it has left since.
    newest: u64,
}

/// A wait's place in the queue of one of its keys.
#[derive(Clone, Copy, Debug)]
struct Link {
    /// `NONE` if the link is not in use.
    prev: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct FurtherLink {
    link: Link,
    wait: u32,
    /// The link of the same wait in the queue of the key before this one, if that is a further one too.
    sibling: u32,
}

/// What a wait must keep to leave its queues again: the last of its further links.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watching(u32);

impl Link {
    const UNUSED: Link = Link { prev: NONE, next: NONE };
}

impl<K> Default for Watchers<K> {
    fn default() -> Self {
        Watchers {
            numbers: FxHashMap::default(),
            queues: Slab::new(),
            inline: Vec::new(),
            further: Slab::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Watchers<K> {
    /// Puts `wait` at the end of the queue of each key, once a key. Returns what [`unwatch`](Self::unwatch) needs, and
    /// the number of keys.
    pub fn watch(
        &mut self,
        serial: NonZeroU64,
        wait: u32,
        keys: impl IntoIterator<Item = K>,
    ) -> (Watching, u32) {
        assert!(wait < FURTHER / INLINE as u32, "fewer than 2^29 waits");
        if self.inline.len() <= wait as usize {
            self.inline.resize(wait as usize + 1, [Link::UNUSED; INLINE]);
        }
        let (mut last, mut count) = (NONE, 0);
        for key in keys {
            let number = self.queue_number(key);
            let queue = &mut self.queues[number as usize];
            // If the same key came before, this wait was the last that came to the queue.
            if std::mem::replace(&mut queue.newest, serial.get()) == serial.get() {
                continue;
            }
            let id = if count < INLINE {
                (INLINE as u32) * wait + count as u32
            } else {
                let index = self.further.insert(FurtherLink { link: Link::UNUSED, wait, sibling: last });
                last = FURTHER | index as u32;
                last
            };
            count += 1;
            let tail = std::mem::replace(&mut queue.tail, id);
            let prev = if tail == NONE { END | number } else { tail };
            if tail == NONE {
                queue.head = id;
            } else {
                self.link_mut(tail).next = id;
            }
            *self.link_mut(id) = Link { prev, next: END | number };
        }
        (Watching(last), count as u32)
    }

    /// Takes a wait out of all its queues, and returns how many that were.
    pub fn unwatch(&mut self, wait: u32, watching: Watching) -> u32 {
        let mut count = 0;
        for link in std::mem::replace(&mut self.inline[wait as usize], [Link::UNUSED; INLINE]) {
            if link.prev != NONE {
                self.unlink(link);
                count += 1;
            }
        }
        let mut id = watching.0;
        while id != NONE {
            let FurtherLink { link, sibling, .. } = self.further.remove((id & !FURTHER) as usize);
            self.unlink(link);
            id = sibling;
            count += 1;
        }
        count
    }

    /// The link at the head of a key's queue.
    pub fn first(&self, key: &K) -> Option<u32> {
        let number = *self.numbers.get(key)?;
        Some(self.queues[number as usize].head)
    }

    /// The wait of a link, and the link behind it in its queue.
    pub fn wait_and_next(&self, id: u32) -> (u32, Option<u32>) {
        let (wait, link) = if id & FURTHER == 0 {
            (id / INLINE as u32, &self.inline[id as usize / INLINE][id as usize % INLINE])
        } else {
            let further = &self.further[(id & !FURTHER) as usize];
            (further.wait, &further.link)
        };
        (wait, (link.next & END == 0).then_some(link.next))
    }

    /// How many keys are waited for.
    pub fn key_count(&self) -> usize {
        self.queues.len()
    }

    /// Gives memory back that only an earlier, larger number of waits needed; there must be none now.
    pub fn shrink(&mut self) {
        debug_assert!(self.queues.is_empty());
        *self = Self::default();
    }

    /// The number of a key's queue, which is made if it isn't there.
    fn queue_number(&mut self, key: K) -> u32 {
        match self.numbers.entry(key) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                let key = entry.key().clone();
                let number = self.queues.insert(Queue { key, head: NONE, tail: NONE, newest: 0 });
                assert!(number < FURTHER as usize, "fewer than 2^30 keys");
                *entry.insert(number as u32)
            }
        }
    }

    fn link_mut(&mut self, id: u32) -> &mut Link {
        if id & FURTHER == 0 {
            &mut self.inline[id as usize / INLINE][id as usize % INLINE]
        } else {
            &mut self.further[(id & !FURTHER) as usize].link
        }
    }

    /// Closes the gap that a link leaves; a queue that becomes empty goes.
    fn unlink(&mut self, Link { prev, next }: Link) {
        if prev & next & END != 0 {
            let queue = self.queues.remove((prev & !END) as usize);
            self.numbers.remove(&queue.key);
            return;
        }
        if prev & END == 0 {
            self.link_mut(prev).next = next;
        } else {
            self.queues[(prev & !END) as usize].head = next;
        }
        if next & END == 0 {
            self.link_mut(next).prev = prev;
        } else {
            self.queues[(next & !END) as usize].tail = prev;
        }
    }
}
