//! Processes of jobs: they go through their program step by step, and keep the ledger of where their time went.

use std::collections::VecDeque;

use headrace_model::filesystem::AccessTime;
use headrace_model::pagecache::readahead::ReadAhead;
use headrace_model::pagecache::PAGE_BYTES;
use headrace_model::stream::Stream;
use headrace_model::Nanos;

use crate::offsets;
use crate::program::{Events, Instruction, Pattern};
use crate::scenario::{Access, PatternOp};
use crate::storage::Wanted;
use crate::world::{Backend, Event, Op, OpKind, Parent, World, NONE};

/// What a process is doing, as the ledger sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Cpu,
    Block,
    Network,
    Other,
}

/// What a wait counts as among a job's phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    None,
    StageIn,
    Read,
    Write,
    Metadata,
}

/// A file that a process holds, by file set.
#[derive(Clone, Debug)]
pub(crate) struct TaskFile {
    pub instance: u32,
    pub read_ahead: ReadAhead,
    pub open: bool,
    /// Staged files in the order in which they were asked for.
    pub staged: VecDeque<Staged>,
    /// The current file belongs to the node's pCache.
    pub cached: bool,
}

/// A file being staged, or ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    pub instance: u32,
    pub ready: bool,
    pub cached: bool,
}

/// What makes a process a stager: it copies one file for its parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copying {
    pub parent: u32,
    /// The parent's job, to know it from another that has its place meanwhile.
    pub job: u32,
    pub from: u32,
    pub to: u32,
    pub set: u32,
    pub chunk: u64,
    pub at: u64,
    /// Number of the source in its set, for the pCache.
    pub source: (u32, u32),
}

/// Events that the master gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub file: u32,
    pub first: u64,
    pub count: u64,
}

/// A process.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub host: u32,
    pub slot: u32,
    pub job: u32,
    pub process: u32,
    pub alive: bool,
    pc: u32,
    phase: u8,
    iteration: u64,
    position: u64,
    loops: Vec<(u32, u64)>,
    pub files: Vec<TaskFile>,
    pub state: State,
    pub since: Nanos,
    wait_phase: Phase,
    pending_cpu_ns: u64,
    cpu_factor: f64,
    variation: f64,
    stream: Stream,
    ranges: Vec<(u64, u64)>,
    next_range: u32,
    waiting_ops: u32,
    pub packet: Option<Packet>,
    pub packet_since: Nanos,
    pub worked_events: u64,
    pub worked_ns: u64,
    pub copying: Option<Copying>,
    take_waits: bool,
}

enum Flow {
    On,
    Blocked,
    Done,
}

