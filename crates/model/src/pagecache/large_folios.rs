//! Read-ahead since Linux 6.16 in filesystems with large folios, such as ext4 and XFS.
//!
//! `mm/readahead.c` as in Linux 6.18 (`page_cache_sync_ra`, `page_cache_async_ra`,
//! `page_cache_ra_order`): folios of the page cache grow by a factor of four with each window that
//! a mark starts, and its end is rounded down to such a folio. The mark is on a whole folio: a read
//! of any of its pages starts the next window, which is sized as if the read began at the folio's
//! first page. `page_cache_next_miss` and `page_cache_prev_miss` begin within a folio: the look-up
//! goes to the slot of its first page and leaves the index where it was (`lib/xarray.c`), so pages
//! are counted wrongly until the next node of the index.

use super::pages::Folio;
use super::readahead::{ReadAhead, Window};
use super::two_windows::initial_size;
use super::{CachedFile, PageCache};
use crate::slots::Id;

/// `MAX_PAGECACHE_ORDER`: 2 MiB.
const MAX_ORDER: u8 = 9;
/// Pages in a node of the index (`XA_CHUNK_SIZE`).
const NODE_PAGES: u32 = 64;

/// What the kernel finds in the cache before a missing page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    pub pages: u32,
    /// All pages from the first one of the file on.
    pub from_the_begin: bool,
}

impl PageCache {
    /// `page_cache_prev_miss`: count the cached pages directly before a missing one, at most `max`.
    pub fn history(&self, file: Id<CachedFile>, page: u32, max: u32) -> History {
        let folio = self.folio_before(file, page);
        let skipped = folio.pages() - 1;
        let whole = self.cached_before(file, page, max + NODE_PAGES);
        let node = (page - 1) / NODE_PAGES * NODE_PAGES;
        if skipped == 0 {
            return History { pages: whole.min(max), from_the_begin: whole == page && page <= max };
        }
        let found = if whole < page - node {
            whole.saturating_sub(skipped)
        } else if skipped == 1 {
            whole
        } else {
            // In the node before it goes on at the slot of the index, which is `skipped` too high.
            let seen = folio.start - node + 1;
            let next = (node + skipped).checked_sub(NODE_PAGES);
            seen + next.map_or(0, |next| self.cached_before(file, next, max))
        };
        History { pages: found.min(max), from_the_begin: false }
    }

    /// Return the folio of a window that gets the mark, and the order of the folios at its end.
    pub fn folios_of(
        &self,
        file: Id<CachedFile>,
        window: Window,
        state: &ReadAhead,
        file_end: u32,
    ) -> (Option<Folio>, u8) {
        let end = window.start + window.pages;
        let Some(page) = window.mark.filter(|_| end < file_end) else { return (None, 0) };
        // Where pages are in the cache already, the rest is read page by page.
        let cached = self.next_cached(file, window.start, end);
        let order = if cached == end { state.order } else { 0 };
        let folio = state.folio_of(page);
        if folio.end() <= cached {
            return (Some(folio), order);
        }
        let missing = self.find(file, page).is_none();
        (missing.then_some(Folio::page(page)), order)
    }
}

impl ReadAhead {
    /// As `missing`, with large folios.
    pub fn missing_in_folios(
        &mut self,
        page: u32,
        request: u32,
        max: u32,
        history: impl FnOnce(u32) -> History,
    ) -> Window {
        if max == 0 {
            return Window { start: page, pages: 1, mark: None };
        }
        // `prev_pos` is the byte after the last one read.
        let previous = self.previous.checked_sub(u32::from(self.ended_within));
        let follows =
            previous.is_some_and(|at| self.previous > 0 && (page == at || page == at + 1));
        if page == 0 || request > max || follows {
            self.start = page;
            self.size = initial_size(request, max);
            self.async_size = if self.size > request { self.size - request } else { self.size / 2 };
            self.order = 0;
            return self.window();
        }
        let History { pages: before, from_the_begin } = history(max);
        if before <= request {
            return Window { start: page, pages: request.min(max), mark: None };
        }
        let before = if from_the_begin { 2 * before } else { before };
        self.start = page;
        self.size = (before + request).min(max);
        self.async_size = 1;
        self.order = 0;
        self.window()
    }

    /// Return the pages to read when a read of `request` pages from the first page of the marked
    /// folio on reaches it. `next_missing` is the first page after it that is not cached.
    pub fn marked_in_folios(
        &mut self,
        marked: Folio,
        request: u32,
        max: u32,
        next_missing: u32,
    ) -> Option<Window> {
        if max == 0 {
            return None;
        }
        let expected = (self.start + self.size - self.async_size) & !(marked.pages() - 1);
        if marked.start == expected {
            self.start += self.size;
            self.size = self.size.max(self.next_size(max));
        } else {
            let node_end = (marked.start + 1) / NODE_PAGES * NODE_PAGES + NODE_PAGES;
            let late = u32::from(marked.order > 0 && next_missing <= node_end);
            let next = next_missing + late;
            if next - marked.start > max {
                return None;
            }
            self.start = next;
            self.size = next - marked.start + request;
            self.size = self.next_size(max);
        }
        let order = self.order + 2;
        let align = 1 << u32::from(order).min(max.trailing_zeros());
        let end = self.start + self.size;
        let aligned = end & !(align - 1);
        if aligned > self.start {
            self.size -= end - aligned;
        }
        self.async_size = self.size;
        self.order = order.min(MAX_ORDER).min(self.size.ilog2() as u8);
        Some(self.window())
    }

