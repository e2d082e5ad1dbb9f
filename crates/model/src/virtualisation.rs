//! The layer of a hypervisor between a guest and its drive.
//!
//! One I/O thread serves the guest's requests one at a time, with a cost per request. Writes are
//! split into pieces up to the hypervisor's request size, have their own bandwidth, and are
//! serialised if the cache is write-through. The drive below is any `Device`.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::request::{
    Completion, Device, Nanos, Op, Queue, Request, Status, SubmittedIo, Wrapper, SECTOR_BYTES,
};

/// Costs of the layer; 0: no cost or no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VirtualDiskSpec {
    pub request_ns: u64,
    pub write_request_bytes: u64,
    pub write_bytes_per_s: f64,
    /// Each write is on stable storage before the next is submitted.
    pub write_through: bool,
}

#[derive(Debug)]
struct Guest {
    tag: u64,
    /// Pieces that are not complete.
    left: u32,
    write: bool,
    status: Status,
    time: Nanos,
}

/// A drive behind a hypervisor.
pub struct VirtualDisk {
    inner: Box<dyn Queue + Send>,
    spec: VirtualDiskSpec,
    /// Requests that the I/O thread has not submitted yet, with their arrival times.
    queue: VecDeque<(Nanos, Request)>,
    thread_free: Nanos,
    guests: FxHashMap<u64, Guest>,
    next: u64,
    /// With `write_through`: a piece of a write is in flight (`writing`), or its flush is
    /// (`flushing`).
    writing: bool,
    flushing: Option<u64>,
    pieces: FxHashMap<u64, u64>,
    next_piece: u64,
    inside: usize,
    done: Vec<Completion>,
    scratch: Vec<Completion>,
}

impl VirtualDisk {
    pub fn new(inner: Box<dyn Queue + Send>, spec: VirtualDiskSpec) -> Self {
        VirtualDisk {
            inner,
            spec,
            queue: VecDeque::new(),
            thread_free: 0,
            guests: FxHashMap::default(),
            next: 0,
            writing: false,
            flushing: None,
            pieces: FxHashMap::default(),
            next_piece: 0,
            inside: 0,
            done: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Return when the I/O thread submits the next request; `None` while it is blocked.
    fn next_pass(&self) -> Option<Nanos> {
        let (arrived, request) = self.queue.front()?;
        if self.writing && self.spec.write_through && request.op != Op::Read {
            return None;
        }
        let mut cost = self.spec.request_ns;
        if request.op == Op::Write && self.spec.write_bytes_per_s > 0.0 {
            let bytes = (u64::from(request.sectors) * SECTOR_BYTES) as f64;
            cost += (bytes / self.spec.write_bytes_per_s * 1e9) as u64;
        }
        Some(self.thread_free.max(*arrived) + cost)
    }

    fn pass(&mut self, now: Nanos) {
        let Some((_, request)) = self.queue.pop_front() else { return };
        self.thread_free = now;
        let piece = self.next_piece;
        self.next_piece += 1;
        self.pieces.insert(piece, request.tag);
        self.writing |= request.op == Op::Write;
        self.inner.submit(now, Request { tag: piece, ..request });
    }

    fn advance(&mut self, to: Nanos) {
        loop {
            let due = match (self.inner.next_wake(), self.next_pass()) {
                (Some(a), Some(b)) => a.min(b),
                (Some(a), None) => a,
                (None, Some(b)) => b,
                (None, None) => return,
            };
            if due > to {
                return;
            }
            let mut scratch = std::mem::take(&mut self.scratch);
            self.inner.wake(due, &mut scratch);
            for completion in scratch.drain(..) {
                self.complete(completion);
            }
            self.scratch = scratch;
            if self.next_pass().is_some_and(|pass| pass <= due) {
                self.pass(due);
            }
        }
    }

    fn complete(&mut self, completion: Completion) {
        let Some(guest) = self.pieces.remove(&completion.tag) else { return };
        if self.flushing == Some(completion.tag) {
            self.flushing = None;
            self.writing = false;
        } else if self.writing
            && self.spec.write_through
            && self.guests.get(&guest).is_some_and(|g| g.write)
        {
            // A write is complete after its flush.
            let piece = self.next_piece;
            self.next_piece += 1;
            self.pieces.insert(piece, guest);
            self.flushing = Some(piece);
            let flush = Request { tag: piece, op: Op::Flush, sector: 0, sectors: 0, fua: false };
            self.inner.submit(completion.time, flush);
            return;
        } else if !self.spec.write_through {
            self.writing = false;
        }
        let Some(entry) = self.guests.get_mut(&guest) else { return };
        entry.left -= 1;
        entry.time = entry.time.max(completion.time);
        if completion.status != Status::Done {
            entry.status = completion.status;
        }
        if entry.left == 0 {
            let Guest { tag, status, time, .. } = *entry;
            self.guests.remove(&guest);
            self.inside -= 1;
            self.done.push(Completion { tag, time, status });
        }
    }
}

impl Wrapper for VirtualDisk {
    type Below = dyn Queue + Send;

    fn below(&self) -> &Self::Below {
        &*self.inner
    }

    fn below_mut(&mut self) -> &mut Self::Below {
        &mut *self.inner
    }

    fn pass_down(&mut self, now: Nanos) {
        self.advance(now);
    }

    fn passes_discards(&self) -> bool {
        false
    }
}

/// It has no scheduler: I/Os are served in the order of arrival.
impl Queue for VirtualDisk {
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        self.submit(now, io.request);
    }

    fn plug(&mut self) {}

    fn unplug(&mut self, _now: Nanos) {}
}

impl Device for VirtualDisk {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.advance(now);
        if request.op == Op::Discard {
            // QEMU ignores discards unless told otherwise (`discard=ignore`).
            self.done.push(Completion { tag: request.tag, time: now, status: Status::Done });
            return;
        }
        let guest = self.next;
        self.next += 1;
        self.inside += 1;
        let write = request.op == Op::Write;
        let most = if write && self.spec.write_request_bytes > 0 {
            ((self.spec.write_request_bytes / SECTOR_BYTES) as u32).max(1)
        } else {
            u32::MAX
        };
        let (mut sector, mut left, mut count) = (request.sector, request.sectors, 0);
        loop {
            let sectors = left.min(most);
            self.queue.push_back((now, Request { tag: guest, sector, sectors, ..request }));
            count += 1;
            sector += u64::from(sectors);
            left -= sectors;
            if left == 0 {
                break;
            }
        }
        let entry = Guest { tag: request.tag, left: count, write, status: Status::Done, time: 0 };
        self.guests.insert(guest, entry);
    }

