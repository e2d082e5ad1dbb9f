//! Builds services: their data servers on the hosts' volumes, and a mount on every host.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::layout::Layout;
use crate::remote::{Service, ServiceTotals, Target};
use crate::scenario::ClientReadAhead;
use crate::storage::page_end;
use crate::world::{Backend, World};

impl World<'_> {
    pub(super) fn add_services(&mut self) {
        for (number, spec) in self.scenario.services.iter().enumerate() {
            let mut settled = spec.tuning.settle(spec.kind);
            // A client's cache sends each page to one server; that server makes the copies.
            settled.replica_pipeline |= settled.write_back;
            let mut targets = Vec::new();
            for target in &spec.targets {
                for host in self.hosts_named(&target.host) {
                    let volume =
                        self.volumes.iter().find(|v| v.host == host && v.name == target.volume);
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
                let mount =
                    self.add_mount(host, Backend::Service(number as u32), read_ahead, limit);
                self.mounts[mount as usize].exact = exact;
            }
        }
    }
}
