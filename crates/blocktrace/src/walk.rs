//! From a trace's files to a watcher: the events of the devices and the time that are wanted, joined into requests.

use std::path::PathBuf;

use crate::damage::{Damage, Damages};
use crate::event::{Action, Event, Names};
use crate::join::{Join, Watcher};
use crate::source::{open, BATCH};

/// What of a trace is looked at.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// `major << 20 | minor`; all when None.
    pub device: Option<u32>,
}

impl Filter {
    fn lets(&self, event: &Event) -> bool {
        self.device.is_none_or(|device| device == event.device)
    }
}

/// What stood beside the events.
#[derive(Debug)]
pub struct Walked {
    pub format: &'static str,
    pub names: Names,
    pub damages: Damages,
    /// Requests whose completion was not seen.
    pub unfinished: u64,
}

/// Takes a whole trace. `after` is called between batches and ends the walk by returning false.
pub fn walk<W: Watcher>(
    files: &[PathBuf],
    filter: &Filter,
    watcher: &mut W,
    mut after: impl FnMut(&mut W) -> bool,
) -> Result<Walked, Box<Damage>> {
    let mut source = open(files)?;
    let mut join = Join::default();
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        batch.clear();
        source.fill(&mut batch);
        if batch.is_empty() {
            break;
        }
        for event in batch.iter().filter(|event| filter.lets(event)) {
            join.take(event, watcher);
        }
        if !after(watcher) {
            break;
        }
    }
    let unfinished = join.unfinished + join.open_requests() as u64;
    let (names, damages) = (source.names().clone(), source.damages().clone());
    Ok(Walked { format: source.format(), names, damages, unfinished })
}

/// Whether a trace says when requests were issued to the driver (D): only then is it judged by that.
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
