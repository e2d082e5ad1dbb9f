//! Counters of processes.

use headrace_threadstates::{now_ns, Moved, Process, Reading, ThreadFile};
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

const STATE_BYTES: usize = 1024;

/// Bytes of a process or job.
#[pyclass(name = "Moved", frozen, eq)]
#[derive(PartialEq)]
pub struct PyMoved(Moved);

#[pymethods]
impl PyMoved {
    #[new]
    #[pyo3(signature = (read=0, written=0, storage_read=0, storage_written=0, read_calls=0,
                        write_calls=0))]
    fn new(
        read: u64,
        written: u64,
        storage_read: u64,
        storage_written: u64,
        read_calls: u64,
        write_calls: u64,
    ) -> Self {
        PyMoved(Moved([read, written, read_calls, write_calls, storage_read, storage_written]))
    }

    #[getter]
    fn read(&self) -> u64 {
        self.0 .0[0]
    }

    #[getter]
    fn written(&self) -> u64 {
        self.0 .0[1]
    }

    #[getter]
    fn read_calls(&self) -> u64 {
        self.0 .0[2]
    }

    #[getter]
    fn write_calls(&self) -> u64 {
        self.0 .0[3]
    }

    #[getter]
    fn storage_read(&self) -> u64 {
        self.0 .0[4]
    }

    #[getter]
    fn storage_written(&self) -> u64 {
        self.0 .0[5]
    }

    #[getter]
    fn served(&self) -> u64 {
        self.read().max(self.storage_read())
    }

    fn covers(&self, other: &PyMoved) -> bool {
        self.0.covers(other.0)
    }

    fn __add__(&self, other: &PyMoved) -> PyMoved {
        PyMoved(self.0 + other.0)
    }

    fn __sub__(&self, other: &PyMoved) -> PyMoved {
        PyMoved(self.0.since(other.0))
    }

    fn __repr__(&self) -> String {
        format!(
            "Moved(read={}, written={}, storage_read={}, storage_written={}, read_calls={}, \
             write_calls={})",
            self.read(),
            self.written(),
            self.storage_read(),
            self.storage_written(),
            self.read_calls(),
            self.write_calls()
        )
    }
}

/// What a process has used and waited since its start.
#[pyclass(frozen, get_all)]
pub struct ProcessReading {
    parent: u64,
    threads: u64,
    run_ns: u64,
    wait_cpu_ns: u64,
    wait_block_ns: u64,
    wait_memory_ns: u64,
    user_ticks: u64,
    system_ticks: u64,
    ended_ticks: u64,
    moved: Py<PyMoved>,
    io_readable: bool,
    timed: bool,
    ended_counted: bool,
}

#[pymethods]
impl ProcessReading {
    /// Return the same with times of all threads, those that ended too.
    fn with_times(
        &self,
        py: Python<'_>,
        run_ns: u64,
        wait_cpu_ns: u64,
        wait_block_ns: u64,
        wait_memory_ns: u64,
    ) -> Self {
        ProcessReading {
            run_ns,
            wait_cpu_ns,
            wait_block_ns,
            wait_memory_ns,
            timed: true,
            ended_counted: true,
            moved: self.moved.clone_ref(py),
            ..*self
        }
    }
}

impl ProcessReading {
    fn of(py: Python<'_>, reading: &Reading) -> PyResult<Py<Self>> {
        let [run_ns, wait_cpu_ns, wait_block_ns] = reading.times_ns.unwrap_or_default();
        let [user_ticks, system_ticks, ended_ticks] = reading.ticks;
        let made = ProcessReading {
            parent: reading.parent,
            threads: reading.threads,
            run_ns,
            wait_cpu_ns,
            wait_block_ns,
            wait_memory_ns: 0,
            user_ticks,
            system_ticks,
            ended_ticks,
            moved: Py::new(py, PyMoved(reading.moved.unwrap_or_default()))?,
            io_readable: reading.moved.is_some(),
            timed: reading.times_ns.is_some(),
            ended_counted: false,
        };
        Py::new(py, made)
    }
}

