//! From a scenario to a world that is ready to run.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use headrace_model::filesystem::Filesystem;
use headrace_model::ideal::IdealDrive;
use headrace_model::link::{Network, Port};
use headrace_model::pagecache::{PageCache, PAGE_BYTES};
use headrace_model::scheduler::{BlockQueue, QueueSpec};
use headrace_model::spec::{DriveSpec, SpecError};
use headrace_model::storage::Storage;
use headrace_model::stream::name_hash;
use headrace_model::virtualisation::{VirtualDisk, VirtualDiskSpec};
use headrace_model::Device;

use crate::cpu::Cpu;
use crate::feed::{Feeder, SetFiles, Slot};
use crate::journal::Journal;
use crate::layout::Layout;
use crate::outcome::Counters;
use crate::program::{compile, Instruction};
use crate::queue::EventQueue;
use crate::remote::{Service, ServiceTotals, Target};
use crate::scenario::{
    CacheState, ClientReadAhead, FaultKind, Feed, HostSpec, Place, Scenario, ScenarioError, Share, VolumeSpec,
};
use crate::storage::page_end;
use crate::world::{Backend, Event, Host, Mount, Sampler, Slab, Volume, World, NONE};

fn at(path: &str, error: SpecError) -> ScenarioError {
    ScenarioError { path: format!("{path}.{}", error.field), given: error.given, allowed: error.allowed }
}

/// The block layer of a volume: its drive, with what virtualisation and faults put around it, and the queues.
fn block_layer(
    scenario: &Scenario,
    host: &HostSpec,
    host_name: &str,
    volume: &VolumeSpec,
    path: &str,
) -> Result<BlockQueue, ScenarioError> {
    let queue_spec = |depth: u32| QueueSpec {
        scheduler: volume.scheduler.clone(),
        nr_requests: volume.nr_requests,
        queue_depth: volume.queue_depth.unwrap_or(depth),
        max_request_bytes: volume.max_request_bytes,
    };
    let seed = scenario.seed ^ name_hash(&format!("{host_name}/{}", volume.name));
    let mut members = 1;
    let (mut device, depth): (Box<dyn Device + Send>, u32) = match (&volume.storage, &volume.ideal) {
        (Some(spec), _) => {
            let depth = spec.drives.first().map_or(1, DriveSpec::queue_depth);
            let storage = Storage::build_queued(spec, seed, Some(&queue_spec(depth)))
                .map_err(|error| at(&format!("{path}.storage"), error))?;
            members = spec.raid.as_ref().map_or(1, |raid| raid.drives);
            (Box::new(storage), depth)
        }
        (None, Some(spec)) => (Box::new(IdealDrive::new(spec, seed)), (spec.channels * 2).max(32)),
        (None, None) => {
            return Err(ScenarioError::new(path, "neither", "exactly one of storage and ideal"));
        }
    };
    if let Some(machine) = &host.virtualisation {
        let spec = VirtualDiskSpec {
            request_ns: machine.disk_request_ns,
            write_request_bytes: machine.write_request_bytes,
            write_bytes_per_s: machine.write_bytes_per_s,
            write_through: machine.write_through,
        };
        // The guest has a queue of its own over what the hypervisor shows it.
        device = Box::new(VirtualDisk::new(device, spec));
        return Ok(BlockQueue::new(device, &queue_spec(depth.saturating_mul(members))));
    }
    Ok(if members > 1 {
        BlockQueue::passing_on(device, volume.nr_requests.saturating_mul(members))
    } else {
        BlockQueue::new(device, &queue_spec(depth))
    })
}

fn host_name(spec: &HostSpec, number: u32) -> String {
    if spec.count == 1 {
        spec.name.clone()
    } else {
        format!("{}[{number}]", spec.name)
    }
}

/// What one flow of a host may reach: its port's limit, and what its buffers can hold on their way.
fn port(spec: &HostSpec) -> Port {
    let p = &spec.network;
    let round_trip_s = 4.0 * p.latency_ns as f64 * 1e-9;
    let positive = |value: f64| if value > 0.0 { value } else { f64::INFINITY };
    let buffered = |bytes: u64| {
        if bytes == 0 || round_trip_s == 0.0 {
            f64::INFINITY
        } else {
            bytes as f64 / round_trip_s
        }
    };
    Port {
        // Packets of 1500 bytes that may be on their way at once bound the host, the socket buffer one flow.
        send_bytes_per_s: p.rate_bytes_per_s.min(buffered(p.transmit_queue_packets * 1500)),
        receive_bytes_per_s: p.rate_bytes_per_s,
        flow_bytes_per_s: positive(p.flow_bytes_per_s).min(buffered(p.socket_buffer_bytes)),
    }
}

