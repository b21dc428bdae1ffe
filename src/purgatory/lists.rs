//! Many first-in-first-out lists of `u32`, each a few items of its own and then a chain of chunks of two cache lines.
//!
//! An item has a *place* that stays the same for as long as it is in its list, so that it can be taken out in O(1) from
//! anywhere. With very many items the cost of everything is that of memory far away: going through a list costs one such
//! access for two dozen items, and taking one out touches no other item. A short list needs no chunk.

use super::far;

/// No chunk, no item, no place.
pub(super) const NONE: u32 = u32::MAX;
/// Items in a chunk, as many as fit into 128 bytes.
const ITEMS: usize = 28;
/// In the place of an item in a chunk: the bits of the index within it. The others are the chunk's number.
const INDEX_BITS: u32 = 5;
/// Chunks in a page. Pages are not moved when there are more of them, which would take long.
const PAGE: usize = 32;
/// So many first items a list has itself.
const OWN: usize = 2;
/// In a place: it is one of a list's own, the index is in the lowest bit, and the list's number in the others.
const OWN_BIT: u32 = 1 << 31;

/// The chunks of all lists.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    pages: Vec<Box<[Chunk; PAGE]>>,
    /// How many chunks of the pages have been in use.
    used: u32,
    /// The first chunk that is in no list; its `next` is the next one.
    free: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub(super) struct Chunk {
    prev: u32,
    next: u32,
    /// The number by which the owner knows the list.
    list: u32,
    /// A bit for each of `items` that is there: none in free chunks only. The others were taken out, or are free at the
    /// end.
    live: u32,
    items: [u32; ITEMS],
}

/// One list, which its owner keeps under a number below 2^30.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    /// The first items, before those in chunks; `NONE` where there is none, or none any more.
    own: [u32; OWN],
    /// The first and the last chunk.
    head: u32,
    tail: u32,
}

impl List {
    pub const EMPTY: List = List { own: [NONE; OWN], head: NONE, tail: NONE };

    pub fn is_empty(&self) -> bool {
        self.head == NONE && self.own == [NONE; OWN]
    }

    /// The items that are in no chunk.
    pub fn own(&self) -> impl Iterator<Item = u32> + use<> {
        self.own.into_iter().filter(|&item| item != NONE)
    }

    /// Takes the items out that are in no chunk.
    pub fn take_own(&mut self) -> impl Iterator<Item = u32> + use<> {
        let own = self.own();
        self.own = Self::EMPTY.own;
        own
    }

    /// The first chunk.
    pub fn head(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Where the next item goes, if not into a chunk.
    fn free_own(&self) -> Option<usize> {
        if self.head != NONE || self.own[OWN - 1] != NONE {
            return None;
        }
        Some(self.own.iter().rposition(|&item| item != NONE).map_or(0, |last| last + 1))
    }
}

impl Chunk {
    const UNUSED: Chunk = Chunk { items: [NONE; ITEMS], prev: NONE, next: NONE, list: NONE, live: 0 };

    /// The items, in their order.
    pub fn items(&self) -> impl Iterator<Item = u32> + Clone + '_ {
        let mut live = self.live;
        std::iter::from_fn(move || {
            let index = live.trailing_zeros() as usize;
            // The lowest bit is taken away.
            live &= live.wrapping_sub(1);
            self.items.get(index).copied()
        })
    }

    /// Where the next item goes: behind the last one.
    fn end(&self) -> u32 {
        u32::BITS - self.live.leading_zeros()
    }

    /// The chunk behind this one.
    pub fn next(&self) -> Option<u32> {
        (self.next != NONE).then_some(self.next)
    }
}

impl Default for Lists {
    fn default() -> Self {
        Lists { pages: Vec::new(), used: 0, free: NONE }
    }
}

impl Lists {
    /// Adds an item to the end of a list with this number, and returns its place.
    #[inline]
    pub fn push(&mut self, list: &mut List, number: u32, item: u32) -> u32 {
        if let Some(index) = list.free_own() {
            list.own[index] = item;
            return OWN_BIT | number << 1 | index as u32;
        }
        let tail = match self.get_mut(list.tail) {
            Some(tail) if (tail.end() as usize) < ITEMS => tail,
            _ => self.add_chunk(list, number),
        };
        let index = tail.end();
        tail.items[index as usize] = item;
        tail.live |= 1 << index;
        list.tail << INDEX_BITS | index
    }

