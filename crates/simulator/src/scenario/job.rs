//! Files, profiles, and the run.

use serde::{Deserialize, Serialize};

/// Where files are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Place {
    /// On the volume of that name of the node where the job runs.
    Volume(String),
    /// In a file service.
    Service(String),
}

/// Which file of a set a job gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Share {
    /// The next one in turn, for each job its own (again the first after the last). Turns are counted a node for local
    /// files, over the whole site for files of a service.
    #[default]
    Each,
    /// All jobs the same: the first, or the one that a packet names.
    Shared,
    /// A new, empty file that the job makes; it is deleted when the job ends, unless `keep`.
    New,
}

/// A set of files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileSetSpec {
    pub name: String,
    pub on: Place,
    /// Size of each (0 for `new` ones).
    #[serde(default)]
    pub bytes: u64,
    /// How many: on each node for local files, in all for files of a service.
    #[serde(default = "one")]
    pub count: u32,
    #[serde(default)]
    pub share: Share,
    /// A `new` file stays when its job ends.
    #[serde(default)]
    pub keep: bool,
}

/// How a job reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// `read` and `write` through the page cache.
    #[default]
    Buffered,
    /// Mapped: page faults, with read-around.
    Mapped,
    /// O_DIRECT: past the page cache.
    Direct,
}

/// In which order a pattern visits its span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// One behind the other.
    #[default]
    Sequential,
    /// Each `stride_bytes` behind the start of the one before (wrapping around in the span).
    Strided { stride_bytes: u64 },
    /// Anywhere in the span, aligned to the length.
    Random,
    /// Every piece of the span once, in an order without locality.
    Permuted,
    /// Every piece of the span once, in random order (the same for every job).
    Shuffled,
    /// Forward in windows of `window_bytes`, anywhere within each: clusters of a tree, branch by branch. As many reads a
    /// window as its share of the count.
    Clustered { window_bytes: u64 },
    /// Forward, each read behind the one before after a gap whose mean makes the reads fill the span; gaps are
    /// exponential.
    Scattered,
}

/// What a pattern does at each place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PatternOp {
    #[default]
    Read,
    Write,
}

/// One step of a job. Sizes and offsets are bytes, `cpu_ns` is work on an idle core of speed 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Work on a core.
    Compute {
        cpu_ns: u64,
    },
    /// Sleep: counted as "other" in the ledger.
    Wait {
        wait_ns: u64,
    },
    /// Opens a file: metadata is read (locally), or the metadata server is asked.
    Open {
        file: String,
    },
    /// Closes it; with a service that promises close-to-open consistency, what was written is sent first.
    Close {
        file: String,
    },
    Stat {
        file: String,
    },
    /// Makes the job's `new` file.
    Create {
        file: String,
    },
    /// Deletes the job's `new` file (of `take`: the staged one).
    Delete {
        file: String,
    },
    Read {
        file: String,
        offset_bytes: u64,
        length_bytes: u64,
        #[serde(default)]
        access: Access,
    },
    /// Several ranges (offset, length) with one request where the service can, else one after the other.
    ReadVector {
        file: String,
        ranges_bytes: Vec<(u64, u64)>,
    },
    /// Without an offset: at the end of the file.
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
    /// `count` times: `cpu_ns` of work, then a read or write of `length_bytes` somewhere in the span.
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
        /// Where the span starts.
        #[serde(default)]
        offset_bytes: u64,
        /// How long it is; 0: to the end of the file (for writes: as long as count x length).
        #[serde(default)]
        span_bytes: u64,
        /// Each job visits one part of so many of the span, the next one the part behind it: samples of long jobs.
        #[serde(default = "one")]
        parts: u32,
        #[serde(default)]
        access: Access,
        /// Ranges gathered into one vectored read (TTreeCache); 1: none.
        #[serde(default = "one")]
        vector: u32,
        /// Events that each step stands for.
        #[serde(default)]
        events: u64,
        /// Bytes each step's data has when uncompressed.
        #[serde(default)]
        uncompressed_bytes: u64,
    },
    /// Reads events of a file laid out in clusters: for every cluster, `reads` reads of `read_bytes` spread over the
    /// cluster's bytes, and the work of its events between them. In a run fed by packets the events are the packet's;
    /// else they are the whole file.
    Events {
        file: String,
        /// Events of a whole file.
        events: u64,
        events_per_cluster: u64,
        reads_per_cluster: u32,
        read_bytes: u64,
        cpu_ns_per_event: u64,
        /// Ranges gathered into one vectored read; 1: none.
        #[serde(default = "one")]
        vector: u32,
        #[serde(default)]
        uncompressed_bytes_per_event: u64,
        /// Share of the clusters that is skipped, evenly.
        #[serde(default)]
        skip_fraction: f64,
        /// The reads of a cluster come in an order without locality: baskets lie as they filled up, and are asked for as the
        /// branches need them.
        #[serde(default)]
        unordered: bool,
        #[serde(default)]
        access: Access,
    },
    /// Reads or writes at given places, one after the other: a recorded or laid-out run of them, in compact form.
    Sequence {
        file: String,
        #[serde(default)]
        op: PatternOp,
        /// (offset, length) of each.
        ranges_bytes: Vec<(u64, u64)>,
        /// Work before each; none where the list is empty.
        #[serde(default)]
        cpu_ns: Vec<u64>,
        /// Sleep before each (after the work); none where the list is empty.
        #[serde(default)]
        wait_ns: Vec<u64>,
        /// Work after the last.
        #[serde(default)]
        cpu_after_ns: u64,
        #[serde(default)]
        access: Access,
        /// Events that the whole step stands for, and bytes that their data has when uncompressed.
        #[serde(default)]
        events: u64,
        #[serde(default)]
        uncompressed_bytes: u64,
        /// In a run fed by packets the step is taken only when this event is among the packet's.
        #[serde(default)]
        first_event: Option<u64>,
    },
    /// Requests of equal size, several in flight at once, by fio's words: one thread reaps, works for `cpu_ns`, submits.
    Requests {
        file: String,
        /// Requests in all; 0: until the duration is over.
        #[serde(default)]
        count: u64,
        #[serde(default)]
        duration_ns: u64,
        length_bytes: u64,
        #[serde(default)]
        order: Order,
        #[serde(default = "one")]
        in_flight: u32,
        /// Share of reads; the rest are writes, drawn one by one.
        #[serde(default = "all")]
        read_fraction: f64,
        #[serde(default)]
        cpu_ns: u64,
        /// How much of the file, from its start; 0: all of it (needed for writes to a `new` file).
        #[serde(default)]
        span_bytes: u64,
        #[serde(default)]
        access: Access,
    },
    Repeat {
        times: u64,
        steps: Vec<Step>,
    },
    /// Copies the next file of set `from` into a new file of set `to` (a `new` set), `chunk_bytes` at a time; in the
    /// background the job goes on. A node's pCache, where there is one, is asked first.
    Stage {
        from: String,
        to: String,
        #[serde(default = "chunk")]
        chunk_bytes: u64,
        #[serde(default)]
        background: bool,
    },
    /// Waits for the oldest file staged to set `to` and makes it the job's file of that set.
    Take {
        file: String,
    },
}

