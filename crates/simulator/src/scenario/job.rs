//! Files, profiles, and the run.

use serde::{Deserialize, Serialize};

/// Location of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Place {
    /// On the volume of that name on the node that runs the job.
    Volume(String),
    /// In a file service.
    Service(String),
}

/// How files of a set are assigned to jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// Each job gets the next file (after the last, the first again). Files are counted per node
    /// for local files, over all nodes for files of a service.
    #[default]
    Each,
    /// All jobs use the same file: the first, or the one that a packet names.
    Shared,
    /// A new, empty file that the job creates; it is deleted when the job ends, unless `keep` is
    /// set.
    New,
}

/// A set of files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSetSpec {
    pub name: String,
    pub on: Place,
    /// Size of each file (0 for `new` files).
    #[serde(default)]
    pub bytes: u64,
    /// Number of files: per node for local files, in total for files of a service.
    #[serde(default = "one")]
    pub count: u32,
    #[serde(default)]
    pub share: Share,
    /// Keep a `new` file when its job ends.
    #[serde(default)]
    pub keep: bool,
    /// Put whole files on the servers in turn; otherwise the server of a file is a hash of its
    /// name.
    #[serde(default)]
    pub in_turn: bool,
}

/// How a job reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// `read` and `write` through the page cache.
    #[default]
    Buffered,
    /// Memory-mapped: page faults, with read-around.
    Mapped,
    /// O_DIRECT: bypasses the page cache.
    Direct,
}

/// The order in which a pattern accesses its span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// Consecutive.
    #[default]
    Sequential,
    /// Each access starts `stride_bytes` after the start of the previous one (modulo the span).
    Strided { stride_bytes: u64 },
    /// Uniformly random in the span, aligned to the length.
    Random,
    /// Every block of the span once, in an order without locality, the same for every job.
    Permuted,
    /// Every block of the span once, in a random order of the job's own.
    Shuffled,
    /// Forward in windows of `window_bytes`, random within each window: the clusters of a tree,
    /// read branch by branch. The reads are divided evenly among the windows.
    Clustered { window_bytes: u64 },
    /// Forward with exponentially distributed gaps; the mean gap makes the reads fill the span.
    Scattered,
}

/// The operation of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatternOp {
    #[default]
    Read,
    Write,
}

