//! Injected device faults: media errors, added latency, stalls, slowdowns and absence. Each fault
//! counts how often it took effect. Without faults the wrapper forwards everything.

use serde::{Deserialize, Serialize};

use crate::completions::{Completions, ANSWER_NS};
use crate::moment::Moment;
use crate::request::{
    Completion, Device, Fault, FaultCounts, Nanos, Op, Queue, Request, Status, SubmittedIo,
    Wrapper, SECTOR_BYTES,
};
use crate::slots::{Id, Slab};
use crate::spec::{refuse, within, SpecError};
use crate::stream::Stream;

/// Kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultKind {
    /// The request takes its normal time and fails.
    MediaError,
    /// The request takes `extra_ms` longer.
    LatencySpike { extra_ms: f64 },
    /// The request takes `factor` times as long.
    SlowDown { factor: f64 },
    /// No request completes before the fault ends.
    Stall,
    /// The device and all its requests in flight are lost until the fault ends.
    DropOff,
    /// Power loss on every drive: requests in flight fail; data acknowledged but not on stable
    /// storage is lost.
    PowerLoss,
    /// A drive of a redundant RAID is out of service. When the fault ends, a new drive replaces it
    /// and is rebuilt.
    Degraded,
    /// A new drive replaces one of a redundant RAID and is filled from the others during the load.
    Rebuild,
}

impl FaultKind {
    /// Return whether the fault affects a RAID as a whole instead of requests of a drive.
    pub fn of_the_raid(self) -> bool {
        matches!(self, FaultKind::Degraded | FaultKind::Rebuild)
    }

    /// Return the failure of every request if the device is absent during the fault.
    fn absent(self) -> Option<Fault> {
        match self {
            FaultKind::DropOff => Some(Fault::Gone),
            FaultKind::PowerLoss => Some(Fault::Unpowered),
            _ => None,
        }
    }
}

/// A fault: its kind, time, target and frequency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    pub fault: FaultKind,
    /// Index of a RAID's drive; default: every drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<u32>,
    #[serde(default)]
    pub from_s: f64,
    /// Default: no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
    /// Restricts the fault to reads or writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Direction>,
    #[serde(default)]
    pub first_sector: u64,
    /// Default: to the end of the device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors: Option<u64>,
    /// Probability that the fault affects a matching request.
    #[serde(default = "always")]
    pub probability: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Read,
    Write,
}

fn always() -> f64 {
    1.0
}

struct Scheduled {
    spec: FaultSpec,
    from: Nanos,
    until: Moment,
    random: Stream,
    fired: u64,
    /// The bytes lost in this power loss are counted.
    counted: bool,
}

impl FaultSpec {
    pub(crate) fn from(&self) -> Nanos {
        (self.from_s * 1e9) as Nanos
    }

    pub(crate) fn until(&self) -> Moment {
        self.until_s.map(|until| (until * 1e9) as Nanos).into()
    }

    pub fn check(&self) -> Result<(), SpecError> {
        within("fault.from_s", self.from_s, 0.0, 1e9)?;
        if let Some(until) = self.until_s {
            within("fault.until_s", until, self.from_s, 1e9)?;
        } else if self.fault == FaultKind::Stall {
            return refuse("fault.until_s", "none", "an end: a stall without one never ends");
        }
        within("fault.probability", self.probability, 0.0, 1.0)?;
        match self.fault {
            FaultKind::LatencySpike { extra_ms } => {
                within("fault.extra_ms", extra_ms, 0.0, 1e7).map(|_| ())
            }
            FaultKind::SlowDown { factor } => within("fault.factor", factor, 1.0, 1e6).map(|_| ()),
            FaultKind::PowerLoss if self.drive.is_some() => {
                refuse("fault.drive", self.drive.unwrap_or(0), "none: power is lost by all drives")
            }
            FaultKind::Degraded | FaultKind::Rebuild if self.drive.is_none() => {
                refuse("fault.drive", "none", "the number of a drive of the RAID")
            }
            _ => Ok(()),
        }
    }
}

impl Scheduled {
    fn meets(&mut self, now: Nanos, request: &Request) -> bool {
        let spec = &self.spec;
        if now < self.from
            || self.until.has_come(now)
            || spec.at_most.is_some_and(|most| self.fired >= most)
        {
            return false;
        }
        let direction = match request.op {
            Op::Read => Some(Direction::Read),
            Op::Write | Op::WriteZeroes => Some(Direction::Write),
            Op::Flush | Op::Discard => None,
        };
        if spec.only.is_some_and(|only| direction != Some(only)) {
            return false;
        }
        let end =
            spec.sectors.map_or(u64::MAX, |sectors| spec.first_sector.saturating_add(sectors));
        let whole = spec.first_sector == 0 && end == u64::MAX;
        let request_end = request.sector.saturating_add(u64::from(request.sectors));
        if !whole
            && (request_end <= spec.first_sector || request.sector >= end || direction.is_none())
        {
            return false;
        }
        spec.probability >= 1.0 || self.random.unit() < spec.probability
    }
}

