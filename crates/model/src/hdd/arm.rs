//! The disk arm: scheduling, seeks, rotational delays, media reads and writes.

use super::geometry::Place;
use super::scoring::{Head, Reach};
use super::spec::ReadAhead;
use super::waiting::Order;
use super::{Access, Arm, Hdd, Stream};
use crate::request::{Nanos, Status};

/// What the link transfers of a read of the medium.
struct Transfer {
    /// When the first sector is in the buffer.
    first: Nanos,
    /// When the last sector can have crossed the link.
    last: Nanos,
    zone: u32,
}

impl Hdd {
    /// Return when the arm, started at `now`, is over the place, and when the place is under the
    /// head.
    pub(super) fn reach_place(&mut self, now: Nanos, place: &Place, write: bool) -> (Nanos, Nanos) {
        let (along, cylinder, in_phase) = match self.arm.stream {
            Some(stream) => {
                let along = stream.position(now);
                let reading = along < stream.limit && now >= stream.since;
                (along, self.geometry.cylinder_at(along), reading)
            }
            None => (self.arm.along, self.arm.cylinder, now == self.arm.free_at),
        };
        // The next sectors in order: the skews are designed for this step.
        if in_phase && place.along >= along && place.along - along <= self.geometry.cylinder_skew_ns
        {
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

    /// Return the rotational delay from `now` until `along` is under the head.
    #[inline]
    pub(super) fn wait_ns(&self, now: Nanos, along: Nanos) -> Nanos {
        let turn = self.geometry.turn_ns;
        let ahead =
            self.geometry.angle_ns(along) + turn - self.geometry.angle_ns(now + self.phase_ns);
        if ahead >= turn {
            ahead - turn
        } else {
            ahead
        }
    }

    /// Start the next work of the idle arm.
    pub(super) fn decide(&mut self, now: Nanos) {
        let destage = !self.cache.is_empty()
            && (self.waiting.is_empty() || (self.destage_next && self.destage_presses()));
        if !destage && self.may_wait(now) {
            return;
        }
        self.destage_next = !destage;
        if destage {
            self.destage(now);
        } else {
            self.access(now);
        }
    }

    pub(super) fn access(&mut self, now: Nanos) {
        self.note_stream(now);
        let index = self.next_access(now);
        self.choice_due = None;
        if self.waiting.len() + self.blocked.len() == self.depth {
            self.room_since = now;
        }
        let (place, access, _) = self.waiting.remove(index);
        if access.write {
            self.write_through(now, &place, &access);
        } else {
            self.read(now, place, &access);
        }
    }

    /// Return which waiting command the arm serves next if it starts at `now`. There must be one.
    pub(super) fn next_access(&mut self, now: Nanos) -> usize {
        let seen = self.waiting.seen(now, &self.order);
        let streamed = self.arm.stream.and_then(|stream| {
            let (start, end) = (stream.along, self.segments.end(stream.segment));
            // The arm's cylinder is that of the access before the stream.
            let last = self.geometry.cylinder_at(end.min(self.geometry.along_end));
            let cylinders = self.arm.cylinder..=last;
            self.waiting.first_within(seen, start..=end, cylinders)
        });
        streamed.unwrap_or_else(|| {
            let head = Head {
                phase_turns: self.geometry.angle_turns(now + self.phase_ns),
                cylinder: self.arm.cylinder_at(now, &self.geometry),
                turn_ns: self.geometry.turn_ns,
            };
            let read = Reach { seek: &self.seek, settle_ns: 0 };
            let write = Reach { seek: &self.seek_write, settle_ns: self.write_settle_ns };
            self.waiting.choose(seen, &head, read, write)
        })
    }

    /// Complete a read whose data crosses the link while the medium is read.
    fn send_read(&mut self, transfer: &Transfer, access: &Access) {
        let mut sent = transfer.last.max(access.link_done);
        let slower = self.last_sector_ns as f64 > self.geometry.sector_ns(transfer.zone);
        if slower || self.hold_link {
            sent = sent.max(self.link_free.max(transfer.first) + access.over_link);
            self.link_free = sent;
        }
        let done = sent + self.overheads.completion_ns(false);
        self.done.push(done, access.seq, access.tag, Status::Done);
    }

    /// Return how far to read ahead after a read that ends at `end`.
    pub(super) fn read_ahead_limit(
        &self,
        end: Nanos,
        zone: u32,
        segment: usize,
        sequential: bool,
    ) -> Nanos {
        let limit = self.segments.read_ahead_limit(end, zone, &self.geometry);
        match self.read_ahead {
            ReadAhead::Always => limit,
            ReadAhead::Track => limit.min(self.geometry.track_end(end - 1)),
            ReadAhead::TrackByTrack => {
                // The track of the next sector, which may be the first of its track.
                let skew_ns = self.geometry.cylinder_skew_ns;
                let mut track_end = self.geometry.track_end(end);
                if track_end <= end + 1 {
                    track_end = self.geometry.track_end(end + skew_ns);
                }
                if self.segments.begun(segment) + self.geometry.turn_ns < track_end {
                    track_end = self.geometry.track_end(track_end + skew_ns);
                }
                limit.min(track_end)
            }
            ReadAhead::Cylinder => limit.min(self.geometry.cylinder_end(end - 1)),
            ReadAhead::Sequential if sequential => limit,
            ReadAhead::Sequential => end,
        }
    }

    pub(super) fn read(&mut self, now: Nanos, mut place: Place, access: &Access) {
        let arrived = access.link_done - access.over_link;
        let mut first_held = None;
        let mut segment = self.segments.find(place.along);
        if let Some((index, held)) = segment.map(|index| (index, self.segments.end(index))) {
            if place.along_end <= held {
                // Already read ahead since the command arrived.
                let read = now + self.last_sector_ns;
                let transfer = Transfer { first: arrived, last: read, zone: place.zone };
                self.send_read(&transfer, access);
                self.segments.sent(index, place.along_end);
                return;
            }
            if held > place.along {
                first_held = Some(arrived);
                place = self.rest(place, held);
            }
        }
        let (sought, media) = self.reach_place(now, &place, false);
        let passed = media + (place.along_end - place.along);
        let end = self.read_end(sought, passed, &place);
        let sequential = segment.is_some();
        let into = *segment.get_or_insert_with(|| self.segments.begin(&place));
        if sequential {
            self.segments.reach(into, place.along_end, place.zone, &self.geometry);
            self.segments.touch(into);
        }
        let first = media + self.geometry.sector_ns(place.zone) as Nanos;
        let transfer = Transfer {
            first: first_held.unwrap_or(first),
            last: end + self.last_sector_ns,
            zone: place.zone,
        };
        self.send_read(&transfer, access);
        self.meter.access(now, sought, media, end);
        let limit = self.read_ahead_limit(place.along_end, place.zone, into, sequential);
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
                since: passed,
                along: place.along_end,
                limit,
                segment: into,
                zone: place.zone,
                metered: place.along_end,
            }),
        };
        self.segments.sent(into, place.along_end);
    }

    /// Return when all of a place has been read, if its end passes the head at `passed`. A drive
    /// with zero-latency reads begins with whatever sector of the place comes first, and needs one
    /// revolution at most for what lies on one track.
    fn read_end(&self, sought: Nanos, passed: Nanos, place: &Place) -> Nanos {
        let on_one_track = place.along_end <= self.geometry.track_end(place.along);
        if self.zero_latency && on_one_track {
            passed.min(sought + self.geometry.turn_ns)
        } else {
            passed
        }
    }

    pub(super) fn write_through(&mut self, now: Nanos, place: &Place, access: &Access) {
        // The medium may be written before all data is here, but never runs out of data.
        let marked = (access.over_link as f64 * (1.0 - self.write_water_mark)) as Nanos;
        let media_ns = place.along_end - place.along;
        let here = access.link_done - marked.min(media_ns.saturating_sub(self.last_sector_ns));
        let end = self.write_media(now, place, here).max(access.link_done);
        let done = end + self.overheads.completion_ns(true);
        self.done.push(done, access.seq, access.tag, Status::Done);
    }

    pub(super) fn destage(&mut self, now: Nanos) {
        // No command waits for a cached write, unless a flush does.
        let age_limit_ns =
            if self.flushes.is_empty() { Nanos::MAX } else { self.order.age_limit_ns };
        let seen = self.cache.seen(now, &Order { age_limit_ns, ..self.order });
        let behind = if seen > 1 && self.arm.free_at == now {
            self.cache.beginning_at(self.arm.along)
        } else {
            None
        };
        let index = behind.unwrap_or_else(|| {
            let head = Head {
                phase_turns: self.geometry.angle_turns(now + self.phase_ns),
                cylinder: self.arm.cylinder_at(now, &self.geometry),
                turn_ns: self.geometry.turn_ns,
            };
            let write = Reach { seek: &self.seek_write, settle_ns: self.write_settle_ns };
            self.cache.choose(seen, &head, write)
        });
        let (place, extent) = self.cache.remove(index);
        self.write_media(now, &place, extent.here);
        self.destaging = Some(extent);
    }

    /// Write a place whose data is available at `here`, and return when the write ends.
    pub(super) fn write_media(&mut self, now: Nanos, place: &Place, here: Nanos) -> Nanos {
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

    /// Complete a destaged range: free its cache space, and complete flushes and blocked writes.
    pub(super) fn finish_destage(&mut self, now: Nanos) {
        if let Some(extent) = self.destaging.take() {
            self.cache.release(&extent);
            if self.keep_written {
                let sectors = (extent.end - extent.sector) as u32;
                self.segments.keep(&self.geometry.place(extent.sector, sectors), &self.geometry);
            }
        }
        let was_full = self.waiting.len() + self.blocked.len() == self.depth;
        while let Some((write, place)) = self.blocked.front().copied() {
            if !self.cache_write(now, now.max(write.ready), &write, place) {
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
                self.reopen(now);
            }
        }
    }
}
