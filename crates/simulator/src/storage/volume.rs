//! I/O of a local volume on its way to the block queue: missing pages, preceded by the metadata
//! blocks that map them.

use headrace_model::pagecache::{PageCache, PageState, PAGE_BYTES};
use headrace_model::request::SectorRange;
use headrace_model::scheduler::SubmittedIo;
use headrace_model::{Op as DriveOp, Request};

use super::FLUSHER;
use crate::ids::{IoId, JobId, OpId};
use crate::world::{Content, Io, IoKind, World};

/// Largest discard: 2 GiB, about what ATA's DATA SET MANAGEMENT takes at once.
const DISCARD_SECTORS: u64 = 1 << 22;

impl World<'_> {
    pub(super) fn submit_local(&mut self, index: OpId, volume: u32) -> bool {
        loop {
            let op = self.ops[index];
            let instance = &self.instances[op.instance];
            let (file, content) = (instance.cache_file, instance.content);
            let v = &self.volumes[volume as usize];
            let host = v.host as usize;
            let from = self.hosts[host].cache.next_missing(file, op.submit_from, op.submit_to);
            if from >= op.submit_to {
                self.ops[index].submit_from = op.submit_to;
                return true;
            }
            let mut until = self.hosts[host].cache.next_cached(file, from, op.submit_to);
            self.ops[index].submit_from = from;
            let (sector, pages) = match content {
                Content::Metadata => (v.fs.metadata_sector(from), 1),
                Content::File(fs_file) => {
                    let (mut blocks, maps_until) = v.fs.metadata_for(fs_file, from);
                    until = until.min(maps_until);
                    if !blocks.all(|block| self.metadata_present(index, volume, block)) {
                        return false;
                    }
                    match self.volumes[volume as usize].fs.locate(fs_file, from) {
                        Some(place) => place,
                        None => {
                            // A hole: zeroes, without drive I/O.
                            self.hosts[host].cache.fill(file, from, 1);
                            self.ops[index].submit_from = from + 1;
                            continue;
                        }
                    }
                }
            };
            let max = self.volumes[volume as usize].max_bio_pages;
            let pages = PageCache::piece(from, pages.min(until - from).min(max));
            let group = self.group_of(&op);
            let io = self.start_fill(host as u32, op.instance, from, pages, group);
            self.submit_to_drive(volume, io, DriveOp::Read, sector, pages, op.process, true);
            self.count_device(op.job, u64::from(pages) * PAGE_BYTES);
            self.ops[index].submit_from = from + pages;
        }
    }

    pub(super) fn count_device(&mut self, job: Option<JobId>, bytes: u64) {
        if let Some(job) = job {
            self.jobs[job.index()].bytes.device_bytes += bytes;
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub fn submit_to_drive(
        &mut self,
        volume: u32,
        io: IoId,
        op: DriveOp,
        sector: u64,
        pages: u32,
        process: u32,
        sync: bool,
    ) {
        let request = Request {
            tag: io.tag(),
            op,
            sector,
            sectors: pages * (PAGE_BYTES / headrace_model::SECTOR_BYTES) as u32,
            fua: false,
        };
        self.sample(volume);
        let now = self.now;
        self.volumes[volume as usize].queue.submit_io(now, SubmittedIo { request, process, sync });
    }

    /// Discard space of a removed file. No process waits for it.
    pub(super) fn discard_freed(&mut self, volume: u32, freed: &[SectorRange]) {
        if freed.is_empty() {
            return;
        }
        self.sample(volume);
        let instance = self.volumes[volume as usize].metadata;
        let pieces = freed.iter().flat_map(|&(first, sectors)| {
            let end = first + sectors;
            let starts = (first..end).step_by(DISCARD_SECTORS as usize);
            starts.map(move |sector| (sector, (end - sector).min(DISCARD_SECTORS) as u32))
        });
        for (sector, sectors) in pieces {
            let io = self.ios.insert(Io { kind: IoKind::Discard, instance, waiters: None });
            let request =
                Request { tag: io.tag(), op: DriveOp::Discard, sector, sectors, fua: false };
            let io = SubmittedIo { request, process: FLUSHER, sync: false };
            self.volumes[volume as usize].queue.submit_io(self.now, io);
        }
        self.set_drive_timer(volume);
    }

    /// Return whether a metadata block is in memory. If not, start to read it; the operation waits
    /// for it.
    pub(super) fn metadata_present(&mut self, index: OpId, volume: u32, block: u32) -> bool {
        let v = &self.volumes[volume as usize];
        let (instance, host) = (v.metadata, v.host as usize);
        let file = self.instances[instance].cache_file;
        if let Some(found) = self.hosts[host].cache.find(file, block) {
            let extent = *self.hosts[host].cache.extent(found);
            if let PageState::Reading(io) = extent.state() {
                self.wait_for_io(index, io);
                return false;
            }
            self.hosts[host].cache.touch(found, block, block + 1);
            return true;
        }
        let op = self.ops[index];
        let io = self.start_fill(host as u32, instance, block, 1, self.group_of(&op));
        let sector = self.volumes[volume as usize].fs.metadata_sector(block);
        self.submit_to_drive(volume, io, DriveOp::Read, sector, 1, op.process, true);
        self.count_device(op.job, PAGE_BYTES);
        self.wait_for_io(index, io);
        false
    }
}
