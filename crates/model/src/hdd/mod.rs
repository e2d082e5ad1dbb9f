//! The hard disk model: controller, link, buffer, queue and arm, each with its own timeline.
//!
//! Internal events are processed in time order: a destaged write frees its space, a command leaves
//! the controller, the arm starts its next work. A later command cannot leave the controller before
//! `horizon`, so all events before `horizon` are processed at once and results do not depend on
//! when the caller calls.

mod arm;
pub mod buffer;
mod commands;
pub mod energy;
pub mod geometry;
mod late;
mod overheads;
#[cfg(test)]
mod plain;
mod scoring;
pub mod seek;
mod sharing;
pub mod spec;
pub mod waiting;
pub mod write_cache;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::completions::Completions;
use crate::moment::Moment;
use crate::request::{
    Completion, Device, Fault, FaultCounts, FlashWrites, Medium, Nanos, Op, Request, SectorRange,
    Status, StoredOrder, SECTOR_BYTES,
};
use crate::spec::SpecError;
use crate::stream::Stream as Random;
use buffer::Segments;
use energy::Meter;
use geometry::{Geometry, Place};
use overheads::Overheads;
use seek::SeekCurve;
use sharing::shared;
use spec::{HddSpec, ReadAhead};
use waiting::{Order, Waiting};
use write_cache::{Extent, WriteCache};

/// A command in the controller.
#[derive(Clone, Copy)]
struct Arriving {
    ready: Nanos,
    seq: u64,
    request: Request,
    /// Whether the data command before it was a write.
    after_write: bool,
    /// Whether the controller knows what kind of command it is, and has spent the time for it.
    prepared: bool,
}

/// A command that needs the arm.
#[derive(Clone, Copy)]
struct Access {
    tag: u64,
    seq: u64,
    write: bool,
    /// When its data has crossed the link (writes) or could have crossed it at the earliest
    /// (reads).
    link_done: Nanos,
    /// Time of its data on the link.
    over_link: Nanos,
}

/// A flush that waits until every write submitted before it is on the platter.
struct Flush {
    tag: u64,
    seq: u64,
}

struct Arm {
    /// Position of the head, or its position when `stream` began.
    along: Nanos,
    cylinder: u32,
    free_at: Nanos,
    stream: Option<Stream>,
}

impl Arm {
    fn cylinder_at(&self, now: Nanos, geometry: &Geometry) -> u32 {
        match self.stream {
            Some(stream) => geometry.cylinder_at(stream.position(now)),
            None => self.cylinder,
        }
    }
}

/// The head reads ahead into a segment: from `along` at `since`, at media speed, up to `limit`.
#[derive(Clone, Copy)]
struct Stream {
    since: Nanos,
    along: Nanos,
    limit: Nanos,
    segment: usize,
    zone: u32,
    /// Up to here the meter has the transfer.
    metered: Nanos,
}

impl Stream {
    #[inline]
    fn position(&self, now: Nanos) -> Nanos {
        (self.along + now.saturating_sub(self.since)).min(self.limit)
    }
}

/// A hard disk.
pub struct Hdd {
    /// Drives of one kind have one together.
    geometry: Arc<Geometry>,
    seek: SeekCurve,
    seek_write: SeekCurve,
    overheads: Overheads,
    head_switch_ns: Nanos,
    write_settle_ns: Nanos,
    link_ns_per_byte: f64,
    hold_link: bool,
    zero_latency: bool,
    read_ahead: ReadAhead,
    write_water_mark: f64,
    /// Link time of the last sector of a read, which cannot overlap with the media transfer.
    last_sector_ns: Nanos,
    depth: usize,
    queued_flush: bool,
    order: Order,
    /// How long before the latest start of a seek the drive chooses; `None`: when the arm is free.
    commit_ns: Option<Nanos>,
    /// When the choice is due, if nothing arrives meanwhile; `None`: not worked out yet.
    choice_due: Option<Nanos>,
    destage_idle_ns: Nanos,
    read_ahead_min_bytes: u64,
    keep_written: bool,
    standby_after_ns: Option<Nanos>,
    spin_up_ns: Nanos,
    /// Angle of the platter at time 0.
    phase_ns: Nanos,

