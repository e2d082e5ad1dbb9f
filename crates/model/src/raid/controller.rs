//! A hardware RAID: a controller with one command queue over the array and a write-back cache that
//! a battery keeps.
//!
//! A command takes time of the controller's processor and its data cross the host's link, one after
//! the other. A write ends once it is in the cache; the cache gathers stripes. A stripe is written
//! to the drives once it is complete, once its oldest data are `flush_interval_s` old, or when more
//! than `destage_above` of the cache holds unwritten data; stripes go in order of address, eight for
//! each drive at once. Reads of unwritten data are answered from the cache.
//! With a battery a flush has nothing to wait for. Without one the controller writes through: a
//! write ends when it is on the drives (MegaRAID's "write back" without "bad BBU"). The drives' own
//! write caches are not used.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use super::spec::ControllerSpec;
use super::Raid;
use crate::completions::{Completions, ANSWER_NS};
use crate::request::{
    Completion, Device, FaultCounts, FlashWrites, Medium, Nanos, Op, Queue, Request, SectorRange,
    Status, StoredOrder, SubmittedIo, SECTOR_BYTES,
};

/// Unwritten data of one stripe.
#[derive(Default)]
struct Line {
    /// First sector and past the last, sorted and apart.
    ranges: Vec<(u64, u64)>,
    sectors: u64,
    /// When its oldest data came.
    since: Nanos,
}

impl Line {
    /// Add a range; return how many sectors of it are new.
    fn add(&mut self, mut from: u64, mut to: u64) -> u64 {
        let before = self.sectors;
        self.ranges.retain(|&(first, past)| {
            let apart = to < first || past < from;
            if !apart {
                (from, to) = (from.min(first), to.max(past));
            }
            apart
        });
        let at = self.ranges.partition_point(|&(first, _)| first < from);
        self.ranges.insert(at, (from, to));
        self.sectors = self.ranges.iter().map(|&(first, past)| past - first).sum();
        self.sectors - before
    }

    fn holds(&self, from: u64, to: u64) -> bool {
        self.ranges.iter().any(|&(first, past)| first <= from && to <= past)
    }
}

/// A request below.
enum Below {
    /// A read or flush of the host, or a write that is not cached.
    Host { tag: u64, seq: u64, bytes: u64 },
    /// Part of a stripe that is being written.
    Destage { row: u64 },
}

/// A RAID behind a controller.
pub struct Controller<D: Queue> {
    raid: Raid<D>,
    spec: ControllerSpec,
    row_sectors: u64,
    lines: BTreeMap<u64, Line>,
    /// Stripes that are being written, with the parts that are under way.
    leaving: FxHashMap<u64, (Line, u32)>,
    /// Stripes with unwritten data by the time of the oldest.
    oldest: BTreeSet<(Nanos, u64)>,
    complete: VecDeque<u64>,
    /// Sectors in the cache, those under way included.
    held: u64,
    /// Where the last stripe was written.
    position: u64,
    most_leaving: usize,
    /// Writes that find no space.
    waiting: VecDeque<(u64, Request)>,
    below: FxHashMap<u64, Below>,
    next: u64,
    /// When processor and link have done what they have taken.
    processor: Nanos,
    link: Nanos,
    done: Completions,
    clock: Nanos,
    woken: Vec<Completion>,
}

impl<D: Queue> Controller<D> {
    pub fn new(raid: Raid<D>, spec: ControllerSpec) -> Self {
        let row_sectors = raid.row_sectors();
        // Eight stripes for each drive.
        let most_leaving = raid.members() * 8;
        Controller {
            raid,
            spec,
            row_sectors,
            lines: BTreeMap::new(),
            leaving: FxHashMap::default(),
            oldest: BTreeSet::new(),
            complete: VecDeque::new(),
            held: 0,
            position: 0,
            most_leaving,
            waiting: VecDeque::new(),
            below: FxHashMap::default(),
            next: 0,
            processor: 0,
            link: 0,
            done: Completions::new(),
            clock: 0,
            woken: Vec::new(),
        }
    }

    pub fn raid(&self) -> &Raid<D> {
        &self.raid
    }

    pub fn raid_mut(&mut self) -> &mut Raid<D> {
        &mut self.raid
    }

    fn capacity(&self) -> u64 {
        self.spec.cache_bytes / SECTOR_BYTES
    }

