//! What is under way: operations that a process or request waits for, and the I/Os of these, of flushers and of journals.

use headrace_model::pagecache::readahead::ReadAhead;

/// What an I/O is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoKind {
    /// Fills an extent of the page cache.
    Fill {
        extent: u32,
    },
    /// Writes one.
    Writeback {
        extent: u32,
    },
    /// Part of an operation that goes past the cache.
    Through {
        op: u32,
    },
    /// A write past the cache that has been answered to its caller (write-behind).
    Behind {
        bytes: u64,
    },
    Journal {
        volume: u32,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Io {
    pub kind: IoKind,
    pub instance: u32,
    /// First of the operations that wait for it.
    pub waiters: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    Task(u32),
    Rpc(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    /// Through the page cache.
    Read,
    Write,
    /// Past it: O_DIRECT, or a service without a client cache.
    DirectRead,
    DirectWrite,
    /// What `fsync` waits for, and what `close` waits for.
    Sync,
    Close,
}

/// A read, write or sync under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub kind: OpKind,
    pub parent: Parent,
    pub instance: u32,
    pub process: u32,
    /// The job that its bytes count for; `NONE` for nobody's.
    pub job: u32,
    pub mapped: bool,
    pub failed: bool,
    pub stage: u8,
    pub cursor: u32,
    pub end: u32,
    pub submit_from: u32,
    pub submit_to: u32,
    pub mark: u32,
    /// The page at which two-window read-ahead is asked next.
    pub ask_at: u32,
    pub missed: u32,
    pub offset: u64,
    pub length: u64,
    pub read_ahead: ReadAhead,
    pub outstanding: u32,
    /// The next that waits for the same I/O.
    pub next: u32,
}
