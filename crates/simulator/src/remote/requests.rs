//! Turns reads and writes of a client into requests, each to the server that stores the piece, or
//! to one of its replicas.

use headrace_model::pagecache::PAGE_BYTES;

use super::{Rpc, RpcKind, Sender, Stage};
use crate::ids::{InstanceId, IoId, JobId, RpcId};
use crate::layout::{mixed, Piece, ServiceFile};
use crate::world::World;

/// A client's request to a service, and the job that it belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Asked {
    pub service: u32,
    pub file: u32,
    pub piece: Piece,
    pub bytes: u64,
    pub client: u32,
    /// A file server of the client's host sends it, not a process.
    pub of_server: bool,
    pub job: Option<JobId>,
}

impl World<'_> {
    /// Send write-back of pages of a client's cache.
    pub fn send_write(
        &mut self,
        service: u32,
        instance: InstanceId,
        page: u32,
        pages: u32,
        io: IoId,
    ) {
        let i = &self.instances[instance];
        let mount = &self.mounts[i.mount as usize];
        let (file, host, of_server, size) = (i.file(), mount.host, mount.of_server, i.bytes);
        let offset = u64::from(page) * PAGE_BYTES;
        let bytes = (u64::from(pages) * PAGE_BYTES).min(size.saturating_sub(offset)).max(1);
        let s = &self.services[service as usize];
        let piece = s.layout.locate(offset, s.replicas);
        let asked = Asked { service, file, piece, bytes, client: host, of_server, job: None };
        self.send_write_piece(asked, io, 0);
    }

    pub(super) fn send_read(&mut self, asked: Asked, io: IoId) {
        let (replica, target) = self.count_read(asked);
        self.send(RpcKind::Read, asked, io, replica, target);
    }

    /// Choose the replica and the server of a read, and count the request.
    pub(crate) fn count_read(&mut self, asked: Asked) -> (u32, u32) {
        let Asked { service, piece, bytes, of_server, job, .. } = asked;
        let replica = self.choose_replica(service, asked.file, piece, asked.client);
        let f = &self.services[service as usize].files[asked.file as usize];
        let target = self.part_target(service, f, piece.part + replica);
        let totals = &mut self.services[service as usize].totals.outcome;
        totals.read_requests += 1;
        totals.read_bytes += bytes;
        // Counted where the job receives them, not between servers.
        if let (Some(job), false) = (job, of_server) {
            self.jobs[job.index()].bytes.served_bytes += bytes;
        }
        (replica, target)
    }

    pub(super) fn send_write_piece(&mut self, asked: Asked, io: IoId, replica: u32) {
        let Asked { service, piece, client, .. } = asked;
        let s = &self.services[service as usize];
        let near = s
            .settled
            .local_reads
            .then(|| s.targets.iter().position(|t| t.host == client))
            .flatten();
        let f = &s.files[asked.file as usize];
        let target = match f.parts.get((piece.part + replica) as usize) {
            Some(Some(_)) => self.part_target(service, f, piece.part + replica),
            _ => {
                let near = near.map(|t| t as u32);
                s.layout.target(f, piece.part + replica, s.replicas, s.targets.len() as u32, near)
            }
        };
        let totals = &mut self.services[service as usize].totals.outcome;
        totals.write_requests += 1;
        totals.written_bytes += asked.bytes;
        self.send(RpcKind::Write, asked, io, replica, target);
    }

    /// Send a client's request to a data server. Its CPU time is charged to the job, or used on the
    /// cores of the file server that sends it.
    pub(super) fn send(
        &mut self,
        kind: RpcKind,
        asked: Asked,
        io: IoId,
        replica: u32,
        target: u32,
    ) {
        let rpc = self.new_rpc(kind, asked, io, replica, target);
        self.send_rpc(rpc, asked);
    }

    /// Send a request that was made.
    pub(crate) fn send_rpc(&mut self, rpc: RpcId, asked: Asked) {
        self.counters.service_requests += 1;
        let Asked { service, client, of_server, job, .. } = asked;
        self.start_system_work(client, self.hosts[client as usize].beside_request_ns);
        let cpu_ns = self.services[service as usize].settled.client_request_ns;
        if of_server && cpu_ns > 0 {
            self.rpcs[rpc].stage = Stage::Calling;
            self.start_rpc_work(client, rpc, cpu_ns);
            return;
        }
        if let (Some(job), false) = (job, of_server) {
            self.charge_job(job, cpu_ns);
        }
        self.enqueue(rpc);
    }

    /// Create a client's request.
    pub(crate) fn new_rpc(
        &mut self,
        kind: RpcKind,
        asked: Asked,
        io: IoId,
        replica: u32,
        target: u32,
    ) -> RpcId {
        let Asked { service, file, piece, bytes, client, job, .. } = asked;
        self.rpcs.insert(Rpc {
            kind,
            stage: Stage::Arriving,
            service,
            target,
            part: piece.part,
            replica,
            file,
            client,
            offset: piece.offset,
            bytes,
            sender: Sender::Client(io),
            pending: 1,
            thread: None,
            job,
            sent: self.now,
            synced: false,
            failed: false,
            unread: 0,
            vector: None,
        })
    }

    /// Return the replica of a piece that a client on `host` reads: the one on its own host, else
    /// one whose server responds.
    fn choose_replica(&self, service: u32, file: u32, piece: Piece, host: u32) -> u32 {
        let s = &self.services[service as usize];
        if s.replicas == 1 {
            return 0;
        }
        let f = &s.files[file as usize];
        let target = |replica: u32| self.part_target(service, f, piece.part + replica);
        if s.settled.local_reads {
            let own = (0..s.replicas).find(|&r| s.targets[target(r) as usize].host == host);
            if let Some(own) = own.filter(|&r| !s.suspected[target(r) as usize]) {
                return own;
            }
        }
        let first = if s.primary_reads {
            0
        } else {
            (mixed(u64::from(host) ^ f.number.rotate_left(20)) % u64::from(s.replicas)) as u32
        };
        let order = (0..s.replicas).map(|step| (first + step) % s.replicas);
        order.clone().find(|&r| !s.suspected[target(r) as usize]).unwrap_or(first)
    }

    pub(crate) fn part_target(&self, service: u32, file: &ServiceFile, part: u32) -> u32 {
        let s = &self.services[service as usize];
        match file.parts.get(part as usize) {
            Some(&Some(instance)) => {
                let mount = self.instances[instance].mount;
                s.targets.iter().position(|t| t.mount == mount).unwrap_or_default() as u32
            }
            _ => s.layout.target(file, part, s.replicas, s.targets.len() as u32, None),
        }
    }
}
