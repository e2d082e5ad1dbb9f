//! Counters of a process.

use headrace_threadstates::ProcessFiles;
use pyo3::prelude::*;

/// State, parent, threads, user and system ticks, those of ended children; times of the only thread;
/// counts of /proc/PID/io.
type Counters = (char, u64, u64, [u64; 3], Option<[u64; 2]>, Option<[u64; 6]>);

/// Files of /proc/PID that stay open.
#[pyclass]
pub struct ProcessReader {
    files: Option<ProcessFiles>,
}

#[pymethods]
impl ProcessReader {
    #[new]
    fn new(process: u32) -> PyResult<Self> {
        Ok(ProcessReader { files: Some(ProcessFiles::open(process)?) })
    }

    /// Return the counters of now; None if its only thread has slept since the last call.
    fn read(&mut self, alone: bool) -> PyResult<Option<Counters>> {
        let Some(files) = &mut self.files else {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
        };
        Ok(files.read(alone)?.map(|found| {
            (
                char::from(found.letter),
                found.parent,
                found.threads,
                found.ticks,
                found.sched_ns,
                found.io,
            )
        }))
    }

    fn close(&mut self) {
        self.files = None;
    }
}
