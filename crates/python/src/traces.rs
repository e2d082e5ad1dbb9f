//! Block traces: summaries, tiles and rows. Columns are bytes that numpy uses without conversion.

use std::collections::HashMap;
use std::path::PathBuf;

use headrace_blocktrace::damage::Damage;
use headrace_blocktrace::follow::Follow;
use headrace_blocktrace::formats::open;
use headrace_blocktrace::join::Join;
use headrace_blocktrace::requests::{Requests, Row};
use headrace_blocktrace::source::{Source, BATCH};
use headrace_blocktrace::statistics::summarise;
use headrace_blocktrace::tiles::{Tiles, Window};
use headrace_blocktrace::walk::{has_issues, walk, Filter};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyInterruptedError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use serde::Deserialize;
use serde_json::json;

use crate::errors::{read, write};

/// A time that the trace does not contain: numpy's integers have no missing value. `UNSEEN_NS` of
/// `headrace.traces.rows`.
const UNSEEN_NS: u64 = u64::MAX;

create_exception!(
    headrace._core,
    TraceError,
    PyException,
    "A trace that cannot be read: args are (file, line, field, given, problem, allowed)."
);

fn cannot(damage: &Damage) -> PyErr {
    let file = damage.file.display().to_string();
    TraceError::new_err((
        file,
        damage.line,
        damage.field.clone(),
        damage.given.clone(),
        damage.problem.clone(),
        damage.allowed.clone(),
    ))
}

fn filter(device: Option<u32>) -> Filter {
    Filter { device }
}

/// Return false after Ctrl-C. Called between batches; checks every 256th.
fn goes_on(batches: &mut u32) -> bool {
    *batches += 1;
    !batches.is_multiple_of(256) || Python::with_gil(|py| py.check_signals()).is_ok()
}

/// Return all files of the trace that this file belongs to.
#[pyfunction]
pub fn trace_files(path: PathBuf) -> Vec<PathBuf> {
    headrace_blocktrace::blktrace::files_of_run(&path)
}

/// Return the statistics of a trace as JSON: `summary` (null without requests), `format`,
/// `damages`.
#[pyfunction]
#[pyo3(signature = (files, device=None))]
pub fn trace_summary_json(
    py: Python<'_>,
    files: Vec<PathBuf>,
    device: Option<u32>,
) -> PyResult<String> {
    let (mut batches, mut ended) = (0, false);
    let (summary, walked) = py
        .allow_threads(|| {
            summarise(&files, &filter(device), || {
                ended = ended || !goes_on(&mut batches);
                !ended
            })
        })
        .map_err(|damage| cannot(&damage))?;
    if ended {
        return Err(PyInterruptedError::new_err("interrupted"));
    }
    write(&json!({ "summary": summary, "format": walked.format, "damages": walked.damages }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WindowText {
    from_ns: u64,
    to_ns: u64,
    sector_low: u64,
    sector_high: u64,
    columns: usize,
    rows: usize,
    groups: HashMap<u32, u8>,
    group_count: usize,
    /// Some requests of the trace never complete: exclude them from the requests in flight
    /// (slower).
    exact: bool,
}

fn bytes_of<'py, T: Copy, const N: usize>(
    py: Python<'py>,
    values: &[T],
    bytes: impl Fn(T) -> [u8; N],
) -> Bound<'py, PyBytes> {
    let all: Vec<u8> = values.iter().flat_map(|&value| bytes(value)).collect();
    PyBytes::new(py, &all)
}

/// Aggregate a trace into the cells of plots (crates/blocktrace/src/tiles.rs). Return columns by
/// name, as bytes.
#[pyfunction]
#[pyo3(signature = (files, window_json, device=None))]
pub fn trace_tiles<'py>(
    py: Python<'py>,
    files: Vec<PathBuf>,
    window_json: &str,
    device: Option<u32>,
) -> PyResult<Bound<'py, PyDict>> {
    let text: WindowText = read(window_json, "(window)")?;
    let filter = filter(device);
    let (mut batches, mut ended) = (0, false);
    let tiles = py
        .allow_threads(|| {
            let window = Window {
                from_ns: text.from_ns,
                to_ns: text.to_ns.max(text.from_ns),
                sector_low: text.sector_low,
                sector_high: text.sector_high.max(text.sector_low + 1),
                columns: text.columns.max(1),
                rows: text.rows.max(1),
                groups: text.groups.into_iter().collect(),
                group_count: text.group_count.clamp(1, 64),
                exact: text.exact,
            };
            let mut follow = Follow::new(has_issues(&files, &filter)?, Tiles::new(window));
            walk(&files, &filter, &mut follow, |_| {
                ended = !goes_on(&mut batches);
                !ended
            })?;
            follow.follower.finish();
            Ok(follow.follower)
        })
        .map_err(|damage: Box<Damage>| cannot(&damage))?;
    if ended {
        return Err(PyInterruptedError::new_err("interrupted"));
    }
    let found = PyDict::new(py);
    found.set_item("offsets", bytes_of(py, &tiles.offsets, u32::to_ne_bytes))?;
    found.set_item("bytes", bytes_of(py, &tiles.bytes, u64::to_ne_bytes))?;
    found.set_item("requests", bytes_of(py, &tiles.requests, u64::to_ne_bytes))?;
    found.set_item("seeks", bytes_of(py, &tiles.seeks, u64::to_ne_bytes))?;
    found.set_item("depth_ns", bytes_of(py, &tiles.depth.ns, u64::to_ne_bytes))?;
    found.set_item("depth_max", bytes_of(py, &tiles.depth.max, u32::to_ne_bytes))?;
    found.set_item("latencies", bytes_of(py, &tiles.latencies, u32::to_ne_bytes))?;
    Ok(found)
}