impl<'a> World<'a> {
    /// Builds everything; nothing has happened yet.
    pub fn build(scenario: &'a Scenario) -> Result<Self, ScenarioError> {
        let specs: Vec<(bool, usize, &HostSpec)> = scenario
            .nodes
            .iter()
            .enumerate()
            .map(|(i, spec)| (true, i, spec))
            .chain(scenario.servers.iter().enumerate().map(|(i, spec)| (false, i, spec)))
            .collect();
        let ports: Vec<Port> =
            specs.iter().flat_map(|(_, _, spec)| vec![port(spec); spec.count as usize]).collect();
        let mut world = World {
            scenario,
            now: 0,
            events: EventQueue::default(),
            hosts: Vec::new(),
            volumes: Vec::new(),
            mounts: Vec::new(),
            services: Vec::new(),
            instances: Slab::default(),
            ios: Slab::default(),
            ops: Slab::default(),
            rpcs: Slab::default(),
            tasks: Slab::default(),
            network: Network::new(&ports),
            network_timer: None,
            client_instances: HashMap::new(),
            lustre: HashMap::new(),
            program: Vec::new(),
            feeder: Feeder::default(),
            jobs: Vec::new(),
            counters: Counters::default(),
            over: false,
            completions: Vec::new(),
        };
        for (is_node, spec_number, spec) in specs {
            for number in 0..spec.count {
                world.add_host(is_node, spec_number, spec, number)?;
            }
        }
        world.add_services();
        world.add_slots();
        world.add_files()?;
        world.compile()?;
        if let Feed::Packets(spec) = &scenario.run.feed {
            world.prepare_packets(spec);
        }
        for (number, fault) in scenario.faults.iter().enumerate() {
            let number = number as u32;
            world.events.schedule(fault.at_ns, 0, Event::Fault { number, ends: false });
            if fault.for_ns > 0 {
                world.events.schedule(fault.at_ns + fault.for_ns, 0, Event::Fault { number, ends: true });
            }
        }
        world.release_jobs();
        Ok(world)
    }

    fn uses(&self, spec: &HostSpec) -> bool {
        let run = &self.scenario.run;
        run.nodes.is_empty() || run.nodes.contains(&spec.name)
    }

    fn add_host(
        &mut self,
        is_node: bool,
        spec_number: usize,
        spec: &HostSpec,
        number: u32,
    ) -> Result<(), ScenarioError> {
        let run = &self.scenario.run;
        let index = self.hosts.len() as u32;
        let name = host_name(spec, number);
        let jobs_bytes = if is_node && self.uses(spec) {
            let profile = self.scenario.profiles.iter().find(|p| p.name == run.profile);
            u64::from(run.slots_per_node) * profile.map_or(0, |p| p.memory_bytes)
        } else {
            0
        };
        let mapped_bytes = spec.memory_reserved_bytes + jobs_bytes;
        let cache_bytes = spec.memory_bytes - mapped_bytes;
        let cache = PageCache::new(cache_bytes);
        let (background_pages, dirty_limit_pages) =
            spec.writeback.limits_pages(cache_bytes, spec.memory_bytes, mapped_bytes);
        let (factor, extra_latency) =
            spec.virtualisation.map_or((1.0, 0), |machine| (machine.cpu_factor, machine.network_ns));
        self.hosts.push(Host {
            name: name.clone(),
            is_node,
            spec: spec_number as u32,
            cpu: Cpu::new(spec.cores, spec.cpu_speed * factor, spec.sharing),
            cpu_timer: None,
            cache,
            call_ns: spec.call_ns,
            create_ns: spec.create_ns,
            remove_ns: spec.remove_ns,
            copy_ns_per_byte: 1e9 / spec.copy_bytes_per_s,
            latency_ns: spec.network.latency_ns + extra_latency,
            dirty_limit_pages,
            background_pages,
            dirty_expire_ns: spec.writeback.dirty_expire_ns,
            dirty_writeback_ns: spec.writeback.dirty_writeback_ns,
            throttled: VecDeque::new(),
            read_ahead: spec.read_ahead,
            mounts: Vec::new(),
            down: false,
            sent_bytes: 0,
            received_bytes: 0,
        });
        let group = if is_node { "nodes" } else { "servers" };
        for (volume_number, volume) in spec.volumes.iter().enumerate() {
            let path = format!("{group}[{spec_number}].volumes[{volume_number}]");
            self.add_volume(index, spec, &name, volume, &path)?;
        }
        Ok(())
    }

