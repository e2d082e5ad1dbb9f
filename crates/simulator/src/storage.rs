//! Reads and writes under way: through the page cache, or past it, to a local volume or a service.

use headrace_model::pagecache::readahead::{ReadAhead, ReadAheadRules, Window};
use headrace_model::pagecache::{PageCache, PageState, PAGE_BYTES};
use headrace_model::scheduler::SubmittedIo;
use headrace_model::{Op as DriveOp, Request};

use crate::scenario::ClientReadAhead;
use crate::world::{Backend, Instance, Io, IoKind, Op, OpKind, Parent, World, NONE};

/// The process number of writers that nobody waits for (the flusher).
pub(crate) const FLUSHER: u32 = 0;

pub(crate) fn page_of(byte: u64) -> u32 {
    (byte / PAGE_BYTES) as u32
}

/// The page after the last one that holds a byte of what ends at `byte`.
pub(crate) fn page_end(byte: u64) -> u32 {
    byte.div_ceil(PAGE_BYTES) as u32
}

/// What an operation is asked to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub kind: OpKind,
    pub parent: Parent,
    pub instance: u32,
    pub process: u32,
    pub job: u32,
    pub offset: u64,
    pub length: u64,
    pub mapped: bool,
    pub read_ahead: ReadAhead,
}

