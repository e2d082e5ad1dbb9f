//! When each answer is due: the device model, given the requests at the times at which they came, without a
//! clock and without threads.
//!
//! The model keeps its own time. Whoever drives this late gets the same completions, so lateness of one
//! answer is never passed on to the next.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use headrace_model::faults::FaultSpec;
use headrace_model::spec::SpecError;
use headrace_model::storage::{Drives, Storage};
use headrace_model::{Completion, Device, Fault, Nanos, Op, Request, Status, SECTOR_BYTES};
use serde::Serialize;

/// One model request has at most this many sectors.
const MOST_SECTORS: u64 = u32::MAX as u64 & !7;

/// So far ahead the model is asked what is certain to end: more than any floor. What happens to the drive
/// meanwhile (a fault, a loss of power) comes too late for an answer that is already certain.
const AHEAD_NS: Nanos = 2_000_000;
/// So long before its time an end is asked for.
const EARLY_NS: Nanos = 1_000_000;

/// What a request takes besides the model: the kernel's way in and out, with the wakes of threads. Both are longer
/// the longer the CPUs have slept: the way out by the service, the way in by what came before. At queue depth 1
/// and equal services these are the same, and so it is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Way {
    /// After a sleep of `QUICK_NS` or less.
    pub quick_ns: Nanos,
    /// After one of `SLOW_NS` or more.
    pub slow_ns: Nanos,
}

pub const QUICK_NS: Nanos = 200_000;
pub const SLOW_NS: Nanos = 5_000_000;

impl Way {
    /// After sleeps of this length; in between by its logarithm.
    fn after(&self, slept: Nanos) -> Nanos {
        let (quick, slow) = (self.quick_ns as f64, self.slow_ns as f64);
        let part = (slept.max(1) as f64 / QUICK_NS as f64).ln() / (SLOW_NS as f64 / QUICK_NS as f64).ln();
        (quick + (slow - quick) * part.clamp(0.0, 1.0)) as Nanos
    }

    fn least(&self) -> Nanos {
        self.quick_ns.min(self.slow_ns)
    }
}

/// What the way between the application and the model takes: subtracted from every answer. The data of a
/// write comes in with the request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Floor {
    pub read: Way,
    pub write: Way,
    pub read_ns_per_byte: f64,
    pub write_ns_per_byte: f64,
}

impl Floor {
    /// Of a request that the model serves for `service`, and that came after `slept`.
    #[inline]
    pub fn of(&self, op: Op, bytes: u64, slept: Nanos, service: Nanos) -> Nanos {
        let (way, per_byte) = match op {
            Op::Read => (&self.read, self.read_ns_per_byte),
            Op::Write => (&self.write, self.write_ns_per_byte),
            _ => (&self.read, 0.0),
        };
        (way.after(slept) + way.after(service)) / 2 + (bytes as f64 * per_byte) as Nanos
    }

    /// Of the quickest.
    fn least(&self) -> Nanos {
        self.read.least().min(self.write.least())
    }
}

/// How long the CPUs slept before what comes now.
#[derive(Default)]
struct Sleep {
    /// When something last came in or went out.
    last: Nanos,
    /// The last pause of more than `QUICK_NS`, and when it ended.
    pause: Nanos,
    ended: Nanos,
}

impl Sleep {
    /// Something comes in or goes out.
    fn note(&mut self, now: Nanos) {
        let pause = now.saturating_sub(self.last);
        if pause > QUICK_NS {
            (self.pause, self.ended) = (pause, now);
        }
        self.last = now;
    }

    /// The pause that ends now, or has ended so lately that who was woken has only just got going.
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
    /// Nothing: every request ends at once.
    Undelayed,
    /// Every request takes this long (for measuring the floor).
    Fixed(Nanos),
    Drive(Box<Storage>),
}

/// A request whose end is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    pub tag: u64,
    /// When the answer has to go out.
    pub at: Nanos,
    /// When it came in.
    pub submitted: Nanos,
    /// When the application is to see its end.
    pub end: Nanos,
    pub status: Status,
}

