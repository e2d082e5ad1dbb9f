//! Samples of what the threads of a process and its descendants do.

use headrace_threadstates::Sampler;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A state, the kernel function of a thread that sleeps, and the time in it in ns.
type StateTime<'py> = (char, Bound<'py, PyBytes>, f64);

/// Samples a process from its creation until `stop`.
#[pyclass]
pub struct ThreadSampler {
    sampler: Option<Sampler>,
}

#[pymethods]
impl ThreadSampler {
    #[new]
    fn new(process: u32) -> PyResult<Self> {
        Ok(ThreadSampler { sampler: Some(Sampler::start(process)?) })
    }

    /// Return the states, the number of samples, the time they stand for, their CPU time, and how
    /// long they waited for a CPU.
    #[allow(clippy::type_complexity)] // in words in `_core.pyi`
    fn stop<'py>(&mut self, py: Python<'py>) -> (Vec<StateTime<'py>>, u64, f64, u64, u64) {
        let Some(sampler) = self.sampler.take() else { return (Vec::new(), 0, 0.0, 0, 0) };
        let sums = py.allow_threads(|| sampler.stop());
        let states = sums.states_ns.iter().map(|((letter, function), &time_ns)| {
            (char::from(*letter), PyBytes::new(py, function), time_ns)
        });
        (states.collect(), sums.samples, sums.sampled_ns, sums.cost_ns, sums.waited_ns)
    }
}
