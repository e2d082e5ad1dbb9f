//! Refault distances (`mm/workingset.c`, as in Linux 6.18): which pages that are read again were
//! evicted too early.
//!
//! An evicted page leaves a shadow with the age of the group whose reclaim evicted it: the pages
//! that were evicted from that group or activated in it until then. A page that is read again while
//! fewer pages than the active list has were evicted or activated since would have stayed if the
//! active list had made room. It enters the active list at once, and the next reclaim deactivates
//! old active pages.
//!
//! Shadows are stored by extent. The pages of one read are judged together.
//!
//! Lengths of lists and refaults of a group are sums of counters of each CPU and of groups below
//! it. The rules of reclaim use the last such sums, which are made every two
//! seconds (`lruvec_page_state`; `FLUSH_TIME` in `mm/memcontrol.c`).

use super::extent::Statistics;
use super::shadows::{PageReclaim, Shadow};
use super::{CachedFile, Group, PageCache};
use crate::request::Nanos;
use crate::slots::Id;

/// How often statistics are summed up.
const SUM_UP_NS: Nanos = 2_000_000_000;

impl PageCache {
    /// Tell the time, before pages are used or added: statistics may have to be summed up. They are
    /// at multiples of two seconds of the cache's clock.
    #[inline]
    pub fn advance(&mut self, now: Nanos) {
        if now >= self.sum_up_at && self.policy == PageReclaim::Workingset {
            self.sum_up_statistics();
            self.sum_up_at = (now / SUM_UP_NS + 1) * SUM_UP_NS;
        }
    }

    /// Count pages of a group that are evicted or activated.
    pub(super) fn age_by(&mut self, group: Id<Group>, pages: u32) {
        let root = Self::root();
        self.groups[group].age_pages += u64::from(pages);
        if group != root {
            self.groups[root].age_pages += u64::from(pages);
        }
    }

    /// Leave a shadow of pages that the reclaim of a group evicts.
    pub(super) fn leave_shadow(
        &mut self,
        file: Id<CachedFile>,
        start: u32,
        pages: u32,
        group: Id<Group>,
    ) {
        let Group { age_pages, serial, .. } = self.groups[group];
        let shadow = Shadow {
            end: start + pages,
            age_pages,
            group: group.number(),
            serial,
            generation: 0,
            tier: 0,
        };
        self.age_by(group, pages);
        self.add_shadow(file, start, shadow);
    }

    pub(super) fn add_shadow(&mut self, file: Id<CachedFile>, start: u32, shadow: Shadow) {
        let mut shadows = std::mem::take(&mut self.files[file].shadows);
        shadows.add(start, shadow);
        if shadows.are_many() {
            shadows.prune(|shadow| self.may_be_recent(shadow));
        }
        self.files[file].shadows = shadows;
    }

    /// Return whether a page of a shadow can still be activated: no active list is longer than the
    /// cache.
    fn may_be_recent(&self, shadow: &Shadow) -> bool {
        if self.policy == PageReclaim::Mglru {
            return self.is_recent_generation(shadow);
        }
        let last_age = shadow.age_pages + u64::from(shadow.end);
        self.evicting_group(shadow).is_some_and(|g| g.age_pages <= last_age + self.capacity_pages)
    }

    /// Return the group that evicted the pages of a shadow, unless it has been removed.
    pub(super) fn evicting_group(&self, shadow: &Shadow) -> Option<&Group> {
        Some(&self.groups[Id::numbered(shadow.group)]).filter(|group| group.serial == shadow.serial)
    }

    /// Sum up what the rules know of each group (`mem_cgroup_flush_stats`); the root group has all
    /// pages.
    pub(super) fn sum_up_statistics(&mut self) {
        let root = Self::root();
        let mut all = Statistics { listed_pages: [0; 2], refaulted_pages: 0 };
        for group in self.groups.ids() {
            let g = &mut self.groups[group];
            g.known = Statistics {
                listed_pages: [g.lists[0].pages, g.lists[1].pages],
                refaulted_pages: g.refaulted_pages,
            };
            for (sum, pages) in all.listed_pages.iter_mut().zip(g.known.listed_pages) {
                *sum += pages;
            }
            all.refaulted_pages += g.known.refaulted_pages;
        }
        self.groups[root].known = all;
    }

    /// Forget the shadows of pages that enter the cache. Return whether most of them were evicted
    /// too early.
    pub(super) fn refault(&mut self, file: Id<CachedFile>, start: u32, pages: u32) -> bool {
        if self.files[file].shadows.ranges.is_empty() {
            return false;
        }
        let mut shadows = std::mem::take(&mut self.files[file].shadows);
        let mut recent_pages = 0;
        shadows.take(start, start + pages, |pages, shadow| {
            let Some(group) = self.evicting_group(shadow) else { return };
            let distance = group.age_pages - shadow.age_pages;
            if distance <= group.known.listed_pages[1] {
                recent_pages += pages;
            }
        });
        self.files[file].shadows = shadows;
        recent_pages * 2 > pages
    }
}

#[cfg(test)]
#[path = "workingset_tests.rs"]
mod tests;
