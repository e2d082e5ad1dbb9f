//! Extents, the elements of the LRU lists and of a file's index: create, split, join and drop.

use super::{CachedFile, Extent, Group, PageCache, PageState, REGION_SHIFT};
use crate::slots::Id;

const MAX_EXTENT_PAGES: u32 = 1024;

/// Return how many extents of a region begin before a page. Files are mostly read and written in
/// order, so the last extents are searched first.
pub(super) fn count_before(region: &[(u32, Id<Extent>)], page: u32) -> usize {
    let tail = region.len().saturating_sub(8);
    match region[tail..].iter().rposition(|&(start, _)| start < page) {
        Some(at) => tail + at + 1,
        None => region[..tail].partition_point(|&(start, _)| start < page),
    }
}

impl PageCache {
    /// Return the length of the longest part of `pages` pages from `start` that fits into one
    /// extent.
    pub fn piece(start: u32, pages: u32) -> u32 {
        let region_end = ((start >> REGION_SHIFT) + 1) << REGION_SHIFT;
        pages.min(MAX_EXTENT_PAGES).min(region_end - start)
    }

    pub(super) fn new_extent(
        &mut self,
        file: Id<CachedFile>,
        start: u32,
        pages: u32,
        state: PageState,
        group: Id<Group>,
    ) -> Id<Extent> {
        let extent = Extent {
            file,
            start,
            pages,
            state,
            mark: None,
            group,
            active: false,
            touched_end: start,
            newer: None,
            older: None,
        };
        let extent = self.extents.insert(extent);
        self.link_newest(extent);
        self.index(file, start, pages, extent);
        extent
    }

    /// Enter an extent into the index of its file.
    fn index(&mut self, file: Id<CachedFile>, start: u32, pages: u32, extent: Id<Extent>) {
        let f = &mut self.files[file];
        f.pages_end = f.pages_end.max(start + pages);
        // A process that waits for the pages will look them up next.
        f.hint.set(Some(extent));
        let regions = &mut f.regions;
        let number = (start >> REGION_SHIFT) as usize;
        if number >= regions.len() {
            regions.resize_with(number + 1, Vec::new);
        }
        let region = &mut regions[number];
        let at = count_before(region, start);
        f.place.set(at as u32);
        region.insert(at, (start, extent));
    }

    /// Split an extent in two; return the part that starts at `page`.
    pub fn split(&mut self, extent: Id<Extent>, page: u32) -> Id<Extent> {
        let e = self.extents[extent];
        debug_assert!(e.start < page && page < e.end());
        let left = &mut self.extents[extent];
        left.pages = page - e.start;
        left.touched_end = e.touched_end.min(page);
        left.mark = e.mark.filter(|&mark| mark < page);
        // Both parts keep their age: the right one is the next newer of the same list, which has as
        // many pages as before.
        let right = self.extents.insert(Extent {
            start: page,
            pages: e.end() - page,
            touched_end: e.touched_end.max(page),
            mark: e.mark.filter(|&mark| mark >= page),
            older: Some(extent),
            ..e
        });
        self.extents[extent].newer = Some(right);
        match e.newer {
            None => self.list_of(right).newest = Some(right),
            Some(newer) => self.extents[newer].older = Some(right),
        }
        self.index(e.file, page, e.end() - page, right);
        right
    }

    pub(super) fn join_left(&mut self, extent: Id<Extent>) {
        let e = self.extents[extent];
        if e.start & ((1 << REGION_SHIFT) - 1) == 0 {
            return;
        }
        let Some(left) = self.left_of(&e) else { return };
        let l = self.extents[left];
        let joined_touch = if l.touched_end == l.end() {
            e.touched_end
        } else if e.touched_end == e.start {
            l.touched_end
        } else {
            return;
        };
        if l.state != e.state
            || l.active != e.active
            || l.group != e.group
            || l.pages + e.pages > MAX_EXTENT_PAGES
            || (l.mark.is_some() && e.mark.is_some())
        {
            return;
        }
        self.forget(extent);
        let was = self.extents[left];
        self.unlink(left);
        let l = &mut self.extents[left];
        *l = Extent {
            pages: was.pages + e.pages,
            mark: was.mark.or(e.mark),
            touched_end: joined_touch,
            ..was
        };
        self.link_newest(left);
        if e.state == PageState::Dirty {
            // `forget` subtracted them.
            self.add_dirty(e.file, e.group, e.pages);
        }
    }

    /// Remove an extent from the index and the lists.
    pub(super) fn forget(&mut self, extent: Id<Extent>) {
        let e = self.extents[extent];
        if e.state == PageState::Dirty {
            self.drop_dirty(e.file, e.group, e.pages);
        } else if e.state == PageState::Writeback {
            self.drop_writeback(e.group, e.pages);
        }
        self.unlink(extent);
        let region = &mut self.files[e.file].regions[(e.start >> REGION_SHIFT) as usize];
        region.remove(count_before(region, e.start));
        self.free(extent);
    }

    /// Free the slot of an extent. Without pages, it is not what a file's hint looks for.
    pub(super) fn free(&mut self, extent: Id<Extent>) {
        self.extents[extent].pages = 0;
        self.extents.remove(extent);
    }
}
