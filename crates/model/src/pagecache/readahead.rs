//! On-demand read-ahead: which pages to read when a page is missing or a mark is reached.
//!
//! The kernel's rules since 2.6.23 (`mm/readahead.c`, Wu Fengguang): the first window depends on
//! the size of the read and doubles or quadruples during sequential reads; the next window starts
//! when its mark is reached; a small random read has no read-ahead. Mapped files read around the
//! fault (`mm/filemap.c`).

use serde::{Deserialize, Serialize};

use super::pages::PAGE_BYTES;
use super::two_windows::{initial_size, TwoWindows};

/// Read-ahead algorithm of a host, by kernel version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAheadRules {
    /// Since 2.6.23.
    #[default]
    OnDemand,
    /// From 2.6.16 to 2.6.22, including RHEL 5 and SL 5 (2.6.18).
    TwoWindows,
    /// Since 6.16 for volumes with ext4 or XFS; the others and network storage have `OnDemand`.
    LargeFolios,
}

/// Pages to read, and the page of the window that gets the mark, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub start: u32,
    pub pages: u32,
    pub mark: Option<u32>,
}

/// Read-ahead state of one open file (`struct file_ra_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadAhead {
    pub(super) start: u32,
    pub(super) size: u32,
    pub(super) async_size: u32,
    /// Last page read plus one; 0 before the first read.
    pub(super) previous: u32,
    mmap_miss: u16,
    /// The last read ended within a page.
    pub(super) ended_within: bool,
    /// Of the last window's folios, with large folios.
    pub(super) order: u8,
    /// State of the older algorithm, for hosts that use it.
    pub windows: TwoWindows,
}

/// Number of faults on missing pages after which read-around stops (`MMAP_LOTSAMISS`).
const MMAP_LOTS_A_MISS: u16 = 100;

impl ReadAhead {
    pub(super) fn next_size(&self, max: u32) -> u32 {
        if self.size < max / 16 {
            4 * self.size
        } else if self.size <= max / 2 {
            2 * self.size
        } else {
            max
        }
    }

    /// Record the byte after the last one of a read (`prev_pos`), unless nothing was read.
    pub fn finished(&mut self, end: u64) {
        if end > 0 {
            self.previous = end.div_ceil(PAGE_BYTES) as u32;
            self.ended_within = !end.is_multiple_of(PAGE_BYTES);
        }
    }

    /// Return whether the last read ended in a page.
    pub fn ended_in(&self, page: u32) -> bool {
        self.previous == page + 1
    }

    pub(super) fn window(&self) -> Window {
        let mark = (self.async_size > 0 && self.size >= self.async_size)
            .then(|| self.start + (self.size - self.async_size));
        Window { start: self.start, pages: self.size, mark }
    }

    /// Return the pages to read if `page` is missing and `request` pages starting there are
    /// requested. `max` is the maximum window in pages, 0 for no read-ahead. `history` returns how
    /// many pages directly before `page` are cached (rarely called).
    pub fn missing(
        &mut self,
        page: u32,
        request: u32,
        max: u32,
        history: impl FnOnce(u32) -> u32,
    ) -> Window {
        if max == 0 {
            return Window { start: page, pages: 1, mark: None };
        }
        self.on_demand(page, request, max, None, history)
    }

    /// Return the pages to read when the mark on `page` is reached. `next_missing` is the first
    /// page after it that is not cached.
    pub fn marked(
        &mut self,
        page: u32,
        request: u32,
        max: u32,
        next_missing: u32,
    ) -> Option<Window> {
        if max == 0 || next_missing - page > max {
            return None;
        }
        Some(self.on_demand(page, request, max, Some(next_missing), |_| 0))
    }

    fn on_demand(
        &mut self,
        page: u32,
        request: u32,
        max: u32,
        next_missing: Option<u32>,
        history: impl FnOnce(u32) -> u32,
    ) -> Window {
        let hit_mark = next_missing.is_some();
        if page == 0 && !hit_mark {
            self.initial(page, request, max);
        } else if self.size > 0
            && (page == self.start + self.size - self.async_size || page == self.start + self.size)
        {
            // Sequential: the next window is two or four times as large.
            self.start += self.size;
            self.size = self.next_size(max);
            self.async_size = self.size;
        } else if let Some(next) = next_missing {
            // A mark of another state: interleaved streams. Continue after the cached pages.
            self.start = next;
            self.size = next - page + request;
            self.size = self.next_size(max);
            self.async_size = self.size;
        } else if request > max || page <= self.previous {
            // Larger than one window, or directly after the previous read (or in its last page).
            if page < self.previous.saturating_sub(1) {
                return self.by_history(page, request, max, history);
            }
            self.initial(page, request, max);
        } else {
            return self.by_history(page, request, max, history);
        }
        // This read reaches the mark at once: start the following window too.
        if page == self.start && self.size == self.async_size {
            let next = self.next_size(max);
            self.async_size = next;
            self.size = (self.size + next).min(2 * max);
        }
        self.window()
    }

