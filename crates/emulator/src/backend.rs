//! Interface between the kernel's block requests and the engine. The only implementation is a FUSE
//! file under a loop device (`fuse`).

use std::io::{self, IoSlice};

/// Destination of a reply: a port of the backend, and the kernel's number of the request on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub port: u32,
    pub unique: u64,
}

/// The operation that the kernel requests. Offsets and lengths in bytes.
pub enum Asked<'a> {
    Read { offset: u64, length: u32 },
    Write { offset: u64, data: &'a [u8] },
    Flush,
    Discard { offset: u64, length: u64 },
    WriteZeroes { offset: u64, length: u64 },
}

/// A received request.
pub struct Arrival<'a> {
    pub ticket: Ticket,
    /// The thread that submitted it; 0 if unknown.
    pub submitter: i32,
    pub asked: Asked<'a>,
}

/// The result of a request.
pub enum Answer<'a> {
    Data(&'a [IoSlice<'a>]),
    Written(u32),
    Done,
    /// An errno.
    Failed(i32),
}

/// Requests are received by ports, one thread each.
pub trait Port: Send {
    /// Return the next request; `None` when the device was removed.
    fn next(&mut self) -> io::Result<Option<Arrival<'_>>>;
}

/// Replies are sent from any thread.
pub trait Backend: Send + Sync {
    fn answer(&self, ticket: Ticket, answer: Answer<'_>);
}