/// A request in the device with the faults that affect it.
#[derive(Clone, Copy)]
struct Flight {
    tag: u64,
    seq: u64,
    submitted: Nanos,
    extra: Nanos,
    factor: f64,
    not_before: Nanos,
    fails: bool,
    under_way: bool,
}

/// A device with fault injection.
pub struct FaultyDevice<D: Device> {
    device: D,
    faults: Vec<Scheduled>,
    flights: Slab<Flight>,
    done: Completions,
    woken: Vec<Completion>,
    seed: u64,
    lost_bytes: u64,
    /// Requests are tracked. Without any fault the device below serves them directly.
    watched: bool,
}

impl<D: Device> FaultyDevice<D> {
    pub fn new(device: D, faults: &[FaultSpec], seed: u64) -> Result<Self, SpecError> {
        let mut made = FaultyDevice {
            device,
            faults: Vec::new(),
            flights: Slab::default(),
            done: Completions::new(),
            woken: Vec::new(),
            seed,
            lost_bytes: 0,
            watched: false,
        };
        for spec in faults {
            made.inject(spec)?;
        }
        Ok(made)
    }

    /// Track every request from now on, so that faults can be injected at any time. Call while no
    /// request is in flight.
    pub fn watch(&mut self) {
        debug_assert_eq!(self.device.in_flight(), 0);
        self.watched = true;
    }

    /// Add a fault and return its index. Its times are on the device's timeline. Fails if untracked
    /// requests are in flight.
    pub fn inject(&mut self, spec: &FaultSpec) -> Result<usize, SpecError> {
        spec.check()?;
        if !self.watched && self.device.in_flight() > 0 {
            return refuse(
                "fault",
                "requests that are not watched",
                "a device that is watched from its start",
            );
        }
        self.watched = true;
        let number = self.faults.len();
        self.faults.push(Scheduled {
            from: spec.from(),
            until: spec.until(),
            random: Stream::numbered(self.seed, "fault", number as u64),
            fired: 0,
            counted: false,
            spec: spec.clone(),
        });
        Ok(number)
    }

    /// End a fault at `now`, if it has not ended. Requests that it already delayed stay delayed.
    pub fn lift(&mut self, number: usize, now: Nanos) {
        // Count a power loss that no request has met.
        self.lose_power(now);
        let fault = &mut self.faults[number];
        fault.until = fault.until.min(Moment::at(now.max(fault.from)));
    }

    pub fn device(&self) -> &D {
        &self.device
    }

    /// Return how many times each fault took effect.
    pub fn fired(&self) -> Vec<u64> {
        self.faults.iter().map(|fault| fault.fired).collect()
    }

    /// Return the fault that makes the device absent at `now`.
    fn absence(&self, now: Nanos) -> Option<usize> {
        let gone = |f: &Scheduled| {
            f.spec.fault.absent().is_some() && f.from <= now && !f.until.has_come(now)
        };
        self.faults.iter().position(gone)
    }

    /// Return the status of a request that fails because of the absence.
    fn gone(&self, absence: usize) -> Status {
        Status::Failed(self.faults[absence].spec.fault.absent().unwrap_or(Fault::Gone))
    }

    /// Count the bytes lost in every power loss up to `now`, each at its own time.
    fn lose_power(&mut self, now: Nanos) {
        for index in 0..self.faults.len() {
            let fault = &self.faults[index];
            if fault.spec.fault != FaultKind::PowerLoss
                || fault.counted
                || fault.from > now
                || fault.until.has_come(fault.from)
            {
                continue;
            }
            let ranges = self.device.unflushed(fault.from);
            self.lost_bytes +=
                ranges.iter().map(|&(_, sectors)| sectors * SECTOR_BYTES).sum::<u64>();
            // A power loss takes effect even if no request meets it.
            self.faults[index].fired += 1;
            self.faults[index].counted = true;
        }
    }

    /// Return the next fault after `since` that makes the device absent, and its start.
    fn next_absence(&self, since: Nanos) -> Option<(usize, Nanos)> {
        let faults = self.faults.iter().enumerate();
        let later = faults.filter(|(_, f)| {
            f.spec.fault.absent().is_some() && f.from > since && !f.until.has_come(f.from)
        });
        later.map(|(index, f)| (index, f.from)).min_by_key(|&(_, from)| from)
    }

