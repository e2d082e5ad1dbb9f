//! Computes when each reply is due: the device model, given requests with their arrival times. Uses
//! no clock and no threads.
//!
//! The model keeps its own time: if the caller is late, the completion times stay the same. The
//! delay of one completion therefore never affects the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headrace_model::faults::FaultSpec;
use headrace_model::spec::SpecError;
use headrace_model::storage::{Drives, Storage};
use headrace_model::{Completion, Device, Fault, Nanos, Op, Request, Status, SECTOR_BYTES};
use serde::Serialize;

/// Maximum number of sectors of one model request.
const MOST_SECTORS: u64 = u32::MAX as u64 & !7;

/// How far ahead the model is queried for certain completions: more than any floor. An event of the
/// drive in that time (a fault, a power loss) does not change a reply that is already certain.
const AHEAD_NS: Nanos = 2_000_000;
/// A completion time is requested this long in advance, for callers that need lead time.
const EARLY_NS: Nanos = 1_000_000;

/// Latency of a request outside the model: the kernel's submission path and completion path,
/// including thread wake-ups. Both depend on how long the CPUs slept before: the completion path on
/// the service time, the submission path on the preceding pause. At queue depth 1 with equal
/// service times these are equal, which is how they are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Way {
    /// After a sleep of at most `QUICK_NS`.
    pub quick_ns: Nanos,
    /// After a sleep of at least `SLOW_NS`.
    pub slow_ns: Nanos,
}

pub const QUICK_NS: Nanos = 200_000;
pub const SLOW_NS: Nanos = 5_000_000;

impl Way {
    /// Return the latency after a sleep of this length, interpolated logarithmically.
    fn after(&self, slept: Nanos) -> Nanos {
        let (quick, slow) = (self.quick_ns as f64, self.slow_ns as f64);
        let part =
            (slept.max(1) as f64 / QUICK_NS as f64).ln() / (SLOW_NS as f64 / QUICK_NS as f64).ln();
        (quick + (slow - quick) * part.clamp(0.0, 1.0)) as Nanos
    }

    fn least(&self) -> Nanos {
        self.quick_ns.min(self.slow_ns)
    }
}

/// When the kernel handed a request over, and when it arrived.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    pub arrived: Nanos,
    /// When the block layer issued it to the driver; the model then starts it at that time, as a
    /// drive would. `None` if unknown: it starts on arrival.
    pub issued: Option<Nanos>,
}

impl From<Nanos> for Times {
    fn from(arrived: Nanos) -> Self {
        Times { arrived, issued: None }
    }
}

/// Latency between the application and the model, subtracted from every completion time. The data
/// of a write arrives with the request. Where the times of issue are known, the floor was measured
/// with them: it lacks the submission path then, and depends on the service time alone.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Floor {
    pub read: Way,
    pub write: Way,
    pub read_ns_per_byte: f64,
    pub write_ns_per_byte: f64,
}

impl Floor {
    /// Return the floor of a request with service time `service` that arrived after a sleep of
    /// `slept`; `None` if the time of its issue is known.
    #[inline]
    pub fn of(&self, op: Op, bytes: u64, slept: Option<Nanos>, service: Nanos) -> Nanos {
        let (way, per_byte) = match op {
            Op::Read => (&self.read, self.read_ns_per_byte),
            Op::Write => (&self.write, self.write_ns_per_byte),
            _ => (&self.read, 0.0),
        };
        let completion = way.after(service);
        let both = slept.map_or(completion, |slept| (way.after(slept) + completion) / 2);
        both + (bytes as f64 * per_byte) as Nanos
    }

    /// Return the smallest floor of any request.
    fn least(&self) -> Nanos {
        self.read.least().min(self.write.least())
    }
}

/// Tracks how long the CPUs slept before a request.
#[derive(Default)]
struct Sleep {
    /// Time of the last request or reply.
    last: Nanos,
    /// The last pause longer than `QUICK_NS`, and its end.
    pause: Nanos,
    ended: Nanos,
}

impl Sleep {
    /// Record a request or reply.
    fn note(&mut self, now: Nanos) {
        let pause = now.saturating_sub(self.last);
        if pause > QUICK_NS {
            (self.pause, self.ended) = (pause, now);
        }
        self.last = now;
    }

    /// Return the pause that ends now, or one that ended so recently that the woken threads have
    /// only just started.
    fn before(&self, now: Nanos) -> Nanos {
        let pause = now.saturating_sub(self.last);
        if pause <= QUICK_NS && now.saturating_sub(self.ended) <= QUICK_NS {
            self.pause
        } else {
            pause
        }
    }
}

/// What serves the requests.
pub enum Service {
    /// Every request completes immediately.
    Undelayed,
    /// Every request takes this long (to measure the floor).
    Fixed(Nanos),
    Drive(Box<Storage>),
}

/// A request with a known completion time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub tag: u64,
    /// When the reply must be sent.
    pub at: Nanos,
    /// When the request arrived.
    pub submitted: Nanos,
    /// When the application should see the completion.
    pub end: Nanos,
    pub status: Status,
}

