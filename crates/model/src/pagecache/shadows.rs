//! Shadows of evicted pages, and whether the kernel keeps them (`mm/workingset.c`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How the kernel chooses the file pages that it evicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageReclaim {
    /// Before Linux 3.15: an active and an inactive list.
    #[default]
    TwoLists,
    /// Those lists with refault distances, and the list sizes of Linux 6.18.
    Workingset,
    /// The multi-generational LRU (`CONFIG_LRU_GEN`), as in Linux 6.18.
    Mglru,
}

/// Evicted pages that are adjacent and were evicted one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shadow {
    pub(super) end: u32,
    /// Age of the group when the first page was evicted.
    pub(super) age_pages: u64,
    /// Slot of the group whose reclaim evicted the pages.
    pub(super) group: u32,
    /// Number of that group: another one may have its slot by now.
    pub(super) serial: u32,
    /// With `mglru`: the oldest generation then, which the pages were of, and their tier. The
    /// kernel's shadows have only part of the number, too: they are small.
    pub(super) generation: u16,
    pub(super) tier: u8,
}

/// The evicted pages of a file, by their first page.
#[derive(Debug, Default)]
pub(super) struct Shadows {
    pub(super) ranges: BTreeMap<u32, Shadow>,
    /// Number of ranges at which useless ones are dropped.
    prune_at: usize,
    /// Blocks of 64 pages, a bit each, that may have shadows: of a file whose pages were read once,
    /// none has, and the tree need not be searched, which costs a miss of the processor's caches
    /// for each level.
    marks: Vec<u64>,
}

const PAGES_PER_MARK: u32 = 64;
const MARKS_PER_WORD: u32 = u64::BITS;

impl Shadows {
    /// Return whether pages `start..end`, of which there is one, may have shadows.
    #[inline]
    fn may_have(&self, start: u32, end: u32) -> bool {
        let mut marks = start / PAGES_PER_MARK..=(end - 1) / PAGES_PER_MARK;
        marks.any(|mark| {
            let word = self.marks.get((mark / MARKS_PER_WORD) as usize);
            word.is_some_and(|word| word >> (mark % MARKS_PER_WORD) & 1 == 1)
        })
    }

    fn mark(&mut self, start: u32, end: u32) {
        let last = (end - 1) / PAGES_PER_MARK;
        let words = (last / MARKS_PER_WORD + 1) as usize;
        if self.marks.len() < words {
            self.marks.resize(words, 0);
        }
        for mark in start / PAGES_PER_MARK..=last {
            self.marks[(mark / MARKS_PER_WORD) as usize] |= 1 << (mark % MARKS_PER_WORD);
        }
    }

    /// Return whether there are so many ranges that useless ones should be dropped.
    pub(super) fn are_many(&self) -> bool {
        self.ranges.len() > self.prune_at
    }

    /// Keep only the ranges that `keep` accepts.
    pub(super) fn prune(&mut self, mut keep: impl FnMut(&Shadow) -> bool) {
        self.ranges.retain(|_, shadow| keep(shadow));
        self.prune_at = (2 * self.ranges.len()).max(64);
        self.marks.clear();
        let ranges = std::mem::take(&mut self.ranges);
        ranges.iter().for_each(|(&first, shadow)| self.mark(first, shadow.end));
        self.ranges = ranges;
    }

    /// Remove the shadows of pages `start..end` and call `each` with every part and its age.
    pub(super) fn take(&mut self, start: u32, end: u32, mut each: impl FnMut(u32, &Shadow)) {
        if !self.may_have(start, end) {
            return;
        }
        while let Some((&first, &shadow)) = self.ranges.range(..end).next_back() {
            if shadow.end <= start {
                return;
            }
            self.ranges.remove(&first);
            let after_first = |page: u32| u64::from(page - first);
            if shadow.end > end {
                let age_pages = shadow.age_pages + after_first(end);
                self.ranges.insert(end, Shadow { age_pages, ..shadow });
            }
            if first < start {
                self.ranges.insert(first, Shadow { end: start, ..shadow });
            }
            let from = first.max(start);
            let age_pages = shadow.age_pages + after_first(from);
            each(shadow.end.min(end) - from, &Shadow { age_pages, ..shadow });
        }
    }

    /// Add a range, joined with the one before it if that was evicted just before.
    pub(super) fn add(&mut self, start: u32, shadow: Shadow) {
        let adjacent = start > 0 && self.may_have(start - 1, start);
        self.mark(start, shadow.end);
        let before = if adjacent { self.ranges.range_mut(..start).next_back() } else { None };
        if let Some((&first, before)) = before {
            let continued = Shadow {
                end: shadow.end,
                age_pages: before.age_pages + u64::from(start - first),
                ..*before
            };
            if before.end == start && continued == shadow {
                before.end = shadow.end;
                return;
            }
        }
        self.ranges.insert(start, shadow);
    }
}
