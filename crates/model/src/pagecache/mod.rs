//! A host's page cache, kept in extents of neighbouring pages, not page by page.
//!
//! Active and inactive lists as in `mm/vmscan.c`: pages enter the inactive list, a second access activates them,
//! reclaim takes from the inactive tail and refills it from the active one. An extent has at most 1024 pages
//! (4 MiB) and reclaim trims it page by page, so ages stay that fine. Read-ahead windows are in `readahead`,
//! those of kernels before 2.6.23 in `two_windows`.

pub mod lustre;
pub mod readahead;
mod reclaim;
pub mod two_windows;

use serde::{Deserialize, Serialize};

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// No extent, no page, no I/O.
pub const NONE: u32 = u32::MAX;

const MAX_EXTENT_PAGES: u32 = 1024;
/// Extents of a file are found through regions of 4096 pages (16 MiB), which none crosses.
const REGION_SHIFT: u32 = 12;

/// When written data must go to the drive, as in `/proc/sys/vm`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WritebackSpec {
    /// Dirty share of the cache at which the flusher starts.
    pub dirty_background_ratio: f64,
    /// Dirty share at which writers have to wait.
    pub dirty_ratio: f64,
    /// Age at which dirty pages are written anyway.
    pub dirty_expire_ns: u64,
    /// How often the flusher looks for aged pages.
    pub dirty_writeback_ns: u64,
    /// Kernels to 2.6.23: the shares are of all memory, and writers wait at no more than half of what no process has
    /// mapped (`get_dirty_limits`).
    pub of_all_memory: bool,
}

impl WritebackSpec {
    /// Pages at which the flusher starts, and at which writers wait, where the cache has `cache_bytes` of
    /// `memory_bytes` and processes have mapped `mapped_bytes`.
    pub fn limits_pages(&self, cache_bytes: u64, memory_bytes: u64, mapped_bytes: u64) -> (u64, u64) {
        let cache = (cache_bytes / PAGE_BYTES).max(256);
        let (mut background, mut limit, mut of) = (self.dirty_background_ratio, self.dirty_ratio, cache);
        if self.of_all_memory {
            let unmapped = 1.0 - mapped_bytes as f64 / memory_bytes as f64;
            limit = limit.min(unmapped / 2.0).max(0.05);
            background = if background >= limit { limit / 2.0 } else { background };
            of = memory_bytes / PAGE_BYTES;
        }
        let pages = |share: f64| ((of as f64 * share) as u64).min(cache);
        (pages(background), pages(limit).max(64))
    }
}

impl Default for WritebackSpec {
    fn default() -> Self {
        WritebackSpec {
            dirty_background_ratio: 0.10,
            dirty_ratio: 0.20,
            dirty_expire_ns: 30_000_000_000,
            dirty_writeback_ns: 5_000_000_000,
            of_all_memory: false,
        }
    }
}

/// What the pages of an extent are doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    Clean,
    /// On the way in.
    Reading,
    Dirty,
    /// On the way out.
    Writeback,
}

/// Neighbouring pages of one file in one state.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub file: u32,
    pub start: u32,
    pub pages: u32,
    pub state: PageState,
    /// The read-ahead mark (`PG_readahead`): the page that, when reached, starts the next window.
    pub mark: u32,
    /// The I/O that is filling or writing it.
    pub io: u32,
    active: bool,
    touched_end: u32,
    newer: u32,
    older: u32,
}

