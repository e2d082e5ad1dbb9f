//! A client that keeps several requests in flight, as fio's jobs do: one thread reaps a completion,
//! computes, and submits the next request.

use crate::ids::TaskId;
use crate::offsets;
use crate::program::Requests;
use crate::scenario::{Access, PatternOp};
use crate::world::{Flow, Mounted, Phase, Progress, State, World};

impl World<'_> {
    /// Submit requests until `in_flight` of them are pending, or all are done. At its beginning the
    /// process reaps a completion.
    pub(super) fn requests_step(&mut self, task: TaskId, r: &Requests) -> Flow {
        let now = self.now;
        let t = &mut self.tasks[task];
        let until = *t.until.get_or_insert(match r.duration_ns {
            0 => u64::MAX,
            duration_ns => now + duration_ns,
        });
        let none_left = r.count > 0 && t.iteration >= r.count;
        match t.progress {
            Progress::Begun => {
                t.wake_any = false;
                let over = none_left || now >= until;
                t.progress = if over { Progress::Draining } else { Progress::Submitting };
                self.compute(task, 0)
            }
            Progress::Submitting => {
                t.progress = Progress::Begun;
                if none_left || t.waiting_ops >= r.in_flight {
                    t.wake_any = true;
                    return self.wait_for_requests(task, r.file);
                }
                t.progress = Progress::Submitting;
                match self.one_request(task, r) {
                    // Served from the cache: its CPU time is spent before the next request.
                    Flow::On => {
                        self.tasks[task].progress = Progress::Begun;
                        Flow::On
                    }
                    _ => Flow::On,
                }
            }
            _ if t.waiting_ops > 0 => self.wait_for_requests(task, r.file),
            _ => {
                t.until = None;
                self.advance(task)
            }
        }
    }

    fn wait_for_requests(&mut self, task: TaskId, file: u32) -> Flow {
        let instance = self.current_file(task, file);
        let local = matches!(
            self.mounts[self.instances[instance].mount as usize].mounted,
            Mounted::Volume(_)
        );
        self.enter(task, if local { State::Block } else { State::Network }, Phase::Read);
        Flow::Blocked
    }

    fn one_request(&mut self, task: TaskId, r: &Requests) -> Flow {
        let instance = self.current_file(task, r.file);
        let bytes = self.instances[instance].bytes;
        let span = if r.span > 0 { r.span } else { bytes };
        let t = &mut self.tasks[task];
        let reads = match r.read_fraction {
            fraction if fraction >= 1.0 => true,
            fraction if fraction <= 0.0 => false,
            fraction => t.stream.unit() < fraction,
        };
        let at = offsets::next(
            &r.order,
            t.iteration,
            r.count,
            r.length,
            span,
            &mut t.position,
            t.shuffle,
            &mut t.stream,
        );
        t.iteration += 1;
        t.pending_cpu_ns += r.cpu_ns;
        let op = if reads { PatternOp::Read } else { PatternOp::Write };
        match op {
            PatternOp::Read => self.read(task, r.file, at, r.length, r.access),
            PatternOp::Write => {
                let access = if r.access == Access::Mapped { Access::Buffered } else { r.access };
                self.write(task, r.file, Some(at), r.length, access)
            }
        }
    }
}
