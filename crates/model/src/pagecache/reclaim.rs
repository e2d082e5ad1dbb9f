//! The two LRU lists of the page cache and reclaim (`mm/vmscan.c`).

use super::{Extent, PageCache, PageState, REGION_SHIFT};
use crate::slots::Id;

impl PageCache {
    pub(super) fn link_newest(&mut self, extent: Id<Extent>) {
        let e = self.extents[extent];
        let list = &mut self.lists[usize::from(e.active)];
        let second = list.newest;
        list.newest = Some(extent);
        list.pages += u64::from(e.pages);
        match second {
            None => list.oldest = Some(extent),
            Some(second) => self.extents[second].newer = Some(extent),
        }
        let e = &mut self.extents[extent];
        e.newer = None;
        e.older = second;
    }

    /// Insert an extent directly after another of its list, as slightly newer.
    pub(super) fn link_behind(&mut self, extent: Id<Extent>, older: Id<Extent>) {
        let newer = self.extents[older].newer;
        let e = &mut self.extents[extent];
        (e.newer, e.older) = (newer, Some(older));
        let (pages, list) = (u64::from(e.pages), usize::from(e.active));
        self.lists[list].pages += pages;
        self.extents[older].newer = Some(extent);
        match newer {
            None => self.lists[list].newest = Some(extent),
            Some(newer) => self.extents[newer].older = Some(extent),
        }
    }

    pub(super) fn unlink(&mut self, extent: Id<Extent>) {
        let e = self.extents[extent];
        let list = &mut self.lists[usize::from(e.active)];
        list.pages -= u64::from(e.pages);
        match e.newer {
            None => list.newest = e.older,
            Some(newer) => self.extents[newer].older = e.older,
        }
        match e.older {
            None => list.oldest = e.newer,
            Some(older) => self.extents[older].newer = e.newer,
        }
    }

    /// Reclaim until `pages` more fit, or no clean pages are left within reach.
    pub(super) fn make_room(&mut self, pages: u64) {
        let mut patience = 256;
        while self.used_pages() + pages > self.capacity_pages && patience > 0 {
            // Refill: keep the inactive list at least as long as the active one.
            while self.lists[1].pages > self.lists[0].pages && patience > 0 {
                patience -= 1;
                let Some(oldest) = self.lists[1].oldest else { break };
                self.unlink(oldest);
                self.extents[oldest].active = false;
                self.link_newest(oldest);
            }
            let Some(oldest) = self.lists[0].oldest else { return };
            let e = self.extents[oldest];
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
    fn trim(&mut self, extent: Id<Extent>, pages: u32) {
        let e = self.extents[extent];
        let start = e.start + pages;
        let region = &mut self.files[e.file].regions[(e.start >> REGION_SHIFT) as usize];
        let at = region.partition_point(|&(s, _)| s < e.start);
        region[at].0 = start;
        let left = &mut self.extents[extent];
        left.start = start;
        left.pages -= pages;
        left.touched_end = left.touched_end.max(start);
        left.mark = e.mark.filter(|&mark| mark >= start);
        self.lists[usize::from(e.active)].pages -= u64::from(pages);
        self.counters.evicted_pages += u64::from(pages);
    }
}