#[derive(Clone, Copy)]
struct Flight {
    tag: u64,
    op: Op,
    bytes: u64,
    submitted: Nanos,
    slept: Option<Nanos>,
    /// How long after its issue, or after a flush that was under way then, the model starts it: the
    /// model's time had passed. The loop driver passes nothing on while it waits for a flush.
    behind: Nanos,
    /// Model requests that have not completed.
    parts: u32,
    status: Status,
    end: Nanos,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Waiting {
    at: Nanos,
    sequence: u64,
    flight: usize,
}

/// The last flush of a drive that takes no other command meanwhile.
#[derive(Clone, Copy)]
struct Closed {
    since: Nanos,
    /// `None`: it has not ended.
    until: Option<Nanos>,
}

impl Closed {
    /// Return when the drive would have started a request, had it arrived when it was issued and
    /// not at `now`.
    fn start_of(&self, issued: Nanos, now: Nanos) -> Nanos {
        if issued < self.since {
            return issued;
        }
        issued.max(self.until.map_or(now, |until| until.min(now)))
    }
}

pub struct Pacer {
    service: Service,
    floor: Floor,
    /// The model's time; monotonic.
    clock: Nanos,
    flights: Vec<Flight>,
    free: Vec<usize>,
    due: BinaryHeap<Reverse<Waiting>>,
    sequence: u64,
    woken: Vec<Completion>,
    /// The time up to which the model has reported certain completions.
    told: Nanos,
    busy: Nanos,
    busy_since: Option<Nanos>,
    sleep: Sleep,
    closed: Option<Closed>,
}

impl Pacer {
    pub fn new(service: Service) -> Self {
        Pacer {
            service,
            floor: Floor::default(),
            clock: 0,
            flights: Vec::with_capacity(512),
            free: Vec::with_capacity(512),
            due: BinaryHeap::with_capacity(512),
            sequence: 0,
            woken: Vec::with_capacity(512),
            told: 0,
            busy: 0,
            busy_since: None,
            sleep: Sleep::default(),
            closed: None,
        }
    }

    pub fn floor(&self) -> Floor {
        self.floor
    }

    pub fn set_floor(&mut self, floor: Floor) {
        self.floor = floor;
    }

    /// Replace the service; no request may be in flight.
    pub fn replace(&mut self, service: Service) -> Service {
        debug_assert_eq!(self.in_flight(), 0);
        std::mem::replace(&mut self.service, service)
    }

    pub fn storage(&mut self) -> Option<&mut Storage> {
        match &mut self.service {
            Service::Drive(storage) => Some(storage),
            _ => None,
        }
    }

    pub fn in_flight(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Return the model's time at `now`.
    pub fn model_time(&self, now: Nanos) -> Nanos {
        self.clock.max(now)
    }

    /// Return the time with requests in flight, up to `now`.
    pub fn busy_ns(&self, now: Nanos) -> Nanos {
        self.busy + self.busy_since.map_or(0, |since| now.saturating_sub(since))
    }

    /// Submit a request that arrived now. `tag` identifies it to the caller.
    pub fn submit(&mut self, times: impl Into<Times>, tag: u64, op: Op, offset: u64, bytes: u64) {
        let Times { arrived: now, issued } = times.into();
        let issued = issued.map(|issued| issued.min(now));
        let submitted = self.model_time(issued.unwrap_or(now));
        self.busy_since.get_or_insert(now);
        let slept = issued.is_none().then(|| self.sleep.before(now));
        self.sleep.note(now);
        let flight = Flight {
            tag,
            op,
            bytes,
            submitted,
            slept,
            behind: self.behind(issued, submitted),
            parts: 1,
            status: Status::Done,
            end: submitted,
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.flights[index] = flight;
                index
            }
            None => {
                self.flights.push(flight);
                self.flights.len() - 1
            }
        };
        self.note_flush(op, issued.unwrap_or(submitted));
        match &mut self.service {
            Service::Undelayed => self.ended(index, submitted),
            Service::Fixed(delay) => {
                let end = submitted + *delay;
                self.ended(index, end);
            }
            Service::Drive(storage) => {
                self.clock = submitted;
                // The new request may change completions that were not reported yet.
                self.told = 0;
                let first = offset / SECTOR_BYTES;
                let mut left = bytes / SECTOR_BYTES;
                let mut at = first;
                self.flights[index].parts = left.div_ceil(MOST_SECTORS).max(1) as u32;
                loop {
                    let sectors = left.min(MOST_SECTORS);
                    let request = Request {
                        tag: index as u64,
                        op,
                        sector: at,
                        sectors: sectors as u32,
                        fua: false,
                    };
                    storage.submit(submitted, request);
                    at += sectors;
                    left -= sectors;
                    if left == 0 {
                        break;
                    }
                }
            }
        }
    }

    /// Return how late the model starts a request at `now`.
    fn behind(&self, issued: Option<Nanos>, now: Nanos) -> Nanos {
        issued.map_or(0, |issued| {
            now - self.closed.map_or(issued, |closed| closed.start_of(issued, now))
        })
    }