    fn submit_faulty(&mut self, now: Nanos, request: Request) {
        self.settle(now, now);
        let seq = self.done.admit();
        if let Some(absence) = self.absence(now) {
            self.faults[absence].fired += 1;
            self.done.push(now + ANSWER_NS, seq, request.tag, self.gone(absence));
            return;
        }
        let mut flight = Flight {
            tag: request.tag,
            seq,
            submitted: now,
            extra: 0,
            factor: 1.0,
            not_before: 0,
            fails: false,
            under_way: true,
        };
        for fault in &mut self.faults {
            if fault.spec.fault.absent().is_some() || !fault.meets(now, &request) {
                continue;
            }
            fault.fired += 1;
            match fault.spec.fault {
                FaultKind::MediaError => flight.fails = true,
                FaultKind::LatencySpike { extra_ms } => flight.extra += (extra_ms * 1e6) as Nanos,
                FaultKind::SlowDown { factor } => flight.factor *= factor,
                FaultKind::Stall => {
                    let end = fault.until.time().expect("checked: a stall ends");
                    flight.not_before = flight.not_before.max(end);
                }
                FaultKind::DropOff
                | FaultKind::PowerLoss
                | FaultKind::Degraded
                | FaultKind::Rebuild => {}
            }
        }
        let tag = self.flights.insert(flight).tag();
        self.device.submit(now, Request { tag, ..request });
    }

    /// Collect completions due by `now`, or certain to be due by `until`, and delay or fail them
    /// according to the faults.
    fn settle(&mut self, now: Nanos, until: Nanos) {
        self.lose_power(now);
        let mut woken = std::mem::take(&mut self.woken);
        self.device.wake_ahead(now, until, &mut woken);
        for completion in woken.drain(..) {
            let index = Id::of_tag(completion.tag);
            self.flights.remove(index);
            let flight = &mut self.flights[index];
            // Already failed: the device was absent at its completion time.
            if !std::mem::replace(&mut flight.under_way, false) {
                continue;
            }
            let flight = *flight;
            let service = (completion.time - flight.submitted) as f64 * flight.factor;
            let time = (flight.submitted + service as Nanos + flight.extra).max(flight.not_before);
            match self.next_absence(flight.submitted) {
                Some((absence, from)) if from <= time => {
                    self.faults[absence].fired += 1;
                    self.done.push(from, flight.seq, flight.tag, self.gone(absence));
                }
                _ => {
                    let status = if flight.fails && completion.status == Status::Done {
                        Status::Failed(Fault::Medium)
                    } else {
                        completion.status
                    };
                    self.done.push(time, flight.seq, flight.tag, status);
                }
            }
        }
        self.woken = woken;
        self.lose(now);
    }

    /// Fail every request in flight at the time when the device becomes absent.
    fn lose(&mut self, now: Nanos) {
        for index in self.flights.ids() {
            let flight = self.flights[index];
            if !flight.under_way {
                continue;
            }
            if let Some((absence, from)) =
                self.next_absence(flight.submitted).filter(|&(_, from)| from <= now)
            {
                self.faults[absence].fired += 1;
                self.flights[index].under_way = false;
                self.done.push(from, flight.seq, flight.tag, self.gone(absence));
            }
        }
    }
}

impl<D: Device> Wrapper for FaultyDevice<D> {
    type Below = D;

    fn below(&self) -> &D {
        &self.device
    }

    fn below_mut(&mut self) -> &mut D {
        &mut self.device
    }

    fn pass_down(&mut self, _now: Nanos) {}

    fn with_own_faults(&self, below: FaultCounts) -> FaultCounts {
        let fired = [below.fired, self.fired()].concat();
        FaultCounts { fired, lost_bytes: self.lost_bytes + below.lost_bytes, ..below }
    }
}

/// It has no scheduler: the device serves I/Os in the order of arrival.
impl<D: Device> Queue for FaultyDevice<D> {
    #[inline]
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        self.submit(now, io.request);
    }

    fn plug(&mut self) {}

    fn unplug(&mut self, _now: Nanos) {}
}

impl<D: Device> Device for FaultyDevice<D> {
    #[inline]
    fn submit(&mut self, now: Nanos, request: Request) {
        if !self.watched {
            self.device.submit(now, request);
        } else {
            self.submit_faulty(now, request);
        }
    }

    #[inline]
    fn wake_ahead(&mut self, now: Nanos, until: Nanos, out: &mut Vec<Completion>) {
        if !self.watched {
            self.device.wake_ahead(now, until, out);
        } else {
            self.settle(now, until);
            self.done.drain(until, out);
        }
    }

    #[inline]
    fn next_wake(&self) -> Option<Nanos> {
        if !self.watched {
            return self.device.next_wake();
        }
        if self.done.in_flight() == 0 {
            return None;
        }
        let flights = self.flights.ids().map(|id| &self.flights[id]);
        let oldest = flights.filter(|f| f.under_way).map(|f| f.submitted).min();
        let absence = oldest.and_then(|since| self.next_absence(since)).map(|(_, from)| from);
        [self.device.next_wake(), self.done.first(), absence].into_iter().flatten().min()
    }

    fn in_flight(&self) -> usize {
        if !self.watched {
            self.device.in_flight()
        } else {
            self.done.in_flight()
        }
    }
}
