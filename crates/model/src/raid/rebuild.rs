//! Filling a replaced member from the others, beside the load.

use super::layout::{Level, Piece};
use super::{Raid, NEVER, REBUILDING};
use crate::request::{Device, Nanos, Op, SECTOR_BYTES};

/// One step of a rebuild (1 MiB).
const STEP_SECTORS: u64 = 2048;

/// A rebuild under way.
pub(super) struct Rebuild {
    pub member: usize,
    /// Filled up to here.
    pub position: u64,
    /// When the next step starts; never while one is under way.
    pub due: Nanos,
    step: u64,
    started: Nanos,
}

impl<D: Device> Raid<D> {
    /// Puts a new device in the place of a failed member and starts to fill it at `now`; gives the old one
    /// back. What it has in flight must have ended, else the new device comes back itself.
    pub fn replace_member(&mut self, now: Nanos, index: usize, device: D) -> Result<D, D> {
        self.advance(now);
        let redundant = self.layout.level != Level::Striped;
        let member = &mut self.members[index];
        let fits = device.capacity_sectors() >= self.layout.member_sectors;
        if !redundant || !fits || !member.failed || member.pending > 0 || self.rebuild.is_some() {
            return Err(device);
        }
        member.next_wake = NEVER;
        member.last_end = 0;
        let old = std::mem::replace(&mut member.device, device);
        self.rebuild = Some(Rebuild { member: index, position: 0, due: now, step: 0, started: now });
        Ok(old)
    }

    /// How far the rebuild is, from 0 to 1; none when there is none.
    pub fn rebuild_progress(&self) -> Option<f64> {
        self.rebuild.as_ref().map(|rebuild| rebuild.position as f64 / self.layout.member_sectors as f64)
    }

    /// Starts the next step.
    pub(super) fn rebuild_step(&mut self) {
        let clock = self.clock;
        let Some(rebuild) = &mut self.rebuild else { return };
        let (member, sector) = (rebuild.member, rebuild.position);
        let step = STEP_SECTORS.min(self.layout.member_sectors - sector);
        (rebuild.due, rebuild.step, rebuild.started) = (NEVER, step, clock);
        let piece = Piece { member, sector, sectors: step as u32 };
        let mut reads = std::mem::take(&mut self.first);
        let possible = self.plan_instead(piece, &mut reads);
        self.first = reads;
        if possible {
            self.then.push(piece);
            self.start_job(REBUILDING, Op::Read, Some(Op::Write), false);
        } else {
            // Too many members are gone: there is nothing to rebuild from.
            self.rebuild = None;
        }
    }

    /// A step has ended: the next follows as the rate allows.
    pub(super) fn rebuild_stepped(&mut self) {
        let limit = self.rebuild_bytes_per_s as f64;
        let Some(rebuild) = &mut self.rebuild else { return };
        rebuild.position += rebuild.step;
        let member = rebuild.member;
        if rebuild.position >= self.layout.member_sectors {
            self.rebuild = None;
            self.members[member].failed = false;
            return;
        }
        let pace = (rebuild.step * SECTOR_BYTES) as f64 / limit * 1e9;
        rebuild.due = self.clock.max(rebuild.started + pace as Nanos);
    }
}
