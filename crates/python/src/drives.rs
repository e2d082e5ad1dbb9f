//! A drive by itself: checked, run under a load, or given a trace.

use headrace_model::drive_run::{run, FioLike};
use headrace_model::spec::DriveSpec;
use pyo3::prelude::*;

use crate::errors::{read, refused, write};

/// Raises ModelError when the drive's table (JSON) cannot be true.
#[pyfunction]
pub fn drive_check(py: Python<'_>, spec_json: &str) -> PyResult<()> {
    let spec: DriveSpec = read(spec_json, "(drive)")?;
    py.allow_threads(|| headrace_model::drive::build(&spec, 0).map(drop)).map_err(|error| refused(&error))
}

/// Runs a fresh model of the drive under a load with fio's words; both JSON, as is the result.
#[pyfunction]
pub fn drive_run_json(py: Python<'_>, spec_json: &str, run_json: &str) -> PyResult<String> {
    let spec: DriveSpec = read(spec_json, "(drive)")?;
    let load: FioLike = read(run_json, "(load)")?;
    let result = py.allow_threads(|| run(&spec, &load)).map_err(|error| refused(&error))?;
    write(&result)
}
