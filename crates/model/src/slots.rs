//! Numbers that name one kind of thing, and lists with reusable slots that they index.
//!
//! An `Id<Task>` cannot index requests, and there is no number that means "none": absence is
//! `Option<Id<Task>>`, which is no larger than the number itself.

use std::cmp::Ordering;
use std::fmt::{Debug, Formatter};
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// The number of a `T` in its list.
pub struct Id<T> {
    /// Its index plus one.
    after: NonZeroU32,
    of: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// Name the thing at `index`.
    ///
    /// # Panics
    /// If the index needs more than 32 bits, or is the last of these.
    #[inline]
    pub fn at(index: usize) -> Self {
        Self::numbered(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// As `at`, of an index of 32 bits.
    #[inline]
    pub fn numbered(index: u32) -> Self {
        let after = NonZeroU32::new(index.wrapping_add(1));
        Id { after: after.expect("a list has fewer than 2^32 - 1 entries"), of: PhantomData }
    }

    #[inline]
    pub fn index(self) -> usize {
        self.number() as usize
    }

    #[inline]
    pub fn number(self) -> u32 {
        self.after.get() - 1
    }

    /// Return the number as the tag of a request or flow; `of_tag` reverses this.
    #[inline]
    pub fn tag(self) -> u64 {
        u64::from(self.number())
    }

    /// Return the id whose tag this is.
    #[inline]
    pub fn of_tag(tag: u64) -> Self {
        Self::at(tag as usize)
    }
}

// Derived implementations would require the same of `T`.
impl<T> Clone for Id<T> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Id<T> {}

impl<T> PartialEq for Id<T> {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        self.after == other.after
    }
}

impl<T> Eq for Id<T> {}

impl<T> PartialOrd for Id<T> {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Id<T> {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.after.cmp(&other.after)
    }
}

impl<T> Hash for Id<T> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.after.hash(state);
    }
}

impl<T> Debug for Id<T> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}", self.number())
    }
}

/// Make room for `more` items, and for a quarter of those that there are, where a `Vec` doubles. Lists
/// of which a cluster has one or more for each node would be a third empty.
#[inline]
pub(crate) fn make_room<T>(list: &mut Vec<T>, more: usize) {
    if list.capacity() - list.len() < more {
        grow(list, more);
    }
}

#[cold]
fn grow<T>(list: &mut Vec<T>, more: usize) {
    list.reserve_exact(more.max(list.len() / 4).max(4));
}

/// Values in reusable slots; allocates only while it grows. The slot freed last is used first.
///
/// `Of` is the kind of the ids, if that is not the type of the values.
#[derive(Debug)]
pub struct Slab<T, Of = T> {
    items: Vec<T>,
    free: Vec<Id<Of>>,
}

impl<T, Of> Default for Slab<T, Of> {
    fn default() -> Self {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T, Of> Slab<T, Of> {
    /// Return a list of one value, without space for more.
    pub fn of(item: T) -> Self {
        Slab { items: vec![item], free: Vec::new() }
    }

    #[inline]
    pub fn insert(&mut self, item: T) -> Id<Of> {
        match self.free.pop() {
            Some(id) => {
                self.items[id.index()] = item;
                id
            }
            None => {
                let id = Id::at(self.items.len());
                make_room(&mut self.items, 1);
                self.items.push(item);
                id
            }
        }
    }

    /// Return the id that the next inserted value gets.
    #[inline]
    pub fn next_id(&self) -> Id<Of> {
        self.free.last().copied().unwrap_or_else(|| Id::at(self.items.len()))
    }

    /// Occupy a slot with the value that was in it last, so that its allocations are used again.
    #[inline]
    pub fn occupy(&mut self) -> Id<Of>
    where
        T: Default,
    {
        self.free.pop().unwrap_or_else(|| self.insert(T::default()))
    }

    /// Free a slot. Its value stays until the slot is used again.
    #[inline]
    pub fn remove(&mut self, id: Id<Of>) {
        self.free.push(id);
    }

    /// Return the ids of all slots, also of free ones.
    pub fn ids(&self) -> impl Iterator<Item = Id<Of>> {
        (0..self.items.len()).map(Id::at)
    }

    /// Return the number of occupied slots.
    pub fn occupied(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

impl<T, Of> Index<Id<Of>> for Slab<T, Of> {
    type Output = T;

    #[inline]
    fn index(&self, id: Id<Of>) -> &T {
        &self.items[id.index()]
    }
}

impl<T, Of> IndexMut<Id<Of>> for Slab<T, Of> {
    #[inline]
    fn index_mut(&mut self, id: Id<Of>) -> &mut T {
        &mut self.items[id.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_takes_no_room() {
        assert_eq!(size_of::<Option<Id<String>>>(), size_of::<u32>());
    }

    #[test]
    fn ids_have_the_order_and_the_numbers_of_their_indexes() {
        for index in [0, 1, 77, u32::MAX as usize - 1] {
            let id = Id::<String>::at(index);
            assert_eq!((id.index(), Id::of_tag(id.tag())), (index, id));
        }
        assert!(Id::<String>::at(3) < Id::at(4));
    }

    #[test]
    #[should_panic(expected = "fewer than")]
    fn the_last_number_is_not_an_index() {
        Id::<String>::at(u32::MAX as usize);
    }

    #[test]
    fn the_slot_freed_last_is_used_first() {
        let mut slab: Slab<Vec<u32>> = Slab::default();
        let ids: Vec<_> = (0..3).map(|number| slab.insert(vec![number])).collect();
        slab.remove(ids[2]);
        slab.remove(ids[0]);
        assert_eq!((slab.next_id(), slab.occupied()), (ids[0], 1));
        assert_eq!(slab.occupy(), ids[0]);
        assert_eq!(slab[ids[0]], [0]);
        assert_eq!(slab.insert(vec![7]), ids[2]);
        assert_eq!(slab[ids[2]], [7]);
        assert_eq!(slab.next_id(), Id::at(3));
        assert_eq!(slab.ids().collect::<Vec<_>>(), ids);
    }
}
