//! Read-ahead of the Lustre client, which replaces the kernel's.
//!
//! After `lustre/llite/rw.c` (1.8, 2.x): a read that starts within a few pages of the end of the
//! last one counts as sequential, so small gaps are read too. Each such read extends the window by
//! a step, and the window is filled up to a whole request.

use super::readahead::Window;

/// State of one open file (`struct ll_readahead_state`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LustreReadAhead {
    last_end: u32,
    window: u32,
    read_to: u32,
    started: bool,
    /// Consecutive requests near the previous one (`ras_consecutive_requests`).
    consecutive: u32,
}

impl LustreReadAhead {
    /// Record a read of `pages` pages from `page` on; return the additional pages to read.
    pub fn read(&mut self, page: u32, pages: u32, step: u32, max: u32, gap: u32) -> Option<Window> {
        let near = self.started && page + gap >= self.last_end && page <= self.last_end + gap;
        let first_at_start = !self.started && page == 0;
        self.started = true;
        self.last_end = page + pages;
        if !near {
            self.window = if first_at_start { step } else { 0 };
            self.read_to = page;
            self.consecutive = 0;
        } else {
            self.consecutive += 1;
            // `ras_update`: the window grows with the second consecutive request and with each
            // later one.
            if self.consecutive > 1 || self.window > 0 {
                self.window = (self.window + step).min(max);
            }
        }
        if self.window == 0 {
            return None;
        }
        let end = (page + self.window).next_multiple_of(step.max(1)).max(page + pages);
        let start = self.read_to.max(page);
        if end <= start {
            return None;
        }
        self.read_to = end;
        Some(Window { start, pages: end - start, mark: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Return the share of a file of `pages` pages that is read when a process reads parts of
    /// `read` pages with gaps of `gap` pages.
    fn moved(read: u32, gap: u32, pages: u32) -> f64 {
        let mut state = LustreReadAhead::default();
        let mut have = vec![false; pages as usize];
        let mut page = 0;
        while page + read <= pages {
            if let Some(w) = state.read(page, read, 256, 10_240, 8) {
                (w.start..(w.start + w.pages).min(pages)).for_each(|p| have[p as usize] = true);
            }
            (page..page + read).for_each(|p| have[p as usize] = true);
            page += read + gap;
        }
        have.iter().filter(|&&h| h).count() as f64 / f64::from(pages)
    }

    #[test]
    fn small_gaps_are_read_over_and_large_ones_are_not() {
        assert!(moved(8, 8, 40_000) > 0.98);
        assert!(moved(256, 256, 40_000) < 0.52);
    }
}
