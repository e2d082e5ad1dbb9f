//! State of the processes of jobs.

use std::collections::{vec_deque, VecDeque};

use headrace_model::pagecache::readahead::ReadAhead;
use headrace_model::pagecache::Group;
use headrace_model::slots::Id;
use headrace_model::stream::Stream;
use headrace_model::Nanos;

use crate::ids::{InstanceId, JobId, TaskId};
use crate::outcome::{Ledger, Phases};

/// What a process is doing, as recorded in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Cpu,
    Block,
    Network,
    Other,
}

/// The phase of a job that a wait is charged to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    None,
    StageIn,
    Read,
    Write,
    Metadata,
    /// Connecting to a service and opening a file: metadata, too.
    Open,
}

/// The current file of a process in one file set.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskFile {
    pub instance: Option<InstanceId>,
    pub read_ahead: ReadAhead,
    pub open: bool,
    /// The current file belongs to the node's pCache.
    pub cached: bool,
    extras: Option<Box<FileExtras>>,
}

/// What files that are staged, or read through a client library, have besides.
#[derive(Clone, Debug, Default)]
pub(crate) struct FileExtras {
    /// Byte range of the file in the client library's buffer of this process.
    pub buffer: (u64, u64),
    /// Staged files in the order in which they were requested.
    pub staged: VecDeque<Staged>,
}

impl TaskFile {
    /// Return the extras of the file, which get memory with the first call.
    pub fn extras(&mut self) -> &mut FileExtras {
        self.extras.get_or_insert_default()
    }

    /// Return the extras, if the file has any.
    pub fn extras_if_any(&mut self) -> Option<&mut FileExtras> {
        self.extras.as_deref_mut()
    }

    /// Remove the staged file requested first.
    pub fn take_staged(&mut self) -> Option<Staged> {
        self.extras_if_any()?.staged.pop_front()
    }

    pub fn staged(&self) -> vec_deque::Iter<'_, Staged> {
        self.extras.as_deref().map(|extras| extras.staged.iter()).unwrap_or_default()
    }

    /// Begin again at the start of the current file, as another thread of the process does.
    pub fn rewind(&mut self) {
        self.read_ahead = ReadAhead::default();
        if let Some(extras) = self.extras_if_any() {
            extras.buffer = (0, 0);
        }
    }
}

/// A file that is being staged or is ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Staged {
    pub instance: InstanceId,
    pub ready: bool,
    pub cached: bool,
}

/// State of a stager: a process that copies one file for its parent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copying {
    pub parent: TaskId,
    /// The parent's job; the parent's slot of the slab may be reused by another job.
    pub job: JobId,
    pub from: u32,
    pub to: u32,
    pub set: u32,
    pub chunk: u64,
    pub at: u64,
    pub next: CopyStep,
    /// Index of the source in its set, for the pCache.
    pub source: (u32, u32),
}

/// Events assigned by the master.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub file: u32,
    pub first: u64,
    pub count: u64,
}

/// How far a process is in the current instruction, or in the current element of its pattern,
/// events or sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// At its beginning.
    Begun,
    /// Its CPU work is done.
    Worked,
    /// The ranges to transfer are known.
    Located,
    /// A client's requests: submit the next one.
    Submitting,
    /// A client's requests: wait for the last ones.
    Draining,
    /// The process waits for a staged file.
    AwaitsStaged,
    /// The process waits for reads that run ahead.
    AwaitsAhead,
    /// The instruction is complete as soon as the process resumes.
    Ending,
}

/// What a stager does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyStep {
    Open,
    Read,
    /// The CPU work of the chunk.
    Work,
    Write,
}

