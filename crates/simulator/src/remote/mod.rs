//! Requests to file services: from the client's need over the network to a server's threads, cores and drive, and back.
//!
//! `client_io` is what a client's reads, writes and syncs need, `requests` makes requests of it to the servers that have
//! it, `transport` is their way there and back. What happens at the server is `serving`.

mod client_io;
mod requests;
mod transport;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use headrace_model::histogram::Histogram;
use headrace_model::Nanos;

use crate::layout::{mixed, Layout, ServiceFile};
use crate::outcome::ServiceOutcome;

/// Process numbers of server threads, as the schedulers under them see them: behind those of jobs.
pub(crate) const FIRST_SERVER_PROCESS: u32 = 4096;

/// A data server of a service.
#[derive(Debug)]
pub(crate) struct Target {
    pub host: u32,
    pub mount: u32,
    /// Threads that are free, and requests that wait for one.
    pub free_threads: Vec<u32>,
    pub waiting: VecDeque<u32>,
    pub stored_bytes: u64,
}

/// Requests that one client has on their way to one target.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub in_flight: u32,
    pub waiting: VecDeque<u32>,
}

/// A file service at work.
#[derive(Debug)]
pub(crate) struct Service {
    pub settled: crate::scenario::SettledTuning,
    pub layout: Layout,
    pub targets: Vec<Target>,
    pub replicas: u32,
    pub files: Vec<ServiceFile>,
    pub free_files: Vec<u32>,
    pub made: u64,
    /// By client host x target.
    pub channels: Vec<Channel>,
    /// When each thread of each metadata server is free.
    pub metadata: Vec<BinaryHeap<Reverse<Nanos>>>,
    /// Requests that wait for a server to come back.
    pub parked: Vec<u32>,
    /// Targets that clients know to be down.
    pub suspected: Vec<bool>,
    pub totals: ServiceTotals,
}

/// Totals of a service.
#[derive(Debug, Default)]
pub(crate) struct ServiceTotals {
    pub outcome: ServiceOutcome,
    pub latency: Histogram,
}

impl Service {
    pub fn grow(&mut self, file: u32, bytes: u64) {
        let f = &mut self.files[file as usize];
        f.bytes = f.bytes.max(bytes);
    }

    pub fn new_file(&mut self, bytes: u64) -> u32 {
        let number = self.made;
        self.made += 1;
        let targets = self.targets.len() as u64;
        // A hash of the name (GlusterFS, XRootD's spread), or turns (striped files).
        let first = match self.layout {
            Layout::Striped { .. } => number % targets,
            _ => mixed(number) % targets,
        };
        let file = ServiceFile { bytes, first: first as u32, number, parts: Vec::new(), live: true };
        match self.free_files.pop() {
            Some(index) => {
                self.files[index as usize] = file;
                index
            }
            None => {
                self.files.push(file);
                (self.files.len() - 1) as u32
            }
        }
    }

    /// How many copies of a piece a client sends: of writes one for each replica, unless they go on from server to server.
    pub fn copies(&self, write: bool) -> u32 {
        if write && !self.settled.replica_pipeline {
            self.replicas
        } else {
            1
        }
    }

    /// The largest write at `offset`, and the bytes that lie in a row there.
    pub fn write_piece(&self, _file: u32, offset: u64) -> (u64, u64) {
        (self.settled.write_request_bytes, self.layout.locate(offset, self.replicas).in_row)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RpcKind {
    Read,
    Write,
    /// What was written goes to the server's drive.
    Commit,
}

/// Where a request is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Data of a write leaves the client.
    Sending,
    /// On the way to the server.
    Arriving,
    /// On the server's cores, then on its volume.
    Working,
    Storing,
    /// Data of a read leaves the server.
    Returning,
    /// On the way back.
    Delivering,
    /// Waits until the client tries another server.
    TimedOut,
}

/// A request to a data server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rpc {
    pub kind: RpcKind,
    pub stage: Stage,
    pub service: u32,
    pub target: u32,
    /// Which replica of the part, counted from the part's first.
    pub part: u32,
    pub replica: u32,
    pub file: u32,
    pub client: u32,
    pub offset: u64,
    pub bytes: u64,
    /// The client's I/O that it is for; `NONE` when it comes from another server.
    pub io: u32,
    /// The request that forwarded this one.
    pub upstream: u32,
    /// What has to be done before the answer: own storage, and the next replica's.
    pub pending: u8,
    pub thread: u32,
    pub job: u32,
    pub sent: Nanos,
    pub synced: bool,
}