    fn initial(&mut self, page: u32, request: u32, max: u32) {
        self.start = page;
        self.size = initial_size(request, max);
        self.async_size = if self.size > request { self.size - request } else { self.size };
    }

    /// Return the window of a read without known stream: cached pages directly before it indicate
    /// one; otherwise it is a single random read.
    fn by_history(
        &mut self,
        page: u32,
        request: u32,
        max: u32,
        history: impl FnOnce(u32) -> u32,
    ) -> Window {
        let before = history(max);
        if before > request {
            let size = if before >= page { before * 2 } else { before };
            self.start = page;
            self.size = (size + request).min(max);
            self.async_size = 1;
            return self.window();
        }
        Window { start: page, pages: request.min(max), mark: None }
    }

    /// Return the pages to read around a fault on a missing page of a mapped file.
    pub fn fault_missing(&mut self, page: u32, max: u32, file_pages: u32) -> Window {
        if max == 0 {
            return Window { start: page, pages: 1, mark: None };
        }
        self.mmap_miss = (self.mmap_miss + 1).min(MMAP_LOTS_A_MISS * 10);
        if self.mmap_miss > MMAP_LOTS_A_MISS {
            return Window { start: page, pages: 1, mark: None };
        }
        self.start = page.saturating_sub(max / 2);
        self.size = max.min(file_pages.saturating_sub(self.start)).max(1);
        self.async_size = max / 4;
        self.order = 0;
        self.window()
    }

    /// Record a fault on a cached page of a mapped file.
    pub fn fault_hit(&mut self) {
        self.mmap_miss = self.mmap_miss.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages_end(last: u32) -> u64 {
        u64::from(last + 1) * PAGE_BYTES
    }

    /// Return the windows of a sequential read of `file_pages` pages with `request` pages per call.
    fn sequential(request: u32, max: u32, file_pages: u32) -> Vec<Window> {
        let mut ra = ReadAhead::default();
        let (mut cached, mut mark) = (0, None);
        let mut windows = Vec::new();
        let mut page = 0;
        while page < file_pages {
            let left = request - page % request;
            if mark == Some(page) {
                let window = ra.marked(page, left, max, cached).expect("a window behind the mark");
                windows.push(window);
                cached = window.start + window.pages;
                mark = window.mark;
            }
            if page >= cached {
                let window = ra.missing(page, left, max, |_| 0);
                windows.push(window);
                cached = window.start + window.pages;
                mark = window.mark;
                continue;
            }
            ra.finished(pages_end(page));
            page += 1;
        }
        windows
    }

    #[test]
    fn window_doubles_to_its_limit_as_in_the_kernel() {
        // 4 KiB reads, 128 KiB limit: 4 pages, then 8, 16, 32, 32 (mm/readahead.c).
        let sizes: Vec<_> = sequential(1, 32, 200).iter().map(|w| w.pages).collect();
        assert_eq!(&sizes[..5], &[4, 8, 16, 32, 32]);
        let windows = sequential(1, 32, 200);
        assert_eq!(windows[0], Window { start: 0, pages: 4, mark: Some(1) });
        assert_eq!(windows[1], Window { start: 4, pages: 8, mark: Some(4) });
    }

    #[test]
    fn a_large_first_read_fills_the_window() {
        let windows = sequential(32, 32, 128);
        // The mark covers the whole first window, so the second window is read together with it.
        assert_eq!(windows[0], Window { start: 0, pages: 64, mark: Some(32) });
    }

    #[test]
    fn a_random_read_reads_itself_alone() {
        let mut ra = ReadAhead::default();
        ra.finished(pages_end(9));
        let window = ra.missing(5000, 3, 32, |_| 0);
        assert_eq!(window, Window { start: 5000, pages: 3, mark: None });
    }

    #[test]
    fn a_seek_resets_the_window() {
        let mut ra = ReadAhead::default();
        ra.missing(0, 1, 32, |_| 0);
        ra.finished(pages_end(3));
        assert_eq!(ra.missing(1000, 1, 32, |_| 0).pages, 1);
        ra.finished(pages_end(1000));
        // The next random read starts with a small window again.
        assert_eq!(ra.missing(1001, 1, 32, |_| 1).pages, 4);
    }

    #[test]
    fn no_read_ahead_reads_single_pages() {
        assert_eq!(ReadAhead::default().missing(7, 5, 0, |_| 0).pages, 1);
    }

    #[test]
    fn faults_read_around_and_give_up_on_many_misses() {
        let mut ra = ReadAhead::default();
        assert_eq!(
            ra.fault_missing(100, 32, 10_000),
            Window { start: 84, pages: 32, mark: Some(108) }
        );
        (0..100).for_each(|i| {
            ra.fault_missing(1000 + i * 100, 32, 100_000);
        });
        assert_eq!(ra.fault_missing(50_000, 32, 100_000).pages, 1);
    }
}
