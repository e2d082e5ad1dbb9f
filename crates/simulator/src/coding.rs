//! Erasure coding: files in k data and m parity objects on different servers, of which any k give
//! the data back (Reed and Solomon 1960; Plank 1997).
//!
//! The client codes: it writes the parity of a row of k stripe units when the row is full or the
//! file is closed, (k + m) / k bytes for each byte in all. A write inside rows that have parity
//! reads the old data and parity first (read-modify-write): 1 + m reads and 1 + m writes. A read of
//! a server that is down or fails reads the same range of k other objects instead, and each byte
//! that goes through the code costs `coding_byte_ns`.

use crate::ids::{InstanceId, OpId, RpcId};
use crate::layout::{Layout, Piece};
use crate::remote::requests::Asked;
use crate::remote::{Rpc, RpcKind, Sender, Stage};
use crate::world::{Mounted, World};

/// The rows of a coded file.
#[derive(Clone, Copy)]
struct Rows {
    unit_bytes: u64,
    data: u32,
    parity: u32,
}

impl Rows {
    fn row_bytes(&self) -> u64 {
        self.unit_bytes * u64::from(self.data)
    }
}

impl World<'_> {
    fn rows(&self, service: u32) -> Option<Rows> {
        let s = &self.services[service as usize];
        match s.layout {
            Layout::Striped { stripe_bytes, targets } if s.parity > 0 => {
                Some(Rows { unit_bytes: stripe_bytes, data: targets, parity: s.parity })
            }
            _ => None,
        }
    }

    /// Return up to which byte of a file the parity is written; 0 without parity.
    pub(crate) fn coded_bytes(&self, service: u32, instance: InstanceId) -> u64 {
        let s = &self.services[service as usize];
        if s.parity == 0 {
            return 0;
        }
        s.files[self.instances[instance].file() as usize].coded_bytes
    }

    /// Return whether the last row of a file has no parity yet.
    pub(crate) fn lacks_parity(&self, instance: InstanceId) -> bool {
        let i = &self.instances[instance];
        match self.mounts[i.mount as usize].mounted {
            Mounted::Service(service) if self.services[service as usize].parity > 0 => {
                self.coded_bytes(service, instance) < i.bytes
            }
            _ => false,
        }
    }

    // ---- Writes ----

    /// Write the parity of the rows that are full when a file is written up to `end`; with `last`
    /// also that of the row that is not.
    pub(crate) fn write_parity(&mut self, index: OpId, service: u32, end: u64, last: bool) {
        let Some(rows) = self.rows(service) else { return };
        let op = self.ops[index];
        let mount = &self.mounts[self.instances[op.instance].mount as usize];
        let (client, of_server) = (mount.host, mount.of_server);
        let file = self.instances[op.instance].file();
        let s = &mut self.services[service as usize];
        let (behind, largest) = (s.settled.write_behind && !last, s.settled.write_request_bytes);
        let coded = &mut s.files[file as usize].coded_bytes;
        let row_bytes = rows.row_bytes();
        let (from, full) = (*coded / row_bytes, end / row_bytes);
        let mut parity_end = full * rows.unit_bytes;
        let mut now_coded = full * row_bytes;
        if last && end > now_coded {
            parity_end += rows.unit_bytes.min(end - now_coded);
            now_coded = end;
        }
        if now_coded <= *coded {
            return;
        }
        let data_bytes = now_coded - from * row_bytes;
        *coded = now_coded;
        self.charge_coding(op.job, of_server, service, data_bytes);
        for part in rows.data..rows.data + rows.parity {
            let mut offset = from * rows.unit_bytes;
            while offset < parity_end {
                let bytes = (parity_end - offset).min(largest);
                let piece = Piece { part, offset, in_row: bytes };
                let job = op.job;
                let asked = Asked { service, file, piece, bytes, client, of_server, job };
                self.send_copies(index, asked, 1, behind);
                offset += bytes;
            }
        }
    }

    /// Overwrite a piece of a row that has parity: read the old data and parity, then write both.
    pub(crate) fn overwrite_coded(&mut self, index: OpId, asked: Asked, behind: bool) {
        let Some(rows) = self.rows(asked.service) else { return };
        let io = self.start_copy(index, asked.bytes, behind);
        let f = &self.services[asked.service as usize].files[asked.file as usize];
        let target = self.part_target(asked.service, f, asked.piece.part);
        let twice = 2 * asked.bytes;
        self.charge_coding(asked.job, asked.of_server, asked.service, twice);
        let rpc = self.new_rpc(RpcKind::Write, asked, io, 0, target);
        self.rpcs[rpc].stage = Stage::Gathering;
        let parts = Self::parts_of_write(asked.piece.part, rows);
        self.spread(rpc, RpcKind::Read, &parts);
    }

    fn parts_of_write(part: u32, rows: Rows) -> Vec<u32> {
        std::iter::once(part).chain(rows.data..rows.data + rows.parity).collect()
    }

    fn charge_coding(
        &mut self,
        job: Option<crate::ids::JobId>,
        of_server: bool,
        service: u32,
        bytes: u64,
    ) {
        let cpu_ns = (self.services[service as usize].settled.coding_byte_ns * bytes as f64) as u64;
        if let (Some(job), false) = (job, of_server) {
            self.charge_job(job, cpu_ns);
        }
    }

    // ---- Reads without a server ----

    /// Read k other objects of a row in place of a request whose server cannot answer it. Return
    /// false, and change nothing, if fewer are left.
    pub(crate) fn reconstruct(&mut self, rpc: RpcId, in_channel: bool) -> bool {
        let r = self.rpcs[rpc];
        let Some(rows) = self.rows(r.service) else { return false };
        if r.kind != RpcKind::Read {
            return false;
        }
        let s = &self.services[r.service as usize];
        let f = &s.files[r.file as usize];
        let answers = |&part: &u32| {
            part != r.part && !s.suspected[self.part_target(r.service, f, part) as usize]
        };
        let parts: Vec<u32> =
            (0..rows.data + rows.parity).filter(answers).take(rows.data as usize).collect();
        if parts.len() < rows.data as usize {
            return false;
        }
        if in_channel {
            self.leave_channel(rpc);
        }
        self.services[r.service as usize].totals.outcome.degraded_reads += 1;
        self.charge_coding(r.job, false, r.service, r.bytes * u64::from(rows.data));
        self.rpcs[rpc].stage = Stage::Spreading;
        self.spread(rpc, RpcKind::Read, &parts);
        true
    }

    /// Return whether a request is a read of a server that clients consider down.
    pub(crate) fn is_lost(&self, rpc: RpcId) -> bool {
        let r = &self.rpcs[rpc];
        let s = &self.services[r.service as usize];
        s.parity > 0 && r.kind == RpcKind::Read && s.suspected[r.target as usize]
    }

    // ---- Requests for the parts of one ----

    /// Send a request for the same range of each part; the request `parent` waits for all.
    fn spread(&mut self, parent: RpcId, kind: RpcKind, parts: &[u32]) {
        let r = self.rpcs[parent];
        let mut children = Vec::with_capacity(parts.len());
        for &part in parts {
            let s = &self.services[r.service as usize];
            let f = &s.files[r.file as usize];
            let target = self.part_target(r.service, f, part);
            let mut bytes = r.bytes;
            if kind == RpcKind::Read {
                // The last row may be short; what is not there counts as zero.
                let held = match f.parts.get(part as usize) {
                    Some(&Some(instance)) => self.instances[instance].bytes,
                    _ => 0,
                };
                bytes = bytes.min(held.saturating_sub(r.offset));
            }
            if bytes > 0 {
                children.push((part, target, bytes));
            }
        }
        self.rpcs[parent].pending = children.len() as u8;
        if children.is_empty() {
            self.rpcs[parent].pending = 1;
            self.gathered(parent, false);
            return;
        }
        for (part, target, bytes) in children {
            let totals = &mut self.services[r.service as usize].totals.outcome;
            if kind == RpcKind::Read {
                totals.read_requests += 1;
                totals.read_bytes += bytes;
            } else {
                totals.write_requests += 1;
                totals.written_bytes += bytes;
            }
            self.counters.service_requests += 1;
            let stage = Stage::Arriving;
            let child = Rpc {
                kind,
                stage,
                part,
                target,
                bytes,
                sender: Sender::Gatherer(parent),
                pending: 1,
                thread: None,
                sent: self.now,
                synced: false,
                failed: false,
                unread: 0,
                ..r
            };
            let child = self.rpcs.insert(child);
            self.enqueue(child);
        }
    }

    /// Note that one of the parts that a request waits for is there, or is written.
    pub(crate) fn gathered(&mut self, parent: RpcId, failed: bool) {
        let r = &mut self.rpcs[parent];
        r.failed |= failed;
        r.pending -= 1;
        if r.pending > 0 {
            return;
        }
        let r = *r;
        if r.stage == Stage::Gathering && !r.failed {
            let Some(rows) = self.rows(r.service) else { return };
            self.rpcs[parent].stage = Stage::Spreading;
            let parts = Self::parts_of_write(r.part, rows);
            self.spread(parent, RpcKind::Write, &parts);
            return;
        }
        self.reply(parent);
    }
}