    /// Record a flush since its issue: what was issued after that waits for it in the loop driver,
    /// also if the flush itself took long to arrive.
    fn note_flush(&mut self, op: Op, since: Nanos) {
        if op == Op::Flush && self.storage().is_some_and(|storage| storage.flushes_alone()) {
            self.closed = Some(Closed { since, until: None });
        }
    }

    fn ended(&mut self, index: usize, end: Nanos) {
        let flight = &mut self.flights[index];
        flight.end = end;
        if let Some(closed) = self.closed.as_mut().filter(|_| flight.op == Op::Flush) {
            closed.until = Some(end);
        }
        let service = end.saturating_sub(flight.submitted);
        let floor = self.floor.of(flight.op, flight.bytes, flight.slept, service);
        let at = end.saturating_sub(floor + flight.behind);
        self.sequence += 1;
        self.due.push(Reverse(Waiting { at, sequence: self.sequence, flight: index }));
    }

    /// Return how early a RAID is queried, `None` for a single drive. A RAID cannot report certain
    /// completions, because the end of one drive's part may start another's. It is queried one
    /// floor ahead instead, and requests that arrive meanwhile count as that much later.
    fn raid_ahead(&self, storage: &Storage) -> Option<Nanos> {
        matches!(storage.drives, Drives::Raid(_)).then_some(self.floor.least())
    }

    /// Collect the completions that the model reports.
    pub fn collect(&mut self, now: Nanos) {
        let Service::Drive(storage) = &self.service else { return };
        let (from, until) = match self.raid_ahead(storage) {
            Some(ahead) => (self.model_time(now + ahead), self.model_time(now + ahead)),
            None => (self.model_time(now), self.model_time(now) + AHEAD_NS),
        };
        // Query the model only if it has something to report.
        if storage.next_wake().is_none_or(|next| next > until) {
            return;
        }
        let Service::Drive(storage) = &mut self.service else { return };
        self.clock = from;
        self.told = until;
        let mut woken = std::mem::take(&mut self.woken);
        storage.wake_ahead(from, until, &mut woken);
        for completion in woken.drain(..) {
            let index = completion.tag as usize;
            let flight = &mut self.flights[index];
            flight.parts -= 1;
            flight.end = flight.end.max(completion.time);
            if completion.status != Status::Done {
                flight.status = completion.status;
            }
            if flight.parts == 0 {
                let end = flight.end;
                self.ended(index, end);
            }
        }
        self.woken = woken;
    }

    /// Return when `collect` or `pop` next has something to do.
    pub fn next(&self) -> Option<Nanos> {
        let due = self.due.peek().map(|Reverse(waiting)| waiting.at);
        let model = match &self.service {
            Service::Drive(storage) => {
                storage.next_wake().map(|next| match self.raid_ahead(storage) {
                    Some(ahead) => next.saturating_sub(ahead),
                    // A time that was already queried and is still pending is not a completion but
                    // a decision of the drive; it cannot be requested early.
                    None if next <= self.told => next,
                    None => next.saturating_sub(EARLY_NS),
                })
            }
            _ => None,
        };
        [due, model].into_iter().flatten().min()
    }

    /// Return the next reply that must be sent at `now`.
    pub fn pop(&mut self, now: Nanos) -> Option<Due> {
        if self.due.peek().is_none_or(|Reverse(waiting)| waiting.at > now) {
            return None;
        }
        let Reverse(Waiting { at, flight: index, .. }) = self.due.pop()?;
        let Flight { tag, submitted, status, end, .. } = self.flights[index];
        self.free.push(index);
        self.sleep.note(now);
        if self.in_flight() == 0 {
            self.busy += self.busy_since.take().map_or(0, |since| now.saturating_sub(since));
        }
        Some(Due { tag, at, submitted, end, status })
    }

    /// Fail all requests that would complete after the power loss at `at`.
    pub fn fail_after(&mut self, at: Nanos) {
        let Pacer { flights, due, .. } = self;
        for Reverse(waiting) in due.iter() {
            let flight = &mut flights[waiting.flight];
            if flight.end > at {
                flight.status = Status::Failed(Fault::Unpowered);
            }
        }
    }

    /// Inject a fault whose times are relative to `now`; return its number.
    pub fn inject(&mut self, now: Nanos, mut fault: FaultSpec) -> Result<usize, SpecError> {
        let now = self.model_time(now);
        fault.from_s += now as f64 * 1e-9;
        fault.until_s = fault.until_s.map(|until| until + now as f64 * 1e-9);
        match self.storage() {
            Some(storage) => storage.inject(&fault),
            None => Err(SpecError {
                field: "fault".into(),
                given: "a device without a drive".into(),
                allowed: "an emulated drive".into(),
            }),
        }
    }
}

/// Return the errno reported to the kernel; the block layer handles it like that of a real drive.
pub fn errno(fault: Fault) -> i32 {
    match fault {
        // BLK_STS_MEDIUM, as for a SCSI medium error.
        Fault::Medium => libc::ENODATA,
        _ => libc::EIO,
    }
}
