//! The page cache of a host, stored as extents of contiguous pages, not as single pages.
//!
//! Active and inactive lists as in `mm/vmscan.c`: pages enter the inactive list, a second access
//! activates them, reclaim takes from the inactive tail and refills the inactive list from the
//! active one. An extent has at most 1024 pages (4 MiB) and reclaim trims it page by page, so page
//! ages keep that resolution.
//!
//! `lookup` finds pages, `writeback` makes them dirty and writes them, `reclaim` evicts them, and
//! `extents` has the operations on extents that these share. `readahead` computes read-ahead
//! windows, `two_windows` those of kernels before 2.6.23.

mod extent;
mod extents;
mod lookup;
pub mod lustre;
pub mod readahead;
mod reclaim;
pub mod two_windows;
mod writeback;

use serde::{Deserialize, Serialize};

pub use extent::{Extent, PageState};
pub use writeback::WritebackSpec;

/// Bytes per page.
pub const PAGE_BYTES: u64 = 4096;
/// No extent, no page, no I/O.
pub const NONE: u32 = u32::MAX;

/// Extents of a file are found by region of 4096 pages (16 MiB). No extent crosses a region
/// boundary.
const REGION_SHIFT: u32 = 12;

#[derive(Debug, Default)]
struct CachedFile {
    regions: Vec<Vec<(u32, u32)>>,
    dirty_pages: u64,
    /// The last extent found: most look-ups hit it or the next one.
    hint: std::cell::Cell<u32>,
    /// End of the cached pages: no page at or after this one is in the cache.
    pages_end: u32,
    in_use: bool,
}

#[derive(Clone, Copy, Debug)]
struct List {
    newest: u32,
    oldest: u32,
    pages: u64,
}

/// Counters of the cache since its creation, in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCounters {
    /// Requested pages that were in the cache or already being read.
    pub hit_pages: u64,
    /// Requested pages that had to be read.
    pub missed_pages: u64,
    /// Pages read, including read-ahead.
    pub read_pages: u64,
    pub evicted_pages: u64,
    pub written_pages: u64,
}

/// The cache of one host.
#[derive(Debug)]
pub struct PageCache {
    capacity_pages: u64,
    files: Vec<CachedFile>,
    free_files: Vec<u32>,
    extents: Vec<Extent>,
    free_extents: Vec<u32>,
    lists: [List; 2],
    dirty_pages: u64,
    writeback_pages: u64,
    pub counters: CacheCounters,
}

impl PageCache {
    pub fn new(capacity_bytes: u64) -> Self {
        PageCache {
            capacity_pages: (capacity_bytes / PAGE_BYTES).max(256),
            files: Vec::new(),
            free_files: Vec::new(),
            extents: Vec::new(),
            free_extents: Vec::new(),
            lists: [List { newest: NONE, oldest: NONE, pages: 0 }; 2],
            dirty_pages: 0,
            writeback_pages: 0,
            counters: CacheCounters::default(),
        }
    }

    pub fn capacity_pages(&self) -> u64 {
        self.capacity_pages
    }

    /// Change the capacity: jobs and the cache share the host's memory.
    pub fn resize(&mut self, capacity_bytes: u64) {
        self.capacity_pages = (capacity_bytes / PAGE_BYTES).max(256);
        self.make_room(0);
    }

    pub fn used_pages(&self) -> u64 {
        self.lists[0].pages + self.lists[1].pages
    }

    /// Register a file and return its number.
    pub fn add_file(&mut self) -> u32 {
        let file = self.free_files.pop().unwrap_or_else(|| {
            self.files.push(CachedFile::default());
            (self.files.len() - 1) as u32
        });
        self.files[file as usize].in_use = true;
        file
    }

    /// Drop a file and its pages, including dirty ones. The file must have no I/O in flight.
    pub fn remove_file(&mut self, file: u32) {
        let mut regions = std::mem::take(&mut self.files[file as usize].regions);
        for (_, extent) in regions.drain(..).flatten() {
            let e = self.extents[extent as usize];
            debug_assert!(matches!(e.state, PageState::Clean | PageState::Dirty));
            if e.state == PageState::Dirty {
                self.dirty_pages -= u64::from(e.pages);
            }
            self.unlink(extent);
            self.free(extent);
        }
        self.files[file as usize] = CachedFile::default();
        self.free_files.push(file);
    }

    /// Start to read pages. They must be missing and form one `piece`.
    pub fn start_reading(&mut self, file: u32, start: u32, pages: u32, io: u32) -> u32 {
        self.make_room(u64::from(pages));
        let extent = self.new_extent(file, start, pages, PageState::Reading);
        self.extents[extent as usize].io = io;
        self.counters.read_pages += u64::from(pages);
        extent
    }

    /// Set the read-ahead mark on `page`, which must be in the cache.
    pub fn set_mark(&mut self, file: u32, page: u32) {
        if let Some(extent) = self.find(file, page) {
            self.extents[extent as usize].mark = page;
        }
    }

    pub fn clear_mark(&mut self, extent: u32) {
        self.extents[extent as usize].mark = NONE;
    }

    /// Complete a read: the pages become clean and join adjacent extents if no information is lost.
    pub fn finish_reading(&mut self, extent: u32) {
        let e = &mut self.extents[extent as usize];
        e.state = PageState::Clean;
        e.io = NONE;
        self.join_left(extent);
    }

    /// Drop the extent of a failed read.
    pub fn abandon_reading(&mut self, extent: u32) {
        self.forget(extent);
    }

    /// Access pages `from..to` of an extent. The second access of a page activates that page only
    /// (`mark_page_accessed`).
    pub fn touch(&mut self, extent: u32, from: u32, to: u32) {
        let e = self.extents[extent as usize];
        self.extents[extent as usize].touched_end = e.touched_end.max(to);
        let again = to.min(e.touched_end);
        if e.active || from >= again {
            return;
        }
        let clean = e.state == PageState::Clean;
        let mut extent = extent;
        if clean && from > e.start {
            extent = self.split(extent, from);
        }
        if clean && again < e.end() {
            self.split(extent, again);
        }
        self.unlink(extent);
        self.extents[extent as usize].active = true;
        self.link_newest(extent);
        if clean {
            self.join_left(extent);
        }
    }
}

#[cfg(test)]
mod tests;
