//! The block layer over a drive: plugging, merging, and the kernel's I/O schedulers.
//!
//! A `BlockQueue` takes I/Os with the process that submits them, merges neighbours, lets a scheduler choose
//! the order, and keeps as many requests in the drive as its queue depth allows. Like any `Device` it is driven
//! from outside and keeps its own timeline: a late `wake` replays dispatches at the times they were due.

mod anticipatory;
mod bfq;
mod cfq;
mod deadline;
mod kyber;
mod noop;
pub mod requests;
mod thinking;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::request::{Completion, Device, Nanos, Op, Request, Status};
use requests::{Queued, Requests, Sorted, NONE};

pub use crate::request::SubmittedIo;
pub use anticipatory::AnticipatoryTunables;
pub use bfq::BfqTunables;
pub use cfq::CfqTunables;
pub use deadline::DeadlineTunables;
pub use kyber::KyberTunables;
pub use thinking::SharedHabits;

/// Which scheduler, with its tunables (the kernel's defaults where none are given).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SchedulerSpec {
    /// First in, first out, with merging (2.6 to 4.x).
    Noop,
    /// Multi-queue without a scheduler: as `Noop`, merging in the plug alone.
    None,
    Deadline(#[serde(default)] DeadlineTunables),
    MqDeadline(#[serde(default)] DeadlineTunables),
    Anticipatory(#[serde(default)] AnticipatoryTunables),
    Cfq(#[serde(default)] CfqTunables),
    Bfq(#[serde(default)] BfqTunables),
    Kyber(#[serde(default)] KyberTunables),
}

impl SchedulerSpec {
    /// The names a scenario may use.
    pub const NAMES: &'static [&'static str] =
        &["noop", "none", "deadline", "mq-deadline", "anticipatory", "cfq", "bfq", "kyber"];

    /// The scheduler of that name with default tunables.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "noop" => SchedulerSpec::Noop,
            "none" => SchedulerSpec::None,
            "deadline" => SchedulerSpec::Deadline(DeadlineTunables::default()),
            "mq-deadline" => SchedulerSpec::MqDeadline(DeadlineTunables::default()),
            "anticipatory" => SchedulerSpec::Anticipatory(AnticipatoryTunables::default()),
            "cfq" => SchedulerSpec::Cfq(CfqTunables::default()),
            "bfq" => SchedulerSpec::Bfq(BfqTunables::default()),
            "kyber" => SchedulerSpec::Kyber(KyberTunables::default()),
            _ => return None,
        })
    }
}

/// What a block queue is told at its making.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueSpec {
    pub scheduler: SchedulerSpec,
    /// Requests a direction may hold in the scheduler; more wait outside, in order of arrival.
    pub nr_requests: u32,
    /// Requests handed to the drive at once (its command queue).
    pub queue_depth: u32,
    /// The largest request that merging makes.
    pub max_request_bytes: u64,
}

impl Default for QueueSpec {
    fn default() -> Self {
        QueueSpec {
            scheduler: SchedulerSpec::Noop,
            nr_requests: 128,
            queue_depth: 32,
            max_request_bytes: 512 * 1024,
        }
    }
}

/// What a scheduler answers when asked for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// Dispatch this one.
    Dispatch(u32),
    /// Nothing now; ask again at that time (or when something arrives or completes).
    Idle(Nanos),
    /// Nothing to dispatch.
    Empty,
}

/// What every scheduler does. `table` holds the requests that the indices name.
trait Elevator {
    fn insert(&mut self, now: Nanos, index: u32, table: &Requests);
    /// A queued request grew at its front: it starts at `sector` now, no longer at `old_sector`.
    fn moved(&mut self, _index: u32, _old_sector: u64, _table: &Requests) {}
    /// The next request to dispatch, which leaves the scheduler by this call.
    fn next(&mut self, now: Nanos, in_drive: u32, table: &Requests) -> Choice;
    fn completed(&mut self, _now: Nanos, _request: &Queued) {}
    /// May an I/O of `process` join that request?
    fn may_merge(&self, _request: &Queued, _process: u32, _sync: bool) -> bool {
        true
    }
}

enum Scheduler {
    Noop(noop::Noop),
    Deadline(deadline::Deadline),
    Anticipatory(anticipatory::Anticipatory),
    Cfq(Box<cfq::Cfq>),
    Bfq(Box<bfq::Bfq>),
    Kyber(Box<kyber::Kyber>),
}

