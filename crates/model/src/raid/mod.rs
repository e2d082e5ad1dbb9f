//! RAID 0, 1, 5, 6 and 10 over any devices, modelled on Linux md.
//!
//! A request becomes jobs, each with pieces on members. A job has one or two rounds: the reads that
//! it needs first, then the writes. Members are woken in the order of their next events, so a late
//! call changes no result.

mod bitmap;
mod bits;
pub mod controller;
pub mod layout;
pub mod member;
mod parity;
pub mod planning;
pub mod rebuild;
pub mod spec;
mod state;
mod stripes;

use crate::completions::{Completions, ANSWER_NS};
use crate::moment::Moment;
use crate::ranges;
use crate::request::{
    Completion, Device, Fault, FaultCounts, FlashWrites, Medium, Nanos, Op, Queue, Request,
    SectorRange, Status, StoredOrder, SubmittedIo,
};
use crate::slots::{Id, Slab};
use crate::spec::SpecError;
use bits::Bitmap;
use layout::{Layout, Level, Piece};
use spec::RaidSpec;
use state::{Change, Child, Job, Lists, Member, OfStripe, Parent, Rebuild};
use stripes::Stripes;

/// Process number of the RAID's own thread; the processes of jobs have other numbers.
const RAID_THREAD: u32 = 0;

/// A RAID.
pub struct Raid<D: Queue> {
    layout: Layout,
    members: Vec<Member<D>>,
    /// Some member is no disk: mirrors are chosen by their requests in flight.
    has_ssd: bool,
    parents: Slab<Parent>,
    jobs: Slab<Job>,
    children: Slab<Child>,
    rebuild: Option<Rebuild>,
    rebuild_bytes_per_s: u64,
    /// Scheduled failures and replacements of members.
    changes: Vec<Change<D>>,
    /// Rebuilt share of the replacement, once a member is replaced.
    rebuilt: Option<f64>,
    /// Energy of removed members.
    retired_j: f64,
    /// Likewise, of flash.
    retired_writes: FlashWrites,
    done: Completions,
    clock: Nanos,
    woken: Vec<Completion>,
    /// Lists that planning fills, kept to avoid allocations.
    first: Vec<Piece>,
    then: Vec<Piece>,
    lists: Lists,
    stripes: Stripes,
    bitmap: Option<Bitmap>,
    /// Sectors of each member before its data, which a bitmap needs.
    data_offset: u64,
}

impl<D: Queue> Raid<D> {
    /// Build a RAID over `devices`, whose number must match `spec`.
    pub fn new(spec: &RaidSpec, devices: Vec<D>) -> Result<Self, SpecError> {
        spec.check()?;
        if devices.len() != spec.drives as usize {
            return crate::spec::refuse(
                "raid.drives",
                spec.drives,
                &format!("{}, as given", devices.len()),
            );
        }
        let chunk = spec.chunk_bytes / crate::request::SECTOR_BYTES;
        let smallest = devices.iter().map(Medium::capacity_sectors).min().unwrap_or(0);
        let level = match spec.level {
            0 => Level::Striped,
            1 => Level::Mirrored,
            5 => Level::Parity(1),
            6 => Level::Parity(2),
            _ => Level::MirroredPairs,
        };
        let data_offset = spec.bitmap_chunk_bytes.map_or(0, |_| bits::RESERVED_SECTORS);
        let member_sectors = smallest.saturating_sub(data_offset) / chunk * chunk;
        if member_sectors == 0 {
            return crate::spec::refuse(
                "raid.chunk_bytes",
                spec.chunk_bytes,
                "at most a drive's capacity",
            );
        }
        let member = |device| Member {
            device,
            next_wake: Moment::NEVER,
            failed: false,
            pending: 0,
            last_end: 0,
            issued: 0,
        };
        let layout = Layout { level, members: devices.len(), chunk, member_sectors };
        let bits = spec.bitmap_chunk_bytes.map(|bytes| Bitmap::new(&layout, bytes));
        Ok(Raid {
            layout,
            members: devices.into_iter().map(member).collect(),
            has_ssd: false,
            parents: Slab::default(),
            jobs: Slab::default(),
            children: Slab::default(),
            rebuild: None,
            rebuild_bytes_per_s: spec.rebuild_bytes_per_s,
            changes: Vec::new(),
            rebuilt: None,
            retired_j: 0.0,
            retired_writes: FlashWrites::default(),
            done: Completions::new(),
            clock: 0,
            woken: Vec::new(),
            first: Vec::new(),
            then: Vec::new(),
            lists: Lists::default(),
            stripes: Stripes::new(spec.stripe_cache_bytes / crate::request::SECTOR_BYTES),
            bitmap: bits.transpose()?,
            data_offset,
        })
    }

