//! What a drive did interval by interval, recorded while time passes.

use headrace_model::scheduler::QueueCounters;
use headrace_model::Nanos;

use super::World;
use crate::outcome::DriveSeries;

/// Records a drive's series, interval by interval.
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

    /// Adds one interval of `span_ns`.
    pub fn close(&mut self, counters: &QueueCounters, span_ns: u64) {
        let (now, was, s) = (counters, &self.before, &mut self.series);
        let span = span_ns.max(1) as f64;
        s.read_bytes.push(now.read_bytes - was.read_bytes);
        s.written_bytes.push(now.written_bytes - was.written_bytes);
        s.reads.push((now.reads - was.reads) as u32);
        s.writes.push((now.writes - was.writes) as u32);
        s.busy.push(((now.busy_ns - was.busy_ns) as f64 / span) as f32);
        s.inside.push(((now.inside_ns - was.inside_ns) as f64 / span) as f32);
        let completed = now.completed - was.completed;
        let latency = (now.latency_ns - was.latency_ns) as f64;
        s.latency_ns.push(if completed > 0 { (latency / completed as f64) as f32 } else { 0.0 });
        self.before = *now;
    }
}

impl World<'_> {
    /// Closes the intervals of a volume's series that are over.
    pub fn sample(&mut self, volume: u32) {
        let v = &mut self.volumes[volume as usize];
        let Some(sampler) = &mut v.series else { return };
        while sampler.next <= self.now {
            let at = sampler.next;
            v.queue.settle(at);
            sampler.close(v.queue.counters(), sampler.interval_ns);
            sampler.next = at + sampler.interval_ns;
        }
    }
}
