//! Statistics of a trace, in total and per process. Implements [`crate::join::Watcher`]; `summary`
//! converts the result to a record.

mod depth;
mod sizes;
mod summary;

use headrace_model::histogram::Histogram;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::event::{Event, Op};
use crate::flight::{Change, Flight};
use crate::join::{Piece, Request, Watcher};
use crate::seeks::Seeks;
use depth::Depth;
use sizes::Sizes;

pub use summary::{summarise, Latency, OpSummary, Part, Summary};

const SECTOR_BYTES: u64 = 512;
/// Maximum number of processes counted separately; later ones are counted together.
const PROCESSES_AT_MOST: usize = 1024;
const DEPTHS: usize = 1025;

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Amount {
    pub count: u64,
    pub bytes: u64,
}

impl Amount {
    #[inline]
    fn add(&mut self, sectors: u32) {
        self.count += 1;
        self.bytes += u64::from(sectors) * SECTOR_BYTES;
    }

    fn merge(&mut self, other: Amount) {
        self.count += other.count;
        self.bytes += other.bytes;
    }
}

/// Counts by operation: read, write, flush, discard.
type ByOp = [Amount; 4];

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
    fn new(pid: Option<u32>, now_ns: u64) -> Process {
        Process {
            pid,
            queued: ByOp::default(),
            issued: ByOp::default(),
            completed: ByOp::default(),
            seeks: Seeks::default(),
            queue_seeks: Seeks::default(),
            queue_to_complete: Histogram::default(),
            dispatch_to_complete: Histogram::default(),
            depth: Depth::new(0, now_ns),
            first_ns: now_ns,
            last_ns: now_ns,
        }
    }

    /// Add the counts and latencies of another process.
    fn merge(&mut self, other: &Process) {
        for op in 0..self.queued.len() {
            self.queued[op].merge(other.queued[op]);
            self.issued[op].merge(other.issued[op]);
            self.completed[op].merge(other.completed[op]);
        }
        self.queue_to_complete.merge(&other.queue_to_complete);
        self.dispatch_to_complete.merge(&other.dispatch_to_complete);
    }
}

/// What is counted per device; seeks are those of its arm.
#[derive(Default)]
struct Device {
    number: u32,
    /// Issued requests; queued pieces in a trace without issues.
    amount: Amount,
    seeks: Seeks,
    queue_seeks: Seeks,
}

/// All statistics of a trace. What processes have counts of is added up at the end.
pub struct Statistics {
    processes: Vec<Process>,
    by_pid: FxHashMap<u32, u32>,
    /// Index of the aggregate of all processes beyond `PROCESSES_AT_MOST`.
    others: Option<usize>,
    /// Process ID of the last event, if there was one, and the index of its process.
    last_pid: u32,
    last_process: usize,
    first_ns: u64,
    last_ns: u64,
    /// Of all processes.
    depth: Depth,
    devices: Vec<Device>,
    /// Index of each device.
    by_number: FxHashMap<u32, usize>,
    last_device: usize,
    merges: u64,
    requeues: u64,
    strays: u64,
    sizes: [Sizes; 4],
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
            processes: Vec::new(),
            by_pid: FxHashMap::default(),
            others: None,
            last_pid: 0,
            last_process: 0,
            first_ns: 0,
            last_ns: 0,
            depth: Depth::new(DEPTHS, 0),
            devices: Vec::new(),
            by_number: FxHashMap::default(),
            last_device: 0,
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
    /// Return the process of an event at this time.
    #[inline]
    fn at(&mut self, pid: u32, now_ns: u64) -> &mut Process {
        if self.last_pid != pid || self.processes.is_empty() {
            self.change_process(pid, now_ns);
        }
        self.last_ns = now_ns;
        let one = &mut self.processes[self.last_process];
        one.last_ns = now_ns;
        one
    }

    fn change_process(&mut self, pid: u32, now_ns: u64) {
        self.last_pid = pid;
        self.last_process = match self.by_pid.get(&pid) {
            Some(&at) => at as usize,
            None => {
                let at = self.new_process(pid, now_ns);
                if self.by_pid.len() < 16 * PROCESSES_AT_MOST {
                    self.by_pid.insert(pid, at as u32);
                }
                at
            }
        };
    }

    /// Return the index at which a process that was not seen before is counted.
    fn new_process(&mut self, pid: u32, now_ns: u64) -> usize {
        let at = self.processes.len();
        if at == 0 {
            self.first_ns = now_ns;
            self.depth = Depth::new(DEPTHS, now_ns);
        }
        if at < PROCESSES_AT_MOST {
            self.processes.push(Process::new(Some(pid), now_ns));
            return at;
        }
        *self.others.get_or_insert_with(|| {
            self.processes.push(Process::new(None, now_ns));
            at
        })
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
        let Statistics { flight, depth, processes, .. } = self;
        match flight {
            None if counts => count_change(depth, processes, Change { time_ns, tag, by: 1 }),
            None => {}
            Some(flight) => {
                flight.begin(time_ns, tag, counts, |change| count_change(depth, processes, change));
            }
        }
    }

    #[inline]
    fn end(&mut self, number: u64, time_ns: u64, process: usize, op: Op) {
        let Statistics { flight, depth, processes, .. } = self;
        match flight {
            None if op != Op::Flush => {
                count_change(depth, processes, Change { time_ns, tag: process as u32, by: -1 });
            }
            None => {}
            Some(flight) => {
                flight.end(number, time_ns, |change| count_change(depth, processes, change))
            }
        }
    }

