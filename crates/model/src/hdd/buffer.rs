//! The drive's read buffer: segments of data that was read or read ahead.

use super::geometry::{Geometry, Place};
use super::spec::BufferSpec;
use crate::request::Nanos;

/// Low bits of a use number that hold the segment index; the high bits hold the time. The least
/// recently used segment is then the minimum.
const INDEX_BITS: u32 = 12;

/// Read segments. Each holds one contiguous range, as positions along the medium.
pub struct Segments {
    starts: Vec<Nanos>,
    /// Length of each range. A single unsigned comparison then checks whether a place is in it.
    spans: Vec<Nanos>,
    /// Where the data of each segment began, before those that the host has were dropped.
    begun: Vec<Nanos>,
    used: Vec<u64>,
    clock: u64,
    segment_bytes: u64,
    read_ahead_bytes: u64,
    keeps_sent: bool,
}

impl Segments {
    pub fn new(spec: &BufferSpec) -> Self {
        let count = spec.segments as usize;
        Segments {
            starts: vec![Nanos::MAX; count],
            spans: vec![0; count],
            begun: vec![Nanos::MAX; count],
            used: (0..count as u64).collect(),
            clock: 0,
            segment_bytes: spec.segment_bytes,
            read_ahead_bytes: spec.read_ahead_bytes,
            keeps_sent: spec.keep_sent,
        }
    }

    /// Return the segment that contains the place or ends directly before it.
    #[inline]
    pub fn find(&self, along: Nanos) -> Option<usize> {
        let bounds = self.starts.iter().zip(&self.spans);
        for (segment, (&start, &span)) in bounds.enumerate() {
            if along.wrapping_sub(start) <= span {
                return Some(segment);
            }
        }
        None
    }

    /// Return where the data of a segment began, whether or not those sent are still in it.
    pub fn begun(&self, segment: usize) -> Nanos {
        self.begun[segment]
    }

    #[inline]
    pub fn end(&self, segment: usize) -> Nanos {
        self.starts[segment] + self.spans[segment]
    }

    /// Extend the segment to `end`. A full segment drops its oldest data.
    #[inline]
    pub fn reach(&mut self, segment: usize, end: Nanos, zone: u32, geometry: &Geometry) {
        if end <= self.end(segment) {
            return;
        }
        let full = geometry.span_ns(zone, self.segment_bytes);
        let start = self.starts[segment].max(end.saturating_sub(full));
        self.starts[segment] = start;
        self.spans[segment] = end - start;
        self.begun[segment] = self.begun[segment].max(end.saturating_sub(full));
    }

    /// Reuse the least recently used segment for a new range.
    #[inline]
    pub fn begin(&mut self, place: &Place) -> usize {
        let oldest = self.used.iter().fold(u64::MAX, |oldest, &used| oldest.min(used));
        let segment = (oldest & ((1 << INDEX_BITS) - 1)) as usize;
        self.starts[segment] = place.along;
        self.begun[segment] = place.along;
        self.spans[segment] = place.along_end - place.along;
        self.touch(segment);
        segment
    }

    /// Drop the data up to `end`, which the host has, unless the drive keeps them.
    #[inline]
    pub fn sent(&mut self, segment: usize, end: Nanos) {
        if !self.keeps_sent {
            let held = self.end(segment);
            self.starts[segment] = end.min(held).max(self.starts[segment]);
            self.spans[segment] = held - self.starts[segment];
        }
    }

    /// Drop segments that hold data which a write makes old.
    #[inline]
    pub fn written(&mut self, place: &Place) {
        for (start, span) in self.starts.iter_mut().zip(&mut self.spans) {
            if *start < place.along_end && place.along < start.saturating_add(*span) {
                *start = Nanos::MAX;
                *span = 0;
            }
        }
    }

    /// Return whether a segment holds no range: it was never used, or a write dropped it.
    pub fn is_empty(&self, segment: usize) -> bool {
        self.starts[segment] == Nanos::MAX
    }

    /// Keep data that were written, as far as a segment can hold them.
    pub fn keep(&mut self, place: &Place, geometry: &Geometry) {
        let full = geometry.span_ns(place.zone, self.segment_bytes);
        let segment = self.begin(place);
        self.starts[segment] = place.along.max(place.along_end.saturating_sub(full));
        self.spans[segment] = place.along_end - self.starts[segment];
    }

    #[inline]
    pub fn touch(&mut self, segment: usize) {
        self.clock += 1;
        self.used[segment] = (self.clock << INDEX_BITS) | segment as u64;
    }

    /// Return the read-ahead limit after a request that ends at `end`.
    #[inline]
    pub fn read_ahead_limit(&self, end: Nanos, zone: u32, geometry: &Geometry) -> Nanos {
        (end + geometry.span_ns(zone, self.read_ahead_bytes)).min(geometry.along_end)
    }

    pub fn read_ahead_bytes(&self) -> u64 {
        self.read_ahead_bytes
    }
}
