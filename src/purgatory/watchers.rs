//! Who waits for which key: one FIFO queue a key, one link for each key of each wait.

use std::collections::HashMap;
use std::hash::Hash;

use rustc_hash::FxBuildHasher;
use slab::Slab;

/// No link: the end of a wait's chain of links, or of the list of free links.
pub(super) const NO_LINK: u32 = u32::MAX;
/// In `prev` and `next`: the neighbour is the end of the queue whose number is in the other bits.
const END: u32 = 1 << 31;

/// The queues by key. A queue exists as long as something waits for its key.
#[derive(Clone, Debug)]
pub(super) struct Watchers<K> {
    numbers: HashMap<K, u32, FxBuildHasher>,
    queues: Slab<Queue<K>>,
    links: Vec<Link>,
    /// The first free link; free links are chained by `sibling`.
    free: u32,
}

#[derive(Clone, Debug)]
struct Queue<K> {
    key: K,
    head: u32,
    tail: u32,
}

/// A wait's place in the queue of one of its keys.
#[derive(Clone, Copy, Debug)]
struct Link {
    wait: u32,
    /// The link of the same wait in the queue of its next key.
    sibling: u32,
    prev: u32,
    next: u32,
}

impl<K> Default for Watchers<K> {
    fn default() -> Self {
        Watchers { numbers: HashMap::default(), queues: Slab::new(), links: Vec::new(), free: NO_LINK }
    }
}

impl<K: Clone + Eq + Hash> Watchers<K> {
    /// Puts `wait` at the end of the queue of each key, once a key. Returns the first of its links, for
    /// [`unwatch`](Self::unwatch), and how many there are.
    pub fn watch(&mut self, wait: u32, keys: impl IntoIterator<Item = K>) -> (u32, u32) {
        let (mut first, mut last, mut count) = (NO_LINK, NO_LINK, 0);
        for key in keys {
            let number = match self.numbers.entry(key) {
                std::collections::hash_map::Entry::Occupied(entry) => *entry.get(),
                std::collections::hash_map::Entry::Vacant(entry) => {
                    let queue = Queue { key: entry.key().clone(), head: NO_LINK, tail: NO_LINK };
                    let number = u32::try_from(self.queues.insert(queue)).expect("fewer than 2^31 keys");
                    *entry.insert(number)
                }
            };
            let tail = self.queues[number as usize].tail;
            if tail != NO_LINK && self.links[tail as usize].wait == wait {
                continue; // The same key again: this wait was the last that came to the queue.
            }
            let link = self.append(number, wait);
            if last == NO_LINK {
                first = link;
            } else {
                self.links[last as usize].sibling = link;
            }
            last = link;
            count += 1;
        }
        (first, count)
    }

    /// Takes a wait out of all its queues, and returns how many that were.
    pub fn unwatch(&mut self, first: u32) -> u32 {
        let (mut link, mut count) = (first, 0);
        while link != NO_LINK {
            let Link { prev, next, sibling, .. } = self.links[link as usize];
            self.unlink(prev, next);
            self.links[link as usize].sibling = std::mem::replace(&mut self.free, link);
            link = sibling;
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
    pub fn wait_and_next(&self, link: u32) -> (u32, Option<u32>) {
        let Link { wait, next, .. } = self.links[link as usize];
        (wait, (next & END == 0).then_some(next))
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

    fn append(&mut self, number: u32, wait: u32) -> u32 {
        let end = END | number;
        let mut link = Link { wait, sibling: NO_LINK, prev: end, next: end };
        let queue = &mut self.queues[number as usize];
        let index = if self.free == NO_LINK { self.links.len() as u32 } else { self.free };
        assert!(index < END, "fewer than 2^31 links");
        let tail = std::mem::replace(&mut queue.tail, index);
        if tail == NO_LINK {
            queue.head = index;
        } else {
            link.prev = tail;
            self.links[tail as usize].next = index;
        }
        if self.free == NO_LINK {
            self.links.push(link);
        } else {
            self.free = std::mem::replace(&mut self.links[index as usize], link).sibling;
        }
        index
    }

    /// Closes the gap that a link with these neighbours leaves; a queue that becomes empty goes.
    fn unlink(&mut self, prev: u32, next: u32) {
        if prev & next & END != 0 {
            let queue = self.queues.remove((prev & !END) as usize);
            self.numbers.remove(&queue.key);
            return;
        }
        if prev & END == 0 {
            self.links[prev as usize].next = next;
        } else {
            self.queues[(prev & !END) as usize].head = next;
        }
        if next & END == 0 {
            self.links[next as usize].prev = prev;
        } else {
            self.queues[(next & !END) as usize].tail = prev;
        }
    }
}