    /// Return the requests issued to each member so far.
    pub fn issued(&self) -> Vec<u64> {
        self.members.iter().map(|member| member.issued).collect()
    }

    /// Return how many members there are.
    pub fn members(&self) -> usize {
        self.layout.members
    }

    /// Return the sectors of a stripe that hold data.
    pub fn row_sectors(&self) -> u64 {
        self.layout.chunk * self.layout.data_chunks() as u64
    }

    pub fn member(&self, index: usize) -> &D {
        &self.members[index].device
    }

    pub fn member_mut(&mut self, index: usize) -> &mut D {
        &mut self.members[index].device
    }

    /// Note that some members are SSDs.
    pub fn with_ssd(mut self, has_ssd: bool) -> Self {
        self.has_ssd = has_ssd;
        self
    }

    /// Return whether the RAID can lose a member.
    pub fn is_redundant(&self) -> bool {
        self.layout.level != Level::Striped
    }

    pub fn is_degraded(&self) -> bool {
        self.members.iter().any(|member| member.failed)
    }

    /// Take a member out of service. Its requests in flight still complete.
    pub fn fail_member(&mut self, index: usize) {
        self.members[index].failed = true;
        self.stripes.forget();
    }

    /// Process every event up to `now` in time order.
    fn advance(&mut self, now: Nanos) {
        loop {
            let mut next = self.next_rebuild_step();
            let mut which = None;
            for (index, member) in self.members.iter().enumerate() {
                if member.next_wake < next {
                    next = member.next_wake;
                    which = Some(index);
                }
            }
            let change = self.next_change().filter(|&(_, due)| due <= next && due.has_come(now));
            let due = change.map_or(next, |(_, due)| due);
            let Some(time) = due.time().filter(|&time| time <= now) else { break };
            self.clock = self.clock.max(time);
            if let Some((number, _)) = change {
                self.change(number);
                continue;
            }
            match which {
                Some(index) => self.wake_member(index),
                None => self.rebuild_step(),
            }
        }
        self.clock = self.clock.max(now);
    }

    fn next_rebuild_step(&self) -> Moment {
        self.rebuild.as_ref().map_or(Moment::NEVER, |rebuild| rebuild.due)
    }

    fn wake_member(&mut self, index: usize) {
        let mut woken = std::mem::take(&mut self.woken);
        let member = &mut self.members[index];
        member.device.wake(self.clock, &mut woken);
        member.next_wake = member.device.next_wake().into();
        for completion in woken.drain(..) {
            self.end_child(&completion);
        }
        self.woken = woken;
    }

    fn issue(&mut self, job: Id<Job>, op: Op, piece: Piece, instead: bool) {
        let fua = self.jobs[job].fua;
        let (process, sync) = self.submitter(job, op);
        let tag = self.children.insert(Child { job, op, piece, instead }).tag();
        let member = &mut self.members[piece.member];
        member.pending += 1;
        member.issued += 1;
        member.last_end = piece.sector + u64::from(piece.sectors);
        // The bitmap is before the data.
        let offset = if self.jobs[job].of_bitmap { 0 } else { self.data_offset };
        let Piece { sector, sectors, .. } = piece;
        let fua = fua && !matches!(op, Op::Read | Op::Flush);
        let request = Request { tag, op, sector: sector + offset, sectors, fua };
        member.device.submit_io(self.clock, SubmittedIo { request, process, sync });
        member.next_wake = member.device.next_wake().into();
    }

