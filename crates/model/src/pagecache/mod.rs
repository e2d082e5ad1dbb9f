//! The page cache of a host, stored as extents of contiguous pages, not as single pages.
//!
//! Active and inactive lists as in `mm/vmscan.c`: pages enter the inactive list, a second access
//! activates them, reclaim takes from the inactive tail and refills the inactive list from the
//! active one. An extent has at most 1024 pages (4 MiB) and reclaim trims it page by page, so page
//! ages keep that resolution.
//!
//! `pages` has the units: pages, folios and regions. `lookup` finds pages, `writeback` makes them
//! dirty and writes them, `reclaim` evicts them, and `extents` has the operations on extents that
//! these share. `readahead` computes read-ahead windows, `large_folios` those since Linux 6.16,
//! `two_windows` those before 2.6.23. `groups` has memory control groups, `workingset` refault
//! distances, `mglru` the multi-generational LRU with its `generations`.

mod extent;
mod extents;
mod generations;
mod groups;
pub mod large_folios;
mod lookup;
pub mod lustre;
mod mglru;
pub mod pages;
pub mod readahead;
mod reclaim;
mod shadows;
pub mod two_windows;
mod workingset;
mod writeback;

use serde::{Deserialize, Serialize};

use crate::request::Nanos;
use crate::slots::{Id, Slab};

use readahead::ReadAhead;

pub use extent::{CachedFile, Extent, Group, Page, PageIo, PageState};
use extent::{Indexed, List, Mark};
use pages::Folio;
pub use pages::PAGE_BYTES;
use pages::REGION_SHIFT;
pub use shadows::PageReclaim;
pub use writeback::WritebackSpec;

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
    files: Slab<CachedFile>,
    extents: Slab<Extent>,
    groups: Slab<Group>,
    /// Number of groups made so far, besides the root group.
    groups_made: u32,
    policy: PageReclaim,
    /// When statistics of the groups are summed up next.
    sum_up_at: Nanos,
    used_pages: u64,
    dirty_pages: u64,
    writeback_pages: u64,
    pub counters: CacheCounters,
}

impl PageCache {
    pub fn new(capacity_bytes: u64, policy: PageReclaim) -> Self {
        PageCache {
            capacity_pages: (capacity_bytes / PAGE_BYTES).max(256),
            files: Slab::default(),
            extents: Slab::default(),
            groups: Slab::of(Group::ROOT),
            groups_made: 0,
            policy,
            sum_up_at: 0,
            used_pages: 0,
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
        self.make_room(Self::root(), 0);
    }

    pub fn used_pages(&self) -> u64 {
        self.used_pages
    }

    /// Register a file and return its number.
    pub fn add_file(&mut self) -> Id<CachedFile> {
        self.files.insert(CachedFile::default())
    }

    /// Drop a file and its pages, including dirty ones. The file must have no I/O in flight.
    pub fn remove_file(&mut self, file: Id<CachedFile>) {
        let mut regions = std::mem::take(&mut self.files[file].regions);
        for Indexed { extent, .. } in regions.drain(..).flatten() {
            let e = self.extents[extent];
            debug_assert!(matches!(e.state(), PageState::Clean | PageState::Dirty));
            if e.state == PageState::Dirty {
                self.drop_dirty(file, e.group, e.pages);
            }
            self.unlink(extent);
            self.free(extent);
        }
        self.files[file] = CachedFile::default();
        self.files.remove(file);
    }

    /// Start to read pages, which count to a group. They must be missing and form one `piece`.
    pub fn start_reading(
        &mut self,
        file: Id<CachedFile>,
        start: u32,
        pages: u32,
        io: Id<PageIo>,
        group: Id<Group>,
    ) -> Id<Extent> {
        self.add_read(file, start, pages, PageState::Reading(io), group)
    }

    /// Put clean pages into the cache without I/O. They must be missing and form one `piece`.
    pub fn fill(&mut self, file: Id<CachedFile>, start: u32, pages: u32) {
        let extent = self.add_read(file, start, pages, PageState::Clean, Self::root());
        self.join_left(extent);
    }

    fn add_read(
        &mut self,
        file: Id<CachedFile>,
        start: u32,
        pages: u32,
        state: PageState,
        group: Id<Group>,
    ) -> Id<Extent> {
        self.make_room(group, u64::from(pages));
        let refaulted = match self.policy {
            PageReclaim::Mglru => self.refault_generations(file, start, pages, group),
            _ => self.refault(file, start, pages),
        };
        let extent = self.new_extent(file, start, pages, state, group);
        if refaulted {
            match self.policy {
                PageReclaim::Mglru => self.enter_workingset(extent),
                _ => self.activate(extent),
            }
            self.groups[group].refaulted_pages += u64::from(pages);
        }
        self.counters.read_pages += u64::from(pages);
        extent
    }

    /// Set the read-ahead mark on a folio, whose first page must be in the cache.
    pub fn set_mark(&mut self, file: Id<CachedFile>, folio: Folio) {
        if let Some(extent) = self.find(file, folio.start) {
            self.extents[extent].mark = Mark::on(folio);
        }
    }

    /// Set the order of the folios of pages that were read at once; `last` is the last of these.
    pub fn set_order(&mut self, file: Id<CachedFile>, last: u32, order: u8) {
        if let Some(extent) = self.find(file, last) {
            self.extents[extent].order = order;
        }
    }

    pub fn clear_mark(&mut self, extent: Id<Extent>) {
        self.extents[extent].mark = Mark::NONE;
    }

    /// Complete a read: the pages become clean and join adjacent extents if no information is lost.
    pub fn finish_reading(&mut self, extent: Id<Extent>) {
        self.extents[extent].state = PageState::Clean.into();
        self.join_left(extent);
    }

    /// Drop the extent of a failed read.
    pub fn abandon_reading(&mut self, extent: Id<Extent>) {
        self.forget(extent);
    }

    /// Return the first page that a read from `page` on uses: the page in which the last read by
    /// this descriptor ended is not used again (`filemap_read`).
    pub fn first_used(page: u32, descriptor: &ReadAhead) -> u32 {
        page + u32::from(descriptor.ended_in(page))
    }

    /// Access pages `from..to` of an extent. The second access of a page activates that page only
    /// (`mark_page_accessed`).
    pub fn touch(&mut self, extent: Id<Extent>, from: u32, to: u32) {
        if self.policy == PageReclaim::Mglru {
            self.count_use(extent, from, to);
            return;
        }
        let e = self.extents[extent];
        self.extents[extent].touched_end = e.touched_end.max(to);
        let again = to.min(e.touched_end);
        if e.is_active() || from >= again {
            return;
        }
        let clean = e.state == PageState::Clean;
        let mut extent = extent;
        let middle = from > e.start;
        if clean && middle {
            extent = self.split(extent, from);
        }
        if clean && again < e.end() {
            self.split(extent, again);
        }
        self.activate(extent);
        // What is left of a middle part stays inactive.
        if clean && !middle {
            self.join_left(extent);
        }
    }
}

#[cfg(test)]
mod test_reads;
#[cfg(test)]
mod tests;
