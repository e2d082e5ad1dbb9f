//! A drive, or a RAID of equal drives, under a closed-loop load, with the option names and
//! semantics of fio.
//!
//! Each of `numjobs` jobs keeps `iodepth` requests of `bs_bytes` in flight. The job accesses
//! `size_bytes` from `offset_bytes` on, until `runtime_s` of virtual time is over (as with
//! `--time_based`) or `number_ios` requests are issued. Unlike fio's default, random offsets can
//! repeat (`norandommap`).
//!
//! fio writes a file before it reads from it. Therefore the region of a load with reads holds data
//! from the start, unless `empty` is set. With `empty`, and for a load that only writes, the drive
//! starts in the `initial` state of its table.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::drive::build;
use crate::raid::spec::{RaidSpec, StorageSpec};
use crate::ranges;
use crate::request::{
    Completion, Device, Nanos, Op, Request, SectorRange, Status, StoredOrder, SECTOR_BYTES,
};
use crate::scheduler::{BlockQueue, QueueSpec, SchedulerSpec};
use crate::spec::{refuse, within, within_int, DriveSpec, SpecError};
use crate::storage::Storage;
use crate::stream::Stream;

/// Access pattern: fio's `rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Rw {
    Read,
    Write,
    RandRead,
    RandWrite,
    /// Sequential, mixed reads and writes.
    #[serde(alias = "readwrite")]
    Rw,
    /// Random, mixed reads and writes.
    RandRw,
}

impl Rw {
    fn random(self) -> bool {
        matches!(self, Rw::RandRead | Rw::RandWrite | Rw::RandRw)
    }

    fn reads(self) -> bool {
        !matches!(self, Rw::Write | Rw::RandWrite)
    }
}

/// The load: fio's options under fio's names, with unit suffixes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FioLike {
    pub rw: Rw,
    pub bs_bytes: u64,
    #[serde(default = "one")]
    pub iodepth: u32,
    #[serde(default = "one")]
    pub numjobs: u32,
    pub runtime_s: f64,
    /// Time before the measurement starts.
    #[serde(default)]
    pub ramp_time_s: f64,
    #[serde(default)]
    pub offset_bytes: u64,
    /// Distance between the offsets of consecutive jobs.
    #[serde(default)]
    pub offset_increment_bytes: u64,
    /// Default: the rest of the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// Percentage of reads in a mixed load.
    #[serde(default = "fifty")]
    pub rwmixread: u32,
    /// Number of writes of a job between flushes; 0: no flushes.
    #[serde(default)]
    pub fsync: u32,
    /// Ends the load after this many requests, unless the time is over earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number_ios: Option<u64>,
    #[serde(default)]
    pub seed: u64,
    /// Keep the drive in the initial state of its table. An SSD reads no flash for units without
    /// data.
    #[serde(default)]
    pub empty: bool,
    /// Writes are those of the page cache when it writes back; otherwise a process waits for each
    /// (`O_DIRECT`). md and schedulers treat them differently, a drive does not.
    #[serde(default)]
    pub buffered: bool,
    /// The kernel's scheduler in front of the drive, with its default tunables; default: requests
    /// go to the drive at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<String>,
    /// A RAID of such drives has the load; the scheduler is in front of each of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidSpec>,
}

fn one() -> u32 {
    1
}
fn fifty() -> u32 {
    50
}

/// Results of one direction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Direction {
    pub requests: u64,
    pub bytes: u64,
    pub iops: f64,
    pub bytes_per_s: f64,
    pub latency_ns_mean: f64,
    pub latency_ns_min: u64,
    pub latency_ns_p50: u64,
    pub latency_ns_p90: u64,
    pub latency_ns_p99: u64,
    pub latency_ns_p999: u64,
    pub latency_ns_max: u64,
}

/// Results of the drive under the load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveRun {
    pub read: Direction,
    pub write: Direction,
    /// Flushes, which move no bytes.
    pub flush: Direction,
    /// Measured time, without the ramp.
    pub elapsed_s: f64,
    pub failed: u64,
    pub energy_j: f64,
    pub power_w_mean: f64,
}

