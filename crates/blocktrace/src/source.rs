//! The interface of every trace format: events as batches in time order.

use crate::damage::Damages;
use crate::event::{Event, Names};

/// Events of a trace in batches.
pub trait Source {
    /// Fill the empty `batch` with events in time order; leave it empty at the end of the trace.
    fn fill(&mut self, batch: &mut Vec<Event>);
    /// Pass the next events to `take` in time order, with what [`Source::completes`] then says.
    /// Return false at the end of the trace. `batch` is space for them.
    fn pass(&mut self, batch: &mut Vec<Event>, take: &mut dyn FnMut(bool, &[Event])) -> bool {
        batch.clear();
        self.fill(batch);
        take(self.completes(), batch);
        !batch.is_empty()
    }
    fn names(&self) -> &Names;
    fn damages(&self) -> &Damages;
    fn format(&self) -> &'static str;
    /// Return the number of events that the trace, as far as it was read, is known to lack.
    fn missing(&self) -> u64 {
        0
    }
    /// Return whether the trace, as far as it was read, can contain completion times.
    fn completes(&self) -> bool {
        true
    }
}

pub const BATCH: usize = 2048;

/// Return the system's error message without the error number that Rust appends.
pub fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}
