//! Converts the statistics of a trace to a record: rates, fractions, distributions.

use headrace_model::histogram::Histogram;
use serde::Serialize;

use super::{count_change, moves, Amount, Device, Process, Statistics, SECTOR_BYTES};
use std::path::PathBuf;

use crate::damage::Damage;
use crate::event::{Names, Op, OPS};
use crate::seeks::Distances;
use crate::walk::{walk, Filter, Walked};

/// Latencies for a record.
#[derive(Debug, Serialize)]
pub struct Latency {
    pub count: u64,
    pub mean_ns: f64,
    pub p50_ns: f64,
    pub p90_ns: f64,
    pub p99_ns: f64,
    pub p999_ns: f64,
    pub max_ns: u64,
    pub lower_ns: Vec<u64>,
    pub bin_count: Vec<u64>,
}

fn latency(histogram: &Histogram) -> Option<Latency> {
    if histogram.count() == 0 {
        return None;
    }
    let bins = histogram.bins();
    Some(Latency {
        count: histogram.count(),
        mean_ns: histogram.mean_ns(),
        p50_ns: histogram.quantile_ns(0.5),
        p90_ns: histogram.quantile_ns(0.9),
        p99_ns: histogram.quantile_ns(0.99),
        p999_ns: histogram.quantile_ns(0.999),
        max_ns: histogram.max_ns(),
        lower_ns: bins.lower_ns,
        bin_count: bins.count,
    })
}

#[derive(Debug, Serialize)]
pub struct OpSummary {
    pub queued: Amount,
    pub issued: Amount,
    pub completed: Amount,
    /// Number of requests by size in bytes.
    pub sizes_bytes: Vec<(u64, u64)>,
}

#[derive(Debug, Serialize)]
pub struct Part {
    /// 0 for the total, `u32::MAX` for the processes that are counted together.
    pub pid: u32,
    pub name: String,
    pub first_ns: u64,
    pub last_ns: u64,
    pub read: OpSummary,
    pub write: OpSummary,
    pub flush: OpSummary,
    pub discard: OpSummary,
    /// Issued reads and writes; queued ones in a trace without issues.
    pub requests: u64,
    pub bytes: u64,
    /// Rates are `None` in a trace without times, because its duration is 0.
    pub iops: Option<f64>,
    pub rate_bytes_per_s: Option<f64>,
    pub seeks: u64,
    pub seeks_per_s: Option<f64>,
    /// `None` if no request has a predecessor.
    pub sequential_fraction: Option<f64>,
    pub seek_distance_absolute: Distances,
    pub seek_distance_closeness: Distances,
    /// For each queued piece of I/O.
    pub queue_to_complete: Option<Latency>,
    /// For each request.
    pub dispatch_to_complete: Option<Latency>,
    /// Time-weighted number of requests in flight with recorded completion; `None` if no completion
    /// was recorded.
    pub queue_depth_mean: Option<f64>,
    pub queue_depth_max: Option<usize>,
}

#[derive(Debug, Serialize)]
pub struct Summary {
    pub format: &'static str,
    pub devices: Vec<(u32, u32, u64)>,
    pub events: u64,
    pub duration_s: f64,
    pub merges: u64,
    pub requeues: u64,
    /// Completions of requests whose issue was not recorded.
    pub strays: u64,
    /// Requests whose completion was not recorded.
    pub unfinished: u64,
    /// Requests that were issued again without a requeue event: they are counted twice among the
    /// issued requests.
    pub reissues: u64,
    /// Events that the trace is known to lack.
    pub missing_events: u64,
    pub sector_low: u64,
    pub sector_high: u64,
    pub total: Part,
    /// Dispatch to complete, counted once for each queued piece of I/O in a request, as btt does.
    pub dispatch_to_complete_by_piece: Option<Latency>,
    /// Fraction of the time with 0, 1, 2 … requests in flight; empty if unknown.
    pub queue_depth_share: Vec<f64>,
    /// Ordered by bytes, largest first.
    pub processes: Vec<Part>,
}

/// Summarise a trace; `None` if it contains no requests. A trace with requests that never end is
/// read twice, because the number in flight is known only after these requests are identified.
/// `after` is called between batches; returning false stops the processing.
pub fn summarise(
    files: &[PathBuf],
    filter: &Filter,
    mut after: impl FnMut() -> bool,
) -> Result<(Option<Summary>, Walked), Box<Damage>> {
    let mut statistics = Statistics::default();
    let mut walked = walk(files, filter, &mut statistics, |_| after())?;
    if statistics.ended > 0 && walked.unfinished + walked.reissues > 0 {
        statistics = Statistics::exact();
        walked = walk(files, filter, &mut statistics, |_| after())?;
    }
    Ok((statistics.summary(&walked), walked))
}

