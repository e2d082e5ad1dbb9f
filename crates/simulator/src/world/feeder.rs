//! State of the distribution of work: slots, files of sets, packets of events, and the nodes'
//! pCaches.

use std::collections::{BTreeMap, VecDeque};

use headrace_model::Nanos;

use crate::ids::{InstanceId, TaskId};
use crate::packets::Packetiser;

/// A job slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub host: u32,
    pub number: u32,
    pub task: Option<TaskId>,
}

/// Where the files of a set are.
#[derive(Clone, Debug)]
pub(crate) enum SetPlace {
    /// Indexed by host: instances on its volume.
    Volumes(Vec<Vec<InstanceId>>),
    Service {
        service: u32,
        files: Vec<u32>,
    },
}

/// The files of a set and their locations.
#[derive(Clone, Debug)]
pub(crate) struct SetFiles {
    pub place: SetPlace,
    /// Indexed by host: the mount of the volume or service, if the host has one.
    pub mount: Vec<Option<u32>>,
    /// Number of files assigned so far: one counter per host for local sets, a single one
    /// otherwise.
    pub turn: Vec<u64>,
}

/// Files whose events are not all assigned yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct PacketSource {
    /// (file, next event, number of workers on the file).
    pub files: Vec<(u32, u64, u32)>,
    pub left: u64,
}

/// Staged files that other jobs of the node can use.
#[derive(Debug, Default)]
pub(crate) struct PCache {
    /// By host and source (set, file): instance and bytes.
    entries: BTreeMap<(u32, (u32, u32)), (InstanceId, u64)>,
    /// By host: sources, least recently used first, and bytes held.
    order: BTreeMap<u32, (VecDeque<(u32, u32)>, u64)>,
}

impl PCache {
    pub fn find(&mut self, host: u32, source: (u32, u32)) -> Option<InstanceId> {
        let &(instance, _) = self.entries.get(&(host, source))?;
        let (order, _) = self.order.entry(host).or_default();
        order.retain(|&other| other != source);
        order.push_back(source);
        Some(instance)
    }

    /// Add a staged file; return the instances that are evicted.
    pub fn insert(
        &mut self,
        host: u32,
        source: (u32, u32),
        instance: InstanceId,
        bytes: u64,
        limit: u64,
    ) -> Vec<InstanceId> {
        let mut gone = Vec::new();
        let (order, held) = self.order.entry(host).or_default();
        if let Some((old, old_bytes)) = self.entries.remove(&(host, source)) {
            // Two jobs staged the file at the same time: keep the later copy.
            order.retain(|&other| other != source);
            *held -= old_bytes;
            gone.push(old);
        }
        while *held + bytes > limit {
            let Some(oldest) = order.pop_front() else { break };
            if let Some((old, old_bytes)) = self.entries.remove(&(host, oldest)) {
                *held -= old_bytes;
                gone.push(old);
            }
        }
        order.push_back(source);
        *held += bytes;
        self.entries.insert((host, source), (instance, bytes));
        gone
    }
}

/// State of the distribution of work.
#[derive(Debug, Default)]
pub(crate) struct Feeder {
    pub slots: Vec<Slot>,
    pub sets: Vec<SetFiles>,
    pub task_of_job: Vec<Option<TaskId>>,
    pub next_job: u64,
    pub finished: u64,
    /// Jobs that each node has yet to receive (static assignment).
    pub quota: BTreeMap<u32, u64>,
    pub packet_set: u32,
    /// By host for local files; one without a host for files of services.
    pub sources: BTreeMap<Option<u32>, PacketSource>,
    pub packetiser: Option<Packetiser>,
    /// Workers that wait until a server has fewer readers.
    pub waiting: Vec<TaskId>,
    pub master_free: Nanos,
    pub pcache: PCache,
    pub workers_left: u32,
}
