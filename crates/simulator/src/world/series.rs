//! Time series of drives, in bounded memory.

use headrace_model::scheduler::{LatencySum, QueueCounters};
use headrace_model::Nanos;

use crate::outcome::DriveSeries;

/// Maximum number of intervals of a drive, even. When a run reaches it, two intervals become one.
const MOST: usize = 1 << 16;

/// Records one drive's series.
#[derive(Debug)]
pub(crate) struct Sampler {
    pub interval_ns: u64,
    pub next: Nanos,
    pub before: QueueCounters,
    pub series: DriveSeries,
    /// Completed reads and writes of each interval, the weights of the mean latencies.
    completed: Vec<[u64; 2]>,
}

impl Sampler {
    pub fn new(interval_ns: u64) -> Self {
        Sampler {
            interval_ns,
            next: interval_ns,
            before: Default::default(),
            series: DriveSeries { interval_ns, ..DriveSeries::default() },
            completed: Vec::new(),
        }
    }

    /// Start the next interval at `at`. If there are too many, double the length of all.
    pub fn advance(&mut self, at: Nanos) {
        if self.completed.len() >= MOST {
            self.coarsen();
        }
        self.next = at.saturating_add(self.interval_ns);
    }

    /// Merge each two intervals into one. The number of intervals is even, and all are complete.
    fn coarsen(&mut self) {
        let s = &mut self.series;
        for (latency, which) in [(&mut s.read_latency_ns, 0), (&mut s.write_latency_ns, 1)] {
            let both = latency.chunks(2).zip(self.completed.chunks(2));
            *latency = both.map(|(mean, of)| weighted(mean, of, which)).collect();
        }
        self.completed =
            self.completed.chunks(2).map(|two| [0, 1].map(|of| two[0][of] + two[1][of])).collect();
        for sums in [&mut s.read_bytes, &mut s.written_bytes] {
            *sums = sums.chunks(2).map(|two| two[0] + two[1]).collect();
        }
        for counts in [&mut s.reads, &mut s.writes] {
            *counts = counts.chunks(2).map(|two| two[0].saturating_add(two[1])).collect();
        }
        for means in [&mut s.busy, &mut s.inside] {
            *means = means.chunks(2).map(|two| (two[0] + two[1]) / 2.0).collect();
        }
        self.interval_ns *= 2;
        s.interval_ns = self.interval_ns;
    }

    /// Append one interval of `span_ns`.
    pub fn close(&mut self, counters: &QueueCounters, span_ns: u64) {
        let (now, was, s) = (counters, &self.before, &mut self.series);
        let span = span_ns.max(1) as f64;
        s.read_bytes.push(now.read_bytes - was.read_bytes);
        s.written_bytes.push(now.written_bytes - was.written_bytes);
        s.reads.push((now.reads - was.reads) as u32);
        s.writes.push((now.writes - was.writes) as u32);
        s.busy.push(((now.busy_ns - was.busy_ns) as f64 / span) as f32);
        s.inside.push(((now.inside_ns - was.inside_ns) as f64 / span) as f32);
        s.read_latency_ns.push(mean_ns(&now.read_latency, &was.read_latency));
        s.write_latency_ns.push(mean_ns(&now.write_latency, &was.write_latency));
        self.completed.push([
            now.read_latency.requests - was.read_latency.requests,
            now.write_latency.requests - was.write_latency.requests,
        ]);
        self.before = *now;
    }
}

/// Return the mean of two intervals' mean latencies, by the number of completed requests.
fn weighted(means: &[f32], completed: &[[u64; 2]], which: usize) -> f32 {
    let requests: u64 = completed.iter().map(|of| of[which]).sum();
    let total = means.iter().zip(completed).map(|(&mean, of)| f64::from(mean) * of[which] as f64);
    (total.sum::<f64>() / requests.max(1) as f64) as f32
}

/// Return the mean latency of the requests completed between `was` and `now`, 0 if there were none.
fn mean_ns(now: &LatencySum, was: &LatencySum) -> f32 {
    let requests = now.requests - was.requests;
    if requests == 0 {
        return 0.0;
    }
    ((now.total_ns - was.total_ns) as f64 / requests as f64) as f32
}
