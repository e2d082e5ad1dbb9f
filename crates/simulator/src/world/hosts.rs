//! Hosts with their cores and page cache, their volumes and mounts, and the files on these.

use std::collections::VecDeque;

use headrace_model::filesystem::Filesystem;
use headrace_model::pagecache::readahead::{ReadAhead, ReadAheadRules};
use headrace_model::pagecache::PageCache;
use headrace_model::scheduler::BlockQueue;
use headrace_model::Nanos;

use super::Sampler;
use crate::cpu::Cpu;
use crate::journal::Journal;
use crate::queue::Handle;

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
