//! What the multi-generational LRU keeps and evicts, beside the other rules and a model of single
//! pages.

use proptest::prelude::*;

use super::super::test_reads::{cache, read, read_in, CACHE_PAGES};
use super::super::{PageCache, PageReclaim, PAGE_BYTES};
use super::reference::Pages;

/// Read 3000 hot pages twice, then 8000 others once, and so on. Return the hits of the hot pages
/// in each round.
fn hits_of_a_hot_set_beside_a_scan(policy: PageReclaim) -> Vec<u32> {
    let mut cache = cache(policy);
    let [hot, scanned] = [cache.add_file(), cache.add_file()];
    let mut round = |number: u32| {
        let hits = (0..2).map(|_| read(&mut cache, hot, 0, 3000)).sum();
        read(&mut cache, scanned, number * 8000, 8000);
        hits
    };
    (0..5).map(&mut round).collect()
}

#[test]
fn a_scan_larger_than_memory_never_hits_it() {
    for policy in [PageReclaim::TwoLists, PageReclaim::Workingset, PageReclaim::Mglru] {
        let mut cache = cache(policy);
        let file = cache.add_file();
        let hits: Vec<u32> =
            (0..5).map(|_| read(&mut cache, file, 0, CACHE_PAGES * 12 / 10)).collect();
        assert_eq!(hits, [0; 5], "{policy:?}");
        let fits = cache.add_file();
        let hits: Vec<u32> = (0..3).map(|_| read(&mut cache, fits, 0, 8000)).collect();
        assert_eq!(hits, [0, 8000, 8000], "{policy:?}");
    }
}

#[test]
fn pages_used_twice_are_protected_when_they_were_missed_once() {
    for policy in [PageReclaim::TwoLists, PageReclaim::Workingset] {
        assert_eq!(hits_of_a_hot_set_beside_a_scan(policy), [3000, 6000, 6000, 6000, 6000]);
    }
    // The first scan evicts 1000 of the hot pages. When 64 of them have come back, in the place of
    // 64 others, the rest is protected.
    let hits = hits_of_a_hot_set_beside_a_scan(PageReclaim::Mglru);
    assert_eq!(hits, [3000, 6000 - 1000 - 64, 6000, 6000, 6000]);
}

/// Read a file `uses` times, then scan 1.5 times the memory. Return what is left of the file.
fn left_after_a_scan(policy: PageReclaim, uses: u32) -> u32 {
    let mut cache = cache(policy);
    let [file, scanned] = [cache.add_file(), cache.add_file()];
    for _ in 0..uses {
        read(&mut cache, file, 0, 3000);
    }
    read(&mut cache, scanned, 0, CACHE_PAGES * 15 / 10);
    3000 - cache.missing_pages(file, 0, 3000)
}

#[test]
fn pages_used_five_times_need_no_refault() {
    let left = |policy: PageReclaim| [1, 2, 4, 5, 9].map(|uses| left_after_a_scan(policy, uses));
    assert_eq!(left(PageReclaim::Mglru), [0, 0, 0, 3000, 3000]);
    assert_eq!(left(PageReclaim::Workingset), [0, 3000, 3000, 3000, 3000]);
}

#[test]
fn a_new_working_set_does_not_take_the_place_of_a_protected_one() {
    let hits = |policy: PageReclaim| {
        let mut cache = cache(policy);
        let [stale, file] = [cache.add_file(), cache.add_file()];
        for _ in 0..5 {
            read(&mut cache, stale, 0, 4000);
        }
        (0..20).map(|_| read(&mut cache, file, 0, 8000)).last()
    };
    // What is read enters the generation that is evicted from, which never runs empty.
    assert_eq!(hits(PageReclaim::Mglru), Some(0));
    assert_eq!(hits(PageReclaim::Workingset), Some(8000));
}

#[test]
fn a_page_of_the_working_set_returns_to_it() {
    let mut cache = cache(PageReclaim::Mglru);
    let file = cache.add_file();
    let root = PageCache::root();
    read(&mut cache, file, 0, 64);
    let extent = cache.find(file, 0).unwrap();
    let list = cache.extents[extent].list;
    cache.extents[extent].workingset = true;
    cache.evict(extent, 64, root);
    assert_eq!(read(&mut cache, file, 0, 64), 0);
    let e = cache.extent(cache.find(file, 0).unwrap());
    assert!(e.workingset && e.list == list + 1, "{e:?}");
}

#[test]
fn a_refault_counts_in_its_own_group_alone() {
    let mut cache = cache(PageReclaim::Mglru);
    let file = cache.add_file();
    let [own, other] = [1000, 1000].map(|pages| cache.add_group(pages * PAGE_BYTES));
    let fresh = cache.groups[own].generations;
    read_in(&mut cache, file, 0, 1000, own);
    cache.resize_group(own, 500 * PAGE_BYTES);
    let evicted = cache.groups[own].generations;
    assert_ne!(evicted, fresh);
    read_in(&mut cache, file, 0, 100, other);
    assert_eq!((cache.groups[own].generations, cache.groups[other].generations), (evicted, fresh));
    cache.resize_group(own, 1000 * PAGE_BYTES);
    read_in(&mut cache, file, 100, 100, own);
    assert_ne!(cache.groups[own].generations, evicted);
    // Pages of a group that ends are evicted like new ones of the whole machine.
    cache.remove_group(own);
    assert_eq!(cache.missing_pages(file, 0, 1000), 300);
    read(&mut cache, file, 20_000, CACHE_PAGES);
    assert_eq!(cache.missing_pages(file, 200, 1000), 800);
}

