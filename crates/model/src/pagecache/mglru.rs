//! The multi-generational LRU (`CONFIG_LRU_GEN`, `mm/vmscan.c`, `mm/workingset.c` and `mm/swap.c`
//! as in Linux 6.18) for pages that are used through read() and write().
//!
//! Pages enter the oldest generation and are evicted in the order in which they entered it. A use
//! moves nothing: it is counted, up to five. When the eviction comes to a page whose tier is
//! protected, or that was used five times, the page moves to the next generation and its uses count
//! from zero. An evicted page leaves a shadow with its generation and tier; if it is read again
//! while that generation is less than four before the youngest one, the refault counts for its
//! tier, and a page of the last tier returns to it at once. Uses are counted for parts of extents;
//! see `Extent::uses`.

use super::generations::{Generations, LAST_TIER};
use super::lookup::end_within_region;
use super::pages::region_of;
use super::reclaim::Work;
use super::shadows::Shadow;
use super::{CachedFile, Extent, Group, PageCache, PageReclaim, PageState, REGION_SHIFT};
use crate::slots::Id;

/// Shadows live until this multiple of a group's pages has been evicted: the kernel limits their
/// memory to nodes of 64 for an eighth of the pages (`count_shadow_nodes`).
const SHADOWS_PER_PAGE: u64 = 8;

impl PageCache {
    /// Return the list that new pages of a group enter.
    pub(super) fn entry_list(&self, group: Id<Group>, workingset: bool) -> u8 {
        match self.policy {
            PageReclaim::Mglru => {
                Generations::list(self.groups[group].generations.entry(workingset))
            }
            _ => super::extent::INACTIVE,
        }
    }

    /// Count a use of pages `from..to` of an extent (`lru_gen_inc_refs`).
    pub(super) fn count_use(&mut self, extent: Id<Extent>, from: u32, to: u32) {
        let e = self.extents[extent];
        if e.uses >= e.most_uses() || from >= to {
            return;
        }
        let middle = e.touched_end;
        let in_both = e.state == PageState::Clean && from < middle && middle < e.end();
        let rest = in_both.then(|| self.split(extent, middle));
        let used = self.use_part(extent, from, to.min(self.extents[extent].end()));
        if let Some(rest) = rest.filter(|_| to > middle) {
            let used = self.use_part(rest, middle, to);
            self.join_used(used, middle);
        }
        self.join_used(used, from);
    }

    /// As `count_use`, if the pages are after `touched_end`, or if all were used as often. Return
    /// the extent that begins with them; pages before them may be part of it.
    fn use_part(&mut self, mut extent: Id<Extent>, from: u32, to: u32) -> Id<Extent> {
        let e = &mut self.extents[extent];
        if from < e.touched_end {
            e.uses += 1;
            e.touched_end = e.start;
            if e.uses == e.most_uses() {
                return extent;
            }
        }
        // Extents with I/O cannot be split: their pages count as used together.
        if e.state == PageState::Clean && from > e.touched_end {
            extent = self.split(extent, from);
        }
        let e = &mut self.extents[extent];
        e.touched_end = e.touched_end.max(to);
        extent
    }

    /// Join an extent whose pages from `from` on were just used with its neighbours, if that may
    /// have become possible.
    fn join_used(&mut self, extent: Id<Extent>, from: u32) {
        let e = &self.extents[extent];
        if from <= e.start || e.touched_end == e.start || e.touched_end == e.end() {
            self.join_neighbours(extent);
        }
    }

    /// Join an extent with those of the adjacent pages if they are adjacent in the list, too.
    fn join_neighbours(&mut self, extent: Id<Extent>) {
        let Extent { newer, older, .. } = self.extents[extent];
        let pairs = [newer.map(|newer| (extent, newer)), older.map(|older| (older, extent))];
        for (left, right) in pairs.into_iter().flatten() {
            let (l, r) = (&self.extents[left], &self.extents[right]);
            if l.end() == r.start
                && l.file == r.file
                && (l.start ^ r.start) >> REGION_SHIFT == 0
                && l.state == PageState::Clean
                && l.fits(r)
            {
                self.join_uses(left, right);
            }
        }
    }

    /// Join an extent with the one to its left, which fits, where it is in its list: if their uses
    /// can be told.
    pub(super) fn join_uses(&mut self, left: Id<Extent>, extent: Id<Extent>) {
        let (l, e) = (self.extents[left], self.extents[extent]);
        let flags = |e: &Extent| (e.workingset, e.evict_when_written);
        let Some((uses, touched_end)) = l.joined_uses(&e) else { return };
        if flags(&l) != flags(&e) {
            return;
        }
        let at = self.place(extent);
        if e.older != Some(left) {
            self.unlink(left);
            self.link_before(left, extent);
        }
        self.forget_at(extent, at);
        let l = &mut self.extents[left];
        l.pages += e.pages;
        l.mark = l.mark.or(e.mark);
        l.order = e.order;
        l.uses = uses;
        l.touched_end = touched_end;
        self.count_listed(left, i64::from(e.pages));
        self.files[e.file].regions[region_of(e.start)][at - 1].end = end_within_region(e.end());
        if e.state == PageState::Dirty {
            // `forget_at` subtracted them.
            self.add_dirty(e.file, e.group, e.pages);
        }
    }

