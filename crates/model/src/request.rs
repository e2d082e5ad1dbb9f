//! The interface of every model that serves block requests: drives, RAIDs and I/O schedulers.

/// Time in integer nanoseconds since the start of the run.
pub type Nanos = u64;

/// Bytes per sector, the unit of addresses and lengths.
pub const SECTOR_BYTES: u64 = 512;

/// Operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Read,
    Write,
    /// Completes when every write that completed before it is on stable storage.
    Flush,
    Discard,
    WriteZeroes,
}

/// One request. The caller chooses `tag`; the completion returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub tag: u64,
    pub op: Op,
    /// First sector (512 B each).
    pub sector: u64,
    pub sectors: u32,
    /// Force unit access: the write is on stable storage when it completes.
    pub fua: bool,
}

/// One request with the process that submits it, as an I/O scheduler sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SubmittedIo {
    pub request: Request,
    pub process: u32,
    /// A process waits for the I/O: reads, and writes of fsync or O_DIRECT.
    pub sync: bool,
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request lies outside the device.
    OutOfRange,
    /// The medium cannot be read or written (injected fault).
    Medium,
    /// The device is absent.
    Gone,
    /// The device has no power. When power returns, it holds what was on stable storage.
    Unpowered,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Done,
    Failed(Fault),
}

/// A finished request and its completion time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub tag: u64,
    pub time: Nanos,
    pub status: Status,
}

/// Contiguous sectors: the first sector and the number of sectors.
pub type SectorRange = (u64, u64);

/// How data that exist before the run lie on the flash of a drive that held data before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoredOrder {
    /// As the initial state of the drive says.
    OfDrive,
    /// Each range in order: it was written as a whole, as files are.
    Written,
}

/// What a device stores, consumes and loses; `Device` serves its requests.
///
/// A drive implements every method. A wrapper around one device implements `Wrapper` instead and
/// inherits the methods of the device below, so it cannot forget to forward one.
pub trait Medium {
    /// Addressable sectors.
    fn capacity_sectors(&self) -> u64;
    /// Return the energy drawn from time 0 to `now` in joules (the integral over the power states).
    fn energy_j(&self, now: Nanos) -> f64;
    /// Return the ranges that are acknowledged but not on stable storage at `now`: the data that a
    /// power loss at `now` can lose. `now` follows the rules of `Device::wake`.
    fn unflushed(&mut self, now: Nanos) -> Vec<SectorRange>;
    /// Return the effects of injected faults on the device.
    fn fault_counts(&self) -> FaultCounts;
    /// Return what was written to flash memory and by it; zero for other media.
    fn flash_writes(&self) -> FlashWrites;
    /// Store data before the first request, in no time and without wear. The ranges are sorted and
    /// do not overlap (`ranges::merge`). Sectors neither preloaded nor written hold no data.
    fn preload(&mut self, data: &[SectorRange], order: StoredOrder);
    /// Discard data before the first request, in no time, as making a filesystem does. Nothing
    /// happens where discards do not reach a drive that knows them.
    fn trim(&mut self, data: &[SectorRange]);
}

/// A device on top of one other device, which it changes only in how requests are served.
pub trait Wrapper {
    /// The device below.
    type Below: Medium + ?Sized;
    fn below(&self) -> &Self::Below;
    fn below_mut(&mut self) -> &mut Self::Below;
    /// Pass down everything due by `now`, before the device below is examined at `now`.
    fn pass_down(&mut self, now: Nanos);
    /// Add the wrapper's own injected faults to the counts of the device below. By default it has
    /// none. `crates/tests/model/wrappers.rs` checks every wrapper.
    fn with_own_faults(&self, below: FaultCounts) -> FaultCounts {
        below
    }
    /// Return whether discards reach the device below.
    fn passes_discards(&self) -> bool {
        true
    }
}

