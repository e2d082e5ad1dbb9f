//! The state of a simulation and its event loop.
//!
//! `hosts` defines machines with their volumes and mounts, `journal` the journals of filesystems,
//! `task` the processes of jobs, `feeder` the distribution of work, and `io` operations and I/Os in
//! progress. `timers` schedules the events of
//! cores, drives and the network, `series` records time series of drives.

mod feeder;
mod hosts;
mod io;
mod journal;
mod series;
mod task;
mod timers;

use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, Ordering as Atomic};
use std::sync::Arc;

use headrace_model::link::tcp::Tcp;
use headrace_model::link::Network;
use headrace_model::pagecache::lustre::LustreReadAhead;
use headrace_model::pagecache::{PageCache, PageIo, PageReclaim};
use headrace_model::request::Completion;
use headrace_model::slots::Slab;
use headrace_model::Nanos;

use crate::ids::{kinds, InstanceId, RpcId, TaskId};
use crate::outcome::{Counters, JobOutcome};
use crate::program::Instruction;
use crate::queue::{EventQueue, Handle};
use crate::remote::{Fetch, Rpc, Service, Vector};
use crate::scenario::Scenario;

pub(crate) use feeder::{Feeder, PacketSource, SetFiles, SetPlace, Slot};
pub(crate) use hosts::{Content, Host, Instance, Mount, Mounted, Volume};
pub(crate) use io::{Io, IoKind, Op, OpKind, OpStage, Parent};
pub(crate) use journal::{Journal, JournalState};
pub(crate) use series::Sampler;
pub(crate) use task::{
    Ahead, CopyStep, Copying, Flow, Packet, Part, Phase, Progress, Staged, State, Task, TaskFile,
    Team,
};

/// Event types. Small and `Copy`: the queue stores them by value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A task on that host finished its CPU work.
    Cpu(u32),
    /// The block queue of that volume must be processed.
    Drive(u32),
    /// A network flow completed.
    Network,
    /// A task's sleep, or its wait for a metadata server or master, is over.
    Timer(TaskId),
    /// A request to a service arrives at its next stage.
    Rpc(RpcId),
    /// The flusher of that mount looks for old dirty pages.
    Flusher(u32),
    /// The journal of that volume starts a commit.
    Commit(u32),
    /// A slot may start its next job.
    Slot(u32),
    /// A fault of the list starts or ends.
    Fault { number: u32, ends: bool },
    /// The duration of a sustained load, or the timeout of the run, is reached.
    End,
}

pub(crate) struct World<'a> {
    pub scenario: &'a Scenario,
    pub now: Nanos,
    pub events: EventQueue<Event>,
    pub hosts: Vec<Host>,
    pub volumes: Vec<Volume>,
    pub mounts: Vec<Mount>,
    pub services: Vec<Service>,
    pub instances: Slab<Instance, kinds::Instance>,
    pub ios: Slab<Io, PageIo>,
    pub ops: Slab<Op, kinds::Op>,
    pub rpcs: Slab<Rpc, kinds::Rpc>,
    pub vectors: Slab<Vector, kinds::Vector>,
    pub fetches: Slab<Fetch, kinds::Fetch>,
    pub tasks: Slab<Task, kinds::Task>,
    pub network: Network,
    /// Windows of the connections, if the scenario has them.
    pub tcp: Option<Tcp>,
    pub network_timer: Option<Handle>,
    /// Client instance of a service's file on a mount.
    pub client_instances: FxHashMap<(u32, u32), InstanceId>,
    /// Lustre read-ahead state by instance, for services that use it.
    pub lustre: FxHashMap<InstanceId, LustreReadAhead>,
    /// Shared with the worlds of other nodes of a scenario that is simulated node by node.
    pub program: Arc<[Instruction]>,
    pub feeder: Feeder,
    pub jobs: Vec<JobOutcome>,
    pub counters: Counters,
    pub over: bool,
    pub completions: Vec<Completion>,
}

impl<'a> World<'a> {
    /// Process events until none is left, the end is reached, or `cancel` is set. Call `progress`
    /// every 16384 events with the simulated time and the number of finished jobs. Return false if
    /// cancelled.
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

    /// Free the memory of what the outcome does not depend on. Only `outcome` may follow.
    pub fn reduce(&mut self) {
        self.events = EventQueue::default();
        self.mounts = Vec::new();
        self.instances = Slab::default();
        self.ios = Slab::default();
        self.ops = Slab::default();
        self.rpcs = Slab::default();
        self.vectors = Slab::default();
        self.fetches = Slab::default();
        self.client_instances = FxHashMap::default();
        self.lustre = FxHashMap::default();
        self.completions = Vec::new();
        self.feeder.sets = Vec::new();
        if self.feeder.slots.iter().all(|slot| slot.task.is_none()) {
            self.tasks = Slab::default();
        }
        for host in &mut self.hosts {
            let counters = host.cache.counters;
            host.cache = PageCache::new(0, PageReclaim::default());
            host.cache.counters = counters;
        }
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

    /// Close every elapsed interval of a volume's series.
    pub fn sample(&mut self, volume: u32) {
        let v = &mut self.volumes[volume as usize];
        let Some(sampler) = &mut v.series else { return };
        while sampler.next <= self.now {
            let at = sampler.next;
            v.queue.settle(at);
            sampler.close(v.queue.counters(), sampler.interval_ns);
            sampler.advance(at);
        }
    }
}
