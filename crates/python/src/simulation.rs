//! Scenarios in virtual time: one, or many side by side with outcomes as they come in.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use headrace_simulator::{run_watched, Scenario, ScenarioError};
use pyo3::prelude::*;

use crate::errors::ModelError;

/// How often Python is asked whether to go on.
const PATIENCE: Duration = Duration::from_millis(200);

type Refusal = (String, String, String);

fn refusal(error: ScenarioError) -> Refusal {
    (error.path, error.given, error.allowed)
}

/// How far a scenario is in its own time; nothing before it began.
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

/// Runs a scenario (JSON) and returns its outcome (JSON). Raises ModelError.
#[pyfunction]
pub fn simulate_json(py: Python<'_>, scenario_json: &str) -> PyResult<String> {
    py.allow_threads(|| simulate(scenario_json, &AtomicBool::new(false), &Reached::new(0)))
        .map_err(ModelError::new_err)
}

/// Runs scenarios on `threads` threads (0: one a core). `finished(index, outcome, error)` is called in this thread as each
/// ends and says whether to go on; `cancelled()` is asked now and then, and `watching(simulated_ns)` told how much time has been
/// simulated in all scenarios together. Returns how many ended.
#[pyfunction]
#[pyo3(signature = (scenarios, threads, finished, cancelled, watching=None))]
pub fn simulate_many(
    py: Python<'_>,
    scenarios: Vec<String>,
    threads: usize,
    finished: PyObject,
    cancelled: PyObject,
    watching: Option<PyObject>,
) -> PyResult<usize> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = if threads == 0 { cores } else { threads }.min(scenarios.len().max(1));
    let reached: Vec<Reached> = scenarios.iter().map(|_| Reached::new(0)).collect();
    py.allow_threads(|| {
        let ask = |ended: Option<(usize, Result<String, Refusal>)>| -> PyResult<bool> {
            Python::with_gil(|py| match ended {
                Some((index, Ok(outcome))) => finished.call1(py, (index, outcome, py.None()))?.is_truthy(py),
                Some((index, Err(error))) => finished.call1(py, (index, py.None(), error))?.is_truthy(py),
                None => {
                    py.check_signals()?;
                    if let Some(watching) = &watching {
                        let all: u64 = reached.iter().map(|each| each.load(Ordering::Relaxed)).sum();
                        watching.call1(py, (all,))?;
                    }
                    Ok(!cancelled.call0(py)?.is_truthy(py)?)
                }
            })
        };
        run_side_by_side(&scenarios, &reached, threads, ask)
    })
}

/// Runs the scenarios; `ask` hears of each that ended, or of nothing now and then, and says whether to go on.
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
        // The scope is left when every thread has seen this.
        cancel.store(true, Ordering::Relaxed);
        result
    })
}
