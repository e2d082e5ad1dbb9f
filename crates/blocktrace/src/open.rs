//! Open items of a trace by key, in the order in which they came: see [`Open`].

/// No item.
const NONE: u32 = u32::MAX;
/// Places of an empty table; a power of two.
const PLACES: usize = 64;
/// A key's place is the upper bits of its product with this number (the golden ratio).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy)]
struct Place {
    key: u64,
    /// The oldest item with the key; `NONE`: the place is empty.
    oldest: u32,
}

struct Slot<T> {
    item: T,
    /// The next item with the same key; of an unused slot, the next unused one.
    next: u32,
}

/// Items by key, oldest first. An item stays where it was put until it is removed, and an unused
/// slot is used again first: the slots of the few items that are open at once stay in the cache.
pub struct Open<T> {
    /// A hash table with linear probing, at most half full. Its length is a power of two.
    places: Vec<Place>,
    /// 64 less the binary logarithm of the number of places.
    shift: u32,
    keys: usize,
    slots: Vec<Slot<T>>,
    unused: u32,
    len: usize,
}

/// Where an item is, until the next change.
#[derive(Clone, Copy)]
pub struct At {
    place: usize,
    before: u32,
    slot: u32,
}

impl<T> Default for Open<T> {
    fn default() -> Open<T> {
        Open {
            places: places(PLACES),
            shift: shift(PLACES),
            keys: 0,
            slots: Vec::new(),
            unused: NONE,
            len: 0,
        }
    }
}

fn shift(places: usize) -> u32 {
    64 - places.trailing_zeros()
}

fn places(count: usize) -> Vec<Place> {
    vec![Place { key: 0, oldest: NONE }; count]
}

