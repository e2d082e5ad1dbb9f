//! Reads that run ahead of a job's work, in a thread of the job: RNTuple's cluster pool reads the
//! next cluster while the current one is processed (`RClusterPool::ExecReadClusters`), TTreeCache
//! does so with prefetching (`TFilePrefetch`).
//!
//! The thread is a process of its own, the reader. It executes the reads of the job's program from
//! the step on at which the job first needs one, up to the next step that opens, closes, makes or
//! fetches a file. It leaves out all work, and is at most `ahead` groups of reads before the job.
//! The job waits for a group until it is read. So a job of n groups takes
//! `read(1) + sum of max(work(k), read(k + 1)) + work(n)` with one group ahead, and never less than
//! its work or its reads alone. The reader's calls and copies use a core; its time is not in the
//! job's ledger, which has the wall time of the job.

use crate::ids::TaskId;
use crate::program::Instruction;
use crate::scenario::Access;
use crate::world::{Ahead, Flow, Mounted, Phase, Progress, State, World};

impl World<'_> {
    /// Execute a step whose reads run ahead: wait for a group, then do its work.
    pub(super) fn step_with_reads_ahead(&mut self, task: TaskId) -> Flow {
        match self.tasks[task].progress {
            Progress::Begun => {
                self.ensure_reader(task);
                let Some((work_ns, wait_ns)) = self.next_group(task) else {
                    return self.advance(task);
                };
                let t = &mut self.tasks[task];
                (t.ahead.work_ns, t.ahead.wait_ns) = (work_ns, wait_ns);
                t.progress = Progress::AwaitsAhead;
                Flow::On
            }
            Progress::AwaitsAhead => {
                if self.tasks[task].ahead.ready == 0 && self.tasks[task].ahead.reader.is_some() {
                    return self.await_group(task);
                }
                self.tasks[task].progress = Progress::Worked;
                let work_ns = self.tasks[task].ahead.work_ns;
                self.compute(task, work_ns)
            }
            Progress::Worked => {
                self.tasks[task].progress = Progress::Located;
                let until = self.now + self.tasks[task].ahead.wait_ns;
                self.pause(task, until, State::Other, Phase::None)
            }
            _ => {
                self.tasks[task].progress = Progress::Begun;
                self.group_finished(task);
                Flow::On
            }
        }
    }

    /// Execute a step of a reader: read its groups, and skip everything else.
    pub(super) fn reader_step(&mut self, task: TaskId) -> Flow {
        let t = &self.tasks[task];
        let Some(parent) = t.ahead.parent else { return Flow::Done };
        if t.part.is_some_and(|part| part.end == t.pc) {
            return Flow::Done;
        }
        let Some(instruction) = self.program.get(t.pc as usize) else { return Flow::Done };
        if instruction.ahead() == 0 {
            return match *instruction {
                Instruction::Loop { times, end } => self.begin_loop(task, times, end),
                Instruction::Again { start } => self.repeat_loop(task, start),
                Instruction::Packet
                | Instruction::Open { .. }
                | Instruction::Close { .. }
                | Instruction::Create { .. }
                | Instruction::Delete { .. }
                | Instruction::Stage { .. }
                | Instruction::Parallel(_)
                | Instruction::Take { .. } => Flow::Done,
                _ => self.advance(task),
            };
        }
        let (file, access) = self.reads_of(task);
        let t = &mut self.tasks[task];
        match t.progress {
            Progress::Begun => {
                if t.files[file as usize].instance.is_none() {
                    return Flow::Done;
                }
                let most = self.program[t.pc as usize].ahead();
                if self.tasks[parent].ahead.ready > most {
                    self.tasks[task].ahead.paused = true;
                    return Flow::Blocked;
                }
                if self.next_group(task).is_none() {
                    return self.advance(task);
                }
                self.tasks[task].progress = Progress::Located;
                self.wake_parent(parent);
                Flow::On
            }
            Progress::Located => match self.vector_step(task, file, access) {
                Flow::Done => {
                    self.tasks[task].progress = Progress::Worked;
                    self.compute(task, 0)
                }
                flow => flow,
            },
            _ => {
                t.progress = Progress::Begun;
                // Its process continues when it is known whether this reader has a next group, and
                // not before: a process without work would wait here for a group that none reads.
                self.tasks[parent].ahead.ready += 1;
                Flow::On
            }
        }
    }

    /// Return the file and the access of the process's current reads.
    fn reads_of(&self, task: TaskId) -> (u32, Access) {
        match &self.program[self.tasks[task].pc as usize] {
            Instruction::Pattern(pattern) => (pattern.file, pattern.access),
            Instruction::Events(events) => (events.file, events.access),
            Instruction::Sequence(sequence) => (sequence.file, sequence.access),
            other => unreachable!("{other:?} has no reads that run ahead"),
        }
    }

    /// Determine the ranges of the next group of the current step, and return its work and sleep;
    /// none after the last group.
    fn next_group(&mut self, task: TaskId) -> Option<(u64, u64)> {
        match &self.program[self.tasks[task].pc as usize] {
            Instruction::Pattern(pattern) => {
                let pattern = **pattern;
                let left = pattern.count - self.tasks[task].iteration.min(pattern.count);
                if left == 0 {
                    return None;
                }
                self.locate_pattern(task, &pattern);
                Some((pattern.cpu_ns * u64::from(pattern.vector).min(left), 0))
            }
            Instruction::Events(events) => {
                let events = **events;
                let work_ns = self.work_of_events(task, &events)?;
                self.locate_events(task, &events);
                Some((work_ns, 0))
            }
            _ => self.whole_sequence(task),
        }
    }

    /// Determine the ranges of a sequence, all of which are one group.
    fn whole_sequence(&mut self, task: TaskId) -> Option<(u64, u64)> {
        let t = &mut self.tasks[task];
        let Some(Instruction::Sequence(s)) = self.program.get(t.pc as usize) else { return None };
        if t.iteration > 0
            || s.is_left_out(t.packet.map(|packet| (packet.first, packet.count)), t.same_file)
        {
            return None;
        }
        t.iteration = 1;
        t.next_range = 0;
        t.ranges.clear();
        t.ranges.extend_from_slice(&s.ranges);
        if !t.ahead.is_reader {
            let job = &mut self.jobs[t.job.index()];
            job.events += s.events;
            job.bytes.uncompressed_bytes += s.uncompressed;
        }
        Some((s.cpu_ns.iter().sum::<u64>() + s.cpu_after_ns, s.wait_ns.iter().sum()))
    }

    /// Start the process's reader at the current step, unless it runs or groups are left of it.
    fn ensure_reader(&mut self, task: TaskId) {
        if self.tasks[task].ahead.reader.is_some() || self.tasks[task].ahead.ready > 0 {
            return;
        }
        let (file, _) = self.reads_of(task);
        self.current_file(task, file);
        let mut reader = self.tasks[task].clone();
        for file in &mut reader.files {
            if let Some(extras) = file.extras_if_any() {
                extras.staged.clear();
            }
            if let Some(instance) = file.instance {
                self.instances[instance].opened += 1;
            }
        }
        reader.pending_cpu_ns = 0;
        reader.held_bytes = 0;
        reader.group = None;
        (reader.team, reader.thread_of) = (None, None);
        reader.ahead = Ahead { is_reader: true, parent: Some(task), ..Ahead::default() };
        let reader = self.tasks.insert(reader);
        self.tasks[task].ahead.reader = Some(reader);
        self.run_task(reader);
    }

    /// Wait for the reader to complete a group.
    fn await_group(&mut self, task: TaskId) -> Flow {
        self.tasks[task].ahead.awaits = true;
        let (file, _) = self.reads_of(task);
        let instance = self.current_file(task, file);
        let mounted = self.mounts[self.instances[instance].mount as usize].mounted;
        let local = matches!(mounted, Mounted::Volume(_));
        self.enter(task, if local { State::Block } else { State::Network }, Phase::Read);
        Flow::Blocked
    }

    /// Continue a process that waits for its reader.
    fn wake_parent(&mut self, parent: TaskId) {
        if std::mem::take(&mut self.tasks[parent].ahead.awaits) {
            self.enter(parent, State::Other, Phase::None);
            self.run_task(parent);
        }
    }

    /// Count a group whose work is done; continue the reader if it waits for that.
    fn group_finished(&mut self, task: TaskId) {
        let ahead = &mut self.tasks[task].ahead;
        ahead.ready = ahead.ready.saturating_sub(1);
        let Some(reader) = ahead.reader else { return };
        if std::mem::take(&mut self.tasks[reader].ahead.paused) {
            self.run_task(reader);
        }
    }

    /// End a reader; its process continues if it waits.
    pub(super) fn end_reader(&mut self, task: TaskId) {
        for set in 0..self.scenario.files.len() as u32 {
            self.release(task, set);
        }
        let parent = self.tasks[task].ahead.parent;
        self.tasks[task].alive = false;
        self.tasks.remove(task);
        if let Some(parent) = parent {
            self.tasks[parent].ahead.reader = None;
            self.wake_parent(parent);
        }
    }

    /// Let the reader of a process that ends finish what it does, without its process.
    pub(super) fn abandon_reader(&mut self, task: TaskId) {
        let Some(reader) = self.tasks[task].ahead.reader.take() else { return };
        self.tasks[reader].ahead.parent = None;
        if self.tasks[reader].ahead.paused {
            self.end_reader(reader);
        }
    }
}
