//! Extents, the elements of the LRU lists; those lists, by control group; and files, which index
//! their extents.

use std::cell::Cell;

use super::generations::{Generations, ALL_USES};
use super::pages::{within_region, Folio, REGION_SHIFT};
use super::shadows::Shadows;
use crate::slots::Id;

pub(super) const MAX_EXTENT_PAGES: u32 = 1024;

/// The inactive and the active list of a group.
pub(super) const INACTIVE: u8 = 0;
pub(super) const ACTIVE: u8 = 1;

/// An I/O of the cache's user that reads pages; only its ids are known here.
#[derive(Debug)]
pub enum PageIo {}

/// State of the pages of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    Clean,
    /// Being read by this I/O.
    Reading(Id<PageIo>),
    Dirty,
    /// Being written.
    Writeback,
}

/// A `PageState` in four bytes instead of eight: a cluster has millions of extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StoredState(u32);

impl StoredState {
    /// Numbers of the states without an I/O. Ids of I/Os are smaller.
    const CLEAN: u32 = u32::MAX;
    const DIRTY: u32 = u32::MAX - 1;
    const WRITEBACK: u32 = u32::MAX - 2;

    #[inline]
    pub(super) fn get(self) -> PageState {
        match self.0 {
            Self::CLEAN => PageState::Clean,
            Self::DIRTY => PageState::Dirty,
            Self::WRITEBACK => PageState::Writeback,
            io => PageState::Reading(Id::numbered(io)),
        }
    }
}

impl From<PageState> for StoredState {
    #[inline]
    fn from(state: PageState) -> Self {
        StoredState(match state {
            PageState::Clean => Self::CLEAN,
            PageState::Dirty => Self::DIRTY,
            PageState::Writeback => Self::WRITEBACK,
            PageState::Reading(io) => {
                debug_assert!(io.number() < Self::WRITEBACK);
                io.number()
            }
        })
    }
}

impl PartialEq<PageState> for StoredState {
    #[inline]
    fn eq(&self, state: &PageState) -> bool {
        *self == StoredState::from(*state)
    }
}

/// A page of a file; only its number is known.
#[derive(Debug)]
pub enum Page {}

/// The read-ahead mark (`PG_readahead`) of an extent: its folio, by the page in the region of the
/// extent, which needs `REGION_SHIFT` bits, and by the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u16);

impl Mark {
    pub(super) const NONE: Mark = Mark(u16::MAX);

    pub(super) fn on(folio: Folio) -> Self {
        Mark(u16::from(folio.order) << REGION_SHIFT | within_region(folio.start))
    }

    /// Return the folio, in the region of a page.
    fn get(self, page: u32) -> Option<Folio> {
        let region = page >> REGION_SHIFT << REGION_SHIFT;
        let start = region + u32::from(self.0 & ((1 << REGION_SHIFT) - 1));
        (self != Self::NONE).then_some(Folio { start, order: (self.0 >> REGION_SHIFT) as u8 })
    }

    pub(super) fn or(self, other: Mark) -> Mark {
        if self == Self::NONE {
            other
        } else {
            self
        }
    }
}

/// Contiguous pages of one file in one state.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub file: Id<CachedFile>,
    pub start: u32,
    /// 0 in a free slot: no page is found there.
    pub pages: u32,
    pub(super) state: StoredState,
    /// Where an access starts the next window of read-ahead.
    pub(super) mark: Mark,
    /// The control group that its pages count to.
    pub group: Id<Group>,
    /// Which of the group's lists it is in: inactive or active, or its generation (`mglru`).
    pub(super) list: u8,
    /// With `mglru`: how often its pages from `touched_end` on have been used; those before once
    /// more.
    pub(super) uses: u8,
    /// With `mglru`: the pages were used five times or more (`PG_workingset`).
    pub(super) workingset: bool,
    /// Order of the folio of its last page, as far as that is known.
    pub(super) order: u8,
    /// With `mglru`: reclaim came by while the pages were not written yet (`PG_reclaim`).
    pub(super) evict_when_written: bool,
    pub(super) touched_end: u32,
    pub(super) newer: Option<Id<Extent>>,
    pub(super) older: Option<Id<Extent>>,
}

impl Extent {
    pub fn state(&self) -> PageState {
        self.state.get()
    }

    /// Return the folio with the read-ahead mark. Pages after its first may be in other extents.
    pub fn mark(&self) -> Option<Folio> {
        self.mark.get(self.start)
    }

    /// Return the mark if its first page is one of some.
    pub(super) fn mark_if(&self, within: impl FnOnce(u32) -> bool) -> Mark {
        self.mark().filter(|mark| within(mark.start)).map_or(Mark::NONE, Mark::on)
    }

    /// Return the page after its last.
    pub fn end(&self) -> u32 {
        self.start + self.pages
    }

    /// Return whether an extent and the one of the next pages can be one, apart from their uses.
    pub(super) fn fits(&self, next: &Extent) -> bool {
        self.state == next.state
            && self.list == next.list
            && self.group == next.group
            && self.pages + next.pages <= MAX_EXTENT_PAGES
            && (self.mark == Mark::NONE || next.mark == Mark::NONE)
    }

