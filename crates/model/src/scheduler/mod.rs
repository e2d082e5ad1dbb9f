//! The block layer above a drive: plugging, merging and the kernel's I/O schedulers.
//!
//! A `BlockQueue` accepts I/Os with their submitting process, merges adjacent ones, lets a
//! scheduler choose the order, and keeps as many requests in the drive as its queue depth allows.
//! Like any `Device` it is driven from outside and keeps its own timeline: a late `wake` replays
//! dispatches at the times when they were due.
//!
//! This module accepts I/Os, `merging` merges them, `elevator` is the interface to the schedulers,
//! `list` lists them, and `dispatch` sends requests to the drive and collects completions.

mod anticipatory;
mod bfq;
mod cfq;
mod cfq_2_6_18;
mod deadline;
mod dispatch;
mod elevator;
mod kyber;
mod list;
mod merging;
mod noop;
pub mod requests;
mod thinking;

use std::collections::VecDeque;

use crate::histogram::Histogram;
use crate::request::{Completion, Device, Nanos, Op, Queue, Request, Wrapper};
use elevator::Elevator;
use list::{each, Scheduler};
use requests::{Queued, Requests, Sorted};

pub use crate::request::SubmittedIo;
pub use anticipatory::AnticipatoryTunables;
pub use bfq::BfqTunables;
pub use cfq::CfqTunables;
pub use cfq_2_6_18::EarlyCfqTunables;
pub use deadline::DeadlineTunables;
pub use kyber::KyberTunables;
pub use list::SchedulerSpec;
pub use thinking::SharedHabits;

/// Configuration of a block queue.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    pub scheduler: SchedulerSpec,
    /// Requests per direction that the scheduler can hold. More wait outside, in order of arrival.
    pub nr_requests: u32,
    /// Requests issued to the drive at once (the depth of its command queue).
    pub queue_depth: u32,
    /// Size limit of a merged request.
    pub max_request_bytes: u64,
    /// The drive is a disk, for which idling can pay off (`queue/rotational`).
    pub rotational: bool,
}

impl Default for QueueSpec {
    fn default() -> Self {
        QueueSpec {
            scheduler: SchedulerSpec::Noop,
            nr_requests: 128,
            queue_depth: 32,
            max_request_bytes: 512 * 1024,
            rotational: true,
        }
    }
}

/// Totals of a queue since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Requests that were given to the drive.
    pub reads: u64,
    pub writes: u64,
    /// Bytes of the requests that succeeded, counted at their completion.
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// I/Os merged into another request.
    pub merged: u64,
    pub failed: u64,
    /// Time with at least one request in the drive.
    pub busy_ns: u64,
    /// Integral over time of the number of I/Os inside (queued or in the drive).
    pub inside_ns: u128,
    pub read_latency: LatencySum,
    pub write_latency: LatencySum,
}

/// Latency of completed requests, from the entry of their first I/O to completion, as the kernel
/// counts in `/proc/diskstats`. Flushes, discards and write-zeroes count in neither direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencySum {
    pub requests: u64,
    pub total_ns: u128,
}

/// The block layer of one drive.
pub struct BlockQueue<D: Queue = Box<dyn Queue + Send>> {
    device: D,
    /// No scheduler of its own: I/Os go directly to the queues of the members below.
    passes_on: bool,
    scheduler: Scheduler,
    table: Requests,
    /// Requests in the scheduler, per direction, sorted by sector for merging.
    index: [Sorted; 2],
    merges_in_queue: bool,
    plug: Vec<u32>,
    plugged: bool,
    /// I/Os beyond nr_requests, per direction.
    waiting: [VecDeque<SubmittedIo>; 2],
    allocated: [u32; 2],
    /// The flush in the drive, and the one that begins when it has ended, for all that ask
    /// meanwhile (`block/blk-flush.c`; of an md device `md_flush_request`).
    flushing: Option<u32>,
    flush_next: Option<u32>,
    nr_requests: u32,
    depth: u32,
    max_sectors: u64,
    in_drive: u32,
    inside: u32,
    timer: Option<Nanos>,
    clock: Nanos,
    finished: Vec<Completion>,
    scratch: Vec<Completion>,
    counters: QueueCounters,
    read_latency: Histogram,
    write_latency: Histogram,
    service: Histogram,
}

impl<D: Queue> BlockQueue<D> {
    pub fn new(device: D, spec: &QueueSpec) -> Self {
        BlockQueue {
            device,
            passes_on: false,
            scheduler: Scheduler::new(&spec.scheduler, spec.rotational),
            table: Requests::default(),
            index: Default::default(),
            merges_in_queue: spec.scheduler != SchedulerSpec::None,
            plug: Vec::new(),
            plugged: false,
            waiting: Default::default(),
            allocated: [0; 2],
            flushing: None,
            flush_next: None,
            nr_requests: spec.nr_requests.max(1),
            depth: spec.queue_depth.max(1),
            max_sectors: (spec.max_request_bytes / crate::SECTOR_BYTES).max(8),
            in_drive: 0,
            inside: 0,
            timer: None,
            clock: 0,
            finished: Vec::new(),
            scratch: Vec::new(),
            counters: QueueCounters::default(),
            read_latency: Histogram::default(),
            write_latency: Histogram::default(),
            service: Histogram::default(),
        }
    }

