//! What a loss of power takes back: for every write that may not be on stable storage yet, what lay there before.
//!
//! A flush makes everything acknowledged before it safe; the device model says what else has reached the
//! medium by itself. Only that is forgotten here, so nothing that was flushed is ever taken back.

use std::collections::VecDeque;

use headrace_model::stream::Stream;
use headrace_model::{Nanos, SECTOR_BYTES};

use crate::store::Store;

/// Sectors, first and end.
pub type Extent = (u64, u64);

/// A write.
struct Written {
    offset: u64,
    length: u64,
    /// Pieces (offset, what lay there); what is missing was zeroes.
    before: Vec<(u64, Box<[u8]>)>,
    acknowledged: Option<Nanos>,
    safe: bool,
}

/// The writes, oldest first.
#[derive(Default)]
pub struct Volatile {
    writes: VecDeque<Written>,
    /// Number of the first.
    first: u64,
    bytes: u64,
}

impl Volatile {
    /// Bytes of memory that the old data takes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.writes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Keeps what lies where a write is about to go; gives the number of the write.
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

    /// The write has been acknowledged.
    pub fn acknowledge(&mut self, number: u64, now: Nanos) {
        if let Some(write) = number.checked_sub(self.first).and_then(|at| self.writes.get_mut(at as usize)) {
            write.acknowledged = Some(now);
        }
    }

    /// The write has failed: what lay there before lies there again, unless a later write has gone over it.
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

    /// A flush that was submitted at `submitted` has ended.
    pub fn flushed(&mut self, submitted: Nanos) {
        self.forget(|write| write.acknowledged.is_some_and(|at| at <= submitted));
    }

    /// Forgets the acknowledged writes of which nothing lies in `unflushed`.
    pub fn settle(&mut self, unflushed: &[(u64, u64)]) {
        let extents = joined(unflushed);
        self.forget(|write| write.acknowledged.is_some() && !touches(&extents, write.offset, write.length));
    }

    /// Power is lost: puts back what lay under the acknowledged writes that are `unflushed`, and under a random
    /// rest of each write that was under way. Gives how many bytes of acknowledged writes were taken back.
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
                // Torn: sectors reached the medium up to some one.
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
            // There is room: what is put back had its page before.
            let _ = store.write(from, &data[(from - offset) as usize..(to - offset) as usize]);
        }
    }
}

/// Ranges (first, length) as extents (first, end), in order, those that meet joined.
fn joined(ranges: &[(u64, u64)]) -> Vec<Extent> {
    let mut extents: Vec<Extent> = ranges.iter().map(|&(first, length)| (first, first + length)).collect();
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
