//! Requests to file services: from the client's need over the network to a server's threads, cores and drive, and back.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use headrace_model::pagecache::{PageCache, PAGE_BYTES};
use headrace_model::Nanos;

use crate::layout::{mixed, Layout, Piece, ServiceFile};
use crate::storage::{page_of, Wanted};
use crate::world::{Event, Io, IoKind, Op, OpKind, Parent, ServiceTotals, World, NONE};

/// Bytes of a request or answer without data. They are not simulated as flows: their time is the latency.
const FIRST_SERVER_PROCESS: u32 = 4096;

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

    /// A read or write past the client's cache: all pieces at once, as far as the channels and the window allow.
    pub fn run_direct_remote(&mut self, index: u32, service: u32) -> bool {
        let op = self.ops[index];
        let instance = &self.instances[op.instance];
        let (file, host) = (instance.file, self.mounts[instance.mount as usize].host);
        let s = &self.services[service as usize];
        let write = op.kind == OpKind::DirectWrite;
        let (largest, window, replicas) = if write {
            (s.settled.write_request_bytes, s.settled.write_window_bytes, s.replicas)
        } else {
            (s.settled.read_request_bytes, u64::MAX, s.replicas)
        };
        if write && op.stage == 0 {
            self.ops[index].stage = 1;
            self.grow(op.instance, op.offset + op.length);
        }
        let (mut at, end) = (self.ops[index].offset, op.offset + op.length);
        while at < end {
            let o = &self.ops[index];
            // Replicated writes count once: the window is the caller's.
            let under_way = u64::from(o.outstanding) * largest;
            if write && o.outstanding > 0 && under_way >= window.max(largest) {
                break;
            }
            let piece = self.services[service as usize].layout.locate(at, replicas);
            let bytes = (end - at).min(largest).min(piece.in_row);
            let kind = IoKind::Through { op: index };
            let copies =
                if write && !self.services[service as usize].settled.replica_pipeline { replicas } else { 1 };
            for copy in 0..copies {
                let io = self.ios.insert(Io { kind, instance: op.instance, waiters: NONE });
                self.instances[op.instance].ios += 1;
                self.ops[index].outstanding += 1;
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

    /// Where a client on `host` reads a piece: the replica on its own host, or one of those that answer.
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
        let first = (mixed(u64::from(host) ^ f.number.rotate_left(20)) % u64::from(s.replicas)) as u32;
        let order = (0..s.replicas).map(|step| (first + step) % s.replicas);
        order.clone().find(|&r| !s.suspected[target(r) as usize]).unwrap_or(first)
    }

    fn part_target(&self, service: u32, file: &ServiceFile, part: u32) -> u32 {
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
    fn send_read(&mut self, service: u32, file: u32, piece: Piece, bytes: u64, host: u32, io: u32, job: u32) {
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
    fn send_write_piece(
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
    fn charge_client(&mut self, service: u32, job: u32) {
        self.counters.service_requests += 1;
        if job != NONE {
            let cpu_ns = self.services[service as usize].settled.client_request_ns;
            self.charge_job(job, cpu_ns);
        }
    }

    fn channel(&mut self, rpc: u32) -> &mut Channel {
        let r = self.rpcs[rpc];
        let s = &mut self.services[r.service as usize];
        let index = r.client as usize * s.targets.len() + r.target as usize;
        if index >= s.channels.len() {
            s.channels.resize_with(index + 1, Channel::default);
        }
        &mut s.channels[index]
    }

    fn enqueue(&mut self, rpc: u32) {
        let limit = self.services[self.rpcs[rpc].service as usize].settled.requests_in_flight;
        let channel = self.channel(rpc);
        if channel.in_flight >= limit {
            channel.waiting.push_back(rpc);
        } else {
            channel.in_flight += 1;
            self.depart(rpc);
        }
    }

    fn leave_channel(&mut self, rpc: u32) {
        let channel = self.channel(rpc);
        channel.in_flight -= 1;
        if let Some(next) = channel.waiting.pop_front() {
            channel.in_flight += 1;
            self.depart(next);
        }
    }

    /// One way between two hosts.
    fn latency(&self, from: u32, to: u32) -> u64 {
        if from == to {
            // Loopback.
            10_000
        } else {
            self.hosts[from as usize].latency_ns + self.hosts[to as usize].latency_ns
        }
    }

    fn depart(&mut self, rpc: u32) {
        let r = self.rpcs[rpc];
        let server = self.services[r.service as usize].targets[r.target as usize].host;
        if r.kind == RpcKind::Write && server != r.client {
            self.rpcs[rpc].stage = Stage::Sending;
            self.start_flow(r.client, server, r.bytes, rpc);
            return;
        }
        self.travel(rpc);
    }

    fn travel(&mut self, rpc: u32) {
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

    fn deliver_later(&mut self, rpc: u32) {
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

    // ---- the server's side ---------------------------------------------------------------------------------

    fn arrive(&mut self, rpc: u32) {
        let r = self.rpcs[rpc];
        let s = &mut self.services[r.service as usize];
        let host = s.targets[r.target as usize].host;
        if self.hosts[host as usize].down {
            // No answer: after a while the client knows.
            self.rpcs[rpc].stage = Stage::TimedOut;
            s.totals.outcome.failed_over += 1;
            let wait = if s.suspected[r.target as usize] { 0 } else { s.settled.timeout_ns };
            self.events.schedule(self.now + wait, 1, Event::Rpc(rpc));
            return;
        }
        let target = &mut s.targets[r.target as usize];
        match target.free_threads.pop() {
            Some(thread) => self.serve(rpc, thread),
            None => target.waiting.push_back(rpc),
        }
    }

    fn try_again(&mut self, rpc: u32) {
        let r = self.rpcs[rpc];
        let s = &mut self.services[r.service as usize];
        let host = s.targets[r.target as usize].host;
        if !self.hosts[host as usize].down {
            self.rpcs[rpc].stage = Stage::Arriving;
            self.arrive(rpc);
            return;
        }
        s.suspected[r.target as usize] = true;
        let replicas = s.replicas;
        let f = &self.services[r.service as usize].files[r.file as usize];
        let other = (1..replicas)
            .map(|step| (r.replica + step) % replicas)
            .find(|&replica| {
                let target = self.part_target(r.service, f, r.part + replica);
                !self.services[r.service as usize].suspected[target as usize]
            })
            .map(|replica| (replica, self.part_target(r.service, f, r.part + replica)));
        match (r.kind, other) {
            (RpcKind::Read, Some((replica, target))) => {
                self.leave_channel(rpc);
                let r = &mut self.rpcs[rpc];
                r.replica = replica;
                r.target = target;
                r.stage = Stage::Arriving;
                self.enqueue(rpc);
            }
            // One copy less: what remains is written, the rest is the service's to heal.
            (RpcKind::Write, Some(_)) => {
                self.rpcs[rpc].pending = 1;
                self.deliver_later(rpc);
            }
            (_, None) => self.services[r.service as usize].parked.push(rpc),
        }
    }

    /// A server is back: requests that waited for it go there again.
    pub fn unpark(&mut self, host: u32) {
        for service in 0..self.services.len() {
            let s = &mut self.services[service];
            for (target, suspected) in s.targets.iter().zip(&mut s.suspected) {
                if target.host == host {
                    *suspected = false;
                }
            }
            let targets = &s.targets;
            let rpcs = &self.rpcs;
            let (back, stay): (Vec<u32>, Vec<u32>) =
                s.parked.iter().partition(|&&rpc| targets[rpcs[rpc].target as usize].host == host);
            s.parked = stay;
            for rpc in back {
                self.rpcs[rpc].stage = Stage::Arriving;
                self.arrive(rpc);
            }
        }
    }

    fn serve(&mut self, rpc: u32, thread: u32) {
        self.rpcs[rpc].thread = thread;
        self.rpcs[rpc].stage = Stage::Working;
        let r = self.rpcs[rpc];
        let s = &self.services[r.service as usize];
        let host = s.targets[r.target as usize].host;
        let cpu_ns = s.settled.server_request_ns + (s.settled.server_byte_ns * r.bytes as f64) as u64;
        let pipeline = r.kind == RpcKind::Write && s.settled.replica_pipeline && r.replica + 1 < s.replicas;
        if pipeline {
            self.forward(rpc, host);
        }
        if cpu_ns > 0 {
            self.start_rpc_work(host, rpc, cpu_ns);
        } else {
            self.rpc_worked(rpc);
        }
    }

    /// The next replica gets the data while this one stores it.
    fn forward(&mut self, rpc: u32, host: u32) {
        let r = self.rpcs[rpc];
        let s = &self.services[r.service as usize];
        let f = &s.files[r.file as usize];
        let part = r.part + r.replica + 1;
        let target = match f.parts.get(part as usize) {
            Some(&instance) if instance != NONE => self.part_target(r.service, f, part),
            _ => {
                // Replicas follow the first, wherever the writer put it.
                let first = (r.target + s.targets.len() as u32 - r.replica) % s.targets.len() as u32;
                s.layout.target(f, part, s.replicas, s.targets.len() as u32, Some(first))
            }
        };
        self.rpcs[rpc].pending += 1;
        let next = Rpc {
            stage: Stage::Sending,
            target,
            replica: r.replica + 1,
            client: host,
            io: NONE,
            upstream: rpc,
            pending: 1,
            thread: NONE,
            job: NONE,
            sent: self.now,
            ..r
        };
        let next = self.rpcs.insert(next);
        self.enqueue(next);
    }

    /// The server's work for a request is done: now its volume.
    pub fn rpc_worked(&mut self, rpc: u32) {
        self.rpcs[rpc].stage = Stage::Storing;
        let r = self.rpcs[rpc];
        let instance = self.part_instance(r.service, r.file, r.part + r.replica, r.target);
        let cached = self.services[r.service as usize].settled.server_cache;
        let kind = match (r.kind, cached) {
            (RpcKind::Read, true) => OpKind::Read,
            (RpcKind::Read, false) => OpKind::DirectRead,
            (RpcKind::Write, true) => OpKind::Write,
            (RpcKind::Write, false) => OpKind::DirectWrite,
        };
        let wanted = Wanted {
            kind,
            parent: Parent::Rpc(rpc),
            instance,
            process: FIRST_SERVER_PROCESS + r.thread,
            job: r.job,
            offset: r.offset,
            length: r.bytes,
            mapped: false,
            read_ahead: self.instances[instance].read_ahead,
        };
        if let Err(op) = self.start_op(wanted) {
            self.stored(rpc, &op);
        }
    }

    /// The server's volume has done its part.
    pub fn stored(&mut self, rpc: u32, op: &Op) {
        let r = self.rpcs[rpc];
        if op.kind == OpKind::Read {
            self.instances[op.instance].read_ahead = op.read_ahead;
        }
        let sync = self.services[r.service as usize].settled.server_sync;
        if op.kind == OpKind::Write && sync && !r.synced {
            self.rpcs[rpc].synced = true;
            let wanted = Wanted {
                kind: OpKind::Sync,
                parent: Parent::Rpc(rpc),
                instance: op.instance,
                process: op.process,
                job: NONE,
                offset: 0,
                length: 0,
                mapped: false,
                read_ahead: op.read_ahead,
            };
            if self.start_op(wanted).is_ok() {
                return;
            }
        }
        // The thread is free for the next request; what is left is the network's.
        let target = &mut self.services[r.service as usize].targets[r.target as usize];
        let next = target.waiting.pop_front();
        match next {
            Some(next) => self.serve(next, r.thread),
            None => target.free_threads.push(r.thread),
        }
        self.part_done(rpc);
    }

    /// One of the things that the answer waits for is done.
    fn part_done(&mut self, rpc: u32) {
        let r = &mut self.rpcs[rpc];
        r.pending -= 1;
        if r.pending > 0 {
            return;
        }
        let r = *r;
        let server = self.services[r.service as usize].targets[r.target as usize].host;
        if r.kind == RpcKind::Read && server != r.client {
            self.rpcs[rpc].stage = Stage::Returning;
            self.start_flow(server, r.client, r.bytes, rpc);
        } else {
            self.deliver_later(rpc);
        }
    }

    fn delivered(&mut self, rpc: u32) {
        let r = self.rpcs[rpc];
        self.leave_channel(rpc);
        self.rpcs.remove(rpc);
        if r.upstream != NONE {
            self.part_done(r.upstream);
            return;
        }
        self.services[r.service as usize].totals.latency.add(self.now - r.sent);
        self.io_done(r.io, false);
    }

    // ---- files on servers ----------------------------------------------------------------------------------

    /// The instance on a server of a part of a file; made when there is none yet.
    fn part_instance(&mut self, service: u32, file: u32, part: u32, target: u32) -> u32 {
        let f = &mut self.services[service as usize].files[file as usize];
        if f.parts.len() <= part as usize {
            f.parts.resize(part as usize + 1, NONE);
        }
        if f.parts[part as usize] != NONE {
            return f.parts[part as usize];
        }
        let instance = self.new_part(service, target, 0);
        self.services[service as usize].files[file as usize].parts[part as usize] = instance;
        instance
    }

    fn new_part(&mut self, service: u32, target: u32, bytes: u64) -> u32 {
        let mount = self.services[service as usize].targets[target as usize].mount;
        let crate::world::Backend::Volume(volume) = self.mounts[mount as usize].backend else {
            unreachable!("a target lies on a volume")
        };
        let fs = &mut self.volumes[volume as usize].fs;
        let file = if bytes > 0 {
            match fs.create_filled(bytes) {
                Ok(file) => file,
                Err(_) => {
                    self.counters.out_of_space += 1;
                    self.volumes[volume as usize].fs.create()
                }
            }
        } else {
            fs.create()
        };
        self.services[service as usize].targets[target as usize].stored_bytes += bytes;
        self.new_instance(mount, file, bytes)
    }

    /// A file that was in the service before the run.
    pub fn place_service_file(&mut self, service: u32, bytes: u64) -> u32 {
        let file = self.services[service as usize].new_file(bytes);
        let s = &self.services[service as usize];
        let (layout, replicas, targets) = (s.layout, s.replicas, s.targets.len() as u32);
        let parts: Vec<u64> = match layout {
            Layout::Whole => vec![bytes; replicas as usize],
            Layout::Striped { stripe_bytes, targets } => {
                let stripes = bytes.div_ceil(stripe_bytes);
                let n = u64::from(targets);
                (0..n).map(|t| ((stripes + n - 1 - t) / n) * stripe_bytes).map(|b| b.min(bytes)).collect()
            }
            Layout::Blocks { block_bytes } => {
                let blocks = bytes.div_ceil(block_bytes);
                (0..blocks)
                    .flat_map(|b| vec![block_bytes.min(bytes - b * block_bytes); replicas as usize])
                    .collect()
            }
        };
        for (part, bytes) in parts.into_iter().enumerate() {
            let f = &self.services[service as usize].files[file as usize];
            let target = layout.target(f, part as u32, replicas, targets, None);
            let instance = if bytes > 0 { self.new_part(service, target, bytes) } else { NONE };
            self.services[service as usize].files[file as usize].parts.push(instance);
        }
        file
    }

    pub fn delete_remote(&mut self, service: u32, file: u32) {
        let f = &mut self.services[service as usize].files[file as usize];
        f.live = false;
        let parts = std::mem::take(&mut f.parts);
        self.services[service as usize].free_files.push(file);
        for instance in parts.into_iter().filter(|&instance| instance != NONE) {
            self.doom(instance);
        }
    }

    // ---- metadata ------------------------------------------------------------------------------------------

    /// When the answer to a metadata operation is back with a client.
    pub fn metadata_answer(
        &mut self,
        service: u32,
        file: u32,
        client: u32,
        changes: bool,
        round_trips: u32,
    ) -> Nanos {
        let s = &self.services[service as usize];
        let server = s.targets[0].host;
        let way = self.latency(client, server) + s.settled.client_delay_ns;
        let s = &mut self.services[service as usize];
        s.totals.outcome.metadata_requests += u64::from(round_trips);
        let servers = s.metadata.len() as u64;
        let number = s.files.get(file as usize).map_or(u64::from(file), |f| f.number);
        let heap = &mut s.metadata[(mixed(number) % servers) as usize];
        let service_ns = if changes { s.settled.metadata_write_ns } else { s.settled.metadata_read_ns };
        let mut time = self.now;
        for _ in 0..round_trips.max(1) {
            let Reverse(free) = heap.pop().unwrap_or(Reverse(0));
            let done = free.max(time + way) + service_ns;
            heap.push(Reverse(done));
            time = done + way;
        }
        self.counters.service_requests += u64::from(round_trips);
        time
    }

    /// The instance through which a mount's host sees a file of a service.
    pub fn client_instance(&mut self, mount: u32, service: u32, file: u32) -> u32 {
        if let Some(&instance) = self.client_instances.get(&(mount, file)) {
            return instance;
        }
        let bytes = self.services[service as usize].files[file as usize].bytes;
        let instance = self.new_instance(mount, file, bytes);
        self.client_instances.insert((mount, file), instance);
        instance
    }
}
