//! Invariants of the page cache: page counts are correct, and reclaim evicts the right pages.

use proptest::prelude::*;

use super::*;

fn read(cache: &mut PageCache, file: Id<CachedFile>, start: u32, pages: u32) {
    read_in(cache, file, start, pages, PageCache::root());
}

fn read_in(cache: &mut PageCache, file: Id<CachedFile>, start: u32, pages: u32, group: Id<Group>) {
    let mut page = start;
    while page < start + pages {
        if let Some(extent) = cache.find(file, page) {
            let to = cache.extent(extent).end().min(start + pages);
            cache.touch(extent, page, to);
            page = to;
        } else {
            let missing = cache.next_cached(file, page, start + pages) - page;
            let piece = PageCache::piece(page, missing.min(64));
            let extent = cache.start_reading(file, page, piece, Id::at(0), group);
            cache.finish_reading(extent);
        }
    }
}

#[test]
fn sequential_pages_become_few_extents() {
    let mut cache = PageCache::new(1 << 30, PageReclaim::TwoLists);
    let file = cache.add_file();
    for page in (0..8192).step_by(32) {
        read(&mut cache, file, page, 32);
    }
    assert_eq!(cache.used_pages(), 8192);
    assert!(cache.extents.occupied() <= 8);
}

#[test]
fn pages_used_twice_outlive_pages_used_once() {
    let mut cache = PageCache::new(1000 * PAGE_BYTES, PageReclaim::TwoLists);
    let hot = cache.add_file();
    let cold = cache.add_file();
    read(&mut cache, hot, 0, 100);
    read(&mut cache, hot, 0, 100);
    for page in (0..5000).step_by(50) {
        read(&mut cache, cold, page, 50);
    }
    assert!(cache.used_pages() <= 1000);
    assert_eq!(cache.next_missing(hot, 0, 100), 100);
    assert!(cache.find(cold, 0).is_none());
    assert!(cache.find(cold, 4999).is_some());
}

#[test]
fn a_page_used_again_leaves_its_neighbours_where_they_are() {
    let mut cache = PageCache::new(1000 * PAGE_BYTES, PageReclaim::TwoLists);
    let file = cache.add_file();
    cache.write(file, 0, 800, PageCache::root());
    while let Some(extent) = cache.next_dirty(file, 0) {
        cache.start_writeback(extent);
        cache.finish_writeback(extent);
    }
    // 15 of every 25 pages are read again: the gaps keep their age and are evicted first.
    for page in (0..800).step_by(25) {
        read(&mut cache, file, page, 15);
    }
    let other = cache.add_file();
    read(&mut cache, other, 0, 400);
    for page in (0..800).step_by(25) {
        assert_eq!(cache.next_missing(file, page, page + 15), page + 15);
    }
    assert_eq!(cache.missing_pages(file, 0, 800), 200);
    assert_eq!(cache.used_pages(), 1000);
}

#[test]
fn dirty_limits_before_2_6_24_are_of_all_memory_and_spare_what_is_mapped() {
    let gib = 1 << 30;
    let new = WritebackSpec { dirty_ratio: 0.4, ..WritebackSpec::default() };
    let old = WritebackSpec { of_all_memory: true, ..new };
    let pages = |bytes: u64| bytes / PAGE_BYTES;
    assert_eq!(new.limits_pages(5 * gib, 16 * gib, 8 * gib), (pages(gib / 2), pages(2 * gib)));
    // Half of the memory is mapped: one quarter may be dirty.
    assert_eq!(
        old.limits_pages(5 * gib, 16 * gib, 8 * gib),
        (pages(16 * gib / 10), pages(4 * gib))
    );
    // Nearly all is mapped: still 5 %, and the flusher starts at half of that.
    assert_eq!(
        old.limits_pages(gib, 16 * gib, 15 * gib),
        (pages(16 * gib / 40), pages(16 * gib / 20))
    );
}

#[test]
fn writing_dirties_and_write_back_cleans() {
    let mut cache = PageCache::new(1 << 30, PageReclaim::TwoLists);
    let file = cache.add_file();
    read(&mut cache, file, 0, 64);
    assert_eq!(cache.write(file, 16, 100, PageCache::root()), 100);
    assert_eq!(cache.write(file, 16, 100, PageCache::root()), 0);
    assert_eq!((cache.dirty_pages(), cache.file_dirty_pages(file)), (100, 100));
    while let Some(extent) = cache.next_dirty(file, 0) {
        cache.start_writeback(extent);
        cache.finish_writeback(extent);
    }
    assert_eq!((cache.dirty_pages(), cache.writeback_pages(), cache.used_pages()), (0, 0, 116));
}

#[test]
fn a_group_reclaims_its_own_pages() {
    let mut cache = PageCache::new(1000 * PAGE_BYTES, PageReclaim::TwoLists);
    let [shared, own] = [cache.add_file(), cache.add_file()];
    read(&mut cache, shared, 0, 300);
    let group = cache.add_group(200 * PAGE_BYTES);
    read_in(&mut cache, shared, 0, 300, group);
    assert_eq!(cache.group_pages(group), 0, "pages count to the group that read them first");
    read_in(&mut cache, own, 0, 500, group);
    assert_eq!((cache.group_pages(group), cache.used_pages()), (200, 500));
    assert_eq!(cache.next_missing(shared, 0, 300), 300);
    assert_eq!(cache.missing_pages(own, 0, 500), 300);
    cache.resize_group(group, 50 * PAGE_BYTES);
    assert_eq!((cache.group_pages(group), cache.used_pages()), (50, 350));
    // What a removed group read stays, and no limit applies to it any more.
    cache.remove_group(group);
    assert_eq!(cache.used_pages(), 350);
    read(&mut cache, own, 0, 500);
    assert_eq!(cache.used_pages(), 800);
}

