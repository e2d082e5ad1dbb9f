//! Threads of a job that share its work (`Step::Parallel`), as ROOT's TTreeProcessorMT and
//! RDataFrame with implicit multithreading do: the work is cut into ranges of clusters, each thread
//! takes the next one when it has done its last, and reads through a file object of its own.
//!
//! The job's process is the first thread. Each thread uses a core when it computes, so a job of n
//! threads takes at most n cores. The ledger of the job is that of its mean thread: the times of
//! all threads over their number, so that it still adds up to the wall time; a thread without a
//! part waits ("other"). The CPU time of all of them is the ledger's plus `more_cpu_ns`.

use headrace_model::stream::Stream;

use crate::ids::TaskId;
use crate::outcome::{Ledger, Phases};
use crate::program::Instruction;
use crate::world::{Ahead, Flow, Part, Phase, Progress, State, Team, World};

impl World<'_> {
    /// Start the threads of a job. All of them begin with what each does first.
    pub(super) fn start_team(&mut self, task: TaskId) -> Flow {
        let pc = self.tasks[task].pc;
        let Some(Instruction::Parallel(parallel)) = self.program.get(pc as usize) else {
            return Flow::On;
        };
        let (threads, (begin, end)) = (parallel.threads, parallel.begin);
        self.enter(task, State::Other, Phase::None);
        self.tasks[task].part = Some(Part { of: pc, end });
        self.go_to(task, begin);
        let others: Vec<TaskId> =
            (1..threads).map(|number| self.new_thread(task, number)).collect();
        self.tasks[task].team = Some(Box::new(Team {
            others: others.clone(),
            threads,
            next: 0,
            since: self.now,
            ledger: Ledger::default(),
            phases: Phases::default(),
            awaits: false,
            charged: 0,
        }));
        for thread in others {
            self.run_task(thread);
        }
        Flow::On
    }

    fn go_to(&mut self, task: TaskId, pc: u32) {
        let t = &mut self.tasks[task];
        (t.pc, t.progress) = (pc, Progress::Begun);
        (t.iteration, t.position) = (0, 0);
    }

    /// Make a thread of a job's process, with positions of its own in the same files.
    fn new_thread(&mut self, task: TaskId, number: u32) -> TaskId {
        let mut thread = self.tasks[task].clone();
        for file in &mut thread.files {
            if let Some(extras) = file.extras_if_any() {
                extras.staged.clear();
            }
            file.rewind();
            if let Some(instance) = file.instance {
                self.instances[instance].opened += 1;
            }
        }
        // Processes of slots have odd numbers, their stagers the next ones.
        thread.process += 2 * number * (self.feeder.slots.len() as u32 + 1);
        let stream = thread.job.tag() << 12 | u64::from(number);
        thread.stream = Stream::numbered(self.scenario.seed, "thread", stream);
        thread.shuffle = Stream::numbered(self.scenario.seed, "thread/shuffle", stream).bits();
        (thread.pending_cpu_ns, thread.held_bytes, thread.group) = (0, 0, None);
        (thread.ahead, thread.thread_of) = (Ahead::default(), Some(task));
        self.tasks.insert(thread)
    }

    /// Let a thread take the next part. Without one it ends; the first thread waits for the others
    /// and goes on.
    pub(super) fn next_part(&mut self, task: TaskId) -> Flow {
        let t = &self.tasks[task];
        let Some(part) = t.part else { return Flow::On };
        let first = t.thread_of.unwrap_or(task);
        let Some(Instruction::Parallel(parallel)) = self.program.get(part.of as usize) else {
            return Flow::On;
        };
        let after = parallel.end;
        let Some(team) = self.tasks[first].team.as_mut() else { return Flow::Done };
        if let Some(&(start, end)) = parallel.parts.get(team.next) {
            team.next += 1;
            self.tasks[task].part = Some(Part { end, ..part });
            self.go_to(task, start);
            return Flow::On;
        }
        if first != task {
            return Flow::Done;
        }
        if self.awaits_threads(task) {
            return Flow::Blocked;
        }
        self.enter(task, State::Other, Phase::None);
        self.end_team(task);
        self.go_to(task, after);
        Flow::On
    }

    /// Let the first thread of a job wait for the others; return whether there are any.
    pub(super) fn awaits_threads(&mut self, task: TaskId) -> bool {
        let Some(team) = self.tasks[task].team.as_mut().filter(|team| !team.others.is_empty())
        else {
            return false;
        };
        team.awaits = true;
        self.enter(task, State::Other, Phase::None);
        true
    }

    /// End a thread; the first one continues if it waits for the last of the others.
    pub(super) fn end_thread(&mut self, task: TaskId) {
        self.abandon_reader(task);
        self.enter(task, State::Other, Phase::None);
        let Some(first) = self.tasks[task].thread_of else { return };
        for set in 0..self.scenario.files.len() {
            let shared = self.tasks[first].files[set].instance;
            if shared.is_some() && self.tasks[task].files[set].instance == shared {
                self.release(task, set as u32);
            } else {
                self.drop_file(task, set as u32);
            }
        }
        self.tasks[first].held_bytes += self.tasks[task].held_bytes;
        self.tasks[task].alive = false;
        self.tasks.remove(task);
        let Some(team) = self.tasks[first].team.as_mut() else { return };
        team.others.retain(|&other| other != task);
        if team.others.is_empty() && std::mem::take(&mut team.awaits) {
            self.run_task(first);
        }
    }

    /// Add the times of a job's threads to its ledger, over their number. The time up to now has
    /// been charged to the threads.
    pub(super) fn end_team(&mut self, task: TaskId) {
        let Some(team) = self.tasks[task].team.take() else { return };
        self.tasks[task].part = None;
        let job = &mut self.jobs[self.tasks[task].job.index()];
        let mean = |sum: u64| sum / u64::from(team.threads);
        let Ledger { on_cpu_ns, wait_cpu_ns, wait_block_ns, wait_network_ns, .. } = team.ledger;
        let known = [on_cpu_ns, wait_cpu_ns, wait_block_ns, wait_network_ns].map(mean);
        job.ledger.on_cpu_ns += known[0];
        job.ledger.wait_cpu_ns += known[1];
        job.ledger.wait_block_ns += known[2];
        job.ledger.wait_network_ns += known[3];
        job.ledger.other_ns += self.now - team.since - known.iter().sum::<u64>();
        job.more_cpu_ns += on_cpu_ns - known[0];
        job.phases.read_ns += mean(team.phases.read_ns);
        job.phases.write_ns += mean(team.phases.write_ns);
        job.phases.metadata_ns += mean(team.phases.metadata_ns);
        job.phases.open_ns += mean(team.phases.open_ns);
    }

    /// Return the ledger and the phases to which the time of a thread is charged.
    pub(super) fn accounts(&mut self, task: TaskId) -> (&mut Ledger, &mut Phases) {
        let t = &self.tasks[task];
        let (first, job) = (t.thread_of.unwrap_or(task), t.job.index());
        if let Some(team) = self.tasks[first].team.as_mut() {
            return (&mut team.ledger, &mut team.phases);
        }
        let job = &mut self.jobs[job];
        (&mut job.ledger, &mut job.phases)
    }

    /// Return the thread of a job that CPU time of the job's requests is charged to next.
    pub(super) fn thread_in_turn(&mut self, task: TaskId) -> TaskId {
        let Some(team) = self.tasks[task].team.as_mut() else { return task };
        let turn = team.charged % (team.others.len() + 1);
        team.charged += 1;
        if turn == 0 {
            task
        } else {
            team.others[turn - 1]
        }
    }
}
