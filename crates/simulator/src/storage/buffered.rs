//! Reads and writes through the page cache: read-ahead, cache hits, and throttled writers.

use headrace_model::pagecache::pages::Folio;
use headrace_model::pagecache::readahead::{ReadAheadRules, Window};
use headrace_model::pagecache::{CachedFile, PageCache, PageState};
use headrace_model::slots::Id;

use super::page_end;
use crate::ids::{InstanceId, OpId};
use crate::scenario::ClientReadAhead;
use crate::world::{Mounted, Op, OpStage, World};

/// Where an operation reads next.
#[derive(Clone, Copy)]
struct Reading {
    instance: InstanceId,
    cursor: u32,
    end: u32,
    ask_at: u32,
    mapped: bool,
}

impl Reading {
    fn of(op: &Op) -> Self {
        let Op { instance, cursor, end, ask_at, mapped, .. } = *op;
        Reading { instance, cursor, end, ask_at, mapped }
    }
}

/// What decides how an operation reads.
struct ReadRules {
    host: usize,
    /// The file in the page cache.
    file: Id<CachedFile>,
    /// Exactly the requested pages are read.
    exact: bool,
    /// Limit of a read-ahead window, in pages.
    max: u32,
    file_end: u32,
    two_windows: bool,
    large_folios: bool,
}

