//! Aggregates a trace into the cells of plots: offset over time, and values per time column. The
//! result has the size of the plot, independent of the length of the trace.

use rustc_hash::FxHashMap;

use crate::event::Op;
use crate::flight::{Change, Flight};
use crate::follow::{Begun, Ended, Follower};
use crate::seeks::Seeks;

/// The plotted part of a trace and the number of cells.
#[derive(Clone, Debug)]
pub struct Window {
    pub from_ns: u64,
    pub to_ns: u64,
    pub sector_low: u64,
    pub sector_high: u64,
    pub columns: usize,
    pub rows: usize,
    /// Group of each process; processes not listed are in the last group.
    pub groups: FxHashMap<u32, u8>,
    pub group_count: usize,
    /// Some requests of the trace never end and do not count as in flight: deciding which takes
    /// longer.
    pub exact: bool,
}

/// Latencies are counted in bins of a tenth of a decade, starting at this value.
pub const LATENCY_FROM_NS: f64 = 1e3;
pub const BINS_PER_DECADE: usize = 10;
pub const LATENCY_BINS: usize = 80;

/// The cells. Index of `offsets`: ((group * 2 + write) * rows + row) * columns + column.
pub struct Tiles {
    window: Window,
    pub offsets: Vec<u32>,
    /// By column, first reads, then writes.
    pub bytes: Vec<u64>,
    pub requests: Vec<u64>,
    pub seeks: Vec<u64>,
    pub depth: Depth,
    /// Index: bin * columns + column.
    pub latencies: Vec<u32>,
    flight: Option<Flight>,
    by_device: FxHashMap<u32, Seeks>,
}

impl Tiles {
    pub fn new(window: Window) -> Tiles {
        let columns = window.columns;
        Tiles {
            offsets: vec![0; window.group_count * 2 * window.rows * columns],
            bytes: vec![0; 2 * columns],
            requests: vec![0; 2 * columns],
            seeks: vec![0; columns],
            depth: Depth::new(&window),
            latencies: vec![0; LATENCY_BINS * columns],
            flight: window.exact.then(Flight::default),
            by_device: FxHashMap::default(),
            window,
        }
    }

    fn column(&self, time_ns: u64) -> Option<usize> {
        column(self.window.from_ns, self.window.to_ns, self.window.columns, time_ns)
    }

    fn row(&self, sector: u64) -> usize {
        let Window { sector_low, sector_high, rows, .. } = self.window;
        let span = u128::from(sector_high.saturating_sub(sector_low)).max(1);
        ((u128::from(sector - sector_low) * rows as u128 / span) as usize).min(rows - 1)
    }

    fn place(&mut self, begun: &Begun) {
        let Begun { time_ns, device, pid, op, sector, sectors, .. } = *begun;
        if op != Op::Read && op != Op::Write {
            return;
        }
        let seek = self.by_device.entry(device).or_default().add(sector, sectors);
        let Some(column) = self.column(time_ns) else { return };
        let write = usize::from(op == Op::Write);
        self.bytes[write * self.window.columns + column] += u64::from(sectors) * 512;
        self.requests[write * self.window.columns + column] += 1;
        self.seeks[column] += u64::from(seek);
        let end = sector + u64::from(sectors);
        if end <= self.window.sector_low || sector >= self.window.sector_high {
            return;
        }
        let last = self.window.group_count - 1;
        let group =
            self.window.groups.get(&pid).map_or(last, |&group| usize::from(group).min(last));
        let from = self.row(sector.max(self.window.sector_low));
        let to = self.row((end - 1).max(self.window.sector_low));
        let plane = (group * 2 + write) * self.window.rows;
        for row in from..=to {
            let cell = &mut self.offsets[(plane + row) * self.window.columns + column];
            *cell = cell.saturating_add(1);
        }
    }

    fn latency(&mut self, issue_ns: u64, latency_ns: u64) {
        let Some(column) = self.column(issue_ns) else { return };
        let decades = (latency_ns.max(1) as f64 / LATENCY_FROM_NS).log10();
        let bin = (decades * BINS_PER_DECADE as f64).clamp(0.0, (LATENCY_BINS - 1) as f64) as usize;
        let cell = &mut self.latencies[bin * self.window.columns + column];
        *cell = cell.saturating_add(1);
    }

    /// Call at the end of the trace.
    pub fn finish(&mut self) {
        let Tiles { flight, depth, .. } = self;
        if let Some(flight) = flight {
            flight.finish(|change| depth.change(change.time_ns, change.by));
        }
        depth.change(depth.to_ns.saturating_add(1), 0);
    }
}