#[test]
fn dirty_pages_are_passed_over_and_evicted_when_they_are_written() {
    let mut cache = cache(PageReclaim::Mglru);
    let [written, file] = [cache.add_file(), cache.add_file()];
    cache.write(written, 0, 3000, PageCache::root());
    read(&mut cache, file, 0, CACHE_PAGES);
    assert_eq!(cache.missing_pages(written, 0, 3000), 0);
    assert_eq!(cache.missing_pages(file, 0, CACHE_PAGES), 3000);
    while let Some(extent) = cache.next_dirty(written, 0) {
        cache.start_writeback(extent);
        cache.finish_writeback(extent);
    }
    read(&mut cache, file, 20_000, 3000);
    assert_eq!(cache.missing_pages(written, 0, 3000), 3000);
    assert_eq!(cache.missing_pages(file, 0, CACHE_PAGES), 3000, "they were evicted first");
}

#[test]
fn a_descriptor_that_goes_on_in_a_page_does_not_use_it_again() {
    let mut last = super::super::ReadAhead::default();
    last.finished(25 * PAGE_BYTES);
    let first = |page: u32| PageCache::first_used(page, &last);
    assert_eq!((first(23), first(24), first(25)), (23, 25, 25));
}

#[test]
fn sequential_reads_leave_few_extents() {
    let mut cache = cache(PageReclaim::Mglru);
    let file = cache.add_file();
    for uses in 0..8 {
        read(&mut cache, file, 0, 8192);
        assert!(cache.extents.occupied() <= 9, "{uses}: {}", cache.extents.occupied());
    }
}

/// A process reads 2000 pages in order and others at random, more than fit; now and then it writes.
fn mixed(seed: u64, rounds: u32) -> impl Iterator<Item = (u32, u32)> {
    let mut state = seed;
    let mut random = move |below: u32| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % u64::from(below)) as u32
    };
    (0..rounds).map(move |number| match number % 4 {
        0 => ((number / 4 * 32) % 2000, 32),
        1 | 2 => (5000 + random(150) * 40, 1 + random(30)),
        _ => (20_000 + random(900) * 32, 32),
    })
}

#[test]
fn hits_are_those_of_single_pages() {
    for seed in 0..5 {
        let mut cache = cache(PageReclaim::Mglru);
        let file = cache.add_file();
        let mut pages = Pages::new(CACHE_PAGES as usize);
        let (mut hits, mut expected, mut requested) = (0, 0, 0);
        for (start, count) in mixed(seed, 20_000) {
            requested += count;
            hits += read(&mut cache, file, start, count);
            expected += (start..start + count).filter(|&page| pages.read(page)).count() as u32;
        }
        let difference = (f64::from(hits) - f64::from(expected)) / f64::from(requested);
        // Joined extents are as old as the younger one.
        assert!(difference.abs() < 0.02, "{seed}: {hits} of {requested} instead of {expected}");
    }
}

proptest! {
    /// Whatever is read and written: every page is a hit or a miss, no more than the memory is
    /// used, uses are as stated, no page in the cache has a shadow, and a second time is the same.
    #[test]
    fn pages_are_conserved(
        steps in prop::collection::vec((0..5u8, 0..2usize, 0..20_000u32, 1..3000u32), 1..60)
    ) {
        let run = || {
            let mut cache = cache(PageReclaim::Mglru);
            let files = [cache.add_file(), cache.add_file()];
            let (mut requested, mut hits) = (0, 0);
            for &(kind, number, start, pages) in &steps {
                if kind == 0 {
                    cache.write(files[number], start, pages.min(500), PageCache::root());
                } else {
                    requested += u64::from(pages);
                    hits += u64::from(read(&mut cache, files[number], start, pages));
                }
                while let Some(extent) = cache.next_dirty(files[0], 0) {
                    cache.start_writeback(extent);
                    cache.finish_writeback(extent);
                }
                assert!(cache.used_pages() <= u64::from(CACHE_PAGES) + cache.dirty_pages());
                for file in files {
                    for (&first, shadow) in &cache.files[file].shadows.ranges {
                        assert_eq!(cache.next_cached(file, first, shadow.end), shadow.end);
                    }
                    for at in cache.files[file].regions.iter().flatten() {
                        let e = cache.extent(at.extent);
                        let used_up_to = e.touched_end <= e.end() && e.touched_end >= e.start;
                        assert!(used_up_to && e.first_part().0 <= e.most_uses(), "{e:?}");
                    }
                }
            }
            assert_eq!(hits + cache.counters.read_pages, requested);
            (hits, cache.counters)
        };
        prop_assert_eq!(run(), run());
    }
}
