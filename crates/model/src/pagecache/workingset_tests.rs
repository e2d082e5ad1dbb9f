//! What refault distances change, and what they leave as it is.

use proptest::prelude::*;

use super::super::test_reads::{cache, read, read_in, read_summed_up, CACHE_PAGES};
use super::super::{PageCache, PAGE_BYTES};
use super::*;

/// Fill 40 % of the cache with active pages that are not used again; then read a file of `pages`
/// again and again. Return the hits of the last round.
fn hits_after_a_change(policy: PageReclaim, pages: u32) -> u32 {
    let mut cache = cache(policy);
    let [stale, file] = [cache.add_file(), cache.add_file()];
    for _ in 0..2 {
        read(&mut cache, stale, 0, CACHE_PAGES * 4 / 10);
    }
    let rounds = (0..20).map(|_| read(&mut cache, file, 0, pages));
    rounds.last().unwrap_or_default()
}

#[test]
fn a_new_working_set_takes_the_place_of_an_old_one() {
    // It fits into the cache, but not into the inactive list beside the old one.
    let pages = CACHE_PAGES * 8 / 10;
    assert_eq!(hits_after_a_change(PageReclaim::TwoLists, pages), 0);
    assert_eq!(hits_after_a_change(PageReclaim::Workingset, pages), pages);
}

/// When the kernel sums up its statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SummedUp {
    /// Every 512 KiB that are read: something reads `memory.stat` all the time.
    Often,
    /// Once between two rounds, which are seconds apart.
    EachRound,
    /// Every fourth round, which all take less than two seconds.
    EachFourthRound,
}

/// Read 160 MiB twice in a group of 400 MiB, then another file again and again. Return the MiB that
/// each round of that read from the device.
fn rounds_read(file_mib: u32, summed_up: SummedUp, rounds: u32) -> Vec<u32> {
    let pages = |mib: u32| mib * 256;
    let mut cache = PageCache::new(1 << 40, PageReclaim::Workingset);
    let group = cache.add_group(400 << 20);
    let [stale, file] = [cache.add_file(), cache.add_file()];
    let mut round = |number: u32, file: Id<CachedFile>, pages: u32| {
        if summed_up == SummedUp::Often {
            return (pages - read_summed_up(&mut cache, file, 0, pages, group)) / 256;
        }
        let hits = read_in(&mut cache, file, 0, pages, group);
        if summed_up == SummedUp::EachRound || number % 4 == 3 {
            cache.sum_up_statistics();
        }
        (pages - hits) / 256
    };
    for _ in 0..2 {
        round(0, stale, pages(160));
    }
    (0..rounds).map(|number| round(number, file, pages(file_mib))).collect()
}

/// Measured on Linux 6.18 without the multi-generational LRU: a process in a control group of 400 MiB
/// (version 1) reads 160 MiB twice, then another file again and again, 128 KiB at a time.
/// `read_bytes` of its `/proc/PID/io` counted the reads of each round.
#[test]
fn rounds_read_what_a_real_kernel_read() {
    use SummedUp::{EachFourthRound, EachRound, Often};
    // The process reads memory.stat after each 128 KiB.
    assert_eq!(rounds_read(200, Often, 3), [200, 0, 0]);
    assert_eq!(rounds_read(320, Often, 4), [320, 320, 0, 0]);
    assert_eq!(rounds_read(480, Often, 6), [480; 6]);
    // 5 s between rounds. Measured: 24 and 174 MiB in the third round, 3 and 0 in the fourth.
    let third = rounds_read(320, EachRound, 4);
    assert!((third[0], third[1], third[3]) == (320, 320, 0) && third[2] < 174, "{third:?}");
    assert_eq!(rounds_read(480, EachRound, 6), [480; 6]);
    // Measured: 360, 360, 324, 0.
    let rounds = rounds_read(360, EachRound, 4);
    assert!((rounds[0], rounds[1], rounds[3]) == (360, 360, 0), "{rounds:?}");
    assert!((290..360).contains(&rounds[2]), "{rounds:?}");
    // Without pauses. Measured: 360 until the statistics are summed up, then 278, 189, 83 and 209,
    // 180, 7.
    let rounds = rounds_read(360, EachFourthRound, 10);
    assert_eq!(rounds[..5], [360; 5], "{rounds:?}");
    assert!((200..290).contains(&rounds[5]) && (130..210).contains(&rounds[6]), "{rounds:?}");
}

/// What is left of the disagreement with that kernel: it read nothing in the third round.
#[test]
fn a_file_nearly_as_large_as_the_group_settles_in_the_third_round() {
    let rounds = rounds_read(360, SummedUp::Often, 4);
    assert!((rounds[0], rounds[1], rounds[3]) == (360, 360, 0), "{rounds:?}");
    assert!(rounds[2] <= 45, "{rounds:?}");
}

