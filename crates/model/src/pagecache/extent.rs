//! Extents, the elements of the LRU lists, and files, which index their extents.

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

/// A file of the host, with the extents of its pages.
#[derive(Debug, Default)]
pub struct CachedFile {
    pub(super) regions: Vec<Vec<(u32, Id<Extent>)>>,
    pub(super) dirty_pages: u64,
    /// The last extent found: most look-ups hit it or the next one.
    pub(super) hint: std::cell::Cell<Option<Id<Extent>>>,
    /// End of the cached pages: no page at or after this one is in the cache.
    pub(super) pages_end: u32,
}