#[derive(Clone, Copy)]
struct Flight {
    tag: u64,
    op: Op,
    bytes: u64,
    submitted: Nanos,
    slept: Nanos,
    /// Model requests that have not ended.
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

pub struct Pacer {
    service: Service,
    floor: Floor,
    /// The model's time; never goes back.
    clock: Nanos,
    flights: Vec<Flight>,
    free: Vec<usize>,
    due: BinaryHeap<Reverse<Waiting>>,
    sequence: u64,
    woken: Vec<Completion>,
    /// Up to when the model has told what is certain.
    told: Nanos,
    busy: Nanos,
    busy_since: Option<Nanos>,
    sleep: Sleep,
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
        }
    }

    pub fn floor(&self) -> Floor {
        self.floor
    }

    pub fn set_floor(&mut self, floor: Floor) {
        self.floor = floor;
    }

    /// Puts another service in place; nothing may be in flight.
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

    /// The model's time at `now`.
    pub fn model_time(&self, now: Nanos) -> Nanos {
        self.clock.max(now)
    }

    /// Time with something in flight, up to `now`.
    pub fn busy_ns(&self, now: Nanos) -> Nanos {
        self.busy + self.busy_since.map_or(0, |since| now.saturating_sub(since))
    }

    /// Takes a request at `now`. `tag` is the caller's.
    pub fn submit(&mut self, now: Nanos, tag: u64, op: Op, offset: u64, bytes: u64) {
        let submitted = self.model_time(now);
        self.busy_since.get_or_insert(now);
        let slept = self.sleep.before(now);
        self.sleep.note(now);
        let flight =
            Flight { tag, op, bytes, submitted, slept, parts: 1, status: Status::Done, end: submitted };
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
        match &mut self.service {
            Service::Undelayed => self.ended(index, submitted),
            Service::Fixed(delay) => {
                let end = submitted + *delay;
                self.ended(index, end);
            }
            Service::Drive(storage) => {
                self.clock = submitted;
                // What this changes has not been told.
                self.told = 0;
                let first = offset / SECTOR_BYTES;
                let mut left = bytes / SECTOR_BYTES;
                let mut at = first;
                self.flights[index].parts = left.div_ceil(MOST_SECTORS).max(1) as u32;
                loop {
                    let sectors = left.min(MOST_SECTORS);
                    let request =
                        Request { tag: index as u64, op, sector: at, sectors: sectors as u32, fua: false };
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

    fn ended(&mut self, index: usize, end: Nanos) {
        let flight = &mut self.flights[index];
        flight.end = end;
        let service = end.saturating_sub(flight.submitted);
        let at = end.saturating_sub(self.floor.of(flight.op, flight.bytes, flight.slept, service));
        self.sequence += 1;
        self.due.push(Reverse(Waiting { at, sequence: self.sequence, flight: index }));
    }

    /// A RAID cannot say what is certain: the end of one drive's part may start another's. It is woken a floor
    /// before its time instead, and what comes in meanwhile counts as that much later.
    fn raid_ahead(&self, storage: &Storage) -> Option<Nanos> {
        matches!(storage.drives, Drives::Raid(_)).then_some(self.floor.least())
    }

    /// Learns from the model what ends soon.
    pub fn collect(&mut self, now: Nanos) {
        let Service::Drive(storage) = &self.service else { return };
        let (from, until) = match self.raid_ahead(storage) {
            Some(ahead) => (self.model_time(now + ahead), self.model_time(now + ahead)),
            None => (self.model_time(now), self.model_time(now) + AHEAD_NS),
        };
        // Asked only when it has something to say.
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

    /// When `collect` or `pop` next has something to do.
    pub fn next(&self) -> Option<Nanos> {
        let due = self.due.peek().map(|Reverse(waiting)| waiting.at);
        let model = match &self.service {
            Service::Drive(storage) => storage.next_wake().map(|next| match self.raid_ahead(storage) {
                Some(ahead) => next.saturating_sub(ahead),
                // What is told and still there is no end but a decision: it has to wait for its time.
                None if next <= self.told => next,
                None => next.saturating_sub(EARLY_NS),
            }),
            _ => None,
        };
        [due, model].into_iter().flatten().min()
    }

    /// The next answer that has to go out at `now`.
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

    /// Power was lost at `at`: what would have ended later fails.
    pub fn fail_after(&mut self, at: Nanos) {
        let Pacer { flights, due, .. } = self;
        for Reverse(waiting) in due.iter() {
            let flight = &mut flights[waiting.flight];
            if flight.end > at {
                flight.status = Status::Failed(Fault::Unpowered);
            }
        }
    }

    /// Injects a fault whose times count from `now`; gives its number.
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

/// The errno that the kernel is told; the block layer makes of it what it would of a real drive's.
pub fn errno(fault: Fault) -> i32 {
    match fault {
        // BLK_STS_MEDIUM, as of a SCSI medium error.
        Fault::Medium => libc::ENODATA,
        _ => libc::EIO,
    }
}
