//! Time series of drives.

use headrace_model::scheduler::{LatencySum, QueueCounters};
use headrace_model::Nanos;

use crate::outcome::DriveSeries;

/// Records one drive's series.
#[derive(Debug)]
pub(crate) struct Sampler {
    pub interval_ns: u64,
    pub next: Nanos,
    pub before: QueueCounters,
    pub series: DriveSeries,
}

impl Sampler {
    pub fn new(interval_ns: u64) -> Self {
        Sampler {
            interval_ns,
            next: interval_ns,
            before: Default::default(),
            series: DriveSeries { interval_ns, ..DriveSeries::default() },
        }
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
        self.before = *now;
    }
}

/// Return the mean latency of the requests completed between `was` and `now`, 0 if there were none.
fn mean_ns(now: &LatencySum, was: &LatencySum) -> f32 {
    let requests = now.requests - was.requests;
    if requests == 0 {
        return 0.0;
    }
    ((now.total_ns - was.total_ns) as f64 / requests as f64) as f32
}
