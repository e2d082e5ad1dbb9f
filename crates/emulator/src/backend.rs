//! How block requests of the kernel reach the engine, and answers go back. One implementation so far: a FUSE
//! file under a loop device (`fuse`).

use std::io::{self, IoSlice};

/// Where an answer has to go: one of a backend's ports, and the kernel's number of the request there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ticket {
    pub port: u32,
    pub unique: u64,
}

/// What the kernel asks for. Offsets and lengths in bytes.
pub enum Asked<'a> {
    Read { offset: u64, length: u32 },
    Write { offset: u64, data: &'a [u8] },
    Flush,
    Discard { offset: u64, length: u64 },
    WriteZeroes { offset: u64, length: u64 },
}

/// A request that has come in.
pub struct Arrival<'a> {
    pub ticket: Ticket,
    pub asked: Asked<'a>,
}

/// What becomes of a request.
pub enum Answer<'a> {
    Data(&'a [IoSlice<'a>]),
    Written(u32),
    Done,
    /// An errno.
    Failed(i32),
}

/// Requests come in by ports, one thread each.
pub trait Port: Send {
    /// The next request; none when the device is gone for good.
    fn next(&mut self) -> io::Result<Option<Arrival<'_>>>;
}

/// Answers go out from any thread.
pub trait Backend: Send + Sync {
    fn answer(&self, ticket: Ticket, answer: Answer<'_>);
}
