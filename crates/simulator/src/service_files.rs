//! Files of a service, on its servers and as seen by clients, and its metadata servers.

use std::cmp::Reverse;

use headrace_model::Nanos;

use crate::ids::InstanceId;
use crate::layout::{mixed, Layout};
use crate::world::{Content, Mounted, World};

impl World<'_> {
    /// Return the instance of a file's part on a server; create it if it does not exist.
    pub(super) fn part_instance(
        &mut self,
        service: u32,
        file: u32,
        part: u32,
        target: u32,
    ) -> InstanceId {
        let f = &mut self.services[service as usize].files[file as usize];
        if f.parts.len() <= part as usize {
            f.parts.resize(part as usize + 1, None);
        }
        if let Some(instance) = f.parts[part as usize] {
            return instance;
        }
        let behind = f.upstream;
        let instance = match self.services[service as usize].upstream.zip(behind) {
            Some((upstream, behind)) => {
                let mount = self.services[service as usize].targets[target as usize].mount;
                self.client_instance(mount, upstream, behind)
            }
            None => self.new_part(service, target, 0),
        };
        self.services[service as usize].files[file as usize].parts[part as usize] = Some(instance);
        instance
    }

    pub(super) fn new_part(&mut self, service: u32, target: u32, bytes: u64) -> InstanceId {
        let mount = self.services[service as usize].targets[target as usize].mount;
        self.services[service as usize].targets[target as usize].stored_bytes += bytes;
        self.new_file_on(mount, bytes)
    }

    /// Create a file on the volume of a mount.
    pub(super) fn new_file_on(&mut self, mount: u32, bytes: u64) -> InstanceId {
        let Mounted::Volume(volume) = self.mounts[mount as usize].mounted else {
            unreachable!("files of a service are created in the service")
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
        self.new_instance(mount, Content::File(file), bytes)
    }

    /// Create a file that existed in the service before the run, on server `turn` if it is given.
    pub fn place_service_file(&mut self, service: u32, bytes: u64, turn: Option<u32>) -> u32 {
        let file = self.services[service as usize].new_file(bytes);
        if let Some(upstream) = self.services[service as usize].upstream {
            let behind = self.place_service_file(upstream, bytes, turn);
            self.services[service as usize].files[file as usize].upstream = Some(behind);
            return file;
        }
        let s = &mut self.services[service as usize];
        s.files[file as usize].coded_bytes = bytes;
        let (parity, s) = (s.parity as usize, &*s);
        let (layout, replicas, targets) = (s.layout, s.replicas, s.targets.len() as u32);
        if let Some(turn) = turn {
            self.services[service as usize].files[file as usize].first = turn % targets;
        }
        let parts: Vec<u64> = match layout {
            Layout::Whole => vec![bytes; replicas as usize],
            Layout::Striped { stripe_bytes, targets } => {
                let stripes = bytes.div_ceil(stripe_bytes);
                let n = u64::from(targets);
                let held = |t: u64| (((stripes + n - 1 - t) / n) * stripe_bytes).min(bytes);
                // Each parity object is as large as the largest data object.
                (0..n).map(held).chain(std::iter::repeat_n(held(0), parity)).collect()
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
            let instance = (bytes > 0).then(|| self.new_part(service, target, bytes));
            self.services[service as usize].files[file as usize].parts.push(instance);
        }
        file
    }

    pub fn delete_remote(&mut self, service: u32, file: u32) {
        let f = &mut self.services[service as usize].files[file as usize];
        f.live = false;
        let parts = std::mem::take(&mut f.parts);
        let behind = f.upstream.take();
        let s = &mut self.services[service as usize];
        s.free_files.push(file);
        let (upstream, targets) = (s.upstream, s.targets.len() as u32);
        if let (Some(upstream), Some(behind)) = (upstream, behind) {
            (0..targets).for_each(|target| self.uncache(service, target, file));
            if parts.iter().all(Option::is_none) {
                // No server opened it; else the server's instance of it deletes it.
                self.delete_remote(upstream, behind);
            }
        }
        for instance in parts.into_iter().flatten() {
            self.doom(instance);
        }
    }

    /// Return the time at which a client receives the reply to a metadata operation.
    pub fn metadata_answer(
        &mut self,
        service: u32,
        file: u32,
        client: u32,
        changes: bool,
        round_trips: u32,
    ) -> Nanos {
        let time = self.upstream_answer(service, file, changes, self.now);
        self.metadata_answer_from(time, service, file, client, changes, round_trips)
    }

    /// As `metadata_answer`, of a client that asks at `time`.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn metadata_answer_from(
        &mut self,
        mut time: Nanos,
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
        let service_ns =
            if changes { s.settled.metadata_write_ns } else { s.settled.metadata_read_ns };
        for _ in 0..round_trips.max(1) {
            let Reverse(free) = heap.pop().unwrap_or(Reverse(0));
            let done = free.max(time + way) + service_ns;
            heap.push(Reverse(done));
            time = done + way;
        }
        self.counters.service_requests += u64::from(round_trips);
        time
    }

    /// Return the instance of a service's file on a mount.
    pub fn client_instance(&mut self, mount: u32, service: u32, file: u32) -> InstanceId {
        if let Some(&instance) = self.client_instances.get(&(mount, file)) {
            return instance;
        }
        let bytes = self.services[service as usize].files[file as usize].bytes;
        let instance = self.new_instance(mount, Content::File(file), bytes);
        self.client_instances.insert((mount, file), instance);
        instance
    }
}
