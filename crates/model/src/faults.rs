//! Devices that misbehave on schedule: media errors, latency, stalls, slowness, absence. Each fault counts
//! how often it fired. Without faults the wrapper passes everything through.

use serde::{Deserialize, Serialize};

use crate::completions::{Completions, ANSWER_NS};
use crate::drive::Drive;
use crate::request::{Completion, Device, Fault, Nanos, Op, Request, Status};
use crate::spec::{within, SpecError};
use crate::stream::Stream;

const NEVER: Nanos = Nanos::MAX;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum FaultKind {
    /// The request takes its time and fails.
    MediaError,
    /// The request takes that much longer.
    LatencySpike { extra_ms: f64 },
    /// The request takes that many times as long.
    SlowDown { factor: f64 },
    /// Nothing ends before the fault does.
    Stall,
    /// The device is gone, with everything it has in flight, until the fault ends.
    DropOff,
}

/// A fault: what, when, where, how often.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    pub fault: FaultKind,
    /// Which drive of a RAID; every one if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drive: Option<u32>,
    #[serde(default)]
    pub from_s: f64,
    /// For ever if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_s: Option<f64>,
    /// Reads or writes alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Direction>,
    #[serde(default)]
    pub first_sector: u64,
    /// To the end of the device if not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sectors: Option<u64>,
    /// Share of the matching requests that it meets.
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
    until: Nanos,
    random: Stream,
    fired: u64,
}

impl FaultSpec {
    pub fn check(&self) -> Result<(), SpecError> {
        within("fault.from_s", self.from_s, 0.0, 1e9)?;
        if let Some(until) = self.until_s {
            within("fault.until_s", until, self.from_s, 1e9)?;
        } else if self.fault == FaultKind::Stall {
            return crate::spec::refuse("fault.until_s", "none", "an end: a stall without one never ends");
        }
        within("fault.probability", self.probability, 0.0, 1.0)?;
        match self.fault {
            FaultKind::LatencySpike { extra_ms } => within("fault.extra_ms", extra_ms, 0.0, 1e7).map(|_| ()),
            FaultKind::SlowDown { factor } => within("fault.factor", factor, 1.0, 1e6).map(|_| ()),
            _ => Ok(()),
        }
    }
}

impl Scheduled {
    fn meets(&mut self, now: Nanos, request: &Request) -> bool {
        let spec = &self.spec;
        if now < self.from || now >= self.until || spec.at_most.is_some_and(|most| self.fired >= most) {
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
        let end = spec.sectors.map_or(u64::MAX, |sectors| spec.first_sector.saturating_add(sectors));
        let whole = spec.first_sector == 0 && end == u64::MAX;
        let request_end = request.sector.saturating_add(u64::from(request.sectors));
        if !whole && (request_end <= spec.first_sector || request.sector >= end || direction.is_none()) {
            return false;
        }
        spec.probability >= 1.0 || self.random.unit() < spec.probability
    }
}

/// A request inside the device, with what is going to befall it.
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

/// A device with faults.
pub struct FaultyDevice<D: Device> {
    device: D,
    faults: Vec<Scheduled>,
    flights: Vec<Flight>,
    free: Vec<usize>,
    done: Completions,
    woken: Vec<Completion>,
}

impl<D: Device> FaultyDevice<D> {
    pub fn new(device: D, faults: &[FaultSpec], seed: u64) -> Result<Self, SpecError> {
        let mut scheduled = Vec::with_capacity(faults.len());
        for (number, spec) in faults.iter().enumerate() {
            spec.check()?;
            scheduled.push(Scheduled {
                from: (spec.from_s * 1e9) as Nanos,
                until: spec.until_s.map_or(NEVER, |until| (until * 1e9) as Nanos),
                random: Stream::numbered(seed, "fault", number as u64),
                fired: 0,
                spec: spec.clone(),
            });
        }
        Ok(FaultyDevice {
            device,
            faults: scheduled,
            flights: Vec::new(),
            free: Vec::new(),
            done: Completions::new(),
            woken: Vec::new(),
        })
    }

    pub fn device(&self) -> &D {
        &self.device
    }

    /// How often each fault has fired.
    pub fn fired(&self) -> Vec<u64> {
        self.faults.iter().map(|fault| fault.fired).collect()
    }

    /// The absence that covers `now`.
    fn absence(&self, now: Nanos) -> Option<usize> {
        let gone = |f: &Scheduled| f.spec.fault == FaultKind::DropOff && f.from <= now && now < f.until;
        self.faults.iter().position(gone)
    }

