//! The hard disk: controller, link, buffer, queue and arm, each on a timeline of its own.
//!
//! What happens inside happens at a time of its own, in one order: a finished write gives its room back,
//! a command arrives behind the controller, the arm takes up the next work. A command that comes in later
//! cannot arrive before `horizon`, so everything up to there is worked out at once, whoever calls when.

pub mod buffer;
pub mod energy;
pub mod geometry;
pub mod seek;
pub mod spec;
pub mod waiting;
pub mod write_cache;

use std::collections::VecDeque;

use crate::completions::Completions;
use crate::request::{Completion, Device, Fault, Nanos, Op, Request, Status, SECTOR_BYTES};
use crate::spec::SpecError;
use crate::stream::Stream as Random;
use buffer::Segments;
use energy::Meter;
use geometry::{Geometry, Place};
use seek::SeekCurve;
use spec::HddSpec;
use waiting::{Order, Waiting};
use write_cache::{Extent, WriteCache};

const NEVER: Nanos = Nanos::MAX;

/// A command on its way through the controller.
#[derive(Clone, Copy)]
struct Arriving {
    ready: Nanos,
    seq: u64,
    request: Request,
}

/// A command that needs the arm.
#[derive(Clone, Copy)]
struct Access {
    tag: u64,
    seq: u64,
    write: bool,
    /// When its data has come over the link (writes), or could have gone over it (reads).
    link_done: Nanos,
}

/// A flush that waits until everything older than `before` is on the platter.
struct Flush {
    tag: u64,
    seq: u64,
}

struct Arm {
    /// Where the head is, or was when the stream below began.
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

/// The head reads on into a segment: from `along` at `since`, at the speed of the medium, up to `limit`.
#[derive(Clone, Copy)]
struct Stream {
    since: Nanos,
    along: Nanos,
    limit: Nanos,
    segment: usize,
    zone: u32,
}

impl Stream {
    #[inline]
    fn position(&self, now: Nanos) -> Nanos {
        (self.along + now.saturating_sub(self.since)).min(self.limit)
    }
}

/// A hard disk.
pub struct Hdd {
    geometry: Geometry,
    seek: SeekCurve,
    seek_write: SeekCurve,
    overhead_ns: Nanos,
    head_switch_ns: Nanos,
    write_settle_ns: Nanos,
    link_ns_per_byte: f64,
    /// The link time of the last sector of a read, which cannot overlap with the medium.
    last_sector_ns: Nanos,
    depth: usize,
    order: Order,
    destage_idle_ns: Nanos,
    read_ahead_min_bytes: u64,
    standby_after_ns: Nanos,
    spin_up_ns: Nanos,
    /// The angle of the platter at time 0.
    phase_ns: Nanos,

