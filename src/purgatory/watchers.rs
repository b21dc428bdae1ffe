//! Who waits for which key: one FIFO queue a key, which has one item for each wait.

use std::hash::{BuildHasher, Hash};
use std::num::NonZeroU64;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxBuildHasher;
use slab::Slab;

use super::lists::{Chunk, List, Lists, NONE};

/// So many places a wait keeps itself. Those of further keys, of fetches that wait for many partitions, are chained.
const INLINE: usize = 3;

/// The queues by key. A queue exists as long as something waits for its key.
#[derive(Clone, Debug)]
pub(super) struct Watchers<K> {
    /// Where in `queues` the queue of a key is, by the key's hash: the key itself is there alone.
    numbers: HashTable<u32>,
    queues: Slab<Queue<K>>,
    /// Of the queues, by their number.
    lists: Lists,
    further: Slab<Further>,
}

#[derive(Clone, Debug)]
struct Queue<K> {
    key: K,
    list: List,
    /// The serial number of the wait that came last, even if it has left since.
    newest: u64,
}

#[derive(Clone, Copy, Debug)]
struct Further {
    place: u32,
    /// That of the same wait before this one, if there is one.
    before: u32,
}

/// What a wait must keep to leave its queues again: its places in them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watching {
    inline: [u32; INLINE],
    /// The last of its further ones.
    further: u32,
}

impl Watching {
    pub const NOTHING: Watching = Watching { inline: [NONE; INLINE], further: NONE };
}

impl<K> Default for Watchers<K> {
    fn default() -> Self {
        Watchers {
            numbers: HashTable::new(),
            queues: Slab::new(),
            lists: Lists::default(),
            further: Slab::new(),
        }
    }
}

impl<K: Eq + Hash> Watchers<K> {
    /// Puts `wait` at the end of the queue of each key, once a key, and its places into `watching`, which is
    /// [`NOTHING`](Watching::NOTHING) before. Returns the number of keys.
    #[inline]
    pub fn watch(
        &mut self,
        watching: &mut Watching,
        serial: NonZeroU64,
        wait: u32,
        keys: impl IntoIterator<Item = K>,
    ) -> u32 {
        let mut count = 0;
        for key in keys {
            let number = self.queue_number(key);
            let queue = &mut self.queues[number as usize];
            // If the same key came before, this wait was the last that came to the queue.
            if std::mem::replace(&mut queue.newest, serial.get()) == serial.get() {
                continue;
            }
            let place = self.lists.push(&mut queue.list, number, wait);
            match watching.inline.get_mut(count as usize) {
                Some(inline) => *inline = place,
                None => {
                    watching.further =
                        self.further.insert(Further { place, before: watching.further }) as u32;
                }
            }
            count += 1;
        }
        count
    }

    /// Takes a wait out of all its queues, and returns how many that were.
    pub fn unwatch(&mut self, watching: Watching) -> u32 {
        let mut count = 0;
        for place in watching.inline {
            if place != NONE {
                self.remove(place);
                count += 1;
            }
        }
        let mut further = watching.further;
        while further != NONE {
            let Further { place, before } = self.further.remove(further as usize);
            self.remove(place);
            further = before;
            count += 1;
        }
        count
    }

    /// A key's queue, if somebody waits for it.
    pub fn queue(&self, key: &K) -> Option<&List> {
        let is_it = |number: &u32| self.queues[*number as usize].key == *key;
        let number = *self.numbers.find(FxBuildHasher.hash_one(key), is_it)?;
        Some(&self.queues[number as usize].list)
    }

    /// A chunk of a queue.
    pub fn chunk(&self, number: u32) -> &Chunk {
        self.lists.chunk(number)
    }

    /// How many keys are waited for.
    pub fn key_count(&self) -> usize {
        self.queues.len()
    }

    /// Has the places come from memory that [`unwatch`](Self::unwatch) will leave.
    pub fn fetch(&self, watching: Watching) {
        watching.inline.into_iter().for_each(|place| self.lists.fetch(place));
    }

    /// Gives memory back that only an earlier, larger number of waits needed; there must be none now.
    pub fn shrink(&mut self) {
        debug_assert!(self.queues.is_empty());
        *self = Self::default();
    }

    /// The number of a key's queue, which is made if it isn't there.
    #[inline]
    fn queue_number(&mut self, key: K) -> u32 {
        let queues = &mut self.queues;
        let hash = FxBuildHasher.hash_one(&key);
        let hash_of = |number: &u32| FxBuildHasher.hash_one(&queues[*number as usize].key);
        match self.numbers.entry(hash, |number| queues[*number as usize].key == key, hash_of) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                // No more than there are items, which are fewer than 2^30.
                let number = queues.insert(Queue { key, list: List::EMPTY, newest: 0 }) as u32;
                entry.insert(number);
                number
            }
        }
    }

    /// Takes out what is at a place; a queue that becomes empty goes.
    fn remove(&mut self, place: u32) {
        let queues = &mut self.queues;
        if let Some(number) = self.lists.remove(place, |number| &mut queues[number as usize].list) {
            let queue = self.queues.remove(number as usize);
            let hash = FxBuildHasher.hash_one(&queue.key);
            if let Ok(entry) = self.numbers.find_entry(hash, |other| *other == number) {
                entry.remove();
            }
        }
    }
}
