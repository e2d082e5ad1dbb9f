//! A host's page cache, kept in extents of neighbouring pages, not page by page.
//!
//! Active and inactive lists as in `mm/vmscan.c`: pages enter the inactive list, a second access activates them,
//! reclaim takes from the inactive tail and refills it from the active one. An extent has at most 1024 pages
//! (4 MiB) and reclaim trims it page by page, so ages stay that fine. Pages are looked up in `lookup`, become dirty and
//! are written in `writeback`, go in `reclaim`; what is done to extents for all of them is in `extents`. Read-ahead
//! windows are in `readahead`, those of kernels before 2.6.23 in `two_windows`.

mod extents;
mod lookup;
pub mod lustre;
pub mod readahead;
mod reclaim;
pub mod two_windows;
mod writeback;

use serde::{Deserialize, Serialize};

pub use extents::{Extent, PageState};
pub use writeback::WritebackSpec;

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// No extent, no page, no I/O.
pub const NONE: u32 = u32::MAX;

/// Extents of a file are found through regions of 4096 pages (16 MiB), which none crosses.
const REGION_SHIFT: u32 = 12;

#[derive(Debug, Default)]
struct CachedFile {
    regions: Vec<Vec<(u32, u32)>>,
    dirty_pages: u64,
    /// The extent found last: most look-ups go there or right behind it.
    hint: std::cell::Cell<u32>,
    /// No page at or behind this one is in the cache.
    pages_end: u32,
    in_use: bool,
}

#[derive(Clone, Copy, Debug)]
struct List {
    newest: u32,
    oldest: u32,
    pages: u64,
}

/// What the cache did, since its making (pages).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCounters {
    /// Pages asked for and found, or found on their way in.
    pub hit_pages: u64,
    /// Pages asked for and read because of that.
    pub missed_pages: u64,
    /// Pages read, read-ahead included.
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

    /// Memory given to jobs is taken from the cache, and the other way round.
    pub fn resize(&mut self, capacity_bytes: u64) {
        self.capacity_pages = (capacity_bytes / PAGE_BYTES).max(256);
        self.make_room(0);
    }

    pub fn used_pages(&self) -> u64 {
        self.lists[0].pages + self.lists[1].pages
    }

    /// A file that the cache may hold pages of.
    pub fn add_file(&mut self) -> u32 {
        let file = self.free_files.pop().unwrap_or_else(|| {
            self.files.push(CachedFile::default());
            (self.files.len() - 1) as u32
        });
        self.files[file as usize].in_use = true;
        file
    }

    /// Forgets a file and its pages, dirty ones too. Not to be called while it has I/O under way.
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

    /// Has the file pages on their way in or out?
    pub fn file_is_busy(&self, file: u32) -> bool {
        let busy = |&&(_, e): &&(u32, u32)| {
            matches!(self.extents[e as usize].state, PageState::Reading | PageState::Writeback)
        };
        self.files[file as usize].regions.iter().flatten().any(|entry| busy(&entry))
    }

    /// Drops all clean pages (`echo 1 > /proc/sys/vm/drop_caches`).
    pub fn drop_clean(&mut self) {
        for file in 0..self.files.len() {
            for region in 0..self.files[file].regions.len() {
                let entries = std::mem::take(&mut self.files[file].regions[region]);
                let (clean, kept): (Vec<_>, Vec<_>) = entries
                    .into_iter()
                    .partition(|&(_, e)| self.extents[e as usize].state == PageState::Clean);
                for (_, extent) in clean {
                    self.unlink(extent);
                    self.free(extent);
                }
                self.files[file].regions[region] = kept;
            }
        }
    }

    /// Pages not yet there start to be read. They must be missing, and be one `piece`.
    pub fn start_reading(&mut self, file: u32, start: u32, pages: u32, io: u32) -> u32 {
        self.make_room(u64::from(pages));
        let extent = self.new_extent(file, start, pages, PageState::Reading);
        self.extents[extent as usize].io = io;
        self.counters.read_pages += u64::from(pages);
        extent
    }

    /// Sets the read-ahead mark on `page`, which must be in the cache.
    pub fn set_mark(&mut self, file: u32, page: u32) {
        if let Some(extent) = self.find(file, page) {
            self.extents[extent as usize].mark = page;
        }
    }

    pub fn clear_mark(&mut self, extent: u32) {
        self.extents[extent as usize].mark = NONE;
    }

    /// What was read has come: the pages are clean, and join their neighbours where nothing is lost by it.
    pub fn finish_reading(&mut self, extent: u32) {
        let e = &mut self.extents[extent as usize];
        e.state = PageState::Clean;
        e.io = NONE;
        self.join_left(extent);
    }

    /// A read that failed leaves nothing behind.
    pub fn abandon_reading(&mut self, extent: u32) {
        self.forget(extent);
    }

    /// A job uses pages `from..to` of an extent: the second use of a page activates it, and no page beside it
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
