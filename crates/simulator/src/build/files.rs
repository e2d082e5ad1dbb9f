//! Creates the files that exist before the run, on volumes and services, and warms the caches.

use std::sync::atomic::{AtomicBool, Ordering};

use headrace_model::pagecache::PageCache;
use headrace_model::request::{Medium, StoredOrder};

use crate::ids::InstanceId;
use crate::scenario::{CacheState, FileSetSpec, Place, ScenarioError, ServiceKind, Share};
use crate::storage::page_end;
use crate::world::{Content, Mount, Mounted, SetFiles, SetPlace, World};

impl World<'_> {
    pub(super) fn add_files(&mut self, cancel: &AtomicBool) -> Result<(), ScenarioError> {
        let mut hosts: Vec<u32> = self.feeder.slots.iter().map(|slot| slot.host).collect();
        hosts.dedup();
        for (number, set) in self.scenario.files.iter().enumerate() {
            let files = match &set.on {
                Place::Volume(name) => self.add_local_files(set, name, &hosts),
                Place::Service(name) => self.add_service_files(set, name),
            };
            let Some(files) = files else {
                let given = format!("{} files of {} bytes", set.count, set.bytes);
                let path = format!("files[{number}].bytes");
                return Err(ScenarioError::new(path, given, "what the volume has room for"));
            };
            self.feeder.sets.push(files);
        }
        // Formatting and copying are complete before the run: their data is on the drives.
        for volume in &mut self.volumes {
            if cancel.load(Ordering::Relaxed) {
                break;
            }
            if volume.fs.spec().discarded() {
                volume.queue.trim(&[(0, volume.fs.sectors())]);
            }
            volume.queue.preload(&volume.fs.stored(), StoredOrder::Written);
        }
        if self.scenario.cache == CacheState::Warm {
            self.warm_caches();
        }
        Ok(())
    }

    /// Create a set's files on the volume `name` of the hosts with job slots. Return `None` if a
    /// volume is full.
    fn add_local_files(
        &mut self,
        set: &FileSetSpec,
        name: &str,
        hosts: &[u32],
    ) -> Option<SetFiles> {
        let all = self.hosts.len();
        let mut mount = vec![None; all];
        let mut local = vec![Vec::new(); all];
        for &host in hosts {
            let volume = self.volumes.iter().position(|v| v.host == host && v.name == name);
            let volume = volume.expect("checked: each node has the volume");
            let on = self.volumes[volume].mount;
            mount[host as usize] = Some(on);
            if set.share == Share::New {
                continue;
            }
            for _ in 0..set.count {
                let file = self.volumes[volume].fs.create_filled(set.bytes).ok()?;
                let instance = self.new_instance(on, Content::File(file), set.bytes);
                local[host as usize].push(instance);
            }
        }
        Some(SetFiles { place: SetPlace::Volumes(local), mount, turn: vec![0; all] })
    }

    /// Create a set's files in a service. Return `None` if a volume is full.
    fn add_service_files(&mut self, set: &FileSetSpec, name: &str) -> Option<SetFiles> {
        let service = self.scenario.services.iter().position(|s| s.name == name);
        let service = service.expect("checked: the service exists") as u32;
        let mount = (0..self.hosts.len() as u32)
            .map(|host| self.mount_of(host, |m| m.mounted == Mounted::Service(service)))
            .collect();
        let mut files = Vec::new();
        if set.share != Share::New {
            for number in 0..set.count {
                let turn = set.in_turn.then_some(number);
                let file = self.place_service_file(service, set.bytes, turn);
                files.push(file);
                self.warm_upstreams(service, file);
            }
        }
        if self.counters.out_of_space > 0 {
            return None;
        }
        let place = SetPlace::Service { service, files };
        Some(SetFiles { place, mount, turn: vec![0] })
    }

    /// Know the files of services on all nodes, as their clients do that have read them.
    fn open_on_nodes(&mut self) {
        for set in 0..self.feeder.sets.len() {
            let SetFiles { place: SetPlace::Service { service, files }, mount, .. } =
                &self.feeder.sets[set]
            else {
                continue;
            };
            // GlusterFS's client forgets the pages of a file that is opened again
            // (fopen-keep-cache is off).
            let forgets = self.scenario.services[*service as usize].kind == ServiceKind::Glusterfs;
            if forgets || !self.services[*service as usize].settled.client_cache {
                continue;
            }
            let (service, files) = (*service, files.clone());
            let hosts = self.feeder.slots.iter().map(|slot| slot.host);
            let mut mounts: Vec<u32> = hosts.filter_map(|host| mount[host as usize]).collect();
            mounts.dedup();
            for mount in mounts {
                for &file in &files {
                    self.client_instance(mount, service, file);
                }
            }
        }
    }

    /// Fill the caches with the files, in order, as far as they fit: server caches with the servers'
    /// files, node caches with local files and with those of services whose clients cache. Who
    /// read a file before read its inode and the blocks that map it, too.
    fn warm_caches(&mut self) {
        self.open_on_nodes();
        for index in self.instances.ids() {
            let i = &self.instances[index];
            if i.is_metadata() {
                continue;
            }
            self.warm_metadata(index);
            let i = &self.instances[index];
            let (file, pages) = (i.cache_file, page_end(i.bytes));
            let host = self.mounts[i.mount as usize].host as usize;
            let cache = &mut self.hosts[host].cache;
            let mut page = 0;
            while page < pages && cache.used_pages() + 1024 < cache.capacity_pages() {
                let piece = PageCache::piece(page, pages - page);
                cache.fill(file, page, piece);
                page += piece;
            }
        }
        for host in &mut self.hosts {
            host.cache.counters = Default::default();
        }
    }

    /// Fill the cache of a file's host with the blocks of its inode and of its map.
    fn warm_metadata(&mut self, instance: InstanceId) {
        let i = &self.instances[instance];
        let mount = &self.mounts[i.mount as usize];
        let Mounted::Volume(volume) = mount.mounted else { return };
        let v = &self.volumes[volume as usize];
        let (file, pages) = (i.file(), page_end(i.bytes));
        let mut blocks = vec![v.fs.inode(file)];
        let mut page = 0;
        while page < pages {
            let (map, until) = v.fs.metadata_for(file, page);
            blocks.extend(map);
            page = until;
        }
        let table = self.instances[v.metadata].cache_file;
        let cache = &mut self.hosts[mount.host as usize].cache;
        for block in blocks {
            if cache.find(table, block).is_none() {
                cache.fill(table, block, 1);
            }
        }
    }

    /// Let a warm run start with a file in the servers between its clients and its volume.
    fn warm_upstreams(&mut self, service: u32, file: u32) {
        if self.scenario.cache != CacheState::Warm {
            return;
        }
        let (mut service, mut file) = (service, file);
        while let Some(upstream) = self.services[service as usize].upstream {
            self.warm_server(service, file);
            let Some(behind) = self.services[service as usize].files[file as usize].upstream else {
                return;
            };
            (service, file) = (upstream, behind);
        }
    }

    fn mount_of(&self, host: u32, mounted: impl Fn(&Mount) -> bool) -> Option<u32> {
        let mounts = &self.hosts[host as usize].mounts;
        let suits = |mount: &Mount| !mount.of_server && mounted(mount);
        mounts.iter().copied().find(|&m| suits(&self.mounts[m as usize]))
    }
}
