//! Bottlenecks: the clock of bytes served to each flow that a bottleneck limits.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, VecDeque};

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

/// The marks of flows, first the one that is done first. Flows of equal size are done in the order
/// in which they began: those that are need no heap.
#[derive(Debug, Default)]
pub(super) struct Marks {
    in_order: VecDeque<Mark>,
    others: BinaryHeap<Mark>,
}

impl Marks {
    pub(super) fn len(&self) -> usize {
        self.in_order.len() + self.others.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_order.is_empty() && self.others.is_empty()
    }

    pub(super) fn push(&mut self, mark: Mark) {
        if self.in_order.back().is_none_or(|last| mark < *last) {
            self.in_order.push_back(mark);
        } else {
            self.others.push(mark);
        }
    }

    pub(super) fn peek(&self) -> Option<&Mark> {
        self.in_order.front().max(self.others.peek())
    }

    pub(super) fn pop(&mut self) -> Option<Mark> {
        if self.in_order.front() > self.others.peek() {
            self.in_order.pop_front()
        } else {
            self.others.pop()
        }
    }

    /// Take out all marks, in any order.
    pub(super) fn take(&mut self) -> impl Iterator<Item = Mark> {
        let Marks { in_order, others } = std::mem::take(self);
        in_order.into_iter().chain(others)
    }
}

/// A limit of flows: a port in one direction, or (after the ports) a group's own limit.
#[derive(Debug, Default)]
pub(super) struct Bottleneck {
    /// Bytes served to each flow up to `last`, since the clock began.
    pub(super) clock: f64,
    pub(super) last: Nanos,
    pub(super) rate: f64,
    pub(super) flows: Marks,
    /// Of the queued entry that holds.
    pub(super) version: u32,
    /// The time of that entry: when the first flow is done.
    pub(super) due: Option<Nanos>,
    /// Rate at which another port of one of its flows would be saturated.
    pub(super) headroom: f64,
    /// Rate below which flows limited by another port would get more.
    pub(super) floor: f64,
    /// The number of the recomputation of all ports that it is part of, or 0.
    pub(super) refill: u64,
}

impl Bottleneck {
    /// Let no queued entry hold.
    pub(super) fn forget_due(&mut self) {
        self.version = self.version.wrapping_add(1);
        self.due = None;
    }
}

pub(super) const UNLIMITED: f64 = f64::INFINITY;