    fn add_volume(
        &mut self,
        host: u32,
        spec: &HostSpec,
        host_name: &str,
        volume: &VolumeSpec,
        path: &str,
    ) -> Result<(), ScenarioError> {
        let queue = block_layer(self.scenario, spec, host_name, volume, path)?;
        let capacity = queue.capacity_sectors();
        let index = self.volumes.len() as u32;
        let mount = self.add_mount(
            host,
            Backend::Volume(index),
            page_end(volume.read_ahead_bytes),
            volume.nr_requests,
        );
        self.mounts[mount as usize].large_read_pages = page_end(volume.large_read_bytes);
        let seed = self.scenario.seed ^ name_hash(host_name);
        let interval = self.scenario.observe.series_interval_ns;
        self.volumes.push(Volume {
            host,
            name: volume.name.clone(),
            queue,
            timer: None,
            fs: Filesystem::new(&volume.filesystem, capacity, seed),
            mount,
            metadata: NONE,
            max_bio_pages: page_end(volume.max_request_bytes).max(1),
            journal: Journal::default(),
            series: (interval > 0).then(|| Sampler::new(interval)),
        });
        let metadata = self.new_instance(mount, NONE, 0);
        self.instances[metadata].is_metadata = true;
        // Metadata blocks have numbers of their own, far fewer than this.
        self.instances[metadata].bytes = u64::from(u32::MAX) * PAGE_BYTES;
        self.volumes[index as usize].metadata = metadata;
        Ok(())
    }

    fn add_mount(&mut self, host: u32, backend: Backend, read_ahead_pages: u32, writing_limit: u32) -> u32 {
        let index = self.mounts.len() as u32;
        self.mounts.push(Mount {
            host,
            backend,
            read_ahead_pages,
            large_read_pages: 0,
            exact: false,
            dirty: VecDeque::new(),
            urgent: VecDeque::new(),
            writing: 0,
            writing_limit: writing_limit.max(1),
            timer: None,
            pumping: false,
        });
        self.hosts[host as usize].mounts.push(index);
        index
    }

    /// Hosts that a name stands for.
    fn hosts_named(&self, name: &str) -> Vec<u32> {
        let plain = |host: &Host| host.name.split('[').next() == Some(name);
        (0..self.hosts.len() as u32).filter(|&h| plain(&self.hosts[h as usize])).collect()
    }

    fn add_services(&mut self) {
        for (number, spec) in self.scenario.services.iter().enumerate() {
            let mut settled = spec.tuning.settle(spec.kind);
            // A client's cache sends each page to one server; copies are made from there.
            settled.replica_pipeline |= settled.write_back;
            let mut targets = Vec::new();
            for target in &spec.targets {
                for host in self.hosts_named(&target.host) {
                    let volume = self.volumes.iter().find(|v| v.host == host && v.name == target.volume);
                    let mount = volume.map(|v| v.mount).expect("checked: the host has that volume");
                    targets.push(Target {
                        host,
                        mount,
                        free_threads: (0..settled.server_threads).rev().collect(),
                        waiting: VecDeque::new(),
                        stored_bytes: 0,
                    });
                }
            }
            let count = targets.len() as u32;
            let threads = settled.metadata_threads as usize;
            let service = Service {
                layout: Layout::of(
                    spec.kind,
                    settled.stripe_bytes,
                    settled.stripe_targets,
                    settled.block_bytes,
                    count,
                ),
                replicas: settled.replicas.min(count),
                metadata: (0..settled.metadata_servers)
                    .map(|_| (0..threads).map(|_| Reverse(0)).collect())
                    .collect(),
                suspected: vec![false; targets.len()],
                targets,
                files: Vec::new(),
                free_files: Vec::new(),
                made: 0,
                channels: Vec::new(),
                parked: Vec::new(),
                totals: ServiceTotals::default(),
                settled,
            };
            self.services.push(service);
            let s = &self.services[number].settled;
            let (read_ahead, exact) = match s.client_read_ahead {
                ClientReadAhead::Kernel { bytes } => (page_end(bytes), false),
                ClientReadAhead::None | ClientReadAhead::Lustre { .. } => (0, true),
            };
            let limit = s.requests_in_flight.saturating_mul(count).max(1);
            for host in 0..self.hosts.len() as u32 {
                let mount = self.add_mount(host, Backend::Service(number as u32), read_ahead, limit);
                self.mounts[mount as usize].exact = exact;
            }
        }
    }

    fn add_slots(&mut self) {
        let run = &self.scenario.run;
        for host in 0..self.hosts.len() as u32 {
            let h = &self.hosts[host as usize];
            if !h.is_node || !self.uses(&self.scenario.nodes[h.spec as usize]) {
                continue;
            }
            for number in 0..run.slots_per_node {
                self.feeder.slots.push(Slot { host, number, task: NONE });
            }
        }
    }

    fn mount_of(&self, host: u32, backend: impl Fn(&Mount) -> bool) -> u32 {
        let mounts = &self.hosts[host as usize].mounts;
        mounts.iter().copied().find(|&m| backend(&self.mounts[m as usize])).unwrap_or(NONE)
    }

