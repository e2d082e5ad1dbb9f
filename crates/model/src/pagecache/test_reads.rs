//! Reads as the tests of the page cache make them.

use super::{CachedFile, Group, PageCache, PageIo, PageReclaim, PAGE_BYTES};
use crate::slots::Id;

pub const CACHE_PAGES: u32 = 10_000;

pub fn cache(policy: PageReclaim) -> PageCache {
    PageCache::new(u64::from(CACHE_PAGES) * PAGE_BYTES, policy)
}

/// Read pages in pieces of 32 and return how many were in the cache. Statistics are summed up every
/// 512 KiB.
pub fn read(cache: &mut PageCache, file: Id<CachedFile>, start: u32, pages: u32) -> u32 {
    read_summed_up(cache, file, start, pages, PageCache::root())
}

pub fn read_summed_up(
    cache: &mut PageCache,
    file: Id<CachedFile>,
    start: u32,
    pages: u32,
    group: Id<Group>,
) -> u32 {
    let end = start + pages;
    let mut hits = 0;
    for page in (start..end).step_by(128) {
        hits += read_in(cache, file, page, (end - page).min(128), group);
        cache.sum_up_statistics();
    }
    hits
}

pub fn read_in(
    cache: &mut PageCache,
    file: Id<CachedFile>,
    start: u32,
    pages: u32,
    group: Id<Group>,
) -> u32 {
    let (mut page, end, mut missed) = (start, start + pages, 0);
    while page < end {
        if let Some(extent) = cache.find(file, page) {
            let to = cache.extent(extent).end().min(end);
            cache.touch(extent, page, to);
            page = to;
        } else {
            let missing = cache.next_cached(file, page, end) - page;
            let piece = PageCache::piece(page, missing.min(32));
            let io: Id<PageIo> = Id::at(0);
            let extent = cache.start_reading(file, page, piece, io, group);
            cache.finish_reading(extent);
            missed += piece;
        }
    }
    pages - missed
}
