//! The drive's own memory: segments that hold what was read and read ahead.

use super::geometry::{Geometry, Place};
use super::spec::BufferSpec;
use crate::request::Nanos;

/// A use of a segment in one number: when in the upper bits, which in the lower, so that the least recently
/// used one is a plain minimum.
const INDEX_BITS: u32 = 12;

/// Read segments; each holds one contiguous stretch, as positions along the medium.
pub struct Segments {
    starts: Vec<Nanos>,
    /// How long each stretch is. One unsigned comparison then tells whether a place lies in it.
    spans: Vec<Nanos>,
    used: Vec<u64>,
    clock: u64,
    segment_bytes: u64,
    read_ahead_bytes: u64,
}

impl Segments {
    pub fn new(spec: &BufferSpec) -> Self {
        let count = spec.segments as usize;
        Segments {
            starts: vec![Nanos::MAX; count],
            spans: vec![0; count],
            used: (0..count as u64).collect(),
            clock: 0,
            segment_bytes: spec.segment_bytes,
            read_ahead_bytes: spec.read_ahead_bytes,
        }
    }

    /// The segment that holds the place, or ends right before it.
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

    #[inline]
    pub fn end(&self, segment: usize) -> Nanos {
        self.starts[segment] + self.spans[segment]
    }

    /// Notes that the segment now reaches to `end`, dropping its oldest part when it is full.
    #[inline]
    pub fn reach(&mut self, segment: usize, end: Nanos, zone: u32, geometry: &Geometry) {
        if end <= self.end(segment) {
            return;
        }
        let full = geometry.span_ns(zone, self.segment_bytes);
        let start = self.starts[segment].max(end.saturating_sub(full));
        self.starts[segment] = start;
        self.spans[segment] = end - start;
    }

    /// Takes the least recently used segment for a new stretch.
    #[inline]
    pub fn begin(&mut self, place: &Place) -> usize {
        let oldest = self.used.iter().fold(u64::MAX, |oldest, &used| oldest.min(used));
        let segment = (oldest & ((1 << INDEX_BITS) - 1)) as usize;
        self.starts[segment] = place.along;
        self.spans[segment] = place.along_end - place.along;
        self.touch(segment);
        segment
    }

    #[inline]
    pub fn touch(&mut self, segment: usize) {
        self.clock += 1;
        self.used[segment] = (self.clock << INDEX_BITS) | segment as u64;
    }

    /// How far reading ahead may go behind a request that ends at `end`.
    #[inline]
    pub fn read_ahead_limit(&self, end: Nanos, zone: u32, geometry: &Geometry) -> Nanos {
        (end + geometry.span_ns(zone, self.read_ahead_bytes)).min(geometry.along_end)
    }

    pub fn read_ahead_bytes(&self) -> u64 {
        self.read_ahead_bytes
    }
}
