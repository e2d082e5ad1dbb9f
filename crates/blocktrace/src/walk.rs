//! Processes the files of a trace: selects events by device, joins them to requests, and passes
//! these to a watcher.

use std::path::PathBuf;

use crate::damage::{Damage, Damages};
use crate::event::{Action, Event, Names};
use crate::formats::open;
use crate::join::{Join, Watcher};
use crate::source::BATCH;

/// Selects a part of a trace.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// `major << 20 | minor`; `None`: all devices.
    pub device: Option<u32>,
}

impl Filter {
    fn lets(&self, event: &Event) -> bool {
        self.device.is_none_or(|device| device == event.device)
    }
}

/// Information about a trace other than its events.
#[derive(Debug, Default)]
pub struct Walked {
    pub format: &'static str,
    pub names: Names,
    pub damages: Damages,
    /// Requests whose completion was not recorded.
    pub unfinished: u64,
    /// Requests that were issued again without a requeue event.
    pub reissues: u64,
    /// Events that the trace is known to lack.
    pub missing: u64,
}

/// Process a whole trace. `after` is called between batches; returning false stops the processing.
pub fn walk<W: Watcher>(
    files: &[PathBuf],
    filter: &Filter,
    watcher: &mut W,
    mut after: impl FnMut(&mut W) -> bool,
) -> Result<Walked, Box<Damage>> {
    let mut source = open(files)?;
    let mut join = Join::default();
    let mut batch = Vec::with_capacity(BATCH);
    while source.pass(&mut batch, &mut |completes, events| {
        join.expect_completions(completes);
        for event in events.iter().filter(|event| filter.lets(event)) {
            join.take(event, watcher);
        }
    }) {
        if !after(watcher) {
            break;
        }
    }
    join.finish(watcher);
    let (unfinished, reissues) = (join.unfinished, join.reissues);
    let (names, damages) = (source.names().clone(), source.damages().clone());
    let (format, missing) = (source.format(), source.missing());
    Ok(Walked { format, names, damages, unfinished, reissues, missing })
}

/// Return whether a trace contains issue events (D): only then it is analysed by them.
pub fn has_issues(files: &[PathBuf], filter: &Filter) -> Result<bool, Box<Damage>> {
    let mut source = open(files)?;
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        batch.clear();
        source.fill(&mut batch);
        if batch.is_empty() {
            return Ok(false);
        }
        if batch.iter().any(|event| event.action == Action::Issue && filter.lets(event)) {
            return Ok(true);
        }
    }
}
