//! Statistics of a trace, in total and per process. Implements [`crate::join::Watcher`]; `summary`
//! converts the result to a record.

mod summary;

use headrace_model::histogram::Histogram;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::event::{Event, Op};
use crate::flight::{Change, Flight};
use crate::join::{Piece, Request, Watcher};
use crate::seeks::Seeks;

pub use summary::{summarise, Latency, OpSummary, Part, Summary};

const SECTOR_BYTES: u64 = 512;
/// Maximum number of processes counted separately; later ones are counted together.
const PROCESSES_AT_MOST: usize = 1024;
const DEPTHS: usize = 1025;
const SIZES_AT_MOST: usize = 1024;

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Amount {
    pub count: u64,
    pub bytes: u64,
}

impl Amount {
    fn add(&mut self, sectors: u32) {
        self.count += 1;
        self.bytes += u64::from(sectors) * SECTOR_BYTES;
    }
}

/// Counts by operation: read, write, flush, discard.
type ByOp = [Amount; 4];

/// Number of requests in flight over time.
#[derive(Clone, Debug)]
struct Depth {
    now: usize,
    since_ns: u64,
    max: usize,
    time_ns: Vec<u64>,
    sum: u128,
}

impl Depth {
    fn new(bins: usize) -> Depth {
        Depth { now: 0, since_ns: 0, max: 0, time_ns: vec![0; bins], sum: 0 }
    }

    fn change(&mut self, now_ns: u64, by: i64) {
        let span = now_ns.saturating_sub(self.since_ns);
        self.since_ns = now_ns;
        self.sum += span as u128 * self.now as u128;
        if let Some(last) = self.time_ns.len().checked_sub(1) {
            self.time_ns[self.now.min(last)] += span;
        }
        self.now = (self.now as i64 + by).max(0) as usize;
        self.max = self.max.max(self.now);
    }
}

struct Process {
    /// `None`: all processes beyond `PROCESSES_AT_MOST`, or the total.
    pid: Option<u32>,
    queued: ByOp,
    issued: ByOp,
    completed: ByOp,
    seeks: Seeks,
    queue_seeks: Seeks,
    queue_to_complete: Histogram,
    dispatch_to_complete: Histogram,
    depth: Depth,
    first_ns: u64,
    last_ns: u64,
}

impl Process {
    fn new(pid: Option<u32>, now_ns: u64, bins: usize) -> Process {
        let mut depth = Depth::new(bins);
        depth.since_ns = now_ns;
        Process {
            pid,
            queued: ByOp::default(),
            issued: ByOp::default(),
            completed: ByOp::default(),
            seeks: Seeks::default(),
            queue_seeks: Seeks::default(),
            queue_to_complete: Histogram::default(),
            dispatch_to_complete: Histogram::default(),
            depth,
            first_ns: now_ns,
            last_ns: now_ns,
        }
    }
}

/// All statistics of a trace.
pub struct Statistics {
    total: Option<Process>,
    processes: Vec<Process>,
    by_pid: FxHashMap<u32, u32>,
    /// Index of the aggregate of all processes beyond `PROCESSES_AT_MOST`.
    others: Option<usize>,
    /// Process ID of the last event, and the index of its process.
    last_pid: Option<u32>,
    last_process: usize,
    devices: FxHashMap<u32, Amount>,
    last_device: Option<u32>,
    of_device: Amount,
    /// Position of the last request of each device: seeks are counted per drive.
    device_seeks: FxHashMap<u32, (Seeks, Seeks)>,
    seeks: (Seeks, Seeks),
    merges: u64,
    requeues: u64,
    strays: u64,
    sizes: [FxHashMap<u32, u64>; 4],
    pieces_to_complete: Histogram,
    sector_low: u64,
    sector_high: u64,
    events: u64,
    /// Decides which requests count as in flight; `None`: all of them, from their start.
    flight: Option<Flight>,
    /// Whether an issue event was seen. Until then, queued pieces are counted and are in flight.
    by_issue: bool,
    /// Number of requests in flight that were seen to end: if 0, the number in flight is unknown.
    ended: u64,
}

impl Default for Statistics {
    fn default() -> Self {
        Statistics {
            total: None,
            processes: Vec::new(),
            by_pid: FxHashMap::default(),
            others: None,
            last_pid: None,
            last_process: 0,
            devices: FxHashMap::default(),
            last_device: None,
            of_device: Amount::default(),
            device_seeks: FxHashMap::default(),
            seeks: Default::default(),
            merges: 0,
            requeues: 0,
            strays: 0,
            sizes: Default::default(),
            pieces_to_complete: Histogram::default(),
            sector_low: u64::MAX,
            sector_high: 0,
            events: 0,
            flight: None,
            by_issue: false,
            ended: 0,
        }
    }
}