impl Statistics {
    /// Return the summary, or `None` if nothing was counted.
    pub fn summary(mut self, walked: &Walked) -> Option<Summary> {
        let total = self.close()?;
        let (by_issue, names) = (self.by_issue, &walked.names);
        let duration_s = (total.last_ns - total.first_ns) as f64 / 1e9;
        let known = Known { duration_s, by_issue, depth: self.ended > 0 };
        let mut processes: Vec<Part> = self
            .processes
            .iter()
            .filter(|process| {
                process.queued.iter().chain(&process.issued).any(|amount| amount.count > 0)
            })
            .map(|process| part(process, process_of(process, names), &known, None))
            .collect();
        processes.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.pid.cmp(&b.pid)));
        let whole = (0, names.get(&0).cloned().unwrap_or_default());
        Some(Summary {
            format: walked.format,
            devices: self.device_counts(),
            events: self.events,
            duration_s,
            merges: self.merges,
            requeues: self.requeues,
            strays: self.strays,
            unfinished: walked.unfinished,
            reissues: walked.reissues,
            missing_events: walked.missing,
            sector_low: self.sector_low.min(self.sector_high),
            sector_high: self.sector_high,
            dispatch_to_complete_by_piece: latency(&self.pieces_to_complete),
            queue_depth_share: if known.depth { depth_share(&total) } else { Vec::new() },
            total: part(&total, whole, &known, Some(&self.size_counts())),
            processes,
        })
    }

    /// Account for everything up to the end of the trace and return the total.
    fn close(&mut self) -> Option<Process> {
        let Statistics { flight, depth, processes, .. } = self;
        if let Some(flight) = flight {
            flight.finish(|change| count_change(depth, processes, change));
        }
        if processes.is_empty() {
            return None;
        }
        let mut total = Process::new(None, self.first_ns);
        total.last_ns = self.last_ns;
        total.depth = self.depth.clone();
        total.depth.change(total.last_ns, 0);
        self.processes.iter().for_each(|process| total.merge(process));
        let by_issue = self.by_issue;
        for device in &self.devices {
            let seeks = if by_issue { &device.seeks } else { &device.queue_seeks };
            total.seeks = total.seeks.and(seeks);
        }
        for process in &mut self.processes {
            process.depth.change(process.last_ns, 0);
            if !by_issue {
                process.seeks = std::mem::take(&mut process.queue_seeks);
            }
        }
        Some(total)
    }

    /// Return the number of requests by size in bytes, for each operation.
    fn size_counts(&self) -> Vec<Vec<(u64, u64)>> {
        let bytes = |(sectors, count)| (u64::from(sectors) * SECTOR_BYTES, count);
        self.sizes.iter().map(|sizes| sizes.counts().into_iter().map(bytes).collect()).collect()
    }

    /// Return major number, minor number and requests of each device.
    fn device_counts(&self) -> Vec<(u32, u32, u64)> {
        let mut devices: Vec<(u32, u32, u64)> = self
            .devices
            .iter()
            .filter(|device| device.amount.count > 0)
            .map(|Device { number, amount, .. }| (number >> 20, number & 0xf_ffff, amount.count))
            .collect();
        devices.sort_unstable();
        devices
    }
}

/// Return the fraction of the time with 0, 1, 2 … requests in flight.
fn depth_share(total: &Process) -> Vec<f64> {
    let time_ns = &total.depth.time_ns;
    let spent: u64 = time_ns.iter().sum();
    let deepest = time_ns.iter().rposition(|&time| time > 0).map_or(0, |at| at + 1);
    time_ns[..deepest].iter().map(|&time| time as f64 / spent as f64).collect()
}

/// Return the process ID and name that a record has for a process.
fn process_of(process: &Process, names: &Names) -> (u32, String) {
    match process.pid {
        Some(pid) => (pid, names.get(&pid).cloned().unwrap_or_default()),
        None => (u32::MAX, "(others)".to_owned()),
    }
}

/// What is known about a trace.
struct Known {
    /// 0 in a trace without times.
    duration_s: f64,
    by_issue: bool,
    /// Whether the number of requests in flight is known.
    depth: bool,
}

impl Known {
    fn per_s(&self, count: u64) -> Option<f64> {
        (self.duration_s > 0.0).then(|| count as f64 / self.duration_s)
    }
}

fn part(
    process: &Process,
    (pid, name): (u32, String),
    known: &Known,
    sizes: Option<&[Vec<(u64, u64)>]>,
) -> Part {
    let summary = |op: Op| OpSummary {
        queued: process.queued[op as usize],
        issued: process.issued[op as usize],
        completed: process.completed[op as usize],
        sizes_bytes: sizes.map(|sizes| sizes[op as usize].clone()).unwrap_or_default(),
    };
    let counted = if known.by_issue { &process.issued } else { &process.queued };
    let moved = OPS.iter().filter(|op| moves(**op)).map(|op| counted[*op as usize]);
    let (requests, bytes) =
        moved.fold((0, 0), |sum, amount| (sum.0 + amount.count, sum.1 + amount.bytes));
    Part {
        pid,
        name,
        first_ns: process.first_ns,
        last_ns: process.last_ns,
        read: summary(Op::Read),
        write: summary(Op::Write),
        flush: summary(Op::Flush),
        discard: summary(Op::Discard),
        requests,
        bytes,
        iops: known.per_s(requests),
        rate_bytes_per_s: known.per_s(bytes),
        seeks: process.seeks.seeks(),
        seeks_per_s: known.per_s(process.seeks.seeks()),
        sequential_fraction: (process.seeks.followed > 0)
            .then(|| process.seeks.sequential as f64 / process.seeks.followed as f64),
        seek_distance_absolute: process.seeks.absolute(),
        seek_distance_closeness: process.seeks.closeness(),
        queue_to_complete: latency(&process.queue_to_complete),
        dispatch_to_complete: latency(&process.dispatch_to_complete),
        queue_depth_mean: (known.depth && known.duration_s > 0.0)
            .then(|| process.depth.sum as f64 / (known.duration_s * 1e9)),
        queue_depth_max: known.depth.then_some(process.depth.max),
    }
}
