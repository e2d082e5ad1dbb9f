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

/// One request with who submits it, as an I/O scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmittedIo {
    pub request: Request,
    pub process: u32,
    /// Someone waits for it: reads, and writes of fsync or O_DIRECT.
    pub sync: bool,
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
    /// The device has no power; it comes back with what was on stable storage.
    Unpowered,
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
    /// As `submit`, with who submits: block queues ask, what lies below them does not.
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        self.submit(now, io.request);
    }
    /// From here on I/Os of one submitter may collect, and merge with each other, until `unplug`.
    fn plug(&mut self) {}
    /// What collected goes on.
    fn unplug(&mut self, _now: Nanos) {}
    /// Appends every completion due at or before `now` to `out`, ordered by (time, submission).
    fn wake(&mut self, now: Nanos, out: &mut Vec<Completion>);
    /// As `wake`, and hands back what is certain at `now` to end by `until`: for who needs time to act on it.
    /// A device that cannot say hands back what `wake` does.
    fn wake_ahead(&mut self, now: Nanos, _until: Nanos, out: &mut Vec<Completion>) {
        self.wake(now, out);
    }
    /// When `wake` next has something to do; `None` while idle.
    fn next_wake(&self) -> Option<Nanos>;
    /// Requests submitted and not yet handed back.
    fn in_flight(&self) -> usize;
    /// Energy drawn from time 0 to `now`, joules (the integral over the power states).
    fn energy_j(&self, now: Nanos) -> f64;
    /// Ranges (first sector, sectors) acknowledged but not on stable storage at `now`: what a loss of power at that
    /// moment may lose. `now` as for `wake`.
    fn unflushed(&mut self, _now: Nanos) -> Vec<(u64, u64)> {
        Vec::new()
    }
    /// What injected faults have done to it.
    fn fault_counts(&self) -> FaultCounts {
        FaultCounts::default()
    }
}

/// What injected faults have done to a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultCounts {
    /// How often each fault took effect, in the order in which they were given.
    pub fired: Vec<u64>,
    /// Bytes acknowledged and not on stable storage when power was lost.
    pub lost_bytes: u64,
    /// How much of a replaced drive is filled, 0 to 1.
    pub rebuilt: Option<f64>,
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn capacity_sectors(&self) -> u64 {
        (**self).capacity_sectors()
    }
    fn submit(&mut self, now: Nanos, request: Request) {
        (**self).submit(now, request);
    }
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        (**self).submit_io(now, io);
    }
    fn plug(&mut self) {
        (**self).plug();
    }
    fn unplug(&mut self, now: Nanos) {
        (**self).unplug(now);
    }
    fn wake(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        (**self).wake(now, out);
    }
    fn wake_ahead(&mut self, now: Nanos, until: Nanos, out: &mut Vec<Completion>) {
        (**self).wake_ahead(now, until, out);
    }
    fn next_wake(&self) -> Option<Nanos> {
        (**self).next_wake()
    }
    fn in_flight(&self) -> usize {
        (**self).in_flight()
    }
    fn energy_j(&self, now: Nanos) -> f64 {
        (**self).energy_j(now)
    }
    fn unflushed(&mut self, now: Nanos) -> Vec<(u64, u64)> {
        (**self).unflushed(now)
    }
    fn fault_counts(&self) -> FaultCounts {
        (**self).fault_counts()
    }
}
