//! The state of a simulation, and the loop that takes event after event.

use std::collections::{HashMap, VecDeque};
use std::ops::{Index, IndexMut};
use std::sync::atomic::{AtomicBool, Ordering as Atomic};

use headrace_model::filesystem::Filesystem;
use headrace_model::link::Network;
use headrace_model::pagecache::lustre::LustreReadAhead;
use headrace_model::pagecache::readahead::{ReadAhead, ReadAheadRules};
use headrace_model::pagecache::PageCache;
use headrace_model::request::{Completion, Device, Status};
use headrace_model::scheduler::BlockQueue;
use headrace_model::Nanos;

use crate::cpu::Cpu;
use crate::feed::Feeder;
use crate::outcome::{Counters, DriveSeries, JobOutcome};
use crate::program::Instruction;
use crate::queue::{EventQueue, Handle};
use crate::remote::{Rpc, Service};
use crate::scenario::Scenario;
use crate::task::Task;

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// Values in slots that are used again; nothing is allocated once it has grown to its size.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    items: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub fn insert(&mut self, item: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.items[index as usize] = item;
                index
            }
            None => {
                self.items.push(item);
                (self.items.len() - 1) as u32
            }
        }
    }

    pub fn remove(&mut self, index: u32) {
        self.free.push(index);
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;
    fn index(&self, index: u32) -> &T {
        &self.items[index as usize]
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.items[index as usize]
    }
}

/// What can happen. Small and `Copy`: the queue holds it by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A task on that host has done its work.
    Cpu(u32),
    /// The drive of that volume has something to do.
    Drive(u32),
    /// A flow is done.
    Network,
    /// A task's pause, or answer of a metadata server or master, is over.
    Timer(u32),
    /// A request to a service arrives at its next stage.
    Rpc(u32),
    /// The flusher of that mount looks for old dirty pages.
    Flusher(u32),
    /// The journal of that volume commits.
    Commit(u32),
    /// A slot may start its next job.
    Slot(u32),
    /// A fault of the list begins, or ends.
    Fault { number: u32, ends: bool },
    /// A sustained load, or the time given to the run, is over.
    End,
}

/// Who is running on a core: a job's process, or a server's work for a request.
const RPC_BIT: u32 = 1 << 31;

