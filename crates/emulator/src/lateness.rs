//! How late answers went out: what says whether a trial can be trusted.

use hdrhistogram::Histogram;
use headrace_model::Nanos;
use serde::Serialize;

/// Lateness below this disturbs no request, however short.
const ALWAYS_ALLOWED_NS: Nanos = 30_000;

/// How much of its service time a request may be late.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    pub share: f64,
}

impl Bound {
    /// 4 % for a disk, 20 % for anything faster; 30 us in any case.
    pub fn of(rotational: bool) -> Self {
        Bound { share: if rotational { 0.04 } else { 0.2 } }
    }

    pub fn allowed_ns(&self, service: Nanos) -> Nanos {
        ALWAYS_ALLOWED_NS.max((service as f64 * self.share) as Nanos)
    }
}

/// What is published of it, nanoseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Lateness {
    pub timed: u64,
    pub past_bound: u64,
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

/// Counts it.
pub struct Meter {
    bound: Bound,
    late: Histogram<u64>,
    past_bound: u64,
}

impl Meter {
    pub fn new(bound: Bound) -> Self {
        const MINUTE_NS: u64 = 60_000_000_000;
        let late = match Histogram::new_with_bounds(1, MINUTE_NS, 2) {
            Ok(late) => late,
            Err(error) => unreachable!("bounds of a constant histogram: {error}"),
        };
        Meter { bound, late, past_bound: 0 }
    }

    /// An answer that was due at `due` went out at `at`; the drive took `service` for it.
    #[inline]
    pub fn note(&mut self, due: Nanos, at: Nanos, service: Nanos) {
        let late = at.saturating_sub(due);
        self.late.saturating_record(late.max(1));
        self.past_bound += u64::from(late > self.bound.allowed_ns(service));
    }

    pub fn reset(&mut self) {
        self.late.reset();
        self.past_bound = 0;
    }

    pub fn lateness(&self) -> Lateness {
        let at = |quantile| if self.late.is_empty() { 0 } else { self.late.value_at_quantile(quantile) };
        Lateness {
            timed: self.late.len(),
            past_bound: self.past_bound,
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            max: if self.late.is_empty() { 0 } else { self.late.max() },
        }
    }
}
