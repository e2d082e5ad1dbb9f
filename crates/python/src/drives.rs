//! Functions on a single drive: check it, run a load, replay a trace.

use headrace_model::drive_replay::{replay, replay_storage, ReplayMode, TraceOp, TraceRequest};
use headrace_model::drive_run::{run, run_series, FioLike};
use headrace_model::raid::spec::{RaidSpec, StorageSpec};
use headrace_model::spec::DriveSpec;
use pyo3::prelude::*;

use crate::errors::{read, refused, write, ModelError};

/// Raise ModelError if the drive's table (JSON) is invalid.
#[pyfunction]
pub fn drive_check(py: Python<'_>, spec_json: &str) -> PyResult<()> {
    let spec: DriveSpec = read(spec_json, "(drive)")?;
    py.allow_threads(|| headrace_model::drive::build(&spec, 0).map(drop))
        .map_err(|error| refused(&error))
}

/// Run a load with fio's option names on a new model of the drive. Arguments and result are JSON.
#[pyfunction]
pub fn drive_run_json(py: Python<'_>, spec_json: &str, run_json: &str) -> PyResult<String> {
    let spec: DriveSpec = read(spec_json, "(drive)")?;
    let load: FioLike = read(run_json, "(load)")?;
    let result = py.allow_threads(|| run(&spec, &load)).map_err(|error| refused(&error))?;
    write(&result)
}

/// Run a load once for each of `iodepths`, one run after the other on the same drive. Return a list
/// of results as JSON.
#[pyfunction]
pub fn drive_series_json(
    py: Python<'_>,
    spec_json: &str,
    run_json: &str,
    iodepths: Vec<u32>,
) -> PyResult<String> {
    let spec: DriveSpec = read(spec_json, "(drive)")?;
    let load: FioLike = read(run_json, "(load)")?;
    let results = py.allow_threads(|| run_series(&spec, &load, &iodepths));
    write(&results.map_err(|error| refused(&error))?)
}

/// Replay a trace, given as columns (op: 0 read, 1 write, 2 flush, 3 discard), on a new model of
/// the drive. Return the response time of every request in nanoseconds. `iodepth` 0: open loop, at
/// the recorded times; otherwise the number of requests in flight. With `raid_json`, a RAID of such
/// drives serves the trace.
#[pyfunction]
#[pyo3(signature = (spec_json, time_ns, op, sector, sectors, iodepth, seed, raid_json=None))]
#[allow(clippy::too_many_arguments)] // one argument per column
pub fn drive_replay(
    py: Python<'_>,
    spec_json: &str,
    time_ns: Vec<u64>,
    op: Vec<u8>,
    sector: Vec<u64>,
    sectors: Vec<u32>,
    iodepth: u32,
    seed: u64,
    raid_json: Option<&str>,
) -> PyResult<Vec<u64>> {
    let spec: DriveSpec = read(spec_json, "(drive)")?;
    if op.len() != time_ns.len() || sector.len() != time_ns.len() || sectors.len() != time_ns.len()
    {
        return Err(ModelError::new_err((
            "(trace)",
            "columns of different lengths",
            "columns of one length",
        )));
    }
    let raid: Option<RaidSpec> = match raid_json {
        Some(text) => Some(read(text, "(raid)")?),
        None => None,
    };
    let mode = if iodepth == 0 { ReplayMode::Open } else { ReplayMode::Closed { iodepth } };
    let responses = py.allow_threads(|| {
        let request = |index: usize| TraceRequest {
            time_ns: time_ns[index],
            op: match op[index] {
                0 => TraceOp::Read,
                1 => TraceOp::Write,
                2 => TraceOp::Flush,
                _ => TraceOp::Discard,
            },
            sector: sector[index],
            sectors: sectors[index],
            fua: false,
        };
        let trace: Vec<TraceRequest> = (0..time_ns.len()).map(request).collect();
        match raid {
            Some(_) => {
                let storage = StorageSpec { drives: vec![spec], raid, faults: Vec::new() };
                replay_storage(&storage, seed, &trace, mode)
            }
            None => replay(&spec, seed, &trace, mode),
        }
    });
    let responses = responses.map_err(|error| refused(&error))?;
    Ok(responses.iter().map(|response| response.response_ns).collect())
}
