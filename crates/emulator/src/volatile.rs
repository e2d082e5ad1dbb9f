//! Data lost at a power loss: keeps the previous contents for every write that may not be on stable
//! storage yet.
//!
//! A flush makes every write acknowledged before it safe; the device model reports other writes
//! that have reached the medium. Only the old data of these is discarded, so flushed data is never
//! reverted.

use std::collections::VecDeque;

use headrace_model::stream::Stream;
use headrace_model::{Nanos, SECTOR_BYTES};

use crate::store::Store;

/// Sectors: first and end (exclusive).
pub type Extent = (u64, u64);

/// A write.
struct Written {
    offset: u64,
    length: u64,
    /// Pieces (offset, previous contents); the rest was zeroes.
    before: Vec<(u64, Box<[u8]>)>,
    acknowledged: Option<Nanos>,
    safe: bool,
}

/// The writes, oldest first.
#[derive(Default)]
pub struct Volatile {
    writes: VecDeque<Written>,
    /// Number of the first write.
    first: u64,
    bytes: u64,
}

impl Volatile {
    /// Return the memory used by the old data.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.writes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Save the contents that a write is about to replace; return the number of the write.
    pub fn note(&mut self, store: &Store, offset: u64, length: u64) -> u64 {
        let mut before = Vec::new();
        store.runs(offset, length, |held, bytes| {
            if held {
                let size = bytes.end - bytes.start;
                let copy = store.read(bytes.start, size, |slices| {
                    let mut copy = Vec::with_capacity(size as usize);
                    slices.iter().for_each(|slice| copy.extend_from_slice(slice));
                    copy
                });
                self.bytes += size;
                before.push((bytes.start, copy.into_boxed_slice()));
            }
        });
        self.writes.push_back(Written { offset, length, before, acknowledged: None, safe: false });
        self.first + self.writes.len() as u64 - 1
    }

    /// Mark a write as acknowledged.
    pub fn acknowledge(&mut self, number: u64, now: Nanos) {
        if let Some(write) =
            number.checked_sub(self.first).and_then(|at| self.writes.get_mut(at as usize))
        {
            write.acknowledged = Some(now);
        }
    }

    /// Restore the previous contents after a failed write, unless a later write overlaps it.
    pub fn revert(&mut self, store: &Store, number: u64) {
        let Some(at) = number.checked_sub(self.first).map(|at| at as usize) else { return };
        let Some(write) = self.writes.get(at) else { return };
        let (start, end) = (write.offset, write.offset + write.length);
        let over = |later: &Written| later.offset < end && start < later.offset + later.length;
        if !self.writes.iter().skip(at + 1).any(over) {
            put_back(store, write, start, end);
        }
        self.writes[at].acknowledged = Some(0);
        self.forget(|write| write.acknowledged == Some(0));
    }

    fn forget(&mut self, safe: impl Fn(&Written) -> bool) {
        for write in self.writes.iter_mut().filter(|write| !write.safe) {
            if safe(write) {
                write.safe = true;
                self.bytes -= write.before.iter().map(|(_, data)| data.len() as u64).sum::<u64>();
                write.before = Vec::new();
            }
        }
        while self.writes.front().is_some_and(|write| write.safe) {
            self.writes.pop_front();
            self.first += 1;
        }
    }

    /// Mark writes as safe after the flush that was submitted at `submitted`.
    pub fn flushed(&mut self, submitted: Nanos) {
        self.forget(|write| write.acknowledged.is_some_and(|at| at <= submitted));
    }

    /// Discard old data of acknowledged writes that do not overlap `unflushed`.
    pub fn settle(&mut self, unflushed: &[(u64, u64)]) {
        let extents = joined(unflushed);
        self.forget(|write| {
            write.acknowledged.is_some() && !touches(&extents, write.offset, write.length)
        });
    }

    /// Apply a power loss: revert acknowledged writes where they are `unflushed`, and a random tail
    /// of each write in progress. Return the number of bytes of acknowledged writes lost.
    pub fn lose(&mut self, store: &Store, unflushed: &[(u64, u64)], chance: &mut Stream) -> u64 {
        let extents = joined(unflushed);
        let mut lost_bytes = 0;
        self.first += self.writes.len() as u64;
        while let Some(write) = self.writes.pop_back() {
            if write.safe {
                continue;
            }
            if write.acknowledged.is_some() {
                for &(first, end) in &extents {
                    let start = (first * SECTOR_BYTES).max(write.offset);
                    let end = (end * SECTOR_BYTES).min(write.offset + write.length);
                    if start < end {
                        lost_bytes += end - start;
                        put_back(store, &write, start, end);
                    }
                }
            } else {
                // Torn write: the sectors before a random one reached the medium.
                let kept = chance.below(write.length / SECTOR_BYTES + 1) * SECTOR_BYTES;
                put_back(store, &write, write.offset + kept, write.offset + write.length);
            }
        }
        self.bytes = 0;
        lost_bytes
    }
}

fn put_back(store: &Store, write: &Written, start: u64, end: u64) {
    if start >= end {
        return;
    }
    store.discard(start, end - start);
    for (offset, data) in &write.before {
        let from = start.max(*offset);
        let to = end.min(offset + data.len() as u64);
        if from < to {
            // Cannot fail: the restored data had its page before.
            let _ = store.write(from, &data[(from - offset) as usize..(to - offset) as usize]);
        }
    }
}

/// Convert ranges (first, length) to sorted extents (first, end); adjacent ones are merged.
fn joined(ranges: &[(u64, u64)]) -> Vec<Extent> {
    let mut extents: Vec<Extent> =
        ranges.iter().map(|&(first, length)| (first, first + length)).collect();
    extents.sort_unstable();
    extents.dedup_by(|next, last| {
        let meets = next.0 <= last.1;
        if meets {
            last.1 = last.1.max(next.1);
        }
        meets
    });
    extents
}

fn touches(extents: &[Extent], offset: u64, length: u64) -> bool {
    let (first, end) = (offset / SECTOR_BYTES, (offset + length).div_ceil(SECTOR_BYTES));
    let at = extents.partition_point(|&(_, extent_end)| extent_end <= first);
    extents.get(at).is_some_and(|&(extent_first, _)| extent_first < end)
}
