//! Commands after the controller: each hits the buffer, enters the write cache, or waits for the
//! arm.

use super::geometry::Place;
use super::write_cache::Extent;
use super::{Access, Arm, Arriving, Flush, Hdd, Stream};
use crate::request::{Nanos, Op, Request, Status, SECTOR_BYTES};

impl Hdd {
    /// Process a command that leaves the controller.
    pub(super) fn arrive(&mut self, now: Nanos) {
        if self.prepare(now) {
            return;
        }
        let Some(Arriving { seq, request, .. }) = self.arriving.pop_front() else {
            return;
        };
        if now == self.prepared_at {
            // The next command enters the controller only now.
            self.prepared_at = now + self.overheads.least_ns;
        }
        self.wake_spindle(now);
        self.last_arrival = now;
        match request.op {
            Op::Read => self.arrive_read(now, seq, request),
            Op::Write | Op::WriteZeroes => self.arrive_write(now, seq, request),
            Op::Flush if self.cache.oldest().is_some() || self.destaging.is_some() => {
                self.flushes.push_back(Flush { tag: request.tag, seq });
            }
            // A hard disk keeps discarded data.
            Op::Flush | Op::Discard => {
                self.done.push(now, seq, request.tag, Status::Done);
                if request.op == Op::Flush {
                    self.reopen(now);
                }
            }
        }
    }

    /// Take commands again after a flush that stood alone. The host sends them only now.
    pub(super) fn reopen(&mut self, now: Nanos) {
        if !self.queued_flush {
            self.prepared_at = self.prepared_at.max(now + self.overheads.least_ns);
        }
    }

    /// Return whether the controller needs more time for the first command than for the kind that
    /// takes the least, after noting when it is done.
    fn prepare(&mut self, now: Nanos) -> bool {
        let Some(front) = self.arriving.front().filter(|front| !front.prepared) else {
            return false;
        };
        let (request, after_write) = (front.request, front.after_write);
        let end = request.sector + u64::from(request.sectors);
        let hit = match request.op {
            Op::Read => {
                let place = self.geometry.place(request.sector, request.sectors);
                self.cache.holds(place.along, request.sector, end) || self.read_hits(now, &place)
            }
            Op::Write | Op::WriteZeroes => self.buffers(&request),
            Op::Flush | Op::Discard => return false,
        };
        let extra_ns = self.overheads.extra_ns(request.op != Op::Read, hit, after_write);
        if extra_ns > 0 {
            if let Some(front) = self.arriving.front_mut() {
                front.prepared = true;
            }
            self.prepared_at = now + extra_ns;
        }
        extra_ns > 0
    }

    /// Return whether the first sector of a read is in the buffer or is being read ahead.
    fn read_hits(&mut self, now: Nanos, place: &Place) -> bool {
        self.note_stream(now);
        let Some(segment) = self.segments.find(place.along) else { return false };
        let coming = self.arm.stream.is_some_and(|stream| {
            stream.segment == segment && place.along < stream.limit && now >= stream.since
        });
        self.segments.end(segment) > place.along || coming
    }

    pub(super) fn arrive_read(&mut self, now: Nanos, seq: u64, request: Request) {
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        let over_link = (bytes as i64 as f64 * self.link_ns_per_byte) as i64 as Nanos;
        let end = request.sector + u64::from(request.sectors);
        let mut place = self.geometry.place(request.sector, request.sectors);
        if !self.cache.is_empty() && self.cache.holds(place.along, request.sector, end) {
            self.send(now, over_link, seq, request.tag);
            return;
        }
        self.note_stream(now);
        if let Some(segment) = self.segments.find(place.along) {
            let held = self.segments.end(segment);
            if place.along_end <= held {
                self.segments.touch(segment);
                self.send(now, over_link, seq, request.tag);
                self.read_on(now, segment, &place);
                self.segments.sent(segment, place.along_end);
                return;
            }
            if held > place.along {
                place = self.rest(place, held);
            }
        }
        let link_done = now + over_link;
        let access = Access { tag: request.tag, seq, write: false, link_done, over_link };
        self.waiting.push(&self.geometry, place, now, false, access);
        self.choice_due = None;
    }

    /// Return whether the write cache takes a write, when it has space.
    fn buffers(&self, write: &Request) -> bool {
        !write.fua && self.cache.could_hold(u64::from(write.sectors))
    }

