//! The drive's own memory: segments that hold what was read and read ahead.

use super::geometry::{Geometry, Place};
use super::spec::BufferSpec;
use crate::request::Nanos;

/// Read segments; each holds one contiguous stretch, as positions along the medium.
pub struct Segments {
    starts: Vec<Nanos>,
    ends: Vec<Nanos>,
    used: Vec<u32>,
    clock: u32,
    segment_bytes: u64,
    read_ahead_bytes: u64,
}

impl Segments {
    pub fn new(spec: &BufferSpec) -> Self {
        let count = spec.segments as usize;
        Segments {
            starts: vec![0; count],
            ends: vec![0; count],
            used: vec![0; count],
            clock: 0,
            segment_bytes: spec.segment_bytes,
            read_ahead_bytes: spec.read_ahead_bytes,
        }
    }

    /// The segment that holds the place's first sector, or ends right before it.
    #[inline]
    pub fn find(&self, along: Nanos) -> Option<usize> {
        let bounds = self.starts.iter().zip(&self.ends);
        bounds
            .enumerate()
            .find(|(_, (&start, &end))| start <= along && along <= end && end > 0)
            .map(|(i, _)| i)
    }

    pub fn end(&self, segment: usize) -> Nanos {
        self.ends[segment]
    }

    /// Notes that the segment now reaches to `end`, dropping its oldest part when it is full.
    pub fn reach(&mut self, segment: usize, end: Nanos, zone: u32, geometry: &Geometry) {
        if end <= self.ends[segment] {
            return;
        }
        self.ends[segment] = end;
        let span = geometry.span_ns(zone, self.segment_bytes);
        self.starts[segment] = self.starts[segment].max(end.saturating_sub(span));
    }

    /// Takes the least recently used segment for a new stretch.
    #[inline]
    pub fn begin(&mut self, place: &Place) -> usize {
        let mut oldest = 0;
        for (segment, &used) in self.used.iter().enumerate() {
            if used < self.used[oldest] {
                oldest = segment;
            }
        }
        self.starts[oldest] = place.along;
        self.ends[oldest] = place.along_end;
        self.touch(oldest);
        oldest
    }

    #[inline]
    pub fn touch(&mut self, segment: usize) {
        self.clock = self.clock.wrapping_add(1);
        if self.clock == 0 {
            // Once in four thousand million uses: the order among the segments starts over.
            self.used.fill(0);
            self.clock = 1;
        }
        self.used[segment] = self.clock;
    }

    /// How far reading ahead may go behind a request that ends at `end`.
    pub fn read_ahead_limit(&self, end: Nanos, zone: u32, geometry: &Geometry) -> Nanos {
        (end + geometry.span_ns(zone, self.read_ahead_bytes)).min(geometry.along_end)
    }

    pub fn read_ahead_bytes(&self) -> u64 {
        self.read_ahead_bytes
    }

    /// Forgets everything (power was lost).
    pub fn clear(&mut self) {
        self.ends.fill(0);
        self.starts.fill(0);
    }
}
