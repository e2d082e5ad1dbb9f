//! kyber: no sorting by sector, but limits on reads and writes in flight that shrink while
//! latencies miss their targets. After `block/kyber-iosched.c` (4.12 on).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::elevator::{Choice, Elevator};
use super::requests::{Queued, Requests};
use crate::request::Nanos;

/// Tunables with their sysfs names, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KyberTunables {
    pub read_lat_ns: u64,
    pub write_lat_ns: u64,
}

impl Default for KyberTunables {
    fn default() -> Self {
        KyberTunables { read_lat_ns: 2_000_000, write_lat_ns: 10_000_000 }
    }
}

/// Maximum requests in flight: reads, writes.
const DEPTH: [u32; 2] = [256, 128];
/// Consecutive requests of one direction.
const BATCH: [u32; 2] = [16, 8];
/// Period between adjustments of the depths, and samples required.
const PERIOD_NS: u64 = 100_000_000;
const MIN_SAMPLES: u32 = 128;

#[derive(Debug, Default)]
struct Domain {
    queue: VecDeque<u32>,
    in_drive: u32,
    depth: u32,
    /// Latencies of the period in quarters of the target: bin 4 starts at the target
    /// (KYBER_LATENCY_BUCKETS).
    bins: [u32; 8],
    samples: u32,
}

impl Domain {
    /// Return the bin of the given percentile; `None` with too few samples.
    fn percentile_bin(&self, percent: u32) -> Option<u32> {
        if self.samples < MIN_SAMPLES {
            return None;
        }
        let mut left = (self.samples * percent).div_ceil(100);
        for (bin, &count) in self.bins.iter().enumerate() {
            if count >= left {
                return Some(bin as u32);
            }
            left -= count;
        }
        Some(7)
    }
}

#[derive(Debug)]
pub(super) struct Kyber {
    targets: [u64; 2],
    domains: [Domain; 2],
    current: usize,
    batching: u32,
    period_ends: Nanos,
}

impl Kyber {
    pub(super) fn new(tunables: KyberTunables) -> Self {
        let domain = |direction: usize| Domain { depth: DEPTH[direction], ..Domain::default() };
        Kyber {
            targets: [tunables.read_lat_ns, tunables.write_lat_ns],
            domains: [domain(0), domain(1)],
            current: 0,
            batching: 0,
            period_ends: PERIOD_NS,
        }
    }

    fn dispatchable(&self, direction: usize) -> bool {
        let domain = &self.domains[direction];
        !domain.queue.is_empty() && domain.in_drive < domain.depth
    }

    /// Adjust the depths by the 99th percentiles of the period: a domain that meets its target
    /// while another misses its own gets less, one that misses its target gets more.
    fn adjust(&mut self) {
        let p90 = [self.domains[0].percentile_bin(90), self.domains[1].percentile_bin(90)];
        let bad = p90.iter().any(|bin| bin.is_some_and(|bin| bin >= 4));
        for (domain, depth) in self.domains.iter_mut().zip(DEPTH) {
            if let Some(p99) = domain.percentile_bin(99) {
                if bad || domain.depth < depth {
                    domain.depth = ((domain.depth * (p99 + 1)) >> 2).clamp(1, depth);
                }
            }
            domain.bins = [0; 8];
            domain.samples = 0;
        }
    }
}

impl Elevator for Kyber {
    fn insert(&mut self, _now: Nanos, index: u32, table: &Requests) {
        self.domains[table.get(index).direction()].queue.push_back(index);
    }

    fn next(&mut self, _now: Nanos, _in_drive: u32, _table: &Requests) -> Choice {
        let mut direction = self.current;
        if self.batching >= BATCH[direction] || !self.dispatchable(direction) {
            direction = 1 - direction;
            if !self.dispatchable(direction) {
                direction = 1 - direction;
                if !self.dispatchable(direction) {
                    return Choice::Empty;
                }
            }
            self.current = direction;
            self.batching = 0;
        }
        self.batching += 1;
        let domain = &mut self.domains[direction];
        domain.in_drive += 1;
        domain.queue.pop_front().map_or(Choice::Empty, Choice::Dispatch)
    }

    fn completed(&mut self, now: Nanos, request: &Queued) {
        let direction = request.direction();
        let quarter = (self.targets[direction] / 4).max(1);
        let domain = &mut self.domains[direction];
        domain.in_drive = domain.in_drive.saturating_sub(1);
        let bin = ((now - request.dispatched) / quarter).min(7) as usize;
        domain.bins[bin] += 1;
        domain.samples += 1;
        if now >= self.period_ends {
            self.period_ends = now + PERIOD_NS;
            self.adjust();
        }
    }
}
