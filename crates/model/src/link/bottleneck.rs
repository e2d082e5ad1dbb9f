//! Bottlenecks: the clock of bytes served to each flow that a bottleneck limits, and the next
//! completion.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::Network;
use crate::request::Nanos;

#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) bytes: f64,
    pub(super) sequence: u64,
    pub(super) flow: u32,
}

impl PartialEq for Mark {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Mark {}
impl PartialOrd for Mark {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Mark {
    /// Reversed: the smallest mark is the maximum of the heap.
    fn cmp(&self, other: &Self) -> Ordering {
        other.bytes.total_cmp(&self.bytes).then(other.sequence.cmp(&self.sequence))
    }
}

/// A limit of flows: a port in one direction, or (after the ports) a group's own limit.
#[derive(Debug, Default)]
pub(super) struct Bottleneck {
    /// Bytes served to each flow up to `last`, since the clock began.
    pub(super) clock: f64,
    pub(super) last: Nanos,
    pub(super) rate: f64,
    pub(super) flows: BinaryHeap<Mark>,
    pub(super) version: u32,
    /// Rate at which another port of one of its flows would be saturated.
    pub(super) headroom: f64,
    /// Rate below which flows limited by another port would get more.
    pub(super) floor: f64,
}

impl Network {
    pub(super) fn tick(&mut self, bottleneck: u32, now: Nanos) {
        let b = &mut self.bottlenecks[bottleneck as usize];
        if now > b.last {
            if !b.flows.is_empty() {
                b.clock += (now - b.last) as f64 * 1e-9 * b.rate;
            }
            b.last = now;
        }
    }

    pub(super) fn set_due(&mut self, bottleneck: u32) {
        let b = &mut self.bottlenecks[bottleneck as usize];
        b.version = b.version.wrapping_add(1);
        if let Some(first) = b.flows.peek() {
            let left = ((first.bytes - b.clock).max(0.0) / b.rate * 1e9).ceil();
            self.due.push(std::cmp::Reverse((b.last + left as u64, bottleneck, b.version)));
        }
    }

    /// Return when the next flow is done.
    pub fn next_done(&mut self) -> Option<Nanos> {
        while let Some(&std::cmp::Reverse((time, bottleneck, version))) = self.due.peek() {
            if self.bottlenecks[bottleneck as usize].version == version {
                return Some(time);
            }
            self.due.pop();
        }
        None
    }
}