/// A process, its files of /proc and what was read last.
#[pyclass]
pub struct ProcessReader {
    process: Option<Process>,
    last: Option<Py<ProcessReading>>,
    threads: Py<PyTuple>,
}

#[pymethods]
impl ProcessReader {
    #[new]
    fn new(py: Python<'_>, process: u32) -> PyResult<Self> {
        let process = Some(Process::open(process).map_err(with_number)?);
        let mut made = ProcessReader { process, last: None, threads: PyTuple::empty(py).unbind() };
        made.list_threads(py)?;
        Ok(made)
    }

    /// The threads, as of the last reading: the same tuple while they are the same.
    #[getter]
    fn threads(&self, py: Python<'_>) -> Py<PyTuple> {
        self.threads.clone_ref(py)
    }

    /// Return the living children of all threads.
    fn children(&mut self) -> Vec<u32> {
        self.process.as_mut().map(Process::children).unwrap_or_default()
    }

    /// Return a file of a thread. Raises OSError when it has ended or may not be read.
    fn read_thread<'py>(
        &mut self,
        py: Python<'py>,
        thread: u32,
        name: &str,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let file = match name {
            "stat" => ThreadFile::Stat,
            "syscall" => ThreadFile::Syscall,
            "wchan" => ThreadFile::Wchan,
            _ => return Err(PyValueError::new_err(format!("{name}: stat, syscall or wchan"))),
        };
        let mut bytes = [0; STATE_BYTES];
        let length = self.open()?.read_thread(thread, file, &mut bytes).map_err(with_number)?;
        Ok(PyBytes::new(py, &bytes[..length]))
    }

    /// Close the files. Safe to call twice.
    fn close(&mut self) {
        self.process = None;
    }
}

impl ProcessReader {
    fn open(&mut self) -> PyResult<&mut Process> {
        let closed = || with_number(std::io::Error::from_raw_os_error(libc::ESRCH));
        self.process.as_mut().ok_or_else(closed)
    }

    /// Return the counters of now; None when the process has ended.
    fn read(
        &mut self,
        py: Python<'_>,
        delays: bool,
        elsewhere: bool,
    ) -> PyResult<Option<Py<ProcessReading>>> {
        let Some(process) = &mut self.process else { return Ok(None) };
        match process.read(delays, elsewhere) {
            Ok(Some(reading)) => {
                self.last = Some(ProcessReading::of(py, &reading)?);
                self.list_threads(py)?;
            }
            Ok(None) => (), // as before
            Err(_) => return Ok(None),
        }
        Ok(self.last.as_ref().map(|last| last.clone_ref(py)))
    }

    fn list_threads(&mut self, py: Python<'_>) -> PyResult<()> {
        if let Some(ids) = self.process.as_mut().and_then(Process::other_threads) {
            self.threads = PyTuple::new(py, ids)?.unbind();
        }
        Ok(())
    }
}

/// Return an OSError with the kernel's number, which tells Python the kind of error.
fn with_number(error: std::io::Error) -> PyErr {
    match error.raw_os_error() {
        Some(number) => PyOSError::new_err((number, error.to_string())),
        None => error.into(),
    }
}

/// Return the counters of all processes, None of those that have ended, and when each was read, in
/// ns of the monotonic clock.
#[pyfunction]
#[allow(clippy::type_complexity)] // in words in `_core.pyi`
pub fn read_processes(
    py: Python<'_>,
    readers: Vec<PyRefMut<'_, ProcessReader>>,
    delays: bool,
    elsewhere: bool,
) -> PyResult<(Vec<Option<Py<ProcessReading>>>, Vec<u64>)> {
    let (mut readings, mut times) = (Vec::new(), Vec::new());
    for mut reader in readers {
        times.push(now_ns());
        readings.push(reader.read(py, delays, elsewhere)?);
    }
    Ok((readings, times))
}
