//! A slab that never moves what is in it: it grows by a page, so that nobody waits while a million entries are copied,
//! and that each entry can be aligned to cache lines without a padded copy at every growth.

use super::far;

/// Entries in a page.
const PAGE: usize = 1024;
/// So many insertions before one its place is fetched from memory.
const AHEAD: usize = 8;

/// Entries by dense `u32` keys, which are used again.
#[derive(Clone, Debug)]
pub(super) struct Slots<T> {
    /// Each full but the last, and none with room for more than [`PAGE`].
    pages: Vec<Vec<Option<T>>>,
    /// The keys that are free again; the last is the next one to be used.
    free: Vec<u32>,
    len: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { pages: Vec::new(), free: Vec::new(), len: 0 }
    }
}

impl<T> Slots<T> {
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many entries there have been at the same time.
    pub fn most(&self) -> usize {
        self.len + self.free.len()
    }

    /// The key that [`insert`](Self::insert) uses next.
    pub fn next_key(&self) -> u32 {
        self.free.last().copied().unwrap_or(self.len as u32)
    }

    /// Adds an entry, under [`next_key`](Self::next_key).
    #[inline(always)]
    pub fn insert(&mut self, entry: T) -> &mut T {
        let key = match self.free.pop() {
            Some(key) => key as usize,
            None => self.add_place(),
        };
        if let Some(&later) = self.free.get(self.free.len().wrapping_sub(AHEAD)) {
            self.fetch(later);
        }
        self.len += 1;
        self.pages[key / PAGE][key % PAGE].insert(entry)
    }

    fn add_place(&mut self) -> usize {
        if self.len.is_multiple_of(PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        if let Some(last) = self.pages.last_mut() {
            last.push(None);
        }
        self.len
    }

    /// Takes an entry out.
    #[inline]
    pub fn remove(&mut self, key: u32) -> Option<T> {
        self.remove_if(key, |_| true)
    }

    /// Takes an entry out that is the one that is meant.
    #[inline(always)]
    pub fn remove_if(&mut self, key: u32, is_meant: impl FnOnce(&mut T) -> bool) -> Option<T> {
        let entry = self.place(key)?.take_if(is_meant)?;
        self.free.push(key);
        self.len -= 1;
        Some(entry)
    }

    /// The entry of a key.
    #[inline]
    pub fn get(&self, key: u32) -> Option<&T> {
        self.pages.get(key as usize / PAGE)?.get(key as usize % PAGE)?.as_ref()
    }

    /// Has the entry of a key come from memory.
    #[inline]
    pub fn fetch(&self, key: u32) {
        if let Some(place) =
            self.pages.get(key as usize / PAGE).and_then(|page| page.get(key as usize % PAGE))
        {
            far::fetch(place);
        }
    }

    /// The entry of a key, to be changed.
    #[inline]
    pub fn get_mut(&mut self, key: u32) -> Option<&mut T> {
        self.place(key)?.as_mut()
    }

    /// All entries, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(self.pages.iter().flatten()).filter_map(|(key, entry)| Some((key, entry.as_ref()?)))
    }

    #[inline]
    fn place(&mut self, key: u32) -> Option<&mut Option<T>> {
        self.pages.get_mut(key as usize / PAGE)?.get_mut(key as usize % PAGE)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Each step adds an entry, or takes one out.
        #[test]
        fn slots_do_what_a_map_does(steps in prop::collection::vec(prop::option::of(0..700usize), 0..1500)) {
            let mut slots = Slots::default();
            let mut model = BTreeMap::new();
            for (number, step) in steps.into_iter().enumerate() {
                match step.and_then(|at| model.keys().nth(at % model.len().max(1)).copied()) {
                    Some(key) => prop_assert_eq!(slots.remove(key), model.remove(&key)),
                    None => {
                        let next = slots.next_key();
                        prop_assert_eq!(*slots.insert(number), number);
                        prop_assert_eq!(model.insert(next, number), None);
                    }
                }
                prop_assert_eq!(slots.len(), model.len());
                prop_assert_eq!(slots.is_empty(), model.is_empty());
            }
            prop_assert!(slots.iter().eq(model.iter().map(|(key, number)| (*key, number))));
            prop_assert!((0..2000).all(|key| slots.get(key) == model.get(&key)));
            let most = slots.most() as u32;
            prop_assert_eq!((slots.get(most).copied(), slots.remove(most)), (None, None));
        }
    }

    #[test]
    fn keys_are_used_again_and_entries_stay_where_they_are() {
        let mut slots = Slots::default();
        let insert = |slots: &mut Slots<usize>, number| {
            let key = slots.next_key();
            slots.insert(number);
            key as usize
        };
        (0..3 * PAGE).for_each(|number| assert_eq!(insert(&mut slots, number), number));
        let first = std::ptr::from_ref(slots.get(0).expect("it is there"));
        (3 * PAGE..103 * PAGE).for_each(|number| assert_eq!(insert(&mut slots, number), number));
        assert_eq!(std::ptr::from_ref(slots.get(0).expect("it is there")), first);
        assert_eq!((slots.remove_if(7, |number| *number != 7), slots.get(7)), (None, Some(&7)));
        assert_eq!((slots.remove(7), slots.remove(7), slots.remove(9)), (Some(7), None, Some(9)));
        assert_eq!((insert(&mut slots, 0), insert(&mut slots, 0), slots.most()), (9, 7, 103 * PAGE));
    }
}
