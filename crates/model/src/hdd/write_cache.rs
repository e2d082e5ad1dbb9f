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
    bytes: u64,
    capacity_bytes: u64,
    capacity_extents: usize,
    threshold: f64,
}

/// Extents in the order of their positions along the medium.
struct Index {
    entries: Vec<Entry>,
    /// No extent is longer.
    longest: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    along: Nanos,
    slot: u16,
}

impl Index {
    fn add(&mut self, along: Nanos, slot: u16) {
        let after = self.entries.partition_point(|entry| entry.along <= along);
        self.entries.insert(after, Entry { along, slot });
    }

    fn remove(&mut self, along: Nanos, slot: u16) {
        let mut at = self.entries.partition_point(|entry| entry.along < along);
        while self.entries[at].slot != slot {
            at += 1;
        }
        self.entries.remove(at);
        if self.entries.is_empty() {
            self.longest = 0;
        }
    }

    /// Return the extents that begin at `along`.
    fn beginning_at(&self, along: Nanos) -> impl Iterator<Item = u16> + '_ {
        let first = self.entries.partition_point(|entry| entry.along < along);
        let there = self.entries[first..].iter().take_while(move |entry| entry.along == along);
        there.map(|entry| entry.slot)
    }

    /// Call `visit` with every extent that begins at or before `along`, and at or after the sector
    /// `lowest`. `along` is not before the sector `lowest`.
    #[inline]
    fn visit<'a>(
        &self,
        extents: &'a Waiting<Extent>,
        along: Nanos,
        lowest: u64,
        mut visit: impl FnMut(u16, &'a Extent),
    ) {
        let end = self.entries.partition_point(|entry| entry.along <= along);
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
            extents: Waiting::with_capacity(capacity_extents),
            index: Index { entries: Vec::with_capacity(capacity_extents), longest: 0 },
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
        let (covering, growing) = self.neighbours(place.along, &write);
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
            self.index.longest = self.index.longest.max(extent.end - extent.sector);
            self.extents.extend(slot, place.along_end);
        } else if self.extents.len() < self.capacity_extents {
            let slot = self.extents.push(geometry, place, since, true, write);
            self.index.longest = self.index.longest.max(write.end - write.sector);
            self.index.add(place.along, slot);
        } else {
            return false;
        }
        self.bytes += bytes;
        true
    }

    /// Return the oldest extent that holds all of a write at `along`, and the oldest that the write
    /// extends.
    #[inline]
    fn neighbours(&self, along: Nanos, write: &Extent) -> (Option<u16>, Option<u16>) {
        let mut covering: Option<(u64, u16)> = None;
        let mut growing: Option<(u64, u16)> = None;
        let older = |best: &Option<(u64, u16)>, extent: &Extent| {
            best.is_none_or(|(oldest, _)| extent.oldest < oldest)
        };
        let lowest = write.end.saturating_sub(self.index.longest.max(MAX_EXTENT_SECTORS));
        self.index.visit(&self.extents, along, lowest, |slot, extent| {
            if extent.sector <= write.sector && write.end <= extent.end {
                if older(&covering, extent) {
                    covering = Some((extent.oldest, slot));
                }
            } else if extent.end == write.sector
                && write.end - extent.sector <= MAX_EXTENT_SECTORS
                && older(&growing, extent)
            {
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
        let mut held = false;
        let lowest = end.saturating_sub(self.index.longest);
        self.index.visit(&self.extents, along, lowest, |_, extent| {
            held |= extent.sector <= sector && end <= extent.end;
        });
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
        self.index.remove(place.along, slot);
        (place, extent)
    }
}
