//! Look-up of pages: which pages of a file are in the cache, and in which extents.

use super::pages::{region_of, within_region, Folio, REGION_PAGES};
use super::{CachedFile, Extent, Indexed, PageCache};
use crate::slots::Id;

/// Return the end of an extent in its region, which may be the end of that.
#[inline]
pub(super) fn end_within_region(end: u32) -> u16 {
    within_region(end - 1) + 1
}

/// Return the place of the last extent of a region that begins at or before a page. Those at and
/// beside `place` are compared first: most look-ups are of pages near each other.
pub(super) fn last_from(region: &[Indexed], page: u16, place: u32) -> Option<usize> {
    let place = place as usize;
    let begins = |at: usize| region.get(at).is_some_and(|each| each.start <= page);
    if begins(place) && !begins(place + 1) {
        return Some(place);
    }
    let near = place.saturating_sub(4).min(region.len());
    let window = &region[near..(near + 8).min(region.len())];
    let before = window.iter().filter(|each| each.start <= page).count();
    if before > 0 && (before < window.len() || near + before == region.len()) {
        return Some(near + before - 1);
    }
    region.partition_point(|each| each.start <= page).checked_sub(1)
}

/// Return the place of the extent of a region that begins at a page. Reclaim takes the first one
/// most of the time.
pub(super) fn place_of(region: &[Indexed], start: u16, place: u32) -> usize {
    match region.first() {
        Some(first) if first.start < start => last_from(region, start, place).unwrap_or(0),
        _ => 0,
    }
}

impl PageCache {
    pub fn extent(&self, extent: Id<Extent>) -> &Extent {
        &self.extents[extent]
    }

    /// Return the extent that holds a page, as it is in the index.
    fn holding(&self, file: Id<CachedFile>, page: u32) -> Option<&Indexed> {
        let f = &self.files[file];
        if page >= f.pages_end {
            return None;
        }
        let region = f.regions.get(region_of(page))?;
        let page = within_region(page);
        let at = last_from(region, page, f.place.get())?;
        f.place.set(at as u32);
        Some(&region[at]).filter(|found| page < found.end)
    }

    /// Return the extent that holds a page.
    pub fn find(&self, file: Id<CachedFile>, page: u32) -> Option<Id<Extent>> {
        self.holding(file, page).map(|found| found.extent)
    }

    /// Return the first cached page in `page..limit`, or `limit`.
    pub fn next_cached(&self, file: Id<CachedFile>, page: u32, limit: u32) -> u32 {
        let f = &self.files[file];
        let mut from = page;
        while from < limit.min(f.pages_end) {
            let Some(region) = f.regions.get(region_of(from)) else { return limit };
            let begin = from - u32::from(within_region(from));
            let at = last_from(region, within_region(from), f.place.get());
            if at.is_some_and(|at| within_region(from) < region[at].end) {
                return from;
            }
            if let Some(next) = region.get(at.map_or(0, |at| at + 1)) {
                return (begin + u32::from(next.start)).min(limit);
            }
            from = begin + REGION_PAGES;
        }
        limit
    }

    /// Return the first missing page in `page..limit`, or `limit`.
    pub fn next_missing(&self, file: Id<CachedFile>, page: u32, limit: u32) -> u32 {
        let f = &self.files[file];
        let mut from = page;
        while from < limit.min(f.pages_end) {
            let Some(region) = f.regions.get(region_of(from)) else { return from };
            let first = within_region(from);
            let Some(at) = last_from(region, first, f.place.get()) else { return from };
            f.place.set(at as u32);
            let begin = from - u32::from(first);
            let mut missing = first;
            for next in &region[at..] {
                if next.start > missing || next.end <= missing || from >= limit {
                    break;
                }
                missing = next.end;
                from = begin + u32::from(missing);
            }
            // An extent of the next region may follow.
            if missing == first || u32::from(missing) < REGION_PAGES {
                return from.min(limit);
            }
        }
        from.min(limit)
    }

    /// Return the number of missing pages in `from..to`.
    pub fn missing_pages(&self, file: Id<CachedFile>, from: u32, to: u32) -> u32 {
        let (mut page, mut missing) = (self.next_missing(file, from, to), 0);
        while page < to {
            let cached = self.next_cached(file, page, to);
            missing += cached - page;
            page = self.next_missing(file, cached, to);
        }
        missing
    }

    /// Return the folio of the page before `page`, which ends there if that is not in the cache.
    pub fn folio_before(&self, file: Id<CachedFile>, page: u32) -> Folio {
        let order = self.find(file, page - 1).map_or(0, |found| self.extents[found].order);
        let order = order.min(page.trailing_zeros() as u8);
        Folio { start: page - (1 << order), order }
    }

    /// Return the number of contiguous cached pages directly before `page`, at most `max`.
    pub fn cached_before(&self, file: Id<CachedFile>, page: u32, max: u32) -> u32 {
        let mut from = page;
        while from > 0 && page - from < max {
            match self.holding(file, from - 1) {
                Some(found) => from = from - 1 - u32::from(within_region(from - 1) - found.start),
                None => break,
            }
        }
        (page - from).min(max)
    }
}