    fn add_files(&mut self) -> Result<(), ScenarioError> {
        let mut hosts: Vec<u32> = self.feeder.slots.iter().map(|slot| slot.host).collect();
        hosts.dedup();
        let all = self.hosts.len();
        for (number, set) in self.scenario.files.iter().enumerate() {
            let mut files = SetFiles { mount: vec![NONE; all], service: NONE, ..SetFiles::default() };
            let full = |given: u64| {
                let path = format!("files[{number}].bytes");
                ScenarioError::new(
                    path,
                    format!("{} files of {given} bytes", set.count),
                    "what the volume has room for",
                )
            };
            match &set.on {
                Place::Volume(name) => {
                    files.local = vec![Vec::new(); all];
                    files.turn = vec![0; all];
                    for &host in &hosts {
                        let volume = self.volumes.iter().position(|v| v.host == host && v.name == *name);
                        let volume = volume.expect("checked: each node has the volume");
                        let mount = self.volumes[volume].mount;
                        files.mount[host as usize] = mount;
                        if set.share == Share::New {
                            continue;
                        }
                        for _ in 0..set.count {
                            let file = self.volumes[volume]
                                .fs
                                .create_filled(set.bytes)
                                .map_err(|_| full(set.bytes))?;
                            let instance = self.new_instance(mount, file, set.bytes);
                            files.local[host as usize].push(instance);
                        }
                    }
                }
                Place::Service(name) => {
                    let service = self.scenario.services.iter().position(|s| s.name == *name);
                    let service = service.expect("checked: the service exists") as u32;
                    files.service = service;
                    files.turn = vec![0];
                    for host in 0..all as u32 {
                        files.mount[host as usize] =
                            self.mount_of(host, |m| m.backend == Backend::Service(service));
                    }
                    if set.share != Share::New {
                        for _ in 0..set.count {
                            let file = self.place_service_file(service, set.bytes);
                            files.remote.push(file);
                        }
                    }
                    if self.counters.out_of_space > 0 {
                        return Err(full(set.bytes));
                    }
                }
            }
            self.feeder.sets.push(files);
        }
        if self.scenario.cache == CacheState::Warm {
            self.warm_caches();
        }
        Ok(())
    }

    /// Fills the caches with the files, in order, as far as they go: of the nodes for local files, of servers for theirs.
    fn warm_caches(&mut self) {
        for index in 0..self.instances.len() as u32 {
            let i = &self.instances[index];
            if i.is_metadata {
                continue;
            }
            let (file, pages) = (i.cache_file, page_end(i.bytes));
            let host = self.mounts[i.mount as usize].host as usize;
            let cache = &mut self.hosts[host].cache;
            let mut page = 0;
            while page < pages && cache.used_pages() + 1024 < cache.capacity_pages() {
                let piece = PageCache::piece(page, pages - page);
                let extent = cache.start_reading(file, page, piece, NONE);
                cache.finish_reading(extent);
                page += piece;
            }
        }
        for host in &mut self.hosts {
            host.cache.counters = Default::default();
        }
    }

    fn compile(&mut self) -> Result<(), ScenarioError> {
        let run = &self.scenario.run;
        let number = self.scenario.profiles.iter().position(|p| p.name == run.profile).unwrap_or_default();
        let packets = run.feed != Feed::Files;
        if packets {
            // Ask, work, ask again, until the master has nothing left.
            self.program.push(Instruction::Loop { times: u64::MAX, end: 0 });
            self.program.push(Instruction::Packet);
        }
        let steps = &self.scenario.profiles[number].steps;
        compile(steps, &self.scenario.files, &format!("profiles[{number}]"), &mut self.program)?;
        if packets {
            self.program.push(Instruction::Again { start: 0 });
        }
        Ok(())
    }

    /// A fault of a link or a server begins or ends. Those of drives run by themselves.
    pub fn fault(&mut self, number: u32, ends: bool) {
        let fault = &self.scenario.faults[number as usize];
        if !ends {
            self.counters.faults_fired += 1;
        }
        let named = (0..self.hosts.len() as u32).find(|&h| self.hosts[h as usize].name == fault.host);
        let Some(host) = named.or_else(|| self.hosts_named(&fault.host).first().copied()) else { return };
        match fault.what {
            FaultKind::LinkSlow { factor } => {
                let h = &self.hosts[host as usize];
                let group = if h.is_node { &self.scenario.nodes } else { &self.scenario.servers };
                let port = port(&group[h.spec as usize]);
                let factor = if ends { 1.0 } else { factor.max(1e-6) };
                let (send, receive) = (port.send_bytes_per_s * factor, port.receive_bytes_per_s * factor);
                self.network.set_rate(self.now, host, send, receive);
                self.set_network_timer();
            }
            FaultKind::ServerDown => {
                self.hosts[host as usize].down = !ends;
                if ends {
                    self.unpark(host);
                }
            }
        }
    }
}
