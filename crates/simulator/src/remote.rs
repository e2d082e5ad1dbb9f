//! Requests to file services: from the client's need over the network to a server's threads, cores and drive, and back.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use headrace_model::pagecache::{PageCache, PAGE_BYTES};
use headrace_model::Nanos;

use crate::layout::{mixed, Layout, Piece, ServiceFile};
use crate::scenario::Commit;
use crate::storage::page_of;
use crate::world::{Event, Io, IoKind, OpKind, ServiceTotals, World, NONE};

/// Process numbers of server threads, as the schedulers under them see them: behind those of jobs.
pub(crate) const FIRST_SERVER_PROCESS: u32 = 4096;

/// A data server of a service.
#[derive(Debug)]
pub(crate) struct Target {
    pub host: u32,
    pub mount: u32,
    /// Threads that are free, and requests that wait for one.
    pub free_threads: Vec<u32>,
    pub waiting: VecDeque<u32>,
    pub stored_bytes: u64,
}

/// Requests that one client has on their way to one target.
#[derive(Debug, Default)]
pub(crate) struct Channel {
    pub in_flight: u32,
    pub waiting: VecDeque<u32>,
}

/// A file service at work.
#[derive(Debug)]
pub(crate) struct Service {
    pub settled: crate::scenario::SettledTuning,
    pub layout: Layout,
    pub targets: Vec<Target>,
    pub replicas: u32,
    pub files: Vec<ServiceFile>,
    pub free_files: Vec<u32>,
    pub made: u64,
    /// By client host x target.
    pub channels: Vec<Channel>,
    /// When each thread of each metadata server is free.
    pub metadata: Vec<BinaryHeap<Reverse<Nanos>>>,
    /// Requests that wait for a server to come back.
    pub parked: Vec<u32>,
    /// Targets that clients know to be down.
    pub suspected: Vec<bool>,
    pub totals: ServiceTotals,
}

impl Service {
    pub fn grow(&mut self, file: u32, bytes: u64) {
        let f = &mut self.files[file as usize];
        f.bytes = f.bytes.max(bytes);
    }

    pub fn new_file(&mut self, bytes: u64) -> u32 {
        let number = self.made;
        self.made += 1;
        let targets = self.targets.len() as u64;
        // A hash of the name (GlusterFS, XRootD's spread), or turns (striped files).
        let first = match self.layout {
            Layout::Striped { .. } => number % targets,
            _ => mixed(number) % targets,
        };
        let file = ServiceFile { bytes, first: first as u32, number, parts: Vec::new(), live: true };
        match self.free_files.pop() {
            Some(index) => {
                self.files[index as usize] = file;
                index
            }
            None => {
                self.files.push(file);
                (self.files.len() - 1) as u32
            }
        }
    }

    /// The largest write at `offset`, and the bytes that lie in a row there.
    pub fn write_piece(&self, _file: u32, offset: u64) -> (u64, u64) {
        (self.settled.write_request_bytes, self.layout.locate(offset, self.replicas).in_row)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RpcKind {
    Read,
    Write,
    /// What was written goes to the server's drive.
    Commit,
}

/// Where a request is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Data of a write leaves the client.
    Sending,
    /// On the way to the server.
    Arriving,
    /// On the server's cores, then on its volume.
    Working,
    Storing,
    /// Data of a read leaves the server.
    Returning,
    /// On the way back.
    Delivering,
    /// Waits until the client tries another server.
    TimedOut,
}

/// A request to a data server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rpc {
    pub kind: RpcKind,
    pub stage: Stage,
    pub service: u32,
    pub target: u32,
    /// Which replica of the part, counted from the part's first.
    pub part: u32,
    pub replica: u32,
    pub file: u32,
    pub client: u32,
    pub offset: u64,
    pub bytes: u64,
    /// The client's I/O that it is for; `NONE` when it comes from another server.
    pub io: u32,
    /// The request that forwarded this one.
    pub upstream: u32,
    /// What has to be done before the answer: own storage, and the next replica's.
    pub pending: u8,
    pub thread: u32,
    pub job: u32,
    pub sent: Nanos,
    pub synced: bool,
}

