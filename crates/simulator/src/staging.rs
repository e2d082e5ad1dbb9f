//! Staging: files copied to a node by a separate process, and the node's pCache.

use headrace_model::pagecache::readahead::ReadAhead;

use crate::ids::TaskId;
use crate::scenario::Access;
use crate::world::{CopyStep, Copying, Flow, Phase, Progress, Staged, State, World};

impl World<'_> {
    /// Start to copy the next file of a set to the node, or use the copy in the node's pCache.
    pub(super) fn stage(&mut self, task: TaskId, from: u32, to: u32, chunk: u64) {
        let (host, job, slot, process) = {
            let t = &self.tasks[task];
            (t.host, t.job, t.slot, t.process)
        };
        let source = self.next_in_set(host, from);
        if let Some(instance) = self.feeder.pcache.find(host, (from, source)) {
            self.instances[instance].opened += 1;
            let staged = Staged { instance, ready: true, cached: true };
            self.tasks[task].files[to as usize].extras().staged.push_back(staged);
            return;
        }
        let from_instance = self.set_instance(host, from, source);
        let to_instance = self.new_file_in_set(host, to);
        self.instances[to_instance].opened += 1;
        let staged = Staged { instance: to_instance, ready: false, cached: false };
        self.tasks[task].files[to as usize].extras().staged.push_back(staged);
        let stager = self.new_task(host, slot, job, process + 1);
        self.instances[from_instance].opened += 1;
        self.instances[to_instance].opened += 1;
        let t = &mut self.tasks[stager];
        t.files[from as usize].instance = Some(from_instance);
        t.files[to as usize].instance = Some(to_instance);
        t.copying = Some(Copying {
            parent: task,
            job,
            from,
            to,
            set: to,
            chunk,
            at: 0,
            next: CopyStep::Open,
            source: (from, source),
        });
        self.run_task(stager);
    }

    /// Copy a stager's next chunk: CPU work for the last chunk, then read, then write.
    pub(super) fn copy_step(&mut self, task: TaskId) -> Flow {
        let Some(copying) = self.tasks[task].copying else { return Flow::Done };
        let from = self.current_file(task, copying.from);
        let bytes = self.instances[from].bytes;
        let left = bytes - copying.at;
        let chunk = copying.chunk.min(left);
        match copying.next {
            CopyStep::Open => {
                self.copy_next(task, CopyStep::Read);
                self.metadata(task, copying.from, false, None)
            }
            CopyStep::Read => {
                if left == 0 {
                    return Flow::Done;
                }
                self.copy_next(task, CopyStep::Work);
                self.read(task, copying.from, copying.at, chunk, Access::Buffered)
            }
            CopyStep::Work => {
                self.copy_next(task, CopyStep::Write);
                self.compute(task, 0)
            }
            CopyStep::Write => {
                if let Some(c) = &mut self.tasks[task].copying {
                    c.next = CopyStep::Read;
                    c.at += chunk;
                }
                self.jobs[copying.job.index()].bytes.staged_bytes += chunk;
                self.write(task, copying.to, Some(copying.at), chunk, Access::Buffered)
            }
        }
    }

    fn copy_next(&mut self, task: TaskId, next: CopyStep) {
        if let Some(copying) = &mut self.tasks[task].copying {
            copying.next = next;
        }
    }

    /// Finish a stager; continue its parent if it waits.
    pub(super) fn staged(&mut self, task: TaskId, copying: Copying) {
        let host = self.tasks[task].host;
        let to = self.current_file(task, copying.to);
        self.release(task, copying.from);
        self.release(task, copying.to);
        let cached = self.scenario.run.pcache_bytes > 0;
        if cached {
            let bytes = self.instances[to].bytes;
            let limit = self.scenario.run.pcache_bytes;
            for old in self.feeder.pcache.insert(host, copying.source, to, bytes, limit) {
                // Removed when the last job releases it.
                self.doom(old);
            }
        }
        let parent = copying.parent;
        let alive = self.tasks[parent].alive && self.tasks[parent].job == copying.job;
        if !alive {
            // Its job has ended.
            self.instances[to].opened -= 1;
            if !cached {
                self.doom(to);
            }
            return;
        }
        let t = &mut self.tasks[parent];
        let of_set = &mut t.files[copying.set as usize].extras().staged;
        if let Some(staged) = of_set.iter_mut().find(|s| s.instance == to) {
            staged.ready = true;
            staged.cached = cached;
        }
        if t.take_waits {
            self.run_task(parent);
        }
    }

    pub(super) fn await_staged(&mut self, task: TaskId, set: u32, number: usize) -> Flow {
        let mut staged = self.tasks[task].files[set as usize].staged();
        let ready = staged.nth(number).is_none_or(|s| s.ready);
        if ready {
            self.tasks[task].take_waits = false;
            self.enter(task, State::Other, Phase::None);
            return Flow::On;
        }
        if !self.tasks[task].take_waits {
            self.tasks[task].take_waits = true;
            self.enter(task, State::Network, Phase::StageIn);
        }
        // Called again when a stager is done.
        self.tasks[task].progress = Progress::AwaitsStaged;
        Flow::Blocked
    }

    pub(super) fn take(&mut self, task: TaskId, set: u32) -> Flow {
        if let Flow::Blocked = self.await_staged(task, set, 0) {
            return Flow::Blocked;
        }
        self.drop_file(task, set);
        if let Some(staged) = self.tasks[task].files[set as usize].take_staged() {
            let file = &mut self.tasks[task].files[set as usize];
            file.instance = Some(staged.instance);
            file.cached = staged.cached;
            file.read_ahead = ReadAhead::default();
        }
        self.tasks[task].progress = Progress::Ending;
        Flow::On
    }

    /// Release the process's file of a set. Delete it if it is a `new` file without `keep` and not in
    /// the pCache.
    pub(super) fn drop_file(&mut self, task: TaskId, set: u32) {
        let file = &self.tasks[task].files[set as usize];
        let (instance, cached) = (file.instance, file.cached);
        let Some(instance) = instance else { return };
        self.tasks[task].files[set as usize].cached = false;
        self.release(task, set);
        let spec = &self.scenario.files[set as usize];
        if spec.share == crate::scenario::Share::New && !spec.keep && !cached {
            self.doom(instance);
        }
    }
}