impl Statistics {
    fn process(&mut self, pid: u32, now_ns: u64) -> usize {
        if self.last_pid == Some(pid) {
            return self.last_process;
        }
        let at = match self.by_pid.get(&pid) {
            Some(&at) => at as usize,
            None => {
                let at = self.new_process(pid, now_ns);
                if self.by_pid.len() < 16 * PROCESSES_AT_MOST {
                    self.by_pid.insert(pid, at as u32);
                }
                at
            }
        };
        (self.last_pid, self.last_process) = (Some(pid), at);
        at
    }

    /// Return the index at which a process that was not seen before is counted.
    fn new_process(&mut self, pid: u32, now_ns: u64) -> usize {
        let at = self.processes.len();
        if at < PROCESSES_AT_MOST {
            self.processes.push(Process::new(Some(pid), now_ns, 0));
            return at;
        }
        *self.others.get_or_insert_with(|| {
            self.processes.push(Process::new(None, now_ns, 0));
            at
        })
    }

    fn both(&mut self, pid: u32, now_ns: u64) -> (&mut Process, &mut Process) {
        let at = self.process(pid, now_ns);
        let total = self.total.get_or_insert_with(|| Process::new(None, now_ns, DEPTHS));
        total.last_ns = now_ns;
        let one = &mut self.processes[at];
        one.last_ns = now_ns;
        (total, one)
    }

    /// Create statistics that count a request as in flight only if its end is recorded: for traces
    /// in which some ends are missing.
    pub fn exact() -> Statistics {
        Statistics { flight: Some(Flight::default()), ..Statistics::default() }
    }

    /// Count a request, or a piece in a trace without issues, as in flight from now on. A flush has
    /// no position by which its completion could be found, so it is not counted.
    #[inline]
    fn begin(&mut self, time_ns: u64, process: usize, op: Op) {
        let (counts, tag) = (op != Op::Flush, process as u32);
        let Statistics { flight, total, processes, .. } = self;
        match flight {
            None if counts => count_change(total, processes, Change { time_ns, tag, by: 1 }),
            None => {}
            Some(flight) => {
                flight.begin(time_ns, tag, counts, |change| count_change(total, processes, change));
            }
        }
    }

    #[inline]
    fn end(&mut self, number: u64, time_ns: u64, process: usize, op: Op) {
        let Statistics { flight, total, processes, .. } = self;
        match flight {
            None if op != Op::Flush => {
                count_change(total, processes, Change { time_ns, tag: process as u32, by: -1 });
            }
            None => {}
            Some(flight) => {
                flight.end(number, time_ns, |change| count_change(total, processes, change))
            }
        }
    }

    /// Switch from counting queue events to counting issue events.
    #[cold]
    fn begin_counting_issues(&mut self) {
        self.by_issue = true;
        self.sizes = Default::default();
        (self.sector_low, self.sector_high) = (u64::MAX, 0);
        self.devices.clear();
        self.of_device = Amount::default();
        self.flight = self.flight.take().map(|_| Flight::default());
        self.ended = 0;
        for process in self.total.iter_mut().chain(&mut self.processes) {
            process.depth = Depth::new(process.depth.time_ns.len());
            process.depth.since_ns = process.first_ns;
        }
    }

    fn change_device(&mut self, device: u32) {
        if self.last_device != Some(device) {
            self.leave_device();
            self.last_device = Some(device);
            self.of_device = self.devices.get(&device).copied().unwrap_or_default();
            self.seeks = self.device_seeks.remove(&device).unwrap_or_default();
        }
    }

    /// Store what was counted for the last device.
    fn leave_device(&mut self) {
        if let Some(device) = self.last_device.take() {
            self.devices.insert(device, self.of_device);
            self.device_seeks.insert(device, std::mem::take(&mut self.seeks));
        }
    }

    fn place(&mut self, sector: u64, sectors: u32, op: Op) {
        if op == Op::Read || op == Op::Write {
            self.sector_low = self.sector_low.min(sector);
            self.sector_high = self.sector_high.max(sector + u64::from(sectors));
        }
        let sizes = &mut self.sizes[op as usize];
        if let Some(count) = sizes.get_mut(&sectors) {
            *count += 1;
            return;
        }
        // If there are too many different sizes, count new ones under the next power of two.
        let full = sizes.len() >= SIZES_AT_MOST;
        let size =
            if full { sectors.checked_next_power_of_two().unwrap_or(u32::MAX) } else { sectors };
        *sizes.entry(size).or_default() += 1;
    }
}

