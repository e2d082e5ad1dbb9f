//! What is counted of a trace, in all and of each process. A watcher of [`crate::join::Join`]; `summary` makes a record of it.

mod summary;

use headrace_model::histogram::Histogram;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::event::{Event, Op};
use crate::join::{Piece, Request, Watcher};
use crate::seeks::Seeks;

pub use summary::{Latency, OpSummary, Part, Summary};

const SECTOR_BYTES: u64 = 512;
/// Processes that are counted apart; those that come later are counted together.
const PROCESSES_AT_MOST: usize = 1024;
/// The id under which the others are counted.
pub const OTHERS: u32 = u32::MAX;
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

/// Counts of requests by what they had to do with: read, write, flush, discard.
type ByOp = [Amount; 4];

/// How many are open over time.
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
    pid: u32,
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
    fn new(pid: u32, now_ns: u64, bins: usize) -> Process {
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

/// All that is counted.
pub struct Statistics {
    total: Option<Process>,
    processes: Vec<Process>,
    by_pid: FxHashMap<u32, u32>,
    last: (u32, usize),
    devices: FxHashMap<u32, Amount>,
    last_device: u32,
    of_device: Amount,
    /// Of each device, where its last request was: a seek is a matter of one drive.
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
}

impl Default for Statistics {
    fn default() -> Self {
        Statistics {
            total: None,
            processes: Vec::new(),
            by_pid: FxHashMap::default(),
            last: (OTHERS, usize::MAX),
            devices: FxHashMap::default(),
            last_device: u32::MAX,
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
        }
    }
}

impl Statistics {
    fn process(&mut self, pid: u32, now_ns: u64) -> usize {
        if self.last.0 == pid && self.last.1 != usize::MAX {
            return self.last.1;
        }
        let at = match self.by_pid.get(&pid) {
            Some(&at) => at as usize,
            None => {
                let known = if self.processes.len() < PROCESSES_AT_MOST { pid } else { OTHERS };
                let at = match self.by_pid.get(&known) {
                    Some(&at) => at as usize,
                    None => {
                        self.processes.push(Process::new(known, now_ns, 0));
                        self.by_pid.insert(known, self.processes.len() as u32 - 1);
                        self.processes.len() - 1
                    }
                };
                if self.by_pid.len() < 16 * PROCESSES_AT_MOST {
                    self.by_pid.insert(pid, at as u32);
                }
                at
            }
        };
        self.last = (pid, at);
        at
    }

    fn both(&mut self, pid: u32, now_ns: u64) -> (&mut Process, &mut Process) {
        let at = self.process(pid, now_ns);
        let total = self.total.get_or_insert_with(|| Process::new(0, now_ns, DEPTHS));
        total.last_ns = now_ns;
        let one = &mut self.processes[at];
        one.last_ns = now_ns;
        (total, one)
    }

    fn change_device(&mut self, device: u32) {
        if self.last_device != device {
            if self.last_device != u32::MAX {
                self.devices.insert(self.last_device, self.of_device);
                self.device_seeks.insert(self.last_device, std::mem::take(&mut self.seeks));
            }
            self.last_device = device;
            self.of_device = self.devices.get(&device).copied().unwrap_or_default();
            self.seeks = self.device_seeks.remove(&device).unwrap_or_default();
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
        // When there are so many different sizes, new ones are counted under the next power of two.
        let full = sizes.len() >= SIZES_AT_MOST;
        let size = if full { sectors.checked_next_power_of_two().unwrap_or(u32::MAX) } else { sectors };
        *sizes.entry(size).or_default() += 1;
    }
}

fn moves(op: Op) -> bool {
    op == Op::Read || op == Op::Write
}

impl Watcher for Statistics {
    #[inline]
    fn queued(&mut self, event: &Event, _: &Piece) {
        self.events += 1;
        self.change_device(event.device);
        let (total, one) = self.both(event.pid, event.time_ns);
        total.queued[event.op as usize].add(event.sectors);
        one.queued[event.op as usize].add(event.sectors);
        // Only a trace without issues is judged by what was queued.
        if total.issued.iter().all(|amount| amount.count == 0) && moves(event.op) {
            one.queue_seeks.add(event.sector, event.sectors);
            self.seeks.1.add(event.sector, event.sectors);
            self.place(event.sector, event.sectors, event.op);
            self.of_device.add(event.sectors);
        }
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
        let (total, one) = self.both(request.pid, request.issue_ns);
        let first = total.issued.iter().all(|amount| amount.count == 0);
        for part in [total, one] {
            part.issued[request.op as usize].add(request.sectors);
            part.depth.change(request.issue_ns, 1);
        }
        if moves(request.op) {
            one_seek(&mut self.processes[self.last.1], request);
            self.seeks.0.add(request.sector, request.sectors);
        }
        if first {
            // What was counted by its queueing until now is counted by its issue from here on.
            self.sizes = Default::default();
            (self.sector_low, self.sector_high) = (u64::MAX, 0);
            self.devices.clear();
            self.of_device = Amount::default();
        }
        self.place(request.sector, request.sectors, request.op);
        self.of_device.add(request.sectors);
    }

    fn requeued(&mut self, request: &Request) {
        self.events += 1;
        self.requeues += 1;
        let now_ns = self.total.as_ref().map_or(0, |total| total.last_ns);
        let (total, one) = self.both(request.pid, now_ns);
        for part in [total, one] {
            let amount = &mut part.issued[request.op as usize];
            amount.count -= 1;
            amount.bytes -= u64::from(request.sectors) * SECTOR_BYTES;
            part.depth.change(now_ns, -1);
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
            part.depth.change(complete_ns, -1);
            for piece in request.pieces() {
                part.queue_to_complete.add(complete_ns - piece.queue_ns);
            }
        }
        for _ in request.pieces() {
            self.pieces_to_complete.add(dispatch_ns);
        }
    }

    fn piece_completed(&mut self, event: &Event, piece: &Piece) {
        self.events += 1;
        let (total, one) = self.both(piece.pid, event.time_ns);
        for part in [total, one] {
            part.completed[event.op as usize].add(event.sectors);
            part.queue_to_complete.add(event.time_ns - piece.queue_ns);
        }
    }

    fn stray(&mut self, event: &Event) {
        self.events += 1;
        self.strays += 1;
        // Time goes on; whose it was is not known.
        if let Some(total) = self.total.as_mut() {
            total.last_ns = event.time_ns;
        }
    }
}

fn one_seek(process: &mut Process, request: &Request) {
    process.seeks.add(request.sector, request.sectors);
}