impl<W: Wrapper> Medium for W {
    fn capacity_sectors(&self) -> u64 {
        self.below().capacity_sectors()
    }
    fn energy_j(&self, now: Nanos) -> f64 {
        self.below().energy_j(now)
    }
    fn unflushed(&mut self, now: Nanos) -> Vec<SectorRange> {
        self.pass_down(now);
        self.below_mut().unflushed(now)
    }
    fn fault_counts(&self) -> FaultCounts {
        self.with_own_faults(self.below().fault_counts())
    }
    fn flash_writes(&self) -> FlashWrites {
        self.below().flash_writes()
    }
    fn preload(&mut self, data: &[SectorRange], order: StoredOrder) {
        self.below_mut().preload(data, order);
    }
    fn trim(&mut self, data: &[SectorRange]) {
        if self.passes_discards() {
            self.below_mut().trim(data);
        }
    }
}

/// Bytes written to a drive with flash memory, and bytes that its flash wrote for them. The ratio
/// is the write amplification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashWrites {
    pub host_bytes: u64,
    pub flash_bytes: u64,
}

impl std::ops::Add for FlashWrites {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            host_bytes: self.host_bytes + other.host_bytes,
            flash_bytes: self.flash_bytes + other.flash_bytes,
        }
    }
}

/// A model that serves block requests on its own timeline.
///
/// `now` never decreases between calls. Each internal resource keeps its own timeline: a late
/// `wake` yields the same completion times as a `wake` at every `next_wake`.
pub trait Device: Medium {
    /// Accept a request at `now`. Every request completes exactly once, possibly with a fault.
    fn submit(&mut self, now: Nanos, request: Request);
    /// Like `submit`, for a process that waits for each request (`O_DIRECT`).
    fn submit_direct(&mut self, now: Nanos, request: Request) {
        self.submit(now, request);
    }
    /// Append every completion due at or before `now` to `out`, ordered by (time, submission).
    fn wake(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.wake_ahead(now, now, out);
    }
    /// Like `wake`, but also append completions that are certain at `now` and due by `until`, for
    /// callers that need lead time. A device that cannot predict them appends the same as `wake`.
    fn wake_ahead(&mut self, now: Nanos, until: Nanos, out: &mut Vec<Completion>);
    /// Return when `wake` next has work; `None` when idle.
    fn next_wake(&self) -> Option<Nanos>;
    /// Return the number of requests submitted and not yet returned.
    fn in_flight(&self) -> usize;
}

/// A device that accepts I/Os of processes: a block queue, or a device that forwards to block
/// queues.
pub trait Queue: Device {
    /// Like `submit`, with the submitting process.
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo);
    /// Start to collect I/Os of one submitter, which can merge with each other, until `unplug`.
    fn plug(&mut self);
    /// Dispatch the collected I/Os.
    fn unplug(&mut self, now: Nanos);
}

/// Effects of injected faults on a device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultCounts {
    /// How many times each fault took effect, in the order in which the faults were added.
    pub fired: Vec<u64>,
    /// Bytes acknowledged but not on stable storage at a power loss.
    pub lost_bytes: u64,
    /// Rebuilt share of a replaced drive, 0 to 1.
    pub rebuilt: Option<f64>,
}

impl<D: Medium + ?Sized> Wrapper for Box<D> {
    type Below = D;
    fn below(&self) -> &D {
        self
    }
    fn below_mut(&mut self) -> &mut D {
        self
    }
    fn pass_down(&mut self, _now: Nanos) {}
}

impl<D: Device + ?Sized> Device for Box<D> {
    fn submit(&mut self, now: Nanos, request: Request) {
        (**self).submit(now, request);
    }
    fn submit_direct(&mut self, now: Nanos, request: Request) {
        (**self).submit_direct(now, request);
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
}

impl<D: Queue + ?Sized> Queue for Box<D> {
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        (**self).submit_io(now, io);
    }
    fn plug(&mut self) {
        (**self).plug();
    }
    fn unplug(&mut self, now: Nanos) {
        (**self).unplug(now);
    }
}