/// What a job is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSpec {
    pub name: String,
    /// Memory of one job: what jobs have, the page cache has not.
    #[serde(default)]
    pub memory_bytes: u64,
    pub steps: Vec<Step>,
}

/// How long there is work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Load {
    /// That many jobs in all.
    Batch { jobs: u64 },
    /// Slots are refilled until the time is over; jobs that run then are ended there and marked.
    Sustained { duration_ns: u64 },
}

/// How jobs get their input.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Feed {
    /// By the file sets alone.
    #[default]
    Files,
    /// A master hands packets of events to workers as they ask (PROOF).
    Packets(PacketSpec),
}

/// Packets of events. `run.load` is ignored: there is one worker a slot, and the run ends with the last packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PacketSpec {
    /// The set whose files hold the events. Local files are handed to workers of their node while there are any.
    pub file: String,
    pub events_per_file: u64,
    /// Events handed out in all; 0: all of all files.
    #[serde(default)]
    pub events: u64,
    /// The first packet of each worker.
    pub first_events: u64,
    /// Later packets are as large as the worker needs this long for, by its rate so far …
    pub target_ns: u64,
    /// … within these limits.
    pub min_events: u64,
    pub max_events: u64,
    /// Time of the master for a request (one at a time), and of a request on its way to it and back.
    #[serde(default)]
    pub master_ns: u64,
    #[serde(default)]
    pub round_trip_ns: u64,
    /// Whether a worker whose node has no packets left gets others' (over the network; the set must be in a service).
    #[serde(default)]
    pub steal: bool,
}

/// Which node a job goes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Assign {
    /// Wherever a slot is free first.
    #[default]
    Pull,
    /// In turn, node by node, whatever their speed: nodes then share nothing but services.
    Static,
}

/// The run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    pub profile: String,
    /// Names of the nodes used; all where none is given.
    #[serde(default)]
    pub nodes: Vec<String>,
    pub slots_per_node: u32,
    pub load: Load,
    #[serde(default)]
    pub feed: Feed,
    #[serde(default)]
    pub assign: Assign,
    /// The first jobs start at random within this time, so that they do not march in step.
    #[serde(default)]
    pub stagger_ns: u64,
    /// Time between the end of a job and the start of the next in its slot.
    #[serde(default)]
    pub dispatch_ns: u64,
    /// CPU work of each job is multiplied by a factor drawn evenly from 1 - spread to 1 + spread.
    #[serde(default)]
    pub cpu_spread: f64,
    /// Each piece of CPU work is drawn: 0 as given, 1 exponentially distributed, between: a mixture.
    #[serde(default)]
    pub cpu_variation: f64,
    /// Space of a node for staged files that other jobs may want (pCache); 0: no pCache.
    #[serde(default)]
    pub pcache_bytes: u64,
    /// The run is broken off here; 0: never.
    #[serde(default)]
    pub timeout_ns: u64,
    /// A job whose read or write fails ends there, as one does that takes an I/O error for what it is; else it goes on.
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