/// State of reads that run ahead of a process's work: of the process, and of its reader.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ahead {
    /// The process's reader, while it runs.
    pub reader: Option<TaskId>,
    /// Groups that are read and that the process has not finished.
    pub ready: u32,
    /// The process waits for a group.
    pub awaits: bool,
    /// Work and sleep of the process's current group.
    pub work_ns: u64,
    pub wait_ns: u64,
    /// This is a reader.
    pub is_reader: bool,
    /// The reader's process; none once that has ended.
    pub parent: Option<TaskId>,
    /// The reader waits until its process has finished a group.
    pub paused: bool,
}

/// The threads of a job while they share its work; the job's first thread has it.
#[derive(Clone, Debug)]
pub(crate) struct Team {
    /// Threads besides the first that have not ended.
    pub others: Vec<TaskId>,
    pub threads: u32,
    /// The next part that a thread takes.
    pub next: usize,
    pub since: Nanos,
    /// Times of all threads, summed.
    pub ledger: Ledger,
    pub phases: Phases,
    /// The first thread waits for the others.
    pub awaits: bool,
    /// Threads to which CPU time of requests was charged, in turn.
    pub charged: usize,
}

/// The part of a job's work that a thread executes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Instruction that has the parts.
    pub of: u32,
    /// Instruction after the part.
    pub end: u32,
}

/// A process, or a thread of one.
#[derive(Clone, Debug)]
pub(crate) struct Task {
    pub host: u32,
    pub slot: u32,
    pub job: JobId,
    pub process: u32,
    pub alive: bool,
    pub pc: u32,
    pub progress: Progress,
    pub iteration: u64,
    pub position: u64,
    pub loops: Vec<(u32, u64)>,
    pub files: Vec<TaskFile>,
    pub state: State,
    pub since: Nanos,
    pub wait_phase: Phase,
    pub pending_cpu_ns: u64,
    /// Time in which the process waited since its last CPU work.
    pub waited_ns: u64,
    pub cpu_factor: f64,
    pub variation: f64,
    /// CPU work that pieces so far took less than given.
    pub owed_ns: f64,
    pub stream: Stream,
    /// Chooses its permutation of the blocks of a shuffled order.
    pub shuffle: u64,
    pub ranges: Vec<(u64, u64)>,
    pub next_range: u32,
    pub waiting_ops: u32,
    /// Any completed operation wakes the process, not only the last one.
    pub wake_any: bool,
    /// End of the client's requests, while it sends them.
    pub until: Option<Nanos>,
    pub packet: Option<Packet>,
    pub packet_since: Nanos,
    /// The file of the last packet, and whether the one before was of the same file.
    pub packet_file: Option<u32>,
    pub same_file: bool,
    pub worked_events: u64,
    pub worked_ns: u64,
    pub copying: Option<Copying>,
    pub take_waits: bool,
    pub ahead: Ahead,
    pub team: Option<Box<Team>>,
    /// The first thread of the job; none if this is it.
    pub thread_of: Option<TaskId>,
    pub part: Option<Part>,
    /// Mounts of services whose client has started in the process.
    pub clients: Vec<u32>,
    /// Memory that it holds, in its host's `held_bytes`.
    pub held_bytes: u64,
    /// Its control group, if jobs have a memory limit.
    pub group: Option<Id<Group>>,
}

impl Task {
    /// Return whether its time is not in its job's ledger: a stager, or a reader.
    pub fn aside(&self) -> bool {
        self.copying.is_some() || self.ahead.is_reader
    }

    /// Return how long a piece of CPU work takes, which varies. Two uniform deviations of equal
    /// width meet in each piece: one of its own, and that of the piece before, which it gives back.
    pub fn varied(&mut self, work_ns: f64) -> f64 {
        let half_width = self.variation * (3.0_f64 / 2.0).sqrt();
        let deviation = half_width * (2.0 * self.stream.unit() - 1.0);
        let varied = (work_ns * (1.0 + deviation) + self.owed_ns).max(0.0);
        self.owed_ns += work_ns - varied;
        varied
    }
}

/// How a process continues after a step.
pub(crate) enum Flow {
    On,
    Blocked,
    Done,
}
