//! Plugging and merging: I/Os collect in the plug and are merged into adjacent requests, in the
//! plug or in the scheduler.

use super::elevator::Elevator;
use super::list::{each, Scheduler};
use super::requests::Queued;
use super::{BlockQueue, SubmittedIo};
use crate::request::{Nanos, Op, Queue};

impl<D: Queue> BlockQueue<D> {
    /// Start to collect I/Os, which can merge with each other, until `unplug`.
    pub fn plug(&mut self) {
        if self.passes_on {
            self.device.plug();
        } else {
            self.plugged = true;
        }
    }

    /// Pass the collected I/Os to the scheduler.
    pub fn unplug(&mut self, now: Nanos) {
        self.plugged = false;
        self.advance(now);
        if self.passes_on {
            self.device.unplug(now);
            return;
        }
        let mut plug = std::mem::take(&mut self.plug);
        for index in plug.drain(..) {
            self.enter(now, index);
        }
        self.plug = plug;
        self.dispatch(now);
    }

    /// Merge an I/O into an adjacent request; return whether one was found.
    pub(super) fn merge(&mut self, io: &SubmittedIo) -> bool {
        let request = &io.request;
        if !matches!(request.op, Op::Read | Op::Write) || request.fua {
            return false;
        }
        let (start, length) = (request.sector, u64::from(request.sectors));
        let fits =
            |q: &Queued| q.op == request.op && !q.fua && q.sectors + length <= self.max_sectors;
        if let Some(&index) = self.plug.iter().rev().find(|&&index| {
            let q = self.table.get(index);
            fits(q) && q.process == io.process && (q.end() == start || start + length == q.sector)
        }) {
            let q = self.table.get_mut(index);
            q.sector = q.sector.min(start);
            q.sectors += length;
            self.table.chain(index, request.tag);
            self.counters.merged += 1;
            return true;
        }
        let sorted = &self.index[usize::from(request.op != Op::Read)];
        if !self.merges_in_queue || sorted.is_empty() {
            return false;
        }
        let allowed = |q: &Queued| {
            fits(q) && each!(&self.scheduler, s => s.may_merge(q, io.process, io.sync))
        };
        if let Some(index) = sorted.before(start) {
            let q = self.table.get(index);
            if q.end() == start && allowed(q) {
                self.table.get_mut(index).sectors += length;
                self.table.chain(index, request.tag);
                self.counters.merged += 1;
                return true;
            }
        }
        if let Some(index) = sorted.at_or_after(start + length) {
            let q = *self.table.get(index);
            if q.sector == start + length && allowed(&q) {
                let sorted = &mut self.index[q.direction()];
                sorted.remove(q.sector, index);
                sorted.insert(start, index);
                let grown = self.table.get_mut(index);
                grown.sector = start;
                grown.sectors += length;
                self.table.chain(index, request.tag);
                each!(&mut self.scheduler, s => s.moved(index, q.sector, &self.table));
                self.counters.merged += 1;
                return true;
            }
        }
        false
    }
}
