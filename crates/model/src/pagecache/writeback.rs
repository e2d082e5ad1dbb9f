//! Dirty pages and their writeback: how pages become dirty, at which thresholds they are written,
//! and the states of writeback (`mm/page-writeback.c`).

use serde::{Deserialize, Serialize};

use super::pages::{region_of, within_region};
use super::{CachedFile, Extent, Group, Indexed, PageCache, PageReclaim, PageState, PAGE_BYTES};
use crate::slots::Id;

/// Writeback settings, as in `/proc/sys/vm`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct WritebackSpec {
    /// Dirty share of the cache at which the flusher starts.
    pub dirty_background_ratio: f64,
    /// Dirty share at which writers block.
    pub dirty_ratio: f64,
    /// Age at which dirty pages are written in any case.
    pub dirty_expire_ns: u64,
    /// How often the flusher checks for old pages.
    pub dirty_writeback_ns: u64,
    /// Kernels up to 2.6.23: the ratios are of all memory, and writers block at no more than half
    /// of the unmapped memory (`get_dirty_limits`).
    pub of_all_memory: bool,
}

impl WritebackSpec {
    /// Return the dirty pages at which the flusher starts and at which writers block. The cache has
    /// `cache_bytes` of `memory_bytes`, and processes map `mapped_bytes`.
    pub fn limits_pages(
        &self,
        cache_bytes: u64,
        memory_bytes: u64,
        mapped_bytes: u64,
    ) -> (u64, u64) {
        let cache = (cache_bytes / PAGE_BYTES).max(256);
        let (mut background, mut limit, mut of) =
            (self.dirty_background_ratio, self.dirty_ratio, cache);
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

impl PageCache {
    pub fn dirty_pages(&self) -> u64 {
        self.dirty_pages
    }

    pub fn writeback_pages(&self) -> u64 {
        self.writeback_pages
    }

    pub fn file_dirty_pages(&self, file: Id<CachedFile>) -> u64 {
        self.files[file].dirty_pages
    }

    /// Return the first dirty extent of a file at or after `page`.
    pub fn next_dirty(&self, file: Id<CachedFile>, page: u32) -> Option<Id<Extent>> {
        let regions = &self.files[file].regions;
        let first = region_of(page);
        let mut from_page = within_region(page);
        for region in regions.iter().skip(first) {
            let from = region.partition_point(|each| each.start < from_page);
            from_page = 0;
            let dirty = |each: &&Indexed| self.extents[each.extent].state == PageState::Dirty;
            if let Some(found) = region[from..].iter().find(dirty) {
                return Some(found.extent);
            }
        }
        None
    }

    /// Record a write of pages `start..start + pages`; return how many become dirty. New pages count
    /// to a group.
    pub fn write(&mut self, file: Id<CachedFile>, start: u32, pages: u32, group: Id<Group>) -> u64 {
        let end = start + pages;
        let mut page = start;
        let mut dirtied = 0;
        while page < end {
            let Some(extent) = self.find(file, page) else {
                let missing = self.next_cached(file, page, end) - page;
                let piece = Self::piece(page, missing);
                self.make_room(group, u64::from(piece));
                // A write of missing pages is no refault (`__filemap_get_folio`): only its shadows
                // go.
                self.files[file].shadows.take(page, page + piece, |_, _| {});
                let extent = self.new_extent(file, page, piece, PageState::Dirty, group);
                // Since Linux 4.7 a write is no use of a page.
                if self.policy == PageReclaim::TwoLists {
                    self.extents[extent].touched_end = page + piece;
                }
                dirtied += u64::from(piece);
                self.add_dirty(file, group, piece);
                page += piece;
                self.join_left(extent);
                continue;
            };
            let mut extent = extent;
            let upto = self.extents[extent].end().min(end);
            if self.extents[extent].state == PageState::Clean {
                if self.extents[extent].start < page {
                    extent = self.split(extent, page);
                }
                if upto < self.extents[extent].end() {
                    self.split(extent, upto);
                }
                let e = &mut self.extents[extent];
                e.state = PageState::Dirty.into();
                let (owner, count) = (e.group, e.pages);
                dirtied += u64::from(count);
                self.add_dirty(file, owner, count);
            }
            self.extents[extent].evict_when_written = false;
            page = upto;
        }
        dirtied
    }

    /// Start the writeback of a dirty extent.
    pub fn start_writeback(&mut self, extent: Id<Extent>) {
        let e = &mut self.extents[extent];
        debug_assert_eq!(e.state, PageState::Dirty);
        e.state = PageState::Writeback.into();
        let (file, group, pages) = (e.file, e.group, e.pages);
        self.drop_dirty(file, group, pages);
        self.add_writeback(group, pages);
    }

    /// Complete a writeback: the extent becomes clean.
    pub fn finish_writeback(&mut self, extent: Id<Extent>) {
        let e = &mut self.extents[extent];
        debug_assert_eq!(e.state, PageState::Writeback);
        e.state = PageState::Clean.into();
        let (group, pages) = (e.group, e.pages);
        self.drop_writeback(group, pages);
        self.counters.written_pages += u64::from(pages);
        if self.extents[extent].evict_when_written {
            self.evict_next(extent);
        } else {
            self.join_left(extent);
        }
        self.make_room(group, 0);
    }
}