impl World<'_> {
    /// Starts an operation. `None` when it was done at once; else it tells its parent when it is.
    pub fn start_op(&mut self, wanted: Wanted) -> Result<u32, Op> {
        let op = Op {
            kind: wanted.kind,
            parent: wanted.parent,
            instance: wanted.instance,
            process: wanted.process,
            job: wanted.job,
            mapped: wanted.mapped,
            failed: false,
            stage: 0,
            cursor: page_of(wanted.offset),
            end: page_end(wanted.offset + wanted.length),
            submit_from: 0,
            submit_to: 0,
            mark: NONE,
            ask_at: page_of(wanted.offset),
            missed: 0,
            offset: wanted.offset,
            length: wanted.length,
            read_ahead: wanted.read_ahead,
            outstanding: 0,
            next: NONE,
        };
        let index = self.ops.insert(op);
        self.instances[wanted.instance].ios += 1;
        if wanted.kind == OpKind::Read {
            self.before_read(index);
        }
        if self.run_op(index) {
            Err(self.take_op(index))
        } else {
            Ok(index)
        }
    }

    fn take_op(&mut self, index: u32) -> Op {
        let op = self.ops[index];
        self.ops.remove(index);
        self.instances[op.instance].ios -= 1;
        self.bury(op.instance);
        op
    }

    /// Goes on with an operation that waited, and with whoever waits for it if it is done.
    pub fn resume_op(&mut self, index: u32) {
        if self.run_op(index) {
            let op = self.take_op(index);
            match op.parent {
                Parent::Task(task) => self.op_done(task, &op),
                Parent::Rpc(rpc) => self.stored(rpc, &op),
            }
        }
    }

    /// True when it is done.
    fn run_op(&mut self, index: u32) -> bool {
        match self.ops[index].kind {
            OpKind::Read => self.run_read(index),
            OpKind::Write => self.run_write(index),
            OpKind::DirectRead | OpKind::DirectWrite => self.run_direct(index),
            OpKind::Sync | OpKind::Close => self.run_sync(index),
        }
    }

    /// What a client reads ahead by itself, whether or not pages are missing.
    fn before_read(&mut self, index: u32) {
        let op = self.ops[index];
        let instance = &self.instances[op.instance];
        let Backend::Service(service) = self.mounts[instance.mount as usize].backend else { return };
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

    // ---- through the page cache ----------------------------------------------------------------------------

    fn run_read(&mut self, index: u32) -> bool {
        loop {
            if self.ops[index].submit_from < self.ops[index].submit_to && !self.submit_range(index) {
                return false;
            }
            let op = self.ops[index];
            if op.cursor >= op.end || op.failed {
                let o = &mut self.ops[index];
                if o.end > 0 {
                    o.read_ahead.finished(o.end - 1);
                }
                return true;
            }
            let instance = &self.instances[op.instance];
            let (mount, file) = (&self.mounts[instance.mount as usize], instance.cache_file);
            let exact = mount.exact;
            let wanted = op.end - op.cursor.min(op.end);
            let max = match mount.read_ahead_pages {
                _ if instance.is_metadata => 0,
                limit if wanted > limit && limit > 0 => limit.max(wanted.min(mount.large_read_pages)),
                limit => limit,
            };
            let file_end = page_end(instance.bytes);
            let two_windows = self.hosts[mount.host as usize].read_ahead == ReadAheadRules::TwoWindows
                && !(exact || op.mapped || instance.is_metadata);
            let cache = &mut self.hosts[mount.host as usize].cache;
            if two_windows && op.cursor == op.ask_at {
                let o = &mut self.ops[index];
                let ahead = o.read_ahead.windows.reach(op.cursor, op.end - op.cursor, max, |from, to| {
                    cache.next_missing(file, from, to.min(file_end)) < to.min(file_end)
                });
                o.ask_at = ahead.next;
                let end = ahead.end.min(file_end);
                if cache.next_missing(file, ahead.start, end) < end {
                    let needed = cache.missing_pages(file, op.cursor.max(ahead.start), end.min(op.end));
                    cache.counters.missed_pages += u64::from(needed);
                    o.missed += needed;
                    (o.submit_from, o.submit_to) = (ahead.start, end);
                    continue;
                }
            }
            let Some(found) = cache.find(file, op.cursor) else {
                let o = &mut self.ops[index];
                let window = if two_windows {
                    o.read_ahead.windows.missed();
                    Window { start: op.cursor, pages: 1, mark: None }
                } else if exact {
                    Window { start: op.cursor, pages: op.end - op.cursor, mark: None }
                } else if op.mapped {
                    o.read_ahead.fault_missing(op.cursor, max, file_end)
                } else {
                    let history = |most| cache.cached_before(file, op.cursor, most);
                    o.read_ahead.missing(op.cursor, op.end - op.cursor, max, history)
                };
                let needed = (window.start + window.pages).min(op.end).saturating_sub(op.cursor).max(1);
                cache.counters.missed_pages += u64::from(needed);
                o.missed += needed;
                self.set_window(index, window, file_end);
                continue;
            };
            let extent = *cache.extent(found);
            if extent.mark == op.cursor {
                cache.clear_mark(found);
                let missing = cache.next_missing(file, op.cursor + 1, op.cursor.saturating_add(max + 1));
                let o = &mut self.ops[index];
                if let Some(window) = o.read_ahead.marked(op.cursor, op.end - op.cursor, max, missing) {
                    self.set_window(index, window, file_end);
                }
                continue;
            }
            if extent.state == PageState::Reading {
                self.wait_for_io(index, extent.io);
                return false;
            }
            let mut upto = extent.end().min(op.end);
            if extent.mark != NONE && extent.mark > op.cursor {
                upto = upto.min(extent.mark);
            }
            if two_windows && op.ask_at > op.cursor {
                upto = upto.min(op.ask_at);
            }
            cache.touch(found, op.cursor, upto);
            let o = &mut self.ops[index];
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

    fn set_window(&mut self, index: u32, window: Window, file_end: u32) {
        let o = &mut self.ops[index];
        // A window that lies wholly behind the file's end reads nothing.
        o.submit_from = window.start.min(file_end.max(o.cursor + 1));
        o.submit_to = (window.start + window.pages).min(file_end.max(o.cursor + 1));
        o.mark = window.mark.unwrap_or(NONE);
        if o.submit_from > o.cursor && o.submit_to <= o.cursor {
            o.submit_from = o.cursor;
            o.submit_to = o.cursor + 1;
        }
    }

    fn wait_for_io(&mut self, index: u32, io: u32) {
        let first = self.ios[io].waiters;
        self.ops[index].next = first;
        self.ios[io].waiters = index;
    }

    /// Starts to read what is missing of an operation's window. False when it has to wait for metadata first.
    fn submit_range(&mut self, index: u32) -> bool {
        let mount = self.instances[self.ops[index].instance].mount;
        match self.mounts[mount as usize].backend {
            Backend::Volume(volume) => {
                self.volumes[volume as usize].queue.plug();
                let done = self.submit_local(index, volume);
                let now = self.now;
                self.volumes[volume as usize].queue.unplug(now);
                self.set_drive_timer(volume);
                if !done {
                    return false;
                }
            }
            Backend::Service(service) => self.submit_remote(index, service),
        }
        let op = self.ops[index];
        if op.mark != NONE {
            let instance = &self.instances[op.instance];
            let host = self.mounts[instance.mount as usize].host;
            self.hosts[host as usize].cache.set_mark(instance.cache_file, op.mark);
            self.ops[index].mark = NONE;
        }
        true
    }

    fn submit_local(&mut self, index: u32, volume: u32) -> bool {
        loop {
            let op = self.ops[index];
            let instance = &self.instances[op.instance];
            let (file, fs_file, is_metadata) = (instance.cache_file, instance.file, instance.is_metadata);
            let v = &self.volumes[volume as usize];
            let host = v.host as usize;
            let from = self.hosts[host].cache.next_missing(file, op.submit_from, op.submit_to);
            if from >= op.submit_to {
                self.ops[index].submit_from = op.submit_to;
                return true;
            }
            let mut until = self.hosts[host].cache.next_cached(file, from, op.submit_to);
            self.ops[index].submit_from = from;
            let (sector, pages) = if is_metadata {
                (v.fs.metadata_sector(from), 1)
            } else {
                let (blocks, maps_until) = v.fs.metadata_for(fs_file, from);
                let blocks = {
                    let mut both = [NONE; 2];
                    blocks.zip(&mut both).for_each(|(block, slot)| *slot = block);
                    both
                };
                until = until.min(maps_until);
                for block in blocks.into_iter().filter(|&block| block != NONE) {
                    if !self.metadata_present(index, volume, block) {
                        return false;
                    }
                }
                let Some((sector, in_row)) = self.volumes[volume as usize].fs.locate(fs_file, from) else {
                    // A hole: zeroes, without a drive.
                    let cache = &mut self.hosts[host].cache;
                    let extent = cache.start_reading(file, from, PageCache::piece(from, 1), NONE);
                    cache.finish_reading(extent);
                    self.ops[index].submit_from = from + 1;
                    continue;
                };
                (sector, in_row)
            };
            let max = self.volumes[volume as usize].max_bio_pages;
            let pages = PageCache::piece(from, pages.min(until - from).min(max));
            let io = self.ios.insert(Io {
                kind: IoKind::Fill { extent: NONE },
                instance: op.instance,
                waiters: NONE,
            });
            let extent = self.hosts[host].cache.start_reading(file, from, pages, io);
            self.ios[io].kind = IoKind::Fill { extent };
            self.instances[op.instance].ios += 1;
            self.submit_to_drive(volume, io, DriveOp::Read, sector, pages, op.process, true);
            self.count_device(op.job, u64::from(pages) * PAGE_BYTES);
            self.ops[index].submit_from = from + pages;
        }
    }

    pub fn count_device(&mut self, job: u32, bytes: u64) {
        if job != NONE {
            self.jobs[job as usize].bytes.device_bytes += bytes;
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub fn submit_to_drive(
        &mut self,
        volume: u32,
        io: u32,
        op: DriveOp,
        sector: u64,
        pages: u32,
        process: u32,
        sync: bool,
    ) {
        let request = Request {
            tag: u64::from(io),
            op,
            sector,
            sectors: pages * (PAGE_BYTES / headrace_model::SECTOR_BYTES) as u32,
            fua: false,
        };
        self.sample(volume);
        let now = self.now;
        self.volumes[volume as usize].queue.submit_io(now, SubmittedIo { request, process, sync });
    }

    /// Is a metadata block in memory? If not it is being read now, and the operation waits for it.
    fn metadata_present(&mut self, index: u32, volume: u32, block: u32) -> bool {
        let v = &self.volumes[volume as usize];
        let (instance, host) = (v.metadata, v.host as usize);
        let file = self.instances[instance].cache_file;
        if let Some(found) = self.hosts[host].cache.find(file, block) {
            let extent = *self.hosts[host].cache.extent(found);
            if extent.state == PageState::Reading {
                self.wait_for_io(index, extent.io);
                return false;
            }
            self.hosts[host].cache.touch(found, block, block + 1);
            return true;
        }
        let op = self.ops[index];
        let io = self.ios.insert(Io { kind: IoKind::Fill { extent: NONE }, instance, waiters: NONE });
        let extent = self.hosts[host].cache.start_reading(file, block, 1, io);
        self.ios[io].kind = IoKind::Fill { extent };
        self.instances[instance].ios += 1;
        let sector = self.volumes[volume as usize].fs.metadata_sector(block);
        self.submit_to_drive(volume, io, DriveOp::Read, sector, 1, op.process, true);
        self.count_device(op.job, PAGE_BYTES);
        self.wait_for_io(index, io);
        false
    }

    fn run_write(&mut self, index: u32) -> bool {
        let op = self.ops[index];
        let mount = self.instances[op.instance].mount;
        let host = self.mounts[mount as usize].host as usize;
        if op.stage == 0 {
            self.ops[index].stage = 1;
            let file = self.instances[op.instance].cache_file;
            self.hosts[host].cache.write(file, op.cursor, op.end - op.cursor);
            self.grow(op.instance, op.offset + op.length);
            if let Backend::Volume(volume) = self.mounts[mount as usize].backend {
                self.allocate_early(volume, op.instance, op.cursor, op.end);
            }
            self.dirtied(op.instance);
            self.pump(mount);
        }
        let h = &mut self.hosts[host];
        if h.cache.dirty_pages() + h.cache.writeback_pages() > h.dirty_limit_pages {
            // balance_dirty_pages: the writer waits until the drive has caught up.
            h.throttled.push_back(index);
            return false;
        }
        true
    }

    pub fn grow(&mut self, instance: u32, bytes: u64) {
        let i = &mut self.instances[instance];
        i.bytes = i.bytes.max(bytes);
        if let Backend::Service(service) = self.mounts[i.mount as usize].backend {
            let file = i.file;
            self.services[service as usize].grow(file, bytes);
        }
    }

    // ---- past the page cache -------------------------------------------------------------------------------

    fn run_direct(&mut self, index: u32) -> bool {
        let op = self.ops[index];
        let mount = self.instances[op.instance].mount;
        match self.mounts[mount as usize].backend {
            Backend::Volume(volume) => self.run_direct_local(index, volume),
            Backend::Service(service) => self.run_direct_remote(index, service),
        }
    }

    fn run_direct_local(&mut self, index: u32, volume: u32) -> bool {
        let op = self.ops[index];
        let write = op.kind == OpKind::DirectWrite;
        if op.stage == 1 {
            return op.outstanding == 0;
        }
        let fs_file = self.instances[op.instance].file;
        if write && op.cursor < op.end {
            let fs = &mut self.volumes[volume as usize].fs;
            if fs.allocate(fs_file, op.cursor, op.end - op.cursor).is_err() {
                self.counters.out_of_space += 1;
                return true;
            }
            self.grow(op.instance, op.offset + op.length);
        }
        let v = &mut self.volumes[volume as usize];
        v.queue.plug();
        let mut page = op.cursor;
        let mut waits = false;
        while page < op.end {
            let v = &self.volumes[volume as usize];
            let (blocks, until) = v.fs.metadata_for(fs_file, page);
            let mut both = [NONE; 2];
            blocks.zip(&mut both).for_each(|(block, slot)| *slot = block);
            if let Some(&_missing) = both
                .iter()
                .filter(|&&b| b != NONE)
                .find(|&&block| !self.metadata_present(index, volume, block))
            {
                waits = true;
                break;
            }
            let v = &self.volumes[volume as usize];
            let Some((sector, in_row)) = v.fs.locate(fs_file, page) else {
                page += 1;
                continue;
            };
            let pages = in_row.min(op.end - page).min(until - page).min(v.max_bio_pages);
            let io = self.ios.insert(Io {
                kind: IoKind::Through { op: index },
                instance: op.instance,
                waiters: NONE,
            });
            self.instances[op.instance].ios += 1;
            self.ops[index].outstanding += 1;
            let kind = if write { DriveOp::Write } else { DriveOp::Read };
            self.submit_to_drive(volume, io, kind, sector, pages, op.process, true);
            self.count_device(op.job, u64::from(pages) * PAGE_BYTES);
            page += pages;
        }
        self.ops[index].cursor = page;
        if !waits {
            self.ops[index].stage = 1;
        }
        let now = self.now;
        self.volumes[volume as usize].queue.unplug(now);
        self.set_drive_timer(volume);
        !waits && self.ops[index].outstanding == 0
    }

    // ---- the end of an I/O ---------------------------------------------------------------------------------

    /// An I/O is done: pages become clean, and whoever waited goes on.
    pub fn io_done(&mut self, io: u32, failed: bool) {
        let Io { kind, instance, waiters } = self.ios[io];
        self.ios.remove(io);
        match kind {
            IoKind::Fill { extent } => {
                let host = self.mounts[self.instances[instance].mount as usize].host as usize;
                if failed {
                    self.hosts[host].cache.abandon_reading(extent);
                } else {
                    self.hosts[host].cache.finish_reading(extent);
                }
                self.instances[instance].ios -= 1;
                let mut waiter = waiters;
                while waiter != NONE {
                    let next = self.ops[waiter].next;
                    self.ops[waiter].next = NONE;
                    self.ops[waiter].failed |= failed;
                    self.resume_op(waiter);
                    waiter = next;
                }
                self.bury(instance);
            }
            IoKind::Writeback { extent } => self.written(instance, extent),
            IoKind::Through { op } => {
                self.instances[instance].ios -= 1;
                let o = &mut self.ops[op];
                o.failed |= failed;
                o.outstanding -= 1;
                self.instances[instance].uncommitted |= o.kind == OpKind::DirectWrite;
                // In stage 0 a block of metadata is waited for besides: that I/O lets it go on.
                if o.stage > 0 && (o.outstanding == 0 || matches!(o.kind, OpKind::DirectWrite)) {
                    self.resume_op(op);
                }
                self.bury(instance);
            }
            IoKind::Behind { bytes } => self.behind_done(instance, bytes),
            IoKind::Journal { volume } => self.journal_written(volume),
        }
    }

    // ---- instances -----------------------------------------------------------------------------------------

    pub fn new_instance(&mut self, mount: u32, file: u32, bytes: u64) -> u32 {
        let host = self.mounts[mount as usize].host as usize;
        let cache_file = self.hosts[host].cache.add_file();
        self.instances.insert(Instance {
            mount,
            cache_file,
            file,
            bytes,
            is_metadata: false,
            opened: 0,
            ios: 0,
            doomed: false,
            dirty_since: 0,
            in_dirty_list: false,
            urgent: false,
            ordered: false,
            flush_cursor: 0,
            writes: 0,
            sync_waiters: Vec::new(),
            uncommitted: false,
            behind_bytes: 0,
            behind_waiter: NONE,
            read_ahead: ReadAhead::default(),
            last_access: 0,
        })
    }

    /// Deletes a file of a mount; it goes when its last I/O is done.
    pub fn doom(&mut self, instance: u32) {
        self.instances[instance].doomed = true;
        if self.instances[instance].opened == 0 && self.instances[instance].sync_waiters.is_empty() {
            // Truncated: what is dirty is not worth writing any more.
            self.undirty(instance);
        }
        self.bury(instance);
    }

    pub(super) fn bury(&mut self, instance: u32) {
        let i = &self.instances[instance];
        if !i.doomed || i.ios > 0 || i.writes > 0 || i.opened > 0 || !i.sync_waiters.is_empty() {
            return;
        }
        let (mount, cache_file, file) = (i.mount, i.cache_file, i.file);
        self.instances[instance].doomed = false;
        self.undirty(instance);
        let host = self.mounts[mount as usize].host as usize;
        self.hosts[host].cache.remove_file(cache_file);
        match self.mounts[mount as usize].backend {
            Backend::Volume(volume) => self.volumes[volume as usize].fs.delete(file),
            Backend::Service(service) => {
                self.client_instances.remove(&(mount, file));
                self.lustre.remove(&instance);
                self.delete_remote(service, file);
            }
        }
        self.instances.remove(instance);
        self.release_throttled(host as u32);
    }
}
