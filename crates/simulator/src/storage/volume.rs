//! I/O of a local volume on its way to the block queue: missing pages, preceded by the metadata
//! blocks that map them.

use headrace_model::pagecache::{PageCache, PageState, PAGE_BYTES};
use headrace_model::scheduler::SubmittedIo;
use headrace_model::{Op as DriveOp, Request};

use crate::world::{Io, IoKind, World, NONE};

impl World<'_> {
    pub(super) fn submit_local(&mut self, index: u32, volume: u32) -> bool {
        loop {
            let op = self.ops[index];
            let instance = &self.instances[op.instance];
            let (file, fs_file, is_metadata) =
                (instance.cache_file, instance.file, instance.is_metadata);
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
                let Some((sector, in_row)) = self.volumes[volume as usize].fs.locate(fs_file, from)
                else {
                    // A hole: zeroes, without drive I/O.
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

    pub(super) fn count_device(&mut self, job: u32, bytes: u64) {
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

    /// Return whether a metadata block is in memory. If not, start to read it; the operation waits
    /// for it.
    pub(super) fn metadata_present(&mut self, index: u32, volume: u32, block: u32) -> bool {
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
        let io =
            self.ios.insert(Io { kind: IoKind::Fill { extent: NONE }, instance, waiters: NONE });
        let extent = self.hosts[host].cache.start_reading(file, block, 1, io);
        self.ios[io].kind = IoKind::Fill { extent };
        self.instances[instance].ios += 1;
        let sector = self.volumes[volume as usize].fs.metadata_sector(block);
        self.submit_to_drive(volume, io, DriveOp::Read, sector, 1, op.process, true);
        self.count_device(op.job, PAGE_BYTES);
        self.wait_for_io(index, io);
        false
    }
}
