//! Writes that are acknowledged but not yet on the platter.

use super::geometry::Geometry;
use super::spec::BufferSpec;
use super::waiting::Waiting;
use crate::request::{Nanos, SECTOR_BYTES};

/// Merging extends a range up to this many sectors (512 KiB), so that a single destage stays short.
const MAX_EXTENT_SECTORS: u64 = 1024;

/// A contiguous range that must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub sector: u64,
    pub end: u64,
    /// Submission number of its oldest write, for flushes.
    pub oldest: u64,
    /// When all of its data has crossed the link.
    pub here: Nanos,
}

/// The write cache.
pub struct WriteCache {
    pub extents: Waiting<Extent>,
    bytes: u64,
    capacity_bytes: u64,
    capacity_extents: usize,
    threshold: f64,
}

impl WriteCache {
    pub fn new(spec: &BufferSpec) -> Self {
        WriteCache {
            extents: Waiting::with_capacity(spec.write_cache_extents as usize),
            bytes: 0,
            capacity_bytes: spec.write_cache_bytes,
            capacity_extents: spec.write_cache_extents as usize,
            threshold: spec.destage_threshold,
        }
    }

    pub fn enabled(&self) -> bool {
        self.capacity_bytes > 0
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

    /// Accept a write if there is space for it.
    pub fn take(&mut self, geometry: &Geometry, write: Extent, since: Nanos) -> bool {
        let bytes = (write.end - write.sector) * SECTOR_BYTES;
        let held = self.extents.things().iter();
        if let Some(index) =
            held.clone().position(|e| e.sector <= write.sector && write.end <= e.end)
        {
            let extent = self.extents.thing_mut(index);
            extent.here = extent.here.max(write.here);
            return true;
        }
        if self.bytes + bytes > self.capacity_bytes {
            return false;
        }
        let grows =
            |e: &Extent| e.end == write.sector && write.end - e.sector <= MAX_EXTENT_SECTORS;
        if let Some(index) = held.clone().position(grows) {
            let extent = self.extents.thing_mut(index);
            extent.end = write.end;
            extent.here = extent.here.max(write.here);
            let place = geometry.place(write.sector, (write.end - write.sector) as u32);
            self.extents.extend(index, place.along_end);
        } else if self.extents.len() < self.capacity_extents {
            let place = geometry.place(write.sector, (write.end - write.sector) as u32);
            self.extents.push(geometry, place, since, write);
        } else {
            return false;
        }
        self.bytes += bytes;
        true
    }

    /// Free the space of a range that is on the platter.
    pub fn release(&mut self, extent: &Extent) {
        self.bytes -= (extent.end - extent.sector) * SECTOR_BYTES;
    }

    /// Return whether the cache holds all data of a read.
    pub fn holds(&self, sector: u64, end: u64) -> bool {
        self.extents.things().iter().any(|e| e.sector <= sector && end <= e.end)
    }

    /// Return the submission number of the oldest write that is not on the platter.
    pub fn oldest(&self) -> Option<u64> {
        self.extents.things().iter().map(|e| e.oldest).min()
    }
}
