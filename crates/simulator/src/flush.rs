//! Writeback of dirty files by the flushers to the drive or server.

use headrace_model::pagecache::{Extent, PageCache, PageState, PAGE_BYTES};
use headrace_model::slots::Id;
use headrace_model::Op as DriveOp;

use crate::ids::{InstanceId, IoId, OpId};
use crate::storage::{page_of, FLUSHER};
use crate::world::{Content, Event, Io, IoKind, Mounted, World};

/// Pages of one file that a flusher writes before it continues with the next file
/// (MAX_WRITEBACK_PAGES).
const TURN_PAGES: u32 = 1024;

impl World<'_> {
    // ---- Dirty files ----

    /// Add a file with new dirty pages to its mount's list.
    pub fn dirtied(&mut self, instance: InstanceId) {
        let now = self.now;
        let i = &mut self.instances[instance];
        if i.in_dirty_list {
            return;
        }
        i.in_dirty_list = true;
        i.dirty_since = now;
        let mount = i.mount;
        self.mounts[mount as usize].dirty.push_back(instance);
        if self.mounts[mount as usize].timer.is_none() {
            let host = self.mounts[mount as usize].host as usize;
            let time = now + self.hosts[host].dirty_writeback_ns.max(1);
            self.mounts[mount as usize].timer =
                Some(self.events.schedule(time, 2, Event::Flusher(mount)));
        }
    }

    pub fn undirty(&mut self, instance: InstanceId) {
        let i = &mut self.instances[instance];
        let (mount, listed, urgent) = (i.mount, i.in_dirty_list, i.urgent);
        i.in_dirty_list = false;
        i.urgent = false;
        i.flush_cursor = 0;
        let m = &mut self.mounts[mount as usize];
        if listed {
            m.dirty.retain(|&other| other != instance);
        }
        if urgent {
            m.urgent.retain(|&other| other != instance);
        }
        self.ordered_done(instance);
    }

    pub fn flusher_tick(&mut self, mount: u32) {
        self.mounts[mount as usize].timer = None;
        let host = self.mounts[mount as usize].host as usize;
        let expire = self.hosts[host].dirty_expire_ns;
        // The list is ordered by age.
        let old: Vec<InstanceId> = self.mounts[mount as usize]
            .dirty
            .iter()
            .copied()
            .take_while(|&i| self.instances[i].dirty_since + expire <= self.now)
            .collect();
        for instance in old {
            self.make_urgent(instance);
        }
        if !self.mounts[mount as usize].dirty.is_empty() {
            let time = self.now + self.hosts[host].dirty_writeback_ns.max(1);
            self.mounts[mount as usize].timer =
                Some(self.events.schedule(time, 2, Event::Flusher(mount)));
        }
        self.pump(mount);
    }

    pub(super) fn make_urgent(&mut self, instance: InstanceId) {
        let i = &mut self.instances[instance];
        if !i.urgent {
            i.urgent = true;
            i.flush_cursor = 0;
            let mount = i.mount;
            self.mounts[mount as usize].urgent.push_back(instance);
        }
    }

    /// Submit dirty pages of a mount up to its limit while there is a reason to write.
    pub fn pump(&mut self, mount: u32) {
        if self.mounts[mount as usize].pumping {
            return;
        }
        self.mounts[mount as usize].pumping = true;
        let mounted = self.mounts[mount as usize].mounted;
        if let Mounted::Volume(volume) = mounted {
            self.volumes[volume as usize].queue.plug();
        }
        let mut wrote = false;
        loop {
            let m = &self.mounts[mount as usize];
            if m.writing >= m.writing_limit {
                break;
            }
            let host = &self.hosts[m.host as usize];
            let instance = if let Some(&instance) = m.urgent.front() {
                instance
            } else if host.cache.dirty_pages() + host.cache.writeback_pages()
                > host.background_pages
                || host.cache.largest_unwritten_share() > host.writeback.dirty_background_ratio
            {
                let Some(&instance) = m.dirty.front() else { break };
                instance
            } else {
                break;
            };
            wrote |= self.write_turn(mount, instance);
        }
        self.mounts[mount as usize].pumping = false;
        if let Mounted::Volume(volume) = mounted {
            let now = self.now;
            self.sample(volume);
            self.volumes[volume as usize].queue.unplug(now);
            if wrote {
                self.set_drive_timer(volume);
            }
        }
    }

    /// Write up to `TURN_PAGES` pages of one file. Return true if anything was written.
    fn write_turn(&mut self, mount: u32, instance: InstanceId) -> bool {
        let mut left = TURN_PAGES;
        let mut wrote = false;
        while left > 0 {
            let m = &self.mounts[mount as usize];
            if m.writing >= m.writing_limit {
                return wrote;
            }
            let host = m.host as usize;
            let i = &self.instances[instance];
            let (file, cursor) = (i.cache_file, i.flush_cursor);
            let Some(extent) = self.hosts[host].cache.next_dirty(file, cursor) else {
                // End of a pass. The remaining dirty pages are before the cursor or were dirtied
                // since.
                self.instances[instance].flush_cursor = 0;
                self.pass_done(mount, instance);
                return wrote;
            };
            let start = self.hosts[host].cache.extent(extent).start;
            let pages = self.write_extent(mount, instance, extent, left);
            self.instances[instance].flush_cursor = start + pages;
            left -= pages.min(left);
            wrote = true;
        }
        // Its turn is over: continue with the next file.
        let m = &mut self.mounts[mount as usize];
        if m.urgent.front() == Some(&instance) {
            m.urgent.rotate_left(1);
        } else if m.dirty.front() == Some(&instance) {
            m.dirty.rotate_left(1);
        }
        wrote
    }

    fn pass_done(&mut self, mount: u32, instance: InstanceId) {
        let host = self.mounts[mount as usize].host as usize;
        let i = &self.instances[instance];
        let clean = self.hosts[host].cache.file_dirty_pages(i.cache_file) == 0;
        if clean {
            self.undirty(instance);
        } else {
            let now = self.now;
            let i = &mut self.instances[instance];
            i.dirty_since = now;
            let waited = !i.sync_waiters.is_empty();
            let m = &mut self.mounts[mount as usize];
            if !waited && self.instances[instance].urgent {
                m.urgent.retain(|&other| other != instance);
                self.instances[instance].urgent = false;
            }
            // Move to the end of the list, which is ordered by age.
            let m = &mut self.mounts[mount as usize];
            m.dirty.retain(|&other| other != instance);
            m.dirty.push_back(instance);
            self.ordered_done(instance);
        }
        self.wake_syncs(instance);
    }

    /// Submit up to `most` pages of a dirty extent; return how many.
    fn write_extent(
        &mut self,
        mount: u32,
        instance: InstanceId,
        extent: Id<Extent>,
        most: u32,
    ) -> u32 {
        let host = self.mounts[mount as usize].host as usize;
        let e = *self.hosts[host].cache.extent(extent);
        debug_assert_eq!(e.state(), PageState::Dirty);
        let mut pages = e.pages.min(most);
        let urgent = !self.instances[instance].sync_waiters.is_empty();
        match self.mounts[mount as usize].mounted {
            Mounted::Volume(volume) => {
                let content = self.instances[instance].content;
                let v = &mut self.volumes[volume as usize];
                let sector = if let Content::File(file) = content {
                    // Delayed allocation: the whole dirty extent is allocated at once.
                    let placed = v.fs.allocate(file, e.start, e.pages);
                    match v.fs.locate(file, e.start) {
                        Some((sector, in_row)) => {
                            pages = pages.min(in_row).min(v.max_bio_pages);
                            self.dirty_metadata_of(volume, instance, e.start + pages - 1);
                            sector
                        }
                        None => {
                            debug_assert!(placed.is_err());
                            // No space: the data is lost, as in an application that ignores ENOSPC.
                            self.counters.out_of_space += 1;
                            let cache = &mut self.hosts[host].cache;
                            cache.start_writeback(extent);
                            cache.finish_writeback(extent);
                            return e.pages;
                        }
                    }
                } else {
                    pages = 1;
                    v.fs.metadata_sector(e.start)
                };
                let io = self.start_writeback(host, instance, extent, pages);
                self.submit_to_drive(volume, io, DriveOp::Write, sector, pages, FLUSHER, urgent);
            }
            Mounted::Service(service) => {
                let (rpc_bytes, in_row) = self.services[service as usize]
                    .write_piece(self.instances[instance].file(), u64::from(e.start) * PAGE_BYTES);
                let limit = page_of(rpc_bytes.min(in_row)).max(1);
                pages = pages.min(limit);
                let io = self.start_writeback(host, instance, extent, pages);
                self.send_write(service, instance, e.start, pages, io);
            }
        }
        pages
    }

    fn start_writeback(
        &mut self,
        host: usize,
        instance: InstanceId,
        extent: Id<Extent>,
        pages: u32,
    ) -> IoId {
        let e = *self.hosts[host].cache.extent(extent);
        if pages < e.pages {
            self.hosts[host].cache.split(extent, e.start + pages);
        }
        let io =
            self.ios.insert(Io { kind: IoKind::Writeback { extent }, instance, waiters: None });
        self.hosts[host].cache.start_writeback(extent);
        let i = &mut self.instances[instance];
        i.writes += 1;
        let mount = i.mount;
        self.mounts[mount as usize].writing += 1;
        io
    }

    /// Complete a write-back I/O.
    pub fn written(&mut self, instance: InstanceId, extent: Id<Extent>) {
        let mount = self.instances[instance].mount;
        let host = self.mounts[mount as usize].host;
        self.hosts[host as usize].cache.finish_writeback(extent);
        self.instances[instance].writes -= 1;
        self.instances[instance].uncommitted = true;
        self.mounts[mount as usize].writing -= 1;
        self.wake_syncs(instance);
        self.release_throttled(host);
        self.pump(mount);
        let i = &self.instances[instance];
        if i.doomed && i.ios == 0 && i.writes == 0 {
            self.doom(instance);
        }
    }

    /// Resume writers that waited for the amount of dirty data to fall.
    pub fn release_throttled(&mut self, host: u32) {
        loop {
            let throttled = &self.hosts[host as usize].throttled;
            let may_go = |&op: &OpId| !self.has_too_many_dirty_pages(op, host as usize, true);
            let Some(at) = throttled.iter().position(may_go) else { break };
            let Some(op) = self.hosts[host as usize].throttled.remove(at) else { break };
            self.resume_op(op);
        }
    }

    /// Return whether a writer must wait: the dirty pages of its host, or of its control group, are
    /// above their limit (`balance_dirty_pages`, with a domain for each group). A writer that waited
    /// goes on slightly below it: otherwise writers would wake for every page.
    pub(super) fn has_too_many_dirty_pages(&self, op: OpId, host: usize, waited: bool) -> bool {
        let h = &self.hosts[host];
        let limit = h.dirty_limit_pages - if waited { h.dirty_limit_pages / 64 } else { 0 };
        if h.cache.dirty_pages() + h.cache.writeback_pages() > limit {
            return true;
        }
        let group = self.group_of(&self.ops[op]);
        group != PageCache::root()
            && h.cache.unwritten_share(group)
                > h.writeback.dirty_ratio * if waited { 63.0 / 64.0 } else { 1.0 }
    }
}