    clock: Nanos,
    /// When the next event is due.
    next: Moment,
    controller_free: Nanos,
    /// When the command that was prepared last left the controller.
    prepared_at: Nanos,
    previous_was_write: bool,
    /// End of the last write that arrived.
    link_free: Nanos,
    last_arrival: Nanos,
    /// Time since which the queue has had space for the command at the front of `arriving`.
    room_since: Nanos,
    arriving: VecDeque<Arriving>,
    waiting: Waiting<Access>,
    /// Writes that wait for space in the cache.
    blocked: VecDeque<(Arriving, Place)>,
    flushes: VecDeque<Flush>,
    segments: Segments,
    cache: WriteCache,
    arm: Arm,
    destaging: Option<Extent>,
    destage_next: bool,
    done: Completions,
    meter: Meter,
}

impl Hdd {
    pub fn new(spec: &HddSpec, seed: u64) -> Result<Self, SpecError> {
        spec.check()?;
        let geometry = shared(Geometry::build(spec)?);
        let seek = SeekCurve::build(&spec.seek, geometry.cylinders)?;
        let seek_write = match &spec.seek_write {
            Some(write) => {
                let built = SeekCurve::build(write, geometry.cylinders);
                built.map_err(|error| error.inside("seek_write"))?
            }
            None => seek.clone(),
        };
        let ns = |ms: f64| (ms * 1e6) as Nanos;
        let link_ns_per_byte = 1e9 / spec.link_bytes_per_s;
        Ok(Hdd {
            seek,
            seek_write,
            overheads: Overheads::new(spec),
            head_switch_ns: ns(spec.head_switch_ms),
            write_settle_ns: ns(spec.write_settle_ms),
            link_ns_per_byte,
            hold_link: spec.hold_link,
            zero_latency: spec.zero_latency,
            read_ahead: spec.buffer.read_ahead,
            write_water_mark: spec.buffer.write_water_mark,
            last_sector_ns: ((SECTOR_BYTES as f64 * link_ns_per_byte) as Nanos).max(1),
            depth: spec.queue.depth as usize,
            queued_flush: spec.queue.queued_flush,
            order: Order {
                reordering: spec.queue.reordering,
                window: spec.queue.window.unwrap_or(u32::MAX) as usize,
                age_limit_ns: ns(spec.queue.age_limit_ms),
            },
            commit_ns: spec.queue.commit_ms.map(ns),
            choice_due: None,
            destage_idle_ns: ns(spec.buffer.destage_idle_ms),
            read_ahead_min_bytes: spec.buffer.read_ahead_min_bytes,
            keep_written: spec.buffer.keep_written,
            standby_after_ns: spec.power.standby_after_s.map(|s| (s * 1e9) as Nanos),
            spin_up_ns: (spec.power.spin_up_s * 1e9) as Nanos,
            phase_ns: Random::new(seed, "platter").below(geometry.turn_ns),
            clock: 0,
            next: Moment::NEVER,
            controller_free: 0,
            prepared_at: 0,
            previous_was_write: false,
            link_free: 0,
            last_arrival: 0,
            room_since: 0,
            arriving: VecDeque::new(),
            waiting: Waiting::new(),
            blocked: VecDeque::new(),
            flushes: VecDeque::new(),
            segments: Segments::new(&spec.buffer),
            cache: WriteCache::new(&spec.buffer),
            arm: Arm { along: 0, cylinder: 0, free_at: 0, stream: None },
            destaging: None,
            destage_next: false,
            done: Completions::new(),
            meter: Meter::new(&spec.power),
            geometry,
        })
    }

    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    pub fn seek_curve(&self) -> &SeekCurve {
        &self.seek
    }

    pub fn seek_curve_of_writes(&self) -> &SeekCurve {
        &self.seek_write
    }

    /// Process every event that no later command can change.
    fn advance(&mut self, now: Nanos) {
        let horizon = now.max(self.controller_free) + self.overheads.least_ns;
        while self.next.before(horizon).is_some() {
            let (finish, arrive) = (self.next_finish(), self.next_arrival());
            self.next = finish.min(arrive).min(self.next_decision());
            let next = self.next;
            let Some(time) = next.before(horizon) else { break };
            self.clock = time;
            if finish == next {
                self.finish_destage(time);
            } else if arrive == next {
                self.arrive(time);
            } else {
                self.decide(time);
            }
        }
    }