/// Count a change of the requests in flight, in total and for its process.
#[inline]
fn count_change(total: &mut Option<Process>, processes: &mut [Process], change: Change) {
    if let Some(total) = total {
        total.depth.change(change.time_ns, i64::from(change.by));
    }
    processes[change.tag as usize].depth.change(change.time_ns, i64::from(change.by));
}

fn moves(op: Op) -> bool {
    op == Op::Read || op == Op::Write
}

impl Watcher for Statistics {
    #[inline]
    fn queued(&mut self, event: &Event, _: &Piece) {
        self.events += 1;
        self.change_device(event.device);
        let by_issue = self.by_issue;
        let (total, one) = self.both(event.pid, event.time_ns);
        total.queued[event.op as usize].add(event.sectors);
        one.queued[event.op as usize].add(event.sectors);
        // Only traces without issues are analysed by queue events.
        if by_issue {
            return;
        }
        if moves(event.op) {
            one.queue_seeks.add(event.sector, event.sectors);
            self.seeks.1.add(event.sector, event.sectors);
            self.place(event.sector, event.sectors, event.op);
            self.of_device.add(event.sectors);
        }
        self.begin(event.time_ns, self.last_process, event.op);
    }

    fn merged(&mut self, event: &Event) {
        self.events += 1;
        self.merges += 1;
        self.both(event.pid, event.time_ns);
    }

    #[inline]
    fn issued(&mut self, request: &Request) {
        self.events += 1;
        self.change_device(request.device);
        if !self.by_issue {
            self.begin_counting_issues();
        }
        let (total, one) = self.both(request.pid, request.issue_ns);
        for part in [total, one] {
            part.issued[request.op as usize].add(request.sectors);
        }
        if moves(request.op) {
            one_seek(&mut self.processes[self.last_process], request);
            self.seeks.0.add(request.sector, request.sectors);
        }
        self.place(request.sector, request.sectors, request.op);
        self.of_device.add(request.sectors);
        self.begin(request.issue_ns, self.last_process, request.op);
    }

    fn requeued(&mut self, request: &Request, requeue_ns: u64) {
        self.events += 1;
        self.requeues += 1;
        let (total, one) = self.both(request.pid, requeue_ns);
        for part in [total, one] {
            let amount = &mut part.issued[request.op as usize];
            amount.count -= 1;
            amount.bytes -= u64::from(request.sectors) * SECTOR_BYTES;
        }
        self.end(request.number, requeue_ns, self.last_process, request.op);
    }

    fn dropped(&mut self, request: &Request, _: bool) {
        let Statistics { flight, total, processes, .. } = self;
        if let Some(flight) = flight {
            flight.drop(request.number, |change| count_change(total, processes, change));
        }
    }

    #[inline]
    fn completed(&mut self, request: &Request, complete_ns: u64) {
        self.events += 1;
        let (total, one) = self.both(request.pid, complete_ns);
        let dispatch_ns = complete_ns - request.issue_ns;
        for part in [total, one] {
            part.completed[request.op as usize].add(request.sectors);
            part.dispatch_to_complete.add(dispatch_ns);
            for piece in request.pieces() {
                part.queue_to_complete.add(complete_ns - piece.queue_ns);
            }
        }
        for _ in request.pieces() {
            self.pieces_to_complete.add(dispatch_ns);
        }
        self.ended += u64::from(request.op != Op::Flush);
        self.end(request.number, complete_ns, self.last_process, request.op);
    }

    fn piece_completed(&mut self, event: &Event, piece: &Piece) {
        self.events += 1;
        let (total, one) = self.both(piece.pid, event.time_ns);
        for part in [total, one] {
            part.completed[event.op as usize].add(event.sectors);
            part.queue_to_complete.add(event.time_ns - piece.queue_ns);
        }
        if !self.by_issue {
            self.ended += u64::from(piece.op != Op::Flush);
            self.end(piece.number, event.time_ns, self.last_process, piece.op);
        }
    }

    fn stray(&mut self, event: &Event) {
        self.events += 1;
        self.strays += 1;
        // Time advances; the process is unknown.
        if let Some(total) = self.total.as_mut() {
            total.last_ns = event.time_ns;
        }
    }
}

fn one_seek(process: &mut Process, request: &Request) {
    process.seeks.add(request.sector, request.sectors);
}
