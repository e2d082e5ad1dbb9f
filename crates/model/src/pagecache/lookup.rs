//! Look-up of pages: which pages of a file are in the cache, and in which extents.

use super::{CachedFile, Extent, PageCache, REGION_SHIFT};
use crate::slots::Id;

/// Return the place of the last extent of a region that begins at or before a page. Those at and
/// beside `place` are compared first: most look-ups are of pages near each other.
fn last_from(region: &[(u32, Id<Extent>)], page: u32, place: usize) -> Option<usize> {
    let near = place.saturating_sub(4).min(region.len());
    let window = &region[near..(near + 8).min(region.len())];
    let before = window.iter().filter(|&&(start, _)| start <= page).count();
    if before > 0 && (before < window.len() || near + before == region.len()) {
        return Some(near + before - 1);
    }
    region.partition_point(|&(start, _)| start <= page).checked_sub(1)
}

impl PageCache {
    pub fn extent(&self, extent: Id<Extent>) -> &Extent {
        &self.extents[extent]
    }

    /// Return the extent that holds a page.
    pub fn find(&self, file: Id<CachedFile>, page: u32) -> Option<Id<Extent>> {
        let f = &self.files[file];
        if page >= f.pages_end {
            return None;
        }
        if let Some(hint) = f.hint.get() {
            let e = &self.extents[hint];
            if e.file == file && e.start <= page && page < e.end() {
                return Some(hint);
            }
        }
        let region = f.regions.get((page >> REGION_SHIFT) as usize)?;
        let at = last_from(region, page, f.place.get() as usize)?;
        let extent = region[at].1;
        if page >= self.extents[extent].end() {
            return None;
        }
        f.place.set(at as u32);
        f.hint.set(Some(extent));
        Some(extent)
    }

    /// Return the extent that ends where another of its region begins.
    pub(super) fn left_of(&self, extent: &Extent) -> Option<Id<Extent>> {
        let f = &self.files[extent.file];
        let region = f.regions.get((extent.start >> REGION_SHIFT) as usize)?;
        let at = last_from(region, extent.start, f.place.get() as usize)?.checked_sub(1)?;
        let left = region[at].1;
        (self.extents[left].end() == extent.start).then_some(left)
    }

    /// Return the first cached page in `page..limit`, or `limit`.
    pub fn next_cached(&self, file: Id<CachedFile>, page: u32, limit: u32) -> u32 {
        let f = &self.files[file];
        let regions = &f.regions;
        let mut from = page;
        while from < limit.min(f.pages_end) {
            let number = (from >> REGION_SHIFT) as usize;
            let Some(region) = regions.get(number) else { return limit };
            let at = region.partition_point(|&(start, _)| start <= from);
            if at > 0 && from < self.extents[region[at - 1].1].end() {
                return from;
            }
            if let Some(&(start, _)) = region.get(at) {
                return start.min(limit);
            }
            from = ((number as u32) + 1) << REGION_SHIFT;
        }
        limit
    }

    /// Return the first missing page in `page..limit`, or `limit`.
    pub fn next_missing(&self, file: Id<CachedFile>, page: u32, limit: u32) -> u32 {
        let mut from = page;
        while from < limit {
            match self.find(file, from) {
                Some(extent) => from = self.extents[extent].end(),
                None => return from,
            }
        }
        limit
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
            match self.find(file, from - 1) {
                Some(extent) => from = self.extents[extent].start,
                None => break,
            }
        }
        (page - from).min(max)
    }
}