    /// When the device next goes away, after `since`.
    fn next_absence(&self, since: Nanos) -> Option<(usize, Nanos)> {
        let faults = self.faults.iter().enumerate();
        let later = faults.filter(|(_, f)| f.spec.fault == FaultKind::DropOff && f.from > since);
        later.map(|(index, f)| (index, f.from)).min_by_key(|&(_, from)| from)
    }

    fn submit_faulty(&mut self, now: Nanos, request: Request) {
        self.settle(now);
        let seq = self.done.admit();
        if let Some(absence) = self.absence(now) {
            self.faults[absence].fired += 1;
            self.done.push(now + ANSWER_NS, seq, request.tag, Status::Failed(Fault::Gone));
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
            if fault.spec.fault == FaultKind::DropOff || !fault.meets(now, &request) {
                continue;
            }
            fault.fired += 1;
            match fault.spec.fault {
                FaultKind::MediaError => flight.fails = true,
                FaultKind::LatencySpike { extra_ms } => flight.extra += (extra_ms * 1e6) as Nanos,
                FaultKind::SlowDown { factor } => flight.factor *= factor,
                FaultKind::Stall => flight.not_before = flight.not_before.max(fault.until),
                FaultKind::DropOff => {}
            }
        }
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
        self.device.submit(now, Request { tag: index as u64, ..request });
    }

    /// Takes over what the device has ended by `now`, late, failed or lost as the faults will have it.
    fn settle(&mut self, now: Nanos) {
        let mut woken = std::mem::take(&mut self.woken);
        self.device.wake(now, &mut woken);
        for completion in woken.drain(..) {
            let index = completion.tag as usize;
            self.free.push(index);
            let flight = &mut self.flights[index];
            // Lost already: the device was away when it would have ended.
            if !std::mem::replace(&mut flight.under_way, false) {
                continue;
            }
            let flight = *flight;
            let service = (completion.time - flight.submitted) as f64 * flight.factor;
            let time = (flight.submitted + service as Nanos + flight.extra).max(flight.not_before);
            match self.next_absence(flight.submitted) {
                Some((absence, from)) if from <= time => {
                    self.faults[absence].fired += 1;
                    self.done.push(from, flight.seq, flight.tag, Status::Failed(Fault::Gone));
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

    /// What is under way when the device goes away fails at that moment.
    fn lose(&mut self, now: Nanos) {
        for index in 0..self.flights.len() {
            let flight = self.flights[index];
            if !flight.under_way {
                continue;
            }
            if let Some((absence, from)) =
                self.next_absence(flight.submitted).filter(|&(_, from)| from <= now)
            {
                self.faults[absence].fired += 1;
                self.flights[index].under_way = false;
                self.done.push(from, flight.seq, flight.tag, Status::Failed(Fault::Gone));
            }
        }
    }
}

impl FaultyDevice<Drive> {
    /// Ranges (first sector, sectors) that a loss of power at `now` loses: acknowledged, not on stable storage.
    pub fn unflushed(&mut self, now: Nanos) -> Vec<(u64, u64)> {
        self.device.unflushed(now)
    }
}

impl<D: Device> Device for FaultyDevice<D> {
    fn capacity_sectors(&self) -> u64 {
        self.device.capacity_sectors()
    }

    #[inline]
    fn submit(&mut self, now: Nanos, request: Request) {
        if self.faults.is_empty() {
            self.device.submit(now, request);
        } else {
            self.submit_faulty(now, request);
        }
    }

    #[inline]
    fn wake(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        if self.faults.is_empty() {
            self.device.wake(now, out);
        } else {
            self.settle(now);
            self.done.drain(now, out);
        }
    }

    #[inline]
    fn next_wake(&self) -> Option<Nanos> {
        if self.faults.is_empty() {
            return self.device.next_wake();
        }
        if self.done.in_flight() == 0 {
            return None;
        }
        let oldest = self.flights.iter().filter(|f| f.under_way).map(|f| f.submitted).min();
        let absence = oldest.and_then(|since| self.next_absence(since)).map(|(_, from)| from);
        [self.device.next_wake(), self.done.first(), absence].into_iter().flatten().min()
    }

    fn in_flight(&self) -> usize {
        if self.faults.is_empty() {
            self.device.in_flight()
        } else {
            self.done.in_flight()
        }
    }

    fn energy_j(&self, now: Nanos) -> f64 {
        self.device.energy_j(now)
    }
}
