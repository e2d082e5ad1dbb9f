//! Replay of a recorded trace on a drive model: the response time of every request.

use serde::{Deserialize, Serialize};

use crate::drive::build;
use crate::raid::spec::StorageSpec;
use crate::ranges;
use crate::request::{
    Completion, Device, Medium, Nanos, Op, Request, SectorRange, Status, StoredOrder,
};
use crate::spec::{refuse, DriveSpec, SpecError};
use crate::storage::Storage;

/// A request of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceRequest {
    pub time_ns: Nanos,
    pub op: TraceOp,
    #[serde(default)]
    pub sector: u64,
    #[serde(default)]
    pub sectors: u32,
    #[serde(default)]
    pub fua: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TraceOp {
    Read,
    Write,
    Flush,
    Discard,
    WriteZeroes,
}

impl From<TraceOp> for Op {
    fn from(op: TraceOp) -> Op {
        match op {
            TraceOp::Read => Op::Read,
            TraceOp::Write => Op::Write,
            TraceOp::Flush => Op::Flush,
            TraceOp::Discard => Op::Discard,
            TraceOp::WriteZeroes => Op::WriteZeroes,
        }
    }
}

/// When requests are submitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum ReplayMode {
    /// At their recorded times, regardless of completions.
    Open,
    /// In trace order with a fixed number in flight: each request follows a completion.
    Closed { iodepth: u32 },
}

/// Result of a request of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// Time of submission.
    pub submitted_ns: Nanos,
    pub response_ns: Nanos,
    pub failed: bool,
}

/// Return the ranges that the trace reads, limited to the drive's capacity. A read range must have
/// held data.
fn ranges_read(trace: &[TraceRequest], capacity_sectors: u64) -> Vec<SectorRange> {
    let reads = trace.iter().filter(|request| request.op == TraceOp::Read);
    let range = |request: &TraceRequest| (request.sector, u64::from(request.sectors));
    let inside = |&(sector, sectors): &SectorRange| {
        sector.checked_add(sectors).is_some_and(|end| end <= capacity_sectors)
    };
    ranges::merge(reads.map(range).filter(inside).collect())
}

/// Replay a trace on a new drive model that holds the data the trace reads. Its times must not
/// decrease.
pub fn replay(
    spec: &DriveSpec,
    seed: u64,
    trace: &[TraceRequest],
    mode: ReplayMode,
) -> Result<Vec<Response>, SpecError> {
    let mut drive = build(spec, seed)?;
    drive.preload(&ranges_read(trace, drive.capacity_sectors()), StoredOrder::OfDrive);
    replay_on(&mut drive, trace, mode)
}

/// Replay a trace on a new RAID of drives, or on a single drive.
pub fn replay_storage(
    spec: &StorageSpec,
    seed: u64,
    trace: &[TraceRequest],
    mode: ReplayMode,
) -> Result<Vec<Response>, SpecError> {
    let mut storage = Storage::build(spec, seed)?;
    storage.preload(&ranges_read(trace, storage.capacity_sectors()), StoredOrder::OfDrive);
    replay_on(&mut storage, trace, mode)
}

/// Replay a trace on a device that has not served a request yet.
pub fn replay_on<D: Device>(
    device: &mut D,
    trace: &[TraceRequest],
    mode: ReplayMode,
) -> Result<Vec<Response>, SpecError> {
    if let Some(at) = trace.windows(2).position(|pair| pair[1].time_ns < pair[0].time_ns) {
        let field = format!("trace[{}].time_ns", at + 1);
        return refuse(&field, trace[at + 1].time_ns, &format!("at least {}", trace[at].time_ns));
    }
    if mode == (ReplayMode::Closed { iodepth: 0 }) {
        return refuse("iodepth", 0, "at least 1");
    }
    let mut responses =
        vec![Response { submitted_ns: 0, response_ns: 0, failed: false }; trace.len()];
    let mut out: Vec<Completion> = Vec::new();
    let mut next = 0;
    let mut now = 0;
    loop {
        let due = device.next_wake();
        let submit = match mode {
            _ if next == trace.len() => None,
            ReplayMode::Open => Some(trace[next].time_ns),
            ReplayMode::Closed { iodepth } => {
                (device.in_flight() < iodepth as usize).then_some(now)
            }
        };
        match (submit, due) {
            (None, None) => break,
            (Some(time), due) if due.is_none_or(|due| time < due) => {
                now = time;
                let TraceRequest { op, sector, sectors, fua, .. } = trace[next];
                responses[next].submitted_ns = now;
                device
                    .submit(now, Request { tag: next as u64, op: op.into(), sector, sectors, fua });
                next += 1;
            }
            (_, due) => {
                now = now.max(due.unwrap_or(now));
                device.wake(now, &mut out);
                for completion in out.drain(..) {
                    let response = &mut responses[completion.tag as usize];
                    response.response_ns = completion.time - response.submitted_ns;
                    response.failed = completion.status != Status::Done;
                }
            }
        }
    }
    Ok(responses)
}