    pub(super) fn is_active(&self) -> bool {
        self.list == ACTIVE
    }

    /// With `mglru`: return how often its first pages were used, and how many pages these are.
    pub(super) fn first_part(&self) -> (u8, u32) {
        match self.touched_end - self.start {
            0 => (self.uses, self.pages),
            pages => (self.uses + 1, pages),
        }
    }

    /// With `mglru`: return `uses` and `touched_end` of this extent joined with that of the next
    /// pages, if these can tell how often each page was used.
    pub(super) fn joined_uses(&self, next: &Extent) -> Option<(u8, u32)> {
        let (first, pages) = self.first_part();
        let (next_first, next_pages) = next.first_part();
        if pages < self.pages {
            let alike = next_pages == next.pages && next_first == self.uses;
            return alike.then_some((self.uses, self.touched_end));
        }
        match (first == next_first, next_pages == next.pages) {
            (true, true) => Some((first, self.start)),
            (true, false) => Some((next.uses, next.touched_end)),
            (false, true) => (first == next_first + 1).then_some((next_first, next.start)),
            (false, false) => None,
        }
    }

    /// With `mglru`: return the number of uses from which on further ones change nothing.
    pub(super) fn most_uses(&self) -> u8 {
        ALL_USES - u8::from(self.workingset)
    }
}

/// An extent in the index of its file, with its first page and the page after its last, both counted
/// from the first page of its region: look-ups find out which pages are in the cache without the
/// extents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Indexed {
    pub(super) start: u16,
    pub(super) end: u16,
    pub(super) extent: Id<Extent>,
}

/// A file of the host, with the extents of its pages.
#[derive(Debug, Default)]
pub struct CachedFile {
    pub(super) regions: Vec<Vec<Indexed>>,
    pub(super) dirty_pages: u64,
    /// About where the last extent found is in its region: most look-ups hit it or the next one.
    pub(super) place: Cell<u32>,
    /// End of the cached pages: no page at or after this one is in the cache.
    pub(super) pages_end: u32,
    pub(super) shadows: Shadows,
}

/// An LRU list of extents.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct List {
    pub(super) newest: Option<Id<Extent>>,
    pub(super) oldest: Option<Id<Extent>>,
    pub(super) pages: u64,
}

impl List {
    pub(super) const EMPTY: List = List { newest: None, oldest: None, pages: 0 };
}

/// Statistics of a group, and of those in it, as they were last summed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statistics {
    /// Pages of the inactive and the active list.
    pub(super) listed_pages: [u64; 2],
    pub(super) refaulted_pages: u64,
}

/// A memory control group with its LRU lists.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// The inactive and the active list; with `mglru` a list for each generation.
    pub(super) lists: [List; 4],
    pub(super) generations: Generations,
    pub(super) capacity_pages: u64,
    /// Dirty pages and those being written.
    pub(super) unwritten_pages: u64,
    /// Pages that were evicted or activated (`nonresident_age`).
    pub(super) age_pages: u64,
    /// Pages activated so far because they were evicted too early.
    pub(super) refaulted_pages: u64,
    /// What the kernel's rules know of the group.
    pub(super) known: Statistics,
    /// `known.refaulted_pages` at the end of the last reclaim.
    pub(super) refaulted_before: u64,
    /// Active pages that reclaim still has to deactivate.
    pub(super) to_deactivate_pages: f64,
    /// Which group this is of all that had its slot; 0 for the root group, `REMOVED` for none.
    pub(super) serial: u32,
}

impl Group {
    /// The root group, which has no limit of its own.
    pub(super) const ROOT: Group = Group {
        lists: [List::EMPTY; 4],
        generations: Generations::NEW,
        capacity_pages: u64::MAX,
        unwritten_pages: 0,
        age_pages: 0,
        refaulted_pages: 0,
        known: Statistics { listed_pages: [0; 2], refaulted_pages: 0 },
        refaulted_before: 0,
        to_deactivate_pages: 0.0,
        serial: 0,
    };

    /// `serial` of a free slot.
    pub(super) const REMOVED: u32 = u32::MAX;

    pub(super) fn pages(&self) -> u64 {
        self.lists.iter().map(|list| list.pages).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_state_is_the_state() {
        let reading = |number| PageState::Reading(Id::numbered(number));
        for state in [
            PageState::Clean,
            PageState::Dirty,
            PageState::Writeback,
            reading(0),
            reading(u32::MAX - 3),
        ] {
            let stored = StoredState::from(state);
            assert_eq!(stored.get(), state);
            assert_eq!(stored == PageState::Dirty, state == PageState::Dirty);
        }
    }

    #[test]
    fn a_mark_is_on_its_folio() {
        assert_eq!(Mark::NONE.get(70_000), None);
        for folio in [Folio { start: 65_536, order: 0 }, Folio { start: 69_120, order: 9 }] {
            assert_eq!(Mark::on(folio).get(69_631), Some(folio));
        }
    }

    #[test]
    fn extents_are_small() {
        // A cluster of 10 000 nodes has millions.
        assert_eq!((size_of::<Extent>(), size_of::<Indexed>()), (40, 8));
    }
}
