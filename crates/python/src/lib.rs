//! The one crate that knows Python: bindings and error mapping, no logic of its own.

use pyo3::prelude::*;

/// `headrace._core`: the Rust half of Headrace.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("SECTOR_BYTES", headrace_model::SECTOR_BYTES)?;
    Ok(())
}
