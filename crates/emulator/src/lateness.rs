//! Completion delays: how late replies were sent. They determine whether a trial is valid.

use hdrhistogram::Histogram;
use headrace_model::Nanos;
use serde::Serialize;

/// Completion delays below this are harmless for any request.
const ALWAYS_ALLOWED_NS: Nanos = 30_000;

/// Allowed completion delay as a fraction of the service time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    pub share: f64,
}

impl Bound {
    /// Return the bound: 4 % for a hard disk, 20 % for anything faster; 30 us are always allowed.
    pub fn of(rotational: bool) -> Self {
        Bound { share: if rotational { 0.04 } else { 0.2 } }
    }

    pub fn allowed_ns(&self, service: Nanos) -> Nanos {
        ALWAYS_ALLOWED_NS.max((service as f64 * self.share) as Nanos)
    }
}

/// Published completion delays, nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Lateness {
    pub timed: u64,
    pub past_bound: u64,
    pub mean: f64,
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// Delay of threads that pass requests to the emulator: the wake-up delay of a thread with the
/// priority of the loop driver's worker, or the time from issue to arrival. Where the times of issue
/// are known, what the model cannot catch up of it is part of `Lateness`.
#[derive(Clone, Debug, Serialize)]
pub struct KernelWake {
    pub mean: f64,
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
}

fn histogram() -> Histogram<u64> {
    const MINUTE_NS: u64 = 60_000_000_000;
    match Histogram::new_with_bounds(1, MINUTE_NS, 2) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("bounds of a constant histogram: {error}"),
    }
}

fn at(histogram: &Histogram<u64>, quantile: f64) -> u64 {
    if histogram.is_empty() {
        0
    } else {
        histogram.value_at_quantile(quantile)
    }
}

/// Records delays of threads that pass requests to the emulator.
pub struct WakeMeter {
    late: Histogram<u64>,
}

impl Default for WakeMeter {
    fn default() -> Self {
        WakeMeter { late: histogram() }
    }
}

impl WakeMeter {
    pub fn note(&mut self, late: Nanos) {
        self.late.saturating_record(late.max(1));
    }

    pub fn reset(&mut self) {
        self.late.reset();
    }

    pub fn kernel_wake(&self) -> KernelWake {
        KernelWake {
            mean: if self.late.is_empty() { 0.0 } else { self.late.mean() },
            p50: at(&self.late, 0.5),
            p99: at(&self.late, 0.99),
            p999: at(&self.late, 0.999),
        }
    }
}

/// Records completion delays.
pub struct Meter {
    bound: Bound,
    late: Histogram<u64>,
    past_bound: u64,
    late_ns: u128,
    service_ns: u128,
}

impl Meter {
    pub fn new(bound: Bound) -> Self {
        Meter { bound, late: histogram(), past_bound: 0, late_ns: 0, service_ns: 0 }
    }

    /// Return the mean over all replies.
    fn mean(&self, sum: u128) -> f64 {
        if self.late.is_empty() {
            0.0
        } else {
            sum as f64 / self.late.len() as f64
        }
    }

    /// Return the drive's mean service time.
    pub fn service_ns_mean(&self) -> f64 {
        self.mean(self.service_ns)
    }

    /// Record a reply that was due at `due` and sent at `at`, with the drive's service time.
    #[inline]
    pub fn note(&mut self, due: Nanos, at: Nanos, service: Nanos) {
        let late = at.saturating_sub(due);
        self.late.saturating_record(late.max(1));
        self.late_ns += u128::from(late);
        self.service_ns += u128::from(service);
        self.past_bound += u64::from(late > self.bound.allowed_ns(service));
    }

    pub fn reset(&mut self) {
        self.late.reset();
        self.past_bound = 0;
        self.late_ns = 0;
        self.service_ns = 0;
    }

    pub fn lateness(&self) -> Lateness {
        Lateness {
            timed: self.late.len(),
            past_bound: self.past_bound,
            mean: self.mean(self.late_ns),
            p50: at(&self.late, 0.5),
            p99: at(&self.late, 0.99),
            p999: at(&self.late, 0.999),
            max: if self.late.is_empty() { 0 } else { self.late.max() },
        }
    }
}
