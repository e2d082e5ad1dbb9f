//! The Python bindings: conversions and error mapping, no logic.

use pyo3::prelude::*;

mod drives;
mod errors;
mod metadata;
mod processes;
mod scripts;
mod simulation;
mod threadstates;
mod traces;

/// `headrace._core`: the Rust part of Headrace.
#[pymodule]
fn _core(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("SECTOR_BYTES", headrace_model::SECTOR_BYTES)?;
    module.add("ModelError", module.py().get_type::<errors::ModelError>())?;
    module.add_function(wrap_pyfunction!(drives::drive_check, module)?)?;
    module.add_function(wrap_pyfunction!(drives::drive_run_json, module)?)?;
    module.add_function(wrap_pyfunction!(drives::drive_series_json, module)?)?;
    module.add_function(wrap_pyfunction!(drives::drive_replay, module)?)?;
    module.add_function(wrap_pyfunction!(metadata::metadata_json, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::scenario_refusal, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::simulate_json, module)?)?;
    module.add_function(wrap_pyfunction!(simulation::simulate_many, module)?)?;
    module.add_class::<processes::PyMoved>()?;
    module.add_class::<processes::ProcessReader>()?;
    module.add_class::<processes::ProcessReading>()?;
    module.add_function(wrap_pyfunction!(processes::read_processes, module)?)?;
    module.add_class::<scripts::TimedBlockDevice>()?;
    module.add_class::<scripts::TimedModel>()?;
    module.add_class::<threadstates::ThreadSampler>()?;
    module.add("TraceError", module.py().get_type::<traces::TraceError>())?;
    module.add_class::<traces::TraceRows>()?;
    module.add_function(wrap_pyfunction!(traces::trace_files, module)?)?;
    module.add_function(wrap_pyfunction!(traces::trace_summary_json, module)?)?;
    module.add_function(wrap_pyfunction!(traces::trace_tiles, module)?)?;
    Ok(())
}
