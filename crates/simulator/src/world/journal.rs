//! State of a filesystem's journal.

use crate::ids::OpId;
use crate::queue::Handle;

/// The running transaction of a filesystem.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub dirty: Vec<u32>,
    pub is_dirty: Vec<bool>,
    pub timer: Option<Handle>,
    pub state: JournalState,
    /// Blocks written by the running commit; after it they are dirtied at their final location.
    pub committing: Vec<u32>,
    /// Number of files whose data must be written first (ordered mode).
    pub ordered_left: u32,
    pub waiters: Vec<OpId>,
    pub next_waiters: Vec<OpId>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum JournalState {
    #[default]
    Idle,
    Data,
    Log,
    Barrier,
}