impl<T: Clone + Default> Open<T> {
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        (key.wrapping_mul(SPREAD) >> self.shift) as usize
    }

    /// Return the place of a key, or the empty one where it would be.
    #[inline]
    fn place(&self, key: u64) -> usize {
        let mask = self.places.len() - 1;
        let mut at = self.home(key) & mask;
        while self.places[at].oldest != NONE && self.places[at].key != key {
            at = (at + 1) & mask;
        }
        at
    }

    /// Add an item; return true if others are open at that key.
    #[inline(always)]
    pub fn add(&mut self, key: u64, item: T) -> bool {
        let (slot, others) = self.put(key);
        *slot = item;
        others
    }

    /// Add an item that the caller must set, since it is some earlier one. Return it, and whether
    /// others are open at that key.
    #[inline(always)]
    pub fn put(&mut self, key: u64) -> (&mut T, bool) {
        let slot = self.slot();
        self.len += 1;
        let place = self.place(key);
        let oldest = self.places[place].oldest;
        if oldest == NONE {
            self.places[place] = Place { key, oldest: slot };
            self.keys += 1;
            if 2 * self.keys > self.places.len() {
                self.grow();
            }
        } else {
            self.append(oldest, slot);
        }
        (&mut self.slots[slot as usize].item, oldest != NONE)
    }

    #[inline]
    fn slot(&mut self) -> u32 {
        match self.slots.get_mut(self.unused as usize) {
            Some(slot) => {
                let next = std::mem::replace(&mut slot.next, NONE);
                std::mem::replace(&mut self.unused, next)
            }
            None => self.new_slot(),
        }
    }

    #[cold]
    fn new_slot(&mut self) -> u32 {
        self.slots.push(Slot { item: T::default(), next: NONE });
        (self.slots.len() - 1) as u32
    }

    #[cold]
    fn append(&mut self, oldest: u32, slot: u32) {
        let last = self.last(oldest);
        self.slots[last as usize].next = slot;
    }

    fn last(&self, mut slot: u32) -> u32 {
        while self.slots[slot as usize].next != NONE {
            slot = self.slots[slot as usize].next;
        }
        slot
    }

    #[cold]
    fn grow(&mut self) {
        let bigger = places(2 * self.places.len());
        self.shift = shift(bigger.len());
        let before = std::mem::replace(&mut self.places, bigger);
        for place in before.into_iter().filter(|place| place.oldest != NONE) {
            let at = self.place(place.key);
            self.places[at] = place;
        }
    }

    /// Find the oldest matching item at a key.
    #[inline(always)] // else the result goes through memory, which takes longer than the search
    pub fn find(&self, key: u64, fits: impl Fn(&T) -> bool) -> Option<At> {
        let place = self.place(key);
        let (mut slot, mut before) = (self.places[place].oldest, NONE);
        while let Some(Slot { item, next }) = self.slots.get(slot as usize) {
            if fits(item) {
                return Some(At { place, before, slot });
            }
            (before, slot) = (slot, *next);
        }
        None
    }

    #[inline]
    pub fn get(&self, at: At) -> &T {
        &self.slots[at.slot as usize].item
    }

    #[inline(always)]
    pub fn remove(&mut self, at: At) {
        self.len -= 1;
        let slot = &mut self.slots[at.slot as usize];
        let next = std::mem::replace(&mut slot.next, self.unused);
        self.unused = at.slot;
        if at.before != NONE {
            self.slots[at.before as usize].next = next;
        } else if next != NONE {
            self.places[at.place].oldest = next;
        } else {
            self.clear(at.place);
        }
    }

    /// Empty a place, and move back those behind it whose keys belong before it.
    #[inline]
    fn clear(&mut self, place: usize) {
        self.keys -= 1;
        let mask = self.places.len() - 1;
        let (mut hole, mut at) = (place, place);
        loop {
            at = (at + 1) & mask;
            let Place { key, oldest } = self.places[at];
            if oldest == NONE {
                break;
            }
            let from_home = at.wrapping_sub(self.home(key)) & mask;
            if from_home >= at.wrapping_sub(hole) & mask {
                self.places[hole] = self.places[at];
                hole = at;
            }
        }
        self.places[hole].oldest = NONE;
    }

    /// Remove and return the oldest matching item at a key.
    #[inline(always)]
    pub fn take(&mut self, key: u64, fits: impl Fn(&T) -> bool) -> Option<T> {
        let at = self.find(key, fits)?;
        let item = self.get(at).clone();
        self.remove(at);
        Some(item)
    }

    /// Remove and return the matching items at a key, oldest first.
    #[cold]
    pub fn weed(&mut self, key: u64, goes: impl Fn(&T) -> bool) -> Vec<T> {
        let mut gone = Vec::new();
        while let Some(item) = self.take(key, &goes) {
            gone.push(item);
        }
        gone
    }

    /// Remove the matching items of all keys, and pass them to `gone`.
    #[cold]
    pub fn forget(&mut self, goes: impl Fn(&T) -> bool, mut gone: impl FnMut(T)) {
        let before = std::mem::take(self);
        for place in before.places {
            let mut slot = place.oldest;
            while let Some(Slot { item, next }) = before.slots.get(slot as usize) {
                if goes(item) {
                    gone(item.clone());
                } else {
                    self.add(place.key, item.clone());
                }
                slot = *next;
            }
        }
    }

    pub fn oldest(&self, key: u64) -> Option<&T> {
        self.slots.get(self.places[self.place(key)].oldest as usize).map(|slot| &slot.item)
    }

    pub fn newest(&mut self, key: u64) -> Option<&mut T> {
        let oldest = self.places[self.place(key)].oldest;
        if oldest == NONE {
            return None;
        }
        let last = self.last(oldest);
        Some(&mut self.slots[last as usize].item)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Debug)]
    enum Step {
        Add(u64),
        Take(u64, u32),
        Weed(u64, u32),
        Forget(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        // Few keys, and keys that hash alike: lists and clusters of places.
        let key = prop_oneof![0u64..8, (0u64..200).prop_map(|key| key << 40), 0u64..400];
        (0u8..20, key, 0u32..5).prop_map(|(kind, key, rest)| match kind {
            0..=10 => Step::Add(key),
            11..=17 => Step::Take(key, rest),
            18 => Step::Weed(key, rest),
            _ => Step::Forget(rest),
        })
    }

    proptest! {
        /// The same as lists in a map.
        #[test]
        fn items_are_found_in_their_order(steps in prop::collection::vec(step(), 0..600)) {
            let (mut open, mut plain) = (Open::default(), BTreeMap::<u64, Vec<u32>>::new());
            for (number, step) in steps.into_iter().enumerate() {
                let number = number as u32;
                match step {
                    Step::Add(key) => {
                        let list = plain.entry(key).or_default();
                        prop_assert_eq!(open.add(key, number), !list.is_empty());
                        list.push(number);
                    }
                    Step::Take(key, rest) => {
                        let list = plain.entry(key).or_default();
                        let at = list.iter().position(|item| item % 5 >= rest);
                        prop_assert_eq!(
                            open.take(key, |item| item % 5 >= rest),
                            at.map(|at| list.remove(at))
                        );
                    }
                    Step::Weed(key, rest) => {
                        let list = plain.entry(key).or_default();
                        let (gone, kept): (Vec<u32>, _) =
                            list.drain(..).partition(|item| item % 5 == rest);
                        *list = kept;
                        prop_assert_eq!(open.weed(key, |item| item % 5 == rest), gone);
                    }
                    Step::Forget(rest) => {
                        let (mut gone, mut lost) = (Vec::new(), Vec::<u32>::new());
                        open.forget(|item| item % 5 == rest, |item| gone.push(item));
                        for list in plain.values_mut() {
                            lost.extend(list.iter().filter(|item| *item % 5 == rest));
                            list.retain(|item| item % 5 != rest);
                        }
                        gone.sort_unstable();
                        lost.sort_unstable();
                        prop_assert_eq!(gone, lost);
                    }
                }
                prop_assert_eq!(open.len(), plain.values().map(Vec::len).sum::<usize>());
            }
            for (key, list) in &plain {
                prop_assert_eq!(open.oldest(*key), list.first());
                prop_assert_eq!(open.newest(*key).copied(), list.last().copied());
            }
        }
    }
}
