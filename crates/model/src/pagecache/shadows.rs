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
    pub(super) prune_at: usize,
}

impl Shadows {
    /// Remove the shadows of pages `start..end` and call `each` with every part and its age.
    pub(super) fn take(&mut self, start: u32, end: u32, mut each: impl FnMut(u32, &Shadow)) {
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
        if let Some((&first, before)) = self.ranges.range_mut(..start).next_back() {
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