    /// Switch from counting queue events to counting issue events.
    #[cold]
    fn begin_counting_issues(&mut self) {
        self.by_issue = true;
        self.sizes = Default::default();
        (self.sector_low, self.sector_high) = (u64::MAX, 0);
        self.devices.iter_mut().for_each(|device| device.amount = Amount::default());
        self.flight = self.flight.take().map(|_| Flight::default());
        self.ended = 0;
        self.depth = Depth::new(DEPTHS, self.first_ns);
        for process in &mut self.processes {
            process.depth = Depth::new(0, process.first_ns);
        }
    }

    #[inline]
    fn on(&mut self, number: u32) -> &mut Device {
        if self.devices.get(self.last_device).is_none_or(|last| last.number != number) {
            self.change_device(number);
        }
        &mut self.devices[self.last_device]
    }

    fn change_device(&mut self, number: u32) {
        self.last_device = *self.by_number.entry(number).or_insert_with(|| {
            self.devices.push(Device { number, ..Device::default() });
            self.devices.len() - 1
        });
    }

    fn place(&mut self, sector: u64, sectors: u32, op: Op) {
        if op == Op::Read || op == Op::Write {
            self.sector_low = self.sector_low.min(sector);
            self.sector_high = self.sector_high.max(sector + u64::from(sectors));
        }
        self.sizes[op as usize].add(sectors);
    }
}

/// Count a change of the requests in flight, in total and for its process.
#[inline]
fn count_change(depth: &mut Depth, processes: &mut [Process], change: Change) {
    depth.change(change.time_ns, i64::from(change.by));
    processes[change.tag as usize].depth.change(change.time_ns, i64::from(change.by));
}

fn moves(op: Op) -> bool {
    op == Op::Read || op == Op::Write
}

impl Watcher for Statistics {
    #[inline]
    fn queued(&mut self, event: &Event, _: &Piece) {
        let Event { time_ns, sector, sectors, pid, device, op, .. } = *event;
        self.events += 1;
        let by_issue = self.by_issue;
        let one = self.at(pid, time_ns);
        one.queued[op as usize].add(sectors);
        // Only traces without issues are analysed by queue events.
        if by_issue {
            return;
        }
        if moves(op) {
            one.queue_seeks.add(sector, sectors);
            let device = self.on(device);
            device.queue_seeks.add(sector, sectors);
            device.amount.add(sectors);
            self.place(sector, sectors, op);
        }
        self.begin(time_ns, self.last_process, op);
    }

    fn merged(&mut self, event: &Event) {
        self.events += 1;
        self.merges += 1;
        self.at(event.pid, event.time_ns);
    }

    #[inline]
    fn issued(&mut self, request: &Request) {
        let Request { issue_ns, sector, sectors, device, pid, op, .. } = *request;
        self.events += 1;
        if !self.by_issue {
            self.begin_counting_issues();
        }
        let one = self.at(pid, issue_ns);
        one.issued[op as usize].add(sectors);
        if moves(op) {
            one.seeks.add(sector, sectors);
        }
        let device = self.on(device);
        device.amount.add(sectors);
        if moves(op) {
            device.seeks.add(sector, sectors);
        }
        self.place(sector, sectors, op);
        self.begin(issue_ns, self.last_process, op);
    }

    fn requeued(&mut self, request: &Request, requeue_ns: u64) {
        self.events += 1;
        self.requeues += 1;
        let amount = &mut self.at(request.pid, requeue_ns).issued[request.op as usize];
        amount.count -= 1;
        amount.bytes -= u64::from(request.sectors) * SECTOR_BYTES;
        self.end(request.number, requeue_ns, self.last_process, request.op);
    }

    fn dropped(&mut self, request: &Request, _: bool) {
        let Statistics { flight, depth, processes, .. } = self;
        if let Some(flight) = flight {
            flight.drop(request.number, |change| count_change(depth, processes, change));
        }
    }

    #[inline]
    fn completed(&mut self, request: &Request, complete_ns: u64) {
        self.events += 1;
        let dispatch_ns = complete_ns - request.issue_ns;
        let one = self.at(request.pid, complete_ns);
        one.completed[request.op as usize].add(request.sectors);
        one.dispatch_to_complete.add(dispatch_ns);
        if let Some(piece) = &request.first {
            one.queue_to_complete.add(complete_ns - piece.queue_ns);
        }
        for piece in &request.merged {
            one.queue_to_complete.add(complete_ns - piece.queue_ns);
        }
        let pieces = u64::from(request.first.is_some()) + request.merged.len() as u64;
        self.pieces_to_complete.add_times(dispatch_ns, pieces);
        self.ended += u64::from(request.op != Op::Flush);
        self.end(request.number, complete_ns, self.last_process, request.op);
    }

    fn piece_completed(&mut self, event: &Event, piece: &Piece) {
        self.events += 1;
        let one = self.at(piece.pid, event.time_ns);
        one.completed[event.op as usize].add(event.sectors);
        one.queue_to_complete.add(event.time_ns - piece.queue_ns);
        if !self.by_issue {
            self.ended += u64::from(piece.op != Op::Flush);
            self.end(piece.number, event.time_ns, self.last_process, piece.op);
        }
    }

    fn stray(&mut self, event: &Event) {
        self.events += 1;
        self.strays += 1;
        // Time advances; the process is unknown.
        if !self.processes.is_empty() {
            self.last_ns = event.time_ns;
        }
    }
}
