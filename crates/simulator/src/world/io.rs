//! Operations that a process or request waits for, and the I/Os of operations, flushers and
//! journals.

use headrace_model::pagecache::pages::Folio;
use headrace_model::pagecache::readahead::ReadAhead;
use headrace_model::pagecache::Extent;
use headrace_model::slots::Id;

use crate::ids::{FetchId, InstanceId, JobId, OpId, RpcId, TaskId};

/// The purpose of an I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoKind {
    /// Fills an extent of the page cache.
    Fill {
        extent: Id<Extent>,
    },
    /// Writes an extent of the page cache to storage.
    Writeback {
        extent: Id<Extent>,
    },
    /// Part of an operation that bypasses the page cache.
    Through {
        op: OpId,
    },
    /// A write that bypasses the page cache and was already acknowledged to its caller
    /// (write-behind).
    Behind {
        bytes: u64,
    },
    Journal {
        volume: u32,
    },
    /// Discards space of a removed file.
    Discard,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Io {
    pub kind: IoKind,
    pub instance: InstanceId,
    /// The first of the operations that wait for it (a linked list).
    pub waiters: Option<OpId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    Task(TaskId),
    Rpc(RpcId),
    /// Blocks that a server fetches for its cache.
    Fetch(FetchId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    /// Through the page cache.
    Read,
    Write,
    /// Bypasses the page cache: O_DIRECT, or a service without a client cache.
    DirectRead,
    DirectWrite,
    /// The waits of `fsync` and of `close`.
    Sync,
    Close,
}

/// The stage of an operation that bypasses the page cache, writes into it, or syncs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpStage {
    /// Not everything is submitted: a read or write may wait for a metadata block, a sync for dirty
    /// pages.
    Submitting,
    /// Everything is submitted, and the operation waits for it.
    Submitted,
}

/// A read, write or sync in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub kind: OpKind,
    pub parent: Parent,
    pub instance: InstanceId,
    pub process: u32,
    /// The job that its bytes are charged to.
    pub job: Option<JobId>,
    pub mapped: bool,
    pub failed: bool,
    pub stage: OpStage,
    pub cursor: u32,
    pub end: u32,
    pub submit_from: u32,
    pub submit_to: u32,
    /// Where the read-ahead mark is set once the window is being read.
    pub mark: Option<Folio>,
    /// Of the folios that are being read.
    pub order: u8,
    /// The page at which two-window read-ahead is next invoked.
    pub ask_at: u32,
    pub missed: u32,
    pub offset: u64,
    pub length: u64,
    pub read_ahead: ReadAhead,
    pub outstanding: u32,
    /// The next operation that waits for the same I/O.
    pub next: Option<OpId>,
}
