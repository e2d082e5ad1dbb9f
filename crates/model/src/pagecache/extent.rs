//! Extents, the elements of the LRU lists; those lists, by control group; and files, which index
//! their extents.

use std::cell::Cell;

use super::shadows::Shadows;
use crate::slots::Id;

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

/// Contiguous pages of one file in one state.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub file: Id<CachedFile>,
    pub start: u32,
    /// 0 in a free slot: no page is found there.
    pub pages: u32,
    pub state: PageState,
    /// The read-ahead mark (`PG_readahead`): an access of this page starts the next window.
    pub mark: Option<u32>,
    /// The control group that its pages count to.
    pub group: Id<Group>,
    pub(super) active: bool,
    pub(super) touched_end: u32,
    pub(super) newer: Option<Id<Extent>>,
    pub(super) older: Option<Id<Extent>>,
}

impl Extent {
    /// Return the page after its last.
    pub fn end(&self) -> u32 {
        self.start + self.pages
    }
}

/// An extent in the index of its file, with its first page and the page after its last: look-ups
/// find out which pages are in the cache without the extents.
#[derive(Clone, Copy, Debug)]
pub(super) struct Indexed {
    pub(super) start: u32,
    pub(super) end: u32,
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
    pub(super) lists: [List; 2],
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
    pub(super) serial: u64,
}

impl Group {
    /// The root group, which has no limit of its own.
    pub(super) const ROOT: Group = Group {
        lists: [List::EMPTY; 2],
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
    pub(super) const REMOVED: u64 = u64::MAX;

    pub(super) fn pages(&self) -> u64 {
        self.lists[0].pages + self.lists[1].pages
    }
}
