//! Dispatch and completion: keep the drive full and process due events at their times.

use super::elevator::{Choice, Elevator};
use super::list::{each, Scheduler};
use super::{BlockQueue, SubmittedIo};
use crate::request::{Completion, Nanos, Op, Queue, Request, Status};

impl<D: Queue> BlockQueue<D> {
    /// Issue requests until the queue depth is reached or the scheduler has none.
    pub(super) fn dispatch(&mut self, now: Nanos) {
        if self.passes_on {
            return;
        }
        while self.in_drive < self.depth {
            match each!(&mut self.scheduler, s => s.next(now, self.in_drive, &self.table)) {
                Choice::Dispatch(index) => {
                    let request = self.table.get(index);
                    self.index[request.direction()].remove(request.sector, index);
                    self.timer = None;
                    self.send(now, index);
                }
                Choice::Idle(until) => {
                    self.timer = Some(until.max(now + 1));
                    return;
                }
                Choice::Empty => {
                    self.timer = None;
                    return;
                }
            }
        }
    }

    pub(super) fn send(&mut self, now: Nanos, index: u32) {
        let request = self.table.get_mut(index);
        request.dispatched = now;
        request.queued = false;
        match request.op {
            Op::Read => self.counters.reads += 1,
            Op::Write => self.counters.writes += 1,
            _ => {}
        }
        self.in_drive += 1;
        let (process, sync) = (request.process, request.sync);
        let request = Request {
            tag: u64::from(index),
            op: request.op,
            sector: request.sector,
            sectors: request.sectors as u32,
            fua: request.fua,
        };
        self.device.submit_io(now, SubmittedIo { request, process, sync });
    }

    fn account(&mut self, to: Nanos) {
        let span = to - self.clock;
        if self.in_drive > 0 {
            self.counters.busy_ns += span;
        }
        self.counters.inside_ns += u128::from(span) * u128::from(self.inside);
        self.clock = to;
    }

    /// Process every event due at or before `to`, in time order.
    pub(super) fn advance(&mut self, to: Nanos) {
        loop {
            let due = match (self.device.next_wake(), self.timer) {
                (Some(a), Some(b)) => a.min(b),
                (Some(a), None) => a,
                (None, Some(b)) => b,
                (None, None) => break,
            };
            if due > to {
                break;
            }
            let due = due.max(self.clock);
            self.account(due);
            if self.timer.is_some_and(|timer| timer <= due) {
                self.timer = None;
            }
            let mut scratch = std::mem::take(&mut self.scratch);
            self.device.wake(due, &mut scratch);
            for completion in scratch.drain(..) {
                self.complete(due, completion);
            }
            self.scratch = scratch;
            self.dispatch(due);
        }
        self.account(to.max(self.clock));
    }

    fn complete(&mut self, now: Nanos, completion: Completion) {
        let index = completion.tag as u32;
        let request = *self.table.get(index);
        self.in_drive -= 1;
        self.allocated[request.direction()] -= 1;
        self.service.add(completion.time - request.dispatched);
        let latency = completion.time - request.entered;
        let counters = &mut self.counters;
        let counted = match request.op {
            Op::Read => {
                let (sum, moved) = (&mut counters.read_latency, &mut counters.read_bytes);
                Some((&mut self.read_latency, sum, moved))
            }
            Op::Write => {
                let (sum, moved) = (&mut counters.write_latency, &mut counters.written_bytes);
                Some((&mut self.write_latency, sum, moved))
            }
            Op::Flush | Op::Discard | Op::WriteZeroes => None,
        };
        if let Some((histogram, sum, moved)) = counted {
            histogram.add(latency);
            sum.requests += 1;
            sum.total_ns += u128::from(latency);
            if completion.status == Status::Done {
                *moved += request.sectors * crate::SECTOR_BYTES;
            }
        }
        let finished = &mut self.finished;
        let mut ios = 0;
        self.table.remove(index, |tag| {
            ios += 1;
            counters.failed += u64::from(completion.status != Status::Done);
            finished.push(Completion { tag, time: completion.time, status: completion.status });
        });
        self.inside -= ios;
        if request.op == Op::Flush {
            self.flushing = self.flush_next.take();
            if let Some(next) = self.flushing {
                self.send(now, next);
            }
        } else if !self.passes_on {
            each!(&mut self.scheduler, s => s.completed(now, &request));
        }
        let direction = request.direction();
        while self.allocated[direction] < self.nr_requests {
            let Some(io) = self.waiting[direction].pop_front() else { break };
            if self.passes_on {
                let index = self.new_request(now, &io);
                self.send(now, index);
            } else if !self.merge(&io) {
                let index = self.new_request(now, &io);
                self.enter(now, index);
            }
        }
    }
}
