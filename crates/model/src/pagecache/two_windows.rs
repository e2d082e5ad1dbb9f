//! Read-ahead before on-demand: the rules of `mm/readahead.c` from 2.6.16 to 2.6.22 (Steven Pratt,
//! Ram Pai).
//!
//! Called at every read, whether or not pages are missing. A sequential read keeps one window being
//! read ahead of the current one; any other read turns the windows off and reads only the requested
//! pages. After 256 cached pages without a miss, read-ahead stops until a page is missing. Unlike
//! the kernel's, these windows are never dropped for a congested queue.

use super::Page;
use crate::slots::Id;

/// Cached pages without a miss after which the file counts as cached (`VM_MAX_CACHE_HIT`).
const MAX_CACHE_HIT: u16 = 256;
/// `VM_MIN_READAHEAD`, 16 KiB: the minimum window after pages were evicted before use.
const MIN_PAGES: u32 = 4;

/// `get_init_ra_size`, the same before and after 2.6.23.
pub(super) fn initial_size(request: u32, max: u32) -> u32 {
    let size = request.next_power_of_two();
    if size <= max / 32 {
        size * 4
    } else if size <= max / 4 {
        size * 2
    } else {
        max
    }
}

/// Read-ahead state of one open file (`struct file_ra_state` up to 2.6.22).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TwoWindows {
    start: u32,
    size: u32,
    ahead_start: u32,
    ahead_size: u32,
    /// The last page checked (`prev_page`).
    last: Option<Id<Page>>,
    cache_hit: u16,
    missed: bool,
    in_cache: bool,
}

/// Pages to read (none if `start == end`), and the page at which to call again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    pub start: u32,
    pub end: u32,
    pub next: u32,
}

impl TwoWindows {
    /// `page_cache_readahead`: return the pages to read if `request` pages from `page` on are
    /// requested, with windows of at most `max` pages. `missing(from, to)` returns whether any page
    /// in `from..to` is not cached.
    pub fn reach(
        &mut self,
        mut page: u32,
        mut request: u32,
        max: u32,
        mut missing: impl FnMut(u32, u32) -> bool,
    ) -> Ahead {
        let last = self.last.map(Id::number);
        if last == Some(page) {
            request = request.saturating_sub(1);
            if request > 0 {
                page += 1;
            }
        }
        let in_sequence = page == last.map_or(0, |last| last + 1);
        self.last = Some(Id::numbered(page));
        let size = request.min(max);
        let mut ahead = Ahead { start: page, end: page, next: page + 1 };
        if size == 0 || self.in_cache {
            return ahead;
        }
        let last = page + size - 1;
        self.last = Some(Id::numbered(last));
        ahead.next = last + 1;
        if !in_sequence {
            self.off();
            ahead.end = page + size;
            self.judge(size, missing(page, ahead.end));
        } else if self.size == 0 {
            self.start = page;
            self.size = initial_size(size, max);
            ahead.end = page + self.size;
            if self.judge(self.size, missing(page, ahead.end)) && request >= max {
                ahead.end = self.open_window(max, true, &mut missing);
            }
        } else {
            ahead.start = self.start + self.size;
            ahead.end = ahead.start;
            if self.ahead_start == 0 {
                ahead.end = self.open_window(max, false, &mut missing);
                if self.ahead_start == 0 {
                    return ahead;
                }
            }
            if last >= self.ahead_start {
                self.start = self.ahead_start;
                self.size = self.ahead_size;
                if ahead.end == ahead.start {
                    ahead.start = self.start + self.size;
                }
                ahead.end = self.open_window(max, false, &mut missing);
            }
        }
        ahead
    }

    /// `handle_ra_miss`: a page is missing although read-ahead covered it.
    pub fn missed(&mut self) {
        self.missed = true;
        self.in_cache = false;
        self.cache_hit = 0;
    }

    fn off(&mut self) {
        (self.start, self.size, self.ahead_start, self.ahead_size) = (0, 0, 0, 0);
    }

