//! The stripe cache of a RAID with parity: stripes that gather writes, and data that is still in
//! memory. After `drivers/md/raid5.c`, whose stripes are one page of each member; here a stripe is
//! one chunk of each member, of which a range of columns is written.

use std::collections::VecDeque;

use super::layout::Columns;
use super::state::Parent;
use crate::request::Op;
use crate::slots::Id;

/// Written data: chunk, first sector in the chunk, sectors.
pub(super) type Written = (usize, u64, u32);

/// A stripe with writes that have not been started.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) stripe: u64,
    pub(super) op: Option<Op>,
    pub(super) fua: bool,
    pub(super) written: Vec<Written>,
    /// The columns that any of its writes touches.
    pub(super) columns: Columns,
    pub(super) parents: Vec<Id<Parent>>,
    /// It needs no reads.
    pub(super) ready: bool,
    /// A process waits for one of its writes.
    pub(super) sync: bool,
}

impl Waiting {
    /// Add a range of a chunk; extend one that it meets.
    pub(super) fn add(&mut self, chunk: usize, within: u64, sectors: u32) {
        let end = within + u64::from(sectors);
        let columns = &mut self.columns;
        if self.written.is_empty() {
            *columns = Columns { from: within, to: end };
        } else {
            *columns = Columns { from: columns.from.min(within), to: columns.to.max(end) };
        }
        let meets =
            |&(of, from, n): &Written| of == chunk && from <= end && within <= from + u64::from(n);
        match self.written.iter().position(meets) {
            Some(index) => {
                let (_, from, n) = self.written.swap_remove(index);
                let (from, to) = (from.min(within), (from + u64::from(n)).max(end));
                self.add(chunk, from, (to - from) as u32);
            }
            None => self.written.push((chunk, within, sectors)),
        }
    }
}

/// A stripe in memory after its last write.
#[derive(Default)]
pub(super) struct Held {
    stripe: u64,
    columns: Columns,
    /// Whether the data of each member is in memory.
    members: Vec<bool>,
}

impl Held {
    /// Return whether the data of a member is in memory.
    pub(super) fn has(&self, member: usize, columns: &Columns) -> bool {
        self.members[member] && self.columns.contain(columns)
    }
}

/// The stripe cache.
pub(super) struct Stripes {
    /// Sectors per member that it holds.
    limit: u64,
    /// Stripes that gather writes, oldest first.
    pub(super) waiting: Vec<Waiting>,
    unused: Vec<Waiting>,
    /// Writers collect requests: nothing starts until `unplug`.
    pub(super) plugged: bool,
    /// Stripes whose old data is being read.
    pub(super) reading: usize,
    /// Sectors per member of the stripes being read or written.
    active: u64,
    /// Least recently used first.
    held: VecDeque<Held>,
    held_sectors: u64,
    dropped: Vec<Held>,
}

impl Stripes {
    pub(super) fn new(limit: u64) -> Self {
        Stripes {
            limit,
            waiting: Vec::new(),
            unused: Vec::new(),
            plugged: false,
            reading: 0,
            active: 0,
            held: VecDeque::new(),
            held_sectors: 0,
            dropped: Vec::new(),
        }
    }

    /// Return the waiting stripe that a write can join, or a new one. A write with FUA or of zeroes
    /// is not joined with others.
    pub(super) fn gathering(&mut self, stripe: u64, op: Op, fua: bool) -> usize {
        let joins = |with: &Waiting| with.stripe == stripe && with.op == Some(op) && !with.fua;
        if op == Op::Write && !fua {
            if let Some(index) = self.waiting.iter().position(joins) {
                return index;
            }
        }
        let mut new = self.unused.pop().unwrap_or_default();
        (new.stripe, new.op, new.fua) = (stripe, Some(op), fua);
        (new.ready, new.sync) = (false, false);
        new.written.clear();
        new.columns = Columns::default();
        new.parents.clear();
        self.waiting.push(new);
        self.waiting.len() - 1
    }

    /// Return whether a stripe with this many sectors per member finds space.
    pub(super) fn has_room(&self, sectors: u64) -> bool {
        self.active == 0 || self.active + sectors <= self.limit
    }

    pub(super) fn start(&mut self, index: usize) -> Waiting {
        let started = self.waiting.remove(index);
        self.active += started.columns.sectors();
        started
    }

    pub(super) fn recycle(&mut self, waiting: Waiting) {
        self.unused.push(waiting);
    }

    pub(super) fn end(&mut self, columns: Columns) {
        self.active -= columns.sectors();
    }

    /// Return what of a stripe is in memory.
    pub(super) fn held(&self, stripe: u64) -> Option<&Held> {
        self.held.iter().rev().find(|held| held.stripe == stripe)
    }

    /// Keep the data of a stripe in memory, of the members for which `is_here` says so, and forget
    /// the least recently used stripes beyond the limit.
    pub(super) fn hold(
        &mut self,
        stripe: u64,
        columns: Columns,
        members: usize,
        is_here: impl Fn(usize) -> bool,
    ) {
        let place = self.held.iter().position(|held| held.stripe == stripe);
        let old = place.and_then(|index| self.held.remove(index));
        let mut held = old.or_else(|| self.dropped.pop()).unwrap_or_default();
        if place.is_some() {
            self.held_sectors -= held.columns.sectors();
        }
        if place.is_some() && held.columns.contain(&columns) {
            (0..members).for_each(|m| held.members[m] |= held.columns == columns && is_here(m));
        } else if place.is_some() && held.columns.to == columns.from {
            held.columns.to = columns.to;
            (0..members).for_each(|m| held.members[m] &= is_here(m));
        } else {
            (held.stripe, held.columns) = (stripe, columns);
            held.members.clear();
            held.members.extend((0..members).map(is_here));
        }
        self.held_sectors += held.columns.sectors();
        self.held.push_back(held);
        while self.held_sectors > self.limit && self.held.len() > 1 {
            let Some(oldest) = self.held.pop_front() else { break };
            self.held_sectors -= oldest.columns.sectors();
            self.dropped.push(oldest);
        }
    }

    /// Forget all data in memory.
    pub(super) fn forget(&mut self) {
        self.dropped.extend(self.held.drain(..));
        self.held_sectors = 0;
    }
}
