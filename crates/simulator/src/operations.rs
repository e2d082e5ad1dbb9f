//! File operations of a process: reads, writes and metadata, depending on mount and access.

use headrace_model::filesystem::AccessTime;
use headrace_model::pagecache::readahead::ReadAhead;
use headrace_model::pagecache::PAGE_BYTES;
use headrace_model::Nanos;

use crate::ids::{InstanceId, TaskId};
use crate::scenario::Access;
use crate::storage::{Started, Wanted};
use crate::world::{Flow, Mounted, Op, OpKind, Parent, Phase, State, World};

impl World<'_> {
    /// Start a read, write or sync on the current file of a set.
    pub(super) fn operate(
        &mut self,
        task: TaskId,
        set: u32,
        kind: OpKind,
        offset: u64,
        length: u64,
        mapped: bool,
    ) -> Flow {
        let instance = self.current_file(task, set);
        let t = &self.tasks[task];
        let (process, job, aside) = (t.process, t.job, t.aside());
        let read_ahead = t.files[set as usize].read_ahead;
        let mount = self.instances[instance].mount;
        let mounted = self.mounts[mount as usize].mounted;
        let local = matches!(mounted, Mounted::Volume(_));
        let (state, phase) = match (local, kind) {
            _ if aside => (State::Other, Phase::None),
            (true, OpKind::Read | OpKind::DirectRead) => (State::Block, Phase::Read),
            (true, _) => (State::Block, Phase::Write),
            (false, OpKind::Read | OpKind::DirectRead) => (State::Network, Phase::Read),
            (false, _) => (State::Network, Phase::Write),
        };
        self.count_call(task, kind, length, local);
        self.note_access(instance, mounted);
        let wanted = Wanted {
            kind,
            parent: Parent::Task(task),
            instance,
            process,
            job: Some(job),
            offset,
            length,
            mapped,
            read_ahead,
        };
        match self.start_op(wanted) {
            Started::Waits => {
                self.tasks[task].waiting_ops += 1;
                if self.tasks[task].state != state || self.tasks[task].wait_phase != phase {
                    self.enter(task, state, phase);
                }
                Flow::Blocked
            }
            Started::Done(op) => {
                self.after_op(task, set, &op);
                Flow::On
            }
        }
    }

    /// Charge the CPU time of a call, and count it for its job.
    pub(super) fn count_call(&mut self, task: TaskId, kind: OpKind, length: u64, local: bool) {
        let t = &mut self.tasks[task];
        if !matches!(kind, OpKind::Sync | OpKind::Close) {
            let h = &self.hosts[t.host as usize];
            let ns_per_byte = match kind {
                // The drive moves the bytes from and to the process's own memory.
                OpKind::DirectRead | OpKind::DirectWrite if local => 0.0,
                OpKind::Write => h.write_copy_ns_per_byte,
                _ => h.copy_ns_per_byte,
            };
            t.pending_cpu_ns += h.call_ns + (length as f64 * ns_per_byte) as u64;
        }
        if t.copying.is_some() {
            return;
        }
        let j = &mut self.jobs[t.job.index()];
        match kind {
            OpKind::Read | OpKind::DirectRead => {
                j.reads += 1;
                j.bytes.asked_bytes += length;
                if local {
                    j.bytes.served_bytes += length;
                }
            }
            OpKind::Write | OpKind::DirectWrite => {
                j.writes += 1;
                j.bytes.written_bytes += length;
            }
            OpKind::Sync | OpKind::Close => {}
        }
    }

    /// Update access times: a read dirties the inode if the mount options require it.
    pub(super) fn note_access(&mut self, instance: InstanceId, mounted: Mounted) {
        let Mounted::Volume(volume) = mounted else { return };
        let fs = &self.volumes[volume as usize].fs;
        let i = &self.instances[instance];
        if i.is_metadata() {
            return;
        }
        let due = match fs.spec().access_time {
            AccessTime::Never => false,
            AccessTime::Strict => self.now >= i.last_access + 1_000_000_000 || i.last_access == 0,
            AccessTime::Relative => i.last_access == 0,
        };
        if due {
            let inode = fs.inode(i.file());
            self.instances[instance].last_access = self.now.max(1);
            self.dirty_metadata(volume, inode);
        }
    }

    pub(super) fn after_op(&mut self, task: TaskId, set: u32, op: &Op) {
        let t = &mut self.tasks[task];
        if op.kind == OpKind::Read && t.files[set as usize].instance == Some(op.instance) {
            t.files[set as usize].read_ahead = op.read_ahead;
        }
        if op.failed {
            let job = &mut self.jobs[t.job.index()];
            job.errors += 1;
            job.failed |= self.scenario.run.fail_on_error;
        }
    }

    /// Continue a process after an operation that it waited for.
    pub fn op_done(&mut self, task: TaskId, op: &Op) {
        let t = &self.tasks[task];
        let set =
            t.files.iter().position(|file| file.instance == Some(op.instance)).unwrap_or_default()
                as u32;
        self.after_op(task, set, op);
        let t = &mut self.tasks[task];
        t.waiting_ops -= 1;
        // A process that computes meanwhile continues when its CPU work is done.
        if (t.waiting_ops == 0 || t.wake_any) && t.state != State::Cpu {
            self.enter(task, State::Other, Phase::None);
            self.run_task(task);
        }
    }

    /// Read a range as the file's mount and `access` require.
    pub(super) fn read(
        &mut self,
        task: TaskId,
        set: u32,
        offset: u64,
        length: u64,
        access: Access,
    ) -> Flow {
        let instance = self.current_file(task, set);
        let bytes = self.instances[instance].bytes;
        if offset >= bytes {
            return Flow::On;
        }
        let length = length.min(bytes - offset);
        let kind = match access {
            Access::Direct => OpKind::DirectRead,
            _ if self.caches(instance) => OpKind::Read,
            _ => {
                let buffer = self.client_buffer(task, instance);
                if buffer > 0 {
                    return self.read_buffered(task, set, offset, length, (buffer, bytes));
                }
                OpKind::DirectRead
            }
        };
        self.operate(task, set, kind, offset, length, access == Access::Mapped)
    }

    /// Return the size of the client library's buffer for a process; 0 for stagers, which bypass
    /// it.
    fn client_buffer(&self, task: TaskId, instance: InstanceId) -> u64 {
        match self.mounts[self.instances[instance].mount as usize].mounted {
            Mounted::Service(service) if self.tasks[task].copying.is_none() => {
                self.services[service as usize].settled.client_buffer_bytes
            }
            _ => 0,
        }
    }

    /// Read through the library's buffer (`rfio_read` with RFIO_READBUF). Bytes in the buffer are
    /// served from it. For the rest, the buffer is refilled from its end, or from the start of the
    /// read if that lies outside the buffer.
    fn read_buffered(
        &mut self,
        task: TaskId,
        set: u32,
        offset: u64,
        length: u64,
        (buffer, file_bytes): (u64, u64),
    ) -> Flow {
        let t = &mut self.tasks[task];
        let (host, job) = (t.host as usize, t.job.index());
        let file = &mut t.files[set as usize];
        let (from, until) = file.extras().buffer;
        let end = offset + length;
        let start = if (from..until).contains(&offset) { until } else { offset };
        if end <= start {
            let h = &self.hosts[host];
            t.pending_cpu_ns += h.call_ns + (length as f64 * h.copy_ns_per_byte) as u64;
            self.jobs[job].reads += 1;
            self.jobs[job].bytes.asked_bytes += length;
            return Flow::On;
        }
        let fills = (end - start).div_ceil(buffer);
        let filled = (start + fills * buffer).min(file_bytes);
        file.extras().buffer = (filled.saturating_sub(buffer).max(start), filled);
        // `asked_bytes` counts what the job requested; bytes fetched beyond that count as served.
        let flow = self.operate(task, set, OpKind::DirectRead, start, filled - start, false);
        let asked = &mut self.jobs[job].bytes.asked_bytes;
        *asked = *asked + length - (filled - start);
        flow
    }

    pub(super) fn write(
        &mut self,
        task: TaskId,
        set: u32,
        offset: Option<u64>,
        length: u64,
        access: Access,
    ) -> Flow {
        let instance = self.current_file(task, set);
        let offset = offset.unwrap_or(self.instances[instance].bytes);
        let kind = if access == Access::Direct || !self.writes_back(instance) {
            OpKind::DirectWrite
        } else {
            OpKind::Write
        };
        self.operate(task, set, kind, offset, length, false)
    }

    pub(super) fn caches(&self, instance: InstanceId) -> bool {
        match self.mounts[self.instances[instance].mount as usize].mounted {
            Mounted::Volume(_) => true,
            Mounted::Service(service) => self.services[service as usize].settled.client_cache,
        }
    }

    pub(super) fn writes_back(&self, instance: InstanceId) -> bool {
        match self.mounts[self.instances[instance].mount as usize].mounted {
            Mounted::Volume(_) => true,
            Mounted::Service(service) => {
                let settled = &self.services[service as usize].settled;
                settled.client_cache && settled.write_back
            }
        }
    }

    /// Return the process's file of a set; assign one first if there is none.
    pub fn current_file(&mut self, task: TaskId, set: u32) -> InstanceId {
        let instance = self.tasks[task].files[set as usize].instance;
        if let Some(instance) = instance {
            return instance;
        }
        let instance = self.assign_file(task, set);
        self.hold(task, set, instance);
        instance
    }

    /// Make an instance the process's file of a set.
    pub fn hold(&mut self, task: TaskId, set: u32, instance: InstanceId) {
        self.instances[instance].opened += 1;
        let file = &mut self.tasks[task].files[set as usize];
        file.instance = Some(instance);
        file.rewind();
    }

    /// Release the process's file of a set.
    pub fn release(&mut self, task: TaskId, set: u32) {
        let file = &mut self.tasks[task].files[set as usize];
        let instance = file.instance.take();
        file.open = false;
        let Some(instance) = instance else { return };
        let i = &mut self.instances[instance];
        i.opened -= 1;
        if let Mounted::Volume(volume) = self.mounts[i.mount as usize].mounted {
            if i.opened == 0
                && self.hosts[self.volumes[volume as usize].host as usize]
                    .cache
                    .file_dirty_pages(i.cache_file)
                    == 0
            {
                let file = i.file();
                self.volumes[volume as usize].fs.close(file);
            }
        }
        if self.instances[instance].doomed {
            self.doom(instance);
        }
    }

    /// Create a file on a volume. Even if its inode is the first in a block of the inode table,
    /// that block is not read (ext3 and ext4 fill it with zeroes, `ext4_get_inode_loc` in
    /// `fs/ext4/inode.c`; XFS writes new inodes by the chunk, `xfs_ialloc_inode_init`).
    pub(super) fn make_item(&mut self, task: TaskId, set: u32) {
        let Some((volume, host, file)) = self.item_on_volume(task, set) else { return };
        let host = &mut self.hosts[host as usize];
        self.tasks[task].pending_cpu_ns += host.create_ns;
        let v = &self.volumes[volume as usize];
        if !v.fs.is_first_of_its_block(file) {
            return;
        }
        let (table, page) = (self.instances[v.metadata].cache_file, v.fs.inode(file));
        if host.cache.find(table, page).is_none() {
            host.cache.fill(table, page, 1);
        }
    }

    /// Charge the CPU time of removing a file from a volume.
    pub(super) fn remove_item(&mut self, task: TaskId, set: u32) {
        if let Some((_, host, _)) = self.item_on_volume(task, set) {
            self.tasks[task].pending_cpu_ns += self.hosts[host as usize].remove_ns;
        }
    }

    /// Return the volume of the process's file, the volume's host, and the file on it.
    fn item_on_volume(&mut self, task: TaskId, set: u32) -> Option<(u32, u32, u32)> {
        let instance = self.current_file(task, set);
        let i = &self.instances[instance];
        let mount = &self.mounts[i.mount as usize];
        match mount.mounted {
            Mounted::Volume(volume) => Some((volume, mount.host, i.file())),
            Mounted::Service(_) => None,
        }
    }

    /// Start the client of the service that holds the process's file, if the process opens its
    /// first file there. Return when it is connected; none if it is.
    pub(super) fn start_client(&mut self, task: TaskId, set: u32) -> Option<Nanos> {
        let instance = self.current_file(task, set);
        let mount = self.instances[instance].mount;
        let Mounted::Service(service) = self.mounts[mount as usize].mounted else { return None };
        let settled = &self.services[service as usize].settled;
        let (start_ns, cpu_ns) = (settled.client_start_ns, settled.client_start_cpu_ns);
        let t = &mut self.tasks[task];
        if start_ns + cpu_ns == 0 || t.clients.contains(&mount) {
            return None;
        }
        t.clients.push(mount);
        t.pending_cpu_ns += cpu_ns;
        (start_ns > 0).then_some(self.now + start_ns)
    }

    /// Perform a metadata operation on the process's file: read its inode, or send requests to the
    /// metadata server.
    pub(super) fn metadata(
        &mut self,
        task: TaskId,
        set: u32,
        changes: bool,
        round_trips: Option<u32>,
    ) -> Flow {
        let instance = self.current_file(task, set);
        let phase = if round_trips.is_none() { Phase::Open } else { Phase::Metadata };
        let t = &self.tasks[task];
        let (job, process, host) = (t.job, t.process, t.host);
        let copying = t.copying.is_some();
        if !copying {
            self.jobs[job.index()].operations += 1;
        }
        self.tasks[task].pending_cpu_ns += self.hosts[host as usize].call_ns;
        let i = &self.instances[instance];
        match self.mounts[i.mount as usize].mounted {
            Mounted::Volume(volume) => {
                let v = &self.volumes[volume as usize];
                let inode = v.fs.inode(i.file());
                let metadata = v.metadata;
                if changes {
                    self.dirty_metadata(volume, inode);
                }
                let wanted = Wanted {
                    kind: OpKind::Read,
                    parent: Parent::Task(task),
                    instance: metadata,
                    process,
                    job: Some(job),
                    offset: u64::from(inode) * PAGE_BYTES,
                    length: PAGE_BYTES,
                    mapped: false,
                    read_ahead: ReadAhead::default(),
                };
                if let Started::Waits = self.start_op(wanted) {
                    self.tasks[task].waiting_ops += 1;
                    self.enter(task, State::Block, phase);
                    return Flow::Blocked;
                }
                Flow::On
            }
            Mounted::Service(service) => {
                let file = i.file();
                let s = &self.services[service as usize].settled;
                let (trips, cpu) = (round_trips.unwrap_or(s.open_round_trips), s.client_request_ns);
                self.tasks[task].pending_cpu_ns += cpu * u64::from(trips);
                if self.ask_metadata(task, service, file, changes, trips) {
                    self.enter(task, State::Network, phase);
                    return Flow::Blocked;
                }
                let until = self.metadata_answer(service, file, host, changes, trips);
                self.pause(task, until, State::Network, phase)
            }
        }
    }
}
