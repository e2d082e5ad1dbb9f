//! Clients of a metadata test on a storage that only a library of Python reaches: the operations are calls of an object.

use std::ffi::CStr;

use headrace_metadata::config::Config;
use headrace_metadata::run::run;
use headrace_metadata::storage::{cpu_clock_ns, too_short, OperationError, Storage};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::errors::{read, write};

/// An object with the methods that `headrace.workloads.by_url.RemoteStorage` describes.
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
    Python::with_gil(|py| error.value(py).to_string().split_whitespace().collect::<Vec<_>>().join(" "))
}

impl Storage for Called {
    // Libraries of Python go deep.
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
        // Such libraries work in threads of their own: all of the process is shared out.
        cpu_clock_ns(rustix::time::ClockId::ProcessCPUTime) / u64::from(clients.max(1))
    }
}

/// Goes through all phases (config as the program takes it, JSON) with the operations of an object; the report as JSON. Raises OSError
/// with what stopped the clients, the same for all processes.
#[pyfunction]
pub fn metadata_json(
    py: Python<'_>,
    config_json: &str,
    storage: PyObject,
    has_directories: bool,
) -> PyResult<String> {
    let config: Config = read(config_json, "config")?;
    let called = Called { object: storage, has_directories };
    let report =
        py.allow_threads(|| run(&config, &called)).map_err(|failure| PyOSError::new_err(failure.0))?;
    write(&report)
}