    /// Return when the processor and the link have handled a command at `now`.
    fn handled(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.processor = self.processor.max(now) + (self.spec.command_us * 1e3) as Nanos;
        if bytes == 0 {
            return self.processor;
        }
        let crossing = bytes as f64 / self.spec.link_bytes_per_s * 1e9;
        self.link = self.link.max(self.processor) + crossing as Nanos;
        self.link
    }

    fn submit_below(&mut self, purpose: Below, request: Request) {
        let tag = self.next;
        self.next += 1;
        self.below.insert(tag, purpose);
        // md's rule that delays what must be read first is not a controller's.
        self.raid.submit_direct(self.clock, Request { tag, ..request });
    }

    /// Send a request of the host to the drives.
    fn pass_on(&mut self, seq: u64, request: Request) {
        let moves = request.op == Op::Read || request.op == Op::Write;
        let bytes = if moves { u64::from(request.sectors) * SECTOR_BYTES } else { 0 };
        let fua = request.op == Op::Write || request.op == Op::WriteZeroes;
        self.submit_below(Below::Host { tag: request.tag, seq, bytes }, Request { fua, ..request });
    }

    /// Put a write into the cache if it has space, and end it.
    fn keep(&mut self, seq: u64, request: &Request) -> bool {
        let sectors = u64::from(request.sectors);
        if self.held + sectors > self.capacity() {
            return false;
        }
        let (mut at, end) = (request.sector, request.sector + sectors);
        while at < end {
            let row = at / self.row_sectors;
            let to = ((row + 1) * self.row_sectors).min(end);
            let clock = self.clock;
            let line = self.lines.entry(row).or_insert_with(|| {
                self.oldest.insert((clock, row));
                Line { since: clock, ..Line::default() }
            });
            let was_complete = line.sectors == self.row_sectors;
            self.held += line.add(at, to);
            if line.sectors == self.row_sectors && !was_complete {
                self.complete.push_back(row);
            }
            at = to;
        }
        let bytes = if request.op == Op::Write { sectors * SECTOR_BYTES } else { 0 };
        let time = self.handled(self.clock, bytes);
        self.done.push(time, seq, request.tag, Status::Done);
        true
    }

    /// Return the stripe that is written next, if one is to be written now.
    fn next_row(&mut self) -> Option<u64> {
        // One whose data before are still being written waits for that.
        if let Some(at) = self.complete.iter().position(|row| !self.leaving.contains_key(row)) {
            return self.complete.remove(at);
        }
        let &(since, oldest) = self.oldest.first()?;
        let pressed = self.held as f64 > self.spec.destage_above * self.capacity() as f64
            || !self.waiting.is_empty();
        if pressed {
            let free = |row: &&u64| !self.leaving.contains_key(row);
            let onwards = self.lines.range(self.position..).map(|(row, _)| row);
            let again = self.lines.range(..self.position).map(|(row, _)| row);
            return onwards.chain(again).find(free).copied();
        }
        let due = since + (self.spec.flush_interval_s * 1e9) as Nanos;
        (due <= self.clock && !self.leaving.contains_key(&oldest)).then_some(oldest)
    }

    /// Write stripes to the drives, as far as they are to be written now.
    fn destage(&mut self) {
        if self.leaving.len() >= self.most_leaving || self.lines.is_empty() {
            return;
        }
        let clock = self.clock;
        self.raid.plug();
        while self.leaving.len() < self.most_leaving {
            let Some(row) = self.next_row() else { break };
            let Some(line) = self.lines.remove(&row) else { break };
            self.oldest.remove(&(line.since, row));
            self.complete.retain(|&other| other != row);
            self.position = row + 1;
            let parts: Vec<(u64, u64)> = line.ranges.clone();
            self.leaving.insert(row, (line, parts.len() as u32));
            for (from, to) in parts {
                let sectors = (to - from) as u32;
                let write = Request { tag: 0, op: Op::Write, sector: from, sectors, fua: true };
                self.submit_below(Below::Destage { row }, write);
            }
        }
        self.raid.unplug(clock);
    }

    /// Return when data become due that nothing else writes before.
    fn next_due(&self) -> Option<Nanos> {
        if self.leaving.len() >= self.most_leaving {
            return None;
        }
        let &(since, row) = self.oldest.first()?;
        // A stripe that is being written is examined again when that has ended.
        let due = since + (self.spec.flush_interval_s * 1e9) as Nanos;
        (!self.leaving.contains_key(&row)).then_some(due)
    }