    /// Return which process the member's scheduler attributes a request to, and whether it is
    /// synchronous. That is the submitting process if its own call issues the piece (stripes, plain
    /// reads), otherwise the RAID's own thread (raid5d, raid1d, resync), whose reads are
    /// synchronous.
    fn submitter(&self, job: Id<Job>, op: Op) -> (u32, bool) {
        let job = &self.jobs[job];
        match job.parent.map(|parent| &self.parents[parent]) {
            Some(parent) if self.layout.level == Level::Striped => (parent.process, parent.sync),
            Some(parent) if op == Op::Read && job.then_op.is_none() => {
                (parent.process, parent.sync)
            }
            Some(parent) if op != Op::Read => (RAID_THREAD, parent.sync),
            _ => (RAID_THREAD, op == Op::Read),
        }
    }

    /// Start a job with the pieces in `first`, followed by those in `then`; empty both lists.
    fn start_job(&mut self, parent: Option<Id<Parent>>, op: Op, then_op: Option<Op>, fua: bool) {
        if let Some(parent) = parent {
            self.parents[parent].jobs += 1;
        }
        self.run_job(parent, None, None, op, then_op, fua);
    }

    /// Plan a request, and complete it if it needs no drive.
    fn start(&mut self, parent: Id<Parent>, request: &Request) {
        // It may have waited for the bitmap, and drives may have failed meanwhile.
        if self.survives() {
            self.plan(parent, request);
        } else {
            self.parents[parent].status = Status::Failed(Fault::Gone);
        }
        let slot = &mut self.parents[parent];
        slot.jobs -= 1;
        if slot.jobs == 0 {
            let Parent { tag, seq, status, bits, .. } = *slot;
            self.done.push(self.clock + ANSWER_NS, seq, tag, status);
            self.parents.remove(parent);
            self.bits_ended(bits);
        }
    }

    /// Start a job, possibly of a stripe, that its parents count already.
    fn run_job(
        &mut self,
        parent: Option<Id<Parent>>,
        more: Option<&[Id<Parent>]>,
        stripe: Option<OfStripe>,
        op: Op,
        then_op: Option<Op>,
        fua: bool,
    ) -> Id<Job> {
        let mut first = std::mem::take(&mut self.first);
        let job = self.jobs.occupy();
        let slot = &mut self.jobs[job];
        (slot.parent, slot.pending, slot.then_op, slot.fua) = (parent, first.len(), then_op, fua);
        (slot.stripe, slot.of_bitmap) = (stripe, false);
        slot.more.clear();
        slot.more.extend_from_slice(more.unwrap_or_default());
        slot.then.clear();
        slot.then.append(&mut self.then);
        if let Some(stripe) = stripe.filter(|_| then_op.is_none()) {
            self.hold_stripe(&stripe, &first);
        }
        for &piece in &first {
            self.issue(job, op, piece, false);
        }
        first.clear();
        self.first = first;
        job
    }

    fn end_child(&mut self, completion: &Completion) {
        let index = Id::of_tag(completion.tag);
        let child @ Child { job, piece, .. } = self.children[index];
        self.children.remove(index);
        self.members[piece.member].pending -= 1;
        if let Status::Failed(fault) = completion.status {
            self.repair(&child, fault);
        }
        let slot = &mut self.jobs[job];
        slot.pending -= 1;
        if slot.pending > 0 {
            return;
        }
        let (then_op, stripe) = (slot.then_op.take(), slot.stripe);
        let Some(op) = then_op else {
            self.end_job(job);
            return;
        };
        let mut then = std::mem::take(&mut self.jobs[job].then);
        if let Some(stripe) = stripe {
            self.stripes.reading -= 1;
            self.hold_stripe(&stripe, &then);
        }
        if then.is_empty() {
            self.end_job(job);
        } else {
            self.jobs[job].pending = then.len();
            for &piece in &then {
                self.issue(job, op, piece, false);
            }
            then.clear();
            self.jobs[job].then = then;
        }
        self.start_waiting();
    }