impl DriveRun {
    pub fn iops(&self) -> f64 {
        self.read.iops + self.write.iops
    }

    pub fn bytes_per_s(&self) -> f64 {
        self.read.bytes_per_s + self.write.bytes_per_s
    }
}

struct Job {
    random: Stream,
    first_block: u64,
    blocks: u64,
    next_block: u64,
    writes_since_flush: u32,
}

#[derive(Clone, Copy)]
struct Slot {
    submitted: Nanos,
    op: Op,
}

/// Latencies of one direction.
struct Tally {
    histogram: Histogram<u64>,
}

impl Tally {
    fn new() -> Result<Self, SpecError> {
        const HOUR_NS: u64 = 3_600_000_000_000;
        match Histogram::new_with_bounds(1, HOUR_NS, 3) {
            Ok(histogram) => Ok(Tally { histogram }),
            Err(error) => refuse("latency", error, "1 ns to one hour"),
        }
    }

    fn direction(&self, bs_bytes: u64, elapsed_s: f64) -> Direction {
        let h = &self.histogram;
        if h.is_empty() {
            return Direction::default();
        }
        let requests = h.len();
        Direction {
            requests,
            bytes: requests * bs_bytes,
            iops: requests as f64 / elapsed_s,
            bytes_per_s: (requests * bs_bytes) as f64 / elapsed_s,
            latency_ns_mean: h.mean(),
            latency_ns_min: h.min(),
            latency_ns_p50: h.value_at_quantile(0.5),
            latency_ns_p90: h.value_at_quantile(0.9),
            latency_ns_p99: h.value_at_quantile(0.99),
            latency_ns_p999: h.value_at_quantile(0.999),
            latency_ns_max: h.max(),
        }
    }
}

impl FioLike {
    fn check(&self, capacity_bytes: u64) -> Result<u64, SpecError> {
        within_int("bs_bytes", self.bs_bytes, SECTOR_BYTES, 1 << 30)?;
        if !self.bs_bytes.is_multiple_of(SECTOR_BYTES) {
            return refuse("bs_bytes", self.bs_bytes, "a multiple of 512");
        }
        within_int("iodepth", u64::from(self.iodepth), 1, 1 << 20)?;
        within_int("numjobs", u64::from(self.numjobs), 1, 1 << 16)?;
        within("runtime_s", self.runtime_s, 1e-6, 1e8)?;
        within("ramp_time_s", self.ramp_time_s, 0.0, 1e8)?;
        within_int("rwmixread", u64::from(self.rwmixread), 0, 100)?;
        let last_offset = u64::from(self.numjobs - 1)
            .checked_mul(self.offset_increment_bytes)
            .and_then(|offset| offset.checked_add(self.offset_bytes));
        let Some(room) = last_offset.and_then(|offset| capacity_bytes.checked_sub(offset)) else {
            return refuse(
                "offset_bytes",
                self.offset_bytes,
                &format!("offsets below {capacity_bytes}"),
            );
        };
        let size = self.size_bytes.unwrap_or(room);
        within_int("size_bytes", size, self.bs_bytes, room)
    }

    /// Return the regions that the jobs access, `size_bytes` each.
    fn regions(&self, size_bytes: u64) -> Vec<SectorRange> {
        let first =
            |job: u64| (self.offset_bytes + job * self.offset_increment_bytes) / SECTOR_BYTES;
        let jobs = 0..u64::from(self.numjobs);
        ranges::merge(jobs.map(|job| (first(job), size_bytes / SECTOR_BYTES)).collect())
    }
}

/// Run the load on a new model of the drive or RAID, with the data that the load reads in place.
pub fn run(spec: &DriveSpec, load: &FioLike) -> Result<DriveRun, SpecError> {
    run_series(spec, load, &[load.iodepth]).map(|mut runs| runs.remove(0))
}

