//! Reads and writes that bypass the page cache (O_DIRECT), to a local volume's drive or a service's
//! servers.

use headrace_model::pagecache::PAGE_BYTES;
use headrace_model::Op as DriveOp;

use crate::ids::OpId;
use crate::world::{Io, IoKind, Mounted, OpKind, OpStage, World};

impl World<'_> {
    pub(super) fn run_direct(&mut self, index: OpId) -> bool {
        let op = self.ops[index];
        let mount = self.instances[op.instance].mount;
        match self.mounts[mount as usize].mounted {
            Mounted::Volume(volume) => self.run_direct_local(index, volume),
            Mounted::Service(service) => self.run_direct_remote(index, service),
        }
    }

    fn run_direct_local(&mut self, index: OpId, volume: u32) -> bool {
        let op = self.ops[index];
        let write = op.kind == OpKind::DirectWrite;
        if op.stage == OpStage::Submitted {
            return op.outstanding == 0;
        }
        let fs_file = self.instances[op.instance].file();
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
            let (mut blocks, until) = v.fs.metadata_for(fs_file, page);
            if !blocks.all(|block| self.metadata_present(index, volume, block)) {
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
                waiters: None,
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
            self.ops[index].stage = OpStage::Submitted;
        }
        let now = self.now;
        self.sample(volume);
        self.volumes[volume as usize].queue.unplug(now);
        self.set_drive_timer(volume);
        !waits && self.ops[index].outstanding == 0
    }
}
