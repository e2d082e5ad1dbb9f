//! Client side of reads, writes and syncs on a service: pages of the client's cache, I/O that
//! bypasses it within the write window, synchronous or write-behind, and commits to the servers'
//! drives.

use headrace_model::pagecache::{PageCache, PAGE_BYTES};

use super::requests::Asked;
use super::RpcKind;
use crate::ids::{InstanceId, IoId, OpId};
use crate::layout::{Layout, Piece};
use crate::scenario::Commit;
use crate::storage::page_of;
use crate::world::{Io, IoKind, OpKind, OpStage, World};

impl World<'_> {
    /// Request the missing pages of an operation's window.
    pub fn submit_remote(&mut self, index: OpId, service: u32) {
        let op = self.ops[index];
        let (mut from, to) = (op.submit_from, op.submit_to);
        self.ops[index].submit_from = to;
        let instance = &self.instances[op.instance];
        let (cache_file, file, file_bytes) = (instance.cache_file, instance.file(), instance.bytes);
        let mount = &self.mounts[instance.mount as usize];
        let (host, of_server) = (mount.host, mount.of_server);
        loop {
            let cache = &mut self.hosts[host as usize].cache;
            from = cache.next_missing(cache_file, from, to);
            if from >= to {
                return;
            }
            let until = cache.next_cached(cache_file, from, to);
            let s = &self.services[service as usize];
            let offset = u64::from(from) * PAGE_BYTES;
            let piece = s.layout.locate(offset, s.replicas);
            let most = page_of(s.settled.read_request_bytes.min(piece.in_row)).max(1);
            let pages = PageCache::piece(from, (until - from).min(most));
            let bytes =
                (u64::from(pages) * PAGE_BYTES).min(file_bytes.saturating_sub(offset)).max(1);
            let io = self.start_fill(host, op.instance, from, pages, self.group_of(&op));
            let job = op.job;
            let asked = Asked { service, file, piece, bytes, client: host, of_server, job };
            self.send_read(asked, io);
            from += pages;
        }
    }

    /// Read or write, bypassing the client's cache: send all pieces at once, as far as the channels
    /// and the window allow. With write-behind a write is done when all of it fits in the window,
    /// and closing the file waits for the rest.
    pub fn run_direct_remote(&mut self, index: OpId, service: u32) -> bool {
        let op = self.ops[index];
        let instance = &self.instances[op.instance];
        let mount = &self.mounts[instance.mount as usize];
        let (file, host, of_server) = (instance.file(), mount.host, mount.of_server);
        let s = &self.services[service as usize];
        let write = op.kind == OpKind::DirectWrite;
        let behind = write && s.settled.write_behind;
        let copies = s.copies(write);
        let (largest, window, replicas) = if write {
            (s.settled.write_request_bytes, s.settled.write_window_bytes, s.replicas)
        } else {
            (s.settled.read_request_bytes, u64::MAX, s.replicas)
        };
        if write && op.stage == OpStage::Submitting {
            self.grow(op.instance, op.offset + op.length);
        }
        // With parity the rows of a write are sent in order.
        let coded_write = write && self.services[service as usize].parity > 0;
        if op.stage == OpStage::Submitting && !behind && window == u64::MAX && !coded_write {
            let layout = &self.services[service as usize].layout;
            if let &Layout::Striped { targets: targets @ 2.., .. } = layout {
                return self.run_on_all_targets(index, service, targets, largest);
            }
        }
        self.ops[index].stage = OpStage::Submitted;
        let (mut at, end) = (self.ops[index].offset, op.offset + op.length);
        while at < end {
            let piece = self.services[service as usize].layout.locate(at, replicas);
            let bytes = (end - at).min(largest).min(piece.in_row);
            let o = &self.ops[index];
            if behind {
                let under_way = self.instances[op.instance].behind_bytes;
                if under_way > 0
                    && under_way + bytes * u64::from(copies)
                        > window.saturating_mul(u64::from(copies))
                {
                    self.wait_for_window(index);
                    break;
                }
            // Replicated writes count once: the window limits the caller's bytes.
            } else if write
                && o.outstanding > 0
                && u64::from(o.outstanding) * largest >= window.max(largest)
            {
                break;
            }
            let job = op.job;
            let asked = Asked { service, file, piece, bytes, client: host, of_server, job };
            if write && at < self.coded_bytes(service, op.instance) {
                self.overwrite_coded(index, asked, behind);
            } else {
                self.send_copies(index, asked, copies, behind);
            }
            at += bytes;
        }
        if coded_write && at >= end {
            self.write_parity(index, service, end, false);
        }
        let o = &mut self.ops[index];
        o.length = end - at;
        o.offset = at;
        at >= end && o.outstanding == 0
    }

    /// Send a call on a striped file to all servers at once, to each the contiguous range in its
    /// object.
    fn run_on_all_targets(
        &mut self,
        index: OpId,
        service: u32,
        targets: u32,
        largest: u64,
    ) -> bool {
        let op = self.ops[index];
        let o = &mut self.ops[index];
        (o.stage, o.offset, o.length) = (OpStage::Submitted, op.offset + op.length, 0);
        let instance = &self.instances[op.instance];
        let mount = &self.mounts[instance.mount as usize];
        let (file, host, of_server) = (instance.file(), mount.host, mount.of_server);
        let s = &self.services[service as usize];
        let layout = s.layout;
        let copies = s.copies(op.kind == OpKind::DirectWrite);
        for part in 0..targets {
            let Some((mut offset, mut left)) =
                layout.in_object(op.offset, op.offset + op.length, part)
            else {
                continue;
            };
            while left > 0 {
                let bytes = left.min(largest);
                let piece = Piece { part, offset, in_row: left };
                let job = op.job;
                let asked = Asked { service, file, piece, bytes, client: host, of_server, job };
                self.send_copies(index, asked, copies, false);
                (offset, left) = (offset + bytes, left - bytes);
            }
        }
        self.ops[index].outstanding == 0
    }

    /// Send a piece of a read, or `copies` copies of a piece of a write. Each is an I/O that the
    /// operation waits for, or with `behind` does not wait for.
    pub(crate) fn send_copies(&mut self, index: OpId, asked: Asked, copies: u32, behind: bool) {
        let op = self.ops[index];
        for copy in 0..copies {
            let io = self.start_copy(index, asked.bytes, behind);
            match op.kind {
                OpKind::Read | OpKind::DirectRead => self.send_read(asked, io),
                // Syncing or closing writes the parity of the last row.
                _ => self.send_write_piece(asked, io, copy),
            }
        }
    }

    /// Create the I/O of a piece.
    pub(crate) fn start_copy(&mut self, index: OpId, bytes: u64, behind: bool) -> IoId {
        if !behind {
            return self.start_io(index, IoKind::Through { op: index });
        }
        let instance = &mut self.instances[self.ops[index].instance];
        instance.writes += 1;
        instance.behind_bytes += bytes;
        self.start_io(index, IoKind::Behind { bytes })
    }

    /// Create an I/O of an operation that bypasses the page cache.
    fn start_io(&mut self, index: OpId, kind: IoKind) -> IoId {
        let instance = self.ops[index].instance;
        self.instances[instance].ios += 1;
        if let IoKind::Through { .. } = kind {
            self.ops[index].outstanding += 1;
        }
        self.ios.insert(Io { kind, instance, waiters: None })
    }

    /// Queue a write until enough of the file's earlier writes are acknowledged.
    fn wait_for_window(&mut self, index: OpId) {
        let instance = self.ops[index].instance;
        let Some(mut last) = self.instances[instance].behind_waiter else {
            self.instances[instance].behind_waiter = Some(index);
            return;
        };
        while let Some(next) = self.ops[last].next {
            last = next;
        }
        self.ops[last].next = Some(index);
    }

    /// Complete a write-behind I/O.
    pub(crate) fn behind_done(&mut self, instance: InstanceId, bytes: u64) {
        let i = &mut self.instances[instance];
        i.ios -= 1;
        i.writes -= 1;
        i.behind_bytes -= bytes;
        i.uncommitted = true;
        let mut waiting = i.behind_waiter.take();
        while let Some(waiter) = waiting {
            waiting = self.ops[waiter].next.take();
            self.resume_op(waiter);
        }
        self.wake_syncs(instance);
        self.bury(instance);
    }

    /// Request that the servers flush the written data of a file to their drives, if the service
    /// requires it. Return true if there is nothing to wait for.
    pub(crate) fn commit_remote(&mut self, index: OpId, service: u32) -> bool {
        let op = self.ops[index];
        if self.services[service as usize].parity > 0 {
            let end = self.instances[op.instance].bytes;
            self.write_parity(index, service, end, true);
        }
        let s = &self.services[service as usize];
        let due = match s.settled.commit {
            Commit::Never => false,
            Commit::Sync => op.kind == OpKind::Sync,
            Commit::Close => true,
        };
        let instance = &mut self.instances[op.instance];
        if !due || !std::mem::take(&mut instance.uncommitted) {
            return self.ops[index].outstanding == 0;
        }
        let mount = &self.mounts[instance.mount as usize];
        let (file, host, of_server) = (instance.file(), mount.host, mount.of_server);
        let parts = s.files[file as usize].parts.len() as u32;
        for part in 0..parts {
            let f = &self.services[service as usize].files[file as usize];
            if f.parts[part as usize].is_none() {
                continue;
            }
            let target = self.part_target(service, f, part);
            let io = self.start_io(index, IoKind::Through { op: index });
            let piece = Piece { part, offset: 0, in_row: 0 };
            let (bytes, job) = (0, op.job);
            let asked = Asked { service, file, piece, bytes, client: host, of_server, job };
            self.send(RpcKind::Commit, asked, io, 0, target);
        }
        self.ops[index].outstanding == 0
    }
}
