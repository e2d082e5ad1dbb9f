//! The two LRU lists of the page cache and reclaim (`mm/vmscan.c`).

use super::{Extent, Group, List, PageCache, PageState, REGION_SHIFT};
use crate::slots::Id;

impl PageCache {
    pub(super) fn link_newest(&mut self, extent: Id<Extent>) {
        let e = self.extents[extent];
        self.count_listed(extent, i64::from(e.pages));
        let list = self.list_of(extent);
        let second = list.newest;
        list.newest = Some(extent);
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
        let pages = i64::from(e.pages);
        self.count_listed(extent, pages);
        self.extents[older].newer = Some(extent);
        match newer {
            None => self.list_of(extent).newest = Some(extent),
            Some(newer) => self.extents[newer].older = Some(extent),
        }
    }

    pub(super) fn unlink(&mut self, extent: Id<Extent>) {
        let e = self.extents[extent];
        self.count_listed(extent, -i64::from(e.pages));
        match e.newer {
            None => self.list_of(extent).newest = e.older,
            Some(newer) => self.extents[newer].older = e.older,
        }
        match e.older {
            None => self.list_of(extent).oldest = e.newer,
            Some(older) => self.extents[older].newer = e.newer,
        }
    }

    pub(super) fn list_of(&mut self, extent: Id<Extent>) -> &mut List {
        let e = &self.extents[extent];
        &mut self.groups[e.group].lists[usize::from(e.active)]
    }

    /// Count pages that enter or leave the list of an extent.
    pub(super) fn count_listed(&mut self, extent: Id<Extent>, pages: i64) {
        self.used_pages = self.used_pages.wrapping_add_signed(pages);
        let list = self.list_of(extent);
        list.pages = list.pages.wrapping_add_signed(pages);
    }

    /// Reclaim until `pages` more of a group fit, or no clean pages are left within reach: first in
    /// the group, if that is full, then in the largest group.
    pub(super) fn make_room(&mut self, group: Id<Group>, pages: u64) {
        let mut patience = 256;
        loop {
            let g = &self.groups[group];
            let excess = (g.pages() + pages).saturating_sub(g.capacity_pages);
            if excess == 0 || patience == 0 || !self.reclaim(group, excess, &mut patience) {
                break;
            }
        }
        let mut patience = 256;
        loop {
            let excess = (self.used_pages() + pages).saturating_sub(self.capacity_pages);
            let from = self.largest_group();
            if excess == 0 || patience == 0 || !self.reclaim(from, excess, &mut patience) {
                return;
            }
        }
    }

    /// Reclaim up to `excess` pages: those of the oldest inactive extent of a group. Return false if
    /// there is none.
    fn reclaim(&mut self, group: Id<Group>, excess: u64, patience: &mut u32) -> bool {
        // Refill: keep the inactive list at least as long as the active one.
        while *patience > 0 {
            let [inactive, active] = self.groups[group].lists;
            if active.pages <= inactive.pages {
                break;
            }
            *patience -= 1;
            let Some(oldest) = active.oldest else { break };
            self.unlink(oldest);
            self.extents[oldest].active = false;
            self.link_newest(oldest);
        }
        let Some(oldest) = self.groups[group].lists[0].oldest else { return false };
        let e = self.extents[oldest];
        if e.state != PageState::Clean {
            self.unlink(oldest);
            self.link_newest(oldest);
            *patience = patience.saturating_sub(1);
        } else if excess >= u64::from(e.pages) {
            self.counters.evicted_pages += u64::from(e.pages);
            self.forget(oldest);
        } else {
            self.trim(oldest, excess as u32);
        }
        true
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
        self.count_listed(extent, -i64::from(pages));
        self.counters.evicted_pages += u64::from(pages);
    }
}