    /// Return when the write that is being destaged is on the platter.
    #[inline]
    fn next_finish(&self) -> Moment {
        if self.destaging.is_some() {
            Moment::at(self.arm.free_at)
        } else {
            Moment::NEVER
        }
    }

    #[inline]
    fn next_arrival(&self) -> Moment {
        let held = self.waiting.len() + self.blocked.len();
        match self.arriving.front() {
            Some(front) if held < self.depth => {
                let time = front.ready.max(self.room_since).max(self.prepared_at);
                if self.queued_flush {
                    return Moment::at(time);
                }
                let flush = front.request.op == Op::Flush;
                if !self.flushes.is_empty() || (flush && held > 0) {
                    return Moment::NEVER;
                }
                let drained = self.done.latest() + self.overheads.least_ns;
                Moment::at(if flush { time.max(drained) } else { time })
            }
            _ => Moment::NEVER,
        }
    }

    #[inline]
    fn next_decision(&self) -> Moment {
        let free = self.arm.free_at.max(self.clock);
        if !self.waiting.is_empty() {
            Moment::at(free.max(self.choice_due.unwrap_or(0)))
        } else if self.cache.is_empty() {
            Moment::NEVER
        } else if self.destage_presses() {
            Moment::at(free)
        } else {
            let idle_since = self.last_arrival.max(self.arm.free_at);
            Moment::at(free.max(idle_since.saturating_add(self.destage_idle_ns)))
        }
    }

    #[inline]
    fn destage_presses(&self) -> bool {
        !self.flushes.is_empty() || !self.blocked.is_empty() || self.cache.pressing()
    }

    fn idle_since(&self) -> Nanos {
        self.last_arrival.max(self.arm.free_at)
    }
}

impl Medium for Hdd {
    fn capacity_sectors(&self) -> u64 {
        self.geometry.capacity_sectors
    }

    fn energy_j(&self, now: Nanos) -> f64 {
        let still = self.done.in_flight() == 0 && self.cache.is_empty();
        let after_ns = self.standby_after_ns.filter(|_| still);
        let ahead =
            self.arm.stream.map_or(0, |stream| stream.position(now).saturating_sub(stream.metered));
        self.meter.joules(now, ahead, after_ns.map(|ns| self.idle_since().saturating_add(ns)))
    }

    /// Return the data in the write cache or being destaged.
    fn unflushed(&mut self, now: Nanos) -> Vec<SectorRange> {
        self.advance(now);
        let held = self.cache.extents().chain(&self.destaging);
        held.map(|e| (e.sector, e.end - e.sector)).collect()
    }

    fn fault_counts(&self) -> FaultCounts {
        FaultCounts::default()
    }

    fn flash_writes(&self) -> FlashWrites {
        FlashWrites::default()
    }

    /// Do nothing: the read time of a platter does not depend on its data.
    fn preload(&mut self, _data: &[SectorRange], _order: StoredOrder) {}

    fn trim(&mut self, _data: &[SectorRange]) {}
}

impl Device for Hdd {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.advance(now);
        let seq = self.done.admit();
        let ready = self.controller_free.max(now) + self.overheads.least_ns;
        self.controller_free = ready;
        let end = request.sector.saturating_add(u64::from(request.sectors));
        let moves_data = !matches!(request.op, Op::Flush);
        if moves_data && (request.sectors == 0 || end > self.geometry.capacity_sectors) {
            self.done.push(ready, seq, request.tag, Status::Failed(Fault::OutOfRange));
            return;
        }
        let after_write = self.previous_was_write;
        match request.op {
            Op::Read => self.previous_was_write = false,
            Op::Write | Op::WriteZeroes => self.previous_was_write = true,
            Op::Flush | Op::Discard => {}
        }
        let prepared = !self.overheads.vary();
        self.arriving.push_back(Arriving { ready, seq, request, after_write, prepared });
        self.next = self.next.min(self.next_arrival());
        self.advance(now);
    }

    fn wake_ahead(&mut self, now: Nanos, until: Nanos, out: &mut Vec<Completion>) {
        self.advance(now);
        self.done.drain(until, out);
    }

    fn next_wake(&self) -> Option<Nanos> {
        if self.done.in_flight() == 0 {
            return None;
        }
        // An event at `next` or later cannot complete a request before `next`.
        self.next.min(self.done.first().into()).time()
    }

    fn in_flight(&self) -> usize {
        self.done.in_flight()
    }
}
