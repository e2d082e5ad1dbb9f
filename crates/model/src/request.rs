//! The one interface of everything that serves block requests: drives, RAIDs, schedulers over them.

/// Time in integer nanoseconds since the start of the run.
pub type Nanos = u64;

/// Bytes in a sector, the unit of addresses and lengths.
pub const SECTOR_BYTES: u64 = 512;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Read,
    Write,
    /// Everything that completed before must be on stable storage when this completes.
    Flush,
    Discard,
    WriteZeroes,
}

/// One request. `tag` is the caller's and comes back in the completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub tag: u64,
    pub op: Op,
    /// First sector (512 B).
    pub sector: u64,
    pub sectors: u32,
    /// Forced unit access: a write that must be on stable storage when it completes.
    pub fua: bool,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request lies outside the device.
    OutOfRange,
    /// The medium could not be read or written (injected).
    Medium,
    /// The device is gone.
    Gone,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Done,
    Failed(Fault),
}

/// A request that ended, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub tag: u64,
    pub time: Nanos,
    pub status: Status,
}

/// Anything that serves block requests in its own time.
///
/// Calls come with `now` that never goes back. Each resource inside keeps its own timeline: calling
/// `wake` late yields the same completion times as calling it at every `next_wake`.
pub trait Device {
    /// Sectors that can be addressed.
    fn capacity_sectors(&self) -> u64;
    /// Hands a request over at `now`. Every request submitted completes exactly once, if only with a fault.
    fn submit(&mut self, now: Nanos, request: Request);
    /// Appends every completion due at or before `now` to `out`, ordered by (time, submission).
    fn wake(&mut self, now: Nanos, out: &mut Vec<Completion>);
    /// When `wake` next has something to do; `None` while idle.
    fn next_wake(&self) -> Option<Nanos>;
    /// Requests submitted and not yet handed back.
    fn in_flight(&self) -> usize;
    /// Energy drawn from time 0 to `now`, joules (the integral over the power states).
    fn energy_j(&self, now: Nanos) -> f64;
}