/// Write or read a file of 150 MiB in a group of 400 MiB, then read another one of 700 MiB once;
/// return which share of the file is left in memory.
fn left_after_a_scan(policy: PageReclaim, uses: &str) -> f64 {
    let mut cache = PageCache::new(8 << 30, policy);
    let group = cache.add_group(400 << 20);
    let [file, scanned] = [cache.add_file(), cache.add_file()];
    let pages = (150 << 20) / PAGE_BYTES as u32;
    for each in uses.chars() {
        if each == 'r' {
            read_summed_up(&mut cache, file, 0, pages, group);
            continue;
        }
        for page in (0..pages).step_by(256) {
            cache.write(file, page, 256.min(pages - page), group);
            while let Some(extent) = cache.next_dirty(file, 0) {
                cache.start_writeback(extent);
                cache.finish_writeback(extent);
            }
        }
    }
    read_summed_up(&mut cache, scanned, 0, (700 << 20) / PAGE_BYTES as u32, group);
    1.0 - f64::from(cache.missing_pages(file, 0, pages)) / f64::from(pages)
}

/// Measured on Linux 6.18 without the multi-generational LRU, in a control group of 400 MiB
/// (version 1), by mincore().
#[test]
fn what_was_written_is_in_use_when_it_was_read_twice() {
    for uses in ["w", "ww", "r", "wr"] {
        assert_eq!(left_after_a_scan(PageReclaim::Workingset, uses), 0.0, "{uses}");
    }
    assert_eq!(left_after_a_scan(PageReclaim::Workingset, "rr"), 1.0);
    // Kernels before 4.7 count the write.
    assert_eq!(left_after_a_scan(PageReclaim::TwoLists, "wr"), 1.0);
}

#[test]
fn files_larger_than_the_cache_read_in_turn_never_hit_it() {
    let mut cache = cache(PageReclaim::Workingset);
    let file = cache.add_file();
    for _ in 0..5 {
        assert_eq!(read(&mut cache, file, 0, CACHE_PAGES * 12 / 10), 0);
    }
}

#[test]
fn a_scan_read_once_leaves_the_working_set() {
    let mut cache = cache(PageReclaim::Workingset);
    let [hot, scanned] = [cache.add_file(), cache.add_file()];
    for _ in 0..2 {
        read(&mut cache, hot, 0, CACHE_PAGES * 4 / 10);
    }
    assert_eq!(read(&mut cache, scanned, 0, CACHE_PAGES * 10), 0);
    assert_eq!(read(&mut cache, hot, 0, CACHE_PAGES * 4 / 10), CACHE_PAGES * 4 / 10);
}

#[test]
fn a_removed_group_judges_no_refault() {
    let mut cache = cache(PageReclaim::Workingset);
    let file = cache.add_file();
    let group = cache.add_group(100 * PAGE_BYTES);
    cache.leave_shadow(file, 0, 10, group);
    cache.leave_shadow(file, 10, 10, group);
    assert_eq!(cache.files[file].shadows.ranges.len(), 1, "evicted in one go");
    cache.remove_group(group);
    let successor = cache.add_group(100 * PAGE_BYTES);
    assert_eq!(successor, group);
    cache.groups[successor].lists[1].pages = 100;
    cache.sum_up_statistics();
    assert!(!cache.refault(file, 0, 10));
    cache.leave_shadow(file, 0, 10, successor);
    assert!(cache.refault(file, 0, 10));
    assert!(!cache.refault(file, 0, 10), "a refault takes its shadows");
    cache.groups[successor].lists[1].pages = 0;
}

proptest! {
    /// Whatever is read: every page is a hit or a miss, the cache never exceeds its memory, and no
    /// page that is in the cache has a shadow.
    #[test]
    fn cached_pages_have_no_shadow(
        steps in prop::collection::vec((0..2usize, 0..20_000u32, 1..6000u32), 1..60)
    ) {
        let mut cache = cache(PageReclaim::Workingset);
        let files = [cache.add_file(), cache.add_file()];
        let (mut requested, mut hits) = (0, 0);
        for (number, start, pages) in steps {
            requested += u64::from(pages);
            hits += u64::from(read(&mut cache, files[number], start, pages));
            prop_assert!(cache.used_pages() <= u64::from(CACHE_PAGES));
            for file in files {
                for (&first, shadow) in &cache.files[file].shadows.ranges {
                    prop_assert_eq!(cache.next_cached(file, first, shadow.end), shadow.end);
                }
            }
        }
        prop_assert_eq!(hits + cache.counters.read_pages, requested);
    }
}
