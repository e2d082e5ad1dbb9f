//! Hosts with their cores and page cache, volumes, mounts and open files.

use std::collections::VecDeque;

use headrace_model::filesystem::Filesystem;
use headrace_model::pagecache::readahead::{ReadAhead, ReadAheadRules};
use headrace_model::pagecache::{CachedFile, PageCache, WritebackSpec};
use headrace_model::scheduler::BlockQueue;
use headrace_model::slots::Id;
use headrace_model::Nanos;

use super::journal::Journal;
use super::series::Sampler;
use crate::cpu::Cpu;
use crate::ids::{InstanceId, OpId, Worker};
use crate::queue::Handle;

#[derive(Debug)]
pub(crate) struct Host {
    pub name: String,
    pub is_node: bool,
    /// Index of its specification in `nodes` or `servers`.
    pub spec: u32,
    pub cpu: Cpu<Worker>,
    pub cpu_timer: Option<Handle>,
    pub cache: PageCache,
    pub call_ns: u64,
    pub create_ns: u64,
    pub remove_ns: u64,
    pub beside_job_ns: u64,
    pub beside_request_ns: u64,
    pub copy_ns_per_byte: f64,
    pub write_copy_ns_per_byte: f64,
    pub first_touch_ns_per_byte: f64,
    pub memory_bytes: u64,
    /// Memory of the system, and of jobs for their whole time.
    pub mapped_bytes: u64,
    /// Memory that jobs hold besides.
    pub held_bytes: u64,
    pub writeback: WritebackSpec,
    pub latency_ns: u64,
    pub dirty_limit_pages: u64,
    pub background_pages: u64,
    pub dirty_expire_ns: u64,
    pub dirty_writeback_ns: u64,
    /// Writers throttled until the amount of dirty data falls.
    pub throttled: VecDeque<OpId>,
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
    /// The instance whose pages are the filesystem's metadata blocks.
    pub metadata: InstanceId,
    pub max_bio_pages: u32,
    pub journal: Journal,
    pub series: Option<Sampler>,
}

/// What a mount shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounted {
    Volume(u32),
    Service(u32),
}

/// A filesystem as one host sees it: a local volume or a service.
#[derive(Debug)]
pub(crate) struct Mount {
    pub host: u32,
    pub mounted: Mounted,
    /// A file server of the host uses it, not its processes: requests to a service use the host's
    /// cores.
    pub of_server: bool,
    pub read_ahead_pages: u32,
    /// Pages that one read call may fetch at once beyond the read-ahead limit.
    pub large_read_pages: u32,
    /// No kernel read-ahead: exactly the requested pages are fetched.
    pub exact: bool,
    /// Instances with dirty pages, ordered by when they first became dirty.
    pub dirty: VecDeque<InstanceId>,
    /// Instances whose writeback an operation waits for.
    pub urgent: VecDeque<InstanceId>,
    pub writing: u32,
    pub writing_limit: u32,
    pub timer: Option<Handle>,
    pub pumping: bool,
}

/// What an instance shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The file in the volume's filesystem, or the service's file.
    File(u32),
    /// The metadata blocks of the volume's filesystem.
    Metadata,
}

/// A file on a mount, with its pages in the host's cache.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub mount: u32,
    pub cache_file: Id<CachedFile>,
    pub content: Content,
    pub bytes: u64,
    pub opened: u32,
    /// I/Os in progress.
    pub ios: u32,
    /// Deleted: removed when its last I/O completes.
    pub doomed: bool,
    pub dirty_since: Nanos,
    pub in_dirty_list: bool,
    pub urgent: bool,
    /// Counted among the files that a journal commit waits for.
    pub ordered: bool,
    pub flush_cursor: u32,
    /// Write I/Os in progress, and operations that wait for all of them.
    pub writes: u32,
    pub sync_waiters: Vec<OpId>,
    /// The servers hold written pages for which no commit to their drives was requested yet.
    pub uncommitted: bool,
    /// Write-behind bytes in flight, and the first of the writes that wait for space in the window.
    pub behind_bytes: u64,
    pub behind_waiter: Option<OpId>,
    pub read_ahead: ReadAhead,
    pub last_access: Nanos,
}
