//! Rebuild: fill a replaced member from the others during the load.

use super::layout::{Level, Piece};
use super::state::{Change, Rebuild};
use super::Raid;
use crate::moment::Moment;
use crate::request::{Nanos, Op, Queue, SECTOR_BYTES};

/// One step of a rebuild (1 MiB).
const STEP_SECTORS: u64 = 2048;

impl<D: Queue> Raid<D> {
    /// Take a member out of service at `due`; return the index of the change.
    pub fn schedule_failure(&mut self, due: Moment, member: usize) -> usize {
        self.changes.push(Change { member, due, spare: None, replaces: false, done: false });
        self.changes.len() - 1
    }

    /// Replace a failed member at `due`, or as soon as its requests in flight have completed.
    /// Return the index of the change.
    pub fn schedule_replacement(&mut self, due: Moment, member: usize, spare: D) -> usize {
        self.changes.push(Change { member, due, spare: Some(spare), replaces: true, done: false });
        self.changes.len() - 1
    }

    /// Bring a change forward to `now`, if it is still due later.
    pub fn hasten(&mut self, number: usize, now: Nanos) {
        let change = &mut self.changes[number];
        change.due = change.due.min(Moment::at(now));
    }

    /// Return the next change that can be applied, and its time.
    pub(super) fn next_change(&self) -> Option<(usize, Moment)> {
        let ready = |change: &Change<D>| {
            let member = &self.members[change.member];
            !change.done
                && (!change.replaces
                    || (member.failed && member.pending == 0 && self.rebuild.is_none()))
        };
        let changes = self.changes.iter().enumerate();
        changes.filter(|(_, c)| ready(c)).map(|(n, c)| (n, c.due)).min_by_key(|&(n, due)| (due, n))
    }

    pub(super) fn change(&mut self, number: usize) {
        let change = &mut self.changes[number];
        change.done = true;
        let (member, spare) = (change.member, change.spare.take());
        match spare {
            None => self.fail_member(member),
            Some(device) => {
                if let Ok(old) = self.put_in(member, device) {
                    self.retired_j += old.energy_j(self.clock);
                    self.retired_writes = self.retired_writes + old.flash_writes();
                    self.rebuilt = Some(0.0);
                }
            }
        }
    }

    /// Replace a failed member, start its rebuild at `now`, and return the old device. If requests
    /// are in flight on the old device, return the new device as an error.
    pub fn replace_member(&mut self, now: Nanos, index: usize, device: D) -> Result<D, D> {
        self.advance(now);
        self.put_in(index, device)
    }

    fn put_in(&mut self, index: usize, device: D) -> Result<D, D> {
        let redundant = self.layout.level != Level::Striped;
        let member = &mut self.members[index];
        let fits = device.capacity_sectors() >= self.layout.member_sectors;
        if !redundant || !fits || !member.failed || member.pending > 0 || self.rebuild.is_some() {
            return Err(device);
        }
        member.next_wake = Moment::NEVER;
        member.last_end = 0;
        let old = std::mem::replace(&mut member.device, device);
        self.rebuild = Some(Rebuild {
            member: index,
            position: 0,
            due: Moment::at(self.clock),
            step: 0,
            started: self.clock,
        });
        Ok(old)
    }

    /// Return the progress of the rebuild, 0 to 1; `None` without a rebuild.
    pub fn rebuild_progress(&self) -> Option<f64> {
        self.rebuild
            .as_ref()
            .map(|rebuild| rebuild.position as f64 / self.layout.member_sectors as f64)
    }

    /// Start the next step.
    pub(super) fn rebuild_step(&mut self) {
        let clock = self.clock;
        let Some(rebuild) = &mut self.rebuild else { return };
        let (member, sector) = (rebuild.member, rebuild.position);
        let step = STEP_SECTORS.min(self.layout.member_sectors - sector);
        (rebuild.due, rebuild.step, rebuild.started) = (Moment::NEVER, step, clock);
        let piece = Piece { member, sector, sectors: step as u32 };
        let mut reads = std::mem::take(&mut self.first);
        let possible = self.plan_instead(piece, &mut reads);
        self.first = reads;
        if possible {
            self.then.push(piece);
            self.start_job(None, Op::Read, Some(Op::Write), false);
        } else {
            // Too many members are missing: no data to rebuild from.
            self.rebuild = None;
        }
    }

    /// Finish a step and schedule the next one within the rate limit.
    pub(super) fn rebuild_stepped(&mut self) {
        let limit = self.rebuild_bytes_per_s as f64;
        let Some(rebuild) = &mut self.rebuild else { return };
        rebuild.position += rebuild.step;
        let member = rebuild.member;
        if rebuild.position >= self.layout.member_sectors {
            self.rebuild = None;
            self.rebuilt = Some(1.0);
            self.members[member].failed = false;
            return;
        }
        let pace = (rebuild.step * SECTOR_BYTES) as f64 / limit * 1e9;
        rebuild.due = Moment::at(self.clock.max(rebuild.started + pace as Nanos));
    }
}
