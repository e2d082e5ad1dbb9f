//! Writes that are acknowledged but not yet on the platter.

use super::geometry::{Geometry, Place};
use super::scoring::{Head, Reach};
use super::spec::BufferSpec;
use super::waiting::{Order, Waiting};
use crate::request::{Nanos, SECTOR_BYTES};

/// Merging extends a range up to this many sectors (512 KiB), so that a single destage stays short.
const MAX_EXTENT_SECTORS: u64 = 1024;

/// A contiguous range that must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub sector: u64,
    pub end: u64,
    /// Submission number of its oldest write, for flushes. Extents are added in its order.
    pub oldest: u64,
    /// When all of its data has crossed the link.
    pub here: Nanos,
}

/// The write cache.
pub struct WriteCache {
    extents: Waiting<Extent>,
    index: Index,
    /// No extent is longer.
    longest: u64,
    bytes: u64,
    capacity_bytes: u64,
    capacity_extents: usize,
    threshold: f64,
}

/// Up to this many extents are searched one after the other, which costs less than the index.
const FEW: usize = 8;

/// Extents in the order of their positions along the medium, once there have been more than `FEW`.
struct Index {
    entries: Vec<Entry>,
    in_use: bool,
}

#[derive(Clone, Copy)]
struct Entry {
    along: Nanos,
    slot: u16,
}

impl Index {
    /// Add the extent that was added to `extents` last. `after` is the number of entries at or before
    /// it.
    fn add(&mut self, extents: &Waiting<Extent>, after: usize, along: Nanos, slot: u16) {
        if self.in_use {
            self.entries.insert(after, Entry { along, slot });
        } else if extents.len() > FEW {
            self.in_use = true;
            let entry = |slot| Entry { along: extents.along(slot), slot };
            self.entries.extend(extents.slots().map(entry));
            // Of those at one position, the oldest is first.
            self.entries.sort_by_key(|entry| entry.along);
        }
    }

    /// Remove an extent that was removed from `extents`.
    fn remove(&mut self, extents: &Waiting<Extent>, along: Nanos, slot: u16) {
        if extents.len() < FEW / 2 {
            self.entries.clear();
            self.in_use = false;
        }
        if !self.in_use {
            return;
        }
        let mut at = self.entries.partition_point(|entry| entry.along < along);
        while self.entries[at].slot != slot {
            at += 1;
        }
        self.entries.remove(at);
    }

    /// Return the number of extents that begin at or before `along`.
    #[inline]
    fn up_to(&self, along: Nanos) -> usize {
        self.entries.partition_point(|entry| entry.along <= along)
    }

    /// Return the extents that begin at `along`.
    fn beginning_at(&self, along: Nanos) -> impl Iterator<Item = u16> + '_ {
        let first = self.entries.partition_point(|entry| entry.along < along);
        let there = self.entries[first..].iter().take_while(move |entry| entry.along == along);
        there.map(|entry| entry.slot)
    }

    /// Call `visit` with every extent that begins at or before `along`, and at or after the sector
    /// `lowest`. There are `end` at or before `along`, which is not before the sector `lowest`.
    #[inline]
    fn visit<'a>(
        &self,
        extents: &'a Waiting<Extent>,
        (along, end): (Nanos, usize),
        lowest: u64,
        mut visit: impl FnMut(u16, &'a Extent),
    ) {
        let mut after = along;
        for entry in self.entries[..end].iter().rev() {
            let extent = extents.thing(entry.slot);
            if extent.sector >= lowest {
                visit(entry.slot, extent);
            } else if entry.along < after {
                break;
            }
            after = entry.along;
        }
    }
}

