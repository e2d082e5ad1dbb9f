//! The interface between a block queue and its scheduler.

use super::requests::{Queued, Requests};
use crate::request::Nanos;

/// Answer of a scheduler to a request for the next dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Dispatch this request.
    Dispatch(u32),
    /// Dispatch nothing now; call again at this time, or at an arrival or completion.
    Idle(Nanos),
    /// Nothing to dispatch.
    Empty,
}

/// Methods of every scheduler. `table` holds the requests that the indices identify.
pub(super) trait Elevator {
    fn insert(&mut self, now: Nanos, index: u32, table: &Requests);
    /// A queued request was extended at its front: it now starts at `sector` instead of
    /// `old_sector`.
    fn moved(&mut self, _index: u32, _old_sector: u64, _table: &Requests) {}
    /// Remove the next request to dispatch from the scheduler and return it.
    fn next(&mut self, now: Nanos, in_drive: u32, table: &Requests) -> Choice;
    fn completed(&mut self, _now: Nanos, _request: &Queued) {}
    /// Return whether an I/O of `process` may be merged into the request.
    fn may_merge(&self, _request: &Queued, _process: u32, _sync: bool) -> bool {
        true
    }
}
