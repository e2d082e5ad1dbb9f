//! Clients of a metadata test on storage that only a Python library can access: every operation
//! calls a method of a Python object.

use std::ffi::CStr;

use headrace_metadata::config::Config;
use headrace_metadata::run::run;
use headrace_metadata::storage::{cpu_clock_ns, too_short, OperationError, Storage};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors::{read, write};

/// A Python object with the methods of `headrace.protocols.storage.RemoteStorage`.
struct Called {
    object: PyObject,
    has_directories: bool,
}

impl Called {
    fn call<T>(
        &self,
        method: &str,
        arguments: impl for<'py> FnOnce(Python<'py>) -> PyResult<Bound<'py, PyTuple>>,
        take: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<T>,
    ) -> Result<T, OperationError> {
        Python::with_gil(|py| {
            let given = arguments(py)?;
            take(&self.object.bind(py).call_method1(method, given)?)
        })
        .map_err(|error| OperationError::Other(said(&error)))
    }

    fn on_path(&self, method: &str, path: &CStr) -> Result<(), OperationError> {
        self.call(method, |py| (path.to_string_lossy(),).into_pyobject(py), |_| Ok(()))
    }
}

fn said(error: &PyErr) -> String {
    Python::with_gil(|py| {
        error.value(py).to_string().split_whitespace().collect::<Vec<_>>().join(" ")
    })
}

impl Storage for Called {
    // Python libraries need deep stacks.
    const STACK_BYTES: usize = 8 << 20;
    const OWN_DESCRIPTORS: bool = false;

    fn has_directories(&self) -> bool {
        self.has_directories
    }

    fn make_directories(&self, path: &CStr) -> Result<(), OperationError> {
        self.on_path("make_directories", path)
    }

    fn make_directory(&self, path: &CStr) -> Result<(), OperationError> {
        self.on_path("make_directory", path)
    }

    fn remove_directory(&self, path: &CStr) -> Result<(), OperationError> {
        self.on_path("remove_directory", path)
    }

    fn stat(&self, path: &CStr) -> Result<(), OperationError> {
        self.on_path("stat", path)
    }

    fn rename(&self, path: &CStr, other: &CStr) -> Result<(), OperationError> {
        let both = (path.to_string_lossy(), other.to_string_lossy());
        self.call("rename", |py| both.into_pyobject(py), |_| Ok(()))
    }

    fn create(&self, path: &CStr, content: &[u8], sync: bool) -> Result<(), OperationError> {
        self.call(
            "create",
            |py| (path.to_string_lossy(), PyBytes::new(py, content), sync).into_pyobject(py),
            |_| Ok(()),
        )
    }

    fn read(&self, path: &CStr, back: &mut [u8]) -> Result<(), OperationError> {
        let wanted = back.len();
        let found = self.call(
            "read",
            |py| (path.to_string_lossy(), wanted).into_pyobject(py),
            |found| {
                let bytes = found.extract::<&[u8]>()?;
                let length = bytes.len().min(wanted);
                back[..length].copy_from_slice(&bytes[..length]);
                Ok(length)
            },
        )?;
        if found < wanted {
            return Err(too_short(path, found, wanted));
        }
        Ok(())
    }

    fn remove(&self, path: &CStr) -> Result<(), OperationError> {
        self.on_path("remove", path)
    }

    fn cpu_ns(&self, clients: u32) -> u64 {
        // Such libraries have their own threads: divide the CPU time of the process by the clients.
        cpu_clock_ns(rustix::time::ClockId::ProcessCPUTime) / u64::from(clients.max(1))
    }
}

/// Run all phases with the operations of a Python object. `config_json` is the program's
/// configuration, the result is the report, both JSON. Raise OSError with the first failure of the
/// clients, the same in all processes.
#[pyfunction]
pub fn metadata_json(
    py: Python<'_>,
    config_json: &str,
    storage: PyObject,
    has_directories: bool,
) -> PyResult<String> {
    let config: Config = read(config_json, "config")?;
    let called = Called { object: storage, has_directories };
    let report = py
        .allow_threads(|| run(&config, &called))
        .map_err(|failure| PyOSError::new_err(failure.0))?;
    write(&report)
}