/// One step of a job. Sizes and offsets are in bytes; `cpu_ns` is CPU time on an idle core of
/// speed 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Use a core.
    Compute {
        cpu_ns: u64,
    },
    /// Sleep: counted as "other" in the ledger.
    Wait {
        wait_ns: u64,
    },
    /// From now on the job holds this much memory besides the profile's `memory_bytes`; 0: none.
    /// The page cache has what is left. A job that needs more than its node has is killed.
    Memory {
        bytes: u64,
    },
    /// Open a file: reads its metadata (local file) or sends a request to the metadata server.
    Open {
        file: String,
    },
    /// Close the file. A service with close-to-open consistency sends the written data first.
    Close {
        file: String,
    },
    Stat {
        file: String,
    },
    /// Create the job's `new` file.
    Create {
        file: String,
    },
    /// Delete the job's `new` file (after `take`: the staged file).
    Delete {
        file: String,
    },
    Read {
        file: String,
        offset_bytes: u64,
        length_bytes: u64,
        #[serde(default)]
        access: Access,
        /// The job keeps what it reads in its memory, until a `memory` step or its end.
        #[serde(default)]
        hold: bool,
    },
    /// Read several ranges (offset, length): in one request if the service supports it, else one
    /// after another.
    ReadVector {
        file: String,
        ranges_bytes: Vec<(u64, u64)>,
    },
    /// Without an offset: append.
    Write {
        file: String,
        #[serde(default)]
        offset_bytes: Option<u64>,
        length_bytes: u64,
        #[serde(default)]
        access: Access,
    },
    Fsync {
        file: String,
    },
    /// Repeat `count` times: compute for `cpu_ns`, then read or write `length_bytes` in the span.
    Pattern {
        file: String,
        #[serde(default)]
        op: PatternOp,
        count: u64,
        length_bytes: u64,
        #[serde(default)]
        order: Order,
        #[serde(default)]
        cpu_ns: u64,
        /// Start of the span.
        #[serde(default)]
        offset_bytes: u64,
        /// Length of the span; 0: to the end of the file (for writes: count × length).
        #[serde(default)]
        span_bytes: u64,
        /// Divide the span into this many parts; each job accesses one part, the next job the next
        /// part. Used to sample long jobs.
        #[serde(default = "one")]
        parts: u32,
        #[serde(default)]
        access: Access,
        /// Ranges combined into one vectored read (TTreeCache); 1: no vectored reads.
        #[serde(default = "one")]
        vector: u32,
        /// Groups of reads that a thread of the job reads ahead of the work (RNTuple's cluster pool,
        /// TTreeCache with prefetching); 0: reads and work take turns. A group is a
        /// vectored read.
        #[serde(default)]
        ahead: u32,
        /// Events that each repetition represents.
        #[serde(default)]
        events: u64,
        /// Uncompressed size of the data of each repetition.
        #[serde(default)]
        uncompressed_bytes: u64,
        /// The job keeps what it reads in its memory, until a `memory` step or its end.
        #[serde(default)]
        hold: bool,
    },
    /// Read events of a file organised in clusters: `reads_per_cluster` reads of `read_bytes`
    /// spread over each cluster's bytes, with the CPU work of its events between them. If the run
    /// is fed by packets, the events are the packet's; otherwise all events of the file.
    Events {
        file: String,
        /// Events in the whole file.
        events: u64,
        events_per_cluster: u64,
        reads_per_cluster: u32,
        read_bytes: u64,
        cpu_ns_per_event: u64,
        /// Ranges combined into one vectored read; 1: no vectored reads.
        #[serde(default = "one")]
        vector: u32,
        #[serde(default)]
        uncompressed_bytes_per_event: u64,
        /// Fraction of the clusters that is skipped, evenly distributed.
        #[serde(default)]
        skip_fraction: f64,
        /// Read each cluster in an order without locality: baskets are stored in the order in which
        /// they filled up and are read in the order in which the branches need them.
        #[serde(default)]
        unordered: bool,
        #[serde(default)]
        access: Access,
        /// Groups of reads that a thread of the job reads ahead of the work (RNTuple's cluster pool,
        /// TTreeCache with prefetching); 0: reads and work take turns. A group is a
        /// vectored read.
        #[serde(default)]
        ahead: u32,
    },
    /// Reads or writes at given positions, one after another: a recorded or computed sequence in
    /// compact form.
    Sequence {
        file: String,
        #[serde(default)]
        op: PatternOp,
        /// (offset, length) of each access.
        ranges_bytes: Vec<(u64, u64)>,
        /// CPU work before each access; none if the list is empty.
        #[serde(default)]
        cpu_ns: Vec<u64>,
        /// Sleep before each access (after the CPU work); none if the list is empty.
        #[serde(default)]
        wait_ns: Vec<u64>,
        /// CPU work after the last access.
        #[serde(default)]
        cpu_after_ns: u64,
        /// Ranges combined into one vectored read, whose work and sleep come before it; 1: no
        /// vectored reads.
        #[serde(default = "one")]
        vector: u32,
        #[serde(default)]
        access: Access,
        /// Groups of reads that a thread of the job reads ahead of the work (RNTuple's cluster pool,
        /// TTreeCache with prefetching); 0: reads and work take turns. A group is
        /// the whole step: all of its reads come before its work.
        #[serde(default)]
        ahead: u32,
        /// Events that the whole step represents, and the uncompressed size of their data.
        #[serde(default)]
        events: u64,
        #[serde(default)]
        uncompressed_bytes: u64,
        /// If the run is fed by packets, execute the step only if the packet contains this event.
        #[serde(default)]
        first_event: Option<u64>,
        /// If the run is fed by packets, execute the step only if the packet before was of another
        /// file: a reader that keeps its last file open.
        #[serde(default)]
        new_file: bool,
    },
    /// Requests of equal size with several in flight, as in fio: one thread reaps a completion,
    /// computes for `cpu_ns`, submits.
    Requests {
        file: String,
        /// Total number of requests; 0: until the duration is over.
        #[serde(default)]
        count: u64,
        #[serde(default)]
        duration_ns: u64,
        length_bytes: u64,
        #[serde(default)]
        order: Order,
        #[serde(default = "one")]
        in_flight: u32,
        /// Fraction of reads; each request is drawn at random, the others are writes.
        #[serde(default = "all")]
        read_fraction: f64,
        #[serde(default)]
        cpu_ns: u64,
        /// Length of the accessed region, from the start of the file; 0: the whole file (required
        /// for writes to a `new` file).
        #[serde(default)]
        span_bytes: u64,
        #[serde(default)]
        access: Access,
    },
    Repeat {
        times: u64,
        steps: Vec<Step>,
    },
    /// Threads of the job share parts of its work: each takes the next part when it has done one,
    /// and the job continues when all parts are done (ROOT's TTreeProcessorMT). A thread has its
    /// own position and read-ahead in each file; files that parts use are opened before.
    Parallel {
        threads: u32,
        /// What every thread does first (ROOT's threads open the file themselves).
        #[serde(default)]
        begin: Vec<Step>,
        parts: Vec<Vec<Step>>,
    },
    /// Copy the next file of set `from` to a new file of set `to` (a `new` set), `chunk_bytes` at a
    /// time. With `background` the job continues meanwhile. The node's pCache, if there is one, is
    /// searched first.
    Stage {
        from: String,
        to: String,
        #[serde(default = "chunk")]
        chunk_bytes: u64,
        #[serde(default)]
        background: bool,
    },
    /// Wait for the oldest file staged to set `to` and make it the job's file of that set.
    Take {
        file: String,
    },
}