    /// Return the folio that the last window has for one of its pages, which ends before the end of
    /// the file; a single page elsewhere.
    fn folio_of(&self, page: u32) -> Folio {
        if (self.start..self.start + self.size).contains(&page) {
            Folio::within(self.start, self.start + self.size, self.order, page)
        } else {
            Folio::page(page)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{PageIo, PageReclaim};
    use super::*;

    /// Ranges of pages that Linux 6.18 added to the page cache for reads of a file of 64 MiB on
    /// ext4 (tracepoint `filemap:mm_filemap_add_to_page_cache`; a disk with a limit of 8 MiB for
    /// read-ahead and a loop device with 128 KiB): a heading with the limits in pages of a window
    /// and of a large read, then for each read its offset, its length and what was added.
    const LINUX: &str = include_str!("linux_6_18_reads.txt");
    const FILE_PAGES: u32 = 16_384;

    fn numbers(line: &str) -> Vec<u64> {
        line.split([' ', '-']).map(|word| word.parse().expect("a number")).collect()
    }

    /// A descriptor that reads a file through a page cache with the disk's limits.
    struct Reader {
        cache: PageCache,
        file: Id<super::super::CachedFile>,
        state: ReadAhead,
        max: u32,
        large: u32,
        added: Vec<(u32, u32)>,
    }

    impl Reader {
        fn new(max: u32, large: u32) -> Self {
            let mut cache = PageCache::new(1 << 30, PageReclaim::Workingset);
            let file = cache.add_file();
            Reader { cache, file, state: ReadAhead::default(), max, large, added: Vec::new() }
        }

        fn add(&mut self, window: Window) {
            let end = window.start + window.pages;
            let (mark, order) = self.cache.folios_of(self.file, window, &self.state, FILE_PAGES);
            let (mut page, mut reading) = (window.start, Vec::new());
            while page < end.min(FILE_PAGES) {
                page = self.cache.next_missing(self.file, page, end.min(FILE_PAGES));
                let next = self.cache.next_cached(self.file, page, end.min(FILE_PAGES));
                let piece = PageCache::piece(page, next - page);
                if piece > 0 {
                    let (io, root): (Id<PageIo>, _) = (Id::at(0), PageCache::root());
                    reading.push(self.cache.start_reading(self.file, page, piece, io, root));
                    match self.added.last_mut() {
                        Some(last) if last.1 == page => last.1 += piece,
                        _ => self.added.push((page, page + piece)),
                    }
                }
                page += piece;
            }
            if let Some(folio) = mark {
                self.cache.set_mark(self.file, folio);
                self.cache.set_order(self.file, end - 1, order);
            }
            reading.into_iter().for_each(|extent| self.cache.finish_reading(extent));
        }

        fn read(&mut self, offset: u64, length: u64) -> Vec<(u32, u32)> {
            self.added.clear();
            let end = (offset + length).div_ceil(4096) as u32;
            let mut page = (offset / 4096) as u32;
            while page < end {
                let wanted = end - page;
                let max =
                    if wanted > self.max { self.max.max(wanted.min(self.large)) } else { self.max };
                let Some(found) = self.cache.find(self.file, page) else {
                    let (cache, file) = (&self.cache, self.file);
                    let history = |most| cache.history(file, page, most);
                    let window = self.state.missing_in_folios(page, wanted, max, history);
                    self.add(window);
                    continue;
                };
                let mark = self.cache.extent(found).mark();
                if let Some(mark) = mark.filter(|at| (at.start..at.end()).contains(&page)) {
                    self.cache.clear_mark(found);
                    let next =
                        self.cache.next_missing(self.file, mark.start + 1, mark.start + max + 1);
                    let request = end - mark.start;
                    if let Some(window) = self.state.marked_in_folios(mark, request, max, next) {
                        self.add(window);
                    }
                    continue;
                }
                page += 1;
            }
            self.state.finished(offset + length);
            std::mem::take(&mut self.added)
        }
    }

    #[test]
    fn pages_are_read_as_linux_reads_them() {
        let mut reader = Reader::new(0, 0);
        let mut wrong: Vec<((&str, u32), u32, Vec<_>, Vec<_>)> = Vec::new();
        let (mut name, mut number) = ("", 0);
        for line in LINUX.lines() {
            if let Some(heading) = line.strip_prefix("# ") {
                let (pattern, limits) = heading.split_once("; ").expect("a heading");
                let limits = numbers(limits);
                reader = Reader::new(limits[0] as u32, limits[1] as u32);
                (name, number) = (pattern, 0);
                continue;
            }
            let given = numbers(line);
            let linux: Vec<_> =
                given[2..].chunks(2).map(|range| (range[0] as u32, range[1] as u32)).collect();
            let own = reader.read(given[0], given[1]);
            if own != linux && !wrong.iter().any(|&(at, ..)| at == (name, reader.max)) {
                wrong.push(((name, reader.max), number, own, linux));
            }
            number += 1;
        }
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
}
