//! Simulations in virtual time: one scenario, or many in parallel with results as they finish.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use headrace_simulator::{run_watched, Scenario, ScenarioError};
use pyo3::prelude::*;

use crate::errors::ModelError;

/// Interval between calls of Python to check whether to continue.
const PATIENCE: Duration = Duration::from_millis(200);

type Refusal = (String, String, String);

fn refusal(error: ScenarioError) -> Refusal {
    (error.path, error.given, error.allowed)
}

/// Virtual time that a scenario has reached; 0 before it starts.
type Reached = AtomicU64;

fn simulate(text: &str, cancel: &AtomicBool, reached: &Reached) -> Result<String, Refusal> {
    let work = || -> Result<String, Refusal> {
        let scenario = Scenario::from_json(text).map_err(refusal)?;
        let mut watch = |now, _| {
            reached.fetch_max(now, Ordering::Relaxed);
        };
        let outcome = run_watched(&scenario, cancel, &mut watch).map_err(refusal)?;
        reached.fetch_max(outcome.end_ns, Ordering::Relaxed);
        serde_json::to_string(&outcome)
            .map_err(|error| ("(outcome)".into(), error.to_string(), String::new()))
    };
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        let allowed = "a scenario that runs; please report this one";
        Err(("(scenario)".into(), "one that broke the simulator".into(), allowed.into()))
    })
}

/// Run a scenario (JSON) and return its outcome (JSON). Raise ModelError if it is invalid.
#[pyfunction]
pub fn simulate_json(py: Python<'_>, scenario_json: &str) -> PyResult<String> {
    py.allow_threads(|| simulate(scenario_json, &AtomicBool::new(false), &Reached::new(0)))
        .map_err(ModelError::new_err)
}

/// Return why a scenario (JSON) cannot run, as (field, given, allowed); `None` if it can.
#[pyfunction]
pub fn scenario_refusal(py: Python<'_>, scenario_json: &str) -> Option<Refusal> {
    py.allow_threads(|| Scenario::from_json(scenario_json).err().map(refusal))
}

/// Run scenarios on `threads` threads (0: one per core). `finished(index, outcome, error)` is
/// called in this thread when a scenario ends and returns whether to continue. `cancelled()` is
/// called periodically and returns whether to stop; `progress(simulated_ns)` is called with the
/// total time simulated so far. Return how many scenarios ended.
#[pyfunction]
#[pyo3(signature = (scenarios, threads, finished, cancelled, progress=None))]
pub fn simulate_many(
    py: Python<'_>,
    scenarios: Vec<String>,
    threads: usize,
    finished: PyObject,
    cancelled: PyObject,
    progress: Option<PyObject>,
) -> PyResult<usize> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { cores } else { threads }.min(scenarios.len().max(1));
    let reached: Vec<Reached> = scenarios.iter().map(|_| Reached::new(0)).collect();
    py.allow_threads(|| {
        let ask = |ended: Option<(usize, Result<String, Refusal>)>| -> PyResult<bool> {
            Python::with_gil(|py| match ended {
                Some((index, Ok(outcome))) => {
                    finished.call1(py, (index, outcome, py.None()))?.is_truthy(py)
                }
                Some((index, Err(error))) => {
                    finished.call1(py, (index, py.None(), error))?.is_truthy(py)
                }
                None => {
                    py.check_signals()?;
                    if let Some(progress) = &progress {
                        let all: u64 =
                            reached.iter().map(|each| each.load(Ordering::Relaxed)).sum();
                        progress.call1(py, (all,))?;
                    }
                    Ok(!cancelled.call0(py)?.is_truthy(py)?)
                }
            })
        };
        run_side_by_side(&scenarios, &reached, threads, ask)
    })
}

/// Run the scenarios. `ask` is called with each one that ends, and periodically with `None`; it
/// returns whether to continue.
fn run_side_by_side(
    scenarios: &[String],
    reached: &[Reached],
    threads: usize,
    mut ask: impl FnMut(Option<(usize, Result<String, Refusal>)>) -> PyResult<bool>,
) -> PyResult<usize> {
    let (cancel, next) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let (sender, receiver) = channel();
        for _ in 0..threads {
            let (sender, cancel, next) = (sender.clone(), &cancel, &next);
            scope.spawn(move || loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= scenarios.len() || cancel.load(Ordering::Relaxed) {
                    return;
                }
                let outcome = simulate(&scenarios[index], cancel, &reached[index]);
                if cancel.load(Ordering::Relaxed) || sender.send((index, outcome)).is_err() {
                    return;
                }
            });
        }
        drop(sender);
        let mut count = 0;
        let result = loop {
            let answer = match receiver.recv_timeout(PATIENCE) {
                Ok(ended) => {
                    count += 1;
                    ask(Some(ended))
                }
                Err(RecvTimeoutError::Timeout) => ask(None),
                Err(RecvTimeoutError::Disconnected) => break Ok(count),
            };
            match answer {
                Ok(true) => {}
                Ok(false) => break Ok(count),
                Err(error) => break Err(error),
            }
        };
        // The scope ends when every thread has seen this flag.
        cancel.store(true, Ordering::Relaxed);
        result
    })
}
