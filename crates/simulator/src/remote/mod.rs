//! Requests to file services: from the client over the network to a server's threads, cores and
//! drive, and back.
//!
//! `client_io` determines what a client's reads, writes and syncs need; `requests` turns that into
//! requests to the responsible servers; `transport` moves requests and replies. The server side is
//! in `serving`.

mod client_io;
pub(crate) mod requests;
mod transport;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::ops::Range;

use headrace_model::histogram::Histogram;
use headrace_model::Nanos;
use rustc_hash::FxHashMap;

use crate::block_cache::BlockCache;
use crate::ids::{InstanceId, IoId, JobId, RpcId, TaskId, ThreadId, VectorId};
use crate::layout::{mixed, Layout, ServiceFile};
use crate::outcome::ServiceOutcome;

/// The first process number of server threads as the I/O schedulers see them; lower numbers belong
/// to jobs.
pub(crate) const FIRST_SERVER_PROCESS: u32 = 4096;

/// Where a data server gets the files.
#[derive(Debug)]
pub(crate) enum Backend {
    /// From a volume of its host.
    Volume,
    /// From another service, through a cache of blocks if it has one.
    Upstream { cache: Option<Box<BlockCache>> },
}

/// A data server of a service.
#[derive(Debug)]
pub(crate) struct Target {
    pub host: u32,
    /// Where the files' parts are: the mount of its volume, or its own mount of the upstream.
    pub mount: u32,
    pub backend: Backend,
    /// Free threads, and requests that wait for one.
    pub free_threads: Vec<ThreadId>,
    pub waiting: VecDeque<RpcId>,
    pub stored_bytes: u64,
}

/// Requests in flight from one client to one target.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub in_flight: u32,
    pub waiting: VecDeque<RpcId>,
}

/// The state of a file service.
#[derive(Debug)]
pub(crate) struct Service {
    pub settled: crate::scenario::SettledTuning,
    pub layout: Layout,
    pub targets: Vec<Target>,
    /// The service that its data servers are clients of.
    pub upstream: Option<u32>,
    pub replicas: u32,
    /// Clients read the first replica while its server is up (Ceph's primary).
    pub primary_reads: bool,
    /// Parity objects of a striped file.
    pub parity: u32,
    pub files: Vec<ServiceFile>,
    pub free_files: Vec<u32>,
    pub made: u64,
    /// Indexed by client host × targets + target.
    pub channels: Vec<Channel>,
    /// Connections of write pipelines that send a packet, by file, sender and target, with the
    /// packets that wait for it.
    pub connections: FxHashMap<(u32, u32, u32), VecDeque<RpcId>>,
    /// The service of its metadata servers, if they have hosts.
    pub metadata_by: Option<u32>,
    /// Of a service of metadata servers: the inode of each file by the file's number.
    pub inodes: BTreeMap<u64, InstanceId>,
    /// For each metadata server, the times at which its threads become free.
    pub metadata: Vec<BinaryHeap<Reverse<Nanos>>>,
    /// Requests that wait for a failed server to return.
    pub parked: Vec<RpcId>,
    /// Targets that clients consider down.
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
        // Chosen by a hash of the name (GlusterFS, XRootD), or round-robin (striped files).
        let first = match self.layout {
            Layout::Striped { .. } => number % targets,
            _ => mixed(number) % targets,
        };
        let file =
            ServiceFile { bytes, first: first as u32, number, live: true, ..Default::default() };
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

    /// Return the number of copies that a client sends: for writes one per replica, unless servers
    /// forward them (pipeline).
    pub fn copies(&self, write: bool) -> u32 {
        if write && !self.settled.replica_pipeline {
            self.replicas
        } else {
            1
        }
    }

    /// Return the maximum write size, and the number of contiguous bytes at `offset`.
    pub fn write_piece(&self, _file: u32, offset: u64) -> (u64, u64) {
        (self.settled.write_request_bytes, self.layout.locate(offset, self.replicas).in_row)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RpcKind {
    Read,
    Write,
    /// Flush written data to the server's drive.
    Commit,
    /// An operation of a metadata server that reads, or changes, the inode of a file.
    Lookup,
    Change,
}

/// The current stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The server that sends it uses its host's cores.
    Calling,
    /// The data of a write is being sent by the client.
    Sending,
    /// In transit to the server.
    Arriving,
    /// Using the server's cores, then its volume.
    Working,
    Storing,
    /// The data of a read is being sent by the server.
    Returning,
    /// The data waits until the window of the connection allows it.
    Opening,
    /// The last packets of the data have not arrived: windows held them back, or they were lost.
    Arrears,
    /// The reply is in transit to the client.
    Delivering,
    /// Waits until the client tries another server.
    TimedOut,
    /// An overwrite of coded data waits for the old data and parity.
    Gathering,
    /// Waits for the requests for its parts.
    Spreading,
}

/// Who sent a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A client, for this I/O.
    Client(IoId),
    /// The server of another replica, for this request.
    Forwarder(RpcId),
    /// A client, for one of the parts of coded data that this request needs.
    Gatherer(RpcId),
    /// A process, which waits for a metadata operation.
    Process(TaskId),
}

/// A request to a data server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rpc {
    pub kind: RpcKind,
    pub stage: Stage,
    pub service: u32,
    pub target: u32,
    /// The part of the first replica, and the number of the replica used.
    pub part: u32,
    pub replica: u32,
    pub file: u32,
    pub client: u32,
    pub offset: u64,
    pub bytes: u64,
    pub sender: Sender,
    /// Number of completions that the reply waits for: the server's own storage and the next
    /// replica.
    pub pending: u8,
    /// The server's thread, while the request has one.
    pub thread: Option<ThreadId>,
    pub job: Option<JobId>,
    pub sent: Nanos,
    pub synced: bool,
    /// The server could not read or write the data.
    pub failed: bool,
    /// Number of other replicas that could not be read.
    pub unread: u8,
    /// The ranges of a vectored read.
    pub vector: Option<VectorId>,
}

/// The ranges (offset, length) of a vectored read, in order.
#[derive(Debug)]
pub(crate) struct Vector {
    pub ranges: Box<[(u64, u64)]>,
    /// Number of ranges that the server has read, or is reading.
    pub begun: usize,
    /// A range is being stored in this call; its completion only sets `done`.
    pub storing: bool,
    pub done: bool,
    pub bytes: u64,
}

/// Blocks on their way from the upstream of a data server to its cache.
#[derive(Clone, Debug)]
pub(crate) struct Fetch {
    pub service: u32,
    pub target: u32,
    pub file: u32,
    pub range: Range<u64>,
}
