//! Scripts of requests on a block device, or on a model in virtual time.

use std::path::PathBuf;

use headrace_directio::BlockDevice;
use headrace_model::drive_script::{ScriptedDrive, Step, Timing};
use headrace_model::spec::DriveSpec;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::{read, refused};

/// Requests by number, as `headrace.drives.learning.device` has them; others are writes.
const READ: u8 = 0;
const WRITE_THROUGH: u8 = 2;

/// A value for each step, or one for all.
#[derive(FromPyObject)]
enum Column<T> {
    Same(T),
    Each(Vec<T>),
}

impl<T: Copy> Column<T> {
    fn at(&self, step: usize) -> T {
        match self {
            Column::Same(value) => *value,
            Column::Each(values) => values[step],
        }
    }

    fn fits(&self, count: usize) -> bool {
        match self {
            Column::Same(_) => true,
            Column::Each(values) => values.len() == count,
        }
    }
}

fn steps(
    op: &Column<u8>,
    sector: &[u64],
    sectors: &Column<u32>,
    wait_ns: &Column<u64>,
) -> PyResult<Vec<Step>> {
    let count = sector.len();
    if !(op.fits(count) && sectors.fits(count) && wait_ns.fits(count)) {
        return Err(PyValueError::new_err("columns of different lengths"));
    }
    let step = |(at, &sector): (usize, &u64)| Step {
        write: op.at(at) != READ,
        through: op.at(at) == WRITE_THROUGH,
        sector,
        sectors: sectors.at(at),
        wait_ns: wait_ns.at(at),
    };
    Ok(sector.iter().enumerate().map(step).collect())
}

/// Return start and end of each timing, one after the other.
fn bytes_of<'py>(py: Python<'py>, timings: &[Timing]) -> Bound<'py, PyBytes> {
    let times = timings.iter().flat_map(|timing| [timing.start_ns, timing.end_ns]);
    PyBytes::new(py, &times.flat_map(u64::to_ne_bytes).collect::<Vec<u8>>())
}

/// A block device, accessed past the page cache.
#[pyclass]
pub struct TimedBlockDevice {
    device: BlockDevice,
}

#[pymethods]
impl TimedBlockDevice {
    #[new]
    fn new(path: PathBuf, writable: bool) -> PyResult<Self> {
        Ok(TimedBlockDevice { device: BlockDevice::open(&path, writable)? })
    }

    fn capacity_bytes(&self) -> u64 {
        self.device.capacity_bytes()
    }

    #[allow(clippy::too_many_arguments)] // one argument per column
    fn run<'py>(
        &mut self,
        py: Python<'py>,
        op: Column<u8>,
        sector: Vec<u64>,
        sectors: Column<u32>,
        wait_ns: Column<u64>,
        depth: usize,
        limit_ns: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let steps = steps(&op, &sector, &sectors, &wait_ns)?;
        let timings = py.allow_threads(|| self.device.run(&steps, depth, limit_ns))?;
        Ok(bytes_of(py, &timings))
    }
}

/// A drive's model that keeps its state between scripts.
#[pyclass]
pub struct TimedModel {
    drive: ScriptedDrive,
}

#[pymethods]
impl TimedModel {
    #[new]
    fn new(spec_json: &str, seed: u64, holds_data: bool) -> PyResult<Self> {
        let spec: DriveSpec = read(spec_json, "(drive)")?;
        let drive = ScriptedDrive::new(&spec, seed, holds_data).map_err(|e| refused(&e))?;
        Ok(TimedModel { drive })
    }

    fn capacity_bytes(&self) -> u64 {
        self.drive.capacity_bytes()
    }

    #[allow(clippy::too_many_arguments)] // one argument per column
    fn run<'py>(
        &mut self,
        py: Python<'py>,
        op: Column<u8>,
        sector: Vec<u64>,
        sectors: Column<u32>,
        wait_ns: Column<u64>,
        depth: usize,
        limit_ns: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let steps = steps(&op, &sector, &sectors, &wait_ns)?;
        let timings = py.allow_threads(|| self.drive.run(&steps, depth, limit_ns));
        Ok(bytes_of(py, &timings.map_err(|e| refused(&e))?))
    }
}
