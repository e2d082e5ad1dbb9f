//! The two LRU lists of the page cache and reclaim (`mm/vmscan.c`).
//!
//! Rules with refault distances are those of Linux 6.18: `inactive_is_low`, and
//! `prepare_scan_control`, which deactivates while pages refault.

use super::extent::{ACTIVE, INACTIVE};
use super::lookup::place_of;
use super::pages::{region_of, within_region};
use super::shadows::PageReclaim;
use super::{Extent, Group, List, PageCache, PageState};
use crate::slots::Id;

/// What one step of reclaim does.
pub(super) struct Work {
    /// The group whose pages it evicts.
    pub(super) from: Id<Group>,
    /// The group whose limit makes it necessary.
    pub(super) target: Id<Group>,
    pub(super) excess: u64,
}

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

    /// Link an extent as the next older one of another extent of its list.
    pub(super) fn link_before(&mut self, extent: Id<Extent>, newer: Id<Extent>) {
        self.count_listed(extent, i64::from(self.extents[extent].pages));
        let older = self.extents[newer].older.replace(extent);
        match older {
            None => self.list_of(extent).oldest = Some(extent),
            Some(older) => self.extents[older].newer = Some(extent),
        }
        let e = &mut self.extents[extent];
        e.newer = Some(newer);
        e.older = older;
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

    /// Move an extent to the active list.
    pub(super) fn activate(&mut self, extent: Id<Extent>) {
        self.unlink(extent);
        self.extents[extent].list = ACTIVE;
        self.link_newest(extent);
        let e = self.extents[extent];
        self.age_by(e.group, e.pages);
    }

    /// Move the oldest active extent of a group to the inactive list.
    fn deactivate_oldest(&mut self, group: Id<Group>) {
        let Some(oldest) = self.groups[group].lists[1].oldest else { return };
        self.unlink(oldest);
        self.extents[oldest].list = INACTIVE;
        self.link_newest(oldest);
    }

    pub(super) fn list_of(&mut self, extent: Id<Extent>) -> &mut List {
        let e = &self.extents[extent];
        &mut self.groups[e.group].lists[usize::from(e.list)]
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
            let work = Work { from: group, target: group, excess };
            if excess == 0 {
                break;
            }
            if patience == 0 || !self.reclaim(&work, &mut patience) {
                self.evict_protected(&work);
                break;
            }
        }
        self.end_reclaim(group);
        let mut patience = 256;
        loop {
            let excess = (self.used_pages() + pages).saturating_sub(self.capacity_pages);
            let work = Work { from: self.largest_group(), target: Self::root(), excess };
            if excess == 0 || patience == 0 || !self.reclaim(&work, &mut patience) {
                break;
            }
        }
        self.end_reclaim(Self::root());
    }

    /// Later reclaim of a group looks for refaults after this one (`snapshot_refaults`).
    fn end_reclaim(&mut self, group: Id<Group>) {
        let g = &mut self.groups[group];
        g.refaulted_before = g.known.refaulted_pages;
    }

    /// Reclaim up to `excess` pages: those of the oldest inactive extent of a group. Return false if
    /// there is none.
    fn reclaim(&mut self, work: &Work, patience: &mut u32) -> bool {
        if self.policy == PageReclaim::Mglru {
            return self.reclaim_generation(work, patience);
        }
        let group = work.from;
        while *patience > 0 && self.must_refill(group) {
            *patience -= 1;
            self.deactivate_oldest(group);
        }
        let Some(oldest) = self.groups[group].lists[0].oldest else { return false };
        let e = self.extents[oldest];
        if e.state != PageState::Clean {
            self.unlink(oldest);
            self.link_newest(oldest);
            *patience = patience.saturating_sub(1);
            return true;
        }
        let pages = work.excess.min(u64::from(e.pages)) as u32;
        self.deactivate(work, pages);
        self.evict(oldest, pages, work.target);
        true
    }

    /// Drop the first pages of a clean extent for a group's limit.
    pub(super) fn evict(&mut self, extent: Id<Extent>, pages: u32, target: Id<Group>) {
        let e = self.extents[extent];
        match self.policy {
            PageReclaim::TwoLists => {}
            PageReclaim::Workingset => self.leave_shadow(e.file, e.start, pages, target),
            PageReclaim::Mglru => self.leave_generation(&e, pages),
        }
        if pages == e.pages {
            self.counters.evicted_pages += u64::from(pages);
            self.forget(extent);
        } else {
            self.trim(extent, pages);
        }
    }

    /// Drop clean extents that reclaim did not get to, oldest first: a group at its limit whose
    /// inactive or oldest pages are all dirty must not grow with the clean ones.
    fn evict_protected(&mut self, work: &Work) {
        let inactive = usize::from(self.policy != PageReclaim::Mglru);
        let mut excess = work.excess;
        for list in self.groups[work.from].generations.lists().into_iter().skip(inactive) {
            let mut next = self.groups[work.from].lists[list].oldest;
            while let (Some(extent), true) = (next, excess > 0) {
                let e = self.extents[extent];
                next = e.newer;
                if e.state == PageState::Clean {
                    let pages = excess.min(u64::from(e.pages));
                    excess -= pages;
                    self.evict(extent, pages as u32, work.target);
                }
            }
        }
    }

    /// Return whether the inactive list of a group is to be refilled at once: when it is shorter than
    /// the active one, and with refault distances when it has nothing to evict.
    fn must_refill(&self, group: Id<Group>) -> bool {
        let [inactive, active, ..] = &self.groups[group].lists;
        match self.policy {
            PageReclaim::TwoLists => active.pages > inactive.pages,
            _ => active.pages > 0 && inactive.pages == 0,
        }
    }

    /// With refault distances: while `pages` are evicted, deactivate old active pages in the
    /// proportion of the lists, if the active one is known to be too long, or if pages are known to
    /// have refaulted since the last reclaim: a new working set takes their place.
    fn deactivate(&mut self, work: &Work, pages: u32) {
        if self.policy == PageReclaim::TwoLists {
            return;
        }
        let target = &self.groups[work.target];
        let refaults = target.known.refaulted_pages != target.refaulted_before;
        if !refaults && !Self::is_inactive_low(target.known.listed_pages) {
            return;
        }
        let group = work.from;
        let g = &mut self.groups[group];
        let [inactive, active, ..] = &g.lists;
        g.to_deactivate_pages += f64::from(pages) * active.pages as f64 / inactive.pages as f64;
        while let Some(oldest) = self.groups[group].lists[1].oldest {
            let pages = f64::from(self.extents[oldest].pages);
            let g = &mut self.groups[group];
            if g.to_deactivate_pages < pages {
                return;
            }
            g.to_deactivate_pages -= pages;
            self.deactivate_oldest(group);
        }
        self.groups[group].to_deactivate_pages = 0.0;
    }

    /// Return whether an inactive list is too short beside an active one: shorter, and from 1 GiB
    /// on by the square root of ten times their GiB.
    fn is_inactive_low([inactive, active]: [u64; 2]) -> bool {
        let gib = (inactive + active) >> 18;
        active > inactive * if gib > 0 { (10 * gib).isqrt() } else { 1 }
    }

    /// Drop the first pages of a clean extent.
    fn trim(&mut self, extent: Id<Extent>, pages: u32) {
        let e = self.extents[extent];
        let start = e.start + pages;
        let f = &mut self.files[e.file];
        let region = &mut f.regions[region_of(e.start)];
        let at = place_of(region, within_region(e.start), f.place.get());
        region[at].start = within_region(start);
        let left = &mut self.extents[extent];
        left.start = start;
        left.pages -= pages;
        left.touched_end = left.touched_end.max(start);
        left.mark = e.mark_if(|mark| mark >= start);
        self.count_listed(extent, -i64::from(pages));
        self.counters.evicted_pages += u64::from(pages);
    }
}
