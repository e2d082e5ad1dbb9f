//! A filesystem's journal: changed metadata blocks are collected in a transaction; a commit writes
//! them to the drive after the data that must reach it first (ext3's ordered mode).

use headrace_model::filesystem::FilesystemKind;
use headrace_model::pagecache::PageCache;
use headrace_model::scheduler::SubmittedIo;
use headrace_model::{Op as DriveOp, Request};

use crate::ids::InstanceId;
use crate::storage::FLUSHER;
use crate::world::{Event, Io, IoKind, JournalState, Mounted, World};

impl World<'_> {
    /// Allocate blocks at write time, as ext3 does; the other filesystems allocate at writeback.
    pub fn allocate_early(&mut self, volume: u32, instance: InstanceId, from: u32, to: u32) {
        let v = &mut self.volumes[volume as usize];
        if v.fs.spec().kind != FilesystemKind::Ext3
            || self.instances[instance].is_metadata()
            || from >= to
        {
            return;
        }
        let file = self.instances[instance].file();
        if v.fs.allocate(file, from, to - from).is_err() {
            self.counters.out_of_space += 1;
        }
        self.dirty_metadata_of(volume, instance, to - 1);
    }

    pub(super) fn dirty_metadata_of(&mut self, volume: u32, instance: InstanceId, page: u32) {
        let file = self.instances[instance].file();
        let blocks = self.volumes[volume as usize].fs.dirtied_by_growth(file, page);
        for block in blocks {
            self.dirty_metadata(volume, block);
        }
    }

    /// Add a changed metadata block to the running transaction.
    pub fn dirty_metadata(&mut self, volume: u32, block: u32) {
        let v = &mut self.volumes[volume as usize];
        let journal = &mut v.journal;
        if journal.is_dirty.len() <= block as usize {
            journal.is_dirty.resize(block as usize + 1, false);
        }
        if journal.is_dirty[block as usize] {
            return;
        }
        journal.is_dirty[block as usize] = true;
        journal.dirty.push(block);
        if journal.timer.is_none() && journal.state == JournalState::Idle {
            let time = self.now + v.fs.spec().commit_interval_ns();
            journal.timer = Some(self.events.schedule(time, 2, Event::Commit(volume)));
        }
    }

    pub fn start_commit(&mut self, volume: u32) {
        let v = &mut self.volumes[volume as usize];
        if v.journal.state != JournalState::Idle {
            return;
        }
        if let Some(timer) = v.journal.timer.take() {
            self.events.cancel(timer);
        }
        v.journal.committing = std::mem::take(&mut v.journal.dirty);
        for &block in &v.journal.committing {
            v.journal.is_dirty[block as usize] = false;
        }
        v.journal.state = JournalState::Data;
        v.journal.ordered_left = 1;
        if v.fs.spec().kind == FilesystemKind::Ext3 {
            // Ordered mode: the data of all files with newly allocated blocks is written first.
            // ext3 allocates immediately, so these are all dirty files.
            let mount = v.mount;
            let files: Vec<InstanceId> =
                self.mounts[mount as usize].dirty.iter().copied().collect();
            for instance in files {
                if !self.instances[instance].is_metadata() && !self.instances[instance].ordered {
                    self.instances[instance].ordered = true;
                    self.volumes[volume as usize].journal.ordered_left += 1;
                    self.make_urgent(instance);
                }
            }
            self.pump(mount);
        }
        self.data_flushed(volume);
    }

    /// Note that the flusher finished its pass over a file that a commit waits for.
    pub(super) fn ordered_done(&mut self, instance: InstanceId) {
        let i = &mut self.instances[instance];
        if !i.ordered {
            return;
        }
        i.ordered = false;
        if let Mounted::Volume(volume) = self.mounts[i.mount as usize].mounted {
            self.data_flushed(volume);
        }
    }

    fn data_flushed(&mut self, volume: u32) {
        self.sample(volume);
        let v = &mut self.volumes[volume as usize];
        v.journal.ordered_left -= 1;
        if v.journal.ordered_left > 0 {
            return;
        }
        v.journal.state = JournalState::Log;
        let (sector, sectors) = v.fs.journal_write(v.journal.committing.len() as u64);
        let instance = v.metadata;
        let io = self.ios.insert(Io { kind: IoKind::Journal { volume }, instance, waiters: None });
        let request = Request { tag: io.tag(), op: DriveOp::Write, sector, sectors, fua: false };
        let now = self.now;
        // jbd2 writes with priority because processes may be waiting.
        let process = FLUSHER;
        self.volumes[volume as usize]
            .queue
            .submit_io(now, SubmittedIo { request, process, sync: true });
        self.set_drive_timer(volume);
    }

    pub fn journal_written(&mut self, volume: u32) {
        self.sample(volume);
        let v = &mut self.volumes[volume as usize];
        if v.journal.state == JournalState::Log && v.fs.spec().barrier() {
            v.journal.state = JournalState::Barrier;
            let instance = v.metadata;
            let io =
                self.ios.insert(Io { kind: IoKind::Journal { volume }, instance, waiters: None });
            let request =
                Request { tag: io.tag(), op: DriveOp::Flush, sector: 0, sectors: 0, fua: false };
            let now = self.now;
            let io = SubmittedIo { request, process: FLUSHER, sync: true };
            self.volumes[volume as usize].queue.submit_io(now, io);
            self.set_drive_timer(volume);
            return;
        }
        v.journal.state = JournalState::Idle;
        let committed = std::mem::take(&mut v.journal.committing);
        let waiters =
            std::mem::replace(&mut v.journal.waiters, std::mem::take(&mut v.journal.next_waiters));
        let (metadata, host) = (v.metadata, v.host as usize);
        // Journalled blocks must also be written to their final location eventually.
        let file = self.instances[metadata].cache_file;
        for block in committed {
            self.hosts[host].cache.write(file, block, 1, PageCache::root());
            self.dirtied(metadata);
        }
        for op in waiters {
            self.resume_op(op);
        }
        let v = &mut self.volumes[volume as usize];
        if !v.journal.waiters.is_empty() {
            self.start_commit(volume);
        } else if !v.journal.dirty.is_empty() && v.journal.timer.is_none() {
            let time = self.now + v.fs.spec().commit_interval_ns();
            v.journal.timer = Some(self.events.schedule(time, 2, Event::Commit(volume)));
        }
    }
}