/// Run the load once for each number of requests in flight, one run after the other on the same
/// drive, in the state that the run before left it in. Each begins when the last request of the one
/// before is done, and repeats its offsets, as fio does.
pub fn run_series(
    spec: &DriveSpec,
    load: &FioLike,
    iodepths: &[u32],
) -> Result<Vec<DriveRun>, SpecError> {
    let queue = match &load.scheduler {
        Some(name) => Some(queue_of(spec, name)?),
        None => None,
    };
    if let Some(raid) = load.raid {
        let array = StorageSpec { drives: vec![spec.clone()], raid: Some(raid), faults: vec![] };
        let array = Storage::build_queued(&array, load.seed, queue.as_ref())?;
        return run_filled(array, load, iodepths);
    }
    let drive = build(spec, load.seed)?;
    match queue {
        Some(queue) => run_filled(BlockQueue::new(drive, &queue), load, iodepths),
        None => run_filled(drive, load, iodepths),
    }
}

fn run_filled<D: Device>(
    mut device: D,
    load: &FioLike,
    iodepths: &[u32],
) -> Result<Vec<DriveRun>, SpecError> {
    let size_bytes = load.check(device.capacity_sectors() * SECTOR_BYTES)?;
    if load.rw.reads() && !load.empty {
        device.preload(&load.regions(size_bytes), StoredOrder::OfDrive);
    }
    let mut start = 0;
    let mut runs = Vec::with_capacity(iodepths.len());
    for &iodepth in iodepths {
        let load = FioLike { iodepth, ..load.clone() };
        let (run, stop) = run_from(&mut device, &load, start)?;
        runs.push(run);
        start = drain(&mut device, stop);
    }
    Ok(runs)
}

/// Let the requests in flight end, and return when that is.
fn drain<D: Device>(device: &mut D, mut now: Nanos) -> Nanos {
    let mut out = Vec::new();
    while device.in_flight() > 0 {
        let Some(next) = device.next_wake() else { break };
        now = now.max(next);
        device.wake(now, &mut out);
        out.clear();
    }
    now
}

/// Return the queue of a scheduler, which gives the drive as many requests as its own queue holds.
fn queue_of(spec: &DriveSpec, name: &str) -> Result<QueueSpec, SpecError> {
    let Some(scheduler) = SchedulerSpec::named(name) else {
        return refuse("scheduler", name, "the name of a scheduler, such as mq-deadline");
    };
    let (rotational, queue_depth) = (spec.rotational(), spec.queue_depth());
    Ok(QueueSpec { scheduler, queue_depth, rotational, ..QueueSpec::default() })
}

/// Run the load on a device that has not served a request yet.
pub fn run_device<D: Device>(device: &mut D, load: &FioLike) -> Result<DriveRun, SpecError> {
    run_from(device, load, 0).map(|(run, _)| run)
}

/// Run the load from `start` on, when no request is in flight; return also when it ended.
fn run_from<D: Device>(
    device: &mut D,
    load: &FioLike,
    start: Nanos,
) -> Result<(DriveRun, Nanos), SpecError> {
    let size_bytes = load.check(device.capacity_sectors() * SECTOR_BYTES)?;
    let ramp = start + (load.ramp_time_s * 1e9) as Nanos;
    let end = ramp + (load.runtime_s * 1e9) as Nanos;
    let mut jobs = Jobs::new(load, size_bytes);
    let mut tallies = Tallies::new()?;
    let mut out = Vec::with_capacity(jobs.slots.len());
    let mut energy_ramp_j = None;
    let mut now = start;
    for tag in 0..jobs.slots.len() {
        jobs.issue(device, start, tag);
    }
    while let Some(next) = device.next_wake() {
        if next > end {
            break;
        }
        now = next;
        if energy_ramp_j.is_none() && now >= ramp {
            energy_ramp_j = Some(device.energy_j(ramp));
        }
        device.wake(now, &mut out);
        for completion in out.drain(..) {
            let tag = completion.tag as usize;
            if completion.time >= ramp {
                tallies.note(&completion, jobs.slots[tag]);
            }
            jobs.issue(device, now, tag);
        }
    }
    let stop = if load.number_ios.is_some() && device.in_flight() == 0 { now } else { end };
    let elapsed_s = (stop.saturating_sub(ramp).max(1)) as f64 * 1e-9;
    let energy_j = device.energy_j(stop) - energy_ramp_j.unwrap_or(0.0);
    let run = DriveRun {
        read: tallies.reads.direction(load.bs_bytes, elapsed_s),
        write: tallies.writes.direction(load.bs_bytes, elapsed_s),
        elapsed_s,
        flush: tallies.flushes.direction(0, elapsed_s),
        failed: tallies.failed,
        energy_j,
        power_w_mean: energy_j / elapsed_s,
    };
    Ok((run, stop))
}