    pub(super) fn arrive_write(&mut self, now: Nanos, seq: u64, request: Request) {
        let started = self.link_free.max(now);
        let here = if request.op == Op::WriteZeroes {
            now
        } else {
            self.over_link(now, u64::from(request.sectors) * SECTOR_BYTES)
        };
        let place = self.geometry.place(request.sector, request.sectors);
        self.drop_written(now, &place);
        if !self.buffers(&request) {
            let over_link = here.saturating_sub(started);
            let access = Access { tag: request.tag, seq, write: true, link_done: here, over_link };
            self.waiting.push(&self.geometry, place, now, true, access);
            self.choice_due = None;
            return;
        }
        let arriving = Arriving { ready: here, seq, request, after_write: false, prepared: true };
        if !self.blocked.is_empty() || !self.cache_write(now, here, &arriving, place) {
            self.blocked.push_back((arriving, place));
        }
    }

    pub(super) fn cache_write(
        &mut self,
        now: Nanos,
        done: Nanos,
        write: &Arriving,
        place: Place,
    ) -> bool {
        let extent = Extent {
            sector: write.request.sector,
            end: write.request.sector + u64::from(write.request.sectors),
            oldest: write.seq,
            here: write.ready,
        };
        let taken = self.cache.take(&self.geometry, place, extent, now);
        if taken {
            let done = done + self.overheads.completion_ns(true);
            self.done.push(done, write.seq, write.request.tag, Status::Done);
        }
        taken
    }

    /// Send the data of a read from the buffer over the link.
    pub(super) fn send(&mut self, now: Nanos, over_link: Nanos, seq: u64, tag: u64) {
        self.link_free = self.link_free.max(now) + over_link;
        let done = self.link_free + self.overheads.completion_ns(false);
        self.done.push(done, seq, tag, Status::Done);
    }

    pub(super) fn over_link(&mut self, now: Nanos, bytes: u64) -> Nanos {
        self.link_free =
            self.link_free.max(now) + (bytes as i64 as f64 * self.link_ns_per_byte) as i64 as Nanos;
        self.link_free
    }

    /// Return the rest of a place whose data up to `held` is in the buffer.
    pub(super) fn rest(&self, place: Place, held: Nanos) -> Place {
        Place { along: held, cylinder: self.geometry.cylinder_at(held), ..place }
    }

    /// Record in its segment how far the head has read ahead.
    pub(super) fn note_stream(&mut self, now: Nanos) {
        if let Some(stream) = &mut self.arm.stream {
            let position = stream.position(now);
            self.meter.read_ahead(position.saturating_sub(stream.metered));
            stream.metered = stream.metered.max(position);
            self.segments.reach(stream.segment, position, stream.zone, &self.geometry);
        }
    }

    /// Drop segments with data that a write makes old. The drive reads no further into one of them.
    fn drop_written(&mut self, now: Nanos, place: &Place) {
        self.note_stream(now);
        self.segments.written(place);
        let dropped = |stream: &mut Stream| self.segments.is_empty(stream.segment);
        if let Some(stream) = self.arm.stream.take_if(dropped) {
            self.arm.along = stream.position(now);
            self.arm.cylinder = self.geometry.cylinder_at(self.arm.along);
        }
    }

    /// Extend the read-ahead limit after a hit. An idle arm resumes a segment that runs out of
    /// data.
    pub(super) fn read_on(&mut self, now: Nanos, segment: usize, hit: &Place) {
        if self.segments.read_ahead_bytes() == 0 {
            return;
        }
        let limit = self.read_ahead_limit(hit.along_end, hit.zone, segment, true);
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
        let place = Place {
            along: held,
            along_end: held,
            cylinder: self.geometry.cylinder_at(held),
            zone: hit.zone,
        };
        let (sought, media) = self.reach_place(now, &place, false);
        self.meter.access(now, sought, media, media);
        self.arm = Arm {
            along: held,
            cylinder: place.cylinder,
            // A started seek always ends; the arm is free only after it.
            free_at: sought,
            stream: Some(Stream {
                since: media,
                along: held,
                limit,
                segment,
                zone: hit.zone,
                metered: held,
            }),
        };
    }

    /// Spin up the spindle if it is stopped at `now`.
    pub(super) fn wake_spindle(&mut self, now: Nanos) {
        let Some(standby_after_ns) = self.standby_after_ns else { return };
        if !self.cache.is_empty() || !self.waiting.is_empty() {
            return;
        }
        let stopped = self.idle_since().saturating_add(standby_after_ns);
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