    clock: Nanos,
    controller_free: Nanos,
    link_free: Nanos,
    last_arrival: Nanos,
    /// Since when the queue has had room for the command at the front of `arriving`.
    room_since: Nanos,
    arriving: VecDeque<Arriving>,
    waiting: Waiting<Access>,
    /// Writes that wait for room in the cache.
    blocked: VecDeque<Arriving>,
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
        let geometry = Geometry::build(spec)?;
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
        let depth = spec.queue.depth as usize;
        Ok(Hdd {
            seek,
            seek_write,
            overhead_ns: ((spec.controller_overhead_us * 1e3) as Nanos).max(1),
            head_switch_ns: ns(spec.head_switch_ms),
            write_settle_ns: ns(spec.write_settle_ms),
            link_ns_per_byte,
            last_sector_ns: ((SECTOR_BYTES as f64 * link_ns_per_byte) as Nanos).max(1),
            depth,
            order: Order { reordering: spec.queue.reordering, age_limit_ns: ns(spec.queue.age_limit_ms) },
            destage_idle_ns: ns(spec.buffer.destage_idle_ms),
            read_ahead_min_bytes: spec.buffer.read_ahead_min_bytes,
            standby_after_ns: spec.power.standby_after_s.map_or(NEVER, |s| (s * 1e9) as Nanos),
            spin_up_ns: (spec.power.spin_up_s * 1e9) as Nanos,
            phase_ns: Random::new(seed, "platter").below(geometry.turn_ns),
            clock: 0,
            controller_free: 0,
            link_free: 0,
            last_arrival: 0,
            room_since: 0,
            arriving: VecDeque::with_capacity(depth),
            waiting: Waiting::with_capacity(depth),
            blocked: VecDeque::with_capacity(depth),
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

    /// Ranges (first sector, sectors) acknowledged but not on the platter at `now`: what a loss of power loses.
    pub fn unflushed(&mut self, now: Nanos) -> Vec<(u64, u64)> {
        self.advance(now);
        let held = self.cache.extents.things().iter().chain(&self.destaging);
        held.map(|e| (e.sector, e.end - e.sector)).collect()
    }

    /// Works out everything that no later command can change.
    fn advance(&mut self, now: Nanos) {
        let horizon = now.max(self.controller_free) + self.overhead_ns;
        loop {
            let finish = if self.destaging.is_some() { self.arm.free_at } else { NEVER };
            let arrive = self.next_arrival();
            let decide = self.next_decision();
            let next = finish.min(arrive).min(decide);
            if next >= horizon {
                break;
            }
            self.clock = next;
            if finish == next {
                self.finish_destage(next);
            } else if arrive == next {
                self.arrive(next);
            } else {
                self.decide(next);
            }
        }
    }

    #[inline]
    fn next_arrival(&self) -> Nanos {
        match self.arriving.front() {
            Some(front) if self.waiting.len() + self.blocked.len() < self.depth => {
                front.ready.max(self.room_since)
            }
            _ => NEVER,
        }
    }

    #[inline]
    fn next_decision(&self) -> Nanos {
        let free = self.arm.free_at.max(self.clock);
        if !self.waiting.is_empty() {
            free
        } else if self.cache.extents.is_empty() {
            NEVER
        } else if self.destage_presses() {
            free
        } else {
            free.max(self.last_arrival.max(self.arm.free_at).saturating_add(self.destage_idle_ns))
        }
    }

    #[inline]
    fn destage_presses(&self) -> bool {
        !self.flushes.is_empty() || !self.blocked.is_empty() || self.cache.pressing()
    }

    /// A command has come through the controller.
    fn arrive(&mut self, now: Nanos) {
        let Some(Arriving { seq, request, .. }) = self.arriving.pop_front() else {
            return;
        };
        self.wake_spindle(now);
        self.last_arrival = now;
        match request.op {
            Op::Read => self.arrive_read(now, seq, request),
            Op::Write | Op::WriteZeroes => self.arrive_write(now, seq, request),
            Op::Flush if self.cache.oldest().is_some() || self.destaging.is_some() => {
                self.flushes.push_back(Flush { tag: request.tag, seq });
            }
            // Nothing is cached, or nothing is to be done: a disk keeps what is discarded.
            Op::Flush | Op::Discard => self.done.push(now, seq, request.tag, Status::Done),
        }
    }

    fn arrive_read(&mut self, now: Nanos, seq: u64, request: Request) {
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        let over_link = (bytes as i64 as f64 * self.link_ns_per_byte) as i64 as Nanos;
        let end = request.sector + u64::from(request.sectors);
        if !self.cache.extents.is_empty() && self.cache.holds(request.sector, end) {
            self.send(now, over_link, seq, request.tag);
            return;
        }
        let mut place = self.geometry.place(request.sector, request.sectors);
        self.note_stream(now);
        if let Some(segment) = self.segments.find(place.along) {
            let held = self.segments.end(segment);
            if place.along_end <= held {
                self.segments.touch(segment);
                self.send(now, over_link, seq, request.tag);
                self.read_on(now, segment, &place);
                return;
            }
            if held > place.along {
                place = self.rest(place, held);
            }
        }
        let access = Access { tag: request.tag, seq, write: false, link_done: now + over_link };
        self.waiting.push(&self.geometry, place, now, access);
    }

    fn arrive_write(&mut self, now: Nanos, seq: u64, request: Request) {
        let here = if request.op == Op::WriteZeroes {
            now
        } else {
            self.over_link(now, u64::from(request.sectors) * SECTOR_BYTES)
        };
        if request.fua || !self.cache.could_hold(u64::from(request.sectors)) {
            let access = Access { tag: request.tag, seq, write: true, link_done: here };
            let place = self.geometry.place(request.sector, request.sectors);
            self.waiting.push(&self.geometry, place, now, access);
            return;
        }
        let arriving = Arriving { ready: here, seq, request };
        if !self.blocked.is_empty() || !self.cache_write(now, here, &arriving) {
            self.blocked.push_back(arriving);
        }
    }

    fn cache_write(&mut self, now: Nanos, done: Nanos, write: &Arriving) -> bool {
        let extent = Extent {
            sector: write.request.sector,
            end: write.request.sector + u64::from(write.request.sectors),
            oldest: write.seq,
            here: write.ready,
        };
        let taken = self.cache.take(&self.geometry, extent, now);
        if taken {
            self.done.push(done, write.seq, write.request.tag, Status::Done);
        }
        taken
    }

    /// Sends a read's data from the buffer over the link.
    fn send(&mut self, now: Nanos, over_link: Nanos, seq: u64, tag: u64) {
        self.link_free = self.link_free.max(now) + over_link;
        self.done.push(self.link_free, seq, tag, Status::Done);
    }

    fn over_link(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.link_free =
            self.link_free.max(now) + (bytes as i64 as f64 * self.link_ns_per_byte) as i64 as Nanos;
        self.link_free
    }

    /// What is left of a place whose part before `held` is in the buffer.
    fn rest(&self, place: Place, held: Nanos) -> Place {
        Place { along: held, cylinder: self.geometry.cylinder_at(held), ..place }
    }

    /// Writes down in its segment how far the head has read on.
    fn note_stream(&mut self, now: Nanos) {
        if let Some(stream) = self.arm.stream {
            let position = stream.position(now);
            self.segments.reach(stream.segment, position, stream.zone, &self.geometry);
        }
    }

    /// A hit moves the goal of reading ahead on; an idle arm goes back to a segment that runs empty.
    fn read_on(&mut self, now: Nanos, segment: usize, hit: &Place) {
        if self.segments.read_ahead_bytes() == 0 {
            return;
        }
        let limit = self.segments.read_ahead_limit(hit.along_end, hit.zone, &self.geometry);
        if let Some(stream) = &mut self.arm.stream {
            let reading = stream.position(now) < stream.limit;
            if reading {
                if stream.segment == segment {
                    stream.limit = stream.limit.max(limit);
                }
                return;
            }
        }
        let held = self.segments.end(segment);
        let half = hit.along_end + (limit - hit.along_end) / 2;
        if self.arm.free_at > now || !self.waiting.is_empty() || held > half {
            return;
        }
        if held >= limit {
            return;
        }
        let place =
            Place { along: held, along_end: held, cylinder: self.geometry.cylinder_at(held), zone: hit.zone };
        let (sought, media) = self.reach_place(now, &place, false);
        self.meter.access(now, sought, media, media);
        self.arm = Arm {
            along: held,
            cylinder: place.cylinder,
            // Once the arm moves it comes to rest; only then can it be sent elsewhere.
            free_at: sought,
            stream: Some(Stream { since: media, along: held, limit, segment, zone: hit.zone }),
        };
    }

    /// When the arm, sent off at `now`, is over the place, and when the place comes by.
    fn reach_place(&mut self, now: Nanos, place: &Place, write: bool) -> (Nanos, Nanos) {
        let (along, cylinder, in_phase) = match self.arm.stream {
            Some(stream) => {
                let along = stream.position(now);
                let reading = along < stream.limit && now >= stream.since;
                (along, self.geometry.cylinder_at(along), reading)
            }
            None => (self.arm.along, self.arm.cylinder, now == self.arm.free_at),
        };
        // The next sectors in order: the skews are made for the step there.
        if in_phase && place.along >= along && place.along - along <= self.geometry.cylinder_skew_ns {
            return (now, now + (place.along - along));
        }
        let distance = cylinder.abs_diff(place.cylinder);
        let track = |at: Nanos| self.geometry.track_in_cylinder(at);
        let curve = if write { &self.seek_write } else { &self.seek };
        let mut moving = if distance > 0 {
            curve.time_ns(distance)
        } else if track(along) != track(place.along) {
            self.head_switch_ns
        } else {
            0
        };
        if write && moving > 0 {
            moving += self.write_settle_ns;
        }
        let sought = now + moving;
        (sought, sought + self.wait_ns(sought, place.along))
    }

    /// How long the platter turns from `now` until `along` is under the head.
    #[inline]
    fn wait_ns(&self, now: Nanos, along: Nanos) -> Nanos {
        let turn = self.geometry.turn_ns;
        let ahead = self.geometry.angle_ns(along) + turn - self.geometry.angle_ns(now + self.phase_ns);
        if ahead >= turn {
            ahead - turn
        } else {
            ahead
        }
    }

    /// The arm is free: it takes up the next work.
    fn decide(&mut self, now: Nanos) {
        let destage = !self.cache.extents.is_empty()
            && (self.waiting.is_empty() || (self.destage_next && self.destage_presses()));
        self.destage_next = !destage;
        if destage {
            self.destage(now);
        } else {
            self.access(now);
        }
    }

    fn access(&mut self, now: Nanos) {
        self.note_stream(now);
        let seen = self.waiting.seen(now, &self.order);
        let streamed = self.arm.stream.and_then(|stream| {
            let (start, end) = (stream.along, self.segments.end(stream.segment));
            let mut places = self.waiting.places()[..seen].iter();
            places.position(|place| start <= place.along && place.along <= end)
        });
        let index = streamed.unwrap_or_else(|| {
            let phase = self.geometry.angle_turns(now + self.phase_ns);
            let cylinder = self.arm.cylinder_at(now, &self.geometry);
            self.waiting.choose(seen, phase, cylinder, &self.geometry, &self.seek)
        });
        if self.waiting.len() + self.blocked.len() == self.depth {
            self.room_since = now;
        }
        let (place, access) = self.waiting.remove(index);
        if access.write {
            self.write_through(now, &place, &access);
        } else {
            self.read(now, place, &access);
        }
    }

    fn read(&mut self, now: Nanos, mut place: Place, access: &Access) {
        let mut segment = self.segments.find(place.along);
        if let Some(held) = segment.map(|segment| self.segments.end(segment)) {
            if place.along_end <= held {
                // Read ahead since it arrived.
                let sent = access.link_done.max(now + self.last_sector_ns);
                self.done.push(sent, access.seq, access.tag, Status::Done);
                return;
            }
            if held > place.along {
                place = self.rest(place, held);
            }
        }
        let (sought, media) = self.reach_place(now, &place, false);
        let end = media + (place.along_end - place.along);
        let sequential = segment.is_some();
        let into = *segment.get_or_insert_with(|| self.segments.begin(&place));
        if sequential {
            self.segments.reach(into, place.along_end, place.zone, &self.geometry);
            self.segments.touch(into);
        }
        self.done.push(
            (end + self.last_sector_ns).max(access.link_done),
            access.seq,
            access.tag,
            Status::Done,
        );
        self.meter.access(now, sought, media, end);
        let limit = self.segments.read_ahead_limit(place.along_end, place.zone, &self.geometry);
        let stay = if sequential && self.read_ahead_min_bytes > 0 {
            self.geometry.span_ns(place.zone, self.read_ahead_min_bytes)
        } else {
            0
        };
        self.arm = Arm {
            along: place.along_end,
            cylinder: place.cylinder,
            free_at: end + stay,
            stream: Some(Stream {
                since: end,
                along: place.along_end,
                limit,
                segment: into,
                zone: place.zone,
            }),
        };
    }

    fn write_through(&mut self, now: Nanos, place: &Place, access: &Access) {
        let end = self.write_media(now, place, access.link_done);
        self.done.push(end, access.seq, access.tag, Status::Done);
    }

    fn destage(&mut self, now: Nanos) {
        let extents = &mut self.cache.extents;
        let seen = extents.seen(now, &self.order);
        let behind = |place: &Place| place.along == self.arm.along && self.arm.free_at == now;
        let index = match extents.places().iter().position(behind) {
            Some(index) if seen > 1 => index,
            _ => {
                let phase = self.geometry.angle_turns(now + self.phase_ns);
                let cylinder = self.arm.cylinder_at(now, &self.geometry);
                extents.choose(seen, phase, cylinder, &self.geometry, &self.seek)
            }
        };
        let (place, extent) = self.cache.extents.remove(index);
        self.write_media(now, &place, extent.here);
        self.destaging = Some(extent);
    }

    /// Writes a place whose data is here at `here`; gives the end.
    fn write_media(&mut self, now: Nanos, place: &Place, here: Nanos) -> Nanos {
        self.note_stream(now);
        let (sought, mut media) = self.reach_place(now, place, true);
        if media < here {
            media += (here - media).div_ceil(self.geometry.turn_ns) * self.geometry.turn_ns;
        }
        let end = media + (place.along_end - place.along);
        self.meter.access(now, sought, media, end);
        self.arm = Arm {
            along: place.along_end,
            cylinder: self.geometry.cylinder_at(place.along_end - 1),
            free_at: end,
            stream: None,
        };
        end
    }

    /// A cached range is on the platter: its room is free, a flush may be through.
    fn finish_destage(&mut self, now: Nanos) {
        if let Some(extent) = self.destaging.take() {
            self.cache.release(&extent);
        }
        let was_full = self.waiting.len() + self.blocked.len() == self.depth;
        while let Some(write) = self.blocked.front().copied() {
            if !self.cache_write(now, now.max(write.ready), &write) {
                break;
            }
            self.blocked.pop_front();
            if was_full {
                self.room_since = now;
            }
        }
        if !self.flushes.is_empty() {
            let oldest = self.cache.oldest().unwrap_or(u64::MAX);
            while let Some(flush) = self.flushes.front() {
                if flush.seq > oldest {
                    break;
                }
                self.done.push(now, flush.seq, flush.tag, Status::Done);
                self.flushes.pop_front();
            }
        }
    }

    fn idle_since(&self) -> Nanos {
        self.last_arrival.max(self.arm.free_at)
    }

    /// If the spindle stood still by now, it has to come up to speed first.
    fn wake_spindle(&mut self, now: Nanos) {
        if self.standby_after_ns == NEVER || !self.cache.extents.is_empty() || !self.waiting.is_empty() {
            return;
        }
        let stopped = self.idle_since().saturating_add(self.standby_after_ns);
        if now > stopped {
            self.meter.standby(now - stopped, self.spin_up_ns);
            self.note_stream(stopped);
            if let Some(stream) = self.arm.stream.take() {
                self.arm.along = stream.position(stopped);
                self.arm.cylinder = self.geometry.cylinder_at(self.arm.along);
            }
            self.arm.free_at = now + self.spin_up_ns;
        }
    }
}

impl Device for Hdd {
    fn capacity_sectors(&self) -> u64 {
        self.geometry.capacity_sectors
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        self.advance(now);
        let seq = self.done.admit();
        let ready = self.controller_free.max(now) + self.overhead_ns;
        self.controller_free = ready;
        let end = request.sector.saturating_add(u64::from(request.sectors));
        let moves_data = !matches!(request.op, Op::Flush);
        if moves_data && (request.sectors == 0 || end > self.geometry.capacity_sectors) {
            self.done.push(ready, seq, request.tag, Status::Failed(Fault::OutOfRange));
            return;
        }
        self.arriving.push_back(Arriving { ready, seq, request });
        self.advance(now);
    }

    fn wake(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        self.advance(now);
        self.done.drain(now, out);
    }

    fn next_wake(&self) -> Option<Nanos> {
        if self.done.in_flight() == 0 {
            return None;
        }
        let finish = if self.destaging.is_some() { self.arm.free_at } else { NEVER };
        let next = finish.min(self.next_arrival()).min(self.next_decision());
        match self.done.first() {
            // No step at `next` or later can end a request before `next`.
            Some(first) if first <= next => Some(first),
            Some(first) => Some(first.min(next)),
            None => Some(next),
        }
    }

    fn in_flight(&self) -> usize {
        self.done.in_flight()
    }

    fn energy_j(&self, now: Nanos) -> f64 {
        let still =
            self.standby_after_ns != NEVER && self.done.in_flight() == 0 && self.cache.extents.is_empty();
        let stopped = self.idle_since().saturating_add(self.standby_after_ns);
        self.meter.joules(now, still.then_some(stopped))
    }
}
