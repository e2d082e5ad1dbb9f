//! The SLC cache: flash that takes bursts of writes with one bit per cell.
//!
//! Its data are folded: read and programmed again with all bits per cell, by every die for itself
//! and without its channel. That happens when the drive has had nothing to do for a while, and
//! takes die time from the commands that come meanwhile. (Yang, Zheng and Gao, "In-place switch:
//! reprogramming based SLC cache design for hybrid 3D SSDs", 2024, describes both: writes go past a
//! full cache, and reclaiming in idle time.)

use super::dies::Dies;
use super::spec::{SlcFull, SsdSpec};
use crate::request::Nanos;

/// Assumption: how long a drive has no work before it folds.
const FOLD_AFTER_NS: Nanos = 10_000_000;

pub struct SlcCache {
    capacity_units: f64,
    used_units: f64,
    /// Units of one page of every die.
    row_units: f64,
    program_ns: Nanos,
    /// Time of a die to fold a page: read it, program it, and its share of an erase.
    fold_ns: Nanos,
    when_full: SlcFull,
}

/// How a page is programmed.
pub struct SlcProgram {
    pub program_ns: Nanos,
    /// Folding that must come first.
    pub fold_ns: Nanos,
}

impl SlcCache {
    /// `row_units`: units of one page of every die.
    pub fn of(spec: &SsdSpec, row_units: f64) -> Option<Self> {
        let flash = &spec.flash;
        let erase_us = flash.erase_us / f64::from(flash.pages_per_block);
        let fold_us = flash.read_us + flash.program_us + erase_us;
        spec.slc_cache.map(|cache| SlcCache {
            capacity_units: (cache.bytes / u64::from(spec.unit_bytes())) as f64,
            used_units: 0.0,
            row_units,
            program_ns: (cache.program_us * 1e3) as Nanos,
            fold_ns: (fold_us * 1e3) as Nanos,
            when_full: cache.when_full,
        })
    }

    /// Take a page of `units`; `None` if it is programmed past the cache.
    pub fn take(&mut self, units: usize) -> Option<SlcProgram> {
        let room = self.used_units + units as f64 <= self.capacity_units;
        if room {
            self.used_units += units as f64;
        } else if self.when_full == SlcFull::Direct {
            return None;
        }
        let fold_ns = if room { 0 } else { self.fold_ns };
        Some(SlcProgram { program_ns: self.program_ns, fold_ns })
    }

    /// Fold in the time without work from `idle_from` to `now`. Return when the dies are done with
    /// the pages that they fold at `now`.
    #[inline]
    pub fn fold(&mut self, dies: &mut Dies, idle_from: Nanos, now: Nanos) -> Option<Nanos> {
        let begin = idle_from + FOLD_AFTER_NS;
        if self.used_units == 0.0 || now <= begin {
            return None;
        }
        let pages = (self.used_units / self.row_units).ceil() as u64;
        let folded = ((now - begin) / self.fold_ns.max(1)).min(pages);
        let in_progress = u64::from(folded < pages);
        self.used_units =
            (self.used_units - (folded + in_progress) as f64 * self.row_units).max(0.0);
        let done = begin + (folded + in_progress) * self.fold_ns;
        if in_progress > 0 {
            for die in 0..dies.count() {
                dies.work(die, now, done - self.fold_ns, self.fold_ns, self.fold_ns);
            }
        }
        Some(done)
    }

    /// Forget a share of the data, which was discarded.
    pub fn discard(&mut self, share: f64) {
        self.used_units *= 1.0 - share;
    }
}