impl Extent {
    /// The page after its last.
    pub fn end(&self) -> u32 {
        self.start + self.pages
    }
}

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

    pub fn dirty_pages(&self) -> u64 {
        self.dirty_pages
    }

    pub fn writeback_pages(&self) -> u64 {
        self.writeback_pages
    }

    pub fn file_dirty_pages(&self, file: u32) -> u64 {
        self.files[file as usize].dirty_pages
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

    pub fn extent(&self, extent: u32) -> &Extent {
        &self.extents[extent as usize]
    }

    /// The extent that holds that page.
    pub fn find(&self, file: u32, page: u32) -> Option<u32> {
        let f = &self.files[file as usize];
        if page >= f.pages_end {
            return None;
        }
        let hint = f.hint.get();
        if let Some(e) = self.extents.get(hint as usize) {
            if e.file == file && e.start <= page && page < e.end() {
                return Some(hint);
            }
        }
        let region = f.regions.get((page >> REGION_SHIFT) as usize)?;
        let at = region.partition_point(|&(start, _)| start <= page).checked_sub(1)?;
        let extent = region[at].1;
        if page >= self.extents[extent as usize].end() {
            return None;
        }
        f.hint.set(extent);
        Some(extent)
    }

    /// The first page at or after `page`, and before `limit`, that is in the cache; `limit` when there is none.
    pub fn next_cached(&self, file: u32, page: u32, limit: u32) -> u32 {
        let f = &self.files[file as usize];
        let regions = &f.regions;
        let mut from = page;
        while from < limit.min(f.pages_end) {
            let number = (from >> REGION_SHIFT) as usize;
            let Some(region) = regions.get(number) else { return limit };
            let at = region.partition_point(|&(start, _)| start <= from);
            if at > 0 && from < self.extents[region[at - 1].1 as usize].end() {
                return from;
            }
            if let Some(&(start, _)) = region.get(at) {
                return start.min(limit);
            }
            from = ((number as u32) + 1) << REGION_SHIFT;
        }
        limit
    }

    /// The first page at or after `page`, and before `limit`, that is not in the cache; `limit` when all are.
    pub fn next_missing(&self, file: u32, page: u32, limit: u32) -> u32 {
        let mut from = page;
        while from < limit {
            match self.find(file, from) {
                Some(extent) => from = self.extents[extent as usize].end(),
                None => return from,
            }
        }
        limit
    }

    /// How many pages of `from..to` are not in the cache.
    pub fn missing_pages(&self, file: u32, from: u32, to: u32) -> u32 {
        let (mut page, mut missing) = (self.next_missing(file, from, to), 0);
        while page < to {
            let cached = self.next_cached(file, page, to);
            missing += cached - page;
            page = self.next_missing(file, cached, to);
        }
        missing
    }

    /// Pages in the cache right before `page`, at most `max`.
    pub fn cached_before(&self, file: u32, page: u32, max: u32) -> u32 {
        let mut from = page;
        while from > 0 && page - from < max {
            match self.find(file, from - 1) {
                Some(extent) => from = self.extents[extent as usize].start,
                None => break,
            }
        }
        (page - from).min(max)
    }

    /// The first dirty extent of a file at or after `page`.
    pub fn next_dirty(&self, file: u32, page: u32) -> Option<u32> {
        let regions = &self.files[file as usize].regions;
        let first = (page >> REGION_SHIFT) as usize;
        for region in regions.iter().skip(first) {
            let from = region.partition_point(|&(start, _)| start < page);
            let dirty = |&&(_, e): &&(u32, u32)| self.extents[e as usize].state == PageState::Dirty;
            if let Some(&(_, extent)) = region[from..].iter().find(dirty) {
                return Some(extent);
            }
        }
        None
    }

    fn new_extent(&mut self, file: u32, start: u32, pages: u32, state: PageState) -> u32 {
        let extent = Extent {
            file,
            start,
            pages,
            state,
            mark: NONE,
            io: NONE,
            active: false,
            touched_end: start,
            newer: NONE,
            older: NONE,
        };
        let index = match self.free_extents.pop() {
            Some(index) => {
                self.extents[index as usize] = extent;
                index
            }
            None => {
                self.extents.push(extent);
                (self.extents.len() - 1) as u32
            }
        };
        self.link_newest(index);
        let f = &mut self.files[file as usize];
        f.pages_end = f.pages_end.max(start + pages);
        // Whoever waits for it looks for it next.
        f.hint.set(index);
        let regions = &mut f.regions;
        let number = (start >> REGION_SHIFT) as usize;
        if number >= regions.len() {
            regions.resize_with(number + 1, Vec::new);
        }
        let region = &mut regions[number];
        let at = region.partition_point(|&(s, _)| s < start);
        region.insert(at, (start, index));
        index
    }

    /// The longest piece of `pages` from `start` that one extent may hold.
    pub fn piece(start: u32, pages: u32) -> u32 {
        let region_end = ((start >> REGION_SHIFT) + 1) << REGION_SHIFT;
        pages.min(MAX_EXTENT_PAGES).min(region_end - start)
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

    fn join_left(&mut self, extent: u32) {
        let e = self.extents[extent as usize];
        if e.start & ((1 << REGION_SHIFT) - 1) == 0 {
            return;
        }
        let Some(left) = self.find(e.file, e.start - 1) else { return };
        let l = self.extents[left as usize];
        let joined_touch = if l.touched_end == l.end() {
            e.touched_end
        } else if e.touched_end == e.start {
            l.touched_end
        } else {
            return;
        };
        if l.state != e.state
            || l.active != e.active
            || l.pages + e.pages > MAX_EXTENT_PAGES
            || (l.mark != NONE && e.mark != NONE)
        {
            return;
        }
        self.forget(extent);
        let was = self.extents[left as usize];
        self.unlink(left);
        let l = &mut self.extents[left as usize];
        *l = Extent {
            pages: was.pages + e.pages,
            mark: if was.mark == NONE { e.mark } else { was.mark },
            touched_end: joined_touch,
            ..was
        };
        self.link_newest(left);
        if e.state == PageState::Dirty {
            // `forget` took them off.
            self.dirty_pages += u64::from(e.pages);
            self.files[e.file as usize].dirty_pages += u64::from(e.pages);
        }
    }

    /// An extent's slot is free; nobody who remembers it may take it for a file's.
    fn free(&mut self, extent: u32) {
        self.extents[extent as usize].file = NONE;
        self.free_extents.push(extent);
    }

    /// Takes an extent out of the index and the lists.
    fn forget(&mut self, extent: u32) {
        let e = self.extents[extent as usize];
        if e.state == PageState::Dirty {
            self.dirty_pages -= u64::from(e.pages);
            self.files[e.file as usize].dirty_pages -= u64::from(e.pages);
        } else if e.state == PageState::Writeback {
            self.writeback_pages -= u64::from(e.pages);
        }
        self.unlink(extent);
        let region = &mut self.files[e.file as usize].regions[(e.start >> REGION_SHIFT) as usize];
        let at = region.partition_point(|&(s, _)| s < e.start);
        region.remove(at);
        self.free(extent);
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

    /// A job has written pages `start..start + pages`: those that were not dirty become so. Returns how many.
    pub fn write(&mut self, file: u32, start: u32, pages: u32) -> u64 {
        let end = start + pages;
        let mut page = start;
        let mut dirtied = 0;
        while page < end {
            let Some(extent) = self.find(file, page) else {
                let missing = self.next_cached(file, page, end) - page;
                let piece = Self::piece(page, missing);
                self.make_room(u64::from(piece));
                let extent = self.new_extent(file, page, piece, PageState::Dirty);
                self.extents[extent as usize].touched_end = page + piece;
                dirtied += u64::from(piece);
                self.dirty_pages += u64::from(piece);
                self.files[file as usize].dirty_pages += u64::from(piece);
                page += piece;
                self.join_left(extent);
                continue;
            };
            let mut extent = extent;
            let upto = self.extents[extent as usize].end().min(end);
            if self.extents[extent as usize].state == PageState::Clean {
                if self.extents[extent as usize].start < page {
                    extent = self.split(extent, page);
                }
                if upto < self.extents[extent as usize].end() {
                    self.split(extent, upto);
                }
                let e = &mut self.extents[extent as usize];
                e.state = PageState::Dirty;
                let count = u64::from(e.pages);
                dirtied += count;
                self.dirty_pages += count;
                self.files[file as usize].dirty_pages += count;
            }
            page = upto;
        }
        dirtied
    }

    /// Cuts an extent in two; returns the part from `page` on.
    pub fn split(&mut self, extent: u32, page: u32) -> u32 {
        let e = self.extents[extent as usize];
        debug_assert!(e.start < page && page < e.end());
        let left = &mut self.extents[extent as usize];
        left.pages = page - e.start;
        left.touched_end = e.touched_end.min(page);
        if e.mark != NONE && e.mark >= page {
            left.mark = NONE;
        }
        self.lists[usize::from(e.active)].pages -= u64::from(e.end() - page);
        let right = self.new_extent(e.file, page, e.end() - page, e.state);
        // Both keep the age that they had.
        self.unlink(right);
        self.extents[right as usize].active = e.active;
        self.link_behind(right, extent);
        let r = &mut self.extents[right as usize];
        r.touched_end = e.touched_end.max(page);
        r.io = e.io;
        if e.mark != NONE && e.mark >= page {
            r.mark = e.mark;
        }
        right
    }

    /// A dirty extent starts on its way to the drive.
    pub fn start_writeback(&mut self, extent: u32, io: u32) {
        let e = &mut self.extents[extent as usize];
        debug_assert_eq!(e.state, PageState::Dirty);
        e.state = PageState::Writeback;
        e.io = io;
        let (file, pages) = (e.file, u64::from(e.pages));
        self.dirty_pages -= pages;
        self.files[file as usize].dirty_pages -= pages;
        self.writeback_pages += pages;
    }

    /// It is written: clean.
    pub fn finish_writeback(&mut self, extent: u32) {
        let e = &mut self.extents[extent as usize];
        debug_assert_eq!(e.state, PageState::Writeback);
        e.state = PageState::Clean;
        e.io = NONE;
        let pages = u64::from(e.pages);
        self.writeback_pages -= pages;
        self.counters.written_pages += pages;
        self.join_left(extent);
        if self.used_pages() > self.capacity_pages {
            self.make_room(0);
        }
    }
}

#[cfg(test)]
mod tests;
