//! Extents, the elements of the LRU lists and of a file's index: create, split, join and drop.

use super::extent::{Mark, MAX_EXTENT_PAGES};
use super::lookup::{end_within_region, last_from, place_of};
use super::pages::{region_of, within_region};
use super::{CachedFile, Extent, Group, Indexed, PageCache, PageReclaim, PageState, REGION_SHIFT};
use crate::slots::{make_room, Id};

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
        let list = self.entry_list(group, false);
        let extent = Extent {
            file,
            start,
            pages,
            state: state.into(),
            mark: Mark::NONE,
            group,
            list,
            uses: 0,
            order: 0,
            workingset: false,
            evict_when_written: false,
            touched_end: start,
            newer: None,
            older: None,
        };
        let extent = self.extents.insert(extent);
        self.link_newest(extent);
        self.index(file, start, pages, extent);
        extent
    }

    /// Enter an extent into the index of its file. Where it begins within another one, that one ends
    /// there.
    fn index(&mut self, file: Id<CachedFile>, start: u32, pages: u32, extent: Id<Extent>) {
        let f = &mut self.files[file];
        f.pages_end = f.pages_end.max(start + pages);
        let regions = &mut f.regions;
        let number = region_of(start);
        if number >= regions.len() {
            make_room(regions, number + 1 - regions.len());
            regions.resize_with(number + 1, Vec::new);
        }
        let start = within_region(start);
        let end = start + pages as u16;
        let region = &mut regions[number];
        let at = match last_from(region, start, f.place.get()) {
            Some(left) => {
                region[left].end = region[left].end.min(start);
                left + 1
            }
            None => 0,
        };
        // A process that waits for the pages will look them up next.
        f.place.set(at as u32);
        make_room(region, 1);
        region.insert(at, Indexed { start, end, extent });
    }

    /// Split an extent in two; return the part that starts at `page`.
    pub fn split(&mut self, extent: Id<Extent>, page: u32) -> Id<Extent> {
        let e = self.extents[extent];
        debug_assert!(e.start < page && page < e.end());
        let left = &mut self.extents[extent];
        left.pages = page - e.start;
        left.touched_end = e.touched_end.min(page);
        left.mark = e.mark_if(|mark| mark < page);
        // Both parts keep their age: the right one is the next newer of the same list, which has as
        // many pages as before.
        let right = self.extents.insert(Extent {
            start: page,
            pages: e.end() - page,
            touched_end: e.touched_end.max(page),
            mark: e.mark_if(|mark| mark >= page),
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
        let at = self.place(extent);
        let region = &self.files[e.file].regions[region_of(e.start)];
        if at == 0 || region[at - 1].end < within_region(e.start) {
            return;
        }
        let left = region[at - 1].extent;
        let l = self.extents[left];
        if !l.fits(&e) {
            return;
        }
        if self.policy == PageReclaim::Mglru {
            self.join_uses(left, extent);
            return;
        }
        let joined_touch = if l.touched_end == l.end() {
            e.touched_end
        } else if e.touched_end == e.start {
            l.touched_end
        } else {
            return;
        };
        self.forget_at(extent, at);
        let was = self.extents[left];
        self.unlink(left);
        let l = &mut self.extents[left];
        *l = Extent {
            pages: was.pages + e.pages,
            mark: was.mark.or(e.mark),
            order: e.order,
            touched_end: joined_touch,
            ..was
        };
        self.files[e.file].regions[region_of(e.start)][at - 1].end = end_within_region(e.end());
        self.link_newest(left);
        if e.state == PageState::Dirty {
            // `forget_at` subtracted them.
            self.add_dirty(e.file, e.group, e.pages);
        }
    }

    /// Remove an extent from the index and the lists.
    pub(super) fn forget(&mut self, extent: Id<Extent>) {
        self.forget_at(extent, self.place(extent));
    }

    /// Return the place of an extent in its region.
    pub(super) fn place(&self, extent: Id<Extent>) -> usize {
        let Extent { file, start, .. } = self.extents[extent];
        let f = &self.files[file];
        place_of(&f.regions[region_of(start)], within_region(start), f.place.get())
    }

    /// As `forget`, of the extent at a place of its region.
    pub(super) fn forget_at(&mut self, extent: Id<Extent>, at: usize) {
        let e = self.extents[extent];
        if e.state == PageState::Dirty {
            self.drop_dirty(e.file, e.group, e.pages);
        } else if e.state == PageState::Writeback {
            self.drop_writeback(e.group, e.pages);
        }
        self.unlink(extent);
        let f = &mut self.files[e.file];
        f.regions[region_of(e.start)].remove(at);
        let place = f.place.get();
        f.place.set(place.saturating_sub(u32::from(at <= place as usize)));
        self.free(extent);
    }

    /// Free the slot of an extent.
    pub(super) fn free(&mut self, extent: Id<Extent>) {
        self.extents[extent].pages = 0;
        self.extents.remove(extent);
    }
}