    fn ended_below(&mut self, completion: Completion) {
        match self.below.remove(&completion.tag) {
            Some(Below::Host { tag, seq, bytes }) => {
                let time = self.handled(self.clock, bytes);
                self.done.push(time, seq, tag, completion.status);
            }
            Some(Below::Destage { row }) => {
                let Some((line, parts)) = self.leaving.get_mut(&row) else { return };
                *parts -= 1;
                if *parts == 0 {
                    self.held -= line.sectors;
                    self.leaving.remove(&row);
                }
            }
            None => {}
        }
    }

    /// Accept writes for which there is space now.
    fn admit_waiting(&mut self) {
        while let Some(&(seq, request)) = self.waiting.front() {
            if !self.keep(seq, &request) {
                return;
            }
            self.waiting.pop_front();
        }
    }

    fn advance(&mut self, now: Nanos) {
        loop {
            let due = [self.raid.next_wake(), self.next_due()].into_iter().flatten().min();
            let Some(due) = due.filter(|&due| due <= now) else { break };
            self.clock = self.clock.max(due);
            let mut woken = std::mem::take(&mut self.woken);
            self.raid.wake(self.clock, &mut woken);
            for completion in woken.drain(..) {
                self.ended_below(completion);
            }
            self.woken = woken;
            self.admit_waiting();
            self.destage();
        }
        self.clock = self.clock.max(now);
    }

    /// Return whether the cache has all data of a range.
    fn holds(&self, sector: u64, end: u64) -> bool {
        let mut at = sector;
        while at < end {
            let row = at / self.row_sectors;
            let to = ((row + 1) * self.row_sectors).min(end);
            let here = self.lines.get(&row).is_some_and(|line| line.holds(at, to))
                || self.leaving.get(&row).is_some_and(|(line, _)| line.holds(at, to));
            if !here {
                return false;
            }
            at = to;
        }
        true
    }
}

/// As of the RAID. What the cache holds is on stable storage: the battery keeps it.
impl<D: Queue> Medium for Controller<D> {
    fn capacity_sectors(&self) -> u64 {
        self.raid.capacity_sectors()
    }

    fn energy_j(&self, now: Nanos) -> f64 {
        self.raid.energy_j(now)
    }

    fn unflushed(&mut self, now: Nanos) -> Vec<SectorRange> {
        self.advance(now);
        self.raid.unflushed(now)
    }

    fn fault_counts(&self) -> FaultCounts {
        self.raid.fault_counts()
    }

    fn flash_writes(&self) -> FlashWrites {
        self.raid.flash_writes()
    }

    fn preload(&mut self, data: &[SectorRange], order: StoredOrder) {
        self.raid.preload(data, order);
    }

    /// Controllers pass no discards on to the drives.
    fn trim(&mut self, _data: &[SectorRange]) {}
}

impl<D: Queue> Device for Controller<D> {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.advance(now);
        let seq = self.done.admit();
        let Request { op, sector, sectors, .. } = request;
        let end = sector.saturating_add(u64::from(sectors));
        let cached = self.spec.battery && u64::from(sectors) <= self.capacity();
        let inside = end <= self.raid.capacity_sectors() && sectors > 0;
        match op {
            // Controllers pass no discards on to the drives.
            Op::Discard if inside => {
                self.done.push(now + ANSWER_NS, seq, request.tag, Status::Done)
            }
            Op::Flush if self.spec.battery => {
                let time = self.handled(self.clock, 0);
                self.done.push(time, seq, request.tag, Status::Done);
            }
            Op::Read if inside && self.holds(sector, end) => {
                let time = self.handled(self.clock, u64::from(sectors) * SECTOR_BYTES);
                self.done.push(time, seq, request.tag, Status::Done);
            }
            Op::Write | Op::WriteZeroes if cached && inside => {
                if !self.waiting.is_empty() || !self.keep(seq, &request) {
                    self.waiting.push_back((seq, request));
                }
                self.destage();
            }
            _ => self.pass_on(seq, request),
        }
    }

    fn wake_ahead(&mut self, now: Nanos, _until: Nanos, out: &mut Vec<Completion>) {
        self.advance(now);
        self.done.drain(now, out);
    }

    fn next_wake(&self) -> Option<Nanos> {
        [self.raid.next_wake(), self.next_due(), self.done.first()].into_iter().flatten().min()
    }

    fn in_flight(&self) -> usize {
        self.done.in_flight()
    }
}

impl<D: Queue> Queue for Controller<D> {
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        self.submit(now, io.request);
    }

    fn plug(&mut self) {}

    fn unplug(&mut self, now: Nanos) {
        self.advance(now);
    }
}