impl World<'_> {
    /// Start the client's own read-ahead, which does not depend on missing pages.
    pub(super) fn before_read(&mut self, index: OpId) {
        let op = self.ops[index];
        let instance = &self.instances[op.instance];
        let Mounted::Service(service) = self.mounts[instance.mount as usize].mounted else {
            return;
        };
        let ClientReadAhead::Lustre { step_bytes, max_bytes, gap_pages } =
            self.services[service as usize].settled.client_read_ahead
        else {
            return;
        };
        let state = self.lustre.entry(op.instance).or_default();
        let (step, max) = (page_end(step_bytes), page_end(max_bytes));
        if let Some(window) = state.read(op.cursor, op.end - op.cursor, step, max, gap_pages) {
            let file_end = page_end(instance.bytes);
            let o = &mut self.ops[index];
            o.submit_from = window.start;
            o.submit_to = (window.start + window.pages).min(file_end);
        }
    }

    pub(super) fn run_read(&mut self, index: OpId) -> bool {
        loop {
            if self.ops[index].submit_from < self.ops[index].submit_to && !self.submit_range(index)
            {
                return false;
            }
            let o = &mut self.ops[index];
            if o.cursor >= o.end || o.failed {
                o.read_ahead.finished(o.offset + o.length);
                return true;
            }
            let op = Reading::of(o);
            let r = self.read_rules(&op);
            if r.two_windows && op.cursor == op.ask_at && self.read_ahead_window(index, &op, &r) {
                continue;
            }
            let cache = &mut self.hosts[r.host].cache;
            let Some(found) = cache.find(r.file, op.cursor) else {
                self.read_missing(index, &op, &r);
                continue;
            };
            let extent = *cache.extent(found);
            let mark = extent.mark();
            if let Some(mark) = mark.filter(|at| (at.start..at.end()).contains(&op.cursor)) {
                cache.clear_mark(found);
                let upto = mark.start.saturating_add(r.max + 1);
                let missing = cache.next_missing(r.file, mark.start + 1, upto);
                let (state, request) = (&mut self.ops[index].read_ahead, op.end - mark.start);
                let window = if r.large_folios {
                    state.marked_in_folios(mark, request, r.max, missing)
                } else {
                    state.marked(mark.start, request, r.max, missing)
                };
                if let Some(window) = window {
                    self.set_window(index, window, &r);
                }
                continue;
            }
            if let PageState::Reading(io) = extent.state() {
                self.wait_for_io(index, io);
                return false;
            }
            let mut upto = extent.end().min(op.end);
            if let Some(mark) = mark.filter(|mark| mark.start > op.cursor) {
                upto = upto.min(mark.start);
            }
            if r.two_windows && op.ask_at > op.cursor {
                upto = upto.min(op.ask_at);
            }
            let o = &mut self.ops[index];
            let used_from = PageCache::first_used(op.cursor, &o.read_ahead);
            cache.touch(found, used_from, upto);
            let pages = upto - op.cursor;
            let missed = o.missed.min(pages);
            o.missed -= missed;
            cache.counters.hit_pages += u64::from(pages - missed);
            if op.mapped && missed == 0 {
                o.read_ahead.fault_hit();
            }
            o.cursor = upto;
        }
    }

    /// Return what decides how an operation reads.
    fn read_rules(&self, op: &Reading) -> ReadRules {
        let instance = &self.instances[op.instance];
        let mount = &self.mounts[instance.mount as usize];
        let wanted = op.end - op.cursor.min(op.end);
        let max = match mount.read_ahead_pages {
            _ if instance.is_metadata() => 0,
            limit if wanted > limit && limit > 0 => limit.max(wanted.min(mount.large_read_pages)),
            limit => limit,
        };
        let host = mount.host as usize;
        let (rules, page_by_page) = (self.hosts[host].read_ahead, instance.is_metadata());
        ReadRules {
            host,
            file: instance.cache_file,
            exact: mount.exact,
            max,
            file_end: page_end(instance.bytes),
            two_windows: rules == ReadAheadRules::TwoWindows
                && !(mount.exact || op.mapped || page_by_page),
            large_folios: rules == ReadAheadRules::LargeFolios
                && !page_by_page
                && match mount.mounted {
                    Mounted::Volume(volume) => self.volumes[volume as usize].fs.has_large_folios(),
                    Mounted::Service(_) => false,
                },
        }
    }

    /// Invoke two-window read-ahead. Return whether pages must be read.
    fn read_ahead_window(&mut self, index: OpId, op: &Reading, r: &ReadRules) -> bool {
        let cache = &mut self.hosts[r.host].cache;
        let o = &mut self.ops[index];
        // The last range that was examined, and its first missing page.
        let mut examined = (0, 0, 0);
        let ahead = o.read_ahead.windows.reach(op.cursor, op.end - op.cursor, r.max, |from, to| {
            let to = to.min(r.file_end);
            examined = (from, to, cache.next_missing(r.file, from, to));
            examined.2 < to
        });
        o.ask_at = ahead.next;
        let end = ahead.end.min(r.file_end);
        let missing = match examined {
            (from, to, missing) if (from, to) == (ahead.start, end) => missing,
            _ => cache.next_missing(r.file, ahead.start, end),
        };
        if missing >= end {
            return false;
        }
        let needed = cache.missing_pages(r.file, op.cursor.max(ahead.start), end.min(op.end));
        cache.counters.missed_pages += u64::from(needed);
        o.missed += needed;
        (o.submit_from, o.submit_to) = (ahead.start, end);
        true
    }

    /// Set the window to read for a page that is not in the cache.
    fn read_missing(&mut self, index: OpId, op: &Reading, r: &ReadRules) {
        let cache = &mut self.hosts[r.host].cache;
        let o = &mut self.ops[index];
        let window = if r.two_windows {
            o.read_ahead.windows.missed();
            Window { start: op.cursor, pages: 1, mark: None }
        } else if r.exact {
            Window { start: op.cursor, pages: op.end - op.cursor, mark: None }
        } else if op.mapped {
            o.read_ahead.fault_missing(op.cursor, r.max, r.file_end)
        } else {
            let request = op.end - op.cursor;
            if r.large_folios {
                let history = |most| cache.history(r.file, op.cursor, most);
                o.read_ahead.missing_in_folios(op.cursor, request, r.max, history)
            } else {
                let history = |most| cache.cached_before(r.file, op.cursor, most);
                o.read_ahead.missing(op.cursor, request, r.max, history)
            }
        };
        let needed = (window.start + window.pages).min(op.end).saturating_sub(op.cursor).max(1);
        cache.counters.missed_pages += u64::from(needed);
        o.missed += needed;
        self.set_window(index, window, r);
    }

    fn set_window(&mut self, index: OpId, window: Window, r: &ReadRules) {
        let (o, file_end) = (&mut self.ops[index], r.file_end);
        (o.mark, o.order) = if r.large_folios {
            self.hosts[r.host].cache.folios_of(r.file, window, &o.read_ahead, file_end)
        } else {
            (window.mark.map(Folio::page), 0)
        };
        // A window entirely beyond the end of the file reads nothing.
        o.submit_from = window.start.min(file_end.max(o.cursor + 1));
        o.submit_to = (window.start + window.pages).min(file_end.max(o.cursor + 1));
        if o.submit_from > o.cursor && o.submit_to <= o.cursor {
            o.submit_from = o.cursor;
            o.submit_to = o.cursor + 1;
        }
    }

    /// Start to read the missing pages of an operation's window. Return false if metadata must be
    /// read first.
    fn submit_range(&mut self, index: OpId) -> bool {
        let mount = self.instances[self.ops[index].instance].mount;
        match self.mounts[mount as usize].mounted {
            Mounted::Volume(volume) => {
                self.volumes[volume as usize].queue.plug();
                let done = self.submit_local(index, volume);
                let now = self.now;
                self.sample(volume);
                self.volumes[volume as usize].queue.unplug(now);
                self.set_drive_timer(volume);
                if !done {
                    return false;
                }
            }
            Mounted::Service(service) => self.submit_remote(index, service),
        }
        let op = self.ops[index];
        if let Some(mark) = op.mark {
            let instance = &self.instances[op.instance];
            let host = self.mounts[instance.mount as usize].host;
            let cache = &mut self.hosts[host as usize].cache;
            cache.set_mark(instance.cache_file, mark);
            if op.order > 0 {
                cache.set_order(instance.cache_file, op.submit_to - 1, op.order);
            }
            self.ops[index].mark = None;
        }
        true
    }

    pub(super) fn run_write(&mut self, index: OpId) -> bool {
        let op = self.ops[index];
        let mount = self.instances[op.instance].mount;
        let host = self.mounts[mount as usize].host as usize;
        if op.stage == OpStage::Submitting {
            self.ops[index].stage = OpStage::Submitted;
            let file = self.instances[op.instance].cache_file;
            let group = self.group_of(&op);
            self.hosts[host].cache.write(file, op.cursor, op.end - op.cursor, group);
            self.grow(op.instance, op.offset + op.length);
            if let Mounted::Volume(volume) = self.mounts[mount as usize].mounted {
                self.allocate_early(volume, op.instance, op.cursor, op.end);
            }
            self.dirtied(op.instance);
            self.pump(mount);
        }
        if self.has_too_many_dirty_pages(index, host, false) {
            // balance_dirty_pages: the writer waits until enough dirty data has been written.
            self.hosts[host].throttled.push_back(index);
            return false;
        }
        true
    }
}