    fn end_job(&mut self, job: Id<Job>) {
        let slot = &mut self.jobs[job];
        let (parent, stripe) = (slot.parent, slot.stripe);
        let more = std::mem::take(&mut slot.more);
        let Some(parent) = parent else {
            let of_bitmap = slot.of_bitmap;
            self.jobs.remove(job);
            if of_bitmap {
                self.bitmap_written();
            } else {
                self.rebuild_stepped();
            }
            return;
        };
        self.job_of_ended(parent);
        more.iter().for_each(|&parent| self.job_of_ended(parent));
        self.jobs[job].more = more;
        self.jobs.remove(job);
        if let Some(stripe) = stripe {
            self.stripes.end(stripe.columns);
            self.start_waiting();
        }
    }

    /// Count down the jobs of a request, and complete it after the last.
    fn job_of_ended(&mut self, parent: Id<Parent>) {
        let slot = &mut self.parents[parent];
        slot.jobs -= 1;
        if slot.jobs == 0 {
            let Parent { tag, seq, status, bits, .. } = *slot;
            self.done.push(self.clock, seq, tag, status);
            self.parents.remove(parent);
            self.bits_ended(bits);
        }
    }

    /// Handle a failed piece: take an absent member out of service, and read from other members
    /// instead.
    fn repair(&mut self, child: &Child, fault: Fault) {
        let Child { job, op, piece, instead: second } = *child;
        if fault == Fault::Gone {
            self.fail_member(piece.member);
        }
        let mut instead = Vec::new();
        let recovered = match op {
            // The other members lost power too and return with it.
            _ if fault == Fault::Unpowered => false,
            Op::Read if second && fault != Fault::Gone => false,
            Op::Read => self.plan_instead(piece, &mut instead),
            // A copy or parity is missing: the other members still hold the data.
            _ => self.layout.level != Level::Striped && self.survives(),
        };
        if !recovered {
            let job = &self.jobs[job];
            for &parent in job.parent.iter().chain(&job.more) {
                self.parents[parent].status = Status::Failed(fault);
            }
            return;
        }
        self.jobs[job].pending += instead.len();
        for piece in instead {
            self.issue(job, Op::Read, piece, true);
        }
    }
}

impl<D: Queue> Raid<D> {
    /// Return the ranges of each member that hold ranges of the RAID, with copies and parity.
    fn of_members(&self, data: &[SectorRange]) -> Vec<Vec<SectorRange>> {
        let mut of_members = vec![Vec::new(); self.members.len()];
        for &(sector, sectors) in data {
            self.layout.for_each_stored(sector, sectors, |member, first, length| {
                of_members[member].push((first + self.data_offset, length));
            });
        }
        of_members.into_iter().map(ranges::merge).collect()
    }
}

/// The totals over the members: each of them answers for itself.
impl<D: Queue> Medium for Raid<D> {
    fn capacity_sectors(&self) -> u64 {
        self.layout.capacity_sectors()
    }

    fn energy_j(&self, now: Nanos) -> f64 {
        self.retired_j + self.members.iter().map(|member| member.device.energy_j(now)).sum::<f64>()
    }

    fn flash_writes(&self) -> FlashWrites {
        let of_members = self.members.iter().map(|member| member.device.flash_writes());
        of_members.fold(self.retired_writes, |sum, each| sum + each)
    }

