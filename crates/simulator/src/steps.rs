//! Executes the program of a process.

use crate::ids::TaskId;
use crate::offsets;
use crate::program::{Events, Instruction, Pattern};
use crate::scenario::{Access, PatternOp};
use crate::world::{Flow, Mounted, OpKind, Phase, Progress, State, World};

impl World<'_> {
    /// Run a process until it has to wait or is done.
    pub fn run_task(&mut self, task: TaskId) {
        loop {
            let t = &self.tasks[task];
            if self.jobs[t.job.index()].failed && t.copying.is_none() {
                // The completion of its pending operations calls this function again.
                if t.waiting_ops == 0 && !self.awaits_threads(task) {
                    self.finish_task(task);
                }
                return;
            }
            let flow = if self.tasks[task].copying.is_some() {
                self.copy_step(task)
            } else if self.tasks[task].ahead.is_reader {
                self.reader_step(task)
            } else {
                self.step(task)
            };
            match flow {
                Flow::On => {}
                Flow::Blocked => return,
                Flow::Done => {
                    if self.tasks[task].pending_cpu_ns > 0 {
                        if let Flow::Blocked = self.compute(task, 0) {
                            return;
                        }
                    }
                    self.finish_task(task);
                    return;
                }
            }
        }
    }

    pub(super) fn advance(&mut self, task: TaskId) -> Flow {
        let t = &mut self.tasks[task];
        t.pc += 1;
        t.progress = Progress::Begun;
        t.iteration = 0;
        t.position = 0;
        Flow::On
    }

    pub(super) fn step(&mut self, task: TaskId) -> Flow {
        let t = &self.tasks[task];
        let (pc, progress) = (t.pc, t.progress);
        if t.part.is_some_and(|part| part.end == pc) {
            return self.next_part(task);
        }
        let Some(instruction) = self.program.get(pc as usize) else { return Flow::Done };
        // Most instructions block at most once and are complete when the process resumes.
        if progress == Progress::Ending {
            return self.advance(task);
        }
        if let (Progress::AwaitsStaged, Instruction::Stage { to, .. }) = (progress, instruction) {
            let to = *to;
            let last = self.tasks[task].files[to as usize].staged().len() - 1;
            self.tasks[task].progress = Progress::Ending;
            return self.await_staged(task, to, last);
        }
        match instruction {
            reads if reads.ahead() > 0 => self.step_with_reads_ahead(task),
            Instruction::Pattern(pattern) => {
                let pattern = **pattern;
                self.pattern_step(task, &pattern)
            }
            Instruction::Events(events) => {
                let events = **events;
                self.events_step(task, &events)
            }
            Instruction::Sequence(_) => self.sequence_step(task),
            Instruction::Parallel(_) => self.start_team(task),
            Instruction::Requests(requests) => {
                let requests = **requests;
                self.requests_step(task, &requests)
            }
            Instruction::ReadVector { file, .. } => {
                let file = *file;
                if progress == Progress::Begun {
                    let Instruction::ReadVector { ranges, .. } = &self.program[pc as usize] else {
                        return Flow::On;
                    };
                    let ranges = ranges.to_vec();
                    let t = &mut self.tasks[task];
                    t.ranges = ranges;
                    t.progress = Progress::Located;
                }
                match self.vector_step(task, file, Access::Buffered) {
                    Flow::Done => self.advance(task),
                    flow => flow,
                }
            }
            simple => {
                let simple = simple.clone();
                self.simple_step(task, &simple)
            }
        }
    }

    pub(super) fn simple_step(&mut self, task: TaskId, instruction: &Instruction) -> Flow {
        self.tasks[task].progress = Progress::Ending;
        match *instruction {
            Instruction::Compute { cpu_ns } => self.compute(task, cpu_ns),
            Instruction::Wait { wait_ns } => {
                let until = self.now + wait_ns;
                self.pause(task, until, State::Other, Phase::None)
            }
            Instruction::Memory { bytes } => {
                self.hold_memory(task, bytes);
                self.compute(task, 0)
            }
            Instruction::Open { file } => {
                if let Some(until) = self.start_client(task, file) {
                    self.tasks[task].progress = Progress::Begun;
                    return self.pause(task, until, State::Network, Phase::Open);
                }
                self.tasks[task].files[file as usize].open = true;
                self.metadata(task, file, false, None)
            }
            Instruction::Stat { file } => self.metadata(task, file, false, Some(1)),
            Instruction::Create { file } => {
                self.release(task, file);
                self.make_item(task, file);
                self.metadata(task, file, true, Some(1))
            }
            Instruction::Close { file } => self.close_file(task, file),
            Instruction::Fsync { file } => self.operate(task, file, OpKind::Sync, 0, 0, false),
            Instruction::Delete { file } => {
                self.remove_item(task, file);
                let flow = self.metadata(task, file, true, Some(1));
                self.drop_file(task, file);
                flow
            }
            Instruction::Read { file, offset, length, access, hold } => {
                if hold {
                    self.hold_more_memory(task, length);
                }
                self.read(task, file, offset, length, access)
            }
            Instruction::Write { file, offset, length, access } => {
                self.write(task, file, offset, length, access)
            }
            Instruction::Loop { times, end } => self.begin_loop(task, times, end),
            Instruction::Again { start } => self.repeat_loop(task, start),
            Instruction::Packet => self.ask_for_packet(task),
            Instruction::Stage { from, to, chunk, background } => {
                self.stage(task, from, to, chunk);
                if background {
                    return Flow::On;
                }
                // Wait as `take` does, without taking the file.
                self.await_staged(task, to, self.tasks[task].files[to as usize].staged().len() - 1)
            }
            Instruction::Take { file } => self.take(task, file),
            Instruction::ReadVector { .. }
            | Instruction::Pattern(_)
            | Instruction::Events(_)
            | Instruction::Sequence(_)
            | Instruction::Parallel(_)
            | Instruction::Requests(_) => Flow::On,
        }
    }

    /// Close the process's file of a set; wait for the service to have what was written to it.
    fn close_file(&mut self, task: TaskId, file: u32) -> Flow {
        let instance = self.current_file(task, file);
        self.tasks[task].files[file as usize].open = false;
        let i = &self.instances[instance];
        let remote = matches!(self.mounts[i.mount as usize].mounted, Mounted::Service(_));
        let host = self.mounts[i.mount as usize].host as usize;
        let dirty = self.hosts[host].cache.file_dirty_pages(i.cache_file) > 0 || i.writes > 0;
        if remote && (dirty || i.uncommitted || self.lacks_parity(instance)) {
            // Close-to-open consistency.
            return self.operate(task, file, OpKind::Close, 0, 0, false);
        }
        Flow::On
    }

    pub(super) fn begin_loop(&mut self, task: TaskId, times: u64, end: u32) -> Flow {
        let t = &mut self.tasks[task];
        if times == 0 {
            t.pc = end;
            t.progress = Progress::Begun;
        } else {
            t.loops.push((t.pc, times - 1));
            self.advance(task);
        }
        Flow::On
    }

    /// Go back to the start of a loop, unless it was the last time.
    pub(super) fn repeat_loop(&mut self, task: TaskId, start: u32) -> Flow {
        let t = &mut self.tasks[task];
        match t.loops.last_mut() {
            Some((at, left)) if *at == start && *left > 0 => {
                *left -= 1;
                t.pc = start + 1;
                t.progress = Progress::Begun;
                Flow::On
            }
            _ => {
                t.loops.pop();
                self.advance(task)
            }
        }
    }

    pub(super) fn pattern_step(&mut self, task: TaskId, p: &Pattern) -> Flow {
        match self.tasks[task].progress {
            Progress::Begun => {
                if self.tasks[task].iteration >= p.count {
                    return self.advance(task);
                }
                self.tasks[task].progress = Progress::Worked;
                let vector = u64::from(p.vector).min(p.count - self.tasks[task].iteration);
                self.compute(task, p.cpu_ns * vector)
            }
            Progress::Worked => {
                self.locate_pattern(task, p);
                Flow::On
            }
            _ => {
                if p.op == PatternOp::Write {
                    let t = &mut self.tasks[task];
                    let Some(&(offset, length)) = t.ranges.get(t.next_range as usize) else {
                        t.progress = Progress::Begun;
                        return Flow::On;
                    };
                    t.next_range += 1;
                    return self.write(task, p.file, Some(offset), length, p.access);
                }
                match self.vector_step(task, p.file, p.access) {
                    Flow::Done => {
                        self.tasks[task].progress = Progress::Begun;
                        Flow::On
                    }
                    flow => flow,
                }
            }
        }
    }

    /// Determine the ranges of the next requests of a pattern.
    pub(super) fn locate_pattern(&mut self, task: TaskId, p: &Pattern) {
        let instance = self.current_file(task, p.file);
        let file_bytes = self.instances[instance].bytes;
        let span = match (p.span, p.op) {
            (0, PatternOp::Read) => file_bytes.saturating_sub(p.offset),
            (0, PatternOp::Write) => p.count * p.length,
            (span, _) => span,
        };
        let parts = u64::from(p.parts);
        let begin = p.offset + span / parts * (self.tasks[task].job.tag() % parts);
        let span = span / parts;
        let t = &mut self.tasks[task];
        let vector = u64::from(p.vector).min(p.count - t.iteration);
        t.ranges.clear();
        for _ in 0..vector {
            let at = offsets::next(
                &p.order,
                t.iteration,
                p.count,
                p.length,
                span,
                &mut t.position,
                t.shuffle,
                &mut t.stream,
            );
            t.ranges.push((begin + at, p.length));
            t.iteration += 1;
        }
        t.next_range = 0;
        t.progress = Progress::Located;
        if t.ahead.is_reader {
            return;
        }
        let job = &mut self.jobs[t.job.index()];
        job.events += p.events * vector;
        job.bytes.uncompressed_bytes += p.uncompressed * vector;
        if p.hold {
            self.hold_more_memory(task, p.length * vector);
        }
    }

    /// Count what a whole sequence has done, and compute what comes after its last range.
    fn end_sequence(&mut self, task: TaskId, work: u64, events: u64, uncompressed: u64) -> Flow {
        let t = &mut self.tasks[task];
        t.progress = Progress::Ending;
        let job = &mut self.jobs[t.job.index()];
        job.events += events;
        job.bytes.uncompressed_bytes += uncompressed;
        if work > 0 {
            self.compute(task, work)
        } else {
            Flow::On
        }
    }

    /// Compute, sleep, then read or write each range of a sequence.
    fn sequence_step(&mut self, task: TaskId) -> Flow {
        let t = &self.tasks[task];
        let index = t.iteration as usize;
        let Some(Instruction::Sequence(s)) = self.program.get(t.pc as usize) else {
            return Flow::On;
        };
        match t.progress {
            Progress::Begun => {
                if s.is_left_out(t.packet.map(|packet| (packet.first, packet.count)), t.same_file) {
                    return self.advance(task);
                }
                if index >= s.ranges.len() {
                    let (work, events, uncompressed) = (s.cpu_after_ns, s.events, s.uncompressed);
                    return self.end_sequence(task, work, events, uncompressed);
                }
                let group = s.group(index);
                let work = s.cpu_ns.iter().skip(group.start).take(group.len()).sum();
                self.tasks[task].progress = Progress::Worked;
                if work > 0 {
                    self.compute(task, work)
                } else {
                    Flow::On
                }
            }
            Progress::Worked => {
                let group = s.group(index);
                let wait_ns: u64 = s.wait_ns.iter().skip(group.start).take(group.len()).sum();
                let t = &mut self.tasks[task];
                t.progress = Progress::Located;
                if s.vector > 1 {
                    t.next_range = 0;
                    t.ranges.clear();
                    t.ranges.extend_from_slice(&s.ranges[group]);
                }
                let until = self.now + wait_ns;
                self.pause(task, until, State::Other, Phase::None)
            }
            _ => self.sequence_access(task, index),
        }
    }

    /// Read or write a range of a sequence, or read the group of ranges that begins there.
    fn sequence_access(&mut self, task: TaskId, index: usize) -> Flow {
        let Some(Instruction::Sequence(s)) = self.program.get(self.tasks[task].pc as usize) else {
            return Flow::On;
        };
        let (file, op, access, (offset, length)) = (s.file, s.op, s.access, s.ranges[index]);
        if s.vector > 1 {
            let last = s.group(index).end as u64;
            return match self.vector_step(task, file, access) {
                Flow::Done => {
                    let t = &mut self.tasks[task];
                    (t.progress, t.iteration) = (Progress::Begun, last);
                    Flow::On
                }
                flow => flow,
            };
        }
        let t = &mut self.tasks[task];
        t.progress = Progress::Begun;
        t.iteration += 1;
        match op {
            PatternOp::Read => self.read(task, file, offset, length, access),
            PatternOp::Write => self.write(task, file, Some(offset), length, access),
        }
    }

    /// Read the next range of a list, or all at once if the service supports vectored reads. Return
    /// `Done` when all are read.
    pub(super) fn vector_step(&mut self, task: TaskId, file: u32, access: Access) -> Flow {
        let t = &self.tasks[task];
        let (next, count) = (t.next_range as usize, t.ranges.len());
        if next >= count {
            self.tasks[task].next_range = 0;
            return Flow::Done;
        }
        let instance = self.current_file(task, file);
        if count - next > 1 {
            if let Some(flow) = self.read_vector(task, instance) {
                return flow;
            }
        }
        let together = count > 1 && !self.caches(instance);
        let last = if together { count } else { next + 1 };
        let mut flow = Flow::On;
        for number in next..last {
            let (offset, length) = self.tasks[task].ranges[number];
            self.tasks[task].next_range += 1;
            if let Flow::Blocked = self.read(task, file, offset, length, access) {
                flow = Flow::Blocked;
            }
        }
        flow
    }

    /// Return the number of the first cluster of the process's events, and the end of its clusters.
    fn clusters(&self, task: TaskId, e: &Events) -> (u64, u64) {
        let (first, count) = self.events_of(task, e);
        (first / e.per_cluster, (first + count).div_ceil(e.per_cluster))
    }

    /// Return the first event that the process reads, and their number.
    fn events_of(&self, task: TaskId, e: &Events) -> (u64, u64) {
        self.tasks[task].packet.map_or((0, e.events), |packet| (packet.first, packet.count))
    }

    /// Skip clusters that are not read, and count the events of a new one. Return the CPU work
    /// before the next reads, or none if all clusters are read.
    pub(super) fn work_of_events(&mut self, task: TaskId, e: &Events) -> Option<u64> {
        let (first, count) = self.events_of(task, e);
        let (clusters_from, clusters_to) = self.clusters(task, e);
        let steps = e.steps_per_cluster();
        let t = &mut self.tasks[task];
        let mut cluster = clusters_from + t.iteration / steps;
        while cluster < clusters_to && offsets::skipped(cluster, e.skip) {
            t.iteration = (cluster + 1 - clusters_from) * steps;
            cluster += 1;
        }
        if cluster >= clusters_to {
            return None;
        }
        let step = t.iteration % steps;
        let mine =
            (first + count).min((cluster + 1) * e.per_cluster) - first.max(cluster * e.per_cluster);
        if step == 0 && !t.ahead.is_reader {
            let job = &mut self.jobs[t.job.index()];
            job.events += mine;
            job.bytes.uncompressed_bytes += mine * e.uncompressed;
        }
        // The CPU work of the events is distributed evenly over the cluster's steps.
        Some(mine * e.cpu_ns * (step + 1) / steps - mine * e.cpu_ns * step / steps)
    }

    /// Determine the ranges of the next reads of events.
    pub(super) fn locate_events(&mut self, task: TaskId, e: &Events) {
        let (clusters_from, _) = self.clusters(task, e);
        let steps = e.steps_per_cluster();
        let instance = self.current_file(task, e.file);
        let file_bytes = self.instances[instance].bytes;
        let t = &mut self.tasks[task];
        let cluster = clusters_from + t.iteration / steps;
        let step = t.iteration % steps;
        let per_step = u64::from(e.vector.min(e.reads));
        t.iteration += 1;
        t.ranges.clear();
        for read in step * per_step..((step + 1) * per_step).min(u64::from(e.reads)) {
            t.ranges.push(offsets::in_cluster(cluster, read, e, file_bytes));
        }
        t.next_range = 0;
        t.progress = Progress::Located;
    }

    pub(super) fn events_step(&mut self, task: TaskId, e: &Events) -> Flow {
        match self.tasks[task].progress {
            Progress::Begun => {
                let Some(work) = self.work_of_events(task, e) else { return self.advance(task) };
                self.tasks[task].progress = Progress::Worked;
                self.compute(task, work)
            }
            Progress::Worked => {
                self.locate_events(task, e);
                Flow::On
            }
            _ => match self.vector_step(task, e.file, e.access) {
                Flow::Done => {
                    self.tasks[task].progress = Progress::Begun;
                    Flow::On
                }
                flow => flow,
            },
        }
    }
}