    /// Takes the item at a place out of its list, which the owner knows by its number. Returns that number if the list
    /// has become empty.
    #[inline]
    pub fn remove<'a>(&mut self, place: u32, list: impl FnOnce(u32) -> &'a mut List) -> Option<u32> {
        if place & OWN_BIT != 0 {
            let number = (place & !OWN_BIT) >> 1;
            let list = list(number);
            list.own[place as usize % OWN] = NONE;
            return list.is_empty().then_some(number);
        }
        let chunk = self.get_mut(place >> INDEX_BITS)?;
        chunk.live &= !(1 << (place & ((1 << INDEX_BITS) - 1)));
        if chunk.live != 0 {
            return None;
        }
        let number = chunk.list;
        let list = list(number);
        self.remove_chunk(place >> INDEX_BITS, list);
        list.is_empty().then_some(number)
    }

    /// Takes the first chunk out of a list that has no items of its own.
    pub fn pop_chunk(&mut self, list: &mut List) -> Option<Chunk> {
        let number = list.head()?;
        let chunk = *self.chunk(number);
        self.remove_chunk(number, list);
        Some(chunk)
    }

    #[inline(never)]
    fn remove_chunk(&mut self, number: u32, list: &mut List) {
        let Chunk { prev, next, .. } = *self.chunk(number);
        self.free(number);
        match self.get_mut(prev) {
            Some(prev) => prev.next = next,
            None => list.head = next,
        }
        match self.get_mut(next) {
            Some(next) => next.prev = prev,
            None => list.tail = prev,
        }
    }

    /// The first item of a list.
    pub fn first(&self, list: &List) -> Option<u32> {
        list.own().next().or_else(|| self.chunk(list.head()?).items().next())
    }

    /// A chunk of a list.
    pub fn chunk(&self, number: u32) -> &Chunk {
        &self.pages[number as usize / PAGE][number as usize % PAGE]
    }

    /// The number of the chunk that a place is in, if it is in one.
    pub fn chunk_of(place: u32) -> Option<u32> {
        (place & OWN_BIT == 0).then_some(place >> INDEX_BITS)
    }

    fn get(&self, number: u32) -> Option<&Chunk> {
        self.pages.get(number as usize / PAGE).map(|page| &page[number as usize % PAGE])
    }

    fn get_mut(&mut self, number: u32) -> Option<&mut Chunk> {
        self.pages.get_mut(number as usize / PAGE).map(|page| &mut page[number as usize % PAGE])
    }

    /// Has that part of the chunk that a place is in come from memory which [`remove`](Self::remove) changes.
    #[inline]
    pub fn fetch(&self, place: u32) {
        if let Some(chunk) = self.get(place >> INDEX_BITS) {
            far::fetch_start(chunk);
        }
    }

    #[inline(never)]
    fn add_chunk(&mut self, list: &mut List, number: u32) -> &mut Chunk {
        let prev = list.tail;
        let chunk = Chunk { prev, list: number, ..Chunk::UNUSED };
        let number = self.free_chunk();
        match self.get_mut(prev) {
            Some(prev) => prev.next = number,
            None => list.head = number,
        }
        list.tail = number;
        let place = &mut self.pages[number as usize / PAGE][number as usize % PAGE];
        *place = chunk;
        place
    }

    fn free_chunk(&mut self) -> u32 {
        if let Some(&Chunk { next, .. }) = self.get(self.free) {
            return std::mem::replace(&mut self.free, next);
        }
        if self.used as usize == self.pages.len() * PAGE {
            assert!(self.used < OWN_BIT >> INDEX_BITS, "fewer than 2^27 chunks");
            self.pages.push(Box::new([Chunk::UNUSED; PAGE]));
        }
        self.used += 1;
        self.used - 1
    }

    fn free(&mut self, number: u32) {
        let next = self.free;
        if let Some(chunk) = self.get_mut(number) {
            chunk.next = next;
            self.free = number;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    fn items(lists: &Lists, list: &List) -> Vec<u32> {
        let mut items: Vec<u32> = list.own().collect();
        let mut next = list.head();
        while let Some(number) = next {
            items.extend(lists.chunk(number).items());
            next = lists.chunk(number).next();
        }
        items
    }

    fn remove(lists: &mut Lists, owned: &mut [List], place: u32) {
        let emptied = lists.remove(place, |number| &mut owned[number as usize]);
        assert!(emptied.is_none_or(|list| owned[list as usize].is_empty()));
    }

    #[test]
    fn a_chunk_is_two_cache_lines() {
        assert_eq!((size_of::<Chunk>(), align_of::<Chunk>()), (128, 128));
    }

    #[test]
    fn chunks_are_used_again() {
        let mut lists = Lists::default();
        let mut owned = [List::EMPTY];
        for round in 0..100 {
            let places: Vec<u32> =
                (0..OWN + 2 * ITEMS + 1).map(|item| lists.push(&mut owned[0], 0, item as u32)).collect();
            let (kept, gone) = places.split_at(round % (OWN + 2));
            gone.iter().for_each(|&place| remove(&mut lists, &mut owned, place));
            assert_eq!(items(&lists, &owned[0]), (0..kept.len() as u32).collect::<Vec<_>>());
            kept.iter().for_each(|&place| remove(&mut lists, &mut owned, place));
            assert!(owned[0].is_empty());
        }
        assert_eq!(lists.used, 3);
    }

    proptest! {
        /// Each step adds an item to a list, or takes one of its items out.
        #[test]
        fn lists_do_what_queues_do(
            steps in prop::collection::vec((0..3usize, prop::option::of(0..64usize)), 0..400),
        ) {
            let mut lists = Lists::default();
            let mut owned = [List::EMPTY; 3];
            let mut model: [VecDeque<(u32, u32)>; 3] = Default::default();
            for (item, (list, removed)) in steps.into_iter().enumerate() {
                let item = item as u32;
                match removed.filter(|_| !model[list].is_empty()) {
                    Some(at) => {
                        let at = at % model[list].len();
                        let (_, place) = model[list].remove(at).expect("it is there");
                        remove(&mut lists, &mut owned, place);
                    }
                    None => {
                        let place = lists.push(&mut owned[list], list as u32, item);
                        model[list].push_back((item, place));
                    }
                }
                let expected: Vec<u32> = model[list].iter().map(|(item, _)| *item).collect();
                prop_assert_eq!(items(&lists, &owned[list]), expected);
                prop_assert_eq!(owned[list].is_empty(), model[list].is_empty());
            }
        }
    }
}