/// The jobs of a load, with `iodepth` slots for requests each.
struct Jobs<'a> {
    load: &'a FioLike,
    jobs: Vec<Job>,
    slots: Vec<Slot>,
    block_sectors: u32,
    /// Requests that may still be issued; `None`: any number.
    left: Option<u64>,
}

impl<'a> Jobs<'a> {
    fn new(load: &'a FioLike, size_bytes: u64) -> Self {
        let job = |number| Job {
            random: Stream::numbered(load.seed, "drive-run/job", number),
            first_block: (load.offset_bytes + number * load.offset_increment_bytes) / SECTOR_BYTES,
            blocks: size_bytes / load.bs_bytes,
            next_block: 0,
            writes_since_flush: 0,
        };
        let slots = load.numjobs as usize * load.iodepth as usize;
        Jobs {
            load,
            jobs: (0..u64::from(load.numjobs)).map(job).collect(),
            slots: vec![Slot { submitted: 0, op: Op::Read }; slots],
            block_sectors: (load.bs_bytes / SECTOR_BYTES) as u32,
            left: load.number_ios,
        }
    }

    /// Submit the next request of slot `tag`, if any is left.
    #[inline]
    fn issue<D: Device>(&mut self, device: &mut D, now: Nanos, tag: usize) {
        if self.left == Some(0) {
            return;
        }
        let job = &mut self.jobs[tag / self.load.iodepth as usize];
        let request = job.next(self.load, self.block_sectors, tag as u64);
        if request.op != Op::Flush {
            self.left = self.left.map(|left| left - 1);
        }
        self.slots[tag] = Slot { submitted: now, op: request.op };
        if self.load.buffered {
            device.submit(now, request);
        } else {
            device.submit_direct(now, request);
        }
    }
}

/// Requests that completed after the ramp.
struct Tallies {
    reads: Tally,
    writes: Tally,
    flushes: Tally,
    failed: u64,
}

impl Tallies {
    fn new() -> Result<Self, SpecError> {
        Ok(Tallies {
            reads: Tally::new()?,
            writes: Tally::new()?,
            flushes: Tally::new()?,
            failed: 0,
        })
    }

    #[inline]
    fn note(&mut self, completion: &Completion, slot: Slot) {
        let latency = completion.time - slot.submitted;
        match (completion.status, slot.op) {
            (Status::Failed(_), _) => self.failed += 1,
            (_, Op::Flush) => self.flushes.histogram.saturating_record(latency),
            (_, Op::Read) => self.reads.histogram.saturating_record(latency),
            _ => self.writes.histogram.saturating_record(latency),
        }
    }
}

impl Job {
    fn next(&mut self, load: &FioLike, block_sectors: u32, tag: u64) -> Request {
        let write = match load.rw {
            Rw::Read | Rw::RandRead => false,
            Rw::Write | Rw::RandWrite => true,
            Rw::Rw | Rw::RandRw => self.random.below(100) >= u64::from(load.rwmixread),
        };
        if write && load.fsync > 0 {
            if self.writes_since_flush == load.fsync {
                self.writes_since_flush = 0;
                return Request { tag, op: Op::Flush, sector: 0, sectors: 0, fua: false };
            }
            self.writes_since_flush += 1;
        }
        let block = if load.rw.random() {
            self.random.below(self.blocks)
        } else {
            let block = self.next_block;
            self.next_block = if block + 1 == self.blocks { 0 } else { block + 1 };
            block
        };
        Request {
            tag,
            op: if write { Op::Write } else { Op::Read },
            sector: self.first_block + block * u64::from(block_sectors),
            sectors: block_sectors,
            fua: false,
        }
    }
}
