//! Reads, writes and syncs, from their start to the end of their last I/O.
//!
//! `buffered` implements I/O through the page cache, `direct` I/O that bypasses it. `volume`
//! submits I/O to a local drive, `remote` sends requests to a service. `instances` manages the
//! files.

mod buffered;
mod direct;
mod instances;
mod volume;

use headrace_model::pagecache::readahead::ReadAhead;
use headrace_model::pagecache::{Group, PAGE_BYTES};
use headrace_model::slots::Id;

use crate::ids::{InstanceId, IoId, JobId, OpId};
use crate::world::{Io, IoKind, Op, OpKind, OpStage, Parent, World};

/// The process number of asynchronous writeback (the flusher).
pub(crate) const FLUSHER: u32 = 0;

pub(crate) fn page_of(byte: u64) -> u32 {
    (byte / PAGE_BYTES) as u32
}

/// Return the number of the first page at or after `byte`: the exclusive end of the range that ends
/// there.
pub(crate) fn page_end(byte: u64) -> u32 {
    byte.div_ceil(PAGE_BYTES) as u32
}

/// The parameters of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    pub kind: OpKind,
    pub parent: Parent,
    pub instance: InstanceId,
    pub process: u32,
    pub job: Option<JobId>,
    pub offset: u64,
    pub length: u64,
    pub mapped: bool,
    pub read_ahead: ReadAhead,
}

/// What became of an operation at its start.
pub(crate) enum Started {
    /// It completed at once.
    Done(Op),
    Waits,
}

impl World<'_> {
    /// Start an operation. If it does not complete at once, its parent is notified on completion.
    pub fn start_op(&mut self, wanted: Wanted) -> Started {
        let op = Op {
            kind: wanted.kind,
            parent: wanted.parent,
            instance: wanted.instance,
            process: wanted.process,
            job: wanted.job,
            mapped: wanted.mapped,
            failed: false,
            stage: OpStage::Submitting,
            cursor: page_of(wanted.offset),
            end: page_end(wanted.offset + wanted.length),
            submit_from: 0,
            submit_to: 0,
            mark: None,
            order: 0,
            ask_at: page_of(wanted.offset),
            missed: 0,
            offset: wanted.offset,
            length: wanted.length,
            read_ahead: wanted.read_ahead,
            outstanding: 0,
            next: None,
        };
        let index = self.ops.insert(op);
        self.instances[wanted.instance].ios += 1;
        if wanted.kind == OpKind::Read {
            self.before_read(index);
        }
        if self.run_op(index) {
            Started::Done(self.take_op(index))
        } else {
            Started::Waits
        }
    }

    fn take_op(&mut self, index: OpId) -> Op {
        let op = self.ops[index];
        self.ops.remove(index);
        self.instances[op.instance].ios -= 1;
        self.bury(op.instance);
        op
    }

    /// Continue an operation that waited; if it is done, continue its parent.
    pub fn resume_op(&mut self, index: OpId) {
        if self.run_op(index) {
            let op = self.take_op(index);
            match op.parent {
                Parent::Task(task) => self.op_done(task, &op),
                Parent::Rpc(rpc) => self.stored(rpc, &op),
                Parent::Fetch(fetch) => self.fetch_step(fetch, &op),
            }
        }
    }

    /// Return true if the operation is done.
    fn run_op(&mut self, index: OpId) -> bool {
        let mount = self.instances[self.ops[index].instance].mount;
        let host = self.mounts[mount as usize].host as usize;
        self.hosts[host].cache.advance(self.now);
        match self.ops[index].kind {
            OpKind::Read => self.run_read(index),
            OpKind::Write => self.run_write(index),
            OpKind::DirectRead | OpKind::DirectWrite => self.run_direct(index),
            OpKind::Sync | OpKind::Close => self.run_sync(index),
        }
    }

    fn wait_for_io(&mut self, index: OpId, io: IoId) {
        let first = self.ios[io].waiters;
        self.ops[index].next = first;
        self.ios[io].waiters = Some(index);
    }

    /// Create the I/O that fills missing pages of a file's cache. They count to a control group.
    pub(crate) fn start_fill(
        &mut self,
        host: u32,
        instance: InstanceId,
        from: u32,
        pages: u32,
        group: Id<Group>,
    ) -> IoId {
        let i = &mut self.instances[instance];
        i.ios += 1;
        let io = self.ios.next_id();
        let cache = &mut self.hosts[host as usize].cache;
        let extent = cache.start_reading(i.cache_file, from, pages, io, group);
        self.ios.insert(Io { kind: IoKind::Fill { extent }, instance, waiters: None })
    }

    /// Complete an I/O: update its pages and continue the operations that waited for it.
    pub fn io_done(&mut self, io: IoId, failed: bool) {
        let Io { kind, instance, waiters } = self.ios[io];
        self.ios.remove(io);
        match kind {
            IoKind::Fill { extent } => {
                let host = self.mounts[self.instances[instance].mount as usize].host as usize;
                if failed {
                    self.hosts[host].cache.abandon_reading(extent);
                } else {
                    self.hosts[host].cache.finish_reading(extent);
                }
                self.instances[instance].ios -= 1;
                let mut waiting = waiters;
                while let Some(waiter) = waiting {
                    let op = &mut self.ops[waiter];
                    waiting = op.next.take();
                    op.failed |= failed;
                    self.resume_op(waiter);
                }
                self.bury(instance);
            }
            IoKind::Writeback { extent } => self.written(instance, extent),
            IoKind::Through { op } => {
                self.instances[instance].ios -= 1;
                let o = &mut self.ops[op];
                o.failed |= failed;
                o.outstanding -= 1;
                self.instances[instance].uncommitted |= o.kind == OpKind::DirectWrite;
                // While it is submitting, the operation also waits for a metadata block; the I/O of
                // that block resumes it.
                if o.stage == OpStage::Submitted
                    && (o.outstanding == 0 || matches!(o.kind, OpKind::DirectWrite))
                {
                    self.resume_op(op);
                }
                self.bury(instance);
            }
            IoKind::Behind { bytes } => self.behind_done(instance, bytes),
            IoKind::Journal { volume } => self.journal_written(volume),
            IoKind::Discard => {}
        }
    }
}
