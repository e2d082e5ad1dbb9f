//! Data servers before another service: they are its clients, with or without a cache of blocks on
//! a volume of their host (gateways, XCache).

use std::ops::Range;

use headrace_model::pagecache::readahead::ReadAhead;
use headrace_model::Nanos;

use crate::block_cache::{BlockCache, Removed};
use crate::ids::{FetchId, InstanceId, JobId, RpcId};
use crate::remote::{Backend, Fetch, RpcKind, FIRST_SERVER_PROCESS};
use crate::storage::{Started, Wanted};
use crate::world::{Op, OpKind, Parent, World};

impl World<'_> {
    fn block_cache(&mut self, service: u32, target: u32) -> Option<&mut BlockCache> {
        match &mut self.services[service as usize].targets[target as usize].backend {
            Backend::Upstream { cache, .. } => cache.as_deref_mut(),
            Backend::Volume => None,
        }
    }

    /// Create a new file of a service, and of its upstream.
    pub fn new_service_file(&mut self, service: u32) -> u32 {
        let upstream = self.services[service as usize].upstream;
        let behind = upstream.map(|upstream| self.new_service_file(upstream));
        let s = &mut self.services[service as usize];
        let file = s.new_file(0);
        s.files[file as usize].upstream = behind;
        file
    }

    /// Serve a request from the cache of its server if it has one. Return whether it does.
    pub(super) fn served_from_cache(&mut self, rpc: RpcId) -> bool {
        let r = self.rpcs[rpc];
        if self.block_cache(r.service, r.target).is_none() {
            return false;
        }
        match r.kind {
            RpcKind::Read => self.read_cached(rpc),
            RpcKind::Commit | RpcKind::Lookup | RpcKind::Change => false,
            RpcKind::Write => {
                // Written to the upstream; the cached blocks are out of date.
                self.uncache(r.service, r.target, r.file);
                false
            }
        }
    }

    /// Count the bytes of a read that are in the cache of its server, and those that are not.
    pub(super) fn count_cached(&mut self, rpc: RpcId) {
        let r = self.rpcs[rpc];
        if r.kind != RpcKind::Read {
            return;
        }
        let Some(cache) = self.block_cache(r.service, r.target) else { return };
        let hit_bytes = cache.present_bytes(r.file, r.offset, r.bytes);
        if let Some(upstream) = &mut self.services[r.service as usize].totals.outcome.upstream {
            upstream.hit_bytes += hit_bytes;
            upstream.missed_bytes += r.bytes - hit_bytes;
        }
    }

    /// Read from the cache; if blocks are missing, fetch them first. Return false if the cache has
    /// no room for them.
    fn read_cached(&mut self, rpc: RpcId) -> bool {
        let r = self.rpcs[rpc];
        let now = self.now;
        let Some(cache) = self.block_cache(r.service, r.target) else { return false };
        if cache.holds(r.file, r.offset, r.bytes) {
            cache.touch(r.file, now);
            if let Some(instance) = cache.instance(r.file) {
                self.store(rpc, instance);
                return true;
            }
        }
        let removed = cache.make_room(r.file, r.bytes);
        let (mount, known) = (cache.mount, cache.instance(r.file).is_some());
        for instance in removed.instances {
            self.doom(instance);
        }
        let instance = if known { None } else { Some(self.new_file_on(mount, 0)) };
        let bytes = self.services[r.service as usize].files[r.file as usize].bytes;
        let Some(cache) = self.block_cache(r.service, r.target) else { return false };
        if let Some(instance) = instance {
            cache.add(r.file, instance);
        }
        cache.touch(r.file, now);
        if !cache.has_room(r.bytes) {
            return false;
        }
        let ranges = cache.fetch(r.file, r.offset, r.bytes, bytes);
        cache.wait(r.file, rpc);
        for range in ranges {
            let fetch = Fetch { service: r.service, target: r.target, file: r.file, range };
            self.start_fetch(fetch, r.part, r.job);
        }
        self.note_kept(r.service, r.target);
        true
    }

    fn note_kept(&mut self, service: u32, target: u32) {
        let kept = self.block_cache(service, target).map_or(0, |cache| cache.kept_bytes());
        self.services[service as usize].targets[target as usize].stored_bytes = kept;
    }

    fn start_fetch(&mut self, fetch: Fetch, part: u32, job: Option<JobId>) {
        let source = self.part_instance(fetch.service, fetch.file, part, fetch.target);
        let range = fetch.range.clone();
        let index = self.fetches.insert(fetch);
        self.continue_fetch(index, OpKind::DirectRead, source, job, range);
    }

    /// Start the read of fetched blocks from the upstream, or their write to the volume.
    fn continue_fetch(
        &mut self,
        index: FetchId,
        kind: OpKind,
        instance: InstanceId,
        job: Option<JobId>,
        range: Range<u64>,
    ) {
        let wanted = Wanted {
            kind,
            parent: Parent::Fetch(index),
            instance,
            process: FIRST_SERVER_PROCESS,
            job,
            offset: range.start,
            length: range.end - range.start,
            mapped: false,
            read_ahead: ReadAhead::default(),
        };
        if let Started::Done(op) = self.start_op(wanted) {
            self.fetch_step(index, &op);
        }
    }

    /// Continue a fetch: write the blocks that arrived to the volume and serve the requests that
    /// waited for them. A request that needs blocks that could not be read fails.
    pub fn fetch_step(&mut self, index: FetchId, op: &Op) {
        let Fetch { service, target, file, range } = self.fetches[index].clone();
        if op.kind == OpKind::Write {
            self.fetches.remove(index);
            return;
        }
        let cache = self.block_cache(service, target);
        let fetched = cache.and_then(|cache| cache.fetched(file, &range, op.failed));
        self.note_kept(service, target);
        let Some(fetched) = fetched else {
            self.fetches.remove(index);
            return;
        };
        if op.failed {
            self.fetches.remove(index);
        } else {
            // From here on the blocks are in the page cache of the server's host.
            self.continue_fetch(index, OpKind::Write, fetched.instance, None, range.clone());
        }
        for rpc in fetched.waiting {
            let r = &mut self.rpcs[rpc];
            if op.failed && r.offset < range.end && range.start < r.offset + r.bytes {
                r.failed = true;
                self.done_storing(rpc);
            } else {
                self.store_request(rpc);
            }
        }
    }

    /// Remove a file from the cache of a server.
    pub(super) fn uncache(&mut self, service: u32, target: u32, file: u32) {
        let Some(cache) = self.block_cache(service, target) else { return };
        let Removed { instances, waiting } = cache.remove(file);
        for instance in instances {
            self.doom(instance);
        }
        self.note_kept(service, target);
        for rpc in waiting {
            self.store_request(rpc);
        }
    }

    /// Let the run start with a file in the memory of the server that passes it on, or in its
    /// cache as far as there is room.
    pub(super) fn warm_server(&mut self, service: u32, file: u32) {
        let s = &self.services[service as usize];
        let f = &s.files[file as usize];
        let (bytes, count) = (f.bytes, s.targets.len() as u32);
        let target = s.layout.target(f, 0, s.replicas, count, None);
        self.services[service as usize].files[file as usize].opened = true;
        let Some(cache) = self.block_cache(service, target) else {
            self.part_instance(service, file, 0, target);
            return;
        };
        let mount = cache.mount;
        if !cache.has_room(bytes) {
            return;
        }
        let instance = self.new_file_on(mount, bytes);
        if let Some(cache) = self.block_cache(service, target) {
            cache.add(file, instance);
            cache.fill(file, bytes);
        }
        self.note_kept(service, target);
    }

    /// Return when the upstream has answered a server that opens or changes a file at `time`. An
    /// unchanged file is opened there once.
    pub(super) fn upstream_answer(
        &mut self,
        service: u32,
        file: u32,
        changes: bool,
        time: Nanos,
    ) -> Nanos {
        let s = &mut self.services[service as usize];
        let (Some(upstream), host) = (s.upstream, s.targets[0].host) else { return time };
        let Some(f) = s.files.get_mut(file as usize) else { return time };
        let Some(behind) = f.upstream else { return time };
        if std::mem::replace(&mut f.opened, true) && !changes {
            return time;
        }
        let round_trips = self.services[upstream as usize].settled.open_round_trips;
        self.metadata_answer_from(time, upstream, behind, host, changes, round_trips)
    }
}
