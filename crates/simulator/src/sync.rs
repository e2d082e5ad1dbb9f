//! Operations that wait until data is on stable storage (fsync): write-back of the file, then the
//! journal or a flush of the drive's write cache, or the commit of a service.

use headrace_model::scheduler::SubmittedIo;
use headrace_model::{Op as DriveOp, Request};

use crate::ids::{InstanceId, OpId};
use crate::world::{Io, IoKind, JournalState, Mounted, OpKind, OpStage, World};

impl World<'_> {
    pub fn run_sync(&mut self, index: OpId) -> bool {
        if self.ops[index].stage == OpStage::Submitted {
            return self.ops[index].outstanding == 0;
        }
        let op = self.ops[index];
        let mount = self.instances[op.instance].mount;
        if self.await_writeback(index, mount) {
            return false;
        }
        self.ops[index].stage = OpStage::Submitted;
        match self.mounts[mount as usize].mounted {
            Mounted::Service(service) => self.commit_remote(index, service),
            Mounted::Volume(_) if self.instances[op.instance].is_metadata() => true,
            Mounted::Volume(volume) => {
                if self.await_journal(index, volume) {
                    return false;
                }
                let barrier = self.volumes[volume as usize].fs.spec().barrier();
                if op.kind == OpKind::Sync && barrier {
                    self.flush_drive(index, volume);
                }
                self.ops[index].outstanding == 0
            }
        }
    }

    /// Return whether the operation has to wait for pages of its file; if so, have them written.
    fn await_writeback(&mut self, index: OpId, mount: u32) -> bool {
        let instance = self.ops[index].instance;
        let host = self.mounts[mount as usize].host as usize;
        let i = &mut self.instances[instance];
        let dirty = self.hosts[host].cache.file_dirty_pages(i.cache_file) > 0;
        if !dirty && i.writes == 0 {
            return false;
        }
        if !i.sync_waiters.contains(&index) {
            i.sync_waiters.push(index);
        }
        if dirty {
            self.make_urgent(instance);
            self.pump(mount);
        }
        true
    }

    /// Return whether the operation has to wait for a commit of the journal, which flushes the
    /// drive; if so, have it started.
    fn await_journal(&mut self, index: OpId, volume: u32) -> bool {
        let v = &mut self.volumes[volume as usize];
        let inode = v.fs.inode(self.instances[self.ops[index].instance].file());
        let journal = &mut v.journal;
        if !journal.is_dirty.get(inode as usize).copied().unwrap_or(false) {
            return false;
        }
        if journal.state == JournalState::Idle {
            journal.waiters.push(index);
            self.start_commit(volume);
        } else {
            journal.next_waiters.push(index);
        }
        true
    }

    /// Flush the drive's write cache, as `fsync` does where no commit of the journal does it: the
    /// file was overwritten in place (`blkdev_issue_flush` of ext4 and XFS).
    fn flush_drive(&mut self, index: OpId, volume: u32) {
        let op = self.ops[index];
        let kind = IoKind::Through { op: index };
        let io = self.ios.insert(Io { kind, instance: op.instance, waiters: None });
        self.instances[op.instance].ios += 1;
        self.ops[index].outstanding += 1;
        let request =
            Request { tag: io.tag(), op: DriveOp::Flush, sector: 0, sectors: 0, fua: false };
        let now = self.now;
        let io = SubmittedIo { request, process: op.process, sync: true };
        self.sample(volume);
        self.volumes[volume as usize].queue.submit_io(now, io);
        self.set_drive_timer(volume);
    }

    pub(super) fn wake_syncs(&mut self, instance: InstanceId) {
        let i = &self.instances[instance];
        if i.sync_waiters.is_empty() || i.writes > 0 {
            return;
        }
        let host = self.mounts[i.mount as usize].host as usize;
        if self.hosts[host].cache.file_dirty_pages(i.cache_file) > 0 {
            return;
        }
        for op in std::mem::take(&mut self.instances[instance].sync_waiters) {
            self.resume_op(op);
        }
    }
}