impl World<'_> {
    // ---- the client's side ---------------------------------------------------------------------------------

    /// Sends for the missing pages of an operation's window.
    pub fn submit_remote(&mut self, index: u32, service: u32) {
        let op = self.ops[index];
        let (mut from, to) = (op.submit_from, op.submit_to);
        self.ops[index].submit_from = to;
        let instance = &self.instances[op.instance];
        let (cache_file, file, file_bytes) = (instance.cache_file, instance.file, instance.bytes);
        let host = self.mounts[instance.mount as usize].host;
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
            let bytes = (u64::from(pages) * PAGE_BYTES).min(file_bytes.saturating_sub(offset)).max(1);
            let io = self.ios.insert(Io {
                kind: IoKind::Fill { extent: NONE },
                instance: op.instance,
                waiters: NONE,
            });
            let extent = self.hosts[host as usize].cache.start_reading(cache_file, from, pages, io);
            self.ios[io].kind = IoKind::Fill { extent };
            self.instances[op.instance].ios += 1;
            self.send_read(service, file, piece, bytes, host, io, op.job);
            from += pages;
        }
    }

    /// A read or write past the client's cache: all pieces at once, as far as the channels and the window allow. With
    /// write-behind a write is done when all of it is within the window, and closing the file waits for the rest.
    pub fn run_direct_remote(&mut self, index: u32, service: u32) -> bool {
        let op = self.ops[index];
        let instance = &self.instances[op.instance];
        let (file, host) = (instance.file, self.mounts[instance.mount as usize].host);
        let s = &self.services[service as usize];
        let write = op.kind == OpKind::DirectWrite;
        let behind = write && s.settled.write_behind;
        let (largest, window, replicas) = if write {
            (s.settled.write_request_bytes, s.settled.write_window_bytes, s.replicas)
        } else {
            (s.settled.read_request_bytes, u64::MAX, s.replicas)
        };
        if write && op.stage == 0 {
            self.grow(op.instance, op.offset + op.length);
        }
        self.ops[index].stage = 1;
        let (mut at, end) = (self.ops[index].offset, op.offset + op.length);
        while at < end {
            let piece = self.services[service as usize].layout.locate(at, replicas);
            let bytes = (end - at).min(largest).min(piece.in_row);
            let o = &self.ops[index];
            let copies =
                if write && !self.services[service as usize].settled.replica_pipeline { replicas } else { 1 };
            if behind {
                let under_way = self.instances[op.instance].behind_bytes;
                if under_way > 0 && under_way + bytes * u64::from(copies) > window * u64::from(copies) {
                    self.wait_for_window(index);
                    break;
                }
            // Replicated writes count once: the window is the caller's.
            } else if write && o.outstanding > 0 && u64::from(o.outstanding) * largest >= window.max(largest)
            {
                break;
            }
            for copy in 0..copies {
                let kind = if behind { IoKind::Behind { bytes } } else { IoKind::Through { op: index } };
                let io = self.ios.insert(Io { kind, instance: op.instance, waiters: NONE });
                self.instances[op.instance].ios += 1;
                if behind {
                    self.instances[op.instance].writes += 1;
                    self.instances[op.instance].behind_bytes += bytes;
                } else {
                    self.ops[index].outstanding += 1;
                }
                if write {
                    self.send_write_piece(service, file, piece, copy, bytes, host, io, op.job);
                } else {
                    self.send_read(service, file, piece, bytes, host, io, op.job);
                }
            }
            at += bytes;
        }
        let o = &mut self.ops[index];
        o.length = end - at;
        o.offset = at;
        at >= end && o.outstanding == 0
    }

    /// A write waits until more of the file's earlier writes are answered.
    fn wait_for_window(&mut self, index: u32) {
        let instance = self.ops[index].instance;
        let mut last = self.instances[instance].behind_waiter;
        if last == NONE {
            self.instances[instance].behind_waiter = index;
            return;
        }
        while self.ops[last].next != NONE {
            last = self.ops[last].next;
        }
        self.ops[last].next = index;
    }

    /// Asks the servers to bring what was written of a file to their drives, where the service does so. True when nobody
    /// has to be asked.
    pub(super) fn commit_remote(&mut self, index: u32, service: u32) -> bool {
        let op = self.ops[index];
        let s = &self.services[service as usize];
        let due = match s.settled.commit {
            Commit::Never => false,
            Commit::Sync => op.kind == OpKind::Sync,
            Commit::Close => true,
        };
        let instance = &mut self.instances[op.instance];
        if !due || !std::mem::take(&mut instance.uncommitted) {
            return true;
        }
        let (file, host) = (instance.file, self.mounts[instance.mount as usize].host);
        let parts = s.files[file as usize].parts.len() as u32;
        for part in 0..parts {
            let f = &self.services[service as usize].files[file as usize];
            if f.parts[part as usize] == NONE {
                continue;
            }
            let target = self.part_target(service, f, part);
            let kind = IoKind::Through { op: index };
            let io = self.ios.insert(Io { kind, instance: op.instance, waiters: NONE });
            self.instances[op.instance].ios += 1;
            self.ops[index].outstanding += 1;
            let rpc = Rpc {
                kind: RpcKind::Commit,
                stage: Stage::Arriving,
                service,
                target,
                part,
                replica: 0,
                file,
                client: host,
                offset: 0,
                bytes: 0,
                io,
                upstream: NONE,
                pending: 1,
                thread: NONE,
                job: op.job,
                sent: self.now,
                synced: false,
            };
            self.charge_client(service, op.job);
            let rpc = self.rpcs.insert(rpc);
            self.enqueue(rpc);
        }
        self.ops[index].outstanding == 0
    }

    /// A write that nobody waited for is answered.
    pub(super) fn behind_done(&mut self, instance: u32, bytes: u64) {
        let i = &mut self.instances[instance];
        i.ios -= 1;
        i.writes -= 1;
        i.behind_bytes -= bytes;
        i.uncommitted = true;
        let mut waiter = std::mem::replace(&mut i.behind_waiter, NONE);
        while waiter != NONE {
            let next = std::mem::replace(&mut self.ops[waiter].next, NONE);
            self.resume_op(waiter);
            waiter = next;
        }
        self.wake_syncs(instance);
        self.bury(instance);
    }

    /// Where a client on `host` reads a piece: the replica on its own host, or one of those that answer.
    pub(super) fn choose_replica(&self, service: u32, file: u32, piece: Piece, host: u32) -> u32 {
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
        let first = (mixed(u64::from(host) ^ f.number.rotate_left(20)) % u64::from(s.replicas)) as u32;
        let order = (0..s.replicas).map(|step| (first + step) % s.replicas);
        order.clone().find(|&r| !s.suspected[target(r) as usize]).unwrap_or(first)
    }

    pub(super) fn part_target(&self, service: u32, file: &ServiceFile, part: u32) -> u32 {
        let s = &self.services[service as usize];
        match file.parts.get(part as usize) {
            Some(&instance) if instance != NONE => {
                let mount = self.instances[instance].mount;
                s.targets.iter().position(|t| t.mount == mount).unwrap_or_default() as u32
            }
            _ => s.layout.target(file, part, s.replicas, s.targets.len() as u32, None),
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn send_read(
        &mut self,
        service: u32,
        file: u32,
        piece: Piece,
        bytes: u64,
        host: u32,
        io: u32,
        job: u32,
    ) {
        let replica = self.choose_replica(service, file, piece, host);
        let f = &self.services[service as usize].files[file as usize];
        let target = self.part_target(service, f, piece.part + replica);
        let rpc = Rpc {
            kind: RpcKind::Read,
            stage: Stage::Arriving,
            service,
            target,
            part: piece.part,
            replica,
            file,
            client: host,
            offset: piece.offset,
            bytes,
            io,
            upstream: NONE,
            pending: 1,
            thread: NONE,
            job,
            sent: self.now,
            synced: false,
        };
        let totals = &mut self.services[service as usize].totals.outcome;
        totals.read_requests += 1;
        totals.read_bytes += bytes;
        if job != NONE {
            self.jobs[job as usize].bytes.served_bytes += bytes;
        }
        self.charge_client(service, job);
        let rpc = self.rpcs.insert(rpc);
        self.enqueue(rpc);
    }

    /// Write-back of pages of a client's cache.
    pub fn send_write(&mut self, service: u32, instance: u32, page: u32, pages: u32, io: u32) {
        let i = &self.instances[instance];
        let (file, host, size) = (i.file, self.mounts[i.mount as usize].host, i.bytes);
        let offset = u64::from(page) * PAGE_BYTES;
        let bytes = (u64::from(pages) * PAGE_BYTES).min(size.saturating_sub(offset)).max(1);
        let s = &self.services[service as usize];
        let piece = s.layout.locate(offset, s.replicas);
        self.send_write_piece(service, file, piece, 0, bytes, host, io, NONE);
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) fn send_write_piece(
        &mut self,
        service: u32,
        file: u32,
        piece: Piece,
        replica: u32,
        bytes: u64,
        host: u32,
        io: u32,
        job: u32,
    ) {
        let s = &self.services[service as usize];
        let near = s.settled.local_reads.then(|| s.targets.iter().position(|t| t.host == host)).flatten();
        let f = &s.files[file as usize];
        let target = match f.parts.get((piece.part + replica) as usize) {
            Some(&instance) if instance != NONE => self.part_target(service, f, piece.part + replica),
            _ => {
                let near = near.map(|t| t as u32);
                s.layout.target(f, piece.part + replica, s.replicas, s.targets.len() as u32, near)
            }
        };
        let rpc = Rpc {
            kind: RpcKind::Write,
            stage: Stage::Sending,
            service,
            target,
            part: piece.part,
            replica,
            file,
            client: host,
            offset: piece.offset,
            bytes,
            io,
            upstream: NONE,
            pending: 1,
            thread: NONE,
            job,
            sent: self.now,
            synced: false,
        };
        let totals = &mut self.services[service as usize].totals.outcome;
        totals.write_requests += 1;
        totals.written_bytes += bytes;
        self.charge_client(service, job);
        let rpc = self.rpcs.insert(rpc);
        self.enqueue(rpc);
    }

    /// The client's CPU time for a request goes to the job that needs it.
    pub(super) fn charge_client(&mut self, service: u32, job: u32) {
        self.counters.service_requests += 1;
        if job != NONE {
            let cpu_ns = self.services[service as usize].settled.client_request_ns;
            self.charge_job(job, cpu_ns);
        }
    }

    pub(super) fn channel(&mut self, rpc: u32) -> &mut Channel {
        let r = self.rpcs[rpc];
        let s = &mut self.services[r.service as usize];
        let index = r.client as usize * s.targets.len() + r.target as usize;
        if index >= s.channels.len() {
            s.channels.resize_with(index + 1, Channel::default);
        }
        &mut s.channels[index]
    }

    /// A client's request waits for a slot of its channel. A server that passes a replica on does not: each pipeline is a
    /// connection and a thread of its own, and a bound shared among pipelines that cross would let them wait for each other.
    pub(super) fn enqueue(&mut self, rpc: u32) {
        if self.rpcs[rpc].upstream != NONE {
            self.depart(rpc);
            return;
        }
        let limit = self.services[self.rpcs[rpc].service as usize].settled.requests_in_flight;
        let channel = self.channel(rpc);
        if channel.in_flight >= limit {
            channel.waiting.push_back(rpc);
        } else {
            channel.in_flight += 1;
            self.depart(rpc);
        }
    }

    pub(super) fn leave_channel(&mut self, rpc: u32) {
        if self.rpcs[rpc].upstream != NONE {
            return;
        }
        let channel = self.channel(rpc);
        channel.in_flight -= 1;
        if let Some(next) = channel.waiting.pop_front() {
            channel.in_flight += 1;
            self.depart(next);
        }
    }

    /// One way between two hosts.
    pub(super) fn latency(&self, from: u32, to: u32) -> u64 {
        if from == to {
            // Loopback.
            10_000
        } else {
            self.hosts[from as usize].latency_ns + self.hosts[to as usize].latency_ns
        }
    }

    pub(super) fn depart(&mut self, rpc: u32) {
        let r = self.rpcs[rpc];
        let server = self.services[r.service as usize].targets[r.target as usize].host;
        if r.kind == RpcKind::Write && server != r.client {
            self.rpcs[rpc].stage = Stage::Sending;
            self.start_flow(r.client, server, r.bytes, rpc);
            return;
        }
        self.travel(rpc);
    }

    pub(super) fn travel(&mut self, rpc: u32) {
        let r = self.rpcs[rpc];
        let s = &self.services[r.service as usize];
        let delay = self.latency(r.client, s.targets[r.target as usize].host) + s.settled.client_delay_ns;
        self.rpcs[rpc].stage = Stage::Arriving;
        self.events.schedule(self.now + delay, 1, Event::Rpc(rpc));
    }

    /// The data of a request has left its sender.
    pub fn rpc_sent(&mut self, rpc: u32) {
        match self.rpcs[rpc].stage {
            Stage::Sending => self.travel(rpc),
            _ => self.deliver_later(rpc),
        }
    }

    pub(super) fn deliver_later(&mut self, rpc: u32) {
        let r = self.rpcs[rpc];
        let server = self.services[r.service as usize].targets[r.target as usize].host;
        self.rpcs[rpc].stage = Stage::Delivering;
        let time = self.now + self.latency(server, r.client);
        self.events.schedule(time, 1, Event::Rpc(rpc));
    }

    /// A request has arrived at its next stage.
    pub fn rpc_stage(&mut self, rpc: u32) {
        match self.rpcs[rpc].stage {
            Stage::Arriving => self.arrive(rpc),
            Stage::Delivering => self.delivered(rpc),
            Stage::TimedOut => self.try_again(rpc),
            stage => unreachable!("no event is scheduled for {stage:?}"),
        }
    }
}
