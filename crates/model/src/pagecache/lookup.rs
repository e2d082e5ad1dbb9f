//! Look-up of pages: which pages of a file are in the cache, and in which extents.

use super::{CachedFile, Extent, Indexed, PageCache, REGION_SHIFT};
use crate::slots::Id;

/// Return the place of the last extent of a region that begins at or before a page. Those at and
/// beside `place` are compared first: most look-ups are of pages near each other.
pub(super) fn last_from(region: &[Indexed], page: u32, place: u32) -> Option<usize> {
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
pub(super) fn place_of(region: &[Indexed], start: u32, place: u32) -> usize {
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
        let region = f.regions.get((page >> REGION_SHIFT) as usize)?;
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
            let number = from >> REGION_SHIFT;
            let Some(region) = f.regions.get(number as usize) else { return limit };
            let at = last_from(region, from, f.place.get());
            if at.is_some_and(|at| from < region[at].end) {
                return from;
            }
            if let Some(next) = region.get(at.map_or(0, |at| at + 1)) {
                return next.start.min(limit);
            }
            from = (number + 1) << REGION_SHIFT;
        }
        limit
    }

    /// Return the first missing page in `page..limit`, or `limit`.
    pub fn next_missing(&self, file: Id<CachedFile>, page: u32, limit: u32) -> u32 {
        let f = &self.files[file];
        let mut from = page;
        while from < limit.min(f.pages_end) {
            let Some(region) = f.regions.get((from >> REGION_SHIFT) as usize) else { return from };
            let Some(at) = last_from(region, from, f.place.get()) else { return from };
            f.place.set(at as u32);
            let begin = from;
            for next in &region[at..] {
                if next.start > from || next.end <= from || from >= limit {
                    break;
                }
                from = next.end;
            }
            // An extent of the next region may follow.
            if from == begin || from & ((1 << REGION_SHIFT) - 1) != 0 {
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

    /// Return the number of contiguous cached pages directly before `page`, at most `max`.
    pub fn cached_before(&self, file: Id<CachedFile>, page: u32, max: u32) -> u32 {
        let mut from = page;
        while from > 0 && page - from < max {
            match self.holding(file, from - 1) {
                Some(found) => from = found.start,
                None => break,
            }
        }
        (page - from).min(max)
    }
}
