//! An extent: the element of the LRU lists and of a file's index.

/// State of the pages of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageState {
    Clean,
    /// Being read.
    Reading,
    Dirty,
    /// Being written.
    Writeback,
}

/// Contiguous pages of one file in one state.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub file: u32,
    pub start: u32,
    pub pages: u32,
    pub state: PageState,
    /// The read-ahead mark (`PG_readahead`): an access of this page starts the next window.
    pub mark: u32,
    /// The I/O that reads or writes it.
    pub io: u32,
    pub(super) active: bool,
    pub(super) touched_end: u32,
    pub(super) newer: u32,
    pub(super) older: u32,
}

impl Extent {
    /// Return the page after its last.
    pub fn end(&self) -> u32 {
        self.start + self.pages
    }
}