/// A job needs at least so much page cache; with less its host, or its control group, is out of
/// memory.
pub const LEAST_CACHE_BYTES: u64 = 1 << 20;

/// The work of a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSpec {
    pub name: String,
    /// Memory of one job for its whole time, and of each free slot; it reduces the page cache.
    #[serde(default)]
    pub memory_bytes: u64,
    pub steps: Vec<Step>,
}

/// Amount or duration of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Load {
    /// Fixed number of jobs.
    Batch { jobs: u64 },
    /// Refill the slots until the duration is over. Jobs that still run then are ended and marked
    /// as unfinished.
    Sustained { duration_ns: u64 },
}

/// How jobs get their input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Feed {
    /// From the file sets alone.
    #[default]
    Files,
    /// A master gives packets of events to workers on request (PROOF).
    Packets(PacketSpec),
}

/// Packets of events. `run.load` is ignored: there is one worker per slot, and the run ends with
/// the last packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketSpec {
    /// The file set that holds the events. Local files go to workers of their node as long as there
    /// are any.
    pub file: String,
    pub events_per_file: u64,
    /// Total number of events; 0: all events of all files.
    #[serde(default)]
    pub events: u64,
    /// Size of the first packet of each worker.
    pub first_events: u64,
    /// Later packets contain the events that the worker processes in this time at its rate so far …
    pub target_ns: u64,
    /// … within these limits.
    pub min_events: u64,
    pub max_events: u64,
    /// Time of the master per request (one at a time), and round-trip time of a request to it.
    #[serde(default)]
    pub master_ns: u64,
    #[serde(default)]
    pub round_trip_ns: u64,
    /// How the master of real runs chooses packets. Then local files are the same on each node,
    /// and `target_ns`, `min_events` and `max_events` have no effect.
    #[serde(default)]
    pub rules: Option<PacketRules>,
}

/// When the events are divided among the workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// On request.
    #[default]
    Adaptive,
    /// Into equal shares before the workers start.
    Static,
}

/// The rules of PROOF's adaptive packetiser (docs/packets.md).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketRules {
    #[serde(default)]
    pub split: Split,
    /// A packet takes a quarter of the time that the query still needs, within these limits.
    pub shortest_ns: u64,
    pub longest_ns: u64,
    /// Packets are whole clusters of this many events.
    pub cluster_events: u64,
    /// Workers that read from one server at once, at most.
    #[serde(default)]
    pub workers_per_server: Option<u32>,
}

/// How jobs are assigned to nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assign {
    /// To the first free slot.
    #[default]
    Pull,
    /// Round-robin over the nodes, independent of their speed: nodes then share only services.
    Static,
}

/// Settings of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    pub profile: String,
    /// Names of the nodes used; empty: all nodes.
    #[serde(default)]
    pub nodes: Vec<String>,
    pub slots_per_node: u32,
    pub load: Load,
    #[serde(default)]
    pub feed: Feed,
    #[serde(default)]
    pub assign: Assign,
    /// The first jobs start at random times within this interval, which avoids synchronised jobs.
    #[serde(default)]
    pub stagger_ns: u64,
    /// Time between the end of a job and the start of the next one in its slot.
    #[serde(default)]
    pub dispatch_ns: u64,
    /// Multiply the CPU work of each job by a factor drawn uniformly from 1 - spread to 1 + spread.
    #[serde(default)]
    pub cpu_spread: f64,
    /// Random variation of each piece of CPU work, as its standard deviation over its mean. What
    /// one piece takes more, the next ones take less: a job's work in all stays as given.
    #[serde(default)]
    pub cpu_variation: f64,
    /// Space per node for staged files that other jobs may reuse (pCache); 0: no pCache.
    #[serde(default)]
    pub pcache_bytes: u64,
    /// Abort the run at this time; 0: never.
    #[serde(default)]
    pub timeout_ns: u64,
    /// Memory of each job, with the page cache that it fills (a control group per job); 0: no limit.
    #[serde(default)]
    pub job_memory_limit_bytes: u64,
    /// End a job at its first failed read or write, like a program that treats I/O errors as fatal;
    /// otherwise it continues.
    #[serde(default)]
    pub fail_on_error: bool,
}

fn one<T: From<u8>>() -> T {
    T::from(1)
}

fn all() -> f64 {
    1.0
}

fn chunk() -> u64 {
    1 << 20
}
