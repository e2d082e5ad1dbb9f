//! Memory of jobs that grows and is released while they run. The page cache of their host has what
//! is left, and the dirty limits are shares of that (`global_dirtyable_memory` in
//! `mm/page-writeback.c`: free pages and those of the page cache).
//!
//! With a limit per job, each job has a control group, as a batch system makes one: its memory and the
//! pages that it reads or writes first stay within the limit, and it reclaims its own pages. Pages
//! of a job that has ended stay in the cache.
//!
//! The first touch of a page costs CPU time: the kernel handles the fault and clears the page.

use headrace_model::pagecache::{Group, PageCache};
use headrace_model::slots::Id;

use crate::ids::TaskId;
use crate::scenario::LEAST_CACHE_BYTES;
use crate::world::{Op, Parent, World};

impl World<'_> {
    /// Let a job hold `bytes` more.
    pub(super) fn hold_more_memory(&mut self, task: TaskId, bytes: u64) {
        let held = self.tasks[task].held_bytes;
        self.hold_memory(task, held.saturating_add(bytes));
    }

    /// Let a job hold `bytes` in all. The out-of-memory killer ends a job that finds no memory.
    pub(super) fn hold_memory(&mut self, task: TaskId, bytes: u64) {
        let job_bytes = self.job_bytes();
        let t = &mut self.tasks[task];
        let (host, before) = (t.host, t.held_bytes);
        if bytes == before {
            return;
        }
        let h = &mut self.hosts[host as usize];
        let others = h.held_bytes - before;
        let group = t.group;
        let mut free = h.memory_bytes.saturating_sub(h.mapped_bytes + others + LEAST_CACHE_BYTES);
        if group.is_some() {
            free = free.min(job_bytes.saturating_sub(LEAST_CACHE_BYTES));
        }
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
        if let Some(group) = group {
            h.cache.resize_group(group, job_bytes - bytes);
        }
        (h.background_pages, h.dirty_limit_pages) =
            h.writeback.limits_pages(cache_bytes, h.memory_bytes, mapped);
        self.release_throttled(host);
    }
    /// Return what a job's limit leaves besides its profile's memory.
    fn job_bytes(&self) -> u64 {
        let run = &self.scenario.run;
        let profile = self.scenario.profiles.iter().find(|p| p.name == run.profile);
        run.job_memory_limit_bytes.saturating_sub(profile.map_or(0, |p| p.memory_bytes))
    }

    /// Put a job that starts into a control group of its own, if jobs have a limit.
    pub(super) fn enter_group(&mut self, task: TaskId) {
        if self.scenario.run.job_memory_limit_bytes > 0 {
            let capacity_bytes = self.job_bytes();
            let host = self.tasks[task].host as usize;
            self.tasks[task].group = Some(self.hosts[host].cache.add_group(capacity_bytes));
        }
    }

    /// Remove the control group of a job that ends.
    pub(super) fn leave_group(&mut self, task: TaskId) {
        if let Some(group) = self.tasks[task].group.take() {
            let host = self.tasks[task].host;
            self.hosts[host as usize].cache.remove_group(group);
            self.release_throttled(host);
        }
    }

    /// Return the control group that pages of an operation count to: that of its job; the root group
    /// for servers.
    pub(super) fn group_of(&self, op: &Op) -> Id<Group> {
        let (Parent::Task(_), Some(job)) = (op.parent, op.job) else { return PageCache::root() };
        let task = self.feeder.task_of_job.get(job.index()).copied().flatten();
        task.and_then(|task| self.tasks[task].group).unwrap_or(PageCache::root())
    }
}
