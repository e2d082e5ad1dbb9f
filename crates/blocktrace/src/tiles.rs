//! A trace laid into the cells of pictures: offset against time, and what a column of time saw. The size of what comes out is that
//! of the picture, however long the trace.

use rustc_hash::FxHashMap;

use crate::event::Op;
use crate::follow::{Begun, Follower};
use crate::seeks::Seeks;

/// What part of a trace is laid out, and into how many cells.
#[derive(Clone, Debug)]
pub struct Window {
    pub from_ns: u64,
    pub to_ns: u64,
    pub sector_low: u64,
    pub sector_high: u64,
    pub columns: usize,
    pub rows: usize,
    /// Group of each process; those that are not named are in the last group.
    pub groups: FxHashMap<u32, u8>,
    pub group_count: usize,
}

/// Latencies are counted in bins of a tenth of a decade from here up.
pub const LATENCY_FROM_NS: f64 = 1e3;
pub const BINS_PER_DECADE: usize = 10;
pub const LATENCY_BINS: usize = 80;

/// The cells. Index of offsets: ((group * 2 + write) * rows + row) * columns + column.
pub struct Tiles {
    window: Window,
    pub offsets: Vec<u32>,
    /// By column, reads then writes.
    pub bytes: Vec<u64>,
    pub requests: Vec<u64>,
    pub seeks: Vec<u64>,
    /// Integral of the requests in flight over each column (ns), and the most at once.
    pub depth_ns: Vec<u64>,
    pub depth_max: Vec<u32>,
    /// bin * columns + column.
    pub latencies: Vec<u32>,
    depth: u32,
    since_ns: u64,
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
            depth_ns: vec![0; columns],
            depth_max: vec![0; columns],
            latencies: vec![0; LATENCY_BINS * columns],
            depth: 0,
            since_ns: window.from_ns,
            by_device: FxHashMap::default(),
            window,
        }
    }

    fn column(&self, time_ns: u64) -> Option<usize> {
        let Window { from_ns, to_ns, columns, .. } = self.window;
        if time_ns < from_ns || time_ns > to_ns {
            return None;
        }
        let span = u128::from(to_ns - from_ns) + 1;
        Some((u128::from(time_ns - from_ns) * columns as u128 / span) as usize)
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
        let group = self.window.groups.get(&pid).map_or(last, |&group| usize::from(group).min(last));
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

    fn change_depth(&mut self, now_ns: u64, by: i32) {
        let Window { from_ns, to_ns, columns, .. } = self.window;
        let until = now_ns.min(to_ns + 1);
        let mut at = self.since_ns.max(from_ns);
        let span = u128::from(to_ns - from_ns) + 1;
        while at < until {
            let Some(column) = self.column(at) else { break };
            let next = from_ns + ((column as u128 + 1) * span).div_ceil(columns as u128) as u64;
            let end = next.min(until).max(at + 1);
            self.depth_ns[column] += (end - at) * u64::from(self.depth);
            self.depth_max[column] = self.depth_max[column].max(self.depth);
            at = end;
        }
        self.since_ns = now_ns;
        self.depth = self.depth.saturating_add_signed(by);
        if let Some(column) = self.column(now_ns) {
            self.depth_max[column] = self.depth_max[column].max(self.depth);
        }
    }

    /// At the end of the trace.
    pub fn finish(&mut self) {
        self.change_depth(self.window.to_ns + 1, 0);
    }
}

impl Follower for Tiles {
    fn begun(&mut self, begun: &Begun) {
        self.place(begun);
        self.change_depth(begun.time_ns, 1);
    }

    fn withdrawn(&mut self, _: u64) {
        self.change_depth(self.since_ns, -1);
    }

    fn done(&mut self, _: u64, begin_ns: u64, complete_ns: u64) {
        self.latency(begin_ns, complete_ns - begin_ns);
        self.change_depth(complete_ns, -1);
    }
}
