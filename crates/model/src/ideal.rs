//! An ideal drive: a number of equal channels with a service time and a bandwidth, nothing else.
//!
//! It models storage whose internals are unknown (a filer's array with only published bandwidths),
//! and it is the M/D/1 and M/M/1 server that the queueing models are tested against. It has no
//! position, state or seek.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::request::{
    Completion, Device, Fault, FaultCounts, FlashWrites, Medium, Nanos, Op, Queue, Request,
    SectorRange, Status, StoredOrder, SubmittedIo, SECTOR_BYTES,
};
use crate::stream::Stream;

/// Distribution of service times.
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
    /// Time of a request besides its transfer.
    pub read_ns: u64,
    pub write_ns: u64,
    /// Bandwidth of one channel; 0: unlimited.
    #[serde(default)]
    pub read_bytes_per_s: f64,
    #[serde(default)]
    pub write_bytes_per_s: f64,
    /// Time of a flush besides that of the writes before it.
    #[serde(default)]
    pub flush_ns: u64,
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

/// The model of an ideal drive.
#[derive(Debug)]
pub struct IdealDrive {
    spec: IdealSpec,
    stream: Stream,
    /// Times when the channels become free.
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

impl Medium for IdealDrive {
    fn capacity_sectors(&self) -> u64 {
        self.spec.capacity_bytes / SECTOR_BYTES
    }

    fn energy_j(&self, now: Nanos) -> f64 {
        let channels = f64::from(self.spec.channels.max(1));
        let busy_s = (self.busy_channel_ns as f64 * 1e-9 / channels).min(now as f64 * 1e-9);
        self.spec.idle_w * now as f64 * 1e-9 + (self.spec.active_w - self.spec.idle_w) * busy_s
    }

    fn unflushed(&mut self, _now: Nanos) -> Vec<SectorRange> {
        Vec::new()
    }

    fn fault_counts(&self) -> FaultCounts {
        FaultCounts::default()
    }

    fn flash_writes(&self) -> FlashWrites {
        FlashWrites::default()
    }

    /// Do nothing: the service time does not depend on the address.
    fn preload(&mut self, _data: &[SectorRange], _order: StoredOrder) {}

    fn trim(&mut self, _data: &[SectorRange]) {}
}

impl Device for IdealDrive {
    fn submit(&mut self, now: Nanos, request: Request) {
        let out_of_range = request.sector + u64::from(request.sectors) > self.capacity_sectors();
        let done = match request.op {
            _ if out_of_range => now,
            // On stable storage when every earlier request is.
            Op::Flush => self.last_done.max(now) + self.spec.flush_ns,
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

    fn wake_ahead(&mut self, now: Nanos, _until: Nanos, out: &mut Vec<Completion>) {
        while let Some(&Reverse((time, _, tag, out_of_range))) = self.pending.peek() {
            if time > now {
                break;
            }
            self.pending.pop();
            let status =
                if out_of_range { Status::Failed(Fault::OutOfRange) } else { Status::Done };
            out.push(Completion { tag, time, status });
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.pending.peek().map(|&Reverse((time, ..))| time)
    }

    fn in_flight(&self) -> usize {
        self.pending.len()
    }
}

/// It has no scheduler: I/Os are served in the order of arrival.
impl Queue for IdealDrive {
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        self.submit(now, io.request);
    }

    fn plug(&mut self) {}

    fn unplug(&mut self, _now: Nanos) {}
}
