//! Vectored reads of services that have them (XRootD's `kXR_readv`): a client sends one request with
//! many ranges of a file, a thread of the server reads one range after the other, and one reply has
//! all of them.
//!
//! A message costs one round trip, one `client_request_ns` and one `server_request_ns`, however many
//! ranges it has; the bytes cost the same. A read that waits for the latency alone is therefore
//! faster by the number of its ranges. Sources: the XRootD protocol (`kXR_readv`: at most
//! `readv_iov_max` = 1024 ranges); `XrdOssFile::ReadV`, which reads range after range.

use headrace_model::pagecache::readahead::ReadAhead;

use crate::ids::{InstanceId, RpcId, TaskId};
use crate::layout::Layout;
use crate::remote::requests::Asked;
use crate::remote::{RpcKind, Vector};
use crate::world::{Flow, Io, IoKind, Mounted, Op, OpKind, OpStage, Parent, Phase, State, World};

impl World<'_> {
    /// Read the process's next ranges with one request, as many as it may have. Return none if the
    /// service has no vectored reads.
    pub(super) fn read_vector(&mut self, task: TaskId, instance: InstanceId) -> Option<Flow> {
        let mount = &self.mounts[self.instances[instance].mount as usize];
        let Mounted::Service(service) = mount.mounted else { return None };
        let s = &self.services[service as usize];
        let (most, largest) = (s.settled.vector_ranges as usize, s.settled.read_request_bytes);
        let whole = matches!(s.layout, Layout::Whole);
        if most < 2 || !whole || s.settled.client_cache || s.settled.client_buffer_bytes > 0 {
            return None;
        }
        let file_bytes = self.instances[instance].bytes;
        let t = &mut self.tasks[task];
        let mut ranges = Vec::new();
        while ranges.len() < most {
            let Some(next) = t.ranges.get_mut(t.next_range as usize) else { break };
            let bytes = next.1.min(file_bytes.saturating_sub(next.0)).min(largest);
            if bytes > 0 {
                ranges.push((next.0, bytes));
            }
            // The rest of a range that is larger than a request may have.
            *next = (next.0 + bytes, next.1 - bytes);
            if bytes == 0 || next.1 == 0 {
                t.next_range += 1;
            }
        }
        if ranges.is_empty() {
            return Some(Flow::On);
        }
        let bytes = ranges.iter().map(|&(_, bytes)| bytes).sum();
        self.count_call(task, OpKind::DirectRead, bytes, false);
        self.send_vector(task, service, instance, ranges, bytes);
        self.tasks[task].waiting_ops += 1;
        let aside = self.tasks[task].aside();
        let (state, phase) =
            if aside { (State::Other, Phase::None) } else { (State::Network, Phase::Read) };
        self.enter(task, state, phase);
        Some(Flow::Blocked)
    }

    /// Send the request of a vectored read: an operation with one I/O.
    fn send_vector(
        &mut self,
        task: TaskId,
        service: u32,
        instance: InstanceId,
        ranges: Vec<(u64, u64)>,
        bytes: u64,
    ) {
        let t = &self.tasks[task];
        let (job, process) = (Some(t.job), t.process);
        let (offset, _) = ranges[0];
        let op = self.ops.insert(Op {
            kind: OpKind::DirectRead,
            parent: Parent::Task(task),
            instance,
            process,
            job,
            mapped: false,
            failed: false,
            stage: OpStage::Submitted,
            cursor: 0,
            end: 0,
            submit_from: 0,
            submit_to: 0,
            mark: None,
            order: 0,
            ask_at: 0,
            missed: 0,
            offset,
            length: 0,
            read_ahead: ReadAhead::default(),
            outstanding: 1,
            next: None,
        });
        // One for the operation, one for its I/O.
        self.instances[instance].ios += 2;
        let io = self.ios.insert(Io { kind: IoKind::Through { op }, instance, waiters: None });
        let i = &self.instances[instance];
        let mount = &self.mounts[i.mount as usize];
        let (file, client, of_server) = (i.file(), mount.host, mount.of_server);
        let s = &self.services[service as usize];
        let piece = s.layout.locate(offset, s.replicas);
        let asked = Asked { service, file, piece, bytes, client, of_server, job };
        let (replica, target) = self.count_read(asked);
        let rpc = self.new_rpc(RpcKind::Read, asked, io, replica, target);
        let ranges = ranges.into_boxed_slice();
        let vector = Vector { ranges, begun: 0, storing: false, done: false, bytes };
        self.rpcs[rpc].vector = Some(self.vectors.insert(vector));
        self.send_rpc(rpc, asked);
    }

    /// Let the server of a vectored read read its next range. Return false after the last one, and
    /// for other requests.
    pub(super) fn store_next_range(&mut self, rpc: RpcId) -> bool {
        let Some(id) = self.rpcs[rpc].vector else { return false };
        if self.vectors[id].storing {
            self.vectors[id].done = true;
            return true;
        }
        loop {
            let failed = self.rpcs[rpc].failed;
            let vector = &mut self.vectors[id];
            let next = vector.ranges.get(vector.begun).filter(|_| !failed);
            let r = &mut self.rpcs[rpc];
            let Some(&(offset, bytes)) = next else {
                (r.offset, r.bytes) = (vector.ranges[0].0, vector.bytes);
                return false;
            };
            (r.offset, r.bytes) = (offset, bytes);
            vector.begun += 1;
            (vector.storing, vector.done) = (true, false);
            if self.services[self.rpcs[rpc].service as usize].upstream.is_some() {
                self.count_cached(rpc);
            }
            self.store_request(rpc);
            let vector = &mut self.vectors[id];
            vector.storing = false;
            if !vector.done {
                return true;
            }
        }
    }

    /// Begin a vectored read again, at the server of another replica.
    pub(super) fn restart_vector(&mut self, rpc: RpcId) {
        if let Some(id) = self.rpcs[rpc].vector {
            self.vectors[id].begun = 0;
        }
    }
}