impl WriteCache {
    pub fn new(spec: &BufferSpec) -> Self {
        let capacity_extents = spec.write_cache_extents as usize;
        WriteCache {
            extents: Waiting::new(),
            index: Index { entries: Vec::new(), in_use: false },
            longest: 0,
            bytes: 0,
            capacity_bytes: spec.write_cache_bytes,
            capacity_extents,
            threshold: spec.destage_threshold,
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Return the extents, oldest first.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.extents.things()
    }

    /// Return whether the cache is so full that destaging must compete with reads.
    pub fn pressing(&self) -> bool {
        self.bytes as f64 > self.threshold * self.capacity_bytes as f64
            || self.extents.len() as f64 > self.threshold * self.capacity_extents as f64
    }

    /// Return whether an empty cache could hold a write of this size.
    pub fn could_hold(&self, sectors: u64) -> bool {
        sectors * SECTOR_BYTES <= self.capacity_bytes
    }

    /// Accept a write if there is space for it. `place` is its place.
    pub fn take(&mut self, geometry: &Geometry, place: Place, write: Extent, since: Nanos) -> bool {
        let bytes = (write.end - write.sector) * SECTOR_BYTES;
        let after = self.index.up_to(place.along);
        let (covering, growing) = self.neighbours((place.along, after), &write);
        if let Some(slot) = covering {
            let extent = self.extents.thing_mut(slot);
            extent.here = extent.here.max(write.here);
            return true;
        }
        if self.bytes + bytes > self.capacity_bytes {
            return false;
        }
        if let Some(slot) = growing {
            let extent = self.extents.thing_mut(slot);
            extent.end = write.end;
            extent.here = extent.here.max(write.here);
            self.longest = self.longest.max(extent.end - extent.sector);
            self.extents.extend(slot, place.along_end);
        } else if self.extents.len() < self.capacity_extents {
            let slot = self.extents.push(geometry, place, since, true, write);
            self.longest = self.longest.max(write.end - write.sector);
            self.index.add(&self.extents, after, place.along, slot);
        } else {
            return false;
        }
        self.bytes += bytes;
        true
    }

    /// Return the oldest extent that holds all of a write, and the oldest that the write extends.
    /// `up_to` is where it begins, and the number of extents in the index at or before that.
    #[inline]
    fn neighbours(&self, up_to: (Nanos, usize), write: &Extent) -> (Option<u16>, Option<u16>) {
        let covers = |extent: &Extent| extent.sector <= write.sector && write.end <= extent.end;
        let grows = |extent: &Extent| {
            extent.end == write.sector && write.end - extent.sector <= MAX_EXTENT_SECTORS
        };
        if !self.index.in_use {
            let mut growing = None;
            for slot in self.extents.slots() {
                let extent = self.extents.thing(slot);
                if covers(extent) {
                    return (Some(slot), None);
                }
                if growing.is_none() && grows(extent) {
                    growing = Some(slot);
                }
            }
            return (None, growing);
        }
        let mut covering: Option<(u64, u16)> = None;
        let mut growing: Option<(u64, u16)> = None;
        let older = |best: &Option<(u64, u16)>, extent: &Extent| {
            best.is_none_or(|(oldest, _)| extent.oldest < oldest)
        };
        let lowest = write.end.saturating_sub(self.longest.max(MAX_EXTENT_SECTORS));
        self.index.visit(&self.extents, up_to, lowest, |slot, extent| {
            if covers(extent) {
                if older(&covering, extent) {
                    covering = Some((extent.oldest, slot));
                }
            } else if grows(extent) && older(&growing, extent) {
                growing = Some((extent.oldest, slot));
            }
        });
        (covering.map(|(_, slot)| slot), growing.map(|(_, slot)| slot))
    }

    /// Free the space of a range that is on the platter.
    pub fn release(&mut self, extent: &Extent) {
        self.bytes -= (extent.end - extent.sector) * SECTOR_BYTES;
    }

    /// Return whether one extent holds all data of a read, which begins at `along`.
    #[inline]
    pub fn holds(&self, along: Nanos, sector: u64, end: u64) -> bool {
        let holds = |extent: &Extent| extent.sector <= sector && end <= extent.end;
        if !self.index.in_use {
            return self.extents.things().any(holds);
        }
        let mut held = false;
        let lowest = end.saturating_sub(self.longest);
        let up_to = (along, self.index.up_to(along));
        self.index.visit(&self.extents, up_to, lowest, |_, extent| held |= holds(extent));
        held
    }

    /// Return the submission number of the oldest write that is not on the platter.
    pub fn oldest(&self) -> Option<u64> {
        self.extents.things().next().map(|extent| extent.oldest)
    }

    /// Return how many of the oldest extents the drive chooses from.
    pub fn seen(&self, now: Nanos, order: &Order) -> usize {
        self.extents.seen(now, order)
    }

    /// Return the oldest extent that begins at `along`, by its place in the order of age.
    pub fn beginning_at(&self, along: Nanos) -> Option<usize> {
        if !self.index.in_use {
            return self.extents.slots().position(|slot| self.extents.along(slot) == along);
        }
        let there = self.index.beginning_at(along);
        let slot = there.min_by_key(|&slot| self.extents.thing(slot).oldest);
        slot.and_then(|slot| self.extents.index_of(slot))
    }

    /// Return which of the `seen` oldest extents is reached first.
    pub fn choose(&mut self, seen: usize, head: &Head, reach: Reach) -> usize {
        self.extents.choose(seen, head, reach, reach)
    }

    /// Remove an extent by its place in the order of age. Its space is released later.
    pub fn remove(&mut self, index: usize) -> (Place, Extent) {
        let (place, extent, slot) = self.extents.remove(index);
        self.index.remove(&self.extents, place.along, slot);
        if self.extents.is_empty() {
            self.longest = 0;
        }
        (place, extent)
    }
}