macro_rules! each {
    ($scheduler:expr, $elevator:ident => $call:expr) => {
        match $scheduler {
            Scheduler::Noop($elevator) => $call,
            Scheduler::Deadline($elevator) => $call,
            Scheduler::Anticipatory($elevator) => $call,
            Scheduler::Cfq($elevator) => $call,
            Scheduler::Bfq($elevator) => $call,
            Scheduler::Kyber($elevator) => $call,
        }
    };
}

/// What went through a queue, since its making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// I/Os that joined another's request.
    pub merged: u64,
    pub failed: u64,
    /// Time with at least one request in the drive.
    pub busy_ns: u64,
    /// Integral over time of the I/Os inside (queued or in the drive).
    pub inside_ns: u128,
    /// Sum and number of the I/Os' times from submission to completion.
    pub latency_ns: u128,
    pub completed: u64,
}

/// The block layer of one drive.
pub struct BlockQueue<D: Device = Box<dyn Device + Send>> {
    device: D,
    /// It has no scheduler of its own: I/Os go on as they come, to the queues of the members below.
    passes_on: bool,
    scheduler: Scheduler,
    table: Requests,
    /// Requests in the scheduler, per direction, by sector: where merging looks.
    index: [Sorted; 2],
    merges_in_queue: bool,
    plug: Vec<u32>,
    plugged: bool,
    /// Beyond nr_requests, per direction.
    waiting: [VecDeque<SubmittedIo>; 2],
    allocated: [u32; 2],
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
    latency: Histogram,
    service: Histogram,
}

impl<D: Device> BlockQueue<D> {
    pub fn new(device: D, spec: &QueueSpec) -> Self {
        let scheduler = match &spec.scheduler {
            SchedulerSpec::Noop | SchedulerSpec::None => Scheduler::Noop(noop::Noop::default()),
            SchedulerSpec::Deadline(t) => Scheduler::Deadline(deadline::Deadline::new(t.clone())),
            SchedulerSpec::MqDeadline(t) => Scheduler::Deadline(deadline::Deadline::new(t.clone())),
            SchedulerSpec::Anticipatory(t) => {
                Scheduler::Anticipatory(anticipatory::Anticipatory::new(t.clone()))
            }
            SchedulerSpec::Cfq(t) => Scheduler::Cfq(Box::new(cfq::Cfq::new(t.clone()))),
            SchedulerSpec::Bfq(t) => Scheduler::Bfq(Box::new(bfq::Bfq::new(t.clone()))),
            SchedulerSpec::Kyber(t) => Scheduler::Kyber(Box::new(kyber::Kyber::new(t.clone()))),
        };
        BlockQueue {
            device,
            passes_on: false,
            scheduler,
            table: Requests::default(),
            index: Default::default(),
            merges_in_queue: spec.scheduler != SchedulerSpec::None,
            plug: Vec::new(),
            plugged: false,
            waiting: Default::default(),
            allocated: [0; 2],
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
            latency: Histogram::default(),
            service: Histogram::default(),
        }
    }

    /// The block layer of what Linux md or dm builds over queues: it orders and merges nothing, for each member has
    /// a scheduler of its own (`md_make_request`); it counts, and holds writers back by `nr_requests`.
    pub fn passing_on(device: D, nr_requests: u32) -> Self {
        let spec = QueueSpec {
            scheduler: SchedulerSpec::None,
            nr_requests,
            queue_depth: u32::MAX,
            max_request_bytes: 0,
        };
        BlockQueue { passes_on: true, ..BlockQueue::new(device, &spec) }
    }

    /// Lets the scheduler see what processes do in other queues, where it is one that looks (anticipatory).
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

    /// Times from an I/O's submission to its completion.
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    /// Times a request spent in the drive.
    pub fn service(&self) -> &Histogram {
        &self.service
    }

    /// I/Os submitted and not yet complete.
    pub fn inside(&self) -> u32 {
        self.inside
    }

    /// Requests of writes held, or waiting to be: what a flusher watches.
    pub fn writes_held(&self) -> u32 {
        self.allocated[1] + self.waiting[1].len() as u32
    }

    pub fn nr_requests(&self) -> u32 {
        self.nr_requests
    }

    /// Brings counters and drive up to `now` without handing anything back yet.
    pub fn settle(&mut self, now: Nanos) {
        self.advance(now);
    }

