//! An ideal drive: a number of equal channels, a service time and a rate, nothing else.
//!
//! It stands for storage whose inside is not known (a filer's array of which only the rates are published) and it is
//! the M/D/1 and M/M/1 server that queues are checked against. No position, no state, no seek.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::request::{Completion, Device, Fault, Nanos, Op, Request, Status, SECTOR_BYTES};
use crate::stream::Stream;

/// How service times vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceTime {
    #[default]
    Constant,
    Exponential,
}

/// An ideal drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdealSpec {
    pub capacity_bytes: u64,
    /// Time of a request beside its transfer.
    pub read_ns: u64,
    pub write_ns: u64,
    /// Rates of one channel; 0 for no limit.
    #[serde(default)]
    pub read_bytes_per_s: f64,
    #[serde(default)]
    pub write_bytes_per_s: f64,
    #[serde(default = "one")]
    pub channels: u32,
    #[serde(default)]
    pub service_time: ServiceTime,
    #[serde(default)]
    pub idle_w: f64,
    #[serde(default)]
    pub active_w: f64,
}

fn one() -> u32 {
    1
}

/// The model of it.
#[derive(Debug)]
pub struct IdealDrive {
    spec: IdealSpec,
    stream: Stream,
    /// When each channel is free.
    free_at: BinaryHeap<Reverse<Nanos>>,
    pending: BinaryHeap<Reverse<(Nanos, u64, u64, bool)>>,
    sequence: u64,
    last_done: Nanos,
    busy_channel_ns: u128,
}

impl IdealDrive {
    pub fn new(spec: &IdealSpec, seed: u64) -> Self {
        IdealDrive {
            spec: spec.clone(),
            stream: Stream::new(seed, "ideal/service"),
            free_at: (0..spec.channels.max(1)).map(|_| Reverse(0)).collect(),
            pending: BinaryHeap::new(),
            sequence: 0,
            last_done: 0,
            busy_channel_ns: 0,
        }
    }

    fn service_ns(&mut self, request: &Request) -> u64 {
        let (fixed, rate) = match request.op {
            Op::Read => (self.spec.read_ns, self.spec.read_bytes_per_s),
            Op::Write | Op::WriteZeroes => (self.spec.write_ns, self.spec.write_bytes_per_s),
            Op::Flush | Op::Discard => return 0,
        };
        let bytes = (u64::from(request.sectors) * SECTOR_BYTES) as f64;
        let mean = fixed as f64 + if rate > 0.0 { bytes / rate * 1e9 } else { 0.0 };
        match self.spec.service_time {
            ServiceTime::Constant => mean as u64,
            ServiceTime::Exponential => self.stream.exponential(mean) as u64,
        }
    }
}

impl Device for IdealDrive {
    fn capacity_sectors(&self) -> u64 {
        self.spec.capacity_bytes / SECTOR_BYTES
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        let out_of_range = request.sector + u64::from(request.sectors) > self.capacity_sectors();
        let done = match request.op {
            _ if out_of_range => now,
            // On stable storage when everything before it is.
            Op::Flush => self.last_done.max(now),
            _ => {
                let service = self.service_ns(&request);
                let Reverse(free) = self.free_at.pop().unwrap_or(Reverse(now));
                let done = free.max(now) + service;
                self.free_at.push(Reverse(done));
                self.busy_channel_ns += u128::from(service);
                self.last_done = self.last_done.max(done);
                done
            }
        };
        self.sequence += 1;
        self.pending.push(Reverse((done, self.sequence, request.tag, out_of_range)));
    }

    fn wake(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        while let Some(&Reverse((time, _, tag, out_of_range))) = self.pending.peek() {
            if time > now {
                break;
            }
            self.pending.pop();
            let status = if out_of_range { Status::Failed(Fault::OutOfRange) } else { Status::Done };
            out.push(Completion { tag, time, status });
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.pending.peek().map(|&Reverse((time, ..))| time)
    }

    fn in_flight(&self) -> usize {
        self.pending.len()
    }

    fn energy_j(&self, now: Nanos) -> f64 {
        let channels = f64::from(self.spec.channels.max(1));
        let busy_s = (self.busy_channel_ns as f64 * 1e-9 / channels).min(now as f64 * 1e-9);
        self.spec.idle_w * now as f64 * 1e-9 + (self.spec.active_w - self.spec.idle_w) * busy_s
    }
}
