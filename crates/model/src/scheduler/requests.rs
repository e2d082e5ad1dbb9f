//! The requests of a block queue: a slab of requests, chains of the I/Os merged into each, and an
//! index by sector for merging and the elevators.

use crate::request::{Nanos, Op, SubmittedIo};

/// A request as the schedulers see it: one or more merged I/Os with adjacent sectors.
#[derive(Clone, Copy, Debug)]
pub struct Queued {
    pub op: Op,
    pub sector: u64,
    pub sectors: u64,
    pub fua: bool,
    /// A process waits for it (a read or a synchronous write).
    pub sync: bool,
    pub process: u32,
    /// When it entered the scheduler.
    pub entered: Nanos,
    /// When it was issued to the drive.
    pub dispatched: Nanos,
    /// Distinguishes a request from an earlier one in the same slot.
    pub(super) serial: u64,
    /// It is still in the scheduler.
    pub(super) queued: bool,
    first_io: u32,
    last_io: u32,
}

impl Queued {
    /// Return the request of one I/O. `Requests::insert` sets its serial number and its I/Os.
    pub(super) fn new(io: &SubmittedIo, now: Nanos) -> Self {
        let SubmittedIo { request, process, sync } = *io;
        Queued {
            op: request.op,
            sector: request.sector,
            sectors: u64::from(request.sectors),
            fua: request.fua,
            sync,
            process,
            entered: now,
            dispatched: 0,
            serial: 0,
            queued: true,
            first_io: 0,
            last_io: 0,
        }
    }

    /// Return the first sector after it.
    pub fn end(&self) -> u64 {
        self.sector + self.sectors
    }

    /// Return 0 for reads, 1 for everything else.
    pub fn direction(&self) -> usize {
        usize::from(self.op != Op::Read)
    }
}

#[derive(Clone, Copy, Debug)]
struct ChainedIo {
    tag: u64,
    /// The I/O merged after it.
    next: Option<u32>,
}

/// Slab of requests and of the I/Os merged into them.
#[derive(Debug, Default)]
pub struct Requests {
    queued: Vec<Queued>,
    free: Vec<u32>,
    ios: Vec<ChainedIo>,
    free_ios: Vec<u32>,
    serial: u64,
}

impl Requests {
    pub fn get(&self, index: u32) -> &Queued {
        &self.queued[index as usize]
    }

    pub fn get_mut(&mut self, index: u32) -> &mut Queued {
        &mut self.queued[index as usize]
    }

    fn new_io(&mut self, tag: u64) -> u32 {
        let io = ChainedIo { tag, next: None };
        match self.free_ios.pop() {
            Some(index) => {
                self.ios[index as usize] = io;
                index
            }
            None => {
                self.ios.push(io);
                (self.ios.len() - 1) as u32
            }
        }
    }

    /// Insert a request of one I/O.
    pub fn insert(&mut self, tag: u64, mut request: Queued) -> u32 {
        let io = self.new_io(tag);
        request.first_io = io;
        request.last_io = io;
        self.serial += 1;
        request.serial = self.serial;
        match self.free.pop() {
            Some(index) => {
                self.queued[index as usize] = request;
                index
            }
            None => {
                self.queued.push(request);
                (self.queued.len() - 1) as u32
            }
        }
    }

    /// Add one I/O to a request.
    pub fn chain(&mut self, index: u32, tag: u64) {
        let io = self.new_io(tag);
        let last = self.queued[index as usize].last_io;
        self.ios[last as usize].next = Some(io);
        self.queued[index as usize].last_io = io;
    }

    /// Remove a request and call `each` with the tag of each merged I/O, in submission order.
    #[inline]
    pub fn remove(&mut self, index: u32, mut each: impl FnMut(u64)) {
        let mut chain = Some(self.queued[index as usize].first_io);
        while let Some(io) = chain {
            let ChainedIo { tag, next } = self.ios[io as usize];
            each(tag);
            self.free_ios.push(io);
            chain = next;
        }
        self.free.push(index);
    }
}

/// Requests by first sector (ties in order of arrival). A queue holds a few hundred at most, so a
/// sorted vector is faster than a tree.
#[derive(Debug, Default)]
pub struct Sorted {
    entries: Vec<(u64, u32)>,
}

impl Sorted {
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn insert(&mut self, sector: u64, index: u32) {
        let at = self.entries.partition_point(|&(s, _)| s <= sector);
        self.entries.insert(at, (sector, index));
    }

    pub fn remove(&mut self, sector: u64, index: u32) {
        let mut at = self.entries.partition_point(|&(s, _)| s < sector);
        while self.entries[at].1 != index {
            at += 1;
        }
        self.entries.remove(at);
    }

    /// Return the first request at or after `sector`.
    pub fn at_or_after(&self, sector: u64) -> Option<u32> {
        let at = self.entries.partition_point(|&(s, _)| s < sector);
        self.entries.get(at).map(|&(_, index)| index)
    }

    /// Return the last request that starts before `sector`.
    pub fn before(&self, sector: u64) -> Option<u32> {
        let at = self.entries.partition_point(|&(s, _)| s < sector);
        at.checked_sub(1).map(|at| self.entries[at].1)
    }

    /// Return the request nearest to `position`: forwards, or backwards by at most `back_max`
    /// sectors, whose distance counts `back_penalty` times. Without either, return the first one
    /// (a one-way elevator).
    pub fn nearest(
        &self,
        position: u64,
        back_max: u64,
        back_penalty: u64,
        table: &Requests,
    ) -> Option<u32> {
        let forward = self.at_or_after(position);
        let back =
            self.before(position).filter(|&index| position - table.get(index).sector <= back_max);
        match (forward, back) {
            (Some(f), Some(b)) => {
                let ahead = table.get(f).sector - position;
                let behind = back_penalty * (position - table.get(b).sector);
                Some(if ahead <= behind { f } else { b })
            }
            (f, b) => f.or(b).or_else(|| self.first()),
        }
    }

    /// Return the request with the lowest sector.
    pub fn first(&self) -> Option<u32> {
        self.entries.first().map(|&(_, index)| index)
    }
}

/// Requests of one kind in order of arrival, each with its expiry time. A request dispatched by
/// other criteria stays in the list until it reaches the front.
#[derive(Debug, Default)]
pub(super) struct Fifo {
    entries: std::collections::VecDeque<(Nanos, u32, u64)>,
}

impl Fifo {
    pub(super) fn push(&mut self, expiry: Nanos, index: u32, table: &Requests) {
        self.entries.push_back((expiry, index, table.get(index).serial));
    }

    /// Return the request that has waited longest, and its expiry time.
    pub(super) fn oldest(&mut self, table: &Requests) -> Option<(Nanos, u32)> {
        while let Some(&(expiry, index, serial)) = self.entries.front() {
            let request = table.get(index);
            if request.serial == serial && request.queued {
                return Some((expiry, index));
            }
            self.entries.pop_front();
        }
        None
    }

    /// Return the first request in the list that `wanted` accepts.
    pub(super) fn find(&self, table: &Requests, wanted: impl Fn(&Queued) -> bool) -> Option<u32> {
        let live = |&&(_, index, serial): &&(Nanos, u32, u64)| {
            let request = table.get(index);
            request.serial == serial && request.queued && wanted(request)
        };
        self.entries.iter().find(live).map(|&(_, index, _)| index)
    }
}