/// The requests of a trace in issue order, read several at a time.
#[pyclass]
pub struct TraceRows {
    source: Box<dyn Source + Send + Sync>,
    join: Join,
    requests: Follow<Requests>,
    filter: Filter,
    ended: bool,
}

#[pymethods]
impl TraceRows {
    #[new]
    #[pyo3(signature = (files, device=None))]
    fn new(py: Python<'_>, files: Vec<PathBuf>, device: Option<u32>) -> PyResult<TraceRows> {
        let filter = filter(device);
        py.allow_threads(|| {
            let by_issue = has_issues(&files, &filter)?;
            let source = open(&files)?;
            Ok(TraceRows {
                source,
                join: Join::default(),
                requests: Follow::new(by_issue, Requests::default()),
                filter,
                ended: false,
            })
        })
        .map_err(|damage: Box<Damage>| cannot(&damage))
    }

    /// Return columns of the next requests, at least `count` while more remain; empty columns at
    /// the end.
    fn next_rows<'py>(&mut self, py: Python<'py>, count: usize) -> PyResult<Bound<'py, PyDict>> {
        py.allow_threads(|| {
            let mut batch = Vec::with_capacity(BATCH);
            while !self.ended && self.requests.follower.ready.len() < count {
                batch.clear();
                self.source.fill(&mut batch);
                self.join.expect_completions(self.source.completes());
                if batch.is_empty() {
                    self.ended = true;
                    self.join.finish(&mut self.requests);
                    self.requests.follower.finish();
                }
                let wanted = |device| self.filter.device.is_none_or(|only| only == device);
                for event in batch.iter().filter(|event| wanted(event.device)) {
                    self.join.take(event, &mut self.requests);
                }
            }
        });
        let rows = std::mem::take(&mut self.requests.follower.ready);
        let found = PyDict::new(py);
        let wide = |get: fn(&Row) -> u64| rows.iter().map(get).collect::<Vec<u64>>();
        let narrow = |get: fn(&Row) -> u32| rows.iter().map(get).collect::<Vec<u32>>();
        for (name, get) in [
            ("time_ns", (|row| row.time_ns) as fn(&Row) -> u64),
            ("queue_ns", |row| row.queue_ns.unwrap_or(UNSEEN_NS)),
            ("complete_ns", |row| row.complete_ns.unwrap_or(UNSEEN_NS)),
            ("sector", |row| row.sector),
        ] {
            found.set_item(name, bytes_of(py, &wide(get), u64::to_ne_bytes))?;
        }
        for (name, get) in [
            ("sectors", (|row| row.sectors) as fn(&Row) -> u32),
            ("pid", |row| row.pid),
            ("device", |row| row.device),
            ("op", |row| row.op as u32),
        ] {
            found.set_item(name, bytes_of(py, &narrow(get), u32::to_ne_bytes))?;
        }
        Ok(found)
    }

    /// Return the names of the processes seen so far.
    fn names(&self) -> HashMap<u32, String> {
        self.source.names().iter().map(|(pid, name)| (*pid, name.clone())).collect()
    }

    /// Return the number of events that the trace, as far as it was read, is known to lack.
    fn missing(&self) -> u64 {
        self.source.missing()
    }

    /// Return the damages found so far as JSON: `first` with details, and `count`.
    fn damages_json(&self) -> PyResult<String> {
        write(self.source.damages())
    }
}