    fn unflushed(&mut self, now: Nanos) -> Vec<SectorRange> {
        let mut found = Vec::new();
        for index in 0..self.members.len() {
            for (sector, sectors) in self.members[index].device.unflushed(now) {
                // The bitmap, before the data, is no data.
                let end = (sector + sectors).saturating_sub(self.data_offset);
                let sector = sector.saturating_sub(self.data_offset);
                let sectors = end - sector;
                self.layout.for_each_data(index, sector, sectors, |first, length| {
                    found.push((first, length))
                });
            }
        }
        // Mirrored copies yield the same range more than once.
        ranges::merge(found)
    }

    fn fault_counts(&self) -> FaultCounts {
        let lost_bytes =
            self.members.iter().map(|member| member.device.fault_counts().lost_bytes).sum();
        let progress = self
            .rebuild
            .as_ref()
            .map(|rebuild| rebuild.position as f64 / self.layout.member_sectors as f64);
        let fired = self.changes.iter().map(|change| u64::from(change.done)).collect();
        FaultCounts { fired, lost_bytes, rebuilt: progress.or(self.rebuilt) }
    }

    fn preload(&mut self, data: &[SectorRange], order: StoredOrder) {
        let of_members = self.of_members(data);
        for (member, stored) in self.members.iter_mut().zip(of_members) {
            member.device.preload(&stored, order);
        }
    }

    fn trim(&mut self, data: &[SectorRange]) {
        // As while it serves: md passes no discards to members with parity (`planning.rs`).
        if matches!(self.layout.level, Level::Parity(_)) {
            return;
        }
        let of_members = self.of_members(data);
        for (member, discarded) in self.members.iter_mut().zip(of_members) {
            member.device.trim(&discarded);
        }
    }
}

impl<D: Queue> Device for Raid<D> {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.submit_io(
            now,
            SubmittedIo { request, process: RAID_THREAD, sync: request.op == Op::Read },
        );
    }

    fn submit_direct(&mut self, now: Nanos, request: Request) {
        self.submit_io(now, SubmittedIo { request, process: RAID_THREAD, sync: true });
    }

    fn wake_ahead(&mut self, now: Nanos, _until: Nanos, out: &mut Vec<Completion>) {
        self.advance(now);
        self.done.drain(now, out);
    }

    fn next_wake(&self) -> Option<Nanos> {
        if self.done.in_flight() == 0 {
            return None;
        }
        let members = self.members.iter().map(|member| member.next_wake);
        let next = members.fold(self.next_rebuild_step(), Moment::min);
        next.min(self.done.first().into()).time()
    }

    fn in_flight(&self) -> usize {
        self.done.in_flight()
    }
}

impl<D: Queue> Queue for Raid<D> {
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        let SubmittedIo { request, process, sync } = io;
        self.advance(now);
        let seq = self.done.admit();
        let end = request.sector.saturating_add(u64::from(request.sectors));
        let moves_data = !matches!(request.op, Op::Flush);
        if moves_data && (request.sectors == 0 || end > self.layout.capacity_sectors()) {
            self.done.push(now + ANSWER_NS, seq, request.tag, Status::Failed(Fault::OutOfRange));
            return;
        }
        if !self.survives() {
            self.done.push(now + ANSWER_NS, seq, request.tag, Status::Failed(Fault::Gone));
            return;
        }
        // One extra job keeps the parent open until all jobs are started.
        let parent = self.parents.insert(Parent {
            tag: request.tag,
            seq,
            jobs: 1,
            status: Status::Done,
            process,
            sync,
            bits: (0, 0),
        });
        if self.waits_for_bits(parent, &request) {
            return;
        }
        self.start(parent, &request);
    }

    fn plug(&mut self) {
        self.stripes.plugged = true;
        self.members.iter_mut().for_each(|member| member.device.plug());
    }

    fn unplug(&mut self, now: Nanos) {
        self.advance(now);
        self.stripes.plugged = false;
        self.update_bitmap();
        self.start_waiting();
        for member in &mut self.members {
            member.device.unplug(now);
            member.next_wake = member.device.next_wake().into();
        }
    }
}