    /// Create the block layer of a Linux md or dm device over queues. It neither sorts nor merges,
    /// because each member has its own scheduler (`md_make_request`). It counts, and limits writers
    /// by `nr_requests`.
    pub fn passing_on(device: D, nr_requests: u32) -> Self {
        let spec = QueueSpec {
            scheduler: SchedulerSpec::None,
            nr_requests,
            queue_depth: u32::MAX,
            max_request_bytes: 0,
            rotational: true,
        };
        BlockQueue { passes_on: true, ..BlockQueue::new(device, &spec) }
    }

    /// Share the behaviour of processes in other queues with the scheduler, if it uses that
    /// (anticipatory).
    pub fn share_habits(&mut self, habits: &SharedHabits) {
        if let Scheduler::Anticipatory(scheduler) = &mut self.scheduler {
            scheduler.share(habits);
        }
    }

    pub fn device(&self) -> &D {
        &self.device
    }

    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    pub fn counters(&self) -> &QueueCounters {
        &self.counters
    }

    /// Latency of read requests, from the entry of their first I/O to completion.
    pub fn read_latency(&self) -> &Histogram {
        &self.read_latency
    }

    /// Latency of write requests, likewise.
    pub fn write_latency(&self) -> &Histogram {
        &self.write_latency
    }

    /// Time of requests in the drive.
    pub fn service(&self) -> &Histogram {
        &self.service
    }

    /// Return the I/Os submitted and not yet complete.
    pub fn inside(&self) -> u32 {
        self.inside
    }

    pub fn nr_requests(&self) -> u32 {
        self.nr_requests
    }

    /// Process counters and drive up to `now` without returning completions yet.
    pub fn settle(&mut self, now: Nanos) {
        self.advance(now);
    }

    /// Accept one I/O at `now`.
    pub fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        self.advance(now);
        self.inside += 1;
        if matches!(io.request.op, Op::Flush) {
            self.submit_flush(now, &io);
            return;
        }
        if !self.passes_on && self.merge(&io) {
            return;
        }
        let direction = usize::from(io.request.op != Op::Read);
        if self.allocated[direction] >= self.nr_requests {
            self.waiting[direction].push_back(io);
            return;
        }
        let index = self.new_request(now, &io);
        if self.passes_on {
            self.send(now, index);
        } else if self.plugged {
            self.plug.push(index);
        } else {
            self.enter(now, index);
            self.dispatch(now);
        }
    }

    /// A flush bypasses the scheduler, and goes to the drive at once unless one is there.
    fn submit_flush(&mut self, now: Nanos, io: &SubmittedIo) {
        if self.flushing.is_none() {
            let index = self.new_request(now, io);
            self.flushing = Some(index);
            self.send(now, index);
        } else if let Some(index) = self.flush_next {
            self.table.chain(index, io.request.tag);
        } else {
            self.flush_next = Some(self.new_request(now, io));
        }
    }

    fn new_request(&mut self, now: Nanos, io: &SubmittedIo) -> u32 {
        let queued = Queued::new(io, now);
        self.allocated[queued.direction()] += 1;
        self.table.insert(io.request.tag, queued)
    }

    /// Insert a request into the scheduler.
    fn enter(&mut self, now: Nanos, index: u32) {
        let request = *self.table.get(index);
        // Plugged requests can be adjacent to one that is already queued.
        self.index[request.direction()].insert(request.sector, index);
        each!(&mut self.scheduler, s => s.insert(now, index, &self.table));
    }
}

impl<D: Queue> Wrapper for BlockQueue<D> {
    type Below = D;

    fn below(&self) -> &D {
        &self.device
    }

    fn below_mut(&mut self) -> &mut D {
        &mut self.device
    }

    fn pass_down(&mut self, now: Nanos) {
        self.advance(now);
    }
}

impl<D: Queue> Device for BlockQueue<D> {
    fn submit(&mut self, now: Nanos, request: Request) {
        BlockQueue::submit_io(
            self,
            now,
            SubmittedIo { request, process: 0, sync: request.op == Op::Read },
        );
    }

    fn submit_direct(&mut self, now: Nanos, request: Request) {
        BlockQueue::submit_io(self, now, SubmittedIo { request, process: 0, sync: true });
    }

    fn wake_ahead(&mut self, now: Nanos, _until: Nanos, out: &mut Vec<Completion>) {
        self.advance(now);
        out.append(&mut self.finished);
    }

    fn next_wake(&self) -> Option<Nanos> {
        if let Some(first) = self.finished.first() {
            return Some(first.time);
        }
        match (self.device.next_wake(), self.timer) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    fn in_flight(&self) -> usize {
        self.inside as usize + self.finished.len()
    }
}

impl<D: Queue> Queue for BlockQueue<D> {
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        BlockQueue::submit_io(self, now, io);
    }

    fn plug(&mut self) {
        BlockQueue::plug(self);
    }

    fn unplug(&mut self, now: Nanos) {
        BlockQueue::unplug(self, now);
    }
}