#[derive(Debug)]
pub(crate) struct Host {
    pub name: String,
    pub is_node: bool,
    /// Its description: in `nodes`, or in `servers`.
    pub spec: u32,
    pub cpu: Cpu,
    pub cpu_timer: Option<Handle>,
    pub cache: PageCache,
    pub call_ns: u64,
    pub create_ns: u64,
    pub remove_ns: u64,
    pub copy_ns_per_byte: f64,
    pub latency_ns: u64,
    pub dirty_limit_pages: u64,
    pub background_pages: u64,
    pub dirty_expire_ns: u64,
    pub dirty_writeback_ns: u64,
    /// Writers that wait until less is dirty.
    pub throttled: VecDeque<u32>,
    pub read_ahead: ReadAheadRules,
    pub mounts: Vec<u32>,
    pub down: bool,
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

pub(crate) struct Volume {
    pub host: u32,
    pub name: String,
    pub queue: BlockQueue,
    pub timer: Option<Handle>,
    pub fs: Filesystem,
    pub mount: u32,
    /// The instance whose pages are the metadata blocks.
    pub metadata: u32,
    pub max_bio_pages: u32,
    pub journal: Journal,
    pub series: Option<Sampler>,
}

/// The running transaction of a filesystem.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    pub dirty: Vec<u32>,
    pub is_dirty: Vec<bool>,
    pub timer: Option<Handle>,
    pub state: JournalState,
    /// What the commit under way writes, to be dirtied at home after it.
    pub committing: Vec<u32>,
    /// Files whose data goes first (ordered mode).
    pub ordered_left: u32,
    pub waiters: Vec<u32>,
    pub next_waiters: Vec<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum JournalState {
    #[default]
    Idle,
    Data,
    Log,
    Barrier,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backend {
    Volume(u32),
    Service(u32),
}

/// A filesystem as one host sees it: a local volume, or a service.
#[derive(Debug)]
pub(crate) struct Mount {
    pub host: u32,
    pub backend: Backend,
    pub read_ahead_pages: u32,
    /// What one read may fetch at once beyond the read-ahead's limit.
    pub large_read_pages: u32,
    /// No read-ahead of the kernel's: what is asked for is fetched, no more and no less.
    pub exact: bool,
    /// Instances with dirty pages, in the order of their first.
    pub dirty: VecDeque<u32>,
    /// Instances that someone waits for.
    pub urgent: VecDeque<u32>,
    pub writing: u32,
    pub writing_limit: u32,
    pub timer: Option<Handle>,
    pub pumping: bool,
}

/// A file on a mount, with its pages in the host's cache.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub mount: u32,
    pub cache_file: u32,
    /// The file in the volume's filesystem, or the service's file.
    pub file: u32,
    pub bytes: u64,
    pub is_metadata: bool,
    pub opened: u32,
    /// I/Os under way.
    pub ios: u32,
    /// Deleted: goes when the last I/O is done.
    pub doomed: bool,
    pub dirty_since: Nanos,
    pub in_dirty_list: bool,
    pub urgent: bool,
    /// Counted among the files that a journal commit waits for.
    pub ordered: bool,
    pub flush_cursor: u32,
    /// Write I/Os under way, and operations that wait until all is written.
    pub writes: u32,
    pub sync_waiters: Vec<u32>,
    /// Servers have written pages that nobody has asked them to bring to their drives.
    pub uncommitted: bool,
    /// Bytes of write-behind on their way, and the first of the writes that wait for its window.
    pub behind_bytes: u64,
    pub behind_waiter: u32,
    pub read_ahead: ReadAhead,
    pub last_access: Nanos,
}

/// What an I/O is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoKind {
    /// Fills an extent of the page cache.
    Fill {
        extent: u32,
    },
    /// Writes one.
    Writeback {
        extent: u32,
    },
    /// Part of an operation that goes past the cache.
    Through {
        op: u32,
    },
    /// A write past the cache that has been answered to its caller (write-behind).
    Behind {
        bytes: u64,
    },
    Journal {
        volume: u32,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Io {
    pub kind: IoKind,
    pub instance: u32,
    /// First of the operations that wait for it.
    pub waiters: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parent {
    Task(u32),
    Rpc(u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpKind {
    /// Through the page cache.
    Read,
    Write,
    /// Past it: O_DIRECT, or a service without a client cache.
    DirectRead,
    DirectWrite,
    /// What `fsync` waits for, and what `close` waits for.
    Sync,
    Close,
}

/// A read, write or sync under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub kind: OpKind,
    pub parent: Parent,
    pub instance: u32,
    pub process: u32,
    /// The job that its bytes count for; `NONE` for nobody's.
    pub job: u32,
    pub mapped: bool,
    pub failed: bool,
    pub stage: u8,
    pub cursor: u32,
    pub end: u32,
    pub submit_from: u32,
    pub submit_to: u32,
    pub mark: u32,
    /// The page at which two-window read-ahead is asked next.
    pub ask_at: u32,
    pub missed: u32,
    pub offset: u64,
    pub length: u64,
    pub read_ahead: ReadAhead,
    pub outstanding: u32,
    /// The next that waits for the same I/O.
    pub next: u32,
}

/// Records a drive's series, interval by interval.
#[derive(Debug)]
pub(crate) struct Sampler {
    pub interval_ns: u64,
    pub next: Nanos,
    pub before: headrace_model::scheduler::QueueCounters,
    pub series: DriveSeries,
}

pub(crate) struct World<'a> {
    pub scenario: &'a Scenario,
    pub now: Nanos,
    pub events: EventQueue<Event>,
    pub hosts: Vec<Host>,
    pub volumes: Vec<Volume>,
    pub mounts: Vec<Mount>,
    pub services: Vec<Service>,
    pub instances: Slab<Instance>,
    pub ios: Slab<Io>,
    pub ops: Slab<Op>,
    pub rpcs: Slab<Rpc>,
    pub tasks: Slab<Task>,
    pub network: Network,
    pub network_timer: Option<Handle>,
    /// Client instance of a service's file on a mount.
    pub client_instances: HashMap<(u32, u32), u32>,
    /// Lustre's read-ahead, by instance, where a service uses it.
    pub lustre: HashMap<u32, LustreReadAhead>,
    pub program: Vec<Instruction>,
    pub feeder: Feeder,
    pub jobs: Vec<JobOutcome>,
    pub counters: Counters,
    pub over: bool,
    pub completions: Vec<Completion>,
}

impl<'a> World<'a> {
    /// Runs until nothing is left to do, the time is over, or `cancel` is set. `progress` hears of simulated time and
    /// jobs done now and then. True when it ran to its end.
    pub fn run(&mut self, cancel: &AtomicBool, progress: &mut dyn FnMut(Nanos, u64)) -> bool {
        let mut count = 0u64;
        while let Some((time, event)) = self.events.pop() {
            debug_assert!(time >= self.now, "time runs forward");
            self.now = time;
            count += 1;
            self.dispatch(event);
            if self.over {
                break;
            }
            if count & 0x3fff == 0 {
                if cancel.load(Atomic::Relaxed) {
                    self.counters.events += count;
                    return false;
                }
                progress(self.now, self.feeder.finished);
            }
        }
        self.counters.events += count;
        true
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Cpu(host) => self.cpu_done(host),
            Event::Drive(volume) => {
                self.volumes[volume as usize].timer = None;
                self.wake_drive(volume);
            }
            Event::Network => {
                self.network_timer = None;
                self.flow_done();
            }
            Event::Timer(task) => self.timer_done(task),
            Event::Rpc(rpc) => self.rpc_stage(rpc),
            Event::Flusher(mount) => self.flusher_tick(mount),
            Event::Commit(volume) => {
                self.volumes[volume as usize].journal.timer = None;
                self.start_commit(volume);
            }
            Event::Slot(slot) => self.slot_free(slot),
            Event::Fault { number, ends } => self.fault(number, ends),
            Event::End => self.over = true,
        }
    }

    // ---- cores ---------------------------------------------------------------------------------------------

    /// Starts work on a host's cores for a job's process.
    pub fn start_task_work(&mut self, host: u32, task: u32, cpu_ns: u64) {
        let now = self.now;
        self.hosts[host as usize].cpu.start(now, task, cpu_ns);
        self.set_cpu_timer(host);
    }

    /// Starts work on a host's cores for a request that it serves.
    pub fn start_rpc_work(&mut self, host: u32, rpc: u32, cpu_ns: u64) {
        let now = self.now;
        self.hosts[host as usize].cpu.start(now, rpc | RPC_BIT, cpu_ns);
        self.set_cpu_timer(host);
    }

    fn set_cpu_timer(&mut self, host: u32) {
        let h = &mut self.hosts[host as usize];
        match (h.cpu.next_done(), h.cpu_timer) {
            (Some(time), Some(timer)) => {
                if self.events.time_of(timer) != time {
                    self.events.reschedule(timer, time);
                }
            }
            (Some(time), None) => h.cpu_timer = Some(self.events.schedule(time, 1, Event::Cpu(host))),
            (None, Some(timer)) => {
                self.events.cancel(timer);
                h.cpu_timer = None;
            }
            (None, None) => {}
        }
    }

    fn cpu_done(&mut self, host: u32) {
        let h = &mut self.hosts[host as usize];
        h.cpu_timer = None;
        let (who, cpu_ns) = h.cpu.finish(self.now);
        self.set_cpu_timer(host);
        if who & RPC_BIT != 0 {
            self.rpc_worked(who & !RPC_BIT);
        } else {
            self.task_worked(who, cpu_ns);
        }
    }

    // ---- drives --------------------------------------------------------------------------------------------

    /// Sets the event of a volume's drive to what it waits for next.
    pub fn set_drive_timer(&mut self, volume: u32) {
        let v = &mut self.volumes[volume as usize];
        match (v.queue.next_wake(), v.timer) {
            (Some(time), Some(timer)) => {
                let time = time.max(self.now);
                if self.events.time_of(timer) != time {
                    self.events.reschedule(timer, time);
                }
            }
            (Some(time), None) => {
                v.timer = Some(self.events.schedule(time.max(self.now), 0, Event::Drive(volume)));
            }
            (None, Some(timer)) => {
                self.events.cancel(timer);
                v.timer = None;
            }
            (None, None) => {}
        }
    }

    fn wake_drive(&mut self, volume: u32) {
        self.sample(volume);
        let mut completions = std::mem::take(&mut self.completions);
        self.volumes[volume as usize].queue.wake(self.now, &mut completions);
        self.counters.requests += completions.len() as u64;
        for completion in completions.drain(..) {
            self.io_done(completion.tag as u32, completion.status != Status::Done);
        }
        self.completions = completions;
        self.set_drive_timer(volume);
    }

    /// Closes the intervals of a volume's series that are over.
    pub fn sample(&mut self, volume: u32) {
        let v = &mut self.volumes[volume as usize];
        let Some(sampler) = &mut v.series else { return };
        while sampler.next <= self.now {
            let at = sampler.next;
            v.queue.settle(at);
            sampler.close(v.queue.counters(), sampler.interval_ns);
            sampler.next = at + sampler.interval_ns;
        }
    }

    // ---- network -------------------------------------------------------------------------------------------

    /// Sends bytes from one host to another; the request goes on when the last has left.
    pub fn start_flow(&mut self, from: u32, to: u32, bytes: u64, rpc: u32) {
        self.hosts[from as usize].sent_bytes += bytes;
        self.hosts[to as usize].received_bytes += bytes;
        self.counters.flows += 1;
        self.network.start(self.now, from, to, bytes, u64::from(rpc));
        self.set_network_timer();
    }

    pub fn set_network_timer(&mut self) {
        match (self.network.next_done(), self.network_timer) {
            (Some(time), Some(timer)) => {
                let time = time.max(self.now);
                if self.events.time_of(timer) != time {
                    self.events.reschedule(timer, time);
                }
            }
            (Some(time), None) => {
                self.network_timer = Some(self.events.schedule(time.max(self.now), 0, Event::Network));
            }
            (None, Some(timer)) => {
                self.events.cancel(timer);
                self.network_timer = None;
            }
            (None, None) => {}
        }
    }

    fn flow_done(&mut self) {
        let rpc = self.network.finish(self.now);
        if let Some(rpc) = rpc {
            self.rpc_sent(rpc as u32);
        }
        self.set_network_timer();
    }
}

impl Sampler {
    pub fn new(interval_ns: u64) -> Self {
        Sampler {
            interval_ns,
            next: interval_ns,
            before: Default::default(),
            series: DriveSeries { interval_ns, ..DriveSeries::default() },
        }
    }

    /// Adds one interval of `span_ns`.
    pub fn close(&mut self, counters: &headrace_model::scheduler::QueueCounters, span_ns: u64) {
        let (now, was, s) = (counters, &self.before, &mut self.series);
        let span = span_ns.max(1) as f64;
        s.read_bytes.push(now.read_bytes - was.read_bytes);
        s.written_bytes.push(now.written_bytes - was.written_bytes);
        s.reads.push((now.reads - was.reads) as u32);
        s.writes.push((now.writes - was.writes) as u32);
        s.busy.push(((now.busy_ns - was.busy_ns) as f64 / span) as f32);
        s.inside.push(((now.inside_ns - was.inside_ns) as f64 / span) as f32);
        let completed = now.completed - was.completed;
        let latency = (now.latency_ns - was.latency_ns) as f64;
        s.latency_ns.push(if completed > 0 { (latency / completed as f64) as f32 } else { 0.0 });
        self.before = *now;
    }
}