    /// Reclaim up to `excess` pages, those of the oldest extent of the oldest generation, or move
    /// that extent to a younger one. Return false if the group has no pages.
    pub(super) fn reclaim_generation(&mut self, work: &Work, patience: &mut u32) -> bool {
        let Some(oldest) = self.oldest_in_generations(work.from) else { return false };
        let e = self.extents[oldest];
        let clean = e.state == PageState::Clean;
        *patience = patience.saturating_sub(u32::from(!clean));
        let (uses, pages) = e.first_part();
        let tier = Generations::tier(uses, e.workingset);
        let all_uses = uses >= e.most_uses();
        let generations = &mut self.groups[work.from].generations;
        if all_uses || tier > generations.highest_evicted_tier() {
            if clean && pages < e.pages {
                self.split(oldest, e.start + pages);
            }
            self.protect(oldest, tier, all_uses);
            return true;
        }
        match e.state() {
            PageState::Clean => {
                let pages = work.excess.min(u64::from(pages)) as u32;
                self.evict(oldest, pages, work.target);
            }
            PageState::Reading(_) => {
                let to = generations.entry_of_rejected(e.workingset);
                self.move_to(oldest, to);
            }
            PageState::Dirty | PageState::Writeback => {
                let to = generations.oldest() + 1;
                self.extents[oldest].evict_when_written = true;
                self.move_to(oldest, to);
            }
        }
        true
    }

    /// Return the oldest extent of the oldest generation of a group.
    fn oldest_in_generations(&mut self, group: Id<Group>) -> Option<Id<Extent>> {
        if self.groups[group].pages() == 0 {
            return None;
        }
        loop {
            let g = &mut self.groups[group];
            g.generations.advance(|list| g.lists[usize::from(list)].oldest.is_some());
            let list = Generations::list(g.generations.oldest());
            if let Some(oldest) = g.lists[usize::from(list)].oldest {
                return Some(oldest);
            }
        }
    }

    /// Move pages of a protected tier to the next generation (`sort_folio`).
    fn protect(&mut self, extent: Id<Extent>, tier: u8, all_uses: bool) {
        let e = &mut self.extents[extent];
        e.workingset |= tier == LAST_TIER;
        let (group, pages) = (e.group, e.pages);
        let generations = &mut self.groups[group].generations;
        if !all_uses {
            generations.count_judged(tier, pages);
        }
        let to = generations.oldest() + 1;
        self.move_to(extent, to);
    }

    /// Move an extent to another generation, as its newest. Its uses count from zero.
    fn move_to(&mut self, extent: Id<Extent>, generation: u64) {
        self.unlink(extent);
        let e = &mut self.extents[extent];
        e.list = Generations::list(generation);
        e.uses = 0;
        e.touched_end = e.start;
        self.link_newest(extent);
    }

    /// Let an extent that has been written be the next to be evicted (`lru_gen_add_folio` for
    /// `folio_rotate_reclaimable`).
    pub(super) fn evict_next(&mut self, extent: Id<Extent>) {
        self.unlink(extent);
        let group = self.extents[extent].group;
        let list = Generations::list(self.groups[group].generations.oldest());
        let e = &mut self.extents[extent];
        e.evict_when_written = false;
        e.list = list;
        match self.groups[group].lists[usize::from(list)].oldest {
            Some(oldest) => self.link_before(extent, oldest),
            None => self.link_newest(extent),
        }
    }

    /// Leave a shadow of the first pages of an extent that is being evicted (`lru_gen_eviction`).
    pub(super) fn leave_generation(&mut self, e: &Extent, pages: u32) {
        let tier = Generations::tier(e.first_part().0, e.workingset);
        let g = &mut self.groups[e.group];
        g.generations.count_judged(tier, pages);
        let shadow = Shadow {
            end: e.start + pages,
            age_pages: g.age_pages,
            group: e.group.number(),
            serial: g.serial,
            generation: g.generations.oldest() as u16,
            tier,
        };
        self.age_by(e.group, pages);
        self.add_shadow(e.file, e.start, shadow);
    }

    /// Return whether the pages of a shadow count if they are read again.
    pub(super) fn is_recent_generation(&self, shadow: &Shadow) -> bool {
        let Some(group) = self.evicting_group(shadow) else { return false };
        let kept = SHADOWS_PER_PAGE * group.capacity_pages.min(self.capacity_pages);
        group.generations.is_recent(shadow.generation) && group.age_pages - shadow.age_pages <= kept
    }

    /// Forget the shadows of pages that a group reads, and count refaults. Return whether most of
    /// the pages were in the last tier (`lru_gen_refault`).
    pub(super) fn refault_generations(
        &mut self,
        file: Id<CachedFile>,
        start: u32,
        pages: u32,
        group: Id<Group>,
    ) -> bool {
        if self.files[file].shadows.ranges.is_empty() {
            return false;
        }
        let mut shadows = std::mem::take(&mut self.files[file].shadows);
        let mut workingset_pages = 0;
        shadows.take(start, start + pages, |pages, shadow| {
            if shadow.group != group.number() || !self.is_recent_generation(shadow) {
                return;
            }
            self.groups[group].generations.count_refaulted(shadow.tier, pages);
            workingset_pages += if shadow.tier == LAST_TIER { pages } else { 0 };
        });
        self.files[file].shadows = shadows;
        workingset_pages * 2 > pages
    }

    /// Let an extent that was just read begin in the last tier.
    pub(super) fn enter_workingset(&mut self, extent: Id<Extent>) {
        let group = self.extents[extent].group;
        self.extents[extent].workingset = true;
        let to = self.groups[group].generations.entry(true);
        self.move_to(extent, to);
    }
}

#[cfg(test)]
#[path = "mglru_reference.rs"]
mod reference;

#[cfg(test)]
#[path = "mglru_tests.rs"]
mod tests;
