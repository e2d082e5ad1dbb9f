//! What was counted of a trace, as a record has it: rates, fractions, distributions.

use headrace_model::histogram::Histogram;
use serde::Serialize;

use super::{moves, Amount, Process, Statistics, OTHERS, SECTOR_BYTES};
use crate::event::{Names, Op, OPS};
use crate::seeks::{Distances, Seeks};

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
    /// Requests by size in bytes.
    pub sizes_bytes: Vec<(u64, u64)>,
}

#[derive(Debug, Serialize)]
pub struct Part {
    pub pid: u32,
    pub name: String,
    pub first_ns: u64,
    pub last_ns: u64,
    pub read: OpSummary,
    pub write: OpSummary,
    pub flush: OpSummary,
    pub discard: OpSummary,
    /// Reads and writes: of what was issued; of what was queued in a trace without issues.
    pub requests: u64,
    pub bytes: u64,
    pub iops: f64,
    pub rate_bytes_per_s: f64,
    pub seeks: u64,
    pub seeks_per_s: f64,
    pub sequential_fraction: f64,
    pub seek_distance_absolute: Distances,
    pub seek_distance_closeness: Distances,
    /// Of each queued piece of I/O.
    pub queue_to_complete: Option<Latency>,
    /// Of each request.
    pub dispatch_to_complete: Option<Latency>,
    pub queue_depth_mean: f64,
    pub queue_depth_max: usize,
}

#[derive(Debug, Serialize)]
pub struct Summary {
    pub format: &'static str,
    pub devices: Vec<(u32, u32, u64)>,
    pub events: u64,
    pub duration_s: f64,
    pub merges: u64,
    pub requeues: u64,
    /// Completions of requests whose issue was not seen.
    pub strays: u64,
    /// Requests whose completion was not seen.
    pub unfinished: u64,
    pub sector_low: u64,
    pub sector_high: u64,
    pub total: Part,
    /// Dispatch to complete, counted once for each queued piece of I/O that a request carried, as btt does.
    pub dispatch_to_complete_by_piece: Option<Latency>,
    /// Share of the time with so many requests in flight, from none up.
    pub queue_depth_share: Vec<f64>,
    /// Those with the most bytes first.
    pub processes: Vec<Part>,
}

impl Statistics {
    /// What was counted, or None when nothing was.
    pub fn summary(mut self, format: &'static str, names: &Names, unfinished: u64) -> Option<Summary> {
        let mut total = self.total.take()?;
        self.change_device(u32::MAX - 1);
        let by_issue = total.issued.iter().any(|amount| amount.count > 0);
        total.depth.change(total.last_ns, 0);
        let duration_s = (total.last_ns - total.first_ns).max(1) as f64 / 1e9;
        let seeks = self.device_seeks.values().map(|pair| if by_issue { &pair.0 } else { &pair.1 });
        total.seeks = seeks.fold(Seeks::default(), |sum, seeks| sum.and(seeks));
        for process in &mut self.processes {
            process.depth.change(process.last_ns, 0);
            if !by_issue {
                process.seeks = std::mem::take(&mut process.queue_seeks);
            }
        }
        let sizes: Vec<Vec<(u64, u64)>> = self
            .sizes
            .iter()
            .map(|sizes| {
                let mut sizes: Vec<(u64, u64)> = sizes
                    .iter()
                    .map(|(&sectors, &count)| (u64::from(sectors) * SECTOR_BYTES, count))
                    .collect();
                sizes.sort_unstable();
                sizes
            })
            .collect();
        let spent: u64 = total.depth.time_ns.iter().sum();
        let deepest = total.depth.time_ns.iter().rposition(|&time| time > 0).map_or(0, |at| at + 1);
        let share =
            total.depth.time_ns[..deepest].iter().map(|&time| time as f64 / spent.max(1) as f64).collect();
        let mut processes: Vec<Part> = self
            .processes
            .iter()
            .filter(|process| process.queued.iter().chain(&process.issued).any(|amount| amount.count > 0))
            .map(|process| part(process, names, duration_s, by_issue, None))
            .collect();
        processes.sort_by(|a, b| b.bytes.cmp(&a.bytes).then(a.pid.cmp(&b.pid)));
        let mut devices: Vec<(u32, u32, u64)> = self
            .devices
            .iter()
            .filter(|(_, amount)| amount.count > 0)
            .map(|(device, amount)| (device >> 20, device & 0xf_ffff, amount.count))
            .collect();
        devices.sort_unstable();
        Some(Summary {
            format,
            devices,
            events: self.events,
            duration_s,
            merges: self.merges,
            requeues: self.requeues,
            strays: self.strays,
            unfinished,
            sector_low: self.sector_low.min(self.sector_high),
            sector_high: self.sector_high,
            dispatch_to_complete_by_piece: latency(&self.pieces_to_complete),
            queue_depth_share: share,
            total: part(&total, names, duration_s, by_issue, Some(&sizes)),
            processes,
        })
    }
}

fn part(
    process: &Process,
    names: &Names,
    duration_s: f64,
    by_issue: bool,
    sizes: Option<&[Vec<(u64, u64)>]>,
) -> Part {
    let summary = |op: Op| OpSummary {
        queued: process.queued[op as usize],
        issued: process.issued[op as usize],
        completed: process.completed[op as usize],
        sizes_bytes: sizes.map(|sizes| sizes[op as usize].clone()).unwrap_or_default(),
    };
    let counted = if by_issue { &process.issued } else { &process.queued };
    let moved = OPS.iter().filter(|op| moves(**op)).map(|op| counted[*op as usize]);
    let (requests, bytes) = moved.fold((0, 0), |sum, amount| (sum.0 + amount.count, sum.1 + amount.bytes));
    let name = match process.pid {
        OTHERS => "(others)".to_owned(),
        pid => names.get(&pid).cloned().unwrap_or_default(),
    };
    Part {
        pid: process.pid,
        name,
        first_ns: process.first_ns,
        last_ns: process.last_ns,
        read: summary(Op::Read),
        write: summary(Op::Write),
        flush: summary(Op::Flush),
        discard: summary(Op::Discard),
        requests,
        bytes,
        iops: requests as f64 / duration_s,
        rate_bytes_per_s: bytes as f64 / duration_s,
        seeks: process.seeks.seeks(),
        seeks_per_s: process.seeks.seeks() as f64 / duration_s,
        sequential_fraction: process.seeks.sequential as f64 / process.seeks.followed.max(1) as f64,
        seek_distance_absolute: process.seeks.absolute(),
        seek_distance_closeness: process.seeks.closeness(),
        queue_to_complete: latency(&process.queue_to_complete),
        dispatch_to_complete: latency(&process.dispatch_to_complete),
        queue_depth_mean: process.depth.sum as f64 / (duration_s * 1e9),
        queue_depth_max: process.depth.max,
    }
}