    /// `check_ra_success`: return false and turn the windows off after a long run of cached pages.
    fn judge(&mut self, pages: u32, any_missing: bool) -> bool {
        if any_missing {
            self.cache_hit = 0;
            return true;
        }
        self.cache_hit = self.cache_hit.saturating_add(pages.min(u32::from(MAX_CACHE_HIT)) as u16);
        if self.cache_hit < MAX_CACHE_HIT {
            return true;
        }
        self.off();
        self.in_cache = true;
        false
    }

    /// `make_ahead_window`: open the window after the current one and return its end.
    fn open_window(
        &mut self,
        max: u32,
        force: bool,
        missing: &mut impl FnMut(u32, u32) -> bool,
    ) -> u32 {
        self.ahead_size = self.next_size(max);
        self.ahead_start = self.start + self.size;
        let end = self.ahead_start + self.ahead_size;
        let any_missing = missing(self.ahead_start, end);
        if !self.judge(self.ahead_size, any_missing) && !force {
            (self.ahead_start, self.ahead_size) = (0, 0);
        }
        end
    }

    fn next_size(&mut self, max: u32) -> u32 {
        let size = if std::mem::take(&mut self.missed) {
            self.size.saturating_sub(2).max(MIN_PAGES)
        } else if self.size < max / 16 {
            4 * self.size
        } else {
            2 * self.size
        };
        size.min(max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Read `(page, pages)` through an empty cache; return the ranges read for each.
    fn ranges(max: u32, reads: &[(u32, u32)]) -> Vec<Vec<(u32, u32)>> {
        let mut state = TwoWindows::default();
        let mut cached = std::collections::BTreeSet::new();
        reads
            .iter()
            .map(|&(start, pages)| {
                let (mut found, mut page) = (Vec::new(), start);
                let mut next = start;
                while page < start + pages {
                    if page == next {
                        let ahead = state.reach(page, start + pages - page, max, |from, to| {
                            (from..to).any(|page| !cached.contains(&page))
                        });
                        next = ahead.next;
                        if ahead.start < ahead.end {
                            found.push((ahead.start, ahead.end));
                            cached.extend(ahead.start..ahead.end);
                        }
                    }
                    if !cached.contains(&page) {
                        state.missed();
                        found.push((page, page + 1));
                        cached.insert(page);
                    }
                    page += 1;
                }
                found
            })
            .collect()
    }

    #[test]
    fn a_stream_has_a_window_ahead_of_the_one_it_reads() {
        // 4 KiB reads, 128 KiB limit: the first page opens a window of 4, its second page the next
        // window of 8, and the first page of each window the following one.
        let found = ranges(32, &[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1)]);
        assert_eq!(
            found,
            [vec![(0, 4)], vec![(4, 12)], vec![], vec![], vec![(12, 28)], vec![]]
                as [Vec<(u32, u32)>; 6]
        );
    }

    #[test]
    fn reads_with_gaps_fetch_what_they_ask_for() {
        // 60 kB of every 100 kB: no window, no matter how many reads are in order or what precedes
        // them.
        let reads: Vec<_> = (1..100).map(|n| (n * 25, 15)).collect();
        for (found, &(start, pages)) in ranges(32, &reads).iter().zip(&reads) {
            assert_eq!(found, &[(start, start + pages)]);
        }
    }

    #[test]
    fn a_large_read_opens_two_windows_at_once() {
        assert_eq!(ranges(32, &[(0, 64)])[0][0], (0, 64));
    }

    #[test]
    fn a_cached_file_is_left_alone_until_a_page_is_missing() {
        let mut state = TwoWindows::default();
        let mut page = 0;
        while page < 400 {
            page = state.reach(page, 8, 32, |_, _| false).next;
        }
        let quiet = state.reach(page, 8, 32, |_, _| unreachable!("it does not look"));
        assert_eq!((quiet.start, quiet.next), (quiet.end, page + 1));
        state.missed();
        let ahead = state.reach(page + 1, 7, 32, |_, _| true);
        assert_eq!((ahead.start, ahead.end), (page + 1, page + 17));
    }
}