impl World<'_> {
    pub fn new_task(&mut self, host: u32, slot: u32, job: u32, process: u32) -> u32 {
        let run = &self.scenario.run;
        let mut stream = Stream::numbered(self.scenario.seed, "job", u64::from(job));
        let cpu_factor = 1.0 + run.cpu_spread * (2.0 * stream.unit() - 1.0);
        let file = TaskFile {
            instance: NONE,
            read_ahead: ReadAhead::default(),
            open: false,
            staged: VecDeque::new(),
            cached: false,
        };
        self.tasks.insert(Task {
            host,
            slot,
            job,
            process,
            alive: true,
            pc: 0,
            phase: 0,
            iteration: 0,
            position: 0,
            loops: Vec::new(),
            files: vec![file; self.scenario.files.len()],
            state: State::Other,
            since: self.now,
            wait_phase: Phase::None,
            pending_cpu_ns: 0,
            cpu_factor,
            variation: run.cpu_variation,
            stream,
            ranges: Vec::new(),
            next_range: 0,
            waiting_ops: 0,
            packet: None,
            packet_since: self.now,
            worked_events: 0,
            worked_ns: 0,
            copying: None,
            take_waits: false,
        })
    }

    // ---- the ledger ----------------------------------------------------------------------------------------

    /// Time since the last change goes where the process was; from now on it is in `state`.
    pub fn enter(&mut self, task: u32, state: State, phase: Phase) {
        let now = self.now;
        let t = &mut self.tasks[task];
        let span = now - t.since;
        let (was, was_phase) = (t.state, t.wait_phase);
        t.since = now;
        t.state = state;
        t.wait_phase = phase;
        if t.copying.is_some() || span == 0 {
            return;
        }
        let job = &mut self.jobs[t.job as usize];
        match was {
            State::Cpu => job.ledger.on_cpu_ns += span,
            State::Block => job.ledger.wait_block_ns += span,
            State::Network => job.ledger.wait_network_ns += span,
            State::Other => job.ledger.other_ns += span,
        }
        match was_phase {
            Phase::None => {}
            Phase::StageIn => job.phases.stage_in_ns += span,
            Phase::Read => job.phases.read_ns += span,
            Phase::Write => job.phases.write_ns += span,
            Phase::Metadata => job.phases.metadata_ns += span,
        }
    }

    /// CPU time that a request costs is added to the process's next piece of work.
    pub fn charge_job(&mut self, job: u32, cpu_ns: u64) {
        let task = self.feeder.task_of_job[job as usize];
        if task != NONE {
            self.tasks[task].pending_cpu_ns += cpu_ns;
        }
    }

    /// Work on a core, if there is any to do.
    fn compute(&mut self, task: u32, cpu_ns: u64) -> Flow {
        let t = &mut self.tasks[task];
        let mut work = cpu_ns as f64 * t.cpu_factor;
        if t.variation > 0.0 && cpu_ns > 0 {
            work *= 1.0 - t.variation + t.variation * t.stream.exponential(1.0);
        }
        let work = work as u64 + std::mem::take(&mut t.pending_cpu_ns);
        if work == 0 {
            return Flow::On;
        }
        let host = t.host;
        self.enter(task, State::Cpu, Phase::None);
        self.start_task_work(host, task, work);
        Flow::Blocked
    }

    /// A process has had its core: it goes on.
    pub fn task_worked(&mut self, task: u32, cpu_ns: u64) {
        let now = self.now;
        let t = &mut self.tasks[task];
        let elapsed = now - t.since;
        let on_cpu = cpu_ns.min(elapsed);
        t.since = now;
        t.state = State::Other;
        if t.copying.is_none() {
            let ledger = &mut self.jobs[t.job as usize].ledger;
            ledger.on_cpu_ns += on_cpu;
            ledger.wait_cpu_ns += elapsed - on_cpu;
        }
        self.run_task(task);
    }

    /// A pause, or the wait for an answer, is over.
    pub fn timer_done(&mut self, task: u32) {
        self.enter(task, State::Other, Phase::None);
        self.run_task(task);
    }

    fn pause(&mut self, task: u32, until: Nanos, state: State, phase: Phase) -> Flow {
        if until <= self.now {
            return Flow::On;
        }
        self.enter(task, state, phase);
        self.events.schedule(until, 1, Event::Timer(task));
        Flow::Blocked
    }

    // ---- operations ----------------------------------------------------------------------------------------

    /// Starts a read, write or sync of the file of a set.
    fn operate(&mut self, task: u32, set: u32, kind: OpKind, offset: u64, length: u64, mapped: bool) -> Flow {
        let t = &self.tasks[task];
        let file = &t.files[set as usize];
        let (instance, read_ahead, process, job, copying) =
            (file.instance, file.read_ahead, t.process, t.job, t.copying.is_some());
        let mount = self.instances[instance].mount;
        let backend = self.mounts[mount as usize].backend;
        let local = matches!(backend, Backend::Volume(_));
        let (state, phase) = match (local, kind) {
            _ if copying => (State::Other, Phase::None),
            (true, OpKind::Read | OpKind::DirectRead) => (State::Block, Phase::Read),
            (true, _) => (State::Block, Phase::Write),
            (false, OpKind::Read | OpKind::DirectRead) => (State::Network, Phase::Read),
            (false, _) => (State::Network, Phase::Write),
        };
        let host = self.tasks[task].host as usize;
        if !matches!(kind, OpKind::Sync) {
            let h = &self.hosts[host];
            let cpu = h.call_ns + (length as f64 * h.copy_ns_per_byte) as u64;
            self.tasks[task].pending_cpu_ns += cpu;
        }
        if !copying {
            let j = &mut self.jobs[job as usize];
            match kind {
                OpKind::Read | OpKind::DirectRead => {
                    j.reads += 1;
                    j.bytes.asked_bytes += length;
                    if local {
                        j.bytes.served_bytes += length;
                    }
                }
                OpKind::Write | OpKind::DirectWrite => {
                    j.writes += 1;
                    j.bytes.written_bytes += length;
                }
                OpKind::Sync => {}
            }
        }
        self.note_access(instance, backend);
        let wanted = Wanted {
            kind,
            parent: Parent::Task(task),
            instance,
            process,
            job,
            offset,
            length,
            mapped,
            read_ahead,
        };
        match self.start_op(wanted) {
            Ok(_) => {
                self.tasks[task].waiting_ops += 1;
                if self.tasks[task].state != state || self.tasks[task].wait_phase != phase {
                    self.enter(task, state, phase);
                }
                Flow::Blocked
            }
            Err(op) => {
                self.after_op(task, set, &op);
                Flow::On
            }
        }
    }

    /// Access times: reading changes the inode, where the filesystem is mounted so.
    fn note_access(&mut self, instance: u32, backend: Backend) {
        let Backend::Volume(volume) = backend else { return };
        let fs = &self.volumes[volume as usize].fs;
        let i = &self.instances[instance];
        if i.is_metadata {
            return;
        }
        let due = match fs.spec().access_time {
            AccessTime::Never => false,
            AccessTime::Strict => self.now >= i.last_access + 1_000_000_000 || i.last_access == 0,
            AccessTime::Relative => i.last_access == 0,
        };
        if due {
            let inode = fs.inode(i.file);
            self.instances[instance].last_access = self.now.max(1);
            self.dirty_metadata(volume, inode);
        }
    }

    fn after_op(&mut self, task: u32, set: u32, op: &Op) {
        let t = &mut self.tasks[task];
        if op.kind == OpKind::Read && t.files[set as usize].instance == op.instance {
            t.files[set as usize].read_ahead = op.read_ahead;
        }
        if op.failed {
            self.jobs[t.job as usize].errors += 1;
        }
    }

    /// An operation that a process waited for is done.
    pub fn op_done(&mut self, task: u32, op: &Op) {
        let t = &self.tasks[task];
        let set = t.files.iter().position(|file| file.instance == op.instance).unwrap_or_default() as u32;
        self.after_op(task, set, op);
        let t = &mut self.tasks[task];
        t.waiting_ops -= 1;
        if t.waiting_ops == 0 {
            self.enter(task, State::Other, Phase::None);
            self.run_task(task);
        }
    }

    /// Reads a range, in the way that the file's mount and the access ask for.
    fn read(&mut self, task: u32, set: u32, offset: u64, length: u64, access: Access) -> Flow {
        let instance = self.current_file(task, set);
        let bytes = self.instances[instance].bytes;
        if offset >= bytes {
            return Flow::On;
        }
        let length = length.min(bytes - offset);
        let kind = match access {
            Access::Direct => OpKind::DirectRead,
            _ if self.caches(instance) => OpKind::Read,
            _ => OpKind::DirectRead,
        };
        self.operate(task, set, kind, offset, length, access == Access::Mapped)
    }

    fn write(&mut self, task: u32, set: u32, offset: Option<u64>, length: u64, access: Access) -> Flow {
        let instance = self.current_file(task, set);
        let offset = offset.unwrap_or(self.instances[instance].bytes);
        let kind = if access == Access::Direct || !self.writes_back(instance) {
            OpKind::DirectWrite
        } else {
            OpKind::Write
        };
        self.operate(task, set, kind, offset, length, false)
    }

    fn caches(&self, instance: u32) -> bool {
        match self.mounts[self.instances[instance].mount as usize].backend {
            Backend::Volume(_) => true,
            Backend::Service(service) => self.services[service as usize].settled.client_cache,
        }
    }

    fn writes_back(&self, instance: u32) -> bool {
        match self.mounts[self.instances[instance].mount as usize].backend {
            Backend::Volume(_) => true,
            Backend::Service(service) => {
                let settled = &self.services[service as usize].settled;
                settled.client_cache && settled.write_back
            }
        }
    }

    /// The process's file of a set; it gets one when it has none.
    pub fn current_file(&mut self, task: u32, set: u32) -> u32 {
        let instance = self.tasks[task].files[set as usize].instance;
        if instance != NONE {
            return instance;
        }
        let instance = self.assign_file(task, set);
        self.hold(task, set, instance);
        instance
    }

    /// Makes an instance the process's file of a set.
    pub fn hold(&mut self, task: u32, set: u32, instance: u32) {
        self.instances[instance].opened += 1;
        let file = &mut self.tasks[task].files[set as usize];
        file.instance = instance;
        file.read_ahead = ReadAhead::default();
    }

    /// The process lets go of its file of a set.
    pub fn release(&mut self, task: u32, set: u32) {
        let file = &mut self.tasks[task].files[set as usize];
        let instance = std::mem::replace(&mut file.instance, NONE);
        file.open = false;
        if instance == NONE {
            return;
        }
        let i = &mut self.instances[instance];
        i.opened -= 1;
        if let Backend::Volume(volume) = self.mounts[i.mount as usize].backend {
            if i.opened == 0
                && self.hosts[self.volumes[volume as usize].host as usize]
                    .cache
                    .file_dirty_pages(i.cache_file)
                    == 0
            {
                let file = i.file;
                self.volumes[volume as usize].fs.close(file);
            }
        }
        if self.instances[instance].doomed {
            self.doom(instance);
        }
    }

    /// Metadata of the process's file: its inode is read, or the metadata server asked.
    fn metadata(&mut self, task: u32, set: u32, changes: bool, round_trips: Option<u32>) -> Flow {
        let instance = self.current_file(task, set);
        let t = &self.tasks[task];
        let (job, process, host) = (t.job, t.process, t.host);
        let copying = t.copying.is_some();
        if !copying {
            self.jobs[job as usize].operations += 1;
        }
        self.tasks[task].pending_cpu_ns += self.hosts[host as usize].call_ns;
        let i = &self.instances[instance];
        match self.mounts[i.mount as usize].backend {
            Backend::Volume(volume) => {
                let v = &self.volumes[volume as usize];
                let inode = v.fs.inode(i.file);
                let metadata = v.metadata;
                if changes {
                    self.dirty_metadata(volume, inode);
                }
                let wanted = Wanted {
                    kind: OpKind::Read,
                    parent: Parent::Task(task),
                    instance: metadata,
                    process,
                    job,
                    offset: u64::from(inode) * PAGE_BYTES,
                    length: PAGE_BYTES,
                    mapped: false,
                    read_ahead: ReadAhead::default(),
                };
                if self.start_op(wanted).is_ok() {
                    self.tasks[task].waiting_ops += 1;
                    self.enter(task, State::Block, Phase::Metadata);
                    return Flow::Blocked;
                }
                Flow::On
            }
            Backend::Service(service) => {
                let file = i.file;
                let s = &self.services[service as usize].settled;
                let (trips, cpu) = (round_trips.unwrap_or(s.open_round_trips), s.client_request_ns);
                self.tasks[task].pending_cpu_ns += cpu * u64::from(trips);
                let until = self.metadata_answer(service, file, host, changes, trips);
                self.pause(task, until, State::Network, Phase::Metadata)
            }
        }
    }

    // ---- the program ---------------------------------------------------------------------------------------

    /// Goes on with a process until it has to wait or is done.
    pub fn run_task(&mut self, task: u32) {
        loop {
            let flow =
                if self.tasks[task].copying.is_some() { self.copy_step(task) } else { self.step(task) };
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

    fn advance(&mut self, task: u32) -> Flow {
        let t = &mut self.tasks[task];
        t.pc += 1;
        t.phase = 0;
        t.iteration = 0;
        t.position = 0;
        Flow::On
    }

    fn step(&mut self, task: u32) -> Flow {
        let t = &self.tasks[task];
        let (pc, phase) = (t.pc, t.phase);
        let Some(instruction) = self.program.get(pc as usize) else { return Flow::Done };
        // Most instructions have a first part that may block, and are done when the process comes back.
        if phase == 9 {
            return self.advance(task);
        }
        if let (8, Instruction::Stage { to, .. }) = (phase, instruction) {
            let to = *to;
            let last = self.tasks[task].files[to as usize].staged.len() - 1;
            self.tasks[task].phase = 9;
            return self.await_staged(task, to, last);
        }
        match instruction {
            Instruction::Pattern(pattern) => {
                let pattern = **pattern;
                self.pattern_step(task, &pattern)
            }
            Instruction::Events(events) => {
                let events = **events;
                self.events_step(task, &events)
            }
            Instruction::ReadVector { file, .. } => {
                let file = *file;
                if phase == 0 {
                    let Instruction::ReadVector { ranges, .. } = &self.program[pc as usize] else {
                        return Flow::On;
                    };
                    let ranges = ranges.to_vec();
                    let t = &mut self.tasks[task];
                    t.ranges = ranges;
                    t.phase = 1;
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

    fn simple_step(&mut self, task: u32, instruction: &Instruction) -> Flow {
        self.tasks[task].phase = 9;
        match *instruction {
            Instruction::Compute { cpu_ns } => self.compute(task, cpu_ns),
            Instruction::Wait { wait_ns } => {
                let until = self.now + wait_ns;
                self.pause(task, until, State::Other, Phase::None)
            }
            Instruction::Open { file } => {
                self.tasks[task].files[file as usize].open = true;
                self.metadata(task, file, false, None)
            }
            Instruction::Stat { file } => self.metadata(task, file, false, Some(1)),
            Instruction::Create { file } => {
                self.release(task, file);
                self.metadata(task, file, true, Some(1))
            }
            Instruction::Close { file } => {
                let instance = self.current_file(task, file);
                self.tasks[task].files[file as usize].open = false;
                let i = &self.instances[instance];
                let remote = matches!(self.mounts[i.mount as usize].backend, Backend::Service(_));
                let host = self.mounts[i.mount as usize].host as usize;
                let dirty = self.hosts[host].cache.file_dirty_pages(i.cache_file) > 0 || i.writes > 0;
                if remote && dirty {
                    // Close-to-open consistency.
                    return self.operate(task, file, OpKind::Sync, 0, 0, false);
                }
                Flow::On
            }
            Instruction::Fsync { file } => {
                self.current_file(task, file);
                self.operate(task, file, OpKind::Sync, 0, 0, false)
            }
            Instruction::Delete { file } => {
                let flow = self.metadata(task, file, true, Some(1));
                self.drop_file(task, file);
                flow
            }
            Instruction::Read { file, offset, length, access } => {
                self.read(task, file, offset, length, access)
            }
            Instruction::Write { file, offset, length, access } => {
                self.write(task, file, offset, length, access)
            }
            Instruction::Loop { times, end } => {
                let t = &mut self.tasks[task];
                if times == 0 {
                    t.pc = end;
                    t.phase = 0;
                } else {
                    t.loops.push((t.pc, times - 1));
                    self.advance(task);
                }
                Flow::On
            }
            Instruction::Again { start } => {
                let t = &mut self.tasks[task];
                match t.loops.last_mut() {
                    Some((at, left)) if *at == start && *left > 0 => {
                        *left -= 1;
                        t.pc = start + 1;
                        t.phase = 0;
                        Flow::On
                    }
                    _ => {
                        t.loops.pop();
                        self.advance(task)
                    }
                }
            }
            Instruction::Packet => self.ask_for_packet(task),
            Instruction::Stage { from, to, chunk, background } => {
                self.stage(task, from, to, chunk);
                if background {
                    return Flow::On;
                }
                // Waits as `take` does, without taking.
                self.await_staged(task, to, self.tasks[task].files[to as usize].staged.len() - 1)
            }
            Instruction::Take { file } => self.take(task, file),
            Instruction::ReadVector { .. } | Instruction::Pattern(_) | Instruction::Events(_) => Flow::On,
        }
    }

    fn pattern_step(&mut self, task: u32, p: &Pattern) -> Flow {
        match self.tasks[task].phase {
            0 => {
                if self.tasks[task].iteration >= p.count {
                    return self.advance(task);
                }
                self.tasks[task].phase = 1;
                let vector = u64::from(p.vector).min(p.count - self.tasks[task].iteration);
                self.compute(task, p.cpu_ns * vector)
            }
            1 => {
                let instance = self.current_file(task, p.file);
                let file_bytes = self.instances[instance].bytes;
                let span = match (p.span, p.op) {
                    (0, PatternOp::Read) => file_bytes.saturating_sub(p.offset),
                    (0, PatternOp::Write) => p.count * p.length,
                    (span, _) => span,
                };
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
                        &mut t.stream,
                    );
                    t.ranges.push((p.offset + at, p.length));
                    t.iteration += 1;
                }
                t.next_range = 0;
                t.phase = 2;
                let job = &mut self.jobs[t.job as usize];
                job.events += p.events * vector;
                job.bytes.uncompressed_bytes += p.uncompressed * vector;
                Flow::On
            }
            _ => {
                if p.op == PatternOp::Write {
                    let t = &mut self.tasks[task];
                    let Some(&(offset, length)) = t.ranges.get(t.next_range as usize) else {
                        t.phase = 0;
                        return Flow::On;
                    };
                    t.next_range += 1;
                    return self.write(task, p.file, Some(offset), length, p.access);
                }
                match self.vector_step(task, p.file, p.access) {
                    Flow::Done => {
                        self.tasks[task].phase = 0;
                        Flow::On
                    }
                    flow => flow,
                }
            }
        }
    }

    /// The next of a list of ranges, or all at once where the service takes vectors. Done when all are read.
    fn vector_step(&mut self, task: u32, file: u32, access: Access) -> Flow {
        let t = &self.tasks[task];
        let (next, count) = (t.next_range as usize, t.ranges.len());
        if next >= count {
            self.tasks[task].next_range = 0;
            return Flow::Done;
        }
        let instance = self.current_file(task, file);
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

    fn events_step(&mut self, task: u32, e: &Events) -> Flow {
        let (first, count) = match self.tasks[task].packet {
            Some(packet) => (packet.first, packet.count),
            None => (0, e.events),
        };
        let clusters_from = first / e.per_cluster;
        let clusters_to = (first + count).div_ceil(e.per_cluster);
        let per_step = u64::from(e.vector.min(e.reads));
        let steps = u64::from(e.reads).div_ceil(per_step);
        match self.tasks[task].phase {
            0 => {
                let t = &mut self.tasks[task];
                let mut cluster = clusters_from + t.iteration / steps;
                while cluster < clusters_to && offsets::skipped(cluster, e.skip) {
                    t.iteration = (cluster + 1 - clusters_from) * steps;
                    cluster += 1;
                }
                if cluster >= clusters_to {
                    return self.advance(task);
                }
                let step = t.iteration % steps;
                let mine =
                    (first + count).min((cluster + 1) * e.per_cluster) - first.max(cluster * e.per_cluster);
                // The events' work is spread evenly over the cluster's steps.
                let work = mine * e.cpu_ns * (step + 1) / steps - mine * e.cpu_ns * step / steps;
                t.phase = 1;
                if step == 0 {
                    let job = &mut self.jobs[t.job as usize];
                    job.events += mine;
                    job.bytes.uncompressed_bytes += mine * e.uncompressed;
                }
                self.compute(task, work)
            }
            1 => {
                let instance = self.current_file(task, e.file);
                let file_bytes = self.instances[instance].bytes;
                let t = &mut self.tasks[task];
                let cluster = clusters_from + t.iteration / steps;
                let step = t.iteration % steps;
                t.iteration += 1;
                t.ranges.clear();
                for read in step * per_step..((step + 1) * per_step).min(u64::from(e.reads)) {
                    let range = offsets::in_cluster(cluster, read, e, file_bytes);
                    t.ranges.push(range);
                }
                t.next_range = 0;
                t.phase = 2;
                Flow::On
            }
            _ => match self.vector_step(task, e.file, e.access) {
                Flow::Done => {
                    self.tasks[task].phase = 0;
                    Flow::On
                }
                flow => flow,
            },
        }
    }

    // ---- staging -------------------------------------------------------------------------------------------

    /// Starts to copy the next file of a set to the node, or finds it in the node's pCache.
    fn stage(&mut self, task: u32, from: u32, to: u32, chunk: u64) {
        let (host, job, slot, process) = {
            let t = &self.tasks[task];
            (t.host, t.job, t.slot, t.process)
        };
        let source = self.next_in_set(host, from);
        if let Some(instance) = self.feeder.pcache.find(host, (from, source.0)) {
            self.instances[instance].opened += 1;
            let staged = Staged { instance, ready: true, cached: true };
            self.tasks[task].files[to as usize].staged.push_back(staged);
            return;
        }
        let from_instance = self.set_instance(host, from, source.0);
        let to_instance = self.new_file_in_set(host, to);
        self.instances[to_instance].opened += 1;
        let staged = Staged { instance: to_instance, ready: false, cached: false };
        self.tasks[task].files[to as usize].staged.push_back(staged);
        let stager = self.new_task(host, slot, job, process + 1);
        self.instances[from_instance].opened += 1;
        self.instances[to_instance].opened += 1;
        let t = &mut self.tasks[stager];
        t.files[from as usize].instance = from_instance;
        t.files[to as usize].instance = to_instance;
        t.copying =
            Some(Copying { parent: task, job, from, to, set: to, chunk, at: 0, source: (from, source.0) });
        self.run_task(stager);
    }

    /// A stager's next chunk: work for the last one, then read, then write.
    fn copy_step(&mut self, task: u32) -> Flow {
        let Some(copying) = self.tasks[task].copying else { return Flow::Done };
        let from = self.tasks[task].files[copying.from as usize].instance;
        let bytes = self.instances[from].bytes;
        let left = bytes - copying.at;
        let chunk = copying.chunk.min(left);
        match self.tasks[task].phase {
            0 => {
                self.tasks[task].phase = 1;
                self.metadata(task, copying.from, false, None)
            }
            1 => {
                if left == 0 {
                    return Flow::Done;
                }
                self.tasks[task].phase = 2;
                self.read(task, copying.from, copying.at, chunk, Access::Buffered)
            }
            2 => {
                self.tasks[task].phase = 3;
                self.compute(task, 0)
            }
            _ => {
                let t = &mut self.tasks[task];
                t.phase = 1;
                if let Some(c) = &mut t.copying {
                    c.at += chunk;
                }
                self.jobs[copying.job as usize].bytes.staged_bytes += chunk;
                self.write(task, copying.to, Some(copying.at), chunk, Access::Buffered)
            }
        }
    }

    /// A stager is done: its parent may be waiting.
    fn staged(&mut self, task: u32, copying: Copying) {
        let host = self.tasks[task].host;
        let to = self.tasks[task].files[copying.to as usize].instance;
        self.release(task, copying.from);
        self.release(task, copying.to);
        let cached = self.scenario.run.pcache_bytes > 0;
        if cached {
            let bytes = self.instances[to].bytes;
            let limit = self.scenario.run.pcache_bytes;
            for old in self.feeder.pcache.insert(host, copying.source, to, bytes, limit) {
                // Goes when the last job lets go of it.
                self.doom(old);
            }
        }
        let parent = copying.parent;
        let alive = self.tasks[parent].alive && self.tasks[parent].job == copying.job;
        if !alive {
            // Nobody wants it any more.
            self.instances[to].opened -= 1;
            if !cached {
                self.doom(to);
            }
            return;
        }
        let t = &mut self.tasks[parent];
        if let Some(staged) = t.files[copying.set as usize].staged.iter_mut().find(|s| s.instance == to) {
            staged.ready = true;
            staged.cached = cached;
        }
        if t.take_waits {
            self.run_task(parent);
        }
    }

    fn await_staged(&mut self, task: u32, set: u32, number: usize) -> Flow {
        let ready = self.tasks[task].files[set as usize].staged.get(number).is_none_or(|s| s.ready);
        if ready {
            self.tasks[task].take_waits = false;
            self.enter(task, State::Other, Phase::None);
            return Flow::On;
        }
        if !self.tasks[task].take_waits {
            self.tasks[task].take_waits = true;
            self.enter(task, State::Network, Phase::StageIn);
        }
        // Comes back here when a stager is done.
        self.tasks[task].phase = 8;
        Flow::Blocked
    }

    fn take(&mut self, task: u32, set: u32) -> Flow {
        if let Flow::Blocked = self.await_staged(task, set, 0) {
            return Flow::Blocked;
        }
        self.drop_file(task, set);
        if let Some(staged) = self.tasks[task].files[set as usize].staged.pop_front() {
            let file = &mut self.tasks[task].files[set as usize];
            file.instance = staged.instance;
            file.cached = staged.cached;
            file.read_ahead = ReadAhead::default();
        }
        self.tasks[task].phase = 9;
        Flow::On
    }

    /// Lets go of a `new` file, and deletes it unless it stays.
    fn drop_file(&mut self, task: u32, set: u32) {
        let file = &self.tasks[task].files[set as usize];
        let (instance, cached) = (file.instance, file.cached);
        if instance == NONE {
            return;
        }
        self.tasks[task].files[set as usize].cached = false;
        self.release(task, set);
        let spec = &self.scenario.files[set as usize];
        if spec.share == crate::scenario::Share::New && !spec.keep && !cached {
            self.doom(instance);
        }
    }

    // ---- the end -------------------------------------------------------------------------------------------

    fn finish_task(&mut self, task: u32) {
        if let Some(copying) = self.tasks[task].copying {
            self.staged(task, copying);
            self.tasks[task].alive = false;
            self.tasks.remove(task);
            return;
        }
        self.enter(task, State::Other, Phase::None);
        for set in 0..self.scenario.files.len() as u32 {
            self.drop_file(task, set);
            while let Some(staged) = self.tasks[task].files[set as usize].staged.pop_front() {
                if staged.ready {
                    self.instances[staged.instance].opened -= 1;
                    if !staged.cached {
                        self.doom(staged.instance);
                    }
                }
            }
        }
        let t = &mut self.tasks[task];
        t.alive = false;
        let (slot, job) = (t.slot, t.job);
        self.jobs[job as usize].end_ns = self.now;
        self.feeder.task_of_job[job as usize] = NONE;
        self.tasks.remove(task);
        self.job_finished(slot);
    }

    /// A packet is worked through: the master hears how fast that was, and gives the next.
    fn ask_for_packet(&mut self, task: u32) -> Flow {
        let now = self.now;
        let t = &mut self.tasks[task];
        if let Some(packet) = t.packet.take() {
            t.worked_events += packet.count;
            t.worked_ns += now - t.packet_since;
        }
        let Some((packet, until)) = self.next_packet(task) else {
            // Nothing left: to the end of the program.
            let end = self.program.len() as u32;
            let t = &mut self.tasks[task];
            t.pc = end;
            t.phase = 0;
            return Flow::On;
        };
        let set = self.feeder.packet_set;
        self.release(task, set);
        let host = self.tasks[task].host;
        let instance = self.set_instance(host, set, packet.file);
        self.hold(task, set, instance);
        let t = &mut self.tasks[task];
        t.packet = Some(packet);
        t.packet_since = until;
        self.pause(task, until, State::Network, Phase::None)
    }
}
