//! Metadata servers with cores and drives: a thread and CPU time for each operation, then the inode
//! on the server's volume, which a change brings to the journal of the volume.

use headrace_model::pagecache::readahead::ReadAhead;
use headrace_model::pagecache::PAGE_BYTES;

use crate::ids::{InstanceId, RpcId, TaskId};
use crate::layout::mixed;
use crate::remote::{Rpc, RpcKind, Sender, Stage, FIRST_SERVER_PROCESS};
use crate::storage::{Started, Wanted};
use crate::world::{Mounted, OpKind, Parent, World};

impl World<'_> {
    /// Send a process's metadata operation on a file of a service to the server of its inode:
    /// `round_trips` requests, one after the other. Return false if the service's metadata servers
    /// have no hosts.
    pub(crate) fn ask_metadata(
        &mut self,
        task: TaskId,
        service: u32,
        file: u32,
        changes: bool,
        round_trips: u32,
    ) -> bool {
        let s = &mut self.services[service as usize];
        let Some(by) = s.metadata_by else { return false };
        s.totals.outcome.metadata_requests += u64::from(round_trips);
        let number = s.files.get(file as usize).map_or(u64::from(file), |f| f.number);
        let targets = self.services[by as usize].targets.len() as u64;
        let t = &self.tasks[task];
        let rpc = Rpc {
            kind: if changes { RpcKind::Change } else { RpcKind::Lookup },
            stage: Stage::Arriving,
            service: by,
            target: (mixed(number) % targets) as u32,
            part: 0,
            replica: 0,
            file: 0,
            client: t.host,
            offset: number,
            bytes: u64::from(round_trips.max(1)),
            sender: Sender::Process(task),
            pending: 1,
            thread: None,
            job: Some(t.job),
            sent: self.now,
            synced: false,
            failed: false,
            unread: 0,
            vector: None,
        };
        let rpc = self.rpcs.insert(rpc);
        self.counters.service_requests += u64::from(round_trips);
        self.enqueue(rpc);
        true
    }

    /// Return the inode of a metadata request on its server's volume; the first request for a file
    /// creates it there.
    fn metadata_inode(&mut self, rpc: RpcId) -> InstanceId {
        let r = self.rpcs[rpc];
        if let Some(&inode) = self.services[r.service as usize].inodes.get(&r.offset) {
            return inode;
        }
        let mount = self.services[r.service as usize].targets[r.target as usize].mount;
        let inode = self.new_file_on(mount, 0);
        self.services[r.service as usize].inodes.insert(r.offset, inode);
        inode
    }

    /// Read the inode of a metadata request; a change also makes it part of the next commit.
    pub(crate) fn store_metadata(&mut self, rpc: RpcId) {
        let instance = self.metadata_inode(rpc);
        let i = &self.instances[instance];
        let (mount, fs_file) = (i.mount, i.file());
        let Mounted::Volume(volume) = self.mounts[mount as usize].mounted else {
            unreachable!("inodes are on volumes")
        };
        let v = &self.volumes[volume as usize];
        let (inode, table) = (v.fs.inode(fs_file), v.metadata);
        if self.rpcs[rpc].kind == RpcKind::Change {
            self.dirty_metadata(volume, inode);
        }
        self.start_metadata(rpc, OpKind::Read, table, u64::from(inode) * PAGE_BYTES, PAGE_BYTES);
    }

    /// Bring the change of a metadata request to its server's drive.
    pub(crate) fn sync_metadata(&mut self, rpc: RpcId) {
        self.rpcs[rpc].synced = true;
        let instance = self.metadata_inode(rpc);
        self.start_metadata(rpc, OpKind::Sync, instance, 0, 0);
    }

    fn start_metadata(
        &mut self,
        rpc: RpcId,
        kind: OpKind,
        instance: InstanceId,
        offset: u64,
        length: u64,
    ) {
        let r = self.rpcs[rpc];
        let thread = r.thread.expect("a request is stored by the thread that serves it");
        let wanted = Wanted {
            kind,
            parent: Parent::Rpc(rpc),
            instance,
            process: FIRST_SERVER_PROCESS + thread.number(),
            job: None,
            offset,
            length,
            mapped: false,
            read_ahead: ReadAhead::default(),
        };
        if let Started::Done(op) = self.start_op(wanted) {
            self.stored(rpc, &op);
        }
    }

    /// Continue after the reply to a metadata request: the next round trip, or the process.
    pub(crate) fn metadata_replied(&mut self, rpc: RpcId, task: TaskId) {
        let r = &mut self.rpcs[rpc];
        if r.bytes > 1 {
            r.bytes -= 1;
            r.stage = Stage::Arriving;
            r.pending = 1;
            self.enqueue(rpc);
            return;
        }
        self.rpcs.remove(rpc);
        self.timer_done(task);
    }
}
