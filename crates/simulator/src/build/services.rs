//! Builds services: their data servers on the hosts' volumes or before other services, and a mount
//! on every host.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use headrace_model::pagecache::readahead::ReadAheadRules;
use headrace_model::pagecache::PAGE_BYTES;
use headrace_model::slots::Id;
use rustc_hash::FxHashMap;

use crate::block_cache::BlockCache;
use crate::layout::Layout;
use crate::outcome::UpstreamOutcome;
use crate::remote::{Backend, Service, ServiceTotals, Target};
use crate::scenario::{
    BackendSpec, ClientReadAhead, MetadataSpec, ServiceKind, ServiceSpec, TargetSpec,
};
use crate::storage::page_end;
use crate::world::{Mounted, World};

/// Return totals of nothing yet, with those of an upstream if the service has one.
fn totals(spec: &ServiceSpec) -> ServiceTotals {
    let mut totals = ServiceTotals::default();
    totals.outcome.upstream = spec.upstream().map(|service| UpstreamOutcome {
        service: service.to_owned(),
        ..UpstreamOutcome::default()
    });
    totals
}

impl World<'_> {
    pub(super) fn add_services(&mut self) {
        for (number, spec) in self.scenario.services.iter().enumerate() {
            let mut settled = spec.tuning.settle(spec.kind);
            // A client's cache sends each page to one server; that server makes the copies.
            settled.replica_pipeline |= settled.write_back;
            let targets = self.add_targets(&spec.targets, settled.server_threads);
            let count = targets.len() as u32;
            let threads = settled.metadata_threads as usize;
            let upstream = spec.upstream().and_then(|name| self.service_named(name));
            let upstream = upstream.map(|number| number as u32);
            let service = Service {
                layout: Layout::of(
                    spec.kind,
                    settled.stripe_bytes,
                    settled.stripe_targets,
                    settled.block_bytes,
                    count,
                    settled.parity_targets,
                ),
                parity: settled.parity_targets,
                primary_reads: spec.kind == ServiceKind::Cephfs,
                replicas: settled.replicas.min(count),
                metadata: (0..settled.metadata_servers)
                    .map(|_| (0..threads).map(|_| Reverse(0)).collect())
                    .collect(),
                suspected: vec![false; targets.len()],
                targets,
                upstream,
                metadata_by: None,
                inodes: BTreeMap::new(),
                files: Vec::new(),
                free_files: Vec::new(),
                made: 0,
                channels: Vec::new(),
                connections: FxHashMap::default(),
                parked: Vec::new(),
                totals: totals(spec),
                settled,
            };
            self.services.push(service);
            for host in 0..self.hosts.len() as u32 {
                self.add_service_mount(host, number, false);
            }
        }
        for (number, spec) in self.scenario.services.iter().enumerate() {
            if let Some(metadata) = &spec.metadata {
                self.services[number].metadata_by = Some(self.services.len() as u32);
                self.add_metadata_servers(number, metadata);
            }
        }
    }

    /// Add the metadata servers of a service: a service without files of its own, whose requests
    /// use threads, cores and drives as all others.
    fn add_metadata_servers(&mut self, of: usize, spec: &MetadataSpec) {
        let backend = BackendSpec::Volume { volume: spec.volume.clone() };
        let target = TargetSpec { host: spec.host.clone(), backend };
        let mut settled = self.services[of].settled.clone();
        settled.server_threads = settled.metadata_threads;
        settled.requests_in_flight = u32::MAX;
        let targets = self.add_targets(&[target], settled.server_threads);
        self.services.push(Service {
            layout: Layout::Whole,
            parity: 0,
            primary_reads: false,
            replicas: 1,
            metadata: Vec::new(),
            suspected: vec![false; targets.len()],
            targets,
            upstream: None,
            metadata_by: None,
            inodes: BTreeMap::new(),
            files: Vec::new(),
            free_files: Vec::new(),
            made: 0,
            channels: Vec::new(),
            connections: FxHashMap::default(),
            parked: Vec::new(),
            totals: ServiceTotals::default(),
            settled,
        });
    }

    fn add_targets(&mut self, specs: &[TargetSpec], threads: u32) -> Vec<Target> {
        let mut targets = Vec::new();
        for target in specs {
            for host in self.hosts_named(&target.host) {
                let (mount, backend) = self.backend(host, &target.backend);
                targets.push(Target {
                    host,
                    mount,
                    backend,
                    free_threads: (0..threads as usize).rev().map(Id::at).collect(),
                    waiting: VecDeque::new(),
                    stored_bytes: 0,
                });
            }
        }
        targets
    }

    /// Return the mount that holds the files' parts of a data server, and its backend.
    fn backend(&mut self, host: u32, spec: &BackendSpec) -> (u32, Backend) {
        match spec {
            BackendSpec::Volume { volume } => {
                (self.volumes[self.volume_of(host, volume)].mount, Backend::Volume)
            }
            BackendSpec::Upstream { service, cache } => {
                let cache = cache.as_ref().map(|spec| {
                    let volume = &self.volumes[self.volume_of(host, &spec.volume)];
                    let free_bytes = volume.fs.free_blocks() * PAGE_BYTES;
                    Box::new(BlockCache::new(volume.mount, spec, free_bytes))
                });
                let number = self.service_named(service).expect("checked: the service exists");
                (self.add_service_mount(host, number, true), Backend::Upstream { cache })
            }
        }
    }

    fn volume_of(&self, host: u32, name: &str) -> usize {
        let found = self.volumes.iter().position(|v| v.host == host && v.name == name);
        found.expect("checked: the host has that volume")
    }

    fn service_named(&self, name: &str) -> Option<usize> {
        self.scenario.services.iter().position(|service| service.name == name)
    }

    /// Mount a service on a host, for its processes or for a file server on it.
    fn add_service_mount(&mut self, host: u32, number: usize, of_server: bool) -> u32 {
        let spec = &self.scenario.services[number];
        let settled = spec.tuning.settle(spec.kind);
        let count: usize = spec.targets.iter().map(|t| self.hosts_named(&t.host).len()).sum();
        let (read_ahead, exact) = match settled.client_read_ahead {
            ClientReadAhead::Kernel { bytes } => (page_end(bytes), false),
            ClientReadAhead::None | ClientReadAhead::Lustre { .. } => (0, true),
        };
        let limit = settled.requests_in_flight.saturating_mul(count as u32).max(1);
        let mounted = Mounted::Service(number as u32);
        let mount = self.add_mount(host, mounted, read_ahead, limit);
        let old_kernel = self.hosts[host as usize].read_ahead == ReadAheadRules::TwoWindows;
        let m = &mut self.mounts[mount as usize];
        (m.exact, m.of_server) = (exact, of_server);
        if spec.kind == ServiceKind::Nfs && !exact && !old_kernel {
            // `io_pages` of its backing device: a larger read is fetched in requests of rsize.
            m.large_read_pages = page_end(settled.read_request_bytes);
        }
        mount
    }
}
