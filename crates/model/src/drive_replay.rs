//! A recorded trace played against a drive: the response time of every request.

use serde::{Deserialize, Serialize};

use crate::drive::build;
use crate::request::{Completion, Device, Nanos, Op, Request, Status};
use crate::spec::{refuse, DriveSpec, SpecError};

/// A request of a trace.
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

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum ReplayMode {
    /// At their recorded times, whatever the drive does.
    Open,
    /// In their order, that many in flight, each as soon as one before it ends.
    Closed { iodepth: u32 },
}

/// How a request of the trace went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Response {
    /// When it was handed over.
    pub submitted_ns: Nanos,
    pub response_ns: Nanos,
    pub failed: bool,
}

/// Replays a trace, whose times must not go back, against a fresh model of the drive.
pub fn replay(
    spec: &DriveSpec,
    seed: u64,
    trace: &[TraceRequest],
    mode: ReplayMode,
) -> Result<Vec<Response>, SpecError> {
    replay_on(&mut build(spec, seed)?, trace, mode)
}

/// Replays a trace against a device that has done nothing yet.
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
    let mut responses = vec![Response { submitted_ns: 0, response_ns: 0, failed: false }; trace.len()];
    let mut out: Vec<Completion> = Vec::new();
    let mut next = 0;
    let mut now = 0;
    loop {
        let due = device.next_wake();
        let submit = match mode {
            _ if next == trace.len() => None,
            ReplayMode::Open => Some(trace[next].time_ns),
            ReplayMode::Closed { iodepth } => (device.in_flight() < iodepth as usize).then_some(now),
        };
        match (submit, due) {
            (None, None) => break,
            (Some(time), due) if due.is_none_or(|due| time < due) => {
                now = time;
                let TraceRequest { op, sector, sectors, fua, .. } = trace[next];
                responses[next].submitted_ns = now;
                device.submit(now, Request { tag: next as u64, op: op.into(), sector, sectors, fua });
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
