//! Builds hosts: cores, page cache and network port, and their volumes with one mount each.

use std::collections::VecDeque;

use headrace_model::filesystem::Filesystem;
use headrace_model::link::Port;
use headrace_model::pagecache::{PageCache, PAGE_BYTES};
use headrace_model::stream::name_hash;
use headrace_model::{Medium, SECTOR_BYTES};

use super::block_layer::block_layer;
use crate::cpu::Cpu;
use crate::scenario::{HostSpec, ScenarioError, VolumeSpec};
use crate::storage::page_end;
use crate::world::{Content, Host, Journal, Mount, Mounted, Sampler, Volume, World};

/// Smallest filesystem.
const SMALLEST_BYTES: u64 = 1 << 20;

fn host_name(spec: &HostSpec, number: u32) -> String {
    if spec.count == 1 {
        spec.name.clone()
    } else {
        format!("{}[{number}]", spec.name)
    }
}

/// Return a value, or `default` for 0.
fn given(value: f64, default: f64) -> f64 {
    if value > 0.0 {
        value
    } else {
        default
    }
}

/// Return a host's port: the configured rates, and what its buffers allow in flight.
pub(crate) fn port(spec: &HostSpec) -> Port {
    let p = &spec.network;
    let latency_s = p.latency_ns as f64 * 1e-9;
    let limited = |value: f64| if value > 0.0 { value } else { f64::INFINITY };
    // Packets of 1448 bytes of data limit the host, over a round trip to one of equal latency.
    let queued = limited(p.transmit_queue_packets as f64 * 1448.0 / (4.0 * latency_s));
    Port {
        send_bytes_per_s: p.rate_bytes_per_s.min(queued),
        receive_bytes_per_s: p.rate_bytes_per_s,
        flow_bytes_per_s: limited(p.flow_bytes_per_s),
        flow_window_bytes: limited(p.socket_buffer_bytes as f64),
        latency_s,
    }
}

/// Return the sectors of a volume's filesystem.
fn partition_sectors(volume: &VolumeSpec, capacity: u64, path: &str) -> Result<u64, ScenarioError> {
    let Some(bytes) = volume.size_bytes else { return Ok(capacity) };
    let most = capacity * SECTOR_BYTES;
    if !(SMALLEST_BYTES..=most).contains(&bytes) {
        let allowed = format!("{SMALLEST_BYTES} to {most}, the size of its drive");
        return Err(ScenarioError::new(format!("{path}.size_bytes"), bytes, &allowed));
    }
    Ok(bytes / SECTOR_BYTES)
}

impl World<'_> {
    pub(super) fn add_host(
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
        let cache = PageCache::new(cache_bytes, spec.page_reclaim);
        let (background_pages, dirty_limit_pages) =
            spec.writeback.limits_pages(cache_bytes, spec.memory_bytes, mapped_bytes);
        let (factor, extra_latency) = spec
            .virtualisation
            .map_or((1.0, 0), |machine| (machine.cpu_factor, machine.network_ns));
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
            beside_job_ns: spec.beside_job_ns,
            beside_request_ns: spec.beside_request_ns,
            copy_ns_per_byte: 1e9 / spec.copy_bytes_per_s,
            write_copy_ns_per_byte: 1e9 / given(spec.write_copy_bytes_per_s, spec.copy_bytes_per_s),
            first_touch_ns_per_byte: 1e9 / given(spec.first_touch_bytes_per_s, f64::INFINITY),
            memory_bytes: spec.memory_bytes,
            mapped_bytes,
            held_bytes: 0,
            writeback: spec.writeback,
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
        let capacity = partition_sectors(volume, queue.capacity_sectors(), path)?;
        let index = self.volumes.len() as u32;
        let mount = self.add_mount(
            host,
            Mounted::Volume(index),
            page_end(volume.read_ahead_bytes),
            volume.nr_requests,
        );
        self.mounts[mount as usize].large_read_pages = page_end(volume.large_read_bytes);
        let seed = self.scenario.seed ^ name_hash(host_name);
        let interval = self.scenario.observe.series_interval_ns;
        // Metadata blocks are numbered separately; there are far fewer than this.
        let blocks_bytes = u64::from(u32::MAX) * PAGE_BYTES;
        let metadata = self.new_instance(mount, Content::Metadata, blocks_bytes);
        self.volumes.push(Volume {
            host,
            name: volume.name.clone(),
            queue,
            timer: None,
            fs: Filesystem::new(&volume.filesystem, capacity, seed),
            mount,
            metadata,
            max_bio_pages: page_end(volume.max_request_bytes).max(1),
            journal: Journal::default(),
            series: (interval > 0).then(|| Sampler::new(interval)),
        });
        Ok(())
    }

    pub(super) fn add_mount(
        &mut self,
        host: u32,
        mounted: Mounted,
        read_ahead_pages: u32,
        writing_limit: u32,
    ) -> u32 {
        let index = self.mounts.len() as u32;
        self.mounts.push(Mount {
            host,
            mounted,
            of_server: false,
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
}
