//! Work that waits for the arm, and the selection of the next one.
//!
//! An item stays in its slot until it is removed. Only what is needed to choose among many items
//! is kept in the order of age, and moved when an item is removed.

use std::ops::RangeInclusive;

use super::geometry::{Geometry, Place};
use super::scoring::{Head, Reach, Spots};
use crate::request::Nanos;

/// Waiting items, oldest first.
pub struct Waiting<T> {
    spots: Spots,
    /// Slots in the order of age.
    order: Vec<u16>,
    items: Vec<Item<T>>,
    /// Slots without an item.
    free: Vec<u16>,
    writes: usize,
}

#[derive(Clone, Copy)]
struct Item<T> {
    place: Place,
    since: Nanos,
    write: bool,
    thing: T,
}

/// How freely the drive reorders commands.
#[derive(Clone, Copy)]
pub struct Order {
    pub reordering: f64,
    /// Most items that it chooses from.
    pub window: usize,
    pub age_limit_ns: Nanos,
}

impl<T: Copy> Waiting<T> {
    /// Return an empty list, for less than 65536 items. It grows with them: most drives of a cluster
    /// have few commands at once.
    pub(super) fn new() -> Self {
        Waiting {
            spots: Spots::new(),
            order: Vec::new(),
            items: Vec::new(),
            free: Vec::new(),
            writes: 0,
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Add the youngest item and return its slot. `write`: whether it is reached as writes are.
    #[inline]
    pub fn push(
        &mut self,
        geometry: &Geometry,
        place: Place,
        since: Nanos,
        write: bool,
        thing: T,
    ) -> u16 {
        let item = Item { place, since, write, thing };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.items[usize::from(slot)] = item;
                slot
            }
            None => {
                self.items.push(item);
                (self.items.len() - 1) as u16
            }
        };
        self.order.push(slot);
        self.spots.push(place.cylinder, geometry.angle_turns(place.along));
        self.writes += usize::from(write);
        slot
    }

    /// Remove an item by its place in the order of age, and return its slot, too.
    #[inline]
    pub fn remove(&mut self, index: usize) -> (Place, T, u16) {
        let slot = self.order.remove(index);
        self.spots.remove(index);
        self.free.push(slot);
        let item = &self.items[usize::from(slot)];
        self.writes -= usize::from(item.write);
        (item.place, item.thing, slot)
    }

    /// Return the oldest of the `seen` oldest items that begins in a part of the medium, which lies
    /// in the cylinders given.
    #[inline]
    pub fn first_within(
        &self,
        seen: usize,
        along: RangeInclusive<Nanos>,
        cylinders: RangeInclusive<u32>,
    ) -> Option<usize> {
        if !self.spots.any_within(seen, cylinders) {
            return None;
        }
        let begins = |slot: &u16| along.contains(&self.items[usize::from(*slot)].place.along);
        self.order[..seen].iter().position(begins)
    }

    /// Return the place of an item by its place in the order of age, and whether it is a write.
    pub fn at(&self, index: usize) -> (Place, bool) {
        let item = &self.items[usize::from(self.order[index])];
        (item.place, item.write)
    }

    /// Return the slots, oldest first.
    #[inline]
    pub fn slots(&self) -> impl Iterator<Item = u16> + '_ {
        self.order.iter().copied()
    }

    /// Return where on the medium the item in a slot begins.
    #[inline]
    pub fn along(&self, slot: u16) -> Nanos {
        self.items[usize::from(slot)].place.along
    }

    /// Return the things, oldest first.
    pub fn things(&self) -> impl Iterator<Item = &T> {
        self.order.iter().map(|&slot| &self.items[usize::from(slot)].thing)
    }

    #[inline]
    pub fn thing(&self, slot: u16) -> &T {
        &self.items[usize::from(slot)].thing
    }

    #[inline]
    pub fn thing_mut(&mut self, slot: u16) -> &mut T {
        &mut self.items[usize::from(slot)].thing
    }

    /// Extend the range in a slot at its end.
    #[inline]
    pub fn extend(&mut self, slot: u16, along_end: Nanos) {
        self.items[usize::from(slot)].place.along_end = along_end;
    }

    /// Return the place of a slot in the order of age.
    pub fn index_of(&self, slot: u16) -> Option<usize> {
        self.order.iter().position(|&other| other == slot)
    }

    /// Return how many of the oldest items the drive chooses from at `now`: `1 + reordering * (n -
    /// 1)`, rounded down, `window` at most, or 1 once the oldest exceeds the age limit. There must
    /// be at least one item.
    #[inline]
    pub fn seen(&self, now: Nanos, order: &Order) -> usize {
        let oldest = &self.items[usize::from(self.order[0])];
        if now.saturating_sub(oldest.since) > order.age_limit_ns {
            1
        } else {
            (1 + (order.reordering * (self.len() - 1) as f64) as usize).min(order.window)
        }
    }

    /// Return which of the `seen` oldest items has the shortest seek plus rotational delay; the
    /// oldest of several.
    #[inline]
    pub fn choose(&mut self, seen: usize, head: &Head, read: Reach, write: Reach) -> usize {
        if seen == 1 {
            return 0;
        }
        let writes = self.writes_among(seen);
        if writes == 0 || writes == seen {
            self.spots.cheapest(seen, head, if writes == 0 { read } else { write })
        } else {
            let is_write = |index| self.items[usize::from(self.order[index])].write;
            self.spots.cheapest_one_by_one(seen, head, read, write, is_write)
        }
    }

    /// Return how many of the `seen` oldest items are writes.
    #[inline]
    fn writes_among(&self, seen: usize) -> usize {
        if self.writes == 0 {
            0
        } else if self.writes == self.len() {
            seen
        } else {
            let seen = self.order[..seen].iter();
            seen.filter(|&&slot| self.items[usize::from(slot)].write).count()
        }
    }
}