/// Requests in flight per column, counting only those with a known end.
pub struct Depth {
    /// Requests in flight, integrated over each column.
    pub ns: Vec<u64>,
    /// Maximum per column.
    pub max: Vec<u32>,
    from_ns: u64,
    to_ns: u64,
    now: u32,
    since_ns: u64,
    /// The column of `since_ns` and its end; 0 if the time is outside the window.
    column: usize,
    until_ns: u64,
}

impl Depth {
    fn new(window: &Window) -> Depth {
        let Window { from_ns, to_ns, columns, .. } = *window;
        Depth {
            ns: vec![0; columns],
            max: vec![0; columns],
            from_ns,
            to_ns,
            now: 0,
            since_ns: from_ns,
            column: 0,
            until_ns: 0,
        }
    }

    #[inline]
    fn change(&mut self, now_ns: u64, by: i32) {
        if self.since_ns > self.to_ns {
            return; // after the last column: ignored
        }
        if now_ns < self.until_ns && now_ns >= self.since_ns {
            self.ns[self.column] += (now_ns - self.since_ns) * u64::from(self.now);
        } else {
            self.spread(now_ns);
        }
        self.since_ns = now_ns;
        self.now = self.now.saturating_add_signed(by);
        if now_ns < self.until_ns {
            self.max[self.column] = self.max[self.column].max(self.now);
        }
    }

    /// Advance to a time after the current column.
    #[cold]
    fn spread(&mut self, now_ns: u64) {
        let columns = self.ns.len();
        let until = now_ns.min(self.to_ns.saturating_add(1));
        let mut at = self.since_ns.max(self.from_ns);
        while at < until {
            let Some(column) = column(self.from_ns, self.to_ns, columns, at) else { break };
            let end = self.end_of(column).min(until).max(at + 1);
            self.ns[column] += (end - at) * u64::from(self.now);
            self.max[column] = self.max[column].max(self.now);
            at = end;
        }
        match column(self.from_ns, self.to_ns, columns, now_ns) {
            Some(column) => {
                (self.column, self.until_ns) =
                    (column, self.end_of(column).min(self.to_ns.saturating_add(1)))
            }
            None => self.until_ns = 0,
        }
    }

    fn end_of(&self, column: usize) -> u64 {
        let span = u128::from(self.to_ns - self.from_ns) + 1;
        self.from_ns + ((column as u128 + 1) * span).div_ceil(self.ns.len() as u128) as u64
    }
}

/// Return the column of a time.
fn column(from_ns: u64, to_ns: u64, columns: usize, time_ns: u64) -> Option<usize> {
    if time_ns < from_ns || time_ns > to_ns {
        return None;
    }
    let span = u128::from(to_ns - from_ns) + 1;
    Some((u128::from(time_ns - from_ns) * columns as u128 / span) as usize)
}

impl Follower for Tiles {
    fn begun(&mut self, begun: &Begun) {
        self.place(begun);
        let Tiles { flight, depth, .. } = self;
        let counts = begun.op != Op::Flush;
        match flight {
            None => depth.change(begun.time_ns, i32::from(counts)),
            Some(flight) => {
                flight.begin(begun.time_ns, 0, counts, |change| {
                    depth.change(change.time_ns, change.by)
                });
            }
        }
    }

    fn withdrawn(&mut self, number: u64, returned_ns: Option<u64>) {
        let Tiles { flight, depth, .. } = self;
        let each = |change: Change| depth.change(change.time_ns, change.by);
        match (flight, returned_ns) {
            (None, Some(time_ns)) => depth.change(time_ns, -1),
            (None, None) => {}
            (Some(flight), Some(time_ns)) => flight.end(number, time_ns, each),
            (Some(flight), None) => flight.drop(number, each),
        }
    }

    fn abandoned(&mut self, number: u64) {
        self.withdrawn(number, None);
    }

    fn done(&mut self, ended: &Ended) {
        self.latency(ended.begin_ns, ended.complete_ns - ended.begin_ns);
        let Tiles { flight, depth, .. } = self;
        match flight {
            None => depth.change(ended.complete_ns, -i32::from(ended.op != Op::Flush)),
            Some(flight) => {
                flight.end(ended.number, ended.complete_ns, |change| {
                    depth.change(change.time_ns, change.by)
                });
            }
        }
    }
}
