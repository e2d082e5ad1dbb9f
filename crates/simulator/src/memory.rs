//! Memory of jobs that grows and is released while they run. The page cache of their host has what
//! is left, and the dirty limits are shares of that (`global_dirtyable_memory` in
//! `mm/page-writeback.c`: free pages and those of the page cache).
//!
//! The first touch of a page costs CPU time: the kernel handles the fault and clears the page.

use crate::ids::TaskId;
use crate::world::World;

/// A job needs at least so much page cache; with less its host is out of memory.
const LEAST_CACHE_BYTES: u64 = 1 << 20;

impl World<'_> {
    /// Let a job hold `bytes` more.
    pub(super) fn hold_more_memory(&mut self, task: TaskId, bytes: u64) {
        let held = self.tasks[task].held_bytes;
        self.hold_memory(task, held.saturating_add(bytes));
    }

    /// Let a job hold `bytes` in all. The out-of-memory killer ends a job that finds no memory.
    pub(super) fn hold_memory(&mut self, task: TaskId, bytes: u64) {
        let t = &mut self.tasks[task];
        let (host, before) = (t.host, t.held_bytes);
        if bytes == before {
            return;
        }
        let h = &mut self.hosts[host as usize];
        let others = h.held_bytes - before;
        let free = h.memory_bytes.saturating_sub(h.mapped_bytes + others + LEAST_CACHE_BYTES);
        if bytes > free && bytes > before {
            self.jobs[t.job.index()].failed = true;
            self.jobs[t.job.index()].errors += 1;
            return;
        }
        h.held_bytes = others + bytes;
        t.held_bytes = bytes;
        let grown = bytes.saturating_sub(before);
        t.pending_cpu_ns += (grown as f64 * h.first_touch_ns_per_byte) as u64;
        let mapped = h.mapped_bytes + h.held_bytes;
        let cache_bytes = h.memory_bytes - mapped;
        h.cache.resize(cache_bytes);
        (h.background_pages, h.dirty_limit_pages) =
            h.writeback.limits_pages(cache_bytes, h.memory_bytes, mapped);
        self.release_throttled(host);
    }
}
