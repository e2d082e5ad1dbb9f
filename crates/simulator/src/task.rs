//! Processes of jobs: they execute the program and record in the ledger how their time is spent.

use headrace_model::stream::Stream;
use headrace_model::Nanos;

use crate::ids::{JobId, TaskId};
use crate::world::{Ahead, Event, Flow, Phase, Progress, State, Task, TaskFile, World};

impl World<'_> {
    pub fn new_task(&mut self, host: u32, slot: u32, job: JobId, process: u32) -> TaskId {
        let run = &self.scenario.run;
        let mut stream = Stream::numbered(self.scenario.seed, "job", job.tag());
        let cpu_factor = 1.0 + run.cpu_spread * (2.0 * stream.unit() - 1.0);
        self.tasks.insert(Task {
            host,
            slot,
            job,
            process,
            alive: true,
            pc: 0,
            progress: Progress::Begun,
            iteration: 0,
            position: 0,
            loops: Vec::new(),
            files: vec![TaskFile::default(); self.scenario.files.len()],
            state: State::Other,
            since: self.now,
            wait_phase: Phase::None,
            pending_cpu_ns: 0,
            waited_ns: 0,
            cpu_factor,
            variation: run.cpu_variation,
            owed_ns: 0.0,
            stream,
            shuffle: Stream::numbered(self.scenario.seed, "job/shuffle", job.tag()).bits(),
            ranges: Vec::new(),
            next_range: 0,
            waiting_ops: 0,
            wake_any: false,
            until: None,
            packet: None,
            packet_since: self.now,
            packet_file: None,
            same_file: false,
            worked_events: 0,
            worked_ns: 0,
            copying: None,
            take_waits: false,
            ahead: Ahead::default(),
            team: None,
            thread_of: None,
            part: None,
            clients: Vec::new(),
            held_bytes: 0,
            group: None,
        })
    }

    // ---- Ledger ----

    /// Charge the time since the last change to the previous state, then enter `state`.
    pub fn enter(&mut self, task: TaskId, state: State, phase: Phase) {
        let now = self.now;
        let t = &mut self.tasks[task];
        let span = now - t.since;
        let (was, was_phase) = (t.state, t.wait_phase);
        if was != State::Cpu {
            t.waited_ns += span;
        }
        t.since = now;
        t.state = state;
        t.wait_phase = phase;
        if t.aside() || span == 0 {
            return;
        }
        let (ledger, phases) = self.accounts(task);
        match was {
            State::Cpu => ledger.on_cpu_ns += span,
            State::Block => ledger.wait_block_ns += span,
            State::Network => ledger.wait_network_ns += span,
            State::Other => ledger.other_ns += span,
        }
        match was_phase {
            Phase::None => {}
            Phase::StageIn => phases.stage_in_ns += span,
            Phase::Read => phases.read_ns += span,
            Phase::Write => phases.write_ns += span,
            Phase::Metadata => phases.metadata_ns += span,
            Phase::Open => {
                phases.metadata_ns += span;
                phases.open_ns += span;
            }
        }
    }

    /// Add the CPU time of a request to the process's next CPU work.
    pub fn charge_job(&mut self, job: JobId, cpu_ns: u64) {
        let task = self.feeder.task_of_job[job.index()];
        if let Some(task) = task {
            let task = self.thread_in_turn(task);
            self.tasks[task].pending_cpu_ns += cpu_ns;
        }
    }

    /// Start CPU work, if there is any.
    pub(super) fn compute(&mut self, task: TaskId, cpu_ns: u64) -> Flow {
        let t = &mut self.tasks[task];
        let mut work = cpu_ns as f64 * t.cpu_factor;
        if t.variation > 0.0 && cpu_ns > 0 {
            work = t.varied(work);
        }
        let mut work = work as u64 + std::mem::take(&mut t.pending_cpu_ns);
        if work == 0 {
            return Flow::On;
        }
        let (host, waited_ns) = (t.host, std::mem::take(&mut t.waited_ns));
        work += self.hosts[self.cores_of(host) as usize].cpu.cold_start_ns(waited_ns, work);
        self.enter(task, State::Cpu, Phase::None);
        self.start_task_work(host, task, work);
        Flow::Blocked
    }

    /// Continue a process whose CPU work is done.
    pub fn task_worked(&mut self, task: TaskId, cpu_ns: u64) {
        let now = self.now;
        let t = &mut self.tasks[task];
        let elapsed = now - t.since;
        let on_cpu = cpu_ns.min(elapsed);
        t.since = now;
        t.state = State::Other;
        if !t.aside() {
            let (ledger, _) = self.accounts(task);
            ledger.on_cpu_ns += on_cpu;
            ledger.wait_cpu_ns += elapsed - on_cpu;
        }
        self.run_task(task);
    }

    /// Continue a process whose sleep, or wait for an answer, is over.
    pub fn timer_done(&mut self, task: TaskId) {
        self.enter(task, State::Other, Phase::None);
        self.run_task(task);
    }

    pub(super) fn pause(&mut self, task: TaskId, until: Nanos, state: State, phase: Phase) -> Flow {
        if until <= self.now {
            return Flow::On;
        }
        self.enter(task, state, phase);
        self.events.schedule(until, 1, Event::Timer(task));
        Flow::Blocked
    }

    // ---- End of a process ----

    pub(super) fn finish_task(&mut self, task: TaskId) {
        if let Some(copying) = self.tasks[task].copying {
            self.staged(task, copying);
            self.tasks[task].alive = false;
            self.tasks.remove(task);
            return;
        }
        if self.tasks[task].ahead.is_reader {
            return self.end_reader(task);
        }
        if self.tasks[task].thread_of.is_some() {
            return self.end_thread(task);
        }
        self.abandon_reader(task);
        self.hold_memory(task, 0);
        self.leave_group(task);
        self.enter(task, State::Other, Phase::None);
        self.end_team(task);
        self.packet_failed(task);
        for set in 0..self.scenario.files.len() as u32 {
            self.drop_file(task, set);
            while let Some(staged) = self.tasks[task].files[set as usize].take_staged() {
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
        self.jobs[job.index()].end_ns = self.now;
        self.feeder.task_of_job[job.index()] = None;
        self.tasks.remove(task);
        self.job_finished(slot);
    }
}