/// A group whose inactive pages are all dirty: it has no more clean ones than fit.
#[test]
fn a_group_of_dirty_pages_gives_up_its_clean_active_ones() {
    let mut cache = PageCache::new(3000 * PAGE_BYTES, PageReclaim::TwoLists);
    let file = cache.add_file();
    let [other, group] = [1000, 500].map(|pages| cache.add_group(pages * PAGE_BYTES));
    cache.write(file, 2311, 527, group);
    cache.write(file, 0, 527, group);
    read_in(&mut cache, file, 2237, 75, other); // page 2311, too: its extent becomes active
    while let Some(extent) = cache.next_dirty(file, 1) {
        cache.start_writeback(extent);
        cache.finish_writeback(extent);
    }
    let g = &cache.groups[group];
    assert!(g.unwritten_pages > 500, "the first is still dirty");
    assert_eq!(g.pages(), g.unwritten_pages);
}

fn any_policy() -> impl Strategy<Value = PageReclaim> {
    prop::sample::select(vec![PageReclaim::TwoLists, PageReclaim::Workingset, PageReclaim::Mglru])
}

proptest! {
    /// Whatever groups read and write: no group has more clean pages than its capacity, and their
    /// pages are those of the cache.
    #[test]
    fn pages_of_groups_are_those_of_the_cache(
        policy in any_policy(),
        steps in prop::collection::vec((0..4u8, 0..3usize, 0..4000u32, 1..600u32), 1..80)
    ) {
        let mut cache = PageCache::new(3000 * PAGE_BYTES, policy);
        let file = cache.add_file();
        let capacities = [1000, 500, 2000];
        let mut groups = capacities.map(|pages| cache.add_group(pages * PAGE_BYTES));
        for (kind, number, start, pages) in steps {
            let group = groups[number];
            match kind {
                0 => read_in(&mut cache, file, start, pages, group),
                1 => { cache.write(file, start, pages, group); }
                2 => while let Some(extent) = cache.next_dirty(file, start) {
                    cache.start_writeback(extent);
                    cache.finish_writeback(extent);
                },
                _ => {
                    cache.remove_group(group);
                    groups[number] = cache.add_group(capacities[number] * PAGE_BYTES);
                }
            }
            let of = |pick: fn(&Group) -> u64| -> u64 {
                groups.iter().chain([&PageCache::root()]).map(|&g| pick(&cache.groups[g])).sum()
            };
            prop_assert_eq!(of(Group::pages), cache.used_pages());
            prop_assert_eq!(of(|g| g.unwritten_pages), cache.dirty_pages());
            for (group, capacity) in groups.iter().zip(capacities) {
                let g = &cache.groups[*group];
                prop_assert!(g.pages() <= capacity + g.unwritten_pages);
            }
        }
    }

    #[test]
    fn counts_hold_under_any_use(
        policy in any_policy(),
        steps in prop::collection::vec((0..3u8, 0..2u32, 0..9000u32, 1..600u32), 1..80)
    ) {
        let mut cache = PageCache::new(3000 * PAGE_BYTES, policy);
        let files = [cache.add_file(), cache.add_file()];
        for (kind, file, start, pages) in steps {
            let file = files[file as usize];
            match kind {
                0 => read(&mut cache, file, start, pages),
                1 => { cache.write(file, start, pages, PageCache::root()); }
                _ => while let Some(extent) = cache.next_dirty(file, start) {
                    cache.start_writeback(extent);
                    cache.finish_writeback(extent);
                },
            }
            let mut listed = 0u64;
            let mut dirty = 0u64;
            for f in files {
                let mut end = 0;
                let regions = cache.files[f].regions.iter().enumerate();
                let all = regions.flat_map(|(at, region)| region.iter().map(move |each| (at, each)));
                for (region, &Indexed { start, end: indexed_end, extent }) in all {
                    let first = (region as u32) << REGION_SHIFT;
                    let (start, indexed_end) =
                        (first + u32::from(start), first + u32::from(indexed_end));
                    for page in end.max(start.saturating_sub(2))..start {
                        prop_assert_eq!(cache.find(f, page), None);
                    }
                    let pages = [start, cache.extent(extent).end() - 1];
                    prop_assert_eq!(pages.map(|page| cache.find(f, page)), [Some(extent); 2]);
                    let e = cache.extent(extent);
                    prop_assert_eq!((e.start, e.end()), (start, indexed_end));
                    prop_assert!(e.start >= end, "extents overlap");
                    end = e.end();
                    listed += u64::from(e.pages);
                    dirty += if e.state == PageState::Dirty { u64::from(e.pages) } else { 0 };
                }
            }
            let from = start.saturating_sub(50);
            for (file, to) in [(files[0], from + 700), (files[1], from + 1500)] {
                let is_cached = |&page: &u32| cache.find(file, page).is_some();
                let cached = (from..to).find(is_cached);
                let missing = (from..to).find(|page| !is_cached(page));
                prop_assert_eq!(cache.next_cached(file, from, to), cached.unwrap_or(to));
                prop_assert_eq!(cache.next_missing(file, from, to), missing.unwrap_or(to));
            }
            prop_assert_eq!(listed, cache.used_pages());
            prop_assert_eq!(dirty, cache.dirty_pages());
            prop_assert!(cache.used_pages() <= 3000 + cache.dirty_pages());
        }
    }
}