    fn wake_ahead(&mut self, now: Nanos, _until: Nanos, out: &mut Vec<Completion>) {
        self.advance(now);
        out.append(&mut self.done);
    }

    fn next_wake(&self) -> Option<Nanos> {
        if let Some(first) = self.done.first() {
            return Some(first.time);
        }
        match (self.inner.next_wake(), self.next_pass()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn in_flight(&self) -> usize {
        self.inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ideal::{IdealDrive, IdealSpec};

    fn last_completion(spec: VirtualDiskSpec, op: Op) -> Nanos {
        let ideal = IdealSpec {
            capacity_bytes: 1 << 40,
            read_ns: 1_000_000,
            write_ns: 1_000_000,
            read_bytes_per_s: 0.0,
            write_bytes_per_s: 0.0,
            flush_ns: 0,
            channels: 4,
            service_time: Default::default(),
            idle_w: 0.0,
            active_w: 0.0,
        };
        let mut disk = VirtualDisk::new(Box::new(IdealDrive::new(&ideal, 1)), spec);
        (0..4).for_each(|i| {
            disk.submit(0, Request { tag: i, op, sector: i * 4096, sectors: 256, fua: false })
        });
        let mut done = Vec::new();
        while let Some(time) = disk.next_wake() {
            disk.wake(time, &mut done);
        }
        assert_eq!((done.len(), disk.in_flight()), (4, 0));
        done.iter().map(|c| c.time).max().unwrap()
    }

    #[test]
    fn each_request_costs_and_writes_go_their_own_way() {
        let none = VirtualDiskSpec::default();
        assert_eq!(last_completion(none, Op::Read), 1_000_000);
        let cost = VirtualDiskSpec { request_ns: 100_000, ..none };
        assert_eq!(last_completion(cost, Op::Read), 1_400_000);
        // Write-through: one after the other, in pieces of 64 KiB (2 per write of 128 KiB).
        let through = VirtualDiskSpec { write_through: true, write_request_bytes: 65_536, ..none };
        assert_eq!(last_completion(through, Op::Write), 8_000_000);
        assert_eq!(last_completion(through, Op::Read), 1_000_000);
    }
}