    /// From here on I/Os collect, and merge with each other, until `unplug`.
    pub fn plug(&mut self) {
        if self.passes_on {
            self.device.plug();
        } else {
            self.plugged = true;
        }
    }

    /// Hands what collected to the scheduler.
    pub fn unplug(&mut self, now: Nanos) {
        self.plugged = false;
        self.advance(now);
        if self.passes_on {
            self.device.unplug(now);
            return;
        }
        let mut plug = std::mem::take(&mut self.plug);
        for index in plug.drain(..) {
            self.enter(now, index);
        }
        self.plug = plug;
        self.dispatch(now);
    }

    /// Takes one I/O at `now`.
    pub fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        self.advance(now);
        self.inside += 1;
        if matches!(io.request.op, Op::Flush) {
            // A flush waits for no elevator: it goes to the drive at once.
            let index = self.new_request(now, &io);
            self.send(now, index);
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

    fn new_request(&mut self, now: Nanos, io: &SubmittedIo) -> u32 {
        let request = &io.request;
        let queued = Queued {
            op: request.op,
            sector: request.sector,
            sectors: u64::from(request.sectors),
            fua: request.fua,
            sync: io.sync,
            process: io.process,
            entered: now,
            dispatched: 0,
            serial: 0,
            queued: true,
            first_io: NONE,
            last_io: NONE,
        };
        self.allocated[queued.direction()] += 1;
        self.table.insert(request.tag, queued)
    }

    /// Puts a request into the scheduler.
    fn enter(&mut self, now: Nanos, index: u32) {
        let request = *self.table.get(index);
        // Plugged requests may adjoin one that is already queued.
        self.index[request.direction()].insert(request.sector, index);
        each!(&mut self.scheduler, s => s.insert(now, index, &self.table));
    }

    /// Joins an I/O to a request that it adjoins. True if it was.
    fn merge(&mut self, io: &SubmittedIo) -> bool {
        let request = &io.request;
        if !matches!(request.op, Op::Read | Op::Write) || request.fua {
            return false;
        }
        let (start, length) = (request.sector, u64::from(request.sectors));
        let fits = |q: &Queued| q.op == request.op && !q.fua && q.sectors + length <= self.max_sectors;
        if let Some(&index) = self.plug.iter().rev().find(|&&index| {
            let q = self.table.get(index);
            fits(q) && q.process == io.process && (q.end() == start || start + length == q.sector)
        }) {
            let q = self.table.get_mut(index);
            q.sector = q.sector.min(start);
            q.sectors += length;
            self.table.chain(index, request.tag);
            self.counters.merged += 1;
            return true;
        }
        let sorted = &self.index[usize::from(request.op != Op::Read)];
        if !self.merges_in_queue || sorted.is_empty() {
            return false;
        }
        let allowed =
            |q: &Queued| fits(q) && each!(&self.scheduler, s => s.may_merge(q, io.process, io.sync));
        if let Some(index) = sorted.before(start) {
            let q = self.table.get(index);
            if q.end() == start && allowed(q) {
                self.table.get_mut(index).sectors += length;
                self.table.chain(index, request.tag);
                self.counters.merged += 1;
                return true;
            }
        }
        if let Some(index) = sorted.at_or_after(start + length) {
            let q = *self.table.get(index);
            if q.sector == start + length && allowed(&q) {
                let sorted = &mut self.index[q.direction()];
                sorted.remove(q.sector, index);
                sorted.insert(start, index);
                let grown = self.table.get_mut(index);
                grown.sector = start;
                grown.sectors += length;
                self.table.chain(index, request.tag);
                each!(&mut self.scheduler, s => s.moved(index, q.sector, &self.table));
                self.counters.merged += 1;
                return true;
            }
        }
        false
    }

    /// Keeps the drive as full as its depth and the scheduler allow.
    fn dispatch(&mut self, now: Nanos) {
        if self.passes_on {
            return;
        }
        while self.in_drive < self.depth {
            match each!(&mut self.scheduler, s => s.next(now, self.in_drive, &self.table)) {
                Choice::Dispatch(index) => {
                    let request = self.table.get(index);
                    self.index[request.direction()].remove(request.sector, index);
                    self.timer = None;
                    self.send(now, index);
                }
                Choice::Idle(until) => {
                    self.timer = Some(until.max(now + 1));
                    return;
                }
                Choice::Empty => {
                    self.timer = None;
                    return;
                }
            }
        }
    }

    fn send(&mut self, now: Nanos, index: u32) {
        let request = self.table.get_mut(index);
        request.dispatched = now;
        request.queued = false;
        match request.op {
            Op::Read => {
                self.counters.reads += 1;
                self.counters.read_bytes += request.sectors * crate::SECTOR_BYTES;
            }
            Op::Write => {
                self.counters.writes += 1;
                self.counters.written_bytes += request.sectors * crate::SECTOR_BYTES;
            }
            _ => {}
        }
        self.in_drive += 1;
        let (process, sync) = (request.process, request.sync);
        let request = Request {
            tag: u64::from(index),
            op: request.op,
            sector: request.sector,
            sectors: request.sectors as u32,
            fua: request.fua,
        };
        if self.passes_on {
            self.device.submit_io(now, SubmittedIo { request, process, sync });
        } else {
            self.device.submit(now, request);
        }
    }

    fn account(&mut self, to: Nanos) {
        let span = to - self.clock;
        if self.in_drive > 0 {
            self.counters.busy_ns += span;
        }
        self.counters.inside_ns += u128::from(span) * u128::from(self.inside);
        self.clock = to;
    }

    /// Replays everything due at or before `to`, in the order in which it falls due.
    fn advance(&mut self, to: Nanos) {
        loop {
            let due = match (self.device.next_wake(), self.timer) {
                (Some(a), Some(b)) => a.min(b),
                (Some(a), None) => a,
                (None, Some(b)) => b,
                (None, None) => break,
            };
            if due > to {
                break;
            }
            let due = due.max(self.clock);
            self.account(due);
            if self.timer.is_some_and(|timer| timer <= due) {
                self.timer = None;
            }
            let mut scratch = std::mem::take(&mut self.scratch);
            self.device.wake(due, &mut scratch);
            for completion in scratch.drain(..) {
                self.complete(due, completion);
            }
            self.scratch = scratch;
            self.dispatch(due);
        }
        self.account(to.max(self.clock));
    }

    fn complete(&mut self, now: Nanos, completion: Completion) {
        let index = completion.tag as u32;
        let request = *self.table.get(index);
        self.in_drive -= 1;
        self.allocated[request.direction()] -= 1;
        self.service.add(completion.time - request.dispatched);
        let latency = completion.time - request.entered;
        let (finished, counters, histogram) = (&mut self.finished, &mut self.counters, &mut self.latency);
        let mut ios = 0;
        self.table.remove(index, |tag| {
            ios += 1;
            counters.completed += 1;
            counters.latency_ns += u128::from(latency);
            counters.failed += u64::from(completion.status != Status::Done);
            histogram.add(latency);
            finished.push(Completion { tag, time: completion.time, status: completion.status });
        });
        self.inside -= ios;
        if request.op != Op::Flush && !self.passes_on {
            each!(&mut self.scheduler, s => s.completed(now, &request));
        }
        let direction = request.direction();
        while self.allocated[direction] < self.nr_requests {
            let Some(io) = self.waiting[direction].pop_front() else { break };
            if self.passes_on {
                let index = self.new_request(now, &io);
                self.send(now, index);
            } else if !self.merge(&io) {
                let index = self.new_request(now, &io);
                self.enter(now, index);
            }
        }
    }
}

impl<D: Device> Device for BlockQueue<D> {
    fn capacity_sectors(&self) -> u64 {
        self.device.capacity_sectors()
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        BlockQueue::submit_io(self, now, SubmittedIo { request, process: 0, sync: request.op == Op::Read });
    }

    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        BlockQueue::submit_io(self, now, io);
    }

    fn plug(&mut self) {
        BlockQueue::plug(self);
    }

    fn unplug(&mut self, now: Nanos) {
        BlockQueue::unplug(self, now);
    }

    fn wake(&mut self, now: Nanos, out: &mut Vec<Completion>) {
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

    fn energy_j(&self, now: Nanos) -> f64 {
        self.device.energy_j(now)
    }

    fn unflushed(&mut self, now: Nanos) -> Vec<(u64, u64)> {
        self.advance(now);
        self.device.unflushed(now)
    }

    fn fault_counts(&self) -> crate::request::FaultCounts {
        self.device.fault_counts()
    }
}
