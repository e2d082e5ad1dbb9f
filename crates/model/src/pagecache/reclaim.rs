//! The two LRU lists of the page cache and reclaim (`mm/vmscan.c`).

use super::{PageCache, PageState, NONE, REGION_SHIFT};

impl PageCache {
    pub(super) fn link_newest(&mut self, extent: u32) {
        let e = self.extents[extent as usize];
        let list = &mut self.lists[usize::from(e.active)];
        let second = list.newest;
        list.newest = extent;
        list.pages += u64::from(e.pages);
        if second == NONE {
            list.oldest = extent;
        } else {
            self.extents[second as usize].newer = extent;
        }
        let e = &mut self.extents[extent as usize];
        e.newer = NONE;
        e.older = second;
    }

    /// Insert an extent directly after another of its list, as slightly newer.
    pub(super) fn link_behind(&mut self, extent: u32, older: u32) {
        let newer = self.extents[older as usize].newer;
        let e = &mut self.extents[extent as usize];
        (e.newer, e.older) = (newer, older);
        let (pages, list) = (u64::from(e.pages), usize::from(e.active));
        self.lists[list].pages += pages;
        self.extents[older as usize].newer = extent;
        if newer == NONE {
            self.lists[list].newest = extent;
        } else {
            self.extents[newer as usize].older = extent;
        }
    }

    pub(super) fn unlink(&mut self, extent: u32) {
        let e = self.extents[extent as usize];
        let list = &mut self.lists[usize::from(e.active)];
        list.pages -= u64::from(e.pages);
        if e.newer == NONE {
            list.newest = e.older;
        } else {
            self.extents[e.newer as usize].older = e.older;
        }
        let list = &mut self.lists[usize::from(e.active)];
        if e.older == NONE {
            list.oldest = e.newer;
        } else {
            self.extents[e.older as usize].newer = e.newer;
        }
    }

    /// Reclaim until `pages` more fit, or no clean pages are left within reach.
    pub(super) fn make_room(&mut self, pages: u64) {
        let mut patience = 256;
        while self.used_pages() + pages > self.capacity_pages && patience > 0 {
            // Refill: keep the inactive list at least as long as the active one.
            while self.lists[1].pages > self.lists[0].pages && patience > 0 {
                patience -= 1;
                let oldest = self.lists[1].oldest;
                self.unlink(oldest);
                self.extents[oldest as usize].active = false;
                self.link_newest(oldest);
            }
            let oldest = self.lists[0].oldest;
            if oldest == NONE {
                return;
            }
            let e = self.extents[oldest as usize];
            if e.state != PageState::Clean {
                self.unlink(oldest);
                self.link_newest(oldest);
                patience -= 1;
                continue;
            }
            let excess = self.used_pages() + pages - self.capacity_pages;
            if excess >= u64::from(e.pages) {
                self.counters.evicted_pages += u64::from(e.pages);
                self.forget(oldest);
            } else {
                self.trim(oldest, excess as u32);
            }
        }
    }

    /// Drop the first pages of a clean extent.
    fn trim(&mut self, extent: u32, pages: u32) {
        let e = self.extents[extent as usize];
        let start = e.start + pages;
        let region = &mut self.files[e.file as usize].regions[(e.start >> REGION_SHIFT) as usize];
        let at = region.partition_point(|&(s, _)| s < e.start);
        region[at].0 = start;
        let left = &mut self.extents[extent as usize];
        left.start = start;
        left.pages -= pages;
        left.touched_end = left.touched_end.max(start);
        if e.mark != NONE && e.mark < start {
            left.mark = NONE;
        }
        self.lists[usize::from(e.active)].pages -= u64::from(pages);
        self.counters.evicted_pages += u64::from(pages);
    }
}
