//! Requests at a data server: a thread, the server's cores and volume, and the next replica.

use crate::ids::{InstanceId, RpcId, ThreadId};
use crate::storage::{Started, Wanted};
use crate::world::{Event, Op, OpKind, Parent, World};

use crate::remote::*;

impl World<'_> {
    pub(super) fn arrive(&mut self, rpc: RpcId) {
        let r = self.rpcs[rpc];
        let s = &mut self.services[r.service as usize];
        let host = s.targets[r.target as usize].host;
        if self.hosts[host as usize].down {
            // No reply: the client notices after the timeout.
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

    pub(super) fn try_again(&mut self, rpc: RpcId) {
        let r = self.rpcs[rpc];
        let s = &mut self.services[r.service as usize];
        let host = s.targets[r.target as usize].host;
        if !self.hosts[host as usize].down {
            self.rpcs[rpc].stage = Stage::Arriving;
            self.arrive(rpc);
            return;
        }
        s.suspected[r.target as usize] = true;
        if self.reconstruct(rpc, true) {
            return;
        }
        let s = &self.services[r.service as usize];
        let coded = s.parity > 0;
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
            // One replica is missing: report the write as done; repairing the replica is left to
            // the service.
            (RpcKind::Write | RpcKind::Commit, other) if coded || other.is_some() => {
                self.rpcs[rpc].pending = 1;
                self.deliver_later(rpc);
            }
            _ => self.services[r.service as usize].parked.push(rpc),
        }
    }

    /// Resend the requests that waited for a server that is up again.
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
            let (back, stay): (Vec<RpcId>, Vec<RpcId>) =
                s.parked.iter().partition(|&&rpc| targets[rpcs[rpc].target as usize].host == host);
            s.parked = stay;
            for rpc in back {
                self.rpcs[rpc].stage = Stage::Arriving;
                self.arrive(rpc);
            }
        }
    }

    pub(super) fn serve(&mut self, rpc: RpcId, thread: ThreadId) {
        self.rpcs[rpc].thread = Some(thread);
        self.rpcs[rpc].stage = Stage::Working;
        let r = self.rpcs[rpc];
        let s = &self.services[r.service as usize];
        let host = s.targets[r.target as usize].host;
        let cpu_ns = match r.kind {
            RpcKind::Lookup => s.settled.metadata_read_ns,
            RpcKind::Change => s.settled.metadata_write_ns,
            _ => s.settled.server_request_ns + (s.settled.server_byte_ns * r.bytes as f64) as u64,
        };
        let pipeline =
            r.kind == RpcKind::Write && s.settled.replica_pipeline && r.replica + 1 < s.replicas;
        if pipeline {
            self.forward(rpc, host);
        }
        if cpu_ns > 0 {
            self.start_rpc_work(host, rpc, cpu_ns);
        } else {
            self.rpc_worked(rpc);
        }
    }

    /// Send the data to the next replica while this server stores it.
    pub(super) fn forward(&mut self, rpc: RpcId, host: u32) {
        let r = self.rpcs[rpc];
        let s = &self.services[r.service as usize];
        let f = &s.files[r.file as usize];
        let part = r.part + r.replica + 1;
        let target = match f.parts.get(part as usize) {
            Some(Some(_)) => self.part_target(r.service, f, part),
            _ => {
                // Replicas are placed after the first one, wherever the writer placed that.
                let first =
                    (r.target + s.targets.len() as u32 - r.replica) % s.targets.len() as u32;
                s.layout.target(f, part, s.replicas, s.targets.len() as u32, Some(first))
            }
        };
        self.rpcs[rpc].pending += 1;
        let next = Rpc {
            stage: Stage::Sending,
            target,
            replica: r.replica + 1,
            client: host,
            sender: Sender::Forwarder(rpc),
            pending: 1,
            thread: None,
            job: None,
            sent: self.now,
            failed: false,
            ..r
        };
        let next = self.rpcs.insert(next);
        self.enqueue(next);
    }

    /// Continue after the CPU work of a request: at a server that sends it, or at its data server
    /// with the server's cache, volume or upstream.
    pub fn rpc_worked(&mut self, rpc: RpcId) {
        if self.rpcs[rpc].stage == Stage::Calling {
            self.rpcs[rpc].stage = Stage::Arriving;
            self.enqueue(rpc);
            return;
        }
        self.rpcs[rpc].stage = Stage::Storing;
        if self.rpcs[rpc].vector.is_some() {
            self.done_storing(rpc);
            return;
        }
        if self.services[self.rpcs[rpc].service as usize].upstream.is_some() {
            self.count_cached(rpc);
        }
        self.store_request(rpc);
    }

    /// Read or write the data of a request.
    pub(super) fn store_request(&mut self, rpc: RpcId) {
        let r = self.rpcs[rpc];
        if matches!(r.kind, RpcKind::Lookup | RpcKind::Change) {
            self.store_metadata(rpc);
            return;
        }
        if self.services[r.service as usize].upstream.is_some() && self.served_from_cache(rpc) {
            return;
        }
        let instance = self.part_instance(r.service, r.file, r.part + r.replica, r.target);
        self.store(rpc, instance);
    }

    /// Read or write the data of a request in a file of the server.
    pub(super) fn store(&mut self, rpc: RpcId, instance: InstanceId) {
        let r = self.rpcs[rpc];
        let thread = r.thread.expect("a request is stored by the thread that serves it");
        let cached = self.services[r.service as usize].settled.server_cache;
        let kind = match (r.kind, cached) {
            (RpcKind::Commit, _) => OpKind::Sync,
            (RpcKind::Lookup | RpcKind::Change, _) => unreachable!("an inode, not a file's data"),
            (RpcKind::Read, true) => OpKind::Read,
            (RpcKind::Read, false) => OpKind::DirectRead,
            (RpcKind::Write, true) => OpKind::Write,
            (RpcKind::Write, false) => OpKind::DirectWrite,
        };
        let wanted = Wanted {
            kind,
            parent: Parent::Rpc(rpc),
            instance,
            process: FIRST_SERVER_PROCESS + thread.number(),
            job: r.job,
            offset: r.offset,
            length: r.bytes,
            mapped: false,
            read_ahead: self.instances[instance].read_ahead,
        };
        if r.kind == RpcKind::Read {
            let mounted = self.mounts[self.instances[instance].mount as usize].mounted;
            self.note_access(instance, mounted);
        }
        if let Started::Done(op) = self.start_op(wanted) {
            self.stored(rpc, &op);
        }
    }

    /// Continue after the server completed the operation of a request.
    pub fn stored(&mut self, rpc: RpcId, op: &Op) {
        let r = self.rpcs[rpc];
        self.rpcs[rpc].failed |= op.failed;
        if op.kind == OpKind::Read {
            self.instances[op.instance].read_ahead = op.read_ahead;
        }
        let sync = self.services[r.service as usize].settled.server_sync;
        if r.kind == RpcKind::Change && sync && !r.synced {
            self.sync_metadata(rpc);
            return;
        }
        if op.kind == OpKind::Write && sync && !r.synced {
            self.rpcs[rpc].synced = true;
            let wanted = Wanted {
                kind: OpKind::Sync,
                parent: Parent::Rpc(rpc),
                instance: op.instance,
                process: op.process,
                job: None,
                offset: 0,
                length: 0,
                mapped: false,
                read_ahead: op.read_ahead,
            };
            if let Started::Waits = self.start_op(wanted) {
                return;
            }
        }
        self.done_storing(rpc);
    }

    /// Read the next range of a vectored read. After the last one, free the thread for the next
    /// request; only the network transfer remains.
    pub(super) fn done_storing(&mut self, rpc: RpcId) {
        if self.store_next_range(rpc) {
            return;
        }
        let r = self.rpcs[rpc];
        let target = &mut self.services[r.service as usize].targets[r.target as usize];
        if let Some(thread) = r.thread {
            match target.waiting.pop_front() {
                Some(next) => self.serve(next, thread),
                None => target.free_threads.push(thread),
            }
        }
        self.part_done(rpc);
    }

    /// Complete one of the operations that the reply waits for.
    pub(super) fn part_done(&mut self, rpc: RpcId) {
        let r = &mut self.rpcs[rpc];
        r.pending -= 1;
        if r.pending > 0 {
            return;
        }
        let r = *r;
        let server = self.services[r.service as usize].targets[r.target as usize].host;
        // A reply that reports an error has no data.
        if r.kind == RpcKind::Read && server != r.client && !r.failed {
            self.rpcs[rpc].stage = Stage::Returning;
            self.start_flow(server, r.client, r.bytes, rpc);
        } else {
            self.deliver_later(rpc);
        }
    }

    pub(super) fn delivered(&mut self, rpc: RpcId) {
        let r = self.rpcs[rpc];
        self.leave_channel(rpc);
        if let Sender::Process(task) = r.sender {
            self.metadata_replied(rpc, task);
            return;
        }
        let replicas = self.services[r.service as usize].replicas;
        if r.failed && r.kind == RpcKind::Read && u32::from(r.unread) + 1 < replicas {
            self.read_other_replica(rpc);
            return;
        }
        if r.failed && r.unread == 0 && matches!(r.sender, Sender::Client(_)) {
            self.rpcs[rpc].unread = 1;
            self.rpcs[rpc].failed = false;
            if self.reconstruct(rpc, false) {
                return;
            }
            self.rpcs[rpc].failed = true;
        }
        self.reply(rpc);
    }

    /// End a request, and tell its sender.
    pub(crate) fn reply(&mut self, rpc: RpcId) {
        let r = self.rpcs[rpc];
        self.rpcs.remove(rpc);
        if let Some(vector) = r.vector {
            self.vectors.remove(vector);
        }
        match r.sender {
            Sender::Forwarder(forwarder) => {
                self.rpcs[forwarder].failed |= r.failed;
                self.part_done(forwarder);
            }
            Sender::Process(task) => self.timer_done(task),
            Sender::Gatherer(parent) => self.gathered(parent, r.failed),
            Sender::Client(io) => {
                let latency = self.now - r.sent;
                self.services[r.service as usize].totals.latency.add(latency);
                self.io_done(io, r.failed);
            }
        }
    }

    /// Resend a read that failed to the server of the next replica.
    fn read_other_replica(&mut self, rpc: RpcId) {
        let r = self.rpcs[rpc];
        let s = &mut self.services[r.service as usize];
        let replica = (r.replica + 1) % s.replicas;
        s.totals.outcome.failed_over += 1;
        let f = &self.services[r.service as usize].files[r.file as usize];
        let target = self.part_target(r.service, f, r.part + replica);
        let unread = r.unread + 1;
        let stage = Stage::Arriving;
        self.restart_vector(rpc);
        self.rpcs[rpc] = Rpc { replica, target, unread, stage, failed: false, pending: 1, ..r };
        self.enqueue(rpc);
    }
}
